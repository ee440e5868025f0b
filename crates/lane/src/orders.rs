//! The lane carries out what the control thread orders, some clients a turn.

use net::{Close, Net};
use wire::route::Slot;

use crate::Settings;
use crate::acl::Walk;
use crate::admin::{Census, Filter, Holding, Order, Portrait, Report};
use crate::core::{Core, Ordered};
use crate::documents;
use crate::pause::Settling;
use crate::pubsub::{Found, Kind, Query};
use crate::slab::Handle;
use crate::stats::Traffic;
use crate::tally::Tally;
use crate::timing::Timing;
use crate::turn::Lane;

/// Clients looked at in a turn for an order that concerns them all.
const CLIENTS_PER_TURN: usize = 128;
/// Clients closed in a turn: each takes the kernel ten microseconds and more.
pub(crate) const CLOSES_PER_TURN: usize = 32;

/// How far the order at hand has come.
#[derive(Default)]
pub(crate) struct Obeying {
    /// The client's place to look at next.
    at: usize,
    portraits: Vec<Portrait>,
    killed_count: u64,
    found: Found,
    pub(crate) users: Walk,
    /// DEBUG SLEEP: no turn does anything before.
    pub(crate) sleeps_until_ns: Option<u64>,
}

/// An order that is reported when what clients of this lane have begun is over. It keeps no other order waiting.
#[derive(Clone, Copy)]
pub(crate) struct OrderOfHold {
    ticket: u64,
    charge: u16,
}

impl Lane {
    /// Carries out the next order, or a turn's share of it.
    #[cold]
    pub(crate) fn obey<N: Net>(&mut self, net: &mut N) {
        let Some(Ordered { ticket, charge, order }) = self.core.orders.front() else { return };
        let (ticket, charge, order) = (*ticket, *charge, order.clone());
        let report = match order {
            Order::Census => Some(Report::Census(Box::new(self.census(net)))),
            Order::List(filter) => {
                self.list(&filter, net).then(|| Report::List(std::mem::take(&mut self.obeying).portraits))
            }
            Order::Kill(filter) => self
                .kill(&filter, net)
                .then(|| Report::Killed(std::mem::take(&mut self.obeying).killed_count)),
            Order::Pause(pause) => {
                self.core.set_pause(Some(pause.and(self.core.pause)));
                Some(Report::Done)
            }
            Order::Settle => {
                self.core.orders.pop_front();
                self.settlings.push(Settling::new(ticket, charge));
                return;
            }
            Order::Unpause => {
                self.end_pause();
                Some(Report::Done)
            }
            Order::HoldWrites(true) => {
                self.core.orders.pop_front();
                self.core.set_holds_writes(true);
                self.holding = Some(OrderOfHold { ticket, charge });
                return;
            }
            Order::HoldWrites(false) => {
                self.core.set_holds_writes(false);
                self.release_all();
                self.report_hold();
                Some(Report::Done)
            }
            Order::Monitor { lane, client } => {
                self.core.set_monitored(true);
                if lane == self.core.id {
                    match self.clients.get_mut(Handle::from_bits(client)) {
                        Some(client) => client.is_monitor = true,
                        None => self.core.tell_monitor_gone(client),
                    }
                }
                Some(Report::Done)
            }
            Order::EndMonitor => {
                self.core.set_monitored(false);
                Some(Report::Done)
            }
            Order::Inspect(db, key) => Some(self.inspect(db, &key).map_or(Report::Done, Report::Object)),
            Order::ActiveExpiry(is_on) => {
                self.core.expires_actively = is_on;
                self.core.space.shard.set_active_expiry(is_on && !self.core.settings.is_loading);
                Some(Report::Done)
            }
            Order::Sleep(ns) => match self.obeying.sleeps_until_ns.take() {
                None => {
                    self.obeying.sleeps_until_ns = Some(self.core.space.now.mono_ns.saturating_add(ns));
                    None
                }
                // A turn has come this far: the time is over.
                Some(_) => Some(Report::Done),
            },
            Order::Users(change) => self.change_users(&change, net).then_some(Report::Done),
            Order::Settings(settings) => {
                if self.core.space.set_room(settings.room_size(), settings.policy) {
                    self.core.tell_crowded();
                }
                self.core.space.bulk_size_max = settings.string_size_max();
                self.core.space.writes_refused = settings.writes_refused;
                self.core.space.set_following(settings.follows);
                self.core.space.dumping.compresses = settings.compresses_dumps;
                let lane_count = self.core.lane_count;
                self.core.space.tracked.set_key_count_max(settings.tracked_count_max, lane_count);
                self.core.space.set_events(settings.events_now());
                // Which doors a lane has is its own.
                let doors = std::mem::take(&mut self.core.settings.doors);
                if self.core.settings.is_loading != settings.is_loading {
                    let expires = self.core.expires_actively && !settings.is_loading;
                    self.core.space.shard.set_active_expiry(expires);
                    self.release_all();
                }
                let has_other_bound = self.core.settings.clients_size_max != settings.clients_size_max;
                self.core.settings = Settings { doors, ..(*settings).clone() };
                self.core.output_noticed_size = settings.output_noticed_size();
                self.core.oversee();
                self.core.asks_for_queues = false;
                self.core.space.scripts.set_memory_max(settings.script_memory_max);
                self.core.timing.obey(&settings);
                // The next turn begins with a look at clients by the new bound, whether anybody wakes this lane or not.
                (!has_other_bound).then_some(Report::Done)
            }
            Order::Scripts(order) => {
                self.core.space.scripts.obey(order);
                Some(Report::Done)
            }
            Order::Survey(query) => self.core.survey(&query, &mut self.obeying.found).then(|| {
                let Found { names, counts, .. } = std::mem::take(&mut self.obeying.found);
                match *query {
                    Query::Names(..) => Report::Names(names),
                    Query::Counts(..) => Report::Counts(counts),
                }
            }),
            Order::KillScripts { before_ns, are_functions } => {
                Some(self.core.kill_scripts(before_ns, are_functions))
            }
            Order::FindFunction => Some(Report::Function(self.core.running_function().map(Box::new))),
            Order::Replica { client } => Some(Report::Replica(self.make_replica(client, net))),
            Order::Sync { sync, epoch } => {
                self.core.orders.pop_front();
                return self.core.sync(ticket, charge, sync, epoch);
            }
            Order::Walk { sync } => Some(self.core.space.walk(sync)),
            Order::EndSnapshot { sync } => {
                self.core.space.abandon_snapshot(sync);
                if self.core.space.has_snapshot() {
                    // Others need not wait for that.
                    self.core.orders.rotate_left(1);
                    return;
                }
                Some(Report::Done)
            }
            // The report comes when the key's lock has.
            Order::Read(departure) => {
                self.core.orders.pop_front();
                return self.core.read_departing(ticket, charge, &departure);
            }
            Order::Delete(departure) => {
                self.core.orders.pop_front();
                return self.core.end_departing(ticket, charge, &departure);
            }
            Order::Forget(watch) => {
                self.core.forget_departure(watch);
                Some(Report::Done)
            }
            Order::Track(track) => Some(Report::Tracking(self.core.track(&track, &mut self.clients))),
            Order::Wishes { lane, wishes } => {
                self.core.space.set_wishes(lane, &wishes);
                Some(Report::Done)
            }
            Order::EndFeed { epoch } => {
                self.core.space.end_feed(epoch);
                Some(Report::Done)
            }
            Order::ResetStats => {
                self.core.stats.reset();
                self.core.space.shard.forget_counts();
                self.core.space.tally = Tally::default();
                self.core.space.documents.tally = documents::Tally::default();
                self.core.timing = Timing::new(&self.core.settings);
                self.traffic_then = Traffic::of(&net.counters());
                Some(Report::Done)
            }
        };
        if let Some(report) = report {
            self.core.orders.pop_front();
            let control = self.core.lane_count;
            self.core.peer(control).report(ticket, charge, report);
        }
    }

    /// What writes is held back here; with [`Lane::holding`] it is to be said now.
    pub(crate) fn report_hold(&mut self) {
        if let Some(OrderOfHold { ticket, charge }) = self.holding.take() {
            let control = self.core.lane_count;
            self.core.peer(control).report(ticket, charge, Report::Done);
        }
    }

    fn census<N: Net>(&self, net: &N) -> Census {
        let traffic = Traffic::of(&net.counters()).since(self.traffic_then);
        let mut stats = self.stats();
        stats.clients_rejected += traffic.refused;
        let shard = &self.core.space.shard;
        Census {
            stats,
            memory: shard.memory(),
            databases: self
                .core
                .settings
                .databases()
                .map(|db| Holding {
                    keys: shard.count(db),
                    expiring: shard.expiring_count(db),
                    ends: shard.ends(db),
                    held: shard.held_by(db),
                })
                .collect(),
            buffers: self.watchman.recent.largest(self.core.space.now.mono_ns),
            tally: self.core.space.tally.clone(),
            documents: self.core.space.documents.tally,
            times: self.core.timing.times.clone(),
            turns: self.core.timing.turns.clone(),
            turn_longest: self.core.timing.turn_longest,
            traffic,
            ring_depth: self.core.ring_depth(),
            scripts_size: self.core.space.scripts.memory_size() as u64,
            blocked_count: self.core.held.count as u64,
            name_counts: [Kind::Channel, Kind::Pattern, Kind::Shard]
                .map(|kind| self.core.pubsub.subscribers.count(kind) as u64),
        }
    }

    /// DEBUG OBJECT's line of a key, if this lane has it.
    fn inspect(&self, db: u16, bytes: &[u8]) -> Option<String> {
        let (shard, unix_ms) = (&self.core.space.shard, self.core.space.now.unix_ms);
        let entry = shard.get(&shard.key(db, Slot::of(bytes).number(), bytes), unix_ms)?;
        let idle_s = shard.idle_s(&entry);
        let clock_s = u32::try_from(unix_ms.div_euclid(1000) & 0xff_ffff).expect("24 bits");
        Some(format!(
            "Value at:{:p} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{idle_s}",
            entry.key().as_ptr(),
            entry.encoding(),
            entry.value().len(),
            clock_s.wrapping_sub(idle_s) & 0xff_ffff,
        ))
    }

    /// Portrays a turn's share of the clients; true when all have been looked at.
    fn list<N: Net>(&mut self, filter: &Filter, net: &mut N) -> bool {
        let now_ns = self.core.space.now.mono_ns;
        let end = self.clients.place_count().min(self.obeying.at + CLIENTS_PER_TURN);
        for place in self.obeying.at..end {
            let Some((handle, client)) = self.clients.at(place) else { continue };
            if filter.covers(client, &self.core.settings, now_ns) {
                let kept = net.kept(client.conn);
                let (handle, tracking) = (handle.to_bits(), self.core.tracking.shown(handle.to_bits()));
                let portrait = Portrait::of(client, self.core.id, kept);
                self.obeying.portraits.push(Portrait { handle, tracking, ..portrait });
            }
        }
        self.obeying.at = end;
        end == self.clients.place_count()
    }

    /// Closes a turn's share of the clients; true when all have been looked at. The one that asked has its reply first.
    fn kill<N: Net>(&mut self, filter: &Filter, net: &mut N) -> bool {
        let now_ns = self.core.space.now.mono_ns;
        let end = self.clients.place_count().min(self.obeying.at + CLIENTS_PER_TURN);
        let mut closes_left = CLOSES_PER_TURN;
        for place in self.obeying.at..end {
            let Some((handle, client)) = self.clients.at(place) else { continue };
            if !filter.covers(client, &self.core.settings, now_ns) {
                continue;
            }
            if closes_left == 0 {
                self.obeying.at = place;
                return false;
            }
            closes_left -= 1;
            self.obeying.killed_count += 1;
            let (conn, is_asker) = (client.conn, client.id == filter.asker_id);
            self.clients.get_mut(handle).expect("just looked at").is_leaving = true;
            if is_asker {
                self.stirred.push(handle);
            } else {
                net.close(conn, Close::Now);
            }
        }
        self.obeying.at = end;
        end == self.clients.place_count()
    }
}

impl Core {
    /// Bytes of asks of other lanes that this one has seen and not come to yet.
    fn ring_depth(&self) -> u64 {
        let lanes = self.peers.iter().take(usize::from(self.lane_count)).flatten();
        lanes.map(|peer| peer.asks_in.seen_size() as u64).sum()
    }
}
