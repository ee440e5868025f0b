//! Lanes are made and unmade on made-up machines, with everything going wrong that can, and every knob is compared with what it
//! was: nothing may be left behind, and nothing of others' taken along.

mod chance;
mod lanes;
mod machine;
mod wish;

use std::collections::BTreeMap;

use chance::Chance;
use host::apply::{Outcome, apply};
use host::facts::Facts;
use host::journal::{Journal, Memory, Wish};
use host::kernel::fake::{Fake, Fault, Fuse};
use host::revert::{Reverted, revert};
use host::{Kernel, Knob, Plan, Setting};

/// Machines on which all goes well, apart from what is impossible.
const ROUNDS_COUNT: u64 = 200;
/// Machines on which writes fail and processes die.
const BROKEN_ROUNDS_COUNT: usize = 20;
/// Of those, machines on which each single write and each single operation is tried; on the others, every so-manieth.
const THOROUGH_ROUNDS_COUNT: usize = 2;
const STRIDE: usize = 29;

type Seen = BTreeMap<Knob, Setting>;

/// A machine with a plan for it, and a journal in memory.
struct Round {
    seed: u64,
    chance: Chance,
    facts: Facts,
    fake: Fake,
    plan: Plan,
    before: Seen,
    log: Memory,
}

impl Round {
    fn new(seed: u64) -> Round {
        let mut chance = Chance::new(seed);
        let (facts, fake) = machine::machine(&mut chance);
        let plan = wish::plan(&facts, &fake, &mut chance);
        let before = fake.seen();
        Round { seed, chance, facts, fake, plan, before, log: Memory::default() }
    }

    /// The journal as it is read from disk.
    fn journal(&self) -> Journal {
        self.journal_or_crash().expect("no fuse burns")
    }

    /// None: the process died while it wrote the first line.
    fn journal_or_crash(&self) -> Option<Journal> {
        match Journal::parse("journal", &self.log.bytes()).expect("it is one of ours") {
            None => {
                self.log.truncate(0);
                Journal::begin(Box::new(self.log.clone()), "first", Wish::default()).ok()
            }
            Some((journal, size)) => {
                self.log.truncate(size);
                Some(journal.resumed(Box::new(self.log.clone())))
            }
        }
    }

    fn apply(&mut self) -> Outcome {
        let plan = self.plan.clone();
        self.apply_plan(&plan)
    }

    fn apply_plan(&mut self, plan: &Plan) -> Outcome {
        let mut journal = self.journal();
        apply(plan, &mut self.fake, &mut journal, &mut |_| {})
    }

    fn revert(&mut self) -> Reverted {
        self.revert_with(false)
    }

    fn revert_with(&mut self, force: bool) -> Reverted {
        let mut journal = self.journal();
        let reverted = revert(&mut self.fake, &mut journal, force, &mut |_| {});
        assert_eq!(journal.is_over(), reverted.is_clean(), "seed {}: {reverted}", self.seed);
        reverted
    }

    /// `work` dies in operation `nth`, and another process takes its place. Returns whether it came that far.
    fn crash(&mut self, nth: u64, work: impl FnOnce(&mut Fake, &mut Journal)) -> bool {
        let fuse = Fuse::new(nth, self.chance.number());
        self.fake.set_fuse(&fuse);
        self.log = self.log.with_fuse(&fuse);
        if let Some(mut journal) = self.journal_or_crash() {
            work(&mut self.fake, &mut journal);
        }
        self.fake.set_fuse(&Fuse::default());
        self.log = self.log.with_fuse(&Fuse::default());
        fuse.has_crashed()
    }

    fn crash_apply(&mut self, nth: u64, plan: &Plan) -> bool {
        self.crash(nth, |fake, journal| drop(apply(plan, fake, journal, &mut |_| {})))
    }

    #[track_caller]
    fn is_as_before(&self, what: &str) {
        self.is_as(&self.before, what);
    }

    #[track_caller]
    fn is_as(&self, wanted: &Seen, what: &str) {
        let differences = differences(wanted, &self.fake.seen());
        assert!(differences.is_empty(), "seed {}, {what}:\n{}", self.seed, differences.join("\n"));
    }
}

fn differences(wanted: &Seen, found: &Seen) -> Vec<String> {
    let knobs: std::collections::BTreeSet<&Knob> = wanted.keys().chain(found.keys()).collect();
    let differs = |knob: &&&Knob| wanted.get(**knob) != found.get(**knob);
    let tell = |knob: &Knob| format!("{knob}: {:?}, not {:?}", found.get(knob), wanted.get(knob));
    knobs.iter().filter(differs).map(|knob| tell(knob)).collect()
}

/// Seeds of machines whose plan can be carried out, each with the writes or operations at which something is to go wrong.
fn possible() -> impl Iterator<Item = (u64, std::iter::StepBy<std::ops::RangeFrom<u64>>)> {
    let is_possible = |seed: &u64| matches!(Round::new(*seed).apply(), Outcome::InForce { .. });
    (0..).filter(is_possible).take(BROKEN_ROUNDS_COUNT).enumerate().map(|(index, seed)| {
        let is_thorough = index < THOROUGH_ROUNDS_COUNT;
        let (first, stride) = if is_thorough { (0, 1) } else { (seed % STRIDE as u64, STRIDE) };
        (seed, (first..).step_by(stride))
    })
}

#[test]
fn what_is_applied_is_there_and_what_is_reverted_is_gone() {
    let mut in_force_count = 0;
    let mut written = 0;
    for seed in 0..ROUNDS_COUNT {
        let mut round = Round::new(seed);
        match round.apply() {
            Outcome::InForce { written_count, gone, dropped } => {
                assert_eq!((gone.len(), dropped), (0, Reverted::default()));
                in_force_count += 1;
                written += written_count;
                for (index, step) in round.plan.steps.clone().iter().enumerate() {
                    let is_last = round.plan.steps[index + 1..].iter().all(|later| later.knob != step.knob);
                    let found = round.fake.read(&step.knob).unwrap();
                    assert!(!is_last || found == step.want, "seed {seed}: {} has {found:?}", step.knob);
                }
                let reverted = round.revert();
                assert!(reverted.is_clean(), "seed {seed}: {reverted}");
            }
            Outcome::Failed { undone, .. } => {
                assert!(undone.is_clean(), "seed {seed}: {undone}");
                assert!(round.journal().is_over(), "seed {seed}");
            }
        }
        round.is_as_before("reverted");
    }
    assert!(in_force_count * 10 > ROUNDS_COUNT * 6, "only {in_force_count} plans were possible");
    assert!(written > 2_000, "only {written} knobs were written");
}

#[test]
fn a_wish_applied_twice_writes_nothing_the_second_time() {
    for seed in 0..100 {
        let mut round = Round::new(seed);
        round.plan.steps.dedup_by_key(|step| step.knob.clone());
        let twice = |plan: &Plan| {
            let knobs: Vec<_> = plan.steps.iter().map(|step| &step.knob).collect();
            knobs.iter().enumerate().any(|(index, knob)| knobs[index + 1..].contains(knob))
        };
        if twice(&round.plan) || matches!(round.apply(), Outcome::Failed { .. }) {
            continue;
        }
        round.fake.forgive();
        let outcome = round.apply();
        assert!(matches!(outcome, Outcome::InForce { written_count: 0, .. }), "seed {seed}: {outcome}");
        assert_eq!(round.fake.writes_count(), 0, "seed {seed}");
        assert!(round.journal().is_complete());
        round.revert();
        round.is_as_before("reverted");
    }
}

#[test]
fn another_wish_replaces_the_former_and_reverts_to_the_bare_machine() {
    let mut replaced_count = 0;
    for (seed, _) in possible() {
        let mut round = Round::new(seed);
        for _ in 0..3 {
            round.apply();
            let between = round.fake.seen();
            let next = wish::plan(&round.facts, &round.fake, &mut round.chance);
            match round.apply_plan(&next) {
                Outcome::InForce { dropped, .. } => {
                    // A class below a root that is ours now; queues that a rule names until its own step changes it.
                    let is_in_the_way = |(knob, reason): &(Knob, String)| {
                        knob.to_string().contains("/1:10") || reason.contains("existing ntuple rules")
                    };
                    assert!(dropped.conflicts.is_empty(), "seed {}: {dropped}", round.seed);
                    assert!(dropped.refused.iter().all(is_in_the_way), "seed {}: {dropped}", round.seed);
                    replaced_count += 1;
                }
                Outcome::Failed { undone, knob, reason } => {
                    assert!(undone.is_clean(), "seed {}: {undone}", round.seed);
                    round.is_as(&between, &format!("back at the former wish: {knob} {reason}"));
                }
            }
        }
        let reverted = round.revert();
        assert!(reverted.is_clean(), "seed {}: {reverted}", round.seed);
        round.is_as_before("reverted");
    }
    assert!(replaced_count > 20, "only {replaced_count} wishes were replaced");
}

/// A refusal of a setting that is set again is tried again: all others end the apply.
const FAILED_SHARE_MIN: f64 = 0.7;

#[test]
fn a_write_that_fails_undoes_what_went_before_it() {
    let (mut failed_count, mut tried_count) = (0.0, 0.0);
    for (seed, places) in possible() {
        let mut counting = Round::new(seed);
        counting.apply();
        let places = places.take_while(|nth| *nth < counting.fake.writes_count());
        for (nth, takes_effect) in places.flat_map(|nth| [(nth, false), (nth, true)]) {
            let mut round = Round::new(seed);
            round.fake.plan_fault(Fault::WriteFails { nth, takes_effect });
            tried_count += 1.0;
            match round.apply() {
                Outcome::Failed { undone, .. } => {
                    failed_count += 1.0;
                    assert!(undone.is_clean(), "seed {}, write {nth}: {undone}", round.seed);
                    assert!(round.journal().is_over());
                }
                Outcome::InForce { .. } => assert!(round.revert().is_clean()),
            }
            round.is_as_before(&format!("write {nth} failed, after taking effect: {takes_effect}"));
        }
    }
    assert!(failed_count > tried_count * FAILED_SHARE_MIN, "{failed_count} of {tried_count}");
}

#[test]
fn a_failing_replacement_leaves_the_former_wish_in_force() {
    let (mut failed_count, mut tried_count) = (0.0, 0.0);
    for (seed, places) in possible() {
        let prepare = || {
            let mut round = Round::new(seed);
            round.apply();
            round.fake.forgive();
            let next = wish::plan(&round.facts, &round.fake, &mut round.chance);
            (round, next)
        };
        let (mut counting, next) = prepare();
        if matches!(counting.apply_plan(&next), Outcome::Failed { .. }) {
            continue;
        }
        for nth in places.take_while(|nth| *nth < counting.fake.writes_count()) {
            let (mut round, next) = prepare();
            let between = round.fake.seen();
            round.fake.plan_fault(Fault::WriteFails { nth, takes_effect: nth % 2 == 0 });
            tried_count += 1.0;
            if let Outcome::Failed { undone, .. } = round.apply_plan(&next) {
                failed_count += 1.0;
                assert!(undone.is_clean(), "seed {}, write {nth}: {undone}", round.seed);
                round.is_as(&between, &format!("write {nth} of the replacement failed"));
            }
            let reverted = round.revert();
            assert!(reverted.is_clean(), "seed {}, write {nth}: {reverted}", round.seed);
            round.is_as_before(&format!("write {nth} of the replacement failed, then reverted"));
        }
    }
    // Most writes of a replacement put back what is no longer named, which is tried again.
    assert!(failed_count > tried_count * 0.2, "{failed_count} of {tried_count}");
}

#[test]
fn a_crash_anywhere_leaves_a_journal_that_reverts() {
    for (seed, places) in possible() {
        for nth in places {
            let mut round = Round::new(seed);
            if !round.crash_apply(nth, &round.plan.clone()) {
                break;
            }
            // In half of the cases, whoever reverts crashes, too.
            if nth % 2 == 0 {
                let at = u64::from(round.chance.below(80));
                round.crash(at, |fake, journal| drop(revert(fake, journal, false, &mut |_| {})));
            }
            let reverted = round.revert();
            assert!(reverted.is_clean(), "seed {}, operation {nth}: {reverted}", round.seed);
            round.is_as_before(&format!("crash in operation {nth}, then reverted"));
        }
    }
}

#[test]
fn a_crash_anywhere_in_a_revert_leaves_a_journal_that_reverts() {
    for (seed, places) in possible() {
        for nth in places {
            let mut round = Round::new(seed);
            round.apply();
            if !round.crash(nth, |fake, journal| drop(revert(fake, journal, false, &mut |_| {}))) {
                break;
            }
            let reverted = round.revert();
            assert!(reverted.is_clean(), "seed {}, operation {nth}: {reverted}", round.seed);
            round.is_as_before(&format!("crash in operation {nth} of the revert"));
        }
    }
}

#[test]
fn a_crash_anywhere_leaves_a_journal_that_goes_on() {
    for (seed, places) in possible() {
        for nth in places {
            let mut round = Round::new(seed);
            if !round.crash_apply(nth, &round.plan.clone()) {
                break;
            }
            let outcome = round.apply();
            assert!(matches!(outcome, Outcome::InForce { .. }), "seed {}, {nth}: {outcome}", round.seed);
            let reverted = round.revert();
            assert!(reverted.is_clean(), "seed {}, operation {nth}: {reverted}", round.seed);
            round.is_as_before(&format!("crash in operation {nth}, then applied and reverted"));
        }
    }
}

#[test]
fn a_crash_in_a_replacement_reverts_to_the_bare_machine() {
    for (seed, places) in possible() {
        for nth in places {
            let mut round = Round::new(seed);
            round.apply();
            let next = wish::plan(&round.facts, &round.fake, &mut round.chance);
            if !round.crash_apply(nth, &next) {
                break;
            }
            let reverted = round.revert();
            assert!(reverted.is_clean(), "seed {}, operation {nth}: {reverted}", round.seed);
            round.is_as_before(&format!("crash in operation {nth} of a replacement, then reverted"));
        }
    }
}

/// Another value that the knob can have, set by someone else.
fn others_value(knob: &Knob, now: Option<&Setting>) -> Option<Setting> {
    let text = knob.to_string();
    let word = text.rsplit('/').next().unwrap_or_default();
    let values: &[&str] = match word {
        "irq" | "rps_cpus" | "xps_cpus" | "affinity" | "cpuset.cpus" => &["0,7", "1,6"],
        "coalesce" => &["adaptive-rx off rx-usecs 77", "adaptive-rx off rx-usecs 78"],
        "resume-latency-us" => &["99", "98"],
        "defer-hard-irqs" | "rps_flow_cnt" | "nice" => &["7", "8"],
        "net.core.busy_poll" | "net.core.somaxconn" => &["333", "334"],
        "49001" | "49002" => &["protocol ip flower ip_proto tcp dst_port 80 action skbedit priority 3"],
        "indirection" => &["equal 1"],
        _ => return None,
    };
    values.iter().map(Setting::new).find(|value| Some(value) != now)
}

/// Someone else changes some knobs; returns what they set.
fn change_some(round: &mut Round, count: u32) -> Seen {
    let seen: Vec<_> = round.fake.seen().into_iter().collect();
    let mut theirs = Seen::new();
    for _ in 0..count {
        let (knob, now) = round.chance.pick(&seen).clone();
        let Some(value) = others_value(&knob, Some(&now)) else { continue };
        if round.fake.set_by_other(&knob, Some(&value)).is_ok() {
            theirs.insert(knob, value);
        }
    }
    theirs
}

#[test]
fn what_others_change_meanwhile_is_kept_and_reported() {
    let (mut kept_count, mut conflicts_count) = (0, 0);
    for seed in 0..300 {
        let mut round = Round::new(seed);
        if matches!(round.apply(), Outcome::Failed { .. }) {
            continue;
        }
        let entries = round.journal().entries();
        let theirs = change_some(&mut round, 4);
        let reverted = round.revert();
        // What was theirs on queues that went with the lanes is gone.
        let after = round.fake.seen();
        let mut wanted = round.before.clone();
        for (knob, value) in theirs.iter().filter(|(knob, _)| after.contains_key(*knob)) {
            wanted.insert(knob.clone(), value.clone());
            kept_count += 1;
            let conflict = reverted.conflicts.iter().find(|conflict| conflict.knob == *knob);
            let entry = entries.iter().find(|entry| entry.knob == *knob && entry.had.as_ref() != Some(value));
            assert_eq!(conflict.is_some(), entry.is_some(), "seed {seed}: {knob} to {value}");
            if let (Some(conflict), Some(entry)) = (conflict, entry) {
                assert_eq!(conflict.had, entry.had);
                assert_eq!((&conflict.wrote, conflict.found.as_ref()), (&entry.wrote, Some(value)));
            }
        }
        // A clsact of ours stays while a filter of theirs hangs on it.
        for (knob, reason) in &reverted.refused {
            assert!(reason.contains("filters hang on the clsact"), "seed {seed}: {knob} {reason}");
            wanted.insert(knob.clone(), Setting::new("clsact"));
        }
        conflicts_count += reverted.conflicts.len();
        round.is_as(&wanted, "what others changed was kept");

        // The journal has the rest, and by force that goes, too.
        assert_eq!(round.journal().entries().len(), reverted.conflicts.len() + reverted.refused.len());
        let forced = round.revert_with(true);
        assert!(forced.is_clean(), "seed {seed}: {forced}");
        let after = round.fake.seen();
        for conflict in &reverted.conflicts {
            assert_eq!(after.get(&conflict.knob), conflict.had.as_ref(), "seed {seed}: {}", conflict.knob);
        }
    }
    assert!(kept_count > 200 && conflicts_count > 50, "{kept_count} kept, {conflicts_count} conflicts");
}

#[test]
fn someone_who_changes_a_knob_in_between_is_never_half_undone() {
    let mut kept_count = 0;
    for seed in 0..300 {
        let mut round = Round::new(seed);
        let seen: Vec<_> = round.fake.seen().into_iter().collect();
        let (knob, now) = round.chance.pick(&seen).clone();
        let Some(value) = others_value(&knob, Some(&now)) else { continue };
        let nth = u64::from(round.chance.below(400));
        round.fake.plan_fault(Fault::Foreign { nth, knob: knob.clone(), to: Some(value.clone()) });
        if matches!(round.apply(), Outcome::InForce { .. }) {
            let reverted = round.revert();
            assert!(reverted.refused.is_empty(), "seed {seed}: {reverted}");
        }
        // It has theirs or what it had; all others what they had.
        let mut wanted = round.before.clone();
        if round.fake.seen().get(&knob) == Some(&value) {
            wanted.insert(knob.clone(), value.clone());
            kept_count += 1;
        }
        round.is_as(&wanted, &format!("{knob} was changed before operation {nth}"));
    }
    assert!(kept_count > 30, "{kept_count} kept");
}

#[test]
fn a_card_or_process_that_goes_is_told_and_hinders_nothing() {
    for seed in 0..300 {
        let mut round = Round::new(seed);
        let nth = u64::from(round.chance.below(400));
        let goes = |knob: &Knob| match knob {
            Knob::Nic { nic, .. } => nic == "ens0",
            Knob::Thread { pid, .. } => *pid == 812,
            _ => false,
        };
        round.fake.plan_fault(Fault::Unplugged { nth, nic: "ens0".to_owned() });
        round.fake.plan_fault(Fault::Ended { nth, pid: 812 });
        let mut told = Vec::new();
        if matches!(round.apply(), Outcome::InForce { .. }) {
            let reverted = round.revert();
            assert!(reverted.is_clean(), "seed {seed}: {reverted}");
            told = reverted.gone;
        }
        assert!(told.iter().all(goes), "seed {seed}: {told:?}");
        round.fake.unplug("ens0");
        round.fake.end(812);
        let mut wanted = round.before.clone();
        wanted.retain(|knob, _| !goes(knob));
        round.is_as(&wanted, &format!("unplugged before operation {nth}"));
    }
}

/// Machines for which the planner makes a plan; about every third wish at random can be had.
const PLANNED_ROUNDS_COUNT: u64 = 300;

#[test]
fn what_the_planner_plans_is_applied_replaced_and_reverted() {
    let (mut planned_count, mut replaced_count) = (0, 0);
    for seed in 0.. {
        if planned_count == PLANNED_ROUNDS_COUNT {
            break;
        }
        let mut round = Round::new(seed);
        let Some((text, plan)) = lanes::plan_at_random(&round.facts, &mut round.chance) else { continue };
        planned_count += 1;
        let outcome = round.apply_plan(&plan);
        assert!(matches!(outcome, Outcome::InForce { .. }), "seed {seed}: {text}\n{outcome}");
        let facts = lanes::facts_now(&round.facts, &round.fake);
        if let Some((text, next)) = lanes::plan_at_random(&facts, &mut round.chance) {
            let between = round.fake.seen();
            match round.apply_plan(&next) {
                Outcome::InForce { .. } => replaced_count += 1,
                Outcome::Failed { knob, reason, undone } => {
                    assert!(undone.is_clean(), "seed {seed}: {text}\n{undone}");
                    round.is_as(&between, &format!("back at the former wish, since {knob}: {reason}"));
                }
            }
        }
        let reverted = round.revert();
        assert!(reverted.is_clean(), "seed {seed}: {reverted}");
        round.is_as_before(&format!("reverted:\n{text}"));
    }
    assert!(
        planned_count > 200 && replaced_count > 100,
        "{planned_count} planned, {replaced_count} replaced"
    );
}
