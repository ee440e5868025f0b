//! What the kernel counts, once a second during a run: beside each second of latencies stands what else happened in it.
//!
//! [`Sampler::sample`] reads the counts, which only ever grow; [`Counters::since`] makes rates of two of them. A file or
//! field that is missing is `None` and never zero: "no retransmits" and "nobody could look" are different things.
//!
//! ```text
//! /proc/stat                    ticks of every cpu by what it did, context switches, interrupts      proc_stat(5)
//! /proc/softirqs                soft interrupts by kind and cpu, 32 bits that wrap
//! /proc/net/snmp, netstat       pairs of lines, names and values                 Documentation/networking/snmp_counter.rst
//! /proc/net/softnet_stat        a line a cpu, hexadecimal, 32 bits that wrap     net/core/net-procfs.c
//! /proc/pressure/cpu            µs in which some task waited for a cpu           Documentation/accounting/psi.rst
//! /proc/PID/stat                ticks of a process, of its ended threads too     proc_pid_stat(5)
//! /proc/PID/task/TID/schedstat  ns that a thread ran and waited                  Documentation/scheduler/sched-stats.rst
//! /proc/PID/task/TID/status     its switches, voluntary and not                  proc_pid_status(5)
//! ```
//! Of the network's counts those of the sampler's own namespace are seen; a server in another one has its own.

mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{Below, Files};
pub(super) use parse::pressure;
use parse::{Ticks, Times};

/// Seconds of one tick: Linux shows times to programs in hundredths of a second on all machines served here.
const TICK_SECONDS: f64 = 0.01;
const NANOSECOND_SECONDS: f64 = 1e-9;
/// Counts of ticks.
const TICK: Scale = Scale::Grows(TICK_SECONDS);
/// Counts of things.
const ONE: Scale = Scale::Grows(1.0);
/// Counts of things in 32 bits of the kernel.
const WRAPPING: Scale = Scale::Wraps;
/// Counts of microseconds.
const MICROSECOND: Scale = Scale::Grows(1e-6);

/// How the difference of two counts becomes a rate.
#[derive(Clone, Copy)]
enum Scale {
    /// 64 bits, with the unit of one count.
    Grows(f64),
    /// The lower 32 bits are all that is known; a difference of more than half of them is a count that went back.
    Wraps,
}

/// Declares each counter once: in [`Counters`] as it is read, in [`Rates`] per second.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident: $scale:expr,)+) => {
        /// The kernel's counts at an instant, in the kernel's units.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counters {
            /// When they were read, by the caller's monotonic clock.
            pub now_ns: u64,
            /// Processes that were asked for and are not there.
            pub gone: Vec<u32>,
            /// What each process has counted since its start.
            processes: BTreeMap<u32, Process>,
            $($(#[doc = $doc])+ pub $name: Option<u64>,)+
        }

        /// What happened between two samples, per second. Times are seconds per second: `cpu_user` of 1.5 is one and a half
        /// cpus' worth, `process_*` the same of the chosen processes. None: not exposed, or the count went back.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Rates {
            /// The time between the samples, by the caller's clock.
            pub seconds: f64,
            /// Processes that were not there at the end, a stranger with their number perhaps. What they did since the
            /// earlier sample is missing from `process_*`; when all have gone these are none.
            pub gone: Vec<u32>,
            $($(#[doc = $doc])+ pub $name: Option<f64>,)+
            /// User time of the chosen processes, of threads that ended since too.
            pub process_user: Option<f64>,
            /// System time of the chosen processes.
            pub process_system: Option<f64>,
            /// Time that their living threads ran, to the nanosecond.
            pub process_ran: Option<f64>,
            /// Time that their living threads could have run and waited for a cpu.
            pub process_waited: Option<f64>,
            /// Switches because a thread had nothing to do.
            pub process_switches_voluntary: Option<f64>,
            /// Switches because somebody else was to run.
            pub process_switches_involuntary: Option<f64>,
        }

        impl Counters {
            /// The rates from `earlier` to these. None: no time has passed between the two.
            pub fn since(&self, earlier: &Counters) -> Option<Rates> {
                let seconds = self.now_ns.checked_sub(earlier.now_ns).filter(|span| *span != 0)? as f64 * NANOSECOND_SECONDS;
                let mut rates = Rates {
                    seconds,
                    $($name: rate($scale, self.$name, earlier.$name, seconds),)+
                    ..Rates::default()
                };
                self.add_processes(earlier, &mut rates);
                // The file and the clock are not read at one instant.
                rates.pressure_cpu = rates.pressure_cpu.map(|share| share.min(1.0));
                Some(rates)
            }
        }

        impl Rates {
            /// Each rate by its name, in a fixed order: a column each.
            pub fn named(&self) -> Vec<(&'static str, Option<f64>)> {
                vec![
                    $((stringify!($name), self.$name),)+
                    ("process_user", self.process_user),
                    ("process_system", self.process_system),
                    ("process_ran", self.process_ran),
                    ("process_waited", self.process_waited),
                    ("process_switches_voluntary", self.process_switches_voluntary),
                    ("process_switches_involuntary", self.process_switches_involuntary),
                ]
            }
        }
    };
}

counters! {
    /// User time of all cpus, nice and guests' time in it.
    cpu_user: TICK,
    /// System time of all cpus.
    cpu_system: TICK,
    /// All cpus, in soft interrupts: most of the network's work.
    cpu_softirq: TICK,
    /// All cpus, in hard interrupts.
    cpu_irq: TICK,
    /// All cpus, idle.
    cpu_idle: TICK,
    /// All cpus, idle with a disk's answer outstanding. proc_stat(5): not reliable, and may go back.
    cpu_iowait: TICK,
    /// All cpus, taken by other machines on the same hardware.
    cpu_steal: TICK,
    /// All cpus, running guests; counted in `cpu_user` already.
    cpu_guest: TICK,
    /// The same for the chosen cpus alone.
    chosen_user: TICK,
    /// Chosen cpus, system.
    chosen_system: TICK,
    /// Chosen cpus, soft interrupts.
    chosen_softirq: TICK,
    /// Chosen cpus, hard interrupts.
    chosen_irq: TICK,
    /// Chosen cpus, idle.
    chosen_idle: TICK,
    /// Chosen cpus, idle with a disk's answer outstanding.
    chosen_iowait: TICK,
    /// Chosen cpus, taken by other machines.
    chosen_steal: TICK,
    /// Chosen cpus, running guests.
    chosen_guest: TICK,
    /// Switches from one task to another, on all cpus.
    context_switches: ONE,
    /// Hard interrupts, on all cpus.
    interrupts: ONE,
    /// Soft interrupts of the chosen cpus that received packets.
    softirq_net_rx: WRAPPING,
    /// Chosen cpus: soft interrupts that finished sending.
    softirq_net_tx: WRAPPING,
    /// Chosen cpus: soft interrupts of timers.
    softirq_timer: WRAPPING,
    /// Chosen cpus: soft interrupts that balanced tasks among cpus.
    softirq_sched: WRAPPING,
    /// Chosen cpus: soft interrupts of the kernel's deferred freeing.
    softirq_rcu: WRAPPING,
    /// TCP segments sent again.
    tcp_retransmits: ONE,
    /// TCP retransmission timers that ran out.
    tcp_timeouts: ONE,
    /// Connections that a listener dropped, most often because its queue was full.
    listen_drops: ONE,
    /// Packets received by sockets that polled for them.
    busy_poll_rx_packets: ONE,
    /// Packets taken from the backlogs and devices of all cpus.
    softnet_processed: WRAPPING,
    /// Packets dropped because a cpu's backlog was full.
    softnet_dropped: WRAPPING,
    /// Times that receiving stopped with work left, its budget or time having run out.
    softnet_squeezed: WRAPPING,
    /// Share of the time in which some task waited for a cpu: between 0 and 1.
    pressure_cpu: MICROSECOND,
}

/// Reads the counters below a root, for chosen cpus and processes.
#[derive(Clone, Debug)]
pub struct Sampler {
    root: PathBuf,
    cpus: Vec<usize>,
    pids: Vec<u32>,
    /// Nothing is read but the processes.
    is_process_alone: bool,
}

/// One process, with the counts of its living threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Process {
    /// By which a process is told from a later one that got its number.
    times: Times,
    threads: BTreeMap<u32, Thread>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Thread {
    /// Nanoseconds: ran, waited.
    schedule: Option<(u64, u64)>,
    /// Voluntary, involuntary.
    switches: Option<(u64, u64)>,
}

impl Sampler {
    /// For `cpus` (none: all of them count as chosen) and the processes `pids`.
    pub fn new(root: &Path, cpus: Vec<usize>, pids: Vec<u32>) -> Sampler {
        Sampler { root: root.to_path_buf(), cpus, pids, is_process_alone: false }
    }

    /// For one process and nothing beside it: what is not `process_*` stays none.
    pub fn of_process(root: &Path, pid: u32) -> Sampler {
        Sampler { is_process_alone: true, ..Sampler::new(root, Vec::new(), vec![pid]) }
    }

    /// Reads all counters now: seven files, one for each process and two for each of its threads. The kernel adds up
    /// /proc/stat while it is read, which takes milliseconds on a machine of hundreds of cpus: not for a thread that
    /// measures.
    pub fn sample(&self, now_ns: u64) -> Counters {
        self.read(&Below::new(&self.root), now_ns)
    }

    fn read(&self, files: &dyn Files, now_ns: u64) -> Counters {
        let text = |path| match self.is_process_alone {
            true => String::new(),
            false => files.text(path).unwrap_or_default(),
        };
        let stat = text("proc/stat");
        let all = parse::ticks(&stat, None);
        let chosen = if self.cpus.is_empty() { all } else { self.chosen(&stat) };
        let ticks = |ticks: Option<Ticks>, of: fn(&Ticks) -> u64| ticks.as_ref().map(of);

        let softirqs = text("proc/softirqs");
        let softirq = |kind| parse::softirq(&softirqs, kind, &self.cpus);
        let (snmp, netstat) = (text("proc/net/snmp"), text("proc/net/netstat"));
        let softnet = parse::softnet(&text("proc/net/softnet_stat"));

        let mut counters = Counters {
            now_ns,
            cpu_user: ticks(all, |ticks| ticks.user),
            cpu_system: ticks(all, |ticks| ticks.system),
            cpu_softirq: ticks(all, |ticks| ticks.softirq),
            cpu_irq: ticks(all, |ticks| ticks.irq),
            cpu_idle: ticks(all, |ticks| ticks.idle),
            cpu_iowait: ticks(all, |ticks| ticks.iowait),
            cpu_steal: ticks(all, |ticks| ticks.steal),
            cpu_guest: ticks(all, |ticks| ticks.guest),
            chosen_user: ticks(chosen, |ticks| ticks.user),
            chosen_system: ticks(chosen, |ticks| ticks.system),
            chosen_softirq: ticks(chosen, |ticks| ticks.softirq),
            chosen_irq: ticks(chosen, |ticks| ticks.irq),
            chosen_idle: ticks(chosen, |ticks| ticks.idle),
            chosen_iowait: ticks(chosen, |ticks| ticks.iowait),
            chosen_steal: ticks(chosen, |ticks| ticks.steal),
            chosen_guest: ticks(chosen, |ticks| ticks.guest),
            context_switches: parse::first_number(&stat, "ctxt"),
            interrupts: parse::first_number(&stat, "intr"),
            softirq_net_rx: softirq("NET_RX"),
            softirq_net_tx: softirq("NET_TX"),
            softirq_timer: softirq("TIMER"),
            softirq_sched: softirq("SCHED"),
            softirq_rcu: softirq("RCU"),
            tcp_retransmits: parse::protocol(&snmp, "Tcp", "RetransSegs"),
            tcp_timeouts: parse::protocol(&netstat, "TcpExt", "TCPTimeouts"),
            listen_drops: parse::protocol(&netstat, "TcpExt", "ListenDrops"),
            busy_poll_rx_packets: parse::protocol(&netstat, "TcpExt", "BusyPollRxPackets"),
            softnet_processed: softnet.map(|[processed, _, _]| processed),
            softnet_dropped: softnet.map(|[_, dropped, _]| dropped),
            softnet_squeezed: softnet.map(|[_, _, squeezed]| squeezed),
            pressure_cpu: pressure(&text("proc/pressure/cpu")).map(|pressure| pressure.total_us),
            ..Counters::default()
        };
        for &pid in &self.pids {
            match process(files, pid) {
                Some(process) => {
                    counters.processes.insert(pid, process);
                }
                None => counters.gone.push(pid),
            }
        }
        counters
    }

    /// The sum of the chosen cpus. None: one of them is not there, and a sum of the others would be taken for all.
    fn chosen(&self, stat: &str) -> Option<Ticks> {
        self.cpus
            .iter()
            .try_fold(Ticks::default(), |sum, cpu| Some(sum.plus(parse::ticks(stat, Some(*cpu))?)))
    }
}

/// None: it has gone, or is a dead process that nobody has asked about yet.
fn process(files: &dyn Files, pid: u32) -> Option<Process> {
    let times = parse::times(&files.text(&format!("proc/{pid}/stat"))?)?;
    let mut threads = BTreeMap::new();
    for name in files.entries(&format!("proc/{pid}/task")) {
        let Ok(thread) = name.parse() else { continue };
        let text = |file| files.text(&format!("proc/{pid}/task/{name}/{file}")).unwrap_or_default();
        let counts = Thread {
            schedule: parse::schedule(&text("schedstat")),
            switches: parse::switches(&text("status")),
        };
        threads.insert(thread, counts);
    }
    Some(Process { times, threads })
}

impl Counters {
    fn add_processes(&self, earlier: &Counters, rates: &mut Rates) {
        rates.gone = self.gone.clone();
        let mut sums = Sums::default();
        for (pid, now) in &self.processes {
            match earlier.processes.get(pid) {
                Some(then) if then.times.began_ticks == now.times.began_ticks => sums.add(now, then),
                // A stranger with the number of one that ended.
                Some(_) => rates.gone.push(*pid),
                // It began between the samples. One that was not asked for then has an unknown part before them.
                None if earlier.gone.contains(pid) => sums.add(now, &Process::default()),
                None => {}
            }
        }
        let seconds = rates.seconds;
        let per_second = |sum: Option<u64>, unit: f64| sum.map(|sum| sum as f64 * unit / seconds);
        rates.process_user = per_second(sums.user_ticks, TICK_SECONDS);
        rates.process_system = per_second(sums.system_ticks, TICK_SECONDS);
        rates.process_ran = per_second(sums.ran_ns, NANOSECOND_SECONDS);
        rates.process_waited = per_second(sums.waited_ns, NANOSECOND_SECONDS);
        rates.process_switches_voluntary = per_second(sums.voluntary, 1.0);
        rates.process_switches_involuntary = per_second(sums.involuntary, 1.0);
    }
}

/// Growth of all processes together; none until one of them is exposed.
#[derive(Default)]
struct Sums {
    user_ticks: Option<u64>,
    system_ticks: Option<u64>,
    ran_ns: Option<u64>,
    waited_ns: Option<u64>,
    voluntary: Option<u64>,
    involuntary: Option<u64>,
}

impl Sums {
    fn add(&mut self, now: &Process, then: &Process) {
        grow(&mut self.user_ticks, now.times.user_ticks, then.times.user_ticks);
        grow(&mut self.system_ticks, now.times.system_ticks, then.times.system_ticks);
        for (id, thread) in &now.threads {
            // A thread that is new has counted from zero.
            let earlier = match then.threads.get(id) {
                Some(earlier) => *earlier,
                None => Thread { schedule: Some((0, 0)), switches: Some((0, 0)) },
            };
            if let (Some((ran, waited)), Some((ran_then, waited_then))) = (thread.schedule, earlier.schedule)
            {
                grow(&mut self.ran_ns, ran, ran_then);
                grow(&mut self.waited_ns, waited, waited_then);
            }
            if let (Some((voluntary, involuntary)), Some(then)) = (thread.switches, earlier.switches) {
                grow(&mut self.voluntary, voluntary, then.0);
                grow(&mut self.involuntary, involuntary, then.1);
            }
        }
    }
}

/// A count that went back is one of a new thread with an old one's number: all of it happened since.
fn grow(sum: &mut Option<u64>, now: u64, then: u64) {
    *sum = Some(sum.unwrap_or(0).saturating_add(now.checked_sub(then).unwrap_or(now)));
}

fn rate(scale: Scale, now: Option<u64>, then: Option<u64>, seconds: f64) -> Option<f64> {
    const HALF: u64 = 1 << 31;
    let (now, then) = (now?, then?);
    let grown = match scale {
        Scale::Grows(unit) => now.checked_sub(then)? as f64 * unit,
        Scale::Wraps => {
            let grown = now.wrapping_sub(then) & u64::from(u32::MAX);
            // A cpu that went offline takes its counts out of the sum.
            (grown < HALF).then_some(grown as f64)?
        }
    };
    Some(grown / seconds)
}
