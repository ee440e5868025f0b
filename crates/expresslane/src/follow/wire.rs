//! The connection to a server that is followed: what is read and said there, and what is wrong with it.

#![expect(
    clippy::disallowed_methods,
    reason = "this thread is no lane: it counts how long another server is silent"
)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::{FollowNews, Followed};
use wire::client::command;

use super::Shared;
use crate::files::load::Input;
use crate::news::Teller;

/// How often a primary hears of this replica, and after how long one that is not there is tried again.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// How soon after the last word of a primary it hears how far this server is, and how often it is told the same at first.
const SOON: Duration = Duration::from_millis(50);
const URGENT_COUNT: u32 = 40;
/// The longest line of a greeting, bytes.
const LINE_SIZE_MAX: usize = 4096;
/// Of what a primary has said the log has so many bytes.
const SHOWN_SIZE_MAX: usize = 200;

/// Why a primary is not followed further.
pub(super) enum Trouble {
    /// It is not there.
    Gone(String),
    /// It has sent something that this server can't take.
    Refused(String),
}

pub(super) fn gone(why: &impl ToString) -> Trouble {
    Trouble::Gone(why.to_string())
}

pub(super) fn said_instead(wanted: &str, reply: &str) -> Trouble {
    gone(&format!("it should have said {wanted}, and said: {}", shown(reply.as_bytes())))
}

/// The beginning of something that another server has sent, fit for a log.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = bytes[..bytes.len().min(SHOWN_SIZE_MAX)].escape_ascii().to_string();
    if bytes.len() > SHOWN_SIZE_MAX { format!("{text}…") } else { text }
}

pub(super) fn ask(input: &mut Input<Wire>, words: &[&str]) -> Result<String, Trouble> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut frame = Vec::new();
    command(&mut frame, &words);
    input.from.stream.write_all(&frame).map_err(|error| gone(&error))?;
    line(input)
}

/// The next line without its end. Empty ones are there to keep the connection, and are passed over.
pub(super) fn line(input: &mut Input<Wire>) -> Result<String, Trouble> {
    loop {
        if let Some(end) = input.rest().iter().take(LINE_SIZE_MAX).position(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(&input.rest()[..end]).trim_end_matches('\r').to_owned();
            input.pass(end + 1);
            if text.is_empty() {
                continue;
            }
            return Ok(text);
        }
        if input.rest().len() >= LINE_SIZE_MAX {
            return Err(said_instead("a line", &String::from_utf8_lossy(input.rest())));
        }
        if !input.fetch_more().map_err(|why| gone(&why))? {
            return Err(gone(&"it has closed the connection"));
        }
    }
}

/// What the primary hears each second while it says nothing.
#[derive(Clone, Copy)]
pub(super) enum Beat {
    Nothing,
    /// That this server is still there.
    Newline,
    /// How far it is.
    Ack(u64),
}

/// The connection to the primary.
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    /// For how long it may be silent.
    shared: Arc<Shared>,
    heard: Instant,
    pub(super) beat: Beat,
    beaten: Instant,
    /// What it has heard last.
    acked: Option<u64>,
    /// So many times more it hears the same again soon: a primary takes no notice of a replica while it tidies up after the snapshot.
    urgent_count: u32,
    /// After so long without a word from it the beat is looked at.
    patience: Duration,
    number: u64,
    teller: Teller<FollowNews>,
    /// Bytes read since the snapshot began, and all that it has.
    pub(super) size: u64,
    pub(super) total: Option<u64>,
    /// Nothing more comes.
    pub(super) has_ended: bool,
}

impl Wire {
    pub(super) fn new(
        stream: TcpStream,
        shared: Arc<Shared>,
        number: u64,
        teller: Teller<FollowNews>,
    ) -> Wire {
        let now = Instant::now();
        Wire {
            stream,
            shared,
            heard: now,
            beat: Beat::Nothing,
            beaten: now,
            acked: None,
            urgent_count: 0,
            patience: Duration::ZERO,
            number,
            teller,
            size: 0,
            total: None,
            has_ended: false,
        }
    }

    /// From here on the primary sends what changes, as soon as it hears that this server has the rest.
    pub(super) fn begin_stream(&mut self, offset: u64) -> io::Result<()> {
        (self.beat, self.urgent_count) = (Beat::Ack(offset), URGENT_COUNT);
        self.beat_now()
    }

    /// Whether it should hear something as soon as it is silent.
    fn is_urgent(&self) -> bool {
        self.urgent_count > 0 || matches!(self.beat, Beat::Ack(offset) if self.acked != Some(offset))
    }

    fn set_patience(&mut self) -> io::Result<()> {
        let patience = if self.is_urgent() { SOON } else { BEAT / 2 };
        if self.patience != patience {
            self.stream.set_read_timeout(Some(patience))?;
            self.patience = patience;
        }
        Ok(())
    }

    pub(super) fn beat_now(&mut self) -> io::Result<()> {
        self.beaten = Instant::now();
        let mut frame = Vec::new();
        let followed = match self.beat {
            Beat::Nothing => return Ok(()),
            Beat::Newline => {
                frame.push(b'\n');
                Followed::Read { size: self.size, total: self.total }
            }
            Beat::Ack(offset) => {
                command(&mut frame, &[b"REPLCONF", b"ACK", offset.to_string().as_bytes()]);
                self.acked = Some(offset);
                Followed::Offset(offset)
            }
        };
        // Before the primary hears it: what is acknowledged there is what ROLE and INFO say here.
        self.teller.tell(FollowNews::Of(self.number, followed));
        self.stream.write_all(&frame)
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.set_patience()?;
            let read = self.stream.read(buffer);
            let now = Instant::now();
            let is_silent = read.is_err();
            if now.duration_since(self.beaten) >= BEAT || is_silent && self.is_urgent() {
                self.urgent_count = self.urgent_count.saturating_sub(1);
                self.beat_now().inspect_err(|_| self.has_ended = true)?;
            }
            match read {
                Ok(size) => {
                    (self.heard, self.urgent_count) = (now, 0);
                    self.size += size as u64;
                    self.has_ended |= size == 0;
                    return Ok(size);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let seconds = self.shared.lock().terms.timeout_s.max(1);
                    if now.duration_since(self.heard).as_secs() >= seconds {
                        self.has_ended = true;
                        return Err(io::Error::new(
                            ErrorKind::TimedOut,
                            format!("it has said nothing for {seconds} s"),
                        ));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.has_ended = true;
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_no_more_than_the_beginning_of_what_was_sent() {
        assert_eq!(shown(b"a\r\n\xff"), "a\\r\\n\\xff");
        assert_eq!(shown(&[b'x'; 1000]).chars().count(), SHOWN_SIZE_MAX + 1);
    }
}
