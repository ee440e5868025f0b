//! What speaks against believing a number: shown above the number, never below it.

use crate::analysis::comparison::Declared;
use crate::analysis::gates::{Colour, Gate};
use crate::analysis::machines::{Machines, run_of};
use crate::environment::{Environment, NOT_EXPOSED, Row, changes, unexplained};
use crate::result::Saved;

use super::view::View;

/// Names of unexplained differences that are shown in a sentence.
const NAMES_MAX: usize = 3;

/// One kind of doubt, and whom it befell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) colour: Colour,
    /// A few words, the same for the same kind of doubt.
    pub(crate) kind: String,
    /// The sentence with its numbers, of the first run that it befell.
    pub(crate) text: String,
    /// Empty: the whole.
    pub(crate) runs: Vec<u32>,
}

/// What speaks against the result as a whole.
pub(crate) fn of_whole(saved: &Saved, declared: &Declared, is_question_read: bool) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let mut add = |colour, kind: &str, text| {
        doubts.push(Doubt { colour, kind: kind.to_owned(), text, runs: Vec::new() });
    };
    if !saved.is_complete {
        let text = "the file ends before the experiment did; this is what there is".to_owned();
        add(Colour::Amber, "cut file", text);
    }
    if !is_question_read {
        let text =
            "what was declared beforehand can't be read from the plan: judged by the defaults".to_owned();
        add(Colour::Amber, "plan", text);
    }
    if !declared.servers_kept.is_empty() {
        let names: Vec<String> = declared.servers_kept.iter().take(2).map(|name| clipped(name)).collect();
        let text = format!(
            "the server of {} is not started anew for each run: what one run leaves behind, the next one finds",
            names.join(" and that of ")
        );
        add(Colour::Amber, "same server", text);
    }
    if !declared.gates.is_empty() {
        let bounds: Vec<String> = declared.gates.iter().map(ToString::to_string).collect();
        let text =
            format!("declared beforehand, in place of the usual bounds of the gates: {}", bounds.join(", "));
        add(Colour::Amber, "gates", text);
    }
    for machines in Machines::of(saved, &declared.may_differ) {
        let named = |row: &Row| clipped(&format!("{}/{}", row.group, row.name));
        let names: Vec<String> = machines.unexplained().map(named).collect();
        if !names.is_empty() {
            let more = names.len().saturating_sub(NAMES_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let shown = names[..names.len().min(NAMES_MAX)].join(", ");
            let text = format!(
                "{} differ in what nobody declared, {shown}{more}; see the table of the machines",
                machines.title()
            );
            add(Colour::Red, "unexplained difference", text);
        }
    }
    if let Some(text) = restless(saved) {
        add(Colour::Amber, "restless machine", text);
    }
    doubts
}

/// What changed between the runs of one set-up: a later start is written down when it differs from the one before it.
fn restless(saved: &Saved) -> Option<String> {
    let mut starts: Vec<([&str; 4], Environment)> = Vec::new();
    for one in saved.surroundings.iter().filter(|one| one.at == "start") {
        let (experiment, arm) =
            run_of(saved, one).map_or(("", ""), |run| (&run.head.experiment, &run.head.arm));
        let place = [&one.side, &one.host, experiment, arm];
        let Ok(now) = serde_json::from_value::<Environment>(one.environment.clone()) else { continue };
        let before = starts.iter().rfind(|(other, _)| *other == place);
        if let Some((_, before)) = before {
            let rows = changes(before, &now);
            if let Some(row) = unexplained(&rows).next() {
                let name = clipped(&format!("{}/{}", row.group, row.name));
                let (was, is) = (clipped(exposed(row.a.as_ref())), clipped(exposed(row.b.as_ref())));
                return Some(format!("between two runs {name} went from {was} to {is}"));
            }
        }
        starts.push((place, now));
    }
    None
}

/// All doubts, one of each kind, the heaviest first.
pub(crate) fn all(view: &View<'_>) -> Vec<Doubt> {
    let mut all = view.doubts.clone();
    for run in &view.runs {
        for gate in run.gates.iter().filter(|gate| gate.colour != Colour::Green && !is_answer(view, gate)) {
            let number = run.run.head.run;
            match all.iter_mut().find(|doubt| (doubt.colour, &doubt.kind) == (gate.colour, &gate.name)) {
                Some(doubt) => doubt.runs.push(number),
                None => all.push(Doubt {
                    colour: gate.colour,
                    kind: gate.name.clone(),
                    text: clipped(&gate.words),
                    runs: vec![number],
                }),
            }
        }
    }
    all.sort_by_key(|doubt| std::cmp::Reverse(doubt.colour));
    all
}

/// A rate that was not answered is what a search looks for, and no reason to doubt it.
fn is_answer(view: &View<'_>, gate: &Gate) -> bool {
    view.found.is_some() && gate.name == "achieved"
}

/// A value as a table shows it.
pub(crate) fn exposed(value: Option<&String>) -> &str {
    value.map_or(NOT_EXPOSED, String::as_str)
}

/// A foreign text, no longer than a sentence.
pub(crate) fn clipped(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(CHARS_MAX).map(visible).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}
