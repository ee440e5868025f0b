//! Wishes that a machine can't grant: each refusal names the key and the limit.

use host::facts::{Feature, Filter};
use host::knob::Direction;
use host::{Facts, Spec, plan};

use super::facts;

fn refused(facts: &Facts, text: &str, wants: &[&str]) {
    let spec = Spec::parse(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    let problems = plan::plan(&spec, facts).expect_err(text);
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let named = all.iter().any(|it| wants.iter().all(|want| it.contains(want)));
    assert!(named, "{text}\nsays {all:#?}\nnot {wants:?}");
}

fn lane(nic: &str, lane: &str) -> String {
    format!("[[nic]]\nname = 'ens1'\n{nic}\n[[lane]]\nname = 'a'\nports = 1\n{lane}\n")
}

#[test]
fn a_card_is_found_or_the_file_is_wrong() {
    let mut facts = facts("e810-ice-oot");
    refused(
        &facts,
        "[[nic]]\nname = 'ens11'\n[[lane]]\nname = 'a'\nports = 1",
        &["`ens11`", "ens1, ens2", "did you mean `ens1`?"],
    );
    let two = "[[nic]]\nname = '02:00:00:00:01:01'\n[[nic]]\nname = 'ens1'\n[[lane]]\nname = 'a'\nnic = 'ens1'\nports = 1";
    refused(&facts, two, &["`02:00:00:00:01:01`", "`ens1`", "both ens1"]);
    let bare = Facts { nics: vec![], ..facts.clone() };
    refused(&bare, &lane("", ""), &["nic `ens1`: no card here", "there is none"]);
    facts.nics[1].mac = facts.nics[0].mac.to_uppercase();
    let by_mac = "[[nic]]\nname = '02:00:00:00:01:01'\n[[lane]]\nname = 'a'\nports = 1";
    refused(&facts, by_mac, &["ens1 and ens2", "by its interface"]);
    let by_bus = Spec::parse("[[nic]]\nname = '0000:b1:00.0'\n[[lane]]\nname = 'a'\nports = 1").unwrap();
    assert_eq!(plan::plan(&by_bus, &facts).unwrap().lanes[0].nic.as_deref(), Some("ens2"));
}

/// What a card lacks for a backend that is asked for by name.
#[test]
fn a_backend_that_a_card_lacks_is_refused_with_what_it_lacks() {
    let ports = "[[lane]]\nname = 'a'\nports = '1-2'\nmode = 'one-queue-per-port'\n";
    let one = "[[lane]]\nname = 'a'\nports = 1\n";
    let check = |facts: &Facts, backend: &str, rest: &str, want: &str| {
        let text = format!("[[nic]]\nname = '{}'\nbackend = '{backend}'\n{rest}", facts.nics[0].name);
        refused(facts, &text, &["`backend`", backend, want]);
    };
    let mut ice = facts("e810-ice");
    ice.nics[0].ntuple = None;
    check(&ice, "tc-channel", ports, "one queue per port wants rules (ethtool -N), and there are none here");
    let mut igb = facts("82599-ixgbe");
    igb.nics[0].driver = "igb".to_owned();
    check(&igb, "rss-ntuple", one, "the rules of igb know no ports");
    let rated = format!("{one}rate-max = '1Gbit'\n");
    check(&facts("virtio"), "virtual", &rated, "a whole card's lane has no rates");
    let others = format!("{one}[default]\nrate-max = '1Gbit'\n");
    check(&facts("virtio"), "virtual", &others, "a whole card's lane has no rates");
}

#[test]
fn ice_has_its_limits() {
    let facts = facts("e810-ice");
    let two = |first: &str, second: &str| {
        format!(
            "[[nic]]\nname = 'ens1'\n[[lane]]\nname = 'a'\nports = 1\n{first}\n[[lane]]\nname = 'b'\nports = 2\n{second}\n"
        )
    };
    refused(
        &facts,
        &two("queues = 3", "queues = 8"),
        &["lane `a`, `queues`", "powers of two", "3", "2 or 4"],
    );
    refused(&facts, &two("queues = 6", "queues = 7"), &["lane `a`, `queues`", "powers of two"]);
    refused(
        &facts,
        &format!("{}\n[default]\nqueues = 3", two("queues = 4", "queues = 4")),
        &["[default], `queues`", "powers of two"],
    );
    refused(
        &facts,
        &lane("", "rate-max = '700kbit'"),
        &["lane `a`, `rate-max`", "steps of 500Kbit", "700Kbit"],
    );
    refused(&facts, &lane("", "rate-min = '0bit'"), &["`rate-min`", "500Kbit"]);
    let as_the_link = Spec::parse(&lane("", "rate-max = '100Gbit'")).unwrap();
    assert!(plan::plan(&as_the_link, &facts).is_ok());
    let twice =
        format!("[host]\nsysctls = {{ 'net.core.busy_poll' = 7 }}\n{}", lane("", "busy-poll-us = 50"));
    refused(&facts, &twice, &["sysctl/net.core.busy_poll", "`50`", "`7`"]);
    refused(&facts, &lane("", "rate-max = '101Gbit'"), &["`rate-max`", "101Gbit", "the link's 100Gbit"]);
    refused(
        &facts,
        &two("rate-min = '60Gbit'", "rate-min = '60Gbit'"),
        &["`rate-min`", "120Gbit", "100Gbit"],
    );
    refused(&facts, &lane("", "queues = 96"), &["97 queues", "at most 96"]);
    refused(&facts, &lane("channels = 4", "queues = 8"), &["`channels`", "10 queues", "gives 4"]);
    for backend in ["tc-channel", "soft", "process"] {
        let nic = format!("channels = 999\nbackend = '{backend}'");
        refused(&facts, &lane(&nic, ""), &["`channels`", "999 is above 96, the most this card has"]);
    }
    let many: String = (1..=16).map(|n| format!("[[lane]]\nname = 'l{n}'\nports = {n}\n")).collect();
    refused(&facts, &format!("[[nic]]\nname = 'ens1'\n{many}"), &["16 traffic classes", "16 lanes"]);
    refused(&facts, &lane("rx-ring = 9000", ""), &["`rx-ring`", "9000", "8160"]);
    refused(&facts, &lane("features = { zzz = true }", ""), &["feature `zzz`", "has none"]);
    refused(
        &facts,
        &lane("backend = 'tc-channel'", "cores = '200'"),
        &["lane `a`, `cores`", "200", "not online"],
    );
    // The largest may be no power of two.
    let spec = Spec::parse(&two("queues = 4", "queues = 7")).unwrap();
    assert!(plan::plan(&spec, &facts).is_ok());
}

#[test]
fn what_stands_in_the_way_is_named() {
    let check = |change: fn(&mut host::facts::Nic), nic: &str, wish: &str, wants: &[&str]| {
        let mut facts = facts("e810-ice");
        change(&mut facts.nics[0]);
        refused(&facts, &lane(nic, wish), wants);
    };
    let tc = "backend = 'tc-channel'";
    check(|nic| nic.master = Some("bond0".to_owned()), tc, "", &["`backend`", "belongs to bond0"]);
    check(|nic| nic.xdp = true, tc, "", &["`backend`", "XDP"]);
    check(|nic| nic.hindrances.push("safe-mode".to_owned()), tc, "", &["`backend`", "safe-mode"]);
    check(|nic| nic.hindrances.push("switchdev".to_owned()), tc, "", &["`backend`", "switchdev"]);
    check(
        |nic| nic.hindrances.push("irdma".to_owned()),
        "channels = 8",
        "",
        &["`channels`", "irdma", "rmmod irdma"],
    );
    check(|nic| nic.xdp = true, "channels = 8", "", &["`channels`", "XDP program"]);
    check(|nic| nic.channels = None, "channels = 8", "", &["`channels`", "can't change"]);
    check(
        |nic| nic.root_qdisc = Some("handle 1: htb default 10".to_owned()),
        tc,
        "",
        &["`backend`", "`handle 1: htb default 10`", "tc qdisc del dev ens1 root"],
    );
    let fixed = |nic: &mut host::facts::Nic| {
        nic.features.insert("hw-tc-offload".to_owned(), Feature { on: false, fixed: true });
    };
    check(fixed, tc, "", &["`backend`", "hw-tc-offload is fixed off"]);
    check(
        |nic| nic.ntuple.as_mut().unwrap().capacity = 0,
        "backend = 'rss-ntuple'",
        "",
        &["`ports`", "room for 0 rules"],
    );
    check(
        |nic| nic.rss.as_mut().unwrap().writable = false,
        "backend = 'rss-ntuple'",
        "",
        &["`backend`", "can't be written"],
    );
    let without_pollers = |nic: &mut host::facts::Nic| {
        nic.threaded = None;
        nic.queues.iter_mut().for_each(|queue| queue.napi_settings.clear());
    };
    check(without_pollers, "", "threaded = true", &["lane `a`, `threaded`", "ens1"]);
}

#[test]
fn a_backend_that_can_t_be_had_says_why() {
    let check = |machine: &str, nic: &str, wish: &str, wants: &[&str]| {
        let facts = facts(machine);
        refused(&facts, &lane(nic, wish), wants);
    };
    check("ena", "backend = 'rss-ntuple'", "", &["`backend`", "ena takes no rules for ports (ethtool -N)"]);
    check("virtio", "backend = 'rss-ntuple'", "", &["`backend`", "virtio_net takes no rules"]);
    check("82599-ixgbe", "backend = 'tc-channel'", "", &["`backend`", "ixgbe has no queue sets"]);
    check("82599-ixgbe", "", "queues = 2", &["`queues`", "no RSS contexts"]);
    check("82599-ixgbe", "backend = 'rss-ntuple'", "addresses = ['2001:db8::40']", &["`backend`", "no IPv6"]);
    check("82599-ixgbe", "backend = 'rss-ntuple'", "rate-max = '1Gbit'", &["`backend`", "can't limit rates"]);
    check("x710-i40e", "backend = 'tc-channel'", "", &["`backend`", "local address", "`addresses`"]);
    check("x710-i40e", "backend = 'tc-channel'", "protocol = 'udp'", &["`backend`", "UDP"]);
    check(
        "x710-i40e",
        "backend = 'tc-channel'",
        "remote-ports = 5\naddresses = ['192.0.2.30']",
        &["`backend`", "`remote-ports`"],
    );
    check(
        "x710-i40e",
        "backend = 'tc-channel'",
        "addresses = ['192.0.2.30']\nrate-min = '1Gbit'",
        &["`rate-min`", "keeps no rate"],
    );
    check(
        "connectx-mlx5",
        "backend = 'tc-channel'",
        "rate-min = '1Gbit'",
        &["`rate-min`", "mlx5_core", "keeps no rate"],
    );
    check("virtio", "backend = 'soft'", "rate-min = '1Gbit'", &["`backend`", "`rate-min`"]);
    check("virtio", "", "queues = 5", &["5 queues", "at most 4"]);
    check("virtio", "source-routing = true", "", &["`source-routing`", "`gateway`"]);
    check(
        "virtio",
        "",
        "cores = '0-3'\nprocess = { name = 'x' }\n[default]\nprocess = [{ name = 'backup' }]",
        &["[default], `process`", "backup"],
    );
    let mut ruled = facts("x710-i40e");
    ruled.nics[0].ntuple.as_mut().unwrap().rules.insert(7, "flow-type udp4 dst-port 53 action 0".to_owned());
    let by_class = lane("backend = 'tc-channel'", "addresses = ['192.0.2.30']");
    refused(&ruled, &by_class, &["`backend`", "turn the rules of i40e off", "has set 1"]);
    let per_port = "[[nic]]\nname = 'ens1'\nbackend = 'tc-channel'\n[[lane]]\nname = 'a'\nports = '1-2'\nmode = 'one-queue-per-port'\naddresses = ['192.0.2.30']";
    refused(&facts("x710-i40e"), per_port, &["`backend`", "i40e takes no rules beside filters"]);
    let two = "[[nic]]\nname = 'ens1'\nbackend = 'virtual'\n[[lane]]\nname = 'a'\nports = 1\n[[lane]]\nname = 'b'\nports = 2";
    refused(&facts("ena"), two, &["`backend`", "lane `b`", "a card of its own"]);
    let mut facts = facts("virtio");
    facts.daemons[0].manageable = false;
    refused(&facts, &lane("", ""), &["`irqbalance`", "can't be stopped"]);
}

#[test]
fn a_root_of_an_earlier_wish_is_no_hindrance() {
    let mut facts = facts("e810-ice");
    facts.nics[0].root_qdisc = Some("mqprio num_tc 2 map 0 1 queues 2@0 8@2 hw 1 mode channel".to_owned());
    let spec = Spec::parse(&lane("backend = 'tc-channel'", "queues = 4")).unwrap();
    let steps = plan::plan(&spec, &facts).unwrap().steps;
    let root = steps.iter().find(|step| step.knob.to_string() == "nic/ens1/qdisc/root").unwrap();
    assert!(
        root.has_work() && root.have.as_ref().unwrap().as_str() == facts.nics[0].root_qdisc.as_ref().unwrap()
    );
    facts.nics[0].root_qdisc = Some("htb default 1".to_owned());
    assert!(plan::plan(&spec, &facts).is_ok());
}

#[test]
fn others_filters_and_rules_are_left_and_their_places_not_taken() {
    let mut facts = facts("e810-ice");
    let theirs = Filter {
        direction: Direction::Ingress,
        pref: 49_001,
        text: "protocol ip u32".to_owned(),
        in_hw: false,
    };
    facts.nics[0].filters.push(theirs);
    facts.nics[0].clsact = true;
    let rule = "flow-type udp4 dst-port 53 action 0".to_owned();
    facts.nics[0].ntuple.as_mut().unwrap().rules.insert(16_383, rule);
    let text = "[[nic]]\nname = 'ens1'\n[[lane]]\nname = 'a'\nports = '1-2'\nmode = 'one-queue-per-port'";
    let plan = plan::plan(&Spec::parse(text).unwrap(), &facts).unwrap();
    let paths: Vec<String> = plan.steps.iter().map(|step| step.knob.to_string()).collect();
    for mine in [
        "filter/ingress/49002",
        "filter/ingress/49003",
        "filter/egress/49001",
        "ntuple/16382",
        "ntuple/16381",
    ] {
        assert!(paths.contains(&format!("nic/ens1/{mine}")), "{mine}");
    }
    for theirs in ["filter/ingress/49001", "ntuple/16383"] {
        assert!(!paths.contains(&format!("nic/ens1/{theirs}")), "{theirs}");
    }
}

#[test]
fn what_no_filter_can_do_is_told() {
    let says = |machine: &str, text: &str, want: &str| {
        let plan = plan::plan(&Spec::parse(text).unwrap(), &facts(machine)).unwrap();
        assert!(plan.notes.iter().any(|it| it.contains(want)), "{want}: {:#?}", plan.notes);
    };
    says("e810-ice", &lane("", "priority = 'app'"), "SO_PRIORITY 1");
    says("e810-ice", &lane("", "addresses = ['203.0.113.1']"), "no address of ens1");
    says("82599-ixgbe", &lane("", ""), "know no IPv6");
    says("virtio", &lane("", "moderation = { rx-usecs = 5 }"), "no moderation that could be set");
    says("virtio", &lane("", "process = { name = 'nobody' }"), "no process matches now");
    says(
        "e810-ice",
        &format!("[host]\nirqbalance = 'leave'\n{}", lane("", "")),
        "irqbalance runs and is left alone",
    );
}
