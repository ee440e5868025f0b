//! Mean round trip of each second: is the line straight?
//!
//! A strip for each arm, on the same axes: a pale line for each run, a bold one for the median run of that second. Drift and
//! roughness are those of the bold line.

use super::{Figure, LINES_MAX, ROWS_MAX, Table, at_level, extent, median, named};
use crate::number;
use crate::report::svg::{Anchor, Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit};
use crate::report::view::{Arm, Placed, View};
use crate::statistics::Level;
use crate::statistics::trend::Trend;

const TOP: f64 = 34.0;
const STRIP: f64 = 170.0;
const GAP: f64 = 46.0;
/// What the axis leaves above the slowest second of the middle run.
const HEADROOM: f64 = 1.1;

struct Strip<'a> {
    arm: Arm,
    /// Of each run the mean of each whole second that counts, by its number.
    lines: Vec<Vec<(f64, f64)>>,
    middle: Vec<(f64, f64)>,
    trend: Option<Trend>,
    runs: Vec<&'a Placed<'a>>,
}

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let strips: Vec<Strip<'_>> = view.arms().into_iter().filter_map(|arm| strip(view, arm)).collect();
    let points = || strips.iter().flat_map(|strip| &strip.lines).flatten();
    let (from, to) = extent(points().map(|point| point.0))?;
    let (_, high) = extent(points().map(|point| point.1))?;
    let count = strips.len() as f64;
    let height = TOP + count * STRIP + (count - 1.0) * GAP + FOOT;
    let level = Axis::new(Scale::Linear, Unit::Plain, (from, to), (LEFT, RIGHT));
    let mut drawing = Drawing::new(height);
    for (index, strip) in strips.iter().enumerate() {
        let top = TOP + index as f64 * (STRIP + GAP);
        let bottom = top + STRIP;
        let upright = Axis::new(Scale::Linear, Unit::Time, (0.0, high * HEADROOM), (bottom, top));
        drawing.rows(&upright, &named(view, strip.arm, "mean response of each second"));
        if index + 1 == strips.len() {
            drawing.columns(&level, top, bottom, "seconds since the run began");
        } else {
            drawing.grid(&level, top, bottom);
        }
        let place = |point: &(f64, f64)| (level.at(point.0), upright.at(point.1));
        let class = strip.arm.class();
        if strip.lines.len() > 1 {
            for line in strip.lines.iter().take(LINES_MAX) {
                drawing.curve(&format!("pale {class}"), &line.iter().map(place).collect::<Vec<_>>());
            }
        }
        let name = named(view, strip.arm, "mean");
        drawing.named_curve(
            &format!("line {class}"),
            &name,
            &strip.middle.iter().map(place).collect::<Vec<_>>(),
        );
        if let Some(trend) = strip.trend {
            drawing.text("note minor", (RIGHT, top - 14.0), Anchor::End, &straightness(&trend));
        }
    }
    let title = format!("Round trips, second by second{}", at_level(view));
    let finding = finding(view, &strips);
    let svg = drawing.finish("strips", &title, &finding);
    let has_pale = strips.iter().any(|strip| strip.lines.len() > 1);
    let reading = format!(
        "A predictable server draws a straight, level line. {}Drift is how far the line climbs from end to end, roughness how far \
         seconds lie from it, both as a share of the median.",
        if has_pale { "Pale: single runs. Bold: the median of the runs. " } else { "" }
    )
    .into();
    let table = table(view, &strips);
    Some(Figure { id: "strips", title, finding, reading, svg, table, has_arms: true, more: None })
}

fn strip<'a>(view: &'a View<'a>, arm: Arm) -> Option<Strip<'a>> {
    let runs = view.shown(arm);
    let lines: Vec<Vec<(f64, f64)>> = runs
        .iter()
        .map(|run| {
            let seconds = run.seconds.iter().zip(&run.figures.seconds);
            seconds.filter_map(|(saved, of)| Some((f64::from(saved.second.number), of.mean_ns?))).collect()
        })
        .collect();
    let mut all: Vec<(f64, f64)> = lines.iter().flatten().copied().collect();
    all.sort_by(|left, right| left.0.total_cmp(&right.0));
    let same_second = |left: &(f64, f64), right: &(f64, f64)| left.0.total_cmp(&right.0).is_eq();
    let middle: Vec<(f64, f64)> = all
        .chunk_by(same_second)
        .filter_map(|runs| Some((runs[0].0, median(runs.iter().map(|point| point.1).collect())?)))
        .collect();
    let values: Vec<f64> = middle.iter().map(|point| point.1).collect();
    let trend = Trend::of(&values, Level::NINETY_FIVE);
    // One point is no line.
    (middle.len() > 1).then_some(Strip { arm, lines, middle, trend, runs })
}

fn straightness(trend: &Trend) -> String {
    format!("drift {} · roughness {}", number::change(trend.drift), number::percent(trend.roughness))
}

fn finding(view: &View<'_>, strips: &[Strip<'_>]) -> String {
    let sentences = strips.iter().map(|strip| {
        let middle = median(strip.middle.iter().map(|point| point.1).collect());
        let of = named(view, strip.arm, "");
        let of = if of.is_empty() { "The line".to_owned() } else { format!("{of}: the line") };
        let straight = match &strip.trend {
            Some(trend) => {
                let word = match trend.word() {
                    "can't tell" => "may drift or not",
                    word => word,
                };
                format!(
                    "{word}: {} from end to end ({}), roughness {}",
                    number::change(trend.drift),
                    number::change_interval(trend.drift_interval),
                    number::percent(trend.roughness)
                )
            }
            None => "too short to say whether it is straight".to_owned(),
        };
        format!("{of} lies at {}, {straight}.", number::time_or_not(middle))
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn table(view: &View<'_>, strips: &[Strip<'_>]) -> Table {
    let head = ["run", "seconds", "lowest mean", "median", "highest mean", "drift", "roughness"];
    let mut table = Table::new(head);
    for strip in strips {
        for (run, line) in strip.runs.iter().zip(&strip.lines) {
            let values: Vec<f64> = line.iter().map(|point| point.1).collect();
            let ends = extent(values.iter().copied());
            let trend = run.figures.trend(Level::NINETY_FIVE);
            table.rows.push(vec![
                named(view, strip.arm, &format!("run {}", run.run.head.run)),
                values.len().to_string(),
                number::time_or_not(ends.map(|ends| ends.0)),
                number::time_or_not(median(values)),
                number::time_or_not(ends.map(|ends| ends.1)),
                trend.map_or("–".to_owned(), |trend| number::change(trend.drift)),
                trend.map_or("–".to_owned(), |trend| number::percent(trend.roughness)),
            ]);
        }
    }
    table.rows.truncate(ROWS_MAX);
    table
}
