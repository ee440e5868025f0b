//! Every response of a run, second by second, as ink; below it what the kernel counted: a stripe finds its cause.

use hdrhistogram::Histogram;

use super::{Figure, ROWS_MAX, Table, at_level, extent, named};
use crate::analysis::Metric;
use crate::float::float;
use crate::number;
use crate::report::doubts::clipped;
use crate::report::svg::{Anchor, Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Short, Unit};
use crate::report::view::{Arm, Placed, View, middle};
use crate::statistics::quantiles::is_resolved;

const TOP: f64 = 34.0;
const MAP: f64 = 190.0;
const STRIP: f64 = 38.0;
/// What of it is for the counter's name.
const NAME: f64 = 18.0;
const GAP: f64 = 54.0;
/// Columns of the map; a longer run has several seconds in each.
const COLUMNS_MAX: usize = 120;
/// Rows of the map, equal factors of time.
const ROWS: usize = 36;
/// Shades of ink, the palest first.
const SHADES: usize = 6;
/// Counters that are drawn.
const COUNTERS_MAX: usize = 6;
/// Counters that usually explain a stripe, with what they are called: these go first.
const TELLING: [(&str, &str); COUNTERS_MAX] = [
    ("cpu_steal", "taken by other machines, cpus"),
    ("pressure_cpu", "share of the time in which a task waited for a cpu"),
    ("cpu_softirq", "soft interrupts, cpus"),
    ("tcp_retransmits", "TCP segments sent again"),
    ("process_switches_involuntary", "load and server held up by other tasks"),
    ("context_switches", "switches from task to task"),
];

struct Map<'r, 'a> {
    arm: Arm,
    run: &'r Placed<'a>,
    /// Seconds of each column.
    columns: Vec<Histogram<u64>>,
    counters: Vec<(String, Vec<f64>)>,
}

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let maps: Vec<Map<'_, '_>> = view.arms().into_iter().filter_map(|arm| map(view, arm)).collect();
    let ends = maps.iter().flat_map(|map| &map.columns).filter(|times| !times.is_empty());
    let (low, high) = extent(ends.flat_map(|times| [float(times.min_nz()), float(times.max())]))?;
    let heights: Vec<f64> = maps.iter().map(|map| MAP + map.counters.len() as f64 * STRIP).collect();
    let height = TOP + heights.iter().sum::<f64>() + (maps.len() - 1) as f64 * GAP + FOOT;
    let mut drawing = Drawing::new(height);
    let mut top = TOP;
    for (map, height) in maps.iter().zip(&heights) {
        let upright = Axis::new(Scale::Log, Unit::Time, (low, high * 1.01), (top + MAP, top));
        drawing.upright(&upright);
        draw(&mut drawing, map, &upright, top);
        strips(&mut drawing, map, top + MAP);
        let what = match view.runs.len() {
            1 => "response time".to_owned(),
            _ => format!("response time, run {}", map.run.run.head.run),
        };
        drawing.text("axis", (0.0, top - 14.0), Anchor::Start, &named(view, map.arm, &what));
        top += height + GAP;
    }
    let (from, to) = span(&maps[maps.len() - 1]);
    let level = Axis::new(Scale::Linear, Unit::Plain, (from, to), (LEFT, RIGHT));
    let bottom = top - GAP;
    drawing.columns(&level, bottom, bottom, "seconds since the run began");
    let title = format!("Every response, over time{}", at_level(view));
    let finding = finding(view, &maps);
    let svg = drawing.finish("heat", &title, &finding);
    let which = match (view.runs.len(), view.is_comparison()) {
        (1, _) => "",
        (_, true) => "One run of each set-up: the one with the middle p99. ",
        (_, false) => "One run: the one with the middle p99. ",
    };
    let reading = format!(
        "The fuller the colour, the more responses of that second took that long, in six steps of a factor of four. {which}Each strip \
         below is what the kernel counted, on its own scale from zero to the number at its end: “cpus” are cpus' worth of time, all \
         else is a second's."
    )
    .into();
    let table = table(view, &maps);
    Some(Figure { id: "heat", title, finding, reading, svg, table, has_arms: true, more: None })
}

fn map<'r, 'a>(view: &'r View<'a>, arm: Arm) -> Option<Map<'r, 'a>> {
    let run = middle(&view.shown(arm), Metric::P99)?;
    let per_column = run.seconds.len().div_ceil(COLUMNS_MAX).max(1);
    let columns: Vec<Histogram<u64>> = run
        .seconds
        .chunks(per_column)
        .map(|seconds| {
            let mut all = crate::record::times();
            for saved in seconds {
                all.add(saved.second.response()).expect("all histograms have one shape");
            }
            all
        })
        .collect();
    let mut names: Vec<&String> = run.seconds.iter().flat_map(|saved| saved.counters.keys()).collect();
    let rank = |name: &str| TELLING.iter().position(|(known, _)| *known == name).unwrap_or(TELLING.len());
    // Of no chosen cpus these are those of all cpus once more.
    names.retain(|name| !name.starts_with("chosen_"));
    names.sort_by(|left, right| rank(left).cmp(&rank(right)).then(left.cmp(right)));
    names.dedup();
    let value =
        |saved: &crate::result::SavedSecond, name: &str| saved.counters.get(name).copied().unwrap_or(0.0);
    let series = names.into_iter().map(|name| {
        let means = run.seconds.chunks(per_column).map(|seconds| {
            seconds.iter().map(|saved| value(saved, name)).sum::<f64>() / seconds.len() as f64
        });
        (name.clone(), means.collect::<Vec<f64>>())
    });
    // What never happened explains nothing.
    let counters = series.filter(|(_, values)| values.iter().any(|value| *value > 0.0)).take(COUNTERS_MAX);
    let counters = counters.collect();
    (columns.len() > 1).then_some(Map { arm, run, columns, counters })
}

/// The first second of a map, and the end of its last.
fn span(map: &Map<'_, '_>) -> (f64, f64) {
    let ends = extent(map.run.seconds.iter().map(|saved| f64::from(saved.second.number)));
    ends.map_or((0.0, 1.0), |(first, last)| (first, last + 1.0))
}

fn draw(drawing: &mut Drawing, map: &Map<'_, '_>, upright: &Axis, top: f64) {
    let width = (RIGHT - LEFT) / map.columns.len() as f64;
    let row_height = MAP / ROWS as f64;
    let mut shades: [String; SHADES] = Default::default();
    let counts: Vec<Vec<u64>> = map.columns.iter().map(|times| rows(times, upright, top)).collect();
    let most = counts.iter().flatten().copied().max().unwrap_or(0);
    for (column, counts) in counts.iter().enumerate() {
        for (row, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            // The most is the darkest, and a quarter of it one shade paler.
            let paler = (float(most) / float(*count)).log(4.0).floor().clamp(0.0, (SHADES - 1) as f64);
            let shade = (0..SHADES).rev().nth(super::whole(paler)).unwrap_or(0);
            let (x, y) = (LEFT + column as f64 * width, top + row as f64 * row_height);
            let (x, y, width, height) = (Short(x), Short(y), Short(width), Short(row_height));
            shades[shade] += &format!("M{x} {y}h{width}v{height}h-{width}z");
        }
    }
    for (index, path) in shades.iter().enumerate() {
        drawing.path(&format!("ink ink{} {}", index + 1, map.arm.class()), path);
    }
    for (value, label) in upright.ticks(4) {
        let y = upright.at(value);
        drawing.line("grid", (LEFT, y), (RIGHT, y));
        drawing.text("tick", (LEFT - 8.0, y + 5.0), Anchor::End, &label);
    }
    drawing.line("base", (LEFT, top + MAP), (RIGHT, top + MAP));
}

/// How many responses lie in each row of the map, from the top.
fn rows(times: &Histogram<u64>, upright: &Axis, top: f64) -> Vec<u64> {
    let mut counts = vec![0; ROWS];
    for value in times.iter_recorded() {
        let below_top = upright.at(float(value.value_iterated_to())) - top;
        let row = super::whole(below_top / MAP * ROWS as f64).min(ROWS - 1);
        counts[row] += value.count_at_value();
    }
    counts
}

/// A counter as people read it.
fn called(name: &str) -> String {
    let known = TELLING.iter().find(|(known, _)| *known == name);
    known.map_or_else(|| clipped(name).replace('_', " "), |(_, words)| (*words).to_owned())
}

fn strips(drawing: &mut Drawing, map: &Map<'_, '_>, top: f64) {
    let width = (RIGHT - LEFT) / map.columns.len() as f64;
    for (index, (name, values)) in map.counters.iter().enumerate() {
        let bottom = top + (index + 1) as f64 * STRIP;
        let most = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let upright = Axis::new(Scale::Linear, Unit::Plain, (0.0, most), (bottom, bottom - STRIP + NAME));
        let mut path = format!("M{} {}", Short(LEFT), Short(bottom));
        for (column, value) in values.iter().enumerate() {
            let (x, y) = (LEFT + (column + 1) as f64 * width, upright.at(*value));
            path += &format!("V{}H{}", Short(y), Short(x));
        }
        path += &format!("V{}Z", Short(bottom));
        drawing.path("area strip", &path);
        drawing.line("grid", (LEFT, bottom), (RIGHT, bottom));
        drawing.text("tick strip-name", (LEFT, bottom - STRIP + 14.0), Anchor::Start, &called(name));
        drawing.text("tick strip-name", (RIGHT, bottom - STRIP + 14.0), Anchor::End, &number::short(most));
    }
}

fn finding(view: &View<'_>, maps: &[Map<'_, '_>]) -> String {
    let sentences = maps.iter().filter_map(|map| {
        let p99s = map.run.figures.seconds.iter().filter_map(|second| second.p99_ns.map(float));
        let p99s: Vec<f64> = p99s.collect();
        let usual = super::median(p99s.clone())?;
        let seconds = map.run.figures.seconds.iter().zip(map.run.seconds);
        let worst = seconds.max_by_key(|(second, _)| second.p99_ns)?;
        let (of, worst_ns) = (named(view, map.arm, ""), float(worst.0.p99_ns?));
        let of = if of.is_empty() { String::new() } else { format!("{of}: ") };
        Some(format!(
            "{of}the p99 of a second is usually {}, and {} in second {}, the worst.",
            number::time(usual),
            number::time(worst_ns),
            worst.1.second.number
        ))
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn table(view: &View<'_>, maps: &[Map<'_, '_>]) -> Table {
    let mut head: Vec<String> = ["second", "responses", "mean", "p99"].map(str::to_owned).to_vec();
    let names: Vec<&String> =
        maps.first().iter().flat_map(|map| &map.counters).map(|(name, _)| name).collect();
    head.extend(names.iter().map(|name| called(name)));
    let mut table = Table::new(head);
    for map in maps {
        let seconds = map.run.seconds.iter().zip(&map.run.figures.seconds);
        for (saved, of) in seconds.take(ROWS_MAX / maps.len()) {
            let p99_ns = of.p99_ns.filter(|_| is_resolved(float(of.count), 0.99)).map(float);
            let mut row = vec![
                named(view, map.arm, &saved.second.number.to_string()),
                number::count(of.count),
                of.mean_ns.map_or("–".to_owned(), number::time),
                number::time_or_not(p99_ns),
            ];
            let counter = |name: &&String| saved.counters.get(*name).copied();
            row.extend(names.iter().map(|name| counter(name).map_or("–".to_owned(), number::plain)));
            table.rows.push(row);
        }
    }
    table
}
