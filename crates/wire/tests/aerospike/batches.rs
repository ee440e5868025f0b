//! Batches: a command for each row.

use wire::aerospike::client::{Message, put_batch, put_info, put_op, put_same_row};
use wire::aerospike::head::info1;
use wire::aerospike::op::{kind, particle};
use wire::aerospike::{Bits, Code, DIGEST, Head, OPS, SET, TEXT, Verb};

use crate::{KEY, OTHER, bytes, check_refused, head, message, one, read};

#[test]
fn a_batch_is_a_command_for_each_row() {
    let input = bytes(
        "0203000000000072 1608 00000000 00000000 00000000 000003e8 0001 0000 | 00000058 29 00000002 0d |
         00000000 b747f5854d0b33259928d0cfab7fad81d6abfbf6 0a 03 00 00 00000000 0002 0000 00000005 00 74657374 00000008 01
         74657374736574 | 00000007 ceded27492b392e0232514bb54a8ec2076acef37 01",
    );
    let commands = read(&input);
    assert_eq!(commands.len(), 2);
    let heads = [head(&commands[0]), head(&commands[1])];
    assert_eq!(heads.map(|head| (head.verb, head.info1, head.index)), [(Verb::Get, 3, 0), (Verb::Get, 3, 7)]);
    assert!(
        heads.iter().all(|head| head.is(Bits::ROW)) && !heads[0].is(Bits::LAST) && heads[1].is(Bits::LAST)
    );
    assert_eq!(commands[1][DIGEST], bytes("ceded27492b392e0232514bb54a8ec2076acef37"));
}

#[test]
fn rows_repeat_operations_and_sets() {
    let mut ops = Vec::new();
    put_op(&mut ops, kind::READ, 0, b"a", b"");
    put_op(&mut ops, kind::WRITE, particle::STRING, b"b", b"text");
    let write =
        Message { info1: 1, info2: 0x81, generation: 9, ttl: 77, ops: (2, &ops), digest: None, ..message() };
    let mut rows = Vec::new();
    write.put_row(&mut rows, 3, &KEY);
    put_same_row(&mut rows, 4, &OTHER);
    let get = Message { info1: info1::READ | info1::NO_BINS, digest: None, ..message() };
    get.put_row(&mut rows, 5, &OTHER);
    let (mut input, mut behind) = (Vec::new(), Vec::new());
    put_batch(&mut input, 3, &rows);
    put_info(&mut behind, "node\n");
    let commands = read(&[input, behind].concat());
    assert_eq!(commands.len(), 4);
    let first = head(&commands[0]);
    assert_eq!((first.verb, first.generation, first.ttl, first.index), (Verb::Write, 9, 77, 3));
    assert_eq!(head(&commands[1]), Head { index: 4, ..first });
    for command in &commands[..2] {
        assert_eq!((&command[SET], &command[OPS]), (&b"demo".to_vec(), &ops));
    }
    assert_eq!((head(&commands[2]).verb, head(&commands[2]).is(Bits::LAST)), (Verb::Get, true));
    assert_eq!((head(&commands[3]).verb, &commands[3][TEXT][..]), (Verb::Info, &b"node\n"[..]));
}

#[test]
fn a_batch_that_is_wrong_ends_with_a_code() {
    let get = Message { info1: 3, digest: None, ..message() };
    let batch = |count: u32, rows: &[u8]| {
        let mut out = Vec::new();
        put_batch(&mut out, count, rows);
        out
    };
    let row = |message: &Message<'_>| {
        let mut out = Vec::new();
        message.put_row(&mut out, 1, &KEY);
        out
    };
    check_refused(&batch(0, &[]), &[(Code::PARAMETER, true)]);
    check_refused(&batch(1, &[0; 24]), &[(Code::PARAMETER, true)]);
    check_refused(&batch(2, &[0; 49]), &[(Code::PARAMETER, true)]);
    // A row that repeats nothing.
    let mut same = Vec::new();
    put_same_row(&mut same, 1, &KEY);
    check_refused(&batch(1, &same), &[(Code::PARAMETER, true)]);
    // Rows that are wrong by themselves, before one that is not; what repeats them is as wrong.
    let wrong = row(&Message { namespace: b"other", ops: (0, b""), ..get });
    check_refused(
        &batch(3, &[&wrong[..], &same, &wrong].concat()),
        &[(Code::NAMESPACE, false), (Code::NAMESPACE, false), (Code::NAMESPACE, true)],
    );
    let mut ops = Vec::new();
    put_op(&mut ops, kind::WRITE, particle::BLOB, b"a", &[9; 5000]);
    let wrong = row(&Message { namespace: b"other", ops: (1, &ops), ..get });
    check_refused(&batch(2, &wrong.repeat(2)), &[(Code::NAMESPACE, false), (Code::NAMESPACE, true)]);
    // A row with more operations than there are: nothing can be found behind it.
    let cut = row(&Message { ops: (2, &ops), ..get });
    check_refused(&batch(1, &cut), &[(Code::PARAMETER, true)]);
    check_refused(&batch(2, &[&cut[..], &same].concat()), &[(Code::PARAMETER, true)]);
    let cut = row(&Message { namespace: b"other", ops: (2, &ops), ..get });
    check_refused(&batch(1, &cut), &[(Code::NAMESPACE, true)]);
    check_refused(
        &batch(2, &[&cut[..], &same].concat()),
        &[(Code::NAMESPACE, false), (Code::PARAMETER, true)],
    );
    // The last row is answered before its operations turn out to be too long: nothing more is said.
    let mut long = row(&Message { namespace: b"other", ops: (2, &ops.repeat(2)), ..get });
    let at = long.len() - ops.len();
    long[at..at + 4].fill(0xff);
    check_refused(&batch(1, &long), &[(Code::NAMESPACE, true)]);
    // Flags that nobody knows, a transaction's bits, and more operations than there may be.
    let mut strange = row(&get);
    strange[24] |= 0x80;
    check_refused(&batch(1, &strange), &[(Code::PARAMETER, true)]);
    let mut inside = row(&get);
    inside[24] |= 0x10;
    inside.insert(28, 1);
    check_refused(&batch(1, &inside), &[(Code::UNSUPPORTED, true)]);
    inside[28] = 0;
    assert_eq!(one(&batch(1, &inside)).0.verb, Verb::Get);
    let mut read = Vec::new();
    put_op(&mut read, kind::READ, 0, b"a", b"");
    let many = |count: u16| {
        let reads = read.repeat(usize::from(count));
        let mut message = message();
        (message.info1, message.ops) = (1, (count, reads.as_slice()));
        row(&message)
    };
    assert_eq!(one(&batch(1, &many(1024))).0.verb, Verb::Get);
    check_refused(&batch(1, &many(1025)), &[(Code::PARAMETER, true)]);
    // One that is too large, alone and before another.
    ops.clear();
    for _ in 0..3 {
        put_op(&mut ops, kind::WRITE, particle::BLOB, b"a", &vec![9; 400_000]);
    }
    let large = row(&Message { info2: 1, ops: (3, &ops), ..get });
    check_refused(&batch(1, &large), &[(Code::TOO_BIG, true)]);
    check_refused(&batch(2, &large.repeat(2)), &[(Code::TOO_BIG, false), (Code::TOO_BIG, true)]);
}

#[test]
fn rows_are_answered_as_their_batch_wants_it() {
    let row = Message { info1: info1::READ | info1::GET_ALL, digest: None, ..message() };
    let mut rows = Vec::new();
    row.put_row(&mut rows, 0, &KEY);
    put_same_row(&mut rows, 1, &OTHER);
    let mut input = Vec::new();
    put_batch(&mut input, 2, &rows);
    let wants = |input: &[u8]| -> Vec<bool> {
        read(input).iter().map(|row| head(row).info1 & info1::COMPRESS != 0).collect()
    };
    assert_eq!(wants(&input), [false, false]);
    input[9] |= info1::COMPRESS;
    assert_eq!(wants(&input), [true, true]);
}
