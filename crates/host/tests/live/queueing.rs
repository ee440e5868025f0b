//! What stands before a card's queues: qdiscs, classes, filters, and programs that choose.

use std::net::UdpSocket;

use host::kernel::Cause;
use host::{Kernel, Setting};

use crate::{ADDRESS, PEER_ADDRESS, knob, read, refused, round_trip, tc, within, write};

#[test]
fn queueing_comes_back_as_it_was() {
    within("queueing::queueing_comes_back_as_it_was", |live| {
        let before = read(live, "nic/va/qdisc/root");
        round_trip(live, "nic/va/qdisc/root", "htb default 10");
        round_trip(live, "nic/va/qdisc/root", "tbf rate 1Gbit burst 128Kb latency 50ms");
        round_trip(live, "nic/va/qdisc/root", "pfifo limit 77");
        round_trip(live, "nic/va/qdisc/root", "handle 1: htb default 20");

        write(live, "nic/va/qdisc/root", Some("htb default 10"));
        round_trip(live, "nic/va/class/e7:10", "parent e7: htb rate 1Gbit ceil 1Gbit");
        write(live, "nic/va/class/e7:10", Some("parent e7: htb rate 100Mbit ceil 1Gbit"));
        write(live, "nic/va/class/e7:11", Some("parent e7:10 htb rate 50Mbit ceil 60Gbit burst 128Kb"));
        assert_eq!(
            read(live, "nic/va/class/e7:11").unwrap(),
            "parent e7:10 htb rate 50Mbit ceil 60Gbit burst 128Kb"
        );
        write(
            live,
            "nic/va/class/e7:11",
            Some("parent e7:10 htb rate 50Mbit ceil 60Gbit burst 128Kb prio 3"),
        );
        assert!(read(live, "nic/va/class/e7:11").unwrap().ends_with(" prio 3"));
        // Another rate of a class that is there.
        write(live, "nic/va/class/e7:10", Some("parent e7: htb rate 200Mbit ceil 2500Mbit"));
        assert_eq!(read(live, "nic/va/class/e7:10").unwrap(), "parent e7: htb rate 200Mbit ceil 2500Mbit");
        round_trip(live, "nic/va/qdisc/e7:11", "tbf rate 500Mbit burst 64Kb latency 20ms");
        round_trip(live, "nic/va/qdisc/e7:11", "pfifo limit 50");
        let (cause, reason) = refused(live, "nic/va/qdisc/1:1", Some("pfifo limit 50"));
        assert!(cause == Cause::Gone && reason.contains("root first"), "{reason}");
        let (cause, reason) =
            refused(live, "nic/va/class/e7:12", Some("parent e7:99 htb rate 1Gbit ceil 1Gbit"));
        assert!(cause == Cause::Gone && reason.contains("no class e7:99"), "{reason}");
        // The root goes with all that hangs below it.
        write(live, "nic/va/qdisc/root", before.as_deref());
        assert_eq!(
            (read(live, "nic/va/qdisc/root"), read(live, "nic/va/class/e7:10")),
            (before.clone(), None)
        );
        write(live, "nic/va/qdisc/root", None);
        assert_eq!(read(live, "nic/va/qdisc/root"), before, "the kernel's own");

        write(live, "nic/va/qdisc/root", Some("handle e7: mq"));
        round_trip(live, "nic/va/qdisc/e7:2", "tbf rate 1Gbit burst 128Kb latency 50ms");
        write(live, "nic/va/qdisc/root", before.as_deref());

        round_trip(live, "nic/va/qdisc/clsact", "clsact");
        round_trip(live, "nic/va/qdisc/clsact", "ingress");
        for (text, module) in [("mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 0", "mqprio"), ("fq", "fq")] {
            // Kernels that have the module do it instead.
            match live.write(&knob("nic/va/qdisc/root"), Some(&Setting::new(text))) {
                Ok(()) => assert_eq!(read(live, "nic/va/qdisc/root").as_deref(), Some(text)),
                Err(refusal) => {
                    assert_eq!(refusal.cause, Cause::Unsupported, "{refusal}");
                    assert!(refusal.reason.contains(module), "{refusal}");
                }
            }
            write(live, "nic/va/qdisc/root", before.as_deref());
        }
        assert_eq!(read(live, "nic/va/qdisc/root"), before);
    });
}

#[test]
fn a_root_of_someone_else_comes_back() {
    within("queueing::a_root_of_someone_else_comes_back", |live| {
        tc("qdisc add dev va root handle 5: htb default 30 r2q 50");
        let before = read(live, "nic/va/qdisc/root");
        assert_eq!(before.as_deref(), Some("handle 5: htb default 30 r2q 50"));
        write(live, "nic/va/qdisc/root", Some("htb default 10"));
        write(live, "nic/va/qdisc/root", before.as_deref());
        assert!(
            tc("qdisc show dev va root").starts_with("qdisc htb 5: root"),
            "{}",
            tc("qdisc show dev va root")
        );
        // tc counts a bucket in whole microseconds, so that it holds less than was said.
        tc("class add dev va parent 5: classid 5:30 htb rate 1Gbit burst 15k");
        let before = read(live, "nic/va/class/5:30");
        assert_eq!(before.as_deref(), Some("parent 5: htb rate 1Gbit ceil 1Gbit burst 15248b cburst 1496b"));
        write(live, "nic/va/class/5:30", Some("parent 5: htb rate 2Gbit ceil 2Gbit"));
        write(live, "nic/va/class/5:30", before.as_deref());
        assert_eq!(read(live, "nic/va/class/5:30"), before);
        tc("qdisc replace dev va root tbf rate 1Gbit burst 100Kb latency 7ms");
        assert_eq!(read(live, "nic/va/qdisc/root").unwrap(), "tbf rate 1Gbit burst 100Kb latency 7ms");
    });
}

/// Sends some packets to a port of the peer.
fn send(port: u16, count: usize) {
    let socket = UdpSocket::bind((ADDRESS, 0)).unwrap();
    for _ in 0..count {
        socket.send_to(b"x", (PEER_ADDRESS, port)).unwrap();
    }
}

/// Packets that went through a qdisc or class, as `tc -s` counts.
fn packets(what: &str) -> u64 {
    let shown = tc(&format!("-s {what}"));
    let words: Vec<&str> = shown.split_ascii_whitespace().collect();
    let at = words.iter().position(|word| *word == "pkt" || *word == "pkts").expect("a count");
    words[at - 1].parse().unwrap()
}

#[test]
fn a_program_steers_what_is_sent() {
    within("queueing::a_program_steers_what_is_sent", |live| {
        write(live, "nic/va/qdisc/clsact", Some("clsact"));
        round_trip(live, "nic/va/filter/egress/49001", "protocol all bpf queue 2 tcp src_port 6379");
        round_trip(live, "nic/va/filter/ingress/1", "protocol ip bpf queue 0 udp dst_port 53");

        write(live, "nic/va/qdisc/root", Some("handle e7: mq"));
        for queue in 1..=4 {
            write(live, &format!("nic/va/qdisc/e7:{queue}"), Some("pfifo limit 1000"));
        }
        write(
            live,
            "nic/va/filter/egress/49001",
            Some("protocol all bpf queue 3 udp src_ip 198.18.0.1 dst_port 7000"),
        );
        write(live, "nic/va/filter/egress/49002", Some("protocol all bpf queue 1 udp dst_port 7001"));
        send(7000, 40);
        send(7001, 20);
        assert!(packets("qdisc show dev va parent e7:4") >= 40, "{}", tc("-s qdisc show dev va"));
        assert!(packets("qdisc show dev va parent e7:2") >= 20, "the second filter, too");

        write(live, "nic/va/qdisc/root", Some("htb default 10"));
        for class in ["e7:10", "e7:20"] {
            write(live, &format!("nic/va/class/{class}"), Some("parent e7: htb rate 1Gbit ceil 1Gbit"));
        }
        write(
            live,
            "nic/va/filter/egress/49001",
            Some("protocol all bpf queue 3 priority e7:20 udp dst_port 7000"),
        );
        send(7000, 40);
        send(7002, 10);
        assert!(packets("class show dev va classid e7:20") >= 40, "{}", tc("-s class show dev va"));
        assert!(packets("class show dev va classid e7:10") >= 10);

        // Filters of someone else are named, and stay.
        tc("filter add dev va egress protocol ip pref 7 u32 match ip dport 1 0xffff classid 1:1");
        assert_eq!(read(live, "nic/va/filter/egress/7").as_deref(), Some("protocol ip u32"));
        let (cause, reason) = refused(live, "nic/va/filter/egress/8", Some("protocol ip u32"));
        assert!(cause == Cause::Unsupported && reason.contains("u32"), "{reason}");
        write(live, "nic/va/filter/egress/49001", None);
        assert_eq!(read(live, "nic/va/filter/egress/7").as_deref(), Some("protocol ip u32"));
        write(live, "nic/va/filter/egress/49002", None);
        let (cause, reason) = refused(live, "nic/va/qdisc/clsact", None);
        assert!(
            cause == Cause::Busy && reason.contains("egress pref 7"),
            "others' would go with it: {reason}"
        );
        tc("filter del dev va egress pref 7");
        write(live, "nic/va/qdisc/clsact", None);
        let (cause, reason) =
            refused(live, "nic/va/filter/egress/1", Some("protocol all bpf queue 1 tcp src_port 1"));
        assert!(cause == Cause::Gone && reason.contains("clsact"), "{cause:?} {reason}");
    });
}

#[test]
fn flower_is_written_or_refused_in_words() {
    within("queueing::flower_is_written_or_refused_in_words", |live| {
        write(live, "nic/va/qdisc/clsact", Some("clsact"));
        for text in [
            "protocol ip flower ip_proto tcp dst_ip 198.18.0.1 dst_port 6379 skip_hw",
            "protocol ip flower ip_proto tcp src_port 6379 action skbedit priority 1",
        ] {
            match live.write(&knob("nic/va/filter/ingress/49001"), Some(&Setting::new(text))) {
                Ok(()) => assert_eq!(read(live, "nic/va/filter/ingress/49001").as_deref(), Some(text)),
                Err(refusal) => {
                    assert_eq!(refusal.cause, Cause::Unsupported, "{refusal}");
                    assert!(refusal.reason.contains("module"), "{refusal}");
                }
            }
            write(live, "nic/va/filter/ingress/49001", None);
        }
    });
}
