//! Pub/sub: messages to whoever listens. docs/pubsub.md is the lecture.
//!
//! ```text
//! PUBLISH ─▶ the lane that owns the channel's slot ─▶ each lane that the board says may have subscribers ─▶ its clients
//!            gives messages their order                finds its own, and says how many they were
//! ```
//! Who subscribes to what only the lane of a client knows (`subscribers`); the board has a bit for each of some thousand sets of channels,
//! so that a message goes where it may be wanted. What goes between lanes goes by the control rings, whose frames
//! nobody's locks hold up: a transaction may wait for a message with its locks held. Nobody waits for those who listen.

use std::collections::VecDeque;
use std::sync::Arc;

use wire::command::{Command, Id};
use wire::reply;

use crate::client::Client;
use crate::core::{Core, Delivery};
use crate::dispatch::{Caller, Flow, Input, SLOTS_MAX, halt};
use crate::part::Origin;
use crate::peers::{AnswerHead, AnswerKind, AnswerSize, AskHead, AskKind, ControlHead, ControlKind, Parcel};
use crate::replies::Content;
use crate::request::{Args, Request};
use crate::slab::{Handle, Slab};
use crate::transaction::Transaction;

mod message;
mod spread;
mod subscribe;
mod subscribers;

pub(crate) use message::{Body, Message};
use spread::Spreading;
use subscribe::Task;
pub(crate) use subscribe::{Found, Query, is_refused_to_subscriber, subscribes};
use subscribers::Subscribers;
pub(crate) use subscribers::{KIND_COUNT, Kind, Name, Subscriptions};

/// Messages that one lane may have sent another (or itself) that are not handed out there: with more, publishers wait.
const WINDOW_COUNT_MAX: usize = 32;
/// Their bytes together, but that one may always be under way.
const WINDOW_SIZE_MAX: usize = 4 * 1024 * 1024;
/// Messages of a lane's own clients that may wait for such a window: with more, the next PUBLISH is not taken up. Those of other lanes'
/// clients are bounded by the credit of their asks.
const WAITING_MAX: usize = 64;

pub(crate) const CHANNEL_TOO_LONG: &str = "ERR channel is longer than 32768 bytes";
pub(crate) const PATTERN_TOO_LONG: &str = "ERR pattern is longer than 1024 bytes";

/// Messages about keys that may wait for such a window, and their bytes: with more, nothing is begun that may make more of them.
const EVENTS_WAITING_MAX: usize = 512;
const EVENTS_SIZE_MAX: usize = 4 * 1024 * 1024;

/// A message that is not on its way yet, and who waits for it; nobody for what is said of keys.
struct Waiting {
    message: Arc<Message>,
    origin: Option<Origin>,
}

/// A message that lanes have been sent.
struct UnderWay {
    origin: Option<Origin>,
    size: usize,
    awaited: usize,
    receiver_count: u64,
}

/// What is under way to a lane.
#[derive(Clone, Copy, Default)]
struct Window {
    count: usize,
    size: usize,
}

impl Window {
    fn has_room(self, size: usize) -> bool {
        self.count == 0 || self.count < WINDOW_COUNT_MAX && self.size + size <= WINDOW_SIZE_MAX
    }
}

/// What a lane has to do with messages.
#[derive(Default)]
pub(crate) struct PubSub {
    pub(crate) subscribers: Subscribers,
    /// Messages of channels that are this lane's, in their order.
    waiting: VecDeque<Waiting>,
    /// How many of them are of clients of this lane.
    waiting_here: usize,
    /// Those that are about keys.
    events: Window,
    under_way: Slab<UnderWay>,
    /// By lane.
    windows: Vec<Window>,
    /// Where the message at hand goes; used again.
    targets: Vec<u16>,
    /// Messages of transactions for other lanes' channels, for which there was no room.
    unsent: VecDeque<(u16, u64, Arc<Message>)>,
    /// Messages to be handed to this lane's clients.
    spreading: VecDeque<Spreading>,
    /// Commands that name many channels.
    tasks: VecDeque<Task>,
    /// What clients subscribed to that have gone, or have said RESET.
    leaving: VecDeque<(u64, Box<Subscriptions>)>,
    /// Names of those.
    leaving_count: usize,
}

impl PubSub {
    /// Whether a turn has something to do for it.
    pub(crate) fn has_work(&self) -> bool {
        // A message that waits while others are under way goes on with the word that those have come.
        !self.spreading.is_empty()
            || !self.tasks.is_empty()
            || !self.leaving.is_empty()
            || !self.unsent.is_empty()
            || !self.waiting.is_empty() && self.under_way.is_empty()
    }

    /// Whether so much waits to be said of keys that what may change more of them has to wait.
    pub(crate) fn is_late(&self) -> bool {
        EVENTS_WAITING_MAX <= self.events.count || EVENTS_SIZE_MAX <= self.events.size
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_work() && self.waiting.is_empty() && self.under_way.is_empty()
    }

    /// Asserts that nobody is left who subscribes to anything, and no credit is out.
    pub(crate) fn audit(&self) {
        assert!(self.subscribers.is_empty(), "nobody subscribes to who has gone");
        assert!(self.windows.iter().all(|window| window.count == 0), "what was handed out is not under way");
    }
}

/// Whether it sends a message.
pub(crate) fn publishes(command: &Command) -> bool {
    matches!(command.id, Id::Publish | Id::Spublish)
}

impl Core {
    /// A command of pub/sub.
    pub(crate) fn dispatch_pubsub(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        if publishes(command) {
            return self.dispatch_publish(caller, command, input);
        }
        if !caller.client.is_even() {
            return halt(input);
        }
        if has_long_name(&input.args()) {
            return caller.refuse(CHANNEL_TOO_LONG);
        }
        if let Some(text) = self.stray(caller.client, command, &input.args()) {
            return caller.refuse(&text);
        }
        self.subscribe(caller, command, input)
    }

    /// PUBLISH or SPUBLISH. Those of one client for channels of one lane may be under way together: they keep their order there. One that may
    /// get its own messages has each of them before its reply.
    fn dispatch_publish(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        if let Some(text) = self.stray(caller.client, command, &input.args()) {
            return caller.refuse(&text);
        }
        let Some(channel) = input.args().get(1).flat() else { return caller.refuse(CHANNEL_TOO_LONG) };
        let slot = wire::route::Slot::of(channel);
        let owner = self.map.owner(slot).0;
        let is_in_a_row = caller.client.last.is_some_and(publishes)
            && caller.client.published_to == owner
            && !caller.client.is_subscribed;
        let is_full = caller.client.replies.slot_count() >= SLOTS_MAX;
        if is_full || !caller.client.is_even() && !is_in_a_row {
            return halt(input);
        }
        let is_sharded = command.id == Id::Spublish;
        if !(0..self.lane_count).any(|lane| self.board.listens(lane, slot, is_sharded)) {
            if self.space.feed.is_some()
                && let Some(message) = Message::of(input.args(), is_sharded)
            {
                self.space.feed_message(&message);
            }
            reply::integer(&mut caller.sink(), 0);
            return Flow::Next;
        }
        if owner == self.id {
            if self.pubsub.waiting_here >= WAITING_MAX {
                return halt(input);
            }
            let message = Message::of(input.args(), is_sharded).expect("the name was looked at");
            if let Input::Owned(request) = input {
                self.space.discard(std::mem::take(request));
            }
            let origin = caller.open();
            self.publish(Arc::new(message), origin);
        } else {
            let peer = self.peer(owner);
            let charge = peer.charge(AnswerSize::Short);
            if !peer.can_ask(0, 0, charge) {
                return halt(input);
            }
            let head = AskHead {
                client: caller.handle.to_bits(),
                slot: caller.client.replies.open(),
                charge,
                db: caller.client.db,
                id: u16::from(command.id as u8),
                key_slot: slot.number(),
                proto: 0,
                kind: AskKind::Publish,
            };
            peer.publish_at(head, input.take_request());
            self.stats.dialects[caller.client.dialect as usize].forwarded += 1;
        }
        caller.client.published_to = owner;
        Flow::Next
    }

    /// A message of another lane's client, for a channel of this lane.
    pub(crate) fn publish_for(&mut self, lane: u16, head: &AskHead, request: Request) {
        self.stats.asks_served += 1;
        let is_sharded = head.id == u16::from(Id::Spublish as u8);
        let message =
            Message::of(Args::Owned(&request), is_sharded).expect("the asker has looked at the name");
        self.space.discard(request);
        let origin = Origin::Ask { lane, client: head.client, slot: head.slot, charge: head.charge };
        self.publish(Arc::new(message), origin);
    }

    /// What a transaction says or asks for: a command of its MULTI or its script. The answer comes as that of the control thread does.
    pub(crate) fn begin_pubsub(&mut self, handle: Handle<Transaction>) {
        let transaction = self.transaction(handle);
        let (command, request, proto) = transaction.take_asked();
        let (client, port) = (transaction.client(), transaction.port);
        let mut refusal = None;
        let args = Args::Owned(&request);
        if publishes(command) {
            match Message::of(args, command.id == Id::Spublish) {
                Some(message) => self.publish_of(handle, Arc::new(message)),
                None => refusal = Some(CHANNEL_TOO_LONG),
            }
            self.space.discard(request);
        } else if command.id == Id::Ssubscribe {
            self.space.discard(request);
            refusal = Some("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
        } else if has_long_name(&args) {
            self.space.discard(request);
            refusal = Some(CHANNEL_TOO_LONG);
        } else {
            let client = client.expect("scripts subscribe to nothing");
            let origin = Origin::Transaction { lane: self.id, transaction: handle.to_bits() };
            self.pubsub.tasks.push_back(Task::new(client, origin, command.id, request, proto, port));
        }
        if let Some(text) = refusal {
            let mut content = Content::default();
            reply::error(&mut content, text);
            self.hear_answer(handle, content);
        }
    }

    fn publish_of(&mut self, handle: Handle<Transaction>, message: Arc<Message>) {
        let owner = self.map.owner(message.slot).0;
        if owner == self.id {
            let origin = Origin::Transaction { lane: self.id, transaction: handle.to_bits() };
            self.publish(message, origin);
        } else {
            self.pubsub.unsent.push_back((owner, handle.to_bits(), message));
            self.send_unsent();
        }
    }

    fn send_unsent(&mut self) {
        while let Some((owner, transaction, message)) = self.pubsub.unsent.pop_front() {
            let head = ControlHead { target: transaction, round: 0, kind: ControlKind::Publish };
            let mut parcel = Some(Parcel::Message(message));
            if self.peer(owner).try_tell(head, &mut parcel) {
                continue;
            }
            if let Some(Parcel::Message(message)) = parcel {
                self.pubsub.unsent.push_front((owner, transaction, message));
            }
            return;
        }
    }

    /// A message for a channel of this lane takes its place among the others.
    pub(crate) fn publish(&mut self, message: Arc<Message>, origin: Origin) {
        // What was said of keys before it is before it.
        self.publish_events();
        self.space.feed_message(&message);
        self.pubsub.waiting_here += usize::from(matches!(origin, Origin::Client { .. }));
        self.pubsub.waiting.push_back(Waiting { message, origin: Some(origin) });
        self.send_waiting();
    }

    /// What has happened to keys takes its place among the messages of this lane. Replicas see for themselves.
    pub(crate) fn publish_events(&mut self) {
        if !self.space.events.are_on() && !self.space.events.are_ready() {
            return;
        }
        for mut message in self.space.take_events() {
            message.of_lane = Some(self.id);
            self.pubsub.events.count += 1;
            self.pubsub.events.size += message.size();
            self.pubsub.waiting.push_back(Waiting { message: Arc::new(message), origin: None });
        }
        self.send_waiting();
    }

    /// Sends messages to lanes as long as there is room for the next at all that may want it: all or none, so that everywhere they
    /// come in one order.
    fn send_waiting(&mut self) {
        while let Some(Waiting { message, .. }) = self.pubsub.waiting.front() {
            let size = message.size();
            let mut targets = std::mem::take(&mut self.pubsub.targets);
            targets.clear();
            let listens = |lane: &u16| self.board.listens(*lane, message.slot, message.is_sharded);
            targets.extend((0..self.lane_count).filter(listens));
            self.pubsub.windows.resize(usize::from(self.lane_count), Window::default());
            let has_room = targets.iter().all(|&lane| {
                let has_room = self.pubsub.windows[usize::from(lane)].has_room(size);
                has_room && (lane == self.id || self.peer(lane).can_tell())
            });
            if has_room {
                let Waiting { message, origin } = self.pubsub.waiting.pop_front().expect("just looked at");
                self.pubsub.waiting_here -= usize::from(matches!(origin, Some(Origin::Client { .. })));
                if message.of_lane.is_some() {
                    self.pubsub.events.count -= 1;
                    self.pubsub.events.size -= size;
                }
                self.send(message, origin, &targets);
            }
            self.pubsub.targets = targets;
            if !has_room {
                return;
            }
        }
    }

    fn send(&mut self, message: Arc<Message>, origin: Option<Origin>, targets: &[u16]) {
        if targets.is_empty() {
            self.forget_message(message);
            return self.published(origin, 0);
        }
        let size = message.size();
        let way = UnderWay { origin, size, awaited: targets.len(), receiver_count: 0 };
        let ticket = self.pubsub.under_way.insert(way).to_bits();
        for &lane in targets {
            let window = &mut self.pubsub.windows[usize::from(lane)];
            window.count += 1;
            window.size += size;
            if lane == self.id {
                self.pubsub.spreading.push_back(Spreading::new(Arc::clone(&message), lane, ticket));
            } else {
                let head = ControlHead { target: ticket, round: 0, kind: ControlKind::Message };
                let parcel = Some(Parcel::Message(Arc::clone(&message)));
                let is_told = self.peer(lane).try_tell(head, &mut { parcel });
                assert!(is_told, "room was looked for");
            }
        }
        self.forget_message(message);
    }

    /// A message for this lane's clients.
    pub(crate) fn hear_message(&mut self, lane: u16, ticket: u64, message: Arc<Message>) {
        self.pubsub.spreading.push_back(Spreading::new(message, lane, ticket));
    }

    /// A lane has handed a message out, to so many.
    pub(crate) fn hear_receivers(&mut self, lane: u16, ticket: u64, count: u64) {
        let handle = Handle::from_bits(ticket);
        let way = self.pubsub.under_way.get_mut(handle).expect("a message is under way until all have it");
        way.awaited -= 1;
        way.receiver_count += count;
        let window = &mut self.pubsub.windows[usize::from(lane)];
        window.count -= 1;
        window.size -= way.size;
        if way.awaited == 0 {
            let way = self.pubsub.under_way.remove(handle).expect("just seen");
            self.published(way.origin, way.receiver_count);
        }
        self.send_waiting();
    }

    /// A message is with all who get it: whoever has sent it hears how many those are.
    fn published(&mut self, origin: Option<Origin>, count: u64) {
        let Some(origin) = origin else { return };
        let mut content = Content::default();
        reply::integer(&mut content, i64::try_from(count).expect("clients are fewer than 2^63"));
        match origin {
            Origin::Client { client, slot } => {
                let (db, watching, stand_in) = (None, None, None);
                self.deliveries.push(Delivery { client, slot, content, db, watching, stand_in });
            }
            Origin::Ask { lane, client, slot, charge } => {
                let head = AnswerHead { target: client, slot, charge, kind: AnswerKind::Inline };
                self.peer(lane).answer_with(head, content);
            }
            Origin::Transaction { lane, transaction } if lane == self.id => {
                self.hear_answer(Handle::from_bits(transaction), content);
            }
            Origin::Transaction { lane, transaction } => {
                let round = u32::try_from(count).unwrap_or(u32::MAX);
                self.tell_soon(
                    lane,
                    ControlHead { target: transaction, round, kind: ControlKind::Published },
                );
            }
            Origin::Control { .. } => unreachable!("the control thread publishes nothing"),
        }
    }

    /// A transaction's message is with all who get it.
    pub(crate) fn hear_published(&mut self, transaction: u64, count: u32) {
        let mut content = Content::default();
        reply::integer(&mut content, i64::from(count));
        self.hear_answer(Handle::from_bits(transaction), content);
    }

    fn tell_soon(&mut self, lane: u16, head: ControlHead) {
        self.untold.push_back((lane, head));
        self.tell_untold();
    }

    /// Lets go of a message. Who is last frees what is long of it, in paced steps.
    fn forget_message(&mut self, message: Arc<Message>) {
        if let Some(Message { body: Body::Rope(rope), .. }) = Arc::into_inner(message) {
            self.space.shard.retire(rope);
        }
    }

    /// A client has no subscription any more: it has gone, or has said RESET.
    pub(crate) fn end_subscriptions(&mut self, client: &mut Client, handle: Handle<Client>) {
        client.is_subscribed = false;
        if let Some(subscriptions) = client.subscriptions.take() {
            self.pubsub.leaving_count += subscriptions.counts().iter().sum::<usize>();
            self.pubsub.leaving.push_back((handle.to_bits(), subscriptions));
        }
    }
}

/// Whether one of the names is too long for one.
fn has_long_name(args: &Args<'_>) -> bool {
    match args {
        Args::Owned(request) => request.ropes().next().is_some(),
        _ => false,
    }
}
