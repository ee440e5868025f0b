//! Applies on kernels that do a thing or two of their own.

use super::*;
use crate::journal::{Memory, Wish};
use crate::kernel::Refusal;
use crate::kernel::careless::{Careless, applied, journal, steps, sysctl};

/// A kernel that writes a word of its own instead of some others.
struct Wilful(BTreeMap<Knob, Setting>);

impl Kernel for Wilful {
    fn read(&mut self, knob: &Knob) -> Result<Option<Setting>, Refusal> {
        Ok(self.0.get(knob).cloned())
    }

    fn write(&mut self, knob: &Knob, setting: Option<&Setting>) -> Result<(), Refusal> {
        match setting {
            Some(setting) => {
                self.0.insert(knob.clone(), Setting::new(setting.as_str().replace("e7:0", "e7:")))
            }
            None => self.0.remove(knob),
        };
        Ok(())
    }

    fn boot_id(&mut self) -> Result<String, Refusal> {
        Ok("b".to_owned())
    }
}

#[test]
fn what_the_kernel_makes_of_a_value_is_ours_and_goes_back() {
    let mut kernel = Wilful(BTreeMap::new());
    let step = |path: &str, want: &str| Step {
        knob: path.parse().unwrap(),
        have: None,
        want: Some(Setting::new(want)),
        why: "lane a: b".to_owned(),
        risks: Vec::new(),
        disturbs: Vec::new(),
    };
    let steps = vec![step("nic/a/class/e7:1", "parent e7:"), step("nic/a/filter/egress/1", "priority e7:0")];
    let plan = Plan { steps, ..Plan::default() };
    let mut journal = Journal::begin(Box::new(Memory::default()), "b", Wish::default()).unwrap();
    let Outcome::Failed { knob, reason, undone } = apply(&plan, &mut kernel, &mut journal, &mut |_| {})
    else {
        panic!("the kernel has not what was asked for");
    };
    assert_eq!(knob.to_string(), "nic/a/filter/egress/1");
    assert!(reason.contains("'priority e7:0'") && reason.contains("'priority e7:'"), "{reason}");
    assert!(undone.is_clean() && journal.is_over(), "{undone}");
    assert!(kernel.0.is_empty(), "{:?}", kernel.0);
}

/// A kernel with the two coupled knobs of a test, which looks into the journal at each write.
struct Coupled {
    has: BTreeMap<Knob, Setting>,
    log: Memory,
    /// Whether setting the second resets the first.
    is_mutual: bool,
}

impl Kernel for Coupled {
    fn read(&mut self, knob: &Knob) -> Result<Option<Setting>, Refusal> {
        Ok(self.has.get(knob).cloned())
    }

    fn write(&mut self, knob: &Knob, setting: Option<&Setting>) -> Result<(), Refusal> {
        let lines = String::from_utf8(self.log.bytes()).unwrap();
        let last = lines.lines().last().unwrap();
        assert!(last.starts_with("{\"write\":") && last.contains(&knob.to_string()), "{knob}: {last}");
        self.has.insert(knob.clone(), setting.unwrap().clone());
        let other = match knob.to_string().as_str() {
            "sysctl/a" => Some("sysctl/b"),
            _ => self.is_mutual.then_some("sysctl/a"),
        };
        if let Some(other) = other {
            self.has.insert(other.parse().unwrap(), Setting::new("reset"));
        }
        Ok(())
    }

    fn boot_id(&mut self) -> Result<String, Refusal> {
        Ok("b".to_owned())
    }
}

/// Sets the first of two coupled knobs, which resets the second.
fn couple(is_mutual: bool) -> (Outcome, Vec<String>) {
    let log = Memory::default();
    let [a, b]: [Knob; 2] = ["sysctl/a", "sysctl/b"].map(|path| path.parse().unwrap());
    let has = [(a.clone(), Setting::new("1")), (b.clone(), Setting::new("2"))].into();
    let mut kernel = Coupled { has, log: log.clone(), is_mutual };
    let step = Step {
        knob: a,
        have: None,
        want: Some(Setting::new("wanted")),
        why: "lane a: b".to_owned(),
        risks: Vec::new(),
        disturbs: vec![b],
    };
    let plan = Plan { steps: vec![step], ..Plan::default() };
    let mut journal = Journal::begin(Box::new(log), "b", Wish::default()).unwrap();
    let outcome = apply(&plan, &mut kernel, &mut journal, &mut |_| {});
    (outcome, kernel.has.values().map(Setting::to_string).collect())
}

#[test]
fn a_knob_is_written_when_its_line_is_in_the_journal_and_what_it_resets_is_set_again() {
    let (outcome, has) = couple(false);
    assert!(matches!(outcome, Outcome::InForce { written_count: 1, .. }), "{outcome}");
    assert_eq!(has, ["wanted", "2"]);
}

#[test]
fn what_was_set_last_goes_back_first() {
    let sysctls = ["a", "b", "c"].map(|name| (name.to_owned(), "0".to_owned())).into();
    let facts = crate::Facts { sysctls, ..crate::Facts::default() };
    let mut kernel = crate::kernel::fake::Fake::of(&facts);
    let step = |name: &str| Step {
        knob: Knob::sysctl(name),
        have: Some(Setting::new("0")),
        want: Some(Setting::new("1")),
        why: "lane a: b".to_owned(),
        risks: Vec::new(),
        disturbs: Vec::new(),
    };
    let plan = Plan { steps: vec![step("b"), step("a"), step("c")], ..Plan::default() };
    let mut journal = Journal::begin(Box::new(Memory::default()), "b", Wish::default()).unwrap();
    let mut written = Vec::new();
    let mut observe = |event: &Event| {
        if let Event::Write { knob, .. } = event {
            written.push(knob.to_string());
        }
    };
    apply(&plan, &mut kernel, &mut journal, &mut observe);
    revert::revert(&mut kernel, &mut journal, false, &mut observe);
    assert_eq!(written, ["b", "a", "c", "c", "a", "b"].map(|name| format!("sysctl/{name}")));
}

#[test]
fn two_knobs_that_reset_each_other_are_told() {
    let (outcome, _) = couple(true);
    let Outcome::Failed { knob, reason, .. } = outcome else { panic!("one of them is not as wanted") };
    assert_eq!(knob.to_string(), "sysctl/a");
    assert!(reason.contains("'wanted'") && reason.contains("'reset'"), "{reason}");
}

#[test]
fn what_is_lost_is_written_again_a_few_times_and_then_told() {
    // Each of two takes the other's value: the last write of three passes is the fifth.
    let outcome = |resets_left| {
        let mut kernel = Careless::new(&[("a", "b"), ("b", "a")], resets_left);
        let mut journal = journal();
        let outcome = applied("a=8 b=7", &mut kernel, &mut journal);
        let values = kernel.values();
        revert::revert(&mut kernel, &mut journal, true, &mut |_| {});
        (outcome, values, kernel.values())
    };
    let (in_force, values, reverted) = outcome(4);
    assert!(matches!(in_force, Outcome::InForce { written_count: 5, .. }), "{in_force}");
    assert_eq!((values.as_str(), reverted.as_str()), ("8 7 3", "1 2 3"), "b had 2 before a took it");
    let (failed, ..) = outcome(5);
    let Outcome::Failed { reason, .. } = &failed else { panic!("it is lost three times: {failed}") };
    assert!(reason.contains("does not keep '7' and has 'reset' again"), "{reason}");
}

#[test]
fn what_a_step_took_unannounced_comes_back_when_a_later_one_fails() {
    let mut kernel = Careless::new(&[("a", "b")], 1);
    let mut journal = journal();
    let outcome = applied("a=8 b=7 c=refused", &mut kernel, &mut journal);
    let Outcome::Failed { undone, .. } = outcome else { panic!("c is refused") };
    assert!(undone.is_clean() && journal.is_over(), "{undone}");
    assert_eq!(kernel.values(), "1 2 3");
    // Also when b was as wanted, by a former wish, and so is not touched by this one.
    assert!(matches!(applied("b=7", &mut kernel, &mut journal), Outcome::InForce { .. }));
    kernel.resets_left = 1;
    let outcome = applied("b=7 a=8 c=refused", &mut kernel, &mut journal);
    let Outcome::Failed { undone, .. } = outcome else { panic!("c is refused") };
    let [conflict] = undone.conflicts.as_slice() else { panic!("nobody said that a resets b: {undone}") };
    assert_eq!((&conflict.knob, kernel.values().as_str()), (&sysctl("b"), "1 reset 3"));
}

#[test]
fn a_write_that_was_cut_short_is_brought_to_its_end_though_the_knob_has_what_is_wanted() {
    let mut kernel = Careless::new(&[], 0);
    let mut journal = journal();
    // The process died when a was written, and b, which that resets, not yet set again.
    let (had, wrote) = (Some(Setting::new("1")), Some(Setting::new("8")));
    let disturbs = vec![(sysctl("b"), Some(Setting::new("2")))];
    journal.append(Line::Write { knob: sysctl("a"), had, wrote, disturbs }).unwrap();
    kernel.has.insert(sysctl("a"), Setting::new("8"));
    kernel.has.insert(sysctl("b"), Setting::new("reset"));
    let outcome = applied("a=8", &mut kernel, &mut journal);
    assert!(matches!(outcome, Outcome::InForce { .. }), "{outcome}");
    assert_eq!(kernel.values(), "8 2 3");
    assert!(journal.is_complete() && journal.bystanders().is_empty());
}

#[test]
fn a_knob_that_two_steps_write_has_the_last_value() {
    let mut kernel = Careless::new(&[], 0);
    let plan = Plan { steps: steps("a=5 b=7 a=8"), ..Plan::default() };
    let mut changed = Vec::new();
    let outcome = apply(&plan, &mut kernel, &mut journal(), &mut |event| {
        if let Event::Changed { knob, .. } = event {
            changed.push(knob.to_string());
        }
    });
    assert!(matches!(outcome, Outcome::InForce { written_count: 3, .. }), "{outcome}");
    assert_eq!(kernel.values(), "8 7 3");
    // The plan says that they had nothing; what the first step wrote is no news to the last.
    assert_eq!(changed, ["sysctl/a", "sysctl/b"]);
}

#[test]
fn what_a_knob_resets_is_known_from_former_wishes() {
    let mut kernel = Careless::new(&[("a", "b")], usize::MAX);
    let mut journal = journal();
    let mut plan = Plan { steps: steps("a=8"), ..Plan::default() };
    plan.steps[0].disturbs.push(sysctl("b"));
    apply(&plan, &mut kernel, &mut journal, &mut |_| {});
    applied("a=9", &mut kernel, &mut journal);
    assert_eq!(kernel.values(), "9 2 3");
    // And for one that is dropped.
    applied("c=5", &mut kernel, &mut journal);
    assert_eq!(kernel.values(), "1 2 5");
}

#[test]
fn where_all_is_as_wished_the_wish_is_in_force_and_the_journal_holds_nothing() {
    let (mut kernel, mut journal) = (Careless::new(&[], 0), journal());
    let outcome = applied("a=1 b=2", &mut kernel, &mut journal);
    assert!(matches!(outcome, Outcome::InForce { written_count: 0, .. }), "{outcome}");
    assert!(journal.entries().is_empty() && journal.is_complete() && !journal.is_over());
    // Whoever changes something afterwards keeps it.
    kernel.has.insert(sysctl("a"), Setting::new("9"));
    let reverted = revert::revert(&mut kernel, &mut journal, false, &mut |_| {});
    assert!(reverted.is_clean() && journal.is_over() && kernel.values() == "9 2 3", "{reverted}");
}

#[test]
fn a_process_may_end_at_any_time() {
    let thread = crate::facts::Thread { tid: 8, scheduler: "other".to_owned(), ..Default::default() };
    let process = crate::facts::Process { pid: 8, start: 1, threads: vec![thread], ..Default::default() };
    let sysctls = [("a".to_owned(), "1".to_owned())].into();
    let facts = crate::Facts { processes: vec![process], sysctls, ..crate::Facts::default() };
    let nice = Knob::Thread { pid: 8, start: 1, tid: 8, what: crate::knob::ThreadKnob::Nice };
    let mut plan = Plan { steps: steps("a=5 a=8"), ..Plan::default() };
    plan.steps[0].knob = nice.clone();
    let mut ends_count = 0;
    for nth in 0..20 {
        let mut kernel = crate::kernel::fake::Fake::of(&facts);
        kernel.plan_fault(crate::kernel::fake::Fault::Ended { nth, pid: 8 });
        let mut journal = journal();
        let outcome = apply(&plan, &mut kernel, &mut journal, &mut |_| {});
        let Outcome::InForce { gone, .. } = outcome else {
            panic!("ended before operation {nth}: {outcome}")
        };
        assert_eq!(kernel.read(&sysctl("a")).unwrap().unwrap().as_str(), "8");
        assert!(journal.is_complete());
        let held: Vec<Knob> = journal.entries().into_iter().map(|entry| entry.knob).collect();
        match gone.as_slice() {
            [] => assert_eq!(held, [nice.clone(), sysctl("a")]),
            gone => {
                assert_eq!((gone, held), ([nice.clone()].as_slice(), vec![sysctl("a")]), "told once");
                ends_count += 1;
            }
        }
    }
    assert!(ends_count > 4, "{ends_count}");
}

#[test]
fn a_knob_that_comes_with_an_earlier_step_is_no_change_of_someone_else() {
    let queue =
        crate::facts::Queue { rps_cpus: Some(crate::Cpus::default()), ..crate::facts::Queue::default() };
    let channels = crate::facts::Channels { combined: 1, combined_max: 2, ..Default::default() };
    let nic = crate::facts::Nic {
        name: "e".to_owned(),
        queues: vec![queue],
        channels: Some(channels),
        ..Default::default()
    };
    let facts = crate::Facts { nics: vec![nic], ..crate::Facts::default() };
    let mut kernel = crate::kernel::fake::Fake::of(&facts);
    let mut plan = Plan { steps: steps("a=combined2 b=3"), ..Plan::default() };
    for (step, (path, want)) in
        plan.steps.iter_mut().zip([("nic/e/channels", "combined 2"), ("nic/e/rx/1/rps_cpus", "3")])
    {
        step.knob = path.parse().unwrap();
        step.have = facts.have(&step.knob).ok().flatten();
        step.want = Some(Setting::new(want));
    }
    let outcome = apply(&plan, &mut kernel, &mut journal(), &mut |event| {
        assert!(!matches!(event, Event::Changed { .. }), "{event}");
    });
    assert!(matches!(outcome, Outcome::InForce { written_count: 2, .. }), "{outcome}");
}

#[test]
fn what_is_set_again_was_so_before_but_a_thread_may_be_new() {
    let (mut kernel, mut journal) = (Careless::new(&[], 0), journal());
    applied("a=8", &mut kernel, &mut journal);
    let thread = Knob::Thread { pid: 8, start: 1, tid: 8, what: crate::knob::ThreadKnob::Affinity };
    kernel.has.insert(thread.clone(), Setting::new("0-3"));
    let mut lost = steps("b=7 c=2");
    lost[1].knob = thread.clone();
    assert_eq!(again(&lost, &mut kernel, &mut journal, &mut |_| {}), []);
    assert!(journal.is_complete(), "as before");
    let had: Vec<_> = journal.entries().into_iter().map(|entry| entry.had.unwrap().to_string()).collect();
    assert_eq!(had, ["1", "7", "0-3"], "b was as wanted when lanes were made");
    // Lanes that were not wholly in force aren't after it.
    journal.append(Line::Left { count: 1 }).unwrap();
    again(&steps("b=5"), &mut kernel, &mut journal, &mut |_| {});
    assert!(!journal.is_complete());
}

#[test]
fn what_an_undo_could_not_put_back_is_still_known_to_be_ours() {
    let (mut kernel, mut journal) = (Careless::new(&[], 0), journal());
    applied("a=8 b=7", &mut kernel, &mut journal);
    kernel.refused.push("8");
    let outcome = applied("a=9 b=6 c=refused", &mut kernel, &mut journal);
    let Outcome::Failed { undone, .. } = outcome else { panic!("c is refused") };
    let left: Vec<String> = undone.refused.iter().map(|(knob, _)| knob.to_string()).collect();
    assert_eq!((left, kernel.values().as_str()), (vec!["sysctl/a".to_owned()], "9 7 3"));
    let reverted = revert::revert(&mut kernel, &mut journal, false, &mut |_| {});
    assert!(reverted.is_clean() && kernel.values() == "1 2 3", "{reverted}");
}

/// A log that is full after some lines.
struct Full(usize);

impl crate::journal::Log for Full {
    fn append(&mut self, _: &str) -> Result<(), String> {
        self.0 = self.0.checked_sub(1).ok_or("no space is left")?;
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_an_apply_and_what_it_did_is_undone_without_a_journal() {
    let mut told_count = 0;
    for lines_count in 1.. {
        let mut kernel = Careless::new(&[], 0);
        let mut journal = Journal::begin(Box::new(Full(lines_count)), "b", Wish::default()).unwrap();
        let plan = Plan { steps: steps("a=8 b=7 c=6"), ..Plan::default() };
        let outcome = apply(&plan, &mut kernel, &mut journal, &mut |event| {
            told_count += usize::from(matches!(event, Event::NoJournal { .. }));
        });
        let Outcome::Failed { reason, undone, .. } = outcome else {
            assert_eq!(
                (kernel.values().as_str(), lines_count),
                ("8 7 6", 8),
                "two lines a step, and two more"
            );
            break;
        };
        assert!(reason.contains("no space is left"), "{reason}");
        assert!(undone.is_clean() && journal.is_over(), "{lines_count} lines: {undone}");
        assert_eq!(kernel.values(), "1 2 3", "{lines_count} lines");
    }
    assert!(told_count > 6, "{told_count}");
}

/// Queues of ens-like card e, all of whose interrupts go to cpu 1.
fn queues(count: u32) -> crate::Facts {
    let queue = |index| crate::facts::Queue {
        index,
        irq_cpus: Some(crate::Cpus::from_iter([1])),
        ..crate::facts::Queue::default()
    };
    let nic = crate::facts::Nic {
        name: "e".to_owned(),
        queues: (0..count).map(queue).collect(),
        channels: Some(crate::facts::Channels { combined: count, combined_max: count, ..Default::default() }),
        ..Default::default()
    };
    let cpu = |id| crate::facts::Cpu { id, ..Default::default() };
    let sysctls = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into();
    crate::Facts { nics: vec![nic], cpus: (0..4).map(cpu).collect(), sysctls, ..crate::Facts::default() }
}

#[test]
fn a_queue_that_does_not_come_back_with_an_undo_has_its_interrupt_when_it_does() {
    let mut kernel = crate::kernel::fake::Fake::of(&queues(4));
    let before = kernel.seen();
    let mut journal = journal();
    let mut apply = |plan: &str, kernel: &mut crate::kernel::fake::Fake| {
        let mut steps = steps(plan);
        for step in steps.iter_mut().filter(|step| step.knob == sysctl("queues")) {
            step.knob = "nic/e/channels".parse().unwrap();
            step.want = Some(Setting::new("combined 2"));
            step.disturbs = (0..4).map(|queue| format!("nic/e/queue/{queue}/irq").parse().unwrap()).collect();
        }
        apply(&Plan { steps, ..Plan::default() }, kernel, &mut journal, &mut |_| {})
    };
    assert!(matches!(apply("a=8", &mut kernel), Outcome::InForce { .. }));
    // From b on nothing can be written any more: the queues, and two interrupts that were mended, come before it.
    kernel.forgive();
    for nth in 3..30 {
        kernel.plan_fault(crate::kernel::fake::Fault::WriteFails { nth, takes_effect: false });
    }
    let outcome = apply("a=8 queues=2 b=7", &mut kernel);
    let Outcome::Failed { knob, undone, .. } = outcome else { panic!("b can't be written") };
    assert_eq!((knob, undone.refused.len()), (sysctl("b"), 1), "the queues: {undone}");
    kernel.forgive();
    let reverted = revert::revert(&mut kernel, &mut journal, false, &mut |_| {});
    assert!(reverted.is_clean(), "{reverted}");
    assert_eq!(kernel.seen(), before);
}
