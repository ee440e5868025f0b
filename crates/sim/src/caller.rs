//! A simulated client: sends what the author makes up, in pieces, reads when it likes, and sometimes goes away.

use std::collections::VecDeque;

use wire::client::{Collector, Reply};

use crate::chance::Chance;
use crate::expect::{Before, Circumstances, Expect, Ledger, shorten};
use crate::linear::Event;
use crate::object::{Object, Seen};
use crate::program::{Author, Request};
use crate::world::{Client, World};

/// What all callers have seen, by thing.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) ledger: Ledger,
    /// Everything that may have happened.
    pub(crate) events: Vec<(Object, Event)>,
    /// Events that a reply said did not happen.
    pub(crate) void: Vec<usize>,
    next_session: u32,
    /// Counts whatever happens, so that of two things one is the earlier.
    pub(crate) clock: u64,
}

/// How a caller behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    /// Commands sent before their replies have come, at most.
    pub(crate) depth_max: usize,
    /// How often it sends or receives only a piece, in thousandths.
    pub(crate) cuts: usize,
    /// How often it does not read, in thousandths.
    pub(crate) sloth: usize,
    /// How often it goes away instead of asking, in thousandths.
    pub(crate) leaves: usize,
    /// Whether the server's own end of connections is to be expected at any time.
    pub(crate) is_cut_off: bool,
    /// How much a connection holds in each direction.
    pub(crate) pipe_size: usize,
}

struct Pending {
    expect: Expect,
    events: Vec<usize>,
    before: Before,
}

/// What the caller is about to do when all its replies are there.
enum Errand {
    Nothing,
    Looking(usize),
    Advancing(usize, i64),
}

pub(crate) struct Caller {
    number: usize,
    manners: Manners,
    line: Option<Line>,
    errand: Errand,
    /// The pair that it writes; a new one after each loss, for what it sent last may come later than what it sends next.
    pair: usize,
    pub(crate) requests_left: usize,
    /// Replies received.
    pub(crate) replies: u64,
    /// Connections lost or left.
    pub(crate) losses: u64,
}

/// One connection.
struct Line {
    client: Client,
    session: u32,
    pending: VecDeque<Pending>,
    collector: Collector,
    has_ended: bool,
}

impl Caller {
    pub(crate) fn new(number: usize, manners: Manners, requests: usize) -> Caller {
        Caller {
            number,
            manners,
            line: None,
            errand: Errand::Nothing,
            pair: number,
            requests_left: requests,
            replies: 0,
            losses: 0,
        }
    }

    /// Whether it has asked everything and has all replies.
    pub(crate) fn is_done(&self) -> bool {
        self.requests_left == 0
            && self.line.as_ref().is_none_or(|line| line.pending.is_empty() && !line.has_ended)
    }

    /// How many replies it waits for.
    pub(crate) fn pending_count(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.pending.len())
    }

    /// The first reply it waits for, for messages.
    pub(crate) fn waits_for(&self) -> Option<String> {
        let line = self.line.as_ref()?;
        let first = line.pending.front()?;
        Some(format!(
            "caller {} (all sent: {}, ended: {}) waits for {} replies, first {:.200?}",
            self.number,
            line.client.is_sent(),
            line.has_ended,
            line.pending.len(),
            first.expect
        ))
    }

    /// From now on it asks nothing more and reads what it gets.
    pub(crate) fn rest(&mut self) {
        self.requests_left = 0;
        self.manners.sloth = 0;
        self.manners.leaves = 0;
        self.manners.cuts = 0;
    }

    /// Goes away for good.
    pub(crate) fn leave(&mut self) {
        self.line = None;
    }

    /// Sends requests at once, whatever its turn; for beginnings and endings.
    pub(crate) fn ask(
        &mut self,
        world: &World,
        chance: &mut Chance,
        history: &mut History,
        all: Vec<Request>,
    ) {
        self.connect(world, chance, history);
        let line = self.line.as_mut().expect("just connected");
        for request in all {
            line.send(request, world, history);
        }
    }

    fn connect(&mut self, world: &World, chance: &mut Chance, history: &mut History) {
        if self.line.is_some() {
            return;
        }
        history.next_session += 1;
        let lane = chance.below(world.lanes.len());
        let size = self.manners.pipe_size;
        let client = world.connect_with(lane, size, size);
        self.errand = Errand::Nothing;
        let mut line = Line {
            client,
            session: history.next_session,
            pending: VecDeque::new(),
            collector: Collector::default(),
            has_ended: false,
        };
        if chance.hits(250) {
            let words = vec![b"HELLO".to_vec(), b"3".to_vec()];
            line.send(Request { words, expect: Expect::Whatever }, world, history);
        }
        self.line = Some(line);
    }

    /// Does what it likes: sends, receives, goes away.
    ///
    /// # Errors
    /// A reply that no server that keeps its promises sends, or the lack of one.
    pub(crate) fn act(
        &mut self,
        world: &World,
        chance: &mut Chance,
        author: &mut Author,
        history: &mut History,
    ) -> Result<(), String> {
        if self.line.is_none() && self.requests_left > 0 {
            self.connect(world, chance, history);
        }
        self.think(world, chance, author, history);
        let Some(line) = &mut self.line else { return Ok(()) };
        let piece =
            |chance: &mut Chance| if chance.hits(self.manners.cuts) { chance.below(200) } else { usize::MAX };
        let size_max = piece(chance);
        line.client.push(size_max);
        if !chance.hits(self.manners.sloth) {
            let size_max = piece(chance);
            line.client.pull(size_max);
        }
        let replies =
            line.receive(world, history).map_err(|text| format!("caller {}: {text}", self.number))?;
        self.replies += replies.len() as u64;
        if let Some((reply, seen)) = replies.last() {
            self.consider(reply, seen);
        }
        self.notice_end()
    }

    fn notice_end(&mut self) -> Result<(), String> {
        let Some(line) = &mut self.line else { return Ok(()) };
        if !line.client.end.at_end() {
            return Ok(());
        }
        let is_expected = self.manners.is_cut_off || line.has_ended && line.pending.is_empty();
        if !is_expected {
            return Err(format!(
                "caller {}: the server closed the connection and owes {} replies",
                self.number,
                line.pending.len()
            ));
        }
        self.lose();
        Ok(())
    }

    fn lose(&mut self) {
        self.line = None;
        self.losses += 1;
        self.pair += 100;
    }

    /// Decides what to send next.
    fn think(&mut self, world: &World, chance: &mut Chance, author: &mut Author, history: &mut History) {
        let Some(line) = &mut self.line else { return };
        if line.has_ended {
            return;
        }
        match self.errand {
            Errand::Advancing(watched, from) => {
                self.errand = Errand::Nothing;
                for request in author.advance(watched, from) {
                    line.send(request, world, history);
                }
            }
            Errand::Looking(_) => return,
            Errand::Nothing => {}
        }
        if self.requests_left == 0 || !line.client.is_sent() {
            return;
        }
        if chance.hits(self.manners.leaves) {
            match chance.below(3) {
                0 => {
                    line.client.end.cut();
                    self.lose();
                }
                1 => self.lose(),
                _ => {
                    line.client.end.end();
                    line.has_ended = true;
                }
            }
            return;
        }
        let depth = chance.between(1, self.manners.depth_max);
        while line.pending.len() < depth && self.requests_left > 0 {
            self.requests_left -= 1;
            match chance.below(12) {
                0 if author.theme.watched_count > 0 => {
                    let watched = chance.below(author.theme.watched_count);
                    line.send(author.watch(watched), world, history);
                    line.send(author.look_at_watched(watched), world, history);
                    self.errand = Errand::Looking(watched);
                    return;
                }
                1 if !author.theme.flushes => {
                    for _ in 0..chance.between(1, 4) {
                        for request in author.write_pair(self.pair) {
                            line.send(request, world, history);
                        }
                    }
                }
                2 if !author.theme.flushes => {
                    let pair = chance.below(3);
                    if chance.hits(400) {
                        line.send(author.lock_pair(chance, pair), world, history);
                    }
                    for _ in 0..chance.between(1, 6) {
                        for request in author.read_pair(pair) {
                            line.send(request, world, history);
                        }
                    }
                }
                _ => {
                    for request in author.next(chance) {
                        line.send(request, world, history);
                    }
                }
            }
        }
    }

    /// Goes on with its errand if the reply that it waits for is there, which is the last one asked for.
    fn consider(&mut self, reply: &Reply, seen: &[Seen]) {
        if let (Errand::Looking(watched), Reply::Array(_), [Seen::Number(number)]) =
            (&self.errand, reply, seen)
            && self.pending_count() == 0
        {
            self.errand = Errand::Advancing(*watched, number.unwrap_or(0));
        }
    }
}

impl Line {
    fn send(&mut self, request: Request, world: &World, history: &mut History) {
        let mut bytes = Vec::new();
        let words: Vec<&[u8]> = request.words.iter().map(Vec::as_slice).collect();
        wire::client::command(&mut bytes, &words);
        self.client.send(&bytes);
        history.clock += 1;
        let events = request.expect.ops().into_iter().map(|(object, op)| {
            let event = Event { session: self.session, op, seen: None, begin: history.clock, end: u64::MAX };
            history.events.push((object, event));
            history.events.len() - 1
        });
        let events = events.collect();
        let before = history.ledger.before(world.now.unix_ms);
        self.pending.push_back(Pending { expect: request.expect, events, before });
    }

    /// Takes the replies that are there.
    fn receive(&mut self, world: &World, history: &mut History) -> Result<Vec<(Reply, Vec<Seen>)>, String> {
        let bytes = std::mem::take(&mut self.client.received);
        let mut at = 0;
        let mut replies = Vec::new();
        loop {
            let (reply, size) =
                self.collector.next(&bytes[at..]).map_err(|error| format!("no reply: {error}"))?;
            at += size;
            let Some(reply) = reply else { break };
            let Some(pending) = self.pending.pop_front() else {
                return Err(format!("a reply that nobody asked for: {}", shorten(&reply)));
            };
            history.clock += 1;
            let circumstances =
                Circumstances { session: self.session, before: pending.before, end_ms: world.now.unix_ms };
            let seen = pending.expect.read(&reply, &mut history.ledger, circumstances)?;
            match &seen {
                None => history.void.extend(&pending.events),
                Some(seen) => {
                    for (&event, seen) in pending.events.iter().zip(seen) {
                        let (_, event) = &mut history.events[event];
                        event.seen = Some(seen.clone());
                        event.end = history.clock;
                    }
                }
            }
            replies.push((reply, seen.unwrap_or_default()));
        }
        self.client.received = bytes[at..].to_vec();
        Ok(replies)
    }
}
