//! Commands about the connection itself, and what a client that has gone leaves behind.

use wire::command::{Command, Id};
use wire::reply::Put;

use super::{Caller, Flow, Input, halt};
use crate::Now;
use crate::acl::{Context, Denial};
use crate::admin::Portrait;
use crate::client::Client;
use crate::connection::{self, Around, Wish};
use crate::core::Core;
use crate::keyspace::Call;
use crate::records;
use crate::replies::{Content, Sink};
use crate::slab::Handle;

/// Bytes of the room for replies that is kept for the next one.
const SCRATCH_KEPT_MAX: usize = 64 * 1024;

impl Core {
    pub(crate) fn dispatch_connection(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        match command.id {
            // What a client was to hear before, its own messages too, it hears before it goes, or is another.
            Id::Quit | Id::Reset if !caller.client.is_even() => return halt(input),
            Id::DocumentNode => return self.answer_node(caller, input.args()),
            Id::PageGet => return self.answer_page(caller, input),
            Id::ClientCaching | Id::ClientGetredir | Id::ClientTrackinginfo => {
                return self.answer_tracking(caller, command, input.args());
            }
            _ => {}
        }
        let args = input.args();
        let call = Call {
            command,
            args,
            db: caller.client.db,
            proto: caller.client.proto,
            route: None,
            port: caller.client.port,
        };
        // Connection commands change the client that their sink borrows from, so they write to the side first.
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let mut content = Content::default();
        let mut sink = Sink::Ask { bytes: &mut bytes, content: &mut content };
        let around = Around {
            settings: &self.settings,
            map: &self.map,
            lane: self.id,
            now: Now { unix_ms: self.told_ms(), ..self.space.now },
            local: caller.client.local,
            tracking: self.tracking.shown(caller.handle.to_bits()),
        };
        let was_authenticated = caller.client.is_authenticated;
        let wish = if command.id == Id::RecordInfo {
            let node = records::Node {
                around: &around,
                shard: &self.space.shard,
                sets: &self.space.sets,
                stats: &self.stats,
            };
            records::info(&node, &call, &mut sink);
            Wish::Nothing
        } else {
            connection::run(caller.client, &call, &around, &mut sink)
        };
        for code in content.take_errors() {
            caller.client.replies.note_error(code);
        }
        caller.sink().put(&bytes);
        caller.sink().append(content);
        if bytes.capacity() <= SCRATCH_KEPT_MAX {
            self.scratch = bytes;
        }
        match wish {
            Wish::Nothing => Flow::Next,
            Wish::Stranger(at) => {
                let from = Portrait {
                    last: Some(command),
                    ..Portrait::of(caller.client, self.id, (0, caller.output.len()))
                };
                self.tell_denial(Denial::of_login(Context::Toplevel, at, input.args(), from));
                Flow::Next
            }
            Wish::Acknowledge(offset) => {
                self.tell_ack(caller.handle, offset);
                Flow::Next
            }
            Wish::Leave => Flow::Leave,
            Wish::Reset => {
                if was_authenticated && !caller.client.is_authenticated {
                    self.note_stranger(caller.client, caller.handle);
                }
                if let Some(multi) = caller.client.multi.take() {
                    self.forget_queue(*multi);
                }
                self.forget_watch(caller.client, caller.handle);
                self.end_monitor(caller.client, caller.handle);
                self.end_subscriptions(caller.client, caller.handle);
                self.end_tracking(caller.client, caller.handle);
                Flow::Next
            }
        }
    }

    /// Frees what a client that has gone leaves behind.
    pub(crate) fn forget_client(&mut self, mut client: Client, handle: Handle<Client>) {
        self.forget_watch(&mut client, handle);
        self.end_monitor(&mut client, handle);
        self.end_replica(&mut client, handle);
        self.end_subscriptions(&mut client, handle);
        self.end_tracking(&mut client, handle);
        self.let_go(&mut client);
        if let Some(multi) = client.multi.take() {
            self.forget_queue(*multi);
        }
        if let Some(gather) = client.gather.take() {
            self.space.discard(gather.abandon());
        }
        client.replies.into_contents().for_each(|content| self.space.discard_content(content));
    }
}
