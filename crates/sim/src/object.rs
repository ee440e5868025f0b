//! What commands do to one thing, written down as plainly as possible: the model that replies are held against.
//!
//! A thing is one key, or a group of keys that are only ever written together. Every write carries a number that no
//! other write has, so that a value tells where it comes from.

/// A thing of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    /// A string under one key.
    Register(usize),
    /// A number under one key.
    Counter(usize),
    /// Strings under several keys, the same in each.
    Group(usize),
    /// Bits of a string under one key.
    Bits(usize),
    /// A number under several keys, the same in each, changed by WATCH, look and EXEC.
    Watched(usize),
}

/// A string by the numbers of the writes that made it, with their sizes; see [`crate::text`].
pub(crate) type Text = Vec<(u32, usize)>;

/// What a command does to one thing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Set((u32, usize)),
    SetIfAbsent((u32, usize)),
    SetAndGet((u32, usize)),
    Get,
    Delete,
    Exists,
    Append((u32, usize)),
    Length,
    Expire,
    Persist,
    Add(i64),
    Number,
    /// Of at most 64 bits.
    SetBit(u32, bool),
    GetBit(u32),
    CountBits,
    /// Deletes without saying whether there was anything.
    Clear,
    /// From this number to the next, or not at all.
    Advance(i64),
}

/// What its reply said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    /// Nothing that depends on the state.
    Done,
    Flag(bool),
    Text(Option<Text>),
    Size(usize),
    Number(Option<i64>),
}

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State {
    content: Content,
    has_ttl: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    #[default]
    Nothing,
    Text(Text),
    Number(i64),
    Bits(u64),
}

impl Op {
    /// Whether it leaves everything as it is, whatever it finds.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Op::Get | Op::Exists | Op::Length | Op::Number | Op::GetBit(_) | Op::CountBits)
    }
}

impl State {
    fn exists(&self) -> bool {
        self.content != Content::Nothing
    }

    fn text(&self) -> Option<Text> {
        match &self.content {
            Content::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn number(&self) -> Option<i64> {
        match &self.content {
            Content::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn bits(&self) -> u64 {
        match &self.content {
            Content::Bits(bits) => *bits,
            _ => 0,
        }
    }

    fn of_text(text: Text) -> State {
        State { content: Content::Text(text), has_ttl: false }
    }

    /// The state after `op`, and what it sees.
    fn after(&self, op: &Op) -> (State, Seen) {
        let same = || self.clone();
        match op {
            Op::Set(part) => (State::of_text(vec![*part]), Seen::Done),
            Op::SetIfAbsent(_) if self.exists() => (same(), Seen::Flag(false)),
            Op::SetIfAbsent(part) => (State::of_text(vec![*part]), Seen::Flag(true)),
            Op::SetAndGet(part) => (State::of_text(vec![*part]), Seen::Text(self.text())),
            Op::Get => (same(), Seen::Text(self.text())),
            Op::Delete => (State::default(), Seen::Flag(self.exists())),
            Op::Clear => (State::default(), Seen::Done),
            Op::Exists => (same(), Seen::Flag(self.exists())),
            Op::Append(part) => {
                let mut text = self.text().unwrap_or_default();
                text.push(*part);
                let size = crate::text::size(&text);
                (State { content: Content::Text(text), has_ttl: self.has_ttl }, Seen::Size(size))
            }
            Op::Length => (same(), Seen::Size(self.text().map_or(0, |text| crate::text::size(&text)))),
            Op::Expire => {
                (State { has_ttl: self.exists(), content: self.content.clone() }, Seen::Flag(self.exists()))
            }
            Op::Persist => {
                (State { has_ttl: false, content: self.content.clone() }, Seen::Flag(self.has_ttl))
            }
            Op::Add(step) => {
                let number = self.number().unwrap_or(0) + step;
                (
                    State { content: Content::Number(number), has_ttl: self.has_ttl },
                    Seen::Number(Some(number)),
                )
            }
            Op::Number => (same(), Seen::Number(self.number())),
            Op::SetBit(bit, value) => {
                let (bits, mask) = (self.bits(), 1 << bit);
                let after = if *value { bits | mask } else { bits & !mask };
                let state = State { content: Content::Bits(after), has_ttl: self.has_ttl };
                (state, Seen::Flag(bits & mask != 0))
            }
            Op::GetBit(bit) => (same(), Seen::Flag(self.bits() & 1 << bit != 0)),
            Op::CountBits => (same(), Seen::Number(Some(self.bits().count_ones().into()))),
            Op::Advance(from) => {
                let next = State { content: Content::Number(from + 1), has_ttl: false };
                let is_current = self.number().unwrap_or(0) == *from;
                if is_current { (next, Seen::Flag(true)) } else { (same(), Seen::Flag(false)) }
            }
        }
    }

    /// The state after an operation whose reply said `seen`, if that can be; any state will do for a reply that never
    /// came.
    pub(crate) fn explain(&self, op: &Op, seen: Option<&Seen>) -> Option<State> {
        let (after, shown) = self.after(op);
        match seen {
            None => Some(after),
            Some(seen) => (*seen == shown).then_some(after),
        }
    }
}
