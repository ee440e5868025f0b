//! What a script calls: the last of its transaction's commands meanwhile, planned and run as a command of a MULTI is, and what stands
//! against it.

use std::fmt::Write;

use script::{Answer, Words};
use store::Budget;
use wire::command::{Command, Flag, Id, Refusal, Scope};
use wire::reply::{self, Proto};
use wire::route::Slot;

use crate::commands::{self, Progress, SYNTAX};
use crate::dispatch::{resolve_name, too_long};
use crate::keyspace::{Call, Keyspace, OOM, Route};
use crate::locks::{LockName, Mode};
use crate::monitor::put_words;
use crate::part::{Job, Outcome, Work};
use crate::pubsub::publishes;
use crate::replies::{Content, Sink};
use crate::request::{Args, Request};
use crate::room::Made;
use crate::tally::ErrorCode;
use crate::transaction::{After, Phase, Plan, Planned, Surroundings, Transaction};

/// Bytes of MONITOR's lines that one script has at most.
const LINES_SIZE_MAX: usize = 64 * 1024;

/// What a script calls, the last one of the transaction's commands meanwhile; and what the transaction was about when it called.
pub(super) struct Called {
    reply: Content,
    proto: Proto,
    db_after: u16,
    pub(super) position: usize,
    /// Where its one key belongs, if it is of one.
    route: Option<Route>,
    /// See [`Transaction::may_exceed`].
    may_exceed: bool,
    /// All its lanes have made room for it.
    has_room: bool,
    stage: Stage,
}

enum Stage {
    Planning,
    /// It runs on this lane, and has come so far.
    Here(Progress),
    /// It is over, and what it has read is being remembered: so many keys are.
    Remembering(u64),
    /// Lanes make room for it: either all have room, or it begins on none of them.
    MakingRoom,
    /// Lanes run it, or the control thread.
    Away,
}

/// What stands against a call.
pub(in crate::transaction) enum Stray {
    /// A key that the script has not declared, or all of them.
    Undeclared(Vec<u8>),
    /// On a lane's own port, a key of another lane, or keys of several slots in one call.
    Elsewhere,
    /// On a lane's own port, a key of another slot than the script's.
    OtherSlot,
}

impl Transaction {
    /// Whether the command at hand is a call of a script.
    pub(in crate::transaction) fn is_calling(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.call.is_some())
    }

    /// The script calls a command: refused at once, or the last of the transaction's commands from now on.
    pub(super) fn call(
        &mut self,
        words: &Words,
        proto: Proto,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
    ) {
        let script = self.script.as_mut().expect("a script calls");
        let request = Request::of_words(words.iter());
        let args = Args::Owned(&request);
        let is_read_only = space.scripts.get_under_way(script.inside).run.is_read_only();
        let resolved = match resolve_call(&request, is_read_only) {
            Ok(command) if space.is_stale && !command.flags.has(Flag::Stale) => {
                Err(("ERR Can not execute the command on a stale replica", Some(command)))
            }
            Ok(command)
                if command.writes()
                    && let Some(why) = space.writes_refused =>
            {
                Err((why, Some(command)))
            }
            resolved => resolved,
        };
        let command = match resolved {
            Ok(command) => command,
            Err((text, command)) => {
                space.tally.rejected(command.map(|command| command.id), vec![ErrorCode::of(text.as_bytes())]);
                script.answer(Answer::error(text), space);
                return;
            }
        };
        if around.is_monitored && !command.flags.has(Flag::Admin) && self.script_lines.len() < LINES_SIZE_MAX
        {
            let (seconds, us) = space.now.wall();
            let mut line = String::new();
            write!(line, "+{seconds}.{us:06} [{} lua]", script.db).expect("memory can be written");
            self.script_lines.extend_from_slice(line.as_bytes());
            put_words(&mut self.script_lines, command, args);
            self.script_lines.extend_from_slice(b"\r\n");
        }
        let index = self.commands.len();
        self.commands.push(Planned::new(command, request, script.db));
        script.call = Some(Called {
            reply: std::mem::take(&mut self.reply),
            proto: std::mem::replace(&mut self.proto, proto),
            db_after: std::mem::replace(&mut self.db_after, script.db),
            position: self.position,
            route: None,
            may_exceed: script.allows_oom || script.has_written,
            has_room: false,
            stage: Stage::Planning,
        });
        self.at = (index, 0);
        self.lanes.iter_mut().for_each(|part| part.growth = None);
    }

    /// Another slice of what is called; none when it is answered.
    pub(super) fn go_on_with_call(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> Option<After> {
        let index = self.commands.len() - 1;
        let called = self.script.as_mut().and_then(|script| script.call.as_mut()).expect("it calls");
        match &mut called.stage {
            Stage::Planning => {
                while self.at.0 == index {
                    if budget.is_spent() {
                        return Some(After::Again);
                    }
                    if self.at.1 == 0 {
                        match self.vet(around, budget) {
                            None => return Some(After::Again),
                            Some(Err(denied)) => {
                                self.refuse_call(denied.text_in_script(), space);
                                return None;
                            }
                            Some(Ok(())) => {}
                        }
                        self.look_at_scope(index);
                        if self.stray.is_none() {
                            self.plan_command(space, around);
                        }
                    }
                    if self.stray.is_none() {
                        self.plan_keys(space, around, budget);
                    }
                    if let Some(stray) = self.stray.take() {
                        return self.went_astray(stray, space);
                    }
                }
                let lanes = &self.lanes;
                self.commands[index].settle(|at| lanes[at].lane, space);
                self.start_call(index, space, around)
            }
            Stage::Here(progress) => {
                let planned = &self.commands[index];
                let args = Args::Owned(&planned.request);
                let (command, db, proto) = (planned.command, planned.db, self.proto);
                let call = Call { command, args, db, proto, route: called.route.as_ref(), port: self.port };
                let mut sink = Sink::Part(&mut self.reply);
                space.events.begin(command.id, false);
                match commands::run(space, &call, progress, &mut sink, budget) {
                    commands::Step::More => Some(After::Again),
                    commands::Step::Done if self.by.is_some() => {
                        called.stage = Stage::Remembering(0);
                        self.go_on_with_call(space, around, budget)
                    }
                    commands::Step::Done => {
                        budget.spend(0, self.reply.size());
                        self.count_command(index, space);
                        self.end_call(space);
                        None
                    }
                }
            }
            Stage::Remembering(at) => {
                let planned = &self.commands[index];
                let of = (planned.command, Args::Owned(&planned.request), planned.db);
                if !space.remember_keys(self.by, of, at, budget) {
                    return Some(After::Again);
                }
                budget.spend(0, self.reply.size());
                self.count_command(index, space);
                self.end_call(space);
                None
            }
            Stage::MakingRoom | Stage::Away => unreachable!("who is away is waited for"),
        }
    }

    /// A command over all keys, or over those of a partition, needs all of them declared.
    fn look_at_scope(&mut self, index: usize) {
        let command = self.commands[index].command;
        if matches!(command.scope, Scope::AllLanes(_) | Scope::Partition) && !self.holds_all {
            self.stray = Some(Stray::Undeclared(b"*".to_vec()));
        }
    }

    /// Planning has found where the one key of a call belongs.
    pub(in crate::transaction) fn note_route(&mut self, route: Route) {
        if let Some(called) = self.script.as_mut().and_then(|script| script.call.as_mut()) {
            called.route = Some(route);
        }
    }

    /// Whether a script may use a key like that.
    pub(in crate::transaction) fn may_use(&self, name: LockName, mode: Mode) -> bool {
        let is_declared = |&is_exclusive: &bool| is_exclusive || mode == Mode::Shared;
        self.holds_all || self.declared.get(&name).is_some_and(is_declared)
    }

    /// On a lane's own port a script that declares flags is of one slot: that of its keys or of what MULTI has queued with it, else of
    /// its first call's (`scriptVerifyClusterState` in Redis' script.c).
    pub(in crate::transaction) fn may_use_slot(&mut self, slot: Slot) -> bool {
        let crosses_slots = self.script.as_ref().is_some_and(|script| script.crosses_slots);
        crosses_slots || *self.slot.get_or_insert(slot) == slot
    }

    /// All keys of a call are where they may be.
    fn start_call(&mut self, index: usize, space: &mut Keyspace, around: &Surroundings<'_>) -> Option<After> {
        space.expect_bytes(self.commands[index].request.size());
        let after = self.start_expected(index, space, around);
        space.expect_bytes(0);
        after
    }

    fn start_expected(
        &mut self,
        index: usize,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
    ) -> Option<After> {
        let planned = &self.commands[index];
        let command = planned.command;
        self.stage += 1;
        space.feed_moves_to((self.stage, 0));
        let script = self.script.as_mut().expect("it calls");
        script.has_written |= command.writes();
        script.has_published |= publishes(command);
        let called = script.call.as_mut().expect("it calls");
        match planned.plan {
            Plan::Here => {
                self.at = (index, 0);
                self.combine_command(space, around, &mut crate::SLICE.clone());
                self.count_command(index, space);
                self.end_call(space);
                None
            }
            // Keys that are not locked may go when room is made.
            Plan::Whole(_) if self.is_unlocked && space.may_make_room(command, planned.db) => {
                Some(After::Again)
            }
            Plan::Whole(lane) if lane == around.lane => {
                let args = Args::Owned(&planned.request);
                let made = match script.allows_oom {
                    true => Made::Enough,
                    false => {
                        space.feed_gone();
                        let made = space.room_for(command, &args, planned.db, around.locks);
                        space.feed_evicted();
                        made
                    }
                };
                match made {
                    Made::Nothing if called.may_exceed => called.stage = Stage::Here(Progress::default()),
                    Made::Enough => called.stage = Stage::Here(Progress::default()),
                    Made::More | Made::Held | Made::Short(_) => return Some(self.send_call(index)),
                    Made::Nothing => {
                        reply::error(&mut self.reply, OOM);
                        self.count_command(index, space);
                        self.end_call(space);
                    }
                }
                None
            }
            _ => Some(self.send_call(index)),
        }
    }

    /// Whether what is called is carried out even if there is no room for it: the script allows that, or it has written. What has begun
    /// to change something is not cut off half-way (`scriptVerifyOOM` in Redis' script.c).
    pub(in crate::transaction) fn may_exceed(&self) -> bool {
        let called = self.script.as_ref().and_then(|script| script.call.as_ref());
        called.is_some_and(|called| called.may_exceed)
    }

    fn send_call(&mut self, index: usize) -> After {
        if self.is_unlocked {
            return After::Again;
        }
        let script = self.script.as_mut().expect("it calls");
        let called = script.call.as_mut().expect("it calls");
        called.stage = Stage::Away;
        if script.allows_oom {
            self.lanes.iter_mut().for_each(|part| part.growth = None);
        }
        self.position = index;
        let is_of_several = matches!(self.commands[index].plan, Plan::Scatter(_) | Plan::Relay(_));
        if is_of_several && !called.may_exceed && self.lanes.iter().any(|part| part.growth.is_some()) {
            called.stage = Stage::MakingRoom;
            return self.make_room(index);
        }
        self.begin_stage()
    }

    /// Asks the lanes to which a call may add something for room.
    fn make_room(&mut self, index: usize) -> After {
        let (command, db) = (u32::try_from(index).expect("a small number"), self.commands[index].db);
        let mut gos = Vec::new();
        for index in 0..self.lanes.len() {
            if let growth @ Some(_) = self.lanes[index].growth.take() {
                gos.push((index, self.go(vec![Job { command, db, work: Work::MakeRoom }], false, growth)));
            }
        }
        self.phase = Phase::Running { awaited: gos.len() };
        After::Go(gos)
    }

    /// The lanes that were asked for room for a call have answered: it begins, or it is refused. None if it was something else that
    /// was asked.
    pub(in crate::transaction) fn hear_room(&mut self, space: &mut Keyspace) -> Option<After> {
        let called = self.script.as_mut()?.call.as_mut()?;
        if !matches!(called.stage, Stage::MakingRoom) {
            return None;
        }
        let index = self.commands.len() - 1;
        let outcomes = std::mem::take(&mut self.commands[index].outcomes);
        called.stage = Stage::Away;
        called.has_room = outcomes.iter().all(|(_, outcome)| matches!(outcome, Outcome::Room(true)));
        if called.has_room {
            return Some(self.begin_stage());
        }
        reply::error(&mut self.reply, OOM);
        self.count_command(index, space);
        Some(self.hear_call(space))
    }

    /// The lanes' answers to a call have become its reply.
    pub(in crate::transaction) fn hear_call(&mut self, space: &mut Keyspace) -> After {
        self.end_call(space);
        self.phase = Phase::Scripting;
        After::Again
    }

    /// The reply of a call is whole: the script hears it next.
    fn end_call(&mut self, space: &mut Keyspace) {
        let proto = self.proto;
        let called = self.script.as_ref().and_then(|script| script.call.as_ref()).expect("it has called");
        let may_have_begun = called.may_exceed || called.has_room;
        let content = self.drop_call(space);
        let script = self.script.as_mut().expect("it has called");
        // For want of room it has not been carried out.
        script.has_written &= may_have_begun || !content.front().starts_with(b"-OOM ");
        if content.size() > space.scripts.memory_size_max() {
            space.discard_content(content);
            script.answer(Answer::error("ERR the reply is larger than script-memory-limit"), space);
        } else {
            script.unread = content;
            script.answer(Answer::new(proto), space);
        }
    }

    /// The transaction is about the script again. Gives the reply of what it called.
    fn drop_call(&mut self, space: &mut Keyspace) -> Content {
        let script = self.script.as_mut().expect("it has called");
        let called = script.call.take().expect("it has called");
        script.db = std::mem::replace(&mut self.db_after, called.db_after);
        self.proto = called.proto;
        self.position = called.position;
        self.stage_end = self.position + 1;
        // What this call may add is nothing that others are measured by.
        self.lanes.iter_mut().for_each(|part| part.growth = None);
        if let Some(mut planned) = self.commands.pop() {
            space.discard(std::mem::take(&mut planned.request));
            planned.forget_shares(space);
        }
        std::mem::replace(&mut self.reply, called.reply)
    }

    /// A call is refused, before it began.
    fn refuse_call(&mut self, text: &'static str, space: &mut Keyspace) {
        let command = self.commands[self.commands.len() - 1].command;
        self.drop_call(space);
        space.tally.rejected(Some(command.id), vec![ErrorCode::of(text.as_bytes())]);
        self.script.as_ref().expect("it has called").answer(Answer::error(text), space);
    }

    /// A call is about keys that are not held for it.
    fn went_astray(&mut self, stray: Stray, space: &mut Keyspace) -> Option<After> {
        let key = match stray {
            Stray::Undeclared(key) => key,
            Stray::Elsewhere => {
                self.refuse_call("ERR Script attempted to access a non local key in a cluster node", space);
                return None;
            }
            Stray::OtherSlot => {
                let text = "ERR Script attempted to access keys that do not hash to the same slot";
                self.refuse_call(text, space);
                return None;
            }
        };
        self.drop_call(space);
        let script = self.script.as_mut().expect("it has called");
        if let Some(named) = self.commands[self.position].named.as_deref() {
            space.scripts.note_reach(named);
        }
        // One that is to be ended does not begin again: it ends with the next slice.
        if script.has_written || script.has_published || script.is_killed || self.position > 0 {
            let mut text = b"ERR Script attempted to access a key that is not among its KEYS, after something was written: '".to_vec();
            text.extend_from_slice(reply::quoted(&key));
            text.extend_from_slice(b"'. It holds all keys the next time it is called");
            script.answer(Answer::error(text), space);
            return None;
        }
        self.drop_script(space);
        self.holds_all = true;
        let live: Vec<usize> = (0..self.lanes.len()).filter(|&index| self.lanes[index].is_live).collect();
        if live.is_empty() {
            self.plan_again();
            return Some(After::Again);
        }
        self.phase = Phase::Withdrawing { awaited: live.len() };
        Some(After::Withdraw(live))
    }
}

/// Which command a script calls, or why it may not, in the words of `scriptCall` of Redis.
fn resolve_call(
    request: &Request,
    is_read_only: bool,
) -> Result<&'static Command, (&'static str, Option<&'static Command>)> {
    let args = Args::Owned(request);
    let command = match resolve_name(args.flat(0), args) {
        Ok(command) => command,
        Err(Refusal::WrongArity(command)) => {
            return Err(("ERR Wrong number of args calling Redis command from script", Some(command)));
        }
        Err(Refusal::TooManyOptions(command)) => return Err((SYNTAX, Some(command))),
        Err(_) => return Err(("ERR Unknown Redis command called from script", None)),
    };
    // MIGRATE has no such flag in Redis, and here no lock waits for another server.
    if command.flags.has(Flag::Noscript) || command.is_container() || command.id == Id::Migrate {
        return Err(("ERR This Redis command is not allowed from script", Some(command)));
    }
    if is_read_only && (command.writes() || publishes(command)) {
        return Err(("ERR Write commands are not allowed from read-only scripts.", Some(command)));
    }
    if let Some(text) = too_long(request, command) {
        return Err((text, Some(command)));
    }
    Ok(command)
}
