//! The recipes of docs/lanes.md are files that machines can have.

use host::spec::BackendWish;
use host::{Spec, plan};

use super::facts;

const DOCS: &str = include_str!("../../../../docs/lanes.md");

#[test]
fn recipes_are_planned_on_cards_that_steer() {
    let recipes = DOCS.split_once("\n## Recipes\n").expect("the section").1;
    let recipes = recipes.split_once("\n## ").expect("another section").0;
    let files: Vec<&str> =
        recipes.split("```toml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    assert_eq!(files.len(), 3);
    for machine in ["e810-ice", "connectx-mlx5"] {
        let mut found = Vec::new();
        for file in &files {
            let spec = Spec::parse(file).unwrap_or_else(|problems| panic!("{file}: {problems:#?}"));
            let plan =
                plan::plan(&spec, &facts(machine)).unwrap_or_else(|problems| panic!("{file}: {problems:#?}"));
            for lane in plan.lanes {
                let steers = [BackendWish::TcChannel, BackendWish::RssNtuple].contains(&lane.backend);
                assert!(steers, "{machine}, {}: {:?}", lane.name, lane.backend);
                found.push((lane.name, lane.queues.count(), lane.cores.count()));
            }
        }
        let found: Vec<_> =
            found.iter().map(|(name, queues, cores)| (name.as_str(), *queues, *cores)).collect();
        assert_eq!(
            found,
            [("redis", 4, 4), ("aerospike", 8, 8), ("fabric", 2, 2), ("memcached", 4, 4)],
            "{machine}"
        );
    }
}
