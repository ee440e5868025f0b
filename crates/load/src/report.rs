//! A saved result as people read it: one HTML file, a text for the terminal, tables for other programs.
//!
//! ```text
//! Saved ──▶ view (arms, levels, pairs, doubts) ──▶ figures ──▶ page      one file, no network, no script needed
//!                     │                       ├──▶ picture               each figure as a file of its own
//!                     │                       └──▶ summary               80 columns
//!                     └──▶ export                                        JSON, CSV, .hgrm
//! ```
//!
//! A plan may hold, besides what [`analysis`](crate::analysis) reads from it: `bound`, the response time that is still good,
//! as in `p99<500us`; `is_quick`, true for a shortened experiment, which is marked on every figure.
//!
//! Nothing here measures, reads a clock or draws chance: the same result gives the same bytes, at any later time. The
//! numbers are those of [`analysis`](crate::analysis) and [`statistics`](crate::statistics). What a result has no data for is left out, and what too few
//! requests tell is "not resolved".

mod agents;
mod answer;
mod date;
mod doubts;
mod experiments;
pub mod export;
mod figures;
mod label;
mod page;
mod picture;
mod summary;
mod svg;
mod unbroken;
mod view;

pub use experiments::{files as experiments_files, page as experiments_page};
pub use label::shown;
pub use page::{PAGE_SIZE_MAX, page};
pub use picture::files;
pub use summary::summary;
