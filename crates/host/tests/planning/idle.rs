//! What a lane's cores may do when they are idle.

use host::{Facts, Plan, Spec, plan};

use super::facts;

/// Two sockets of 24 cores with two hardware threads each: cpu 2 and 50 are of one core.
fn machine() -> Facts {
    let mut facts = facts("e810-ice");
    facts.idle_driver = Some("intel_idle".to_owned());
    facts.cpus.iter_mut().for_each(|cpu| cpu.resume_latency_us = Some("0".to_owned()));
    facts
}

fn planned(facts: &Facts, lanes: &str) -> Plan {
    let spec = Spec::parse(lanes).unwrap();
    plan::plan(&spec, facts).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn lane(name: &str, lines: &str) -> String {
    format!("[[lane]]\nname = '{name}'\n{lines}\n")
}

/// Cpus and what they shall have.
fn limits(plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter().filter(|step| matches!(step.knob, host::Knob::Cpu { .. }));
    steps
        .map(|step| {
            let value = |setting: &Option<host::Setting>| setting.as_ref().unwrap().to_string();
            format!("{}: {} -> {}", step.knob, value(&step.have), value(&step.want))
        })
        .collect()
}

#[track_caller]
fn says(plan: &Plan, words: &str) {
    assert!(plan.notes.iter().any(|note| note.contains(words)), "{words}: {:#?}", plan.notes);
}

#[test]
fn cores_of_the_lane_alone_are_kept_from_sleep() {
    let two = lane("a", "cores = '2-3'\nresume-latency-us = 0") + &lane("b", "cores = '5'");
    let plan = planned(&machine(), &two);
    assert_eq!(limits(&plan), ["cpu/2/resume-latency-us: 0 -> n/a", "cpu/3/resume-latency-us: 0 -> n/a"]);
    assert!(plan.steps.iter().all(|step| step.lane() == Some("a")));
    says(&plan, "lane `a`: while idle, cores 2-3 will poll and not sleep");
    says(&plan, "hardware threads 50-51 of the same cores");
    let whole = planned(&machine(), &lane("a", "cores = '2,50'\nresume-latency-us = 0"));
    assert!(whole.notes.iter().any(|note| note.ends_with("get warm as at work.")), "{:?}", whole.notes);
}

#[test]
fn microseconds_are_what_may_be_taken() {
    let both = lane("a", "cores = '2'\nresume-latency-us = 1")
        + &lane("b", "cores = '5'\nresume-latency-us = 100000");
    let plan = planned(&machine(), &both);
    assert_eq!(limits(&plan), ["cpu/2/resume-latency-us: 0 -> 1", "cpu/5/resume-latency-us: 0 -> 100000"]);
    says(&plan, "lane `a`: while idle, core 2 will enter no state that takes longer than 1 us to leave");
}

#[test]
fn a_lane_that_names_no_cores_has_it_on_those_that_it_is_given() {
    let plan = planned(&machine(), &lane("a", "resume-latency-us = 0"));
    let want: Vec<String> =
        plan.lanes[0].cores.iter().map(|cpu| format!("cpu/{cpu}/resume-latency-us: 0 -> n/a")).collect();
    assert_eq!((limits(&plan), want.len()), (want, 1));
}

#[test]
fn without_the_key_cpus_are_left_alone() {
    let mut facts = machine();
    facts.cpus[2].resume_latency_us = Some("n/a".to_owned());
    let plan = planned(&facts, &lane("a", "cores = '2'"));
    assert_eq!(limits(&plan), [""; 0]);
    assert!(plan.notes.iter().all(|note| !note.contains("resume-latency-us")), "{:?}", plan.notes);
}

#[test]
fn where_it_would_do_nothing_there_is_no_step_and_a_word() {
    let wish = lane("a", "cores = '2-3'\nresume-latency-us = 0");
    let mut facts = machine();
    facts.idle_driver = None;
    let plan = planned(&facts, &wish);
    assert_eq!(limits(&plan), [""; 0]);
    says(&plan, "this kernel has no cpuidle driver");
    let mut facts = machine();
    facts.cpus[2].resume_latency_us = None;
    let plan = planned(&facts, &wish);
    assert_eq!(limits(&plan), ["cpu/3/resume-latency-us: 0 -> n/a"]);
    says(&plan, "not set on core 2, which has no such limit");
    says(&plan, "while idle, core 3 will poll");
    facts.cpus[3].resume_latency_us = None;
    let plan = planned(&facts, &wish);
    assert!(!plan.notes.iter().any(|note| note.contains("poll")), "nothing is paid: {:?}", plan.notes);
}

#[test]
fn a_core_that_takes_the_interrupts_still_sleeps_and_that_is_said() {
    let card = "[[nic]]\nname = 'ens1'\n";
    let wish = |irq: &str| {
        format!("{card}{}", lane("a", &format!("ports = 1\ncores = '2'\nresume-latency-us = 0\n{irq}")))
    };
    let plan = planned(&machine(), &wish("irq = 'reserved 4'"));
    assert_eq!(limits(&plan), ["cpu/2/resume-latency-us: 0 -> n/a"]);
    says(&plan, "its interrupts go to core 4");
    let mut facts = machine();
    facts.cpus[2].resume_latency_us = None;
    let notes = planned(&facts, &wish("irq = 'reserved 4'")).notes;
    assert!(!notes.iter().any(|note| note.contains("its interrupts go to")), "no core is awake: {notes:?}");
    let plan = planned(&machine(), &wish("irq = 'on-lane'"));
    assert!(!plan.notes.iter().any(|note| note.contains("its interrupts go to")), "{:?}", plan.notes);
}
