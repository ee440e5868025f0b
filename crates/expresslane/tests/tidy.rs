//! Reads the project's own files and holds them to the rules that no compiler checks.
//!
//! A rule is a function from one file to complaints; a new one is a new entry of `RULES`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Lines above which a file needs a reason: what is longer is seldom one subject.
const LINES_COUNT_MAX: usize = 800;
/// Files that may be longer, each with the reason.
const LONG_FILES: &[(&str, &str)] = &[];
/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "__pycache__"];
/// Endings of the files that are read.
const ENDINGS: &[&str] = &["rs", "py", "toml", "md", "sh", "yml", "h", "c"];
/// Files without an ending that are read all the same.
const NAMES: &[&str] = &["Makefile", "run", "setup"];

type Rule = fn(&str, &str) -> Option<String>;
const RULES: &[Rule] =
    &[opens_with_its_subject, no_leftovers, no_long_file, no_path_of_one_machine, no_stray_space];

#[test]
fn every_file_keeps_the_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut complaints = String::new();
    let mut files_count = 0;
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !is_skipped(&path) {
                    folders.push(path);
                }
            } else if is_read(&path) {
                let text = fs::read_to_string(&path).unwrap();
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                files_count += 1;
                for complaint in RULES.iter().filter_map(|rule| rule(&name, &text)) {
                    writeln!(complaints, "{name}: {complaint}").unwrap();
                }
            }
        }
    }
    assert!(files_count > 20, "only {files_count} files found below {}", root.display());
    assert!(complaints.is_empty(), "\n{complaints}");
}

fn is_skipped(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| SKIPPED.iter().any(|skipped| name == *skipped))
}

fn is_read(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
        || path.file_name().is_some_and(|name| NAMES.iter().any(|known| name == *known))
}

/// Every Rust file says first what it is for.
fn opens_with_its_subject(name: &str, text: &str) -> Option<String> {
    (name.ends_with(".rs") && !text.starts_with("//! "))
        .then(|| "does not open with //! and its subject".to_owned())
}

/// Work that was put off belongs in the tracker, not in the code.
fn no_leftovers(_: &str, text: &str) -> Option<String> {
    // Written so that this file does not contain them.
    let markers = ["TO DO", "FIX ME", "XX X", "HA CK"].map(|marker| marker.replace(' ', ""));
    let words = |line: &str, marker: &String| {
        line.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == marker.as_str())
    };
    find(text, |line| markers.iter().any(|marker| words(line, marker))).map(|at| format!("a leftover {at}"))
}

fn no_long_file(name: &str, text: &str) -> Option<String> {
    let count = text.lines().count();
    let code = Path::new(name).extension().is_some_and(|ending| ending == "rs" || ending == "py");
    let allowed = LONG_FILES.iter().any(|(long, _)| *long == name);
    (code && count > LINES_COUNT_MAX && !allowed)
        .then(|| format!("{count} lines: split it by subject, or list it in LONG_FILES with the reason"))
}

/// A path of the machine that a file was written on is of no use on any other.
fn no_path_of_one_machine(_: &str, text: &str) -> Option<String> {
    let starts = ["home/", "root/", "work/", "Users/"].map(|start| format!("/{start}"));
    let outside = |line: &str, start: &String| {
        line.match_indices(start.as_str()).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            before.is_none_or(|c| c.is_whitespace() || "\"'`(=:".contains(c))
        })
    };
    find(text, |line| starts.iter().any(|start| outside(line, start)))
        .map(|at| format!("a path of one machine {at}"))
}

fn no_stray_space(name: &str, text: &str) -> Option<String> {
    if name.ends_with(".md") {
        return None;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        return Some("does not end with a line end".to_owned());
    }
    find(text, |line| line.ends_with([' ', '\t', '\r'])).map(|at| format!("space at a line's end {at}"))
}

/// Where the first line is that `is_wrong` finds.
fn find(text: &str, is_wrong: impl Fn(&str) -> bool) -> Option<String> {
    let (index, line) = text.lines().enumerate().find(|(_, line)| is_wrong(line))?;
    Some(format!("in line {}: {}", index + 1, line.trim()))
}

/// What a document puts in backticks with the ending of a file is a file of this project, by the end of its path.
#[test]
fn documents_name_files_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let (mut documents, mut names) = (Vec::new(), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !is_skipped(&path) {
                folders.push(path);
            } else if is_read(&path) {
                names.push(format!("/{}", path.strip_prefix(&root).unwrap().to_string_lossy()));
                documents.extend(path.extension().is_some_and(|it| it == "md").then_some(path));
            }
        }
    }
    let mut missing = String::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for name in files_in(&text) {
            if !names.iter().any(|known| known.ends_with(&format!("/{name}"))) {
                writeln!(missing, "{}: there is no {name}", document.display()).unwrap();
            }
        }
    }
    assert!(missing.is_empty(), "\n{missing}");
    assert_eq!(files_in("a `b/c.rs` and `x.rs:3`, not c.rs or `Some.thing`, `d.py --x`"), ["b/c.rs", "d.py"]);
}

/// Names of source files between backticks, without what stands behind them.
fn files_in(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let words = quoted.filter_map(|part| part.split(' ').next());
    words.filter(|word| [".rs", ".py"].iter().any(|ending| word.ends_with(ending))).collect()
}

#[test]
fn each_rule_finds_what_it_forbids() {
    let check = |rule: Rule, name: &str, wrong: &str, right: &str| {
        assert!(rule(name, wrong).is_some(), "{wrong:?} passed");
        assert_eq!(rule(name, right), None);
    };
    check(opens_with_its_subject, "a.rs", "use std::fs;\n", "//! A file.\n");
    check(no_leftovers, "a.rs", &format!("// {}{}: later\n", "TO", "DO"), "// mastodon, todo!\n");
    check(no_long_file, "a.rs", &"x\n".repeat(LINES_COUNT_MAX + 1), &"x\n".repeat(LINES_COUNT_MAX));
    check(
        no_path_of_one_machine,
        "a.rs",
        &format!("open(\"/{}/me\")\n", "home"),
        "open(\"crates/work/x\")\n",
    );
    check(no_stray_space, "a.rs", "let x = 1; \n", "let x = 1;\n");
}
