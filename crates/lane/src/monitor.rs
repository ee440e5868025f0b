//! MONITOR: each command that a lane takes up becomes a line, and the control thread hands the lines of all lanes to the
//! clients that monitor.
//!
//! ```text
//! lane: commands → lines, at most FRAMES_MAX frames a turn ─ control ring ─▶ control thread ─ control ring ─▶ a monitor's lane
//! ```
//! Nobody waits for a monitor: a line for which there is no room is dropped and counted (`monitor_dropped`). Lines of one
//! lane come in the order of its commands, those of several lanes in the order in which they arrive.

use std::sync::Arc;

use wire::command::{Command, Flag, Id, Scope};

use crate::Now;
use crate::client::{Client, Multi};
use crate::connection;
use crate::core::Core;
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::pubsub::is_refused_to_subscriber;
use crate::request::{Arg, Args};
use crate::secret::{REDACTED, Secrets};
use crate::slab::Handle;

/// Bytes of lines that travel in one piece. Together with the places of the ring it bounds what is on its way between two
/// threads: 64 frames, 4 MiB.
const FRAME_SIZE_MAX: usize = 64 * 1024;
/// Frames that a lane fills in a turn.
const FRAMES_MAX: usize = 4;
/// Bytes of one argument that are shown; how many there are more is said.
const ARG_SIZE_MAX: usize = 4 * 1024;
/// Once a line is so long, further arguments are counted only. A byte is shown as four at most.
const LINE_SIZE_MAX: usize = 16 * 1024;
const _: () = assert!(LINE_SIZE_MAX + 4 * ARG_SIZE_MAX + 256 < FRAME_SIZE_MAX, "a line fits into a frame");

/// What a lane has to show, and to whom nobody has listened yet.
#[derive(Default)]
pub(crate) struct Monitoring {
    /// Somebody looks.
    pub(crate) is_on: bool,
    /// Whole lines, in frames.
    frames: Vec<Vec<u8>>,
    /// Of an EXEC that is about to begin.
    pub(crate) exec: Option<Box<ExecLines>>,
}

impl Monitoring {
    /// Whether there are lines to tell.
    pub(crate) fn has_lines(&self) -> bool {
        !self.frames.is_empty()
    }
}

/// The lines of a MULTI … EXEC, which are shown when it is over: Redis shows what is executed, then EXEC.
#[derive(Default)]
pub(crate) struct ExecLines {
    queued: Vec<u8>,
    dropped_count: u64,
    exec: Vec<u8>,
}

impl ExecLines {
    /// Adds what a script has called, behind all that was queued.
    pub(crate) fn add(&mut self, lines: &[u8]) {
        self.queued.extend_from_slice(lines);
    }
}

impl Core {
    /// Whether a command of a client is shown once it was taken up.
    pub(crate) fn is_shown(&self, client: &Client, command: &Command) -> bool {
        // A command of another dialect has no words that Redis' tools could read.
        let is_hidden = command.flags.has(Flag::Admin)
            // Redis shows a script itself, before what it calls.
            || command.flags.has(Flag::SkipMonitor) && command.scope != Scope::Script
            || command.id == Id::Quit
            || command.is_of_a_dialect()
            || is_refused_to_subscriber(client, command);
        self.monitoring.is_on && !is_hidden && (client.is_authenticated || command.flags.has(Flag::NoAuth))
    }

    /// Shows a command whose arguments are written already. Its database is the client's after it.
    pub(crate) fn show(&mut self, client: &Client, words: &[u8]) {
        let mut line = self.head(client, client.db);
        line.extend_from_slice(words);
        line.extend_from_slice(b"\r\n");
        self.show_line(&line);
    }

    /// What will be shown of an EXEC, if it is not in vain: the commands queued, then itself.
    pub(crate) fn exec_lines(&self, client: &Client, multi: &Multi, words: &[u8]) -> ExecLines {
        let mut lines = ExecLines::default();
        let mut db = client.db;
        for (index, (command, request)) in multi.queued.commands.iter().enumerate() {
            let args = Args::Owned(request);
            if command.id == Id::Select
                && let Ok(chosen) =
                    connection::selected(args.get(1), client.port, self.settings.database_count)
            {
                db = chosen;
            }
            if !self.is_shown(client, command) {
                continue;
            }
            if lines.queued.len() + FRAME_SIZE_MAX > FRAMES_MAX * FRAME_SIZE_MAX {
                lines.dropped_count = (multi.queued.commands.len() - index) as u64;
                break;
            }
            lines.queued.extend(self.head(client, db));
            put_words(&mut lines.queued, command, args);
            lines.queued.extend_from_slice(b"\r\n");
        }
        lines.exec = self.head(client, db);
        lines.exec.extend_from_slice(words);
        lines.exec.extend_from_slice(b"\r\n");
        lines
    }

    /// An EXEC is over; what was queued has run, or a watched key had changed.
    pub(crate) fn show_exec(&mut self, lines: &ExecLines, has_run: bool) {
        if has_run {
            self.stats.monitor_dropped += lines.dropped_count;
            for line in lines.queued.split_inclusive(|&byte| byte == b'\n') {
                self.show_line(line);
            }
        }
        self.show_line(&lines.exec);
    }

    /// `+seconds.microseconds [database address]`
    fn head(&self, client: &Client, db: u16) -> Vec<u8> {
        let (seconds, us) = Now { unix_ms: self.space.wall_ms, ..self.space.now }.wall();
        let peer = match client.peer {
            net::Address::Unix => format!("unix:{}", self.settings.unix_socket),
            peer => self.settings.address(peer),
        };
        format!("+{seconds}.{us:06} [{db} {peer}]").into_bytes()
    }

    pub(crate) fn show_line(&mut self, line: &[u8]) {
        let frames = &mut self.monitoring.frames;
        let has_room = frames.last().is_some_and(|frame| frame.len() + line.len() <= FRAME_SIZE_MAX);
        if !has_room {
            if frames.len() == FRAMES_MAX {
                self.stats.monitor_dropped += 1;
                return;
            }
            frames.push(Vec::new());
        }
        frames.last_mut().expect("just made sure of").extend_from_slice(line);
    }

    /// Hands a turn's lines to the control thread.
    pub(crate) fn tell_lines(&mut self) {
        let control = self.lane_count;
        for frame in std::mem::take(&mut self.monitoring.frames) {
            let count = line_count(&frame);
            let head = ControlHead { target: 0, round: 0, kind: ControlKind::Lines };
            if !self.peer(control).try_tell(head, &mut Some(Parcel::Lines(Arc::new(frame)))) {
                self.stats.monitor_dropped += count;
            }
        }
    }

    /// A client monitors no more: it has said RESET, or it has gone.
    pub(crate) fn end_monitor(&mut self, client: &mut Client, handle: Handle<Client>) {
        if std::mem::take(&mut client.is_monitor) {
            self.tell_monitor_gone(handle.to_bits());
        }
    }

    /// Tells the control thread that a client of this lane, which wanted to monitor, does not.
    pub(crate) fn tell_monitor_gone(&mut self, client: u64) {
        let head = ControlHead { target: client, round: 0, kind: ControlKind::MonitorGone };
        self.untold.push_back((self.lane_count, head));
        self.tell_untold();
    }
}

/// Lines in a frame.
pub(crate) fn line_count(frame: &[u8]) -> u64 {
    frame.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// The arguments of a command as MONITOR shows them, each behind a space: quoted, without passwords, long ones cut.
pub(crate) fn put_words(line: &mut Vec<u8>, command: &Command, args: Args<'_>) {
    let end = line.len() + LINE_SIZE_MAX;
    let mut secrets = Secrets::of(command, args);
    for index in 0..args.len() {
        if line.len() >= end {
            line.extend(format!(" \"... ({} more arguments)\"", args.len() - index).into_bytes());
            return;
        }
        line.extend_from_slice(b" \"");
        if secrets.hides(args, index) {
            line.extend_from_slice(REDACTED);
        } else {
            put_arg(line, args.get(index));
        }
        line.push(b'"');
    }
}

fn put_arg(line: &mut Vec<u8>, arg: Arg<'_>) {
    put_escaped(line, &arg.front(ARG_SIZE_MAX));
    if arg.size() > ARG_SIZE_MAX {
        line.extend(format!("... ({} more bytes)", arg.size() - ARG_SIZE_MAX).into_bytes());
    }
}

/// `sdscatrepr` of Redis without the quotes.
fn put_escaped(line: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x07 => line.extend_from_slice(b"\\a"),
            0x08 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => line.extend(format!("\\x{byte:02x}").into_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;

    fn words(words: &[&[u8]]) -> String {
        let mut request = Request::default();
        for word in words {
            request.push(Arg::Flat(word));
        }
        let command = wire::command::lookup(words[0]).expect("a command");
        let mut line = Vec::new();
        put_words(&mut line, command, Args::Owned(&request));
        String::from_utf8(line).expect("lines are ASCII")
    }

    #[test]
    fn arguments_are_escaped_as_in_redis() {
        assert_eq!(
            words(&[b"SeT", b"k", b"a\0b\"c\\d\n\r\t\x07\x08\xff~"]),
            r#" "SeT" "k" "a\x00b\"c\\d\n\r\t\a\b\xff~""#
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        let setuser =
            wire::command::lookup(b"acl").and_then(|acl| acl.subcommand(b"setuser")).expect("a command");
        let (mut request, mut line) = (Request::default(), Vec::new());
        [&b"ACL"[..], b"SetUser", b"u", b">pw"].iter().for_each(|word| request.push(Arg::Flat(word)));
        put_words(&mut line, setuser, Args::Owned(&request));
        assert_eq!(line, br#" "ACL" "SetUser" "(redacted)" "(redacted)""#);
        assert_eq!(words(&[b"auth", b"user", b"secret"]), r#" "auth" "(redacted)" "(redacted)""#);
        assert_eq!(
            words(&[b"hello", b"3", b"AUTH", b"user", b"secret", b"setname", b"me"]),
            r#" "hello" "3" "AUTH" "(redacted)" "(redacted)" "setname" "me""#
        );
        let migrate =
            |more: &[&[u8]]| words(&[&[&b"migrate"[..], b"h", b"1", b"auth", b"0", b"9"], more].concat());
        let shown = r#" "migrate" "h" "1" "auth" "0" "9""#;
        assert_eq!(migrate(&[b"AUTH", b"secret", b"copy"]), format!(r#"{shown} "AUTH" "(redacted)" "copy""#));
        assert_eq!(
            migrate(&[b"auth2", b"keys", b"secret", b"keys", b"auth", b"k"]),
            format!(r#"{shown} "auth2" "(redacted)" "(redacted)" "keys" "auth" "k""#)
        );
    }

    #[test]
    fn long_commands_are_cut_and_say_so() {
        let shown = words(&[b"set", b"k", &[b'v'; 5000]]);
        assert!(shown.ends_with("vv... (904 more bytes)\"") && shown.len() < 4200, "{shown}");
        let many: Vec<&[u8]> = std::iter::once(&b"del"[..]).chain((0..9000).map(|_| &b"k"[..])).collect();
        let shown = words(&many);
        assert!(shown.ends_with(" more arguments)\"") && shown.len() < LINE_SIZE_MAX + 100, "{shown}");
    }
}
