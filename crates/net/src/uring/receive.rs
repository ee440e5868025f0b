//! How a connection is received from:
//! ```text
//!    ┌──────▶ First ──────▶ Told ── stream(More): recv(2) ──▶ it was much ─┐
//!    │  (is there something? one poll)                  └──▶ it was little │
//!    └──────────────────────────────────────────────────────────┼──────────┘
//!                    ┌────────────────────── Receive ◀──────────┴──────────┐
//!                    │  (one receive of the ring is under way)             │
//!                    └─▶ Queued ──────▶ Told ──────▶ stream(More) ─────────┘  a buffer was filled: on with First
//! ```
//! * **Nothing is received before the lane has asked once**, so a connection can be given away without a byte.
//! * **One receive at a time, begun when the lane has asked, and it lasts** (multishot): it tries only when something has come, where one
//!   that is begun anew tries first, finds nothing, and has to be put among the socket's waiters. It ends when it has brought some
//!   kilobytes (Linux 6.17; where that can't be had, each brings something once). So what a client sends while its
//!   lane does not ask is kept up to that, and all that follows stays in the kernel.
//! * **Who sends much is received from by calls of its own**, when its lane asks, into memory that is hot in the cache and that the lane
//!   reads before somebody else receives. The ring would receive from all such clients at once, into memory that is cold by the
//!   time it is read, and hold the lane up meanwhile.
//! * **Nobody keeps a buffer.** The kernel chooses one for each receive of the ring (`buffers`), as many as a turn has clients.
//!   Before each enter all go back: what a lane has not consumed moves into memory of the connection's own. A flooder's
//!   pieces take one each, so there may be fewer buffers than senders: those without are begun anew (`ENOBUFS`).

use super::Uring;
use super::buffers::BUFFER_SIZE;
use super::conn::{Conn, Held, Input, State};
use super::ring::Ring;
use super::token::{Task, Token};
use crate::epoll::{sys, why};
use crate::input::{Rests, Shared};
use crate::{ConnId, INPUT_MAX, Why};

/// A receive of the ring lasts until it has brought so much, give or take a buffer.
const RECEIVE_SIZE: usize = 16 * 1024;

/// Bytes that are thrown away for one lingering connection before it is cut off.
const LINGERING_SIZE_MAX: usize = 1024 * 1024;

impl Uring {
    /// What has been received and not consumed moves into memory of its connection.
    pub(super) fn give_buffers_back(&mut self) {
        for id in self.holders.drain(..) {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            if conn.held.is_some() {
                move_to_rest(conn, &mut self.ring, &mut self.shared, &mut self.rests);
            }
        }
    }

    pub(super) fn begin_receives(&mut self) {
        for id in self.hearing.drain(..) {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            conn.in_hearing = false;
            if conn.listening.is_some() {
                continue;
            }
            let (task, size) = match conn.state {
                State::Open if conn.may_receive() && conn.is_direct => (Task::First, 0),
                State::Open if conn.may_receive() => {
                    (Task::Receive, RECEIVE_SIZE.min(INPUT_MAX - conn.input_size()))
                }
                State::Open => {
                    watch(&mut self.ring, conn, id);
                    continue;
                }
                State::Closing => continue,
                State::Lingering { .. } => (Task::Receive, BUFFER_SIZE),
            };
            conn.listening = Some(task);
            if task == Task::First {
                let mask = libc::POLLIN | libc::POLLRDHUP;
                self.ring.poll(&conn.fd, Token::of(task, id), mask, false);
            } else {
                self.ring.receive(&conn.fd, Token::of(task, id), size);
            }
        }
    }

    pub(super) fn received(&mut self, id: ConnId, result: i32, buffer: Option<u16>, more: bool) {
        let size = usize::try_from(result).unwrap_or(0);
        let Some(conn) = self.conns.get_mut(id) else {
            // It was closed meanwhile.
            buffer.into_iter().for_each(|buffer| self.ring.buffers.give_back(buffer));
            return;
        };
        if !more {
            conn.listening = None;
            if conn.input == Input::Told {
                // It was not watched, and the lane may not ask for long.
                self.hear(id);
            }
        }
        let conn = self.conns.get_mut(id).expect("it was just seen");
        if let Some(buffer) = buffer {
            if conn.state == State::Open && size > 0 {
                self.counters.bytes_in += u64::try_from(size).expect("a size fits 64 bits");
                conn.is_direct |= size == BUFFER_SIZE;
                move_to_rest(conn, &mut self.ring, &mut self.shared, &mut self.rests);
                if conn.rest.is_empty() {
                    conn.held = Some(Held { buffer, start: 0, end: size });
                    self.holders.push(id);
                } else {
                    conn.rest.append(self.ring.buffers.received(buffer, size), &mut self.rests);
                    self.ring.buffers.give_back(buffer);
                }
            } else {
                self.ring.buffers.give_back(buffer);
            }
        }
        if size == 0 {
            self.counters.receives_empty += 1;
        }
        match -result {
            libc::ENOBUFS | libc::EINTR | libc::EAGAIN => return self.hear(id),
            0 => conn.ended = true,
            errno if 0 < errno => return self.end(id, why(errno)),
            _ => {}
        }
        match &mut conn.state {
            State::Open => self.announce(id),
            State::Closing => {}
            State::Lingering { thrown_size } => {
                *thrown_size += size;
                if conn.ended || LINGERING_SIZE_MAX <= *thrown_size {
                    self.end(id, Why::Asked);
                } else {
                    self.hear(id);
                }
            }
        }
    }

    /// A receive that is a system call of its own. The connection may be gone afterwards.
    pub(super) fn receive_directly(&mut self, id: ConnId) {
        if self.shared.is_in_the_way(self.turn) {
            let mut owners = self.shared.take_owners();
            for owner in owners.drain(..) {
                let Some(conn) = self.conns.get_mut(owner) else { continue };
                if !conn.shared.is_empty() {
                    move_to_rest(conn, &mut self.ring, &mut self.shared, &mut self.rests);
                }
            }
            self.shared.give_back(owners);
        }
        let conn = self.conns.get_mut(id).expect("the caller has just seen it");
        conn.input = Input::Quiet;
        move_to_rest(conn, &mut self.ring, &mut self.shared, &mut self.rests);
        let size_max = INPUT_MAX.saturating_sub(conn.rest.bytes().len());
        if size_max == 0 {
            return self.hear(id);
        }
        self.counters.receives += 1;
        match sys::receive(&conn.fd, self.shared.room(size_max)) {
            Ok(size) => {
                conn.is_fresh = false;
                conn.is_direct = BUFFER_SIZE.min(size_max) <= size;
                conn.ended = size == 0;
                if conn.rest.is_empty() {
                    conn.shared = self.shared.keep(id, size, self.turn);
                } else {
                    conn.rest.append(self.shared.received(size), &mut self.rests);
                }
                self.counters.bytes_in += u64::try_from(size).expect("a size fits 64 bits");
                self.counters.receives_empty += u64::from(size == 0);
            }
            Err(libc::EAGAIN | libc::EINTR) => self.counters.receives_empty += 1,
            Err(errno) => return self.end(id, why(errno)),
        }
        self.hear(id);
    }

    /// The lane is to be told that there is something.
    pub(super) fn announce(&mut self, id: ConnId) {
        let conn = self.conns.get_mut(id).expect("the caller has just seen it");
        if conn.input == Input::Quiet {
            conn.input = Input::Queued;
            if !conn.in_queue {
                conn.in_queue = true;
                self.queue.push_back(id);
            }
        }
    }

    /// With the next enter something may be begun that listens to it.
    pub(super) fn hear(&mut self, id: ConnId) {
        let conn = self.conns.get_mut(id).expect("the caller has just seen it");
        if !conn.in_hearing {
            conn.in_hearing = true;
            self.hearing.push(id);
        }
    }

    pub(super) fn release_input(&mut self, conn: &mut Conn) {
        if let Some(held) = conn.held.take() {
            self.ring.buffers.give_back(held.buffer);
        }
        self.shared.forget(&mut conn.shared);
        conn.rest.release(&mut self.rests);
    }
}

/// What a connection has received and not consumed is in memory of its own afterwards.
fn move_to_rest(conn: &mut Conn, ring: &mut Ring, shared: &mut Shared, rests: &mut Rests) {
    if let Some(held) = conn.held.take() {
        conn.rest.append(&ring.buffers.received(held.buffer, held.end)[held.start..], rests);
        ring.buffers.give_back(held.buffer);
    }
    if !conn.shared.is_empty() {
        conn.rest.append(shared.of(conn.shared), rests);
        shared.forget(&mut conn.shared);
    }
}

/// Tells when the connection breaks, though nothing is received from it.
pub(super) fn watch(ring: &mut Ring, conn: &mut Conn, id: ConnId) {
    if conn.state == State::Open && !conn.is_watched && conn.listening != Some(Task::Receive) {
        conn.is_watched = true;
        ring.poll(&conn.fd, Token::of(Task::Watch, id), 0, true);
    }
}
