//! Daemons: whether they run, and stopping and starting them by what manages them here.

use std::process::Command;

use super::errno::{gone, invalid, unsupported};
use super::files::Files;
use crate::kernel::Cause;
use crate::{Refusal, Setting};

/// What can stop and start a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Systemd,
    Script,
}

/// Where systemd is what started the machine (`sd_booted(3)`), or the daemon has a script.
fn manager(files: &Files, name: &str) -> Option<Manager> {
    if files.has("run/systemd/system") {
        let places =
            ["etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];
        let has_unit = places.iter().any(|place| files.has(&format!("{place}/{name}.service")));
        return has_unit.then_some(Manager::Systemd);
    }
    files.has(&format!("etc/init.d/{name}")).then_some(Manager::Script)
}

/// Whether it can be stopped and started here.
pub(crate) fn is_manageable(files: &Files, name: &str) -> bool {
    check_name(name).is_ok() && manager(files, name).is_some()
}

fn check_name(name: &str) -> Result<(), Refusal> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:".contains(c);
    if name.is_empty() || name.starts_with(['-', '.']) || !name.chars().all(is_plain) {
        return Err(invalid(format!("'{name}' is no name of a service")));
    }
    Ok(())
}

/// Whether a process of that name runs: /proc/PID/comm holds the first 15 bytes of it.
fn runs(files: &Files, name: &str) -> bool {
    let short = name.get(..name.len().min(15)).unwrap_or(name);
    let is_it = |pid: &String| {
        pid.bytes().all(|byte| byte.is_ascii_digit())
            && files.read(&format!("proc/{pid}/comm")).is_ok_and(|comm| comm == short)
    };
    files.names("proc").iter().any(is_it)
}

/// `running`, `stopped`; none where nothing of that name is installed or runs.
pub(crate) fn read(files: &Files, name: &str) -> Result<Option<Setting>, Refusal> {
    check_name(name)?;
    if runs(files, name) {
        return Ok(Some(Setting::new("running")));
    }
    Ok(manager(files, name).map(|_| Setting::new("stopped")))
}

pub(super) fn write(files: &Files, name: &str, value: &Setting) -> Result<(), Refusal> {
    check_name(name)?;
    let verb = match value.as_str() {
        "running" => "start",
        "stopped" => "stop",
        other => return Err(invalid(format!("a service is 'running' or 'stopped', not '{other}'"))),
    };
    let mut command = match manager(files, name) {
        Some(Manager::Systemd) => {
            let mut command = Command::new("systemctl");
            command.args([verb, &format!("{name}.service")]);
            command
        }
        Some(Manager::Script) => {
            let mut command = Command::new(files.path(&format!("etc/init.d/{name}")));
            command.arg(verb);
            command
        }
        None if runs(files, name) => {
            return Err(unsupported(format!(
                "{name} runs, but neither systemd nor a script in /etc/init.d manages it here: {verb} it yourself, by what started it"
            )));
        }
        None => return Err(gone(format!("there is no service {name} here"))),
    };
    let output = command
        .output()
        .map_err(|error| super::errno::unanswered(&format!("{verb} of {name} could not be run"), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(Refusal::new(Cause::Failed, format!("{verb} of {name} failed ({}): {said}", output.status)))
}
