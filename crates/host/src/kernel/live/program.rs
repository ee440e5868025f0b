//! The program that puts packets of a port onto a transmit queue, or into a class, for cards without means of their own.
//!
//! ```text
//! IPv4, not a later fragment ─┐   that protocol,      queue_mapping = queue + 1
//! IPv6, no header between     ┴─> addresses, port ──> priority = class            always: go on with other filters
//! ```
//!
//! A queue that was recorded like this (0: none) decides where nothing else does: XPS comes first, and so does a driver that
//! chooses by itself (`netdev_pick_tx`, `skb_tx_hash`). HTB looks for the class that the priority names. Packets with VLAN tags
//! inside and IPv6 extension headers stay as they are. Source: include/uapi/linux/bpf.h, `struct __sk_buff`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::filter::octets;
use super::qdisc;
use crate::Refusal;
use crate::bpf::{Assembly, Instruction, Program, R, Sum, When, Width};

/// TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    pub(super) fn number(self) -> u8 {
        match self {
            Transport::Tcp => 6,
            Transport::Udp => 17,
        }
    }

    pub(super) fn of_number(number: u8) -> Option<Transport> {
        [Transport::Tcp, Transport::Udp].into_iter().find(|transport| transport.number() == number)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        })
    }
}

impl FromStr for Transport {
    type Err = ();

    fn from_str(text: &str) -> Result<Transport, ()> {
        match text {
            "tcp" => Ok(Transport::Tcp),
            "udp" => Ok(Transport::Udp),
            _ => Err(()),
        }
    }
}

/// Which port of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Source,
    Destination,
}

/// Which packets, and what of them is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steer {
    pub(super) queue: Option<u16>,
    /// The class of the packet's priority.
    pub(super) class: Option<u32>,
    pub(super) transport: Transport,
    pub(super) destination: Option<IpAddr>,
    pub(super) source: Option<IpAddr>,
    pub(super) port: Port,
    pub(super) number: u16,
}

impl Steer {
    /// Whether packets of IPv4 (else of IPv6) can be meant: its addresses are of that family.
    pub(super) fn takes(&self, is_four: bool) -> bool {
        self.source.iter().chain(&self.destination).all(|address| address.is_ipv4() == is_four)
    }
}

impl fmt::Display for Steer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(queue) = self.queue {
            write!(f, "queue {queue} ")?;
        }
        if let Some(class) = self.class {
            write!(f, "priority {} ", qdisc::id(class))?;
        }
        write!(f, "{}", self.transport)?;
        for (name, address) in [("dst_ip", self.destination), ("src_ip", self.source)] {
            if let Some(address) = address {
                write!(f, " {name} {address}")?;
            }
        }
        match self.port {
            Port::Source => write!(f, " src_port {}", self.number),
            Port::Destination => write!(f, " dst_port {}", self.number),
        }
    }
}

/// Places in `struct __sk_buff`.
const SKB_QUEUE_MAPPING: i16 = 12;
const SKB_PROTOCOL: i16 = 16;
const SKB_PRIORITY: i16 = 32;

/// Length of an Ethernet header.
const ETHERNET: i32 = 14;
/// Headers without options, and places in them.
const IPV4_SIZE: i32 = 20;
const IPV4_FRAGMENT: i16 = 6;
const IPV4_PROTOCOL: i16 = 9;
const IPV4_SOURCE: i16 = 12;
const IPV4_DESTINATION: i16 = 16;
const IPV6_SIZE: i32 = 40;
const IPV6_NEXT: i16 = 6;
const IPV6_SOURCE: i16 = 8;
const IPV6_DESTINATION: i16 = 24;
const FRAGMENT_OFFSET_MASK: i32 = 0x1fff;
/// Where a header is put on the stack, below r10.
const HEADER: i16 = -40;
const PORTS: i16 = -48;

/// Verdict: other filters may still decide (`TC_ACT_UNSPEC`).
const GO_ON: i32 = -1;

fn assemble(steer: &Steer) -> Vec<Instruction> {
    let (packet, at, value, stack) = (R(6), R(7), R(2), R(10));
    let transport = i32::from(steer.transport.number());
    let mut it = Assembly::default();
    it.sum_register(Sum::Set, packet, R(1));
    it.load(Width::Word, value, packet, SKB_PROTOCOL);
    it.sum(Sum::Set, at, ETHERNET);
    if steer.takes(true) {
        let other = if steer.takes(false) { "ipv6" } else { "out" };
        it.jump_if(value, When::NotEqual, i32::from(0x0800_u16.to_be()), other);
        it.packet_bytes(HEADER, IPV4_SIZE, "out");
        it.load(Width::Byte, value, stack, HEADER + IPV4_PROTOCOL);
        it.jump_if(value, When::NotEqual, transport, "out");
        it.load(Width::Half, value, stack, HEADER + IPV4_FRAGMENT);
        it.wire_order_16(value);
        it.sum(Sum::And, value, FRAGMENT_OFFSET_MASK);
        it.jump_if(value, When::NotEqual, 0, "out");
        compare(&mut it, steer, IPV4_SOURCE, IPV4_DESTINATION);
        // The header's length is counted in words of four bytes.
        it.load(Width::Byte, value, stack, HEADER);
        it.sum(Sum::And, value, 0x0f);
        it.sum(Sum::ShiftLeft, value, 2);
        it.sum_register(Sum::Add, at, value);
        if steer.takes(false) {
            it.jump("ports");
        }
    }
    if steer.takes(false) {
        it.label("ipv6");
        it.jump_if(value, When::NotEqual, i32::from(0x86dd_u16.to_be()), "out");
        it.packet_bytes(HEADER, IPV6_SIZE, "out");
        it.load(Width::Byte, value, stack, HEADER + IPV6_NEXT);
        it.jump_if(value, When::NotEqual, transport, "out");
        compare(&mut it, steer, IPV6_SOURCE, IPV6_DESTINATION);
        it.sum(Sum::Set, at, ETHERNET + IPV6_SIZE);
    }
    it.label("ports");
    it.packet_bytes(PORTS, 4, "out");
    let port = match steer.port {
        Port::Source => PORTS,
        Port::Destination => PORTS + 2,
    };
    it.load(Width::Half, value, stack, port);
    it.wire_order_16(value);
    it.jump_if(value, When::NotEqual, i32::from(steer.number), "out");
    for (what, place) in [
        (steer.queue.map(|queue| i32::from(queue) + 1), SKB_QUEUE_MAPPING),
        (steer.class.map(u32::cast_signed), SKB_PRIORITY),
    ] {
        if let Some(what) = what {
            it.sum(Sum::Set, value, what);
            it.store(Width::Word, packet, place, value);
        }
    }
    it.label("out");
    it.exit(GO_ON);
    it.finish()
}

/// Leaves the program where an address of the header on the stack is another.
fn compare(it: &mut Assembly, steer: &Steer, source: i16, destination: i16) {
    for (address, place) in [(steer.source, source), (steer.destination, destination)] {
        let Some(address) = address else { continue };
        for (word, offset) in octets(address).chunks_exact(4).zip((0_i16..).step_by(4)) {
            let word = i32::from_ne_bytes(word.try_into().expect("four bytes"));
            // A constant is widened with its sign, so both are compared as 64 bits that were widened alike.
            it.load(Width::Word, R(2), R(10), HEADER + place + offset);
            it.sum(Sum::ShiftLeft, R(2), 32);
            it.sum(Sum::Set, R(3), word);
            it.sum(Sum::ShiftLeft, R(3), 32);
            it.jump_if_other(R(2), R(3), "out");
        }
    }
}

/// Gives the program to the kernel, which lets go of it when nobody holds it.
///
/// # Errors
/// Without the capabilities bpf and net_admin, or on a kernel without bpf(2).
pub(super) fn load(steer: &Steer) -> Result<Program, Refusal> {
    Program::load("expresslane", &assemble(steer))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK_SIZE: usize = 64;

    /// Carries out the few instructions that [`assemble`] uses, as the kernel does; queue mapping and priority.
    fn run(code: &[Instruction], protocol: u16, packet: &[u8]) -> (u64, u64) {
        let (mut registers, mut stack, mut set) = ([0_u64; 11], [0_u8; STACK_SIZE], (0, 0));
        registers[10] = STACK_SIZE as u64;
        let mut at = 0;
        for _ in 0..200 {
            let (op, target, source, offset, constant) = code[at].parts();
            let wide = i64::from(constant).cast_unsigned();
            let place = |base: u64| usize::try_from(base.wrapping_add_signed(offset.into())).unwrap();
            let jump = |is_taken: bool| if is_taken { usize::try_from(offset).unwrap() } else { 0 };
            let mut skip = 0;
            match op {
                0xb7 => registers[target] = wide,
                0x07 => registers[target] = registers[target].wrapping_add(wide),
                0x57 => registers[target] &= wide,
                0x67 => registers[target] <<= wide,
                0xbf => registers[target] = registers[source],
                0x0f => registers[target] += registers[source],
                0xdc => registers[target] = (registers[target] & 0xffff).swap_bytes() >> 48,
                0x61 if source == 6 => registers[target] = u64::from(protocol.to_be()),
                0x61 | 0x69 | 0x71 => {
                    let size = match op {
                        0x61 => 4,
                        0x69 => 2,
                        _ => 1,
                    };
                    let bytes = &stack[place(registers[source])..][..size];
                    registers[target] =
                        bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
                }
                0x63 if offset == SKB_QUEUE_MAPPING => set.0 = registers[source],
                0x63 if offset == SKB_PRIORITY => set.1 = registers[source] & 0xffff_ffff,
                0x85 => {
                    let [from, to, count] = [2, 3, 4].map(|r: usize| usize::try_from(registers[r]).unwrap());
                    match packet.get(from..from + count) {
                        Some(bytes) => {
                            stack[to..to + count].copy_from_slice(bytes);
                            registers[0] = 0;
                        }
                        None => registers[0] = u64::MAX,
                    }
                    registers[1..6].fill(u64::MAX);
                }
                0x05 => skip = jump(true),
                0x15 => skip = jump(registers[target] == wide),
                0x55 => skip = jump(registers[target] != wide),
                0x5d => skip = jump(registers[target] != registers[source]),
                0x95 => {
                    assert_eq!(registers[0], i64::from(GO_ON).cast_unsigned());
                    return set;
                }
                other => panic!("operation {other:#x}"),
            }
            at += 1 + skip;
        }
        panic!("the program does not end");
    }

    fn ipv4(header_words: u8, protocol: u8, fragment: u16, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0; 14 + usize::from(header_words) * 4];
        packet[14] = 0x40 | header_words;
        packet[20..22].copy_from_slice(&fragment.to_be_bytes());
        packet[23] = protocol;
        packet[26..34].copy_from_slice(&[200, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(ports.map(u16::to_be_bytes).concat());
        packet
    }

    fn ipv6(next: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0; 54];
        packet[20] = next;
        packet[22..38].copy_from_slice(&octets("2001:db8::1".parse().unwrap()));
        packet[38..54].copy_from_slice(&octets("2001:db8::2".parse().unwrap()));
        packet.extend(ports.map(u16::to_be_bytes).concat());
        packet
    }

    const STEER: Steer = Steer {
        queue: Some(2),
        class: None,
        transport: Transport::Tcp,
        destination: None,
        source: None,
        port: Port::Source,
        number: 6379,
    };

    #[test]
    fn packets_of_the_port_are_given_the_queue_and_others_are_not() {
        let code = assemble(&STEER);
        let four = |packet: Vec<u8>| run(&code, 0x0800, &packet).0;
        assert_eq!(four(ipv4(5, 6, 0, [6379, 40000])), 3, "queue 2 is recorded as 3");
        assert_eq!(four(ipv4(8, 6, 0, [6379, 40000])), 3, "behind options");
        assert_eq!(four(ipv4(5, 6, 0x4000, [6379, 1])), 3, "do not fragment is no fragment");
        assert_eq!(four(ipv4(5, 6, 0x2000, [6379, 1])), 3, "the first fragment has the ports");
        assert_eq!(four(ipv4(5, 6, 100, [6379, 1])), 0, "a later one has none");
        assert_eq!(four(ipv4(5, 17, 0, [6379, 1])), 0, "another protocol");
        assert_eq!(four(ipv4(5, 6, 0, [1, 6379])), 0, "the other port");
        assert_eq!(four(ipv4(5, 6, 0, [6380, 1])), 0);
        assert_eq!(run(&code, 0x0806, &ipv4(5, 6, 0, [6379, 1])), (0, 0), "ARP");
        let six = |next: u8, ports: [u16; 2]| run(&code, 0x86dd, &ipv6(next, ports)).0;
        assert_eq!((six(6, [6379, 1]), six(17, [6379, 1]), six(6, [1, 6379])), (3, 0, 0));
        let whole = ipv4(5, 6, 0, [6379, 40000]);
        for end in 0..38 {
            assert_eq!(four(whole[..end].to_vec()), 0, "cut at {end}");
        }
    }

    #[test]
    fn a_class_and_addresses_and_the_other_port_too() {
        let steer = Steer {
            queue: None,
            class: Some(0x00e7_0010),
            port: Port::Destination,
            number: 53,
            transport: Transport::Udp,
            ..STEER
        };
        assert_eq!(run(&assemble(&steer), 0x0800, &ipv4(5, 17, 0, [9, 53])), (0, 0x00e7_0010));
        let check = |source: Option<&str>, destination: Option<&str>, four: bool, six: bool| {
            let address = |text: Option<&str>| text.map(|text| text.parse().unwrap());
            let steer = Steer { source: address(source), destination: address(destination), ..STEER };
            let code = assemble(&steer);
            assert_eq!(run(&code, 0x0800, &ipv4(5, 6, 0, [6379, 1])).0 != 0, four, "{steer}");
            assert_eq!(run(&code, 0x86dd, &ipv6(6, [6379, 1])).0 != 0, six, "{steer}");
        };
        check(Some("200.0.0.1"), None, true, false);
        check(Some("200.0.0.2"), None, false, false);
        check(Some("200.0.0.1"), Some("10.0.0.2"), true, false);
        check(Some("200.0.0.1"), Some("10.0.0.3"), false, false);
        check(Some("2001:db8::1"), None, false, true);
        check(None, Some("2001:db8::2"), false, true);
        check(None, Some("2001:db8::1"), false, false);
    }
}
