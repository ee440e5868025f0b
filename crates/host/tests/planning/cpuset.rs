//! Lanes whose processes are a control group's.

use host::apply::{Outcome, apply};
use host::facts::{Process, Thread};
use host::journal::{Journal, Memory, Wish};
use host::kernel::fake::Fake;
use host::revert::revert;
use host::{Facts, Knob, Plan, Setting, Spec, plan};

use super::facts;

/// Two sockets of 24 cores with two hardware threads each, and a server in a group of its own.
fn machine() -> Facts {
    let mut facts = facts("e810-ice");
    let files = [("cpuset.cpus", ""), ("cpuset.mems", ""), ("cpuset.cpus.partition", "member")];
    let files = files.map(|(file, value)| (file.to_owned(), value.to_owned()));
    facts.cgroup.groups.insert("db/redis".to_owned(), files.into());
    let thread = Thread { tid: 700, cpus: "0-95".parse().unwrap(), nice: 0, scheduler: "other".to_owned() };
    facts.processes.push(Process {
        pid: 700,
        start: 1,
        name: "redis-server".to_owned(),
        cgroup: "/db/redis".to_owned(),
        threads: vec![thread],
        ..Process::default()
    });
    facts
}

fn planned(facts: &Facts, lane: &str) -> Plan {
    let spec = Spec::parse(&format!("[[lane]]\nname = 'a'\n{lane}\n")).unwrap();
    plan::plan(&spec, facts).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// Files of groups, and what they shall have.
fn wanted(plan: &Plan) -> Vec<String> {
    let of_group = plan.steps.iter().filter(|step| matches!(step.knob, Knob::Cgroup { .. }));
    of_group.map(|step| format!("{}: {}", step.knob, step.want.as_ref().unwrap())).collect()
}

const GROUP: &str = "process = { cgroup = '/db/redis' }";

#[test]
fn a_group_has_the_cores_and_the_memory_of_its_lane() {
    let check = |cores: &str, want: &[&str]| {
        assert_eq!(wanted(&planned(&machine(), &format!("cores = '{cores}'\n{GROUP}"))), want);
    };
    check("2-3", &["cgroup/db/redis/cpuset.cpus: 2-3", "cgroup/db/redis/cpuset.mems: 0"]);
    check("30,26", &["cgroup/db/redis/cpuset.cpus: 26,30", "cgroup/db/redis/cpuset.mems: 1"]);
    check("2,26", &["cgroup/db/redis/cpuset.cpus: 2,26"]);
    let plan = planned(&machine(), &format!("cores = '2-3'\n{GROUP}"));
    let knobs: Vec<String> = plan.steps.iter().map(|step| step.knob.to_string()).collect();
    let thread = "process/700@1/700/affinity";
    assert_eq!(knobs.last().unwrap(), thread, "threads that are there are pinned all the same, and after it");
    let of_cpus = plan.steps.iter().find(|step| step.knob.to_string().ends_with("cpus")).unwrap();
    assert_eq!(of_cpus.disturbs.iter().map(Knob::to_string).collect::<Vec<_>>(), [thread]);
    let text = plan.text(&machine(), false);
    assert!(text.contains("$ echo 2-3 > /sys/fs/cgroup/db/redis/cpuset.cpus\n"), "{text}");
    assert!(text.contains("undo: echo > /sys/fs/cgroup/db/redis/cpuset.cpus\n"), "{text}");
}

#[test]
fn where_a_group_gets_none_the_reason_is_said() {
    #[track_caller]
    fn check(change: impl FnOnce(&mut Facts), process: &str, want: &str) {
        let mut facts = machine();
        change(&mut facts);
        let plan = planned(&facts, &format!("cores = '2-3'\nprocess = {{ {process} }}"));
        assert_eq!(wanted(&plan), Vec::<String>::new(), "{process}");
        assert!(plan.notes.iter().any(|note| note.contains(want)), "{want}: {:#?}", plan.notes);
    }
    let same = |_: &mut Facts| {};
    let group = "cgroup = 'db/redis'";
    check(same, "cgroup = 'db/redis', name = 'redis-server'", "says more than the group");
    check(same, "cgroup = '/'", "the root has every cpu");
    check(same, "cgroup = 'elsewhere'", "there is no such group");
    check(
        same,
        "cgroup = 'system.slice/redis.service'",
        "put the cores 2-3 into AllowedCPUs= of redis.service",
    );
    check(|facts| facts.cgroup.version = Some(1), group, "a hierarchy of version 1 here");
    check(|facts| facts.cgroup.version = None, group, "has the controller cpuset");
    let files = |facts: &mut Facts| std::mem::take(facts.cgroup.groups.get_mut("db/redis").unwrap());
    check(|facts| drop(files(facts)), group, "echo +cpuset > /sys/fs/cgroup/db/cgroup.subtree_control");
    let partition = |facts: &mut Facts| {
        let files = facts.cgroup.groups.get_mut("db/redis").unwrap();
        files.insert("cpuset.cpus.partition".to_owned(), "isolated".to_owned());
    };
    check(partition, group, "cpuset.cpus.partition: isolated");
    let plan = planned(&machine(), "cores = '2-3'\nprocess = { name = 'redis-server' }");
    assert!(plan.notes.iter().all(|note| !note.contains("cpuset")), "nobody asked: {:?}", plan.notes);
}

#[test]
fn two_lanes_do_not_share_a_group() {
    let lanes =
        format!("[[lane]]\nname = 'a'\ncores = '2'\n{GROUP}\n[[lane]]\nname = 'b'\ncores = '3'\n{GROUP}\n");
    let problems = plan::plan(&Spec::parse(&lanes).unwrap(), &machine()).unwrap_err();
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|it| it.contains("cgroup/db/redis/cpuset.cpus: lane a")), "{said:?}");
}

#[test]
fn it_is_applied_and_goes_back() {
    let facts = machine();
    let plan = planned(&facts, &format!("cores = '2-3'\n{GROUP}"));
    let mut kernel = Fake::of(&facts);
    let before = kernel.seen();
    let mut journal = Journal::begin(Box::new(Memory::default()), &facts.boot_id, Wish::default()).unwrap();
    let outcome = apply(&plan, &mut kernel, &mut journal, &mut |_| {});
    assert!(matches!(outcome, Outcome::InForce { written_count: 3, .. }), "{outcome}");
    let cpus = "cgroup/db/redis/cpuset.cpus".parse().unwrap();
    assert_eq!(kernel.seen()[&cpus], Setting::new("2-3"));
    assert!(revert(&mut kernel, &mut journal, false, &mut |_| {}).is_clean());
    assert_eq!(kernel.seen(), before);
}
