//! From a decoded command to what happens: run here, ask another lane, begin a transaction, or refuse.

use std::collections::BTreeSet;

use net::Output;
use wire::command::{Command, Flag, Group, Id, Refusal, Scope, lookup};
use wire::reply::{self, OK, Proto, Put};
use wire::resp::{ArgRanges, is_http};
use wire::route::Slot;

use crate::admin::{Portrait, Question};
use crate::client::{Client, Hush, Multi, Port, WATCHED_COUNT_MAX};
use crate::cluster;
use crate::commands::scan::parse_cursor;
use crate::connection::{self, Around, Wish};
use crate::core::{Core, Pending};
use crate::keyspace::{Call, OOM, Route};
use crate::locks::LockName;
use crate::part::{NAMES_PER_STEP, Origin};
use crate::peers::{AnswerSize, AskHead, AskKind};
use crate::replies::{Content, Sink};
use crate::request::{Arg, Args, Request};
use crate::slab::Handle;
use crate::transaction::{Transaction, key_range};

/// Commands of one client whose replies have not left; the next one stays unread.
pub(crate) const SLOTS_MAX: usize = 64;

/// How a command came in.
pub(crate) enum Input<'a> {
    /// In the connection's input.
    View { input: &'a [u8], ranges: &'a ArgRanges },
    /// Gathered over several turns.
    Owned(Request),
}

impl Input<'_> {
    pub(crate) fn args(&self) -> Args<'_> {
        match self {
            Input::View { input, ranges } => Args::View { input, ranges },
            Input::Owned(request) => Args::Owned(request),
        }
    }

    fn into_request(self) -> Request {
        match self {
            Input::View { .. } => self.args().to_request(),
            Input::Owned(request) => request,
        }
    }
}

/// What becomes of the client after a command.
pub(crate) enum Flow {
    /// On to the next one.
    Next,
    /// The command could not begin: it is handed back, to be tried again.
    Halt(Option<Request>),
    /// It waits for the reply.
    Block,
    /// It is closed when it has its replies.
    Leave,
}

impl Core {
    /// Takes one command of a client. `resolved` and `route` are what its words say, found beforehand.
    #[inline]
    pub(crate) fn dispatch(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        resolved: Result<&'static Command, Refusal>,
        route: Option<Route>,
        input: Input<'_>,
        output: &mut Output,
    ) -> Flow {
        let flow = if client.hush != Hush::Heard || self.is_overseen {
            self.dispatch_overseen(client, handle, resolved, route, input, output)
        } else {
            self.dispatch_heard(client, handle, resolved, route, input, output)
        };
        if client.replies.has_erred() {
            self.count_errors(client, resolved);
        }
        flow
    }

    /// A client's command was answered with an error at once: refused, or called and failed.
    #[cold]
    fn count_errors(&mut self, client: &mut Client, resolved: Result<&'static Command, Refusal>) {
        let codes = client.replies.take_errors();
        let tally = &mut self.space.tally;
        match resolved {
            Err(Refusal::WrongArity(command)) => tally.rejected(Some(command.id), codes),
            Err(_) => tally.rejected(None, codes),
            Ok(command) if is_refused_unseen(client, command) || is_queued(client, command.id) => {
                tally.rejected(Some(command.id), codes);
            }
            Ok(command) => tally.failed(command.id, codes),
        }
    }

    #[inline]
    pub(crate) fn dispatch_heard(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        resolved: Result<&'static Command, Refusal>,
        route: Option<Route>,
        input: Input<'_>,
        output: &mut Output,
    ) -> Flow {
        let args = input.args();
        let command = match resolved {
            Ok(command) => command,
            Err(refusal) => {
                let mut sink = Sink::Client { output, replies: &mut client.replies };
                return refuse(refusal, args, &mut client.multi, &mut sink);
            }
        };
        if is_refused_unseen(client, command) {
            reply::error(
                &mut Sink::Client { output, replies: &mut client.replies },
                "NOAUTH Authentication required.",
            );
            return Flow::Next;
        }
        if is_queued(client, command.id) {
            let lacks_room = self.lacks_room(command, &input.args());
            return queue(client, command, input, output, lacks_room, self.settings.query_size_max);
        }
        let flow = match command.scope {
            // EXEC is a barrier: what was asked of other lanes before it comes before it.
            _ if command.id == Id::Exec && !client.is_even() => halt(input),
            _ if command.group == Group::Transactions && command.id != Id::Watch => {
                self.dispatch_multi(client, handle, command.id, output)
            }
            Scope::Key => self.dispatch_key(client, handle, command, route, input, output),
            Scope::Keys(_) => self.dispatch_keys(client, handle, command, input, output),
            Scope::Connection => self.dispatch_connection(client, handle, command, input, output),
            Scope::Control => self.dispatch_control(client, handle, command, input, output),
            Scope::Partition => self.dispatch_partition(client, handle, command, input, output),
            Scope::AllLanes(_) => self.dispatch_transaction(client, handle, command, input),
        };
        if !matches!(flow, Flow::Halt(_)) {
            self.stats.commands += 1;
            self.space.tally.called(command.id);
            client.last = Some(command);
            client.active_ns = self.space.now.mono_ns;
        }
        flow
    }

    #[inline]
    fn dispatch_key(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        command: &'static Command,
        route: Option<Route>,
        input: Input<'_>,
        output: &mut Output,
    ) -> Flow {
        let slot = match route {
            // What has a route lay in the input whole, and so did its key.
            Some(route) => route.slot,
            None => match key_of(input.args().get(usize::from(command.keys.first))) {
                Some(key) => Slot::of(key),
                None => return key_too_long(client, output),
            },
        };
        let owner = self.map.owner(slot).0;
        if owner == self.id {
            return self.run_here(client, handle, command, input, route, output);
        }
        self.ask(client, handle, owner, command, input, slot, output)
    }

    /// The keys are all here.
    #[inline]
    fn run_here(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        command: &'static Command,
        input: Input<'_>,
        route: Option<Route>,
        output: &mut Output,
    ) -> Flow {
        self.stats.commands_direct += 1;
        let call = Call {
            command,
            args: input.args(),
            db: client.db,
            proto: client.proto,
            route,
            port: client.port,
        };
        let progress = if self.can_run(&call) {
            let progress = self.run(&call, &mut Sink::Client { output, replies: &mut client.replies });
            if progress.is_none() {
                if let Input::Owned(request) = input {
                    self.space.discard(request);
                }
                return Flow::Next;
            }
            progress
        } else {
            None
        };
        let pending = Pending {
            origin: Origin::Client { client: handle, slot: client.replies.open() },
            port: client.port,
            proto: client.proto,
            db: client.db,
            command,
            request: input.into_request(),
            route,
        };
        match progress {
            Some(progress) => self.go_on(pending, progress, Content::default()),
            None => self.begin_part(pending),
        }
        Flow::Block
    }

    /// The keys are all on another lane.
    #[expect(clippy::too_many_arguments, reason = "a command, whose it is and where it goes")]
    fn ask(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        owner: u16,
        command: &'static Command,
        input: Input<'_>,
        slot: Slot,
        output: &mut Output,
    ) -> Flow {
        if client.port == Port::Lane {
            self.stats.commands_moved += 1;
            let text = format!("MOVED {} {}", slot.number(), self.settings.lane_address(owner, client.local));
            reply::error(&mut Sink::Client { output, replies: &mut client.replies }, &text);
            return Flow::Next;
        }
        let args = input.args();
        let size = (0..args.len()).map(|index| args.get(index).size()).sum();
        let answer = answer_size(command.id);
        let peer = self.peers[usize::from(owner)].as_mut().expect("another lane");
        let charge = peer.charge(answer);
        if client.replies.slot_count() >= SLOTS_MAX || !peer.can_ask(args.len(), size, charge) {
            return Flow::Halt(if let Input::Owned(request) = input { Some(request) } else { None });
        }
        let head = AskHead {
            client: handle.to_bits(),
            slot: client.replies.open(),
            charge,
            db: client.db,
            id: u16::from(command.id as u8),
            key_slot: slot.number(),
            proto: if client.proto == Proto::Resp3 { 3 } else { 2 },
            kind: AskKind::Inline,
        };
        match input {
            Input::Owned(request) => peer.ask_owned(head, request),
            Input::View { .. } => peer.ask(head, args, size, &mut self.scratch),
        }
        self.stats.commands_forwarded += 1;
        if command.barrier { Flow::Block } else { Flow::Next }
    }

    fn dispatch_keys(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        command: &'static Command,
        input: Input<'_>,
        output: &mut Output,
    ) -> Flow {
        if !client.is_even() {
            return halt(input);
        }
        let args = input.args();
        let step = usize::from(command.keys.step.max(1));
        let keys = key_range(command, args.len());
        let Some(first) = key_of(args.get(keys.start.min(args.len() - 1))) else {
            return key_too_long(client, output);
        };
        let slot = Slot::of(first);
        let owner = self.map.owner(slot).0;
        let mut is_one_lane = args.len() <= NAMES_PER_STEP;
        let mut is_one_slot = true;
        // One lane owns all there is, and a standalone Redis knows no slots: then the keys need only be short enough.
        let mut wants_slots = self.lane_count > 1 || client.port == Port::Lane;
        for index in keys.step_by(step).skip(1) {
            let Some(key) = key_of(args.get(index)) else { return key_too_long(client, output) };
            if wants_slots {
                let other = Slot::of(key);
                is_one_slot &= other == slot;
                is_one_lane &= self.map.owner(other).0 == owner;
                wants_slots = is_one_lane || client.port == Port::Lane;
            }
        }
        if client.port == Port::Lane && !is_one_slot {
            let text = "CROSSSLOT Keys in request don't hash to the same slot";
            reply::error(&mut Sink::Client { output, replies: &mut client.replies }, text);
            return Flow::Next;
        }
        if command.id == Id::Watch {
            return self.watch(client, handle, command, input, output);
        }
        if is_one_lane && owner == self.id {
            return self.run_here(client, handle, command, input, None, output);
        }
        if is_one_lane || client.port == Port::Lane && owner != self.id {
            return self.ask(client, handle, owner, command, input, slot, output);
        }
        self.dispatch_transaction(client, handle, command, input)
    }

    /// SCAN: the lane that owns the cursor's partition. CLUSTER's questions about a slot: the one that owns the slot.
    fn dispatch_partition(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        command: &'static Command,
        input: Input<'_>,
        output: &mut Output,
    ) -> Flow {
        if !client.is_even() {
            return halt(input);
        }
        let cursor = input.args().get(1).flat();
        let partition = cursor.and_then(parse_cursor).map_or(0, |cursor| cursor >> 48);
        let slot = match command.id {
            Id::Scan => u16::try_from(partition).ok().and_then(Slot::new),
            _ => cluster::slot(input.args().flat(2)),
        };
        let slot = slot.unwrap_or_else(|| Slot::new(0).expect("there is a first slot"));
        let owner = if client.port == Port::Lane { self.id } else { self.map.owner(slot).0 };
        if owner == self.id {
            return self.run_here(client, handle, command, input, None, output);
        }
        self.ask(client, handle, owner, command, input, slot, output)
    }

    fn dispatch_transaction(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        command: &'static Command,
        input: Input<'_>,
    ) -> Flow {
        if !client.is_even() {
            return halt(input);
        }
        let slot = client.replies.open();
        let request = input.into_request();
        let mut transaction =
            Transaction::of_command(handle, slot, client.proto, command, request, client.db);
        transaction.port = client.port;
        transaction.local = client.local;
        self.begin_transaction(transaction);
        Flow::Block
    }

    fn watch(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        command: &'static Command,
        input: Input<'_>,
        output: &mut Output,
    ) -> Flow {
        if client.multi.is_some() {
            let text = "ERR WATCH inside MULTI is not allowed";
            reply::error(&mut Sink::Client { output, replies: &mut client.replies }, text);
            return Flow::Next;
        }
        let args = input.args();
        let mut names = BTreeSet::new();
        for index in 1..args.len().min(1 + WATCHED_COUNT_MAX) {
            let bytes = args.flat(index);
            let slot = Slot::of(bytes);
            let key = self.space.shard.key(client.db, slot.number(), bytes);
            let name = (self.map.owner(slot).0, LockName { db: key.db, key: Some(key.hash) });
            if !client.watch.names.contains(&name) {
                names.insert(name);
            }
        }
        if args.len() > 1 + WATCHED_COUNT_MAX || client.watch.names.len() + names.len() > WATCHED_COUNT_MAX {
            let text = format!("ERR a client watches at most {WATCHED_COUNT_MAX} keys");
            reply::error(&mut Sink::Client { output, replies: &mut client.replies }, &text);
            return Flow::Next;
        }
        client.watch.names.append(&mut names);
        let watcher = client.watcher(self.id, handle.to_bits());
        let slot = client.replies.open();
        let request = input.into_request();
        self.begin_transaction(Transaction::of_watch(handle, slot, command, request, client.db, watcher));
        Flow::Block
    }

    fn dispatch_connection(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        command: &'static Command,
        input: Input<'_>,
        output: &mut Output,
    ) -> Flow {
        if command.barrier && !client.is_even() {
            return halt(input);
        }
        let args = input.args();
        let call = Call { command, args, db: client.db, proto: client.proto, route: None, port: client.port };
        // Connection commands change the client that their sink borrows from, so they write to the side first.
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let mut content = Content::default();
        let mut sink = Sink::Ask { bytes: &mut bytes, content: &mut content };
        let around = Around {
            settings: &self.settings,
            map: &self.map,
            lane: self.id,
            now: self.space.now,
            local: client.local,
        };
        let wish = connection::run(client, &call, &around, &mut sink);
        for code in content.take_errors() {
            client.replies.note_error(code);
        }
        Sink::Client { output, replies: &mut client.replies }.put(&bytes);
        self.scratch = bytes;
        match wish {
            Wish::Nothing => Flow::Next,
            Wish::Leave => Flow::Leave,
            Wish::Reset => {
                if !client.is_authenticated {
                    self.strangers.push_back((handle, self.space.now.mono_ns));
                }
                client.multi = None;
                self.forget_watch(client, handle);
                self.end_monitor(client, handle);
                Flow::Next
            }
        }
    }

    /// The control thread answers; the client waits.
    fn dispatch_control(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        command: &'static Command,
        input: Input<'_>,
        output: &mut Output,
    ) -> Flow {
        if !client.is_even() {
            return halt(input);
        }
        if command.id == Id::Monitor && client.is_monitor {
            // Redis says nothing either.
            return Flow::Next;
        }
        if !self.board.is_attended() {
            let text =
                format!("ERR '{}' needs the control thread, and this server runs without", command.name);
            reply::error(&mut Sink::Client { output, replies: &mut client.replies }, &text);
            return Flow::Next;
        }
        let control = self.lane_count;
        let charge = self.peer(control).charge(AnswerSize::Short);
        // Transactions that wait for credit hold locks: they go first.
        if !self.questioners.is_empty() || !self.peer(control).can_ask(0, 0, charge) {
            return halt(input);
        }
        let head = AskHead {
            client: handle.to_bits(),
            slot: client.replies.open(),
            charge,
            db: client.db,
            id: u16::from(command.id as u8),
            key_slot: 0,
            proto: 0,
            kind: AskKind::Question,
        };
        let from = Portrait::of(client, self.id, (0, output.len()));
        let question = Question { command, request: input.into_request(), from };
        self.peer(control).question(head, question);
        Flow::Block
    }

    fn dispatch_multi(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        id: Id,
        output: &mut Output,
    ) -> Flow {
        let mut sink = Sink::Client { output, replies: &mut client.replies };
        match (id, client.multi.take()) {
            (Id::Multi, None) => {
                client.multi = Some(Box::default());
                sink.put(OK);
            }
            (Id::Multi, Some(multi)) => {
                client.multi = Some(multi);
                reply::error(&mut sink, "ERR MULTI calls can not be nested");
            }
            (Id::Discard, None) => reply::error(&mut sink, "ERR DISCARD without MULTI"),
            (Id::Discard, Some(multi)) => {
                sink.put(OK);
                self.forget_queue(*multi);
                self.forget_watch(client, handle);
            }
            (Id::Unwatch, multi) => {
                client.multi = multi;
                sink.put(OK);
                self.forget_watch(client, handle);
            }
            (_, None) => reply::error(&mut sink, "ERR EXEC without MULTI"),
            (_, Some(multi)) if multi.is_broken => {
                reply::error(&mut sink, "EXECABORT Transaction discarded because of previous errors.");
                self.forget_queue(*multi);
                self.forget_watch(client, handle);
            }
            (_, Some(multi))
                if multi
                    .queued
                    .iter()
                    .any(|(command, request)| self.lacks_room(command, &Args::Owned(request))) =>
            {
                reply::error(&mut sink, &format!("EXECABORT Transaction discarded because of: {OOM}"));
                self.forget_queue(*multi);
                self.forget_watch(client, handle);
            }
            (_, Some(multi)) => {
                let slot = client.replies.open();
                let names: Vec<_> = std::mem::take(&mut client.watch.names).into_iter().collect();
                let watcher = (!names.is_empty()).then(|| client.watcher(self.id, handle.to_bits()));
                client.watch.round = client.watch.round.wrapping_add(1);
                let (proto, db) = (client.proto, client.db);
                let concerns_client =
                    |command: &Command| matches!(command.scope, Scope::Connection | Scope::Control);
                let needs_client = multi.queued.iter().any(|(command, _)| concerns_client(command));
                let stand_in = needs_client.then(|| Box::new(client.stand_in()));
                let mut transaction =
                    Transaction::of_multi(handle, slot, proto, db, multi.queued, watcher, names);
                transaction.port = client.port;
                transaction.local = client.local;
                transaction.lines = self.monitoring.exec.take();
                transaction.stand_in = stand_in;
                self.begin_transaction(transaction);
                return Flow::Block;
            }
        }
        Flow::Next
    }

    fn forget_queue(&mut self, multi: Multi) {
        for (_, request) in multi.queued {
            self.space.discard(request);
        }
    }

    /// Ends the client's watching, whatever the reason.
    pub(crate) fn forget_watch(&mut self, client: &mut Client, handle: Handle<Client>) {
        let names = std::mem::take(&mut client.watch.names);
        if names.is_empty() {
            return;
        }
        let id = client.watcher(self.id, handle.to_bits());
        client.watch.round = client.watch.round.wrapping_add(1);
        self.unwatch(id, lanes_of(&names));
    }

    /// Frees what a client that has gone leaves behind.
    pub(crate) fn forget_client(&mut self, mut client: Client, handle: Handle<Client>) {
        self.forget_watch(&mut client, handle);
        self.end_monitor(&mut client, handle);
        if let Some(multi) = client.multi.take() {
            self.forget_queue(*multi);
        }
        if let Some(gather) = client.gather.take() {
            self.space.discard(gather.abandon());
        }
        let mut ropes = Vec::new();
        client.replies.abandon(&mut ropes);
        for rope in ropes {
            self.space.shard.retire(rope);
        }
    }
}

/// The lanes that own watched keys, each once.
pub(crate) fn lanes_of<'a>(names: impl IntoIterator<Item = &'a (u16, LockName)>) -> Vec<u16> {
    let mut lanes: Vec<u16> = names.into_iter().map(|(lane, _)| *lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}

/// Whether a client has to say its password first.
#[inline]
fn is_refused_unseen(client: &Client, command: &Command) -> bool {
    !client.is_authenticated && !command.flags.has(Flag::NoAuth)
}

pub(crate) fn halt(input: Input<'_>) -> Flow {
    Flow::Halt(if let Input::Owned(request) = input { Some(request) } else { None })
}

#[inline]
pub(crate) fn resolve(args: Args<'_>) -> Result<&'static Command, Refusal> {
    resolve_name(args.flat(0), args)
}

/// As [`resolve`], for whoever has the command's name at hand.
#[inline]
pub(crate) fn resolve_name(name: &[u8], args: Args<'_>) -> Result<&'static Command, Refusal> {
    let command = lookup(name).ok_or(Refusal::UnknownCommand)?;
    let command = if command.is_container() && args.len() > 1 {
        command.subcommand(args.flat(1)).ok_or(Refusal::UnknownSubcommand(command))?
    } else {
        command
    };
    if command.takes(args.len()) { Ok(command) } else { Err(Refusal::WrongArity(command)) }
}

fn refuse(refusal: Refusal, args: Args<'_>, multi: &mut Option<Box<Multi>>, sink: &mut Sink<'_>) -> Flow {
    if matches!(refusal, Refusal::UnknownCommand) && is_http(args.flat(0)) {
        return Flow::Leave;
    }
    if let Some(multi) = multi {
        multi.is_broken = true;
    }
    // No more than the first arguments are quoted.
    let mut ranges = ArgRanges::new();
    ranges.set((0..args.len().min(32)).map(|index| args.flat(index)));
    refusal.put(&ranges.view(&[]), sink);
    Flow::Next
}

/// Whether a command waits for EXEC: all do inside a MULTI but those that end it or may not be there.
#[inline]
pub(crate) fn is_queued(client: &Client, id: Id) -> bool {
    let ends_or_begins =
        |id| matches!(id, Id::Exec | Id::Discard | Id::Multi | Id::Watch | Id::Quit | Id::Reset);
    client.multi.is_some() && !ends_or_begins(id)
}

fn queue(
    client: &mut Client,
    command: &'static Command,
    input: Input<'_>,
    output: &mut Output,
    lacks_room: bool,
    query_size_max: usize,
) -> Flow {
    let mut sink = Sink::Client { output, replies: &mut client.replies };
    let multi = client.multi.as_mut().expect("only asked inside a MULTI");
    if command.flags.has(Flag::NoMulti) {
        multi.is_broken = true;
        reply::error(&mut sink, "ERR Command not allowed inside a transaction");
        return Flow::Next;
    }
    if lacks_room {
        multi.is_broken = true;
        reply::error(&mut sink, OOM);
        return Flow::Next;
    }
    let step = usize::from(command.keys.step.max(1));
    let args = input.args();
    if key_range(command, args.len()).step_by(step).any(|index| key_of(args.get(index)).is_none()) {
        multi.is_broken = true;
        reply::error(&mut sink, KEY_TOO_LONG);
        return Flow::Next;
    }
    let request = input.into_request();
    multi.size += size_of::<(&Command, Request)>() + request.size();
    if multi.size > query_size_max {
        multi.is_broken = true;
        reply::error(&mut sink, "ERR the commands of this MULTI are larger than client-query-buffer-limit");
        return Flow::Next;
    }
    multi.queued.push((command, request));
    sink.put(b"+QUEUED\r\n");
    Flow::Next
}

const KEY_TOO_LONG: &str = "ERR key is longer than 32768 bytes";

/// A key as it may be stored; none when it is too long: keys are in one piece.
#[inline]
fn key_of(arg: Arg<'_>) -> Option<&[u8]> {
    const { assert!(crate::request::FLAT_SIZE_MAX <= store::KEY_SIZE_MAX, "what is in one piece may be a key") };
    arg.flat()
}

fn key_too_long(client: &mut Client, output: &mut Output) -> Flow {
    reply::error(&mut Sink::Client { output, replies: &mut client.replies }, KEY_TOO_LONG);
    Flow::Next
}

/// What an answer is likely to need; a longer one moves as a parcel.
fn answer_size(id: Id) -> AnswerSize {
    match id {
        Id::Get
        | Id::Getdel
        | Id::Getex
        | Id::Getset
        | Id::Getrange
        | Id::Substr
        | Id::Mget
        | Id::Scan
        | Id::Lcs => AnswerSize::Long,
        _ => AnswerSize::Short,
    }
}
