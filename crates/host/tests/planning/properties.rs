//! What holds of every plan, tried on machines that are changed at random and wishes that are drawn.

use std::collections::BTreeSet;

use host::facts::{Facts, Feature};
use host::knob::NicKnob;
use host::{Knob, Spec, plan};

use super::{after, facts};

/// Wishes that are drawn in all; about half of them have a plan.
const ROUNDS: u64 = 600;
const MACHINES: &[&str] = &[
    "e810-ice",
    "e810-ice-oot",
    "connectx-mlx5",
    "x710-i40e",
    "82599-ixgbe",
    "ena",
    "gvnic",
    "virtio",
    "veth",
];

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % count
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// A machine with something else about it.
fn draw_facts(chance: &mut Chance) -> Facts {
    let mut facts = facts(chance.of(MACHINES));
    let nic = &mut facts.nics[0];
    if chance.one_in(4)
        && let Some(ntuple) = &mut nic.ntuple
    {
        ntuple.rules.insert(ntuple.capacity - 1, "flow-type udp4 dst-port 53 action 0".to_owned());
    }
    if chance.one_in(4) {
        nic.clsact = true;
        let text = "protocol ip u32".to_owned();
        let direction = host::knob::Direction::Ingress;
        nic.filters.push(host::facts::Filter { direction, pref: 49_002, text, in_hw: false });
    }
    if chance.one_in(6) {
        nic.features.insert("rx-ntuple-filter".to_owned(), Feature { on: false, fixed: false });
    }
    if chance.one_in(8) {
        nic.addresses = vec!["192.0.2.99/24".to_owned(), "2001:db8::99/64".to_owned()];
        nic.gateways = vec!["192.0.2.254".to_owned(), "2001:db8::254".to_owned()];
    }
    if chance.one_in(6) {
        nic.queues
            .iter_mut()
            .for_each(|queue| queue.rps_cpus = queue.rps_cpus.as_ref().map(|_| "0".parse().unwrap()));
    }
    if chance.one_in(8) {
        facts.cpus.iter_mut().skip(2).step_by(3).for_each(|cpu| cpu.isolated = true);
    }
    if !chance.one_in(4) {
        facts.idle_driver = Some("intel_idle".to_owned());
    }
    if !chance.one_in(4) {
        facts.cpus.iter_mut().skip(1).for_each(|cpu| cpu.resume_latency_us = Some("0".to_owned()));
    }
    facts
}

/// A file for it, as text, so that what a user can write is what is drawn.
fn draw_wish(chance: &mut Chance, facts: &Facts) -> String {
    let mut text = String::from("[host]\n");
    let mut add = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    if chance.one_in(4) {
        add("irqbalance = 'leave'");
    }
    if chance.one_in(6) {
        add("sysctls = { 'net.core.somaxconn' = 4096 }");
    }
    let with_card = !chance.one_in(10);
    let nic = &facts.nics[0].name;
    // Whether the file may say what becomes of queues.
    let mut divides = true;
    if with_card {
        add(&format!("[[nic]]\nname = '{nic}'"));
        let backends =
            ["auto", "auto", "auto", "auto", "tc-channel", "rss-ntuple", "virtual", "soft", "process"];
        let backend = chance.of(&backends);
        divides = backend != "process";
        add(&format!("backend = '{backend}'"));
        if chance.one_in(5) {
            add(&format!("channels = {}", 1 + chance.below(16)));
        }
        if chance.one_in(5) {
            add("arp-filter = true\nsource-routing = true");
        }
        if chance.one_in(6) && divides {
            add("moderation = { rx-usecs = 20, adaptive-rx = false }");
        }
        if chance.one_in(8) {
            add("rx-ring = 512");
        }
    }
    for lane in 0..=chance.below(3) {
        let first = 1000 * (lane + 1);
        add(&format!("[[lane]]\nname = 'l{lane}'"));
        if with_card {
            let last = first + chance.below(4);
            add(&format!("ports = '{first}-{last}'"));
            match chance.below(3) {
                0 => add("mode = 'one-queue-per-port'"),
                1 if divides => add(&format!("queues = {}", 1 << chance.below(3))),
                _ => {}
            }
            if chance.one_in(4) {
                add(&format!("remote-ports = {}", first + 500));
            }
            if chance.one_in(4) {
                let address = facts.nics[0].addresses[0].split('/').next().unwrap();
                add(&format!("addresses = ['{address}']"));
            }
            if chance.one_in(6) && divides {
                add("rate-max = '1Gbit'");
            }
            match chance.below(5) {
                0 if divides => add("threaded = true"),
                1 => add("busy-poll-us = 50"),
                _ => {}
            }
            if chance.one_in(3) && divides {
                add("irq = 'on-lane'");
            }
            if chance.one_in(4) && divides {
                add("moderation = { adaptive-rx = false, rx-usecs = 30, tx-usecs = 0 }");
            }
            if chance.one_in(5) {
                add("priority = 'app'");
            }
        }
        if chance.one_in(3) {
            add("process = { name = 'redis-server' }\nnice = -5");
        }
        if chance.one_in(4) {
            add(&format!("resume-latency-us = {}", 20 * chance.below(2)));
        }
    }
    add("[default]");
    if chance.one_in(4) && with_card && divides {
        add(&format!("queues = {}", 1 + chance.below(4)));
    }
    if chance.one_in(6) && with_card && divides {
        add("rate-max = '500Mbit'");
    }
    if chance.one_in(3) {
        add("process = [{ name = 'backup' }, { name = 'redis-bulk' }]");
    }
    text
}

/// The facts once all steps were applied.
fn applied(facts: &Facts, plan: &plan::Plan) -> Facts {
    let mut facts = facts.clone();
    for step in &plan.steps {
        after::write(&mut facts, &step.knob, step.want.as_ref());
    }
    facts
}

#[test]
fn every_plan_keeps_its_promises() {
    let (mut plans, mut refused) = (0, 0);
    let mut backends: Vec<String> = Vec::new();
    for seed in 0..ROUNDS {
        let mut chance = Chance(seed);
        let facts = draw_facts(&mut chance);
        let text = draw_wish(&mut chance, &facts);
        let spec = Spec::parse(&text).unwrap_or_else(|problems| panic!("seed {seed}: {problems:#?}\n{text}"));
        let plan = match plan::plan(&spec, &facts) {
            Ok(plan) => plan,
            Err(problems) => {
                refused += 1;
                for problem in &problems {
                    assert!(names_a_key(&problem.0), "seed {seed}: names no key: {problem}\n{text}");
                }
                continue;
            }
        };
        plans += 1;
        backends.extend(plan.lanes.iter().map(|lane| format!("{:?}", lane.backend)));
        assert_eq!(plan::plan(&spec, &facts).as_ref(), Ok(&plan), "seed {seed}: planned twice");
        check_knobs(seed, &spec, &facts, &plan);
        check_seats(seed, &facts, &plan);
        let then = applied(&facts, &plan);
        for step in &plan.steps {
            assert_eq!(
                then.have(&step.knob).unwrap(),
                step.want,
                "seed {seed}: {} reads as written",
                step.knob
            );
        }
        match plan::plan(&spec, &then) {
            Ok(again) => {
                for step in &again.steps {
                    let (have, want) = (&step.have, &step.want);
                    assert!(
                        !step.has_work(),
                        "seed {seed}: {}: {have:?} -> {want:?} again\n{text}",
                        step.knob
                    );
                }
                let knobs =
                    |plan: &plan::Plan| plan.steps.iter().map(|it| it.knob.clone()).collect::<BTreeSet<_>>();
                // Apply takes back what a new plan does not name.
                let (first, second) = (knobs(&plan), knobs(&again));
                let differs: Vec<&Knob> = first.symmetric_difference(&second).collect();
                assert!(differs.is_empty(), "seed {seed}: knobs of one plan alone: {differs:?}\n{text}");
                assert_eq!(again.lanes, plan.lanes, "seed {seed}: lanes stay where they are\n{text}");
            }
            Err(problems) => panic!("seed {seed}: refused once applied: {problems:#?}\n{text}"),
        }
    }
    assert!(plans > ROUNDS / 4 && refused > ROUNDS / 20, "{plans} plans, {refused} refused");
    backends.sort_unstable();
    backends.dedup();
    assert_eq!(backends, ["Process", "RssNtuple", "Soft", "TcChannel", "Virtual"]);
}

/// A key or table of the file in backticks or brackets, or the machine's cores, which no key alone is about.
fn names_a_key(problem: &str) -> bool {
    let keys = [
        "`queues`",
        "`cores`",
        "`channels`",
        "`ports`",
        "`backend`",
        "`rate-",
        "`irq",
        "`threaded`",
        "`source-routing`",
        "`process`",
        "`rx-ring`",
        "nic `",
        "/",
    ];
    keys.iter().any(|key| problem.contains(key))
}

fn check_knobs(seed: u64, spec: &Spec, facts: &Facts, plan: &plan::Plan) {
    let named: Vec<&str> = spec.nics.iter().map(|nic| nic.name.as_str()).collect();
    for (index, step) in plan.steps.iter().enumerate() {
        let twice = plan.steps[..index].iter().any(|other| other.knob == step.knob);
        assert!(!twice, "seed {seed}: {} is there twice", step.knob);
        let path = step.knob.to_string();
        assert_eq!(path.parse::<Knob>().as_ref(), Ok(&step.knob), "seed {seed}: {path}");
        assert!(step.want.is_some(), "seed {seed}: {path} takes something away");
        for knob in std::iter::once(&step.knob).chain(&step.disturbs) {
            if let Knob::Nic { nic, .. } = knob {
                assert!(
                    named.contains(&nic.as_str()),
                    "seed {seed}: {knob} is of a card that the file does not name"
                );
            }
        }
        for knob in &step.disturbs {
            assert!(facts.have(knob).is_ok(), "seed {seed}: {path} disturbs {knob}, which is not there");
        }
        assert!(!step.why.is_empty(), "seed {seed}: {path} says not why");
    }
    check_order(seed, plan);
}

/// What stands on something comes after it.
fn check_order(seed: u64, plan: &plan::Plan) {
    let rank = |knob: &Knob| match knob {
        Knob::Service { .. } => 0,
        Knob::Nic { knob: NicKnob::Indirection, .. } => 1,
        Knob::Nic { knob: NicKnob::Channels | NicKnob::Rings | NicKnob::PrivateFlag(_), .. } => 2,
        Knob::Nic { knob: NicKnob::Feature(_), .. } => 3,
        Knob::Nic { knob: NicKnob::Root | NicKnob::Class(_) | NicKnob::Clsact, .. } => 4,
        Knob::Nic { knob: NicKnob::Devlink(_), .. } => 5,
        Knob::Nic { knob: NicKnob::Filter(..) | NicKnob::Ntuple(_) | NicKnob::Context(_), .. } => 6,
        Knob::Nic { knob: NicKnob::Coalesce(_), .. } => 7,
        Knob::Nic { knob: NicKnob::IrqAffinity(_), .. } => 8,
        Knob::Nic { knob: NicKnob::DeferHardIrqs | NicKnob::GroFlushTimeout, .. } => 9,
        Knob::Nic { knob: NicKnob::Threaded | NicKnob::Napi(..) | NicKnob::NapiThread(_), .. } => 9,
        Knob::Nic { .. } => 10,
        Knob::Sysctl { .. } => 11,
        Knob::Cpu { .. } => 12,
        Knob::Thread { .. } | Knob::Cgroup { .. } => 13,
        Knob::Rule { .. } | Knob::Route { .. } => 14,
    };
    let is_table =
        |knob: &Knob| matches!(knob, Knob::Nic { knob: NicKnob::Indirection | NicKnob::PrivateFlag(_), .. });
    let ranks: Vec<u32> =
        plan.steps.iter().filter(|step| !is_table(&step.knob)).map(|step| rank(&step.knob)).collect();
    assert!(ranks.is_sorted(), "seed {seed}: {ranks:?}");
    // A table names only queues that are there before and after.
    let place = |knob: NicKnob| {
        plan.steps.iter().position(|step| matches!(&step.knob, Knob::Nic { knob: it, .. } if *it == knob))
    };
    if let (Some(table), Some(channels)) = (place(NicKnob::Indirection), place(NicKnob::Channels)) {
        let step = &plan.steps[channels];
        let count = |setting: &Option<host::Setting>| {
            setting.as_ref().and_then(|it| it.words().nth(1)?.parse::<u32>().ok())
        };
        assert_eq!(
            count(&step.want) < count(&step.have),
            table < channels,
            "seed {seed}: the table and the queues"
        );
    }
}

/// Lanes share no core and no queue, and have what is online.
fn check_seats(seed: u64, facts: &Facts, plan: &plan::Plan) {
    for (index, lane) in plan.lanes.iter().enumerate() {
        assert!(!lane.cores.is_empty() && lane.cores.is_within(&facts.online()), "seed {seed}: {lane:?}");
        assert!(!lane.irq_cores.is_empty(), "seed {seed}: {lane:?}");
        for other in &plan.lanes[..index] {
            assert!(
                !lane.cores.overlaps(&other.cores),
                "seed {seed}: cores of {} and {}",
                lane.name,
                other.name
            );
            let queues = lane.nic == other.nic && lane.queues.overlaps(&other.queues);
            assert!(!queues, "seed {seed}: queues of {} and {}", lane.name, other.name);
        }
        let foreign = plan
            .lanes
            .iter()
            .filter(|other| other.name != lane.name)
            .any(|other| other.cores.overlaps(&lane.irq_cores));
        assert!(!foreign, "seed {seed}: interrupts of {} on another lane's cores", lane.name);
    }
}
