//! Compressed frames: what is inside is read as if it had come alone, and what is no frame is refused.

use wire::aerospike::client::{inflated, put_compressed};
use wire::aerospike::{DEFLATE_SIZE_MAX, DEFLATE_SIZE_MIN, Deflater};

use super::*;

fn compressed(frame: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_compressed(&mut out, frame);
    out
}

/// A compressed frame means what it means alone, wherever it is cut, with others before and behind it.
#[track_caller]
fn check(frame: &[u8]) {
    let want = read_cut(frame, [], &Limits::default());
    let packed = compressed(frame);
    assert_eq!(read(&packed).concat(), want.concat());
    let mut behind = Vec::new();
    put_info(&mut behind, "node\n");
    let all = read(&[&behind[..], &packed, &packed, &behind].concat());
    assert_eq!(all.len(), 2 + 2 * want.len());
    assert_eq!(all[1..=want.len()], want);
}

fn put_of(value: &[u8]) -> Vec<u8> {
    let mut ops = Vec::new();
    put_op(&mut ops, kind::WRITE, particle::BLOB, b"bin", value);
    framed(&Message { info2: 1, ops: (1, &ops), ..message() })
}

/// Bytes that no compression makes shorter.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..size).map(|_| next()).collect()
}

/// A batch of so many rows that write `value`, each of its own or as the first one.
fn batch_of(count: u32, value: &[u8], is_same: bool) -> Vec<u8> {
    let mut ops = Vec::new();
    put_op(&mut ops, kind::WRITE, particle::BLOB, b"bin", value);
    let row = Message { info2: 1, ops: (1, &ops), digest: None, ..message() };
    let mut rows = Vec::new();
    for index in 0..count {
        if index > 0 && is_same {
            put_same_row(&mut rows, index, &OTHER);
        } else {
            row.put_row(&mut rows, index, &KEY);
        }
    }
    let mut out = Vec::new();
    put_batch(&mut out, count, &rows);
    out
}

#[test]
fn what_is_inside_is_read_as_if_it_had_come_alone() {
    check(&framed(&Message { info1: 3, ..message() }));
    check(&put_of(&[b'x'; 100]));
    check(&put_of(&[b'x'; 50_000]));
    check(&put_of(&noise(100)));
    check(&put_of(&noise(100_000)));
    check(&put_of(&vec![b'x'; 1_000_000]));
    check(&batch_of(20, b"value", false));
    check(&batch_of(20, b"value", true));
    check(&batch_of(5, &[b'x'; 20_000], false));
    check(&batch_of(3, &noise(40_000), false));
    let ids: Vec<u16> = (0..4096).collect();
    let scan = Message { info1: 1, digest: None, ..message() };
    check(&framed(&Message { partitions: &ids[..10], ..scan }));
    check(&framed(&Message { partitions: &ids, ..scan }));
    check(&framed(&Message { records: &vec![KEY; 2000], max_records: 10, ..scan }));
}

#[test]
fn what_is_refused_alone_is_refused_inside() {
    for frame in [
        framed(&Message { namespace: b"other", info1: 3, ..message() }),
        framed(&Message { info1: 0, ..message() }),
        put_of(&vec![b'x'; 1_100_000]),
        put_of(&vec![b'x'; 40_000_000]),
        batch_of(3, &vec![b'x'; 1_100_000], false),
        batch_of(1, &vec![b'x'; 1_100_000], false),
    ] {
        check(&frame);
    }
    let limits = Limits { authenticated: false, ..Limits::default() };
    let commands = read_cut(&compressed(&put_of(b"value")), [], &limits);
    assert_eq!(head(&commands[0]).code, Code::NOT_AUTHENTICATED);
}

/// The codes of a compressed frame's commands, of which the last one says that it is none.
#[track_caller]
fn check_broken(frame: &[u8], ran_count: usize) {
    let want: Vec<_> =
        std::iter::repeat_n((Code::OK, false), ran_count).chain([(Code::PARAMETER, true)]).collect();
    check_refused(frame, &want);
}

#[test]
fn what_is_no_frame_is_refused() {
    let get = framed(&Message { info1: 3, ..message() });
    let packed = compressed(&get);
    let lie = |size: u64| [&packed[..8], &size.to_be_bytes(), &packed[16..]].concat();
    let whole = u64::try_from(get.len()).unwrap();
    for size in [0, 1, 29, 30, whole - 1, whole + 1, 1 << 20, 1 << 27, (1 << 27) + 9, 1 << 40, u64::MAX] {
        check_broken(&lie(size), 0);
    }
    // Other frames, also another compressed one.
    let mut info = Vec::new();
    put_info(&mut info, "node\nservices\npartition-generation\n");
    check_broken(&compressed(&info), 0);
    check_broken(&compressed(&packed), 0);
    check_broken(&compressed(&[&get[..], &get].concat()), 0);
    check_broken(&compressed(&get[..40]), 0);
    check_broken(&compressed(&[0; 100]), 0);
    // A stream that is cut, and one with bytes behind it.
    let resized = |stream: &[u8]| {
        let mut out = Vec::new();
        let size = u16::try_from(8 + stream.len()).unwrap().to_be_bytes();
        out.extend_from_slice(&[2, 4, 0, 0, 0, 0, size[0], size[1]]);
        out.extend_from_slice(&[&packed[8..16], stream].concat());
        out
    };
    for end in 17..packed.len() {
        check_broken(&resized(&packed[16..end]), 0);
    }
    check_broken(&resized(&[&packed[16..], b"behind"].concat()), 0);
    // Rows that have been whole before have run; the last one has not.
    let mut batch = compressed(&batch_of(5, &noise(30_000), false));
    let checksum = batch.len() - 1;
    batch[checksum] ^= 1;
    check_broken(&batch, 4);
    // So it is with a large row, whose beginning has been told.
    let mut large = compressed(&put_of(&noise(90_000)));
    let checksum = large.len() - 1;
    large[checksum] ^= 1;
    check_broken(&large, 0);
}

#[test]
fn any_byte_may_be_wrong() {
    let plain = batch_of(3, b"some value", false);
    let (packed, want) = (compressed(&plain), read_cut(&plain, [], &Limits::default()));
    let mut same_count = 0;
    for index in 8..packed.len() {
        for bit in 0..8 {
            let mut wrong = packed.clone();
            wrong[index] ^= 1 << bit;
            let whole = read_cut(&wrong, [], &Limits::default());
            let last = head(whole.last().unwrap());
            // What is refused for itself is not looked at further.
            let is_refused = last.verb == Verb::Say && last.code != Code::OK;
            assert!(is_refused || whole == want, "bit {bit} of byte {index}: {whole:?}");
            same_count += usize::from(!is_refused);
            assert_eq!(read_cut(&wrong, 1..wrong.len(), &Limits::default()), whole);
        }
    }
    // The same bytes may be repeated from two places, and the bits that fill the last byte mean nothing.
    assert!(same_count < 16, "{same_count} wrong bits make no difference");
    // Without room for a stream there is no frame.
    for size in 0..=8 {
        let commands =
            read_cut(&[2, 4, 0, 0, 0, 0, 0, size, 0, 0, 0, 0, 0, 0, 0, 9, 9], [], &Limits::default());
        assert_eq!(head(&commands[0]).verb, Verb::Close, "a body of {size} bytes");
    }
}

/// Reads a frame until its commands have been told: how many bytes were inflated, the most of them between two pauses, and the most
/// that the decoder held.
fn cost(input: &[u8]) -> (usize, usize, usize) {
    let (mut decoder, mut args, mut at) = (Decoder::default(), ArgRanges::new(), 0);
    let (mut inflated, mut since_pause, mut since_pause_max, mut held_max) = (0, 0, 0, 0);
    while at < input.len() {
        match decoder.decode(&input[at..], &mut args, &Limits::default()) {
            Step::Command { size } => at += size,
            Step::Large => {
                let (token, size) = decoder.token(&input[at..], &Limits::default());
                at += size;
                let count = decoder.take_inflated();
                since_pause = if token == Token::Pause { 0 } else { since_pause + count };
                inflated += count;
                since_pause_max = since_pause_max.max(since_pause);
            }
            step => panic!("{step:?}"),
        }
        held_max = held_max.max(decoder.held_size());
    }
    (inflated, since_pause_max, held_max)
}

#[test]
fn what_becomes_much_is_read_bit_by_bit_within_a_limit() {
    let row = vec![b'x'; 900_000];
    for (frame, inflated_max) in [
        (put_of(&vec![b'x'; 1_000_000]), 1_000_500),
        // Of what is too large the front is enough.
        (put_of(&vec![b'x'; 100_000_000]), 32 * 1024),
        (batch_of(20, &row, false), 20_000_000),
        (batch_of(1, &vec![b'x'; 100_000_000], false), 32 * 1024),
    ] {
        let packed = compressed(&frame);
        assert!(packed.len() < frame.len() / 100, "it is a bomb");
        let (inflated, between_max, held_max) = cost(&packed);
        assert!(inflated <= inflated_max, "{inflated} of {} bytes were inflated", frame.len());
        assert!(between_max <= 64 * 1024, "{between_max} bytes without a pause");
        assert!(held_max <= 96 * 1024, "{held_max} bytes were held");
    }
    // Nothing of what says itself, outside and inside, that it is longer than frames may be.
    let body_size: u64 = (128 << 20) + 1;
    let mut frame = put_of(&vec![b'x'; 1_000_000]);
    frame[2..8].copy_from_slice(&body_size.to_be_bytes()[2..]);
    let mut packed = compressed(&frame);
    packed[8..16].copy_from_slice(&(8 + body_size).to_be_bytes());
    check_broken(&packed, 0);
    assert_eq!(cost(&packed).0, 0);
}

/// Empty blocks, ten bits each, become nothing, and take longer than blocks that become much: they cost as much as those.
#[test]
fn what_becomes_nothing_is_read_bit_by_bit() {
    // A block with the tables of the standard (bits 0, 1, 0), and its end (seven bits of nothing): four of them are five bytes.
    let blocks: Vec<u8> = [0x02, 0x08, 0x20, 0x80, 0x00].repeat(10_000);
    let mut packed = compressed(&put_of(&vec![b'x'; 1000]));
    packed.truncate(16);
    packed.extend_from_slice(&[0x78, 0x01]);
    packed.extend_from_slice(&blocks);
    let body_size = (packed.len() + 100 - 8) as u64;
    packed[2..8].copy_from_slice(&body_size.to_be_bytes()[2..]);
    let (mut decoder, mut args, mut at, mut pauses) = (Decoder::default(), ArgRanges::new(), 0, 0);
    assert_eq!(decoder.decode(&packed, &mut args, &Limits::default()), Step::Large);
    loop {
        let (token, size) = decoder.token(&packed[at..], &Limits::default());
        at += size;
        match token {
            Token::Pause => pauses += 1,
            Token::Need if at == packed.len() => break,
            token => panic!("{token:?} at {at}"),
        }
        assert!(decoder.take_inflated() <= 128 * 1024, "between two pauses");
    }
    assert!((300..500).contains(&pauses), "{pauses} pauses in {} bytes", blocks.len());
}

#[test]
fn replies_are_compressed_where_it_makes_them_shorter() {
    let (mut deflater, mut frames) = (Deflater::default(), Vec::new());
    let head = Head::new(Verb::Get);
    for _ in 0..3 {
        Reply { size: 300, op_count: 1, ..Reply::default() }.put_header(&mut frames, &head);
        put_op(&mut frames, kind::READ, particle::BLOB, b"bin", &[b'x'; 289]);
    }
    assert!((DEFLATE_SIZE_MIN..=DEFLATE_SIZE_MAX).contains(&frames.len()));
    for _ in 0..2 {
        let packed = deflater.deflate(&frames).unwrap();
        assert!(packed.len() < 150);
        let (kind, body, size) = frame(&packed).unwrap();
        assert_eq!((kind, size), (4, packed.len()));
        let plain = inflated(body, 10_000).unwrap();
        assert_eq!(plain.len(), 8 + 3 * 322, "one frame holds all messages");
        let (kind, body, _) = frame(&plain).unwrap();
        assert_eq!((kind, messages(body).count()), (3, 3));
        assert!(inflated(frame(&packed).unwrap().1, 900).is_none(), "within what is asked for");
    }
    let mut noisy = Vec::new();
    Reply { size: 1000, ..Reply::default() }.put_header(&mut noisy, &head);
    noisy.extend_from_slice(&noise(1000));
    assert_eq!(deflater.deflate(&noisy), None);
    assert!(deflater.deflate(&frames).is_some(), "and goes on with the next");
}
