//! What must hold for any bytes of an Aerospike connection.

use crate::aerospike::client::{self, Message};
use crate::aerospike::op::{kind, particle};
use crate::aerospike::{
    Code, DIGEST, DIGEST_SIZE, Decoder, HEAD, Head, Limits, SCAN_SIZE_MAX, SET_SIZE_MAX, USER_KEY_SIZE_MAX,
    Verb, admin, info, reply,
};
use crate::aerospike::{OPS, SET, TEXT, USER_KEY};
use crate::resp::{ArgRanges, Step, Token};
use crate::route::partition;

/// The arguments of a command.
pub type Command = Vec<Vec<u8>>;

/// Largest record of [`requests`]: some requests are read as views, some by tokens, some are refused.
const RECORD_SIZE_MAX: u64 = 40_000;
/// The same for every third seed: rows that would fit a view are refused, too.
const RECORD_SIZE_MAX_SMALL: u64 = 20_000;

/// Requests decode the same in one piece and cut at places drawn from `seed`, by views and by tokens; a decoder that goes back
/// reads the same again; every step makes progress; every command can be answered.
pub fn requests(input: &[u8], seed: u64) {
    let record_size_max = if seed.is_multiple_of(3) { RECORD_SIZE_MAX_SMALL } else { RECORD_SIZE_MAX };
    let limits = Limits { record_size_max, authenticated: !seed.is_multiple_of(4) };
    let whole = read(input, |_| usize::MAX, &limits);
    whole.iter().for_each(|command| answer(command, &limits));
    let mut state = seed;
    let random = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::from(state.to_be_bytes()[0]) + 1
    };
    assert_eq!(whole, read(input, |_| 1, &limits));
    assert_eq!(whole, read(input, random, &limits));
}

/// What every command is, and that a reply to it can be written.
fn answer(command: &Command, limits: &Limits) {
    let head = Head::from_bytes(&command[HEAD]);
    let digest_size = match head.verb {
        // Of a scan that is limited all partitions, of another one.
        Verb::Scan if head.index > 0 => command[DIGEST].len().next_multiple_of(2).max(2),
        Verb::Scan => 2,
        verb if verb.has_digest() => DIGEST_SIZE,
        _ => 0,
    };
    assert_eq!(command[DIGEST].len(), digest_size);
    if head.verb.has_digest() && command.len() > SET {
        let is_key = match head.verb {
            // The records behind which it goes on.
            Verb::Scan => {
                let records = command[USER_KEY].as_chunks::<DIGEST_SIZE>();
                let ids = command[DIGEST].as_chunks::<2>().0;
                let is_of = |(record, id): (&[u8; DIGEST_SIZE], &[u8; 2])| {
                    partition(record) == u16::from_le_bytes(*id)
                };
                records.1.is_empty() && records.0.len() <= ids.len() && records.0.iter().zip(ids).all(is_of)
            }
            _ => command[USER_KEY].len() <= USER_KEY_SIZE_MAX,
        };
        assert!(command[SET].len() <= SET_SIZE_MAX && is_key);
        let ops: usize = command[OPS..].iter().map(Vec::len).sum();
        // What limits a scan is the size of its frame.
        let size_max = if head.verb == Verb::Scan { SCAN_SIZE_MAX as u64 } else { limits.record_size_max };
        assert!(ops as u64 <= size_max, "what is larger is refused");
    }
    assert!(head.verb != Verb::Write || command.len() > OPS, "a write has operations, be there none");
    let mut out = Vec::new();
    match head.verb {
        Verb::Info | Verb::Truncate => info::put(&mut out, &command[TEXT]),
        Verb::Admin => {
            let _ = admin::Request::parse(&command[TEXT]);
            admin::put(&mut out, &command[TEXT], Code::OK, None);
        }
        _ => reply::put_code(&mut out, &head, Code::NOT_FOUND),
    }
    let (_, _, size) = client::frame(&out).expect("a reply is whole");
    assert!(size == out.len() || size < out.len() && client::frame(&out[size..]).is_some());
}

/// Reads requests that arrive in pieces, whose sizes `piece` chooses from what has arrived: small ones by views, large ones by
/// tokens. Ends where a command closes the connection.
pub fn read(input: &[u8], mut piece: impl FnMut(usize) -> usize, limits: &Limits) -> Vec<Command> {
    let (mut decoder, mut args, mut commands) = (Decoder::default(), ArgRanges::new(), Vec::new());
    let mut open: Option<Command> = None;
    let (mut consumed, mut arrived) = (0, 0);
    while arrived < input.len() {
        arrived = arrived.saturating_add(piece(arrived)).min(input.len());
        loop {
            let here = &input[consumed..arrived];
            let state = decoder.state();
            match decoder.decode(here, &mut args, limits) {
                Step::Need => break,
                Step::Malformed(error) => panic!("{error} is of RESP"),
                Step::Command { size } => {
                    assert!(0 < size && size <= here.len(), "a command has a size");
                    let command: Command = args.iter(here).map(<[u8]>::to_vec).collect();
                    decoder.rewind(state);
                    assert_eq!(decoder.decode(here, &mut args, limits), Step::Command { size });
                    assert!(args.iter(here).eq(command.iter().map(Vec::as_slice)), "the same again");
                    consumed += size;
                    let closes =
                        command.first().is_some_and(|head| Head::from_bytes(head).verb == Verb::Close);
                    commands.extend((!command.is_empty()).then_some(command));
                    if closes {
                        return commands;
                    }
                }
                Step::Large => {
                    let (token, size) = decoder.token(here, limits);
                    assert!(size <= here.len(), "only what is there is consumed");
                    match (token, &mut open) {
                        (Token::Need, _) => {
                            consumed += size;
                            break;
                        }
                        (Token::Pause, _) => {}
                        (Token::Begin { .. }, open) => *open = Some(Vec::new()),
                        (Token::Bulk { .. }, Some(command)) => command.push(Vec::new()),
                        (Token::Bytes(range), Some(command)) => last(command).extend_from_slice(&here[range]),
                        (Token::Word(word), Some(command)) => {
                            last(command).extend_from_slice(word.as_bytes())
                        }
                        (Token::End, open) => {
                            commands.push(open.take().expect("an end comes behind a begin"))
                        }
                        (token, _) => panic!("{token:?} outside of a request"),
                    }
                    consumed += size;
                }
            }
        }
    }
    commands
}

fn last(command: &mut Command) -> &mut Vec<u8> {
    command.last_mut().expect("bytes come behind their bulk")
}

/// Bytes that are nearly a stream of requests, some of them damaged.
pub fn some_input(next: &mut impl FnMut() -> u64) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..1 + next() % 4 {
        let (mut ops, op_count) = (Vec::new(), u16::from(next().to_be_bytes()[0] % 4));
        for _ in 0..op_count {
            let size = if next().is_multiple_of(8) { next() % 60_000 } else { next() % 40 };
            let value = vec![b'x'; usize::try_from(size).expect("small")];
            put_some_op(&mut ops, next(), &value);
        }
        let digest = [next().to_be_bytes()[0]; DIGEST_SIZE];
        let [info1, info2, info3, ..] = next().to_be_bytes();
        let namespace: &[u8] = if next().is_multiple_of(8) { b"other" } else { b"test" };
        let partitions = [next().to_be_bytes()[0].into(), 5, 4095];
        let records = [[next().to_be_bytes()[0]; DIGEST_SIZE], [9; DIGEST_SIZE]];
        let is_scan = next().is_multiple_of(4);
        // As many as no view holds, now and then.
        let is_long = is_scan && next().is_multiple_of(16);
        let many: Vec<_> =
            (0..if is_long { 1000 + next() % 3200 } else { 0 }).map(|_| some_digest(next())).collect();
        let (partition_count, record_count) =
            if is_scan { ([0, 2, 3][pick(next(), 3)], pick(next(), 3)) } else { (0, 0) };
        let message = Message {
            info1: info1 & !8,
            info2: info2 & 3,
            info3,
            namespace,
            set: &b"demo"[..usize::from(info3 % 5)],
            user_key: if next().is_multiple_of(2) { b"" } else { b"\x03key" },
            digest: (!is_scan).then_some(&digest),
            partitions: &partitions[..partition_count],
            records: if is_long { &many } else { &records[..record_count] },
            max_records: if is_scan { next() % 2 } else { 0 },
            ops: (op_count, &ops),
            ..Message::default()
        };
        let start = input.len();
        match next() % 4 {
            0 => client::put_info(&mut input, "node\nreplicas\n"),
            1 => client::put_login(&mut input, "user", b"credential"),
            2 => message.put(&mut input),
            _ => {
                let (mut rows, count) = (Vec::new(), u32::from(next().to_be_bytes()[0] % 5));
                for index in 0..count {
                    if next().is_multiple_of(2) {
                        message.put_row(&mut rows, index, &digest);
                    } else {
                        client::put_same_row(&mut rows, index, &digest);
                    }
                }
                client::put_batch(&mut input, count, &rows);
            }
        }
        // Info and security are not to be compressed, nor is what is so already.
        for _ in 0..[0, 0, 0, 0, 0, 1, 1, 2][pick(next(), 8)] {
            let mut plain = input.split_off(start);
            if next().is_multiple_of(4) {
                let index = pick(next(), plain.len().min(200));
                plain[index] ^= 1 << (next() % 8);
            }
            client::put_compressed(&mut input, &plain);
        }
    }
    if next().is_multiple_of(2) {
        for _ in 0..1 + next() % 3 {
            let size = u64::try_from(input.len()).expect("sizes fit 64 bits");
            let index = usize::try_from(next() % size).expect("an index");
            input[index] = [0, 1, 2, 3, 8, 22, 0x29, 0x80, 0xff][usize::from(next().to_be_bytes()[0] % 9)];
        }
    }
    input
}

fn some_digest(dice: u64) -> [u8; DIGEST_SIZE] {
    let mut digest = [0; DIGEST_SIZE];
    digest[..8].copy_from_slice(&dice.to_be_bytes());
    digest
}

/// A number below `end`.
fn pick(dice: u64, end: usize) -> usize {
    usize::from(dice.to_be_bytes()[0]) % end
}

fn put_some_op(ops: &mut Vec<u8>, dice: u64, value: &[u8]) {
    let kinds = [kind::READ, kind::WRITE, kind::INCR, kind::TOUCH, 99];
    let kind = kinds[pick(dice, kinds.len())];
    client::put_op(ops, kind, particle::BLOB, b"bin", value);
}
