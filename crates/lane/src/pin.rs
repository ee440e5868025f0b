//! Auto-pin: a new connection goes to the lane on whose core its packets arrive, so that the interrupt, the kernel's share of
//! the work and the lane's meet in one cache, and no packet has to wake another core.
//!
//! The kernel tells of each connection by which cpu (`SO_INCOMING_CPU`) or by which NAPI instance of which network card
//! (`SO_INCOMING_NAPI_ID`) its last packet came. It is asked once, when the connection is let in and before anything is read:
//! only then may a connection change lanes. Cpus belong to the lanes that are pinned to them. NAPI instances come and go with
//! their card, so the control thread asks the machine for them, again and again (`control/queues.rs`), and tells the lanes:
//!
//! ```text
//!   accept ── NAPI id ──▶ table ──▶ queue ──▶ its lane      this one: stays.  Another: given away (shared port), or counted as
//!                │          │                               leaking (a lane's own port: the client chose, mend the filter)
//!                │          └─ not there: counted, asked for, and placed by load as without auto-pin
//!                └─ 0 (loopback, a card without NAPI): counted, and placed by load
//! ```
//! Nothing is guessed: an id without an entry is nobody's, however it divides.

use std::collections::BTreeMap;

use net::{Address, ConnId, Net};

use crate::client::{Door, Port};
use crate::peers::ControlKind;
use crate::turn::Lane;

/// Queues that a table holds; those beyond, in the order of cards and queues, are unknown to it.
pub const QUEUE_COUNT_MAX: usize = 4096;

/// How a new TCP connection finds its lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoPin {
    /// By load: whoever accepts it keeps it, unless another lane has at least two clients fewer.
    #[default]
    None,
    /// By the cpu that took in its packets.
    Cpu,
    /// By load, like `None`; but all lanes are on the memory node of the card that their address belongs to, which is the
    /// doing of who starts them.
    Numa,
    /// By the queue of the network card over which they came. The name is that of the cards' feature which gives an
    /// application queues of its own (Application Device Queues).
    Adq,
}

impl AutoPin {
    /// As the setting is written.
    pub fn name(self) -> &'static str {
        match self {
            AutoPin::None => "none",
            AutoPin::Cpu => "cpu",
            AutoPin::Numa => "numa",
            AutoPin::Adq => "adq",
        }
    }
}

/// A receive queue of a network card, as the machine tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// The card's interface.
    pub card: String,
    /// The queue's number on that card; `None` where only its NAPI instance is known.
    pub index: Option<u32>,
    /// The NAPI instance that polls it, until the card's link goes down. Never 0.
    pub napi_id: u32,
    /// The interrupt that starts the polling; virtual cards have none.
    pub irq: Option<u32>,
    /// The one cpu on which its packets are taken in; `None` where that may be any.
    pub cpu: Option<usize>,
}

/// Which lane serves which queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueTable {
    /// Ascending by NAPI id, each once, [`QUEUE_COUNT_MAX`] at most.
    served: Vec<Served>,
}

/// A queue, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Served {
    queue: Queue,
    lane: Option<u16>,
    is_by_core: bool,
}

/// What became of a card's queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dealt {
    /// The card's interface.
    pub card: String,
    /// Its queues.
    pub count: usize,
    /// Those that a lane serves.
    pub served_count: usize,
    /// Whether cores say which; otherwise they were dealt in order.
    pub is_by_core: bool,
}

impl QueueTable {
    /// Finds a lane for each queue. A queue whose packets are taken in on a lane's core is that lane's. Of a card on which that
    /// holds for some queue, the others are nobody's: their packets are for somebody else, or go astray. A card of which it
    /// holds for none (its interrupts are elsewhere, or the machine does not say where) has its queues dealt to the lanes in
    /// order, the first to the first, and around again; but for those of which nobody knows their number, which are nobody's.
    pub fn deal(mut queues: Vec<Queue>, lane_cpus: &[Option<usize>]) -> QueueTable {
        queues.retain(|queue| queue.napi_id != 0);
        queues.sort_by(|a, b| (&a.card, a.index, a.napi_id).cmp(&(&b.card, b.index, b.napi_id)));
        queues.truncate(QUEUE_COUNT_MAX);
        let mut served: Vec<Served> = Vec::with_capacity(queues.len());
        for card in queues.chunk_by(|a, b| a.card == b.card) {
            let own = |queue: &Queue| queue.cpu.and_then(|cpu| lane_of_cpu(lane_cpus, cpu));
            let is_placed = card.iter().any(|queue| own(queue).is_some());
            let mut in_order = (0..lanes_count(lane_cpus)).cycle();
            served.extend(card.iter().map(|queue| {
                let lane = match queue.index {
                    _ if is_placed => own(queue),
                    Some(_) => in_order.next(),
                    None => None,
                };
                Served { queue: queue.clone(), lane, is_by_core: is_placed }
            }));
        }
        served.sort_by_key(|served| served.queue.napi_id);
        served.dedup_by_key(|served| served.queue.napi_id);
        QueueTable { served }
    }

    /// Whose connections a NAPI instance brings: `None` for one that is not in the table, `Some(None)` for a queue that is no
    /// lane's.
    fn lane_of(&self, napi_id: u32) -> Option<Option<u16>> {
        let at = self.served.binary_search_by_key(&napi_id, |served| served.queue.napi_id).ok()?;
        Some(self.served[at].lane)
    }

    /// The queues of a lane, ascending by NAPI id.
    pub fn of_lane(&self, lane: u16) -> impl Iterator<Item = &Queue> {
        self.served.iter().filter(move |served| served.lane == Some(lane)).map(|served| &served.queue)
    }

    /// What became of each card's queues, by the cards' names.
    pub fn cards(&self) -> Vec<Dealt> {
        let mut cards: BTreeMap<&str, Dealt> = BTreeMap::new();
        for Served { queue, lane, is_by_core } in &self.served {
            let dealt = cards.entry(&queue.card).or_insert_with(|| Dealt {
                card: queue.card.clone(),
                count: 0,
                served_count: 0,
                is_by_core: *is_by_core,
            });
            dealt.count += 1;
            dealt.served_count += usize::from(lane.is_some());
        }
        cards.into_values().collect()
    }
}

fn lanes_count(lane_cpus: &[Option<usize>]) -> u16 {
    u16::try_from(lane_cpus.len()).expect("lanes are counted in 16 bits")
}

fn lane_of_cpu(lane_cpus: &[Option<usize>], cpu: usize) -> Option<u16> {
    (0..).zip(lane_cpus).find(|(_, own)| **own == Some(cpu)).map(|(lane, _)| lane)
}

/// Where a connection's packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// At this lane's core or queue.
    At(u16),
    /// At a queue that is no lane's.
    Astray,
    /// Nobody knows.
    Unknown,
}

impl Lane {
    /// Sends a connection that has just been let in where it belongs.
    pub(crate) fn place<N: Net>(&mut self, conn: ConnId, door: Door, peer: Address, net: &mut N) {
        // Behind a Unix socket there are no packets.
        let asks = matches!(self.core.settings.auto_pin, AutoPin::Cpu | AutoPin::Adq);
        if asks && peer != Address::Unix {
            match (self.arrival(conn, net), door.port) {
                (Arrival::At(lane), _) if lane == self.core.id => {
                    self.core.stats.pin_placed += 1;
                    return;
                }
                (Arrival::At(lane), Port::Shared) => {
                    // The lane that gets it counts it.
                    if !self.hand_over(conn, door.dialect, lane, true, net) {
                        self.core.stats.pin_fallbacks += 1;
                    }
                    return;
                }
                (Arrival::At(_) | Arrival::Astray, Port::Lane) => self.core.stats.pin_leaking += 1,
                (Arrival::Astray, Port::Shared) | (Arrival::Unknown, _) => self.core.stats.pin_fallbacks += 1,
            }
        }
        if door.port == Port::Shared
            && let Some(lane) = self.core.board.lighter_lane(self.core.id)
        {
            self.hand_over(conn, door.dialect, lane, false, net);
        }
    }

    /// Asks the system once where a connection's packets arrive.
    fn arrival<N: Net>(&mut self, conn: ConnId, net: &mut N) -> Arrival {
        let settings = &self.core.settings;
        match settings.auto_pin {
            AutoPin::None | AutoPin::Numa => Arrival::Unknown,
            AutoPin::Cpu => {
                let cpu = net.cpu(conn).and_then(|cpu| usize::try_from(cpu).ok());
                cpu.and_then(|cpu| lane_of_cpu(&settings.lane_cpus, cpu))
                    .map_or(Arrival::Unknown, Arrival::At)
            }
            AutoPin::Adq => {
                let Some(napi_id) = net.queue(conn) else { return Arrival::Unknown };
                match settings.queues.lane_of(napi_id) {
                    Some(lane) => lane.map_or(Arrival::Astray, Arrival::At),
                    None => {
                        self.core.stats.pin_unknown += 1;
                        self.ask_for_queues();
                        Arrival::Unknown
                    }
                }
            }
        }
    }

    /// The table lacks an id: the control thread is to look again. Said once until there is another table.
    fn ask_for_queues(&mut self) {
        if !self.core.asks_for_queues {
            self.core.asks_for_queues = self.core.tell_control(ControlKind::UnknownQueue, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(card: &str, index: u32, napi_id: u32, cpu: Option<usize>) -> Queue {
        Queue { card: card.to_owned(), index: Some(index), napi_id, irq: None, cpu }
    }

    /// The lane of each queue in turn, `-` for nobody's.
    #[track_caller]
    fn check(queues: &[Queue], lane_cpus: &[Option<usize>], want: &str) {
        // The order in which the machine tells is no matter.
        let mut queues = queues.to_vec();
        queues.reverse();
        let table = QueueTable::deal(queues.clone(), lane_cpus);
        queues.reverse();
        let lanes: Vec<String> = queues
            .iter()
            .map(|queue| {
                table.lane_of(queue.napi_id).unwrap().map_or("-".to_owned(), |lane| lane.to_string())
            })
            .collect();
        assert_eq!(lanes.join(" "), want);
    }

    #[test]
    fn a_queue_is_the_lanes_on_whose_core_its_packets_arrive() {
        let cpus = [Some(2), Some(3)];
        let on = |cpus: [usize; 4]| {
            [0, 1, 2, 3].map(|i| queue("ens1", i, 100 + i, Some(cpus[usize::try_from(i).unwrap()])))
        };
        check(&on([2, 3, 2, 3]), &cpus, "0 1 0 1");
        check(&on([3, 3, 2, 2]), &cpus, "1 1 0 0");
        // The first two are the system's: what comes over them is not for the lanes.
        check(&on([0, 1, 2, 3]), &cpus, "- - 0 1");
        // No interrupt is on a lane's core: dealt in order.
        check(&on([8, 8, 9, 9]), &cpus, "0 1 0 1");
        check(&on([2, 3, 2, 3]), &[None, None], "0 1 0 1");
    }

    #[test]
    fn queues_of_which_nobody_says_where_are_dealt_in_order() {
        let veth: Vec<_> = (0..5).map(|i| queue("vs", i, 700 + i, None)).collect();
        check(&veth, &[Some(0), Some(1)], "0 1 0 1 0");
        check(&veth[..2], &[Some(0), Some(1), None], "0 1");
        // NAPI ids in another order than queues: queues count.
        let odd = [queue("vs", 0, 9, None), queue("vs", 1, 7, None), queue("vs", 2, 8, None)];
        check(&odd, &[None, None], "0 1 0");
        let unnumbered = |napi_id| Queue { index: None, ..queue("i", 0, napi_id, None) };
        check(&[unnumbered(1), unnumbered(2), queue("i", 0, 3, None)], &[None, None], "- - 0");
        // Each card begins with the first lane, and one card's interrupts say nothing of another's.
        let two = [
            queue("a", 0, 1, Some(1)),
            queue("a", 1, 2, None),
            queue("b", 0, 3, None),
            queue("b", 1, 4, None),
        ];
        check(&two, &[Some(0), Some(1)], "1 - 0 1");
    }

    #[test]
    fn what_became_of_a_card_can_be_told() {
        let queues = [queue("b", 0, 1, Some(9)), queue("a", 0, 2, Some(0)), queue("a", 1, 3, Some(7))];
        let dealt = |card: &str, count, served_count, is_by_core| Dealt {
            card: card.to_owned(),
            count,
            served_count,
            is_by_core,
        };
        let table = QueueTable::deal(queues.to_vec(), &[Some(0), None]);
        assert_eq!(table.cards(), [dealt("a", 2, 1, true), dealt("b", 1, 1, false)]);
        let own: Vec<u32> = table.of_lane(0).map(|queue| queue.napi_id).collect();
        assert_eq!(own, [1, 2]);
    }

    #[test]
    fn a_table_is_bounded_and_knows_no_zero() {
        let many: Vec<_> = (0..5000).map(|i| queue("a", i, i, None)).collect();
        let table = QueueTable::deal(many, &[None]);
        assert_eq!(
            (table.served.len(), table.lane_of(0), table.lane_of(4999)),
            (QUEUE_COUNT_MAX, None, None)
        );
        assert_eq!(table.lane_of(4096), Some(Some(0)));
        let twice = QueueTable::deal(vec![queue("a", 0, 5, None), queue("b", 0, 5, None)], &[None]);
        assert_eq!(twice.served.len(), 1);
        assert_eq!(QueueTable::deal(vec![queue("a", 0, 5, None)], &[]).lane_of(5), Some(None));
    }
}
