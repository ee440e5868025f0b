//! A card's own knobs: files, queues, features, and the NAPI instances behind its queues.

use std::net::UdpSocket;

use host::Kernel;
use host::facts::probe;
use host::kernel::Cause;
use host::kernel::live::Live;

use crate::namespaces::{self, ip, napi_of};
use crate::{ADDRESS, PEER_ADDRESS, WITHIN, knob, read, refused, round_trip, within, write};

#[test]
fn files_come_back_as_they_were() {
    within("cards::files_come_back_as_they_were", |live| {
        round_trip(live, "sysctl/net.ipv4.conf.va.arp_ignore", "1");
        round_trip(live, "sysctl/net.ipv4.conf.va.arp_announce", "2");
        round_trip(live, "sysctl/net.ipv4.ip_local_port_range", "20000 30000");
        round_trip(live, "nic/va/rx/3/rps_cpus", "0-1");
        round_trip(live, "nic/va/rx/0/rps_flow_cnt", "1024");
        round_trip(live, "nic/va/napi/defer-hard-irqs", "2");
        round_trip(live, "nic/va/napi/gro-flush-timeout", "50000");
        round_trip(live, "nic/va/tx/2/xps_cpus", "1");
        round_trip(live, "nic/va/tx/2/xps_rxqs", "0,3");
        assert_eq!(read(live, "nic/va/rx/3/rps_cpus").as_deref(), Some(""), "none is empty");
        let (cause, reason) = refused(live, "nic/va/rx/4/rps_cpus", Some("0"));
        assert!(cause == Cause::Gone && reason.contains("no such queue"), "{reason}");
        let (cause, reason) = refused(live, "sysctl/net.ipv4.conf.none.arp_ignore", Some("0"));
        assert!(
            cause == Cause::Gone && reason.contains("sysctl/net.ipv4.conf.none.arp_ignore = 0"),
            "{reason}"
        );
        let (cause, reason) = refused(live, "nic/va/rx/0/rps_cpus", None);
        assert!(cause == Cause::Invalid && reason.contains("taken away"), "{reason}");
        let (cause, _) = refused(live, "nic/va/rx/0/rps_flow_cnt", Some("many"));
        assert_eq!(cause, Cause::Invalid);
    });
}

#[test]
fn a_card_comes_back_as_it_was() {
    within("cards::a_card_comes_back_as_it_was", |live| {
        round_trip(live, "nic/va/channels", "rx 2 tx 2");
        round_trip(live, "nic/va/feature/rx-gro", "on");
        round_trip(live, "nic/va/feature/tx-tcp-segmentation", "off");
        let (cause, reason) = refused(live, "nic/va/channels", Some("rx 64"));
        assert!(cause == Cause::Invalid && reason.contains("the kernel says"), "{reason}");
        let (cause, reason) = refused(live, "nic/va/channels", Some("many 4"));
        assert!(cause == Cause::Invalid && reason.contains("'many 4'"), "{reason}");
        let (cause, reason) = refused(live, "nic/va/feature/none-such", Some("on"));
        assert!(matches!(cause, Cause::Unsupported | Cause::Invalid), "{reason}");
    });
}

#[test]
fn a_napi_is_found_by_its_queue_and_comes_back() {
    within("cards::a_napi_is_found_by_its_queue_and_comes_back", |live| {
        let settings = ["defer-hard-irqs", "gro-flush-timeout", "irq-suspend-timeout"];
        let (cause, reason) = refused(live, "nic/va/queue/1/napi/defer-hard-irqs", Some("5"));
        assert!(cause == Cause::Gone && reason.contains("GRO"), "without GRO this card has none: {reason}");
        write(live, "nic/va/feature/rx-gro", Some("on"));
        for (setting, value) in settings.iter().zip(["5", "20000", "1000000"]) {
            round_trip(live, &format!("nic/va/queue/1/napi/{setting}"), value);
        }
        write(live, "nic/va/queue/2/napi/defer-hard-irqs", Some("7"));
        for (queue, want) in [(0, "0"), (1, "0"), (2, "7"), (3, "0")] {
            let path = format!("nic/va/queue/{queue}/napi/defer-hard-irqs");
            assert_eq!(read(live, &path).as_deref(), Some(want), "{path}");
        }
        assert_eq!(read(live, "nic/va/queue/1/napi-thread"), None, "no thread polls it yet");
        round_trip(live, "nic/va/threaded", "1");
        write(live, "nic/va/threaded", Some("1"));
        round_trip(live, "nic/va/queue/1/napi-thread", "cpus 1 fifo 10");
        round_trip(live, "nic/va/queue/3/napi-thread", "cpus 0 rr 3");
        let (cause, reason) = refused(live, "nic/va/queue/1/napi-thread", Some("cpus 4096 other"));
        assert_eq!(cause, Cause::Invalid, "{reason}");
        assert_eq!(refused(live, "nic/va/queue/1/napi/none", Some("1")).0, Cause::Invalid);
        assert_eq!(refused(live, "nic/va/queue/4/napi/defer-hard-irqs", Some("1")).0, Cause::Gone);
        write(live, "nic/va/threaded", Some("0"));
    });
}

#[test]
fn what_a_card_has_not_is_said() {
    within("cards::what_a_card_has_not_is_said", |live| {
        for (path, text) in [
            ("nic/va/rings", "rx 1024 tx 1024"),
            ("nic/va/coalesce", "adaptive-rx off rx-usecs 50"),
            ("nic/va/queue/1/coalesce", "rx-usecs 50"),
            ("nic/va/indirection", "equal 2"),
            ("nic/va/rss-context/2-3", "equal 2"),
            ("nic/va/ntuple/7", "flow-type tcp4 dst-port 6379 action 2"),
            ("nic/va/flag/fw-lldp-agent", "off"),
            ("nic/va/devlink/tc1_inline_fd", "true"),
            ("nic/va/queue/1/irq", "1"),
        ] {
            let (cause, reason) = refused(live, path, Some(text));
            assert_eq!(cause, Cause::Unsupported, "{reason}");
            assert!(reason.starts_with(&format!("{path} = {text}: ")), "{reason}");
            let refusal = live.read(&knob(path)).expect_err(path);
            assert_eq!(refusal.cause, Cause::Unsupported, "{refusal}");
        }
    });
}

/// A driver that knows other words of moderation: it is named what it lacks before it is asked, for the kernel says only that
/// something is unsupported. `tun` knows counts of frames alone (`tun_ethtool_ops`).
#[test]
fn a_moderation_that_a_driver_knows_nothing_of_is_refused_before_it_is_asked() {
    within("cards::a_moderation_that_a_driver_knows_nothing_of_is_refused_before_it_is_asked", |live| {
        if let Err(problem) = ip("tuntap add mode tap name vt") {
            return eprintln!("not tried: this kernel has no tap: {problem}");
        }
        assert_eq!(read(live, "nic/vt/coalesce").as_deref(), Some(""));
        let (cause, reason) = refused(live, "nic/vt/coalesce", Some("adaptive-rx off rx-usecs 50"));
        assert_eq!(cause, Cause::Unsupported, "{reason}");
        let want = "the driver of vt has no adaptive-rx and no rx-usecs: it has none of them";
        assert!(reason.contains(want), "{reason}");
    });
}

#[test]
fn a_card_that_vanishes_is_gone_and_odd_names_are_names() {
    within("cards::a_card_that_vanishes_is_gone_and_odd_names_are_names", |live| {
        let odd = "x@+1.é";
        ip(&format!("link add {odd} numtxqueues 4 numrxqueues 4 type veth peer name y")).unwrap();
        round_trip(live, &format!("nic/{odd}/rx/0/rps_cpus"), "0");
        round_trip(live, &format!("nic/{odd}/feature/rx-gro"), "on");
        round_trip(live, &format!("nic/{odd}/qdisc/root"), "htb default 10");
        // A dot in an interface's name is a slash in that of a sysctl.
        round_trip(live, "sysctl/net.ipv4.conf.x@+1/é.arp_ignore", "1");
        ip(&format!("link del {odd}")).unwrap();
        for knob in [
            "rx/0/rps_cpus",
            "feature/rx-gro",
            "qdisc/root",
            "channels",
            "queue/0/napi/defer-hard-irqs",
            "ntuple/1",
        ] {
            let (cause, reason) = refused(live, &format!("nic/{odd}/{knob}"), Some("1"));
            assert!(cause == Cause::Gone && reason.contains(odd), "{reason}");
        }
        for name in ["..", "a b", "a-name-with-more-than-15"] {
            let refusal = live.read(&knob(&format!("nic/{name}/threaded"))).expect_err(name);
            assert_eq!(refusal.cause, Cause::Gone, "{refusal}");
        }
    });
}

/// Does something in the other namespace: netlink and sockets are of that, files of /sys are not.
#[expect(clippy::disallowed_methods, reason = "the second run of this binary is told where it is")]
fn at_peer<T: Send>(body: impl FnOnce(&mut Live) -> T + Send) -> T {
    namespaces::within(&std::env::var(WITHIN).unwrap(), || body(&mut Live::new()))
}

#[test]
fn a_queues_napi_is_the_one_that_polls_what_arrives_there() {
    within("cards::a_queues_napi_is_the_one_that_polls_what_arrives_there", |live| {
        write(live, "nic/va/feature/rx-gro", Some("on"));
        at_peer(|live| {
            // veth polls only what a peer without segmentation sends.
            for kind in ["tcp", "tcp-ecn", "tcp-mangleid", "tcp6"] {
                write(live, &format!("nic/vb/feature/tx-{kind}-segmentation"), Some("off"));
            }
            write(live, "nic/vb/qdisc/clsact", Some("clsact"));
            for queue in 0..4 {
                let text = format!("protocol ip bpf queue {queue} udp dst_port {}", 7000 + queue);
                write(live, &format!("nic/vb/filter/egress/{}", 1 + queue), Some(&text));
            }
        });
        let facts = probe::read(live, &probe::Ask::default());
        for queue in &facts.nics[0].queues {
            let port = u16::try_from(7000 + queue.index).unwrap();
            let socket = UdpSocket::bind((ADDRESS, port)).unwrap();
            at_peer(|_| UdpSocket::bind((PEER_ADDRESS, 0)).unwrap().send_to(b"x", (ADDRESS, port)).unwrap());
            socket.recv(&mut [0; 8]).unwrap();
            assert_eq!(Some(napi_of(&socket)), queue.napi, "queue {}", queue.index);
        }
    });
}
