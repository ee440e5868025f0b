//! Data come from files: at the start, and for DEBUG RELOAD and LOADAOF. Clients stay outside until all of them are there.

use std::sync::Arc;

use wire::reply::{self, OK};

use super::super::{Asker, Begun, Control, Machine};
use super::{Beside, FileOrder, Files, Loaded, NO_FILES, SAVES_ALREADY, Source, Then};
use crate::Now;
use crate::admin::Order;

pub(super) struct Loading {
    pub(super) asker: Option<Asker>,
    pub(super) source: Source,
    pub(super) beside: Beside,
    /// What is read is not written before.
    pub(super) is_as_it_lies: bool,
    pub(super) began: Now,
    pub(super) step: LoadStep,
}

pub(super) enum LoadStep {
    /// Lanes are told to let no client in.
    Closes(u64),
    /// What is to be read is being written.
    Writes,
    Reads,
    /// The log begins anew behind what was read.
    Logs,
    /// Lanes are told to let them in.
    Opens(u64),
}

impl Control {
    /// DEBUG RELOAD and DEBUG LOADAOF. They begin anew from what is in files.
    pub(in crate::control) fn begin_load(
        &mut self,
        asker: Asker,
        source: Source,
        options: &[&[u8]],
        now: Now,
        out: &mut Vec<u8>,
    ) -> Begun {
        let (mut is_as_it_lies, mut is_kept, mut is_merged) = (false, false, false);
        for option in options {
            match option.to_ascii_lowercase().as_slice() {
                b"nosave" => is_as_it_lies = true,
                b"noflush" => is_kept = true,
                b"merge" => is_merged = true,
                _ => {
                    reply::error(
                        out,
                        "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
                    );
                    return Begun::Answered;
                }
            }
        }
        let beside = match (is_kept, is_merged) {
            (false, _) => Beside::Emptied,
            (true, false) => Beside::Kept,
            (true, true) => Beside::Merged,
        };
        let refusal = match &self.files {
            files if !files.is_there => NO_FILES,
            Files { loading: Some(_), .. } => "ERR data are being loaded already",
            Files { saving: Some(_), .. } => SAVES_ALREADY,
            _ if self.leaders.is_led() => "ERR data come from the server that this one follows",
            _ if asker.is_exec => "ERR DEBUG RELOAD and LOADAOF are not allowed inside a transaction",
            _ => {
                let ticket = self.close_or_open(true, now);
                let step = LoadStep::Closes(ticket);
                self.files.loading =
                    Some(Loading { asker: Some(asker), source, beside, is_as_it_lies, began: now, step });
                return Begun::Kept;
            }
        };
        reply::error(out, refusal);
        Begun::Answered
    }

    /// Has lanes let clients into Redis' databases, or not.
    fn close_or_open(&mut self, is_loading: bool, now: Now) -> u64 {
        self.settings.is_loading = is_loading;
        // Whoever is let in may not write what nobody would keep.
        self.settings.writes_refused = self.refusal_of_writes(now);
        self.give(0..self.lane_count, &Order::Settings(Arc::new(self.settings.clone())), None)
    }

    pub(super) fn read(&mut self, machine: &mut impl Machine) {
        let Some(loading) = &mut self.files.loading else { return };
        loading.step = LoadStep::Reads;
        machine.write_file(FileOrder::Load(loading.source, loading.beside));
    }

    pub(super) fn hear_loaded(
        &mut self,
        result: Result<Loaded, String>,
        now: Now,
        machine: &mut impl Machine,
    ) {
        match result {
            Ok(loaded) => {
                self.files.loaded = loaded;
                // What was loaded is no change.
                self.count_changes();
                self.files.loaded_by = self.files.counts;
                if self.files.loading.as_ref().is_some_and(|loading| loading.asker.is_none()) {
                    self.give(0..self.lane_count, &Order::ResetStats, None);
                }
                let ms =
                    self.files.loading.as_ref().map_or(0, |it| now.mono_ns - it.began.mono_ns) / 1_000_000;
                let Loaded { keys, expired, commands } = loaded;
                let of_log = match commands {
                    0 => String::new(),
                    _ => format!(", and {commands} commands behind them"),
                };
                machine.note(&format!("loaded {keys} keys, {expired} had expired{of_log}, in {ms} ms"));
                if let Some(log) = &mut self.files.log {
                    if let Some(loading) = &mut self.files.loading {
                        loading.step = LoadStep::Logs;
                        log.is_whole |= loading.source == Source::Log;
                    }
                    return self.begin_base(now, machine);
                }
                self.end_reading(Ok(()), now, machine);
            }
            Err(why) => self.end_reading(Err(why), now, machine),
        }
    }

    pub(super) fn end_reading(&mut self, result: Result<(), String>, now: Now, machine: &mut impl Machine) {
        let is_start = self.files.loading.as_ref().is_some_and(|loading| loading.asker.is_none());
        if let (true, Err(why)) = (is_start, &result) {
            return machine.write_file(FileOrder::GiveUp(why.clone()));
        }
        if let Err(why) = &result {
            machine.warn(&format!("data can't be loaded: {why}"));
        }
        if result.is_err()
            && let Some(log) = &mut self.files.log
        {
            // Half of it may be there: a log that began with that would take the place of the whole one.
            self.files.trouble = Some("what was to be loaded is not".to_owned());
            // Nothing comes that an end would have to wait for.
            log.is_whole |= log.file.is_none();
        }
        self.files.load_failed = result.err();
        let ticket = self.close_or_open(false, now);
        if let Some(loading) = &mut self.files.loading {
            loading.step = LoadStep::Opens(ticket);
        }
    }

    pub(super) fn go_on_loading(&mut self, now: Now, machine: &mut impl Machine) {
        let Some(Loading { step, source, asker, is_as_it_lies, .. }) = &self.files.loading else { return };
        match (step, source) {
            // At the start nobody has been in yet.
            (LoadStep::Writes, _) if asker.is_none() => self.read(machine),
            (LoadStep::Closes(ticket), Source::Snapshot) if !self.gathers.contains_key(ticket) => {
                if *is_as_it_lies {
                    return self.read(machine);
                }
                self.files.loading.as_mut().expect("just seen").step = LoadStep::Writes;
                self.begin_save(Then::Load, now, machine);
            }
            (LoadStep::Closes(ticket), Source::Log) if !self.gathers.contains_key(ticket) => {
                self.files.loading.as_mut().expect("just seen").step = LoadStep::Writes;
                // It is begun anew behind what is read.
                self.hold_log(machine);
                // Where nothing is to be written no news brings another turn.
                if self.is_log_written() {
                    self.read(machine);
                }
            }
            (LoadStep::Writes, Source::Log) if self.is_log_written() => self.read(machine),
            // Where none can be begun clients may come and read.
            (LoadStep::Logs, _)
                if self.files.log.as_ref().is_none_or(|log| log.file.is_some() || log.has_failed) =>
            {
                self.end_reading(Ok(()), now, machine);
            }
            (LoadStep::Opens(ticket), _) if !self.gathers.contains_key(ticket) => self.end_load(machine),
            _ => {}
        }
    }

    fn end_load(&mut self, machine: &mut impl Machine) {
        let Some(Loading { asker, source, .. }) = self.files.loading.take() else { return };
        match (asker, self.files.load_failed.take()) {
            (None, _) => machine.write_file(FileOrder::Opened),
            (Some(asker), None) => self.answer(asker, OK),
            (Some(asker), Some(_)) => self.answer(
                asker,
                match source {
                    Source::Snapshot => {
                        b"-ERR Error trying to load the RDB dump, check server logs\r\n".as_slice()
                    }
                    Source::Log => b"-ERR Error trying to load the AOF files, check server logs\r\n",
                },
            ),
        }
    }
}
