//! What an apply must pass before it touches anything, the directory of its journal included.

use std::collections::BTreeMap;
use std::fs;

use host::knob::NicKnob;
use host::{Facts, Knob, Plan, Risk, Step};

use super::Trouble;
use super::settings::ApplySettings;

/// Refuses what may cut the session of whoever applies, where nothing would bring it back.
pub(super) fn keeps_session(plan: &Plan, settings: &ApplySettings) -> Result<(), Trouble> {
    if settings.confirm.is_some() || settings.no_confirm {
        return Ok(());
    }
    let cuts = |step: &&Step| step.has_work() && step.risks.contains(&Risk::CutsSession);
    match plan.steps.iter().find(cuts) {
        None => Ok(()),
        Some(step) => Err(Trouble::usage(format!(
            "{} may cut the session of ssh that this runs in: with `--confirm 60s` everything goes back unless \
             `expresslane lanes confirm` is run in time, with `--no-confirm` it goes on without",
            step.knob
        ))),
    }
}

/// Who applies.
pub(super) struct User {
    /// Capabilities that it has, as [`Facts::capabilities`] names them.
    capabilities: Vec<String>,
    /// Its effective number.
    uid: Option<u32>,
}

impl User {
    pub(super) fn of_this_process(facts: &Facts) -> User {
        User { capabilities: facts.capabilities.clone(), uid: uid("self") }
    }

    fn has(&self, right: &str) -> bool {
        (right == ROOT && self.uid == Some(0)) || self.capabilities.iter().any(|it| it == right)
    }

    /// The rights without which the kernel refuses a step for certain: of each, any one will do, and the first is named.
    fn takes(
        &self,
        step: &Step,
        owner_of: &impl Fn(u32) -> Option<u32>,
    ) -> &'static [&'static [&'static str]] {
        let is_program = || step.want.as_ref().is_some_and(|want| want.words().any(|word| word == "bpf"));
        match &step.knob {
            Knob::Nic { knob: NicKnob::Filter(..), .. } if is_program() => {
                &[&["net_admin"], &["bpf", "sys_admin"]]
            }
            Knob::Nic { knob: NicKnob::IrqAffinity(_), .. } | Knob::Cpu { .. } => &[&[ROOT, "dac_override"]],
            Knob::Nic { .. } | Knob::Rule { .. } | Knob::Route { .. } => &[&["net_admin"]],
            Knob::Sysctl { name } if name.starts_with("net.") => &[&["net_admin", ROOT]],
            // `proc_sys_permission` asks for the user alone.
            Knob::Sysctl { .. } => &[&[ROOT]],
            // Whose process has ended, apply says.
            Knob::Thread { pid, .. } if owner_of(*pid).is_some_and(|owner| self.uid != Some(owner)) => {
                &[&["sys_nice"]]
            }
            // A group may be the user's own, and who may stop a daemon is polkit's to say.
            Knob::Thread { .. } | Knob::Cgroup { .. } | Knob::Service { .. } => &[],
        }
    }
}

/// What files take that root alone may write.
const ROOT: &str = "root's own user";

/// Refuses a plan that takes rights which the user hasn't, and says for what. `owner_of` a process: its user.
pub(super) fn has_rights(
    plan: &Plan,
    user: &User,
    owner_of: impl Fn(u32) -> Option<u32>,
) -> Result<(), Trouble> {
    let mut lacking: BTreeMap<&str, Vec<&Knob>> = BTreeMap::new();
    for step in plan.steps.iter().filter(|step| step.has_work()) {
        for any in user.takes(step, &owner_of) {
            if !any.iter().any(|right| user.has(right)) {
                lacking.entry(any[0]).or_default().push(&step.knob);
            }
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = lacking
        .iter()
        .map(|(right, knobs)| match knobs.len() - 1 {
            0 => format!("{right} ({})", knobs[0]),
            more => format!("{right} ({} and {more} more)", knobs[0]),
        })
        .collect();
    Err(Trouble::failed(format!(
        "rights are missing: {}; run it as root, or with those capabilities. `lanes facts`, `lanes plan` and `lanes check` work \
         without",
        named.join(", ")
    )))
}

/// The effective user of a process, of `/proc/PID/status`. None: it has ended.
pub(super) fn owner_of(pid: u32) -> Option<u32> {
    uid(&pid.to_string())
}

fn uid(process: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use host::Setting;

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

    #[test]
    fn rights_that_are_missing_are_named_before_anything_is_done() {
        let step = |knob: &str, want: &str| Step { knob: knob.parse().unwrap(), ..step(want, &[]) };
        let plan = Plan {
            steps: vec![
                step("nic/ens1/channels", "combined 4"),
                step("nic/ens1/filter/egress/49001", "protocol all bpf queue 2 tcp src_port 6379"),
                step("nic/ens1/queue/3/irq", "2"),
                step("sysctl/net.core.busy_poll", "50"),
                step("sysctl/kernel.numa_balancing", "0"),
                step("process/812@5512/813/affinity", "2-3"),
                step("process/900@5513/900/affinity", "2-3"),
                step("process/901@5514/901/affinity", "2-3"),
                step("cgroup/db/cpuset.cpus", "2-3"),
                step("nic/ens1/qdisc/root", "mq"),
            ],
            ..Plan::default()
        };
        let check = |uid: u32, capabilities: &[&str], want: Option<&str>| {
            let capabilities = capabilities.iter().map(|it| (*it).to_owned()).collect();
            let owner_of = |pid| [(812, 1000), (900, 0)].into_iter().find(|it| it.0 == pid).map(|it| it.1);
            let said = has_rights(&plan, &User { capabilities, uid: Some(uid) }, owner_of).err();
            let said = said.map(|trouble| {
                let rights = trouble.problem.strip_prefix("rights are missing: ").expect(&trouble.problem);
                rights.split_once("; run it as root").expect(rights).0.to_owned()
            });
            assert_eq!(said.as_deref(), want, "{uid}");
        };
        let root = "root's own user (nic/ens1/queue/3/irq and 1 more)";
        let all = format!(
            "bpf (nic/ens1/filter/egress/49001), net_admin (nic/ens1/channels and 2 more), {root}, sys_nice (process/900@5513/900/affinity)"
        );
        check(1000, &[], Some(&all));
        check(1000, &["net_admin", "bpf", "sys_nice"], Some(root));
        let sysctl = "root's own user (sysctl/kernel.numa_balancing)";
        check(1000, &["net_admin", "sys_admin", "sys_nice", "dac_override"], Some(sysctl));
        check(0, &["net_admin", "bpf", "sys_nice"], None);
        check(0, &["net_admin", "sys_nice"], Some("bpf (nic/ens1/filter/egress/49001)"));
    }

    #[test]
    fn processes_have_an_owner() {
        let own = owner_of(std::process::id());
        assert_eq!((own.is_some(), own, owner_of(u32::MAX)), (true, uid("self"), None));
    }
}
