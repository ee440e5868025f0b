//! MULTI, EXEC, DISCARD, WATCH and UNWATCH: what a client collects until its transaction begins.

use std::collections::BTreeSet;

use wire::command::{Command, Flag, Id, Scope};
use wire::reply::{OK, Put};
use wire::route::Slot;

use crate::client::{Client, Multi, Port, WATCHED_COUNT_MAX, WATCHED_SIZE};
use crate::core::Core;
use crate::dispatch::{CROSSSLOT, Caller, Flow, Input, keys_among};
use crate::keyspace::OOM;
use crate::locks::LockName;
use crate::paged::Paged;
use crate::part::NAMES_PER_STEP;
use crate::request::{Args, Request};
use crate::room::Made;
use crate::slab::Handle;
use crate::transaction::Transaction;

/// The commands between MULTI and EXEC: as many as `client-query-buffer-limit` has room for, a few million by default.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) commands: Paged<(&'static Command, Request)>,
    /// One of them writes, or is a script that may.
    pub(crate) writes: bool,
    /// One of them is a command that writes.
    pub(crate) has_writer: bool,
    /// One of them may not run while data are loaded.
    pub(crate) needs_data: bool,
    /// One of them may not run while they may be old.
    pub(crate) needs_news: bool,
    /// One of them concerns the connection or the control thread.
    concerns_client: bool,
}

impl Queue {
    fn push(&mut self, command: &'static Command, request: Request, may_write: bool) {
        self.writes |= may_write;
        self.has_writer |= command.writes();
        self.needs_data |= !command.flags.has(Flag::Loading);
        self.needs_news |= !command.flags.has(Flag::Stale);
        self.concerns_client |=
            matches!(command.scope, Scope::Connection | Scope::Control | Scope::Script | Scope::Pubsub);
        self.commands.push((command, request));
    }
}

/// Whether a command waits for EXEC: all do inside a MULTI but those that end it or may not be there.
#[inline]
pub(crate) fn is_queued(client: &Client, id: Id) -> bool {
    let ends_or_begins =
        |id| matches!(id, Id::Exec | Id::Discard | Id::Multi | Id::Watch | Id::Quit | Id::Reset);
    client.multi.is_some() && !ends_or_begins(id)
}

/// The lanes that own watched keys, each once.
pub(crate) fn lanes_of<'a>(names: impl IntoIterator<Item = &'a (u16, LockName)>) -> Vec<u16> {
    let mut lanes: Vec<u16> = names.into_iter().map(|(lane, _)| *lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

impl Core {
    /// MULTI, EXEC, DISCARD or UNWATCH.
    pub(crate) fn dispatch_multi(&mut self, caller: &mut Caller<'_>, id: Id) -> Flow {
        match (id, caller.client.multi.take()) {
            (Id::Multi, None) => caller.client.multi = Some(Box::default()),
            (Id::Multi, multi) => {
                caller.client.multi = multi;
                return caller.refuse("ERR MULTI calls can not be nested");
            }
            (Id::Unwatch, multi) => {
                caller.client.multi = multi;
                self.forget_watch(caller.client, caller.handle);
            }
            (Id::Discard, None) => return caller.refuse("ERR DISCARD without MULTI"),
            (Id::Discard, Some(multi)) => self.discard(caller, *multi),
            (_, None) => return caller.refuse("ERR EXEC without MULTI"),
            (_, Some(multi)) => return self.exec(caller, *multi),
        }
        caller.sink().put(OK);
        Flow::Next
    }

    fn exec(&mut self, caller: &mut Caller<'_>, multi: Multi) -> Flow {
        if multi.is_broken {
            self.discard(caller, multi);
            return caller.refuse("EXECABORT Transaction discarded because of previous errors.");
        }
        if multi.has_slots {
            self.discard(caller, multi);
            return caller.refuse(CROSSSLOT);
        }
        let client = &mut *caller.client;
        let watcher = client.watcher(self.id, caller.handle.to_bits());
        let names: Vec<_> = client.watch.end().into_iter().collect();
        let watcher = (!names.is_empty()).then_some(watcher);
        let has_copy = multi.queued.concerns_client || self.may_deny(client);
        let stand_in = has_copy.then(|| Box::new(client.stand_in()));
        let queued = multi.queued.commands;
        let (proto, db, origin) = (client.proto, client.db, caller.open());
        let mut transaction = Transaction::of_multi(origin, proto, db, queued, watcher, names);
        transaction.port = caller.client.port;
        transaction.local = caller.client.local;
        transaction.lines = self.monitoring.exec.take();
        transaction.stand_in = stand_in;
        self.transact(caller, transaction)
    }

    /// A transaction comes to nothing, and with it the client's watching.
    fn discard(&mut self, caller: &mut Caller<'_>, multi: Multi) {
        self.forget_queue(multi);
        self.forget_watch(caller.client, caller.handle);
    }

    /// An EXEC that is refused ends the transaction all the same, and the client's watching (`rejectCommand` in Redis' server.c).
    pub(crate) fn abort(&mut self, caller: &mut Caller<'_>) {
        let multi = caller.client.multi.take().unwrap_or_default();
        self.discard(caller, *multi);
    }

    pub(crate) fn forget_queue(&mut self, multi: Multi) {
        self.space.discard_queue(multi.queued.commands);
    }

    /// A command inside a MULTI waits for EXEC, or is refused and breaks the transaction.
    pub(crate) fn queue(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        caller.client.last = Some(command);
        let args = input.args();
        let stray;
        // A transaction would hold its locks while it waits for another server.
        let refusal = if command.flags.has(Flag::NoMulti) || command.id == Id::Migrate {
            "ERR Command not allowed inside a transaction"
        } else if self.space.room_for(command, &args, caller.client.db, &self.locks) == Made::Nothing {
            OOM
        } else if let Some(text) = input.too_long(command) {
            text
        } else if let Some(text) = self.stray(caller.client, command, &args) {
            stray = text;
            &stray
        } else {
            let may_write = self.may_write(command, args);
            let request = input.take_request();
            let query_size_max = self.settings.query_size_max_of(caller.client);
            let multi = caller.client.multi.as_mut().expect("only asked inside a MULTI");
            let size = multi.size + size_of::<(&Command, Request)>() + request.size();
            // What is broken comes to nothing: no more of it is kept, and its client learns it from EXEC (`queueMultiCommand` in Redis' multi.c).
            if multi.is_broken || size <= query_size_max {
                if multi.is_broken {
                    self.space.discard(request);
                } else {
                    multi.size = size;
                    multi.queued.push(command, request, may_write);
                }
                caller.sink().put(b"+QUEUED\r\n");
                return Flow::Next;
            }
            self.space.discard(request);
            "ERR the commands of this MULTI are larger than client-query-buffer-limit"
        };
        caller.client.multi.as_mut().expect("only asked inside a MULTI").is_broken = true;
        caller.refuse(refusal)
    }

    /// Why a lane's own port does not queue a command, or run a script: as on a node of a Redis Cluster, a transaction is of one slot there, and that
    /// the node's. Keys of several slots in several commands are no reason before EXEC (`getNodeByQuery` in Redis' cluster.c).
    pub(crate) fn stray(
        &mut self,
        client: &mut Client,
        command: &Command,
        args: &Args<'_>,
    ) -> Option<String> {
        if client.port != Port::Lane {
            return None;
        }
        let step = usize::from(command.keys.step.max(1));
        // Planning looks at what is behind these.
        let keys = keys_among(command, *args).step_by(step).take(NAMES_PER_STEP);
        let mut slots = keys.map(|index| Slot::of(args.flat(index)));
        let slot = slots.next()?;
        if slots.any(|other| other != slot) {
            return Some(CROSSSLOT.to_owned());
        }
        let owner = self.map.owner(slot).0;
        if owner != self.id {
            return Some(self.moved(client, owner, slot));
        }
        if let Some(multi) = &mut client.multi {
            multi.has_slots |= *multi.slot.get_or_insert(slot) != slot;
        }
        None
    }

    /// WATCH.
    pub(crate) fn watch(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        if caller.client.multi.is_some() {
            return caller.refuse("ERR WATCH inside MULTI is not allowed");
        }
        let client = &mut *caller.client;
        let args = input.args();
        let (mut names, mut size) = (BTreeSet::new(), 0);
        for index in 1..args.len().min(1 + WATCHED_COUNT_MAX) {
            let bytes = args.flat(index);
            let slot = Slot::of(bytes);
            let key = self.space.shard.key(client.db, slot.number(), bytes);
            let name = (self.map.owner(slot).0, LockName { db: key.db, key: Some(key.hash) });
            if !client.watch.names.contains(&name) && names.insert(name) {
                size += bytes.len() + WATCHED_SIZE;
            }
        }
        if args.len() > 1 + WATCHED_COUNT_MAX || client.watch.names.len() + names.len() > WATCHED_COUNT_MAX {
            return caller.refuse(&format!("ERR a client watches at most {WATCHED_COUNT_MAX} keys"));
        }
        client.watch.names.append(&mut names);
        // Bounded by both limits of a request's names: some 33 MB.
        client.watch.size += u32::try_from(size).expect("keys are short, and their number is bounded");
        let watcher = client.watcher(self.id, caller.handle.to_bits());
        let db = client.db;
        let request = input.take_request();
        let transaction = Transaction::of_watch(caller.open(), command, request, db, watcher);
        self.transact(caller, transaction)
    }

    /// Ends the client's watching, whatever the reason.
    pub(crate) fn forget_watch(&mut self, client: &mut Client, handle: Handle<Client>) {
        if client.watch.names.is_empty() {
            return;
        }
        let id = client.watcher(self.id, handle.to_bits());
        let names = client.watch.end();
        self.unwatch(id, lanes_of(&names));
    }
}
