//! ADQ's settings of each card.

use crate::cpus::Cpus;
use crate::facts::{Cpu, Nic};
use crate::knob::Direction;
use crate::managers;
use crate::plan::{LLDP_FLAGS, Placed, Plan};
use crate::spec::BackendWish;

use super::{Item, Look, Origin, Scene, Verdict};

/// Drivers that set up sets of queues by mqprio's channel mode (Linux 7.2).
const CHANNEL_DRIVERS: &[&str] = &["ice", "i40e", "iavf", "mlx5_core", "cxgb4", "hns3"];

pub(super) fn items(scene: &Scene<'_>) -> Vec<Item> {
    let item = |title, cost, look: fn(&Nic, &Scene<'_>) -> Look| {
        scene.each_card(|nic| look(nic, scene)).item(Origin::Adq, title, cost)
    };
    vec![
        item("interrupt moderation fixed", "more interrupts when there is little to do", moderation),
        item("interrupts affinitized", "a cpu that is busy gets them all the same", affinity),
        item("sets of queues (mqprio, channel mode)", "the link flaps, RDMA on the card stops", queue_sets),
        item("rate limits (shaper)", "what is above the limit waits", shaper),
        item("replies in their class (skbedit)", "a filter for each packet that is sent", reply_class),
        item("filters in hardware (flower)", "nothing; the card has room for few", flower),
        item("one rule a port (ntuple)", "nothing; rules are lost when it is switched off", ntuple),
        item("offload of filters (hw-tc-offload)", "filters must go before it is switched off", tc_offload),
        item("symmetric queues (xps_rxqs)", "nothing; a link event undoes it on some drivers", symmetric),
        item("the card's own LLDP agent off", "the switch must not rule its classes (DCB)", lldp),
        item("no daemon that sets it again", "its addresses are then yours to set and to renew", managed),
        item("nothing that ties its queues", "what ties them: a bond, XDP, RDMA", hindrances),
    ]
}

/// The word behind a name in a setting such as `adaptive-rx off rx-usecs 50`.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split(' ').skip_while(|word| *word != name).nth(1)
}

fn moderation(nic: &Nic, _: &Scene<'_>) -> Look {
    let Some(coalesce) = &nic.coalesce else { return Look::not_here("its driver has no moderation") };
    let adaptive: Vec<&str> =
        ["adaptive-rx", "adaptive-tx"].into_iter().filter(|it| after(coalesce, it) == Some("on")).collect();
    if adaptive.is_empty() {
        return Look::ok(coalesce.clone());
    }
    let off: Vec<String> = adaptive.iter().map(|name| format!("{name} off")).collect();
    Look::off(
        format!("the driver chooses ({} on)", adaptive.join(", ")),
        [format!("ethtool -C {} {} rx-usecs 50 tx-usecs 50", nic.name, off.join(" "))],
    )
}

fn affinity(nic: &Nic, scene: &Scene<'_>) -> Look {
    let cpus: Vec<_> = nic.queues.iter().filter_map(|queue| queue.irq_cpus.as_ref()).collect();
    let wide = cpus.iter().filter(|cpus| cpus.count() > 1).count();
    match (cpus.len(), wide) {
        (0, _) => Look::not_here("no interrupts of its queues are known"),
        (count, 0) => Look::ok(format!("each of {count} interrupts has one cpu")),
        (count, wide) => Look::off(
            format!("{wide} of {count} interrupts may go to several cpus"),
            spread_interrupts(nic, scene),
        ),
    }
}

/// The commands that give each interrupt a cpu: the lanes' where there are some, else those of the card's node in turn.
pub(super) fn spread_interrupts(nic: &Nic, scene: &Scene<'_>) -> Vec<String> {
    let has_lane = |plan: &Plan| plan.lanes.iter().any(|lane| lane.nic.as_ref() == Some(&nic.name));
    if scene.plan.is_some_and(has_lane) {
        return vec![scene.apply.clone()];
    }
    let is_near = |cpu: &&Cpu| nic.node.is_none_or(|node| cpu.node == node);
    let near = scene.facts.cpus.iter().filter(is_near).map(|cpu| cpu.id).cycle();
    let pairs: Vec<String> = nic
        .queues
        .iter()
        .filter_map(|queue| queue.irq)
        .zip(near)
        .map(|(irq, cpu)| format!("{irq}:{cpu}"))
        .collect();
    vec![each(&pairs, "/proc/irq/${it%:*}/smp_affinity_list")]
}

/// Writes the second of each pair into the file that the first is in the name of.
fn each(pairs: &[String], file: &str) -> String {
    format!("for it in {}; do echo ${{it#*:}} > {file}; done", pairs.join(" "))
}

fn root(nic: &Nic) -> &str {
    nic.root_qdisc.as_deref().unwrap_or_default()
}

fn has_queue_sets(nic: &Nic) -> bool {
    root(nic).starts_with("mqprio ") && root(nic).contains(" mode channel")
}

fn queue_sets(nic: &Nic, scene: &Scene<'_>) -> Look {
    if !CHANNEL_DRIVERS.contains(&nic.driver.as_str()) {
        return Look::not_here(format!("the driver {} has none", nic.driver));
    }
    if has_queue_sets(nic) {
        return Look::ok(format!("{} classes", after(root(nic), "num_tc").unwrap_or("some")));
    }
    let found = format!("the root qdisc is {}", if root(nic).is_empty() { "not known" } else { root(nic) });
    let wants_sets =
        |lane: &Placed| lane.nic.as_ref() == Some(&nic.name) && lane.backend == BackendWish::TcChannel;
    if scene.plan.is_some_and(|plan| !plan.lanes.iter().any(wants_sets)) {
        return Look::advised(found, format!("`backend = \"tc-channel\"` for {} in the file", nic.name));
    }
    Look::off(found, [&scene.apply])
}

fn shaper(nic: &Nic, _: &Scene<'_>) -> Look {
    let below = nic.below_root.values().any(|it| it.contains("rate ") || it.contains("maxrate "));
    let is_shaped = after(root(nic), "shaper") == Some("bw_rlimit") || root(nic).starts_with("tbf ");
    if is_shaped || below {
        return Look::ok("a rate is limited");
    }
    Look::advised("no rate is limited", "`rate-max` under [default] or a [[lane]] of the file")
}

fn reply_class(nic: &Nic, _: &Scene<'_>) -> Look {
    if !has_queue_sets(nic) {
        return Look::not_here("no classes");
    }
    let marks = |it: &&crate::facts::Filter| {
        it.direction == Direction::Egress && it.text.contains("skbedit priority")
    };
    match nic.filters.iter().filter(marks).count() {
        0 => Look::advised(
            "classes, and nothing puts replies into them: all leave by the first",
            "`priority = \"skbedit\"` for the lanes in the file, or SO_PRIORITY in the server",
        ),
        count => Look::ok(format!("{count} filters mark what is sent")),
    }
}

/// A feature: on, could be on, can't be.
fn feature(nic: &Nic, name: &str) -> Look {
    match nic.features.get(name) {
        Some(feature) if feature.on => Look::ok("on"),
        Some(feature) if !feature.fixed => Look::off("off", [format!("ethtool -K {} {name} on", nic.name)]),
        _ => Look::not_here(format!("the driver {} has none", nic.driver)),
    }
}

fn tc_offload(nic: &Nic, _: &Scene<'_>) -> Look {
    feature(nic, "hw-tc-offload")
}

fn ntuple(nic: &Nic, _: &Scene<'_>) -> Look {
    feature(nic, "rx-ntuple-filter")
}

fn flower(nic: &Nic, scene: &Scene<'_>) -> Look {
    if !nic.features.get("hw-tc-offload").is_some_and(|it| it.on || !it.fixed) {
        return Look::not_here(format!("the driver {} takes none", nic.driver));
    }
    let flower: Vec<_> = nic.filters.iter().filter(|it| it.text.contains(" flower ")).collect();
    let wanted = flower.iter().filter(|it| it.text.contains("skip_sw"));
    if wanted.clone().any(|it| !it.in_hw) {
        // Some drivers take filters only seconds after mqprio.
        return Look::off("filters are set and not in hardware", ["sleep 5", &scene.apply]);
    }
    match wanted.count() {
        0 => Look::off("no filter leads into a lane", [&scene.apply]),
        count => Look::ok(format!("{count} filters, all in hardware")),
    }
}

fn symmetric(nic: &Nic, _: &Scene<'_>) -> Look {
    let rxqs: Vec<_> =
        nic.queues.iter().filter_map(|queue| Some((queue.index, queue.xps_rxqs.as_ref()?))).collect();
    let is_own = |(index, rxqs): &&(u32, &Cpus)| rxqs.count() == 1 && rxqs.contains(*index);
    let others: Vec<String> = rxqs
        .iter()
        .filter(|it| !is_own(it))
        .map(|(index, _)| format!("{index}:{}", Cpus::from_iter([*index]).to_mask()))
        .collect();
    match (rxqs.len(), others.len()) {
        (0, _) => Look::not_here("its queues have no xps_rxqs"),
        (_, 0) => Look::ok("replies leave by the queue that requests came by"),
        (count, others_count) => Look::off(
            format!("{} of {count} queues send what they received", count - others_count),
            [each(&others, &format!("/sys/class/net/{}/queues/tx-${{it%:*}}/xps_rxqs", nic.name))],
        ),
    }
}

/// ice says whether the agent works, i40e whether it is kept from it.
fn lldp(nic: &Nic, _: &Scene<'_>) -> Look {
    let flag = LLDP_FLAGS.iter().find_map(|(name, want)| Some((name, want, *nic.private_flags.get(*name)?)));
    match flag {
        None => Look::not_here("it has none that is known"),
        Some((_, want, on)) if on == (*want == "on") => Look::ok("off"),
        Some((name, want, _)) => {
            Look::off("on", [format!("ethtool --set-priv-flags {} {name} {want}", nic.name)])
        }
    }
}

fn managed(nic: &Nic, _: &Scene<'_>) -> Look {
    if nic.managers.is_empty() {
        return Look::ok("none manages it");
    }
    let found: Vec<String> =
        nic.managers.iter().map(|daemon| format!("{daemon} {}", managers::harm(daemon))).collect();
    Look::off(found.join("; "), nic.managers.iter().flat_map(|daemon| managers::remedy(daemon, &nic.name)))
}

/// What ties its queues: in words, and the commands that untie them or what is to be done.
fn hindrances(nic: &Nic, _: &Scene<'_>) -> Look {
    let mut look = Look::ok("nothing");
    let mut ties: Vec<String> = Vec::new();
    for word in &nic.hindrances {
        ties.push(word.clone());
        match (word.as_str(), &nic.bus) {
            ("irdma", _) => look.mend.push("rmmod irdma".to_owned()),
            ("switchdev", Some(bus)) => {
                look.mend.push(format!("devlink dev eswitch set pci/{bus} mode legacy"))
            }
            ("safe-mode", _) => {
                look.advice = Some(
                    "install the card's DDP package, which the distribution's firmware package has"
                        .to_owned(),
                );
            }
            _ => look.advice = Some("another card".to_owned()),
        }
    }
    if let Some(master) = &nic.master {
        ties.push(format!("part of {master}"));
        look.mend.push(format!("ip link set dev {} nomaster", nic.name));
    }
    if nic.xdp {
        ties.push("an XDP program".to_owned());
        look.mend.push(format!("ip link set dev {} xdp off", nic.name));
    }
    if !ties.is_empty() {
        (look.verdict, look.found) = (Verdict::Off, ties.join(", "));
    }
    look
}
