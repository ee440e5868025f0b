//! A transaction: what the client's lane does for a command, or a MULTI … EXEC, that one lane cannot answer alone.
//!
//! ```text
//! plan       which lanes, which locks there, which part of the request for whom        (in slices)
//! lock       all lanes at once under one number, or one after the other; refused: withdraw, plan again
//! run        stage by stage: every lane does its jobs and answers; answers are combined (in slices)
//! end        the reply goes out with the last answer; the lanes give their locks back
//! ```
//! Every change runs after all grants. A client's death changes nothing: the transaction goes on to its end.
//! The idea of numbering is VLL's (Ren, Thomson, Abadi, VLDB 2013); `locks` tells why nobody waits for ever.

use net::Address;
use wire::command::{Combine, Command, Id, Scope, lookup};
use wire::reply::{self, OK, Proto, Put};
use wire::route::{PartitionMap, Slot};

use crate::Settings;
use crate::client::{Client, Port};
use crate::commands::generic::{CopyOptions, databases_of_key, swapped_databases};
use crate::commands::lcs::Lcs;
use crate::commands::scan::parse_cursor;
use crate::connection;
use crate::dispatch::lanes_of;
use crate::keyspace::{Call, Keyspace};
use crate::locks::{Kind, LockName, Mode};
use crate::part::{Job, NAMES_PER_STEP, Names, Outcome, Work};
use crate::replies::Content;
use crate::request::{Arg, Args, Request};
use crate::slab::Handle;
use crate::watch::WatcherId;

mod relay;
use relay::Relayed;

/// After so many refusals a transaction asks its lanes one after the other.
const REFUSALS_MAX: u32 = 3;
/// Keys planned and replies combined in one step.
const ITEMS_PER_STEP: usize = 256;

/// What a lane is asked to take part in.
pub(crate) struct Prepare {
    pub(crate) transaction: u64,
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    pub(crate) port: Port,
    pub(crate) proto: Proto,
    pub(crate) names: Names,
    /// What to do as soon as the locks are there, if `goes`; then the locks are given back.
    pub(crate) jobs: Vec<Job>,
    pub(crate) goes: bool,
    pub(crate) watcher: Option<WatcherId>,
}

/// What a granted part does next.
pub(crate) struct Go {
    pub(crate) jobs: Vec<Job>,
    pub(crate) releases: bool,
}

/// What it came to.
pub(crate) struct Results {
    pub(crate) outcomes: Vec<(u32, Outcome)>,
    pub(crate) is_dirty: bool,
    /// The part is over; nothing more comes from it.
    pub(crate) ended: bool,
}

/// What a part says to its transaction.
pub(crate) enum PartAnswer {
    Granted { part: u64, is_dirty: bool },
    Refused,
    Results(Results),
}

/// What the lane has to do for a transaction after a step.
pub(crate) enum After {
    /// Nothing: answers are under way.
    Rest,
    /// Another step when its turn comes round.
    Again,
    /// Ask these lanes (indices into [`Transaction::lanes`]), all or none, when there is credit for all.
    Prepare(std::ops::Range<usize>),
    /// Tell this lane's part to go on.
    Go(Vec<(usize, Go)>),
    /// Tell these lanes' parts to withdraw.
    Withdraw(Vec<usize>),
    /// The reply, and what is left to tell.
    Reply(Content, Vec<(usize, Go)>),
    /// It is over.
    Ended,
}

enum Phase {
    Planning,
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
    Combining,
    Ending {
        awaited: usize,
    },
}

/// One of the lanes that take part.
pub(crate) struct LanePart {
    pub(crate) lane: u16,
    /// The part's handle on its lane, once granted.
    pub(crate) part: u64,
    names: Names,
    jobs: Vec<Job>,
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
    /// LCS of strings on two lanes.
    comparison: Option<Box<Lcs>>,
}

struct Share {
    lane: usize,
    request: Request,
    /// The keys alone, for commands that look before they change.
    probe: Option<Request>,
}

/// See the top of this file.
pub(crate) struct Transaction {
    pub(crate) client: Handle<Client>,
    pub(crate) slot: u32,
    pub(crate) port: Port,
    /// Where its client connected to.
    pub(crate) local: Address,
    proto: Proto,
    is_multi: bool,
    takes_locks: bool,
    commands: Vec<Planned>,
    watcher: Option<WatcherId>,
    /// Keys watched, which EXEC locks too, with their lanes.
    watched: Vec<(u16, LockName)>,
    pub(crate) lanes: Vec<LanePart>,
    phase: Phase,
    kind: Kind,
    number: u64,
    refusal_count: u32,
    /// Where planning or combining goes on: a command and an argument of it.
    at: (usize, usize),
    /// Commands before this one are answered; those before `stage_end` are under way.
    position: usize,
    stage_end: usize,
    reply: Content,
    is_aborted: bool,
    database_count: u16,
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
}

impl Transaction {
    /// One command over several lanes or many slices.
    pub(crate) fn of_command(
        client: Handle<Client>,
        slot: u32,
        proto: Proto,
        command: &'static Command,
        request: Request,
        db: u16,
    ) -> Transaction {
        let takes_locks = !matches!(command.id, Id::Dbsize | Id::Randomkey | Id::Watch);
        let planned = Planned::new(command, request, db);
        Transaction {
            client,
            slot,
            port: Port::Shared,
            local: Address::Unix,
            proto,
            is_multi: false,
            takes_locks,
            commands: vec![planned],
            watcher: None,
            watched: Vec::new(),
            lanes: Vec::new(),
            phase: Phase::Planning,
            kind: Kind::Numbered,
            number: 0,
            refusal_count: 0,
            at: (0, 0),
            position: 0,
            stage_end: 0,
            reply: Content::default(),
            is_aborted: false,
            database_count: 0,
            db_after: db,
        }
    }

    /// The commands queued by MULTI, run by EXEC.
    pub(crate) fn of_multi(
        client: Handle<Client>,
        slot: u32,
        proto: Proto,
        db: u16,
        queued: Vec<(&'static Command, Request)>,
        watcher: Option<WatcherId>,
        watched: Vec<(u16, LockName)>,
    ) -> Transaction {
        let exec = lookup(b"exec").expect("EXEC is in the table");
        let mut transaction = Transaction::of_command(client, slot, proto, exec, Request::default(), db);
        transaction.is_multi = true;
        transaction.commands =
            queued.into_iter().map(|(command, request)| Planned::new(command, request, db)).collect();
        transaction.watcher = watcher;
        transaction.watched = watched;
        transaction
    }

    /// WATCH: the keys' lanes note who watches; nothing is locked.
    pub(crate) fn of_watch(
        client: Handle<Client>,
        slot: u32,
        command: &'static Command,
        request: Request,
        db: u16,
        watcher: WatcherId,
    ) -> Transaction {
        let mut transaction = Transaction::of_command(client, slot, Proto::Resp2, command, request, db);
        transaction.watcher = Some(watcher);
        transaction
    }

    /// The watching that ends with it, and where; once.
    pub(crate) fn take_watched(&mut self) -> Option<(WatcherId, Vec<u16>)> {
        let names = std::mem::take(&mut self.watched);
        let id = self.watcher.filter(|_| self.is_multi && !names.is_empty())?;
        Some((id, lanes_of(&names)))
    }

    /// Another piece of planning or combining.
    pub(crate) fn step(&mut self, space: &mut Keyspace, around: &Surroundings<'_>) -> After {
        match self.phase {
            Phase::Planning => self.plan(space, around),
            Phase::Combining => self.combine(space, around),
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
        let goes = self.goes_at_once();
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
            watcher: if self.is_multi { self.watcher } else { None },
        }
    }

    /// A lane has something to say.
    pub(crate) fn hear(&mut self, lane: u16, answer: PartAnswer) -> After {
        let index = self.lane_index(lane);
        match answer {
            PartAnswer::Granted { part, is_dirty } => {
                self.lanes[index].part = part;
                self.is_aborted |= is_dirty;
                self.lock_answered()
            }
            PartAnswer::Refused => {
                self.lanes[index].is_live = false;
                let Phase::Locking { is_refused, .. } = &mut self.phase else {
                    unreachable!("parts are refused while locks are asked for")
                };
                *is_refused = true;
                self.lock_answered()
            }
            PartAnswer::Results(results) => {
                self.lanes[index].is_live &= !results.ended;
                self.is_aborted |= results.is_dirty;
                for (command, outcome) in results.outcomes {
                    self.commands[command as usize].outcomes.push((index, outcome));
                }
                match &mut self.phase {
                    Phase::Withdrawing { awaited }
                    | Phase::Running { awaited }
                    | Phase::Ending { awaited } => {
                        *awaited -= 1;
                        if *awaited > 0 {
                            return After::Rest;
                        }
                    }
                    Phase::Planning | Phase::Locking { .. } | Phase::Combining => {
                        unreachable!("results come when they are awaited")
                    }
                }
                match self.phase {
                    Phase::Withdrawing { .. } => {
                        self.refusal_count += 1;
                        self.plan_again();
                        After::Again
                    }
                    Phase::Running { .. } if self.is_aborted => self.abort(),
                    Phase::Running { .. } => {
                        self.phase = Phase::Combining;
                        self.at = (self.position, 0);
                        After::Again
                    }
                    _ => After::Ended,
                }
            }
        }
    }

    fn lock_answered(&mut self) -> After {
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
        if self.is_aborted { self.abort() } else { self.begin_stage() }
    }

    /// A watched key has changed: nothing runs.
    fn abort(&mut self) -> After {
        // A SELECT that planning has followed does not take place either.
        self.db_after = self.commands.first().map_or(self.db_after, |planned| planned.db);
        let mut content = Content::default();
        reply::null_array(&mut content, self.proto);
        After::Reply(content, self.release_all())
    }

    fn plan_again(&mut self) {
        self.phase = Phase::Planning;
        self.at = (0, 0);
        self.lanes.clear();
        for planned in &mut self.commands {
            planned.shares.clear();
        }
    }

    fn lane_index(&self, lane: u16) -> usize {
        self.lanes.iter().position(|part| part.lane == lane).expect("only lanes that were asked answer")
    }

    /// The index of a lane, which takes part from now on.
    fn join(&mut self, lane: u16) -> usize {
        if let Some(index) = self.lanes.iter().position(|part| part.lane == lane) {
            return index;
        }
        let part = LanePart { lane, part: 0, names: Names::default(), jobs: Vec::new(), is_live: false };
        self.lanes.push(part);
        self.lanes.len() - 1
    }

    // ---- planning

    fn plan(&mut self, space: &mut Keyspace, around: &Surroundings<'_>) -> After {
        if self.at == (0, 0) {
            self.database_count = around.database_count;
            self.db_after = self.commands.first().map_or(self.db_after, |planned| planned.db);
            for (lane, name) in self.watched.clone() {
                let index = self.join(lane);
                self.lanes[index].names.push(name, Mode::Shared);
            }
        }
        let mut items_left = ITEMS_PER_STEP;
        while self.at.0 < self.commands.len() {
            if items_left == 0 {
                return After::Again;
            }
            items_left -= 1;
            if self.at.1 == 0 {
                self.plan_command(around);
            }
            self.plan_keys(space, around, &mut items_left);
        }
        self.planned()
    }

    /// How one command gets its answer; its keys follow.
    fn plan_command(&mut self, around: &Surroundings<'_>) {
        let index = self.at.0;
        self.commands[index].db = self.db_after;
        let (command, count) = (self.commands[index].command, self.commands[index].request.len());
        let plan = match command.scope {
            Scope::AllLanes(combine) => Plan::Scatter(combine),
            Scope::Key | Scope::Keys(_) if key_range(command, count).is_empty() => Plan::Here,
            Scope::Key => Plan::Whole(0),
            // A key without its value: the command refuses itself, in one place.
            Scope::Keys(_) if command.keys.step == 2 && count % 2 == 0 => Plan::Whole(0),
            Scope::Keys(_) if command.id == Id::Copy && self.is_wrong_copy(index, around) => Plan::Whole(0),
            Scope::Keys(Combine::Coordinator) => Plan::Relay(0),
            Scope::Keys(combine) => Plan::Scatter(combine),
            Scope::Partition => {
                let lane = self.lane_of_cursor(index, around);
                self.join(lane);
                Plan::Whole(lane)
            }
            Scope::Connection | Scope::Control => Plan::Here,
        };
        self.commands[index].plan = plan;
        if command.id == Id::Select
            && let Ok(db) = connection::database(self.commands[index].request.get(1), around.database_count)
        {
            self.db_after = db;
        }
        if let Plan::Scatter(_) = plan
            && let Scope::AllLanes(_) = command.scope
        {
            self.plan_all_lanes(around);
        }
        self.at.1 = 1;
    }

    /// The lane that goes on with a SCAN; the client's own for other commands of one partition.
    fn lane_of_cursor(&self, index: usize, around: &Surroundings<'_>) -> u16 {
        let planned = &self.commands[index];
        if planned.command.id != Id::Scan || self.port == Port::Lane {
            return around.lane;
        }
        let cursor = planned.request.get(1).flat().and_then(parse_cursor).unwrap_or(0);
        let slot = u16::try_from(cursor >> 48).ok().and_then(Slot::new);
        around.map.owner(slot.unwrap_or_else(|| Slot::new(0).expect("there is a first slot"))).0
    }

    /// COPY with wrong options refuses itself too.
    fn is_wrong_copy(&self, index: usize, around: &Surroundings<'_>) -> bool {
        let planned = &self.commands[index];
        CopyOptions::parse(Args::Owned(&planned.request), planned.db, around.database_count).is_err()
    }

    fn plan_all_lanes(&mut self, around: &Surroundings<'_>) {
        let index = self.at.0;
        let planned = &self.commands[index];
        let mode = if planned.command.writes() { Mode::Exclusive } else { Mode::Shared };
        let databases: Vec<u16> = match planned.command.id {
            Id::Flushall => (0..around.database_count).collect(),
            Id::Swapdb => swapped_databases(Args::Owned(&planned.request), around.database_count)
                .map_or(Vec::new(), |(a, b)| vec![a, b]),
            _ => vec![planned.db],
        };
        for lane in around.all.clone() {
            let at = self.join(lane);
            if self.takes_locks {
                for &db in &databases {
                    self.lanes[at].names.push(LockName { db, key: None }, mode);
                }
            }
            let request = Args::Owned(&self.commands[index].request).to_request();
            self.commands[index].shares.push(Share { lane: at, request, probe: None });
        }
    }

    /// Finds the lanes of the next keys of the command at hand.
    fn plan_keys(&mut self, space: &mut Keyspace, around: &Surroundings<'_>, items_left: &mut usize) {
        let index = self.at.0;
        let command = self.commands[index].command;
        let db = self.commands[index].db;
        let count = self.commands[index].request.len();
        let keys = key_range(command, count);
        let step = usize::from(command.keys.step.max(1));
        let mut key_index = keys.start + (self.at.1 - 1) * step;
        while key_index < keys.end {
            if *items_left == 0 {
                return;
            }
            *items_left -= 1;
            let bytes = self.commands[index].request.get(key_index).flat().unwrap_or_default();
            let slot = Slot::of(bytes);
            let lane = around.map.owner(slot).0;
            let hash = space.shard.key(db, slot.number(), bytes).hash;
            let at = self.join(lane);
            if self.takes_locks {
                let mode = if command.writes() { Mode::Exclusive } else { Mode::Shared };
                let args = Args::Owned(&self.commands[index].request);
                let databases = databases_of_key(command, args, key_index, db, around.database_count);
                for db in databases.into_iter().flatten() {
                    self.lanes[at].names.push(LockName { db, key: Some(hash) }, mode);
                }
            }
            let planned = &mut self.commands[index];
            match planned.plan {
                Plan::Whole(_) => planned.plan = Plan::Whole(lane),
                Plan::Scatter(_) => planned.share(at, key_index, step, false),
                Plan::Relay(_) => planned.share(at, key_index, step, command.id == Id::Msetnx),
                Plan::Here => {}
            }
            key_index += step;
            self.at.1 += 1;
        }
        self.at = (index + 1, 0);
    }

    /// Everything is planned: how to lock.
    fn planned(&mut self) -> After {
        for planned in &mut self.commands {
            // Keys that all live on one lane need no taking apart.
            if let (Plan::Scatter(_) | Plan::Relay(_), [share]) = (planned.plan, planned.shares.as_slice()) {
                planned.plan = Plan::Whole(self.lanes[share.lane].lane);
                planned.shares.clear();
            }
        }
        let order: Vec<u16> = self.lanes.iter().map(|part| part.lane).collect();
        self.lanes.sort_by_key(|part| part.lane);
        for planned in &mut self.commands {
            for share in &mut planned.shares {
                let lane = order[share.lane];
                share.lane = self.lanes.iter().position(|part| part.lane == lane).expect("sorted, not lost");
            }
        }
        if self.lanes.is_empty() {
            self.stage_end = self.commands.len();
            self.phase = Phase::Combining;
            self.at = (0, 0);
            return After::Again;
        }
        let is_short = self.lanes.iter().all(|part| part.names.len() <= NAMES_PER_STEP);
        self.kind = if self.lanes.len() == 1 {
            Kind::Local
        } else if is_short && self.refusal_count < REFUSALS_MAX {
            Kind::Numbered
        } else {
            Kind::Ordered
        };
        let asked = if self.kind == Kind::Ordered { 1 } else { self.lanes.len() };
        if self.goes_at_once() {
            self.fill_stage();
            self.phase = Phase::Running { awaited: asked };
        } else {
            self.phase = Phase::Locking { asked, awaited: asked, is_refused: false };
        }
        After::Prepare(0..asked)
    }

    /// Whether the lanes may run everything as soon as they have their locks: there is one, or no locks at all.
    fn goes_at_once(&self) -> bool {
        (self.lanes.len() == 1 || !self.takes_locks)
            && !self.commands.iter().any(|planned| matches!(planned.plan, Plan::Relay(_)))
    }

    // ---- running

    /// Collects the jobs of the next commands, as many as can run without waiting for one another.
    fn fill_stage(&mut self) {
        self.stage_end = self.position;
        while self.stage_end < self.commands.len() {
            let is_relay = matches!(self.commands[self.stage_end].plan, Plan::Relay(_));
            if is_relay && self.stage_end > self.position {
                break;
            }
            self.fill_command(self.stage_end);
            self.stage_end += 1;
            if is_relay {
                break;
            }
        }
    }

    fn fill_command(&mut self, index: usize) {
        let number = u32::try_from(index).expect("a MULTI queues fewer than 2^32 commands");
        let (watcher, database_count) = (self.watcher, self.database_count);
        let planned = &mut self.commands[index];
        let (command, db) = (planned.command, planned.db);
        let work = |request: Request| match (command.id, watcher) {
            (Id::Watch, Some(id)) => Work::Watch { id, request },
            _ => Work::Run { command, request, route: None },
        };
        match planned.plan {
            Plan::Here => {}
            Plan::Whole(lane) => {
                let request = std::mem::take(&mut planned.request);
                let at = self.lane_index(lane);
                self.lanes[at].jobs.push(Job { command: number, db, work: work(request) });
            }
            Plan::Scatter(_) => {
                for share in &mut planned.shares {
                    if command.scope == Scope::AllLanes(Combine::Any) {
                        let count = lookup(b"dbsize").expect("DBSIZE is in the table");
                        let work = Work::Run { command: count, request: Request::default(), route: None };
                        self.lanes[share.lane].jobs.push(Job { command: number, db, work });
                    }
                    let request = std::mem::take(&mut share.request);
                    self.lanes[share.lane].jobs.push(Job { command: number, db, work: work(request) });
                }
            }
            Plan::Relay(step) => {
                for (lane, db, work) in planned.relay_jobs(step, database_count) {
                    self.lanes[lane].jobs.push(Job { command: number, db, work });
                }
            }
        }
    }

    fn begin_stage(&mut self) -> After {
        self.fill_stage();
        let is_last = self.stage_end == self.commands.len()
            && !self.commands[self.position..].iter().any(|planned| matches!(planned.plan, Plan::Relay(_)));
        let mut gos = Vec::new();
        for (index, part) in self.lanes.iter_mut().enumerate() {
            if part.is_live && (is_last || !part.jobs.is_empty()) {
                gos.push((index, Go { jobs: std::mem::take(&mut part.jobs), releases: is_last }));
            }
        }
        if gos.is_empty() {
            self.phase = Phase::Combining;
            self.at = (self.position, 0);
            return After::Again;
        }
        self.phase = Phase::Running { awaited: gos.len() };
        After::Go(gos)
    }

    // ---- combining

    fn combine(&mut self, space: &mut Keyspace, around: &Surroundings<'_>) -> After {
        // Once: a first command of several stages comes by here again.
        if self.is_multi && self.reply.is_empty() {
            reply::array(&mut self.reply, self.commands.len());
        }
        let mut items_left = ITEMS_PER_STEP;
        while self.at.0 < self.stage_end {
            if items_left == 0 {
                return After::Again;
            }
            items_left -= 1;
            let planned = &mut self.commands[self.at.0];
            if let Plan::Relay(step) = planned.plan {
                match planned.relay_step(step, space, self.proto, &mut self.reply) {
                    Relayed::Next => return self.begin_stage(),
                    Relayed::Again => return After::Again,
                    Relayed::Done => {}
                }
            }
            let is_whole = self.combine_command(space, around, &mut items_left);
            if is_whole {
                self.at = (self.at.0 + 1, 0);
            }
        }
        self.position = self.stage_end;
        if self.position < self.commands.len() {
            return self.begin_stage();
        }
        let reply = std::mem::take(&mut self.reply);
        After::Reply(reply, self.release_all())
    }

    /// Tells the parts that still hold locks to give them back.
    fn release_all(&mut self) -> Vec<(usize, Go)> {
        let gos: Vec<(usize, Go)> = (0..self.lanes.len())
            .filter(|&index| self.lanes[index].is_live)
            .map(|index| (index, Go { jobs: Vec::new(), releases: true }))
            .collect();
        self.phase = Phase::Ending { awaited: gos.len() };
        gos
    }

    /// Writes the reply of one command, or as much of it as `items_left` allows; true when it is whole.
    fn combine_command(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        items_left: &mut usize,
    ) -> bool {
        let planned = &mut self.commands[self.at.0];
        let reply = &mut self.reply;
        match planned.plan {
            Plan::Relay(_) => {}
            Plan::Here => {
                let args = Args::Owned(&planned.request);
                let call = Call {
                    command: planned.command,
                    args,
                    db: planned.db,
                    proto: self.proto,
                    route: None,
                    port: self.port,
                };
                let around = connection::Around {
                    settings: around.settings,
                    map: around.map,
                    lane: around.lane,
                    now: space.now,
                    local: self.local,
                };
                connection::run_queued(&call, &around, reply);
            }
            Plan::Whole(_) if planned.command.id == Id::Watch => reply.put(OK),
            Plan::Whole(_) => {
                let Some((_, Outcome::Reply(content))) = planned.outcomes.pop() else {
                    unreachable!("a lane answers what it was asked")
                };
                reply.append(content);
            }
            Plan::Scatter(combine) => {
                let is_in_key_order = combine == Combine::InKeyOrder;
                if self.at.1 == 0
                    && let Some(error) = planned.take_error()
                {
                    reply.append(error);
                    return true;
                }
                if is_in_key_order {
                    return planned.combine_in_key_order(
                        &mut self.at.1,
                        around.map,
                        &self.lanes,
                        reply,
                        items_left,
                    );
                }
                planned.combine_at_once(combine, reply, space.draw());
            }
        }
        true
    }

    /// Hands what must not be dropped in one go to the lane's paced freeing.
    pub(crate) fn discard(self, space: &mut Keyspace) {
        for planned in self.commands {
            space.discard(planned.request);
            for share in planned.shares {
                space.discard(share.request);
            }
        }
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
            comparison: None,
        }
    }

    /// Gives the lane at `lane` the key at `key_index`, with what belongs to it.
    fn share(&mut self, lane: usize, key_index: usize, step: usize, probes: bool) {
        let name = Arg::Flat(self.command.name.as_bytes());
        let at = match self.shares.iter().position(|share| share.lane == lane) {
            Some(at) => at,
            None => {
                let mut request = Request::default();
                request.push(name);
                let probe = probes.then(|| {
                    let mut probe = Request::default();
                    probe.push(Arg::Flat(b"exists"));
                    probe
                });
                self.shares.push(Share { lane, request, probe });
                self.shares.len() - 1
            }
        };
        let share = &mut self.shares[at];
        for index in key_index..key_index + step {
            share.request.push(self.request.get(index));
        }
        if let Some(probe) = &mut share.probe {
            probe.push(self.request.get(key_index));
        }
    }

    /// A lane's error, if one answered with one: the whole command's.
    fn take_error(&mut self) -> Option<Content> {
        let is_error = |outcome: &Outcome| matches!(outcome, Outcome::Reply(content) if content.front().first() == Some(&b'-'));
        let at = self.outcomes.iter().position(|(_, outcome)| is_error(outcome))?;
        match self.outcomes.swap_remove(at) {
            (_, Outcome::Reply(content)) => Some(content),
            _ => unreachable!("just looked"),
        }
    }

    /// `draw` is a random number.
    fn combine_at_once(&mut self, combine: Combine, reply: &mut Content, draw: u64) {
        match combine {
            Combine::AllOk => reply.put(OK),
            Combine::Sum => reply::integer(reply, self.replies().map(|content| header(&content).0).sum()),
            Combine::Concat => {
                let mut count = 0;
                let mut whole = Content::default();
                for mut content in self.replies() {
                    let (number, size) = header(&content);
                    count += number;
                    content.skip(size);
                    whole.append(content);
                }
                reply::array(reply, usize::try_from(count).expect("an array's count"));
                reply.append(whole);
            }
            Combine::Any => self.combine_by_lot(reply, draw),
            Combine::InKeyOrder | Combine::Coordinator => unreachable!("these take more than one look"),
        }
    }

    /// Takes one of the lanes' answers, in proportion to how many keys each has. Each has said its number of keys and its
    /// answer, in this order.
    fn combine_by_lot(&mut self, reply: &mut Content, draw: u64) {
        let mut lots: Vec<(usize, u64, Option<Content>)> = Vec::new();
        for (lane, outcome) in std::mem::take(&mut self.outcomes) {
            let Outcome::Reply(content) = outcome else { unreachable!("lanes answer with replies") };
            match lots.iter_mut().find(|(other, ..)| *other == lane) {
                None => lots.push((lane, u64::try_from(header(&content).0).unwrap_or(0), None)),
                Some((_, _, answer)) => *answer = Some(content),
            }
        }
        let is_null = |answer: &Option<Content>| answer.as_ref().is_none_or(|content| header(content).0 < 0);
        let total: u64 = lots.iter().filter(|(.., answer)| !is_null(answer)).map(|(_, count, _)| count).sum();
        let mut left = draw.checked_rem(total).unwrap_or(0);
        let mut null = Content::default();
        for (_, count, answer) in lots {
            if is_null(&answer) {
                null = answer.unwrap_or_default();
            } else if left < count {
                return reply.append(answer.unwrap_or_default());
            } else {
                left -= count;
            }
        }
        reply.append(null);
    }

    fn replies(&mut self) -> impl Iterator<Item = Content> {
        self.outcomes.drain(..).filter_map(|(_, outcome)| match outcome {
            Outcome::Reply(content) => Some(content),
            Outcome::Fetched(_) | Outcome::Placed(_) => None,
        })
    }

    /// Takes the elements of the lanes' arrays in the order of the keys. `at` counts keys.
    fn combine_in_key_order(
        &mut self,
        at: &mut usize,
        map: &PartitionMap,
        lanes: &[LanePart],
        reply: &mut Content,
        items_left: &mut usize,
    ) -> bool {
        let count = self.request.len() - 1;
        if *items_left == 0 {
            return false;
        }
        if *at == 0 {
            reply::array(reply, count);
            for (_, outcome) in &mut self.outcomes {
                let Outcome::Reply(content) = outcome else { unreachable!("lanes answer with arrays") };
                let (_, size) = header(content);
                content.skip(size);
            }
        }
        while *at < count {
            if *items_left == 0 {
                return false;
            }
            *items_left -= 1;
            *at += 1;
            let owner = map.owner_of(self.request.get(*at).flat().unwrap_or_default()).0;
            let of_owner = |(lane, _): &&mut (usize, Outcome)| lanes[*lane].lane == owner;
            let Some((_, Outcome::Reply(content))) = self.outcomes.iter_mut().find(of_owner) else {
                unreachable!("each key's lane has answered")
            };
            let (size, header_size) = header(content);
            let element = match usize::try_from(size) {
                Ok(size) => header_size + size + 2,
                Err(_) => header_size,
            };
            content.move_front(element, reply);
        }
        true
    }
}

/// The number in a reply's first line, and the line's length: `:12\r\n`, `*3\r\n`, `$5\r\n`. RESP3's null, `_\r\n`, reads
/// as -1.
fn header(content: &Content) -> (i64, usize) {
    let front = content.front();
    let end = front.iter().position(|&byte| byte == b'\r').expect("a reply begins with a whole line");
    let number = if end == 1 { -1 } else { wire::number::parse_i64(&front[1..end]).expect("a number") };
    (number, end + 2)
}

/// The arguments that may be keys, first to past the last, of a command with `count` arguments.
pub(crate) fn key_range(command: &Command, count: usize) -> std::ops::Range<usize> {
    let first = usize::from(command.keys.first);
    if first == 0 {
        return 0..0;
    }
    let last = match usize::try_from(command.keys.last) {
        Ok(last) => last,
        Err(_) => (count + 1).saturating_sub(1 + usize::from(command.keys.last.unsigned_abs())),
    };
    let step = usize::from(command.keys.step.max(1));
    // A pair that lacks its value is no pair: the command says so itself.
    let whole = if last < first { 0 } else { (last - first) / step + 1 };
    let fits = count.saturating_sub(first) / step;
    first..first + whole.min(fits.max(usize::from(step == 1))) * step
}
