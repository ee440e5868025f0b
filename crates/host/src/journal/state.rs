//! The directory that journals lie in: who may write there, which one is in force, and what becomes of the others.
//!
//! ```text
//!   lock                     held with flock(2) while someone applies, reverts or confirms; names them
//!   journal.jsonl            what is in force
//!   aside-7-reverted.jsonl   what was, for those who want to know; the newest few are kept
//!   aside-8-void.jsonl       of an earlier run of the kernel, whose settings went with it
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::files::{Directory, FileLog, Files};
use super::{Journal, Line, Trouble, Wish};

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
    pub(super) files: Box<dyn Files>,
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

/// Whether someone holds the directory just now. Nothing is made there.
#[must_use]
pub fn is_held(directory: &Path) -> bool {
    // Read only, so that everybody may ask.
    let lock = File::open(directory.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
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
        let files = Box::new(Directory(directory.to_owned()));
        Ok(State { directory: directory.to_owned(), files, _lock: lock })
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
        // What is left of a line that was cut goes.
        let file = self.files.open(JOURNAL, size as u64).map_err(|e| refused("open", &path, &e))?;
        let log = FileLog::new(file, size as u64);
        Ok(Found::InForce(Box::new(journal.resumed(Box::new(log)))))
    }

    /// A new journal. There must be none in force.
    ///
    /// # Errors
    /// The file system's.
    pub fn begin(&self, boot: &str, wish: Wish) -> Result<Journal, Trouble> {
        let file = self.files.open(JOURNAL, 0);
        let file = file.map_err(|e| refused("write", &self.directory.join(JOURNAL), &e))?;
        let journal = Journal::begin(Box::new(FileLog::new(file, 0)), boot, wish)?;
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
        let mut text = String::new();
        for line in lines {
            let line = serde_json::to_string(line).map_err(|e| Trouble::Refused(e.to_string()))?;
            text.push_str(&line);
            text.push('\n');
        }
        let written = self.files.open(NEW, 0).and_then(|mut file| {
            file.append(text.as_bytes())?;
            // Before its name is the journal's: of the two, the file system may keep the name alone.
            file.sync()
        });
        written.map_err(|e| refused("write", &self.directory.join(NEW), &e))?;
        let replaced = self.files.rename(NEW, JOURNAL);
        replaced.map_err(|e| refused("replace", &self.directory.join(JOURNAL), &e))?;
        self.sync()
    }

    /// Renames the journal; removes what is more than [`ASIDE_COUNT_MAX`] of them.
    fn put_aside(&self, why: &str) -> Result<PathBuf, Trouble> {
        let mut asides = Vec::new();
        let listed = fs::read_dir(&self.directory).map_err(|e| refused("list", &self.directory, &e))?;
        for entry in listed {
            let name = entry.map_err(|e| refused("list", &self.directory, &e))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("aside-")?.split('-').next());
            let number = number.and_then(|number| number.parse::<u64>().ok());
            asides.extend(number.zip(name.to_str().map(str::to_owned)));
        }
        asides.sort();
        let next = asides.last().map_or(1, |(number, _)| number + 1);
        let kept = format!("aside-{next}-{why}.jsonl");
        let renamed = self.files.rename(JOURNAL, &kept);
        renamed.map_err(|e| refused("rename", &self.directory.join(JOURNAL), &e))?;
        let surplus = (asides.len() + 1).saturating_sub(ASIDE_COUNT_MAX);
        for (_, name) in &asides[..surplus] {
            self.files.remove(name).map_err(|e| refused("remove", &self.directory.join(name), &e))?;
        }
        self.sync()?;
        Ok(self.directory.join(kept))
    }

    /// Names of files are on disk only when their directory is.
    fn sync(&self) -> Result<(), Trouble> {
        self.files.sync().map_err(|e| refused("write", &self.directory, &e))
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
