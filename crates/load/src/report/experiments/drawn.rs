//! The picture of an experiment: its first number over what is swept, or set-up by set-up.

use super::{is_quick, text};
use crate::experiments::{Arm, Evaluation, Id, Link, Point, Preset, Server, Unit};
use crate::number;
use crate::report::doubts::clipped;
use crate::report::figures::{Key, ROWS_MAX, Table, extent, median};
use crate::report::svg::{self, Anchor, Axis, Drawing, FOOT, LEFT, Picture, RIGHT, Scale};

const TOP: f64 = 34.0;
const HEIGHT: f64 = 340.0;
/// Height of a set-up's part where nothing is swept: its name, and its runs below it.
const STRIP: f64 = 58.0;

/// With its words and numbers.
pub(super) struct Drawn {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) finding: String,
    pub(super) keys: Vec<Key>,
    pub(super) svg: Picture,
    pub(super) table: Table,
}

/// None: not one run is whole.
pub(super) fn figure(evaluation: &Evaluation) -> Option<Drawn> {
    let preset = Preset::of(evaluation.planned.id);
    if evaluation.points.is_empty() {
        return None;
    }
    Some(if preset.sweep.levels().is_empty() { strips(evaluation)? } else { lines(evaluation)? })
}

/// The peer is A everywhere, this server B: circles and triangles.
fn class(arm: &Arm) -> &'static str {
    match arm.server {
        Server::Peer | Server::PeerAsInstalled => "a",
        Server::Lanes | Server::LanesOverUring | Server::AllLanes => "b",
    }
}

/// The faster the link, the fuller the line.
fn weight(arm: &Arm) -> &'static str {
    match (arm.server, arm.link) {
        (Server::LanesOverUring, _) => "thin",
        (_, Link::Gigabits(1)) => "dots",
        (_, Link::Gigabits(_)) => "slim",
        (_, Link::Loopback | Link::Unshaped) => "line",
    }
}

/// Runs of a set-up that count; where not one does, those that are doubtful.
fn shown<'a>(evaluation: &'a Evaluation, arm: &Arm) -> Vec<&'a Point> {
    let own: Vec<&Point> = evaluation.points.iter().filter(|point| point.arm == arm.arm).collect();
    let good: Vec<&Point> = own.iter().copied().filter(|point| !point.is_doubtful).collect();
    if good.is_empty() { own } else { good }
}

/// The middle of each level.
fn middles(points: &[&Point]) -> Vec<(f64, f64)> {
    let mut levels: Vec<f64> = points.iter().filter_map(|point| point.level).collect();
    levels.sort_unstable_by(f64::total_cmp);
    levels.dedup();
    let at = |level: f64| points.iter().filter(move |point| point.level == Some(level));
    levels
        .into_iter()
        .filter_map(|level| Some((level, median(at(level).map(|point| point.value).collect())?)))
        .collect()
}

fn lines(evaluation: &Evaluation) -> Option<Drawn> {
    let planned = &evaluation.planned;
    let sets: Vec<(&Arm, Vec<(f64, f64)>)> = planned
        .arms
        .iter()
        .map(|arm| (arm, middles(&shown(evaluation, arm))))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let points = || sets.iter().flat_map(|(_, points)| points);
    let ends = extent(points().map(|point| point.0))?;
    let (_, high) = extent(points().map(|point| point.1))?;
    let is_size = planned.id == Id::E3;
    let (scale, unit) =
        if is_size { (Scale::Log, svg::Unit::Size) } else { (Scale::Linear, svg::Unit::Plain) };
    let from = if is_size { ends.0 } else { 0.0 };
    let bottom = HEIGHT - FOOT;
    let level = Axis::new(scale, unit, (from, ends.1), (LEFT, RIGHT));
    let upright = Axis::new(Scale::Linear, svg::Unit::Time, (0.0, high * 1.1), (bottom, TOP));
    let mut drawing = Drawing::new(HEIGHT);
    drawing.rows(&upright, evaluation.point_name);
    let what = if is_size { "size of a value" } else { "connections of an instance" };
    drawing.columns(&level, TOP, bottom, what);
    let mut numbers = Table::new(["set-up", what, evaluation.point_name]);
    for (arm, points) in &sets {
        let places: Vec<(f64, f64)> = points.iter().map(|(x, y)| (level.at(*x), upright.at(*y))).collect();
        drawing.curve(&format!("{} {}", weight(arm), class(arm)), &places);
        for ((x, y), place) in points.iter().zip(&places) {
            let told = format!("{}, {}: {}", clipped(&arm.name), number::short(*x), number::time(*y));
            drawing.mark(class(arm), class(arm) == "b", *place, &told);
            numbers.rows.push(vec![clipped(&arm.name), number::short(*x), number::time(*y)]);
        }
    }
    numbers.rows.truncate(ROWS_MAX);
    let title = if is_size { "Latency over the size of values" } else { "Mean round trip over connections" };
    let keys = sets.iter().map(|(arm, _)| key(arm)).collect();
    Some(drawn(evaluation, title.to_owned(), keys, drawing, numbers))
}

fn key(arm: &Arm) -> Key {
    Key { line: format!("{} {}", weight(arm), class(arm)), is_b: class(arm) == "b", name: clipped(&arm.name) }
}

/// A strip a set-up, a mark a run, and a stroke at their middle.
fn strips(evaluation: &Evaluation) -> Option<Drawn> {
    let planned = &evaluation.planned;
    let sets: Vec<(&Arm, Vec<&Point>)> = planned
        .arms
        .iter()
        .map(|arm| (arm, shown(evaluation, arm)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let (_, high) = extent(sets.iter().flat_map(|(_, points)| points).map(|point| point.value))?;
    let unit = if evaluation.point_unit == Unit::Time { svg::Unit::Time } else { svg::Unit::Plain };
    let level = Axis::new(Scale::Linear, unit, (0.0, high * 1.05), (LEFT, RIGHT));
    #[expect(clippy::cast_precision_loss, reason = "set-ups are few")]
    let bottom = sets.len() as f64 * STRIP + 8.0;
    let mut drawing = Drawing::new(bottom + FOOT);
    drawing.columns(&level, 0.0, bottom, evaluation.point_name);
    let mut numbers = Table::new(["set-up", "pair", evaluation.point_name]);
    let mut y = 0.0;
    for (arm, points) in &sets {
        let name = clipped(&arm.name);
        drawing.line("grid", (0.0, y), (RIGHT, y));
        drawing.text("note", (LEFT + 6.0, y + 22.0), Anchor::Start, &name);
        y += STRIP;
        let middle = median(points.iter().map(|point| point.value).collect())?;
        drawing.line(
            &format!("median {}", class(arm)),
            (level.at(middle), y - 26.0),
            (level.at(middle), y - 2.0),
        );
        for point in points {
            let shown = text(evaluation.point_unit, point.value);
            let hollow = if point.is_doubtful { " hollow" } else { "" };
            let told = format!("{name}, pair {}: {shown}", point.pair + 1);
            let at = (level.at(point.value), y - 14.0);
            drawing.mark(&format!("{}{hollow}", class(arm)), class(arm) == "b", at, &told);
            numbers.rows.push(vec![name.clone(), (point.pair + 1).to_string(), shown]);
        }
    }
    numbers.rows.truncate(ROWS_MAX);
    let title = format!("Set-up by set-up: {}", evaluation.point_name);
    Some(drawn(evaluation, title, Vec::new(), drawing, numbers))
}

fn drawn(evaluation: &Evaluation, title: String, keys: Vec<Key>, drawing: Drawing, table: Table) -> Drawn {
    let planned = &evaluation.planned;
    let id = format!("figure-{}", planned.id);
    let pairs = match (evaluation.pairs_count, is_quick(evaluation)) {
        (1, true) => "One run of each, of the quick form".to_owned(),
        (count, true) => format!("Middles of {count} runs of each, of the quick form"),
        (1, false) => "One run of each".to_owned(),
        (count, false) => format!("Middles of {count} runs of each"),
    };
    let is_doubtful = planned.arms.iter().any(|arm| shown(evaluation, arm).iter().any(|it| it.is_doubtful));
    let doubt = if is_doubtful { "; of a set-up without a single good run its doubtful ones" } else { "" };
    let finding = format!("{pairs}{doubt}. {}", clipped(&evaluation.sentence()));
    let svg = drawing.finish(&id, &title, &finding);
    Drawn { id, title, finding: format!("{pairs}{doubt}."), keys, svg, table }
}
