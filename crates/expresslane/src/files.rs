//! Files of the data: what the control thread orders is written here, by a thread of its own, so that a slow disk keeps neither lanes
//! nor the control thread waiting. docs/persistence.md is the lecture.
//!
//! ```text
//! control ── orders ──▶ files ──▶ DIR/dump.rdb, DIR/appendonlydir/…
//!    ▲                    │ starts
//!    ├── news ────────────┤
//!    └── news ────────── load ──▶ connections of its own, which the control thread gives to lanes
//! ```
//! A file takes its name when all of it is on disk, so that under its name it is whole or the one before.

pub(crate) mod load;
mod log;
mod manifest;
pub(crate) mod unfinished;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use lane::{FileKind, FileNews, FileOrder, Source};

use crate::control::{self, Level};
use crate::news::{Teller, channel};
use crate::settings::ServeSettings;
pub(crate) use load::Lanes;
use log::Logs;
pub(crate) use manifest::Manifest;

/// How long what was written may not be on disk (`appendfsync everysec`), and after how long a failed write is tried again.
const SYNC: Duration = Duration::from_secs(1);
/// What stands before and behind a process' number in the name of a snapshot and of a base that are not whole.
const UNFINISHED_SNAPSHOT: &str = "temp-";
const UNFINISHED_BASE: &str = "temp-rewriteaof-";
const UNFINISHED: &str = ".rdb";
/// Of a snapshot so much at most is not on disk: the end has little left to wait for.
const UNSYNCED_SIZE_MAX: u64 = 32 << 20;

/// Where files are.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// `dir`
    pub(crate) dir: PathBuf,
    /// `dbfilename`
    pub(crate) snapshot: String,
    /// `appenddirname`
    pub(crate) log_dir: String,
    /// `appendfilename`
    pub(crate) log: String,
    /// `aof-load-truncated`
    pub(crate) loads_truncated: bool,
}

impl Place {
    fn snapshot_path(&self) -> PathBuf {
        self.dir.join(&self.snapshot)
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join(&self.log_dir)
    }

    /// What is to be loaded at the start: the log, if there is one to go on with, else the snapshot.
    ///
    /// # Errors
    /// A sentence: there is no such directory, which a server that begins empty should not find out by its first snapshot, or the log's manifest
    /// can't be read.
    pub(crate) fn source(&self, has_log: bool) -> Result<Option<Source>, String> {
        let dir = self.dir.display();
        match std::fs::metadata(&self.dir) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(format!("--dir {dir} is no directory: name one")),
            Err(error) => {
                return Err(format!("--dir {dir}: {error}; make that directory, or name another one"));
            }
        }
        if has_log && Manifest::read(self)?.is_some() {
            return Ok(Some(Source::Log));
        }
        Ok(self.snapshot_path().exists().then_some(Source::Snapshot))
    }
}

/// Where the settings say that files are.
pub(crate) fn place(settings: &ServeSettings) -> Place {
    Place {
        dir: settings.dir.clone(),
        snapshot: settings.dbfilename.clone(),
        log_dir: settings.appenddirname.clone(),
        log: settings.appendfilename.clone(),
        loads_truncated: settings.aof_load_truncated,
    }
}

/// What is loaded, for the log.
pub(crate) fn named(settings: &ServeSettings, source: Source) -> String {
    let place = place(settings);
    match source {
        Source::Snapshot => format!("the snapshot {}", place.snapshot_path().display()),
        Source::Log => format!("the log in {}", place.log_path().display()),
    }
}

/// The control thread's end.
pub(crate) struct Desk {
    orders: Sender<Task>,
    news: Receiver<FileNews>,
    teller: Teller<FileNews>,
}

/// What this thread does.
enum Task {
    Order(FileOrder),
    /// Sees to it that all of the log that has come is on disk and no half of a file is left, and says so, or why it is not.
    Settle(Sender<Result<(), String>>),
}

/// How `main` has files settled at the end.
#[derive(Clone)]
pub(crate) struct Settler(Sender<Task>);

impl Settler {
    /// Has all of the log that has come put on disk. What is received is the end of that, or why it can't be.
    pub(crate) fn settle(&self) -> Receiver<Result<(), String>> {
        let (done, is_done) = mpsc::channel();
        // A thread that has ended drops the other end: nothing is received.
        let _ = self.0.send(Task::Settle(done));
        is_done
    }
}

impl Desk {
    pub(crate) fn order(&self, order: FileOrder) {
        let _ = self.orders.send(Task::Order(order));
    }

    pub(crate) fn news(&self) -> Option<FileNews> {
        self.news.try_recv().ok()
    }

    pub(crate) fn settler(&self) -> Settler {
        Settler(self.orders.clone())
    }

    /// Who is woken by news.
    pub(crate) fn is_heard_by(&self, control: Thread) {
        self.teller.is_heard_by(control);
    }
}

/// Starts the thread. `has_log`: there is to be one from the start, and it is an error if it can't be written. `syncs`: `appendfsync
/// everysec`. When what is to be loaded at the start is there, `opened` is called.
///
/// # Errors
/// A sentence.
pub(crate) fn start(
    place: Place,
    lanes: load::Lanes,
    has_log: bool,
    syncs: bool,
    opened: impl FnOnce() + Send + 'static,
) -> Result<Desk, String> {
    let (orders, tasks) = mpsc::channel();
    let (teller, news) = channel();
    let mut logs = Logs::new(place.clone());
    if has_log {
        logs.take_up().map_err(|why| format!("no log can be written: {why}; choose another --dir"))?;
    }
    let writer = Writer {
        logs,
        place,
        lanes,
        teller: teller.clone(),
        open: BTreeMap::new(),
        syncs,
        trouble: None,
        opened: Some(Box::new(opened)),
    };
    thread::Builder::new()
        .name("files".to_owned())
        .spawn(move || {
            writer.remove_unfinished();
            writer.run(&tasks);
        })
        .map_err(|error| format!("the thread of the files can't be started: {error}"))?;
    Ok(Desk { orders, news, teller })
}

/// A file that is being written.
struct Open {
    kind: FileKind,
    /// What it is called until it is whole; a log's file is called what it is.
    path: PathBuf,
    /// None of a log's file that could not be made yet.
    file: Option<File>,
    /// Bytes that are whole in it.
    size: u64,
    unsynced_size: u64,
    /// What a log's file could not take.
    waiting: VecDeque<Arc<Vec<u8>>>,
    /// Nothing more comes of a log's file.
    has_all: bool,
    /// A base has taken the place of a log's file: it may lack anything.
    is_obsolete: bool,
}

struct Writer {
    place: Place,
    logs: Logs,
    lanes: load::Lanes,
    teller: Teller<FileNews>,
    open: BTreeMap<u64, Open>,
    syncs: bool,
    /// Why the log can't be written.
    trouble: Option<String>,
    opened: Option<Box<dyn FnOnce() + Send>>,
}

impl Writer {
    #[expect(
        clippy::disallowed_methods,
        reason = "this thread is no lane: it waits for a disk, and for a second to be over"
    )]
    fn run(mut self, tasks: &Receiver<Task>) {
        let mut sync_at = Instant::now() + SYNC;
        loop {
            match tasks.recv_timeout(sync_at.saturating_duration_since(Instant::now())) {
                Ok(Task::Order(order)) => self.obey(order),
                Ok(Task::Settle(done)) => {
                    self.tend();
                    self.abandon_halves();
                    let missing = self.trouble.clone().filter(|_| self.lacks_some());
                    let _ = done.send(missing.map_or(Ok(()), Err));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if sync_at <= Instant::now() {
                self.tend();
                sync_at = Instant::now() + SYNC;
            }
        }
    }

    /// Before anything is begun here.
    fn remove_unfinished(&self) {
        let Place { dir, snapshot, .. } = &self.place;
        unfinished::remove(dir, UNFINISHED_SNAPSHOT, UNFINISHED, snapshot);
        unfinished::remove(&self.place.log_path(), UNFINISHED_BASE, UNFINISHED, "");
    }

    fn obey(&mut self, order: FileOrder) {
        match order {
            FileOrder::Begin { file, kind } => {
                if let Err(why) = self.begin(file, kind) {
                    self.fail(file, &why);
                }
            }
            FileOrder::Piece { file, bytes } => self.take(file, bytes),
            FileOrder::End { file } if self.open.get(&file).is_some_and(Open::is_log) => {
                self.open.get_mut(&file).expect("just seen").has_all = true;
                self.tend();
            }
            FileOrder::End { file } => {
                if let Err(why) = self.end(file) {
                    self.fail(file, &why);
                } else {
                    self.teller.tell(FileNews::Written { file });
                }
            }
            FileOrder::Abandon { file } => self.abandon(file),
            FileOrder::SyncEverySecond(syncs) => self.syncs = syncs,
            FileOrder::Load(source, beside) => {
                if source == Source::Log {
                    self.logs.note_loaded();
                }
                let (place, lanes, teller) = (self.place.clone(), self.lanes.clone(), self.teller.clone());
                let load = move || {
                    let usher = {
                        let teller = teller.clone();
                        move |lane, handover| teller.tell(FileNews::Inner { lane, handover })
                    };
                    let result = load::load(&place, source, beside, &lanes, &usher);
                    teller.tell(FileNews::Loaded(result));
                };
                if let Err(error) = thread::Builder::new().name("load".to_owned()).spawn(load) {
                    let why = format!("the thread that loads can't be started: {error}");
                    self.teller.tell(FileNews::Loaded(Err(why)));
                }
            }
            FileOrder::Opened => {
                if let Some(opened) = self.opened.take() {
                    opened();
                }
            }
            FileOrder::GiveUp(why) => {
                control::log(
                    Level::Error,
                    &format!(
                        "can't start without the data: {why}; to start without, move the file away or choose another --dir"
                    ),
                );
                control::exit(1);
            }
        }
    }

    fn begin(&mut self, file: u64, kind: FileKind) -> Result<(), String> {
        let path = match kind {
            FileKind::Snapshot => {
                self.place.dir.join(format!("{UNFINISHED_SNAPSHOT}{}{UNFINISHED}", std::process::id()))
            }
            FileKind::Base => {
                self.give_up_gone();
                self.logs.begin_base()?
            }
            FileKind::Log { base, goes_on } => {
                if !goes_on {
                    self.logs.tear();
                }
                self.logs.begin_log(base, goes_on && self.open.values().any(Open::is_log))?
            }
        };
        let mut open = Open {
            kind,
            path,
            file: None,
            size: 0,
            unsynced_size: 0,
            waiting: VecDeque::new(),
            has_all: false,
            is_obsolete: false,
        };
        let created = open.create();
        if !open.is_log() {
            created?;
        }
        let is_log = open.is_log();
        self.open.insert(file, open);
        if is_log {
            self.tend();
        }
        Ok(())
    }

    /// Before a base is begun: where the log's directory has been removed, what stood in it needs no end, and the base makes it anew. A log
    /// that goes on and says something waits for its directory instead.
    fn give_up_gone(&mut self) {
        let logs = self.open.values_mut().filter(|open| open.is_log());
        let logs: Vec<&mut Open> = logs.collect();
        let goes_on = logs.iter().any(|open| !open.has_all && !open.is_obsolete);
        if (!goes_on || self.logs.are_torn()) && self.logs.forget_if_gone() {
            logs.into_iter().for_each(|open| open.is_obsolete = true);
        }
    }

    fn take(&mut self, file: u64, bytes: Arc<Vec<u8>>) {
        // What was abandoned, or has failed, may have pieces on their way.
        let Some(open) = self.open.get_mut(&file) else { return };
        if open.is_log() {
            open.waiting.push_back(bytes);
            if let Err(why) = self.write_waiting(file) {
                self.note_trouble(Some(why));
            }
            return;
        }
        let size = bytes.len();
        match open.write(&bytes) {
            Ok(()) => self.teller.tell(FileNews::Taken { file, size }),
            Err(error) => {
                let why = said(&open.path, &error);
                self.fail(file, &why);
            }
        }
    }

    /// Writes what a log's file has not taken yet. What fails is tried again: nothing may be missing in its middle.
    fn write_waiting(&mut self, file: u64) -> Result<(), String> {
        let open = self.open.get_mut(&file).expect("it is open");
        open.create()?;
        while let Some(bytes) = open.waiting.front() {
            let bytes = Arc::clone(bytes);
            if !open.is_obsolete {
                open.write(&bytes).map_err(|error| said(&open.path, &error))?;
            }
            open.waiting.pop_front();
            self.teller.tell(FileNews::Taken { file, size: bytes.len() });
        }
        Ok(())
    }

    fn note_trouble(&mut self, trouble: Option<String>) {
        if self.trouble == trouble {
            return;
        }
        match &trouble {
            Some(why) => {
                let text = format!("the log can't be written and is tried again every second: {why}");
                control::log(Level::Error, &text);
            }
            None => control::log(Level::Info, "the log can be written again"),
        }
        self.trouble.clone_from(&trouble);
        self.teller.tell(FileNews::Trouble(trouble));
    }

    /// Once a second, and when a log's file begins or ends: what was written to logs is to be on disk, and what was not to be written. As
    /// long as something of that fails nobody may rely on the log.
    fn tend(&mut self) {
        match self.go_on_with_logs() {
            Err(why) => self.note_trouble(Some(why)),
            Ok(()) if self.trouble.is_some() && self.logs.are_whole() => self.note_trouble(None),
            Ok(()) => {}
        }
    }

    fn go_on_with_logs(&mut self) -> Result<(), String> {
        self.create_logs()?;
        self.logs.catch_up()?;
        let logs = self.open.iter().filter(|(_, open)| open.is_log());
        let logs: Vec<u64> = logs.map(|(file, _)| *file).collect();
        for file in logs {
            self.write_waiting(file)?;
            let open = self.open.get_mut(&file).expect("just seen");
            if !open.is_obsolete && (open.has_all || self.syncs && open.unsynced_size > 0) {
                open.sync().map_err(|error| said(&open.path, &error))?;
            }
            if open.has_all {
                self.logs.end_log(&open.path)?;
                self.open.remove(&file);
                self.note_end_of_log();
                if self.trouble.is_some() && !self.open.values().any(Open::is_log) {
                    // Nothing is missing in it, and nobody relies on the next one before that has a base.
                    self.note_trouble(None);
                }
                self.teller.tell(FileNews::Written { file });
            }
        }
        Ok(())
    }

    /// Whatever the manifest names has to be there.
    fn create_logs(&mut self) -> Result<(), String> {
        self.open.values_mut().filter(|open| open.is_log()).try_for_each(Open::create)
    }

    /// Sees to it that a snapshot or a base is on disk, and in its place.
    fn end(&mut self, file: u64) -> Result<(), String> {
        let Some(open) = self.open.get_mut(&file) else { return Err("it was given up before".to_owned()) };
        open.sync().map_err(|error| said(&open.path, &error))?;
        if open.kind == FileKind::Base {
            self.create_logs()?;
            let path = self.open.remove(&file).expect("just seen").path;
            self.logs.end_base(file, &path)?;
            for open in self.open.values_mut().filter(|open| open.is_log()) {
                open.is_obsolete = !self.logs.has(&open.path);
            }
            self.tend();
            return Ok(());
        }
        let path = self.open.remove(&file).expect("just seen").path;
        let target = self.place.snapshot_path();
        fs::rename(&path, &target).map_err(|error| said(&target, &error))?;
        sync_dir(&self.place.dir)
    }

    fn note_end_of_log(&mut self) {
        if !self.open.values().any(Open::is_log) {
            self.logs.tear();
        }
    }

    fn fail(&mut self, file: u64, why: &str) {
        self.abandon(file);
        self.teller.tell(FileNews::Failed { file, why: why.to_owned() });
    }

    /// Whether something that was told to the log is not on disk, or where no manifest says that it is the log's.
    fn lacks_some(&self) -> bool {
        let lacks = |open: &Open| {
            let is_unsynced = self.syncs && open.unsynced_size > 0;
            let is_unnamed = !open.has_all && open.size > 0 && self.logs.lags();
            !open.waiting.is_empty() || is_unsynced || is_unnamed
        };
        self.open.values().any(|open| open.is_log() && !open.is_obsolete && lacks(open))
    }

    /// Of what is not whole by the end of the process only the log is of use.
    fn abandon_halves(&mut self) {
        let halves = self.open.iter().filter(|(_, open)| !open.is_log());
        let halves: Vec<u64> = halves.map(|(file, _)| *file).collect();
        halves.into_iter().for_each(|file| self.abandon(file));
    }

    fn abandon(&mut self, file: u64) {
        let Some(Open { kind, path, .. }) = self.open.remove(&file) else { return };
        match kind {
            // What is in it is of use to the manifest that names it.
            FileKind::Log { .. } => {
                self.logs.lose(&path);
                self.note_end_of_log();
            }
            FileKind::Base => {
                self.logs.abandon_base(file);
                let _ = fs::remove_file(&path);
            }
            FileKind::Snapshot => {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

impl Open {
    fn is_log(&self) -> bool {
        matches!(self.kind, FileKind::Log { .. })
    }

    /// Makes it, unless it is there.
    fn create(&mut self) -> Result<(), String> {
        if self.file.is_none() && !self.is_obsolete {
            let file = File::create(&self.path).map_err(|error| said(&self.path, &error))?;
            if !self.is_log() {
                // So that no start takes it for one that nobody finishes; where files can't be locked, its number says so.
                let _ = file.try_lock();
            }
            self.file = Some(file);
        }
        Ok(())
    }

    fn made(&mut self) -> &mut File {
        self.file.as_mut().expect("a file is made before it is written to")
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.made().write_all(bytes) {
            // Half a piece would have the next one begin in its middle.
            use std::io::Seek;
            let size = self.size;
            let _ = self.made().set_len(size);
            let _ = self.made().seek(io::SeekFrom::Start(size));
            return Err(error);
        }
        self.size += bytes.len() as u64;
        self.unsynced_size += bytes.len() as u64;
        if !self.is_log() && self.unsynced_size >= UNSYNCED_SIZE_MAX {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.made().sync_data()?;
        self.unsynced_size = 0;
        Ok(())
    }
}

/// An error with whose it is.
fn said(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Names are on disk when their directory is.
fn sync_dir(dir: &Path) -> Result<(), String> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| said(dir, &error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use wire::route::PartitionMap;

    use super::*;

    /// A writer on a directory of its own, and what it says.
    struct Tried {
        writer: Writer,
        news: Receiver<FileNews>,
        dir: PathBuf,
    }

    impl Tried {
        fn new(name: &str) -> Tried {
            let dir = std::env::temp_dir().join(format!("expresslane-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir(&dir).unwrap();
            let place = Place {
                dir: dir.clone(),
                snapshot: "dump.rdb".to_owned(),
                log_dir: "logs".to_owned(),
                log: "log".to_owned(),
                loads_truncated: true,
            };
            let (teller, news) = channel();
            let writer = Writer {
                logs: Logs::new(place.clone()),
                place,
                lanes: load::Lanes(Arc::new(PartitionMap::even(1))),
                teller,
                open: BTreeMap::new(),
                syncs: true,
                trouble: None,
                opened: None,
            };
            Tried { writer, news, dir }
        }

        fn log(&self, number: u64) -> PathBuf {
            self.dir.join(format!("logs/log.{number}.incr.aof"))
        }

        fn begin(&mut self, file: u64, kind: FileKind) {
            self.writer.obey(FileOrder::Begin { file, kind });
        }

        fn piece(&mut self, file: u64, text: &str) {
            self.writer.obey(FileOrder::Piece { file, bytes: Arc::new(text.into()) });
        }

        fn end(&mut self, file: u64) {
            self.writer.obey(FileOrder::End { file });
        }

        /// A base and the log's file behind it, both whole.
        fn with_log(name: &str) -> Tried {
            let mut tried = Tried::new(name);
            tried.begin(1, FileKind::Base);
            tried.begin(2, FileKind::Log { base: 1, goes_on: false });
            tried.piece(1, "base");
            tried.end(1);
            tried.said();
            tried
        }

        fn said(&self) -> Vec<String> {
            let short = |news: FileNews| match news {
                FileNews::Taken { file, .. } => format!("taken {file}"),
                FileNews::Written { file } => format!("written {file}"),
                FileNews::Failed { file, .. } => format!("failed {file}"),
                FileNews::Trouble(why) => if why.is_some() { "trouble" } else { "no trouble" }.to_owned(),
                FileNews::Loaded(_) | FileNews::Inner { .. } => unreachable!("nothing is loaded"),
            };
            self.news.try_iter().map(short).collect()
        }

        /// The manifest's names and what is in them.
        fn kept(&self) -> Vec<(String, String)> {
            let manifest = Manifest::read(&self.writer.place).unwrap().unwrap_or_default();
            let names = manifest.base.into_iter().chain(manifest.incr).map(|part| part.name);
            names
                .map(|name| (name.clone(), fs::read_to_string(self.dir.join("logs").join(name)).unwrap()))
                .collect()
        }
    }

    impl Drop for Tried {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }

    fn kept(parts: &[(&str, &str)]) -> Vec<(String, String)> {
        parts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_log_that_goes_on_in_no_file_is_trouble_until_it_does() {
        let mut tried = Tried::with_log("no-file");
        // What has its name is no file.
        fs::create_dir(tried.log(2)).unwrap();
        tried.begin(3, FileKind::Base);
        tried.begin(4, FileKind::Log { base: 3, goes_on: true });
        tried.piece(2, "first;");
        tried.end(2);
        tried.piece(4, "second;");
        assert_eq!(tried.said(), ["trouble", "taken 2"]);
        tried.end(3);
        assert_eq!(tried.said(), ["failed 3"], "a base has to have its log");
        let before = kept(&[("log.1.base.rdb", "base"), ("log.1.incr.aof", "first;")]);
        assert_eq!(tried.kept(), before);
        fs::remove_dir(tried.log(2)).unwrap();
        tried.writer.tend();
        assert_eq!(tried.said(), ["written 2", "taken 4", "no trouble"]);
        let all = [("log.1.base.rdb", "base"), ("log.1.incr.aof", "first;"), ("log.2.incr.aof", "second;")];
        assert_eq!(tried.kept(), kept(&all));
    }

    #[test]
    fn a_manifest_that_can_not_be_written_is_trouble_until_it_is() {
        let mut tried = Tried::with_log("no-manifest");
        tried.begin(3, FileKind::Base);
        tried.begin(4, FileKind::Log { base: 3, goes_on: true });
        fs::create_dir(tried.dir.join("logs/temp-log.manifest")).unwrap();
        tried.end(2);
        assert_eq!(tried.said(), ["trouble"]);
        assert!(!tried.writer.lacks_some(), "nothing was told to it");
        tried.piece(4, "second;");
        assert!(tried.writer.lacks_some());
        tried.writer.obey(FileOrder::Abandon { file: 3 });
        fs::remove_dir(tried.dir.join("logs/temp-log.manifest")).unwrap();
        tried.writer.tend();
        assert_eq!(tried.said(), ["taken 4", "written 2", "no trouble"]);
        let all = [("log.1.base.rdb", "base"), ("log.1.incr.aof", ""), ("log.2.incr.aof", "second;")];
        assert_eq!(tried.kept(), kept(&all));
    }

    #[test]
    fn a_log_that_can_be_put_on_disk_again_is_no_trouble_any_more() {
        let mut tried = Tried::with_log("no-sync");
        tried.piece(2, "a;");
        // Nothing that is written there can be put on disk.
        let null = Some(File::create("/dev/null").unwrap());
        let file = std::mem::replace(&mut tried.writer.open.get_mut(&2).unwrap().file, null);
        tried.writer.tend();
        tried.piece(2, "b;");
        assert_eq!(tried.said(), ["taken 2", "trouble", "taken 2"], "what is written is not on disk");
        assert!(tried.writer.lacks_some());
        tried.writer.open.get_mut(&2).unwrap().file = file;
        tried.writer.tend();
        assert_eq!(tried.said(), ["no trouble"]);
        assert!(!tried.writer.lacks_some());
    }

    #[test]
    fn a_log_begins_anew_where_its_directory_was_removed() {
        let mut tried = Tried::with_log("removed");
        fs::remove_dir_all(&tried.dir).unwrap();
        // The log is given up, and begun anew.
        tried.end(2);
        tried.begin(3, FileKind::Base);
        assert_eq!(tried.said(), ["trouble", "failed 3"]);
        // The cut comes before it is known that there is no base.
        tried.begin(4, FileKind::Log { base: 3, goes_on: false });
        assert_eq!(tried.said(), ["failed 4"]);
        fs::create_dir(&tried.dir).unwrap();
        tried.begin(5, FileKind::Base);
        tried.begin(6, FileKind::Log { base: 5, goes_on: false });
        tried.piece(5, "base");
        tried.piece(6, "a;");
        tried.end(5);
        assert_eq!(tried.said(), ["written 2", "taken 5", "taken 6", "no trouble", "written 5"]);
        assert_eq!(tried.kept(), kept(&[("log.2.base.rdb", "base"), ("log.2.incr.aof", "a;")]));
    }

    #[test]
    fn a_log_that_goes_on_waits_for_its_directory() {
        let mut tried = Tried::with_log("moved");
        let (logs, away) = (tried.dir.join("logs"), tried.dir.join("away"));
        fs::rename(&logs, &away).unwrap();
        tried.piece(2, "a;");
        tried.begin(3, FileKind::Base);
        assert_eq!(tried.said(), ["taken 2", "failed 3"]);
        fs::rename(&away, &logs).unwrap();
        tried.piece(2, "b;");
        assert_eq!(tried.kept(), kept(&[("log.1.base.rdb", "base"), ("log.1.incr.aof", "a;b;")]));
    }

    #[test]
    fn a_base_takes_the_place_of_a_log_that_can_not_be_written() {
        let mut tried = Tried::new("obsolete");
        tried.begin(1, FileKind::Base);
        symlink("/dev/full", tried.log(1)).unwrap();
        tried.begin(2, FileKind::Log { base: 1, goes_on: false });
        tried.end(1);
        tried.piece(2, "a;");
        assert_eq!(tried.said(), ["written 1", "trouble"]);
        tried.begin(3, FileKind::Base);
        tried.begin(4, FileKind::Log { base: 3, goes_on: true });
        tried.piece(3, "base");
        tried.end(3);
        assert_eq!(tried.said(), ["taken 3", "taken 2", "no trouble", "written 3"]);
        tried.piece(2, "b;");
        tried.end(2);
        tried.piece(4, "c;");
        assert_eq!(tried.said(), ["taken 2", "written 2", "taken 4"]);
        assert_eq!(tried.kept(), kept(&[("log.2.base.rdb", "base"), ("log.2.incr.aof", "c;")]));
    }
}
