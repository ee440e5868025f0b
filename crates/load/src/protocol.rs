//! What a server is spoken to in: requests are put, replies are counted. A protocol is a value of a type, so that an engine's
//! loop is compiled for each.
//!
//! Requests are prepared: a text whose key digits are overwritten, and for what is set a value out of one long filler. A value
//! says whose it is: its first twelve bytes are its key's digits, the rest is the filler's at the same place. So whoever gets
//! it back can tell.

pub mod aerospike;
pub mod couchbase;
pub mod memcached;
pub mod resp;

use net::Output;

use crate::connect::Dialect;
use crate::engine::keys::DIGITS_COUNT;
use crate::workload::{Operation, Sizes, Workload};

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With a value, or with what amounts to "done".
    Value,
    /// There is nothing.
    Miss,
    /// With an error.
    Error,
    /// It was no answer: something that the server says by itself.
    Aside,
}

/// A part of a reply that somebody may want to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The text of an error.
    Error(&'a [u8]),
    /// The next bytes of a value.
    Bytes(&'a [u8]),
}

/// How one kind of server is spoken to.
pub trait Protocol {
    /// How far the reply under way of one connection is read.
    type Reading: Default;

    /// A connection carries one request at a time; others wait until it is answered.
    const IS_SERIAL: bool = false;

    /// Appends the request of the mix's `operation`-th operation. `key` tells the number of a key each time it is called; `size`
    /// is that of the value, if one is set.
    fn put(&mut self, operation: usize, key: &mut dyn FnMut() -> u32, size: usize, output: &mut Output);

    /// The value that the next answer is, if it is one and there as a whole, and how many bytes that takes: the short way for what most
    /// answers are. None: [`Protocol::next`] tells what there is.
    #[inline]
    fn whole_value<'a>(_reading: &mut Self::Reading, _input: &'a [u8]) -> Option<(&'a [u8], usize)> {
        None
    }

    /// Reads on until an answer ends or the input does, and returns how many bytes are dealt with. `see` is shown what is in it.
    ///
    /// # Errors
    /// Why the bytes are no reply. The connection is then of no use.
    fn next(
        reading: &mut Self::Reading,
        input: &[u8],
        see: &mut impl FnMut(Part<'_>),
    ) -> Result<(Option<Answer>, usize), String>;
}

/// Whether a workload can be asked for in a dialect, of a cluster or of one server, so many requests at once.
///
/// # Errors
/// What can't be, in words for whoever chose it.
pub fn check(dialect: Dialect, is_cluster: bool, pipeline: u32, workload: &Workload) -> Result<(), String> {
    let has_many = workload.operations.0.iter().any(|(operation, _)| matches!(operation, Operation::Mget(_)));
    if dialect.has_map() && has_many {
        return Err(format!("mget is not asked for in {dialect}: its keys would belong to several nodes"));
    }
    if dialect == Dialect::Aerospike && pipeline > 1 {
        return Err(
            "a connection to Aerospike carries one request at a time: leave --pipeline at 1, and take more \
                    --connections"
                .to_owned(),
        );
    }
    if is_cluster && has_many {
        return Err("mget and --cluster don't go together: its keys would belong to several nodes".to_owned());
    }
    if is_cluster && dialect.is_memcached() {
        return Err("--cluster follows a Redis Cluster: memcached has none".to_owned());
    }
    Ok(())
}

/// The values that are set: what they look like for each key and size.
pub(crate) struct Values {
    filler: Vec<u8>,
}

impl Values {
    pub(crate) fn new(sizes: &Sizes) -> Values {
        // Letters and digits that do not compress to nothing, the same in every run.
        let mut chance = crate::chance::Chance::new(0x005E_ED0F_7A1E);
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
        let filler =
            (0..sizes.max()).map(|_| letters[usize::try_from(chance.below(64)).expect("below 64")]).collect();
        Values { filler }
    }

    /// Appends the value of a key, whose digits these are.
    #[inline]
    pub(crate) fn put(&self, digits: &[u8], size: usize, output: &mut Output) {
        let head_size = size.min(DIGITS_COUNT);
        output.extend(&digits[..head_size]);
        output.extend(&self.filler[head_size..size]);
    }

    /// Whether these bytes stand at `at` of the value with these digits.
    pub(crate) fn matches(&self, digits: &[u8], at: usize, bytes: &[u8]) -> bool {
        let end = at + bytes.len();
        if end > self.filler.len() {
            return false;
        }
        let head_size = DIGITS_COUNT.saturating_sub(at).min(bytes.len());
        (head_size == 0 || bytes[..head_size] == digits[at..at + head_size])
            && bytes[head_size..] == self.filler[at + head_size..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dialect_cannot_say_is_refused_in_words() {
        let check = |dialect, is_cluster, pipeline, mix: &str, says: &str| {
            let workload = Workload { operations: mix.parse().unwrap(), ..Workload::default() };
            match check(dialect, is_cluster, pipeline, &workload) {
                Ok(()) => assert_eq!(says, ""),
                Err(problem) => assert!(!says.is_empty() && problem.contains(says), "{problem}"),
            }
        };
        check(Dialect::Aerospike, true, 1, "get,set,del,incr,ping", "");
        check(Dialect::Aerospike, true, 2, "get", "--connections");
        check(Dialect::Aerospike, true, 1, "get,mget2", "aerospike");
        check(Dialect::Couchbase, true, 10, "get,set,del,incr,ping", "");
        check(Dialect::Couchbase, true, 1, "mget2", "couchbase");
        check(Dialect::Resp2, false, 10, "mget2", "");
        check(Dialect::Resp3, true, 10, "mget2", "--cluster");
        check(Dialect::Memcached, true, 1, "get", "memcached has none");
    }

    #[test]
    fn a_value_is_known_by_any_part_of_it() {
        let values = Values::new(&Sizes::Uniform(0, 40));
        for size in [0, 1, 11, 12, 13, 40] {
            let mut output = Output::new();
            values.put(b"000000000042", size, &mut output);
            let value: Vec<u8> = output.pieces().flatten().copied().collect();
            assert_eq!(value.len(), size);
            for cut in 0..=size {
                assert!(values.matches(b"000000000042", 0, &value[..cut]));
                assert!(values.matches(b"000000000042", cut, &value[cut..]));
            }
            if size > 11 {
                assert!(!values.matches(b"000000000043", 0, &value), "another key's");
            }
            if size > 12 {
                assert!(!values.matches(b"000000000042", 1, &value[..size - 1]), "displaced");
            }
        }
        assert!(!values.matches(b"000000000042", 30, &[b'x'; 20]), "longer than any");
    }
}
