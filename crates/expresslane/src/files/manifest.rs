//! The log's manifest: which files it is made of, in the form of Redis 7.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b       what there was
//! file appendonly.aof.5.incr.aof seq 5 type i       what has changed from there on, one file after the other
//! ```
//! Lines that begin with `#` are remarks. Files of type `h` are none of the log's any more.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};

use super::{Place, said, sync_dir};

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) seq: u64,
}

/// See the top of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) base: Option<Part>,
    pub(crate) incr: Vec<Part>,
    pub(crate) history: Vec<Part>,
}

impl Manifest {
    /// The manifest that there is, if there is one.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn read(place: &Place) -> Result<Option<Manifest>, String> {
        let path = place.log_path().join(name(place));
        match fs::read_to_string(&path) {
            Ok(text) => Manifest::parse(&text).map(Some).map_err(|why| format!("{}: {why}", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(said(&path, &error)),
        }
    }

    fn parse(text: &str) -> Result<Manifest, String> {
        let mut manifest = Manifest::default();
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('#') {
                continue;
            }
            let at = index + 1;
            let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
            let ["file", name, "seq", seq, "type", kind] = words[..] else {
                return Err(format!("line {at} is not `file NAME seq NUMBER type b|i|h`"));
            };
            let is_such = |number: &u64| *number <= u64::from(u32::MAX);
            let seq = seq
                .parse()
                .ok()
                .filter(is_such)
                .ok_or_else(|| format!("line {at}: {seq} is no number of a file"))?;
            let name = name.trim_matches('"');
            if name.contains('/') {
                return Err(format!(
                    "line {at}: {name} is a path, and names are of files beside the manifest"
                ));
            }
            let part = Part { name: name.to_owned(), seq };
            match kind {
                "b" if manifest.base.is_some() => return Err(format!("line {at} is a second base")),
                "b" => manifest.base = Some(part),
                "i" if manifest.incr.last().is_some_and(|last| seq <= last.seq) => {
                    return Err(format!("line {at}: its number is not above the one before"));
                }
                "i" => manifest.incr.push(part),
                "h" => manifest.history.push(part),
                _ => return Err(format!("line {at}: {kind} is no type: b, i or h")),
            }
        }
        if manifest.base.is_none() && manifest.incr.is_empty() {
            return Err("it names no file".to_owned());
        }
        Ok(manifest)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let parts = self.base.iter().map(|part| (part, 'b')).chain(self.incr.iter().map(|part| (part, 'i')));
        for (Part { name, seq }, kind) in parts {
            writeln!(text, "file {name} seq {seq} type {kind}").expect("a string takes all");
        }
        text
    }

    /// Puts it in the place of the one before, in one step.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn write(&self, place: &Place) -> Result<(), String> {
        let dir = place.log_path();
        let (path, fresh) = (dir.join(name(place)), dir.join(format!("temp-{}", name(place))));
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &path)
        };
        write().map_err(|error| said(&path, &error))?;
        sync_dir(&dir)
    }
}

/// Files in the log's directory that are named as a log's are: the highest numbers of a base and of what follows one, and one
/// of them. Without a manifest they may be all that is left of somebody's data.
///
/// # Errors
/// A sentence.
pub(super) fn unnamed(place: &Place) -> Result<(u64, u64, Option<String>), String> {
    let dir = place.log_path();
    let (mut base_seq, mut incr_seq, mut one) = (0, 0, None);
    for entry in fs::read_dir(&dir).map_err(|error| said(&dir, &error))? {
        let file = entry.map_err(|error| said(&dir, &error))?.file_name();
        let Some(rest) = file.to_str().and_then(|file| file.strip_prefix(&place.log)) else { continue };
        let highest = match rest.split('.').collect::<Vec<_>>()[..] {
            ["", seq, "base", "rdb" | "aof"] => seq.parse::<u32>().ok().map(|seq| (&mut base_seq, seq)),
            ["", seq, "incr", "aof"] => seq.parse::<u32>().ok().map(|seq| (&mut incr_seq, seq)),
            _ => None,
        };
        if let Some((highest, seq)) = highest {
            *highest = u64::from(seq).max(*highest);
            one = Some(format!("{}{rest}", place.log));
        }
    }
    Ok((base_seq, incr_seq, one))
}

fn name(place: &Place) -> String {
    format!("{}.manifest", place.log)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, seq: u64) -> Part {
        Part { name: name.to_owned(), seq }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let text = "file appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.4.incr.aof seq 4 type i\n\
                    file appendonly.aof.5.incr.aof seq 5 type i\n";
        let manifest = Manifest::parse(text).unwrap();
        let incr = vec![part("appendonly.aof.4.incr.aof", 4), part("appendonly.aof.5.incr.aof", 5)];
        let base = Some(part("appendonly.aof.2.base.rdb", 2));
        assert_eq!(manifest, Manifest { base, incr, history: Vec::new() });
        assert_eq!(manifest.text(), text);
    }

    #[test]
    fn what_redis_writes_beside_it_is_passed_over() {
        let text = "#remark\nfile old.aof seq 1 type h\nfile a.aof seq 1 type i\n";
        let manifest = Manifest::parse(text).unwrap();
        assert_eq!(
            (manifest.base, manifest.incr, manifest.history),
            (None, vec![part("a.aof", 1)], vec![part("old.aof", 1)])
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, want) in [
            ("", "it names no file"),
            ("file a seq 1\n", "line 1 is not `file NAME seq NUMBER type b|i|h`"),
            ("file a seq 4294967296 type b\n", "line 1: 4294967296 is no number of a file"),
            ("file a seq x type b\n", "line 1: x is no number of a file"),
            ("file a seq 1 type x\n", "line 1: x is no type: b, i or h"),
            (
                "file ../a seq 1 type b\n",
                "line 1: ../a is a path, and names are of files beside the manifest",
            ),
            ("file a seq 1 type b\nfile b seq 2 type b\n", "line 2 is a second base"),
            ("file a seq 2 type i\nfile b seq 2 type i\n", "line 2: its number is not above the one before"),
        ] {
            assert_eq!(Manifest::parse(text).unwrap_err(), want, "{text}");
        }
    }
}
