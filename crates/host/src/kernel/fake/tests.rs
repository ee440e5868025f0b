//! Whether the made-up machine is as nasty as real ones.

use super::*;
use crate::facts::{Channels, Facts, Feature, Nic, Ntuple, Process, Queue, Rings, Rss, Thread};

/// Two queues in use, four possible.
fn machine(driver: &str) -> Fake {
    let feature = |on| Feature { on, fixed: false };
    let queue = |index| Queue {
        index,
        irq_cpus: Some(Cpus::from_iter([index])),
        rps_cpus: Some(Cpus::from_iter([3])),
        xps_cpus: Some(Cpus::from_iter([index])),
        napi_settings: [("defer-hard-irqs".to_owned(), "5".to_owned())].into(),
        ..Queue::default()
    };
    let nic = Nic {
        name: "e".to_owned(),
        driver: driver.to_owned(),
        channels: Some(Channels { combined: 2, combined_max: 4, ..Channels::default() }),
        rings: Some(Rings { rx: 512, tx: 512, rx_max: 4096, tx_max: 4096 }),
        features: [
            ("hw-tc-offload", true),
            ("rx-ntuple-filter", true),
            ("rx-gro", true),
            ("tx-tcp-segmentation", true),
            ("tx-scatter-gather", true),
        ]
        .map(|(name, on)| (name.to_owned(), feature(on)))
        .into(),
        rss: Some(Rss { table: vec![0, 1, 0, 1], writable: true, contexts: Some(BTreeMap::new()) }),
        ntuple: Some(Ntuple { capacity: 8, ..Ntuple::default() }),
        queues: vec![queue(0), queue(1)],
        threaded: Some(false),
        root_qdisc: Some("handle 1: htb default 10".to_owned()),
        below_root: [("class/1:10".to_owned(), "parent 1: htb rate 1Gbit".to_owned())].into(),
        ..Nic::default()
    };
    let thread = Thread { tid: 8, scheduler: "other".to_owned(), ..Thread::default() };
    let process = Process { pid: 8, start: 1, threads: vec![thread], ..Process::default() };
    // The last is of a kernel without limits.
    let cpu = |id| crate::facts::Cpu {
        id,
        resume_latency_us: (id < 3).then(|| "0".to_owned()),
        ..crate::facts::Cpu::default()
    };
    Fake::of(&Facts {
        cpus: (0..4).map(cpu).collect(),
        nics: vec![nic],
        processes: vec![process],
        ..Facts::default()
    })
}

fn set(fake: &mut Fake, path: &str, to: &str) -> Result<(), Cause> {
    let to = (to != "-").then(|| Setting::new(to));
    fake.write(&path.parse().unwrap(), to.as_ref()).map_err(|refusal| refusal.cause)
}

/// `-` for nothing, `!` and the cause for a refusal.
fn get(fake: &mut Fake, path: &str) -> String {
    match fake.read(&path.parse().unwrap()) {
        Ok(setting) => setting.map_or("-".to_owned(), |setting| setting.to_string()),
        Err(refusal) => format!("!{:?}", refusal.cause),
    }
}

/// Does one thing, and compares what others have then.
#[track_caller]
fn check(driver: &str, does: &[(&str, &str)], then: &[(&str, &str)]) {
    let mut fake = machine(driver);
    for (path, to) in does {
        assert_eq!(set(&mut fake, path, to), Ok(()), "{path} to {to}");
        assert_eq!(get(&mut fake, path), *to);
    }
    for (path, want) in then {
        assert_eq!(get(&mut fake, path), *want, "{path} after {does:?}");
    }
}

/// The last of these is refused.
#[track_caller]
fn check_refused(does: &[(&str, &str)], cause: Cause) {
    let mut fake = machine("ice");
    let ((path, to), before) = does.split_last().unwrap();
    for (path, to) in before {
        assert_eq!(set(&mut fake, path, to), Ok(()), "{path} to {to}");
    }
    let seen = fake.seen();
    assert_eq!(set(&mut fake, path, to), Err(cause), "{path} to {to}");
    assert_eq!(fake.seen(), seen, "what is refused changes nothing");
}

const CHANNEL_SET: &str = "mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 1 mode channel";

#[test]
fn it_has_what_the_facts_say() {
    check(
        "ice",
        &[],
        &[
            ("nic/e/channels", "combined 2"),
            ("nic/e/indirection", "equal 2"),
            ("nic/e/qdisc/root", "handle 1: htb default 10"),
            ("nic/e/class/1:10", "parent 1: htb rate 1Gbit"),
            ("nic/e/class/1:11", "-"),
            ("nic/e/queue/1/irq", "1"),
            ("nic/e/queue/2/irq", "!Gone"),
            ("nic/e/queue/0/coalesce", "!Unsupported"),
            ("nic/e/queue/0/napi-thread", "-"),
            ("nic/e/ntuple/7", "-"),
            ("nic/e/ntuple/8", "!Unsupported"),
            ("nic/f/channels", "!Gone"),
            ("process/8@1/8/nice", "0"),
            ("process/8@2/8/nice", "!Gone"),
            ("cpu/2/resume-latency-us", "0"),
            ("cpu/3/resume-latency-us", "!Unsupported"),
            ("cpu/4/resume-latency-us", "!Gone"),
        ],
    );
}

#[test]
fn a_cpus_latency_is_none_or_microseconds() {
    let knob = "cpu/1/resume-latency-us";
    check("ice", &[(knob, "n/a"), (knob, "20"), (knob, "0")], &[("cpu/0/resume-latency-us", "0")]);
    for odd in ["", "-1", "2147483647", "many", "-"] {
        check_refused(&[(knob, "20"), (knob, odd)], Cause::Invalid);
    }
}

#[test]
fn queue_counts_reset_affinities_and_alike() {
    let then = [
        ("nic/e/queue/0/irq", "0-3"),
        ("nic/e/tx/0/xps_cpus", ""),
        ("nic/e/queue/0/napi/defer-hard-irqs", "0"),
        ("nic/e/rx/0/rps_cpus", "3"),
        ("nic/e/indirection", "equal 4"),
        ("nic/e/rx/3/rps_cpus", ""),
    ];
    check("ice", &[("nic/e/channels", "combined 4")], &then);
    let then = [("nic/e/queue/1/irq", "!Gone"), ("nic/e/indirection", "equal 1")];
    check("ice", &[("nic/e/channels", "combined 1")], &then);
    let kept = [("nic/e/indirection", "equal 1"), ("nic/e/channels", "combined 4")];
    check("ice", &kept, &[("nic/e/indirection", "equal 1")]);
}

#[test]
fn queue_counts_are_refused_while_something_names_the_queues() {
    check_refused(
        &[("nic/e/indirection", "start 1 equal 1"), ("nic/e/channels", "combined 1")],
        Cause::Invalid,
    );
    check_refused(
        &[("nic/e/ntuple/7", "flow-type tcp4 dst-port 1 action 1"), ("nic/e/channels", "combined 1")],
        Cause::Invalid,
    );
    check_refused(&[("nic/e/qdisc/root", CHANNEL_SET), ("nic/e/channels", "combined 4")], Cause::Busy);
    check_refused(&[("nic/e/channels", "combined 5")], Cause::Invalid);
}

#[test]
fn a_root_takes_its_tree_along_and_mq_comes_when_it_goes() {
    let then = [("nic/e/class/1:10", "-"), ("nic/e/queue/0/irq", "0-3"), ("nic/e/tx/1/xps_cpus", "")];
    check("ice", &[("nic/e/qdisc/root", CHANNEL_SET)], &then);
    let then = [("nic/e/queue/0/irq", "0"), ("nic/e/tx/1/xps_cpus", "1")];
    check("ice", &[("nic/e/qdisc/root", "htb default 10")], &then);
    let mut fake = machine("ice");
    assert_eq!(set(&mut fake, "nic/e/qdisc/root", "-"), Ok(()));
    assert_eq!(get(&mut fake, "nic/e/qdisc/root"), "mq");
    check_refused(
        &[("nic/e/qdisc/root", "htb default 10"), ("nic/e/class/1:10", "parent 1: htb rate 1Gbit")],
        Cause::Invalid,
    );
    check_refused(
        &[("nic/e/feature/hw-tc-offload", "off"), ("nic/e/qdisc/root", CHANNEL_SET)],
        Cause::Invalid,
    );
    check_refused(&[("nic/e/qdisc/root", &CHANNEL_SET.replace("1@1", "2@1"))], Cause::Invalid);
}

#[test]
fn filters_hang_on_clsact_and_classes() {
    let filter = ("nic/e/filter/ingress/49001", "protocol ip flower dst_port 1 skip_sw hw_tc 1");
    let clsact = ("nic/e/qdisc/clsact", "clsact");
    check_refused(&[filter], Cause::Invalid);
    check_refused(&[clsact, filter], Cause::Invalid);
    check_refused(&[("nic/e/qdisc/root", CHANNEL_SET), clsact, filter, (clsact.0, "-")], Cause::Busy);
    let gone = [("nic/e/qdisc/root", CHANNEL_SET), clsact, filter, ("nic/e/qdisc/root", "mq")];
    check("ice", &gone, &[(filter.0, "-")]);
}

#[test]
fn features_hang_together() {
    let offload = ("nic/e/feature/hw-tc-offload", "off");
    check_refused(&[("nic/e/qdisc/root", CHANNEL_SET), offload], Cause::Busy);
    let rule = ("nic/e/ntuple/7", "flow-type tcp4 dst-port 1 action 1");
    check("ice", &[rule, ("nic/e/feature/rx-ntuple-filter", "off")], &[(rule.0, "-")]);
    check_refused(&[("nic/e/feature/rx-ntuple-filter", "off"), rule], Cause::Unsupported);
    let gather = "nic/e/feature/tx-scatter-gather";
    let segmentation = "nic/e/feature/tx-tcp-segmentation";
    check("ice", &[(gather, "off")], &[(segmentation, "off")]);
    check("ice", &[(gather, "off"), (gather, "on")], &[(segmentation, "on")]);
    check("ice", &[(segmentation, "off"), (gather, "off"), (gather, "on")], &[(segmentation, "off")]);
    check_refused(
        &[("nic/e/rss-context/1", "equal 1"), ("nic/e/ntuple/1", "context 1"), ("nic/e/rss-context/1", "-")],
        Cause::Busy,
    );
    check_refused(&[("nic/e/ntuple/1", "context 1")], Cause::Invalid);
}

#[test]
fn a_link_that_flaps_forgets() {
    let rings = [("nic/e/rings", "rx 4096 tx 512")];
    let napi = "nic/e/queue/0/napi/defer-hard-irqs";
    check("ice", &rings, &[("nic/e/tx/0/xps_cpus", ""), (napi, "5"), ("nic/e/queue/0/irq", "0")]);
    check("veth", &rings, &[(napi, "0")]);
    check("veth", &[("nic/e/feature/rx-gro", "off")], &[(napi, "0")]);
    check("ice", &[("nic/e/feature/rx-gro", "off")], &[(napi, "5")]);
    let mut fake = machine("ice");
    fake.flap("e");
    assert_eq!(get(&mut fake, "nic/e/tx/1/xps_cpus"), "");
}

#[test]
fn poll_threads_come_with_threaded() {
    let thread = "nic/e/queue/1/napi-thread";
    check("ice", &[("nic/e/threaded", "1")], &[(thread, "cpus 0-3 other")]);
    let again = [("nic/e/threaded", "1"), (thread, "cpus 2 fifo 50"), ("nic/e/threaded", "0")];
    check("ice", &again, &[(thread, "-")]);
    check_refused(&[(thread, "cpus 2 other")], Cause::Gone);
}

#[test]
fn faults_come_when_they_were_asked_for() {
    let mut fake = machine("ice");
    let rings = "nic/e/rings";
    fake.plan_fault(Fault::WriteFails { nth: 0, takes_effect: false });
    fake.plan_fault(Fault::WriteFails { nth: 1, takes_effect: true });
    let (knob, to) = ("nic/e/threaded".parse().unwrap(), Some(Setting::new("1")));
    fake.plan_fault(Fault::Foreign { nth: 4, knob, to });
    fake.plan_fault(Fault::Ended { nth: 6, pid: 8 });
    fake.plan_fault(Fault::Unplugged { nth: 7, nic: "e".to_owned() });
    assert_eq!(set(&mut fake, rings, "rx 1 tx 1"), Err(Cause::Failed));
    assert_eq!(get(&mut fake, rings), "rx 512 tx 512");
    assert_eq!(set(&mut fake, rings, "rx 1 tx 1"), Err(Cause::Failed));
    assert_eq!(get(&mut fake, rings), "rx 1 tx 1");
    assert_eq!(get(&mut fake, "nic/e/threaded"), "1");
    assert_eq!(get(&mut fake, "process/8@1/8/nice"), "0");
    assert_eq!(get(&mut fake, "process/8@1/8/nice"), "!Gone");
    assert_eq!(get(&mut fake, rings), "!Gone");
    assert_eq!((fake.reads_count(), fake.writes_count()), (6, 2));

    let mut fake = machine("ice");
    let fuse = Fuse::new(1, 1);
    fake.set_fuse(&fuse);
    assert_eq!(get(&mut fake, rings), "rx 512 tx 512");
    assert!(!fuse.has_crashed());
    assert_eq!(set(&mut fake, rings, "rx 1 tx 1"), Err(Cause::Failed));
    assert!(fuse.has_crashed());
    assert_eq!(get(&mut fake, rings), "!Failed", "the dead read nothing");
    fake.set_fuse(&Fuse::default());
    assert_eq!(get(&mut fake, rings), "rx 1 tx 1", "the write was done before the process was");
}
