//! Facts as people look at them: each card's queues, who polls them, where their interrupts go, and whose lane that is. Pure.
//!
//! ```text
//! ens1  ice, 100 Gbit/s, node 0, 0000:17:00.0
//!   10.0.0.1/24; 8 of 96 queues; hw-tc-offload on; root mq
//!   queues  NAPI       interrupts  cpus         polled by  lane
//!   0-3     8193-8196  64-67       0-3 in turn  interrupt  default
//!   4-7     8197-8200  68-71       4-7 in turn  interrupt  redis
//! ```
//! Queues that follow one another and differ in nothing but numbers that count up are one row.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Facts, Nic, Queue};
use crate::cpus::Cpus;
use crate::plan::Placed;

/// No line is longer.
pub const WIDTH: usize = 80;

/// Features that decide what a card can do for lanes, by the kernel's names.
const ABILITIES: &[&str] = &["hw-tc-offload", "rx-ntuple-filter", "rx-gro"];

/// Rights that lanes take, and what for.
const RIGHTS: &[(&str, &str)] = &[
    ("net_admin", "cards, queueing, filters, routes"),
    ("sys_nice", "affinity and priority of others' threads"),
    ("bpf", "programs that choose queues, and those that count"),
    ("sys_admin", "control groups, sysctls that are not of the network"),
];

/// The whole picture, a line's end at its end. Lanes are shown where a plan has placed some.
#[must_use]
pub fn drawing(facts: &Facts, lanes: &[Placed]) -> String {
    let mut out = String::new();
    machine(&mut out, facts);
    for nic in &facts.nics {
        out.push('\n');
        card(&mut out, nic, lanes);
    }
    let without_queues: Vec<&Placed> = lanes.iter().filter(|lane| lane.queues.is_empty()).collect();
    if !without_queues.is_empty() {
        out.push('\n');
        for lane in without_queues {
            let card = match &lane.nic {
                Some(nic) => format!("no queue of {nic} is its own"),
                None => "no card".to_owned(),
            };
            wrapped(&mut out, "", "  ", &format!("lane {}: cores {}, {card}", lane.name, shown(&lane.cores)));
        }
    }
    limits(&mut out, facts);
    out
}

fn machine(out: &mut String, facts: &Facts) {
    let count = |number: fn(&super::Cpu) -> u32| {
        facts.cpus.iter().map(number).collect::<std::collections::BTreeSet<u32>>().len()
    };
    let mut text = format!(
        "Linux {}: {}, {}, {}",
        facts.kernel,
        counted(facts.cpus.len(), "cpu"),
        counted(count(|cpu| cpu.package), "package"),
        counted(count(|cpu| cpu.node), "node"),
    );
    let isolated: Cpus = facts.cpus.iter().filter(|cpu| cpu.isolated).map(|cpu| cpu.id).collect();
    if !isolated.is_empty() {
        let _ = write!(text, ", isolated {isolated}");
    }
    if let Some(driver) = &facts.idle_driver {
        let _ = write!(text, "; idle by {driver}");
    }
    let mut limits: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for cpu in &facts.cpus {
        if let Some(limit) = cpu.resume_latency_us.as_deref().filter(|limit| *limit != "0") {
            limits.entry(limit).or_default().push(cpu.id);
        }
    }
    for (limit, cpus) in limits {
        let _ = write!(text, "; resume-latency-us {limit} on cpu {}", Cpus::from_iter(cpus));
    }
    for daemon in facts.daemons.iter().filter(|daemon| daemon.running) {
        let how = if daemon.manageable { "" } else { " (not manageable here)" };
        let profile =
            daemon.profile.as_ref().map(|profile| format!(" with profile {profile}")).unwrap_or_default();
        let _ = write!(text, "; {} runs{profile}{how}", daemon.name);
    }
    if let Some(origin) = &facts.made_from {
        let _ = write!(text, "; made from {origin}");
    }
    wrapped(out, "", "  ", &text);
}

/// `1 cpu`, `2 cpus`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn card(out: &mut String, nic: &Nic, lanes: &[Placed]) {
    let mut words = vec![nic.driver.clone()];
    words.extend(nic.speed_mbit.map(|speed| match speed {
        _ if speed.is_multiple_of(1000) => format!("{} Gbit/s", speed / 1000),
        _ => format!("{speed} Mbit/s"),
    }));
    words.extend(nic.node.map(|node| format!("node {node}")));
    words.extend(nic.bus.clone());
    words.extend((!nic.up).then(|| "no link".to_owned()));
    words.extend(nic.master.as_ref().map(|master| format!("part of {master}")));
    words.extend(nic.managers.iter().map(|daemon| format!("managed by {daemon}")));
    words.extend(nic.xdp.then(|| "runs XDP".to_owned()));
    words.extend(nic.carries_session.then(|| "carries your session".to_owned()));
    wrapped(out, "", "  ", &format!("{}  {}", nic.name, words.join(", ")));
    wrapped(out, "  ", "  ", &abilities(nic).join("; "));
    let threads = nic.queues.iter().any(|queue| queue.napi_thread.is_some());
    let mut rows = vec![["queues", "NAPI", "interrupts", "cpus", "polled by", "lane"].map(str::to_owned)];
    let lane_of = |queue: &Queue| lane_of(nic, lanes, queue.index);
    for run in runs(&nic.queues, &lane_of) {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let span = |number: fn(&Queue) -> Option<u32>| match (number(first), number(last)) {
            (Some(first), Some(last)) if first != last => format!("{first}-{last}"),
            (Some(first), _) => first.to_string(),
            _ => "-".to_owned(),
        };
        let polled = match polling(first) {
            Some(_) => format!("threads on {}", in_turn(polling(first), polling(last))),
            None if threads || first.napi.is_some() => "interrupt".to_owned(),
            None => "-".to_owned(),
        };
        rows.push([
            span(|queue| Some(queue.index)),
            span(|queue| queue.napi),
            span(|queue| queue.irq),
            in_turn(goes_to(first), goes_to(last)),
            polled,
            lane_of(first),
        ]);
    }
    table(out, &rows);
}

/// What it has and can, a phrase each.
fn abilities(nic: &Nic) -> Vec<String> {
    let mut phrases = Vec::new();
    if !nic.addresses.is_empty() {
        phrases.push(nic.addresses.join(", "));
    }
    if let Some(channels) = &nic.channels {
        phrases.push(format!("{} of {} queues", channels.pairs(), channels.pairs_max()));
    }
    let mut features = Vec::new();
    for name in ABILITIES {
        let Some(feature) = nic.features.get(*name) else { continue };
        let fixed = if feature.fixed { " (fixed)" } else { "" };
        features.push(format!("{name} {}{fixed}", if feature.on { "on" } else { "off" }));
    }
    if !features.is_empty() {
        phrases.push(features.join(", "));
    }
    if let Some(ntuple) = &nic.ntuple {
        phrases.push(format!("{} of {} flow rules", ntuple.rules.len(), ntuple.capacity));
    }
    if let Some(rss) = &nic.rss {
        let contexts = match &rss.contexts {
            None => "no contexts".to_owned(),
            Some(contexts) => counted(contexts.len(), "context"),
        };
        phrases.push(format!("RSS table of {}, {contexts}", rss.table.len()));
    }
    if let Some(root) = &nic.root_qdisc {
        phrases.push(format!("root {root}"));
    }
    if !nic.filters.is_empty() {
        let in_hw = nic.filters.iter().filter(|filter| filter.in_hw).count();
        phrases.push(format!("{}, {in_hw} in hardware", counted(nic.filters.len(), "filter")));
    }
    phrases.extend(nic.hindrances.iter().map(|word| format!("hindered by {word}")));
    phrases
}

/// Where a queue's interrupt goes, else where it may go.
fn goes_to(queue: &Queue) -> Option<&Cpus> {
    queue.irq_effective.as_ref().or(queue.irq_cpus.as_ref())
}

/// Cpus of the thread that polls it.
fn polling(queue: &Queue) -> Option<&Cpus> {
    queue.napi_thread.as_ref().map(|thread| &thread.cpus)
}

/// The lane that has a queue; where lanes have queues of the card, the rest is the default lane's.
fn lane_of(nic: &Nic, lanes: &[Placed], queue: u32) -> String {
    let is_here = |lane: &&Placed| lane.nic.as_ref() == Some(&nic.name) && !lane.queues.is_empty();
    let mut here = lanes.iter().filter(is_here).peekable();
    let is_used = here.peek().is_some();
    let owner = here.find(|lane| lane.queues.contains(queue)).map(|lane| lane.name.as_str());
    owner.unwrap_or(if is_used { "default" } else { "-" }).to_owned()
}

/// Queues that make one row.
fn runs<'a>(queues: &'a [Queue], lane_of: &dyn Fn(&Queue) -> String) -> Vec<&'a [Queue]> {
    let next = |a: Option<u32>, b: Option<u32>| match (a, b) {
        (Some(a), Some(b)) => b == a + 1,
        (a, b) => a == b,
    };
    let mut runs: Vec<&[Queue]> = Vec::new();
    let mut start = 0;
    for end in 1..=queues.len() {
        let continues = end < queues.len() && {
            let (a, b) = (&queues[end - 1], &queues[end]);
            // Cpus go on as they began: all the same, or one further each.
            let goes_on = |cpus: fn(&Queue) -> Option<&Cpus>| {
                let same = |from: usize| cpus(&queues[from]) == cpus(&queues[from + 1]);
                let step = |from: usize| follows(cpus(&queues[from]), cpus(&queues[from + 1]));
                (start..end).all(same) || (start..end).all(step)
            };
            b.index == a.index + 1
                && next(a.napi, b.napi)
                && next(a.irq, b.irq)
                && goes_on(goes_to)
                && goes_on(polling)
                && lane_of(a) == lane_of(b)
        };
        if !continues {
            runs.push(&queues[start..end]);
            start = end;
        }
    }
    runs
}

/// Whether each is one cpu, the second the next of the first.
fn follows(a: Option<&Cpus>, b: Option<&Cpus>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.count() == 1 && b.count() == 1 && a.first().map(|cpu| cpu + 1) == b.first(),
        _ => false,
    }
}

/// Cpus of a row: of all of its queues, or one each.
fn in_turn(first: Option<&Cpus>, last: Option<&Cpus>) -> String {
    match (first, last) {
        (Some(first), Some(last)) if first != last => format!("{}-{} in turn", shown(first), shown(last)),
        (Some(first), _) => shown(first),
        _ => "-".to_owned(),
    }
}

fn shown(cpus: &Cpus) -> String {
    if cpus.is_empty() { "none".to_owned() } else { cpus.to_string() }
}

/// Columns as wide as their widest word, as far as the line allows; what does not fit is cut and says so.
fn table(out: &mut String, rows: &[[String; 6]]) {
    let mut widths = [0; 6];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = format!("  {}", cells.collect::<Vec<_>>().join("  "));
        let line = line.trim_end();
        match line.char_indices().nth(WIDTH) {
            None => out.push_str(line),
            Some(_) => {
                out.extend(line.chars().take(WIDTH - 1));
                out.push('…');
            }
        }
        out.push('\n');
    }
}

/// Rights that are missing, and what could not be read.
fn limits(out: &mut String, facts: &Facts) {
    // Facts that were made say nothing of rights.
    let is_read = facts.made_from.is_none();
    let lacking: Vec<_> = RIGHTS
        .iter()
        .filter(|(right, _)| is_read && !facts.capabilities.iter().any(|it| it == right))
        .collect();
    if !lacking.is_empty() || !facts.missing.is_empty() {
        out.push('\n');
    }
    for (right, what) in lacking {
        wrapped(out, "", "  ", &format!("no {right}: {what} can't be changed; run it as root for that"));
    }
    for reason in &facts.missing {
        wrapped(out, "", "  ", &format!("not read: {reason}"));
    }
}

/// Words in lines of at most [`WIDTH`]; a word that is longer has a line of its own.
fn wrapped(out: &mut String, first: &str, next: &str, text: &str) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = format!("{next}  ");
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    if !line.trim().is_empty() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Channels, Cpu, Feature, Thread};
    use crate::plan::Placed;
    use crate::spec::Mode;

    fn cpus(text: &str) -> Cpus {
        text.parse().unwrap()
    }

    fn lane(name: &str, queues: &str) -> Placed {
        Placed::made_up(name, Mode::Spread, queues, queues)
    }

    fn facts() -> Facts {
        let queue = |index: u32| Queue {
            index,
            napi: Some(8193 + index),
            irq: Some(64 + index),
            irq_cpus: Some(cpus("0-7")),
            irq_effective: Some(cpus(&index.to_string())),
            ..Queue::default()
        };
        let nic = Nic {
            name: "ens1".to_owned(),
            driver: "ice".to_owned(),
            bus: Some("0000:17:00.0".to_owned()),
            node: Some(0),
            speed_mbit: Some(100_000),
            up: true,
            addresses: vec!["10.0.0.1/24".to_owned()],
            channels: Some(Channels { combined: 8, combined_max: 96, ..Channels::default() }),
            features: [("hw-tc-offload".to_owned(), Feature { on: true, fixed: false })].into(),
            queues: (0..8).map(queue).collect(),
            root_qdisc: Some("mq".to_owned()),
            ..Nic::default()
        };
        let cpu = |id: u32| Cpu { id, core: id, ..Cpu::default() };
        Facts {
            kernel: "6.18.5".to_owned(),
            capabilities: RIGHTS.iter().map(|(right, _)| (*right).to_owned()).collect(),
            cpus: (0..8).map(cpu).collect(),
            nics: vec![nic],
            ..Facts::default()
        }
    }

    #[test]
    fn queues_are_drawn_to_their_cores_and_lanes() {
        let mut facts = facts();
        let want = "\
Linux 6.18.5: 8 cpus, 1 package, 1 node

ens1  ice, 100 Gbit/s, node 0, 0000:17:00.0
  10.0.0.1/24; 8 of 96 queues; hw-tc-offload on; root mq
  queues  NAPI       interrupts  cpus         polled by  lane
  0-3     8193-8196  64-67       0-3 in turn  interrupt  default
  4-7     8197-8200  68-71       4-7 in turn  interrupt  redis
";
        assert_eq!(drawing(&facts, &[lane("redis", "4-7")]), want);
        let without = drawing(&facts, &[]);
        assert!(without.contains("0-7     8193-8200  64-71       0-7 in turn  interrupt  -"), "{without}");

        // Lanes without queues of their own are named below.
        let no_card = Placed { nic: None, ..lane("by-itself", "") };
        let shared = drawing(&facts, &[lane("shared", ""), no_card]);
        assert!(shared.starts_with(&without), "{shared}");
        let want =
            "\nlane shared: cores none, no queue of ens1 is its own\nlane by-itself: cores none, no card\n";
        assert_eq!(shared[without.len()..], *want);

        // One interrupt that goes elsewhere has a row of its own, and so has a thread.
        facts.nics[0].queues[2].irq_effective = Some(cpus("7"));
        facts.nics[0].queues[6].napi_thread = Some(Thread { cpus: cpus("3"), ..Thread::default() });
        let text = drawing(&facts, &[]);
        let rows: Vec<&str> =
            text.lines().filter(|line| line.contains("819") || line.contains("820")).collect();
        assert_eq!(rows.len(), 5, "{text}");
        assert!(rows[1].starts_with("  2 ") && rows[1].contains(" 7 "), "{text}");
        assert!(rows[3].contains("threads on 3"), "{text}");
    }

    #[test]
    fn cpus_that_may_not_sleep_are_named() {
        let first_line = |facts: &Facts| drawing(facts, &[]).lines().next().unwrap_or_default().to_owned();
        let mut facts = facts();
        facts.idle_driver = Some("haltpoll".to_owned());
        facts.cpus.iter_mut().for_each(|cpu| cpu.resume_latency_us = Some("0".to_owned()));
        assert_eq!(first_line(&facts), "Linux 6.18.5: 8 cpus, 1 package, 1 node; idle by haltpoll");
        facts.idle_driver = None;
        facts.cpus[2..4].iter_mut().for_each(|cpu| cpu.resume_latency_us = Some("n/a".to_owned()));
        let want = "Linux 6.18.5: 8 cpus, 1 package, 1 node; resume-latency-us n/a on cpu 2-3";
        assert_eq!(first_line(&facts), want);
    }

    #[test]
    fn what_is_missing_is_said_within_the_width() {
        let mut facts = facts();
        facts.capabilities.clear();
        facts.missing = vec![format!("nic/ens1/ntuple: {}", "the kernel refuses because ".repeat(9))];
        facts.nics[0].addresses = (0..9).map(|n| format!("2001:db8::{n}/64")).collect();
        facts.nics[0].queues[3].irq_effective = Some(cpus("0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32"));
        let text = drawing(&facts, &[lane("a-lane-with-a-name-of-32-letters", "3")]);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert!(text.contains("no net_admin: cards, queueing, filters, routes can't be changed"), "{text}");
        assert!(text.contains("not read: nic/ens1/ntuple"), "{text}");
        facts.made_from = Some("documents".to_owned());
        assert!(
            !drawing(&facts, &[]).contains("no net_admin"),
            "a machine that was made up has no rights to lack"
        );
    }
}
