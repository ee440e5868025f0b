//! Fixed texts: what memcached 1.6.18 answers where nothing of the data is in the answer.

/// The status of a binary reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// Done.
    pub const OK: Status = Status(0);
    /// No such key.
    pub const NOT_FOUND: Status = Status(0x01);
    /// There is such a key, or one with another CAS.
    pub const EXISTS: Status = Status(0x02);
    /// Not appended, not prepended.
    pub const NOT_STORED: Status = Status(0x05);
    /// SASL goes on.
    pub const AUTH_CONTINUE: Status = Status(0x21);
}

/// A text that is said without looking at the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Say {
    /// No such command, or not with so many words.
    #[default]
    Error,
    /// A key too long, or a number that is none.
    BadFormat,
    /// Words are missing behind `stats`.
    BadLine,
    /// A value that does not end in `\r\n` where its size says.
    BadChunk,
    /// `delete` with something else than `0` and `noreply`.
    DeleteUsage,
    /// An expiry that is no number.
    BadExptime,
    /// A delta that is no number.
    BadDelta,
    /// A value that is no number.
    NotNumber,
    /// More than `item_size_max`.
    TooLarge,
    /// No memory for it.
    OutOfMemory,
    /// A flag twice, or one that is no letter.
    DuplicateFlag,
    /// A flag that there is not.
    InvalidFlag,
    /// One of both, of `md` and `ma`.
    FlagError,
    /// The number behind a flag is none.
    BadToken,
    /// The key is no base64.
    BadBase64,
    /// `M` without exactly one letter.
    ModeSize,
    /// `J` without a number.
    BadInitial,
    /// `D` without a number.
    BadStep,
    /// `O` with more than 31 bytes.
    OpaqueTooLong,
    /// `M` of `ms` with another letter.
    SetMode,
    /// `M` of `ma` with another letter.
    ArithmeticMode,
    /// More flags than `mg` takes.
    GetFlagsTooMany,
    /// More flags than the other meta commands take.
    FlagsTooMany,
    /// `stats detail` without `on`, `off` or `dump`.
    DetailUsage,
    /// `stats reset` is done.
    Reset,
    /// `shutdown`.
    ShutdownRefused,
    /// `slabs reassign`: there are no slabs.
    SlabsRefused,
    /// `lru_crawler`: there is none.
    CrawlerRefused,
    /// `lru_crawler enable`, likewise.
    CrawlerFailed,
    /// `lru_crawler disable`: it is.
    Done,
    /// `watch`.
    WatchRefused,
    /// `cache_memlimit`: the limit is a setting of the whole server.
    MemoryLimitRefused,
    /// `refresh_certs`: there is no TLS.
    TlsRefused,
    /// A binary opcode that there is not.
    UnknownCommand,
    /// A binary request whose parts have sizes that the opcode does not have.
    InvalidArguments,
    /// Not before a password.
    Unauthenticated,
    /// That was not the password.
    WrongPassword,
    /// The entry is locked.
    Locked,
    /// The partition is elsewhere.
    NotMyVbucket,
    /// There is such an opcode, but not here.
    NotSupported,
    /// Try again.
    Busy,
    /// Try again later.
    TemporaryFailure,
    /// What is no request at all, whose sender is not answered: a wrong first byte, a line without an end, HTTP.
    Nothing,
}

/// Who was wrong, as the first word of a text says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nobody: it is no error.
    Nobody,
    /// `ERROR`: no such command.
    Command,
    /// `CLIENT_ERROR`
    Client,
    /// `SERVER_ERROR`
    Server,
}

impl Say {
    /// The last one; codes count up to it.
    const LAST: u8 = Say::Nothing as u8;

    /// All, by their code.
    const ALL: [Say; Say::LAST as usize + 1] = [
        Say::Error,
        Say::BadFormat,
        Say::BadLine,
        Say::BadChunk,
        Say::DeleteUsage,
        Say::BadExptime,
        Say::BadDelta,
        Say::NotNumber,
        Say::TooLarge,
        Say::OutOfMemory,
        Say::DuplicateFlag,
        Say::InvalidFlag,
        Say::FlagError,
        Say::BadToken,
        Say::BadBase64,
        Say::ModeSize,
        Say::BadInitial,
        Say::BadStep,
        Say::OpaqueTooLong,
        Say::SetMode,
        Say::ArithmeticMode,
        Say::GetFlagsTooMany,
        Say::FlagsTooMany,
        Say::DetailUsage,
        Say::Reset,
        Say::ShutdownRefused,
        Say::SlabsRefused,
        Say::CrawlerRefused,
        Say::CrawlerFailed,
        Say::Done,
        Say::WatchRefused,
        Say::MemoryLimitRefused,
        Say::TlsRefused,
        Say::UnknownCommand,
        Say::InvalidArguments,
        Say::Unauthenticated,
        Say::WrongPassword,
        Say::Locked,
        Say::NotMyVbucket,
        Say::NotSupported,
        Say::Busy,
        Say::TemporaryFailure,
        Say::Nothing,
    ];

    /// The one with this code.
    pub(super) fn of(code: u8) -> Say {
        Say::ALL[usize::from(code)]
    }

    /// The line of text and meta, without its end.
    pub fn text(self) -> &'static str {
        match self {
            Say::Error | Say::UnknownCommand => "ERROR",
            Say::BadFormat => "CLIENT_ERROR bad command line format",
            Say::BadLine => "CLIENT_ERROR bad command line",
            Say::BadChunk => "CLIENT_ERROR bad data chunk",
            Say::DeleteUsage => "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
            Say::BadExptime => "CLIENT_ERROR invalid exptime argument",
            Say::BadDelta => "CLIENT_ERROR invalid numeric delta argument",
            Say::NotNumber => "CLIENT_ERROR cannot increment or decrement non-numeric value",
            Say::TooLarge => "SERVER_ERROR object too large for cache",
            Say::OutOfMemory => "SERVER_ERROR out of memory storing object",
            Say::DuplicateFlag => "CLIENT_ERROR duplicate flag",
            Say::InvalidFlag => "CLIENT_ERROR invalid flag",
            Say::FlagError => "CLIENT_ERROR invalid or duplicate flag",
            Say::BadToken => "CLIENT_ERROR bad token in command line format",
            Say::BadBase64 => "CLIENT_ERROR error decoding key",
            Say::ModeSize => "CLIENT_ERROR incorrect length for M token",
            Say::BadInitial => "CLIENT_ERROR invalid numeric initial value",
            Say::BadStep => "CLIENT_ERROR invalid numeric delta value",
            Say::OpaqueTooLong => "CLIENT_ERROR opaque token too long",
            Say::SetMode => "CLIENT_ERROR invalid mode for ms M token",
            Say::ArithmeticMode => "CLIENT_ERROR invalid mode for ma M token",
            Say::GetFlagsTooMany => "CLIENT_ERROR options flags are too long",
            Say::FlagsTooMany => "CLIENT_ERROR options flags too long",
            Say::DetailUsage => "CLIENT_ERROR usage: stats detail on|off|dump",
            Say::Reset => "RESET",
            Say::ShutdownRefused => "ERROR: shutdown not enabled",
            Say::SlabsRefused => "CLIENT_ERROR slab reassignment disabled",
            Say::CrawlerRefused => "CLIENT_ERROR lru crawler disabled",
            Say::CrawlerFailed => "ERROR failed to start lru crawler thread",
            Say::Done => "OK",
            Say::WatchRefused => "CLIENT_ERROR watch commands not allowed",
            Say::MemoryLimitRefused => "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust",
            Say::TlsRefused => "Error TLS not enabled",
            Say::InvalidArguments => "CLIENT_ERROR invalid arguments",
            Say::Unauthenticated => "CLIENT_ERROR unauthenticated",
            Say::WrongPassword => "CLIENT_ERROR authentication failure",
            Say::Locked => "SERVER_ERROR locked",
            Say::NotMyVbucket => "SERVER_ERROR not my vbucket",
            Say::NotSupported => "SERVER_ERROR not supported",
            Say::Busy => "SERVER_ERROR busy",
            Say::TemporaryFailure => "SERVER_ERROR temporary failure",
            Say::Nothing => "",
        }
    }

    /// The status and the body of a binary reply. What only lines can get wrong is an invalid argument.
    pub fn status(self) -> (Status, &'static str) {
        match self {
            Say::NotNumber => (Status(0x06), "Non-numeric server-side value for incr or decr"),
            Say::TooLarge => (Status(0x03), "Too large."),
            Say::OutOfMemory => (Status(0x82), "Out of memory allocating item"),
            Say::Error | Say::UnknownCommand => (Status(0x81), "Unknown command"),
            Say::Unauthenticated | Say::WrongPassword => (Status(0x20), "Auth failure."),
            Say::Locked => (Status(0x09), ""),
            Say::NotMyVbucket => (Status(0x07), ""),
            Say::NotSupported => (Status(0x83), "Not supported"),
            Say::Busy => (Status(0x85), "Busy"),
            Say::TemporaryFailure => (Status(0x86), "Temporary failure"),
            _ => (Status(0x04), "Invalid arguments"),
        }
    }

    /// Who was wrong.
    pub fn blame(self) -> Blame {
        let text = self.text();
        if matches!(self, Say::Reset | Say::Done) {
            Blame::Nobody
        } else if text.starts_with("ERROR") {
            Blame::Command
        } else if text.starts_with("SERVER_ERROR") {
            Blame::Server
        } else {
            Blame::Client
        }
    }
}

impl Blame {
    /// The word under which errors are counted; none for [`Blame::Nobody`].
    pub fn code(self) -> Option<&'static str> {
        match self {
            Blame::Nobody => None,
            Blame::Command => Some("ERROR"),
            Blame::Client => Some("CLIENT_ERROR"),
            Blame::Server => Some("SERVER_ERROR"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_count_up() {
        for (code, say) in (0..).zip(Say::ALL) {
            assert_eq!((say as u8, Say::of(code)), (code, say));
        }
    }

    #[test]
    fn the_first_word_says_who_was_wrong() {
        for (say, want) in [
            (Say::Error, Blame::Command),
            (Say::ShutdownRefused, Blame::Command),
            (Say::BadChunk, Blame::Client),
            (Say::Nothing, Blame::Client),
            (Say::MemoryLimitRefused, Blame::Client),
            (Say::TooLarge, Blame::Server),
            (Say::Done, Blame::Nobody),
        ] {
            assert_eq!(say.blame(), want);
            let word = want.code().unwrap_or_default();
            assert!(word.is_empty() || !say.text().contains("ERROR ") || say.text().starts_with(word));
        }
    }
}
