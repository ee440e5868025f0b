//! What a request costs, in things that can be counted: allocations and system calls. Time is not measured here.

mod counting;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use counting::allocation_count;
use lane::{AutoPin, Board, Lane, Meter, Now, Settings, Setup, mesh};
use net::epoll::{Epoll, Share, TcpOptions};
use net::{Address, Counters, Limits, Net, Wait};
use store::{Config, Recency, Region, Shard};
use wire::route::{PartitionMap, SLOTS, Slot};

struct Still;

impl Meter for Still {
    fn read(&self) -> u64 {
        0
    }
}

const CLIENTS: usize = 50;

struct Server {
    lane: Lane,
    net: Epoll,
    clients: Vec<TcpStream>,
}

impl Server {
    /// One lane over loopback, with all clients connected.
    fn start(auto_pin: AutoPin) -> Server {
        let config = Config {
            partitions: SLOTS,
            databases: 16,
            seed: [1, 2],
            partition_of: |_, key| Slot::of(key).number(),
            beside: lane::Namespaces::default().functions(),
            recency: Recency::Lru,
        };
        let links = mesh(1).into_iter().next().expect("one lane has links");
        let lane = Lane::new(Setup {
            id: 0,
            map: Arc::new(PartitionMap::even(1)),
            board: Arc::new(Board::new(1)),
            links,
            shard: Shard::new(config, Region::new(64 << 20)),
            settings: Settings { auto_pin, ..Settings::default() },
        });
        let mut net = Epoll::new(Limits::default()).expect("epoll");
        let options = TcpOptions { share: Share::Alone, ..TcpOptions::default() };
        let listener = net.listen_tcp(([127, 0, 0, 1], 0).into(), &options).expect("a free port");
        let Address::Inet(address) = net.listener_address(listener) else {
            unreachable!("it listens on TCP")
        };
        let mut server = Server { lane, net, clients: Vec::new() };
        for _ in 0..CLIENTS {
            server.clients.push(TcpStream::connect(address).expect("the server listens"));
        }
        for _ in 0..20 {
            server.turn();
        }
        server
    }

    fn turn(&mut self) {
        self.net.wait(Some(1_000_000));
        self.lane.turn(Now { mono_ns: 1, unix_ms: 1 }, &Still, &mut self.net);
    }

    /// Each client sends `request` and gets `reply`, all in one turn: what the turn did.
    fn round(&mut self, request: &[u8], reply: &[u8]) -> (Counters, u64) {
        for client in &mut self.clients {
            client.write_all(request).expect("the request is short");
        }
        let before = self.net.counters();
        let allocations = allocation_count();
        self.turn();
        let allocations = allocation_count() - allocations;
        let after = self.net.counters();
        let mut got = vec![0; reply.len()];
        for client in &mut self.clients {
            client.read_exact(&mut got).expect("the reply is there after one turn");
            assert_eq!(got, reply);
        }
        let calls = Counters {
            waits: after.waits - before.waits,
            receives: after.receives - before.receives,
            sends: after.sends - before.sends,
            controls: after.controls - before.controls,
            accepts: after.accepts - before.accepts,
            ..Counters::default()
        };
        (calls, allocations)
    }
}

fn command(words: &[&[u8]], times: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..times {
        wire::client::command(&mut bytes, words);
    }
    bytes
}

/// A turn in which fifty clients each sent something costs one wait, and one receive and one send for each of them, and
/// in steady state nothing is allocated: for GET and SET of 100 bytes, one at a time and sixteen.
#[test]
fn a_turn_costs_what_it_must_and_nothing_more() {
    let mut server = Server::start(AutoPin::None);
    let value = [b'v'; 100];
    let get_reply = [b"$100\r\n".as_slice(), &value, b"\r\n"].concat();
    for depth in [1, 16] {
        for (request, reply) in [
            (command(&[b"SET", b"key", &value], depth), b"+OK\r\n".repeat(depth)),
            (command(&[b"GET", b"key"], depth), get_reply.repeat(depth)),
        ] {
            for _ in 0..3 {
                server.round(&request, &reply);
            }
            let (calls, allocations) = server.round(&request, &reply);
            let clients = CLIENTS as u64;
            let want = Counters { waits: 1, receives: clients, sends: clients, ..Counters::default() };
            assert_eq!(calls, want, "system calls at depth {depth}");
            assert_eq!(allocations, 0, "allocations at depth {depth}");
        }
    }
}

/// Auto-pin asks the kernel once about each connection that it lets in, and never again.
#[test]
fn auto_pin_costs_a_call_a_connection_and_none_a_request() {
    let let_in = |auto_pin: AutoPin| Server::start(auto_pin).net.counters().controls;
    let before = let_in(AutoPin::None);
    for auto_pin in [AutoPin::Cpu, AutoPin::Adq] {
        assert_eq!(let_in(auto_pin), before + CLIENTS as u64, "{auto_pin:?}");
        let mut server = Server::start(auto_pin);
        let (request, reply) = (command(&[b"PING"], 1), b"+PONG\r\n");
        for _ in 0..3 {
            server.round(&request, reply);
        }
        let (calls, _) = server.round(&request, reply);
        assert_eq!(calls.controls, 0, "{auto_pin:?}");
        // Over loopback there is no queue, and this lane has no cpu of its own.
        let stats = server.lane.stats();
        assert_eq!((stats.pin_fallbacks, stats.pin_placed), (CLIENTS as u64, 0), "{auto_pin:?}");
    }
}
