//! How a command of the program ends, and what it has kept.

use std::io::BufReader;
use std::process::{Command, Output};

use load::result::{Saved, read};

/// A load that goes through, whatever the machine did meanwhile. What it printed.
#[track_caller]
pub(crate) fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// It ends with this code, and says this on stderr.
#[track_caller]
pub(crate) fn refused(command: &mut Command, code: i32, want: &str) -> Output {
    let output = command.output().unwrap();
    is_refusal(&output, code, want);
    output
}

/// The same of one that has ended. All that it said on stderr.
#[track_caller]
pub(crate) fn is_refusal(output: &Output, code: i32, want: &str) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains(want), "{text}");
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// What a load has kept.
#[track_caller]
pub(crate) fn saved(path: &str) -> Saved {
    read(BufReader::new(std::fs::File::open(path).unwrap())).unwrap()
}
