//! Bytes in, bytes out, as Redis answers them: `vectors/protocol.txt`.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use wire::command::{self, Id};
use wire::resp::{LINE_SIZE_MAX, is_http};
use wire::{ArgRanges, Args, Decoder, Limits, Step, reply};

mod transcript;
use transcript::unescape;

/// As much of a server as the transcripts need. Input arrives in pieces that end at `cuts`.
fn serve(input: &[u8], cuts: &[usize], limits: &Limits) -> Vec<u8> {
    let (mut decoder, mut args, mut out) = (Decoder::new(), ArgRanges::new(), Vec::new());
    let mut consumed = 0;
    for &arrived in cuts.iter().chain([&input.len()]) {
        loop {
            let input = &input[consumed..arrived];
            match decoder.decode(input, &mut args, limits) {
                Step::Need => break,
                Step::Command { size } => {
                    if !args.is_empty() && !answer(&args.view(input), &mut out) {
                        return Vec::new();
                    }
                    consumed += size;
                }
                Step::Malformed(wire::ProtocolError::SecurityAttack) => return Vec::new(),
                Step::Malformed(error) => {
                    error.put(&mut out);
                    return out;
                }
                Step::Large => panic!("no transcript is large"),
            }
        }
    }
    out
}

/// False when Redis closes the connection without an answer.
fn answer(args: &Args<'_>, out: &mut Vec<u8>) -> bool {
    match command::resolve(args) {
        Err(command::Refusal::UnknownCommand) if is_http(args.get(0)) => return false,
        Err(refusal) => refusal.put(args, out),
        Ok(command) if command.id == Id::Ping => reply::simple(out, "PONG"),
        Ok(command) if command.id == Id::Echo => reply::bulk(out, args.get(1)),
        Ok(command) => panic!("no transcript calls {}", command.name),
    }
    true
}

fn check(input: &[u8], want: &[u8], limits: &Limits) {
    let same = |cuts: &[usize]| {
        let got = serve(input, cuts, limits);
        assert_eq!(got, want, "{} cut at {cuts:?}: {}", input.escape_ascii(), got.escape_ascii());
    };
    same(&[]);
    (1..input.len()).for_each(|cut| same(&[cut]));
    same(&(1..input.len()).collect::<Vec<_>>());
}

#[test]
fn answers_are_those_of_redis_wherever_the_bytes_are_cut() {
    let mut count = 0;
    for line in include_str!("vectors/protocol.txt").lines().filter(|line| !line.starts_with('#')) {
        let [state, input, want] = *line.split(' ').collect::<Vec<_>>() else {
            panic!("three words: {line}")
        };
        let limits = Limits { authenticated: state == "open", ..Limits::default() };
        let want = if want == "-" { Vec::new() } else { unescape(want) };
        check(&unescape(input), &want, &limits);
        count += 1;
    }
    assert!(count > 100, "{count} transcripts");
}

#[test]
fn lines_without_an_end_are_refused_when_the_buffer_is_full() {
    let limits = Limits::default();
    let line = vec![b'a'; LINE_SIZE_MAX];
    assert_eq!(serve(&line[1..], &[], &limits), b"");
    assert_eq!(serve(&line, &[100], &limits), b"-ERR Protocol error: too big inline request\r\n");
    // One byte less and its end is an inline command.
    let echo = [&b"ECHO "[..], &line[6..], b"\n"].concat();
    assert_eq!(serve(&echo, &[5000], &limits).len(), LINE_SIZE_MAX - 6 + "$65530\r\n\r\n".len());
}

#[test]
fn an_inline_command_obeys_the_limits_before_authentication() {
    let limits = Limits { authenticated: false, ..Limits::default() };
    let long = [b"ECHO ".to_vec(), vec![b'a'; 16 * 1024 + 1], b"\r\n".to_vec()].concat();
    check(
        b"PING 1 2 3 4 5 6 7 8 9 10\n",
        b"-ERR Protocol error: unauthenticated multibulk length\r\n",
        &limits,
    );
    assert_eq!(serve(&long, &[], &limits), b"-ERR Protocol error: unauthenticated bulk length\r\n");
    check(b"ECHO 1\n", b"$1\r\n1\r\n", &limits);
}

#[test]
fn a_nul_is_a_byte_like_others() {
    check(b"ECHO a\0b\n", b"$3\r\na\0b\r\n", &Limits::default());
    check(b"*1\r\n\0\r\n", b"-ERR Protocol error: expected '$', got '\0'\r\n", &Limits::default());
}
