//! Auto-pin: which lane a connection ends on, by a machine with made-up cards, and what is counted and shown of it.

use std::sync::Arc;

use lane::{AutoPin, Queue, QueueTable, Settings};
use net::mem::{Client, Way};

use super::world::World;

/// Queue `index` of the made-up card: its NAPI id is 500 and its index, its packets are taken in on cpu 4 and its index, where
/// lane 0 begins.
fn queue(index: u32) -> Queue {
    let cpu = 4 + usize::try_from(index).unwrap();
    Queue {
        card: "ens1".to_owned(),
        index: Some(index),
        napi_id: 500 + index,
        irq: Some(40 + index),
        cpu: Some(cpu),
    }
}

fn queues(count: u32) -> Vec<Queue> {
    (0..count).map(queue).collect()
}

/// Three lanes on cpus 4, 5 and 6, over a card with so many queues.
fn world(auto_pin: AutoPin, queue_count: u32) -> World {
    let mut world = World::told(3, &[], |settings: &mut Settings| {
        settings.auto_pin = auto_pin;
        settings.lane_cpus = Arc::new([Some(4), Some(5), Some(6)]);
        let queues = if auto_pin == AutoPin::Adq { queues(queue_count) } else { Vec::new() };
        settings.queues = Arc::new(QueueTable::deal(queues, &settings.lane_cpus));
    });
    world.machine.queues = Ok(queues(queue_count));
    world
}

fn by_queue(napi_id: u32) -> Way {
    Way { queue: Some(napi_id), cpu: None }
}

fn by_cpu(cpu: u32) -> Way {
    Way { queue: None, cpu: Some(cpu) }
}

fn rounds(world: &mut World, count: usize) {
    for _ in 0..count {
        world.round(1_000_000);
    }
}

/// Clients by lane.
fn clients(world: &World) -> Vec<u64> {
    world.lanes.iter().map(|lane| lane.stats().clients).collect()
}

/// By lane: placed, fallbacks, unknown, leaking.
fn counts(world: &World) -> Vec<[u64; 4]> {
    let of = |lane: &lane::Lane| {
        let stats = lane.stats();
        [stats.pin_placed, stats.pin_fallbacks, stats.pin_unknown, stats.pin_leaking]
    };
    world.lanes.iter().map(of).collect()
}

/// A word of a lane's line in INFO.
fn shown(world: &mut World, client: &Client, lane: usize, name: &str) -> String {
    let info = world.ask(client, "INFO lanes");
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("lane{lane}:"))).unwrap();
    let value = line.split(',').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
    value.unwrap().to_owned()
}

#[test]
fn a_connection_ends_on_the_lane_that_serves_its_queue() {
    let mut world = world(AutoPin::Adq, 3);
    let mut open = Vec::new();
    // Each lane accepts connections of each queue, and of one many more than of the others.
    for door in 0..3 {
        for napi_id in [500, 501, 502, 501, 501] {
            open.push(world.connect_by(door, by_queue(napi_id)));
        }
    }
    rounds(&mut world, 5);
    assert_eq!(clients(&world), [3, 9, 3], "by queue and not by load");
    assert_eq!(counts(&world), [[3, 0, 0, 0], [9, 0, 0, 0], [3, 0, 0, 0]]);
    // They work where they are, and the lane that serves them says so.
    assert_eq!(world.ask(&open[1], "SET k v"), "+OK\r\n");
    assert_eq!(shown(&mut world, &open[0], 1, "pin_placed"), "9");
    assert_eq!(shown(&mut world, &open[0], 1, "queues"), "ens1:1");
    assert_eq!(shown(&mut world, &open[0], 2, "napi_ids"), "502");
    assert_eq!(shown(&mut world, &open[0], 0, "irqs"), "40");
    assert!(world.ask(&open[0], "INFO lanes").contains("\r\nauto_pin:adq\r\n"));
}

#[test]
fn a_connection_without_a_queue_goes_by_load_and_is_counted() {
    let mut world = world(AutoPin::Adq, 3);
    let _open: Vec<_> = (0..9).map(|_| world.connect_by(0, Way::default())).collect();
    rounds(&mut world, 5);
    assert_eq!(clients(&world), [3, 3, 3]);
    assert_eq!(counts(&world), [[0, 9, 0, 0], [0; 4], [0; 4]], "counted where it was let in");
}

#[test]
fn a_queue_that_is_no_lanes_is_nobodys() {
    // The first queue is on a lane's core, so the fourth, on cpu 7, is for somebody else.
    let mut world = world(AutoPin::Adq, 4);
    let _open: Vec<_> = (0..6).map(|_| world.connect_by(0, by_queue(503))).collect();
    rounds(&mut world, 5);
    assert_eq!(clients(&world), [2, 2, 2]);
    assert_eq!(counts(&world)[0], [0, 6, 0, 0], "it is known, and no reason to ask again");
}

#[test]
fn on_its_own_port_a_lane_keeps_who_comes_and_counts_what_leaks() {
    let mut world = world(AutoPin::Adq, 4);
    let open: Vec<_> = [501, 501, 500, 503].map(|id| world.connect_to_by(1, by_queue(id))).into();
    let _nowhere = world.connect_to_by(1, Way::default());
    rounds(&mut world, 5);
    assert_eq!(clients(&world), [0, 5, 0]);
    assert_eq!(counts(&world)[1], [2, 1, 0, 2]);
    assert_eq!(shown(&mut world, &open[0], 1, "pin_leaking"), "2");
}

#[test]
fn a_cpu_is_the_lanes_that_is_pinned_there() {
    let mut world = world(AutoPin::Cpu, 0);
    let mut open: Vec<_> = [5, 5, 6, 5].map(|cpu| world.connect_by(0, by_cpu(cpu))).into();
    rounds(&mut world, 5);
    assert_eq!((clients(&world), counts(&world)[1]), (vec![0, 3, 1], [3, 0, 0, 0]));
    // A cpu without a lane, and one that nobody knows.
    open.push(world.connect_by(0, by_cpu(9)));
    open.push(world.connect_by(0, Way::default()));
    rounds(&mut world, 5);
    assert_eq!((clients(&world), counts(&world)[0]), (vec![2, 3, 1], [0, 2, 0, 0]));
    open.push(world.connect_to_by(0, by_cpu(6)));
    rounds(&mut world, 5);
    assert_eq!((clients(&world), counts(&world)[0]), (vec![3, 3, 1], [0, 2, 0, 1]));
    // Queues are not looked at, so there are none to show.
    assert_eq!(shown(&mut world, &open[0], 0, "queues"), "unknown");
}

#[test]
fn without_auto_pin_nobody_is_asked_where_packets_arrive() {
    for auto_pin in [AutoPin::None, AutoPin::Numa] {
        let mut world = world(auto_pin, 3);
        let open: Vec<_> = (0..6).map(|_| world.connect_by(0, by_queue(501))).collect();
        let _own = world.connect_to_by(0, by_queue(501));
        rounds(&mut world, 5);
        assert_eq!((clients(&world), counts(&world)), (vec![3, 2, 2], vec![[0; 4]; 3]));
        assert_eq!(world.controls(), 0);
        assert_eq!(shown(&mut world, &open[0], 0, "napi_ids"), "unknown");
    }
}

#[test]
fn a_connection_costs_one_question_and_a_request_none() {
    for (auto_pin, way) in
        [(AutoPin::Adq, by_queue(501)), (AutoPin::Adq, Way::default()), (AutoPin::Cpu, by_cpu(5))]
    {
        let mut world = world(auto_pin, 3);
        let open: Vec<_> = (0..5).map(|_| world.connect_by(0, way)).collect();
        rounds(&mut world, 5);
        assert_eq!(world.controls(), 5, "{auto_pin:?}");
        for client in &open {
            assert_eq!(world.ask(client, "SET k v"), "+OK\r\n");
        }
        assert_eq!(world.controls(), 5, "{auto_pin:?}");
    }
}

#[test]
fn an_unknown_queue_is_asked_for_and_known_to_those_after_it() {
    let mut world = world(AutoPin::Adq, 2);
    rounds(&mut world, 300);
    let asked = world.machine.queues_asked;
    // The card has got a third queue and nobody has told.
    world.machine.queues = Ok(queues(3));
    let mut open: Vec<_> = (0..4).map(|_| world.connect_by(0, by_queue(502))).collect();
    rounds(&mut world, 5);
    assert_eq!(counts(&world)[0], [0, 4, 4, 0]);
    assert_eq!(world.machine.queues_asked, asked + 1, "once for all of them");
    open.extend((0..4).map(|_| world.connect_by(0, by_queue(502))));
    rounds(&mut world, 5);
    assert_eq!((counts(&world)[0], counts(&world)[2]), ([0, 4, 4, 0], [4, 0, 0, 0]));
    assert!(world.is_idle());
}

/// An id that the machine does not know either brings a question now and then, not one for each connection; and lanes that are
/// given the table that they had ask again.
#[test]
fn what_stays_unknown_is_asked_for_now_and_then() {
    let mut world = world(AutoPin::Adq, 2);
    rounds(&mut world, 300);
    let asked = world.machine.queues_asked;
    let mut open = Vec::new();
    for _ in 0..1000 {
        open.push(world.connect_by(0, by_queue(9)));
        world.round(1_000_000);
    }
    let asked = world.machine.queues_asked - asked;
    assert!((4..=6).contains(&asked), "{asked} questions in a second, every 200 ms");
    assert_eq!(counts(&world)[0], [0, 1000, 1000, 0]);
}

#[test]
fn a_link_that_changes_brings_new_ids() {
    let mut world = world(AutoPin::Adq, 3);
    let renumbered = |queue: Queue| Queue { napi_id: queue.napi_id + 100, ..queue };
    world.machine.queues = Ok(queues(3).into_iter().map(renumbered).collect());
    world.machine.links_changed = true;
    // Those who came at the start have just been told; the next question waits its turn.
    rounds(&mut world, 100);
    assert_eq!(world.machine.queues_asked, 0);
    assert!(world.next_ns().unwrap() > world.now.mono_ns, "and somebody has to wake the control for it");
    rounds(&mut world, 150);
    assert_eq!(world.machine.queues_asked, 1);
    let open = world.connect_by(0, by_queue(602));
    let _old = world.connect_by(0, by_queue(502));
    rounds(&mut world, 5);
    assert_eq!((counts(&world)[2], counts(&world)[0]), ([1, 0, 0, 0], [0, 1, 1, 0]));
    assert_eq!(shown(&mut world, &open, 2, "napi_ids"), "602");
}

/// An interrupt moves without an event.
#[test]
fn what_was_learned_grows_old() {
    let mut world = world(AutoPin::Adq, 3);
    let swapped = |queue: Queue| Queue { cpu: queue.cpu.map(|cpu| [6, 5, 4][cpu - 4]), ..queue };
    world.machine.queues = Ok(queues(3).into_iter().map(swapped).collect());
    for _ in 0..12 {
        world.round(1_000_000_000);
    }
    let _open = world.connect_by(1, by_queue(500));
    rounds(&mut world, 5);
    assert_eq!(clients(&world), [0, 0, 1]);
    assert!((1..=2).contains(&world.machine.queues_asked), "every ten seconds");
}

#[test]
fn a_machine_that_does_not_say_is_told_of_once_and_asked_again() {
    let mut world = world(AutoPin::Adq, 2);
    world.machine.queues = Err("the kernel has no netdev family".to_owned());
    world.machine.links_changed = true;
    for _ in 0..40 {
        world.round(1_000_000_000);
    }
    assert_eq!(world.machine.warned, ["auto-pin: the kernel has no netdev family"]);
    // Lanes go on with what they knew, and one that asks is not forgotten.
    let _open = [500, 502].map(|id| world.connect_by(0, by_queue(id)));
    rounds(&mut world, 300);
    assert_eq!(counts(&world)[0], [1, 1, 1, 0]);
    world.machine.queues = Ok(queues(3));
    for _ in 0..12 {
        world.round(1_000_000_000);
    }
    let _late = world.connect_by(0, by_queue(502));
    rounds(&mut world, 5);
    assert_eq!(counts(&world)[2], [1, 0, 0, 0]);
}

/// What clients set meanwhile, and what is learned, do not undo one another.
#[test]
fn settings_and_queues_go_the_same_way() {
    let mut world = world(AutoPin::Adq, 2);
    let client = world.connect();
    world.machine.queues = Ok(queues(3));
    world.machine.links_changed = true;
    assert_eq!(world.ask(&client, "CONFIG SET maxclients 2"), "+OK\r\n");
    rounds(&mut world, 300);
    let _open = [502, 502].map(|id| world.connect_by(1, by_queue(id)));
    rounds(&mut world, 5);
    assert_eq!((counts(&world)[2], world.lanes[1].stats().clients_rejected), ([1, 0, 0, 0], 1));
    assert_eq!(world.ask(&client, "CONFIG SET maxclients 3"), "+OK\r\n");
    let _more = world.connect_by(1, by_queue(502));
    rounds(&mut world, 5);
    assert_eq!(counts(&world)[2], [2, 0, 0, 0]);
}
