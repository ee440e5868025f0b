//! The five published experiments as data, and what a saved repetition of one says beside them.
//!
//! ```text
//! presets   what was published: mix, keys, sizes, levels, protocol, figures          never changes
//! scale     how much of it this machine and this hour hold: "published → here"       instances, clients, time alone shrink
//! setups    the servers, links and backends that are compared here, step by step     more than two where there are axes
//! measured  a run in the numbers that the experiments are about                      one a set-up, pair and level
//! evaluate  measured runs ──▶ rows beside the published ones, changes, one finding
//! ```
//!
//! "Reproduced" is a word for repetitions over the same protocol and topology. Everything else stands in: it says how two
//! set-ups of this machine differ under the published load, and nothing about the published difference.

mod evaluate;
mod finding;
mod measure;
mod measured;
mod presets;
mod recipe;
mod repetition;
mod scale;
mod setups;

pub use evaluate::{Evaluation, Limited, Point, Row};
pub use finding::Finding;
pub use measure::{Figure, Measure, Unit};
pub use measured::Measured;
pub use presets::{Id, Preset, Sweep};
pub use recipe::{Ingredient, Recipe, State, ingredients, recipes, steps};
pub use repetition::{KIND, Repetition};
pub use scale::{Missing, Planned, Scale, Shrunk, Tuned};
pub use setups::{Arm, LINKS_GIGABITS, Link, Offer, Server, Step};
