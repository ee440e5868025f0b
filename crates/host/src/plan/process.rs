//! Processes: a lane's threads on its cores, others off them.

use super::draft::{Draft, Stage, nth};
use super::place::Seats;
use crate::cpus::Cpus;
use crate::facts::{Process, Thread};
use crate::knob::{Knob, ThreadKnob};
use crate::spec::{Lane, Match, Mode, Spec};

pub(super) fn steps(draft: &mut Draft, spec: &Spec, seats: &Seats) {
    let facts = draft.facts;
    for (lane, seat) in spec.lanes.iter().zip(&seats.lanes) {
        if lane.process.is_empty() {
            continue;
        }
        let mine: Vec<&Process> = facts.processes.iter().filter(|it| is_match(&lane.process, it)).collect();
        if mine.is_empty() {
            draft.note(format!(
                "lane `{}`: no process matches now. One that starts later is put in by `expresslane run --lane {} -- \
                 PROGRAM`, or by planning again.",
                lane.name, lane.name
            ));
        }
        let elsewhere: Vec<String> =
            mine.iter().filter(|it| it.elsewhere).map(|it| format!("{} ({})", it.name, it.pid)).collect();
        if !elsewhere.is_empty() {
            draft.note(format!(
                "lane `{}`: {} matches `process` in another network namespace, as in a container: `unit`, `cgroup` or `pid` \
                 leave it out where it is not meant.",
                lane.name,
                elsewhere.join(", ")
            ));
        }
        for process in mine {
            let cores = cores_of(draft, lane, &seat.cores, process);
            let why = format!("lane {}: {} on its cores", lane.name, process.name);
            for thread in &process.threads {
                let knob = knob(process, thread, ThreadKnob::Affinity);
                // A server that has pinned a thread to one of these cores knows why.
                let pinned = !thread.cpus.is_empty() && thread.cpus.is_within(&cores);
                let cpus = if pinned { &thread.cpus } else { &cores };
                draft.want(Stage::Processes, knob, cpus.to_string(), &why);
                if let Some(nice) = lane.nice {
                    let why = format!("lane {}: {} before others", lane.name, process.name);
                    let knob = self::knob(process, thread, ThreadKnob::Nice);
                    draft.want(Stage::Processes, knob, nice.to_string(), &why);
                }
            }
        }
    }
    keep_off(draft, spec, seats);
}

/// With one queue per port, a process that is seen to listen at one of the ports has that port's core.
fn cores_of(draft: &mut Draft, lane: &Lane, cores: &Cpus, process: &Process) -> Cpus {
    let ports = lane.ports.iter().flat_map(|ports| &ports.0);
    let mine: Cpus = match lane.mode {
        Mode::Spread => return cores.clone(),
        Mode::OneQueuePerPort => ports
            .enumerate()
            .filter(|(_, port)| process.listens.iter().any(|it| it.takes(lane.protocol, **port)))
            .filter_map(|(n, _)| nth(cores, n))
            .collect(),
    };
    if mine.is_empty() {
        draft.note(format!(
            "lane `{}`: it could not be seen at which of the ports {} ({}) listens, so it may use all of the lane's cores.",
            lane.name, process.name, process.pid
        ));
        return cores.clone();
    }
    mine
}

/// Processes of `default` keep the cores they have but for the lanes'.
fn keep_off(draft: &mut Draft, spec: &Spec, seats: &Seats) {
    let facts = draft.facts;
    let lanes = seats.lanes.iter().fold(Cpus::default(), |all, seat| all.with(&seat.cores));
    let others = facts.online().without(&lanes);
    let is_lane_s = |process: &&Process| spec.lanes.iter().any(|lane| is_match(&lane.process, process));
    let is_other = |process: &&Process| spec.default.process.iter().any(|it| is_match(it, process));
    for process in facts.processes.iter().filter(|it| is_other(it) && !is_lane_s(it)) {
        for thread in &process.threads {
            let left = thread.cpus.without(&lanes);
            let cpus = if left.is_empty() { &others } else { &left };
            if cpus.is_empty() {
                draft.refuse(format!(
                    "[default], `process`: the lanes have every core, so none is left for {} ({})",
                    process.name, process.pid
                ));
                return;
            }
            let why = format!("{} off the lanes' cores", process.name);
            draft.want(Stage::Processes, knob(process, thread, ThreadKnob::Affinity), cpus.to_string(), &why);
        }
    }
}

fn knob(process: &Process, thread: &Thread, what: ThreadKnob) -> Knob {
    Knob::Thread { pid: process.pid, start: process.start, tid: thread.tid, what }
}

/// Bytes of a process's name that the kernel keeps: `TASK_COMM_LEN` without the end.
const NAME_SIZE_MAX: usize = 15;

/// Whether a process is everything that is asked for. Of a longer name the part counts that the kernel keeps, and
/// `.service` may be left out of a unit.
#[must_use]
pub fn is_match(wish: &Match, process: &Process) -> bool {
    let unit = |it: &String| it.strip_suffix(".service").unwrap_or(it).to_owned();
    !wish.is_empty()
        && wish.pid.is_none_or(|pid| pid == process.pid)
        && wish.name.as_ref().is_none_or(|name| *name.get(..NAME_SIZE_MAX).unwrap_or(name) == process.name)
        && wish.unit.as_ref().is_none_or(|it| process.unit.as_ref().map(unit) == Some(unit(it)))
        && wish.cgroup.as_ref().is_none_or(|group| {
            let (group, theirs) = (group.trim_matches('/'), process.cgroup.trim_matches('/'));
            theirs == group || theirs.starts_with(&format!("{group}/"))
        })
}
