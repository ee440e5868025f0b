//! Reads what was saved into lanes that are empty, as their client: each key goes to the lane that owns it, over a connection of that
//! lane's, and commands of the log go over one, in their order.
//!
//! The first error ends the load.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lane::{Beside, Loaded, Source};
use wire::command::Id;
use wire::rdb::read::{Item, Reader, Value};
use wire::route::PartitionMap;

use super::{Manifest, Place, said};
use crate::control::{self, Level};
use crate::inner::{Link, Usher};

/// Bytes that are read at a time.
const PIECE_SIZE: usize = 256 * 1024;
/// What is kept of the memory that a long string took.
const HELD_SIZE_MAX: usize = 4 << 20;
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
    usher: &Usher,
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
    let mut target = Target::connect(lanes, beside == Beside::Kept, usher)?;
    // A later command of the log may be about a key that has ended since, and lanes let none end until all of it is there.
    target.drops_ended = source == Source::Snapshot;
    if beside == Beside::Emptied {
        target.empty()?;
    }
    // One that was begun when the machine failed may hold nothing, and the one before lack its end.
    let holds_commands = |file: &File| file.metadata().map_or(true, |found| found.len() > 0);
    let files = files?;
    let last = files.iter().rposition(holds_commands).unwrap_or(0);
    for (index, (path, file)) in parts.iter().zip(files).enumerate() {
        let may_be_cut = last <= index && place.loads_truncated;
        let result = match source {
            // What stands behind its end is nothing of it.
            Source::Snapshot => target.read_snapshot(&mut Input::new(file)),
            Source::Log => target.read(path, file, may_be_cut),
        };
        result.map_err(|why| format!("{}: {why}", path.display()))?;
    }
    target.end().map_err(|why| format!("a lane refused what was loaded: {why}"))
}

/// Connections to all lanes.
pub(crate) struct Target {
    links: Vec<Link>,
    map: Arc<PartitionMap>,
    db: u64,
    /// In which database the changes begin that come behind the snapshot.
    pub(crate) stream_db: u64,
    loaded: Loaded,
    /// Of keys whose time has come nobody speaks any more.
    drops_ended: bool,
    now_ms: i64,
}

impl Target {
    #[expect(clippy::disallowed_methods, reason = "keys whose time has come are not loaded")]
    pub(crate) fn connect(lanes: &Lanes, is_only_new: bool, usher: &Usher) -> Result<Target, String> {
        let map = Arc::clone(&lanes.0);
        let links: Result<Vec<Link>, String> =
            (0..map.lanes()).map(|lane| Link::connect(lane, is_only_new, usher)).collect();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let (links, loaded) = (links?, Loaded::default());
        Ok(Target { links, map, db: 0, stream_db: 0, loaded, drops_ended: false, now_ms })
    }

    fn first(&mut self) -> &mut Link {
        &mut self.links[0]
    }

    /// Deletes all keys of Redis' databases, and all functions.
    pub(crate) fn empty(&mut self) -> Result<(), String> {
        self.first().send(&[b"FUNCTION", b"FLUSH"])?;
        self.first().send(&[b"FLUSHALL"])?;
        self.first().settle()
    }

    /// Reads a file: a snapshot, commands, or a snapshot and commands behind it.
    fn read(&mut self, path: &Path, file: File, may_be_cut: bool) -> Result<(), String> {
        let mut input = Input::new(file);
        input.fetch(5)?;
        if input.rest().starts_with(b"REDIS") {
            self.read_snapshot(&mut input)?;
        } else if path.extension().is_some_and(|extension| extension == "rdb") {
            // An empty one too: whoever cut it off, it did not hold nothing.
            return Err("it is no snapshot, for it does not begin with REDIS".to_owned());
        }
        self.read_commands(&mut input, path, may_be_cut)
    }

    /// Reads a snapshot, up to its end and not further; lanes have all of it then.
    pub(crate) fn read_snapshot(&mut self, input: &mut Input<impl Read>) -> Result<(), String> {
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
                Item::StreamDatabase(db) => self.stream_db = db,
                Item::End => {
                    input.pass(size);
                    // What follows may be about what has just been sent elsewhere.
                    return self.links.iter_mut().try_for_each(Link::settle);
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
            input.pass(size);
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
                    let size = piece.len();
                    input.pass(size);
                }
                if !is_over {
                    link.end_set(expires_ms)?;
                }
            }
        }
    }

    /// Commands as a client sends them, each of them whole, and remarks.
    fn read_commands(
        &mut self,
        input: &mut Input<File>,
        path: &Path,
        may_be_cut: bool,
    ) -> Result<(), String> {
        // The stream begins in no database, and says so before its first command.
        if std::mem::take(&mut self.db) != 0 {
            self.first().send(&[b"SELECT", b"0"])?;
        }
        // Where the transaction has begun that is not over.
        let mut begun_at = None;
        loop {
            let size = match frame_size(input.rest())? {
                Frame::Command(size) => {
                    let frame = &input.rest()[..size];
                    let meant = Meant::by(frame)?;
                    match meant {
                        Meant::Begin => begun_at = Some(input.passed),
                        Meant::Commit => begun_at = None,
                        Meant::Change | Meant::Nothing | Meant::GetAck => {}
                    }
                    if !matches!(meant, Meant::Nothing | Meant::GetAck) {
                        self.links[0].forward(frame)?;
                        self.loaded.commands += 1;
                    }
                    size
                }
                Frame::Remark(size) => size,
                Frame::More => {
                    if input.fetch_more()? {
                        continue;
                    }
                    let whole = begun_at.unwrap_or(input.passed);
                    let left = input.passed + input.rest().len() as u64 - whole;
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
                    // The log goes on behind it.
                    let cut = File::options().write(true).open(path).and_then(|file| {
                        file.set_len(whole)?;
                        file.sync_all()
                    });
                    return cut.map_err(|error| format!("its cut end can't be taken off: {error}"));
                }
            };
            input.pass(size);
        }
    }

    /// Gives it up: what lanes have not done by now they will not do.
    pub(crate) fn close(self) {
        self.links.into_iter().for_each(Link::close);
    }

    /// Whether lanes have taken it all.
    pub(crate) fn end(mut self) -> Result<Loaded, String> {
        self.links.iter_mut().try_for_each(Link::settle)?;
        Ok(self.loaded)
    }
}

/// What is read, as far as it has been.
pub(crate) struct Input<R> {
    pub(crate) from: R,
    /// What is between `at` and `end` has been read and not passed.
    held: Vec<u8>,
    at: usize,
    end: usize,
    /// Bytes gone over since the beginning.
    passed: u64,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(from: R) -> Input<R> {
        Input { from, held: Vec::new(), at: 0, end: 0, passed: 0 }
    }

    /// What has been read and not passed.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.held[self.at..self.end]
    }

    /// Goes over so many bytes of that.
    pub(crate) fn pass(&mut self, size: usize) {
        self.at += size;
        self.passed += size as u64;
    }

    /// Reads on; false at the end.
    pub(crate) fn fetch_more(&mut self) -> Result<bool, String> {
        self.held.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        // What is read in one piece grows with what has come: a long string does not take as many reads as it has pieces. When that has
        // passed its memory goes, too.
        let wanted = self.end + PIECE_SIZE.max(self.end);
        if self.held.len() > HELD_SIZE_MAX.max(wanted) {
            self.held.truncate(wanted);
            self.held.shrink_to_fit();
        } else if self.held.len() < wanted {
            self.held.resize(wanted, 0);
        }
        let read = loop {
            match self.from.read(&mut self.held[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let size = read.map_err(|error| error.to_string())?;
        self.end += size;
        Ok(size > 0)
    }

    /// Reads on until so many bytes are there, if there are.
    pub(crate) fn fetch(&mut self, size: usize) -> Result<(), String> {
        while self.rest().len() < size && self.fetch_more()? {}
        Ok(())
    }
}

/// What stands at the beginning of some input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A whole command of so many bytes.
    Command(usize),
    /// A line that is none (`#TS:…`).
    Remark(usize),
    /// Something that is not all there.
    More,
}

pub(crate) fn frame_size(input: &[u8]) -> Result<Frame, String> {
    let Some(first) = input.first() else { return Ok(Frame::More) };
    if *first == b'#' {
        return Ok(match input.iter().position(|byte| *byte == b'\n') {
            Some(end) => Frame::Remark(end + 1),
            None => Frame::More,
        });
    }
    let Some((count, mut at)) = number_line(input, 0, b'*')? else { return Ok(Frame::More) };
    if count == 0 {
        return Err("a command has no words".to_owned());
    }
    for _ in 0..count {
        let Some((size, begin)) = number_line(input, at, b'$')? else { return Ok(Frame::More) };
        if size > store::ROPE_SIZE_MAX {
            // What is damaged is not what is cut off.
            return Err(format!("a command is not as clients send them: no word has {size} bytes"));
        }
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

/// What a command of a stream means for data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    /// It is to be carried out.
    Change,
    /// So is it, and a transaction begins with it.
    Begin,
    /// And it ends with this one.
    Commit,
    /// Nothing: it is a word from server to server.
    Nothing,
    /// How far this server is, is asked.
    GetAck,
}

impl Meant {
    /// What a whole command means.
    ///
    /// # Errors
    /// It is none that tells of data.
    pub(crate) fn by(frame: &[u8]) -> Result<Meant, String> {
        let name = word(frame, 0);
        let Some(command) = wire::command::lookup(name) else {
            let shown = name[..name.len().min(64)].escape_ascii();
            return Err(format!("{shown} is a command that this server does not have"));
        };
        match command.id {
            Id::Ping => Ok(Meant::Nothing),
            Id::Replconf if word(frame, 1).eq_ignore_ascii_case(b"getack") => Ok(Meant::GetAck),
            Id::Replconf => Ok(Meant::Nothing),
            Id::Multi => Ok(Meant::Begin),
            Id::Exec => Ok(Meant::Commit),
            Id::Select | Id::Publish | Id::Spublish | Id::Function => Ok(Meant::Change),
            _ if command.writes() => Ok(Meant::Change),
            _ => Err(format!("{} is no change of data", command.name)),
        }
    }
}

/// A word of a whole command; empty where there is none.
fn word(frame: &[u8], nth: usize) -> &[u8] {
    let mut at = match number_line(frame, 0, b'*') {
        Ok(Some((_, at))) => at,
        _ => return &[],
    };
    for index in 0.. {
        let Ok(Some((size, begin))) = number_line(frame, at, b'$') else { break };
        if index == nth {
            return frame.get(begin..begin + size).unwrap_or_default();
        }
        at = begin + size + 2;
    }
    &[]
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

#[cfg(test)]
mod tests {
    use wire::client::command;

    use super::*;

    #[test]
    fn commands_and_remarks_are_told_apart_wherever_they_are_cut() {
        let set = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n";
        assert_eq!(frame_size(set), Ok(Frame::Command(set.len())));
        assert_eq!(frame_size(b"#TS:1795573488\r\n*1\r\n"), Ok(Frame::Remark(16)));
        for end in 0..set.len() {
            assert_eq!(frame_size(&set[..end]), Ok(Frame::More), "{end}");
        }
        for wrong in [
            &b"SET a b\r\n"[..],
            b"*x\r\n",
            b"*1\r\n:1\r\n",
            b"*1\n",
            b"*1\r\n$1\r\nab\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"*1\r\n$99999999999\r\nab",
        ] {
            assert!(frame_size(wrong).is_err(), "{}", wrong.escape_ascii());
        }
        assert!(frame_size(&[b'*'; 100]).is_err());
    }

    #[test]
    fn what_is_no_change_is_not_carried_out() {
        let meant = |words: &[&[u8]]| {
            let mut frame = Vec::new();
            command(&mut frame, words);
            Meant::by(&frame)
        };
        assert_eq!(meant(&[b"ping"]), Ok(Meant::Nothing));
        assert_eq!(meant(&[b"REPLCONF", b"getack", b"*"]), Ok(Meant::GetAck));
        assert_eq!(meant(&[b"replconf", b"ack", b"1"]), Ok(Meant::Nothing));
        assert_eq!(meant(&[b"replconf"]), Ok(Meant::Nothing));
        for change in [
            &[&b"SET"[..], b"PING", b"REPLCONF"][..],
            &[b"set", b"\r\nPING\r\n", b"v"],
            &[b"FUNCTION", b"FLUSH"],
            &[b"FLUSHALL"],
        ] {
            assert_eq!(meant(change), Ok(Meant::Change), "{change:?}");
        }
        assert_eq!(meant(&[b"Multi"]), Ok(Meant::Begin));
        assert_eq!(meant(&[b"EXEC"]), Ok(Meant::Commit));
        // Some of them would never be answered as often as they are sent.
        for other in [
            &[&b"LPUSH"[..], b"k", b"v"][..],
            &[b"CLIENT", b"REPLY", b"OFF"],
            &[b"SUBSCRIBE", b"a"],
            &[b"GET", b"k"],
            &[b""],
        ] {
            assert!(meant(other).is_err(), "{other:?}");
        }
    }
}
