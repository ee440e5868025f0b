//! ADQ's settings of each card.

use crate::facts::Nic;
use crate::knob::Direction;

use super::{Item, Look, Origin, Scene};

/// Drivers that set up sets of queues by mqprio's channel mode (Linux 7.2).
const CHANNEL_DRIVERS: &[&str] = &["ice", "i40e", "iavf", "mlx5_core", "cxgb4", "hns3"];

pub(super) fn items(scene: &Scene<'_>) -> Vec<Item> {
    let item = |title, cost, look: fn(&Nic) -> Look| scene.each_card(look).item(Origin::Adq, title, cost);
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
        item("nothing that ties its queues", "what ties them: a bond, XDP, RDMA", hindrances),
    ]
}

/// The word behind a name in a setting such as `adaptive-rx off rx-usecs 50`.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split(' ').skip_while(|word| *word != name).nth(1)
}

fn moderation(nic: &Nic) -> Look {
    let Some(coalesce) = &nic.coalesce else { return Look::not_here("its driver has no moderation") };
    let adaptive: Vec<&str> =
        ["adaptive-rx", "adaptive-tx"].into_iter().filter(|it| after(coalesce, it) == Some("on")).collect();
    if adaptive.is_empty() {
        return Look::ok(coalesce.clone());
    }
    let off: Vec<String> = adaptive.iter().map(|name| format!("{name} off")).collect();
    Look::off(
        format!("the driver chooses ({} on)", adaptive.join(", ")),
        format!("ethtool -C {} {} rx-usecs 50 tx-usecs 50", nic.name, off.join(" ")),
    )
}

fn affinity(nic: &Nic) -> Look {
    let cpus: Vec<_> = nic.queues.iter().filter_map(|queue| queue.irq_cpus.as_ref()).collect();
    let wide = cpus.iter().filter(|cpus| cpus.count() > 1).count();
    match (cpus.len(), wide) {
        (0, _) => Look::not_here("no interrupts of its queues are known"),
        (count, 0) => Look::ok(format!("each of {count} interrupts has one cpu")),
        (count, wide) => Look::off(
            format!("{wide} of {count} interrupts may go to several cpus"),
            "expresslane lanes apply, or by hand: echo CPU > /proc/irq/N/smp_affinity_list",
        ),
    }
}

fn root(nic: &Nic) -> &str {
    nic.root_qdisc.as_deref().unwrap_or_default()
}

fn has_queue_sets(nic: &Nic) -> bool {
    root(nic).starts_with("mqprio ") && root(nic).contains(" mode channel")
}

fn queue_sets(nic: &Nic) -> Look {
    if !CHANNEL_DRIVERS.contains(&nic.driver.as_str()) {
        return Look::not_here(format!("the driver {} has none", nic.driver));
    }
    if has_queue_sets(nic) {
        return Look::ok(format!("{} classes", after(root(nic), "num_tc").unwrap_or("some")));
    }
    Look::off(
        format!("the root qdisc is {}", if root(nic).is_empty() { "not known" } else { root(nic) }),
        "a lane in the file with backend = \"tc-channel\", then expresslane lanes apply",
    )
}

fn shaper(nic: &Nic) -> Look {
    let below = nic.below_root.values().any(|it| it.contains("rate ") || it.contains("maxrate "));
    let is_shaped = after(root(nic), "shaper") == Some("bw_rlimit") || root(nic).starts_with("tbf ");
    if is_shaped || below {
        return Look::ok("a rate is limited");
    }
    Look::off("no rate is limited", "rate-max under [default] or a [[lane]] of the file")
}

fn reply_class(nic: &Nic) -> Look {
    if !has_queue_sets(nic) {
        return Look::not_here("no classes");
    }
    let marks = |it: &&crate::facts::Filter| {
        it.direction == Direction::Egress && it.text.contains("skbedit priority")
    };
    match nic.filters.iter().filter(marks).count() {
        0 => Look::off(
            "classes, and nothing puts replies into them: all leave by the first",
            "priority = \"skbedit\" for the lanes, or SO_PRIORITY in the server",
        ),
        count => Look::ok(format!("{count} filters mark what is sent")),
    }
}

/// A feature: on, could be on, can't be.
fn feature(nic: &Nic, name: &str) -> Look {
    match nic.features.get(name) {
        Some(feature) if feature.on => Look::ok("on"),
        Some(feature) if !feature.fixed => Look::off("off", format!("ethtool -K {} {name} on", nic.name)),
        _ => Look::not_here(format!("the driver {} has none", nic.driver)),
    }
}

fn tc_offload(nic: &Nic) -> Look {
    feature(nic, "hw-tc-offload")
}

fn ntuple(nic: &Nic) -> Look {
    feature(nic, "rx-ntuple-filter")
}

fn flower(nic: &Nic) -> Look {
    if !nic.features.get("hw-tc-offload").is_some_and(|it| it.on || !it.fixed) {
        return Look::not_here(format!("the driver {} takes none", nic.driver));
    }
    let flower: Vec<_> = nic.filters.iter().filter(|it| it.text.contains(" flower ")).collect();
    let wanted = flower.iter().filter(|it| it.text.contains("skip_sw"));
    if wanted.clone().any(|it| !it.in_hw) {
        return Look::off(
            "filters are set and not in hardware",
            "expresslane lanes apply, some seconds after mqprio",
        );
    }
    match wanted.count() {
        0 => Look::off("no filter leads into a lane", "expresslane lanes apply"),
        count => Look::ok(format!("{count} filters, all in hardware")),
    }
}

fn symmetric(nic: &Nic) -> Look {
    let rxqs: Vec<_> =
        nic.queues.iter().filter_map(|queue| Some((queue.index, queue.xps_rxqs.as_ref()?))).collect();
    let same = rxqs.iter().filter(|(index, rxqs)| rxqs.count() == 1 && rxqs.contains(*index)).count();
    match (rxqs.len(), same) {
        (0, _) => Look::not_here("its queues have no xps_rxqs"),
        (count, same) if count == same => Look::ok("replies leave by the queue that requests came by"),
        (count, same) => Look::off(
            format!("{same} of {count} queues send what they received"),
            format!(
                "expresslane lanes apply, or by hand for each queue N: echo MASK > /sys/class/net/{}/queues/tx-N/xps_rxqs",
                nic.name
            ),
        ),
    }
}

fn lldp(nic: &Nic) -> Look {
    match nic.private_flags.get("fw-lldp-agent") {
        None => Look::not_here("it has none that is known"),
        Some(false) => Look::ok("off"),
        Some(true) => Look::off("on", format!("ethtool --set-priv-flags {} fw-lldp-agent off", nic.name)),
    }
}

fn hindrances(nic: &Nic) -> Look {
    let mut ties = nic.hindrances.clone();
    ties.extend(nic.master.as_ref().map(|master| format!("part of {master}")));
    ties.extend(nic.xdp.then(|| "an XDP program".to_owned()));
    if ties.is_empty() {
        return Look::ok("nothing");
    }
    let mend = if nic.hindrances.iter().any(|it| it == "irdma") {
        "rmmod irdma, if nobody uses RDMA"
    } else {
        "another card, or take it out of there"
    };
    Look::off(ties.join(", "), mend)
}
