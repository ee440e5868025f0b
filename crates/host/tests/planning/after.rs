//! Facts as they would be after a step: the inverse of `Facts::have`, so that a plan can be planned again.

use host::facts::{Facts, Feature, Filter, Nic, Queue, Thread};
use host::knob::{CpuKnob, NicKnob, ThreadKnob};
use host::{Cpus, Knob, Setting};

/// Writes a knob into facts. What a kernel does by itself on the way (a class's devlink parameters, new threads) comes with it.
pub(crate) fn write(facts: &mut Facts, knob: &Knob, want: Option<&Setting>) {
    let text = want.map(|it| it.as_str().to_owned());
    let value = text.clone().unwrap_or_default();
    match knob {
        Knob::Sysctl { name } => {
            facts.sysctls.insert(name.clone(), value);
        }
        Knob::Service { name } => {
            facts.daemons.iter_mut().find(|it| it.name == *name).unwrap().running = value == "running";
        }
        Knob::Cpu { cpu, what: CpuKnob::ResumeLatency } => {
            facts.cpus.iter_mut().find(|it| it.id == *cpu).unwrap().resume_latency_us = text;
        }
        Knob::Cgroup { group, file } => {
            facts.cgroup.groups.get_mut(group).unwrap().insert(file.clone(), value);
        }
        Knob::Thread { pid, tid, what, .. } => {
            let process = facts.processes.iter_mut().find(|it| it.pid == *pid).unwrap();
            let thread = process.threads.iter_mut().find(|it| it.tid == *tid).unwrap();
            match what {
                ThreadKnob::Affinity => thread.cpus = value.parse().unwrap(),
                ThreadKnob::Nice => thread.nice = value.parse().unwrap(),
                ThreadKnob::Scheduler => thread.scheduler = value,
            }
        }
        Knob::Rule { .. } | Knob::Route { .. } => put(&mut facts.routing, knob.to_string(), text),
        Knob::Nic { nic, knob } => write_nic(facts, nic, knob, text),
    }
}

fn put<K: Ord>(map: &mut std::collections::BTreeMap<K, String>, key: K, text: Option<String>) {
    match text {
        Some(text) => map.insert(key, text),
        None => map.remove(&key),
    };
}

fn queue(nic: &mut Nic, index: u32) -> &mut Queue {
    nic.queues.iter_mut().find(|queue| queue.index == index).unwrap_or_else(|| panic!("no queue {index}"))
}

fn write_nic(facts: &mut Facts, name: &str, knob: &NicKnob, text: Option<String>) {
    let nic = facts.nics.iter_mut().find(|it| it.name == name).unwrap();
    let value = text.clone().unwrap_or_default();
    let numbers: Vec<u32> = value.split(' ').filter_map(|word| word.parse().ok()).collect();
    let table_size = nic.rss.as_ref().map_or(0, |rss| rss.table.len());
    let cpus = || value.parse::<Cpus>().unwrap();
    match knob {
        NicKnob::Channels => {
            let channels = nic.channels.as_mut().unwrap();
            match (value.starts_with("combined"), numbers.as_slice()) {
                (true, [combined]) => channels.combined = *combined,
                (false, [rx, tx]) => (channels.rx, channels.tx) = (*rx, *tx),
                _ => panic!("{value}"),
            }
            let (count, first) = (numbers[0], nic.queues[0].clone());
            nic.queues.retain(|queue| queue.index < count);
            for index in u32::try_from(nic.queues.len()).unwrap()..count {
                nic.queues.push(Queue { index, irq: None, ..first.clone() });
            }
        }
        NicKnob::Rings => {
            let rings = nic.rings.as_mut().unwrap();
            (rings.rx, rings.tx) = (numbers[0], numbers[1]);
        }
        NicKnob::Feature(name) => {
            nic.features.insert(name.clone(), Feature { on: value == "on", fixed: false });
        }
        NicKnob::PrivateFlag(name) => {
            nic.private_flags.insert(name.clone(), value == "on");
        }
        NicKnob::Devlink(name) => {
            nic.devlink.insert(name.clone(), value);
        }
        NicKnob::Coalesce(None) => nic.coalesce = text,
        NicKnob::Indirection => {
            let (start, count) = match numbers.as_slice() {
                [count] => (0, *count),
                [start, count] => (*start, *count),
                _ => panic!("{value}"),
            };
            nic.rss.as_mut().unwrap().table = (start..start + count).cycle().take(table_size).collect();
        }
        NicKnob::Context(queues) => {
            let contexts = nic.rss.as_mut().unwrap().contexts.as_mut().unwrap();
            let id = u32::try_from(contexts.len()).unwrap() + 1;
            let all: Vec<u32> = queues.iter().collect();
            contexts.insert(id, all.iter().copied().cycle().take(table_size).collect());
        }
        NicKnob::Ntuple(location) => put(&mut nic.ntuple.as_mut().unwrap().rules, *location, text),
        NicKnob::Root => nic.root_qdisc = text,
        NicKnob::Clsact => nic.clsact = text.is_some(),
        NicKnob::Class(_) | NicKnob::Qdisc(_) => put(&mut nic.below_root, knob.to_string(), text),
        NicKnob::Filter(direction, pref) => {
            nic.filters.retain(|it| (it.direction, it.pref) != (*direction, *pref));
            nic.filters.extend(text.map(|text| Filter {
                direction: *direction,
                pref: *pref,
                text,
                in_hw: true,
            }));
        }
        NicKnob::Threaded => nic.threaded = Some(value == "1"),
        NicKnob::DeferHardIrqs => nic.defer_hard_irqs = Some(numbers[0]),
        NicKnob::GroFlushTimeout => nic.gro_flush_timeout = Some(numbers[0].into()),
        NicKnob::Coalesce(Some(index)) => queue(nic, *index).coalesce = text,
        NicKnob::IrqAffinity(index) => queue(nic, *index).irq_cpus = Some(cpus()),
        NicKnob::RpsCpus(index) => queue(nic, *index).rps_cpus = Some(cpus()),
        NicKnob::RpsFlowCount(index) => queue(nic, *index).rps_flow_cnt = Some(numbers[0]),
        NicKnob::XpsCpus(index) => queue(nic, *index).xps_cpus = Some(cpus()),
        NicKnob::XpsRxqs(index) => queue(nic, *index).xps_rxqs = Some(cpus()),
        NicKnob::Napi(index, setting) => {
            queue(nic, *index).napi_settings.insert(setting.clone(), value);
        }
        NicKnob::NapiThread(index) => {
            let mut words = value.splitn(3, ' ').skip(1);
            let cpus = words.next().unwrap().parse().unwrap();
            let scheduler = words.next().unwrap().to_owned();
            queue(nic, *index).napi_thread = Some(Thread { tid: 5000 + index, cpus, nice: 0, scheduler });
        }
    }
}
