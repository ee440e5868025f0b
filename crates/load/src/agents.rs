//! A load from several hosts: what a coordinator and its agents say to each other, as state machines over bytes.
//!
//! ```text
//! coordinator                                                          agent
//!   hello      magic, version, 32 bytes of chance ──────────────────▶
//!              ◀────────────────── magic, version, 32 bytes of chance  challenge
//!   proof      HMAC(secret, "coordinator", hello, challenge) ───────▶  or it hangs up
//!              ◀────────────── HMAC(secret, "agent", hello, challenge) proof
//!   ── from here on frames, each with a tag under its direction's key and its number ──
//!              ◀──────────────────────────────────── welcome, or busy
//!   ping       twice a second, and before and after each load ──────▶
//!              ◀────────────────────────────────────────── its clocks  pong
//!   prepare    what is asked, its part of the connections ──────────▶  connects, logs in
//!              ◀────────────────────────────────────────── its threads ready
//!   start      at this time of your clock, as threads 4 to 7 of 8 ──▶
//!              ◀────────────────────────────── a second, a second, … done
//! ```
//!
//! The secret is proved and never sent. What follows is authentic: a frame that was changed, left out, repeated, sent back or made
//! up ends the connection. It is not encrypted: whoever can listen learns what is loaded, and what came of it. A server's
//! password is therefore not part of it; agents have their own.
//!
//! [`handshake`] and [`frame`] are bytes in and bytes out, [`message`] is what frames hold, [`session`] what an agent may be
//! asked when, [`progress`] what a coordinator believes. [`clock`] compares clocks, [`division`] divides a load, [`told`] is what
//! a result keeps of each agent. Sockets, threads and chance are the caller's.

pub mod clock;
pub mod division;
pub mod frame;
pub mod handshake;
pub mod message;
pub mod progress;
pub mod session;
pub mod told;

use std::fmt;

/// Of what is said. Both sides must have the same.
pub const VERSION: u32 = 2;
/// Agents of one load at most: with more, sums of what they count might not fit.
pub const AGENTS_MAX: usize = 64;

/// Why a connection is ended: the other side did what its protocol does not allow, or somebody between the two did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The first bytes are not this protocol's.
    Stranger,
    /// Of the other side.
    Version(u32),
    /// It sends back what it was sent.
    Mirror,
    /// It does not know the secret.
    Secret,
    /// A frame announces more bytes than may come.
    Size {
        /// Announced.
        size: u32,
        /// Allowed.
        most: u32,
    },
    /// A frame was not made by the other side as its next one.
    Tag,
    /// A frame holds what can't be read.
    Nonsense(String),
    /// What can be read, and should not have been said now.
    Untimely(String),
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::Stranger => {
                f.write_str("whoever is there is no part of `expresslane bench`: look at the port")
            }
            Breach::Version(theirs) => write!(
                f,
                "it speaks version {theirs} of the protocol of agents, and this program {VERSION}: install the same on all hosts"
            ),
            Breach::Mirror => f.write_str("it sends back what it was sent: look at the port"),
            Breach::Secret => f.write_str("its secret is another one: give all hosts the same --secret-file"),
            Breach::Size { size, most } => {
                write!(f, "it announces a frame of {size} bytes, and {most} are allowed")
            }
            Breach::Tag => f.write_str(
                "a frame is not what was sent: somebody between the two changed, repeated or dropped it",
            ),
            Breach::Nonsense(why) => write!(f, "it says what can't be read: {why}"),
            Breach::Untimely(what) => write!(f, "it says what does not belong here: {what}"),
        }
    }
}
