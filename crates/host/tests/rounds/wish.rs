//! Plans at random, in the order that a real one has, with everything listed that a step resets beside its own knob.

use host::facts::{Facts, Nic};
use host::kernel::fake::Fake;
use host::knob::{CpuKnob, Direction, Family, NicKnob, ThreadKnob};
use host::{Cpus, Kernel, Knob, Plan, Setting, Step};

use crate::chance::Chance;
use crate::machine::{CPUS_COUNT, QUEUES_COUNT_MAX, some_cpus};

/// A plan for the machine as it is now.
pub(crate) fn plan(facts: &Facts, fake: &Fake, chance: &mut Chance) -> Plan {
    let mut maker = Maker { fake: fake.clone(), plan: Plan::default(), chance };
    if maker.chance.one_in(2) {
        maker.set(Knob::Service { name: "irqbalance".to_owned() }, "stopped", vec![]);
    }
    for nic in &facts.nics {
        maker.card(nic);
    }
    maker.host(facts);
    maker.plan
}

struct Maker<'a> {
    /// Only read.
    fake: Fake,
    plan: Plan,
    chance: &'a mut Chance,
}

impl Maker<'_> {
    fn step(&mut self, knob: Knob, want: Option<Setting>, disturbs: Vec<Knob>) {
        let have = self.fake.read(&knob).ok().flatten();
        let why = "chance".to_owned();
        self.plan.steps.push(Step { knob, have, want, why, risks: vec![], disturbs });
    }

    fn set(&mut self, knob: Knob, want: impl AsRef<str>, disturbs: Vec<Knob>) {
        self.step(knob, Some(Setting::new(want)), disturbs);
    }

    fn has(&mut self, nic: &Nic, knob: NicKnob) -> Option<String> {
        self.fake.read(&Knob::nic(&nic.name, knob)).ok().flatten().map(|setting| setting.to_string())
    }

    fn card(&mut self, nic: &Nic) {
        let name = nic.name.as_str();
        let on = |knob| Knob::nic(name, knob);
        let is_hardware = nic.ntuple.is_some();
        let mut queues = nic.channels.expect("every card has some").combined;
        if self.chance.one_in(2) {
            if self.chance.one_in(2) && nic.rss.is_some() {
                self.set(on(NicKnob::Indirection), "equal 1", vec![]);
            }
            queues = 1 + self.chance.below(QUEUES_COUNT_MAX);
            let mut disturbs = per_queue(name);
            disturbs.push(on(NicKnob::Indirection));
            self.set(on(NicKnob::Channels), format!("combined {queues}"), disturbs);
        }
        if nic.rings.is_some() && self.chance.one_in(3) {
            self.set(on(NicKnob::Rings), "rx 4096 tx 512", xps(name));
        }
        let mut has_rules = false;
        if is_hardware {
            if self.chance.one_in(3) {
                self.set(on(NicKnob::PrivateFlag("fw-lldp-agent".to_owned())), "off", vec![]);
            }
            for feature in ["rx-ntuple-filter", "hw-tc-offload"] {
                self.set(on(NicKnob::Feature(feature.to_owned())), "on", vec![]);
            }
            has_rules = true;
        }
        if self.chance.one_in(4) {
            let napi =
                per_queue(name).into_iter().filter(|knob| knob.to_string().contains("/napi/")).collect();
            self.set(on(NicKnob::Feature("rx-gro".to_owned())), "off", napi);
        }
        if self.chance.one_in(4) {
            let feature = |name: &str| on(NicKnob::Feature(name.to_owned()));
            self.set(feature("tx-tcp-segmentation"), "off", vec![]);
            self.set(feature("tx-scatter-gather"), "off", vec![feature("tx-tcp-segmentation")]);
        }
        if nic.rss.is_some() && self.chance.one_in(2) {
            let count = 1 + self.chance.below(queues);
            self.set(on(NicKnob::Indirection), format!("equal {count}"), vec![]);
        }
        let has_classes = self.root(nic, queues, is_hardware);
        self.filters(nic, has_classes);
        if has_rules && self.chance.one_in(2) {
            self.rules(nic, queues);
        }
        self.queues(nic, queues);
    }

    /// Another root, and what lies below it. Returns whether there are traffic classes in hardware.
    fn root(&mut self, nic: &Nic, queues: u32, is_hardware: bool) -> bool {
        let name = nic.name.as_str();
        let on = |knob| Knob::nic(name, knob);
        let is_set = is_hardware && queues >= 2 && self.chance.one_in(2);
        if !is_set && !self.chance.one_in(3) {
            return self.has(nic, NicKnob::Root).is_some_and(|root| root.contains("mode channel"));
        }
        if self.has(nic, NicKnob::Qdisc("1:10".to_owned())).is_some() {
            self.step(on(NicKnob::Qdisc("1:10".to_owned())), None, vec![]);
            self.step(on(NicKnob::Class("1:10".to_owned())), None, vec![]);
        }
        if is_set {
            let root = format!("mqprio num_tc 2 map 0 1 queues 1@0 {}@1 hw 1 mode channel", queues - 1);
            self.set(on(NicKnob::Root), root, per_queue(name));
            return true;
        }
        self.set(on(NicKnob::Root), "htb default 20", per_queue(name));
        self.set(on(NicKnob::Class("e7:20".to_owned())), "parent e7: htb rate 1Gbit ceil 2Gbit", vec![]);
        self.set(on(NicKnob::Qdisc("e7:20".to_owned())), "fq", vec![]);
        false
    }

    fn filters(&mut self, nic: &Nic, has_classes: bool) {
        if !has_classes && !self.chance.one_in(3) {
            return;
        }
        let on = |knob| Knob::nic(&nic.name, knob);
        self.set(on(NicKnob::Clsact), "clsact", vec![]);
        for port in 0..1 + self.chance.below(2) {
            let action = if has_classes { "skip_sw hw_tc 1" } else { "action skbedit priority 1" };
            let filter = format!("protocol ip flower ip_proto tcp dst_port {} {action}", 6379 + port);
            self.set(on(NicKnob::Filter(Direction::Ingress, 49001 + port)), filter, vec![]);
        }
    }

    fn rules(&mut self, nic: &Nic, queues: u32) {
        let on = |knob| Knob::nic(&nic.name, knob);
        let mut action = format!("action {}", self.chance.below(queues));
        if nic.rss.as_ref().is_some_and(|rss| rss.contexts.is_some()) && self.chance.one_in(2) {
            let context: Cpus = (queues - 1..queues).collect();
            self.set(on(NicKnob::Context(context.clone())), "equal 1", vec![]);
            action = format!("context {context}");
        }
        for n in 0..1 + self.chance.below(2) {
            let rule = format!("flow-type tcp4 dst-port {} {action}", 6379 + n);
            self.set(on(NicKnob::Ntuple(1023 - n)), rule, vec![]);
        }
    }

    fn queues(&mut self, nic: &Nic, queues: u32) {
        let on = |knob| Knob::nic(&nic.name, knob);
        let threaded = self.chance.one_in(3);
        for queue in 0..queues {
            let cpu = self.chance.below(CPUS_COUNT).to_string();
            if nic.private_flags.contains_key("fw-lldp-agent") && self.chance.one_in(3) {
                self.set(on(NicKnob::Coalesce(Some(queue))), "adaptive-rx off rx-usecs 0", vec![]);
            }
            if self.chance.one_in(3) {
                self.set(on(NicKnob::Napi(queue, "defer-hard-irqs".to_owned())), "2", vec![]);
            }
            if nic.driver != "veth" && self.chance.one_in(2) {
                self.set(on(NicKnob::IrqAffinity(queue)), &cpu, vec![]);
            }
        }
        if threaded {
            self.set(on(NicKnob::Threaded), "1", vec![]);
        }
        for queue in 0..queues {
            let cpu = self.chance.below(CPUS_COUNT).to_string();
            if threaded && self.chance.one_in(2) {
                self.set(on(NicKnob::NapiThread(queue)), format!("cpus {cpu} fifo 50"), vec![]);
            }
            if self.chance.one_in(2) {
                self.set(on(NicKnob::XpsCpus(queue)), &cpu, vec![]);
            }
            if self.chance.one_in(3) {
                self.set(on(NicKnob::RpsCpus(queue)), &cpu, vec![]);
                self.set(on(NicKnob::RpsFlowCount(queue)), "4096", vec![]);
            }
        }
    }

    fn host(&mut self, facts: &Facts) {
        if self.chance.one_in(2) {
            let microseconds = self.chance.below(2) * 50;
            self.set(Knob::sysctl("net.core.busy_poll"), microseconds.to_string(), vec![]);
        }
        if self.chance.one_in(2) {
            let cpus = some_cpus(self.chance);
            let knob = Knob::Cgroup { group: "bulk".to_owned(), file: "cpuset.cpus".to_owned() };
            self.set(knob, cpus, vec![]);
        }
        if self.chance.one_in(2) {
            let knob = Knob::Cpu { cpu: self.chance.below(CPUS_COUNT), what: CpuKnob::ResumeLatency };
            let latency_us = *self.chance.pick(&["n/a", "20"]);
            self.set(knob, latency_us, vec![]);
        }
        for process in &facts.processes {
            for thread in &process.threads {
                let (pid, start, tid) = (process.pid, process.start, thread.tid);
                let cpus = some_cpus(self.chance);
                self.set(Knob::Thread { pid, start, tid, what: ThreadKnob::Affinity }, cpus, vec![]);
                if self.chance.one_in(3) {
                    self.set(Knob::Thread { pid, start, tid, what: ThreadKnob::Nice }, "-5", vec![]);
                }
            }
        }
        if self.chance.one_in(3) {
            let destination = "default".to_owned();
            let route = Knob::Route { family: Family::Inet, table: 49001, destination };
            self.set(route, "via 10.0.0.254 dev ens0", vec![]);
            self.set(Knob::Rule { family: Family::Inet, pref: 49001 }, "from 10.0.0.1 lookup 49001", vec![]);
        }
    }
}

/// What a change of queues may reset.
fn per_queue(nic: &str) -> Vec<Knob> {
    let of = |queue| {
        [
            NicKnob::IrqAffinity(queue),
            NicKnob::Coalesce(Some(queue)),
            NicKnob::Napi(queue, "defer-hard-irqs".to_owned()),
            NicKnob::Napi(queue, "gro-flush-timeout".to_owned()),
            NicKnob::NapiThread(queue),
            NicKnob::RpsCpus(queue),
            NicKnob::RpsFlowCount(queue),
        ]
    };
    let mut knobs: Vec<Knob> = (0..QUEUES_COUNT_MAX).flat_map(of).map(|knob| Knob::nic(nic, knob)).collect();
    knobs.extend(xps(nic));
    knobs
}

fn xps(nic: &str) -> Vec<Knob> {
    let of = |queue| [NicKnob::XpsCpus(queue), NicKnob::XpsRxqs(queue)];
    (0..QUEUES_COUNT_MAX).flat_map(of).map(|knob| Knob::nic(nic, knob)).collect()
}
