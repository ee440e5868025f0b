//! Which words of a command are passwords. SLOWLOG and MONITOR show [`REDACTED`] instead, as Redis does.

use wire::command::{Command, Id};

use crate::request::Args;

pub(crate) const REDACTED: &[u8] = b"(redacted)";

/// Of one command, asked about its words one by one from the first on.
pub(crate) struct Secrets {
    id: Id,
    /// Only keys follow.
    is_through: bool,
    /// So many of the next words are passwords.
    left: usize,
}

impl Secrets {
    pub(crate) fn of(command: &Command, args: Args<'_>) -> Secrets {
        let left = if command.id == Id::Auth { args.len() } else { 0 };
        Secrets { id: command.id, is_through: false, left }
    }

    /// Whether the next word is a password; it is the one at `index`.
    pub(crate) fn hides(&mut self, args: Args<'_>, index: usize) -> bool {
        if index > 0 && self.left > 0 {
            self.left -= 1;
            return true;
        }
        let is = |name: &[u8]| args.flat(index).eq_ignore_ascii_case(name);
        match self.id {
            // Whoever it is about, too.
            Id::AclSetuser if index > 0 => self.left = args.len(),
            // HELLO version AUTH user password: the two behind the word.
            Id::Hello if index > 1 && is(b"auth") => self.left = 2,
            Id::Migrate if index < 6 || self.is_through => {}
            Id::Migrate if is(b"auth") => self.left = 1,
            Id::Migrate if is(b"auth2") => self.left = 2,
            Id::Migrate => self.is_through = is(b"keys"),
            Id::ConfigSet if index > 1 && (is(b"requirepass") || is(b"masterauth")) => self.left = 1,
            _ => {}
        }
        false
    }
}
