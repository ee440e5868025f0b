//! Connections that come to one lane in a burst spread over all lanes, although those that were handed over arrive later.

use sim::World;

/// Connections that a lane accepts in a turn.
const ACCEPTS_PER_TURN: usize = 16;

/// The most and the least clients that a lane has after bursts of `count` connections to lane 0.
fn check(lane_count: u16, bursts: &[usize], between: usize) {
    let mut world = World::quiet(lane_count);
    let mut clients = Vec::new();
    for &count in bursts {
        clients.extend((0..count).map(|_| world.connect(0)));
        // The other lanes take their turns later: all that lane 0 gives is on its way.
        for _ in 0..count.div_ceil(ACCEPTS_PER_TURN).min(between) {
            world.turn(0);
        }
        for _ in 0..count {
            world.round();
        }
        let loads: Vec<u64> = world.lanes.iter().map(|lane| lane.stats().clients).collect();
        let [most, least] =
            [loads.iter().max(), loads.iter().min()].map(|load| *load.expect("there are lanes"));
        assert!(most - least <= 1, "{loads:?} of {} clients", clients.len());
        assert_eq!(loads.iter().sum::<u64>(), clients.len() as u64);
    }
    for (nth, client) in clients.iter_mut().enumerate() {
        let got = world.exchange(client, b"PING\r\n", 7, 10);
        assert_eq!(got, b"+PONG\r\n", "client {nth} of {lane_count} lanes");
    }
    drop(clients);
    for _ in 0..100 {
        world.round();
    }
    world.lanes.iter().for_each(lane::Lane::audit);
}

#[test]
fn a_burst_of_connections_spreads_over_the_lanes() {
    for lane_count in [1, 2, 4, 7] {
        check(lane_count, &[16], 1);
        check(lane_count, &[16, 1, 5, 16], 1);
        check(lane_count, &[200], 4);
    }
}
