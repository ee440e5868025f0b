//! The counts of a recorded machine at two instants, two seconds apart.

use super::super::tests::Tree;
use super::*;

const COUNTS: &str = include_str!("../tests/counts.txt");
const BEGAN_NS: u64 = 5_000_000_000;
const SPAN_NS: u64 = 2_000_000_000;

fn sampler(cpus: &[usize], pids: &[u32]) -> Sampler {
    Sampler::new(Path::new("/"), cpus.to_vec(), pids.to_vec())
}

fn tree() -> Tree {
    Tree::parse(COUNTS)
}

/// The rates from the recorded counts to those of `later`.
fn rates(sampler: &Sampler, later: &Tree) -> Rates {
    let earlier = sampler.read(&tree(), BEGAN_NS);
    sampler.read(later, BEGAN_NS + SPAN_NS).since(&earlier).expect("two seconds")
}

/// One rate by its name, when one file has become `text`.
fn rate_of(name: &str, path: &str, text: &str) -> Option<f64> {
    let rates = rates(&sampler(&[], &[]), &tree().with(path, text));
    let named = rates.named();
    let (_, rate) = named.iter().find(|(known, _)| *known == name).expect("a rate's name");
    *rate
}

/// Floating numbers that differ by rounding alone are the same.
fn check(got: Option<f64>, want: Option<f64>, what: &str) {
    let is_same = match (got, want) {
        (Some(got), Some(want)) => (got - want).abs() < 1e-9,
        (got, want) => got == want,
    };
    assert!(is_same, "{what}: {got:?}, not {want:?}");
}

#[test]
fn every_count_is_found_where_the_kernel_writes_it() {
    let counters = sampler(&[1], &[700, 701]).read(&tree(), 1);
    assert_eq!(counters.gone, [701]);
    let want = Counters {
        now_ns: 1,
        gone: vec![701],
        processes: counters.processes.clone(),
        cpu_user: Some(1110),
        cpu_system: Some(700),
        cpu_softirq: Some(60),
        cpu_irq: Some(3),
        cpu_idle: Some(5000),
        cpu_iowait: Some(20),
        cpu_steal: Some(40),
        cpu_guest: Some(8),
        chosen_user: Some(500),
        chosen_system: Some(300),
        chosen_softirq: Some(50),
        chosen_irq: Some(1),
        chosen_idle: Some(3000),
        chosen_iowait: Some(8),
        chosen_steal: Some(10),
        chosen_guest: Some(0),
        context_switches: Some(87000),
        interrupts: Some(360_000),
        softirq_net_rx: Some(300),
        softirq_net_tx: Some(1),
        softirq_timer: Some(200),
        softirq_sched: Some(60),
        softirq_rcu: Some(80),
        tcp_retransmits: Some(42),
        tcp_timeouts: Some(77),
        listen_drops: Some(6),
        busy_poll_rx_packets: Some(800),
        softnet_processed: Some(0xffff_ff10),
        softnet_dropped: Some(1),
        softnet_squeezed: Some(7),
        pressure_cpu: Some(5_000_000),
    };
    assert_eq!(counters, want);
}

#[test]
fn chosen_cpus_are_summed_and_none_chosen_are_all() {
    let chosen = |cpus: &[usize]| sampler(cpus, &[]).read(&tree(), 0);
    assert_eq!(chosen(&[0, 1]).chosen_user, Some(1110));
    assert_eq!(chosen(&[]).chosen_user, Some(1110));
    assert_eq!(chosen(&[]).softirq_timer, Some(300));
    // A cpu that is not there makes the sum unknown, not smaller.
    assert_eq!((chosen(&[0, 2]).chosen_user, chosen(&[0, 2]).softirq_timer), (None, None));
    assert_eq!(chosen(&[0, 2]).cpu_user, Some(1110));
}

#[test]
fn rates_are_per_second_and_times_are_seconds() {
    let stat = "cpu  1200 60 700 5000 20 3 60 40 7 1\nintr 361000 0\nctxt 87500\n";
    // 150 ticks of 10 ms in two seconds.
    check(rate_of("cpu_user", "proc/stat", stat), Some(0.75), "user");
    check(rate_of("cpu_system", "proc/stat", stat), Some(0.0), "system");
    check(rate_of("interrupts", "proc/stat", stat), Some(500.0), "interrupts");
    check(rate_of("context_switches", "proc/stat", stat), Some(250.0), "switches");
    let pressure = "some avg10=1.35 avg60=0.85 avg300=3.30 total=5500000\n";
    check(rate_of("pressure_cpu", "proc/pressure/cpu", pressure), Some(0.25), "pressure");
    let more = "some avg10=1.35 avg60=0.85 avg300=3.30 total=7001000\n";
    check(
        rate_of("pressure_cpu", "proc/pressure/cpu", more),
        Some(1.0),
        "there is no more than all of the time",
    );
    let later = sampler(&[], &[]).read(&tree(), BEGAN_NS);
    assert_eq!(later.since(&later), None, "no time has passed");
}

#[test]
fn counts_of_32_bits_wrap_and_others_do_not_go_back() {
    let rest = "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000";
    let softnet = format!("00000100 00000001 00000005 {rest}\n00000010 00000000 00000002 {rest}\n");
    check(rate_of("softnet_processed", "proc/net/softnet_stat", &softnet), Some(256.0), "wrapped");
    let one_cpu = format!("ffffff00 00000001 00000005 {rest}\n");
    check(rate_of("softnet_processed", "proc/net/softnet_stat", &one_cpu), None, "a cpu went offline");
    let softirqs = "  CPU0 CPU1\n NET_RX: 4 300\n";
    check(rate_of("softirq_net_rx", "proc/softirqs", softirqs), Some(5.0), "wrapped");
    let stat = "cpu  1100 10 700 5000 19 3 60 40 7 1\n";
    check(rate_of("cpu_iowait", "proc/stat", stat), None, "went back");
}

#[test]
fn what_is_missing_is_absent_and_never_zero() {
    let sampler = sampler(&[], &[700]);
    let nothing = sampler.read(&Tree::default(), BEGAN_NS + SPAN_NS);
    assert_eq!(nothing, Counters { now_ns: BEGAN_NS + SPAN_NS, gone: vec![700], ..Counters::default() });
    let rates = rates(&sampler, &Tree::default());
    assert!(rates.named().iter().all(|(_, rate)| rate.is_none()), "{rates:?}");
    // An older kernel without the last name has the others.
    let netstat = "TcpExt: ListenDrops TCPTimeouts\nTcpExt: 8 77\n";
    check(rate_of("listen_drops", "proc/net/netstat", netstat), Some(1.0), "drops");
    check(rate_of("busy_poll_rx_packets", "proc/net/netstat", netstat), None, "not known there");
}

#[test]
fn processes_are_summed_over_their_threads() {
    let later = tree()
        .with(
            "proc/700/stat",
            "700 (se (r) ver) R 1 700 700 0 -1 4194304 100 0 0 0 250 150 0 0 20 0 2 0 9000 1000\n",
        )
        .with("proc/700/task/700/schedstat", "3000000000 300000000 600\n")
        // Threads that have begun since count from zero, also with the number of one that ended.
        .with("proc/700/task/701/schedstat", "1000 5000 1\n")
        .with("proc/700/task/702/schedstat", "500000000 0 1\n")
        .with("proc/700/task/702/status", "voluntary_ctxt_switches:\t6\nnonvoluntary_ctxt_switches:\t2\n");
    let rates = rates(&sampler(&[], &[700]), &later);
    check(rates.process_user, Some(0.5), "user");
    check(rates.process_system, Some(0.5), "system");
    check(rates.process_ran, Some(0.7500005), "ran");
    check(rates.process_waited, Some(0.1), "waited");
    check(rates.process_switches_voluntary, Some(3.0), "voluntary");
    check(rates.process_switches_involuntary, Some(1.0), "involuntary");
    assert_eq!(rates.gone, [] as [u32; 0]);
}

#[test]
fn a_process_that_ended_is_reported_whatever_took_its_number() {
    let stat = |state: &str, began: u64| {
        format!("700 (x) {state} 1 700 700 0 -1 4194304 100 0 0 0 999 999 0 0 20 0 2 0 {began} 1000\n")
    };
    for (state, began, is_gone) in [("S", 9_000, false), ("Z", 9_000, true), ("S", 9_500, true)] {
        let rates = rates(&sampler(&[], &[700]), &tree().with("proc/700/stat", &stat(state, began)));
        assert_eq!(
            (!rates.gone.is_empty(), rates.process_user.is_none()),
            (is_gone, is_gone),
            "{state} {began}"
        );
    }
}

#[test]
fn a_process_that_began_between_the_samples_counts_from_its_start() {
    let sampler = sampler(&[], &[700]);
    let before = sampler.read(&Tree::default(), BEGAN_NS);
    let rates = sampler.read(&tree(), BEGAN_NS + SPAN_NS).since(&before).expect("two seconds");
    check(rates.process_user, Some(0.75), "user");
    // One that was not asked about at first has an unknown past.
    let unasked = Sampler::new(Path::new("/"), vec![], vec![]).read(&tree(), BEGAN_NS);
    let rates = sampler.read(&tree(), BEGAN_NS + SPAN_NS).since(&unasked).expect("two seconds");
    check(rates.process_user, None, "user");
}

#[test]
fn a_kernel_without_schedstat_has_the_other_counts_of_a_process() {
    let bare = "=== proc/7/stat\n7 (x) S 1 7 7 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 3 0\n=== proc/7/task/7/status\n\
                voluntary_ctxt_switches:\t6\nnonvoluntary_ctxt_switches:\t2\n";
    let sampler = sampler(&[], &[7]);
    let read = |now_ns| sampler.read(&Tree::parse(bare), now_ns);
    let rates = read(2).since(&read(1)).expect("a nanosecond");
    assert_eq!((rates.process_user, rates.process_ran), (Some(0.0), None));
    assert_eq!(rates.process_switches_voluntary, Some(0.0));
}

#[test]
fn of_a_process_alone_nothing_else_is_read() {
    let alone = Sampler::of_process(Path::new("/"), 700).read(&tree(), 1);
    let all = sampler(&[], &[700]).read(&tree(), 1);
    assert!(!alone.processes.is_empty());
    assert_eq!(alone.processes, all.processes);
    assert_eq!(
        Counters { processes: BTreeMap::new(), ..alone },
        Counters { now_ns: 1, ..Counters::default() }
    );
}

#[test]
fn a_count_cut_short_is_absent_or_smaller_and_nothing_panics() {
    let sampler = sampler(&[0, 1], &[700]);
    let whole = sampler.read(&tree(), BEGAN_NS);
    tree().cut_everywhere(|tree| {
        let cut = sampler.read(tree, BEGAN_NS + SPAN_NS);
        let rates = cut.since(&whole).expect("two seconds");
        assert!(rates.named().iter().all(|(_, rate)| rate.is_none_or(f64::is_finite)), "{:?}", tree.cut);
    });
}

#[test]
fn samples_and_rates_are_read_back_as_they_were_written() {
    let sampler = sampler(&[0], &[700]);
    let counters = sampler.read(&tree(), BEGAN_NS);
    let json = serde_json::to_string(&counters).expect("numbers");
    assert_eq!(serde_json::from_str::<Counters>(&json).expect("the same"), counters);
    let rates = rates(&sampler, &tree());
    let json = serde_json::to_string(&rates).expect("numbers");
    assert_eq!(serde_json::from_str::<Rates>(&json).expect("the same"), rates);
}

#[test]
fn names_are_those_of_the_fields() {
    let rates = rates(&sampler(&[], &[700]), &tree());
    let fields = serde_json::to_value(&rates).expect("numbers");
    for (name, rate) in rates.named() {
        assert_eq!(fields[name].as_f64(), rate, "{name}");
    }
    // And `seconds` and `gone`.
    assert_eq!(fields.as_object().expect("fields").len(), rates.named().len() + 2);
}

#[test]
fn this_process_has_counts_on_this_machine() {
    let pid = std::process::id();
    let counters = Sampler::new(Path::new("/"), vec![], vec![pid]).sample(1);
    assert!(counters.context_switches.is_some() && counters.cpu_user.is_some());
    assert!(counters.gone.is_empty() && !counters.processes[&pid].threads.is_empty());
}
