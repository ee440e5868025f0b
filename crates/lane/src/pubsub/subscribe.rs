//! SUBSCRIBE and its like: a client of this lane subscribes to names and ends subscriptions, so many a slice.

use std::sync::Arc;

use wire::command::{COMMANDS, Command, Id};
use wire::glob::{self, Case, STANDING_PATTERN_SIZE_MAX};
use wire::reply::{self, Proto, Put};
use wire::route::Slot;

use store::Budget;

use super::{Kind, Name, PATTERN_TOO_LONG, PubSub};
use crate::SLICE;
use crate::acl::{Context, Denial, User, Vetting, is_vetted_later};
use crate::admin::Portrait;
use crate::board::Board;
use crate::client::{Client, Port};
use crate::core::{Core, Delivery};
use crate::dispatch::{CROSSSLOT, Caller, Flow, Input};
use crate::part::{NAMES_PER_STEP, Origin};
use crate::replies::{Content, Sink};
use crate::request::{Args, Request};
use crate::slab::{Handle, Slab};

/// Looks at bytes of names for a pattern that the control thread asks with, in a turn; give or take the last name.
const LOOKS_PER_STEP: usize = 64 * 1024;

/// What the control thread asks about subscribers.
#[derive(Clone, Debug)]
pub(crate) enum Query {
    /// The names of a kind that somebody subscribes to, those that match a pattern.
    Names(Kind, Option<Box<[u8]>>),
    /// How many subscribe to each of these.
    Counts(Kind, Vec<Vec<u8>>),
}

/// What a lane has found, as far as it has come.
#[derive(Default)]
pub(crate) struct Found {
    /// In their order.
    pub(crate) names: Vec<Name>,
    /// The last name that was looked at.
    last: Option<Name>,
    pub(crate) counts: Vec<u64>,
}

/// Whether a client subscribes to something with it, or ends that. Such a command has no reply: what it says are messages, and they are heard
/// whatever CLIENT REPLY says.
pub(crate) fn subscribes(command: &Command) -> bool {
    verb(command.id).is_some()
}

/// Whether a client may not say this because it subscribes to something in RESP2, where nothing tells messages from replies.
pub(crate) fn is_refused_to_subscriber(client: &Client, command: &Command) -> bool {
    let is_for_subscribers = subscribes(command) || matches!(command.id, Id::Ping | Id::Quit | Id::Reset);
    client.is_subscribed && client.proto == Proto::Resp2 && !is_for_subscribers
}

/// How it is called, what it is about, and whether it begins.
fn verb(id: Id) -> Option<(&'static [u8], Kind, bool)> {
    Some(match id {
        Id::Subscribe => (b"subscribe", Kind::Channel, true),
        Id::Unsubscribe => (b"unsubscribe", Kind::Channel, false),
        Id::Psubscribe => (b"psubscribe", Kind::Pattern, true),
        Id::Punsubscribe => (b"punsubscribe", Kind::Pattern, false),
        Id::Ssubscribe => (b"ssubscribe", Kind::Shard, true),
        Id::Sunsubscribe => (b"sunsubscribe", Kind::Shard, false),
        _ => return None,
    })
}

/// A command that is not over, and how far it has come.
pub(crate) struct Task {
    client: Handle<Client>,
    origin: Origin,
    id: Id,
    request: Request,
    proto: Proto,
    /// The next of its names. Without any it is about all that the client subscribes, and this says whether there was one.
    at: usize,
    /// On a lane's own port, names are of one slot: that of the first, and the next to look at.
    slot: Option<(Slot, usize)>,
    /// Whether the client's user, as it was when this began, may hear all of them is looked at before the first.
    vetting: Option<Box<(Arc<User>, Vetting)>>,
    content: Content,
}

/// The lane's side of it.
struct Side<'a> {
    pubsub: &'a mut PubSub,
    board: &'a Board,
    lane: u16,
}

impl Task {
    pub(crate) fn new(
        client: Handle<Client>,
        origin: Origin,
        id: Id,
        request: Request,
        proto: Proto,
        port: Port,
    ) -> Task {
        let is_bound = port == Port::Lane && matches!(id, Id::Ssubscribe | Id::Sunsubscribe);
        let slot = (is_bound && request.len() > NAMES_PER_STEP)
            .then(|| (Slot::of(Args::Owned(&request).flat(1)), 1));
        Task { client, origin, id, request, proto, at: 1, slot, vetting: None, content: Content::default() }
    }

    /// Whether all names are of one slot, as far as the budget goes; none while there are more.
    fn is_of_one_slot(&mut self, budget: &mut Budget) -> Option<bool> {
        let args = Args::Owned(&self.request);
        let Some((slot, at)) = &mut self.slot else { return Some(true) };
        while *at < args.len() {
            if budget.is_spent() {
                return None;
            }
            budget.spend(1, args.flat(*at).len());
            if Slot::of(args.flat(*at)) != *slot {
                return Some(false);
            }
            *at += 1;
        }
        Some(true)
    }
}

impl Core {
    /// The same at once, as far as a slice goes.
    pub(super) fn subscribe(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        let (args, proto) = (input.args(), caller.client.proto);
        let is_bound = caller.client.port == Port::Lane && command.keys.first > 0;
        let mut at = 1;
        let is_long = is_vetted_later(command, args.len()) && self.may_deny(caller.client);
        let user = self.settings.users.of(caller.client.user).filter(|_| is_long).cloned();
        if user.is_none() && (!is_bound || args.len() <= NAMES_PER_STEP) {
            // What a client subscribes to is changed while its sink is borrowed from it, so confirmations are written to the side first.
            let mut bytes = std::mem::take(&mut self.scratch);
            bytes.clear();
            let side = Side { pubsub: &mut self.pubsub, board: &self.board, lane: self.id };
            let (client, handle) = (&mut *caller.client, caller.handle.to_bits());
            let is_over =
                step(side, client, handle, command.id, args, proto, &mut at, &mut bytes, &mut SLICE.clone());
            caller.sink().put(&bytes);
            self.scratch = bytes;
            if is_over {
                if let Input::Owned(request) = input {
                    self.space.discard(std::mem::take(request));
                }
                return Flow::Next;
            }
        }
        let port = caller.client.port;
        let (client, origin) = (caller.handle, caller.open());
        let mut task = Task::new(client, origin, command.id, input.take_request(), proto, port);
        task.at = at;
        task.vetting = user.map(|user| Box::new((user, Vetting::default())));
        caller.client.holds_messages = true;
        self.pubsub.tasks.push_back(task);
        Flow::Block
    }

    /// Goes on with the first of those that name many.
    pub(super) fn go_on_subscribing(&mut self, clients: &mut Slab<Client>, budget: &mut Budget) {
        while !budget.is_spent()
            && let Some(mut task) = self.pubsub.tasks.pop_front()
        {
            let Some(client) = clients.get_mut(task.client) else {
                // Nobody hears it, but its transaction goes on to its end.
                self.end_task(task, false);
                continue;
            };
            client.holds_messages = true;
            match self.may_subscribe(&mut task, client, budget) {
                None => return self.pubsub.tasks.push_front(task),
                Some(false) => {
                    self.end_task(task, client.is_subscribed);
                    continue;
                }
                Some(true) => {}
            }
            match task.is_of_one_slot(budget) {
                None => return self.pubsub.tasks.push_front(task),
                Some(false) => reply::error(&mut task.content, CROSSSLOT),
                Some(true) => {
                    let side = Side { pubsub: &mut self.pubsub, board: &self.board, lane: self.id };
                    let (handle, args) = (task.client.to_bits(), Args::Owned(&task.request));
                    let mut sink = Sink::Part(&mut task.content);
                    let (id, proto) = (task.id, task.proto);
                    if !step(side, client, handle, id, args, proto, &mut task.at, &mut sink, budget) {
                        return self.pubsub.tasks.push_front(task);
                    }
                }
            }
            self.clients_size = client.weigh(self.clients_size);
            let is_subscribed = client.is_subscribed;
            self.end_task(task, is_subscribed);
        }
    }

    /// Whether a client may hear all that it names, as far as the budget goes; none while there are more. If not it is told so.
    fn may_subscribe(&mut self, task: &mut Task, client: &Client, budget: &mut Budget) -> Option<bool> {
        let Some((user, vetting)) = task.vetting.as_deref_mut() else { return Some(true) };
        let (command, args) = (&COMMANDS[task.id as usize], Args::Owned(&task.request));
        let verdict = vetting.go_on(user, command, args, budget)?;
        let (user, _) = *task.vetting.take().expect("just used");
        let Err(denied) = verdict else { return Some(true) };
        let from = Portrait::of(client, self.id, (0, 0));
        self.tell_denial(Denial::new(denied, Context::Toplevel, &user, command, args, from));
        reply::error(&mut task.content, &denied.text(command));
        Some(false)
    }

    fn end_task(&mut self, task: Task, is_subscribed: bool) {
        let Task { origin, request, content, .. } = task;
        self.space.discard(request);
        match origin {
            Origin::Client { client, slot } => {
                let (db, watching, stand_in) = (None, None, None);
                self.deliveries.push(Delivery { client, slot, content, db, watching, stand_in });
            }
            Origin::Transaction { transaction, .. } => {
                let handle = Handle::from_bits(transaction);
                self.transaction(handle).note_subscribed(is_subscribed);
                self.hear_answer(handle, content);
            }
            Origin::Ask { .. } | Origin::Control { .. } => {
                unreachable!("a client subscribes on its own lane")
            }
        }
    }

    /// Lets go of what clients have left behind, so many names or an eighth of them if that is more, up to eight times as many.
    pub(super) fn go_on_leaving(&mut self, count: usize) {
        let mut left = (self.pubsub.leaving_count / 8).clamp(count, 8 * count);
        while let Some((client, subscriptions)) = self.pubsub.leaving.front_mut() {
            for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
                while let Some(name) = subscriptions.first(kind).cloned() {
                    if left == 0 {
                        return;
                    }
                    left -= 1;
                    self.pubsub.leaving_count -= 1;
                    let at = (&*self.board, self.id);
                    self.pubsub.subscribers.remove(kind, &name, *client, subscriptions, at);
                }
            }
            self.pubsub.leaving.pop_front();
        }
    }

    /// Goes on with what the control thread asks, some names a turn; true when all are there.
    pub(crate) fn survey(&self, query: &Query, found: &mut Found) -> bool {
        let subscribers = &self.pubsub.subscribers;
        match query {
            Query::Names(kind, pattern) => {
                let last = found.last.take();
                let (mut count, mut looks) = (0, 0);
                for name in subscribers.names(*kind, last.as_deref()) {
                    let fits = pattern.as_ref().is_none_or(|pattern| {
                        let (fits, cost) = glob::matches_at_cost(pattern, name, Case::Exact);
                        looks += cost;
                        fits
                    });
                    if fits {
                        found.names.push(Name::clone(name));
                    }
                    count += 1;
                    if count == NAMES_PER_STEP || looks >= LOOKS_PER_STEP {
                        found.last = Some(Name::clone(name));
                        return false;
                    }
                }
                true
            }
            Query::Counts(kind, names) => {
                let next = names.iter().skip(found.counts.len()).take(NAMES_PER_STEP);
                found.counts.extend(next.map(|name| subscribers.count_of(*kind, name) as u64));
                found.counts.len() == names.len()
            }
        }
    }
}

/// Goes on with a command as far as the budget goes, from the name at `at`; true when it is over.
#[expect(clippy::too_many_arguments, reason = "called with a view of a command and with one that is owned")]
fn step(
    side: Side<'_>,
    client: &mut Client,
    handle: u64,
    id: Id,
    args: Args<'_>,
    proto: Proto,
    at: &mut usize,
    out: &mut impl Put,
    budget: &mut Budget,
) -> bool {
    let (verb, kind, begins) = verb(id).expect("asked of those that have one");
    let Side { pubsub, board, lane } = side;
    let subscribers = &mut pubsub.subscribers;
    let is_for_all = args.len() == 1;
    let mut is_over = false;
    loop {
        if is_over || !is_for_all && *at == args.len() {
            break;
        }
        if budget.is_spent() {
            return false;
        }
        let first;
        let name = if is_for_all {
            first =
                client.subscriptions.as_ref().and_then(|subscriptions| subscriptions.first(kind)).cloned();
            match &first {
                Some(name) => Some(&**name),
                None => {
                    is_over = true;
                    if *at > 1 {
                        continue;
                    }
                    None
                }
            }
        } else {
            Some(args.flat(*at))
        };
        *at += 1;
        budget.spend(1, name.map_or(0, <[u8]>::len));
        if begins && kind == Kind::Pattern && name.is_some_and(|name| name.len() > STANDING_PATTERN_SIZE_MAX)
        {
            reply::error(out, PATTERN_TOO_LONG);
            break;
        }
        if begins {
            let subscriptions = client.subscriptions.get_or_insert_with(|| Box::new(subscribers.begin()));
            let name = name.expect("who begins names something");
            subscribers.add(kind, name, handle, subscriptions, (board, lane));
        } else if let (Some(name), Some(subscriptions)) = (name, &mut client.subscriptions) {
            subscribers.remove(kind, name, handle, subscriptions, (board, lane));
        }
        client.subscriptions.take_if(|subscriptions| subscriptions.is_empty());
        client.is_subscribed = client.subscriptions.is_some();
        let [channels, patterns, shards] = client.subscriptions.as_ref().map_or([0; 3], |it| it.counts());
        let count = if kind == Kind::Shard { shards } else { channels + patterns };
        reply::push(out, proto, 3);
        reply::bulk(out, verb);
        match name {
            Some(name) => reply::bulk(out, name),
            None => reply::null(out, proto),
        }
        reply::integer(out, i64::try_from(count).expect("names are fewer than 2^63"));
    }
    true
}
