//! The cpu signature of each lane: what its thread and its cpu did since somebody looked last, and on which memory
//! nodes its region lies. Read from /proc when INFO lanes is asked for, by the control thread, and never in between.
//!
//! ```text
//! /proc/stat                       ticks of every cpu: user, system, interrupts, idle …      proc_stat(5)
//! /proc/self/task/TID/stat         ticks of the lane's thread: user, system                  proc_pid_stat(5)
//! /proc/self/task/TID/schedstat    nanoseconds it ran, and waited for the cpu                Documentation/scheduler
//! /proc/self/task/TID/status       its switches, voluntary and not
//! move_pages(2)                    the node of each page of a sample
//! ```
//! The nodes of pages are asked with `move_pages` and not read from `numa_maps`: the latter walks all pages of the
//! region in one go under the lock of the address space, for which a lane that maps memory would then wait.

use std::fs;
use std::ptr;

use lane::{CpuShares, Pages, Share, Signature, ThreadShares};

use crate::numa;

/// A shorter time than this has too few ticks (of 10 ms) to be shared out: the last shares are shown again.
const SPAN_NS_MIN: u64 = 100_000_000;
/// Pages of a region whose node is asked for: the share of remote ones is then right within two percent or so.
const SAMPLE_COUNT: u64 = 2048;
/// Nanoseconds of one tick: Linux shows times to programs in hundredths of a second on all machines served here.
const TICK_NS: u64 = 10_000_000;

/// Where a lane runs and keeps its data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Berthed {
    /// The thread's number in the kernel.
    pub(crate) thread: i32,
    /// Where it is pinned.
    pub(crate) cpu: Option<usize>,
    /// Memory node of that cpu; none: the machine does not say.
    pub(crate) node: Option<u16>,
    /// Address of its region.
    pub(crate) base: usize,
}

/// Looks at all lanes, each by itself.
pub(crate) struct Signatures {
    lanes: Vec<Watched>,
    /// Whether the machine has more nodes than one.
    has_nodes: bool,
    page_size: u64,
    /// /proc/stat, with the time at which it was read: all lanes of one look share it.
    machine: (u64, String),
}

struct Watched {
    berthed: Berthed,
    /// Counts at the last look that was far enough from the one before.
    then: Counts,
    shown: Signature,
}

/// What the kernel has counted since its start, at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    now_ns: u64,
    cpu: Option<Ticks>,
    thread: Option<ThreadTimes>,
    switches: Option<(u64, u64)>,
}

/// Of one cpu. Guests' time is in the users' already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    us: u64,
    sy: u64,
    si: u64,
    id: u64,
    wa: u64,
    /// Taken by other machines on the same hardware.
    stolen: u64,
}

/// Of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ThreadTimes {
    us_ticks: u64,
    sy_ticks: u64,
    ran_ns: u64,
    waited_ns: u64,
}

impl Signatures {
    /// From now on: the first shares are of the time since `now_ns`.
    pub(crate) fn new(lanes: Vec<Berthed>, now_ns: u64) -> Signatures {
        let mut signatures = Signatures {
            lanes: Vec::new(),
            has_nodes: numa::has_several(),
            page_size: page_size(),
            machine: (0, String::new()),
        };
        for berthed in lanes {
            let then = signatures.count(&berthed, now_ns);
            let shown = Signature { cpu: berthed.cpu, node: berthed.node, ..Signature::default() };
            signatures.lanes.push(Watched { berthed, then, shown });
        }
        signatures
    }

    /// Of one lane, of whose region `resident_size` bytes are in use.
    pub(crate) fn look(&mut self, lane: usize, resident_size: u64, now_ns: u64) -> Signature {
        let berthed = self.lanes[lane].berthed.clone();
        let pages = self.pages(&berthed, resident_size);
        let is_due = SPAN_NS_MIN <= now_ns.saturating_sub(self.lanes[lane].then.now_ns);
        let counts = is_due.then(|| self.count(&berthed, now_ns));
        let watched = &mut self.lanes[lane];
        if let Some(counts) = counts {
            watched.shown = Signature {
                shares: counts.cpu.zip(watched.then.cpu).map(|(now, then)| cpu_shares(now, then)),
                thread: thread_shares(&counts, &watched.then),
                switches: counts.switches,
                ..watched.shown
            };
            watched.then = counts;
        }
        Signature { pages, ..watched.shown }
    }

    fn count(&mut self, berthed: &Berthed, now_ns: u64) -> Counts {
        if self.machine.0 != now_ns {
            self.machine = (now_ns, fs::read_to_string("/proc/stat").unwrap_or_default());
        }
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/self/task/{}/{name}", berthed.thread)).unwrap_or_default()
        };
        Counts {
            now_ns,
            cpu: berthed.cpu.and_then(|cpu| ticks_of(&self.machine.1, cpu)),
            thread: times_of(&read("stat"), &read("schedstat")),
            switches: switches_of(&read("status")),
        }
    }

    /// On a machine with one node all pages are local; else a sample of those in use tells.
    fn pages(&self, berthed: &Berthed, resident_size: u64) -> Option<Pages> {
        let count = resident_size / self.page_size;
        if !self.has_nodes {
            return Some(Pages { local: count, remote: 0 });
        }
        let nodes = nodes_of(&sample(berthed.base, count, self.page_size))?;
        let here = i32::from(berthed.node?);
        Some(split(&nodes, here, count))
    }
}

/// Every so many of `count` pages from `base` on, at most [`SAMPLE_COUNT`] addresses. A region is used from its start,
/// so that is where those in use are; what has been given back is not there, and counts as neither.
fn sample(base: usize, count: u64, page_size: u64) -> Vec<usize> {
    let step = count.div_ceil(SAMPLE_COUNT).max(1);
    let pages = (0..count).step_by(usize::try_from(step).expect("addresses are 64 bits"));
    pages.map(|page| base + usize::try_from(page * page_size).expect("addresses are 64 bits")).collect()
}

/// Shares the pages in use out as the sampled ones lie. A negative node is a page that is not there.
fn split(nodes: &[i32], here: i32, count: u64) -> Pages {
    let of = |holds: &dyn Fn(i32) -> bool| {
        u64::try_from(nodes.iter().filter(|node| holds(**node)).count()).expect("a sample is small")
    };
    let (local, there) = (of(&|node| node == here), of(&|node| node >= 0));
    let local = (count * local).checked_div(there).unwrap_or(count);
    Pages { local, remote: count - local }
}

/// The node of each page, or the negative error that the kernel has for it. `None`: it refuses the question (no NUMA
/// in the kernel, or a container's filter).
fn nodes_of(addresses: &[usize]) -> Option<Vec<i32>> {
    let pages: Vec<*mut libc::c_void> =
        addresses.iter().map(|address| ptr::with_exposed_provenance_mut(*address)).collect();
    let mut nodes = vec![-libc::ENOENT; pages.len()];
    // SAFETY: both arrays have as many elements as are named; without a list of nodes nothing is moved, and the
    // addresses are only looked up.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            ptr::null::<libc::c_int>(),
            nodes.as_mut_ptr(),
            0,
        )
    };
    (result == 0).then_some(nodes)
}

fn page_size() -> u64 {
    // SAFETY: asks for a constant of the system.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096).max(1)
}

/// `cpuN user nice system idle iowait irq softirq steal …` of /proc/stat.
fn ticks_of(stat: &str, cpu: usize) -> Option<Ticks> {
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = ticks[..] else { return None };
    Some(Ticks { us: user + nice, sy: system, si: irq + softirq, id: idle, wa: iowait, stolen })
}

/// Fields 14 and 15 of `stat`, counted behind the name, which may contain anything but ends at the last parenthesis;
/// and the first two of `schedstat`, which a kernel may be built without.
fn times_of(stat: &str, schedstat: &str) -> Option<ThreadTimes> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let (us_ticks, sy_ticks) = (ticks()?, ticks()?);
    let mut fields = schedstat.split_ascii_whitespace().map_while(|word| word.parse().ok());
    let (ran_ns, waited_ns) =
        (fields.next().unwrap_or((us_ticks + sy_ticks) * TICK_NS), fields.next().unwrap_or(0));
    Some(ThreadTimes { us_ticks, sy_ticks, ran_ns, waited_ns })
}

fn switches_of(status: &str) -> Option<(u64, u64)> {
    let count = |name: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    Some((count("voluntary_ctxt_switches:")?, count("nonvoluntary_ctxt_switches:")?))
}

/// Idle time and that of a disk may go back by a tick (proc_stat(5)); that is none.
fn cpu_shares(now: Ticks, then: Ticks) -> CpuShares {
    let since = |of: fn(&Ticks) -> u64| of(&now).saturating_sub(of(&then));
    let [us, sy, si, id, wa, stolen] = [
        since(|it| it.us),
        since(|it| it.sy),
        since(|it| it.si),
        since(|it| it.id),
        since(|it| it.wa),
        since(|it| it.stolen),
    ];
    let share = |part: u64| Share::of(part, us + sy + si + id + wa + stolen);
    CpuShares { us: share(us), sy: share(sy), si: share(si), id: share(id), wa: share(wa) }
}

/// The time that the thread ran is exact; how it is shared between user and system is known by the tick.
fn thread_shares(now: &Counts, then: &Counts) -> Option<ThreadShares> {
    let (newer, older) = (now.thread?, then.thread?);
    let span_ns = now.now_ns - then.now_ns;
    let ran_ns = newer.ran_ns.saturating_sub(older.ran_ns);
    let us = newer.us_ticks.saturating_sub(older.us_ticks);
    let sy = newer.sy_ticks.saturating_sub(older.sy_ticks);
    let us_ns = u128::from(ran_ns) * u128::from(us) / u128::from((us + sy).max(1));
    let us_ns = u64::try_from(us_ns).expect("a part of 64 bits");
    Some(ThreadShares {
        us: Share::of(us_ns, span_ns),
        sy: Share::of(ran_ns - us_ns, span_ns),
        wait: Share::of(newer.waited_ns.saturating_sub(older.waited_ns), span_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 10 5 20 100 3 1 2 4 0 0\ncpu10 1 2 3 4 5 6 7 8 9 10\nintr 1 2\n";

    #[test]
    fn cpus_are_read_by_their_number() {
        let want = Ticks { us: 15, sy: 20, si: 3, id: 100, wa: 3, stolen: 4 };
        assert_eq!(ticks_of(STAT, 1), Some(want));
        assert_eq!(ticks_of(STAT, 10).unwrap().si, 13);
        assert_eq!(ticks_of(STAT, 0), None);
        assert_eq!(ticks_of("cpu1 1 2 3\n", 1), None, "an older kernel counts less");
    }

    #[test]
    fn shares_of_a_cpu_make_a_whole_with_what_was_stolen() {
        let then = Ticks { us: 100, sy: 100, si: 100, id: 100, wa: 100, stolen: 100 };
        let now = Ticks { us: 140, sy: 120, si: 110, id: 125, wa: 99, stolen: 105 };
        let shares = cpu_shares(now, then);
        let tenths = [shares.us, shares.sy, shares.si, shares.id, shares.wa].map(|share| share.0);
        assert_eq!(tenths, [400, 200, 100, 250, 0]);
    }

    #[test]
    fn a_threads_name_does_not_move_its_fields() {
        let stat = "7 (lane 0) x) R 1 7 7 0 -1 64 8 0 0 0 30 10 0 0 20 0 4 0 99";
        let want = ThreadTimes { us_ticks: 30, sy_ticks: 10, ran_ns: 500, waited_ns: 20 };
        assert_eq!(times_of(stat, "500 20 3\n"), Some(want));
        assert_eq!(times_of(stat, "").unwrap().ran_ns, 40 * TICK_NS, "a kernel without schedstat");
        assert_eq!(times_of("", ""), None);
        let status = "Name:\tlane 0\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches_of(status), Some((12, 3)));
    }

    #[test]
    fn a_threads_time_is_shared_by_its_ticks() {
        let counts = |now_ns, us_ticks, sy_ticks, ran_ns, waited_ns| Counts {
            now_ns,
            thread: Some(ThreadTimes { us_ticks, sy_ticks, ran_ns, waited_ns }),
            ..Counts::default()
        };
        let shares = thread_shares(&counts(2000, 13, 1, 900, 150), &counts(1000, 10, 0, 500, 50)).unwrap();
        assert_eq!([shares.us, shares.sy, shares.wait], [Share(300), Share(100), Share(100)]);
        // It ran for less than a tick: nothing is divided by zero.
        let shares = thread_shares(&counts(2000, 10, 0, 600, 50), &counts(1000, 10, 0, 500, 50)).unwrap();
        assert_eq!([shares.us, shares.sy, shares.wait], [Share(0), Share(100), Share(0)]);
    }

    #[test]
    fn pages_are_shared_out_as_the_sample_lies() {
        let gone = -libc::ENOENT;
        assert_eq!(split(&[0, 0, 1, gone], 0, 300), Pages { local: 200, remote: 100 });
        assert_eq!(split(&[0, 1], 1, 3), Pages { local: 1, remote: 2 });
        assert_eq!(split(&[gone], 0, 5), Pages { local: 5, remote: 0 });
        for (count, want) in [(0, 0), (1, 1), (2048, 2048), (2049, 1025), (1 << 23, 2048)] {
            let addresses = sample(4096, count, 4096);
            assert_eq!(addresses.len(), want, "{count}");
            assert!(addresses.iter().all(|address| address.is_multiple_of(4096)));
        }
    }

    /// Pages that were touched have a node; where the kernel refuses to tell, that is no error.
    #[test]
    fn this_machine_can_be_looked_at() {
        let pages = vec![1_u8; 64 << 10];
        let base = pages.as_ptr().expose_provenance().next_multiple_of(4096);
        if let Some(nodes) = nodes_of(&sample(base, 8, 4096)) {
            assert!(nodes.len() == 8 && nodes.iter().all(|node| *node >= 0), "{nodes:?}");
        }
        let berthed = Berthed { thread: crate::machine::thread_id(), cpu: Some(0), node: Some(0), base };
        let mut signatures = Signatures::new(vec![berthed], 1);
        assert_eq!(signatures.look(0, 64 << 10, 2).thread, None, "too soon for shares");
        let signature = signatures.look(0, 64 << 10, SPAN_NS_MIN + 1);
        assert!(signature.thread.is_some() && signature.switches.is_some(), "{signature:?}");
        assert_eq!(signature.cpu, Some(0));
        let again = signatures.look(0, 64 << 10, SPAN_NS_MIN + 2);
        assert_eq!((again.thread, again.switches), (signature.thread, signature.switches));
    }
}
