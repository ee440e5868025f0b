//! What a client speaks: its bytes become the same commands, whatever the dialect.
//!
//! A dialect is a decoder and a few commands of its own. Its replies are written where they arise, by the words in argument
//! 0 of its commands; everything between (locks, rings, order of replies, memory, statistics) knows nothing of it.

use std::hint::cold_path;

use wire::aerospike;
use wire::command::{COMMANDS, Command, Id, Refusal};
use wire::http;
use wire::memcached::{self, Framing};
use wire::resp::{self, ArgRanges, Decoder, Step, Token, UNAUTHENTICATED_BULK_MAX};

use crate::Settings;
use crate::client::Dialect;
use crate::dispatch::resolve_name;
use crate::documents;
use crate::namespaces::Namespaces;
use crate::records;
use crate::request::Args;

/// A client's decoder.
pub(crate) enum Language {
    Resp(Decoder),
    /// None until its first byte shows which of the framings it is; Couchbase's is known before.
    Memcached(Option<memcached::Decoder>),
    Http(http::Decoder),
    Aerospike(aerospike::Decoder),
}

/// What a client may send. Each dialect looks up its own: most commands are read without.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'s> {
    pub(crate) settings: &'s Settings,
    pub(crate) is_authenticated: bool,
    /// It brings what others have let pass.
    pub(crate) is_inner: bool,
}

impl Limits<'_> {
    fn resp(self) -> resp::Limits {
        resp::Limits {
            bulk_size_max: self.settings.bulk_size_max_of(self.is_inner),
            authenticated: self.is_authenticated,
            ..resp::Limits::default()
        }
    }

    fn memcached(self) -> memcached::Limits {
        // Before the password nothing is wanted but the password, which is the value of an item.
        let size_max = if self.is_authenticated { u64::MAX } else { UNAUTHENTICATED_BULK_MAX };
        let item_size_max = self.settings.item_size_max.min(size_max);
        memcached::Limits { item_size_max, authenticated: self.is_authenticated }
    }

    fn aerospike(self) -> aerospike::Limits {
        let record_size_max = self.settings.aerospike.record_size_max;
        aerospike::Limits { record_size_max, authenticated: self.is_authenticated }
    }
}

/// Where a decoder stands between two commands.
#[derive(Default)]
pub(crate) enum Place {
    /// Where a new one does. RESP's commands stand alone, and so do requests of pages.
    #[default]
    Start,
    Memcached(memcached::State),
    Aerospike(aerospike::State),
}

impl Language {
    /// What clients of a dialect speak, who may name these namespaces.
    pub(crate) fn of(dialect: Dialect, namespaces: &Namespaces) -> Language {
        match dialect {
            Dialect::Redis => Language::Resp(Decoder::default()),
            Dialect::Memcached => Language::Memcached(None),
            Dialect::Couchbase => Language::Memcached(Some(memcached::Decoder::new(Framing::Couchbase))),
            Dialect::Management => Language::Http(http::Decoder::default()),
            Dialect::Aerospike => Language::Aerospike(aerospike::Decoder::new(namespaces.record_names())),
        }
    }

    #[inline]
    pub(crate) fn decode(&mut self, input: &[u8], ranges: &mut ArgRanges, limits: Limits<'_>) -> Step {
        match self {
            Language::Resp(decoder) => decoder.decode(input, ranges, &limits.resp()),
            Language::Memcached(decoder) => {
                let first = input.first().copied().unwrap_or_default();
                let decoder = decoder.get_or_insert_with(|| memcached::Decoder::new(Framing::of(first)));
                decoder.decode(input, ranges, &limits.memcached())
            }
            Language::Http(decoder) => decoder.decode(input, ranges),
            Language::Aerospike(decoder) => decoder.decode(input, ranges, &limits.aerospike()),
        }
    }

    /// Whether what comes next is a command of RESP from its first byte on.
    #[inline]
    pub(crate) fn is_new_resp(&self) -> bool {
        matches!(self, Language::Resp(decoder) if decoder.is_new())
    }

    pub(crate) fn token(&mut self, input: &[u8], limits: Limits<'_>) -> (Token, usize) {
        match self {
            Language::Resp(decoder) => decoder.token(input, &limits.resp()),
            Language::Memcached(decoder) => {
                let decoder = decoder.as_mut().expect("a large request was looked at before");
                decoder.token(input)
            }
            Language::Http(_) => unreachable!("requests of pages are short"),
            Language::Aerospike(decoder) => decoder.token(input, &limits.aerospike()),
        }
    }

    /// Bytes that the decoder holds of a request that is not whole.
    pub(crate) fn held_size(&self) -> usize {
        match self {
            Language::Aerospike(decoder) => decoder.held_size(),
            _ => 0,
        }
    }

    /// Bytes that compressed requests have become since this was asked last.
    pub(crate) fn take_inflated(&mut self) -> usize {
        match self {
            Language::Aerospike(decoder) => decoder.take_inflated(),
            _ => 0,
        }
    }

    /// Which command has these arguments, the first of which is in one piece.
    #[inline]
    pub(crate) fn resolve(&self, name: &[u8], args: Args<'_>) -> Result<&'static Command, Refusal> {
        match self {
            Language::Resp(_) => resolve_name(name, args),
            Language::Memcached(_) => Ok(documents::command_of(name)),
            Language::Http(_) => Ok(&COMMANDS[Id::PageGet as usize]),
            Language::Aerospike(_) => Ok(records::command_of(name)),
        }
    }

    /// Whether its decoder, or the one that the first bytes choose, may stand elsewhere between two commands than a new one would. If not,
    /// [`Language::rewind`] looks at no place.
    #[inline(always)]
    pub(crate) fn keeps_places(&self) -> bool {
        matches!(self, Language::Memcached(_) | Language::Aerospike(_))
    }

    /// Notes where the command begins that is decoded next. Most begin where a new decoder would, and to write that down is one
    /// byte.
    #[inline(always)]
    pub(crate) fn note_place(&self, place: &mut Place) {
        let is_new = match self {
            Language::Resp(_) | Language::Http(_) | Language::Memcached(None) => true,
            Language::Memcached(Some(decoder)) => decoder.is_new(),
            Language::Aerospike(decoder) => decoder.is_new(),
        };
        // What is there already is not written: what it replaced would be looked at for something to free.
        if !is_new || !matches!(place, Place::Start) {
            cold_path();
            *place = self.place();
        }
    }

    #[inline(never)]
    fn place(&self) -> Place {
        match self {
            Language::Memcached(Some(decoder)) if !decoder.is_new() => Place::Memcached(decoder.state()),
            Language::Aerospike(decoder) if !decoder.is_new() => Place::Aerospike(decoder.state()),
            _ => Place::Start,
        }
    }

    /// Goes back to where a command begins.
    pub(crate) fn rewind(&mut self, place: &Place) {
        match self {
            Language::Resp(decoder) => *decoder = Decoder::default(),
            Language::Http(decoder) => *decoder = http::Decoder::default(),
            Language::Memcached(None) => {}
            Language::Memcached(Some(decoder)) => decoder.rewind(match place {
                Place::Memcached(state) => *state,
                _ => memcached::State::default(),
            }),
            Language::Aerospike(decoder) => decoder.rewind(match place {
                Place::Aerospike(state) => state.clone(),
                _ => aerospike::State::default(),
            }),
        }
    }
}
