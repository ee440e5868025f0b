//! A result in 80 columns: what a terminal shows when a load is over. Readable without colours.

use hdrhistogram::Histogram;

use super::answer::answer;
use super::date::date;
use super::doubts;
use super::figures::level_text;
use super::label::{label, shown_or_not};
use super::view::{Arm, Compared, Placed, View};
use crate::analysis::{Metric, Share, Window};
use crate::float::float;
use crate::number;
use crate::result::Saved;
use crate::statistics::Level;
use crate::statistics::quantiles::{NAMED, quantile_ns};
use crate::statistics::verdict::Word;

/// Characters of a line.
const WIDTH: usize = 80;
/// Characters of a column of times.
const COLUMN: usize = 10;
/// Characters of a set-up's name above its column.
const COLUMN_A_B: usize = 9;
/// Lines of a table of runs.
const RUNS_MAX: usize = 60;
/// What is not parted from the number before it.
const UNITS: [&str; 6] = ["%", "ns", "µs", "ms", "requests/s", "cpus"];
/// A space that breaks no line.
const HELD: char = '\u{a0}';
/// Instead of a percentile that too few requests tell.
const NOT_TOLD: &str = "–";

/// The text for a result, each line at most 80 characters and the last with its end.
pub fn summary(saved: &Saved) -> String {
    let view = View::of(saved);
    let mut text = Text::default();
    let kind = format!("expresslane bench {}", doubts::clipped(&saved.head.kind));
    let began = date(saved.head.began_unix_ms);
    text.line(&format!("{kind}{began:>0$}", WIDTH.saturating_sub(kind.chars().count())));
    let answer = answer(&view);
    text.wrapped("", &answer.sentence);
    for (_, word, rest) in &answer.verdicts {
        text.wrapped("", &format!("{}: {rest}", word.to_uppercase()));
    }
    text.line("");
    match &view.runs[..] {
        [run] => one(&mut text, run),
        // Where no pair counts there is nothing to compare.
        _ if view.is_comparison() && view.compared.is_empty() => {}
        _ if view.is_comparison() => compared(&mut text, &view),
        _ => runs(&mut text, &view),
    }
    for doubt in doubts::all(&view) {
        let colour = format!("{:?}", doubt.colour).to_uppercase();
        let whose = match doubt.runs[..] {
            [_, _, ..] => format!(" ({} runs)", doubt.runs.len()),
            _ => String::new(),
        };
        text.wrapped("  ", &format!("{colour} {}{whose}: {}", doubt.kind, doubt.text));
    }
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    /// A line, cut where it is too long.
    fn line(&mut self, line: &str) {
        let plain = line.trim_end().chars().map(|c| if c == HELD { ' ' } else { c });
        self.0.extend(plain.take(WIDTH));
        self.0.push('\n');
    }

    /// A sentence over several lines, those after the first with `indent`.
    fn wrapped(&mut self, indent: &str, sentence: &str) {
        let mut line = String::new();
        // A number and its unit stay together.
        let held = UNITS.iter().fold(sentence.to_owned(), |text, unit| {
            text.replace(&format!(" {unit}"), &format!("{HELD}{unit}"))
        });
        for word in held.split([' ', '\n']).filter(|word| !word.is_empty()) {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.line(&line);
                line = indent.to_owned();
            } else if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        self.line(&line);
    }

    /// A sentence beside its name.
    fn named(&mut self, name: &str, sentence: &str) {
        let name = format!("{name:<COLUMN$}").replace(' ', &HELD.to_string());
        self.wrapped(&" ".repeat(COLUMN), &format!("{name}{sentence}"));
    }

    fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        let cells: String = cells.into_iter().map(|cell| format!("{cell:>COLUMN$}")).collect();
        self.line(&format!("{name:<COLUMN$}{cells}"));
    }
}

fn one(text: &mut Text, run: &Placed<'_>) {
    let names = NAMED.map(|(name, _)| name.to_owned());
    let head = std::iter::once("mean".to_owned()).chain(names).chain(["max".to_owned()]);
    text.row("", head);
    let operations = &run.figures.operations;
    for (operation, share) in operations {
        of_share(text, &operation.to_string(), share);
    }
    if operations.len() > 1 {
        of_share(text, "all", &run.figures.total);
    }
    times(text, "send lag", &run.figures.send_lag);
    let is_untold = NAMED.iter().any(|(_, quantile)| quantile_ns(run.response(), *quantile).is_none());
    if is_untold {
        text.line(&format!("{NOT_TOLD:>3} not resolved: fewer than ten requests lie above it"));
    }
    text.line("");
    let in_flight = match run.offered_in_flight() {
        Some(offered) => {
            let share = number::percent(run.in_flight() / offered);
            format!("{} of {} offered, {share}", number::plain(run.in_flight()), number::plain(offered))
        }
        None => number::plain(run.in_flight()),
    };
    text.line(&format!("in flight {in_flight} (Little: rate × mean service)"));
    for line in super::agents::lines(run) {
        if line.chars().count() > WIDTH { text.named("", line.trim_start()) } else { text.line(&line) }
    }
    if let Some(used) = run.thread_use_max() {
        text.line(&format!("client    {} of a core, its busiest thread", number::percent(used)));
    }
    if let Some(ns) = run.value(Metric::ServerCpu) {
        text.line(&format!("server    {} of CPU a request", number::time(ns)));
    }
    text.named("counted", &format!("{} s; {}", number::plain(run.figures.duration_s), left_out(run)));
    text.named("drift", &drift(run));
}

/// Seconds that don't count, and who said so.
fn left_out(run: &Placed<'_>) -> String {
    let window = Window::of(run.run);
    let who = match (run.run.head.warm_up_s, window.is_steady) {
        (Some(_), _) => "as asked",
        (None, Some(true)) => "as MSER-5 sees it",
        (None, Some(false)) => "whose end MSER-5 did not see",
        (None, None) => "too short for MSER-5",
    };
    let after = run.run.seconds.len() - run.seconds.len() - window.warm_up_s;
    let after = if after > 0 { ", and the last, which is not whole" } else { "" };
    let ramp = match run.run.head.ramp_s {
        0 => String::new(),
        seconds => format!("ramp {seconds} s, with it "),
    };
    format!("left out: {ramp}warm-up {} s ({who}){after}", window.warm_up_s)
}

/// How far the seconds' means climb or fall from the first to the last.
fn drift(run: &Placed<'_>) -> String {
    let Some(trend) = run.figures.trend(Level::NINETY_FIVE) else {
        return "can't tell: too few seconds".to_owned();
    };
    let interval = number::change_interval(trend.drift_interval);
    let step =
        trend.step.map_or_else(String::new, |step| format!("; a step of {}", number::change(step.share)));
    format!("{}: {} over the run (95 %: {interval}){step}", trend.word(), number::change(trend.drift))
}

fn of_share(text: &mut Text, name: &str, share: &Share) {
    text.line(&format!(
        "{name}: {} replies, {}/s, {} errors, {} misses, {} wrong",
        number::count(share.count),
        number::plain(share.per_second),
        number::count(share.errors),
        number::count(share.misses),
        number::count(share.wrong)
    ));
    times(text, "response", &share.response);
    times(text, "service", &share.service);
}

fn times(text: &mut Text, name: &str, times: &Histogram<u64>) {
    if times.is_empty() {
        return;
    }
    let quantiles = NAMED
        .map(|(_, quantile)| quantile_ns(times, quantile).map_or_else(|| NOT_TOLD.to_owned(), number::time));
    let mean = std::iter::once(number::time(times.mean()));
    text.row(&format!("  {name}"), mean.chain(quantiles).chain([number::time(float(times.max()))]));
}

fn compared(text: &mut Text, view: &View<'_>) {
    let line = |name: &str, cells: [&str; 5]| {
        let [a, b, change, interval, word] = cells;
        format!("{name:<21} {a:>9} {b:>9} {change:>7}  {interval:<18} {word}")
    };
    let names = [Arm::A, Arm::B].map(|arm| view.name(arm));
    let mut heads = names.map(|name| cut(name, COLUMN_A_B));
    // Names that are too long, or alike as far as they fit, stand in the line above.
    if heads.iter().zip(names).any(|(head, name)| head != name) {
        heads = [Arm::A, Arm::B].map(|arm| arm.letter().to_owned());
        text.wrapped("", &format!("A: {}; B: {}", names[0], names[1]));
    }
    text.line(&line("", [&heads[0], &heads[1], "change", "95 %", ""]));
    for compared in &view.compared {
        let (change, interval, word) = match &compared.judged {
            Some((change, verdict)) => (
                number::change(change.share()),
                number::change_interval(change.share_interval()),
                short(verdict.word).to_owned(),
            ),
            None => ("–".to_owned(), "–".to_owned(), "not told".to_owned()),
        };
        let (a, b): (String, String) = medians(compared);
        text.line(&line(&cut(compared.label, 21), [&a, &b, &change, &interval, &word]));
    }
    text.line("");
}

fn medians(compared: &Compared) -> (String, String) {
    (compared.median(|pair| pair.0), compared.median(|pair| pair.1))
}

/// A verdict in ten characters.
fn short(word: Word) -> &'static str {
    match word {
        Word::Better => "better",
        Word::BetterButSmall => "small gain",
        Word::Same => "same",
        Word::CantTell => "can't tell",
        Word::WorseButSmall => "small loss",
        Word::Worse => "worse",
    }
}

fn cut(text: &str, count: usize) -> String {
    text.chars().take(count).collect()
}

fn runs(text: &mut Text, view: &View<'_>) {
    let metrics = [Metric::Throughput, Metric::Mean, Metric::P50, Metric::P99, Metric::P999];
    let head = metrics.map(|metric| label(metric).trim_end_matches(" response").to_owned());
    text.line(&format!("{:<20}{}", "", head.map(|name| format!("{name:>12}")).concat()));
    for run in view.runs.iter().take(RUNS_MAX) {
        let name = match (view.swept(), run.level()) {
            (Some(name), Some(level)) => level_text(name, level),
            _ => format!("run {}", run.run.head.run),
        };
        let values = metrics.map(|metric| {
            let value = run.value(metric);
            format!("{:>12}", if value.is_some() { shown_or_not(metric, value) } else { NOT_TOLD.to_owned() })
        });
        text.line(&format!("{:<20}{}", cut(&name, 20), values.concat()));
    }
    let more = view.runs.len().saturating_sub(RUNS_MAX);
    if more > 0 {
        text.line(&format!("and {more} more runs"));
    }
    text.line("");
}
