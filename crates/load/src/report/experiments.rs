//! The page of the published experiments: a verdict for each, then each with its figure, its numbers beside the published ones, and
//! what is smaller or missing here.

mod drawn;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::answer::Tone;
use super::date::date;
use super::doubts::clipped;
use super::figures::Table;
use super::page::{
    ENVIRONMENT_ROWS_MAX, PAGE_SIZE_MAX, POLICY, SCRIPT, STYLE, command, legend, machine_tables, table,
    tone_class,
};
use super::{picture, unbroken};
use crate::analysis::machines::{Machines, alone, between_setups, run_of};
use crate::environment::Environment;
use crate::experiments::{Evaluation, Finding, Id, Preset, Repetition, Row, State, Step, Unit, ingredients};
use crate::number;
use crate::result::Saved;
use crate::statistics::verdict::Word;

/// What this page has beside what all have.
const OWN_STYLE: &str = include_str!("experiments/style.css");
/// Runs that were left out, in the list of an experiment.
const DROPPED_MAX: usize = 60;

/// One file with all experiments of a repetition, at most [`PAGE_SIZE_MAX`] bytes. The same result gives the same page.
pub fn page(repetition: &Repetition) -> String {
    let evaluations = repetition.evaluations();
    let mut rows_max = ENVIRONMENT_ROWS_MAX;
    let mut text = document(repetition, &evaluations, rows_max);
    // Machines are foreign and as many as there are agents; all else has its limit.
    while text.len() > PAGE_SIZE_MAX && rows_max > 0 {
        rows_max /= 2;
        text = document(repetition, &evaluations, rows_max);
    }
    text
}

/// Each experiment's figure as a file of its own, by its name without folder.
pub fn files(repetition: &Repetition) -> Vec<(String, String)> {
    let head = &repetition.saved.head;
    let evaluations = repetition.evaluations();
    let file = |evaluation: &Evaluation| {
        let figure = drawn::figure(evaluation)?;
        let short = evaluation.cut().map(|words| clipped(&words));
        let mark = if is_quick(evaluation) { " (quick form)" } else { "" };
        let title = format!("{}: {}{mark}", evaluation.planned.id, figure.title);
        let text =
            picture::file(head, [&title, &figure.svg.finding], &figure.keys, &figure.svg, short.as_deref());
        Some((format!("{}.svg", evaluation.planned.id), text))
    };
    evaluations.iter().filter_map(file).collect()
}

fn document(repetition: &Repetition, evaluations: &[Evaluation], machine_rows_max: usize) -> String {
    let head = &repetition.saved.head;
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { "Expresslane: the published experiments, here" }
                style { (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
            }
            body {
                header {
                    span {
                        "Expresslane bench reproduce · " (date(head.began_unix_ms))
                        @if !head.version.is_empty() { " · version " (clipped(&head.version)) }
                    }
                    fieldset {
                        legend { "Theme" }
                        @for (id, name) in [("system", "as the system's"), ("light", "light"), ("dark", "dark")] {
                            label { input type="radio" name="theme" id=(id) checked[id == "system"]; " " (name) }
                        }
                    }
                }
                main {
                    h1 { @if evaluations.iter().any(is_quick) { (quick()) " " } (sentence(evaluations)) }
                    (cut(repetition, evaluations))
                    div.verdicts { @for evaluation in evaluations { (card(evaluation)) } }
                    (reading())
                    @for evaluation in evaluations { (experiment(evaluation)) }
                    h2 { "To repeat it" }
                    pre { (command(&head.command)) }
                    (machines(&repetition.saved, evaluations, machine_rows_max))
                }
                footer { p { "Made by expresslane bench report from the saved result; the same file makes the same page." } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    unbroken::page(&whole.into_string())
}

fn is_quick(evaluation: &Evaluation) -> bool {
    evaluation.planned.scale.is_quick
}

fn quick() -> Markup {
    html! { span.quick { "quick" } }
}

fn mark(evaluation: &Evaluation) -> Markup {
    html! { @if is_quick(evaluation) { (quick()) " " } }
}

/// What there is less of than was planned.
fn cut(repetition: &Repetition, evaluations: &[Evaluation]) -> Markup {
    let is_whole = repetition.saved.is_complete;
    let short: Vec<(Id, String)> =
        evaluations.iter().filter_map(|it| Some((it.planned.id, it.cut()?))).collect();
    html! {
        @if !is_whole || !short.is_empty() {
            ul.doubts {
                @if !is_whole {
                    li.amber { b { "Cut file" } ": it ends before the experiments did; this is what there is." }
                }
                @for (id, words) in short { li.amber { b { (id) } ": " (words) } }
            }
        }
    }
}

fn sentence(evaluations: &[Evaluation]) -> String {
    let count = |of: fn(&Evaluation) -> bool| evaluations.iter().filter(|evaluation| of(evaluation)).count();
    let repeated = count(|evaluation| !matches!(evaluation.finding, Finding::StandIn(_)));
    let reproduced = count(|evaluation| evaluation.finding == Finding::Reproduced);
    let all = format!("the {} experiments", evaluations.len());
    match (evaluations, repeated) {
        ([], _) => "Nothing was measured.".to_owned(),
        ([only], 0) => format!(
            "{} can't be repeated as published on this machine; this is what set-ups that it does have differ by, under \
             the published load.",
            only.planned.id
        ),
        ([only], _) => format!("{} ran as published: {}.", only.planned.id, words(only.finding).0),
        (_, 0) => format!(
            "Of {all} none can be repeated as published on this machine; this is what set-ups that it does have \
             differ by, under the published loads."
        ),
        _ => format!("Of {all} {repeated} ran as published; reproduced: {reproduced}."),
    }
}

/// The word of a finding, how it is coloured, and what else is said of it.
fn words(finding: Finding) -> (&'static str, Option<(Tone, String)>) {
    let tone = |word| match word {
        Word::Better | Word::BetterButSmall | Word::Same => Tone::Good,
        Word::Worse | Word::WorseButSmall => Tone::Bad,
        Word::CantTell => Tone::Open,
    };
    match finding {
        Finding::Reproduced => ("reproduced", None),
        Finding::NotReproduced => ("not reproduced", None),
        Finding::CantTell => ("can't tell", None),
        Finding::StandIn(None) => ("no repetition", Some((Tone::Open, "too few pairs to tell".to_owned()))),
        Finding::StandIn(Some(word)) => ("no repetition", Some((tone(word), word.to_string()))),
    }
}

fn verdict(evaluation: &Evaluation) -> Markup {
    let (word, more) = words(evaluation.finding);
    let class = match evaluation.finding {
        Finding::Reproduced => "better",
        Finding::NotReproduced => "worse",
        _ => "open",
    };
    html! {
        b.word.(class) { (word) }
        @if let Some((tone, text)) = more { " " b.word.(tone_class(tone)) { (text) } }
    }
}

fn card(evaluation: &Evaluation) -> Markup {
    let preset = Preset::of(evaluation.planned.id);
    let first = evaluation.rows.first();
    html! {
        section.tile {
            h3 { a href={ "#" (preset.id) } { (preset.id) " " (preset.title) } }
            p { (mark(evaluation)) (verdict(evaluation)) }
            @if let Some(row) = first {
                @let (from, to) = names(evaluation, &row.step);
                p { (from) " → " (to) }
                p.big { (value(row, row.from)) " → " (value(row, row.to)) }
                p { (row.name) @if let Some(limited) = limited(row) { ", " (limited) } }
            }
        }
    }
}

fn reading() -> Markup {
    html! {
        p {
            "Published figures stand beside ours and are not their measure: "
            span.stand-in { "(grey, in parentheses)" }
            " where another protocol than the published one was measured. “Reproduced” is a word for repetitions over the same "
            "protocol and topology alone. The two values are middles over pairs of runs; a change has an interval from six pairs on. "
            "“Load-limited”: the load was the limit there, so that server may do better than the figure says. "
            "“Quick”: the short form, with too few pairs to call a difference."
        }
    }
}

fn experiment(evaluation: &Evaluation) -> Markup {
    let planned = &evaluation.planned;
    let preset = Preset::of(planned.id);
    let whole = planned.steps.iter().filter(|step| step.is_whole);
    html! {
        section id=(planned.id) {
            h2 {
                (mark(evaluation)) (planned.id) " " (preset.title)
            }
            p { "Published: " (preset.source) ", " (preset.compared) "." }
            p.verdict { (mark(evaluation)) (verdict(evaluation)) " " (clipped(&evaluation.sentence())) }
            @if !planned.mismatches.is_empty() {
                ul.plain aria-label="Why it is no repetition" {
                    @for why in &planned.mismatches { li { "Not comparable: " (clipped(why)) "." } }
                }
            }
            @if let Some(figure) = drawn::figure(evaluation) {
                figure id=(figure.id) {
                    h3 { (mark(evaluation)) (figure.title) }
                    p { (figure.finding) }
                    (legend(&figure.keys))
                    (PreEscaped(figure.svg.element()))
                    figcaption { details { summary { "The numbers" } (table(&figure.table)) } }
                }
            }
            @for step in whole { (of_step(evaluation, step)) }
            (single_steps(evaluation))
            (meanings(evaluation))
            @if evaluation.rows.iter().any(|row| row.is_doubtful) {
                p { "?: not one pair counts, so nothing is concluded; the runs that were left out stand below." }
            }
            @if let Some(check) = &evaluation.readers_check {
                p { b { "A reader's check of the published figures: " } (check) "." }
            }
            (here(evaluation))
        }
    }
}

/// All numbers of a step.
fn of_step(evaluation: &Evaluation, step: &Step) -> Markup {
    let rows: Vec<&Row> = evaluation.rows.iter().filter(|row| row.step == *step).collect();
    let (from, to) = names(evaluation, step);
    html! {
        @if !rows.is_empty() {
            h3 {
                (mark(evaluation)) (from) " → " (to)
                @if step.published.is_empty() { span.aside { " was not published" } }
                @else if evaluation.planned.stands_in(step) { span.aside { " was published of another protocol" } }
            }
            (numbers(evaluation, &rows, &from, &to))
        }
    }
}

/// What the numbers of an experiment are. Those of several sizes are told once.
fn meanings(evaluation: &Evaluation) -> Markup {
    let mut shown = Table::new(["number", "what it is"]);
    for figure in Preset::of(evaluation.planned.id).figures {
        let (name, what) = (figure.name.trim().to_owned(), figure.measure.meaning());
        if shown.rows.iter().all(|row| row[1] != what) {
            shown.rows.push(vec![name, what.to_owned()]);
        }
    }
    html! { details { summary { (mark(evaluation)) "What these numbers are" } (table(&shown)) } }
}

/// Steps of which one number is told.
fn single_steps(evaluation: &Evaluation) -> Markup {
    let rows: Vec<&Row> = evaluation.rows.iter().filter(|row| !row.step.is_whole).collect();
    html! {
        @if !rows.is_empty() {
            h3 { (mark(evaluation)) "Step by step: " (evaluation.point_name) }
            (numbers(evaluation, &rows, "from", "to"))
        }
    }
}

fn numbers(evaluation: &Evaluation, rows: &[&Row], from: &str, to: &str) -> Markup {
    let has_published = rows.iter().any(|row| !row.published.is_empty());
    let mark = if is_quick(evaluation) { "quick: " } else { "" };
    html! {
        div.wide tabindex="0" role="region" aria-label="Numbers" {
            table {
                thead { tr {
                    th scope="col" { "number" }
                    @if has_published { th scope="col" { "published" } }
                    th scope="col" { (from) }
                    th scope="col" { (to) }
                    th scope="col" { "change" }
                    th scope="col" { "95 %" }
                    th scope="col" { "verdict" }
                } }
                tbody { @for row in rows { tr {
                    td { (row.name) }
                    @if has_published { td.number { (published(evaluation, row)) } }
                    td.number { (value(row, row.from)) }
                    td.number { (value(row, row.to)) }
                    td.number { @if let Some(change) = &row.change { (number::change(change.share())) } @else { "–" } }
                    td.number { @if let Some(change) = &row.change { (number::change_interval(change.share_interval())) } @else { "–" } }
                    td.told { (mark) (told(row)) }
                } } }
            }
        }
    }
}

fn published(evaluation: &Evaluation, row: &Row) -> Markup {
    let shown: Vec<String> = row.published.iter().map(|value| text(row.unit, *value)).collect();
    let shown = shown.join(" → ");
    let headline =
        row.headline_percent.map(|percent| format!("headline {}", number::change(percent / 100.0)));
    html! {
        @if shown.is_empty() { "–" }
        @else if evaluation.planned.stands_in(&row.step) { span.stand-in { "(" (shown) ")" } }
        @else { (shown) }
        @if let Some(headline) = headline { br; span.aside { (headline) } }
    }
}

/// What is said of a row.
fn told(row: &Row) -> String {
    let word = match (&row.change, row.verdict) {
        (None, _) if row.is_doubtful => "not one pair counts".to_owned(),
        (None, _) => format!("{} pairs, too few", row.pairs_count),
        (Some(_), None) => "neither way is good".to_owned(),
        (Some(_), Some(verdict)) => verdict.to_string(),
    };
    limited(row).map_or(word.clone(), |limited| format!("{word}, {limited}"))
}

fn limited(row: &Row) -> Option<&'static str> {
    match row.is_load_limited {
        [false, false] => None,
        [false, true] => Some("load-limited in the second"),
        [true, false] => Some("load-limited in the first"),
        [true, true] => Some("load-limited in both"),
    }
}

fn value(row: &Row, value: Option<f64>) -> String {
    let doubt = if row.is_doubtful { " ?" } else { "" };
    value.map_or_else(|| "–".to_owned(), |value| text(row.unit, value) + doubt)
}

fn text(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Time => number::time(value),
        Unit::PerSecond if value >= 1e6 => format!("{} M/s", number::plain(value / 1e6)),
        Unit::PerSecond => format!("{}/s", number::plain(value)),
        Unit::Share => number::percent(value),
        Unit::Ratio => number::plain(value),
    }
}

fn names(evaluation: &Evaluation, step: &Step) -> (String, String) {
    let name = |arm: &str| evaluation.planned.arm(arm).map_or(arm, |arm| &arm.name).to_owned();
    (clipped(&name(&step.from)), clipped(&name(&step.to)))
}

/// How it differs from what was published, and what did not count.
fn here(evaluation: &Evaluation) -> Markup {
    let planned = &evaluation.planned;
    let mut shrunk = Table::new(["what", "published", "here"]);
    let cells =
        planned.shrunk.iter().map(|row| vec![row.what.clone(), row.published.clone(), row.here.clone()]);
    shrunk.rows.extend(cells);
    let mut missing = Table::new(["not to be had here", "why"]);
    missing.rows.extend(planned.missing.iter().map(|row| vec![clipped(&row.what), clipped(&row.why)]));
    let more = evaluation.dropped.len().saturating_sub(DROPPED_MAX);
    let name = |arm: &str| clipped(planned.arm(arm).map_or(arm, |arm| &arm.name));
    html! {
        h3 { (mark(evaluation)) "Published → here" }
        (table(&shrunk))
        @if !planned.tuned.is_empty() {
            ul.plain { @for tuned in &planned.tuned { li { "On both sides, " (tuned.what) ": " (tuned.how) "." } } }
        }
        @if !planned.missing.is_empty() { (table(&missing)) }
        @if planned.id == Id::E5 { (all_ingredients(planned.agents_count > 0)) }
        @for limited in &evaluation.limited {
            p {
                b { "Load-limited" } ": " (name(&limited.arm)) ", in " (limited.count) " of " (limited.of) " runs; in the first of them "
                (clipped(&limited.words)) "."
            }
        }
        @if !evaluation.dropped.is_empty() {
            details {
                summary { "Runs that don't count (" (evaluation.dropped.len()) ")" }
                ul.plain {
                    @for (arm, pair, why) in evaluation.dropped.iter().take(DROPPED_MAX) {
                        li { (mark(evaluation)) (name(arm)) ", pair " (pair + 1) ": " (clipped(why)) }
                    }
                    @if more > 0 { li { "and " (more) " more" } }
                }
            }
        }
    }
}

fn all_ingredients(has_agents: bool) -> Markup {
    let mut shown = Table::new(["ingredient", "what becomes of it", "how, or why not"]);
    for ingredient in ingredients(has_agents) {
        let state = match ingredient.state {
            State::Always => "always in",
            State::Switched => "switched",
            State::Missing => "missing",
        };
        let name = format!("{}. {}", ingredient.number, ingredient.name);
        shown.rows.push(vec![name, state.to_owned(), ingredient.why]);
    }
    table(&shown)
}

/// The machine beside the two set-ups that a finding rests on: their difference, and once all that is the same; of an experiment
/// that was cut before both ran, beside the one that did. Then each agent's, at the start and at the end.
fn machines(saved: &Saved, evaluations: &[Evaluation], rows_max: usize) -> Markup {
    let of = |id: Id, arm: &str| -> Option<Environment> {
        let found = saved.surroundings.iter().find(|one| {
            run_of(saved, one).is_some_and(|run| run.head.experiment == id.to_string() && run.head.arm == arm)
        })?;
        serde_json::from_value(found.environment.clone()).ok()
    };
    let mut tables = Vec::new();
    for evaluation in evaluations {
        let Some(step) = evaluation.planned.steps.first() else { continue };
        let id = evaluation.planned.id;
        let (from, to) = names(evaluation, step);
        tables.push(match (of(id, &step.from), of(id, &step.to)) {
            (Some(a), Some(b)) => (id, from, Some(to), between_setups(&a, &b, &[])),
            (Some(a), None) => (id, from, None, alone(&a)),
            (None, Some(b)) => (id, to, None, alone(&b)),
            (None, None) => continue,
        });
    }
    let agents = Machines::of_agents(saved);
    html! {
        @if !tables.is_empty() || !agents.is_empty() { h2 { "The machines" } }
        @for (at, (id, first, second, rows)) in tables.iter().enumerate() {
            h3 {
                (id) ": beside " (first) @if let Some(second) = second { " and " (second) } @else { " alone: no other was captured" }
            }
            (machine_tables(rows, (first, second.as_deref()), at == 0, rows_max))
        }
        @for one in &agents {
            h3 { (one.title()) }
            (machine_tables(&one.rows, (&one.first, one.second.as_deref()), true, rows_max))
        }
    }
}

#[cfg(test)]
mod tests;
