//! The ten ingredients (E5): which this program can switch, one at a time, and what becomes of the others.
//!
//! ```text
//! shared port, nothing pinned ─▶ + routes ─▶ + server pinned ─▶ + load pinned ─▶ + own cores = the recipe
//!                                                                    the recipe without one, for each of them
//! ```
//! Where agents load, the load has machines of its own, and the ladder ends with the server's pinning.

use serde::{Deserialize, Serialize};

use super::scale::Missing;
use super::setups::{Arm, Step, step, whole};

/// Which of the ingredients that can be switched are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recipe {
    /// Clients send each request to the lane that owns its key; without it all come in at one shared port and are forwarded.
    pub routes: bool,
    /// A cpu for each lane; without it the kernel places the server's threads anywhere.
    pub server_pinned: bool,
    /// A cpu for each thread of the load.
    pub load_pinned: bool,
    /// Lanes on their share of the cpus, the load on the others; without it a lane for each cpu, and the load among them.
    pub own_cores: bool,
}

/// A switch, with its name.
type Switch = (&'static str, fn(&mut Recipe) -> &mut bool);

/// Of the switches, those that are the server's.
const SERVER_SWITCHES_COUNT: usize = 2;
/// In the order in which the ladder adds them: the server's first.
const SWITCHES: [Switch; 4] = [
    ("client routes", |recipe| &mut recipe.routes),
    ("server pinned", |recipe| &mut recipe.server_pinned),
    ("load pinned", |recipe| &mut recipe.load_pinned),
    ("own cores", |recipe| &mut recipe.own_cores),
];

/// The whole recipe's arm.
pub(crate) const FULL: &str = "full";
/// The start's.
pub(crate) const START: &str = "start";

/// What an arm of the ladder is called where it stands alone.
pub(super) fn name(arm: &str) -> &str {
    match arm {
        START => "start: one port, nothing pinned",
        FULL => "full: all that is switched here",
        rung => rung,
    }
}

/// Every set-up of the ladder, each once, with its arm's name: the start, a rung for each ingredient, the whole, and the whole
/// without each. With one lane nothing is forwarded, so the whole without routes is the whole, and left out.
pub fn recipes(own_lanes_count: u32, has_agents: bool) -> Vec<(String, Recipe)> {
    let mut recipes = vec![(START.to_owned(), Recipe::default())];
    let mut recipe = Recipe::default();
    for (name, switch) in switches(has_agents) {
        *switch(&mut recipe) = true;
        recipes.push((format!("+ {name}"), recipe));
    }
    if let Some((name, _)) = recipes.last_mut() {
        FULL.clone_into(name);
    }
    for (name, switch) in switches(has_agents) {
        let mut without = recipe;
        *switch(&mut without) = false;
        let is_known = recipes.iter().any(|(_, known)| *known == without);
        let is_void = !without.routes && own_lanes_count == 1;
        if !is_known && !is_void {
            recipes.push((format!("- {name}"), without));
        }
    }
    recipes
}

/// Those of the ladder.
fn switches(has_agents: bool) -> &'static [Switch] {
    if has_agents { &SWITCHES[..SERVER_SWITCHES_COUNT] } else { &SWITCHES }
}

/// What is compared with what: the start with the whole first, then each rung with the one below, then the whole with itself less
/// one ingredient, then a peer with the whole.
pub fn steps(recipes: &[(String, Recipe)], has_agents: bool, peer: Option<&Arm>) -> Vec<Step> {
    let switches = switches(has_agents);
    let mut steps = vec![whole("whole recipe", START, FULL, &[0, 1, 2])];
    let rungs = &recipes[..=switches.len()];
    for (pair, (name, _)) in rungs.windows(2).zip(switches) {
        steps.push(step(&format!("+ {name}"), &pair[0].0, &pair[1].0));
    }
    let full = rungs[switches.len()].1;
    for (name, switch) in switches {
        let mut without = full;
        *switch(&mut without) = false;
        // The last rung's own step has said it already.
        if let Some((arm, _)) = recipes[rungs.len()..].iter().find(|(_, known)| *known == without) {
            steps.push(step(&format!("whole less {name}"), FULL, arm));
        }
    }
    steps.extend(peer.map(|peer| step("peer to whole", &peer.arm, FULL)));
    steps
}

/// What becomes of an ingredient here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// In every set-up of this server.
    Always,
    /// Switched by the ladder.
    Switched,
    /// Not to be had here.
    Missing,
}

/// One of the ten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ingredient {
    /// 1 to 10, as published.
    pub number: u32,
    /// What it is.
    pub name: String,
    /// What becomes of it.
    pub state: State,
    /// How, or why not.
    pub why: String,
}

/// The ten, with what becomes of each.
pub fn ingredients(has_agents: bool) -> Vec<Ingredient> {
    use State::{Always, Missing, Switched};
    let [cores, interrupts, memory] = if has_agents {
        [
            "server pinned; the load is on other machines",
            "this command sets none, and leaves what was set before",
            "one address, and no memory is chosen for the card's sake: no source routing",
        ]
    } else {
        [
            "server pinned, load pinned, own cores: one after the other",
            "loopback has no card, so no queues and no interrupts",
            "one address and no card: no memory near a card, no source routing",
        ]
    };
    let list = [
        ("shared nothing", Always, "lanes share no data"),
        ("working set in memory", Always, "data lives in memory only"),
        ("look-ups dead simple", Always, "parsed, looked up and answered in one turn of one thread"),
        (
            "data isolation, clients route",
            Switched,
            "client routes: the owning lane's port, or one shared port that forwards",
        ),
        ("a modern kernel", Always, "the kernel of this machine, in the environment of the result"),
        ("C for control", Always, "Rust: as much control, no garbage collector"),
        ("epoll, one loop per thread", Always, "each lane is one loop"),
        ("a pinned thread per core, nothing else there", Switched, cores),
        ("interrupts spread by affinity", Missing, interrupts),
        ("a socket's card, cores and memory as one machine", Missing, memory),
    ];
    (1..)
        .zip(list)
        .map(|(number, (name, state, why))| Ingredient {
            number,
            name: name.to_owned(),
            state,
            why: why.to_owned(),
        })
        .collect()
}

/// The ingredients that can't be had, as things that are missing.
pub(super) fn missing(has_agents: bool) -> Vec<Missing> {
    let ingredients =
        ingredients(has_agents).into_iter().filter(|ingredient| ingredient.state == State::Missing);
    ingredients
        .map(|ingredient| Missing {
            what: format!("ingredient {}: {}", ingredient.number, ingredient.name),
            why: ingredient.why,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(recipes: &[(String, Recipe)]) -> Vec<&str> {
        recipes.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn each_set_up_of_the_ladder_runs_once() {
        let many = recipes(3, false);
        assert_eq!(
            names(&many),
            [
                "start",
                "+ client routes",
                "+ server pinned",
                "+ load pinned",
                "full",
                "- client routes",
                "- server pinned",
                "- load pinned"
            ]
        );
        let all = Recipe { routes: true, server_pinned: true, load_pinned: true, own_cores: true };
        assert_eq!((many[0].1, many[4].1), (Recipe::default(), all));
        assert_eq!(many[5].1, Recipe { routes: false, ..all });
        assert_eq!(names(&recipes(1, false)).len(), 7, "one lane forwards nothing");
        let from_agents = recipes(3, true);
        assert_eq!(names(&from_agents), ["start", "+ client routes", "full", "- client routes"]);
        assert_eq!(from_agents[2].1, Recipe { routes: true, server_pinned: true, ..Recipe::default() });
        let named: Vec<String> = steps(&from_agents, true, None).into_iter().map(|step| step.name).collect();
        assert_eq!(named, ["whole recipe", "+ client routes", "+ server pinned", "whole less client routes"]);
    }

    #[test]
    fn each_step_switches_one_thing() {
        let recipes = recipes(2, false);
        let on = |arm: &str| {
            let recipe = recipes.iter().find(|(name, _)| name == arm).unwrap().1;
            SWITCHES.map(|(_, switch)| *switch(&mut recipe.clone()))
        };
        let steps = steps(&recipes, false, None);
        assert_eq!((steps[0].from.as_str(), steps[0].to.as_str()), ("start", "full"));
        for step in &steps[1..] {
            let (from, to) = (on(&step.from), on(&step.to));
            let differing: Vec<usize> = (0..SWITCHES.len()).filter(|at| from[*at] != to[*at]).collect();
            let [at] = differing[..] else { panic!("{step:?}") };
            assert!(step.name.contains(SWITCHES[at].0), "{step:?}");
            assert_eq!(step.name.starts_with('+'), to[at], "{step:?}");
        }
        assert_eq!(steps.len(), 1 + 4 + 3);
        let peer = Arm { arm: "peer".to_owned(), name: "redis-server".to_owned(), ..Arm::default() };
        let last = super::steps(&recipes, false, Some(&peer)).pop().unwrap();
        assert_eq!((last.from.as_str(), last.to.as_str()), ("peer", "full"));
    }

    #[test]
    fn ten_ingredients_each_with_its_fate() {
        let ingredients = ingredients(false);
        assert_eq!(ingredients.iter().map(|it| it.number).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
        assert_eq!((missing(false).len(), missing(true).len()), (2, 2));
        assert!(
            missing(true).iter().all(|it| !it.why.contains("no card")),
            "one may lie between two machines"
        );
        assert!(missing(false)[0].what.starts_with("ingredient 9"));
    }
}
