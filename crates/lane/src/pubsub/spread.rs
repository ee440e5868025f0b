//! A message goes to this lane's clients: first to those who subscribe to its channel, then by pattern after pattern. However many they are,
//! so many a turn get it, and the next message waits its turn.

use std::sync::Arc;

use net::{Net, Output};
use store::Budget;
use wire::glob::{self, Case};
use wire::reply::Proto;

use super::subscribers::Subscriber;
use super::{Kind, Message, Name};
use crate::client::{Client, Port};
use crate::peers::{ControlHead, ControlKind};
use crate::slab::{Handle, Slab};
use crate::turn::Lane;

/// Names that clients begin or end to subscribe to in a turn, and their bytes. Each is in two trees, and becomes a message.
const NAMED_PER_TURN: Budget = Budget::new(128, 64 * 1024);
/// Patterns looked at in a turn, and clients that get a message; bytes of the messages, for each client anew.
const HANDED_PER_TURN: Budget = Budget::new(1024, 256 * 1024);
/// What a client that gets a message takes of the former: the turn ends with a send to it.
const HANDING: usize = 8;
/// What a look at a byte for a pattern takes of the latter.
const LOOK_SIZE: usize = 4;

/// A message on its way to this lane's clients.
pub(super) struct Spreading {
    message: Arc<Message>,
    /// Who has sent it, and by which name it knows it.
    from: u16,
    ticket: u64,
    receiver_count: u64,
    stage: Stage,
    /// The last client that has got it at this stage.
    after: Option<Subscriber>,
}

enum Stage {
    /// Who subscribes to its channel.
    Named,
    /// Whether the pattern behind this one matches.
    Matching(Option<Name>),
    /// Who subscribes to a pattern that matches.
    Matched(Name),
    Over,
}

impl Spreading {
    pub(super) fn new(message: Arc<Message>, from: u16, ticket: u64) -> Spreading {
        Spreading { message, from, ticket, receiver_count: 0, stage: Stage::Named, after: None }
    }
}

/// Where clients are, and who of them got something.
struct Doors<'a, N> {
    clients: &'a mut Slab<Client>,
    stirred: &'a mut Vec<Handle<Client>>,
    net: &'a mut N,
}

/// What stands before a message's body, in each protocol; written when it is first needed.
struct Heads<'a> {
    message: &'a Message,
    /// It is about a key of another lane.
    is_foreign: bool,
    pattern: Option<&'a [u8]>,
    heads: [Option<Vec<u8>>; 2],
}

impl<'a> Heads<'a> {
    fn of(&mut self, proto: Proto) -> &[u8] {
        let (message, pattern) = (self.message, self.pattern);
        self.heads[proto as usize].get_or_insert_with(|| message.head(proto, pattern))
    }
}

impl<N: Net> Doors<'_, N> {
    /// Hands a client a message, unless it has gone or has no subscription any more.
    fn hand(&mut self, subscriber: Subscriber, heads: &mut Heads<'_>) -> bool {
        let handle = Handle::from_bits(subscriber.client);
        let Some(client) = self.clients.get_mut(handle) else { return false };
        let subscriptions = client.subscriptions.as_ref();
        let is_subscribed = subscriptions.is_some_and(|all| all.round == subscriber.round);
        if !is_subscribed
            || client.is_leaving
            || client.has_ended
            || heads.is_foreign && client.port == Port::Lane
        {
            return false;
        }
        let Some(output): Option<&mut Output> = self.net.output(client.conn) else { return false };
        // What a command under way has begun to subscribe to it says before any message of it.
        client.holds_messages &= !client.is_even();
        let message = heads.message;
        client.replies.put_aside(output, heads.of(client.proto), &message.body, client.holds_messages);
        if self.stirred.last() != Some(&handle) {
            self.stirred.push(handle);
        }
        true
    }
}

impl Lane {
    /// A turn's share of pub/sub.
    #[inline(never)]
    pub(crate) fn tend_pubsub<N: Net>(&mut self, net: &mut N) {
        let mut budget = HANDED_PER_TURN;
        let Lane { core, clients, stirred, .. } = self;
        core.send_unsent();
        core.publish_events();
        core.send_waiting();
        core.go_on_leaving(NAMED_PER_TURN.elements as usize);
        core.go_on_subscribing(clients, &mut NAMED_PER_TURN.clone());
        while !budget.is_spent()
            && let Some(mut spreading) = core.pubsub.spreading.pop_front()
        {
            let mut doors = Doors { clients, stirred, net };
            if !spreading.go_on(core, &mut doors, &mut budget) {
                core.pubsub.spreading.push_front(spreading);
                break;
            }
            let Spreading { message, from, ticket, receiver_count, .. } = spreading;
            core.forget_message(message);
            if from == core.id {
                core.hear_receivers(from, ticket, receiver_count);
            } else {
                let round = u32::try_from(receiver_count).unwrap_or(u32::MAX);
                core.tell_soon(from, ControlHead { target: ticket, round, kind: ControlKind::Receivers });
            }
        }
    }
}

impl Spreading {
    /// Goes on as far as the budget goes; true when everybody has it.
    fn go_on<N: Net>(
        &mut self,
        core: &crate::core::Core,
        doors: &mut Doors<'_, N>,
        budget: &mut Budget,
    ) -> bool {
        let message = Arc::clone(&self.message);
        let subscribers = &core.pubsub.subscribers;
        loop {
            let (kind, name, pattern): (Kind, &[u8], Option<&[u8]>) = match &mut self.stage {
                Stage::Over => return true,
                Stage::Named => (message.kind(), &message.channel, None),
                Stage::Matched(name) => (Kind::Pattern, name, Some(name)),
                Stage::Matching(before) => {
                    if budget.is_spent() {
                        return false;
                    }
                    let Some(name) = subscribers.names(Kind::Pattern, before.as_deref()).next() else {
                        self.stage = Stage::Over;
                        continue;
                    };
                    let (fits, looks) = glob::matches_at_cost(name, &message.channel, Case::Exact);
                    budget.spend(1, LOOK_SIZE * looks);
                    let name = Name::clone(name);
                    self.stage = if fits { Stage::Matched(name) } else { Stage::Matching(Some(name)) };
                    continue;
                }
            };
            let is_foreign = message.of_lane.is_some_and(|lane| lane != core.id);
            let mut heads = Heads { message: &message, is_foreign, pattern, heads: [None, None] };
            for subscriber in subscribers.of(kind, name, self.after) {
                if budget.is_spent() {
                    return false;
                }
                if doors.hand(subscriber, &mut heads) {
                    self.receiver_count += 1;
                    budget.spend(HANDING, message.size());
                } else {
                    budget.spend(1, 0);
                }
                self.after = Some(subscriber);
            }
            self.after = None;
            self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Matched(name) => Stage::Matching(Some(name)),
                _ if message.is_sharded => Stage::Over,
                _ => Stage::Matching(None),
            };
        }
    }
}
