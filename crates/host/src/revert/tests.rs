//! What goes back, and what is said of the rest.

use super::*;
use crate::Facts;
use crate::journal::{Memory, Wish};
use crate::kernel::careless::{self, Careless, sysctl};
use crate::kernel::fake::Fake;

fn setting(text: &str) -> Option<Setting> {
    Some(Setting::new(text))
}

fn write(knob: &str, had: &str, wrote: &str, disturbs: &[(&str, &str)]) -> Line {
    let disturbs = disturbs.iter().map(|(knob, keep)| (Knob::sysctl(knob), setting(keep))).collect();
    Line::Write { knob: Knob::sysctl(knob), had: setting(had), wrote: setting(wrote), disturbs }
}

fn done(knob: &str, left: &[(&str, &str)]) -> Line {
    let left = left.iter().map(|(knob, left)| (Knob::sysctl(knob), setting(left))).collect();
    Line::Done { knob: Knob::sysctl(knob), left }
}

/// Reverts what these lines tell on a machine where a and b have this; what they have then.
fn reverted(lines: Vec<Line>, has: [&str; 2]) -> (Reverted, [String; 2]) {
    let (mut kernel, mut journal) = machine(lines, has);
    let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
    let now = ["a", "b"].map(|name| kernel.read(&Knob::sysctl(name)).unwrap().unwrap().to_string());
    (reverted, now)
}

/// Somebody had set b to 5 when a write of a, which resets it, was cut short.
#[test]
fn what_an_interrupted_write_took_from_somebody_is_given_back() {
    let lines = vec![write("b", "2", "3", &[]), done("b", &[]), write("a", "0", "1", &[("b", "5")])];
    assert_eq!(reverted(lines, ["1", "reset"]).1, ["0", "5"]);
    // Also where it goes back before what had reset it.
    let lines = vec![
        write("a", "0", "1", &[]),
        done("a", &[]),
        write("b", "2", "3", &[]),
        done("b", &[]),
        write("a", "0", "7", &[("b", "5")]),
    ];
    let (reverted, now) = reverted(lines, ["7", "reset"]);
    assert_eq!(now, ["0", "5"]);
    let [conflict] = reverted.conflicts.as_slice() else { panic!("{reverted}") };
    assert_eq!(
        (&conflict.had, &conflict.wrote, &conflict.found),
        (&setting("2"), &setting("3"), &setting("5"))
    );
}

/// A machine whose a and b have this, and a journal of these lines.
fn machine(lines: Vec<Line>, has: [&str; 2]) -> (Fake, Journal) {
    let sysctls = [("a".to_owned(), has[0].to_owned()), ("b".to_owned(), has[1].to_owned())].into();
    let mut journal = Journal::begin(Box::new(Memory::default()), "boot", Wish::default()).unwrap();
    lines.into_iter().for_each(|line| journal.append(line).unwrap());
    (Fake::of(&Facts { sysctls, ..Facts::default() }), journal)
}

#[test]
fn what_is_left_is_no_longer_in_force_and_nobody_has_to_confirm_it() {
    let lines = vec![
        write("a", "0", "1", &[]),
        done("a", &[]),
        Line::Complete { steps: 1 },
        Line::ConfirmBy { deadline_s: 60 },
    ];
    let (mut kernel, mut journal) = machine(lines, ["9", "2"]);
    let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
    assert_eq!((reverted.conflicts.len(), journal.entries().len()), (1, 1));
    assert!(!journal.is_complete());
    assert_eq!(journal.confirmation(99), crate::journal::Confirmation::NotNeeded);
    let reverted = revert(&mut kernel, &mut journal, true, &mut |_| {});
    assert!(reverted.is_clean() && journal.is_over(), "{reverted}");
}

#[test]
fn what_has_its_former_value_again_is_nobodys_conflict() {
    let (mut kernel, mut journal) = machine(vec![write("a", "0", "1", &[]), done("a", &[])], ["5", "2"]);
    let mut hands =
        Hands { kernel: &mut kernel, journal: &mut journal, observer: &mut |_| {}, is_undoing: true };
    // It had 5 by someone else when an apply that is undone now began.
    let back = |to: &str| Back {
        knob: Knob::sysctl("a"),
        had: setting("0"),
        to: setting(to),
        disturbs: Vec::new(),
        is_forgotten: false,
    };
    assert!(put_back(&mut hands, vec![back("5")], false).is_clean());
    assert!(!put_back(&mut hands, vec![back("6")], false).is_clean());
}

#[test]
fn what_was_given_back_is_theirs_to_change() {
    let lines = vec![write("b", "2", "3", &[]), done("b", &[]), write("a", "0", "1", &[("b", "5")])];
    let (mut kernel, mut journal) = machine(lines, ["1", "reset"]);
    revert(&mut kernel, &mut journal, false, &mut |_| {});
    kernel.write(&Knob::sysctl("b"), setting("7").as_ref()).unwrap();
    let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
    assert_eq!(reverted.conflicts.len(), 1, "{reverted}");
    assert_eq!(kernel.read(&Knob::sysctl("b")).unwrap(), setting("7"));
}

#[test]
fn a_process_that_ends_meanwhile_is_told_and_hinders_nothing() {
    let thread = crate::facts::Thread { tid: 8, nice: -5, ..Default::default() };
    let process = crate::facts::Process { pid: 8, start: 1, threads: vec![thread], ..Default::default() };
    let facts = Facts { processes: vec![process], ..Facts::default() };
    let nice: Knob = "process/8@1/8/nice".parse().unwrap();
    let mut ends_count = 0;
    for nth in 0..8 {
        let (_, mut journal) = machine(Vec::new(), ["0", "2"]);
        let mut kernel = Fake::of(&facts);
        kernel.plan_fault(crate::kernel::fake::Fault::Ended { nth, pid: 8 });
        let (had, wrote) = (setting("0"), setting("-5"));
        journal.append(Line::Write { knob: nice.clone(), had, wrote, disturbs: Vec::new() }).unwrap();
        let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
        assert!(reverted.is_clean() && journal.is_over(), "before operation {nth}: {reverted}");
        assert_eq!(reverted.gone.len() + reverted.restored.len(), 1);
        ends_count += reverted.gone.len();
    }
    assert!(ends_count > 2, "{ends_count}");
}

#[test]
fn what_was_reset_along_goes_back_unless_somebody_has_set_it_since() {
    let lines = || vec![write("a", "0", "1", &[("b", "2")]), done("a", &[("b", "reset")])];
    assert_eq!(reverted(lines(), ["1", "reset"]).1, ["0", "2"]);
    assert_eq!(reverted(lines(), ["1", "9"]).1, ["0", "9"], "theirs stays");
}

/// c was set to 9, and has reset a and b with it.
fn reset_by_c(kernel: &mut Careless, journal: &mut Journal) {
    let (had, reset) = (|value| Some(Setting::new(value)), Some(Setting::new("reset")));
    let disturbs = vec![(sysctl("a"), had("1")), (sysctl("b"), had("2"))];
    let left = vec![(sysctl("a"), reset.clone()), (sysctl("b"), reset)];
    let line = Line::Write { knob: sysctl("c"), had: had("3"), wrote: had("9"), disturbs };
    journal.append(line).unwrap();
    journal.append(Line::Done { knob: sysctl("c"), left }).unwrap();
    for (name, value) in [("a", "reset"), ("b", "reset"), ("c", "9")] {
        kernel.has.insert(sysctl(name), Setting::new(value));
    }
}

#[test]
fn what_others_reset_is_put_back_until_it_keeps_or_said_not_to() {
    let reverted = |resets_left| {
        let (mut kernel, mut journal) =
            (Careless::new(&[("a", "b"), ("b", "a")], resets_left), careless::journal());
        reset_by_c(&mut kernel, &mut journal);
        let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
        assert_eq!(reverted.is_clean(), journal.is_over());
        (reverted, kernel.values())
    };
    // Each pass sets both, and each takes the other's value: the fourth is the last.
    let (clean, values) = reverted(6);
    assert!(clean.is_clean() && values == "1 2 3", "{clean}: {values}");
    let (told, _) = reverted(usize::MAX);
    let [(knob, reason)] = told.refused.as_slice() else { panic!("{told}") };
    assert_eq!(
        (knob, reason.as_str()),
        (&sysctl("a"), "another setting resets it to 'reset', and it does not keep '1'")
    );
}

#[test]
fn what_is_refused_once_is_tried_again_and_what_is_theirs_is_told_once() {
    let mut kernel = Careless::new(&[], 0);
    let mut journal = careless::journal();
    reset_by_c(&mut kernel, &mut journal);
    kernel.refused_once = Some("1");
    let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
    assert!(reverted.is_clean() && journal.is_over() && kernel.values() == "1 2 3", "{reverted}");

    let mut journal = careless::journal();
    reset_by_c(&mut kernel, &mut journal);
    kernel.has.insert(sysctl("a"), Setting::new("7"));
    let mut told = Vec::new();
    revert(&mut kernel, &mut journal, false, &mut |event| {
        if let Event::Conflict(conflict) = event {
            told.push(conflict.knob.to_string());
        }
    });
    assert_eq!((told, kernel.values().as_str()), (vec!["sysctl/a".to_owned()], "7 2 3"));
}

#[test]
fn what_can_t_be_read_stays_in_the_journal() {
    let (mut kernel, mut journal) = (Careless::new(&[], 0), careless::journal());
    reset_by_c(&mut kernel, &mut journal);
    kernel.unreadable = Some(sysctl("a"));
    let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
    let refused: Vec<String> = reverted.refused.iter().map(|(knob, _)| knob.to_string()).collect();
    assert_eq!(refused, ["sysctl/c", "sysctl/a"], "what c resets can't be kept");
    kernel.unreadable = None;
    let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
    assert!(reverted.is_clean() && kernel.values() == "1 2 3", "{reverted}");
}

#[test]
fn two_knobs_that_reset_each_other_are_not_put_back_in_silence() {
    let (mut kernel, mut journal) =
        (Careless::new(&[("a", "b"), ("b", "a")], usize::MAX), careless::journal());
    let (had, wrote) = (Some(Setting::new("1")), Some(Setting::new("8")));
    let disturbs = vec![(sysctl("b"), Some(Setting::new("2")))];
    journal.append(Line::Write { knob: sysctl("a"), had, wrote, disturbs }).unwrap();
    let left = vec![(sysctl("b"), Some(Setting::new("2")))];
    journal.append(Line::Done { knob: sysctl("a"), left }).unwrap();
    kernel.has.insert(sysctl("a"), Setting::new("8"));
    let reverted = revert(&mut kernel, &mut journal, false, &mut |_| {});
    let [(knob, reason)] = reverted.refused.as_slice() else { panic!("a is not as it was: {reverted}") };
    assert!(*knob == sysctl("a") && reason.contains("asked for '1' and has 'reset'"), "{knob}: {reason}");
    assert!(!journal.is_over());
}
