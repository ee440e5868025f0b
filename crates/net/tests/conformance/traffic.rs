//! Many clients, frames cut anywhere, a lane with budgets: every reply arrives, once and in order, from a seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::{Close, ConnId, Event, Limits, Need, Net};

use crate::cases::turns;
use crate::worlds::{Client, World};

/// splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        usize::try_from(z % u64::try_from(end).unwrap()).unwrap()
    }
}

/// A lane that answers each frame (two bytes of length, then that many bytes) with the same frame.
struct Echo {
    clients: BTreeMap<ConnId, Progress>,
}

/// What a lane remembers of a client.
#[derive(Default)]
struct Progress {
    /// More complete frames may lie in the rest.
    unfinished: bool,
    /// Input was announced.
    announced: bool,
}

impl Echo {
    fn turn(&mut self, net: &mut impl Net, events: &[Event], chance: &mut Chance) {
        for event in events {
            match *event {
                Event::Opened { conn, .. } => {
                    assert!(self.clients.insert(conn, Progress::default()).is_none(), "opened once");
                }
                Event::Input(conn) => self.clients.get_mut(&conn).expect("opened before").announced = true,
                Event::Writable(_) => {}
                Event::Closed { conn, .. } => {
                    self.clients.remove(&conn).expect("closed once");
                }
            }
        }
        for (&conn, progress) in &mut self.clients {
            if progress.unfinished {
                Self::serve(net, conn, Need::Rest, progress, chance);
            } else if progress.announced && chance.below(4) > 0 {
                progress.announced = false;
                Self::serve(net, conn, Need::More, progress, chance);
            }
        }
    }

    /// Answers up to three frames.
    fn serve(net: &mut impl Net, conn: ConnId, need: Need, progress: &mut Progress, chance: &mut Chance) {
        let Some(stream) = net.stream(conn, need) else { return };
        let mut rest = stream.input;
        progress.unfinished = false;
        for served in 0.. {
            let Some((head, body)) = rest.split_first_chunk::<2>() else { break };
            let size = usize::from(u16::from_le_bytes(*head));
            if body.len() < size {
                break;
            }
            if served == 3 {
                progress.unfinished = true;
                break;
            }
            stream.output.extend(head);
            if chance.below(2) == 0 {
                stream.output.push_chunk(Arc::new(body[..size].to_vec()), 0..size);
            } else {
                stream.output.extend(&body[..size]);
            }
            rest = &body[size..];
        }
        let consumed = stream.input.len() - rest.len();
        let end = stream.end;
        net.consume(conn, consumed);
        if end && !progress.unfinished {
            net.close(conn, Close::AfterFlush);
        }
    }
}

/// One client's script.
struct Talk {
    client: Box<dyn Client>,
    sent: usize,
    script: Vec<u8>,
    got: Vec<u8>,
    ended: bool,
}

pub(crate) fn random_traffic_is_answered_in_order<W: World>() {
    for seed in 0..12 {
        let mut chance = Chance(seed);
        let limits = Limits {
            clients_per_turn: 1 + chance.below(6),
            accepts_per_turn: 1 + chance.below(4),
            send_size: 1 + chance.below(40_000),
            sends_size: 1 + chance.below(40_000),
            output_mark: chance.below(50_000),
        };
        let mut world = W::make(limits);
        let mut talks: Vec<Talk> = (0..1 + chance.below(12))
            .map(|_| Talk {
                client: world.connect(),
                sent: 0,
                script: script(&mut chance),
                got: Vec::new(),
                ended: false,
            })
            .collect();
        let mut echo = Echo { clients: BTreeMap::new() };
        turns(&mut world, |net, events| {
            echo.turn(net, events, &mut chance);
            talks.iter_mut().for_each(|talk| talk.step(&mut chance));
            talks.iter_mut().all(|talk| talk.client.at_end()) && echo.clients.is_empty()
        });
        for talk in &talks {
            assert!(talk.got == talk.script, "seed {seed}: the reply is the request");
            assert!(!talk.client.was_cut(), "seed {seed}");
        }
        let counters = world.net().counters();
        assert_eq!(counters.opened, counters.closed, "seed {seed}");
        assert_eq!(counters.bytes_in, counters.bytes_out, "seed {seed}");
        assert_eq!(world.net().kept_size(), 0, "seed {seed}: nothing is left of connections that ended");
    }
}

impl Talk {
    fn step(&mut self, chance: &mut Chance) {
        if chance.below(3) > 0 && self.sent < self.script.len() {
            let most = [2, 100, 70_000][chance.below(3)];
            let end = self.script.len().min(self.sent + 1 + chance.below(most));
            self.sent += self.client.write(&self.script[self.sent..end]);
        }
        if self.sent == self.script.len() && !self.ended && chance.below(3) == 0 {
            self.client.end();
            self.ended = true;
        }
        if chance.below(3) > 0 {
            self.got.extend(self.client.read(1 + chance.below(100_000)));
        }
    }
}

fn script(chance: &mut Chance) -> Vec<u8> {
    let mut script = Vec::new();
    for number in 0..chance.below(60) {
        let most = [1, 30, 1000, 60_000][chance.below(4)];
        let size = chance.below(most);
        script.extend(u16::try_from(size).unwrap().to_le_bytes());
        script.extend((0..size).map(|at| (at ^ number).to_le_bytes()[0]));
    }
    script
}
