//! The files of a journal's directory, as far as it matters what a loss of power leaves of them.
//!
//! What is written may stay in memory until the file is synced, and a file's name until its directory is (fsync(2)).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::Log;

/// A directory; another stands for one whose power may go at any moment.
pub(super) trait Files {
    /// The file, whose first `size` bytes stay and whose others go, to be appended to. It is made where it is missing.
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn Disk>>;
    /// Gives a file another name, and takes that from whoever has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns when what was made, renamed and removed stays so after a loss of power.
    fn sync(&self) -> io::Result<()>;
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

/// The file system's.
pub(super) struct Directory(pub(super) PathBuf);

impl Files for Directory {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn Disk>> {
        let path = self.0.join(name);
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        file.cut(size)?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
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
pub(super) struct FileLog {
    file: Box<dyn Disk>,
    /// Size of the whole lines.
    size: u64,
    /// Half a line is behind them and can't be removed.
    is_broken: bool,
}

impl FileLog {
    /// Behind the file's whole lines, which have `size` bytes.
    pub(super) fn new(file: Box<dyn Disk>, size: u64) -> FileLog {
        FileLog { file, size, is_broken: false }
    }
}

impl Log for FileLog {
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
