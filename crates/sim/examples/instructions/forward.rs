//! What forwarding costs: GETs of a pipeline whose keys all live on the client's lane, beside the same with all keys on the
//! other lane. Two lanes in one thread over memory, so that both sides' work is in the figure and no kernel is.
//!
//! `cargo run --release -p sim --example instructions forward [ROUNDS]`
//!
//! With `direct` or `forwarded` only that is run: for callgrind, told to count what happens in [`serve`].
//! `bench/instructions.py` does that.

use std::time::Instant;

use sim::World;
use wire::route::{PartitionMap, Slot};

const DEPTH: usize = 16;
const CLIENTS: usize = 50;
const KEYS: usize = 10_000;
/// Enough for a round: a lane serves 256 asks of another one in a turn.
const TURNS: usize = 6;
/// What a forwarded command may cost at most, relative to a direct one.
const RATIO_MAX: f64 = 2.0;

/// What is asked for by these words, if it is one of these.
pub(crate) fn main(words: &[String]) -> bool {
    let owner = match words.first().map(String::as_str) {
        Some("direct") => Some(0),
        Some("forwarded") => Some(1),
        Some("forward") => None,
        _ => return false,
    };
    let rounds: usize = words.get(1).map_or(2000, |text| text.parse().expect("ROUNDS is a number"));
    if let Some(owner) = owner {
        run(owner, rounds);
        println!("{} commands", rounds * CLIENTS * DEPTH);
        return true;
    }
    let mut figures: Vec<(f64, f64)> = Vec::new();
    for _ in 0..5 {
        figures.push((run(0, rounds), run(1, rounds)));
    }
    figures.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let (direct, forwarded) = figures[figures.len() / 2];
    println!("direct    {direct:7.1} ns a GET");
    println!(
        "forwarded {forwarded:7.1} ns a GET, both lanes together: {:.2} x direct (median of 5), promised {RATIO_MAX:.2}: {}",
        forwarded / direct,
        if forwarded / direct <= RATIO_MAX { "ok" } else { "over" },
    );
    true
}

/// Nanoseconds a command with all keys on lane `owner` and all clients on lane 0.
fn run(owner: u16, rounds: usize) -> f64 {
    let mut world = World::quiet(2);
    let map = PartitionMap::even(2);
    let keys: Vec<String> = (0..)
        .map(|n| format!("key:{n:012}"))
        .filter(|key| map.owner(Slot::of(key.as_bytes())).0 == owner)
        .take(KEYS)
        .collect();
    // Clients that are handed to lane 1 stay there, idle; those of lane 0 do the work.
    let (mut clients, mut idle) = (Vec::new(), Vec::new());
    while clients.len() < CLIENTS {
        let before = world.lanes[0].stats().clients;
        let client = world.connect(0);
        for _ in 0..4 {
            world.round();
        }
        let stays = before < world.lanes[0].stats().clients;
        if stays { clients.push(client) } else { idle.push(client) }
    }
    let value = [b'x'; 100];
    for batch in keys.chunks(100) {
        let mut bytes = Vec::new();
        for key in batch {
            wire::client::command(&mut bytes, &[b"SET", key.as_bytes(), &value]);
        }
        world.exchange(&mut clients[0], &bytes, 5 * batch.len(), 1000);
    }
    let mut state = 1_u64;
    let batches: Vec<Vec<u8>> = (0..512)
        .map(|_| {
            let mut bytes = Vec::new();
            for _ in 0..DEPTH {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let key = &keys[usize::try_from(state >> 33).expect("31 bits") % KEYS];
                wire::client::command(&mut bytes, &[b"GET", key.as_bytes()]);
            }
            bytes
        })
        .collect();
    let mut spent = 0;
    for round in 0..rounds {
        for (index, client) in clients.iter_mut().enumerate() {
            client.end.write(&batches[(round * CLIENTS + index) % batches.len()]);
        }
        #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
        let began = Instant::now();
        serve(&mut world);
        spent += began.elapsed().as_nanos();
        for client in &mut clients {
            client.received.clear();
            client.pump();
            assert_eq!(client.received.len(), DEPTH * 108, "a round answers everything");
        }
    }
    drop(idle);
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    let mean = spent as f64 / (rounds * CLIENTS * DEPTH) as f64;
    mean
}

/// The turns of a round: what is measured. On its own, so that callgrind finds it.
#[inline(never)]
fn serve(world: &mut World) {
    for _ in 0..TURNS {
        world.turn(0);
        world.turn(1);
    }
}
