//! `expresslane stats`: asks a running server how it is, as any client could, and shows every lane.
//!
//! ```text
//! connection ── INFO everything histograms ──▶ info (names and values) ──▶ report (what they mean) ──▶ screen or JSON
//! ```
//! It knows of the server only what INFO says, so it works over any network, and against another server shows the
//! totals that Redis has names for.

mod connection;
mod info;
mod report;
mod screen;

use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::settings::StatsSettings;
use connection::Connection;
use info::Info;
use report::Report;

/// Moves a terminal's cursor to the top left and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows the server once, or until a signal with `--watch`. An error is one sentence that says what to do.
pub(crate) fn stats(settings: &StatsSettings) -> Result<(), String> {
    let mut connection = Connection::open(settings)?;
    let mut looks = Looks::default();
    let Some(seconds) = settings.watch else {
        return print(settings, &looks.look(&mut connection)?).map(drop);
    };
    let mut bell = Stop::new().map_err(|error| format!("signals can't be taken over: {error}"))?;
    loop {
        let is_read = print(settings, &looks.look(&mut connection)?)?;
        if !is_read || bell.rings_within(Duration::from_secs(u64::from(seconds))) {
            return Ok(());
        }
    }
}

/// What the server said last.
#[derive(Default)]
struct Looks {
    before: Option<Info>,
}

impl Looks {
    fn look(&mut self, connection: &mut Connection) -> Result<Report, String> {
        let now = Info::parse(&connection.info()?);
        let report = Report::of(&now, self.before.as_ref());
        self.before = Some(now);
        Ok(report)
    }
}

/// False: whoever read the output has gone, which is a way to end like another.
fn print(settings: &StatsSettings, report: &Report) -> Result<bool, String> {
    let mut text = String::new();
    if settings.json {
        text += &serde_json::to_string(report).expect("a report has text for keys and finite numbers");
        text.push('\n');
    } else {
        let clears = settings.watch.is_some() && io::stdout().is_terminal();
        text += if clears { CLEAR } else { "" };
        text += &screen::screen(report);
        // One look is told from the next where nothing is cleared.
        text += if settings.watch.is_some() && !clears { "\n" } else { "" };
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("the output can't be written: {error}")),
    }
}

/// Hears of Ctrl-C while it waits.
struct Stop {
    signals: UnixStream,
}

impl Stop {
    fn new() -> io::Result<Stop> {
        let (signals, write) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(Stop { signals })
    }

    /// Waits for so long, or until a signal has come; says whether one has.
    fn rings_within(&mut self, time: Duration) -> bool {
        self.signals
            .set_read_timeout(Some(time))
            .expect("a second at least is a time that can be waited for");
        matches!(self.signals.read(&mut [0]), Ok(1))
    }
}
