//! What was counted, and the table that the program counts in.
//!
//! The table is an array with a place for each pair of lane and queue, and in each place a value for each cpu:
//!
//! ```text
//!   place = (0 for no lane, else lane + 1) * (queues + 1) + (0 where the queue is unknown, else queue + 1)
//!   value = packets: u64, bytes: u64      one for each possible cpu, one after the other
//! ```

use serde::{Deserialize, Serialize};

/// Bytes of a value of one cpu.
pub(super) const VALUE_SIZE: u32 = 16;

/// What arrived at a card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The card.
    pub nic: String,
    /// What is not zero, ascending by lane, queue and cpu.
    pub cells: Vec<Cell>,
}

/// Packets that had these three in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The lane's place in the plan, or no lane.
    pub lane: Option<usize>,
    /// The receive queue, where the driver recorded it.
    pub queue: Option<u32>,
    /// The cpu that did their protocol work.
    pub cpu: u32,
    /// Packets, as they were on the wire.
    pub packets: u64,
    /// Bytes, with Ethernet's header.
    pub bytes: u64,
}

/// Values of the low half of a place's number: queues and "unknown".
pub(super) fn queue_slot_count(queue_count: u32) -> u32 {
    queue_count + 1
}

/// Places in the table; `None`: more than can be numbered.
pub(super) fn slot_count(lane_count: u32, queue_count: u32) -> Option<u32> {
    lane_count.checked_add(1)?.checked_mul(queue_count.checked_add(1)?)
}

/// The cells of a place: `per_cpu` holds a value for each cpu, `lanes` the lanes' places in the plan.
pub(super) fn decode(slot: u32, queue_count: u32, per_cpu: &[u8], lanes: &[usize]) -> Vec<Cell> {
    let slots = queue_slot_count(queue_count);
    let lane = (slot / slots).checked_sub(1).map(|lane| lanes[usize::try_from(lane).expect("32 bits fit")]);
    let queue = (slot % slots).checked_sub(1);
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let values = per_cpu.chunks_exact(usize::try_from(VALUE_SIZE).expect("a constant"));
    (0..)
        .zip(values)
        .map(|(cpu, value)| Cell { lane, queue, cpu, packets: word(&value[..8]), bytes: word(&value[8..]) })
        .filter(|cell| cell.packets > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &[(u64, u64)]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|(packets, bytes)| [packets.to_ne_bytes(), bytes.to_ne_bytes()].concat())
            .collect()
    }

    #[test]
    fn a_place_is_a_lane_and_a_queue() {
        // Four queues: five values of the low half. Lanes 2 and 7 of the plan are this card's.
        let check = |slot: u32, lane: Option<usize>, queue: Option<u32>| {
            let cells = decode(slot, 4, &values(&[(3, 180)]), &[2, 7]);
            assert_eq!(cells, [Cell { lane, queue, cpu: 0, packets: 3, bytes: 180 }], "{slot}");
        };
        check(0, None, None);
        check(1, None, Some(0));
        check(4, None, Some(3));
        check(5, Some(2), None);
        check(6, Some(2), Some(0));
        check(14, Some(7), Some(3));
        assert_eq!(slot_count(2, 4), Some(15), "and that was the last");
        assert_eq!((slot_count(u32::MAX, 4), slot_count(1 << 16, 1 << 16)), (None, None));
    }

    #[test]
    fn each_cpu_has_its_cell_and_zeros_none() {
        let cells = decode(1, 2, &values(&[(0, 0), (5, 500), (0, 0), (1, 60)]), &[]);
        let seen: Vec<_> = cells.iter().map(|cell| (cell.cpu, cell.packets, cell.bytes)).collect();
        assert_eq!(seen, [(1, 5, 500), (3, 1, 60)]);
    }
}
