//! What an experiment comes to: the words of its rows, and the one finding that they allow.

use serde::Serialize;

use super::evaluate::{Evaluation, Row};
use super::presets::Id;
use super::scale::Planned;
use crate::statistics::verdict::{Margin, Verdict, Word};

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "word")]
pub enum Finding {
    /// Protocol and topology are the published ones, and every headline is reached by the whole interval.
    Reproduced,
    /// They are, and a headline is missed by the whole interval.
    NotReproduced,
    /// They are, and it can't be told.
    CantTell,
    /// They are not: what is said of the two set-ups of this machine. None: too few pairs.
    StandIn(Option<Word>),
}

impl Evaluation {
    /// Whether something can be told at all.
    pub fn tells(&self) -> bool {
        !matches!(self.finding, Finding::CantTell | Finding::StandIn(None | Some(Word::CantTell)))
    }

    /// That it was stopped or broke off before its last pair, in a sentence. None: all of it ran.
    pub fn cut(&self) -> Option<String> {
        let (planned, whole) = (self.planned.scale.pairs, self.pairs_whole_count);
        (whole < planned)
            .then(|| format!("Cut short: of {planned} pairs that were planned, {whole} ran whole."))
    }

    /// The finding in a sentence.
    pub fn sentence(&self) -> String {
        let Some(row) = self.rows.first() else { return "Nothing ran.".to_owned() };
        let name = |arm: &str| self.planned.arm(arm).map_or(arm, |arm| &arm.name).to_owned();
        let (from, to) = (name(&row.step.from), name(&row.step.to));
        let change = row.change.as_ref().map_or_else(String::new, |change| {
            let interval = change.share_interval();
            format!(
                ", {} {:+.1} % ({:+.1} .. {:+.1})",
                row.name,
                change.share() * 100.0,
                interval.low * 100.0,
                interval.high * 100.0
            )
        });
        let limited = match row.is_load_limited {
            [false, false] => "",
            [false, true] => "; load-limited, so it may be better by more",
            [true, false] => "; load-limited, so it may be worse by more",
            [true, true] => "; load-limited on both sides",
        };
        let change = change + limited;
        match self.finding {
            Finding::Reproduced => format!("Reproduced{change}."),
            Finding::NotReproduced => format!("Not reproduced{change}."),
            Finding::CantTell => format!("Can't tell whether it is reproduced{change}."),
            Finding::StandIn(None) => {
                let few = match row.pairs_count {
                    0 => "without a pair that counts nothing tells".to_owned(),
                    1 => "1 pair is too few to tell".to_owned(),
                    count => format!("{count} pairs are too few to tell"),
                };
                format!("No repetition of what was published, and {few} {to} from {from}.")
            }
            Finding::StandIn(Some(Word::CantTell)) => format!(
                "No repetition of what was published; can't tell whether {to} differs from {from}{change}."
            ),
            Finding::StandIn(Some(Word::Same)) => {
                format!("No repetition of what was published; {to} is the same as {from}{change}.")
            }
            Finding::StandIn(Some(word)) => {
                format!("No repetition of what was published; {to} is {word} than {from}{change}.")
            }
        }
    }
}

/// A row by itself, which is the first; the other numbers of each whole step together; and the steps of which one number is told
/// together: as many questions as were asked at once.
pub(super) fn judge(rows: &mut [Row]) {
    let Some((_, others)) = rows.split_first_mut() else { return };
    let mut families: Vec<String> = others.iter().map(family).collect();
    families.sort_unstable();
    families.dedup();
    for name in families {
        let told = |row: &&mut Row| row.verdict.is_some() && family(row) == name;
        let told: Vec<&mut Row> = others.iter_mut().filter(told).collect();
        let changes: Vec<_> =
            told.iter().filter_map(|row| Some((row.change?, row.verdict?.direction))).collect();
        for (row, verdict) in told.into_iter().zip(Verdict::on_each(&changes, Margin::FIVE_PERCENT)) {
            row.verdict = Some(verdict);
        }
    }
}

/// Rows of one name are judged together.
fn family(row: &Row) -> String {
    if row.step.is_whole { format!("{} > {}", row.step.from, row.step.to) } else { String::new() }
}

/// What is left of a verdict where the load was the limit: a server is at least as good as such a run says. So the second set-up
/// may be better by more than was seen, the first may be worse by more; the opposite, and that they are the same, can't be told.
pub(super) fn bound(row: &mut Row) {
    let [from, to] = row.is_load_limited;
    let Some(verdict) = &mut row.verdict else { return };
    let stays = match verdict.word {
        Word::Better | Word::BetterButSmall => !from,
        Word::Worse | Word::WorseButSmall => !to,
        Word::Same | Word::CantTell => !from && !to,
    };
    if !stays {
        // No number of pairs would.
        (verdict.word, verdict.pairs_needed) = (Word::CantTell, None);
    }
}

pub(super) fn finding(planned: &Planned, rows: &[Row]) -> Finding {
    if !planned.mismatches.is_empty() {
        let verdict = rows.first().and_then(|row| row.verdict);
        return Finding::StandIn(verdict.map(|verdict| verdict.word));
    }
    let mut finding = if planned.id == Id::E5 { Finding::CantTell } else { Finding::Reproduced };
    for row in rows {
        let Some(headline) = row.headline_percent else { continue };
        let Some(change) = &row.change else { return Finding::CantTell };
        // With a first set-up that may be better than it looks nothing is reached; with such a second one nothing is missed.
        let [from_is_bound, to_is_bound] = row.is_load_limited;
        let interval = change.share_interval();
        // As gains: the headline's own direction is up.
        let sign = headline.signum();
        let ends = [interval.low * 100.0 * sign, interval.high * 100.0 * sign];
        if ends.iter().all(|end| *end < headline.abs()) && !to_is_bound {
            return Finding::NotReproduced;
        }
        if from_is_bound || ends.iter().any(|end| *end <= headline.abs()) {
            finding = Finding::CantTell;
        }
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::setups::tests::offer;
    use crate::experiments::{Preset, Scale, Step, Unit};
    use crate::statistics::Level;
    use crate::statistics::paired::Change;
    use crate::statistics::verdict::Direction;

    /// Of ten pairs that all differ by this factor, give or take a hundredth.
    fn row(factor: f64, is_load_limited: [bool; 2]) -> Row {
        let values: Vec<(f64, f64)> =
            (0..10).map(|pair| (1.0, factor * (0.9955 + f64::from(pair) * 0.001))).collect();
        let change = Change::of(&values, Level::NINETY_FIVE).unwrap();
        Row {
            name: "p99".to_owned(),
            step: Step::default(),
            unit: Unit::Time,
            published: Vec::new(),
            headline_percent: None,
            from: None,
            to: None,
            pairs_count: 10,
            is_doubtful: false,
            is_load_limited,
            change: Some(change),
            verdict: Some(Verdict::on(&change, Direction::LowerIsBetter, Margin::FIVE_PERCENT)),
        }
    }

    #[test]
    fn a_limited_run_is_a_bound_on_its_server() {
        let check = |factor, limited, want| {
            let mut row = row(factor, limited);
            bound(&mut row);
            assert_eq!(row.verdict.unwrap().word, want, "{factor} {limited:?}");
        };
        let (from, to) = ([true, false], [false, true]);
        check(0.5, [false, false], Word::Better);
        check(0.5, to, Word::Better);
        check(0.5, from, Word::CantTell);
        check(2.0, from, Word::Worse);
        check(2.0, to, Word::CantTell);
        check(1.0, [false, false], Word::Same);
        for limited in [from, to, [true, true]] {
            check(1.0, limited, Word::CantTell);
        }
        check(0.5, [true, true], Word::CantTell);
        check(2.0, [true, true], Word::CantTell);
        let mut open = row(1.0, to);
        open.verdict = open.verdict.map(|it| Verdict { word: Word::CantTell, pairs_needed: Some(20), ..it });
        bound(&mut open);
        assert_eq!(open.verdict.unwrap().pairs_needed, None, "more pairs would not tell it either");
    }

    /// A headline of a third less, where half less was seen, or nothing.
    #[test]
    fn a_limited_run_reaches_no_headline_from_below_and_misses_none_from_above() {
        let preset = Preset::of(Id::E1);
        let mut planned = Planned::new(preset, Scale::new(preset, false, 1, 1, 64 << 30), &offer(2));
        planned.mismatches.clear();
        let check = |factor, limited, want| {
            let headline = Row { headline_percent: Some(-33.0), ..row(factor, limited) };
            assert_eq!(finding(&planned, &[headline]), want, "{factor} {limited:?}");
        };
        check(0.5, [false, false], Finding::Reproduced);
        check(0.5, [false, true], Finding::Reproduced);
        check(0.5, [true, false], Finding::CantTell);
        check(1.0, [false, false], Finding::NotReproduced);
        check(1.0, [true, false], Finding::NotReproduced);
        check(1.0, [false, true], Finding::CantTell);
        // Of the recipe nothing was claimed that could be reached.
        planned.id = Id::E5;
        assert_eq!(finding(&planned, &[row(0.5, [false, false])]), Finding::CantTell);
    }

    /// Twenty-eight numbers asked at once need more pairs than ten; in families of at most twenty-five they don't.
    #[test]
    fn the_steps_are_judged_apart_from_the_numbers_of_the_whole() {
        let mut rows: Vec<Row> = (0..30).map(|_| row(0.5, [false, false])).collect();
        for row in &mut rows[..25] {
            row.step.is_whole = true;
        }
        judge(&mut rows);
        assert!(rows.iter().all(|row| row.verdict.unwrap().word == Word::Better));
        rows.iter_mut().for_each(|row| row.step.is_whole = true);
        judge(&mut rows);
        assert_eq!(rows[29].verdict.unwrap().word, Word::CantTell, "that many at once");
    }
}
