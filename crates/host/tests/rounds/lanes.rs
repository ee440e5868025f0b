//! Files at random, planned by the planner itself.

use host::facts::{Facts, Filter, Nic, Queue, Thread};
use host::kernel::fake::Fake;
use host::knob::{CpuKnob, NicKnob, ThreadKnob};
use host::{Knob, Plan, Spec, plan};

use crate::chance::Chance;

/// A wish for some of the machine's cards; None where it can't be had.
pub(crate) fn plan_at_random(facts: &Facts, chance: &mut Chance) -> Option<(String, Plan)> {
    let mut text = String::new();
    let mut add = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    add("[host]\nsysctls = { \"net.core.somaxconn\" = 8192 }".to_owned());
    let mut ports = 6379;
    let mut lanes = Vec::new();
    for nic in &facts.nics {
        add(format!("[[nic]]\nname = \"{}\"", nic.name));
        let backends = ["auto", "auto", "soft", "virtual", "rss-ntuple", "process"];
        let backend = *chance.pick(&backends);
        add(format!("backend = \"{backend}\""));
        if nic.rings.is_some() && chance.one_in(3) {
            add("rx-ring = 2048".to_owned());
        }
        if chance.one_in(3) {
            add("features = { \"rx-gro\" = false }".to_owned());
        }
        if chance.one_in(3) {
            add("source-routing = true\ngateway = \"10.0.0.254\"".to_owned());
        }
        for _ in 0..1 + chance.below(2) {
            lanes.push((nic.name.clone(), backend != "process", ports));
            ports += 10;
        }
    }
    let divides_any = lanes.iter().any(|(_, divides, _)| *divides);
    for (nic, divides, first) in lanes {
        let count = 1 + chance.below(2);
        let last = first + count - 1;
        add(format!("[[lane]]\nname = \"lane-{first}\"\nnic = \"{nic}\"\nports = \"{first}-{last}\""));
        if chance.one_in(2) {
            add("mode = \"one-queue-per-port\"".to_owned());
        } else if divides {
            add(format!("queues = {}", [1, 2][chance.below(2) as usize]));
        }
        // What is of queues, and is refused where the card's are left alone.
        for (line, of, of_queues) in [
            ("threaded = true", 3, true),
            ("busy-poll-us = 50", 3, false),
            ("resume-latency-us = 0", 4, false),
            ("irq = \"reserved 0\"", 4, true),
            ("moderation = { adaptive-rx = false, rx-usecs = 10 }", 3, true),
            ("rate-max = \"1Gbit\"", 3, true),
            ("nice = -5\nprocess = { pid = 812 }", 4, false),
            ("process = { pid = 813 }", 4, false),
        ] {
            if chance.one_in(of) && (divides || !of_queues) {
                add(line.to_owned());
            }
        }
    }
    let queues = 1 + chance.below(2);
    if divides_any {
        add(format!("[default]\nqueues = {queues}"));
    }
    let spec = Spec::parse(&text).ok()?;
    plan::plan(&spec, facts).ok().map(|plan| (text, plan))
}

/// The facts that a probe would read now, of what plans look at.
pub(crate) fn facts_now(facts: &Facts, fake: &Fake) -> Facts {
    let mut now = facts.clone();
    for nic in &mut now.nics {
        nic.queues.clear();
        nic.clsact = false;
        nic.filters.clear();
        nic.below_root.clear();
        nic.ntuple.iter_mut().for_each(|ntuple| ntuple.rules.clear());
        if let Some(contexts) = nic.rss.as_mut().and_then(|rss| rss.contexts.as_mut()) {
            contexts.clear();
        }
    }
    now.routing.clear();
    for (knob, setting) in fake.seen() {
        let text = setting.to_string();
        match &knob {
            Knob::Sysctl { name } => drop(now.sysctls.insert(name.clone(), text)),
            Knob::Service { name } => {
                let daemons = now.daemons.iter_mut().filter(|daemon| daemon.name == *name);
                daemons.for_each(|daemon| daemon.running = text == "running");
            }
            Knob::Rule { .. } | Knob::Route { .. } => drop(now.routing.insert(knob.to_string(), text)),
            Knob::Thread { tid, what, .. } => {
                let threads = now.processes.iter_mut().flat_map(|process| &mut process.threads);
                for thread in threads.filter(|thread| thread.tid == *tid) {
                    match what {
                        ThreadKnob::Affinity => thread.cpus = text.parse().expect("cpus"),
                        ThreadKnob::Nice => thread.nice = text.parse().expect("a number"),
                        ThreadKnob::Scheduler => thread.scheduler.clone_from(&text),
                    }
                }
            }
            Knob::Nic { nic, knob } => {
                let nic = now.nics.iter_mut().find(|other| other.name == *nic).expect("no card is new");
                card_now(nic, knob, &text);
            }
            Knob::Cpu { cpu, what: CpuKnob::ResumeLatency } => {
                let cpus = now.cpus.iter_mut().filter(|other| other.id == *cpu);
                cpus.for_each(|cpu| cpu.resume_latency_us = Some(text.clone()));
            }
            Knob::Cgroup { .. } => {}
        }
    }
    now.nics.iter_mut().for_each(|nic| nic.queues.sort_by_key(|queue| queue.index));
    now
}

fn card_now(nic: &mut Nic, knob: &NicKnob, text: &str) {
    let cpus = || Some(text.parse().expect("cpus"));
    match knob {
        NicKnob::Channels => {
            let combined = text.split(' ').nth(1).expect("combined and a number");
            nic.channels.as_mut().expect("it has some").combined = combined.parse().expect("a number");
        }
        NicKnob::Rings => {
            let number = |at| text.split(' ').nth(at).and_then(|word| word.parse().ok()).expect("a number");
            let rings = nic.rings.as_mut().expect("it has some");
            (rings.rx, rings.tx) = (number(1), number(3));
        }
        NicKnob::Feature(name) => nic.features.get_mut(name).expect("no feature is new").on = text == "on",
        NicKnob::PrivateFlag(name) => drop(nic.private_flags.insert(name.clone(), text == "on")),
        NicKnob::Devlink(name) => drop(nic.devlink.insert(name.clone(), text.to_owned())),
        NicKnob::Coalesce(None) => nic.coalesce = Some(text.to_owned()),
        NicKnob::Indirection => {
            let count: u32 = text.strip_prefix("equal ").and_then(|n| n.parse().ok()).expect("it is even");
            nic.rss.as_mut().expect("it has a table").table = (0..64).map(|place| place % count).collect();
        }
        NicKnob::Context(queues) => {
            let contexts = nic.rss.as_mut().and_then(|rss| rss.contexts.as_mut()).expect("it has some");
            let id = u32::try_from(contexts.len()).expect("there are few");
            contexts.insert(id, queues.iter().collect());
        }
        NicKnob::Ntuple(location) => {
            nic.ntuple.as_mut().expect("it has rules").rules.insert(*location, text.to_owned());
        }
        NicKnob::Root => nic.root_qdisc = Some(text.to_owned()),
        NicKnob::Clsact => nic.clsact = true,
        NicKnob::Class(_) | NicKnob::Qdisc(_) => {
            drop(nic.below_root.insert(knob.to_string(), text.to_owned()))
        }
        NicKnob::Filter(direction, pref) => {
            let (direction, pref, text) = (*direction, *pref, text.to_owned());
            nic.filters.push(Filter { direction, pref, text, in_hw: true });
        }
        NicKnob::Coalesce(Some(index)) => queue(nic, *index).coalesce = Some(text.to_owned()),
        NicKnob::IrqAffinity(index) => queue(nic, *index).irq_cpus = cpus(),
        NicKnob::RpsCpus(index) => queue(nic, *index).rps_cpus = cpus(),
        NicKnob::RpsFlowCount(index) => queue(nic, *index).rps_flow_cnt = text.parse().ok(),
        NicKnob::XpsCpus(index) => queue(nic, *index).xps_cpus = cpus(),
        NicKnob::XpsRxqs(index) => queue(nic, *index).xps_rxqs = cpus(),
        NicKnob::Threaded => nic.threaded = Some(text == "1"),
        NicKnob::DeferHardIrqs => nic.defer_hard_irqs = text.parse().ok(),
        NicKnob::GroFlushTimeout => nic.gro_flush_timeout = text.parse().ok(),
        NicKnob::Napi(index, name) => {
            queue(nic, *index).napi_settings.insert(name.clone(), text.to_owned());
        }
        NicKnob::NapiThread(index) => {
            let mut words = text.splitn(3, ' ').skip(1);
            let cpus = words.next().and_then(|word| word.parse().ok()).expect("cpus");
            let scheduler = words.next().expect("a policy").to_owned();
            queue(nic, *index).napi_thread = Some(Thread { tid: 100 + index, cpus, nice: 0, scheduler });
        }
    }
}

fn queue(nic: &mut Nic, index: u32) -> &mut Queue {
    let at = nic.queues.iter().position(|queue| queue.index == index).unwrap_or_else(|| {
        nic.queues.push(Queue { index, ..Queue::default() });
        nic.queues.len() - 1
    });
    &mut nic.queues[at]
}
