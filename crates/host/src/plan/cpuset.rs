//! The cpuset of a lane's control group: with it threads that are started later, and by programs that pin themselves, stay on the
//! lane's cores, too.
//!
//! Version 2 alone has files whose values are wishes and not what is so (Documentation/admin-guide/cgroup-v2.rst, cpuset): an
//! empty one is the parent's, and whatever is written can be put back. Version 1 refuses what a parent or a child has not.

use super::draft::{Draft, Stage};
use super::place::Seats;
use super::text::several;
use crate::cpus::Cpus;
use crate::facts::{Facts, Process};
use crate::knob::{Knob, ThreadKnob};
use crate::plan::is_match;
use crate::spec::{Lane, Spec};

/// The files, as [`crate::facts::Cgroup::groups`] has them.
pub(crate) const CPUS: &str = "cpuset.cpus";
pub(crate) const MEMS: &str = "cpuset.mems";
pub(crate) const PARTITION: &str = "cpuset.cpus.partition";
/// What the last part of a group's name ends with that systemd makes.
const SYSTEMD: &[&str] = &[".service", ".scope", ".slice"];

pub(super) fn steps(draft: &mut Draft, spec: &Spec, seats: &Seats) {
    let facts = draft.facts;
    for (lane, seat) in spec.lanes.iter().zip(&seats.lanes) {
        let Some(group) = lane.process.cgroup.as_deref().map(|group| group.trim_matches('/')) else {
            continue;
        };
        if let Err(reason) = can_be_set(facts, lane, group, &seat.cores) {
            draft.note(format!(
                "lane `{}`: its threads are pinned one by one, and later ones are not, because the control group {group} gets no \
                 cpuset: {reason}.",
                lane.name
            ));
            continue;
        }
        let why = format!("lane {}: threads of its group stay on its cores, later ones too", lane.name);
        let knob = |file: &str| Knob::Cgroup { group: group.to_owned(), file: file.to_owned() };
        let mine = facts.processes.iter().filter(|process| is_match(&lane.process, process));
        let threads: Vec<Knob> = mine.flat_map(affinities).collect();
        // Before Linux 6.2 threads forget affinities of their own then.
        draft.want(Stage::Processes, knob(CPUS), seat.cores.to_string(), &why).add_disturbs(threads);
        let node = |cpu: &crate::facts::Cpu| seat.cores.contains(cpu.id).then_some(cpu.node);
        let nodes: Cpus = facts.cpus.iter().filter_map(node).collect();
        let is_everywhere = facts.cpus.iter().all(|cpu| nodes.contains(cpu.node));
        if !is_everywhere {
            let why =
                format!("lane {}: its group's memory near its cores; what lies elsewhere moves", lane.name);
            draft.want(Stage::Processes, knob(MEMS), nodes.to_string(), &why);
        }
    }
}

fn affinities(process: &Process) -> impl Iterator<Item = Knob> + '_ {
    process.threads.iter().map(|thread| Knob::Thread {
        pid: process.pid,
        start: process.start,
        tid: thread.tid,
        what: ThreadKnob::Affinity,
    })
}

/// Or why not, as the end of a sentence.
fn can_be_set(facts: &Facts, lane: &Lane, group: &str, cores: &Cpus) -> Result<(), String> {
    let wish = &lane.process;
    if wish.pid.is_some() || wish.name.is_some() || wish.unit.is_some() {
        return Err("`process` says more than the group, which may hold others".to_owned());
    }
    match facts.cgroup.version {
        Some(2) => {}
        Some(version) => {
            return Err(format!(
                "cpusets are in a hierarchy of version {version} here, and it takes version 2"
            ));
        }
        None => return Err("no hierarchy of version 2 has the controller cpuset".to_owned()),
    }
    if group.is_empty() {
        return Err("the root has every cpu".to_owned());
    }
    let name = group.rsplit('/').next().unwrap_or_default();
    if SYSTEMD.iter().any(|end| name.ends_with(end)) {
        let cores = several("core", cores);
        return Err(format!("systemd sets that of its units: put the {cores} into AllowedCPUs= of {name}"));
    }
    let Some(files) = facts.cgroup.groups.get(group) else {
        return Err("there is no such group, or this user may not read it".to_owned());
    };
    if !files.contains_key(CPUS) {
        let parent = group.rsplit_once('/').map_or(String::new(), |(parent, _)| format!("/{parent}"));
        let root = facts.cgroup.cpuset_root.as_deref().unwrap_or("/sys/fs/cgroup");
        return Err(format!(
            "its controller is not enabled: echo +cpuset > {root}{parent}/cgroup.subtree_control, in the groups above first"
        ));
    }
    match files.get(PARTITION).map(String::as_str) {
        None | Some("member") => Ok(()),
        Some(kind) => Err(format!(
            "it is a partition of its own ({PARTITION}: {kind}), whose cpus whoever made it chose"
        )),
    }
}
