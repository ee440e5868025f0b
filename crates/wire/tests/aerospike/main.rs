//! Bytes in, commands out; outcomes in, bytes out. The frames are those that `aerospike-client-c` 7.5, its Python client and
//! asbench send and read, captured on a socket.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod batches;
mod compressed;
mod scans;

use std::sync::Arc;

use wire::aerospike::client::{
    Message, Received, frame, messages, ops, put_authenticate, put_batch, put_info, put_login, put_op,
    put_same_row,
};
use wire::aerospike::head::{info1, info2, info3};
use wire::aerospike::op::{Op, kind, particle};
use wire::aerospike::reply::{Reply, put_code, put_end};
use wire::aerospike::{
    Bits, Code, DIGEST, Decoder, HEAD, Head, Limits, Namespace, OPS, SET, TEXT, USER_KEY, Verb, admin,
};
use wire::route::{Function, partition};
use wire::{ArgRanges, Step, Token};

/// Bytes from digits; blanks and bars do not count.
fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The commands of an input that arrives in pieces which end at `cuts`.
fn read_cut(input: &[u8], cuts: impl IntoIterator<Item = usize>, limits: &Limits) -> Vec<Vec<Vec<u8>>> {
    read_by(Decoder::default(), input, cuts, limits)
}

/// The same with a decoder that knows other namespaces.
fn read_by(
    mut decoder: Decoder,
    input: &[u8],
    cuts: impl IntoIterator<Item = usize>,
    limits: &Limits,
) -> Vec<Vec<Vec<u8>>> {
    let (mut args, mut commands, mut consumed) = (ArgRanges::new(), Vec::new(), 0);
    let mut is_open = false;
    for arrived in cuts.into_iter().chain([input.len()]) {
        loop {
            let here = &input[consumed..arrived];
            match decoder.decode(here, &mut args, limits) {
                Step::Need => break,
                Step::Command { size } => {
                    assert!(0 < size && size <= here.len());
                    let command: Vec<Vec<u8>> = args.iter(here).map(<[u8]>::to_vec).collect();
                    consumed += size;
                    if !command.is_empty() {
                        commands.push(command);
                    }
                }
                Step::Large => match decoder.token(here, limits) {
                    (Token::Need, size) => {
                        consumed += size;
                        break;
                    }
                    (Token::Pause, size) => consumed += size,
                    (token, size) => {
                        let command = commands.last_mut();
                        let is_end = token == Token::End;
                        match token {
                            Token::Begin { .. } if is_open => command.unwrap().clear(),
                            Token::Begin { .. } => commands.push(Vec::new()),
                            Token::Bulk { .. } => command.unwrap().push(Vec::new()),
                            Token::Bytes(range) => {
                                command.unwrap().last_mut().unwrap().extend_from_slice(&here[range]);
                            }
                            Token::Word(word) => {
                                command.unwrap().last_mut().unwrap().extend_from_slice(word.as_bytes());
                            }
                            Token::End => {}
                            token => panic!("{token:?}"),
                        }
                        is_open = !is_end;
                        consumed += size;
                    }
                },
                Step::Malformed(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(consumed, input.len(), "all of it is consumed");
    commands
}

/// What an input means, the same wherever it is cut.
fn read(input: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let limits = Limits::default();
    let whole = read_cut(input, [], &limits);
    assert_eq!(read_cut(input, 1..input.len(), &limits), whole, "byte by byte");
    if input.len() < 2000 {
        for cut in 1..input.len() {
            assert_eq!(read_cut(input, [cut], &limits), whole, "cut at {cut}");
        }
    }
    whole
}

fn head(command: &[Vec<u8>]) -> Head {
    Head::from_bytes(&command[HEAD])
}

fn one(input: &[u8]) -> (Head, Vec<Vec<u8>>) {
    let mut commands = read(input);
    assert_eq!(commands.len(), 1, "{commands:?}");
    let command = commands.remove(0);
    (head(&command), command)
}

const KEY: [u8; 20] = [
    0x54, 0xc8, 0xd8, 0x4f, 0xd4, 0x81, 0xfb, 0xba, 0x6d, 0x89, 0x69, 0x03, 0x43, 0xb0, 0x18, 0xf5, 0xea,
    0xbe, 0x48, 0x00,
];
const OTHER: [u8; 20] = [7; 20];

fn message() -> Message<'static> {
    Message { namespace: b"test", set: b"demo", digest: Some(&KEY), timeout_ms: 1000, ..Message::default() }
}

fn framed(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.put(&mut out);
    out
}

#[test]
fn a_get_of_asbench() {
    let input = bytes(
        "0203000000000044 1603000000000000000000000000000003e800030000 0000000500 74657374 0000000801 74657374736574
         0000001504 54c8d84fd481fbba6d8939690343b018f5eabe48",
    );
    let (head, command) = one(&input);
    assert_eq!((head.verb, head.info1, head.info2, head.op_count), (Verb::Get, 3, 0, 0));
    assert_eq!(command[DIGEST], bytes("54c8d84fd481fbba6d8939690343b018f5eabe48"));
    assert_eq!(command.len(), 2, "all bins need no more");
    // Two behind each other are two commands.
    assert_eq!(read(&[&input[..], &input].concat()).len(), 2);
}

#[test]
fn a_put_of_the_python_client() {
    let input = bytes(
        "0203000000000052 16 00010000 00 00000000 00000064 000003e8 0003 0001 | 00000005 00 74657374 | 00000005 01 64656d6f |
         00000015 04 b747f5854d0b33259928d0cfab7fad81d6abfbf6 | 0000000d 02 01 00 01 61 0000000000000001",
    );
    assert_eq!(input.len(), 8 + 0x52);
    let (head, command) = one(&input);
    assert_eq!((head.verb, head.info2, head.ttl, head.op_count), (Verb::Write, 1, 100, 1));
    assert_eq!((&command[SET][..], &command[USER_KEY][..]), (&b"demo"[..], &b""[..]));
    assert_eq!(command[OPS], bytes("0000000d 02 01 00 01 61 0000000000000001"));
    // The same from this side.
    let digest = bytes("b747f5854d0b33259928d0cfab7fad81d6abfbf6").try_into().unwrap();
    let mut ops = Vec::new();
    put_op(&mut ops, kind::WRITE, particle::INTEGER, b"a", &1_i64.to_be_bytes());
    let put = Message { info2: 1, ttl: 100, digest: Some(&digest), ops: (1, &ops), ..message() };
    assert_eq!(framed(&put), input);
}

/// What is refused, and what is understood behind it.
#[track_caller]
fn check_refused(input: &[u8], want: &[(Code, bool)]) {
    let mut behind = Vec::new();
    put_info(&mut behind, "node\n");
    let commands = read(&[input, &behind].concat());
    let said: Vec<_> = commands[..commands.len() - 1]
        .iter()
        .map(|command| (head(command).code, head(command).is(Bits::LAST)))
        .collect();
    assert_eq!(said, want);
    assert_eq!(head(commands.last().unwrap()).verb, Verb::Info, "what is behind it is understood");
}

#[test]
fn what_is_wrong_is_refused_and_swallowed() {
    let get = Message { info1: 3, ..message() };
    check_refused(&framed(&Message { namespace: b"other", ..get }), &[(Code::NAMESPACE, false)]);
    check_refused(&framed(&Message { info1: 0, ..get }), &[(Code::PARAMETER, false)]);
    check_refused(&framed(&Message { set: &[b's'; 64], ..get }), &[(Code::PARAMETER, false)]);
    check_refused(&framed(&Message { user_key: &[3; 9000], ..get }), &[(Code::PARAMETER, false)]);
    check_refused(&framed(&Message { user_key: &[3; 90_000], ..get }), &[(Code::PARAMETER, false)]);
    check_refused(&framed(&Message { ops: (1025, b""), ..get }), &[(Code::PARAMETER, false)]);
    let large = vec![b'x'; 1_100_000];
    check_refused(&framed(&Message { info2: 1, ops: (1, &large), ..get }), &[(Code::TOO_BIG, false)]);
    // Without a digest it would be a query.
    check_refused(&framed(&Message { digest: None, ..get }), &[(Code::UNSUPPORTED, true)]);
    check_refused(&framed(&Message { digest: None, info2: 1, ..get }), &[(Code::UNSUPPORTED, false)]);
    check_refused(&framed(&Message { digest: None, partitions: &[4096], ..get }), &[(Code::PARAMETER, true)]);
    // A header of another size, fields that are larger than what holds them.
    let mut odd = framed(&get);
    odd[8] = 21;
    check_refused(&odd, &[(Code::PARAMETER, false)]);
    let mut long = framed(&get);
    long[30..34].copy_from_slice(&[0, 0, 1, 0]);
    check_refused(&long, &[(Code::PARAMETER, false)]);
    long[30..34].copy_from_slice(&[0; 4]);
    check_refused(&long, &[(Code::PARAMETER, false)]);
    let mut many = framed(&get);
    many[26..28].copy_from_slice(&[0xff, 0xff]);
    check_refused(&many, &[(Code::PARAMETER, false)]);
    // Each field that asks for what is not served; one that nobody knows is passed over.
    for kind in [5, 6, 21, 26, 30, 33, 40, 43] {
        let mut input = framed(&Message { user_key: b"\x03k", ..get });
        let at = input.len() - 3;
        input[at] = kind;
        check_refused(&input, &[(Code::UNSUPPORTED, false)]);
    }
    // A field more than there may be, or longer; bits of transactions.
    let get_with = |count: usize| {
        let mut input = framed(&get);
        for _ in 4..=count {
            input.extend([0, 0, 0, 1, 99]);
        }
        let size = u32::try_from(input.len() - 8).unwrap();
        input[4..8].copy_from_slice(&size.to_be_bytes());
        input[26..28].copy_from_slice(&u16::try_from(count).unwrap().to_be_bytes());
        input
    };
    assert_eq!(one(&get_with(64)).0.verb, Verb::Get);
    check_refused(&get_with(65), &[(Code::PARAMETER, false)]);
    let mut long = framed(&Message { user_key: &[3; 30_000], ..get });
    let at = long.len() - 30_001;
    long[at] = 99;
    check_refused(&long, &[(Code::PARAMETER, false)]);
    let mut transaction = framed(&get);
    transaction[12] = 1;
    check_refused(&transaction, &[(Code::UNSUPPORTED, false)]);
    let mut odd = framed(&Message { digest: None, partitions: &[1, 2], ..get });
    let at = odd.len() - 4;
    // The size of the field counts its type and three bytes.
    odd[at - 2] = 4;
    odd.truncate(at + 3);
    let size = u32::try_from(odd.len() - 8).unwrap();
    odd[4..8].copy_from_slice(&size.to_be_bytes());
    check_refused(&odd, &[(Code::PARAMETER, true)]);
    let mut unknown = framed(&Message { user_key: b"\x03k", ..get });
    let at = unknown.len() - 3;
    unknown[at] = 99;
    assert_eq!(one(&unknown).0.verb, Verb::Get);
}

#[test]
fn large_requests_come_by_tokens() {
    let mut value = vec![0; 100_000];
    value.iter_mut().zip(0_u32..).for_each(|(byte, index)| *byte = index.to_le_bytes()[0]);
    let mut ops = Vec::new();
    put_op(&mut ops, kind::WRITE, particle::BLOB, b"a", &value);
    put_op(&mut ops, kind::WRITE, particle::BLOB, b"b", &value);
    let put = Message { info2: 1, user_key: b"\x03key", ops: (2, &ops), ..message() };
    let (head, command) = one(&framed(&put));
    assert_eq!((head.verb, &command[DIGEST][..]), (Verb::Write, &KEY[..]));
    assert_eq!((&command[SET][..], &command[USER_KEY][..]), (&b"demo"[..], &b"\x03key"[..]));
    assert_eq!(command[OPS..].concat(), ops);
    // As a row, between others; what repeats it is refused.
    let mut rows = Vec::new();
    let small = Message { info1: 3, digest: None, ..message() };
    small.put_row(&mut rows, 0, &KEY);
    put.put_row(&mut rows, 1, &KEY);
    put_same_row(&mut rows, 2, &OTHER);
    small.put_row(&mut rows, 3, &OTHER);
    let mut input = Vec::new();
    put_batch(&mut input, 4, &rows);
    let commands = read_cut(&input, [100, 300, 40_000, 40_001, 100_500], &Limits::default());
    assert_eq!(commands, read_cut(&input, [], &Limits::default()));
    let verbs: Vec<_> = commands.iter().map(|command| self::head(command).verb).collect();
    assert_eq!(verbs, [Verb::Get, Verb::Write, Verb::Say, Verb::Get]);
    assert_eq!(commands[1][OPS..].concat(), ops);
    assert_eq!(self::head(&commands[2]).code, Code::PARAMETER);
    assert!(self::head(&commands[3]).is(Bits::LAST));
}

/// Digests and partitions as the C client computes them.
#[test]
fn partitions_are_those_of_aerospike() {
    for (digest, want) in [
        ("b747f5854d0b33259928d0cfab7fad81d6abfbf6", 1975),
        ("ceded27492b392e0232514bb54a8ec2076acef37", 3790),
        ("1e2636002fd468ac9139049eec4656a90e05e22c", 1566),
        ("a443f05d05d962202b59abb402afae1737dbf66a", 932),
        ("41721215fd2e56087e4f962047729a972784f317", 577),
    ] {
        assert_eq!(partition(&bytes(digest)), want);
        assert_eq!(Function::Aerospike.slot(&bytes(digest)).number(), want * 4);
    }
    assert_eq!((partition(b""), partition(b"x")), (0, 0));
}

#[test]
fn replies_are_as_clients_read_them() {
    let head = Head::default();
    let mut out = Vec::new();
    let mut value = Vec::new();
    put_op(&mut value, kind::READ, particle::INTEGER, b"v", &[0; 8]);
    Reply { generation: 1, op_count: 1, size: value.len(), ..Reply::default() }.put_header(&mut out, &head);
    out.extend_from_slice(&value);
    put_end(&mut out, &head);
    let want = "0203000000000027 16000000000000000001000000000000000000000001 0000000d 01 01 00 01 76 0000000000000000";
    assert_eq!(out, bytes(want));
    let (kind, body, size) = frame(&out).unwrap();
    let received: Vec<Received<'_>> = messages(body).collect();
    assert_eq!((kind, size, received.len(), received[0].reply.generation), (3, out.len(), 1, 1));
    let read: Vec<(Op, &[u8])> = ops(received[0].body).collect();
    assert_eq!((read.len(), read[0].0.name.as_bytes(), read[0].1), (1, &b"v"[..], &[0; 8][..]));
    out.clear();
    put_code(&mut out, &head, Code::NOT_FOUND);
    assert_eq!(out, bytes("020300000000001616000000000200000000000000000000000000000000"));
    out.clear();
    Reply { generation: 1, void_time: 0x1fc4_16af, ..Reply::default() }.put(&mut out, &head);
    assert_eq!(out, bytes("0203000000000016160000000000 00000001 1fc416af 00000000 0000 0000"));
    // Rows have their number, and the last one is followed by the message that says so.
    let row = Head { index: 7, bits: Bits::ROW, ..head };
    out.clear();
    put_code(&mut out, &row, Code::NOT_FOUND);
    assert_eq!(out, bytes("0203000000000016 160000000002 00000000 00000000 00000007 0000 0000"));
    out.clear();
    put_code(&mut out, &Head { bits: Bits::ROW.and_if(true, Bits::LAST), ..row }, Code::NOT_FOUND);
    let last = "0203000000000016 160000010000 00000000 00000000 00000000 0000 0000";
    assert_eq!(out[30..], bytes(last));
    out.clear();
    put_code(&mut out, &Head { bits: Bits::default().and_if(true, Bits::LAST), ..head }, Code::UNSUPPORTED);
    assert_eq!(out, bytes("0203000000000016 160000010010 00000000 00000000 00000000 0000 0000"));
}

#[test]
fn security() {
    let login =
        bytes("0202 00000000005b 00001402 000000000000000000000000 00000006 00 61646d696e 0000003d 03");
    let credential = b"$2a$10$7EqJtq98hPqEX7fNZaFWoO0123456789012345678901234567890";
    let mut input = Vec::new();
    put_login(&mut input, "admin", credential);
    assert_eq!((input.len(), &input[..login.len()]), (8 + 0x5b, &login[..]));
    let (head, command) = one(&input);
    assert_eq!(head.verb, Verb::Admin);
    assert_eq!(admin::Request::parse(&command[TEXT]), Some(admin::Request::Login { credential }));
    let mut out = Vec::new();
    admin::put(&mut out, &command[TEXT], Code::OK, Some(b"SESSIONTOKEN1234"));
    let want = bytes("0202 00000000002e 00001402 000000000000000000000000 00000011 05");
    assert_eq!(out, [&want[..], b"SESSIONTOKEN1234", &bytes("00000005 06 00015180")].concat());
    out.clear();
    admin::put(&mut out, &command[TEXT], Code::SECURITY_NOT_ENABLED, None);
    assert_eq!(out, bytes("0202 000000000010 00341400 000000000000000000000000"));
    input.clear();
    put_authenticate(&mut input, "admin", b"token");
    let (_, command) = one(&input);
    assert_eq!(admin::Request::parse(&command[TEXT]), Some(admin::Request::Authenticate { proof: b"token" }));
    for size in 0..command[TEXT].len() {
        assert_eq!(admin::Request::parse(&command[TEXT][..size]), None, "{size} bytes of it");
    }
    let mut other = command[TEXT].clone();
    other[2] = 1;
    assert_eq!(admin::Request::parse(&other), Some(admin::Request::Other));
    (other[2], other[3]) = (20, 0);
    assert_eq!(admin::Request::parse(&other), Some(admin::Request::Incomplete));
}

/// Before a login only what logs in is looked at.
#[test]
fn strangers_are_told_so() {
    let limits = Limits { authenticated: false, ..Limits::default() };
    let mut input = framed(&Message { info1: 3, ..message() });
    put_batch(&mut input, 1, &[0; 100_000]);
    put_info(&mut input, "truncate:namespace=test\n");
    put_login(&mut input, "any", b"x");
    let commands = read_cut(&input, [], &limits);
    let heads: Vec<_> =
        commands.iter().map(|command| head(command)).map(|head| (head.verb, head.code)).collect();
    assert_eq!(
        heads,
        [
            (Verb::Say, Code::NOT_AUTHENTICATED),
            (Verb::Say, Code::NOT_AUTHENTICATED),
            (Verb::Info, Code::OK),
            (Verb::Admin, Code::OK)
        ]
    );
    input.clear();
    put_info(&mut input, "truncate:namespace=test;set=demo\n");
    assert_eq!(one(&input).0.verb, Verb::Truncate);
}

/// Bytes of other protocols, and frames that are none.
#[test]
fn what_is_no_request_closes() {
    let close = |input: &[u8]| {
        let commands = read_cut(input, [], &Limits::default());
        let verb = commands.first().map(|command| head(command).verb);
        assert_eq!(verb, Some(Verb::Close), "{}", input.escape_ascii());
    };
    close(b"*1\r\n$4\r\nPING\r\n");
    close(b"get a\r\n");
    close(&[0x80; 24]);
    close(&[0x16, 3, 1]);
    close(&[1, 3, 0, 0, 0, 0, 0, 22]);
    close(&[0, 3]);
    close(&[2, 0]);
    close(&[2, 5]);
    // Bodies that are too long or too short.
    close(&[2, 3, 0, 0, 0x08, 0, 0, 1]);
    close(&[2, 3, 0, 0, 0, 0, 0, 21]);
    close(&[2, 1, 0, 0, 0, 1, 0, 0]);
    close(&[2, 2, 0, 0, 0, 0, 0, 15]);
    let longest = [2, 3, 0, 0, 0x08, 0, 0, 0];
    let step = Decoder::default().decode(&longest, &mut ArgRanges::new(), &Limits::default());
    assert_eq!(step, Step::Need, "this long it may be");
}

/// A head has the place of the namespace that is named, and a row that repeats the one before has its.
#[test]
fn a_namespace_is_known_by_its_place() {
    let namespaces: Arc<[Namespace]> =
        ["test", "users", "user"].map(|name| Namespace::new(name).unwrap()).into();
    let read = |input: &[u8]| read_by(Decoder::new(Arc::clone(&namespaces)), input, [], &Limits::default());
    let places = |input: &[u8]| {
        let heads = read(input).into_iter().map(|command| head(&command));
        heads.map(|head| (head.verb, head.namespace)).collect::<Vec<_>>()
    };
    let row = |message: &Message<'_>| {
        let mut out = Vec::new();
        message.put_row(&mut out, 1, &KEY);
        out
    };
    let get = Message { info1: 3, ..message() };
    for (name, want) in [
        ("test", (Verb::Get, 0)),
        ("users", (Verb::Get, 1)),
        ("user", (Verb::Get, 2)),
        ("use", (Verb::Say, 0)),
        ("", (Verb::Say, 0)),
    ] {
        assert_eq!(places(&framed(&Message { namespace: name.as_bytes(), ..get })), [want], "{name}");
    }
    let mut rows = row(&Message { namespace: b"user", ops: (0, b""), ..get });
    put_same_row(&mut rows, 1, &KEY);
    rows.extend(row(&Message { namespace: b"users", ops: (0, b""), ..get }));
    let mut input = Vec::new();
    put_batch(&mut input, 3, &rows);
    assert_eq!(places(&input), [(Verb::Get, 2), (Verb::Get, 2), (Verb::Get, 1)]);
    let mut input =
        framed(&Message { info1: 1, namespace: b"users", partitions: &[7, 8], digest: None, ..message() });
    assert_eq!(places(&input), [(Verb::Scan, 1), (Verb::Scan, 1)]);
    for (text, want) in [
        ("truncate:namespace=user;set=demo\n", (Verb::Truncate, 2)),
        ("truncate-namespace:namespace=users\n", (Verb::Truncate, 1)),
        ("truncate:namespace=other\n", (Verb::Info, 0)),
        ("truncate:set=demo\n", (Verb::Info, 0)),
    ] {
        input.clear();
        put_info(&mut input, text);
        assert_eq!(places(&input), [want], "{text}");
    }
}

#[test]
fn namespaces_have_plain_names() {
    assert_eq!(Namespace::new("test"), Some(Namespace::default()));
    assert_eq!(Namespace::new(&"n".repeat(31)).map(|name| name.as_str().len()), Some(31));
    for name in ["", "a b", "a;b", "a:b", "a/b", "a\tb", "\u{e4}", &"n".repeat(32)] {
        assert_eq!(Namespace::new(name), None, "{name:?}");
    }
}

/// What is asked for is what the flags say.
#[test]
fn flags_choose_the_verb() {
    let verb =
        |info1: u8, info2: u8, info3: u8| one(&framed(&Message { info1, info2, info3, ..message() })).0.verb;
    assert_eq!(verb(info1::READ, 0, 0), Verb::Get);
    assert_eq!(verb(info1::READ | info1::NO_BINS, 0, 0), Verb::Get);
    assert_eq!(verb(0, info2::WRITE, info3::UPDATE_ONLY), Verb::Write);
    assert_eq!(verb(info1::READ, info2::WRITE, 0), Verb::Write);
    assert_eq!(verb(0, info2::WRITE | info2::DELETE, 0), Verb::Delete);
    assert_eq!(verb(0, info2::DELETE, 0), Verb::Say);
}
