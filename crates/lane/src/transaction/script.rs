//! A script: it runs on the lane that owns its keys, or its client's, a slice at a time, and what it calls (`call`) is planned and run as a
//! command of a MULTI is, under the locks of the keys that it has declared. Where nobody holds those it begins without.
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

use script::{Answer, Part, Step};
use store::Budget;
use wire::client::Reply;
use wire::command::Id;
use wire::reply::{self, Proto};

use super::{After, Phase, Surroundings, Transaction};
use crate::client::Port;
use crate::keyspace::Keyspace;
use crate::oversight::MASTERDOWN;
use crate::part::Outcome;
use crate::replies::Content;
use crate::request::{Args, Request};
use crate::scripts::{Interpreted, NO_FUNCTION, NOSCRIPT, Scripts, bytes_of, is_read_only, keys_of};
use crate::slab::Handle;

mod call;

use call::Called;
pub(super) use call::Stray;

/// What a script may do for an element of a slice, see [`script::Run::resume`]: 1,000 loops and calls in all of it, some tens of microseconds.
const FUEL_PER_ELEMENT: u32 = 4;

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
    inside: Handle<Interpreted>,
    /// It runs even when there is no room for what it writes.
    allows_oom: bool,
    /// On a lane's own port, its calls may be of several slots, though each of one.
    crosses_slots: bool,
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
    /// Of what its last call has come to, the bytes that are not read.
    unread: Content,
    /// What there is of those lists that it returns and that are not through. How many elements a list has stands before them, and is known at
    /// its end.
    open: Vec<Content>,
    call: Option<Called>,
}

impl Scripted {
    /// Makes values of what its last call has come to, so many elements as there are in the budget.
    fn hear(&mut self, space: &mut Keyspace, budget: &mut Budget) {
        let (inside, engine) = space.scripts.interpret(self.inside);
        let answer = inside.answer.as_mut().expect("it has called");
        if answer.is_hungry() {
            let shard = &mut space.shard;
            let size = self.unread.take_front(
                budget.bytes as usize,
                |bytes| answer.push(bytes),
                |rope| shard.retire(rope),
            );
            assert!(size > 0, "a lane's reply is a whole one");
            budget.spend(0, size);
        }
        budget.spend(answer.read(engine, budget.elements as usize), 0);
    }

    /// Writes as many elements of what it returns as there are in the budget; the reply, when it is whole.
    fn write(&mut self, space: &mut Keyspace, proto: Proto, budget: &mut Budget) -> Option<Content> {
        let (inside, engine) = space.scripts.interpret(self.inside);
        let returned = inside.returned.as_mut().expect("it returns a list");
        while !budget.is_spent() {
            let part = returned.next(engine).expect("its first list ends last");
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

    /// What its call has come to.
    fn answer(&self, answer: Answer, space: &mut Keyspace) {
        space.scripts.interpret(self.inside).0.answer = Some(answer);
    }
}

impl Transaction {
    /// Another slice of the script at hand. It sees one time from its first call to its last, as parts do.
    pub(super) fn run_script(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> After {
        let now = space.now;
        space.now = now.back_at(self.grant.at_ms);
        let whose = (around.lane, around.me);
        let was_unlocked = self.is_unlocked;
        if self.lanes.iter().any(|part| part.lane == around.lane && part.is_told) {
            space.feed_enter(whose, (self.stage, 0));
        }
        let after = self.go_on_with_script(space, around, budget);
        space.feed_leave();
        space.now = now;
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
                let (inside, engine) = space.scripts.interpret(script.inside);
                if let Err(text) = engine.add(&inside.run, are_keys, &words) {
                    let reply = content_of(&Reply::Error(text.into_bytes()), self.proto);
                    return self.end_script(reply, space, around, budget);
                }
                continue;
            }
            let (inside, engine) = space.scripts.interpret(script.inside);
            if inside.answer.as_ref().is_some_and(|answer| !answer.is_whole()) {
                script.hear(space, budget);
                continue;
            }
            if inside.returned.is_some() {
                match script.write(space, self.proto, budget) {
                    None => continue,
                    Some(reply) => return self.end_script(reply, space, around, budget),
                }
            }
            let fuel = budget.elements.saturating_mul(FUEL_PER_ELEMENT);
            let step = inside.run.resume(engine, inside.answer.take(), fuel, space.now.mono_ns);
            let used = fuel.saturating_sub(engine.fuel_left());
            budget.spend(1 + (used / FUEL_PER_ELEMENT) as usize, 0);
            match step {
                Step::More => {}
                Step::Log { level, text } => self.script_log.push((level, text)),
                Step::Call { words, proto, .. } => {
                    budget.spend(0, words.size());
                    self.call(&words, proto, space, around);
                }
                Step::Done(reply) => {
                    let is_counted = inside.run.is_error_counted();
                    let mut reply = content_of(&reply, self.proto);
                    // The error is counted, and that the script has failed with it is not.
                    if is_counted && !reply.take_errors().is_empty() {
                        space.tally.failed(self.commands[self.position].command.id, Vec::new());
                    }
                    return self.end_script(reply, space, around, budget);
                }
                Step::Return(returned) => {
                    inside.returned = Some(returned);
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
        if args.size() > space.scripts.memory_size_max() {
            let text = "ERR the arguments of this script are larger than script-memory-limit";
            return Err(Reply::Error(text.into()));
        }
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
            inside: space.scripts.add(run),
            allows_oom: flags.allow_oom,
            crosses_slots: !flags.is_declared || flags.allow_cross_slot_keys,
            has_written: false,
            has_published: false,
            is_killed: false,
            began_ns: space.now.mono_ns,
            given: keys.start + words.len(),
            keys_end: keys.end,
            db: planned.db,
            unread: Content::default(),
            open: Vec::new(),
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

    pub(super) fn drop_script(&mut self, space: &mut Keyspace) {
        if let Some(script) = self.script.take() {
            space.scripts.remove(script.inside);
            space.discard_content(script.unread);
            script.open.into_iter().for_each(|content| space.discard_content(content));
        }
    }

    /// SCRIPT KILL and FUNCTION KILL: ends a script, or a function, that has run since before `before_ns`. None if there is no such thing
    /// here.
    pub(crate) fn kill_script(
        &mut self,
        scripts: &Scripts,
        before_ns: u64,
        are_functions: bool,
    ) -> Option<Killed> {
        let script = self.script.as_mut().filter(|script| script.began_ns <= before_ns)?;
        if scripts.get_under_way(script.inside).run.function().is_some() != are_functions {
            return Some(Killed::NotMeant);
        }
        script.is_killed |= !script.has_written;
        Some(if script.is_killed { Killed::Yes } else { Killed::HasWritten })
    }

    /// The function that runs, as FUNCTION STATS shows it.
    pub(crate) fn running_function(&self, scripts: &Scripts) -> Option<RunningFunction> {
        let script = self.script.as_ref()?;
        let name = scripts.get_under_way(script.inside).run.function()?.name.clone();
        let position = script.call.as_ref().map_or(self.position, |called| called.position);
        let request = &self.commands[position].request;
        let words = (0..request.len().min(SHOWN_COUNT_MAX)).map(|index| {
            let word = request.get(index).flat().unwrap_or_default();
            word[..word.len().min(SHOWN_SIZE_MAX)].to_vec()
        });
        Some(RunningFunction { name, words: words.collect(), began_ns: script.began_ns })
    }
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
