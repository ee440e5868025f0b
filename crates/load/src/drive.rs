//! The load: requests over many connections of one thread, and how long each took.
//!
//! ```text
//! schedule ──due──▶ keys ──number──▶ request bytes ──▶ connection ──▶ server
//!                                      due times, in order │  ◀── replies: now − due, into a histogram
//! ```
//!
//! Requests are a prepared text whose key digits are overwritten; replies are counted, not kept. That is what makes it
//! cost less than the server it asks. In a closed pace a connection waits for a whole batch before it sends the next,
//! as redis-benchmark does; at a rate, requests go out when they are due, however many are unanswered on a connection.
//!
//! At a rate the thread never sleeps, for a sleeper's wake-up would be counted as the server's time: give it a core. The
//! time of day is an argument, so that a test can stop it.

mod keys;
mod record;
mod request;

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use wire::client::Counter;

pub use crate::engine::schedule::Pace;
use crate::engine::schedule::Schedule;
use crate::socket::{self, CONNECTION_EVENTS, Over, Poll};
use keys::Keys;
pub use keys::{Order, Owner};
use record::Record;
pub use record::Report;
pub use request::Command;
use request::Request;

/// Bytes asked for in one `recv`.
const RECEIVE_SIZE: usize = 64 * 1024;
/// Requests in flight over all connections. At this many the server is hopelessly behind the rate, and the run fails.
const IN_FLIGHT_COUNT_MAX: u64 = 4_000_000;
/// Without a reply for so long while some are owed, the run fails.
const SILENCE_NS_MAX: u64 = 30_000_000_000;
/// How long a closed pace sleeps at most before it looks at the time again.
const SLEEP_MS: i32 = 100;

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where to connect; connections are dealt out one after the other.
    pub servers: Vec<SocketAddr>,
    /// Connections over all servers.
    pub connections_count: usize,
    /// Requests that a closed pace sends at once.
    pub pipeline: usize,
    /// What is asked.
    pub command: Command,
    /// Numbers of the keys: `key:` and twelve digits.
    pub keys: Range<u32>,
    /// Lanes of the server, which matters when keys are picked by lane.
    pub lanes: u16,
    /// Whose keys a connection asks for.
    pub owner: Owner,
    /// In which order.
    pub order: Order,
    /// How requests follow one another.
    pub pace: Pace,
    /// Requests after which the run ends.
    pub requests_max: u64,
    /// Nanoseconds after which no request is due any more.
    pub duration_ns: u64,
    /// Requests due in the first so many nanoseconds are made but not recorded.
    pub warm_up_ns: u64,
    /// The same seed asks for the same keys at the same times.
    pub seed: u64,
}

struct Connection {
    socket: OwnedFd,
    /// The lane that serves it; 0 where that does not matter.
    lane: u16,
    /// Bytes to send, and how many of them are sent.
    output: Vec<u8>,
    sent_size: usize,
    /// When each request in flight was due, in order.
    due_ns: VecDeque<u64>,
    counter: Counter,
    /// The start of a reply whose rest has not come.
    rest: Vec<u8>,
}

/// One run under way.
pub struct Drive<C> {
    clock: C,
    setup: Setup,
    poll: Poll,
    connections: Vec<Connection>,
    /// Of each descriptor, its connection.
    by_descriptor: Vec<usize>,
    request: Request,
    keys: Keys,
    schedule: Schedule,
    record: Record,
    began_ns: u64,
    heard_ns: u64,
    /// The connection whose turn it is at a rate.
    turn: usize,
    started: u64,
    input: Vec<u8>,
}

impl<C: Fn() -> u64> Drive<C> {
    /// Connects, asks each connection for its lane if keys are picked by lane, and begins. `clock` tells nanoseconds that
    /// never go back.
    ///
    /// # Errors
    /// No server at an address, keys that do not exist, or a server without lanes when they matter.
    pub fn new(setup: Setup, clock: C) -> io::Result<Drive<C>> {
        let Setup { keys, lanes, owner, order, seed, .. } = setup.clone();
        let keys = Keys::new(keys, lanes, owner, order, seed).map_err(io::Error::other)?;
        let poll = Poll::new(setup.connections_count.max(1))?;
        let (mut connections, mut by_descriptor) = (Vec::new(), Vec::new());
        for server in setup.servers.iter().cycle().take(setup.connections_count) {
            let stream = TcpStream::connect(server)?;
            let lane = if owner == Owner::Any { 0 } else { lane_of(&stream, lanes)? };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let socket = OwnedFd::from(stream);
            let descriptor = usize::try_from(socket.as_raw_fd()).expect("a descriptor is not negative");
            poll.add(socket.as_raw_fd(), CONNECTION_EVENTS)?;
            by_descriptor.resize(by_descriptor.len().max(descriptor + 1), usize::MAX);
            by_descriptor[descriptor] = connections.len();
            connections.push(Connection {
                socket,
                lane,
                output: Vec::new(),
                sent_size: 0,
                due_ns: VecDeque::new(),
                counter: Counter::default(),
                rest: Vec::new(),
            });
        }
        let began_ns = clock();
        let mut drive = Drive {
            schedule: Schedule::new(setup.pace, began_ns, !seed),
            record: Record::new(began_ns.saturating_add(setup.warm_up_ns)),
            request: Request::new(setup.command),
            heard_ns: began_ns,
            turn: 0,
            started: 0,
            input: vec![0; RECEIVE_SIZE],
            clock,
            setup,
            poll,
            connections,
            by_descriptor,
            keys,
            began_ns,
        };
        for index in 0..drive.connections.len() {
            drive.begin_batch(index)?;
        }
        Ok(drive)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// What [`Drive::turn`] fails with.
    pub fn run(mut self) -> io::Result<Report> {
        let timeout_ms = if self.setup.pace == Pace::Closed { SLEEP_MS } else { 0 };
        while !self.turn(timeout_ms)? {}
        Ok(self.report())
    }

    /// Sends what is due and takes in what has come, waiting for it up to `timeout_ms`. True: the run is over.
    ///
    /// # Errors
    /// A server that closes a connection, talks nonsense, says nothing for long, or is hopelessly behind.
    pub fn turn(&mut self, timeout_ms: i32) -> io::Result<bool> {
        self.begin_due()?;
        for at in 0..self.poll.wait(timeout_ms)? {
            let (flags, descriptor) = self.poll.event(at);
            let index = self.by_descriptor[descriptor];
            self.receive(index, flags & socket::HANG_UP != 0)?;
            self.send(index)?;
            self.begin_batch(index)?;
        }
        let now_ns = (self.clock)();
        if self.in_flight() > 0 && now_ns.saturating_sub(self.heard_ns) > SILENCE_NS_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server owes replies and says nothing"));
        }
        Ok(self.in_flight() == 0 && self.is_over(self.schedule.due_ns().unwrap_or(now_ns)))
    }

    /// What came of it.
    pub fn report(self) -> Report {
        let rate = self.setup.pace.rate();
        self.record.report(rate, self.began_ns, self.heard_ns)
    }

    fn in_flight(&self) -> u64 {
        self.started - self.record.answered()
    }

    /// Whether no request begins at that time any more.
    fn is_over(&self, due_ns: u64) -> bool {
        self.started >= self.setup.requests_max
            || due_ns.saturating_sub(self.began_ns) >= self.setup.duration_ns
    }

    /// At a rate: begins what is due by now.
    fn begin_due(&mut self) -> io::Result<()> {
        let Some(mut due_ns) = self.schedule.due_ns() else { return Ok(()) };
        let now_ns = (self.clock)();
        if now_ns > due_ns && self.in_flight() == 0 {
            // Nothing was owed until now.
            self.heard_ns = now_ns;
        }
        while due_ns <= now_ns && !self.is_over(due_ns) {
            if self.in_flight() >= IN_FLIGHT_COUNT_MAX {
                return Err(io::Error::other("the server cannot keep up with this rate: choose a lower one"));
            }
            let index = self.turn;
            self.turn = (index + 1) % self.connections.len();
            self.begin(index, due_ns);
            let sent_ns = (self.clock)();
            self.record.late(due_ns, sent_ns);
            self.send(index)?;
            self.schedule.advance();
            due_ns = self.schedule.due_ns().expect("a rate has times");
        }
        Ok(())
    }

    /// In a closed pace: begins the next batch of a connection whose last one is answered.
    fn begin_batch(&mut self, index: usize) -> io::Result<()> {
        if self.setup.pace != Pace::Closed || !self.connections[index].due_ns.is_empty() {
            return Ok(());
        }
        let now_ns = (self.clock)();
        for _ in 0..self.setup.pipeline {
            if self.is_over(now_ns) {
                break;
            }
            self.begin(index, now_ns);
        }
        self.send(index)
    }

    fn begin(&mut self, index: usize, due_ns: u64) {
        let connection = &mut self.connections[index];
        self.request.put(self.keys.next(connection.lane), &mut connection.output);
        connection.due_ns.push_back(due_ns);
        self.started += 1;
    }

    /// Sends until nothing is left or the socket is full; its edge brings us back.
    fn send(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut self.connections[index];
        while connection.sent_size < connection.output.len() {
            let unsent = &connection.output[connection.sent_size..];
            match socket::send(&connection.socket, unsent).map_err(closed)? {
                Some(size) => connection.sent_size += size,
                None => return Ok(()),
            }
        }
        connection.output.clear();
        connection.sent_size = 0;
        Ok(())
    }

    fn receive(&mut self, index: usize, has_hung_up: bool) -> io::Result<()> {
        let connection = &mut self.connections[index];
        loop {
            let Some(size) = socket::receive(&connection.socket, &mut self.input).map_err(closed)? else {
                return Ok(());
            };
            self.heard_ns = (self.clock)();
            let mut rest = std::mem::take(&mut connection.rest);
            let is_cut = !rest.is_empty();
            if is_cut {
                rest.extend_from_slice(&self.input[..size]);
            }
            let replies = if is_cut { &rest[..] } else { &self.input[..size] };
            let used = count(replies, connection, &mut self.record, self.heard_ns)?;
            connection.rest = replies[used..].to_vec();
            // What fills less than the buffer has emptied the socket (epoll(7), question 9), but for the end.
            if size < self.input.len() && !has_hung_up {
                return Ok(());
            }
        }
    }
}

/// Counts the replies that are whole, and returns how many bytes are dealt with.
fn count(replies: &[u8], connection: &mut Connection, record: &mut Record, now_ns: u64) -> io::Result<usize> {
    let mut at = 0;
    loop {
        let (outcome, size) = connection.counter.next(&replies[at..]).map_err(io::Error::other)?;
        at += size;
        let Some(outcome) = outcome else { return Ok(at) };
        let Some(due_ns) = connection.due_ns.pop_front() else {
            return Err(io::Error::other("the server answers what was not asked"));
        };
        record.answer(outcome, due_ns, now_ns);
    }
}

fn closed(_: Over) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the server closed a connection")
}

/// The lane that serves a connection, as `CLIENT INFO` tells.
fn lane_of(stream: &TcpStream, lanes: u16) -> io::Result<u16> {
    (&*stream).write_all(b"CLIENT INFO\r\n")?;
    let mut reader = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    reader.read_line(&mut head)?;
    reader.read_line(&mut line)?;
    // The line that the server wrote, and the end of the bulk around it.
    reader.read_line(&mut String::new())?;
    line.split_whitespace()
        .find_map(|field| field.strip_prefix("lane=")?.parse().ok())
        .filter(|lane| *lane < lanes)
        .ok_or_else(|| io::Error::other(format!("CLIENT INFO tells no lane below {lanes}: {head}{line}")))
}

#[cfg(test)]
mod tests;
