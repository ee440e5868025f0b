//! A result for other programs: a flat JSON summary, tables of runs and of seconds, and percentiles as HdrHistogram's own
//! tools print and plot them. Times are nanoseconds where a name says so.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::agents;
use super::answer::answer;
use super::doubts;
use super::view::{Placed, View};
use crate::analysis::gates::Colour;
use crate::analysis::{Figures, Metric};
use crate::float::float;
use crate::record::times;
use crate::result::{Run, Saved};
use crate::statistics::Interval;
use crate::statistics::quantiles::{NAMED, quantile_ns};

/// Steps of a percentile file in each halving of the distance to all, as other tools have it.
const STEPS_PER_HALVING: u32 = 5;
/// Nanoseconds of a percentile file's unit.
const MILLISECOND_NS: f64 = 1e6;

/// Response times of a run over the seconds that count, in milliseconds, in the text form of `outputPercentileDistribution`
/// (HdrHistogram in Java): value, quantile, requests up to it, and 1 / (1 − quantile).
pub fn hgrm(run: &Run) -> String {
    hgrm_of(&Figures::of(run).total.response)
}

fn hgrm_of(all: &Histogram<u64>) -> String {
    let ms = |ns: f64| ns / MILLISECOND_NS;
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut count = 0;
    for step in all.iter_quantiles(STEPS_PER_HALVING) {
        count += step.count_since_last_iteration();
        let (value, quantile) = (ms(float(step.value_iterated_to())), step.quantile_iterated_to());
        text += &format!("{value:>12.6} {quantile:>14.12} {count:>10}");
        if quantile < 1.0 {
            text += &format!(" {:>14.2}", 1.0 / (1.0 - quantile));
        }
        text.push('\n');
    }
    let (mean, deviation, max) = (ms(all.mean()), ms(all.stdev()), ms(float(all.max())));
    text += &format!("#[Mean    = {mean:>12.6}, StdDeviation   = {deviation:>12.6}]\n");
    text += &format!("#[Max     = {max:>12.6}, Total count    = {:>12}]\n", all.len());
    // The bounds of the record's histograms: 1 ns to 600 s in 29 halvings above 2,048 buckets of one nanosecond.
    text += &format!("#[Buckets = {:>12}, SubBuckets     = {:>12}]\n", 30, 2048);
    text
}

/// A row for each run: who, when, what came, and what speaks against it.
pub fn runs_csv(saved: &Saved) -> String {
    let view = View::of(saved);
    let mut head: Vec<String> =
        ["run", "arm", "pair", "level", "level_value", "began_unix_ms", "left_out", "seconds", "replies"]
            .map(str::to_owned)
            .to_vec();
    head.extend(Metric::all().map(column));
    head.extend(["send_lag_p99_ns", "in_flight", "client_share", "doubts"].map(str::to_owned));
    let mut text = row(&head);
    for run in &view.runs {
        let head = &run.run.head;
        let level = head.level.as_ref();
        let mut cells = vec![
            head.run.to_string(),
            head.arm.clone(),
            head.pair.map_or_else(String::new, |pair| pair.to_string()),
            level.map_or_else(String::new, |(name, _)| name.clone()),
            level.map_or_else(String::new, |(_, value)| value.to_string()),
            head.began_unix_ms.to_string(),
            run.is_excluded.to_string(),
            run.figures.duration_s.to_string(),
            run.count().to_string(),
        ];
        cells.extend(Metric::all().map(|metric| number(run.value(metric))));
        cells.push(run.figures.send_lag.value_at_quantile(0.99).to_string());
        cells.push(number(Some(run.in_flight())));
        cells.push(number(run.thread_use_max()));
        let doubts = run.gates.iter().filter(|gate| gate.colour != Colour::Green);
        let doubts: Vec<String> = doubts.map(|gate| format!("{:?} {}", gate.colour, gate.name)).collect();
        cells.push(doubts.join("; "));
        text += &row(&cells);
    }
    text
}

/// A metric's name as a column, with its unit.
fn column(metric: Metric) -> String {
    let name = metric.to_string().replace('-', "_");
    if metric.is_time() { format!("{name}_ns") } else { name }
}

/// A row for each second of each run, the warm-up included: `counts` says whether it does. Behind the columns of the whole stand
/// those of each agent, as in `10.0.0.7:7411/cpu_steal`.
pub fn seconds_csv(saved: &Saved) -> String {
    let all = || saved.runs.iter().flat_map(|run| &run.seconds);
    let counters: BTreeSet<&String> = all().flat_map(|saved| saved.counters.keys()).collect();
    let names = [
        "run",
        "arm",
        "second",
        "counts",
        "replies",
        "errors",
        "misses",
        "wrong",
        "begun",
        "moved",
        "in_flight_max",
        "response_mean_ns",
        "response_p50_ns",
        "response_p99_ns",
        "response_max_ns",
        "service_mean_ns",
        "send_lag_p99_ns",
    ];
    let of_agents = agents::columns(saved);
    let head = names.map(str::to_owned).into_iter().chain(counters.iter().map(|name| (*name).clone()));
    let head: Vec<String> = head.chain(of_agents.iter().cloned()).collect();
    let mut text = row(&head);
    for run in &saved.runs {
        let window = crate::analysis::Window::of(run).seconds.as_ptr_range();
        for saved in &run.seconds {
            let second = &saved.second;
            let response = second.response();
            let mut service = times();
            for operation in &second.operations {
                service.add(&operation.service).expect("all histograms have one shape");
            }
            let sum = |of: fn(&crate::record::OperationSecond) -> u64| {
                second.operations.iter().map(of).sum::<u64>().to_string()
            };
            let mean = |times: &Histogram<u64>| number((!times.is_empty()).then(|| times.mean()));
            let told = |quantile| number(quantile_ns(&response, quantile));
            let mut cells = vec![
                saved.run.to_string(),
                run.head.arm.clone(),
                second.number.to_string(),
                window.contains(&std::ptr::from_ref(saved)).to_string(),
                second.count().to_string(),
                sum(|operation| operation.errors),
                sum(|operation| operation.misses),
                sum(|operation| operation.wrong),
                second.begun.to_string(),
                second.moved.to_string(),
                second.in_flight_max.to_string(),
                mean(&response),
                told(0.5),
                told(0.99),
                number((!response.is_empty()).then(|| float(response.max()))),
                mean(&service),
                number((!second.send_lag.is_empty()).then(|| float(second.send_lag.value_at_quantile(0.99)))),
            ];
            cells.extend(counters.iter().map(|name| number(saved.counters.get(*name).copied())));
            let told = agents::second(run, second.number);
            cells.extend(of_agents.iter().map(|name| number(told.get(name).copied())));
            text += &row(&cells);
        }
    }
    text
}

/// A number as every program reads it; nothing where there is none.
fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(String::new, |value| value.to_string())
}

/// Cells with commas between them (RFC 4180).
fn row(cells: &[String]) -> String {
    let quoted = cells.iter().map(|cell| {
        let is_plain = !cell.contains(['"', ',', '\n', '\r']);
        if is_plain { cell.clone() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

/// All of it in a few numbers.
#[derive(Serialize)]
struct Summary {
    kind: String,
    version: String,
    began_unix_ms: u64,
    is_complete: bool,
    answer: String,
    verdict: Option<String>,
    doubts: Vec<Said>,
    compared: Vec<Change>,
    runs: Vec<OneRun>,
}

#[derive(Serialize)]
struct Said {
    colour: Colour,
    kind: String,
    text: String,
    runs: Vec<u32>,
}

#[derive(Serialize)]
struct Change {
    metric: String,
    pairs_count: usize,
    change: Option<f64>,
    interval: Option<Interval>,
    p_value: Option<f64>,
    verdict: Option<String>,
}

#[derive(Serialize)]
struct OneRun {
    run: u32,
    arm: String,
    pair: Option<u32>,
    level: Option<(String, f64)>,
    is_left_out: bool,
    /// Seconds that count, and replies in them.
    seconds: f64,
    replies: u64,
    /// From the first request to the last reply, whatever counts.
    whole: Whole,
    /// By name; what can't be told is null.
    metrics: BTreeMap<String, Option<f64>>,
    service_ns: BTreeMap<&'static str, Option<f64>>,
    response_max_ns: u64,
    send_lag_p99_ns: u64,
    /// Of each thread of the load, the share of its core.
    thread_use: Vec<f64>,
    in_flight: f64,
    in_flight_offered: Option<f64>,
    /// Those hosts that made the run together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<agents::Told>,
}

#[derive(Serialize)]
struct Whole {
    elapsed_ns: u64,
    answered: u64,
    unanswered: u64,
    errors: u64,
    misses: u64,
    wrong: u64,
}

impl Whole {
    fn of(run: &Run) -> Whole {
        let operations = || run.seconds.iter().flat_map(|second| &second.second.operations);
        let end = run.end.clone().unwrap_or_default();
        Whole {
            elapsed_ns: end.elapsed_ns,
            answered: end.answered,
            unanswered: end.unanswered,
            errors: operations().map(|operation| operation.errors).sum(),
            misses: operations().map(|operation| operation.misses).sum(),
            wrong: operations().map(|operation| operation.wrong).sum(),
        }
    }
}

/// Answer, doubts, changes and every run's metrics as one JSON object.
///
/// # Errors
/// None that is known of: all of it has a form in JSON.
pub fn json(saved: &Saved) -> serde_json::Result<String> {
    let view = View::of(saved);
    let answer = answer(&view);
    let summary = Summary {
        kind: saved.head.kind.clone(),
        version: saved.head.version.clone(),
        began_unix_ms: saved.head.began_unix_ms,
        is_complete: saved.is_complete,
        answer: answer.sentence,
        verdict: answer.verdicts.first().map(|(_, word, _)| word.clone()),
        doubts: doubts::all(&view)
            .into_iter()
            .map(|doubt| Said { colour: doubt.colour, kind: doubt.kind, text: doubt.text, runs: doubt.runs })
            .collect(),
        compared: view.compared.iter().map(change).collect(),
        runs: view.runs.iter().map(one_run).collect(),
    };
    Ok(serde_json::to_string_pretty(&summary)? + "\n")
}

fn change(of: &super::view::Compared) -> Change {
    let change = of.judged.map(|(change, _)| change);
    Change {
        metric: of.name.clone(),
        pairs_count: of.values.len(),
        change: change.map(|change| change.share()),
        interval: change.map(|change| change.share_interval()),
        p_value: of.judged.map(|(_, verdict)| verdict.p_value),
        verdict: of.judged.map(|(_, verdict)| verdict.word.to_string()),
    }
}

fn one_run(run: &Placed<'_>) -> OneRun {
    let head = &run.run.head;
    let finite = |value: f64| value.is_finite().then_some(value);
    OneRun {
        run: head.run,
        arm: head.arm.clone(),
        pair: head.pair,
        level: head.level.clone(),
        is_left_out: run.is_excluded,
        seconds: run.figures.duration_s,
        replies: run.count(),
        whole: Whole::of(run.run),
        metrics: Metric::all().map(|metric| (column(metric), run.value(metric).and_then(finite))).collect(),
        service_ns: NAMED
            .iter()
            .map(|(name, quantile)| (*name, quantile_ns(run.service(), *quantile)))
            .collect(),
        response_max_ns: run.figures.total.response.max(),
        send_lag_p99_ns: run.figures.send_lag.value_at_quantile(0.99),
        thread_use: run.run.end.as_ref().map_or_else(Vec::new, |end| end.thread_use.clone()),
        in_flight: run.in_flight(),
        in_flight_offered: run.offered_in_flight(),
        agents: agents::told(run),
    }
}
