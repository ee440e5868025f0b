//! ADQ's settings of the machine as a whole.

use std::collections::BTreeSet;

use crate::managers;

use super::recipe::{KERNEL_MIN, NEWER_KERNEL, processes};
use super::{Item, Look, Origin, Scene, card_sysctls};

/// The kernel in which `SO_INCOMING_NAPI_ID` came.
const NAPI_ID_MIN: (u32, u32) = (4, 12);

pub(super) fn items(scene: &Scene<'_>) -> Vec<Item> {
    let item = |title, cost, look: Look| look.item(Origin::Adq, title, cost);
    vec![
        item("kernel 4.19 or later", "a reboot", kernel(scene)),
        item("no profile of tuned that moves processes", "what the profile is for", tuned(scene)),
        item("irqbalance off", "interrupts stay where they are put, also when load moves", irqbalance(scene)),
        item(
            "processes on one memory node",
            "the other node's memory and cores are not used",
            numa_pinning(scene),
        ),
        item(
            "no automatic moving of memory",
            "a program that is not pinned gets slower",
            numa_balancing(scene),
        ),
        item(
            "busy polling",
            "a core for each thread that polls; below four cpus it was measured to make tails longer",
            busy_polling(scene),
        ),
        item("NAPI id of a socket", "nothing", napi_ids(scene)),
        item(
            "ARP answered by the card that is asked for",
            "nothing; with two cards in one network replies mix otherwise",
            arp(scene),
        ),
    ]
}

fn kernel(scene: &Scene<'_>) -> Look {
    match scene.kernel() {
        Some(version) if version >= KERNEL_MIN => Look::ok(format!("Linux {}", scene.facts.kernel)),
        Some(_) => Look::advised(format!("Linux {}", scene.facts.kernel), NEWER_KERNEL),
        None => Look::not_here(format!("'{}' is no release that is understood", scene.facts.kernel)),
    }
}

fn irqbalance(scene: &Scene<'_>) -> Look {
    match scene.facts.daemons.iter().find(|daemon| daemon.name == "irqbalance") {
        Some(daemon) if daemon.running => {
            let found = "it runs, and moves interrupts every ten seconds";
            match daemon.manageable {
                true => Look::off(found, ["systemctl disable --now irqbalance"]),
                false => Look::advised(found, "stop it by what started it: systemd does not manage it here"),
            }
        }
        _ => Look::ok("it does not run"),
    }
}

fn tuned(scene: &Scene<'_>) -> Look {
    if let Some(profile) = managers::moving_profile(scene.facts) {
        return Look::off(managers::moved_by(profile), [managers::TUNED_REMEDY]);
    }
    match scene.facts.daemons.iter().find(|daemon| daemon.name == "tuned" && daemon.running) {
        Some(daemon) => {
            let profile = daemon.profile.as_deref().unwrap_or("that is not known");
            Look::ok(format!("its profile {profile} is none of those"))
        }
        None => Look::ok("it does not run"),
    }
}

fn numa_pinning(scene: &Scene<'_>) -> Look {
    if scene.node_count() < 2 {
        return Look::not_here("one memory node");
    }
    let processes = processes(scene);
    if processes.is_empty() {
        return Look::not_here("no process of a lane runs");
    }
    let cpus = &scene.facts.cpus;
    let nodes = |list: &crate::Cpus| -> BTreeSet<u32> {
        cpus.iter().filter(|cpu| list.contains(cpu.id)).map(|cpu| cpu.node).collect()
    };
    let is_wide =
        |process: &crate::facts::Process| process.threads.iter().any(|it| nodes(&it.cpus).len() > 1);
    match processes.iter().find(|(_, process)| is_wide(process)) {
        Some((lane, process)) => {
            let (found, pid) = (format!("{} may run on several nodes", process.name), process.pid);
            match nodes(&lane.cores).iter().collect::<Vec<_>>()[..] {
                [node] => Look::off(
                    found,
                    [
                        format!("taskset -a -p -c {} {pid}", lane.cores),
                        format!("migratepages {pid} all {node}"),
                    ],
                ),
                _ => {
                    Look::advised(found, format!("`cores` of one node for lane `{}` in the file", lane.name))
                }
            }
        }
        None => Look::ok("each of the lanes' processes runs on one"),
    }
}

fn numa_balancing(scene: &Scene<'_>) -> Look {
    match scene.facts.sysctls.get("kernel.numa_balancing").map(String::as_str) {
        None => Look::not_here("this kernel has no kernel.numa_balancing"),
        Some("0") => Look::ok("kernel.numa_balancing is 0"),
        Some(value) => Look::off(
            format!("kernel.numa_balancing is {value}: it takes pages away to see who uses them"),
            ["sysctl -w kernel.numa_balancing=0"],
        ),
    }
}

fn busy_polling(scene: &Scene<'_>) -> Look {
    match scene.facts.sysctls.get("net.core.busy_poll").map(String::as_str) {
        None => Look::not_here(
            "net.core.busy_poll is not seen: this kernel has none, or this is a network namespace of its own",
        ),
        Some("0") => Look::off("net.core.busy_poll is 0", ["sysctl -w net.core.busy_poll=50"]),
        Some(value) => Look::ok(format!("epoll polls for {value} us (net.core.busy_poll)")),
    }
}

fn napi_ids(scene: &Scene<'_>) -> Look {
    if scene.kernel().is_some_and(|version| version < NAPI_ID_MIN) {
        return Look::not_here(format!("Linux {} has none; 4.12 has", scene.facts.kernel));
    }
    scene.each_card(|nic| {
        if nic.queues.iter().any(|queue| queue.napi.is_some()) {
            return Look::ok("its queues have ids");
        }
        if nic.driver == "veth" {
            return Look {
                advice: Some(
                    "at its other end, which has another name: `ethtool -K PEER tso off`".to_owned(),
                ),
                ..Look::off(
                    "a virtual card has ids only with GRO, and with TSO off at its other end",
                    [format!("ethtool -K {} gro on", nic.name)],
                )
            };
        }
        Look::not_here("its driver tells no ids of its queues")
    })
}

fn arp(scene: &Scene<'_>) -> Look {
    if scene.cards.len() < 2 {
        return Look::not_here("one card");
    }
    scene.each_card(|nic| {
        let names = card_sysctls(&nic.name);
        let [announce, ignore] = names.clone().map(|name| scene.facts.sysctls.get(&name));
        match (announce.map(String::as_str), ignore.map(String::as_str)) {
            (Some("2"), Some("1")) => Look::ok("arp_announce 2, arp_ignore 1"),
            (Some(announce), Some(ignore)) => Look::off(
                format!("arp_announce {announce}, arp_ignore {ignore}"),
                [format!("sysctl -w {}=2 {}=1", names[0], names[1])],
            ),
            _ => Look::not_here("its ARP settings were not read"),
        }
    })
}
