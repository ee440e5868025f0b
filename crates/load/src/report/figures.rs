//! One figure a file: a pure function from the view to a picture, its numbers and what they say. A figure for which the
//! result has no data is none.

mod connections;
mod fanout;
mod heat;
mod load_curve;
mod order;
mod paired;
mod percentiles;
mod sizes;
mod split;
mod strips;
mod sweep;

use std::borrow::Cow;

use super::answer::quoted;
use super::svg::Picture;
use super::view::{Arm, View};
use crate::number;

/// Rows of a table behind a figure.
pub(crate) const ROWS_MAX: usize = 200;
/// Single runs that are drawn as lines of their own, of each arm.
pub(crate) const LINES_MAX: usize = 20;

/// A picture with its words and numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Its own on the page.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// What it shows, in one or two sentences.
    pub(crate) finding: String,
    /// How to read it.
    pub(crate) reading: Cow<'static, str>,
    pub(crate) svg: Picture,
    pub(crate) table: Table,
    /// Whether lines have the arms' colours, so that a legend is needed.
    pub(crate) has_arms: bool,
    /// What else there is to it.
    pub(crate) more: Option<More>,
}

/// A second table of a figure, and the numbers with which the page's script draws the figure for another choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct More {
    pub(crate) title: &'static str,
    pub(crate) table: Table,
    /// JSON of numbers alone.
    pub(crate) data: String,
}

/// What a line of a figure is drawn as, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Classes of the line: its weight and its arm.
    pub(crate) line: String,
    /// Triangles, not circles.
    pub(crate) is_b: bool,
    pub(crate) name: String,
}

/// The legend of a figure; empty: it needs none.
pub(crate) fn keys(view: &View<'_>, figure: &Figure) -> Vec<Key> {
    let arms = if figure.has_arms && view.is_comparison() { view.arms() } else { Vec::new() };
    let key = |arm: Arm| Key {
        line: format!("line {}", arm.class()),
        is_b: arm == Arm::B,
        name: format!("{}: {}", arm.letter(), view.name(arm)),
    };
    arms.into_iter().map(key).collect()
}

/// Numbers in rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: impl IntoIterator<Item = impl Into<String>>) -> Table {
        Table { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }
}

/// All figures that this result has data for, in their order on the page.
pub(crate) fn all(view: &View<'_>) -> Vec<Figure> {
    let makers: [fn(&View<'_>) -> Option<Figure>; 10] = [
        paired::figure,
        connections::figure,
        load_curve::figure,
        sizes::figure,
        percentiles::figure,
        strips::figure,
        fanout::figure,
        heat::figure,
        split::figure,
        order::figure,
    ];
    makers.iter().filter_map(|make| make(view)).collect()
}

/// A name for a column or a line: with its arm where there are two.
pub(crate) fn named(view: &View<'_>, arm: Arm, what: &str) -> String {
    match (view.name(arm), what) {
        ("", what) => what.to_owned(),
        (name, "") => quoted(name),
        (name, what) => format!("{name}, {what}"),
    }
}

/// Where on a sweep single distributions are taken from: ` at 100 connections`, or nothing.
pub(crate) fn at_level(view: &View<'_>) -> String {
    match (view.swept(), view.level_shown()) {
        (Some(name), Some(level)) => format!(" at {}", level_text(name, level)),
        _ => String::new(),
    }
}

/// A place on a sweep: `100 connections`, `85,000 requests/s`.
pub(crate) fn level_text(name: &str, level: f64) -> String {
    let level = number::short(level);
    match name {
        "rate" => format!("{level} requests/s"),
        name => format!("{level} {}", super::doubts::clipped(name)),
    }
}

/// The least and the greatest. None: no number at all.
pub(crate) fn extent(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let numbers = values.into_iter().filter(|value| value.is_finite());
    numbers.fold(None, |ends, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// The middle of some values. None: there are none.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// The whole number at or below; 0 for what is negative or no number.
fn whole(value: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, which is the rule here"
    )]
    let whole = value as usize;
    whole
}
