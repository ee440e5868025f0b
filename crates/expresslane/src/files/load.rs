//! Reads what was saved into lanes that are empty, as their client: each key goes to the lane that owns it, over a connection of that
//! lane's, and commands of the log go over one, in their order.
//!
//! Whatever a lane answers is read by another thread meanwhile, so that neither side waits for the other; the first error ends the load.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use lane::{Beside, FileNews, Loaded, Source};
use net::{Address, Handover};
use wire::client::{Counter, Element, Outcome, command};
use wire::rdb::read::{Item, Reader, Value};
use wire::route::PartitionMap;

use super::{Manifest, Place, Teller, said};
use crate::control::{self, Level};

/// Bytes that are read at a time.
const PIECE_SIZE: usize = 256 * 1024;
/// The longest line that says how many arguments or bytes follow.
const LINE_SIZE_MAX: usize = 64;

/// Who owns what.
#[derive(Clone)]
pub(crate) struct Lanes(pub(crate) Arc<PartitionMap>);

/// Empties Redis' databases and loads what there is.
pub(super) fn load(
    place: &Place,
    source: Source,
    beside: Beside,
    lanes: &Lanes,
    teller: &Teller,
) -> Result<Loaded, String> {
    let parts = match source {
        Source::Snapshot => vec![place.snapshot_path()],
        Source::Log => {
            let manifest =
                Manifest::read(place)?.ok_or("there is no log to load: its manifest is missing")?;
            let parts = manifest.base.into_iter().chain(manifest.incr);
            parts.map(|part| place.log_path().join(part.name)).collect()
        }
    };
    // Nothing is emptied for files that can't be opened.
    let files: Result<Vec<File>, String> =
        parts.iter().map(|path| File::open(path).map_err(|error| said(path, &error))).collect();
    let mut target = Target::connect(lanes, beside == Beside::Kept, teller)?;
    // Of the log a later command may be about a key that has ended since, and lanes let none end until all of it is there.
    target.drops_ended = source == Source::Snapshot;
    if beside == Beside::Emptied {
        target.first().send(&[b"FUNCTION", b"FLUSH"])?;
        target.first().send(&[b"FLUSHALL"])?;
        target.first().settle()?;
    }
    let last = parts.len() - 1;
    for (index, (path, file)) in parts.iter().zip(files?).enumerate() {
        let may_be_cut = index == last && place.loads_truncated;
        target.read(path, file, may_be_cut).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    target.end().map_err(|why| format!("a lane refused what was loaded: {why}"))
}

/// Connections to all lanes.
struct Target {
    links: Vec<Link>,
    map: Arc<PartitionMap>,
    db: u64,
    loaded: Loaded,
    drops_ended: bool,
    now_ms: i64,
}

impl Target {
    #[expect(clippy::disallowed_methods, reason = "keys whose time has come are not loaded")]
    fn connect(lanes: &Lanes, is_only_new: bool, teller: &Teller) -> Result<Target, String> {
        let map = Arc::clone(&lanes.0);
        let links: Result<Vec<Link>, String> =
            (0..map.lanes()).map(|lane| Link::connect(lane, is_only_new, teller)).collect();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Ok(Target { links: links?, map, db: 0, loaded: Loaded::default(), drops_ended: true, now_ms })
    }

    fn first(&mut self) -> &mut Link {
        &mut self.links[0]
    }

    /// Reads a file: a snapshot, commands, or a snapshot and commands behind it.
    fn read(&mut self, path: &Path, file: File, may_be_cut: bool) -> Result<(), String> {
        let mut input = Input { file, held: Vec::new(), at: 0 };
        input.fetch(5)?;
        if input.rest().starts_with(b"REDIS") {
            self.read_snapshot(&mut input)?;
            // What follows may be about what has just been sent elsewhere.
            self.links.iter_mut().try_for_each(Link::settle)?;
        }
        self.read_commands(&mut input, path, may_be_cut)
    }

    fn read_snapshot(&mut self, input: &mut Input) -> Result<(), String> {
        let mut reader = Reader::default();
        loop {
            let Some((item, size)) = reader.next(input.rest()).map_err(|refusal| refusal.to_string())? else {
                if !input.fetch_more()? {
                    return Err("it ends too early".to_owned());
                }
                continue;
            };
            let mut follows = None;
            match item {
                Item::Nothing => {}
                Item::End => {
                    input.at += size;
                    return Ok(());
                }
                Item::Database(db) => {
                    if std::mem::replace(&mut self.db, db) != db {
                        let db = db.to_string();
                        self.links.iter_mut().try_for_each(|link| link.send(&[b"SELECT", db.as_bytes()]))?;
                    }
                }
                Item::Library(code) => {
                    let code = code.bytes().map_err(|refusal| refusal.to_string())?;
                    let link = &mut self.links[0];
                    match link.is_only_new {
                        true => link.send(&[b"FUNCTION", b"LOAD", &code])?,
                        false => link.send(&[b"FUNCTION", b"LOAD", b"REPLACE", &code])?,
                    }
                }
                Item::Entry { key, value, expires_ms } => {
                    let key = key.bytes().map_err(|refusal| refusal.to_string())?;
                    let is_over = self.drops_ended && expires_ms.is_some_and(|end_ms| end_ms <= self.now_ms);
                    let link = &mut self.links[usize::from(self.map.owner_of(&key).0)];
                    let counted = if is_over { &mut self.loaded.expired } else { &mut self.loaded.keys };
                    *counted += 1;
                    match value {
                        Value::Whole(value) if !is_over => {
                            let value = value.bytes().map_err(|refusal| refusal.to_string())?;
                            link.set(&key, &value, expires_ms)?;
                        }
                        Value::Whole(_) => {}
                        Value::Follows(size) => follows = Some((key.into_owned(), size, is_over, expires_ms)),
                    }
                }
            }
            input.at += size;
            if let Some((key, size, is_over, expires_ms)) = follows {
                let link = &mut self.links[usize::from(self.map.owner_of(&key).0)];
                if !is_over {
                    link.begin_set(&key, size, expires_ms)?;
                }
                let mut left = size;
                while left > 0 {
                    if input.rest().is_empty() && !input.fetch_more()? {
                        return Err("it ends too early".to_owned());
                    }
                    let piece = input.rest();
                    let piece = &piece[..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
                    reader.pass(piece);
                    if !is_over {
                        link.write(piece)?;
                    }
                    left -= piece.len() as u64;
                    input.at += piece.len();
                }
                if !is_over {
                    link.end_set(expires_ms)?;
                }
            }
        }
    }

    /// Commands as a client sends them, each of them whole, and remarks.
    fn read_commands(&mut self, input: &mut Input, path: &Path, may_be_cut: bool) -> Result<(), String> {
        // The stream begins in no database, and says so before its first command.
        if std::mem::take(&mut self.db) != 0 {
            self.first().send(&[b"SELECT", b"0"])?;
        }
        loop {
            let size = match frame_size(input.rest())? {
                Frame::Command(size) => {
                    let frame = &input.held[input.at..input.at + size];
                    if !is_between_servers(frame) {
                        self.links[0].forward(frame)?;
                    }
                    size
                }
                Frame::Remark(size) => size,
                Frame::More => {
                    if input.fetch_more()? {
                        continue;
                    }
                    let left = input.rest().len();
                    if left == 0 {
                        return Ok(());
                    }
                    if !may_be_cut {
                        return Err(format!("its last command is cut off: {left} bytes"));
                    }
                    let text = format!(
                        "{}: the last command is cut off, its {left} bytes are left out",
                        path.display()
                    );
                    control::log(Level::Warn, &text);
                    return Ok(());
                }
            };
            input.at += size;
        }
    }

    /// Whether lanes have taken it all.
    fn end(self) -> Result<Loaded, String> {
        for link in self.links {
            link.end()?;
        }
        Ok(self.loaded)
    }
}

/// A file, as far as it has been read.
struct Input {
    file: File,
    held: Vec<u8>,
    at: usize,
}

impl Input {
    fn rest(&self) -> &[u8] {
        &self.held[self.at..]
    }

    /// Reads on; false at the end.
    fn fetch_more(&mut self) -> Result<bool, String> {
        self.held.drain(..self.at);
        self.at = 0;
        let before = self.held.len();
        // What is read in one piece grows with what has come: a long string does not take as many reads as it has pieces.
        let piece_size = PIECE_SIZE.max(before);
        self.held.resize(before + piece_size, 0);
        let read = loop {
            match self.file.read(&mut self.held[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let size = read.map_err(|error| error.to_string())?;
        self.held.truncate(before + size);
        Ok(size > 0)
    }

    fn fetch(&mut self, size: usize) -> Result<(), String> {
        while self.rest().len() < size && self.fetch_more()? {}
        Ok(())
    }
}

/// What stands at the beginning of some input.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    /// A whole command of so many bytes.
    Command(usize),
    /// A line that is none (`#TS:…`).
    Remark(usize),
    /// Something that is not all there.
    More,
}

fn frame_size(input: &[u8]) -> Result<Frame, String> {
    let Some(first) = input.first() else { return Ok(Frame::More) };
    if *first == b'#' {
        return Ok(match input.iter().position(|byte| *byte == b'\n') {
            Some(end) => Frame::Remark(end + 1),
            None => Frame::More,
        });
    }
    let Some((count, mut at)) = number_line(input, 0, b'*')? else { return Ok(Frame::More) };
    for _ in 0..count {
        let Some((size, begin)) = number_line(input, at, b'$')? else { return Ok(Frame::More) };
        at = begin.checked_add(size).and_then(|end| end.checked_add(2)).ok_or("a length is too large")?;
        if input.len() < at {
            return Ok(Frame::More);
        }
        if input[at - 2..at] != *b"\r\n" {
            return Err("a command is not as clients send them: a line should end".to_owned());
        }
    }
    Ok(Frame::Command(at))
}

/// Whether a command is a word from server to server, which tells nothing of data: a stream has some where replicas listen, too.
fn is_between_servers(frame: &[u8]) -> bool {
    let name = frame.split(|byte| *byte == b'\n').nth(2).unwrap_or_default();
    [&b"ping\r"[..], b"replconf\r"].iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// The number behind `mark` at a place, and where the line has ended; none if it has not.
fn number_line(input: &[u8], at: usize, mark: u8) -> Result<Option<(usize, usize)>, String> {
    let Some(line) = input.get(at..).filter(|line| !line.is_empty()) else { return Ok(None) };
    let wrong =
        || format!("a command is not as clients send them: {} and a number should follow", char::from(mark));
    if line[0] != mark {
        return Err(wrong());
    }
    let Some(end) = line.iter().take(LINE_SIZE_MAX).position(|byte| *byte == b'\n') else {
        return if line.len() < LINE_SIZE_MAX { Ok(None) } else { Err(wrong()) };
    };
    let digits = line[1..end].strip_suffix(b"\r").ok_or_else(wrong)?;
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
    Ok(Some((number, at + end + 1)))
}

/// A connection to a lane.
struct Link {
    output: BufWriter<UnixStream>,
    /// Commands that were sent.
    sent: u64,
    /// What is there already is not replaced.
    is_only_new: bool,
    answers: Arc<Answers>,
    reader: JoinHandle<()>,
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
    fn connect(lane: u16, is_only_new: bool, teller: &Teller) -> Result<Link, String> {
        let failed = |error: io::Error| format!("no connection to lane {lane}: {error}");
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        theirs.set_nonblocking(true).map_err(failed)?;
        let handover = Handover::connected(theirs.into(), Address::Unix, Address::Unix);
        teller.tell(FileNews::Inner { lane, handover });
        let answers = Arc::new(Answers::default());
        let (input, heard) = (ours.try_clone().map_err(failed)?, Arc::clone(&answers));
        let reader = thread::Builder::new()
            .name(format!("loads {lane}"))
            .spawn(move || hear(input, is_only_new, &heard))
            .map_err(failed)?;
        Ok(Link { output: BufWriter::with_capacity(PIECE_SIZE, ours), sent: 0, is_only_new, answers, reader })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.answers.has_failed.load(Ordering::Acquire) {
            return self.answers.wait_for(0);
        }
        let written = self.output.write_all(bytes);
        // Why the lane has closed it says more than that it has.
        written.map_err(|error| self.answers.wait_for(u64::MAX).err().unwrap_or_else(|| error.to_string()))
    }

    /// A whole command as it is.
    fn forward(&mut self, frame: &[u8]) -> Result<(), String> {
        self.sent += 1;
        self.write(frame)
    }

    fn send(&mut self, args: &[&[u8]]) -> Result<(), String> {
        let mut bytes = Vec::new();
        command(&mut bytes, args);
        self.forward(&bytes)
    }

    fn set(&mut self, key: &[u8], value: &[u8], expires_ms: Option<i64>) -> Result<(), String> {
        let end = expires_ms.map(|end_ms| end_ms.max(1).to_string());
        match &end {
            None if self.is_only_new => self.send(&[b"SET", key, value, b"NX"]),
            Some(end) if self.is_only_new => self.send(&[b"SET", key, value, b"NX", b"PXAT", end.as_bytes()]),
            None => self.send(&[b"SET", key, value]),
            Some(end) => self.send(&[b"SET", key, value, b"PXAT", end.as_bytes()]),
        }
    }

    /// [`Link::set`] of a value whose bytes are written afterwards, up to [`Link::end_set`].
    fn begin_set(&mut self, key: &[u8], size: u64, expires_ms: Option<i64>) -> Result<(), String> {
        let count = 3 + 2 * usize::from(expires_ms.is_some()) + usize::from(self.is_only_new);
        let head = format!("*{count}\r\n$3\r\nSET\r\n${}\r\n", key.len());
        self.sent += 1;
        self.write(head.as_bytes())?;
        self.write(key)?;
        self.write(format!("\r\n${size}\r\n").as_bytes())
    }

    fn end_set(&mut self, expires_ms: Option<i64>) -> Result<(), String> {
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

    /// Waits until all that was sent is done.
    fn settle(&mut self) -> Result<(), String> {
        self.output.flush().map_err(|error| error.to_string())?;
        self.answers.wait_for(self.sent)
    }

    fn end(mut self) -> Result<(), String> {
        self.settle()?;
        // A transaction that was cut off is dropped with its connection.
        let _ = self.output.get_ref().shutdown(Shutdown::Both);
        let _ = self.reader.join();
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_remarks_are_told_apart_wherever_they_are_cut() {
        let set = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n";
        assert_eq!(frame_size(set), Ok(Frame::Command(set.len())));
        assert_eq!(frame_size(b"#TS:1795573488\r\n*1\r\n"), Ok(Frame::Remark(16)));
        for end in 0..set.len() {
            assert_eq!(frame_size(&set[..end]), Ok(Frame::More), "{end}");
        }
        for wrong in [&b"SET a b\r\n"[..], b"*x\r\n", b"*1\r\n:1\r\n", b"*1\n", b"*1\r\n$1\r\nab\r\n"] {
            assert!(frame_size(wrong).is_err(), "{}", wrong.escape_ascii());
        }
        assert!(frame_size(&[b'*'; 100]).is_err());
    }

    #[test]
    fn words_between_servers_are_not_data() {
        let name = |frame: &[u8]| is_between_servers(frame);
        assert!(name(b"*1\r\n$4\r\nPING\r\n"));
        assert!(name(b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"));
        assert!(!name(b"*2\r\n$3\r\nDEL\r\n$4\r\nPING\r\n"));
    }
}
