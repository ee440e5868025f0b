//! What is read and shown: facts, plans, checks, examples.

use std::fs;
use std::io;
use std::path::Path;

use host::facts::{drawing, probe};
use host::journal::{Found, Journal, look};
use host::kernel::live::Live;
use host::{Facts, Plan, Spec};
use toml_edit::DocumentMut;

use super::settings::{CheckSettings, ExampleSettings, FactsSettings, PlanSettings};
use super::{Trouble, machine, say};

/// The table of the server's configuration file that may hold the wish, so that one file can say both.
pub(crate) const TABLE: &str = "lanes";
/// What the wish in a journal is called.
pub(super) const IN_FORCE: &str = "the wish in force";

/// A wish, and what it needs on a machine.
pub(crate) struct Wanted {
    /// The file as it was written.
    pub(crate) text: String,
    pub(crate) spec: Spec,
    pub(crate) facts: Facts,
    pub(crate) plan: Plan,
}

impl Wanted {
    /// Reads the file, and the machine or the facts of another.
    pub(crate) fn read(file: &Path, facts: Option<&Path>) -> Result<Wanted, Trouble> {
        Wanted::of(text_of(file)?, &file.display().to_string(), facts)
    }

    /// Of a file's text; `name` is what it is called.
    pub(crate) fn of(text: String, name: &str, facts: Option<&Path>) -> Result<Wanted, Trouble> {
        let spec = spec_of(&text, name)?;
        let facts = read_facts(facts, Some(&spec))?;
        let plan = host::plan::plan(&spec, &facts)
            .map_err(|problems| Trouble::of_machine(refused(name, &problems)))?;
        Ok(Wanted { text, spec, facts, plan })
    }

    /// The one that was applied last.
    pub(crate) fn in_force(directory: &Path, boot: &str) -> Result<Wanted, Trouble> {
        Wanted::of_journal(&in_force(directory, boot)?)
    }

    /// What a journal was written for, planned for the machine as it is now.
    pub(crate) fn of_journal(journal: &Journal) -> Result<Wanted, Trouble> {
        Wanted::of(journal.wish().text.clone(), IN_FORCE, None)
    }
}

/// The journal of what was applied last.
pub(super) fn in_force(directory: &Path, boot: &str) -> Result<Journal, Trouble> {
    match look(directory, boot).map_err(Trouble::failed)? {
        Found::InForce(journal) => Ok(*journal),
        Found::Nothing | Found::Void { .. } => Err(Trouble::failed(format!(
            "no lanes are in force (no journal of this boot in {}): apply a file, or name one",
            directory.display()
        ))),
    }
}

pub(super) fn spec_of(text: &str, name: &str) -> Result<Spec, Trouble> {
    Spec::parse(text).map_err(|problems| Trouble::usage(refused(name, &problems)))
}

pub(super) fn text_of(file: &Path) -> Result<String, Trouble> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => {
                format!("; `expresslane lanes example redis > {name}` makes one to begin with")
            }
            _ => String::new(),
        };
        Trouble::usage(format!("{name}: {error}{hint}"))
    })?;
    Ok(section(&text).unwrap_or(text))
}

/// What stands under `[lanes]`, as a file of its own. None: it is no server's file, or none that can be read, which the reader
/// of wishes says better.
fn section(text: &str) -> Option<String> {
    let file: DocumentMut = text.parse().ok()?;
    let mut inner = DocumentMut::new();
    *inner.as_table_mut() = file.get(TABLE)?.as_table()?.clone();
    Some(inner.to_string())
}

/// A line each.
fn refused(name: &str, problems: &[host::plan::Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("{name}: {problem}")).collect();
    lines.join("\n")
}

/// Of this machine, with what the wish is about; or of a file that `lanes facts --json` has written.
fn read_facts(file: Option<&Path>, spec: Option<&Spec>) -> Result<Facts, Trouble> {
    let Some(file) = file else {
        let judged = || probe::Ask { sysctls: judged().collect(), ..probe::Ask::default() };
        let ask = spec.map_or_else(judged, ask);
        return Ok(probe::read(&mut Live::new(), &ask));
    };
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| Trouble::usage(format!("{name}: {error}")))?;
    serde_json::from_str(&text).map_err(|error| {
        Trouble::usage(format!("{name}: {error}; it is what `expresslane lanes facts --json` prints"))
    })
}

/// Sysctls that `check` judges.
fn judged() -> impl Iterator<Item = String> {
    host::check::SYSCTLS.iter().map(|name| (*name).to_owned())
}

/// What the wish is about, beside what every machine is asked.
fn ask(spec: &Spec) -> probe::Ask {
    let of_lanes = spec.lanes.iter().map(|lane| &lane.process);
    let processes = of_lanes.chain(&spec.default.process).filter(|wish| !wish.is_empty()).cloned().collect();
    let sysctls = spec.host.sysctls.keys().cloned().chain(judged()).collect();
    probe::Ask { processes, sysctls }
}

pub(super) fn facts(settings: &FactsSettings) -> Result<(), Trouble> {
    if settings.json {
        // What is asked can be kept also where this machine can't fulfil the wish.
        let spec = settings.file.as_deref().map(|file| spec_of(&text_of(file)?, &file.display().to_string()));
        say(&json(&read_facts(None, spec.transpose()?.as_ref())?));
        return Ok(());
    }
    let wanted = match &settings.file {
        Some(file) => Ok(Some(Wanted::read(file, None)?)),
        None => lanes_in_force(&settings.state.state_dir),
    };
    let (facts, lanes) = match wanted {
        Ok(Some(wanted)) => (wanted.facts, wanted.plan.lanes),
        Ok(None) => (read_facts(None, None)?, Vec::new()),
        Err(trouble) => {
            let mut facts = read_facts(None, None)?;
            facts.missing.push(format!("the lanes in force: {}", trouble.problem.replace('\n', "; ")));
            (facts, Vec::new())
        }
    };
    say(&drawing::drawing(&facts, &lanes));
    Ok(())
}

fn lanes_in_force(directory: &Path) -> Result<Option<Wanted>, Trouble> {
    let (_, boot) = machine()?;
    match look(directory, &boot).map_err(Trouble::failed)? {
        Found::InForce(journal) => Wanted::of_journal(&journal).map(Some),
        Found::Nothing | Found::Void { .. } => Ok(None),
    }
}

pub(super) fn plan(settings: &PlanSettings) -> Result<(), Trouble> {
    let wanted = Wanted::read(&settings.file, settings.facts.as_deref())?;
    say(&if settings.json { json(&wanted.plan) } else { wanted.plan.text(&wanted.facts, settings.long) });
    Ok(())
}

pub(super) fn check(settings: &CheckSettings) -> Result<(), Trouble> {
    let (facts, plan) = match &settings.file {
        Some(file) => {
            let wanted = Wanted::read(file, settings.facts.as_deref())?;
            (wanted.facts, Some(wanted.plan))
        }
        None => (read_facts(settings.facts.as_deref(), None)?, None),
    };
    let file = settings.file.as_deref().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
    let report = host::check::check(&facts, plan.as_ref().map(|plan| (plan, file.as_str())));
    say(&if settings.json { json(&report) } else { report.text() });
    if report.is_ok() { Ok(()) } else { Err(Trouble::silent(1)) }
}

pub(super) fn example(settings: &ExampleSettings) -> Result<(), Trouble> {
    say(host::spec::example(&settings.name).expect("the flag takes the names of examples alone"));
    Ok(())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("keys are text and numbers finite") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_file_may_hold_the_wish() {
        let text = "[serve]\nport = 6379\n\n[lanes.host]\nirqbalance = \"leave\"\n[[lanes.nic]]\nname = \"ens1\"\n\
                    [[lanes.lane]]\nname = \"db\"\nports = 6379\n[lanes.default]\nqueues = 2\n";
        let own = "[host]\nirqbalance = \"leave\"\n[[nic]]\nname = \"ens1\"\n[[lane]]\nname = \"db\"\nports = 6379\n\
                   [default]\nqueues = 2\n";
        assert_eq!(Spec::parse(&section(text).unwrap()).unwrap(), Spec::parse(own).unwrap());
        assert_eq!((section(own), section("lanes = 3\n"), section("[")), (None, None, None));
    }
}
