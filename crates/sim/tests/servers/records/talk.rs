//! What the tests share: requests as they are asked, replies as text.

use std::fmt::Write as _;

use lane::{Aerospike, Dialect, Door, Port, Settings};
use net::fault::Faults;
use sim::{Client, World};
use wire::aerospike::EPOCH_S;
use wire::aerospike::client::{Message, frame, messages, ops, put_batch, put_op};
use wire::aerospike::head::{info1, info2, info3};
use wire::aerospike::op::{kind, particle};
use wire::route::Ports;

pub(crate) type Digest = [u8; 20];

pub(crate) const PORT: u16 = 3000;
/// When the servers of the tests began, unix milliseconds, and the generation of nodes and partitions that follows.
pub(crate) const STARTED_MS: i64 = 1_700_000_000_123;
pub(crate) const GENERATION: u32 = 1_340_434_555;

pub(crate) fn settings() -> Settings {
    Settings {
        doors: vec![Door { port: Port::Lane, dialect: Dialect::Aerospike }],
        aerospike: Aerospike { ports: Some(Ports::from(PORT)), ..Aerospike::default() },
        map_epoch: STARTED_MS,
        ..Settings::default()
    }
}

pub(crate) fn world(lane_count: u16) -> World {
    World::new(lane_count, &settings(), 1, Faults::default())
}

/// A digest whose partition is spread over all lanes.
pub(crate) fn digest(number: u16) -> Digest {
    let mut digest = [0; 20];
    let [low, high] = number.wrapping_mul(1237).to_le_bytes();
    (digest[0], digest[1]) = (low, high);
    digest[2..4].copy_from_slice(&number.to_be_bytes());
    digest
}

/// Sends `bytes` and takes rounds until `frame_count` frames have come, and nothing more comes.
pub(crate) fn exchange(world: &mut World, client: &mut Client, bytes: &[u8], frame_count: usize) -> Vec<u8> {
    client.send(bytes);
    let (mut at, mut count) = (0, 0);
    for _ in 0..40_000 {
        client.pump();
        while let Some((_, _, size)) = frame(&client.received[at..]) {
            (at, count) = (at + size, count + 1);
        }
        if count >= frame_count || client.end.at_end() {
            break;
        }
        world.round();
    }
    for _ in 0..20 {
        world.round();
        client.pump();
    }
    std::mem::take(&mut client.received)
}

/// Operations as text: `name=value`, numbers with `i` or `f` in front, nothing behind the name where there is no value.
pub(crate) fn show_ops(bytes: &[u8]) -> String {
    let show = |(op, value): (wire::aerospike::op::Op, &[u8])| {
        let name = String::from_utf8_lossy(op.name.as_bytes()).into_owned();
        let text = String::from_utf8_lossy(value).into_owned();
        let value = match op.particle {
            particle::NIL => String::new(),
            particle::INTEGER => format!("=i{}", i64::from_be_bytes(value.try_into().unwrap())),
            particle::FLOAT => format!("=f{}", f64::from_be_bytes(value.try_into().unwrap())),
            particle::STRING if text.len() > 60 => format!("=({} bytes, {})", text.len(), sum(value)),
            particle::STRING => format!("={text}"),
            other => format!("={other}:{}", value.escape_ascii()),
        };
        let kind = if op.kind == kind::READ { String::new() } else { format!("{}.", op.kind) };
        format!("{kind}{name}{value}")
    };
    ops(bytes).map(show).collect::<Vec<_>>().join(",")
}

/// Tells two long values apart.
pub(crate) fn sum(value: &[u8]) -> u64 {
    value.iter().fold(0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

/// Replies as text: the code and generation, the void time behind `v` in seconds from now, `#` and the row, the operations, and
/// what the flags say; one behind the other.
pub(crate) fn show(mut bytes: &[u8], now_ms: i64) -> String {
    let mut text = String::new();
    while let Some((frame_kind, body, size)) = frame(bytes) {
        bytes = &bytes[size..];
        if frame_kind != 3 {
            let _ = write!(text, "{}|", String::from_utf8_lossy(body).trim_end());
            continue;
        }
        for message in messages(body) {
            let reply = message.reply;
            let _ = write!(text, "{} g{}", reply.code.0, reply.generation);
            if reply.void_time > 0 {
                let _ = write!(text, " v{}", i64::from(reply.void_time) + EPOCH_S - now_ms.div_euclid(1000));
            }
            if message.index > 0 {
                let _ = write!(text, " #{}", message.index);
            }
            if reply.op_count > 0 && reply.field_count == 0 {
                let _ = write!(text, " {}", show_ops(message.body));
            }
            if reply.info3 & info3::LAST != 0 {
                text.push_str(" last");
            }
            if reply.info3 & info3::PARTITION_DONE != 0 {
                text.push_str(" done");
            }
            text.push('|');
        }
    }
    assert!(bytes.is_empty(), "replies are whole");
    text
}

/// A request under way: its message and its operations.
#[derive(Clone, Default)]
pub(crate) struct Ask {
    pub(crate) message: Message<'static>,
    pub(crate) digest: Digest,
    pub(crate) op_count: u16,
    pub(crate) ops: Vec<u8>,
    pub(crate) set: &'static [u8],
    pub(crate) user_key: &'static [u8],
}

/// A request for a record of the set `demo`.
pub(crate) fn ask(number: u16, info1: u8, info2: u8, info3: u8) -> Ask {
    let message = Message { info1, info2, info3, namespace: b"test", ..Message::default() };
    Ask { message, digest: digest(number), set: b"demo", ..Ask::default() }
}

pub(crate) fn put(number: u16) -> Ask {
    ask(number, 0, info2::WRITE, 0)
}

pub(crate) fn get(number: u16) -> Ask {
    ask(number, info1::READ | info1::GET_ALL, 0, 0)
}

impl Ask {
    pub(crate) fn op(mut self, kind: u8, particle: u8, name: &str, value: &[u8]) -> Ask {
        put_op(&mut self.ops, kind, particle, name.as_bytes(), value);
        self.op_count += 1;
        self
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Ask {
        self.op(kind::WRITE, particle::STRING, name, value.as_bytes())
    }

    pub(crate) fn number(self, name: &str, value: i64) -> Ask {
        self.op(kind::WRITE, particle::INTEGER, name, &value.to_be_bytes())
    }

    pub(crate) fn incr(self, name: &str, value: i64) -> Ask {
        self.op(kind::INCR, particle::INTEGER, name, &value.to_be_bytes())
    }

    pub(crate) fn read(self, name: &str) -> Ask {
        self.op(kind::READ, particle::NIL, name, b"")
    }

    pub(crate) fn nil(self, name: &str) -> Ask {
        self.op(kind::WRITE, particle::NIL, name, b"")
    }

    pub(crate) fn touch(self) -> Ask {
        self.op(kind::TOUCH, particle::NIL, "", b"")
    }

    pub(crate) fn ttl(mut self, ttl: u32) -> Ask {
        self.message.ttl = ttl;
        self
    }

    pub(crate) fn generation(mut self, generation: u32) -> Ask {
        self.message.generation = generation;
        self
    }

    pub(crate) fn set(mut self, set: &'static [u8]) -> Ask {
        self.set = set;
        self
    }

    pub(crate) fn user_key(mut self, key: &'static [u8]) -> Ask {
        self.user_key = key;
        self
    }

    pub(crate) fn message(&self) -> Message<'_> {
        Message { set: self.set, user_key: self.user_key, ops: (self.op_count, &self.ops), ..self.message }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Message { digest: Some(&self.digest), ..self.message() }.put(&mut out);
        out
    }
}

/// A batch of these rows, numbered from 1 on.
pub(crate) fn batch(rows: &[Ask]) -> Vec<u8> {
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    for (row, index) in rows.iter().zip(1..) {
        row.message().put_row(&mut bytes, index, &row.digest);
    }
    put_batch(&mut out, u32::try_from(rows.len()).unwrap(), &bytes);
    out
}

/// Says requests over one lane and over four, one after the other, in one piece, and byte by byte. Each has as many frames in
/// its answer as `|`.
pub(crate) fn check(conversation: &[(Vec<u8>, &str)]) {
    for lane_count in [1, 4] {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        for (bytes, want) in conversation {
            let got = exchange(&mut world, &mut client, bytes, want.matches('|').count());
            assert_eq!(show(&got, world.now.unix_ms), *want, "over {lane_count} lanes");
        }
        let bytes: Vec<u8> = conversation.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let want: String = conversation.iter().map(|(_, want)| *want).collect();
        let mut world = self::world(lane_count);
        let mut client = world.connect(0);
        let got = exchange(&mut world, &mut client, &bytes, want.matches('|').count());
        assert_eq!(show(&got, world.now.unix_ms), want, "pipelined over {lane_count} lanes");
        if bytes.len() > 20_000 {
            continue;
        }
        let mut world = self::world(lane_count);
        let mut client = world.connect(0);
        for byte in &bytes {
            client.send(&[*byte]);
            client.pump();
            world.round();
        }
        let got = exchange(&mut world, &mut client, b"", want.matches('|').count());
        assert_eq!(show(&got, world.now.unix_ms), want, "byte by byte over {lane_count} lanes");
    }
}
