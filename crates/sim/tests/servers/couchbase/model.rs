//! Random requests beside a model that knows documents, locks, and whose a partition is.

use std::collections::BTreeMap;

use sim::{Client, World};
use wire::route::{PartitionMap, vbucket};

use crate::binary::{Reply, replies, request, request_at};
use crate::check::{Dice, faults_of};
use crate::couchbase::{exchange, selected, settings};

/// What a client should see of a document: value, flags, and the CAS that a reply has told; and until when it is locked.
#[derive(Clone)]
struct Document {
    value: Vec<u8>,
    flags: u32,
    cas: u64,
    locked_until_ms: i64,
}

/// What should come back.
#[derive(Debug)]
struct Want {
    status: u16,
    value: Vec<u8>,
    /// Of a change: the key whose CAS this is.
    changed: Option<String>,
    cas_hidden: bool,
}

struct Model {
    documents: BTreeMap<String, Document>,
    map: PartitionMap,
    lane: u16,
}

impl Model {
    /// A random request of a client of this lane, and what should come back.
    fn step(&mut self, dice: &mut Dice, now_ms: i64, fresh: &mut BTreeMap<String, ()>) -> (Vec<u8>, Want) {
        let key = format!("k{}", dice.below(12));
        let right = vbucket(key.as_bytes());
        let vbucket = match dice.below(4) {
            0 => u16::try_from(dice.below(1200)).unwrap(),
            _ => right,
        };
        let opcode =
            [0x00, 0x00, 0x01, 0x01, 0x02, 0x03, 0x04, 0x05, 0x0e, 0x0f, 0x94, 0x95, 0x1c][dice.below(13)];
        let value = match dice.below(4) {
            0 => dice.below(100).to_string().into_bytes(),
            1 => vec![b'v'; dice.below(50_000)],
            _ => vec![b'v'; dice.below(20)],
        };
        let held = self.documents.get(&key).cloned();
        let is_locked = held.as_ref().is_some_and(|held| now_ms < held.locked_until_ms);
        // A CAS is known if no request before this in the same breath has changed it.
        let known = held.as_ref().map(|held| held.cas).filter(|_| !fresh.contains_key(&key));
        let cas = match known {
            Some(cas)
                if opcode == 0x95
                    || !matches!(opcode, 0x00 | 0x02 | 0x05 | 0x94 | 0x1c) && dice.below(2) == 0 =>
            {
                cas
            }
            _ if opcode == 0x95 => u64::MAX - 1,
            _ => 0,
        };
        let opens = cas != 0 && known == Some(cas);
        let extras: Vec<u8> = match opcode {
            1..=3 => vec![0, 0, 0, 9, 0, 0, 0, 0],
            5 => [&3_u64.to_be_bytes()[..], &7_u64.to_be_bytes(), &[0; 4]].concat(),
            0x94 => vec![0, 0, 0, 5],
            0x1c => vec![0; 4],
            _ => Vec::new(),
        };
        let sends = matches!(opcode, 1..=3 | 0x0e | 0x0f);
        let bytes =
            request_at(vbucket, opcode, &extras, key.as_bytes(), if sends { &value } else { b"" }, cas);
        let mut want = Want { status: 0, value: Vec::new(), changed: None, cas_hidden: false };
        let owner = |vbucket: u16| self.map.owner_of_vbucket(vbucket).map(|lane| lane.0);
        if owner(vbucket) != Some(self.lane) && owner(right) != Some(self.lane) {
            want.status = 7;
            return (bytes, want);
        }
        let is_shut = is_locked && !opens;
        let changed = match (opcode, held) {
            (0x02, Some(_)) => Err(2),
            (0x01, None) if cas != 0 => Err(1),
            (0x0e | 0x0f, None) => Err(5),
            (0x00 | 0x03 | 0x04 | 0x94 | 0x95 | 0x1c, None) => Err(1),
            (0x00, Some(held)) => {
                want.value = held.value;
                want.cas_hidden = is_locked;
                Ok(None)
            }
            (0x95, Some(_)) if !is_locked => Err(0x0e),
            (_, Some(_)) if is_shut => Err(9),
            (0x05, Some(held)) if !is_number(&held.value) => Err(6),
            (0x94, Some(_)) if is_locked => Err(9),
            (0x95, Some(held)) => {
                // The CAS stays.
                self.documents.insert(key.clone(), Document { locked_until_ms: 0, ..held });
                Ok(None)
            }
            (0x94, Some(held)) => {
                want.value.clone_from(&held.value);
                Ok(Some(Document { locked_until_ms: now_ms + 5000, ..held }))
            }
            // The end is the same as before: none.
            (0x1c, Some(_)) => Ok(None),
            (0x04, Some(_)) => {
                self.documents.remove(&key);
                fresh.insert(key.clone(), ());
                Ok(None)
            }
            (0x05, None) => {
                want.value = 7_u64.to_be_bytes().to_vec();
                Ok(Some(Document { value: b"7".to_vec(), flags: 0, cas: 0, locked_until_ms: 0 }))
            }
            (0x05, Some(held)) => {
                let number = std::str::from_utf8(&held.value).unwrap().parse::<u64>().unwrap() + 3;
                want.value = number.to_be_bytes().to_vec();
                Ok(Some(Document { value: number.to_string().into_bytes(), locked_until_ms: 0, ..held }))
            }
            (0x0e | 0x0f, Some(held)) => {
                let pieces = if opcode == 0x0e { [held.value, value] } else { [value, held.value] };
                Ok(Some(Document { value: pieces.concat(), flags: held.flags, cas: 0, locked_until_ms: 0 }))
            }
            (_, _) => Ok(Some(Document { value, flags: 9, cas: 0, locked_until_ms: 0 })),
        };
        match changed {
            Err(status) => want.status = status,
            Ok(None) => {}
            Ok(Some(document)) => {
                self.documents.insert(key.clone(), document);
                fresh.insert(key.clone(), ());
                want.changed = Some(key);
            }
        }
        (bytes, want)
    }
}

fn is_number(value: &[u8]) -> bool {
    !value.is_empty() && value.len() < 20 && value.iter().all(u8::is_ascii_digit)
}

/// Random requests of one client of one of several lanes, whose bytes are cut, delayed and sent in bursts.
#[test]
fn a_client_sees_what_the_model_says() {
    let mut statuses = BTreeMap::new();
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let lane_count = 1 + u16::try_from(dice.below(4)).unwrap();
        let mut world = World::new(lane_count, &settings(), seed, faults_of(seed));
        let lane = dice.below(usize::from(lane_count));
        let mut client = selected(&mut world, lane, &[7]);
        let mut model = Model {
            documents: BTreeMap::new(),
            map: PartitionMap::even(lane_count),
            lane: u16::try_from(lane).unwrap(),
        };
        for _ in 0..12 {
            let (mut bytes, mut wants, mut fresh) = (Vec::new(), Vec::new(), BTreeMap::new());
            for _ in 0..1 + dice.below(30) {
                let (more, want) = model.step(&mut dice, world.now.unix_ms, &mut fresh);
                bytes.extend(more);
                wants.push(want);
            }
            let got = replies_of(&mut world, &mut client, &bytes, wants.len());
            for (reply, want) in got.iter().zip(&wants) {
                let about = format!("seed {seed}: {:02x} {want:?} and not {reply:?}", reply.opcode);
                *statuses.entry(reply.status).or_insert(0) += 1;
                assert!(reply.status == want.status, "{}", &about[..about.len().min(600)]);
                if reply.status == 7 {
                    continue;
                }
                assert!(reply.status != 0 || reply.value == want.value, "{}", &about[..about.len().min(600)]);
                assert!(!want.cas_hidden || reply.cas == u64::MAX, "the CAS is hidden");
                if let Some(key) = &want.changed
                    && let Some(document) = model.documents.get_mut(key)
                {
                    assert!(reply.cas != document.cas, "another CAS with each change");
                    document.cas = reply.cas;
                }
            }
            // Some locks end meanwhile.
            world.now.unix_ms += i64::try_from(dice.below(4000)).unwrap();
        }
        // What there is at the end, byte by byte, as somebody sees it who knows no map.
        let mut plain = world.connect(0);
        for (key, document) in &model.documents {
            let got = replies_of(&mut world, &mut plain, &request(0x00, &[], key, "", 0), 1);
            assert_eq!(
                (&got[0].value, &got[0].extras[..]),
                (&document.value, &document.flags.to_be_bytes()[..])
            );
        }
    }
    for status in [0, 1, 2, 5, 6, 7, 9, 0x0e] {
        assert!(
            statuses.get(&status).is_some_and(|count| *count > 5),
            "{status:x} comes about: {statuses:?}"
        );
    }
}

/// Takes rounds until so many replies have come.
fn replies_of(world: &mut World, client: &mut Client, bytes: &[u8], count: usize) -> Vec<Reply> {
    let mut got = exchange(world, client, bytes, count);
    for _ in 0..2000 {
        if whole_count(&got) >= count {
            break;
        }
        got.extend(exchange(world, client, b"", 1));
    }
    let replies = replies(&got);
    assert_eq!(replies.len(), count);
    replies
}

/// Whole replies at the front.
fn whole_count(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Some(size) = bytes.get(8..12) {
        let size = 24 + u32::from_be_bytes(size.try_into().unwrap()) as usize;
        let Some(rest) = bytes.get(size..) else { break };
        (bytes, count) = (rest, count + 1);
    }
    count
}
