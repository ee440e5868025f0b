//! Sockets through Linux' `io_uring`: the kernel is told what to do, and tells when it is done.
//!
//! A turn with 50 busy connections is one system call: `io_uring_enter` sends 50 replies, sleeps until something comes, and brings
//! what has come. It is made by `wait`, or by a `poll` without a wait before it; `flush` only notes whose output goes with it.
//! How a connection is received from is drawn in `uring/receive.rs`.
//!
//! ```text
//!   poll ─▶ stream, consume ─▶ flush ─▶ wait ─▶ poll …
//!                                        │
//!             bell, listeners, cancels, sends, receives ─▶ io_uring_enter ─▶ completions ─▶ news, queue
//! ```
//! * **Output is lent for one enter.** A send is not allowed to wait, so it ends inside the enter that submits it;
//!   after a short one a poll tells when there is room. Chunks and blocks stay where they are, and nothing of a
//!   closed connection has to be kept alive.
//! * **An operation holds its socket**, so closing a descriptor ends no connection. Operations are cancelled first.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use crate::epoll::{TcpOptions, listen::Listener, sys, why};
use crate::input::{self, Rest, Rests, Shared};
use crate::output::Pool;
use crate::slots::Slots;
use crate::{Address, ConnId, Counters, Event, Limits, ListenerId, Output, Why};

mod buffers;
mod conn;
mod doors;
mod handle;
mod probe;
mod receive;
mod ring;
mod seam;
mod token;

pub use probe::probe;

use conn::{Conn, Input, State};
use doors::Doors;
use receive::watch;
use ring::{Completion, Line, Ring};
use token::{Task, Token};

/// After so long it is looked at whether a send was short, which nobody tells in advance: the client reads slowly.
const SHORT_SEND_NS_MAX: u64 = 10_000_000;

/// A connection to which so many bytes were written has its sends go by a place: what they save is more by then than the two calls
/// take, now and at its end.
const SEAT_SIZE: u64 = 4096;

/// Connections that linger at most; the oldest is cut off to make room.
const LINGERING_COUNT_MAX: usize = 256;

/// A connected socket, on its way between two rings.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

/// A [`Net`](crate::Net) over `io_uring`. It belongs to the thread that made it: the kernel serves nobody else.
pub struct Uring {
    conns: Slots<Conn>,
    limits: Limits,
    bell: Arc<OwnedFd>,
    is_bell_heard: bool,
    doors: Doors,
    rests: Rests,
    blocks: Pool,
    /// What is received by calls of their own.
    shared: Shared,
    /// Counts polls.
    turn: u64,
    /// Connections whose input the lane has not been told of, in the order in which it came.
    queue: VecDeque<ConnId>,
    /// Whom the lane was told of by the last poll.
    told: Vec<ConnId>,
    /// Connections whose output the lane had in hand, or that still have some.
    dirty: Vec<ConnId>,
    dirty_spare: Vec<ConnId>,
    /// Those for which this flush has sent too much before; they are first in the next.
    late: Vec<ConnId>,
    /// Whose output goes with the next enter.
    outbox: Vec<ConnId>,
    /// From whom something may have to be received, or who has to be watched.
    hearing: Vec<ConnId>,
    /// Who lacks room.
    cramped: Vec<ConnId>,
    /// Who may hold a buffer.
    holders: Vec<ConnId>,
    cancels: Vec<Token>,
    /// Sockets to be closed when their operations are cancelled.
    doomed: Vec<OwnedFd>,
    /// Events other than input that the next poll tells.
    news: Vec<Event>,
    lingering: VecDeque<ConnId>,
    gathered: bool,
    counters: Counters,
    /// Last, so that the kernel lets go of sockets that are closed already.
    ring: Ring,
    thread: PhantomData<*mut ()>,
}

impl Uring {
    /// Without listeners, for the calling thread.
    ///
    /// # Errors
    /// The kernel does not give one; [`probe()`] says why in words.
    pub fn new(limits: Limits) -> io::Result<Uring> {
        limits.check();
        let buffers_count = limits.clients_per_turn.clamp(16, 1024).next_power_of_two();
        let ring = Ring::new(u16::try_from(buffers_count).expect("a thousand or less"))?;
        Ok(Uring {
            conns: Slots::new(),
            limits,
            bell: Arc::new(sys::eventfd()?),
            is_bell_heard: false,
            doors: Doors::new()?,
            rests: Rests::default(),
            blocks: Pool::default(),
            shared: Shared::new(),
            turn: 0,
            queue: VecDeque::new(),
            told: Vec::new(),
            dirty: Vec::new(),
            dirty_spare: Vec::new(),
            late: Vec::new(),
            outbox: Vec::new(),
            hearing: Vec::new(),
            cramped: Vec::new(),
            holders: Vec::new(),
            cancels: Vec::new(),
            doomed: Vec::new(),
            news: Vec::new(),
            lingering: VecDeque::new(),
            gathered: false,
            counters: Counters::default(),
            ring,
            thread: PhantomData,
        })
    }

    /// Listens at a TCP address, as [`Epoll::listen_tcp`](crate::epoll::Epoll::listen_tcp) does.
    ///
    /// # Errors
    /// As there.
    pub fn listen_tcp(&mut self, address: SocketAddr, options: &TcpOptions) -> io::Result<ListenerId> {
        self.doors.add(Listener::tcp(address, options)?)
    }

    /// Listens at a path, as [`Epoll::listen_unix`](crate::epoll::Epoll::listen_unix) does.
    ///
    /// # Errors
    /// As there.
    pub fn listen_unix(&mut self, path: &Path, mode: u32, backlog: u32) -> io::Result<ListenerId> {
        self.doors.add(Listener::unix(path, mode, backlog)?)
    }

    /// The address a listener is bound to.
    ///
    /// # Panics
    /// If there is no such listener.
    pub fn listener_address(&self, listener: ListenerId) -> Address {
        self.doors.address(listener)
    }

    /// Stops listening anywhere; connections go on. Who knocks from now on is refused by the kernel.
    pub fn stop_listening(&mut self) {
        self.doors.close_all(&mut self.cancels, &mut self.doomed);
    }

    /// Asks the kernel to poll the network card's queues for up to `duration_us` microseconds before it puts this
    /// net's `wait` to sleep; zero turns it off. This helps only where a core can be given to it.
    ///
    /// # Errors
    /// `Unsupported` before Linux 6.9.
    pub fn set_busy_poll(&mut self, duration_us: u32) -> io::Result<()> {
        self.counters.controls += 1;
        self.ring.set_busy_poll(duration_us).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP) => io::Error::new(
                io::ErrorKind::Unsupported,
                "busy polling by io_uring needs Linux 6.9 or later",
            ),
            _ => error,
        })
    }

    /// Receives last, as the kernel can have them since Linux 6.17; else each brings something once.
    pub fn receives_last(&self) -> bool {
        self.ring.receives_last
    }

    /// From now on as where the kernel lacks what can be done without: receives do not last, and sends go by descriptors. For whoever
    /// tests both.
    pub fn be_plain(&mut self) {
        self.ring.be_plain();
    }

    /// The one system call of a turn, with everything that leads to it and comes from it.
    fn enter(&mut self, timeout_ns: Option<u64>) {
        self.give_buffers_back();
        if !self.is_bell_heard {
            self.is_bell_heard = true;
            self.ring.poll(&self.bell, Token::BELL, libc::POLLIN, true);
        }
        self.doors.listen(&mut self.ring);
        for token in self.cancels.drain(..) {
            self.ring.cancel(token);
        }
        if !self.doomed.is_empty() {
            self.ring.submit();
            self.counters.controls += u64::try_from(self.doomed.len()).expect("a count fits 64 bits");
            self.doomed.clear();
        }
        let sleep_ns_max = self.begin_sends();
        self.begin_polls();
        self.begin_receives();
        let timeout_ns = self.doors.timeout_ns(timeout_ns);
        let timeout_ns = timeout_ns.into_iter().chain(sleep_ns_max).min();
        self.ring.enter(timeout_ns, self.limits.clients_per_turn);
        let mut completions = std::mem::take(&mut self.ring.completions);
        self.doors.has_entered(completions.is_empty() && timeout_ns != Some(0));
        for completion in completions.drain(..) {
            self.heed(completion);
        }
        self.ring.completions = completions;
    }

    /// How long an enter may sleep that makes these sends; `None`: for ever. Their ends don't wake it, and what follows one is
    /// begun with the next enter: the rest of the output, a connection's end, or waiting for room if it turns out short.
    fn begin_sends(&mut self) -> Option<u64> {
        let mut sleep_ns_max = None;
        for id in self.outbox.drain(..) {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            conn.in_outbox = false;
            if conn.output.is_empty() || conn.full {
                continue;
            }
            let token = Token::of(Task::Send, id);
            if !conn.is_seated && SEAT_SIZE <= conn.output.written() {
                conn.is_seated = self.ring.seat(&conn.fd, id.index());
            }
            let socket = if conn.is_seated { Line::Place(id.index()) } else { Line::Socket(&conn.fd) };
            // SAFETY: the caller enters before it touches any connection, and nothing else can.
            let send = unsafe { self.ring.send(socket, token, &conn.output, self.limits.send_size) };
            conn.offered_size = send;
            let is_followed = conn.state == State::Closing || send < conn.output.len();
            let own_ns_max = if is_followed { 0 } else { SHORT_SEND_NS_MAX };
            sleep_ns_max = Some(sleep_ns_max.unwrap_or(own_ns_max).min(own_ns_max));
        }
        sleep_ns_max
    }

    fn begin_polls(&mut self) {
        for id in self.cramped.drain(..) {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            if conn.full && !conn.awaits_room {
                conn.awaits_room = true;
                self.ring.poll(&conn.fd, Token::of(Task::Room, id), libc::POLLOUT, true);
            }
        }
        // Whom the lane does not want to hear, it still wants to lose.
        for id in self.told.drain(..) {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            if conn.input == Input::Told {
                watch(&mut self.ring, conn, id);
            }
        }
    }

    fn heed(&mut self, completion: Completion) {
        let Completion { token, result, fd, buffer, more } = completion;
        match token.task {
            Task::Cancel => {}
            Task::Bell => self.is_bell_heard = more,
            Task::Accept => self.doors.accepted(token.listener(), fd.ok_or(-result), more),
            Task::Knock => self.doors.knocked(token.listener()),
            Task::Receive => self.received(token.conn(), result, buffer, more),
            Task::Send => self.sent(token.conn(), result),
            Task::First | Task::Room | Task::Watch => self.polled(token, result, more),
        }
    }

    fn polled(&mut self, token: Token, result: i32, more: bool) {
        let id = token.conn();
        let Some(conn) = self.conns.get_mut(id) else { return };
        match token.task {
            Task::First => conn.listening = None,
            Task::Room => self.heed_room(id, result, more),
            _ => {
                conn.is_watched = more;
                if !more {
                    self.hear(id);
                }
            }
        }
        if result == -libc::ECANCELED {
            return;
        }
        let conn = self.conns.get_mut(id).expect("it was just seen");
        if result < 0 {
            return self.end(id, why(-result));
        }
        if result & i32::from(libc::POLLERR) != 0 && !matches!(conn.state, State::Lingering { .. }) {
            self.counters.controls += 1;
            let error = sys::get_option(&conn.fd, libc::SOL_SOCKET, libc::SO_ERROR);
            return self.end(id, error.map_or(Why::Reset, why));
        }
        match (token.task, conn.state) {
            (Task::First, State::Open) => self.announce(id),
            (Task::First, State::Lingering { .. }) => self.hear(id),
            _ => {}
        }
    }

    /// The poll for room has said something: that there is some, or only that the client has ended its side.
    fn heed_room(&mut self, id: ConnId, result: i32, more: bool) {
        let conn = self.conns.get_mut(id).expect("the caller has just seen it");
        conn.awaits_room = more;
        let has_room = 0 <= result && result & i32::from(libc::POLLOUT | libc::POLLERR | libc::POLLHUP) != 0;
        if !conn.full {
            // The poll is being cancelled.
        } else if has_room {
            conn.full = false;
            if more {
                self.cancels.push(Token::of(Task::Room, id));
            }
            self.soil(id);
        } else if !more {
            self.cramped.push(id);
        }
    }

    fn sent(&mut self, id: ConnId, result: i32) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let size = match -result {
            libc::EAGAIN | libc::EINTR => 0,
            errno if 0 < errno => return self.end(id, why(errno)),
            _ => usize::try_from(result).expect("it is not negative"),
        };
        self.counters.bytes_out += u64::try_from(size).expect("a size fits 64 bits");
        conn.output.advance(size, |block| self.blocks.put(block));
        if size < conn.offered_size {
            self.counters.sends_short += 1;
            conn.full = true;
            self.cramped.push(id);
        }
        self.settle(id);
    }

    /// After a send, or instead of one that can't be.
    fn settle(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let was_above = std::mem::replace(&mut conn.above_mark, self.limits.output_mark < conn.output.len());
        if was_above && !conn.above_mark && conn.state == State::Open {
            self.news.push(Event::Writable(id));
        }
        if conn.output.is_empty() {
            conn.output.reclaim(&mut self.blocks);
            if conn.state == State::Closing {
                self.linger(id);
            }
        } else {
            conn.output.report(&mut self.blocks);
            if !conn.full {
                self.soil(id);
            }
        }
    }

    /// Marks a connection for the next flush.
    fn soil(&mut self, id: ConnId) {
        let conn = self.conns.get_mut(id).expect("the caller has just seen it");
        if !conn.in_dirty {
            conn.in_dirty = true;
            self.dirty.push(id);
        }
    }

    fn admit(&mut self, fd: OwnedFd, listener: ListenerId, peer: Address, local: Address) -> ConnId {
        let id = self.conns.insert(Conn {
            fd,
            state: State::Open,
            input: Input::Quiet,
            in_queue: false,
            in_dirty: false,
            in_outbox: false,
            in_hearing: false,
            is_fresh: true,
            is_direct: true,
            is_seated: false,
            listening: None,
            is_watched: false,
            awaits_room: false,
            full: false,
            ended: false,
            shown_size: 0,
            end_shown: false,
            above_mark: false,
            offered_size: 0,
            held: None,
            shared: input::Held::default(),
            rest: Rest::default(),
            output: Output::new(),
            listener,
            peer,
            local,
        });
        self.counters.opened += 1;
        self.hear(id);
        id
    }

    /// Everything is sent. A client that has not ended yet is given the chance to read it.
    fn linger(&mut self, id: ConnId) {
        let conn = self.conns.get_mut(id).expect("the caller has just seen it");
        if conn.ended {
            return self.end(id, Why::Asked);
        }
        conn.state = State::Lingering { thrown_size: 0 };
        self.counters.controls += 1;
        sys::shut_sending(&conn.fd);
        self.hear(id);
        self.counters.closed += 1;
        self.news.push(Event::Closed { conn: id, why: Why::Asked });
        self.lingering.push_back(id);
        while LINGERING_COUNT_MAX < self.lingering.len() {
            let oldest = self.lingering.pop_front().expect("it is not empty");
            self.end(oldest, Why::Asked);
        }
    }

    /// The connection is no more; the lane hears of it unless it has already.
    fn end(&mut self, id: ConnId, why: Why) {
        let Some(mut conn) = self.conns.remove(id) else { return };
        self.release_input(&mut conn);
        conn.output.clear();
        conn.output.reclaim(&mut self.blocks);
        if conn.is_seated {
            self.ring.unseat(&conn.fd, id.index());
        }
        let before = self.cancels.len();
        self.cancels.extend(conn.tasks().map(|task| Token::of(task, id)));
        if before < self.cancels.len() {
            self.doomed.push(conn.fd);
        } else {
            self.counters.controls += 1;
            drop(conn.fd);
        }
        if matches!(conn.state, State::Lingering { .. }) {
            self.lingering.retain(|other| *other != id);
        } else {
            self.counters.closed += 1;
            self.news.push(Event::Closed { conn: id, why });
        }
    }

    fn open(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.get_mut(id).filter(|conn| conn.state == State::Open)
    }
}

impl Drop for Uring {
    /// What was flushed goes out although nobody waits again, and ports are free afterwards.
    fn drop(&mut self) {
        self.stop_listening();
        if !std::thread::panicking() {
            self.enter(Some(0));
        }
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").field("limits", &self.limits).finish_non_exhaustive()
    }
}
