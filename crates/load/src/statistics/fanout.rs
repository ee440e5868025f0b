//! Fan-out: how many servers can work in parallel within a response time.
//!
//! A page that asks n servers is as slow as the slowest. If one answers in time with probability F, all do with Fⁿ: at 99 %
//! each, a page of a hundred is late in 63 % of cases (Dean and Barroso, "The Tail at Scale", CACM 2013). So a share of late
//! answers is a number of servers: n* = ⌊ln π / ln F⌋ can be asked if all are to be in time with probability π.
//!
//! Never flattering: what is perhaps in time is late, errors and lost replies are late, and the number that may be *claimed*
//! comes from the upper end of the interval of the late share. None late of a million proves 2,724 servers at 99 %, not any
//! number.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use statrs::function::beta::beta_reg;

use super::quantiles::count_within;
use super::{Interval, Level};
use crate::float::float;

/// Late answers up to which the interval is exact; beyond, the score interval is the same to three digits, and its upper end,
/// which counts, is the one further out.
const EXACT_COUNT_MAX: f64 = 1_000.0;
/// Halvings in the search for the end of an exact interval: past a double's digits, also near zero.
const HALVINGS: usize = 100;

/// Answers of some time, by whether they came within a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Late, wrong, or never.
    pub late_count: u64,
    /// All.
    pub count: u64,
}

impl Answers {
    /// Of response times. A bucket is in time only if its greatest value is.
    pub fn within(response: &Histogram<u64>, deadline_ns: u64) -> Answers {
        let count = response.len();
        Answers { late_count: count - count_within(response, deadline_ns), count }
    }

    /// So many of the answers were errors, and count as late; those that were late anyway are counted twice rather than
    /// forgiven.
    pub fn of_which_failed(self, failed_count: u64) -> Answers {
        Answers { late_count: (self.late_count + failed_count).min(self.count), ..self }
    }

    /// So many more were never answered.
    pub fn and_lost(self, lost_count: u64) -> Answers {
        Answers { late_count: self.late_count + lost_count, count: self.count + lost_count }
    }

    /// These and others.
    pub fn and(self, others: Answers) -> Answers {
        Answers { late_count: self.late_count + others.late_count, count: self.count + others.count }
    }

    /// As a share. Not a number where there is no answer.
    pub fn late_share(self) -> f64 {
        float(self.late_count) / float(self.count)
    }
}

/// Fⁿ: the probability that all of n independent servers answer in time, each being late with this probability.
pub fn all_in_time(late_share: f64, servers: u64) -> f64 {
    if servers == 0 {
        return 1.0;
    }
    (float(servers) * (-late_share).ln_1p()).exp()
}

/// The largest number of servers that all answer in time with at least this probability. None: none is ever late, so any.
pub fn servers_max(late_share: f64, probability: f64) -> Option<u64> {
    assert!(probability > 0.0 && probability < 1.0, "certainty has no servers, and impossibility any");
    // A hair more, because the quotient of two logarithms may miss a whole number that is meant.
    let servers = probability.ln() / (-late_share).ln_1p() * (1.0 + 1e-12);
    (late_share > 0.0).then(|| super::describe::whole(servers) as u64)
}

/// The "same second" form: the mean over seconds of F_t^n, as if all servers went through the same second at once.
///
/// It is never below Fⁿ of the whole run (Jensen), and the more it exceeds it, the more late answers come bunched. Servers
/// that are independent do not stall in the same second, so Fⁿ is the one to plan with. Seconds without an answer are left
/// out; None: there is no other.
pub fn all_in_time_same_second(seconds: &[Answers], servers: u64) -> Option<f64> {
    let answered = seconds.iter().filter(|second| second.count > 0);
    let chances: Vec<f64> = answered.map(|second| all_in_time(second.late_share(), servers)).collect();
    (!chances.is_empty()).then(|| super::describe::mean(&chances))
}

/// How many servers can be asked at once, with what may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FanOut {
    /// What it rests on.
    pub answers: Answers,
    /// With which probability all are to be in time.
    pub probability: f64,
    /// Where the late share lies: Clopper and Pearson 1934, on as many independent answers as these are worth.
    pub late_interval: Interval,
    /// n* of the measured share. None: nothing was late, so the measurement sets no limit.
    pub servers: Option<u64>,
    /// n* of the interval's upper end: "at least so many". This one is a claim.
    pub servers_claimed: u64,
}

impl FanOut {
    /// `inflation` is the τ of [`inflation_of_events`](super::effective::inflation_of_events) for late answers: bunched
    /// ones prove less. None: no answers.
    pub fn of(answers: Answers, inflation: f64, probability: f64, level: Level) -> Option<FanOut> {
        assert!(inflation >= 1.0, "no answer is worth more than one");
        if answers.count == 0 {
            return None;
        }
        let late_interval =
            share_interval(float(answers.late_count) / inflation, float(answers.count) / inflation, level);
        Some(FanOut {
            answers,
            probability,
            late_interval,
            servers: servers_max(answers.late_share(), probability),
            servers_claimed: servers_max(late_interval.high, probability)
                .expect("an upper end lies above zero"),
        })
    }
}

/// Servers that can be asked at once, by each of several runs. None stands for any number: nothing was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverRuns {
    /// By the worst run.
    pub lowest: Option<u64>,
    /// By the run in the middle; of an even number the worse of the two.
    pub middle: Option<u64>,
    /// By the best run.
    pub highest: Option<u64>,
    /// Where the middle of all runs that could be made lies. None: too few runs.
    pub interval: Option<(Option<u64>, Option<u64>)>,
}

/// The interval is of order statistics, so that a run in which nothing was late needs no number: as many runs are taken off each end
/// as leave the median outside with at most the level's chance (David and Nagaraja, "Order Statistics", section 7.1). Six runs tell
/// it at 95 %. None: fewer than two runs.
pub fn over_runs(servers: &[Option<u64>], level: Level) -> Option<OverRuns> {
    // Any number is more than every number.
    let mut sorted: Vec<u64> = servers.iter().map(|servers| servers.unwrap_or(u64::MAX)).collect();
    sorted.sort_unstable();
    let told = |index: usize| (sorted[index] != u64::MAX).then(|| sorted[index]);
    let count = sorted.len();
    // The chance that at most so many of the runs lie below the median, each being there with one half.
    let mut chance = 0.5_f64.powf(float(u64::try_from(count).expect("a length fits 64 bits")));
    let (mut below, mut off) = (0.0, 0);
    for index in 0..count / 2 {
        below += chance;
        if below > level.tail() {
            break;
        }
        off = index + 1;
        chance *= (count - index) as f64 / (index + 1) as f64;
    }
    (count > 1).then(|| OverRuns {
        lowest: told(0),
        middle: told((count - 1) / 2),
        highest: told(count - 1),
        interval: (off > 0).then(|| (told(off - 1), told(count - off))),
    })
}

/// Where the probability of something lies that happened `events` times in `count`; both may be effective numbers, with
/// fractions. Exact (Clopper and Pearson) while few happened or few did not, else the score interval with continuity
/// correction (Newcombe 1998, method 4).
fn share_interval(events: f64, count: f64, level: Level) -> Interval {
    if events > count / 2.0 {
        let others = share_interval(count - events, count, level);
        return Interval::new(1.0 - others.high, 1.0 - others.low);
    }
    if events > EXACT_COUNT_MAX {
        return score_interval(events, count, level);
    }
    let low = if events > 0.0 { beta_quantile(level.tail(), events, count - events + 1.0) } else { 0.0 };
    // 1 − tail^(1/n) for none of n, which the beta distribution says, too, but not to the last digit.
    let high = if events > 0.0 {
        beta_quantile(1.0 - level.tail(), events + 1.0, count - events)
    } else {
        -(level.tail().ln() / count).exp_m1()
    };
    Interval::new(low, high)
}

fn score_interval(events: f64, count: f64, level: Level) -> Interval {
    let z = level.normal_quantile();
    let (share, other) = (events / count, count - events);
    let below = z * (z * z - 2.0 - 1.0 / count + 4.0 * share * (other + 1.0)).sqrt();
    let above = z * (z * z + 2.0 - 1.0 / count + 4.0 * share * (other - 1.0)).sqrt();
    let whole = 2.0 * (count + z * z);
    Interval::new((2.0 * events + z * z - 1.0 - below) / whole, (2.0 * events + z * z + 1.0 + above) / whole)
}

/// The value below which a beta variable lies with this probability. By halving: statrs' own inverse (AS 109) has four digits
/// left where one shape is a million times the other, and does not return where it is a hundred million times.
fn beta_quantile(probability: f64, shape_a: f64, shape_b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if beta_reg(shape_a, shape_b, middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::times;

    const MILLION: u64 = 1_000_000;

    fn near(got: f64, want: f64, within: f64) {
        assert!((got - want).abs() <= within, "{got} for {want}");
    }

    #[test]
    fn one_slow_answer_in_a_hundred_makes_most_pages_late() {
        near(1.0 - all_in_time(0.01, 100), 0.634, 5e-4);
        near(1.0 - all_in_time(0.0001, 2_000), 0.181, 5e-4);
        near(all_in_time(0.01, 0), 1.0, 0.0);
        near(all_in_time(1.0, 5), 0.0, 0.0);
        assert_eq!(all_in_time(1.0, 0), 1.0);
    }

    #[test]
    fn servers_are_the_inverse_of_the_chance() {
        for late in [0.3, 0.01, 1e-3, 1e-4, 1e-7] {
            for probability in [0.5, 0.9, 0.99] {
                let servers = servers_max(late, probability).unwrap();
                assert!(all_in_time(late, servers) >= probability - 1e-9, "{late} {probability}");
                assert!(all_in_time(late, servers + 1) < probability, "{late} {probability}");
            }
        }
        assert_eq!(servers_max(1.0 - 0.81_f64.sqrt(), 0.81), Some(2), "a whole number is met");
        assert_eq!(
            (servers_max(0.0, 0.99), servers_max(1.0, 0.99), servers_max(0.02, 0.99)),
            (None, Some(0), Some(0))
        );
    }

    #[test]
    fn what_may_be_claimed_of_a_million_answers() {
        let fan_out = |late_count| {
            let answers = Answers { late_count, count: MILLION };
            FanOut::of(answers, 1.0, 0.99, Level::NINETY_FIVE).unwrap()
        };
        let check = |late_count, want| {
            let got = fan_out(late_count);
            assert_eq!((got.servers, got.servers_claimed), want, "{late_count} late: {got:?}");
        };
        check(0, (None, 2_724));
        check(100, (Some(100), 82));
        check(1_000, (Some(10), 9));
        check(MILLION, (Some(0), 0));
        // Ten times as dependent: none of 100,000.
        let bunched =
            FanOut::of(Answers { late_count: 0, count: MILLION }, 10.0, 0.99, Level::NINETY_FIVE).unwrap();
        assert_eq!(bunched.servers_claimed, 272);
        assert!(FanOut::of(Answers { late_count: 0, count: 0 }, 1.0, 0.99, Level::NINETY_FIVE).is_none());
    }

    /// As R's binom.test prints them.
    #[test]
    fn intervals_of_shares_are_clopper_and_pearsons() {
        for (events, count, low, high) in [
            (0.0, 10.0, 0.0, 0.308_497),
            (1.0, 10.0, 0.002_529, 0.445_016),
            (5.0, 10.0, 0.187_086, 0.812_914),
            (10.0, 10.0, 0.691_503, 1.0),
            (7.0, 50.0, 0.058_191, 0.267_396),
            (682.0, 925.0, 0.707_668, 0.765_407),
        ] {
            let got = share_interval(events, count, Level::NINETY_FIVE);
            assert!(
                (got.low - low).abs() < 1e-6 && (got.high - high).abs() < 1e-6,
                "{events} of {count}: {got:?}"
            );
        }
    }

    /// Newcombe 1998, table I, method 4.
    #[test]
    fn score_intervals_are_those_of_the_paper() {
        for (events, count, want) in
            [(81.0, 263.0, (0.2535, 0.3682)), (15.0, 148.0, (0.0598, 0.1644)), (1.0, 29.0, (0.0018, 0.1963))]
        {
            let got = score_interval(events, count, Level::NINETY_FIVE);
            near(got.low, want.0, 5.1e-5);
            near(got.high, want.1, 5.1e-5);
        }
    }

    #[test]
    fn exact_and_score_intervals_meet() {
        for count in [4_000.0, 1e6, 1e9] {
            let exact = share_interval(EXACT_COUNT_MAX, count, Level::NINETY_FIVE);
            let score = score_interval(EXACT_COUNT_MAX, count, Level::NINETY_FIVE);
            assert!((exact.low / score.low - 1.0).abs() < 1e-3, "{count}: {exact:?} {score:?}");
            assert!((exact.high / score.high - 1.0).abs() < 1e-3, "{count}: {exact:?} {score:?}");
        }
        let half = share_interval(5e8, 1e9, Level::NINETY_FIVE);
        near(half.low, 0.5 - 1.96 * 0.5 / 1e9_f64.sqrt(), 1e-7);
    }

    #[test]
    fn runs_have_a_middle_and_its_interval() {
        let of = |servers: &[Option<u64>]| over_runs(servers, Level::NINETY_FIVE);
        assert_eq!(of(&[Some(3)]), None);
        let few = of(&[Some(9), Some(4), None]).unwrap();
        assert_eq!((few.lowest, few.middle, few.highest, few.interval), (Some(4), Some(9), None, None));
        let runs = |count: u64| -> Vec<Option<u64>> { (1..=count).rev().map(Some).collect() };
        // Ranks as in tables of the sign test: 1 and 6 of 6, 2 and 9 of 10, 6 and 15 of 20.
        for (count, low, high) in [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15)] {
            assert_eq!(of(&runs(count)).unwrap().interval, Some((Some(low), Some(high))), "{count}");
        }
        assert_eq!(of(&runs(5)).unwrap().interval, None);
        assert_eq!(of(&runs(10)).unwrap().middle, Some(5));
        assert_eq!(of(&[None; 7]).unwrap().interval, Some((None, None)));
    }

    #[test]
    fn errors_and_lost_replies_are_late() {
        let mut histogram = times();
        for ns in [100, 200, 300, 400] {
            histogram.record(ns).unwrap();
        }
        let answers = Answers::within(&histogram, 300);
        assert_eq!(answers, Answers { late_count: 1, count: 4 });
        assert_eq!(answers.of_which_failed(2), Answers { late_count: 3, count: 4 });
        assert_eq!(answers.of_which_failed(9), Answers { late_count: 4, count: 4 });
        assert_eq!(answers.and_lost(6), Answers { late_count: 7, count: 10 });
        assert_eq!(Answers::within(&histogram, 99).late_share(), 1.0);
    }

    #[test]
    fn bunched_stalls_show_in_the_same_second_form() {
        // 0.1 % late over 1,000 seconds of 1,000: one in each, or all in ten of them.
        let spread = vec![Answers { late_count: 1, count: 1_000 }; 1_000];
        let mut bunched = vec![Answers { late_count: 0, count: 1_000 }; 1_000];
        bunched[..10].fill(Answers { late_count: 100, count: 1_000 });
        near(all_in_time(0.001, 100), 0.905, 5e-4);
        near(all_in_time_same_second(&spread, 100).unwrap(), 0.905, 5e-4);
        near(all_in_time_same_second(&bunched, 100).unwrap(), 0.990, 5e-4);
        let silent = Answers { late_count: 0, count: 0 };
        assert_eq!(all_in_time_same_second(&[silent], 100), None);
        assert_eq!(all_in_time_same_second(&[silent, spread[0]], 1), Some(0.999));
    }
}
