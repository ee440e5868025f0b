//! What a command's reply must look like, and what it says about the model.

use std::collections::BTreeMap;

use wire::client::Reply;

use crate::crew;
use crate::object::{Object, Op, Seen};
use crate::run::LAG_MS_MAX;
use crate::text;

/// See the top of this file.
#[derive(Clone, Debug)]
pub(crate) enum Expect {
    /// `+OK`.
    Ok(Vec<(Object, Op)>),
    Queued,
    /// A bulk or status with these bytes.
    Echo(Vec<u8>),
    /// Anything but an error.
    Whatever,
    /// 0 or `count`.
    Flag(Object, Op, i64),
    /// `+OK` or nothing.
    OkOrNothing(Object, Op),
    /// A value of the model or nothing.
    Text(Object, Op),
    /// An integer that is a size.
    Size(Object, Op),
    /// An integer.
    Number(Object, Op),
    /// A number as a string, or nothing.
    NumberText(Object),
    /// So many values, all the same.
    Same(Object, usize),
    /// So many numbers as strings, all the same.
    SameNumber(Object, usize),
    /// An array with a reply for each.
    Each(Vec<Expect>),
    /// Names of those of these that exist, in any order.
    Names(Vec<(Vec<u8>, Object)>),
    /// The names of all keys of a group, so many, or none.
    All(Object, usize),
    /// One name.
    OneName,
    /// Numbers as strings that sum up to this.
    Sum(i64),
    /// One of so many is this value, the others are nothing.
    OneOf(usize, Vec<u8>),
    /// A rename: done, not done, or no such key.
    Renamed,
    /// A write that lives for so many milliseconds.
    Fleeting(u32, i64),
    /// One of these writes, if its time is not over, or nothing.
    Fleeing,
    /// The second of a pair, which is written after the first.
    Younger(usize),
    /// The first of a pair, looked at after the second.
    Elder(usize),
    /// EXEC: an array of these, or nothing if watched keys have changed.
    Exec(Vec<Expect>, Vec<(Object, Op)>),
    /// Looks at a crew, by one command.
    Crew(crew::Look),
    /// EXEC of several, all at one time.
    CrewExec(crew::Exec),
}

/// What replies have told that is no operation of the model.
#[derive(Default)]
pub(crate) struct Ledger {
    /// When fleeting writes were over at the latest, in unix milliseconds.
    ends_ms: BTreeMap<u32, i64>,
    /// What each connection saw last of each pair's younger half.
    pairs: BTreeMap<(u32, usize), i64>,
    pub(crate) crews: crew::Ledger,
}

/// What had been told when a command was sent.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    /// The time by which it is executed at the earliest, unix milliseconds.
    begin_ms: i64,
    pub(crate) crews: crew::Before,
}

impl Ledger {
    /// What has been told until now.
    pub(crate) fn before(&self, now_ms: i64) -> Before {
        let lag_ms = i64::try_from(LAG_MS_MAX).expect("a short time");
        Before { begin_ms: now_ms - lag_ms, crews: self.crews.before() }
    }
}

/// When and by whom a command was sent and answered.
#[derive(Clone, Copy)]
pub(crate) struct Circumstances {
    pub(crate) session: u32,
    pub(crate) before: Before,
    pub(crate) end_ms: i64,
}

impl Expect {
    /// What the command does to the model.
    pub(crate) fn ops(&self) -> Vec<(Object, Op)> {
        match self {
            Expect::Ok(ops) => ops.clone(),
            Expect::Flag(object, op, _)
            | Expect::OkOrNothing(object, op)
            | Expect::Text(object, op)
            | Expect::Size(object, op)
            | Expect::Number(object, op) => vec![(*object, op.clone())],
            Expect::NumberText(object) | Expect::SameNumber(object, _) => vec![(*object, Op::Number)],
            Expect::Same(object, _) => vec![(*object, Op::Get)],
            Expect::All(object, _) => vec![(*object, Op::Exists)],
            Expect::Each(all) => all.iter().flat_map(Expect::ops).collect(),
            Expect::Names(names) => names.iter().map(|(_, object)| (*object, Op::Exists)).collect(),
            Expect::Exec(all, whole) => {
                all.iter().flat_map(Expect::ops).chain(whole.iter().cloned()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Reads a reply: what was seen of each operation, in the order of [`Expect::ops`]; `None` when none took place.
    ///
    /// # Errors
    /// Why no server that keeps its promises replies so.
    pub(crate) fn read(
        &self,
        reply: &Reply,
        ledger: &mut Ledger,
        circumstances: Circumstances,
    ) -> Result<Option<Vec<Seen>>, String> {
        let wrong = || format!("wanted {self:.200?}, got {}", shorten(reply));
        let one = |seen: Option<Seen>| seen.map(|seen| Some(vec![seen])).ok_or_else(wrong);
        match (self, reply) {
            (Expect::Ok(ops), Reply::Simple(text)) if text == b"OK" => Ok(Some(vec![Seen::Done; ops.len()])),
            (Expect::Queued, Reply::Simple(text)) if text == b"QUEUED" => Ok(Some(Vec::new())),
            (Expect::Echo(bytes), Reply::Bulk(text) | Reply::Simple(text)) if text == bytes => {
                Ok(Some(Vec::new()))
            }
            (Expect::Whatever, Reply::Error(_)) => Err(wrong()),
            (Expect::Whatever, _) => Ok(Some(Vec::new())),
            (Expect::Flag(_, _, count), Reply::Integer(number)) if [0, *count].contains(number) => {
                one(Some(Seen::Flag(*number != 0)))
            }
            (Expect::OkOrNothing(..), Reply::Simple(text)) if text == b"OK" => one(Some(Seen::Flag(true))),
            (Expect::OkOrNothing(..), Reply::Null) => one(Some(Seen::Flag(false))),
            (Expect::Text(..), _) => one(text_of(reply).map(Seen::Text)),
            (Expect::Size(..), Reply::Integer(size)) => one(usize::try_from(*size).ok().map(Seen::Size)),
            (Expect::Number(..), Reply::Integer(number)) => one(Some(Seen::Number(Some(*number)))),
            (Expect::NumberText(_), _) => one(number_of(reply).map(Seen::Number)),
            (Expect::Same(_, count), Reply::Array(items)) if items.len() == *count => {
                match items.as_slice() {
                    [first, rest @ ..] if rest.iter().all(|item| item == first) => {
                        one(text_of(first).map(Seen::Text))
                    }
                    _ => Err(format!("a group is torn: {}", shorten(reply))),
                }
            }
            (Expect::SameNumber(_, count), Reply::Array(items)) if items.len() == *count => {
                match items.as_slice() {
                    [first, rest @ ..] if rest.iter().all(|item| item == first) => {
                        one(number_of(first).map(Seen::Number))
                    }
                    _ => Err(format!("a group is torn: {}", shorten(reply))),
                }
            }
            (Expect::Each(all), Reply::Array(items)) if items.len() == all.len() => {
                read_all(all, items, ledger, circumstances)
            }
            (Expect::Names(names), Reply::Array(items)) => {
                let mut seen: Vec<&[u8]> = items.iter().filter_map(Reply::bytes).collect();
                seen.sort_unstable();
                let has = |name: &Vec<u8>| seen.binary_search(&name.as_slice()).is_ok();
                let known = names.iter().filter(|(name, _)| has(name)).count();
                if known != items.len() {
                    return Err(wrong());
                }
                Ok(Some(names.iter().map(|(name, _)| Seen::Flag(has(name))).collect()))
            }
            (Expect::All(_, count), Reply::Array(items)) if [0, *count].contains(&items.len()) => {
                one(Some(Seen::Flag(!items.is_empty())))
            }
            (Expect::OneName, Reply::Array(items)) if items.len() == 1 => Ok(Some(Vec::new())),
            (Expect::Sum(total), Reply::Array(items)) => {
                let sum: Option<i64> = items.iter().map(|item| number_of(item).flatten()).sum();
                (sum == Some(*total)).then(|| Some(Vec::new())).ok_or_else(wrong)
            }
            (Expect::OneOf(count, value), Reply::Array(items)) if items.len() == *count => {
                let there: Vec<&Reply> = items.iter().filter(|item| **item != Reply::Null).collect();
                let is_one = matches!(there.as_slice(), [one] if one.bytes() == Some(value));
                is_one.then(|| Some(Vec::new())).ok_or_else(wrong)
            }
            (Expect::Renamed, Reply::Simple(text)) if text == b"OK" => Ok(Some(Vec::new())),
            (Expect::Renamed, Reply::Integer(0 | 1)) => Ok(Some(Vec::new())),
            (Expect::Renamed, Reply::Error(text)) if text == b"ERR no such key" => Ok(Some(Vec::new())),
            (Expect::Fleeting(number, life_ms), Reply::Simple(text)) if text == b"OK" => {
                ledger.ends_ms.insert(*number, circumstances.end_ms + life_ms);
                Ok(Some(Vec::new()))
            }
            (Expect::Fleeing, _) => match text_of(reply).ok_or_else(wrong)?.as_deref() {
                None => Ok(Some(Vec::new())),
                Some([(number, _)]) => match ledger.ends_ms.get(number) {
                    Some(end_ms) if *end_ms <= circumstances.before.begin_ms => {
                        Err(format!("a value is read whose time was over: {}", shorten(reply)))
                    }
                    _ => Ok(Some(Vec::new())),
                },
                Some(_) => Err(wrong()),
            },
            (Expect::Younger(pair), _) => {
                let number = number_of(reply).ok_or_else(wrong)?.unwrap_or(0);
                ledger.pairs.insert((circumstances.session, *pair), number);
                Ok(Some(Vec::new()))
            }
            (Expect::Elder(pair), _) => {
                let number = number_of(reply).ok_or_else(wrong)?.unwrap_or(0);
                let younger = ledger.pairs.get(&(circumstances.session, *pair)).copied().unwrap_or(0);
                if number < younger {
                    return Err(format!(
                        "effects on one lane out of order: the pair's second is {younger}, its first {number}"
                    ));
                }
                Ok(Some(Vec::new()))
            }
            (Expect::Exec(all, whole), Reply::Array(items)) if items.len() == all.len() => {
                let mut seen = read_all(all, items, ledger, circumstances)?;
                if let Some(seen) = &mut seen {
                    seen.extend(whole.iter().map(|_| Seen::Flag(true)));
                }
                Ok(seen)
            }
            (Expect::Exec(_, whole), Reply::Null) if !whole.is_empty() => Ok(None),
            (Expect::Crew(look), _) => {
                let told = look.read(reply).ok_or_else(wrong)?;
                ledger.crews.look(look.crew, &[told], circumstances.before.crews).map(|()| Some(Vec::new()))
            }
            (Expect::CrewExec(exec), Reply::Array(items)) if items.len() == exec.looks.len() => {
                let told = exec.looks.iter().zip(items).map(|(look, item)| look.read(item));
                let told: Vec<crew::Told> = told.collect::<Option<_>>().ok_or_else(wrong)?;
                ledger.crews.exec(exec, &told, circumstances.before.crews).map(|()| Some(Vec::new()))
            }
            _ => Err(wrong()),
        }
    }
}

fn read_all(
    all: &[Expect],
    items: &[Reply],
    ledger: &mut Ledger,
    circumstances: Circumstances,
) -> Result<Option<Vec<Seen>>, String> {
    let mut seen = Vec::new();
    for (expect, item) in all.iter().zip(items) {
        seen.extend(expect.read(item, ledger, circumstances)?.unwrap_or_default());
    }
    Ok(Some(seen))
}

/// The writes in a value, or that there is none; outer `None` if it is neither.
fn text_of(reply: &Reply) -> Option<Option<crate::object::Text>> {
    match reply {
        Reply::Null => Some(None),
        Reply::Bulk(bytes) => text::parse(bytes).map(Some),
        _ => None,
    }
}

fn number_of(reply: &Reply) -> Option<Option<i64>> {
    match reply {
        Reply::Null => Some(None),
        Reply::Bulk(bytes) => wire::number::parse_i64(bytes).map(Some),
        _ => None,
    }
}

/// A reply for a message.
pub(crate) fn shorten(reply: &Reply) -> String {
    let mut bytes = Vec::new();
    reply.put(&mut bytes, wire::reply::Proto::Resp3);
    let size = bytes.len();
    bytes.truncate(300);
    format!("{} ({size} bytes)", bytes.escape_ascii())
}
