//! The report: one HTML file that asks the network for nothing and is readable without its script.
//!
//! In the order of its readers: the answer and what speaks against it; figures, each with its numbers in a table; then for
//! who wants to do it again the commands, the machines with their differences, and every run with its doubts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::answer::{Answer, Tile, Tone, answer, capital};
use super::date::date;
use super::doubts::{self, clipped, exposed};
use super::figures::{self, Figure, Key, Table};
use super::label::{MEANINGS, label, meaning, shown_or_not};
use super::svg::Short;
use super::unbroken;
use super::view::{Arm, Placed, View};
use crate::analysis::Metric;
use crate::analysis::gates::Colour;
use crate::analysis::machines::Machines;
use crate::environment::{Kind, Row, unexplained};
use crate::number;
use crate::result::Saved;

/// Bytes of a page at most.
pub const PAGE_SIZE_MAX: usize = 1_000_000;
/// Runs in the table of all runs; a result with more says so.
const RUNS_MAX: usize = 300;
/// Rows in the table of the machines, each.
pub(super) const ENVIRONMENT_ROWS_MAX: usize = 600;
/// Rows in the table of what changed during runs.
const UNREST_ROWS_MAX: usize = 100;
/// Runs named in a doubt.
const NAMED_MAX: usize = 12;
/// Half the width of the drawn interval of a tile, in its units, and the greatest change that fits.
const TILE_WIDTH: f64 = 160.0;

/// Of figures first: what the page says of its own letters comes after it.
pub(super) const STYLE: &str = concat!(include_str!("figures.css"), include_str!("style.css"));
pub(super) const SCRIPT: &str = include_str!("script.js");
const READOUT: &str = include_str!("readout.js");
/// Nothing may be fetched, and nothing sent.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// The report of a result, at most [`PAGE_SIZE_MAX`] bytes. The same result gives the same page.
pub fn page(saved: &Saved) -> String {
    let view = View::of(saved);
    let mut figures = figures::all(&view);
    let answer = answer(&view);
    let mut text = document(&view, &answer, &figures, ENVIRONMENT_ROWS_MAX);
    // Every part has its limit; should their sum ever be too large, pictures go before words do, the last first, and the
    // machines, whose values are foreign and long, last of all.
    while text.len() > PAGE_SIZE_MAX && figures.pop().is_some() {
        text = document(&view, &answer, &figures, ENVIRONMENT_ROWS_MAX);
    }
    let mut rows = ENVIRONMENT_ROWS_MAX;
    while text.len() > PAGE_SIZE_MAX && rows > 0 {
        rows /= 2;
        text = document(&view, &answer, &figures, rows);
    }
    text
}

fn document(view: &View<'_>, answer: &Answer, figures: &[Figure], machine_rows_max: usize) -> String {
    let head = &view.saved.head;
    let title = format!("Expresslane bench {}", clipped(&head.kind));
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    span { (title) " · " (date(head.began_unix_ms)) @if !head.version.is_empty() { " · version " (clipped(&head.version)) } }
                    fieldset {
                        legend { "Theme" }
                        @for (id, name) in [("system", "as the system's"), ("light", "light"), ("dark", "dark")] {
                            label { input type="radio" name="theme" id=(id) checked[id == "system"]; " " (name) }
                        }
                    }
                }
                main {
                    (first(view, answer))
                    @if !figures.is_empty() {
                        h2 { "Figures" }
                        @for figure in figures { (shown(view, figure)) }
                    }
                    @if view.is_comparison() && !view.compared.is_empty() {
                        h2 { "Every metric" }
                        (metrics(view))
                    }
                    h2 { "How it was measured" }
                    (method(view))
                    (machines(view, machine_rows_max))
                    h2 { "Every run" }
                    (runs(view))
                }
                footer { p { "Made by expresslane bench report from the saved result; the same file makes the same page." } }
                script { (PreEscaped(SCRIPT)) (PreEscaped(READOUT)) }
            }
        }
    };
    unbroken::page(&whole.into_string())
}

fn first(view: &View<'_>, answer: &Answer) -> Markup {
    html! {
        h1 { @if view.is_quick { span.quick { "quick" } " " } (answer.sentence) }
        @for (tone, word, rest) in &answer.verdicts {
            p.verdict { b class=(tone_class(*tone)) { (word) } " " (rest) }
        }
        (doubts(view))
        @if !answer.tiles.is_empty() {
            div.tiles { @for tile in &answer.tiles { (tile_shown(tile)) } }
            (meanings())
        }
    }
}

/// What the numbers of the page are, for whom their names don't say it.
fn meanings() -> Markup {
    let mut shown = Table::new(["number", "what it is"]);
    let metrics = Metric::all().map(|metric| (label(metric), meaning(metric)));
    shown.rows.extend(metrics.chain(MEANINGS).map(|(name, what)| vec![name.to_owned(), what.to_owned()]));
    html! { details { summary { "What these numbers are" } (table(&shown)) } }
}

pub(super) fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "better",
        Tone::Bad => "worse",
        Tone::Open => "open",
    }
}

fn doubts(view: &View<'_>) -> Markup {
    let all = doubts::all(view);
    let is_one = view.runs.len() == 1;
    html! {
        @if !all.is_empty() {
            ul.doubts aria-label="What speaks against it" {
                @for doubt in &all {
                    li class=(colour_word(doubt.colour)) {
                        b { (capital(&doubt.kind)) } ": " (doubt.text) "."
                        @if !doubt.runs.is_empty() && !is_one { " " (named_runs(&doubt.runs)) }
                    }
                }
            }
        }
    }
}

fn named_runs(runs: &[u32]) -> String {
    let shown: Vec<String> = runs.iter().take(NAMED_MAX).map(u32::to_string).collect();
    let more = runs.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match runs {
        [one] => format!("Run {one}."),
        _ => format!("Runs {}{more}; the words are the first one's.", shown.join(", ")),
    }
}

fn colour_word(colour: Colour) -> &'static str {
    match colour {
        Colour::Green => "green",
        Colour::Amber => "amber",
        Colour::Red => "red",
    }
}

fn tile_shown(tile: &Tile) -> Markup {
    html! {
        section.tile {
            h3 { (tile.title) }
            div.big { (tile.big) }
            @if let Some((share, interval)) = tile.change {
                (whisker(share, (interval.low, interval.high)))
            }
            @for line in &tile.lines { p { (line) } }
        }
    }
}

/// The interval of a change about the line of no change.
fn whisker(share: f64, (low, high): (f64, f64)) -> Markup {
    let reach = [share, low, high].into_iter().map(f64::abs).fold(0.05, f64::max) * 1.1;
    let at = |value: f64| Short(TILE_WIDTH / 2.0 * (1.0 + (value / reach).clamp(-1.0, 1.0))).to_string();
    html! {
        svg viewBox={ "0 0 " (Short(TILE_WIDTH)) " 18" } aria-hidden="true" preserveAspectRatio="none" {
            path.rule d={ "M" (at(0.0)) " 0V18" } {}
            path.whisker d={ "M" (at(low)) " 9H" (at(high)) } {}
            path.estimate d={ "M" (at(share)) " 4V14" } {}
        }
    }
}

fn shown(view: &View<'_>, figure: &Figure) -> Markup {
    html! {
        figure id=(figure.id) {
            h3 { (figure.title) @if view.is_quick { " " span.quick { "quick" } } }
            p { @if view.is_comparison() { (figure.finding) } @else { (capital(&figure.finding)) } }
            (legend(&figures::keys(view, figure)))
            (PreEscaped(figure.svg.element()))
            figcaption {
                (figure.reading)
                details { summary { "The numbers" } (table(&figure.table)) }
                @if let Some(more) = &figure.more {
                    details { summary { (more.title) } (table(&more.table)) }
                    script type="application/json" { (PreEscaped(&more.data)) }
                }
            }
        }
    }
}

pub(super) fn legend(keys: &[Key]) -> Markup {
    html! {
        @if !keys.is_empty() {
            div.legend { @for key in keys { span { (sample(key)) " " (key.name) } } }
        }
    }
}

fn sample(key: &Key) -> Markup {
    html! {
        svg viewBox="0 0 44 14" aria-hidden="true" {
            path class=(key.line) d="M0 7H44" {}
            @if key.is_b { path class="mark b" d="M22 7m-5 4l5-9l5 9z" {} }
            @else { circle class="mark a" cx="22" cy="7" r="4" {} }
        }
    }
}

pub(super) fn table(table: &Table) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Table" {
            table {
                thead { tr { @for head in &table.head { th scope="col" { (head) } } } }
                tbody { @for row in &table.rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

fn metrics(view: &View<'_>) -> Markup {
    let (a, b) = (view.name(Arm::A), view.name(Arm::B));
    let mut shown =
        Table::new(["metric", a, b, "change", "95 % interval", "verdict", "p", "shows", "Student's t"]);
    for compared in &view.compared {
        let (a, b) = (compared.median(|pair| pair.0), compared.median(|pair| pair.1));
        let mut row = vec![compared.label.to_owned(), a, b];
        match &compared.judged {
            Some((change, verdict)) => row.extend([
                number::change(change.share()),
                number::change_interval(change.share_interval()),
                verdict.word.to_string(),
                number::plain(verdict.p_value),
                format!("≥ {}", number::percent(verdict.smallest_effect)),
                number::change_interval(change.student.interval.map(f64::exp_m1)),
            ]),
            None => row.extend(["–".to_owned(), "not told by these pairs".to_owned()]),
        }
        shown.rows.push(row);
    }
    html! {
        p {
            "Medians of the pairs; the change is the Hodges–Lehmann estimate of B ÷ A with its exact signed-rank interval. "
            "The verdict on the first row was asked for beforehand, the others are adjusted for their number (Holm). "
            "“Shows”: the smallest change that these pairs find in four experiments of five."
        }
        (table(&shown))
    }
}

fn method(view: &View<'_>) -> Markup {
    let head = &view.saved.head;
    let first = view.runs.first().map(|run| &run.run.head);
    html! {
        @if !head.command.is_empty() {
            p { "To repeat it:" }
            pre { (command(&head.command)) }
        }
        @if let Some(first) = first {
            (facts(first, view.runs.len()))
        }
        @if !head.plan.is_null() {
            details { summary { "The plan" } pre { (clipped_plan(&head.plan)) } }
        }
    }
}

fn facts(head: &crate::result::RunHead, runs_count: usize) -> Markup {
    let workload = &head.workload;
    let pace = match head.rate {
        Some(rate) => format!("{} requests/s, {}", number::plain(rate), clipped(&head.arrivals)),
        None => format!(
            "closed: a connection asks again when {} answered",
            if head.pipeline > 1 { "its batch is" } else { "it is" }
        ),
    };
    let warm_up =
        head.warm_up_s.map_or_else(|| "until steady (MSER-5)".to_owned(), |seconds| format!("{seconds} s"));
    let ttl = workload.ttl_s.map_or_else(|| "none".to_owned(), |seconds| format!("{seconds} s"));
    let rows = [
        ("protocol", clipped(&head.protocol)),
        ("operations", workload.operations.to_string()),
        ("keys", format!("{}, {}", number::count(workload.key_count), workload.key_distribution)),
        ("bytes of a value", workload.value_size.to_string()),
        ("expiry", ttl),
        ("values checked", if workload.verify { "yes" } else { "no" }.to_owned()),
        ("pace", pace),
        ("connections", number::count(u64::from(head.connection_count))),
        ("requests at once on each", number::count(u64::from(head.pipeline))),
        ("threads of the load", number::count(u64::from(head.thread_count))),
        ("duration", format!("{} s, warm-up {warm_up}", number::plain(head.duration_s))),
        ("seed", head.seed.to_string()),
    ];
    html! {
        @if runs_count > 1 { p { "The first run; what differs in the others stands in the table of all runs." } }
        div.wide tabindex="0" role="region" aria-label="Workload" {
            table { tbody { @for (name, value) in rows { tr { th scope="row" { (name) } td { (value) } } } } }
        }
    }
}

/// Words as a shell takes them.
pub(super) fn command(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted = words.iter().map(|word| {
        let word = clipped(word);
        if !word.is_empty() && word.chars().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    const WORDS_MAX: usize = 60;
    quoted.take(WORDS_MAX).collect::<Vec<_>>().join(" ")
}

fn clipped_plan(plan: &serde_json::Value) -> String {
    const CHARS_MAX: usize = 20_000;
    let text = serde_json::to_string_pretty(plan).unwrap_or_default();
    text.chars().take(CHARS_MAX).collect()
}

fn machines(view: &View<'_>, rows_max: usize) -> Markup {
    let all = Machines::of(view.saved, &view.declared.may_differ);
    html! {
        @if !all.is_empty() { h2 { "The machines" } }
        @if view.runs.len() > 1 { (unrest(view)) }
        @for one in &all {
            h3 { (one.title()) }
            (machine_tables(&one.rows, (&one.first, one.second.as_deref()), true, rows_max))
        }
    }
}

/// What differs between two captures, and, if it is wanted, folded what does not. Of a single one, what it holds.
pub(super) fn machine_tables(
    rows: &[Row],
    names: (&str, Option<&str>),
    shows_same: bool,
    rows_max: usize,
) -> Markup {
    if names.1.is_none() {
        return html! {
            details { summary { "What was seen (" (rows.len()) ")" } (machine_rows(rows.iter(), names, rows_max)) }
        };
    }
    let (same, differing): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.kind == Kind::Same);
    html! {
        @if differing.is_empty() { p { "No difference was seen." } }
        @else { (machine_rows(differing.into_iter(), names, rows_max)) }
        @if shows_same && !same.is_empty() {
            details {
                summary { "What is the same (" (same.len()) ")" }
                (machine_rows(same.into_iter(), names, rows_max))
            }
        }
    }
}

/// What the machine did while the runs went on; of the moment it says nothing here.
fn unrest(view: &View<'_>) -> Markup {
    let mut shown = Table::new(["run", "what", "before", "after"]);
    for placed in &view.runs {
        for row in placed.run.end.iter().flat_map(|end| unexplained(&end.machine_changes)) {
            shown.rows.push(vec![
                placed.run.head.run.to_string(),
                clipped(&format!("{} / {}", row.group, row.name)),
                clipped(exposed(row.a.as_ref())),
                clipped(exposed(row.b.as_ref())),
            ]);
        }
    }
    let more = shown.rows.len().saturating_sub(UNREST_ROWS_MAX);
    shown.rows.truncate(UNREST_ROWS_MAX);
    html! {
        @if !shown.rows.is_empty() {
            h3 { "What changed while a run went on" }
            (table(&shown))
            @if more > 0 { p { "And " (more) " more: they are in the result's file." } }
        }
    }
}

fn machine_rows<'a>(
    rows: impl ExactSizeIterator<Item = &'a Row>,
    (a, b): (&str, Option<&str>),
    rows_max: usize,
) -> Markup {
    let more = rows.len().saturating_sub(rows_max);
    html! {
        div.wide tabindex="0" role="region" aria-label="Machines" {
            table.machines {
                thead { tr {
                    th scope="col" { "what" }
                    th scope="col" { (a) }
                    @if let Some(b) = b { th scope="col" { (b) } th scope="col" { "same?" } }
                } }
                tbody {
                    @for row in rows.take(rows_max) {
                        tr class=[kind_class(row.kind)] {
                            td { (clipped(&row.group)) " / " (clipped(&row.name)) }
                            td { (clipped(exposed(row.a.as_ref()))) }
                            @if b.is_some() {
                                td { (clipped(exposed(row.b.as_ref()))) }
                                td { (kind_word(row.kind)) }
                            }
                        }
                    }
                }
            }
        }
        @if more > 0 { p { "And " (more) " more rows: they are in the result's file." } }
    }
}

fn kind_class(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Unexplained => Some("differs"),
        Kind::Declared => Some("declared"),
        Kind::Same | Kind::Volatile => None,
    }
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Same => "same",
        Kind::Declared => "differs as declared",
        Kind::Unexplained => "differs, unexplained",
        Kind::Volatile => "differs, of the moment",
    }
}

fn runs(view: &View<'_>) -> Markup {
    let mut shown = Table::new(["run", "began"]);
    if view.is_comparison() {
        shown.head.extend(["set-up".to_owned(), "pair".to_owned()]);
    }
    if let Some(name) = view.swept() {
        shown.head.push(clipped(name));
    }
    let metrics = [Metric::Throughput, Metric::Mean, Metric::P50, Metric::P99, Metric::P999];
    shown.head.extend(metrics.map(|metric| label(metric).to_owned()));
    shown.head.extend(["send lag p99", "in flight", "client", "seconds", "doubts"].map(str::to_owned));
    for placed in view.runs.iter().take(RUNS_MAX) {
        shown.rows.push(run(view, placed, &metrics));
    }
    let more = view.runs.len().saturating_sub(RUNS_MAX);
    html! {
        div.runs { (table(&shown)) }
        @if more > 0 { p { "And " (more) " more: they are in the figures and in the result's file." } }
    }
}

fn run(view: &View<'_>, placed: &Placed<'_>, metrics: &[Metric]) -> Vec<String> {
    let head = &placed.run.head;
    let mut row = vec![head.run.to_string(), date(head.began_unix_ms)];
    if view.is_comparison() {
        let pair = head.pair.map_or_else(|| "–".to_owned(), |pair| pair.to_string());
        row.extend([view.name(placed.arm).to_owned(), pair]);
    }
    if view.swept().is_some() {
        row.push(placed.level().map_or_else(|| "–".to_owned(), number::plain));
    }
    row.extend(metrics.iter().map(|metric| shown_or_not(*metric, placed.value(*metric))));
    row.push(number::time(crate::float::float(placed.figures.send_lag.value_at_quantile(0.99))));
    row.push(match placed.offered_in_flight() {
        Some(offered) => format!("{} of {}", number::plain(placed.in_flight()), number::plain(offered)),
        None => number::plain(placed.in_flight()),
    });
    row.push(placed.thread_use_max().map_or_else(|| "–".to_owned(), number::percent));
    row.push(number::plain(placed.figures.duration_s));
    let gates = placed.gates.iter().filter(|gate| gate.colour != Colour::Green);
    let mut doubts: Vec<String> =
        gates.map(|gate| format!("{}: {}", colour_word(gate.colour), clipped(&gate.name))).collect();
    if placed.is_excluded && view.is_comparison() {
        doubts.insert(0, "left out".to_owned());
    }
    row.push(if doubts.is_empty() { "none".to_owned() } else { doubts.join(", ") });
    row
}
