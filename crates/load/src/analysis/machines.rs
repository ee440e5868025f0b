//! The machines of a result two by two, and what differs between them beside what was declared: the one judge of that, for
//! claims, doubts and tables alike. Of a result that was cut there may be one alone.

use std::collections::BTreeSet;

use crate::environment::{Environment, Row, changed, difference, unexplained};
use crate::result::{Run, Saved, Surroundings};

/// The items that tell the server's program: what two set-ups are compared for.
const SERVER_PROGRAM: &str = "programs/server *";

/// Two captures that should be alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// What the first capture is of, as in `A's client`.
    pub first: String,
    /// And the second. None: there is no other yet.
    pub second: Option<String>,
    /// Thing by thing.
    pub rows: Vec<Row>,
}

impl Machines {
    /// All of a result, the client's side first, then host by host: beside A and beside B where both were captured, else at the
    /// start and at the end, and without an end at the start. `may_differ` are the factors that were declared, as [`difference()`] takes them.
    pub fn of(saved: &Saved, may_differ: &[String]) -> Vec<Machines> {
        Machines::of_hosts(saved, may_differ, |_| true)
    }

    /// Only those of agents: the machine that the result was written on has no name in it.
    pub fn of_agents(saved: &Saved) -> Vec<Machines> {
        Machines::of_hosts(saved, &[], |host| !host.is_empty())
    }

    fn of_hosts(saved: &Saved, may_differ: &[String], is_wanted: fn(&str) -> bool) -> Vec<Machines> {
        let hosts = saved.surroundings.iter().map(|one| one.host.as_str()).filter(|host| is_wanted(host));
        let hosts: BTreeSet<&str> = hosts.collect();
        let places =
            ["client", "server"].into_iter().flat_map(|side| hosts.iter().map(move |host| (side, *host)));
        places.filter_map(|(side, host)| of_place(saved, side, host, may_differ)).collect()
    }

    /// What the two are of, or the one.
    pub fn title(&self) -> String {
        [Some(&self.first), self.second.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
            .collect::<Vec<_>>()
            .join(" and ")
    }

    /// The rows that withhold a claim.
    pub fn unexplained(&self) -> impl Iterator<Item = &Row> {
        unexplained(&self.rows)
    }
}

/// What differs beside two set-ups. The server's program is what they are compared for, and may always differ.
pub fn between_setups(a: &Environment, b: &Environment, may_differ: &[String]) -> Vec<Row> {
    let declared: Vec<&str> = may_differ.iter().map(String::as_str).chain([SERVER_PROGRAM]).collect();
    difference(a, b, &declared)
}

/// What one capture holds, with nothing beside it.
pub fn alone(environment: &Environment) -> Vec<Row> {
    let mut rows = difference(environment, environment, &[] as &[&str]);
    rows.iter_mut().for_each(|row| row.b = None);
    rows
}

/// The run that surroundings were captured before or behind.
pub(crate) fn run_of<'a>(saved: &'a Saved, one: &Surroundings) -> Option<&'a Run> {
    saved.runs.iter().find(|run| Some(run.head.run) == one.run)
}

fn of_place(saved: &Saved, side: &str, host: &str, may_differ: &[String]) -> Option<Machines> {
    let read = |one: &Surroundings| serde_json::from_value::<Environment>(one.environment.clone()).ok();
    let here = || saved.surroundings.iter().filter(|one| one.side == side && one.host == host);
    let of_arm = |arm: &str| {
        here().find(|one| run_of(saved, one).is_some_and(|run| run.head.arm == arm)).and_then(read)
    };
    let name = if host.is_empty() { side.to_owned() } else { format!("{side} {host}") };
    if let (Some(a), Some(b)) = (of_arm("a"), of_arm("b")) {
        let rows = between_setups(&a, &b, may_differ);
        return Some(Machines { first: format!("A's {name}"), second: Some(format!("B's {name}")), rows });
    }
    let start = here().find(|one| one.at == "start").and_then(read)?;
    let end = here().rfind(|one| one.at == "end").and_then(read).or_else(|| {
        // Of a machine that is looked at after each run what changed is in the run's end.
        let start = here().rfind(|one| one.at == "start").and_then(read)?;
        let last = saved.runs.iter().rev().find_map(|run| run.end.as_ref());
        let is_own = side == "client" && host.is_empty();
        last.filter(|_| is_own).map(|end| changed(&start, &end.machine_changes))
    });
    let (second, rows) = match end {
        Some(end) => (Some("at the end".to_owned()), difference(&start, &end, may_differ)),
        None => (None, alone(&start)),
    };
    Some(Machines { first: format!("the {name} at the start"), second, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::RunHead;

    /// Two items of a machine, of which one is of the server's program.
    fn machine(side: &str, host: &str, at: &str, run: Option<u32>, values: [&str; 2]) -> Surroundings {
        let item = |name: &str, value| serde_json::json!({"name": name, "value": value, "expected": "equal"});
        let environment = serde_json::json!({"groups": [
            {"name": "processor", "items": [item("governor", values[0])]},
            {"name": "programs", "items": [item("server sha256", values[1]), item("load sha256", "l")]},
        ]});
        let [side, host, at] = [side, host, at].map(str::to_owned);
        Surroundings { side, host, at, run, environment }
    }

    /// Run 0 is A's and run 1 is B's. Wanted: each two machines, and the names of what nobody declared.
    fn check(surroundings: Vec<Surroundings>, may_differ: &[&str], want: &[(&str, &str, &[&str])]) {
        let run = |(run, arm): (u32, &str)| Run {
            head: RunHead { run, arm: arm.to_owned(), ..RunHead::default() },
            ..Run::default()
        };
        let saved = Saved { surroundings, runs: [(0, "a"), (1, "b")].map(run).to_vec(), ..Saved::default() };
        let may_differ: Vec<String> = may_differ.iter().map(|&factor| factor.to_owned()).collect();
        let machines = Machines::of(&saved, &may_differ);
        let got: Vec<(&str, &str, Vec<&str>)> = machines
            .iter()
            .map(|it| {
                let names = it.unexplained().map(|row| row.name.as_str()).collect();
                (it.first.as_str(), it.second.as_deref().unwrap_or("alone"), names)
            })
            .collect();
        let want: Vec<_> =
            want.iter().map(|(first, second, names)| (*first, *second, names.to_vec())).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn the_servers_program_may_differ_between_set_ups_and_nothing_else_unless_declared() {
        let both = |a, b| {
            vec![machine("client", "", "start", Some(0), a), machine("client", "", "start", Some(1), b)]
        };
        let found = |names: &'static [&'static str]| ("A's client", "B's client", names);
        check(both(["x", "1"], ["x", "2"]), &[], &[found(&[])]);
        check(both(["x", "1"], ["y", "2"]), &[], &[found(&["governor"])]);
        check(both(["x", "1"], ["y", "2"]), &["governor"], &[found(&[])]);
    }

    #[test]
    fn a_program_that_changes_under_one_set_up_is_unexplained() {
        let ends = |end| {
            vec![machine("server", "h", "start", None, ["x", "1"]), machine("server", "h", "end", None, end)]
        };
        let found = |names: &'static [&'static str]| ("the server h at the start", "at the end", names);
        check(ends(["x", "1"]), &[], &[found(&[])]);
        check(ends(["x", "2"]), &[], &[found(&["server sha256"])]);
        check(ends(["y", "2"]), &["server*"], &[found(&["governor"])]);
    }

    #[test]
    fn every_side_and_host_is_looked_at() {
        let surroundings = vec![
            machine("client", "h", "start", None, ["x", "1"]),
            machine("client", "", "start", Some(0), ["x", "1"]),
            machine("server", "", "start", Some(0), ["x", "1"]),
            machine("server", "", "start", Some(1), ["y", "1"]),
            machine("client", "", "start", Some(1), ["x", "1"]),
            machine("client", "h", "end", None, ["z", "1"]),
        ];
        let want: &[(&str, &str, &[&str])] = &[
            ("A's client", "B's client", &[]),
            ("the client h at the start", "at the end", &["governor"]),
            ("A's server", "B's server", &["governor"]),
        ];
        let saved = Saved { surroundings: surroundings.clone(), ..Saved::default() };
        let agents = Machines::of_agents(&saved);
        assert_eq!(
            agents.iter().map(|it| it.first.as_str()).collect::<Vec<_>>(),
            ["the client h at the start"]
        );
        check(surroundings, &[], want);
    }

    /// Nothing can be held against it, and nothing is said to be the same.
    #[test]
    fn a_capture_may_be_alone() {
        let found: &[(&str, &str, &[&str])] = &[("the client at the start", "alone", &[])];
        let first = machine("client", "", "start", Some(0), ["x", "1"]);
        check(vec![first.clone()], &[], found);
        // The other one can't be read.
        let mut broken = machine("client", "", "start", Some(1), ["x", "1"]);
        broken.environment = serde_json::json!("?");
        check(vec![first.clone(), broken.clone()], &[], found);
        check(vec![broken], &[], &[]);
        let environment = serde_json::from_value(first.environment).unwrap();
        let rows: Vec<(String, Option<String>, Option<String>)> =
            alone(&environment).into_iter().map(|row| (row.name, row.a, row.b)).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0], ("governor".to_owned(), Some("x".to_owned()), None));
    }
}
