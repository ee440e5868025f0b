//! [`Net`] over a kernel that tells when a socket is ready, once for each change: Linux' epoll, or memory.
//!
//! Everything that can be decided without a system call is here: who is told of input and when, where received bytes
//! lie, what is sent in which turn, how a connection ends. A [`Kernel`] only does what it is told.
//!
//! Readiness is remembered instead of probed. A receive that brings less than was asked for has emptied the socket,
//! and a send that takes less than was offered has filled it (epoll(7), "Do I need to continuously read/write…"), so
//! the next call waits for the kernel's next signal and no call is made to hear `EAGAIN`.
//!
//! How a connection's input comes to its lane:
//! ```text
//!             signal: readable                poll                      stream(More)
//!   Quiet ─────────────────────▶ Queued ───────────────▶ Told ─────────────────────────────┐
//!     ▲ └─ in a poll, with nobody before it ─────────────▶                                 │
//!     │                            ▲                                                       │
//!     │                            └──────── the receive was full: there may be more ──────┤
//!     └───────────────────────────────────── the socket is empty ──────────────────────────┘
//! ```
//! How it ends:
//! ```text
//!   Open ── close(AfterFlush) ──▶ Closing ── all sent ──▶ Lingering ── the client ends, or a bound ──▶ gone
//!    └───── close(Now), reset ───────┴──────────────────────────────────────────────────────────────────┘
//! ```
//! [`Event::Closed`] leaves on the way into Lingering or gone. Lingering exists because Linux answers close() with a
//! reset if received bytes lie unread, and a reset makes the client throw away the reply it has not read yet
//! (RFC 1122, 4.2.2.13). So the sending side is shut first and what still arrives is thrown away, within bounds.

use std::collections::VecDeque;
use std::hint::cold_path;
use std::io::IoSlice;

use crate::input::{Held, Rest, Rests, Shared};
use crate::kernel::{Accept, Kernel, Signal, Transfer, Whose};
use crate::output::Pool;
use crate::slots::Slots;
use crate::{
    Address, Bell, Close, ConnId, Counters, Event, Handover, INPUT_MAX, Limits, ListenerId, Need, Net,
    Output, Stream, Wait, Why,
};

/// Connections that linger at most; the oldest is cut off to make room.
const LINGERING_COUNT_MAX: usize = 256;

/// Bytes that are thrown away for one lingering connection before it is cut off.
const LINGERING_SIZE_MAX: usize = 1024 * 1024;

/// Bytes that a turn throws away of what lingering connections send; those behind have their turn in the next.
const THROWN_PER_TURN: usize = 128 * 1024;

/// Pieces of output that go with one send; more wait for the next turn.
const SLICES_MAX: usize = 64;

/// Whether the lane knows of a connection's input; see the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Quiet,
    Queued,
    Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Closing,
    Lingering { thrown_size: usize },
}

/// Its fields lie in this order: what every request looks at stands together, in three of its four cache lines.
#[derive(Debug)]
#[repr(C)]
struct Conn<S> {
    socket: S,
    input: Input,
    /// It stands in `queue`, if only as a leftover of an earlier announcement.
    in_queue: bool,
    /// It stands in `dirty`.
    in_dirty: bool,
    /// The socket may hold something to receive.
    readable: bool,
    /// The socket took less than was offered; nothing is sent until it signals room.
    full: bool,
    /// The client has shut down its sending side; what it sent before may still be in the socket.
    ending: bool,
    /// All that the client ever sent has been received.
    ended: bool,
    /// Unsent output was above the mark when a flush ended.
    above_mark: bool,
    state: State,
    /// The turn of the last receive; zero before the first.
    received_turn: u64,
    /// What it has received and its lane not consumed: in the shared buffer, or in its own, never in both.
    held: Held,
    rest: Rest,
    output: Output,
    listener: ListenerId,
    peer: Address,
    local: Address,
}

impl<S> Conn<S> {
    /// A flush would do something for it.
    fn is_due(&self) -> bool {
        if self.output.is_empty() { self.state == State::Closing } else { !self.full }
    }

    fn unconsumed_size(&self) -> usize {
        self.held.len() + self.rest.len()
    }
}

/// What is left of a poll's limits.
struct Left {
    accepts: usize,
    clients: usize,
}

/// A [`Net`] over a [`Kernel`].
#[derive(Debug)]
pub struct Readiness<K: Kernel> {
    pub(crate) kernel: K,
    limits: Limits,
    conns: Slots<Conn<K::Socket>>,
    shared: Shared,
    rests: Rests,
    blocks: Pool,
    /// Connections whose input the lane has not been told of, in the order in which it came.
    queue: VecDeque<ConnId>,
    /// Connections whose output the lane had in hand, or that still have some.
    dirty: Vec<ConnId>,
    /// Those for which this flush has sent too much before; they are first in the next.
    late: Vec<ConnId>,
    /// Events other than input that the next poll tells.
    news: Vec<Event>,
    signals: Vec<Signal>,
    gathered: bool,
    lingering: VecDeque<ConnId>,
    turn: u64,
    counters: Counters,
}

impl<K: Kernel> Readiness<K> {
    pub(crate) fn over(kernel: K, limits: Limits) -> Readiness<K> {
        limits.check();
        Readiness {
            kernel,
            limits,
            conns: Slots::new(),
            shared: Shared::new(),
            rests: Rests::default(),
            blocks: Pool::default(),
            queue: VecDeque::new(),
            dirty: Vec::new(),
            late: Vec::new(),
            news: Vec::new(),
            signals: Vec::new(),
            gathered: false,
            lingering: VecDeque::new(),
            turn: 0,
            counters: Counters::default(),
        }
    }

    fn gather(&mut self, timeout_ns: Option<u64>) {
        // One place for each listener and bell beside the clients.
        let count_max = self.limits.clients_per_turn + 16;
        self.kernel.gather(timeout_ns, count_max, &mut self.signals);
        self.counters.waits += 1;
    }

    /// What a signal means. Input is told at once where nobody waits to be told of it and there is room for it.
    #[inline(always)]
    fn heed(&mut self, signal: Signal, left: &mut Left, events: &mut Vec<Event>) {
        let id = match signal.whose {
            Whose::Listener(listener) => return self.accept(listener, &mut left.accepts),
            Whose::Conn(id) => id,
        };
        let Some(conn) = self.conns.get_mut(id) else { return };
        if signal.broken {
            cold_path();
            let why = self.kernel.verdict(&conn.socket);
            return self.end(id, why);
        }
        conn.ending |= signal.ending;
        if signal.writable && conn.full {
            cold_path();
            conn.full = false;
            self.kernel.had_room(&conn.socket, id);
            soil(conn, id, &mut self.dirty);
        }
        if signal.readable {
            let is_news = conn.input == Input::Quiet && conn.state == State::Open;
            if is_news && self.queue.is_empty() && left.clients > 0 {
                left.clients -= 1;
                conn.readable = true;
                conn.input = Input::Told;
                events.push(Event::Input(id));
            } else {
                announce(conn, id, &mut self.queue);
            }
        }
    }

    /// In most turns there are none.
    #[inline(always)]
    fn tell_news(&mut self, events: &mut Vec<Event>) {
        if !self.news.is_empty() {
            cold_path();
            events.append(&mut self.news);
        }
    }

    #[cold]
    fn accept(&mut self, listener: ListenerId, accepts_left: &mut usize) {
        while *accepts_left > 0 {
            *accepts_left -= 1;
            self.counters.accepts += 1;
            match self.kernel.accept(listener) {
                Accept::Client(socket, peer, local) => {
                    if let Some(conn) = self.admit(socket, listener, peer, local) {
                        self.news.push(Event::Opened { conn, listener, peer, local });
                    }
                }
                Accept::Lost => {}
                Accept::Refused => self.counters.refused += 1,
                Accept::Nobody => return,
                Accept::Rest => {
                    self.counters.rests += 1;
                    return;
                }
            }
        }
    }

    /// `None`: the system would not, and the client is turned away.
    fn admit(
        &mut self,
        socket: K::Socket,
        listener: ListenerId,
        peer: Address,
        local: Address,
    ) -> Option<ConnId> {
        let id = self.conns.insert(Conn {
            socket,
            state: State::Open,
            input: Input::Quiet,
            in_queue: false,
            in_dirty: false,
            readable: false,
            full: false,
            ending: false,
            ended: false,
            above_mark: false,
            received_turn: 0,
            held: Held::default(),
            rest: Rest::default(),
            output: Output::new(),
            listener,
            peer,
            local,
        });
        let conn = self.conns.get(id).expect("it was just inserted");
        if self.kernel.register(&conn.socket, id).is_err() {
            let conn = self.conns.remove(id).expect("it was just inserted");
            self.kernel.release(conn.socket);
            self.counters.refused += 1;
            return None;
        }
        self.counters.opened += 1;
        Some(id)
    }

    /// Receives once if there may be something, behind what is already held; how many bytes. `None`: the connection is not open, or
    /// no longer.
    #[inline(always)]
    fn receive(&mut self, id: ConnId) -> Option<usize> {
        let mut conn = open(&mut self.conns, id)?;
        if !conn.readable || conn.received_turn == self.turn {
            return Some(0);
        }
        if conn.unconsumed_size() >= INPUT_MAX {
            cold_path();
            // The lane has asked and got nothing new: it is told again when it has made room.
            conn.input = Input::Quiet;
            return Some(0);
        }
        if self.shared.is_in_the_way(self.turn) {
            self.move_out();
            conn = self.conns.get_mut(id).expect("it was just seen");
        }
        let size_max = INPUT_MAX - conn.rest.len();
        conn.received_turn = self.turn;
        self.counters.receives += 1;
        let mut received = 0;
        match self.kernel.receive(&conn.socket, self.shared.room(size_max)) {
            Transfer::Bytes(size) => {
                self.counters.bytes_in += u64::try_from(size).expect("a size fits 64 bits");
                received = size;
                conn.readable = size == size_max;
                conn.ended |= conn.ending && !conn.readable;
                if conn.rest.is_empty() {
                    conn.held = self.shared.keep(id, size, self.turn);
                } else {
                    cold_path();
                    conn.rest.append(self.shared.received(size), &mut self.rests);
                }
            }
            Transfer::Nothing => {
                cold_path();
                self.counters.receives_empty += 1;
                conn.readable = false;
            }
            Transfer::End => {
                cold_path();
                self.counters.receives_empty += 1;
                conn.readable = false;
                conn.ended = true;
            }
            Transfer::Broken(why) => {
                self.end(id, why);
                return None;
            }
        }
        conn.input = Input::Quiet;
        if conn.readable {
            cold_path();
            announce(conn, id, &mut self.queue);
        }
        Some(received)
    }

    /// Moves everybody out of the shared buffer.
    #[cold]
    fn move_out(&mut self) {
        let owners = self.shared.take_owners();
        for id in &owners {
            let Some(conn) = self.conns.get_mut(*id) else { continue };
            if !conn.held.is_empty() {
                conn.rest.append(self.shared.of(conn.held), &mut self.rests);
                self.shared.forget(&mut conn.held);
            }
        }
        self.shared.give_back(owners);
    }

    /// Sends once if there is something to send and room for it, and no others have to be waited for.
    fn send(&mut self, id: ConnId, left: &mut usize) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.in_dirty = false;
        let mut is_late = false;
        if conn.output.is_empty() || conn.full {
            // There is nothing to be done.
        } else if !self.limits.may_send(conn.output.len(), left) {
            cold_path();
            is_late = true;
        } else {
            let (sent, offered_size) = hand_over(&mut self.kernel, conn, self.limits.send_size);
            self.counters.sends += 1;
            let size = match sent {
                Transfer::Bytes(size) => size,
                Transfer::Nothing => 0,
                Transfer::End => unreachable!("a send does not end"),
                Transfer::Broken(why) => return self.end(id, why),
            };
            self.counters.bytes_out += u64::try_from(size).expect("a size fits 64 bits");
            conn.output.advance(size, |block| self.blocks.put(block));
            if size < offered_size {
                cold_path();
                self.counters.sends_short += 1;
                conn.full = true;
                self.kernel.want_room(&conn.socket, id);
            }
        }
        let unsent_size = conn.output.len();
        let was_above = std::mem::replace(&mut conn.above_mark, self.limits.output_mark < unsent_size);
        if was_above && !conn.above_mark && conn.state == State::Open {
            cold_path();
            self.news.push(Event::Writable(id));
        }
        if unsent_size == 0 {
            conn.output.reclaim(&mut self.blocks);
            if conn.state == State::Closing {
                self.linger(id);
            }
        } else {
            cold_path();
            conn.output.report(&mut self.blocks);
            if !conn.full {
                soil(conn, id, if is_late { &mut self.late } else { &mut self.dirty });
            }
        }
    }

    /// Everything is sent. A client that has not ended yet is given the chance to read it.
    #[cold]
    fn linger(&mut self, id: ConnId) {
        let conn = self.conns.get_mut(id).expect("the caller has just seen it");
        if conn.ended {
            return self.end(id, Why::Asked);
        }
        conn.state = State::Lingering { thrown_size: 0 };
        self.kernel.finish(&conn.socket);
        conn.input = Input::Quiet;
        if conn.readable {
            announce(conn, id, &mut self.queue);
        }
        self.counters.closed += 1;
        self.news.push(Event::Closed { conn: id, why: Why::Asked });
        self.lingering.push_back(id);
        while LINGERING_COUNT_MAX < self.lingering.len() {
            let oldest = self.lingering.pop_front().expect("it is not empty");
            self.end(oldest, Why::Asked);
        }
    }

    /// Throws away what a lingering client still sends, one receive a turn; how many bytes.
    #[cold]
    fn drain(&mut self, id: ConnId, thrown_size: usize) -> usize {
        if self.shared.is_in_the_way(self.turn) {
            self.move_out();
        }
        let conn = self.conns.get_mut(id).expect("the caller has just seen it");
        self.counters.receives += 1;
        let received = self.kernel.receive(&conn.socket, self.shared.room(INPUT_MAX));
        let size = match received {
            Transfer::Bytes(size) => size,
            Transfer::Nothing => 0,
            Transfer::End | Transfer::Broken(_) => {
                self.end(id, Why::Asked);
                return 0;
            }
        };
        let thrown_size = thrown_size + size;
        conn.state = State::Lingering { thrown_size };
        conn.readable = size == INPUT_MAX;
        conn.input = Input::Quiet;
        if LINGERING_SIZE_MAX <= thrown_size || (conn.ending && !conn.readable) {
            self.end(id, Why::Asked);
        } else if conn.readable {
            announce(conn, id, &mut self.queue);
        }
        size
    }

    /// The connection is no more; the lane hears of it unless it has already.
    #[cold]
    fn end(&mut self, id: ConnId, why: Why) {
        let Some(mut conn) = self.conns.remove(id) else { return };
        self.shared.forget(&mut conn.held);
        conn.rest.release(&mut self.rests);
        conn.output.clear();
        conn.output.reclaim(&mut self.blocks);
        self.kernel.release(conn.socket);
        if matches!(conn.state, State::Lingering { .. }) {
            self.lingering.retain(|other| *other != id);
        } else {
            self.counters.closed += 1;
            self.news.push(Event::Closed { conn: id, why });
        }
    }
}

fn open<S>(conns: &mut Slots<Conn<S>>, id: ConnId) -> Option<&mut Conn<S>> {
    conns.get_mut(id).filter(|conn| conn.state == State::Open)
}

/// A connection's socket has something: the lane is to be told, or, if it lingers, it is drained.
#[inline(always)]
fn announce<S>(conn: &mut Conn<S>, id: ConnId, queue: &mut VecDeque<ConnId>) {
    conn.readable = true;
    if conn.input == Input::Quiet {
        conn.input = Input::Queued;
    }
    if conn.input == Input::Queued && !conn.in_queue {
        conn.in_queue = true;
        queue.push_back(id);
    }
}

/// The lane gets a connection's output in hand, which the next flush will look at.
fn lend<S>(conn: &mut Conn<S>, id: ConnId, dirty: &mut Vec<ConnId>, blocks: &mut Pool) {
    soil(conn, id, dirty);
    conn.output.lend(blocks);
}

/// Marks a connection for the next flush.
fn soil<S>(conn: &mut Conn<S>, id: ConnId, dirty: &mut Vec<ConnId>) {
    if !conn.in_dirty {
        conn.in_dirty = true;
        dirty.push(id);
    }
}

/// One send of at most `size_max` bytes: what came of it, and how many were offered.
fn hand_over<K: Kernel>(kernel: &mut K, conn: &Conn<K::Socket>, size_max: usize) -> (Transfer, usize) {
    let mut one = [IoSlice::new(&[])];
    let (_, size) = conn.output.gather(&mut one, size_max);
    if size == conn.output.len() || size == size_max {
        return (kernel.send(&conn.socket, &one), size);
    }
    hand_over_pieces(kernel, conn, size_max)
}

#[inline(never)]
fn hand_over_pieces<K: Kernel>(kernel: &mut K, conn: &Conn<K::Socket>, size_max: usize) -> (Transfer, usize) {
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let (count, size) = conn.output.gather(&mut slices, size_max);
    (kernel.send(&conn.socket, &slices[..count]), size)
}

impl<K: Kernel> Net for Readiness<K> {
    fn poll(&mut self, events: &mut Vec<Event>) {
        self.turn += 1;
        if !std::mem::take(&mut self.gathered) {
            self.gather(Some(0));
        }
        self.tell_news(events);
        let mut left = Left { accepts: self.limits.accepts_per_turn, clients: self.limits.clients_per_turn };
        for index in 0..self.signals.len() {
            self.heed(self.signals[index], &mut left, events);
        }
        self.signals.clear();
        self.tell_news(events);
        let mut thrown_before = 0;
        for _ in 0..left.clients.min(self.queue.len()) {
            let id = self.queue.pop_front().expect("the queue is at least that long");
            let Some(conn) = self.conns.get_mut(id) else { continue };
            conn.in_queue = false;
            match (conn.input, conn.state) {
                (Input::Queued, State::Open) => {
                    conn.input = Input::Told;
                    events.push(Event::Input(id));
                }
                (_, State::Lingering { .. }) if THROWN_PER_TURN <= thrown_before => {
                    cold_path();
                    conn.in_queue = true;
                    self.queue.push_back(id);
                }
                (_, State::Lingering { thrown_size }) => thrown_before += self.drain(id, thrown_size),
                _ => {}
            }
        }
    }

    fn stream(&mut self, id: ConnId, need: Need) -> Option<Stream<'_>> {
        let received = if need == Need::More { self.receive(id)? } else { 0 };
        let conn = open(&mut self.conns, id)?;
        lend(conn, id, &mut self.dirty, &mut self.blocks);
        let input = if conn.rest.is_empty() { self.shared.of(conn.held) } else { conn.rest.bytes() };
        Some(Stream { input, received, output: &mut conn.output, end: conn.ended })
    }

    fn output(&mut self, id: ConnId) -> Option<&mut Output> {
        let conn = open(&mut self.conns, id)?;
        lend(conn, id, &mut self.dirty, &mut self.blocks);
        Some(&mut conn.output)
    }

    fn consume(&mut self, id: ConnId, size: usize) {
        let Some(conn) = open(&mut self.conns, id) else { return };
        if size == 0 {
            return;
        }
        if conn.rest.is_empty() {
            self.shared.consume(&mut conn.held, size);
        } else {
            conn.rest.consume(size, &mut self.rests);
        }
        if conn.readable {
            cold_path();
            announce(conn, id, &mut self.queue);
        }
    }

    fn close(&mut self, id: ConnId, how: Close) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        match (how, conn.state) {
            (_, State::Lingering { .. }) | (Close::AfterFlush, State::Closing) => {}
            (Close::Now, State::Open | State::Closing) => self.end(id, Why::Asked),
            (Close::AfterFlush, State::Open) => {
                conn.state = State::Closing;
                conn.rest.release(&mut self.rests);
                self.shared.forget(&mut conn.held);
                soil(conn, id, &mut self.dirty);
            }
        }
    }

    fn flush(&mut self) {
        let mut left = self.limits.sends_size;
        let count = self.dirty.len();
        for index in 0..count {
            // Those that are to be looked at again come behind all of these.
            self.send(self.dirty[index], &mut left);
        }
        self.dirty.drain(..count);
        if !self.late.is_empty() {
            cold_path();
            // Before those that have had a part of their output sent.
            self.dirty.splice(..0, self.late.drain(..));
        }
    }

    fn give(&mut self, id: ConnId) -> Option<Handover> {
        let conn = open(&mut self.conns, id)?;
        if conn.received_turn != 0 || conn.output.written() != 0 {
            return None;
        }
        let mut conn = self.conns.remove(id)?;
        conn.output.reclaim(&mut self.blocks);
        self.kernel.unregister(&conn.socket);
        self.counters.given += 1;
        let (listener, peer, local) = (conn.listener, conn.peer, conn.local);
        Some(Handover { carrier: K::pack(conn.socket), listener, peer, local })
    }

    fn take(&mut self, handover: Handover) -> Option<ConnId> {
        let Handover { carrier, listener, peer, local } = handover;
        let socket = K::unpack(carrier).expect("a connection moves between nets of one kind");
        self.admit(socket, listener, peer, local)
    }

    fn queue(&mut self, id: ConnId) -> Option<u32> {
        let conn = open(&mut self.conns, id)?;
        self.kernel.queue(&conn.socket)
    }

    fn cpu(&mut self, id: ConnId) -> Option<u32> {
        let conn = open(&mut self.conns, id)?;
        self.kernel.cpu(&conn.socket)
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn counters(&self) -> Counters {
        Counters { controls: self.kernel.controls(), ..self.counters }
    }

    fn kept(&self, id: ConnId) -> (usize, usize) {
        let Some(conn) = self.conns.get(id) else { return (0, 0) };
        let input = if conn.rest.is_empty() { self.shared.of(conn.held) } else { conn.rest.bytes() };
        (input.len(), conn.output.len())
    }

    fn kept_size(&self) -> usize {
        self.blocks.unsent_size() + self.rests.kept_size()
    }
}

impl<K: Kernel> Wait for Readiness<K> {
    fn has_work(&mut self) -> bool {
        let is_due = |id: &ConnId| self.conns.get(*id).is_some_and(Conn::is_due);
        !self.news.is_empty()
            || !self.signals.is_empty()
            || !self.queue.is_empty()
            || self.dirty.iter().any(is_due)
            || self.kernel.has_signals()
    }

    fn wait(&mut self, timeout_ns: Option<u64>) {
        if self.gathered {
            return;
        }
        if self.kernel.has_signals() || !self.has_work() {
            self.gather(timeout_ns);
            self.gathered = true;
        }
    }

    fn bell(&self) -> Bell {
        self.kernel.bell()
    }
}
