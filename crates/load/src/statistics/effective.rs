//! How many independent requests a run is worth.
//!
//! Requests of one second share its queue, its neighbour, its stall. A million of them then tell as much about the p99 as
//! a few thousand independent ones, and a formula for independent ones promises far too much. The inflation τ says how
//! much: N requests are worth N/τ. It is found by doubling batches: the mean of b independent values varies b times less
//! than one value, and where it does not, the missing factor is τ. The largest over b = 1, 2, 4, … counts, while at least
//! [`BATCHES_COUNT_MIN`] batches are left to take a variance of: chance alone makes that 1.3, so τ says too much rather
//! than too little. What is slower than a twentieth of the run stays unseen; that is what repeated runs are for. (Batch
//! means: Law, "Simulation Modeling and Analysis", chapter 9.)

use super::describe::{variance, variance_population};

/// With fewer batches their variance says more of chance than of the series.
pub const BATCHES_COUNT_MIN: usize = 20;

/// τ of a series of values at equal distances, one or more. 1 where the series is too short or constant: unknown.
pub fn inflation(series: &[f64]) -> f64 {
    let all = variance_population(series);
    let mut largest = 1.0_f64;
    for size in batch_sizes(series.len()) {
        let means: Vec<f64> = series.chunks_exact(size).map(super::describe::mean).collect();
        if let Some(between) = variance(&means).filter(|_| all > 0.0) {
            largest = largest.max(size as f64 * between / all);
        }
    }
    largest
}

/// τ of events that happen to some of the requests of each interval, as being late does: how much more their number
/// varies from interval to interval than that of as many independent requests would, again in doubling batches.
///
/// `events[i]` of `requests[i]` in interval i. One or more; 1 where there is no event or too few intervals: unknown.
pub fn inflation_of_events(events: &[u64], requests: &[u64]) -> f64 {
    assert!(events.len() == requests.len(), "each interval has its requests");
    let share = sum(events) / sum(requests);
    if !(share > 0.0 && share < 1.0) {
        return 1.0;
    }
    let mut largest = 1.0_f64;
    for size in batch_sizes(events.len()) {
        let batches = events.chunks_exact(size).zip(requests.chunks_exact(size));
        let surprises = batches.filter(|(_, requests)| sum(requests) > 0.0).map(|(events, requests)| {
            let expected = sum(requests) * share;
            (sum(events) - expected).powi(2) / (expected * (1.0 - share))
        });
        let surprises: Vec<f64> = surprises.collect();
        if surprises.len() >= BATCHES_COUNT_MIN {
            largest = largest.max(surprises.iter().sum::<f64>() / (surprises.len() - 1) as f64);
        }
    }
    largest
}

/// 1, 2, 4, … while enough batches of the size fit.
fn batch_sizes(count: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |size| Some(size * 2))
        .take_while(move |size| count / size >= BATCHES_COUNT_MIN)
}

fn sum(counts: &[u64]) -> f64 {
    counts.iter().sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use crate::statistics::trial::normal;

    #[test]
    fn independent_values_are_worth_themselves() {
        let mut chance = Chance::new(1);
        let mut white = || inflation(&(0..2_000).map(|_| normal(&mut chance)).collect::<Vec<f64>>());
        let inflations: Vec<f64> = (0..100).map(|_| white()).collect();
        let mean = crate::statistics::describe::mean(&inflations);
        assert!((1.0..1.6).contains(&mean) && inflations.iter().all(|&tau| tau < 3.0), "{mean}");
        assert_eq!((inflation(&[3.0; 100]), inflation(&[1.0, 9.0, 1.0]), inflation(&[])), (1.0, 1.0, 1.0));
    }

    #[test]
    fn a_slow_wander_is_worth_little() {
        // xₜ = 0.9 xₜ₋₁ + εₜ has τ = (1 + 0.9) / (1 − 0.9) = 19.
        let mut chance = Chance::new(2);
        let wander = (0..40_000).scan(0.0, |state, _| {
            *state = 0.9 * *state + normal(&mut chance);
            Some(*state)
        });
        let wander: Vec<f64> = wander.collect();
        assert!((15.0..30.0).contains(&inflation(&wander)), "{}", inflation(&wander));
    }

    #[test]
    fn late_requests_that_come_together_count_as_few() {
        // 1 in 1,000 late. Spread evenly over 100 seconds of 10,000 requests, or all of them in one second of a hundred.
        let requests = vec![10_000; 100];
        let mut chance = Chance::new(3);
        let spread = |chance: &mut Chance| (0..10_000).filter(|_| chance.below(1_000) == 0).count() as u64;
        let spread: Vec<u64> = (0..100).map(|_| spread(&mut chance)).collect();
        assert!((1.0..2.0).contains(&inflation_of_events(&spread, &requests)));
        let mut bunched = vec![0; 100];
        bunched[40] = 1_000;
        // (990² + 99·10²) / (10·0.999) / 99: a thousand late ones are worth one.
        let tau = inflation_of_events(&bunched, &requests);
        assert!((tau - 1_001.0).abs() < 1.0, "{tau}");
    }

    #[test]
    fn nothing_late_and_nothing_asked_tell_nothing() {
        assert_eq!(inflation_of_events(&[0; 50], &[10; 50]), 1.0);
        assert_eq!(inflation_of_events(&[0; 50], &[0; 50]), 1.0);
        assert_eq!(inflation_of_events(&[9, 0], &[10, 10]), 1.0, "two intervals have no spread");
    }
}
