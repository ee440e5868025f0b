//! Round trip over connections, with what Little's law makes of the throughput: slope and jitter told apart.
//!
//! In a saturated closed pace the round trip is connections ÷ throughput, so that a perfectly steady server draws a climbing
//! line, and the standard deviation of the levels' means, which was published as predictability, is mostly its slope.

use super::sweep::{At, levels};
use super::{Figure, ROWS_MAX, Table, extent, named};
use crate::number;
use crate::report::svg::{Anchor, Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit};
use crate::report::view::{Arm, Placed, View};
use crate::statistics::predictability::SpreadOverLoad;

const TOP: f64 = 34.0;
const HEIGHT: f64 = 360.0;
/// Room at the right for the spreads.
const MARGIN: f64 = 96.0;

struct Line<'r, 'a> {
    arm: Arm,
    levels: Vec<At<'r, 'a>>,
    spread: Option<SpreadOverLoad>,
}

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    if view.swept().is_some_and(|name| name != "connections") {
        return None;
    }
    let connections = |run: &Placed<'_>| {
        let is_closed = run.run.head.rate.is_none() && !run.is_excluded;
        is_closed.then(|| f64::from(run.run.head.connection_count))
    };
    let lines = view.arms().into_iter().map(|arm| Line {
        arm,
        levels: levels(view, arm, connections),
        spread: view.spread(arm, None),
    });
    let lines: Vec<Line<'_, '_>> = lines.filter(|line| line.levels.len() > 1).collect();
    let points = || lines.iter().flat_map(|line| &line.levels);
    let (first, last) = extent(points().map(|at| at.level))?;
    let (_, high) = extent(points().filter_map(|at| at.of(mean_ns)).map(|spread| spread.high))?;
    let bottom = HEIGHT - FOOT;
    let level = Axis::new(Scale::Linear, Unit::Plain, (first.min(0.0), last), (LEFT, RIGHT - MARGIN));
    let upright = Axis::new(Scale::Linear, Unit::Time, (0.0, high * 1.08), (bottom, TOP));
    let mut drawing = Drawing::new(HEIGHT);
    drawing.rows(&upright, "mean round trip");
    drawing.columns(&level, TOP, bottom, "connections");
    for (index, line) in lines.iter().enumerate() {
        draw(view, &mut drawing, line, &level, &upright);
        if let Some(spread) = &line.spread {
            bracket(&mut drawing, spread, line.arm, &upright, RIGHT - MARGIN + 16.0 + index as f64 * 22.0);
        }
    }
    let title = "Round trip over connections".to_owned();
    let finding = finding(view, &lines);
    let svg = drawing.finish("connections", &title, &finding);
    let reading = "Thin dashes: connections ÷ throughput, what Little's law says of a client that never pauses; where a line lies \
                   below its dashes, requests waited outside the measured time. The brackets at the right are one standard \
                   deviation of the levels' means to either side: a straight line through zero has σ ÷ mean = 0.55 over 10, 20 … \
                   100 connections, however steady it is.".into();
    let table = table(view, &lines);
    Some(Figure { id: "connections", title, finding, reading, svg, table, has_arms: true, more: None })
}

fn mean_ns(run: &Placed<'_>) -> Option<f64> {
    (run.count() > 0).then(|| run.response().mean())
}

/// Connections ÷ throughput, each request of a batch counted.
fn little_ns(run: &Placed<'_>) -> Option<f64> {
    Some(run.offered_in_flight()? / run.rate() * 1e9).filter(|ns| ns.is_finite())
}

fn draw(view: &View<'_>, drawing: &mut Drawing, line: &Line<'_, '_>, level: &Axis, upright: &Axis) {
    let class = line.arm.class();
    let points = |of: fn(&Placed<'_>) -> Option<f64>| -> Vec<(f64, f64)> {
        let places = line.levels.iter();
        places.filter_map(|at| Some((level.at(at.level), upright.at(at.of(of)?.mean)))).collect()
    };
    let name = |what| named(view, line.arm, what);
    drawing.named_curve(&format!("thin {class}"), &name("connections ÷ throughput"), &points(little_ns));
    drawing.named_curve(&format!("line {class}"), &name("mean"), &points(mean_ns));
    for at in &line.levels {
        let Some(spread) = at.of(mean_ns) else { continue };
        let x = level.at(at.level);
        drawing.line(&format!("whisker {class}"), (x, upright.at(spread.low)), (x, upright.at(spread.high)));
        let told = format!("{} connections: {}", number::plain(at.level), number::time(spread.mean));
        drawing.mark(class, line.arm == Arm::B, (x, upright.at(spread.mean)), &told);
    }
}

fn bracket(drawing: &mut Drawing, spread: &SpreadOverLoad, arm: Arm, upright: &Axis, x: f64) {
    let ends = [-1.0, 1.0].map(|side| upright.at(spread.rtt_mean_ns + side * spread.deviation_ns));
    let class = format!("whisker {}", arm.class());
    drawing.line(&class, (x, ends[0]), (x, ends[1]));
    for end in ends {
        drawing.line(&class, (x - 5.0, end), (x + 5.0, end));
    }
    let shown = format!("σ {}", number::time(spread.deviation_ns));
    drawing.text(&format!("tag minor {}", arm.class()), (RIGHT, ends[1] - 8.0), Anchor::End, &shown);
}

fn finding(view: &View<'_>, lines: &[Line<'_, '_>]) -> String {
    let sentences = lines.iter().map(|line| {
        let of = named(view, line.arm, "");
        let of = if of.is_empty() { String::new() } else { format!("{of}: ") };
        match &line.spread {
            Some(spread) => format!(
                "{of}mean round trip {}, spread over load σ {} (σ ÷ mean {}), {} requests/s; {} in flight of {} offered.",
                number::time(spread.rtt_mean_ns),
                number::time(spread.deviation_ns),
                number::plain(spread.relative),
                number::plain(spread.requests_per_second),
                number::plain(spread.little.in_flight),
                number::plain(spread.little.offered)
            ),
            None => format!("{of}{} levels.", line.levels.len()),
        }
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn table(view: &View<'_>, lines: &[Line<'_, '_>]) -> Table {
    let head = [
        "connections",
        "mean round trip",
        "lowest run",
        "highest run",
        "requests/s",
        "in flight",
        "connections ÷ throughput",
    ];
    let mut table = Table::new(head);
    for line in lines {
        for at in line.levels.iter().take(ROWS_MAX) {
            let Some(spread) = at.of(mean_ns) else { continue };
            let mean = |of: fn(&Placed<'_>) -> Option<f64>| at.of(of).map(|spread| spread.mean);
            table.rows.push(vec![
                named(view, line.arm, &number::plain(at.level)),
                number::time(spread.mean),
                number::time(spread.low),
                number::time(spread.high),
                mean(|run| Some(run.rate())).map_or("–".to_owned(), number::plain),
                mean(|run| Some(run.in_flight())).map_or("–".to_owned(), number::plain),
                mean(little_ns).map_or("–".to_owned(), number::time),
            ]);
        }
    }
    for line in lines {
        let Some(spread) = &line.spread else { continue };
        let rows = [
            ("σ of the levels' means, n − 1 (the published number)", number::time(spread.deviation_ns)),
            ("the same over n", number::time(spread.deviation_population_ns)),
            ("σ of all single runs' means", number::time(spread.deviation_of_runs_ns)),
            ("mean σ within a run", number::time(spread.deviation_within_ns)),
            ("σ ÷ mean", number::plain(spread.relative)),
        ];
        table.rows.extend(rows.map(|(name, value)| vec![named(view, line.arm, name), value]));
    }
    table
}
