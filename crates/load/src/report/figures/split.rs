//! Where the time went: waiting to be sent, and from sending to reply.
//!
//! Means add up, percentiles do not: the request that was sent latest is rarely the one that was served slowest. So the bar
//! of the mean is stacked and those of percentiles stand below one another.

use super::{Figure, Table, at_level, extent, named};
use crate::analysis::Metric;
use crate::float::float;
use crate::report::number;
use crate::report::svg::{Anchor, Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit};
use crate::report::view::{Arm, View, middle};
use crate::statistics::quantiles::quantile_ns;

const TOP: f64 = 12.0;
const BAR: f64 = 20.0;
const ROW: f64 = 44.0;
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

struct Bar {
    arm: Arm,
    name: String,
    response_ns: f64,
    service_ns: f64,
    lag_ns: f64,
    /// Whether the two parts make the whole.
    adds_up: bool,
}

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let bars: Vec<Bar> = view.arms().into_iter().flat_map(|arm| bars_of(view, arm)).collect();
    let (_, high) = extent(bars.iter().flat_map(|bar| [bar.response_ns, bar.service_ns + bar.lag_ns]))?;
    let bottom = TOP + bars.len() as f64 * ROW;
    let level = Axis::new(Scale::Linear, Unit::Time, (0.0, high), (LEFT, RIGHT));
    let mut drawing = Drawing::new(bottom + FOOT);
    drawing.columns(&level, TOP, bottom, "time");
    for (index, bar) in bars.iter().enumerate() {
        let top = TOP + index as f64 * ROW + 4.0;
        draw(&mut drawing, bar, &level, top);
    }
    let title = format!("Where the time went{}", at_level(view));
    let finding = finding(view, &bars)?;
    let svg = drawing.finish("split", &title, &finding);
    let reading = "Pale: from when a request was due until it was sent, this program's share. Full: from sending to reply. Of the \
                   mean they add up; percentiles of parts do not, so there the upper half is the response and the lower the \
                   send lag.";
    let mut table = Table::new(["of", "response", "send lag", "service"]);
    table.rows.extend(bars.iter().map(|bar| {
        let times = [bar.response_ns, bar.lag_ns, bar.service_ns].map(number::time);
        std::iter::once(bar.name.clone()).chain(times).collect()
    }));
    Some(Figure { id: "split", title, finding, reading, svg, table, has_arms: true })
}

fn bars_of(view: &View<'_>, arm: Arm) -> Vec<Bar> {
    let Some(run) = middle(&view.shown(arm), Metric::P99).filter(|run| run.count() > 0) else {
        return Vec::new();
    };
    let mut bars = vec![Bar {
        arm,
        name: named(view, arm, "mean"),
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
                response_ns,
                service_ns: float(run.service().value_at_quantile(quantile)),
                lag_ns: float(run.figures.send_lag.value_at_quantile(quantile)),
                adds_up: false,
            });
        }
    }
    bars
}

fn draw(drawing: &mut Drawing, bar: &Bar, level: &Axis, top: f64) {
    let class = bar.arm.class();
    let short = bar.name.rsplit(", ").next().unwrap_or_default();
    drawing.text("tick", (LEFT - 8.0, top + 17.0), Anchor::End, short);
    let zero = level.at(0.0);
    let width = |ns: f64| level.at(ns) - zero;
    if bar.adds_up {
        let height = BAR * 1.4;
        drawing.rect(&format!("bar part {class}"), (zero, top), (width(bar.lag_ns), height));
        drawing.rect(
            &format!("bar {class}"),
            (zero + width(bar.lag_ns), top),
            (width(bar.service_ns), height),
        );
    } else {
        drawing.rect(&format!("bar {class}"), (zero, top), (width(bar.response_ns), BAR * 0.9));
        drawing.rect(&format!("bar part {class}"), (zero, top + BAR * 0.9), (width(bar.lag_ns), BAR * 0.5));
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
