//! What is kept in files: snapshots (SAVE, BGSAVE), the log (`appendonly`), and what is read at the start. docs/persistence.md is the lecture.
//!
//! A file is a replica without a connection: it gets the same bytes, from the control thread's own hand, and lanes do not know of it.
//! ```text
//! snapshot   waits ─▶ the cut ─▶ pieces of all lanes ─▶ END ─▶ written ─▶ SAVE is answered
//! log        the same, of a base; at its cut the log's file begins, which gets the stream from there on, and the one before ends
//! load       closed to clients ─▶ (what is to be read is written) ─▶ read ─▶ (a new log) ─▶ open
//! ```
//! Files themselves are the program's: it is told what to write ([`FileOrder`]) and says what has become of it ([`FileNews`]).

use std::collections::BTreeSet;

use wire::command::Id;
use wire::reply::{self, OK};

mod loading;
mod shown;
mod told;

use super::config::Config;
use super::{Asker, Begun, Control, Machine, Shutdown};
use crate::Now;
use crate::admin::{Order, Report};
use crate::request::Args;
use loading::{LoadStep, Loading};
pub(super) use shown::FilesShown;
use shown::Tried;
pub use told::{Beside, FileKind, FileNews, FileOrder, Loaded, Source};

/// How long after a failure the log is begun anew.
const AGAIN_NS: u64 = 5_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// A snapshot on its way.
struct Saving {
    file: u64,
    began_ns: u64,
    /// Changes until just before, and the order that counts them.
    changes: u64,
    counted_by: u64,
    then: Then,
}

/// What waits for a snapshot.
enum Then {
    Nothing,
    Answer(Asker),
    /// The server ends.
    End(Shutdown, Option<Asker>),
    /// It is read.
    Load,
}

/// The end of the server, which waits until no client writes any more: then its snapshot is taken.
struct LastSave {
    how: Shutdown,
    asker: Option<Asker>,
    /// The order to lanes to hold back what writes.
    held_by: u64,
    /// When it is looked at what keeps them from it, and how often it was.
    look_ns: u64,
    look_count: u32,
}

/// A base on its way.
struct Rewriting {
    file: u64,
    began_ns: u64,
    /// Bytes of it, so far.
    size: u64,
}

/// The log.
#[derive(Default)]
struct Log {
    /// The file that gets the stream.
    file: Option<u64>,
    /// A base was written here.
    has_base: bool,
    /// The next start finds all that was answered in its files, but for what is on its way to them.
    is_whole: bool,
    /// It could not be begun, and no base was written since.
    has_failed: bool,
    /// Bytes of that file, of all before it, and of the last base.
    size: u64,
    before_size: u64,
    base_size: u64,
}

impl Log {
    /// Whether what changes now is found by the next start.
    fn is_written(&self) -> bool {
        self.is_whole && self.file.is_some()
    }
}

/// What the control thread knows of files.
#[derive(Default)]
pub(super) struct Files {
    /// The program writes files.
    is_there: bool,
    file_newest: u64,
    saving: Option<Saving>,
    last_save: Option<LastSave>,
    /// The process is asked to end, and does when the log is whole.
    ends_when_whole: bool,
    rewriting: Option<Rewriting>,
    /// `appendonly yes`.
    log: Option<Log>,
    loading: Option<Loading>,
    /// What a load came to.
    load_failed: Option<String>,
    loaded: Loaded,
    /// When the log is begun anew.
    again_ns: Option<u64>,
    /// Why the log can't be written now.
    trouble: Option<String>,
    /// Files that have ended and are not known to be on disk.
    ending: BTreeSet<u64>,
    save: Tried,
    rewrite: Tried,
    /// Changes since the start, as lanes last said, and those that the last snapshot holds.
    changes: u64,
    changes_saved: u64,
    /// The orders to count them, and to count those of a load.
    counts: u64,
    loaded_by: u64,
    /// When `save` is looked at, if it says something.
    look_ns: Option<u64>,
    /// When the last snapshot was begun that could not be written.
    failed_ns: u64,
    /// When the last snapshot was taken that was written, Unix time in seconds.
    saved_s: i64,
}

impl Files {
    /// `loads`: what there is to be read first, if the program has files at all.
    pub(super) fn new(is_there: bool, loads: Option<Source>, config: &Config, now: Now) -> Files {
        let has_log = config.value("appendonly") == "yes";
        let saves = is_there && !config.value("save").is_empty();
        let loading = loads.map(|source| Loading {
            asker: None,
            source,
            beside: Beside::Emptied,
            is_as_it_lies: true,
            began: now,
            step: LoadStep::Writes,
        });
        Files {
            is_there,
            loading,
            log: has_log.then(Log::default),
            saved_s: now.unix_ms / 1000,
            look_ns: saves.then_some(now.mono_ns),
            // A log behind nothing begins at once.
            again_ns: (has_log && loads.is_none()).then_some(0),
            ..Files::default()
        }
    }

    /// When something is due that time alone brings about.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let last = self.last_save.as_ref().map(|last| last.look_ns);
        self.again_ns.into_iter().chain(self.look_ns).chain(last).min()
    }

    fn fresh(&mut self) -> u64 {
        self.file_newest += 1;
        self.file_newest
    }
}

const NO_FILES: &str = "ERR this server keeps its data in memory only: there is no file to write or to read";
const MISCONF_SNAPSHOT: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
    Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB \
    snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";
const MISCONF_LOG: &str = "MISCONF Errors writing to the AOF file: please check the server's log";
const SAVES_ALREADY: &str = "ERR Background save already in progress";

impl Control {
    /// SAVE, BGSAVE, BGREWRITEAOF and LASTSAVE.
    pub(super) fn begin_file_command(
        &mut self,
        asker: Asker,
        id: Id,
        args: Args<'_>,
        now: Now,
        machine: &mut impl Machine,
        out: &mut Vec<u8>,
    ) -> Begun {
        match id {
            Id::Lastsave => reply::integer(out, self.files.saved_s),
            Id::Bgsave
                if args.len() > 2 || args.len() == 2 && !args.flat(1).eq_ignore_ascii_case(b"schedule") =>
            {
                reply::error(out, "ERR syntax error");
            }
            _ if !self.files.is_there => reply::error(out, NO_FILES),
            Id::Bgrewriteaof if self.files.rewriting.is_some() => {
                reply::error(out, "ERR Background append only file rewriting already in progress");
            }
            Id::Bgrewriteaof => {
                self.begin_base(now, machine);
                reply::simple(out, "Background append only file rewriting started");
            }
            _ if self.files.saving.is_some() => reply::error(out, SAVES_ALREADY),
            Id::Save => {
                self.begin_save(Then::Answer(asker), now, machine);
                return Begun::Kept;
            }
            _ => {
                self.begin_save(Then::Nothing, now, machine);
                reply::simple(out, "Background saving started");
            }
        }
        Begun::Answered
    }

    /// Writes a snapshot first, and then ends the server.
    pub(super) fn save_and_end(
        &mut self,
        asker: Option<Asker>,
        how: Shutdown,
        machine: &mut impl Machine,
    ) -> Result<(), &'static str> {
        match &mut self.files {
            files if !files.is_there => Err(NO_FILES),
            // Half of what there was would take the place of the whole.
            Files { loading, .. } if loading.is_some() || self.leaders.lacks_data() => {
                machine.warn("nothing is saved: not all data are here");
                self.shutdown = Some(how);
                self.enders.extend(asker);
                Ok(())
            }
            Files { last_save: Some(_), .. }
            | Files { saving: Some(Saving { then: Then::End(..), .. }), .. } => Err(SAVES_ALREADY),
            files => {
                // One that was begun before lacks what has been answered since. Whoever waits for it gets it first.
                let is_nobodys = |saving: &mut Saving| matches!(saving.then, Then::Nothing);
                if let Some(Saving { file, .. }) = files.saving.take_if(is_nobodys) {
                    machine.write_file(FileOrder::Abandon { file });
                    self.forget_file(file);
                }
                let held_by = self.give(0..self.lane_count, &Order::HoldWrites(true), None);
                self.files.last_save = Some(LastSave { how, asker, held_by, look_ns: 0, look_count: 0 });
                Ok(())
            }
        }
    }

    /// Takes the snapshot of the end as soon as all lanes hold back what writes, and have answered all that had begun: so whatever is
    /// answered is in it.
    fn begin_last_save(&mut self, now: Now, machine: &mut impl Machine) {
        self.look_at_last_save(now, machine);
        let is_held = |last: &mut LastSave| !self.gathers.contains_key(&last.held_by);
        if self.files.saving.is_none()
            && let Some(LastSave { how, asker, .. }) = self.files.last_save.take_if(is_held)
        {
            self.begin_save(Then::End(how, asker), now, machine);
        }
    }

    /// Each second: a script that has run for one and has not written is ended, as by SCRIPT KILL, for it may go on for ever. What else keeps
    /// the end waiting, a script that has written, is said once.
    fn look_at_last_save(&mut self, now: Now, machine: &mut impl Machine) {
        let Some(last) = self.files.last_save.as_mut() else { return };
        if now.mono_ns < last.look_ns {
            return;
        }
        last.look_ns = now.mono_ns + SECOND_NS;
        if !self.gathers.contains_key(&last.held_by) {
            return;
        }
        last.look_count += 1;
        let look_count = last.look_count;
        if look_count > 1 {
            let before_ns = now.mono_ns.saturating_sub(SECOND_NS);
            for are_functions in [false, true] {
                self.give(0..self.lane_count, &Order::KillScripts { before_ns, are_functions }, None);
            }
        }
        if look_count == 3 {
            machine.warn(
                "the end waits for a script that has written, or for another transaction, before its snapshot; a second signal ends at \
                 once, without it",
            );
        }
    }

    /// Gives up the end that waits for a file, whether it is begun, being written or neither; false if there is none.
    pub(super) fn call_off_last_save(&mut self, machine: &mut impl Machine) -> bool {
        if std::mem::take(&mut self.files.ends_when_whole) {
            return true;
        }
        if let Some(LastSave { asker, .. }) = self.files.last_save.take() {
            self.enders.extend(asker);
            return true;
        }
        let is_last = |saving: &mut Saving| matches!(saving.then, Then::End(..));
        let Some(Saving { file, then: Then::End(_, asker), .. }) = self.files.saving.take_if(is_last) else {
            return false;
        };
        machine.write_file(FileOrder::Abandon { file });
        self.forget_file(file);
        self.enders.extend(asker);
        true
    }

    /// There is no end after all: clients may write again.
    pub(super) fn release_writes(&mut self) {
        self.give(0..self.lane_count, &Order::HoldWrites(false), None);
    }

    /// Whether what changes is kept in a log.
    pub(super) fn keeps_log(&self) -> bool {
        self.files.log.is_some()
    }

    /// Whether the server may not end yet: what was answered is in no file that the next start would load, for the log's base is not
    /// written. While data are loaded at the start, or come from another server, there is nothing to lose.
    pub(super) fn is_log_short(&self) -> bool {
        let is_open =
            |loading: &Loading| loading.asker.is_some() || matches!(loading.step, LoadStep::Opens(_));
        self.files.log.as_ref().is_some_and(|log| !log.is_whole)
            && self.files.loading.as_ref().is_none_or(is_open)
            && !self.leaders.lacks_data()
    }

    /// `save` says when a snapshot is due, and so one is written at the end, too.
    pub(super) fn has_save_points(&self) -> bool {
        self.files.is_there && !self.config.value("save").is_empty()
    }

    fn begin_save(&mut self, then: Then, now: Now, machine: &mut impl Machine) {
        let file = self.files.fresh();
        // Lanes do that before they begin the snapshot.
        self.count_changes();
        let Files { changes, counts: counted_by, .. } = self.files;
        self.files.saving = Some(Saving { file, began_ns: now.mono_ns, changes, counted_by, then });
        self.begin_file(file, FileKind::Snapshot, now, machine);
    }

    /// Begins a base, and with it, at its cut, the log's next file.
    fn begin_base(&mut self, now: Now, machine: &mut impl Machine) {
        let file = self.files.fresh();
        self.files.rewriting = Some(Rewriting { file, began_ns: now.mono_ns, size: 0 });
        self.begin_file(file, FileKind::Base, now, machine);
    }

    fn begin_file(&mut self, file: u64, kind: FileKind, now: Now, machine: &mut impl Machine) {
        machine.write_file(FileOrder::Begin { file, kind });
        self.follow_in_file(file, kind, now);
    }

    /// A base's point in time has come: whatever is in the stream from here on is the next file's. It is held back until the one before is
    /// written to its end, so that what is on disk is the stream up to somewhere, at each moment.
    pub(super) fn turn_log(&mut self, base: u64, now: Now, machine: &mut impl Machine) {
        let Some(Log { file: before, is_whole, .. }) = self.files.log else { return };
        if let Some(before) = before {
            self.end_stream_here(before);
        }
        let goes_on = before.is_some() || is_whole;
        let file = self.files.fresh();
        let log = self.files.log.as_mut().expect("just seen");
        log.file = Some(file);
        log.before_size += std::mem::take(&mut log.size);
        self.begin_file(file, FileKind::Log { base, goes_on }, now, machine);
    }

    /// `appendonly` and `appendfsync` may have been set.
    pub(super) fn heed_file_settings(&mut self, now: Now, machine: &mut impl Machine) {
        self.files.look_ns = self.has_save_points().then_some(now.mono_ns);
        if self.files.is_there {
            machine.write_file(FileOrder::SyncEverySecond(self.config.value("appendfsync") != "no"));
        }
        let is_wanted = self.files.is_there && self.config.value("appendonly") == "yes";
        match (&mut self.files.log, is_wanted) {
            (None, true) => {
                self.files.log = Some(Log::default());
                // What is being loaded is its beginning, when all of it is there.
                if self.files.loading.is_none() && !self.leaders.lacks_data() {
                    // One that is under way without a log has none behind it.
                    self.abandon_base(machine);
                    self.begin_base(now, machine);
                }
            }
            (Some(log), false) => {
                let file = log.file.take();
                self.files.log = None;
                self.files.again_ns = None;
                self.files.trouble = None;
                self.abandon_base(machine);
                if let Some(file) = file {
                    self.end_stream_here(file);
                }
            }
            _ => {}
        }
    }

    /// The log ends here, until it is begun anew.
    pub(super) fn hold_log(&mut self, machine: &mut impl Machine) {
        self.abandon_base(machine);
        self.files.again_ns = None;
        let Some(log) = &mut self.files.log else { return };
        log.is_whole = false;
        if let Some(file) = log.file.take() {
            self.end_stream_here(file);
        }
    }

    /// It begins anew, if it was held.
    pub(super) fn resume_log(&mut self, now: Now, machine: &mut impl Machine) {
        let is_held = self.files.log.as_ref().is_some_and(|log| log.file.is_none());
        if is_held && self.files.rewriting.is_none() {
            self.begin_base(now, machine);
        }
    }

    fn abandon_base(&mut self, machine: &mut impl Machine) {
        if let Some(Rewriting { file, .. }) = self.files.rewriting.take() {
            machine.write_file(FileOrder::Abandon { file });
            self.forget_file(file);
        }
    }

    /// Takes what has become of files, and goes on.
    pub(super) fn tend_files(&mut self, now: Now, machine: &mut impl Machine) {
        if !self.files.is_there {
            return self.tend_end(now, machine);
        }
        while let Some(news) = machine.file_news() {
            self.hear_file(news, now, machine);
        }
        self.tend_end(now, machine);
        self.pass_inner();
        self.go_on_loading(now, machine);
        self.begin_last_save(now, machine);
        if self.files.again_ns.is_some_and(|again_ns| again_ns <= now.mono_ns) {
            self.files.again_ns = None;
            if !self.leaders.lacks_data() && self.files.rewriting.is_none() && self.files.log.is_some() {
                self.begin_base(now, machine);
            }
        }
        self.rewrite_if_grown(now, machine);
        if self.files.look_ns.is_some_and(|look_ns| look_ns <= now.mono_ns) {
            self.files.look_ns = self.has_save_points().then_some(now.mono_ns + SECOND_NS);
            if self.files.look_ns.is_none() {
                return;
            }
            self.save_if_due(now, machine);
            if !self.gathers.contains_key(&self.files.counts) {
                self.count_changes();
            }
        }
    }

    /// Ends the server when the process has been asked to, and what is to be in files first is there.
    fn tend_end(&mut self, now: Now, machine: &mut impl Machine) {
        let is_asked = machine.wants_end();
        if self.shutdown.is_some() || !is_asked && !self.files.ends_when_whole {
            return;
        }
        if self.is_log_short() {
            if is_asked {
                machine.note(
                    "the end waits until the log's base is written, for what was answered is in no file yet; a second signal ends at once",
                );
                self.files.ends_when_whole = true;
                self.files.again_ns = self.files.again_ns.map(|_| now.mono_ns);
            }
            return;
        }
        self.files.ends_when_whole = false;
        let is_last = |saving: &Saving| matches!(saving.then, Then::End(..));
        if self.files.last_save.is_some() || self.files.saving.as_ref().is_some_and(is_last) {
            // A client has said SHUTDOWN: that end is this one, too.
            return;
        }
        if !self.has_save_points() {
            self.shutdown = Some(Shutdown::Drain);
        } else if let Err(why) = self.save_and_end(None, Shutdown::Drain, machine) {
            machine.warn(&format!("no end now: {}", why.trim_start_matches("ERR ")));
            machine.refuse_end();
        }
    }

    /// Has lanes count their changes.
    fn count_changes(&mut self) {
        self.files.counts = self.give(0..self.lane_count, &Order::Census, None);
    }

    /// Lanes have been counted, by order of `ticket` and for nobody who has asked.
    pub(super) fn hear_counts(&mut self, ticket: u64, reports: &[(u16, Report)]) {
        let is_saving = self.files.saving.as_ref().is_some_and(|saving| saving.counted_by == ticket);
        if ticket != self.files.counts && !is_saving {
            return;
        }
        let changes =
            |report: &Report| if let Report::Census(census) = report { census.stats.changes } else { 0 };
        self.files.changes = reports.iter().map(|(_, report)| changes(report)).sum();
        if let Some(saving) = self.files.saving.as_mut().filter(|_| is_saving) {
            saving.changes = self.files.changes;
        }
        if self.files.loaded_by == ticket {
            self.files.changes_saved = self.files.changes;
        }
    }

    /// As `save` says.
    fn save_if_due(&mut self, now: Now, machine: &mut impl Machine) {
        if self.files.last_save.is_some() || self.leaders.lacks_data() {
            return;
        }
        let Files { saving: None, loading: None, changes, changes_saved, saved_s, failed_ns, save, .. } =
            &self.files
        else {
            return;
        };
        let numbers: Vec<u64> =
            self.config.value("save").split(' ').filter_map(|word| word.parse().ok()).collect();
        let (age_s, changed) = (now.unix_ms / 1000 - saved_s, changes.saturating_sub(*changes_saved));
        let point = numbers.chunks_exact(2).find(|point| {
            i64::try_from(point[0]).is_ok_and(|seconds| seconds <= age_s) && point[1] <= changed
        });
        let has_failed_lately = save.failures > 0 && now.mono_ns < failed_ns + AGAIN_NS;
        if let Some(point) = point.filter(|_| !has_failed_lately) {
            machine.note(&format!("{} changes in {} seconds: saving", point[1], point[0]));
            self.begin_save(Then::Nothing, now, machine);
        }
    }

    fn hear_file(&mut self, news: FileNews, now: Now, machine: &mut impl Machine) {
        match news {
            FileNews::Taken { file, size } => self.hear_taken_by_file(file, size, now),
            FileNews::Inner { lane, handover } => self.inner.push_back((lane, Box::new(handover))),
            FileNews::Trouble(why) => self.files.trouble = why,
            FileNews::Written { file } => self.hear_written(file, now, machine),
            FileNews::Failed { file, why } => {
                self.forget_file(file);
                self.lose_file(file, &why, now.mono_ns + AGAIN_NS, now, machine);
            }
            FileNews::Loaded(result) => self.hear_loaded(result, now, machine),
        }
    }

    fn hear_taken_by_file(&mut self, file: u64, size: usize, now: Now) {
        self.hear_taken(self.lane_count, file, size, now);
        let size = size as u64;
        let Files { rewriting, log, .. } = &mut self.files;
        if let Some(rewriting) = rewriting.as_mut().filter(|rewriting| rewriting.file == file) {
            rewriting.size += size;
        }
        if let Some(log) = log.as_mut().filter(|log| log.file == Some(file)) {
            log.size += size;
        }
    }

    /// Whether data are being read from files.
    pub(super) fn is_loading(&self) -> bool {
        self.files.loading.is_some()
    }

    /// Whether all of the log that there is is on disk, and nothing more is written to it.
    fn is_log_written(&self) -> bool {
        self.files.ending.is_empty() && !self.writes_log()
    }

    /// All of a file has been given.
    pub(super) fn end_file(&mut self, file: u64, machine: &mut impl Machine) {
        self.files.ending.insert(file);
        machine.write_file(FileOrder::End { file });
    }

    fn hear_written(&mut self, file: u64, now: Now, machine: &mut impl Machine) {
        self.files.ending.remove(&file);
        if let Some(Saving { began_ns, changes, then, .. }) =
            self.files.saving.take_if(|saving| saving.file == file)
        {
            self.files.changes_saved = changes;
            let seconds = (now.mono_ns - began_ns) / SECOND_NS;
            self.files.saved_s = now.unix_ms / 1000;
            self.files.save.succeeded(seconds);
            machine.note("the snapshot is written");
            self.follow_up(then, Ok(()), now, machine);
        }
        if let Some(Rewriting { size, began_ns, .. }) =
            self.files.rewriting.take_if(|rewriting| rewriting.file == file)
        {
            self.files.rewrite.succeeded((now.mono_ns - began_ns) / SECOND_NS);
            machine.note("the log has a new base");
            if let Some(log) = &mut self.files.log {
                log.is_whole = log.file.is_some();
                log.has_failed &= !log.is_whole;
                log.has_base = true;
                log.base_size = size;
                log.before_size = size;
                if log.file.is_none() && self.files.loading.is_none() {
                    // It has lost the file that began at the base's cut.
                    self.files.again_ns = Some(now.mono_ns);
                }
            }
        }
    }

    /// What waits for a snapshot.
    fn follow_up(&mut self, then: Then, result: Result<(), &str>, now: Now, machine: &mut impl Machine) {
        match (then, result) {
            (Then::Nothing, _) => {}
            (Then::Answer(asker), Ok(())) => self.answer(asker, OK),
            (Then::Answer(asker), Err(why)) => {
                let mut out = Vec::new();
                reply::error(&mut out, &format!("ERR the snapshot can't be written: {why}"));
                self.answer(asker, &out);
            }
            (Then::End(how, asker), Ok(())) => {
                self.shutdown = Some(how);
                self.enders.extend(asker);
            }
            (Then::End(_, asker), Err(why)) => {
                machine.warn(&format!("the server goes on: its snapshot can't be written: {why}"));
                self.release_writes();
                if let Some(asker) = asker {
                    self.answer(asker, b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
                }
                machine.refuse_end();
            }
            (Then::Load, Ok(())) => self.read(machine),
            (Then::Load, Err(why)) => self.end_reading(Err(why.to_owned()), now, machine),
        }
    }

    /// A file is no more that was to be one.
    pub(super) fn lose_file(
        &mut self,
        file: u64,
        why: &str,
        again_ns: u64,
        now: Now,
        machine: &mut impl Machine,
    ) {
        self.files.ending.remove(&file);
        if let Some(Saving { then, .. }) = self.files.saving.take_if(|saving| saving.file == file) {
            machine.warn(&format!("the snapshot can't be written: {why}"));
            self.files.save.failures += 1;
            self.files.failed_ns = now.mono_ns;
            self.follow_up(then, Err(why), now, machine);
        }
        let is_base = self.files.rewriting.take_if(|rewriting| rewriting.file == file).is_some();
        let Some(log) = self.files.log.as_mut() else { return };
        let is_log = log.file == Some(file);
        if is_log {
            (log.file, log.is_whole) = (None, false);
        }
        let is_put_off = now.mono_ns < again_ns;
        if is_base || is_log {
            let what = match log.is_written() {
                true => "the log goes on without a new base, which is tried again",
                false => "the log is given up, and begun anew",
            };
            machine.warn(&format!("{what}: {why}"));
            log.has_failed |= is_put_off;
            self.files.rewrite.failures += 1;
            self.files.again_ns = Some(again_ns);
        }
        if is_base && is_put_off && std::mem::take(&mut self.files.ends_when_whole) {
            machine.warn("the server goes on: the log has no base, and what was answered would be lost");
            machine.refuse_end();
        }
    }

    /// As `auto-aof-rewrite-percentage` and `auto-aof-rewrite-min-size` say.
    fn rewrite_if_grown(&mut self, now: Now, machine: &mut impl Machine) {
        let Files { log: Some(log), rewriting: None, loading: None, again_ns: None, .. } = &self.files else {
            return;
        };
        let number = |name: &str| self.config.value(name).parse::<u64>().unwrap_or(0);
        let (percent, size_min) =
            (number("auto-aof-rewrite-percentage"), number("auto-aof-rewrite-min-size"));
        let size = log.size + log.before_size;
        let grown = size.saturating_sub(log.base_size).saturating_mul(100) / log.base_size.max(1);
        if log.file.is_some() && log.has_base && percent > 0 && size_min <= size && percent <= grown {
            machine.note(&format!("the log has grown by {grown} %: it gets a new base"));
            self.begin_base(now, machine);
        }
    }

    /// Whether there is to be a log and none could be begun: what changes is in no file, and it is not known when it will be.
    fn log_fails(&self) -> bool {
        self.files.log.as_ref().is_some_and(|log| log.has_failed && !log.is_written())
    }

    /// Why nobody may write: what is written could be lost, where it should be kept.
    pub(super) fn refusal_for_files(&self) -> Option<&'static str> {
        let fails_to_save = self.has_save_points()
            && self.files.save.failures > 0
            && self.config.value("stop-writes-on-bgsave-error") == "yes";
        match () {
            () if fails_to_save => Some(MISCONF_SNAPSHOT),
            () if self.log_fails() || self.keeps_log() && self.files.trouble.is_some() => Some(MISCONF_LOG),
            () => None,
        }
    }
}
