//! Where clients knock, and who has been let in and not yet been told of.
//!
//! A multishot accept lets in whoever knocks. Without descriptors it fails, and would fail at once if it were begun
//! again; so the listener is polled instead, and who knocks is accepted with the descriptor kept in reserve and
//! closed, so that the client is told. If even that fails, listening rests.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use super::ring::Ring;
use super::token::{Task, Token};
use crate::epoll::{REST_GATHERS, REST_NS, listen::Listener, reserve, sys};
use crate::{Address, Counters, ListenerId};

/// While so many clients have been let in and not been told of, nobody else is; they wait in the backlog.
const ENTERED_COUNT_MAX: usize = 256;

/// What is under way at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Nothing.
    Rest,
    /// Clients are let in.
    Accept,
    /// That is being ended, because too many have been.
    Ending,
    /// There is no descriptor: somebody is waited for.
    Knock,
    /// There is no descriptor, and somebody is there.
    Knocked,
}

struct Door {
    listener: Listener,
    at: At,
    /// The last accept failed for lack of descriptors; the socket does not block, so that trying one by one does not.
    is_short: bool,
}

pub(super) struct Doors {
    doors: Vec<Door>,
    entered: VecDeque<(ListenerId, OwnedFd)>,
    is_resting: bool,
    enters_rested: u32,
    /// Of what is done here: accepts, refused, rests, controls.
    pub(super) counters: Counters,
}

impl Doors {
    pub(super) fn new() -> io::Result<Doors> {
        reserve::fill()?;
        Ok(Doors {
            doors: Vec::new(),
            entered: VecDeque::new(),
            is_resting: false,
            enters_rested: 0,
            counters: Counters::default(),
        })
    }

    pub(super) fn add(&mut self, listener: Listener) -> io::Result<ListenerId> {
        // An operation on a socket that doesn't block doesn't wait either; it fails.
        sys::set_blocking(&listener.fd, true)?;
        let number = u32::try_from(self.doors.len()).expect("listeners are few");
        self.doors.push(Door { listener, at: At::Rest, is_short: false });
        Ok(ListenerId(number))
    }

    pub(super) fn address(&self, listener: ListenerId) -> Address {
        self.doors[place(listener)].listener.address
    }

    /// Closes all for good. Clients that have been let in are still told of.
    pub(super) fn close_all(&mut self, cancels: &mut Vec<Token>, doomed: &mut Vec<OwnedFd>) {
        for (door, number) in self.doors.drain(..).zip(0..) {
            sys::shut_listening(&door.listener.fd);
            self.counters.controls += 1;
            cancels.push(Token::of_listener(Task::Accept, number));
            cancels.push(Token::of_listener(Task::Knock, number));
            doomed.push(door.listener.fd);
        }
    }

    /// Begins what should be under way, and ends what should not.
    pub(super) fn listen(&mut self, ring: &mut Ring) {
        let is_full = ENTERED_COUNT_MAX <= self.entered.len();
        for (door, number) in self.doors.iter_mut().zip(0..) {
            let accept = Token::of_listener(Task::Accept, number);
            match door.at {
                At::Accept if is_full => {
                    door.at = At::Ending;
                    ring.cancel(accept);
                }
                At::Rest if !is_full && !self.is_resting && door.is_short => {
                    door.at = At::Knock;
                    let knock = Token::of_listener(Task::Knock, number);
                    ring.poll(&door.listener.fd, knock, libc::POLLIN, false);
                }
                At::Rest if !is_full && !self.is_resting => {
                    door.at = At::Accept;
                    ring.accept(&door.listener.fd, accept);
                }
                _ => {}
            }
        }
    }

    /// A client has been let in, or `errno` says why none was. `more`: others will be.
    pub(super) fn accepted(&mut self, number: u32, client: Result<OwnedFd, i32>, more: bool) {
        let listener = ListenerId(number);
        let errno = client.map(|fd| self.let_in(listener, fd)).err();
        // It may be closed by now.
        let Some(door) = self.doors.get_mut(place(listener)) else { return };
        if more {
            return;
        }
        door.at = At::Rest;
        match errno {
            Some(libc::EMFILE | libc::ENFILE) => self.set_short(place(listener), true),
            Some(errno) if errno != libc::ECANCELED && !is_client_s(errno) => self.rest(),
            _ => {}
        }
    }

    fn let_in(&mut self, listener: ListenerId, client: OwnedFd) {
        match reserve::keep(client) {
            Some(client) => self.entered.push_back((listener, client)),
            None => self.counters.refused += 1,
        }
    }

    pub(super) fn knocked(&mut self, number: u32) {
        if let Some(door) = self.doors.get_mut(place(ListenerId(number))) {
            door.at = At::Knocked;
        }
    }

    /// Somebody is to be told of, or turned away.
    pub(super) fn has_clients(&self) -> bool {
        !self.entered.is_empty() || self.doors.iter().any(|door| door.at == At::Knocked)
    }

    /// The next client that has been let in. At most `count_left` are, or are turned away.
    pub(super) fn next(&mut self, count_left: &mut usize) -> Option<(ListenerId, OwnedFd)> {
        while 0 < *count_left {
            if let Some(entered) = self.entered.pop_front() {
                *count_left -= 1;
                return Some(entered);
            }
            let index = self.doors.iter().position(|door| door.at == At::Knocked)?;
            *count_left -= 1;
            self.counters.accepts += 1;
            match sys::accept(&self.doors[index].listener.fd) {
                Ok((fd, _)) => {
                    let Some(fd) = reserve::keep(fd) else {
                        self.counters.refused += 1;
                        continue;
                    };
                    self.doors[index].at = At::Rest;
                    self.set_short(index, false);
                    self.counters.controls += 1;
                    sys::set_blocking(&fd, true).expect("a socket's mode can be changed");
                    let number = u32::try_from(index).expect("listeners are few");
                    return Some((ListenerId(number), fd));
                }
                Err(libc::EAGAIN) => {
                    self.doors[index].at = At::Rest;
                    self.set_short(index, false);
                }
                Err(libc::EMFILE | libc::ENFILE) => self.refuse(index),
                Err(errno) if is_client_s(errno) => {}
                Err(_) => {
                    self.doors[index].at = At::Rest;
                    self.rest();
                }
            }
        }
        None
    }

    /// Turns the next client away. There may be none: the kernel looks for a descriptor before it looks for a client.
    fn refuse(&mut self, index: usize) {
        self.counters.controls += 3;
        match reserve::turn_away(|| sys::accept(&self.doors[index].listener.fd)) {
            Ok(()) => self.counters.refused += 1,
            Err(libc::EAGAIN) => {
                self.doors[index].at = At::Rest;
                self.set_short(index, false);
            }
            Err(_) => {
                self.doors[index].at = At::Rest;
                self.rest();
            }
        }
    }

    /// Without descriptors clients are tried one by one, which must not block; otherwise the kernel waits for them,
    /// which it does only where it may block.
    fn set_short(&mut self, index: usize, is_short: bool) {
        let door = &mut self.doors[index];
        if door.is_short != is_short {
            door.is_short = is_short;
            self.counters.controls += 1;
            sys::set_blocking(&door.listener.fd, !is_short).expect("a socket's mode can be changed");
        }
    }

    /// Begins nothing for a while, because the system can't accept and would say so for ever.
    fn rest(&mut self) {
        if !self.is_resting {
            self.is_resting = true;
            self.enters_rested = 0;
            self.counters.rests += 1;
        }
    }

    /// How long may be slept if `timeout_ns` is asked for.
    pub(super) fn timeout_ns(&self, timeout_ns: Option<u64>) -> Option<u64> {
        if self.is_resting { Some(timeout_ns.unwrap_or(REST_NS).min(REST_NS)) } else { timeout_ns }
    }

    /// An enter is over.
    pub(super) fn has_entered(&mut self, is_time_up: bool) {
        if self.is_resting {
            self.enters_rested += 1;
            if is_time_up || REST_GATHERS <= self.enters_rested {
                self.is_resting = false;
            }
        }
    }

    /// The client's end and ours; `None`: it has left again.
    pub(super) fn addresses(&mut self, listener: ListenerId, fd: &OwnedFd) -> Option<(Address, Address)> {
        let local = self.doors.get(place(listener)).map(|door| &door.listener);
        if local.is_some_and(|local| local.address == Address::Unix) {
            return Some((Address::Unix, Address::Unix));
        }
        // A multishot accept brings no addresses.
        self.counters.controls += 1;
        let peer = sys::peer_address(fd).ok()?;
        let local = match local {
            Some(local) if !local.wildcard => local.address,
            _ => {
                self.counters.controls += 1;
                sys::local_address(fd).ok()?
            }
        };
        Some((peer, local))
    }
}

/// Errors that concern one client, not the listener (accept(2), "Error handling").
fn is_client_s(errno: i32) -> bool {
    matches!(
        errno,
        libc::ECONNABORTED
            | libc::EINTR
            | libc::EPROTO
            | libc::ENETDOWN
            | libc::ENOPROTOOPT
            | libc::EHOSTDOWN
            | libc::ENONET
            | libc::EHOSTUNREACH
            | libc::EOPNOTSUPP
            | libc::ENETUNREACH
            | libc::EPERM
    )
}

fn place(listener: ListenerId) -> usize {
    usize::try_from(listener.0).expect("listeners are few")
}
