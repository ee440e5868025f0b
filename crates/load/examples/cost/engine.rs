//! What the engine itself costs: GETs of a closed loop over memory, so many at once on each of 50 connections, so that
//! callgrind can count instructions. The difference of two runs, divided by the difference of their counts, is the cost of one
//! request, with its part of the memory net and of a server that writes constants. `bench/instructions.py` does that.
//!
//! `cost engine PIPELINE COUNT`

use std::cell::Cell;

use load::engine::{Engine, IN_FLIGHT_MAX, Next, Nodes, Pace, Plan};
use load::protocol::resp::Resp;
use load::workload::Workload;
use net::mem::{Client, Mem};
use net::{Event, Limits, Net};

const CONNECTIONS: usize = 50;
const REQUEST_SIZE: usize = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n".len();

pub(crate) fn main(pipeline: &str, count: &str) {
    let pipeline: usize = pipeline.parse().expect("PIPELINE is a number");
    let count: u64 = count.parse().expect("COUNT is a number");
    let plan = Plan {
        workload: Workload::default(),
        pace: Pace::Closed,
        ramp_ns: 0,
        in_flight_max: IN_FLIGHT_MAX,
        pipeline,
        requests_max: count,
        duration_ns: u64::MAX,
        seed: 1,
        share: (0, 1),
    };
    let mut net = Mem::new(Limits::default());
    let (_, port) = net.listen();
    let mut ends: Vec<Client> = (0..CONNECTIONS).map(|_| port.connect()).collect();
    let (mut conns, mut events) = (Vec::new(), Vec::new());
    while conns.len() < CONNECTIONS {
        net.poll(&mut events);
        for event in events.drain(..) {
            if let Event::Opened { conn, .. } = event {
                conns.push((conn, 0));
            }
        }
    }
    // A microsecond passes each time somebody looks: the same work on every machine.
    let time_ns = Cell::new(0);
    let clock = || {
        time_ns.set(time_ns.get() + 1000);
        time_ns.get()
    };
    let resp = Resp::new(&plan.workload);
    let mut engine = Engine::new(plan, resp, Nodes::one(), &conns, clock);
    let replies = [b"$100\r\n", &[b'v'; 100][..], b"\r\n"].concat().repeat(pipeline);
    let reply_size = replies.len() / pipeline;
    let mut input = Vec::new();
    while engine.turn(&mut net).expect("the server is right") != Next::Over {
        for end in &mut ends {
            end.read(&mut input, usize::MAX);
            let asked = input.len() / REQUEST_SIZE;
            assert_eq!(end.write(&replies[..asked * reply_size]), asked * reply_size, "replies have room");
            input.clear();
        }
    }
    let end = engine.end();
    assert_eq!(end.answered, count, "every request was answered");
    println!("{count} requests");
}
