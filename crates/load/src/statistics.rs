//! What a measurement may claim: the mathematics of `bench`, on plain numbers and histograms, without I/O or a clock.
//!
//! The sample is the *run*, never the request: the interval of a percentile within one run holds the percentile of the
//! next run in about one case of four. So two set-ups are compared in pairs of runs, in random order inside each pair:
//!
//! ```text
//! order    which of the two comes first in each pair
//! paired   pairs (a, b) ──▶ Change: estimate, exact interval, cross-check      signed_rank, student, holm
//! planning how many pairs an answer needs, and what this machine can show at all
//! verdict  Change ──▶ better | worse | same | can't tell; claims and exit codes
//! trial    all of the above on simulated noise: how often is it wrong?
//! ```
//!
//! Within a run:
//!
//! ```text
//! steady          where the warm-up ends, and whether it does
//! trend           the straight line: drift, roughness, steps
//! effective       how many independent requests a run is worth
//! quantiles       is p99.9 resolved?
//! columns         the bucket-weighted mean of published benchmarks
//! predictability  spread over load, tail gap, wobble
//! little          requests in flight: do the figures fit together?
//! published       the same question, asked of published results
//! fanout          servers that can work in parallel within a deadline
//! ```
//!
//! Percentages on the screen are shares here: 0.05 is 5 %. Times are nanoseconds unless a name says otherwise.

pub mod claim;
pub mod columns;
pub(crate) mod describe;
pub mod effective;
pub mod fanout;
pub mod holm;
mod interval;
pub mod little;
pub mod order;
pub mod paired;
pub mod planning;
pub mod predictability;
pub mod published;
pub mod quantiles;
pub mod signed_rank;
pub mod steady;
pub mod student;
pub mod trend;
pub mod trial;
pub mod verdict;

pub use interval::{Interval, Level};
