//! What a request costs, in things that can be counted: allocations and system calls. Time is not measured here.

mod counting;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use counting::{allocation_count, free_count};
use lane::{AutoPin, Board, Lane, Meter, Next, Now, Settings, Setup, mesh};
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
        self.lane.turn(Now { mono_ns: 1, unix_ms: 1, us: 0 }, &Still, &mut self.net);
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

/// A client sends `bytes` and goes on reading until it has `reply_size` bytes, or is gone with `None`, and the lane has nothing
/// left to do: the most that a turn has allocated and freed.
fn most_of_a_turn(
    server: &mut Server,
    client: &mut Option<TcpStream>,
    bytes: &[u8],
    reply_size: Option<usize>,
) -> u64 {
    let client_count = server.lane.stats().clients - u64::from(reply_size.is_none());
    let (mut unsent, mut got_size, mut most) = (bytes, 0, 0);
    let mut part = vec![0; 1 << 16];
    if reply_size.is_none() {
        *client = None;
    }
    loop {
        if let Some(client) = client {
            unsent = &unsent[client.write(unsent).unwrap_or_default()..];
            if reply_size != Some(0) {
                got_size += client.read(&mut part).unwrap_or_default();
            }
        }
        let is_through = unsent.is_empty() && got_size == reply_size.unwrap_or_default();
        server.net.wait(Some(1_000_000));
        let before = allocation_count() + free_count();
        let next = server.lane.turn(Now { mono_ns: 1, unix_ms: 1, us: 0 }, &Still, &mut server.net);
        most = most.max(allocation_count() + free_count() - before);
        if is_through && next == Next::Idle && server.lane.stats().clients == client_count {
            return most;
        }
    }
}

/// The most that a turn allocates and frees from when a MULTI of so many commands is ended by `end`, or by its client's going.
/// `before` is said in front of the MULTI, `first` in it, and `by_other` by another client before the end. The reply to `end` has
/// so many bytes, and as many for each command.
fn end_of_multi(count: usize, case: &Multi<'_>) -> u64 {
    let mut server = Server::start(AutoPin::None);
    let (mut client, mut other) = (server.clients.pop(), server.clients.pop());
    for stream in client.iter().chain(&other) {
        stream.set_nonblocking(true).expect("a socket can be told not to wait");
    }
    let queued = b"+QUEUED\r\n".len();
    let mut say = |client: &mut Option<TcpStream>, line: &str, reply_size| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        most_of_a_turn(&mut server, client, &command(&words, 1), Some(reply_size));
    };
    if case.is_watched {
        say(&mut client, "WATCH k", 5);
    }
    say(&mut client, "MULTI", 5);
    if case.is_broken {
        say(&mut client, "GET", b"-ERR wrong number of arguments for 'get' command\r\n".len());
    }
    if case.is_watched {
        say(&mut other, "SET k v", 5);
    }
    most_of_a_turn(&mut server, &mut client, &command(&[b"PING"], count), Some(queued * count));
    let reply_size =
        case.reply.map(|(once, each)| once + count.to_string().len() * usize::from(each > 0) + each * count);
    let end = case.end.map(|end| command(&[end.as_bytes()], 1)).unwrap_or_default();
    most_of_a_turn(&mut server, &mut client, &end, reply_size)
}

/// How a MULTI ends.
struct Multi<'a> {
    /// With this command; `None`: its client goes.
    end: Option<&'a str>,
    /// A key that is watched has changed.
    is_watched: bool,
    /// One of its commands was refused.
    is_broken: bool,
    /// Bytes of the reply, and of them for each command; with those, there is a line with their count.
    reply: Option<(usize, usize)>,
}

/// However many commands a MULTI has queued, they run and go some a turn.
#[test]
fn the_end_of_a_multi_costs_a_turn_no_more_because_it_is_longer() {
    let aborted = b"-EXECABORT Transaction discarded because of previous errors.\r\n".len();
    for (name, end, is_watched, is_broken, reply) in [
        ("run", Some("EXEC"), false, false, Some((b"*\r\n".len(), b"+PONG\r\n".len()))),
        ("discarded", Some("DISCARD"), false, false, Some((5, 0))),
        ("reset", Some("RESET"), false, false, Some((b"+RESET\r\n".len(), 0))),
        ("refused", Some("EXEC"), false, true, Some((aborted, 0))),
        ("in vain", Some("EXEC"), true, false, Some((b"*-1\r\n".len(), 0))),
        ("left", None, false, false, None),
    ] {
        let case = Multi { end, is_watched, is_broken, reply };
        let (short, long) = (end_of_multi(8_000, &case), end_of_multi(32_000, &case));
        assert!(long <= short + short / 4, "{name}: {short}, and {long} for four times as many");
    }
}

/// A client sends a command of many keys, and the lane begins it.
fn begin(server: &mut Server, client: &mut TcpStream, mut bytes: &[u8]) {
    let begun_count = server.lane.stats().transactions;
    while server.lane.stats().transactions == begun_count {
        bytes = &bytes[client.write(bytes).unwrap_or_default()..];
        server.turn();
    }
}

/// What a client leaves behind when it goes.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// The command that it was sending.
    Command,
    /// A long value that it has not read.
    Value,
    /// Many short ones.
    Values,
    /// The same, of which none has been there when it went.
    Awaited,
}

/// Of a client that goes a turn frees no more because its command, or the reply that it has not read, is longer.
#[test]
fn what_a_client_leaves_is_freed_some_a_turn() {
    const MIB: usize = 1 << 20;
    let most = |size: usize, left: Left| {
        let mut server = Server::start(AutoPin::None);
        let mut client = server.clients.pop();
        let stream = client.as_mut().expect("some are connected");
        stream.set_nonblocking(true).expect("a socket can be told not to wait");
        let value_size = if let Left::Values | Left::Awaited = left { 1024 } else { size };
        let set = command(&[b"SET", b"key", &vec![b'v'; value_size]], 1);
        let ask = match left {
            Left::Command => Vec::new(),
            Left::Value => command(&[b"GETDEL", b"key"], 1),
            Left::Values | Left::Awaited => {
                let mut words = vec![b"key".as_slice(); size / value_size + 1];
                words[0] = b"MGET";
                command(&words, 1)
            }
        };
        if ask.is_empty() {
            most_of_a_turn(&mut server, &mut client, &set[..set.len() - 1], Some(0));
        } else {
            most_of_a_turn(&mut server, &mut client, &set, Some(5));
        }
        if let Left::Awaited = left {
            // What it has not read cuts the connection off when it goes.
            most_of_a_turn(&mut server, &mut client, &command(&[b"PING"], 1), Some(0));
            begin(&mut server, client.as_mut().expect("it is still there"), &ask);
        } else if !ask.is_empty() {
            most_of_a_turn(&mut server, &mut client, &ask, Some(0));
        }
        most_of_a_turn(&mut server, &mut client, b"", None)
    };
    for left in [Left::Command, Left::Value, Left::Values, Left::Awaited] {
        let (short, long) = (most(24 * MIB, left), most(96 * MIB, left));
        assert!(long <= short + short / 4, "{left:?}: {short}, and {long} for four times as much");
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
