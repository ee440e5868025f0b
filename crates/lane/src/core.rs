//! Everything of a lane but its clients: the data, the locks, parts and transactions under way, the other lanes.
//! Clients come in through `dispatch`, other lanes through `hear_*`, and [`Core::work`] moves on what takes several
//! steps. What is due to a client leaves as a [`Delivery`].

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use ring::Senders;
use store::Budget;
use wire::command::{Command, Work as Cost};
use wire::reply::Proto;
use wire::route::{PartitionMap, Slot};

use crate::admin::{Order, Pause};
use crate::board::Board;
use crate::client::{Client, Port};
use crate::commands::{self, Progress, Step};
use crate::couchbase::Maps;
use crate::keyspace::{Call, Keyspace, Route};
use crate::locks::{LockName, Locks, Mode};
use crate::monitor::Monitoring;
use crate::part::{After as PartAfter, Job, NAMES_PER_STEP, Names, Origin, Outcome, Part, Work};
use crate::pause::Held;
use crate::peers::{AnswerHead, AnswerKind, AskKind, ControlHead, ControlKind, Peer};
use crate::pubsub::PubSub;
use crate::replies::{Content, Sink};
use crate::request::{Args, Request};
use crate::room::{self, Made, growth};
use crate::slab::{Handle, Slab};
use crate::stats::Stats;
use crate::timing::{StretchKind, Timing};
use crate::tracking::{By, Trackers};
use crate::transaction::{Go, PartAnswer, Prepare, Results, Transaction, key_range};
use crate::turn::Meter;
use crate::watch::WatcherId;
use crate::{SLICE, Settings};

mod coordinator;
mod hear;
mod questions;

pub(crate) use hear::{Reply, Told};

/// A reply that is ready for a client of this lane.
pub(crate) struct Delivery {
    pub(crate) client: Handle<Client>,
    pub(crate) slot: u32,
    pub(crate) content: Content,
    /// The database that a transaction's SELECT has left.
    pub(crate) db: Option<u16>,
    /// What a WATCH has begun to watch, and where. A client that has gone meanwhile cannot end it.
    pub(crate) watching: Option<(WatcherId, Vec<u16>)>,
    /// What commands of a MULTI have made of the client.
    pub(crate) stand_in: Option<Box<Client>>,
}

enum Runnable {
    Part(Handle<Part>),
    Transaction(Handle<Transaction>),
}

/// Steps of parts and transactions in a turn.
const SLICES_PER_TURN: usize = 16;
/// What they may cost together: four of those that spend their elements, which cost more than bytes do.
const WORK_PER_TURN: Budget = Budget::new(4 * SLICE.elements, 16 * SLICE.bytes);
/// What transactions may do in a turn, beside that, at once when they come: see [`Core::begin_transaction`].
const AT_ONCE_PER_TURN: Budget = Budget::new(2 * SLICE.elements, 4 * SLICE.bytes);

/// An order of the control thread that is not carried out yet.
pub(crate) struct Ordered {
    pub(crate) ticket: u64,
    pub(crate) charge: u16,
    pub(crate) order: Order,
}

/// A client of another lane, as its asks name it.
type Asker = (u16, u64);

/// What became of a command that was tried.
pub(crate) enum Ran {
    /// It is over.
    Done,
    /// It goes on from here.
    Begun(Progress),
    /// It has to wait for its locks, or until there is room.
    Waits,
}

/// A command that is not over in this step: it waits, or it has more to do. All its keys are on this lane.
pub(crate) struct Pending {
    pub(crate) origin: Origin,
    pub(crate) port: Port,
    pub(crate) proto: Proto,
    pub(crate) db: u16,
    pub(crate) command: &'static Command,
    pub(crate) request: Request,
    pub(crate) route: Option<Route>,
    /// On behalf of whom it runs, if that is a client that tracks keys.
    pub(crate) by: Option<By>,
}

/// See the top of this file.
pub(crate) struct Core {
    pub(crate) id: u16,
    pub(crate) lane_count: u16,
    pub(crate) settings: Settings,
    /// What they say of [`Settings::output_noticed_size`].
    pub(crate) output_noticed_size: usize,
    pub(crate) map: Arc<PartitionMap>,
    pub(crate) board: Arc<Board>,
    pub(crate) space: Keyspace,
    pub(crate) locks: Locks,
    pub(crate) peers: Vec<Option<Peer>>,
    /// Those of them that may have been sent something in this turn.
    pub(crate) addressed: Senders,
    pub(crate) stats: Stats,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) parts: Slab<Part>,
    pub(crate) transactions: Slab<Transaction>,
    runnable: VecDeque<Runnable>,
    /// What is left of [`AT_ONCE_PER_TURN`].
    at_once_left: Budget,
    /// Transactions that wait for credit, with the lanes that they are about to ask.
    starved: VecDeque<(Handle<Transaction>, Range<usize>)>,
    /// Transactions that wait for credit to ask the control thread.
    pub(crate) questioners: VecDeque<Handle<Transaction>>,
    /// Parts with many names; the front one is entering them.
    entering: VecDeque<Handle<Part>>,
    /// What parts of this lane say to transactions of this lane.
    heard: VecDeque<(Handle<Transaction>, PartAnswer)>,
    /// Clients of other lanes of which an ask is under way here, with those that wait behind it: effects keep order per
    /// lane.
    lines: BTreeMap<Asker, VecDeque<Pending>>,
    /// What could not be told for want of room.
    pub(crate) untold: VecDeque<(u16, ControlHead)>,
    /// Orders of the control thread, carried out one after the other.
    pub(crate) orders: VecDeque<Ordered>,
    /// Each client's next command is looked at before it runs: see `oversight`.
    pub(crate) is_overseen: bool,
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub(crate) expires_actively: bool,
    pub(crate) monitoring: Monitoring,
    pub(crate) pubsub: PubSub,
    pub(crate) tracking: Trackers,
    /// How the command at hand is asked for of another lane, and what that is to know of its client, which may track keys.
    pub(crate) asks_as: (AskKind, u8),
    /// What the clients hold, apart from what the net keeps for them.
    pub(crate) clients_size: u64,
    /// Clients that have not said the password, in the order in which they came, and since when. Those that have said it
    /// or have gone stay until it would be their turn. One that became a stranger again meanwhile goes to the end then.
    pub(crate) strangers: VecDeque<(Handle<Client>, u64)>,
    /// The control thread has been told that the table of queues lacks one, and has sent no other since.
    pub(crate) asks_for_queues: bool,
    /// CLIENT PAUSE, and the clients whose next command it holds back.
    pub(crate) pause: Option<Pause>,
    /// The server is about to end: what would write is held back.
    pub(crate) holds_writes: bool,
    pub(crate) held: Held,
    /// How long commands took, and turns.
    pub(crate) timing: Timing,
    /// The map of partitions for clients of Couchbase.
    pub(crate) maps: Maps,
    reply: Vec<u8>,
}

impl Core {
    pub(crate) fn new(
        id: u16,
        settings: Settings,
        map: Arc<PartitionMap>,
        board: Arc<Board>,
        space: Keyspace,
        peers: Vec<Option<Peer>>,
    ) -> Core {
        let timing = Timing::new(&settings);
        Core {
            id,
            lane_count: map.lanes(),
            expires_actively: true,
            is_overseen: settings.wants_oversight(),
            output_noticed_size: settings.output_noticed_size(),
            settings,
            map,
            board,
            space,
            locks: Locks::default(),
            peers,
            addressed: Senders::default(),
            stats: Stats::default(),
            deliveries: Vec::new(),
            scratch: Vec::new(),
            parts: Slab::default(),
            transactions: Slab::default(),
            runnable: VecDeque::new(),
            at_once_left: AT_ONCE_PER_TURN,
            starved: VecDeque::new(),
            questioners: VecDeque::new(),
            entering: VecDeque::new(),
            heard: VecDeque::new(),
            lines: BTreeMap::new(),
            untold: VecDeque::new(),
            orders: VecDeque::new(),
            monitoring: Monitoring::default(),
            pubsub: PubSub::default(),
            tracking: Trackers::default(),
            asks_as: (AskKind::Inline, 0),
            clients_size: 0,
            strangers: VecDeque::new(),
            asks_for_queues: false,
            pause: None,
            holds_writes: false,
            held: Held::default(),
            timing,
            maps: Maps::default(),
            reply: Vec::new(),
        }
    }

    /// Whether a slot is this lane's.
    #[inline]
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.space.slots.contains(slot)
    }

    /// Whether something waits for its next step.
    pub(crate) fn has_work(&self) -> bool {
        !self.runnable.is_empty()
            || !self.heard.is_empty()
            || !self.untold.is_empty()
            || !self.orders.is_empty()
            || self.held.are_released()
            || self.pubsub.has_work()
            || self.space.events.are_ready()
            || self.tracks()
    }

    /// Whether something is to be done for clients that track keys.
    #[inline]
    pub(crate) fn tracks(&self) -> bool {
        self.tracking.has_work() || self.space.tracked.has_work()
    }

    /// Nothing is under way: no part, no transaction, no lock.
    pub(crate) fn is_idle(&self) -> bool {
        self.parts.is_empty()
            && self.transactions.is_empty()
            && self.locks.is_empty()
            && self.lines.is_empty()
            && self.pubsub.is_idle()
    }

    /// Whether other lanes have answered all that they were asked here.
    pub(crate) fn is_answered(&self) -> bool {
        self.peers.iter().take(usize::from(self.lane_count)).flatten().all(Peer::is_even)
    }

    /// See [`crate::Lane::audit`].
    pub(crate) fn audit(&self) {
        assert!(self.starved.is_empty() && self.questioners.is_empty(), "nothing waits for credit");
        assert!(self.entering.is_empty(), "nothing waits to get in line");
        assert!(self.deliveries.is_empty() && self.untold.is_empty(), "everything was delivered and told");
        assert!(self.space.watches.is_empty(), "nobody watches who has gone");
        self.pubsub.audit();
        assert!(self.tracking.count() == 0, "nobody tracks keys who has gone");
        for peer in self.peers.iter().flatten() {
            peer.audit();
        }
        assert!(self.space.room.reserved == 0, "what is over needs no room");
        assert!(self.space.room.arriving == 0, "what has come is here");
        assert!(self.space.room.waiter_count == 0, "nobody waits for room");
        self.space.shard.audit();
    }

    /// Another lane, or the control thread, to be sent something.
    pub(crate) fn peer(&mut self, lane: u16) -> &mut Peer {
        self.addressed.insert(usize::from(lane));
        self.peers[usize::from(lane)].as_mut().expect("a lane has a peer for every other")
    }

    // ---- running commands

    /// Whether a command whose keys are all here can begin at once: its locks, should it need them, are entered in one
    /// step, and nobody holds its keys.
    #[inline]
    pub(crate) fn can_run(&self, call: &Call<'_>) -> bool {
        let is_short = call.command.work == Cost::Constant || call.args.len() <= NAMES_PER_STEP;
        is_short && (self.locks.is_empty() || !self.is_locked(call))
    }

    fn is_locked(&self, call: &Call<'_>) -> bool {
        let mode = mode_of(call.command);
        let step = usize::from(call.command.keys.step.max(1));
        key_range(call.command, call.args.len()).step_by(step).any(|index| {
            let is_held = |name: LockName| self.locks.conflicts(name, mode);
            commands::lock_names(&self.space, call, index).any(is_held)
        })
    }

    /// Runs the first step of a command that [`Core::can_run`] has allowed. If that is not the end, its progress comes
    /// back, and it goes on as a part in the same turn: nobody holds its keys, so that it has its locks before anybody
    /// else can look at what it has done so far. Within both its callers, for clients' commands and for other lanes' asks.
    #[inline(always)]
    pub(crate) fn run(&mut self, call: &Call<'_>, sink: &mut Sink<'_>) -> Ran {
        match self.space.room_for(call.command, &call.args, call.db, &self.locks) {
            Made::Enough => {}
            Made::More | Made::Held | Made::Short(_) => return Ran::Waits,
            Made::Nothing => {
                room::refuse(call, sink);
                return Ran::Done;
            }
        }
        if self.space.is_accompanied {
            return self.run_accompanied(call, sink);
        }
        let mut progress = Progress::default();
        let step = commands::run(&mut self.space, call, &mut progress, sink, &mut SLICE.clone());
        ran(call, step, progress)
    }

    /// The same where something goes with each command.
    #[inline(never)]
    fn run_accompanied(&mut self, call: &Call<'_>, sink: &mut Sink<'_>) -> Ran {
        let space = &mut self.space;
        if space.feed.is_some() {
            space.feed_begins_command();
        }
        space.events.begin(call.command.id, false);
        let now_ms = space.now.unix_ms;
        space.now.unix_ms = space.time_of(call.command, call.db, now_ms);
        let mut progress = Progress::default();
        let step = commands::run(space, call, &mut progress, sink, &mut SLICE.clone());
        space.now.unix_ms = now_ms;
        ran(call, step, progress)
    }

    /// Begins a command that has to wait for its keys or for others.
    pub(crate) fn begin_part(&mut self, pending: Pending) {
        self.stats.lock_waits += 1;
        let part = self.pending_part(pending);
        self.admit(part);
    }

    /// Goes on with a command whose first step was not the last. `content` is the reply so far, as far as it is not on
    /// its way to the client.
    pub(crate) fn go_on(&mut self, pending: Pending, progress: Progress, content: Content) {
        let part = self.pending_part(pending).begun(progress, content);
        let is_told = part.is_told();
        let handle = self.parts.insert(part);
        if is_told {
            self.space.feed_carry(Part::whose_of(handle.to_bits()));
        }
        self.admit_at(handle);
    }

    fn pending_part(&mut self, pending: Pending) -> Part {
        let Pending { origin, port, proto, db, command, request, route, by } = pending;
        let mut names = Names::default();
        let mode = mode_of(command);
        let args = Args::Owned(&request);
        let call = Call { command, args, db, proto, route: route.as_ref(), port };
        let step = usize::from(command.keys.step.max(1));
        for index in key_range(command, args.len()).step_by(step) {
            for name in commands::lock_names(&self.space, &call, index) {
                names.push(name, mode);
            }
        }
        let growth = growth(command, &args);
        let job = Job { command: 0, db, work: Work::Run { command, request, route, within: None } };
        let part = Part::of_command(origin, port, proto, names, growth, job).on_behalf_of(by);
        if command.writes() && db < self.space.database_count { part.told() } else { part }
    }

    pub(crate) fn admit(&mut self, part: Part) {
        let handle = self.parts.insert(part);
        self.admit_at(handle);
    }

    fn admit_at(&mut self, handle: Handle<Part>) {
        if self.parts.get(handle).is_some_and(Part::enters_slowly) {
            self.entering.push_back(handle);
            if self.entering.len() == 1 {
                self.runnable.push_back(Runnable::Part(handle));
            }
        } else {
            self.step_part(handle, &mut SLICE.clone());
        }
    }

    fn step_part(&mut self, handle: Handle<Part>, budget: &mut Budget) {
        let Some(part) = self.parts.get_mut(handle) else { return };
        let was_slow = part.enters_slowly();
        let board = &self.board;
        let after =
            part.step(handle.to_bits(), &mut self.space, &mut self.locks, || board.newest_number(), budget);
        let origin = part.origin;
        if was_slow && after_is_in_line(&after) {
            self.entering.pop_front();
            if let Some(&next) = self.entering.front() {
                self.runnable.push_back(Runnable::Part(next));
            }
        }
        match after {
            PartAfter::Rest => {}
            PartAfter::Again => self.runnable.push_back(Runnable::Part(handle)),
            PartAfter::Granted(grant) => {
                self.tell_transaction(origin, PartAnswer::Granted { part: handle.to_bits(), grant });
            }
            PartAfter::Results { outcomes, grant } => {
                let results = Results { part: handle.to_bits(), outcomes, grant, ended: false };
                self.tell_transaction(origin, PartAnswer::Results(results));
            }
            PartAfter::Ended { outcomes, grant } => {
                let watcher = self.parts.get(handle).and_then(Part::watcher);
                self.parts.discard(handle);
                match origin {
                    Origin::Control { ticket, charge } => {
                        self.report_departure((ticket, charge), watcher, outcomes, grant);
                    }
                    Origin::Transaction { .. } => {
                        let results = Results { part: handle.to_bits(), outcomes, grant, ended: true };
                        self.tell_transaction(origin, PartAnswer::Results(results));
                    }
                    _ => self.answer_command(origin, outcomes),
                }
            }
        }
        self.grant();
    }

    /// Lets those go on whose locks have come.
    fn grant(&mut self) {
        while self.locks.has_granted() {
            self.space.feed_grants();
            for bits in self.locks.take_granted() {
                let handle = Handle::from_bits(bits);
                self.parts.get_mut(handle).expect("a holder is a part").grant(&self.space);
                self.runnable.push_back(Runnable::Part(handle));
            }
        }
    }

    fn answer_command(&mut self, origin: Origin, outcomes: Vec<(u32, Outcome)>) {
        let Some((_, Outcome::Reply(content))) = outcomes.into_iter().next() else {
            unreachable!("a command's part has one outcome, its reply")
        };
        match origin {
            Origin::Client { client, slot } => {
                let (db, watching, stand_in) = (None, None, None);
                self.deliveries.push(Delivery { client, slot, content, db, watching, stand_in });
            }
            Origin::Ask { lane, client, slot, charge } => {
                let head = AnswerHead { target: client, slot, charge, kind: AnswerKind::Inline };
                self.peer(lane).answer_with(head, content);
                self.next_in_line((lane, client));
            }
            Origin::Transaction { .. } | Origin::Control { .. } => unreachable!("a command is somebody's"),
        }
    }

    fn next_in_line(&mut self, asker: Asker) {
        let line = self.lines.get_mut(&asker).expect("an ask under way has a line");
        match line.pop_front() {
            None => {
                self.lines.remove(&asker);
            }
            Some(pending) => self.begin_part(pending),
        }
    }

    fn tell_transaction(&mut self, origin: Origin, answer: PartAnswer) {
        let Origin::Transaction { lane, transaction } = origin else {
            unreachable!("only transactions are told of locks")
        };
        if lane == self.id {
            self.heard.push_back((Handle::from_bits(transaction), answer));
            return;
        }
        let peer = self.peer(lane);
        match answer {
            PartAnswer::Granted { part, grant } => peer.grant(transaction, part, grant),
            PartAnswer::Refused(refusal) => peer.refuse(transaction, refusal),
            PartAnswer::Results(results) => {
                peer.results(transaction, results);
            }
        }
    }

    fn part_goes(&mut self, part: u64, go: Go) {
        let handle = Handle::from_bits(part);
        self.catch_up(go.at_ms);
        self.parts.get_mut(handle).expect("a granted part waits to be told").go(go);
        self.runnable.push_back(Runnable::Part(handle));
    }

    /// A transaction sees this time, unix milliseconds. The lanes have one clock, but each reads it when its turn begins: what comes
    /// from one whose turn is younger may be ahead. What a transaction has seen end is there for nobody after it, so this lane's
    /// turn goes on at that time, too.
    fn catch_up(&mut self, at_ms: i64) {
        self.space.now.unix_ms = self.space.now.unix_ms.max(at_ms);
    }

    fn withdraw_part(&mut self, part: u64) {
        let handle = Handle::from_bits(part);
        self.parts.get_mut(handle).expect("a granted part waits to be told").withdraw();
        self.runnable.push_back(Runnable::Part(handle));
    }

    fn admit_prepared(&mut self, lane: u16, prepare: Prepare) {
        self.catch_up(prepare.at_ms);
        let part = Part::of_transaction(lane, prepare);
        if let Some(refusal) = part.refusal(&self.locks) {
            self.stats.parts_refused += 1;
            self.tell_transaction(part.origin, PartAnswer::Refused(refusal));
        } else {
            self.admit(part);
        }
    }

    // ---- several steps

    /// Takes steps of what is under way, as many as [`SLICES_PER_TURN`], [`WORK_PER_TURN`] and a spell allow. Says how many.
    pub(crate) fn work(&mut self, meter: &impl Meter) -> usize {
        self.at_once_left = AT_ONCE_PER_TURN;
        if !self.untold.is_empty() {
            self.tell_untold();
        }
        if !self.questioners.is_empty() {
            self.ask_control();
        }
        if !self.starved.is_empty() {
            self.prepare_starved();
        }
        if self.heard.is_empty() && self.runnable.is_empty() || self.pubsub.is_late() {
            return 0;
        }
        self.take_steps(meter)
    }

    fn prepare_starved(&mut self) {
        for _ in 0..self.starved.len() {
            let (handle, lanes) = self.starved.pop_front().expect("counted");
            if !self.try_prepare(handle, lanes.clone()) {
                self.starved.push_front((handle, lanes));
                break;
            }
        }
    }

    #[inline(never)]
    fn take_steps(&mut self, meter: &impl Meter) -> usize {
        let (mut taken, mut left) = (0, WORK_PER_TURN);
        self.timing.begin_spell();
        while taken < SLICES_PER_TURN && !left.is_spent() && !self.timing.is_spell_over() {
            if let Some((handle, answer)) = self.heard.pop_front() {
                self.hear_part(handle, self.id, answer);
                continue;
            }
            let Some(runnable) = self.runnable.pop_front() else { break };
            let mark = self.mark(meter);
            let subject = match runnable {
                Runnable::Part(handle) => self.parts.get(handle).and_then(Part::subject),
                Runnable::Transaction(handle) => self.transactions.get(handle).and_then(Transaction::subject),
            };
            let mut budget = SLICE;
            self.step(runnable, &mut budget);
            let (elements, bytes) = (SLICE.elements - budget.elements, SLICE.bytes - budget.bytes);
            left.spend(elements as usize, bytes as usize);
            let ticks = self.mark(meter).wrapping_sub(mark);
            let (command, extent) = subject.unzip();
            self.timing.note(StretchKind::Slice, command, extent.unwrap_or_default(), ticks);
            taken += 1;
        }
        taken
    }

    fn step(&mut self, runnable: Runnable, budget: &mut Budget) {
        match runnable {
            Runnable::Part(handle) => self.step_part(handle, budget),
            Runnable::Transaction(handle) => self.step_transaction(handle, budget),
        }
    }

    // ---- watching

    /// Ends a client's watching on these lanes.
    pub(crate) fn unwatch(&mut self, id: WatcherId, lanes: Vec<u16>) {
        for lane in lanes {
            if lane == self.id {
                self.space.unwatch(id);
            } else {
                let head = ControlHead { target: id.client, round: id.round, kind: ControlKind::Unwatch };
                self.untold.push_back((lane, head));
            }
        }
        self.tell_untold();
    }

    pub(crate) fn tell_untold(&mut self) {
        for _ in 0..self.untold.len() {
            let (lane, head) = self.untold.pop_front().expect("counted");
            if !self.peer(lane).try_tell(head, &mut None) {
                self.untold.push_back((lane, head));
            }
        }
    }

    /// The counters, with what is counted elsewhere.
    pub(crate) fn stats_now(&self) -> Stats {
        let keys = self.settings.databases().map(|db| self.space.shard.count(db)).sum();
        let [tracked_keys, tracked_items, tracked_prefixes] =
            self.space.tracked.counts().map(|count| count as u64);
        Stats {
            keys,
            changes: self.space.shard.change_count(),
            tracking_clients: self.tracking.count() as u64,
            tracked_keys,
            tracked_items,
            tracked_prefixes,
            ..self.stats
        }
    }
}

/// How a command of one or more keys holds them.
pub(crate) fn mode_of(command: &Command) -> Mode {
    if command.writes() { Mode::Exclusive } else { Mode::Shared }
}

fn ran(call: &Call<'_>, step: Step, progress: Progress) -> Ran {
    match step {
        Step::Done => Ran::Done,
        Step::More => {
            assert!(call.command.work != Cost::Constant, "a command of constant cost ends in its first step");
            Ran::Begun(progress)
        }
    }
}

fn after_is_in_line(after: &PartAfter) -> bool {
    !matches!(after, PartAfter::Again)
}
