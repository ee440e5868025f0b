//! Calls of one command, one behind another, as pipelines mostly are: what has to be looked at before a call is looked at once for all
//! of them.

use std::hint::cold_path;

use crate::ahead::Frame;
use crate::client::Dialect;
use crate::core::{Core, Ran};
use crate::keyspace::Call;
use crate::multi::is_queued;
use crate::request::Args;

use super::{Caller, Flow, Input, Owner, SLOTS_MAX, is_refused_unseen};

/// What [`Core::dispatch_alike`] has run.
pub(crate) struct Alike {
    pub(crate) count: usize,
    /// Bytes of their frames.
    pub(crate) size: usize,
    /// Of the last of them, or of the one behind it that could not begin.
    pub(crate) flow: Flow,
}

impl Core {
    /// Runs the first of some commands that were decoded, and calls of the same behind it, or asks their lanes, as [`Core::dispatch`]
    /// would one by one; as soon as frames and replies have `size_max` bytes no more of them. None if the first has no key or is to be
    /// looked at more closely.
    #[inline(always)]
    pub(crate) fn dispatch_alike(
        &mut self,
        caller: &mut Caller<'_>,
        frames: &[Frame],
        input: &[u8],
        size_max: usize,
    ) -> Option<Alike> {
        let &Frame { command: Some(Ok(command)), owner: Some(_), .. } = frames.first()? else { return None };
        let client = &*caller.client;
        if (client.dialect == Dialect::Aerospike) | self.is_apart(client)
            || is_refused_unseen(client, command)
            || is_queued(client, command.id)
        {
            cold_path();
            return None;
        }
        let (dialect, db, proto, port) = (client.dialect, client.db, client.proto, client.port);
        let replied = caller.output.len() + client.replies.size();
        let mut alike = Alike { count: 0, size: 0, flow: Flow::Next };
        let mut here_count = 0;
        for frame in frames {
            if alike.count > 0 && !frame.joins {
                break;
            }
            debug_assert!(
                matches!(frame.command, Some(Ok(joined)) if std::ptr::eq(joined, command)),
                "those of one command join"
            );
            let bytes = &input[alike.size..][..frame.size];
            alike.flow = match &frame.owner {
                Some(Owner::Here(route)) => {
                    here_count += 1;
                    let args = Args::View { input: bytes, ranges: &frame.ranges };
                    let call = Call { command, args, db, proto, route: Some(route), port };
                    let ran =
                        if self.can_run(&call) { self.run(&call, &mut caller.sink()) } else { Ran::Waits };
                    if matches!(ran, Ran::Done) {
                        Flow::Next
                    } else {
                        cold_path();
                        self.run_on(caller, command, Some(*route), ran, args.to_request())
                    }
                }
                Some(Owner::Other { lane, slot }) => {
                    let mut words = Input::View { input: bytes, ranges: &frame.ranges, owner: &frame.owner };
                    self.ask(caller, *lane, command, &mut words, *slot)
                }
                None => break,
            };
            if matches!(alike.flow, Flow::Halt(_)) {
                break;
            }
            alike.count += 1;
            alike.size += frame.size;
            if caller.client.replies.has_erred() {
                self.count_errors(caller.client, Ok(command));
            }
            let replies = &caller.client.replies;
            let moved = alike.size + (caller.output.len() + replies.size() - replied);
            if !matches!(alike.flow, Flow::Next) || moved >= size_max || replies.slot_count() >= SLOTS_MAX {
                break;
            }
        }
        if alike.count > 0 {
            let served = &mut self.stats.dialects[dialect as usize];
            served.direct += here_count;
            served.all += alike.count as u64;
            self.space.tally.called(command.id, alike.count as u64);
            caller.client.last = Some(command);
            caller.client.active_ns = self.space.now.mono_ns;
        }
        Some(alike)
    }
}
