//! How a cpu idles: files below /sys/devices/system/cpu.

use super::errno::{gone, unsupported};
use super::files::Files;
use crate::kernel::Cause;
use crate::knob::CpuKnob;
use crate::{Refusal, Setting};

/// Where cpus are.
const CPUS: &str = "sys/devices/system/cpu";
/// What stands where the driver's name would.
const NO_DRIVER: &str = "none";

/// The driver of cpuidle, where there is one.
///
/// # Errors
/// Where the file is there and can't be read.
pub(crate) fn idle_driver(files: &Files) -> Result<Option<String>, Refusal> {
    match files.read(&format!("{CPUS}/cpuidle/current_driver")) {
        Ok(name) => Ok(Some(name).filter(|name| name != NO_DRIVER)),
        // A kernel without cpuidle, or booted with `cpuidle.off=1`.
        Err(refusal) if refusal.cause == Cause::Gone => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

pub(crate) fn read(files: &Files, cpu: u32, what: CpuKnob) -> Result<Setting, Refusal> {
    let text = files.read(&path(cpu, what)).map_err(|refusal| of_cpu(files, cpu, what, refusal))?;
    Ok(Setting::new(text))
}

pub(super) fn write(files: &Files, cpu: u32, what: CpuKnob, value: &Setting) -> Result<(), Refusal> {
    let written = files.write(&path(cpu, what), value.as_str(), "root's own user");
    written.map_err(|refusal| of_cpu(files, cpu, what, refusal))
}

fn path(cpu: u32, what: CpuKnob) -> String {
    match what {
        CpuKnob::ResumeLatency => format!("{CPUS}/cpu{cpu}/power/pm_qos_resume_latency_us"),
    }
}

/// A file that is not there is a cpu that is not there, or a kernel without it.
fn of_cpu(files: &Files, cpu: u32, what: CpuKnob, refusal: Refusal) -> Refusal {
    match refusal.cause {
        Cause::Gone if !files.has(&format!("{CPUS}/cpu{cpu}")) => gone(format!("there is no cpu {cpu}")),
        Cause::Gone => unsupported(format!(
            "this kernel has no /{}: it is built without power management (CONFIG_PM)",
            path(cpu, what)
        )),
        _ => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::live::files::made_up::Tree;

    const WHAT: CpuKnob = CpuKnob::ResumeLatency;

    #[test]
    fn the_latency_is_the_file_of_that_cpu() {
        let file = |cpu| format!("{CPUS}/cpu{cpu}/power/pm_qos_resume_latency_us");
        let tree = Tree::new(
            "latency",
            &[(&file(1), "0\n"), (&file(2), "n/a\n"), (&format!("{CPUS}/cpu3/online"), "1\n")],
        );
        let files = tree.files();
        let text = |cpu| read(&files, cpu, WHAT).map(|value| value.to_string());
        assert_eq!((text(1).unwrap().as_str(), text(2).unwrap().as_str()), ("0", "n/a"));
        write(&files, 1, WHAT, &Setting::new("n/a")).unwrap();
        write(&files, 2, WHAT, &Setting::new("20")).unwrap();
        assert_eq!((text(1).unwrap().as_str(), text(2).unwrap().as_str()), ("n/a", "20"));
        for refusal in [text(3).unwrap_err(), write(&files, 3, WHAT, &Setting::new("0")).unwrap_err()] {
            assert!(
                refusal.cause == Cause::Unsupported && refusal.reason.contains(&file(3)),
                "the cpu has no such file: {refusal}"
            );
        }
        for refusal in [text(4).unwrap_err(), write(&files, 4, WHAT, &Setting::new("0")).unwrap_err()] {
            assert!(refusal.cause == Cause::Gone && refusal.reason.contains("cpu 4"), "{refusal}");
        }
    }

    #[test]
    fn a_driver_has_a_name_and_none_is_none() {
        let check = |text: Option<&str>, want: Option<&str>| {
            let path = format!("{CPUS}/cpuidle/current_driver");
            let files: Vec<(&str, &str)> = text.iter().map(|text| (path.as_str(), *text)).collect();
            let tree = Tree::new("idle-driver", &files);
            assert_eq!(idle_driver(&tree.files()), Ok(want.map(str::to_owned)), "{text:?}");
        };
        check(Some("haltpoll\n"), Some("haltpoll"));
        check(Some("none\n"), None);
        check(None, None);
    }
}
