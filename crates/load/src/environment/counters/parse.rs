//! The texts of /proc that hold counts. Pure; a line that is not as documented is as if it were missing.

use serde::{Deserialize, Serialize};

/// What cpus did, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) idle: u64,
    pub(super) iowait: u64,
    pub(super) irq: u64,
    pub(super) softirq: u64,
    pub(super) steal: u64,
    pub(super) guest: u64,
}

impl Ticks {
    pub(super) fn plus(self, other: Ticks) -> Ticks {
        Ticks {
            user: self.user.saturating_add(other.user),
            system: self.system.saturating_add(other.system),
            idle: self.idle.saturating_add(other.idle),
            iowait: self.iowait.saturating_add(other.iowait),
            irq: self.irq.saturating_add(other.irq),
            softirq: self.softirq.saturating_add(other.softirq),
            steal: self.steal.saturating_add(other.steal),
            guest: self.guest.saturating_add(other.guest),
        }
    }
}

/// A process' times, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) user_ticks: u64,
    pub(super) system_ticks: u64,
    /// After the machine's start.
    pub(super) began_ticks: u64,
}

/// The line `some` of a file of /proc/pressure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::environment) struct Pressure {
    /// Share of the last ten seconds, between 0 and 1.
    pub(in crate::environment) avg10: f64,
    /// Microseconds since the machine's start.
    pub(in crate::environment) total_us: u64,
}

/// The line of one cpu in /proc/stat, or the one of all together.
pub(super) fn ticks(stat: &str, cpu: Option<usize>) -> Option<Ticks> {
    let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    let numbers: Vec<u64> = line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
    // Guests' time came last, with 2.6.33; a shorter line is one that was cut.
    let &[user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice, ..] = &numbers[..] else {
        return None;
    };
    Some(Ticks {
        user: user.saturating_add(nice),
        system,
        idle,
        iowait,
        irq,
        softirq,
        steal,
        guest: guest.saturating_add(guest_nice),
    })
}

/// The number after a name at the start of a line of /proc/stat.
pub(super) fn first_number(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

/// A kind's count in /proc/softirqs, modulo 2^32, summed over `cpus` (none: all). The header names the cpus that are
/// possible; one that is not among them makes the sum unknown.
pub(super) fn softirq(text: &str, kind: &str, cpus: &[usize]) -> Option<u64> {
    let header: Vec<usize> = text
        .lines()
        .next()?
        .split_whitespace()
        .filter_map(|name| name.strip_prefix("CPU")?.parse().ok())
        .collect();
    let line = text.lines().find_map(|line| {
        let (name, counts) = line.split_once(':')?;
        (name.trim() == kind).then_some(counts)
    })?;
    let counts: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    if header.is_empty() || counts.len() != header.len() {
        return None;
    }
    let of = |cpu: &usize| Some(counts[header.iter().position(|known| known == cpu)?]);
    let cpus = if cpus.is_empty() { &header[..] } else { cpus };
    cpus.iter().try_fold(0_u64, |sum, cpu| Some(sum.wrapping_add(of(cpu)?)))
}

/// A count of /proc/net/snmp or netstat: a line `Tcp: RtoAlgorithm …` of names, and one of values below it.
pub(super) fn protocol(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(known, _)| *known == protocol)
        .map(|(_, rest)| rest);
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|known| known == name)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

/// Processed, dropped and squeezed of all cpus in /proc/net/softnet_stat, each modulo 2^32.
pub(super) fn softnet(text: &str) -> Option<[u64; 3]> {
    let mut sums = None;
    for line in text.lines() {
        let mut words = line.split_whitespace().map_while(|word| u64::from_str_radix(word, 16).ok());
        let counts = [words.next()?, words.next()?, words.next()?];
        let sum: &mut [u64; 3] = sums.get_or_insert_default();
        for (sum, count) in sum.iter_mut().zip(counts) {
            *sum = sum.wrapping_add(count);
        }
    }
    sums
}

/// The line `some avg10=0.12 avg60=0.08 avg300=0.02 total=123456`, whose averages are percent.
pub(in crate::environment) fn pressure(text: &str) -> Option<Pressure> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value =
        |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let avg10 = value("avg10")?.parse::<f64>().ok().filter(|percent| percent.is_finite())?;
    Some(Pressure { avg10: avg10 / 100.0, total_us: value("total")?.parse().ok()? })
}

/// The times in /proc/PID/stat. The name of the program, in parentheses, may hold blanks and parentheses itself. None as
/// well for a zombie: it has ended.
pub(super) fn times(stat: &str) -> Option<Times> {
    let (_, rest) = stat.rsplit_once(')')?;
    // The first of these is field 3, the state.
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X" | "x") {
        return None;
    }
    let number = |field: usize| fields.get(field - 3)?.parse().ok();
    Some(Times { user_ticks: number(14)?, system_ticks: number(15)?, began_ticks: number(22)? })
}

/// Nanoseconds that a thread ran and waited: the first two numbers of its schedstat.
pub(super) fn schedule(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace();
    let (ran, waited, _turns) = (words.next()?, words.next()?, words.next()?);
    Some((ran.parse().ok()?, waited.parse().ok()?))
}

/// A thread's switches, voluntary and involuntary, in its status.
pub(super) fn switches(status: &str) -> Option<(u64, u64)> {
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((value("voluntary_ctxt_switches:")?, value("nonvoluntary_ctxt_switches:")?))
}
