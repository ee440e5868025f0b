//! Rules by which a card steers flows to a queue or a context, by their place in its table.
//!
//! ```text
//! struct ethtool_rxnfc, 192 bytes
//!   0 command u32 | 4 flow type u32 | 8 data u64
//!  16 struct ethtool_rx_flow_spec, 168 bytes
//!      0 flow type u32 | 4 values, 52 | 56 values of other layers, 20 | 76 masks, 52 | 128 masks of other layers, 20
//!    152 queue u64 | 160 location u32
//! 184 count of rules, or context u32 | 188 locations u32 × count
//! values of TCP and UDP: source, destination (4 bytes each, IPv6: 16), their ports (2 bytes each), type of service u8
//! ```
//! A bit of a mask that is set is compared. Addresses and ports are in network order, the rest in the machine's. Source:
//! include/uapi/linux/ethtool.h.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::errno::{invalid, unsupported};
use super::filter::{address_of, octets};
use super::ioctl::{call, words};
use super::netlink::u32_at;
use super::program::Transport;
use super::rss::{context_of, queues_of};
use crate::{Cpus, Refusal, Setting};

const COUNT: u32 = 0x2e;
const GET: u32 = 0x2f;
const ALL: u32 = 0x30;
const DELETE: u32 = 0x31;
const INSERT: u32 = 0x32;

const SIZE: usize = 192;
const DATA: usize = 8;
const FLOW: usize = 16;
const VALUES: usize = FLOW + 4;
const MASKS: usize = FLOW + 76;
const LAYER_SIZE: usize = 52;
const OTHER_LAYERS: [usize; 2] = [FLOW + 56, FLOW + 128];
const OTHER_LAYERS_SIZE: usize = 20;
const QUEUE: usize = FLOW + 152;
const LOCATION: usize = FLOW + 160;
const RULES_COUNT: usize = 184;
const CONTEXT: usize = 184;
const LOCATIONS: usize = 188;

/// A card that chooses places by itself sets this beside the number of places.
const CHOOSES_ITSELF: u32 = 0x8000_0000;
/// In a flow type: goes to a context.
const TO_CONTEXT: u32 = 0x2000_0000;
/// More rules are not believed.
const RULES_COUNT_MAX: u32 = 65_536;

/// Flow types: the word, the number, whether it is IPv6, the transport.
const TYPES: &[(&str, u32, bool, Transport)] = &[
    ("tcp4", 1, false, Transport::Tcp),
    ("udp4", 2, false, Transport::Udp),
    ("tcp6", 5, true, Transport::Tcp),
    ("udp6", 6, true, Transport::Udp),
];

/// What a rule compares, and where flows go that agree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    flow: &'static str,
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    /// The number and the bits that count.
    source_port: Option<(u16, u16)>,
    destination_port: Option<(u16, u16)>,
    target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Queue(u64),
    /// By the queues that it spreads over.
    Context(Cpus),
}

fn parse(value: &Setting) -> Result<Rule, Refusal> {
    let bad = || {
        invalid(format!(
            "'{value}' is not like 'flow-type tcp4 dst-ip 10.0.0.1 dst-port 6379 action 4' (or 'context 4-7' in place of action)"
        ))
    };
    let mut words = value.words().peekable();
    let (Some("flow-type"), Some(flow)) = (words.next(), words.next()) else { return Err(bad()) };
    let (flow, _, is_six, _) = TYPES.iter().find(|(name, ..)| *name == flow).ok_or_else(bad)?;
    let mut rule = Rule {
        flow,
        source: None,
        destination: None,
        source_port: None,
        destination_port: None,
        target: Target::Queue(0),
    };
    let mut has_target = false;
    while let Some(word) = words.next() {
        let argument = words.next().ok_or_else(bad)?;
        let address = || argument.parse().ok().filter(|address: &IpAddr| address.is_ipv6() == *is_six);
        match word {
            "src-ip" => rule.source = Some(address().ok_or_else(bad)?),
            "dst-ip" => rule.destination = Some(address().ok_or_else(bad)?),
            "src-port" | "dst-port" => {
                let number = argument.parse().map_err(|_| bad())?;
                let mut ignored = 0;
                if words.next_if_eq(&"m").is_some() {
                    let digits = words.next().and_then(|text| text.strip_prefix("0x")).ok_or_else(bad)?;
                    ignored = u16::from_str_radix(digits, 16).map_err(|_| bad())?;
                }
                let port = Some((number, !ignored));
                if word == "src-port" { rule.source_port = port } else { rule.destination_port = port }
            }
            "action" => {
                rule.target = Target::Queue(argument.parse().map_err(|_| bad())?);
                has_target = true;
            }
            "context" => {
                rule.target = Target::Context(argument.parse().map_err(|_| bad())?);
                has_target = true;
            }
            _ => return Err(bad()),
        }
    }
    if has_target { Ok(rule) } else { Err(bad()) }
}

fn text(rule: &Rule) -> Setting {
    let mut text = format!("flow-type {}", rule.flow);
    for (name, address) in [("src-ip", rule.source), ("dst-ip", rule.destination)] {
        if let Some(address) = address {
            text += &format!(" {name} {address}");
        }
    }
    for (name, port) in [("src-port", rule.source_port), ("dst-port", rule.destination_port)] {
        match port {
            Some((number, u16::MAX)) => text += &format!(" {name} {number}"),
            Some((number, mask)) => text += &format!(" {name} {number} m 0x{:x}", !mask),
            None => {}
        }
    }
    Setting::new(match &rule.target {
        Target::Queue(queue) => format!("{text} action {queue}"),
        Target::Context(queues) => format!("{text} context {queues}"),
    })
}

fn request(command: u32, location: u32) -> Vec<u8> {
    let mut bytes = words(&[command]);
    bytes.resize(SIZE, 0);
    bytes[LOCATION..LOCATION + 4].copy_from_slice(&location.to_ne_bytes());
    bytes
}

/// Where the two addresses and the two ports lie within values and masks.
fn places(is_six: bool) -> [usize; 4] {
    if is_six { [0, 16, 32, 34] } else { [0, 4, 8, 10] }
}

fn encode(rule: &Rule, location: u32, context: Option<u32>) -> Vec<u8> {
    let (_, number, is_six, _) = TYPES.iter().find(|(name, ..)| *name == rule.flow).expect("it was parsed");
    let mut bytes = request(INSERT, location);
    let flow = number | context.map_or(0, |_| TO_CONTEXT);
    bytes[FLOW..FLOW + 4].copy_from_slice(&flow.to_ne_bytes());
    let [source, destination, source_port, destination_port] = places(*is_six);
    let mut put = |place: usize, value: &[u8], mask: &[u8]| {
        bytes[VALUES + place..][..value.len()].copy_from_slice(value);
        bytes[MASKS + place..][..mask.len()].copy_from_slice(mask);
    };
    for (place, address) in [(source, rule.source), (destination, rule.destination)] {
        if let Some(address) = address {
            let octets = octets(address);
            put(place, &octets, &vec![0xff; octets.len()]);
        }
    }
    for (place, port) in [(source_port, rule.source_port), (destination_port, rule.destination_port)] {
        if let Some((number, mask)) = port {
            put(place, &number.to_be_bytes(), &mask.to_be_bytes());
        }
    }
    if let Target::Queue(queue) = rule.target {
        bytes[QUEUE..QUEUE + 8].copy_from_slice(&queue.to_ne_bytes());
    }
    if let Some(context) = context {
        bytes[CONTEXT..CONTEXT + 4].copy_from_slice(&context.to_ne_bytes());
    }
    bytes
}

/// None: it compares what no [`Rule`] has.
fn decode(bytes: &[u8], contexts: &BTreeMap<u32, Vec<u32>>) -> Option<Rule> {
    let kind = u32_at(bytes, FLOW);
    let (flow, _, is_six, _) = TYPES.iter().find(|(_, number, ..)| *number == kind & !TO_CONTEXT)?;
    let [source, destination, source_port, destination_port] = places(*is_six);
    let address_size = if *is_six { 16 } else { 4 };
    let address = |place: usize| -> Option<Option<IpAddr>> {
        let mask = &bytes[MASKS + place..][..address_size];
        match mask {
            _ if mask.iter().all(|byte| *byte == 0) => Some(None),
            _ if mask.iter().all(|byte| *byte == 0xff) => {
                Some(address_of(&bytes[VALUES + place..][..address_size]))
            }
            _ => None,
        }
    };
    let port = |place: usize| {
        let number = |base: usize| u16::from_be_bytes([bytes[base + place], bytes[base + place + 1]]);
        let mask = number(MASKS);
        (mask != 0).then(|| (number(VALUES), mask))
    };
    let behind = bytes[MASKS + destination_port + 2..MASKS + LAYER_SIZE].iter();
    let others = &bytes[OTHER_LAYERS[1]..][..OTHER_LAYERS_SIZE];
    if behind.chain(others).any(|byte| *byte != 0) {
        return None;
    }
    let target = if kind & TO_CONTEXT != 0 {
        Target::Context(queues_of(contexts.get(&u32_at(bytes, CONTEXT))?))
    } else {
        Target::Queue(u64::from_ne_bytes(*bytes[QUEUE..].first_chunk()?))
    };
    Some(Rule {
        flow,
        source: address(source)?,
        destination: address(destination)?,
        source_port: port(source_port),
        destination_port: port(destination_port),
        target,
    })
}

/// Places of the rules that are set, and how many there are in all.
pub(crate) fn list(nic: &str) -> Result<(u32, Vec<u32>), Refusal> {
    let mut bytes = request(COUNT, 0);
    call(nic, &mut bytes)?;
    let (count, capacity) = (u32_at(&bytes, RULES_COUNT), u32_at(&bytes, DATA) & !CHOOSES_ITSELF);
    if count > RULES_COUNT_MAX {
        return Err(unsupported(format!("{nic} says that it has {count} rules")));
    }
    let mut bytes = request(ALL, 0);
    bytes[RULES_COUNT..RULES_COUNT + 4].copy_from_slice(&count.to_ne_bytes());
    bytes.resize(LOCATIONS + (count as usize * 4).max(SIZE - LOCATIONS), 0);
    call(nic, &mut bytes)?;
    let capacity = capacity.max(u32_at(&bytes, DATA));
    let locations = bytes[LOCATIONS..].chunks_exact(4).take(count as usize).map(|place| u32_at(place, 0));
    Ok((capacity, locations.collect()))
}

/// One rule; another's kind is named alone.
pub(crate) fn read(
    nic: &str,
    location: u32,
    contexts: &BTreeMap<u32, Vec<u32>>,
) -> Result<Option<Setting>, Refusal> {
    if !list(nic)?.1.contains(&location) {
        return Ok(None);
    }
    let mut bytes = request(GET, location);
    call(nic, &mut bytes)?;
    Ok(Some(decode(&bytes, contexts).map_or_else(
        || Setting::new(format!("flow-type {}", u32_at(&bytes, FLOW) & !TO_CONTEXT)),
        |rule| text(&rule),
    )))
}

pub(super) fn write(
    nic: &str,
    location: u32,
    value: Option<&Setting>,
    contexts: &BTreeMap<u32, Vec<u32>>,
) -> Result<(), Refusal> {
    let Some(value) = value else {
        return call(nic, &mut request(DELETE, location));
    };
    let rule = parse(value)?;
    let context = match &rule.target {
        Target::Queue(_) => None,
        Target::Context(queues) => Some(context_of(contexts, queues).ok_or_else(|| {
            invalid(format!("{nic} has no RSS context that spreads over the queues {queues}: make it first"))
        })?),
    };
    call(nic, &mut encode(&rule, location, context))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_laid_out_as_the_kernel_reads_it() {
        let rule = parse(&Setting::new("flow-type tcp4 dst-ip 10.0.0.1 dst-port 6379 action 4")).unwrap();
        let mut want = vec![0; 192];
        want[0] = 0x32;
        want[16] = 1;
        // ip4dst and pdst of struct ethtool_tcpip4_spec, then their masks.
        want[24..28].copy_from_slice(&[10, 0, 0, 1]);
        want[30..32].copy_from_slice(&6379_u16.to_be_bytes());
        want[96..100].copy_from_slice(&[255; 4]);
        want[102..104].copy_from_slice(&[255; 2]);
        want[168] = 4;
        want[176..180].copy_from_slice(&1023_u32.to_ne_bytes());
        assert_eq!(encode(&rule, 1023, None), want);

        let rule = parse(&Setting::new("flow-type udp6 src-ip 2001:db8::1 src-port 1 m 0xfffc context 4-7"))
            .unwrap();
        let bytes = encode(&rule, 0, Some(3));
        let mut want = vec![0; 192];
        want[0] = 0x32;
        want[16..20].copy_from_slice(&(6_u32 | 0x2000_0000).to_ne_bytes());
        want[20..24].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
        want[35] = 1;
        want[53] = 1;
        want[92..108].copy_from_slice(&[255; 16]);
        want[125] = 3;
        want[184] = 3;
        assert_eq!(bytes, want);
    }

    #[test]
    fn a_rule_that_is_written_is_read_again() {
        let contexts = BTreeMap::from([(3, vec![4, 5, 6, 7])]);
        for want in [
            "flow-type tcp4 dst-port 6379 action 4",
            "flow-type tcp4 src-ip 10.0.0.9 dst-ip 10.0.0.1 src-port 4 m 0xfff8 dst-port 6379 action 93",
            "flow-type udp6 dst-ip 2001:db8::1 dst-port 53 action 0",
            "flow-type tcp6 dst-port 6379 context 4-7",
        ] {
            let rule = parse(&Setting::new(want)).unwrap();
            let context = matches!(rule.target, Target::Context(_)).then_some(3);
            let read = decode(&encode(&rule, 7, context), &contexts).unwrap();
            assert_eq!(text(&read).as_str(), want);
        }
    }

    #[test]
    fn a_rule_of_someone_else_is_no_rule_of_ours() {
        let rule = parse(&Setting::new("flow-type tcp4 dst-port 1 action 0")).unwrap();
        let none = BTreeMap::new();
        let bytes = encode(&rule, 0, None);
        let changed = |place: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[place] = value;
            decode(&bytes, &none)
        };
        assert!(decode(&bytes, &none).is_some());
        assert!(changed(FLOW, 3).is_none(), "another flow type");
        assert!(changed(MASKS + 12, 0xff).is_none(), "type of service");
        assert!(changed(MASKS, 0xff).is_none(), "a part of an address");
        assert!(changed(OTHER_LAYERS[1] + 10, 0xff).is_none(), "a VLAN");
        assert!(decode(&encode(&rule, 0, Some(9)), &none).is_none(), "a context that is not there");
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for odd in [
            "",
            "flow-type tcp4",
            "flow-type tcp4 dst-port 6379",
            "flow-type ether action 1",
            "flow-type tcp4 dst-ip 2001:db8::1 action 1",
            "flow-type tcp6 dst-ip 10.0.0.1 action 1",
            "flow-type tcp4 dst-port 70000 action 1",
            "flow-type tcp4 src-port 1 m 3 action 1",
            "flow-type tcp4 vlan 5 action 1",
            "flow-type tcp4 action",
        ] {
            assert!(parse(&Setting::new(odd)).is_err(), "{odd}");
        }
    }
}
