//! What a run may use: limits of the control group, of the process, and the cpus it may run on.
//!
//! Both versions of control groups: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/. Paths of groups hold names of users
//! and containers and are followed, never shown. A limit of a group above holds as well, so the chain is walked up.

use super::Group;
use super::files::Files;
use super::processor::field;

/// The names of each limit: shown, in version 2, in version 1 (controller, file).
const LIMITS: [(&str, &str, &str, &str); 6] = [
    ("cpu.max", "cpu.max", "cpu", "cpu.cfs_quota_us"),
    ("cpu.weight", "cpu.weight", "cpu", "cpu.shares"),
    ("cpuset.cpus", "cpuset.cpus.effective", "cpuset", "cpuset.effective_cpus"),
    ("cpuset.mems", "cpuset.mems.effective", "cpuset", "cpuset.effective_mems"),
    ("memory.max", "memory.max", "memory", "memory.limit_in_bytes"),
    ("memory.high", "memory.high", "memory", "memory.soft_limit_in_bytes"),
];
/// Groups above one another that are looked at.
const DEPTH_MAX: usize = 32;

/// Limits of the capturing process, which its children inherit unless the plan changes them.
pub(super) fn group(files: &dyn Files) -> Group {
    let mut group = Group::new("limits");
    let membership = files.text("proc/self/cgroup").unwrap_or_default();
    for (name, second, controller, first) in LIMITS {
        let value = values(files, "sys/fs/cgroup", path_of(&membership, ""), second).or_else(|| {
            values(files, &format!("sys/fs/cgroup/{controller}"), path_of(&membership, controller), first)
        });
        group.equal(name, value);
    }
    let status = files.text("proc/self/status").unwrap_or_default();
    group.equal("cpus allowed", field(&status, "Cpus_allowed_list"));
    group.equal("memory nodes allowed", field(&status, "Mems_allowed_list"));
    group.equal("seccomp", field(&status, "Seccomp"));
    for (name, limit) in ulimits(&files.text("proc/self/limits").unwrap_or_default()) {
        group.equal(name, Some(limit));
    }
    group
}

/// The group's path in the hierarchy of a controller, or of version 2 for the empty name: `4:cpu,cpuacct:/a/b`, `0::/a/b`.
fn path_of<'a>(membership: &'a str, controller: &str) -> Option<&'a str> {
    membership.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        controllers.split(',').any(|known| known == controller).then_some(path)
    })
}

/// The distinct values from the group up to the top, the nearest first. In a container the path may lead out of what is
/// mounted; the top of the mount is then the group itself.
fn values(files: &dyn Files, mount: &str, path: Option<&str>, file: &str) -> Option<String> {
    let mut path = path?.trim_end_matches('/');
    let mut found: Vec<String> = Vec::new();
    for _ in 0..DEPTH_MAX {
        if !path.contains("..")
            && let Some(value) = files.value(&format!("{mount}{path}/{file}"))
            && found.last() != Some(&value)
        {
            found.push(value);
        }
        let Some((above, _)) = path.rsplit_once('/') else { break };
        path = above;
    }
    (!found.is_empty()).then(|| found.join(", above it "))
}

/// Soft and hard limit of each line, which has columns of fixed width: `Max open files   1024   4096   files`.
fn ulimits(text: &str) -> Vec<(String, String)> {
    const NAME_SIZE: usize = 26;
    let mut limits = Vec::new();
    for line in text.lines().skip(1) {
        let Some((name, rest)) = line.split_at_checked(NAME_SIZE) else { continue };
        let mut words = rest.split_whitespace();
        let (Some(soft), Some(hard)) = (words.next(), words.next()) else { continue };
        let unit = words.next().map(|unit| format!(" {unit}")).unwrap_or_default();
        let limit = if soft == hard { soft.to_owned() } else { format!("{soft}, hard {hard}") };
        limits.push((name.trim().to_lowercase(), format!("{limit}{unit}")));
    }
    limits
}
