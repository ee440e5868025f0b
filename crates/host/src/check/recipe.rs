//! The ten ingredients of the recipe, as far as a machine shows them.

use std::collections::BTreeSet;

use crate::facts::Process;
use crate::plan::Placed;
use crate::spec::Mode;

use super::cards::spread_interrupts;
use super::{EXAMPLE, Item, Look, Origin, Scene};

/// Programs that this project knows from inside: one loop a thread, no garbage collector.
const KNOWN: &[&str] = &["expresslane", "redis-server", "valkey-server", "memcached", "nginx", "asd"];
/// Runtimes that stop a program to collect garbage.
const COLLECTORS: &[&str] = &["java", "node", "python", "python3", "ruby", "beam.smp", "dotnet", "mono"];
/// The kernel that ADQ wants, and that the rest of what is used here is in as well.
pub(super) const KERNEL_MIN: (u32, u32) = (4, 19);
/// Distributions that have an older one have no newer.
pub(super) const NEWER_KERNEL: &str =
    "a later release of the distribution: Debian 10, RHEL 8 (with 4.18 and much of 4.19) and what followed";

pub(super) fn items(scene: &Scene<'_>) -> Vec<Item> {
    let lanes: &[Placed] = scene.plan.map_or(&[], |plan| &plan.lanes);
    let item = |number, title, cost, look: Look| look.item(Origin::Ingredient(number), title, cost);
    vec![
        item(1, "shared nothing", "cores and queues that others then have not", shared_nothing(lanes)),
        item(2, "working set in memory", "memory for all of it, and none to swap to", in_memory(scene)),
        item(
            3,
            "look-ups dead simple",
            "a server that is built so",
            server(scene, "event, parse, look up, reply without blocking"),
        ),
        item(
            4,
            "data isolated by core and port",
            "clients that know the port of a key's core",
            port_per_core(lanes),
        ),
        item(5, "modern kernel", "a reboot", kernel(scene)),
        item(6, "no garbage collector", "another language", no_collector(scene)),
        item(
            7,
            "epoll, one loop a thread",
            "a server that is built so",
            server(scene, "one event loop a thread"),
        ),
        item(
            8,
            "one pinned thread a core, nothing else there",
            "cores that idle when the lane does",
            pinned(scene, lanes),
        ),
        item(
            9,
            "interrupts spread by affinity",
            "with many cores, one for interrupts to eight that serve",
            interrupts(scene),
        ),
        item(
            10,
            "a socket's card, cores and memory as a machine of its own",
            "memory of the other node is out of reach",
            machine_of_its_own(scene, lanes),
        ),
    ]
}

fn names<'a>(lanes: impl Iterator<Item = &'a Placed>) -> String {
    lanes.map(|lane| lane.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn shared_nothing(lanes: &[Placed]) -> Look {
    if lanes.is_empty() {
        return Look::off("no lanes: every server shares every core and queue", [EXAMPLE]);
    }
    let shares = |lane: &&Placed| {
        let others = lanes.iter().filter(|other| other.name != lane.name);
        lane.cores.is_empty()
            || others.clone().any(|other| other.cores.overlaps(&lane.cores))
            || others.clone().any(|other| other.nic == lane.nic && other.queues.overlaps(&lane.queues))
    };
    let sharing: Vec<&Placed> = lanes.iter().filter(shares).collect();
    if sharing.is_empty() {
        return Look::ok("each lane has its own cores, and its own queues where the card has them");
    }
    let found = format!("lanes {} share cores or queues, or have none", names(sharing.into_iter()));
    Look::advised(found, "give each lane its own `cores` in the file")
}

fn in_memory(scene: &Scene<'_>) -> Look {
    match scene.facts.sysctls.get("vm.swappiness").map(|it| it.parse::<u32>()) {
        Some(Ok(0 | 1)) => Look::ok("the kernel swaps only when it must (vm.swappiness)"),
        Some(Ok(value)) => Look::off(
            format!("vm.swappiness is {value}: pages may be swapped out before memory is short"),
            ["sysctl -w vm.swappiness=1"],
        ),
        _ => Look::not_here("vm.swappiness was not read"),
    }
}

/// The processes of lanes: those that the plan moves, and those that listen at a lane's port.
pub(super) fn processes<'a>(scene: &'a Scene<'_>) -> Vec<(&'a Placed, &'a Process)> {
    let Some(plan) = scene.plan else { return vec![] };
    let of = |lane: &'a Placed| {
        let mine = move |process: &&Process| plan.is_of_lane(lane, process);
        scene.facts.processes.iter().filter(mine).map(move |process| (lane, process))
    };
    plan.lanes.iter().flat_map(of).collect()
}

fn server(scene: &Scene<'_>, what: &str) -> Look {
    let processes = processes(scene);
    let known: BTreeSet<&str> =
        processes.iter().map(|(_, it)| it.name.as_str()).filter(|name| KNOWN.contains(name)).collect();
    if known.is_empty() {
        return Look::not_here(format!("a server's own affair ({what}); no known one runs in a lane"));
    }
    Look::ok(format!("{} is built so", known.into_iter().collect::<Vec<_>>().join(", ")))
}

fn no_collector(scene: &Scene<'_>) -> Look {
    let processes = processes(scene);
    let is_collector = |name: &str| COLLECTORS.contains(&name);
    if let Some((lane, process)) = processes.iter().find(|(_, it)| is_collector(&it.name)) {
        return Look::advised(
            format!("lane {}: {} stops to collect garbage", lane.name, process.name),
            "serve from a program that manages its memory itself",
        );
    }
    server(scene, "memory without pauses")
}

fn port_per_core(lanes: &[Placed]) -> Look {
    if lanes.is_empty() {
        return Look::off("no lanes: any core may get any request", [EXAMPLE]);
    }
    let spread: Vec<&Placed> =
        lanes.iter().filter(|lane| lane.mode == Mode::Spread && lane.cores.count() > 1).collect();
    if spread.is_empty() {
        return Look::ok("each port leads to one core");
    }
    Look::advised(
        format!("lanes {} spread connections over several cores", names(spread.into_iter())),
        "`mode = \"one-queue-per-port\"` in the file, with a port for each core (`expresslane serve` has them)",
    )
}

fn kernel(scene: &Scene<'_>) -> Look {
    let release = &scene.facts.kernel;
    match scene.kernel() {
        None => Look::not_here(format!("'{release}' is no release that is understood")),
        Some(version) if version >= KERNEL_MIN => Look::ok(format!("Linux {release}")),
        Some(_) => {
            let (major, minor) = KERNEL_MIN;
            Look::advised(format!("Linux {release}; {major}.{minor} or later is wanted"), NEWER_KERNEL)
        }
    }
}

fn pinned(scene: &Scene<'_>, lanes: &[Placed]) -> Look {
    if lanes.is_empty() {
        return Look::off("no lanes: the scheduler moves every thread", [EXAMPLE]);
    }
    let processes = processes(scene);
    if processes.is_empty() {
        return Look::not_here("no process of a lane runs");
    }
    let strays = |(lane, process): &&(&Placed, &Process)| {
        process.threads.iter().any(|thread| !thread.cpus.is_within(&lane.cores))
    };
    match processes.iter().find(strays) {
        Some((lane, process)) => Look::off(
            format!("{} may run outside the cores {} of lane {}", process.name, lane.cores, lane.name),
            [format!("taskset -a -p -c {} {}", lane.cores, process.pid)],
        ),
        None => Look::ok("the lanes' processes run on their lanes' cores alone"),
    }
}

fn interrupts(scene: &Scene<'_>) -> Look {
    scene.each_card(|nic| {
        let effective: Vec<_> = nic.queues.iter().filter_map(|queue| queue.irq_effective.as_ref()).collect();
        let cpus: BTreeSet<u32> = effective.iter().filter_map(|cpus| cpus.first()).collect();
        match (effective.len(), cpus.len()) {
            (0, _) => Look::not_here("no interrupts of its queues are known"),
            (1, _) => Look::ok("one queue, one interrupt"),
            (queues, 1) if scene.facts.cpus.len() > 1 => {
                Look::off(format!("all {queues} queues interrupt one cpu"), spread_interrupts(nic, scene))
            }
            (queues, cpus) => Look::ok(format!("{queues} queues interrupt {cpus} cpus")),
        }
    })
}

fn machine_of_its_own(scene: &Scene<'_>, lanes: &[Placed]) -> Look {
    let nodes = scene.node_count();
    if nodes < 2 {
        return Look::not_here("one memory node: there is nothing to keep apart");
    }
    if lanes.is_empty() {
        return Look::off(format!("{nodes} memory nodes and no lanes"), [EXAMPLE]);
    }
    let node_of = |cpu: u32| scene.facts.cpus.iter().find(|it| it.id == cpu).map(|it| it.node);
    let is_astray = |lane: &&Placed| {
        let nic = lane.nic.as_ref().and_then(|name| scene.facts.nics.iter().find(|nic| nic.name == *name));
        let nodes: BTreeSet<_> = lane.cores.iter().map(node_of).collect();
        nodes.len() > 1 || nic.and_then(|nic| nic.node).is_some_and(|node| !nodes.contains(&Some(node)))
    };
    let astray: Vec<&Placed> = lanes.iter().filter(is_astray).collect();
    if astray.is_empty() {
        return Look::ok("each lane's cores are on one node, its card's");
    }
    Look::advised(
        format!("cores of lanes {} are not all on the node of their card", names(astray.into_iter())),
        "`cores` near the card and `source-routing = true` for each [[nic]] in the file; start servers with `expresslane run`",
    )
}
