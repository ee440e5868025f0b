//! Applies on kernels that do a thing or two of their own.

use super::*;
use crate::journal::{Memory, Wish};
use crate::kernel::Refusal;

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
