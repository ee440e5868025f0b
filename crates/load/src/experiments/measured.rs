//! A run in the numbers that the experiments are about: a few hundred bytes where its histograms are a megabyte a second.

use serde::Serialize;

use super::presets::Preset;
use crate::analysis::gates::{Colour, Gate, LOAD_LIMIT, PRESSURE, gates};
use crate::analysis::hosts::{Counted, counted};
use crate::analysis::{Figures, Window};
use crate::float::float;
use crate::result::Run;
use crate::statistics::columns::Columns;
use crate::statistics::quantiles::count_within;
use crate::workload::Operation;

/// Width of the buckets of the published histogram, and where the last begins: 40 … 600 µs.
const BUCKET_NS: u64 = 40_000;
const BUCKETS_COUNT: u64 = 15;
/// Up to this share of the cpus others don't matter: where tasks waited nevertheless, they were the load's and the server's own.
const OTHERS_SHARE_MAX: f64 = 0.05;

/// Of one run. Times are sent to received, in nanoseconds, unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Which experiment's.
    pub experiment: String,
    /// Which set-up's.
    pub arm: String,
    /// Which pair's.
    pub pair: u32,
    /// Where on the sweep; none: nothing is swept.
    pub level: Option<f64>,
    /// Connections of the load.
    pub connection_count: u32,
    /// Replies a second.
    pub per_second: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Mean from when requests were due.
    pub from_due_mean_ns: f64,
    /// Standard deviation of the run's requests.
    pub deviation_ns: f64,
    /// The 99th percentile; none: fewer than ten lie above it.
    pub p99_ns: Option<f64>,
    /// Share above [`Preset::SLOW_NS`].
    pub slow_share: f64,
    /// Means weighted by buckets: at lower edges, middles, upper edges.
    pub bucket_means_ns: [f64; 3],
    /// Mean of GETs.
    pub get_mean_ns: Option<f64>,
    /// Mean of SETs.
    pub set_mean_ns: Option<f64>,
    /// It ended by itself, with replies.
    pub is_whole: bool,
    /// What its red gates say. Empty: it counts.
    pub doubts: Vec<String>,
    /// How it is seen that the load was the limit. Empty: it was not. The server is at least as good as this run says.
    pub load_limits: Vec<String>,
}

impl Measured {
    /// Of a saved run.
    pub fn of(run: &Run) -> Measured {
        let figures = Figures::of(run);
        let service = &figures.total.service;
        let mean_of = |operation| {
            let share = figures.operations.iter().find(|(known, _)| *known == operation);
            share.map(|(_, share)| &share.service).filter(|service| !service.is_empty()).map(|it| it.mean())
        };
        let thresholds_ns: Vec<u64> = (1..=BUCKETS_COUNT).map(|bucket| bucket * BUCKET_NS).collect();
        let printed = Columns::at(&thresholds_ns).and_then(|columns| columns.of(service));
        let beyond = (1.0 - 0.99) * float(service.len());
        let within = float(count_within(service, Preset::SLOW_NS));
        let red = gates(run, &figures).into_iter().filter(|gate| gate.colour == Colour::Red);
        let (limits, doubts): (Vec<Gate>, Vec<Gate>) =
            red.filter(|gate| is_told(run, gate)).partition(|gate| LOAD_LIMIT.contains(&gate.name.as_str()));
        let ended = run.end.as_ref().is_some_and(|end| !end.was_stopped && end.failure.is_none());
        Measured {
            experiment: run.head.experiment.clone(),
            arm: run.head.arm.clone(),
            pair: run.head.pair.unwrap_or_default(),
            level: run.head.level.as_ref().map(|(_, level)| *level),
            connection_count: run.head.connection_count,
            per_second: figures.total.per_second,
            mean_ns: service.mean(),
            from_due_mean_ns: figures.total.response.mean(),
            deviation_ns: service.stdev(),
            // With a hair for 1 − 0.99, which is not exactly a hundredth.
            p99_ns: (beyond > 9.999).then(|| float(service.value_at_quantile(0.99))),
            slow_share: if service.is_empty() { 0.0 } else { 1.0 - within / float(service.len()) },
            bucket_means_ns: printed.map_or([0.0; 3], |printed| {
                [printed.mean_lower_ns, printed.mean_middle_ns, printed.mean_upper_ns]
            }),
            get_mean_ns: mean_of(Operation::Get),
            set_mean_ns: mean_of(Operation::Set),
            is_whole: ended && figures.total.count > 0,
            doubts: doubts.into_iter().map(|gate| gate.words).collect(),
            load_limits: limits.into_iter().map(|gate| gate.words).collect(),
        }
    }
}

/// Whether a red gate says something of an experiment's run. Two are always red in some of them:
///
/// - With one request in flight nothing waits inside the load: its own time between two requests is in no round trip.
/// - Set-ups in which server and load share cpus, or fill them, have tasks that wait for one. That is what is measured; only
///   somebody else's tasks are a disturbance.
fn is_told(run: &Run, gate: &Gate) -> bool {
    let in_flight = u64::from(run.head.connection_count) * u64::from(run.head.pipeline);
    match gate.name.as_str() {
        "Little" => in_flight > 1,
        PRESSURE => others_share(run).is_none_or(|share| share > OTHERS_SHARE_MAX),
        _ => true,
    }
}

/// The largest share of a host's cpus that ran neither the load nor its server. None: a kernel doesn't say.
fn others_share(run: &Run) -> Option<f64> {
    let shares: Option<Vec<f64>> = counted(run, &Window::of(run)).iter().map(Counted::others_share).collect();
    shares?.into_iter().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::message::Reported;
    use crate::agents::told::{AgentRun, AgentSecond};
    use crate::analysis::tests::run;
    use crate::record::Second;
    use crate::result::RunHead;

    fn head() -> RunHead {
        RunHead {
            experiment: "E2".to_owned(),
            arm: "b".to_owned(),
            pair: Some(3),
            level: Some(("connections".to_owned(), 20.0)),
            connection_count: 20,
            pipeline: 1,
            warm_up_s: Some(0),
            ..RunHead::default()
        }
    }

    /// The made-up run's service time is half of its response time.
    #[test]
    fn times_are_from_sent_to_received() {
        let measured = Measured::of(&run(head(), &[(600_000, 100), (1_000_000, 300)]));
        assert_eq!((measured.experiment.as_str(), measured.arm.as_str(), measured.pair), ("E2", "b", 3));
        assert_eq!((measured.level, measured.connection_count), (Some(20.0), 20));
        assert!((measured.mean_ns - 450_000.0).abs() < 500.0, "{measured:?}");
        assert!((measured.from_due_mean_ns - 900_000.0).abs() < 1_000.0);
        assert!((measured.per_second - 2_000.0).abs() < 1e-9);
        assert!((measured.slow_share - 0.75).abs() < 1e-9, "those of 500 us");
        assert!((measured.p99_ns.unwrap() - 500_000.0).abs() < 500.0);
        let [lower, middle, upper] = measured.bucket_means_ns;
        // 300 µs lies in 280 … 320, 500 µs in 480 … 520.
        assert!((lower - 430_000.0).abs() < 1_000.0 && (upper - lower - 40_000.0).abs() < 1_000.0);
        assert!((middle - f64::midpoint(lower, upper)).abs() < 1.0);
        assert_eq!((measured.get_mean_ns.is_some(), measured.set_mean_ns), (true, None));
    }

    #[test]
    fn a_run_that_was_cut_or_failed_is_not_whole() {
        let whole = run(head(), &[(600_000, 100)]);
        assert!(Measured::of(&whole).is_whole);
        assert!(!Measured::of(&run(head(), &[(600_000, 0)])).is_whole, "not one reply");
        // Ten requests lie above the p99 of a thousand.
        let p99 = |count| Measured::of(&run(head(), &[(600_000, count)])).p99_ns;
        assert_eq!((p99(100).is_some(), p99(99)), (true, None));
        for spoil in [
            |run: &mut Run| run.end = None,
            |run: &mut Run| run.end.as_mut().unwrap().was_stopped = true,
            |run: &mut Run| run.end.as_mut().unwrap().failure = Some("gone".to_owned()),
        ] {
            let mut spoilt = whole.clone();
            spoil(&mut spoilt);
            assert!(!Measured::of(&spoilt).is_whole);
        }
        let mut faulty = whole;
        faulty.seconds[0].second.operations[0].errors = 1;
        assert!(Measured::of(&faulty).doubts.iter().any(|doubt| doubt.contains("errors")));
    }

    fn with_counters(run: &mut Run, counters: &[(&str, f64)]) {
        let counters = counters.iter().map(|(name, value)| ((*name).to_owned(), *value));
        run.seconds[0].counters = counters.collect();
    }

    /// 1,000 a second with 500 µs of service each are half a connection's time.
    #[test]
    fn a_load_that_is_the_limit_is_a_word_and_no_doubt() {
        let closed = |connection_count: u32, per_second: u64| {
            let head = RunHead { connection_count, ..head() };
            let mut run = run(head, &[(1_000_000, per_second / 10), (1_000_000, per_second / 10)]);
            run.end.as_mut().unwrap().thread_use = vec![0.5];
            run
        };
        let limited = Measured::of(&closed(2, 2_000));
        assert!(limited.load_limits[0].contains("the load was the limit"), "{limited:?}");
        assert_eq!(limited.doubts, [""; 0]);
        let single = Measured::of(&closed(1, 1_000));
        assert_eq!((single.load_limits.len(), single.doubts.len()), (0, 0), "{single:?}");
        let mut busy = closed(1, 1_000);
        busy.end.as_mut().unwrap().thread_use = vec![0.97];
        assert!(Measured::of(&busy).load_limits[0].contains("97 % of its core"));
    }

    #[test]
    fn tasks_that_wait_are_a_doubt_if_others_made_them_wait() {
        let pressed = |ran: f64| {
            let mut run = run(RunHead { connection_count: 1, ..head() }, &[(1_000_000, 100)]);
            let own = ("process_ran", ran);
            let cpu = [("cpu_user", 1.2), ("cpu_system", 0.5), ("cpu_softirq", 0.2), ("cpu_irq", 0.0)];
            let rest = [("cpu_idle", 0.1), ("cpu_iowait", 0.0), ("pressure_cpu", 0.9), own];
            with_counters(&mut run, &[&cpu[..], &rest[..]].concat());
            Measured::of(&run).doubts
        };
        assert_eq!(pressed(1.85), [""; 0], "a fortieth of the cpus is nobody's");
        assert!(pressed(1.5)[0].contains("tasks waited for a cpu"));
        // On a host that loads, too, whatever else runs there is somebody else's.
        let agent = |ran: f64| {
            let mut run = run(RunHead { connection_count: 1, ..head() }, &[(1_000_000, 100)]);
            let of = |ran: f64| {
                let all = [("cpu_user", 1.9), ("cpu_system", 0.0), ("cpu_softirq", 0.0), ("cpu_irq", 0.0)];
                let rest =
                    [("cpu_idle", 0.1), ("cpu_iowait", 0.0), ("process_ran", ran), ("pressure_cpu", 0.9)];
                [all, rest].concat()
            };
            with_counters(&mut run, &of(1.85));
            let counters = of(ran).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let second = Second::new([Operation::Get].into_iter());
            let seconds = vec![AgentSecond::of(&Reported { second, counters })];
            run.end.as_mut().unwrap().agents = vec![AgentRun { seconds, ..AgentRun::default() }];
            Measured::of(&run).doubts
        };
        assert_eq!(agent(1.85), [""; 0]);
        assert!(agent(1.5)[0].contains("tasks waited for a cpu"));
        let mut blind = run(RunHead { connection_count: 1, ..head() }, &[(1_000_000, 100)]);
        with_counters(&mut blind, &[("pressure_cpu", 0.9)]);
        assert_eq!(Measured::of(&blind).doubts.len(), 1, "who knows whose tasks they were");
    }
}
