//! CLIENT TRACKING: clients are told when keys that they have read, and keep, have changed. docs/tracking.md is the lecture.
//!
//! ```text
//! the lane that owns a key          the client's lane              the lane of who gets its invalidations
//! remembers who has read it
//! it changes: who has read it  ──▶  who of them still tracks  ──▶  the client itself, or whom it has named
//! ```
//! `table` is the first of these, `handout` the way from there. Here is what a lane knows of its own clients that track, and what they
//! ask for. With BCAST nothing is remembered: each lane knows of which prefixes clients of which lanes want to know.
//!
//! An invalidation comes behind the replies that are under way when it comes: what has been read before the change is among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use wire::command::{Command, Flag, Id};
use wire::reply::{self, OK, Proto, Put};

use crate::client::Client;
use crate::core::Core;
use crate::dispatch::{Caller, Flow, Input};
use crate::part::NAMES_PER_STEP;
use crate::peers::{AskKind, TRACKED_QUIET, TRACKED_READS};
use crate::replies::Content;
use crate::request::Args;
use crate::slab::{Handle, Slab};
use crate::transaction::{Transaction, key_range};

mod handout;
mod table;

use handout::Handing;
pub(crate) use handout::News;
pub(crate) use table::{By, Name, Tracked, Wishes};

/// Prefixes that all clients of a lane may have together, and bytes of them: each change is compared with those of all lanes.
const PREFIX_COUNT_MAX: usize = 1024;
const PREFIXES_SIZE_MAX: usize = 64 * 1024;

/// Who gets a client's invalidations instead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// What CLIENT ID says there.
    pub(crate) id: u64,
    pub(crate) lane: u16,
    /// Its name on that lane.
    pub(crate) client: u64,
}

/// CLIENT TRACKING, as it is asked for.
#[derive(Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) is_on: bool,
    pub(crate) redirect: Option<Redirect>,
    pub(crate) is_broadcast: bool,
    pub(crate) opts_in: bool,
    pub(crate) opts_out: bool,
    pub(crate) is_quiet: bool,
    pub(crate) prefixes: Vec<Name>,
}

/// The same for a client of a lane, as the control thread orders it.
pub(crate) struct Track {
    /// The client, or a transaction of its.
    pub(crate) asker: u64,
    pub(crate) is_exec: bool,
    pub(crate) wanted: Wanted,
}

/// What has come of it: whether all lanes have to know of it, or an error.
pub(crate) type Tracking = Result<Option<Arc<Wishes>>, String>;

/// A client of this lane that tracks keys.
#[derive(Default)]
struct Tracker {
    how: Wanted,
    /// CLIENT CACHING has been said for the next command.
    is_caching: bool,
    /// Whoever should get its invalidations has gone.
    is_broken: bool,
}

/// What CLIENT LIST shows of it.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) redirect: u64,
    pub(crate) is_broken: bool,
    pub(crate) is_broadcast: bool,
}

/// See the top of this file.
#[derive(Default)]
pub(crate) struct Trackers {
    by_client: BTreeMap<u64, Tracker>,
    /// Who wants to know of keys that begin like this.
    by_prefix: BTreeMap<Name, BTreeSet<u64>>,
    prefixes_size: usize,
    /// How often what they want has changed.
    version: u32,
    /// For other lanes.
    outgoing: BTreeMap<u16, News>,
    handing: VecDeque<Handing>,
    /// Entries of it.
    handing_size: usize,
}

impl Trackers {
    /// Whether a turn has something to do for it.
    pub(crate) fn has_work(&self) -> bool {
        !self.handing.is_empty() || !self.outgoing.is_empty()
    }

    /// How many clients track keys.
    pub(crate) fn count(&self) -> usize {
        self.by_client.len()
    }

    /// What a client's commands are to be remembered for, if it tracks keys.
    fn by(&self, lane: u16, client: u64) -> Option<By> {
        let Tracker { how, is_caching, .. } = self.by_client.get(&client)?;
        let is_left_out = how.opts_in && !is_caching || how.opts_out && *is_caching;
        let remembers = !how.is_broadcast && !is_left_out;
        Some(By { reader: (lane, client), remembers, is_quiet: how.is_quiet })
    }

    /// What is shown of a client, if it tracks keys.
    pub(crate) fn shown(&self, client: u64) -> Option<Shown> {
        let Tracker { how, is_broken, .. } = self.by_client.get(&client)?;
        let redirect = how.redirect.map_or(0, |redirect| redirect.id);
        Some(Shown { redirect, is_broken: *is_broken, is_broadcast: how.is_broadcast })
    }

    fn wishes(&self) -> Arc<Wishes> {
        let prefixes = self.by_prefix.keys().cloned().collect();
        Arc::new(Wishes { version: self.version, prefixes })
    }

    /// Adds a client's prefixes.
    fn add_prefixes(&mut self, client: u64, prefixes: Vec<Name>) {
        let known = &mut self.by_client.get_mut(&client).expect("a client with prefixes tracks").how.prefixes;
        for prefix in prefixes {
            if known.contains(&prefix) {
                continue;
            }
            let clients = self.by_prefix.entry(Name::clone(&prefix)).or_default();
            self.prefixes_size += if clients.is_empty() { prefix.len() } else { 0 };
            clients.insert(client);
            known.push(prefix);
        }
    }

    /// A client tracks nothing any more; true if it was the last of the lane with one of its prefixes.
    fn remove(&mut self, client: u64) -> bool {
        let Some(tracker) = self.by_client.remove(&client) else { return false };
        let before = self.by_prefix.len();
        for prefix in tracker.how.prefixes {
            let clients = self.by_prefix.get_mut(&prefix).expect("both sides have a prefix");
            clients.remove(&client);
            if clients.is_empty() {
                self.by_prefix.remove(&prefix);
                self.prefixes_size -= prefix.len();
            }
        }
        self.by_prefix.len() < before
    }

    /// Why a client may not track like that, in the order in which Redis looks (`clientCommand` in networking.c, and tracking.c).
    fn check(&self, client: u64, wanted: &Wanted) -> Result<(), String> {
        let now = self.by_client.get(&client).map(|tracker| &tracker.how);
        let text = match now {
            _ if !wanted.is_broadcast && !wanted.prefixes.is_empty() => {
                "ERR PREFIX option requires BCAST mode to be enabled"
            }
            Some(now) if now.is_broadcast != wanted.is_broadcast => {
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling \
                 it with a different mode."
            }
            _ if wanted.is_broadcast && (wanted.opts_in || wanted.opts_out) => {
                "ERR OPTIN and OPTOUT are not compatible with BCAST"
            }
            _ if wanted.opts_in && wanted.opts_out => "ERR You can't specify both OPTIN mode and OPTOUT mode",
            Some(now) if wanted.opts_in && now.opts_out || wanted.opts_out && now.opts_in => {
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling \
                 it with a different mode."
            }
            now => return self.check_prefixes(now.map_or(&[], |now| &now.prefixes), &wanted.prefixes),
        };
        Err(text.to_owned())
    }

    fn check_prefixes(&self, known: &[Name], wanted: &[Name]) -> Result<(), String> {
        let size: usize = wanted.iter().map(|prefix| prefix.len()).sum();
        let is_too_much = PREFIX_COUNT_MAX < self.by_prefix.len() + wanted.len()
            || PREFIXES_SIZE_MAX < self.prefixes_size + size;
        // Before all are compared with all.
        if is_too_much && !wanted.is_empty() {
            return Err(format!(
                "ERR too many prefixes: the clients of a lane have at most {PREFIX_COUNT_MAX}, of {PREFIXES_SIZE_MAX} bytes"
            ));
        }
        let overlap = |one: &Name, other: &Name| one.starts_with(other) || other.starts_with(one);
        let text = |name: &Name| String::from_utf8_lossy(reply::quoted(name)).into_owned();
        for (index, prefix) in wanted.iter().enumerate() {
            let clash = |what: &str, other: &Name| {
                let (prefix, other) = (text(prefix), text(other));
                Err(format!(
                    "ERR Prefix '{prefix}' overlaps with {what} prefix '{other}'. Prefixes for a single client must not \
                     overlap."
                ))
            };
            if let Some(other) = known.iter().find(|other| overlap(prefix, other)) {
                return clash("an existing", other);
            }
            if let Some(other) = wanted[index + 1..].iter().find(|other| overlap(prefix, other)) {
                return clash("another provided", other);
            }
        }
        Ok(())
    }
}

/// What is kept of a command under way of a client that tracks keys.
pub(crate) struct Reading {
    by: By,
    db: u16,
    /// Keys that it reads on this lane.
    keys: Vec<Vec<u8>>,
}

/// Whether it is a command about tracking that the client's lane answers.
pub(crate) fn is_answered_here(command: &Command) -> bool {
    matches!(command.id, Id::ClientCaching | Id::ClientGetredir | Id::ClientTrackinginfo)
}

impl Core {
    /// A command of a client that tracks keys begins. Until [`Core::end_reading`] all that runs is on its behalf.
    #[cold]
    pub(crate) fn begin_reading(
        &mut self,
        caller: &Caller<'_>,
        command: Option<&'static Command>,
        input: &Input<'_>,
    ) -> Option<Reading> {
        let by = self.tracking.by(self.id, caller.handle.to_bits())?;
        self.space.by = Some(by);
        let reads = if by.remembers { TRACKED_READS } else { 0 };
        self.asks_as = (AskKind::Tracked, reads | if by.is_quiet { TRACKED_QUIET } else { 0 });
        let (db, mut keys) = (caller.client.db, Vec::new());
        let args = input.args();
        // A longer command becomes a part, which remembers by itself.
        if let Some(command) = command
            && by.remembers
            && command.flags.has(Flag::Readonly)
            && args.len() <= NAMES_PER_STEP
        {
            let step = usize::from(command.keys.step.max(1));
            let names =
                key_range(command, args.len()).step_by(step).filter_map(|index| args.get(index).flat());
            keys.extend(names.filter(|key| self.has(self.space.slot(db, key))).map(<[u8]>::to_vec));
        }
        Some(Reading { by, db, keys })
    }

    /// The command has been taken up, or has to wait; what it has read here is remembered if it is over.
    #[cold]
    pub(crate) fn end_reading(
        &mut self,
        caller: &Caller<'_>,
        command: Option<&'static Command>,
        reading: Reading,
        flow: &Flow,
    ) {
        self.space.by = None;
        self.asks_as = (AskKind::Inline, 0);
        let Reading { by, db, keys } = reading;
        if let Flow::Next = flow
            && caller.client.multi.is_none()
        {
            keys.iter().for_each(|key| self.space.remember(by, db, key));
        }
        // As in Redis it holds for the next command or transaction, and CLIENT is none (`resetClient` in networking.c).
        let is_about_client = command.is_some_and(|command| command.name.starts_with("client"));
        if !matches!(flow, Flow::Halt(_))
            && caller.client.multi.is_none()
            && !is_about_client
            && let Some(tracker) = self.tracking.by_client.get_mut(&caller.handle.to_bits())
        {
            tracker.is_caching = false;
        }
    }

    /// A transaction is over: what CLIENT CACHING has said for it, or in it, holds no more.
    pub(crate) fn end_caching(&mut self, client: Handle<Client>) {
        if let Some(tracker) = self.tracking.by_client.get_mut(&client.to_bits()) {
            tracker.is_caching = false;
        }
    }

    /// CLIENT CACHING, GETREDIR or TRACKINGINFO.
    pub(crate) fn answer_tracking(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        args: Args<'_>,
    ) -> Flow {
        let mut content = Content::default();
        let proto = caller.client.proto;
        self.put_tracking(caller.handle.to_bits(), command.id, args, proto, &mut content);
        caller.sink().append(content);
        Flow::Next
    }

    /// The same inside a MULTI, when its turn comes.
    pub(crate) fn answer_tracking_of(&mut self, handle: Handle<Transaction>) {
        let transaction = self.transaction(handle);
        let (command, request, proto) = transaction.take_asked();
        let client = transaction.client().map_or(u64::MAX, |client| client.to_bits());
        let mut content = Content::default();
        self.put_tracking(client, command.id, Args::Owned(&request), proto, &mut content);
        self.space.discard(request);
        let by = self.tracking.by(self.id, client);
        self.transaction(handle).by = by;
        self.hear_answer(handle, content);
    }

    fn put_tracking(&mut self, client: u64, id: Id, args: Args<'_>, proto: Proto, out: &mut Content) {
        let tracker = self.tracking.by_client.get_mut(&client);
        match id {
            Id::ClientCaching => match cache(tracker, args.flat(2)) {
                Ok(()) => out.put(OK),
                Err(text) => reply::error(out, text),
            },
            Id::ClientGetredir => reply::integer(out, redirect_of(tracker.as_deref())),
            _ => put_info(tracker.as_deref(), proto, out),
        }
    }

    /// CLIENT TRACKING of a client of this lane, which may have gone.
    pub(crate) fn track(&mut self, track: &Track, clients: &mut Slab<Client>) -> Tracking {
        let Track { asker, is_exec, wanted } = track;
        let handle = match is_exec {
            true => self.transaction(Handle::from_bits(*asker)).client(),
            false => Some(Handle::from_bits(*asker)),
        };
        let Some((handle, client)) = handle.and_then(|handle| Some((handle, clients.get_mut(handle)?)))
        else {
            return Ok(None);
        };
        let bits = handle.to_bits();
        let has_changed = if wanted.is_on {
            self.tracking.check(bits, wanted)?;
            client.is_tracking = true;
            let tracker = self.tracking.by_client.entry(bits).or_default();
            let mut how = wanted.clone();
            let mut prefixes =
                std::mem::replace(&mut how.prefixes, std::mem::take(&mut tracker.how.prefixes));
            if how.is_broadcast && prefixes.is_empty() {
                prefixes.push(Name::default());
            }
            (tracker.how, tracker.is_broken) = (how, false);
            // That of another client may still be on its way to the other lanes: this one is not answered before they know.
            self.tracking.add_prefixes(bits, prefixes);
            wanted.is_broadcast
        } else {
            client.is_tracking = false;
            self.tracking.remove(bits)
        };
        if *is_exec {
            let by = self.tracking.by(self.id, bits);
            self.transaction(Handle::from_bits(*asker)).by = by;
        }
        Ok(has_changed.then(|| {
            self.tracking.version = self.tracking.version.wrapping_add(1);
            self.tracking.wishes()
        }))
    }

    /// A client tracks nothing any more: it has gone, or has said RESET.
    pub(crate) fn end_tracking(&mut self, client: &mut Client, handle: Handle<Client>) {
        if !std::mem::take(&mut client.is_tracking) || !self.tracking.remove(handle.to_bits()) {
            return;
        }
        self.tracking.version = self.tracking.version.wrapping_add(1);
        let wishes = self.tracking.wishes();
        self.space.set_wishes(self.id, &wishes);
        for lane in (0..self.lane_count).filter(|&lane| lane != self.id) {
            self.tracking.outgoing.entry(lane).or_default().wishes = Some(Arc::clone(&wishes));
        }
    }
}

fn cache(tracker: Option<&mut Tracker>, word: &[u8]) -> Result<(), &'static str> {
    let Some(tracker) = tracker else {
        return Err(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
                    enabled",
        );
    };
    match word.to_ascii_lowercase().as_slice() {
        b"yes" if !tracker.how.opts_in => {
            Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
        }
        b"no" if !tracker.how.opts_out => {
            Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
        }
        b"yes" | b"no" => {
            tracker.is_caching = true;
            Ok(())
        }
        _ => Err("ERR syntax error"),
    }
}

/// -1 without tracking, 0 if nobody else gets the invalidations.
fn redirect_of(tracker: Option<&Tracker>) -> i64 {
    let Some(tracker) = tracker else { return -1 };
    tracker.how.redirect.map_or(0, |redirect| i64::try_from(redirect.id).expect("ids grow from 1"))
}

fn put_info(tracker: Option<&Tracker>, proto: Proto, out: &mut Content) {
    let flags: Vec<&str> = match tracker {
        None => vec!["off"],
        Some(Tracker { how, is_caching, is_broken }) => [
            ("on", true),
            ("bcast", how.is_broadcast),
            ("optin", how.opts_in),
            ("caching-yes", how.opts_in && *is_caching),
            ("optout", how.opts_out),
            ("caching-no", how.opts_out && *is_caching),
            ("noloop", how.is_quiet),
            ("broken_redirect", *is_broken),
        ]
        .into_iter()
        .filter_map(|(flag, holds)| holds.then_some(flag))
        .collect(),
    };
    reply::map(out, proto, 3);
    reply::bulk(out, b"flags");
    reply::set(out, proto, flags.len());
    flags.iter().for_each(|flag| reply::bulk(out, flag.as_bytes()));
    reply::bulk(out, b"redirect");
    reply::integer(out, redirect_of(tracker));
    reply::bulk(out, b"prefixes");
    let mut prefixes = tracker.map_or_else(Vec::new, |tracker| tracker.how.prefixes.clone());
    prefixes.sort_unstable();
    reply::array(out, prefixes.len());
    prefixes.iter().for_each(|prefix| reply::bulk(out, prefix));
}
