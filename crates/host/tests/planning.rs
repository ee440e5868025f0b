//! Plans against machines and wishes that are kept in `tests/machines`, against what another tool does, and against made-up ones
//! by the hundred.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::PathBuf;

use host::{Facts, Spec};

#[path = "planning/adqsetup.rs"]
mod adqsetup;
#[path = "planning/after.rs"]
mod after;
#[path = "planning/applied.rs"]
mod applied;
#[path = "planning/cpuset.rs"]
mod cpuset;
#[path = "planning/idle.rs"]
mod idle;
#[path = "planning/kept.rs"]
mod kept;
#[path = "planning/polling.rs"]
mod polling;
#[path = "planning/properties.rs"]
mod properties;
#[path = "planning/recipes.rs"]
mod recipes;
#[path = "planning/refusals.rs"]
mod refusals;
#[path = "planning/seats.rs"]
mod seats;
#[path = "planning/sends.rs"]
mod sends;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/machines")
}

fn facts(machine: &str) -> Facts {
    let path = folder().join(format!("{machine}.json"));
    let text = std::fs::read_to_string(&path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn wish(name: &str) -> Spec {
    let path = folder().join(format!("wishes/{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap();
    Spec::parse(&text).unwrap_or_else(|problems| panic!("{}: {problems:#?}", path.display()))
}
