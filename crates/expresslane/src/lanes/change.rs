//! Apply, confirm, revert: who holds the journal, and what is said meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::apply::{self, Outcome};
use host::change::Event;
use host::journal::{self, Confirmation, Finished, Found, Journal, State, Wish, is_held, look};
use host::kernel::live::Live;
use host::revert::{Reverted, revert as put_back};
use signal_hook::consts::SIGHUP;

use super::gate::{self, User};
use super::settings::{ApplySettings, RevertSettings, StateSettings};
use super::wish::Wanted;
use super::{Trouble, machine, now_s, say};
use crate::stop::Stop;

/// How often the journal is looked at for a confirmation.
const LOOK: Duration = Duration::from_millis(200);

/// What may help a wish that is refused while another one is in force.
const BESIDE: &str = "it is planned beside the lanes in force; if these are in the way, run `expresslane lanes revert` and then apply it";

pub(super) fn apply(settings: &ApplySettings) -> Result<(), Trouble> {
    let (mut kernel, boot) = machine()?;
    let directory = &settings.state.state_dir;
    let wanted = Wanted::read(&settings.file, None).map_err(|trouble| {
        let is_in_force = matches!(look(directory, &boot), Ok(Found::InForce(_)));
        if is_in_force && trouble.is_of_machine { trouble.with(BESIDE) } else { trouble }
    })?;
    gate::has_rights(&wanted.plan, &User::of_this_process(&wanted.facts), gate::owner_of)?;
    gate::keeps_session(&wanted.plan, settings)?;
    // Nobody is left with half a change: a signal is looked at between waiting, not between steps.
    let stop = Stop::at_signals().map_err(Trouble::failed)?;
    outlive_session()?;
    let state = State::lock(directory, "apply").map_err(Trouble::failed)?;
    let wish =
        Wish { when_s: now_s(), tool: env!("CARGO_PKG_VERSION").to_owned(), text: wanted.text.clone() };
    let mut former = None;
    let mut journal = match state.journal(&boot).map_err(Trouble::failed)? {
        Found::InForce(mut journal) => {
            former = Some((journal.wish().clone(), journal.is_complete()));
            if journal.confirmation(now_s()) != Confirmation::NotNeeded {
                let problem =
                    "the lanes in force are not confirmed: run `lanes confirm` or `lanes revert` first";
                return Err(Trouble::failed(problem));
            }
            journal.set_wish(wish).map_err(Trouble::failed)?;
            *journal
        }
        Found::Void { kept } => {
            say(&void(&kept));
            state.begin(&boot, wish).map_err(Trouble::failed)?
        }
        Found::Nothing => state.begin(&boot, wish).map_err(Trouble::failed)?,
    };
    if let Some(span) = settings.confirm {
        let deadline_s = now_s() + span.as_secs().max(1);
        journal.ask_confirmation(deadline_s).map_err(Trouble::failed)?;
    }
    for note in &wanted.plan.notes {
        say(&format!("note: {note}\n"));
    }
    let outcome = apply::apply(&wanted.plan, &mut kernel, &mut journal, &mut tell);
    if settings.confirm.is_some() && matches!(outcome, Outcome::Failed { .. }) {
        // The former wish, where there was one, is in force again, and nobody has to confirm that.
        journal.confirm(now_s()).map_err(Trouble::failed)?;
    }
    let is_replaced = former.is_some();
    if let (Some((wish, was_complete)), Outcome::Failed { undone, .. }) = (former, &outcome) {
        journal.take_back_wish(wish, was_complete && undone.is_clean()).map_err(Trouble::failed)?;
    }
    let finished = state.finish(journal);
    say(&format!("{outcome}\n"));
    if let Outcome::Failed { undone, .. } = &outcome {
        let rest = if undone.is_clean() {
            "everything is as it was"
        } else {
            "not all of it could be undone: see above"
        };
        let trouble = Trouble::failed(format!("lanes were not applied; {rest}"));
        return Err(if is_replaced { trouble.with(BESIDE) } else { trouble });
    }
    finished.map_err(Trouble::failed)?;
    // Who confirms must be able to.
    drop(state);
    match settings.confirm {
        Some(span) => wait(directory, &mut kernel, &boot, span, &stop),
        None => Ok(()),
    }
}

/// Until someone confirms, else reverts.
fn wait(directory: &Path, kernel: &mut Live, boot: &str, span: Duration, stop: &Stop) -> Result<(), Trouble> {
    let shown = humantime::format_duration(span);
    say(&format!(
        "in force for {shown}: run `expresslane lanes confirm` to keep it, else everything goes back\n"
    ));
    let state = loop {
        let waiting = match look(directory, boot).map_err(Trouble::failed)? {
            Found::InForce(journal) => journal.confirmation(now_s()),
            Found::Nothing | Found::Void { .. } => {
                return Err(Trouble::failed("somebody else has reverted the lanes meanwhile"));
            }
        };
        match waiting {
            Confirmation::NotNeeded => {
                say("confirmed\n");
                return Ok(());
            }
            Confirmation::Waiting { .. } if !stop.is_set() => pause(),
            Confirmation::Waiting { .. } | Confirmation::Overdue { .. } => {
                match State::lock(directory, "revert of what nobody confirmed") {
                    Ok(state) => break state,
                    // Whoever has it may confirm; nobody else goes back.
                    Err(journal::Trouble::Locked(_)) => pause(),
                    Err(trouble) => return Err(Trouble::failed(trouble)),
                }
            }
        }
    };
    say("nobody has confirmed: going back\n");
    let Found::InForce(journal) = state.journal(boot).map_err(Trouble::failed)? else { return Ok(()) };
    // Between the look and the lock somebody may have.
    if journal.confirmation(now_s()) == Confirmation::NotNeeded {
        say("confirmed\n");
        return Ok(());
    }
    let reverted = undo(&state, kernel, *journal, false)?;
    let rest = if reverted.is_clean() { "everything is as it was" } else { "see above for what was left" };
    Err(Trouble::failed(format!("nobody has confirmed within {shown}; {rest}")))
}

/// The session may come over the card that changes, and be cut: this goes on without it.
fn outlive_session() -> Result<(), Trouble> {
    signal_hook::flag::register(SIGHUP, Arc::default()).map(drop).map_err(Trouble::failed)
}

#[expect(clippy::disallowed_methods, reason = "a tool that waits for a person")]
fn pause() {
    std::thread::sleep(LOOK);
}

/// Whether no lanes are in force and nobody makes some: seen without writing anything, so by everybody.
fn is_nothing(directory: &Path, boot: &str) -> Result<bool, Trouble> {
    Ok(matches!(look(directory, boot).map_err(Trouble::failed)?, Found::Nothing) && !is_held(directory))
}

pub(super) fn confirm(settings: &StateSettings) -> Result<(), Trouble> {
    const NOTHING: &str = "no lanes are in force: there is nothing to confirm";
    let (_, boot) = machine()?;
    if is_nothing(&settings.state_dir, &boot)? {
        return Err(Trouble::failed(NOTHING));
    }
    let state = State::lock(&settings.state_dir, "confirm").map_err(Trouble::failed)?;
    match state.journal(&boot).map_err(Trouble::failed)? {
        Found::InForce(mut journal) => match journal.confirmation(now_s()) {
            Confirmation::NotNeeded => say("nothing waits for a confirmation\n"),
            Confirmation::Waiting { .. } | Confirmation::Overdue { .. } => {
                journal.confirm(now_s()).map_err(Trouble::failed)?;
                say("confirmed: the lanes stay\n")
            }
        },
        Found::Nothing => return Err(Trouble::failed(NOTHING)),
        Found::Void { kept } => return Err(Trouble::failed(void(&kept).trim_end())),
    };
    Ok(())
}

pub(super) fn revert(settings: &RevertSettings) -> Result<(), Trouble> {
    const NOTHING: &str = "no lanes are in force: there is nothing to put back\n";
    let (mut kernel, boot) = machine()?;
    if is_nothing(&settings.state.state_dir, &boot)? {
        say(NOTHING);
        return Ok(());
    }
    outlive_session()?;
    let state = State::lock(&settings.state.state_dir, "revert").map_err(Trouble::failed)?;
    match state.journal(&boot).map_err(Trouble::failed)? {
        Found::Nothing => {
            say(NOTHING);
        }
        Found::Void { kept } => {
            say(&void(&kept));
        }
        Found::InForce(journal) => {
            if journal.was_cut() {
                say("the last line of the journal was cut short: what it announced was never done\n");
            }
            if !undo(&state, &mut kernel, *journal, settings.force)?.is_clean() {
                return Err(Trouble::failed("not everything is as it was: see above"));
            }
        }
    }
    Ok(())
}

fn undo(state: &State, kernel: &mut Live, mut journal: Journal, force: bool) -> Result<Reverted, Trouble> {
    let reverted = put_back(kernel, &mut journal, force, &mut tell);
    say(&format!("{reverted}\n"));
    if let Finished::Aside(path) = state.finish(journal).map_err(Trouble::failed)? {
        say(&format!("the journal is kept as {}\n", path.display()));
    }
    Ok(reverted)
}

/// A line for each change; what is as wanted already goes without.
fn tell(event: &Event) {
    if !matches!(event, Event::Same { .. }) {
        say(&format!("{event}\n"));
    }
}

/// What is said of a journal of an earlier boot.
fn void(kept: &Path) -> String {
    format!(
        "a journal of an earlier boot is void, since its settings went with that kernel; it is kept as {}\n",
        kept.display()
    )
}
