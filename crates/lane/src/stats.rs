//! What a lane counts. Plain numbers of one thread; they leave as a copy, in a report.

use crate::client::Dialect;

/// Commands of this lane's clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Whoever answered them.
    pub all: u64,
    /// Those of one key that this lane answered.
    pub direct: u64,
    /// Those that went to one other lane.
    pub forwarded: u64,
}

/// Since the lane began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Turns taken.
    pub turns: u64,
    /// Commands of this lane's clients, by what they speak (`Dialect as usize`).
    pub dialects: [Commands; Dialect::COUNT],
    /// Commands answered with MOVED.
    pub commands_moved: u64,
    /// Commands that took more than one lane or more than one step.
    pub transactions: u64,
    /// Commands of other lanes' clients that this lane answered.
    pub asks_served: u64,
    /// Parts refused, to be asked for again under a new number.
    pub parts_refused: u64,
    /// Commands that had to wait for a lock.
    pub lock_waits: u64,
    /// Clients now.
    pub clients: u64,
    /// Connections let in, those given to other lanes included.
    pub connections: u64,
    /// Connections given to other lanes.
    pub handovers: u64,
    /// Clients closed because they did not read their replies.
    pub clients_cut: u64,
    /// Bells due to other lanes.
    pub bells: u64,
    /// Most commands in a turn.
    pub turn_commands_max: u64,
    /// Most slices in a turn.
    pub turn_slices_max: u64,
    /// Longest turn, by the meter, of those in which the thread was not known to be preempted.
    pub turn_meter_max: u64,
    /// Clients turned away because there were `maxclients`.
    pub clients_rejected: u64,
    /// Slow commands that the log has no room for.
    pub slow_dropped: u64,
    /// What was denied to users and the log had no room for.
    pub denials_dropped: u64,
    /// Lines for clients that monitor for which there was no room.
    pub monitor_dropped: u64,
    /// Turns over the limit of `stall-warn` in which the thread had the processor.
    pub turns_stalled: u64,
    /// Turns over that limit in which the kernel let others run: the lane could do nothing about it.
    pub turns_preempted: u64,
    /// The longest of those, by the meter; they do not count in `turn_meter_max`.
    pub turn_preempted_meter_max: u64,
    /// Most bytes of asks of one other lane that waited when this lane looked.
    pub ring_depth_max: u64,
    /// Clients closed because all clients together held more than `maxmemory-clients`.
    pub clients_evicted: u64,
    /// Bytes that clients hold now: commands under way, replies that have not left.
    pub clients_size: u64,
    /// Most bytes of data and clients together, as of a turn's clients having been served. CONFIG RESETSTAT leaves it.
    pub memory_max: u64,
    /// Keys now, over all databases, documents included.
    pub keys: u64,
    /// Clients that track keys now, keys of this lane of which is known who has read them, and those who have.
    pub tracking_clients: u64,
    /// See `tracking_clients`.
    pub tracked_keys: u64,
    /// See `tracking_clients`.
    pub tracked_items: u64,
    /// Prefixes of which clients of any lane want to know now.
    pub tracked_prefixes: u64,
    /// See [`store::Shard::change_count`]. CONFIG RESETSTAT leaves it.
    pub changes: u64,
    /// With auto-pin: connections whose packets arrive at this lane's queue or core, and that this lane serves.
    pub pin_placed: u64,
    /// Those let in here of which that is not known, or no lane's; they went by load.
    pub pin_fallbacks: u64,
    /// Of the fallbacks, those that came by a queue which the table lacked.
    pub pin_unknown: u64,
    /// Connections to this lane's own port whose packets arrive at a queue or core that is not this lane's.
    pub pin_leaking: u64,
}

/// What went through a lane's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// System calls of all kinds, and those that gathered events, received and sent.
    pub(crate) calls: u64,
    pub(crate) waits: u64,
    pub(crate) receives: u64,
    pub(crate) sends: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Connections turned away for want of a descriptor.
    pub(crate) refused: u64,
}

impl Traffic {
    /// Since the net was made.
    pub(crate) fn of(counters: &net::Counters) -> Traffic {
        Traffic {
            calls: counters.system_calls(),
            waits: counters.waits,
            receives: counters.receives,
            sends: counters.sends,
            bytes_in: counters.bytes_in,
            bytes_out: counters.bytes_out,
            refused: counters.refused,
        }
    }

    /// What has been added to an earlier look at the same net.
    pub(crate) fn since(self, then: Traffic) -> Traffic {
        Traffic {
            calls: self.calls - then.calls,
            waits: self.waits - then.waits,
            receives: self.receives - then.receives,
            sends: self.sends - then.sends,
            bytes_in: self.bytes_in - then.bytes_in,
            bytes_out: self.bytes_out - then.bytes_out,
            refused: self.refused - then.refused,
        }
    }
}

impl Stats {
    /// Commands of this lane's clients, whatever they speak.
    pub fn commands(&self) -> Commands {
        self.dialects.iter().fold(Commands::default(), |sum, commands| Commands {
            all: sum.all + commands.all,
            direct: sum.direct + commands.direct,
            forwarded: sum.forwarded + commands.forwarded,
        })
    }

    /// What has been counted so far is forgotten; what is counted now stays, and the peak of memory as in Redis.
    pub(crate) fn reset(&mut self) {
        let Stats { clients, clients_size, memory_max, keys, .. } = *self;
        *self = Stats { clients, clients_size, memory_max, keys, ..Stats::default() };
    }
}
