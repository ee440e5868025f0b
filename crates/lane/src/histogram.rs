//! A histogram of times whose buckets grow with the times: eight to each power of two, so that what it says of a time
//! is at most an eighth too much. Adding costs a handful of instructions, and nothing is ever allocated or moved.
//!
//! ```text
//! time      0 1 2 … 15   16–17 18–19 … 30–31   32–35 36–39 … 60–63   64–71 …
//! bucket    0 1 2 … 15   16    17    … 23      24    25    … 31      32    …
//! ```
//! Times are counts of the lane's meter; who shows them knows how many of those are a microsecond.

/// Buckets of one power of two, as a power of two.
const SPLIT_BITS: u32 = 3;
/// Times are told apart below two to this power: six minutes of a meter that counts three times a nanosecond.
const RANGE_BITS: u32 = 40;
/// The last bucket takes everything longer, too.
pub(crate) const BUCKET_COUNT: usize = ((RANGE_BITS - SPLIT_BITS + 1) << SPLIT_BITS) as usize;

/// See the top of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// All times together.
    pub(crate) sum: u64,
    /// The longest, exactly.
    pub(crate) max: u64,
    counts: [u64; BUCKET_COUNT],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { sum: 0, max: 0, counts: [0; BUCKET_COUNT] }
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn add(&mut self, time: u64) {
        self.add_some(time, 1);
    }

    /// The same time, so many times.
    #[inline]
    pub(crate) fn add_some(&mut self, time: u64, count: u64) {
        self.sum += time * count;
        if self.max < time {
            self.max = time;
        }
        self.counts[bucket(time)] += count;
    }

    /// Adds all that another has counted.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// How many times it holds.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The buckets that hold something, in ascending order: shortest and longest time of each, and how many.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let all = (0..).zip(&self.counts).filter(|(_, count)| **count > 0);
        all.map(|(bucket, count)| (lowest(bucket), lowest(bucket + 1) - 1, *count))
    }

    /// A time that `share` percent of the times do not exceed: the longest of its bucket, and never more than the
    /// longest of all.
    pub(crate) fn percentile(&self, share: f64) -> u64 {
        let wanted = share / 100.0 * float(self.count());
        let mut so_far = 0;
        for (_, longest, count) in self.filled() {
            so_far += count;
            if float(so_far) >= wanted {
                return longest.min(self.max);
            }
        }
        self.max
    }
}

#[inline]
fn bucket(time: u64) -> usize {
    let power = 63 - (time | (1 << SPLIT_BITS)).leading_zeros();
    let shift = power - SPLIT_BITS;
    let bucket = (u64::from(shift) << SPLIT_BITS) + (time >> shift);
    usize::try_from(bucket).expect("buckets are few").min(BUCKET_COUNT - 1)
}

/// The shortest time of a bucket.
fn lowest(bucket: u64) -> u64 {
    let power = (bucket >> SPLIT_BITS).max(1) - 1;
    (bucket - (power << SPLIT_BITS)) << power
}

/// What is counted is shown rounded anyway.
#[expect(clippy::cast_precision_loss, reason = "a percentile of more than 2^53 times may be off by one")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_bucket_that_says_at_most_an_eighth_more() {
        let powers = (0..RANGE_BITS).map(|power| 1_u64 << power);
        let times = powers.flat_map(|power| [power - 1, power, power + 1, power + power / 3]);
        for time in (0..5000).chain(times) {
            let mut histogram = Histogram::default();
            histogram.add(time);
            let (shortest, longest, count) = histogram.filled().next().unwrap();
            assert!(shortest <= time && time <= longest && count == 1, "{time} in {shortest}–{longest}");
            assert!((longest - shortest) * 8 <= shortest, "{shortest}–{longest}");
        }
    }

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        for at in 0..BUCKET_COUNT - 1 {
            let (this, next) = (lowest(at as u64), lowest(at as u64 + 1));
            assert!(this < next && bucket(this) == at && bucket(next - 1) == at, "bucket {at}");
        }
        assert_eq!(bucket(u64::MAX), BUCKET_COUNT - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_times_within_an_eighth() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(50.0), 0);
        (1..=10_000).for_each(|time| histogram.add(time));
        for (share, exact) in [(50.0, 5000), (99.0, 9900), (99.9, 9990), (100.0, 10_000), (0.0, 1)] {
            let found = histogram.percentile(share);
            assert!(exact <= found && found <= exact + exact / 8, "{share}: {found} for {exact}");
        }
        let mut both = histogram.clone();
        both.merge(&histogram);
        assert_eq!((both.count(), both.max, both.sum), (20_000, 10_000, 2 * histogram.sum));
    }
}
