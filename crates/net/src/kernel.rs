//! What a net needs of an operating system that tells when a socket is ready: Linux' epoll, or memory.
//!
//! A kernel does what it is told and decides nothing; [`Readiness`](crate::readiness::Readiness) is who tells it.

use std::io::IoSlice;

use crate::{Address, Bell, ConnId, ListenerId, Why};

/// What a readiness engine needs of the system. Each method but `controls` and `bell` is at most one system call,
/// which the engine counts; calls of any other kind the kernel counts itself.
pub trait Kernel {
    /// One connection's end. Dropping it ends the connection.
    type Socket: std::fmt::Debug;

    /// Appends signals, at most one for each connection and listener and `count_max` in all, sleeping up to
    /// `timeout_ns` for the first (`None`: for ever). What is left out comes with the next call.
    fn gather(&mut self, timeout_ns: Option<u64>, count_max: usize, signals: &mut Vec<Signal>);

    /// Lets in one client that knocks at `listener`.
    fn accept(&mut self, listener: ListenerId) -> Accept<Self::Socket>;

    /// From now on `gather` speaks of `socket` as `conn`, beginning with what it is ready for now.
    ///
    /// # Errors
    /// The system has no room for another connection; the errno says why.
    fn register(&mut self, socket: &Self::Socket, conn: ConnId) -> Result<(), i32>;

    /// From now on `gather` no longer speaks of `socket`, which lives on elsewhere.
    fn unregister(&mut self, socket: &Self::Socket);

    /// Receives into `into`, which is not empty, what is there.
    fn receive(&mut self, socket: &Self::Socket, into: &mut [u8]) -> Transfer;

    /// Sends what can be sent at once of `slices`, which are neither none nor empty.
    fn send(&mut self, socket: &Self::Socket, slices: &[IoSlice<'_>]) -> Transfer;

    /// The last send was short: `gather` is to tell when there is room.
    fn want_room(&mut self, socket: &Self::Socket, conn: ConnId);

    /// There was room again.
    fn had_room(&mut self, socket: &Self::Socket, conn: ConnId);

    /// Tells the client that nothing more will be sent.
    fn finish(&mut self, socket: &Self::Socket);

    /// Why a broken connection is broken. At most one system call, which the kernel counts.
    fn verdict(&mut self, socket: &Self::Socket) -> Why;

    /// The queue of the network card over which the client's packets come, as [`Net::queue`](crate::Net::queue)
    /// numbers it. At most one system call, which the kernel counts.
    fn queue(&mut self, socket: &Self::Socket) -> Option<u32>;

    /// The cpu that took in the client's last packet, as [`Net::cpu`](crate::Net::cpu) has it. At most one system call,
    /// which the kernel counts.
    fn cpu(&mut self, socket: &Self::Socket) -> Option<u32>;

    /// Ends a connection.
    fn release(&mut self, socket: Self::Socket);

    /// Puts a socket into a handover, and takes it out again; `None` if it is of another kind.
    fn pack(socket: Self::Socket) -> Carrier;
    /// See `pack`.
    fn unpack(carrier: Carrier) -> Option<Self::Socket>;

    /// What wakes a sleeping `gather`.
    fn bell(&self) -> Bell;

    /// Whether it is known, without a system call, that `gather` has something to tell.
    fn has_signals(&self) -> bool;

    /// System calls of other kinds so far.
    fn controls(&self) -> u64;
}

/// A socket in a handover, by the kind of net that it moves between.
#[derive(Debug)]
pub enum Carrier {
    /// Of the operating system.
    System(crate::epoll::Socket),
    /// Of the operating system, without readiness.
    Ring(crate::uring::Socket),
    /// In memory.
    Memory(crate::mem::Socket),
}

/// A change of readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Whose.
    pub whose: Whose,
    /// There are bytes, or the end of input, to receive.
    pub readable: bool,
    /// There is room to send.
    pub writable: bool,
    /// The client has shut down its sending side: after a short receive nothing will follow.
    pub ending: bool,
    /// The connection is broken; [`Kernel::verdict`] says why.
    pub broken: bool,
}

/// Whom a signal concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A connection, perhaps one that is gone.
    Conn(ConnId),
    /// A listener at which a client knocks.
    Listener(ListenerId),
}

/// What an accept brought.
#[derive(Debug)]
pub enum Accept<S> {
    /// A client, from where, to where.
    Client(S, Address, Address),
    /// A client that left again or was turned away; there may be others.
    Lost,
    /// A client was turned away for lack of descriptors; there may be others.
    Refused,
    /// Nobody knocks.
    Nobody,
    /// The system could not; the listener rests and signals again later.
    Rest,
}

/// What a receive or a send brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// That many bytes, more than none.
    Bytes(usize),
    /// None for now.
    Nothing,
    /// None ever again: the client has sent its last byte.
    End,
    /// The connection is broken.
    Broken(Why),
}
