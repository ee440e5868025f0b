//! What changed from A to B: a dot for each pair, the estimate and its interval for each metric. Noise and answer at once.

use super::{Figure, ROWS_MAX, Table, extent};
use crate::number;
use crate::report::answer::quoted;
use crate::report::svg::{Anchor, Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit};
use crate::report::view::{Compared, View};
use crate::statistics::verdict::Direction;

const TOP: f64 = 20.0;
const ROW: f64 = 58.0;
/// Changes beyond so much are never in the frame.
const CHANGE_MAX: f64 = 9.0;
/// Lines that dots of one row are spread over, so that equal ones are seen apart.
const LANES: usize = 3;

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let shown: Vec<&Compared> = view.compared.iter().filter(|compared| !compared.values.is_empty()).collect();
    let primary = shown.first()?;
    let margin = view.declared.margin.share();
    // One wild pair may not squeeze all others: the frame holds the intervals, and dots beyond it lie hollow at its edge.
    let held = shown.iter().flat_map(|compared| match compared.judged {
        Some((change, _)) => {
            let interval = change.share_interval();
            vec![interval.low, change.share(), interval.high]
        }
        None => compared.values.iter().map(share).collect(),
    });
    let around = [-1.5 * margin, 1.5 * margin];
    let (low, high) = extent(held.chain(around).map(|share| share.min(CHANGE_MAX)))?;
    let room = (high - low) * 0.12;
    let level = Axis::new(Scale::Linear, Unit::Change, (low - room, high + room), (LEFT, RIGHT));
    let bottom = TOP + shown.len() as f64 * ROW;
    let mut drawing = Drawing::new(bottom + FOOT);
    let (from, to) = (level.at(-margin), level.at(margin));
    drawing.rect("area", (from, TOP), (to - from, bottom - TOP));
    drawing.columns(&level, TOP, bottom, "change from A to B");
    drawing.line("rule", (level.at(0.0), TOP), (level.at(0.0), bottom));
    for (index, compared) in shown.iter().enumerate() {
        row(&mut drawing, compared, &level, TOP + index as f64 * ROW);
    }
    let [a, b] = [&view.declared.name_a, &view.declared.name_b].map(|name| quoted(name));
    let title = format!("What changed, pair by pair, from {a} to {b}");
    let finding = finding(primary);
    let svg = drawing.finish("paired", &title, &finding);
    let reading = "A dot is one pair of runs. The thick mark is the estimate, the bar its 95 % interval; no change is the dashed \
                   line, and the grey band what was said beforehand to be too small to speak of. Hollow dots lie further out than the frame.".into();
    Some(Figure {
        id: "paired",
        title,
        finding,
        reading,
        svg,
        table: table(&shown),
        has_arms: false,
        more: None,
    })
}

fn share(&(a, b): &(f64, f64)) -> f64 {
    b / a - 1.0
}

fn row(drawing: &mut Drawing, compared: &Compared, level: &Axis, top: f64) {
    let arrow = match compared.direction {
        Direction::LowerIsBetter => "← better",
        Direction::HigherIsBetter => "better →",
    };
    drawing.text("axis", (0.0, top + 16.0), Anchor::Start, compared.label);
    drawing.text("tick minor", (RIGHT, top + 16.0), Anchor::End, arrow);
    let middle = top + 38.0;
    for (index, pair) in compared.values.iter().enumerate() {
        let y = middle + ((index % LANES) as f64 - 1.0) * 5.0;
        let told = format!("pair {}: {}", index + 1, number::change(share(pair)));
        let class = if level.holds(share(pair)) { "faint a" } else { "hollow a" };
        drawing.mark(class, false, (level.at(share(pair)), y), &told);
    }
    if let Some((change, _)) = &compared.judged {
        let interval = change.share_interval();
        drawing.line("whisker", (level.at(interval.low), middle), (level.at(interval.high), middle));
        let x = level.at(change.share());
        drawing.line("estimate", (x, middle - 11.0), (x, middle + 11.0));
    }
}

fn finding(primary: &Compared) -> String {
    let (metric, count) = (primary.label, primary.values.len());
    let lower = primary.values.iter().filter(|(a, b)| b < a).count();
    let estimate = match &primary.judged {
        Some((change, verdict)) => format!(
            "{} ({}): {}",
            number::change(change.share()),
            number::change_interval(change.share_interval()),
            verdict.word
        ),
        None => "too few pairs for an interval".to_owned(),
    };
    let pairs = if count == 1 { "pair" } else { "pairs" };
    format!("In {lower} of {count} {pairs} B's {metric} is the lower one. Over all: {estimate}.")
}

fn table(shown: &[&Compared]) -> Table {
    let head = std::iter::once("pair").chain(shown.iter().map(|compared| compared.label));
    let mut table = Table::new(head);
    let count = shown.iter().map(|compared| compared.values.len()).max().unwrap_or(0);
    for index in 0..count.min(ROWS_MAX) {
        let mut row = vec![(index + 1).to_string()];
        row.extend(shown.iter().map(|compared| {
            compared.values.get(index).map_or_else(|| "–".to_owned(), |pair| number::change(share(pair)))
        }));
        table.rows.push(row);
    }
    table
}
