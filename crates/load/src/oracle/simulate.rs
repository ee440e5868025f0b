//! A whole load of a made-up server in memory. The clock jumps from one event to the next, so that every time is exact, and the
//! same load is the same to the nanosecond.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use net::mem::{Client, Mem};
use net::{Event, Limits, Net, Wait};

use super::server::{Behaviour, Server};
use crate::engine::{Engine, Failure, Next, Nodes, Pace, Plan, SILENCE_NS_MAX};
use crate::protocol::resp::Resp;
use crate::result::{Run, RunEnd, RunHead, SavedSecond};
use crate::workload::{Sizes, Workload};

/// Room in each direction of a connection, bytes.
const ROOM_SIZE: usize = 1024 * 1024;

/// A load, and whom it meets.
#[derive(Clone, Debug)]
pub struct Load {
    /// What is asked, how fast, for how long.
    pub plan: Plan,
    /// Over so many connections.
    pub connection_count: usize,
    /// The server.
    pub behaviour: Behaviour,
    /// The server reads slowly.
    pub reader: Option<SlowReader>,
    /// From when to when the load itself is held up.
    pub stall_ns: Range<u64>,
}

/// A server that takes bytes slowly, so that its connections fill up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowReader {
    /// Each connection is read once in so long.
    pub every_ns: u64,
    /// So many bytes at most.
    pub size: usize,
    /// So many bytes lie in a connection before the sender is held back.
    pub room_size: usize,
}

/// What came of it.
#[derive(Debug)]
pub struct Simulated {
    /// As a result's file holds it.
    pub run: Run,
    /// Why it ended before its time.
    pub failure: Option<Failure>,
    /// Requests that the server has seen.
    pub asked_count: u64,
}

impl Load {
    /// A load of `GET`s over so many connections, looked at value by value.
    pub fn new(pace: Pace, duration_ns: u64, connection_count: usize, behaviour: Behaviour) -> Load {
        let workload =
            Workload { value_size: Sizes::Fixed(behaviour.value_size), verify: true, ..Workload::default() };
        let (pipeline, requests_max, share) = (1, u64::MAX, (0, 1));
        let plan = Plan {
            workload,
            pace,
            ramp_ns: 0,
            in_flight_max: crate::engine::IN_FLIGHT_MAX,
            pipeline,
            requests_max,
            duration_ns,
            seed: behaviour.seed,
            share,
        };
        Load { plan, connection_count, behaviour, reader: None, stall_ns: 0..0 }
    }

    /// Runs it to its end.
    pub fn simulate(&self) -> Simulated {
        let time = Cell::new(0);
        let clock = || time.get();
        let (mut net, ends, conns) = self.connect();
        let resp = Resp::new(&self.plan.workload);
        let mut engine = Engine::new(self.plan.clone(), resp, Nodes::one(), &conns, clock);
        let mut server = Server::new(self.behaviour.clone());
        let mut read_ns = 0;
        let mut seconds = Vec::new();
        let mut failure = None;
        loop {
            let now_ns = time.get();
            while let Some(due) = server.take(now_ns) {
                assert_eq!(ends[due.connection].write(&due.bytes), due.bytes.len(), "a reply has room");
                if due.is_last {
                    ends[due.connection].end();
                }
            }
            if server.has_had_enough(now_ns) {
                ends.iter().for_each(Client::end);
            }
            let next = if self.stall_ns.contains(&now_ns) {
                Next::At(self.stall_ns.end)
            } else {
                match engine.turn(&mut net) {
                    Ok(next) => next,
                    Err(problem) => {
                        failure = Some(problem);
                        Next::Over
                    }
                }
            };
            seconds.extend(std::iter::from_fn(|| engine.take_second()));
            if next == Next::Over {
                break;
            }
            let mut reader_ns = None;
            match self.reader {
                None => receive(&ends, &mut server, usize::MAX, now_ns),
                Some(reader) => {
                    if now_ns >= read_ns {
                        receive(&ends, &mut server, reader.size, now_ns);
                        read_ns += reader.every_ns;
                    }
                    reader_ns = Some(read_ns);
                }
            }
            let due_ns = if let Next::At(at_ns) = next { Some(at_ns) } else { None };
            let at_ns = due_ns.into_iter().chain(server.next_ns()).chain(reader_ns).min();
            // Nobody has anything to say any more: the load's own patience ends it.
            let at_ns = at_ns.unwrap_or(now_ns + SILENCE_NS_MAX + 1);
            // What a turn has left over is taken up before the time goes on.
            time.set(if net.has_work() { now_ns } else { at_ns.max(now_ns) });
        }
        let end = engine.end();
        seconds.push(end.last);
        let run_end = RunEnd {
            failure: failure.as_ref().map(ToString::to_string),
            elapsed_ns: end.elapsed_ns,
            last_share: end.last_share,
            answered: end.answered,
            unanswered: end.unanswered,
            error_texts: end.error_texts,
            ..RunEnd::default()
        };
        let saved = |second| SavedSecond { run: 0, second, counters: BTreeMap::new() };
        let run =
            Run { head: self.head(), seconds: seconds.into_iter().map(saved).collect(), end: Some(run_end) };
        Simulated { run, failure, asked_count: server.asked_count() }
    }

    fn connect(&self) -> (Mem, Vec<Client>, Vec<(net::ConnId, usize)>) {
        let mut net = Mem::new(Limits::default());
        let (_, port) = net.listen();
        let room_size = self.reader.map_or(ROOM_SIZE, |reader| reader.room_size);
        let ends: Vec<Client> =
            (0..self.connection_count).map(|_| port.connect_with(ROOM_SIZE, room_size)).collect();
        let (mut conns, mut events) = (Vec::new(), Vec::new());
        while conns.len() < ends.len() {
            net.poll(&mut events);
            let opened = events.drain(..).filter_map(|event| match event {
                Event::Opened { conn, .. } => Some((conn, 0)),
                _ => None,
            });
            conns.extend(opened);
        }
        (net, ends, conns)
    }

    fn head(&self) -> RunHead {
        let count = |count: usize| u32::try_from(count).expect("a made-up load is small");
        RunHead {
            address: "memory".to_owned(),
            protocol: "resp2".to_owned(),
            connection_count: count(self.connection_count),
            pipeline: count(self.plan.pipeline),
            thread_count: 1,
            rate: self.plan.pace.rate(),
            arrivals: match self.plan.pace {
                Pace::Closed => "",
                Pace::Even(_) => "even",
                Pace::Poisson(_) => "poisson",
            }
            .to_owned(),
            warm_up_s: Some(0),
            duration_s: crate::float::float(self.plan.duration_ns) / 1e9,
            seed: self.plan.seed,
            workload: self.plan.workload.clone(),
            ..RunHead::default()
        }
    }
}

/// The server reads up to so many bytes of each connection.
fn receive(ends: &[Client], server: &mut Server, size_max: usize, now_ns: u64) {
    for (number, end) in ends.iter().enumerate() {
        let mut bytes = Vec::new();
        if end.read(&mut bytes, size_max) > 0 {
            server.receive(number, &bytes, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::Service;
    use super::*;

    /// Two requests a millisecond apart, each of 3 ms: the second waits for 2 ms.
    #[test]
    fn times_are_exact() {
        let behaviour = Behaviour { service: Service::Fixed(3_000_000), ..Behaviour::default() };
        let mut load = Load::new(Pace::Even(1000.0), 1_000_000_000, 2, behaviour);
        load.plan.requests_max = 2;
        let simulated = load.simulate();
        let end = simulated.run.end.unwrap();
        assert_eq!((end.answered, end.unanswered, end.elapsed_ns), (2, 0, 6_000_000));
        let response = simulated.run.seconds[0].second.response();
        assert!(response.min().abs_diff(3_000_000) < 3_000 && response.max().abs_diff(5_000_000) < 5_000);
        assert_eq!((simulated.failure, simulated.asked_count), (None, 2));
    }

    #[test]
    fn a_load_repeats_itself_to_the_nanosecond() {
        let behaviour =
            Behaviour { service: Service::Exponential(500_000.0), seed: 9, ..Behaviour::default() };
        let load = Load::new(Pace::Poisson(1000.0), 1_500_000_000, 3, behaviour);
        let (one, two) = (load.simulate(), load.simulate());
        assert_eq!(one.run, two.run);
        assert_eq!(one.run.seconds.len(), 2);
        let mut other = load;
        other.plan.seed = 10;
        assert_ne!(other.simulate().run, one.run);
    }
}
