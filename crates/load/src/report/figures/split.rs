//! Where the time went: waiting to be sent, and from sending to reply.
//!
//! Means add up, percentiles do not: the request that was sent latest is rarely the one that was served slowest. So the bar
//! of the mean is stacked and those of percentiles stand below one another.
//!
//! Below them the time of the cpus for a request, by who had it. These overlap: soft interrupts are the whole machine's, and kernels
//! that don't tell them apart count them in the program they interrupted. So they stand side by side and are not added up.

use super::{Figure, Table, at_level, extent, named};
use crate::analysis::Metric;
use crate::float::float;
use crate::number;
use crate::report::svg::{Anchor, Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit};
use crate::report::view::{Arm, View, middle};
use crate::statistics::quantiles::quantile_ns;

const TOP: f64 = 12.0;
const BAR: f64 = 20.0;
const ROW: f64 = 44.0;
/// Above the bars of the cpus, for their heading.
const GAP: f64 = 34.0;
const COST_ROW: f64 = 26.0;
/// Where the bars of the cpus begin: their names are longer.
const COST_LEFT: f64 = 210.0;
/// Counters of all cpus, seconds in a second, and what they are called.
const CPU_COUNTERS: [(&str, &str); 3] =
    [("cpu_softirq", "soft interrupts"), ("cpu_irq", "hard interrupts"), ("cpu_steal", "stolen")];
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

struct Bar {
    arm: Arm,
    name: String,
    /// Beside it in the picture.
    label: String,
    response_ns: f64,
    service_ns: f64,
    lag_ns: f64,
    /// Whether the two parts make the whole.
    adds_up: bool,
}

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let bars: Vec<Bar> = view.arms().into_iter().flat_map(|arm| bars_of(view, arm)).collect();
    let (_, high) = extent(bars.iter().flat_map(|bar| [bar.response_ns, bar.service_ns + bar.lag_ns]))?;
    let costs: Vec<Cost> = view.arms().into_iter().flat_map(|arm| costs_of(view, arm)).collect();
    let bottom = TOP + bars.len() as f64 * ROW;
    let level = Axis::new(Scale::Linear, Unit::Time, (0.0, high), (LEFT, RIGHT));
    let costs_height = if costs.is_empty() { 0.0 } else { GAP + costs.len() as f64 * COST_ROW + FOOT };
    let mut drawing = Drawing::new(bottom + FOOT + costs_height);
    drawing.columns(&level, TOP, bottom, "time");
    for (index, bar) in bars.iter().enumerate() {
        let top = TOP + index as f64 * ROW + 4.0;
        draw(&mut drawing, bar, &level, top);
    }
    draw_costs(&mut drawing, &costs, bottom + FOOT + GAP);
    let title = format!("Where the time went{}", at_level(view));
    let finding = finding(view, &bars)?;
    let svg = drawing.finish("split", &title, &finding);
    let reading = "Pale: from when a request was due until it was sent, this program's share. Full: from sending to reply. Of the \
                   mean they add up; percentiles of parts do not, so there the upper half is the response and the lower the \
                   send lag. Below: time of the cpus for a request, by who had it; soft interrupts are the whole machine's and may be \
                   counted in the others, too, so these do not add up.".into();
    let mut table = Table::new(["of", "response", "send lag", "service"]);
    table.rows.extend(bars.iter().map(|bar| {
        let times = [bar.response_ns, bar.lag_ns, bar.service_ns].map(number::time);
        std::iter::once(bar.name.clone()).chain(times).collect()
    }));
    table.rows.extend(costs.iter().map(|cost| vec![cost.name.clone(), number::time(cost.ns)]));
    Some(Figure { id: "split", title, finding, reading, svg, table, has_arms: true, more: None })
}

fn bars_of(view: &View<'_>, arm: Arm) -> Vec<Bar> {
    let Some(run) = middle(&view.shown(arm), Metric::P99).filter(|run| run.count() > 0) else {
        return Vec::new();
    };
    let mut bars = vec![Bar {
        arm,
        name: named(view, arm, "mean"),
        label: lettered(view, arm, "mean"),
        response_ns: run.response().mean(),
        service_ns: run.service().mean(),
        lag_ns: (run.response().mean() - run.service().mean()).max(0.0),
        adds_up: true,
    }];
    for (name, quantile) in QUANTILES {
        if let Some(response_ns) = quantile_ns(run.response(), quantile) {
            bars.push(Bar {
                arm,
                name: named(view, arm, name),
                label: lettered(view, arm, name),
                response_ns,
                service_ns: float(run.service().value_at_quantile(quantile)),
                lag_ns: float(run.figures.send_lag.value_at_quantile(quantile)),
                adds_up: false,
            });
        }
    }
    bars
}

/// With its set-up's letter, so that colours don't stand alone.
fn lettered(view: &View<'_>, arm: Arm, what: &str) -> String {
    if view.is_comparison() { format!("{} {what}", arm.letter()) } else { what.to_owned() }
}

/// Time of the cpus for a request.
struct Cost {
    arm: Arm,
    name: String,
    /// Beside it in the picture.
    label: String,
    ns: f64,
}

/// Of the run that is shown. What was not seen, or never happened, is left out.
fn costs_of(view: &View<'_>, arm: Arm) -> Vec<Cost> {
    let Some(run) = middle(&view.shown(arm), Metric::P99).filter(|run| run.count() > 0) else {
        return Vec::new();
    };
    let end = run.run.end.as_ref();
    let client = end.filter(|end| end.answered > 0 && !end.thread_use.is_empty()).map(|end| {
        let cores: f64 = end.thread_use.iter().sum();
        cores * float(end.elapsed_ns) / float(end.answered)
    });
    let counter = |name: &str| {
        let seconds: Vec<f64> =
            run.seconds.iter().filter_map(|saved| saved.counters.get(name).copied()).collect();
        let mean = seconds.iter().sum::<f64>()
            / float(u64::try_from(seconds.len()).ok().filter(|count| *count > 0)?);
        Some(mean * 1e9 / run.rate())
    };
    let programs = [("server", run.value(Metric::ServerCpu)), ("the load", client)];
    let machine = CPU_COUNTERS.map(|(name, words)| (words, counter(name)));
    let seen = programs.into_iter().chain(machine);
    let some = seen.filter_map(|(what, ns)| Some((what, ns.filter(|ns| ns.is_finite() && *ns > 0.0)?)));
    let cost = |(what, ns)| Cost { arm, name: named(view, arm, what), label: lettered(view, arm, what), ns };
    some.map(cost).collect()
}

fn draw_costs(drawing: &mut Drawing, costs: &[Cost], top: f64) {
    let Some((_, high)) = extent(costs.iter().map(|cost| cost.ns)) else { return };
    let bottom = top + costs.len() as f64 * COST_ROW;
    let level = Axis::new(Scale::Linear, Unit::Time, (0.0, high), (COST_LEFT, RIGHT));
    drawing.text("axis", (0.0, top - 14.0), Anchor::Start, "cpu time for a request");
    drawing.columns(&level, top, bottom, "time");
    for (index, cost) in costs.iter().enumerate() {
        let top = top + index as f64 * COST_ROW + 4.0;
        drawing.text("tick", (COST_LEFT - 8.0, top + 14.0), Anchor::End, &cost.label);
        let told = format!("{}: {}", cost.name, number::time(cost.ns));
        let width = level.at(cost.ns) - level.at(0.0);
        drawing.bar(cost.arm.class(), (level.at(0.0), top), (width, COST_ROW - 8.0), &told);
    }
}

fn draw(drawing: &mut Drawing, bar: &Bar, level: &Axis, top: f64) {
    let class = bar.arm.class();
    drawing.text("tick", (LEFT - 8.0, top + 17.0), Anchor::End, &bar.label);
    let zero = level.at(0.0);
    let width = |ns: f64| level.at(ns) - zero;
    let told = |what: &str, ns: f64| format!("{}, {what}: {}", bar.name, number::time(ns));
    if bar.adds_up {
        let height = BAR * 1.4;
        drawing.bar(
            &format!("part {class}"),
            (zero, top),
            (width(bar.lag_ns), height),
            &told("send lag", bar.lag_ns),
        );
        let after = (zero + width(bar.lag_ns), top);
        drawing.bar(class, after, (width(bar.service_ns), height), &told("service", bar.service_ns));
    } else {
        let response = told("response", bar.response_ns);
        drawing.bar(class, (zero, top), (width(bar.response_ns), BAR * 0.9), &response);
        let below = (zero, top + BAR * 0.9);
        drawing.bar(
            &format!("part {class}"),
            below,
            (width(bar.lag_ns), BAR * 0.5),
            &told("send lag", bar.lag_ns),
        );
    }
}

fn finding(view: &View<'_>, bars: &[Bar]) -> Option<String> {
    let sentences = bars.iter().filter(|bar| bar.adds_up && bar.response_ns > 0.0).map(|bar| {
        let of = named(view, bar.arm, "");
        let of = if of.is_empty() {
            "Of the mean response time".to_owned()
        } else {
            format!("{of}: of the mean response time")
        };
        format!("{of} {} passed before the request was sent.", number::percent(bar.lag_ns / bar.response_ns))
    });
    let text = sentences.collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}
