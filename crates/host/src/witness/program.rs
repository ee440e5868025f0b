//! The program that counts: what it does with a packet, instruction by instruction.
//!
//! A packet finds its lane by the key of its own destination, then by that of any address with this port:
//!
//! ```text
//!   0            3            4                                20
//!   | protocol << 16 | port   | address, IPv4 as ::ffff:a.b.c.d |      zeros: any address
//! ```

use std::net::{IpAddr, Ipv6Addr};

use crate::bpf::{Assembly, Helper, Instruction, Map, R, Sum, When, Width};
use crate::spec::Protocol;

use super::counts::queue_slot_count;

/// Offsets in `struct __sk_buff` (linux/bpf.h).
const SKB_LENGTH: i16 = 0;
const SKB_QUEUE_MAPPING: i16 = 12;
const SKB_NAPI_ID: i16 = 84;
const SKB_GSO_SEGMENTS: i16 = 164;

/// Offsets in the packet.
const ETHERNET_TYPE: i32 = 12;
const ETHERNET_SIZE: i32 = 14;
const VLAN_SIZE: i32 = 4;
const IPV6_SIZE: i32 = 40;
const IPV6_NEXT: i16 = 6;
const IPV6_DESTINATION: i16 = 24;
const IPV4_SIZE_MIN: i32 = 20;
const IPV4_FRAGMENT: i16 = 6;
const IPV4_PROTOCOL: i16 = 9;
const IPV4_DESTINATION: i16 = 16;
const PORT_DESTINATION: i32 = 2;

/// Where on the stack bytes of the packet are put, the keys of the maps, and the words of an address in them.
const BYTES: i16 = -64;
const KEY: i16 = -24;
const ADDRESS_WORDS: [i16; 4] = [KEY + 4, KEY + 8, KEY + 12, KEY + 16];
/// Bytes of [`port_key`].
pub(super) const PORT_KEY_SIZE: u32 = 20;

/// `TC_ACT_UNSPEC`: whatever would have happened without this program happens.
const UNCHANGED: i32 = -1;

fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
    }
}

/// The key by which a packet to this port, at this address or any, finds its lane.
pub(super) fn port_key(protocol: Protocol, address: Option<IpAddr>, port: u16) -> Vec<u8> {
    let address = match address {
        Some(IpAddr::V4(address)) => address.to_ipv6_mapped(),
        Some(IpAddr::V6(address)) => address,
        None => Ipv6Addr::UNSPECIFIED,
    };
    let word = u32::from(number(protocol)) << 16 | u32::from(port);
    [&word.to_ne_bytes()[..], &address.octets()].concat()
}

/// What the program works with.
pub(super) struct Tables<'a> {
    /// Lanes by [`port_key`].
    pub(super) ports: &'a Map,
    /// Receive queues, plus one, by the id of the NAPI instance that polls them.
    pub(super) napis: &'a Map,
    /// Where it counts, as [`super::counts`] lays out for so many queues.
    pub(super) counts: &'a Map,
    /// Receive queues.
    pub(super) queue_count: u32,
    /// Whether the driver records the queue in the packet. One that doesn't leaves the sender's there, which means nothing.
    pub(super) is_recorded: bool,
}

/// The program.
pub(super) fn assemble(tables: &Tables<'_>) -> Vec<Instruction> {
    let (packet, at, lane, protocol) = (R(6), R(7), R(8), R(9));
    let (a, b, stack) = (R(1), R(2), R(10));
    let mut it = Assembly::default();
    it.sum_register(Sum::Set, packet, a);
    it.sum(Sum::Set, lane, 0);

    // Ethernet, and one tag of a VLAN where the kernel has left it in the packet.
    it.sum(Sum::Set, at, ETHERNET_TYPE);
    it.packet_bytes(BYTES, 2, "count");
    it.sum(Sum::Set, at, ETHERNET_SIZE);
    it.load(Width::Half, b, stack, BYTES);
    it.wire_order_16(b);
    it.jump_if(b, When::Equal, 0x8100, "tagged");
    it.jump_if(b, When::NotEqual, 0x88a8, "untagged");
    it.label("tagged");
    it.sum(Sum::Set, at, ETHERNET_TYPE + VLAN_SIZE);
    it.packet_bytes(BYTES, 2, "count");
    it.sum(Sum::Set, at, ETHERNET_SIZE + VLAN_SIZE);
    it.load(Width::Half, b, stack, BYTES);
    it.wire_order_16(b);
    it.label("untagged");
    it.jump_if(b, When::Equal, 0x0800, "ipv4");
    it.jump_if(b, When::NotEqual, 0x86dd, "count");

    it.packet_bytes(BYTES, IPV6_SIZE, "count");
    for (from, to) in (BYTES + IPV6_DESTINATION..).step_by(4).zip(ADDRESS_WORDS) {
        it.load(Width::Word, a, stack, from);
        it.store(Width::Word, stack, to, a);
    }
    it.load(Width::Byte, protocol, stack, BYTES + IPV6_NEXT);
    it.sum(Sum::Add, at, IPV6_SIZE);
    it.jump("ports");

    it.label("ipv4");
    it.packet_bytes(BYTES, IPV4_SIZE_MIN, "count");
    // A later fragment has no ports.
    it.load(Width::Half, b, stack, BYTES + IPV4_FRAGMENT);
    it.wire_order_16(b);
    it.sum(Sum::And, b, 0x1fff);
    it.jump_if(b, When::NotEqual, 0, "count");
    any_address(&mut it);
    it.sum(Sum::Set, a, i32::from_ne_bytes([0, 0, 0xff, 0xff]));
    it.store(Width::Word, stack, ADDRESS_WORDS[2], a);
    it.load(Width::Word, a, stack, BYTES + IPV4_DESTINATION);
    it.store(Width::Word, stack, ADDRESS_WORDS[3], a);
    it.load(Width::Byte, protocol, stack, BYTES + IPV4_PROTOCOL);
    it.load(Width::Byte, b, stack, BYTES);
    it.sum(Sum::And, b, 0x0f);
    it.sum(Sum::ShiftLeft, b, 2);
    it.sum_register(Sum::Add, at, b);

    it.label("ports");
    it.jump_if(protocol, When::Equal, i32::from(number(Protocol::Tcp)), "port");
    it.jump_if(protocol, When::NotEqual, i32::from(number(Protocol::Udp)), "count");
    it.label("port");
    it.sum(Sum::Add, at, PORT_DESTINATION);
    it.packet_bytes(BYTES, 2, "count");
    it.load(Width::Half, b, stack, BYTES);
    it.wire_order_16(b);
    it.sum(Sum::ShiftLeft, protocol, 16);
    it.sum_register(Sum::Or, protocol, b);
    it.store(Width::Word, stack, KEY, protocol);
    look_up(&mut it, tables.ports);
    it.jump_if(R(0), When::NotEqual, 0, "found");
    any_address(&mut it);
    look_up(&mut it, tables.ports);
    it.jump_if(R(0), When::Equal, 0, "count");
    it.label("found");
    it.load(Width::Word, lane, R(0), 0);
    it.sum(Sum::Add, lane, 1);

    // Who polled the packet knows its queue; else what the driver recorded, which is the queue plus one. What is beyond the
    // queues known here is as unknown as none.
    it.label("count");
    let queue_slots =
        i32::try_from(queue_slot_count(tables.queue_count)).expect("no card has so many queues");
    it.sum(Sum::Multiply, lane, queue_slots);
    it.load(Width::Word, b, packet, SKB_NAPI_ID);
    it.store(Width::Word, stack, KEY, b);
    look_up(&mut it, tables.napis);
    it.jump_if(R(0), When::Equal, 0, "unpolled");
    it.load(Width::Word, b, R(0), 0);
    it.jump("queue");
    it.label("unpolled");
    match tables.is_recorded {
        true => it.load(Width::Word, b, packet, SKB_QUEUE_MAPPING),
        false => it.sum(Sum::Set, b, 0),
    }
    it.label("queue");
    it.jump_if(b, When::AtLeast, queue_slots, "unknown");
    it.sum_register(Sum::Add, lane, b);
    it.label("unknown");
    it.store(Width::Word, stack, KEY, lane);
    look_up(&mut it, tables.counts);
    it.jump_if(R(0), When::Equal, 0, "end");
    // No other packet interrupts this one on its cpu, so plain additions are enough.
    it.load(Width::Word, a, packet, SKB_GSO_SEGMENTS);
    it.jump_if(a, When::NotEqual, 0, "joined");
    it.sum(Sum::Set, a, 1);
    it.label("joined");
    it.load(Width::Double, b, R(0), 0);
    it.sum_register(Sum::Add, b, a);
    it.store(Width::Double, R(0), 0, b);
    it.load(Width::Word, a, packet, SKB_LENGTH);
    it.load(Width::Double, b, R(0), 8);
    it.sum_register(Sum::Add, b, a);
    it.store(Width::Double, R(0), 8, b);
    it.label("end");
    it.exit(UNCHANGED);
    it.finish()
}

/// Makes the key on the stack that of any address. r1 is gone.
fn any_address(it: &mut Assembly) {
    it.sum(Sum::Set, R(1), 0);
    for to in ADDRESS_WORDS {
        it.store(Width::Word, R(10), to, R(1));
    }
}

/// Leaves in r0 the value of the key on the stack, or null.
fn look_up(it: &mut Assembly, map: &Map) {
    it.map(R(1), map);
    it.sum_register(Sum::Set, R(2), R(10));
    it.sum(Sum::Add, R(2), i32::from(KEY));
    it.call(Helper::Lookup);
}

#[cfg(test)]
mod tests {
    use super::super::counts::{VALUE_SIZE, decode, slot_count};
    use super::*;
    use crate::bpf::{MapKind, Program};
    use crate::kernel::{Cause, Refusal};

    const QUEUES: u32 = 4;

    struct Trial {
        program: Program,
        counts: Map,
    }

    /// Lane 0 has tcp 6379 and 8000 at 10.0.0.1, lane 1 udp 53 and tcp 7000 and 8000 at 10.0.0.2 and 2001:db8::2. `None`, said in words, where this process may not.
    fn trial() -> Option<Trial> {
        let made = || -> Result<Trial, Refusal> {
            let ports = Map::new(MapKind::Hash, "ports", PORT_KEY_SIZE, 4, 6)?;
            let at = |address: &str| Some(address.parse().unwrap());
            for (protocol, address, port, lane) in [
                (Protocol::Tcp, None, 6379, 0_u32),
                (Protocol::Udp, None, 53, 1),
                (Protocol::Tcp, None, 7000, 1),
                (Protocol::Tcp, at("10.0.0.1"), 8000, 0),
                (Protocol::Tcp, at("10.0.0.2"), 8000, 1),
                (Protocol::Tcp, at("2001:db8::2"), 8000, 1),
            ] {
                ports.set(&port_key(protocol, address, port), &lane.to_ne_bytes())?;
            }
            let counts =
                Map::new(MapKind::PerCpuArray, "counts", 4, VALUE_SIZE, slot_count(2, QUEUES).unwrap())?;
            let napis = Map::new(MapKind::Hash, "napis", 4, 4, 1)?;
            let (ports, napis, counts_of) = (&ports, &napis, &counts);
            let tables = Tables { ports, napis, counts: counts_of, queue_count: QUEUES, is_recorded: true };
            let program = Program::load("trial", &assemble(&tables))?;
            Ok(Trial { program, counts })
        };
        match made() {
            Ok(trial) => Some(trial),
            Err(refusal) if refusal.cause == Cause::Forbidden || refusal.cause == Cause::Unsupported => {
                eprintln!("not tried: {refusal}");
                None
            }
            Err(refusal) => panic!("{refusal}"),
        }
    }

    impl Trial {
        /// Lane, queue, packets and bytes of all that was counted, over all cpus.
        fn counted(&self) -> Vec<(Option<usize>, Option<u32>, u64, u64)> {
            let mut seen = Vec::new();
            for slot in 0..slot_count(2, QUEUES).unwrap() {
                let cells = decode(slot, QUEUES, &self.counts.get(&slot.to_ne_bytes()).unwrap(), &[0, 1]);
                if let Some(first) = cells.first() {
                    let sum = |of: fn(&super::super::Cell) -> u64| cells.iter().map(of).sum::<u64>();
                    seen.push((first.lane, first.queue, sum(|c| c.packets), sum(|c| c.bytes)));
                }
            }
            seen
        }
    }

    fn ethernet(kind: u16, tag: Option<u16>, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![2; 12];
        if let Some(tag) = tag {
            packet.extend(tag.to_be_bytes());
            packet.extend(5_u16.to_be_bytes());
        }
        packet.extend(kind.to_be_bytes());
        packet.extend(rest);
        packet
    }

    fn ipv4(protocol: u8, words: u8, fragment: u16, port: u16) -> Vec<u8> {
        let mut header = vec![0; usize::from(words) * 4];
        (header[0], header[9]) = (0x40 | words, protocol);
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header.extend([0x30, 0x39]);
        header.extend(port.to_be_bytes());
        header.extend([0; 16]);
        header
    }

    fn ipv6(next: u8, port: u16) -> Vec<u8> {
        let mut header = vec![0; 40];
        (header[0], header[6]) = (0x60, next);
        header.extend([0x30, 0x39]);
        header.extend(port.to_be_bytes());
        header.extend([0; 16]);
        header
    }

    #[test]
    fn a_packet_is_its_lanes_by_protocol_and_port() {
        let Some(_) = trial() else { return };
        let check = |packet: Vec<u8>, lane: Option<usize>| {
            let trial = trial().unwrap();
            assert_eq!(trial.program.run(&packet, &[]).unwrap(), -1, "nothing is changed");
            let bytes = u64::try_from(packet.len()).unwrap();
            assert_eq!(trial.counted(), [(lane, None, 1, bytes)], "{packet:x?}");
        };
        check(ethernet(0x0800, None, &ipv4(6, 5, 0, 6379)), Some(0));
        check(ethernet(0x0800, None, &ipv4(6, 5, 0x4000, 7000)), Some(1));
        check(ethernet(0x0800, None, &ipv4(17, 5, 0, 53)), Some(1));
        check(ethernet(0x0800, None, &ipv4(17, 5, 0, 6379)), None);
        check(ethernet(0x0800, None, &ipv4(6, 5, 0, 53)), None);
        check(ethernet(0x0800, None, &ipv4(6, 5, 0, 6380)), None);
        // Options move the ports.
        check(ethernet(0x0800, None, &ipv4(6, 8, 0, 6379)), Some(0));
        // The first fragment has them, a later one has not.
        check(ethernet(0x0800, None, &ipv4(17, 5, 0x2000, 53)), Some(1));
        check(ethernet(0x0800, None, &ipv4(17, 5, 0x0001, 53)), None);
        check(ethernet(0x0800, None, &ipv4(1, 5, 0, 6379)), None);
        check(ethernet(0x86dd, None, &ipv6(6, 6379)), Some(0));
        check(ethernet(0x86dd, None, &ipv6(17, 53)), Some(1));
        check(ethernet(0x86dd, None, &ipv6(0, 6379)), None);
        check(ethernet(0x0800, Some(0x8100), &ipv4(6, 5, 0, 6379)), Some(0));
        check(ethernet(0x86dd, Some(0x88a8), &ipv6(6, 6379)), Some(0));
        check(ethernet(0x0806, None, &[0; 46]), None);
        // One port at several addresses, and at none of them.
        let v4 = |last: u8| {
            let mut packet = ipv4(6, 5, 0, 8000);
            packet[16..20].copy_from_slice(&[10, 0, 0, last]);
            packet
        };
        check(ethernet(0x0800, None, &v4(1)), Some(0));
        check(ethernet(0x0800, None, &v4(2)), Some(1));
        check(ethernet(0x0800, Some(0x8100), &v4(2)), Some(1));
        check(ethernet(0x0800, None, &v4(3)), None);
        let v6 = |address: &str| {
            let mut packet = ipv6(6, 8000);
            packet[24..40].copy_from_slice(&address.parse::<Ipv6Addr>().unwrap().octets());
            packet
        };
        check(ethernet(0x86dd, None, &v6("2001:db8::2")), Some(1));
        check(ethernet(0x86dd, None, &v6("2001:db8::1")), None);
        check(ethernet(0x86dd, None, &v6("2001:db8:0:1::2")), None);
        check(ethernet(0x86dd, None, &v6("2001:db9::2")), None);
        check(ethernet(0x86dd, None, &v6("2001:db8::1:0:2")), None);
        // The other side's address is nobody's.
        let mut packet = v4(3);
        packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
        check(ethernet(0x0800, None, &packet), None);
        // Cut off: before the ports, inside the options.
        check(ethernet(0x0800, None, &ipv4(6, 5, 0, 6379)[..20]), None);
        check(ethernet(0x0800, None, &ipv4(6, 8, 0, 6379)[..24]), None);
        check(ethernet(0x86dd, None, &ipv6(6, 6379)[..42]), None);
    }

    #[test]
    fn what_was_joined_counts_as_many() {
        let Some(trial) = trial() else { return };
        let packet = ethernet(0x0800, None, &ipv4(6, 5, 0, 6379));
        // A struct __sk_buff with gso_segs 3 at 164; the kernel wants the rest zero.
        let mut context = vec![0_u8; 192];
        context[164..168].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(trial.program.run(&packet, &context).unwrap(), -1);
        assert_eq!(trial.program.run(&packet, &[]).unwrap(), -1);
        assert_eq!(trial.counted(), [(Some(0), None, 4, 2 * u64::try_from(packet.len()).unwrap())]);
    }
}
