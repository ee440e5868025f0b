//! What must hold for any bytes of a memcached connection.

use crate::memcached::decoder::LINE_SIZE_MAX;
use crate::memcached::{
    Decoder, Framing, HEAD, HEAD_SIZE, Head, KEY, KEY_SIZE_MAX, Limits, Outcome, Say, reply,
};
use crate::resp::{ArgRanges, Step, Token};

/// The arguments of a command.
pub type Command = Vec<Vec<u8>>;

/// Largest item of [`requests`]: some values are read as views, some by tokens, some are refused.
const ITEM_SIZE_MAX: u64 = 50_000;

/// Requests decode the same in one piece and cut at places drawn from `seed`, by views and by tokens; a decoder that goes back
/// reads the same again; every step makes progress; every command has a head and a key and can be answered.
pub fn requests(input: &[u8], seed: u64) {
    let framing = input.first().map_or(Framing::Text, |first| Framing::of(*first));
    requests_as(framing, input, seed);
}

/// The same of a connection with this framing.
pub fn requests_as(framing: Framing, input: &[u8], seed: u64) {
    let read = |input: &[u8], piece: &mut dyn FnMut(usize) -> usize, limits: &Limits| {
        read_as(framing, input, piece, limits)
    };
    let limits = Limits { item_size_max: ITEM_SIZE_MAX, authenticated: !seed.is_multiple_of(4) };
    let whole = read(input, &mut |_| usize::MAX, &limits);
    whole.iter().for_each(answer);
    let mut state = seed;
    let mut random = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::from(state.to_be_bytes()[0]) + 1
    };
    for pieces in [read(input, &mut |_| 1, &limits), read(input, &mut random, &limits)] {
        if !framing.is_binary() && may_be_given_up(input) {
            // A long line that is whole is read, one that is not is given up.
            let same = whole.iter().zip(&pieces).take_while(|(one, other)| one == other).count();
            assert!(same == whole.len() || same + 1 >= pieces.len(), "the same until one gives up");
        } else {
            assert_eq!(whole, pieces);
        }
    }
}

/// Is there a stretch without a line's end, long enough that its end may come too late?
fn may_be_given_up(input: &[u8]) -> bool {
    input.split(|byte| *byte == b'\n').any(|line| line.len() > LINE_SIZE_MAX)
}

/// What every command is, and that a reply to it can be written in every way that its execution may end.
fn answer(command: &Command) {
    let head = Head::from_bytes(&command[HEAD]);
    let key = &command[KEY];
    assert!(key.len() <= KEY_SIZE_MAX && key.is_empty() != head.verb.has_key() || !head.verb.has_key());
    let flags = command.get(2).map_or(&b""[..], Vec::as_slice);
    let mut out = Vec::new();
    for outcome in [Outcome::Miss, Outcome::Exists, Outcome::NotStored, Outcome::Ok, Outcome::Say(head.say)] {
        out.clear();
        reply::put(&mut out, &head, key, flags, &outcome);
        assert_eq!(!out.is_empty(), reply::is_said(&head, &outcome), "{head:?} {outcome:?}");
    }
}

/// Reads requests that arrive in pieces, whose sizes `piece` chooses from what has arrived: small ones by views, large ones by
/// tokens. Ends where a command closes the connection.
pub fn read(input: &[u8], piece: impl FnMut(usize) -> usize, limits: &Limits) -> Vec<Command> {
    let framing = input.first().map_or(Framing::Text, |first| Framing::of(*first));
    read_as(framing, input, piece, limits)
}

/// The same of a connection with this framing.
pub fn read_as(
    framing: Framing,
    input: &[u8],
    mut piece: impl FnMut(usize) -> usize,
    limits: &Limits,
) -> Vec<Command> {
    let (mut decoder, mut args, mut commands) = (Decoder::new(framing), ArgRanges::new(), Vec::new());
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
                    commands.extend((!command.is_empty()).then_some(command));
                    if commands.last().is_some_and(|last: &Command| {
                        reply::closes(&Head::from_bytes(&last[HEAD]), &Outcome::Say(Say::Nothing))
                    }) {
                        return commands;
                    }
                }
                Step::Large => {
                    let (token, size) = decoder.token(here);
                    assert!(size <= here.len(), "only what is there is consumed");
                    match (token, &mut open) {
                        (Token::Need, _) => break,
                        (Token::Begin { args }, open) => {
                            assert!(args == 2 || args == 4);
                            *open = Some(Vec::new());
                        }
                        (Token::Bulk { .. }, Some(command)) => command.push(Vec::new()),
                        (Token::Bytes(range), Some(command)) => last(command).extend_from_slice(&here[range]),
                        (Token::Word(word), Some(command)) => {
                            last(command).extend_from_slice(word.as_bytes())
                        }
                        (Token::End, open) => {
                            commands.push(open.take().expect("an end comes behind a begin"));
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

/// Bytes that are nearly a stream of requests, some of them damaged: of one framing, as a connection has it.
pub fn some_input(next: &mut impl FnMut() -> u64) -> Vec<u8> {
    let mut input = Vec::new();
    let is_binary = next().is_multiple_of(2);
    for _ in 0..1 + next() % 5 {
        if is_binary { some_binary(&mut input, next) } else { some_line(&mut input, next) }
    }
    if next().is_multiple_of(2) {
        for _ in 0..1 + next() % 3 {
            let size = u64::try_from(input.len()).expect("sizes fit 64 bits");
            let index = usize::try_from(next() % size).expect("an index");
            input[index] = b" \r\n\x000-9kqbN\x80"[usize::from(next().to_be_bytes()[0] % 12)];
        }
    }
    input
}

fn size(next: &mut impl FnMut() -> u64) -> usize {
    let size = match next() % 60 {
        0 => 20_000 + next() % 20_000,
        1 => 49_700 + next() % 300,
        _ => next() % 20,
    };
    usize::try_from(size).expect("a size")
}

fn some_line(input: &mut Vec<u8>, next: &mut impl FnMut() -> u64) {
    const LINES: [&str; 16] = [
        "get a bb ccc",
        "gats 10 a  b ",
        "gat 5",
        "delete k noreply",
        "incr k 5",
        "touch k 0",
        "flush_all 7",
        "stats cachedump 1 2",
        "verbosity 1 noreply",
        "version",
        "mg Zm9v b t N30 O7 k q",
        "md k I T0",
        "ma k N0 J5 D2 v",
        "me k",
        "mn",
        "GET / HTTP/1.1",
    ];
    let value_size = size(next);
    let line = match next() % 5 {
        0 => format!("set k 7 0 {value_size}"),
        1 => format!("cas key 0 60 {value_size} 9 noreply"),
        2 => format!("ms Zm9v {value_size} T60 b c F1 ME"),
        _ => {
            let index = usize::from(next().to_be_bytes()[0]) % LINES.len();
            input.extend_from_slice(LINES[index].as_bytes());
            return input.extend_from_slice(b"\r\n");
        }
    };
    input.extend_from_slice(line.as_bytes());
    input.extend_from_slice(b"\r\n");
    input.extend((0..value_size).map(|index| if index % 64 == 63 { b'\n' } else { b'v' }));
    input.extend_from_slice(if next().is_multiple_of(8) { b"xx" } else { b"\r\n" });
}

fn some_binary(input: &mut Vec<u8>, next: &mut impl FnMut() -> u64) {
    let opcode = next().to_be_bytes()[0] % 0x28;
    let extras = [0u8, 8, 4, 20][match opcode {
        1..=3 | 0x11..=0x13 => 1,
        0x1b..=0x1e | 0x23 | 0x24 => 2,
        5 | 6 | 0x15 | 0x16 => 3,
        _ => 0,
    }];
    let key: &[u8] =
        if matches!(opcode, 7 | 8 | 0xa | 0xb | 0x17 | 0x18 | 0x1b | 0x20) { b"" } else { b"PLAIN" };
    let has_value = matches!(opcode, 1..=3 | 0x11..=0x13 | 0xe | 0xf | 0x19 | 0x1a | 0x21 | 0x22);
    let value_size = if has_value { size(next) } else { 0 };
    let body_size = usize::from(extras) + key.len() + value_size;
    input.extend_from_slice(&[HEADER_MAGIC, opcode]);
    input.extend_from_slice(&u16::try_from(key.len()).expect("a key").to_be_bytes());
    input.extend_from_slice(&[extras, 0, 0, 0]);
    input.extend_from_slice(&u32::try_from(body_size).expect("a body").to_be_bytes());
    input.extend_from_slice(&next().to_be_bytes()[..4]);
    input.extend_from_slice(&(next() % 2).to_be_bytes());
    input.extend((0..extras).map(|index| index % 3));
    input.extend_from_slice(key);
    input.extend((0..value_size).map(|_| b'\n'));
}

/// Of a binary request.
const HEADER_MAGIC: u8 = crate::memcached::head::MAGIC_REQUEST;
const _: () = assert!(HEAD_SIZE == 56, "four numbers and what is in front of them");
