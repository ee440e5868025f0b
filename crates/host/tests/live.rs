//! The machine's own kernel, on a pair of virtual interfaces with four queues between two network namespaces of each test.
//!
//! A test makes the namespaces, and runs itself again within the first one (`ip netns exec`, which also mounts that namespace's
//! /sys). Without the right to make namespaces it says so and passes. What a test makes goes when it ends, however it ends.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod namespaces;

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

use host::facts::{Facts, probe};
use host::kernel::Cause;
use host::kernel::live::Live;
use host::spec::Match;
use host::{Kernel, Knob, Setting};
use namespaces::{Pair, ip, napi_of};

/// Set in the second run, which is within the namespace, to the name of the other one.
const WITHIN: &str = "HOST_LIVE_WITHIN";
/// The interface under test, its peer's name in the other namespace, and their addresses.
const NIC: &str = "va";
const PEER: &str = "vb";
const NETWORK: &str = "198.18.0";
const ADDRESS: &str = "198.18.0.1";
const PEER_ADDRESS: &str = "198.18.0.2";
const SECONDS_MAX: &str = "60";

/// What `tc` prints.
fn tc(words: &str) -> String {
    let output = Command::new("tc").args(words.split(' ')).output().expect("tc is beside ip");
    assert!(output.status.success(), "tc {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `body` within a namespace of its own.
#[expect(clippy::disallowed_methods, reason = "the second run of this binary is told where it is")]
fn within(test: &str, body: fn(&mut Live)) {
    if std::env::var(WITHIN).is_ok() {
        return body(&mut Live::new());
    }
    let Some(pair) = Pair::new("host", [NIC, PEER], NETWORK) else { return };
    let binary = std::env::current_exe().unwrap();
    let mut command = Command::new("timeout");
    command.args([SECONDS_MAX, "ip", "netns", "exec", &pair.names[0]]).arg(binary);
    command.args(["--exact", test, "--nocapture"]).env(WITHIN, &pair.names[1]);
    let output = command.output().unwrap();
    drop(pair);
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "the test was not found within: {said}");
    said.lines().filter(|line| line.starts_with("not tried")).for_each(|line| eprintln!("{line}"));
}

fn knob(path: &str) -> Knob {
    path.parse().unwrap()
}

fn read(live: &mut Live, path: &str) -> Option<String> {
    live.read(&knob(path)).unwrap_or_else(|refusal| panic!("{refusal}")).map(|setting| setting.to_string())
}

fn write(live: &mut Live, path: &str, text: Option<&str>) {
    let setting = text.map(Setting::new);
    live.write(&knob(path), setting.as_ref()).unwrap_or_else(|refusal| panic!("{refusal}"));
}

/// Sets a knob, reads the same text, and puts back what was there.
fn round_trip(live: &mut Live, path: &str, text: &str) {
    let before = read(live, path);
    assert_ne!(before.as_deref(), Some(text), "{path} has it before");
    write(live, path, Some(text));
    assert_eq!(read(live, path).as_deref(), Some(text), "{path}");
    write(live, path, before.as_deref());
    assert_eq!(read(live, path), before, "{path} comes back");
}

fn refused(live: &mut Live, path: &str, text: Option<&str>) -> (Cause, String) {
    let setting = text.map(Setting::new);
    let refusal = live.write(&knob(path), setting.as_ref()).expect_err(path);
    (refusal.cause, refusal.reason)
}

#[test]
fn files_come_back_as_they_were() {
    within("files_come_back_as_they_were", |live| {
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
    within("a_card_comes_back_as_it_was", |live| {
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
    within("a_napi_is_found_by_its_queue_and_comes_back", |live| {
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
fn queueing_comes_back_as_it_was() {
    within("queueing_comes_back_as_it_was", |live| {
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
    within("a_root_of_someone_else_comes_back", |live| {
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
    within("a_program_steers_what_is_sent", |live| {
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
    within("flower_is_written_or_refused_in_words", |live| {
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

#[test]
fn rules_and_routes_come_back_as_they_were() {
    within("rules_and_routes_come_back_as_they_were", |live| {
        round_trip(live, "rule/inet/10001", "from 198.18.0.1 lookup 49001");
        round_trip(live, "rule/inet6/10001", "from 2001:db8::/32 lookup 49001");
        round_trip(live, "rule/inet/10002", "from all to 198.18.0.0/24 fwmark 0x7 lookup 49002");
        round_trip(live, "route/inet/49001/default", "via 198.18.0.2 dev va");
        round_trip(live, "route/inet/49001/198.18.0.0/24", "dev va");
        round_trip(live, "route/inet/49001/198.18.0.0/24", "dev va src 198.18.0.1");
        write(live, "route/inet/49001/default", Some("via 198.18.0.2 dev va"));
        assert_eq!(read(live, "route/inet/49002/default"), None, "another table");
        write(live, "route/inet/49001/default", Some("via 198.18.0.9 dev va"));
        assert_eq!(read(live, "route/inet/49001/default").as_deref(), Some("via 198.18.0.9 dev va"));
        write(live, "rule/inet/10001", Some("from 198.18.0.1 lookup 49001"));
        write(live, "rule/inet/10001", Some("from 198.18.0.7 lookup 49001"));
        assert_eq!(read(live, "rule/inet/10001").as_deref(), Some("from 198.18.0.7 lookup 49001"));
        write(live, "rule/inet/10001", None);
        assert_eq!(read(live, "rule/inet/10001"), None);
        let (cause, reason) = refused(live, "route/inet/49001/default", Some("via 198.18.0.2 dev none"));
        assert!(cause == Cause::Gone && reason.contains("none"), "{reason}");
        assert_eq!(refused(live, "route/inet/49001/nowhere", Some("dev va")).0, Cause::Invalid);
    });
}

#[test]
fn what_a_card_has_not_is_said() {
    within("what_a_card_has_not_is_said", |live| {
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

#[test]
fn a_card_that_vanishes_is_gone_and_odd_names_are_names() {
    within("a_card_that_vanishes_is_gone_and_odd_names_are_names", |live| {
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

/// A process that sleeps; it ends with this.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        let sleeper = Sleeper(Command::new("sleep").arg(SECONDS_MAX).stdin(Stdio::null()).spawn().unwrap());
        // It runs before it has its name.
        let comm = format!("/proc/{}/comm", sleeper.0.id());
        while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        sleeper
    }

    fn path(&self, what: &str) -> String {
        thread_path(self.0.id(), what)
    }
}

/// The knob of a process' first thread.
fn thread_path(pid: u32, what: &str) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(19).unwrap();
    format!("process/{pid}@{start}/{pid}/{what}")
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_thread_comes_back_as_it_was_and_a_dead_one_is_gone() {
    within("a_thread_comes_back_as_it_was_and_a_dead_one_is_gone", |live| {
        let mut sleeper = Sleeper::start();
        let affinity = sleeper.path("affinity");
        if read(live, &affinity).as_deref() != Some("0") {
            round_trip(live, &affinity, "0");
        }
        round_trip(live, &sleeper.path("nice"), "-5");
        round_trip(live, &sleeper.path("nice"), "-1");
        round_trip(live, &sleeper.path("scheduler"), "fifo 10");
        round_trip(live, &sleeper.path("scheduler"), "rr 99");
        round_trip(live, &sleeper.path("scheduler"), "batch");
        assert_eq!(refused(live, &affinity, Some("8000")).0, Cause::Invalid);
        assert_eq!(refused(live, &sleeper.path("nice"), Some("20")).0, Cause::Invalid);
        let pid = sleeper.0.id();
        let (cause, reason) = refused(live, &format!("process/{pid}@1/{pid}/nice"), Some("1"));
        assert!(cause == Cause::Gone && reason.contains("another process"), "{reason}");
        let other_thread = affinity.replace(&format!("/{pid}/"), "/1/");
        assert_eq!(refused(live, &other_thread, Some("0")).0, Cause::Gone, "a thread of someone else");
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        let (cause, reason) = refused(live, &affinity, Some("0"));
        assert!(cause == Cause::Gone && reason.contains("has ended"), "{reason}");
    });
}

/// What a knob had, written back when this goes.
struct PutBack(&'static str, Setting);

impl Drop for PutBack {
    fn drop(&mut self) {
        Live::new().write(&knob(self.0), Some(&self.1)).unwrap_or_else(|refusal| eprintln!("{refusal}"));
    }
}

/// Cpus are of no namespace: this one is the machine's.
#[test]
fn a_cpus_latency_comes_back_as_it_was() {
    within("a_cpus_latency_comes_back_as_it_was", |live| {
        const LATENCY: &str = "cpu/0/resume-latency-us";
        let before = match live.read(&knob(LATENCY)) {
            Err(refusal) if refusal.cause == Cause::Unsupported => return eprintln!("not tried: {refusal}"),
            found => found.unwrap().unwrap(),
        };
        let _put_back = PutBack(LATENCY, before);
        for text in ["n/a", "20", "0"] {
            write(live, LATENCY, Some(text));
            assert_eq!(read(live, LATENCY).as_deref(), Some(text));
        }
        for odd in ["-1", "2147483647", "many", ""] {
            assert_eq!(refused(live, LATENCY, Some(odd)).0, Cause::Invalid, "'{odd}'");
        }
        assert_eq!(refused(live, LATENCY, None).0, Cause::Invalid);
        let (cause, reason) = refused(live, "cpu/4095/resume-latency-us", Some("n/a"));
        assert!(cause == Cause::Gone && reason.contains("there is no cpu 4095"), "{reason}");
    });
}

#[test]
fn a_service_that_nobody_manages_says_so() {
    within("a_service_that_nobody_manages_says_so", |live| {
        assert_eq!(read(live, "service/no-such-daemon-here"), None);
        assert_eq!(refused(live, "service/no-such-daemon-here", Some("stopped")).0, Cause::Gone);
        let _sleeper = Sleeper::start();
        assert_eq!(read(live, "service/sleep").as_deref(), Some("running"));
        let (cause, reason) = refused(live, "service/sleep", Some("stopped"));
        assert!(
            cause == Cause::Unsupported && reason.contains("sleep runs, but neither systemd"),
            "{reason}"
        );
        assert_eq!(refused(live, "service/--now", Some("stopped")).0, Cause::Invalid);
    });
}

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
    within("facts_say_what_the_kernel_says", |live| {
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
    within("without_rights_facts_are_read_and_changes_are_refused_by_the_capability_they_take", |live| {
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
        assert!(nic.channels.is_some() && nic.root_qdisc.is_some() && !nic.features.is_empty());
        assert!(nic.queues.iter().all(|queue| queue.napi.is_some() && queue.rps_cpus.is_some()), "{nic:?}");
        assert!(host::facts::drawing::drawing(&facts, &[]).contains("no net_admin"));
    });
}

/// Does something in the other namespace: netlink and sockets are of that, files of /sys are not.
#[expect(clippy::disallowed_methods, reason = "the second run of this binary is told where it is")]
fn at_peer<T: Send>(body: impl FnOnce(&mut Live) -> T + Send) -> T {
    namespaces::within(&std::env::var(WITHIN).unwrap(), || body(&mut Live::new()))
}

#[test]
fn a_queues_napi_is_the_one_that_polls_what_arrives_there() {
    within("a_queues_napi_is_the_one_that_polls_what_arrives_there", |live| {
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
