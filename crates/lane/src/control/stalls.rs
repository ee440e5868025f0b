//! Turns that took too long, in the log: one line a second for the whole server, however many there are.

use crate::timing::{Stall, StretchKind};

/// Between two lines at least.
const PAUSE_NS: u64 = 1_000_000_000;

/// When the last line was written, and how many were not since.
#[derive(Default)]
pub(super) struct StallLog {
    next_ns: u64,
    suppressed_count: u64,
}

impl StallLog {
    /// Notes a stall of a lane; the line that is due, if one is.
    pub(super) fn note(
        &mut self,
        lane: u16,
        stall: &Stall,
        now_ns: u64,
        meter_per_us: u64,
    ) -> Option<String> {
        if now_ns < self.next_ns {
            self.suppressed_count += 1;
            return None;
        }
        self.next_ns = now_ns + PAUSE_NS;
        let mut line = describe(lane, stall, meter_per_us);
        let suppressed_count = std::mem::take(&mut self.suppressed_count);
        if suppressed_count > 0 {
            line += &format!("; {suppressed_count} more since the last such line");
        }
        Some(line)
    }
}

fn describe(lane: u16, stall: &Stall, meter_per_us: u64) -> String {
    let time = |ticks: u64| match meter_per_us {
        0 => format!("{ticks} units"),
        per_us => format!("{} us", ticks / per_us),
    };
    let Stall { ticks, done, longest } = stall;
    let name = longest.command.map_or("a transaction", |command| command.name);
    let subject = match longest.kind {
        StretchKind::Command => name.to_owned(),
        StretchKind::Ask => format!("{name} for another lane"),
        StretchKind::Slice => format!("a slice of {name}"),
    };
    let longest = match longest.ticks {
        0 => "none of them took time that was seen".to_owned(),
        ticks => format!(
            "longest of them: {subject}, {}, {} arguments, {} bytes",
            time(ticks),
            longest.extent.arg_count,
            longest.extent.size,
        ),
    };
    format!(
        "lane {lane}: a turn took {} for {} commands, {} asks and {} slices; {longest}",
        time(*ticks),
        done.command_count,
        done.ask_count,
        done.slice_count,
    )
}
