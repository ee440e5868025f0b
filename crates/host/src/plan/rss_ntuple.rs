//! Rules and spreading tables: what no rule names stays on the first queues, each lane's ports go to its own.

use super::backend::RULES_WITHOUT_IPV6;
use super::card::Card;
use super::draft::{Draft, Stage};
use super::flows::flows;
use super::place::Seats;
use super::queues::{self, Division};
use crate::cpus::Cpus;
use crate::knob::{Family, NicKnob};
use crate::spec::{Mode, Spec};

pub(super) fn steps(draft: &mut Draft, card: &Card, spec: &Spec, seats: &Seats, division: &Division) {
    steering(draft, card, spec, division);
    queues::moderation(draft, card, spec, division);
    queues::interrupts(draft, card, spec, seats, division);
    queues::pollers(draft, card, spec, seats, division);
    queues::deferral(draft, card, spec, division);
    queues::handover(draft, card, spec, seats, division);
    queues::symmetric(draft, card, division);
}

/// Table, contexts and rules.
pub(super) fn steering(draft: &mut Draft, card: &Card, spec: &Spec, division: &Division) {
    let nic = card.nic;
    if nic.features.contains_key("rx-ntuple-filter") {
        card.feature(draft, "rx-ntuple-filter", true, "rules in hardware");
    }
    let count = division.default.len();
    spread(draft, card, spec, &format!("equal {count}"), "what no rule names stays on the first queues");
    for (index, queues) in &division.lanes {
        let lane = &spec.lanes[*index];
        let contexts = nic.rss.as_ref().is_some_and(|rss| rss.contexts.is_some());
        let set: Cpus = queues.iter().copied().collect();
        let ports = lane.ports.iter().chain(&lane.remote_ports).map(|ports| ports.0.len()).sum::<usize>();
        let in_context = lane.mode == Mode::Spread && queues.len() > 1 && contexts;
        if in_context {
            let why = format!("lane {}: its connections spread over its queues", lane.name);
            draft.want_nic(
                Stage::Rules,
                nic,
                NicKnob::Context(set.clone()),
                format!("equal {}", queues.len()),
                &why,
            );
        } else if lane.mode == Mode::Spread && queues.len() > ports {
            draft.refuse(format!(
                "lane `{}`, `queues`: {} has no RSS contexts, so a port's connections can't be spread: {} queues for {ports} \
                 port(s); at most as many as ports can be had, or one queue per port",
                lane.name,
                nic.driver,
                queues.len()
            ));
            continue;
        } else if lane.mode == Mode::Spread && queues.len() > 1 {
            draft.note(format!(
                "lane `{}`: {} has no RSS contexts, so each of its ports has one of its queues, in turn.",
                lane.name, nic.driver
            ));
        }
        let why = format!("lane {}: its ports to its queues", lane.name);
        for flow in flows(draft, nic, lane) {
            if flow.family == Family::Inet6 && RULES_WITHOUT_IPV6.contains(&nic.driver.as_str()) {
                draft.note(format!(
                    "The rules of {} know no IPv6: what comes to lane `{}` over it arrives on the default queues.",
                    nic.driver, lane.name
                ));
                continue;
            }
            let to = if in_context {
                format!("context {set}")
            } else {
                format!("action {}", queues[flow.ordinal % queues.len()])
            };
            rule(draft, card, &flow.rule(&to), &why);
        }
    }
}

/// The table of what no rule names. A table that names queues which go away is changed before they do.
pub(super) fn spread(draft: &mut Draft, card: &Card, spec: &Spec, want: &str, why: &str) {
    let stage = if card.queues_wanted(spec) < card.queues_now() { Stage::Shrink } else { Stage::Spread };
    draft.want_nic(stage, card.nic, NicKnob::Indirection, want, why);
}

/// A rule at the place that has it or the highest that is free.
pub(super) fn rule(draft: &mut Draft, card: &Card, text: &str, why: &str) {
    match draft.rule_location(card.nic, text) {
        Some(location) => {
            draft.want_nic(Stage::Rules, card.nic, NicKnob::Ntuple(location), text, why);
        }
        None => {
            let (capacity, taken) =
                card.nic.ntuple.as_ref().map_or((0, 0), |it| (it.capacity, it.rules.len()));
            draft.refuse(format!(
                "{}, `ports`: the card has room for {capacity} rules, {taken} of them taken, and the lanes want more",
                card.title()
            ));
        }
    }
}
