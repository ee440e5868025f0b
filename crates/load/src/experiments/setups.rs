//! The set-ups of an experiment on this machine, and what is compared with what.
//!
//! ```text
//! E1      peer ─▶ lanes                            a process with a copy, or a lane, for each instance
//! E2      epoll ─▶ io_uring                        a lane in the published protocol
//!         peer ─▶ lane ─▶ the lane of above        both in RESP, then the published protocol
//!         peer as it is installed ─▶ lanes         both in RESP
//! E3, E4  1 Gbit/s ─▶ 10 Gbit/s ─▶ unshaped        a lane in the published protocol, and the peer beside it in RESP
//!         epoll ─▶ io_uring                        a lane in the published protocol, unshaped
//!         peer ─▶ lane                             both in RESP, unshaped
//!         where links can't be had: as E2, over loopback
//!         where io_uring can't be had either, or in E2: first of all peer in RESP ─▶ lane in the published protocol
//! E5      the ladder of `recipe`
//! ```

use serde::{Deserialize, Serialize};

use super::presets::{Id, Preset};
use super::recipe::{self, Recipe};
use crate::connect::Dialect;

/// The links whose speeds were published, in Gbit/s.
pub const LINKS_GIGABITS: [u32; 2] = [1, 10];

/// What serves in a set-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Server {
    /// The server that ours stands beside, pinned.
    #[default]
    Peer,
    /// It with its own defaults, wherever the kernel places it.
    PeerAsInstalled,
    /// A lane, or one for each instance, over epoll.
    Lanes,
    /// The same over io_uring.
    LanesOverUring,
    /// A lane for each cpu of the servers, whatever the instances are.
    AllLanes,
}

/// What lies between server and load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// Loopback.
    #[default]
    Loopback,
    /// A pair of virtual interfaces between two network namespaces, as fast as the kernel is.
    Unshaped,
    /// The same, with so many Gbit/s in either direction.
    Gigabits(u32),
}

impl Link {
    /// In a set-up's name; empty for loopback.
    pub fn name(self) -> String {
        match self {
            Link::Loopback => String::new(),
            Link::Unshaped => "unshaped".to_owned(),
            Link::Gigabits(gigabits) => format!("{gigabits} Gbit/s"),
        }
    }
}

/// A set-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// As the runs name it.
    pub arm: String,
    /// As people do.
    pub name: String,
    /// Cores that its server has.
    pub cores: u32,
    /// What serves; of a recipe the recipe says more.
    #[serde(default)]
    pub server: Server,
    /// Over what.
    #[serde(default)]
    pub link: Link,
    /// What is spoken.
    #[serde(default)]
    pub dialect: Dialect,
}

/// A change from one set-up to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What is different; empty where an experiment has but one.
    pub name: String,
    /// From this arm …
    pub from: String,
    /// … to this one.
    pub to: String,
    /// All numbers of the experiment are told; otherwise the first alone.
    #[serde(default)]
    pub is_whole: bool,
    /// Which of the published set-ups' values stand beside it. Empty: this was not published.
    #[serde(default)]
    pub published: Vec<usize>,
}

/// What the machine has to offer to an experiment.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The peer, as people name it.
    pub peer: String,
    /// What the machine costs, in dollars.
    pub price: Option<f64>,
    /// All cpus, and those that servers get.
    pub cpus_count: u32,
    /// See [`Offer::cpus_count`].
    pub server_cpus_count: u32,
    /// Whether links can be made and shaped, or why not and what to do.
    pub links: Result<(), String>,
    /// Whether io_uring can be had, or why not.
    pub io_uring: Result<(), String>,
    /// Agents that load from other machines; none: this one loads.
    pub agents_count: u32,
    /// Memory nodes.
    pub nodes_count: u32,
    /// Whether irqbalance runs.
    pub has_irqbalance: bool,
}

/// Set-ups, steps (the most important first), and what is in each recipe.
pub(super) fn of(
    preset: &Preset,
    instances: u32,
    offer: &Offer,
) -> (Vec<Arm>, Vec<Step>, Vec<(String, Recipe)>) {
    let peer = &offer.peer;
    match preset.id {
        Id::E1 => {
            let cores = instances.min(offer.server_cpus_count);
            (two(peer, cores), vec![whole("", "a", "b", &[0, 1])], Vec::new())
        }
        Id::E2 => {
            let (mut arms, mut steps) = in_own_protocol(preset, offer);
            arms.push(arm(
                "installed",
                &format!("{} as installed", in_resp(peer)),
                1,
                Server::PeerAsInstalled,
            ));
            arms.push(arm(
                "lanes",
                "expresslane in RESP, all lanes",
                offer.server_cpus_count,
                Server::AllLanes,
            ));
            steps.push(whole("default machine to lanes", "installed", "lanes", &[]));
            (arms, steps, Vec::new())
        }
        Id::E3 | Id::E4 if offer.links.is_ok() => {
            let (arms, steps) = over_links(preset, offer);
            (arms, steps, Vec::new())
        }
        Id::E3 | Id::E4 => {
            let (arms, steps) = in_own_protocol(preset, offer);
            (arms, steps, Vec::new())
        }
        Id::E5 => {
            let recipes = recipe::recipes(offer.server_cpus_count, offer.agents_count > 0);
            let cores = |recipe: &Recipe| {
                if recipe.own_cores { offer.server_cpus_count } else { offer.cpus_count }
            };
            let of_recipe = |(name, recipe): &(String, Recipe)| {
                arm(name, recipe::name(name), cores(recipe), Server::Lanes)
            };
            let mut arms: Vec<Arm> = recipes.iter().map(of_recipe).collect();
            let peer = arm("peer", peer, 1, Server::Peer);
            let steps = recipe::steps(&recipes, offer.agents_count > 0, Some(&peer));
            arms.push(peer);
            (arms, steps, recipes)
        }
    }
}

/// A lane in the published protocol over both backends, and beside it the peer, which has RESP alone, and a lane in RESP.
/// With one backend the lane stands beside the peer itself.
fn in_own_protocol(preset: &Preset, offer: &Offer) -> (Vec<Arm>, Vec<Step>) {
    let protocol = preset.foreign_protocol.expect("what was not spoken in RESP");
    let own = |name: &str, server: Server| Arm { dialect: preset.dialect(), ..arm(name, "", 1, server) };
    let named = |arm: Arm, name: String| Arm { name, ..arm };
    let mut arms = vec![
        arm("a", &in_resp(&offer.peer), 1, Server::Peer),
        arm("b", &in_resp("expresslane"), 1, Server::Lanes),
        named(own("own", Server::Lanes), format!("expresslane, {protocol} protocol")),
    ];
    let published: Vec<usize> = (0..preset.figures[0].values.len()).collect();
    let from_resp = whole(&format!("RESP to {protocol} protocol"), "b", "own", &[]);
    let steps = if offer.io_uring.is_ok() {
        let name = format!("expresslane over io_uring, {protocol} protocol");
        arms.push(named(own("uring", Server::LanesOverUring), name));
        let first = whole("epoll to io_uring", "own", "uring", &published);
        vec![first, whole("peer to lane, both in RESP", "a", "b", &published), from_resp]
    } else {
        let first = whole(&format!("peer in RESP to lane in {protocol} protocol"), "a", "own", &published);
        vec![first, whole("peer to lane, both in RESP", "a", "b", &[]), from_resp]
    };
    (arms, steps)
}

/// As those are named that speak RESP where something else was published.
fn in_resp(name: &str) -> String {
    format!("{name} in RESP")
}

/// The peer and a lane at each link; the backends and the two servers are compared where the link does not hold them up.
fn over_links(preset: &Preset, offer: &Offer) -> (Vec<Arm>, Vec<Step>) {
    let [slow, fast] = LINKS_GIGABITS;
    let links = [Link::Gigabits(slow), Link::Gigabits(fast), Link::Unshaped];
    let at = |server, who: &str, before: &str, link: Link| Arm {
        link,
        ..arm(&format!("{before}{}", link.name()), &format!("{who}, {}", link.name()), 1, server)
    };
    let own = |arm: Arm| Arm { dialect: preset.dialect(), ..arm };
    let ours = links.map(|link| own(at(Server::Lanes, "expresslane", "", link)));
    let resp = at(Server::Lanes, &in_resp("expresslane"), "resp ", Link::Unshaped);
    let peers = links.map(|link| at(Server::Peer, &in_resp(&offer.peer), "peer ", link));
    let between = |name: &str, arms: &[Arm; 3], from: usize| step(name, &arms[from].arm, &arms[from + 1].arm);
    // The published 1 and 10 Gbit/s; of the batches one value was published, and not of which of them.
    let published: &[usize] = if preset.figures[0].values.len() > 1 { &[0, 1] } else { &[0] };
    let mut steps = vec![
        whole(&format!("{slow} to {fast} Gbit/s"), &ours[0].arm, &ours[1].arm, published),
        between(&format!("{fast} Gbit/s to unshaped"), &ours, 1),
        between(&format!("peer: {slow} to {fast} Gbit/s"), &peers, 0),
        between(&format!("peer: {fast} to unshaped"), &peers, 1),
        whole("peer to lane, both in RESP, unshaped", &peers[2].arm, &resp.arm, &[]),
    ];
    let unshaped = ours[2].arm.clone();
    let mut arms: Vec<Arm> = ours.into_iter().chain(peers).chain([resp]).collect();
    if offer.io_uring.is_ok() {
        let uring = own(at(Server::LanesOverUring, "expresslane over io_uring", "uring ", Link::Unshaped));
        steps.push(step("epoll to io_uring", &unshaped, &uring.arm));
        arms.push(uring);
    }
    (arms, steps)
}

fn two(peer: &str, cores: u32) -> Vec<Arm> {
    vec![arm("a", peer, cores, Server::Peer), arm("b", "expresslane", cores, Server::Lanes)]
}

pub(super) fn arm(arm: &str, name: &str, cores: u32, server: Server) -> Arm {
    Arm { arm: arm.to_owned(), name: name.to_owned(), cores, server, ..Arm::default() }
}

/// A step of which the first number is told.
pub(super) fn step(name: &str, from: &str, to: &str) -> Step {
    Step { name: name.to_owned(), from: from.to_owned(), to: to.to_owned(), ..Step::default() }
}

/// A step of which all numbers are told.
pub(super) fn whole(name: &str, from: &str, to: &str, published: &[usize]) -> Step {
    Step { is_whole: true, published: published.to_vec(), ..step(name, from, to) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A machine of so many cpus, half of them the servers', on which everything can be had.
    pub(crate) fn offer(cpus_count: u32) -> Offer {
        Offer {
            peer: "redis-server".to_owned(),
            price: Some(1_000.0),
            cpus_count,
            server_cpus_count: cpus_count / 2,
            links: Ok(()),
            io_uring: Ok(()),
            agents_count: 0,
            nodes_count: 1,
            has_irqbalance: false,
        }
    }

    fn check(id: Id, offer: &Offer, arms: &[&str], steps: &[(&str, &str)]) {
        let (got, compared, _) = of(Preset::of(id), offer.server_cpus_count, offer);
        assert_eq!(got.iter().map(|arm| arm.arm.as_str()).collect::<Vec<_>>(), arms, "{id}");
        let pairs: Vec<(&str, &str)> =
            compared.iter().map(|step| (step.from.as_str(), step.to.as_str())).collect();
        assert_eq!(pairs, steps, "{id}");
        for step in compared {
            assert!(arms.contains(&step.from.as_str()) && arms.contains(&step.to.as_str()), "{step:?}");
        }
    }

    #[test]
    fn links_and_backends_are_axes_where_they_can_be_had() {
        let mut offer = offer(2);
        let arms = [
            "1 Gbit/s",
            "10 Gbit/s",
            "unshaped",
            "peer 1 Gbit/s",
            "peer 10 Gbit/s",
            "peer unshaped",
            "resp unshaped",
        ];
        let steps = [
            ("1 Gbit/s", "10 Gbit/s"),
            ("10 Gbit/s", "unshaped"),
            ("peer 1 Gbit/s", "peer 10 Gbit/s"),
            ("peer 10 Gbit/s", "peer unshaped"),
            ("peer unshaped", "resp unshaped"),
            ("unshaped", "uring unshaped"),
        ];
        check(Id::E3, &offer, &[&arms[..], &["uring unshaped"]].concat(), &steps);
        check(Id::E4, &offer, &[&arms[..], &["uring unshaped"]].concat(), &steps);
        offer.io_uring = Err("no".to_owned());
        check(Id::E3, &offer, &arms, &steps[..5]);
        offer.links = Err("no".to_owned());
        check(Id::E3, &offer, &["a", "b", "own"], &[("a", "own"), ("a", "b"), ("b", "own")]);
        let tail = ["a", "b", "own", "installed", "lanes"];
        check(Id::E2, &offer, &tail, &[("a", "own"), ("a", "b"), ("b", "own"), ("installed", "lanes")]);
        offer.io_uring = Ok(());
        check(Id::E4, &offer, &["a", "b", "own", "uring"], &[("own", "uring"), ("a", "b"), ("b", "own")]);
        let tail = ["a", "b", "own", "uring", "installed", "lanes"];
        check(Id::E2, &offer, &tail, &[("own", "uring"), ("a", "b"), ("b", "own"), ("installed", "lanes")]);
    }

    /// Both sides of the first step speak the published protocol, or the second does where nothing else here speaks it; what does not
    /// is named so.
    #[test]
    fn the_published_protocol_is_spoken_first() {
        let check = |id: Id, offer: &Offer, want: [bool; 2]| {
            let (arms, steps, _) = of(Preset::of(id), 1, offer);
            let is_native = |arm: &Arm| arm.dialect == Preset::of(id).dialect();
            let of = |name: &String| arms.iter().find(|arm| arm.arm == *name).unwrap();
            let first = [&steps[0].from, &steps[0].to].map(|name| is_native(of(name)));
            assert_eq!(first, want, "{id}");
            let is_foreign = Preset::of(id).foreign_protocol.is_some();
            for arm in arms.iter().filter(|arm| is_foreign && !is_native(arm)) {
                assert!(arm.name.contains(" in RESP"), "{id}: {arm:?}");
            }
        };
        let offer = offer(2);
        let no_links = Offer { links: Err("no".to_owned()), ..offer.clone() };
        let neither = Offer { io_uring: Err("no".to_owned()), ..no_links.clone() };
        for id in Id::ALL {
            check(id, &offer, [true, true]);
            check(id, &no_links, [true, true]);
            check(id, &neither, [matches!(id, Id::E1 | Id::E5), true]);
        }
    }

    /// The default machine is a step of its own, and nothing that was published stands beside it.
    #[test]
    fn the_default_machine_stands_apart() {
        let (_, steps, _) = of(Preset::of(Id::E2), 1, &offer(2));
        let [tuned, .., default] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((tuned.published.as_slice(), default.published.as_slice()), (&[0, 1][..], &[][..]));
        assert_eq!((default.from.as_str(), default.to.as_str()), ("installed", "lanes"));
    }
}
