//! A saved result as people read it: one HTML file, a text for the terminal, tables for other programs.
//!
//! ```text
//! Saved ──▶ view (arms, levels, pairs, doubts) ──▶ figures ──▶ page      one file, no network, no script needed
//!                     │                       └──▶ summary               80 columns
//!                     └──▶ export                                        JSON, CSV, .hgrm
//! ```
//!
//! Nothing here measures, reads a clock or draws chance: the same result gives the same bytes, at any later time. The
//! numbers are those of [`analysis`](crate::analysis) and [`statistics`](crate::statistics). What a result has no data for is left out, and what too few
//! requests tell is "not resolved".

mod answer;
mod date;
mod doubts;
mod figures;
mod label;
mod number;
mod page;
mod svg;
mod view;

pub use page::{PAGE_SIZE_MAX, page};
pub use view::{Bound, Drawn};
