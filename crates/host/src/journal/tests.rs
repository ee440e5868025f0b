//! What a journal says when it is read again: whole, cut at any byte, of another boot, not a journal at all.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use super::*;
use crate::kernel::fake::Fuse;
use crate::knob::NicKnob;

fn setting(text: &str) -> Option<Setting> {
    Some(Setting::new(text))
}

pub(super) fn channels() -> Knob {
    Knob::nic("ens1", NicKnob::Channels)
}

pub(super) fn irq() -> Knob {
    Knob::nic("ens1", NicKnob::IrqAffinity(0))
}

pub(super) fn wish() -> Wish {
    Wish { when_s: 1_795_312_800, tool: "0.1.0".to_owned(), text: "[[lane]]\nname = \"redis\"\n".to_owned() }
}

fn begun() -> (Journal, Memory) {
    let log = Memory::default();
    (Journal::begin(Box::new(log.clone()), "boot", wish()).unwrap(), log)
}

pub(super) fn write(knob: Knob, had: &str, wrote: &str, disturbs: &[(Knob, &str)]) -> Line {
    let disturbs = disturbs.iter().map(|(knob, keep)| (knob.clone(), setting(keep))).collect();
    Line::Write { knob, had: setting(had), wrote: setting(wrote), disturbs }
}

pub(super) fn done(knob: Knob, left: &[(Knob, &str)]) -> Line {
    Line::Done { knob, left: left.iter().map(|(knob, found)| (knob.clone(), setting(found))).collect() }
}

fn read(bytes: &[u8]) -> Journal {
    Journal::parse("journal", bytes).unwrap().unwrap().0
}

/// A journal with a bit of everything.
fn full() -> (Journal, Memory) {
    let (mut journal, log) = begun();
    for line in [
        write(channels(), "combined 8", "combined 4", &[(irq(), "0-3")]),
        done(channels(), &[(irq(), "0-7")]),
        write(irq(), "0-3", "2", &[]),
        done(irq(), &[]),
        Line::Complete { steps: 2 },
        Line::ConfirmBy { deadline_s: 60 },
        write(Knob::sysctl("a"), "0", "50", &[]),
        Line::Undone { knob: Knob::sysctl("a") },
        Line::Confirmed { when_s: 50 },
        // Whoever writes this line knows no better: the first counts.
        write(channels(), "combined 4", "combined 2", &[]),
    ] {
        journal.append(line).unwrap();
    }
    (journal, log)
}

#[test]
fn the_first_value_is_kept_however_often_a_knob_is_written() {
    let (journal, log) = full();
    let check = |journal: &Journal| {
        let entry = |knob, had: &str, wrote: &str| Entry { knob, had: setting(had), wrote: setting(wrote) };
        // The affinity was reset with the queues before it was written: it had what it had before that.
        let entries = [entry(channels(), "combined 8", "combined 2"), entry(irq(), "0-3", "2")];
        assert_eq!(journal.entries(), entries);
        // The last write has no end: either value may be there.
        let held = journal.held(&channels()).unwrap();
        assert!(
            held.is_pending && held.is_ours(&setting("combined 4")) && held.is_ours(&setting("combined 2"))
        );
        assert!(!held.is_ours(&setting("combined 6")));
        assert!(!journal.is_complete(), "something was written since");
    };
    check(&journal);
    check(&read(&log.bytes()));
}

#[test]
fn fewer_lines_say_the_same() {
    let (journal, _) = full();
    let text: Vec<String> =
        journal.compact().iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    let again = read(text.concat().as_bytes());
    assert_eq!((again.held, again.wish, again.boot), (journal.held, journal.wish, journal.boot));
    assert_eq!(again.place_next, 2, "behind those that are held");
    assert_eq!(text.len(), 3);
}

#[test]
fn a_journal_cut_at_any_byte_is_the_journal_before_that_line() {
    let (_, log) = full();
    let bytes = log.bytes();
    let mut whole = 0;
    for size in 0..bytes.len() {
        whole = if size > 0 && bytes[size - 1] == b'\n' { size } else { whole };
        match Journal::parse("journal", &bytes[..size]).unwrap() {
            None => assert_eq!(whole, 0),
            Some((journal, found)) => {
                assert_eq!((found, journal.was_cut()), (whole, size > whole));
                assert_eq!(journal.held, read(&bytes[..whole]).held);
            }
        }
    }
}

#[test]
fn anything_else_that_is_unreadable_is_refused_with_its_line() {
    let (_, log) = full();
    let text = String::from_utf8(log.bytes()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let check = |number: usize, line: &str, want: &str| {
        let mut lines = lines.clone();
        lines[number - 1] = line;
        let problem = Journal::parse("j", (lines.join("\n") + "\n").as_bytes()).err().unwrap();
        assert!(matches!(problem, Trouble::Unreadable(_)));
        let problem = problem.to_string();
        assert!(problem.contains(want), "{problem}");
    };
    check(1, "{}", "line 1 of j");
    check(1, "{\"complete\":{\"steps\":1}}", "does not begin");
    check(1, &lines[0].replace("\"version\":1", "\"version\":2"), "form 2 and was written by version 0.1.0");
    check(3, "\0\0\0", "line 3 of j");
    check(3, lines[0], "begins a second time");
    check(3, &lines[2][..20], "line 3 of j");
    check(4, &lines[3].replace("\"had\":\"0-3\",", ""), "missing field `had`");
    check(4, &lines[3].replace("queue/0/irq", "queue/0/iqr"), "names no knob");
    check(5, "{\"undone\":{\"knob\":\"sysctl/b\"}}", "sysctl/b is done or undone there");
    check(5, "{\"undone\":{\"knob\":\"sysctl/b\"}}", "mend the line, or put back by hand");
    // What was never a journal is none that was cut short in its first line.
    for bytes in [&b"garbage"[..], b"{\"bogus", b"\xff\xfe", b"{\"begin\" :"] {
        let problem = Journal::parse("journal", bytes).err().expect("it is no journal").to_string();
        assert!(problem.contains("line 1 of journal"), "{problem}");
    }
    for bytes in [&b""[..], b"{\"beg", b"{\"begin\":{\"version", &[0; 40]] {
        assert!(Journal::parse("journal", bytes).unwrap().is_none(), "{bytes:?}");
    }
}

#[test]
fn a_line_that_could_not_be_written_is_not_there() {
    let fuse = Fuse::new(1, 17);
    let log = Memory::default().with_fuse(&fuse);
    let mut journal = Journal::begin(Box::new(log.clone()), "boot", wish()).unwrap();
    assert!(journal.append(write(channels(), "combined 8", "combined 4", &[])).is_err());
    let (journal, size) = Journal::parse("journal", &log.bytes()).unwrap().unwrap();
    assert!(journal.is_over() && journal.was_cut());
    assert_eq!(log.bytes().len(), size + 17);
}

#[test]
fn a_wish_is_wholly_in_force_until_something_is_touched() {
    let complete = || {
        let (mut journal, _) = begun();
        for line in [
            write(irq(), "0-3", "2", &[]),
            done(irq(), &[]),
            Line::Complete { steps: 1 },
            Line::ConfirmBy { deadline_s: 60 },
        ] {
            journal.append(line).unwrap();
        }
        assert!(journal.is_complete());
        journal
    };
    let other = Wish { text: "[[lane]]\nname = \"other\"\n".to_owned(), ..wish() };
    for line in [
        write(channels(), "combined 8", "combined 4", &[]),
        Line::Undone { knob: irq() },
        Line::Wish(other.clone()),
        Line::Left { count: 1 },
    ] {
        let mut journal = complete();
        journal.append(line.clone()).unwrap();
        assert!(!journal.is_complete(), "{line:?}");
        let has_ended = matches!(line, Line::Left { .. });
        assert_eq!(journal.confirmation(0) == Confirmation::NotNeeded, has_ended, "{line:?}");
    }
    let mut journal = complete();
    let text: Vec<String> =
        journal.compact().iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    let again = read(text.concat().as_bytes());
    assert!(again.is_complete() && again.confirmation(0) == Confirmation::Waiting { left_s: 60 });
    // What could not be applied leaves the former wish.
    for was_complete in [true, false] {
        journal.set_wish(other.clone()).unwrap();
        journal.take_back_wish(wish(), was_complete).unwrap();
        assert_eq!((journal.wish(), journal.is_complete()), (&wish(), was_complete));
    }
}

#[test]
fn a_value_that_was_ours_before_the_last_is_somebodys() {
    let (mut journal, _) = begun();
    for wrote in ["2", "3"] {
        journal.append(write(irq(), "0-3", wrote, &[])).unwrap();
        journal.append(done(irq(), &[])).unwrap();
    }
    let held = journal.held(&irq()).unwrap();
    let ours = ["0-3", "2", "3"].map(|value| held.is_ours(&setting(value)));
    assert_eq!(ours, [true, false, true]);
}

#[test]
fn what_has_what_it_had_after_all_is_not_held() {
    let (mut journal, _) = begun();
    let write = || write(channels(), "combined 8", "combined 4", &[(irq(), "0-3")]);
    for (left, is_held) in [("0-3", false), ("0-7", true), ("0-3", false)] {
        journal.append(write()).unwrap();
        journal.append(done(channels(), &[(irq(), left)])).unwrap();
        assert_eq!(journal.held(&irq()).is_some(), is_held, "{left}");
    }
}

#[test]
fn the_same_wish_leaves_no_line_but_that_of_another_version_does() {
    let (mut journal, log) = begun();
    let size = log.bytes().len();
    journal.set_wish(Wish { when_s: 1, ..wish() }).unwrap();
    assert_eq!(log.bytes().len(), size);
    journal.set_wish(Wish { tool: "0.2.0".to_owned(), ..wish() }).unwrap();
    assert_eq!(read(&log.bytes()).wish().tool, "0.2.0");
}

/// What somebody set while it was ours is theirs, also when a write of ours that resets it was cut short.
#[test]
fn what_others_set_before_an_interrupted_write_is_theirs() {
    let after = |keep: &str, end: Option<&str>| {
        let (mut journal, _) = begun();
        for line in [
            write(channels(), "combined 8", "combined 4", &[(irq(), "0-3")]),
            done(channels(), &[(irq(), "0-7")]),
            write(channels(), "combined 8", "combined 2", &[(irq(), keep)]),
        ] {
            journal.append(line).unwrap();
        }
        if let Some(left) = end {
            journal.append(done(channels(), &[(irq(), left)])).unwrap();
        }
        journal.held(&irq()).unwrap().clone()
    };
    let cut = after("5", None);
    assert_eq!((cut.foreign(), cut.goal()), (Some(&setting("5")), &setting("5")));
    assert!(cut.is_ours(&setting("6")), "what the kernel left can't be told");
    for nobodys in ["0-3", "0-7"] {
        let cut = after(nobodys, None);
        assert_eq!((cut.foreign(), cut.goal()), (None, &setting("0-3")), "{nobodys}");
    }
    let whole = after("5", Some("5"));
    assert!(!whole.is_ours(&setting("5")) && whole.foreign().is_none(), "it kept theirs");
    let reset = after("5", Some("0-7"));
    assert!(
        reset.is_ours(&setting("0-7")) && reset.is_ours(&setting("0-3")) && !reset.is_ours(&setting("5"))
    );
}

/// A disk of so many bytes that remembers what is safe.
struct Small {
    bytes: Vec<u8>,
    safe: Vec<u8>,
    room: usize,
    can_cut: bool,
}

impl files::Disk for Rc<RefCell<Small>> {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut small = self.borrow_mut();
        let room = small.room - small.bytes.len();
        small.bytes.extend(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> std::io::Result<()> {
        let mut small = self.borrow_mut();
        small.safe = small.bytes.clone();
        Ok(())
    }

    fn cut(&mut self, size: u64) -> std::io::Result<()> {
        let mut small = self.borrow_mut();
        if !small.can_cut {
            return Err(std::io::ErrorKind::Other.into());
        }
        small.bytes.truncate(usize::try_from(size).unwrap());
        Ok(())
    }
}

#[test]
fn a_line_is_safe_when_it_is_said_to_be_and_a_full_disk_keeps_whole_lines() {
    let log = |can_cut| {
        let disk = Rc::new(RefCell::new(Small { bytes: Vec::new(), safe: Vec::new(), room: 14, can_cut }));
        (files::FileLog::new(Box::new(Rc::clone(&disk)), 0), disk)
    };
    let (mut lines, disk) = log(true);
    for line in ["first", "second"] {
        lines.append(line).unwrap();
        assert!(disk.borrow().safe.ends_with(format!("{line}\n").as_bytes()), "power may go now");
    }
    assert!(lines.append("third").unwrap_err().contains("can't be written"));
    assert_eq!(disk.borrow().bytes, b"first\nsecond\n");
    lines.append("").unwrap();
    assert_eq!(disk.borrow().safe, b"first\nsecond\n\n", "behind the whole lines");

    let (mut lines, disk) = log(false);
    lines.append("a line").unwrap();
    lines.append("another line").unwrap_err();
    disk.borrow_mut().room = 100;
    assert!(lines.append("more").unwrap_err().contains("half a line"));
}

#[test]
fn someone_has_to_confirm_in_time() {
    let (mut journal, log) = begun();
    let check = |want: Confirmation, now_s: u64, journal: &Journal| {
        assert_eq!(journal.confirmation(now_s), want);
        assert_eq!(read(&log.bytes()).confirmation(now_s), want, "and so says the file");
    };
    check(Confirmation::NotNeeded, 1000, &journal);
    journal.ask_confirmation(1060).unwrap();
    check(Confirmation::Waiting { left_s: 60 }, 1000, &journal);
    check(Confirmation::Waiting { left_s: 1 }, 1059, &journal);
    check(Confirmation::Overdue { since_s: 0 }, 1060, &journal);
    journal.ask_confirmation(1090).unwrap();
    check(Confirmation::Waiting { left_s: 30 }, 1060, &journal);
    journal.confirm(1070).unwrap();
    check(Confirmation::NotNeeded, 2000, &journal);
}

/// A directory of its own, gone with the test.
pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("expresslane-journal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Directory(path)
    }

    fn names(&self) -> Vec<String> {
        let listed = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn in_force(found: Found) -> Journal {
    match found {
        Found::InForce(journal) => *journal,
        Found::Nothing => panic!("there is none"),
        Found::Void { kept } => panic!("{} is void", kept.display()),
    }
}

#[test]
fn two_at_once_are_told_of_each_other() {
    let directory = Directory::new("lock");
    let first = State::lock(&directory.0, "apply").unwrap();
    let Err(Trouble::Locked(problem)) = State::lock(&directory.0, "revert") else { panic!("both have it") };
    assert!(problem.contains(&format!("process {} (apply)", std::process::id())), "{problem}");
    drop(first);
    // A shorter name leaves nothing of the longer one.
    drop(State::lock(&directory.0, "revert of what nobody confirmed").unwrap());
    let _second = State::lock(&directory.0, "revert").unwrap();
    let Err(Trouble::Locked(problem)) = State::lock(&directory.0, "apply") else { panic!("both have it") };
    let holder = format!("process {} (revert) is changing this machine's lanes", std::process::id());
    assert!(problem.starts_with(&holder), "{problem}");
}

#[test]
fn a_journal_outlives_its_process_and_is_put_aside_when_it_is_over() {
    let directory = Directory::new("life");
    let state = State::lock(&directory.0, "apply").unwrap();
    assert!(matches!(state.journal("boot").unwrap(), Found::Nothing));
    let mut journal = state.begin("boot", wish()).unwrap();
    journal.append(write(channels(), "combined 8", "combined 4", &[])).unwrap();
    drop(journal);

    // A crash in the middle of the next line.
    let path = directory.0.join("journal.jsonl");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [whole.as_slice(), b"{\"done\":{\"kn", &[b'x'; 500]].concat()).unwrap();
    assert!(in_force(look(&directory.0, "boot").unwrap()).was_cut());
    assert_ne!(fs::read(&path).unwrap(), whole, "who looks changes nothing");
    let mut journal = in_force(state.journal("boot").unwrap());
    assert_eq!(journal.wish(), &wish());
    journal.append(done(channels(), &[])).unwrap();
    drop(journal);
    let mut journal = in_force(state.journal("boot").unwrap());
    assert!(!journal.was_cut() && !journal.held(&channels()).unwrap().is_pending);

    journal.append(Line::Undone { knob: channels() }).unwrap();
    let Finished::Aside(kept) = state.finish(journal).unwrap() else { panic!("it is over") };
    assert_eq!(kept, directory.0.join("aside-1-reverted.jsonl"));
    assert!(matches!(state.journal("boot").unwrap(), Found::Nothing));
    assert_eq!(directory.names(), ["aside-1-reverted.jsonl", "lock"]);
}

#[test]
fn a_journal_of_an_earlier_boot_is_void_and_kept_aside() {
    let directory = Directory::new("void");
    let state = State::lock(&directory.0, "apply").unwrap();
    for boot in 0..ASIDE_COUNT_MAX + 3 {
        let mut journal = state.begin(&boot.to_string(), wish()).unwrap();
        journal.append(write(channels(), "combined 8", "combined 4", &[])).unwrap();
        drop(journal);
        let Found::Void { .. } = look(&directory.0, "now").unwrap() else { panic!("it is void") };
        let Found::Void { kept } = state.journal("now").unwrap() else { panic!("it is void") };
        assert!(fs::read_to_string(&kept).unwrap().contains("combined 4"), "nothing of it is lost");
    }
    let names = directory.names();
    assert_eq!(names.len(), ASIDE_COUNT_MAX + 1, "{names:?}");
    assert!(
        names.contains(&format!("aside-{}-void.jsonl", ASIDE_COUNT_MAX + 3)),
        "the newest stay: {names:?}"
    );
}

#[test]
fn what_is_left_of_a_journal_is_written_anew() {
    let directory = Directory::new("rest");
    let state = State::lock(&directory.0, "revert").unwrap();
    let mut journal = state.begin("boot", wish()).unwrap();
    for line in [
        write(channels(), "combined 8", "combined 4", &[]),
        done(channels(), &[]),
        write(irq(), "0", "1", &[]),
        Line::Undone { knob: irq() },
        Line::Left { count: 1 },
    ] {
        journal.append(line).unwrap();
    }
    let entries = journal.entries();
    assert_eq!(state.finish(journal).unwrap(), Finished::InForce);
    let text = fs::read_to_string(directory.0.join("journal.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(!text.contains("queue/0/irq"), "{text}");
    assert_eq!(in_force(state.journal("boot").unwrap()).entries(), entries);
}

#[test]
fn a_journal_that_grew_long_is_written_anew() {
    let directory = Directory::new("long");
    let state = State::lock(&directory.0, "guard").unwrap();
    let path = directory.0.join("journal.jsonl");
    let finished = |lines_count: usize| {
        let mut journal = state.begin("boot", wish()).unwrap();
        journal.append(write(irq(), "0-3", "2", &[])).unwrap();
        drop(journal);
        // A guard that sets something again now and then.
        let text = fs::read_to_string(&path).unwrap();
        let line = serde_json::to_string(&Line::Complete { steps: 1 }).unwrap() + "\n";
        fs::write(&path, text + &line.repeat(lines_count - 2)).unwrap();
        let journal = in_force(state.journal("boot").unwrap());
        let entries = journal.entries();
        assert_eq!(state.finish(journal).unwrap(), Finished::InForce);
        let journal = in_force(state.journal("boot").unwrap());
        assert_eq!((journal.entries(), journal.is_complete()), (entries, true));
        fs::read_to_string(&path).unwrap().lines().count()
    };
    assert_eq!(finished(LINES_COUNT_MAX), LINES_COUNT_MAX);
    assert_eq!(finished(LINES_COUNT_MAX + 1), 3, "begin, what is held, complete");
}

#[test]
fn a_directory_that_can_not_be_made_is_named() {
    let directory = Directory::new("file");
    fs::write(&directory.0, "").unwrap();
    let Err(problem) = State::lock(&directory.0.join("lanes"), "apply") else { panic!("it is a file") };
    assert!(problem.to_string().contains(directory.0.to_str().unwrap()), "{problem}");
    fs::remove_file(&directory.0).unwrap();
}
