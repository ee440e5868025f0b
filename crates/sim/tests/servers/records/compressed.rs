//! Compressed requests and replies over one lane and over several.

use lane::{Door, Settings};
use net::fault::Faults;
use sim::{Client, World};
use wire::aerospike::DEFLATE_SIZE_MAX;
use wire::aerospike::client::{Message, frame, inflated, put_batch, put_compressed, put_op};
use wire::aerospike::head::{info1, info2};
use wire::aerospike::op::{kind, particle};

use crate::records::talk::{Digest, digest, exchange, settings, show, world};

const LANE_COUNTS: [u16; 2] = [1, 4];

fn framed(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.put(&mut out);
    out
}

fn compressed(frame: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_compressed(&mut out, frame);
    out
}

fn message(digest: &Digest) -> Message<'_> {
    Message { namespace: b"test", set: b"demo", digest: Some(digest), timeout_ms: 1000, ..Message::default() }
}

fn put_of(digest: &Digest, value: &[u8]) -> Vec<u8> {
    let mut ops = Vec::new();
    put_op(&mut ops, kind::WRITE, particle::STRING, b"v", value);
    framed(&Message { info2: 1, ops: (1, &ops), ..message(digest) })
}

fn get_of(digest: &Digest, info1: u8) -> Vec<u8> {
    framed(&Message { info1: info1::READ | info1::GET_ALL | info1, ..message(digest) })
}

/// The same replies with all frames as they were, and how many were compressed.
fn plain(mut bytes: &[u8]) -> (Vec<u8>, usize) {
    let (mut out, mut count) = (Vec::new(), 0);
    while let Some((kind, body, size)) = frame(bytes) {
        if kind == 4 {
            out.extend(inflated(body, 1 << 20).expect("a stream of the announced size"));
            count += 1;
        } else {
            out.extend_from_slice(&bytes[..size]);
        }
        bytes = &bytes[size..];
    }
    assert!(bytes.is_empty(), "frames are whole");
    (out, count)
}

/// One after the other: what is answered, and how many frames of it are compressed.
fn say(world: &mut World, client: &mut Client, request: &[u8], frame_count: usize) -> (String, usize) {
    let received = exchange(world, client, request, frame_count);
    let (bytes, count) = plain(&received);
    (show(&bytes, world.now.unix_ms), count)
}

#[test]
fn compressed_requests_are_served_as_others_are() {
    for lane_count in LANE_COUNTS {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        for number in 0..40 {
            let digest = digest(number);
            let value = format!("{number}").repeat(3000 * usize::from(number % 7));
            let put = compressed(&put_of(&digest, value.as_bytes()));
            assert_eq!(say(&mut world, &mut client, &put, 1), ("0 g1|".to_owned(), 0));
            let want = say(&mut world, &mut client, &get_of(&digest, 0), 1);
            assert_eq!(want.1, 0, "who does not ask for it gets nothing compressed");
            let got = say(&mut world, &mut client, &compressed(&get_of(&digest, info1::COMPRESS)), 1);
            let is_compressed = (100..DEFLATE_SIZE_MAX).contains(&value.len());
            assert_eq!(got, (want.0, usize::from(is_compressed)), "{} bytes", value.len());
        }
    }
}

#[test]
fn batches_and_scans_are_compressed_both_ways() {
    for lane_count in LANE_COUNTS {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        let digests: Vec<Digest> = (0..30).map(digest).collect();
        let batch = |message: &dyn Fn(&Digest) -> Vec<u8>, is_compressed: bool| {
            let mut rows = Vec::new();
            for (index, digest) in (0..).zip(&digests) {
                let row = message(digest);
                let mut ops = Vec::new();
                put_op(&mut ops, kind::WRITE, particle::STRING, b"v", &row);
                let head = Message { namespace: b"test", set: b"demo", ..Message::default() };
                match row.is_empty() {
                    true => Message { info1: 3, ..head }.put_row(&mut rows, index, digest),
                    false => Message { info2: 1, ops: (1, &ops), ..head }.put_row(&mut rows, index, digest),
                }
            }
            let mut out = Vec::new();
            put_batch(&mut out, 30, &rows);
            out[9] |= if is_compressed { info1::COMPRESS } else { 0 };
            if is_compressed { compressed(&out) } else { out }
        };
        let put = batch(&|digest| vec![b'a' + digest[3] % 26; 5000], true);
        let (said, _) = say(&mut world, &mut client, &put, 31);
        assert_eq!(said.matches("0 g1").count(), 30, "{said}");
        let (want, count) = say(&mut world, &mut client, &batch(&|_| Vec::new(), false), 31);
        assert_eq!((want.matches("v=(5000 bytes").count(), count), (30, 0));
        let (got, count) = say(&mut world, &mut client, &batch(&|_| Vec::new(), true), 30);
        let sorted = |text: &str| {
            let mut rows: Vec<String> = text.split('|').map(str::to_owned).collect();
            rows.sort();
            rows
        };
        assert_eq!(sorted(&got), sorted(&want));
        assert!((1..=30).contains(&count), "as many as the turns have time for: {count}");
        // All partitions of the records, most of which are on other lanes: those say so.
        let ids: Vec<u16> =
            digests.iter().map(|digest| u16::from_le_bytes([digest[0], digest[1]]) & 4095).collect();
        let scan = |info1: u8| {
            let scan = Message {
                digest: None,
                partitions: &ids,
                info1: info1::READ | info1,
                ..message(&digests[0])
            };
            framed(&scan)
        };
        let (want, none) = say(&mut world, &mut client, &scan(0), 61);
        let (got, some) = say(&mut world, &mut client, &compressed(&scan(info1::COMPRESS)), 31);
        assert_eq!((sorted(&got), none), (sorted(&want), 0));
        assert!(some > 0, "{lane_count} lanes: replies of {got} were compressed");
    }
}

/// However many ask for it, a turn compresses no more than it has time for.
#[test]
fn a_turn_compresses_some_replies_and_leaves_the_others() {
    let mut world = world(1);
    let digest = digest(3);
    let mut clients: Vec<Client> = (0..9).map(|_| world.connect(0)).collect();
    let _ = say(&mut world, &mut clients[0], &put_of(&digest, &[b'x'; 30_000]), 1);
    for client in &mut clients {
        client.send(&get_of(&digest, info1::COMPRESS));
        client.pump();
    }
    (0..20).for_each(|_| world.round());
    let mut compressed_count = 0;
    for client in &mut clients {
        client.pump();
        let (bytes, count) = plain(&client.received);
        assert_eq!(show(&bytes, 0).matches("v=(30000 bytes").count(), 1);
        compressed_count += count;
    }
    assert_eq!(compressed_count, DEFLATE_SIZE_MAX / 30_100);
}

#[test]
fn errors_of_what_may_be_compressed_are_counted_once() {
    let settings = Settings { doors: [settings().doors, vec![Door::SHARED]].concat(), ..settings() };
    for lane_count in LANE_COUNTS {
        let mut world = World::new(lane_count, &settings, 1, Faults::default());
        world.attend();
        let mut client = world.connect(0);
        for number in 0..10 {
            let digest = digest(number);
            let _ = say(&mut world, &mut client, &put_of(&digest, b"value"), 1);
            let create =
                Message { info1: info1::COMPRESS, info2: 1 | info2::CREATE_ONLY, ..message(&digest) };
            let mut ops = Vec::new();
            put_op(&mut ops, kind::WRITE, particle::STRING, b"v", b"other");
            let create = framed(&Message { ops: (1, &ops), ..create });
            assert_eq!(say(&mut world, &mut client, &create, 1).0, "5 g0|");
        }
        let mut redis = world.connect_at(0, 1);
        let told = world.exchange(&mut redis, b"INFO errorstats\r\n", 80, 200);
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains("errorstat_AS_ERR_RECORD_EXISTS:count=10\r\n"), "{lane_count} lanes: {told}");
    }
}

/// What is refused of rows has to be inflated to find the rows behind: the lane does it bit by bit, and goes on serving others.
#[test]
fn what_becomes_much_is_shared_out_over_turns() {
    const MIB: usize = 1 << 20;
    let mut world = world(1);
    let (mut bomber, mut other) = (world.connect(0), world.connect(0));
    let digest = digest(7);
    let _ = say(&mut world, &mut other, &put_of(&digest, b"value"), 1);
    let mut ops = Vec::new();
    put_op(&mut ops, kind::WRITE, particle::STRING, b"v", &vec![b'x'; 4 * MIB]);
    let row = Message { namespace: b"test", set: b"demo", info2: 1, ops: (1, &ops), ..Message::default() };
    let (mut rows, mut batch) = (Vec::new(), Vec::new());
    (0..8).for_each(|index| row.put_row(&mut rows, index, &digest));
    put_batch(&mut batch, 8, &rows);
    let bomb = compressed(&batch);
    assert!(bomb.len() < batch.len() / 100);
    bomber.send(&bomb);
    let (mut rounds, mut frames) = (0, 0);
    while frames < 9 {
        bomber.pump();
        other.send(&get_of(&digest, 0));
        let mut waited = 0;
        while other.received.is_empty() {
            other.pump();
            world.round();
            waited += 1;
            assert!(waited < 5, "the other is answered at once");
        }
        other.received.clear();
        rounds += waited;
        frames = 0;
        let mut at = 0;
        while let Some((_, _, size)) = frame(&bomber.received[at..]) {
            (at, frames) = (at + size, frames + 1);
        }
        assert!(rounds < 10_000, "the bomb is answered, too");
    }
    assert_eq!(show(&bomber.received, 0).matches("13 g0").count(), 8);
    // Seven rows are read through, the last one is not.
    assert!(rounds > 28 * MIB / (128 * 1024), "{rounds} rounds for 28 MiB");
}

/// Commands that a lane has taken up of its clients in a turn in which it finds all of this.
fn taken_in_a_turn(world: &mut World, requests: &[Vec<u8>]) -> u64 {
    let mut clients: Vec<Client> = requests.iter().map(|_| world.connect(0)).collect();
    (0..5).for_each(|_| world.round());
    for (client, request) in clients.iter_mut().zip(requests) {
        client.send(request);
        client.pump();
        assert!(client.is_sent(), "it is there at once");
    }
    let before = world.lanes[0].stats().commands().all;
    let _ = world.turn(0);
    world.lanes[0].stats().commands().all - before
}

/// Each byte as four that were received: against the share of a client, which is 8 KiB at first and 64 KiB behind others, and that of
/// all, which is 256 KiB.
#[test]
fn what_frames_become_counts_in_a_turn() {
    let mut world = world(1);
    let put = |number: u16, size: usize| compressed(&put_of(&digest(number), &vec![b'x'; size]));
    let several: Vec<Vec<u8>> = (0..8).map(|number| put(number, 10_000)).collect();
    assert_eq!(taken_in_a_turn(&mut world, &[several.concat()]), 3, "of one client");
    let one_each: Vec<Vec<u8>> = (0..12).map(|number| put(number, 15_000)).collect();
    assert_eq!(taken_in_a_turn(&mut world, &one_each), 5, "of all clients");
}
