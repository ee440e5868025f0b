//! Connections as bytes in and bytes out: the seam between a lane and whatever carries its clients' bytes.
//!
//! A lane is written against [`Net`] and never learns which backend is behind it: Linux' epoll ([`epoll`]) or
//! `io_uring` ([`uring`]), memory ([`mem`]), or one of the two that wrap another and are a `Net` again: [`fault`] makes
//! it worse, [`trace`] writes it down. What the bytes mean, who owns a key and what time it is are not known here, and no thread starts here.
//!
//! One turn of a lane, with everything it owes the seam:
//! ```
//! use net::{Close, Event, Limits, Need, Net, mem::Mem};
//!
//! fn turn(net: &mut impl Net, events: &mut Vec<Event>) {
//!     net.poll(events);                                          // 1. what has happened
//!     for event in events.drain(..) {
//!         let Event::Input(conn) = event else { continue };
//!         let Some(stream) = net.stream(conn, Need::More) else { continue };   // 2. receives, at most once a turn
//!         let size = stream.input.len();
//!         stream.output.extend(stream.input);                    // 3. answers (an echo, here)
//!         let end = stream.end;
//!         net.consume(conn, size);                               // 4. releases what it understood
//!         if end {
//!             net.close(conn, Close::AfterFlush);                // 5. the client has sent its last byte
//!         }
//!     }
//!     net.flush();                                               // 6. hands everything over, once
//! }
//!
//! let mut net = Mem::new(Limits::default());
//! let (_listener, port) = net.listen();
//! let client = port.connect();
//! client.write(b"hello");
//! let mut events = Vec::new();
//! turn(&mut net, &mut events);
//! turn(&mut net, &mut events);
//! assert_eq!(client.read_all(), b"hello");
//! ```
//!
//! What a lane owes, in words (docs/io.md has the reasons):
//! * After [`Event::Input`] it asks with [`Need::More`] when it wants the bytes, this turn or later: the event is not
//!   repeated until it has asked. Until then the kernel holds the bytes, but for `INPUT_MAX` at most, and slows the sender.
//! * It remembers by itself which clients still have complete commands in their input (it stopped at a budget) and
//!   comes back to them with [`Need::Rest`]; no event tells it so.
//! * When [`Stream::end`] is true it finishes what it owes the client, then closes with [`Close::AfterFlush`].
//! * It frees what it keeps about a connection at [`Event::Closed`], which comes exactly once for each connection
//!   that was opened or taken and not given away, whoever ended it.

pub mod epoll;

pub mod fault;
pub mod kernel;
pub mod mem;
pub mod readiness;
pub mod sockets;
pub mod trace;
pub mod uring;

mod bell;
mod chance;
mod input;
mod output;
mod slots;

pub use bell::Bell;
pub use output::{Chunk, OUTPUT_BLOCK_SIZE_MAX, Output};

use std::net::SocketAddr;

/// The most input that net keeps for one connection, bytes; also the size of one receive. While that much lies
/// unconsumed nothing is received and the kernel's window slows the sender.
pub const INPUT_MAX: usize = 64 * 1024;

/// A connection of one net: a checked handle. The generation makes the handle of a connection that is gone differ
/// from that of its successor at the same index; a stale handle is answered with `None` or ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    index: u32,
    generation: u32,
}

impl ConnId {
    /// Where the connection lies in a table: small, reused, below the greatest number of connections that ever
    /// were open at once. Fit for indexing a table of one's own, together with [`ConnId::generation`].
    pub fn index(self) -> u32 {
        self.index
    }

    /// How often this index has been given out.
    pub fn generation(self) -> u32 {
        self.generation
    }
}

/// A place where clients knock, in the order in which the net's `listen…` functions were called, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Inet(SocketAddr),
    /// A Unix socket; the clients' ends have no name.
    Unix,
    /// In memory, with the number of the client, counted from zero at each port.
    Mem(u32),
}

/// What [`Net::poll`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client has connected.
    Opened {
        /// The new connection.
        conn: ConnId,
        /// Where it knocked.
        listener: ListenerId,
        /// The client's end.
        peer: Address,
        /// Our end, as the client addressed it.
        local: Address,
    },
    /// Bytes, or the end of input, can be received. Said once; not again until `stream(conn, Need::More)` has asked.
    Input(ConnId),
    /// Unsent output has sunk to [`Limits::output_mark`] or below, having been above it at the end of a flush.
    Writable(ConnId),
    /// The connection is gone and its handle stale. Exactly one for each connection, whoever ended it.
    Closed {
        /// The connection that is no more.
        conn: ConnId,
        /// Who ended it.
        why: Why,
    },
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The lane closed it.
    Asked,
    /// The client cut it off, or has gone without reading what was sent.
    Reset,
    /// The system gave it up, with this errno (`ETIMEDOUT` from keepalive, for instance).
    Failed(i32),
}

/// How to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// What is written goes first; input is ignored from now on, and the handle answers to nothing but a second
    /// `close(conn, Close::Now)`. A client that does not read can hold this up for ever: the lane, which knows the
    /// time, loses patience.
    AfterFlush,
    /// At once; unsent output is dropped.
    Now,
}

/// What the lane wants to see of a connection's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// What net already holds; nothing is received. For going on where a budget ended.
    Rest,
    /// That, and newly received bytes behind it, at most one receive a connection and turn. For an [`Event::Input`],
    /// and for a decoder that can't go on with the rest.
    More,
}

/// Both directions of a connection, borrowed together so that a reply is written while the command still borrows
/// from the input.
#[derive(Debug)]
pub struct Stream<'a> {
    /// Unconsumed input, in order. Empty: nothing until the next [`Event::Input`] (or until the next turn, if this
    /// turn's receive is already spent).
    pub input: &'a [u8],
    /// Bytes at its end that this call has received, or taken over from what the system received ahead: zero with [`Need::Rest`].
    pub received: usize,
    /// What goes to the client.
    pub output: &'a mut Output,
    /// Nothing will ever follow `input`: the client has shut down its sending side or is gone. It may still read.
    pub end: bool,
}

/// Bounds of one turn, and marks. What is over a bound keeps its place and is first in the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients of which one `poll` reports input.
    pub clients_per_turn: usize,
    /// Connections that one `poll` accepts, over all listeners.
    pub accepts_per_turn: usize,
    /// Bytes that one `flush` hands over for one connection.
    pub send_size: usize,
    /// Bytes that one `flush` hands over for all connections, and no more than `send_size` beyond. Those with no more than
    /// [`SHORT_OUTPUT`] to send wait for nobody.
    pub sends_size: usize,
    /// Unsent bytes of one connection above which a later [`Event::Writable`] is due.
    pub output_mark: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients_per_turn: 128,
            accepts_per_turn: 16,
            send_size: 64 * 1024,
            sends_size: 512 * 1024,
            output_mark: 64 * 1024,
        }
    }
}

/// Output that is sent however much a turn has sent before: most replies.
pub const SHORT_OUTPUT: usize = 16 * 1024;

impl Limits {
    pub(crate) fn check(&self) {
        assert!(
            self.clients_per_turn.min(self.send_size).min(self.sends_size) > 0,
            "a turn may do something"
        );
    }

    /// Whether a connection with so much output may send in a flush that may still send `left` bytes, which become fewer.
    #[inline]
    pub(crate) fn may_send(&self, output_size: usize, left: &mut usize) -> bool {
        if *left == 0 && SHORT_OUTPUT < output_size {
            return false;
        }
        *left = left.saturating_sub(output_size.min(self.send_size));
        true
    }
}

/// What a net has done since it was made. System calls are counted by kind, whether they brought anything or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that gather events, asleep or not.
    pub waits: u64,
    /// Calls that accept, the one that finds nobody included.
    pub accepts: u64,
    /// Calls that receive.
    pub receives: u64,
    /// Calls that send.
    pub sends: u64,
    /// All other calls: registering, shutting down, closing, asking for an address or an error.
    pub controls: u64,
    /// What was asked of the kernel in bulk, together with a wait: no system calls, but work (`io_uring`).
    pub operations: u64,
    /// Receives that brought nothing.
    pub receives_empty: u64,
    /// Sends that took less than was offered: the client reads more slowly than it asks.
    pub sends_short: u64,
    /// Connections opened or taken.
    pub opened: u64,
    /// Connections given to another net.
    pub given: u64,
    /// Connections that ended.
    pub closed: u64,
    /// Clients turned away because the process had no file descriptor left.
    pub refused: u64,
    /// Failed accepts after which listening rested for a while.
    pub rests: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

impl Counters {
    /// All system calls together.
    pub fn system_calls(&self) -> u64 {
        self.waits + self.accepts + self.receives + self.sends + self.controls
    }
}

/// A connection between two nets of one kind; see [`Net::give`]. Dropping it ends the connection.
#[derive(Debug)]
pub struct Handover {
    pub(crate) carrier: kernel::Carrier,
    /// Where the client knocked, as the giving net numbers its listeners.
    pub listener: ListenerId,
    /// The client's end.
    pub peer: Address,
    /// Our end.
    pub local: Address,
}

impl Handover {
    /// A stream socket that this program has connected, for [`Net::take`] of a net over the system's sockets. Nothing has been written
    /// to it or read from it, and it does not block.
    pub fn connected(fd: std::os::fd::OwnedFd, peer: Address, local: Address) -> Handover {
        let socket = epoll::Socket::connected(fd, peer == Address::Unix);
        Handover { carrier: kernel::Carrier::System(socket), listener: ListenerId(u32::MAX), peer, local }
    }
}

/// Connections as bytes in and bytes out. No call blocks.
pub trait Net {
    /// Begins a turn and appends what has happened since the last call to `events`, within [`Limits`].
    fn poll(&mut self, events: &mut Vec<Event>);

    /// Input and output of one connection; `None` for a stale handle. The input is valid until the next call for any
    /// connection, which the borrow checker sees to.
    fn stream(&mut self, conn: ConnId, need: Need) -> Option<Stream<'_>>;

    /// The output alone; nothing is received. `None` for a stale handle.
    fn output(&mut self, conn: ConnId) -> Option<&mut Output>;

    /// Releases the first `size` bytes of the input that `stream` showed. Net keeps the rest, moved at most once.
    ///
    /// # Panics
    /// If `size` is more than was shown: what has not been seen can't have been understood.
    fn consume(&mut self, conn: ConnId, size: usize);

    /// Ends a connection. [`Event::Closed`] follows in a later `poll`.
    fn close(&mut self, conn: ConnId, how: Close);

    /// Ends a turn: hands output over, one send for each connection that has some and can take it. What is more than
    /// [`Limits::send_size`], or [`Limits::sends_size`] together, or more than the client takes, goes in later turns. A net that asks the system for a
    /// turn's work in one call makes it in the next `poll` or [`Wait::wait`], so one of them must follow.
    fn flush(&mut self);

    /// Takes a connection out of this net, for [`Net::take`] of another of the same kind, perhaps on another thread.
    /// `None`, and nothing changes, if the handle is stale or anything has been received or written. What the client
    /// sent meanwhile travels along. No [`Event::Closed`] follows here.
    fn give(&mut self, conn: ConnId) -> Option<Handover>;

    /// Lets a given connection in. No [`Event::Opened`] follows; [`Event::Input`] does, if there is input. `None`: the
    /// system would not, and the client is turned away; nothing follows.
    ///
    /// # Panics
    /// If the handover comes from a net of another kind.
    fn take(&mut self, handover: Handover) -> Option<ConnId>;

    /// The network card's queue over which a connection's packets come, as the kernel numbers it (the NAPI id of
    /// its last packet, `SO_INCOMING_NAPI_ID`). `None` where there is none: memory, Unix sockets, loopback, a stale
    /// handle. It costs a system call, so it is for new connections.
    fn queue(&mut self, conn: ConnId) -> Option<u32>;

    /// The cpu on which the kernel took in a connection's last packet (`SO_INCOMING_CPU`). `None` where nobody knows: memory,
    /// Unix sockets, a stale handle. It costs a system call, so it is for new connections.
    fn cpu(&mut self, conn: ConnId) -> Option<u32>;

    /// The bounds that this net was made with.
    fn limits(&self) -> Limits;

    /// What has been done since the net was made.
    fn counters(&self) -> Counters;

    /// Bytes kept for one connection: input that has come and is not consumed, seen or not, and output that is not sent. None of
    /// either for a stale handle.
    fn kept(&self, conn: ConnId) -> (usize, usize);

    /// Bytes kept for all connections together: output that is not sent yet, as of its last send or flush, and input in
    /// buffers of the connections' own. Known without a walk over them.
    fn kept_size(&self) -> usize;
}

/// Waiting belongs to the lane's runner, not to the lane.
pub trait Wait {
    /// Sleeps until something happens, the bell rings or `timeout_ns` nanoseconds have passed (`None`: no time-out;
    /// `Some(0)`: only looks). Returns at once while net has work left over for the next turn. What it gathers is
    /// kept for the next `poll`, which then needs no system call of its own.
    fn wait(&mut self, timeout_ns: Option<u64>);

    /// Whether a turn has something to do, as far as net knows without asking the system: `wait` would return at
    /// once. For a net in memory that is all there is to know, and a simulator may let its lane sleep.
    fn has_work(&mut self) -> bool;

    /// What wakes this net's sleeper, from any thread.
    fn bell(&self) -> Bell;
}
