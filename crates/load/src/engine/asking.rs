//! Requests out: which is next, over which connection, and when it was handed to the net.

use net::{Net, Output};

use super::{Asked, Connection, Engine, Failure, Next};
use crate::chance::Chance;
use crate::protocol::Protocol;
use crate::workload::{Distribution, Operation, Sizes};

/// Requests begun in one turn at a rate: behind them replies are taken in, however late the schedule is.
const BEGUN_PER_TURN: usize = 256;

impl<P: Protocol, C: Fn() -> u64> Engine<P, C> {
    /// Whether no request begins at that time any more.
    pub(super) fn is_over(&self, due_ns: u64) -> bool {
        self.started >= self.plan.requests_max
            || due_ns.saturating_sub(self.began_ns) >= self.plan.duration_ns
    }

    /// At a rate: begins what is due by now.
    pub(super) fn begin_due<N: Net>(&mut self, now_ns: u64, net: &mut N) -> Result<Next, Failure> {
        let mut due_ns = self.schedule.due_ns().expect("a rate has times");
        if now_ns > due_ns && self.in_flight() == 0 {
            // Nothing was owed until now.
            self.heard_ns = now_ns;
        }
        for _ in 0..BEGUN_PER_TURN {
            if self.is_over(due_ns) {
                return Ok(Next::Replies);
            }
            if due_ns > now_ns {
                break;
            }
            if self.in_flight() >= self.plan.in_flight_max {
                return Err(Failure::Behind(self.plan.in_flight_max));
            }
            let key = self.keys.next();
            let index = self.connection_for(key);
            // A connection that is gone is told of in the next poll, and ends the run.
            let Some(output) = net.output(self.connections[index].conn) else { return Ok(Next::Replies) };
            self.begin(index, key, due_ns, output);
            self.schedule.advance();
            due_ns = self.schedule.due_ns().expect("a rate has times");
        }
        Ok(Next::At(due_ns))
    }

    /// One to the node that owns the key. The connections of a node take turns; where each carries one request, those that have
    /// none come first.
    fn connection_for(&mut self, key: u32) -> usize {
        let node = if self.nodes.count() == 1 { 0 } else { self.nodes.owner(self.keys.slot(key)) };
        let count = self.connections.len();
        let mut index = self.turns[node];
        while self.connections[index].node != node {
            index = (index + 1) % count;
        }
        if P::IS_SERIAL {
            let is_idle =
                |at: &usize| self.connections[*at].node == node && self.connections[*at].asked.is_empty();
            index = (index..count).chain(0..index).find(is_idle).unwrap_or(index);
        }
        self.turns[node] = (index + 1) % count;
        index
    }

    /// In a closed pace: the next batch of each connection whose last one is answered.
    pub(super) fn begin_batches<N: Net>(&mut self, now_ns: u64, net: &mut N) {
        let is_one = self.nodes.count() == 1;
        // Every key in its turn, whoever owns it: else a node that is quicker would begin anew before the others are through.
        let is_sequence = self.plan.workload.key_distribution == Distribution::Sequential;
        let mut free = std::mem::take(&mut self.free);
        for index in free.drain(..) {
            let Connection { conn, node, free_since_ns, answered_count, .. } = self.connections[index];
            self.connections[index].answered_count = 0;
            if is_sequence && !is_one {
                for _ in 0..answered_count {
                    if self.is_over(now_ns) {
                        break;
                    }
                    let key = self.keys.next();
                    let index = self.connection_for(key);
                    let Some(output) = net.output(self.connections[index].conn) else { break };
                    self.begin(index, key, free_since_ns, output);
                }
                continue;
            }
            let Some(output) = net.output(conn) else { continue };
            for _ in 0..self.plan.pipeline {
                if self.is_over(now_ns) {
                    break;
                }
                let nodes = &self.nodes;
                let key =
                    if is_one { self.keys.next() } else { self.keys.next_of(node, |slot| nodes.owner(slot)) };
                self.begin(index, key, free_since_ns, output);
            }
        }
        self.free = free;
    }

    /// Requests whose key has moved, to whom it belongs now.
    pub(super) fn ask_again<N: Net>(&mut self, net: &mut N) {
        for asked in std::mem::take(&mut self.moved) {
            let index = self.connection_for(asked.key);
            let Some(output) = net.output(self.connections[index].conn) else { continue };
            self.put(index, asked, output);
        }
    }

    /// Requests whose connection is free now.
    pub(super) fn release<N: Net>(&mut self, now_ns: u64, net: &mut N) {
        while let Some(index) = self.released.pop() {
            let connection = &mut self.connections[index];
            if !connection.asked.is_empty() {
                continue;
            }
            let Some(asked) = connection.held.pop_front() else { continue };
            let Some(output) = net.output(connection.conn) else { continue };
            self.put(index, Asked { ready_ns: now_ns, ..asked }, output);
        }
    }

    #[inline]
    fn begin(&mut self, index: usize, key: u32, intended_ns: u64, output: &mut Output) {
        let operations = &self.plan.workload.operations.0;
        let mut operation = 0;
        if operations.len() > 1 {
            let mut at = self.chance.below(self.weights_sum);
            while at >= u64::from(operations[operation].1) {
                at -= u64::from(operations[operation].1);
                operation += 1;
            }
        }
        let size = match &self.plan.workload.value_size {
            Sizes::Fixed(size) => *size,
            sizes if operations[operation].0 == Operation::Set => draw(sizes, &mut self.chance),
            _ => 0,
        };
        let asked = Asked {
            intended_ns,
            ready_ns: intended_ns,
            sent_ns: intended_ns,
            key,
            size: u32::try_from(size).expect("values are at most 512 MB"),
            operation: u8::try_from(operation).expect("a mix has few operations"),
        };
        self.started += 1;
        self.record.begun(self.started - self.answered);
        self.put(index, asked, output);
    }

    #[inline]
    fn put(&mut self, index: usize, asked: Asked, output: &mut Output) {
        let connection = &mut self.connections[index];
        if P::IS_SERIAL && !connection.asked.is_empty() {
            return connection.held.push_back(asked);
        }
        let mut first = Some(asked.key);
        let keys = &mut self.keys;
        let mut key = || first.take().unwrap_or_else(|| keys.next());
        let size = usize::try_from(asked.size).expect("32 bits");
        self.protocol.put(usize::from(asked.operation), &mut key, size, output);
        connection.asked.push_back(asked);
        if connection.unsent_count == 0 {
            self.fresh.push(index);
        }
        connection.unsent_count += 1;
    }

    /// Everything begun goes out. One look at the clock for all of it: that is when the net gets it, behind which the system
    /// sends connection by connection.
    pub(super) fn hand_over<N: Net>(&mut self, net: &mut N) {
        if !self.fresh.is_empty() {
            let sent_ns = (self.clock)();
            for index in self.fresh.drain(..) {
                let connection = &mut self.connections[index];
                let from = connection.asked.len() - connection.unsent_count;
                connection.unsent_count = 0;
                for asked in connection.asked.range_mut(from..) {
                    asked.sent_ns = sent_ns;
                    self.record.sent(sent_ns.saturating_sub(asked.ready_ns));
                }
            }
        }
        net.flush();
    }
}

fn draw(sizes: &Sizes, chance: &mut Chance) -> usize {
    match sizes {
        Sizes::Fixed(size) => *size,
        Sizes::Uniform(min, max) => {
            let span = u64::try_from(max - min).expect("a size fits 64 bits") + 1;
            min + usize::try_from(chance.below(span)).expect("a part of a size")
        }
        Sizes::List(list) => {
            let mut at = chance.below(list.iter().map(|(_, weight)| u64::from(*weight)).sum());
            for (size, weight) in list {
                if at < u64::from(*weight) {
                    return *size;
                }
                at -= u64::from(*weight);
            }
            unreachable!("chance stays below the sum of the weights")
        }
    }
}
