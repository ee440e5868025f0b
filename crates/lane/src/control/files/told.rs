//! What the control thread and the program say to each other about files.

use std::sync::Arc;

use net::Handover;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// All data at one point in time, by itself: `dbfilename`.
    Snapshot,
    /// The same, at the beginning of a log.
    Base,
    /// What changes from a base's point in time on.
    Log {
        /// The base's number.
        base: u64,
        /// Nothing is missing between it and what was there: the file before it ends where it begins, or all files have just been loaded.
        goes_on: bool,
    },
}

/// Where data are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The snapshot's file.
    Snapshot,
    /// The log's.
    Log,
}

/// What becomes of data that are there when others are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// They are deleted before.
    Emptied,
    /// They stay, and a name that is there already ends the load.
    Kept,
    /// They stay, but for names that are loaded.
    Merged,
}

/// What the program is to do with files. None of it is waited for.
#[derive(Clone, Debug)]
pub enum FileOrder {
    /// Begin a file. No number comes twice.
    Begin {
        /// Its number.
        file: u64,
        /// What it is.
        kind: FileKind,
    },
    /// Append to it.
    Piece {
        /// Whose.
        file: u64,
        /// What it has next.
        bytes: Arc<Vec<u8>>,
    },
    /// That was all: it is to be on disk, and in its place.
    End {
        /// Which.
        file: u64,
    },
    /// Nobody wants it any more.
    Abandon {
        /// Which.
        file: u64,
    },
    /// From now on what is written to the log is on disk after a second (`appendfsync everysec`), or when the system likes (`no`).
    SyncEverySecond(bool),
    /// Put data where there are none: Redis' databases are closed to clients meanwhile.
    Load(Source, Beside),
    /// They are open.
    Opened,
    /// What there was at the start can't be loaded: the process ends.
    GiveUp(String),
}

/// What has become of it.
#[derive(Debug)]
pub enum FileNews {
    /// So many bytes of a file have been written.
    Taken {
        /// Which.
        file: u64,
        /// Bytes.
        size: usize,
    },
    /// A file has ended, is on disk and in its place.
    Written {
        /// Which.
        file: u64,
    },
    /// It could not be written. What there was of it is gone.
    Failed {
        /// Which.
        file: u64,
        /// In words.
        why: String,
    },
    /// The log can't be written further, or can again.
    Trouble(Option<String>),
    /// A load has ended.
    Loaded(Result<Loaded, String>),
    /// A connection of the program's own, for a lane.
    Inner {
        /// Which.
        lane: u16,
        /// Its end.
        handover: Handover,
    },
}

/// What was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Keys that were stored.
    pub keys: u64,
    /// Keys whose time had come.
    pub expired: u64,
    /// Commands of the log behind those.
    pub commands: u64,
}
