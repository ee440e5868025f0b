//! What is left of a journal when the power goes: a directory that remembers what was done to it, and every disk that may come of it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;

use super::files::{Directory, Disk, Files};
use super::tests::{channels, done, irq, wish, write};
use super::*;
use crate::knob::Knob;

/// What was done, in order. Files are known by the order in which they were made.
enum Done {
    Made(String, usize),
    Cut(usize, u64),
    Appended(usize, Vec<u8>),
    Synced(usize),
    Renamed(String, String),
    Removed(String),
    DirectorySynced,
    /// From here on this is held, as whoever called was told. None: there is no journal.
    Told(Option<BTreeMap<Knob, Held>>),
}

/// Does it, and remembers.
struct Remembering {
    real: Directory,
    done: Rc<RefCell<Vec<Done>>>,
    names: RefCell<BTreeMap<String, usize>>,
}

impl Remembering {
    fn note(&self, done: Done) {
        self.done.borrow_mut().push(done);
    }
}

impl Files for Remembering {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn Disk>> {
        let real = self.real.open(name, size)?;
        let mut names = self.names.borrow_mut();
        let file = names.get(name).copied().unwrap_or_else(|| {
            let file = self.done.borrow().len();
            names.insert(name.to_owned(), file);
            self.note(Done::Made(name.to_owned(), file));
            file
        });
        self.note(Done::Cut(file, size));
        Ok(Box::new(Opened { real, file, done: Rc::clone(&self.done) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.real.rename(from, to)?;
        self.note(Done::Renamed(from.to_owned(), to.to_owned()));
        let mut names = self.names.borrow_mut();
        let file = names.remove(from).unwrap();
        names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.real.remove(name)?;
        self.note(Done::Removed(name.to_owned()));
        self.names.borrow_mut().remove(name);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.real.sync()?;
        self.note(Done::DirectorySynced);
        Ok(())
    }
}

struct Opened {
    real: Box<dyn Disk>,
    file: usize,
    done: Rc<RefCell<Vec<Done>>>,
}

impl Disk for Opened {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.real.append(bytes)?;
        self.done.borrow_mut().push(Done::Appended(self.file, bytes.to_vec()));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.real.sync()?;
        self.done.borrow_mut().push(Done::Synced(self.file));
        Ok(())
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.real.cut(size)?;
        self.done.borrow_mut().push(Done::Cut(self.file, size));
        Ok(())
    }
}

type Names = BTreeMap<String, usize>;
type Bytes = BTreeMap<usize, Vec<u8>>;

/// A disk after some of what was done.
struct Machine {
    /// What the directory may be after a loss of power, the oldest first; the last is what it is now. Never empty.
    names: Vec<Names>,
    bytes: Bytes,
    safe: Bytes,
}

impl Machine {
    fn does(&mut self, done: &Done) {
        let mut now = self.names.last().unwrap().clone();
        match done {
            Done::Made(name, file) => {
                now.insert(name.clone(), *file);
            }
            Done::Renamed(from, to) => {
                let file = now.remove(from).unwrap();
                now.insert(to.clone(), file);
            }
            Done::Removed(name) => {
                now.remove(name);
            }
            Done::DirectorySynced => self.names.clear(),
            Done::Cut(file, size) => {
                self.bytes.entry(*file).or_default().truncate(usize::try_from(*size).unwrap());
            }
            Done::Appended(file, bytes) => self.bytes.entry(*file).or_default().extend(bytes),
            Done::Synced(file) => {
                self.safe.insert(*file, self.bytes[file].clone());
            }
            Done::Told(_) => {}
        }
        self.names.push(now);
    }

    /// All that may be held when the power has gone.
    fn after_power(&self) -> Vec<Option<BTreeMap<Knob, Held>>> {
        let disks = self.names.iter().flat_map(|names| [(names, &self.safe), (names, &self.bytes)]);
        let held = disks.map(|(names, bytes)| {
            let bytes = bytes.get(names.get("journal.jsonl")?).map_or(&[][..], Vec::as_slice);
            Journal::parse("journal", bytes).unwrap().map(|(journal, _)| journal.held)
        });
        held.collect()
    }
}

/// Everything that a directory of journals goes through.
fn life(directory: &Path, done_so_far: &Rc<RefCell<Vec<Done>>>) {
    let mut state = State::lock(directory, "apply").unwrap();
    state.files = Box::new(Remembering {
        real: Directory(directory.to_owned()),
        done: Rc::clone(done_so_far),
        names: RefCell::default(),
    });
    let told = |journal: Option<&Journal>| {
        done_so_far.borrow_mut().push(Done::Told(journal.map(|journal| journal.held.clone())));
    };
    let in_force = || match state.journal("boot").unwrap() {
        Found::InForce(journal) => *journal,
        _ => panic!("it is in force"),
    };
    for _ in 0..2 {
        let mut journal = state.begin("boot", wish()).unwrap();
        told(Some(&journal));
        for line in [
            write(channels(), "combined 8", "combined 4", &[(irq(), "0-3")]),
            done(channels(), &[(irq(), "0-7")]),
            write(irq(), "0-7", "2", &[]),
        ] {
            journal.append(line).unwrap();
            told(Some(&journal));
        }
        // It is not complete, and so what is left is written anew; whoever goes on does so behind that.
        assert_eq!(state.finish(journal).unwrap(), Finished::InForce);
        let mut journal = in_force();
        told(Some(&journal));
        for line in [done(irq(), &[]), Line::Undone { knob: irq() }, Line::Undone { knob: channels() }] {
            journal.append(line).unwrap();
            told(Some(&journal));
        }
        assert!(matches!(state.finish(journal).unwrap(), Finished::Aside(_)));
        told(None);
    }
    state.begin("boot", wish()).unwrap();
    assert!(matches!(state.journal("next boot").unwrap(), Found::Void { .. }));
    told(None);
}

#[test]
fn the_power_may_go_at_any_moment() {
    let directory = tests::Directory::new("power");
    let events = Rc::default();
    life(&directory.0, &events);
    let events = events.borrow();
    let mut machine = Machine { names: vec![Names::new()], bytes: Bytes::new(), safe: Bytes::new() };
    let mut told = &None;
    let mut renames = BTreeSet::new();
    for (index, event) in events.iter().enumerate() {
        machine.does(event);
        let next = events[index..].iter().find_map(|event| match event {
            Done::Told(held) => Some(held),
            _ => None,
        });
        match event {
            Done::Told(held) => told = held,
            Done::Renamed(from, to) => drop(renames.insert((from.as_str(), to.as_str()))),
            _ => {}
        }
        for held in machine.after_power() {
            // What is under way may be there or not, and where there is no journal before or after, one of nothing is as good.
            let is_nothing = held.as_ref().is_some_and(BTreeMap::is_empty);
            let is_on_the_way =
                next == Some(&held) || (is_nothing && (told.is_none() || next == Some(&None)));
            let is_told = matches!(event, Done::Told(_));
            assert!(held == *told || (!is_told && is_on_the_way), "after {index}: {held:?} and not {told:?}");
        }
    }
    let want = [
        ("journal.jsonl", "aside-1-reverted.jsonl"),
        ("journal.jsonl", "aside-2-reverted.jsonl"),
        ("journal.jsonl", "aside-3-void.jsonl"),
        ("journal.new", "journal.jsonl"),
    ];
    assert_eq!(renames.into_iter().collect::<Vec<_>>(), want, "all of it was gone through");
}

/// The kernel refuses to sync what has nothing below it that keeps: so it was asked.
#[test]
fn the_kernel_is_asked_to_sync() {
    let mut null = File::create("/dev/null").unwrap();
    let refused = [Disk::sync(&mut null), Directory("/proc".into()).sync()];
    for result in refused {
        assert_eq!(result.map_err(|e| e.kind()), Err(io::ErrorKind::InvalidInput));
    }
}
