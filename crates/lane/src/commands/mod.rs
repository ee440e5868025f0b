//! The commands, a file for each chapter. Each takes the data, the call and the place of the reply; what may touch many
//! elements or bytes also takes its progress and a budget, and says whether it is done.

pub(crate) mod counter;
pub(crate) mod database;
pub(crate) mod expiry;
pub(crate) mod generic;
pub(crate) mod lcs;
pub(crate) mod many;
pub(crate) mod object;
pub(crate) mod range;
pub(crate) mod scan;
pub(crate) mod string;

/// An argument that should be an integer and is not, or has more than 64 bits.
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
/// Options that contradict each other, or are none.
pub(crate) const SYNTAX: &str = "ERR syntax error";
