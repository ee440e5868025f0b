//! Files that processes which were killed have not finished: nobody goes on with them, and each may be as large as all data. They are
//! removed at the start.
//!
//! A file is removed if its name is one of those that this program gives, the process in the name is gone, and nobody has the file locked:
//! processes that can't see each other, of two containers, may share a directory, and give the same number.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::said;
use crate::control::{self, Level};

/// Removes files of `dir` that are called `front`, a process' number, `back`. `kept` is none of them, whatever it is called. The log says
/// what has gone.
pub(crate) fn remove(dir: &Path, front: &str, back: &str, kept: &str) {
    match removed(dir, front, back, kept, has_gone) {
        Ok((names, _)) if names.is_empty() => {}
        Ok((names, size)) => control::log(
            Level::Info,
            &format!(
                "{}: removed what processes that are gone have not finished, {size} bytes: {}",
                dir.display(),
                names.join(" ")
            ),
        ),
        // The log's is made when there is one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            control::log(
                Level::Warn,
                &format!("unfinished files were not looked for: {}", said(dir, &error)),
            );
        }
    }
}

/// Names of what was removed, in order, and bytes of all of it. Those that can't be removed stay.
fn removed(
    dir: &Path,
    front: &str,
    back: &str,
    kept: &str,
    has_gone: impl Fn(i32) -> bool,
) -> io::Result<(Vec<String>, u64)> {
    let (mut names, mut size) = (Vec::new(), 0);
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let number = name.strip_prefix(front).and_then(|rest| rest.strip_suffix(back));
        let Some(process) = number.and_then(process_of) else { continue };
        if name == kept || !has_gone(process) || !entry.file_type()?.is_file() {
            continue;
        }
        // Locked until it is gone: nobody else begins it anew in between.
        let Ok(file) = File::open(entry.path()) else { continue };
        if file.try_lock().is_ok() && fs::remove_file(entry.path()).is_ok() {
            size += file.metadata()?.size();
            names.push(name);
        }
    }
    names.sort();
    Ok((names, size))
}

/// A process' number, as it is printed.
fn process_of(digits: &str) -> Option<i32> {
    let number: i32 = digits.parse().ok()?;
    (0 < number && number.to_string() == digits).then_some(number)
}

/// Whether no process has that number, but for this one, which has finished nothing yet.
fn has_gone(process: i32) -> bool {
    if u32::try_from(process) == Ok(std::process::id()) {
        return true;
    }
    // SAFETY: signal 0 is sent to nobody: it is only looked whether there is somebody. It finds those, too, that /proc may hide.
    let result = unsafe { libc::kill(process, 0) };
    result != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_ours_that_nobody_writes_are_removed() {
        let dir = std::env::temp_dir().join(format!("expresslane-unfinished-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        let all = [
            "temp-1.rdb",
            "temp-2.rdb",
            "temp-3.rdb",
            "temp-4.rdb",
            "temp-5.rdb",
            "temp-+2.rdb",
            "temp-02.rdb",
            "temp-0.rdb",
            "temp--2.rdb",
            "temp-2.rdb.old",
            "temp-2.aof",
            "my-temp-2.rdb",
            "temp-rewriteaof-2.rdb",
            "temp-99999999999.rdb",
            "temp-.rdb",
            "dump.rdb",
        ];
        all.iter().for_each(|name| fs::write(dir.join(name), "half").unwrap());
        fs::create_dir(dir.join("temp-6.rdb")).unwrap();
        std::os::unix::fs::symlink("dump.rdb", dir.join("temp-7.rdb")).unwrap();
        // Somebody else who can't be seen writes it.
        let locked = File::open(dir.join("temp-3.rdb")).unwrap();
        locked.lock().unwrap();
        let has_gone = |process| process != 1;
        let got = removed(&dir, "temp-", ".rdb", "temp-4.rdb", has_gone).unwrap();
        assert_eq!(got, (vec!["temp-2.rdb".to_owned(), "temp-5.rdb".to_owned()], 8));
        let left = fs::read_dir(&dir).unwrap().count();
        assert_eq!(left, all.len() + 2 - 2);
        drop(locked);
        let got = removed(&dir, "temp-", ".rdb", "temp-4.rdb", has_gone).unwrap();
        assert_eq!(got, (vec!["temp-3.rdb".to_owned()], 4));
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(removed(&dir, "", "", "", has_gone).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn who_lives_has_not_gone() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = i32::try_from(child.id()).unwrap();
        assert!(!has_gone(process));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(has_gone(process));
        assert!(!has_gone(1));
        assert!(has_gone(i32::try_from(std::process::id()).unwrap()));
    }
}
