//! Response time over the share of requests that need at most so long, on an axis of nines: how the tail rises.
//!
//! The band is the span of single runs. Where fewer than ten requests lie above, the line is dotted: there chance speaks.
//! The thin line is service time, counted from the sending; what lies between the two is the waiting that is left out by
//! tools which send the next request only after the last reply.

use hdrhistogram::Histogram;

use super::{Figure, Table, at_level, extent, named};
use crate::float::float;
use crate::number;
use crate::record::times;
use crate::report::svg::{Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit, nines, quantile_of_nines};
use crate::report::view::{Arm, View};
use crate::statistics::quantiles::quantile_ns;

const TOP: f64 = 34.0;
const HEIGHT: f64 = 380.0;
/// Distance of two places of the curve, in nines.
const STEP: f64 = 0.04;
/// Requests above a quantile below which chance speaks, as [`quantile_ns`] has it.
const ABOVE_COUNT_MIN: f64 = 10.0;
const SHOWN: [f64; 7] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999];

struct Curve {
    arm: Arm,
    response: Histogram<u64>,
    service: Histogram<u64>,
    runs: Vec<Histogram<u64>>,
    /// Of its response and of its service.
    names: [String; 2],
}

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let curves: Vec<Curve> = view.arms().into_iter().filter_map(|arm| curve(view, arm)).collect();
    let count_max = curves.iter().map(|curve| curve.response.len()).max().filter(|count| *count > 0)?;
    // Not to the last request: the slowest of all is one event.
    let end = nines(1.0 - 1.0 / float(count_max)).max(2.0);
    let bottom = HEIGHT - FOOT;
    let level = Axis::new(Scale::Nines, Unit::Quantile, (0.0, quantile_of_nines(end)), (LEFT, RIGHT));
    let heights = curves.iter().flat_map(|curve| {
        let low = curve.service.value_at_quantile(0.0).min(curve.response.value_at_quantile(0.0));
        [float(low.max(1)), float(curve.response.max().max(1))]
    });
    let (low, high) = extent(heights)?;
    let upright = Axis::new(Scale::Log, Unit::Time, (low * 0.9, high * 1.15), (bottom, TOP));
    let mut drawing = Drawing::new(HEIGHT);
    drawing.rows(&upright, "response time");
    drawing.columns(&level, TOP, bottom, "percent of requests that need at most this long");
    for curve in &curves {
        draw(&mut drawing, curve, &level, &upright);
    }
    let title = format!("Response time by percentile{}", at_level(view));
    let finding = finding(view, &curves);
    let svg = drawing.finish("percentiles", &title, &finding);
    let has_band = curves.iter().any(|curve| !curve.runs.is_empty());
    let reading = format!(
        "Each step to the right is ten times rarer. {}Dotted: fewer than ten requests lie above, so it is chance. Thin dashes: \
         service time, from sending to reply; what lies between is waiting to be sent.",
        if has_band { "Band: from the lowest to the highest single run. " } else { "" }
    )
    .into();
    let table = table(view, &curves);
    Some(Figure { id: "percentiles", title, finding, reading, svg, table, has_arms: true, more: None })
}

fn curve(view: &View<'_>, arm: Arm) -> Option<Curve> {
    let placed = view.shown(arm);
    let names = ["response", "service"].map(|what| named(view, arm, what));
    let mut curve = Curve { arm, response: times(), service: times(), runs: Vec::new(), names };
    for run in &placed {
        curve.response.add(run.response()).expect("all histograms have one shape");
        curve.service.add(run.service()).expect("all histograms have one shape");
        if placed.len() > 1 {
            curve.runs.push(run.response().clone());
        }
    }
    (!curve.response.is_empty()).then_some(curve)
}

fn draw(drawing: &mut Drawing, curve: &Curve, level: &Axis, upright: &Axis) {
    let class = curve.arm.class();
    let points = |times: &Histogram<u64>, from: f64, to: f64| -> Vec<(f64, f64)> {
        let quantiles: Vec<f64> = places(from, to).collect();
        let values = values_at(times, &quantiles);
        quantiles.iter().zip(values).map(|(quantile, ns)| (level.at(*quantile), upright.at(ns))).collect()
    };
    let last = |times: &Histogram<u64>| nines(1.0 - 1.0 / float(times.len().max(1)));
    let told = |times: &Histogram<u64>| (float(times.len()) / ABOVE_COUNT_MIN).log10().max(0.0);
    // Each run as far as it can tell; beyond the shortest of them a band would be of different runs.
    let reach = curve.runs.iter().map(told).fold(f64::MAX, f64::min);
    if !curve.runs.is_empty() && reach > 0.0 {
        let quantiles: Vec<f64> = places(0.0, reach).collect();
        let runs: Vec<Vec<f64>> = curve.runs.iter().map(|run| values_at(run, &quantiles)).collect();
        let ends = |pick: fn(f64, f64) -> f64| -> Vec<(f64, f64)> {
            let values = |index: usize| runs.iter().map(move |run| run[index]).reduce(pick).unwrap_or(1.0);
            let places = quantiles.iter().enumerate();
            places.map(|(index, quantile)| (level.at(*quantile), upright.at(values(index)))).collect()
        };
        drawing.band(&format!("band {class}"), &ends(f64::max), &ends(f64::min));
    }
    let resolved = told(&curve.response);
    let service = points(&curve.service, 0.0, told(&curve.service));
    drawing.named_curve(&format!("thin {class}"), &curve.names[1], &service);
    drawing.named_curve(&format!("line {class}"), &curve.names[0], &points(&curve.response, 0.0, resolved));
    let beyond = points(&curve.response, resolved, last(&curve.response));
    drawing.curve(&format!("dots {class}"), &beyond);
    if let Some((x, y)) = beyond.last().or(points(&curve.response, 0.0, resolved).last()) {
        drawing.mark(class, curve.arm == Arm::B, (*x, *y), &number::time(float(curve.response.max())));
    }
}

/// The values at rising quantiles, in one walk; at least 1, for they are drawn on a logarithmic axis.
fn values_at(times: &Histogram<u64>, quantiles: &[f64]) -> Vec<f64> {
    let mut recorded = times.iter_recorded();
    let (mut seen, mut value) = (0, 1);
    let at = quantiles.iter().map(|quantile| {
        while float(seen) < (quantile * float(times.len())).max(1.0)
            && let Some(next) = recorded.next()
        {
            seen += next.count_since_last_iteration();
            value = next.value_iterated_to().max(1);
        }
        float(value)
    });
    at.collect()
}

/// Quantiles at equal distances in nines, both ends included.
fn places(from: f64, to: f64) -> impl Iterator<Item = f64> {
    let inner =
        std::iter::successors(Some(from), |place| Some(place + STEP)).take_while(move |place| *place < to);
    inner.chain((to >= from).then_some(to)).map(quantile_of_nines)
}

fn finding(view: &View<'_>, curves: &[Curve]) -> String {
    let values = curves.iter().map(|curve| {
        let times = [0.5, 0.99, 0.999].map(|quantile| quantile_ns(&curve.response, quantile));
        let texts = times.map(number::time_or_not);
        let of = named(view, curve.arm, "");
        let of = if of.is_empty() { of } else { format!("{of}: ") };
        format!("{of}p50 {}, p99 {}, p99.9 {}", texts[0], texts[1], texts[2])
    });
    format!("{}.", values.collect::<Vec<_>>().join(". "))
}

fn table(view: &View<'_>, curves: &[Curve]) -> Table {
    let mut head = vec!["share of requests".to_owned()];
    for curve in curves {
        head.extend(["response", "runs", "service"].map(|what| named(view, curve.arm, what)));
    }
    let mut table = Table::new(head);
    for quantile in SHOWN {
        let mut row = vec![number::percentile(quantile)];
        for curve in curves {
            row.push(number::time_or_not(quantile_ns(&curve.response, quantile)));
            let runs = extent(curve.runs.iter().filter_map(|run| quantile_ns(run, quantile)));
            row.push(runs.map_or("–".to_owned(), |(low, high)| {
                format!("{} to {}", number::time(low), number::time(high))
            }));
            row.push(number::time_or_not(quantile_ns(&curve.service, quantile)));
        }
        table.rows.push(row);
    }
    let mut row = vec!["longest".to_owned()];
    for curve in curves {
        let service = number::time(float(curve.service.max()));
        row.extend([number::time(float(curve.response.max())), "–".to_owned(), service]);
    }
    table.rows.push(row);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_walk_finds_what_many_do() {
        let mut histogram = times();
        for index in 1..=5_000_u64 {
            histogram.record_n(index * index, 1 + index % 3).unwrap();
        }
        let quantiles: Vec<f64> = places(0.0, 4.0).collect();
        for (quantile, value) in quantiles.iter().zip(values_at(&histogram, &quantiles)) {
            let want = histogram.value_at_quantile(*quantile);
            assert!((value - float(want)).abs() <= float(want) / 1000.0, "{quantile}: {value} for {want}");
        }
        assert_eq!(values_at(&times(), &[0.5, 0.9]), [1.0, 1.0]);
    }
}
