//! CLIENT PAUSE: whose next command it holds back, and how they go on when it is over.
//!
//! Nobody keeps a list of those it holds: each client says so itself, and they are counted. So clients that come, send and
//! go while it lasts leave nothing behind. When it ends, one round over the clients finds them, some a turn.
//!
//! Whoever pauses writes relies on it that nothing changes from the answer on. When all lanes hold commands back, each is asked once
//! more, and reports when those are over that had begun: parts and transactions that were there once all that other lanes had asked
//! of it was taken up.

use crate::admin::Report;
use crate::client::Client;
use crate::core::Core;
use crate::part::{Origin, Part};
use crate::slab::Handle;
use crate::transaction::Transaction;
use crate::turn::Lane;

/// Clients looked at in a turn for whether they were held back.
const CLIENTS_PER_TURN: usize = 128;

/// Clients that a pause holds back.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) count: usize,
    /// The client's place to look at next.
    next: usize,
    /// Places still to be looked at in the round that lets them go on.
    left: usize,
}

impl Held {
    /// Whether the round is not over.
    pub(crate) fn are_released(&self) -> bool {
        self.left > 0
    }
}

/// An order that is reported when what had begun before it is over.
pub(crate) struct Settling {
    ticket: u64,
    charge: u16,
    /// What there was and is not over; none before all that lanes had been asked was taken up.
    begun: Option<Begun>,
}

/// What is under way for clients.
struct Begun {
    parts: Vec<Handle<Part>>,
    transactions: Vec<Handle<Transaction>>,
}

impl Settling {
    pub(crate) fn new(ticket: u64, charge: u16) -> Settling {
        Settling { ticket, charge, begun: None }
    }

    /// Whether what it waits for is over.
    fn is_over(&mut self, core: &Core) -> bool {
        let Begun { parts, transactions } = self.begun.get_or_insert_with(|| core.begun());
        parts.retain(|handle| core.parts.get(*handle).is_some());
        transactions.retain(|handle| core.transactions.get(*handle).is_some());
        parts.is_empty() && transactions.is_empty()
    }
}

impl Core {
    fn begun(&self) -> Begun {
        let is_a_clients = |origin: &Origin| !matches!(origin, Origin::Control { .. });
        let parts = (0..self.parts.place_count()).filter_map(|place| self.parts.at(place));
        let transactions =
            (0..self.transactions.place_count()).filter_map(|place| self.transactions.at(place));
        Begun {
            parts: parts.filter(|(_, part)| is_a_clients(&part.origin)).map(|(handle, _)| handle).collect(),
            transactions: transactions
                .filter(|(_, it)| is_a_clients(&it.origin))
                .map(|(handle, _)| handle)
                .collect(),
        }
    }

    /// A client waits for the end of the pause in front of its next command.
    pub(crate) fn hold(&mut self, client: &mut Client) {
        self.held.count += usize::from(!std::mem::replace(&mut client.is_held, true));
    }

    /// It waits no more: the pause is over for it, or it has gone.
    pub(crate) fn let_go(&mut self, client: &mut Client) {
        self.held.count -= usize::from(std::mem::take(&mut client.is_held));
        client.active_ns = self.space.now.mono_ns;
    }
}

impl Lane {
    /// Reports to those for whom all is over that had begun, or the pause is.
    #[cold]
    pub(crate) fn tend_settlings(&mut self) {
        let Lane { core, settlings, senders, .. } = self;
        // Something may have been asked that is not taken up yet.
        let is_taken = senders.is_empty();
        let is_paused = core.pause.is_some();
        let over: Vec<Settling> =
            settlings.extract_if(.., |it| !is_paused || is_taken && it.is_over(core)).collect();
        for settling in over {
            let control = core.lane_count;
            core.peer(control).report(settling.ticket, settling.charge, Report::Settled);
        }
    }

    /// Ends the pause. Those that it held back go on by [`Lane::release_held`].
    #[cold]
    pub(crate) fn end_pause(&mut self) {
        self.core.set_pause(None);
        self.release_all();
    }

    /// What clients were held back for is over. Who is to be held for something else is so again.
    pub(crate) fn release_all(&mut self) {
        self.core.held.left = self.clients.place_count();
    }

    /// Lets a turn's share of those go on that the last pause held back. Whom the next one holds already is held again
    /// when its command is looked at.
    pub(crate) fn release_held(&mut self) {
        for _ in 0..self.core.held.left.min(CLIENTS_PER_TURN) {
            if self.core.held.count == 0 {
                self.core.held.left = 0;
                return;
            }
            let held = &mut self.core.held;
            (held.next, held.left) = ((held.next + 1) % self.clients.place_count(), held.left - 1);
            let Some((handle, _)) = self.clients.at(held.next) else { continue };
            let client = self.clients.get_mut(handle).expect("just looked at");
            if client.is_held {
                self.core.let_go(client);
                self.enqueue(handle);
            }
        }
    }
}
