//! Requests whole, cut, large and broken.

use std::cell::Cell;

use super::*;
use crate::fuzz::memcached::{Command, read};

thread_local! {
    static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
}

/// Called where a line's end is searched.
pub(super) fn look_at(bytes: usize) {
    LOOKED_AT.with(|count| count.set(count.get() + bytes));
}

/// A command in words: verb, key, flags and value, and what of the head is not zero.
fn show(command: &Command) -> String {
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
