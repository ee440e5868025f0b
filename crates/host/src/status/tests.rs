//! A made-up machine with one lane on each kind of backend; each test changes one thing and reads what is said.

use super::*;
use crate::Cpus;
use crate::facts::{Daemon, Filter, Nic, Process, Queue, Thread};
use crate::kernel::Refusal;
use crate::knob::Direction;
use crate::spec::{BackendWish, Mode, Protocol};
use crate::witness::Cell;

/// What a test may change.
struct Stage {
    plan: Plan,
    facts: Facts,
    readings: Vec<Reading>,
    sights: Vec<Sight>,
    polled: Option<u64>,
}

fn cpus(list: &str) -> Cpus {
    list.parse().unwrap()
}

fn step(path: &str, want: &str, why: &str) -> Step {
    let (have, want) = (None, Some(Setting::new(want)));
    Step { knob: path.parse().unwrap(), have, want, why: why.to_owned(), risks: vec![], disturbs: vec![] }
}

/// Of the lane, which is 0, or of nobody; on a queue; on a cpu; so many packets.
fn cell(lane: Option<usize>, queue: Option<u32>, cpu: u32, packets: u64) -> Cell {
    Cell { lane, queue, cpu, packets, bytes: packets * 100 }
}

impl Stage {
    /// Lane redis on queues 4 and 5 and cores 2 and 3 of ens1, all as wished, 1000 packets on its queue.
    fn new(backend: BackendWish) -> Stage {
        let irq_cores = cpus("2");
        let lane = Placed::made_up("redis", Mode::Spread, "4-5", "2-3");
        let redis = Placed { backend, irq_cores, ..lane };
        let steps = vec![
            step("nic/ens1/qdisc/root", "mqprio num_tc 2", "ens1: classes"),
            step("nic/ens1/filter/ingress/49001", "protocol ip flower skip_sw hw_tc 1", "lane redis: in"),
            step("nic/ens1/queue/4/irq", "2", "lane redis: interrupts"),
            step("nic/ens1/queue/4/napi-thread", "cpus 2 other", "lane redis: pollers"),
            step("process/812@1/812/affinity", "2-3", "lane redis: redis-server on its cores"),
            step("sysctl/net.core.busy_poll", "50", "busy polling"),
        ];
        let readings = steps.iter().map(|step| Reading::Has(step.want.clone())).collect();
        let queue = |index| Queue {
            index,
            irq_effective: Some(cpus("2")),
            napi_thread: Some(Thread { tid: 99, cpus: cpus("2"), ..Thread::default() }),
            ..Queue::default()
        };
        let filter = Filter { direction: Direction::Ingress, pref: 49001, text: String::new(), in_hw: true };
        let nic = Nic {
            name: "ens1".to_owned(),
            up: true,
            queues: vec![queue(4), queue(5)],
            filters: vec![filter],
            ..Nic::default()
        };
        let thread = |tid, list| Thread { tid, cpus: cpus(list), ..Thread::default() };
        let server = Process {
            pid: 812,
            name: "redis-server".to_owned(),
            listens: vec!["tcp 10.0.0.1:6379".parse().unwrap()],
            threads: vec![thread(812, "2-3"), thread(813, "3")],
            ..Process::default()
        };
        let daemon =
            Daemon { name: "irqbalance".to_owned(), running: false, manageable: true, profile: None };
        let facts =
            Facts { nics: vec![nic], processes: vec![server], daemons: vec![daemon], ..Facts::default() };
        let cells = vec![cell(None, Some(0), 0, 500), cell(Some(0), Some(4), 2, 1000)];
        let sights = vec![Sight::Counted(Counts { nic: "ens1".to_owned(), cells })];
        let plan = Plan { lanes: vec![redis], steps, notes: vec![] };
        Stage { plan, facts, readings, sights, polled: Some(10) }
    }

    fn cells(mut self, cells: &[Cell]) -> Stage {
        self.sights = vec![Sight::Counted(Counts { nic: "ens1".to_owned(), cells: cells.to_vec() })];
        self
    }

    fn has(mut self, path: &str, have: Option<&str>) -> Stage {
        let index = self.plan.steps.iter().position(|step| step.knob.to_string() == path).unwrap();
        self.readings[index] = Reading::Has(have.map(Setting::new));
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Stage)) -> Stage {
        change(&mut self);
        self
    }

    fn report(&self) -> Report {
        judge(&Evidence {
            plan: &self.plan,
            facts: &self.facts,
            readings: &self.readings,
            sights: &self.sights,
            watched_ms: 5000,
            polled: self.polled,
        })
    }

    /// The lane's headline and verdict, and a part of the text.
    #[track_caller]
    fn says(&self, headline: &str, verdict: Verdict, part: &str) {
        let report = self.report();
        let text = report.text();
        let lane = &report.lanes[0];
        assert_eq!((lane.headline.as_str(), lane.verdict), (headline, verdict), "{text}");
        assert!(report.verdict >= verdict, "{text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(part), "'{part}' is not in:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

fn tc() -> Stage {
    Stage::new(BackendWish::TcChannel)
}

#[test]
fn a_lane_as_wished_is_ok() {
    tc().says("100 % on its queues", Verdict::Ok, "lane redis: 100 % on its queues (1000 packets)");
    let report = tc().report();
    assert_eq!(report.verdict.exit_code(), 0);
    assert_eq!(report.lanes[0].knob_count, 4, "two of six are not the lane's");
    assert_eq!((report.lanes[0].findings.as_slice(), report.shared.as_slice()), (&[][..], &[][..]));
}

#[test]
fn packets_elsewhere_are_a_leak() {
    let split = |on, off| tc().cells(&[cell(Some(0), Some(5), 9, on), cell(Some(0), Some(1), 2, off)]);
    split(997, 3).says("99.7 % on its queues", Verdict::Ok, "(1000 packets)");
    split(990, 10).says("99.0 % on its queues", Verdict::Ok, "(1000 packets)");
    split(980, 20).says(
        "leaking 2.0 %",
        Verdict::Warning,
        "20 of 1000 packets arrived outside its queues 4-5",
    );
    split(985, 15).says("leaking 1.5 %", Verdict::Warning, "15 of 1000");
    split(880, 120).says("leaking 12 %", Verdict::Warning, "[warning]");
    split(500, 500).says("leaking 50 %", Verdict::Warning, "500 of 1000");
    split(400, 600).says("leaking 60 %", Verdict::Critical, "600 of 1000");
    assert_eq!(split(880, 120).report().lanes[0].used.leak_share(), Some(0.12));
}

/// The same packets are in the lane by their cpu and outside of it by their queue.
#[test]
fn what_counts_is_what_the_backend_steers() {
    let there = [cell(Some(0), Some(0), 3, 100), cell(Some(0), Some(0), 2, 100)];
    for backend in [BackendWish::Soft, BackendWish::Virtual, BackendWish::Process] {
        Stage::new(backend).cells(&there).says("100 % on its cores", Verdict::Ok, "");
    }
    for backend in [BackendWish::TcChannel, BackendWish::RssNtuple] {
        Stage::new(backend).cells(&there).says("leaking 100 %", Verdict::Critical, "outside its queues 4-5");
    }
    let away = [cell(Some(0), Some(4), 0, 100)];
    Stage::new(BackendWish::Soft).cells(&away).says(
        "leaking 100 %",
        Verdict::Critical,
        "outside its cores 2-3",
    );
    // Interrupts on cores of their own are the lane's too.
    Stage::new(BackendWish::Virtual)
        .cells(&away)
        .with(|stage| stage.plan.lanes[0].irq_cores = cpus("0,2"))
        .says("100 % on its cores", Verdict::Ok, "");
}

#[test]
fn others_in_the_lane_are_named() {
    let mixed = |own, others| tc().cells(&[cell(Some(0), Some(4), 2, own), cell(None, Some(5), 2, others)]);
    mixed(1000, 10).says("100 % on its queues", Verdict::Ok, "ok: watched for 5.0 s");
    mixed(900, 100).says(
        "100 % on its queues",
        Verdict::Warning,
        "10 % of what arrives at its queues 4-5 is not the lane's",
    );
    mixed(930, 70).says("100 % on its queues", Verdict::Warning, "7.0 % of what arrives");
    // Another lane's packets are foreign too.
    tc().cells(&[cell(Some(0), Some(4), 2, 90), cell(Some(1), Some(4), 2, 10)]).says(
        "100 % on its queues",
        Verdict::Warning,
        "10 % of what arrives",
    );
}

/// Packets are counted by port and address, so of two lanes with one of both neither can be judged by them, and no process is
/// both's.
#[test]
fn lanes_that_share_a_port_can_t_be_told_apart() {
    let check = |change: fn(&mut Placed), because: Option<&str>| {
        let stage = tc().cells(&[cell(Some(0), Some(1), 2, 1000)]).with(|stage| {
            let mut other = Placed { name: "other".to_owned(), ..stage.plan.lanes[0].clone() };
            change(&mut other);
            stage.plan.lanes.push(other);
        });
        match because {
            Some(part) => stage.says("can't tell", Verdict::Unknown, part),
            None => stage.says("leaking 100 %", Verdict::Critical, "outside its queues 4-5"),
        }
    };
    let both = "can't be told: port 6379 is lane `other`'s too, at the same address";
    check(|_| {}, Some(both));
    check(|other| other.ports = vec![1, 6379], Some(both));
    check(|other| other.nic = None, Some(both));
    check(|other| other.nic = Some("ens2".to_owned()), None);
    check(|other| other.protocol = Protocol::Udp, None);
    check(|other| other.ports = vec![6380], None);
    let addressed = |mine: &[&str], theirs: &[&str], is_told: bool| {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let stage = tc().with(|stage| {
            let mut other = Placed { name: "other".to_owned(), ..stage.plan.lanes[0].clone() };
            (stage.plan.lanes[0].addresses, other.addresses) = (addresses(mine), addresses(theirs));
            stage.plan.lanes.push(other);
        });
        match is_told {
            true => stage.says("100 % on its queues", Verdict::Ok, "(1000 packets)"),
            false => stage.says("can't tell", Verdict::Unknown, both),
        }
    };
    addressed(&["10.0.0.1"], &["10.0.0.2", "2001:db8::2"], true);
    addressed(&["10.0.0.1", "2001:db8::2"], &["10.0.0.2", "2001:db8::2"], false);
    addressed(&["10.0.0.1"], &[], false);
    addressed(&[], &["10.0.0.1"], false);
    let unnamed = tc().with(|stage| {
        stage.plan.lanes.push(Placed { name: "other".to_owned(), ..stage.plan.lanes[0].clone() });
        let process = &mut stage.facts.processes[0];
        (process.pid, process.threads[0].cpus) = (900, cpus("0-7"));
    });
    assert_eq!(unnamed.report().lanes[0].findings.len(), 1, "nothing of threads: whose they are isn't known");
}

#[test]
fn an_idle_lane_is_ok() {
    tc().cells(&[cell(None, Some(0), 0, 5000)]).says("idle", Verdict::Ok, "lane redis: idle");
    tc().cells(&[cell(None, Some(4), 0, 100)]).says("idle", Verdict::Ok, "");
    tc().cells(&[cell(None, Some(4), 0, 101)]).says(
        "idle",
        Verdict::Warning,
        "101 packets of others arrived",
    );
}

#[test]
fn packets_that_cant_be_seen_are_said() {
    let blind = Sight::Blind("ens1".to_owned(), "it takes CAP_BPF".to_owned());
    let stage = tc().with(|stage| stage.sights = vec![blind]);
    stage.says("can't tell", Verdict::Unknown, "can't be told: it takes CAP_BPF");
    assert_eq!(stage.report().verdict.exit_code(), 3);
    assert!(stage.report().text().contains("note: packets of ens1 could not be watched"));
    tc().with(|stage| stage.sights.clear()).says("can't tell", Verdict::Unknown, "no packets were watched");
    tc().cells(&[cell(Some(0), None, 2, 900), cell(Some(0), Some(4), 2, 100)]).says(
        "can't tell",
        Verdict::Unknown,
        "the driver recorded no queue for 90.0 % of the packets",
    );
    // One that is a client's and has no process here.
    tc().with(|stage| stage.plan.lanes[0].ports.clear()).with(|stage| stage.facts.processes.clear()).says(
        "can't tell",
        Verdict::Unknown,
        "no local ports",
    );
    tc().with(|stage| stage.plan.lanes[0].queues = Cpus::default()).says(
        "can't tell",
        Verdict::Unknown,
        "the lane has no queues of its own",
    );
    // What half of the packets say is believed.
    tc().cells(&[cell(Some(0), None, 2, 500), cell(Some(0), Some(4), 2, 500)]).says(
        "100 % on its queues",
        Verdict::Ok,
        "",
    );
    // Another card's packets are not this lane's.
    let elsewhere =
        Sight::Counted(Counts { nic: "ens2".to_owned(), cells: vec![cell(Some(0), Some(4), 2, 9)] });
    tc().with(|stage| stage.sights = vec![elsewhere.clone()]).says("can't tell", Verdict::Unknown, "");
    // A lane of no card has packets at all of them.
    tc().with(|stage| {
        stage.plan.lanes[0].nic = None;
        stage.plan.lanes[0].backend = BackendWish::Process;
        stage.sights = vec![elsewhere];
    })
    .says("100 % on its cores", Verdict::Ok, "(9 packets)");
}

#[test]
fn a_lane_without_ports_is_judged_by_its_processes() {
    let without_ports = |stage: &mut Stage| {
        stage.plan.lanes[0].ports.clear();
        stage.plan.lanes[0].nic = None;
        stage.plan.lanes[0].backend = BackendWish::Process;
        stage.sights.clear();
    };
    let stage = || Stage::new(BackendWish::Process).with(without_ports);
    stage().says("2 of 2 threads on its cores", Verdict::Ok, "where packets arrive can't be seen");
    stage().says("2 of 2 threads on its cores", Verdict::Ok, "they listen at 6379, which `ports` could say");
    assert_eq!(stage().report().verdict.exit_code(), 0);
    stage().with(|stage| stage.facts.processes[0].threads[1].cpus = cpus("0-7")).says(
        "1 of 2 threads on its cores",
        Verdict::Warning,
        "1 of 2 threads of redis-server (812) may run off the lane's cores 2-3: thread 813 on 0-7",
    );
    stage().with(|stage| stage.facts.processes.clear()).says(
        "no process of it is seen",
        Verdict::Ok,
        "where packets arrive can't be seen",
    );
    // Somebody else's process is none of it.
    stage().with(|stage| stage.facts.processes[0].pid = 900).says(
        "no process of it is seen",
        Verdict::Ok,
        "",
    );
    // Knobs count as ever.
    stage().has("process/812@1/812/affinity", Some("0-7")).says(
        "not in force; 2 of 2 threads on its cores",
        Verdict::Critical,
        "wanted 2-3, has 0-7",
    );
}

#[test]
fn steering_that_differs_is_not_in_force() {
    let stage = tc().has("nic/ens1/filter/ingress/49001", None);
    stage.says(
        "not in force; 100 % on its queues",
        Verdict::Critical,
        "nic/ens1/filter/ingress/49001: wanted protocol ip flower skip_sw hw_tc 1, has nothing",
    );
    assert_eq!(stage.report().verdict.exit_code(), 2);
    assert_eq!(stage.report().text().matches("lanes apply` sets what differs").count(), 1);
    let part = "nic/ens1/qdisc/root: wanted mqprio num_tc 2, has mq";
    tc().has("nic/ens1/qdisc/root", Some("mq")).says(
        "not in force; 100 % on its queues",
        Verdict::Critical,
        part,
    );
    let rps = step("nic/ens1/rx/4/rps_cpus", "2-3", "lane redis: packets to its cores");
    tc().with(|stage| {
        stage.plan.steps.push(rps);
        stage.readings.push(Reading::Has(Some(Setting::new(""))));
    })
    .says("not in force; 100 % on its queues", Verdict::Critical, "rps_cpus: wanted 2-3, has none");
    // Of a card that is another's it does not count.
    tc().has("nic/ens1/qdisc/root", Some("mq"))
        .with(|stage| stage.plan.lanes[0].nic = None)
        .with(|stage| stage.plan.lanes[0].backend = BackendWish::Process)
        .says("100 % on its cores", Verdict::Ok, "of cards and the machine");
}

#[test]
fn other_knobs_that_differ_are_a_warning() {
    tc().has("nic/ens1/queue/4/irq", Some("0-3")).says(
        "100 % on its queues",
        Verdict::Warning,
        "nic/ens1/queue/4/irq: wanted 2, has 0-3",
    );
    tc().has("sysctl/net.core.busy_poll", Some("0")).says(
        "100 % on its queues",
        Verdict::Warning,
        "sysctl/net.core.busy_poll: wanted 50, has 0",
    );
    tc().with(|stage| stage.readings[2] = Reading::Unreadable("it takes root".to_owned())).says(
        "100 % on its queues",
        Verdict::Unknown,
        "nic/ens1/queue/4/irq: can't be read: it takes root",
    );
}

#[test]
fn a_filter_in_software_is_not_offloaded() {
    tc().with(|stage| stage.facts.nics[0].filters[0].in_hw = false).says(
        "not offloaded",
        Verdict::Critical,
        "filter/ingress/49001 is set and not in hardware",
    );
    // One that software may do needs no hardware.
    tc().with(|stage| {
        stage.facts.nics[0].filters[0].in_hw = false;
        stage.plan.steps[1].want = Some(Setting::new("protocol all bpf queue 2"));
        stage.readings[1] = Reading::Has(stage.plan.steps[1].want.clone());
    })
    .says("100 % on its queues", Verdict::Ok, "");
}

#[test]
fn what_has_no_effect_is_a_warning_with_a_remedy() {
    let check = |change: &dyn Fn(&mut Stage), part: &str| {
        tc().with(change).says("100 % on its queues", Verdict::Warning, part);
    };
    check(
        &|stage| stage.facts.nics[0].queues[0].irq_effective = Some(cpus("0")),
        "the interrupt of queue 4 goes to cpu 0, not to 2",
    );
    check(&|stage| stage.facts.daemons[0].running = true, "irqbalance runs");
    check(&|stage| stage.facts.nics[0].queues[0].napi_thread = None, "no kernel thread polls queue 4");
    check(
        &|stage| stage.facts.nics[0].queues[0].napi_thread.as_mut().unwrap().cpus = cpus("0-7"),
        "the kernel thread of queue 4 may run on 0-7",
    );
    check(
        &|stage| stage.facts.processes[0].threads[1].cpus = cpus("0-7"),
        "1 of 2 threads of redis-server (812) may run off the lane's cores 2-3: thread 813 on 0-7",
    );
    check(
        &|stage| {
            stage.facts.processes[0].threads[0].cpus = cpus("0");
            stage.facts.processes[0].pid = 900;
        },
        "expresslane run --lane redis",
    );
    check(&|stage| stage.polled = Some(0), "nobody polls");
}

#[test]
fn what_does_not_concern_the_lane_is_no_finding() {
    let fine = |change: &dyn Fn(&mut Stage)| {
        tc().with(change).says("100 % on its queues", Verdict::Ok, "");
    };
    fine(&|stage| stage.facts.nics[0].queues[1].irq_effective = Some(cpus("0")));
    fine(&|stage| stage.polled = None);
    fine(&|stage| {
        stage.facts.daemons[0] =
            Daemon { name: "tuned".to_owned(), running: true, manageable: true, profile: None };
    });
    // Processes that are not named and listen at no port of the lane, or where none of its packets come to.
    let stranger = |stage: &mut Stage, listens: &str| {
        let other = &mut stage.facts.processes[0];
        (other.pid, other.threads[0].cpus) = (900, cpus("0-7"));
        other.listens = vec![listens.parse().unwrap()];
    };
    for listens in ["tcp 10.0.0.1:80", "tcp 127.0.0.1:6379", "udp 10.0.0.1:6379"] {
        fine(&|stage| stranger(stage, listens));
    }
    fine(&|stage| {
        stranger(stage, "tcp 10.0.0.2:6379");
        stage.plan.lanes[0].addresses = vec!["10.0.0.1".parse().unwrap()];
    });
    fine(&|stage| {
        stranger(stage, "tcp 10.0.0.1:6379");
        stage.facts.processes[0].elsewhere = true;
    });
    // One of another lane, and one that may be either's.
    for listens in ["tcp 10.0.0.2:6379", "tcp 0.0.0.0:6379"] {
        fine(&|stage| {
            stranger(stage, listens);
            let lane = &mut stage.plan.lanes[0];
            lane.addresses = vec!["10.0.0.1".parse().unwrap()];
            let addresses = vec!["10.0.0.2".parse().unwrap()];
            let other = Placed { name: "other".to_owned(), addresses, cores: cpus("0-7"), ..lane.clone() };
            stage.plan.lanes.push(other);
        });
    }
    // Nobody polls a lane that is idle.
    tc().cells(&[]).with(|stage| stage.polled = Some(0)).says("idle", Verdict::Ok, "");
}

#[test]
fn a_wish_that_can_be_had_no_more_is_not_in_force() {
    let text = "[[nic]]\nname = 'ens1'\n[[lane]]\nname = 'redis'\nports = 1\n[[lane]]\nname = 'b'\nports = 2";
    let report = unplanned(&Spec::parse(text).unwrap(), "nic `ens1`: no card here\nlane `b`: too much");
    assert_eq!((report.verdict.exit_code(), report.lanes.len()), (2, 2));
    let text = report.text();
    for want in
        ["lane redis:        not in force [critical]", "lane b:", "no card here", "too much", "lanes revert"]
    {
        assert!(text.contains(want), "'{want}' is not in:\n{text}");
    }
}

#[test]
fn a_card_that_is_gone_or_down_is_said() {
    tc().with(|stage| stage.facts.nics.clear()).says(
        "100 % on its queues",
        Verdict::Critical,
        "the card ens1 is not there",
    );
    tc().with(|stage| stage.facts.nics[0].up = false).says(
        "100 % on its queues",
        Verdict::Critical,
        "ip link set ens1 up",
    );
}

#[test]
fn what_differs_on_a_card_without_lanes_counts_for_all_of_it() {
    let stage = tc().with(|stage| {
        stage.plan.steps.push(step("nic/ens2/rings", "rx 4096 tx 4096", "ens2: rings"));
        stage.readings.push(Reading::Has(Some(Setting::new("rx 512 tx 512"))));
    });
    let report = stage.report();
    assert_eq!(
        (report.lanes[0].verdict, report.verdict),
        (Verdict::Ok, Verdict::Warning),
        "{}",
        report.text()
    );
    assert!(report.text().contains("nic/ens2/rings: wanted rx 4096"), "{}", report.text());
}

#[test]
fn who_may_undo_it_is_named() {
    let managed = tc().with(|stage| stage.facts.nics[0].managers = vec!["NetworkManager".to_owned()]);
    managed.says("100 % on its queues", Verdict::Ok, "`nmcli device set ens1 managed no`");
    let others = tc().with(|stage| {
        let managers = vec!["NetworkManager".to_owned()];
        stage.facts.nics.push(Nic { name: "ens2".to_owned(), managers, ..Nic::default() });
    });
    assert!(others.report().notes.is_empty(), "a card without a lane is nobody's concern");
}

#[test]
fn the_worst_decides_and_none_is_unknown() {
    assert!(Verdict::Critical > Verdict::Warning && Verdict::Warning > Verdict::Unknown);
    let codes = [Verdict::Ok, Verdict::Warning, Verdict::Critical, Verdict::Unknown].map(Verdict::exit_code);
    assert_eq!(codes, [0, 1, 2, 3]);
    let empty = tc().with(|stage| (stage.plan, stage.readings) = (Plan::default(), vec![]));
    assert_eq!(empty.report().verdict, Verdict::Unknown, "no lanes at all");
    let json = serde_json::to_value(tc().report()).unwrap();
    assert_eq!((&json["verdict"], &json["lanes"][0]["used"]["on_packets"]), (&"ok".into(), &1000.into()));
}

#[test]
fn busy_polling_is_read_from_netstat() {
    let text = "TcpExt: SyncookiesSent BusyPollRxPackets TCPAutoCorking\nTcpExt: 1 2345 3\nIpExt: InNoRoutes\nIpExt: 0\n";
    assert_eq!(polled(text), Some(2345));
    assert_eq!(polled("TcpExt: SyncookiesSent\nTcpExt: 1\n"), None);
    assert_eq!(polled(""), None);
}

#[test]
fn knobs_are_read_and_refusals_kept() {
    struct Made;
    impl Kernel for Made {
        fn read(&mut self, knob: &Knob) -> Result<Option<Setting>, Refusal> {
            match knob.to_string().as_str() {
                "nic/ens1/qdisc/root" => Ok(Some(Setting::new("mq"))),
                "nic/ens1/queue/4/irq" => Err(Refusal::new(Cause::Gone, "no such queue")),
                "sysctl/net.core.busy_poll" => Err(Refusal::new(Cause::Forbidden, "it takes root")),
                _ => Ok(None),
            }
        }

        fn write(&mut self, _: &Knob, _: Option<&Setting>) -> Result<(), Refusal> {
            panic!("status writes nothing")
        }

        fn boot_id(&mut self) -> Result<String, Refusal> {
            Ok(String::new())
        }
    }
    let readings = read(&mut Made, &tc().plan);
    let has = |setting: Option<&str>| Reading::Has(setting.map(Setting::new));
    let unreadable = Reading::Unreadable("it takes root".to_owned());
    assert_eq!(readings, [has(Some("mq")), has(None), has(None), has(None), has(None), unreadable]);
}

#[test]
fn the_lanes_cards_are_watched_or_all() {
    let names = |lanes: &[Placed]| {
        let nic = |name: &str, up| Nic { name: name.to_owned(), up, ..Nic::default() };
        let facts = Facts { nics: vec![nic("a", true), nic("b", false), nic("c", true)], ..Facts::default() };
        let cards = cards_to_watch(lanes, &facts);
        cards.into_iter().map(|nic| nic.name.clone()).collect::<Vec<_>>().join(" ")
    };
    let lane = |nic: Option<&str>| Placed {
        nic: nic.map(str::to_owned),
        ..Stage::new(BackendWish::Soft).plan.lanes.remove(0)
    };
    assert_eq!(names(&[lane(Some("b")), lane(Some("c"))]), "b c");
    assert_eq!(names(&[lane(Some("c")), lane(None)]), "a c");
}
