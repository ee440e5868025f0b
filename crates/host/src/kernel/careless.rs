//! A kernel of three sysctls that do things to one another, for tests of what is done around a write.

use std::collections::BTreeMap;

use super::{Cause, Kernel, Refusal};
use crate::apply::{Outcome, apply};
use crate::journal::{Journal, Memory, Wish};
use crate::knob::{Knob, Setting};
use crate::plan::{Plan, Step};

/// Three sysctls, of which some lose their value when another is written, unannounced.
pub(crate) struct Careless {
    pub(crate) has: BTreeMap<Knob, Setting>,
    /// Who is written, and who is `reset` then.
    resets: Vec<(Knob, Knob)>,
    /// How often that still happens.
    pub(crate) resets_left: usize,
    /// Values that it does not take.
    pub(crate) refused: Vec<&'static str>,
    /// A value that it does not take the first time.
    pub(crate) refused_once: Option<&'static str>,
    pub(crate) unreadable: Option<Knob>,
}

pub(crate) fn sysctl(name: &str) -> Knob {
    Knob::sysctl(name)
}

impl Careless {
    /// a has 1, b has 2, c has 3.
    pub(crate) fn new(resets: &[(&str, &str)], resets_left: usize) -> Careless {
        let has = [("a", "1"), ("b", "2"), ("c", "3")];
        Careless {
            has: has.map(|(name, value)| (sysctl(name), Setting::new(value))).into(),
            resets: resets.iter().map(|(by, other)| (sysctl(by), sysctl(other))).collect(),
            resets_left,
            refused: vec!["refused"],
            refused_once: None,
            unreadable: None,
        }
    }

    pub(crate) fn values(&self) -> String {
        self.has.values().map(Setting::as_str).collect::<Vec<_>>().join(" ")
    }
}

impl Kernel for Careless {
    fn read(&mut self, knob: &Knob) -> Result<Option<Setting>, Refusal> {
        if self.unreadable.as_ref() == Some(knob) {
            return Err(Refusal::new(Cause::Failed, "it can't be read"));
        }
        Ok(self.has.get(knob).cloned())
    }

    fn write(&mut self, knob: &Knob, setting: Option<&Setting>) -> Result<(), Refusal> {
        let setting = setting.expect("no sysctl is taken away");
        let is_first = self.refused_once.take_if(|value| *value == setting.as_str()).is_some();
        if is_first || self.refused.contains(&setting.as_str()) {
            return Err(Refusal::new(Cause::Invalid, "it does not take this"));
        }
        self.has.insert(knob.clone(), setting.clone());
        let others: Vec<Knob> =
            self.resets.iter().filter(|(by, _)| by == knob).map(|(_, other)| other.clone()).collect();
        for other in others.into_iter().take(self.resets_left) {
            self.resets_left -= 1;
            self.has.insert(other, Setting::new("reset"));
        }
        Ok(())
    }

    fn boot_id(&mut self) -> Result<String, Refusal> {
        Ok("b".to_owned())
    }
}

/// Steps as `b=7 a=8`.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    let step = |part: &str| {
        let (name, want) = part.split_once('=').unwrap();
        Step {
            knob: sysctl(name),
            have: None,
            want: Some(Setting::new(want)),
            why: "lane a: b".to_owned(),
            risks: Vec::new(),
            disturbs: Vec::new(),
        }
    };
    text.split(' ').map(step).collect()
}

pub(crate) fn applied(text: &str, kernel: &mut Careless, journal: &mut Journal) -> Outcome {
    apply(&Plan { steps: steps(text), ..Plan::default() }, kernel, journal, &mut |_| {})
}

pub(crate) fn journal() -> Journal {
    Journal::begin(Box::new(Memory::default()), "b", Wish::default()).unwrap()
}
