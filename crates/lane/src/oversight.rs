//! Commands that are looked at one by one before they run: a client is not to hear replies, clients are paused,
//! somebody monitors, the order over lanes is strict, nothing may be written, data are being loaded, or its user may not do everything. On a lane without any of this, one test in `dispatch` is all it costs.

use std::hint::cold_path;

use net::Output;
use wire::command::{Command, Flag, Id, Refusal, Scope};

use crate::admin::Pause;
use crate::client::{Client, Dialect, Hush};
use crate::core::Core;
use crate::dispatch::{Caller, Flow, Input, Owner, halt};
use crate::monitor;
use crate::multi::is_queued;
use crate::pubsub::{is_refused_to_subscriber, subscribes};
use crate::request::Args;
use crate::{Following, Now};

impl Core {
    /// What every client's next command is asked has changed.
    pub(crate) fn oversee(&mut self) {
        let holds = self.pause.is_some() || self.holds_writes;
        self.is_overseen = holds || self.monitoring.is_on || self.settings.wants_oversight();
    }

    /// The instant of this turn. While data are loaded no key ends: a command of the log may be about one that has ended since.
    pub(crate) fn set_now(&mut self, now: Now) {
        self.space.wall_ms = now.unix_ms;
        self.space.now = now;
        if self.settings.is_loading {
            cold_path();
            self.space.now.unix_ms = 0;
        }
        self.space.shard.set_clock(self.space.now.unix_ms);
    }

    /// Unix milliseconds as clients are told: in a transaction its own.
    pub(crate) fn told_ms(&self) -> i64 {
        if self.settings.is_loading { self.space.wall_ms } else { self.space.now.unix_ms }
    }

    /// Begins or ends a pause.
    pub(crate) fn set_pause(&mut self, pause: Option<Pause>) {
        self.pause = pause;
        self.oversee();
    }

    /// What would write is held back, or not any more.
    pub(crate) fn set_holds_writes(&mut self, holds: bool) {
        self.holds_writes = holds;
        self.oversee();
    }

    /// Somebody monitors, or nobody any more.
    pub(crate) fn set_monitored(&mut self, is_on: bool) {
        self.monitoring.is_on = is_on;
        self.oversee();
    }

    /// As [`Core::dispatch`], with everything that may stand before a command or come after it.
    #[cold]
    pub(crate) fn dispatch_overseen(
        &mut self,
        caller: &mut Caller<'_>,
        resolved: Result<&'static Command, Refusal>,
        input: &mut Input<'_>,
    ) -> Flow {
        let Ok(command) = resolved else {
            return self.dispatch_muted(caller, resolved, input);
        };
        // This program waits for nobody, and nobody is to see what it does.
        if caller.client.is_inner {
            return self.dispatch_aside(caller, resolved, input);
        }
        if caller.client.dialect == Dialect::Redis
            && caller.client.is_authenticated
            && let Some(flow) = self.deny(caller, command, input)
        {
            return flow;
        }
        if self.settings.is_loading {
            if command.is_of_a_dialect() {
                // Its documents and records have ends, too, and no word for this state: it waits.
                self.hold(caller.client);
                return halt(input);
            }
            let may_be_told = caller.client.is_authenticated || command.flags.has(Flag::NoAuth);
            if may_be_told && !may_run_while_loading(caller.client, command) {
                return self.reject(caller, command, LOADING);
            }
        }
        if let Some(following) = self.settings.follows
            && caller.client.is_authenticated
            && let Some(why) = refusal_of_follower(following, caller.client, command)
        {
            return self.reject(caller, command, why);
        }
        if caller.client.is_authenticated || command.flags.has(Flag::NoAuth) {
            let end = self.holds_writes.then_some(Pause::OF_WRITES);
            let may_write = || self.may_write(command, input.args());
            if self.pause.into_iter().chain(end).any(|it| it.holds(command, may_write(), caller.client)) {
                self.hold(caller.client);
                return halt(input);
            }
            if caller.client.is_monitor
                && (command.flags.has(Flag::Write) || command.flags.has(Flag::Readonly))
            {
                return caller.refuse("ERR Replica can't interact with the keyspace");
            }
        }
        if self.settings.is_strict && command.scope == Scope::Key && !is_queued(caller.client, command.id) {
            let owner = match self.owner_of_key(command, caller.client.db, input) {
                Some(Owner::Other { lane, .. }) => lane,
                Some(Owner::Here(_)) | None => self.id,
            };
            // All that is not answered was asked of one lane, which keeps its order.
            if !caller.client.is_even() && owner != caller.client.asked_lane {
                return halt(input);
            }
            caller.client.asked_lane = owner;
        }
        if !self.is_shown(caller.client, command) || is_queued(caller.client, command.id) {
            return self.dispatch_muted(caller, resolved, input);
        }
        // It waits until all before it is answered, and is looked at again with each answer.
        if command.id == Id::Exec && !caller.client.is_even() {
            return halt(input);
        }
        let words_of = |args: Args<'_>| {
            let mut words = Vec::new();
            monitor::put_words(&mut words, command, args);
            words
        };
        let runs = caller.client.multi.as_deref().filter(|multi| command.id == Id::Exec && !multi.is_broken);
        let waits = runs.is_some();
        // What stays in the input is written once it has not halted.
        let (view, words) = match &input {
            Input::View { input, ranges, .. } if !waits => (Some(Args::View { input, ranges }), Vec::new()),
            _ => (None, words_of(input.args())),
        };
        self.monitoring.exec = runs.map(|multi| Box::new(self.exec_lines(caller.client, multi, &words)));
        let moved_count = self.stats.commands_moved;
        let flow = self.dispatch_muted(caller, resolved, input);
        self.monitoring.exec = None;
        if !waits && !matches!(flow, Flow::Halt(_)) && self.stats.commands_moved == moved_count {
            self.show(caller.client, &view.map_or(words, words_of));
        }
        flow
    }

    /// Refuses a command beforehand, and breaks its MULTI; an EXEC ends it. As in Redis it was not called then.
    pub(crate) fn reject(&mut self, caller: &mut Caller<'_>, command: &Command, text: &str) -> Flow {
        if command.id != Id::Exec {
            // Where it is counted as failed, that takes a call back.
            if !is_queued(caller.client, command.id) {
                self.space.tally.called(command.id, 1);
            }
            if let Some(multi) = &mut caller.client.multi {
                multi.is_broken = true;
            }
            return caller.refuse(text);
        }
        self.abort(caller);
        caller.refuse(&format!("EXECABORT Transaction discarded because of: {text}"))
    }

    /// A client that has said CLIENT REPLY OFF or SKIP. One command after the other: what is in its replies is this
    /// command's alone.
    fn dispatch_muted(
        &mut self,
        caller: &mut Caller<'_>,
        resolved: Result<&'static Command, Refusal>,
        input: &mut Input<'_>,
    ) -> Flow {
        if caller.client.hush == Hush::Heard {
            return self.dispatch_aside(caller, resolved, input);
        }
        if !caller.client.replies.is_empty() {
            return halt(input);
        }
        let was = caller.client.hush;
        if resolved.is_ok_and(|command| subscribes(command) && !is_queued(caller.client, command.id)) {
            let flow = self.dispatch_aside(caller, resolved, input);
            if was == Hush::Next && !matches!(flow, Flow::Halt(_)) {
                caller.client.hush = Hush::Heard;
            }
            return flow;
        }
        if resolved.is_ok_and(|command| is_heard(caller.client, command, input.args())) {
            return self.dispatch_aside(caller, resolved, input);
        }
        let flow = self.dispatch_aside(&mut caller.aside(&mut Output::new()), resolved, input);
        caller.client.replies.mute();
        if was == Hush::Next && !matches!(flow, Flow::Halt(_)) {
            caller.client.hush = Hush::Heard;
        }
        flow
    }

    /// [`Core::dispatch_heard`] once more, apart from the path of most commands.
    #[inline(never)]
    fn dispatch_aside(
        &mut self,
        caller: &mut Caller<'_>,
        resolved: Result<&'static Command, Refusal>,
        input: &mut Input<'_>,
    ) -> Flow {
        if let Ok(command) = resolved
            && is_refused_to_subscriber(caller.client, command)
        {
            if let Some(multi) = &mut caller.client.multi {
                multi.is_broken = true;
            }
            let why = format!(
                "Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                command.name
            );
            if command.id == Id::Exec {
                self.abort(caller);
                return caller.refuse(&format!("EXECABORT Transaction discarded because of: {why}"));
            }
            return caller.refuse(&format!("ERR {why}"));
        }
        if let Some(why) = self.settings.writes_refused
            && let Ok(command) = resolved
            && caller.client.is_authenticated
            && !caller.client.is_inner
            && writes_for_redis(caller.client, command)
        {
            return self.reject(caller, command, why);
        }
        let command = resolved.ok();
        let reading =
            if caller.client.is_tracking { self.begin_reading(caller, command, input) } else { None };
        let flow = self.dispatch_heard(caller, resolved, input);
        if let Some(reading) = reading {
            self.end_reading(caller, command, reading, &flow);
        }
        flow
    }
}

/// What clients that would write are told while another server says what is written.
pub const READONLY: &str = "READONLY You can't write against a read only replica.";
/// What clients are told while data come from a file, or from the server that this one follows.
pub(crate) const LOADING: &str = "LOADING Redis is loading the dataset in memory";

pub(crate) const MASTERDOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

/// Why a server that follows another one refuses a command, in Redis' order.
fn refusal_of_follower(following: Following, client: &Client, command: &Command) -> Option<&'static str> {
    match following {
        _ if command.is_of_a_dialect() => None,
        Following::Serves => None,
        _ if writes_for_redis(client, command) => Some(READONLY),
        Following::IsStale => {
            let may_run = match command.id {
                Id::Exec => client.multi.as_ref().is_none_or(|multi| !multi.queued.needs_news),
                _ => command.flags.has(Flag::Stale),
            };
            (!may_run).then_some(MASTERDOWN)
        }
        // Who is in the middle of it may change his mind.
        Following::Loads if matches!(command.id, Id::Replicaof | Id::Slaveof) => None,
        Following::Loads => (!may_run_while_loading(client, command)).then_some(LOADING),
    }
}

/// Whether a command may run while Redis' databases are loaded, as the table says; an EXEC if what it carries out may.
fn may_run_while_loading(client: &Client, command: &Command) -> bool {
    match command.id {
        Id::Exec => client.multi.as_ref().is_none_or(|multi| !multi.queued.needs_data),
        _ => command.flags.has(Flag::Loading),
    }
}

/// Whether a command of Redis' writes, or is an EXEC of such. A script is another matter: what it calls does, or does not.
fn writes_for_redis(client: &Client, command: &Command) -> bool {
    let queued = || client.multi.as_ref().filter(|multi| !multi.is_broken);
    match command.id {
        Id::Exec => queued().is_some_and(|multi| multi.queued.has_writer),
        _ => command.writes() && !command.is_of_a_dialect(),
    }
}

/// Whether a client that hears no replies is answered all the same: what it says of replies holds for itself already, and RESET
/// ends CLIENT REPLY OFF.
fn is_heard(client: &Client, command: &Command, args: Args<'_>) -> bool {
    let says = |word: &&[u8]| args.flat(2).eq_ignore_ascii_case(word);
    match command.id {
        _ if is_refused_to_subscriber(client, command) => false,
        Id::ClientReply => !is_queued(client, command.id) && [&b"on"[..], b"off", b"skip"].iter().any(says),
        Id::Reset => client.hush == Hush::Off,
        _ => false,
    }
}
