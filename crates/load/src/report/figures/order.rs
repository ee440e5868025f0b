//! Every run in the order in which it ran: what drifts over the experiment is seen here.

use super::{Figure, ROWS_MAX, Table, extent, named};
use crate::analysis::Metric;
use crate::number;
use crate::report::label::{label, shown, shown_or_not};
use crate::report::svg::{Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit};
use crate::report::view::{Arm, Placed, View};

const TOP: f64 = 34.0;
const HEIGHT: f64 = 260.0;

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    if view.levels().len() > 1 {
        return None;
    }
    let metric = view.declared.metric;
    let runs: Vec<(&Placed<'_>, f64)> =
        view.runs.iter().filter_map(|run| Some((run, run.value(metric)?))).collect();
    let (low, high) = extent(runs.iter().map(|run| run.1)).filter(|_| runs.len() > 2)?;
    let first = runs.iter().map(|(run, _)| run.run.head.began_unix_ms).min()?;
    let minutes =
        |run: &Placed<'_>| crate::float::float(run.run.head.began_unix_ms.saturating_sub(first)) / 60_000.0;
    let (_, last) = extent(runs.iter().map(|(run, _)| minutes(run)))?;
    let unit = match metric {
        Metric::Throughput => Unit::Plain,
        Metric::Wobble => Unit::Percent,
        _ => Unit::Time,
    };
    let bottom = HEIGHT - FOOT;
    let room = last.max(0.1) * 0.02;
    let level = Axis::new(Scale::Linear, Unit::Plain, (-room, last + room), (LEFT, RIGHT));
    let upright = Axis::new(Scale::Linear, unit, (0.0_f64.min(low), high * 1.1), (bottom, TOP));
    let mut drawing = Drawing::new(HEIGHT);
    drawing.rows(&upright, label(metric));
    drawing.columns(&level, TOP, bottom, "minutes since the first run");
    for (run, value) in &runs {
        let class = match (run.is_excluded, run.arm) {
            (true, arm) => format!("hollow {}", arm.class()),
            (false, Arm::Floor) => "faint a".to_owned(),
            (false, arm) => arm.class().to_owned(),
        };
        let told = format!("run {}: {}", run.run.head.run, shown(metric, *value));
        drawing.mark(&class, run.arm == Arm::B, (level.at(minutes(run)), upright.at(*value)), &told);
    }
    let title = format!(
        "{} of every run, in the order in which they ran",
        crate::report::answer::capital(label(metric))
    );
    let excluded = runs.iter().filter(|(run, _)| run.is_excluded).count();
    let finding = format!(
        "{} runs between {} and {}, {excluded} of them left out.",
        runs.len(),
        shown(metric, low),
        shown(metric, high)
    );
    let svg = drawing.finish("order", &title, &finding);
    let reading = "Hollow: left out, see the table of all runs. Pale: A against itself, for the noise of the machine. What climbs or \
                   falls here over the whole touches both halves of a pair and drops out of the change.".into();
    let mut table = Table::new(["run", "set-up", "minutes", label(metric)]);
    table.rows.extend(runs.iter().take(ROWS_MAX).map(|(run, value)| {
        vec![
            run.run.head.run.to_string(),
            named(view, run.arm, ""),
            number::plain(minutes(run)),
            shown_or_not(metric, Some(*value)),
        ]
    }));
    Some(Figure { id: "order", title, finding, reading, svg, table, has_arms: true, more: None })
}
