//! SLOWLOG and LATENCY HISTOGRAM: what lanes have measured.

use std::collections::VecDeque;

use wire::command::{COMMANDS, Command};
use wire::reply::{self, OK, Proto, Put};

use super::info::View;
use crate::help;
use crate::histogram::Histogram;
use crate::request::Args;
use crate::timing::Slow;

/// Powers of two microseconds that LATENCY HISTOGRAM tells apart; the last takes all longer times.
const POWER_COUNT: usize = 32;

/// The newest slow commands, the newest first. `slowlog-max-len` bounds it: the oldest are forgotten.
#[derive(Default)]
pub(super) struct SlowLog {
    entries: VecDeque<(i64, Slow)>,
    id_next: i64,
}

impl SlowLog {
    pub(super) fn note(&mut self, slow: Slow, count_max: usize) {
        self.entries.push_front((self.id_next, slow));
        self.id_next += 1;
        self.entries.truncate(count_max);
    }

    pub(super) fn len(&self, out: &mut impl Put) {
        reply::integer(out, i64::try_from(self.entries.len()).expect("a log in memory"));
    }

    pub(super) fn reset(&mut self, out: &mut impl Put) {
        self.entries.clear();
        out.put(OK);
    }

    /// `SLOWLOG GET [count]`; -1 is all.
    pub(super) fn get(&self, args: Args<'_>, out: &mut impl Put) {
        let count = match args.len() {
            2 => 10,
            3 => match wire::number::parse_i64(args.flat(2)) {
                Some(-1) => usize::MAX,
                Some(count @ 0..) => usize::try_from(count).unwrap_or(usize::MAX),
                _ => return reply::error(out, "ERR count should be greater than or equal to -1"),
            },
            _ => return reply::error_bytes(out, &help::unknown_shape("SLOWLOG", args)),
        };
        let shown = self.entries.len().min(count);
        reply::array(out, shown);
        for (id, slow) in self.entries.iter().take(shown) {
            reply::array(out, 6);
            reply::integer(out, *id);
            reply::integer(out, slow.unix_s);
            reply::integer(out, i64::try_from(slow.us).unwrap_or(i64::MAX));
            reply::array(out, slow.args.len());
            for arg in &slow.args {
                reply::bulk(out, arg);
            }
            reply::bulk(out, slow.peer.as_bytes());
            reply::bulk(out, &slow.name);
        }
    }
}

/// How many of the times are below each power of two microseconds and not below the one before.
fn powers(times: &Histogram, meter_per_us: u64) -> [u64; POWER_COUNT] {
    let mut counts = [0; POWER_COUNT];
    for (shortest, _, count) in times.filled() {
        let us = shortest / meter_per_us.max(1);
        let power = usize::try_from(u64::BITS - us.leading_zeros()).expect("at most 64");
        counts[power.min(POWER_COUNT - 1)] += count;
    }
    counts
}

/// LATENCY HISTOGRAM [command …]: for each called one its calls, and how many took less than 1, 2, 4, … microseconds.
pub(super) fn histogram(args: Args<'_>, view: &View<'_>, proto: Proto, out: &mut impl Put) {
    let is_wanted = |command: &Command| {
        args.len() == 2
            || (2..args.len()).any(|index| {
                let name = command.name.as_bytes();
                let (wanted, group) = (args.flat(index), name.split(|&byte| byte == b'|').next());
                name.eq_ignore_ascii_case(wanted) || group.is_some_and(|it| it.eq_ignore_ascii_case(wanted))
            })
    };
    let found: Vec<(&Command, [u64; POWER_COUNT])> = COMMANDS
        .iter()
        .enumerate()
        .filter(|(_, command)| is_wanted(command))
        .map(|(index, command)| (command, powers(&view.times(index), view.settings.meter_per_us)))
        .filter(|(_, buckets)| buckets.iter().any(|&count| count > 0))
        .collect();
    let put_number =
        |out: &mut _, number: u64| reply::integer(out, i64::try_from(number).unwrap_or(i64::MAX));
    reply::map(out, proto, found.len());
    for (command, buckets) in found {
        reply::bulk(out, command.name.as_bytes());
        reply::map(out, proto, 2);
        reply::bulk(out, b"calls");
        put_number(out, buckets.iter().sum());
        reply::bulk(out, b"histogram_usec");
        let filled: Vec<usize> = (0..POWER_COUNT).filter(|&power| buckets[power] > 0).collect();
        reply::map(out, proto, filled.len());
        let mut below = 0;
        for power in filled {
            below += buckets[power];
            put_number(out, 1 << power);
            put_number(out, below);
        }
    }
}
