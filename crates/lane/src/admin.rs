//! What the control thread says to a lane and hears from it. To a lane it is one more peer with its own rings.

use crate::stats::Stats;

/// From the control thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Say how you are.
    Stats,
}

/// To the control thread.
pub enum Report {
    /// How the lane is.
    Stats(Stats),
}
