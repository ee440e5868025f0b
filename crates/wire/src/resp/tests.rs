//! Frames whole, cut, large and broken, in both modes.

use std::cell::Cell;

use super::*;
use crate::client;

thread_local! {
    static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
}

/// Called where a header's or an inline command's bytes are searched.
pub(super) fn look_at(bytes: usize) {
    LOOKED_AT.with(|count| count.set(count.get() + bytes));
}

struct Random(u64);

impl Random {
    /// splitmix64
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }
}

type Command = Vec<Vec<u8>>;

/// Everything in `input` when it arrives in pieces that end at `cuts`.
fn decode(input: &[u8], cuts: &[usize], limits: &Limits) -> (Vec<Command>, Option<ProtocolError>) {
    let piece = |arrived| cuts.iter().find(|cut| **cut > arrived).map_or(usize::MAX, |cut| cut - arrived);
    crate::fuzz::read(input, piece, limits)
}

fn encode(commands: &[Command]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        client::command(&mut bytes, &command.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    bytes
}

fn check(commands: &[Command], cuts: &[usize]) {
    let (got, error) = decode(&encode(commands), cuts, &Limits::default());
    assert_eq!(error, None);
    assert!(got == commands, "{} commands, cut at {cuts:?}", commands.len());
}

#[test]
fn what_is_encoded_decodes_wherever_it_is_cut() {
    let commands = vec![
        vec![b"GET".to_vec(), b"k".to_vec()],
        vec![b"SET".to_vec(), Vec::new(), vec![b'v'; 130]],
        vec![b"".to_vec()],
        vec![b"MSET".to_vec(), b"\r\n".to_vec(), b"$1\r\n".to_vec(), b"a".to_vec(), vec![0; 11]],
    ];
    let size = encode(&commands).len();
    for first in 0..size {
        check(&commands, &[first]);
        for second in (first + 1..size).step_by(7) {
            check(&commands, &[first, second]);
        }
    }
    check(&commands, &(1..size).collect::<Vec<_>>());
}

#[test]
fn frames_around_the_limits_of_a_view_come_out_the_same() {
    let mut random = Random(1);
    for size in [
        VIEW_SIZE_MAX - 40,
        VIEW_SIZE_MAX - 30,
        VIEW_SIZE_MAX - 20,
        VIEW_SIZE_MAX,
        VIEW_SIZE_MAX + 1,
        300_000,
    ] {
        let around = |size: usize| vec![b"SET".to_vec(), b"k".to_vec(), vec![b'x'; size], b"tail".to_vec()];
        let commands = vec![around(3), around(size), around(5), around(size), vec![b"PING".to_vec()]];
        let total = encode(&commands).len();
        check(&commands, &[]);
        for _ in 0..40 {
            let mut cuts: Vec<_> = (0..random.below(12)).map(|_| random.below(total)).collect();
            cuts.sort_unstable();
            check(&commands, &cuts);
        }
        check(&commands, &(0..total).step_by(1000).collect::<Vec<_>>());
    }
    for args in [VIEW_ARGS_MAX - 1, VIEW_ARGS_MAX, VIEW_ARGS_MAX + 1, 5000] {
        let command: Command = (0..args).map(|index| index.to_string().into_bytes()).collect();
        let total = encode(std::slice::from_ref(&command)).len();
        check(&[command.clone(), command.clone()], &(0..total).step_by(97).collect::<Vec<_>>());
        check(&[command.clone(), command], &[]);
    }
}

/// The commands in `input`, all by tokens.
fn tokens(input: &[u8], cuts: &[usize]) -> Vec<Command> {
    let (mut decoder, mut commands, mut consumed) = (Decoder::new(), Vec::<Command>::new(), 0);
    for &arrived in cuts.iter().chain([&input.len()]) {
        while consumed < input.len() {
            let rest = &input[consumed..arrived];
            let (token, size) = decoder.token(rest, &Limits::default());
            consumed += size;
            match token {
                Token::Need => break,
                Token::Begin { .. } => commands.push(Vec::new()),
                Token::Bulk { .. } => commands.last_mut().unwrap().push(Vec::new()),
                Token::Bytes(range) => commands.last_mut().unwrap().last_mut().unwrap().extend(&rest[range]),
                Token::End => {}
                Token::Word(word) => panic!("RESP has no {word:?}"),
                Token::Malformed(error) => panic!("{error}"),
                Token::Pause => panic!("nothing here is compressed"),
            }
        }
    }
    commands
}

#[test]
fn tokens_of_a_small_frame_are_its_arguments_wherever_it_is_cut() {
    let commands =
        vec![vec![b"SET".to_vec(), b"k".to_vec(), b"".to_vec(), vec![b'\r'; 30]], vec![b"PING".to_vec()]];
    let bytes = encode(&commands);
    for first in 0..bytes.len() {
        for second in first..bytes.len() {
            assert!(tokens(&bytes, &[first, second]) == commands, "cut at {first} and {second}");
        }
    }
}

/// Feeds `input` a byte at a time and returns how often a byte was looked at, on average.
fn looks_per_byte(input: &[u8]) -> usize {
    LOOKED_AT.with(|count| count.set(0));
    crate::fuzz::read(input, |_| 1, &Limits::default());
    LOOKED_AT.with(Cell::get).div_ceil(input.len())
}

#[test]
fn a_byte_is_looked_at_a_constant_number_of_times() {
    let command = vec![b"SET".to_vec(), vec![b'k'; 900], vec![b'v'; 30_000]];
    let large = vec![b"SET".to_vec(), vec![b'k'; 900], vec![b'v'; 100_000]];
    let many: Command = (0..1000).map(|_| b"a".to_vec()).collect();
    let inline = [&b"ECHO "[..], &[b'a'; 60_000], b"\n"].concat();
    let line = [&b"*"[..], &[b'1'; 60_000]].concat();
    let bulk_line = [&b"*1\r\n$"[..], &[b'1'; 60_000]].concat();
    for input in [encode(&[command]), encode(&[large]), encode(&[many]), inline, line, bulk_line] {
        let looks = looks_per_byte(&input);
        assert!(looks <= 3, "{looks} looks at each byte of {} …", input[..20].escape_ascii());
    }
}

#[test]
fn lines_without_an_end_are_refused() {
    for (start, want) in [
        (&b"*"[..], ProtocolError::CountLineTooLong),
        (b"*2\r\n", ProtocolError::BulkLineTooLong),
        (b"*2\r\n$1\r\na\r\n$", ProtocolError::BulkLineTooLong),
        (b"a", ProtocolError::InlineTooLong),
        (b"\"", ProtocolError::InlineTooLong),
    ] {
        let input = [start, &[b'1'; LINE_SIZE_MAX]].concat();
        for cuts in [vec![], vec![10], vec![40_000], (1..input.len()).step_by(1000).collect()] {
            assert_eq!(decode(&input, &cuts, &Limits::default()), (vec![], Some(want)), "cut at {cuts:?}");
        }
    }
    // A line that ends in time is refused for what it says.
    let long = [&b"*1\r\n$"[..], &[b'1'; LINE_SIZE_MAX - 10], b"\r\n"].concat();
    assert_eq!(decode(&long, &[7], &Limits::default()).1, Some(ProtocolError::BulkLength));
}

#[test]
fn limits_hold_in_both_modes() {
    let limits = Limits { bulk_size_max: 50_000, args_max: 2000, authenticated: true };
    let command = |size: usize| encode(&[vec![b"SET".to_vec(), vec![b'x'; size]]]);
    assert_eq!(decode(&command(50_000), &[], &limits).1, None);
    assert_eq!(decode(&command(50_001), &[], &limits).1, Some(ProtocolError::BulkLength));
    // Behind a large argument the frame is read in tokens.
    for (tail, want) in [
        ("$50001\r\n", ProtocolError::BulkLength),
        ("$-1\r\n", ProtocolError::BulkLength),
        ("$007\r\n", ProtocolError::BulkLength),
        ("$+7\r\n", ProtocolError::BulkLength),
        ("$99999999999999999999\r\n", ProtocolError::BulkLength),
        ("$\r\n", ProtocolError::BulkLength),
        (":1\r\n", ProtocolError::ExpectedDollar(b':')),
        ("\r\n", ProtocolError::ExpectedDollar(b'\r')),
    ] {
        let input = [b"*2\r\n$40000\r\n", &[b'x'; 40_000][..], b"\r\n", tail.as_bytes()].concat();
        for cut in [10, 40_000, input.len() - 1] {
            assert_eq!(decode(&input, &[cut], &limits).1, Some(want), "{tail:?}");
        }
    }
    assert_eq!(decode(b"*2000\r\n", &[], &limits).1, None);
    assert_eq!(decode(b"*2001\r\n", &[], &limits).1, Some(ProtocolError::MultibulkLength));
    let locked = Limits { authenticated: false, ..limits };
    let eleven = encode(&[vec![b"x".to_vec(); 11]]);
    assert_eq!(decode(&eleven, &[], &locked).1, Some(ProtocolError::UnauthenticatedMultibulkLength));
    let tight = Limits { bulk_size_max: 500, args_max: 10, ..limits };
    assert_eq!(decode(&command(500), &[], &tight).1, None);
    assert_eq!(decode(&command(501), &[], &tight).1, Some(ProtocolError::BulkLength));
    assert_eq!(decode(&eleven, &[], &tight).1, Some(ProtocolError::MultibulkLength));
    assert_eq!(decode(b"*10\r\n$16384\r\n", &[], &locked).1, None);
    assert_eq!(decode(b"*10\r\n$16385\r\n", &[], &locked).1, Some(ProtocolError::UnauthenticatedBulkLength));
    assert_eq!(decode(b"*11\r\n", &[], &locked).1, Some(ProtocolError::UnauthenticatedMultibulkLength));
}

#[test]
fn a_view_is_at_most_its_limit() {
    let frame = |size: usize| {
        let head = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", size - 24);
        [head.as_bytes(), &vec![b'x'; size - head.len() - 2], b"\r\n"].concat()
    };
    let step = |input: &[u8]| Decoder::new().decode(input, &mut ArgRanges::new(), &Limits::default());
    assert_eq!(step(&frame(VIEW_SIZE_MAX)), Step::Command { size: VIEW_SIZE_MAX });
    assert_eq!(step(&frame(VIEW_SIZE_MAX + 1)), Step::Large);
    let many = encode(&[vec![vec![b'x'; 900]; 100]]);
    assert_eq!(step(&many), Step::Large);
    // It is told from the headers, before the bytes arrive.
    assert_eq!(step(&frame(VIEW_SIZE_MAX + 1)[..30]), Step::Large);
}

#[test]
fn a_decoder_is_small_and_scratch_shrinks_again() {
    assert!(size_of::<Decoder>() <= 32);
    let (mut decoder, mut args) = (Decoder::new(), ArgRanges::new());
    let wide = [b"a ".repeat(30_000), b"\n".to_vec()].concat();
    assert_eq!(decoder.decode(&wide, &mut args, &Limits::default()), Step::Command { size: wide.len() });
    assert_eq!(args.len(), 30_000);
    decoder.decode(b"PING\r\n", &mut args, &Limits::default());
    decoder.decode(b"*1\r\n$4\r\nPING\r\n", &mut args, &Limits::default());
    assert!(args.ranges.capacity() <= VIEW_ARGS_MAX as usize && args.scratch.capacity() <= VIEW_SIZE_MAX);
}

#[test]
fn any_bytes_are_read_the_same_whole_and_in_pieces() {
    let mut random = Random(2);
    for _ in 0..700 {
        let input = crate::fuzz::some_input(&mut || random.next());
        crate::fuzz::requests(&input, random.next());
    }
}
