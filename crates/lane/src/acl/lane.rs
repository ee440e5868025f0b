//! A lane hears of other users: the next command of each of its clients is looked at by the new table, and those clients are closed
//! whose user is gone, or who listen to what theirs may not hear any more. Some clients a turn; nobody is told before all were looked at.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use net::{Close, Net, Output};
use wire::command::{Command, Flag};

use super::vetting::may_hear;
use super::{Context, Denial, UserId, Users, vet};
use crate::admin::Portrait;
use crate::client::{Client, Dialect, Hush};
use crate::core::Core;
use crate::dispatch::{Caller, Flow, Input, halt};
use crate::multi::is_queued;
use crate::orders::CLOSES_PER_TURN;
use crate::peers::{ControlKind, Parcel};
use crate::pubsub::{Kind, Name};
use crate::slab::Handle;
use crate::turn::Lane;

/// Clients looked at in a turn, and names that they have subscribed to.
const CLIENTS_PER_TURN: usize = 128;
const NAMES_PER_TURN: usize = 128;
/// Names that cost as much as to close a client.
const NAMES_PER_CLOSE: usize = NAMES_PER_TURN / CLOSES_PER_TURN;
/// Looks at bytes of a name for patterns that cost as much as a name.
const LOOKS_PER_NAME: usize = 512;

/// The users from now on, and what that may mean for clients.
pub(crate) struct Change {
    pub(crate) users: Arc<Users>,
    /// Some are gone.
    pub(crate) removes: bool,
    /// This one may hear these patterns of channels, and may have heard others.
    pub(crate) hears: Option<(UserId, Vec<Box<[u8]>>)>,
    /// Who has said no password needs none now.
    pub(crate) opens: bool,
    /// The client that asks: it is closed after its reply.
    pub(crate) asker_id: u64,
}

/// How far a lane has come with a change.
#[derive(Default)]
pub(crate) struct Walk {
    /// The client's place to look at next.
    at: usize,
    /// Of that client: the name behind which to go on.
    after: Option<(Kind, Name)>,
}

impl Lane {
    /// Takes a change, or a turn's share of what it means; true when that is done.
    pub(crate) fn change_users<N: Net>(&mut self, change: &Change, net: &mut N) -> bool {
        if !Arc::ptr_eq(&self.core.settings.users, &change.users) {
            self.core.settings.users = Arc::clone(&change.users);
            self.core.oversee();
        }
        if !change.removes && change.hears.is_none() && !change.opens {
            return true;
        }
        let end = self.clients.place_count().min(self.obeying.users.at + CLIENTS_PER_TURN);
        let mut names_left = NAMES_PER_TURN;
        while self.obeying.users.at < end && names_left > 0 {
            let Some((handle, client)) = self.clients.at(self.obeying.users.at) else {
                self.obeying.users = Walk { at: self.obeying.users.at + 1, after: None };
                continue;
            };
            let is_gone = change.removes && change.users.of(client.user).is_none();
            let is_deaf = match &change.hears {
                Some((user, patterns)) if *user == client.user && !is_gone => {
                    match hears_too_much(client, patterns, &mut self.obeying.users.after, &mut names_left) {
                        None => return false,
                        Some(is_deaf) => is_deaf,
                    }
                }
                _ => false,
            };
            if is_gone || is_deaf {
                self.dismiss(handle, change.asker_id, net);
                names_left = names_left.saturating_sub(NAMES_PER_CLOSE);
            } else if change.opens && client.dialect == Dialect::Redis && !client.is_replica {
                self.clients.get_mut(handle).expect("just looked at").is_authenticated = true;
            }
            self.obeying.users.at += 1;
        }
        let is_over = self.obeying.users.at == self.clients.place_count();
        if is_over {
            self.obeying.users = Walk::default();
        }
        is_over
    }

    /// Closes a client: the one that has asked when it has its reply.
    fn dismiss<N: Net>(&mut self, handle: Handle<Client>, asker_id: u64, net: &mut N) {
        let client = self.clients.get_mut(handle).expect("just looked at");
        client.is_leaving = true;
        if client.id == asker_id {
            self.stirred.push(handle);
        } else {
            net.close(client.conn, Close::Now);
        }
    }
}

/// Whether a client has subscribed to what these patterns don't allow; none when names are left for the next turn.
fn hears_too_much(
    client: &Client,
    patterns: &[Box<[u8]>],
    after: &mut Option<(Kind, Name)>,
    names_left: &mut usize,
) -> Option<bool> {
    let Some(subscriptions) = &client.subscriptions else {
        *after = None;
        return Some(false);
    };
    let first = after.as_ref().map_or(Kind::Channel, |(kind, _)| *kind);
    for kind in [Kind::Channel, Kind::Pattern, Kind::Shard].into_iter().skip(first as usize) {
        let from = after.take().filter(|(of, _)| *of == kind).map(|(_, name)| name);
        let from = from.as_ref().map_or(Unbounded, |name| Excluded(&**name));
        for name in subscriptions.names_from(kind, from) {
            let mut looks = 0;
            let is_allowed = may_hear(patterns, name, kind == Kind::Pattern, &mut looks);
            *names_left = names_left.saturating_sub(1 + looks / LOOKS_PER_NAME);
            if !is_allowed {
                return Some(true);
            }
            if *names_left == 0 {
                *after = Some((kind, Arc::clone(name)));
                return None;
            }
        }
    }
    Some(false)
}

impl Core {
    /// Whether anything may be denied to a client. What this program does itself was allowed when it was written.
    pub(crate) fn may_deny(&self, client: &Client) -> bool {
        client.dialect == Dialect::Redis
            && !client.is_inner
            && self.settings.users.of(client.user).is_none_or(|user| !user.is_unrestricted())
    }

    /// Refuses a command that a client's user may not call; none if it may. A client whose user is gone is about to be closed.
    pub(crate) fn deny(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Option<Flow> {
        let Some(user) = self.settings.users.of(caller.client.user) else { return Some(Flow::Leave) };
        if user.is_unrestricted() {
            return None;
        }
        let denied = vet(user, command, input.args()).err()?;
        // As in Redis that comes first.
        if is_queued(caller.client, command.id) && command.flags.has(Flag::NoMulti) {
            return None;
        }
        // Who hears no replies: what is in them then is this command's alone.
        let hush = caller.client.hush;
        if hush != Hush::Heard && !caller.client.replies.is_empty() {
            return Some(halt(input));
        }
        let context = if caller.client.multi.is_some() { Context::Multi } else { Context::Toplevel };
        let from = Portrait {
            last: Some(command),
            ..Portrait::of(caller.client, self.id, (0, caller.output.len()))
        };
        let denial = Denial::new(denied, context, user, command, input.args(), from);
        self.tell_denial(denial);
        let text = denied.text(command);
        if hush == Hush::Heard {
            return Some(self.reject(caller, command, &text));
        }
        let flow = self.reject(&mut caller.aside(&mut Output::new()), command, &text);
        caller.client.replies.mute();
        if hush == Hush::Next {
            caller.client.hush = Hush::Heard;
        }
        Some(flow)
    }

    /// Tells the control thread's log what was denied.
    pub(crate) fn tell_denial(&mut self, denial: Denial) {
        if !self.tell_control(ControlKind::Denied, Some(Parcel::Denial(Box::new(denial)))) {
            self.stats.denials_dropped += 1;
        }
    }
}
