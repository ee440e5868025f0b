//! Scripts against a server of a few commands.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;

use script::{Answer, Engine, Part, Program, Returned, Run, Step, Words};
use wire::Proto;
use wire::client::Reply;

/// Memory of the engines here.
pub(crate) const MEMORY: usize = 16 << 20;

/// A server of a few commands.
#[derive(Default)]
pub(crate) struct Server {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) logged: Vec<(u8, String)>,
    /// How often a run stopped for lack of fuel.
    pub(crate) pauses: usize,
}

impl Server {
    /// What Redis would answer.
    pub(crate) fn answer(&mut self, words: &Words, proto: Proto) -> Reply {
        let error = |text: &str| Reply::Error(text.as_bytes().to_vec());
        let words: Vec<&[u8]> = words.iter().collect();
        match words.as_slice() {
            [b"get"] => error("ERR Wrong number of args calling Redis command from script"),
            [b"get", key] => self.values.get(*key).map_or(Reply::Null, |value| Reply::Bulk(value.clone())),
            [b"set", key, value] => {
                self.values.insert(key.to_vec(), value.to_vec());
                Reply::Simple(b"OK".to_vec())
            }
            [b"incr", key] => {
                let value = self.values.entry(key.to_vec()).or_insert_with(|| b"0".to_vec());
                let next: i64 = String::from_utf8_lossy(value).parse::<i64>().unwrap() + 1;
                *value = next.to_string().into_bytes();
                Reply::Integer(next)
            }
            [b"wrong"] => error("WRONGTYPE Operation against a key holding the wrong kind of value"),
            [b"list", items @ ..] => {
                Reply::Array(items.iter().map(|item| Reply::Bulk(item.to_vec())).collect())
            }
            [b"map", key, value] => {
                let (key, value) = (Reply::Bulk(key.to_vec()), Reply::Bulk(value.to_vec()));
                if proto == Proto::Resp3 {
                    Reply::Map(vec![(key, value)])
                } else {
                    Reply::Array(vec![key, value])
                }
            }
            [b"members", items @ ..] => {
                Reply::Set(items.iter().map(|item| Reply::Bulk(item.to_vec())).collect())
            }
            [b"double"] => Reply::Double(1.5),
            [b"nested"] => Reply::Array(vec![
                Reply::Integer(1),
                Reply::Null,
                Reply::Array(vec![Reply::Simple(b"OK".to_vec()), Reply::Error(b"FOO bar".to_vec())]),
            ]),
            _ => error("ERR Unknown Redis command called from script"),
        }
    }

    /// Runs to the end, with so much fuel at a time.
    pub(crate) fn finish(&mut self, engine: &mut Engine, run: &mut Run, fuel: u32) -> Reply {
        let mut answer = None;
        loop {
            match run.resume(engine, answer.take(), fuel, 1_500_000_000) {
                Step::Call { words, proto, .. } => {
                    answer = Some(heard(engine, &self.answer(&words, proto), proto, fuel));
                }
                Step::Log { level, text } => self.logged.push((level, String::from_utf8(text).unwrap())),
                Step::More => {
                    self.pauses += 1;
                    assert!(self.pauses < 1_000_000, "the script does not end");
                }
                Step::Done(reply) => return reply,
                Step::Return(returned) => return whole(engine, returned),
            }
        }
    }
}

/// All parts of what a script has returned.
pub(crate) fn whole(engine: &Engine, mut returned: Returned) -> Reply {
    let mut open = Vec::new();
    while let Some(part) = returned.next(engine) {
        let reply = match part {
            Part::Open => {
                open.push(Vec::new());
                continue;
            }
            Part::Value(reply) => reply,
            Part::Close(count) => {
                let items = open.pop().expect("a list ends that has begun");
                assert_eq!(items.len(), count);
                Reply::Array(items)
            }
            Part::TooLarge => {
                return Reply::Error(b"ERR the script's reply is larger than script-memory-limit".to_vec());
            }
        };
        match open.last_mut() {
            Some(around) => around.push(reply),
            None => {
                assert!(returned.next(engine).is_none(), "the first list ends last");
                return reply;
            }
        }
    }
    panic!("a list that has begun ends")
}

/// A command's reply for the run that has called, read in pieces of a few bytes and elements when there is little fuel.
pub(crate) fn heard(engine: &mut Engine, reply: &Reply, proto: Proto, fuel: u32) -> Answer {
    let mut bytes = Vec::new();
    reply.put(&mut bytes, proto);
    let mut answer = Answer::new(proto);
    for piece in bytes.chunks(fuel as usize) {
        answer.push(piece);
        while answer.read(engine, fuel as usize) > 0 {}
    }
    assert!(answer.is_whole(), "{reply:?} is read");
    answer
}

/// One script in an engine of its own, with `k1` as its key and `a1`, `a2` as its arguments.
pub(crate) fn run(source: &str, fuel: u32) -> Reply {
    run_in(&mut Engine::new(MEMORY), &mut Server::default(), source, fuel)
}

/// The same in this engine.
pub(crate) fn run_in(engine: &mut Engine, server: &mut Server, source: &str, fuel: u32) -> Reply {
    let program = match Program::compile(source.as_bytes()) {
        Ok(program) => program,
        Err(text) => return Reply::Error(text.into_bytes()),
    };
    while engine.is_crowded() {
        engine.tidy();
    }
    let mut run = engine.begin(&program, false, &[b"k1"], &[b"a1", b"a2"]).expect("there is memory");
    server.finish(engine, &mut run, fuel)
}

/// A reply as text: `"bulk"`, `+status`, `-error`, `1`, `[a, b]`; the script's name left out of errors.
pub(crate) fn show(reply: &Reply) -> String {
    let list = |items: &[Reply]| items.iter().map(show).collect::<Vec<_>>().join(", ");
    match reply {
        Reply::Bulk(text) => format!("\"{}\"", text.escape_ascii()),
        Reply::Simple(text) => format!("+{}", text.escape_ascii()),
        Reply::Error(text) => {
            let text = text.escape_ascii().to_string();
            match text.split_once(" script: ") {
                Some((text, tail)) => format!("-{text} @{}", tail.rsplit(':').next().unwrap()),
                None => format!("-{text}"),
            }
        }
        Reply::Integer(value) => value.to_string(),
        Reply::Double(value) => format!(",{value}"),
        Reply::Boolean(value) => format!("#{value}"),
        Reply::Big(digits) => format!("({}", digits.escape_ascii()),
        Reply::Null => "nil".to_owned(),
        Reply::Verbatim(format, text) => format!("={}:{}", format.escape_ascii(), text.escape_ascii()),
        Reply::Array(items) | Reply::Push(items) => format!("[{}]", list(items)),
        Reply::Set(items) => format!("~[{}]", list(items)),
        Reply::Map(pairs) => {
            let pairs: Vec<_> =
                pairs.iter().map(|(key, value)| format!("{}: {}", show(key), show(value))).collect();
            format!("%{{{}}}", pairs.join(", "))
        }
    }
}
