//! Plans for machines that were written down from drivers' sources, or read in a guest (`tests/vm`), kept as text: what a change of the planner changes is seen.
//!
//! With `EXPRESSLANE_WRITE_PLANS=1` the texts are written anew.

use std::fmt::Write as _;

use host::{Facts, Plan, Setting, Spec, Step, plan};

use super::{facts, folder, wish};

/// A machine, and a wish for it. A plan's file is called after both.
pub(crate) const PLANS: &[(&str, &str)] = &[
    ("e810-ice", "redis-94"),
    ("e810-ice", "rates"),
    ("e810-ice", "aerospike"),
    ("e810-ice-oot", "aerospike-2"),
    ("e810-ice-oot", "threaded"),
    ("e810-ice-1", "threaded"),
    ("e810-ice-1", "redis-4"),
    ("e810-iavf", "threaded"),
    ("e810-iavf", "redis-4"),
    ("connectx-mlx5", "redis-4"),
    ("connectx-mlx5", "aerospike"),
    ("connectx-mlx5", "sends"),
    ("x710-i40e", "redis-4"),
    ("x710-i40e", "aerospike-rates"),
    ("x710-i40e", "redis-94"),
    ("82599-ixgbe", "redis-10"),
    ("82599-ixgbe", "aerospike"),
    ("ena", "whole"),
    ("ena", "redis-4"),
    ("gvnic", "redis-4"),
    ("gvnic", "rates"),
    ("virtio", "whole"),
    ("virtio", "process"),
    ("virtio-guest", "whole"),
    ("virtio-guest", "process"),
    ("veth", "soft"),
    ("veth", "soft-shared"),
    ("veth", "process"),
    ("veth", "wake"),
    ("virtio", "wake"),
];

/// One line a step, with what a reader of a change wants to see.
fn snapshot(spec: &Spec, facts: &Facts) -> String {
    let mut text = String::new();
    let plan = match plan::plan(spec, facts) {
        Ok(plan) => plan,
        Err(problems) => {
            problems.iter().for_each(|problem| writeln!(text, "refused: {problem}").unwrap());
            return text;
        }
    };
    for lane in &plan.lanes {
        writeln!(text, "lane {}", serde_json::to_string(lane).unwrap()).unwrap();
    }
    plan.notes.iter().for_each(|note| writeln!(text, "note: {note}").unwrap());
    for step in &plan.steps {
        let value = |it: &Option<host::Setting>| it.as_ref().map_or("-".to_owned(), |it| format!("[{it}]"));
        let (have, want) = (value(&step.have), value(&step.want));
        let change = if step.has_work() { format!("{have} -> {want}") } else { format!("{want} already") };
        let risks = serde_json::to_string(&step.risks).unwrap();
        let risks = if step.risks.is_empty() { String::new() } else { format!("  {risks}") };
        let disturbs = step.disturbs.len();
        let disturbs = if disturbs > 0 { format!("  disturbs {disturbs}") } else { String::new() };
        writeln!(text, "{}: {change}{risks}{disturbs}", step.knob).unwrap();
    }
    text
}

fn compare(name: &str, text: &str) {
    let path = folder().join(name);
    if std::env::var_os("EXPRESSLANE_WRITE_PLANS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = kept.lines().zip(text.lines()).enumerate().find(|(_, (kept, now))| kept != now);
    assert!(
        kept == text,
        "{name} is another plan now: {difference:?} (of {} and {} lines). If it shall be, write it anew with \
         EXPRESSLANE_WRITE_PLANS=1 and look at what has changed.",
        kept.lines().count(),
        text.lines().count()
    );
}

#[test]
fn machines_have_the_plans_that_are_kept() {
    for (machine, wish_name) in PLANS {
        compare(&format!("{machine}.{wish_name}.plan"), &snapshot(&wish(wish_name), &facts(machine)));
    }
}

#[test]
fn a_plan_is_read_on_a_page_of_80_columns() {
    for (machine, wish_name) in PLANS {
        let facts = facts(machine);
        let Ok(plan) = plan::plan(&wish(wish_name), &facts) else { continue };
        let text = plan.text(&facts, false) + &plan.text(&facts, true);
        for line in text.lines().filter(|line| line.chars().count() > 80) {
            assert!(line.trim().split(' ').count() <= 2, "a line that could be shorter: {line}");
        }
        assert!(!text.contains(" \n"), "blanks at a line's end");
    }
    for (machine, wish_name) in
        [("virtio", "whole"), ("e810-ice", "redis-94"), ("e810-ice-oot", "aerospike-2")]
    {
        let facts = facts(machine);
        let plan = plan::plan(&wish(wish_name), &facts).unwrap();
        compare(&format!("{machine}.{wish_name}.txt"), &plan.text(&facts, false));
    }
}

/// What is said of a machine and its lanes before any of it is done.
#[test]
fn machines_have_the_judgements_that_are_kept() {
    for (machine, wish_name) in
        [("x710-i40e", "aerospike-rates"), ("e810-ice-1", "threaded"), ("e810-iavf", "threaded")]
    {
        let facts = facts(machine);
        let plan = plan::plan(&wish(wish_name), &facts).unwrap();
        let report = host::check::check(&facts, Some((&plan, "lanes.toml")));
        compare(&format!("{machine}.{wish_name}.check"), &report.text());
    }
}

/// What is folded can be told from the line: as many steps, and each number that a step had.
#[test]
fn a_folded_plan_counts_as_many_steps() {
    for (machine, wish_name) in PLANS {
        let facts = facts(machine);
        let Ok(plan) = plan::plan(&wish(wish_name), &facts) else { continue };
        let count = plan.steps.iter().filter(|step| step.has_work()).count();
        let numbers = |text: &str| -> Vec<usize> {
            let first = |line: &str| line.split_once(". ")?.0.trim().rsplit('-').next()?.parse().ok();
            text.lines().skip_while(|line| !line.starts_with("Steps")).filter_map(first).collect()
        };
        let (short, long) = (plan.text(&facts, false), plan.text(&facts, true));
        assert_eq!(numbers(&long), (1..=count).collect::<Vec<_>>(), "{machine} {wish_name}");
        assert_eq!(numbers(&short).last().copied().unwrap_or(0), count, "{machine} {wish_name}: {short}");
        assert!(short.lines().count() < 600, "{machine} {wish_name} has {} lines", short.lines().count());
    }
}

#[test]
fn steps_of_several_cards_are_not_told_together() {
    let lines_of = |knob: fn(u32) -> String| {
        let step = |n| Step {
            knob: knob(n).parse().unwrap(),
            have: None,
            want: Some(Setting::new("on")),
            why: "as is wished".to_owned(),
            risks: Vec::new(),
            disturbs: Vec::new(),
        };
        let plan = Plan { steps: (1..=9).map(step).collect(), ..Plan::default() };
        plan.text(&Facts::default(), false).matches("undo: ").count()
    };
    assert_eq!(lines_of(|n| format!("nic/ens1/queue/{n}/irq")), 1);
    assert_eq!(lines_of(|n| format!("nic/ens{n}/feature/rx-gro")), 9);
}

#[test]
fn a_moderation_of_which_a_driver_knows_nothing_is_no_step() {
    let check = |moderation: &str, want: usize| {
        let wish = format!(
            "[[nic]]\nname = 'ens1'\n[[lane]]\nname = 'a'\nports = 6379\nmoderation = {{ {moderation} }}\n"
        );
        let plan = plan::plan(&Spec::parse(&wish).unwrap(), &facts("gvnic")).unwrap();
        let is_moderation = |step: &&Step| step.knob.to_string().ends_with("coalesce");
        assert_eq!(plan.steps.iter().filter(is_moderation).count(), want, "{moderation}");
        let said = "the driver gve has no adaptive-rx, so that is left out (lane a: fixed moderation); it has rx-usecs, tx-usecs";
        assert!(plan.notes.iter().any(|note| note.contains(said)), "{:#?}", plan.notes);
    };
    check("adaptive-rx = false, rx-usecs = 50", 1);
    check("adaptive-rx = false", 0);
}

/// What [host] says of moderation is for those who say nothing of it.
#[test]
fn the_machines_moderation_is_that_of_queues_without_their_own() {
    let check = |machine: &str, nic: &str, lane: &str, want: &str| {
        let wish = format!(
            "[host]\nmoderation = {{ rx-usecs = 7 }}\n[default]\nqueues = 1\n[[nic]]\nname = 'ens1'\n{nic}\n\
             [[lane]]\nname = 'a'\nports = '1-2'\nmode = 'one-queue-per-port'\n{lane}\n"
        );
        let plan = plan::plan(&Spec::parse(&wish).unwrap(), &facts(machine)).unwrap();
        let steps = plan.steps.iter().filter(|step| step.knob.to_string().ends_with("coalesce"));
        let said = |step: &Step| {
            let knob = step.knob.to_string();
            let words: Vec<&str> = step.want.as_ref().unwrap().as_str().split(' ').collect();
            let at = words.iter().position(|word| *word == "rx-usecs").unwrap();
            format!("{} {}", knob.trim_start_matches("nic/ens1/"), words[at + 1])
        };
        assert_eq!(steps.map(said).collect::<Vec<_>>().join(", "), want, "{machine} {nic} {lane}");
    };
    let five = "moderation = { rx-usecs = 5 }";
    // The lane's queues 1 and 2 come before the one that no lane has.
    for (nic, lane, [of_lane, of_other]) in [("", "", [7, 7]), ("", five, [5, 7]), (five, "", [7, 5])] {
        let want =
            [(1, of_lane), (2, of_lane), (0, of_other)].map(|(n, us)| format!("queue/{n}/coalesce {us}"));
        check("e810-ice", nic, lane, &want.join(", "));
    }
    for (nic, lane, want) in [("", "", "coalesce 7"), ("", five, "coalesce 5"), (five, "", "coalesce 5")] {
        check("gvnic", nic, lane, want);
    }
}

#[test]
fn every_machine_and_every_wish_is_used() {
    let mut names = Vec::new();
    for entry in
        std::fs::read_dir(folder()).unwrap().chain(std::fs::read_dir(folder().join("wishes")).unwrap())
    {
        names.push(entry.unwrap().file_name().into_string().unwrap());
    }
    for name in &names {
        let used = match name.rsplit_once('.') {
            Some((machine, "json")) => PLANS.iter().any(|(it, _)| *it == machine),
            Some((wish, "toml")) => PLANS.iter().any(|(_, it)| *it == wish),
            Some((plan, "plan")) => PLANS.iter().any(|(machine, wish)| format!("{machine}.{wish}") == plan),
            _ => true,
        };
        assert!(used, "{name} is nobody's");
    }
}

#[test]
fn every_example_has_a_plan_on_a_card_that_can() {
    let facts = facts("e810-ice");
    for name in host::spec::EXAMPLES {
        let spec = Spec::parse(host::spec::example(name).unwrap()).unwrap();
        let plan = plan::plan(&spec, &facts).unwrap_or_else(|problems| panic!("{name}: {problems:#?}"));
        assert!(plan.steps.iter().any(host::Step::has_work), "{name}");
    }
}
