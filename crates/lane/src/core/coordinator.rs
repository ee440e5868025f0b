//! Transactions of this lane's clients: a [`Transaction`] decides what comes next, and here it happens. Parts of this lane and
//! of others are asked for, told and withdrawn alike.

use std::ops::Range;

use store::Budget;

use super::{Core, Delivery, Runnable};
use crate::SLICE;
use crate::admin::{KillCount, Report};
use crate::client::Port;
use crate::dispatch::{Caller, Flow};
use crate::part::Origin;
use crate::peers::{AnswerHead, AnswerKind, ControlHead, ControlKind, Parcel};
use crate::slab::Handle;
use crate::transaction::{After, Go, Killed, PartAnswer, RunningFunction, Surroundings, Transaction};

impl Core {
    /// Begins a transaction, and goes on with it for a slice, unless it has to wait for others, or transactions have done enough of
    /// that in this turn: then a script begins when its turn comes among what takes several steps. What it comes to, if it is over
    /// by then; else that will come as a delivery.
    pub(crate) fn begin_transaction(&mut self, mut transaction: Transaction) -> Option<Delivery> {
        transaction.by = transaction.by.or(self.space.by);
        self.stats.transactions += 1;
        let origin = transaction.origin;
        let runs_script = transaction.is_script();
        let handle = self.transactions.insert(transaction);
        // Who monitors sees the script before what it calls.
        if runs_script && (self.at_once_left.is_spent() || self.monitoring.is_on) {
            self.runnable.push_back(Runnable::Transaction(handle));
            return None;
        }
        let mut budget = SLICE;
        // What it brings about comes behind what others have to do, which is not its business.
        let (heard_count, runnable_count) = (self.heard.len(), self.runnable.len());
        self.step_transaction(handle, &mut budget);
        while !budget.is_spent() && !self.at_once_left.is_spent() {
            // Also one that finds nothing to do yet is a step.
            budget.spend(1, 0);
            if self.heard.len() > heard_count
                && let Some((handle, answer)) = self.heard.pop_back()
            {
                self.hear_part(handle, self.id, answer);
            } else if self.runnable.len() > runnable_count
                && let Some(runnable) = self.runnable.pop_back()
            {
                self.step(runnable, &mut budget);
            } else {
                break;
            }
        }
        let (elements, bytes) = (SLICE.elements - budget.elements, SLICE.bytes - budget.bytes);
        self.at_once_left.spend(elements as usize, bytes as usize);
        self.deliveries
            .pop_if(|Delivery { client, slot, .. }| Origin::Client { client: *client, slot: *slot } == origin)
    }

    /// The same for a command that is being dispatched.
    pub(crate) fn transact(&mut self, caller: &mut Caller<'_>, transaction: Transaction) -> Flow {
        match self.begin_transaction(transaction) {
            None => Flow::Block,
            Some(delivery) => {
                caller.client.take(delivery);
                Flow::Next
            }
        }
    }

    pub(crate) fn transaction(&mut self, handle: Handle<Transaction>) -> &mut Transaction {
        self.transactions.get_mut(handle).expect("a transaction outlives what it waits for")
    }

    pub(super) fn step_transaction(&mut self, handle: Handle<Transaction>, budget: &mut Budget) {
        let Some(transaction) = self.transactions.get_mut(handle) else { return };
        let all = match transaction.port {
            Port::Shared => 0..self.lane_count,
            Port::Lane => self.id..self.id + 1,
        };
        let around = Surroundings {
            lane: self.id,
            map: &self.map,
            all,
            database_count: self.settings.database_count,
            settings: &self.settings,
            locks: &self.locks,
            is_monitored: self.monitoring.is_on,
            me: handle.to_bits(),
            tracking: transaction.client().and_then(|client| self.tracking.shown(client.to_bits())),
        };
        let before = std::mem::replace(&mut self.space.by, transaction.by);
        let after = transaction.step(&mut self.space, &around, budget);
        self.space.by = before;
        let mut lines = std::mem::take(&mut transaction.script_lines);
        if let Some(exec) = &mut transaction.lines {
            exec.add(&std::mem::take(&mut lines));
        }
        let log = std::mem::take(&mut transaction.script_log);
        let denials = std::mem::take(&mut transaction.denials);
        for said in log {
            self.tell_control(ControlKind::Said, Some(Parcel::Said(Box::new(said))));
        }
        for denial in denials {
            self.tell_denial(denial);
        }
        lines.split_inclusive(|&byte| byte == b'\n').for_each(|line| self.show_line(line));
        self.follow(handle, after);
    }

    pub(super) fn follow(&mut self, handle: Handle<Transaction>, after: After) {
        match after {
            After::Rest => {}
            After::Again => self.runnable.push_back(Runnable::Transaction(handle)),
            After::Prepare(lanes) => {
                // One that goes from lane to lane holds locks already: behind others it could wait for those who wait for it.
                let holds_locks = lanes.start > 0;
                let must_queue = !holds_locks && !self.starved.is_empty();
                if must_queue || !self.try_prepare(handle, lanes.clone()) {
                    if holds_locks {
                        self.starved.push_front((handle, lanes));
                    } else {
                        self.starved.push_back((handle, lanes));
                    }
                }
            }
            After::Lock => {
                let is_asked = self.try_prepare(handle, 0..1);
                assert!(is_asked, "a lane needs no credit to ask itself");
            }
            After::GiveBack => {
                let transaction = self.transactions.remove(handle).expect("it has just spoken");
                let Origin::Ask { lane, client, slot, charge } = transaction.origin else {
                    unreachable!("only what another lane has sent is given back")
                };
                let head = AnswerHead { target: client, slot, charge, kind: AnswerKind::GivenBack };
                self.peer(lane).give_back(head, transaction);
            }
            After::Ask if self.transaction(handle).asks_pubsub() => self.begin_pubsub(handle),
            After::Ask if self.transaction(handle).asks_tracking() => self.answer_tracking_of(handle),
            After::Ask => {
                self.questioners.push_back(handle);
                self.ask_control();
            }
            After::Go(gos) => self.tell_parts(handle, gos),
            After::GoAndStep(gos) => {
                self.tell_parts(handle, gos);
                self.runnable.push_back(Runnable::Transaction(handle));
            }
            After::Withdraw(lanes) => {
                for index in lanes {
                    let (lane, part) = self.part_of(handle, index);
                    if lane == self.id {
                        self.withdraw_part(part);
                    } else {
                        let head = ControlHead { target: part, round: 0, kind: ControlKind::Withdraw };
                        self.peer(lane).tell(head, None);
                    }
                }
            }
            After::Reply(mut content, gos) => {
                let transaction = self.transactions.get_mut(handle).expect("it has just spoken");
                let (origin, db) = (transaction.origin, Some(transaction.db_after));
                let unwatch = transaction.take_watched();
                let watching = transaction.begun_watch();
                let (lines, has_run) = (transaction.lines.take(), !transaction.is_aborted());
                let stand_in = transaction.stand_in.take().filter(|_| has_run);
                if content.has_erred() {
                    self.space.tally.failed(transaction.id(), content.take_errors());
                }
                if let Some(lines) = lines {
                    self.show_exec(&lines, has_run);
                }
                match origin {
                    Origin::Client { client, slot } => {
                        self.end_caching(client);
                        self.deliveries.push(Delivery { client, slot, content, db, watching, stand_in });
                    }
                    Origin::Ask { lane, client, slot, charge } => {
                        let head = AnswerHead { target: client, slot, charge, kind: AnswerKind::Inline };
                        self.peer(lane).answer_with(head, content);
                    }
                    Origin::Control { ticket, charge } => {
                        self.space.discard_content(content);
                        let control = self.lane_count;
                        self.peer(control).report(ticket, charge, Report::Done);
                    }
                    Origin::Transaction { .. } => unreachable!("transactions have parts"),
                }
                if let Some((id, lanes)) = unwatch {
                    self.unwatch(id, lanes);
                }
                self.tell_parts(handle, gos);
                if self.transaction(handle).has_ended() {
                    self.end_transaction(handle);
                }
            }
            After::Ended => self.end_transaction(handle),
        }
    }

    /// SCRIPT KILL and FUNCTION KILL.
    pub(crate) fn kill_scripts(&mut self, before_ns: u64, are_functions: bool) -> Report {
        let mut count = KillCount::default();
        for place in 0..self.transactions.place_count() {
            let Some(handle) = self.transactions.at(place).map(|(handle, _)| handle) else { continue };
            let transaction = self.transactions.get_mut(handle).expect("just seen");
            match transaction.kill_script(&self.space.scripts, before_ns, are_functions) {
                Some(Killed::Yes) => count.killed += 1,
                Some(Killed::HasWritten) => count.writing += 1,
                Some(Killed::NotMeant) => count.others += 1,
                None => {}
            }
        }
        Report::Scripts(count)
    }

    /// FUNCTION STATS: the function that has run longest.
    pub(crate) fn running_function(&self) -> Option<RunningFunction> {
        let all = (0..self.transactions.place_count()).filter_map(|place| self.transactions.at(place));
        let running = all.filter_map(|(_, transaction)| transaction.running_function(&self.space.scripts));
        running.min_by_key(|it| it.began_ns)
    }

    fn end_transaction(&mut self, handle: Handle<Transaction>) {
        let transaction = self.transactions.get_mut(handle).expect("a transaction ends once");
        if transaction.discard(&mut self.space) {
            self.transactions.discard(handle);
        } else {
            self.runnable.push_back(Runnable::Transaction(handle));
        }
    }

    fn part_of(&self, handle: Handle<Transaction>, index: usize) -> (u16, u64) {
        let part = &self.transactions.get(handle).expect("a transaction tells its own parts").lanes[index];
        (part.lane, part.part)
    }

    fn tell_parts(&mut self, handle: Handle<Transaction>, gos: Vec<(usize, Go)>) {
        for (index, go) in gos {
            let (lane, part) = self.part_of(handle, index);
            if lane == self.id {
                self.part_goes(part, go);
            } else {
                let head = ControlHead { target: part, round: 0, kind: ControlKind::Go };
                self.peer(lane).tell(head, Some(Parcel::Go(Box::new(go))));
            }
        }
    }

    /// Asks these lanes if there is credit for all of them: holding some while waiting for credit could be waiting for
    /// oneself.
    pub(super) fn try_prepare(&mut self, handle: Handle<Transaction>, lanes: Range<usize>) -> bool {
        let Some(transaction) = self.transactions.get_mut(handle) else { return true };
        let others = transaction.lanes[lanes.clone()].iter().map(|part| part.lane);
        for lane in others.filter(|&lane| lane != self.id) {
            if !self.peers[usize::from(lane)].as_mut().expect("another lane").can_prepare() {
                return false;
            }
        }
        let board = &self.board;
        transaction.begin(|| board.fresh_number());
        for index in lanes {
            let transaction = self.transactions.get_mut(handle).expect("it is being asked for");
            let lane = transaction.lanes[index].lane;
            let prepare = transaction.prepare(handle, index);
            if lane == self.id {
                self.admit_prepared(lane, prepare);
            } else {
                self.peer(lane).prepare(prepare);
            }
        }
        true
    }

    pub(super) fn hear_part(&mut self, handle: Handle<Transaction>, lane: u16, answer: PartAnswer) {
        let ended = match &answer {
            PartAnswer::Granted { .. } => false,
            PartAnswer::Refused(_) => true,
            PartAnswer::Results(results) => results.ended,
        };
        if ended && lane != self.id {
            self.peer(lane).part_ended();
        }
        let transaction = self.transactions.get_mut(handle).expect("a transaction outlives its parts");
        let after = transaction.hear(lane, answer, &mut self.space);
        self.follow(handle, after);
    }
}
