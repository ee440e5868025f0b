//! The cpus: model, topology, frequency, idle states, caches, memory nodes, mitigations.
//!
//! /proc/cpuinfo is written by each architecture in its own way; /sys/devices/system/cpu is one interface:
//! Documentation/ABI/testing/sysfs-devices-system-cpu.

use std::collections::BTreeSet;

use super::cpus::{list, parse_list, spread};
use super::files::Files;
use super::{Group, System};

const CPU: &str = "sys/devices/system/cpu";
/// Flags of x86 that say how far the time stamp counter can be trusted.
const TSC_FLAGS: [&str; 4] = ["constant_tsc", "nonstop_tsc", "tsc_reliable", "tsc_known_freq"];

/// Everything about the cpus but their mitigations.
pub(super) fn group(files: &dyn Files, system: &dyn System) -> Group {
    let mut group = Group::new("processor");
    let cpuinfo = files.text("proc/cpuinfo").unwrap_or_default();
    let cpus = numbered(files, CPU, "cpu");
    let each =
        |path: &str| spread(cpus.iter().map(|cpu| (*cpu, files.value(&format!("{CPU}/cpu{cpu}/{path}")))));
    let one = |path: &str| files.value(&format!("{CPU}/{path}"));

    group.equal("architecture", files.value("proc/sys/kernel/arch").or_else(|| system.machine()));
    group.equal("model", model(&cpuinfo));
    group.equal("stepping", stepping(&cpuinfo));
    group.equal("microcode", spread(fields(&cpuinfo, "microcode").map(str::to_owned).map(Some).enumerate()));
    let topology = topology(files, &cpus);
    group.equal("sockets", topology.as_ref().map(|topology| topology.socket_count.to_string()));
    group.equal("cores", topology.as_ref().map(|topology| topology.core_count.to_string()));
    group.equal("threads", threads(&one("online"), &cpuinfo));
    group.equal("offline", one("offline").map(none_if_empty));
    group.equal("smt", smt(&one("smt/control"), &one("smt/active")));
    group.equal("caches", caches(files));
    group.equal("nodes", nodes(files));
    group.equal("isolated", one("isolated").map(none_if_empty));
    group.equal("nohz_full", one("nohz_full").map(none_if_empty));
    group.equal("tsc", tsc(&cpuinfo));

    group.equal("frequency driver", each("cpufreq/scaling_driver"));
    group.equal("frequency hardware min", each("cpufreq/cpuinfo_min_freq").map(khz));
    group.equal("frequency hardware max", each("cpufreq/cpuinfo_max_freq").map(khz));
    group.equal("frequency min", each("cpufreq/scaling_min_freq").map(khz));
    group.equal("frequency max", each("cpufreq/scaling_max_freq").map(khz));
    group.equal("governor", each("cpufreq/scaling_governor"));
    group.equal("energy preference", each("cpufreq/energy_performance_preference"));
    group.equal("energy bias", each("power/energy_perf_bias"));
    group.equal("turbo", turbo(&one("intel_pstate/no_turbo"), &one("cpufreq/boost")));
    group.equal("pstate mode", one("intel_pstate/status").or_else(|| one("amd_pstate/status")));
    group.equal("idle driver", one("cpuidle/current_driver"));
    group.equal(
        "idle governor",
        one("cpuidle/current_governor").or_else(|| one("cpuidle/current_governor_ro")),
    );
    group.equal("idle states", idle_states(files, &cpus));
    group.equal("idle latency limit", idle_latency_limit(files, &cpus));
    // Of one cpu: some kernels measure it when it is asked for, 20 ms long each.
    group.volatile("frequency now (cpu 0)", one("cpu0/cpufreq/scaling_cur_freq").map(khz));
    group.volatile(super::THROTTLED, each("thermal_throttle/core_throttle_count"));
    group
}

/// One item for each vulnerability that the kernel knows of.
pub(super) fn mitigations(files: &dyn Files) -> Group {
    let mut group = Group::new("mitigations");
    let folder = format!("{CPU}/vulnerabilities");
    for name in files.entries(&folder) {
        let state = files.value(&format!("{folder}/{name}"));
        group.equal(name, state);
    }
    group
}

/// The first value of a key in /proc/cpuinfo or a file written like it.
pub(super) fn field<'a>(text: &'a str, key: &'a str) -> Option<&'a str> {
    fields(text, key).next()
}

fn fields<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(move |(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

/// Numbers of the entries `cpu0`, `cpu1`, … of a folder, ascending.
pub(super) fn numbered(files: &dyn Files, folder: &str, prefix: &str) -> Vec<usize> {
    let mut numbers: Vec<usize> =
        files.entries(folder).iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// x86 names the model; arm64 gives numbers of the designer and the part.
fn model(cpuinfo: &str) -> Option<String> {
    let named = field(cpuinfo, "model name").or_else(|| field(cpuinfo, "cpu model")).map(str::to_owned);
    named.or_else(|| {
        let (designer, part) = (field(cpuinfo, "CPU implementer")?, field(cpuinfo, "CPU part")?);
        let known = arm_core(designer, part).map(|name| format!(" ({name})")).unwrap_or_default();
        Some(format!("implementer {designer} part {part}{known}"))
    })
}

/// The cores of servers: MIDR_EL1 in each core's technical reference manual, arch/arm64/include/asm/cputype.h.
fn arm_core(designer: &str, part: &str) -> Option<&'static str> {
    Some(match (designer, part) {
        ("0x41", "0xd08") => "Cortex-A72",
        ("0x41", "0xd0c") => "Neoverse N1",
        ("0x41", "0xd40") => "Neoverse V1",
        ("0x41", "0xd49") => "Neoverse N2",
        ("0x41", "0xd4f") => "Neoverse V2",
        ("0xc0", "0xac3") => "Ampere-1",
        _ => return None,
    })
}

fn stepping(cpuinfo: &str) -> Option<String> {
    let names = ["cpu family", "model", "stepping", "CPU variant", "CPU revision"];
    let shown: Vec<String> = names
        .iter()
        .filter_map(|name| Some(format!("{} {}", name.trim_start_matches("cpu "), field(cpuinfo, name)?)))
        .collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

struct Topology {
    socket_count: usize,
    core_count: usize,
}

fn topology(files: &dyn Files, cpus: &[usize]) -> Option<Topology> {
    let mut sockets = BTreeSet::new();
    let mut cores = BTreeSet::new();
    for cpu in cpus {
        // An offline cpu has no topology.
        let value = |name: &str| files.value(&format!("{CPU}/cpu{cpu}/topology/{name}"));
        let (Some(socket), Some(core)) = (value("physical_package_id"), value("core_id")) else { continue };
        // A core's number is unique in its die, and the die's in its socket.
        cores.insert((socket.clone(), value("die_id"), core));
        sockets.insert(socket);
    }
    (!cores.is_empty()).then_some(Topology { socket_count: sockets.len(), core_count: cores.len() })
}

fn threads(online: &Option<String>, cpuinfo: &str) -> Option<String> {
    if let Some(online) = online {
        return Some(format!("{} ({online})", parse_list(online).len()));
    }
    let count = fields(cpuinfo, "processor").count();
    (count != 0).then(|| count.to_string())
}

fn smt(control: &Option<String>, active: &Option<String>) -> Option<String> {
    let active = active.as_ref().map(|active| if active == "1" { "active" } else { "not active" });
    match (active, control) {
        (Some(active), Some(control)) => Some(format!("{active} (control: {control})")),
        (Some(active), None) => Some(active.to_owned()),
        (None, control) => control.clone(),
    }
}

fn turbo(no_turbo: &Option<String>, boost: &Option<String>) -> Option<String> {
    let state = |is_on: bool| if is_on { "on" } else { "off" };
    match (no_turbo, boost) {
        (Some(no_turbo), _) => Some(format!("{} (intel_pstate/no_turbo {no_turbo})", state(no_turbo == "0"))),
        (None, Some(boost)) => Some(format!("{} (cpufreq/boost {boost})", state(boost == "1"))),
        (None, None) => None,
    }
}

fn tsc(cpuinfo: &str) -> Option<String> {
    let flags = field(cpuinfo, "flags")?;
    let found: Vec<&str> = flags.split_whitespace().filter(|flag| TSC_FLAGS.contains(flag)).collect();
    Some(none_if_empty(found.join(" ")))
}

/// Of the first cpu; a machine of unlike cores shows it in their frequencies and cores.
fn caches(files: &dyn Files) -> Option<String> {
    let mut shown = Vec::new();
    for index in numbered(files, &format!("{CPU}/cpu0/cache"), "index") {
        let value = |name: &str| files.value(&format!("{CPU}/cpu0/cache/index{index}/{name}"));
        let (Some(level), Some(size)) = (value("level"), value("size")) else { continue };
        let kind = match value("type").as_deref() {
            Some("Data") => "d",
            Some("Instruction") => "i",
            _ => "",
        };
        let shared = value("shared_cpu_list").map(|cpus| parse_list(&cpus).len()).unwrap_or(1);
        let shared = if 1 < shared { format!(" by {shared} threads") } else { String::new() };
        shown.push(format!("L{level}{kind} {size}{shared}"));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

fn nodes(files: &dyn Files) -> Option<String> {
    const NODE: &str = "sys/devices/system/node";
    let mut shown = Vec::new();
    for node in numbered(files, NODE, "node") {
        let value = |name: &str| files.value(&format!("{NODE}/node{node}/{name}"));
        let cpus = value("cpulist").map(|cpus| list(&parse_list(&cpus)))?;
        let distance = value("distance").map(|distance| format!(" at {distance}")).unwrap_or_default();
        shown.push(format!("{node}: cpus {cpus}{distance}"));
    }
    (!shown.is_empty()).then(|| shown.join("; "))
}

/// Name, exit latency and whether it is forbidden, of each state, for the cpus that agree in it.
fn idle_states(files: &dyn Files, cpus: &[usize]) -> Option<String> {
    spread(cpus.iter().map(|cpu| {
        let folder = format!("{CPU}/cpu{cpu}/cpuidle");
        let states: Vec<String> = numbered(files, &folder, "state")
            .into_iter()
            .filter_map(|state| {
                let value = |name: &str| files.value(&format!("{folder}/state{state}/{name}"));
                let latency = value("latency").map(|latency| format!(" {latency} µs")).unwrap_or_default();
                let disabled =
                    if value("disable").is_some_and(|value| value != "0") { " disabled" } else { "" };
                Some(format!("{}{latency}{disabled}", value("name")?))
            })
            .collect();
        (*cpu, (!states.is_empty()).then(|| states.join(", ")))
    }))
}

/// How long each cpu may take to wake up, `power/pm_qos_resume_latency_us`: `0` there is no limit, and `n/a` is no time at all
/// (Documentation/ABI/testing/sysfs-devices-power).
fn idle_latency_limit(files: &dyn Files, cpus: &[usize]) -> Option<String> {
    spread(cpus.iter().map(|cpu| {
        let value = files.value(&format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us"));
        let shown = value.map(|value| match value.as_str() {
            "0" => "none".to_owned(),
            "n/a" => "0 µs".to_owned(),
            _ => format!("{value} µs"),
        });
        (*cpu, shown)
    }))
}

/// Frequencies are in kHz, said once also where cpus differ.
fn khz(value: String) -> String {
    format!("{value} kHz")
}

/// An empty list, which older kernels write as `(null)`.
fn none_if_empty(value: String) -> String {
    if value.is_empty() || value == "(null)" { "none".to_owned() } else { value }
}
