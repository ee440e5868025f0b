//! Whole loads in memory: the test is the server, and moves the clock.

mod dialects;

use std::cell::Cell;

use net::Limits;
use net::mem::{Client, Mem};
use wire::client::Collector;
use wire::route::Slot;

use super::*;
use crate::protocol::resp::Resp;
use crate::workload::{Distribution, Sizes};

const MS: u64 = 1_000_000;

/// A load over some connections, and the server's ends of them.
struct Pair<'a> {
    engine: Engine<Resp, &'a dyn Fn() -> u64>,
    net: Mem,
    ends: Vec<Client>,
    /// What each end has received and not answered.
    inputs: Vec<Vec<u8>>,
}

fn plan(pace: Pace) -> Plan {
    Plan {
        workload: Workload::default(),
        pace,
        ramp_ns: 0,
        pipeline: 1,
        in_flight_max: IN_FLIGHT_MAX,
        requests_max: u64::MAX,
        duration_ns: u64::MAX,
        seed: 1,
        share: (0, 1),
    }
}

fn pair<'a>(plan: Plan, nodes: Nodes, count: usize, clock: &'a dyn Fn() -> u64) -> Pair<'a> {
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
    let resp = Resp::new(&plan.workload);
    let inputs = vec![Vec::new(); count];
    Pair { engine: Engine::new(plan, resp, nodes, &conns, clock), net, ends, inputs }
}

impl Pair<'_> {
    fn turn(&mut self) -> Result<Next, Failure> {
        self.engine.turn(&mut self.net)
    }

    /// The requests that an end has received, as words.
    fn asked(&mut self, end: usize) -> Vec<Vec<Vec<u8>>> {
        self.ends[end].read(&mut self.inputs[end], usize::MAX);
        let (mut collector, mut requests, mut at) = (Collector::default(), Vec::new(), 0);
        loop {
            let (reply, size) = collector.next(&self.inputs[end][at..]).unwrap();
            at += size;
            let Some(wire::client::Reply::Array(words)) = reply else { break };
            requests.push(words.iter().map(|word| word.bytes().unwrap().to_vec()).collect());
        }
        self.inputs[end].drain(..at);
        requests
    }

    /// Answers whatever has been asked with what `reply` makes of it; how many there were.
    fn answer(&mut self, mut reply: impl FnMut(&[Vec<u8>]) -> Vec<u8>) -> usize {
        let mut count = 0;
        for end in 0..self.ends.len() {
            for words in self.asked(end) {
                count += 1;
                let reply = reply(&words);
                assert_eq!(self.ends[end].write(&reply), reply.len(), "a reply has room");
            }
        }
        count
    }

    fn seconds(&mut self) -> Vec<Second> {
        std::iter::from_fn(|| self.engine.take_second()).collect()
    }
}

fn ok(_: &[Vec<u8>]) -> Vec<u8> {
    b"$2\r\nok\r\n".to_vec()
}

#[test]
fn a_closed_pace_sends_a_batch_when_the_last_is_answered() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut plan = plan(Pace::Closed);
    (plan.pipeline, plan.requests_max) = (3, 20);
    let mut pair = pair(plan, Nodes::one(), 2, &clock);
    assert_eq!(pair.turn(), Ok(Next::Replies));
    assert_eq!((pair.asked(0).len(), pair.asked(1).len()), (3, 3));
    // Two of three answers: no new batch.
    pair.ends[0].write(b"$2\r\nok\r\n$2\r\nok\r\n");
    time.set(MS);
    pair.turn().unwrap();
    assert_eq!((pair.asked(0).len(), pair.engine.in_flight()), (0, 4));
    pair.ends[0].write(b"$2\r\nok\r\n");
    pair.ends[1].write(b"$2\r\nok\r\n$2\r\nok\r\n$2\r\nok\r\n");
    let mut next = pair.turn();
    while next != Ok(Next::Over) {
        pair.answer(ok);
        next = pair.turn();
    }
    let end = pair.engine.end();
    assert_eq!((end.answered, end.unanswered, end.last.begun, end.last.in_flight_max), (20, 0, 20, 6));
}

/// A second in which nothing is answered: whoever was due then has waited, and it shows. At 1,000 a second and a freeze of 1 s
/// in 10 s, a tenth of all wait, evenly from 0 to 1 s.
#[test]
fn a_freeze_is_felt_by_all_who_were_due_meanwhile() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut plan = plan(Pace::Even(1000.0));
    plan.duration_ns = 10_000 * MS;
    let mut pair = pair(plan, Nodes::one(), 4, &clock);
    let mut next = Ok(Next::Replies);
    let mut all = crate::record::times();
    let mut service = crate::record::times();
    while next != Ok(Next::Over) {
        next = pair.turn();
        if !(4_000..5_000).contains(&(time.get() / MS)) {
            pair.answer(ok);
            pair.turn().unwrap();
        }
        time.set(time.get() + MS / 2);
    }
    for second in pair.seconds() {
        all.add(second.response()).unwrap();
        service.add(&second.operations[0].service).unwrap();
    }
    let last = pair.engine.end().last;
    all.add(last.response()).unwrap();
    assert_eq!(all.len(), 10_000);
    // Q(q) = S - (1 - q) T with S = 1 s, T = 10 s.
    for (quantile, want_ms) in [(0.95, 500), (0.99, 900), (0.999, 990)] {
        let got_ms = all.value_at_quantile(quantile) / MS;
        assert!(got_ms.abs_diff(want_ms) <= 3, "{quantile}: {got_ms} ms for {want_ms}");
    }
    assert!(all.value_at_quantile(0.89) <= MS);
    assert_eq!(service.max() / MS, all.max() / MS, "all of them were sent when they were due");
}

/// What is sent late, since the engine itself was held up, is its own lag, and the user's wait.
#[test]
fn a_late_engine_says_so() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut plan = plan(Pace::Even(1000.0));
    plan.requests_max = 3;
    let mut pair = pair(plan, Nodes::one(), 1, &clock);
    pair.turn().unwrap();
    time.set(12 * MS);
    pair.turn().unwrap();
    assert_eq!(pair.answer(ok), 3);
    time.set(13 * MS);
    assert_eq!(pair.turn(), Ok(Next::Over));
    let last = pair.engine.end().last;
    let near = |got: u64, want_ms: u64| got.abs_diff(want_ms * MS) <= want_ms * MS / 1000;
    assert_eq!(last.send_lag.len(), 3);
    assert!(near(last.send_lag.max(), 11), "{}", last.send_lag.max());
    assert!(near(last.operations[0].service.value_at_quantile(0.5), 1));
    assert!(near(last.response().value_at_quantile(0.3), 11));
}

#[test]
fn values_are_looked_at() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut plan = plan(Pace::Closed);
    plan.workload.verify = true;
    plan.workload.value_size = Sizes::Uniform(12, 30);
    plan.workload.operations = "get:1,set:1".parse().unwrap();
    plan.workload.key_count = 50;
    plan.requests_max = 2000;
    let mut pair = pair(plan, Nodes::one(), 1, &clock);
    let mut data = std::collections::BTreeMap::new();
    let (mut spoilt, mut gets) = (0, 0);
    let mut next = pair.turn();
    while next != Ok(Next::Over) {
        pair.answer(|words| match words {
            [_, key] => match data.get(key) {
                None => b"$-1\r\n".to_vec(),
                Some(value) => {
                    gets += 1;
                    let mut value: Vec<u8> = Vec::clone(value);
                    match gets % 10 {
                        0 => *value.last_mut().unwrap() ^= 1,
                        1 => value.truncate(9),
                        2 => value = data.values().find(|other| **other != value).unwrap().clone(),
                        _ => {}
                    }
                    spoilt += usize::from(gets % 10 < 3);
                    [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat()
                }
            },
            [_, key, value] => {
                data.insert(key.clone(), value.clone());
                b"+OK\r\n".to_vec()
            }
            _ => panic!("{words:?}"),
        });
        next = pair.turn();
    }
    let last = pair.engine.end().last;
    assert!(spoilt > 100);
    assert_eq!(last.operations[0].wrong, u64::try_from(spoilt).unwrap());
    assert_eq!((last.operations[1].wrong, last.operations[1].misses, last.count()), (0, 0, 2000));
    assert!(last.operations[1].count().abs_diff(1000) < 100, "half of them set");
}

#[test]
fn a_cluster_is_followed() {
    let time = Cell::new(0);
    let clock = || time.get();
    let nodes = vec![("a:1".to_owned(), vec![(0, 8191)]), ("b:2".to_owned(), vec![(8192, 16383)])];
    for pace in [Pace::Closed, Pace::Even(1e6)] {
        time.set(0);
        let mut plan = plan(pace);
        plan.requests_max = 3000;
        let mut pair = pair(plan, Nodes::of(nodes.clone(), Placing::Redis).unwrap(), 4, &clock);
        let (mut moved, mut counts) = (0, [0; 2]);
        let mut next = pair.turn();
        while next != Ok(Next::Over) {
            for end in 0..4 {
                for words in pair.asked(end) {
                    // Ends 0 and 2 are node 0's, who has given the slots from 4,000 on away.
                    let slot = Slot::of(&words[1]).number();
                    let is_mine = (slot < 4000) == (end % 2 == 0);
                    let reply = if is_mine {
                        counts[end % 2] += 1;
                        "$2\r\nok\r\n".to_owned()
                    } else {
                        moved += 1;
                        format!("-MOVED {slot} b:2\r\n")
                    };
                    pair.ends[end].write(reply.as_bytes());
                }
            }
            time.set(time.get() + 50_000);
            next = pair.turn();
        }
        let end = pair.engine.end();
        assert_eq!((end.answered, end.last.faults(), end.last.moved), (3000, 0, moved), "{pace:?}");
        assert!(moved > 0 && moved < 3000, "{moved}");
        assert_eq!(end.error_texts, []);
        if pace != Pace::Closed {
            assert!(counts[0] * 16384_u64.abs_diff(4000) > 0 && counts[0] < counts[1], "{counts:?}");
        }
    }
}

/// As a preload must: also when one of the nodes is ten times slower than the other.
#[test]
fn a_sequence_goes_through_all_keys_of_all_nodes() {
    let time = Cell::new(0);
    let clock = || time.get();
    let nodes = vec![("a:1".to_owned(), vec![(0, 8191)]), ("b:2".to_owned(), vec![(8192, 16383)])];
    let mut plan = plan(Pace::Closed);
    plan.workload.key_distribution = Distribution::Sequential;
    plan.workload.key_count = 5000;
    (plan.pipeline, plan.requests_max) = (20, 5000);
    let mut pair = pair(plan, Nodes::of(nodes, Placing::Redis).unwrap(), 4, &clock);
    let mut seen = std::collections::BTreeMap::new();
    let mut next = pair.turn();
    for round in 0_u64.. {
        if next == Ok(Next::Over) {
            break;
        }
        assert!(pair.engine.in_flight() <= 80, "as many as the connections' batches");
        for end in 0..4 {
            if end % 2 == 1 && round % 10 > 0 {
                continue;
            }
            for words in pair.asked(end) {
                assert_eq!(usize::from(Slot::of(&words[1]).number() / 8192), end % 2);
                *seen.entry(words[1].clone()).or_insert(0) += 1;
                pair.ends[end].write(b"$2\r\nok\r\n");
            }
        }
        next = pair.turn();
    }
    assert!(seen.len() == 5000 && seen.values().all(|count| *count == 1), "{}", seen.len());
}

#[test]
fn errors_are_counted_with_their_texts() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut plan = plan(Pace::Closed);
    plan.requests_max = 100;
    let mut pair = pair(plan, Nodes::one(), 2, &clock);
    let mut number = 0;
    let mut next = pair.turn();
    while next != Ok(Next::Over) {
        pair.answer(|_| {
            number += 1;
            match number % 4 {
                0 => b"-ERR no\r\n".to_vec(),
                1 => b"-LOADING wait\r\n".to_vec(),
                2 => b"$-1\r\n".to_vec(),
                _ => b"+OK\r\n".to_vec(),
            }
        });
        next = pair.turn();
    }
    let end = pair.engine.end();
    let operation = &end.last.operations[0];
    assert_eq!((operation.count(), operation.errors, operation.misses), (100, 50, 25));
    let texts: Vec<(&str, u64)> =
        end.error_texts.iter().map(|error| (error.text.as_str(), error.count)).collect();
    assert_eq!(texts, [("LOADING wait", 25), ("ERR no", 25)]);
}

#[test]
fn a_server_that_misbehaves_ends_the_run() {
    let check = |reply: &'static [u8], want: fn(&Failure) -> bool| {
        let time = Cell::new(0);
        let clock = || time.get();
        let mut pair = pair(plan(Pace::Closed), Nodes::one(), 1, &clock);
        pair.turn().unwrap();
        pair.ends[0].write(reply);
        if reply.is_empty() {
            pair.ends[0].end();
        }
        let failure = pair.turn().unwrap_err();
        assert!(want(&failure), "{failure}");
    };
    check(b"HTTP/1.1 400 Bad Request\r\n", |failure| matches!(failure, Failure::Nonsense(_)));
    check(b"+OK\r\n+OK\r\n", |failure| *failure == Failure::Unasked);
    check(b"", |failure| matches!(failure, Failure::Lost(_)));
}

#[test]
fn silence_ends_a_run_and_a_pause_in_the_schedule_does_not() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut pair = pair(plan(Pace::Even(0.02)), Nodes::one(), 1, &clock);
    pair.turn().unwrap();
    assert_eq!(pair.answer(ok), 1);
    pair.turn().unwrap();
    // Nothing is owed for 50 s, then something is.
    time.set(51_000 * MS);
    pair.turn().unwrap();
    assert_eq!(pair.engine.in_flight(), 1);
    time.set(82_000 * MS);
    assert_eq!(pair.turn(), Err(Failure::Silent));
}

/// A server that falls behind the rate without end ends the run, before the load's memory does.
#[test]
fn too_many_in_flight_end_a_run() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut plan = plan(Pace::Even(1000.0));
    plan.in_flight_max = 10;
    let mut pair = pair(plan, Nodes::one(), 2, &clock);
    for _ in 0..4 {
        pair.turn().unwrap();
        assert_eq!(pair.answer(ok), 1);
        time.set(time.get() + MS);
    }
    time.set(20 * MS);
    assert_eq!(pair.turn(), Err(Failure::Behind(10)));
    assert_eq!(pair.engine.in_flight(), 10);
}

/// One is answered, one begun: as many in flight as before, and yet the turn had something to do.
#[test]
fn work_is_seen_by_its_steps() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut pair = pair(plan(Pace::Even(1000.0)), Nodes::one(), 1, &clock);
    pair.turn().unwrap();
    let (steps, in_flight) = (pair.engine.steps(), pair.engine.in_flight());
    pair.turn().unwrap();
    assert_eq!(pair.engine.steps(), steps, "nothing was due");
    pair.answer(ok);
    time.set(MS);
    pair.turn().unwrap();
    assert_eq!((pair.engine.steps(), pair.engine.in_flight()), (steps + 2, in_flight));
}

/// Each answer ends a silence, however many are still owed.
#[test]
fn a_slow_server_is_not_a_silent_one() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut pair = pair(plan(Pace::Closed), Nodes::one(), 2, &clock);
    for _ in 0..4 {
        assert_eq!(pair.turn(), Ok(Next::Replies));
        pair.ends[0].write(b"+OK\r\n");
        time.set(time.get() + 20_000 * MS);
    }
}

/// A reply belongs to the second in which it is taken in, also if it is the first thing that happens there.
#[test]
fn a_reply_is_in_the_second_it_came_in() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut plan = plan(Pace::Closed);
    plan.requests_max = 1;
    let mut pair = pair(plan, Nodes::one(), 1, &clock);
    pair.turn().unwrap();
    pair.answer(ok);
    time.set(1_500 * MS);
    assert_eq!(pair.turn(), Ok(Next::Over));
    assert_eq!(pair.seconds().iter().map(Second::count).collect::<Vec<u64>>(), [0]);
    assert_eq!(pair.engine.end().last.count(), 1);
}

/// At a rate connections take turns, so that none has a queue of its own while others are free.
#[test]
fn connections_take_turns() {
    let time = Cell::new(0);
    let clock = || time.get();
    let mut pair = pair(plan(Pace::Even(1000.0)), Nodes::one(), 4, &clock);
    time.set(39 * MS);
    pair.turn().unwrap();
    assert_eq!([0, 1, 2, 3].map(|end| pair.asked(end).len()), [10; 4]);
}
