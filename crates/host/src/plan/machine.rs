//! What concerns more than one card: daemons that set the same knobs, sysctls, and by which card replies leave.

use super::Risk;
use super::backend::Backend;
use super::card::Card;
use super::draft::{Draft, MARK_FIRST, Stage};
use super::flows::{family_of, reachable};
use crate::knob::{Knob, NicKnob};
use crate::managers;
use crate::spec::{Irqbalance, Spec, sysctl_text};

/// Cpus below which busy polling was seen to cost more than it gives: the polled core is shared.
const CPUS_FOR_BUSY_POLL: usize = 4;

pub(super) fn steps(draft: &mut Draft, spec: &Spec, cards: &[Card]) {
    daemons(draft, spec, cards);
    busy_poll(draft, spec);
    for (name, value) in &spec.host.sysctls {
        let text = sysctl_text(value).unwrap_or_default();
        draft.want_sysctl(name, &text, "asked for by `sysctls`", &[Risk::WholeMachine]);
    }
    for (n, card) in (0..).zip(cards) {
        if card.wish.arp_filter {
            arp_filter(draft, card);
        }
        if card.wish.source_routing {
            source_routing(draft, card, MARK_FIRST + n);
        }
    }
}

fn daemons(draft: &mut Draft, spec: &Spec, cards: &[Card]) {
    let facts = draft.facts;
    let mut divided = cards.iter().filter(|card| card.backend != Backend::Process);
    let moves_interrupts = divided.any(|card| draft.has_per_queue(card.nic, NicKnob::IrqAffinity));
    for daemon in &facts.daemons {
        match (daemon.name.as_str(), spec.host.irqbalance) {
            ("irqbalance", _) if !moves_interrupts => {}
            ("irqbalance", Irqbalance::Stop) if daemon.manageable || !daemon.running => {
                let knob = Knob::Service { name: daemon.name.clone() };
                let why = "it would move the lanes' interrupts away";
                draft.want(Stage::Daemons, knob, "stopped", why).add_risks(&[Risk::WholeMachine]);
            }
            ("irqbalance", Irqbalance::Stop) => draft.refuse(
                "[host], `irqbalance`: irqbalance runs and can't be stopped from here: stop it where it was started, or set \
                 \"leave\""
                    .to_owned(),
            ),
            ("irqbalance", Irqbalance::Leave) if daemon.running => draft.note(
                "irqbalance runs and is left alone: it moves the lanes' interrupts away within seconds unless it is told \
                 not to (IRQBALANCE_BANNED_CPULIST)."
                    .to_owned(),
            ),
            _ => {}
        }
    }
    let steered = cards.iter().filter(|card| card.backend != Backend::Process).map(|card| card.nic);
    managers::warnings(facts, steered).into_iter().for_each(|it| draft.note(it));
}

fn busy_poll(draft: &mut Draft, spec: &Spec) {
    let wishes: Vec<u32> = spec.lanes.iter().filter_map(|lane| lane.busy_poll_us).collect();
    let Some(most) = wishes.iter().max() else { return };
    if wishes.iter().any(|it| it != most) {
        draft.note(format!(
            "Busy polling is one number for the whole machine: {most} µs, the longest that a lane wants."
        ));
    }
    if draft.facts.cpus.len() < CPUS_FOR_BUSY_POLL {
        draft.note(format!(
            "Busy polling on {} cpus: measured on two, it made the tail longer and the neighbour slower, because the core \
             that polls is shared.",
            draft.facts.cpus.len()
        ));
    }
    let why = "servers poll their queue before they sleep in epoll";
    draft.want_sysctl("net.core.busy_poll", &most.to_string(), why, &[Risk::WholeMachine]);
}

fn arp_filter(draft: &mut Draft, card: &Card) {
    // A dot in an interface's name is a slash in a sysctl's, as sysctl(8) has it.
    let name = card.nic.name.replace('.', "/");
    for (key, value) in [("arp_announce", "2"), ("arp_ignore", "1"), ("arp_notify", "1")] {
        let sysctl = format!("net.ipv4.conf.{name}.{key}");
        draft.want_sysctl(&sysctl, value, "ARP for this card's addresses at this card alone", &[]);
    }
}

/// For each address a rule into a table that knows this card alone.
fn source_routing(draft: &mut Draft, card: &Card, table: u32) {
    let nic = card.nic;
    let given = card.wish.gateway.iter().chain(&nic.gateways);
    let gateways: Vec<&String> = given.collect();
    let addresses: Vec<&str> = reachable(nic).collect();
    if addresses.is_empty() {
        let sentence = format!("{}, `source-routing`: the card has no address to route by", card.title());
        return draft.refuse(sentence);
    }
    let risks: Vec<Risk> = card.session_risk().into_iter().collect();
    let why = "replies leave by the card at which requests came in";
    for address in addresses {
        let family = family_of(address);
        let Some(gateway) = gateways.iter().find(|it| family_of(it) == family) else {
            let kind = if address.contains(':') { "IPv6" } else { "IPv4" };
            draft.refuse(format!(
                "{}, `source-routing`: no default route leads over this card for {address}: say which {kind} `gateway`",
                card.title()
            ));
            continue;
        };
        let host = address.split('/').next().unwrap_or(address);
        let mut route = |destination: &str, to: String| {
            let knob = Knob::Route { family, table, destination: destination.to_owned() };
            draft.want(Stage::Routes, knob, to, why);
        };
        if let Some(network) = network(address) {
            route(&network, format!("dev {}", nic.name));
        }
        route("default", format!("via {gateway} dev {}", nic.name));
        let text = format!("from {host} lookup {table}");
        let pref = rule_pref(draft, family, &text);
        draft.want(Stage::Routes, Knob::Rule { family, pref }, text, why).add_risks(&risks);
    }
}

/// The first preference that has this rule or none, of the facts or of this plan.
fn rule_pref(draft: &Draft, family: crate::knob::Family, text: &str) -> u32 {
    let knob = |pref: u32| Knob::Rule { family, pref };
    let has = |pref: u32| {
        draft.wanted(&knob(pref)).or_else(|| draft.facts.routing.get(&knob(pref).to_string()).cloned())
    };
    let free = |pref: &u32| has(*pref).is_none_or(|it| it == text);
    (MARK_FIRST..).find(free).unwrap_or(MARK_FIRST)
}

/// `10.0.0.0/24` of `10.0.0.1/24`; none of a host's own prefix.
fn network(address: &str) -> Option<String> {
    let (host, length) = address.split_once('/')?;
    let length: u32 = length.parse().ok()?;
    match host.parse().ok()? {
        std::net::IpAddr::V4(host) if length < 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            Some(format!("{}/{length}", std::net::Ipv4Addr::from(u32::from(host) & mask)))
        }
        std::net::IpAddr::V6(host) if length < 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            Some(format!("{}/{length}", std::net::Ipv6Addr::from(u128::from(host) & mask)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::network;

    #[test]
    fn an_address_has_a_network() {
        let check =
            |address: &str, want: Option<&str>| assert_eq!(network(address).as_deref(), want, "{address}");
        check("10.1.2.3/24", Some("10.1.2.0/24"));
        check("10.1.2.3/0", Some("0.0.0.0/0"));
        check("10.1.2.3/32", None);
        check("2001:db8::5/64", Some("2001:db8::/64"));
        check("2001:db8::5/128", None);
        check("10.1.2.3", None);
    }
}
