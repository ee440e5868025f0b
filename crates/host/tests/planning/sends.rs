//! By which queue and within which limit lanes send on a card without means of its own.

use host::{Spec, plan};

use super::facts;

/// Filters and classes of a wish for the virtual card, one to a line.
fn sends(lanes: &str) -> Vec<String> {
    let facts = facts("veth");
    let name = &facts.nics[0].name;
    let spec = Spec::parse(&format!("[[nic]]\nname = '{name}'\n{lanes}")).unwrap();
    let plan = plan::plan(&spec, &facts).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let steps = plan.steps.iter().map(|step| format!("{} {}", step.knob, step.want.as_ref().unwrap()));
    let shown =
        steps.filter(|text| ["/filter/", "/class/", "/qdisc/root"].iter().any(|it| text.contains(it)));
    shown.map(|text| text.replace(&format!("nic/{name}/"), "")).collect()
}

#[test]
fn each_port_sends_by_its_queue() {
    let want = [
        "filter/egress/49001 protocol all bpf queue 2 tcp src_port 1",
        "filter/egress/49002 protocol all bpf queue 3 tcp src_port 2",
    ];
    assert_eq!(sends("[[lane]]\nname = 'a'\nports = '1-2'\nmode = 'one-queue-per-port'\ncores = '0'"), want);
}

#[test]
fn each_lane_sends_within_its_own_limit() {
    let lane = |name: &str, port: u16, rate: &str| {
        format!("[[lane]]\nname = '{name}'\nports = {port}\ncores = '{}'\nrate-max = '{rate}'\n", port - 1)
    };
    let want = [
        "qdisc/root htb",
        "class/e7:10 parent e7: htb rate 1Gbit ceil 1Gbit",
        "class/e7:11 parent e7: htb rate 2Gbit ceil 2Gbit",
        "filter/egress/49001 protocol all bpf priority e7:10 tcp src_port 1",
        "filter/egress/49002 protocol all bpf priority e7:11 tcp src_port 2",
    ];
    assert_eq!(sends(&(lane("a", 1, "1Gbit") + &lane("b", 2, "2Gbit"))), want);
}

/// Without RFS' table, as in a network namespace of its own, packets are not handed to the system's cores.
#[test]
fn packets_of_lanes_that_share_queues_stay_where_rfs_can_not_be_seen() {
    let mut facts = facts("veth");
    let name = facts.nics[0].name.clone();
    let text = format!("[[nic]]\nname = '{name}'\n[[lane]]\nname = 'a'\nports = 1\ncores = '1'\n");
    let hands_on = |facts: &host::Facts| {
        let plan = plan::plan(&Spec::parse(&text).unwrap(), facts).unwrap();
        let is_noted =
            plan.notes.iter().any(|note| note.contains("net.core.rps_sock_flow_entries can't be seen here"));
        (plan.steps.iter().any(|step| step.knob.to_string().ends_with("rps_cpus")), is_noted)
    };
    facts.sysctls.insert("net.core.rps_sock_flow_entries".to_owned(), "0".to_owned());
    assert_eq!(hands_on(&facts), (true, false));
    facts.sysctls.remove("net.core.rps_sock_flow_entries");
    assert_eq!(hands_on(&facts), (false, true));
}
