//! Connections of this program's own to its lanes: what comes from files, and from a server that is followed, goes over them as a
//! client's commands do.
//!
//! Whatever a lane answers is read by another thread meanwhile, so that neither side waits for the other.

use std::io::{self, BufWriter, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use net::{Address, Handover};
use wire::client::{Counter, Element, Outcome, command};

/// Bytes that are written or read at a time.
const PIECE_SIZE: usize = 256 * 1024;

/// Brings the other end of a connection to a lane.
pub(crate) type Usher = dyn Fn(u16, Handover) + Send + Sync;

/// A connection to a lane. It ends with this, and with it a transaction that was cut off.
pub(crate) struct Link {
    output: BufWriter<UnixStream>,
    /// Commands that were sent.
    sent: u64,
    /// What is there already is not replaced.
    pub(crate) is_only_new: bool,
    answers: Arc<Answers>,
}

/// What a lane has answered.
#[derive(Default)]
struct Answers {
    seen: Mutex<Seen>,
    changed: Condvar,
    /// `seen` has an error: a look at it that costs nothing.
    has_failed: AtomicBool,
}

#[derive(Default)]
struct Seen {
    count: u64,
    /// The first error.
    error: Option<String>,
    /// Nothing more comes.
    is_over: bool,
}

impl Answers {
    fn note(&self, count: u64, error: Option<String>, is_over: bool) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.count += count;
        seen.is_over |= is_over;
        if seen.error.is_none() && error.is_some() {
            seen.error = error;
            self.has_failed.store(true, Ordering::Release);
        }
        self.changed.notify_all();
    }

    /// Waits until nothing more comes.
    fn wait_for_end(&self) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(seen, |seen| !seen.is_over));
    }

    /// Waits until so many answers are there, or there is an error.
    fn wait_for(&self, count: u64) -> Result<(), String> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*seen {
                Seen { error: Some(error), .. } => return Err(error.clone()),
                Seen { count: there, .. } if count <= *there => return Ok(()),
                Seen { is_over: true, .. } => return Err("the lane has closed the connection".to_owned()),
                _ => seen = self.changed.wait(seen).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Link {
    /// # Errors
    /// A sentence.
    pub(crate) fn connect(lane: u16, is_only_new: bool, usher: &Usher) -> Result<Link, String> {
        let failed = |error: io::Error| format!("no connection to lane {lane}: {error}");
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        theirs.set_nonblocking(true).map_err(failed)?;
        let handover = Handover::connected(theirs.into(), Address::Unix, Address::Unix);
        usher(lane, handover);
        let answers = Arc::new(Answers::default());
        let (input, heard) = (ours.try_clone().map_err(failed)?, Arc::clone(&answers));
        thread::Builder::new()
            .name(format!("answers {lane}"))
            .spawn(move || hear(input, is_only_new, &heard))
            .map_err(failed)?;
        Ok(Link { output: BufWriter::with_capacity(PIECE_SIZE, ours), sent: 0, is_only_new, answers })
    }

    /// Bytes of a command.
    ///
    /// # Errors
    /// What the lane has refused, of this or of what was sent before.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.answers.has_failed.load(Ordering::Acquire) {
            return self.answers.wait_for(0);
        }
        let written = self.output.write_all(bytes);
        // Why the lane has closed it says more than that it has.
        written.map_err(|error| self.answers.wait_for(u64::MAX).err().unwrap_or_else(|| error.to_string()))
    }

    /// A whole command as it is.
    ///
    /// # Errors
    /// As [`Link::write`].
    pub(crate) fn forward(&mut self, frame: &[u8]) -> Result<(), String> {
        self.sent += 1;
        self.write(frame)
    }

    /// A command of these words.
    ///
    /// # Errors
    /// As [`Link::write`].
    pub(crate) fn send(&mut self, args: &[&[u8]]) -> Result<(), String> {
        let mut bytes = Vec::new();
        command(&mut bytes, args);
        self.forward(&bytes)
    }

    /// Sets a key, which ends at that time, Unix milliseconds.
    ///
    /// # Errors
    /// As [`Link::write`].
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8], expires_ms: Option<i64>) -> Result<(), String> {
        let end = expires_ms.map(|end_ms| end_ms.max(1).to_string());
        match &end {
            None if self.is_only_new => self.send(&[b"SET", key, value, b"NX"]),
            Some(end) if self.is_only_new => self.send(&[b"SET", key, value, b"NX", b"PXAT", end.as_bytes()]),
            None => self.send(&[b"SET", key, value]),
            Some(end) => self.send(&[b"SET", key, value, b"PXAT", end.as_bytes()]),
        }
    }

    /// [`Link::set`] of a value whose bytes are written afterwards, up to [`Link::end_set`].
    ///
    /// # Errors
    /// As [`Link::write`].
    pub(crate) fn begin_set(&mut self, key: &[u8], size: u64, expires_ms: Option<i64>) -> Result<(), String> {
        let count = 3 + 2 * usize::from(expires_ms.is_some()) + usize::from(self.is_only_new);
        let head = format!("*{count}\r\n$3\r\nSET\r\n${}\r\n", key.len());
        self.sent += 1;
        self.write(head.as_bytes())?;
        self.write(key)?;
        self.write(format!("\r\n${size}\r\n").as_bytes())
    }

    /// # Errors
    /// As [`Link::write`].
    pub(crate) fn end_set(&mut self, expires_ms: Option<i64>) -> Result<(), String> {
        let mut end = b"\r\n".to_vec();
        if self.is_only_new {
            end.extend(b"$2\r\nNX\r\n");
        }
        if let Some(end_ms) = expires_ms {
            let text = end_ms.max(1).to_string();
            end.extend(format!("$4\r\nPXAT\r\n${}\r\n{text}\r\n", text.len()).into_bytes());
        }
        self.write(&end)
    }

    /// Has what was written go to the lane.
    ///
    /// # Errors
    /// As [`Link::write`].
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        self.write(&[])?;
        self.output
            .flush()
            .map_err(|error| self.answers.wait_for(u64::MAX).err().unwrap_or(error.to_string()))
    }

    /// Waits until all that was sent is done.
    ///
    /// # Errors
    /// As [`Link::write`].
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        self.flush()?;
        self.answers.wait_for(self.sent)
    }
}

impl Link {
    /// Ends the connection, and waits until the lane has done what has come whole over it: afterwards nothing of it comes late.
    pub(crate) fn close(mut self) {
        let _ = self.output.flush();
        let _ = self.output.get_ref().shutdown(Shutdown::Write);
        self.answers.wait_for_end();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The thread that reads has the socket, too.
        let _ = self.output.get_ref().shutdown(Shutdown::Both);
    }
}

/// Takes a lane's answers until it closes the connection.
fn hear(mut input: UnixStream, is_only_new: bool, answers: &Answers) {
    let (mut counter, mut buffer, mut held) = (Counter::default(), vec![0; PIECE_SIZE], Vec::new());
    loop {
        let size = match input.read(&mut buffer) {
            Ok(0) => return answers.note(0, None, true),
            Ok(size) => size,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return answers.note(0, Some(error.to_string()), true),
        };
        held.extend_from_slice(&buffer[..size]);
        let (mut at, mut count, mut error) = (0, 0, None);
        loop {
            let mut see = |element: &Element<'_>| {
                if let Element::Error(text) = element {
                    error.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
                }
            };
            match counter.next_seen(&held[at..], &mut see) {
                Ok((outcome, size)) => {
                    at += size;
                    match outcome {
                        None => break,
                        Some(Outcome::Null) if is_only_new => {
                            error.get_or_insert_with(|| "a key is there already".to_owned());
                        }
                        Some(_) => {}
                    }
                    count += 1;
                }
                Err(wrong) => {
                    return answers.note(count, Some(format!("an answer is none: {wrong:?}")), true);
                }
            }
        }
        held.drain(..at);
        answers.note(count, error, false);
    }
}
