//! Whether what is set has its effect: what knobs alone don't say.

use crate::facts::{Nic, Process, Thread};
use crate::knob::{Knob, NicKnob};
use crate::plan::{Placed, Step};

use super::{Evidence, Finding, Used, Verdict};

/// What begins the finding of a filter that is not in hardware.
const NOT_OFFLOADED: &str = "not offloaded: ";

/// All that has not the effect it should have, for a lane.
pub(super) fn findings(evidence: &Evidence<'_>, lane: &Placed, used: &Used) -> Vec<Finding> {
    let nic = lane.nic.as_ref().and_then(|name| evidence.facts.nics.iter().find(|nic| nic.name == *name));
    let steps: Vec<&Step> =
        evidence.plan.steps.iter().filter(|step| step.lane() == Some(&lane.name)).collect();
    let mut found = Vec::new();
    match (nic, &lane.nic) {
        (Some(nic), _) => {
            link(nic, &mut found);
            offload(nic, &steps, &mut found);
            interrupts(nic, lane, &steps, &mut found);
            pollers(nic, lane, &steps, &mut found);
        }
        (None, Some(name)) => found.push(critical(
            format!("the card {name} is not there"),
            "plug it in or name another in the file".to_owned(),
        )),
        (None, None) => {}
    }
    balancer(evidence, &steps, &mut found);
    threads(evidence, lane, &steps, &mut found);
    busy_polling(evidence, used, &mut found);
    found
}

pub(super) fn is_not_offloaded(finding: &Finding) -> bool {
    finding.problem.starts_with(NOT_OFFLOADED)
}

/// The lane can't be had as the machine is now.
pub(super) fn unplanned(problem: String) -> Finding {
    let remedy = "bring back what is missing, or change the file, and `expresslane lanes apply`; `expresslane lanes revert` \
                  puts back what is left"
        .to_owned();
    critical(problem, remedy)
}

fn critical(problem: String, remedy: String) -> Finding {
    Finding { problem, remedy, verdict: Verdict::Critical }
}

fn warning(problem: String, remedy: String) -> Finding {
    Finding { problem, remedy, verdict: Verdict::Warning }
}

fn link(nic: &Nic, found: &mut Vec<Finding>) {
    if !nic.up {
        found.push(critical(
            format!("the link of {} is down", nic.name),
            format!("ip link set {} up", nic.name),
        ));
    }
}

/// A filter that only hardware may do, and doesn't.
fn offload(nic: &Nic, steps: &[&Step], found: &mut Vec<Finding>) {
    for step in steps {
        let Knob::Nic { knob: NicKnob::Filter(direction, pref), .. } = &step.knob else { continue };
        let needs_hardware =
            step.want.as_ref().is_some_and(|want| want.words().any(|word| word == "skip_sw"));
        let is_there = |in_hw: bool| {
            let mut filters = nic.filters.iter();
            filters.any(|it| it.direction == *direction && it.pref == *pref && it.in_hw == in_hw)
        };
        if needs_hardware && is_there(false) {
            found.push(critical(
                format!("{NOT_OFFLOADED}{} is set and not in hardware", step.knob),
                format!(
                    "some drivers take filters only seconds after mqprio: `expresslane lanes apply` again; \
                     `ethtool -k {}` must say hw-tc-offload: on",
                    nic.name
                ),
            ));
        }
    }
}

/// Where interrupts really go: what was asked for is a wish until the next one.
fn interrupts(nic: &Nic, lane: &Placed, steps: &[&Step], found: &mut Vec<Finding>) {
    for step in steps {
        let Knob::Nic { knob: NicKnob::IrqAffinity(index), .. } = &step.knob else { continue };
        let queue = nic.queues.iter().find(|queue| queue.index == *index);
        let Some(effective) = queue.and_then(|queue| queue.irq_effective.as_ref()) else { continue };
        if !effective.is_within(&lane.irq_cores) {
            found.push(warning(
                format!(
                    "the interrupt of queue {index} goes to cpu {effective}, not to {}, whatever its affinity says",
                    lane.irq_cores
                ),
                "it moves with its next interrupt; if it does not, the driver manages it itself".to_owned(),
            ));
        }
    }
}

/// Kernel threads that poll, on their cores.
fn pollers(nic: &Nic, lane: &Placed, steps: &[&Step], found: &mut Vec<Finding>) {
    for step in steps {
        let Knob::Nic { knob: NicKnob::NapiThread(index), .. } = &step.knob else { continue };
        let queue = nic.queues.iter().find(|queue| queue.index == *index);
        match queue.and_then(|queue| queue.napi_thread.as_ref()) {
            None => found.push(warning(
                format!("no kernel thread polls queue {index} of {}", nic.name),
                "a link event or a change of queues ends them: `expresslane lanes apply`, or keep `expresslane lanes guard` \
                 running"
                    .to_owned(),
            )),
            Some(thread) if !thread.cpus.is_within(&lane.cores.with(&lane.irq_cores)) => found.push(warning(
                format!("the kernel thread of queue {index} may run on {}", thread.cpus),
                "`expresslane lanes apply` puts it on the lane's cores".to_owned(),
            )),
            Some(_) => {}
        }
    }
}

/// irqbalance moves interrupts back, within ten seconds.
fn balancer(evidence: &Evidence<'_>, steps: &[&Step], found: &mut Vec<Finding>) {
    let sets_interrupts =
        steps.iter().any(|step| matches!(&step.knob, Knob::Nic { knob: NicKnob::IrqAffinity(_), .. }));
    let runs = evidence.facts.daemons.iter().any(|daemon| daemon.name == "irqbalance" && daemon.running);
    if sets_interrupts && runs {
        found.push(warning(
            "irqbalance runs and moves interrupts off the lane's cores".to_owned(),
            "systemctl stop irqbalance, or [host] irqbalance = \"stop\"".to_owned(),
        ));
    }
}

/// The lane's processes: those that the plan puts there, and those that listen at its ports.
fn threads(evidence: &Evidence<'_>, lane: &Placed, steps: &[&Step], found: &mut Vec<Finding>) {
    if lane.cores.is_empty() {
        return;
    }
    let is_planned = |process: &Process| {
        steps.iter().any(|step| matches!(&step.knob, Knob::Thread { pid, .. } if *pid == process.pid))
    };
    for process in evidence.facts.processes.iter().filter(|it| evidence.plan.is_of_lane(lane, it)) {
        let strays: Vec<&Thread> =
            process.threads.iter().filter(|thread| !thread.cpus.is_within(&lane.cores)).collect();
        let Some(first) = strays.first() else { continue };
        let (name, pid, all) = (&process.name, process.pid, process.threads.len());
        found.push(warning(
            format!(
                "{} of {all} threads of {name} ({pid}) may run off the lane's cores {}: thread {} on {}",
                strays.len(),
                lane.cores,
                first.tid,
                first.cpus
            ),
            if is_planned(process) {
                "it has started threads since: `expresslane lanes apply`, or start it by `expresslane run`"
                    .to_owned()
            } else {
                format!(
                    "name it in the lane's `process`, or start it by `expresslane run --lane {} -- …`",
                    lane.name
                )
            },
        ));
    }
}

/// Busy polling that is switched on and never polls: nobody waits in epoll for sockets with a NAPI id.
fn busy_polling(evidence: &Evidence<'_>, used: &Used, found: &mut Vec<Finding>) {
    let is_wanted = evidence.plan.steps.iter().any(|step| {
        step.knob == Knob::sysctl("net.core.busy_poll")
            && step.want.as_ref().is_some_and(|want| want.as_str() != "0")
    });
    if is_wanted && evidence.polled == Some(0) && matches!(used, Used::Traffic { .. }) {
        found.push(warning(
            "net.core.busy_poll is set, packets arrive, and nobody polls (BusyPollRxPackets stands still)".to_owned(),
            "the server must wait in epoll, poll or select, and the card must give NAPI ids (plain veth and loopback do \
             not)"
            .to_owned(),
        ));
    }
}
