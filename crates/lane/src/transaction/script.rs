//! A script: it runs on the lane that owns its keys, or its client's, a slice at a time, and what it calls is planned and run as a command
//! of a MULTI is, under the locks of the keys that it has declared. Where nobody holds those it begins without.
//!
//! ```text
//! resume ──▶ a call ──▶ its keys are of this lane   run at once, in slices if it is long
//!    ▲                  of others, too              a stage, as for a command of a MULTI
//!    │                  not declared                withdraw, lock whatever there is on all lanes, begin again
//!    └─── the reply ◀───┘
//! ```
//! A script that has written can't begin again: an undeclared key is an error of that call then, and the script is known for it, so
//! that it holds everything from the beginning the next time.

use std::borrow::Cow;
use std::fmt::Write;

use script::{Answer, Part, Returned, Run, Step};
use store::Budget;
use wire::client::Reply;
use wire::command::{Command, Flag, Id, Refusal, Scope};
use wire::reply::{self, Proto};

use super::{After, Phase, Plan, Planned, Surroundings, Transaction};
use crate::client::Port;
use crate::commands::{self, Progress};
use crate::dispatch::{KEY_TOO_LONG, has_long_key, resolve_name};
use crate::keyspace::{Call, Keyspace, OOM};
use crate::locks::{LockName, Mode};
use crate::monitor::put_words;
use crate::oversight::MASTERDOWN;
use crate::part::Outcome;
use crate::pubsub::publishes;
use crate::replies::{Content, Sink};
use crate::request::{Args, Request};
use crate::room::Made;
use crate::scripts::{NO_FUNCTION, bytes_of, is_read_only, keys_of};
use crate::tally::ErrorCode;

/// What a script may do for an element of a slice, see [`Run::resume`]: 1,000 loops and calls in all of it, some tens of microseconds.
const FUEL_PER_ELEMENT: u32 = 4;
/// Bytes of MONITOR's lines that one script has at most.
const LINES_SIZE_MAX: usize = 64 * 1024;

const NOSCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// Arguments that FUNCTION STATS shows of a call, and bytes of each, at most.
const SHOWN_COUNT_MAX: usize = 32;
const SHOWN_SIZE_MAX: usize = 128;

/// What KILL has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killed {
    Yes,
    HasWritten,
    /// It is a function where scripts are meant, or the other way round.
    NotMeant,
}

/// A function that runs.
pub(crate) struct RunningFunction {
    pub(crate) name: String,
    /// The command, as far as it is shown.
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) began_ns: u64,
}

/// A script under way, or a function.
pub(super) struct Scripted {
    run: Run,
    /// It runs even when there is no room for what it writes.
    allows_oom: bool,
    has_written: bool,
    /// What has been said can't be taken back.
    has_published: bool,
    is_killed: bool,
    began_ns: u64,
    /// The next of its arguments that the interpreter gets, and where its keys end.
    given: usize,
    keys_end: usize,
    /// The database that its SELECT has chosen.
    db: u16,
    /// What its last call has come to, and the bytes of it that are not read.
    answer: Option<Answer>,
    unread: Content,
    /// What it returns.
    returning: Option<Returning>,
    call: Option<Called>,
}

impl Scripted {
    /// Makes values of what its last call has come to, so many elements as there are in the budget.
    fn hear(&mut self, space: &mut Keyspace, budget: &mut Budget) {
        let answer = self.answer.as_mut().expect("it has called");
        let count = budget.elements as usize;
        let read = answer.read(space.scripts.engine(), count);
        budget.spend(read, 0);
        if read < count && !answer.is_whole() {
            let shard = &mut space.shard;
            let size = self.unread.take_front(
                budget.bytes as usize,
                |bytes| answer.push(bytes),
                |rope| shard.retire(rope),
            );
            assert!(size > 0, "a lane's reply is a whole one");
            budget.spend(0, size);
        }
    }
}

/// A list that a script has returned, as far as it has been written.
struct Returning {
    returned: Returned,
    /// What there is of those lists that are not through. How many elements a list has stands before them, and is known at its end.
    open: Vec<Content>,
}

impl Returning {
    /// Writes as many elements as there are in the budget; the reply, when it is whole.
    fn go_on(&mut self, space: &mut Keyspace, proto: Proto, budget: &mut Budget) -> Option<Content> {
        while !budget.is_spent() {
            let part = self.returned.next(space.scripts.engine()).expect("its first list ends last");
            let whole = match part {
                Part::Open => {
                    self.open.push(Content::default());
                    continue;
                }
                Part::Value(value) => {
                    let list = self.open.last_mut().expect("elements are of a list");
                    let before = list.size();
                    value.put(list, proto);
                    budget.spend(1, list.size() - before);
                    continue;
                }
                Part::Close(count) => {
                    budget.spend(1, 0);
                    let elements = self.open.pop().expect("a list ends that has begun");
                    let mut list = Content::default();
                    reply::array(&mut list, count);
                    list.append(elements);
                    list
                }
                Part::TooLarge => {
                    let text = b"ERR the script's reply is larger than script-memory-limit";
                    return Some(content_of(&Reply::Error(text.to_vec()), proto));
                }
            };
            match self.open.last_mut() {
                Some(around) => around.append(whole),
                None => return Some(whole),
            }
        }
        None
    }
}

/// What a script calls, the last one of the transaction's commands meanwhile; and what the transaction was about when it called.
struct Called {
    reply: Content,
    proto: Proto,
    db_after: u16,
    position: usize,
    stage: Stage,
}

enum Stage {
    Planning,
    /// It runs on this lane, and has come so far.
    Here(Progress),
    /// It is over, and what it has read is being remembered: so many keys are.
    Remembering(u64),
    /// Lanes run it, or the control thread.
    Away,
}

/// What stands against a call.
pub(super) enum Stray {
    /// A key that the script has not declared, or all of them.
    Undeclared(Vec<u8>),
    /// On a lane's own port, a key of another lane.
    Elsewhere,
}

impl Transaction {
    /// Whether the command at hand is a call of a script.
    pub(super) fn is_calling(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.call.is_some())
    }

    /// Another slice of the script at hand. It sees one time from its first call to its last, as parts do.
    pub(super) fn run_script(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> After {
        let now_ms = space.now.unix_ms;
        space.now.unix_ms = self.grant.at_ms;
        let whose = (around.lane, around.me);
        let was_unlocked = self.is_unlocked;
        if self.lanes.iter().any(|part| part.lane == around.lane && part.is_told) {
            space.feed_enter(whose, (self.stage, 0));
        }
        let after = self.go_on_with_script(space, around, budget);
        space.feed_leave();
        space.now.unix_ms = now_ms;
        // It begins anew, maybe elsewhere, or is over.
        if was_unlocked && (!self.is_unlocked || matches!(after, After::Reply(..))) {
            space.feed_end(whose, 1);
        }
        if self.is_unlocked && !matches!(after, After::Reply(..)) {
            // What it was about to do it does again when it has them.
            self.is_unlocked = false;
            self.phase = Phase::Locking { asked: 1, awaited: 1, is_refused: false };
            return After::Lock;
        }
        after
    }

    fn go_on_with_script(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> After {
        if self.script.is_none() {
            match self.begin_script(space, budget) {
                Ok(true) => {}
                Ok(false) => {
                    self.phase = Phase::Asking;
                    return After::Ask;
                }
                Err(refusal) => {
                    let reply = content_of(&refusal, self.proto);
                    return self.end_script(reply, space, around, budget);
                }
            }
        }
        loop {
            if budget.is_spent() {
                return After::Again;
            }
            if self.is_calling() {
                match self.go_on_with_call(space, around, budget) {
                    None => continue,
                    Some(after) => return after,
                }
            }
            let script = self.script.as_mut().expect("it has just begun, or before");
            if script.is_killed {
                let text = "ERR Error running script: Script killed by user with SCRIPT KILL.";
                let reply = content_of(&Reply::Error(text.into()), self.proto);
                return self.end_script(reply, space, around, budget);
            }
            let args = Args::Owned(&self.commands[self.position].request);
            if script.given < args.len() {
                let are_keys = script.given < script.keys_end;
                let end = if are_keys { script.keys_end } else { args.len() };
                let mut words = words_of(args, script.given, budget);
                words.truncate(end - script.given);
                script.given += words.len();
                let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
                if let Err(text) = space.scripts.engine().add(&script.run, are_keys, &words) {
                    let reply = content_of(&Reply::Error(text.into_bytes()), self.proto);
                    return self.end_script(reply, space, around, budget);
                }
                continue;
            }
            if script.answer.as_ref().is_some_and(|answer| !answer.is_whole()) {
                script.hear(space, budget);
                continue;
            }
            if let Some(returning) = &mut script.returning {
                match returning.go_on(space, self.proto, budget) {
                    None => continue,
                    Some(reply) => return self.end_script(reply, space, around, budget),
                }
            }
            let fuel = budget.elements.saturating_mul(FUEL_PER_ELEMENT);
            let (engine, cpu_ns) = (space.scripts.engine(), space.now.mono_ns);
            let step = script.run.resume(engine, script.answer.take(), fuel, cpu_ns);
            let used = fuel.saturating_sub(engine.fuel_left());
            budget.spend(1 + (used / FUEL_PER_ELEMENT) as usize, 0);
            match step {
                Step::More => {}
                Step::Log { level, text } => self.script_log.push((level, text)),
                Step::Call { words, proto, .. } => {
                    budget.spend(0, words.iter().map(Vec::len).sum());
                    self.call(words, proto, space, around);
                }
                Step::Done(reply) => {
                    let reply = content_of(&reply, self.proto);
                    return self.end_script(reply, space, around, budget);
                }
                Step::Return(returned) => {
                    script.returning = Some(Returning { returned, open: Vec::new() });
                }
            }
        }
    }

    /// Begins the script of the command at hand; false if the control thread has to be asked for it first.
    fn begin_script(&mut self, space: &mut Keyspace, budget: &mut Budget) -> Result<bool, Reply> {
        let planned = &mut self.commands[self.position];
        if let Some((_, Outcome::Reply(content))) = planned.outcomes.pop()
            && content.front().first() == Some(&b'-')
        {
            return Err(Reply::Error(error_in(&content)));
        }
        let command = planned.command;
        let args = Args::Owned(&planned.request);
        let keys = keys_of(args);
        let keys = keys.map_err(|text| Reply::Error(space.scripts.wrong_keys(command, args, text).into()))?;
        let Some(code) = planned.named.as_deref().and_then(|named| space.scripts.code(named)) else {
            return match command.id {
                Id::Eval | Id::EvalRo => Ok(false),
                Id::Fcall | Id::FcallRo => Err(Reply::Error(NO_FUNCTION.into())),
                _ => Err(Reply::Error(NOSCRIPT.into())),
            };
        };
        let flags = code.flags();
        if flags.no_cluster && self.port == Port::Lane {
            let text = "ERR Can not run script on cluster, 'no-cluster' flag is set.";
            return Err(Reply::Error(text.into()));
        }
        if is_read_only(command) && flags.is_declared && !flags.no_writes {
            let text = "ERR Can not execute a script with write flag using *_ro command.";
            return Err(Reply::Error(text.into()));
        }
        if args.size() > space.scripts.memory_size_max() {
            let text = "ERR the arguments of this script are larger than script-memory-limit";
            return Err(Reply::Error(text.into()));
        }
        let is_read_only = is_read_only(command) || flags.no_writes;
        if let Some(why) = space.writes_refused
            && flags.is_declared
            && !is_read_only
        {
            return Err(Reply::Error(why.into()));
        }
        if space.is_stale && !flags.allow_stale {
            return Err(Reply::Error(MASTERDOWN.into()));
        }
        let words = words_of(args, keys.start, budget);
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        let (first, others) = words.split_at(keys.len().min(words.len()));
        let begun = code.begin(space.scripts.engine(), is_read_only, first, others);
        let run = begun.map_err(|text| Reply::Error(text.into_bytes()))?;
        self.script = Some(Box::new(Scripted {
            run,
            allows_oom: flags.allow_oom,
            has_written: false,
            has_published: false,
            is_killed: false,
            began_ns: space.now.mono_ns,
            given: keys.start + words.len(),
            keys_end: keys.end,
            db: planned.db,
            answer: None,
            unread: Content::default(),
            returning: None,
            call: None,
        }));
        Ok(true)
    }

    /// What the control thread is asked for a script that no lane knows yet.
    pub(super) fn script_to_load(&self) -> Request {
        let mut request = Request::default();
        let asked = &self.commands[self.position].request;
        (0..2).for_each(|index| request.push(asked.get(index)));
        request
    }

    /// The script has ended: its reply is that of the command.
    fn end_script(
        &mut self,
        reply: Content,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> After {
        self.drop_script(space);
        self.begin_reply();
        self.reply.append(reply);
        self.count_command(self.position, space);
        self.stage_end = self.position + 1;
        self.at = (self.stage_end, 0);
        self.phase = Phase::Combining;
        self.combine(space, around, budget)
    }

    fn drop_script(&mut self, space: &mut Keyspace) {
        if let Some(script) = self.script.take() {
            space.discard_content(script.unread);
            let unsent = script.returning.into_iter().flat_map(|returning| returning.open);
            unsent.for_each(|content| space.discard_content(content));
        }
    }

    /// SCRIPT KILL and FUNCTION KILL: ends a script, or a function, that has run since before `before_ns`. None if there is no such thing
    /// here.
    pub(crate) fn kill_script(&mut self, before_ns: u64, are_functions: bool) -> Option<Killed> {
        let script = self.script.as_mut().filter(|script| script.began_ns <= before_ns)?;
        if script.run.function().is_some() != are_functions {
            return Some(Killed::NotMeant);
        }
        script.is_killed |= !script.has_written;
        Some(if script.is_killed { Killed::Yes } else { Killed::HasWritten })
    }

    /// The function that runs, as FUNCTION STATS shows it.
    pub(crate) fn running_function(&self) -> Option<RunningFunction> {
        let script = self.script.as_ref()?;
        let name = script.run.function()?.name.clone();
        let position = script.call.as_ref().map_or(self.position, |called| called.position);
        let request = &self.commands[position].request;
        let words = (0..request.len().min(SHOWN_COUNT_MAX)).map(|index| {
            let word = request.get(index).flat().unwrap_or_default();
            word[..word.len().min(SHOWN_SIZE_MAX)].to_vec()
        });
        Some(RunningFunction { name, words: words.collect(), began_ns: script.began_ns })
    }

    // ---- what it calls

    /// The script calls a command: refused at once, or the last of the transaction's commands from now on.
    fn call(&mut self, words: Vec<Vec<u8>>, proto: Proto, space: &mut Keyspace, around: &Surroundings<'_>) {
        let script = self.script.as_mut().expect("a script calls");
        let request = Request::of_words(&words);
        let args = Args::Owned(&request);
        let resolved = match resolve_call(&request, script.run.is_read_only()) {
            Ok(command) if command.id == Id::Select && self.port == Port::Lane => {
                Err(("ERR SELECT is not allowed in cluster mode", Some(command)))
            }
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
                script.answer = Some(Answer::error(text));
                return;
            }
        };
        if around.is_monitored && !command.flags.has(Flag::Admin) && self.script_lines.len() < LINES_SIZE_MAX
        {
            let (seconds, ms) = (space.now.unix_ms.div_euclid(1000), space.now.unix_ms.rem_euclid(1000));
            let mut line = String::new();
            write!(line, "+{seconds}.{ms:03}000 [{} lua]", script.db).expect("memory can be written");
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
            stage: Stage::Planning,
        });
        self.at = (index, 0);
        self.lanes.iter_mut().for_each(|part| part.growth = None);
    }

    /// Another slice of what is called; none when it is answered.
    fn go_on_with_call(
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
                let order: Vec<u16> = self.lanes.iter().map(|part| part.lane).collect();
                self.commands[index].settle(&order, space);
                self.start_call(index, space, around)
            }
            Stage::Here(progress) => {
                let planned = &self.commands[index];
                let args = Args::Owned(&planned.request);
                let (command, db, proto) = (planned.command, planned.db, self.proto);
                let call = Call { command, args, db, proto, route: None, port: self.port };
                let mut sink = Sink::Part(&mut self.reply);
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
            Stage::Away => unreachable!("who is away is waited for"),
        }
    }

    /// A command over all keys, or over those of a partition, needs all of them declared.
    fn look_at_scope(&mut self, index: usize) {
        let command = self.commands[index].command;
        if matches!(command.scope, Scope::AllLanes(_) | Scope::Partition) && !self.holds_all {
            self.stray = Some(Stray::Undeclared(b"*".to_vec()));
        }
    }

    /// Whether a script may use a key like that.
    pub(super) fn may_use(&self, name: LockName, mode: Mode) -> bool {
        let is_declared = |&is_exclusive: &bool| is_exclusive || mode == Mode::Shared;
        self.holds_all || self.declared.get(&name).is_some_and(is_declared)
    }

    /// All keys of a call are where they may be.
    fn start_call(&mut self, index: usize, space: &mut Keyspace, around: &Surroundings<'_>) -> Option<After> {
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

    fn send_call(&mut self, index: usize) -> After {
        if self.is_unlocked {
            return After::Again;
        }
        let script = self.script.as_mut().expect("it calls");
        script.call.as_mut().expect("it calls").stage = Stage::Away;
        if script.allows_oom {
            self.lanes.iter_mut().for_each(|part| part.growth = None);
        }
        self.position = index;
        self.begin_stage()
    }

    /// The lanes' answers to a call have become its reply.
    pub(super) fn hear_call(&mut self, space: &mut Keyspace) -> After {
        self.end_call(space);
        self.phase = Phase::Scripting;
        After::Again
    }

    /// The reply of a call is whole: the script hears it next.
    fn end_call(&mut self, space: &mut Keyspace) {
        let proto = self.proto;
        let content = self.drop_call(space);
        let script = self.script.as_mut().expect("it has called");
        if content.size() > space.scripts.memory_size_max() {
            space.discard_content(content);
            script.answer = Some(Answer::error("ERR the reply is larger than script-memory-limit"));
        } else {
            script.unread = content;
            script.answer = Some(Answer::new(proto));
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
        self.script.as_mut().expect("it has called").answer = Some(Answer::error(text));
    }

    /// A call is about keys that are not held for it.
    fn went_astray(&mut self, stray: Stray, space: &mut Keyspace) -> Option<After> {
        self.drop_call(space);
        let script = self.script.as_mut().expect("it has called");
        let Stray::Undeclared(key) = stray else {
            let text = "ERR Script attempted to access a non local key in a cluster node";
            script.answer = Some(Answer::error(text));
            return None;
        };
        if let Some(named) = self.commands[self.position].named.as_deref() {
            space.scripts.note_reach(named);
        }
        if script.has_written || script.has_published || self.position > 0 {
            let mut text = b"ERR Script attempted to access a key that is not among its KEYS, after something was written: '".to_vec();
            text.extend_from_slice(reply::quoted(&key));
            text.extend_from_slice(b"'. It holds all keys the next time it is called");
            script.answer = Some(Answer::error(text));
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
        Err(_) => return Err(("ERR Unknown Redis command called from script", None)),
    };
    // MIGRATE has no such flag in Redis, and here no lock waits for another server.
    if command.flags.has(Flag::Noscript) || command.is_container() || command.id == Id::Migrate {
        return Err(("ERR This Redis command is not allowed from script", Some(command)));
    }
    if is_read_only && (command.writes() || publishes(command)) {
        return Err(("ERR Write commands are not allowed from read-only scripts.", Some(command)));
    }
    if has_long_key(request, command) {
        return Err((KEY_TOO_LONG, Some(command)));
    }
    Ok(command)
}

/// So many of the arguments from one on as a slice has room for: one at least, if there is one.
fn words_of<'a>(args: Args<'a>, from: usize, budget: &mut Budget) -> Vec<Cow<'a, [u8]>> {
    let mut words = Vec::new();
    while from + words.len() < args.len() && (words.is_empty() || !budget.is_spent()) {
        let word = bytes_of(args.get(from + words.len()));
        budget.spend(1, word.len());
        words.push(word);
    }
    words
}

fn content_of(reply: &Reply, proto: Proto) -> Content {
    let mut content = Content::default();
    reply.put(&mut content, proto);
    content
}

/// The text of a short error.
fn error_in(content: &Content) -> Vec<u8> {
    let line = content.front().strip_prefix(b"-").unwrap_or_default();
    line.strip_suffix(b"\r\n").unwrap_or(line).to_vec()
}
