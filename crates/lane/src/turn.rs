//! The turn. Clients in and out have a file of their own.

use std::hint::cold_path;
use std::sync::Arc;

use net::{Close, ConnId, Event, Handover, Net};
use ring::{Mailbox, Senders};
use store::{Budget, Shard};
use wire::route::{LaneId, PartitionMap};

use crate::ahead::{AHEAD_MAX, Ahead};
use crate::board::Board;
use crate::client::{Client, Dialect, Ends};
use crate::commands::record::DEFLATE_PER_TURN;
use crate::core::{Core, Reply, Told};
use crate::keyspace::Keyspace;
use crate::limits::Watchman;
use crate::orders::{Obeying, OrderOfHold};
use crate::pause::Settling;
use crate::peers::{Links, Peer};
use crate::post::Post;
use crate::replies::{OUTPUT_HIGH, Spent};
use crate::room::Room;
use crate::serve::{End, serve_client};
use crate::slab::{Handle, Slab};
use crate::stats::{Stats, Traffic};
use crate::timing::Done;
use crate::{Now, Settings};

mod budget;
mod clients;
mod queue;

use budget::Left;
use queue::Queue;

/// Bytes that have arrived from clients that are served together: enough for a dozen short commands.
const BATCH_SIZE: usize = 1024;
/// Asks of each other lane served in a turn.
const ASKS_PER_PEER: usize = 256;
/// Housekeeping in a turn.
const TEND: Budget = Budget::new(64, 64 * 1024);

/// A cheap counter, given by the caller: the TSC in the binary, work units in the simulator.
pub trait Meter {
    /// A number that grows with work done.
    fn read(&self) -> u64;

    /// What it said at the instant that a turn is given: the turn's time counts from there.
    fn began(&self) -> u64 {
        self.read()
    }
}

/// When the next turn is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once: a budget ended before the work did.
    Again,
    /// At this instant of the monotonic clock in nanoseconds, or when something arrives.
    At(u64),
    /// When something arrives.
    Idle,
}

/// What a lane is made of.
pub struct Setup {
    /// Its number, from 0.
    pub id: u16,
    /// Who owns what.
    pub map: Arc<PartitionMap>,
    /// What all lanes see.
    pub board: Arc<Board>,
    /// Its ends of the rings, from [`crate::mesh`].
    pub links: Links,
    /// Its data.
    pub shard: Shard,
    /// What it is told.
    pub settings: Settings,
}

/// One lane. See the top of the crate.
pub struct Lane {
    pub(crate) core: Core,
    pub(crate) clients: Slab<Client>,
    /// By the connection's index: its generation and its client.
    by_conn: Vec<Option<(ConnId, Handle<Client>)>>,
    /// Clients with input that may hold a command.
    ready: Queue,
    /// Clients whose replies may have become ready to leave.
    pub(crate) stirred: Vec<Handle<Client>>,
    events: Vec<Event>,
    /// For clients that are served together.
    seats: Vec<Seat>,
    mailbox: Arc<Mailbox>,
    /// Lanes of which asks were left for the next turn, and the lane after the last one served.
    pub(crate) senders: Senders,
    sender_next: usize,
    /// Connections that come from elsewhere, with what is spoken on them; none: this program's own.
    handovers: Vec<(Handover, Option<Dialect>)>,
    pub(crate) bells: Vec<u16>,
    pub(crate) obeying: Obeying,
    /// Whom to tell that what writes is held back and nothing is under way.
    pub(crate) holding: Option<OrderOfHold>,
    /// Whom to tell when what had begun before a pause is over.
    pub(crate) settlings: Vec<Settling>,
    /// No command is taken up any more.
    is_draining: bool,
    /// Clients that are replicas.
    pub(crate) replicas: Vec<Handle<Client>>,
    /// What had gone through the connections when counting last began from zero.
    pub(crate) traffic_then: Traffic,
    /// Clients whose next command waits for room in a ring, and has no reply before it that could wake them.
    parched: Vec<Handle<Client>>,
    pub(crate) watchman: Watchman,
}

/// One of the clients that are served together.
struct Seat {
    handle: Handle<Client>,
    is_fresh: bool,
    /// What it has sent.
    ahead: Ahead,
}

/// When a lane tries again to tell the control thread of changes for which there was no room.
const FEED_AGAIN_NS: u64 = 200_000;

impl Lane {
    /// A lane without clients.
    pub fn new(setup: Setup) -> Lane {
        let Setup { id, map, board, links, shard, settings } = setup;
        let next_lane = LaneId(id + 1);
        let first_after = if next_lane.0 < map.lanes() { map.ranges(next_lane).next() } else { None };
        let cursor_after = first_after.map_or(0, |(first, _)| u64::from(first.number()) << 48);
        let (databases, namespaces) = (settings.database_count, settings.namespaces.clone());
        let room = Room::unlimited(Arc::clone(&board), id);
        let (now, slots) = (Now::default(), map.slots(LaneId(id)));
        let mut space = Keyspace::new(shard, now, databases, namespaces, cursor_after, room, slots);
        space.bulk_size_max = settings.string_size_max();
        space.dumping.compresses = settings.compresses_dumps;
        space.set_room(settings.room_size(), settings.policy);
        space.shard.set_active_expiry(!settings.is_loading);
        space.documents.item_size_max = settings.item_size_max;
        space.documents.history = settings.history();
        space.record_size_max = settings.aerospike.record_size_max;
        space.started_ms = settings.map_epoch;
        space.writes_refused = settings.writes_refused;
        space.set_following(settings.follows);
        space.scripts.set_memory_max(settings.script_memory_max);
        space.scripts.set_meter(settings.script_meter, settings.meter_per_us);
        space.tracked.set_key_count_max(settings.tracked_count_max, map.lanes());
        space.set_events(settings.events_now());
        let mailbox = links.mailbox();
        Lane {
            core: Core::new(id, settings, map, board, space, links.peers),
            clients: Slab::default(),
            by_conn: Vec::new(),
            ready: Queue::default(),
            stirred: Vec::new(),
            events: Vec::new(),
            seats: Vec::new(),
            mailbox,
            senders: Senders::default(),
            sender_next: 0,
            handovers: Vec::new(),
            bells: Vec::new(),
            obeying: Obeying::default(),
            holding: None,
            settlings: Vec::new(),
            is_draining: false,
            replicas: Vec::new(),
            traffic_then: Traffic::default(),
            parched: Vec::new(),
            watchman: Watchman::default(),
        }
    }

    /// One round: finish what was begun, begin what has come, keep house, hand everything over.
    pub fn turn<N: Net>(&mut self, now: Now, meter: &impl Meter, net: &mut N) -> Next {
        self.bells.clear();
        if let Some(until_ns) = self.obeying.sleeps_until_ns
            && now.mono_ns < until_ns
        {
            cold_path();
            return Next::At(until_ns);
        }
        let began = meter.began();
        self.core.set_now(now);
        self.core.space.deflate_left = DEFLATE_PER_TURN;
        self.core.stats.turns += 1;
        self.core.begin_turn();
        if self.core.pause.is_none() {
            self.core.space.flush_documents_when_due();
        }
        self.gather(net);
        let is_late = self.core.pubsub.is_late();
        self.senders.merge(self.mailbox.collect());
        let ask_count = if self.senders.is_empty() { 0 } else { self.hear_lanes(meter, net) };
        if self.core.pause.is_some_and(|pause| pause.until_ns <= now.mono_ns) {
            self.end_pause();
        }
        if self.core.held.are_released() {
            self.release_held();
        }
        let command_count = match self.is_draining {
            true => self.hold_ready(),
            // What may change keys waits until what was said of others is on its way.
            false if is_late => 0,
            false => self.serve_clients(meter, net),
        };
        if self.core.pubsub.has_work() || self.core.space.events.are_ready() {
            self.tend_pubsub(net);
        }
        let watches = self.watch_clients(net);
        if !self.core.orders.is_empty() {
            self.obey(net);
        }
        let slice_count = self.core.work(meter) as u64;
        if !(self.core.deliveries.is_empty() && self.stirred.is_empty()) {
            self.deliver(net);
        }
        if self.holding.is_some() && self.has_ended_all() {
            self.report_hold();
        }
        if !self.settlings.is_empty() {
            self.tend_settlings();
        }
        // By the clock, whatever a transaction saw: what it takes out is gone for good.
        self.core.space.now = now;
        // Nothing changes while clients are paused, by time neither.
        let tends = match self.core.pause {
            None if is_late => true,
            None => self.core.space.tend(&self.core.locks, &mut TEND.clone()),
            // Going over a snapshot that nobody wants is no change.
            Some(_) => self.core.space.tend_snapshot(&mut TEND.clone()),
        };
        self.core.settle_room();
        if self.core.monitoring.has_lines() {
            self.core.tell_lines();
        }
        if self.core.space.feed.is_some() {
            self.core.tell_feed();
        }
        if self.core.tracks() || self.core.space.tracked.is_on() {
            self.tend_tracking(net);
        }
        if !self.core.addressed.is_empty() {
            self.publish();
        }
        debug_assert!(
            !self.core.peers.iter_mut().flatten().any(Peer::publish),
            "who is sent something is addressed"
        );
        net.flush();
        if !self.replicas.is_empty() {
            self.note_taken(net);
        }
        let stats = &mut self.core.stats;
        stats.turn_commands_max = stats.turn_commands_max.max(command_count);
        stats.turn_slices_max = stats.turn_slices_max.max(slice_count);
        let done = Done { command_count, ask_count, slice_count };
        self.core.end_turn(meter.read().wrapping_sub(began), done);
        self.next(now, tends || watches)
    }

    fn next(&self, now: Now, has_more: bool) -> Next {
        if has_more || !self.ready.is_empty() || !self.senders.is_empty() || self.core.has_work() {
            return Next::Again;
        }
        let space = &self.core.space;
        let pause = self.core.pause.map(|pause| pause.until_ns);
        // Until a pause is over nothing ends.
        let end_ms = match pause {
            None if space.documents.flush_at_ms.is_empty() => space.shard.next_expiry(),
            None => {
                let ends = space.shard.next_expiry().into_iter();
                ends.chain(space.documents.flush_at_ms.values().copied()).min()
            }
            Some(_) => None,
        };
        let expiry = end_ms.map(|at_ms| {
            let in_ms = u64::try_from(at_ms.saturating_sub(now.unix_ms)).unwrap_or(0);
            now.mono_ns.saturating_add(in_ms.saturating_mul(1_000_000))
        });
        // Nobody says when the ring to the control thread has room again.
        let feed = space.feeds_late().then(|| now.mono_ns + FEED_AGAIN_NS);
        soonest([expiry, self.watch_at(), pause, feed]).map_or(Next::Idle, Next::At)
    }

    /// Where other lanes say that they have something. The runner declares sleep there before it waits.
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// The lanes whose bells the last turn made due: they sleep, and have something to do now. A number equal to the
    /// count of lanes is the control thread's.
    pub fn bells(&self) -> &[u16] {
        &self.bells
    }

    /// The lane's counters.
    pub fn stats(&self) -> Stats {
        Stats { clients: self.clients.len() as u64, ..self.core.stats_now() }
    }

    /// From now on no client's next command is taken up, be it here already: nothing is answered that is not under way. What is goes on to its
    /// end, and [`Lane::has_drained`] says when it is over; once that is so of all lanes that drain, nothing more is done for clients.
    pub fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Whether nothing is under way, in this lane's part of the server: for tests.
    pub fn is_idle(&self) -> bool {
        self.core.is_idle() && self.ready.is_empty() && !self.core.has_work()
    }

    /// Whether nothing is under way here, nor has this lane asked anything of others that they have not answered: for draining.
    pub fn has_drained(&self) -> bool {
        self.is_idle() && self.core.is_answered()
    }

    /// Whether nothing is under way but commands that have not begun.
    fn has_ended_all(&self) -> bool {
        self.core.is_idle() && self.core.is_answered()
    }

    /// Asserts what must hold when nothing is under way and every client has gone: no lock, no credit and no watcher is
    /// left behind, and the data is in order. For tests: it takes time in proportion to the keys.
    pub fn audit(&self) {
        assert!(self.is_idle(), "an idle lane has nothing under way");
        assert!(self.clients.is_empty(), "clients that have gone are forgotten");
        assert!(self.core.board.load(self.core.id) == 0, "nobody is on the way to it");
        self.core.audit();
    }

    /// The data, for checks after a simulation.
    pub fn shard(&self) -> &Shard {
        &self.core.space.shard
    }

    // ---- what has happened

    fn gather<N: Net>(&mut self, net: &mut N) {
        net.poll(&mut self.events);
        for index in 0..self.events.len() {
            match self.events[index] {
                Event::Opened { conn, listener, peer, local } => {
                    self.open(conn, listener, Ends { peer, local }, net);
                }
                Event::Input(conn) => {
                    if self.arrived(conn) {
                        self.look_behind(conn, net);
                    }
                }
                Event::Writable(conn) => {
                    if let Some(handle) = self.client_of(conn) {
                        self.stirred.push(handle);
                    }
                }
                Event::Closed { conn, .. } => self.leave(conn),
            }
        }
        self.events.clear();
    }

    // ---- the other lanes

    /// Hears what those in `senders` have sent. Says how many asks were served.
    #[inline(never)]
    fn hear_lanes<N: Net>(&mut self, meter: &impl Meter, net: &mut N) -> u64 {
        let mut senders = std::mem::take(&mut self.senders);
        let mut ask_count = 0;
        let Lane { core, clients, stirred, handovers, .. } = self;
        let mut left = Senders::default();
        core.timing.begin_spell();
        while let Some(sender) = senders.take_from(self.sender_next) {
            let lane = u16::try_from(sender).expect("lanes are counted in 16 bits");
            let mut post = Post { clients, stirred, net };
            core.hear_answers(lane, &mut post);
            let mut answered = Vec::new();
            let is_through = core.hear_control(lane, &mut |told| match told {
                Told::Handover(handover, dialect) => handovers.push((*handover, Some(dialect))),
                Told::Inner(handover) => handovers.push((*handover, None)),
                Told::Lines(client, lines) => post.show(client, &lines),
                Told::Answered(client, slot, content) => answered.push((client, slot, content)),
            });
            for (client, slot, content) in answered {
                post.deliver(core, lane, client, std::iter::once((slot, Reply::Content(content))));
            }
            let count_max = if core.pubsub.is_late() { 0 } else { ASKS_PER_PEER };
            if !core.timing.is_spell_over() {
                // Those behind are the first in the next turn.
                self.sender_next = sender + 1;
            }
            let served_count = core.hear_asks(lane, count_max, meter);
            ask_count += served_count as u64;
            if served_count == count_max || core.timing.is_spell_over() || !is_through {
                left.insert(sender);
            }
        }
        self.senders = left;
        // Whoever asks from now on may know of what has changed.
        if self.core.tracking.has_work() {
            self.hand_out(net);
        }
        for (handover, dialect) in std::mem::take(&mut self.handovers) {
            match dialect {
                Some(dialect) => self.take(handover, dialect, net),
                None => self.take_inner(handover, net),
            }
        }
        ask_count
    }

    // ---- clients

    /// Says how many commands were served.
    fn serve_clients<N: Net>(&mut self, meter: &impl Meter, net: &mut N) -> u64 {
        if !self.parched.is_empty() {
            self.retry_parched();
        }
        let mut left = Left::new(self.ready.len());
        self.core.timing.begin_spell();
        while !left.is_spent(&self.core.timing) {
            let is_last_quarter = self.ready.has_some_behind() && left.is_last_quarter(&self.core.timing);
            let (mut count, mut input_size) = (0, 0);
            let walks = std::mem::take(&mut self.core.space.walks);
            let mut approaches = self.core.space.shard.approaches(walks);
            while left.clients > 0 && count < AHEAD_MAX && input_size < BATCH_SIZE {
                left.clients -= 1;
                let (handle, is_fresh) = self.ready.pop(is_last_quarter).expect("counted");
                let Some(client) = self.clients.get_mut(handle) else { continue };
                client.is_queued = false;
                if client.is_blocked || client.is_leaving {
                    cold_path();
                    continue;
                }
                if self.seats.len() == count {
                    cold_path();
                    self.seats.push(Seat { handle, is_fresh, ahead: Ahead::default() });
                }
                let seat = &mut self.seats[count];
                (seat.handle, seat.is_fresh) = (handle, is_fresh);
                let (core, count_max) = (&self.core, left.commands_of_one());
                let receive_left = &mut left.receive;
                input_size += seat.ahead.prepare(core, client, net, count_max, receive_left, &mut approaches);
                count += 1;
            }
            self.core.space.walks = approaches.arrive();
            let mut lap = self.core.lap(meter);
            for Seat { handle, is_fresh, ahead } in &mut self.seats[..count] {
                let (handle, is_fresh) = (*handle, *is_fresh);
                let client = self.clients.get_mut(handle).expect("clients leave between turns");
                let was_over = self.core.timing.is_spell_over();
                let mut share = left.share(is_fresh);
                let end = serve_client(&mut self.core, client, handle, ahead, &mut lap, net, &mut share);
                left.take(&share);
                self.core.clients_size = client.weigh(self.core.clients_size);
                match end {
                    End::Waits => {}
                    End::Again | End::Anew => {
                        cold_path();
                        let now_ns = self.core.space.now.mono_ns;
                        match end {
                            End::Again if !was_over && share.is_whole(is_fresh) => {
                                self.ready.fall_behind(handle, client, now_ns);
                                // If nobody else is there it goes on.
                                left.clients += usize::from(is_fresh);
                            }
                            End::Again => self.ready.cut(handle, client, is_fresh),
                            _ => self.ready.arrive(handle, client, now_ns),
                        }
                        // Long replies wait for a client that may never read: they count while it still sends, too.
                        if !client.replies.is_empty() {
                            self.stirred.push(handle);
                        }
                    }
                    End::Settles => self.stirred.push(handle),
                    End::Parched => {
                        cold_path();
                        self.parched.push(handle);
                    }
                }
            }
        }
        self.ready.end_turn();
        left.command_count() as u64
    }

    /// Whatever lets an ask go, an answer comes before or with it, and brings this turn about: those who wait for room try again.
    #[cold]
    fn retry_parched(&mut self) {
        let Lane { parched, clients, ready, .. } = self;
        for handle in parched.drain(..) {
            if let Some(client) = clients.get_mut(handle) {
                ready.go_on(handle, client);
            }
        }
    }

    /// Draining: whoever is to be served is not. Held back like that nobody has the lane turn, and input that comes stays where it is.
    fn hold_ready(&mut self) -> u64 {
        let queued = std::iter::from_fn(|| self.ready.pop(false)).map(|(handle, _)| handle);
        for handle in self.parched.drain(..).chain(queued) {
            let Some(client) = self.clients.get_mut(handle) else { continue };
            client.is_queued = false;
            self.core.hold(client);
        }
        0
    }

    /// Hands out replies that have become ready, and lets their clients go on.
    #[inline(never)]
    fn deliver<N: Net>(&mut self, net: &mut N) {
        for delivery in std::mem::take(&mut self.core.deliveries) {
            match self.clients.get_mut(delivery.client) {
                Some(client) => {
                    self.stirred.push(delivery.client);
                    client.take(delivery);
                }
                None => {
                    self.core.forget_reply(Reply::Content(delivery.content));
                    if let Some((id, lanes)) = delivery.watching {
                        self.core.unwatch(id, lanes);
                    }
                }
            }
        }
        let mut spent = Spent::default();
        let mut stirred = std::mem::take(&mut self.stirred);
        for handle in stirred.drain(..) {
            let Some(client) = self.clients.get_mut(handle) else { continue };
            let Some(output) = net.output(client.conn) else { continue };
            client.replies.pump(output, &mut spent);
            let unread = output.len() + client.replies.size();
            let is_full = output.len() >= OUTPUT_HIGH;
            self.core.clients_size = client.weigh(self.core.clients_size);
            let now_ns = self.core.space.now.mono_ns;
            if self.watchman.is_past_output_limits(client, handle, unread, &self.core.settings, now_ns) {
                self.core.stats.clients_cut += 1;
                net.close(client.conn, Close::Now);
                continue;
            }
            let was_blocked = client.is_even() && std::mem::take(&mut client.is_blocked);
            if was_blocked {
                client.active_ns = now_ns;
                client.holds_messages = false;
            }
            if client.is_leaving || client.has_ended {
                // Above the soft limit it is looked at until it is below or cut: once closed it is the net's, which waits for ever.
                let is_behind = self.core.settings.output_soft_size_of(client) <= unread;
                if client.is_even() && client.replies.is_empty() && !is_behind {
                    client.is_leaving = true;
                    net.close(client.conn, Close::AfterFlush);
                }
                continue;
            }
            let has_moved =
                client.is_even() || client.replies.slot_count() < client.halted_slot_count as usize;
            if client.is_halted && has_moved && !client.is_blocked && !is_full {
                // Mostly what it waited for is all that it has asked.
                if was_blocked {
                    self.ready.arrive(handle, client, now_ns);
                } else {
                    self.ready.go_on(handle, client);
                }
            }
        }
        self.stirred = stirred;
        let space = &mut self.core.space;
        spent.ropes.into_iter().for_each(|rope| space.shard.retire(rope));
        spent.contents.into_iter().for_each(|content| space.discard_content(content));
    }

    /// Shows the other lanes what they got, and notes which of them sleep.
    fn publish(&mut self) {
        let Core { peers, addressed, stats, .. } = &mut self.core;
        for number in std::mem::take(addressed) {
            if peers[number].as_mut().is_some_and(Peer::publish) {
                self.bells.push(u16::try_from(number).expect("lanes are counted in 16 bits"));
                stats.bells += 1;
            }
        }
    }
}

/// The first of these instants, of those that there are.
#[inline(always)]
pub(crate) fn soonest<const COUNT: usize>(instants: [Option<u64>; COUNT]) -> Option<u64> {
    // As numbers, of which the least is found without a branch.
    let first = instants.into_iter().fold(u64::MAX, |first, at_ns| first.min(at_ns.unwrap_or(u64::MAX)));
    (first < u64::MAX).then_some(first)
}
