//! The ten ingredients (E5): which this program can switch, one at a time, and what becomes of the others.
//!
//! ```text
//! shared port, nothing pinned ─▶ + routes ─▶ + server pinned ─▶ + load pinned ─▶ + own cores = the recipe
//!                                                                    the recipe without one, for each of them
//! ```

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

/// In the order in which the ladder adds them.
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

/// Every set-up of the ladder, each once, with its arm's name: the start, a rung for each ingredient, the whole, and the whole
/// without each. With one lane nothing is forwarded, so the whole without routes is the whole, and left out.
pub fn recipes(own_lanes_count: u32) -> Vec<(String, Recipe)> {
    let mut recipes = vec![(START.to_owned(), Recipe::default())];
    let mut recipe = Recipe::default();
    for (name, switch) in SWITCHES {
        *switch(&mut recipe) = true;
        recipes.push((format!("+ {name}"), recipe));
    }
    if let Some((name, _)) = recipes.last_mut() {
        FULL.clone_into(name);
    }
    for (name, switch) in SWITCHES {
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

/// What is compared with what: the start with the whole first, then each rung with the one below, then the whole with itself less
/// one ingredient, then a peer with the whole.
pub fn steps(recipes: &[(String, Recipe)], peer: Option<&Arm>) -> Vec<Step> {
    let mut steps = vec![whole("whole recipe", START, FULL, &[0, 1, 2])];
    let rungs = &recipes[..=SWITCHES.len()];
    for (pair, (name, _)) in rungs.windows(2).zip(SWITCHES) {
        steps.push(step(&format!("+ {name}"), &pair[0].0, &pair[1].0));
    }
    let full = rungs[SWITCHES.len()].1;
    for (name, switch) in SWITCHES {
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
pub fn ingredients() -> Vec<Ingredient> {
    use State::{Always, Missing, Switched};
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
        (
            "a pinned thread per core, nothing else there",
            Switched,
            "server pinned, load pinned, own cores: one after the other",
        ),
        ("interrupts spread by affinity", Missing, "loopback has no card, so no queues and no interrupts"),
        (
            "a socket's card, cores and memory as one machine",
            Missing,
            "one address and no card: no memory near a card, no source routing",
        ),
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
pub(super) fn missing() -> Vec<Missing> {
    let ingredients = ingredients().into_iter().filter(|ingredient| ingredient.state == State::Missing);
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
        let many = recipes(3);
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
        assert_eq!(names(&recipes(1)).len(), 7, "one lane forwards nothing");
    }

    #[test]
    fn each_step_switches_one_thing() {
        let recipes = recipes(2);
        let on = |arm: &str| {
            let recipe = recipes.iter().find(|(name, _)| name == arm).unwrap().1;
            SWITCHES.map(|(_, switch)| *switch(&mut recipe.clone()))
        };
        let steps = steps(&recipes, None);
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
        let last = super::steps(&recipes, Some(&peer)).pop().unwrap();
        assert_eq!((last.from.as_str(), last.to.as_str()), ("peer", "full"));
    }

    #[test]
    fn ten_ingredients_each_with_its_fate() {
        let ingredients = ingredients();
        assert_eq!(ingredients.iter().map(|it| it.number).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
        assert_eq!(missing().len(), 2);
        assert!(missing()[0].what.starts_with("ingredient 9"));
    }
}
