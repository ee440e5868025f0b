//! Whether lanes are what was wished: configured, then effective, then *used*.
//!
//! Each is asked of the machine anew, since each can be true without the next:
//!
//! | | asks | says, for example |
//! |---|---|---|
//! | configured | has every knob what is wanted? | `nic/ens1/queue/4/irq: wanted 2, has 0-3` |
//! | effective | does what is set have its effect? Filters in hardware, interrupts where they really go, pollers and threads on their cores, nobody who undoes it | not offloaded |
//! | used | do the lane's packets arrive there, and only they? | 99.7 % on its queues; leaking 12 %; idle |
//!
//! What "there" is depends on what steers: with `tc-channel` and `rss-ntuple` the lane's queues; with `virtual`, `soft` and
//! `process`, whose cards know no ports, the cpus of the lane: those that serve it and those that take its interrupts.
//!
//! Verdicts and exit codes are those of monitoring plugins (Nagios, Icinga, Sensu): 0 ok, 1 warning, 2 critical, 3 unknown. Ok
//! is a lane as wished whose packets arrive there, or that is idle. A warning is a leak above [`LEAK_SHARE_MAX`], foreign
//! packets above [`FOREIGN_SHARE_MAX`], or a knob that is not as wished beside the steering. Critical is steering that is not in
//! force or not in hardware, or more than half of the packets elsewhere. Unknown is a lane whose packets can't be seen. A lane
//! without ports is judged by its processes alone, and says so.

mod effective;
mod text;
mod used;

use serde::Serialize;

use crate::facts::{Facts, Nic};
use crate::kernel::{Cause, Kernel};
use crate::knob::{Knob, NicKnob, Setting, ThreadKnob};
use crate::managers;
use crate::plan::{Placed, Plan, Step};
use crate::spec::{Lane, Spec};
use crate::witness::Counts;

pub use used::{Target, Used};

/// Share of a lane's packets that may arrive elsewhere: connections that were open before the lane was, and such.
pub const LEAK_SHARE_MAX: f64 = 0.01;
/// Share of what arrives in a lane that may be others': ARP, ICMP, a health check.
pub const FOREIGN_SHARE_MAX: f64 = 0.05;
/// Foreign packets that are worth a word in a lane that is idle.
pub const FOREIGN_PACKETS_IDLE_MAX: u64 = 100;
/// Share of packets elsewhere from which a lane is none.
pub const LOST_SHARE_MAX: f64 = 0.5;

/// Of a wish that can't be had on the machine as it is now, because a card is gone, say: no lane is in force, whatever is left of it.
/// `problems` says why, a line each.
#[must_use]
pub fn unplanned(spec: &Spec, problems: &str) -> Report {
    let findings: Vec<Finding> = problems.lines().map(|line| effective::unplanned(line.to_owned())).collect();
    let lane = |lane: &Lane| LaneStatus {
        name: lane.name.clone(),
        nic: lane.nic.clone(),
        headline: "not in force".to_owned(),
        verdict: Verdict::Critical,
        knob_count: 0,
        differences: Vec::new(),
        findings: findings.clone(),
        used: Used::Unknown { because: "the lane can't be had on the machine as it is".to_owned() },
    };
    let lanes = spec.lanes.iter().map(lane).collect();
    Report {
        verdict: Verdict::Critical,
        watched_ms: 0,
        polled: None,
        lanes,
        shared: Vec::new(),
        notes: Vec::new(),
    }
}

/// What a knob has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// This, or nothing of the kind.
    Has(Option<Setting>),
    /// It could not be read: the reason.
    Unreadable(String),
}

/// Reads every knob of a plan, in the plan's order.
pub fn read(kernel: &mut dyn Kernel, plan: &Plan) -> Vec<Reading> {
    let read = |step: &Step| match kernel.read(&step.knob) {
        Ok(setting) => Reading::Has(setting),
        // What it belongs to is gone, and the setting with it.
        Err(refusal) if refusal.cause == Cause::Gone => Reading::Has(None),
        Err(refusal) => Reading::Unreadable(refusal.reason),
    };
    plan.steps.iter().map(read).collect()
}

/// What was seen of a card's packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Sight {
    /// These.
    Counted(Counts),
    /// None: the card, and why.
    Blind(String, String),
}

/// All that a judgement rests on.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The wish, planned for the machine as it is now.
    pub plan: &'a Plan,
    /// The machine as it is now.
    pub facts: &'a Facts,
    /// The plan's knobs, as [`read`] has them.
    pub readings: &'a [Reading],
    /// What arrived at the lanes' cards, or at all cards for lanes without one.
    pub sights: &'a [Sight],
    /// For how long that was watched, in milliseconds.
    pub watched_ms: u64,
    /// Packets received by busy polling meanwhile on the whole machine; `None`: the kernel doesn't say.
    pub polled: Option<u64>,
}

/// How bad, in ascending order of what decides when several apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As wished.
    Ok,
    /// Can't be told.
    Unknown,
    /// In force, and not all of it works.
    Warning,
    /// Not in force.
    Critical,
}

impl Verdict {
    /// As monitoring plugins end: 0 ok, 1 warning, 2 critical, 3 unknown.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Verdict::Ok => 0,
            Verdict::Warning => 1,
            Verdict::Critical => 2,
            Verdict::Unknown => 3,
        }
    }
}

/// A knob that has not what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which.
    pub knob: Knob,
    /// What is wanted of it.
    pub want: Option<Setting>,
    /// What it has; absent also where it could not be read.
    pub have: Option<Setting>,
    /// Why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Whether packets or processes find their lane by it.
    pub steers: bool,
}

/// Something that is set and has no effect, or has one that is not wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub problem: String,
    /// What to do.
    pub remedy: String,
    /// How bad.
    pub verdict: Verdict,
}

/// A lane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaneStatus {
    /// Its name.
    pub name: String,
    /// Its card.
    pub nic: Option<String>,
    /// In a few words: `99.7 % on its queues`, `leaking 12 %`, `idle`, `not offloaded`, `not in force`, `can't tell`; of a lane
    /// without ports `4 of 4 threads on its cores`.
    pub headline: String,
    /// How it is.
    pub verdict: Verdict,
    /// Knobs that are the lane's alone.
    pub knob_count: usize,
    /// Those that differ.
    pub differences: Vec<Difference>,
    /// What has not the effect that it should have.
    pub findings: Vec<Finding>,
    /// What its packets do.
    pub used: Used,
}

/// All lanes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The worst of all.
    pub verdict: Verdict,
    /// For how long packets were watched, in milliseconds.
    pub watched_ms: u64,
    /// Packets received by busy polling meanwhile.
    pub polled: Option<u64>,
    /// Each lane, in the order of the file.
    pub lanes: Vec<LaneStatus>,
    /// Knobs of cards and of the machine that differ; they count against every lane that they concern.
    pub shared: Vec<Difference>,
    /// What could not be watched, and why; and daemons that set the lanes' cards again, with what to do.
    pub notes: Vec<String>,
}

/// Judges. Pure: the same evidence gives the same report.
///
/// # Panics
/// If the readings are not those of the plan.
#[must_use]
pub fn judge(evidence: &Evidence<'_>) -> Report {
    let plan = evidence.plan;
    assert_eq!(plan.steps.len(), evidence.readings.len(), "a reading for each step");
    let differ = |(step, reading): (&Step, &Reading)| difference(step, reading);
    let shared: Vec<Difference> = plan
        .steps
        .iter()
        .zip(evidence.readings)
        .filter(|(step, _)| step.lane().is_none())
        .filter_map(differ)
        .collect();
    let lanes: Vec<LaneStatus> =
        (0..plan.lanes.len()).map(|index| judge_lane(evidence, index, &shared)).collect();
    let unseen = evidence.sights.iter().filter_map(|sight| match sight {
        Sight::Blind(nic, why) => Some(format!("packets of {nic} could not be watched: {why}")),
        Sight::Counted(_) => None,
    });
    let is_a_lanes = |nic: &&Nic| plan.lanes.iter().any(|lane| lane.nic.as_ref() == Some(&nic.name));
    let cards = evidence.facts.nics.iter().filter(is_a_lanes);
    let notes = unseen.chain(managers::warnings(evidence.facts, cards));
    let worst = lanes.iter().map(|lane| lane.verdict);
    let worst_shared = shared.iter().map(Difference::verdict);
    let verdict = worst.chain(worst_shared).max().unwrap_or(Verdict::Unknown);
    let (watched_ms, polled) = (evidence.watched_ms, evidence.polled);
    Report { verdict, watched_ms, polled, lanes, shared, notes: notes.collect() }
}

fn judge_lane(evidence: &Evidence<'_>, index: usize, shared: &[Difference]) -> LaneStatus {
    let plan = evidence.plan;
    let lane = &plan.lanes[index];
    let mine = || plan.steps.iter().zip(evidence.readings).filter(|it| it.0.lane() == Some(&lane.name));
    let differences: Vec<Difference> =
        mine().filter_map(|(step, reading)| difference(step, reading)).collect();
    let used = used::used(evidence, index);
    let mut findings = effective::findings(evidence, lane, &used);
    findings.extend(used::findings(lane, &used));
    let concerns_lane = |it: &&Difference| match &it.knob {
        Knob::Nic { nic, .. } => lane.nic.as_ref() == Some(nic),
        _ => true,
    };
    let apart = differences.iter().chain(shared.iter().filter(concerns_lane));
    let steering_differs = apart.clone().any(|it| it.verdict() == Verdict::Critical);
    let verdict = apart
        .map(Difference::verdict)
        .chain(findings.iter().map(|finding| finding.verdict))
        .chain([used.verdict()])
        .max()
        .unwrap_or(Verdict::Ok);
    let is_offloaded = !findings.iter().any(effective::is_not_offloaded);
    let headline = match () {
        () if !is_offloaded => "not offloaded".to_owned(),
        () if steering_differs => format!("not in force; {}", used.headline()),
        () => used.headline(),
    };
    let (name, nic, knob_count) = (lane.name.clone(), lane.nic.clone(), mine().count());
    LaneStatus { name, nic, headline, verdict, knob_count, differences, findings, used }
}

fn difference(step: &Step, reading: &Reading) -> Option<Difference> {
    let (have, unreadable) = match reading {
        Reading::Has(have) if *have == step.want => return None,
        Reading::Has(have) => (have.clone(), None),
        Reading::Unreadable(why) => (None, Some(why.clone())),
    };
    let (knob, want, steers) = (step.knob.clone(), step.want.clone(), steers(&step.knob));
    Some(Difference { knob, want, have, unreadable, steers })
}

/// Whether packets or processes find their lane by it; what else there is makes the lane better.
fn steers(knob: &Knob) -> bool {
    match knob {
        Knob::Thread { what, .. } => *what == ThreadKnob::Affinity,
        Knob::Nic { knob, .. } => matches!(
            knob,
            NicKnob::Root
                | NicKnob::Channels
                | NicKnob::Feature(_)
                | NicKnob::Indirection
                | NicKnob::Context(_)
                | NicKnob::Ntuple(_)
                | NicKnob::Clsact
                | NicKnob::Filter(..)
                | NicKnob::RpsCpus(_)
        ),
        _ => false,
    }
}

impl Difference {
    fn verdict(&self) -> Verdict {
        match (&self.unreadable, self.steers) {
            (Some(_), _) => Verdict::Unknown,
            (None, true) => Verdict::Critical,
            (None, false) => Verdict::Warning,
        }
    }
}

/// Packets received by busy polling, from the text of /proc/net/netstat: the names in one line, their values in the next.
#[must_use]
pub fn polled(netstat: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split(' ').zip(values.split(' '));
    pairs.find(|(name, _)| *name == "BusyPollRxPackets").and_then(|(_, value)| value.parse().ok())
}

/// The cards to be watched for a plan: those of its lanes; where a lane has none, all that are up.
#[must_use]
pub fn cards_to_watch<'a>(lanes: &[Placed], facts: &'a Facts) -> Vec<&'a Nic> {
    let is_all = lanes.iter().any(|lane| lane.nic.is_none());
    let is_wanted = |name: &String| lanes.iter().any(|lane| lane.nic.as_ref() == Some(name));
    facts.nics.iter().filter(|nic| is_wanted(&nic.name) || (is_all && nic.up)).collect()
}

#[cfg(test)]
mod tests;
