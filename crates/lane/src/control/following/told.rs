//! What the control thread and the program say to each other about the server that is followed.

use net::Handover;

/// Who is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// A name or an address.
    pub host: String,
    /// Its port for Redis' clients.
    pub port: u16,
}

/// How it is spoken to. What changes holds from the next connection on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// `masteruser`; empty for the default user.
    pub user: String,
    /// `masterauth`; empty for none.
    pub password: String,
    /// `repl-timeout`: one that says nothing for so many seconds is given up. This holds at once.
    pub timeout_s: u64,
    /// `replica-announce-ip`; empty for the connection's own.
    pub announce_ip: String,
    /// `replica-announce-port`, or the shared port.
    pub announce_port: u16,
}

/// What the program is to do. None of it is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowOrder {
    /// Follow somebody from the beginning; nobody that was followed before is any more.
    Begin {
        /// A number that is on all news of it. None comes twice.
        number: u64,
        /// Who it is.
        primary: Primary,
    },
    /// How any of them are spoken to.
    Heed(Terms),
    /// Empty the lanes and put into them what there is: they are closed to clients.
    Load(u64),
    /// Go on with what changes: lanes let clients in.
    Serve(u64),
    /// Follow nobody. What has come whole is done first.
    End(u64),
}

/// What has become of it.
#[derive(Debug)]
pub enum FollowNews {
    /// A connection of the program's own, for a lane.
    Inner {
        /// Which.
        lane: u16,
        /// Its end.
        handover: Handover,
    },
    /// Something about the one that was begun under this number.
    Of(u64, Followed),
}

/// What there is to say of one that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// It is being connected to.
    Connects,
    /// It is there, and is told who this is.
    Greets,
    /// It gets ready to send all that it has.
    Prepares,
    /// It is about to send all that it has: lanes are to be closed to clients, which [`FollowOrder::Load`] answers.
    Sends,
    /// So much of that has been read.
    Read {
        /// Bytes.
        size: u64,
        /// All of them, if that is known.
        total: Option<u64>,
    },
    /// Lanes have all of it, or what came last: they are to let clients in, which [`FollowOrder::Serve`] answers.
    InStep {
        /// Where in its stream.
        offset: u64,
    },
    /// It has been heard, and all up to there is done.
    Offset(u64),
    /// It is not there any more, or never was, in words. It is tried again.
    Gone(String),
    /// It is not followed any more, and nothing of it is on its way.
    Ended,
}
