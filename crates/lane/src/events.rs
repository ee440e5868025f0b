//! Keyspace events (`notify-keyspace-events`): what happens to keys, as messages of pub/sub. docs/pubsub.md has what they say.
//!
//! ```text
//! a command runs ─▶ Keyspace::commit: its effect, and by which command ─▶ messages, if somebody may listen ─▶ the way of PUBLISH, but
//! a key goes by itself ─▶ Keyspace::hear_gone ────────────────────────┘    from the key's lane to all others, without its channel's owner
//! ```
//! So what is said of one key comes to everybody in the order in which it happened.

use std::collections::VecDeque;
use std::sync::Arc;

use store::{Effect, Expiry, Key};
use wire::command::Id;
use wire::route::Slot;

use crate::board::Board;
use crate::keyspace::Keyspace;
use crate::pubsub::{Body, Message};

/// Which events are said: the letters of `notify-keyspace-events`, as Redis has them (`keyspaceEventsStringToFlags` in notify.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u16);

/// The classes that `A` stands for: those of types that there are not here are known, and empty.
const ALL: &str = "g$lshzxetd";
/// Each letter has a bit, in this order.
const LETTERS: &str = "g$lshzxetdnKEm";

impl EventClasses {
    const GENERIC: EventClasses = EventClasses::of('g');
    const STRING: EventClasses = EventClasses::of('$');
    const EXPIRED: EventClasses = EventClasses::of('x');
    const EVICTED: EventClasses = EventClasses::of('e');
    const NEW: EventClasses = EventClasses::of('n');
    const MISS: EventClasses = EventClasses::of('m');
    /// To `__keyspace@<db>__:<key>`.
    const BY_KEY: EventClasses = EventClasses::of('K');
    /// To `__keyevent@<db>__:<event>`.
    const BY_EVENT: EventClasses = EventClasses::of('E');

    const fn of(letter: char) -> EventClasses {
        let mut bit = 0;
        while LETTERS.as_bytes()[bit] != letter as u8 {
            bit += 1;
        }
        EventClasses(1 << bit)
    }

    const fn has(self, one: EventClasses) -> bool {
        self.0 & one.0 != 0
    }

    /// Reads the letters.
    ///
    /// # Errors
    /// As Redis words it, if one of them is none.
    pub fn parse(text: &str) -> Result<EventClasses, &'static str> {
        let mut classes = 0;
        for letter in text.chars() {
            match letter {
                'A' => classes |= ALL.chars().fold(0, |all, letter| all | EventClasses::of(letter).0),
                _ if LETTERS.contains(letter) => classes |= EventClasses::of(letter).0,
                _ => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
            }
        }
        Ok(EventClasses(classes))
    }
}

/// As CONFIG GET has them.
impl std::fmt::Display for EventClasses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has = |letter: &char| self.has(EventClasses::of(*letter));
        // 7.0 leaves the `n` out behind an `A`; later versions do not.
        let (front, end) = if ALL.chars().all(|letter| has(&letter)) { ("A", "n") } else { ("", "") };
        let rest = if front.is_empty() { LETTERS } else { "KEm" };
        let text: String = rest.chars().chain(end.chars()).filter(has).collect();
        write!(f, "{front}{text}")
    }
}

/// What a command has done to a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It holds another value; with an end of its own, if that is so.
    Wrote {
        ends: bool,
    },
    Deleted,
    /// It ends at another time.
    Ends,
    /// It ends no more.
    Lasts,
}

impl Deed {
    /// What an effect comes to; none if it is no event.
    pub(crate) fn of(effect: &Effect<'_>) -> Option<Deed> {
        match effect {
            Effect::Set { expiry, .. } => Some(Deed::Wrote { ends: matches!(expiry, Expiry::At(_)) }),
            Effect::SetRange { bytes, .. } if !bytes.is_empty() => Some(Deed::Wrote { ends: false }),
            Effect::Delete { .. } => Some(Deed::Deleted),
            Effect::Expire { at: Expiry::At(_), .. } => Some(Deed::Ends),
            Effect::Expire { at: Expiry::None, .. } => Some(Deed::Lasts),
            _ => None,
        }
    }
}

/// An event that waits for the one before it.
struct Held {
    event: &'static str,
    db: u16,
    key: Vec<u8>,
}

/// The events of a lane.
pub(crate) struct Events {
    classes: EventClasses,
    board: Arc<Board>,
    /// How many databases are Redis'.
    database_count: u16,
    /// The command that runs, or that of which it is a step.
    acting: Id,
    is_step: bool,
    /// A key has come to its new name: that it has left the old one is said first.
    arrived: Option<Held>,
    ready: VecDeque<Message>,
}

impl Events {
    pub(crate) fn new(board: Arc<Board>, database_count: u16) -> Events {
        Events {
            classes: EventClasses::default(),
            board,
            database_count,
            acting: Id::Ping,
            is_step: false,
            arrived: None,
            ready: VecDeque::new(),
        }
    }

    /// Whether any event is said to anybody.
    #[inline]
    pub(crate) fn are_on(&self) -> bool {
        self.classes != EventClasses::default()
    }

    /// Whether there are some that are not on their way.
    pub(crate) fn are_ready(&self) -> bool {
        !self.ready.is_empty() || self.arrived.is_some()
    }

    /// How many are not on their way.
    pub(crate) fn count(&mut self) -> usize {
        self.say_arrived();
        self.ready.len()
    }

    /// What was said behind the first `count` was said too early, if it is true at all.
    pub(crate) fn take_back(&mut self, count: usize) -> VecDeque<Message> {
        self.ready.split_off(count)
    }

    /// It is true.
    pub(crate) fn say_again(&mut self, messages: VecDeque<Message>) {
        self.ready.extend(messages);
    }

    /// A command runs, or a step of it: what that looks at is not said.
    #[inline]
    pub(crate) fn begin(&mut self, acting: Id, is_step: bool) {
        (self.acting, self.is_step) = (acting, is_step);
    }

    /// A command has done something to a key of one of Redis' databases. `existed`: there was one before.
    pub(crate) fn note(&mut self, deed: Deed, key: &Key<'_>, existed: bool) {
        use EventClasses as Class;
        let acting = self.acting;
        let moves = matches!(acting, Id::Rename | Id::Renamenx | Id::Move);
        if !(moves && deed == Deed::Deleted) {
            self.say_arrived();
        }
        match deed {
            Deed::Wrote { ends } => {
                let is_put = moves || matches!(acting, Id::Copy | Id::Restore | Id::RestoreAsking);
                if !existed || is_put {
                    self.say(Class::NEW, "new", key.db, key.bytes);
                }
                let (class, event) = match acting {
                    Id::Rename | Id::Renamenx | Id::Move => {
                        let event = if acting == Id::Move { "move_to" } else { "rename_to" };
                        self.arrived = Some(Held { event, db: key.db, key: key.bytes.to_vec() });
                        return;
                    }
                    // It has several, or none that counts, and says itself what it has come to.
                    Id::Bitfield => return,
                    Id::Setbit => (Class::STRING, "setbit"),
                    Id::Append => (Class::STRING, "append"),
                    Id::Setrange => (Class::STRING, "setrange"),
                    Id::Incr | Id::Decr | Id::Incrby | Id::Decrby => (Class::STRING, "incrby"),
                    Id::Incrbyfloat => (Class::STRING, "incrbyfloat"),
                    Id::Copy => (Class::GENERIC, "copy_to"),
                    Id::Restore | Id::RestoreAsking => (Class::GENERIC, "restore"),
                    _ => (Class::STRING, "set"),
                };
                self.say(class, event, key.db, key.bytes);
                if ends && matches!(acting, Id::Set | Id::Setex | Id::Psetex) {
                    self.say(Class::GENERIC, "expire", key.db, key.bytes);
                }
            }
            Deed::Deleted => {
                let event = match acting {
                    Id::Rename | Id::Renamenx => "rename_from",
                    Id::Move => "move_from",
                    _ => "del",
                };
                self.say(Class::GENERIC, event, key.db, key.bytes);
                self.say_arrived();
            }
            Deed::Ends => self.say(Class::GENERIC, "expire", key.db, key.bytes),
            Deed::Lasts => self.say(Class::GENERIC, "persist", key.db, key.bytes),
        }
    }

    /// BITFIELD has changed a string.
    pub(crate) fn note_fields(&mut self, key: &Key<'_>) {
        self.say_arrived();
        self.say(EventClasses::STRING, "setbit", key.db, key.bytes);
    }

    /// A command has looked for a key that is not there.
    #[inline]
    pub(crate) fn note_missed(&mut self, key: &Key<'_>) {
        if self.are_on() {
            self.say_missed(key);
        }
    }

    #[cold]
    fn say_missed(&mut self, key: &Key<'_>) {
        // OBJECT only inspects, as in Redis.
        let acting = self.acting;
        let inspects =
            matches!(acting, Id::ObjectEncoding | Id::ObjectFreq | Id::ObjectIdletime | Id::ObjectRefcount);
        if !inspects && !self.is_step && key.db < self.database_count {
            self.say_arrived();
            self.say(EventClasses::MISS, "keymiss", key.db, key.bytes);
        }
    }

    /// A key has gone by itself: its time had come, or there was no room for it.
    pub(crate) fn note_gone(&mut self, db: u16, key: &[u8], is_evicted: bool) {
        self.say_arrived();
        match is_evicted {
            true => self.say(EventClasses::EVICTED, "evicted", db, key),
            false => self.say(EventClasses::EXPIRED, "expired", db, key),
        }
    }

    fn say_arrived(&mut self) {
        if let Some(Held { event, db, key }) = self.arrived.take() {
            self.say(EventClasses::GENERIC, event, db, &key);
        }
    }

    fn say(&mut self, class: EventClasses, event: &str, db: u16, key: &[u8]) {
        if !self.classes.has(class) {
            return;
        }
        if self.classes.has(EventClasses::BY_KEY) {
            self.publish([format!("__keyspace@{db}__:").as_bytes(), key].concat(), event.as_bytes());
        }
        if self.classes.has(EventClasses::BY_EVENT) {
            self.publish(format!("__keyevent@{db}__:{event}").into_bytes(), key);
        }
    }

    fn publish(&mut self, channel: Vec<u8>, body: &[u8]) {
        let slot = Slot::of(&channel);
        if !(0..self.board.lane_count()).any(|lane| self.board.listens(lane, slot, false)) {
            return;
        }
        let body = Body::Flat(Arc::new(body.to_vec()));
        self.ready.push_back(Message { channel, slot, is_sharded: false, of_lane: None, body });
    }
}

impl Keyspace {
    /// Which events are said from now on.
    pub(crate) fn set_events(&mut self, classes: EventClasses) {
        // Without one of the two there is no channel.
        let has_channel = classes.has(EventClasses::BY_KEY) || classes.has(EventClasses::BY_EVENT);
        self.events.classes = if has_channel { classes } else { EventClasses::default() };
        self.listen_to_all();
    }

    /// What has happened, for those who listen.
    pub(crate) fn take_events(&mut self) -> impl Iterator<Item = Message> + '_ {
        self.hear_gone();
        self.events.say_arrived();
        self.events.ready.drain(..)
    }
}
