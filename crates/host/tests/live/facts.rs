//! What is read of the machine as a whole, with rights and without.

use host::Kernel;
use host::facts::{Facts, probe};
use host::kernel::Cause;
use host::kernel::live::Live;
use host::spec::Match;

use crate::{ADDRESS, NIC, Sleeper, knob, refused, tc, thread_path, within, write};

/// Every knob of the card and of the machine that a test can meet, and some that are not there.
fn all_knobs(sleeper: &Sleeper) -> Vec<String> {
    let mut paths: Vec<String> = "channels rings feature/rx-gro feature/tx-tcp-segmentation feature/hw-tc-offload coalesce indirection \
        rss-context/2-3 ntuple/7 flag/x devlink/x qdisc/root qdisc/clsact class/e7:10 class/e7:20 class/e7:30 qdisc/e7:20 \
        qdisc/e7:10 filter/egress/49001 filter/egress/49002 filter/egress/7 filter/ingress/49001 threaded napi/defer-hard-irqs napi/gro-flush-timeout"
        .split_ascii_whitespace()
        .map(|knob| format!("nic/va/{knob}"))
        .collect();
    for queue in 0..5 {
        for knob in [
            "irq",
            "coalesce",
            "napi/defer-hard-irqs",
            "napi/gro-flush-timeout",
            "napi/irq-suspend-timeout",
            "napi/threaded",
            "napi-thread",
        ] {
            paths.push(format!("nic/va/queue/{queue}/{knob}"));
        }
        for knob in ["rx/N/rps_cpus", "rx/N/rps_flow_cnt", "tx/N/xps_cpus", "tx/N/xps_rxqs"] {
            paths.push(format!("nic/va/{}", knob.replace('N', &queue.to_string())));
        }
    }
    paths.extend(probe::SYSCTLS.iter().map(|name| format!("sysctl/{name}")));
    paths.extend(["0", "4095"].map(|cpu| format!("cpu/{cpu}/resume-latency-us")));
    paths.extend(["affinity", "nice", "scheduler"].map(|what| sleeper.path(what)));
    for path in "sysctl/net.ipv4.conf.va.arp_ignore sysctl/net.ipv4.conf.va.rp_filter service/irqbalance rule/inet/49001 rule/inet6/49001 \
        rule/inet/49002 route/inet/49001/default route/inet/49001/10.9.0.0/16 route/inet6/49001/default nic/none/threaded"
        .split_ascii_whitespace()
    {
        paths.push(path.to_owned());
    }
    paths
}

/// Facts and kernel say the same of every knob; how many have a value.
fn same(live: &mut Live, sleeper: &Sleeper) -> (Facts, usize) {
    let process = Match { pid: Some(sleeper.0.id()), name: Some("sleep".to_owned()), ..Match::default() };
    let facts = probe::read(live, &probe::Ask { processes: vec![process], sysctls: Vec::new() });
    assert_eq!(facts.missing, Vec::<String>::new());
    let mut count = 0;
    for path in all_knobs(sleeper) {
        let (have, read) = (facts.have(&knob(&path)), live.read(&knob(&path)));
        count += usize::from(matches!(read, Ok(Some(_))));
        assert_eq!(have.clone().ok().flatten(), read.clone().ok().flatten(), "{path}: {have:?} {read:?}");
    }
    let text = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts, "facts are kept as they are");
    (facts, count)
}

#[test]
fn facts_say_what_the_kernel_says() {
    within("facts::facts_say_what_the_kernel_says", |live| {
        let sleeper = Sleeper::start();
        let (facts, bare) = same(live, &sleeper);
        let nic = &facts.nics[0];
        assert_eq!(
            (nic.name.as_str(), nic.driver.as_str(), nic.up, nic.bus.as_deref()),
            (NIC, "veth", true, None)
        );
        assert_eq!(nic.queues.len(), 4);
        assert!(nic.addresses.contains(&format!("{ADDRESS}/24")), "{:?}", nic.addresses);
        assert!(facts.capabilities.contains(&"net_admin".to_owned()) && !facts.cpus.is_empty());
        assert_eq!(facts.processes.iter().map(|it| it.pid).collect::<Vec<_>>(), [sleeper.0.id()]);

        for (path, text) in [
            ("nic/va/channels", "rx 4 tx 3"),
            ("nic/va/feature/rx-gro", "on"),
            ("nic/va/threaded", "1"),
            ("nic/va/queue/2/napi-thread", "cpus 0 fifo 7"),
            ("nic/va/queue/3/napi/gro-flush-timeout", "20000"),
            ("nic/va/rx/1/rps_cpus", "0"),
            ("nic/va/tx/1/xps_rxqs", "1-2"),
            ("nic/va/qdisc/root", "htb default 10"),
            ("nic/va/class/e7:10", "parent e7: htb rate 1Gbit ceil 1Gbit"),
            ("nic/va/class/e7:20", "parent e7: htb rate 1Gbit ceil 2Gbit prio 1"),
            ("nic/va/qdisc/e7:20", "tbf rate 1Gbit burst 128Kb latency 50ms"),
            ("nic/va/qdisc/clsact", "clsact"),
            ("nic/va/filter/egress/49001", "protocol all bpf queue 1 priority e7:20 tcp src_port 6379"),
            ("nic/va/filter/ingress/49001", "protocol ip bpf queue 1 udp dst_port 53"),
            ("sysctl/net.ipv4.conf.va.arp_ignore", "1"),
            ("rule/inet/49001", "from 198.18.0.1 lookup 49001"),
            ("route/inet/49001/default", "via 198.18.0.2 dev va"),
        ] {
            write(live, path, Some(text));
        }
        write(live, &sleeper.path("scheduler"), Some("rr 2"));
        tc("filter add dev va egress protocol ip pref 7 u32 match ip dport 1 0xffff classid 1:1");
        let (facts, full) = same(live, &sleeper);
        assert!(full > bare + 10, "{bare} {full}");
        assert!(facts.nics[0].queues.iter().all(|queue| queue.napi.is_some() && queue.napi_thread.is_some()));
    });
}

#[test]
fn without_rights_facts_are_read_and_changes_are_refused_by_the_capability_they_take() {
    within(
        "facts::without_rights_facts_are_read_and_changes_are_refused_by_the_capability_they_take",
        |live| {
            let nice = thread_path(std::process::id(), "nice");
            write(live, "nic/va/feature/rx-gro", Some("on"));
            // SAFETY: no memory is passed. This process is this test's own; it ends as a nobody.
            assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
            for (path, text, capability) in [
                ("nic/va/channels", "rx 2 tx 2", "net_admin"),
                ("nic/va/feature/rx-gro", "off", "net_admin"),
                ("nic/va/qdisc/root", "htb default 10", "net_admin"),
                ("nic/va/qdisc/clsact", "clsact", "net_admin"),
                ("nic/va/queue/1/napi/defer-hard-irqs", "5", "net_admin"),
                ("nic/va/rx/0/rps_cpus", "0", "net_admin"),
                ("nic/va/filter/egress/1", "protocol all bpf queue 1 tcp src_port 1", "CAP_BPF"),
                ("rule/inet/49001", "from 198.18.0.1 lookup 49001", "net_admin"),
                ("route/inet/49001/default", "via 198.18.0.2 dev va", "net_admin"),
                ("sysctl/net.ipv4.ip_forward", "1", "net_admin"),
                ("sysctl/vm.stat_interval", "7", "sys_admin"),
                (&nice, "-5", "sys_nice"),
            ] {
                let (cause, reason) = refused(live, path, Some(text));
                assert_eq!(cause, Cause::Forbidden, "{reason}");
                assert!(reason.contains(capability), "{reason}");
            }
            let facts = probe::read(live, &probe::Ask::default());
            assert_eq!(facts.capabilities, Vec::<String>::new());
            let nic = &facts.nics[0];
            assert!(nic.channels.is_some() && nic.root_qdisc.is_some());
            let is_fixed = |name: &str| nic.features[name].fixed;
            assert!(is_fixed("hw-tc-offload") && !is_fixed("rx-gro"), "{:?}", nic.features);
            assert!(
                nic.queues.iter().all(|queue| queue.napi.is_some() && queue.rps_cpus.is_some()),
                "{nic:?}"
            );
            assert!(host::facts::drawing::drawing(&facts, &[]).contains("no net_admin"));
        },
    );
}
