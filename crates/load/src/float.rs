//! Counts and nanoseconds as floats, for means, rates and shares. Both directions say what they lose.

/// A count as a float: exact up to 2^53, which is nine quadrillion requests or a hundred days in nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, and what is greater needs no last digit")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// Seconds as whole nanoseconds; what is negative or no number is none, what is too long is the longest.
pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    let is_some = seconds > 0.0;
    let longest = std::time::Duration::MAX;
    let exact =
        std::time::Duration::try_from_secs_f64(if is_some { seconds } else { 0.0 }).unwrap_or(longest);
    u64::try_from(exact.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_that_cannot_be_are_bounded() {
        for (seconds, want) in
            [(0.5, 500_000_000), (-1.0, 0), (f64::NAN, 0), (1e30, u64::MAX), (f64::INFINITY, u64::MAX)]
        {
            assert_eq!(nanoseconds(seconds), want, "{seconds}");
        }
    }
}
