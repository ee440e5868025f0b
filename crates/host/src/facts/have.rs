//! Facts as values of knobs: what a plan compares with and a made-up kernel begins with.

use super::{Facts, Nic, Queue};
use crate::cpus::Cpus;
use crate::kernel::{Cause, Refusal};
use crate::knob::{CpuKnob, Knob, NicKnob, Setting, ThreadKnob};

impl Facts {
    /// The card of that name.
    #[must_use]
    pub fn nic(&self, name: &str) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.name == name)
    }

    /// The cpus that are online.
    #[must_use]
    pub fn online(&self) -> Cpus {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// What a knob had when the facts were read, as [`crate::Kernel::read`] would have said.
    ///
    /// # Errors
    /// [`Cause::Gone`]: the facts have no such card, queue, cpu, process or daemon. [`Cause::Unsupported`]: they have it, but nothing
    /// of this kind, because the machine has not or because it could not be read.
    pub fn have(&self, knob: &Knob) -> Result<Option<Setting>, Refusal> {
        match knob {
            Knob::Sysctl { name } => known(knob, self.sysctls.get(name)),
            Knob::Service { name } => {
                let daemon = self.daemons.iter().find(|it| it.name == *name).ok_or_else(|| gone(knob))?;
                Ok(Some(Setting::new(if daemon.running { "running" } else { "stopped" })))
            }
            Knob::Cgroup { group, file } => {
                let files = self.cgroup.groups.get(group).ok_or_else(|| gone(knob))?;
                known(knob, files.get(file))
            }
            Knob::Cpu { cpu, what: CpuKnob::ResumeLatency } => {
                let cpu = self.cpus.iter().find(|it| it.id == *cpu).ok_or_else(|| gone(knob))?;
                known(knob, cpu.resume_latency_us.as_ref())
            }
            Knob::Thread { pid, start, tid, what } => {
                let process = self.processes.iter().find(|it| it.pid == *pid && it.start == *start);
                let thread = process.and_then(|it| it.threads.iter().find(|it| it.tid == *tid));
                let thread = thread.ok_or_else(|| gone(knob))?;
                Ok(Some(match what {
                    ThreadKnob::Affinity => Setting::new(thread.cpus.to_string()),
                    ThreadKnob::Nice => Setting::new(thread.nice.to_string()),
                    ThreadKnob::Scheduler => Setting::new(&thread.scheduler),
                }))
            }
            Knob::Rule { .. } | Knob::Route { .. } => {
                Ok(self.routing.get(&knob.to_string()).map(Setting::new))
            }
            Knob::Nic { nic, knob: of_nic } => {
                let nic = self.nic(nic).ok_or_else(|| gone(knob))?;
                nic.have(of_nic).unwrap_or_else(|| Err(unsupported(knob))).map_err(|refusal| {
                    match refusal.cause {
                        Cause::Gone => gone(knob),
                        _ => unsupported(knob),
                    }
                })
            }
        }
    }
}

impl Nic {
    /// As [`Facts::have`]; `None` for what this card has not.
    fn have(&self, knob: &NicKnob) -> Option<Result<Option<Setting>, Refusal>> {
        let queue = |index: &u32| self.queues.iter().find(|it| it.index == *index);
        let of_queue = |index: &u32, value: fn(&Queue) -> Option<String>| match queue(index) {
            None => Some(Err(Refusal::new(Cause::Gone, ""))),
            Some(queue) => value(queue).map(|text| Ok(Some(Setting::new(text)))),
        };
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        let text = match knob {
            NicKnob::Channels => self.channels.as_ref().map(|it| it.text()),
            NicKnob::Rings => self.rings.map(|it| format!("rx {} tx {}", it.rx, it.tx)),
            NicKnob::Feature(name) => self.features.get(name).map(|it| switch(it.on)),
            NicKnob::PrivateFlag(name) => self.private_flags.get(name).map(|on| switch(*on)),
            NicKnob::Devlink(name) => self.devlink.get(name).cloned(),
            NicKnob::Coalesce(None) => self.coalesce.clone(),
            NicKnob::Indirection => self.rss.as_ref().map(|rss| spread_text(&rss.table)),
            NicKnob::Root => self.root_qdisc.clone(),
            NicKnob::Threaded => self.threaded.map(|on| u8::from(on).to_string()),
            NicKnob::DeferHardIrqs => self.defer_hard_irqs.map(|n| n.to_string()),
            NicKnob::GroFlushTimeout => self.gro_flush_timeout.map(|n| n.to_string()),
            NicKnob::Context(queues) => {
                let contexts = self.rss.as_ref()?.contexts.as_ref()?;
                let is_of = |table: &&Vec<u32>| table.iter().copied().collect::<Cpus>() == *queues;
                let found = contexts.values().find(is_of);
                return Some(Ok(found.map(|table| Setting::new(context_text(table)))));
            }
            NicKnob::Ntuple(location) => {
                return self.ntuple.as_ref().map(|it| Ok(it.rules.get(location).map(Setting::new)));
            }
            NicKnob::Clsact => return Some(Ok(self.clsact.then(|| Setting::new("clsact")))),
            NicKnob::Class(_) | NicKnob::Qdisc(_) => {
                return Some(Ok(self.below_root.get(&knob.to_string()).map(Setting::new)));
            }
            NicKnob::Filter(direction, pref) => {
                let filter = self.filters.iter().find(|it| it.direction == *direction && it.pref == *pref);
                return Some(Ok(filter.map(|it| Setting::new(&it.text))));
            }
            NicKnob::Coalesce(Some(index)) => return of_queue(index, |it| it.coalesce.clone()),
            NicKnob::IrqAffinity(index) => {
                return of_queue(index, |it| it.irq_cpus.as_ref().map(Cpus::to_string));
            }
            NicKnob::RpsCpus(index) => {
                return of_queue(index, |it| it.rps_cpus.as_ref().map(Cpus::to_string));
            }
            NicKnob::RpsFlowCount(index) => {
                return of_queue(index, |it| it.rps_flow_cnt.map(|n| n.to_string()));
            }
            NicKnob::XpsCpus(index) => {
                return of_queue(index, |it| it.xps_cpus.as_ref().map(Cpus::to_string));
            }
            NicKnob::XpsRxqs(index) => {
                return of_queue(index, |it| it.xps_rxqs.as_ref().map(Cpus::to_string));
            }
            NicKnob::Napi(index, name) => match queue(index) {
                None => return Some(Err(Refusal::new(Cause::Gone, ""))),
                Some(queue) => queue.napi_settings.get(name).cloned(),
            },
            NicKnob::NapiThread(index) => match queue(index) {
                None => return Some(Err(Refusal::new(Cause::Gone, ""))),
                Some(queue) => {
                    let thread = queue.napi_thread.as_ref();
                    return Some(Ok(
                        thread.map(|it| Setting::new(format!("cpus {} {}", it.cpus, it.scheduler)))
                    ));
                }
            },
        };
        text.map(|text| Ok(Some(Setting::new(text))))
    }
}

impl super::Channels {
    /// As [`NicKnob::Channels`] writes it.
    #[must_use]
    pub fn text(&self) -> String {
        let kinds = [("rx", self.rx), ("tx", self.tx), ("combined", self.combined)];
        let words: Vec<String> = kinds
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        words.join(" ")
    }

    /// Queues that both receive and send.
    #[must_use]
    pub fn pairs(&self) -> u32 {
        self.combined + self.rx.min(self.tx)
    }

    /// The most there can be of those.
    #[must_use]
    pub fn pairs_max(&self) -> u32 {
        if self.combined_max > 0 { self.combined_max } else { self.rx_max.min(self.tx_max) }
    }
}

/// A spreading table as [`NicKnob::Indirection`] writes it: in the words of `ethtool -X` where they make the same table.
#[must_use]
pub fn spread_text(table: &[u32]) -> String {
    let start = table.iter().copied().min().unwrap_or(0);
    let even = (1..)
        .take(table.len())
        .find(|count| table.iter().zip((0..*count).cycle()).all(|(queue, step)| *queue == start + step));
    match (even, start) {
        (Some(count), 0) => format!("equal {count}"),
        (Some(count), start) => format!("start {start} equal {count}"),
        (None, _) => {
            let queues: Vec<String> = table.iter().map(u32::to_string).collect();
            format!("table {}", queues.join(" "))
        }
    }
}

/// A context's table as [`NicKnob::Context`] writes it: `equal N` where its queues take turns, else every entry.
#[must_use]
pub fn context_text(table: &[u32]) -> String {
    let queues: Vec<u32> = table.iter().copied().collect::<Cpus>().iter().collect();
    if table.iter().eq(queues.iter().cycle().take(table.len())) {
        return format!("equal {}", queues.len());
    }
    let entries: Vec<String> = table.iter().map(u32::to_string).collect();
    format!("table {}", entries.join(" "))
}

fn known(knob: &Knob, value: Option<&String>) -> Result<Option<Setting>, Refusal> {
    value.map(|text| Some(Setting::new(text))).ok_or_else(|| unsupported(knob))
}

fn gone(knob: &Knob) -> Refusal {
    Refusal::new(Cause::Gone, format!("the facts know nothing that {knob} belongs to"))
}

fn unsupported(knob: &Knob) -> Refusal {
    Refusal::new(
        Cause::Unsupported,
        format!("the facts have no {knob}: this machine has none, or it could not be read"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Cpu;

    #[test]
    fn a_table_is_written_in_the_words_that_make_it() {
        let check = |table: &[u32], want: &str| assert_eq!(spread_text(table), want, "{table:?}");
        check(&[0, 1, 2, 3, 0, 1, 2, 3], "equal 4");
        check(&[0, 1, 2, 3, 0, 1], "equal 4");
        check(&[0, 0, 0], "equal 1");
        check(&[2, 2], "start 2 equal 1");
        check(&[4, 5, 6, 7, 4, 5, 6, 7], "start 4 equal 4");
        check(&[0, 1, 2, 3], "equal 4");
        check(&[0, 0, 1, 1], "table 0 0 1 1");
        check(&[0, 2, 0, 2], "table 0 2 0 2");
        check(&[1, 0], "table 1 0");
    }

    #[test]
    fn what_the_facts_don_t_hold_is_said() {
        let nic = Nic { name: "e".to_owned(), ..Nic::default() };
        let facts = Facts { nics: vec![nic], cpus: vec![Cpu::default()], ..Facts::default() };
        let cause = |path: &str| facts.have(&path.parse().unwrap()).unwrap_err().cause;
        assert_eq!(cause("nic/f/channels"), Cause::Gone);
        assert_eq!(cause("nic/e/channels"), Cause::Unsupported);
        assert_eq!(cause("nic/e/queue/0/irq"), Cause::Gone);
        assert_eq!(cause("service/irqbalance"), Cause::Gone);
        assert_eq!(cause("cpu/0/resume-latency-us"), Cause::Unsupported);
        assert_eq!(cause("cpu/1/resume-latency-us"), Cause::Gone);
        assert_eq!(cause("sysctl/net.core.busy_poll"), Cause::Unsupported);
        assert_eq!(facts.have(&"nic/e/qdisc/clsact".parse().unwrap()), Ok(None));
        assert_eq!(facts.have(&"rule/inet/49001".parse().unwrap()), Ok(None));
    }
}
