//! A client's next commands: decoded before the first of them runs, with what their keys need asked for meanwhile.

use std::hint::cold_path;
use std::ptr;

use net::{INPUT_MAX, Net, Stream};
use store::Approaches;
use wire::command::{Command, Refusal, Scope};
use wire::resp::{ArgRanges, Shape, Step};

use crate::client::{Client, Dialect};
use crate::core::Core;
use crate::dispatch::{Owner, SLOTS_MAX};
use crate::keyspace::Route;
use crate::language::{Limits, Place};
use crate::request::Args;
use crate::scripts::keys_of;
use crate::timing::{self, Extent};

/// Commands of one client that are decoded before the first of them runs, and clients in a batch.
pub(crate) const AHEAD_MAX: usize = 16;

/// Keys of a script that are brought near.
const SCRIPT_KEYS_AHEAD_MAX: usize = 4;

/// A command that is decoded and has not run. Its fields lie in this order: where the decoder stood mostly is not looked at.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Frame {
    pub(crate) ranges: ArgRanges,
    pub(crate) size: usize,
    /// Of the shape that has placed the ranges; 0 if none has.
    shape_number: u64,
    /// `None` for an empty line, which is no command.
    pub(crate) command: Option<Result<&'static Command, Refusal>>,
    /// Whose the key is of a command that has one.
    pub(crate) owner: Option<Owner>,
    /// It is small, and so is the one before it, of the same command: both may be dispatched and measured together.
    pub(crate) joins: bool,
    /// Where the decoder stood behind it, of a language that keeps places.
    ended: Place,
}

impl Frame {
    pub(crate) fn extent(&self) -> Extent {
        Extent { arg_count: self.ranges.len(), size: self.size }
    }
}

/// The commands at the front of a client's input. A few per lane, used again for each client. Its fields lie in this order.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Ahead {
    pub(crate) frames: Vec<Frame>,
    pub(crate) count: usize,
    /// What ended the look; `None`: there may be more.
    pub(crate) ended: Option<Step>,
    /// None of them has run: they were decoded by [`Ahead::prepare`].
    pub(crate) is_fresh: bool,
    /// Of the last one that was read byte by byte, and which command that is: most that follow are its like.
    shaped: Option<&'static Command>,
    /// The same, if calls of this shape are small enough to be measured together.
    small: Option<&'static Command>,
    /// How many shapes there have been.
    shape_number: u64,
    shape: Shape,
    /// Where the decoder stood before the first of them, of a language that keeps places.
    began: Place,
}

impl Ahead {
    /// Receives for a client that is about to be served, and decodes up to `count_max` commands; how many bytes there are then.
    /// One in the middle of something large receives when its turn comes. What is received is taken off `receive_left`.
    pub(crate) fn prepare<N: Net>(
        &mut self,
        core: &Core,
        client: &mut Client,
        net: &mut N,
        count_max: usize,
        receive_left: &mut usize,
        approaches: &mut Approaches<'_>,
    ) -> usize {
        self.is_fresh = false;
        if client.gather.is_some() {
            return INPUT_MAX;
        }
        let Some(Stream { input, received, .. }) = net.stream(client.conn, client.need) else { return 0 };
        *receive_left = receive_left.saturating_sub(received);
        if received > 0 {
            client.active_ns = core.space.now.mono_ns;
        }
        let limits = limits(core, client);
        self.look(core, client, input, limits, count_max, approaches);
        self.is_fresh = true;
        input.len()
    }

    /// What [`Ahead::look`] does, for the rest of a long pipeline.
    #[inline(never)]
    pub(crate) fn look_again(
        &mut self,
        core: &Core,
        client: &mut Client,
        input: &[u8],
        limits: Limits<'_>,
        count_max: usize,
        approaches: &mut Approaches<'_>,
    ) {
        self.look(core, client, input, limits, count_max, approaches);
    }

    /// Decodes up to `count_max` commands, and begins to look for their keys.
    #[inline(always)]
    fn look(
        &mut self,
        core: &Core,
        client: &mut Client,
        input: &[u8],
        limits: Limits<'_>,
        count_max: usize,
        approaches: &mut Approaches<'_>,
    ) {
        let count_max = count_max.min(ahead_max(client));
        let mut at = 0;
        self.count = 0;
        self.ended = None;
        let keeps_places = client.language.keeps_places();
        if keeps_places {
            client.language.note_place(&mut self.began);
        }
        // Before the password limits are lower.
        let may_repeat = client.is_authenticated && client.language.is_new_resp();
        let mut before: Option<&Command> = None;
        while self.count < count_max && at < input.len() {
            if self.frames.len() == self.count {
                cold_path();
                self.frames.push(Frame::default());
            }
            let frame = &mut self.frames[self.count];
            let repeated = if may_repeat { self.shape.read(&input[at..]) } else { None };
            let step = match repeated {
                Some(size) => {
                    if frame.shape_number != self.shape_number {
                        self.shape.place(&mut frame.ranges);
                        frame.shape_number = self.shape_number;
                    }
                    Step::Command { size }
                }
                None => {
                    frame.shape_number = 0;
                    client.language.decode(&input[at..], &mut frame.ranges, limits)
                }
            };
            let Step::Command { size } = step else {
                self.ended = Some(step);
                break;
            };
            let bytes = &input[at..at + size];
            let words = frame.ranges.view(bytes);
            frame.size = size;
            let small = if repeated.is_some() {
                frame.command = self.shaped.map(Ok);
                self.small
            } else {
                let args = Args::View { input: bytes, ranges: &frame.ranges };
                frame.command = (!words.is_empty()).then(|| client.language.resolve(words.get(0), args));
                let command = frame.command.and_then(Result::ok);
                let small = command.filter(|command| timing::is_small(command, size));
                if may_repeat
                    && let Some(command) = command
                    && !command.is_subcommand()
                    && self.shape.take(&input[at..], size, &frame.ranges)
                {
                    self.shape_number += 1;
                    (self.shaped, self.small) = (Some(command), small);
                }
                small
            };
            frame.joins = small.is_some_and(|small| before.is_some_and(|before| ptr::eq(small, before)));
            before = small;
            if keeps_places {
                client.language.note_place(&mut frame.ended);
            }
            frame.owner = match frame.command {
                Some(Ok(command)) if command.scope == Scope::Key => {
                    Some(core.owner(client.db, words.get(usize::from(command.keys.first))))
                }
                _ => None,
            };
            if let Some(Owner::Here(Route { slot, hash })) = frame.owner {
                let db = match client.dialect {
                    Dialect::Aerospike => core.settings.database_of_record(words.get(0)),
                    _ => client.db,
                };
                approaches.begin(db, slot.number(), hash);
            } else {
                approach_keys(core, client, frame, bytes, approaches);
            }
            at += size;
            self.count += 1;
        }
        if at == input.len() {
            self.ended = Some(Step::Need);
        }
    }

    /// Of what was decoded, the first `ran_count` have run: the decoder begins again behind them.
    pub(crate) fn forget(&mut self, client: &mut Client, ran_count: usize) {
        let place = ran_count.checked_sub(1).map_or(&self.began, |last| &self.frames[last].ended);
        client.language.rewind(place);
    }
}

/// Begins to look for the keys that a script declares.
#[inline(always)]
fn approach_keys(core: &Core, client: &Client, frame: &Frame, bytes: &[u8], approaches: &mut Approaches<'_>) {
    if let Some(Ok(Command { scope: Scope::Script, .. })) = frame.command {
        approach_keys_of_script(core, client, frame, bytes, approaches);
    }
}

/// The first of them.
#[cold]
#[inline(never)]
fn approach_keys_of_script(
    core: &Core,
    client: &Client,
    frame: &Frame,
    bytes: &[u8],
    approaches: &mut Approaches<'_>,
) {
    let args = Args::View { input: bytes, ranges: &frame.ranges };
    for index in keys_of(args).unwrap_or_default().take(SCRIPT_KEYS_AHEAD_MAX) {
        if let Owner::Here(Route { slot, hash }) = core.owner(client.db, args.flat(index)) {
            approaches.begin(client.db, slot.number(), hash);
        }
    }
}

/// Commands of a client that are worth decoding now. Those behind one that halts are decoded again when it goes on.
#[inline]
fn ahead_max(client: &Client) -> usize {
    if !client.is_authenticated {
        // What it may send depends on whether AUTH, which may be the next command, has succeeded.
        return 1;
    }
    if client.replies.is_empty() && !client.is_halted {
        return AHEAD_MAX;
    }
    let slot_count = client.replies.slot_count();
    // Halted before, it has place for as many as replies have left since.
    let slot_count_max = if client.is_halted { client.halted_slot_count as usize } else { SLOTS_MAX };
    slot_count_max.saturating_sub(slot_count).clamp(1, AHEAD_MAX)
}

pub(crate) fn limits<'c>(core: &'c Core, client: &Client) -> Limits<'c> {
    let Client { is_authenticated, is_inner, .. } = *client;
    Limits { settings: &core.settings, is_authenticated, is_inner }
}

#[cfg(test)]
mod tests {
    use net::{Address, Net};

    use super::*;
    use crate::client::{Door, Ends};

    /// As many commands are decoded as may be dispatched: with so many slots open now, and so many when it halted, if it did.
    fn check(slot_count: usize, halted_slot_count: Option<usize>, want: usize) {
        let mut net = net::mem::Mem::new(net::Limits::default());
        let (_, port) = net.listen();
        let _client = port.connect();
        let mut events = Vec::new();
        net.poll(&mut events);
        let Some(net::Event::Opened { conn, .. }) = events.first() else { panic!("{events:?}") };
        let ends = Ends { peer: Address::Unix, local: Address::Unix };
        let mut client = Client::new(*conn, Door::SHARED, ends, 1, 0, true);
        for _ in 0..slot_count {
            client.replies.open();
        }
        client.is_halted = halted_slot_count.is_some();
        client.halted_slot_count = halted_slot_count.map_or(0, |count| u32::try_from(count).unwrap());
        assert_eq!(ahead_max(&client), want, "{slot_count} slots, halted with {halted_slot_count:?}");
        client.is_authenticated = false;
        assert_eq!(ahead_max(&client), 1);
    }

    #[test]
    fn what_cannot_be_dispatched_is_not_decoded() {
        check(0, None, AHEAD_MAX);
        check(SLOTS_MAX - 20, None, AHEAD_MAX);
        check(SLOTS_MAX - 3, None, 3);
        check(SLOTS_MAX, None, 1);
        check(SLOTS_MAX - 5, Some(SLOTS_MAX), 5);
        check(10, Some(SLOTS_MAX), AHEAD_MAX);
        // No place in a ring, before any reply or behind some; and a barrier that has its reply.
        check(0, Some(0), 1);
        check(7, Some(9), 2);
        check(0, Some(1), 1);
    }
}
