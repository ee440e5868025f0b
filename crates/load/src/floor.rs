//! The floor responder: one thread, one epoll, and a constant for every complete RESP request.
//!
//! No server that reads requests from kernel sockets and answers them can cost less than this on the same machine,
//! kernel and load, so it is what `bench/peers.py` divides by. It must therefore be as fast as can be: a wake-up
//! costs one `epoll_wait`, and each ready connection one `recv` and one `send`. It parses nothing beyond what it takes
//! to count requests, stores nothing, and keeps out of everything a real server needs (limits, time-outs, TLS).
//!
//! Choices that were measured or read from the kernel rather than guessed:
//! - Edge-triggered registration, once per connection. Level-triggered, `epoll_wait` would poll every socket that it
//!   reported last time once more, only to find it empty.
//! - A `recv` that fills less than the buffer has emptied the socket (epoll(7), question 9), so no second `recv`
//!   asks for `EAGAIN`. A hang-up is announced by `EPOLLRDHUP`; only then the end of the stream is read for.

mod count;

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::socket::{self, CONNECTION_EVENTS, Over, Poll};
pub use count::{Count, Malformed};

/// Bytes asked for in one `recv`: more than redis-benchmark has in flight on one connection at a pipeline of 512.
const RECEIVE_SIZE: usize = 64 * 1024;
/// Bytes of repeated replies kept ready, so that a batch of replies is one contiguous `send`. More replies than fit
/// are sent in several calls.
const REPLIES_SIZE: usize = 256 * 1024;
/// Events fetched by one `epoll_wait`; more stay in the kernel for the next one.
const EVENTS_COUNT: usize = 1024;
/// Largest constant, in bytes: a reply must fit `REPLIES_SIZE` with its framing.
pub const REPLY_SIZE_MAX: usize = 128 * 1024;

/// One connection: how far the request under way is counted, and what the client is still owed.
struct Client {
    socket: OwnedFd,
    count: Count,
    /// Unsent reply bytes. The replies are one periodic string, so a number is all the output there is to keep.
    owed: usize,
    /// Where in the current reply the next unsent byte is.
    offset: usize,
}

/// The responder: owns its listener, its epoll and all its connections. Never to be shared or sped up by threads.
pub struct Floor {
    poll: Poll,
    listener: TcpListener,
    /// By file descriptor: the kernel hands out the lowest free one, so this stays as short as there are clients.
    clients: Vec<Option<Client>>,
    input: Vec<u8>,
    replies: Vec<u8>,
    reply_size: usize,
    /// What it is made slower by, for each request.
    delay: Duration,
}

impl Floor {
    /// A responder on `listener` that answers each request with a bulk string of `payload_size` bytes.
    ///
    /// # Errors
    /// Whatever the kernel says to `epoll_create1`, `epoll_ctl` or to a non-blocking listener; and
    /// [`io::ErrorKind::InvalidInput`] for a payload above [`REPLY_SIZE_MAX`].
    pub fn new(listener: TcpListener, payload_size: usize) -> io::Result<Self> {
        if payload_size > REPLY_SIZE_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a reply of {payload_size} bytes is too large: choose at most {REPLY_SIZE_MAX}"),
            ));
        }
        let reply = bulk(payload_size);
        let replies = reply.repeat(REPLIES_SIZE / reply.len());
        listener.set_nonblocking(true)?;
        let poll = Poll::new(EVENTS_COUNT)?;
        poll.add(listener.as_raw_fd(), libc::EPOLLIN)?;
        Ok(Self {
            poll,
            listener,
            clients: Vec::new(),
            input: vec![0; RECEIVE_SIZE],
            replies,
            reply_size: reply.len(),
            delay: Duration::ZERO,
        })
    }

    /// The same, but slower by so much for each request: a server that is known to be worse, for whoever tests comparisons.
    #[must_use]
    pub fn slowed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Serves until the kernel refuses to.
    ///
    /// # Errors
    /// What [`Floor::turn`] fails with.
    pub fn run(&mut self) -> io::Result<std::convert::Infallible> {
        loop {
            self.turn(-1)?;
        }
    }

    /// Waits for events up to `timeout_ms` (-1: without limit) and answers what is there.
    ///
    /// # Errors
    /// Whatever `epoll_wait`, `accept` or `epoll_ctl` fails with. A connection's own failure ends that connection.
    pub fn turn(&mut self, timeout_ms: i32) -> io::Result<()> {
        for at in 0..self.poll.wait(timeout_ms)? {
            let (flags, index) = self.poll.event(at);
            if usize::try_from(self.listener.as_raw_fd()) == Ok(index) {
                self.accept()?;
            } else if self.serve(index, flags).is_err() {
                self.clients[index] = None;
            }
        }
        Ok(())
    }

    /// Takes every waiting connection.
    fn accept(&mut self) -> io::Result<()> {
        loop {
            let accepted = socket::accept(&self.listener);
            let socket = match accepted {
                Ok(socket) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            socket::set_nodelay(&socket)?;
            self.poll.add(socket.as_raw_fd(), CONNECTION_EVENTS)?;
            let index = usize::try_from(socket.as_raw_fd()).unwrap_or(usize::MAX);
            if self.clients.len() <= index {
                self.clients.resize_with(index + 1, || None);
            }
            self.clients[index] = Some(Client { socket, count: Count::new(), owed: 0, offset: 0 });
        }
    }

    /// Receives, counts and answers for one connection. An error says that the connection is over.
    fn serve(&mut self, index: usize, flags: u32) -> Result<(), Over> {
        let Some(client) = self.clients.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        let hung_up = flags & socket::HANG_UP != 0;
        loop {
            if client.owed > 0 {
                client.send(&self.replies, self.reply_size)?;
            }
            // A client that does not read its replies is not read from: its owed bytes stay a small number, and the
            // edge that tells of room in its socket brings us back here.
            if client.owed > 0 {
                return Ok(());
            }
            let received = socket::receive(&client.socket, &mut self.input)?;
            let Some(size) = received else { return Ok(()) };
            let requests = client.count.feed(&self.input[..size]).map_err(|_| Over)?;
            client.owed = requests * self.reply_size;
            if !self.delay.is_zero() {
                spin(self.delay.saturating_mul(u32::try_from(requests).unwrap_or(u32::MAX)));
            }
            if size < self.input.len() && !hung_up {
                break;
            }
        }
        if client.owed > 0 {
            client.send(&self.replies, self.reply_size)?;
        }
        Ok(())
    }
}

impl Client {
    /// Sends owed bytes until none is left or the socket is full.
    fn send(&mut self, replies: &[u8], reply_size: usize) -> Result<(), Over> {
        while self.owed > 0 {
            let end = (self.offset + self.owed).min(replies.len());
            let part = &replies[self.offset..end];
            let Some(sent) = socket::send(&self.socket, part)? else { return Ok(()) };
            self.owed -= sent;
            self.offset = (self.offset + sent) % reply_size;
        }
        Ok(())
    }
}

/// Works for so long at nothing: a sleep would take the kernel longer than it is asked for.
#[expect(clippy::disallowed_methods, reason = "only a clock tells when it is over")]
fn spin(duration: Duration) {
    let began = Instant::now();
    while began.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// A RESP bulk string of `size` bytes `x`, framing included.
fn bulk(size: usize) -> Vec<u8> {
    let mut reply = format!("${size}\r\n").into_bytes();
    reply.resize(reply.len() + size, b'x');
    reply.extend_from_slice(b"\r\n");
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

    fn floor(payload_size: usize) -> (Floor, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        client.set_nonblocking(true).unwrap();
        (Floor::new(listener, payload_size).unwrap(), client)
    }

    /// Reads what is there. `true` in the second place: the server has closed its side.
    fn drain(client: &mut TcpStream, into: &mut Vec<u8>) -> bool {
        let mut part = [0; 4096];
        loop {
            match client.read(&mut part) {
                Ok(0) => return true,
                Ok(size) => into.extend_from_slice(&part[..size]),
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }

    const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n";

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what takes its time is timed")]
    fn a_slowed_one_takes_that_much_longer_for_each_request() {
        let delay = Duration::from_millis(2);
        let (floor, mut client) = floor(3);
        let mut floor = floor.slowed(delay);
        client.write_all(&GET.repeat(5)).unwrap();
        let (began, mut got) = (Instant::now(), Vec::new());
        while got.len() < 5 * 9 {
            floor.turn(1000).unwrap();
            assert!(!drain(&mut client, &mut got));
        }
        assert!(began.elapsed() >= 5 * delay && got == bulk(3).repeat(5));
    }

    #[test]
    fn every_request_is_answered_once() {
        let (mut floor, mut client) = floor(3);
        client.write_all(&GET.repeat(1000)).unwrap();
        client.write_all(&GET[..GET.len() - 1]).unwrap();
        let mut got = Vec::new();
        while got.len() < 1000 * 9 {
            floor.turn(1000).unwrap();
            assert!(!drain(&mut client, &mut got));
        }
        assert_eq!(got, b"$3\r\nxxx\r\n".repeat(1000));
        client.write_all(b"\n").unwrap();
        floor.turn(1000).unwrap();
        drain(&mut client, &mut got);
        assert_eq!(got.len(), 1001 * 9);
    }

    /// A client that sends without reading is held back by its own socket, and gets every reply once it reads.
    #[test]
    fn a_slow_reader_loses_nothing() {
        let (mut floor, mut client) = floor(2_000);
        let requests = GET.repeat(4000);
        let (mut written, mut got, want) = (0, Vec::new(), bulk(2_000).len() * 4000);
        while got.len() < want {
            while let Ok(size) = client.write(&requests[written..]) {
                written += size;
                if written == requests.len() {
                    break;
                }
            }
            floor.turn(0).unwrap();
            // Reads a little at a time: the responder meets a full socket often, in the middle of replies.
            let mut part = [0; 5000];
            if let Ok(size) = client.read(&mut part) {
                got.extend_from_slice(&part[..size]);
            }
        }
        assert_eq!(got, bulk(2_000).repeat(4000));
    }

    /// The replies of a half-closed client still arrive; then its connection is forgotten.
    #[test]
    fn a_hang_up_behind_requests_is_seen() {
        let (mut floor, mut client) = floor(3);
        client.write_all(&GET.repeat(2)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        while !drain(&mut client, &mut got) {
            floor.turn(1000).unwrap();
        }
        assert_eq!(got, b"$3\r\nxxx\r\n".repeat(2));
        assert!(floor.clients.iter().all(Option::is_none));
    }

    #[test]
    fn nonsense_ends_the_connection() {
        let (mut floor, mut client) = floor(3);
        client.write_all(b"*1\r\n:3\r\n").unwrap();
        let mut got = Vec::new();
        while !drain(&mut client, &mut got) {
            floor.turn(1000).unwrap();
        }
        assert!(got.is_empty());
    }
}
