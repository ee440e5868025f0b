//! What a lane's packets do: where they arrive, and who else does.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::cpus::Cpus;
use crate::facts::{Facts, Process};
use crate::plan::{Placed, Plan};
use crate::spec::{BackendWish, Ports};
use crate::witness::Cell;

use super::{
    Evidence, FOREIGN_PACKETS_IDLE_MAX, FOREIGN_SHARE_MAX, Finding, LEAK_SHARE_MAX, LOST_SHARE_MAX, Sight,
    Verdict,
};

/// By what it is judged whether a packet is in the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// The card's queue: `tc-channel`, `rss-ntuple`.
    Queues,
    /// The cpu that does its protocol work: `virtual`, `soft`, `process`.
    Cores,
}

/// What was seen of a lane's packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Used {
    /// They arrived.
    Traffic {
        /// What counts as the lane.
        target: Target,
        /// Its packets that arrived there.
        on_packets: u64,
        /// Its packets that arrived elsewhere.
        off_packets: u64,
        /// Its packets of which that is not known: the driver records no queue.
        unknown_packets: u64,
        /// Packets of others that arrived there.
        foreign_packets: u64,
    },
    /// None of its own arrived.
    Idle {
        /// What counts as the lane.
        target: Target,
        /// Packets of others that arrived there.
        foreign_packets: u64,
    },
    /// It names no local ports, so its packets can't be known; what its processes do can.
    Processes {
        /// Processes that are its.
        process_count: usize,
        /// Their threads.
        thread_count: usize,
        /// Those of them that may run on its cores alone.
        on_thread_count: usize,
        /// Ports of the lane's protocol that they were seen to listen at: what `ports` could say.
        listening: Vec<u16>,
    },
    /// It can't be told.
    Unknown {
        /// Why.
        because: String,
    },
}

/// What counts as in the lane, and the numbers that are.
fn target(lane: &Placed) -> (Target, Cpus) {
    match lane.backend {
        BackendWish::TcChannel | BackendWish::RssNtuple => (Target::Queues, lane.queues.clone()),
        _ => (Target::Cores, lane.cores.with(&lane.irq_cores)),
    }
}

/// What the processes of a lane do, where packets say nothing. None: there are none, and a card that could have told.
fn processes(lane: &Placed, plan: &Plan, facts: &Facts) -> Option<Used> {
    let mine: Vec<&Process> = facts.processes.iter().filter(|it| plan.is_of_lane(lane, it)).collect();
    if mine.is_empty() && lane.nic.is_some() {
        return None;
    }
    let threads = || mine.iter().flat_map(|process| &process.threads);
    let listeners = mine.iter().flat_map(|process| &process.listens);
    let listening: BTreeSet<u16> =
        listeners.filter(|it| it.protocol == lane.protocol).map(|it| it.port).collect();
    Some(Used::Processes {
        process_count: mine.len(),
        thread_count: threads().count(),
        on_thread_count: threads().filter(|thread| thread.cpus.is_within(&lane.cores)).count(),
        listening: listening.into_iter().collect(),
    })
}

/// Adds up what concerns a lane, by its place in the plan.
pub(super) fn used(evidence: &Evidence<'_>, index: usize) -> Used {
    let (lane, sights) = (&evidence.plan.lanes[index], evidence.sights);
    if lane.ports.is_empty() {
        return processes(lane, evidence.plan, evidence.facts).unwrap_or_else(|| Used::Unknown {
            because: "the lane has no local ports by which packets are known".to_owned(),
        });
    }
    let shared = lane.ports.iter().find_map(|port| Some((*port, evidence.plan.other_with(lane, *port)?)));
    if let Some((port, other)) = shared {
        let because = format!("port {port} is lane `{}`'s too, at the same address", other.name);
        return Used::Unknown { because };
    }
    let (target, numbers) = target(lane);
    let mut cells: Vec<Cell> = Vec::new();
    let mut blind = None;
    for sight in sights {
        match sight {
            Sight::Counted(counts) if lane.nic.as_ref().is_none_or(|nic| *nic == counts.nic) => {
                cells.extend(&counts.cells);
            }
            Sight::Blind(nic, why) if lane.nic.as_ref().is_none_or(|name| name == nic) => blind = Some(why),
            _ => {}
        }
    }
    let is_watched = sights.iter().any(|sight| match sight {
        Sight::Counted(counts) => lane.nic.as_ref().is_none_or(|nic| *nic == counts.nic),
        Sight::Blind(..) => false,
    });
    if let Some(why) = blind {
        return Used::Unknown { because: why.clone() };
    }
    if !is_watched {
        return Used::Unknown { because: "no packets were watched".to_owned() };
    }
    if numbers.is_empty() {
        let what = if target == Target::Queues { "queues" } else { "cores" };
        return Used::Unknown { because: format!("the lane has no {what} of its own") };
    }
    let place = |cell: &Cell| match target {
        Target::Queues => cell.queue.map(|queue| numbers.contains(queue)),
        Target::Cores => Some(numbers.contains(cell.cpu)),
    };
    let sum = |is_mine: bool, at: Option<bool>| {
        let those = cells.iter().filter(|cell| (cell.lane == Some(index)) == is_mine && place(cell) == at);
        those.map(|cell| cell.packets).sum::<u64>()
    };
    let foreign_packets = sum(false, Some(true));
    let (on_packets, off_packets, unknown_packets) =
        (sum(true, Some(true)), sum(true, Some(false)), sum(true, None));
    if on_packets + off_packets + unknown_packets == 0 {
        return Used::Idle { target, foreign_packets };
    }
    if on_packets + off_packets < unknown_packets {
        let because = format!(
            "the driver recorded no queue for {} of the packets",
            percent(share(unknown_packets, on_packets + off_packets))
        );
        return Used::Unknown { because };
    }
    Used::Traffic { target, on_packets, off_packets, unknown_packets, foreign_packets }
}

/// `part` of `part` and `rest`.
fn share(part: u64, rest: u64) -> f64 {
    if part == 0 { 0.0 } else { part as f64 / (part + rest) as f64 }
}

/// With a tenth below ten and above 90, and never rounded up to what it isn't: 99.96 % is not all.
pub(super) fn percent(share: f64) -> String {
    let whole = share * 100.0;
    if share >= 1.0 {
        return "100 %".to_owned();
    }
    if (10.0..90.0).contains(&whole) {
        return format!("{whole:.0} %");
    }
    // What a float is short of is not the packets' fault.
    format!("{:.1} %", (whole * 10.0 + 1e-6).floor() / 10.0)
}

impl Target {
    /// `its queues`, `its cores`.
    fn its(self) -> &'static str {
        match self {
            Target::Queues => "its queues",
            Target::Cores => "its cores",
        }
    }
}

impl Used {
    /// Share of the lane's packets that arrived elsewhere, of those whose place is known.
    #[must_use]
    pub fn leak_share(&self) -> Option<f64> {
        match self {
            Used::Traffic { on_packets, off_packets, .. } => Some(share(*off_packets, *on_packets)),
            _ => None,
        }
    }

    /// In a few words.
    pub(super) fn headline(&self) -> String {
        match self {
            Used::Idle { .. } => "idle".to_owned(),
            Used::Unknown { .. } => "can't tell".to_owned(),
            Used::Processes { process_count: 0, .. } => "no process of it is seen".to_owned(),
            Used::Processes { thread_count, on_thread_count, .. } => {
                format!("{on_thread_count} of {thread_count} threads on its cores")
            }
            Used::Traffic { target, on_packets, off_packets, .. } => {
                let leak = share(*off_packets, *on_packets);
                if leak > LEAK_SHARE_MAX {
                    format!("leaking {}", percent(leak))
                } else {
                    format!("{} on {}", percent(share(*on_packets, *off_packets)), target.its())
                }
            }
        }
    }

    /// What is looked at instead of packets, and what therefore can't be seen.
    pub(super) fn remark(&self) -> Option<String> {
        let Used::Processes { listening, .. } = self else { return None };
        let mut text =
            "it names no `ports`: its processes are looked at, and where packets arrive can't be seen"
                .to_owned();
        if !listening.is_empty() {
            text += &format!("; they listen at {}, which `ports` could say", Ports(listening.clone()));
        }
        Some(text)
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Used::Unknown { .. } => Verdict::Unknown,
            _ => Verdict::Ok,
        }
    }
}

/// What is wrong with where packets arrive, and what to do.
pub(super) fn findings(lane: &Placed, used: &Used) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (target, numbers) = target(lane);
    let where_it_is = format!("{} {numbers}", target.its());
    match used {
        Used::Traffic { on_packets, off_packets, foreign_packets, .. } => {
            let leak = share(*off_packets, *on_packets);
            if leak > LEAK_SHARE_MAX {
                let verdict = if leak > LOST_SHARE_MAX { Verdict::Critical } else { Verdict::Warning };
                let all = on_packets + off_packets;
                let problem = format!("{off_packets} of {all} packets arrived outside {where_it_is}");
                findings.push(Finding { problem, remedy: leak_remedy(lane), verdict });
            }
            let foreign = share(*foreign_packets, *on_packets);
            if foreign > FOREIGN_SHARE_MAX {
                let problem =
                    format!("{} of what arrives at {where_it_is} is not the lane's", percent(foreign));
                findings.push(Finding { problem, remedy: foreign_remedy(lane), verdict: Verdict::Warning });
            }
        }
        Used::Idle { foreign_packets, .. } if *foreign_packets > FOREIGN_PACKETS_IDLE_MAX => {
            let problem = format!("{foreign_packets} packets of others arrived at {where_it_is}");
            findings.push(Finding { problem, remedy: foreign_remedy(lane), verdict: Verdict::Warning });
        }
        Used::Unknown { because } => {
            let problem = format!("whether packets arrive in the lane can't be told: {because}");
            let remedy = "`ethtool -S` of the card counts queues, without telling lanes apart".to_owned();
            findings.push(Finding { problem, remedy, verdict: Verdict::Unknown });
        }
        Used::Idle { .. } | Used::Processes { .. } => {}
    }
    findings
}

fn leak_remedy(lane: &Placed) -> String {
    match lane.backend {
        BackendWish::Process => {
            "nothing steers packets of a lane without a card: give it a [[nic]], or pin the card's interrupts"
                .to_owned()
        }
        BackendWish::Virtual | BackendWish::Soft => {
            "the card's interrupts and RPS decide the core: `expresslane lanes plan` shows both; a virtual card's \
             packets without RPS stay on the sender's core"
                .to_owned()
        }
        _ => "addresses or IP versions that no filter names leak, and so do tunnels: `expresslane lanes plan` shows the \
              filters; if the card was reset, `expresslane lanes apply`"
            .to_owned(),
    }
}

fn foreign_remedy(lane: &Placed) -> String {
    match target(lane).0 {
        Target::Queues => "the default spreading table still names these queues (`ethtool -x`), or another filter leads here: \
             `expresslane lanes apply`"
            .to_owned(),
        Target::Cores => "move other interrupts and RPS off these cores: [default] `cores`, and the other lanes' `cores`"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_never_better_than_the_truth() {
        let check = |share: f64, want: &str| assert_eq!(percent(share), want, "{share}");
        check(1.0, "100 %");
        check(0.9996, "99.9 %");
        check(0.997, "99.7 %");
        check(0.88, "88 %");
        check(0.12, "12 %");
        check(0.0149, "1.4 %");
        check(0.0, "0.0 %");
    }
}
