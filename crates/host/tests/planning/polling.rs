//! What busy polling asks of a card: interrupts that are held back while servers poll.

use host::{Facts, Plan, Spec, plan};

use super::facts;

fn planned(facts: &Facts, lanes: &str) -> Plan {
    let spec = Spec::parse(&format!("[[nic]]\nname = 'ens1'\n{lanes}")).unwrap();
    plan::plan(&spec, facts).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// Steps that hold interrupts back, and what they want.
fn held_back(plan: &Plan) -> Vec<String> {
    let wants = plan.steps.iter().map(|step| format!("{} {}", step.knob, step.want.as_ref().unwrap()));
    wants.filter(|text| text.contains("napi/")).map(|text| text.replace("nic/ens1/", "")).collect()
}

fn says(plan: &Plan, words: &str) {
    assert!(plan.notes.iter().any(|note| note.contains(words)), "{words}: {:#?}", plan.notes);
}

const TWO: &str =
    "[[lane]]\nname = 'a'\nports = 1\nqueues = 2\nbusy-poll-us = 50\n[[lane]]\nname = 'b'\nports = 2\n";

#[test]
fn interrupts_of_the_lanes_queues_are_held_back_for_as_long_as_servers_poll() {
    let facts = facts("e810-ice");
    let plan = planned(&facts, TWO);
    let want = [
        "queue/2/napi/defer-hard-irqs 2",
        "queue/2/napi/gro-flush-timeout 50000",
        "queue/3/napi/defer-hard-irqs 2",
        "queue/3/napi/gro-flush-timeout 50000",
    ];
    assert_eq!(held_back(&plan), want, "and of no other lane's");
    // A packet waits no longer than that, however long is polled.
    let long = planned(&facts, &TWO.replace("us = 50", "us = 10000"));
    assert!(held_back(&long).contains(&"queue/3/napi/gro-flush-timeout 200000".to_owned()));
    assert_eq!(held_back(&planned(&facts, &TWO.replace("busy-poll-us = 50", ""))), [""; 0]);
}

#[test]
fn a_kernel_without_settings_of_each_queue_has_those_of_the_card() {
    let mut facts = facts("e810-ice");
    facts.nics[0].queues.iter_mut().for_each(|queue| queue.napi_settings.clear());
    let both = format!("{TWO}busy-poll-us = 20\n");
    says(&planned(&facts, &both), "ens1 gives no way to hold interrupts back");
    (facts.nics[0].defer_hard_irqs, facts.nics[0].gro_flush_timeout) = (Some(0), Some(0));
    let plan = planned(&facts, &both);
    assert_eq!(
        held_back(&plan),
        ["napi/defer-hard-irqs 2", "napi/gro-flush-timeout 20000"],
        "others wait least"
    );
    let turned = TWO.replace("us = 50", "us = 20") + "busy-poll-us = 50\n";
    assert_eq!(held_back(&planned(&facts, &turned))[1], "napi/gro-flush-timeout 20000", "whichever is first");
    says(&plan, "a packet of anybody may wait for 20 µs");
}

#[test]
fn the_machine_polls_as_long_as_any_lane_wants() {
    let plan = planned(&facts("e810-ice"), &format!("{TWO}busy-poll-us = 20\n"));
    let polls = plan.steps.iter().find(|step| step.knob == host::Knob::sysctl("net.core.busy_poll")).unwrap();
    assert_eq!(polls.want.as_ref().unwrap().as_str(), "50");
    says(&plan, "50 µs, the longest that a lane wants");
}

#[test]
fn the_thread_of_the_nth_queue_has_the_nth_core() {
    let plan =
        planned(&facts("e810-ice"), &TWO.replace("busy-poll-us = 50", "threaded = true\ncores = '4-5'"));
    let threads = plan.steps.iter().filter(|step| step.knob.to_string().ends_with("napi-thread"));
    let wants: Vec<&str> = threads.map(|step| step.want.as_ref().unwrap().as_str()).collect();
    assert_eq!(wants, ["cpus 4 other", "cpus 5 other"]);
}

/// Intel's own driver deals a class's queues to as many pollers as there are cores.
#[test]
fn a_poller_has_its_share_of_the_queues() {
    let mut facts = facts("e810-ice-oot");
    facts.nics.truncate(1);
    for (cores, want) in [("2-5", "1"), ("2-3", "2"), ("2", "4")] {
        let lane =
            format!("[[lane]]\nname = 'a'\nports = 1\nqueues = 4\ncores = '{cores}'\nthreaded = true\n");
        let plan = planned(&facts, &lane);
        let share = plan.steps.iter().find(|step| step.knob.to_string().ends_with("tc1_qps_per_poller"));
        assert_eq!(share.unwrap().want.as_ref().unwrap().as_str(), want, "{cores}");
    }
}

#[test]
fn a_lane_that_shares_its_queues_has_their_interrupts() {
    let facts = facts("veth");
    let name = &facts.nics[0].name;
    let text = format!("[[nic]]\nname = '{name}'\n[[lane]]\nname = 'a'\nports = 1\nbusy-poll-us = 50");
    let plan = plan::plan(&Spec::parse(&text).unwrap(), &facts).unwrap();
    assert_eq!(held_back(&plan), [""; 0]);
    says(&plan, "lane `a` shares its queues");
}

#[test]
fn what_is_wished_of_queues_that_a_lane_shares_is_left_out_and_said() {
    let check = |machine: &str, nic: &str, lane: &str, words: &[&str]| {
        let text = format!("[[nic]]\nname = 'ens1'\n{nic}\n[[lane]]\nname = 'a'\nports = 1\n{lane}\n");
        let mut facts = facts(machine);
        for queue in &mut facts.nics[0].queues {
            queue.coalesce = Some("rx-usecs 8 tx-usecs 8".to_owned());
        }
        let plan = plan::plan(&Spec::parse(&text).unwrap(), &facts).unwrap();
        let ends = ["threaded", "napi-thread", "coalesce"];
        let is_it = |step: &host::Step| ends.iter().any(|end| step.knob.to_string().ends_with(end));
        assert_eq!(plan.steps.iter().any(is_it), words.is_empty(), "{text}");
        words.iter().for_each(|words| says(&plan, words));
        let left_out = plan.notes.iter().filter(|note| note.contains("left out")).count();
        assert_eq!(left_out, words.len(), "{:#?}", plan.notes);
    };
    let soft = "backend = 'soft'";
    check("e810-ice", soft, "threaded = true", &["lane `a` shares its queues, so `threaded` is left out"]);
    let of_lane = "No queue of ens1 is for this alone, so it is left out: lane a: fixed moderation";
    check("e810-ice", soft, "moderation = { rx-usecs = 5 }", &[of_lane]);
    check("e810-ice", "", "threaded = true", &[]);
    check("e810-ice", "", "moderation = { rx-usecs = 5 }", &[]);
    // A whole card is one lane's, so none of its queues is nobody's.
    let of_others =
        "No queue of ens1 is for this alone, so it is left out: moderation of queues that no lane has";
    check("virtio", "moderation = { rx-usecs = 5 }", "", &[of_others]);
}

/// A veth has NAPI instances with GRO alone, and takes no threads without.
#[test]
fn threads_poll_only_what_has_something_to_poll() {
    let card = |features: &str| {
        format!(
            "[[nic]]\nname = 'veth0'\n{features}[[lane]]\nname = 'a'\nports = 1\nqueues = 1\ncores = '1'\nthreaded = true\n"
        )
    };
    let mut facts = facts("veth");
    facts.nics[0].name = "veth0".to_owned();
    for queue in &mut facts.nics[0].queues {
        queue.napi = None;
        queue.napi_settings.clear();
    }
    facts.nics[0].threaded = Some(false);
    let planned = |facts: &Facts, features: &str| plan::plan(&Spec::parse(&card(features)).unwrap(), facts);
    let refused = planned(&facts, "").unwrap_err();
    assert!(
        refused.len() == 1 && refused[0].0.contains("`threaded`: veth0 has nothing that threads could poll"),
        "{refused:?}"
    );
    planned(&facts, "features = { gro = true }\n").unwrap();
    facts.nics[0].driver = "ixgbe".to_owned();
    planned(&facts, "").unwrap();
    (facts.nics[0].driver, facts.nics[0].queues[0].napi) = ("veth".to_owned(), Some(8193));
    planned(&facts, "").unwrap();
}
