//! Servers that misbehave, in memory: what the load reports must be what they did, to the request.

use super::Check;
use super::server::{Behaviour, Fault};
use super::simulate::{Load, Simulated, SlowReader};
use crate::analysis::Figures;
use crate::analysis::gates::{Colour, gates, worst};
use crate::chance::Chance;
use crate::engine::{Failure, Pace};
use crate::float::float;
use crate::record::times;
use crate::workload::Distribution;

const MS: u64 = 1_000_000;
/// Requests of a load that is not cut.
const REQUESTS: u64 = 1_000;
/// Bytes of a made-up value, and of the reply that holds it.
const VALUE_SIZE: usize = 20;
const REPLY_SIZE: usize = 5 + VALUE_SIZE + 2;
/// Bytes of a request in this load.
const REQUEST_SIZE: usize = 36;
/// What is no reply, each for a reason of its own: a web server, a binary protocol, a length below −1, a length that is none, a
/// number that is none, a value longer than announced, a nest without an end.
const BABBLE: [&[u8]; 7] = [
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x81\x00\x00\x00\xff\r\n",
    b"$-5\r\n",
    b"$12x\r\nabc\r\n",
    b":1x\r\n",
    b"$3\r\nabcdef\r\n",
    b"*-7\r\n",
];
/// Replies out of random bytes.
const RANDOM_REPLIES: u64 = 300;

/// All of them.
pub fn checks() -> Vec<Check> {
    let mut checks = counted();
    checks.extend(cut());
    checks.extend(babble());
    checks.extend(slow_reader());
    checks
}

/// What a load says of itself, in one line.
fn told(simulated: &Simulated) -> String {
    let end = simulated.run.end.as_ref();
    let (answered, unanswered) = end.map_or((0, 0), |end| (end.answered, end.unanswered));
    let sum = |of: fn(&crate::record::OperationSecond) -> u64| -> u64 {
        let seconds = simulated.run.seconds.iter();
        seconds.flat_map(|second| &second.second.operations).map(of).sum()
    };
    let (errors, wrong) = (sum(|operation| operation.errors), sum(|operation| operation.wrong));
    let failure = match &simulated.failure {
        None => "",
        Some(Failure::Lost(_)) => ", lost",
        Some(Failure::Nonsense(_)) => ", nonsense",
        Some(Failure::Unasked) => ", unasked",
        Some(Failure::Silent) => ", silent",
        Some(Failure::Behind(_)) => ", behind",
    };
    format!("{answered} answered, {unanswered} not, {errors} errors, {wrong} wrong{failure}")
}

fn load(pace: Pace, connection_count: usize, behaviour: Behaviour) -> Load {
    let mut load = Load::new(pace, u64::MAX, connection_count, behaviour);
    load.plan.requests_max = REQUESTS;
    // Neighbours in time ask for different keys.
    load.plan.workload.key_distribution = Distribution::Sequential;
    load
}

fn behaviour(fault: Fault) -> Behaviour {
    Behaviour { fault, value_size: VALUE_SIZE, ..Behaviour::default() }
}

fn is_red(simulated: &Simulated) -> bool {
    worst(&gates(&simulated.run, &Figures::of(&simulated.run))) == Colour::Red
}

/// Each fault so often, and what must be told of it. Whoever did anything wrong is also red.
fn counted() -> Vec<Check> {
    let rate = Pace::Even(1000.0);
    let delay_ns = 5 * MS;
    let slow = |fault| Behaviour { delay_ns, ..behaviour(fault) };
    let cases = [
        ("no fault", rate, behaviour(Fault::None), "1000 answered, 0 not, 0 errors, 0 wrong"),
        (
            "replies in pieces of a byte",
            Pace::Closed,
            behaviour(Fault::Pieces(1)),
            "1000 answered, 0 not, 0 errors, 0 wrong",
        ),
        // Behind a lost reply each answers the request before: with --verify it shows at once, without it at the end.
        (
            "every 100th reply lost",
            rate,
            behaviour(Fault::Loses(100)),
            "990 answered, 10 not, 0 errors, 891 wrong, silent",
        ),
        (
            "every 50th reply twice, closed loop",
            Pace::Closed,
            behaviour(Fault::Repeats(50)),
            "50 answered, 0 not, 0 errors, 0 wrong, unasked",
        ),
        // Others are under way, and take the second copy for theirs.
        (
            "the 500th reply twice, at a rate",
            rate,
            slow(Fault::Repeats(500)),
            "1000 answered, 0 not, 0 errors, 500 wrong",
        ),
        (
            "every 7th value spoilt",
            rate,
            behaviour(Fault::Spoils(7)),
            "1000 answered, 0 not, 0 errors, 142 wrong",
        ),
        (
            "every 5th an error",
            rate,
            behaviour(Fault::Refuses(5)),
            "1000 answered, 0 not, 200 errors, 0 wrong",
        ),
        (
            "connection ended behind 500 replies",
            Pace::Closed,
            behaviour(Fault::Ends { at: 500, size: REPLY_SIZE }),
            "500 answered, 0 not, 0 errors, 0 wrong, lost",
        ),
        (
            "the same with 4 under way",
            rate,
            slow(Fault::Ends { at: 500, size: REPLY_SIZE }),
            "500 answered, 4 not, 0 errors, 0 wrong, lost",
        ),
    ];
    let mut checks = Vec::new();
    for (name, pace, behaviour, want) in cases {
        let is_bad = !matches!(behaviour.fault, Fault::None | Fault::Pieces(_));
        let simulated = load(pace, 1, behaviour).simulate();
        let colour = if is_red(&simulated) { "; red" } else { "" };
        let want = format!("{want}{}", if is_bad { "; red" } else { "" });
        checks.push(Check::equal(name, want, told(&simulated) + colour));
        if name == "every 5th an error" {
            let texts = simulated.run.end.map(|end| end.error_texts).unwrap_or_default();
            let texts: Vec<String> =
                texts.iter().map(|text| format!("{} × {}", text.count, text.text)).collect();
            checks.push(Check::equal("text of the errors", "200 × ERR made up".to_owned(), texts.join(", ")));
        }
    }
    checks
}

/// The third reply is cut behind each of its bytes.
fn cut() -> Vec<Check> {
    let want = "2 answered, 1 not, 0 errors, 0 wrong, lost";
    let got = |size| told(&load(Pace::Closed, 1, behaviour(Fault::Ends { at: 3, size })).simulate());
    let right = (0..REPLY_SIZE).filter(|&size| got(size) == want).count();
    let whole = got(REPLY_SIZE);
    vec![
        Check::equal(
            format!("a reply cut at every byte: {want}"),
            format!("{REPLY_SIZE} of {REPLY_SIZE}"),
            format!("{right} of {REPLY_SIZE}"),
        ),
        Check::equal(
            "a reply cut behind its last byte",
            "3 answered, 0 not, 0 errors, 0 wrong, lost".to_owned(),
            whole,
        ),
    ]
}

/// Bytes that are no replies end the load; bytes that happen to be some are no right ones.
fn babble() -> Vec<Check> {
    let of = |bytes: &'static [u8]| load(Pace::Closed, 1, behaviour(Fault::Babbles(bytes))).simulate();
    let count =
        BABBLE.into_iter().filter(|bytes| matches!(of(bytes).failure, Some(Failure::Nonsense(_)))).count();
    let mut chance = Chance::new(5);
    let mut taken = 0;
    for _ in 0..RANDOM_REPLIES {
        // Half of them begin as a reply does.
        let first = b"+-:$*_#,(!=%~>|"[usize::try_from(chance.below(15)).expect("small")];
        let mut bytes = if chance.below(2) == 0 { vec![first] } else { Vec::new() };
        bytes.extend((0..chance.below(30)).map(|_| u8::try_from(chance.below(256)).expect("a byte")));
        bytes.extend_from_slice(b"\r\n");
        let mut load = load(Pace::Closed, 1, behaviour(Fault::Babbles(bytes.leak())));
        load.plan.requests_max = 3;
        let simulated = load.simulate();
        let seconds = simulated.run.seconds.iter().flat_map(|second| &second.second.operations);
        taken += seconds
            .map(|operation| operation.count() - operation.errors - operation.wrong - operation.misses)
            .sum::<u64>();
    }
    vec![
        Check::equal("garbage: loads that end with nonsense", BABBLE.len(), count),
        Check::equal(format!("garbage: right values in {RANDOM_REPLIES} random replies"), 0, taken),
    ]
}

/// A server that takes 1,000 requests a second out of its connection while 2,000 are due: all are answered, the last of 4,000
/// after 2 s, and of the 0 to 2 s that they wait nothing is hidden by what lies unsent.
fn slow_reader() -> Vec<Check> {
    let mut load = load(Pace::Even(2000.0), 1, behaviour(Fault::None));
    load.plan.requests_max = 4 * REQUESTS;
    load.reader = Some(SlowReader { every_ns: MS, size: REQUEST_SIZE, room_size: 2 * REQUEST_SIZE });
    let simulated = load.simulate();
    let mut response = times();
    for second in &simulated.run.seconds {
        response.add(second.second.response()).expect("all histograms have one shape");
    }
    let mut checks = vec![Check::equal(
        "slow reader at half the rate",
        "4000 answered, 0 not, 0 errors, 0 wrong; red".to_owned(),
        told(&simulated) + if is_red(&simulated) { "; red" } else { "" },
    )];
    for (name, quantile, want_ns) in [("p50", 0.5, 1e9), ("p90", 0.9, 1.8e9), ("p99", 0.99, 1.98e9)] {
        let got = float(response.value_at_quantile(quantile));
        checks.push(Check::time(format!("slow reader: response {name}"), want_ns, got, 3e6));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_told() {
        super::super::assert_all(&checks());
    }
}
