//! Bodies of the fuzz targets: what must hold for any bytes. The targets under `fuzz/` call them with bytes of a fuzzer,
//! the tests with bytes of a seeded generator.

use crate::client::{Collector, Counter, Outcome, ReplyError};
use crate::extended;
use crate::glob::{self, Case, Verdict};
use crate::reply::Proto;
use crate::resp::{ArgRanges, Decoder, Limits, ProtocolError, Shape, Step, Token};

pub mod aerospike;
pub mod couchbase;
pub mod json;
pub mod memcached;
pub mod rdb;

/// Requests decode the same in one piece and cut at places drawn from `seed`, by views and by tokens; every step makes
/// progress; consumed bytes never exceed what is there.
pub fn requests(input: &[u8], seed: u64) {
    let limits = Limits { bulk_size_max: 100_000, args_max: 3000, authenticated: !seed.is_multiple_of(4) };
    let whole = read(input, |_| usize::MAX, &limits);
    assert_eq!(whole, read(input, |_| 1, &limits), "a byte at a time");
    let mut state = seed;
    let random = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::from(state.to_be_bytes()[0]) + 1
    };
    assert_eq!(whole, read(input, random, &limits), "in pieces");
}

/// Whole commands, then how the input ended them.
pub type Read = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Reads requests that arrive in pieces, whose sizes `piece` chooses from what has arrived: small frames by views, large
/// ones by tokens.
pub fn read(input: &[u8], mut piece: impl FnMut(usize) -> usize, limits: &Limits) -> Read {
    let (mut decoder, mut args, mut commands) = (Decoder::new(), ArgRanges::new(), Vec::new());
    let (mut shape, mut shaped) = (Shape::default(), ArgRanges::new());
    let mut open: Option<Vec<Vec<u8>>> = None;
    let (mut consumed, mut arrived) = (0, 0);
    while arrived < input.len() {
        arrived = arrived.saturating_add(piece(arrived)).min(input.len());
        loop {
            let here = &input[consumed..arrived];
            let size_by_shape =
                if limits.authenticated && decoder.is_new() { shape.read(here) } else { None };
            match decoder.decode(here, &mut args, limits) {
                step if size_by_shape.is_some_and(|size| step != Step::Command { size }) => {
                    panic!("{step:?} instead of {size_by_shape:?}");
                }
                Step::Need => break,
                Step::Malformed(error) => return (commands, Some(error)),
                Step::Command { size } => {
                    assert!(0 < size && size <= here.len(), "a command has a size");
                    if size_by_shape.is_some() {
                        shape.place(&mut shaped);
                        assert!(shaped.iter(here).eq(args.iter(here)), "a shape finds the same arguments");
                    }
                    shape.take(here, size, &args);
                    commands.push(args.iter(here).map(<[u8]>::to_vec).collect());
                    consumed += size;
                }
                Step::Large => {
                    let (token, size) = decoder.token(here, limits);
                    assert!(size <= here.len(), "only what is there is consumed");
                    consumed += size;
                    match (token, &mut open) {
                        (Token::Need, _) => break,
                        (Token::Malformed(error), _) => return (commands, Some(error)),
                        (Token::Begin { .. }, open) => *open = Some(Vec::new()),
                        (Token::Bulk { .. }, Some(command)) => command.push(Vec::new()),
                        (Token::Bytes(range), Some(command)) => {
                            let arg = command.last_mut().expect("bytes come behind their bulk");
                            arg.extend_from_slice(&here[range]);
                        }
                        (Token::Word(word), _) => panic!("RESP has no {word:?}"),
                        (Token::End, open) => {
                            commands.push(open.take().expect("an end comes behind a begin"))
                        }
                        (token, _) => panic!("{token:?} outside of a frame"),
                    }
                }
            }
        }
    }
    (commands, None)
}

/// Replies are collected and counted the same in one piece and a byte at a time; what is collected encodes and is
/// collected again.
pub fn replies(input: &[u8]) {
    let (whole, count, error) = collect(input, usize::MAX);
    let pieces = collect(input, 1);
    assert_eq!(error, pieces.2);
    // What cannot be built, such as a verbatim text without its format, can still be counted.
    assert!(if error.is_none() { count == whole.len() } else { count >= whole.len() }, "{count} counted");
    // Not by `==`: nan is not itself.
    assert_eq!(format!("{whole:?}"), format!("{:?}", pieces.0));
    let mut again = Vec::new();
    whole.iter().for_each(|reply| reply.put(&mut again, Proto::Resp3));
    let (same, _, _) = collect(&again, usize::MAX);
    assert_eq!(same.len(), whole.len());
}

fn collect(input: &[u8], piece: usize) -> (Vec<crate::client::Reply>, usize, Option<ReplyError>) {
    let (mut collector, mut counter) = (Collector::default(), Counter::default());
    let (mut replies, mut count) = (Vec::new(), 0);
    let (mut collected, mut counted, mut arrived) = (0, 0, 0);
    while arrived < input.len() {
        arrived = arrived.saturating_add(piece).min(input.len());
        loop {
            let rest = &input[counted..arrived];
            let short = counter.whole_bulk(rest).map(|(value, size)| (value.len(), size));
            let Ok((end, size)) = counter.next(rest) else { break };
            if let Some((value_size, whole_size)) = short {
                assert_eq!((end, size), (Some(Outcome::Value), whole_size), "the short way is the same way");
                assert!(value_size + b"$0\r\n\r\n".len() <= size);
            }
            counted += size;
            if end.is_none() {
                break;
            }
            count += 1;
        }
        loop {
            match collector.next(&input[collected..arrived]) {
                Err(error) => return (replies, count, Some(error)),
                Ok((reply, size)) => {
                    collected += size;
                    match reply {
                        Some(reply) => replies.push(reply),
                        None => break,
                    }
                }
            }
        }
    }
    (replies, count, None)
}

/// Bytes that are nearly a stream of requests: frames of all sizes, some of them damaged.
pub fn some_input(next: &mut impl FnMut() -> u64) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..next() % 4 {
        match next() % 8 {
            0 => input.extend_from_slice(b"PING \"a\\x41\" 'b'\r\n"),
            1 => input.extend_from_slice(b"*0\r\n\r\n"),
            2 => input.extend((0..next() % 20).map(|_| next().to_be_bytes()[0])),
            kind => {
                let args = if kind == 3 && next().is_multiple_of(50) {
                    1000 + next() % 1000
                } else {
                    1 + next() % 5
                };
                input.extend_from_slice(format!("*{args}\r\n").as_bytes());
                for _ in 0..args {
                    let size = match next() % 200 {
                        _ if args > 5 => next() % 20,
                        0 => 10_000 + next() % 30_000,
                        1 => 30_000 + next() % 6_000,
                        _ => next() % 20,
                    };
                    input.extend_from_slice(format!("${size}\r\n").as_bytes());
                    input.extend((0..size).map(|_| b'x'));
                    input.extend_from_slice(b"\r\n");
                }
            }
        }
    }
    if next().is_multiple_of(2) && !input.is_empty() {
        for _ in 0..1 + next() % 3 {
            let size = u64::try_from(input.len()).expect("sizes fit 64 bits");
            let index = usize::try_from(next() % size).expect("an index");
            let replacement = b"*$\r\n01-9: \"'"[usize::from(next().to_be_bytes()[0] % 12)];
            input[index] = replacement;
        }
    }
    input
}

/// The first zero byte of `data` ends the pattern, the rest is the text. Steps of one byte find what one go finds, and
/// there are at most as many as pattern × text.
pub fn glob(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (pattern, text) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    for case in [Case::Exact, Case::Ignored] {
        let want = glob::matches(pattern, text, case);
        let (mut state, mut steps) = (glob::Match::new(), 0);
        let verdict = loop {
            match state.run(pattern, text, case, &mut 1) {
                Verdict::More => steps += 1,
                verdict => break verdict,
            }
        };
        assert_eq!(verdict == Verdict::Yes, want);
        assert!(steps <= (pattern.len() + 1) * (text.len() + 1) * 2, "{steps} steps");
    }
}

/// The first blank of `data` parts two numbers. Their sum does not depend on their order, and adding zero to it changes
/// nothing.
pub fn floats(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b' ');
    let (left, right) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let sum = extended::add(left, right);
    assert_eq!(sum, extended::add(right, left));
    if let Ok(sum) = sum {
        assert_eq!(extended::add(&sum, b"0").as_ref(), Ok(&sum));
    }
}
