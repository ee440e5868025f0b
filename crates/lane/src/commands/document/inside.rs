//! Paths of a document: what is there, and changes of all of them or none.
//!
//! A value may have megabytes, and a request sixteen paths. So each path is a search that reads the document a slice at a time, and
//! changes are a list of pieces ([`wire::json::Draft`]) until the last path has gone well: then the new document is written, a slice at a
//! time as well, and stored in one effect. The key is locked meanwhile. A turn reads or writes as many bytes as its budget has; what
//! it copies beside them is one reply of small parts (long parts of a large document are sent by reference).

use std::ops::Range;

use store::{Budget, Effect, Entry, Expiry, Key, Mark, NewValue, RopeBuilder, Value};
use wire::couchbase::reply::token;
use wire::couchbase::subdocument::{
    About, Asked, DOCUMENT_ATTRIBUTE, Spec, What, failed, looked, specs, status_of, summed,
};
use wire::couchbase::{self, VALUE_SIZE_MAX};
use wire::json::{Answer, Draft, Operation, Piece};
use wire::memcached::reply::{Header, put_header};
use wire::memcached::{Bits, Outcome, Say, Status, VALUE, Verb};
use wire::number::format_i64;
use wire::reply::Put;

use super::edit::{Part, of_arg};
use super::{DATATYPE, Request, end_of, item, lock, mark_of};
use crate::commands::{Progress, State, Step};
use crate::keyspace::Keyspace;
use crate::replies::Sink;
use crate::request::FLAT_SIZE_MAX;

/// A part of a large document up to this size is copied into the reply; a longer one is sent by reference, and keeps the whole
/// document alive until the client has read it.
const COPY_SIZE_MAX: usize = 16 * 1024;

/// How far a request has come.
pub(crate) struct Inside {
    specs: Vec<Spec>,
    /// A document that is missing is made, and so is what is missing on the way to a path.
    makes_document: bool,
    /// Of each path behind us, what came of it.
    results: Vec<(Status, Found)>,
    stage: Stage,
    /// The document with the changes so far.
    draft: Draft,
    /// What is told of the document.
    about: Draft,
    is_new: bool,
    is_deleted: bool,
}

enum Stage {
    /// Before a path, or behind the last.
    Path,
    /// Its value is read, from this byte of the request on.
    Value(Box<Operation>, usize),
    /// The document is read, from this byte on.
    Document(Box<Operation>, usize),
    /// All has gone well, and the new document is written.
    Writing(RopeBuilder),
}

/// What is at a path.
enum Found {
    Nothing,
    /// A part of the document.
    Part(Range<usize>),
    Text(Vec<u8>),
}

/// How a step ended.
enum Next {
    More,
    /// Every path has been looked at, or a change has failed.
    Over,
}

/// Looks inside of a document, or changes it there.
pub(super) fn run(
    space: &mut Keyspace,
    request: &Request<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let mut inside = match progress.state.take().map(|state| *state) {
        Some(State::Inside(inside)) => inside,
        _ => match Inside::begin(space, request) {
            Ok(inside) => inside,
            Err(outcome) => {
                request.say(sink, &outcome);
                return Step::Done;
            }
        },
    };
    let key = request.key(space);
    let body = of_arg(request.call.args.get(VALUE));
    loop {
        if budget.is_spent() {
            progress.state = Some(Box::new(State::Inside(inside)));
            return Step::More;
        }
        let digits;
        let entry = space.get(&key);
        if entry.is_none() && !inside.is_new {
            // Its time has come while it was read.
            request.say(sink, &Outcome::NotFound);
            return Step::Done;
        }
        let document = match entry.as_ref().map(Entry::value) {
            None => Part::Bytes(b""),
            Some(Value::Bytes(bytes)) => Part::Bytes(bytes),
            Some(Value::Rope(rope)) => Part::Rope(rope),
            Some(Value::Int(number)) => {
                digits = format_i64(number);
                Part::Bytes(digits.as_bytes())
            }
        };
        if let Next::More = inside.step(document, body, request, budget) {
            continue;
        }
        if inside.is_change_done(request) {
            let small = inside.small(document, body);
            match inside.store(space, request, key, small) {
                Ok(cas) => inside.reply_change(request, sink, cas),
                Err(outcome) => request.say(sink, &outcome),
            }
        } else {
            let cas = entry.map_or(0, |entry| item(space, &key, &entry, mark_of(&entry)).cas);
            inside.reply_look(document, request, sink, cas);
        }
        return Step::Done;
    }
}

impl Inside {
    /// Looks at the request, and whether there is a document for it.
    fn begin(space: &mut Keyspace, request: &Request<'_>) -> Result<Inside, Outcome> {
        let head = &request.head;
        let body = of_arg(request.call.args.get(VALUE));
        let specs = specs(head, body.len(), |range| copy(body, range)).map_err(Outcome::Status)?;
        let asked = Asked::of(head);
        let changes = head.verb == Verb::MutateIn;
        let key = request.key(space);
        let found = space.look_up(&key).is_some();
        if !changes {
            space.documents.tally.looked(Verb::Get, found);
        }
        let mut inside = Inside {
            specs,
            makes_document: asked.makes_document(),
            results: Vec::new(),
            stage: Stage::Path,
            draft: Draft::default(),
            about: Draft::default(),
            is_new: false,
            is_deleted: false,
        };
        let Some(entry) = space.get(&key) else {
            if !changes || !asked.makes_document() || head.cas != 0 {
                return Err(Outcome::NotFound);
            }
            inside.is_new = true;
            inside.draft = Draft::made_of(if inside.specs[0].is_of_array() { b"[]" } else { b"{}" });
            return Ok(inside);
        };
        let mark = mark_of(&entry);
        if changes && asked.adds_document() {
            return Err(Outcome::Exists);
        }
        if changes && !lock::lets(space, &key, mark, head) {
            return Err(Outcome::Say(Say::Locked));
        }
        if head.cas != 0 && head.cas != mark.cas {
            return Err(Outcome::Exists);
        }
        let item = item(space, &key, &entry, mark);
        let size = match entry.value() {
            Value::Int(number) => format_i64(number).as_bytes().len(),
            value => value.len(),
        };
        inside.draft = Draft::new(size);
        if inside.specs.iter().any(|spec| spec.is_attribute) {
            let about = About {
                cas: item.cas,
                history: request.history,
                number: mark.cas,
                expiry_s: entry
                    .expires_at()
                    .map_or(0, |at_ms| u32::try_from(at_ms / 1000).unwrap_or(u32::MAX)),
                flags: mark.flags,
                size: size as u64,
                is_json: mark.bits & couchbase::JSON != 0,
            };
            inside.about = Draft::made_of(about.json().as_bytes());
        }
        Ok(inside)
    }

    /// Goes on by one path, or by one slice of a value or of the document.
    fn step(
        &mut self,
        document: Part<'_>,
        body: Part<'_>,
        request: &Request<'_>,
        budget: &mut Budget,
    ) -> Next {
        let bytes_max = budget.bytes as usize;
        let within = |range: Range<usize>| range.start..range.end.min(range.start + bytes_max);
        match std::mem::replace(&mut self.stage, Stage::Path) {
            Stage::Path => {
                budget.spend(1, 0);
                if self.results.len() == self.specs.len() {
                    let is_rope = self.draft.size() > FLAT_SIZE_MAX && !self.is_deleted;
                    if !is_rope || self.is_too_large() || !self.is_change_done(request) {
                        return Next::Over;
                    }
                    self.stage = Stage::Writing(RopeBuilder::new());
                    return Next::More;
                }
                self.begin_path()
            }
            Stage::Value(mut operation, at) => {
                let value = self.specs[self.results.len()].value.clone();
                let is_fit = if at == value.end {
                    operation.value_end().map(|()| self.stage = Stage::Document(operation, 0))
                } else {
                    let piece = body.piece(within(at..value.end));
                    budget.spend(1, piece.len());
                    operation.value(piece).map(|()| self.stage = Stage::Value(operation, at + piece.len()))
                };
                match is_fit {
                    Ok(()) => Next::More,
                    Err(error) => self.conclude(status_of(error), Found::Nothing),
                }
            }
            Stage::Document(mut operation, at) => {
                let spec = &self.specs[self.results.len()];
                let draft = if spec.is_attribute { &self.about } else { &self.draft };
                let Some(piece) = draft.piece_at(at) else { return self.finish(*operation) };
                let piece = bytes_of(draft, piece, document, body);
                let piece = &piece[..piece.len().min(bytes_max)];
                budget.spend(1, piece.len());
                match operation.document(piece) {
                    Ok(false) => {
                        self.stage = Stage::Document(operation, at + piece.len());
                        Next::More
                    }
                    Ok(true) => self.finish(*operation),
                    Err(error) => self.conclude(status_of(error), Found::Nothing),
                }
            }
            Stage::Writing(mut builder) => {
                let piece = self.draft.piece_at(builder.len());
                let next = match piece {
                    None => Next::Over,
                    Some(piece) => {
                        let piece = bytes_of(&self.draft, piece, document, body);
                        let piece = &piece[..piece.len().min(bytes_max)];
                        budget.spend(1, piece.len());
                        builder.push(piece);
                        Next::More
                    }
                };
                self.stage = Stage::Writing(builder);
                next
            }
        }
    }

    fn begin_path(&mut self) -> Next {
        let spec = &self.specs[self.results.len()];
        let verb = match spec.what {
            What::At(verb) => verb,
            What::GetWhole if self.draft.size() == 0 => {
                return self.conclude(Status::PATH_MISSING, Found::Nothing);
            }
            What::GetWhole => return self.conclude(Status::OK, Found::Part(0..self.draft.size())),
            What::SetWhole => {
                self.draft = Draft::request(spec.value.clone());
                return self.conclude(Status::OK, Found::Nothing);
            }
            What::DeleteWhole => {
                self.is_deleted = true;
                return self.conclude(Status::OK, Found::Nothing);
            }
        };
        let is_about = matches!(spec.path.strip_prefix(DOCUMENT_ATTRIBUTE), Some([] | [b'.' | b'[', ..]));
        if spec.is_attribute && !is_about {
            return self.conclude(Status::UNKNOWN_ATTRIBUTE, Found::Nothing);
        }
        match Operation::new(verb, &spec.path, spec.makes_parents || self.makes_document) {
            Err(error) => self.conclude(status_of(error), Found::Nothing),
            Ok(operation) => {
                self.stage = if verb.has_value() {
                    Stage::Value(Box::new(operation), spec.value.start)
                } else {
                    Stage::Document(Box::new(operation), 0)
                };
                Next::More
            }
        }
    }

    /// Enough of the document has been read.
    fn finish(&mut self, operation: Operation) -> Next {
        let spec = &self.specs[self.results.len()];
        let found = match operation.finish() {
            Err(error) => return self.conclude(status_of(error), Found::Nothing),
            Ok(Answer::Value(range)) if spec.is_attribute => Found::Text(self.about.made()[range].to_vec()),
            Ok(Answer::Value(range)) => Found::Part(range),
            Ok(Answer::Exists) => Found::Nothing,
            Ok(Answer::Count(count)) => Found::Text(count.to_string().into_bytes()),
            Ok(Answer::Edit(edit)) => {
                self.draft.apply(&edit, spec.value.clone());
                Found::Nothing
            }
            Ok(Answer::Sum(sum, edit)) => {
                self.draft.apply(&edit, spec.value.clone());
                Found::Text(sum.to_string().into_bytes())
            }
        };
        self.conclude(Status::OK, found)
    }

    /// A path is behind us. What fails ends a change; a look goes on.
    fn conclude(&mut self, status: Status, found: Found) -> Next {
        let changes = self.specs[0].what.changes();
        self.results.push((status, found));
        if changes && status != Status::OK { Next::Over } else { Next::More }
    }

    /// Has every path of a change gone well?
    fn is_change_done(&self, request: &Request<'_>) -> bool {
        request.head.verb == Verb::MutateIn && self.results.iter().all(|(status, _)| *status == Status::OK)
    }

    fn is_too_large(&self) -> bool {
        self.draft.size() as u64 > VALUE_SIZE_MAX
    }

    /// The whole new document, if it is no rope.
    fn small(&self, document: Part<'_>, body: Part<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !self.is_deleted && self.draft.size() <= FLAT_SIZE_MAX {
            while let Some(piece) = self.draft.piece_at(bytes.len()) {
                bytes.extend_from_slice(bytes_of(&self.draft, piece, document, body));
            }
        }
        bytes
    }

    /// The new document takes the old one's place; its CAS.
    fn store(
        &mut self,
        space: &mut Keyspace,
        request: &Request<'_>,
        key: Key<'_>,
        small: Vec<u8>,
    ) -> Result<u64, Outcome> {
        if self.is_too_large() {
            return Err(Outcome::Say(Say::TooLarge));
        }
        let head = &request.head;
        let old = space.get(&key).map_or(Mark::default(), |entry| mark_of(&entry));
        let cas = space.documents.next_cas();
        let expiry = if head.is(Bits::KEEPS_EXPIRY) && !self.is_new {
            Some(Expiry::Keep)
        } else {
            end_of(space, key.db, head.exptime)
        };
        let flags = if Asked::of(head).has_flags { head.flags } else { old.flags };
        let mark = Mark { cas, flags, bits: old.bits & DATATYPE | couchbase::JSON };
        let stage = std::mem::replace(&mut self.stage, Stage::Path);
        let is_done = match (expiry.filter(|_| !self.is_deleted), stage) {
            (None, _) => space.commit(Effect::Delete { key }).is_ok(),
            (Some(expiry), Stage::Writing(builder)) => {
                space.set_rope(key, builder.finish(), Some(mark), expiry)
            }
            (Some(expiry), _) => {
                let value = NewValue::Bytes(&small);
                space.commit(Effect::SetDocument { key, value, mark, expiry }).is_ok()
            }
        };
        let outcome = if is_done { Ok(()) } else { Err(Outcome::Say(Say::OutOfMemory)) };
        space.documents.tally.stored(Verb::Set, &outcome);
        outcome.map(|()| cas)
    }

    /// The reply to a change that is done: sums, each with its path's number; of one path the sum alone.
    fn reply_change(&self, request: &Request<'_>, sink: &mut Sink<'_>, cas: u64) {
        let mut value = Vec::new();
        for (index, (_, found)) in self.results.iter().enumerate() {
            if let Found::Text(sum) = found {
                if Asked::of(&request.head).is_among_several {
                    value.extend_from_slice(&summed(index, sum.len()));
                }
                value.extend_from_slice(sum);
            }
        }
        let token = token(request.history, cas);
        let extras = if request.head.is(Bits::WANTS_TOKEN) { &token[..] } else { &[] };
        let header = Header {
            cas,
            extras_size: u8::try_from(extras.len()).expect("a token is short"),
            body_size: u32::try_from(extras.len() + value.len()).expect("sums are short"),
            ..Header::OK
        };
        put_header(sink, &request.head, &header);
        sink.put_all([extras, &value, b""]);
    }

    /// The reply to a look, or to a change that has failed.
    fn reply_look(&self, document: Part<'_>, request: &Request<'_>, sink: &mut Sink<'_>, cas: u64) {
        let head = &request.head;
        let status = self.results.iter().map(|(status, _)| *status).find(|status| *status != Status::OK);
        if !Asked::of(head).is_among_several {
            if let Some(status) = status {
                return request.say(sink, &Outcome::Status(status));
            }
            let (_, found) = &self.results[0];
            let datatype = if head.is(Bits::KNOWS_JSON) && found.size() > 0 { couchbase::JSON } else { 0 };
            let body_size = u32::try_from(found.size()).expect("documents are far smaller than 4 GiB");
            put_header(sink, head, &Header { datatype, body_size, cas, ..Header::OK });
            return found.put(document, sink);
        }
        if head.verb == Verb::MutateIn {
            let value = failed(self.results.len() - 1, status.unwrap_or(Status::OK));
            let body_size = u32::try_from(value.len()).expect("three bytes");
            put_header(sink, head, &Header { status: Status::PATH_FAILURE, body_size, ..Header::OK });
            return sink.put(&value);
        }
        let sizes = self.results.iter().map(|(_, found)| looked(Status::OK, 0).len() + found.size());
        let body_size =
            sizes.fold(0_u32, |sum, size| sum.saturating_add(u32::try_from(size).unwrap_or(u32::MAX)));
        let status = if status.is_some() { Status::PATH_FAILURE } else { Status::OK };
        put_header(sink, head, &Header { status, body_size, cas, ..Header::OK });
        for (status, found) in &self.results {
            sink.put(&looked(*status, found.size()));
            found.put(document, sink);
        }
    }
}

impl Found {
    fn size(&self) -> usize {
        match self {
            Found::Nothing => 0,
            Found::Part(range) => range.len(),
            Found::Text(text) => text.len(),
        }
    }

    fn put(&self, document: Part<'_>, sink: &mut Sink<'_>) {
        match (self, document) {
            (Found::Nothing, _) => {}
            (Found::Text(text), _) => sink.put(text),
            (Found::Part(range), Part::Rope(rope)) if range.len() > COPY_SIZE_MAX => {
                sink.put_rope(rope.clone(), range.clone());
            }
            (Found::Part(range), document) => sink.put(&copy(document, range.clone())),
        }
    }
}

/// Bytes of a piece of a draft, as many as lie together.
fn bytes_of<'a>(draft: &'a Draft, piece: Piece, document: Part<'a>, body: Part<'a>) -> &'a [u8] {
    match piece {
        Piece::Document(range) => document.piece(range),
        Piece::Request(range) => body.piece(range),
        Piece::Made(range) => &draft.made()[range],
    }
}

/// Some bytes together.
fn copy(part: Part<'_>, range: Range<usize>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(range.len());
    while bytes.len() < range.len() {
        bytes.extend_from_slice(part.piece(range.start + bytes.len()..range.end));
    }
    bytes
}
