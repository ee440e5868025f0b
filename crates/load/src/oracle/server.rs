//! A made-up server: requests in, replies out, each at its time. It speaks as much of Redis' protocol as a load asks for.
//!
//! One worker takes the requests of all connections in the order in which they came, so response times follow from arrivals
//! and services as in a textbook's queue (Lindley: who comes finds the worker busy until the one before is done):
//! ```text
//!   begins = max(arrives, the one before is done), and not inside the freeze
//!   done   = begins + service;   replied = done + delay
//! ```

use std::collections::VecDeque;

use net::Output;
use wire::client::{Collector, Reply};

use crate::chance::Chance;
use crate::engine::keys::DIGITS_COUNT;
use crate::float::nanoseconds;
use crate::protocol::Values;
use crate::workload::Sizes;

/// Between the pieces of a reply that comes in pieces.
const PIECE_GAP_NS: u64 = 1_000;

/// How long the worker takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// No time.
    None,
    /// Always so long.
    Fixed(u64),
    /// Exponential with this mean, in nanoseconds.
    Exponential(f64),
}

/// What is wrong with the answers. "Every third" counts the requests for data, from one, over all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Every so-manieth has none.
    Loses(u64),
    /// Every so-manieth comes twice.
    Repeats(u64),
    /// The last byte of every so-manieth value is another.
    Spoils(u64),
    /// Every so-manieth is an error.
    Refuses(u64),
    /// Each comes in pieces of so many bytes, the next a microsecond later.
    Pieces(usize),
    /// Of the so-manieth reply so many bytes come, and then the connection's end. As many as it has: it is whole.
    Ends {
        /// Which reply.
        at: u64,
        /// Bytes of it that come.
        size: usize,
    },
    /// Instead of replies come bytes that are none.
    Babbles(&'static [u8]),
}

/// All that a made-up server does.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    /// How long its worker takes.
    pub service: Service,
    /// What every reply takes beyond that, without occupying the worker.
    pub delay_ns: u64,
    /// From when to when, counted from the first request for data, nothing is begun.
    pub freeze_ns: Option<(u64, u64)>,
    /// What is wrong with it.
    pub fault: Fault,
    /// Without a request for so long it ends all connections.
    pub patience_ns: Option<u64>,
    /// Sizes of its values.
    pub value_size: usize,
    /// Of its services.
    pub seed: u64,
}

impl Default for Behaviour {
    /// At once, and right.
    fn default() -> Behaviour {
        Behaviour {
            service: Service::None,
            delay_ns: 0,
            freeze_ns: None,
            fault: Fault::None,
            patience_ns: None,
            value_size: 100,
            seed: 1,
        }
    }
}

/// Bytes that are due to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// When.
    pub at_ns: u64,
    /// To whom, as `receive` was told.
    pub connection: usize,
    /// What.
    pub bytes: Vec<u8>,
    /// Nothing follows: the connection is to be ended.
    pub is_last: bool,
}

/// The server.
pub struct Server {
    behaviour: Behaviour,
    chance: Chance,
    values: Values,
    /// When the first request for data came.
    began_ns: Option<u64>,
    heard_ns: u64,
    /// When the worker is through.
    free_ns: u64,
    asked_count: u64,
    connections: Vec<(Collector, Vec<u8>)>,
    due: VecDeque<Due>,
}

impl Server {
    /// Before its first connection.
    pub fn new(behaviour: Behaviour) -> Server {
        Server {
            chance: Chance::new(behaviour.seed),
            values: Values::new(&Sizes::Fixed(behaviour.value_size)),
            behaviour,
            began_ns: None,
            heard_ns: 0,
            free_ns: 0,
            asked_count: 0,
            connections: Vec::new(),
            due: VecDeque::new(),
        }
    }

    /// Bytes from a connection; connections are numbered from zero, and no number is used twice.
    pub fn receive(&mut self, connection: usize, bytes: &[u8], now_ns: u64) {
        if self.connections.len() <= connection {
            self.connections.resize_with(connection + 1, Default::default);
        }
        let (mut collector, mut input) = std::mem::take(&mut self.connections[connection]);
        input.extend_from_slice(bytes);
        let mut at = 0;
        // What is no request is left lying: those who ask here are loads.
        while let Ok((reply, size)) = collector.next(&input[at..]) {
            at += size;
            let Some(Reply::Array(words)) = reply else { break };
            let words: Vec<&[u8]> = words.iter().filter_map(Reply::bytes).collect();
            self.request(connection, &words, now_ns);
        }
        input.drain(..at);
        self.connections[connection] = (collector, input);
    }

    /// What is due by now, oldest first.
    pub fn take(&mut self, now_ns: u64) -> Option<Due> {
        if self.due.front()?.at_ns <= now_ns { self.due.pop_front() } else { None }
    }

    /// When something is due next. None: not before another request.
    pub fn next_ns(&self) -> Option<u64> {
        let hang_up_ns = self.behaviour.patience_ns.filter(|_| self.began_ns.is_some());
        let hang_up_ns = hang_up_ns.map(|patience_ns| self.heard_ns + patience_ns);
        self.due.front().map(|due| due.at_ns).into_iter().chain(hang_up_ns).min()
    }

    /// Whether its patience is at an end: all connections are to be ended.
    pub fn has_had_enough(&self, now_ns: u64) -> bool {
        let patience_ns = self.behaviour.patience_ns.filter(|_| self.began_ns.is_some());
        patience_ns.is_some_and(|patience_ns| now_ns >= self.heard_ns + patience_ns)
    }

    /// Requests for data until now.
    pub fn asked_count(&self) -> u64 {
        self.asked_count
    }

    fn request(&mut self, connection: usize, words: &[&[u8]], now_ns: u64) {
        self.heard_ns = now_ns;
        let reply = match words {
            [b"GET", key] => self.value(key),
            [b"SET", ..] => b"+OK\r\n".to_vec(),
            _ => {
                // What is asked before a load, or beside it: at once, and of no account.
                let bytes = b"-ERR a made-up server does not know that\r\n".to_vec();
                self.due.push_front(Due { at_ns: now_ns, connection, bytes, is_last: false });
                return;
            }
        };
        self.asked_count += 1;
        let at_ns = self.worked(now_ns) + self.behaviour.delay_ns;
        let mut put = |at_ns: u64, bytes: &[u8], is_last: bool| {
            self.due.push_back(Due { at_ns, connection, bytes: bytes.to_vec(), is_last });
        };
        let is_turn = |every: u64| self.asked_count.is_multiple_of(every);
        match self.behaviour.fault {
            Fault::Loses(every) if is_turn(every) => {}
            Fault::Repeats(every) if is_turn(every) => put(at_ns, &reply.repeat(2), false),
            Fault::Spoils(every) if is_turn(every) => {
                let mut reply = reply;
                // Before the line's end.
                let last = reply.len() - 3;
                reply[last] ^= 1;
                put(at_ns, &reply, false);
            }
            Fault::Refuses(every) if is_turn(every) => put(at_ns, b"-ERR made up\r\n", false),
            Fault::Pieces(size) => {
                let mut at_ns = at_ns;
                for piece in reply.chunks(size) {
                    put(at_ns, piece, false);
                    at_ns += PIECE_GAP_NS;
                }
                // Whoever is next is answered behind the last piece.
                self.free_ns = at_ns;
            }
            Fault::Ends { at, size } if self.asked_count == at => {
                put(at_ns, &reply[..size.min(reply.len())], true);
            }
            // Behind the end nothing comes.
            Fault::Ends { at, .. } if self.asked_count > at => {}
            Fault::Babbles(bytes) => put(at_ns, bytes, false),
            _ => put(at_ns, &reply, false),
        }
    }

    /// The worker takes one more; when it is done.
    fn worked(&mut self, now_ns: u64) -> u64 {
        let began_ns = *self.began_ns.get_or_insert(now_ns);
        let mut at_ns = now_ns.max(self.free_ns);
        if let Some((from_ns, until_ns)) = self.behaviour.freeze_ns
            && (from_ns..until_ns).contains(&(at_ns - began_ns))
        {
            at_ns = began_ns + until_ns;
        }
        self.free_ns = at_ns
            + match self.behaviour.service {
                Service::None => 0,
                Service::Fixed(ns) => ns,
                Service::Exponential(mean_ns) => nanoseconds(-self.chance.share().ln() * mean_ns / 1e9),
            };
        self.free_ns
    }

    /// What a load would have set under this key.
    fn value(&self, key: &[u8]) -> Vec<u8> {
        let Some(digits) = key.last_chunk::<DIGITS_COUNT>() else { return b"$-1\r\n".to_vec() };
        let mut value = Output::new();
        self.values.put(digits, self.behaviour.value_size, &mut value);
        let mut reply = format!("${}\r\n", self.behaviour.value_size).into_bytes();
        value.pieces().for_each(|piece| reply.extend_from_slice(piece));
        reply.extend_from_slice(b"\r\n");
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n";

    fn server(service: Service, fault: Fault) -> Server {
        Server::new(Behaviour { service, fault, value_size: 14, ..Behaviour::default() })
    }

    fn all(server: &mut Server) -> Vec<(u64, String)> {
        let due = std::iter::from_fn(|| server.take(u64::MAX));
        due.map(|due| (due.at_ns, String::from_utf8(due.bytes).unwrap())).collect()
    }

    /// The value that a load looks for, whatever it is.
    fn value() -> String {
        let mut server = server(Service::None, Fault::None);
        server.receive(0, GET, 0);
        all(&mut server).remove(0).1
    }

    #[test]
    fn a_worker_is_done_with_one_before_it_begins_the_next() {
        let mut server = server(Service::Fixed(10), Fault::None);
        let value = value();
        assert!(value.starts_with("$14\r\n000000000042") && value.len() == 5 + 14 + 2, "{value}");
        server.receive(0, &[GET, &GET[..9]].concat(), 5);
        server.receive(1, GET, 7);
        server.receive(0, &GET[9..], 100);
        assert_eq!(server.next_ns(), Some(15));
        assert_eq!(server.take(14), None);
        let times: Vec<u64> = all(&mut server).into_iter().map(|(at_ns, _)| at_ns).collect();
        assert_eq!(times, [15, 25, 110]);
    }

    #[test]
    fn nothing_begins_inside_a_freeze() {
        let behaviour = Behaviour { freeze_ns: Some((10, 20)), delay_ns: 3, ..Behaviour::default() };
        let mut server = Server::new(behaviour);
        [100, 109, 110, 119, 120].into_iter().for_each(|now_ns| server.receive(0, GET, now_ns));
        let times: Vec<u64> = all(&mut server).into_iter().map(|(at_ns, _)| at_ns).collect();
        assert_eq!(times, [103, 112, 123, 123, 123], "counted from the first request");
    }

    #[test]
    fn faults_are_what_they_are_called() {
        let value = value();
        let spoilt =
            value.replacen(&value[18..], &format!("{}\r\n", char::from(value.as_bytes()[18] ^ 1)), 1);
        let check = |fault: Fault, want: [&str; 4]| {
            let mut server = server(Service::None, fault);
            (0..4).for_each(|_| server.receive(0, GET, 0));
            let got: Vec<String> = all(&mut server).into_iter().map(|(_, text)| text).collect();
            let want: Vec<&str> = want.into_iter().filter(|text| !text.is_empty()).collect();
            assert_eq!(got, want, "{fault:?}");
        };
        let v = value.as_str();
        check(Fault::None, [v; 4]);
        check(Fault::Loses(3), [v, v, "", v]);
        check(Fault::Repeats(2), [v, &v.repeat(2), v, &v.repeat(2)]);
        check(Fault::Spoils(3), [v, v, &spoilt, v]);
        check(Fault::Refuses(4), [v, v, v, "-ERR made up\r\n"]);
        check(Fault::Ends { at: 2, size: 7 }, [v, &v[..7], "", ""]);
        check(Fault::Babbles(b"x"), ["x"; 4]);
        let mut server = server(Service::None, Fault::Pieces(8));
        server.receive(0, GET, 0);
        server.receive(0, GET, 0);
        let got = all(&mut server);
        assert_eq!(got[..3].iter().map(|(_, text)| text.as_str()).collect::<String>(), v);
        assert!(got.len() == 6 && got.windows(2).all(|pair| pair[0].0 < pair[1].0), "{got:?}");
    }

    #[test]
    fn what_is_asked_beside_a_load_does_not_count() {
        let behaviour = Behaviour { patience_ns: Some(50), ..Behaviour::default() };
        let mut server = Server::new(behaviour);
        server.receive(0, b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n", 9);
        assert!(all(&mut server)[0].1.starts_with("-ERR "));
        assert_eq!((server.asked_count(), server.next_ns(), server.has_had_enough(1000)), (0, None, false));
        server.receive(1, GET, 100);
        assert_eq!(all(&mut server).len(), 1);
        assert_eq!((server.asked_count(), server.next_ns()), (1, Some(150)));
        assert!(!server.has_had_enough(149) && server.has_had_enough(150));
    }
}
