//! What commands came to, in Redis' terms: calls, failures, refusals, the kinds of errors, keys found and not found.
//!
//! Errors are noted where replies are written ([`wire::reply::Put::note_error`]) and counted where it is known whose they are:
//! on the client's lane after its command, on the lane that ran an ask, in a transaction command by command.

use wire::command::Id;

/// Kinds of errors that are told apart; more are counted in the total alone.
const KINDS_MAX: usize = 128;
/// Bytes of an error in which its first word has to end, as in Redis.
const CODE_SIZE_MAX: usize = 31;

/// The first word of an error: what kind it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ErrorCode {
    bytes: [u8; CODE_SIZE_MAX],
    size: u8,
}

impl ErrorCode {
    /// Of an error's text, with or without the dash before it. One without a short first word is of the kind `ERR`.
    pub(crate) fn of(text: &[u8]) -> ErrorCode {
        let text = text.strip_prefix(b"-").unwrap_or(text);
        let word = text.iter().take(CODE_SIZE_MAX + 1).position(|&byte| byte == b' ').map(|end| &text[..end]);
        ErrorCode::of_word(word.filter(|word| !word.is_empty()).unwrap_or(b"ERR"))
    }

    /// Of a word alone, which is short.
    pub(crate) fn of_word(word: &[u8]) -> ErrorCode {
        let mut bytes = [0; CODE_SIZE_MAX];
        bytes[..word.len()].copy_from_slice(word);
        ErrorCode { bytes, size: u8::try_from(word.len()).expect("at most 31") }
    }

    pub(crate) fn word(&self) -> &[u8] {
        &self.bytes[..usize::from(self.size)]
    }

    /// Whether it says that the command was not called at all, though whoever dispatched it counted a call.
    fn undoes_a_call(self) -> bool {
        matches!(self.word(), b"OOM" | b"MOVED" | b"CROSSSLOT" | b"NOREPLICAS" | b"NOPERM")
    }
}

/// One command's part. A call may be counted on the client's lane and undone on the lane that owns the key, so only the
/// difference over all lanes means something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) count: u64,
    pub(crate) undone_count: u64,
    /// Refused before it ran: wrong number of arguments, not allowed, no memory, another node's key.
    pub(crate) rejected_count: u64,
    /// Ran and answered with an error.
    pub(crate) failed_count: u64,
}

/// See the top of this file.
#[derive(Clone)]
pub(crate) struct Tally {
    /// By [`Id`].
    pub(crate) calls: Box<[Calls; Id::COUNT]>,
    pub(crate) error_count: u64,
    pub(crate) kinds: Vec<(ErrorCode, u64)>,
    pub(crate) looks: Looks,
}

/// Keys that reading commands found, and did not find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looks {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl Looks {
    /// Those since there were so many.
    pub(crate) fn since(self, before: Looks) -> Looks {
        Looks { hits: self.hits - before.hits, misses: self.misses - before.misses }
    }

    pub(crate) fn add(&mut self, other: Looks) {
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

impl Default for Tally {
    fn default() -> Tally {
        let calls = Box::new([Calls::default(); Id::COUNT]);
        Tally { calls, error_count: 0, kinds: Vec::new(), looks: Looks::default() }
    }
}

impl Tally {
    /// So many calls of a command.
    #[inline]
    pub(crate) fn called(&mut self, id: Id, count: u64) {
        self.calls[id as usize].count += count;
    }

    /// A command was called and answered with these errors.
    #[cold]
    pub(crate) fn failed(&mut self, id: Id, codes: Vec<ErrorCode>) {
        let calls = &mut self.calls[id as usize];
        if codes.iter().any(|code| code.undoes_a_call()) {
            calls.undone_count += 1;
            calls.rejected_count += 1;
        } else {
            calls.failed_count += 1;
        }
        self.erred(codes);
    }

    /// A command, if it is one, was refused with these errors.
    #[cold]
    pub(crate) fn rejected(&mut self, id: Option<Id>, codes: Vec<ErrorCode>) {
        if let Some(id) = id {
            self.calls[id as usize].rejected_count += 1;
        }
        self.erred(codes);
    }

    /// Notes whether a reading command has found its key.
    #[inline]
    pub(crate) fn looked(&mut self, is_found: bool) {
        if is_found {
            self.looks.hits += 1;
        } else {
            self.looks.misses += 1;
        }
    }

    fn erred(&mut self, codes: Vec<ErrorCode>) {
        for code in codes {
            self.error_count += 1;
            if let Some((_, count)) = self.kinds.iter_mut().find(|(known, _)| *known == code) {
                *count += 1;
            } else if self.kinds.len() < KINDS_MAX {
                self.kinds.push((code, 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_of_the_kind_of_its_first_word() {
        for (text, want) in [
            ("ERR no", "ERR"),
            ("-WRONGTYPE Operation", "WRONGTYPE"),
            ("no", "ERR"),
            (" x", "ERR"),
            ("THIRTYONE_LETTERS_ARE_A_KIND_YES x", "ERR"),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDE x", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDE"),
        ] {
            assert_eq!(ErrorCode::of(text.as_bytes()).word(), want.as_bytes(), "{text}");
        }
    }

    #[test]
    fn kinds_are_bounded_and_all_errors_counted() {
        let mut tally = Tally::default();
        for number in 0..200 {
            tally.rejected(None, vec![ErrorCode::of(format!("E{number} x").as_bytes())]);
        }
        assert_eq!((tally.kinds.len(), tally.error_count), (KINDS_MAX, 200));
    }
}
