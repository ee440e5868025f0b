//! What speaks against believing a number: shown above the number, never below it.

use crate::analysis::gates::{Colour, Gate};
use crate::environment::{Environment, NOT_EXPOSED, difference, unexplained};
use crate::result::{Saved, Surroundings};

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
pub(crate) fn of_whole(saved: &Saved, may_differ: &[String], is_question_read: bool) -> Vec<Doubt> {
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
    for [first, second] in sides(saved) {
        let rows = difference(&first.1, &second.1, may_differ);
        let names: Vec<String> =
            unexplained(&rows).map(|row| clipped(&format!("{}/{}", row.group, row.name))).collect();
        if !names.is_empty() {
            let more = names.len().saturating_sub(NAMES_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let shown = names[..names.len().min(NAMES_MAX)].join(", ");
            let text = format!(
                "{} and {} differ in what nobody declared, {shown}{more}; see the table of the machines",
                first.0, second.0
            );
            add(Colour::Red, "unexplained difference", text);
        }
    }
    doubts
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

/// The environments that must be alike, two by two with their names: A and B, on each side; start and end where there is
/// one set-up alone.
pub(crate) fn sides(saved: &Saved) -> Vec<[(String, Environment); 2]> {
    let arm_of = |run: Option<u32>| {
        let run = saved.runs.iter().find(|other| Some(other.head.run) == run);
        run.map_or("", |run| run.head.arm.as_str())
    };
    let read = |one: &Surroundings| serde_json::from_value::<Environment>(one.environment.clone()).ok();
    let mut pairs = Vec::new();
    for side in ["client", "server"] {
        let of_side = || saved.surroundings.iter().filter(|one| one.side == side);
        let of_arm = |arm: &str| of_side().find(|one| arm_of(one.run) == arm).and_then(read);
        let start = || of_side().find(|one| one.at == "start").and_then(read);
        let end = || of_side().rfind(|one| one.at == "end").and_then(read);
        if let (Some(a), Some(b)) = (of_arm("a"), of_arm("b")) {
            pairs.push([(format!("A's {side}"), a), (format!("B's {side}"), b)]);
        } else if let (Some(start), Some(end)) = (start(), end()) {
            pairs.push([(format!("the {side} at the start"), start), ("at the end".to_owned(), end)]);
        }
    }
    pairs
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
