//! The map of slots in the words of a Redis Cluster: each lane's own port is a node, the shared port is none.
//!
//! The lane that answers is the node that says `myself`. Nodes are up as long as the process is: they are its threads.

use net::Address;
use store::Budget;
use wire::command::Id;
use wire::reply::{self, Proto, Put};
use wire::route::{LaneId, PartitionMap, SLOTS, Slot};

use crate::Settings;
use crate::commands::NOT_AN_INTEGER;
use crate::keyspace::{Call, Keyspace};

/// How far a cluster's bus port is from its clients' port. Nothing listens there; clients expect to be told.
const BUS_PORT_DISTANCE: u16 = 10_000;

/// What the answers are made of.
pub(crate) struct View<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) map: &'a PartitionMap,
    /// The lane that answers.
    pub(crate) lane: u16,
    /// Where the client connected to: other lanes have the same host.
    pub(crate) local: Address,
    pub(crate) proto: Proto,
}

impl View<'_> {
    /// CLUSTER with a subcommand that needs no keys. False if it is none of those.
    pub(crate) fn answer(&self, id: Id, out: &mut impl Put) -> bool {
        if self.settings.lane_ports.is_none() && id != Id::ClusterHelp {
            reply::error(out, "ERR This instance has cluster support disabled");
            return true;
        }
        match id {
            Id::ClusterSlots => self.slots(out),
            Id::ClusterShards => self.shards(out),
            Id::ClusterNodes => reply::verbatim(out, self.proto, b"txt", self.nodes().as_bytes()),
            Id::ClusterInfo => reply::verbatim(out, self.proto, b"txt", self.info().as_bytes()),
            Id::ClusterMyid => reply::bulk(out, self.settings.node_id(self.lane).as_bytes()),
            _ => return false,
        }
        true
    }

    fn slots(&self, out: &mut impl Put) {
        reply::array(out, self.map.runs().len());
        for &(first, last, lane) in self.map.runs() {
            let (host, port) = self.settings.lane_ends(lane.0, self.local);
            reply::array(out, 3);
            reply::integer(out, i64::from(first.number()));
            reply::integer(out, i64::from(last.number()));
            reply::array(out, 4);
            reply::bulk(out, host.as_bytes());
            reply::integer(out, i64::from(port));
            reply::bulk(out, self.settings.node_id(lane.0).as_bytes());
            reply::map(out, self.proto, 0);
        }
    }

    fn shards(&self, out: &mut impl Put) {
        reply::array(out, usize::from(self.map.lanes()));
        for lane in 0..self.map.lanes() {
            let ranges = || self.map.ranges(LaneId(lane));
            let (host, port) = self.settings.lane_ends(lane, self.local);
            reply::map(out, self.proto, 2);
            reply::bulk(out, b"slots");
            reply::array(out, 2 * ranges().count());
            for (first, last) in ranges() {
                reply::integer(out, i64::from(first.number()));
                reply::integer(out, i64::from(last.number()));
            }
            reply::bulk(out, b"nodes");
            reply::array(out, 1);
            reply::map(out, self.proto, 7);
            reply::bulk(out, b"id");
            reply::bulk(out, self.settings.node_id(lane).as_bytes());
            reply::bulk(out, b"port");
            reply::integer(out, i64::from(port));
            for (name, value) in [("ip", host.as_str()), ("endpoint", &host), ("role", "master")] {
                reply::bulk(out, name.as_bytes());
                reply::bulk(out, value.as_bytes());
            }
            reply::bulk(out, b"replication-offset");
            reply::integer(out, 0);
            reply::bulk(out, b"health");
            reply::bulk(out, b"online");
        }
    }

    /// One line a node: `id host:port@bus flags master ping pong epoch link slots…`.
    fn nodes(&self) -> String {
        let mut text = String::new();
        for lane in 0..self.map.lanes() {
            let (host, port) = self.settings.lane_ends(lane, self.local);
            let bus = port.saturating_add(BUS_PORT_DISTANCE);
            let flags = if lane == self.lane { "myself,master" } else { "master" };
            let (id, epoch) = (self.settings.node_id(lane), self.map.epoch);
            text += &format!("{id} {host}:{port}@{bus} {flags} - 0 0 {epoch} connected");
            for (first, last) in self.map.ranges(LaneId(lane)) {
                text += &if first == last {
                    format!(" {}", first.number())
                } else {
                    format!(" {}-{}", first.number(), last.number())
                };
            }
            text.push('\n');
        }
        text
    }

    fn info(&self) -> String {
        let (lanes, epoch) = (self.map.lanes(), self.map.epoch);
        format!(
            "cluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\n\
             cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{lanes}\r\ncluster_size:{lanes}\r\n\
             cluster_current_epoch:{epoch}\r\ncluster_my_epoch:{epoch}\r\ncluster_stats_messages_sent:0\r\n\
             cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n"
        )
    }
}

/// The slot that an argument names.
pub(crate) fn slot(text: &[u8]) -> Option<Slot> {
    wire::number::parse_i64(text).and_then(|number| u16::try_from(number).ok()).and_then(Slot::new)
}

/// Most keys that one CLUSTER GETKEYSINSLOT gives: what a step of a lane may cost. Who wants more deletes or moves these
/// and asks again.
const KEYS_MAX: usize = 1024;

/// CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT, on the lane that was asked; a slot of another lane has no keys here.
pub(crate) fn keys_in_slot(space: &Keyspace, call: &Call<'_>, out: &mut impl Put) {
    // The last argument is a number, too: of keys, or the slot.
    if [2, call.args.len() - 1].iter().any(|at| wire::number::parse_i64(call.args.flat(*at)).is_none()) {
        return reply::error(out, NOT_AN_INTEGER);
    }
    let slot = slot(call.args.flat(2));
    if call.command.id == Id::ClusterCountkeysinslot {
        let Some(slot) = slot else { return reply::error(out, "ERR Invalid slot") };
        let count = space.shard.count_partition(call.db, slot.number());
        return reply::integer(out, i64::try_from(count).expect("keys are fewer than 2^63"));
    }
    let count = wire::number::parse_i64(call.args.flat(3)).and_then(|count| usize::try_from(count).ok());
    let (Some(slot), Some(count)) = (slot, count) else {
        return reply::error(out, "ERR Invalid slot or number of keys");
    };
    let count = count.min(KEYS_MAX);
    let first = u64::from(slot.number()) << 48;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut cursor = first;
    while keys.len() < count {
        let mut budget = Budget::new(16, u32::MAX);
        cursor = space.shard.scan(call.db, cursor, space.now.unix_ms, &mut budget, &mut |key, _| {
            if Slot::of(key) == slot {
                keys.push(key.to_vec());
            }
        });
        if cursor >> 48 != u64::from(slot.number()) || cursor == 0 {
            break;
        }
    }
    keys.truncate(count);
    reply::array(out, keys.len());
    for key in keys {
        reply::bulk(out, &key);
    }
}
