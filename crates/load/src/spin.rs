//! What the machine takes from a thread that only wants to run.
//!
//! A thread that does nothing but read the clock sees every moment in which something else had its core: an interrupt, the
//! kernel's own work, another program, the hypervisor. No server on that core can have a shorter longest turn than the
//! longest of these, so the two are printed together.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::record::times;
use crate::statistics::quantiles::{NAMED, quantile_ns};

/// Nanoseconds between two looks at the clock from which on something else must have run. Two looks are 50 ns apart.
pub const GAP_NS_MIN: u64 = 1_000;

/// Looks at the clock without pause until `duration_ns` have passed, and returns the gaps of at least [`GAP_NS_MIN`].
pub fn gaps(clock: impl Fn() -> u64, duration_ns: u64) -> Histogram<u64> {
    let mut gaps = times();
    let began_ns = clock();
    let mut last_ns = began_ns;
    while last_ns - began_ns < duration_ns {
        let now_ns = clock();
        let gap_ns = now_ns.saturating_sub(last_ns);
        if gap_ns >= GAP_NS_MIN {
            gaps.saturating_record(gap_ns);
        }
        last_ns = now_ns.max(last_ns);
    }
    gaps
}

/// How many there are, and how long they are in nanoseconds: by quantile, a null where too few are above it, and the longest.
pub fn json(gaps: &Histogram<u64>) -> serde_json::Value {
    let told = NAMED.map(|(name, quantile)| (name, quantile_ns(gaps, quantile)));
    serde_json::json!({ "count": gaps.len(), "ns": BTreeMap::from(told), "max_ns": gaps.max() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_is_longer_than_a_look_is_a_gap() {
        let looks = [0, 50, 100, 1_099, 2_099, 2_150, 42_150, 42_200, 100_000];
        let at = Cell::new(0);
        let clock = || {
            at.set(at.get() + 1);
            looks[at.get() - 1]
        };
        // 999 ns are none, 1,000 ns are one.
        let gaps = gaps(clock, 42_200);
        assert_eq!((gaps.len(), gaps.max()), (2, 40_031));
        assert_eq!((&json(&gaps)["count"], &json(&gaps)["ns"]["p50"]), (&2.into(), &serde_json::Value::Null));
    }
}
