//! Runs of steps that differ in numbers alone, so that a machine of many queues has a plan that can be read.
//!
//! A text is its words and its numbers: `queue/3/irq` and `queue/4/irq` have the same words. Steps whose words are the same, one
//! after the other or in turns of a few, are a [`Run`]. What is said of many at once has the numbers as they go on:
//! `queue/3…66/irq`.

use std::fmt::Write as _;

/// Repetitions from which a run is folded: the first is shown, and with fewer others a line hides more than it saves.
const REPETITIONS_COUNT_MIN: usize = 4;
/// Steps that may take turns: a filter each way, a thread's cores, priority and policy.
const TURNS_COUNT_MAX: usize = 4;
/// Stretches of numbers that are named; of more, nothing is said but that they differ.
const STRETCHES_COUNT_MAX: usize = 4;

/// So many steps in turns, so often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Steps in a turn.
    pub(super) turns: usize,
    /// Turns; 1 where nothing repeats.
    pub(super) count: usize,
}

/// Divides steps into runs, each step by its words, in order: the longest that begins where the last one ended.
pub(super) fn runs(words: &[String]) -> Vec<Run> {
    let (mut runs, mut first) = (Vec::new(), 0);
    while first < words.len() {
        let left = &words[first..];
        let of = |turns: usize| {
            let alike = (turns..left.len()).take_while(|index| left[*index] == left[index - turns]).count();
            Run { turns, count: 1 + alike / turns }
        };
        let folded = (1..=TURNS_COUNT_MAX).map(of).filter(|run| run.count >= REPETITIONS_COUNT_MIN);
        // Of equals the last is the maximum; of equally long runs the one with the fewest turns is wanted.
        let longest = folded.rev().max_by_key(|run| run.turns * run.count);
        let run = longest.unwrap_or(Run { turns: 1, count: 1 });
        first += run.turns * run.count;
        runs.push(run);
    }
    runs
}

/// Texts of the same words as one, with the numbers as they go on.
pub(super) fn merged(texts: &[String]) -> String {
    let numbers: Vec<Vec<&str>> = texts.iter().map(|text| numbers(text)).collect();
    let mut merged = String::new();
    let mut place = 0;
    for piece in pieces(&texts[0]) {
        if is_number(piece) {
            let column: Vec<&str> = numbers.iter().map(|numbers| numbers[place]).collect();
            merged.push_str(&stretches(&column));
            place += 1;
        } else {
            merged.push_str(piece);
        }
    }
    merged
}

/// `3`, `3…66`, `3…24,51…66`; `…` where no few words say it.
fn stretches(column: &[&str]) -> String {
    let mut text = String::new();
    let mut left = column;
    for _ in 0..STRETCHES_COUNT_MAX {
        let difference = |pair: &[&str]| {
            let [a, b] = [pair[0], pair[1]].map(|number| number.parse::<i64>().ok());
            b?.checked_sub(a?).filter(|difference| difference.abs() <= 1)
        };
        let step = left.windows(2).next().and_then(difference);
        let same = left.windows(2).take_while(|pair| step.is_some() && difference(pair) == step).count();
        let (first, last) = (left[0], left[same]);
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match first == last {
            true => write!(text, "{comma}{first}"),
            false => write!(text, "{comma}{first}…{last}"),
        };
        left = &left[same + 1..];
        if left.is_empty() {
            return text;
        }
    }
    "…".to_owned()
}

/// What is left of a text without its numbers.
pub(super) fn words(text: &str) -> String {
    pieces(text).map(|piece| if is_number(piece) { "#" } else { piece }).collect()
}

fn numbers(text: &str) -> Vec<&str> {
    pieces(text).filter(|piece| is_number(piece)).collect()
}

fn is_number(piece: &str) -> bool {
    piece.starts_with(|c: char| c.is_ascii_digit())
}

/// Numbers and what is between them, in order.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_digit = rest.chars().next()?.is_ascii_digit();
        let size = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(size);
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_numbers_alone_is_a_run() {
        let check = |texts: &str, want: &[(usize, usize)]| {
            let texts: Vec<String> = texts.split(' ').map(words).collect();
            let runs: Vec<(usize, usize)> = runs(&texts).iter().map(|run| (run.turns, run.count)).collect();
            assert_eq!(runs, want, "{texts:?}");
        };
        check("a1 a2 a3 a4", &[(1, 4)]);
        check("a1 a2 a3", &[(1, 1), (1, 1), (1, 1)]);
        check("x a1 a2 a3 a4 a9 y", &[(1, 1), (1, 5), (1, 1)]);
        check("a1 b1 a2 b2 a3 b3 a4 b4 a5", &[(2, 4), (1, 1)]);
        check("a1 a1b a2 a2b a3 a3b a4 a4b", &[(2, 4)]);
        check("a1 a2 a3 a4 b1 b2 b3 b4", &[(1, 4), (1, 4)]);
        check("a b c d a b c d a b c d a b c d", &[(4, 4)]);
        check("a a a a a a a a", &[(1, 8)]);
        check("a1 a2 b a3 b a4 b a5 b", &[(1, 1), (2, 4)]);
    }

    #[test]
    fn numbers_are_said_as_they_go_on() {
        let check = |texts: &str, want: &str| {
            let texts: Vec<String> = texts.split('|').map(str::to_owned).collect();
            assert_eq!(merged(&texts), want);
        };
        check("queue/3/irq|queue/4/irq|queue/5/irq", "queue/3…5/irq");
        check("loc 9 q 1|loc 8 q 1|loc 7 q 1", "loc 9…7 q 1");
        check("cpu 1|cpu 2|cpu 8|cpu 9|cpu 9", "cpu 1…2,8…9,9");
        check("0-3 -> 1|0-3 -> 1|0-3 -> 2", "0-3 -> 1,2");
        check("tid 5|tid 700|tid 90|tid 13", "tid 5,700,90,13");
        check("tid 5|tid 700|tid 90|tid 13|tid 77", "tid …");
        check("port 18446744073709551616|port 1", "port 18446744073709551616,1");
        check("none|none", "none");
    }
}
