//! How long turns and commands take, by the meter: a histogram for each command and one for turns, slow commands told to
//! the control thread, and turns that took too long with what took longest in them.
//!
//! Up to [`TOGETHER_MAX`] small calls of one command that a client sent one behind another are measured together, because reading
//! the meter costs as much as a tenth of such a command: each counts with its part of the time, but with no more than
//! [`TOGETHER_US`], and the last with all that is left. So a sum is exact, and so is what takes longer, within those few.
//!
//! Of a command only what the client's lane does before the next command is measured: one that other lanes answer, or
//! that goes on in slices, counts with its first step. Commands that look together over lanes begin together, and share that. What other lanes ask, and slices, are looked at for stalls alone.
//! A command that the control thread carries out is measured there, until its answer (`control/times.rs`): what its lane
//! does for it is no time of the command.

use std::hint::cold_path;

use wire::command::{Command, Id, Scope, Work};

use crate::Settings;
use crate::client::Client;
use crate::core::Core;
use crate::histogram::Histogram;
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::request::{Args, Request};
use crate::secret::{REDACTED, Secrets};
use crate::turn::{Lane, Meter};

/// Arguments of a slow command that are kept, and bytes of each, as in Redis; the rest is counted.
pub(crate) const ARGS_MAX: usize = 32;
const ARG_SIZE_MAX: usize = 128;
/// The same of a command that was gathered, which has to be looked at before anybody knows whether it is slow.
const GATHERED_ARGS_MAX: usize = 3;

/// Commands that are measured together at most.
const TOGETHER_MAX: usize = 8;
/// What such a command takes at most: of what is measured together, anything above is one command's.
const TOGETHER_US: u64 = 4;
/// Bytes of such a command at most.
const TOGETHER_SIZE: usize = 1024;
/// When shorter commands than this are slow, each is measured alone.
const TOGETHER_SLOW_US: u64 = 1000;

/// How long a turn serves clients' commands, other lanes' asks, and slices, each; give or take the last of them. Then the rest has its turn.
const SPELL_US: u64 = 300;

/// The times of each command that was called, by [`Id`].
pub(crate) type Times = Box<[Option<Box<Histogram>>; Id::COUNT]>;

/// What a lane measures of itself.
pub(crate) struct Timing {
    pub(crate) times: Times,
    pub(crate) turns: Box<Histogram>,
    /// What took longest in this turn.
    longest: Stretch,
    /// The longest turn, without those that were preempted.
    pub(crate) turn_longest: Stall,
    /// The last turn, if it was too long and nobody has said yet why.
    stall: Option<Stall>,
    /// Commands that take so long are slow, turns that take longer are too long; in counts of the meter.
    slow_ticks: u64,
    stall_ticks: u64,
    /// [`TOGETHER_MAX`]; 1 when each command is measured alone.
    together_max: usize,
    /// [`TOGETHER_US`].
    together_ticks: u64,
    /// [`SPELL_US`], and what is left of it.
    spell_ticks: u64,
    spell_left: u64,
}

/// Whether a command of so many bytes may be measured together with others.
pub(crate) fn is_small(command: &Command, size: usize) -> bool {
    command.scope == Scope::Key && command.work == Work::Constant && size <= TOGETHER_SIZE
}

/// Commands of a client that have run since the meter was read.
pub(crate) struct Lap<'m, M> {
    meter: &'m M,
    /// The meter counts time; else nothing is measured.
    pub(crate) is_timed: bool,
    /// What the meter said.
    mark: u64,
    count: usize,
    /// The last of them, as its caller counts.
    index: usize,
}

impl<M: Meter> Lap<'_, M> {
    /// Commands begin now.
    #[inline]
    pub(crate) fn restart(&mut self) {
        self.mark = if self.is_timed { self.meter.read() } else { 0 };
    }

    /// So many commands are over, the last of them that one.
    #[inline(always)]
    pub(crate) fn add(&mut self, count: usize, index: usize) {
        self.count += count;
        self.index = index;
    }

    /// The last that is over, if there are any.
    #[inline(always)]
    pub(crate) fn last(&self) -> Option<usize> {
        (self.count > 0).then_some(self.index)
    }

    /// What is over is told, and the next begin.
    #[inline(always)]
    pub(crate) fn end(&mut self) -> Took {
        let now = self.meter.read();
        let took = Took { ticks: now.wrapping_sub(self.mark), count: self.count as u64 };
        self.mark = now;
        self.count = 0;
        took
    }
}

/// How long commands took, one behind another.
#[derive(Clone, Copy)]
pub(crate) struct Took {
    ticks: u64,
    count: u64,
}

impl Took {
    /// The part of each, when so many took that together.
    pub(crate) fn shared(self, count: u64) -> Took {
        Took { ticks: self.ticks / count, count: 1 }
    }
}

/// Something that a lane did in one piece.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stretch {
    pub(crate) ticks: u64,
    pub(crate) kind: StretchKind,
    pub(crate) command: Option<&'static Command>,
    pub(crate) extent: Extent,
}

/// See [`Stretch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StretchKind {
    /// A client's command, or its first step.
    #[default]
    Command,
    /// Another lane's ask.
    Ask,
    /// A further step of a command or of a transaction.
    Slice,
}

/// How large a command is. Its arguments themselves may be secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Arguments, the command's name included.
    pub(crate) arg_count: usize,
    /// Bytes of it.
    pub(crate) size: usize,
}

impl Extent {
    pub(crate) fn of(request: &Request) -> Extent {
        Extent { arg_count: request.len(), size: request.size() }
    }
}

/// What a turn has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) command_count: u64,
    pub(crate) ask_count: u64,
    pub(crate) slice_count: u64,
}

/// A turn that took longer than `stall-warn`: see [`Lane::stall`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Stall {
    /// How long, by the meter.
    pub ticks: u64,
    pub(crate) done: Done,
    pub(crate) longest: Stretch,
}

impl Stall {
    /// The command that took longest in the turn, in lower case; none if no command took any time.
    pub fn command(&self) -> Option<&'static str> {
        self.longest.command.map(|command| command.name)
    }
}

/// A command that took long, as SLOWLOG and LATENCY show it.
pub(crate) struct Slow {
    pub(crate) command: &'static Command,
    pub(crate) unix_s: i64,
    pub(crate) us: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: Box<[u8]>,
}

impl Timing {
    pub(crate) fn new(settings: &Settings) -> Timing {
        let mut timing = Timing {
            times: Box::new([const { None }; Id::COUNT]),
            turns: Box::default(),
            longest: Stretch::default(),
            turn_longest: Stall::default(),
            stall: None,
            slow_ticks: 0,
            stall_ticks: 0,
            together_max: 1,
            together_ticks: 0,
            spell_ticks: u64::MAX,
            spell_left: u64::MAX,
        };
        timing.obey(settings);
        timing
    }

    /// From now on these are the limits.
    pub(crate) fn obey(&mut self, settings: &Settings) {
        let ticks =
            |us: Option<u64>| us.map_or(u64::MAX, |us| us.saturating_mul(settings.meter_per_us.max(1)));
        self.slow_ticks = ticks(settings.slow_us);
        self.stall_ticks = ticks(settings.stall_us);
        let is_alone = settings.slow_us.is_some_and(|us| us < TOGETHER_SLOW_US);
        self.together_max = if is_alone { 1 } else { TOGETHER_MAX };
        self.together_ticks = TOGETHER_US * settings.meter_per_us;
        self.spell_ticks = match settings.meter_per_us {
            0 => u64::MAX,
            per_us => SPELL_US * per_us,
        };
    }

    /// Commands, asks or slices begin, which have so long.
    #[inline]
    pub(crate) fn begin_spell(&mut self) {
        self.spell_left = self.spell_ticks;
    }

    #[inline]
    pub(crate) fn is_last_quarter(&self) -> bool {
        self.spell_left < self.spell_ticks / 4
    }

    /// Whether others have to have their turn first.
    #[inline]
    pub(crate) fn is_spell_over(&self) -> bool {
        self.spell_left == 0
    }

    /// How many more commands may be measured with those of a lap.
    #[inline(always)]
    pub(crate) fn room_of<M>(&self, lap: &Lap<'_, M>) -> usize {
        if lap.is_timed { self.together_max.saturating_sub(lap.count) } else { usize::MAX }
    }

    /// A piece of work is over.
    #[inline]
    pub(crate) fn note(
        &mut self,
        kind: StretchKind,
        command: Option<&'static Command>,
        extent: Extent,
        ticks: u64,
    ) {
        self.spell_left = self.spell_left.saturating_sub(ticks);
        if self.longest.ticks < ticks {
            self.longest = Stretch { ticks, kind, command, extent };
        }
    }
}

impl Core {
    /// What the meter says, if it counts time.
    #[inline]
    pub(crate) fn mark(&self, meter: &impl Meter) -> u64 {
        if self.settings.meter_per_us > 0 { meter.read() } else { 0 }
    }

    /// Commands begin now.
    #[inline]
    pub(crate) fn lap<'m, M: Meter>(&self, meter: &'m M) -> Lap<'m, M> {
        let mut lap = Lap { meter, is_timed: self.settings.meter_per_us > 0, mark: 0, count: 0, index: 0 };
        lap.restart();
        lap
    }

    /// A client's commands, all of them calls of this one, took so many counts of the meter. `args`: those of the last, while
    /// they are at hand, for when it was slow.
    #[inline(always)]
    pub(crate) fn took<'a>(
        &mut self,
        client: &Client,
        command: &'static Command,
        args: impl FnOnce() -> Option<Args<'a>>,
        extent: Extent,
        Took { ticks, count }: Took,
    ) {
        let times = self.timing.times[command.id as usize].get_or_insert_default();
        let mut last = ticks;
        if count > 1 {
            let each = (ticks / count).min(self.timing.together_ticks);
            times.add_some(each, count - 1);
            last -= each * (count - 1);
        }
        times.add(last);
        self.timing.spell_left = self.timing.spell_left.saturating_sub(ticks - last);
        self.timing.note(StretchKind::Command, Some(command), extent, last);
        if self.timing.slow_ticks <= last {
            cold_path();
            self.tell_slow(client, command, args(), last / self.settings.meter_per_us);
        }
    }

    /// The same of a command that was gathered: its words are gone by now, but for those that were [`Core::kept_of_gathered`].
    pub(crate) fn took_gathered(
        &mut self,
        client: &Client,
        command: &'static Command,
        words: Vec<Vec<u8>>,
        extent: Extent,
        Took { ticks, .. }: Took,
    ) {
        self.timing.times[command.id as usize].get_or_insert_default().add(ticks);
        self.timing.note(StretchKind::Command, Some(command), extent, ticks);
        if self.timing.slow_ticks <= ticks {
            self.tell_slow_words(client, command, words, ticks / self.settings.meter_per_us);
        }
    }

    /// The front of a large command, mostly its name and key, should it turn out to be slow.
    pub(crate) fn kept_of_gathered(&self, command: &Command, args: Args<'_>) -> Vec<Vec<u8>> {
        if self.timing.slow_ticks == u64::MAX { Vec::new() } else { kept(command, args, GATHERED_ARGS_MAX) }
    }

    #[cold]
    fn tell_slow(&mut self, client: &Client, command: &'static Command, args: Option<Args<'_>>, us: u64) {
        let words =
            args.map_or_else(|| vec![command.name.as_bytes().to_vec()], |args| kept(command, args, ARGS_MAX));
        self.tell_slow_words(client, command, words, us);
    }

    #[cold]
    fn tell_slow_words(&mut self, client: &Client, command: &'static Command, words: Vec<Vec<u8>>, us: u64) {
        if command.scope == Scope::Control {
            return;
        }
        let slow = Slow {
            command,
            unix_s: self.space.wall_ms / 1000,
            us,
            args: words,
            peer: self.settings.address(client.peer),
            name: client.name.clone(),
        };
        if !self.tell_control(ControlKind::Slow, Some(Parcel::Slow(Box::new(slow)))) {
            self.stats.slow_dropped += 1;
        }
    }

    /// Tells the control thread something that it has not asked for; false when there is none, or no room.
    pub(crate) fn tell_control(&mut self, kind: ControlKind, mut parcel: Option<Parcel>) -> bool {
        let head = ControlHead { target: 0, round: 0, kind };
        let control = self.lane_count;
        self.board.is_attended() && self.peer(control).try_tell(head, &mut parcel)
    }

    /// A turn begins: nothing in it took long yet. What nobody said of the last one stays its own fault.
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        self.timing.longest = Stretch::default();
        if self.timing.stall.is_some() {
            self.settle(0);
        }
    }

    /// A turn is over.
    #[inline]
    pub(crate) fn end_turn(&mut self, ticks: u64, done: Done) {
        self.timing.turns.add(ticks);
        if self.timing.stall_ticks < ticks {
            self.timing.stall = Some(Stall { ticks, done, longest: self.timing.longest });
        } else if self.stats.turn_meter_max < ticks {
            self.note_longest_turn(Stall { ticks, done, longest: self.timing.longest });
        }
    }

    #[cold]
    fn note_longest_turn(&mut self, turn: Stall) {
        self.stats.turn_meter_max = turn.ticks;
        self.timing.turn_longest = turn;
    }

    /// True if the stall is told to the control thread.
    #[cold]
    fn settle(&mut self, waited_ns: u64) -> bool {
        let Some(mut stall) = self.timing.stall.take() else { return false };
        let waited_ticks = waited_ns.saturating_mul(self.settings.meter_per_us) / 1000;
        let own_ticks = stall.ticks.saturating_sub(waited_ticks);
        if own_ticks <= self.timing.stall_ticks {
            self.stats.turns_preempted += 1;
            self.stats.turn_preempted_meter_max = self.stats.turn_preempted_meter_max.max(stall.ticks);
            return false;
        }
        stall.ticks = own_ticks;
        stall.longest.ticks = stall.longest.ticks.min(own_ticks);
        self.stats.turns_stalled += 1;
        if self.stats.turn_meter_max < stall.ticks {
            self.note_longest_turn(stall);
        }
        // What there is no room for is counted all the same.
        self.tell_control(ControlKind::Stall, Some(Parcel::Stall(Box::new(stall))));
        true
    }
}

impl Lane {
    /// The last turn, if it took longer than `stall-warn` by the meter. The runner finds out how long the thread was
    /// preempted in it and says so with [`Lane::settle`]; unsaid, the next turn takes it for the lane's own.
    #[inline]
    pub fn stall(&self) -> Option<&Stall> {
        self.core.timing.stall.as_ref()
    }

    /// Ends the matter of [`Lane::stall`]: a turn that was too long because the thread waited is counted, of any other one what was its own is
    /// told to the control thread. True if that sleeps, and its bell has to be rung.
    pub fn settle(&mut self, waited_ns: u64) -> bool {
        let control = self.core.lane_count;
        self.core.settle(waited_ns) && self.core.peer(control).publish()
    }
}

/// The arguments as they are shown: at most so many, short, and without passwords.
pub(crate) fn kept(command: &Command, args: Args<'_>, count_max: usize) -> Vec<Vec<u8>> {
    if command.is_of_a_dialect() {
        // Its first argument is no text; the second is its key, where it has one.
        let key = if args.len() > 1 { args.flat(1) } else { b"" };
        return vec![command.name.as_bytes().to_vec(), key[..key.len().min(ARG_SIZE_MAX)].to_vec()];
    }
    let shown = if args.len() > count_max { count_max - 1 } else { args.len() };
    let mut secrets = Secrets::of(command, args);
    let mut kept: Vec<Vec<u8>> = (0..shown)
        .map(|index| {
            let arg = args.get(index);
            if secrets.hides(args, index) {
                return REDACTED.to_vec();
            }
            let mut text = arg.front(ARG_SIZE_MAX);
            if arg.size() > text.len() {
                text.extend(format!("... ({} more bytes)", arg.size() - text.len()).into_bytes());
            }
            text
        })
        .collect();
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}
