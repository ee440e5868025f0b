//! What the seam asks of it: `Net` for the lane, `Wait` for its runner.

use super::token::Token;
use super::{Conn, Input, Socket, State, Uring};
use crate::epoll::sys;
use crate::kernel::Carrier;
use crate::{Bell, Close, ConnId, Counters, Event, Handover, Limits, Need, Net, Output, Stream, Wait, Why};
use std::sync::Arc;

impl Net for Uring {
    fn poll(&mut self, events: &mut Vec<Event>) {
        if !std::mem::take(&mut self.gathered) {
            self.enter(Some(0));
        }
        self.turn += 1;
        let mut accepts_left = self.limits.accepts_per_turn;
        while let Some((listener, fd)) = self.doors.next(&mut accepts_left) {
            if let Some((peer, local)) = self.doors.addresses(listener, &fd) {
                let conn = self.admit(fd, listener, peer, local);
                self.news.push(Event::Opened { conn, listener, peer, local });
            }
        }
        events.append(&mut self.news);
        for _ in 0..self.limits.clients_per_turn.min(self.queue.len()) {
            let id = self.queue.pop_front().expect("the queue is at least that long");
            let Some(conn) = self.conns.get_mut(id) else { continue };
            conn.in_queue = false;
            if conn.input == Input::Queued && conn.state == State::Open {
                conn.input = Input::Told;
                self.told.push(id);
                events.push(Event::Input(id));
            }
        }
    }

    fn stream(&mut self, id: ConnId, need: Need) -> Option<Stream<'_>> {
        let conn = self.open(id)?;
        if need == Need::More && conn.input != Input::Quiet {
            if conn.is_direct && conn.listening.is_none() && !conn.ended {
                self.receive_directly(id);
                self.open(id)?;
            } else {
                conn.input = Input::Quiet;
                if conn.listening.is_none() {
                    self.hear(id);
                }
            }
        }
        self.soil(id);
        let conn = self.conns.get_mut(id).expect("it is open");
        conn.output.lend(&mut self.blocks);
        let input = match conn.held {
            Some(held) => &self.ring.buffers.received(held.buffer, held.end)[held.start..],
            None if !conn.shared.is_empty() => self.shared.of(conn.shared),
            None => conn.rest.bytes(),
        };
        let shown_before = conn.shown_size;
        if need == Need::More {
            conn.shown_size = input.len();
            conn.end_shown = conn.ended;
        }
        Some(Stream {
            input: &input[..conn.shown_size],
            received: conn.shown_size - shown_before,
            output: &mut conn.output,
            end: conn.end_shown,
        })
    }

    fn output(&mut self, id: ConnId) -> Option<&mut Output> {
        self.open(id)?;
        self.soil(id);
        let conn = self.conns.get_mut(id).expect("it is open");
        conn.output.lend(&mut self.blocks);
        Some(&mut conn.output)
    }

    fn consume(&mut self, id: ConnId, size: usize) {
        if size == 0 {
            return;
        }
        let Some(conn) = self.conns.get_mut(id).filter(|conn| conn.state == State::Open) else { return };
        assert!(size <= conn.shown_size, "no more is consumed than was shown");
        conn.shown_size -= size;
        match &mut conn.held {
            Some(held) => {
                held.start += size;
                if held.start == held.end {
                    self.ring.buffers.give_back(held.buffer);
                    conn.held = None;
                }
            }
            None if !conn.shared.is_empty() => self.shared.consume(&mut conn.shared, size),
            None => conn.rest.consume(size, &mut self.rests),
        }
        if conn.listening.is_none() && conn.input == Input::Quiet {
            self.hear(id);
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
                self.shared.forget(&mut conn.shared);
                if let Some(held) = conn.held.take() {
                    self.ring.buffers.give_back(held.buffer);
                }
                self.soil(id);
            }
        }
    }

    fn flush(&mut self) {
        let spare = std::mem::take(&mut self.dirty_spare);
        let mut dirty = std::mem::replace(&mut self.dirty, spare);
        let mut left = self.limits.sends_size;
        for id in dirty.drain(..) {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            conn.in_dirty = false;
            if conn.output.is_empty() || conn.full {
                self.settle(id);
            } else if !self.limits.may_send(conn.output.len(), &mut left) {
                conn.in_dirty = true;
                self.late.push(id);
                self.settle(id);
            } else if !conn.in_outbox {
                conn.in_outbox = true;
                self.outbox.push(id);
            }
        }
        self.dirty_spare = dirty;
        // Before those that have had a part of their output sent.
        self.dirty.splice(..0, self.late.drain(..));
    }

    fn give(&mut self, id: ConnId) -> Option<Handover> {
        let conn = self.open(id)?;
        if !conn.is_fresh || conn.output.written() != 0 {
            return None;
        }
        let mut conn = self.conns.remove(id)?;
        conn.output.reclaim(&mut self.blocks);
        // They are polls, which take nothing from the socket; that they end a little later is nobody's harm.
        self.cancels.extend(conn.tasks().map(|task| Token::of(task, id)));
        self.counters.given += 1;
        let (listener, peer, local) = (conn.listener, conn.peer, conn.local);
        Some(Handover { carrier: Carrier::Ring(Socket { fd: conn.fd }), listener, peer, local })
    }

    fn take(&mut self, handover: Handover) -> Option<ConnId> {
        let Handover { carrier, listener, peer, local } = handover;
        let fd = match carrier {
            Carrier::Ring(Socket { fd }) => fd,
            // This program has connected it.
            Carrier::System(socket) => socket.into_fd(),
            Carrier::Memory(_) => panic!("a connection moves between nets of one kind"),
        };
        Some(self.admit(fd, listener, peer, local))
    }

    fn queue(&mut self, id: ConnId) -> Option<u32> {
        let conn = self.conns.get_mut(id).filter(|conn| conn.state == State::Open)?;
        self.counters.controls += 1;
        sys::queue(&conn.fd)
    }

    fn cpu(&mut self, id: ConnId) -> Option<u32> {
        let conn = self.conns.get_mut(id).filter(|conn| conn.state == State::Open)?;
        self.counters.controls += 1;
        sys::cpu(&conn.fd)
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn counters(&self) -> Counters {
        let doors = self.doors.counters;
        Counters {
            waits: self.ring.enters(),
            operations: self.ring.operations(),
            accepts: doors.accepts,
            refused: doors.refused,
            rests: doors.rests,
            controls: self.counters.controls + doors.controls + self.ring.seatings(),
            ..self.counters
        }
    }

    fn kept(&self, id: ConnId) -> (usize, usize) {
        self.conns.get(id).map_or((0, 0), |conn| (conn.input_size(), conn.output.len()))
    }

    fn kept_size(&self) -> usize {
        self.blocks.unsent_size() + self.rests.kept_size()
    }
}

impl Wait for Uring {
    fn has_work(&mut self) -> bool {
        let is_due = |id: &ConnId| self.conns.get(*id).is_some_and(Conn::is_due);
        !self.news.is_empty()
            || !self.queue.is_empty()
            || self.doors.has_clients()
            || self.dirty.iter().any(is_due)
    }

    fn wait(&mut self, timeout_ns: Option<u64>) {
        if !self.gathered && !self.has_work() {
            self.enter(timeout_ns);
            self.gathered = true;
        }
    }

    fn bell(&self) -> Bell {
        Bell::event(Arc::clone(&self.bell))
    }
}
