//! One look a verdict, on made-up machines.

use super::*;
use crate::Cpus;
use crate::facts::{Cpu, Daemon, Feature, Filter, Process, Queue, Thread};
use crate::knob::{Direction, Setting};
use crate::plan::{Placed, Step};
use crate::spec::Mode;

fn cpus(list: &str) -> Cpus {
    list.parse().unwrap()
}

/// Two nodes of four cpus; a card on node 0, set up as ADQ wants it; a redis in the lane.
struct Stage {
    facts: Facts,
    plan: Option<Plan>,
}

fn lane(name: &str, queues: &str, cores: &str) -> Placed {
    Placed::made_up(name, Mode::OneQueuePerPort, queues, cores)
}

fn stage() -> Stage {
    let cpu = |id| Cpu { id, core: id, node: id / 4, package: id / 4, ..Cpu::default() };
    let queue = |index| Queue {
        index,
        napi: Some(8193 + index),
        irq_cpus: Some(cpus(&index.to_string())),
        irq_effective: Some(cpus(&index.to_string())),
        xps_rxqs: Some(cpus(&index.to_string())),
        ..Queue::default()
    };
    let on = Feature { on: true, fixed: false };
    let filter =
        |direction, text: &str| Filter { direction, pref: 49001, text: text.to_owned(), in_hw: true };
    let nic = Nic {
        name: "ens1".to_owned(),
        driver: "ice".to_owned(),
        up: true,
        node: Some(0),
        coalesce: Some("adaptive-rx off rx-usecs 50 adaptive-tx off tx-usecs 50".to_owned()),
        root_qdisc: Some(
            "mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 1 mode channel shaper bw_rlimit".to_owned(),
        ),
        filters: vec![
            filter(Direction::Ingress, "protocol ip flower ip_proto tcp dst_port 6379 skip_sw hw_tc 1"),
            filter(
                Direction::Egress,
                "protocol ip flower ip_proto tcp src_port 6379 action skbedit priority 1",
            ),
        ],
        features: [("hw-tc-offload".to_owned(), on), ("rx-ntuple-filter".to_owned(), on)].into(),
        private_flags: [("fw-lldp-agent".to_owned(), false)].into(),
        queues: (0..4).map(queue).collect(),
        ..Nic::default()
    };
    let thread = Thread { tid: 812, cpus: cpus("2"), ..Thread::default() };
    let redis = Process {
        pid: 812,
        name: "redis-server".to_owned(),
        listens: vec!["tcp 0.0.0.0:6379".parse().unwrap()],
        threads: vec![thread],
        ..Process::default()
    };
    let sysctls = [("vm.swappiness", "1"), ("net.core.busy_poll", "50"), ("kernel.numa_balancing", "0")];
    let facts = Facts {
        kernel: "6.18.5-generic".to_owned(),
        cpus: (0..8).map(cpu).collect(),
        nics: vec![nic],
        sysctls: sysctls.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        daemons: vec![Daemon {
            name: "irqbalance".to_owned(),
            running: false,
            manageable: true,
            profile: None,
        }],
        processes: vec![redis],
        ..Facts::default()
    };
    let plan = Plan { lanes: vec![lane("redis", "2-3", "2")], steps: vec![], notes: vec![] };
    Stage { facts, plan: Some(plan) }
}

impl Stage {
    fn report(&self) -> Report {
        check(&self.facts, self.plan.as_ref().map(|plan| (plan, "redis.toml")))
    }

    fn nic(&mut self) -> &mut Nic {
        &mut self.facts.nics[0]
    }

    fn lanes(&mut self) -> &mut Vec<Placed> {
        &mut self.plan.as_mut().unwrap().lanes
    }
}

/// After a change, the item whose title begins so has this verdict, and says this.
#[track_caller]
fn says(change: impl FnOnce(&mut Stage), title: &str, verdict: Verdict, part: &str) {
    let mut stage = stage();
    change(&mut stage);
    let report = stage.report();
    let mut items = report.items.iter().filter(|item| item.title.starts_with(title));
    let item = items.next().unwrap_or_else(|| panic!("no item is called {title}"));
    assert!(items.next().is_none(), "{title} is two items");
    let advice = item.advice.as_deref().unwrap_or_default();
    let said = format!("{} {} {advice}", item.found, item.mend.join(" "));
    assert_eq!(item.verdict, verdict, "{title}: {said}");
    assert!(said.contains(part), "{title}: '{part}' is not in '{said}'");
    assert_eq!(
        item.mend.is_empty() && item.advice.is_none(),
        verdict != Verdict::Off,
        "{title}: what is off, and only that, has a remedy"
    );
    let text = report.text();
    // A word of a command is not broken.
    let fits = |line: &str| line.chars().count() <= 80 || line.trim().split(' ').count() <= 2;
    assert!(text.lines().all(fits), "{text}");
}

use Verdict::{NotHere, Off, Ok as Fine};

#[test]
fn what_mends_several_cards_alike_is_said_once() {
    let mut stage = stage();
    stage.plan = None;
    stage.facts.nics[0].filters.clear();
    let mut other = stage.facts.nics[0].clone();
    other.name = "ens2".to_owned();
    stage.facts.nics.push(other);
    let report = stage.report();
    let of_both = report.items.iter().filter(|item| item.found.contains("ens1, ens2"));
    assert!(of_both.filter(|item| item.verdict == Off).count() > 0, "{}", report.text());
    for item in &report.items {
        let once: std::collections::BTreeSet<&String> = item.mend.iter().collect();
        assert_eq!(once.len(), item.mend.len(), "{}: {:?}", item.title, item.mend);
    }
}

#[test]
fn a_machine_as_wanted_has_nothing_off() {
    let report = stage().report();
    assert!(report.is_ok(), "{}", report.text());
    let ingredients: Vec<u8> = report
        .items
        .iter()
        .filter_map(|item| match item.origin {
            Origin::Ingredient(number) => Some(number),
            Origin::Adq => None,
        })
        .collect();
    assert_eq!(ingredients, (1..=10).collect::<Vec<_>>());
    assert_eq!(report.items.len(), 30);
    let not_here: Vec<&str> =
        report.items.iter().filter(|it| it.verdict == NotHere).map(|it| it.title).collect();
    assert_eq!(not_here, ["ARP answered by the card that is asked for"], "with one card");
    assert!(report.text().ends_with("\n29 ok, 0 off, 1 not here\n"), "{}", report.text());
}

/// Without a file, and of a machine of which nothing is known, it says so and claims nothing.
#[test]
fn nothing_known_is_nothing_ok() {
    let report = check(&Facts::default(), None);
    let ok: Vec<&str> = report.items.iter().filter(|it| it.verdict == Fine).map(|it| it.title).collect();
    let daemons = ["no profile of tuned that moves processes", "irqbalance off"];
    assert_eq!(ok, daemons, "a daemon that is not there does not run");
    assert!(!report.is_ok());
    let text = report.text();
    assert!(text.contains("lanes example redis"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    serde_json::to_string(&report).unwrap();
}

#[test]
fn lanes_that_share_are_off() {
    says(|_| (), "shared nothing", Fine, "own cores");
    says(|it| it.plan = None, "shared nothing", Off, "lanes example");
    says(|it| it.lanes().push(lane("b", "0-1", "2-3")), "shared nothing", Off, "redis, b");
    says(|it| it.lanes().push(lane("b", "3", "3")), "shared nothing", Off, "redis, b");
    says(|it| it.lanes().push(lane("b", "0-1", "3")), "shared nothing", Fine, "");
    says(
        |it| {
            let other = Placed { nic: Some("ens2".to_owned()), ..lane("b", "2-3", "3") };
            it.lanes().push(other);
        },
        "shared nothing",
        Fine,
        "",
    );
    says(|it| it.lanes()[0].cores = Cpus::default(), "shared nothing", Off, "have none");
}

#[test]
fn memory_that_may_be_swapped_is_off() {
    let swappiness = |value: &str| {
        let value = value.to_owned();
        move |it: &mut Stage| drop(it.facts.sysctls.insert("vm.swappiness".to_owned(), value))
    };
    says(swappiness("0"), "working set", Fine, "");
    says(swappiness("2"), "working set", Off, "sysctl -w vm.swappiness=1");
    says(|it| it.facts.sysctls.clear(), "working set", NotHere, "not read");
}

#[test]
fn a_servers_own_affairs_are_told_of_known_servers_alone() {
    for title in ["look-ups dead simple", "epoll, one loop", "no garbage collector"] {
        says(|_| (), title, Fine, "redis-server");
        says(|it| it.facts.processes[0].name = "mine".to_owned(), title, NotHere, "server's own affair");
        says(|it| it.facts.processes[0].listens[0].port = 80, title, NotHere, "no known one");
    }
    says(|it| it.facts.processes[0].name = "java".to_owned(), "no garbage", Off, "lane redis: java");
    says(|it| it.facts.processes[0].name = "java".to_owned(), "look-ups", NotHere, "");
    // A process that the plan moves is the lane's, whatever it listens at.
    says(
        |it| {
            it.facts.processes[0].listens.clear();
            let knob = "process/812@1/812/affinity".parse().unwrap();
            let (have, want) = (None, Some(Setting::new("2")));
            let why = "lane redis: its core".to_owned();
            it.plan.as_mut().unwrap().steps =
                vec![Step { knob, have, want, why, risks: vec![], disturbs: vec![] }];
        },
        "look-ups",
        Fine,
        "redis-server",
    );
}

#[test]
fn connections_over_several_cores_are_off() {
    let spread = |cores: &'static str| {
        move |it: &mut Stage| {
            it.lanes()[0].mode = Mode::Spread;
            it.lanes()[0].cores = cpus(cores);
        }
    };
    says(spread("2"), "data isolated", Fine, "");
    says(spread("2-3"), "data isolated", Off, "one-queue-per-port");
    says(|it| it.plan = None, "data isolated", Off, "lanes example");
}

#[test]
fn an_old_kernel_is_off() {
    for title in ["modern kernel", "kernel 4.19"] {
        for (release, verdict) in
            [("4.19.0", Fine), ("5.4", Fine), ("4.18.20", Off), ("3.10.0-1160", Off), ("odd", NotHere)]
        {
            says(|it| it.facts.kernel = release.to_owned(), title, verdict, release);
        }
    }
    says(|it| it.facts.kernel = "4.11.1".to_owned(), "NAPI id", NotHere, "4.12 has");
}

#[test]
fn threads_that_roam_are_off() {
    let roam = |list: &'static str| move |it: &mut Stage| it.facts.processes[0].threads[0].cpus = cpus(list);
    says(roam("0-7"), "one pinned thread", Off, "outside the cores 2 of lane redis");
    says(roam("2"), "one pinned thread", Fine, "");
    says(|it| it.facts.processes.clear(), "one pinned thread", NotHere, "no process");
    says(|it| it.plan = None, "one pinned thread", Off, "scheduler");
    says(roam("0-7"), "processes on one memory node", Off, "migratepages 812 all 0");
    says(roam("0-7"), "processes on one memory node", Off, "taskset -a -p -c 2 812");
    says(roam("0-7"), "one pinned thread", Off, "taskset -a -p -c 2 812");
    let wide = |it: &mut Stage| {
        roam("0-7")(it);
        it.lanes()[0].cores = cpus("2,5");
    };
    says(wide, "processes on one memory node", Off, "`cores` of one node for lane `redis`");
    says(roam("0-3"), "processes on one memory node", Fine, "");
    says(|it| it.facts.processes.clear(), "processes on one memory node", NotHere, "no process");
    says(|it| it.facts.cpus.truncate(4), "processes on one memory node", NotHere, "one memory node");
}

#[test]
fn interrupts_on_one_cpu_are_off() {
    let all = |list: &'static str| {
        move |it: &mut Stage| {
            let queues = it.nic().queues.iter_mut();
            queues.for_each(|queue| {
                (queue.irq_effective, queue.irq_cpus) = (Some(cpus(list)), Some(cpus(list)));
            });
        }
    };
    says(all("1"), "interrupts spread", Off, "all 4 queues interrupt one cpu");
    says(|_| (), "interrupts spread", Fine, "4 queues interrupt 4 cpus");
    says(|it| it.nic().queues.truncate(1), "interrupts spread", Fine, "one queue");
    says(|it| it.nic().queues.clear(), "interrupts spread", NotHere, "");
    says(|it| it.nic().queues.clear(), "interrupts affinitized", NotHere, "");
    says(all("0-7"), "interrupts affinitized", Off, "4 of 4");
    says(all("0-7"), "interrupts affinitized", Off, "expresslane lanes apply redis.toml");
    let without_lanes = |it: &mut Stage| {
        all("0-7")(it);
        it.plan = None;
        (60..).zip(&mut it.nic().queues).for_each(|(irq, queue)| queue.irq = Some(irq));
        it.facts.cpus.retain(|cpu| cpu.id != 2);
    };
    let by_hand =
        "for it in 60:0 61:1 62:3 63:0; do echo ${it#*:} > /proc/irq/${it%:*}/smp_affinity_list; done";
    says(without_lanes, "interrupts affinitized", Off, by_hand);
    says(without_lanes, "interrupts spread", Off, by_hand);
    says(|_| (), "interrupts affinitized", Fine, "one cpu");
    says(|it| it.facts.daemons[0].running = true, "irqbalance", Off, "systemctl disable --now irqbalance");
    let unmanaged =
        |it: &mut Stage| (it.facts.daemons[0].running, it.facts.daemons[0].manageable) = (true, false);
    says(unmanaged, "irqbalance", Off, "by what started it");
    says(|it| it.facts.daemons.clear(), "irqbalance", Fine, "");
}

#[test]
fn a_lane_on_the_other_socket_is_off() {
    says(|_| (), "a socket's card", Fine, "its card's");
    says(|it| it.lanes()[0].cores = cpus("5"), "a socket's card", Off, "redis");
    says(|it| it.lanes()[0].cores = cpus("3-4"), "a socket's card", Off, "redis");
    says(|it| it.facts.cpus.truncate(4), "a socket's card", NotHere, "one memory node");
    says(|it| it.plan = None, "a socket's card", Off, "2 memory nodes");
}

#[test]
fn settings_of_the_machine_are_judged() {
    let set = |name: &'static str, value: &'static str| {
        move |it: &mut Stage| drop(it.facts.sysctls.insert(name.to_owned(), value.to_owned()))
    };
    says(set("net.core.busy_poll", "0"), "busy polling", Off, "sysctl -w net.core.busy_poll=50");
    says(set("net.core.busy_poll", "10"), "busy polling", Fine, "10 us");
    says(|it| it.facts.sysctls.clear(), "busy polling", NotHere, "net.core.busy_poll is not seen");
    says(set("kernel.numa_balancing", "1"), "no automatic", Off, "numa_balancing=0");
    says(|it| it.facts.sysctls.clear(), "no automatic", NotHere, "");
}

#[test]
fn arp_matters_with_two_cards() {
    let two = |announce: &'static str| {
        move |it: &mut Stage| {
            it.plan = None;
            let second = Nic { name: "vlan0.5".to_owned(), up: true, ..Nic::default() };
            it.facts.nics.push(second);
            for name in ["ens1", "vlan0.5"] {
                let [first, second] = card_sysctls(name);
                it.facts.sysctls.extend([(first, announce.to_owned()), (second, "1".to_owned())]);
            }
        }
    };
    says(two("2"), "ARP", Fine, "ens1, vlan0.5: arp_announce 2");
    says(two("0"), "ARP", Off, "net.ipv4.conf.vlan0/5.arp_announce=2");
}

#[test]
fn cards_are_judged() {
    says(|it| it.nic().coalesce = None, "interrupt moderation", NotHere, "");
    let adaptive = |it: &mut Stage| it.nic().coalesce = Some("adaptive-rx on rx-usecs 8".to_owned());
    says(adaptive, "interrupt moderation", Off, "ethtool -C ens1 adaptive-rx off");
    let root = |text: &'static str| move |it: &mut Stage| it.nic().root_qdisc = Some(text.to_owned());
    says(root("mq"), "sets of queues", Off, "the root qdisc is mq expresslane lanes apply redis.toml");
    let otherwise = |it: &mut Stage| {
        root("mq")(it);
        it.lanes()[0].backend = crate::spec::BackendWish::Soft;
    };
    says(otherwise, "sets of queues", Off, "`backend = \"tc-channel\"` for ens1");
    says(root("mqprio num_tc 2 hw 1 mode dcb"), "sets of queues", Off, "");
    says(|_| (), "sets of queues", Fine, "2 classes");
    says(|it| it.nic().driver = "ena".to_owned(), "sets of queues", NotHere, "ena");
    says(root("mq"), "rate limits", Off, "rate-max");
    says(root("tbf rate 1Gbit burst 128Kb"), "rate limits", Fine, "");
    says(
        |it| {
            it.nic().root_qdisc = Some("htb default 10".to_owned());
            it.nic().below_root = [("class/e7:10".to_owned(), "parent e7: htb rate 1Gbit".to_owned())].into();
        },
        "rate limits",
        Fine,
        "",
    );
    says(root("mq"), "replies in their class", NotHere, "no classes");
    says(|it| it.nic().filters.truncate(1), "replies in their class", Off, "SO_PRIORITY");
    says(|_| (), "replies in their class", Fine, "1 filters");
}

#[test]
fn filters_and_features_are_judged() {
    says(|_| (), "filters in hardware", Fine, "1 filters");
    says(|it| it.nic().filters[0].in_hw = false, "filters in hardware", Off, "not in hardware");
    says(|it| it.nic().filters.clear(), "filters in hardware", Off, "no filter");
    says(|it| it.nic().features.clear(), "filters in hardware", NotHere, "ice");
    for (title, name) in [("one rule a port", "rx-ntuple-filter"), ("offload of filters", "hw-tc-offload")] {
        let set = |on, fixed| {
            move |it: &mut Stage| _ = it.nic().features.insert(name.to_owned(), Feature { on, fixed })
        };
        says(set(true, false), title, Fine, "on");
        says(set(true, true), title, Fine, "on");
        says(set(false, false), title, Off, &format!("ethtool -K ens1 {name} on"));
        says(set(false, true), title, NotHere, "");
        says(|it| it.nic().features.clear(), title, NotHere, "");
    }
    says(|_| (), "symmetric queues", Fine, "");
    says(|it| it.nic().queues[1].xps_rxqs = Some(cpus("0")), "symmetric queues", Off, "3 of 4 queues");
    says(|it| it.nic().queues[1].xps_rxqs = Some(cpus("0-1")), "symmetric queues", Off, "3 of 4 queues");
    let by_hand = "for it in 1:2; do echo ${it#*:} > /sys/class/net/ens1/queues/tx-${it%:*}/xps_rxqs; done";
    says(|it| it.nic().queues[1].xps_rxqs = Some(cpus("0-1")), "symmetric queues", Off, by_hand);
    says(|it| it.nic().queues.iter_mut().for_each(|it| it.xps_rxqs = None), "symmetric queues", NotHere, "");
    let lldp = |on| move |it: &mut Stage| _ = it.nic().private_flags.insert("fw-lldp-agent".to_owned(), on);
    says(lldp(true), "the card's own LLDP", Off, "ethtool --set-priv-flags ens1 fw-lldp-agent off");
    says(lldp(false), "the card's own LLDP", Fine, "off");
    let i40e =
        |on| move |it: &mut Stage| it.nic().private_flags = [("disable-fw-lldp".to_owned(), on)].into();
    says(i40e(false), "the card's own LLDP", Off, "ethtool --set-priv-flags ens1 disable-fw-lldp on");
    says(i40e(true), "the card's own LLDP", Fine, "off");
    says(|it| it.nic().private_flags.clear(), "the card's own LLDP", NotHere, "");
    let ties = "nothing that ties";
    says(|_| (), ties, Fine, "nothing");
    says(|it| it.nic().hindrances = vec!["irdma".to_owned()], ties, Off, "rmmod irdma");
    says(
        |it| it.nic().master = Some("bond0".to_owned()),
        ties,
        Off,
        "part of bond0 ip link set dev ens1 nomaster",
    );
    says(|it| it.nic().xdp = true, ties, Off, "an XDP program ip link set dev ens1 xdp off");
    let switch = |it: &mut Stage| {
        (it.nic().hindrances, it.nic().bus) = (vec!["switchdev".to_owned()], Some("0000:17:00.0".to_owned()));
    };
    says(switch, ties, Off, "devlink dev eswitch set pci/0000:17:00.0 mode legacy");
    says(|it| it.nic().hindrances = vec!["safe-mode".to_owned()], ties, Off, "DDP package");
}

#[test]
fn who_sets_cards_again_is_judged() {
    let item = "no daemon that sets it again";
    let by = |daemon: &'static str| move |it: &mut Stage| it.nic().managers = vec![daemon.to_owned()];
    says(|_| (), item, Fine, "none manages it");
    says(by("NetworkManager"), item, Off, "nmcli device set ens1 managed no printf");
    says(by("systemd-networkd"), item, Off, "systemctl restart systemd-networkd");
    let tuned = |profile: Option<&'static str>| {
        move |it: &mut Stage| {
            let profile = profile.map(str::to_owned);
            it.facts.daemons.push(Daemon {
                name: "tuned".to_owned(),
                running: true,
                manageable: true,
                profile,
            });
        }
    };
    let item = "no profile of tuned";
    says(|_| (), item, Fine, "does not run");
    says(tuned(Some("throughput-performance")), item, Fine, "throughput-performance");
    says(tuned(None), item, Fine, "not known");
    says(tuned(Some("cpu-partitioning")), item, Off, "tuned-adm profile network-latency");
}

/// A shell takes each as it is printed, over as many lines as it needs.
#[test]
fn commands_are_copied_and_pasted() {
    let mut stage = stage();
    stage.plan = None;
    for (irq, queue) in (60..).zip(&mut stage.nic().queues) {
        (queue.irq, queue.irq_cpus) = (Some(irq), Some(cpus("0-7")));
        queue.xps_rxqs = Some(cpus(""));
    }
    stage.nic().managers = ["NetworkManager", "systemd-networkd"].map(str::to_owned).into();
    stage.nic().coalesce = Some("adaptive-rx on rx-usecs 50 adaptive-tx on tx-usecs 50".to_owned());
    let text = stage.report().text();
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        match (goes_on, line.trim_start().strip_prefix("$ ")) {
            (false, Some(command)) => commands.push(command.to_owned()),
            (true, _) => *commands.last_mut().unwrap() += &format!("\n{line}"),
            (false, None) => {}
        }
        goes_on = (goes_on || line.contains("$ ")) && line.ends_with('\\');
    }
    assert!(commands.len() >= 8 && commands.iter().any(|it| it.contains('\n')), "{text}");
    for command in &commands {
        let output = std::process::Command::new("sh").args(["-n", "-c", command]).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let joined: Vec<String> = commands
        .iter()
        .map(|it| it.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in stage.report().items.iter().flat_map(|item| &item.mend) {
        assert!(joined.contains(line), "{line} is not printed whole:\n{text}");
    }
}

#[test]
fn a_files_name_is_one_word() {
    let check = |file: &str, want: &str| assert_eq!(quoted(file), want);
    check("redis.toml", "redis.toml");
    check("/etc/my lanes.toml", "'/etc/my lanes.toml'");
    check("it's", "'it'\\''s'");
}

#[test]
fn napi_ids_are_judged() {
    let none = |driver: &'static str| {
        move |it: &mut Stage| {
            it.nic().driver = driver.to_owned();
            it.nic().queues.iter_mut().for_each(|queue| queue.napi = None);
        }
    };
    says(|_| (), "NAPI id", Fine, "");
    says(none("veth"), "NAPI id", Off, "gro on");
    says(none("e1000"), "NAPI id", NotHere, "no ids");
}

/// The lanes' cards are judged, else those that are up; loopback and what is down never.
#[test]
fn the_right_cards_are_judged() {
    let second =
        |name: &str, up| Nic { name: name.to_owned(), driver: "veth".to_owned(), up, ..Nic::default() };
    let add = |name: &'static str, up: bool| move |it: &mut Stage| it.facts.nics.push(second(name, up));
    says(add("ens2", true), "NAPI id", Fine, "ens1:");
    let without_file = |name: &'static str, up: bool| {
        move |it: &mut Stage| {
            it.plan = None;
            it.facts.nics.push(second(name, up));
        }
    };
    says(without_file("ens2", true), "NAPI id", Off, "ens2:");
    says(without_file("ens2", false), "NAPI id", Fine, "ens1:");
    says(without_file("lo", true), "NAPI id", Fine, "ens1:");
}
