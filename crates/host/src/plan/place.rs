//! Which cores a lane gets, and which its interrupts.
//!
//! Near the card: its node's cores first, whole cores (all hardware threads) before halves, so that no two lanes share one while
//! there is room. Interrupts follow the number of cores per socket, as Russell Sullivan's recipe has it: on few cores they go
//! round over the cores that serve; on many, cores that do nothing else take them and hand packets on through the shared cache.

use std::collections::{BTreeMap, BTreeSet};

use super::card::Card;
use super::draft::{Draft, nth};
use crate::cpus::Cpus;
use crate::facts::{Cpu, Facts};
use crate::spec::{IrqWish, Lane, Mode, Spec};

/// Sockets with fewer cores have their interrupts on the serving cores.
pub const CORES_FOR_RESERVED: usize = 6;
/// As many serving cores share one core for interrupts.
pub const LANE_CORES_PER_INTERRUPT_CORE: usize = 8;

/// What a lane has been given.
#[derive(Clone, Debug, Default)]
pub(super) struct Seat {
    pub(super) cores: Cpus,
    pub(super) irq_cores: Cpus,
}

impl Seat {
    /// Cores that serve the lane's n-th queue: its port's, or any of the lane's.
    pub(super) fn cores_of_queue(&self, lane: &Lane, n: usize) -> Cpus {
        match lane.mode {
            Mode::OneQueuePerPort => nth(&self.cores, n).into_iter().collect(),
            Mode::Spread => self.cores.clone(),
        }
    }
}

/// The system's cores, and each lane's seat, in the file's order.
pub(super) struct Seats {
    pub(super) system: Cpus,
    pub(super) lanes: Vec<Seat>,
}

/// Seats every lane. What can't be had is refused in the draft.
pub(super) fn seat(draft: &mut Draft, spec: &Spec, cards: &[Card]) -> Seats {
    let facts = draft.facts;
    let online = facts.online();
    let card_of = |index: usize| cards.iter().find(|card| card.lanes.contains(&index));
    let mut taken = named(spec);
    if !taken.is_within(&online) {
        refuse_offline(draft, spec, &online);
    }
    let system = spec.host.cores.clone().unwrap_or_else(|| first_core(facts).without(&named_by_lanes(spec)));
    taken = taken.with(&system).with(&isolated_elsewhere(draft, &taken));
    let wanting: Vec<(usize, usize, Option<u32>)> = (0..spec.lanes.len())
        .filter(|index| spec.lanes[*index].cores.is_none())
        .map(|index| {
            let node = card_of(index).and_then(|card| card.nic.node);
            (index, cores_count(&spec.lanes[index], card_of(index), online.without(&taken).count()), node)
        })
        .collect();
    let chosen = choose(draft, &wanting, &taken);
    let mut lanes: Vec<Seat> = Vec::with_capacity(spec.lanes.len());
    for (index, lane) in spec.lanes.iter().enumerate() {
        let cores = lane.cores.clone().or_else(|| chosen.get(&index).cloned()).unwrap_or_default();
        lanes.push(Seat { irq_cores: cores.clone(), cores });
    }
    let all = lanes.iter().fold(taken, |all, seat| all.with(&seat.cores));
    seat_interrupts(draft, spec, &card_of, &all, &system, &mut lanes);
    Seats { system, lanes }
}

/// How many cores a lane is given that names none. One that has a whole card and doesn't say how much of it takes what is left.
fn cores_count(lane: &Lane, card: Option<&Card>, left: usize) -> usize {
    let queues = lane.queues.or(match lane.mode {
        Mode::OneQueuePerPort => lane.ports.as_ref().and_then(|ports| u32::try_from(ports.0.len()).ok()),
        Mode::Spread => None,
    });
    let whole = card.filter(|card| card.is_whole_device());
    let count = |queues: u32| usize::try_from(queues).unwrap_or(usize::MAX);
    match (queues, whole) {
        (Some(queues), _) => count(queues),
        (None, Some(card)) => count(card.queues_asked()).min(left),
        (None, None) => 1,
    }
    .max(1)
}

/// Every core that the file names.
fn named(spec: &Spec) -> Cpus {
    let reserved = spec.lanes.iter().filter_map(|lane| match lane.irq_wish() {
        Ok(Some(IrqWish::Reserved(cores))) => Some(cores),
        _ => None,
    });
    let system = spec.host.cores.iter().chain(&spec.default.cores).cloned();
    reserved.chain(system).fold(named_by_lanes(spec), |all, cores| all.with(&cores))
}

fn named_by_lanes(spec: &Spec) -> Cpus {
    spec.lanes.iter().filter_map(|lane| lane.cores.as_ref()).fold(Cpus::default(), |all, it| all.with(it))
}

fn refuse_offline(draft: &mut Draft, spec: &Spec, online: &Cpus) {
    let mut check = |whose: &str, cores: &Cpus| {
        if !cores.is_within(online) {
            let off = cores.without(online);
            draft.refuse(format!("{whose}: core {off} is not online here; there are {online}"));
        }
    };
    for (table, cores) in [("host", &spec.host.cores), ("default", &spec.default.cores)] {
        cores.iter().for_each(|cores| check(&format!("[{table}] `cores`"), cores));
    }
    for lane in &spec.lanes {
        lane.cores.iter().for_each(|cores| check(&format!("lane `{}`, `cores`", lane.name), cores));
        if let Ok(Some(IrqWish::Reserved(cores))) = lane.irq_wish() {
            check(&format!("lane `{}`, `irq`", lane.name), &cores);
        }
    }
}

/// Cores that `isolcpus` keeps the scheduler from are given to nobody who did not name them: a server of several threads would
/// stay on one of them.
fn isolated_elsewhere(draft: &mut Draft, named: &Cpus) -> Cpus {
    let isolated: Cpus = draft.facts.cpus.iter().filter(|cpu| cpu.isolated).map(|cpu| cpu.id).collect();
    let left = isolated.without(named);
    if !left.is_empty() {
        draft.note(format!(
            "Cores {left} are isolated (isolcpus): no lane gets them unless its `cores` name them, because the \
             scheduler does not spread threads over them."
        ));
    }
    left
}

/// All hardware threads of the core of the lowest cpu.
fn first_core(facts: &Facts) -> Cpus {
    let Some(first) = facts.cpus.first() else { return Cpus::default() };
    siblings(facts, first)
}

pub(super) fn siblings(facts: &Facts, cpu: &Cpu) -> Cpus {
    let same = |it: &&Cpu| (it.package, it.core) == (cpu.package, cpu.core);
    facts.cpus.iter().filter(same).map(|it| it.id).collect()
}

/// Physical cores, those of `node` first, each as its hardware threads.
fn cores_near(facts: &Facts, node: Option<u32>) -> Vec<(u32, Cpus)> {
    let mut cores: BTreeMap<(bool, u32, u32, u32), (u32, Cpus)> = BTreeMap::new();
    for cpu in &facts.cpus {
        let all = siblings(facts, cpu);
        let key =
            (node.is_some_and(|node| node != cpu.node), cpu.node, cpu.package, all.first().unwrap_or(0));
        cores.entry(key).or_insert((cpu.node, all));
    }
    cores.into_values().collect()
}

/// Cores for lanes that name none: whole ones on their card's node, else threads there, else threads anywhere.
fn choose(draft: &mut Draft, wanting: &[(usize, usize, Option<u32>)], taken: &Cpus) -> BTreeMap<usize, Cpus> {
    let facts = draft.facts;
    let ways = [(true, true), (true, false), (false, false)];
    for (near, whole) in ways {
        if let Some(chosen) = try_choose(facts, wanting, taken, near, whole) {
            if !near {
                draft.note(
                    "Some lanes' cores are on another NUMA node than their card, which has too few: packets cross between \
                     the sockets. Fewer queues, or `cores`, change that."
                        .to_owned(),
                );
            }
            return chosen;
        }
    }
    let left = facts.online().without(taken);
    let wants: usize = wanting.iter().map(|(_, count, _)| count).sum();
    let reason = "named in the file, isolated, or the system's";
    let beside = if taken.is_empty() { String::new() } else { format!("; {} {reason}", are(taken)) };
    let left = if left.is_empty() { "none is left".to_owned() } else { format!("{} left", are(&left)) };
    draft.refuse(format!(
        "lanes want {wants} cores and {left}{beside}: fewer `queues`, or `cores` that share"
    ));
    BTreeMap::new()
}

/// "core 1 is", "cores 1,3 are".
fn are(cores: &Cpus) -> String {
    if cores.count() == 1 { format!("core {cores} is") } else { format!("cores {cores} are") }
}

fn try_choose(
    facts: &Facts,
    wanting: &[(usize, usize, Option<u32>)],
    taken: &Cpus,
    near: bool,
    whole: bool,
) -> Option<BTreeMap<usize, Cpus>> {
    let (mut taken, mut chosen) = (taken.clone(), BTreeMap::new());
    for (index, count, node) in wanting {
        let mut mine = Cpus::default();
        for (core_node, threads) in cores_near(facts, *node) {
            if mine.count() == *count {
                break;
            }
            let far = near && node.is_some_and(|node| node != core_node);
            if far || (whole && threads.overlaps(&taken)) {
                continue;
            }
            let free = threads.without(&taken);
            mine = mine.with(&free.iter().take(count - mine.count()).collect());
            // A whole core's other threads stay empty: it is taken as soon as one of them is.
            taken = taken.with(&mine);
        }
        if mine.count() < *count {
            return None;
        }
        chosen.insert(*index, mine);
    }
    Some(chosen)
}

/// Fills in `irq_cores`.
fn seat_interrupts<'a>(
    draft: &mut Draft,
    spec: &Spec,
    card_of: &impl Fn(usize) -> Option<&'a Card<'a>>,
    taken: &Cpus,
    system: &Cpus,
    seats: &mut [Seat],
) {
    let facts = draft.facts;
    let free = facts.online().without(taken);
    // By last level cache: lanes that leave it to us, and the cores that they serve with.
    let mut groups: BTreeMap<Cpus, Vec<usize>> = BTreeMap::new();
    for (index, lane) in spec.lanes.iter().enumerate() {
        match lane.irq_wish() {
            Ok(Some(IrqWish::Reserved(cores))) => {
                check_reserved(draft, &lane.name, &seats[index].cores, &cores);
                seats[index].irq_cores = cores;
            }
            Ok(None) if card_of(index).is_some() => {
                let first =
                    seats[index].cores.first().and_then(|id| facts.cpus.iter().find(|cpu| cpu.id == id));
                let Some(cpu) = first else { continue };
                let per_socket = cores_per_socket(facts, cpu.package);
                if per_socket < CORES_FOR_RESERVED {
                    draft.note(format!(
                        "Interrupts of lanes go round over the lanes' own cores: with {per_socket} cores per socket none \
                         can be spared for them (`irq` changes that)."
                    ));
                } else {
                    groups.entry(cpu.shares_cache_with.clone()).or_default().push(index);
                }
            }
            _ => {}
        }
    }
    for (cache, lanes) in groups {
        let serving: usize = lanes.iter().map(|index| seats[*index].cores.count()).sum();
        let count = serving.div_ceil(LANE_CORES_PER_INTERRUPT_CORE);
        let near_free = free.common(&cache);
        let near_system = system.common(&cache);
        let names: Vec<&str> = lanes.iter().map(|index| spec.lanes[*index].name.as_str()).collect();
        let names = names.join(", ");
        let (cores, whose) = if near_free.count() >= count {
            (spread_over_cores(facts, &near_free, count), "reserved for that")
        } else if near_system.count() >= count {
            (near_system, "the system's own")
        } else {
            draft.note(format!(
                "Interrupts of {names} stay on the lanes' own cores: the {serving} that serve would want {count} more for \
                 interrupts in the same cache, and those aren't free."
            ));
            continue;
        };
        draft.note(format!(
            "Interrupts of {names} go to core {cores}, {whose}, which shares the last level cache and hands packets to the \
             serving cores (RPS, RFS): sockets of {CORES_FOR_RESERVED} cores and more can spare it (`irq` changes that)."
        ));
        for index in lanes {
            seats[index].irq_cores = cores.clone();
        }
    }
}

/// Refuses interrupts on another socket than the serving cores, where theirs has a core to spare, and notes another cache: each
/// packet is fetched from there.
fn check_reserved(draft: &mut Draft, lane: &str, serving: &Cpus, reserved: &Cpus) {
    let cpus = &draft.facts.cpus;
    let packages: BTreeSet<u32> =
        cpus.iter().filter(|cpu| serving.contains(cpu.id)).map(|cpu| cpu.package).collect();
    if packages.is_empty() {
        return;
    }
    let is_near = |cpu: &&Cpu| packages.contains(&cpu.package);
    let near: Cpus = cpus.iter().filter(is_near).map(|cpu| cpu.id).collect();
    let (far, spare) = (reserved.without(&near), near.without(serving));
    if !far.is_empty() && !spare.is_empty() {
        let sentence = format!(
            "lane `{lane}`, `irq`: core {far} is on another socket than the lane's cores {serving}, so that each packet crosses \
             between the sockets; reserve some of {spare}"
        );
        draft.refuse(sentence);
        return;
    }
    let shares = |cpu: &&Cpu| cpu.shares_cache_with.overlaps(serving);
    let close: Cpus = cpus.iter().filter(shares).map(|cpu| cpu.id).collect();
    let apart = reserved.without(&close);
    if !apart.is_empty() {
        draft.note(format!(
            "Interrupts of {lane} go to core {apart}, which shares no last level cache with the lane's cores {serving}: each \
             packet is handed on through memory."
        ));
    }
}

/// So many, one of each physical core before second threads.
fn spread_over_cores(facts: &Facts, cores: &Cpus, count: usize) -> Cpus {
    let mut ranked: Vec<(usize, u32)> = cores
        .iter()
        .map(|id| {
            let cpu = facts.cpus.iter().find(|cpu| cpu.id == id);
            let mine = cpu.map(|cpu| siblings(facts, cpu).common(cores)).unwrap_or_default();
            (mine.iter().position(|it| it == id).unwrap_or(0), id)
        })
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().take(count).map(|(_, id)| id).collect()
}

fn cores_per_socket(facts: &Facts, package: u32) -> usize {
    let of_socket = facts.cpus.iter().filter(|cpu| cpu.package == package);
    of_socket.map(|cpu| cpu.core).collect::<std::collections::BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Second threads have the number after the first's here, as some firmware counts.
    #[test]
    fn cores_are_spread_before_their_second_threads() {
        let cpu = |id| Cpu { id, core: id / 2, ..Cpu::default() };
        let facts = Facts { cpus: (0..8).map(cpu).collect(), ..Facts::default() };
        let check = |cores: &str, count: usize, want: &str| {
            let found = spread_over_cores(&facts, &cores.parse().unwrap(), count);
            assert_eq!(found.to_string(), want, "{count} of {cores}");
        };
        check("0-7", 2, "0,2");
        check("0-7", 5, "0-2,4,6");
        check("1,4-5", 2, "1,4");
        check("4-5", 2, "4-5");
    }
}
