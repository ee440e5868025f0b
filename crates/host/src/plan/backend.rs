//! What a card can do for lanes, and which way is taken.
//!
//! A card *lacks* what it can't do for this wish at all; under `auto` the next backend is tried and the reason told. A *limit*
//! is a number that the wish breaks on a card that can: that is refused, because the answer is another number.

use super::card::Card;
use super::draft::Draft;
use crate::facts::Nic;
use crate::spec::{BackendWish, Lane, Mode, Protocol, Spec};

/// What steers packets of a card's lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    /// Queue sets in hardware.
    TcChannel(&'static Classes),
    /// Rules and spreading tables.
    RssNtuple,
    /// The whole card is one lane's.
    Virtual,
    /// The kernel's own means.
    Soft,
    /// None: processes alone.
    Process,
}

/// What a driver's traffic classes can do, from its source in Linux 7.2.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Classes {
    pub(super) driver: &'static str,
    /// Classes with the default one.
    pub(super) count_max: usize,
    /// Queue counts are powers of two, but for the largest.
    pub(super) powers_of_two: bool,
    /// All classes together have as many queues as the card.
    pub(super) exact_count: bool,
    /// Rates can be kept, not only limited.
    pub(super) min_rates: bool,
    /// Rates are multiples of this, bits a second.
    pub(super) rate_step: u64,
    pub(super) receive: Receive,
}

/// How received packets find their class.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Receive {
    /// Flower filters; with rules beside them that choose a queue of the class.
    FlowerAndRules,
    /// Flower filters alone, by local address and TCP port.
    FlowerByAddress,
    /// Flower filters alone.
    Flower,
    /// Rules: classes are for sending.
    Rules,
}

/// Drivers with mqprio's channel mode in hardware: `ice_validate_mqprio_qopt`, `i40e_validate_mqprio_qopt`,
/// `iavf_validate_ch_config`, `mlx5e_mqprio_channel_validate`. cxgb4 and hns3 have it too, with limits not looked up here.
const CLASSES: &[Classes] = &[
    Classes {
        driver: "ice",
        count_max: 16,
        powers_of_two: true,
        exact_count: false,
        min_rates: true,
        rate_step: 500_000,
        receive: Receive::FlowerAndRules,
    },
    // A flower filter turns its flow director off (i40e_configure_clsflower), so there are no rules beside them.
    Classes {
        driver: "i40e",
        count_max: 8,
        powers_of_two: true,
        exact_count: false,
        min_rates: false,
        rate_step: 50_000_000,
        receive: Receive::FlowerByAddress,
    },
    Classes {
        driver: "iavf",
        count_max: 4,
        powers_of_two: false,
        exact_count: false,
        min_rates: false,
        rate_step: 50_000_000,
        receive: Receive::Flower,
    },
    Classes {
        driver: "mlx5_core",
        count_max: 16,
        powers_of_two: false,
        exact_count: true,
        min_rates: false,
        rate_step: 1_000_000,
        receive: Receive::Rules,
    },
];

/// Drivers whose rules know no ports (igb, igc: Ethernet types, VLANs and addresses).
const RULES_WITHOUT_PORTS: &[&str] = &["igb", "igc"];
/// Drivers whose rules know no IPv6 (ixgbe: tcp4, udp4, sctp4, ip4).
pub(super) const RULES_WITHOUT_IPV6: &[&str] = &["ixgbe"];

/// Chooses, tells why, and refuses where nothing is left.
pub(super) fn choose(draft: &mut Draft, spec: &Spec, card: &mut Card) {
    let lanes: Vec<&Lane> = card.lanes_of(spec).collect();
    let (nic, title) = (card.nic, card.title());
    let classes = CLASSES.iter().find(|it| it.driver == nic.driver);
    let tc = match classes {
        Some(classes) => lacks_classes(nic, classes, &lanes),
        None => {
            Some(format!("the driver {} has no queue sets in hardware (mqprio channel mode)", nic.driver))
        }
    };
    let mut rated = lanes.iter().any(|lane| lane.rate_min.is_some() || lane.rate_max.is_some());
    rated |= spec.default.rate_max.is_some();
    let tried = [
        (BackendWish::TcChannel, "tc-channel", tc),
        (BackendWish::RssNtuple, "rss-ntuple", lacks_rules(nic, &lanes, rated)),
        (BackendWish::Virtual, "virtual", lacks_whole(nic, &lanes, rated)),
        (BackendWish::Soft, "soft", lacks_sorting(nic, &lanes)),
        (BackendWish::Process, "process", None),
    ];
    let backend_of = |wish| match (wish, classes) {
        (BackendWish::TcChannel, Some(classes)) => Backend::TcChannel(classes),
        (BackendWish::RssNtuple, _) => Backend::RssNtuple,
        (BackendWish::Virtual, _) => Backend::Virtual,
        (BackendWish::Process, _) => Backend::Process,
        _ => Backend::Soft,
    };
    if lanes.is_empty() {
        card.backend = Backend::Process;
        return;
    }
    let wish = card.wish.backend;
    if wish != BackendWish::Auto {
        card.backend = backend_of(wish);
        for (_, name, lacks) in tried.into_iter().filter(|(it, ..)| *it == wish) {
            if let Some(reason) = lacks {
                draft.refuse(format!(
                    "{title}, `backend`: {name} can't be had: {reason}; without `backend` the plan says what it can have"
                ));
            }
        }
        return;
    }
    // Classes that only send are worth their cost where there is a rate to keep.
    let passes_over = |it: BackendWish| {
        it == BackendWish::TcChannel && !rated && classes.is_some_and(|it| it.receive == Receive::Rules)
    };
    let chosen = tried.iter().find(|(it, _, lacks)| lacks.is_none() && !passes_over(*it));
    let Some((wish, name, _)) = chosen else { return };
    card.backend = backend_of(*wish);
    let refused: Vec<String> = tried
        .iter()
        .take_while(|(it, ..)| it != wish)
        .map(|(it, name, lacks)| match lacks {
            Some(reason) => format!("not {name}: {reason}"),
            None if passes_over(*it) => {
                format!("not {name}: its classes are for sending alone, and no rate is given")
            }
            None => format!("not {name}"),
        })
        .collect();
    if *wish == BackendWish::Process {
        draft.refuse(format!("{title}: no backend can do this. {}", refused.join("; ")));
        return;
    }
    let reasons = if refused.is_empty() { String::new() } else { format!(" ({})", refused.join("; ")) };
    draft.note(format!("{} uses {name}, the best it has for these lanes{reasons}.", nic.name));
}

fn lacks_classes(nic: &Nic, classes: &Classes, lanes: &[&Lane]) -> Option<String> {
    let driver = classes.driver;
    if let Some(word) = nic.hindrances.iter().find(|it| *it == "safe-mode" || *it == "switchdev") {
        return Some(format!("{driver} is in {word}, where it has no queue sets"));
    }
    if let Some(master) = &nic.master {
        return Some(format!("{} belongs to {master}, and queue sets want the port by itself", nic.name));
    }
    if nic.xdp {
        return Some("an XDP program runs on it, to which queue counts are tied".to_owned());
    }
    if classes.receive == Receive::Rules {
        return lacks_rules(nic, lanes, false);
    }
    match nic.features.get("hw-tc-offload") {
        None => return Some(format!("{driver} offers no hw-tc-offload here")),
        Some(feature) if feature.fixed && !feature.on => {
            return Some("hw-tc-offload is fixed off".to_owned());
        }
        Some(_) => {}
    }
    let per_port = per_port(lanes).is_some();
    if per_port && classes.receive != Receive::FlowerAndRules {
        return Some(format!(
            "{driver} takes no rules beside filters, so a class's ports can't have a queue each"
        ));
    }
    if per_port && nic.ntuple.is_none() {
        return Some("one queue per port wants rules (ethtool -N), and there are none here".to_owned());
    }
    if classes.receive != Receive::FlowerByAddress {
        return None;
    }
    let rules_count = nic.ntuple.as_ref().map_or(0, |ntuple| ntuple.rules.len());
    if rules_count > 0 {
        return Some(format!("filters turn the rules of {driver} off, and somebody has set {rules_count}"));
    }
    // i40e_add_del_cloud_filter_big_buf.
    lanes.iter().find_map(|lane| {
        let name = &lane.name;
        if lane.protocol == Protocol::Udp {
            Some(format!("{driver} filters TCP alone, and lane `{name}` is UDP"))
        } else if lane.remote_ports.is_some() {
            Some(format!("{driver} filters by local ports alone, and lane `{name}` has `remote-ports`"))
        } else if lane.addresses.is_empty() {
            Some(format!(
                "{driver} filters a port with its local address, and lane `{name}` has no `addresses`"
            ))
        } else {
            None
        }
    })
}

fn lacks_rules(nic: &Nic, lanes: &[&Lane], rated: bool) -> Option<String> {
    let driver = nic.driver.as_str();
    if nic.ntuple.is_none() || nic.features.get("rx-ntuple-filter").is_some_and(|it| it.fixed && !it.on) {
        return Some(format!("{driver} takes no rules for ports (ethtool -N)"));
    }
    if RULES_WITHOUT_PORTS.contains(&driver) {
        return Some(format!("the rules of {driver} know no ports"));
    }
    if !nic.rss.as_ref().is_some_and(|rss| rss.writable) {
        return Some(format!(
            "the spreading table of {driver} can't be written, so everything would reach the lanes' queues"
        ));
    }
    if rated {
        return Some("rules can't limit rates".to_owned());
    }
    let v6 = |lane: &&&Lane| lane.addresses.iter().any(|it| it.contains(':'));
    let lane = lanes.iter().filter(|_| RULES_WITHOUT_IPV6.contains(&driver)).find(v6)?;
    Some(format!("the rules of {driver} know no IPv6, and lane `{}` has such an address", lane.name))
}

fn lacks_whole(nic: &Nic, lanes: &[&Lane], rated: bool) -> Option<String> {
    if let [_, second, ..] = lanes {
        return Some(format!(
            "without rules for ports {} can't tell lane `{}` from others: give each lane a card of its own",
            nic.driver, second.name
        ));
    }
    if let Some(lane) = per_port(lanes) {
        return Some(format!("without rules for ports lane `{}` can't have one queue per port", lane.name));
    }
    if nic.queues.iter().all(|queue| queue.irq_cpus.is_none()) {
        return Some(format!("{} has no interrupts of its own", nic.driver));
    }
    rated.then(|| "a whole card's lane has no rates: nothing else is on it".to_owned())
}

/// The lane of one queue per port and several ports, where there is one.
fn per_port<'a>(lanes: &[&'a Lane]) -> Option<&'a Lane> {
    let several = |lane: &Lane| lane.ports.as_ref().is_some_and(|ports| ports.0.len() > 1);
    lanes.iter().copied().find(|lane| lane.mode == Mode::OneQueuePerPort && several(lane))
}

fn lacks_sorting(nic: &Nic, lanes: &[&Lane]) -> Option<String> {
    if let Some(lane) = per_port(lanes).filter(|_| nic.rss.is_some()) {
        return Some(format!(
            "{} spreads packets by its own hash, so lane `{}` can't have one queue per port (`mode = \"spread\"` can be had)",
            nic.driver, lane.name
        ));
    }
    let kept = lanes.iter().find(|lane| lane.rate_min.is_some())?;
    Some(format!(
        "the kernel can limit others but keeps no rate for lane `{}`: instead of `rate-min`, give [default] a `rate-max`",
        kept.name
    ))
}
