//! Response time over the rate that was asked for: where does it bend?

use super::sweep::{At, levels};
use super::{Figure, ROWS_MAX, Table, extent, named};
use crate::analysis::gates::Colour;
use crate::float::float;
use crate::number;
use crate::report::svg::{Anchor, Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit};
use crate::report::view::{Arm, Placed, View};
use crate::statistics::quantiles::quantile_ns;

const TOP: f64 = 34.0;
const HEIGHT: f64 = 360.0;
/// Room at the right for the names of the lines.
const MARGIN: f64 = 64.0;
/// The knee is the last rate before the p99 is more than so many times that at the lowest rate.
const KNEE_FACTOR: f64 = 3.0;
/// Share of the rate that has to be answered for it to count as kept.
const KEPT_SHARE_MIN: f64 = 0.99;
const QUANTILES: [(&str, f64, &str); 3] =
    [("p50", 0.5, "slim"), ("p99", 0.99, "line"), ("p99.9", 0.999, "thin")];

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let rate = |run: &Placed<'_>| run.run.head.rate;
    let lines = view.arms().into_iter().map(|arm| (arm, levels(view, arm, rate)));
    let lines: Vec<(Arm, Vec<At<'_, '_>>)> = lines.filter(|(_, levels)| levels.len() > 1).collect();
    let points = || lines.iter().flat_map(|(_, levels)| levels);
    let (first, last) = extent(points().map(|at| at.level))?;
    let quantiles = QUANTILES.map(|(_, quantile, _)| quantile);
    let times = points().flat_map(|at| quantiles.into_iter().filter_map(|quantile| at.of(value(quantile))));
    let bound = view.bound;
    let ends =
        times.flat_map(|spread| [spread.low, spread.high]).chain(bound.map(|bound| float(bound.below_ns)));
    let (low, high) = extent(ends)?;
    let bottom = HEIGHT - FOOT;
    let level = Axis::new(Scale::Linear, Unit::Plain, (first.min(0.0), last), (LEFT, RIGHT - MARGIN));
    let upright = Axis::new(Scale::Log, Unit::Time, (low * 0.8, high * 1.2), (bottom, TOP));
    let mut drawing = Drawing::new(HEIGHT);
    drawing.rows(&upright, "response time");
    drawing.columns(&level, TOP, bottom, "requests asked for a second");
    if let Some(bound) = bound {
        let y = upright.at(float(bound.below_ns));
        drawing.line("rule", (LEFT, y), (RIGHT, y));
        let text = format!(
            "{} within {}",
            number::percentile(bound.quantile),
            number::short_time(float(bound.below_ns))
        );
        drawing.text("note minor", (LEFT + 6.0, y - 6.0), Anchor::Start, &text);
    }
    for (arm, levels) in &lines {
        draw(view, &mut drawing, *arm, levels, &level, &upright);
    }
    let title = "Response time over the rate".to_owned();
    let finding = finding(view, &lines);
    let svg = drawing.finish("load-curve", &title, &finding);
    let has_tail = points().any(|at| at.of(value(0.999)).is_some());
    let reading = format!(
        "Thin: p50. Bold: p99. {}Hollow marks: something made the run no evidence, as a rate that was not kept or a client at its \
         limit; see the table of all runs.",
        if has_tail { "Dashes: p99.9. " } else { "" }
    )
    .into();
    let table = table(view, &lines);
    Some(Figure { id: "load-curve", title, finding, reading, svg, table, has_arms: true, more: None })
}

fn value(quantile: f64) -> impl Fn(&Placed<'_>) -> Option<f64> {
    move |run| quantile_ns(run.response(), quantile)
}

fn draw(
    view: &View<'_>,
    drawing: &mut Drawing,
    arm: Arm,
    levels: &[At<'_, '_>],
    level: &Axis,
    upright: &Axis,
) {
    for (name, quantile, weight) in QUANTILES {
        let places = levels.iter().filter_map(|at| Some((at, at.of(value(quantile))?.mean)));
        let points: Vec<(f64, f64)> =
            places.clone().map(|(at, ns)| (level.at(at.level), upright.at(ns))).collect();
        drawing.named_curve(&format!("{weight} {}", arm.class()), &named(view, arm, name), &points);
        if let Some((x, y)) = points.last() {
            drawing.text(&format!("tag {}", arm.class()), (x + 8.0, y + 4.0), Anchor::Start, name);
        }
        if name != "p99" {
            continue;
        }
        for (at, ns) in places {
            let is_red = at.runs.iter().any(|run| run.gates.iter().any(|gate| gate.colour == Colour::Red));
            let class = if is_red { format!("hollow {}", arm.class()) } else { arm.class().to_owned() };
            let told = format!("{} a second: {name} {}", number::plain(at.level), number::time(ns));
            drawing.mark(&class, arm == Arm::B, (level.at(at.level), upright.at(ns)), &told);
        }
    }
}

/// The last rate that was kept before the p99 rose beyond [`KNEE_FACTOR`] times its value at the lowest rate.
fn knee(levels: &[At<'_, '_>]) -> Option<f64> {
    let p99 = |at: &At<'_, '_>| at.of(value(0.99)).map(|spread| spread.mean);
    let first = p99(levels.first()?)?;
    let kept = levels.iter().take_while(|at| {
        let is_kept =
            at.of(|run| Some(run.rate())).is_some_and(|rate| rate.mean >= KEPT_SHARE_MIN * at.level);
        is_kept && p99(at).is_some_and(|ns| ns <= KNEE_FACTOR * first)
    });
    kept.last().map(|at| at.level)
}

fn finding(view: &View<'_>, lines: &[(Arm, Vec<At<'_, '_>>)]) -> String {
    let sentences = lines.iter().map(|(arm, levels)| {
        let of = named(view, *arm, "");
        let of = if of.is_empty() { String::new() } else { format!("{of}: ") };
        match knee(levels) {
            Some(rate) if levels.last().is_some_and(|last| last.level > rate) => format!(
                "{of}up to {} requests/s the rate is kept and the p99 stays within three times that at the lowest rate.",
                number::plain(rate)
            ),
            Some(rate) => format!("{of}no knee was seen up to {} requests/s.", number::plain(rate)),
            None => format!("{of}not even the lowest rate was kept."),
        }
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn table(view: &View<'_>, lines: &[(Arm, Vec<At<'_, '_>>)]) -> Table {
    let mut table = Table::new(["asked for", "answered", "p50", "p99", "p99.9"]);
    for (arm, levels) in lines {
        for at in levels.iter().take(ROWS_MAX) {
            let mut row = vec![named(view, *arm, &number::plain(at.level))];
            let rate = at.of(|run| Some(run.rate())).map(|rate| rate.mean);
            row.push(rate.map_or("–".to_owned(), number::plain));
            row.extend(QUANTILES.map(|(_, quantile, _)| {
                number::time_or_not(at.of(value(quantile)).map(|spread| spread.mean))
            }));
            table.rows.push(row);
        }
    }
    table
}
