//! Filters at a card's edges: flower, which cards can do themselves, and small programs that choose a transmit queue.
//!
//! A filter is found by its edge and preference; its handle is always 1, for a preference of ours holds one filter. The words
//! of flower come in one order: `ip_proto dst_ip src_ip dst_port src_port skip_sw hw_tc action`. Sources:
//! include/uapi/linux/pkt_cls.h, tc-flower(8), tc-bpf(8).

use std::net::IpAddr;

use super::errno::{invalid, unsupported};
use super::netlink::{Attributes, CREATE, DUMP, EXCLUSIVE, Message, Netlink, u16_at, u32_at};
use super::program::{self, Port, Steer, Transport};
use super::qdisc::{INFO_OFFSET, KIND, OPTIONS, TC_HEADER_SIZE, id, parse_id, request};
use crate::kernel::Cause;
use crate::knob::Direction;
use crate::{Refusal, Setting};

const NEW_FILTER: u16 = 44;
const DELETE_FILTER: u16 = 45;
const GET_FILTER: u16 = 46;
const HANDLE_OFFSET: usize = 8;

/// Places of clsact.
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
const HANDLE: u32 = 1;

const ETHERTYPES: &[(&str, u16)] = &[("ip", 0x0800), ("ipv6", 0x86dd), ("all", 0x0003)];

const FLOWER_CLASS: u16 = 1;
const FLOWER_ACTIONS: u16 = 3;
const FLOWER_ETHERTYPE: u16 = 8;
const FLOWER_PROTOCOL: u16 = 9;
const FLOWER_FLAGS: u16 = 22;
/// Attributes of an address and its mask: (source, mask, destination, mask) of IPv4, then of IPv6.
const FLOWER_ADDRESSES: [[u16; 4]; 2] = [[10, 11, 12, 13], [14, 15, 16, 17]];
/// Attributes of a port and its mask: (source, mask, destination, mask) of TCP, then of UDP.
const FLOWER_PORTS: [[u16; 4]; 2] = [[18, 35, 19, 36], [20, 37, 21, 38]];

const SKIP_HW: u32 = 1;
const SKIP_SW: u32 = 2;
const IN_HW: u32 = 4;

/// A class id of this number and above is a traffic class of the card (`TC_H_MIN_PRIORITY`).
const HW_CLASS_FIRST: u32 = 0xffff_ffe0;
const HW_CLASSES_COUNT: u32 = 16;

const ACTION_KIND: u16 = 1;
const ACTION_OPTIONS: u16 = 2;
const SKBEDIT_PARMS: u16 = 2;
const SKBEDIT_PRIORITY: u16 = 3;
const SKBEDIT_QUEUE: u16 = 4;
/// Go on with what comes behind.
const ACTION_PIPE: i32 = 3;

const BPF_FD: u16 = 6;
const BPF_NAME: u16 = 7;
const BPF_FLAGS: u16 = 8;
/// The program's result is the verdict.
const BPF_DIRECT_ACTION: u32 = 1;
/// In front of the words in a program's name.
const PROGRAM_NAME: &str = "expresslane ";

/// A filter that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) pref: u32,
    pub(crate) text: String,
    /// Whether the card does it.
    pub(crate) in_hw: bool,
}

fn place(direction: Direction) -> u32 {
    match direction {
        Direction::Ingress => INGRESS,
        Direction::Egress => EGRESS,
    }
}

/// Those of an edge, ascending by preference.
pub(crate) fn list(
    netlink: &mut Netlink,
    interface: u32,
    direction: Direction,
) -> Result<Vec<Found>, Refusal> {
    let request = request(GET_FILTER, DUMP, interface, 0, place(direction), 0);
    let replies = match netlink.ask(&request) {
        // Without clsact there are none.
        Err(refusal) if matches!(refusal.cause, Cause::Invalid | Cause::Gone) => return Ok(Vec::new()),
        replies => replies?,
    };
    let mut found: Vec<Found> = replies
        .iter()
        .filter_map(|reply| {
            let (header, attributes) = reply.split::<TC_HEADER_SIZE>();
            let info = u32_at(&header, INFO_OFFSET);
            // The first answer of a preference is its head, which has no handle.
            let is_filter = u32_at(&header, HANDLE_OFFSET) != 0 && attributes.find(OPTIONS).is_some();
            is_filter.then(|| {
                let (text, in_hw) = text(info, attributes);
                Found { pref: info >> 16, text, in_hw }
            })
        })
        .collect();
    found.sort_by_key(|filter| filter.pref);
    Ok(found)
}

pub(super) fn read(
    netlink: &mut Netlink,
    interface: u32,
    direction: Direction,
    pref: u32,
) -> Result<Option<Setting>, Refusal> {
    let of_pref = list(netlink, interface, direction)?.into_iter().find(|filter| filter.pref == pref);
    Ok(of_pref.map(|filter| Setting::new(filter.text)))
}

/// A filter that is there is taken away first: between the two there is none for a moment.
pub(super) fn write(
    netlink: &mut Netlink,
    interface: u32,
    direction: Direction,
    pref: u32,
    value: Option<&Setting>,
) -> Result<(), Refusal> {
    if pref == 0 || pref > 0xffff {
        return Err(invalid(format!("{pref} is no preference: 1 to 65535")));
    }
    let place = place(direction);
    let is_there = list(netlink, interface, direction)?.iter().any(|filter| filter.pref == pref);
    if is_there {
        netlink.ask(&request(DELETE_FILTER, 0, interface, 0, place, pref << 16))?;
    }
    let Some(value) = value else { return Ok(()) };
    let wish = parse(value.as_str())?;
    let info = pref << 16 | u32::from(wish.ethertype.to_be());
    let mut request = request(NEW_FILTER, CREATE | EXCLUSIVE, interface, HANDLE, place, info);
    // The kernel takes its own hold of the program; ours goes with the descriptor.
    let program = wish.put(&mut request)?;
    let answer = netlink.ask(&request);
    drop(program);
    answer.map(|_| ()).map_err(|mut refusal| {
        if refusal.reason.contains("classifier not found") || refusal.reason.contains("load action") {
            refusal.cause = Cause::Unsupported;
            refusal.reason += ": this kernel lacks the module (cls_flower, act_skbedit, cls_bpf)";
        } else if refusal.cause == Cause::Invalid && refusal.reason.to_lowercase().contains("qdisc") {
            refusal.cause = Cause::Gone;
            refusal.reason += ": set qdisc/clsact first";
        }
        refusal
    })
}

/// Whether a filter that only the card shall do (`skip_sw`) is done by it. None: there is no such filter, or it need not be.
pub(super) fn is_in_hw(
    netlink: &mut Netlink,
    interface: u32,
    direction: Direction,
    pref: u32,
) -> Result<Option<bool>, Refusal> {
    let found = list(netlink, interface, direction)?.into_iter().find(|filter| filter.pref == pref);
    let skips = |filter: &Found| filter.text.split(' ').any(|word| word == "skip_sw");
    Ok(found.filter(skips).map(|filter| filter.in_hw))
}

/// The words, and whether the card does it.
fn text(info: u32, attributes: Attributes<'_>) -> (String, bool) {
    let ethertype = u16::from_be(u16::try_from(info & 0xffff).expect("it is 16 bits"));
    let name = ETHERTYPES.iter().find(|(_, number)| *number == ethertype);
    let protocol = name.map_or_else(|| format!("0x{ethertype:04x}"), |(name, _)| (*name).to_owned());
    let kind = attributes.text(KIND).unwrap_or_default();
    let options = attributes.within(OPTIONS);
    let known = match kind.as_str() {
        "flower" => flower_text(options),
        "bpf" => options.text(BPF_NAME).and_then(|name| {
            let words = name.strip_prefix(PROGRAM_NAME)?;
            parse_steer(words).map(|_| words.to_owned())
        }),
        _ => None,
    };
    let flags = options.u32(if kind == "bpf" { 9 } else { FLOWER_FLAGS }).unwrap_or(0);
    let words = known.map(|words| format!(" {words}")).unwrap_or_default();
    (format!("protocol {protocol} {kind}{words}").trim_end().to_owned(), flags & IN_HW != 0)
}

/// What a filter shall be.
#[derive(Debug, PartialEq)]
struct Wish {
    ethertype: u16,
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Flower(Flower),
    Steer(Steer),
}

/// Those keys of flower that lanes use.
#[derive(Debug, Default, PartialEq)]
struct Flower {
    transport: Option<Transport>,
    destination: Option<(IpAddr, u8)>,
    source: Option<(IpAddr, u8)>,
    destination_port: Option<u16>,
    source_port: Option<u16>,
    skip_sw: bool,
    skip_hw: bool,
    hw_class: Option<u32>,
    priority: Option<u32>,
    queue: Option<u16>,
}

fn parse(text: &str) -> Result<Wish, Refusal> {
    let bad = || {
        invalid(format!(
            "'{text}' is not like 'protocol ip flower ip_proto tcp dst_port 6379 skip_sw hw_tc 1', '… action skbedit priority \
             1' or 'protocol all bpf queue 2 tcp src_port 6379'"
        ))
    };
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let ["protocol", protocol, kind, rest @ ..] = words.as_slice() else { return Err(bad()) };
    let ethertype = ETHERTYPES.iter().find(|(name, _)| name == protocol).ok_or_else(bad)?.1;
    let kind = match *kind {
        "flower" => Kind::Flower(parse_flower(rest).ok_or_else(bad)?),
        "bpf" => Kind::Steer(parse_steer(&rest.join(" ")).ok_or_else(bad)?),
        other => {
            return Err(unsupported(format!(
                "a filter of kind {other} can't be made here: it was someone else's"
            )));
        }
    };
    Ok(Wish { ethertype, kind })
}

fn parse_flower(words: &[&str]) -> Option<Flower> {
    let mut flower = Flower::default();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "ip_proto" => flower.transport = Some(words.next()?.parse().ok()?),
            "dst_ip" => flower.destination = Some(parse_prefix(words.next()?)?),
            "src_ip" => flower.source = Some(parse_prefix(words.next()?)?),
            "dst_port" => flower.destination_port = Some(words.next()?.parse().ok()?),
            "src_port" => flower.source_port = Some(words.next()?.parse().ok()?),
            "skip_sw" => flower.skip_sw = true,
            "skip_hw" => flower.skip_hw = true,
            "hw_tc" => {
                flower.hw_class = Some(words.next()?.parse().ok().filter(|n| *n < HW_CLASSES_COUNT)?);
            }
            "action" => match (words.next()?, words.next()?, words.next()?) {
                ("skbedit", "priority", class) => flower.priority = Some(parse_class(class)?),
                ("skbedit", "queue_mapping", number) => flower.queue = Some(number.parse().ok()?),
                _ => return None,
            },
            _ => return None,
        }
    }
    // A port is of a transport.
    let has_port = flower.destination_port.or(flower.source_port).is_some();
    (!has_port || flower.transport.is_some()).then_some(flower)
}

/// `queue 2 priority e7:10 tcp src_ip 10.0.0.1 src_port 6379`; queue or priority may be absent, and so may addresses.
fn parse_steer(text: &str) -> Option<Steer> {
    let mut words = text.split_ascii_whitespace().peekable();
    let mut value = |name: &str| words.next_if_eq(&name).and_then(|_| words.next());
    let queue = value("queue").map(|text| text.parse().ok().filter(|queue| *queue < u16::MAX));
    let class = value("priority").map(|text| parse_id(text).ok());
    let transport = words.next()?.parse().ok()?;
    let mut value = |name: &str| words.next_if_eq(&name).and_then(|_| words.next());
    let destination = value("dst_ip").map(|text| text.parse().ok());
    let source = value("src_ip").map(|text| text.parse().ok());
    let port = match words.next()? {
        "src_port" => Port::Source,
        "dst_port" => Port::Destination,
        _ => return None,
    };
    let number = words.next()?.parse().ok()?;
    // What is there must have been understood, and something must be set.
    let (queue, class) = (understood(queue)?, understood(class)?);
    let (destination, source) = (understood(destination)?, understood(source)?);
    let is_whole = words.next().is_none() && (queue.is_some() || class.is_some());
    let steer = Steer { queue, class, transport, destination, source, port, number };
    (is_whole && (steer.takes(true) || steer.takes(false))).then_some(steer)
}

/// A priority: `1`, or a class, `e7:10`. Hexadecimal, as tc(8) reads it.
fn parse_class(text: &str) -> Option<u32> {
    if text.contains(':') { parse_id(text).ok() } else { u16::from_str_radix(text, 16).ok().map(u32::from) }
}

fn class_text(class: u32) -> String {
    if class <= 0xffff { format!("{class:x}") } else { id(class) }
}

/// None: it was there and was not understood.
fn understood<T>(word: Option<Option<T>>) -> Option<Option<T>> {
    match word {
        Some(None) => None,
        Some(some) => Some(some),
        None => Some(None),
    }
}

/// `10.0.0.1`, `10.0.0.0/24`.
pub(super) fn parse_prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address.parse::<IpAddr>().ok()?, Some(length.parse::<u8>().ok()?)),
        None => (text.parse::<IpAddr>().ok()?, None),
    };
    let most = bits_of(address);
    let length = length.unwrap_or(most);
    (length <= most).then_some((address, length))
}

pub(super) fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The text that [`parse_prefix`] reads; one address has no length.
pub(super) fn prefix_text(address: IpAddr, length: u8) -> String {
    if length == bits_of(address) { address.to_string() } else { format!("{address}/{length}") }
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(super) fn address_of(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(octets).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(octets).ok()?)),
        _ => None,
    }
}

fn mask(octets_count: usize, length: u8) -> Vec<u8> {
    let byte = |index: usize| {
        let bits = usize::from(length).saturating_sub(index * 8).min(8);
        u8::try_from(0xff00_u16 >> bits & 0xff).expect("it is 8 bits")
    };
    (0..octets_count).map(byte).collect()
}

impl Wish {
    /// Puts kind and options into a request. A program's descriptor must live until the request was asked.
    fn put(&self, request: &mut Message) -> Result<Option<crate::bpf::Program>, Refusal> {
        match &self.kind {
            Kind::Flower(flower) => {
                flower.check(self.ethertype)?;
                request.put_text(KIND, "flower");
                request.nest(OPTIONS, &[], |options| flower.put(options, self.ethertype));
                Ok(None)
            }
            Kind::Steer(steer) => {
                let program = program::load(steer)?;
                request.put_text(KIND, "bpf");
                request.nest(OPTIONS, &[], |options| {
                    options.put_u32(BPF_FD, program.fd());
                    options.put_text(BPF_NAME, &format!("{PROGRAM_NAME}{steer}"));
                    options.put_u32(BPF_FLAGS, BPF_DIRECT_ACTION);
                });
                Ok(Some(program))
            }
        }
    }
}

impl Flower {
    /// Addresses are of the protocol that the filter is for.
    fn check(&self, ethertype: u16) -> Result<(), Refusal> {
        for (address, _) in self.destination.iter().chain(&self.source) {
            let want = if address.is_ipv4() { 0x0800 } else { 0x86dd };
            if ethertype != want {
                return Err(invalid(format!(
                    "{address} needs 'protocol ip' for IPv4, 'protocol ipv6' for IPv6"
                )));
            }
        }
        Ok(())
    }

    fn put(&self, options: &mut Message, ethertype: u16) {
        if let Some(class) = self.hw_class {
            options.put_u32(FLOWER_CLASS, HW_CLASS_FIRST + class);
        }
        self.put_action(options);
        options.put_u32(
            FLOWER_FLAGS,
            if self.skip_sw { SKIP_SW } else { 0 } | if self.skip_hw { SKIP_HW } else { 0 },
        );
        options.put(FLOWER_ETHERTYPE, &ethertype.to_be_bytes());
        if let Some(transport) = self.transport {
            options.put_u8(FLOWER_PROTOCOL, transport.number());
            let ports = FLOWER_PORTS[usize::from(transport == Transport::Udp)];
            for (port, kinds) in [(self.source_port, &ports[..2]), (self.destination_port, &ports[2..])] {
                if let Some(port) = port {
                    options.put(kinds[0], &port.to_be_bytes()).put(kinds[1], &[0xff; 2]);
                }
            }
        }
        for (address, first) in [(self.source, 0), (self.destination, 2)] {
            if let Some((address, length)) = address {
                let kinds = &FLOWER_ADDRESSES[usize::from(address.is_ipv6())][first..];
                let octets = octets(address);
                options.put(kinds[0], &octets).put(kinds[1], &mask(octets.len(), length));
            }
        }
    }

    fn put_action(&self, options: &mut Message) {
        if self.priority.is_none() && self.queue.is_none() {
            return;
        }
        options.nest(FLOWER_ACTIONS, &[], |actions| {
            actions.nest(1, &[], |action| {
                action.put_text(ACTION_KIND, "skbedit");
                action.nest(ACTION_OPTIONS, &[], |edit| {
                    // struct tc_skbedit: index u32, capabilities u32, action i32, two counts.
                    let parms = [0, 0, ACTION_PIPE, 0, 0].map(i32::to_ne_bytes).concat();
                    edit.put(SKBEDIT_PARMS, &parms);
                    if let Some(priority) = self.priority {
                        edit.put_u32(SKBEDIT_PRIORITY, priority);
                    }
                    if let Some(queue) = self.queue {
                        edit.put_u16(SKBEDIT_QUEUE, queue);
                    }
                });
            });
        });
    }
}

/// Keys that [`Flower`] has; one with others is not shown, for it would not come back as it was.
fn flower_text(options: Attributes<'_>) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    let protocol = options.u8(FLOWER_PROTOCOL);
    let transport = match protocol {
        Some(number) => Some(Transport::of_number(number)?),
        None => None,
    };
    words.extend(transport.map(|transport| format!("ip_proto {transport}")));
    for (name, first) in [("dst_ip", 2), ("src_ip", 0)] {
        for kinds in FLOWER_ADDRESSES {
            if let Some(address) = options.find(kinds[first]).and_then(address_of) {
                let mask = options.find(kinds[first + 1]).unwrap_or_default();
                let length: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
                words.push(format!("{name} {}", prefix_text(address, length.try_into().ok()?)));
            }
        }
    }
    let ports = FLOWER_PORTS[usize::from(transport == Some(Transport::Udp))];
    for (name, first) in [("dst_port", 2), ("src_port", 0)] {
        if let Some(port) = options.find(ports[first]) {
            if options.find(ports[first + 1]).is_some_and(|mask| mask != [0xff; 2]) {
                return None;
            }
            words.push(format!("{name} {}", u16::from_be(u16_at(port, 0))));
        }
    }
    let flags = options.u32(FLOWER_FLAGS).unwrap_or(0);
    words.extend((flags & SKIP_SW != 0).then(|| "skip_sw".to_owned()));
    words.extend((flags & SKIP_HW != 0).then(|| "skip_hw".to_owned()));
    if let Some(class) = options.u32(FLOWER_CLASS) {
        words.push(format!("hw_tc {}", class.checked_sub(HW_CLASS_FIRST)?));
    }
    for (_, action) in options.within(FLOWER_ACTIONS) {
        let action = Attributes(action);
        if action.text(ACTION_KIND)? != "skbedit" {
            return None;
        }
        let edit = action.within(ACTION_OPTIONS);
        words.extend(
            edit.u32(SKBEDIT_PRIORITY).map(|class| format!("action skbedit priority {}", class_text(class))),
        );
        words.extend(edit.u16(SKBEDIT_QUEUE).map(|queue| format!("action skbedit queue_mapping {queue}")));
    }
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would tell of a filter that was asked for like this: the same options.
    fn again(want: &str) -> String {
        let wish = parse(want).unwrap();
        let Kind::Flower(flower) = &wish.kind else { panic!("flower alone") };
        flower.check(wish.ethertype).unwrap();
        let mut message = Message::new(NEW_FILTER, 0, &[0; TC_HEADER_SIZE]);
        message.put_text(KIND, "flower");
        message.nest(OPTIONS, &[], |options| flower.put(options, wish.ethertype));
        text(u32::from(wish.ethertype.to_be()), message.attributes(TC_HEADER_SIZE)).0
    }

    #[test]
    fn a_flower_that_is_written_is_read_again() {
        for want in [
            "protocol ip flower ip_proto tcp dst_port 6379 skip_sw hw_tc 1",
            "protocol ip flower ip_proto tcp dst_ip 10.0.0.1 dst_port 6379 skip_sw hw_tc 15",
            "protocol ipv6 flower ip_proto udp dst_ip 2001:db8::/32 src_ip 2001:db8::1 src_port 53",
            "protocol ip flower ip_proto tcp src_port 6379 action skbedit priority 1",
            "protocol ip flower ip_proto tcp src_port 6379 action skbedit priority e7:10",
            "protocol ip flower ip_proto tcp src_ip 10.0.0.0/20 action skbedit queue_mapping 3",
            "protocol all flower skip_hw",
        ] {
            assert_eq!(again(want), want);
        }
    }

    /// What reads a filter as it was written would read a wrong order too: these are the bytes on the wire.
    #[test]
    fn ports_and_protocols_are_in_the_order_of_the_wire() {
        let wish = parse("protocol ip flower ip_proto tcp dst_port 6379").unwrap();
        let Kind::Flower(flower) = &wish.kind else { panic!("flower") };
        let mut message = Message::new(NEW_FILTER, 0, &[]);
        flower.put(&mut message, wish.ethertype);
        let attributes = message.attributes(0);
        assert_eq!(attributes.find(FLOWER_ETHERTYPE).unwrap(), [0x08, 0x00]);
        assert_eq!(attributes.find(FLOWER_PORTS[0][2]).unwrap(), [0x18, 0xeb]);
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in [
            "",
            "protocol ip",
            "protocol arp flower",
            "protocol ip flower dst_port 6379",
            "protocol ip flower ip_proto sctp",
            "protocol ip flower ip_proto tcp dst_port 70000",
            "protocol ip flower hw_tc 16",
            "protocol ip flower action drop now please",
            "protocol ip flower dst_ip 10.0.0.1/33",
            "protocol all bpf queue 2",
            "protocol all bpf queue 65535 tcp src_port 1",
            "protocol all bpf tcp src_port 1",
            "protocol all bpf priority x tcp src_port 1",
            "protocol all bpf queue 1 tcp src_ip 10.0.0.x src_port 1",
            "protocol all bpf queue 1 tcp src_port 1 more",
            "protocol all bpf queue 1 tcp dst_ip 10.0.0.1 src_ip 2001:db8::1 src_port 1",
            "protocol ip u32",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let wish = parse("protocol ipv6 flower dst_ip 10.0.0.1").unwrap();
        let Kind::Flower(flower) = wish.kind else { panic!("flower") };
        assert!(flower.check(wish.ethertype).unwrap_err().reason.contains("10.0.0.1"));
    }

    #[test]
    fn a_programs_words_are_read_again() {
        for want in [
            "queue 2 tcp src_port 6379",
            "queue 0 priority e7:10 udp src_ip 10.0.0.1 src_port 53",
            "priority e7: tcp dst_ip 2001:db8::1 src_ip 2001:db8::2 dst_port 80",
        ] {
            assert_eq!(parse_steer(want).unwrap().to_string(), want);
        }
    }

    #[test]
    fn masks_are_as_long_as_said() {
        assert_eq!(mask(4, 20), [255, 255, 240, 0]);
        assert_eq!(mask(4, 32), [255; 4]);
        assert_eq!(mask(4, 0), [0; 4]);
    }

    #[test]
    fn a_filter_with_keys_of_someone_else_is_named_alone() {
        let mut message = Message::new(NEW_FILTER, 0, &[0; TC_HEADER_SIZE]);
        message.put_text(KIND, "flower");
        message.nest(OPTIONS, &[], |options| {
            options.put_u8(FLOWER_PROTOCOL, 132);
        });
        let ip = u32::from(0x0800_u16.to_be());
        assert_eq!(text(ip, message.attributes(TC_HEADER_SIZE)).0, "protocol ip flower");
    }
}
