//! Crews: keys that are only ever written together, by one EXEC that gives all of them the same time to live. So they have one end,
//! wherever they are, if all that an EXEC does is done at one time, and they are all there or none is, for whoever looks at one time:
//! a command of several keys, and an EXEC, however long they take.

use std::collections::BTreeMap;

use wire::client::Reply;
use wire::number::parse_i64;

use crate::chance::Chance;

/// How many there are.
pub(crate) const COUNT: usize = 3;

/// A command of which the reply says something about a crew, of so many keys, or, of commands of one key, about a member of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) crew: usize,
    size: usize,
    ask: Ask,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Set,
    Pexpire,
    Get,
    Mget,
    Exists,
    Pttl,
    Pexpiretime,
    Time,
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    /// The number that all keys have, or that none is there.
    Value(Option<u32>),
    IsThere(bool),
    /// Milliseconds.
    Left(Option<i64>),
    /// Unix milliseconds.
    End(Option<i64>),
    /// Unix milliseconds.
    Time(i64),
}

/// Several commands at one time; those at the beginning may give the keys a number and milliseconds to live.
#[derive(Clone, Debug)]
pub(crate) struct Exec {
    pub(crate) crew: usize,
    raised: Option<(u32, i64)>,
    pub(crate) looks: Vec<Look>,
}

type Words = Vec<Vec<u8>>;

fn key(crew: usize, member: usize) -> Vec<u8> {
    format!("crew:{crew}:{member}").into_bytes()
}

/// What is asked of a crew of so many keys in an EXEC, which writes it first if there is a number for that.
pub(crate) fn exec(chance: &mut Chance, crew: usize, size: usize, number: Option<u32>) -> (Vec<Words>, Exec) {
    let life_ms = i64::try_from(chance.between(1, 20)).expect("a short time");
    let mut all: Vec<(Words, Look)> = Vec::new();
    if let Some(number) = number {
        let (number, life) = (number.to_string().into_bytes(), life_ms.to_string().into_bytes());
        let look = |ask| Look { crew, size, ask };
        let members = (0..size).map(|member| key(crew, member));
        if chance.hits(500) {
            let words = |key| vec![b"SET".to_vec(), key, number.clone(), b"PX".to_vec(), life.clone()];
            all.extend(members.map(|key| (words(key), look(Ask::Set))));
        } else {
            let pairs = members.clone().flat_map(|key| [key, number.clone()]);
            all.push(([b"MSET".to_vec()].into_iter().chain(pairs).collect(), look(Ask::Set)));
            let words = |key| vec![b"PEXPIRE".to_vec(), key, life.clone()];
            all.extend(members.map(|key| (words(key), look(Ask::Pexpire))));
        }
    }
    for _ in 0..chance.between(2, 12) {
        all.push(look(chance, crew, size));
    }
    let (words, looks) = all.into_iter().unzip();
    (words, Exec { crew, raised: number.map(|number| (number, life_ms)), looks })
}

/// One command that looks at a crew of so many keys.
pub(crate) fn look(chance: &mut Chance, crew: usize, size: usize) -> (Words, Look) {
    let (name, ask) = chance.pick(&[
        ("GET", Ask::Get),
        ("MGET", Ask::Mget),
        ("EXISTS", Ask::Exists),
        ("PTTL", Ask::Pttl),
        ("PEXPIRETIME", Ask::Pexpiretime),
        ("TIME", Ask::Time),
    ]);
    let mut words = vec![name.as_bytes().to_vec()];
    match ask {
        Ask::Mget | Ask::Exists => words.extend((0..size).map(|member| key(crew, member))),
        Ask::Time => {}
        _ => words.push(key(crew, chance.below(size))),
    }
    (words, Look { crew, size, ask })
}

impl Look {
    /// What a reply says; none when it cannot be.
    pub(crate) fn read(&self, reply: &Reply) -> Option<Told> {
        let size = i64::try_from(self.size).expect("a crew is small");
        match (self.ask, reply) {
            (Ask::Set, Reply::Simple(text)) if text == b"OK" => Some(Told::Nothing),
            (Ask::Pexpire, Reply::Integer(1)) => Some(Told::Nothing),
            (Ask::Get, one) => value(one).map(Told::Value),
            (Ask::Mget, Reply::Array(items)) if items.len() == self.size => {
                let first = value(items.first()?)?;
                items.iter().all(|item| value(item) == Some(first)).then_some(Told::Value(first))
            }
            (Ask::Exists, Reply::Integer(count)) if [0, size].contains(count) => {
                Some(Told::IsThere(*count > 0))
            }
            (Ask::Pttl, Reply::Integer(-2)) => Some(Told::Left(None)),
            (Ask::Pttl, Reply::Integer(left_ms)) if *left_ms > 0 => Some(Told::Left(Some(*left_ms))),
            (Ask::Pexpiretime, Reply::Integer(-2)) => Some(Told::End(None)),
            (Ask::Pexpiretime, Reply::Integer(end_ms)) if *end_ms > 0 => Some(Told::End(Some(*end_ms))),
            (Ask::Time, Reply::Array(items)) => {
                let [seconds, micros] = items.as_slice() else { return None };
                Some(Told::Time(parse_i64(seconds.bytes()?)? * 1000 + parse_i64(micros.bytes()?)? / 1000))
            }
            _ => None,
        }
    }
}

fn value(reply: &Reply) -> Option<Option<u32>> {
    match reply {
        Reply::Null => Some(None),
        Reply::Bulk(bytes) => u32::try_from(parse_i64(bytes)?).ok().map(Some),
        _ => None,
    }
}

/// What replies have told.
#[derive(Default)]
pub(crate) struct Ledger {
    /// The numbers that crews have been given, by the order of the replies.
    raised: BTreeMap<u32, usize>,
    /// Of each crew: so many of the first of them are over.
    over: [usize; COUNT],
}

/// What they had told when a command was sent.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    raised_count: usize,
    over: [usize; COUNT],
}

impl Ledger {
    pub(crate) fn before(&self) -> Before {
        Before { raised_count: self.raised.len(), over: self.over }
    }

    /// One time has seen all of this.
    pub(crate) fn look(&mut self, crew: usize, told: &[Told], before: Before) -> Result<(), String> {
        let torn = || format!("a crew is seen at two times: {told:?}");
        let mut is_there = None;
        for one in told {
            let also = match one {
                Told::Value(value) => value.is_some(),
                Told::IsThere(is_there) => *is_there,
                Told::Left(left_ms) => left_ms.is_some(),
                Told::End(end_ms) => end_ms.is_some(),
                Told::Nothing | Told::Time(_) => continue,
            };
            if *is_there.get_or_insert(also) != also {
                return Err(torn());
            }
        }
        let number = same(told, |one| if let Told::Value(value) = one { *value } else { None });
        let left_ms = same(told, |one| if let Told::Left(left_ms) = one { *left_ms } else { None });
        let end_ms = same(told, |one| if let Told::End(end_ms) = one { *end_ms } else { None });
        let time_ms = same(told, |one| if let Told::Time(time_ms) = one { Some(*time_ms) } else { None });
        let (Ok(number), Ok(left_ms), Ok(end_ms), Ok(time_ms)) = (number, left_ms, end_ms, time_ms) else {
            return Err(torn());
        };
        let begins = left_ms.zip(end_ms).map(|(left_ms, end_ms)| end_ms - left_ms);
        if begins.zip(time_ms).is_some_and(|(begin_ms, time_ms)| begin_ms != time_ms)
            || end_ms.zip(time_ms).is_some_and(|(end_ms, time_ms)| end_ms <= time_ms)
        {
            return Err(torn());
        }
        if is_there == Some(false) {
            // What had been given before is over, and each number is given once.
            self.over[crew] = self.over[crew].max(before.raised_count);
        }
        let nth = number.and_then(|number| self.raised.get(&number));
        if nth.is_some_and(|nth| *nth < before.over[crew]) {
            return Err(format!("a crew is there again that was over: {told:?}"));
        }
        Ok(())
    }

    /// The same of an EXEC, which may have written it first.
    pub(crate) fn exec(&mut self, exec: &Exec, told: &[Told], before: Before) -> Result<(), String> {
        if let Some((number, life_ms)) = exec.raised {
            let fits = |one: &Told| match one {
                Told::Value(value) => *value == Some(number),
                Told::IsThere(is_there) => *is_there,
                Told::Left(left_ms) => *left_ms == Some(life_ms),
                Told::End(end_ms) => end_ms.is_some(),
                Told::Nothing | Told::Time(_) => true,
            };
            if !told.iter().all(fits) {
                let wanted = format!("{number} for {life_ms} ms");
                return Err(format!("a crew just written is not seen at its time ({wanted}): {told:?}"));
            }
            self.raised.insert(number, self.raised.len());
        }
        self.look(exec.crew, told, before)
    }
}

/// What all say who say something; `Err` when they do not agree.
fn same<T: PartialEq>(told: &[Told], of: impl Fn(&Told) -> Option<T>) -> Result<Option<T>, ()> {
    let mut all = told.iter().filter_map(of);
    let first = all.next();
    if all.all(|one| Some(&one) == first.as_ref()) { Ok(first) } else { Err(()) }
}
