//! A net written down: any [`Net`], and a line of text for each thing that passes between it and its lane.
//!
//! ```text
//! poll
//!   opened 0.1 listener 0 peer mem:0 local mem:0
//!   input 0.1
//! stream 0.1 more 14 "*1\r\n$4\r\nPING\r\n"
//! consume 0.1 14
//! output 0.1 7 "+PONG\r\n"
//! flush
//! ```
//! A connection is `index.generation`. Of the input, `stream` shows only what has not been shown before; the number
//! counts that. `output` lines stand before the `flush` or `close` that hands them over. Bytes are escaped as in a
//! Rust byte string, so that a transcript can be turned back into a test.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::{
    Address, Bell, Close, ConnId, Counters, Event, Handover, Limits, Need, Net, Output, Stream, Wait,
};

/// A [`Net`] that writes down what passes through to another.
#[derive(Debug)]
pub struct Trace<N, W> {
    inner: N,
    sink: Sink<W>,
    lines: BTreeMap<ConnId, Seen>,
}

/// What has been written down of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Of the unconsumed input, bytes.
    input_size: usize,
    /// Of all output ever, bytes.
    output_size: u64,
    /// The lane had it in hand since the last flush.
    touched: bool,
}

#[derive(Debug)]
struct Sink<W> {
    to: W,
    bytes_max: usize,
    error: Option<io::Error>,
}

impl<N: Net, W: Write> Trace<N, W> {
    /// Writes to `to`, with at most `bytes_max` bytes of content in a line; of the rest only the count is told.
    pub fn new(inner: N, to: W, bytes_max: usize) -> Trace<N, W> {
        Trace { inner, sink: Sink { to, bytes_max, error: None }, lines: BTreeMap::new() }
    }

    /// The net below, to add listeners to.
    pub fn inner(&mut self) -> &mut N {
        &mut self.inner
    }

    /// What it writes to.
    pub fn sink(&mut self) -> &mut W {
        &mut self.sink.to
    }

    /// The first error in writing. From there on the transcript has ended, and the net goes on.
    pub fn error(&self) -> Option<&io::Error> {
        self.sink.error.as_ref()
    }

    /// Writes down what was appended to a connection's output since it was last looked at.
    fn write_output(&mut self, conn: ConnId) {
        let Some(seen) = self.lines.get_mut(&conn) else { return };
        let Some(output) = self.inner.output(conn) else { return };
        let fresh =
            usize::try_from(output.written() - seen.output_size).expect("what was just written is in memory");
        seen.output_size = output.written();
        seen.touched = false;
        if fresh == 0 {
            return;
        }
        let mut bytes = Vec::new();
        let mut skip = output.len() - fresh;
        for piece in output.pieces() {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            bytes.extend(
                piece[skipped..].iter().take(self.sink.bytes_max + 1 - bytes.len().min(self.sink.bytes_max)),
            );
            if self.sink.bytes_max < bytes.len() {
                break;
            }
        }
        self.sink.line(&format!("output {}", name(conn)), fresh, &bytes, "");
    }
}

impl<W: Write> Sink<W> {
    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        if self.error.is_none() {
            self.error = self.to.write_fmt(text).err();
        }
    }

    /// A line with content: `size` bytes, of which `bytes` begins with at least as many as may be shown.
    fn line(&mut self, what: &str, size: usize, bytes: &[u8], more: &str) {
        let shown = bytes.len().min(self.bytes_max);
        let cut = if shown < size { "…" } else { "" };
        self.write(format_args!("{what} {size} \"{}\"{cut}{more}\n", bytes[..shown].escape_ascii()));
    }
}

impl<N: Net, W: Write> Net for Trace<N, W> {
    fn poll(&mut self, events: &mut Vec<Event>) {
        let begin = events.len();
        self.inner.poll(events);
        if begin < events.len() {
            self.sink.write(format_args!("poll\n"));
        }
        for event in &events[begin..] {
            match *event {
                Event::Opened { conn, listener, peer, local } => {
                    self.lines.insert(conn, Seen::default());
                    let (peer, local) = (place(peer), place(local));
                    let text =
                        format!("opened {} listener {} peer {peer} local {local}", name(conn), listener.0);
                    self.sink.write(format_args!("  {text}\n"));
                }
                Event::Input(conn) => self.sink.write(format_args!("  input {}\n", name(conn))),
                Event::Writable(conn) => self.sink.write(format_args!("  writable {}\n", name(conn))),
                Event::Closed { conn, why } => {
                    self.lines.remove(&conn);
                    self.sink.write(format_args!("  closed {} {why:?}\n", name(conn)));
                }
            }
        }
    }

    fn stream(&mut self, conn: ConnId, need: Need) -> Option<Stream<'_>> {
        let stream = self.inner.stream(conn, need)?;
        let seen = self.lines.entry(conn).or_default();
        seen.touched = true;
        let fresh = &stream.input[seen.input_size..];
        if !fresh.is_empty() || stream.end {
            let need = if need == Need::More { "more" } else { "rest" };
            let end = if stream.end { " end" } else { "" };
            self.sink.line(&format!("stream {} {need}", name(conn)), fresh.len(), fresh, end);
        }
        seen.input_size = stream.input.len();
        Some(stream)
    }

    fn output(&mut self, conn: ConnId) -> Option<&mut Output> {
        let output = self.inner.output(conn)?;
        self.lines.entry(conn).or_default().touched = true;
        Some(output)
    }

    fn consume(&mut self, conn: ConnId, size: usize) {
        self.inner.consume(conn, size);
        if let Some(seen) = self.lines.get_mut(&conn) {
            seen.input_size = seen.input_size.saturating_sub(size);
        }
        self.sink.write(format_args!("consume {} {size}\n", name(conn)));
    }

    fn close(&mut self, conn: ConnId, how: Close) {
        self.write_output(conn);
        self.inner.close(conn, how);
        self.sink.write(format_args!("close {} {how:?}\n", name(conn)));
    }

    fn flush(&mut self) {
        let touched: Vec<ConnId> =
            self.lines.iter().filter(|(_, seen)| seen.touched).map(|(conn, _)| *conn).collect();
        for conn in &touched {
            self.write_output(*conn);
        }
        self.inner.flush();
        if !touched.is_empty() {
            self.sink.write(format_args!("flush\n"));
        }
    }

    fn give(&mut self, conn: ConnId) -> Option<Handover> {
        let handover = self.inner.give(conn)?;
        self.lines.remove(&conn);
        self.sink.write(format_args!("give {}\n", name(conn)));
        Some(handover)
    }

    fn take(&mut self, handover: Handover) -> Option<ConnId> {
        let conn = self.inner.take(handover);
        match conn {
            Some(conn) => {
                self.lines.insert(conn, Seen::default());
                self.sink.write(format_args!("take {}\n", name(conn)));
            }
            None => self.sink.write(format_args!("take, refused\n")),
        }
        conn
    }

    fn queue(&mut self, conn: ConnId) -> Option<u32> {
        let queue = self.inner.queue(conn);
        self.sink.write(format_args!("queue {} {}\n", name(conn), number(queue)));
        queue
    }

    fn cpu(&mut self, conn: ConnId) -> Option<u32> {
        let cpu = self.inner.cpu(conn);
        self.sink.write(format_args!("cpu {} {}\n", name(conn), number(cpu)));
        cpu
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn kept(&self, conn: ConnId) -> (usize, usize) {
        self.inner.kept(conn)
    }

    fn kept_size(&self) -> usize {
        self.inner.kept_size()
    }
}

impl<N: Net + Wait, W: Write> Wait for Trace<N, W> {
    fn wait(&mut self, timeout_ns: Option<u64>) {
        self.inner.wait(timeout_ns);
    }

    fn has_work(&mut self) -> bool {
        self.inner.has_work()
    }

    fn bell(&self) -> Bell {
        self.inner.bell()
    }
}

fn name(conn: ConnId) -> String {
    format!("{}.{}", conn.index(), conn.generation())
}

fn number(number: Option<u32>) -> String {
    number.map_or_else(|| "unknown".to_owned(), |number| number.to_string())
}

fn place(address: Address) -> String {
    match address {
        Address::Inet(address) => address.to_string(),
        Address::Unix => "unix".to_owned(),
        Address::Mem(number) => format!("mem:{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Mem;

    #[test]
    fn a_transcript_reads_like_what_happened() {
        let mut net = Trace::new(Mem::new(Limits::default()), Vec::new(), 8);
        let (_, port) = net.inner().listen();
        let client = port.connect_by(crate::mem::Way { queue: Some(513), cpu: None });
        let mut events = Vec::new();
        net.poll(&mut events);
        client.write(b"PING\r\nPING\r\n");
        net.poll(&mut events);
        let Some(Event::Input(conn)) = events.last().copied() else { panic!("{events:?}") };
        net.stream(conn, Need::More).unwrap().output.extend(b"+PONG\r\n");
        net.consume(conn, 6);
        net.flush();
        assert_eq!((net.queue(conn), net.cpu(conn)), (Some(513), None));
        net.close(conn, Close::Now);
        net.poll(&mut events);
        let want = "poll\n  opened 0.1 listener 0 peer mem:0 local mem:0\npoll\n  input 0.1\n\
            stream 0.1 more 12 \"PING\\r\\nPI\"…\nconsume 0.1 6\noutput 0.1 7 \"+PONG\\r\\n\"\nflush\n\
            queue 0.1 513\ncpu 0.1 unknown\nclose 0.1 Now\npoll\n  closed 0.1 Asked\n";
        assert_eq!(String::from_utf8_lossy(net.sink()), want);
        assert_eq!(client.read_all(), b"+PONG\r\n");
    }
}
