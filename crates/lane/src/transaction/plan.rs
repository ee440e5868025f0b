//! Planning: which lanes take part in a transaction, which locks they take, which part of the request each one gets.
//! An element of a step's budget is a key, a byte of it one that is copied for a key's lane.

use store::Budget;
use wire::command::{Combine, Command, Flag, Id, Scope};
use wire::route::Slot;

use super::script::Stray;
use super::{After, Phase, Plan, Planned, REFUSALS_MAX, STAGE_COUNT_MAX, Share, Surroundings, Transaction};
use crate::client::Port;
use crate::commands::bitop::Operation;
use crate::commands::generic::{CopyOptions, databases_of_key, swapped_databases};
use crate::connection;
use crate::dispatch::{CROSSSLOT, keys_among};
use crate::keyspace::{Keyspace, Route};
use crate::locks::{Kind, LockName, Mode};
use crate::part::{NAMES_PER_STEP, Origin};
use crate::request::{Arg, Args, Request};
use crate::room::{growth_of, growth_of_all};
use crate::scripts::{is_read_only, keys_of};
use crate::tracking;

/// Arguments for which a lane's share of a request has room at once, and their bytes.
const SHARE_ARGS: usize = 8;
const SHARE_SIZE: usize = 128;

/// What a piece of collecting scripts' garbage takes, in elements of a slice.
const TIDY_ELEMENTS: usize = 128;
/// Pieces of it before a script begins, all the same whether there is room: 64 MiB, by and large.
const TIDIED_COUNT_MAX: u32 = 1024;

impl Transaction {
    pub(super) fn plan(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> After {
        if self.at == (0, 0) {
            // Before it holds anything that others may wait for.
            while self.stand_in.is_some() && self.tidied_count < TIDIED_COUNT_MAX && space.scripts.make_room()
            {
                self.tidied_count += 1;
                budget.spend(TIDY_ELEMENTS, 0);
                if budget.is_spent() {
                    return After::Again;
                }
            }
            self.database_count = around.database_count;
            self.db_after = self.commands.get(0).map_or(self.db_after, |planned| planned.db);
            self.grant.at_ms = space.now.unix_ms;
            self.slot = None;
        }
        while let Some(&(lane, name)) = self.watched.get(self.watched_at) {
            if budget.is_spent() {
                return After::Again;
            }
            budget.spend(1, 0);
            self.watched_at += 1;
            let index = self.join(lane);
            self.hold(index, name, Mode::Shared);
        }
        while self.at.0 < self.commands.len() || self.unpack() {
            if budget.is_spent() {
                return After::Again;
            }
            budget.spend(1, 0);
            if self.at.1 == 0 {
                match self.vet(around, budget) {
                    None => return After::Again,
                    Some(Err(denied)) if self.is_multi => {
                        let planned = &mut self.commands[self.at.0];
                        planned.plan = Plan::Denied(denied);
                        // Planned before, it was allowed then.
                        planned.forget_shares(space);
                        planned.state = None;
                        self.at.0 += 1;
                        continue;
                    }
                    Some(Err(denied)) => {
                        let text = denied.text(self.commands[self.at.0].command);
                        return self.refuse(&text);
                    }
                    Some(Ok(())) => self.plan_command(space, around),
                }
            }
            if !self.plan_keys(space, around, budget) {
                return self.refuse(CROSSSLOT);
            }
        }
        let order: Vec<u16> = self.lanes.iter().map(|part| part.lane).collect();
        self.lanes.sort_by_key(|part| part.lane);
        self.phase = Phase::Arranging { order };
        (self.at, self.alone_end) = ((0, 0), 0);
        self.arrange(space, around, budget)
    }

    /// Takes another page of what MULTI has queued; false when there is none.
    fn unpack(&mut self) -> bool {
        let Some(page) = self.queued.take_first_page() else { return false };
        for (command, request) in page {
            self.commands.push(Planned::new(command, request, self.db_after));
        }
        true
    }

    /// How one command gets its answer; its keys follow.
    pub(super) fn plan_command(&mut self, space: &mut Keyspace, around: &Surroundings<'_>) {
        let index = self.at.0;
        self.commands[index].db = self.db_after;
        // Planned before, it was refused.
        self.commands[index].forget_shares(space);
        let (command, count) = (self.commands[index].command, self.commands[index].request.len());
        let plan = match command.scope {
            Scope::AllLanes(combine) => Plan::Scatter(combine),
            Scope::Key | Scope::Keys(_) if key_range(command, count).is_empty() => Plan::Here,
            Scope::Key => Plan::Whole(0),
            // A key without its value: the command refuses itself, in one place.
            Scope::Keys(_) if command.keys.step == 2 && count % 2 == 0 => Plan::Whole(0),
            Scope::Keys(_) if self.is_wrong(index, around) => Plan::Whole(0),
            Scope::Keys(_) if around.all.len() == 1 => Plan::Whole(0),
            Scope::Keys(Combine::Coordinator) => Plan::Relay(0),
            Scope::Keys(combine) => Plan::Scatter(combine),
            Scope::Partition => self.plan_partition(index, around),
            Scope::Control if self.is_sync() => Plan::Scatter(Combine::AllOk),
            Scope::Control if command.id != Id::Monitor => Plan::Asked,
            Scope::Connection if tracking::is_answered_here(command) => Plan::Asked,
            Scope::Connection | Scope::Control => Plan::Here,
            Scope::Pubsub => Plan::Asked,
            Scope::Script => Plan::Script,
        };
        self.commands[index].plan = plan;
        if command.id == Id::Select
            && let arg = self.commands[index].request.get(1)
            && let Ok(db) = connection::selected(arg, self.port, around.database_count)
        {
            self.db_after = db;
        }
        if let Plan::Scatter(_) = plan
            && let Scope::AllLanes(_) | Scope::Control = command.scope
        {
            self.plan_all_lanes(around);
        }
        if plan == Plan::Script {
            self.plan_script(space, around);
        }
        self.at.1 = 1;
    }

    /// A script that uses what it does not declare, or may do so and couldn't begin again, locks whatever there is.
    fn plan_script(&mut self, space: &mut Keyspace, around: &Surroundings<'_>) {
        let planned = &mut self.commands[self.at.0];
        let args = Args::Owned(&planned.request);
        let named = space.scripts.named(planned.command, args);
        let declares_none = keys_of(args).is_ok_and(|keys| keys.is_empty());
        self.holds_all |=
            named.as_ref().is_some_and(|named| space.scripts.reaches_out(named, planned.command, args))
                || self.is_multi && declares_none;
        planned.named = named.map(Box::new);
        if self.holds_all {
            for lane in around.all.clone() {
                let at = self.join(lane);
                for db in 0..around.database_count {
                    self.hold(at, LockName { db, key: None }, Mode::Exclusive);
                }
            }
        }
    }

    /// Whether it is the control thread's, which wants a snapshot of all lanes.
    pub(super) fn is_sync(&self) -> bool {
        matches!(self.origin, Origin::Control { .. })
    }

    /// COPY with wrong options refuses itself too, and BITOP with a wrong operation.
    fn is_wrong(&self, index: usize, around: &Surroundings<'_>) -> bool {
        let planned = &self.commands[index];
        let args = Args::Owned(&planned.request);
        match planned.command.id {
            Id::Copy => CopyOptions::parse(args, planned.db, around.database_count).is_err(),
            Id::Bitop => Operation::parse(args).is_err(),
            _ => false,
        }
    }

    pub(super) fn plan_all_lanes(&mut self, around: &Surroundings<'_>) {
        let index = self.at.0;
        let planned = &self.commands[index];
        let mode = if planned.command.writes() { Mode::Exclusive } else { Mode::Shared };
        let databases: Vec<u16> = match planned.command.id {
            Id::Flushall | Id::Sync => (0..around.database_count).collect(),
            Id::Swapdb => swapped_databases(Args::Owned(&planned.request), around.database_count)
                .map_or(Vec::new(), |(a, b)| vec![a, b]),
            _ => vec![planned.db],
        };
        for lane in around.all.clone() {
            let at = self.join(lane);
            if self.takes_locks && !self.is_calling() {
                for &db in &databases {
                    self.hold(at, LockName { db, key: None }, mode);
                }
            }
            let request = Args::Owned(&self.commands[index].request).to_request();
            self.commands[index].shares.push(Share { lane: at, request, probe: None });
        }
    }

    /// Finds the lanes of the next keys of the command at hand. False if, on a lane's own port, they are not all of one slot.
    pub(super) fn plan_keys(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> bool {
        let index = self.at.0;
        let command = self.commands[index].command;
        let db = self.commands[index].db;
        let is_calling = self.is_calling();
        if command.scope == Scope::Pubsub {
            // Sharded channels stand where keys would. A script's only one is its SPUBLISH's.
            if is_calling && command.keys.first > 0 {
                let slot = Slot::of(self.commands[index].request.get(1).flat().unwrap_or_default());
                if !around.all.contains(&around.map.owner(slot).0) {
                    self.stray = Some(Stray::Elsewhere);
                    return true;
                }
                if self.port == Port::Lane && !self.may_use_slot(slot) {
                    self.stray = Some(Stray::OtherSlot);
                    return true;
                }
            }
            self.at = (index + 1, 0);
            return true;
        }
        let keys = keys_among(command, Args::Owned(&self.commands[index].request));
        let step = usize::from(command.keys.step.max(1));
        let mut key_index = keys.start + (self.at.1 - 1) * step;
        let is_bound = self.port == Port::Lane && !keys.is_empty();
        let bound = is_bound.then(|| Slot::of(Args::Owned(&self.commands[index].request).flat(keys.start)));
        while key_index < keys.end {
            if budget.is_spent() {
                return true;
            }
            let bytes = self.commands[index].request.get(key_index).flat().unwrap_or_default();
            let (slot, key_size) = (Slot::of(bytes), bytes.len());
            let is_of_several = bound.is_some_and(|bound| bound != slot);
            if is_of_several && !is_calling {
                return false;
            }
            let lane = around.map.owner(slot).0;
            let hash = space.shard.key(db, slot.number(), bytes).hash;
            if is_calling && (is_of_several || !around.all.contains(&lane)) {
                self.stray = Some(Stray::Elsewhere);
                return true;
            }
            // Keys of several slots in one call are what is said first.
            if is_bound && key_index + step >= keys.end && !self.may_use_slot(slot) && is_calling {
                self.stray = Some(Stray::OtherSlot);
                return true;
            }
            if is_calling && command.scope == Scope::Key {
                self.note_route(Route { slot, hash });
            }
            let mode = mode_of_keys(command);
            if is_calling || self.takes_locks {
                let args = Args::Owned(&self.commands[index].request);
                let databases = databases_of_key(command, args, key_index, db, around.database_count);
                for name in databases.into_iter().flatten().map(|db| LockName { db, key: Some(hash) }) {
                    if is_calling {
                        if !self.may_use(name, mode) {
                            let key = self.commands[index].request.get(key_index).flat();
                            self.stray = Some(Stray::Undeclared(key.unwrap_or_default().to_vec()));
                            return true;
                        }
                    } else {
                        let at = self.join(lane);
                        self.hold(at, name, mode);
                        if command.scope == Scope::Script {
                            *self.declared.entry(name).or_default() |= mode == Mode::Exclusive;
                        }
                    }
                }
            }
            let at = self.join(lane);
            if command.flags.has(Flag::Denyoom) && grows(command.id, key_index == keys.start) {
                // A command of one key may make all of its arguments part of the value.
                let args = Args::Owned(&self.commands[index].request);
                let growth = match command.scope {
                    Scope::Key => growth_of_all(&args),
                    _ => {
                        let sizes = (key_index..key_index + step).map(|index| args.get(index).size());
                        growth_of(step, sizes.sum())
                    }
                };
                *self.lanes[at].growth.get_or_insert(0) += growth;
            }
            let planned = &mut self.commands[index];
            let copied = match planned.plan {
                Plan::Scatter(_) => planned.share(at, key_index, step, false),
                Plan::Relay(_) => planned.share(at, key_index, step, command.id == Id::Msetnx),
                Plan::Whole(_) => {
                    planned.plan = Plan::Whole(lane);
                    0
                }
                Plan::Here | Plan::Asked | Plan::Script | Plan::Denied(_) => 0,
            };
            budget.spend(1, copied + key_size);
            key_index += step;
            self.at.1 += 1;
        }
        self.at = (index + 1, 0);
        true
    }

    /// Every lane has its place: commands are told. Then it is decided how to lock.
    pub(super) fn arrange(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> After {
        let Phase::Arranging { order } = &self.phase else { unreachable!("lanes are arranged once") };
        let end = self.commands.len().min(self.at.0 + budget.elements as usize);
        budget.spend(end - self.at.0, 0);
        for index in self.at.0..end {
            let planned = &mut self.commands[index];
            planned.settle(|at| order[at], space);
            for share in &mut planned.shares {
                let lane = order[share.lane];
                share.lane = self.lanes.iter().position(|part| part.lane == lane).expect("sorted, not lost");
            }
            if planned.plan.is_alone() {
                self.alone_end = index + 1;
            }
        }
        self.at.0 = end;
        if end < self.commands.len() { After::Again } else { self.lock(space, around, budget) }
    }

    /// Everything is planned: how to lock.
    fn lock(&mut self, space: &mut Keyspace, around: &Surroundings<'_>, budget: &mut Budget) -> After {
        if self.lanes.is_empty() {
            return self.begin_stage();
        }
        if self.lanes.len() > 1 && matches!(self.origin, Origin::Ask { .. }) {
            self.plan_again();
            return After::GiveBack;
        }
        if self.needs_no_locks_yet(around) {
            self.is_unlocked = true;
            self.begin_stage();
            return self.run_script(space, around, budget);
        }
        let is_short = self.lanes.iter().all(|part| part.names.len() <= NAMES_PER_STEP);
        self.kind = if self.lanes.len() == 1 {
            Kind::Local
        } else if is_short && self.refusal_count < REFUSALS_MAX {
            Kind::Numbered
        } else if is_short {
            Kind::Ordered
        } else {
            Kind::Long
        };
        let asked = if self.kind.is_ordered() { 1 } else { self.lanes.len() };
        let goes = self.goes_at_once();
        if goes || self.looks_at_once() {
            self.fill_stage();
        }
        self.phase = if goes {
            Phase::Running { awaited: asked }
        } else {
            Phase::Locking { asked, awaited: asked, is_refused: false }
        };
        After::Prepare(0..asked)
    }

    /// Whether it is one script, and all that it has declared is this lane's and free.
    fn needs_no_locks_yet(&self, around: &Surroundings<'_>) -> bool {
        match &self.lanes[..] {
            [part] if self.is_script() && part.lane == around.lane => part.names.are_free(around.locks),
            _ => false,
        }
    }

    /// Whether the lanes may run everything as soon as they have their locks: there is one, or no locks at all, and one stage.
    pub(super) fn goes_at_once(&self) -> bool {
        (self.lanes.len() == 1 || !self.takes_locks)
            && self.alone_end == 0
            && self.commands.len() <= STAGE_COUNT_MAX
    }
}

impl Planned {
    /// Keys that all live on one lane need no taking apart. `lane_at` says which lane stands where.
    pub(super) fn settle(&mut self, lane_at: impl Fn(usize) -> u16, space: &mut Keyspace) {
        if let (Plan::Scatter(_) | Plan::Relay(_), [share]) = (self.plan, self.shares.as_slice()) {
            self.plan = Plan::Whole(lane_at(share.lane));
            self.forget_shares(space);
        }
    }

    /// What lanes were to be asked is not wanted, nor what they have answered; it goes in paced steps.
    pub(super) fn forget_shares(&mut self, space: &mut Keyspace) {
        for share in self.shares.drain(..) {
            space.discard(share.request);
            share.probe.into_iter().for_each(|probe| space.discard(probe));
        }
        self.outcomes.drain(..).for_each(|(_, outcome)| outcome.discard(space));
    }

    /// Gives the lane at `lane` the key at `key_index`, with what belongs to it, and what stands before all keys. Says how many bytes
    /// were copied for the key.
    fn share(&mut self, lane: usize, key_index: usize, step: usize, probes: bool) -> usize {
        let name = Arg::Flat(self.command.name.as_bytes());
        let before = 1..usize::from(self.command.keys.first);
        let at = match self.shares.iter().position(|share| share.lane == lane) {
            Some(at) => at,
            None => {
                let mut request = Request::with_room(SHARE_ARGS, SHARE_SIZE);
                request.push(name);
                before.for_each(|index| request.push(self.request.get(index)));
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
        let mut copied = 0;
        for index in key_index..key_index + step {
            let arg = self.request.get(index);
            copied += arg.flat().map_or(0, <[u8]>::len);
            share.request.push(arg);
        }
        if let Some(probe) = &mut share.probe {
            probe.push(self.request.get(key_index));
        }
        copied
    }
}

/// How a command holds its keys: what a script does with them only the script knows.
fn mode_of_keys(command: &Command) -> Mode {
    let writes = command.writes() || command.scope == Scope::Script && !is_read_only(command);
    if writes { Mode::Exclusive } else { Mode::Shared }
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

/// Whether a command that adds something adds it to this one of its keys: BITOP writes the first one, COPY the second.
fn grows(id: Id, is_first: bool) -> bool {
    match id {
        Id::Bitop => is_first,
        Id::Copy => !is_first,
        _ => true,
    }
}
