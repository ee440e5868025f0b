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

pub(crate) mod keys;
pub(crate) mod nodes;
pub(crate) mod schedule;

use std::collections::VecDeque;
use std::fmt;

use net::{ConnId, Event, Need, Net, Output, Stream};

use crate::chance::Chance;
use crate::protocol::{Answer, Part, Protocol, Values};
use crate::record::{Ending, Record, Second};
use crate::workload::{Distribution, Operation, Sizes, Workload};
use keys::{DIGITS_COUNT, Keys, write_digits};
pub use nodes::{Node, Nodes, Placing};
pub use schedule::Pace;
use schedule::Schedule;

/// Requests in flight over all connections of an engine, unless a plan has another bound. At this many the server is hopelessly
/// behind the rate, and the run ends.
pub const IN_FLIGHT_MAX: u64 = 4_000_000;
/// Without a reply for so long while some are owed, the run ends.
pub const SILENCE_NS_MAX: u64 = 30_000_000_000;
/// Requests begun in one turn at a rate: behind them replies are taken in, however late the schedule is.
const BEGUN_PER_TURN: usize = 256;
/// Different texts of errors that are kept.
const ERROR_TEXTS_MAX: usize = 8;
/// Bytes of such a text.
const ERROR_TEXT_SIZE_MAX: usize = 200;

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

/// Why a run ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server closed a connection, with what the system says.
    Lost(String),
    /// Bytes that are no reply.
    Nonsense(String),
    /// A reply that answers nothing.
    Unasked,
    /// Replies are owed, and nothing comes.
    Silent,
    /// So many are owed, which is too many.
    Behind(u64),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Lost(why) => write!(f, "the server closed a connection ({why}): look into its log"),
            Failure::Nonsense(why) => write!(f, "the server does not speak this protocol: {why}"),
            Failure::Unasked => f.write_str("the server answers what was not asked"),
            Failure::Silent => {
                write!(
                    f,
                    "the server owes replies and has said nothing for {} s",
                    SILENCE_NS_MAX / 1_000_000_000
                )
            }
            Failure::Behind(count) => write!(
                f,
                "{count} requests are unanswered: the server cannot keep up with this rate; choose a lower one"
            ),
        }
    }
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

/// An error's text, and how often it came.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ErrorText {
    /// Its beginning.
    pub text: String,
    /// Replies with it.
    pub count: u64,
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

    // ---- requests out

    /// Whether no request begins at that time any more.
    fn is_over(&self, due_ns: u64) -> bool {
        self.started >= self.plan.requests_max
            || due_ns.saturating_sub(self.began_ns) >= self.plan.duration_ns
    }

    /// At a rate: begins what is due by now.
    fn begin_due<N: Net>(&mut self, now_ns: u64, net: &mut N) -> Result<Next, Failure> {
        let mut due_ns = self.schedule.due_ns().expect("a rate has times");
        if now_ns > due_ns && self.in_flight() == 0 {
            // Nothing was owed until now.
            self.heard_ns = now_ns;
        }
        for _ in 0..BEGUN_PER_TURN {
            if self.is_over(due_ns) {
                return Ok(Next::Replies);
            }
            if due_ns > now_ns {
                break;
            }
            if self.in_flight() >= self.plan.in_flight_max {
                return Err(Failure::Behind(self.plan.in_flight_max));
            }
            let key = self.keys.next();
            let index = self.connection_for(key);
            // A connection that is gone is told of in the next poll, and ends the run.
            let Some(output) = net.output(self.connections[index].conn) else { return Ok(Next::Replies) };
            self.begin(index, key, due_ns, output);
            self.schedule.advance();
            due_ns = self.schedule.due_ns().expect("a rate has times");
        }
        Ok(Next::At(due_ns))
    }

    /// One to the node that owns the key. The connections of a node take turns; where each carries one request, those that have
    /// none come first.
    fn connection_for(&mut self, key: u32) -> usize {
        let node = if self.nodes.count() == 1 { 0 } else { self.nodes.owner(self.keys.slot(key)) };
        let count = self.connections.len();
        let mut index = self.turns[node];
        while self.connections[index].node != node {
            index = (index + 1) % count;
        }
        if P::IS_SERIAL {
            let is_idle =
                |at: &usize| self.connections[*at].node == node && self.connections[*at].asked.is_empty();
            index = (index..count).chain(0..index).find(is_idle).unwrap_or(index);
        }
        self.turns[node] = (index + 1) % count;
        index
    }

    /// In a closed pace: the next batch of each connection whose last one is answered.
    fn begin_batches<N: Net>(&mut self, now_ns: u64, net: &mut N) {
        let is_one = self.nodes.count() == 1;
        // Every key in its turn, whoever owns it: else a node that is quicker would begin anew before the others are through.
        let is_sequence = self.plan.workload.key_distribution == Distribution::Sequential;
        let mut free = std::mem::take(&mut self.free);
        for index in free.drain(..) {
            let Connection { conn, node, free_since_ns, answered_count, .. } = self.connections[index];
            self.connections[index].answered_count = 0;
            if is_sequence && !is_one {
                for _ in 0..answered_count {
                    if self.is_over(now_ns) {
                        break;
                    }
                    let key = self.keys.next();
                    let index = self.connection_for(key);
                    let Some(output) = net.output(self.connections[index].conn) else { break };
                    self.begin(index, key, free_since_ns, output);
                }
                continue;
            }
            let Some(output) = net.output(conn) else { continue };
            for _ in 0..self.plan.pipeline {
                if self.is_over(now_ns) {
                    break;
                }
                let nodes = &self.nodes;
                let key =
                    if is_one { self.keys.next() } else { self.keys.next_of(node, |slot| nodes.owner(slot)) };
                self.begin(index, key, free_since_ns, output);
            }
        }
        self.free = free;
    }

    /// Requests whose key has moved, to whom it belongs now.
    fn ask_again<N: Net>(&mut self, net: &mut N) {
        for asked in std::mem::take(&mut self.moved) {
            let index = self.connection_for(asked.key);
            let Some(output) = net.output(self.connections[index].conn) else { continue };
            self.put(index, asked, output);
        }
    }

    /// Requests whose connection is free now.
    fn release<N: Net>(&mut self, now_ns: u64, net: &mut N) {
        while let Some(index) = self.released.pop() {
            let connection = &mut self.connections[index];
            if !connection.asked.is_empty() {
                continue;
            }
            let Some(asked) = connection.held.pop_front() else { continue };
            let Some(output) = net.output(connection.conn) else { continue };
            self.put(index, Asked { ready_ns: now_ns, ..asked }, output);
        }
    }

    #[inline]
    fn begin(&mut self, index: usize, key: u32, intended_ns: u64, output: &mut Output) {
        let operations = &self.plan.workload.operations.0;
        let mut operation = 0;
        if operations.len() > 1 {
            let mut at = self.chance.below(self.weights_sum);
            while at >= u64::from(operations[operation].1) {
                at -= u64::from(operations[operation].1);
                operation += 1;
            }
        }
        let size = match &self.plan.workload.value_size {
            Sizes::Fixed(size) => *size,
            sizes if operations[operation].0 == Operation::Set => draw(sizes, &mut self.chance),
            _ => 0,
        };
        let asked = Asked {
            intended_ns,
            ready_ns: intended_ns,
            sent_ns: intended_ns,
            key,
            size: u32::try_from(size).expect("values are at most 512 MB"),
            operation: u8::try_from(operation).expect("a mix has few operations"),
        };
        self.started += 1;
        self.record.begun(self.started - self.answered);
        self.put(index, asked, output);
    }

    #[inline]
    fn put(&mut self, index: usize, asked: Asked, output: &mut Output) {
        let connection = &mut self.connections[index];
        if P::IS_SERIAL && !connection.asked.is_empty() {
            return connection.held.push_back(asked);
        }
        let mut first = Some(asked.key);
        let keys = &mut self.keys;
        let mut key = || first.take().unwrap_or_else(|| keys.next());
        let size = usize::try_from(asked.size).expect("32 bits");
        self.protocol.put(usize::from(asked.operation), &mut key, size, output);
        connection.asked.push_back(asked);
        if connection.unsent_count == 0 {
            self.fresh.push(index);
        }
        connection.unsent_count += 1;
    }

    /// Everything begun goes out. One look at the clock for all of it: that is when the net gets it, behind which the system
    /// sends connection by connection.
    fn hand_over<N: Net>(&mut self, net: &mut N) {
        if !self.fresh.is_empty() {
            let sent_ns = (self.clock)();
            for index in self.fresh.drain(..) {
                let connection = &mut self.connections[index];
                let from = connection.asked.len() - connection.unsent_count;
                connection.unsent_count = 0;
                for asked in connection.asked.range_mut(from..) {
                    asked.sent_ns = sent_ns;
                    self.record.sent(sent_ns.saturating_sub(asked.ready_ns));
                }
            }
        }
        net.flush();
    }

    // ---- replies in

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

/// What is left of an engine's run.
#[derive(Debug)]
pub struct End {
    /// The second that the end cut.
    pub last: Second,
    /// What share of a second it is.
    pub last_share: f64,
    /// Requests that were never answered.
    pub unanswered: u64,
    /// Those that were.
    pub answered: u64,
    /// From the beginning to the last reply.
    pub elapsed_ns: u64,
    /// What errors said.
    pub error_texts: Vec<ErrorText>,
}

fn slot_of(conn: ConnId) -> usize {
    usize::try_from(conn.index()).expect("32 bits")
}

fn draw(sizes: &Sizes, chance: &mut Chance) -> usize {
    match sizes {
        Sizes::Fixed(size) => *size,
        Sizes::Uniform(min, max) => {
            let span = u64::try_from(max - min).expect("a size fits 64 bits") + 1;
            min + usize::try_from(chance.below(span)).expect("a part of a size")
        }
        Sizes::List(list) => {
            let mut at = chance.below(list.iter().map(|(_, weight)| u64::from(*weight)).sum());
            for (size, weight) in list {
                if at < u64::from(*weight) {
                    return *size;
                }
                at -= u64::from(*weight);
            }
            unreachable!("chance stays below the sum of the weights")
        }
    }
}

#[cold]
fn count(texts: &mut Vec<ErrorText>, text: &[u8]) {
    let text = String::from_utf8_lossy(&text[..text.len().min(ERROR_TEXT_SIZE_MAX)]).into_owned();
    if let Some(known) = texts.iter_mut().find(|known| known.text == text) {
        known.count += 1;
    } else if texts.len() < ERROR_TEXTS_MAX {
        texts.push(ErrorText { text, count: 1 });
    }
}

#[cfg(test)]
mod tests;
