//! MIGRATE: keys go to another server. docs/migrate.md is the lecture.
//!
//! ```text
//!           read ▶            RESTORE ▶              delete if unchanged ▶
//! lanes ◀─────────── control ───────────▶ another    ───────────────────▶ lanes
//!        values                ◀ OK        server
//! ```
//! Nothing is locked while another server is waited for, and nobody waits but the client that asked. Connections are the machine's
//! ([`super::Outgoing`]); one that is not used for a while is kept for the next MIGRATE to the same place.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use wire::command::keys_of_migrate;
use wire::reply;
use wire::route::Slot;

use super::outgoing::Reached;
use super::{Asker, Begun, Control, Machine};
use crate::Now;
use crate::admin::{Order, Question};
use crate::client::Port;
use crate::departure::{Departing, Departure};
use crate::dispatch::CROSSSLOT;
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::replies::Content;
use crate::request::Args;

mod course;
mod link;
mod words;

use course::{Course, Stage};
use link::{Link, Said};
use words::Words;

/// Connections, those that nobody uses just now included (`MIGRATE_SOCKET_CACHE_ITEMS` of Redis). So many may be under way at a time;
/// more wait their turn.
const LINKS_MAX: usize = 64;
/// How long one is kept that nobody uses (`MIGRATE_SOCKET_CACHE_TTL`).
const LINK_IDLE_NS: u64 = 10_000_000_000;
/// Reads and deletions that a lane may be asked for at a time. They may have to wait for a lock whose holder waits for the control
/// thread, so they must leave room for other orders in the smallest rings there are.
const ORDERS_PER_LANE: usize = 4;
/// How long it is until an answer is tried again for which there was no room.
const RETRY_NS: u64 = 1_000_000;
const CONNECTING: &str = "connecting to the client";

/// What the control thread knows of keys on their way.
#[derive(Default)]
pub(super) struct Migrations {
    courses: BTreeMap<u64, Course>,
    /// Those that wait until others are over.
    waiting: VecDeque<Course>,
    links: BTreeMap<u64, Link>,
    /// What lanes were asked: of which course, and which of its keys.
    asked: BTreeMap<u64, (u64, usize)>,
    /// How much that is of each lane.
    asked_counts: BTreeMap<u16, usize>,
    /// Keys that are being moved, each by one course: what another did to it would look like a client's doing.
    moving: BTreeSet<(u16, Vec<u8>)>,
    /// Answers that are not told yet.
    answers: VecDeque<(Asker, Content)>,
    retry_ns: Option<u64>,
    course_newest: u64,
    link_newest: u64,
    watch_newest: u64,
    round: usize,
    /// Something has become free that another course may wait for.
    is_stirred: bool,
}

impl Migrations {
    pub(super) fn is_idle(&self) -> bool {
        self.courses.is_empty() && self.waiting.is_empty() && self.answers.is_empty()
    }

    /// Connections there are.
    pub(super) fn link_count(&self) -> usize {
        self.links.values().filter(|link| link.is_open()).count()
    }

    /// When something is due that time alone brings about.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let patience = |course: &Course| course.since_ns.saturating_add(course.words.timeout_ns);
        let is_busy = |course: &&Course| course.link.is_some_and(|link| self.links[&link].is_busy());
        let ends = self.courses.values().filter(is_busy).chain(&self.waiting).map(patience);
        let idle = self.links.values().filter(|link| link.user.is_none());
        ends.chain(idle.map(|link| link.used_ns + LINK_IDLE_NS)).chain(self.retry_ns).min()
    }
}

impl Control {
    /// `MIGRATE host port key|"" destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] [KEYS key …]`
    pub(super) fn begin_migrate(&self, question: &Question, out: &mut Vec<u8>) -> Begun {
        if let Some(text) = self.strays(question) {
            reply::error(out, &text);
            return Begun::Answered;
        }
        match Words::parse(Args::Owned(&question.request)) {
            Ok(words) => Begun::Migrates(Box::new(Migrating(words))),
            Err(text) => {
                reply::error(out, text);
                Begun::Answered
            }
        }
    }

    /// Why a lane's own port does not move these keys: as on a node of a cluster, they are of one slot, and that the node's.
    fn strays(&self, question: &Question) -> Option<String> {
        if question.from.port != Port::Lane {
            return None;
        }
        let args = Args::Owned(&question.request);
        let mut slots =
            keys_of_migrate(args.len(), |index| args.flat(index))?.map(|key| Slot::of(args.flat(key)));
        let slot = slots.next()?;
        if slots.any(|other| other != slot) {
            return Some(CROSSSLOT.to_owned());
        }
        let owner = self.map.owner(slot).0;
        let address = || self.settings.lane_address(owner, question.from.local);
        (owner != question.from.lane).then(|| format!("MOVED {} {}", slot.number(), address()))
    }

    /// The keys go, as soon as there is a place among those that are on their way.
    pub(super) fn admit_migrate(&mut self, asker: Asker, question: Question, words: Migrating, now: Now) {
        assert!(!asker.is_exec, "a transaction or script that says MIGRATE is refused");
        self.migrations.waiting.push_back(Course::new(asker, question, words.0, now.mono_ns));
    }

    /// A lane has read a key.
    pub(super) fn hear_read(&mut self, lane: u16, ticket: u64, found: Option<Departing>) {
        let (course, index) = self.hear_asked(lane, ticket);
        course.has_read(index, found);
    }

    /// A lane has deleted a key, or found that it has changed.
    pub(super) fn hear_deleted(&mut self, lane: u16, ticket: u64, is_changed: bool) {
        let (course, index) = self.hear_asked(lane, ticket);
        course.has_deleted(index, is_changed);
    }

    fn hear_asked(&mut self, lane: u16, ticket: u64) -> (&mut Course, usize) {
        let Migrations { asked, asked_counts, courses, .. } = &mut self.migrations;
        let (course, index) = asked.remove(&ticket).expect("a lane reports what it was asked");
        *asked_counts.get_mut(&lane).expect("it was counted") -= 1;
        (courses.get_mut(&course).expect("a course outlives what it has asked"), index)
    }

    /// Takes all courses as far as they can go.
    pub(super) fn tend_migrations(&mut self, now: Now, machine: &mut impl Machine) {
        if self.migrations.is_idle() && self.migrations.links.is_empty() {
            return;
        }
        while let Some((number, reached)) = machine.outgoing().and_then(|outgoing| outgoing.hear()) {
            self.hear_link(number, reached, now, machine);
        }
        self.end_idle_links(now, machine);
        loop {
            self.migrations.is_stirred = false;
            self.admit_courses(now);
            let mut numbers: Vec<u64> = self.migrations.courses.keys().copied().collect();
            // What lanes may be asked goes to another one first each time.
            self.migrations.round = self.migrations.round.wrapping_add(1);
            let first = self.migrations.round % numbers.len().max(1);
            numbers.rotate_left(first);
            for number in numbers {
                let mut course = self.migrations.courses.remove(&number).expect("just seen");
                if self.advance(number, &mut course, now, machine) {
                    self.end_course(course, now);
                } else {
                    self.migrations.courses.insert(number, course);
                }
            }
            if !self.migrations.is_stirred {
                break;
            }
        }
        self.tell_answers(now);
    }

    fn admit_courses(&mut self, now: Now) {
        let Migrations { waiting, courses, course_newest, .. } = &mut self.migrations;
        while courses.len() < LINKS_MAX
            && let Some(course) = waiting.pop_front()
        {
            *course_newest += 1;
            courses.insert(*course_newest, course);
        }
        let mut late = Vec::new();
        for _ in 0..waiting.len() {
            let mut course = waiting.pop_front().expect("counted");
            if course.since_ns.saturating_add(course.words.timeout_ns) <= now.mono_ns {
                course.lose_link(CONNECTING, false);
                late.push(course);
            } else {
                waiting.push_back(course);
            }
        }
        for course in late {
            self.end_course(course, now);
        }
    }

    /// One course goes as far as it can; true when it is over.
    fn advance(&mut self, number: u64, course: &mut Course, now: Now, machine: &mut impl Machine) -> bool {
        loop {
            let before = course.items.len();
            course.take_up();
            self.ask_lanes(number, course);
            if course.wants_link() {
                self.connect(number, course, now, machine);
            }
            if let Some(number) = course.link {
                let link =
                    self.migrations.links.get_mut(&number).expect("a course knows when its link is lost");
                if link.is_ready() {
                    course.send(link, now.unix_ms, now.mono_ns);
                }
                if let Some(outgoing) = machine.outgoing() {
                    link.pump(number, outgoing);
                }
                let is_late = course.since_ns.saturating_add(course.words.timeout_ns) <= now.mono_ns;
                if link.is_busy() && is_late {
                    self.drop_link(number, machine);
                    self.lost_link(number, course, false);
                }
            }
            self.settle(course);
            // What has ended without an answer of somebody else's makes room for the next.
            if course.items.len() >= before || course.is_over() {
                return course.is_over();
            }
        }
    }

    /// Has lanes read and delete keys.
    fn ask_lanes(&mut self, number: u64, course: &mut Course) {
        let db = course.question.from.db;
        let args = Args::Owned(&course.question.request);
        for (&index, item) in &mut course.items {
            let reads = match item.stage {
                Stage::Waits => true,
                Stage::Arrived => false,
                _ => continue,
            };
            let key = args.flat(index);
            let lane = self.map.owner_of(key).0;
            let count = self.migrations.asked_counts.entry(lane).or_default();
            if *count >= ORDERS_PER_LANE {
                continue;
            }
            if reads && !course.words.copies {
                if !item.is_held && !self.migrations.moving.insert((db, key.to_vec())) {
                    continue;
                }
                item.is_held = true;
                self.migrations.watch_newest += 1;
                item.watch = Some(self.migrations.watch_newest);
            }
            *count += 1;
            let departure = Departure { db, key: Arc::new(key.to_vec()), watch: item.watch };
            let order = if reads { Order::Read(departure) } else { Order::Delete(departure) };
            item.stage = if reads { Stage::Reading } else { Stage::Deleting };
            let ticket = self.give(lane..lane + 1, &order, None);
            self.migrations.asked.insert(ticket, (number, index));
        }
    }

    /// Lets go of what a course does not need any more.
    fn settle(&mut self, course: &mut Course) {
        for (index, watch) in std::mem::take(&mut course.unwatched) {
            let lane = self.map.owner_of(course.key(index)).0;
            self.give(lane..lane + 1, &Order::Forget(watch), None);
        }
        for index in std::mem::take(&mut course.left) {
            self.migrations.moving.remove(&(course.question.from.db, course.key(index).to_vec()));
            self.migrations.is_stirred = true;
        }
    }

    /// Finds a course a connection, or begins one.
    fn connect(&mut self, number: u64, course: &mut Course, now: Now, machine: &mut impl Machine) {
        course.since_ns = now.mono_ns;
        let Some(place) = course.words.place.clone() else { return course.lose_link(CONNECTING, false) };
        let links = &mut self.migrations.links;
        let is_fit = |link: &&mut Link| link.user.is_none() && link.place == place;
        if let Some((&link, found)) = links.iter_mut().find(|(_, link)| is_fit(link)) {
            found.begin(number, course.words.db);
            course.link = Some(link);
            return;
        }
        if links.len() >= LINKS_MAX {
            let idle = links.iter().filter(|(_, link)| link.user.is_none());
            let (&oldest, _) = idle
                .min_by_key(|(_, link)| link.used_ns)
                .expect("each course has one link at most, and this one has none");
            self.drop_link_unused(oldest, machine);
        }
        let Some(outgoing) = machine.outgoing() else { return course.lose_link(CONNECTING, false) };
        self.migrations.link_newest += 1;
        let link = self.migrations.link_newest;
        outgoing.dial(link, &place.host, place.port, Duration::from_nanos(course.words.timeout_ns));
        self.migrations.links.insert(link, Link::new(place, number, course.words.db));
        course.link = Some(link);
    }

    /// Something has happened to a connection.
    fn hear_link(&mut self, number: u64, reached: Reached, now: Now, machine: &mut impl Machine) {
        let Migrations { links, courses, .. } = &mut self.migrations;
        let Some(link) = links.get_mut(&number) else { return };
        if let Some(course) = link.user.and_then(|user| courses.get_mut(&user)) {
            course.since_ns = now.mono_ns;
        }
        match reached {
            Reached::Connected => link.open(),
            Reached::Sent(size) => link.sent(size),
            Reached::Received(bytes) => {
                link.received(&bytes);
                self.hear_said(number, machine);
            }
            Reached::Refused => {
                // Redis finds that out when it writes, and says so.
                link.open_in_vain();
                self.end_link(number, machine);
            }
            Reached::Ended => self.end_link(number, machine),
        }
    }

    /// Takes the replies that have come on a connection.
    fn hear_said(&mut self, number: u64, machine: &mut impl Machine) {
        loop {
            let Migrations { links, courses, .. } = &mut self.migrations;
            let Some(link) = links.get_mut(&number) else { return };
            let Some(said) = link.next_said() else { return };
            let course = link.user.and_then(|user| courses.get_mut(&user));
            match (said, course) {
                (Said::Yes(awaited), Some(course)) => course.hear_yes(awaited),
                (Said::No(awaited, text), Some(course)) => {
                    link.db = None;
                    course.hear_no(awaited, &text);
                    if course.is_failed() {
                        course.link = None;
                        return self.drop_link_unused(number, machine);
                    }
                }
                (Said::Nonsense, _) | (_, None) => return self.end_link(number, machine),
            }
        }
    }

    /// A connection has ended, or is of no use any more.
    fn end_link(&mut self, number: u64, machine: &mut impl Machine) {
        let user = self.migrations.links.get(&number).and_then(|link| link.user);
        let course = user.and_then(|user| self.migrations.courses.remove(&user).map(|course| (user, course)));
        self.drop_link(number, machine);
        match course {
            Some((user, mut course)) => {
                self.lost_link(number, &mut course, true);
                self.migrations.courses.insert(user, course);
            }
            None => {
                self.migrations.links.remove(&number);
            }
        }
    }

    fn drop_link(&mut self, number: u64, machine: &mut impl Machine) {
        if let Some(outgoing) = machine.outgoing() {
            outgoing.hang_up(number);
        }
    }

    fn drop_link_unused(&mut self, number: u64, machine: &mut impl Machine) {
        self.drop_link(number, machine);
        self.migrations.links.remove(&number);
    }

    /// The connection of a course is lost.
    fn lost_link(&mut self, number: u64, course: &mut Course, may_retry: bool) {
        let link = self.migrations.links.remove(&number).expect("it was the course's");
        let doing = match () {
            () if !link.is_open() => CONNECTING,
            // Redis' words.
            () if link.is_writing() => "writing to target instance",
            () => "reading to target instance",
        };
        course.lose_link(doing, may_retry && link.has_been_there());
    }

    fn end_idle_links(&mut self, now: Now, machine: &mut impl Machine) {
        let is_old = |link: &Link| link.user.is_none() && link.used_ns + LINK_IDLE_NS <= now.mono_ns;
        let links = self.migrations.links.iter().filter(|(_, link)| is_old(link));
        let old: Vec<u64> = links.map(|(&number, _)| number).collect();
        old.into_iter().for_each(|number| self.drop_link_unused(number, machine));
    }

    /// Answers the client. Another may use the connection.
    fn end_course(&mut self, course: Course, now: Now) {
        if let Some(link) = course.link.and_then(|link| self.migrations.links.get_mut(&link)) {
            (link.user, link.used_ns) = (None, now.mono_ns);
        }
        self.migrations.is_stirred = true;
        self.migrations.answers.push_back((course.asker, course.answer()));
        self.took(course.asker, &course.question, now);
    }

    /// Tells answers as far as there is room: their credit came back when the questions were put off.
    fn tell_answers(&mut self, now: Now) {
        self.migrations.retry_ns = None;
        while let Some((asker, content)) = self.migrations.answers.pop_front() {
            let head = ControlHead { target: asker.client, round: asker.slot, kind: ControlKind::Answered };
            let mut parcel = Some(Parcel::Content(Box::new(content)));
            if !self.peer(asker.lane).try_tell(head, &mut parcel) {
                let Some(Parcel::Content(content)) = parcel else { unreachable!("it was not taken") };
                self.migrations.answers.push_front((asker, *content));
                self.migrations.retry_ns = Some(now.mono_ns + RETRY_NS);
                return;
            }
        }
    }
}

/// What a MIGRATE is about to do.
pub(super) struct Migrating(Words);
