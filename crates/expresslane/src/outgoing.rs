//! Connections that the server begins itself, for MIGRATE: a thread that carries bytes between them and the control thread.
//!
//! ```text
//! control ── dial, send, hang up ──▶ outgoing ◀──▶ sockets
//!         ◀── what has happened ───     ▲
//!                                       └── dialling: one thread for each connection that is being made
//! ```
//! Looking a name up blocks, and so does connecting here: that is done on threads that end with it. The others never block on a
//! socket. There is no thread before the first connection, for most servers never begin one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, Thread};
use std::time::Duration;

use lane::{Outgoing, Reached};
use net::epoll::Epoll;
use net::{Address, Bell, Close, ConnId, Event, Handover, Limits, Need, Net, Wait};

use crate::control::{self, Level};

/// Connections that are being made at a time. A name server that does not answer keeps a thread for longer than anybody waits for
/// it; one more is refused then.
const DIALLING_MAX: usize = 64;
/// News that the control thread has not taken, each of 64 KiB at most. With more of it nothing is received.
const NEWS_MAX: usize = 64;

/// Enough for the C library's look at a name.
const STACK_SIZE: usize = 512 << 10;

enum Order {
    /// This connection is being made.
    Expect(u64),
    /// Here it is, or what came of it instead.
    Take(u64, Result<TcpStream, Reached>),
    Send(u64, Vec<u8>),
    HangUp(u64),
}

/// The control thread's end.
#[derive(Default)]
pub(crate) struct Connections {
    thread: Option<Carrier>,
    /// What could not even be tried.
    failed: VecDeque<u64>,
}

struct Carrier {
    orders: Sender<Order>,
    news: Receiver<(u64, Reached)>,
    bell: Bell,
    dialling: Arc<AtomicUsize>,
}

impl Connections {
    fn try_dial(&mut self, link: u64, host: &str, port: u16, timeout: Duration) -> Result<(), String> {
        let carrier = match &mut self.thread {
            Some(carrier) => carrier,
            none => none.insert(Carrier::start(thread::current())?),
        };
        if carrier.dialling.fetch_add(1, Ordering::Relaxed) >= DIALLING_MAX {
            carrier.dialling.fetch_sub(1, Ordering::Relaxed);
            return Err(format!("{DIALLING_MAX} connections are being made already"));
        }
        carrier.order(Order::Expect(link));
        let (host, orders, bell) = (host.to_owned(), carrier.orders.clone(), carrier.bell.clone());
        let dialling = Arc::clone(&carrier.dialling);
        let begun =
            thread::Builder::new().name("dialling".to_owned()).stack_size(STACK_SIZE).spawn(move || {
                let stream = connect(&host, port, timeout);
                dialling.fetch_sub(1, Ordering::Relaxed);
                if orders.send(Order::Take(link, stream)).is_ok() {
                    bell.ring();
                }
            });
        begun.map(drop).map_err(|error| {
            carrier.dialling.fetch_sub(1, Ordering::Relaxed);
            error.to_string()
        })
    }
}

impl Outgoing for Connections {
    fn dial(&mut self, link: u64, host: &str, port: u16, timeout: Duration) {
        if let Err(why) = self.try_dial(link, host, port, timeout) {
            control::log(Level::Warn, &format!("no connection to {host}:{port} can be made: {why}"));
            self.failed.push_back(link);
        }
    }

    fn send(&mut self, link: u64, bytes: Vec<u8>) {
        if let Some(carrier) = &self.thread {
            carrier.order(Order::Send(link, bytes));
        }
    }

    fn hang_up(&mut self, link: u64) {
        if let Some(carrier) = &self.thread {
            carrier.order(Order::HangUp(link));
        }
    }

    fn hear(&mut self) -> Option<(u64, Reached)> {
        if let Some(link) = self.failed.pop_front() {
            return Some((link, Reached::Ended));
        }
        self.thread.as_ref()?.news.try_recv().ok()
    }
}

impl Carrier {
    /// `control` is woken when there is something to hear.
    fn start(control: Thread) -> Result<Carrier, String> {
        let net = Epoll::new(Limits::default()).map_err(|error| error.to_string())?;
        let (orders, to_carry) = channel();
        let (told, news) = sync_channel(NEWS_MAX);
        let bell = net.bell();
        let carrying = Carrying {
            net,
            news: told,
            control,
            expected: BTreeSet::new(),
            conns: BTreeMap::new(),
            links: BTreeMap::new(),
        };
        thread::Builder::new()
            .name("outgoing".to_owned())
            .stack_size(STACK_SIZE)
            .spawn(move || carrying.carry(&to_carry))
            .map_err(|error| error.to_string())?;
        Ok(Carrier { orders, news, bell, dialling: Arc::default() })
    }

    fn order(&self, order: Order) {
        self.orders.send(order).expect("the thread of outgoing connections ends with the process");
        self.bell.ring();
    }
}

/// What the thread has.
struct Carrying {
    net: Epoll,
    news: SyncSender<(u64, Reached)>,
    control: Thread,
    /// Those that are being made.
    expected: BTreeSet<u64>,
    conns: BTreeMap<u64, Carried>,
    links: BTreeMap<ConnId, u64>,
}

struct Carried {
    conn: ConnId,
    /// Bytes that it was told have left.
    told_size: u64,
}

impl Carrying {
    /// Ends when the control thread does, which is never.
    fn carry(mut self, orders: &Receiver<Order>) {
        let mut events = Vec::new();
        loop {
            self.net.wait(None);
            self.net.poll(&mut events);
            for event in events.drain(..) {
                match event {
                    Event::Input(conn) => self.receive(conn),
                    Event::Closed { conn, .. } => self.end(conn),
                    Event::Opened { .. } | Event::Writable(_) => {}
                }
            }
            while let Ok(order) = orders.try_recv() {
                self.obey(order);
            }
            self.net.flush();
            self.tell_sent();
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Expect(link) => {
                self.expected.insert(link);
            }
            Order::Take(link, stream) => {
                if self.expected.remove(&link) {
                    let handover = stream.and_then(|stream| handover(stream).map_err(|_| Reached::Ended));
                    let conn = match handover.map(|handover| self.net.take(handover)) {
                        Ok(Some(conn)) => conn,
                        Ok(None) => return self.tell(link, Reached::Ended),
                        Err(reached) => return self.tell(link, reached),
                    };
                    self.conns.insert(link, Carried { conn, told_size: 0 });
                    self.links.insert(conn, link);
                    self.tell(link, Reached::Connected);
                }
            }
            Order::Send(link, bytes) => {
                let conn = self.conns.get(&link).map(|carried| carried.conn);
                if let Some(output) = conn.and_then(|conn| self.net.output(conn)) {
                    output.extend(&bytes);
                }
            }
            Order::HangUp(link) => {
                self.expected.remove(&link);
                if let Some(carried) = self.conns.remove(&link) {
                    self.links.remove(&carried.conn);
                    self.net.close(carried.conn, Close::Now);
                }
            }
        }
    }

    fn receive(&mut self, conn: ConnId) {
        let Some(&link) = self.links.get(&conn) else { return };
        let Some(stream) = self.net.stream(conn, Need::More) else { return };
        let (bytes, end) = (stream.input.to_vec(), stream.end);
        self.net.consume(conn, bytes.len());
        if !bytes.is_empty() {
            self.tell(link, Reached::Received(bytes));
        }
        if end {
            self.end(conn);
            self.net.close(conn, Close::Now);
        }
    }

    /// A connection is no more; said once.
    fn end(&mut self, conn: ConnId) {
        if let Some(link) = self.links.remove(&conn) {
            self.conns.remove(&link);
            self.tell(link, Reached::Ended);
        }
    }

    fn tell_sent(&mut self) {
        let mut sent = Vec::new();
        for (&link, carried) in &mut self.conns {
            let Some(output) = self.net.output(carried.conn) else { continue };
            let left = output.written() - output.len() as u64;
            let news = left - std::mem::replace(&mut carried.told_size, left);
            if news > 0 {
                sent.push((link, Reached::Sent(usize::try_from(news).expect("no more than was sent"))));
            }
        }
        sent.into_iter().for_each(|(link, reached)| self.tell(link, reached));
    }

    fn tell(&self, link: u64, reached: Reached) {
        self.control.unpark();
        if self.news.send((link, reached)).is_ok() {
            self.control.unpark();
        }
    }
}

fn handover(stream: TcpStream) -> io::Result<Handover> {
    let (peer, local) = (Address::Inet(stream.peer_addr()?), Address::Inet(stream.local_addr()?));
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(Handover::connected(OwnedFd::from(stream), peer, local))
}

/// Tries all addresses of a host, one after the other. By the time that the second has its turn the caller may have hung up.
fn connect(host: &str, port: u16, timeout: Duration) -> Result<TcpStream, Reached> {
    let mut failure = Reached::Ended;
    for address in (host, port).to_socket_addrs().map_err(|_| Reached::Ended)? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => failure = Reached::Refused,
            Err(_) => failure = Reached::Ended,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// What happens next, which wakes this thread as it does the control's.
    fn next(connections: &mut Connections) -> (u64, Reached) {
        for _ in 0..100 {
            if let Some(news) = connections.hear() {
                return news;
            }
            thread::park_timeout(PATIENCE / 100);
        }
        panic!("nothing has happened");
    }

    #[test]
    fn bytes_go_both_ways_until_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut connections = Connections::default();
        connections.dial(7, "localhost", port, PATIENCE);
        let (mut peer, _) = listener.accept().expect("a client");
        assert_eq!(next(&mut connections), (7, Reached::Connected));
        let sent = vec![b'x'; 300_000];
        connections.send(7, sent.clone());
        let mut got = vec![0; sent.len()];
        peer.read_exact(&mut got).expect("bytes");
        assert!(got == sent);
        let mut left = sent.len();
        while left > 0 {
            let (7, Reached::Sent(size)) = next(&mut connections) else { panic!("bytes have left") };
            left -= size;
        }
        peer.write_all(b"+OK\r\n").expect("it reads");
        assert_eq!(next(&mut connections), (7, Reached::Received(b"+OK\r\n".to_vec())));
        drop(peer);
        assert_eq!(next(&mut connections), (7, Reached::Ended));
    }

    #[test]
    fn what_cannot_be_made_has_ended_and_what_is_hung_up_is_not_heard_of() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut connections = Connections::default();
        connections.dial(1, "127.0.0.1", port, PATIENCE);
        assert_eq!(next(&mut connections), (1, Reached::Connected));
        let (mut peer, _) = listener.accept().expect("a client");
        drop(listener);
        connections.hang_up(1);
        assert_eq!(peer.read(&mut [0]).expect("an end"), 0);
        for (link, host, want) in
            [(2, "127.0.0.1", Reached::Refused), (3, "no.such.host.invalid", Reached::Ended)]
        {
            connections.dial(link, host, port, PATIENCE);
            assert_eq!(next(&mut connections), (link, want));
        }
    }
}
