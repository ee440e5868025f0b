//! The log's files: which are written, and which of them the manifest names.
//!
//! ```text
//! manifest          base 1, incr 1
//! a new base's cut  base 1, incr 1                incr 1 ends here, and gets what is on its way to it
//! that is on disk   base 1, incr 1, incr 2        all three together are all there is
//! so is the base    base 2, incr 2                base 1 and incr 1 go
//! ```
//! A file whose end is not on disk is the last that is named: what stands behind a cut would be no log. So whatever is there after a crash is
//! what has changed up to some moment.
//!
//! While there is no base, or nobody has written what changed between the last file and this one, what has changed alone says nothing:
//! then the manifest is as it was until there is a base.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::manifest::{Manifest, Part, unnamed};
use super::{Place, UNFINISHED, UNFINISHED_BASE, said, sync_dir};
use crate::control::{self, Level};

/// See the top of this file.
pub(super) struct Logs {
    place: Place,
    /// The directory, locked as long as this is open.
    lock: Option<File>,
    /// What the manifest is to be; nothing was read yet without one.
    manifest: Option<Manifest>,
    /// By the base at whose cut they began: those that have begun here, the oldest first.
    begun: Vec<(u64, Part)>,
    /// Files that are being written, the oldest first.
    open: Vec<Part>,
    /// The files that the manifest names say all there was until the next one begins.
    is_whole: bool,
    /// Something is missing before the files that have begun since.
    is_torn: bool,
    /// The manifest on disk is not what it is to be.
    lags: bool,
    base_seq: u64,
    incr_seq: u64,
}

impl Logs {
    pub(super) fn new(place: Place) -> Logs {
        Logs {
            place,
            lock: None,
            manifest: None,
            begun: Vec::new(),
            open: Vec::new(),
            is_whole: false,
            is_torn: false,
            lags: false,
            base_seq: 0,
            incr_seq: 0,
        }
    }

    /// Sees to it that a log can be written.
    pub(super) fn take_up(&mut self) -> Result<(), String> {
        self.known().map(drop)
    }

    /// What there is on disk, looked at once, and nobody else's from then on: two servers would write each other's log.
    fn known(&mut self) -> Result<&mut Manifest, String> {
        if self.manifest.is_none() {
            let dir = self.place.log_path();
            match fs::create_dir(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(said(&dir, &error)),
                _ => {}
            }
            let lock = File::open(&dir).map_err(|error| said(&dir, &error))?;
            match lock.try_lock() {
                Ok(()) => self.lock = Some(lock),
                Err(TryLockError::WouldBlock) => {
                    return Err(format!("{}: another server writes its log there", dir.display()));
                }
                Err(TryLockError::Error(error)) => return Err(said(&dir, &error)),
            }
            let manifest = Manifest::read(&self.place)?;
            if let Some(manifest) = &manifest {
                let base_seq = manifest.base.iter().map(|part| part.seq).max().unwrap_or(0);
                let incr_seq = manifest.incr.iter().map(|part| part.seq).max().unwrap_or(0);
                (self.base_seq, self.incr_seq) = (self.base_seq.max(base_seq), self.incr_seq.max(incr_seq));
            } else {
                // They are not written over.
                let (base_seq, incr_seq, one) = unnamed(&self.place)?;
                (self.base_seq, self.incr_seq) = (self.base_seq.max(base_seq), self.incr_seq.max(incr_seq));
                if let Some(one) = one {
                    let text = format!(
                        "{}: {one} and files like it are there without a manifest; nothing of them is loaded, and they are kept",
                        dir.display()
                    );
                    control::log(Level::Warn, &text);
                }
            }
            self.manifest = Some(manifest.unwrap_or_default());
        }
        Ok(self.manifest.as_mut().expect("just read"))
    }

    /// Whether the directory that was taken up is no more, or another one has its name. Then all that was in it is no more either: whatever
    /// there is now is looked at anew, and numbers go on. Not asked while a file of it goes on that says something.
    pub(super) fn forget_if_gone(&mut self) -> bool {
        let Some(lock) = &self.lock else { return false };
        let which = |found: io::Result<Metadata>| found.map(|found| (found.dev(), found.ino()));
        let has_gone = match which(fs::metadata(self.place.log_path())) {
            Ok(now) => which(lock.metadata()).is_ok_and(|taken_up| taken_up != now),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if has_gone {
            (self.lock, self.manifest) = (None, None);
            (self.is_whole, self.is_torn, self.lags) = (false, true, false);
            self.begun.clear();
            self.open.clear();
        }
        has_gone
    }

    /// Whether files that are begun say nothing until there is a base.
    pub(super) fn are_torn(&self) -> bool {
        self.is_torn
    }

    /// Where a base is written until it is whole.
    pub(super) fn begin_base(&mut self) -> Result<PathBuf, String> {
        self.known()?;
        Ok(self.place.log_path().join(format!("{UNFINISHED_BASE}{}{UNFINISHED}", std::process::id())))
    }

    /// What the manifest names has been loaded, and nothing has changed since.
    pub(super) fn note_loaded(&mut self) {
        self.is_whole = true;
    }

    /// A file lacks its end: what has begun behind it says nothing any more, until there is a base.
    pub(super) fn lose(&mut self, path: &Path) {
        if !self.has(path) {
            // A base has taken its place.
            return self.open.retain(|part| !is_at(part, path));
        }
        self.is_torn = true;
        let place = self.place.clone();
        let Some(manifest) = &mut self.manifest else { return };
        let found = manifest.incr.iter().position(|part| is_at(part, path));
        let kept = found.filter(|_| manifest.base.is_some()).map(|at| manifest.incr[..=at].to_vec());
        let kept = kept.map(|incr| up_to_open(&Manifest { incr, ..manifest.clone() }, &self.open));
        self.open.retain(|part| !is_at(part, path));
        let Some(kept) = kept else { return };
        // If it can't be written, it is as it was, and so is what is wrong with the disk.
        let _ = kept.write(&place);
    }

    /// A file has ended, and no other goes on where it was.
    pub(super) fn tear(&mut self) {
        self.is_whole = false;
    }

    /// Where what changes from the cut of `base` on is written. `goes_on`: another file has had everything until there.
    pub(super) fn begin_log(&mut self, base: u64, goes_on: bool) -> Result<PathBuf, String> {
        self.known()?;
        self.is_torn |= !goes_on && !std::mem::take(&mut self.is_whole);
        self.incr_seq += 1;
        let part =
            Part { name: format!("{}.{}.incr.aof", self.place.log, self.incr_seq), seq: self.incr_seq };
        let path = self.place.log_path().join(&part.name);
        self.begun.push((base, part.clone()));
        self.open.push(part.clone());
        self.known()?.incr.push(part);
        self.lags = true;
        Ok(path)
    }

    /// The files that have begun are the log's from here on, if there is something before them, and that is on disk.
    pub(super) fn catch_up(&mut self) -> Result<(), String> {
        if !self.lags {
            return Ok(());
        }
        let manifest = self.known()?.clone();
        if manifest.base.is_some() && !self.is_torn {
            up_to_open(&manifest, &self.open).write(&self.place)?;
        } else {
            sync_dir(&self.place.log_path())?;
        }
        self.lags = false;
        Ok(())
    }

    /// Whether the manifest on disk is not what it is to be.
    pub(super) fn lags(&self) -> bool {
        self.lags
    }

    /// Whether a start would find in them whatever is written to a file of the log.
    pub(super) fn are_whole(&self) -> bool {
        let has_base = self.manifest.as_ref().is_some_and(|manifest| manifest.base.is_some());
        has_base && !self.is_torn && !self.lags && !self.open.is_empty()
    }

    /// Whether a file is one of the log's.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.incr.iter().any(|part| is_at(part, path)))
    }

    /// All of a file is on disk: the one behind it counts from here on.
    pub(super) fn end_log(&mut self, path: &Path) -> Result<(), String> {
        self.open.retain(|part| !is_at(part, path));
        self.lags = true;
        self.catch_up()
    }

    /// A base is whole: all that is older goes.
    pub(super) fn end_base(&mut self, base: u64, path: &Path) -> Result<(), String> {
        let seq = self.base_seq + 1;
        let part = Part { name: format!("{}.{seq}.base.rdb", self.place.log), seq };
        let dir = self.place.log_path();
        let target = dir.join(&part.name);
        fs::rename(path, &target).map_err(|error| said(&target, &error))?;
        self.begun.retain(|(since, _)| base <= *since);
        let incr = self.begun.iter().map(|(_, part)| part.clone()).collect();
        let fresh = Manifest { base: Some(part), incr, history: Vec::new() };
        up_to_open(&fresh, &self.open).write(&self.place)?;
        self.base_seq = seq;
        (self.is_torn, self.lags) = (false, false);
        let before = std::mem::replace(self.known()?, fresh);
        let kept = self.known()?.clone();
        let gone = before.base.into_iter().chain(before.incr).chain(before.history);
        for part in gone.filter(|part| Some(part) != kept.base.as_ref() && !kept.incr.contains(part)) {
            // One that can't be removed is in nobody's way but for its size.
            let _ = fs::remove_file(dir.join(&part.name));
        }
        Ok(())
    }

    /// A base comes to nothing. What has changed since its cut goes on being the log's, behind what was before.
    pub(super) fn abandon_base(&mut self, base: u64) {
        let has_base = self.manifest.as_ref().is_some_and(|manifest| manifest.base.is_some());
        if has_base && !self.is_torn {
            return;
        }
        // It stands behind nothing.
        let (gone, kept) = std::mem::take(&mut self.begun).into_iter().partition(|(since, _)| *since == base);
        self.begun = kept;
        let gone: Vec<(u64, Part)> = gone;
        if let Some(manifest) = &mut self.manifest {
            manifest.incr.retain(|part| !gone.iter().any(|(_, other)| other == part));
        }
        self.open.retain(|part| !gone.iter().any(|(_, other)| other == part));
        for (_, part) in gone {
            let _ = fs::remove_file(self.place.log_path().join(&part.name));
        }
    }
}

fn is_at(part: &Part, path: &Path) -> bool {
    path.file_name().is_some_and(|name| *name == *part.name)
}

/// A manifest without what stands behind the first file that is being written.
fn up_to_open(manifest: &Manifest, open: &[Part]) -> Manifest {
    let whole_count = manifest.incr.iter().take_while(|part| !open.contains(part)).count();
    let incr = manifest.incr.iter().take(whole_count + 1).cloned().collect();
    Manifest { incr, ..manifest.clone() }
}

impl Drop for Logs {
    /// A process that another thread has just forked has the lock open, too, until it runs its own program.
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            let _ = lock.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of a test's own.
    fn place(name: &str) -> Place {
        Place {
            dir: std::env::temp_dir().join(format!("expresslane-{name}-{}", std::process::id())),
            snapshot: "dump.rdb".to_owned(),
            log_dir: "appendonlydir".to_owned(),
            log: "appendonly.aof".to_owned(),
            loads_truncated: true,
        }
    }

    #[test]
    fn files_that_no_manifest_names_are_kept() {
        let place = place("unnamed");
        fs::create_dir_all(place.log_path()).unwrap();
        for name in [
            "appendonly.aof.3.base.rdb",
            "appendonly.aof.12.incr.aof",
            "appendonly.aof.x.incr.aof",
            "appendonly.aof.99999999999999999999.incr.aof",
            "other.aof.50.incr.aof",
        ] {
            fs::write(place.log_path().join(name), "somebody's").unwrap();
        }
        let mut logs = Logs::new(place.clone());
        let path = logs.begin_base().unwrap();
        fs::write(&path, "base").unwrap();
        let log = logs.begin_log(1, false).unwrap();
        fs::write(&log, "log").unwrap();
        logs.catch_up().unwrap();
        logs.end_base(1, &path).unwrap();
        let text = fs::read_to_string(place.log_path().join("appendonly.aof.manifest")).unwrap();
        assert_eq!(
            text,
            "file appendonly.aof.4.base.rdb seq 4 type b\nfile appendonly.aof.13.incr.aof seq 13 type i\n"
        );
        let kept = |name| fs::read_to_string(place.log_path().join(name)).unwrap();
        assert_eq!(kept("appendonly.aof.3.base.rdb"), "somebody's");
        assert_eq!(kept("appendonly.aof.12.incr.aof"), "somebody's");
        fs::remove_dir_all(&place.dir).unwrap();
    }

    #[test]
    fn the_manifest_names_what_is_whole_together_at_every_step() {
        let place = place("logs");
        fs::create_dir_all(&place.dir).unwrap();
        let text = || fs::read_to_string(place.log_path().join("appendonly.aof.manifest")).ok();
        let names = |parts: &[&str]| {
            let line = |part: &&str| {
                let seq = part.split('.').nth(2).unwrap();
                let kind = if part.ends_with("rdb") { 'b' } else { 'i' };
                format!("file {part} seq {seq} type {kind}\n")
            };
            Some(parts.iter().map(line).collect::<String>())
        };
        let base = |logs: &mut Logs| {
            let path = logs.begin_base().unwrap();
            fs::write(&path, "base").unwrap();
            path
        };
        // The one before has its end by then.
        let log = |logs: &mut Logs, since| {
            let before = logs.open.last().map(|part| place.log_path().join(&part.name));
            let path = logs.begin_log(since, since > 1).unwrap();
            fs::write(&path, "log").unwrap();
            logs.catch_up().unwrap();
            before.into_iter().for_each(|before| logs.end_log(&before).unwrap());
        };
        let mut logs = Logs::new(place.clone());
        let path = base(&mut logs);
        log(&mut logs, 1);
        assert_eq!(text(), None, "a log without a base is none");
        logs.end_base(1, &path).unwrap();
        assert_eq!(text(), names(&["appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof"]));

        let path = base(&mut logs);
        let next = logs.begin_log(3, true).unwrap();
        fs::write(&next, "").unwrap();
        logs.catch_up().unwrap();
        let two = names(&["appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof"]);
        assert_eq!(text(), two, "the end of the first is not on disk");
        logs.end_log(&place.log_path().join("appendonly.aof.1.incr.aof")).unwrap();
        let three =
            names(&["appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof", "appendonly.aof.2.incr.aof"]);
        assert_eq!(text(), three);
        logs.abandon_base(3);
        assert_eq!(text(), three, "what has changed counts, base or not");
        logs.end_base(3, &path).unwrap();
        assert_eq!(text(), names(&["appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof"]));

        // Another process goes on: with what it has loaded, or with something else.
        assert!(
            Logs::new(place.clone()).take_up().unwrap_err().ends_with("another server writes its log there")
        );
        drop(logs);
        let mut logs = Logs::new(place.clone());
        logs.note_loaded();
        base(&mut logs);
        log(&mut logs, 1);
        let three =
            names(&["appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof", "appendonly.aof.3.incr.aof"]);
        assert_eq!(text(), three);
        drop(logs);
        let mut logs = Logs::new(place.clone());
        let path = base(&mut logs);
        log(&mut logs, 1);
        assert_eq!(text(), three, "nobody knows what was before");
        logs.end_base(1, &path).unwrap();
        assert_eq!(text(), names(&["appendonly.aof.3.base.rdb", "appendonly.aof.4.incr.aof"]));
        // The middle one of three lost its end.
        let path = base(&mut logs);
        log(&mut logs, 3);
        log(&mut logs, 5);
        logs.lose(&place.log_path().join("appendonly.aof.5.incr.aof"));
        let three =
            names(&["appendonly.aof.3.base.rdb", "appendonly.aof.4.incr.aof", "appendonly.aof.5.incr.aof"]);
        assert_eq!(text(), three);
        log(&mut logs, 7);
        assert_eq!(text(), three, "what comes behind a gap says nothing");
        logs.end_base(7, &path).unwrap();
        assert_eq!(text(), names(&["appendonly.aof.4.base.rdb", "appendonly.aof.7.incr.aof"]));
        let mut left: Vec<String> = fs::read_dir(place.log_path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(
            left,
            ["appendonly.aof.4.base.rdb", "appendonly.aof.7.incr.aof", "appendonly.aof.manifest"]
        );
        fs::remove_dir_all(&place.dir).unwrap();
    }
}
