//! What the commands mean that the control thread answers: at once, or when lanes have done their part.

use std::sync::Arc;

use wire::command::Id;
use wire::reply::{self, OK, Put};

use super::config::{PATTERN_COUNT_MAX, refusal};
use super::times::OwnTimes;
use super::{
    Asker, Begun, Control, Machine, Shutdown, clients, debug, info, memcached, pages, pubsub, scripts,
    slowlog, tracking,
};
use crate::Now;
use crate::admin::{Census, Order, Portrait, Question, Report};
use crate::request::Args;
use crate::stats::Traffic;

impl Control {
    /// Answers, or says what lanes have to do first.
    pub(super) fn begin(
        &mut self,
        asker: Asker,
        question: &Question,
        now: Now,
        machine: &mut impl Machine,
        out: &mut Vec<u8>,
    ) -> Begun {
        let args = Args::Owned(&question.request);
        let proto = question.from.proto;
        match question.command.id {
            Id::PubsubChannels
            | Id::PubsubNumpat
            | Id::PubsubNumsub
            | Id::PubsubShardchannels
            | Id::PubsubShardnumsub => return pubsub::begin(question, out),
            Id::SlowlogGet => self.slow.get(args, out),
            Id::SlowlogLen => self.slow.len(out),
            Id::SlowlogReset => self.slow.reset(out),
            Id::LatencyLatest
            | Id::LatencyHistory
            | Id::LatencyReset
            | Id::LatencyGraph
            | Id::LatencyDoctor => {
                let threshold_ms = self.latency_threshold_ms();
                self.delays.answer(question.command.id, args, proto, now, threshold_ms, out);
            }
            Id::LatencyHistogram if args.len() - 2 > Id::COUNT => {
                reply::error(
                    out,
                    &format!("ERR too many names, at most {} are looked up in one call", Id::COUNT),
                );
            }
            Id::Info | Id::MemoryStats | Id::MemoryDoctor | Id::LatencyHistogram => {
                return Begun::InSight(Order::Census);
            }
            Id::DocumentStats if memcached::Group::of(args) == memcached::Group::Reset => {
                return Begun::Everywhere(Order::ResetStats);
            }
            Id::DocumentStats | Id::PageStatus => return Begun::InSight(Order::Census),
            Id::ClientList => match clients::list_filter(args, &question.from) {
                Ok(filter) => return Begun::InSight(Order::List(Arc::new(filter))),
                Err(text) => reply::error_bytes(out, &text),
            },
            Id::ClientKill => match clients::kill_filter(args, &question.from, &self.settings.users) {
                Ok((filter, _)) => return Begun::InSight(Order::Kill(Arc::new(filter))),
                Err(text) => reply::error_bytes(out, &text),
            },
            Id::ClientTracking => return tracking::begin(asker, question, out),
            Id::ClientPause => match clients::pause(args, now.mono_ns) {
                Ok(pause) => return Begun::Everywhere(Order::Pause(pause)),
                Err(text) => reply::error_bytes(out, &text),
            },
            Id::ClientUnblock => self.unblock(args, now, out),
            Id::ClientUnpause => return Begun::Everywhere(Order::Unpause),
            Id::ConfigGet if args.len() - 2 > PATTERN_COUNT_MAX => {
                reply::error(
                    out,
                    &format!("ERR too many patterns, at most {PATTERN_COUNT_MAX} are looked up in one call"),
                );
            }
            Id::ConfigGet => {
                let config = self.config.seen_at(question.from.port);
                config.get((2..args.len()).map(|index| args.flat(index)), proto, out);
            }
            Id::ConfigSet => return self.config_set(args, now, machine, out),
            Id::ConfigResetstat => return Begun::Everywhere(Order::ResetStats),
            Id::ConfigRewrite => match self.rewrite(machine) {
                Ok(()) => out.put(OK),
                Err(why) => reply::error(out, &format!("ERR {why}")),
            },
            Id::AclDeluser
            | Id::AclDryrun
            | Id::AclGenpass
            | Id::AclGetuser
            | Id::AclList
            | Id::AclLoad
            | Id::AclLog
            | Id::AclSave
            | Id::AclSetuser
            | Id::AclUsers => return self.begin_acl(question, now, machine, out),
            Id::Debug => return self.begin_debug(asker, question, now, out),
            Id::Monitor => return self.begin_monitor(asker, question.from.port),
            Id::Sync | Id::Psync => return self.begin_replica(asker, question, out),
            Id::Migrate => return self.begin_migrate(question, out),
            Id::Wait => return self.begin_wait(asker, question, now, out),
            Id::Role => {
                if !self.led_role(out) {
                    self.role(out);
                }
            }
            Id::Replicaof | Id::Slaveof => {
                return self.begin_following(asker, question, now, machine, out);
            }
            id @ (Id::Save | Id::Bgsave | Id::Bgrewriteaof | Id::Lastsave) => {
                return self.begin_file_command(asker, id, args, now, machine, out);
            }
            Id::Shutdown => return self.begin_shutdown(asker, args, machine, out),
            Id::MemoryPurge => out.put(OK),
            Id::ScriptExists | Id::ScriptFlush | Id::ScriptKill | Id::ScriptLoad | Id::Eval | Id::EvalRo => {
                return self.begin_script(question, now, out);
            }
            Id::FunctionDelete
            | Id::FunctionDump
            | Id::FunctionFlush
            | Id::FunctionKill
            | Id::FunctionList
            | Id::FunctionLoad
            | Id::FunctionRestore
            | Id::FunctionStats => return self.begin_function(question, now, machine, out),
            Id::MemoryMallocStats => {
                reply::verbatim(
                    out,
                    proto,
                    b"txt",
                    b"Keys and values lie in each lane's own region; see INFO lanes.\n",
                );
            }
            _ => {
                let text = format!("ERR the command '{}' is not served yet", question.command.name);
                reply::error(out, &text);
            }
        }
        Begun::Answered
    }

    /// Answers, now that every lane has done its part.
    pub(super) fn conclude(
        &mut self,
        question: &Question,
        reports: Vec<(u16, Report)>,
        now: Now,
        machine: &mut impl Machine,
        out: &mut Vec<u8>,
    ) {
        let args = Args::Owned(&question.request);
        let proto = question.from.proto;
        match question.command.id {
            Id::Info => {
                let sections: Vec<&[u8]> = (1..args.len()).map(|index| args.flat(index)).collect();
                let mut view = self.view(question, &reports, now, machine);
                if info::shows_lanes(&sections) {
                    let sign = |(lane, census): &(u16, &Census)| {
                        machine.signature(*lane, census.memory.resident, now)
                    };
                    view.signatures = view.lanes.iter().map(sign).collect();
                }
                let text = view.text(&sections);
                reply::verbatim(out, proto, b"txt", text.as_bytes());
            }
            Id::AclDeluser | Id::AclLoad | Id::AclSetuser => self.conclude_acl(question, out),
            Id::Debug => debug::conclude(args, reports, out),
            // What it gets comes in pieces.
            Id::Sync | Id::Psync => {}
            Id::PubsubChannels
            | Id::PubsubNumpat
            | Id::PubsubNumsub
            | Id::PubsubShardchannels
            | Id::PubsubShardnumsub => pubsub::conclude(question, reports, out),
            Id::ScriptFlush | Id::ScriptKill | Id::FunctionKill | Id::ScriptLoad | Id::Eval | Id::EvalRo => {
                scripts::conclude(question, &reports, out);
            }
            Id::FunctionLoad
            | Id::FunctionDelete
            | Id::FunctionFlush
            | Id::FunctionRestore
            | Id::FunctionStats => self.conclude_function(question, &reports, now, out),
            Id::DocumentStats => memcached::put(args, &self.view(question, &reports, now, machine), out),
            Id::PageStatus => {
                let map = Arc::clone(&self.map);
                pages::put(args, &map, &self.view(question, &reports, now, machine), out);
            }
            Id::ConfigResetstat => {
                self.forget_syncs();
                self.times = OwnTimes::new(self.lane_count);
                out.put(OK);
            }
            Id::LatencyHistogram => {
                let view = self.view(question, &reports, now, machine);
                slowlog::histogram(args, &view, proto, out);
            }
            Id::MemoryStats => self.view(question, &reports, now, machine).memory_stats(proto, out),
            Id::MemoryDoctor => {
                let text = self.view(question, &reports, now, machine).doctor();
                reply::verbatim(out, proto, b"txt", text.as_bytes());
            }
            Id::ClientList => {
                let mut portraits: Vec<_> = reports
                    .into_iter()
                    .flat_map(
                        |(_, report)| {
                            if let Report::List(portraits) = report { portraits } else { Vec::new() }
                        },
                    )
                    .collect();
                portraits.sort_by_key(|portrait| portrait.id);
                if let Some(asker) = portraits.iter_mut().find(|portrait| portrait.id == question.from.id) {
                    asker.input_size = clients::frame_size(args);
                }
                let line = |portrait: &Portrait| clients::line(portrait, &self.settings, now.mono_ns);
                let lines = portraits.iter().map(line);
                let text: String = lines.collect();
                reply::verbatim(out, proto, b"txt", text.as_bytes());
            }
            Id::ClientTracking => tracking::conclude(&reports, out),
            Id::ClientKill => {
                let count: u64 = reports
                    .iter()
                    .map(|(_, report)| if let Report::Killed(count) = report { *count } else { 0 })
                    .sum();
                if args.len() > 3 {
                    reply::integer(out, i64::try_from(count).expect("clients are fewer than 2^63"));
                } else if count == 0 {
                    reply::error(out, "ERR No such client");
                } else {
                    out.put(OK);
                }
            }
            _ => out.put(OK),
        }
    }

    fn config_set(
        &mut self,
        args: Args<'_>,
        now: Now,
        machine: &mut impl Machine,
        out: &mut Vec<u8>,
    ) -> Begun {
        if !args.len().is_multiple_of(2) {
            reply::error(out, "ERR syntax error");
            return Begun::Answered;
        }
        let pairs: Vec<(&[u8], &[u8])> =
            (2..args.len()).step_by(2).map(|index| (args.flat(index), args.flat(index + 1))).collect();
        let changes = match self.config.check(&pairs) {
            Ok(changes) => changes,
            Err(text) => {
                reply::error_bytes(out, &text);
                return Begun::Answered;
            }
        };
        if let Some(count) = changes.client_count()
            && self.settings.client_count_max < count
            && let Err(most) = machine.allow_clients(count)
        {
            // As Redis says it (config.c, `updateMaxclients`).
            let why = format!(
                "The operating system is not able to handle the specified number of clients, try with {most}"
            );
            reply::error_bytes(out, &refusal(b"maxclients", &why));
            return Begun::Answered;
        }
        let is_effective = self.config.set(changes);
        self.heed_file_settings(now, machine);
        if is_effective {
            let users = Arc::clone(&self.settings.users);
            self.config.apply(&mut self.settings);
            if !Arc::ptr_eq(&users, &self.settings.users) {
                self.tell_users(&users);
            }
            self.heed_leader_settings(now, machine);
            return Begun::Everywhere(Order::Settings(Arc::new(self.settings.clone())));
        }
        out.put(OK);
        Begun::Answered
    }

    fn rewrite(&mut self, machine: &mut impl Machine) -> Result<(), String> {
        if self.identity.config_file.is_empty() {
            return Err("The server is running without a config file".to_owned());
        }
        let mut changed = self.config.changed();
        changed.extend(self.users_to_write()?);
        machine.rewrite(&changed).map_err(|why| format!("Rewriting config file: {why}"))
    }

    /// `SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]`
    fn begin_shutdown(
        &mut self,
        asker: Asker,
        args: Args<'_>,
        machine: &mut impl Machine,
        out: &mut Vec<u8>,
    ) -> Begun {
        let mut how = Shutdown::Drain;
        let (mut saves, mut spares, mut aborts, mut is_forced) = (false, false, false, false);
        for index in 1..args.len() {
            match args.flat(index).to_ascii_lowercase().as_slice() {
                b"force" => is_forced = true,
                b"now" => how = Shutdown::Now,
                b"nosave" if !saves => spares = true,
                b"save" if !spares => saves = true,
                b"abort" if args.len() == 2 => aborts = true,
                _ => {
                    reply::error(out, "ERR syntax error");
                    return Begun::Answered;
                }
            }
        }
        if aborts {
            if self.shutdown.take().is_none() && !self.call_off_last_save(machine) {
                reply::error(out, "ERR No shutdown in progress.");
                return Begun::Answered;
            }
            machine.note("a client has called off the end");
            machine.refuse_end();
            self.release_writes();
            for asker in std::mem::take(&mut self.enders) {
                self.answer(asker, b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
            }
            out.put(OK);
            return Begun::Answered;
        }
        if self.is_log_short() {
            if !is_forced {
                machine.warn("no end now: the log's base is being written; SHUTDOWN FORCE ends without it");
                reply::error(out, "ERR Errors trying to SHUTDOWN. Check logs.");
                return Begun::Answered;
            }
            machine.warn("the end comes before the log's base is written: what is in no file yet is lost");
        }
        // At once is not before what was answered is in the log.
        if self.keeps_log() {
            how = Shutdown::Drain;
        }
        if saves || !spares && self.has_save_points() {
            return match self.save_and_end(Some(asker), how, machine) {
                Ok(()) => Begun::Kept,
                Err(why) => {
                    reply::error(out, why);
                    Begun::Answered
                }
            };
        }
        self.shutdown = Some(how);
        Begun::Ending
    }

    fn view<'a>(
        &'a mut self,
        question: &'a Question,
        reports: &'a [(u16, Report)],
        now: Now,
        machine: &mut impl Machine,
    ) -> info::View<'a> {
        let lanes: Vec<_> = reports
            .iter()
            .filter_map(
                |(lane, report)| {
                    if let Report::Census(census) = report { Some((*lane, &**census)) } else { None }
                },
            )
            .collect();
        let ops_per_second = self.rates.calls.note(now.mono_ns, info::calls_of(&lanes));
        let bytes = |of: fn(&Traffic) -> u64| lanes.iter().map(|(_, census)| of(&census.traffic)).sum();
        let bytes_in = self.rates.bytes_in.note(now.mono_ns, bytes(|traffic| traffic.bytes_in));
        let bytes_out = self.rates.bytes_out.note(now.mono_ns, bytes(|traffic| traffic.bytes_out));
        info::View {
            identity: &self.identity,
            config: &self.config,
            settings: &self.settings,
            times: &self.times,
            from: &question.from,
            lanes,
            signatures: Vec::new(),
            now,
            began: self.began,
            ops_per_second,
            bytes_per_second: (bytes_in, bytes_out),
            resident_size: machine.resident_size(),
            memory_size: machine.memory_size(),
            processor_us: machine.processor_us(),
            lines_dropped: self.lines_dropped,
            scripts: self.library.size(),
            functions: &self.functions,
            replicas: self.show_replicas(now),
            files: self.show_files(now),
            link_count: self.migrations.link_count(),
        }
    }
}
