//! What a lane of a file gives to a program: cores, memory near them, a nice value.

use std::path::Path;

use host::{Cpus, Facts, Plan, Spec};

use crate::lanes::{Wanted, machine};

/// What a program gets of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gifts {
    /// The lane's cores, or those of them that were asked for.
    pub(super) cpus: Cpus,
    /// The memory node of all of them, where there are several nodes.
    pub(super) mem_node: Option<u32>,
    /// The nice value of the lane's processes.
    pub(super) nice: Option<i32>,
}

/// Plans the file for this machine and finds the lane in it; without a file the wish that is in force. `narrowed` are cpus of
/// the lane's to which the program is to keep, such as one for each of several instances.
pub(super) fn gifts(
    name: &str,
    file: Option<&Path>,
    state: &Path,
    narrowed: Option<&Cpus>,
) -> Result<Gifts, String> {
    let wanted = match file {
        Some(file) => Wanted::read(file, None),
        None => machine().and_then(|(_, boot)| Wanted::in_force(state, &boot)),
    };
    let wanted = wanted.map_err(|trouble| trouble.problem.lines().collect::<Vec<_>>().join("; "))?;
    of_lane(name, &wanted.spec, &wanted.plan, &wanted.facts, narrowed)
}

fn of_lane(
    name: &str,
    spec: &Spec,
    plan: &Plan,
    facts: &Facts,
    narrowed: Option<&Cpus>,
) -> Result<Gifts, String> {
    let lane = plan.lanes.iter().find(|lane| lane.name == name).ok_or_else(|| {
        let names: Vec<&str> = plan.lanes.iter().map(|lane| lane.name.as_str()).collect();
        format!("there is no lane '{name}'; there are {}", names.join(", "))
    })?;
    if lane.cores.is_empty() {
        return Err(format!("the lane '{name}' has no cores; give it `cores`"));
    }
    let cpus = narrowed.unwrap_or(&lane.cores).clone();
    if !cpus.is_within(&lane.cores) {
        return Err(format!("--cpus {cpus} are not all of the lane '{name}', which has {}", lane.cores));
    }
    let node_of = |cpu: u32| facts.cpus.iter().find(|it| it.id == cpu).map(|it| it.node);
    let first = cpus.first().and_then(node_of);
    let is_one = cpus.iter().all(|cpu| node_of(cpu) == first);
    let are_several = facts.cpus.iter().any(|cpu| Some(cpu.node) != first);
    let nice = spec.lanes.iter().find(|lane| lane.name == name).and_then(|lane| lane.nice);
    Ok(Gifts { cpus, mem_node: first.filter(|_| is_one && are_several), nice })
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::facts::Cpu;

    /// Eight cpus on two nodes, and a lane on some of them.
    fn check(cores: &str, narrowed: Option<&str>, want: Result<(&str, Option<u32>, Option<i32>), &str>) {
        let text = format!(
            "[[lane]]\nname = \"redis\"\nports = 6379\ncores = \"{cores}\"\nnice = -5\nprocess = {{ name = \"redis-server\" }}\n"
        );
        let spec = Spec::parse(&text).unwrap();
        let cpu = |id| Cpu { id, core: id, node: id / 4, package: id / 4, ..Cpu::default() };
        let facts = Facts { cpus: (0..8).map(cpu).collect(), ..Facts::default() };
        let plan = host::plan::plan(&spec, &facts).unwrap();
        let narrowed = narrowed.map(|list| list.parse().unwrap());
        match (of_lane("redis", &spec, &plan, &facts, narrowed.as_ref()), want) {
            (Ok(gifts), Ok((cpus, mem_node, nice))) => {
                assert_eq!(gifts, Gifts { cpus: cpus.parse().unwrap(), mem_node, nice }, "{cores}");
            }
            (Err(problem), Err(part)) => assert!(problem.contains(part), "{problem}"),
            (got, want) => panic!("{cores}: {got:?} instead of {want:?}"),
        }
        let problem = of_lane("asd", &spec, &plan, &facts, None).unwrap_err();
        assert!(problem.contains("no lane 'asd'; there are redis"), "{problem}");
    }

    #[test]
    fn a_program_gets_the_lanes_cores_and_the_memory_near_them() {
        check("2-3", None, Ok(("2-3", Some(0), Some(-5))));
        check("5", None, Ok(("5", Some(1), Some(-5))));
        check("3-4", None, Ok(("3-4", None, Some(-5))));
        check("3-4", Some("4"), Ok(("4", Some(1), Some(-5))));
        check("2-3", Some("2,4"), Err("--cpus 2,4 are not all of the lane 'redis', which has 2-3"));
    }
}
