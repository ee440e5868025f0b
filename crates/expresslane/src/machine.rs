//! What the machine is and allows: cpus, quota, memory, files. Reads, and the few calls that change this process.
//!
//! Parsing is apart from reading, so that every format is tested without the machine that has it.

use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::settings::CpuList;

/// What `plan` needs to know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
    /// Cpus this process may run on, ascending; never empty.
    pub(crate) cpus: Vec<usize>,
    /// Cpus' worth of time that the control group grants, where it bounds that.
    pub(crate) quota: Option<f64>,
    /// Bytes of memory in the machine.
    pub(crate) memory_size: u64,
    /// Bytes that the control group allows, where that is less.
    pub(crate) memory_bound: Option<u64>,
}

impl Facts {
    /// Of this machine, now.
    ///
    /// # Errors
    /// The kernel's own: without the list of allowed cpus nothing can be placed.
    pub(crate) fn read() -> io::Result<Facts> {
        let read = |path: &Path| fs::read_to_string(path).ok();
        let memory_size = read(Path::new("/proc/meminfo")).and_then(|text| memory_of(&text)).unwrap_or(0);
        let memory_bound = memory_bound(&read).filter(|bound| *bound < memory_size);
        Ok(Facts { cpus: allowed_cpus()?, quota: quota(&read), memory_size, memory_bound })
    }

    /// Hardware threads that this process can count on, at least one.
    pub(crate) fn threads_count(&self) -> usize {
        let whole =
            |quota: f64| (1..self.cpus.len()).rev().find(|count| f64_of(*count) <= quota).unwrap_or(1);
        match self.quota {
            Some(quota) if quota < f64_of(self.cpus.len()) => whole(quota),
            _ => self.cpus.len(),
        }
    }
}

/// Cpus are few: each count of them is exact as a floating-point number.
fn f64_of(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// Cpus in the kernel's mask for this thread (`sched_getaffinity(2)`); taskset and cpusets both show here.
pub(crate) fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut words = [0_u64; MASK_WORDS];
    // SAFETY: `words` is writable for the size passed, which is all that the kernel fills.
    let filled = unsafe { libc::sched_getaffinity(0, mem::size_of_val(&words), words.as_mut_ptr().cast()) };
    if filled < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..MASK_WORDS * 64).filter(|cpu| words[cpu / 64] >> (cpu % 64) & 1 == 1).collect())
}

/// Words of a cpu mask, for as many cpus as Linux can be built for.
const MASK_WORDS: usize = 8192 / 64;

/// Pins the calling thread to one cpu.
///
/// # Errors
/// `EINVAL`: the cpu is not there or not allowed.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    pin_to(&[cpu])
}

/// Runs `body` on a cpu, and lets the calling thread go back to where it may run. A thread that `body` starts stays there: it
/// inherits the cpu, and its stack is touched first on that cpu's memory node.
///
/// # Errors
/// As [`pin`], and then `body` has not run; or the kernel's own, when the thread can't go back.
pub(crate) fn on_cpu<T>(cpu: usize, body: impl FnOnce() -> T) -> io::Result<T> {
    let home = allowed_cpus()?;
    pin(cpu)?;
    let value = body();
    pin_to(&home)?;
    Ok(value)
}

/// Lets the calling thread, and what it starts from now on, run on these cpus alone.
///
/// # Errors
/// `EINVAL`: none of them is there or allowed.
pub(crate) fn pin_to(cpus: &[usize]) -> io::Result<()> {
    let mut words = [0_u64; MASK_WORDS];
    for cpu in cpus {
        words[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: `words` is readable for the size passed.
    let result = unsafe { libc::sched_setaffinity(0, mem::size_of_val(&words), words.as_ptr().cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the memory that the calling thread, and what it starts from now on, touches first from this node alone
/// (`set_mempolicy(2)`, `MPOL_BIND`).
///
/// # Errors
/// `EINVAL`: there is no such node, or its memory is not allowed. `ENOSYS`: the kernel knows no nodes.
pub(crate) fn bind_memory(node: u16) -> io::Result<()> {
    let words = node_mask(node)?;
    // SAFETY: `words` is readable for the bits that are counted.
    let result =
        unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, words.as_ptr(), NODE_BITS) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the pages of a range that nobody has touched come from a node while it has some, whoever touches them.
///
/// # Errors
/// As [`bind_memory`].
pub(crate) fn prefer_memory(base: usize, size: usize, node: u16) -> io::Result<()> {
    let words = node_mask(node)?;
    // SAFETY: `words` is readable for the bits that are counted, and a policy changes no content.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, base, size, libc::MPOL_PREFERRED, words.as_ptr(), NODE_BITS, 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Words of a node mask, for as many nodes as Linux can be built for, and its bits: the kernel takes one less than it is told of.
const NODE_WORDS: usize = 1024 / 64;
const NODE_BITS: usize = NODE_WORDS * 64 + 1;

fn node_mask(node: u16) -> io::Result<[u64; NODE_WORDS]> {
    let node = usize::from(node);
    let mut words = [0_u64; NODE_WORDS];
    let Some(word) = words.get_mut(node / 64) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    *word = 1 << (node % 64);
    Ok(words)
}

/// Lets every thread of a process run on these cpus, wherever it was pinned. A thread that ends meanwhile is no error.
///
/// # Errors
/// The process is not there.
pub(crate) fn move_threads(pid: u32, cpus: &[usize]) -> io::Result<()> {
    let mut words = [0_u64; MASK_WORDS];
    for cpu in cpus {
        words[cpu / 64] |= 1 << (cpu % 64);
    }
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let Some(tid) = task?.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok()) else {
            continue;
        };
        // SAFETY: `words` is readable for the size passed; a number that names no thread any more is refused.
        unsafe { libc::sched_setaffinity(tid, mem::size_of_val(&words), words.as_ptr().cast()) };
    }
    Ok(())
}

/// Asks a process to end (SIGTERM). One that has ended is no error: its number is ours until it was waited for.
pub(crate) fn terminate(pid: u32) {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return };
    // SAFETY: two numbers for the kernel.
    unsafe { libc::kill(pid, libc::SIGTERM) };
}

/// A program that is about to be started ends with the calling thread, however that ends (`PR_SET_PDEATHSIG`), and gets no signals
/// from the terminal: whoever starts it decides when it goes.
pub(crate) fn bind_life(command: &mut Command) {
    let parent = std::process::id();
    let ends_with_its_parent = move || {
        // SAFETY: numbers for the kernel, and calls that may stand between fork and exec.
        let (result, now) = unsafe {
            (
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::c_ulong::from(libc::SIGKILL.unsigned_abs())),
                libc::getppid(),
            )
        };
        match result {
            0 if u32::try_from(now) == Ok(parent) => Ok(()),
            0 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            _ => Err(io::Error::last_os_error()),
        }
    };
    command.process_group(0);
    // SAFETY: what runs between fork and exec is above, and allocates nothing.
    unsafe { command.pre_exec(ends_with_its_parent) };
}

/// Wakes the calling thread's sleeps when they are due: the kernel may otherwise put them together, 50 us late
/// (`PR_SET_TIMERSLACK`).
pub(crate) fn set_timer_slack() {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: a number for the kernel; nothing is written.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) };
}

/// Lets the calling thread run only while nothing else wants its cpu (`SCHED_IDLE`): what wakes up there takes it at once. It can't come
/// back without a right. Where the kernel refuses, it runs as before.
pub(crate) fn stand_aside() {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is read, once.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const priority) };
}

/// CPU time of the calling thread, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is there for the kernel to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The calling thread's number in the kernel: its folder in /proc/self/task.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: asks for a number, touches nothing.
    unsafe { libc::gettid() }
}

/// Whether a process of this name runs, as far as /proc is open.
pub(crate) fn is_running(name: &str) -> bool {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    folders
        .filter_map(|folder| fs::read_to_string(folder.path().join("comm")).ok())
        .any(|own| own.trim() == name)
}

/// The memory node of a cpu. `None`: the kernel knows no nodes, or does not say.
pub(crate) fn node_of(cpu: usize) -> Option<u16> {
    node_below(Path::new("/sys/devices/system/cpu"), cpu)
}

/// From the `nodeN` link in the cpu's folder.
fn node_below(root: &Path, cpu: usize) -> Option<u16> {
    let folder = fs::read_dir(root.join(format!("cpu{cpu}"))).ok()?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
}

/// The smallest quota of this process' control group and those above it, in cpus.
fn quota(read: &dyn Fn(&Path) -> Option<String>) -> Option<f64> {
    let limit = |folder: &Path| {
        let v2 = read(&folder.join("cpu.max")).and_then(|text| quota_of(&text.replace("max ", "-1 ")));
        let v1 = || {
            let quota = read(&folder.join("cpu.cfs_quota_us"))?;
            quota_of(&format!("{} {}", quota.trim(), read(&folder.join("cpu.cfs_period_us"))?.trim()))
        };
        v2.or_else(v1)
    };
    limits_of_groups(read, "cpu", &limit).into_iter().reduce(f64::min)
}

/// The smallest limit of memory of this process' control group and those above it, in bytes.
fn memory_bound(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let limit = |folder: &Path| {
        let text =
            read(&folder.join("memory.max")).or_else(|| read(&folder.join("memory.limit_in_bytes")))?;
        // `max` is none; in groups of the first kind none is a number beyond all memory.
        text.trim().parse().ok()
    };
    limits_of_groups(read, "memory", &limit).into_iter().min()
}

/// What `limit` finds in the folders of this process' control group and those above it, by whose `controller` it is bound.
fn limits_of_groups<T>(
    read: &dyn Fn(&Path) -> Option<String>,
    controller: &str,
    limit: &dyn Fn(&Path) -> Option<T>,
) -> Vec<T> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let root = match controllers {
            "" => PathBuf::from("/sys/fs/cgroup"),
            list if list.split(',').any(|name| name == controller) => {
                Path::new("/sys/fs/cgroup").join(controller)
            }
            _ => continue,
        };
        // Inside a container the group's path may be the host's and lead nowhere; the root then is the container's own.
        let path = root.join(group.trim_start_matches('/'));
        limits.extend(path.ancestors().take_while(|folder| folder.starts_with(&root)).filter_map(limit));
    }
    limits
}

/// `QUOTA PERIOD` in microseconds; a negative quota is none.
fn quota_of(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// Bytes from /proc/meminfo.
fn memory_of(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Sees to it that `wanted` files may be open, and that the kernel has a table for them, of eight bytes each.
///
/// Else the table grows as files are opened, to twice its size; and whoever opens the file that finds it full waits for a grace
/// period, some ten milliseconds, because other threads may be reading it (fs/file.c, `expand_fdtable`).
///
/// # Errors
/// How many there may be, when that is less.
pub(crate) fn allow_files(wanted: u64) -> Result<(), u64> {
    raise_files(wanted)?;
    let highest = libc::c_int::try_from(wanted.saturating_sub(1)).unwrap_or(libc::c_int::MAX);
    if let Ok(file) = File::open("/dev/null") {
        // SAFETY: takes no pointer. What it opens is closed at once; a refusal leaves the table as it was.
        let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, highest) };
        if copy >= 0 {
            // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
            drop(unsafe { OwnedFd::from_raw_fd(copy) });
        }
    }
    Ok(())
}

/// The soft limit is raised as far as the hard one, and that where this process is privileged to.
fn raise_files(wanted: u64) -> Result<(), u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable for one rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 || limit.rlim_cur >= wanted {
        return Ok(());
    }
    for hard in [limit.rlim_max, limit.rlim_max.max(wanted)] {
        let raised = libc::rlimit { rlim_cur: wanted.min(hard), rlim_max: hard };
        // SAFETY: `raised` is readable for one rlimit. A refusal leaves the limit as it was.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0
            && raised.rlim_cur >= wanted
        {
            return Ok(());
        }
    }
    Err(limit.rlim_max)
}

/// Sixteen bytes nobody can guess, for the table's secret.
///
/// # Errors
/// The kernel's own.
pub(crate) fn secret() -> io::Result<[u64; 2]> {
    let mut bytes = [0_u8; 16];
    // SAFETY: `bytes` is writable for its length; up to 256 bytes come in one piece (getrandom(2)).
    let size = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(size) != Ok(bytes.len()) {
        return Err(io::Error::last_os_error());
    }
    let (words, _) = bytes.as_chunks::<8>();
    Ok([u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])])
}

/// Cpus as people write them.
pub(crate) fn list_of(cpus: &[usize]) -> String {
    CpuList(cpus.to_vec()).to_string()
}

unsafe extern "C" {
    /// The first byte of this program in memory, and the first behind its code. Both are the linker's.
    static __executable_start: u8;
    static etext: u8;
}

/// What of this program only its start has needed is not mapped any more, and so is no part of what it takes: reading flags, files and
/// the machine are most of its code. What is needed again comes back from the file, a few pages at a time.
pub(crate) fn forget_start() {
    let (first, end) = (&raw const __executable_start, &raw const etext);
    let size = end.addr().saturating_sub(first.addr()) & !4095;
    // SAFETY: what lies there is read and executed, and never written: dropped pages come back as they were.
    unsafe { libc::madvise(first.cast_mut().cast(), size, libc::MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(cpus: usize, quota: Option<f64>) -> Facts {
        Facts { cpus: (0..cpus).collect(), quota, memory_size: 1 << 30, memory_bound: None }
    }

    #[test]
    fn a_quota_bounds_the_threads() {
        for (cpus, quota, want) in
            [(8, None, 8), (8, Some(2.5), 2), (8, Some(0.5), 1), (2, Some(16.0), 2), (1, Some(0.1), 1)]
        {
            assert_eq!(facts(cpus, quota).threads_count(), want, "{cpus} {quota:?}");
        }
    }

    /// Reads files that are made up.
    fn among(files: &[(&str, &str)]) -> impl Fn(&Path) -> Option<String> {
        |path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
    }

    #[test]
    fn quotas_are_read_of_both_kinds_of_groups() {
        let check = |files: &[(&str, &str)], want: Option<f64>| {
            assert_eq!(quota(&among(files)), want, "{files:?}");
        };
        check(&[], None);
        check(&[("/proc/self/cgroup", "0::/a/b\n"), ("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n")], None);
        check(
            &[
                ("/proc/self/cgroup", "0::/a/b\n"),
                ("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"),
                ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ],
            Some(1.5),
        );
        check(
            &[
                ("/proc/self/cgroup", "3:cpu,cpuacct:/x\n2:memory:/x\n"),
                ("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n"),
                ("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ],
            Some(0.5),
        );
    }

    #[test]
    fn limits_of_memory_are_read_of_both_kinds_of_groups() {
        let check = |files: &[(&str, &str)], want: Option<u64>| {
            assert_eq!(memory_bound(&among(files)), want, "{files:?}");
        };
        check(&[("/proc/self/cgroup", "0::/a\n"), ("/sys/fs/cgroup/a/memory.max", "max\n")], None);
        check(
            &[
                ("/proc/self/cgroup", "0::/a/b\n"),
                ("/sys/fs/cgroup/a/b/memory.max", "4294967296\n"),
                ("/sys/fs/cgroup/a/memory.max", "2147483648\n"),
            ],
            Some(2 << 30),
        );
        check(
            &[
                ("/proc/self/cgroup", "3:cpu,cpuacct:/x\n2:memory:/y\n"),
                ("/sys/fs/cgroup/cpu/x/memory.limit_in_bytes", "1\n"),
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("/sys/fs/cgroup/memory/y/memory.limit_in_bytes", "1073741824\n"),
            ],
            Some(1 << 30),
        );
    }

    #[test]
    fn this_machine_can_be_read() {
        let facts = Facts::read().unwrap();
        assert!(!facts.cpus.is_empty() && facts.memory_size > 1 << 20);
        assert_eq!(memory_of("MemTotal:       24643900 kB\nMemFree: 1 kB\n"), Some(24_643_900 * 1024));
        assert_ne!(secret().unwrap(), secret().unwrap());
        allow_files(5000).unwrap();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let table_size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        assert!(table_size.trim().parse::<u32>().unwrap() >= 5000, "{table_size}");
    }

    #[test]
    fn a_thread_can_be_pinned_where_it_may_run() {
        let cpus = allowed_cpus().unwrap();
        let last = *cpus.last().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(last).unwrap();
                assert_eq!(allowed_cpus().unwrap(), [last]);
                assert!(pin(8191).is_err());
            });
        });
        assert_eq!(allowed_cpus().unwrap(), cpus, "other threads stay as they were");
    }

    #[test]
    fn a_thread_that_is_started_on_a_cpu_never_was_elsewhere() {
        let cpus = allowed_cpus().unwrap();
        let last = *cpus.last().unwrap();
        let spawn = || std::thread::Builder::new().spawn(|| allowed_cpus().unwrap());
        let thread = on_cpu(last, spawn).unwrap().unwrap();
        assert_eq!(thread.join().unwrap(), [last]);
        assert_eq!(allowed_cpus().unwrap(), cpus, "whoever starts it goes back");
        assert!(on_cpu(8191, || panic!("there is no such cpu")).is_err());
        assert_eq!(allowed_cpus().unwrap(), cpus);
    }

    #[test]
    fn a_cpus_node_is_in_its_folder() {
        let root = std::env::temp_dir().join(format!("expresslane-cpus-{}", std::process::id()));
        // As on a machine of two nodes; cpu 5 is offline and of none.
        for entry in ["cpu0/node0", "cpu0/cache", "cpu1/topology", "cpu1/node1", "cpu12/node3", "cpu5/power"]
        {
            fs::create_dir_all(root.join(entry)).unwrap();
        }
        let nodes = [0, 1, 12, 5, 2].map(|cpu| node_below(&root, cpu));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(nodes, [Some(0), Some(1), Some(3), None, None]);
    }
}
