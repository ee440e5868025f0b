//! What an apply must pass before it touches anything, the directory of its journal included.

use host::{Plan, Risk};

use super::Trouble;
use super::settings::ApplySettings;

/// Refuses what may cut the session of whoever applies, where nothing would bring it back.
pub(super) fn keeps_session(plan: &Plan, settings: &ApplySettings) -> Result<(), Trouble> {
    if settings.confirm.is_some() || settings.no_confirm {
        return Ok(());
    }
    let cuts = |step: &&host::Step| step.has_work() && step.risks.contains(&Risk::CutsSession);
    match plan.steps.iter().find(cuts) {
        None => Ok(()),
        Some(step) => Err(Trouble::usage(format!(
            "{} may cut the session of ssh that this runs in: with `--confirm 60s` everything goes back unless \
             `expresslane lanes confirm` is run in time, with `--no-confirm` it goes on without",
            step.knob
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use host::{Knob, Setting, Step};

    use super::*;
    use crate::lanes::settings::StateSettings;

    fn step(want: &str, risks: &[Risk]) -> Step {
        Step {
            knob: "nic/ens1/qdisc/root".parse::<Knob>().unwrap(),
            have: Some(Setting::new("mq")),
            want: Some(Setting::new(want)),
            why: String::new(),
            risks: risks.to_vec(),
            disturbs: Vec::new(),
        }
    }

    #[test]
    fn what_may_cut_the_session_takes_a_way_back_or_a_word() {
        let check = |step: Step, confirm: Option<u64>, no_confirm: bool, is_refused: bool| {
            let settings = ApplySettings {
                file: "lanes.toml".into(),
                confirm: confirm.map(Duration::from_secs),
                no_confirm,
                state: StateSettings { state_dir: "unused".into() },
            };
            let plan = Plan { steps: vec![step], ..Plan::default() };
            match keeps_session(&plan, &settings) {
                Ok(()) => assert!(!is_refused),
                Err(trouble) => {
                    assert!(is_refused, "{}", trouble.problem);
                    assert!(
                        trouble.problem.starts_with("nic/ens1/qdisc/root may cut"),
                        "{}",
                        trouble.problem
                    );
                    assert_eq!(trouble.code, 2);
                }
            }
        };
        let cuts = [Risk::LinkFlap, Risk::CutsSession];
        check(step("htb", &cuts), None, false, true);
        check(step("htb", &cuts), Some(60), false, false);
        check(step("htb", &cuts), None, true, false);
        check(step("htb", &[Risk::LinkFlap]), None, false, false);
        check(step("mq", &cuts), None, false, false);
    }
}
