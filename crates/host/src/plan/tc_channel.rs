//! Queue sets in hardware, as Intel's Application Device Queues have them: mqprio's channel mode makes classes of queues, flower
//! filters put received packets into them, and sent ones find theirs by priority.

use super::backend::{Backend, Classes, Receive};
use super::card::Card;
use super::draft::{Draft, Stage};
use super::flows::flows;
use super::place::Seats;
use super::queues::{self, Division};
use super::{Risk, rss_ntuple};
use crate::knob::{Direction, NicKnob};
use crate::rate::Rate;
use crate::spec::{Mode, Priority, Spec, rate};

/// Roots that a card has of itself: to remove ours brings them back.
pub(super) const OWN_ROOTS: &[&str] = &["mq", "noqueue", "pfifo_fast", "fq_codel", "fq"];
/// Roots that lanes make. They have lanes' handle, so that their text names none; somebody else's begins with `handle`.
const LANES_ROOTS: &[&str] = &["mqprio", "htb"];

/// Flags that keep the firmware's LLDP agent away, of ice and i40e (`ice_ethtool.c`, `i40e_ethtool.c`).
pub(crate) const LLDP_FLAGS: &[(&str, &str)] = &[("fw-lldp-agent", "off"), ("disable-fw-lldp", "on")];

/// Jiffies that a poller of the out-of-tree driver waits, as `adqsetup` has it.
const POLLER_TIMEOUT: u32 = 10_000;

pub(super) fn steps(draft: &mut Draft, card: &Card, spec: &Spec, seats: &Seats, division: &Division) {
    let Backend::TcChannel(classes) = card.backend else { return };
    let nic = card.nic;
    limits(draft, card, classes, spec, division);
    for (name, want) in LLDP_FLAGS.iter().filter(|(name, _)| nic.private_flags.contains_key(*name)) {
        let knob = NicKnob::PrivateFlag((*name).to_owned());
        let why = "the firmware's own LLDP agent would set classes of its own";
        let disturbed = card.disturbed_by_link(draft);
        let step = draft.want_nic(Stage::Card, nic, knob, want, why);
        if step.has_work() {
            step.add_risks(&[Risk::LinkFlap]).add_disturbs(disturbed);
        }
    }
    if classes.receive != Receive::Rules || nic.features.contains_key("hw-tc-offload") {
        card.feature(draft, "hw-tc-offload", true, "classes and filters in hardware");
    }
    private_flags(draft, card, spec);
    root(draft, card, spec, division);
    draft.want_nic(Stage::Classes, nic, NicKnob::Clsact, "clsact", "the place of the lanes' filters");
    class_parameters(draft, card, spec, seats, division);
    filters(draft, card, classes, spec);
    if classes.receive == Receive::Rules {
        rss_ntuple::steering(draft, card, spec, division);
    } else {
        rules_per_port(draft, card, spec, division);
    }
    queues::moderation(draft, card, spec, division);
    queues::interrupts(draft, card, spec, seats, division);
    queues::pollers(draft, card, spec, seats, division);
    queues::deferral(draft, card, spec, division);
    queues::handover(draft, card, spec, seats, division);
    queues::symmetric(draft, card, division);
}

/// Switches of Intel's out-of-tree driver, where it shows them.
fn private_flags(draft: &mut Draft, card: &Card, spec: &Spec) {
    let name = "channel-inline-flow-director";
    let all_spread = card.lanes_of(spec).all(|lane| lane.mode == Mode::Spread);
    if card.nic.private_flags.contains_key(name) && all_spread {
        let knob = NicKnob::PrivateFlag(name.to_owned());
        draft.want_nic(
            Stage::Features,
            card.nic,
            knob,
            "on",
            "connections are spread over a class's queues evenly",
        );
    }
}

/// mqprio: class 0 is the default lane, class n the n-th lane.
fn root(draft: &mut Draft, card: &Card, spec: &Spec, division: &Division) {
    let nic = card.nic;
    let mut counts = vec![division.default.len()];
    counts.extend(division.lanes.iter().map(|(_, queues)| queues.len()));
    let mut offset = 0;
    let mut sets = Vec::new();
    for count in &counts {
        sets.push(format!("{count}@{offset}"));
        offset += count;
    }
    let map: Vec<String> = (0..counts.len()).map(|class| class.to_string()).collect();
    let mut text = format!(
        "mqprio num_tc {} map {} queues {} hw 1 mode channel",
        counts.len(),
        map.join(" "),
        sets.join(" ")
    );
    let rates = |which: fn(&crate::spec::Lane) -> Option<&String>, default: Option<&String>| {
        let mut all = vec![rate(default).ok().flatten().unwrap_or_default()];
        all.extend(card.lanes_of(spec).map(|lane| rate(which(lane)).ok().flatten().unwrap_or_default()));
        all
    };
    let min = rates(|lane| lane.rate_min.as_ref(), None);
    let max = rates(|lane| lane.rate_max.as_ref(), spec.default.rate_max.as_ref());
    if min.iter().chain(&max).any(|rate| rate.0 > 0) {
        text.push_str(" shaper bw_rlimit");
        for (word, rates) in [("min_rate", min), ("max_rate", max)] {
            if rates.iter().any(|rate| rate.0 > 0) {
                let rates: Vec<String> = rates.iter().map(Rate::to_string).collect();
                text.push_str(&format!(" {word} {}", rates.join(" ")));
            }
        }
    }
    check_root(draft, card, &text);
    let mut risks = vec![Risk::LinkFlap, Risk::ResetsOthers, Risk::StopsRdma];
    risks.extend(card.session_risk());
    let disturbed = card.disturbed_by_counts(draft);
    let step =
        draft.want_nic(Stage::Classes, nic, NicKnob::Root, text, "a set of queues in hardware for each lane");
    if step.has_work() {
        step.add_risks(&risks).add_disturbs(disturbed);
    }
}

/// Refuses to replace a root that somebody has made: it would not come back as it was. That of an earlier wish may be another.
pub(super) fn check_root(draft: &mut Draft, card: &Card, want: &str) {
    let now = card.nic.root_qdisc.as_deref().unwrap_or("noqueue");
    let kind = now.split(' ').next().unwrap_or_default();
    if now != want && !OWN_ROOTS.contains(&kind) && !LANES_ROOTS.contains(&kind) {
        draft.refuse(format!(
            "{}, `backend`: the root qdisc is `{now}`, which is neither the card's own nor the lanes': `tc qdisc del dev {} \
             root` if nobody needs it",
            card.title(),
            card.nic.name
        ));
    }
}

fn class_parameters(draft: &mut Draft, card: &Card, spec: &Spec, seats: &Seats, division: &Division) {
    let nic = card.nic;
    for (class, (index, queues)) in (1..).zip(&division.lanes) {
        let (lane, seat) = (&spec.lanes[*index], &seats.lanes[*index]);
        let mut wants: Vec<(String, String)> = Vec::new();
        if lane.mode == Mode::Spread {
            wants.push((format!("tc{class}_inline_fd"), "true".to_owned()));
        }
        if lane.threaded {
            let per_poller = queues.len().div_ceil(seat.cores.count().max(1));
            wants.push((format!("tc{class}_qps_per_poller"), per_poller.to_string()));
            wants.push((format!("tc{class}_poller_timeout"), POLLER_TIMEOUT.to_string()));
        }
        for (name, want) in wants.into_iter().filter(|(name, _)| nic.devlink.contains_key(name)) {
            let why = format!("lane {}: parameters of its class", lane.name);
            draft.want_nic(Stage::ClassParameters, nic, NicKnob::Devlink(name), want, &why);
        }
    }
}

fn filters(draft: &mut Draft, card: &Card, classes: &Classes, spec: &Spec) {
    let nic = card.nic;
    for (class, index) in (1..).zip(&card.lanes) {
        let lane = &spec.lanes[*index];
        let why_in = format!("lane {}: requests into its queues", lane.name);
        let why_out = format!("lane {}: replies into its class", lane.name);
        for flow in flows(draft, nic, lane) {
            if classes.receive != Receive::Rules {
                filter(draft, card, Direction::Ingress, &flow.to_class(class), &why_in);
            }
            if lane.priority == Priority::Skbedit {
                filter(draft, card, Direction::Egress, &flow.with_priority(class), &why_out);
            }
        }
        if lane.priority == Priority::App {
            draft.note(format!(
                "lane `{}`: its replies are in its class only if the application sets SO_PRIORITY {class}.",
                lane.name
            ));
        }
    }
}

/// A filter at the first place that is free or has it.
pub(super) fn filter(draft: &mut Draft, card: &Card, direction: Direction, text: &str, why: &str) {
    match draft.filter_pref(card.nic, direction, text) {
        Some(pref) => {
            draft.want_nic(Stage::Rules, card.nic, NicKnob::Filter(direction, pref), text, why);
        }
        None => draft.refuse(format!("{}: no preference is left for the lanes' filters", card.title())),
    }
}

/// Within a class of one queue per port a rule chooses the port's queue.
fn rules_per_port(draft: &mut Draft, card: &Card, spec: &Spec, division: &Division) {
    for (index, queues) in &division.lanes {
        let lane = &spec.lanes[*index];
        if lane.mode != Mode::OneQueuePerPort || queues.len() < 2 {
            continue;
        }
        if card.nic.features.contains_key("rx-ntuple-filter") {
            card.feature(draft, "rx-ntuple-filter", true, "rules in hardware");
        }
        let why = format!("lane {}: each port to its queue", lane.name);
        for flow in flows(draft, card.nic, lane) {
            let queue = queues[flow.ordinal % queues.len()];
            rss_ntuple::rule(draft, card, &flow.rule(&format!("action {queue}")), &why);
        }
    }
}

fn limits(draft: &mut Draft, card: &Card, classes: &Classes, spec: &Spec, division: &Division) {
    let (driver, title) = (classes.driver, card.title());
    let count = division.lanes.len() + 1;
    if count > classes.count_max {
        draft.refuse(format!(
            "{title}: {driver} has {} traffic classes, one of them the default lane's; the file has {} lanes for it",
            classes.count_max,
            count - 1
        ));
    }
    if classes.powers_of_two {
        powers_of_two(draft, driver, spec, division);
    }
    rates(draft, card, classes, spec);
}

/// `ice_validate_mqprio_qopt`: in the order of classes a count that is no power of two must be the largest, and the only one.
fn powers_of_two(draft: &mut Draft, driver: &str, spec: &Spec, division: &Division) {
    let mut counts = vec![("[default]".to_owned(), division.default.len())];
    for (index, queues) in &division.lanes {
        counts.push((format!("lane `{}`", spec.lanes[*index].name), queues.len()));
    }
    let largest = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    for (whose, count) in counts.iter().filter(|(_, count)| !count.is_power_of_two() && *count < largest) {
        let (down, up) = ((count + 1).next_power_of_two() / 2, count.next_power_of_two());
        draft.refuse(format!(
            "{whose}, `queues`: {driver} wants powers of two, but for the largest set: {count} is none and {largest} is \
             larger; {down} or {up} would do"
        ));
    }
}

fn rates(draft: &mut Draft, card: &Card, classes: &Classes, spec: &Spec) {
    let driver = classes.driver;
    let link = card.nic.speed_mbit.map(Rate::mbit);
    let mut wishes: Vec<(String, &str, Rate)> = Vec::new();
    let read = |text: Option<&String>| rate(text).ok().flatten();
    for lane in card.lanes_of(spec) {
        let whose = format!("lane `{}`", lane.name);
        wishes.extend(read(lane.rate_min.as_ref()).map(|rate| (whose.clone(), "rate-min", rate)));
        wishes.extend(read(lane.rate_max.as_ref()).map(|rate| (whose.clone(), "rate-max", rate)));
    }
    wishes
        .extend(read(spec.default.rate_max.as_ref()).map(|rate| ("[default]".to_owned(), "rate-max", rate)));
    for (whose, key, rate) in &wishes {
        let mut refuse = |sentence: String| draft.refuse(format!("{whose}, `{key}`: {sentence}"));
        if *key == "rate-min" && !classes.min_rates {
            refuse(format!(
                "{driver} can limit a class but keeps no rate for it: limit the others by `rate-max`"
            ));
        } else if !rate.0.is_multiple_of(classes.rate_step) || rate.0 == 0 {
            refuse(format!(
                "{driver} takes rates in steps of {}, and {rate} is none",
                Rate(classes.rate_step)
            ));
        } else if let Some(link) = link.filter(|link| rate > link) {
            refuse(format!("{rate} is more than the link's {link}"));
        }
    }
    let sum = |key: &str| Rate(wishes.iter().filter(|(_, it, _)| *it == key).map(|(.., rate)| rate.0).sum());
    let sums = if classes.min_rates { ("rate-min", sum("rate-min")) } else { ("rate-max", sum("rate-max")) };
    if let Some(link) = link.filter(|link| sums.1 > *link && classes.receive != Receive::Rules) {
        let sentence = format!(
            "{}, `{}`: {driver} wants all of them within the link's {link}, and they are {}",
            card.title(),
            sums.0,
            sums.1
        );
        draft.refuse(sentence);
    }
    if !wishes.is_empty() && link.is_none() {
        draft.note(format!("{} has no link, so rates could not be compared with its speed.", card.nic.name));
    }
}
