//! Whether lanes are in force and used: reads every knob, and counts packets for a moment.

use std::fs;
use std::io::{self, IsTerminal};
use std::time::Duration;

use host::Kernel;
use host::journal::{Confirmation, Found, look};
use host::status::{Evidence, Report, Sight, Verdict, cards_to_watch, judge, polled, read, unplanned};
use host::witness::Witness;

use super::settings::StatusSettings;
use super::wish::{IN_FORCE, Wanted, in_force, spec_of, text_of};
use super::{Trouble, machine, now_s, say};
use crate::stop::Stop;

/// Moves a terminal's cursor to the top left and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[2J";
/// A signal is looked at so often.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn status(settings: &StatusSettings) -> Result<(), Trouble> {
    let unknown = |trouble: Trouble| Trouble { code: Verdict::Unknown.exit_code(), ..trouble };
    let (mut kernel, boot) = machine().map_err(unknown)?;
    let stop = Stop::at_signals().map_err(|error| unknown(Trouble::failed(error)))?;
    loop {
        let (text, name) = wish(settings, &boot).map_err(unknown)?;
        let report = match Wanted::of(text.clone(), &name, None) {
            Ok(wanted) => watch(&wanted, &mut kernel, settings.sample, &stop),
            // Its card may be gone, and come back while this goes on.
            Err(trouble) if trouble.is_of_machine => {
                unplanned(&spec_of(&text, &name).map_err(unknown)?, &trouble.problem)
            }
            Err(trouble) => return Err(unknown(trouble)),
        };
        let is_read = print(settings, &report);
        let Some(seconds) = settings.watch.filter(|_| is_read && !stop.is_set()) else {
            return match report.verdict {
                Verdict::Ok => Ok(()),
                verdict => Err(Trouble::silent(verdict.exit_code())),
            };
        };
        pause(Duration::from_secs(u64::from(seconds)), &stop);
        if stop.is_set() {
            return Ok(());
        }
    }
}

/// The wish, and what it is called: that of the file, else the one that was applied last.
fn wish(settings: &StatusSettings, boot: &str) -> Result<(String, String), Trouble> {
    let directory = &settings.state.state_dir;
    if let Ok(Found::InForce(journal)) = look(directory, boot)
        && let Confirmation::Overdue { since_s } = journal.confirmation(now_s())
    {
        // Whoever waited for it is dead: nobody else will say so.
        eprint_line(&format!(
            "the lanes in force should have been confirmed {since_s} s ago: run `lanes confirm` to keep them, `lanes revert` to go back"
        ));
    }
    if let Some(file) = &settings.file {
        return Ok((text_of(file)?, file.display().to_string()));
    }
    Ok((in_force(directory, boot)?.wish().text.clone(), IN_FORCE.to_owned()))
}

/// Counts packets for a while, then looks at all knobs.
fn watch(wanted: &Wanted, kernel: &mut dyn Kernel, sample: Duration, stop: &Stop) -> Report {
    let lanes = &wanted.plan.lanes;
    let netstat = || fs::read_to_string("/proc/net/netstat").ok().and_then(|text| polled(&text));
    let before = netstat();
    let cards = cards_to_watch(lanes, &wanted.facts);
    let witnesses: Vec<_> = cards.iter().map(|nic| (nic.name.clone(), Witness::start(nic, lanes))).collect();
    pause(sample, stop);
    let sights = witnesses.into_iter().map(|(nic, witness)| {
        let counted = witness.and_then(|witness| {
            let counts = witness.counts()?;
            witness.stop().map(|()| counts)
        });
        counted.map_or_else(|refusal| Sight::Blind(nic, refusal.reason), Sight::Counted)
    });
    let sights: Vec<Sight> = sights.collect();
    let polled = before.zip(netstat()).map(|(before, after)| after.saturating_sub(before));
    let readings = read(kernel, &wanted.plan);
    let watched_ms = u64::try_from(sample.as_millis()).unwrap_or(u64::MAX);
    let (plan, facts) = (&wanted.plan, &wanted.facts);
    judge(&Evidence { plan, facts, readings: &readings, sights: &sights, watched_ms, polled })
}

/// False: whoever read it has gone.
fn print(settings: &StatusSettings, report: &Report) -> bool {
    if settings.json {
        return say(&(serde_json::to_string(report).expect("keys are text and numbers finite") + "\n"));
    }
    let clears = settings.watch.is_some() && io::stdout().is_terminal();
    say(&format!("{}{}", if clears { CLEAR } else { "" }, report.text()))
}

/// Sleeps so long, or until a signal.
#[expect(clippy::disallowed_methods, reason = "a tool that watches for a moment")]
pub(super) fn pause(span: Duration, stop: &Stop) {
    let end = std::time::Instant::now() + span;
    while !stop.is_set() {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

fn eprint_line(text: &str) {
    use std::io::Write;
    let _ = writeln!(io::stderr().lock(), "expresslane: {text}");
}
