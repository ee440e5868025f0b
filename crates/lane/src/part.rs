//! A part: what one command or transaction does on this lane when it can't be over in one step. It enters its locks,
//! waits for them, runs its jobs in slices, and gives the locks back, a bounded piece at a time.

use std::collections::VecDeque;

use store::{Budget, Expiry};
use wire::command::{Command, Flag, Id, Work as Cost};
use wire::reply::{self, Proto};

use crate::client::{Client, Port};
use crate::commands::generic::{self, Moved};
use crate::commands::scan;
use crate::commands::text::Text;
use crate::commands::{self, Progress, Step, bitop};
use crate::feed::Whose;
use crate::keyspace::{Call, Keyspace, OOM};
use crate::locks::{Kind, Locks, Refusal};
use crate::replies::{Content, Sink};
use crate::request::Args;
use crate::room::{self, Made};
use crate::slab::Handle;
use crate::timing::Extent;
use crate::tracking::By;
use crate::transaction::{Go, Grant};
use crate::watch::WatcherId;

mod job;
mod names;

use job::Found;
pub(crate) use job::{Job, Outcome, Work};
pub(crate) use names::{NAMES_PER_STEP, Names};

/// Slices of looking for something to evict, in which only keys were seen that others have locked, before a command is
/// refused: a few thousand keys.
const VAIN_SLICES_MAX: u32 = 16;

/// Who hears how it went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Origin {
    /// A client of this lane whose command had to wait.
    Client { client: Handle<Client>, slot: u32 },
    /// Another lane's ask.
    Ask { lane: u16, client: u64, slot: u32, charge: u16 },
    /// A transaction, of this lane or another.
    Transaction { lane: u16, transaction: u64 },
    /// An order of the control thread, which waits for the report.
    Control { ticket: u64, charge: u16 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its names are still to be entered.
    Entering,
    /// In line.
    Waiting,
    /// Has its locks; waits to be told what to do, or does it.
    Granted,
    /// Gives its locks back.
    Releasing,
}

/// See the top of this file.
pub(crate) struct Part {
    pub(crate) origin: Origin,
    port: Port,
    proto: Proto,
    kind: Kind,
    /// The transaction's number, for a numbered part.
    number: u64,
    names: Names,
    state: State,
    /// Whether to run the jobs as soon as the locks are there, without asking back.
    goes: bool,
    /// Whether to give the locks back after the jobs.
    releases: bool,
    /// It does its jobs before its transaction has all locks, and may have to do them again.
    looks: bool,
    /// Jobs that it may have to do again.
    looked: Vec<Job>,
    /// The keys that those found and did not find, which count, and are said, once it is known that they stand.
    found: Found,
    /// It came to nothing before it was told what to do.
    is_withdrawn: bool,
    /// Lanes that tell replicas what its transaction changes; 0 if this one is none of them.
    told_count: usize,
    /// The stage of its transaction to which its jobs belong.
    stage: u32,
    watcher: Option<WatcherId>,
    /// On behalf of whom it runs, if that is a client that tracks keys.
    by: Option<By>,
    /// The command at hand is over, and what it has read is being remembered.
    is_remembering: bool,
    /// Bytes for which room has to be made first; `None`: there is enough, or it adds nothing.
    growth: Option<u64>,
    /// That is what its next job adds, a script's call; the transaction goes on without it.
    grows_by_call: bool,
    /// It is carried out even if there is no room.
    may_exceed: bool,
    /// Slices in which nothing could be evicted for it.
    vain_slices: u32,
    /// When it gives up to wait for a larger lease.
    lease_until_ns: Option<u64>,
    /// Bytes that are kept free for it.
    reserved: u64,
    /// The same of what it has found free while it makes room: what goes for it is not for those who come meanwhile.
    claimed: u64,
    /// There is no room for what its next job brings, or makes room for.
    lacks_place: bool,
    /// Bytes that it has brought here and that their old lane still holds.
    arriving: u64,
    grant: Grant,
    jobs: VecDeque<Job>,
    progress: Progress,
    /// How far its command came before it had to become a part.
    begun: Progress,
    content: Content,
    outcomes: Vec<(u32, Outcome)>,
}

/// What the lane has to do for a part after a step.
pub(crate) enum After {
    /// Nothing: it waits for a lock or to be told.
    Rest,
    /// Another step when its turn comes round.
    Again,
    /// Tell its origin that it has its locks.
    Granted(Grant),
    /// Tell its origin what came of the jobs.
    Results { outcomes: Vec<(u32, Outcome)>, grant: Grant },
    /// It is over and holds nothing; if it was told to release, these are its results.
    Ended { outcomes: Vec<(u32, Outcome)>, grant: Grant },
}

impl Part {
    /// A part that runs one command of a single client as soon as it has its locks.
    pub(crate) fn of_command(
        origin: Origin,
        port: Port,
        proto: Proto,
        names: Names,
        growth: Option<u64>,
        job: Job,
    ) -> Part {
        Part {
            origin,
            port,
            proto,
            kind: Kind::Local,
            number: 0,
            names,
            state: State::Entering,
            goes: true,
            releases: true,
            looks: false,
            looked: Vec::new(),
            found: Found::default(),
            is_withdrawn: false,
            told_count: 0,
            stage: 0,
            watcher: None,
            by: None,
            is_remembering: false,
            growth,
            grows_by_call: false,
            may_exceed: false,
            vain_slices: 0,
            lease_until_ns: None,
            reserved: 0,
            claimed: 0,
            lacks_place: false,
            arriving: 0,
            grant: Grant::default(),
            jobs: VecDeque::from([job]),
            progress: Progress::default(),
            begun: Progress::default(),
            content: Content::default(),
            outcomes: Vec::new(),
        }
    }

    /// A part of the control thread's: jobs that are done, one behind the other, as soon as the locks are there.
    pub(crate) fn of_order(origin: Origin, names: Names, before: Vec<Job>, last: Job) -> Part {
        let mut part = Part::of_command(origin, Port::Shared, Proto::Resp2, names, None, last);
        before.into_iter().rev().for_each(|job| part.jobs.push_front(job));
        part
    }

    /// The same, whose jobs come to nothing if what this watcher watches has changed.
    pub(crate) fn unless_changed(mut self, watcher: WatcherId) -> Part {
        self.watcher = Some(watcher);
        self
    }

    /// See [`Part::unless_changed`].
    pub(crate) fn watcher(&self) -> Option<WatcherId> {
        self.watcher
    }

    /// The same, for a command whose first step is done: how far it came, and its reply so far.
    pub(crate) fn begun(mut self, progress: Progress, content: Content) -> Part {
        self.begun = progress;
        self.growth = None;
        self.content = content;
        self
    }

    /// The same, on behalf of a client that tracks keys.
    pub(crate) fn on_behalf_of(mut self, by: Option<By>) -> Part {
        self.by = by;
        self
    }

    /// The same, for a command that may change something of Redis' databases.
    pub(crate) fn told(mut self) -> Part {
        self.told_count = 1;
        self
    }

    /// Whether replicas are told what it changes. What goes because somebody looks is no part of anything then.
    pub(crate) fn is_told(&self) -> bool {
        self.told_count > 0
    }

    /// A part of a transaction.
    pub(crate) fn of_transaction(lane: u16, prepare: crate::transaction::Prepare) -> Part {
        Part {
            origin: Origin::Transaction { lane, transaction: prepare.transaction },
            port: prepare.port,
            proto: prepare.proto,
            kind: prepare.kind,
            number: prepare.number,
            names: prepare.names,
            state: State::Entering,
            goes: prepare.goes || prepare.looks,
            releases: prepare.goes,
            looks: prepare.looks,
            looked: Vec::new(),
            found: Found::default(),
            is_withdrawn: false,
            told_count: prepare.told_count,
            stage: prepare.stage,
            watcher: prepare.watcher,
            by: prepare.by,
            is_remembering: false,
            growth: prepare.growth,
            grows_by_call: false,
            may_exceed: false,
            vain_slices: 0,
            lease_until_ns: None,
            reserved: 0,
            claimed: 0,
            lacks_place: false,
            arriving: 0,
            grant: Grant { at_ms: prepare.at_ms, ..Grant::default() },
            jobs: prepare.jobs.into(),
            progress: Progress::default(),
            begun: Progress::default(),
            content: Content::default(),
            outcomes: Vec::new(),
        }
    }

    /// Whether a numbered part would have to wait for somebody it must not wait for. Such a part is not begun.
    pub(crate) fn refusal(&self, locks: &Locks) -> Option<Refusal> {
        if self.kind != Kind::Numbered {
            return None;
        }
        assert!(self.names.is_short(), "a numbered part enters in one step");
        locks.refuses(self.names.first_page(), self.number)
    }

    /// Whether it must wait until nobody else is entering: see `locks`.
    pub(crate) fn enters_slowly(&self) -> bool {
        self.state == State::Entering && !self.names.is_short()
    }

    /// Its locks are there.
    pub(crate) fn grant(&mut self, space: &Keyspace) {
        assert!(self.state == State::Waiting, "locks come to those who wait");
        self.state = State::Granted;
        self.grant.at_ms = self.grant.at_ms.max(space.now.unix_ms);
        if let Some(id) = self.watcher {
            self.grant.end_ms = space.watched_end(id);
            self.grant.is_dirty = space.watches.is_dirty(id) || self.grant.end_ms <= self.grant.at_ms;
        }
    }

    /// Its transaction says what comes next.
    pub(crate) fn go(&mut self, go: Go) {
        assert!(self.state == State::Granted, "a part is told what to do when it has its locks");
        assert!(self.grant.at_ms <= go.at_ms, "nobody sees a time at which the locks were not there");
        let Go { jobs, releases, proto, growth, may_exceed, at_ms, by, stage } = go;
        (self.stage, self.by, self.may_exceed) = (stage, by, may_exceed);
        self.proto = proto;
        self.goes = true;
        self.releases = releases;
        self.looks = false;
        if self.grant.at_ms < at_ms {
            self.found = Found::default();
            self.jobs.extend(self.looked.drain(..));
        }
        self.grant.at_ms = at_ms;
        if let Some(Job { work: Work::Place { command, moved, .. }, .. }) = jobs.first()
            && command.flags.has(Flag::Denyoom)
        {
            // Its size is known now; what planning has made of the arguments is not.
            (self.growth, self.vain_slices) = (Some(moved.size()), 0);
        } else if growth.is_some() {
            (self.growth, self.vain_slices, self.grows_by_call) = (growth, 0, true);
        }
        self.lacks_place = false;
        self.jobs.extend(jobs);
    }

    /// Its transaction comes to nothing before it was told what to do: it gives its locks back.
    pub(crate) fn withdraw(&mut self) {
        assert!(self.state == State::Granted && !self.goes, "who is withdrawn waits to be told");
        // Those of a look that was put off are dropped with those that were done.
        self.looked.extend(self.jobs.drain(..));
        self.state = State::Releasing;
        self.is_withdrawn = true;
        self.found = Found::default();
    }

    /// By which name replicas' records know what a part changes that is no transaction's.
    pub(crate) fn whose_of(part: u64) -> Whose {
        (u16::MAX, part)
    }

    fn whose(&self, holder: u64) -> Whose {
        match self.origin {
            Origin::Transaction { lane, transaction } => (lane, transaction),
            _ => Part::whose_of(holder),
        }
    }

    /// The command that it is about.
    pub(crate) fn subject(&self) -> Option<(&'static Command, Extent)> {
        match &self.jobs.front()?.work {
            Work::Run { command, request, .. }
            | Work::Fetch { command, request, .. }
            | Work::Combine { command, request, .. }
            | Work::Scan { command, request, .. }
            | Work::Place { command, request, .. } => Some((*command, Extent::of(request))),
            Work::Watch { .. } | Work::MakeRoom => None,
        }
    }

    /// The next step. `holder` names it in the lock table; `newest` gives the newest number.
    pub(crate) fn step(
        &mut self,
        holder: u64,
        space: &mut Keyspace,
        locks: &mut Locks,
        newest: impl Fn() -> u64,
        budget: &mut Budget,
    ) -> After {
        match self.state {
            State::Entering => {
                let is_short = self.names.is_short();
                if self.progress.at == 0 {
                    locks.enter(holder);
                    self.progress.at = 1;
                }
                if let Some(page) = self.names.next_page() {
                    locks.add(holder, &page);
                    if !is_short {
                        budget.spend(NAMES_PER_STEP, 0);
                        return After::Again;
                    }
                }
                self.progress = std::mem::take(&mut self.begun);
                self.state = State::Waiting;
                let order = match self.kind {
                    Kind::Numbered => self.number,
                    Kind::Local | Kind::Ordered | Kind::Long => newest(),
                };
                locks.activate(holder, self.kind, order);
                After::Rest
            }
            State::Waiting => After::Rest,
            State::Granted => {
                if !self.has_room(space, locks, budget) {
                    After::Again
                } else if self.goes {
                    let whose = self.whose(holder);
                    if self.is_told() {
                        space.feed_enter(whose, (self.stage, 0));
                    }
                    let before = std::mem::replace(&mut space.by, self.by);
                    let (found, said_count) = (space.tally.looks, space.events.count());
                    let after = self.work_in_its_time(space, locks, whose, budget);
                    space.by = before;
                    space.feed_leave();
                    if self.looks {
                        self.found.looks = std::mem::replace(&mut space.tally.looks, found).since(found);
                        self.found.misses = space.events.take_back(said_count);
                        if matches!(after, After::Again) {
                            return self.look_later(space);
                        }
                    }
                    if self.state == State::Releasing && self.names.len() <= budget.elements as usize {
                        return self.release(holder, space, locks, budget);
                    }
                    after
                } else {
                    After::Granted(self.grant)
                }
            }
            State::Releasing => self.release(holder, space, locks, budget),
        }
    }

    /// Its look takes more than a slice: it waits until all locks are there, as whoever changes something does, and begins anew then. Else
    /// much might be copied in vain, and locks held meanwhile.
    fn look_later(&mut self, space: &mut Keyspace) -> After {
        (self.looks, self.goes, self.is_remembering) = (false, false, false);
        (self.progress, self.found) = (Progress::default(), Found::default());
        space.discard_content(std::mem::take(&mut self.content));
        self.outcomes.drain(..).for_each(|(_, outcome)| outcome.discard(space));
        self.looked.drain(..).rev().for_each(|job| self.jobs.push_front(job));
        After::Granted(self.grant)
    }

    /// Gives some of its locks back.
    fn release(
        &mut self,
        holder: u64,
        space: &mut Keyspace,
        locks: &mut Locks,
        budget: &mut Budget,
    ) -> After {
        self.looked.drain(..).for_each(|job| job.work.discard(space));
        let Found { looks, misses } = std::mem::take(&mut self.found);
        space.tally.looks.add(looks);
        space.events.say_again(misses);
        space.release(std::mem::take(&mut self.reserved) + std::mem::take(&mut self.claimed));
        space.end_arrival(std::mem::take(&mut self.arriving));
        budget.spend(self.names.len().min(NAMES_PER_STEP), 0);
        if locks.release(holder, NAMES_PER_STEP) {
            if self.is_told() {
                // Of what begins anew there is at most that keys' time had come.
                let told_count = if self.is_withdrawn { 1 } else { self.told_count };
                space.feed_end(self.whose(holder), told_count);
            } else if matches!(self.origin, Origin::Transaction { .. }) {
                space.feed_end_batch();
            }
            let outcomes = std::mem::take(&mut self.outcomes);
            After::Ended { outcomes, grant: self.grant }
        } else {
            After::Again
        }
    }

    /// Makes room for what it may add, a slice at a time; false while there is more to do. Without room nothing runs, or,
    /// for a value that comes from elsewhere, that is not stored.
    fn has_room(&mut self, space: &mut Keyspace, locks: &Locks, budget: &mut Budget) -> bool {
        let Some(size) = self.growth.filter(|_| !self.grant.is_dirty) else { return true };
        // Several jobs that may add are Redis', in one of its databases or in several.
        let db = self.jobs.front().map_or(0, |job| job.db);
        space.release(std::mem::take(&mut self.claimed));
        let mut made = space.make_room(locks, db, size, budget);
        if made == Made::Held && self.vain_slices == VAIN_SLICES_MAX {
            made = space.room_beside_held(size);
        }
        match made {
            Made::More => {
                self.claimed = space.claim(size);
                return false;
            }
            Made::Short(lease) if space.wait_for_lease(lease, &mut self.lease_until_ns) => {
                self.claimed = space.claim(size);
                // Nothing comes before the next turn.
                budget.spend(budget.elements as usize, 0);
                return false;
            }
            // Who holds them may wait for this one.
            Made::Held => {
                self.claimed = space.claim(size);
                self.vain_slices += 1;
                return false;
            }
            made => {
                if made != Made::Enough {
                    space.want_nothing();
                }
                if made == Made::Enough || self.may_exceed {
                    if self.grows_by_call {
                        // What the last one has added is there.
                        space.release(std::mem::take(&mut self.reserved));
                    }
                    self.reserved += size;
                    space.reserve(size);
                } else {
                    match self.jobs.front() {
                        Some(Job { work: Work::Place { .. }, .. }) => self.lacks_place = true,
                        Some(_) if self.grows_by_call => self.lacks_place = true,
                        _ => self.grant.lacks_room = true,
                    }
                }
            }
        }
        space.end_wait_for_lease(&mut self.lease_until_ns);
        self.growth = None;
        true
    }

    /// A job that comes to nothing; a single command is told why.
    fn refuse(&mut self, job: Job, space: &mut Keyspace) {
        // Transactions and the control thread learn it from the grant.
        let is_told = matches!(self.origin, Origin::Transaction { .. } | Origin::Control { .. });
        if let (Work::Run { command, request, route, .. }, false) = (&job.work, is_told) {
            let mut content = Content::default();
            let args = Args::Owned(request);
            let call =
                Call { command, args, db: job.db, proto: self.proto, route: route.as_ref(), port: self.port };
            room::refuse(&call, &mut Sink::Part(&mut content));
            space.tally.failed(command.id, content.take_errors());
            self.outcomes.push((job.command, Outcome::Reply(content)));
        }
        job.work.discard(space);
    }

    /// As [`Part::work`], however long that takes, at the time at which the locks were there: a key whose time comes meanwhile is there
    /// to the end. The lane leaves it, too, as long as it is locked. Who locks nothing sees the lane's own time.
    fn work_in_its_time(
        &mut self,
        space: &mut Keyspace,
        locks: &Locks,
        whose: Whose,
        budget: &mut Budget,
    ) -> After {
        let now_ms = space.now.unix_ms;
        if self.names.len() > 0 {
            space.now.unix_ms = self.grant.at_ms;
        }
        let after = self.work(space, locks, whose, budget);
        space.now.unix_ms = now_ms;
        after
    }

    /// Runs jobs until the budget or the jobs are spent.
    fn work(&mut self, space: &mut Keyspace, locks: &Locks, whose: Whose, budget: &mut Budget) -> After {
        let at_ms = space.now.unix_ms;
        while let Some(job) = self.jobs.front_mut() {
            if budget.is_spent() {
                return After::Again;
            }
            if self.grant.is_vain() {
                budget.spend(1, 0);
                let job = self.jobs.pop_front().expect("just looked at");
                self.refuse(job, space);
                continue;
            }
            if space.follows {
                let time_of = |command| space.time_of(command, job.db, at_ms);
                space.now.unix_ms = job.work.command().map_or(at_ms, time_of);
            }
            space.feed_moves_to((self.stage, job.command));
            if let Some((acting, is_step)) = job.work.acting() {
                space.events.begin(acting, is_step);
            }
            let outcome = match &mut job.work {
                Work::Run { .. } if self.lacks_place => {
                    self.lacks_place = false;
                    let mut content = Content::default();
                    reply::error(&mut content, OOM);
                    Outcome::Reply(content)
                }
                Work::Run { command, request, .. } if self.is_remembering => {
                    let of = (*command, Args::Owned(request), job.db);
                    if !space.remember_keys(self.by, of, &mut self.progress.at, budget) {
                        return After::Again;
                    }
                    self.is_remembering = false;
                    self.progress = Progress::default();
                    Outcome::Reply(std::mem::take(&mut self.content))
                }
                Work::Run { command, request, route, within } => {
                    let looks = space.tally.looks;
                    let args = Args::Owned(request);
                    let call = Call {
                        command,
                        args,
                        db: job.db,
                        proto: self.proto,
                        route: route.as_ref(),
                        port: self.port,
                    };
                    let mut sink = Sink::Part(&mut self.content);
                    let step = if command.id == Id::Sync {
                        space.begin_sync(&call, whose, &mut sink);
                        Step::Done
                    } else {
                        commands::run(space, &call, &mut self.progress, &mut sink, budget)
                    };
                    if within.is_some() {
                        space.tally.looks = looks;
                    }
                    if step == Step::More {
                        assert!(
                            command.work != Cost::Constant,
                            "a command of constant cost ends in one step"
                        );
                        return After::Again;
                    }
                    self.progress = Progress::default();
                    // A transaction counts the errors of its parts itself: several lanes may have the same one.
                    if self.content.has_erred() && !matches!(self.origin, Origin::Transaction { .. }) {
                        space.tally.failed(command.id, self.content.take_errors());
                    }
                    if self.by.is_some() && within.is_none() {
                        self.is_remembering = true;
                        continue;
                    }
                    Outcome::Reply(std::mem::take(&mut self.content))
                }
                Work::Fetch { command, request, index } => {
                    let args = Args::Owned(request);
                    let call =
                        Call { command, args, db: job.db, proto: self.proto, route: None, port: self.port };
                    let fetched = generic::fetch(space, &call, *index);
                    if let Some(by) = self.by
                        && command.flags.has(Flag::Readonly)
                    {
                        space.remember(by, job.db, call.args.flat(*index));
                    }
                    Outcome::Fetched(fetched)
                }
                Work::Combine { command, request, first } => {
                    let args = Args::Owned(request);
                    let call =
                        Call { command, args, db: job.db, proto: self.proto, route: None, port: self.port };
                    let Some(rope) = bitop::combine(space, &call, *first, &mut self.progress, budget) else {
                        return After::Again;
                    };
                    self.progress = Progress::default();
                    let value = Text::Rope(rope);
                    Outcome::Fetched(Some(Moved { value, expiry: Expiry::None, used: None }))
                }
                Work::Scan { command, request, goal } => {
                    let args = Args::Owned(request);
                    let call =
                        Call { command, args, db: job.db, proto: self.proto, route: None, port: self.port };
                    let Some(scanned) = scan::scan_share(space, &call, *goal, &mut self.progress, budget)
                    else {
                        return After::Again;
                    };
                    self.progress = Progress::default();
                    Outcome::Scanned(scanned)
                }
                Work::Place { command, request, index, moved } => {
                    let args = Args::Owned(request);
                    let call =
                        Call { command, args, db: job.db, proto: self.proto, route: None, port: self.port };
                    let has_place = !std::mem::take(&mut self.lacks_place);
                    let is_placed = has_place && {
                        let size = moved.size();
                        if command.flags.has(Flag::Denyoom) {
                            self.reserved -= size;
                            space.release(size);
                        } else {
                            self.arriving += size;
                            space.expect_arrival(size);
                        }
                        generic::place(space, &call, *index, moved)
                    };
                    if is_placed && matches!(command.id, Id::Rename | Id::Renamenx) {
                        // What counts is that the source goes.
                        space.shard.count_changes(-1);
                    }
                    Outcome::Placed(is_placed)
                }
                Work::Watch { id, request } => {
                    let first = 1 + usize::try_from(self.progress.at).expect("an index");
                    for index in first..request.len() {
                        if budget.is_spent() {
                            return After::Again;
                        }
                        let bytes = Args::Owned(request).flat(index);
                        budget.spend(1, bytes.len());
                        space.watch(*id, job.db, bytes, locks);
                        self.progress.at += 1;
                    }
                    self.progress = Progress::default();
                    Outcome::Reply(Content::default())
                }
                Work::MakeRoom => Outcome::Room(!std::mem::take(&mut self.lacks_place)),
            };
            // Afterwards, so that a command's first step has work to spend.
            budget.spend(1, 0);
            let job = self.jobs.pop_front().expect("the job that just ran");
            self.outcomes.push((job.command, outcome));
            if self.looks {
                self.looked.push(job);
            } else {
                job.work.discard(space);
            }
        }
        self.goes = false;
        if self.releases {
            self.state = State::Releasing;
            return After::Again;
        }
        After::Results { outcomes: std::mem::take(&mut self.outcomes), grant: self.grant }
    }
}
