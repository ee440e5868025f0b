//! Whole loads in the protocols whose clients know whose keys are whose: the test is both nodes.

use std::cell::Cell;

use net::Limits;
use net::mem::{Client, Mem};
use wire::route::vbucket;

use super::{MS, plan};
use crate::connect::aerospike;
use crate::connect::couchbase::{parse, tests::map};
use crate::engine::{Engine, Event, IN_FLIGHT_MAX, Net, Next, Nodes, Pace, Placing};
use crate::protocol::Protocol;
use crate::protocol::aerospike::{Aerospike, Naming};
use crate::protocol::couchbase::Couchbase;

/// A load of some connections, and the servers' ends of them; every second one is the second node's.
struct World<'a, P: Protocol> {
    engine: Engine<P, &'a dyn Fn() -> u64>,
    net: Mem,
    ends: Vec<Client>,
    inputs: Vec<Vec<u8>>,
}

fn world<'a, P: Protocol>(
    plan: crate::engine::Plan,
    protocol: P,
    nodes: Nodes,
    count: usize,
    clock: &'a dyn Fn() -> u64,
) -> World<'a, P> {
    let mut net = Mem::new(Limits::default());
    let (_, port) = net.listen();
    let ends: Vec<Client> = (0..count).map(|_| port.connect()).collect();
    let mut conns = Vec::new();
    while conns.len() < count {
        let mut events = Vec::new();
        net.poll(&mut events);
        for event in events {
            let Event::Opened { conn, .. } = event else { continue };
            conns.push((conn, conns.len() % nodes.count()));
        }
    }
    let inputs = vec![Vec::new(); count];
    World { engine: Engine::new(plan, protocol, nodes, &conns, clock), net, ends, inputs }
}

impl<P: Protocol> World<'_, P> {
    /// The frames that an end has received; `size` tells how long one is.
    fn asked(&mut self, end: usize, size: fn(&[u8]) -> Option<usize>) -> Vec<Vec<u8>> {
        self.ends[end].read(&mut self.inputs[end], usize::MAX);
        let mut frames = Vec::new();
        while let Some(size) = size(&self.inputs[end]).filter(|size| *size <= self.inputs[end].len()) {
            frames.push(self.inputs[end].drain(..size).collect());
        }
        frames
    }
}

fn packet_size(input: &[u8]) -> Option<usize> {
    let size = input.get(8..12)?;
    Some(24 + usize::try_from(u32::from_be_bytes(size.try_into().unwrap())).unwrap())
}

/// The second node owns more than the map at the beginning says. Whoever is asked in vain answers with the map as it is.
#[test]
fn a_buckets_map_is_followed() {
    let time = Cell::new(0);
    let clock = || time.get();
    for pace in [Pace::Closed, Pace::Even(1e6)] {
        time.set(0);
        let mut plan = plan(pace);
        plan.requests_max = 3000;
        plan.workload.operations = "get:9,set:1".parse().unwrap();
        let old = parse(map(&[1, 2], |vbucket| usize::from(vbucket / 512)).as_bytes(), "h").unwrap();
        let nodes = Nodes::of(old, Placing::Couchbase { host: "h".to_owned() }).unwrap();
        let now = map(&[1, 2], |vbucket| usize::from(vbucket >= 200));
        let couchbase = Couchbase::new(&plan.workload);
        let mut world = world(plan, couchbase, nodes, 4, &clock);
        let (mut moved, mut counts) = (0, [0_u64; 2]);
        let mut next = world.engine.turn(&mut world.net);
        while next != Ok(Next::Over) {
            for end in 0..4 {
                for frame in world.asked(end, packet_size) {
                    let named = u16::from_be_bytes([frame[6], frame[7]]);
                    let key = &frame[24 + usize::from(frame[4])..][..usize::from(frame[3])];
                    assert_eq!(named, vbucket(key), "{key:?}");
                    let is_mine = (named < 200) == (end % 2 == 0);
                    let (status, body) = if is_mine { (0, "") } else { (7, &now[..]) };
                    let size = u32::try_from(body.len()).unwrap().to_be_bytes();
                    let reply =
                        [&[0x81, frame[1], 0, 0, 0, 0, 0, status][..], &size, &[0; 12], body.as_bytes()];
                    assert!(world.ends[end].write(&reply.concat()) > 0);
                    *(if is_mine { &mut counts[end % 2] } else { &mut moved }) += 1;
                }
            }
            time.set(time.get() + 50_000);
            next = world.engine.turn(&mut world.net);
        }
        let end = world.engine.end();
        assert_eq!((end.answered, end.last.faults(), end.last.moved), (3000, 0, moved), "{pace:?}");
        assert!(moved > 0 && moved < 1500 && counts.iter().all(|count| *count > 200), "{moved} {counts:?}");
        assert_eq!(end.error_texts, []);
    }
}

fn message_size(input: &[u8]) -> Option<usize> {
    let size: [u8; 8] = input.get(..8)?.try_into().unwrap();
    Some(8 + usize::try_from(u64::from_be_bytes(size) & 0xffff_ffff_ffff).unwrap())
}

/// The reply to a get: a record of one bin.
fn record(value: &[u8]) -> Vec<u8> {
    let size = u8::try_from(value.len()).unwrap();
    let header = [&[22, 0, 0, 0, 0, 0][..], &[0; 12], &[0, 0, 0, 1]].concat();
    let bin = [&[0, 0, 0, 4 + 7 + size, 1, 3, 0, 7][..], b"testbin", value].concat();
    let body = u8::try_from(header.len() + bin.len()).unwrap();
    [&[2, 3, 0, 0, 0, 0, 0, body][..], &header, &bin].concat()
}

/// Each node is asked for its own partitions, one request a connection; values are looked at.
#[test]
fn aerospikes_connections_carry_one_request_each() {
    let time = Cell::new(0);
    let clock = || time.get();
    let owner = |number: u32| usize::from(Naming::new("").slot(number).number() >= 6000);
    for (pace, count) in [(Pace::Closed, 4), (Pace::Even(1e6), 4), (Pace::Even(1e6), 2)] {
        time.set(0);
        let mut plan = plan(pace);
        (plan.requests_max, plan.in_flight_max) = (2000, IN_FLIGHT_MAX);
        plan.workload.key_prefix = String::new();
        plan.workload.value_size = "20".parse().unwrap();
        plan.workload.key_count = 500;
        plan.workload.verify = true;
        let digests: Vec<_> = (0..500).map(|number| Naming::new("").digest(number)).collect();
        let ranges = vec![("a:1".to_owned(), vec![(0, 5999)]), ("b:1".to_owned(), vec![(6000, 16383)])];
        let nodes = Nodes::of(ranges, Placing::Aerospike(Naming::new(""))).unwrap();
        let protocol = Aerospike::new(&plan.workload, aerospike::NAMESPACE_DEFAULT);
        let values = crate::protocol::Values::new(&plan.workload.value_size);
        let mut world = world(plan, protocol, nodes, count, &clock);
        let mut next = world.engine.turn(&mut world.net);
        while next != Ok(Next::Over) {
            for end in 0..count {
                let frames = world.asked(end, message_size);
                assert!(frames.len() <= 1, "one at a time, not {}", frames.len());
                for frame in frames {
                    let digest = &frame[frame.len() - 20..];
                    let number = digests.iter().position(|known| known == digest).expect("a known key");
                    assert_eq!(owner(u32::try_from(number).unwrap()), end % 2);
                    let mut output = net::Output::new();
                    values.put(format!("{number:012}").as_bytes(), 20, &mut output);
                    let value: Vec<u8> = output.pieces().flatten().copied().collect();
                    world.ends[end].write(&record(&value));
                }
            }
            time.set(time.get() + 50_000);
            next = world.engine.turn(&mut world.net);
        }
        let end = world.engine.end();
        assert_eq!((end.answered, end.unanswered, end.last.faults()), (2000, 0, 0), "{pace:?}");
        let response = end.last.response();
        if count == 2 && pace != Pace::Closed {
            // Due within 2 ms, answered one after the other: whoever waited for a connection has waited.
            assert!(response.value_at_quantile(0.5) > 20 * MS, "{}", response.value_at_quantile(0.5));
        }
    }
}
