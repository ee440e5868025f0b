//! Hears of network cards that come, go or are set up anew (rtnetlink(7), group `RTMGRP_LINK`).
//!
//! A link event takes more with it than the link: NAPI ids are new, on some drivers interrupts lose their cpus and queues their
//! settings. What is kept in mind about a card is looked up again after one.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::Refusal;
use crate::kernel::Cause;
use crate::kernel::live::{links, napi};

/// Events are read in pieces of so many bytes. An event that is cut off still says which card it is about.
const PIECE_SIZE: usize = 8192;

/// What has changed since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Names of the cards that came, or whose link went down, came up or was set up anew. Those that have gone have no name, and
    /// those of which somebody switched a feature are as they were.
    pub cards: BTreeSet<String>,
    /// Events were lost: it may be any card.
    pub is_any: bool,
}

/// Links of the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Links {
    socket: OwnedFd,
    piece: Vec<u8>,
}

impl Links {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system gives no such socket.
    pub fn open() -> Result<Links, Refusal> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is passed; the result is checked.
        let number = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if number < 0 {
            return Err(refusal("a netlink socket could not be opened"));
        }
        // SAFETY: the number is a descriptor that was just opened and is nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        // SAFETY: an address of zeros is one; the fields that matter are set below.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::sa_family_t::try_from(libc::AF_NETLINK).expect("families are small");
        address.nl_groups = u32::try_from(libc::RTMGRP_LINK).expect("a bit");
        let size = libc::socklen_t::try_from(size_of::<libc::sockaddr_nl>()).expect("addresses are small");
        // SAFETY: the pointer and the size are of one structure that lives through the call.
        let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
        if result < 0 {
            return Err(refusal("link events can't be had"));
        }
        Ok(Links { socket, piece: vec![0; PIECE_SIZE] })
    }

    /// Sleeps until some link has changed since the last call, and takes all that is known by then: a burst is one change.
    /// Events that were lost because nobody listened for long count as one.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn wait(&mut self) -> Result<(), Refusal> {
        self.receive(0)?;
        while self.receive(libc::MSG_DONTWAIT)?.is_some() {}
        Ok(())
    }

    /// What has changed since the last call; `None`: nothing. It does not sleep.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn changed(&mut self) -> Result<Option<Changed>, Refusal> {
        let mut changed = None;
        while let Some(piece) = self.receive(libc::MSG_DONTWAIT)? {
            let so_far = changed.get_or_insert_with(Changed::default);
            match piece {
                Piece::Lost => so_far.is_any = true,
                Piece::Of(size) => {
                    let numbers = links::changed(&self.piece[..size]);
                    so_far.cards.extend(numbers.into_iter().filter_map(napi::card_of));
                }
            }
        }
        Ok(changed)
    }

    /// None when there was nothing.
    fn receive(&mut self, flags: i32) -> Result<Option<Piece>, Refusal> {
        loop {
            let (piece, size) = (self.piece.as_mut_ptr(), self.piece.len());
            // SAFETY: the pointer and the size are of one vector that lives through the call.
            let received = unsafe { libc::recv(self.socket.as_raw_fd(), piece.cast(), size, flags) };
            if let Ok(size) = usize::try_from(received) {
                return Ok(Some(Piece::Of(size)));
            }
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => return Ok(None),
                Some(libc::ENOBUFS) => return Ok(Some(Piece::Lost)),
                _ => return Err(refusal("the socket of link events is broken")),
            }
        }
    }
}

/// What was received.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// So many bytes.
    Of(usize),
    /// Events came faster than they were read, and some are gone.
    Lost,
}

fn refusal(what: &str) -> Refusal {
    Refusal::new(Cause::Failed, format!("{what}: {}", io::Error::last_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_changes_nothing_is_heard() {
        let on_its_own = || {
            // A network namespace of this thread's own, where nobody else has links.
            // SAFETY: the flag concerns the calling thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                eprintln!("skipped: a network namespace of its own needs root");
                return;
            }
            let mut links = Links::open().unwrap();
            assert_eq!(links.changed().unwrap(), None);
            let set = |state: &str| {
                let status = std::process::Command::new("ip").args(["link", "set", "lo", state]).status();
                assert!(status.expect("ip is installed").success());
            };
            set("up");
            // Sleeps for ever if the event is missed.
            links.wait().unwrap();
            assert_eq!(links.changed().unwrap(), None, "a burst is one change");
            set("down");
            let of_lo = Changed { cards: ["lo".to_owned()].into(), is_any: false };
            assert_eq!(links.changed().unwrap(), Some(of_lo), "events are there when the change is made");
        };
        std::thread::scope(|scope| scope.spawn(on_its_own).join().unwrap());
    }
}
