//! A knob's change as people would type it: iproute2, ethtool, sysctl, taskset. For reading and for checking by hand; nothing here
//! is run.
//!
//! Syntax is that of the manual pages (tc(8), tc-mqprio(8), tc-flower(8), tc-skbedit(8), tc-htb(8), ethtool(8), devlink-param(8),
//! ip-rule(8), ip-route(8), taskset(1), chrt(1), renice(1)). What is named anew at every boot (interrupt numbers, threads) is
//! taken from the facts; where the facts don't have it yet, a comment says what stands there.

use crate::cpus::Cpus;
use crate::facts::{Facts, Nic, Queue};
use crate::knob::{CpuKnob, Direction, Family, Knob, NicKnob, Setting, ThreadKnob};

/// Roots that come back of themselves when another is removed.
const OWN_ROOTS: &[&str] = &["mq", "noqueue", "pfifo_fast", "fq_codel", "fq"];
/// The handle of roots that are ours.
const HANDLE: &str = "e7:";

/// The command that takes a knob from `have` to `want`. Undoing is the same with both exchanged.
#[must_use]
pub fn shell(facts: &Facts, knob: &Knob, want: Option<&Setting>, have: Option<&Setting>) -> String {
    let text = want.map(Setting::as_str);
    match knob {
        Knob::Sysctl { name } => match text {
            Some(value) if value.contains(' ') => format!("sysctl -w {name}='{value}'"),
            Some(value) => format!("sysctl -w {name}={value}"),
            None => format!("# {name} has no value to go back to"),
        },
        Knob::Service { name } => {
            format!("systemctl {} {name}", if text == Some("running") { "start" } else { "stop" })
        }
        Knob::Cgroup { group, file } => {
            let root = facts.cgroup.cpuset_root.as_deref().unwrap_or("/sys/fs/cgroup");
            let value = text.filter(|text| !text.is_empty()).map_or(String::new(), |text| format!("{text} "));
            format!("echo {value}> {root}/{group}/{file}")
        }
        Knob::Cpu { cpu, what: CpuKnob::ResumeLatency } => match text {
            Some(value) => {
                format!("echo {value} > /sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us")
            }
            None => format!("# what cpu {cpu} had is not known"),
        },
        Knob::Thread { tid, what, .. } => thread(*tid, *what, text.unwrap_or_default()),
        Knob::Rule { family, pref } => match text {
            Some(text) => format!("{} rule add pref {pref} {text}", ip(*family)),
            None => format!("{} rule del pref {pref}", ip(*family)),
        },
        Knob::Route { family, table, destination } => match text {
            Some(text) => {
                let verb = if have.is_some() { "replace" } else { "add" };
                format!("{} route {verb} {destination} {text} table {table}", ip(*family))
            }
            None => format!("{} route del {destination} table {table}", ip(*family)),
        },
        Knob::Nic { nic, knob } => of_nic(facts, nic, knob, text, have.map(Setting::as_str)),
    }
}

fn ip(family: Family) -> &'static str {
    if family == Family::Inet { "ip" } else { "ip -6" }
}

fn thread(tid: u32, what: ThreadKnob, text: &str) -> String {
    match what {
        ThreadKnob::Affinity => format!("taskset -pc {text} {tid}"),
        ThreadKnob::Nice => format!("renice -n {text} -p {tid}"),
        ThreadKnob::Scheduler => format!("chrt {} {tid}", policy(text)),
    }
}

/// `fifo 10` as `chrt(1)` has it.
fn policy(text: &str) -> String {
    let (name, priority) = text.split_once(' ').unwrap_or((text, "0"));
    format!("--{name} --pid {priority}")
}

fn of_nic(facts: &Facts, name: &str, knob: &NicKnob, text: Option<&str>, have: Option<&str>) -> String {
    let nic = facts.nic(name);
    let value = text.unwrap_or_default();
    let queue = |index: &u32| nic.and_then(|nic| nic.queues.iter().find(|queue| queue.index == *index));
    let sysfs = |side: &str, index: &u32, file: &str, value: &str| {
        format!("echo {value} > /sys/class/net/{name}/queues/{side}-{index}/{file}")
    };
    let is_absent = text.is_none() && !matches!(knob, NicKnob::NapiThread(_));
    if let Some(index) = knob.queue().filter(|_| is_absent) {
        return format!("# queue {index} goes when there are fewer, or its value is not known");
    }
    match knob {
        NicKnob::Channels => format!("ethtool -L {name} {value}"),
        NicKnob::Rings => format!("ethtool -G {name} {value}"),
        NicKnob::Feature(feature) => format!("ethtool -K {name} {feature} {value}"),
        NicKnob::PrivateFlag(flag) => format!("ethtool --set-priv-flags {name} {flag} {value}"),
        NicKnob::Devlink(parameter) => {
            let bus = nic.and_then(|nic| nic.bus.as_deref()).unwrap_or("BUS");
            format!("devlink dev param set pci/{bus} name {parameter} value {value} cmode runtime")
        }
        NicKnob::Coalesce(None) => format!("ethtool -C {name} {value}"),
        NicKnob::Coalesce(Some(index)) => {
            format!("ethtool -Q {name} queue_mask {} --coalesce {value}", hexadecimal(*index))
        }
        NicKnob::Indirection if value.starts_with("table") => {
            format!(
                "ethtool -X {name} default  # if the table was the driver's own; ethtool has no words for others"
            )
        }
        NicKnob::Indirection => format!("ethtool -X {name} {value}"),
        NicKnob::Context(queues) => match text {
            Some(text) => {
                let start = queues.first().unwrap_or(0);
                format!("ethtool -X {name} context new start {start} {text}")
            }
            None => format!("ethtool -X {name} context N delete  # N: the one over queues {queues}"),
        },
        NicKnob::Ntuple(location) => match text.map(|text| text.split_once(" context ").ok_or(text)) {
            Some(Err(text)) => format!("ethtool -N {name} {text} loc {location}"),
            Some(Ok((flow, queues))) => {
                format!(
                    "ethtool -N {name} {flow} context N loc {location}  # N: the one over queues {queues}"
                )
            }
            None => format!("ethtool -N {name} delete {location}"),
        },
        NicKnob::Root => root(name, text),
        NicKnob::Clsact => {
            format!("tc qdisc {} dev {name} clsact", if text.is_some() { "add" } else { "del" })
        }
        NicKnob::Class(id) => match text {
            Some(text) => {
                let verb = if have.is_some() { "change" } else { "add" };
                let (parent, rest) =
                    text.strip_prefix("parent ").and_then(|it| it.split_once(' ')).unwrap_or((HANDLE, text));
                format!("tc class {verb} dev {name} parent {parent} classid {id} {rest}")
            }
            None => format!("tc class del dev {name} classid {id}"),
        },
        NicKnob::Qdisc(parent) => match text {
            Some(text) => format!("tc qdisc replace dev {name} parent {parent} {text}"),
            None => format!("tc qdisc del dev {name} parent {parent}"),
        },
        NicKnob::Filter(direction, pref) => match text {
            Some(text) => filter(name, *direction, *pref, text),
            None => format!("tc filter del dev {name} {direction} pref {pref}"),
        },
        NicKnob::IrqAffinity(index) => match queue(index).and_then(|queue| queue.irq) {
            Some(irq) => format!("echo {value} > /proc/irq/{irq}/smp_affinity_list"),
            None => {
                format!("echo {value} > /proc/irq/N/smp_affinity_list  # N: the interrupt of queue {index}")
            }
        },
        NicKnob::RpsCpus(index) => sysfs("rx", index, "rps_cpus", &mask(value)),
        NicKnob::RpsFlowCount(index) => sysfs("rx", index, "rps_flow_cnt", value),
        NicKnob::XpsCpus(index) => sysfs("tx", index, "xps_cpus", &mask(value)),
        NicKnob::XpsRxqs(index) => sysfs("tx", index, "xps_rxqs", &mask(value)),
        NicKnob::Threaded => format!("echo {value} > /sys/class/net/{name}/threaded"),
        NicKnob::DeferHardIrqs => format!("echo {value} > /sys/class/net/{name}/napi_defer_hard_irqs"),
        NicKnob::GroFlushTimeout => format!("echo {value} > /sys/class/net/{name}/gro_flush_timeout"),
        NicKnob::Napi(index, setting) => napi(queue(index), *index, setting, value),
        NicKnob::NapiThread(index) => napi_thread(nic, queue(index), *index, text),
    }
}

fn hexadecimal(index: u32) -> String {
    let mask = Cpus::from_iter([index]).to_mask();
    format!("0x{}", mask.replace(',', ""))
}

/// The list of a setting as the mask that sysfs takes.
fn mask(list: &str) -> String {
    list.parse::<Cpus>().map_or_else(|_| list.to_owned(), |cpus| cpus.to_mask())
}

fn root(name: &str, text: Option<&str>) -> String {
    match text {
        Some(text) if !OWN_ROOTS.contains(&text.split(' ').next().unwrap_or_default()) => {
            format!("tc qdisc replace dev {name} root handle {HANDLE} {text}")
        }
        _ => format!("tc qdisc del dev {name} root"),
    }
}

/// A program of ours has no words in tc(8): these are the filters that do the same, for IPv4.
fn filter(name: &str, direction: Direction, pref: u32, text: &str) -> String {
    let Some(program) = text.strip_prefix("protocol all bpf ") else {
        return format!("tc filter add dev {name} {direction} pref {pref} {text}");
    };
    let words: Vec<&str> = program.split(' ').collect();
    let (mut actions, mut keys) = (Vec::new(), Vec::new());
    for pair in words.chunks(2) {
        match pair {
            ["queue", queue] => actions.push(format!("queue_mapping {queue}")),
            ["priority", class] => actions.push(format!("priority {class}")),
            // The protocol's word stands alone, so the pairs that follow it begin one word later.
            _ => break,
        }
    }
    let rest = &words[actions.len() * 2..];
    if let [protocol, pairs @ ..] = rest {
        keys.push(format!("ip_proto {protocol}"));
        keys.extend(pairs.chunks(2).map(|pair| pair.join(" ")));
    }
    format!(
        "tc filter add dev {name} {direction} pref {pref} protocol ip flower {} action skbedit {}  # and for ipv6",
        keys.join(" "),
        actions.join(" ")
    )
}

fn napi(queue: Option<&Queue>, index: u32, setting: &str, value: &str) -> String {
    let id = queue.and_then(|queue| queue.napi);
    let (id, remark) = match id {
        Some(id) => (id.to_string(), String::new()),
        None => ("N".to_owned(), format!("  # N: the NAPI of queue {index}")),
    };
    format!("ynl --family netdev --do napi-set --json '{{\"id\": {id}, \"{setting}\": {value}}}'{remark}")
}

fn napi_thread(nic: Option<&Nic>, queue: Option<&Queue>, index: u32, text: Option<&str>) -> String {
    let Some(text) = text else { return format!("# the thread of queue {index} ends with its polling") };
    let thread = queue.and_then(|queue| queue.napi_thread.as_ref());
    let name = nic.map_or("NIC", |nic| nic.name.as_str());
    let (tid, remark) = match thread {
        Some(thread) => (thread.tid.to_string(), String::new()),
        None => ("TID".to_owned(), format!("  # TID: the thread napi/{name}-N of queue {index}")),
    };
    let mut words = text.strip_prefix("cpus ").unwrap_or(text).splitn(2, ' ');
    let (cpus, policy) = (words.next().unwrap_or_default(), words.next().unwrap_or("other"));
    let pin = format!("taskset -pc {cpus} {tid}");
    match policy {
        "other" => format!("{pin}{remark}"),
        other => format!("{pin}; chrt {} {tid}{remark}", self::policy(other)),
    }
}

#[cfg(test)]
mod tests;
