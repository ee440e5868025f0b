//! One client's share of a turn: its input becomes commands, commands become replies.
//!
//! Commands that have arrived together, of one client that pipelines or of several that do not, go through each stage
//! together: all are received and decoded, up to [`AHEAD_MAX`](crate::ahead::AHEAD_MAX) of a client, then all run. What their keys need is
//! brought near meanwhile, so that the cache misses of a batch overlap; and a stage's code, which a system call drives
//! out of the cache, is fetched once for all.

use std::hint::cold_path;

use net::{Close, Need, Net, Stream};
use wire::resp::{ProtocolError, Step, Token};

use crate::ahead::{Ahead, Frame, limits};
use crate::client::{Client, Dialect};
use crate::core::Core;
use crate::dispatch::{Caller, Flow, Input, SLOTS_MAX};
use crate::language::Limits;
use crate::part::NAMES_PER_STEP;
use crate::replies::{OUTPUT_HIGH, Sink};
use crate::request::{Args, Request};
use crate::slab::Handle;
use crate::tally::ErrorCode;
use crate::timing::{Extent, Lap};
use crate::transaction::is_look;
use crate::turn::Meter;

/// Bytes of replies that a client may leave unread before it has said its password; one more and it is closed.
const UNAUTHENTICATED_UNREAD_MAX: usize = 1024;
/// The same of a client of Couchbase: the error map, for which it asks first, has 3 KiB.
const UNAUTHENTICATED_UNREAD_MAX_OF_NODE: usize = 8 * 1024;

/// Of bytes that compressed requests have become each counts as so many that were taken in: it takes about ten nanoseconds.
const INFLATED_COST: usize = 4;

/// Of a large command each argument counts as so many bytes, however short it is.
const ARGUMENT_COST: usize = 16;

/// What is left of a turn for one client.
pub(crate) struct Share {
    /// Commands it began with.
    pub(crate) commands: usize,
    pub(crate) commands_left: usize,
    /// Bytes that may be taken in or answered.
    pub(crate) bytes: usize,
    /// Bytes that were, with the last command more than that.
    pub(crate) moved: usize,
    /// For all clients: the receive that uses it up is the turn's last.
    pub(crate) receive_left: usize,
}

/// Why serving a client ended.
pub(crate) enum End {
    /// Its next command is not there yet.
    Waits,
    /// Its share is used up.
    Again,
    /// What has come is to be looked at once more.
    Anew,
    /// It is blocked, halted or leaving: what happens next depends on its replies.
    Settles,
    /// It is halted although it has all its replies: a ring has no room for its command, or it does not read.
    Parched,
}

/// Decodes and dispatches a client's commands until its input or its share ends, or it has to wait. `lap` began when
/// those that ran before were over; it begins anew for commands that are decoded only here.
pub(crate) fn serve_client<N: Net>(
    core: &mut Core,
    client: &mut Client,
    handle: Handle<Client>,
    ahead: &mut Ahead,
    lap: &mut Lap<'_, impl Meter>,
    net: &mut N,
    share: &mut Share,
) -> End {
    let conn = client.conn;
    // What has been looked at is what is served: more would go unnoticed.
    let need = if ahead.is_fresh { Need::Rest } else { client.need };
    let Some(Stream { input, received, output, end }) = net.stream(conn, need) else { return End::Waits };
    share.receive_left = share.receive_left.saturating_sub(received);
    if received > 0 {
        client.active_ns = core.space.now.mono_ns;
    }
    let output_before = output.len();
    let (mut used, mut inflated) = (0, 0);
    client.is_halted = false;
    if client.lags_since_ns.is_some() && output_before < core.settings.output_soft_size_of(client) {
        cold_path();
        client.lags_since_ns = None;
    }
    let result = 'share: loop {
        if client.gather.is_none() {
            if !std::mem::take(&mut ahead.is_fresh) {
                cold_path();
                let walks = std::mem::take(&mut core.space.walks);
                let mut approaches = core.space.shard.approaches(walks);
                let (limits, count_max) = (limits(core, client), share.commands_left.max(1));
                ahead.look_again(core, client, &input[used..], limits, count_max, &mut approaches);
                core.space.walks = approaches.arrive();
                lap.restart();
            }
            let step = ahead.ended.take();
            let count = ahead.count;
            let mut index = 0;
            while index < count {
                let unread = output.len();
                let moved = used + inflated + unread.saturating_sub(output_before);
                let is_used_up = share.commands_left == 0 || core.timing.is_spell_over();
                let replied = unread + client.replies.size();
                let (flow, ran_count) = if is_used_up || moved >= share.bytes {
                    cold_path();
                    client.need = Need::Rest;
                    ahead.forget(client, index);
                    break 'share End::Again;
                } else if client.replies.slot_count() >= SLOTS_MAX || replied >= OUTPUT_HIGH {
                    cold_path();
                    (Flow::Halt(None), 0)
                } else {
                    let count_max = share.commands_left.min(core.timing.room_of(lap)).min(count - index);
                    let frames = &ahead.frames[index..index + count_max];
                    let size_max = (share.bytes - moved).min(OUTPUT_HIGH - replied);
                    let caller = &mut Caller { client, handle, output };
                    if let Some(alike) = core.dispatch_alike(caller, frames, &input[used..], size_max) {
                        share.commands_left -= alike.count;
                        used += alike.size;
                        (alike.flow, alike.count)
                    } else {
                        let frame = &ahead.frames[index];
                        let bytes = &input[used..used + frame.size];
                        share.commands_left -= usize::from(!frame.ranges.is_empty());
                        let mut command =
                            Input::View { input: bytes, ranges: &frame.ranges, owner: &frame.owner };
                        let flow = match frame.command {
                            None => Flow::Next,
                            Some(resolved) => core.dispatch(caller, resolved, &mut command),
                        };
                        let has_run = !matches!(flow, Flow::Halt(_) | Flow::Look);
                        used += if has_run { frame.size } else { 0 };
                        (flow, usize::from(has_run))
                    }
                };
                index += ran_count;
                if ran_count > 0
                    && lap.is_timed
                    && let frame = &ahead.frames[index - 1]
                    && let Some(Ok(command)) = frame.command
                {
                    lap.add(ran_count, index - 1);
                    let next = ahead.frames[..count].get(index);
                    if !(next.is_some_and(|next| next.joins) && core.timing.room_of(lap) > 0) {
                        let args = || {
                            let bytes = &input[used - frame.size..used];
                            Some(Args::View { input: bytes, ranges: &frame.ranges })
                        };
                        core.took(client, command, args, frame.extent(), lap.end());
                    }
                }
                if matches!(flow, Flow::Next) {
                    continue;
                }
                cold_path();
                let flow = if matches!(flow, Flow::Look) {
                    // The first is among those that are left no more.
                    let behind = &ahead.frames[index..count.min(index + 1 + share.commands_left)];
                    let caller = &mut Caller { client, handle, output };
                    let (flow, looks_count, size) = look_together(core, caller, behind, &input[used..], lap);
                    share.commands_left -= looks_count - 1;
                    used += size;
                    index += looks_count;
                    flow
                } else {
                    flow
                };
                if matches!(flow, Flow::Next) {
                    // What is decoded is counted from the front: it is looked at anew.
                    client.need = Need::Rest;
                    ahead.forget(client, index);
                    break 'share End::Anew;
                }
                if let Some(end) = follow(client, flow, &mut used, input.len()) {
                    ahead.forget(client, index);
                    break 'share end;
                }
            }
            match step {
                None => {}
                Some(Step::Need) if end => {
                    cold_path();
                    client.has_ended = true;
                    break End::Settles;
                }
                Some(Step::Need) => break next_input(client),
                Some(Step::Large) => client.gather = Some(Box::default()),
                Some(Step::Malformed(error)) => {
                    cold_path();
                    error.put(&mut Sink::Client { output, replies: &mut client.replies });
                    core.space.tally.rejected(None, vec![ErrorCode::of(b"ERR")]);
                    let end = follow(client, Flow::Leave, &mut used, input.len());
                    break end.expect("a client that leaves is served no more");
                }
                Some(Step::Command { .. }) => unreachable!("commands are counted, not handed over"),
            }
            continue;
        }
        cold_path();
        inflated += INFLATED_COST * client.language.take_inflated();
        let is_used_up = share.commands_left == 0 || core.timing.is_spell_over();
        if is_used_up || used + inflated >= share.bytes {
            client.need = Need::Rest;
            break End::Again;
        }
        let query_size_max = core.settings.query_size_max_of(client);
        let mut argument_count = 0;
        let limits = limits(core, client);
        let gathered = gather(client, &input[used..], limits, &mut used, &mut argument_count, query_size_max);
        inflated += ARGUMENT_COST * argument_count;
        let flow = match gathered {
            Gathered::Whole(request) => {
                share.commands_left -= 1;
                core.relieve(client);
                let args = Args::Owned(&request);
                let resolved = client.language.resolve(args.flat(0), args);
                let extent = Extent::of(&request);
                let words = resolved.map(|command| core.kept_of_gathered(command, args));
                lap.restart();
                let flow = core.dispatch_gathered(&mut Caller { client, handle, output }, resolved, request);
                if lap.is_timed
                    && !matches!(flow, Flow::Halt(_))
                    && let (Ok(command), Ok(words)) = (resolved, words)
                {
                    lap.add(1, 0);
                    core.took_gathered(client, command, words, extent, lap.end());
                }
                flow
            }
            Gathered::Again(request) => {
                core.space.discard(request);
                Flow::Next
            }
            // A cut header may be left, which nothing will complete.
            Gathered::More if end => {
                client.has_ended = true;
                break End::Settles;
            }
            Gathered::More => break next_input(client),
            Gathered::Paused => Flow::Next,
            Gathered::Broken(error) => {
                error.put(&mut Sink::Client { output, replies: &mut client.replies });
                core.space.tally.rejected(None, vec![ErrorCode::of(b"ERR")]);
                Flow::Leave
            }
            Gathered::TooLarge => Flow::Leave,
        };
        if let Some(end) = follow(client, flow, &mut used, input.len()) {
            break end;
        }
    };
    if let Some(index) = lap.last()
        && let Some(Ok(command)) = ahead.frames[index].command
    {
        core.took(client, command, || None, ahead.frames[index].extent(), lap.end());
    }
    inflated += INFLATED_COST * client.language.take_inflated();
    let unread = output.len();
    share.moved = used + inflated + unread.saturating_sub(output_before);
    let settles = !client.replies.is_empty() || unread >= core.output_noticed_size;
    let is_stranger =
        !client.is_authenticated && !client.is_replica && unread > unauthenticated_unread_max(client);
    net.consume(conn, used);
    if is_stranger {
        cold_path();
        net.close(conn, Close::Now);
        return End::Waits;
    }
    if end && (client.is_held || client.is_blocked) && give_up(client, net, unread) {
        return End::Settles;
    }
    match result {
        End::Waits if settles => End::Settles,
        other => other,
    }
}

/// Begins a command that looks on several lanes, the first of these, and those behind it that only look. Says how many they are, and how many
/// bytes of the input.
#[inline(never)]
fn look_together(
    core: &mut Core,
    caller: &mut Caller<'_>,
    frames: &[Frame],
    input: &[u8],
    lap: &mut Lap<'_, impl Meter>,
) -> (Flow, usize, usize) {
    let (mut names_left, mut size) = (NAMES_PER_STEP, 0);
    let looks = frames.iter().map_while(|frame| {
        let command = frame.command?.ok().filter(|command| is_look(command))?;
        names_left = names_left.checked_sub(frame.ranges.len())?;
        let bytes = &input[size..size + frame.size];
        size += frame.size;
        Some((command, Args::View { input: bytes, ranges: &frame.ranges }))
    });
    let looks: Vec<_> = looks.collect();
    let flow = core.look_together(caller, &looks);
    if lap.is_timed {
        let took = lap.end().shared(looks.len() as u64);
        for (&(command, args), frame) in looks.iter().zip(frames) {
            core.took(caller.client, command, || Some(args), frame.extent(), took);
        }
    }
    (flow, looks.len(), size)
}

/// A client has ended its side: if it waits for others, maybe for ever, it goes, with what it was answered before. What a pause holds back
/// of it is not carried out.
#[cold]
pub(crate) fn give_up<N: Net>(client: &mut Client, net: &mut N, unread: usize) -> bool {
    if client.waits_for_replicas() {
        net.close(client.conn, if unread == 0 { Close::Now } else { Close::AfterFlush });
    } else if !client.is_held {
        return false;
    }
    client.has_ended = true;
    true
}

/// What a client may leave unread before it has said its password.
fn unauthenticated_unread_max(client: &Client) -> usize {
    match client.dialect {
        Dialect::Couchbase => UNAUTHENTICATED_UNREAD_MAX_OF_NODE,
        _ => UNAUTHENTICATED_UNREAD_MAX,
    }
}

/// What a command's outcome means for the rest of the share; `None`: go on.
fn follow(client: &mut Client, flow: Flow, used: &mut usize, input_size: usize) -> Option<End> {
    match flow {
        Flow::Next | Flow::Look => None,
        Flow::Halt(whole) => {
            if whole.is_some() {
                client.gather = whole;
            }
            client.need = Need::Rest;
            client.halt();
            Some(if client.is_even() && client.replies.is_empty() { End::Parched } else { End::Settles })
        }
        Flow::Block => {
            client.need = Need::Rest;
            client.is_blocked = true;
            client.halt();
            if client.last.is_some_and(is_look) {
                // What comes next may be several that look together.
                client.halted_slot_count = u32::try_from(SLOTS_MAX).expect("a small number");
            }
            Some(End::Settles)
        }
        Flow::Leave => {
            *used = input_size;
            client.is_leaving = true;
            Some(End::Settles)
        }
    }
}

/// The decoder has seen all there was: the next look receives, or waits for more to arrive.
fn next_input(client: &mut Client) -> End {
    if client.need == Need::Rest {
        client.need = Need::More;
        return End::Anew;
    }
    End::Waits
}

enum Gathered {
    More,
    /// There is more to be done with what has come, when others have had their share.
    Paused,
    /// The frame begins once more: what came of it so far is not wanted.
    Again(Request),
    Whole(Request),
    Broken(ProtocolError),
    TooLarge,
}

/// Takes pieces of a large frame out of the input.
fn gather(
    client: &mut Client,
    input: &[u8],
    limits: Limits<'_>,
    used: &mut usize,
    argument_count: &mut usize,
    size_max: usize,
) -> Gathered {
    let gather = client.gather.as_mut().expect("asked for while gathering");
    if gather.is_whole() {
        let gather = client.gather.take().expect("just looked");
        return Gathered::Whole(gather.finish());
    }
    let mut at = 0;
    loop {
        let (token, size) = client.language.token(&input[at..], limits);
        let start = at;
        at += size;
        match token {
            Token::Need => {
                *used += at;
                return if gather.size() > size_max { Gathered::TooLarge } else { Gathered::More };
            }
            Token::Pause => {
                *used += at;
                return Gathered::Paused;
            }
            Token::Begin { .. } if gather.size() > 0 => {
                *used += at;
                let gather = client.gather.replace(Box::default()).expect("still there");
                return Gathered::Again(gather.abandon());
            }
            Token::Begin { .. } => {}
            Token::Bulk { size } => {
                *argument_count += 1;
                gather.begin(usize::try_from(size).expect("bulks are at most 512 MB"));
            }
            Token::Bytes(range) => gather.extend(&input[start..][range]),
            Token::Word(word) => gather.extend(word.as_bytes()),
            Token::End => {
                *used += at;
                let gather = client.gather.take().expect("still there");
                return Gathered::Whole(gather.finish());
            }
            Token::Malformed(error) => {
                *used += at;
                return Gathered::Broken(error);
            }
        }
    }
}
