//! The engine: requests over many connections of one thread, and what came of them.
//!
//! ```text
//! schedule ──intended──▶ keys, sizes ──▶ protocol ──bytes──▶ net ──▶ server
//!                                            in flight, in order │ ◀── replies ──▶ record: a second after the other
//! ```
//!
//! It calls no system: bytes go through a [`Net`], over kernel sockets or in memory, and the time is asked of a clock that
//! the caller brings. So whole loads run in a test, under a clock that the test moves, against servers that it makes up.
//!
//! In a closed pace a connection waits for a whole batch before it sends the next, as redis-benchmark does. At a rate requests
//! go out when they are due, however many are unanswered: a request counts from when it was due, also if the server, or this
//! program, was held up (coordinated omission; Tene, "How NOT to Measure Latency").

mod asking;
mod end;
pub(crate) mod keys;
pub(crate) mod nodes;
pub(crate) mod schedule;

use std::collections::VecDeque;

use net::{ConnId, Event, Need, Net, Stream};

use crate::chance::Chance;
use crate::protocol::{Answer, Part, Protocol, Values};
use crate::record::{Ending, Record, Second};
use crate::workload::{Operation, Workload};
use end::count;
pub use end::{End, ErrorText, Failure};
use keys::{DIGITS_COUNT, Keys, write_digits};
pub use nodes::{Node, Nodes, Placing};
pub use schedule::Pace;
use schedule::Schedule;

/// Requests in flight over all connections of an engine, unless a plan has another bound. At this many the server is hopelessly
/// behind the rate, and the run ends.
pub const IN_FLIGHT_MAX: u64 = 4_000_000;
/// Without a reply for so long while some are owed, the run ends.
pub const SILENCE_NS_MAX: u64 = 30_000_000_000;

/// What one engine is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is asked.
    pub workload: Workload,
    /// How requests follow one another; a rate is this engine's own.
    pub pace: Pace,
    /// Nanoseconds at the front in which a rate grows from nothing.
    pub ramp_ns: u64,
    /// Requests that a closed pace sends at once.
    pub pipeline: usize,
    /// Requests in flight, above which a run at a rate ends.
    pub in_flight_max: u64,
    /// Requests after which the run ends.
    pub requests_max: u64,
    /// Nanoseconds after which no request is due any more.
    pub duration_ns: u64,
    /// The same seed asks for the same keys at the same times.
    pub seed: u64,
    /// Which of how many engines this is.
    pub share: (u32, u32),
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Something is due at this time.
    At(u64),
    /// Replies will come.
    Replies,
    /// The run is over.
    Over,
}

/// A request without a reply.
#[derive(Clone, Copy, Debug)]
struct Asked {
    intended_ns: u64,
    /// Since when it could have gone out: later than it was due where its connection had another one.
    ready_ns: u64,
    /// Set when it is handed to the net.
    sent_ns: u64,
    key: u32,
    size: u32,
    operation: u8,
}

struct Connection<R> {
    conn: ConnId,
    node: usize,
    asked: VecDeque<Asked>,
    /// Requests that wait for the one in front of them, where a connection carries one at a time.
    held: VecDeque<Asked>,
    /// How many of them, at the back, are not handed to the net yet.
    unsent_count: usize,
    reading: R,
    /// Bytes of the value under way that have come, and whether they were right.
    value_size: usize,
    is_wrong: bool,
    /// A closed pace: since when the next batch could begin.
    free_since_ns: u64,
    /// Requests answered here since it was last free; before the first as many as a batch has.
    answered_count: usize,
}

/// One engine at work.
pub struct Engine<P: Protocol, C> {
    clock: C,
    plan: Plan,
    protocol: P,
    values: Values,
    connections: Vec<Connection<P::Reading>>,
    /// By the index of a connection's handle.
    by_conn: Vec<usize>,
    nodes: Nodes,
    schedule: Schedule,
    keys: Keys,
    chance: Chance,
    record: Record,
    events: Vec<Event>,
    /// Connections with requests that are not handed over yet.
    fresh: Vec<usize>,
    /// Connections of a closed pace whose batch is answered.
    free: Vec<usize>,
    /// Requests that another node is asked again for.
    moved: Vec<Asked>,
    /// Connections whose next request is held.
    released: Vec<usize>,
    /// The connection whose turn it is at a rate, of each node.
    turns: Vec<usize>,
    weights_sum: u64,
    began_ns: u64,
    heard_ns: u64,
    started: u64,
    answered: u64,
    error_texts: Vec<ErrorText>,
}

impl<P: Protocol, C: Fn() -> u64> Engine<P, C> {
    /// Over these connections, each to the node of that number. `clock` tells nanoseconds that never go back.
    pub fn new(plan: Plan, protocol: P, nodes: Nodes, conns: &[(ConnId, usize)], clock: C) -> Engine<P, C> {
        assert!(!conns.is_empty(), "a load has connections");
        let began_ns = clock();
        let mut by_conn = Vec::new();
        let connections = conns.iter().enumerate().map(|(index, &(conn, node))| {
            let at = slot_of(conn);
            if by_conn.len() <= at {
                by_conn.resize(at + 1, usize::MAX);
            }
            by_conn[at] = index;
            Connection {
                conn,
                node,
                asked: VecDeque::new(),
                held: VecDeque::new(),
                unsent_count: 0,
                reading: P::Reading::default(),
                value_size: 0,
                is_wrong: false,
                free_since_ns: began_ns,
                answered_count: plan.pipeline,
            }
        });
        let connections: Vec<_> = connections.collect();
        let workload = &plan.workload;
        let operations: Vec<Operation> =
            workload.operations.0.iter().map(|(operation, _)| *operation).collect();
        let (count, prefix) = (workload.key_count, &workload.key_prefix);
        Engine {
            values: Values::new(&workload.value_size),
            keys: Keys::new(count, prefix, workload.key_distribution, plan.share, plan.seed)
                .placed(nodes.placing().clone()),
            schedule: Schedule::new(plan.pace, plan.ramp_ns, began_ns, !plan.seed),
            chance: Chance::new(plan.seed.rotate_left(32)),
            record: Record::new(&operations, began_ns),
            weights_sum: workload.operations.0.iter().map(|(_, weight)| u64::from(*weight)).sum(),
            turns: vec![0; nodes.count()],
            free: (0..connections.len()).collect(),
            events: Vec::new(),
            fresh: Vec::new(),
            moved: Vec::new(),
            released: Vec::new(),
            heard_ns: began_ns,
            started: 0,
            answered: 0,
            error_texts: Vec::new(),
            clock,
            plan,
            protocol,
            connections,
            by_conn,
            nodes,
            began_ns,
        }
    }

    /// Takes in what has come, sends what is due.
    ///
    /// # Errors
    /// Why this can't go on. What was recorded until then stays.
    pub fn turn<N: Net>(&mut self, net: &mut N) -> Result<Next, Failure> {
        let mut events = std::mem::take(&mut self.events);
        net.poll(&mut events);
        for event in events.drain(..) {
            match event {
                Event::Input(conn) => self.receive(conn, net)?,
                Event::Closed { why, .. } => return Err(Failure::Lost(format!("{why:?}"))),
                Event::Opened { .. } | Event::Writable(_) => {}
            }
        }
        self.events = events;
        let now_ns = (self.clock)();
        self.record.advance(now_ns);
        self.ask_again(net);
        self.release(now_ns, net);
        let next = if self.plan.pace == Pace::Closed {
            self.begin_batches(now_ns, net);
            Next::Replies
        } else {
            self.begin_due(now_ns, net)?
        };
        self.hand_over(net);
        if self.in_flight() > 0 {
            if now_ns.saturating_sub(self.heard_ns) > SILENCE_NS_MAX {
                return Err(Failure::Silent);
            }
        } else if self.is_over(self.schedule.due_ns().unwrap_or(now_ns)) {
            return Ok(Next::Over);
        }
        Ok(next)
    }

    /// A second that is over. To be cleared and given back.
    pub fn take_second(&mut self) -> Option<Second> {
        self.record.take()
    }

    /// Gives a second back that was looked at.
    pub fn give_back(&mut self, second: Second) {
        self.record.give_back(second);
    }

    /// Requests begun and replies taken in so far: more than before behind a turn that had something to do.
    pub fn steps(&self) -> u64 {
        self.started + self.answered
    }

    /// Requests without a reply.
    pub fn in_flight(&self) -> u64 {
        self.started - self.answered
    }

    /// What is left when the run is over, or cut: the last second with what share of it there is, requests that were never
    /// answered, and texts of errors.
    pub fn end(self) -> End {
        let in_flight = self.in_flight();
        let now_ns = (self.clock)();
        let began_ns = self.record.began_ns();
        let (last, last_share) = self.record.last(now_ns);
        End {
            last,
            last_share,
            unanswered: in_flight,
            answered: self.answered,
            elapsed_ns: self.heard_ns.saturating_sub(began_ns),
            error_texts: self.error_texts,
        }
    }

    fn receive<N: Net>(&mut self, conn: ConnId, net: &mut N) -> Result<(), Failure> {
        let index = self.by_conn[slot_of(conn)];
        let Some(Stream { input, end, .. }) = net.stream(conn, Need::More) else { return Ok(()) };
        let now_ns = (self.clock)();
        self.record.advance(now_ns);
        self.heard_ns = now_ns;
        let used = self.read(index, input, now_ns)?;
        net.consume(conn, used);
        if end {
            return Err(Failure::Lost("it ended the connection".to_owned()));
        }
        let connection = &mut self.connections[index];
        if connection.asked.is_empty() {
            if !connection.held.is_empty() {
                self.released.push(index);
            } else if self.plan.pace == Pace::Closed {
                connection.free_since_ns = now_ns;
                self.free.push(index);
            }
        }
        Ok(())
    }

    /// Takes in the answers that are whole, and returns how many bytes are dealt with.
    fn read(&mut self, index: usize, input: &[u8], now_ns: u64) -> Result<usize, Failure> {
        let connection = &mut self.connections[index];
        let verifies = self.plan.workload.verify;
        let mut at = 0;
        loop {
            let (value_size, is_wrong) = (&mut connection.value_size, &mut connection.is_wrong);
            let (values, asked, input) = (&self.values, &connection.asked, &input[at..]);
            let mut verify = |bytes: &[u8]| {
                let mut digits = [0; DIGITS_COUNT];
                write_digits(&mut digits, asked.front().map_or(0, |asked| asked.key));
                *is_wrong |= !values.matches(&digits, *value_size, bytes);
                *value_size += bytes.len();
            };
            let mut moved = false;
            let (answer, size) = if let Some((bytes, size)) = P::whole_value(&mut connection.reading, input) {
                if verifies {
                    verify(bytes);
                }
                (Some(Answer::Value), size)
            } else {
                let (texts, nodes) = (&mut self.error_texts, &mut self.nodes);
                let mut see = |part: Part<'_>| match part {
                    Part::Error(text) => {
                        moved = nodes.heed(text);
                        if !moved {
                            count(texts, text);
                        }
                    }
                    Part::Bytes(bytes) if verifies => verify(bytes),
                    Part::Bytes(_) => {}
                };
                P::next(&mut connection.reading, input, &mut see).map_err(Failure::Nonsense)?
            };
            at += size;
            let answer = match answer {
                None => return Ok(at),
                Some(Answer::Aside) => continue,
                Some(answer) => answer,
            };
            let asked = connection.asked.pop_front().ok_or(Failure::Unasked)?;
            let operation = usize::from(asked.operation);
            let (size, was_wrong) =
                (std::mem::take(&mut connection.value_size), std::mem::take(&mut connection.is_wrong));
            if moved {
                self.record.moved();
                self.moved.push(asked);
                continue;
            }
            let looked_at = verifies && self.plan.workload.operations.0[operation].0 == Operation::Get;
            let ending = match answer {
                Answer::Error => Ending::Error,
                Answer::Miss => Ending::Miss,
                _ if looked_at && (was_wrong || !self.plan.workload.value_size.has(size)) => Ending::Wrong,
                _ => Ending::Value,
            };
            self.answered += 1;
            connection.answered_count += 1;
            self.record.received(operation, ending, asked.intended_ns, asked.sent_ns, now_ns);
        }
    }
}

fn slot_of(conn: ConnId) -> usize {
    usize::try_from(conn.index()).expect("32 bits")
}

#[cfg(test)]
mod tests;
