//! The directory that journals lie in: who may write there, which one is in force, and what becomes of the others.
//!
//! ```text
//!   lock                     held with flock(2) while someone applies, reverts or confirms; names them
//!   journal.jsonl            what is in force
//!   aside-7-reverted.jsonl   what was, for those who want to know; the newest few are kept
//!   aside-8-void.jsonl       of an earlier run of the kernel, whose settings went with it
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Journal, Line, Log, Trouble, Wish};

/// Journals kept aside; above it the oldest goes.
pub const ASIDE_COUNT_MAX: usize = 16;
/// Lines above which a journal is written anew with what is held alone: a guard that sets things again adds some each time.
pub const LINES_COUNT_MAX: usize = 10_000;

const JOURNAL: &str = "journal.jsonl";
const NEW: &str = "journal.new";
const LOCK: &str = "lock";

/// The directory, held: nobody else writes there until it is dropped.
pub struct State {
    directory: PathBuf,
    _lock: File,
}

/// The journal of a directory.
pub enum Found {
    /// There is none: no lanes are in force.
    Nothing,
    /// There was one of an earlier run of the kernel: its settings are gone, and there is nothing to put back.
    Void {
        /// Where it lies now; where it still lies, for those who only look.
        kept: PathBuf,
    },
    /// There is one.
    InForce(Box<Journal>),
}

/// What became of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Nothing is held any more: it was kept aside.
    Aside(PathBuf),
    /// It stays in force.
    InForce,
}

/// Reads a directory's journal without holding the directory: someone may be writing it.
///
/// # Errors
/// [`Trouble::Unreadable`], and the file system's.
pub fn look(directory: &Path, boot: &str) -> Result<Found, Trouble> {
    let path = directory.join(JOURNAL);
    Ok(match parse(&path)? {
        None => Found::Nothing,
        Some((journal, _)) if journal.boot != boot => Found::Void { kept: path },
        Some((journal, _)) => Found::InForce(Box::new(journal)),
    })
}

impl State {
    /// Takes hold of the directory, which is made where it is missing. `doing` is what others are told: `apply`.
    ///
    /// # Errors
    /// [`Trouble::Locked`] with the process that has it.
    pub fn lock(directory: &Path, doing: &str) -> Result<State, Trouble> {
        fs::create_dir_all(directory).map_err(|e| refused("make", directory, &e))?;
        let path = directory.join(LOCK);
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut lock = opened.map_err(|e| refused("open", &path, &e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who it is helps and is not needed.
                let _ = lock.read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
                return Err(Trouble::Locked(format!(
                    "{holder} is changing this machine's lanes (it holds {}): wait for it, and try again",
                    path.display()
                )));
            }
            Err(TryLockError::Error(e)) => return Err(refused("lock", &path, &e)),
        }
        let told = lock.set_len(0).and_then(|()| write!(lock, "process {} ({doing})", std::process::id()));
        told.map_err(|e| refused("write", &path, &e))?;
        Ok(State { directory: directory.to_owned(), _lock: lock })
    }

    /// The journal of what is in force, to go on with. One of an earlier run of the kernel is put aside.
    ///
    /// # Errors
    /// [`Trouble::Unreadable`], and the file system's.
    pub fn journal(&self, boot: &str) -> Result<Found, Trouble> {
        let path = self.directory.join(JOURNAL);
        let Some((journal, size)) = parse(&path)? else {
            return Ok(Found::Nothing);
        };
        if journal.boot != boot {
            return Ok(Found::Void { kept: self.put_aside("void")? });
        }
        let log = FileLog::resumed(&path, size).map_err(|e| refused("open", &path, &e))?;
        Ok(Found::InForce(Box::new(journal.resumed(Box::new(log)))))
    }

    /// A new journal. There must be none in force.
    ///
    /// # Errors
    /// The file system's.
    pub fn begin(&self, boot: &str, wish: Wish) -> Result<Journal, Trouble> {
        let path = self.directory.join(JOURNAL);
        let log = FileLog::new(&path).map_err(|e| refused("write", &path, &e))?;
        let journal = Journal::begin(Box::new(log), boot, wish)?;
        self.sync()?;
        Ok(journal)
    }

    /// Ends the work with a journal: one that holds nothing is put aside; of one that holds only a rest, or grew long, that
    /// rest is written anew.
    ///
    /// # Errors
    /// The file system's.
    pub fn finish(&self, journal: Journal) -> Result<Finished, Trouble> {
        if journal.is_over() {
            return Ok(Finished::Aside(self.put_aside("reverted")?));
        }
        if !journal.is_complete() || journal.lines_count > LINES_COUNT_MAX {
            self.rewrite(&journal.compact())?;
        }
        Ok(Finished::InForce)
    }

    fn rewrite(&self, lines: &[Line]) -> Result<(), Trouble> {
        let (new, path) = (self.directory.join(NEW), self.directory.join(JOURNAL));
        let mut text = String::new();
        for line in lines {
            let line = serde_json::to_string(line).map_err(|e| Trouble::Refused(e.to_string()))?;
            text.push_str(&line);
            text.push('\n');
        }
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|e| refused("write", &new, &e))?;
        fs::rename(&new, &path).map_err(|e| refused("replace", &path, &e))?;
        self.sync()
    }

    /// Renames the journal; removes what is more than [`ASIDE_COUNT_MAX`] of them.
    fn put_aside(&self, why: &str) -> Result<PathBuf, Trouble> {
        let mut asides = Vec::new();
        let listed = fs::read_dir(&self.directory).map_err(|e| refused("list", &self.directory, &e))?;
        for entry in listed {
            let name = entry.map_err(|e| refused("list", &self.directory, &e))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("aside-")?.split('-').next());
            asides.extend(number.and_then(|number| number.parse::<u64>().ok()).map(|number| (number, name)));
        }
        asides.sort();
        let next = asides.last().map_or(1, |(number, _)| number + 1);
        let kept = self.directory.join(format!("aside-{next}-{why}.jsonl"));
        let path = self.directory.join(JOURNAL);
        fs::rename(&path, &kept).map_err(|e| refused("rename", &path, &e))?;
        let surplus = (asides.len() + 1).saturating_sub(ASIDE_COUNT_MAX);
        for (_, name) in &asides[..surplus] {
            let old = self.directory.join(name);
            fs::remove_file(&old).map_err(|e| refused("remove", &old, &e))?;
        }
        self.sync()?;
        Ok(kept)
    }

    /// Names of files are on disk only when their directory is.
    fn sync(&self) -> Result<(), Trouble> {
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.map_err(|e| refused("write", &self.directory, &e))
    }
}

/// A file as a log needs it; another stands for a disk that fails.
pub(super) trait Disk {
    /// Appends bytes, which may stay in memory.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns when all that was appended is where a loss of power does not take it.
    fn sync(&mut self) -> io::Result<()>;
    /// Forgets what lies beyond `size`; further bytes come behind it.
    fn cut(&mut self, size: u64) -> io::Result<()>;
}

impl Disk for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.set_len(size)?;
        self.seek(SeekFrom::Start(size)).map(|_| ())
    }
}

/// Appends with `fdatasync(2)`.
pub(super) struct FileLog<F: Disk> {
    pub(super) file: F,
    /// Size of the whole lines.
    pub(super) size: u64,
    /// Half a line is behind them and can't be removed.
    pub(super) is_broken: bool,
}

impl FileLog<File> {
    fn new(path: &Path) -> io::Result<FileLog<File>> {
        Ok(FileLog { file: File::create(path)?, size: 0, is_broken: false })
    }

    /// Behind the whole lines; what is left of a cut one goes.
    fn resumed(path: &Path, size: usize) -> io::Result<FileLog<File>> {
        let size = size as u64;
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.cut(size)?;
        Ok(FileLog { file, size, is_broken: false })
    }
}

impl<F: Disk> Log for FileLog<F> {
    fn append(&mut self, line: &str) -> Result<(), String> {
        if self.is_broken {
            return Err("the journal ends in half a line that can't be removed".to_owned());
        }
        let text = format!("{line}\n");
        let written = self.file.append(text.as_bytes()).and_then(|()| self.file.sync());
        if let Err(problem) = written {
            // Half a line in the middle would make the journal unreadable.
            self.is_broken = self.file.cut(self.size).is_err();
            return Err(format!("the journal can't be written: {problem}"));
        }
        self.size += text.len() as u64;
        Ok(())
    }
}

fn parse(path: &Path) -> Result<Option<(Journal, usize)>, Trouble> {
    match fs::read(path) {
        Ok(bytes) => Journal::parse(&path.display().to_string(), &bytes),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(refused("read", path, &e)),
    }
}

fn refused(what: &str, path: &Path, problem: &io::Error) -> Trouble {
    let hint = match problem.kind() {
        io::ErrorKind::PermissionDenied => ": run this as root, or name another directory with --state-dir",
        io::ErrorKind::StorageFull => ": make room there, or name another directory with --state-dir",
        _ => "",
    };
    Trouble::Refused(format!("can't {what} {}: {problem}{hint}", path.display()))
}
