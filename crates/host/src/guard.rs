//! Keeps lanes: of the knobs that have lost what was set, says which to set again, and which not any more.
//!
//! A link that goes down and up clears XPS, a reset of the card takes affinities and classes, and daemons set what they think
//! right. The first two are mended and over. A daemon comes back, and setting a knob against it for ever helps nobody: a knob
//! that is lost too often is told, with who is the likeliest to do it, and left until that has been quiet for a while.
//!
//! Pure: the caller reads the knobs, the clock and the kernel's notices, and calls [`crate::apply::again`] with what is found.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::change::shown;
use crate::facts::Daemon;
use crate::journal::Journal;
use crate::kernel::{Kernel, Refusal};
use crate::knob::{Knob, NicKnob, Setting};
use crate::managers;
use crate::plan::{Plan, Step};

/// Losses of a knob within [`WINDOW_MS`] that are mended; the next is left.
pub const LOSSES_COUNT_MAX: usize = 5;
/// For how long a loss counts, in milliseconds; and for how long a knob that was left must not change to be mended again.
pub const WINDOW_MS: u64 = 10 * 60 * 1000;

/// What each knob of a plan has now; knobs of things that are not there are missing.
pub type Fresh = BTreeMap<Knob, Result<Option<Setting>, Refusal>>;

/// Reads what a plan wants.
pub fn fresh(plan: &Plan, kernel: &mut dyn Kernel) -> Fresh {
    plan.steps.iter().map(|step| (step.knob.clone(), kernel.read(&step.knob))).collect()
}

/// Takes over the threads of processes as `now` has them, a later plan of the same wish: servers start and end threads, while what
/// a card shall have stays as it was planned. Of a card that is being reset, or that has lost queues, another plan would come.
pub fn take_threads(plan: &mut Plan, now: &Plan) {
    let is_thread = |step: &Step| matches!(step.knob, Knob::Thread { .. });
    plan.steps.retain(|step| !is_thread(step));
    plan.steps.extend(now.steps.iter().filter(|step| is_thread(step)).cloned());
}

/// What the kernel told since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A card's link changed, or the card was reset: what is lost on it now is nobody's doing.
    Link {
        /// The interface's name.
        nic: String,
    },
}

/// What a look finds.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// Lost, to be set again.
    Again {
        /// The step that sets it.
        step: Step,
        /// What it has.
        found: Option<Setting>,
    },
    /// Lost too often: left. Told once.
    Left {
        /// Which.
        knob: Knob,
        /// What it has.
        found: Option<Setting>,
        /// How often it was lost within [`WINDOW_MS`].
        losses_count: usize,
        /// Who is likely to set it, and what to do.
        culprit: String,
    },
    /// What it belongs to is not there, or can't be read. Told once.
    Unreadable {
        /// Which.
        knob: Knob,
        /// In the kernel's words.
        reason: String,
    },
    /// The lanes in force have not set it, and it did not have what is wanted since guarding began: whose it is can't be told.
    /// Told once.
    Unknown {
        /// The step that would set it.
        step: Step,
        /// What it has.
        found: Option<Setting>,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Again { step, found } => {
                write!(f, "{} has {}: set to {} again", step.knob, shown(found), shown(&step.want))
            }
            Finding::Left { knob, found, losses_count, culprit } => write!(
                f,
                "{knob} has {} and was lost {losses_count} times in {} minutes: left so. {culprit}",
                shown(found),
                WINDOW_MS / 60_000
            ),
            Finding::Unreadable { knob, reason } => write!(f, "{knob} can't be looked at: {reason}"),
            Finding::Unknown { step, found } => write!(
                f,
                "{} has {}, and the lanes in force never set it: left so. `expresslane lanes apply` sets it to {}",
                step.knob,
                shown(found),
                shown(&step.want)
            ),
        }
    }
}

/// What was lost when.
#[derive(Debug, Default)]
pub struct Guard {
    known: BTreeMap<Knob, Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Times of losses that a notice does not explain, in milliseconds; those within the window.
    losses_ms: VecDeque<u64>,
    /// What it had when it was left.
    left_with: Option<Option<Setting>>,
    /// It had what is wanted at some look, or the journal has it.
    is_kept: bool,
    /// It was told that nothing can be done about it, and that is still so.
    is_told: bool,
}

impl Guard {
    /// Compares what is wanted with what is there, in the order of the plan. Nothing is found while the lanes are not wholly in
    /// force: an apply or a revert is at them, or was cut short.
    pub fn look(
        &mut self,
        plan: &Plan,
        journal: &Journal,
        fresh: &Fresh,
        notices: &[Notice],
        daemons: &[Daemon],
        now_ms: u64,
    ) -> Vec<Finding> {
        if !journal.is_complete() {
            return Vec::new();
        }
        let last =
            |index: usize, knob: &Knob| plan.steps[index + 1..].iter().all(|later| later.knob != *knob);
        let mut findings = Vec::new();
        for (index, step) in plan.steps.iter().enumerate() {
            let Some(found) = fresh.get(&step.knob).filter(|_| last(index, &step.knob)) else { continue };
            let known = self.known.entry(step.knob.clone()).or_default();
            // A server may start threads at any time, and those are to be where the others are.
            known.is_kept |= matches!(step.knob, Knob::Thread { .. }) || journal.held(&step.knob).is_some();
            let finding = match found {
                Ok(found) => known.compare(step, found, notices, daemons, now_ms),
                Err(refusal) => known
                    .told(|| Finding::Unreadable { knob: step.knob.clone(), reason: refusal.reason.clone() }),
            };
            findings.extend(finding);
        }
        findings
    }
}

impl Known {
    fn compare(
        &mut self,
        step: &Step,
        found: &Option<Setting>,
        notices: &[Notice],
        daemons: &[Daemon],
        now_ms: u64,
    ) -> Option<Finding> {
        self.losses_ms.retain(|loss_ms| now_ms.saturating_sub(*loss_ms) < WINDOW_MS);
        if *found == step.want {
            (self.left_with, self.is_kept, self.is_told) = (None, true, false);
            return None;
        }
        if !self.is_kept {
            return self.told(|| Finding::Unknown { step: step.clone(), found: found.clone() });
        }
        self.is_told = false;
        if is_explained(&step.knob, notices) {
            return Some(Finding::Again { step: step.clone(), found: found.clone() });
        }
        if self.left_with.is_some() {
            // It changes still: the quiet begins anew.
            if self.left_with.as_ref() != Some(found) {
                self.left_with = Some(found.clone());
                self.lose(now_ms);
            }
            if !self.losses_ms.is_empty() {
                return None;
            }
            self.left_with = None;
        }
        self.lose(now_ms);
        if self.losses_ms.len() <= LOSSES_COUNT_MAX {
            return Some(Finding::Again { step: step.clone(), found: found.clone() });
        }
        self.left_with = Some(found.clone());
        Some(Finding::Left {
            knob: step.knob.clone(),
            found: found.clone(),
            losses_count: self.losses_ms.len(),
            culprit: culprit(&step.knob, daemons),
        })
    }

    /// A finding about which nothing is done, once.
    fn told(&mut self, finding: impl FnOnce() -> Finding) -> Option<Finding> {
        let is_news = !std::mem::replace(&mut self.is_told, true);
        is_news.then(finding)
    }

    fn lose(&mut self, now_ms: u64) {
        self.losses_ms.push_back(now_ms);
        if self.losses_ms.len() > LOSSES_COUNT_MAX + 1 {
            self.losses_ms.pop_front();
        }
    }
}

fn is_explained(knob: &Knob, notices: &[Notice]) -> bool {
    let Knob::Nic { nic, .. } = knob else { return false };
    notices.iter().any(|Notice::Link { nic: changed }| changed == nic)
}

/// Who among the daemons that run sets such knobs.
fn culprit(knob: &Knob, daemons: &[Daemon]) -> String {
    let suspects: &[&str] = match knob {
        Knob::Nic { knob: NicKnob::IrqAffinity(_), .. } => &["irqbalance", "tuned"],
        Knob::Nic { knob: NicKnob::RpsCpus(_) | NicKnob::XpsCpus(_), .. } => &["tuned", "irqbalance"],
        Knob::Nic { .. } | Knob::Rule { .. } | Knob::Route { .. } => {
            &["NetworkManager", "systemd-networkd", "tuned"]
        }
        Knob::Sysctl { .. } | Knob::Cpu { .. } | Knob::Thread { .. } => &["tuned"],
        Knob::Cgroup { .. } => &["systemd"],
        Knob::Service { .. } => &[],
    };
    let running = |name: &&&str| daemons.iter().any(|daemon| daemon.running && daemon.name == ***name);
    match (suspects.iter().find(running), knob) {
        (Some(name), Knob::Nic { nic, .. }) if *name == "NetworkManager" => {
            format!("{name} runs and sets such things: {}", managers::remedy(name, nic)[0])
        }
        (Some(name), _) => format!("{name} runs and sets such things: tell it not to, or stop it"),
        (None, Knob::Service { name }) => {
            format!(
                "Something starts {name} again: disable the unit, or leave it with irqbalance = \"leave\""
            )
        }
        (None, Knob::Cgroup { .. }) => {
            "systemd sets it when it reloads: give the unit AllowedCPUs= instead".to_owned()
        }
        (None, _) => {
            "No daemon known to set it runs: look for a script or a cloud agent that does".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::{again, apply};
    use crate::facts::{Facts, Nic, Process, Queue, Thread};
    use crate::journal::{Memory, Wish};
    use crate::kernel::fake::Fake;
    use crate::revert::revert;

    fn step(knob: Knob, have: &str, want: &str) -> Step {
        let (have, want) = (Some(Setting::new(have)), Some(Setting::new(want)));
        Step { knob, have, want, why: String::new(), risks: vec![], disturbs: vec![] }
    }

    fn xps() -> Knob {
        Knob::nic("ens1", NicKnob::XpsCpus(0))
    }

    fn irq() -> Knob {
        Knob::nic("ens1", NicKnob::IrqAffinity(0))
    }

    /// A machine with a lane in force.
    struct Machine {
        kernel: Fake,
        journal: Journal,
        plan: Plan,
        guard: Guard,
    }

    impl Machine {
        fn new() -> Machine {
            let cpus: crate::Cpus = "0-3".parse().unwrap();
            let queue = Queue {
                irq_cpus: Some(cpus.clone()),
                xps_cpus: Some(cpus),
                rps_cpus: Some([0].into_iter().collect()),
                ..Queue::default()
            };
            let nic = Nic { name: "ens1".to_owned(), queues: vec![queue], ..Nic::default() };
            let thread = |tid| Thread { tid, cpus: "0-3".parse().unwrap(), ..Thread::default() };
            let process =
                Process { pid: 7, start: 1, threads: vec![thread(7), thread(8)], ..Process::default() };
            let facts = Facts { nics: vec![nic], processes: vec![process], ..Facts::default() };
            let mut kernel = Fake::of(&facts);
            let log = Memory::default();
            let mut journal = Journal::begin(Box::new(log), "boot", Wish::default()).unwrap();
            let steps = vec![step(irq(), "0-3", "2"), step(xps(), "0-3", "3")];
            let plan = Plan { steps, ..Plan::default() };
            apply(&plan, &mut kernel, &mut journal, &mut |_| {});
            Machine { kernel, journal, plan, guard: Guard::default() }
        }

        fn look(&mut self, notices: &[Notice], now_ms: u64) -> Vec<Finding> {
            let daemon =
                Daemon { name: "irqbalance".to_owned(), running: true, manageable: true, profile: None };
            let fresh = fresh(&self.plan, &mut self.kernel);
            self.guard.look(&self.plan, &self.journal, &fresh, notices, &[daemon], now_ms)
        }

        /// Sets again what is found, and returns which knobs.
        fn mend(&mut self, notices: &[Notice], now_ms: u64) -> Vec<Knob> {
            let steps = self.look(notices, now_ms).into_iter().filter_map(|finding| match finding {
                Finding::Again { step, .. } => Some(step),
                _ => None,
            });
            let steps: Vec<Step> = steps.collect();
            assert_eq!(again(&steps, &mut self.kernel, &mut self.journal, &mut |_| {}), []);
            steps.into_iter().map(|step| step.knob).collect()
        }

        fn set(&mut self, knob: &Knob, to: &str) {
            self.kernel.set_by_other(knob, Some(&Setting::new(to))).unwrap();
        }
    }

    #[test]
    fn what_a_link_took_is_set_again_however_often() {
        let mut machine = Machine::new();
        let notices = [Notice::Link { nic: "ens1".to_owned() }];
        for now_ms in 0..100 {
            assert_eq!(machine.mend(&notices, now_ms), []);
            machine.kernel.flap("ens1");
            assert_eq!(machine.mend(&notices, now_ms), [xps()]);
            assert!(machine.journal.is_complete(), "guarding leaves the lanes in force");
        }
        let other = [Notice::Link { nic: "ens2".to_owned() }];
        for now_ms in 0..=LOSSES_COUNT_MAX as u64 {
            machine.kernel.flap("ens1");
            machine.mend(&other, now_ms);
        }
        machine.kernel.flap("ens1");
        assert_eq!(machine.mend(&other, 99), [], "another card's link explains nothing");

        let reverted = revert(&mut machine.kernel, &mut machine.journal, true, &mut |_| {});
        assert!(reverted.is_clean());
        assert_eq!(machine.kernel.read(&xps()), Ok(Some(Setting::new("0-3"))), "the first value was kept");
    }

    #[test]
    fn a_knob_lost_too_often_is_told_with_its_culprit_and_left_until_it_is_quiet() {
        let mut machine = Machine::new();
        for loss in 0..LOSSES_COUNT_MAX {
            machine.set(&irq(), "0");
            assert_eq!(machine.mend(&[], loss as u64 * 1000), [irq()], "loss {loss}");
        }
        machine.set(&irq(), "0");
        let findings = machine.look(&[], 10_000);
        let [Finding::Left { knob, losses_count, culprit, .. }] = findings.as_slice() else {
            panic!("{findings:?}")
        };
        assert_eq!((knob, *losses_count), (&irq(), LOSSES_COUNT_MAX + 1));
        assert!(culprit.contains("irqbalance runs"), "{culprit}");
        assert!(findings[0].to_string().contains("6 times in 10 minutes"), "{}", findings[0]);

        // Told once, also when the daemon goes on.
        assert_eq!(machine.look(&[], 11_000), []);
        machine.set(&irq(), "1");
        assert_eq!(machine.look(&[], 300_000), []);
        // However often it changes: what is kept of it does not grow.
        for change in 0..100 {
            machine.set(&irq(), ["0", "1"][change % 2]);
            assert_eq!(machine.look(&[], 300_000), []);
        }
        assert!(machine.guard.known[&irq()].losses_ms.len() <= LOSSES_COUNT_MAX + 1);
        // The last change counts: it is not quiet before that is old.
        assert_eq!(machine.look(&[], 10_000 + WINDOW_MS), []);
        assert_eq!(machine.mend(&[], 300_000 + WINDOW_MS), [irq()]);
    }

    /// A knob that the lanes found as wanted is set again when it is lost, and revert leaves it as they found it: what somebody
    /// set meanwhile was in passing.
    #[test]
    fn what_was_as_wanted_before_the_lanes_is_so_after_them() {
        let mut machine = Machine::new();
        let rps = Knob::nic("ens1", NicKnob::RpsCpus(0));
        machine.plan.steps.push(step(rps.clone(), "0", "0"));
        assert_eq!(machine.look(&[], 0), []);
        machine.set(&rps, "3");
        assert_eq!(machine.mend(&[], 1), std::slice::from_ref(&rps));
        let reverted = revert(&mut machine.kernel, &mut machine.journal, false, &mut |_| {});
        assert!(reverted.is_clean(), "{reverted}");
        assert_eq!(machine.kernel.read(&rps), Ok(Some(Setting::new("0"))));
    }

    #[test]
    fn seldom_losses_are_always_mended() {
        let mut machine = Machine::new();
        for loss in 0..30 {
            machine.set(&irq(), "0");
            assert_eq!(
                machine.mend(&[], loss * (WINDOW_MS / LOSSES_COUNT_MAX as u64)),
                [irq()],
                "loss {loss}"
            );
        }
    }

    #[test]
    fn nothing_is_set_while_lanes_are_not_wholly_in_force() {
        let mut machine = Machine::new();
        machine.set(&irq(), "0");
        let reverted = revert(&mut machine.kernel, &mut machine.journal, false, &mut |_| {});
        assert_eq!(reverted.conflicts.len(), 1);
        assert_eq!(machine.look(&[], 0), []);
    }

    #[test]
    fn what_the_lanes_never_set_is_told_once_and_left() {
        let mut machine = Machine::new();
        let rps = Knob::nic("ens1", NicKnob::RpsCpus(0));
        machine.plan.steps.push(step(rps.clone(), "", "1"));
        let findings = machine.look(&[Notice::Link { nic: "ens1".to_owned() }], 0);
        let [Finding::Unknown { step, found }] = findings.as_slice() else { panic!("{findings:?}") };
        assert_eq!((&step.knob, found), (&rps, &Some(Setting::new("0"))));
        assert!(findings[0].to_string().contains("lanes apply` sets it to '1'"), "{}", findings[0]);
        assert_eq!(machine.look(&[], 1), []);
        // From when it had what is wanted, it is kept.
        machine.set(&rps, "1");
        assert_eq!(machine.look(&[], 2), []);
        machine.set(&rps, "2");
        assert_eq!(machine.mend(&[], 3), [rps]);
    }

    #[test]
    fn who_sets_a_knob_is_one_that_runs() {
        let tuned = |running| Daemon { name: "tuned".to_owned(), running, manageable: true, profile: None };
        let latency: Knob = "cpu/3/resume-latency-us".parse().unwrap();
        assert!(culprit(&latency, &[tuned(true)]).starts_with("tuned runs"));
        assert!(culprit(&latency, &[tuned(false)]).starts_with("No daemon known"));
        let manager = Daemon { name: "NetworkManager".to_owned(), ..tuned(true) };
        let rings = Knob::nic("ens1", NicKnob::Rings);
        assert!(culprit(&rings, &[tuned(true), manager]).ends_with("nmcli device set ens1 managed no"));
    }

    #[test]
    fn a_thread_that_was_started_since_is_set_and_the_last_of_two_wants_counts() {
        let mut machine = Machine::new();
        let affinity = Knob::Thread { pid: 7, start: 1, tid: 8, what: crate::knob::ThreadKnob::Affinity };
        machine.plan.steps.push(step(affinity.clone(), "0-3", "2"));
        assert_eq!(machine.mend(&[], 0), [affinity]);
        machine.plan.steps.insert(0, step(irq(), "0-3", "1"));
        assert_eq!(machine.look(&[], 1), [], "an earlier step wants something else in passing");
    }

    #[test]
    fn threads_are_those_of_now_and_the_rest_stays_as_it_was_planned() {
        let thread = |tid| Knob::Thread { pid: 7, start: 1, tid, what: crate::knob::ThreadKnob::Affinity };
        let plan = |steps| Plan { steps, ..Plan::default() };
        let mut kept = plan(vec![step(irq(), "0-3", "2"), step(thread(7), "0-3", "2")]);
        let now = plan(vec![step(xps(), "0-3", "3"), step(thread(7), "2", "2"), step(thread(8), "0-3", "2")]);
        take_threads(&mut kept, &now);
        let knobs: Vec<Knob> = kept.steps.into_iter().map(|step| step.knob).collect();
        assert_eq!(knobs, [irq(), thread(7), thread(8)]);
    }

    #[test]
    fn a_card_that_is_gone_is_told_once() {
        let mut machine = Machine::new();
        let before = machine.kernel.clone();
        machine.kernel.unplug("ens1");
        let findings = machine.look(&[], 0);
        assert!(findings.iter().all(|finding| matches!(finding, Finding::Unreadable { .. })));
        assert_eq!((findings.len(), machine.look(&[], 1).len()), (2, 0));
        machine.kernel = before;
        assert_eq!(machine.look(&[], 2), []);
        machine.kernel.unplug("ens1");
        assert_eq!(machine.look(&[], 3).len(), 2, "once each time");
    }
}
