//! The control thread's tools: signals, the log, and what the service manager is told. Nothing here runs on a lane.

use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::log_queue::LogQueue;

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warn,
    Error,
}

/// The log's lines that are not written yet.
static LOG: LogQueue = LogQueue::new();
/// At the end of the process what waits is given so long to be written. A reader that does not read keeps no process from ending.
const LOG_SETTLE_DURATION_MAX: Duration = Duration::from_millis(200);
/// A stderr that another process has made non-blocking (a terminal of both) is tried again after so long.
const LOG_RETRY: Duration = Duration::from_millis(10);

/// On stderr: the time in UTC, the level, the text; lines after its first begin without them. It is written in one
/// piece, so that nothing comes between. Waits for nobody who reads it, from `start_log` on.
pub(crate) fn log(level: Level, text: &str) {
    if let Err(line) = LOG.push(line(level, text)) {
        let _ = Stderr.write_all(line.as_bytes());
    }
}

#[expect(clippy::disallowed_methods, reason = "a log line carries the wall clock")]
fn line(level: Level, text: &str) -> String {
    let level = match level {
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    };
    let time = humantime::format_rfc3339_millis(SystemTime::now());
    format!("{time} {level:<5} {text}\n")
}

/// Starts the thread that writes the log.
///
/// # Errors
/// A sentence.
pub(crate) fn start_log() -> Result<(), String> {
    let notice =
        |count| line(Level::Warn, &format!("{count} lines are missing here: the log was not read in time"));
    let started = thread::Builder::new().name("log".to_owned()).spawn(move || {
        loop {
            LOG.write_next(&mut Stderr, notice);
        }
    });
    started.map_err(|error| format!("the thread of the log can't be started: {error}"))?;
    LOG.note_writer();
    Ok(())
}

/// Whoever ends the process has the log's last lines written before.
pub(crate) fn settle_log() {
    LOG.settle(LOG_SETTLE_DURATION_MAX);
}

/// Ends the process, the log's last lines written.
pub(crate) fn exit(code: i32) -> ! {
    settle_log();
    std::process::exit(code)
}

/// Waits for room where the system does not.
struct Stderr;

impl Write for Stderr {
    #[expect(clippy::disallowed_methods, reason = "the thread that writes the log waits for its reader")]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match io::stderr().lock().write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(LOG_RETRY),
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// SIGTERM and SIGINT. The first asks for an orderly end; a second one ends the process at once, with exit code 1. SIGHUP, which a
/// terminal sends that is closed, is nothing to a server, as with redis-server. Nor is SIGXFSZ: a write beyond the limit of a file's size
/// fails like any other, and whoever writes says so.
pub(crate) struct Stop {
    signals: Signals,
    armed: Arc<AtomicBool>,
}

impl Stop {
    /// Takes over these signals for the whole process.
    ///
    /// # Errors
    /// The kernel's own.
    pub(crate) fn new() -> io::Result<Stop> {
        let armed = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // Registered before the queue below: the signal that arms it has passed here unarmed.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&armed))?;
        }
        for signal in [SIGHUP, SIGXFSZ] {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        Ok(Stop { signals: Signals::new([SIGTERM, SIGINT])?, armed })
    }

    /// Sleeps until the process is asked to end; says by what.
    pub(crate) fn wait(&mut self) -> &'static str {
        let signal = self.signals.forever().next();
        self.armed.store(true, Ordering::SeqCst);
        if signal == Some(SIGINT) { "SIGINT" } else { "SIGTERM" }
    }

    /// The process goes on: the next signal is a first one again.
    pub(crate) fn disarm(&mut self) {
        self.armed.store(false, Ordering::SeqCst);
    }
}

/// Tells the service manager how far we are (sd_notify(3)): `READY=1` when clients can come, `STOPPING=1` when none
/// can any more. Does nothing where no service manager asked for it, with `NOTIFY_SOCKET`.
pub(crate) fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(name.as_encoded_bytes(), state) {
        log(Level::Warn, &format!("the service manager could not be told {state}: {error}"));
    }
}

fn send(name: &[u8], state: &str) -> io::Result<()> {
    let address = match name.split_first() {
        // A name in the abstract namespace; the at sign stands for its zero byte.
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(std::str::from_utf8(name).map_err(io::Error::other)?)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

/// A broken promise ends the process: no shard serves after one, for nobody knows what else is broken. What broke, and
/// on which lane, is the last thing printed.
pub(crate) fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a thread");
        let text = panic.payload_as_str().unwrap_or("no message");
        let at = panic
            .location()
            .map(|place| format!(" at {}:{}", place.file(), place.line()))
            .unwrap_or_default();
        log(Level::Error, &format!("{name} broke a promise and ends the server{at}: {text}"));
        settle_log();
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_manager_hears_of_readiness() {
        for name in ["@expresslane-notify-test".to_owned(), {
            let folder = std::env::temp_dir().join(format!("expresslane-notify-{}", std::process::id()));
            folder.to_str().unwrap().to_owned()
        }] {
            let address = match name.strip_prefix('@') {
                Some(name) => SocketAddr::from_abstract_name(name).unwrap(),
                None => SocketAddr::from_pathname(&name).unwrap(),
            };
            let manager = UnixDatagram::bind_addr(&address).unwrap();
            send(name.as_bytes(), "READY=1").unwrap();
            let mut got = [0; 64];
            let size = manager.recv(&mut got).unwrap();
            assert_eq!(&got[..size], b"READY=1");
            let _ = std::fs::remove_file(&name);
        }
        assert!(send(b"@nobody-listens-here", "READY=1").is_err());
    }
}
