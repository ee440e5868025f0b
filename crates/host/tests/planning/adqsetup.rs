//! For the published experiments the plan is what Intel's adqsetup 2.0.2 issues for the same wish, command for command, but for the
//! differences that `machines/adqsetup.md` explains.
//!
//! The transcripts are what the tool logs: its own `apply` was run on the machine of the facts with its system calls replaced.

use host::knob::{Direction, NicKnob};
use host::{Cpus, Facts, Knob, Setting, Step, plan};

use super::{facts, folder, wish};

/// What it does and the plan does not: the beginning of the command, and the heading in adqsetup.md.
const LEFT_OUT: &[(&str, &str)] = &[
    ("sysctl --write net.core.busy_read=0", "Writes back what it has read"),
    ("sysctl --write net.ipv4.conf.ens1.arp_", "Writes back what it has read"),
    ("ethtool --features ens1 rx-ntuple-filter on", "Writes back what it has read"),
    ("ethtool --set-priv-flags ens1 channel-pkt-", "Turns flags off"),
];
/// What the plan does and it does not, by a part of the knob's path.
const ADDED: &[(&str, &str)] = &[
    ("service/irqbalance", "Stops irqbalance"),
    ("nic/ens1/flag/fw-lldp-agent", "Stops the firmware's LLDP agent"),
    ("/napi/", "Holds interrupts back while servers poll"),
];

/// One command, as what it makes of a knob. A coalesce command is one word of several queues.
#[derive(Debug, PartialEq)]
enum Done {
    Knob(Knob, String),
    Filter(Direction, String),
    Rule(String),
    Word(Vec<u32>, String, String),
}

fn read(facts: &Facts, command: &str) -> Done {
    let words: Vec<&str> = command.split(' ').collect();
    let nic = |knob| Knob::nic("ens1", knob);
    let from = |n: usize| words[n..].join(" ");
    match words.as_slice() {
        ["sysctl", "--write", pair] => {
            let (name, value) = pair.split_once('=').unwrap();
            Done::Knob(Knob::sysctl(name), value.to_owned())
        }
        ["ethtool", "--features", _, name, value] => {
            Done::Knob(nic(NicKnob::Feature((*name).to_owned())), (*value).to_owned())
        }
        ["ethtool", "--set-priv-flags", _, name, value] => {
            Done::Knob(nic(NicKnob::PrivateFlag((*name).to_owned())), (*value).to_owned())
        }
        ["tc", "qdisc", "add", "dev", _, "root", ..] => Done::Knob(nic(NicKnob::Root), from(6)),
        ["tc", "qdisc", "add", "dev", _, "clsact"] => Done::Knob(nic(NicKnob::Clsact), "clsact".to_owned()),
        ["devlink", "dev", "param", "set", _, "name", name, "value", value, "cmode", "runtime"] => {
            Done::Knob(nic(NicKnob::Devlink((*name).to_owned())), (*value).to_owned())
        }
        ["tc", "filter", "add", "dev", _, direction, "prio", "1", ..] => {
            Done::Filter(direction.parse().unwrap(), from(8))
        }
        ["ethtool", "--config-ntuple", _, ..] => Done::Rule(from(3)),
        ["ethtool", "--per-queue", _, "queue_mask", mask, "--coalesce", word, value] => {
            let digits: Vec<char> = mask.trim_start_matches("0x").chars().rev().collect();
            let bit = |n: usize, c: char| {
                (0..4).filter(move |bit| c.to_digit(16).unwrap() >> bit & 1 == 1).map(move |bit| n * 4 + bit)
            };
            let queues =
                digits.iter().enumerate().flat_map(|(n, c)| bit(n, *c)).map(|n| u32::try_from(n).unwrap());
            Done::Word(queues.collect(), (*word).to_owned(), (*value).to_owned())
        }
        ["echo", value, ">", path] => {
            let parts: Vec<&str> = path.split('/').collect();
            match parts.as_slice() {
                ["", "proc", "irq", irq, "smp_affinity_list"] => {
                    let irq: u32 = irq.parse().unwrap();
                    let queue = facts.nics[0].queues.iter().find(|queue| queue.irq == Some(irq)).unwrap();
                    Done::Knob(nic(NicKnob::IrqAffinity(queue.index)), (*value).to_owned())
                }
                ["", "sys", "class", "net", _, "queues", queue, file] => {
                    let queue: u32 = queue.strip_prefix("tx-").unwrap().parse().unwrap();
                    // It prints masks without commas.
                    let list = Cpus::from_mask(&commas(value)).unwrap().to_string();
                    let knob =
                        if *file == "xps_cpus" { NicKnob::XpsCpus(queue) } else { NicKnob::XpsRxqs(queue) };
                    Done::Knob(nic(knob), list)
                }
                _ => panic!("{command}"),
            }
        }
        _ => panic!("{command}"),
    }
}

fn commas(mask: &str) -> String {
    let digits: Vec<char> = mask.chars().filter(|c| *c != ',').collect();
    let groups: Vec<String> = digits.rchunks(8).rev().map(|group| group.iter().collect()).collect();
    groups.join(",")
}

/// Which steps a command is, none: a difference.
fn steps_of(steps: &[Step], done: &Done) -> Vec<usize> {
    let is = |step: &Step| {
        let want = step.want.as_ref().map(Setting::as_str);
        match (done, &step.knob) {
            (Done::Knob(knob, value), it) => it == knob && want == Some(value),
            (Done::Filter(direction, text), Knob::Nic { nic, knob: NicKnob::Filter(it, _) }) => {
                nic == "ens1" && it == direction && want == Some(text)
            }
            (Done::Rule(text), Knob::Nic { nic, knob: NicKnob::Ntuple(_) }) => {
                nic == "ens1" && want == Some(text)
            }
            (Done::Word(queues, word, value), Knob::Nic { nic, knob: NicKnob::Coalesce(Some(queue)) }) => {
                let has = step.want.as_ref().and_then(|want| want.after(word)) == Some(value);
                nic == "ens1" && queues.contains(queue) && has
            }
            _ => false,
        }
    };
    (0..steps.len()).filter(|index| is(&steps[*index])).collect()
}

fn check(machine: &str, wish_name: &str) {
    let facts = facts(machine);
    let plan = plan::plan(&wish(wish_name), &facts).unwrap();
    let of_card = |step: &&Step| match &step.knob {
        Knob::Nic { nic, .. } => nic == "ens1",
        _ => true,
    };
    let steps: Vec<Step> = plan.steps.iter().filter(of_card).cloned().collect();
    let explained = std::fs::read_to_string(folder().join("adqsetup.md")).unwrap();
    let transcript = std::fs::read_to_string(folder().join(format!("{wish_name}.adqsetup"))).unwrap();
    let (_, configuration) = transcript.split_once("### configuration ###").unwrap();
    let queues_count = plan.lanes[0].queues.iter().max().unwrap() + 1;
    let mut positions = Vec::new();
    let mut differences = Vec::new();
    for command in configuration.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let done = read(&facts, command);
        let found = steps_of(&steps, &done);
        let beyond = matches!(&done, Done::Knob(Knob::Nic { knob: NicKnob::XpsCpus(queue) | NicKnob::XpsRxqs(queue), .. }, _)
            if *queue >= queues_count);
        let difference =
            LEFT_OUT.iter().find(|(start, _)| command.starts_with(start)).map(|(_, heading)| *heading);
        match (found.as_slice(), difference) {
            ([], Some(heading)) => differences.push(heading),
            ([], None) if beyond => differences.push("Sets queues beyond the classes"),
            ([], None) => panic!("{wish_name}: no step is `{command}`"),
            (found, _) => positions.extend(found.iter().map(|index| (*index, command))),
        }
        if let Done::Word(queues, ..) = &done {
            assert_eq!(found.len(), queues.len(), "{command}");
        }
    }
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| step.has_work()) {
        let known = positions.iter().any(|(at, _)| *at == index);
        let added = ADDED.iter().find(|(part, _)| step.knob.to_string().contains(part));
        match (known, added) {
            (true, _) => {}
            (false, Some((_, heading))) => differences.push(heading),
            (false, None) => panic!("{wish_name}: adqsetup has no {} -> {:?}", step.knob, step.want),
        }
    }
    // Sysctls come first there and last here; else the order is the same, each queue's words being one step here.
    let mut order: Vec<usize> = positions
        .iter()
        .filter(|(_, command)| !command.starts_with("sysctl"))
        .map(|(index, _)| *index)
        .collect();
    let mut seen = Vec::new();
    order.retain(|index| {
        !seen.contains(index) && {
            seen.push(*index);
            true
        }
    });
    assert!(order.is_sorted(), "{wish_name}: the order differs: {order:?}");
    differences.push("Sets sysctls first");
    differences.push("Cleans up by deleting");
    for heading in differences {
        assert!(
            explained.contains(&format!("**{heading}")),
            "{wish_name}: '{heading}' is not in adqsetup.md"
        );
    }
}

#[test]
fn the_published_redis_experiment_is_what_adqsetup_issues() {
    check("e810-ice", "redis-94");
}

#[test]
fn the_published_aerospike_experiment_is_what_adqsetup_issues() {
    check("e810-ice-oot", "aerospike-2");
}
