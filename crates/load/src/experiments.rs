//! The five published experiments as data, and what a saved repetition of one says beside them.
//!
//! ```text
//! presets   what was published: mix, keys, sizes, levels, protocol, figures          never changes
//! scale     how much of it this machine and this hour hold: "published → here"       instances, clients, time alone shrink
//! measured  a run in the numbers that the experiments are about                      one a set-up, pair and level
//! evaluate  measured runs ──▶ rows beside the published ones, changes, one finding
//! ```
//!
//! "Reproduced" is a word for repetitions over the same protocol and topology. Everything else stands in: it says how two
//! set-ups of this machine differ under the published load, and nothing about the published difference.

mod evaluate;
mod measured;
mod presets;
mod recipe;
mod scale;

pub use evaluate::{Evaluation, Finding, Row, Unit};
pub use measured::Measured;
pub use presets::{Figure, Id, Measure, Preset, Sweep};
pub use recipe::{Ingredient, Recipe, State, Step, ingredients, recipes, steps};
pub use scale::{Arm, Missing, Planned, Scale, Shrunk};
