//! One word for a change, and claims that hold, fail, or cannot be told.
//!
//! ```text
//!              worse by δ        0        better by δ
//! ──────────────────┼────────────┼────────────┼──────────
//!                   │            │            │  ├──●──┤     better
//!                   │            │ ├──●──┤    │             better, but small
//!                   │   ├────────●─────────┤  │             same within δ
//!              ├────┼────────●───┼────────────┼─┤           can't tell: so many pairs would
//! ```
//!
//! Two 95 % intervals that overlap are no test: they may overlap when the difference is sure. There is one interval here,
//! that of the change.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::paired::Change;
use super::planning;

/// Which way a metric is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Latency, wobble, CPU a request.
    LowerIsBetter,
    /// Throughput, servers in parallel.
    HigherIsBetter,
}

/// The smallest change worth speaking of, as a factor 1 + δ to either side, so that the verdict on B against A is the
/// mirror of that on A against B.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Margin(f64);

impl Margin {
    /// 5 %.
    pub const FIVE_PERCENT: Margin = Margin(0.05);

    /// From a share. None: not above zero, or no number.
    pub fn new(share: f64) -> Option<Margin> {
        (share > 0.0 && share.is_finite()).then_some(Margin(share))
    }

    /// As a share: 0.05.
    pub fn share(self) -> f64 {
        self.0
    }

    fn log(self) -> f64 {
        self.0.ln_1p()
    }
}

impl TryFrom<f64> for Margin {
    type Error = String;

    fn try_from(share: f64) -> Result<Margin, String> {
        Margin::new(share)
            .ok_or_else(|| format!("{share} is no margin: it is a share above zero, as 0.05 is"))
    }
}

impl From<Margin> for f64 {
    fn from(margin: Margin) -> f64 {
        margin.0
    }
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// The interval excludes zero and the estimate passes the margin.
    Better,
    /// The interval excludes zero, the estimate stays inside the margin.
    BetterButSmall,
    /// The whole interval lies inside the margin, zero in it.
    Same,
    /// Anything else.
    CantTell,
    /// As [`Word::BetterButSmall`].
    WorseButSmall,
    /// As [`Word::Better`].
    Worse,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Word::Better => "better",
            Word::BetterButSmall => "better, but small",
            Word::Same => "same",
            Word::CantTell => "can't tell",
            Word::WorseButSmall => "worse, but small",
            Word::Worse => "worse",
        })
    }
}

/// The word, and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What is said.
    pub word: Word,
    /// Which way was good.
    pub direction: Direction,
    /// What was worth speaking of.
    pub margin: Margin,
    /// The change's own p-value, or Holm's where there were other metrics.
    pub p_value: f64,
    /// Where it can't be told: pairs in all after which it could, whatever the truth is. None: it can be told, or more
    /// than [`planning::PLANNED_COUNT_MAX`].
    pub pairs_needed: Option<usize>,
    /// The smallest change, as a share, that these pairs would have shown in four experiments of five.
    pub smallest_effect: f64,
}

impl Verdict {
    /// On the primary metric, declared beforehand.
    pub fn on(change: &Change, direction: Direction, margin: Margin) -> Verdict {
        Verdict::with_p_value(change, direction, margin, change.p_value)
    }

    /// On the other metrics, together: a difference is called only if it survives [Holm](super::holm) among them.
    pub fn on_each(metrics: &[(Change, Direction)], margin: Margin) -> Vec<Verdict> {
        let p_values: Vec<f64> = metrics.iter().map(|(change, _)| change.p_value).collect();
        let adjusted = super::holm::adjust(&p_values);
        let judged = metrics.iter().zip(adjusted);
        judged.map(|((change, direction), p)| Verdict::with_p_value(change, *direction, margin, p)).collect()
    }

    fn with_p_value(change: &Change, direction: Direction, margin: Margin, p_value: f64) -> Verdict {
        let (level, deviation) = (change.level, change.log_deviation);
        let differs = change.excludes_zero() && p_value <= level.alpha();
        let passes = change.log_ratio.abs() >= margin.log();
        let is_good = (change.log_ratio < 0.0) == (direction == Direction::LowerIsBetter);
        let word = match (differs, passes, is_good) {
            (true, true, true) => Word::Better,
            (true, true, false) => Word::Worse,
            (true, false, true) => Word::BetterButSmall,
            (true, false, false) => Word::WorseButSmall,
            (false, ..) if change.log_interval.is_within(margin.log()) => Word::Same,
            (false, ..) => Word::CantTell,
        };
        let needed = || planning::pairs_needed_to_tell(deviation, margin.log(), level);
        let smallest_effect = planning::smallest_effect(deviation, change.pairs_count, level);
        let pairs_needed = (word == Word::CantTell).then(needed).flatten();
        // The formula knows t; the ranks, or Holm, may want a pair more than it thinks.
        let pairs_needed = pairs_needed.map(|count| count.max(change.pairs_count + 1));
        Verdict { word, direction, margin, p_value, pairs_needed, smallest_effect }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.word, self.pairs_needed) {
            (Word::CantTell, Some(count)) => write!(f, "{}: {count} pairs would", self.word),
            (Word::Same, _) => {
                write!(f, "{} within {} %", self.word, (self.margin.share() * 1e4).round() / 1e2)
            }
            (word, _) => word.fmt(f),
        }
    }
}

/// "It costs nothing": whether B is not worse than A by more than the margin. Holds when even the bad end of the interval
/// is not, fails when even the good end is.
pub fn not_worse(change: &Change, direction: Direction, margin: Margin) -> Answer {
    let worsening = match direction {
        Direction::LowerIsBetter => change.log_interval,
        Direction::HigherIsBetter => change.log_interval.mirrored(),
    };
    Answer::that(worsening.high < margin.log(), worsening.low > margin.log())
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The whole interval agrees with it.
    Holds,
    /// The whole interval contradicts it.
    Fails,
    /// The interval lies on both sides.
    CantTell,
}

impl Answer {
    pub(crate) fn that(holds: bool, fails: bool) -> Answer {
        match (holds, fails) {
            (true, _) => Answer::Holds,
            (_, true) => Answer::Fails,
            _ => Answer::CantTell,
        }
    }

    /// Of all claims together: one that fails fails them, one that can't be told leaves them open.
    pub fn of_all(answers: &[Answer]) -> Answer {
        Answer::that(answers.iter().all(|&answer| answer == Answer::Holds), answers.contains(&Answer::Fails))
    }

    /// What a program ends with: 0 holds, 1 fails, 2 can't tell.
    pub fn exit_code(self) -> u8 {
        match self {
            Answer::Holds => 0,
            Answer::Fails => 1,
            Answer::CantTell => 2,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::Holds => "holds",
            Answer::Fails => "fails",
            Answer::CantTell => "can't tell",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{Interval, Level};

    /// A change with this estimate and interval, in shares; the noise is what the interval's width says.
    fn change(estimate: f64, low: f64, high: f64) -> Change {
        let mut change = Change::of(&[(1.0, 1.0); 10], Level::NINETY_FIVE).unwrap();
        change.log_ratio = estimate.ln_1p();
        change.log_interval = Interval::new(low, high).map(f64::ln_1p);
        change.log_deviation = change.log_interval.width() / 2.0 * 10.0_f64.sqrt() / 2.2622;
        change.p_value = if change.excludes_zero() { 0.01 } else { 0.5 };
        change
    }

    fn check(estimate: f64, low: f64, high: f64, want: Word) {
        let change = change(estimate, low, high);
        let lower = Verdict::on(&change, Direction::LowerIsBetter, Margin::FIVE_PERCENT);
        assert_eq!(lower.word, want, "{estimate} [{low}, {high}]");
        let mirrored = match want {
            Word::Better => Word::Worse,
            Word::BetterButSmall => Word::WorseButSmall,
            Word::WorseButSmall => Word::BetterButSmall,
            Word::Worse => Word::Better,
            same => same,
        };
        let higher = Verdict::on(&change, Direction::HigherIsBetter, Margin::FIVE_PERCENT);
        assert_eq!(higher.word, mirrored, "{estimate} [{low}, {high}], the other way round");
        assert_eq!(lower.pairs_needed.is_some(), want == Word::CantTell);
    }

    #[test]
    fn every_word_has_its_interval() {
        check(-0.47, -0.50, -0.43, Word::Better);
        check(-0.10, -0.20, -0.01, Word::Better);
        check(-0.02, -0.03, -0.01, Word::BetterButSmall);
        check(0.02, 0.01, 0.12, Word::WorseButSmall);
        check(0.30, 0.10, 0.50, Word::Worse);
        check(0.01, -0.03, 0.04, Word::Same);
        check(0.01, -0.03, 0.06, Word::CantTell);
        check(0.20, -0.10, 0.50, Word::CantTell);
        // A factor of 1.05 either way: 1/1.05 − 1 = −4.76 %.
        check(0.0, -0.047, 0.049, Word::Same);
        check(0.0, -0.048, 0.049, Word::CantTell);
    }

    #[test]
    fn cant_tell_says_how_many_pairs_would() {
        let verdict = Verdict::on(&change(0.0, -0.1, 0.1), Direction::LowerIsBetter, Margin::FIVE_PERCENT);
        // s = 0.1403, h = ln(1.05)/2 = 0.0244: 130 pairs.
        let needed = verdict.pairs_needed.unwrap();
        assert!((128..=132).contains(&needed), "{needed}");
        assert!((verdict.smallest_effect - 0.15).abs() < 0.01, "{verdict:?}");
        // Enough by the formula, but the ranks say otherwise: more than there are is asked for, never fewer.
        let mut unlucky = change(0.028, -0.001, 0.0501);
        unlucky.log_deviation = 0.01;
        let verdict = Verdict::on(&unlucky, Direction::LowerIsBetter, Margin::FIVE_PERCENT);
        assert_eq!((verdict.word, verdict.pairs_needed), (Word::CantTell, Some(11)));
        assert_eq!(verdict.to_string(), "can't tell: 11 pairs would");
        let same = Verdict::on(&change(0.01, -0.03, 0.04), Direction::LowerIsBetter, Margin::FIVE_PERCENT);
        assert_eq!(same.to_string(), "same within 5 %");
    }

    #[test]
    fn among_many_metrics_a_weak_one_is_not_called() {
        let mut weak = change(-0.10, -0.20, -0.01);
        weak.p_value = 0.02;
        let alone = Verdict::on_each(&[(weak, Direction::LowerIsBetter)], Margin::FIVE_PERCENT);
        assert_eq!(alone[0].word, Word::Better);
        let dull = change(0.01, -0.03, 0.04);
        let mut strong = change(0.5, 0.4, 0.6);
        strong.p_value = 0.002;
        let metrics = [weak, dull, strong, dull].map(|change| (change, Direction::LowerIsBetter));
        let words: Vec<Word> =
            Verdict::on_each(&metrics, Margin::FIVE_PERCENT).iter().map(|v| v.word).collect();
        assert_eq!(words, [Word::CantTell, Word::Same, Word::Worse, Word::Same], "0.02 is 0.06 among four");
    }

    #[test]
    fn costs_nothing_is_a_claim_of_its_own() {
        let check = |low, high, direction, want| {
            assert_eq!(
                not_worse(&change(low, low, high), direction, Margin::FIVE_PERCENT),
                want,
                "[{low}, {high}]"
            );
        };
        check(-0.30, 0.04, Direction::LowerIsBetter, Answer::Holds);
        check(-0.30, 0.06, Direction::LowerIsBetter, Answer::CantTell);
        check(0.06, 0.30, Direction::LowerIsBetter, Answer::Fails);
        check(-0.04, 0.30, Direction::HigherIsBetter, Answer::Holds);
        check(-0.06, 0.30, Direction::HigherIsBetter, Answer::CantTell);
        check(-0.30, -0.06, Direction::HigherIsBetter, Answer::Fails);
    }

    #[test]
    fn exit_codes_of_several_claims() {
        let check =
            |answers: &[Answer], want| assert_eq!(Answer::of_all(answers).exit_code(), want, "{answers:?}");
        check(&[Answer::Holds, Answer::Holds], 0);
        check(&[Answer::Holds, Answer::CantTell, Answer::Fails], 1);
        check(&[Answer::Holds, Answer::CantTell], 2);
        check(&[], 0);
    }

    #[test]
    fn words_are_english_on_the_screen_and_plain_in_files() {
        assert_eq!(Word::CantTell.to_string(), "can't tell");
        assert_eq!(serde_json::to_string(&Word::BetterButSmall).unwrap(), r#""better-but-small""#);
        assert!(serde_json::from_str::<Margin>("-1").is_err());
    }
}
