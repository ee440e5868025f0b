//! Reading below a root: the one place where the environment touches files.
//!
//! Everything else parses text it is given, so that a recorded machine and a cut file are tests. What is missing,
//! forbidden or refused by a driver (EINVAL for the speed of a link that is down) is `None`, one like the other.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a text that are looked at; the rest is left. /proc/stat and /proc/cpuinfo of a thousand cpus are below it.
const TEXT_SIZE_MAX: u64 = 4 << 20;
/// Room for a usual text: the kernel makes many of its files anew for each read, so one read should take all.
const TEXT_SIZE_USUAL: usize = 16 << 10;
/// Characters of a value that are kept; the cut is shown by an ellipsis.
const VALUE_COUNT_MAX: usize = 2_000;
/// Names of a directory that are listed; a machine with more processes shows some of them.
const ENTRIES_COUNT_MAX: usize = 65_536;

/// A tree of files: a machine's, or a map in tests. Paths are relative to its root.
pub(super) trait Files {
    /// The file's text; bytes that are not UTF-8 are replaced.
    fn text(&self, path: &str) -> Option<String>;
    /// The names in a directory, numbers in them in numeric order. None there: none.
    fn entries(&self, path: &str) -> Vec<String>;
    /// The last name of the path that a symbolic link holds.
    fn link_name(&self, path: &str) -> Option<String>;

    /// The text as one value: without the blanks, line ends and zeros around it, line ends within shown as "; ".
    fn value(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let lines: Vec<&str> = text.split('\n').map(trimmed).filter(|line| !line.is_empty()).collect();
        Some(shortened(&lines.join("; ")))
    }
}

/// The files of a machine.
pub(super) struct Below {
    root: PathBuf,
}

impl Below {
    pub(super) fn new(root: &Path) -> Below {
        Below { root: root.to_path_buf() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

impl Files for Below {
    fn text(&self, path: &str) -> Option<String> {
        // Without waiting: a pipe would hold the reader for ever.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(self.path(path)).ok()?;
        let mut bytes = Vec::with_capacity(TEXT_SIZE_USUAL);
        file.take(TEXT_SIZE_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn entries(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .take(ENTRIES_COUNT_MAX)
            .collect();
        names.sort_by_key(|name| natural(name));
        names
    }

    fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }
}

/// What names sort by: `cpu2` stands before `cpu10`, `ens1f0` before `ens1f1`.
pub(super) fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
        let (digits, after) =
            after.split_at(after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len()));
        parts.push((word.to_owned(), digits.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}

fn trimmed(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_whitespace() || c == '\0')
}

fn shortened(value: &str) -> String {
    match value.char_indices().nth(VALUE_COUNT_MAX) {
        Some((at, _)) => format!("{}…", &value[..at]),
        None => value.to_owned(),
    }
}
