//! What every backend does with queues that it has given away: interrupts, moderation, poll threads, and which core and queue
//! take packets over.

use super::Risk;
use super::card::Card;
use super::draft::{Draft, Stage, nth};
use super::place::Seats;
use crate::cpus::Cpus;
use crate::facts::Nic;
use crate::knob::{Knob, NicKnob, Setting};
use crate::spec::{Mode, Moderation, Spec};

/// Flows that RFS remembers on the whole machine, and that a lane's queues share (kernel, networking/scaling: "a value of 32768
/// for rps_sock_flow_entries works fairly well on a moderately loaded server").
pub const RFS_FLOWS_COUNT: u32 = 32_768;

/// Whose the queues of a card are.
#[derive(Clone, Debug, Default)]
pub(super) struct Division {
    /// Of everything else.
    pub(super) default: Vec<u32>,
    /// Of lanes, by their place in the file.
    pub(super) lanes: Vec<(usize, Vec<u32>)>,
}

impl Division {
    /// The default lane's queues first, then each lane's, without gaps.
    pub(super) fn of(card: &Card, spec: &Spec) -> Division {
        let mut next = card.default_queues(spec);
        let mut division = Division { default: (0..next).collect(), lanes: Vec::new() };
        for index in &card.lanes {
            let count = card.queues_of(&spec.lanes[*index]);
            division.lanes.push((*index, (next..next.saturating_add(count)).collect()));
            next = next.saturating_add(count);
        }
        division
    }

    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.default.iter().chain(self.lanes.iter().flat_map(|(_, queues)| queues)).copied()
    }
}

/// The cores of everything else: those of the file, else the system's, of those the ones near the card where there are some.
pub(super) fn default_cores(draft: &Draft, card: &Card, spec: &Spec, seats: &Seats) -> Cpus {
    if let Some(cores) = &spec.default.cores {
        return cores.clone();
    }
    let of_node = draft.facts.cpus.iter().filter(|cpu| Some(cpu.node) == card.nic.node);
    let near = seats.system.common(&of_node.map(|cpu| cpu.id).collect());
    if near.is_empty() { seats.system.clone() } else { near }
}

/// Each queue's interrupt to one core: the n-th queue of a lane to the n-th of its cores for that, round and round.
pub(super) fn interrupts(draft: &mut Draft, card: &Card, spec: &Spec, seats: &Seats, division: &Division) {
    let nic = card.nic;
    if !draft.has_per_queue(nic, NicKnob::IrqAffinity) {
        draft.note(format!("{} has no interrupts that could be given to cores.", nic.name));
        return;
    }
    let cores = default_cores(draft, card, spec, seats);
    let mut give = |queue: u32, cores: &Cpus, n: usize, why: &str| {
        if let Some(core) = nth(cores, n) {
            draft.want_nic(Stage::Interrupts, nic, NicKnob::IrqAffinity(queue), core.to_string(), why);
        }
    };
    for (n, queue) in division.default.iter().enumerate() {
        give(*queue, &cores, n, "everything else: interrupts on the system's cores");
    }
    for (index, queues) in &division.lanes {
        let (lane, seat) = (&spec.lanes[*index], &seats.lanes[*index]);
        let place =
            if seat.irq_cores == seat.cores { "the lane's own core" } else { "a core reserved for them" };
        let why = format!("lane {}: interrupts on {place}", lane.name);
        for (n, queue) in queues.iter().enumerate() {
            give(*queue, &seat.irq_cores, n, &why);
        }
    }
}

/// Where interrupts are not on the lane's cores, packets are handed on to them; where they are, nothing moves them off.
pub(super) fn handover(draft: &mut Draft, card: &Card, spec: &Spec, seats: &Seats, division: &Division) {
    let nic = card.nic;
    if !draft.has_per_queue(nic, NicKnob::RpsCpus) {
        return;
    }
    for (index, queues) in &division.lanes {
        let (lane, seat) = (&spec.lanes[*index], &seats.lanes[*index]);
        let reserved = seat.irq_cores != seat.cores;
        let why = format!("lane {}: packets go on to the cores that serve", lane.name);
        for (n, queue) in queues.iter().enumerate() {
            let knob = NicKnob::RpsCpus(*queue);
            if !reserved {
                let why = format!("lane {}: packets stay on the core of their interrupt", lane.name);
                draft.want_nic(Stage::Handover, nic, knob, "", &why);
                continue;
            }
            let cpus = seat.cores_of_queue(lane, n);
            draft.want_nic(Stage::Handover, nic, knob, cpus.to_string(), &why);
        }
        if reserved && lane.mode == Mode::Spread && seat.cores.count() > 1 {
            let why = format!("lane {}: each connection to the core of its thread (RFS)", lane.name);
            flow_steering(draft, card, queues, &why);
        }
    }
}

/// Flows that all queues together remember.
pub(super) const FLOW_ENTRIES: &str = "net.core.rps_sock_flow_entries";

/// RFS for these queues.
pub(super) fn flow_steering(draft: &mut Draft, card: &Card, queues: &[u32], why: &str) {
    if !draft.has_per_queue(card.nic, NicKnob::RpsFlowCount) || queues.is_empty() || !has_flow_table(draft) {
        return;
    }
    let count = u32::try_from(queues.len()).unwrap_or(u32::MAX).next_power_of_two();
    let flows = (RFS_FLOWS_COUNT / count.min(RFS_FLOWS_COUNT)).to_string();
    for queue in queues {
        draft.want_nic(Stage::Handover, card.nic, NicKnob::RpsFlowCount(*queue), &flows, why);
    }
    let entries = RFS_FLOWS_COUNT.to_string();
    draft.want_sysctl(FLOW_ENTRIES, &entries, "RFS: flows to remember", &[Risk::WholeMachine]);
}

/// Whether RFS' table can be seen. It is the whole machine's, and network namespaces but the first don't show it.
pub(super) fn has_flow_table(draft: &Draft) -> bool {
    draft.facts.sysctls.contains_key(FLOW_ENTRIES)
}

/// A connection sends by the queue at which it receives.
pub(super) fn symmetric(draft: &mut Draft, card: &Card, division: &Division) {
    let nic = card.nic;
    let why = "replies leave by the queue at which requests come in";
    if draft.has_per_queue(nic, NicKnob::XpsRxqs) {
        for queue in division.all() {
            draft.want_nic(Stage::Handover, nic, NicKnob::XpsRxqs(queue), queue.to_string(), why);
        }
    } else {
        draft.note(format!("{} can't tie sending queues to receiving ones (xps_rxqs).", nic.name));
    }
    if draft.has_per_queue(nic, NicKnob::XpsCpus) {
        for queue in division.all() {
            draft.want_nic(Stage::Handover, nic, NicKnob::XpsCpus(queue), "", "not by the core that sends");
        }
    }
}

/// A core sends by the queue whose interrupt it has.
pub(super) fn send_by_core(draft: &mut Draft, card: &Card, spec: &Spec, seats: &Seats, division: &Division) {
    if !draft.has_per_queue(card.nic, NicKnob::XpsCpus) {
        return;
    }
    for (index, queues) in &division.lanes {
        let (lane, seat) = (&spec.lanes[*index], &seats.lanes[*index]);
        let why = format!("lane {}: its cores send by its queues", lane.name);
        for (n, queue) in queues.iter().enumerate() {
            // The n-th queue has every so-manieth core, so that each core has one queue.
            let cores: Cpus = seat
                .cores
                .iter()
                .enumerate()
                .filter(|(at, _)| at % queues.len() == n)
                .map(|(_, id)| id)
                .collect();
            draft.want_nic(Stage::Handover, card.nic, NicKnob::XpsCpus(*queue), cores.to_string(), &why);
        }
    }
}

/// Moderation of lanes' queues and of the others. Who says nothing has the machine's; where one holds for all queues, a lane's own
/// comes before it.
pub(super) fn moderation(draft: &mut Draft, card: &Card, spec: &Spec, division: &Division) {
    let per_queue = has_moderation_per_queue(card.nic);
    let mut is_said = false;
    for (index, queues) in &division.lanes {
        let lane = &spec.lanes[*index];
        is_said |= lane.moderation.is_some();
        if let Some(wish) = lane.moderation.or(spec.host.moderation.filter(|_| per_queue)) {
            moderate(draft, card, wish, queues, &format!("lane {}: fixed moderation", lane.name));
        }
    }
    let of_others = if per_queue { !division.default.is_empty() } else { !is_said };
    if let Some(wish) = card.wish.moderation.or(spec.host.moderation.filter(|_| of_others)) {
        moderate(draft, card, wish, &division.default, "moderation of queues that no lane has");
    }
}

fn has_moderation_per_queue(nic: &Nic) -> bool {
    nic.queues.first().is_some_and(|it| it.coalesce.is_some())
}

fn moderate(draft: &mut Draft, card: &Card, wish: Moderation, queues: &[u32], why: &str) {
    let nic = card.nic;
    let of_queue = |index: u32| {
        let queue = nic.queues.iter().find(|it| it.index == index).or(nic.queues.first());
        queue.and_then(|it| it.coalesce.as_deref())
    };
    let per_queue = has_moderation_per_queue(nic);
    if per_queue && queues.is_empty() {
        draft.note(format!("No queue of {} is for this alone, so it is left out: {why}.", nic.name));
    }
    let places: Vec<(NicKnob, &str)> = if per_queue {
        queues.iter().filter_map(|queue| Some((NicKnob::Coalesce(Some(*queue)), of_queue(*queue)?))).collect()
    } else if let Some(now) = nic.coalesce.as_deref() {
        draft.note(format!(
            "{} has one moderation for all queues, so this holds for the whole card: {why}.",
            nic.name
        ));
        vec![(NicKnob::Coalesce(None), now)]
    } else {
        draft.note(format!("{} has no moderation that could be set, so this is left out: {why}.", nic.name));
        return;
    };
    for (knob, now) in places {
        let (text, absent) = moderated(now, wish);
        if !absent.is_empty() {
            let has: Vec<&str> = now.split(' ').step_by(2).collect();
            draft.note(format!(
                "{}: of moderation the driver {} has no {}, so that is left out ({why}); it has {}.",
                nic.name,
                nic.driver,
                absent.join(" and no "),
                has.join(", ")
            ));
        }
        if absent.len() == wish.words().count() {
            continue;
        }
        draft.want_nic(Stage::Moderation, nic, knob, text, why);
    }
}

/// What is there with the wish's values, and the words that are not there.
fn moderated(now: &str, wish: Moderation) -> (String, Vec<&'static str>) {
    let mut words: Vec<String> = Setting::new(now).words().map(str::to_owned).collect();
    let mut absent = Vec::new();
    for (word, value) in wish.words() {
        match words.iter().position(|it| it == word) {
            Some(at) if at + 1 < words.len() => words[at + 1] = value,
            _ => absent.push(word),
        }
    }
    (words.join(" "), absent)
}

/// Kernel threads that poll lanes' queues, each on a core of its lane.
pub(super) fn pollers(draft: &mut Draft, card: &Card, spec: &Spec, seats: &Seats, division: &Division) {
    let nic = card.nic;
    let fine = nic.queues.first().is_some_and(|queue| queue.napi_settings.contains_key("threaded"));
    for (index, queues) in division.lanes.iter().filter(|(index, _)| spec.lanes[*index].threaded) {
        let (lane, seat) = (&spec.lanes[*index], &seats.lanes[*index]);
        let why = format!("lane {}: kernel threads poll its queues", lane.name);
        if fine && queues.is_empty() {
            draft.note(format!(
                "lane `{}` shares its queues, so `threaded` is left out: no kernel threads poll for it alone.",
                lane.name
            ));
        } else if fine {
            for queue in queues {
                let knob = NicKnob::Napi(*queue, "threaded".to_owned());
                draft.want_nic(Stage::Pollers, nic, knob, "1", &why);
            }
        } else if is_unpolled(draft, card) {
            draft.refuse(format!(
                "lane `{}`, `threaded`: {name} has nothing that threads could poll, as a veth without GRO: \
                 `features = {{ gro = true }}` under its [[nic]]",
                lane.name,
                name = nic.name
            ));
            continue;
        } else if nic.threaded.is_some() {
            draft.note(format!(
                "Kernel threads poll all queues of {}: this kernel can't choose among them.",
                nic.name
            ));
            draft.want_nic(Stage::Pollers, nic, NicKnob::Threaded, "1", &why);
        } else {
            draft.refuse(format!(
                "lane `{}`, `threaded`: {} has no queues that threads could poll",
                lane.name, nic.name
            ));
            continue;
        }
        let why = format!("lane {}: its pollers on its cores", lane.name);
        for (n, queue) in queues.iter().enumerate() {
            let Some(core) = nth(&seat.cores, n) else { continue };
            let text = format!("cpus {core} other");
            draft.want_nic(Stage::Pollers, nic, NicKnob::NapiThread(*queue), text, &why);
        }
    }
}

/// Whether it has no NAPI instances and will have none: a veth has them with GRO or XDP alone (`veth_enable_napi`), other drivers
/// always, whether they tell of them or not.
fn is_unpolled(draft: &Draft, card: &Card) -> bool {
    let nic = card.nic;
    let gro = Knob::nic(&nic.name, NicKnob::Feature("rx-gro".to_owned()));
    let is_bare = nic.driver == "veth" && nic.queues.iter().all(|queue| queue.napi.is_none());
    is_bare && draft.wanted(&gro).as_deref() != Some("on")
}

/// Polls without a packet after which interrupts come again: as few as there can be beyond the one that ends a burst.
const EMPTY_POLLS_COUNT: u32 = 2;
/// Nanoseconds at most that a packet waits for the next poll when nobody polls any more, as `SO_PREFER_BUSY_POLL` was measured with
/// (Linux commit 7fd3253a7de6).
const POLL_WAIT_NS_MAX: u32 = 200_000;

/// Interrupts of queues that servers poll are held back meanwhile (Documentation/networking/napi.rst, "IRQ mitigation"): for as
/// long as a server polls, a timer stands in for them. A packet that comes after that waits for the timer.
pub(super) fn deferral(draft: &mut Draft, card: &Card, spec: &Spec, division: &Division) {
    let nic = card.nic;
    let names = ["defer-hard-irqs", "gro-flush-timeout"];
    let is_fine = nic
        .queues
        .first()
        .is_some_and(|queue| names.iter().all(|name| queue.napi_settings.contains_key(*name)));
    let is_coarse = nic.defer_hard_irqs.is_some() && nic.gro_flush_timeout.is_some();
    let mut wait_ns_least = None;
    for (index, queues) in &division.lanes {
        let lane = &spec.lanes[*index];
        let Some(polled_us) = lane.busy_poll_us else { continue };
        let wait_ns = polled_us.saturating_mul(1000).min(POLL_WAIT_NS_MAX);
        if queues.is_empty() {
            draft.note(format!(
                "lane `{}` shares its queues, so their interrupts come also while its servers poll.",
                lane.name
            ));
        } else if is_fine {
            let why = format!("lane {}: no interrupts while its servers poll", lane.name);
            for queue in queues {
                for (name, value) in names.into_iter().zip([EMPTY_POLLS_COUNT, wait_ns]) {
                    let knob = NicKnob::Napi(*queue, name.to_owned());
                    draft.want_nic(Stage::Pollers, nic, knob, value.to_string(), &why);
                }
            }
        } else if is_coarse {
            wait_ns_least = Some(wait_ns_least.unwrap_or(wait_ns).min(wait_ns));
        } else {
            draft.note(format!(
                "{} gives no way to hold interrupts back while servers poll (napi_defer_hard_irqs), so they come all the same.",
                nic.name
            ));
        }
    }
    if let Some(wait_ns) = wait_ns_least {
        draft.note(format!(
            "{} holds interrupts of all queues back or of none: a packet of anybody may wait for {} µs.",
            nic.name,
            wait_ns / 1000
        ));
        let why = "no interrupts while servers poll";
        for (knob, value) in
            [(NicKnob::DeferHardIrqs, EMPTY_POLLS_COUNT), (NicKnob::GroFlushTimeout, wait_ns)]
        {
            draft.want_nic(Stage::Pollers, nic, knob, value.to_string(), why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moderation_changes_what_is_there_and_names_what_is_not() {
        let wish = Moderation {
            adaptive_rx: Some(false),
            rx_usecs: Some(500),
            tx_usecs: Some(0),
            adaptive_tx: None,
        };
        let now = "adaptive-rx on rx-usecs 50 adaptive-tx on tx-usecs 50";
        assert_eq!(moderated(now, wish).0, "adaptive-rx off rx-usecs 500 adaptive-tx on tx-usecs 0");
        assert_eq!(
            moderated("rx-usecs 20", wish),
            ("rx-usecs 500".to_owned(), vec!["adaptive-rx", "tx-usecs"])
        );
    }
}
