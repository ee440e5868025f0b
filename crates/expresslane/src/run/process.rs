//! What a process can set of itself and its program inherits. Errors are sentences that name the flag.

use std::fs;
use std::io;
use std::path::Path;

use host::Cpus;
use host::cpus::NUMBER_MAX;

use crate::scheduler::priority_result;

/// Bits of a word of a mask.
const BITS: usize = u64::BITS as usize;
/// The highest NUMA node that a mask here has a bit for; kernels have at most 1024 (CONFIG_NODES_SHIFT).
pub(super) const NODE_MAX: u32 = 1023;
/// Words of a mask of as many cpus as kernels can have.
const CPU_WORDS: usize = (NUMBER_MAX as usize + 1) / BITS;
const NODE_WORDS: usize = (NODE_MAX as usize + 1) / BITS;
/// Memory of these nodes alone (linux/mempolicy.h).
const MPOL_BIND: libc::c_int = 2;

/// Runs on these cpus alone from now on.
pub(super) fn set_affinity(cpus: &Cpus) -> Result<(), String> {
    if cpus.is_empty() {
        return Err("--cpus is empty; name a cpu, such as 2".to_owned());
    }
    let before = affinity().map_err(|error| format!("can't read the cpus of this process: {error}"))?;
    let mut words = [0_u64; CPU_WORDS];
    fill(&mut words, cpus);
    // SAFETY: as many bytes are read as the array has.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&words), words.as_ptr().cast()) };
    let error = (result != 0).then(io::Error::last_os_error);
    // The kernel takes what it can of a set and says nothing of the rest.
    match (error, affinity()) {
        (None, Ok(now)) if now == *cpus => Ok(()),
        (None, Err(error)) => Err(format!("can't read the cpus of this process: {error}")),
        (None, Ok(now)) => Err(missing(cpus, &now)),
        (Some(error), _) if error.raw_os_error() == Some(libc::EINVAL) => Err(missing(cpus, &before)),
        (Some(error), _) => Err(format!("can't run on --cpus {cpus}: {error}")),
    }
}

fn missing(wanted: &Cpus, allowed: &Cpus) -> String {
    let missing = wanted.without(allowed);
    format!(
        "--cpus {wanted}: cpu {missing} is not online or not in the cpuset of this process; it may run on {allowed}"
    )
}

/// The cpus this process may run on.
fn affinity() -> io::Result<Cpus> {
    let mut words = [0_u64; CPU_WORDS];
    // SAFETY: as many bytes are written as the array has.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&words), words.as_mut_ptr().cast()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let has = |number: &u32| {
        let number = usize::try_from(*number).expect("32 bits fit");
        words[number / BITS] >> (number % BITS) & 1 == 1
    };
    Ok((0..=NUMBER_MAX).filter(has).collect())
}

/// Sets the bits of these numbers; what has no room is left out.
fn fill(words: &mut [u64], numbers: &Cpus) {
    for number in numbers.iter() {
        let number = usize::try_from(number).expect("32 bits fit");
        if let Some(word) = words.get_mut(number / BITS) {
            *word |= 1 << (number % BITS);
        }
    }
}

/// NUMA nodes with memory or cpus; 0 alone where the kernel knows none.
pub(super) fn nodes() -> Result<Cpus, String> {
    match fs::read_to_string("/sys/devices/system/node/online") {
        Ok(text) => text.parse(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Cpus::from_iter([0])),
        Err(error) => Err(format!("can't read this machine's NUMA nodes for --mem-node: {error}")),
    }
}

/// Takes memory of this node alone from now on, also after `execve`.
pub(super) fn bind_memory(node: u32) -> Result<(), String> {
    let mut words = [0_u64; NODE_WORDS];
    fill(&mut words, &Cpus::from_iter([node]));
    // The kernel looks at one bit less than it is told.
    let bits = words.len() * BITS + 1;
    // SAFETY: `bits - 1` bits are read, which the array has.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, words.as_ptr(), bits) };
    if result != 0 {
        let error = io::Error::last_os_error();
        return Err(format!(
            "can't bind memory for --mem-node {node}: {error}; is the node in the cpuset of this process?"
        ));
    }
    Ok(())
}

/// Sets the nice value.
pub(super) fn set_nice(nice: i32) -> Result<(), String> {
    // SAFETY: no address is involved.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    priority_result(result, &format!("--nice {nice}"), "RLIMIT_NICE")
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Sets a limit of `setrlimit(2)`; the hard one is raised with it where it is lower.
pub(super) fn set_limit(resource: Resource, value: u64, flag: &str) -> Result<(), String> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: one structure is written.
    if unsafe { libc::getrlimit(resource, &raw mut limit) } != 0 {
        return Err(format!("can't read the limit of {flag}: {}", io::Error::last_os_error()));
    }
    let hard = limit.rlim_max;
    limit.rlim_cur = value;
    limit.rlim_max = hard.max(value);
    // SAFETY: one structure is read.
    if unsafe { libc::setrlimit(resource, &raw const limit) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EPERM) => format!(
            "not allowed to set {flag} {value}: it is above the hard limit {hard} (CAP_SYS_RESOURCE) or above \
             fs.nr_open ({error})"
        ),
        _ => format!("can't set {flag} {value}: {error}"),
    })
}

/// Puts this process into a control group that exists, in the hierarchy that holds cpusets.
pub(super) fn join(group: &str) -> Result<(), String> {
    let mounts = fs::read_to_string("/proc/self/mounts")
        .map_err(|error| format!("can't find control groups for --cgroup: {error}"))?;
    let name = group.trim_start_matches('/');
    if name.split('/').any(|part| part == "..") {
        return Err(format!("--cgroup {group} leads out of the hierarchy; name a path below its root"));
    }
    let roots = hierarchies(&mounts);
    let Some(root) = roots.iter().find(|root| Path::new(root).join(name).is_dir()) else {
        let below =
            if roots.is_empty() { "any hierarchy (none is mounted)".to_owned() } else { roots.join(" or ") };
        return Err(format!(
            "there is no control group '{name}' below {below}; make it first, or leave --cgroup out"
        ));
    };
    let file = Path::new(root).join(name).join("cgroup.procs");
    fs::write(&file, std::process::id().to_string())
        .map_err(|error| format!("can't enter the control group '{name}' ({}): {error}", file.display()))
}

/// Where groups of cpusets are: a hierarchy of version 1 that has them, else those of version 2.
fn hierarchies(mounts: &str) -> Vec<String> {
    let mut roots: Vec<(bool, String)> = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (at, kind, options) = (words.next()?, words.next()?, words.next()?);
            let is_first = kind == "cgroup" && options.split(',').any(|option| option == "cpuset");
            (is_first || kind == "cgroup2").then(|| (!is_first, at.to_owned()))
        })
        .collect();
    roots.sort();
    roots.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_looked_for_where_cpusets_are() {
        let first = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
            cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
            cgroup /sys/fs/cgroup/cpuset cgroup rw,nosuid,cpuset 0 0\n";
        assert_eq!(hierarchies(first), ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/unified"]);
        assert_eq!(hierarchies("none /sys/fs/cgroup cgroup2 rw 0 0\n"), ["/sys/fs/cgroup"]);
        assert!(hierarchies("proc /proc proc rw 0 0\n").is_empty());
    }

    #[test]
    fn a_mask_has_the_bits_of_its_numbers() {
        let mut words = [0_u64; 3];
        fill(&mut words, &"0,63-64,130,5000".parse().unwrap());
        assert_eq!(words, [1 | 1 << 63, 1, 4]);
    }

    #[test]
    fn cpus_that_are_missing_are_named() {
        let problem = missing(&"0,7".parse().unwrap(), &"0-3".parse().unwrap());
        assert!(problem.contains("cpu 7 is not online") && problem.contains("may run on 0-3"), "{problem}");
    }
}
