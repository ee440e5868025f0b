//! Whole servers in one thread, as their clients see them: over one lane and over several, over nets that cut and delay, beside models and
//! under seeds. One program, for thirty would each be linked with all of the server. `check` and `binary` are what they share.

mod binary;
mod bits;
mod check;
mod couchbase;
mod crowd;
mod differential;
mod documents;
mod dump;
mod growth;
mod hush;
mod instant;
mod keys;
mod lease;
mod leaving;
mod limit;
mod limits;
mod many_lanes;
mod memory;
mod neighbours;
mod order;
mod pressure;
mod records;
mod refusals;
mod results;
mod seeds;
mod silence;
mod slices;
mod spread;
mod strangers;
mod strict;
mod strings;
mod subdocuments;
mod transcripts;
mod waits;
mod world;
