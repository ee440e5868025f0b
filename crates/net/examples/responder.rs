//! `responder PORT [epoll|uring]`: answers every request with a constant of 100 bytes, over the net of that name.
//! Beside the bare floor responder of the `load` crate it shows what the seam itself costs.

use std::net::SocketAddr;

use net::epoll::{Epoll, TcpOptions};
use net::sockets::Sockets;
use net::uring::{self, Uring};
use net::{Close, Event, Limits, Need};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: responder PORT [epoll|uring]")?.parse()?;
    match std::env::args().nth(2).as_deref() {
        None | Some("epoll") => respond::<Epoll>(port),
        Some("uring") => {
            uring::probe()?;
            respond::<Uring>(port)
        }
        Some(other) => Err(format!("{other} is neither epoll nor uring").into()),
    }
}

fn respond<N: Sockets>(port: u16) -> Result<(), Box<dyn std::error::Error>> {
    let mut net = N::make(Limits::default())?;
    net.listen_tcp(SocketAddr::from(([127, 0, 0, 1], port)), &TcpOptions::default())?;
    let reply = [b"$100\r\n".as_slice(), &[b'x'; 100], b"\r\n"].concat();
    let mut events = Vec::new();
    loop {
        net.wait(None);
        net.poll(&mut events);
        for event in events.drain(..) {
            let Event::Input(conn) = event else { continue };
            let Some(stream) = net.stream(conn, Need::More) else { continue };
            let mut consumed = 0;
            while let Some(size) = request_size(&stream.input[consumed..]) {
                stream.output.extend(&reply);
                consumed += size;
            }
            let end = stream.end;
            net.consume(conn, consumed);
            if end {
                net.close(conn, Close::AfterFlush);
            }
        }
        net.flush();
    }
}

/// The size of the request that `bytes` begins with: `*N\r\n` and N bulks.
fn request_size(bytes: &[u8]) -> Option<usize> {
    let (count, mut at) = number(bytes, 1)?;
    for _ in 0..count {
        let (size, next) = number(bytes, at + 1)?;
        at = next + size + 2;
    }
    if at <= bytes.len() { Some(at) } else { None }
}

/// The number at `at`, and where the next line begins.
fn number(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut number = 0;
    loop {
        match *bytes.get(at)? {
            b'\r' => return Some((number, at + 2)),
            digit => number = number * 10 + usize::from(digit - b'0'),
        }
        at += 1;
    }
}
