//! The one sentence a report begins with, its verdict, and the few numbers beside it.

use super::figures::{extent, level_text};
use super::label::{label, shown, shown_or_not};
use super::view::{Arm, Compared, Placed, View, middle};
use crate::analysis::Metric;
use crate::analysis::gates::{Colour, worst};
use crate::number;
use crate::search::{Found, Reason};
use crate::statistics::Interval;
use crate::statistics::Level;
use crate::statistics::paired::Change;
use crate::statistics::quantiles::quantile_ns;
use crate::statistics::signed_rank;
use crate::statistics::verdict::{self, Verdict, Word};

/// Metrics in frames, besides the declared one.
const TILES: [Metric; 5] = [Metric::Throughput, Metric::P50, Metric::P99, Metric::TailGap, Metric::Wobble];

/// Claims that are shown.
const CLAIMS_MAX: usize = 20;

/// One number in a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tile {
    pub(crate) title: String,
    pub(crate) big: String,
    pub(crate) lines: Vec<String>,
    /// A change and its interval, as shares, to be drawn.
    pub(crate) change: Option<(f64, Interval)>,
}

/// What the report says first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) sentence: String,
    /// The verdict on what is compared, with what it rests on; of claims, each.
    pub(crate) verdicts: Vec<(Tone, String, String)>,
    pub(crate) tiles: Vec<Tile>,
}

/// How a verdict is coloured. Its words say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Open,
}

pub(crate) fn answer(view: &View<'_>) -> Answer {
    if view.is_comparison() {
        return compared(view);
    }
    let counted: Vec<&Placed<'_>> = view.runs.iter().filter(|run| run.count() > 0).collect();
    let mut answer = match counted[..] {
        [] => {
            let sentence = "Nothing was measured: no run has a single reply.".to_owned();
            Answer { sentence, ..Answer::default() }
        }
        [run] => single(run),
        _ => several(view, &counted),
    };
    if view.saved.head.kind == "compare" {
        answer.sentence =
            format!("Nothing can be told of A and B: none of their pairs was run. {}", answer.sentence);
    }
    answer
}

fn single(run: &Placed<'_>) -> Answer {
    let mut told = Vec::new();
    let mut not_told = Vec::new();
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)] {
        match quantile_ns(run.response(), quantile) {
            Some(ns) => told.push(format!("{name} {}", number::time(ns))),
            None => not_told.push(name),
        }
    }
    let mut sentence = format!("{} requests/s {}", number::plain(run.rate()), pace(run));
    if !told.is_empty() {
        sentence += &format!(": response time {}", told.join(", "));
    }
    sentence.push('.');
    if !not_told.is_empty() {
        sentence += &format!(" Too few requests to tell {}.", not_told.join(", "));
    }
    if worst(&run.gates) == Colour::Red {
        sentence = format!("No measurement of the server, see below: {sentence}");
    }
    let tiles = TILES.into_iter().map(|metric| Tile {
        title: label(metric).to_owned(),
        big: shown_or_not(metric, run.value(metric)),
        lines: Vec::new(),
        change: None,
    });
    Answer { sentence, verdicts: Vec::new(), tiles: tiles.collect() }
}

/// How requests followed one another.
pub(crate) fn pace(run: &Placed<'_>) -> String {
    let head = &run.run.head;
    let over = format!("over {} connections", number::count(u64::from(head.connection_count)));
    match head.rate {
        Some(rate) => format!("{over}, {} asked for", number::plain(rate)),
        None if head.pipeline > 1 => format!("{over}, {} at once on each", head.pipeline),
        None => over,
    }
}

fn several(view: &View<'_>, counted: &[&Placed<'_>]) -> Answer {
    let rates = extent(counted.iter().map(|run| run.rate())).unwrap_or_default();
    let best = counted.iter().find(|run| run.rate() >= rates.1);
    let mut sentence = match (&view.found, view.swept(), best.and_then(|best| best.level())) {
        (Some(found), ..) => searched(view, found),
        (None, Some(name), Some(level)) => {
            format!("At most {} requests/s, at {}", number::plain(rates.1), level_text(name, level))
        }
        _ => format!(
            "{} runs, {} to {} requests/s",
            counted.len(),
            number::plain(rates.0),
            number::plain(rates.1)
        ),
    };
    // Of a search the steps that failed say nothing of the rate that was found.
    let found = view.found.and_then(|found| found.rate).map(|_| view.shown(Arm::A));
    let counted = found.as_deref().filter(|runs| !runs.is_empty()).unwrap_or(counted);
    if let Some((low, high)) = extent(counted.iter().map(|run| run.response().mean())) {
        let here = if found.is_some() { "there " } else { "" };
        sentence += &format!(
            ". The mean response {here}lies between {} and {}.",
            number::time(low),
            number::time(high)
        );
    }
    // A searched server is judged by its steps, which are meant to fail beyond what was found.
    if view.found.is_none() && counted.iter().all(|run| worst(&run.gates) == Colour::Red) {
        sentence = format!("No measurement of the server, see below: {sentence}");
    }
    let tiles = TILES.into_iter().filter_map(|metric| {
        let run = middle(counted, metric)?;
        let ends = extent(counted.iter().filter_map(|run| run.value(metric)))?;
        Some(Tile {
            title: format!("{}, middle of {} runs", label(metric), counted.len()),
            big: run.value(metric).map(|value| shown(metric, value))?,
            lines: vec![format!("{} to {}", shown(metric, ends.0), shown(metric, ends.1))],
            change: None,
        })
    });
    Answer { sentence, verdicts: Vec::new(), tiles: tiles.collect() }
}

/// "52,000 requests/s is the highest rate at which p99<500us surely holds".
fn searched(view: &View<'_>, found: &Found) -> String {
    let bound = view.bound.map_or_else(String::new, |bound| bound.to_string());
    // Where nothing passed, the load was late at the last and lowest rate.
    let is_late = found.rate.is_none() && matches!(found.beyond, Some((_, Reason::Late)));
    let mut sentence = match found.rate {
        Some(rate) if found.is_at_least => {
            format!("{bound} surely holds at {} requests/s, and the server may do more", number::plain(rate))
        }
        Some(rate) => {
            format!("{} requests/s is the highest rate at which {bound} surely holds", number::plain(rate))
        }
        None if is_late => format!("Whether {bound} holds can't be told"),
        None => format!("{bound} holds at no rate that was tried"),
    };
    if found.rate.is_some() && !found.is_confirmed {
        sentence += ", not confirmed by repeating it";
    }
    if let Some((rate, reason)) = found.beyond {
        let rate = number::plain(rate);
        sentence += &if is_late {
            format!(": down to {rate} requests/s the load itself was late, so nothing is said of the server")
        } else if found.rate.is_none() {
            format!("; at {rate} requests/s {reason}")
        } else {
            format!("; at {rate} {reason}")
        };
    }
    sentence
}

fn compared(view: &View<'_>) -> Answer {
    let pairs = format!("{}, {} left out.", counted_pairs(view.pairs.len()), view.pairs_excluded.len());
    let tiles = tiles(view);
    let Some((primary, (change, verdict))) =
        view.compared.first().and_then(|primary| Some((primary, primary.judged?)))
    else {
        let needed = signed_rank::count_min(Level::NINETY_FIVE);
        let counted = view.pairs.len() - view.pairs_excluded.len();
        let why = if counted < needed {
            let verb = if counted == 1 { "counts" } else { "count" };
            format!("{} {verb}, and an interval needs {needed}", counted_pairs(counted))
        } else {
            "what was declared can't be told from every pair".to_owned()
        };
        return Answer { sentence: format!("No claim: {why}. {pairs}"), verdicts: Vec::new(), tiles };
    };
    let mut sentence = format!("{}.", capital(&moved(view, primary, &change, verdict.word)));
    let second = if primary.metric == Metric::Throughput { Metric::P99 } else { Metric::Throughput };
    let second = view.compared.iter().find(|other| other.metric == second);
    if let Some((other, (change, verdict))) = second.and_then(|other| Some((other, other.judged?))) {
        sentence += &format!(" {}.", capital(&moved(view, other, &change, verdict.word)));
    }
    sentence += &format!(" {pairs}");
    if view.is_withheld() {
        let sentence = format!("No claim is made, see below. Measured: {sentence}");
        return Answer { sentence, verdicts: Vec::new(), tiles };
    }
    let mut verdicts =
        vec![(tone(verdict.word), verdict.word.to_string(), rests_on(view, primary, &change, &verdict))];
    verdicts.extend(claims(view));
    Answer { sentence, verdicts, tiles }
}

/// "1 pair", "6 pairs".
fn counted_pairs(count: usize) -> String {
    format!("{count} {}", if count == 1 { "pair" } else { "pairs" })
}

fn claims(view: &View<'_>) -> Vec<(Tone, String, String)> {
    let Some(comparison) = &view.comparison else { return Vec::new() };
    let claims = comparison.claims.iter().take(CLAIMS_MAX).map(|(claim, answer)| {
        let found = view.compared.iter().find(|compared| compared.name == claim.metric);
        let interval = match found.and_then(|compared| compared.judged) {
            Some((change, _)) => number::change_interval(change.share_interval()),
            None => "not told by these runs".to_owned(),
        };
        let rest = format!("the claim “{}”: {interval}", super::doubts::clipped(&claim.to_string()));
        match answer {
            Some(answer @ verdict::Answer::Holds) => (Tone::Good, answer.to_string(), rest),
            Some(answer @ verdict::Answer::Fails) => (Tone::Bad, answer.to_string(), rest),
            _ => (Tone::Open, verdict::Answer::CantTell.to_string(), rest),
        }
    });
    claims.collect()
}

/// The first letter is a great one, but that of a percentile's name.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    if text.starts_with('p') && chars.clone().nth(1).is_some_and(|next| next.is_ascii_digit()) {
        return text.to_owned();
    }
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

/// A name of several words is told from the sentence around it.
pub(crate) fn quoted(name: &str) -> String {
    if name.contains(' ') { format!("“{name}”") } else { name.to_owned() }
}

/// "with B, p99 response fell by 47 % against A (95 %: −50 % to −43 %)".
fn moved(view: &View<'_>, compared: &Compared, change: &Change, word: Word) -> String {
    let (share, interval) = (change.share(), number::change_interval(change.share_interval()));
    let confidence = number::percent_short(change.level.confidence());
    let [a, b] = [&view.declared.name_a, &view.declared.name_b].map(|name| quoted(name));
    let what = compared.label;
    match word {
        Word::Same => {
            let margin = number::percent_short(view.declared.margin.share());
            format!("{what} is the same with {b} as with {a}, within {margin} ({confidence}: {interval})")
        }
        Word::CantTell => format!(
            "whether {what} differs between {a} and {b} can't be told: {} ({confidence}: {interval})",
            number::change(share)
        ),
        _ => {
            let verb = if share < 0.0 { "fell" } else { "rose" };
            let size = number::percent(share.abs());
            format!("with {b}, {what} {verb} by {size} against {a} ({confidence}: {interval})")
        }
    }
}

fn rests_on(view: &View<'_>, compared: &Compared, change: &Change, verdict: &Verdict) -> String {
    let mut text = format!(
        "{}; {} pairs with this noise show a change of {} in four experiments of five",
        compared.label,
        change.pairs_count,
        number::percent(verdict.smallest_effect)
    );
    if let Some(floor) = view.comparison.as_ref().and_then(|comparison| comparison.floor) {
        let count = floor.pairs_count;
        text += &format!(
            "; A against itself differed by {} ({})",
            number::percent(floor.log_deviation),
            counted_pairs(count)
        );
    }
    if let Some(needed) = verdict.pairs_needed {
        text += &format!("; {needed} pairs would tell");
    }
    if change.disagreement.is_some() {
        let student = change.student.interval.map(f64::exp_m1);
        text += &format!("; Student's t disagrees: {}", number::change_interval(student));
    }
    text
}

fn tone(word: Word) -> Tone {
    match word {
        Word::Better | Word::BetterButSmall | Word::Same => Tone::Good,
        Word::CantTell => Tone::Open,
        Word::Worse | Word::WorseButSmall => Tone::Bad,
    }
}

fn tiles(view: &View<'_>) -> Vec<Tile> {
    let is_shown = |index: usize, compared: &Compared| {
        index == 0 || view.comparison.is_none() || TILES.contains(&compared.metric)
    };
    let shown = view.compared.iter().enumerate().filter(|(index, compared)| is_shown(*index, compared));
    shown.map(|(_, compared)| tile(view, compared)).collect()
}

fn tile(view: &View<'_>, compared: &Compared) -> Tile {
    let (a, b) = (compared.median(|pair| pair.0), compared.median(|pair| pair.1));
    let mut lines = vec![format!("{} {a} → {} {b}", view.declared.name_a, view.declared.name_b)];
    if let Some((change, verdict)) = &compared.judged {
        lines.insert(0, format!("{} · {}", number::change_interval(change.share_interval()), verdict.word));
    }
    Tile {
        title: compared.label.to_owned(),
        big: compared
            .judged
            .map_or_else(|| "no interval".to_owned(), |(change, _)| number::change(change.share())),
        lines,
        change: compared.judged.map(|(change, _)| (change.share(), change.share_interval())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_several_words_and_of_percentiles_stay_what_they_are() {
        assert_eq!([quoted("lanes"), quoted("as it is")], ["lanes", "“as it is”"]);
        assert_eq!(["p99 4 ms", "pace", "the p99"].map(capital), ["p99 4 ms", "Pace", "The p99"]);
    }

    /// That nothing got worse is an answer, and a good one.
    #[test]
    fn same_is_good_and_open_is_neither() {
        for (word, want) in [
            (Word::Better, Tone::Good),
            (Word::BetterButSmall, Tone::Good),
            (Word::Same, Tone::Good),
            (Word::CantTell, Tone::Open),
            (Word::WorseButSmall, Tone::Bad),
            (Word::Worse, Tone::Bad),
        ] {
            assert!(tone(word) == want, "{word}");
        }
    }
}
