//! The kernel's own means on any card: RPS and RFS bring packets to the cores that serve them, a program at the edge chooses the
//! queue and class of what is sent, HTB limits.
//!
//! Nothing here keeps other packets out of a receive queue. A lane has queues of its own only where the file says how many
//! (`queues`, or one queue per port) and the card doesn't spread by a hash of its own: then somebody else sorts, on a veth the
//! other end, by its sending queue.

use super::Risk;
use super::card::Card;
use super::draft::{Draft, Stage};
use super::flows::flows;
use super::place::Seats;
use super::queues::{self, Division};
use super::tc_channel::{check_root, filter};
use crate::knob::{Direction, NicKnob};
use crate::rate::Rate;
use crate::spec::{Lane, Mode, Spec, rate};

/// Major number of our HTB, and its class of everything else.
const HTB: &str = "e7:";
const BULK: u32 = 1;
/// The first lane's class; the next ones follow.
const LANE_FIRST: u32 = 0x10;

/// Lanes that name queues have them, where the card doesn't spread by itself; the others share what is left with everything else.
pub(super) fn divide(card: &Card, spec: &Spec) -> Division {
    let sorted = card.nic.rss.is_none();
    let owns = |lane: &Lane| sorted && (lane.queues.is_some() || lane.mode == Mode::OneQueuePerPort);
    let wanted: u32 = card.lanes_of(spec).filter(|lane| owns(lane)).map(|lane| card.queues_of(lane)).sum();
    let all = card.queues_wanted(spec);
    let mut next = spec.default.queues.unwrap_or(all.saturating_sub(wanted).max(1));
    let mut division = Division { default: (0..next.min(all)).collect(), lanes: Vec::new() };
    for index in &card.lanes {
        let lane = &spec.lanes[*index];
        let count = if owns(lane) { card.queues_of(lane) } else { 0 };
        division.lanes.push((*index, (next..next.saturating_add(count)).collect()));
        next = next.saturating_add(count);
    }
    division
}

/// Queues that lanes name and default lane.
pub(super) fn check_counts(draft: &mut Draft, card: &Card, spec: &Spec, division: &Division) {
    let all = card.queues_wanted(spec);
    let needed = division.all().max().map_or(0, |last| last.saturating_add(1));
    if needed > all {
        draft.refuse(format!(
            "{}: lanes and default lane name {needed} queues and the card has {all}: fewer `queues`, or none, then lanes \
             share them",
            card.title()
        ));
    }
    card.check_change(draft, spec);
}

pub(super) fn steps(draft: &mut Draft, card: &Card, spec: &Spec, seats: &Seats, division: &Division) {
    let nic = card.nic;
    let own: Vec<(usize, Vec<u32>)> =
        division.lanes.iter().filter(|(_, queues)| !queues.is_empty()).cloned().collect();
    if !own.is_empty() {
        draft.note(format!(
            "{} sorts no packets into queues: that the lanes' ports arrive on the lanes' queues is the sender's to do (on a \
             veth: its other end).",
            nic.name
        ));
    }
    if nic.rss.is_some() && card.lanes_of(spec).any(|lane| lane.queues.is_some()) {
        draft.note(format!(
            "{} spreads packets by its own hash over all queues, so no lane has queues of its own: `queues` counts its cores \
             alone.",
            nic.name
        ));
    }
    receive(draft, card, spec, seats, division);
    send(draft, card, spec, division);
    queues::moderation(draft, card, spec, division);
    if draft.has_per_queue(nic, NicKnob::IrqAffinity) {
        queues::interrupts(draft, card, spec, seats, division);
    }
    queues::pollers(draft, card, spec, seats, division);
    queues::deferral(draft, card, spec, division);
}

/// Queues of lanes to lanes' cores. Other queues to the system's cores, and from there by RFS to whoever reads: the thread of a
/// lane, on the lane's core, or any other.
fn receive(draft: &mut Draft, card: &Card, spec: &Spec, seats: &Seats, division: &Division) {
    let nic = card.nic;
    if !draft.has_per_queue(nic, NicKnob::RpsCpus) {
        draft.note(format!("{} can't hand packets to other cores (RPS).", nic.name));
        return;
    }
    for (index, queues) in &division.lanes {
        let (lane, seat) = (&spec.lanes[*index], &seats.lanes[*index]);
        let why = format!("lane {}: packets of its queues to its cores", lane.name);
        for (n, queue) in queues.iter().enumerate() {
            let own = seat.cores_of_queue(lane, n);
            draft.want_nic(Stage::Handover, nic, NicKnob::RpsCpus(*queue), own.to_string(), &why);
        }
    }
    let shares = division.lanes.iter().any(|(_, queues)| queues.is_empty());
    if shares && !queues::has_flow_table(draft) {
        // RPS alone would send the lanes' packets to the system's cores.
        draft.note(format!(
            "{}: the lanes' packets stay on the cores at which they arrive, for {} can't be seen here (as in a network namespace \
             of its own), and without RFS no connection finds its thread's core.",
            nic.name,
            queues::FLOW_ENTRIES
        ));
        return;
    }
    let default = queues::default_cores(draft, card, spec, seats);
    let why = "everything else: packets to the system's cores";
    for queue in &division.default {
        draft.want_nic(Stage::Handover, nic, NicKnob::RpsCpus(*queue), default.to_string(), why);
    }
    if shares {
        let why = "each connection to the core of its thread (RFS)";
        queues::flow_steering(draft, card, &division.default, why);
    }
}

/// The queue and the class of what lanes send; everything else within its limit.
fn send(draft: &mut Draft, card: &Card, spec: &Spec, division: &Division) {
    let nic = card.nic;
    let bulk = rate(spec.default.rate_max.as_ref()).ok().flatten();
    let limited: Vec<Option<Rate>> =
        card.lanes_of(spec).map(|lane| rate(lane.rate_max.as_ref()).ok().flatten()).collect();
    let shaped = bulk.is_some() || limited.iter().any(Option::is_some);
    if shaped {
        shape(draft, card, spec, bulk, &limited);
    }
    for (n, (index, queues)) in division.lanes.iter().enumerate() {
        let lane = &spec.lanes[*index];
        // Minor 0 of our HTB is past all classes, at once.
        let class = limited[n].map_or(0, |_| LANE_FIRST + u32::try_from(n).unwrap_or(0));
        let why = format!("lane {}: the queue and class of what it sends", lane.name);
        let mut seen = Vec::new();
        for flow in flows(draft, nic, lane) {
            let queue =
                (!queues.is_empty()).then(|| format!("queue {}", queues[flow.ordinal % queues.len()]));
            let minor = if class == 0 { String::new() } else { format!("{class:x}") };
            let priority = shaped.then(|| format!("priority {HTB}{minor}"));
            let what: Vec<String> = queue.into_iter().chain(priority).collect();
            // One program is for both families.
            let text = flow.program(&what.join(" "));
            if what.is_empty() || seen.contains(&text) {
                continue;
            }
            draft.want_nic(
                Stage::Classes,
                nic,
                NicKnob::Clsact,
                "clsact",
                "the place of the lanes' programs",
            );
            filter(draft, card, Direction::Egress, &text, &why);
            seen.push(text);
        }
    }
}

fn shape(draft: &mut Draft, card: &Card, spec: &Spec, bulk: Option<Rate>, limited: &[Option<Rate>]) {
    let nic = card.nic;
    // As the kernel tells it: what names no class goes past all of them.
    let text = if bulk.is_some() { format!("htb default {BULK:x}") } else { "htb".to_owned() };
    check_root(draft, card, &text);
    let risks: Vec<Risk> = card.session_risk().into_iter().collect();
    draft.want_nic(Stage::Classes, nic, NicKnob::Root, text, "limits on what is sent").add_risks(&risks);
    if card.queues_now() > 1 {
        draft.note(format!(
            "{}: HTB is one lock for all sending queues. It pays where the link is the bottleneck, not where cores are.",
            nic.name
        ));
    }
    let class = |rate: Rate| format!("parent {HTB} htb rate {rate} ceil {rate}");
    if let Some(rate) = bulk {
        let knob = NicKnob::Class(format!("{HTB}{BULK:x}"));
        draft.want_nic(Stage::Classes, nic, knob, class(rate), "everything else: its limit");
    }
    for ((lane, rate), minor) in card.lanes_of(spec).zip(limited).zip(LANE_FIRST..) {
        if let Some(rate) = rate {
            let knob = NicKnob::Class(format!("{HTB}{minor:x}"));
            draft.want_nic(
                Stage::Classes,
                nic,
                knob,
                class(*rate),
                &format!("lane {}: its limit", lane.name),
            );
        }
    }
}
