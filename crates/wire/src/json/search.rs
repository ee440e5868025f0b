//! One path in one document, in one pass over its pieces.
//!
//! Around the place lie the containers that the path goes through. The innermost of them that has been met is where the search
//! stands: `met` components lead to it. A child of it that the next component names is met in turn; when a container ends
//! without such a child, the path leads to nothing, and the container is where something could be made.
//!
//! `[-1]` takes each element for the last until another one begins: then what the search has found inside of the one before is
//! forgotten. So a search through `[-1]` is over only when the outermost of those arrays has ended.

use std::ops::Range;

use super::key::KeyMatch;
use super::path::{Component, Path};
use super::scan::{Event, Fault, Kind, Scanner};

/// Longest number that [`Match::number`] keeps whole: one with more digits has more than 64 bits.
pub(super) const NUMBER_SIZE_MAX: usize = 21;

/// How a search ended.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// The path leads to this value.
    Found(Match),
    /// It leads to nothing.
    Missing(Parent),
    /// It goes into something that is no object where it has a name, or no array where it has an index; or the elements of an
    /// array were to be compared and one of them is an array or object.
    Mismatch,
}

/// A value in a document.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub(super) kind: Kind,
    /// Its bytes.
    pub(super) range: Range<usize>,
    /// Where its name begins, if it has one; else where it does.
    pub(super) begin: usize,
    /// What it has inside.
    pub(super) count: u64,
    /// Where the first thing inside of an array begins.
    pub(super) first: Option<usize>,
    /// Where the value in front of it ends, in the same container.
    pub(super) previous_end: Option<usize>,
    /// Where what follows it begins, in the same container.
    pub(super) next_begin: Option<usize>,
    /// The text of a number; of one that is longer than [`NUMBER_SIZE_MAX`] a byte more than that.
    pub(super) number: Vec<u8>,
    /// It is a number without a fraction and an exponent.
    pub(super) is_whole: bool,
    /// An element of it is [`Search::same`].
    pub(super) has_same: bool,
}

/// The innermost container on a way to nothing.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
    pub(super) count: u64,
    /// Components that lead to it.
    pub(super) met: usize,
}

/// A container that the path goes through, or an array whose elements are compared.
#[derive(Clone, Debug)]
struct Frame {
    kind: Kind,
    begin: usize,
    count: u64,
    /// Where the last child that has ended did so.
    child_end: Option<usize>,
}

/// A search under way.
#[derive(Clone, Debug)]
pub(super) struct Search {
    path: Path,
    scanner: Scanner,
    /// The containers from the root to where the search stands.
    frames: Vec<Frame>,
    /// The member's name that is being read, or was last.
    key: KeyMatch,
    key_begin: usize,
    /// It is being read, and compared.
    is_in_key: bool,
    /// What the path leads to, still open.
    target: Option<Match>,
    outcome: Option<Outcome>,
    /// What follows the match is wanted.
    needs_next: bool,
    /// Elements of the match are compared with this.
    same: Option<Vec<u8>>,
    /// How much of it the current element agrees with; nothing if it differs.
    same_met: Option<usize>,
    is_over: bool,
}

impl Search {
    pub(super) fn new(path: Path) -> Search {
        Search {
            path,
            scanner: Scanner::new(0),
            frames: Vec::new(),
            key: KeyMatch::default(),
            key_begin: 0,
            is_in_key: false,
            target: None,
            outcome: None,
            needs_next: false,
            same: None,
            same_met: None,
            is_over: false,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What follows the match is wanted too.
    pub(super) fn with_next(mut self) -> Search {
        self.needs_next = true;
        self
    }

    /// The match is to be an array, and its elements are compared with these bytes.
    pub(super) fn set_same(&mut self, bytes: Vec<u8>) {
        self.same = Some(bytes);
    }

    /// Reads a piece; true when no more is needed.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<bool, Fault> {
        let mut rest = bytes;
        while !self.is_over {
            let before = rest;
            let event = self.scanner.next(&mut rest)?;
            self.taken(&before[..before.len() - rest.len()]);
            match event {
                Some(event) => self.event(event),
                None => break,
            }
        }
        Ok(self.is_over)
    }

    /// The document has ended, or no more of it was needed.
    pub(super) fn finish(&mut self) -> Result<Outcome, Fault> {
        if !self.is_over
            && let Some(event) = self.scanner.finish()?
        {
            self.event(event);
        }
        Ok(self
            .outcome
            .take()
            .expect("a whole document has a root, which is found, missed or of the wrong kind"))
    }

    /// Bytes that the scanner has passed without an event.
    fn taken(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some(target) = &mut self.target {
            // Between the first byte of a number and its end there is nothing else.
            if target.kind == Kind::Number {
                target.is_whole &= !bytes.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
                let room = (NUMBER_SIZE_MAX + 1 - target.number.len()).min(bytes.len());
                target.number.extend_from_slice(&bytes[..room]);
            }
            if let (Some(met), Some(same)) = (self.same_met, &self.same) {
                self.same_met = same[met..].starts_with(bytes).then_some(met + bytes.len());
            }
        } else if self.is_in_key
            && let Some(Component::Name(name)) =
                self.frames.len().checked_sub(1).map(|index| self.path.component(index))
        {
            self.key.feed(bytes, name);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::KeyBegin => self.key_begins(),
            Event::KeyEnd => self.is_in_key = false,
            Event::Begin(kind) => self.begins(kind),
            Event::End => self.ends(),
        }
    }

    /// A member's name begins: the one behind the match if it is there.
    fn key_begins(&mut self) {
        self.note_next();
        if self.target.is_none() && usize::from(self.scanner.level()) == self.frames.len() {
            self.is_in_key = true;
            self.key = KeyMatch::default();
            self.key_begin = self.scanner.at();
        }
    }

    /// Something begins behind the match, in the same container.
    fn note_next(&mut self) {
        if usize::from(self.scanner.level()) == self.frames.len()
            && let Some(Outcome::Found(found)) = &mut self.outcome
            && found.next_begin.is_none()
            && self.frames.len() == self.path.len()
        {
            found.next_begin = Some(self.scanner.at());
            self.settle();
        }
    }

    /// The outcome is known and nothing can change it: the search is over, unless it lies in what may not be a last element.
    fn settle(&mut self) {
        self.is_over = (0..self.frames.len().min(self.path.len()))
            .all(|index| self.path.component(index) != Component::Last);
    }

    fn begins(&mut self, kind: Kind) {
        let (at, level) = (self.scanner.at(), usize::from(self.scanner.level()));
        if let Some(target) = &mut self.target {
            // A child of the match is on the next level, the rest is deeper.
            if level == self.path.len() + 1 {
                target.first.get_or_insert(at);
                target.count += 1;
                if self.same.is_some() {
                    if kind.is_container() {
                        return self.conclude(Outcome::Mismatch);
                    }
                    self.same_met = Some(0);
                }
            }
            return;
        }
        self.forget(level);
        if level != self.frames.len() || self.outcome.is_some() {
            return self.note_next();
        }
        let is_met = match self.frames.last_mut() {
            None => true,
            Some(parent) => {
                parent.count += 1;
                match self.path.component(level - 1) {
                    Component::Name(name) => self.key.is_equal(name),
                    Component::Index(index) => parent.count == index.saturating_add(1),
                    Component::Last => true,
                }
            }
        };
        if is_met {
            self.meets(kind, at);
        }
    }

    /// Another element begins in an array whose last one was wanted: what was found in the one before is not it.
    fn forget(&mut self, level: usize) {
        let is_another = (1..=self.path.len()).contains(&level)
            && level <= self.frames.len()
            && self.path.component(level - 1) == Component::Last;
        if is_another {
            self.frames.truncate(level);
            self.outcome = None;
        }
    }

    /// The value that begins lies on the path.
    fn meets(&mut self, kind: Kind, at: usize) {
        let met = self.frames.len();
        if met == self.path.len() {
            let previous_end = self.frames.last().and_then(|parent| parent.child_end);
            let has_name = self.frames.last().is_some_and(|parent| parent.kind == Kind::Object);
            self.target = Some(Match {
                kind,
                range: at..at,
                begin: if has_name { self.key_begin } else { at },
                count: 0,
                first: None,
                previous_end,
                next_begin: None,
                number: Vec::new(),
                is_whole: kind == Kind::Number,
                has_same: false,
            });
            if self.same.is_some() && kind != Kind::Array {
                self.conclude(Outcome::Mismatch);
            }
            return;
        }
        let fits = match self.path.component(met) {
            Component::Name(_) => kind == Kind::Object,
            Component::Index(_) | Component::Last => kind == Kind::Array,
        };
        if self.frames.is_empty() && !kind.is_container() {
            // Text that is no JSON often begins like a word or a number: the rest is looked at before it is called one.
            self.outcome = Some(Outcome::Mismatch);
        } else if fits {
            self.frames.push(Frame { kind, begin: at, count: 0, child_end: None });
        } else {
            self.conclude(Outcome::Mismatch);
        }
    }

    fn conclude(&mut self, outcome: Outcome) {
        self.target = None;
        self.same_met = None;
        self.outcome = Some(outcome);
        self.settle();
    }

    fn ends(&mut self) {
        let (at, level) = (self.scanner.at(), usize::from(self.scanner.level()));
        if let Some(target) = &mut self.target {
            if level == self.path.len() {
                target.range.end = at;
                let found = self.target.take().expect("it is there");
                self.found(found);
            } else if let (Some(same), Some(met)) = (&self.same, self.same_met.take())
                && level == self.path.len() + 1
                && met == same.len()
            {
                target.has_same = true;
                let found = self.target.take().expect("it is there");
                self.conclude(Outcome::Found(found));
            }
            return;
        }
        if level == self.frames.len() {
            if let Some(parent) = self.frames.last_mut() {
                parent.child_end = Some(at);
            }
        } else if level + 1 == self.frames.len() {
            let ended = self.frames.pop().expect("the scanner has left it");
            if self.outcome.is_none() {
                let range = ended.begin..at;
                let missing = Parent { kind: ended.kind, range, count: ended.count, met: level };
                self.outcome = Some(Outcome::Missing(missing));
            }
            if let Some(parent) = self.frames.last_mut() {
                parent.child_end = Some(at);
            }
            self.settle();
        }
    }

    /// The match has ended.
    fn found(&mut self, found: Match) {
        let end = found.range.end;
        self.outcome = Some(Outcome::Found(found));
        match self.frames.last_mut() {
            Some(parent) => {
                parent.child_end = Some(end);
                if !self.needs_next {
                    self.settle();
                }
            }
            None => self.is_over = true,
        }
    }
}
