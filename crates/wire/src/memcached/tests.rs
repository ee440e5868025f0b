//! Requests whole, cut, large and broken.

use std::cell::Cell;

use super::decoder::LINE_SIZE_MAX;
use super::head::MAGIC_REQUEST;
use super::*;
use crate::fuzz::memcached::{Command, read};
use crate::resp::{ArgRanges, Step, VIEW_SIZE_MAX};

thread_local! {
    static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
}

/// Called where a line's end is searched.
pub(super) fn look_at(bytes: usize) {
    LOOKED_AT.with(|count| count.set(count.get() + bytes));
}

/// A command in words: verb, key, flags and value, and what of the head is not zero.
pub(crate) fn show(command: &Command) -> String {
    let head = Head::from_bytes(&command[HEAD]);
    let mut text = format!("{:?} {:?}", head.framing, head.verb);
    if head.verb == Verb::Say {
        text += &format!(" {:?}", head.say);
    }
    for arg in &command[KEY..] {
        text += &format!(" [{}]", arg.escape_ascii());
    }
    for (name, value) in [
        ("opcode", u64::from(head.opcode)),
        ("opaque", u64::from(head.opaque)),
        ("vbucket", u64::from(head.vbucket)),
        ("flags", u64::from(head.flags)),
        ("cas", head.cas),
        ("delta", head.delta),
        ("initial", head.initial),
    ] {
        if value != 0 && !(name == "delta" && value == 1 && head.framing == Framing::Meta) {
            text += &format!(" {name}={value}");
        }
    }
    if head.exptime != 0 {
        text += &format!(" exptime={}", head.exptime);
    }
    for (name, bit) in [
        ("quiet", Bits::QUIET),
        ("cas", Bits::WANTS_CAS),
        ("key", Bits::WANTS_KEY),
        ("value", Bits::WANTS_VALUE),
        ("creates", Bits::CREATES),
        ("base64", Bits::BASE64),
        ("has-cas", Bits::HAS_CAS),
        ("invalidates", Bits::INVALIDATES),
        ("ends", Bits::ENDS),
        ("closes", Bits::CLOSES),
        ("keeps-expiry", Bits::KEEPS_EXPIRY),
        ("json", Bits::KNOWS_JSON),
        ("errors", Bits::KNOWS_ERRORS),
        ("token", Bits::WANTS_TOKEN),
        ("collection", Bits::HAS_COLLECTION),
        ("map", Bits::KNOWS_MAP),
        ("datatype", Bits::WANTS_DATATYPE),
    ] {
        if head.is(bit) {
            text += &format!(" +{name}");
        }
    }
    text
}

/// `input` becomes these commands, however it is cut in two.
fn check(input: &[u8], want: &[&str]) {
    for cut in 0..=input.len() {
        let piece = |arrived: usize| if arrived < cut { cut - arrived } else { usize::MAX };
        let got: Vec<String> = read(input, piece, &Limits::default()).iter().map(show).collect();
        assert_eq!(got, want, "{} cut at {cut}", input[..input.len().min(200)].escape_ascii());
    }
}

#[test]
fn lines_that_store() {
    check(b"set k 0 0 5\r\nhello\r\n", &["Text Set [k] [] [hello]"]);
    check(b"set k 7 60 0\n\r\n", &["Text Set [k] [] [] flags=7 exptime=60"]);
    check(
        b"add k 1 -1 2 noreply\r\n\r\n\r\nreplace k 4294967295 2592001 1\r\nx\r\n",
        &[
            "Text Add [k] [] [\\r\\n] flags=1 exptime=-1 +quiet",
            "Text Replace [k] [] [x] flags=4294967295 exptime=2592001",
        ],
    );
    check(
        b"append k 0 0 1\r\nx\r\nprepend k 0 0 1\r\ny\r\n",
        &["Text Append [k] [] [x]", "Text Prepend [k] [] [y]"],
    );
    check(b"cas k 0 0 1 99\r\nx\r\n", &["Text Cas [k] [] [x] cas=99 +has-cas"]);
    check(b"cas k 0 0 1 0 noreply\r\nx\r\n", &["Text Cas [k] [] [x] +quiet +has-cas"]);
}

#[test]
fn lines_of_keys() {
    check(b"get k\r\n", &["Text Get [k] +value +ends"]);
    check(b"get k\n", &["Text Get [k] +value +ends"]);
    check(
        b"gets  a bb   c \r\n",
        &["Text Get [a] +cas +value", "Text Get [bb] +cas +value", "Text Get [c] +cas +value +ends"],
    );
    check(
        b"  get a b\r\nbget c\r\n",
        &["Text Get [a] +value", "Text Get [b] +value +ends", "Text Get [c] +value +ends"],
    );
    check(b"gat 10 a b\r\n", &["Text Gat [a] exptime=10 +value", "Text Gat [b] exptime=10 +value +ends"]);
    check(b"gats -1 a\r\n", &["Text Gat [a] exptime=-1 +cas +value +ends"]);
    check(b"gat 10\r\n", &["Text End []"]);
    check(
        b"gat ten a\r\nget\r\nget \r\ngats\r\n",
        &["Text Say BadExptime []", "Text Say Error []", "Text Say Error []", "Text Say Error []"],
    );
    check(
        b"get a\0b c\r\nget \x10\r\r\n",
        &["Text Get [a] +value +ends", "Text Get [\\x10\\r] +value +ends"],
    );
    check(b"get a \0b c\r\n\0get a\r\n", &["Text Get [a] +value +ends", "Text Say Error []"]);
    let (long, longer) = ("x".repeat(KEY_SIZE_MAX), "x".repeat(KEY_SIZE_MAX + 1));
    check(format!("get {long}\r\n").as_bytes(), &[&format!("Text Get [{long}] +value +ends")]);
    // Nothing of the line is looked up.
    check(
        format!("get a {longer} b\r\nget a\r\n").as_bytes(),
        &["Text Say BadFormat []", "Text Get [a] +value +ends"],
    );
}

/// Commands of `input`, which arrives in pieces that end at `cuts`.
fn decode(input: &[u8], cuts: &[usize], limits: &Limits) -> Vec<Command> {
    let piece = |arrived| cuts.iter().find(|cut| **cut > arrived).map_or(usize::MAX, |cut| cut - arrived);
    read(input, piece, limits)
}

fn words(input: &[u8], cuts: &[usize], limits: &Limits) -> Vec<String> {
    decode(input, cuts, limits).iter().map(show).collect()
}

/// A binary request.
fn request(opcode: u8, key: &[u8], extras: &[u8], value: &[u8]) -> Vec<u8> {
    let body_size = u32::try_from(extras.len() + key.len() + value.len()).unwrap();
    let key_size = u16::try_from(key.len()).unwrap().to_be_bytes();
    let mut bytes = vec![MAGIC_REQUEST, opcode, key_size[0], key_size[1]];
    bytes.extend([u8::try_from(extras.len()).unwrap(), 0, 0, 3]);
    bytes.extend(body_size.to_be_bytes());
    bytes.extend([0, 0, 0, 9]);
    bytes.extend([0; 8]);
    [&bytes, extras, key, value].concat()
}

/// Cuts at all places in the first and the last bytes, and at some between.
fn places(size: usize) -> impl Iterator<Item = usize> {
    (0..size).filter(move |place| *place < 120 || place + 5 > size || place.is_multiple_of(7919))
}

#[test]
fn large_values_come_by_tokens_with_the_arguments_of_a_view() {
    let fronts: [(&str, usize); 4] = [
        ("set k 7 60 SIZE noreply\r\n", 2),
        ("cas key 0 0 SIZE 5\r\n", 2),
        ("ms Zm9vYmFy SIZE T60  b c k Oabc\r\n", 2),
        ("binary", 0),
    ];
    for (front, end_size) in fronts {
        let frame = |size: usize| {
            let value = vec![b'v'; size];
            if front == "binary" {
                return request(0x11, b"key", &[0, 0, 0, 7, 0, 0, 0, 60], &value);
            }
            [front.replace("SIZE", &size.to_string()).as_bytes(), &value, b"\r\n"].concat()
        };
        let small = &decode(&frame(3), &[], &Limits::default())[0];
        assert_eq!(small[VALUE], b"vvv");
        // Five digits, the largest view and one byte more.
        let front_size = frame(10_000).len() - 10_000 - end_size;
        let view_max = VIEW_SIZE_MAX - front_size - end_size;
        for size in [view_max, view_max + 1, 90_000] {
            let one = frame(size);
            let mut args = ArgRanges::new();
            let step = Decoder::new(Framing::of(one[0])).decode(&one, &mut args, &Limits::default());
            assert_eq!(step == Step::Large, size > view_max);
            let input = [&one[..], &one].concat();
            for cut in places(input.len()).chain(places(one.len())) {
                let got = decode(&input, &[cut], &Limits::default());
                assert_eq!(got.len(), 2);
                for command in got {
                    assert_eq!(command[..VALUE], small[..VALUE], "{size} cut at {cut}");
                    assert!(command[VALUE] == vec![b'v'; size], "{size} cut at {cut}");
                }
            }
        }
    }
}

#[test]
fn a_value_without_its_end_is_said_and_the_next_line_is_read() {
    for size in [5, 50_000] {
        for (front, want) in [
            ("set k 0 0 SIZE", "Text Say BadChunk []"),
            ("set k 0 0 SIZE noreply", "Text Say BadChunk [] +quiet"),
            ("ms k SIZE q", "Meta Say BadChunk []"),
        ] {
            for end in ["xx", "\rx", "\n\r", "x\r"] {
                let line = front.replace("SIZE", &size.to_string());
                let input = [line.as_bytes(), b"\r\n", &vec![b'v'; size], end.as_bytes(), b"mn\r\n"].concat();
                for cut in places(input.len()) {
                    let got = words(&input, &[cut], &Limits::default());
                    assert_eq!(got, [want, "Meta Noop []"], "{size} cut at {cut}");
                }
            }
        }
    }
}

#[test]
fn what_is_too_large_is_refused_and_swallowed() {
    // The sizes at which memcached 1.6.18 refuses with its own limit of 1 MiB.
    assert_eq!(item_size(1, 0, 1_048_516), 1024 * 1024);
    assert_eq!(item_size(250, 5, 1_048_263), 1024 * 1024);
    let limits = Limits { item_size_max: item_size(1, 0, 1000), authenticated: true };
    let value = |size: usize, end: &str| [&vec![b'v'; size], end.as_bytes(), b"mn\r\n"].concat();
    for (line, forgets, quiet) in [
        ("set k 0 0 SIZE", true, ""),
        ("set k 0 0 SIZE noreply", true, " +quiet"),
        ("add k 0 0 SIZE", false, ""),
        ("append k 0 0 SIZE noreply", false, " +quiet"),
        ("cas k 0 0 SIZE 1", false, ""),
    ] {
        let want = if forgets { "Text Forget [k]" } else { "Text Say TooLarge []" };
        let want =
            if line.starts_with("cas") { format!("{want} cas=1 +has-cas") } else { format!("{want}{quiet}") };
        for size in [1001, 100_000] {
            let line = line.replace("SIZE", &size.to_string());
            let input = [line.as_bytes(), b"\r\n", &value(size, "xx")].concat();
            for cut in places(input.len()) {
                assert_eq!(words(&input, &[cut], &limits), [&want, "Meta Noop []"], "cut at {cut}");
            }
        }
        let input = [line.replace("SIZE", "1000").as_bytes(), b"\r\n", &value(1000, "\r\n")].concat();
        assert!(decode(&input, &[], &limits)[0][VALUE] == vec![b'v'; 1000]);
    }
    // The largest size that can be announced, and one more, behind which a command is expected.
    assert_eq!(words(b"set k 0 0 2147483645\r\nmn\r\n", &[], &limits), ["Text Forget [k]"]);
    assert_eq!(
        words(b"set k 0 0 2147483646\r\nmn\r\n", &[], &limits),
        ["Text Say BadFormat []", "Meta Noop []"]
    );
    // Flags count, and a key in base64 counts what it stands for.
    let tight =
        |line: &str| words(&[line.as_bytes(), &value(1000, "\r\n")].concat(), &[], &limits)[0].clone();
    assert_eq!(tight("set k 1 0 1000\r\n"), "Text Forget [k] flags=1");
    assert_eq!(
        tight("ms aw== 1000 b q MA\r\n").split(' ').take(3).collect::<Vec<_>>(),
        ["Meta", "Append", "[k]"]
    );
    assert_eq!(tight("ms aw== 1001 b q MA\r\n"), "Meta Forget [k] [] +base64");
    // Binary: the body, and nothing of the next request.
    for (opcode, extras, want) in [
        (0x01, &[0; 8][..], "Binary Forget [k] opcode=1 opaque=9 vbucket=3"),
        (0x11, &[0; 8], "Binary Forget [k] opcode=17 opaque=9 vbucket=3 +quiet"),
        (0x02, &[0; 8], "Binary Say TooLarge [] opcode=2 opaque=9 vbucket=3"),
        (0x0e, &[], "Binary Say TooLarge [] opcode=14 opaque=9 vbucket=3"),
    ] {
        let noop = request(0x0a, b"", b"", b"");
        let input = [request(opcode, b"k", extras, &[b'v'; 1001]), noop].concat();
        for cut in places(input.len()) {
            let noop = "Binary Noop [] opcode=10 opaque=9 vbucket=3";
            assert_eq!(words(&input, &[cut], &limits), [want, noop], "cut at {cut}");
        }
    }
}

#[test]
fn a_line_without_an_end_is_given_up_unless_it_gets() {
    let closes = ["Text Say Nothing [] +closes"];
    for front in ["set ", "gat 0 ", "x", "", "GET "] {
        let line = [front.as_bytes(), &b"k ".repeat(2000)].concat();
        assert_eq!(words(&line[..LINE_SIZE_MAX], &[], &Limits::default()), [""; 0]);
        assert_eq!(words(&line[..=LINE_SIZE_MAX], &[], &Limits::default()), closes);
        assert_eq!(words(&line, &[700, 2000], &Limits::default()), closes);
    }
    // One that is whole is read.
    let whole = [&b"touch k 0 "[..], &b"k".repeat(4000), b"\r\n"].concat();
    assert_eq!(words(&whole, &[100], &Limits::default()), ["Text Touch [k]"]);
    assert_eq!(words(&[b" ".repeat(101), b"get k".repeat(500)].concat(), &[], &Limits::default()), closes);
    let long = [b" ".repeat(100), b"gets ".to_vec(), b"k ".repeat(2000), b"\r\nmn\r\n".to_vec()].concat();
    let got = words(&long, &[50, 2100, 3000], &Limits::default());
    assert_eq!(
        (got.len(), &*got[1999], &*got[2000]),
        (2001, "Text Get [k] +cas +value +ends", "Meta Noop []")
    );
}

#[test]
fn keys_of_an_endless_line_are_handed_out() {
    let count = 40_000;
    let keys: Vec<String> = (0..count).map(|index| format!("key{index}")).collect();
    let line = format!("get {}\r\nmn\r\n", keys.join(" "));
    let step = STREAM_SIZE_MIN / 2;
    for cuts in [
        vec![],
        vec![7, 2000],
        (1..line.len()).step_by(step).collect(),
        (1..line.len()).step_by(9_973).collect(),
    ] {
        let got = decode(line.as_bytes(), &cuts, &Limits::default());
        assert_eq!(got.len(), count + 1);
        assert!(got.iter().zip(&keys).all(|(command, key)| command[KEY] == key.as_bytes()));
        assert!(Head::from_bytes(&got[count - 1][HEAD]).is(Bits::ENDS));
    }
    // A key too long far behind: the keys before it have been answered. What is left of the line means nothing.
    let late = format!("get {} {} a\r\nmn\r\n", keys.join(" "), "x".repeat(300));
    let cuts: Vec<usize> = (1..late.len()).step_by(step).collect();
    let got = words(late.as_bytes(), &cuts, &Limits::default());
    assert_eq!(got[count..], ["Text Say BadFormat []", "Meta Noop []"]);
    let blanks = [&b"get a"[..], &b" ".repeat(3 * STREAM_SIZE_MIN), b"\r\nmn\r\n"].concat();
    let cuts: Vec<usize> = (1..blanks.len()).step_by(step).collect();
    let got = words(&blanks, &cuts, &Limits::default());
    assert_eq!(got, ["Text Get [a] +value", "Text End []", "Meta Noop []"]);
    // A key as long as may be, cut before its line's end.
    let edge = format!("get {} {}\r\nmn\r\n", keys.join(" "), "x".repeat(KEY_SIZE_MAX));
    let end = edge.len() - "\nmn\r\n".len();
    let cuts: Vec<usize> = (1..end).step_by(step).chain([end]).collect();
    let got = words(edge.as_bytes(), &cuts, &Limits::default());
    assert!(got.len() == count + 2 && got[count].starts_with("Text Get [xxx"), "{}", got[count]);
    let zero = [format!("get {}", keys.join(" ")).as_bytes(), b" a\0 b\r\nmn\r\n"].concat();
    let cuts: Vec<usize> = (1..zero.len() - 12).step_by(step).chain([zero.len() - 9]).collect();
    let got = words(&zero, &cuts, &Limits::default());
    assert_eq!(got[count..], ["Text Get [a] +value +ends", "Meta Noop []"]);
}

#[test]
fn an_input_of_the_announced_size_is_always_enough() {
    let full = |input: Vec<u8>| {
        let mut decoder = Decoder::new(Framing::of(input[0]));
        decoder.decode(&input[..STREAM_SIZE_MIN], &mut ArgRanges::new(), &Limits::default())
    };
    for input in [
        [&b"get "[..], &[b'k'; STREAM_SIZE_MIN]].concat(),
        [&b"get "[..], &[b' '; STREAM_SIZE_MIN]].concat(),
        [&b"get a"[..], &[b' '; STREAM_SIZE_MIN]].concat(),
        vec![b' '; STREAM_SIZE_MIN],
        [&b"set k 0 0 1000000\r\n"[..], &[b'v'; STREAM_SIZE_MIN]].concat(),
        [request(1, &[b'k'; 250], &[0; 8], &[]), vec![0; STREAM_SIZE_MIN]].concat(),
    ] {
        assert_ne!(full(input.clone()), Step::Need, "{}", input[..20].escape_ascii());
    }
}

#[test]
fn every_opcode_is_answered_and_the_next_request_is_read() {
    let noop = request(0x0a, b"", b"", b"");
    let mut unknown = Vec::new();
    for opcode in 0..=255 {
        for extras_size in [0, 1, 4, 8, 20, 21] {
            for (key, value) in [(&b""[..], &b""[..]), (b"key", b""), (b"", b"v"), (b"key", b"value")] {
                let input = [&request(opcode, key, &[0; 21][..extras_size], value), &noop[..]].concat();
                let got = decode(&input, &[30], &Limits::default());
                let head = Head::from_bytes(&got[0][HEAD]);
                assert_eq!((head.opcode, head.opaque, head.vbucket), (opcode, 9, 3));
                if head.is(Bits::CLOSES) {
                    let quits = matches!(opcode, 0x07 | 0x17) && head.verb == Verb::Quit;
                    assert!(quits || head.say == Say::InvalidArguments, "{head:?}");
                    continue;
                }
                assert_eq!(got.len(), 2, "{head:?} and the one behind");
                assert_eq!(Head::from_bytes(&got[1][HEAD]).verb, Verb::Noop);
                if head.verb == Verb::Say {
                    assert_eq!(head.say, Say::UnknownCommand);
                    unknown.push(opcode);
                } else {
                    // What was sent is what is handed over.
                    let has_value = matches!(extras_size, 0 | 8) && !value.is_empty();
                    let body = got[0].get(VALUE).map_or(&b""[..], Vec::as_slice);
                    assert_eq!(
                        body,
                        if has_value {
                            value
                        } else if opcode == 0x10 {
                            key
                        } else {
                            b""
                        }
                    );
                    assert_eq!(got[0][KEY], if opcode == 0x10 { b"" } else { key });
                }
            }
        }
    }
    unknown.dedup();
    let known = |opcode: &u8| matches!(opcode, 0..=0x1e | 0x20..=0x24);
    let want: Vec<u8> = (0..=255).filter(|opcode| !known(opcode)).collect();
    assert_eq!(unknown, want);
}

#[test]
fn lengths_that_lie_end_the_connection_or_are_swallowed() {
    let header = |opcode: u8, key_size: u16, extras_size: u8, body_size: u32| {
        let mut bytes = request(opcode, b"", b"", b"");
        bytes[2..4].copy_from_slice(&key_size.to_be_bytes());
        bytes[4] = extras_size;
        bytes[8..12].copy_from_slice(&body_size.to_be_bytes());
        bytes
    };
    let say = |bytes: Vec<u8>| {
        let got = decode(&bytes, &[], &Limits::default());
        let head = got.first().map(|command| Head::from_bytes(&command[HEAD]));
        head.map(|head| (head.say, head.is(Bits::CLOSES)))
    };
    assert_eq!(say(header(0, 10, 0, 9)), Some((Say::UnknownCommand, true)));
    assert_eq!(say(header(1, 10, 8, 17)), Some((Say::UnknownCommand, true)));
    // The body of a GET is as long as its key, but there are extras; and one that begins as no request does.
    assert_eq!(say([&header(0, 10, 4, 10)[..], &[b'k'; 14]].concat()), Some((Say::UnknownCommand, true)));
    let mut two = request(0, b"key", &[], b"").repeat(2);
    let second = two.len() / 2;
    two[second] = 0x81;
    let got = decode(&two, &[], &Limits::default());
    let head = Head::from_bytes(&got[1][HEAD]);
    assert_eq!((head.say, head.is(Bits::CLOSES)), (Say::Nothing, true));
    assert_eq!(say(header(0, 251, 0, 251)), Some((Say::InvalidArguments, true)));
    assert_eq!(say(header(0, u16::MAX, u8::MAX, u32::MAX)), Some((Say::InvalidArguments, true)));
    assert_eq!(say(header(0x99, 0, 0, u32::MAX)), Some((Say::UnknownCommand, false)));
    assert_eq!(say(header(0x21, 5, 0, u32::MAX)), Some((Say::OutOfMemory, false)));
    assert_eq!(say(header(0x21, 33, 0, 40)), Some((Say::InvalidArguments, false)));
    // The key of what is too large is waited for.
    assert_eq!(say(header(1, 5, 8, u32::MAX)), None);
    assert_eq!(say(header(0x0e, 5, 0, 100)), None);
    // Nothing but logging in, before that.
    let stranger = Limits { authenticated: false, ..Limits::default() };
    let get = request(0, b"k", b"", b"");
    let want = "Binary Say Unauthenticated [] opaque=9 vbucket=3 +closes";
    assert_eq!(words(&get, &[3], &stranger), [want]);
    let login =
        [request(0x20, b"", b"", b""), request(0x21, b"PLAIN", b"", b"\0u\0p"), request(0x0b, b"", b"", b"")]
            .concat();
    let verbs = [Verb::SaslList, Verb::SaslAuth, Verb::Version];
    let got = decode(&login, &[], &stranger);
    assert!(got.iter().map(|command| Head::from_bytes(&command[HEAD]).verb).eq(verbs));
    assert_eq!((&*got[1][KEY], &*got[1][VALUE]), (&b"PLAIN"[..], &b"\0u\0p"[..]));
}

#[test]
fn heads_have_what_was_sent() {
    let check = |input: &[u8], want: &str| {
        for cut in 0..input.len() {
            assert_eq!(words(input, &[cut], &Limits::default()), [want]);
        }
    };
    let count = [7u64.to_be_bytes(), 8u64.to_be_bytes()].concat();
    let (make, find) = ([&count[..], &[0, 0, 0, 60]].concat(), [&count[..], &[255; 4]].concat());
    let tail = "opaque=9 vbucket=3 delta=7 initial=8";
    check(&request(0x05, b"n", &make, b""), &format!("Binary Incr [n] opcode=5 {tail} exptime=60 +creates"));
    check(
        &request(0x16, b"n", &find, b""),
        &format!("Binary Decr [n] opcode=22 {tail} exptime=4294967295 +quiet"),
    );
    check(
        &request(0x24, b"k", &[0, 0, 1, 0], b""),
        "Binary Gat [k] opcode=36 opaque=9 vbucket=3 exptime=256 +quiet +key +value",
    );
    check(&request(0x08, b"", &[0, 0, 0, 5], b""), "Binary Flush [] opcode=8 opaque=9 vbucket=3 exptime=5");
    check(
        &request(0x1b, b"", &[0, 0, 0, 5], b""),
        "Binary Verbosity [] opcode=27 opaque=9 vbucket=3 delta=5",
    );
    check(&request(0x10, b"items", b"", b""), "Binary Stats [] [] [items] opcode=16 opaque=9 vbucket=3");
    check(b"stats cachedump  1 10 \r\n", "Text Stats [] [] [cachedump  1 10]");
    check(b"stats\r\n", "Text Stats [] [] []");
    check(b"verbosity 3 noreply\r\n", "Text Verbosity [] delta=3 +quiet");
    check(b"flush_all 10\r\n", "Text Flush [] exptime=10");
    check(b"flush_all -5\r\n", "Text Flush []");
    check(b"quit\r\n", "Text Quit [] +closes");
    check(
        b"ms k 1 C5 MR I T9 F3 q\r\nx\r\n",
        "Meta Cas [k] [C5 MR I T9 F3 q] [x] flags=3 cas=5 exptime=9 +quiet +has-cas +invalidates",
    );
    check(
        b"ma k M- N5 J6 D7 v\r\n",
        "Meta Decr [k] [M- N5 J6 D7 v] delta=7 initial=6 exptime=5 +value +creates",
    );
    check(b"md k C0 I T3\r\n", "Meta Delete [k] [C0 I T3] +has-cas +invalidates");
    check(b"mg Zm9v b v\r\n", "Meta MetaGet [foo] [b v] +value +base64");
}

#[test]
fn an_expiry_is_relative_up_to_thirty_days() {
    for (exptime, want) in [
        (0, Expiry::Never),
        (-1, Expiry::Past),
        (i64::MIN, Expiry::Past),
        (1, Expiry::At(1_000_000_001)),
        (2_592_000, Expiry::At(1_002_592_000)),
        (2_592_001, Expiry::Past),
        (1_000_000_000, Expiry::Past),
        (1_000_000_001, Expiry::At(1_000_000_001)),
        (4_294_967_295, Expiry::At(4_294_967_295)),
    ] {
        assert_eq!(expiry(exptime, 1_000_000_000), want, "{exptime}");
    }
}

/// Feeds `input` a byte at a time and returns how often a byte was searched for a line's end, on average.
fn looks_per_byte(input: &[u8]) -> usize {
    LOOKED_AT.with(|count| count.set(0));
    read(input, |_| 1, &Limits::default());
    LOOKED_AT.with(Cell::get).div_ceil(input.len())
}

#[test]
fn a_byte_is_looked_at_a_constant_number_of_times() {
    let set = |size: usize| [format!("set k 0 0 {size}\r\n").as_bytes(), &vec![b'v'; size], b"\r\n"].concat();
    let get = [&b"get "[..], &b"key ".repeat(9000), b"\r\n"].concat();
    for input in [set(30_000), set(100_000), get, vec![b'x'; LINE_SIZE_MAX]] {
        let looks = looks_per_byte(&input);
        assert!(looks <= 3, "{looks} looks at each byte of {} …", input[..20].escape_ascii());
    }
    assert!(size_of::<State>() <= 32, "{} bytes", size_of::<State>());
}

#[test]
fn any_bytes_are_read_the_same_whole_and_in_pieces() {
    let mut state = 5u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    for _ in 0..2000 {
        let input = crate::fuzz::memcached::some_input(&mut next);
        crate::fuzz::memcached::requests(&input, next());
    }
}
