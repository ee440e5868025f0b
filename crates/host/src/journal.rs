//! What was there before, on disk before it is changed: from a journal alone the machine can be put back.
//!
//! A journal is lines of JSON, appended and never altered while lanes are made. The first names this run of the kernel and the
//! wish. Before a knob is written, a line says what it had, what it gets, and what those others had that the kernel resets
//! along with it; only when that line has reached the disk is the knob written. A second line follows when it was read back.
//!
//! ```text
//!   {"begin":{"version":1,"boot":"6b0f…","wish":{"when_s":1795312800,"tool":"0.1.0","text":"[[lane]]…"}}}
//!   {"write":{"knob":"nic/ens1/channels","had":"combined 8","wrote":"combined 4","disturbs":[["nic/ens1/queue/0/irq","0"]]}}
//!   {"done":{"knob":"nic/ens1/channels","left":[["nic/ens1/queue/0/irq","0"]]}}
//!   {"complete":{"steps":1}}
//! ```
//!
//! Read from the top, the lines leave the set of knobs that are *held*: each with what it had before the first write, however
//! often it was written since, and with the values that it may have by our doing. A value that is neither is someone else's.
//! `undone` takes a knob out of the set; a journal that holds none is over.
//!
//! Where a journal lies, its lock and what becomes of it afterwards is [`State`]'s; lines go through a [`Log`].

mod files;
mod memory;
#[cfg(test)]
mod power;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::knob::{Knob, Setting};
pub use memory::Memory;
pub use state::{ASIDE_COUNT_MAX, Finished, Found, LINES_COUNT_MAX, State, is_held, look};

/// The form of the lines that this version writes and reads.
pub const VERSION: u32 = 1;

/// How the first line begins.
const BEGINNING: &[u8] = b"{\"begin\":";

/// Where lines go.
pub trait Log {
    /// Appends the line and its end. When this returns, a loss of power does not lose it; when it fails, nothing of it is there.
    ///
    /// # Errors
    /// What hindered it, in words.
    fn append(&mut self, line: &str) -> Result<(), String>;
}

/// What was wished for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// When, in seconds since 1970, by the caller's clock.
    pub when_s: u64,
    /// Version of the tool.
    pub tool: String,
    /// The file's text.
    pub text: String,
}

/// What can be said of the journal of lanes that were made under `--confirm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// Nobody has to confirm (any more).
    NotNeeded,
    /// Someone has to, within so many seconds.
    Waiting {
        /// Seconds that are left.
        left_s: u64,
    },
    /// Nobody has, and whoever should have reverted did not.
    Overdue {
        /// Seconds since the deadline.
        since_s: u64,
    },
}

/// A knob that was written, for those who report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Which.
    pub knob: Knob,
    /// What it had before the first write.
    pub had: Option<Setting>,
    /// What was written last.
    pub wrote: Option<Setting>,
}

/// Why a journal, or the directory it lies in, can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Another process is at it.
    Locked(String),
    /// It is there, and not one that can be read.
    Unreadable(String),
    /// The file system refuses.
    Refused(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Trouble::Locked(text) | Trouble::Unreadable(text) | Trouble::Refused(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Trouble {}

/// The knobs that are held, and the log that keeps what is known of them.
pub struct Journal {
    /// Without one it is only looked at.
    log: Option<Box<dyn Log>>,
    boot: String,
    wish: Wish,
    held: BTreeMap<Knob, Held>,
    /// Place of the next knob that a step writes.
    place_next: usize,
    is_complete: bool,
    confirm_by_s: Option<u64>,
    lines_count: usize,
    was_cut: bool,
}

/// What is known of a knob that was touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Held {
    /// Before the first write.
    #[serde(deserialize_with = "stated")]
    pub(crate) had: Option<Setting>,
    /// What it may have by our doing, the newest last. More than one while it is not known whether a write took effect.
    pub(crate) ours: Vec<Option<Setting>>,
    /// Its place among those that steps wrote. None: only others' writes changed it.
    pub(crate) place: Option<usize>,
    /// Its write began, and its end is not known.
    pub(crate) is_pending: bool,
    /// A write that resets it began, and what it left is not known: it shall have `keep` again, and has anything.
    pub(crate) is_unsettled: bool,
    /// What it had before that write.
    #[serde(deserialize_with = "stated")]
    pub(crate) keep: Option<Setting>,
    /// The knobs that are reset when it is written.
    pub(crate) disturbs: BTreeSet<Knob>,
}

impl Held {
    /// Whether `found` is nobody else's: what it had, or what may be our doing.
    pub(crate) fn is_ours(&self, found: &Option<Setting>) -> bool {
        self.is_unsettled || self.had == *found || self.ours.contains(found)
    }

    /// What someone else had set before a write of ours reset it, where that is so.
    pub(crate) fn foreign(&self) -> Option<&Option<Setting>> {
        (self.is_unsettled && self.keep != self.had && !self.ours.contains(&self.keep)).then_some(&self.keep)
    }

    /// What it shall have when it is put back.
    pub(crate) fn goal(&self) -> &Option<Setting> {
        self.foreign().unwrap_or(&self.had)
    }

    /// Whether there is nothing of ours in it.
    fn is_untouched(&self) -> bool {
        self.place.is_none() && !self.is_unsettled && self.ours == [self.had.clone()]
    }
}

/// A line. What it does to the knobs held: [`Journal::fold`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Line {
    /// The first line.
    Begin { version: u32, boot: String, wish: Wish },
    /// Another wish is applied over the one in force.
    Wish(Wish),
    /// A knob is about to be written. `disturbs`: those that the kernel resets with it, and what they shall have afterwards.
    Write {
        knob: Knob,
        #[serde(deserialize_with = "stated")]
        had: Option<Setting>,
        #[serde(deserialize_with = "stated")]
        wrote: Option<Setting>,
        disturbs: Vec<(Knob, Option<Setting>)>,
    },
    /// It was written and read back. `left`: what those others have now; one that is missing there is gone.
    Done { knob: Knob, left: Vec<(Knob, Option<Setting>)> },
    /// It is as it was before, or no longer ours to put back.
    Undone { knob: Knob },
    /// A knob with all that earlier lines said of it.
    Held { knob: Knob, held: Held },
    /// All steps of the wish have what they want.
    Complete { steps: usize },
    /// Whoever waits reverts then.
    ConfirmBy { deadline_s: u64 },
    /// Nobody has to.
    Confirmed { when_s: u64 },
    /// A revert has ended, and so many knobs it could not put back.
    Left { count: usize },
}

/// A value that must be there, be it `null`: a line that lost it must not read as "there was none".
fn stated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Setting>, D::Error> {
    Option::deserialize(deserializer)
}

impl Journal {
    /// A new one, whose first line is written.
    ///
    /// # Errors
    /// The log's.
    pub fn begin(log: Box<dyn Log>, boot: &str, wish: Wish) -> Result<Journal, Trouble> {
        let mut journal = Journal::empty(boot, wish.clone());
        journal.log = Some(log);
        let line = Line::Begin { version: VERSION, boot: boot.to_owned(), wish };
        journal.append(line).map_err(Trouble::Refused)?;
        Ok(journal)
    }

    /// Reads the lines of a journal that is called `name`, to be looked at. With it the size of its whole lines: what lies
    /// beyond is the beginning of a line whose write was cut short, which means that what it announces was never done.
    /// None: there is no whole line.
    ///
    /// # Errors
    /// [`Trouble::Unreadable`] with the number of the line.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Option<(Journal, usize)>, Trouble> {
        let size = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if size == 0 && !is_beginning(bytes) {
            return Err(unreadable(name, 1, "it does not begin with \"begin\""));
        }
        let mut journal: Option<Journal> = None;
        for (index, line) in bytes[..size].split_inclusive(|byte| *byte == b'\n').enumerate() {
            let unreadable = |reason: String| unreadable(name, index + 1, &reason);
            let line: Line = serde_json::from_slice(line).map_err(|e| unreadable(e.to_string()))?;
            match (&mut journal, line) {
                (None, Line::Begin { version, boot, wish }) => {
                    if version != VERSION {
                        return Err(Trouble::Unreadable(format!(
                            "{name} has form {version} and was written by version {} of this tool; this one reads form \
                             {VERSION}: revert with that version",
                            wish.tool
                        )));
                    }
                    let mut begun = Journal::empty(&boot, wish);
                    begun.lines_count = 1;
                    journal = Some(begun);
                }
                (None, _) => return Err(unreadable("it does not begin with \"begin\"".to_owned())),
                (Some(journal), line) => journal.fold(line).map_err(unreadable)?,
            }
        }
        Ok(journal.map(|mut journal| {
            journal.was_cut = size < bytes.len();
            (journal, size)
        }))
    }

    /// Takes up one that was read: further lines go to `log`, which stands behind its last whole line.
    #[must_use]
    pub fn resumed(mut self, log: Box<dyn Log>) -> Journal {
        self.log = Some(log);
        self
    }

    fn empty(boot: &str, wish: Wish) -> Journal {
        Journal {
            log: None,
            boot: boot.to_owned(),
            wish,
            held: BTreeMap::new(),
            place_next: 0,
            is_complete: false,
            confirm_by_s: None,
            lines_count: 0,
            was_cut: false,
        }
    }

    /// The run of the kernel that it is about.
    #[must_use]
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// The wish applied last.
    #[must_use]
    pub fn wish(&self) -> &Wish {
        &self.wish
    }

    /// Says that `wish` is applied from here on. The same text again leaves no line.
    ///
    /// # Errors
    /// The log's.
    pub fn set_wish(&mut self, wish: Wish) -> Result<(), Trouble> {
        if wish.text == self.wish.text && wish.tool == self.wish.tool {
            return Ok(());
        }
        self.append(Line::Wish(wish)).map_err(Trouble::Refused)
    }

    /// Says that this wish, the one before that of [`Journal::set_wish`], is in force again: the other could not be applied, and
    /// what was done of it is undone. `was_complete`: it was wholly in force.
    ///
    /// # Errors
    /// The log's.
    pub fn take_back_wish(&mut self, wish: Wish, was_complete: bool) -> Result<(), Trouble> {
        self.set_wish(wish)?;
        match was_complete && !self.is_complete {
            true => self.append(Line::Complete { steps: self.held.len() }).map_err(Trouble::Refused),
            false => Ok(()),
        }
    }

    /// Whether no wish is in force and nothing is left to be put back. Where all was as wished already, a wish is in force and
    /// nothing is held.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.held.is_empty() && !self.is_complete
    }

    /// Whether the wish is wholly in force: an apply came to its end, and nothing was undone since.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether its last line was cut short, as by a crash in the middle of writing it.
    #[must_use]
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// The knobs that steps wrote, in that order.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<_> = self.held.iter().filter(|(_, held)| held.place.is_some()).collect();
        entries.sort_by_key(|(_, held)| held.place);
        let entry = |(knob, held): (&Knob, &Held)| Entry {
            knob: knob.clone(),
            had: held.had.clone(),
            wrote: held.ours.last().cloned().flatten(),
        };
        entries.into_iter().map(entry).collect()
    }

    /// Asks for a confirmation until `deadline_s` (seconds since 1970); the last deadline counts. It is on disk before this
    /// returns, so that lanes whose maker died are known to be unconfirmed.
    ///
    /// # Errors
    /// The log's.
    pub fn ask_confirmation(&mut self, deadline_s: u64) -> Result<(), Trouble> {
        self.append(Line::ConfirmBy { deadline_s }).map_err(Trouble::Refused)
    }

    /// Confirms.
    ///
    /// # Errors
    /// The log's.
    pub fn confirm(&mut self, when_s: u64) -> Result<(), Trouble> {
        self.append(Line::Confirmed { when_s }).map_err(Trouble::Refused)
    }

    /// Whether someone has to confirm, at `now_s` (seconds since 1970).
    #[must_use]
    pub fn confirmation(&self, now_s: u64) -> Confirmation {
        match self.confirm_by_s {
            None => Confirmation::NotNeeded,
            Some(deadline_s) if now_s < deadline_s => Confirmation::Waiting { left_s: deadline_s - now_s },
            Some(deadline_s) => Confirmation::Overdue { since_s: now_s - deadline_s },
        }
    }

    /// What is known of a knob.
    pub(crate) fn held(&self, knob: &Knob) -> Option<&Held> {
        self.held.get(knob)
    }

    /// All that is known of the knobs that are held.
    pub(crate) fn all_held(&self) -> &BTreeMap<Knob, Held> {
        &self.held
    }

    /// Knobs that only others' writes changed.
    pub(crate) fn bystanders(&self) -> Vec<Knob> {
        self.held.iter().filter(|(_, held)| held.place.is_none()).map(|(knob, _)| knob.clone()).collect()
    }

    /// Writes a line and takes in what it says. It is taken in also when it can't be written: whoever puts things back goes on
    /// then, since a journal that is behind is read as "perhaps not yet undone", which is looked up.
    pub(crate) fn append(&mut self, line: Line) -> Result<(), String> {
        let text = serde_json::to_string(&line).map_err(|e| format!("a line of the journal: {e}"))?;
        let written = match &mut self.log {
            Some(log) => log.append(&text),
            None => Err("the journal was opened to be looked at".to_owned()),
        };
        self.fold(line).expect("only what is held is done or undone");
        written
    }

    /// What a line does to the set.
    fn fold(&mut self, line: Line) -> Result<(), String> {
        self.lines_count += 1;
        match line {
            Line::Begin { .. } if self.lines_count == 1 => {}
            Line::Begin { .. } => return Err("it begins a second time".to_owned()),
            Line::Wish(wish) => {
                self.wish = wish;
                self.is_complete = false;
            }
            Line::Write { knob, had, wrote, disturbs } => {
                self.is_complete = false;
                for (other, keep) in &disturbs {
                    let held = self.held.entry(other.clone()).or_insert_with(|| Held::new(keep.clone()));
                    (held.is_unsettled, held.keep) = (true, keep.clone());
                }
                let held = self.held.entry(knob).or_insert_with(|| Held::new(had));
                held.disturbs.extend(disturbs.into_iter().map(|(other, _)| other));
                held.ours.retain(|ours| *ours != wrote);
                held.ours.push(wrote);
                held.is_pending = true;
                if held.place.is_none() {
                    held.place = Some(self.place_next);
                    self.place_next += 1;
                }
            }
            Line::Done { knob, left } => {
                let held = self.held.get_mut(&knob).ok_or_else(|| unknown(&knob))?;
                held.ours = held.ours.pop().into_iter().collect();
                (held.is_pending, held.is_unsettled) = (false, false);
                for (other, found) in left {
                    let held = self.held.get_mut(&other).ok_or_else(|| unknown(&other))?;
                    held.is_unsettled = false;
                    // What it had before that write, and still has, may be someone else's and does not become ours.
                    if found != held.keep || found == held.had {
                        held.ours = vec![found];
                    }
                    if held.is_untouched() {
                        self.held.remove(&other);
                    }
                }
            }
            Line::Undone { knob } => {
                self.held.remove(&knob).ok_or_else(|| unknown(&knob))?;
                self.is_complete = false;
            }
            Line::Held { knob, held } => {
                self.place_next = self.place_next.max(held.place.map_or(0, |place| place + 1));
                self.held.insert(knob, held);
            }
            Line::Complete { .. } => self.is_complete = true,
            Line::ConfirmBy { deadline_s } => self.confirm_by_s = Some(deadline_s),
            Line::Confirmed { .. } => self.confirm_by_s = None,
            Line::Left { .. } => (self.is_complete, self.confirm_by_s) = (false, None),
        }
        Ok(())
    }

    /// The fewest lines that say the same.
    fn compact(&self) -> Vec<Line> {
        let mut lines =
            vec![Line::Begin { version: VERSION, boot: self.boot.clone(), wish: self.wish.clone() }];
        lines.extend(
            self.held.iter().map(|(knob, held)| Line::Held { knob: knob.clone(), held: held.clone() }),
        );
        lines.extend(self.is_complete.then_some(Line::Complete { steps: self.held.len() }));
        lines.extend(self.confirm_by_s.map(|deadline_s| Line::ConfirmBy { deadline_s }));
        lines
    }
}

impl Held {
    fn new(had: Option<Setting>) -> Held {
        Held {
            ours: vec![had.clone()],
            keep: None,
            had,
            place: None,
            is_pending: false,
            is_unsettled: false,
            disturbs: BTreeSet::new(),
        }
    }
}

/// Whether a file without a whole line may be a journal whose first was cut short: a part of it, or no more than its size.
fn is_beginning(bytes: &[u8]) -> bool {
    let shorter = bytes.len().min(BEGINNING.len());
    bytes[..shorter] == BEGINNING[..shorter] || bytes.iter().all(|byte| *byte == 0)
}

fn unknown(knob: &Knob) -> String {
    format!("{knob} is done or undone there, and no earlier line begins it")
}

fn unreadable(name: &str, line: usize, reason: &str) -> Trouble {
    Trouble::Unreadable(format!(
        "line {line} of {name} can't be read ({reason}). What it describes may be in force: mend the line, or put back by hand \
         what each \"had\" says and move the file away"
    ))
}

#[cfg(test)]
mod tests;
