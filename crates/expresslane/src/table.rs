//! The table that start-up prints: what is served where, with which limits, and what could not be had.

use std::fmt::Write as _;

use crate::machine::{Facts, node_of};
use crate::plan::Plan;
use crate::settings::{ServeSettings, Size};

/// What came of the plan.
#[derive(Debug)]
pub(crate) struct Started {
    /// Addresses of the shared port, and the Unix socket's path.
    pub(crate) shared: Vec<String>,
    /// Bytes of addresses reserved for each lane.
    pub(crate) region_size: usize,
    /// What turned out not to be had, each with what to do.
    pub(crate) notes: Vec<String>,
}

/// The table, one line a row, without a trailing line end.
pub(crate) fn table(settings: &ServeSettings, facts: &Facts, plan: &Plan, started: &Started) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    let version = env!("CARGO_PKG_VERSION");
    let shared = if started.shared.is_empty() { "none".to_owned() } else { started.shared.join("  ") };
    rows.push(("shared", format!("{shared}   any Redis client, all lanes")));
    for (number, lane) in plan.lanes.iter().enumerate() {
        let mut text = match lane.cpu {
            Some(cpu) => format!("cpu {cpu}"),
            None => "not pinned".to_owned(),
        };
        if let Some(node) = lane.cpu.and_then(node_of) {
            let _ = write!(text, ", node {node}");
        }
        if let Some(place) = lane.own.first() {
            let _ = write!(text, ", port {}", place.address.port());
        }
        rows.push((if number == 0 { "lanes" } else { "" }, format!("{number}: {text}")));
    }
    rows.push(("backend", plan.io_reason.to_owned()));
    let maxmemory = match settings.maxmemory {
        Size(0) => format!("none (the machine has {})", Size(facts.memory_size)),
        size => format!("{size}, then writes are refused"),
    };
    rows.push(("memory", format!("limit {maxmemory}; {} reserved a lane", size_of(started.region_size))));
    rows.push((
        "clients",
        format!(
            "at most {}, commands up to {}, unread replies up to {}",
            settings.maxclients,
            settings.client_query_buffer_limit,
            settings
                .client_output_buffer_limit
                .normal
                .hard_size
                .map_or_else(|| "any size".to_owned(), |size| Size(size).to_string())
        ),
    ));
    rows.push(("durability", "memory only: the data ends with this process".to_owned()));
    for note in plan.notes.iter().chain(&started.notes) {
        rows.push(("note", note.clone()));
    }
    let mut text = format!("expresslane {version}, process {}", std::process::id());
    for (name, value) in rows {
        let _ = write!(text, "\n  {name:<11} {value}");
    }
    text
}

fn size_of(bytes: usize) -> Size {
    Size(u64::try_from(bytes).unwrap_or(u64::MAX))
}
