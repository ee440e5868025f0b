//! What a run has seen: replies, how long they took, and how late this program itself was.

use wire::client::Outcome;

use crate::summary::Times;

/// The counts and times under way.
pub(crate) struct Record {
    /// What was due earlier is counted, and its time is not.
    from_ns: u64,
    answered: u64,
    errors: u64,
    nulls: u64,
    latency: Times,
    lateness: Times,
}

/// What came of a run.
pub struct Report {
    /// Requests a second that were meant. None: as many as were answered.
    pub rate: Option<f64>,
    /// Replies, errors and misses included.
    pub answered: u64,
    /// Replies that are errors.
    pub errors: u64,
    /// Replies that say that there is nothing.
    pub nulls: u64,
    /// From the first connection's first chance to send to the last reply.
    pub elapsed_ns: u64,
    /// Nanoseconds from when a request was due to its reply.
    pub latency: Times,
    /// Nanoseconds from when a request was due to its sending: this program's own share. Empty in a closed pace.
    pub lateness: Times,
}

impl Record {
    pub(crate) fn new(from_ns: u64) -> Record {
        Record {
            from_ns,
            answered: 0,
            errors: 0,
            nulls: 0,
            latency: Times::default(),
            lateness: Times::default(),
        }
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// A request is about to be sent.
    pub(crate) fn late(&mut self, due_ns: u64, sent_ns: u64) {
        if due_ns >= self.from_ns {
            self.lateness.record(sent_ns.saturating_sub(due_ns));
        }
    }

    /// A request is answered.
    pub(crate) fn answer(&mut self, outcome: Outcome, due_ns: u64, now_ns: u64) {
        self.answered += 1;
        self.errors += u64::from(outcome == Outcome::Error);
        self.nulls += u64::from(outcome == Outcome::Null);
        if due_ns >= self.from_ns {
            self.latency.record(now_ns.saturating_sub(due_ns));
        }
    }

    pub(crate) fn report(self, rate: Option<f64>, began_ns: u64, heard_ns: u64) -> Report {
        Report {
            rate,
            answered: self.answered,
            errors: self.errors,
            nulls: self.nulls,
            elapsed_ns: heard_ns.saturating_sub(began_ns),
            latency: self.latency,
            lateness: self.lateness,
        }
    }
}

impl Report {
    /// As a JSON object, for the programs in `bench/`.
    pub fn json(&self) -> String {
        let rate = self.rate.map_or("null".to_owned(), |rate| rate.to_string());
        format!(
            "{{\"rate\":{rate},\"answered\":{},\"errors\":{},\"nulls\":{},\"elapsed_ns\":{},\
             \"latency_ns\":{},\"lateness_ns\":{}}}",
            self.answered,
            self.errors,
            self.nulls,
            self.elapsed_ns,
            self.latency.json(),
            self.lateness.json(),
        )
    }
}
