//! How much of an experiment runs here, and in which ways that is less than what was published.

use serde::{Deserialize, Serialize};

use super::presets::{Id, Preset, Sweep};
use super::recipe::{self, Recipe};
use super::setups::{self, Arm, Offer, Step};

/// Pairs of the quick form, and of those with a dozen of set-ups and levels to run: too few for an interval, so it never calls
/// a difference.
const PAIRS_QUICK: (u32, u32) = (3, 2);
/// Pairs of the full form.
const PAIRS_FULL: u32 = 10;
/// Seconds of a level in the quick form, in a sweep and alone.
const LEVEL_QUICK_S: (f64, f64) = (3.0, 4.0);
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
    /// Threads of the load, each with a cpu; of each agent, if agents load.
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

/// A thing of the published tuning that this machine has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    /// What.
    pub what: String,
    /// How it is had here.
    pub how: String,
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
    /// E2: what both sides of the published comparison have and so do both of ours.
    #[serde(default)]
    pub tuned: Vec<Tuned>,
    /// What can't be had.
    pub missing: Vec<Missing>,
    /// What the machine costs, in dollars.
    #[serde(default)]
    pub price: Option<f64>,
    /// Agents that load from other machines; none: this one loads.
    #[serde(default)]
    pub agents_count: u32,
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
            pairs: match (is_quick, preset.id) {
                (true, Id::E3 | Id::E4) => PAIRS_QUICK.1,
                (true, _) => PAIRS_QUICK.0,
                (false, _) => PAIRS_FULL,
            },
            level_s,
            warm_up_s: if is_quick { WARM_UP_QUICK_S } else { WARM_UP_FULL_S },
            instances,
            load_threads,
            levels: preset.sweep.levels().iter().copied().filter(fits).collect(),
        }
    }
}

impl Planned {
    /// Of an experiment, with what this machine offers.
    pub fn new(preset: &Preset, scale: Scale, offer: &Offer) -> Planned {
        let (arms, steps, recipes) = setups::of(preset, scale.instances, offer);
        let (tuned, untuned) = tuning(preset, offer);
        let mut missing = missing(preset, &scale, offer);
        missing.splice(0..0, untuned);
        let mismatches = mismatches(preset, &scale, offer, &arms, &steps);
        Planned {
            id: preset.id,
            arms,
            steps,
            recipes,
            mismatches,
            shrunk: shrunk(preset, &scale, offer),
            tuned,
            missing,
            scale,
            price: offer.price,
            agents_count: offer.agents_count,
        }
    }

    /// Seconds of load, if no pair is dropped.
    pub fn load_s(&self) -> f64 {
        let count = |list: usize| f64::from(u32::try_from(list).unwrap_or(u32::MAX));
        let levels = count(self.scale.levels.len()).max(1.0);
        f64::from(self.scale.pairs) * count(self.arms.len()) * levels * self.scale.level_s
    }

    /// Is another protocol than the published one spoken on either side of this step?
    pub fn stands_in(&self, step: &Step) -> bool {
        let preset = Preset::of(self.id);
        let is_native = |name: &str| self.arm(name).is_some_and(|arm| arm.dialect == preset.dialect());
        preset.foreign_protocol.is_some() && !(is_native(&step.from) && is_native(&step.to))
    }

    /// The arm of that name.
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.arm == name)
    }
}

/// Where protocol or topology part from what was published.
fn mismatches(preset: &Preset, scale: &Scale, offer: &Offer, arms: &[Arm], steps: &[Step]) -> Vec<String> {
    let mut mismatches = Vec::new();
    if let Some(protocol) = preset.foreign_protocol {
        let first = steps.first().expect("an experiment has a step");
        let sides = arms.iter().filter(|arm| arm.arm == first.from || arm.arm == first.to);
        for arm in sides.filter(|arm| arm.dialect != preset.dialect()) {
            mismatches.push(format!("{} does not speak {protocol} protocol", arm.name));
        }
    }
    let here = match preset.id {
        Id::E3 | Id::E4 if offer.links.is_ok() => "a virtual link inside one machine, shaped",
        Id::E2 if offer.io_uring.is_ok() => "without what ADQ adds, so epoll and io_uring instead",
        Id::E2 => "without what ADQ adds, so two servers instead",
        Id::E3 | Id::E4 if offer.io_uring.is_ok() => "epoll and io_uring",
        Id::E5 => "as far as this machine has them",
        _ => "one server and another",
    };
    mismatches.push(format!("published: {}; here: {here}", preset.compared));
    if preset.id == Id::E1 {
        mismatches.push(match scale.instances {
            1 => "one instance is no master with read-only copies".to_owned(),
            _ => "lanes divide the keys among them; the published instances hold all of them each".to_owned(),
        });
        if scale.instances > offer.server_cpus_count {
            mismatches.push(format!(
                "{} instances share {} cpu{}",
                scale.instances,
                offer.server_cpus_count,
                plural(offer.server_cpus_count)
            ));
        }
    }
    if scale.levels.len() < preset.sweep.levels().len() {
        mismatches.push(format!("{} of {} levels", scale.levels.len(), preset.sweep.levels().len()));
    }
    mismatches
}

/// Instances, client processes and time, each as published and here.
fn shrunk(preset: &Preset, scale: &Scale, offer: &Offer) -> Vec<Shrunk> {
    let mut rows = Vec::new();
    let mut row = |what: &str, published: String, here: String| {
        rows.push(Shrunk { what: what.to_owned(), published, here });
    };
    let is_swept = matches!(preset.sweep, Sweep::Connections(_));
    let instances = if is_swept { scale.instances } else { 1 };
    if preset.id == Id::E5 {
        row("server cores", "12".to_owned(), offer.server_cpus_count.to_string());
    } else {
        row("instances", preset.instances.to_string(), instances.to_string());
        let threads = if is_swept { scale.load_threads } else { 1 };
        let (processes, loops) = preset.clients;
        let published = match loops {
            1 => processes.to_string(),
            loops => format!("{processes} of {loops} event loops"),
        };
        let loops = match offer.agents_count {
            0 => format!("1 of {threads} event loop{}", plural(threads)),
            count => {
                format!("{count} agent{} of {threads} event loop{}", plural(count), plural(threads))
            }
        };
        // A process has its load, as published; they are one process here, and the lanes' load is one that is routed.
        let here = if is_swept && instances > 1 { format!("{loops}, a load an instance") } else { loops };
        row("client processes", published, here);
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

/// Why nothing of a network card can be had.
fn no_card(offer: &Offer) -> &'static str {
    match offer.agents_count {
        0 => "server and load are one machine, and no card lies between them",
        _ => "this command leaves the card between server and agents as it is",
    }
}

/// E2: what the published table says of both sides, as far as it is had here; and the rest, with what ADQ adds to its own side.
fn tuning(preset: &Preset, offer: &Offer) -> (Vec<Tuned>, Vec<Missing>) {
    if preset.id != Id::E2 {
        return (Vec::new(), Vec::new());
    }
    let pinned = match offer.agents_count {
        0 => "server and load are pinned, each to cpus of its own",
        _ => "the server is pinned, the load is on other machines",
    };
    let nodes =
        format!("{pinned}; this machine has {} memory node{}", offer.nodes_count, plural(offer.nodes_count));
    let mut tuned = vec![Tuned { what: "NUMA pinning".to_owned(), how: nodes }];
    let mut missing = Vec::new();
    let mut lacks =
        |what: &str, why: &str| missing.push(Missing { what: what.to_owned(), why: why.to_owned() });
    if offer.has_irqbalance {
        lacks("irqbalance off", "it runs: end it before (systemctl stop irqbalance)");
    } else {
        tuned.push(Tuned { what: "irqbalance off".to_owned(), how: "it does not run".to_owned() });
    }
    lacks("interrupt moderation fixed", no_card(offer));
    lacks("interrupts affinitized", no_card(offer));
    let added = [
        "busy polling of epoll",
        "the NAPI id of a socket",
        "mqprio with a shaper",
        "flower filters",
        "symmetric queues",
    ];
    for what in added {
        lacks(&format!("ADQ side: {what}"), no_card(offer));
    }
    (tuned, missing)
}

/// What this machine or this program does not have, with the reason.
fn missing(preset: &Preset, scale: &Scale, offer: &Offer) -> Vec<Missing> {
    let mut list: Vec<(String, String)> = match preset.id {
        Id::E1 => vec![
            ("the change from without to with ADQ".to_owned(), no_card(offer).to_owned()),
            (
                "lanes with a full copy each".to_owned(),
                "this server has no copied placement; a lane holds its own keys".to_owned(),
            ),
        ],
        Id::E2 => Vec::new(),
        Id::E3 => vec![("the user-level stack, 122 > 59 µs".to_owned(), "this server has none".to_owned())],
        Id::E4 => vec![
            ("the user-level stack".to_owned(), "this server has none".to_owned()),
            ("1024 vBuckets over 8 nodes".to_owned(), "one node has all of them".to_owned()),
        ],
        Id::E5 => recipe::missing(offer.agents_count > 0)
            .into_iter()
            .map(|missing| (missing.what, missing.why))
            .collect(),
    };
    if let (Id::E3 | Id::E4, Err(why)) = (preset.id, &offer.links) {
        list.push(("links of 1 and 10 Gbit/s".to_owned(), why.clone()));
    }
    if let (Some(_), Err(why)) = (preset.foreign_protocol, &offer.io_uring) {
        list.push(("io_uring, to stand beside epoll".to_owned(), why.clone()));
    }
    if preset.id == Id::E5 {
        list.push(("busy polling".to_owned(), format!("{}: its queues are not polled", no_card(offer))));
        if offer.server_cpus_count == 1 {
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
    use super::super::setups::tests::offer;
    use super::*;

    const PLENTY: u64 = 64 << 30;

    fn planned(id: Id, is_quick: bool, instances: u32) -> Planned {
        let preset = Preset::of(id);
        let scale = Scale::new(preset, is_quick, instances, instances, PLENTY);
        Planned::new(preset, scale, &offer(2 * instances))
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
        let many = planned(Id::E1, true, 2);
        assert_eq!(here(&many, "client processes").1, "1 of 2 event loops, a load an instance");
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
            // A second and a half beside each level for starting and setting keys.
            quick_s += f64::from(quick.scale.pairs) * arms * levels * (quick.scale.level_s + 1.5);
            assert!(quick.scale.pairs < 6 && quick.scale.is_quick);
        }
        assert!(quick_s <= 1_200.0, "{quick_s}");
    }

    #[test]
    fn none_of_these_is_the_published_set_up_and_each_says_why() {
        for id in Id::ALL {
            let planned = planned(id, false, 1);
            assert!(!planned.mismatches.is_empty() && !planned.missing.is_empty(), "{id}");
            let of = |planned: &Planned| planned.mismatches.iter().any(|why| why.contains("does not speak"));
            assert!(!of(&planned), "{id}: both sides speak what was published");
            // Beside the peer, where nothing else can be had, that is said.
            let nothing = Offer { links: Err("no".to_owned()), io_uring: Err("no".to_owned()), ..offer(2) };
            let beside = Planned::new(Preset::of(id), planned.scale.clone(), &nothing);
            let is_foreign = matches!(id, Id::E2 | Id::E3 | Id::E4);
            assert_eq!((of(&beside), beside.stands_in(&beside.steps[0])), (is_foreign, is_foreign), "{id}");
            let lacks_uring = beside.missing.iter().any(|missing| missing.what.starts_with("io_uring"));
            assert_eq!(lacks_uring, is_foreign, "{id}");
        }
    }

    #[test]
    fn values_that_do_not_fit_are_left_out_and_named() {
        let preset = Preset::of(Id::E3);
        let scale = Scale::new(preset, true, 1, 1, 2 << 30);
        assert_eq!(scale.levels.last(), Some(&8_192), "1.6 GB need more than 3.2 GB");
        let planned = Planned::new(preset, scale, &offer(2));
        assert!(planned.missing.iter().any(|missing| missing.what == "value-size 16384"));
        assert!(planned.mismatches.iter().any(|why| why == "7 of 8 levels"));
    }

    fn lacks(planned: &Planned, what: &str) -> Option<String> {
        planned.missing.iter().find(|missing| missing.what == what).map(|missing| missing.why.clone())
    }

    #[test]
    fn what_the_machine_does_not_offer_is_missing_with_its_reason() {
        let preset = Preset::of(Id::E3);
        let planned = |offer: &Offer| Planned::new(preset, Scale::new(preset, true, 1, 1, PLENTY), offer);
        let mut offer = offer(2);
        let all = planned(&offer);
        assert_eq!(all.missing.len(), 1, "{:?}", all.missing);
        offer.links = Err("no root: be it".to_owned());
        offer.io_uring = Err("forbidden".to_owned());
        let fewer = planned(&offer);
        assert_eq!(lacks(&fewer, "links of 1 and 10 Gbit/s").unwrap(), "no root: be it");
        assert_eq!(lacks(&fewer, "io_uring, to stand beside epoll").unwrap(), "forbidden");
        assert!(fewer.arms.iter().all(|arm| arm.link == setups::Link::Loopback));
    }

    /// Four things on both sides, five on one: each is had or missing.
    #[test]
    fn the_tuned_machine_is_described_line_by_line() {
        let preset = Preset::of(Id::E2);
        let mut offer = offer(2);
        let planned = |offer: &Offer| Planned::new(preset, Scale::new(preset, true, 1, 1, PLENTY), offer);
        let quiet = planned(&offer);
        assert_eq!((quiet.tuned.len(), quiet.missing.len()), (2, 7));
        offer.has_irqbalance = true;
        let busy = planned(&offer);
        assert_eq!((busy.tuned.len(), busy.missing.len()), (1, 8));
        assert!(lacks(&busy, "irqbalance off").unwrap().contains("systemctl stop irqbalance"));
        let added = busy.missing.iter().filter(|missing| missing.what.starts_with("ADQ side"));
        assert_eq!(added.count(), 5);
    }

    /// Nothing is said of this machine's cpus or of a card that is not there: the load is elsewhere.
    #[test]
    fn a_load_from_agents_is_described_as_one() {
        for id in Id::ALL {
            let preset = Preset::of(id);
            let offer = Offer { agents_count: 2, ..offer(4) };
            let planned = Planned::new(preset, Scale::new(preset, false, 2, 3, PLENTY), &offer);
            let read: Planned = serde_json::from_str(&serde_json::to_string(&planned).unwrap()).unwrap();
            assert_eq!((read.agents_count, &read), (2, &planned), "{id}");
            let why = planned.missing.iter().map(|missing| missing.why.as_str());
            let how = planned.tuned.iter().map(|tuned| tuned.how.as_str());
            for text in why.chain(how) {
                let is_of_one_machine =
                    ["no card", "server and load", "loopback"].iter().any(|it| text.contains(it));
                assert!(!is_of_one_machine, "{id}: {text}");
            }
            let want = match id {
                Id::E1 => "2 agents of 3 event loops, a load an instance",
                Id::E5 => continue,
                _ => "2 agents of 1 event loop",
            };
            assert_eq!(here(&planned, "client processes").1, want, "{id}");
        }
    }

    #[test]
    fn instances_that_share_cpus_say_so() {
        let preset = Preset::of(Id::E1);
        let planned = Planned::new(preset, Scale::new(preset, true, 3, 1, PLENTY), &offer(4));
        assert!(planned.mismatches.iter().any(|why| why == "3 instances share 2 cpus"), "{planned:?}");
        assert_eq!(planned.arms[0].cores, 2);
    }
}
