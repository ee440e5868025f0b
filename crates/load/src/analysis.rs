//! What a saved result means: which seconds of a run count, its figures, what makes it doubtful, and what two set-ups compare
//! to. Pure, from the saved lines alone, so that a report written years later says what the screen said.

pub mod comparison;
pub mod gates;
pub(crate) mod hosts;
pub mod machines;
mod metric;

use hdrhistogram::Histogram;

use crate::float::float;
use crate::record::{OperationSecond, Second, times};
use crate::result::{Run, SavedSecond};
use crate::statistics::Level;
use crate::statistics::steady::Cut;
use crate::statistics::trend::Trend;
use crate::workload::Operation;

pub use metric::Metric;

/// A last second is counted as a whole one from this share on: the last replies are in it.
const WHOLE_SHARE_MIN: f64 = 0.995;

/// The seconds of a run that count.
#[derive(Clone, Debug, PartialEq)]
pub struct Window<'a> {
    /// Whole seconds behind the warm-up.
    pub seconds: &'a [SavedSecond],
    /// Seconds left out in front of them.
    pub warm_up_s: usize,
    /// Whether the end of the warm-up was seen. None: it was given, or the run is too short to tell.
    pub is_steady: Option<bool>,
}

impl<'a> Window<'a> {
    /// Of a run: behind its ramp and the warm-up that was asked for, or where MSER-5 sees its end. A run without a whole second counts
    /// with what it has.
    pub fn of(run: &'a Run) -> Window<'a> {
        let last_share = run.end.as_ref().map_or(0.0, |end| end.last_share);
        let count = run.seconds.len();
        let whole_count = if last_share >= WHOLE_SHARE_MIN { count } else { count.saturating_sub(1) };
        if whole_count == 0 {
            return Window { seconds: &run.seconds, warm_up_s: 0, is_steady: None };
        }
        let whole = &run.seconds[..whole_count];
        let count = |seconds| usize::try_from(seconds).unwrap_or(usize::MAX);
        let ramp_s = count(run.head.ramp_s).min(whole_count - 1);
        let (warm_up_s, is_steady) = match run.head.warm_up_s {
            Some(seconds) => (count(seconds).max(ramp_s), None),
            None => match Cut::of(&means(&whole[ramp_s..])) {
                Some(cut) => (ramp_s + cut.dropped_count.div_ceil(crate::record::PARTS), Some(cut.is_steady)),
                None => (ramp_s, None),
            },
        };
        // A warm-up that is longer than the run leaves its last second.
        let warm_up_s = warm_up_s.min(whole_count - 1);
        Window { seconds: &whole[warm_up_s..], warm_up_s, is_steady }
    }
}

/// The mean response time of each tenth of a second, in nanoseconds; one without a reply repeats the one before.
fn means(seconds: &[SavedSecond]) -> Vec<f64> {
    let mut last = 0.0;
    let parts = seconds.iter().flat_map(|second| second.second.parts);
    parts
        .map(|(count, sum_ns)| {
            if count > 0 {
                last = float(sum_ns) / float(count);
            }
            last
        })
        .collect()
}

/// What a run came to, over its window.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Seconds that count.
    pub duration_s: f64,
    /// All operations together.
    pub total: Share,
    /// Each operation.
    pub operations: Vec<(Operation, Share)>,
    /// Intended to sent.
    pub send_lag: Histogram<u64>,
    /// Requests begun.
    pub begun: u64,
    /// Of each second: replies, the mean response time and its p99, in nanoseconds.
    pub seconds: Vec<SecondFigures>,
}

/// One second's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecondFigures {
    /// Replies.
    pub count: u64,
    /// Mean response time in nanoseconds; none without replies.
    pub mean_ns: Option<f64>,
    /// The 99th percentile of its response times.
    pub p99_ns: Option<u64>,
}

/// Replies of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// How many.
    pub count: u64,
    /// A second.
    pub per_second: f64,
    /// Intended to received.
    pub response: Histogram<u64>,
    /// Sent to received.
    pub service: Histogram<u64>,
    /// Replies that are errors.
    pub errors: u64,
    /// Replies that say that there is nothing.
    pub misses: u64,
    /// Values that are not what was set.
    pub wrong: u64,
}

impl Share {
    fn new() -> Share {
        let (response, service) = (times(), times());
        Share { count: 0, per_second: 0.0, response, service, errors: 0, misses: 0, wrong: 0 }
    }

    fn add(&mut self, second: &OperationSecond) {
        self.count += second.count();
        self.response.add(&second.response).expect("all histograms have one shape");
        self.service.add(&second.service).expect("all histograms have one shape");
        self.errors += second.errors;
        self.misses += second.misses;
        self.wrong += second.wrong;
    }
}

impl Figures {
    /// Of the seconds that count.
    pub fn of(run: &Run) -> Figures {
        let window = Window::of(run);
        let mut figures = Figures {
            duration_s: duration_s(run, &window),
            total: Share::new(),
            operations: Vec::new(),
            send_lag: times(),
            begun: 0,
            seconds: Vec::new(),
        };
        for SavedSecond { second, .. } in window.seconds {
            for operation in &second.operations {
                let known = figures.operations.iter().position(|(known, _)| *known == operation.operation);
                let index = known.unwrap_or_else(|| {
                    figures.operations.push((operation.operation, Share::new()));
                    figures.operations.len() - 1
                });
                figures.operations[index].1.add(operation);
                figures.total.add(operation);
            }
            figures.send_lag.add(&second.send_lag).expect("all histograms have one shape");
            figures.begun += second.begun;
            figures.seconds.push(SecondFigures::of(second));
        }
        let duration_s = figures.duration_s;
        for share in figures.operations.iter_mut().map(|(_, share)| share).chain([&mut figures.total]) {
            share.per_second = if duration_s > 0.0 { float(share.count) / duration_s } else { 0.0 };
        }
        figures
    }

    /// The line through the seconds' mean response times. None: too few seconds have replies.
    pub fn trend(&self, level: Level) -> Option<Trend> {
        let means: Vec<f64> = self.seconds.iter().filter_map(|second| second.mean_ns).collect();
        Trend::of(&means, level)
    }
}

impl SecondFigures {
    fn of(second: &Second) -> SecondFigures {
        let response = second.response();
        let some = !response.is_empty();
        SecondFigures {
            count: response.len(),
            mean_ns: some.then(|| response.mean()),
            p99_ns: some.then(|| response.value_at_quantile(0.99)),
        }
    }
}

/// Whole seconds; of a run that has none, what there is of one.
fn duration_s(run: &Run, window: &Window<'_>) -> f64 {
    match (&run.end, &run.seconds[..], window.seconds) {
        (Some(end), [_], _) if end.last_share < WHOLE_SHARE_MIN => end.last_share,
        (_, _, seconds) => float(u64::try_from(seconds.len()).expect("a length fits 64 bits")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{PARTS, SECOND_NS};
    use crate::result::{RunEnd, RunHead};
    use std::collections::BTreeMap;

    /// A run with these response times, each so often in each part of a second, and a quarter of a second at the end.
    pub(crate) fn run(head: RunHead, seconds: &[(u64, u64)]) -> Run {
        let saved = |number: usize, (ns, count): (u64, u64)| {
            let mut second = Second::new([Operation::Get].into_iter());
            second.number = u32::try_from(number).unwrap();
            let all = count * u64::try_from(PARTS).unwrap();
            second.operations[0].response.record_n(ns, all).unwrap();
            second.operations[0].service.record_n(ns / 2, all).unwrap();
            second.send_lag.record_n(1000, all).unwrap();
            second.parts = [(count, ns * count); PARTS];
            second.begun = all;
            SavedSecond { run: head.run, second, counters: BTreeMap::new() }
        };
        let mut all: Vec<SavedSecond> =
            seconds.iter().enumerate().map(|(at, second)| saved(at, *second)).collect();
        all.push(saved(seconds.len(), (1_000_000, 1)));
        let elapsed_ns = u64::try_from(seconds.len()).unwrap() * SECOND_NS;
        let end = RunEnd {
            run: head.run,
            last_share: 0.25,
            elapsed_ns,
            thread_use: vec![0.3],
            answered: all.iter().map(|second| second.second.count()).sum(),
            ..RunEnd::default()
        };
        Run { head, seconds: all, end: Some(end) }
    }

    #[test]
    fn a_warm_up_that_was_given_is_left_out_and_so_is_a_cut_second() {
        let head = RunHead { warm_up_s: Some(1), ..RunHead::default() };
        let run = run(head, &[(9_000_000, 10), (1_000_000, 10), (1_000_000, 20)]);
        let window = Window::of(&run);
        assert_eq!((window.seconds.len(), window.warm_up_s, window.is_steady), (2, 1, None));
        let figures = Figures::of(&run);
        assert_eq!((figures.total.count, figures.begun, figures.duration_s), (300, 300, 2.0));
        assert!((figures.total.per_second - 150.0).abs() < 1e-9);
        assert!(figures.total.response.max().abs_diff(1_000_000) < 1000);
        assert_eq!(figures.seconds.iter().map(|second| second.count).collect::<Vec<_>>(), [100, 200]);
    }

    #[test]
    fn a_ramp_never_counts() {
        for (warm_up_s, want_s) in [(None, 3), (Some(0), 3), (Some(4), 4)] {
            let head = RunHead { ramp_s: 3, warm_up_s, ..RunHead::default() };
            let run = super::tests::run(head, &[(5, 1); 6]);
            assert_eq!(Window::of(&run).warm_up_s, want_s, "{warm_up_s:?}");
        }
    }

    #[test]
    fn a_warm_up_is_seen_by_itself() {
        let mut seconds = vec![(5_000_000, 100), (2_000_000, 100)];
        seconds.extend((0..18).map(|at| (1_000_000 + at % 3 * 1000, 100)));
        let run = run(RunHead::default(), &seconds);
        let window = Window::of(&run);
        assert_eq!((window.warm_up_s, window.is_steady, window.seconds.len()), (2, Some(true), 18));
    }

    /// Half a slow second is a whole one that doesn't count; a tenth without a reply is as the one before it.
    #[test]
    fn a_warm_up_ends_with_its_second() {
        let mut run = run(RunHead::default(), &[(1_000_000, 100); 20]);
        run.seconds[0].second.parts[..5].fill((100, 900_000_000));
        run.seconds[1].second.parts[3] = (0, 0);
        let means = means(&run.seconds[..2]);
        assert_eq!((means[4], means[5], means[13]), (9e6, 1e6, 1e6));
        let window = Window::of(&run);
        assert_eq!((window.warm_up_s, window.is_steady, window.seconds.len()), (1, Some(true), 19));
    }

    /// Of a second and a quarter the second counts, as a whole one.
    #[test]
    fn a_last_part_takes_nothing_from_the_second_before_it() {
        let run = run(RunHead { warm_up_s: Some(0), ..RunHead::default() }, &[(1_000_000, 100)]);
        let figures = Figures::of(&run);
        assert_eq!((run.seconds.len(), figures.total.count, figures.duration_s), (2, 1_000, 1.0));
    }

    #[test]
    fn less_than_a_second_counts_with_what_it_has() {
        let run = run(RunHead::default(), &[]);
        let figures = Figures::of(&run);
        assert_eq!((figures.total.count, figures.duration_s), (10, 0.25));
        assert!((figures.total.per_second - 40.0).abs() < 1e-9);
        let long =
            super::tests::run(RunHead { warm_up_s: Some(99), ..RunHead::default() }, &[(5, 1), (6, 1)]);
        assert_eq!(Window::of(&long).seconds.len(), 1, "never nothing");
        assert_eq!(Figures::of(&Run::default()).total.count, 0);
    }
}
