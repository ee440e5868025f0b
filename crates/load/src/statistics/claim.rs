//! Claims written down before the experiment: "p99 falls by ≥ 20 %", "throughput not worse than −2 %".

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::paired::Change;
use super::verdict::Answer;

/// A metric and what is said about its change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Claim {
    /// The metric's name, as the result calls it.
    pub metric: String,
    /// What is said about it.
    pub bound: Bound,
}

/// Where the change from A to B is said to lie, as a share of A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At most so much: "falls by ≥ 20 %" is −0.20, "not worse than +2 %" is 0.02.
    AtMost(f64),
    /// At least so much: "rises by ≥ 10 %" is 0.10, "not worse than −2 %" is −0.02.
    AtLeast(f64),
    /// No further from none than so much, up or down: "stays within 5 %" is 0.05.
    Within(f64),
}

impl Claim {
    /// Whether the interval of the change proves the claim, contradicts it, or lies on both sides of its bound.
    pub fn answer(&self, change: &Change) -> Answer {
        let shares = change.share_interval();
        let (low, high) = (shares.low, shares.high);
        match self.bound {
            Bound::AtMost(bound) => Answer::that(high <= bound, low > bound),
            Bound::AtLeast(bound) => Answer::that(low >= bound, high < bound),
            Bound::Within(bound) => {
                Answer::that(-bound <= low && high <= bound, low > bound || high < -bound)
            }
        }
    }
}

/// The forms that are understood, for whoever wrote another.
const FORMS: &str = "write `p99 falls by >= 20 %`, `throughput rises by >= 10 %`, `throughput not worse than -2 %`, \
                     `p50 not worse than +3 %` or `p50 stays within 5 %`";
const FALLS: &str = " falls by ";
const RISES: &str = " rises by ";
const NOT_WORSE: &str = " not worse than ";
const STAYS: &str = " stays within ";

impl FromStr for Claim {
    type Err = String;

    fn from_str(text: &str) -> Result<Claim, String> {
        parse(text).ok_or_else(|| format!("`{text}` is no claim: {FORMS}"))
    }
}

fn parse(text: &str) -> Option<Claim> {
    let (metric, bound) = if let Some((metric, amount)) = text.split_once(FALLS) {
        // Nothing falls by more than all of itself.
        let fall = at_least(amount).filter(|&share| share < 1.0)?;
        (metric, Bound::AtMost(-fall))
    } else if let Some((metric, amount)) = text.split_once(RISES) {
        (metric, Bound::AtLeast(at_least(amount)?))
    } else if let Some((metric, amount)) = text.split_once(NOT_WORSE) {
        let amount = amount.trim();
        match percent(amount)? {
            // The sign says which way is worse, so it has to be there.
            share if share < 0.0 && share > -1.0 => (metric, Bound::AtLeast(share)),
            share if share > 0.0 && amount.starts_with('+') => (metric, Bound::AtMost(share)),
            _ => return None,
        }
    } else {
        let (metric, amount) = text.split_once(STAYS)?;
        (metric, Bound::Within(percent(amount).filter(|&share| share > 0.0)?))
    };
    let metric = metric.trim();
    (!metric.is_empty()).then(|| Claim { metric: metric.to_owned(), bound })
}

/// "≥ 20 %", ">= 20 %" or "20 %".
fn at_least(text: &str) -> Option<f64> {
    let text = text.trim();
    let amount = text.strip_prefix('≥').or_else(|| text.strip_prefix(">=")).unwrap_or(text);
    percent(amount).filter(|&share| share > 0.0)
}

/// "−2.5 %" is −0.025; the minus may be a hyphen.
fn percent(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('%')?.trim().replace('−', "-");
    let percent: f64 = number.parse().ok()?;
    percent.is_finite().then_some(percent / 100.0)
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metric = &self.metric;
        // Rounded where a double's last digits would show: 0.07 times 100 is 7.000000000000001.
        let shown = |share: f64| (share * 1e8).round() / 1e6;
        match self.bound {
            Bound::AtMost(share) if share < 0.0 => write!(f, "{metric}{FALLS}≥ {} %", shown(-share)),
            Bound::AtMost(share) => write!(f, "{metric}{NOT_WORSE}+{} %", shown(share)),
            Bound::AtLeast(share) if share > 0.0 => write!(f, "{metric}{RISES}≥ {} %", shown(share)),
            Bound::AtLeast(share) => write!(f, "{metric}{NOT_WORSE}{} %", shown(share)),
            Bound::Within(share) => write!(f, "{metric}{STAYS}{} %", shown(share)),
        }
    }
}

impl TryFrom<String> for Claim {
    type Error = String;

    fn try_from(text: String) -> Result<Claim, String> {
        text.parse()
    }
}

impl From<Claim> for String {
    fn from(claim: Claim) -> String {
        claim.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Level;

    #[test]
    fn claims_are_read_and_written_back() {
        for (text, metric, bound, back) in [
            ("p99 falls by ≥ 20 %", "p99", Bound::AtMost(-0.20), "p99 falls by ≥ 20 %"),
            ("p99 falls by >= 20%", "p99", Bound::AtMost(-0.20), "p99 falls by ≥ 20 %"),
            (
                "p99 at 40 k/s falls by 7 %",
                "p99 at 40 k/s",
                Bound::AtMost(-0.07),
                "p99 at 40 k/s falls by ≥ 7 %",
            ),
            (
                "throughput rises by ≥ 12.5 %",
                "throughput",
                Bound::AtLeast(0.125),
                "throughput rises by ≥ 12.5 %",
            ),
            (
                "throughput not worse than −2 %",
                "throughput",
                Bound::AtLeast(-0.02),
                "throughput not worse than -2 %",
            ),
            ("p50 not worse than +3 %", "p50", Bound::AtMost(0.03), "p50 not worse than +3 %"),
            ("wobble stays within 5 %", "wobble", Bound::Within(0.05), "wobble stays within 5 %"),
        ] {
            let claim: Claim = text.parse().unwrap();
            assert_eq!(claim.metric, metric, "{text}");
            let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
            let same = match (claim.bound, bound) {
                (Bound::AtMost(a), Bound::AtMost(b))
                | (Bound::AtLeast(a), Bound::AtLeast(b))
                | (Bound::Within(a), Bound::Within(b)) => near(a, b),
                _ => false,
            };
            assert!(same, "{text}: {:?}", claim.bound);
            assert_eq!(claim.to_string(), back);
            assert_eq!(claim.to_string().parse::<Claim>().unwrap().bound, claim.bound);
        }
    }

    #[test]
    fn what_is_no_claim_is_refused_with_the_forms() {
        for text in [
            "",
            "p99",
            "p99 falls",
            "falls by 20 %",
            " falls by 20 %",
            "p99 falls by 20",
            "p99 falls by -20 %",
            "p99 falls by 100 %",
            "p99 falls by NaN %",
            "p99 falls by inf %",
            "p99 not worse than 2 %",
            "p99 not worse than 0 %",
            "p99 not worse than -100 %",
            "p99 stays within -5 %",
            "p99 stays within 0 %",
        ] {
            let error = text.parse::<Claim>().unwrap_err();
            assert!(error.contains("falls by >= 20 %"), "{text}: {error}");
        }
    }

    fn change_between(low: f64, high: f64) -> Change {
        let mut change = Change::of(&[(1.0, 1.0); 6], Level::NINETY_FIVE).unwrap();
        change.log_interval = crate::statistics::Interval::new(low, high).map(f64::ln_1p);
        change
    }

    #[test]
    fn a_claim_holds_when_the_whole_interval_agrees() {
        let check = |claim: &str, low, high, want: Answer| {
            assert_eq!(
                claim.parse::<Claim>().unwrap().answer(&change_between(low, high)),
                want,
                "{claim} {low} {high}"
            );
        };
        check("p99 falls by ≥ 20 %", -0.50, -0.25, Answer::Holds);
        check("p99 falls by ≥ 20 %", -0.50, -0.15, Answer::CantTell);
        check("p99 falls by ≥ 20 %", -0.15, 0.05, Answer::Fails);
        check("throughput not worse than -2 %", -0.01, 0.30, Answer::Holds);
        check("throughput not worse than -2 %", -0.03, 0.30, Answer::CantTell);
        check("throughput not worse than -2 %", -0.30, -0.03, Answer::Fails);
        check("p50 not worse than +3 %", -0.30, 0.02, Answer::Holds);
        check("p50 not worse than +3 %", 0.04, 0.09, Answer::Fails);
        check("throughput rises by 10 %", 0.11, 0.20, Answer::Holds);
        check("throughput rises by 10 %", 0.01, 0.09, Answer::Fails);
        check("p50 stays within 5 %", -0.04, 0.04, Answer::Holds);
        check("p50 stays within 5 %", -0.06, 0.04, Answer::CantTell);
        check("p50 stays within 5 %", -0.09, -0.06, Answer::Fails);
        check("p50 stays within 5 %", 0.06, 0.09, Answer::Fails);
    }
}
