//! The commands, a file for each chapter of the table. Each takes the data, the call and the place of the reply; what
//! may touch many keys also takes its progress and a budget, and says whether it is done.

pub(crate) mod expiry;
pub(crate) mod generic;
pub(crate) mod scan;
pub(crate) mod string;
