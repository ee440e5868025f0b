//! More lanes than cores that anybody has: their rings are the smallest ones.

use lane::Settings;
use net::fault::Faults;
use sim::World;

const LANES: u16 = 100;

/// Values that fit into a frame and such that do not, over all lanes at once, with many commands under way.
#[test]
fn a_hundred_lanes_serve_one_another() {
    let settings = Settings { database_count: 1, ..Settings::default() };
    let mut world = World::new(LANES, &settings, 3, Faults::default());
    let mut clients: Vec<_> = (0..8).map(|_| world.connect(0)).collect();
    for size in [1, 60, 200, 5000] {
        let value = vec![b'v'; size];
        let (mut bytes, mut want) = (Vec::new(), Vec::new());
        for number in 0..300 {
            let key = format!("key:{number}");
            wire::client::command(&mut bytes, &[b"SET", key.as_bytes(), &value]);
            want.extend(b"+OK\r\n");
        }
        for number in 0..300 {
            let key = format!("key:{number}");
            wire::client::command(&mut bytes, &[b"GET", key.as_bytes()]);
            want.extend(format!("${size}\r\n").into_bytes());
            want.extend(&value);
            want.extend(b"\r\n");
        }
        wire::client::command(&mut bytes, &[b"DBSIZE"]);
        want.extend(b":300\r\n");
        clients.iter_mut().for_each(|client| client.send(&bytes));
        for round in 0.. {
            clients.iter_mut().for_each(sim::Client::pump);
            if clients.iter().all(|client| client.received.len() >= want.len()) {
                break;
            }
            assert!(round < 1000, "all is answered");
            world.round();
        }
        for client in &mut clients {
            assert!(std::mem::take(&mut client.received) == want, "values of {size} bytes");
        }
    }
    drop(clients);
    for _ in 0..100 {
        world.round();
    }
    world.lanes.iter().for_each(lane::Lane::audit);
}
