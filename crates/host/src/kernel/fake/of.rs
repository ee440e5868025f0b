//! A made-up machine from facts: every setting that the facts name, at the knob that sets it.

use std::collections::BTreeMap;

use super::{Card, Fake};
use crate::Cpus;
use crate::facts::{Facts, Nic, spread_text};
use crate::knob::{CpuKnob, Knob, NicKnob, Setting, ThreadKnob};

/// Locations of rules on a card whose facts don't say.
const RULES_COUNT: u32 = 1024;
/// What a card whose qdisc is unknown has: every card with several queues has it.
const ROOT: &str = "mq";
/// Per-NAPI settings of queues that are made anew.
const NAPI_DEFAULT: &str = "0";

impl Fake {
    /// The machine that these facts describe.
    #[must_use]
    pub fn of(facts: &Facts) -> Fake {
        let mut fake = Fake {
            boot: facts.boot_id.clone(),
            cpus: facts.cpus.iter().map(|cpu| cpu.id).collect(),
            ..Fake::default()
        };
        for cpu in &facts.cpus {
            let knob = Knob::Cpu { cpu: cpu.id, what: CpuKnob::ResumeLatency };
            fake.settings.extend(cpu.resume_latency_us.as_ref().map(|value| (knob, Setting::new(value))));
        }
        for (name, value) in &facts.sysctls {
            fake.settings.insert(Knob::sysctl(name), Setting::new(value));
        }
        for daemon in &facts.daemons {
            let state = if daemon.running { "running" } else { "stopped" };
            fake.settings.insert(Knob::Service { name: daemon.name.clone() }, Setting::new(state));
        }
        for (path, value) in &facts.routing {
            let knob = path.parse().expect("routing holds rules and routes by their paths");
            fake.settings.insert(knob, Setting::new(value));
        }
        for (group, files) in &facts.cgroup.groups {
            for (file, value) in files {
                fake = fake.with_cgroup(group, file, value);
            }
        }
        for process in &facts.processes {
            let (pid, start) = (process.pid, process.start);
            fake.processes.insert((pid, start));
            for thread in &process.threads {
                let knob = |what| Knob::Thread { pid, start, tid: thread.tid, what };
                fake.settings.insert(knob(ThreadKnob::Affinity), Setting::new(thread.cpus.to_string()));
                fake.settings.insert(knob(ThreadKnob::Nice), Setting::new(thread.nice.to_string()));
                fake.settings.insert(knob(ThreadKnob::Scheduler), Setting::new(&thread.scheduler));
            }
        }
        for nic in &facts.nics {
            fake.add_card(nic);
        }
        fake
    }

    /// A file of a control group, which facts don't hold.
    #[must_use]
    pub fn with_cgroup(mut self, group: &str, file: &str, value: &str) -> Fake {
        let knob = Knob::Cgroup { group: group.to_owned(), file: file.to_owned() };
        self.settings.insert(knob, Setting::new(value));
        self
    }

    fn add_card(&mut self, nic: &Nic) {
        let card = Card {
            is_veth: nic.driver == "veth",
            root: Setting::new(ROOT),
            queue_knobs: self.queue_knobs(nic),
            queues_count_max: nic
                .channels
                .map_or(u32::MAX, |channels| channels.combined_max.max(channels.rx_max).max(channels.tx_max)),
            rules_count_max: match &nic.ntuple {
                Some(ntuple) if ntuple.capacity == 0 => RULES_COUNT,
                Some(ntuple) => ntuple.capacity,
                None => 0,
            },
            has_contexts: nic.rss.as_ref().is_some_and(|rss| rss.contexts.is_some()),
            can_filter: true,
            wanted: nic.features.iter().filter(|(_, f)| f.on).map(|(name, _)| name.clone()).collect(),
        };
        self.cards.insert(nic.name.clone(), card);
        for (knob, setting) in settings(nic) {
            self.settings.insert(Knob::nic(&nic.name, knob), setting);
        }
        // Of queues that the facts tell little about, what a queue has by itself.
        let count = self.queues_count(&nic.name);
        for queue in 0..count {
            for (knob, setting) in self.cards[&nic.name].queue_knobs.clone() {
                self.settings.entry(Knob::nic(&nic.name, knob.of_queue(queue))).or_insert(setting);
            }
        }
    }

    /// The knobs that every queue of a card has, with what they have on a new one.
    fn queue_knobs(&self, nic: &Nic) -> Vec<(NicKnob, Setting)> {
        let Some(queue) = nic.queues.first() else { return Vec::new() };
        let empty = || Setting::new("");
        let mut knobs = Vec::new();
        let mut add = |is_there: bool, knob, setting| {
            if is_there {
                knobs.push((knob, setting));
            }
        };
        add(queue.irq_cpus.is_some(), NicKnob::IrqAffinity(0), Setting::new(self.cpus.to_string()));
        add(queue.rps_cpus.is_some(), NicKnob::RpsCpus(0), empty());
        add(queue.rps_flow_cnt.is_some(), NicKnob::RpsFlowCount(0), Setting::new("0"));
        add(queue.xps_cpus.is_some(), NicKnob::XpsCpus(0), empty());
        add(queue.xps_rxqs.is_some(), NicKnob::XpsRxqs(0), empty());
        let moderation = nic.coalesce.as_ref().or(queue.coalesce.as_ref());
        add(
            queue.coalesce.is_some(),
            NicKnob::Coalesce(Some(0)),
            Setting::new(moderation.map_or("", String::as_str)),
        );
        for name in queue.napi_settings.keys() {
            add(true, NicKnob::Napi(0, name.clone()), Setting::new(NAPI_DEFAULT));
        }
        add(
            nic.threaded.is_some(),
            NicKnob::NapiThread(0),
            Setting::new(format!("cpus {} other", self.cpus)),
        );
        knobs
    }
}

/// What a card has, knob by knob.
fn settings(nic: &Nic) -> Vec<(NicKnob, Setting)> {
    let on_off = |on: bool| Setting::new(if on { "on" } else { "off" });
    let mut all = Vec::new();
    all.extend(nic.channels.map(|channels| (NicKnob::Channels, Setting::new(channels.text()))));
    all.extend(nic.rings.map(|r| (NicKnob::Rings, Setting::new(format!("rx {} tx {}", r.rx, r.tx)))));
    all.extend(nic.features.iter().map(|(name, f)| (NicKnob::Feature(name.clone()), on_off(f.on))));
    all.extend(nic.private_flags.iter().map(|(name, on)| (NicKnob::PrivateFlag(name.clone()), on_off(*on))));
    all.extend(nic.devlink.iter().map(|(name, v)| (NicKnob::Devlink(name.clone()), Setting::new(v))));
    all.extend(nic.coalesce.as_ref().map(|text| (NicKnob::Coalesce(None), Setting::new(text))));
    if let Some(rss) = nic.rss.as_ref().filter(|rss| !rss.table.is_empty()) {
        all.push((NicKnob::Indirection, Setting::new(spread_text(&rss.table))));
    }
    for table in nic.rss.iter().filter_map(|rss| rss.contexts.as_ref()).flat_map(BTreeMap::values) {
        let queues: Cpus = table.iter().copied().collect();
        let text = Setting::new(format!("equal {}", queues.count()));
        all.push((NicKnob::Context(queues), text));
    }
    for (location, rule) in nic.ntuple.iter().flat_map(|ntuple| &ntuple.rules) {
        all.push((NicKnob::Ntuple(*location), Setting::new(rule)));
    }
    all.extend(nic.threaded.map(|on| (NicKnob::Threaded, Setting::new(if on { "1" } else { "0" }))));
    all.extend(nic.defer_hard_irqs.map(|n| (NicKnob::DeferHardIrqs, Setting::new(n.to_string()))));
    all.extend(nic.gro_flush_timeout.map(|n| (NicKnob::GroFlushTimeout, Setting::new(n.to_string()))));
    all.push((NicKnob::Root, Setting::new(nic.root_qdisc.as_deref().unwrap_or(ROOT))));
    for (path, text) in &nic.below_root {
        let knob = path.parse().expect("what lies below a root is a class or a qdisc");
        all.push((knob, Setting::new(text)));
    }
    all.extend(nic.clsact.then(|| (NicKnob::Clsact, Setting::new("clsact"))));
    for filter in &nic.filters {
        all.push((NicKnob::Filter(filter.direction, filter.pref), Setting::new(&filter.text)));
    }
    for queue in &nic.queues {
        let index = queue.index;
        let cpus = |cpus: &Cpus| Setting::new(cpus.to_string());
        all.extend(queue.irq_cpus.as_ref().map(|c| (NicKnob::IrqAffinity(index), cpus(c))));
        all.extend(queue.coalesce.as_ref().map(|c| (NicKnob::Coalesce(Some(index)), Setting::new(c))));
        all.extend(queue.rps_cpus.as_ref().map(|c| (NicKnob::RpsCpus(index), cpus(c))));
        all.extend(queue.rps_flow_cnt.map(|n| (NicKnob::RpsFlowCount(index), Setting::new(n.to_string()))));
        all.extend(queue.xps_cpus.as_ref().map(|c| (NicKnob::XpsCpus(index), cpus(c))));
        all.extend(queue.xps_rxqs.as_ref().map(|c| (NicKnob::XpsRxqs(index), cpus(c))));
        for (name, value) in &queue.napi_settings {
            all.push((NicKnob::Napi(index, name.clone()), Setting::new(value)));
        }
        if let Some(thread) = &queue.napi_thread {
            let text = format!("cpus {} {}", thread.cpus, thread.scheduler);
            all.push((NicKnob::NapiThread(index), Setting::new(text)));
        }
    }
    all
}
