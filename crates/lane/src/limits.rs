//! Limits of clients: what all of them hold in memory, how long one may be silent, behind with its reading, or a stranger.
//! Nothing here walks over all clients in one turn; what goes around them looks at some each turn.
//!
//! What clients hold is known without a walk: a client is weighed when it has been served or answered, and the net knows
//! what it keeps. It counts against `maxmemory` (see `room`). Beyond `maxmemory-clients`, of which each lane tells the
//! board its part, clients that hold most are closed, in two rounds:
//! ```text
//! find    the largest power of two that some client has reached      (CLIENT NO-EVICT spares)
//! close   those that have reached it, until the rest is within the limit
//! ```
//! The lane whose clients hold most does so; another one, that finds the limit passed, tells it. A lane whose clients
//! all say NO-EVICT leaves it to the one with most after it.

use std::collections::VecDeque;
use std::num::NonZero;

use net::{Close, Need, Net, Stream};

use crate::Settings;
use crate::client::Client;
use crate::core::Core;
use crate::orders::CLOSES_PER_TURN;
use crate::peers::{ControlHead, ControlKind};
use crate::recent::Recent;
use crate::slab::Handle;
use crate::turn::{Lane, soonest};

/// Clients looked at in a turn for whether they have been silent too long (`timeout`), and how often at least.
const LOOKS_FOR_SILENCE: usize = 64;
/// How often those are looked at that wait for time to pass.
const LOOK_NS: u64 = 100_000_000;
/// A client that has not said the password after this time is closed: connections are not to be had for nothing.
const STRANGER_NS: u64 = 10_000_000_000;
/// Strangers whose time is up that are closed in a turn.
const STRANGERS_PER_TURN: usize = CLOSES_PER_TURN;
/// Clients behind their reading that are looked at in a turn.
const LAGGING_PER_TURN: usize = 128;
/// Clients looked at in a turn for how much they hold.
const LOOKS_FOR_SIZE: usize = 128;
/// The board is told what a lane's clients hold when that has changed by this much, bytes.
const CROWD_GRAIN: u64 = 4 * 1024;
/// A lane that finds `maxmemory-clients` passed by another one's clients tells it again after this time.
const TELL_AGAIN_NS: u64 = 1_000_000;

/// How far the rounds have come.
#[derive(Default)]
pub(crate) struct Watchman {
    /// The client's place to look at next for silence.
    silence_next: usize,
    /// Clients above the soft limit of unread replies, when they are looked at again, and how many at the front are still
    /// to be looked at in this round.
    lagging: VecDeque<Handle<Client>>,
    look_at_ns: u64,
    lagging_left: usize,
    /// What the board was told.
    told_size: u64,
    tell_at_ns: u64,
    sweep: Option<Sweep>,
    pub(crate) recent: Recent,
}

/// A round over the clients, to close those that hold most.
#[derive(Default)]
struct Sweep {
    next: usize,
    /// The largest size found, as a power of two.
    power: u32,
    is_closing: bool,
}

impl Watchman {
    /// Whether a client with so many unread bytes is past the output limits: the hard one, or the soft one for too long.
    /// One that may come to be is noted for a later look.
    pub(crate) fn is_past_output_limits(
        &mut self,
        client: &mut Client,
        handle: Handle<Client>,
        unread: usize,
        settings: &Settings,
        now_ns: u64,
    ) -> bool {
        // What a replica is sent has been bounded beforehand, and this program reads.
        if client.is_replica || client.is_inner {
            return false;
        }
        let soft_size = settings.output_soft_size_of(client);
        let (size_max, soft_s) = match client.is_subscribed {
            true => (settings.pubsub_output_size_max, settings.pubsub_output_soft_s),
            false => (settings.output_size_max, settings.output_soft_s),
        };
        if unread < soft_size {
            client.lags_since_ns = None;
        } else {
            let since =
                client.lags_since_ns.get_or_insert(NonZero::new(now_ns).unwrap_or(NonZero::<u64>::MIN));
            let since_ns = since.get();
            if soft_s.saturating_mul(1_000_000_000) < now_ns.saturating_sub(since_ns) {
                return true;
            }
            if !client.is_lagging {
                client.is_lagging = true;
                if self.lagging.is_empty() {
                    self.look_at_ns = now_ns.saturating_add(LOOK_NS);
                }
                self.lagging.push_back(handle);
            }
        }
        size_max <= unread
    }
}

impl Core {
    /// Has all other lanes take a turn, and look at what all hold together.
    pub(crate) fn tell_crowded(&mut self) {
        let id = self.id;
        for lane in (0..self.lane_count).filter(|lane| *lane != id) {
            let head = ControlHead { target: 0, round: 0, kind: ControlKind::Crowded };
            // One without a place for the word has a turn because of what is there.
            let _ = self.peer(lane).try_tell(head, &mut None);
        }
    }

    /// What a client has gathered is a command's from here on, and counts as what that adds.
    pub(crate) fn relieve(&mut self, client: &mut Client) {
        let before = client.weighed();
        self.clients_size = client.weigh(self.clients_size);
        self.space.room.relieve(before.saturating_sub(client.weighed()));
    }

    /// Somebody has not said the password, or not since RESET: its time begins.
    pub(crate) fn note_stranger(&mut self, client: &mut Client, handle: Handle<Client>) {
        client.stranger_since_ns = self.space.now.mono_ns;
        if !std::mem::replace(&mut client.is_noted_stranger, true) {
            self.strangers.push_back((handle, client.stranger_since_ns));
        }
    }
}

impl Lane {
    /// A turn's share of looking after clients. True when there is more to do at once.
    pub(crate) fn watch_clients<N: Net>(&mut self, net: &mut N) -> bool {
        let size = self.core.clients_size + net.kept_size() as u64;
        let scripts_size = self.core.space.scripts.memory_size() as u64;
        self.core.space.room.set_beside(size + scripts_size);
        self.core.stats.clients_size = size;
        self.core.stats.memory_max = self.core.stats.memory_max.max(size + self.core.space.shard.held());
        self.look_at_buffers(net);
        if self.core.settings.timeout_s > 0 {
            self.dismiss_silent(net);
        }
        if !self.core.strangers.is_empty() {
            self.dismiss_strangers(net);
        }
        if !self.watchman.lagging.is_empty() {
            self.stir_lagging();
        }
        self.core.settings.clients_size_max > 0 && self.thin_out(size, net)
    }

    /// When time alone makes something due.
    pub(crate) fn watch_at(&self) -> Option<u64> {
        let now_ns = self.core.space.now.mono_ns;
        let watches_silence = self.core.settings.timeout_s > 0 && !self.clients.is_empty();
        let silence = watches_silence.then(|| now_ns.saturating_add(LOOK_NS));
        let lagging = (!self.watchman.lagging.is_empty()).then_some(self.watchman.look_at_ns);
        let stranger = self.core.strangers.front().map(|(_, since_ns)| since_ns.saturating_add(STRANGER_NS));
        soonest([silence, lagging, stranger])
    }

    /// Closes clients that have been silent for too long, as Redis does (`clientsCronHandleTimeout`): not those that wait for the
    /// server, nor those that still send or take what they began. A few are looked at each turn.
    #[inline(never)]
    fn dismiss_silent<N: Net>(&mut self, net: &mut N) {
        let timeout_ns = self.core.settings.timeout_s.saturating_mul(1_000_000_000);
        let now_ns = self.core.space.now.mono_ns;
        let mut closes_left = CLOSES_PER_TURN;
        for _ in 0..self.clients.place_count().min(LOOKS_FOR_SILENCE) {
            if closes_left == 0 {
                return;
            }
            self.watchman.silence_next = (self.watchman.silence_next + 1) % self.clients.place_count();
            let Some((handle, client)) = self.clients.at(self.watchman.silence_next) else { continue };
            let waits = client.is_blocked || client.is_held || client.is_monitor || client.is_subscribed;
            let waits = waits || client.is_replica || client.is_inner;
            if waits || now_ns.saturating_sub(client.active_ns) <= timeout_ns {
                continue;
            }
            let client = self.clients.get_mut(handle).expect("just looked at");
            if !is_taking_replies(client, net) {
                net.close(client.conn, Close::Now);
                closes_left -= 1;
                continue;
            }
            client.active_ns = now_ns;
        }
    }

    /// Closes clients that had time enough to say the password. The queue is in the order in which they came.
    #[inline(never)]
    fn dismiss_strangers<N: Net>(&mut self, net: &mut N) {
        let now_ns = self.core.space.now.mono_ns;
        for _ in 0..STRANGERS_PER_TURN {
            let Some(&(handle, since_ns)) = self.core.strangers.front() else { return };
            let client = self.clients.get_mut(handle);
            let is_late = |since_ns: u64| since_ns.saturating_add(STRANGER_NS) <= now_ns;
            match client {
                Some(client) if client.is_authenticated => client.is_noted_stranger = false,
                Some(client) if since_ns < client.stranger_since_ns => {
                    self.core.strangers.push_back((handle, client.stranger_since_ns));
                }
                Some(client) if is_late(since_ns) => net.close(client.conn, Close::Now),
                Some(_) => return,
                None => {}
            }
            self.core.strangers.pop_front();
        }
    }

    /// Clients behind their reading are measured again, though nothing has come from them.
    fn stir_lagging(&mut self) {
        let now_ns = self.core.space.now.mono_ns;
        if now_ns < self.watchman.look_at_ns {
            return;
        }
        if self.watchman.lagging_left == 0 {
            self.watchman.lagging_left = self.watchman.lagging.len();
        }
        // Who still lags joins the others at the end.
        let count = self.watchman.lagging_left.min(LAGGING_PER_TURN);
        for handle in self.watchman.lagging.drain(..count) {
            if let Some(client) = self.clients.get_mut(handle) {
                client.is_lagging = false;
                self.stirred.push(handle);
            }
        }
        self.watchman.lagging_left -= count;
        let pause_ns = if self.watchman.lagging_left > 0 { 0 } else { LOOK_NS };
        self.watchman.look_at_ns = now_ns.saturating_add(pause_ns);
    }

    /// Notes what a client holds now, apart from what the net keeps for it.
    pub(crate) fn weigh(&mut self, handle: Handle<Client>) {
        if let Some(client) = self.clients.get_mut(handle) {
            self.core.clients_size = client.weigh(self.core.clients_size);
        }
    }

    /// Sees to `maxmemory-clients`; this lane's clients hold `size` bytes. True while this lane closes some.
    #[inline(never)]
    fn thin_out<N: Net>(&mut self, size: u64, net: &mut N) -> bool {
        let limit = self.core.settings.clients_size_max;
        if CROWD_GRAIN <= size.abs_diff(self.watchman.told_size) {
            self.core.board.set_crowd(self.core.id, size);
            self.watchman.told_size = size;
        }
        let (total, largest_lane) = self.core.board.crowd();
        if limit < total && largest_lane == self.core.id {
            return self.sweep(total - limit, net);
        }
        self.watchman.sweep = None;
        let now_ns = self.core.space.now.mono_ns;
        if limit < total && self.watchman.tell_at_ns <= now_ns {
            self.watchman.tell_at_ns = now_ns.saturating_add(TELL_AGAIN_NS);
            let head = ControlHead { target: 0, round: 0, kind: ControlKind::Crowded };
            // It takes a turn because of it, which is all; without a place for the word it is said again.
            let _ = self.core.peer(largest_lane).try_tell(head, &mut None);
        }
        false
    }

    /// A turn's share of a sweep that is to set `excess` bytes free.
    fn sweep<N: Net>(&mut self, excess: u64, net: &mut N) -> bool {
        let mut sweep = self.watchman.sweep.take().unwrap_or_default();
        let end = self.clients.place_count().min(sweep.next + LOOKS_FOR_SIZE);
        let (mut closes_left, mut closed_size) = (CLOSES_PER_TURN, 0);
        for place in sweep.next..end {
            let Some((_, client)) = self.clients.at(place) else { continue };
            if client.traits.is_kept || client.is_replica || client.is_inner {
                continue;
            }
            let (input_size, output_size) = net.kept(client.conn);
            let size = (client.weight() + input_size + output_size) as u64;
            let power = size.checked_ilog2().unwrap_or(0);
            if !sweep.is_closing {
                sweep.power = sweep.power.max(power);
            } else if sweep.power <= power {
                if closes_left == 0 {
                    sweep.next = place;
                    self.watchman.sweep = Some(sweep);
                    return true;
                }
                closes_left -= 1;
                net.close(client.conn, Close::Now);
                self.core.stats.clients_evicted += 1;
                closed_size += size;
                if excess <= closed_size {
                    return false;
                }
            }
        }
        sweep.next = end;
        let is_round = end == self.clients.place_count();
        let is_over = is_round && sweep.is_closing;
        if is_round {
            (sweep.next, sweep.is_closing) = (0, true);
        }
        let has_found = sweep.power > 0;
        self.watchman.sweep = (!is_over).then_some(sweep);
        // With clients that may not be closed alone, it is another lane's turn, or something has to happen first.
        has_found || !is_round || self.core.board.spare_crowd(self.core.id)
    }
}

/// Whether a client that has replies to take has taken any of them since this was asked last.
fn is_taking_replies<N: Net>(client: &mut Client, net: &mut N) -> bool {
    let Some(Stream { output, .. }) = net.stream(client.conn, Need::Rest) else { return false };
    let taken_size = output.written() - output.len() as u64;
    !output.is_empty() && std::mem::replace(&mut client.taken_size, taken_size) < taken_size
}
