//! Calls of one command, one behind another, as pipelines mostly are: what has to be looked at before a call is looked at once for all
//! of them.

use std::hint::cold_path;

use crate::ahead::Frame;
use crate::client::Dialect;
use crate::core::{Core, Ran};
use crate::keyspace::Call;
use crate::multi::is_queued;
use crate::request::Args;

use super::{Caller, Flow, Owner, is_refused_unseen};

/// What [`Core::dispatch_alike`] has run.
pub(crate) struct Alike {
    pub(crate) count: usize,
    /// Bytes of their frames.
    pub(crate) size: usize,
    /// Of the last of them.
    pub(crate) flow: Flow,
}

impl Core {
    /// Runs the first of some commands that were decoded, and calls of the same behind it, as [`Core::dispatch`] would one by one; as soon
    /// as frames and replies have `size_max` bytes, or a reply has to wait, no more of them. None if the first has no key, or one of
    /// another lane, or is to be looked at more closely.
    #[inline(always)]
    pub(crate) fn dispatch_alike(
        &mut self,
        caller: &mut Caller<'_>,
        frames: &[Frame],
        input: &[u8],
        size_max: usize,
    ) -> Alike {
        let mut alike = Alike { count: 0, size: 0, flow: Flow::Next };
        let Some(&Frame { command: Some(Ok(command)), owner: Some(Owner::Here(_)), .. }) = frames.first()
        else {
            return alike;
        };
        let client = &*caller.client;
        if (client.dialect == Dialect::Aerospike) | self.is_apart(client)
            || is_refused_unseen(client, command)
            || is_queued(client, command.id)
        {
            cold_path();
            return alike;
        }
        let (dialect, db, proto, port) = (client.dialect, client.db, client.proto, client.port);
        let output_before = caller.output.len();
        for frame in frames {
            let Some(Owner::Here(route)) = frame.owner else { break };
            if alike.count > 0 && !frame.joins {
                break;
            }
            let args = Args::View { input: &input[alike.size..][..frame.size], ranges: &frame.ranges };
            let call = Call { command, args, db, proto, route: Some(route), port };
            let ran = if self.can_run(&call) { self.run(&call, &mut caller.sink()) } else { Ran::Waits };
            alike.count += 1;
            alike.size += frame.size;
            if !matches!(ran, Ran::Done) {
                cold_path();
                alike.flow = self.run_on(caller, command, Some(route), ran, args.to_request());
                break;
            }
            if caller.client.replies.has_erred() {
                self.count_errors(caller.client, Ok(command));
            }
            let moved = alike.size + (caller.output.len() - output_before);
            if moved >= size_max || !caller.client.replies.is_empty() {
                break;
            }
        }
        let count = alike.count as u64;
        let served = &mut self.stats.dialects[dialect as usize];
        served.direct += count;
        served.all += count;
        self.space.tally.called(command.id, count);
        caller.client.last = Some(command);
        caller.client.active_ns = self.space.now.mono_ns;
        alike
    }
}
