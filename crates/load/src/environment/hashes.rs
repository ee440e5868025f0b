//! By which bytes a program is known again. Each file is hashed once: a program of 20 MB takes longer than all else that a
//! capture reads. A file is known by its place on the device, so that `/proc/PID/exe` of a server that is started anew for each
//! run is not read again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Bytes that are read at once.
const PIECE_SIZE: usize = 64 << 10;
/// Files that are remembered; beyond, all are forgotten and hashed again.
const FILES_MAX: usize = 1_000;

/// The hashes of files that were asked for.
#[derive(Debug, Default)]
pub struct Hashes {
    known: BTreeMap<Stamp, String>,
}

/// What changes when a file does: device, inode, size, and when its content and its inode changed, in seconds and
/// nanoseconds.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl Hashes {
    /// SHA-256 of a regular file, in hexadecimal. A file that is the same as when it was asked for last is not read again.
    /// None: it can't be read.
    pub fn of(&mut self, path: &Path) -> Option<String> {
        let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let changed = ((file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec()));
        let stamp = (file.dev(), file.ino(), file.len(), changed.0, changed.1);
        if let Some(hash) = self.known.get(&stamp) {
            return Some(hash.clone());
        }
        let hash = hash(path)?;
        if self.known.len() >= FILES_MAX {
            self.known.clear();
        }
        self.known.insert(stamp, hash.clone());
        Some(hash)
    }
}

fn hash(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_SIZE];
    loop {
        match file.read(&mut piece).ok()? {
            0 => break,
            size => hash.update(&piece[..size]),
        }
    }
    Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_hashed_anew_when_it_changes_and_only_then() {
        let path = std::env::temp_dir().join(format!("expresslane-hashes-{}", std::process::id()));
        let mut hashes = Hashes::default();
        fs::write(&path, b"abc").unwrap();
        // The test vector of FIPS 180.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hashes.of(&path).as_deref(), Some(abc));
        *hashes.known.values_mut().next().unwrap() = "remembered".to_owned();
        assert_eq!(hashes.of(&path).as_deref(), Some("remembered"));
        fs::write(&path, b"abcd").unwrap();
        let other = hashes.of(&path).unwrap();
        assert!(other != abc && other != "remembered" && other.len() == 64, "{other}");
        fs::remove_file(&path).unwrap();
        assert_eq!((hashes.of(&path), hashes.of(&std::env::temp_dir())), (None, None));
    }
}
