//! How much of an experiment runs here, and in which ways that is less than what was published.

use serde::{Deserialize, Serialize};

use super::presets::{Id, Preset, Sweep};
use super::recipe::{self, Recipe, Step};

/// Pairs of the quick form: too few for an interval, so it never calls a difference.
const PAIRS_QUICK: u32 = 3;
/// Pairs of the full form.
const PAIRS_FULL: u32 = 10;
/// Seconds of a level in the quick form, in a sweep and alone.
const LEVEL_QUICK_S: (f64, f64) = (3.0, 5.0);
/// Seconds of a level in the full form, with [`WARM_UP_FULL_S`]: ten and more count; of the sweep of connections thirty, as published.
const LEVEL_FULL_S: (f64, f64) = (32.0, 12.0);
/// Seconds at the front of a level that don't count, in the quick and in the full form.
const WARM_UP_QUICK_S: u32 = 1;
const WARM_UP_FULL_S: u32 = 2;
/// Bytes that a server may need for a byte of values, keys and tables included, with what the load holds beside it.
const MEMORY_PER_BYTE: u64 = 2;

/// What shrinks. Mix, keys, sizes and protocol don't.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// The short form, marked on every line.
    pub is_quick: bool,
    /// Pairs that are to count.
    pub pairs: u32,
    /// Seconds of a level, the warm-up included.
    pub level_s: f64,
    /// Seconds at its front that don't count.
    pub warm_up_s: u32,
    /// Instances of the server: processes, or lanes.
    pub instances: u32,
    /// Threads of the load, each with a cpu.
    pub load_threads: u32,
    /// The levels that run; empty where nothing is swept.
    pub levels: Vec<u32>,
}

/// A thing that is smaller here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shrunk {
    /// What.
    pub what: String,
    /// As it was published.
    pub published: String,
    /// As it is here.
    pub here: String,
}

/// A thing that can't be had here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// A set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// As the runs name it.
    pub arm: String,
    /// As people do.
    pub name: String,
    /// Cores that its server has.
    pub cores: u32,
}

/// An experiment as it is going to run here. The plan of the result's head holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Which.
    pub id: Id,
    /// How much of it.
    pub scale: Scale,
    /// Its set-ups.
    pub arms: Vec<Arm>,
    /// What is compared with what, the most important first.
    pub steps: Vec<Step>,
    /// E5: what is switched on in which arm.
    #[serde(default)]
    pub recipes: Vec<(String, Recipe)>,
    /// Why protocol or topology are not the published ones. Empty: they are.
    pub mismatches: Vec<String>,
    /// What is smaller.
    pub shrunk: Vec<Shrunk>,
    /// What can't be had.
    pub missing: Vec<Missing>,
    /// What the machine costs, in dollars.
    #[serde(default)]
    pub price: Option<f64>,
}

impl Scale {
    /// Of an experiment, on a machine with room for so many instances, threads and bytes. Levels whose values don't fit into
    /// `memory_size` are left out.
    pub fn new(
        preset: &Preset,
        is_quick: bool,
        instances: u32,
        load_threads: u32,
        memory_size: u64,
    ) -> Scale {
        let is_sweep = !preset.sweep.levels().is_empty();
        let is_long = matches!(preset.sweep, Sweep::Connections(_));
        let level_s = match (is_quick, is_sweep, is_long) {
            (true, true, _) => LEVEL_QUICK_S.0,
            (true, false, _) => LEVEL_QUICK_S.1,
            (false, _, true) => LEVEL_FULL_S.0,
            (false, _, false) => LEVEL_FULL_S.1,
        };
        let fits = |level: &u32| preset.data_size(Some(*level)) * MEMORY_PER_BYTE <= memory_size;
        Scale {
            is_quick,
            pairs: if is_quick { PAIRS_QUICK } else { PAIRS_FULL },
            level_s,
            warm_up_s: if is_quick { WARM_UP_QUICK_S } else { WARM_UP_FULL_S },
            instances,
            load_threads,
            levels: preset.sweep.levels().iter().copied().filter(fits).collect(),
        }
    }
}

impl Planned {
    /// Of an experiment, with `peer` as the set-up that is there and a server of ours, each with `instances` cores.
    pub fn new(preset: &Preset, scale: Scale, peer: &str, price: Option<f64>, cpus_count: u32) -> Planned {
        let instances = scale.instances;
        let arm =
            |arm: &str, name: &str, cores: u32| Arm { arm: arm.to_owned(), name: name.to_owned(), cores };
        let (arms, recipes, steps) = if preset.id == Id::E5 {
            let recipes = recipe::recipes(instances);
            let cores = |recipe: &Recipe| if recipe.own_cores { instances } else { cpus_count };
            let mut arms: Vec<Arm> =
                recipes.iter().map(|(name, recipe)| arm(name, name, cores(recipe))).collect();
            let peer = arm("peer", peer, 1);
            let steps = recipe::steps(&recipes, Some(&peer));
            arms.push(peer);
            (arms, recipes, steps)
        } else {
            let cores = if preset.id == Id::E1 { instances } else { 1 };
            let step = Step { name: String::new(), from: "a".to_owned(), to: "b".to_owned() };
            (vec![arm("a", peer, cores), arm("b", "expresslane", cores)], Vec::new(), vec![step])
        };
        Planned {
            id: preset.id,
            arms,
            steps,
            recipes,
            mismatches: mismatches(preset, &scale),
            shrunk: shrunk(preset, &scale),
            missing: missing(preset, &scale),
            scale,
            price,
        }
    }

    /// The arm of that name.
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.arm == name)
    }
}

/// Where protocol or topology part from what was published.
fn mismatches(preset: &Preset, scale: &Scale) -> Vec<String> {
    let mut mismatches = Vec::new();
    if let Some(protocol) = preset.foreign_protocol {
        mismatches.push(format!("RESP stands in for {protocol} protocol"));
    }
    mismatches.push(format!("published: {}; here: one server and another", preset.compared));
    if preset.id == Id::E1 {
        mismatches.push(match scale.instances {
            1 => "one instance is no master with read-only copies".to_owned(),
            _ => "lanes divide the keys among them; the published instances hold all of them each".to_owned(),
        });
    }
    if scale.levels.len() < preset.sweep.levels().len() {
        mismatches.push(format!("{} of {} levels", scale.levels.len(), preset.sweep.levels().len()));
    }
    mismatches
}

/// Instances, client processes and time, each as published and here.
fn shrunk(preset: &Preset, scale: &Scale) -> Vec<Shrunk> {
    let mut rows = Vec::new();
    let mut row = |what: &str, published: String, here: String| {
        rows.push(Shrunk { what: what.to_owned(), published, here });
    };
    let is_swept = matches!(preset.sweep, Sweep::Connections(_));
    let instances = if is_swept || preset.id == Id::E5 { scale.instances } else { 1 };
    if preset.id == Id::E5 {
        row("server cores", "12".to_owned(), instances.to_string());
    } else {
        row("instances", preset.instances.to_string(), instances.to_string());
        let threads = if is_swept { scale.load_threads } else { 1 };
        let (processes, loops) = preset.clients;
        let published = match loops {
            1 => processes.to_string(),
            loops => format!("{processes} of {loops} event loops"),
        };
        row("client processes", published, format!("1 of {threads} event loop{}", plural(threads)));
    }
    let form = if scale.is_quick { ", quick" } else { "" };
    row(
        "a level",
        preset.duration.to_owned(),
        format!("{} s, {} s of warm-up{form}", scale.level_s, scale.warm_up_s),
    );
    row("pairs of runs", "none".to_owned(), format!("{}{form}", scale.pairs));
    for (what, here) in preset.chosen {
        row(what, "not published".to_owned(), (*here).to_owned());
    }
    rows
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// What this machine or this program does not have, with the reason.
fn missing(preset: &Preset, scale: &Scale) -> Vec<Missing> {
    let no_card = "server and load are one machine, and loopback has no card";
    let mut list: Vec<(String, String)> = match preset.id {
        Id::E1 => vec![
            ("the change from without to with ADQ".to_owned(), no_card.to_owned()),
            (
                "lanes with a full copy each".to_owned(),
                "this server has no copied placement; a lane holds its own keys".to_owned(),
            ),
        ],
        Id::E2 => [
            "busy polling of epoll",
            "the NAPI id of a socket",
            "mqprio with a shaper",
            "flower filters",
            "symmetric queues",
        ]
        .map(|what| (what.to_owned(), no_card.to_owned()))
        .into(),
        Id::E3 => vec![
            (
                "links of 1 and 10 Gbit/s".to_owned(),
                "loopback has no speed, and no link is shaped".to_owned(),
            ),
            ("the user-level stack".to_owned(), "this server has none".to_owned()),
        ],
        Id::E4 => vec![
            (
                "links of 1 and 10 Gbit/s".to_owned(),
                "loopback has no speed, and no link is shaped".to_owned(),
            ),
            ("1024 vBuckets over 8 nodes".to_owned(), "the protocol's, which RESP stands in for".to_owned()),
        ],
        Id::E5 => recipe::missing().into_iter().map(|missing| (missing.what, missing.why)).collect(),
    };
    if preset.id == Id::E5 {
        list.push(("busy polling".to_owned(), format!("{no_card}, so there is no queue to poll")));
        if scale.instances == 1 {
            list.push((
                "the whole recipe less client routes".to_owned(),
                "with one lane nothing is forwarded".to_owned(),
            ));
        }
    }
    for level in preset.sweep.levels().iter().filter(|level| !scale.levels.contains(level)) {
        list.push((
            format!("{} {level}", preset.sweep.name()),
            "left out, by hand or for want of memory".to_owned(),
        ));
    }
    list.into_iter().map(|(what, why)| Missing { what, why }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: u64 = 64 << 30;

    fn planned(id: Id, is_quick: bool, instances: u32) -> Planned {
        let preset = Preset::of(id);
        let scale = Scale::new(preset, is_quick, instances, instances, PLENTY);
        Planned::new(preset, scale, "redis-server", None, 2 * instances)
    }

    fn here<'a>(planned: &'a Planned, what: &str) -> (&'a str, &'a str) {
        let row = planned.shrunk.iter().find(|row| row.what == what).unwrap();
        (&row.published, &row.here)
    }

    #[test]
    fn each_smaller_thing_is_a_row() {
        let sweep = planned(Id::E1, true, 1);
        assert_eq!(here(&sweep, "instances"), ("94", "1"));
        assert_eq!(here(&sweep, "client processes"), ("94", "1 of 1 event loop"));
        assert_eq!(here(&sweep, "a level"), ("30 s a level", "3 s, 1 s of warm-up, quick"));
        let tail = planned(Id::E2, false, 4);
        assert_eq!(here(&tail, "instances"), ("2", "1"));
        assert_eq!(here(&tail, "client processes"), ("18 of 12 event loops", "1 of 1 event loop"));
        assert_eq!(here(&tail, "a level").1, "12 s, 2 s of warm-up");
        assert_eq!(here(&planned(Id::E5, true, 3), "server cores"), ("12", "3"));
    }

    /// Ten seconds and six pairs at least, unattended; the quick form of all five in twenty minutes.
    #[test]
    fn the_forms_keep_their_promises() {
        let mut quick_s = 0.0;
        for id in Id::ALL {
            let (quick, full) = (planned(id, true, 1), planned(id, false, 1));
            assert!(full.scale.level_s - f64::from(full.scale.warm_up_s) >= 10.0 && full.scale.pairs >= 6);
            assert_eq!(full.scale.levels, Preset::of(id).sweep.levels(), "levels don't shrink");
            let levels = f64::from(u32::try_from(quick.scale.levels.len().max(1)).unwrap());
            let arms = f64::from(u32::try_from(quick.arms.len()).unwrap());
            // Two seconds beside each level for starting and setting keys.
            quick_s += f64::from(quick.scale.pairs) * arms * levels * (quick.scale.level_s + 2.0);
            assert!(quick.scale.pairs < 6 && quick.scale.is_quick);
        }
        assert!(quick_s < 1_000.0, "{quick_s}");
    }

    #[test]
    fn none_of_these_is_the_published_set_up_and_each_says_why() {
        for id in Id::ALL {
            let planned = planned(id, false, 1);
            assert!(!planned.mismatches.is_empty() && !planned.missing.is_empty(), "{id}");
            assert_eq!(
                planned.mismatches[0].starts_with("RESP stands in"),
                matches!(id, Id::E2 | Id::E3 | Id::E4),
                "{id}"
            );
        }
    }

    #[test]
    fn values_that_do_not_fit_are_left_out_and_named() {
        let preset = Preset::of(Id::E3);
        let scale = Scale::new(preset, true, 1, 1, 2 << 30);
        assert_eq!(scale.levels.last(), Some(&8_192), "1.6 GB need more than 3.2 GB");
        let planned = Planned::new(preset, scale, "redis-server", None, 2);
        assert!(planned.missing.iter().any(|missing| missing.what == "value-size 16384"));
        assert!(planned.mismatches.iter().any(|why| why == "7 of 8 levels"));
    }
}
