//! From a decoded command to what happens: run here, ask another lane, begin a transaction, or refuse.

use std::hint::cold_path;
use std::ops::Range;

use net::Output;
use wire::aerospike::HEAD;
use wire::command::{Command, Flag, Group, Id, Refusal, Scope, lookup};
use wire::reply::{self, Proto};
use wire::resp::{ArgRanges, is_http};
use wire::route::Slot;

use crate::acl::UserId;
use crate::client::{Client, Dialect, Hush, Port};
use crate::cluster;
use crate::core::{Core, Pending, Ran};
use crate::documents;
use crate::keyspace::{Call, Route};
use crate::multi::is_queued;
use crate::part::{NAMES_PER_STEP, Origin};
use crate::peers::{AnswerSize, AskHead};
use crate::pubsub::is_refused_to_subscriber;
use crate::records;
use crate::replies::{Content, Sink};
use crate::request::{Arg, Args, Gather, Request};
use crate::scripts;
use crate::slab::Handle;
use crate::transaction::{Transaction, is_look, key_range};

mod alike;
mod connection;
mod script;

/// Commands of one client whose replies have not left; the next one stays unread.
pub(crate) const SLOTS_MAX: usize = 64;

/// Whose command it is, and where the replies go.
pub(crate) struct Caller<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) handle: Handle<Client>,
    pub(crate) output: &'a mut Output,
}

impl Caller<'_> {
    /// The same with another output.
    pub(crate) fn aside<'b>(&'b mut self, output: &'b mut Output) -> Caller<'b> {
        Caller { client: self.client, handle: self.handle, output }
    }

    /// Keeps the place of the reply of the command at hand, which comes later.
    pub(crate) fn open(&mut self) -> Origin {
        Origin::Client { client: self.handle, slot: self.client.replies.open() }
    }

    /// Takes the reply of the command at hand.
    #[inline]
    pub(crate) fn sink(&mut self) -> Sink<'_> {
        Sink::Client { output: self.output, replies: &mut self.client.replies }
    }

    /// Answers with an error, and goes on.
    pub(crate) fn refuse(&mut self, text: &str) -> Flow {
        reply::error(&mut self.sink(), text);
        Flow::Next
    }
}

/// Whose a key is.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    /// This lane's, which keeps it there.
    Here(Route),
    /// Another lane's.
    Other { lane: u16, slot: Slot },
}

/// A command's words, as they came in. It is lent from hand to hand until one of them takes it: copies would be waited for, since
/// a processor can't read in one piece what has just been written in several.
pub(crate) enum Input<'a> {
    /// In the connection's input. Whose the key of a command is that has one has been found beforehand.
    View { input: &'a [u8], ranges: &'a ArgRanges, owner: &'a Option<Owner> },
    /// Gathered over several turns.
    Owned(Request),
}

impl<'a> Input<'a> {
    /// The words of a view, as long as it is known where they lie: before it is lent.
    #[inline(always)]
    fn view(&self) -> Option<Args<'a>> {
        match *self {
            Input::View { input, ranges, .. } => Some(Args::View { input, ranges }),
            Input::Owned(_) => None,
        }
    }

    #[inline]
    pub(crate) fn args(&self) -> Args<'_> {
        match self {
            Input::View { input, ranges, .. } => Args::View { input, ranges },
            Input::Owned(request) => Args::Owned(request),
        }
    }

    #[inline(always)]
    fn owner(&self) -> &'a Option<Owner> {
        match self {
            Input::View { owner, .. } => owner,
            Input::Owned(_) => &None,
        }
    }

    fn is_view(&self) -> bool {
        matches!(self, Input::View { .. })
    }

    /// What is wrong with a command of which a key, or something else that has to be in one piece, is not. What has come in one piece is.
    pub(crate) fn too_long(&self, command: &Command) -> Option<&'static str> {
        let Input::Owned(request) = self else { return None };
        too_long(request, command)
    }

    /// The words as a request of their own; one that was owned is empty from then on.
    pub(crate) fn take_request(&mut self) -> Request {
        match self {
            Input::View { .. } => self.args().to_request(),
            Input::Owned(request) => std::mem::take(request),
        }
    }
}

/// What becomes of the client after a command.
pub(crate) enum Flow {
    /// On to the next one.
    Next,
    /// The command could not begin: it is handed back, to be tried again. By a pointer, for what each command answers is small.
    Halt(Option<Box<Gather>>),
    /// It waits for the reply.
    Block,
    /// It only looks, and that on several lanes: it has not begun, for those behind it that only look may begin with it.
    Look,
    /// It is closed when it has its replies.
    Leave,
}

impl Core {
    /// Takes one command of a client. `resolved` is what its name says, found beforehand. Within its caller, where it knows the
    /// words' place: as a function it would wait for each of them to come back from memory.
    #[inline(always)]
    pub(crate) fn dispatch(
        &mut self,
        caller: &mut Caller<'_>,
        resolved: Result<&'static Command, Refusal>,
        input: &mut Input<'_>,
    ) -> Flow {
        if caller.client.dialect == Dialect::Aerospike {
            caller.client.db = self.settings.database_of_record(input.args().flat(HEAD));
        }
        let flow = if self.is_apart(caller.client) {
            self.dispatch_overseen(caller, resolved, input)
        } else {
            self.dispatch_heard(caller, resolved, input)
        };
        if caller.client.replies.has_erred() {
            self.count_errors(caller.client, resolved);
        }
        flow
    }

    /// Whether a client's commands are looked at more closely, one by one.
    #[inline(always)]
    fn is_apart(&self, client: &Client) -> bool {
        // One test for all of them.
        let Client { hush, is_subscribed, is_tracking, user, .. } = *client;
        let is_apart = (hush != Hush::Heard) | is_subscribed | is_tracking | (user != UserId::DEFAULT);
        is_apart | self.is_overseen
    }

    /// The same as [`Core::dispatch`] for a command that was gathered over several turns.
    #[inline(never)]
    pub(crate) fn dispatch_gathered(
        &mut self,
        caller: &mut Caller<'_>,
        resolved: Result<&'static Command, Refusal>,
        request: Request,
    ) -> Flow {
        self.space.expect_bytes(request.size());
        let mut input = Input::Owned(request);
        let flow = self.dispatch(caller, resolved, &mut input);
        self.space.expect_bytes(0);
        // Nobody has taken it, because it was refused or needed no more than a look.
        if let Input::Owned(request) = input {
            self.space.discard(request);
        }
        flow
    }

    /// A client's command was answered with an error at once: refused, or called and failed.
    #[cold]
    fn count_errors(&mut self, client: &mut Client, resolved: Result<&'static Command, Refusal>) {
        let codes = client.replies.take_errors();
        let tally = &mut self.space.tally;
        match resolved {
            Err(Refusal::WrongArity(command) | Refusal::TooManyOptions(command)) => {
                tally.rejected(Some(command.id), codes);
            }
            Err(_) => tally.rejected(None, codes),
            Ok(command)
                if is_refused_unseen(client, command)
                    || is_refused_to_subscriber(client, command)
                    || is_queued(client, command.id) =>
            {
                tally.rejected(Some(command.id), codes);
            }
            Ok(command) => tally.failed(command.id, codes),
        }
    }

    #[inline(always)]
    pub(crate) fn dispatch_heard(
        &mut self,
        caller: &mut Caller<'_>,
        resolved: Result<&'static Command, Refusal>,
        input: &mut Input<'_>,
    ) -> Flow {
        let (view, owner) = (input.view(), input.owner());
        let command = match resolved {
            Ok(command) => command,
            Err(refusal) => {
                cold_path();
                if matches!(refusal, Refusal::WrongArity(command) if command.id == Id::Exec) {
                    self.abort(caller);
                }
                return refuse(caller, refusal, input.args());
            }
        };
        if is_refused_unseen(caller.client, command) {
            cold_path();
            if caller.client.is_replica {
                return self.hear_replica(caller, command, input);
            }
            return match command.group {
                Group::Document => documents::greet(caller, &self.settings, input.args()),
                Group::Record => records::send_away(caller, input.args()),
                // An EXEC that is refused says that its transaction has ended with it.
                _ if command.id == Id::Exec => caller
                    .refuse("EXECABORT Transaction discarded because of: NOAUTH Authentication required."),
                _ => caller.refuse("NOAUTH Authentication required."),
            };
        }
        if is_queued(caller.client, command.id) {
            cold_path();
            return self.queue(caller, command, input);
        }
        if let Input::Owned(request) = input
            && !command.takes_long_arguments()
            && let Some(text) = too_long(request, command)
        {
            cold_path();
            return caller.refuse(text);
        }
        let flow = match command.scope {
            Scope::Key => self.dispatch_key(caller, command, input, view, owner),
            // EXEC is a barrier: what was asked of other lanes before it comes before it.
            _ if command.id == Id::Exec && !caller.client.is_even() => halt(input),
            _ if command.group == Group::Transactions && command.id != Id::Watch => {
                self.dispatch_multi(caller, command.id)
            }
            Scope::Keys(_) => self.dispatch_keys(caller, command, input),
            Scope::Connection => self.dispatch_connection(caller, command, input),
            Scope::Control => self.dispatch_control(caller, command, input),
            Scope::Script => self.dispatch_script(caller, command, input),
            Scope::Pubsub => self.dispatch_pubsub(caller, command, input),
            Scope::Partition => self.dispatch_partition(caller, command, input),
            Scope::AllLanes(_) => self.dispatch_transaction(caller, command, input),
        };
        if !matches!(flow, Flow::Halt(_)) {
            self.count_call(caller.client, command);
        }
        flow
    }

    /// A client's command has been taken.
    #[inline(always)]
    fn count_call(&mut self, client: &mut Client, command: &'static Command) {
        self.stats.dialects[client.dialect as usize].all += 1;
        self.space.tally.called(command.id, 1);
        client.last = Some(command);
        client.active_ns = self.space.now.mono_ns;
    }

    #[inline(always)]
    fn dispatch_key(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
        view: Option<Args<'_>>,
        owner: &Option<Owner>,
    ) -> Flow {
        let found;
        let owner = match owner {
            None => {
                cold_path();
                found = self.find_owner(command, caller.client.db, input.args());
                &found
            }
            known => known,
        };
        match *owner {
            Some(Owner::Here(ref route)) => self.run_here(caller, command, input, view, Some(route)),
            Some(Owner::Other { lane, slot }) => self.ask(caller, lane, command, input, slot),
            None => caller.refuse(KEY_TOO_LONG),
        }
    }

    /// Whose the one key of a command is; none when it is too long for a key.
    #[inline]
    pub(crate) fn owner_of_key(&self, command: &Command, db: u16, input: &Input<'_>) -> Option<Owner> {
        (*input.owner()).or_else(|| self.find_owner(command, db, input.args()))
    }

    /// The same for a command that was gathered.
    #[inline(never)]
    fn find_owner(&self, command: &Command, db: u16, args: Args<'_>) -> Option<Owner> {
        key_of(args.get(usize::from(command.keys.first))).map(|key| self.owner(db, key))
    }

    /// Whose a key of a database is.
    #[inline(always)]
    pub(crate) fn owner(&self, db: u16, key: &[u8]) -> Owner {
        let slot = self.space.slot(db, key);
        if !self.has(slot) {
            return Owner::Other { lane: self.map.owner(slot).0, slot };
        }
        Owner::Here(Route { slot, hash: self.space.shard.key(0, slot.number(), key).hash })
    }

    /// The keys are all here; each of several finds its own way.
    #[inline(never)]
    fn run_all_here(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        self.run_here(caller, command, input, None, None)
    }

    /// The keys are all here. Within its callers, most commands' path.
    #[inline(always)]
    fn run_here(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
        view: Option<Args<'_>>,
        route: Option<&Route>,
    ) -> Flow {
        self.stats.dialects[caller.client.dialect as usize].direct += 1;
        let call = Call {
            command,
            args: view.unwrap_or_else(|| input.args()),
            db: caller.client.db,
            proto: caller.client.proto,
            route,
            port: caller.client.port,
        };
        let ran = if self.can_run(&call) { self.run(&call, &mut caller.sink()) } else { Ran::Waits };
        if let Ran::Done = ran {
            if let Input::Owned(request) = input {
                cold_path();
                self.space.discard(std::mem::take(request));
            }
            return Flow::Next;
        }
        cold_path();
        self.run_on(caller, command, route.copied(), ran, input.take_request())
    }

    /// The first step of a command whose keys are here was not its last, or it has to wait for others.
    fn run_on(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        route: Option<Route>,
        ran: Ran,
        request: Request,
    ) -> Flow {
        let pending = Pending {
            origin: caller.open(),
            port: caller.client.port,
            proto: caller.client.proto,
            db: caller.client.db,
            command,
            route,
            request,
            by: self.space.by,
        };
        match ran {
            Ran::Begun(progress) => self.go_on(pending, progress, Content::default()),
            Ran::Done | Ran::Waits => self.begin_part(pending),
        }
        Flow::Block
    }

    /// The keys are all on another lane.
    fn ask(
        &mut self,
        caller: &mut Caller<'_>,
        owner: u16,
        command: &'static Command,
        input: &mut Input<'_>,
        slot: Slot,
    ) -> Flow {
        if caller.client.port == Port::Lane {
            let text = self.moved(caller.client, owner, slot);
            return caller.refuse(&text);
        }
        let args = input.args();
        if let Some(session) = caller.client.session.as_mut().filter(|session| session.bucket.is_some())
            && self.is_sent_on(args)
        {
            self.stats.commands_moved += 1;
            let map_of = session.bucket.filter(|_| session.is_to_have_map());
            self.send_on(args, map_of, &mut caller.sink());
            return Flow::Next;
        }
        let size = args.size();
        let answer = answer_size(command.id);
        let (kind, tracked) = self.asks_as;
        let peer = self.peer(owner);
        let charge = peer.charge(answer);
        if caller.client.replies.slot_count() >= SLOTS_MAX || !peer.can_ask(args.len(), size, charge) {
            return halt(input);
        }
        let head = AskHead {
            client: caller.handle.to_bits(),
            slot: caller.client.replies.open(),
            charge,
            db: caller.client.db,
            id: u16::from(command.id as u8),
            key_slot: slot.number(),
            proto: if caller.client.proto == Proto::Resp3 { 3 } else { 2 } | tracked,
            kind,
        };
        match input {
            Input::Owned(request) => peer.ask_owned(head, std::mem::take(request)),
            Input::View { .. } => peer.ask(head, args, size),
        }
        self.stats.dialects[caller.client.dialect as usize].forwarded += 1;
        if command.scope == Scope::Key { Flow::Next } else { Flow::Block }
    }

    /// Where on a lane's own port another lane's slot is to be asked for; counted.
    pub(crate) fn moved(&mut self, client: &Client, owner: u16, slot: Slot) -> String {
        self.stats.commands_moved += 1;
        format!("MOVED {} {}", slot.number(), self.settings.lane_address(owner, client.local))
    }

    fn dispatch_keys(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        if !caller.client.is_even() {
            return halt(input);
        }
        if let Some(text) = input.too_long(command) {
            return caller.refuse(text);
        }
        let args = input.args();
        let step = usize::from(command.keys.step.max(1));
        let keys = key_range(command, args.len());
        let slot = Slot::of(args.flat(keys.start.min(args.len() - 1)));
        let owner = self.map.owner(slot).0;
        // The keys of a long one are looked at in slices, by planning. One lane owns all there is, and a standalone Redis knows no
        // slots.
        let is_short = args.len() <= NAMES_PER_STEP;
        let (mut is_one_lane, mut is_one_slot) = (is_short, true);
        if is_short && (self.lane_count > 1 || caller.client.port == Port::Lane) {
            for index in keys.step_by(step).skip(1) {
                let other = Slot::of(args.flat(index));
                is_one_slot &= other == slot;
                is_one_lane &= self.map.owner(other).0 == owner;
                if !is_one_lane && caller.client.port == Port::Shared {
                    break;
                }
            }
        }
        if caller.client.port == Port::Lane && !is_one_slot {
            return caller.refuse(CROSSSLOT);
        }
        if command.id == Id::Watch && (caller.client.port == Port::Shared || owner == self.id) {
            return self.watch(caller, command, input);
        }
        if is_one_lane && owner == self.id {
            return self.run_all_here(caller, command, input);
        }
        if is_one_lane || caller.client.port == Port::Lane && owner != self.id {
            return self.ask(caller, owner, command, input, slot);
        }
        if is_short && is_look(command) && input.is_view() && !self.is_apart(caller.client) {
            return Flow::Look;
        }
        self.dispatch_transaction(caller, command, input)
    }

    /// Begins commands of a client that only look, the first of them a [`Flow::Look`], which has been counted, as one transaction. They
    /// are [`NAMES_PER_STEP`] words in all, at most.
    pub(crate) fn look_together(
        &mut self,
        caller: &mut Caller<'_>,
        looks: &[(&'static Command, Args<'_>)],
    ) -> Flow {
        for (command, _) in &looks[1..] {
            self.count_call(caller.client, command);
        }
        let (proto, db) = (caller.client.proto, caller.client.db);
        let requests = looks.iter().map(|(command, args)| (*command, args.to_request()));
        let transaction = Transaction::of_looks(caller.open(), proto, db, requests);
        self.transact(caller, transaction)
    }

    /// SCAN goes from lane to lane. CLUSTER's questions about a slot: the lane that owns the slot.
    fn dispatch_partition(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        if !caller.client.is_even() {
            return halt(input);
        }
        let is_alone = caller.client.port == Port::Lane || self.lane_count == 1;
        if command.id == Id::Scan && !is_alone {
            return self.dispatch_transaction(caller, command, input);
        }
        let slot = if is_alone { None } else { cluster::slot(input.args().flat(2)) };
        let slot = slot.unwrap_or_else(|| Slot::new(0).expect("there is a first slot"));
        let owner = if is_alone { self.id } else { self.map.owner(slot).0 };
        if owner == self.id {
            return self.run_all_here(caller, command, input);
        }
        self.ask(caller, owner, command, input, slot)
    }

    fn dispatch_transaction(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        if !caller.client.is_even() {
            return halt(input);
        }
        let origin = caller.open();
        let mut transaction = transaction_of(caller, origin, command, input);
        if self.may_deny(caller.client) {
            transaction.stand_in = Some(Box::new(caller.client.stand_in()));
        }
        self.transact(caller, transaction)
    }
}

/// A client's command as a transaction.
fn transaction_of(
    caller: &Caller<'_>,
    origin: Origin,
    command: &'static Command,
    input: &mut Input<'_>,
) -> Transaction {
    let client = &*caller.client;
    let request = input.take_request();
    let mut transaction = Transaction::of_command(origin, client.proto, command, request, client.db);
    transaction.port = client.port;
    transaction.local = client.local;
    transaction
}

/// Whether a client has to say its password first.
#[inline]
fn is_refused_unseen(client: &Client, command: &Command) -> bool {
    !client.is_authenticated && (client.is_replica || !command.flags.has(Flag::NoAuth))
}

pub(crate) fn halt(input: &mut Input<'_>) -> Flow {
    Flow::Halt(match input {
        Input::View { .. } => None,
        Input::Owned(request) => Some(Box::new(Gather::of(std::mem::take(request)))),
    })
}

/// Which command of Redis has this name and these arguments.
#[inline]
pub(crate) fn resolve_name(name: &[u8], args: Args<'_>) -> Result<&'static Command, Refusal> {
    let command = lookup(name).ok_or(Refusal::UnknownCommand)?;
    let command = if command.is_container() && args.len() > 1 {
        command.subcommand(args.flat(1)).ok_or(Refusal::UnknownSubcommand(command))?
    } else {
        command
    };
    command.check(args.len())
}

/// What is wrong with a command of which a key, or something else that has to be in one piece, is not.
pub(crate) fn too_long(request: &Request, command: &Command) -> Option<&'static str> {
    let mut ropes = request.ropes();
    if !command.takes_long_arguments() {
        // These take another command with all that it takes.
        let takes_command =
            matches!(command.id, Id::CommandGetkeys | Id::CommandGetkeysandflags | Id::AclDryrun);
        return ropes.next().filter(|_| !takes_command).map(|_| ARGUMENT_TOO_LONG);
    }
    let keys = keys_among(command, Args::Owned(request));
    let step = usize::from(command.keys.step.max(1));
    let is_key = |index: usize| keys.contains(&index) && (index - keys.start).is_multiple_of(step);
    ropes.any(is_key).then_some(KEY_TOO_LONG)
}

/// The arguments that may be keys; a script says itself how many.
pub(crate) fn keys_among(command: &Command, args: Args<'_>) -> Range<usize> {
    match command.scope {
        Scope::Script => scripts::keys_of(args).unwrap_or(0..0),
        _ => key_range(command, args.len()),
    }
}

fn refuse(caller: &mut Caller<'_>, refusal: Refusal, args: Args<'_>) -> Flow {
    if matches!(refusal, Refusal::UnknownCommand) && is_http(args.flat(0)) {
        return Flow::Leave;
    }
    if let Some(multi) = &mut caller.client.multi {
        multi.is_broken = true;
    }
    // No more than the first arguments are quoted.
    let mut ranges = ArgRanges::new();
    ranges.set((0..args.len().min(32)).map(|index| args.flat(index)));
    refusal.put(&ranges.view(&[]), &mut caller.sink());
    Flow::Next
}

pub(crate) const KEY_TOO_LONG: &str = "ERR key is longer than 32768 bytes";
const ARGUMENT_TOO_LONG: &str = "ERR argument is longer than 32768 bytes";
/// The refusal of keys of several slots on a lane's own port.
pub(crate) const CROSSSLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// A key as it may be stored; none when it is too long: keys are in one piece.
#[inline]
pub(crate) fn key_of(arg: Arg<'_>) -> Option<&[u8]> {
    const { assert!(crate::request::FLAT_SIZE_MAX <= store::KEY_SIZE_MAX, "what is in one piece may be a key") };
    arg.flat()
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
        | Id::Lcs
        | Id::Dump
        | Id::RecordGet
        | Id::RecordScan => AnswerSize::Long,
        _ => AnswerSize::Short,
    }
}
