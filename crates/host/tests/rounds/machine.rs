//! Machines as people have them: several cards, set up by someone who had reasons, and processes.

use host::facts::{
    Channels, Cpu, Daemon, Facts, Feature, Filter, Nic, Ntuple, Process, Queue, Rings, Rss, Thread,
};
use host::kernel::fake::Fake;
use host::knob::Direction;

use crate::chance::Chance;

pub(crate) const CPUS_COUNT: u32 = 8;
/// Queues that a card has at most.
pub(crate) const QUEUES_COUNT_MAX: u32 = 8;

pub(crate) fn machine(chance: &mut Chance) -> (Facts, Fake) {
    let mut facts = Facts {
        kernel: "6.18.0".to_owned(),
        boot_id: "first".to_owned(),
        cpus: (0..CPUS_COUNT).map(cpu).collect(),
        idle_driver: Some("intel_idle".to_owned()),
        ..Facts::default()
    };
    for (name, value) in [
        ("net.core.busy_poll", "0"),
        ("net.core.busy_read", "0"),
        ("net.core.somaxconn", "4096"),
        ("net.core.rps_sock_flow_entries", "0"),
    ] {
        facts.sysctls.insert(name.to_owned(), value.to_owned());
    }
    let running = !chance.one_in(3);
    facts.daemons.push(Daemon { name: "irqbalance".to_owned(), running, manageable: true, profile: None });
    for index in 0..1 + chance.below(2) {
        facts.nics.push(card(&format!("ens{index}"), chance));
    }
    for pid in [812, 813] {
        let threads = (0..1 + chance.below(3)).map(|n| Thread {
            tid: pid + n,
            cpus: some_cpus(chance).parse().expect("cpus"),
            nice: 0,
            scheduler: "other".to_owned(),
        });
        facts.processes.push(Process { pid, start: 5512, threads: threads.collect(), ..Process::default() });
    }
    let mut fake = Fake::of(&facts).with_cgroup("bulk", "cpuset.cpus", "");
    if chance.one_in(2) {
        fake = fake.with_cgroup("lane", "cpuset.cpus", "0-7");
    }
    (facts, fake)
}

/// Some were kept awake before.
fn cpu(id: u32) -> Cpu {
    let latency_us = ["0", "0", "n/a", "170"][(id % 4) as usize];
    Cpu { id, core: id, resume_latency_us: Some(latency_us.to_owned()), ..Cpu::default() }
}

fn card(name: &str, chance: &mut Chance) -> Nic {
    let driver = *chance.pick(&["ice", "mlx5_core", "veth", "virtio_net"]);
    let count = 1 + chance.below(QUEUES_COUNT_MAX);
    let has_hardware = matches!(driver, "ice" | "mlx5_core");
    let mut nic = Nic {
        name: name.to_owned(),
        mac: format!("02:00:00:00:00:{name:0>2}"),
        addresses: vec!["10.0.0.1/24".to_owned(), "2001:db8::1/64".to_owned()],
        gateways: vec!["2001:db8::ffff".to_owned()],
        speed_mbit: Some(100_000),
        driver: driver.to_owned(),
        up: true,
        channels: Some(Channels { combined: count, combined_max: QUEUES_COUNT_MAX, ..Channels::default() }),
        threaded: Some(chance.one_in(4)),
        root_qdisc: Some("mq".to_owned()),
        ..Nic::default()
    };
    if driver != "veth" {
        nic.rings = Some(Rings { rx: 1024, tx: 1024, rx_max: 4096, tx_max: 4096 });
        let table = if chance.one_in(3) { 1 + chance.below(count) } else { count };
        let contexts = (driver == "mlx5_core").then(Default::default);
        nic.rss = Some(Rss { table: (0..64).map(|place| place % table).collect(), writable: true, contexts });
        nic.coalesce = Some("adaptive-rx on rx-usecs 50".to_owned());
    }
    for feature in ["rx-gro", "tx-tcp-segmentation", "tx-scatter-gather", "tx-checksum-ip-generic"] {
        nic.features.insert(feature.to_owned(), Feature { on: true, fixed: false });
    }
    if chance.one_in(3) {
        let off = Feature { on: false, fixed: false };
        nic.features.insert("tx-tcp-segmentation".to_owned(), off);
    }
    if has_hardware {
        for feature in ["rx-ntuple-filter", "hw-tc-offload"] {
            nic.features.insert(feature.to_owned(), Feature { on: chance.one_in(2), fixed: false });
        }
        nic.private_flags.insert("fw-lldp-agent".to_owned(), true);
        let mut ntuple = Ntuple { capacity: 1024, ..Ntuple::default() };
        if nic.features["rx-ntuple-filter"].on && chance.one_in(2) {
            ntuple.rules.insert(7, "flow-type udp4 dst-port 53 action 0".to_owned());
        }
        nic.ntuple = Some(ntuple);
    }
    if chance.one_in(3) {
        nic.root_qdisc = Some("handle 1: htb default 10".to_owned());
        nic.below_root.insert("class/1:10".to_owned(), "parent 1: htb rate 1Gbit ceil 1Gbit".to_owned());
        nic.below_root.insert("qdisc/1:10".to_owned(), "fq".to_owned());
    }
    if chance.one_in(2) {
        nic.clsact = true;
        nic.filters.push(Filter {
            direction: Direction::Ingress,
            pref: 10,
            text: "protocol ip u32".to_owned(),
            in_hw: false,
        });
    }
    nic.queues = (0..count).map(|index| queue(index, &nic, chance)).collect();
    nic
}

fn queue(index: u32, nic: &Nic, chance: &mut Chance) -> Queue {
    let sometimes = |chance: &mut Chance| if chance.one_in(3) { some_cpus(chance) } else { String::new() };
    let mut queue = Queue {
        index,
        rps_cpus: Some(sometimes(chance).parse().expect("cpus")),
        rps_flow_cnt: Some(chance.below(2) * 4096),
        xps_cpus: Some(sometimes(chance).parse().expect("cpus")),
        xps_rxqs: Some("".parse().expect("cpus")),
        ..Queue::default()
    };
    if nic.driver != "veth" {
        queue.irq_cpus = Some(some_cpus(chance).parse().expect("cpus"));
    }
    if nic.private_flags.contains_key("fw-lldp-agent") {
        queue.coalesce = Some(format!("adaptive-rx off rx-usecs {}", chance.below(3) * 25));
    }
    queue.napi_settings.insert("defer-hard-irqs".to_owned(), (chance.below(2) * 5).to_string());
    queue.napi_settings.insert("gro-flush-timeout".to_owned(), (index * 1000).to_string());
    if nic.threaded == Some(true) {
        let cpus = some_cpus(chance).parse().expect("cpus");
        queue.napi_thread = Some(Thread { tid: 100 + index, cpus, nice: 0, scheduler: "other".to_owned() });
    }
    queue
}

/// A range.
pub(crate) fn some_cpus(chance: &mut Chance) -> String {
    let first = chance.below(CPUS_COUNT);
    let last = first + chance.below(CPUS_COUNT - first);
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}
