//! The highest rate at which a server keeps a bound: `p99<500us`.
//!
//! ```text
//!   climb      × 2 from a safe rate until a step fails, or the load itself is the limit
//!   narrow     halve the span between the highest that passed and the lowest that failed, down to 3 %
//!   confirm    the highest that passed, three times more; a failure there lowers it, and it is confirmed anew
//! ```
//! A step passes only if the *upper* end of the percentile's interval is below the bound, and the rate was answered, and the load
//! was on time. One step that passes by luck is found out by the confirmations: at an even chance three more pass once in
//! eight.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::analysis::gates::{Colour, Gate, gates};
use crate::analysis::{Figures, Window};
use crate::float::float;
use crate::result::Run;
use crate::statistics::Level;
use crate::statistics::effective::inflation_of_events;
use crate::statistics::quantiles::{NAMED, Percentile, count_within, quantile_named};

/// How much the rate grows while it climbs.
const CLIMB: f64 = 2.0;
/// The span at which narrowing ends, as a factor.
const NARROW: f64 = 1.03;
/// How often the answer is to pass again.
pub const CONFIRMATIONS: u32 = 3;
/// How far below the rate at which it began a search goes down, as a factor.
const DESCENT: f64 = 1000.0;
/// Steps downwards in which the load was late, at rates that it made, after which a search is given up: the last one has an eighth of
/// the first one's rate.
const LATE_MAX: u32 = 4;
/// Steps at most: climbing over six decimal orders, narrowing, and confirming four times over.
pub const STEPS_MAX: u32 = 60;

/// What is asked of a server: a percentile of the response time below a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bound {
    /// 0.99 for the p99.
    pub quantile: f64,
    /// Nanoseconds.
    pub below_ns: u64,
}

/// Units of time, the longer names first.
const UNITS: [(&str, f64); 4] = [("us", 1e3), ("ms", 1e6), ("ns", 1.0), ("s", 1e9)];

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Bound, String> {
        let wrong = || {
            format!(
                "'{text}' is no bound: p50, p90, p99, p99.9 or p99.99, then < and a time, as in p99<500us"
            )
        };
        let (name, time) = text.split_once('<').ok_or_else(wrong)?;
        let quantile = quantile_named(name.trim()).ok_or_else(wrong)?;
        let time = time.trim_start_matches('=').trim();
        let (digits, unit) =
            UNITS.iter().find_map(|(unit, ns)| Some((time.strip_suffix(unit)?, *ns))).ok_or_else(wrong)?;
        let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
        let below_ns = crate::float::nanoseconds(number * unit / 1e9);
        if below_ns == 0 || below_ns > crate::record::TIME_NS_MAX {
            Err(wrong())
        } else {
            Ok(Bound { quantile, below_ns })
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMED.iter().find(|(_, quantile)| *quantile == self.quantile).map_or("", |(name, _)| name);
        let (unit, size) = if self.below_ns >= 1_000_000 { ("ms", 1e6) } else { ("us", 1e3) };
        write!(f, "{name}<{}{unit}", float(self.below_ns) / size)
    }
}

impl TryFrom<String> for Bound {
    type Error = String;

    fn try_from(text: String) -> Result<Bound, String> {
        text.parse()
    }
}

impl From<Bound> for String {
    fn from(bound: Bound) -> String {
        bound.to_string()
    }
}

/// Why a step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The bound was not surely kept.
    Latency,
    /// Less than 99 % of the rate was answered.
    Achieved,
    /// The load had no core left, or could not make the rate in time: the server may be able to do more.
    Load,
    /// The load made the rate and was late all the same: the machine kept it waiting.
    Late,
    /// Errors, wrong values, or a run that ended early.
    Errors,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Latency => "the bound was not kept",
            Reason::Achieved => "the rate was not answered",
            Reason::Load => "the load itself was the limit",
            Reason::Late => "the load itself was late",
            Reason::Errors => "errors came back",
        })
    }
}

/// A step's run, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Requests a second that were meant.
    pub rate: f64,
    /// The percentile with its interval. None: no replies.
    pub percentile: Option<Percentile>,
    /// None: it passed.
    pub failed: Option<Reason>,
    /// What the load's own gates say, if it failed by one of them.
    pub load_words: Option<String>,
}

impl Step {
    /// Of a run at a rate.
    pub fn of(run: &Run, bound: Bound) -> Step {
        let figures = Figures::of(run);
        let rate = run.head.rate.unwrap_or(figures.total.per_second);
        let (mut late, mut all) = (Vec::new(), Vec::new());
        for second in Window::of(run).seconds {
            let response = second.second.response();
            all.push(response.len());
            late.push(response.len() - count_within(&response, bound.below_ns));
        }
        let inflation = inflation_of_events(&late, &all);
        let response = &figures.total.response;
        let percentile = Percentile::of(response, bound.quantile, inflation, Level::NINETY_FIVE);
        let red: Vec<Gate> =
            gates(run, &figures).into_iter().filter(|gate| gate.colour == Colour::Red).collect();
        let find = |names: &[&str]| red.iter().find(|gate| names.contains(&gate.name.as_str()));
        let is_red = |names: &[&str]| find(names).is_some();
        let keeps = |percentile: Percentile| {
            percentile.is_resolved && percentile.high_ns.is_some_and(|high_ns| high_ns < bound.below_ns)
        };
        let failed = if is_red(&["end", "failure", "errors", "unanswered"]) {
            Some(Reason::Errors)
        } else if is_red(&["load cpu"]) || is_red(&["send lag"]) && is_red(&["achieved"]) {
            Some(Reason::Load)
        } else if is_red(&["send lag"]) {
            Some(Reason::Late)
        } else if is_red(&["achieved"]) {
            Some(Reason::Achieved)
        } else if percentile.is_none_or(|percentile| !keeps(percentile)) {
            Some(Reason::Latency)
        } else {
            None
        };
        let load_words = match failed {
            Some(Reason::Load | Reason::Late) => {
                find(&["load cpu", "send lag"]).map(|gate| gate.words.clone())
            }
            _ => None,
        };
        Step { rate, percentile, failed, load_words }
    }
}

/// A search under way: asks for a rate, is told how it went.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    rate: f64,
    least: f64,
    most: f64,
    passed: Option<f64>,
    failed: Option<(f64, Reason)>,
    confirmed_count: u32,
    steps_count: u32,
    /// Steps in a row in which the load was late, with nothing that passed below them: the first one's rate, and how many.
    late: Option<(f64, u32)>,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The highest rate that passed and was confirmed. None: not even the lowest that was tried.
    pub rate: Option<f64>,
    /// The lowest above it that failed, and why. None: none did, up to the most that was allowed.
    pub beyond: Option<(f64, Reason)>,
    /// Whether the server may be able to do more: the load, or the most that was allowed, was the limit.
    pub is_at_least: bool,
    /// Whether it passed as often again as it should.
    pub is_confirmed: bool,
}

impl Search {
    /// From a rate that should be safe, up to `most`.
    pub fn new(from: f64, most: f64) -> Search {
        assert!(from > 0.0 && most >= from, "a search has somewhere to go");
        Search {
            rate: from,
            least: from / DESCENT,
            most,
            passed: None,
            failed: None,
            confirmed_count: 0,
            steps_count: 0,
            late: None,
        }
    }

    /// The rate to try next. None: it is over.
    pub fn next(&self) -> Option<f64> {
        let is_confirmed = self.is_narrow() && self.confirmed_count == CONFIRMATIONS;
        let is_hopeless = self.passed.is_none() && (self.rate < self.least || self.late_from().is_some());
        (!is_confirmed && !is_hopeless && self.steps_count < STEPS_MAX).then_some(self.rate)
    }

    /// The rate from which downwards the load was late whatever the rate: nothing can be said of the server. None: it was not.
    pub fn late_from(&self) -> Option<f64> {
        self.late.filter(|(_, count)| *count >= LATE_MAX).map(|(rate, _)| rate)
    }

    /// Whether there is nothing left between what passed and what failed, or what is allowed.
    fn is_narrow(&self) -> bool {
        let Some(passed) = self.passed else { return false };
        let end = self.failed.map_or(self.most, |(rate, _)| rate);
        end <= passed * NARROW || (self.failed.is_none() && passed >= self.most)
    }

    /// How the step at the rate that was asked for went.
    pub fn take(&mut self, failed: Option<Reason>) {
        self.steps_count += 1;
        let confirms = self.is_narrow() && self.passed == Some(self.rate);
        match failed {
            None if confirms => self.confirmed_count += 1,
            None => {
                self.passed = Some(self.rate);
                self.confirmed_count = 0;
            }
            Some(reason) => {
                self.failed = Some((self.rate, reason));
                self.confirmed_count = 0;
                if confirms {
                    // It passed by luck: a step lower is tried as if nothing were known of it.
                    self.passed = None;
                }
            }
        }
        let is_late = failed == Some(Reason::Late) && self.passed.is_none();
        let (first, count) = self.late.unwrap_or((self.rate, 0));
        self.late = is_late.then_some((first, count + 1));
        self.rate = match (self.passed, self.failed) {
            (Some(passed), _) if self.is_narrow() => passed,
            (Some(passed), Some((failed, _))) => (passed * failed).sqrt(),
            (Some(passed), None) => (passed * CLIMB).min(self.most),
            (None, Some((failed, _))) if confirms => failed / NARROW,
            (None, _) => self.rate / CLIMB,
        };
    }

    /// What there is to say.
    pub fn found(&self) -> Found {
        let is_limited = self.failed.is_none_or(|(_, reason)| matches!(reason, Reason::Load | Reason::Late));
        Found {
            rate: self.passed,
            beyond: self.failed,
            is_at_least: self.passed.is_some() && is_limited,
            is_confirmed: self.is_narrow() && self.confirmed_count == CONFIRMATIONS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::run;
    use crate::chance::Chance;
    use crate::result::RunHead;

    #[test]
    fn bounds_are_read() {
        for (text, quantile, below_ns) in [
            ("p99<500us", 0.99, 500_000),
            ("p99.9 < 2 ms", 0.999, 2_000_000),
            ("p50<1.5s", 0.5, 1_500_000_000),
        ] {
            let bound: Bound = text.parse().unwrap();
            assert_eq!(bound, Bound { quantile, below_ns }, "{text}");
            assert_eq!(bound.to_string().parse(), Ok(bound));
        }
        for text in ["", "p99", "p98<1ms", "p99<", "p99<1", "p99<-1ms", "p99<0us", "p99>1ms", "p99<1h"] {
            assert!(text.parse::<Bound>().unwrap_err().contains("is no bound"), "{text}");
        }
    }

    /// A server that can do so much: the search ends near it, in few steps.
    fn check(capacity: f64, from: f64, most: f64, want: impl Fn(&Found) -> bool) {
        let mut search = Search::new(from, most);
        while let Some(rate) = search.next() {
            search.take((rate > capacity).then_some(Reason::Latency));
        }
        let found = search.found();
        assert!(want(&found), "{capacity}: {found:?} after {} steps", search.steps_count);
        assert!(search.steps_count < 30, "{}", search.steps_count);
    }

    #[test]
    fn a_capacity_is_found_from_either_side() {
        for capacity in [3_000.0, 54_321.0, 1e6] {
            check(capacity, 10_000.0, 1e9, |found| {
                let near = found.rate.is_some_and(|rate| rate <= capacity && rate >= capacity / NARROW);
                near && found.is_confirmed && !found.is_at_least
            });
        }
        check(1e7, 1000.0, 50_000.0, |found| found.rate == Some(50_000.0) && found.is_at_least);
        check(1e7, 1000.0, 1000.0, |found| {
            found.rate == Some(1000.0) && found.is_at_least && found.is_confirmed
        });
        check(0.9, 1000.0, 1e6, |found| found.rate.is_none() && found.beyond.is_some());
    }

    #[test]
    fn a_load_that_is_the_limit_says_at_least() {
        let mut search = Search::new(1000.0, 1e9);
        while let Some(rate) = search.next() {
            search.take((rate > 30_000.0).then_some(Reason::Load));
        }
        assert!(search.found().is_at_least);
    }

    /// It is said after few steps. A load that can't make the rate is another matter: at a lower one it can.
    #[test]
    fn a_load_that_is_late_at_every_rate_ends_the_search() {
        let run = |reason: fn(f64) -> Option<Reason>| {
            let mut search = Search::new(1_000.0, 1e9);
            let mut rates = Vec::new();
            while let Some(rate) = search.next() {
                rates.push(rate);
                search.take(reason(rate));
            }
            (rates, search)
        };
        let (rates, search) = run(|_| Some(Reason::Late));
        assert_eq!(rates, [1_000.0, 500.0, 250.0, 125.0]);
        assert_eq!(search.late_from(), Some(1_000.0));
        let found = search.found();
        assert_eq!((found.rate, found.beyond), (None, Some((125.0, Reason::Late))));
        // Not where a step between them failed by another reason, nor where something passed.
        let (rates, _) = run(|rate| Some(if rate == 250.0 { Reason::Latency } else { Reason::Late }));
        assert_eq!(rates.len(), 7);
        let (_, search) = run(|rate| (rate > 8_000.0).then_some(Reason::Late));
        assert!(search.found().is_confirmed && search.found().is_at_least && search.late_from().is_none());
        let (rates, search) = run(|rate| (rate > 20.0).then_some(Reason::Load));
        assert!(search.found().is_confirmed && rates[6] < 20.0, "{rates:?}");
        // What passed by luck is tried again below, and there the same holds.
        let mut search = Search::new(1_000.0, 1_000.0);
        search.take(None);
        for count in 1..=LATE_MAX {
            assert!(search.next().is_some(), "{count}");
            search.take(Some(Reason::Late));
        }
        assert_eq!((search.next(), search.late_from()), (None, Some(1_000.0)));
    }

    /// Near its capacity a server passes by chance: what is confirmed passes far more often than not.
    #[test]
    fn luck_is_found_out() {
        let passes = |rate: f64| 1.0 / (1.0 + ((rate - 50_000.0) / 1_000.0).exp());
        let mut total = 0.0;
        for seed in 0..200 {
            let mut chance = Chance::new(seed);
            let mut search = Search::new(10_000.0, 1e9);
            while let Some(rate) = search.next() {
                search.take((chance.share() > passes(rate)).then_some(Reason::Latency));
            }
            let found = search.found();
            assert!(found.is_confirmed);
            total += passes(found.rate.unwrap());
        }
        assert!(total / 200.0 > 0.8, "{}", total / 200.0);
    }

    #[test]
    fn a_step_passes_only_for_sure() {
        let at = |ns: u64, count: u64| {
            let head = RunHead { rate: Some(float(count) * 10.0), warm_up_s: Some(0), ..RunHead::default() };
            run(head, &[(ns, count), (ns, count), (ns, count)])
        };
        let bound: Bound = "p99<1ms".parse().unwrap();
        assert_eq!(Step::of(&at(900_000, 1000), bound).failed, None);
        assert_eq!(Step::of(&at(1_100_000, 1000), bound).failed, Some(Reason::Latency));
        assert_eq!(
            Step::of(&at(900_000, 20), bound).failed,
            Some(Reason::Latency),
            "600 replies resolve no p99"
        );
        let mut slow = at(900_000, 1000);
        slow.head.rate = Some(11_000.0);
        assert_eq!(Step::of(&slow, bound).failed, Some(Reason::Achieved));
        slow.seconds[0].second.operations[0].errors = 1;
        assert_eq!(Step::of(&slow, bound).failed, Some(Reason::Errors));
        let mut late = at(900_000, 1000);
        late.seconds[0].second.send_lag.record_n(800_000, 5000).unwrap();
        let step = Step::of(&late, bound);
        assert_eq!(step.failed, Some(Reason::Late));
        assert!(step.load_words.is_some_and(|words| words.contains("late")), "the gate's words");
        late.head.rate = Some(11_000.0);
        assert_eq!(Step::of(&late, bound).failed, Some(Reason::Load), "it did not make the rate");
        let mut full = at(900_000, 1000);
        full.end.as_mut().unwrap().thread_use = vec![0.99];
        let step = Step::of(&full, bound);
        assert!(step.failed == Some(Reason::Load) && step.load_words.is_some());
    }
}
