//! How an engine's run ends: what is left of it, and why it ended before its time.

use std::fmt;

use super::SILENCE_NS_MAX;
use crate::record::Second;

/// Different texts of errors that are kept.
const ERROR_TEXTS_MAX: usize = 8;
/// Bytes of such a text.
const ERROR_TEXT_SIZE_MAX: usize = 200;

/// What is left of an engine's run.
#[derive(Debug)]
pub struct End {
    /// The second that the end cut.
    pub last: Second,
    /// What share of a second it is.
    pub last_share: f64,
    /// Requests that were never answered.
    pub unanswered: u64,
    /// Those that were.
    pub answered: u64,
    /// From the beginning to the last reply.
    pub elapsed_ns: u64,
    /// What errors said.
    pub error_texts: Vec<ErrorText>,
}

/// An error's text, and how often it came.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ErrorText {
    /// Its beginning.
    pub text: String,
    /// Replies with it.
    pub count: u64,
}

/// Why a run ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server closed a connection, with what the system says.
    Lost(String),
    /// Bytes that are no reply.
    Nonsense(String),
    /// A reply that answers nothing.
    Unasked,
    /// Replies are owed, and nothing comes.
    Silent,
    /// So many are owed, which is too many.
    Behind(u64),
}

impl Failure {
    /// How the words of [`Failure::Lost`] begin.
    pub const CLOSED: &str = "the server closed a connection";
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Lost(why) => write!(f, "{} ({why}): look into its log", Failure::CLOSED),
            Failure::Nonsense(why) => write!(
                f,
                "the server does not speak this protocol: {why}; say what it speaks with --protocol"
            ),
            Failure::Unasked => f.write_str("the server answers what was not asked"),
            Failure::Silent => {
                write!(
                    f,
                    "the server owes replies and has said nothing for {} s",
                    SILENCE_NS_MAX / 1_000_000_000
                )
            }
            Failure::Behind(count) => write!(
                f,
                "{count} requests are unanswered: the server cannot keep up with this rate; choose a lower one"
            ),
        }
    }
}

#[cold]
pub(super) fn count(texts: &mut Vec<ErrorText>, text: &[u8]) {
    let text = String::from_utf8_lossy(&text[..text.len().min(ERROR_TEXT_SIZE_MAX)]).into_owned();
    if let Some(known) = texts.iter_mut().find(|known| known.text == text) {
        known.count += 1;
    } else if texts.len() < ERROR_TEXTS_MAX {
        texts.push(ErrorText { text, count: 1 });
    }
}
