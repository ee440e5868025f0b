//! Scans that go on behind the records that a client has already: page after page, while records come and go.

use std::collections::{BTreeMap, BTreeSet};

use sim::{Client, World};
use wire::aerospike::client::{Message, frame, messages, put_batch, put_op};
use wire::aerospike::head::{info1, info2};
use wire::aerospike::op::kind;

use crate::records::nodes::scanned;
use crate::records::talk::{Digest, exchange, world};

/// Those of the records, all of one lane: few, so that each has records in many buckets.
const PARTITIONS: u16 = 5;

/// The digest of a record, in a partition that its number chooses.
fn digest(number: u32) -> Digest {
    let mut digest = [0; 20];
    digest[0] = (number % u32::from(PARTITIONS)).to_le_bytes()[0];
    digest[16..].copy_from_slice(&number.to_be_bytes());
    digest
}

fn change(world: &mut World, client: &mut Client, number: u32, info2: u8) {
    let (mut ops, mut bytes) = (Vec::new(), Vec::new());
    put_op(&mut ops, kind::WRITE, 1, b"n", &u64::from(number).to_be_bytes());
    let ops = if info2 & info2::DELETE == 0 { (1, &ops[..]) } else { (0, &[][..]) };
    let digest = digest(number);
    Message { info2, namespace: b"test", digest: Some(&digest), ops, ..Message::default() }.put(&mut bytes);
    exchange(world, client, &bytes, 1);
}

/// The digests of the records that a scan has found, in the order in which they came.
fn digests(mut bytes: &[u8]) -> Vec<Digest> {
    let mut found = Vec::new();
    while let Some((_, body, size)) = frame(bytes) {
        for message in messages(body).filter(|message| message.reply.field_count > 0) {
            let mut at = 0;
            while message.body[at + 4] != 4 {
                at += 4 + u32::from_be_bytes(*message.body[at..].first_chunk().unwrap()) as usize;
            }
            found.push(*message.body[at + 5..].first_chunk().unwrap());
        }
        bytes = &bytes[size..];
    }
    found
}

/// A client that remembers the last record of each partition, as Aerospike's do.
#[derive(Default)]
struct Reader {
    last: BTreeMap<u8, Digest>,
    found: Vec<Digest>,
}

impl Reader {
    /// The next page; how many records it has.
    fn page(&mut self, world: &mut World, client: &mut Client, max_records: u64) -> usize {
        let partitions: Vec<u16> =
            (0..PARTITIONS).filter(|id| !self.last.contains_key(&id.to_le_bytes()[0])).collect();
        let records: Vec<Digest> = self.last.values().copied().collect();
        let mut bytes = Vec::new();
        let message = Message { info1: info1::READ, namespace: b"test", max_records, ..Message::default() };
        Message { partitions: &partitions, records: &records, ..message }.put(&mut bytes);
        let page = digests(&scanned(world, client, &bytes));
        self.last.extend(page.iter().map(|digest| (digest[0], *digest)));
        self.found.extend(&page);
        page.len()
    }
}

#[test]
fn pages_have_every_record_once() {
    for (lane_count, limit) in [(1, 7), (1, 100), (4, 33)] {
        let mut world = world(lane_count);
        // The last lane is asked for records of the first one.
        let mut client = world.connect(usize::from(lane_count - 1));
        (0..1000).for_each(|number| change(&mut world, &mut client, number, info2::WRITE));
        let (mut reader, mut new, mut pages) = (Reader::default(), 1000, 0);
        while reader.page(&mut world, &mut client, limit) as u64 == limit {
            pages += 1;
            // The table grows, and the record behind which the next page begins goes.
            if new < 3000 {
                (new..new + 200).for_each(|number| change(&mut world, &mut client, number, info2::WRITE));
                new += 200;
            }
            let last = reader.found.last().unwrap();
            let number = u32::from_be_bytes(*last.last_chunk().unwrap());
            change(&mut world, &mut client, number, info2::WRITE | info2::DELETE);
        }
        let once: BTreeSet<Digest> = reader.found.iter().copied().collect();
        assert_eq!(once.len(), reader.found.len(), "none twice");
        assert!((0..1000).all(|number| once.contains(&digest(number))), "all that were there");
        assert!(pages > 9, "{pages}");
    }
}

/// A scan that broke off, and is not limited, goes on; behind the last record of all partitions nothing is left.
#[test]
fn scans_go_on_where_they_broke_off() {
    let mut world = world(4);
    let mut client = world.connect(0);
    (0..500).for_each(|number| change(&mut world, &mut client, number, info2::WRITE));
    let mut whole = Reader::default();
    assert_eq!(whole.page(&mut world, &mut client, 0), 500);
    for cut in [1, 120, 499] {
        let found = whole.found[..cut].to_vec();
        let last = found.iter().map(|digest| (digest[0], *digest)).collect();
        let mut reader = Reader { last, found };
        assert_eq!(reader.page(&mut world, &mut client, 0), 500 - cut);
        let sorted = |found: &[Digest]| found.iter().copied().collect::<BTreeSet<Digest>>();
        assert_eq!(sorted(&reader.found), sorted(&whole.found));
        assert_eq!(reader.page(&mut world, &mut client, 0), 0);
    }
}

/// A page of so many bytes that a lane would not hold them ends before, and clients ask for the rest of the partitions that are
/// unavailable then.
#[test]
fn pages_are_so_long() {
    const SIZE: usize = 400_000;
    let mut world = world(1);
    let mut client = world.connect(0);
    let mut ops = Vec::new();
    put_op(&mut ops, kind::WRITE, 3, b"long", &[b'x'; SIZE]);
    for number in 0..60 {
        let (digest, mut bytes) = (digest(number), Vec::new());
        let put = Message { info2: info2::WRITE, namespace: b"test", ops: (1, &ops), ..Message::default() };
        Message { digest: Some(&digest), ..put }.put(&mut bytes);
        exchange(&mut world, &mut client, &bytes, 1);
    }
    let mut reader = Reader::default();
    let first = reader.page(&mut world, &mut client, 60);
    assert!((40..46).contains(&first), "{first} records of {SIZE} bytes");
    assert_eq!(reader.page(&mut world, &mut client, 60 - first as u64), 60 - first);
    let once: BTreeSet<Digest> = reader.found.iter().copied().collect();
    assert_eq!(once.len(), 60, "each of them once");
    // A bin that is named often is there once.
    let names: Vec<u8> = (0..1000)
        .flat_map(|_| {
            let mut op = Vec::new();
            put_op(&mut op, kind::READ, 0, b"long", b"");
            op
        })
        .collect();
    let mut bytes = Vec::new();
    let scan = Message { info1: info1::READ, namespace: b"test", ops: (1000, &names), ..Message::default() };
    Message { partitions: &[0], ..scan }.put(&mut bytes);
    assert!(scanned(&mut world, &mut client, &bytes).len() < 13 * SIZE);
}

/// Three records in each of all partitions, by batches.
fn fill(world: &mut World, client: &mut Client) {
    let mut ops = Vec::new();
    put_op(&mut ops, kind::WRITE, 1, b"n", &1_u64.to_be_bytes());
    for first in (0..wire::aerospike::PARTITIONS).step_by(64) {
        let mut rows = Vec::new();
        let put = Message { info2: info2::WRITE, namespace: b"test", ops: (1, &ops), ..Message::default() };
        for (index, id) in (first..first + 64).flat_map(|id| [id; 3]).enumerate() {
            let index = u32::try_from(index).unwrap();
            put.put_row(&mut rows, index, &record(id, index % 3));
        }
        let mut bytes = Vec::new();
        put_batch(&mut bytes, 64 * 3, &rows);
        scanned(world, client, &bytes);
    }
}

fn record(id: u16, number: u32) -> Digest {
    let mut digest = [0; 20];
    digest[..2].copy_from_slice(&id.to_le_bytes());
    digest[16..].copy_from_slice(&number.to_be_bytes());
    digest
}

/// Of each partition one record has been read: no view holds such a request. It goes to the lane that owns the first of them, whole
/// or in packets.
#[test]
fn scans_go_on_in_all_partitions() {
    for lane_count in [1, 2] {
        let mut world = world(lane_count);
        let mut client = world.connect(usize::from(lane_count - 1));
        fill(&mut world, &mut client);
        // Those of the first lane.
        let ids: Vec<u16> = (0..wire::aerospike::PARTITIONS / lane_count).collect();
        let message = Message { info1: info1::READ, namespace: b"test", ..Message::default() };
        let mut bytes = Vec::new();
        Message { partitions: &ids, ..message }.put(&mut bytes);
        let all = digests(&scanned(&mut world, &mut client, &bytes));
        assert_eq!(all.len(), ids.len() * 3);
        let firsts: BTreeMap<[u8; 2], Digest> =
            all.iter().rev().map(|digest| ([digest[0], digest[1]], *digest)).collect();
        let records: Vec<Digest> = firsts.values().copied().collect();
        let others: BTreeSet<Digest> =
            all.iter().copied().filter(|digest| !records.contains(digest)).collect();
        for (max_records, piece_size) in [(0, 512), (0, usize::MAX), (1000, 512), (10_000, usize::MAX)] {
            bytes.clear();
            Message { records: &records, max_records, ..message }.put(&mut bytes);
            assert!(bytes.len() > records.len() * 20);
            let mut pieces: Vec<&[u8]> = bytes.chunks(piece_size.min(bytes.len())).collect();
            let last = pieces.pop().unwrap();
            for piece in pieces {
                client.send(piece);
                client.pump();
                world.round();
            }
            let page = digests(&scanned(&mut world, &mut client, last));
            let once: BTreeSet<Digest> = page.iter().copied().collect();
            let want = if max_records == 1000 { 1000 } else { others.len() };
            assert_eq!((page.len(), once.len()), (want, want), "{lane_count} lanes, {max_records}");
            assert!(once.is_subset(&others), "none that was read already");
        }
    }
}
