//! How threads are scheduled: cpus, nice value, policy. Sources: sched(7), `sched_setaffinity(2)`, setpriority(2).

use std::io;

use super::errno::{cause, gone, invalid};
use super::files::Files;
use crate::cpus::NUMBER_MAX;
use crate::kernel::Cause;
use crate::knob::ThreadKnob;
use crate::{Cpus, Refusal, Setting};

const MASK_WORDS_COUNT: usize = (NUMBER_MAX as usize + 1) / 64;
/// A new process starts without this policy's priority.
const RESET_ON_FORK: i32 = 0x4000_0000;

/// A thread of the process that began at `start`; a number that another process has now is refused.
pub(super) fn check(files: &Files, pid: u32, start: u64, tid: u32) -> Result<(), Refusal> {
    let ended = || gone(format!("process {pid}, which began at {start}, has ended"));
    match start_of(files, pid) {
        None => Err(ended()),
        Some(now) if now != start => {
            Err(gone(format!("{} (its number belongs to another process now)", ended().reason)))
        }
        Some(_) if !files.has(&format!("proc/{pid}/task/{tid}")) => {
            Err(gone(format!("process {pid} has no thread {tid} (any more)")))
        }
        Some(_) => Ok(()),
    }
}

/// When a process began, in clock ticks since boot.
pub(crate) fn start_of(files: &Files, pid: u32) -> Option<u64> {
    start_in(&files.read(&format!("proc/{pid}/stat")).ok()?)
}

/// Field 22 of /proc/PID/stat. The name, field 2, is in parentheses and may itself hold blanks and parentheses.
fn start_in(stat: &str) -> Option<u64> {
    let behind_name = stat.rsplit_once(')')?.1;
    behind_name.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

pub(crate) fn read(tid: u32, what: ThreadKnob) -> Result<Setting, Refusal> {
    Ok(Setting::new(match what {
        ThreadKnob::Affinity => affinity(tid)?.to_string(),
        ThreadKnob::Nice => nice(tid)?.to_string(),
        ThreadKnob::Scheduler => scheduler(tid)?,
    }))
}

pub(super) fn write(tid: u32, what: ThreadKnob, value: &Setting) -> Result<(), Refusal> {
    match what {
        ThreadKnob::Affinity => set_affinity(tid, &value.as_str().parse().map_err(invalid)?),
        ThreadKnob::Nice => {
            let nice = value.as_str().parse().ok().filter(|nice| (-20..=19).contains(nice));
            set_nice(tid, nice.ok_or_else(|| invalid(format!("'{value}' is no nice value: -20 to 19")))?)
        }
        ThreadKnob::Scheduler => set_scheduler(tid, value.as_str()),
    }
}

fn number(tid: u32) -> Result<libc::pid_t, Refusal> {
    tid.try_into().map_err(|_| gone(format!("there is no thread {tid}")))
}

fn refused(tid: u32, asked: &str) -> Refusal {
    let error = io::Error::last_os_error();
    let cause = cause(error.raw_os_error().unwrap_or_default());
    let advice = match cause {
        Cause::Gone => "the thread has ended",
        Cause::Forbidden => "this takes the capability sys_nice: run it as root, or with that capability",
        Cause::Invalid => "no such cpu is online and allowed (a control group's cpuset may say otherwise)",
        _ => "nothing more is known",
    };
    Refusal::new(cause, format!("thread {tid}, {asked}: {error}; {advice}"))
}

/// Cpus that a thread may run on.
pub(crate) fn affinity(tid: u32) -> Result<Cpus, Refusal> {
    let mut mask = [0_u64; MASK_WORDS_COUNT];
    // SAFETY: the kernel writes at most the size given, which is the array's.
    let done = unsafe { libc::sched_getaffinity(number(tid)?, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if done < 0 {
        return Err(refused(tid, "its cpus"));
    }
    let bits = |(word, bits): (u32, u64)| {
        (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
    };
    Ok((0..).zip(mask).flat_map(bits).collect())
}

pub(super) fn set_affinity(tid: u32, cpus: &Cpus) -> Result<(), Refusal> {
    let mut mask = [0_u64; MASK_WORDS_COUNT];
    for cpu in cpus.iter() {
        mask[cpu as usize / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: the kernel reads at most the size given, which is the array's.
    let done = unsafe { libc::sched_setaffinity(number(tid)?, size_of_val(&mask), mask.as_ptr().cast()) };
    if done < 0 {
        return Err(refused(tid, &format!("cpus {cpus}")));
    }
    Ok(())
}

pub(crate) fn nice(tid: u32) -> Result<i32, Refusal> {
    number(tid)?;
    // SAFETY: the place of this thread's error number is always valid; -1 is a nice value too, so the number tells.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: no memory is passed.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, tid) };
    match io::Error::last_os_error().raw_os_error() {
        Some(0) | None => Ok(nice),
        Some(_) => Err(refused(tid, "its nice value")),
    }
}

fn set_nice(tid: u32, nice: i32) -> Result<(), Refusal> {
    number(tid)?;
    // SAFETY: no memory is passed.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, nice) } < 0 {
        return Err(refused(tid, &format!("nice value {nice}")));
    }
    Ok(())
}

/// `other`, `fifo 10`, `rr 10`, `batch`, `idle`, `deadline`.
pub(crate) fn scheduler(tid: u32) -> Result<String, Refusal> {
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: no memory is passed.
    let policy = unsafe { libc::sched_getscheduler(number(tid)?) };
    if policy < 0 {
        return Err(refused(tid, "its policy"));
    }
    // SAFETY: the structure lives through the call.
    if unsafe { libc::sched_getparam(number(tid)?, &raw mut param) } < 0 {
        return Err(refused(tid, "its priority"));
    }
    let priority = param.sched_priority;
    Ok(match policy & !RESET_ON_FORK {
        libc::SCHED_OTHER => "other".to_owned(),
        libc::SCHED_FIFO => format!("fifo {priority}"),
        libc::SCHED_RR => format!("rr {priority}"),
        libc::SCHED_BATCH => "batch".to_owned(),
        libc::SCHED_IDLE => "idle".to_owned(),
        libc::SCHED_DEADLINE => "deadline".to_owned(),
        other => format!("policy-{other}"),
    })
}

pub(super) fn set_scheduler(tid: u32, text: &str) -> Result<(), Refusal> {
    let (policy, priority) = policy(text).ok_or_else(|| {
        invalid(format!(
            "'{text}' is no policy that can be set: other, batch, idle, fifo 1 to 99, rr 1 to 99"
        ))
    })?;
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure lives through the call.
    if unsafe { libc::sched_setscheduler(number(tid)?, policy, &raw const param) } < 0 {
        return Err(refused(tid, &format!("policy {text}")));
    }
    Ok(())
}

fn policy(text: &str) -> Option<(i32, i32)> {
    let priority = |text: &str| text.parse().ok().filter(|priority| (1..=99).contains(priority));
    match text.split_ascii_whitespace().collect::<Vec<_>>().as_slice() {
        ["other"] => Some((libc::SCHED_OTHER, 0)),
        ["batch"] => Some((libc::SCHED_BATCH, 0)),
        ["idle"] => Some((libc::SCHED_IDLE, 0)),
        ["fifo", text] => Some((libc::SCHED_FIFO, priority(text)?)),
        ["rr", text] => Some((libc::SCHED_RR, priority(text)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_start_is_found_behind_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 5512 20";
        for name in ["(redis)", "(a b)", "(x) y)", "())"] {
            assert_eq!(start_in(&format!("812 {name} {rest}")), Some(5512), "{name}");
        }
        assert_eq!(start_in("812 (x) S 1"), None);
    }

    #[test]
    fn policies_have_words() {
        assert_eq!(policy("fifo 10"), Some((libc::SCHED_FIFO, 10)));
        assert_eq!(policy("rr 99"), Some((libc::SCHED_RR, 99)));
        for odd in ["", "fifo", "fifo 0", "fifo 100", "deadline", "other 1"] {
            assert_eq!(policy(odd), None, "{odd}");
        }
    }
}
