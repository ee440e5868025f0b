//! What one second of a load saw. A second is filled by one engine, handed over whole, merged with those of other engines,
//! and saved: every figure, and every later question, is computed from these.
//!
//! Three clocks a request: when it was *intended*, when it was *sent*, when its reply was *received*.
//! ```text
//!   intended ──send lag──▶ sent ──────────service──────────▶ received
//!   └───────────────────────response──────────────────────────────┘
//! ```
//! Response is what a user would have waited, service what tools print that forget who had to queue, send lag this
//! program's own error. All three are histograms of nanoseconds at 0.1 %.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::workload::Operation;

/// Longest time that is told apart, in nanoseconds; what is longer counts as this long.
pub const TIME_NS_MAX: u64 = 600_000_000_000;
/// Decimal digits of a time that are kept: an error of at most 0.1 %.
pub const TIME_DIGITS: u8 = 3;
/// Parts of a second whose mean is kept, for finding the end of the warm-up.
pub const PARTS: usize = 10;
/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// An empty histogram of nanoseconds, all of one shape, so that each can be added to each.
pub fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_NS_MAX, TIME_DIGITS).expect("the bounds are constants in order")
}

/// One kind of operation in one second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationSecond {
    /// Which.
    pub operation: Operation,
    /// Intended to received.
    #[serde(with = "packed")]
    pub response: Histogram<u64>,
    /// Sent to received.
    #[serde(with = "packed")]
    pub service: Histogram<u64>,
    /// Replies that are errors. They are in the histograms, too.
    pub errors: u64,
    /// Replies that say that there is nothing.
    pub misses: u64,
    /// Values that are not what was set.
    pub wrong: u64,
}

impl OperationSecond {
    fn new(operation: Operation) -> OperationSecond {
        OperationSecond { operation, response: times(), service: times(), errors: 0, misses: 0, wrong: 0 }
    }

    /// Replies.
    pub fn count(&self) -> u64 {
        self.response.len()
    }

    fn add(&mut self, other: &OperationSecond) {
        self.response.add(&other.response).expect("all histograms have one shape");
        self.service.add(&other.service).expect("all histograms have one shape");
        self.errors += other.errors;
        self.misses += other.misses;
        self.wrong += other.wrong;
    }
}

/// One second of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Counted from the first request, from 0. A reply belongs to the second in which it was received.
    pub number: u32,
    /// In the order of the workload's mix.
    pub operations: Vec<OperationSecond>,
    /// Intended to sent, of what was sent in this second.
    #[serde(with = "packed")]
    pub send_lag: Histogram<u64>,
    /// Replies received in each tenth of it, and the sum of their response times in nanoseconds.
    pub parts: [(u64, u64); PARTS],
    /// Requests begun.
    pub begun: u64,
    /// Requests sent again because another node owns their key.
    pub moved: u64,
    /// Most requests without a reply at one time.
    pub in_flight_max: u64,
}

impl Second {
    /// Nothing yet, of these operations.
    pub fn new(operations: impl Iterator<Item = Operation>) -> Second {
        Second {
            number: 0,
            operations: operations.map(OperationSecond::new).collect(),
            send_lag: times(),
            parts: [(0, 0); PARTS],
            begun: 0,
            moved: 0,
            in_flight_max: 0,
        }
    }

    /// Empty again, to be used for another second.
    pub fn clear(&mut self) {
        for operation in &mut self.operations {
            operation.response.reset();
            operation.service.reset();
            (operation.errors, operation.misses, operation.wrong) = (0, 0, 0);
        }
        self.send_lag.reset();
        self.parts = [(0, 0); PARTS];
        (self.begun, self.moved, self.in_flight_max) = (0, 0, 0);
    }

    /// The same second of another engine, or another second of the same.
    pub fn add(&mut self, other: &Second) {
        for (mine, theirs) in self.operations.iter_mut().zip(&other.operations) {
            assert!(mine.operation == theirs.operation, "engines of a run share one mix");
            mine.add(theirs);
        }
        self.send_lag.add(&other.send_lag).expect("all histograms have one shape");
        for (mine, theirs) in self.parts.iter_mut().zip(other.parts) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        self.begun += other.begun;
        self.moved += other.moved;
        // An upper bound: the engines need not have had their most at the same time.
        self.in_flight_max += other.in_flight_max;
    }

    /// Replies of all operations.
    pub fn count(&self) -> u64 {
        self.operations.iter().map(OperationSecond::count).sum()
    }

    /// Replies that are errors or wrong.
    pub fn faults(&self) -> u64 {
        self.operations.iter().map(|operation| operation.errors + operation.wrong).sum()
    }

    /// Response times of all operations together.
    pub fn response(&self) -> Histogram<u64> {
        let mut all = times();
        for operation in &self.operations {
            all.add(&operation.response).expect("all histograms have one shape");
        }
        all
    }
}

/// Histograms as text: HdrHistogram's V2 form, deflated, in base64, as its log files and other languages' libraries read it.
pub(crate) mod packed {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer as De, Serializer as Ser};

    pub(crate) fn serialize<S: Ser>(histogram: &Histogram<u64>, out: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(S::Error::custom)?;
        out.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: De<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let bytes = STANDARD.decode(text.as_bytes()).map_err(D::Error::custom)?;
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| D::Error::custom(format!("a histogram cannot be read: {error:?}")))?;
        // Into our own shape, whatever shape the file's had.
        let mut histogram = super::times();
        for value in read.iter_recorded() {
            histogram.saturating_record_n(value.value_iterated_to(), value.count_at_value());
        }
        Ok(histogram)
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// What was asked for.
    Value,
    /// There is nothing.
    Miss,
    /// An error.
    Error,
    /// Not what was set.
    Wrong,
}

/// The times of a request that is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    operation: usize,
    intended_ns: u64,
    sent_ns: u64,
    received_ns: u64,
}

/// The second under way, and those that are over.
///
/// Requests that leave together, or are answered together, have the same times: they are counted, and recorded as one.
pub struct Record {
    began_ns: u64,
    current: Second,
    /// Answered ones that are not recorded yet, and how many.
    answered: (Times, u64),
    /// The send lag of those that are sent and not recorded yet, and how many.
    sent: (u64, u64),
    /// Where the current second ends.
    end_ns: u64,
    /// Whole seconds that nobody has fetched yet.
    over: Vec<Second>,
    /// Cleared ones, so that a new second costs no memory that was never touched.
    spare: Vec<Second>,
}

impl Record {
    /// From a time on, by whatever clock all later times are of.
    pub fn new(operations: &[Operation], began_ns: u64) -> Record {
        let second = || Second::new(operations.iter().copied());
        let spare = vec![second(), second()];
        Record {
            began_ns,
            current: second(),
            answered: Default::default(),
            sent: (0, 0),
            end_ns: began_ns + SECOND_NS,
            over: Vec::new(),
            spare,
        }
    }

    /// Goes on to the second of that time. Seconds in which nothing happened are recorded as such.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        while now_ns >= self.end_ns {
            self.close();
        }
    }

    #[cold]
    fn close(&mut self) {
        self.settle_answered();
        self.settle_sent();
        let mut next = self.spare.pop().unwrap_or_else(|| Second::new(operations(&self.current)));
        next.number = self.current.number + 1;
        self.over.push(std::mem::replace(&mut self.current, next));
        self.end_ns += SECOND_NS;
    }

    /// A request is begun; so many are without a reply now.
    #[inline]
    pub fn begun(&mut self, in_flight: u64) {
        self.current.begun += 1;
        self.current.in_flight_max = self.current.in_flight_max.max(in_flight);
    }

    /// A request is sent, so long after it was intended.
    #[inline]
    pub fn sent(&mut self, lag_ns: u64) {
        if lag_ns != self.sent.0 {
            self.settle_sent();
            self.sent.0 = lag_ns;
        }
        self.sent.1 += 1;
    }

    fn settle_sent(&mut self) {
        let (lag_ns, count) = self.sent;
        self.current.send_lag.saturating_record_n(lag_ns, count);
        self.sent.1 = 0;
    }

    /// A request is sent again, to another node.
    pub fn moved(&mut self) {
        self.current.moved += 1;
    }

    /// A request of the operation at this index of the mix is answered. Call [`Record::advance`] with the same time before.
    #[inline]
    pub fn received(
        &mut self,
        operation: usize,
        ending: Ending,
        intended_ns: u64,
        sent_ns: u64,
        now_ns: u64,
    ) {
        let record = &mut self.current.operations[operation];
        match ending {
            Ending::Value => {}
            Ending::Miss => record.misses += 1,
            Ending::Error => record.errors += 1,
            Ending::Wrong => record.wrong += 1,
        }
        let times = Times { operation, intended_ns, sent_ns, received_ns: now_ns };
        if times != self.answered.0 {
            self.settle_answered();
            self.answered.0 = times;
        }
        self.answered.1 += 1;
    }

    fn settle_answered(&mut self) {
        let (Times { operation, intended_ns, sent_ns, received_ns }, count) = self.answered;
        self.answered.1 = 0;
        if count == 0 {
            return;
        }
        let response_ns = received_ns.saturating_sub(intended_ns);
        let record = &mut self.current.operations[operation];
        record.response.saturating_record_n(response_ns, count);
        record.service.saturating_record_n(received_ns.saturating_sub(sent_ns), count);
        let since_ns = received_ns.saturating_sub(self.end_ns - SECOND_NS);
        let part = usize::try_from(since_ns / (SECOND_NS / 10)).expect("a tenth of a second");
        let part = &mut self.current.parts[part.min(PARTS - 1)];
        part.0 += count;
        part.1 = part.1.saturating_add(response_ns.saturating_mul(count));
    }

    /// A second that is over, oldest first. Give it back, cleared, with [`Record::give_back`].
    pub fn take(&mut self) -> Option<Second> {
        if self.over.is_empty() { None } else { Some(self.over.remove(0)) }
    }

    /// Takes a second back, to be filled again.
    pub fn give_back(&mut self, mut second: Second) {
        second.clear();
        self.spare.push(second);
    }

    /// The second under way, which the end of the run cut; what share of it there is.
    pub fn last(mut self, now_ns: u64) -> (Second, f64) {
        self.settle_answered();
        self.settle_sent();
        let since_ns = now_ns.saturating_sub(self.end_ns - SECOND_NS).min(SECOND_NS);
        (self.current, crate::float::float(since_ns) / crate::float::float(SECOND_NS))
    }

    pub(crate) fn began_ns(&self) -> u64 {
        self.began_ns
    }
}

fn operations(second: &Second) -> impl Iterator<Item = Operation> {
    second.operations.iter().map(|operation| operation.operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn replies_belong_to_the_second_they_came_in() {
        let mut record = Record::new(&[Operation::Get, Operation::Set], 5 * SECOND_NS);
        let now = |ms: u64| 5 * SECOND_NS + ms * MS;
        record.advance(now(950));
        record.received(0, Ending::Value, now(0), now(900), now(950));
        // Two seconds without a reply.
        record.advance(now(3_000));
        record.received(1, Ending::Error, now(999), now(1_000), now(3_000));
        record.received(0, Ending::Miss, now(2_999), now(2_999), now(3_000));
        record.advance(now(3_999));
        let counts: Vec<(u32, u64)> =
            std::iter::from_fn(|| record.take()).map(|second| (second.number, second.count())).collect();
        assert_eq!(counts, [(0, 1), (1, 0), (2, 0)]);
        let (last, share) = record.last(now(3_500));
        assert_eq!((last.number, last.count(), last.faults()), (3, 2, 1));
        assert!((share - 0.5).abs() < 1e-9);
        assert_eq!(last.parts[0], (2, 2_002 * MS));
        assert!(last.operations[1].response.max().abs_diff(2_001 * MS) < 3 * MS);
        assert!(last.operations[1].service.max().abs_diff(2_000 * MS) < 3 * MS);
    }

    /// Those of a batch have the same times. However they are mixed with others, each is recorded, in its own second.
    #[test]
    fn what_is_recorded_as_one_counts_as_many() {
        let mut record = Record::new(&[Operation::Get, Operation::Set], 0);
        for at_ms in [999, 1_000] {
            record.advance(at_ms * MS);
            for (operation, since_ms, count) in [(0, 3, 16), (1, 3, 2), (0, 3, 1), (0, 4, 1)] {
                for _ in 0..count {
                    record.sent(since_ms * MS);
                    let intended_ns = (at_ms - since_ms) * MS;
                    record.received(operation, Ending::Miss, intended_ns, intended_ns + MS, at_ms * MS);
                }
            }
        }
        let first = record.take().unwrap();
        let (last, _) = record.last(1_000 * MS);
        for (second, part) in [(first, PARTS - 1), (last, 0)] {
            assert_eq!(second.operations.iter().map(OperationSecond::count).collect::<Vec<u64>>(), [18, 2]);
            assert_eq!((second.operations[0].misses, second.send_lag.len()), (18, 20));
            assert_eq!(second.parts[part], (20, (19 * 3 + 4) * MS));
            let above = |ns: u64| second.operations[0].service.count_between(ns + ns / 500, u64::MAX);
            assert_eq!((above(2 * MS), above(3 * MS)), (1, 0));
        }
    }

    #[test]
    fn a_second_is_saved_as_text() {
        let mut second = Second::new([Operation::Get, Operation::Mget(7)].into_iter());
        for ns in [1, 999, 12_345, 7_654_321, TIME_NS_MAX] {
            second.operations[0].response.record(ns).unwrap();
            second.send_lag.record_n(ns, ns).unwrap();
        }
        second.parts[9] = (1, 2);
        let text = serde_json::to_string(&second).unwrap();
        let read: Second = serde_json::from_str(&text).unwrap();
        assert_eq!(read, second);
        assert!(text.len() < 1500, "{} bytes", text.len());
        for (from, to) in [("HISTF", "HISTE"), ("\"service\":\"H", "\"service\":\"!")] {
            assert!(serde_json::from_str::<Second>(&text.replace(from, to)).is_err());
        }
    }

    #[test]
    fn seconds_of_two_engines_are_one() {
        let mut one = Second::new([Operation::Get].into_iter());
        one.operations[0].response.saturating_record(5);
        one.parts[3] = (1, 5);
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!((sum.count(), sum.parts[3], sum.response().len()), (2, (2, 10), 2));
        sum.clear();
        assert_eq!(sum, Second::new([Operation::Get].into_iter()));
    }
}
