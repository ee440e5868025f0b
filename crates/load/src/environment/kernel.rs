//! The kernel and its settings.

use super::files::Files;
use super::memory::chosen;
use super::{Group, privacy};

/// The scheduler's own settings, where debugfs is mounted and readable; before 5.13 they are sysctls.
const SCHEDULER: &str = "sys/kernel/debug/sched";
/// Folders of /proc/sys, and what the settings taken from each begin with; nothing: all of them. `.../core/` is shown as
/// `net.core.…`, as sysctl(8) does.
const SETTINGS: [(&str, &[&str]); 5] = [
    (
        "net/core",
        &[
            "busy_",
            "somaxconn",
            "netdev_",
            "rmem_",
            "wmem_",
            "optmem_max",
            "dev_weight",
            "default_qdisc",
            "rps_",
            "flow_limit_",
            "gro_normal_batch",
            "high_order_alloc_disable",
            "skb_defer_max",
        ],
    ),
    ("net/ipv4", &["tcp_", "ip_local_port_range", "ip_early_demux"]),
    ("vm", &[""]),
    (
        "kernel",
        &[
            "sched_",
            "numa_balancing",
            "timer_migration",
            "watchdog",
            "nmi_watchdog",
            "perf_event_paranoid",
            "perf_cpu_time_max_percent",
            "randomize_va_space",
            "io_uring_disabled",
            "threads-max",
            "pid_max",
        ],
    ),
    ("fs", &["file-max", "nr_open", "aio-max-nr"]),
];
/// Left out: secrets, what changes as modules are loaded, and files that do something when they are read.
const NOT_READ: [&str; 7] = [
    "tcp_fastopen_key",
    "netdev_rss_key",
    "stat_refresh",
    "drop_caches",
    "compact_memory",
    "tcp_available_congestion_control",
    "tcp_available_ulp",
];

/// Release, command line, clock, scheduler.
pub(super) fn group(files: &dyn Files) -> Group {
    let mut group = Group::new("kernel");
    let clock = |name: &str| files.value(&format!("sys/devices/system/clocksource/clocksource0/{name}"));
    group.equal("distribution", files.text("etc/os-release").as_deref().and_then(distribution));
    group.equal("release", files.value("proc/sys/kernel/osrelease"));
    group.equal("version", files.value("proc/sys/kernel/version"));
    group.equal("command line", files.text("proc/cmdline").map(|text| privacy::kernel_command(&text)));
    group.equal("clock source", clock("current_clocksource"));
    group.equal("clock sources available", clock("available_clocksource"));
    group.equal("preemption", files.value(&format!("{SCHEDULER}/preempt")).map(parenthesised));
    let features = files
        .value(&format!("{SCHEDULER}/features"))
        .or_else(|| files.value("sys/kernel/debug/sched_features"));
    group.equal("scheduler features", features);
    for name in
        ["base_slice_ns", "min_granularity_ns", "latency_ns", "wakeup_granularity_ns", "migration_cost_ns"]
    {
        // Kernels have some of them and never all: one that is not there is no gap in what is known.
        if let Some(value) = files.value(&format!("{SCHEDULER}/{name}")) {
            group.equal(format!("scheduler {name}"), Some(value));
        }
    }
    group.equal("extensible scheduler", files.value("sys/kernel/sched_ext/state"));
    group.equal("workqueue cpus", files.value("sys/devices/virtual/workqueue/cpumask"));
    group.equal("default interrupt cpus", files.value("proc/irq/default_smp_affinity"));
    group.volatile(
        "uptime",
        files.value("proc/uptime").and_then(|text| Some(format!("{} s", text.split('.').next()?))),
    );
    group.volatile(
        "load",
        files.value("proc/loadavg").map(|text| text.split(' ').take(3).collect::<Vec<_>>().join(" ")),
    );
    group
}

/// The settings that change latency, each by its name in sysctl(8).
pub(super) fn sysctls(files: &dyn Files) -> Group {
    let mut group = Group::new("sysctl");
    for (folder, prefixes) in SETTINGS {
        for name in files.entries(&format!("proc/sys/{folder}")) {
            let is_wanted = prefixes.iter().any(|prefix| name.starts_with(prefix));
            if !is_wanted || NOT_READ.contains(&name.as_str()) {
                continue;
            }
            // A folder (kernel/sched_domain) and what only root may read (vm/mmap_rnd_bits) are no gaps worth a row.
            if let Some(value) = files.value(&format!("proc/sys/{folder}/{name}")) {
                let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
                group.equal(format!("{}.{name}", folder.replace('/', ".")), Some(value));
            }
        }
    }
    group
}

/// The name that the distribution gives itself: os-release(5).
fn distribution(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim().trim_matches('"').to_owned())
}

/// The choice of `none voluntary (full)`, which this one file puts in parentheses.
fn parenthesised(value: String) -> String {
    chosen(value.replace('(', "[").replace(')', "]"))
}
