//! The bare client: the lower bound under every load over kernel sockets, as [`crate::floor`] is under every server.
//!
//! It sends a constant and counts bytes: with replies of a size that is known beforehand nothing is parsed, no time is taken
//! and nothing recorded. One `epoll_wait` a wake-up, one `recv` and one `send` for each connection that is answered. What the
//! engine costs beyond this is what it does beyond this.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::socket::{self, CONNECTION_EVENTS, Poll};

/// Bytes asked for in one `recv`.
const RECEIVE_SIZE: usize = 64 * 1024;

struct Connection {
    socket: OwnedFd,
    /// Bytes of replies that have not come.
    owed_size: usize,
}

/// Sends `request` `pipeline` times at once over so many connections, again when `reply_size` bytes have come for each, until
/// `requests_count` are answered or a little more.
///
/// # Errors
/// No server, a connection that ends, or one that takes less than a whole batch: then the batch is too large for a constant.
pub fn run(
    server: SocketAddr,
    connections_count: usize,
    pipeline: usize,
    request: &[u8],
    reply_size: usize,
    requests_count: u64,
) -> io::Result<()> {
    let batch = request.repeat(pipeline);
    let mut poll = Poll::new(connections_count)?;
    let (mut connections, mut by_descriptor) = (Vec::new(), Vec::new());
    for index in 0..connections_count {
        let stream = TcpStream::connect(server)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let socket = OwnedFd::from(stream);
        let descriptor = usize::try_from(socket.as_raw_fd()).expect("a descriptor is not negative");
        poll.add(socket.as_raw_fd(), CONNECTION_EVENTS)?;
        by_descriptor.resize(by_descriptor.len().max(descriptor + 1), usize::MAX);
        by_descriptor[descriptor] = index;
        connections.push(Connection { socket, owed_size: 0 });
    }
    for connection in &mut connections {
        send(connection, &batch, pipeline * reply_size)?;
    }
    let (mut input, mut batches_left) = (vec![0; RECEIVE_SIZE], requests_count.div_ceil(count(pipeline)));
    while batches_left > 0 {
        for at in 0..poll.wait(-1)? {
            let connection = &mut connections[by_descriptor[poll.event(at).1]];
            let over = |_| io::Error::new(io::ErrorKind::ConnectionReset, "the server closed a connection");
            let Some(size) = socket::receive(&connection.socket, &mut input).map_err(over)? else { continue };
            connection.owed_size = connection
                .owed_size
                .checked_sub(size)
                .ok_or_else(|| io::Error::other("a reply is larger than it was said to be"))?;
            if connection.owed_size == 0 {
                batches_left = batches_left.saturating_sub(1);
                send(connection, &batch, pipeline * reply_size)?;
            }
        }
    }
    Ok(())
}

fn send(connection: &mut Connection, batch: &[u8], owed_size: usize) -> io::Result<()> {
    connection.owed_size = owed_size;
    match socket::send(&connection.socket, batch) {
        Ok(Some(size)) if size == batch.len() => Ok(()),
        _ => Err(io::Error::other("a connection does not take a whole batch: choose a smaller pipeline")),
    }
}

fn count(pipeline: usize) -> u64 {
    u64::try_from(pipeline).expect("a length fits 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::Floor;
    use std::net::TcpListener;

    #[test]
    fn as_many_are_asked_as_was_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut floor = Floor::new(listener, 100).unwrap();
        let client = std::thread::Builder::new().spawn(move || {
            let request = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
            run(address, 3, 4, request, "$100\r\n".len() + 102, 1000)
        });
        let client = client.unwrap();
        while !client.is_finished() {
            floor.turn(10).unwrap();
        }
        client.join().unwrap().unwrap();
    }
}
