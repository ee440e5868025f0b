//! Response time over the size of values, each operation by itself.

use super::sweep::{At, levels};
use super::{Figure, ROWS_MAX, Table, extent, named};
use crate::number;
use crate::report::svg::{Anchor, Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit};
use crate::report::view::{Arm, Placed, View};
use crate::workload::{Operation, Sizes};

const TOP: f64 = 34.0;
const HEIGHT: f64 = 340.0;
/// Room at the right for the names of the lines.
const MARGIN: f64 = 64.0;
/// Height of a line's name on a telephone.
const LETTERS: f64 = 22.0;
/// The weights that lines of a set-up have, in the order of the mix.
const WEIGHTS: [&str; 3] = ["line", "slim", "thin"];

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let size = |run: &Placed<'_>| match run.run.head.workload.value_size {
        Sizes::Fixed(size) if size > 0 && !run.is_excluded => Some(size as f64),
        _ => None,
    };
    let lines = view.arms().into_iter().map(|arm| (arm, levels(view, arm, size)));
    let lines: Vec<(Arm, Vec<At<'_, '_>>)> = lines.filter(|(_, levels)| levels.len() > 1).collect();
    let points = || lines.iter().flat_map(|(_, levels)| levels);
    let (first, last) = extent(points().map(|at| at.level))?;
    let operations: Vec<Operation> = points()
        .find_map(|at| at.runs.first())?
        .figures
        .operations
        .iter()
        .map(|(operation, _)| *operation)
        .take(WEIGHTS.len())
        .collect();
    let values = points().flat_map(|at| operations.iter().filter_map(|operation| at.of(mean_of(*operation))));
    let (_, high) = extent(values.map(|spread| spread.high))?;
    let bottom = HEIGHT - FOOT;
    let level = Axis::new(Scale::Log, Unit::Size, (first, last), (LEFT, RIGHT - MARGIN));
    let upright = Axis::new(Scale::Linear, Unit::Time, (0.0, high * 1.1), (bottom, TOP));
    let mut drawing = Drawing::new(HEIGHT);
    drawing.rows(&upright, "mean response time");
    drawing.columns(&level, TOP, bottom, "size of a value");
    let mut ends: Vec<(f64, f64, Arm, String)> = Vec::new();
    for (arm, levels) in &lines {
        for (operation, weight) in operations.iter().zip(WEIGHTS) {
            let places = levels.iter().filter_map(|at| Some((at.level, at.of(mean_of(*operation))?.mean)));
            let points: Vec<(f64, f64)> =
                places.clone().map(|(size, ns)| (level.at(size), upright.at(ns))).collect();
            let name = named(view, *arm, &operation.to_string());
            drawing.named_curve(&format!("{weight} {}", arm.class()), &name, &points);
            for (size, ns) in places {
                let told = format!("{operation}, {} bytes: {}", number::plain(size), number::time(ns));
                drawing.mark(arm.class(), *arm == Arm::B, (level.at(size), upright.at(ns)), &told);
            }
            ends.extend(points.last().map(|(x, y)| (*y, *x, *arm, operation.to_string())));
        }
    }
    // Names of lines that end side by side stand below one another.
    ends.sort_by(|left, right| left.0.total_cmp(&right.0));
    let mut free = TOP;
    for (y, x, arm, name) in ends {
        let y = (y + 4.0).max(free);
        drawing.text(&format!("tag {}", arm.class()), (x + 8.0, y), Anchor::Start, &name);
        free = y + LETTERS;
    }
    let title = "Response time over the size of values".to_owned();
    let finding = finding(view, &lines, &operations);
    let svg = drawing.finish("sizes", &title, &finding);
    let reading = "Means of each operation. What rises with the size is copying and the link; what is there at the smallest size is \
                   the price of a request.".into();
    let table = table(view, &lines, &operations);
    Some(Figure { id: "sizes", title, finding, reading, svg, table, has_arms: true, more: None })
}

fn mean_of(operation: Operation) -> impl Fn(&Placed<'_>) -> Option<f64> {
    move |run| {
        let share = run.figures.operations.iter().find(|(other, _)| *other == operation)?;
        (share.1.count > 0).then(|| share.1.response.mean())
    }
}

fn finding(view: &View<'_>, lines: &[(Arm, Vec<At<'_, '_>>)], operations: &[Operation]) -> String {
    let mut sentences = Vec::new();
    for (arm, levels) in lines {
        for operation in operations {
            let of = |at: Option<&At<'_, '_>>| Some(at?.of(mean_of(*operation))?.mean);
            let (Some(first), Some(last)) = (levels.first(), levels.last()) else { continue };
            let (Some(from), Some(to)) = (of(Some(first)), of(Some(last))) else { continue };
            sentences.push(format!(
                "{}: {} at {} bytes, {} at {}.",
                named(view, *arm, &operation.to_string()),
                number::time(from),
                number::plain(first.level),
                number::time(to),
                number::plain(last.level)
            ));
        }
    }
    sentences.join(" ")
}

fn table(view: &View<'_>, lines: &[(Arm, Vec<At<'_, '_>>)], operations: &[Operation]) -> Table {
    let head = std::iter::once("bytes".to_owned())
        .chain(operations.iter().map(|operation| format!("{operation}, mean response")))
        .chain(["requests/s".to_owned()]);
    let mut table = Table::new(head);
    for (arm, levels) in lines {
        for at in levels.iter().take(ROWS_MAX) {
            let mut row = vec![named(view, *arm, &number::plain(at.level))];
            for operation in operations {
                row.push(number::time_or_not(at.of(mean_of(*operation)).map(|spread| spread.mean)));
            }
            row.push(at.of(|run| Some(run.rate())).map_or("–".to_owned(), |rate| number::plain(rate.mean)));
            table.rows.push(row);
        }
    }
    table
}
