//! `expresslane bench self-test`: the instrument against answers that are known, first in memory and exact, then over loopback
//! sockets against servers that are threads of this program.

mod live;
mod made;

use load::oracle::{Check, Depth, exact, faults, judge};

use super::Trouble;
use super::settings::SelfTestSettings;
use crate::stop::Stop;

/// Looks at all of it, and says a line for each.
pub(super) fn self_test(settings: &SelfTestSettings) -> Result<(), Trouble> {
    let stop =
        Stop::at_signals().map_err(|error| Trouble::load(format!("signals can't be taken over: {error}")))?;
    let depth = if settings.quick { Depth::Quick } else { Depth::Full };
    let (mut count, mut failed_count) = (0, 0);
    let mut show = |title: &str, checks: &[Check]| {
        super::say(&format!("{title}\n"));
        for check in checks {
            super::say(&format!("  {check}\n"));
        }
        count += checks.len();
        failed_count += checks.iter().filter(|check| !check.holds).count();
    };
    show("In memory, to the nanosecond", &exact::checks(depth));
    show("In memory, servers that misbehave", &faults::checks());
    show("In memory, the judgement", &judge::checks(depth));
    show(
        "Over sockets, to a tolerance that a busy machine keeps",
        &live::timed(depth, &stop).map_err(Trouble::load)?,
    );
    show(
        "Over sockets, servers that misbehave: bench run's own words and exit codes",
        &live::told().map_err(Trouble::load)?,
    );
    super::say("For information: the most this load can show here, against a server that does nothing\n");
    super::say(&live::ceiling(depth, &stop).map_err(Trouble::load)?);
    match failed_count {
        _ if stop.is_set() => Err(Trouble::load("stopped by hand before its end")),
        0 => {
            super::say(&format!("All {count} checks came out as expected.\n"));
            Ok(())
        }
        failed => Err(Trouble::load(format!(
            "{failed} of {count} checks FAILED: measurements of this program on this machine can't be trusted"
        ))),
    }
}
