//! Connections that the server begins itself, as the control thread sees them: bytes out, and later what has come of it.

use std::time::Duration;

/// See the top of this file. No call blocks. Connections have the numbers that their user gives them, each once.
pub trait Outgoing {
    /// Begins a connection to a host, by name or address: [`Reached::Connected`], [`Reached::Refused`] or [`Reached::Ended`] comes of
    /// it, the last at the latest when the time is over.
    fn dial(&mut self, link: u64, host: &str, port: u16, timeout: Duration);
    /// Sends bytes behind those before; [`Reached::Sent`] says how many of them have left.
    fn send(&mut self, link: u64, bytes: Vec<u8>);
    /// Ends a connection. What was on its way may still be heard of.
    fn hang_up(&mut self, link: u64);
    /// What has happened that was not heard yet: to which connection, and what.
    fn hear(&mut self) -> Option<(u64, Reached)>;
}

/// What happens to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It is there.
    Connected,
    /// So many more bytes have left.
    Sent(usize),
    /// These have come.
    Received(Vec<u8>),
    /// It could not be made: where the name leads nobody listens.
    Refused,
    /// It could not be made for another reason, or is no more.
    Ended,
}
