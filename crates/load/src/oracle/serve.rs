//! A made-up server over a net: over sockets it is what a load meets live.

use std::collections::BTreeMap;

use net::{Close, ConnId, Event, Need, Net};

use super::server::{Behaviour, Server};

/// A server and its connections.
pub struct Serving {
    server: Server,
    /// By number, in the order in which they came. None: it has gone.
    conns: Vec<Option<ConnId>>,
    numbers: BTreeMap<ConnId, usize>,
    /// Connections with input that is not received yet.
    ready: Vec<ConnId>,
    /// A slow reader receives once from each in so long.
    reads_every_ns: u64,
    reads_ns: u64,
    events: Vec<Event>,
}

impl Serving {
    /// Receives from each connection at most once in so many nanoseconds (0: whenever something is there).
    pub fn new(behaviour: Behaviour, reads_every_ns: u64) -> Serving {
        Serving {
            server: Server::new(behaviour),
            conns: Vec::new(),
            numbers: BTreeMap::new(),
            ready: Vec::new(),
            reads_every_ns,
            reads_ns: 0,
            events: Vec::new(),
        }
    }

    /// Takes in what has come, sends what is due; when it must run next if nothing arrives.
    pub fn turn<N: Net>(&mut self, now_ns: u64, net: &mut N) -> Option<u64> {
        let mut events = std::mem::take(&mut self.events);
        net.poll(&mut events);
        for event in events.drain(..) {
            match event {
                Event::Opened { conn, .. } => {
                    self.numbers.insert(conn, self.conns.len());
                    self.conns.push(Some(conn));
                }
                Event::Input(conn) => self.ready.push(conn),
                Event::Closed { conn, .. } => {
                    if let Some(number) = self.numbers.remove(&conn) {
                        self.conns[number] = None;
                    }
                }
                Event::Writable(_) => {}
            }
        }
        self.events = events;
        if now_ns >= self.reads_ns {
            for conn in std::mem::take(&mut self.ready) {
                self.receive(conn, now_ns, net);
                self.reads_ns = now_ns + self.reads_every_ns;
            }
        }
        while let Some(due) = self.server.take(now_ns) {
            let Some(conn) = self.conns[due.connection] else { continue };
            if let Some(output) = net.output(conn) {
                output.extend(&due.bytes);
            }
            if due.is_last {
                net.close(conn, Close::AfterFlush);
            }
        }
        if self.server.has_had_enough(now_ns) {
            self.conns.iter().flatten().for_each(|&conn| net.close(conn, Close::AfterFlush));
        }
        net.flush();
        let reads_ns = (!self.ready.is_empty()).then_some(self.reads_ns);
        self.server.next_ns().into_iter().chain(reads_ns).min()
    }

    fn receive<N: Net>(&mut self, conn: ConnId, now_ns: u64, net: &mut N) {
        let Some(&number) = self.numbers.get(&conn) else { return };
        let Some(stream) = net.stream(conn, Need::More) else { return };
        let (size, end) = (stream.input.len(), stream.end);
        self.server.receive(number, stream.input, now_ns);
        net.consume(conn, size);
        if end {
            net.close(conn, Close::AfterFlush);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::{Fault, Service};
    use super::*;
    use net::Limits;
    use net::mem::Mem;

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n";
    const REPLY: &[u8] = b"$12\r\n000000000042\r\n";

    #[test]
    fn it_answers_when_it_is_due() {
        let mut net = Mem::new(Limits::default());
        let (_, port) = net.listen();
        let behaviour = Behaviour { service: Service::Fixed(10), value_size: 12, ..Behaviour::default() };
        let mut serving = Serving::new(behaviour, 0);
        let (one, two) = (port.connect(), port.connect());
        one.write(GET);
        two.write(GET);
        // The first turn lets both in.
        serving.turn(5, &mut net);
        assert_eq!(serving.turn(5, &mut net), Some(15));
        assert!(one.read_all().is_empty());
        assert_eq!(serving.turn(15, &mut net), Some(25));
        assert_eq!((one.read_all(), two.read_all()), (REPLY.to_vec(), Vec::new()));
        // Whoever is gone is owed nothing.
        drop(two);
        serving.turn(16, &mut net);
        assert_eq!(serving.turn(25, &mut net), None);
        one.write(GET);
        assert_eq!(serving.turn(30, &mut net), Some(40));
    }

    #[test]
    fn a_slow_reader_leaves_what_has_come() {
        let mut net = Mem::new(Limits::default());
        let (_, port) = net.listen();
        let mut serving = Serving::new(Behaviour { value_size: 12, ..Behaviour::default() }, 100);
        let client = port.connect();
        client.write(GET);
        serving.turn(0, &mut net);
        serving.turn(0, &mut net);
        assert_eq!(client.read_all(), REPLY);
        client.write(GET);
        assert_eq!(serving.turn(50, &mut net), Some(100));
        assert!(client.read_all().is_empty());
        serving.turn(100, &mut net);
        assert_eq!(client.read_all(), REPLY);
    }

    #[test]
    fn it_ends_connections_as_it_was_told() {
        let fault = Fault::Ends { at: 1, size: 4 };
        for (fault, patience_ns, want) in [(fault, None, &REPLY[..4]), (Fault::Loses(1), Some(9), b"")] {
            let mut net = Mem::new(Limits::default());
            let (_, port) = net.listen();
            let behaviour = Behaviour { fault, patience_ns, value_size: 12, ..Behaviour::default() };
            let mut serving = Serving::new(behaviour, 0);
            let client = port.connect();
            client.write(GET);
            for now_ns in [0, 0, 9] {
                serving.turn(now_ns, &mut net);
            }
            assert_eq!((client.read_all(), client.at_end()), (want.to_vec(), true));
        }
    }
}
