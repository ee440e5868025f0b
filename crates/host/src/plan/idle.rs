//! How deep a lane's cores sleep when they are idle: each deeper state saves more power and takes longer to leave.

use super::draft::{Draft, Stage};
use super::place::{Seats, siblings};
use super::text::several;
use crate::cpus::Cpus;
use crate::knob::{CpuKnob, Knob};
use crate::spec::Spec;

pub(super) fn steps(draft: &mut Draft, spec: &Spec, seats: &Seats) {
    for (lane, seat) in spec.lanes.iter().zip(&seats.lanes) {
        let Some(latency_us) = lane.resume_latency_us else { continue };
        let name = &lane.name;
        if draft.facts.idle_driver.is_none() {
            draft.note(format!(
                "lane `{name}`: `resume-latency-us` is not set, because it would do nothing: this kernel has no cpuidle driver that \
                 chooses idle states by it (in a virtual machine the host chooses)."
            ));
            continue;
        }
        let knob = |cpu| Knob::Cpu { cpu, what: CpuKnob::ResumeLatency };
        let (can, cannot): (Vec<u32>, Vec<u32>) =
            seat.cores.iter().partition(|cpu| draft.facts.have(&knob(*cpu)).is_ok());
        if !cannot.is_empty() {
            let cores: Cpus = cannot.into_iter().collect();
            draft.note(format!(
                "lane `{name}`: `resume-latency-us` is not set on core {cores}, which has no such limit (the kernel is built \
                 without power management)."
            ));
        }
        // The file's `0` is no limit.
        let (value, why) = match latency_us {
            0 => ("n/a".to_owned(), format!("lane {name}: a request finds its core awake")),
            _ => (
                latency_us.to_string(),
                format!("lane {name}: its core wakes up for a request within {latency_us} us"),
            ),
        };
        for cpu in &can {
            draft.want(Stage::Idle, knob(*cpu), &value, &why);
        }
        let cores: Cpus = can.into_iter().collect();
        if !cores.is_empty() {
            let price = price(draft, name, latency_us, &cores, &seat.cores);
            draft.note(price);
        }
        let elsewhere = seat.irq_cores.without(&seat.cores);
        if !cores.is_empty() && !elsewhere.is_empty() {
            draft.note(format!(
                "lane `{name}`: its interrupts go to core {elsewhere}, which `resume-latency-us` does not concern: that core still \
                 sleeps, and wakes up first."
            ));
        }
    }
}

/// What it costs, in a sentence.
fn price(draft: &Draft, name: &str, latency_us: u32, cores: &Cpus, all: &Cpus) -> String {
    let cores_text = several("core", cores);
    if latency_us > 0 {
        return format!(
            "lane `{name}`: while idle, {cores_text} will enter no state that takes longer than {latency_us} us to leave, and draw more \
             power than in deeper ones."
        );
    }
    let facts = draft.facts;
    let beside = facts.cpus.iter().filter(|cpu| cores.contains(cpu.id));
    let beside = beside.fold(Cpus::default(), |set, cpu| set.with(&siblings(facts, cpu))).without(all);
    let share = match beside.is_empty() {
        true => String::new(),
        false => {
            format!(
                ", and leave hardware threads {beside} of the same cores the share that is left beside work"
            )
        }
    };
    format!(
        "lane `{name}`: while idle, {cores_text} will poll and not sleep, draw power and get warm as at work{share}."
    )
}
