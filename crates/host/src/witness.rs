//! What traffic really does: a program at the edge where a card's packets arrive counts them by lane, queue and cpu.
//!
//! Configuration says where packets should go; only packets say where they do. While it watches, a [`Witness`] has the kernel
//! run some hundred instructions on every packet that the card hands over, before any other filter and without changing it, and
//! takes itself away when it is stopped or dropped. What it counts:
//!
//! | | |
//! |---|---|
//! | lane | by protocol, destination port and, where the lane names `addresses`, destination address, IPv4 and IPv6, with up to one VLAN tag. Later fragments, IPv6 with extension headers and what is neither TCP nor UDP are no lane's |
//! | queue | that of the NAPI instance that polled the packet, else the one that the driver recorded; unknown where neither is known |
//! | cpu | the one that does the packet's protocol work: after RPS, where that is on |
//! | packets | as they were on the wire: what GRO has joined counts as many |
//! | bytes | with Ethernet's header; headers that GRO took away are missing |
//!
//! Where the kernel has no such programs there are the card's own counters ([`queues`]): they tell queues, not lanes.

mod counts;
mod edge;
mod program;
pub mod queues;

use std::fs;
use std::os::fd::OwnedFd;

pub use counts::{Cell, Counts};

use crate::bpf::{Map, MapKind, Program};
use crate::facts::Nic;
use crate::kernel::{Cause, Refusal};
use crate::plan::Placed;
use edge::{Edge, Hook};
use program::Tables;

/// Pairs of lane and queue that can be told apart, a mebibyte of the kernel's memory for each cpu.
pub const PLACES_MAX: u32 = 1 << 16;
/// Drivers that leave the sender's queue in the packet instead of recording the receiver's (`drivers/net/veth.c`).
const WITHOUT_RECORD: &[&str] = &["veth"];

/// Watches one card until it is stopped or dropped.
#[derive(Debug)]
pub struct Witness {
    nic: String,
    queue_count: u32,
    /// Places in the table.
    slots: u32,
    /// Lane's place in the plan, by its number in the program.
    lanes: Vec<usize>,
    counts: Map,
    hook: Option<Hook>,
    /// Held so that it lives as long as it may be attached.
    _program: Program,
}

/// Where the program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before all filters, and gone with this process however it ends: Linux 6.6.
    Link,
    /// As a filter of `tc`, which outlives a process that is killed; the next witness takes such a one away.
    Filter,
}

impl Witness {
    /// Begins to count the packets of a card, for those of the `lanes` that are this card's or no card's. Attaches where the
    /// kernel lets it: as a link, else as a filter.
    ///
    /// # Errors
    /// [`Cause::Gone`] where there is no such card, [`Cause::Forbidden`] with the capabilities that are missing, and what else
    /// the kernel says. Nothing is left behind then.
    pub fn start(nic: &Nic, lanes: &[Placed]) -> Result<Witness, Refusal> {
        match Witness::start_at(Place::Link, nic, lanes) {
            Err(refusal) if refusal.cause == Cause::Unsupported => {
                Witness::start_at(Place::Filter, nic, lanes)
            }
            result => result,
        }
    }

    /// As [`Witness::start`], at this place alone.
    ///
    /// # Errors
    /// As there; [`Cause::Unsupported`] where the kernel has no links at this edge.
    pub fn start_at(place: Place, nic: &Nic, lanes: &[Placed]) -> Result<Witness, Refusal> {
        let edge = Edge::of(&nic.name)?;
        let mine: Vec<usize> = (0..lanes.len())
            .filter(|&lane| lanes[lane].nic.as_ref().is_none_or(|name| *name == nic.name))
            .collect();
        let queue_count = nic.queues.iter().map(|queue| queue.index + 1).max().unwrap_or(0);
        let lane_count = u32::try_from(mine.len()).unwrap_or(u32::MAX);
        let places = counts::slot_count(lane_count, queue_count).filter(|places| *places <= PLACES_MAX);
        let Some(slots) = places else {
            let name = &nic.name;
            let problem = format!(
                "{lane_count} lanes and {queue_count} queues of {name} make more pairs than {PLACES_MAX}: watch fewer lanes"
            );
            return Err(Refusal::new(Cause::Invalid, problem));
        };
        let ports = (0_u32..)
            .zip(&mine)
            .flat_map(|(number, &lane)| keys(&lanes[lane]).into_iter().map(move |key| (key, number)));
        let ports = table("lane_ports", program::PORT_KEY_SIZE, ports)?;
        let napis =
            nic.queues.iter().filter_map(|queue| Some((queue.napi?.to_ne_bytes().to_vec(), queue.index + 1)));
        let napis = table("lane_napis", 4, napis)?;
        let counts = Map::new(MapKind::PerCpuArray, "lane_counts", 4, counts::VALUE_SIZE, slots)?;
        let is_recorded = !WITHOUT_RECORD.contains(&nic.driver.as_str());
        let tables = Tables { ports: &ports, napis: &napis, counts: &counts, queue_count, is_recorded };
        let program = Program::load(edge::NAME, &program::assemble(&tables))?;
        let hook = match place {
            Place::Link => Hook::Link(edge.link(&program)?),
            Place::Filter => edge.filter(&program, std::process::id(), is_alive)?,
        };
        let (nic, hook) = (nic.name.clone(), Some(hook));
        Ok(Witness { nic, queue_count, slots, lanes: mine, counts, hook, _program: program })
    }

    /// Where it is attached.
    #[must_use]
    pub fn place(&self) -> Place {
        match self.hook {
            Some(Hook::Filter(_)) => Place::Filter,
            _ => Place::Link,
        }
    }

    /// What has been counted since the start. Lanes are named by their place in the plan.
    ///
    /// # Errors
    /// The kernel's, in words.
    pub fn counts(&self) -> Result<Counts, Refusal> {
        let mut cells = Vec::new();
        for slot in 0..self.slots {
            let per_cpu = self.counts.get(&slot.to_ne_bytes())?;
            cells.extend(counts::decode(slot, self.queue_count, &per_cpu, &self.lanes));
        }
        Ok(Counts { nic: self.nic.clone(), cells })
    }

    /// Takes the program away, and clsact too where it was put there for it and nobody else uses it.
    ///
    /// # Errors
    /// What the kernel says; the sentence has the command that does it by hand.
    pub fn stop(mut self) -> Result<(), Refusal> {
        self.hook.take().map_or(Ok(()), Hook::remove)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(hook) = self.hook.take() {
            // Nobody is there to be told; the next witness takes away what is left.
            let _ = hook.remove();
        }
    }
}

/// The keys of a lane's packets: each port at each of its addresses, or at any.
fn keys(lane: &Placed) -> Vec<Vec<u8>> {
    let named = lane.addresses.iter().map(|address| Some(*address));
    let anywhere = lane.addresses.is_empty().then_some(None);
    let key = |address| lane.ports.iter().map(move |port| program::port_key(lane.protocol, address, *port));
    named.chain(anywhere).flat_map(key).collect()
}

/// A map with these keys, of so many bytes, and values.
fn table(name: &str, key_size: u32, entries: impl Iterator<Item = (Vec<u8>, u32)>) -> Result<Map, Refusal> {
    let entries: Vec<_> = entries.collect();
    let room =
        u32::try_from(entries.len().max(1)).expect("at most as many as ports and addresses, or queues");
    let map = Map::new(MapKind::Hash, name, key_size, 4, room)?;
    for (key, value) in entries {
        map.set(&key, &value.to_ne_bytes())?;
    }
    Ok(map)
}

/// Whether a process of this number runs: a filter of one that doesn't was left behind.
fn is_alive(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(true)
}

/// Held by a [`Hook`]: closing it detaches.
type Link = OwnedFd;
