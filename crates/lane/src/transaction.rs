//! A transaction: what the client's lane does for a command, or a MULTI … EXEC, that one lane cannot answer alone; for a script, the lane of
//! its keys.
//!
//! ```text
//! plan       which lanes, which locks there, which part of the request for whom        (in slices)
//! lock       all lanes at once under one number, or one after the other; refused: withdraw, plan again
//! run        stage by stage: every lane does its jobs and answers; answers are combined (in slices)
//! end        the reply goes out with the last answer; the lanes give their locks back
//! ```
//! `plan`, `look`, `combine` and `relay` have files of their own, and so has what is said between lanes (`messages`); here are the phases and
//! what moves from one to the next.
//! Every change runs after all grants. A client's death changes nothing: the transaction goes on to its end.
//! The idea of numbering is VLL's (Ren, Thomson, Abadi, VLDB 2013); `locks` tells why nobody waits for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::Address;
use store::Budget;
use wire::command::{Combine, Command, Id, Scope, lookup};
use wire::reply::{self, Proto};
use wire::route::{PartitionMap, Slot};

use crate::Settings;
use crate::acl::{Denial, Denied, User, Vetting};
use crate::admin::{Portrait, Question};
use crate::client::{Client, Port};
use crate::commands::{State, record};
use crate::keyspace::{Keyspace, OOM};
use crate::locks::{Kind, LockName, Locks, Mode, Refusal};
use crate::monitor::ExecLines;
use crate::multi::lanes_of;
use crate::paged::Paged;
use crate::part::{Job, Names, Origin, Outcome};
use crate::replies::Content;
use crate::request::{Args, Request};
use crate::scripts::Named;
use crate::slab::Handle;
use crate::timing::Extent;
use crate::tracking::{self, By, Shown};
use crate::watch::WatcherId;

mod combine;
mod look;
mod messages;
mod plan;
mod relay;
mod scan;
mod script;
mod stage;
mod vetting;

pub(crate) use look::is_look;
pub(crate) use messages::{Go, Grant, PartAnswer, Prepare, Results};
pub(crate) use plan::key_range;
pub(crate) use script::{Killed, RunningFunction};
use script::{Scripted, Stray};

/// After so many refusals, or a lasting one, a transaction asks its lanes one after the other. Others are refused for it meanwhile: if
/// they followed soon, there would always be some that do, and a race of clients would stay slow.
const REFUSALS_MAX: u32 = 64;
/// Commands dropped in one step.
const DROPPED_PER_STEP: usize = 256;
/// Commands of a stage: what lanes are told and answer in one piece.
const STAGE_COUNT_MAX: usize = 256;

/// What the lane has to do for a transaction after a step.
pub(crate) enum After {
    /// Nothing: answers are under way.
    Rest,
    /// Another step when its turn comes round.
    Again,
    /// Ask these lanes (indices into [`Transaction::lanes`]), all or none, when there is credit for all.
    Prepare(std::ops::Range<usize>),
    /// Take its locks on this lane, which nobody holds, before anybody else does anything.
    Lock,
    /// Give it back to the lane that has sent it: it needs other lanes than this one, which its client's lane asks. One that asks
    /// holds no credit of others, or all might wait for each other.
    GiveBack,
    /// Tell these lanes' parts to go on.
    Go(Vec<(usize, Go)>),
    /// The same, and another step when its turn comes round.
    GoAndStep(Vec<(usize, Go)>),
    /// Ask the control thread [`Transaction::question`] when there is credit; this lane, if it is about pub/sub.
    Ask,
    /// Tell these lanes' parts to withdraw.
    Withdraw(Vec<usize>),
    /// The reply, and what is left to tell.
    Reply(Content, Vec<(usize, Go)>),
    /// It is over.
    Ended,
}

enum Phase {
    Planning,
    /// All lanes are known, by these numbers as they came up; commands are told where each stands.
    Arranging {
        order: Vec<u16>,
    },
    /// Waiting for the lanes up to `asked`, with so many answers still to come.
    Locking {
        asked: usize,
        awaited: usize,
        is_refused: bool,
    },
    Withdrawing {
        awaited: usize,
    },
    Running {
        awaited: usize,
    },
    /// Waiting for the control thread's answer.
    Asking,
    /// A script runs, or is about to.
    Scripting,
    Combining,
    Ending {
        awaited: usize,
    },
    /// Everybody has been told; its commands are dropped.
    Over,
}

/// One of the lanes that take part.
pub(crate) struct LanePart {
    pub(crate) lane: u16,
    /// The part's handle on its lane, once granted.
    pub(crate) part: u64,
    names: Names,
    jobs: Vec<Job>,
    /// Bytes that may be added there; `None`: nothing is.
    growth: Option<u64>,
    /// It may change something of Redis' databases there: replicas are told what.
    is_told: bool,
    /// The time at which it has looked, unix milliseconds, if it has before all locks were there.
    looked_at_ms: i64,
    /// Whether anything of it lives on its lane.
    is_live: bool,
}

/// How a command gets its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// By the client's lane itself: it touches no data.
    Here,
    /// By one lane, whole.
    Whole(u16),
    /// By several, each for its keys.
    Scatter(Combine),
    /// By the client's lane, which asks lanes what is there and then tells them what to change.
    Relay(u8),
    /// By the control thread, while the locks are held; what is about pub/sub, by this lane and those it sends messages to.
    Asked,
    /// By the client's lane, which runs a script that calls commands.
    Script,
    /// Not at all: its user may not call it any more.
    Denied(Denied),
}

impl Plan {
    /// Whether what comes behind it has to wait for its answer.
    fn is_alone(self) -> bool {
        matches!(self, Plan::Relay(_) | Plan::Asked | Plan::Script)
    }
}

struct Planned {
    command: &'static Command,
    request: Request,
    db: u16,
    plan: Plan,
    /// What each lane is asked, by index into `lanes`; taken when the stage begins.
    shares: Vec<Share>,
    /// What each lane answered.
    outcomes: Vec<(usize, Outcome)>,
    /// What the client's lane computes from what lanes have sent: LCS, BITOP.
    state: Option<Box<State>>,
    /// The script or function that it runs.
    named: Option<Box<Named>>,
}

struct Share {
    lane: usize,
    request: Request,
    /// The keys alone, for commands that look before they change.
    probe: Option<Request>,
}

/// See the top of this file.
pub(crate) struct Transaction {
    /// Whose it is: a client's of this lane, or of another lane that has sent it here because it owns the keys.
    pub(crate) origin: Origin,
    pub(crate) port: Port,
    /// Where its client connected to.
    pub(crate) local: Address,
    /// A copy of its client, for the commands of a MULTI that concern the connection or the control thread.
    pub(crate) stand_in: Option<Box<Client>>,
    /// On behalf of whom it runs, if that is a client that tracks keys.
    pub(crate) by: Option<By>,
    /// What MONITOR shows of it, if somebody looks.
    pub(crate) lines: Option<Box<ExecLines>>,
    proto: Proto,
    is_multi: bool,
    takes_locks: bool,
    /// Commands of a MULTI that are not planned yet.
    queued: Paged<(&'static Command, Request)>,
    commands: Paged<Planned>,
    /// Past the last command that is alone, see [`Plan::is_alone`].
    alone_end: usize,
    watcher: Option<WatcherId>,
    /// Keys watched, which EXEC locks too, with their lanes.
    watched: Vec<(u16, LockName)>,
    /// How many of them are planned.
    watched_at: usize,
    pub(crate) lanes: Vec<LanePart>,
    phase: Phase,
    kind: Kind,
    number: u64,
    refusal_count: u32,
    /// It can't be, whatever the lanes hold.
    is_refused: bool,
    /// Where planning or combining goes on: a command and an argument of it.
    at: (usize, usize),
    /// How many stages have begun, calls of scripts counted each.
    stage: u32,
    /// Commands before this one are answered; those before `stage_end` are under way.
    position: usize,
    /// Microseconds behind its millisecond, once it has asked for the time: there is one for all its commands.
    us: Option<u16>,
    stage_end: usize,
    reply: Content,
    /// Parts that end while the reply is put together.
    ending_count: usize,
    /// What the lanes found, all together.
    grant: Grant,
    database_count: u16,
    script: Option<Box<Scripted>>,
    /// Keys that scripts have declared, and whether exclusively.
    declared: BTreeMap<LockName, bool>,
    /// Its script runs without locks: all that it has declared is this lane's, and nobody holds it. Before anybody else does anything
    /// it is over or has its locks.
    is_unlocked: bool,
    /// Pieces of scripts' garbage that were collected before it began.
    tidied_count: u32,
    /// It locks all databases on all lanes: a script uses what it has not declared.
    holds_all: bool,
    /// On a lane's own port, the slot of its keys.
    slot: Option<Slot>,
    /// What stands against the call at hand of a script.
    stray: Option<Stray>,
    /// Lines for MONITOR of what its script has called.
    pub(crate) script_lines: Vec<u8>,
    /// How far a look at whether its user may call the command at hand has come, and the user as the look began.
    vetting: Option<Box<(Arc<User>, Vetting)>>,
    /// What that user may not.
    pub(crate) denials: Vec<Denial>,
    /// What its script has said by redis.log: levels and texts.
    pub(crate) script_log: Vec<(u8, Vec<u8>)>,
    /// The database that SELECT inside a MULTI has chosen for the time after.
    pub(crate) db_after: u16,
}

/// What planning needs to know of its lane.
pub(crate) struct Surroundings<'a> {
    pub(crate) lane: u16,
    pub(crate) map: &'a PartitionMap,
    /// The lanes over which commands without keys go: all, or on a lane's own port this one.
    pub(crate) all: std::ops::Range<u16>,
    pub(crate) database_count: u16,
    pub(crate) settings: &'a Settings,
    pub(crate) locks: &'a Locks,
    /// Somebody looks at what is called.
    pub(crate) is_monitored: bool,
    /// The transaction's own name there.
    pub(crate) me: u64,
    /// If its client tracks keys.
    pub(crate) tracking: Option<Shown>,
}

impl Transaction {
    /// One command over several lanes or many slices.
    pub(crate) fn of_command(
        origin: Origin,
        proto: Proto,
        command: &'static Command,
        request: Request,
        db: u16,
    ) -> Transaction {
        let takes_locks = match command.id {
            Id::Dbsize | Id::Randomkey | Id::Watch => false,
            // It goes over all records of the namespace, which nobody is to wait for.
            Id::RecordTruncate => !record::is_of_set(Args::Owned(&request)),
            _ => true,
        };
        let planned = Planned::new(command, request, db);
        Transaction {
            origin,
            port: Port::Shared,
            local: Address::Unix,
            stand_in: None,
            by: None,
            lines: None,
            proto,
            is_multi: false,
            takes_locks,
            queued: Paged::default(),
            commands: Paged::of(planned),
            alone_end: 0,
            watcher: None,
            watched: Vec::new(),
            watched_at: 0,
            lanes: Vec::new(),
            phase: Phase::Planning,
            kind: Kind::Numbered,
            number: 0,
            refusal_count: 0,
            is_refused: false,
            at: (0, 0),
            stage: 0,
            position: 0,
            us: None,
            stage_end: 0,
            reply: Content::default(),
            ending_count: 0,
            grant: Grant::default(),
            database_count: 0,
            script: None,
            declared: BTreeMap::new(),
            is_unlocked: false,
            tidied_count: 0,
            holds_all: false,
            slot: None,
            stray: None,
            script_lines: Vec::new(),
            vetting: None,
            denials: Vec::new(),
            script_log: Vec::new(),
            db_after: db,
        }
    }

    /// Commands of a client that only look ([`is_look`]), one behind the other; the first of them has keys of several lanes.
    pub(crate) fn of_looks(
        origin: Origin,
        proto: Proto,
        db: u16,
        mut looks: impl Iterator<Item = (&'static Command, Request)>,
    ) -> Transaction {
        let (command, request) = looks.next().expect("somebody looks");
        let mut transaction = Transaction::of_command(origin, proto, command, request, db);
        looks.for_each(|(command, request)| transaction.commands.push(Planned::new(command, request, db)));
        transaction
    }

    /// The commands queued by MULTI, run by EXEC.
    pub(crate) fn of_multi(
        origin: Origin,
        proto: Proto,
        db: u16,
        queued: Paged<(&'static Command, Request)>,
        watcher: Option<WatcherId>,
        watched: Vec<(u16, LockName)>,
    ) -> Transaction {
        let exec = lookup(b"exec").expect("EXEC is in the table");
        let mut transaction = Transaction::of_command(origin, proto, exec, Request::default(), db);
        transaction.is_multi = true;
        (transaction.queued, transaction.commands) = (queued, Paged::default());
        transaction.watcher = watcher;
        transaction.watched = watched;
        transaction
    }

    /// WATCH: the keys' lanes note who watches; nothing is locked.
    pub(crate) fn of_watch(
        origin: Origin,
        command: &'static Command,
        request: Request,
        db: u16,
        watcher: WatcherId,
    ) -> Transaction {
        let mut transaction = Transaction::of_command(origin, Proto::Resp2, command, request, db);
        transaction.watcher = Some(watcher);
        transaction
    }

    /// The watching that ends with it, and where; once.
    pub(crate) fn take_watched(&mut self) -> Option<(WatcherId, Vec<u16>)> {
        let names = std::mem::take(&mut self.watched);
        let id = self.watcher.filter(|_| self.is_multi && !names.is_empty())?;
        Some((id, lanes_of(&names)))
    }

    /// The watching that a WATCH has begun, and where.
    pub(crate) fn begun_watch(&self) -> Option<(WatcherId, Vec<u16>)> {
        let id = self.watcher.filter(|_| !self.is_multi)?;
        Some((id, self.lanes.iter().map(|part| part.lane).collect()))
    }

    /// Whether nothing has run: a watched key had changed, there was no room, or it was refused.
    pub(crate) fn is_aborted(&self) -> bool {
        self.is_refused || self.grant.is_vain()
    }

    /// It is of this client from now on, whose lane had sent it away. Nothing of it has run.
    pub(crate) fn come_back(&mut self, client: Handle<Client>, slot: u32) {
        self.origin = Origin::Client { client, slot };
    }

    /// Whether it is a script alone.
    pub(crate) fn is_script(&self) -> bool {
        !self.is_multi && self.commands[0].command.scope == Scope::Script
    }

    /// The command that its client has sent.
    pub(crate) fn id(&self) -> Id {
        if self.is_multi { Id::Exec } else { self.commands[0].command.id }
    }

    /// The command that it has come to.
    pub(crate) fn subject(&self) -> Option<(&'static Command, Extent)> {
        self.commands.get(self.position).map(|planned| (planned.command, Extent::of(&planned.request)))
    }

    /// Whether all its parts have ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ending { awaited: 0 })
    }

    /// Another piece of planning or combining.
    pub(crate) fn step(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> After {
        match self.phase {
            Phase::Planning => self.plan(space, around, budget),
            Phase::Arranging { .. } => self.arrange(space, around, budget),
            Phase::Combining => self.combine(space, around, budget),
            Phase::Scripting => self.run_script(space, around, budget),
            Phase::Over => After::Ended,
            _ => After::Rest,
        }
    }

    /// The number under which it asks now; `fresh` gives a new one.
    pub(crate) fn begin(&mut self, fresh: impl Fn() -> u64) {
        if self.kind == Kind::Numbered {
            self.number = fresh();
        }
    }

    /// What the lane at `index` is asked. There is credit for it.
    pub(crate) fn prepare(&mut self, me: Handle<Transaction>, index: usize) -> Prepare {
        let (goes, looks) = (self.goes_at_once(), self.looks_at_once());
        // A script that has begun without locks: what its call adds is looked at when the call is made.
        let has_begun = self.script.is_some();
        let told_count = self.told_count(index);
        let part = &mut self.lanes[index];
        part.is_live = true;
        Prepare {
            transaction: me.to_bits(),
            number: self.number,
            kind: self.kind,
            port: self.port,
            proto: self.proto,
            names: std::mem::take(&mut part.names),
            jobs: std::mem::take(&mut part.jobs),
            goes,
            looks,
            watcher: if self.is_multi { self.watcher } else { None },
            by: self.by,
            growth: if has_begun { None } else { part.growth.take() },
            at_ms: self.grant.at_ms,
            told_count,
            stage: self.stage,
        }
    }

    /// A lane has something to say.
    pub(crate) fn hear(&mut self, lane: u16, answer: PartAnswer, space: &mut Keyspace) -> After {
        let index = self.lane_index(lane);
        match answer {
            PartAnswer::Granted { part, grant } => {
                self.lanes[index].part = part;
                self.grant = self.grant.and(grant);
                self.lock_answered(space)
            }
            PartAnswer::Refused(refusal) => {
                self.lanes[index].is_live = false;
                let Phase::Locking { is_refused, .. } = &mut self.phase else {
                    unreachable!("parts are refused while locks are asked for")
                };
                *is_refused = true;
                if refusal == Refusal::Lasting {
                    self.refusal_count = REFUSALS_MAX;
                }
                self.lock_answered(space)
            }
            PartAnswer::Results(results) => {
                let part = &mut self.lanes[index];
                part.is_live &= !results.ended;
                (part.part, part.looked_at_ms) = (results.part, results.grant.at_ms);
                self.grant = self.grant.and(results.grant);
                for (command, outcome) in results.outcomes {
                    self.commands[command as usize].outcomes.push((index, outcome));
                }
                match &mut self.phase {
                    Phase::Locking { .. } => return self.lock_answered(space),
                    Phase::Combining => {
                        self.ending_count -= 1;
                        return After::Rest;
                    }
                    Phase::Withdrawing { awaited }
                    | Phase::Running { awaited }
                    | Phase::Ending { awaited } => {
                        *awaited -= 1;
                        if *awaited > 0 {
                            return After::Rest;
                        }
                    }
                    _ => unreachable!("results come when they are awaited"),
                }
                match self.phase {
                    Phase::Withdrawing { .. } => {
                        self.refusal_count += 1;
                        self.plan_again();
                        After::Again
                    }
                    Phase::Running { .. } if self.grant.is_vain() => self.abort(),
                    Phase::Running { .. } => self.begin_combining(),
                    _ => After::Ended,
                }
            }
        }
    }

    fn lock_answered(&mut self, space: &mut Keyspace) -> After {
        let Phase::Locking { asked, awaited, is_refused } = &mut self.phase else {
            unreachable!("locks are granted while they are asked for")
        };
        *awaited -= 1;
        if *awaited > 0 {
            return After::Rest;
        }
        if *is_refused {
            let granted: Vec<usize> =
                (0..self.lanes.len()).filter(|&index| self.lanes[index].is_live).collect();
            if granted.is_empty() {
                self.refusal_count += 1;
                self.plan_again();
                return After::Again;
            }
            self.phase = Phase::Withdrawing { awaited: granted.len() };
            return After::Withdraw(granted);
        }
        if *asked < self.lanes.len() {
            let next = *asked..*asked + 1;
            *asked += 1;
            *awaited = 1;
            return After::Prepare(next);
        }
        if self.grant.is_vain() {
            self.abort()
        } else if self.looks_at_once() {
            self.weigh_looks(space)
        } else {
            self.begin_stage()
        }
    }

    fn begin_combining(&mut self) -> After {
        self.phase = Phase::Combining;
        self.at = (self.position, 0);
        After::Again
    }

    /// Planning has found that it can't be: nothing runs.
    fn refuse(&mut self, text: &str) -> After {
        self.is_refused = true;
        self.db_after = self.commands.get(0).map_or(self.db_after, |planned| planned.db);
        let mut content = Content::default();
        reply::error(&mut content, text);
        After::Reply(content, self.release_all())
    }

    /// A watched key has changed, or there is no room: nothing runs.
    fn abort(&mut self) -> After {
        // A SELECT that planning has followed does not take place either.
        self.db_after = self.commands.get(0).map_or(self.db_after, |planned| planned.db);
        let mut content = Content::default();
        match (self.grant.lacks_room, self.is_multi) {
            (false, _) => reply::null_array(&mut content, self.proto),
            (true, false) => reply::error(&mut content, OOM),
            (true, true) => {
                let text = format!("EXECABORT Transaction discarded because of: {OOM}");
                reply::error(&mut content, &text);
            }
        }
        After::Reply(content, self.release_all())
    }

    fn plan_again(&mut self) {
        self.phase = Phase::Planning;
        self.at = (0, 0);
        self.watched_at = 0;
        self.lanes.clear();
        self.declared.clear();
        self.is_unlocked = false;
        self.grant = Grant::default();
    }

    fn lane_index(&self, lane: u16) -> usize {
        self.lanes.iter().position(|part| part.lane == lane).expect("only lanes that were asked answer")
    }

    /// The index of a lane, which takes part from now on.
    fn join(&mut self, lane: u16) -> usize {
        if let Some(index) = self.lanes.iter().position(|part| part.lane == lane) {
            return index;
        }
        let (names, jobs) = (Names::default(), Vec::new());
        self.lanes.push(LanePart {
            lane,
            part: 0,
            names,
            jobs,
            growth: None,
            is_told: false,
            looked_at_ms: i64::MIN,
            is_live: false,
        });
        self.lanes.len() - 1
    }

    /// Holds a name on the lane at `index`.
    fn hold(&mut self, index: usize, name: LockName, mode: Mode) {
        let part = &mut self.lanes[index];
        part.is_told |= mode == Mode::Exclusive && name.db < self.database_count;
        part.names.push(name, mode);
    }

    /// See [`Prepare::told_count`].
    fn told_count(&self, index: usize) -> usize {
        if self.is_sync() {
            return self.lanes.len();
        }
        let count = self.lanes.iter().filter(|part| part.is_told).count();
        if self.lanes[index].is_told { count } else { 0 }
    }

    /// What the control thread is asked, from the copy of its client: a command of a MULTI or of a script, or for a script.
    pub(crate) fn question(&mut self, lane: u16, asked_ns: u64) -> Question {
        let loads = self.commands[self.position].plan == Plan::Script;
        let to_load = loads.then(|| self.script_to_load());
        let planned = &mut self.commands[self.position];
        let client = self.stand_in.as_mut().expect("a MULTI with such a command has a copy of its client");
        client.db = planned.db;
        let request = to_load.unwrap_or_else(|| std::mem::take(&mut planned.request));
        let mut from = Portrait::of(client, lane, (0, 0));
        // A script is answered as it has said, whatever its client speaks.
        if self.script.is_some() {
            from.proto = self.proto;
        }
        Question { command: planned.command, request, from, asked_ns }
    }

    /// Whether what it asks is about pub/sub: then its lane answers, not the control thread.
    pub(crate) fn asks_pubsub(&self) -> bool {
        self.commands[self.position].command.scope == Scope::Pubsub
    }

    /// Whether it is about tracking what its client tracks: its lane answers, too.
    pub(crate) fn asks_tracking(&self) -> bool {
        tracking::is_answered_here(self.commands[self.position].command)
    }

    /// What it asks then, and for whom.
    pub(crate) fn take_asked(&mut self) -> (&'static Command, Request, Proto) {
        let planned = &mut self.commands[self.position];
        (planned.command, std::mem::take(&mut planned.request), self.proto)
    }

    /// Its client, if that is of this lane.
    pub(crate) fn client(&self) -> Option<Handle<Client>> {
        if let Origin::Client { client, .. } = self.origin { Some(client) } else { None }
    }

    /// Its client subscribes to something, or nothing any more.
    pub(crate) fn note_subscribed(&mut self, is_subscribed: bool) {
        if let Some(client) = &mut self.stand_in {
            client.is_subscribed = is_subscribed;
        }
    }

    /// What it answers.
    pub(crate) fn hear_control(&mut self, content: Content) -> After {
        assert!(matches!(self.phase, Phase::Asking), "the control thread answers what it was asked");
        let planned = &mut self.commands[self.position];
        planned.outcomes.push((0, Outcome::Reply(content)));
        self.phase = if planned.plan == Plan::Script { Phase::Scripting } else { Phase::Combining };
        self.at = (self.position, 0);
        After::Again
    }

    /// Drops some of its commands, what is large of them by the lane's paced freeing; true when none is left.
    pub(crate) fn discard(&mut self, space: &mut Keyspace) -> bool {
        self.phase = Phase::Over;
        self.drop_script(space);
        let mut items_left = DROPPED_PER_STEP;
        while items_left > 0
            && let Some(page) = self.commands.take_last_page()
        {
            items_left = items_left.saturating_sub(page.len());
            for mut planned in page {
                space.discard(std::mem::take(&mut planned.request));
                planned.forget_shares(space);
            }
        }
        self.commands.len() == 0
    }
}

impl Planned {
    fn new(command: &'static Command, request: Request, db: u16) -> Planned {
        Planned {
            command,
            request,
            db,
            plan: Plan::Here,
            shares: Vec::new(),
            outcomes: Vec::new(),
            state: None,
            named: None,
        }
    }
}
