//! How long commands take, by the meter: a histogram for each command, and the slow ones told to the control thread.
//!
//! Only what the client's lane does before the next command is measured: a command that other lanes answer, or that
//! goes on in slices, counts with its first step.

use wire::command::{Command, Id};

use crate::admin::address;
use crate::client::Client;
use crate::core::Core;
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::request::Args;

/// Buckets of a histogram: bucket `n` counts times below 2ⁿ microseconds; the last takes all longer ones.
pub(crate) const BUCKET_COUNT: usize = 32;
/// Arguments of a slow command that are kept, and bytes of each, as in Redis; the rest is counted.
const ARGS_MAX: usize = 32;
const ARG_SIZE_MAX: usize = 128;

/// The times of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) us: u64,
    pub(crate) buckets: [u32; BUCKET_COUNT],
}

/// A command that took long, as SLOWLOG shows it.
pub(crate) struct Slow {
    pub(crate) unix_s: i64,
    pub(crate) us: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: Vec<u8>,
}

impl Core {
    /// Every command at zero.
    pub(crate) fn no_times() -> Box<[Times; Id::COUNT]> {
        Box::new([Times::default(); Id::COUNT])
    }

    /// A client's command took so many counts of the meter. `args`: those that are still at hand.
    #[inline]
    pub(crate) fn took(&mut self, client: &Client, command: &Command, args: Option<Args<'_>>, ticks: u64) {
        // Nearly every command is over within a microsecond: a comparison is cheaper than the division.
        let per_us = self.settings.meter_per_us;
        let us = if ticks < per_us { 0 } else { ticks / per_us };
        let times = &mut self.times[command.id as usize];
        times.us += us;
        let bucket = usize::try_from(u64::BITS - us.leading_zeros()).expect("at most 64");
        times.buckets[bucket.min(BUCKET_COUNT - 1)] += 1;
        if self.settings.slow_us.is_some_and(|slow_us| slow_us <= us) {
            self.tell_slow(client, command, args, us);
        }
    }

    #[cold]
    fn tell_slow(&mut self, client: &Client, command: &Command, args: Option<Args<'_>>, us: u64) {
        let slow = Slow {
            unix_s: self.space.now.unix_ms / 1000,
            us,
            args: args.map_or_else(|| vec![command.name.as_bytes().to_vec()], |args| kept(command, args)),
            peer: address(client.peer),
            name: client.name.clone(),
        };
        let head = ControlHead { target: 0, round: 0, kind: ControlKind::Slow };
        let control = self.lane_count;
        if !self.board.is_attended()
            || !self.peer(control).try_tell(head, &mut Some(Parcel::Slow(Box::new(slow))))
        {
            self.stats.slow_dropped += 1;
        }
    }
}

/// The arguments as they are shown: few, short, and without passwords.
fn kept(command: &Command, args: Args<'_>) -> Vec<Vec<u8>> {
    let is_secret = match command.id {
        Id::Auth | Id::Hello => true,
        Id::ConfigSet => (2..args.len()).any(|index| {
            let name = args.flat(index);
            name.eq_ignore_ascii_case(b"requirepass") || name.eq_ignore_ascii_case(b"masterauth")
        }),
        _ => false,
    };
    let shown = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let mut kept: Vec<Vec<u8>> = (0..shown)
        .map(|index| {
            let (bytes, size) = (args.flat(index), args.get(index).size());
            if is_secret && index > 0 {
                return b"(redacted)".to_vec();
            }
            let mut text = bytes[..bytes.len().min(ARG_SIZE_MAX)].to_vec();
            if size > text.len() {
                text.extend(format!("... ({} more bytes)", size - text.len()).into_bytes());
            }
            text
        })
        .collect();
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}
