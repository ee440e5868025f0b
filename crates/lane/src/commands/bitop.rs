//! BITOP: strings combined bit by bit, the shorter ones with zeros behind their ends.
//!
//! ```text
//! value    = the first source, whose chunks it shares
//! value op= the second, a slice at a time; only pieces that change are written, and so copied
//! value op= the third …
//! ```
//! So no more than the value and one source are held at a time, however many there are. Over several lanes each combines
//! its own sources, the client's lane combines what they send, and the destination's lane stores it: AND, OR and XOR may be
//! done in any order, and NOT has one source.

use store::{Budget, CHUNK_SIZE, Effect, Expiry, Rope, RopeBuilder};
use wire::reply;

use super::range::builder_of;
use super::text::Text;
use super::{Progress, SYNTAX, State, Step};
use crate::keyspace::{Call, Keyspace, OOM};
use crate::replies::Sink;
use crate::request::Args;

/// What is done with two bits, or with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn of(word: &[u8]) -> Option<Operation> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("and") => Some(Operation::And),
            () if is("or") => Some(Operation::Or),
            () if is("xor") => Some(Operation::Xor),
            () if is("not") => Some(Operation::Not),
            () => None,
        }
    }

    /// The operation of a whole call.
    pub(crate) fn parse(args: Args<'_>) -> Result<Operation, &'static str> {
        match Operation::of(args.flat(1)) {
            None => Err(SYNTAX),
            Some(Operation::Not) if args.len() != 4 => {
                Err("ERR BITOP NOT must be called with a single source key.")
            }
            Some(operation) => Ok(operation),
        }
    }

    /// How what lanes have made of their sources is combined: where there is one source it is done.
    pub(crate) fn of_shares(self) -> Operation {
        match self {
            Operation::Not => Operation::Or,
            other => other,
        }
    }
}

/// A combination under way.
pub(crate) struct Combination {
    operation: Operation,
    value: RopeBuilder,
    /// Whether the first source has come.
    has_begun: bool,
    /// The source at hand, how far it is done, and where that ends.
    source: Text,
    at: usize,
    end: usize,
    /// The next piece of the value.
    piece: Vec<u8>,
    /// Bytes that are kept free for it, or were: how long it is.
    size: usize,
}

impl Combination {
    pub(crate) fn new(operation: Operation) -> Combination {
        Combination {
            operation,
            value: RopeBuilder::new(),
            has_begun: false,
            source: Text::default(),
            at: 0,
            end: 0,
            piece: Vec::new(),
            size: 0,
        }
    }

    /// Length of the value.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The next source; the one before is done.
    pub(crate) fn take(&mut self, source: Text, space: &mut Keyspace, budget: &mut Budget) {
        assert!(self.at == self.end, "sources are done one after the other");
        let before = self.value.len();
        budget.spend(1, source.copied_size());
        if self.has_begun {
            self.value.pad(source.len());
            // More than a chunk of zeros is one that is shared.
            budget.spend(0, (self.value.len() - before).min(CHUNK_SIZE));
        } else {
            self.value = match &source {
                Text::Bytes(bytes) => builder_of(bytes),
                Text::Rope(rope) => RopeBuilder::of(rope),
            };
        }
        self.at = 0;
        self.end = match self.operation {
            Operation::Not => source.len(),
            _ if !self.has_begun => 0,
            // What is behind is zeros, and stays so.
            Operation::And => before,
            Operation::Or | Operation::Xor => source.len(),
        };
        self.has_begun = true;
        space.reserve((self.value.len() - self.size) as u64);
        self.size = self.value.len();
        std::mem::replace(&mut self.source, source).retire(&mut |rope| space.shard.retire(rope));
    }

    /// Goes on with the source at hand until the budget is spent; true when it is done.
    pub(crate) fn advance(&mut self, budget: &mut Budget) -> bool {
        while self.at < self.end {
            if budget.is_spent() {
                return false;
            }
            let old = self.value.bytes_from(self.at);
            let source = if self.at < self.source.len() { self.source.bytes_from(self.at) } else { &[] };
            let size_max = old.len().min(self.end - self.at).min(budget.bytes as usize);
            // Behind the end of the source the rest is one piece.
            let size = if source.is_empty() { size_max } else { size_max.min(source.len()) };
            let (old, source) = (&old[..size], &source[..size.min(source.len())]);
            let pairs = old.iter().zip(source);
            self.piece.clear();
            match self.operation {
                Operation::And => self.piece.extend(pairs.map(|(old, source)| old & source)),
                Operation::Or => self.piece.extend(pairs.map(|(old, source)| old | source)),
                Operation::Xor => self.piece.extend(pairs.map(|(old, source)| old ^ source)),
                Operation::Not => self.piece.extend(source.iter().map(|source| !source)),
            }
            self.piece.resize(size, 0);
            if self.piece != old {
                self.value.write(self.at, &self.piece);
            }
            budget.spend(1, size);
            self.at += size;
        }
        true
    }

    /// The value, once all sources are done. What was kept free for it is free.
    pub(crate) fn finish(&mut self, space: &mut Keyspace) -> Rope {
        space.release(self.size as u64);
        std::mem::take(&mut self.source).retire(&mut |rope| space.shard.retire(rope));
        std::mem::take(&mut self.value).finish()
    }
}

/// Combines the sources, which are the arguments from `first` on; none while there is more to do.
pub(crate) fn combine(
    space: &mut Keyspace,
    call: &Call<'_>,
    first: usize,
    progress: &mut Progress,
    budget: &mut Budget,
) -> Option<Rope> {
    let state = progress.state.get_or_insert_with(|| {
        progress.at = first as u64;
        let operation = Operation::of(call.args.flat(1)).expect("the call has been found right");
        Box::new(State::Combining(Combination::new(operation)))
    });
    let State::Combining(combination) = &mut **state else { unreachable!("BITOP's state is a combination") };
    loop {
        if !combination.advance(budget) {
            return None;
        }
        let index = usize::try_from(progress.at).expect("an index");
        if index == call.args.len() {
            return Some(combination.finish(space));
        }
        if budget.is_spent() {
            return None;
        }
        let key = space.key(call, index);
        let source = Text::of(space.look_up(&key).map(|entry| entry.value()));
        combination.take(source, space, budget);
        progress.at += 1;
    }
}

/// BITOP with all keys on this lane.
pub(crate) fn bitop(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    if progress.state.is_none()
        && let Err(text) = Operation::parse(call.args)
    {
        reply::error(sink, text);
        return Step::Done;
    }
    let Some(rope) = combine(space, call, 3, progress, budget) else { return Step::More };
    progress.state = None;
    let size = rope.len();
    let key = space.key(call, 2);
    if size == 0 {
        space.commit(Effect::Delete { key }).expect("deleting takes no memory");
    } else if !space.may_grow(size) {
        space.shard.retire(rope);
        reply::error(sink, OOM);
        return Step::Done;
    } else if !space.set_rope(key, rope, None, Expiry::None) {
        reply::error(sink, OOM);
        return Step::Done;
    }
    put_size(sink, size);
    Step::Done
}

/// BITOP's reply.
pub(crate) fn put_size(sink: &mut impl reply::Put, size: usize) {
    reply::integer(sink, i64::try_from(size).expect("a string is at most 8 GiB"));
}
