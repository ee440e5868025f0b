//! Several namespaces on the same ports: a digest is another record in each, and what concerns one leaves the others.

use lane::{Aerospike, Namespace, Namespaces, Settings};
use net::fault::Faults;
use sim::{Client, World};
use store::Policy;
use wire::aerospike::client::put_info;
use wire::route::Ports;

use crate::records::talk::{Ask, batch, exchange, get, put, settings, show};

const NAMES: [&str; 3] = ["test", "users", "short"];

/// A server with these namespaces, the last of which has a default time to live.
fn world(lane_count: u16) -> World {
    let [test, users, short] = NAMES.map(Namespace::new);
    let short = Namespace { default_ttl_s: 50, ..short };
    let namespaces = Namespaces::new(vec![Namespace::new("default")], vec![test, users, short]);
    World::new(lane_count, &Settings { namespaces, ..settings() }, 1, Faults::default())
}

fn within(namespace: &'static str, mut ask: Ask) -> Ask {
    ask.message.namespace = namespace.as_bytes();
    ask
}

fn say(world: &mut World, client: &mut Client, bytes: &[u8], want: &str) {
    let got = exchange(world, client, bytes, want.matches('|').count());
    let lane_count = world.lanes.len();
    assert_eq!(show(&got, world.now.unix_ms), want, "over {lane_count} lanes");
}

fn info(world: &mut World, client: &mut Client, name: &str) -> String {
    let mut bytes = Vec::new();
    put_info(&mut bytes, &format!("{name}\n"));
    let said = show(&exchange(world, client, &bytes, 1), 0);
    said.strip_prefix(&format!("{name}\t")).and_then(|value| value.strip_suffix('|')).unwrap().to_owned()
}

#[test]
fn a_digest_is_another_record_in_each() {
    for lane_count in [1, 4] {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        for number in 0..40 {
            for (name, ttl) in NAMES.into_iter().zip(["", "", " v50"]) {
                let ask = within(name, put(number).text("of", name));
                say(&mut world, &mut client, &ask.bytes(), &format!("0 g1{ttl}|"));
                let want = format!("0 g1{ttl} of={name}|");
                say(&mut world, &mut client, &within(name, get(number)).bytes(), &want);
            }
        }
        // One request behind the other, in one piece: each is its own namespace's.
        let pipelined: Vec<u8> = NAMES.iter().flat_map(|name| within(name, get(7)).bytes()).collect();
        say(&mut world, &mut client, &pipelined, "0 g1 of=test|0 g1 of=users|0 g1 v50 of=short|");
        let rows = [within("users", get(3)), within("other", get(3)), within("test", get(4))];
        say(&mut world, &mut client, &batch(&rows), "0 g1 #1 of=users|20 g0 #2|0 g1 #3 of=test|0 g0 last|");
        let large = "x".repeat(100_000);
        let ask = within("users", put(50).text("of", &large));
        say(&mut world, &mut client, &ask.bytes(), "0 g1|");
        say(&mut world, &mut client, &get(50).bytes(), "2 g0|");
    }
}

#[test]
fn truncation_leaves_the_others() {
    for lane_count in [1, 4] {
        let mut world = world(lane_count);
        let mut client = world.connect(0);
        for number in 0..60 {
            for (name, ttl) in NAMES.into_iter().zip(["", "", " v50"]) {
                let ask = within(name, put(number).number("n", 1));
                say(&mut world, &mut client, &ask.bytes(), &format!("0 g1{ttl}|"));
            }
        }
        let first = settings().database_count + 1;
        let counts = |world: &World| {
            let count = |db: u16| world.lanes.iter().map(|lane| lane.shard().count(db)).sum::<u64>();
            [first, first + 1, first + 2].map(count)
        };
        assert_eq!(counts(&world), [60, 60, 60]);
        assert_eq!(info(&mut world, &mut client, "truncate:namespace=users;set=other"), "ok");
        assert_eq!(counts(&world), [60, 60, 60]);
        assert_eq!(info(&mut world, &mut client, "truncate:namespace=users;set=demo"), "ok");
        assert_eq!(counts(&world), [60, 0, 60]);
        assert_eq!(info(&mut world, &mut client, "truncate-namespace:namespace=short"), "ok");
        assert_eq!(counts(&world), [60, 0, 0]);
        say(&mut world, &mut client, &within("users", get(3)).bytes(), "2 g0|");
        say(&mut world, &mut client, &get(3).bytes(), "0 g1 n=i1|");
    }
}

#[test]
fn nodes_lie_a_step_apart() {
    let ports = Some(Ports { first: 4000, step: 10 });
    let settings = Settings { aerospike: Aerospike { ports, ..settings().aerospike }, ..settings() };
    let mut world = World::new(3, &settings, 1, Faults::default());
    let mut client = world.connect(1);
    assert_eq!(info(&mut world, &mut client, "service-clear-std"), "127.0.0.1:4010");
    let peers = info(&mut world, &mut client, "peers-clear-std");
    assert!(peers.contains("[127.0.0.1:4000]") && peers.contains("[127.0.0.1:4020]"), "{peers}");
}

#[test]
fn nodes_list_them_all() {
    let mut world = world(2);
    let mut client = world.connect(1);
    say(&mut world, &mut client, &within("users", put(1).number("n", 1)).bytes(), "0 g1|");
    let mut ask = |name: &str| info(&mut world, &mut client, name);
    assert_eq!(ask("namespaces"), "test;users;short");
    assert_eq!(ask("rack-ids"), "test:0;users:0;short:0");
    let replicas = ask("replicas");
    let maps: Vec<&str> =
        replicas.split(';').filter_map(|one| one.split_once(":0,1,")).map(|it| it.1).collect();
    assert_eq!(maps, [maps[0]; 3], "all have the same partitions");
    assert_eq!(ask("replicas-all"), NAMES.map(|name| format!("{name}:1,{}", maps[0])).join(";"));
    assert_eq!(ask("replicas-master"), NAMES.map(|name| format!("{name}:{}", maps[0])).join(";"));
    assert_eq!(ask("namespace/other"), "ERROR:20:there is no such namespace");
    assert!(ask("namespace/users").contains(";default-ttl=0;"));
    assert!(ask("namespace/short").contains(";default-ttl=50;"));
    let mut objects = 0;
    for lane in 0..2 {
        let mut client = world.connect(lane);
        let said = info(&mut world, &mut client, "namespace/users");
        objects += usize::from(said.contains(";objects=1;"));
        assert!(info(&mut world, &mut client, "namespace/test").contains(";objects=0;"));
    }
    assert_eq!(objects, 1, "one lane has the record");
}

/// Its last record has taken all of its share to the byte: the next write would be refused, if none may be evicted for it.
#[test]
fn one_that_is_full_says_that_it_stops_writes() {
    let filled = |memory_size_max: u64, policy: Policy| {
        let users = Namespace { memory_share: Some(1), ..Namespace::new("users") };
        let of_records = vec![Namespace::new("test"), users];
        let namespaces = Namespaces::new(vec![Namespace::new("default")], of_records);
        let settings = Settings { namespaces, memory_size_max, policy, ..settings() };
        let mut world = World::new(1, &settings, 1, Faults::default());
        let mut client = world.connect(0);
        for number in 0..50 {
            let put = within("users", put(number).text("t", &"x".repeat(10_000)));
            say(&mut world, &mut client, &put.bytes(), "0 g1|");
        }
        let said = info(&mut world, &mut client, "namespace/users");
        let used = world.lanes[0].shard().held_by(settings.database_count + 2);
        let next = within("users", put(50).text("t", "x")).bytes();
        let got = exchange(&mut world, &mut client, &next, 1);
        let is_refused = show(&got, world.now.unix_ms) == "8 g0|";
        (used, said, is_refused)
    };
    let check = |memory_size_max: u64, policy: Policy, want: bool| {
        let (_, said, is_refused) = filled(memory_size_max, policy);
        assert!(said.contains(&format!(";stop_writes={want};")), "{policy:?}, {memory_size_max}: {said}");
        assert_eq!(is_refused, want, "{policy:?}, {memory_size_max}");
    };
    // A hundredth of so much is what they take.
    let exact = 100 * filled(1 << 30, Policy::NoEviction).0;
    check(exact, Policy::NoEviction, true);
    check(exact, Policy::AllKeysLru, false);
    check(2 * exact, Policy::NoEviction, false);
}

/// What one may take of `maxmemory` ends its own writes, or makes its own records go, and nobody else's.
#[test]
fn a_share_bounds_one_and_leaves_the_others() {
    const MEMORY_SIZE: u64 = 64 << 20;
    for (lane_count, policy) in [1, 4].into_iter().flat_map(|count| {
        [(count, Policy::NoEviction), (count, Policy::AllKeysLru), (count, Policy::VolatileTtl)]
    }) {
        let users = Namespace { memory_share: Some(5), ..Namespace::new("users") };
        let of_records = vec![Namespace::new("test"), users];
        let namespaces = Namespaces::new(vec![Namespace::new("default")], of_records);
        let settings = Settings { namespaces, memory_size_max: MEMORY_SIZE, policy, ..settings() };
        let mut world = World::new(lane_count, &settings, 1, Faults::default());
        let mut client = world.connect(0);
        let first = settings.database_count + 1;
        let held = |world: &World, number: u16| -> u64 {
            world.lanes.iter().map(|lane| lane.shard().held_by(first + number)).sum()
        };
        let count = |world: &World, number: u16| -> u64 {
            world.lanes.iter().map(|lane| lane.shard().count(first + number)).sum()
        };
        let large = "x".repeat(10_000);
        let mut refused = 0;
        for number in 0..600 {
            let (mine, other) =
                (put(number).text("t", &large), within("users", put(number).text("t", &large)));
            say(&mut world, &mut client, &mine.bytes(), "0 g1|");
            let got = exchange(&mut world, &mut client, &other.bytes(), 1);
            match show(&got, world.now.unix_ms).as_str() {
                "0 g1|" => {}
                "8 g0|" => refused += 1,
                other => panic!("{other}"),
            }
            assert!(held(&world, 1) <= MEMORY_SIZE / 100 * 5, "no more than its share");
        }
        assert_eq!(count(&world, 0), 600, "{policy:?}: the other one is as it was");
        // A record takes a little over 10,000 bytes, and a lane's part ends before the next would fit.
        let kept = count(&world, 1);
        assert!((290..336).contains(&kept), "{policy:?} over {lane_count} lanes: {kept}");
        // None of its records has an end, so that the last policy finds none that may go.
        let is_evicting = policy == Policy::AllKeysLru;
        assert_eq!(refused, if is_evicting { 0 } else { 600 - kept }, "{policy:?} over {lane_count} lanes");
        let said = info(&mut world, &mut client, "namespace/users");
        let of_lane = MEMORY_SIZE / u64::from(lane_count) / 100 * 5;
        assert!(said.contains(&format!(";memory-size={of_lane};")), "{said}");
        let used = world.lanes[0].shard().held_by(first + 1);
        assert!(said.contains(&format!(";memory_used_bytes={used};")), "{said}");
        assert!(said.contains(";stop_writes=false;"), "a smaller one would still fit: {said}");
        // Reading and removing go on, and make room.
        let newest = within("users", get(if is_evicting { 599 } else { 0 }));
        let got = exchange(&mut world, &mut client, &newest.bytes(), 1);
        assert!(show(&got, world.now.unix_ms).starts_with("0 g1 t="), "{policy:?}");
        assert_eq!(info(&mut world, &mut client, "truncate:namespace=users"), "ok");
        for number in 0..20 {
            let again = within("users", put(number).text("t", &large));
            say(&mut world, &mut client, &again.bytes(), "0 g1|");
        }
        // One that never fits is refused at once, and takes nobody's place.
        let huge = within("users", put(700).text("t", &"x".repeat(900_000)));
        let want = if lane_count == 4 { "8 g0|" } else { "0 g1|" };
        say(&mut world, &mut client, &huge.bytes(), want);
        let lane = world.lanes.iter().map(|lane| lane.shard().count(first + 1)).sum::<u64>();
        assert_eq!(lane, if lane_count == 4 { 20 } else { 21 });
    }
}

/// A write for which its lane waits, until other lanes have said that they have nothing either, is refused in the words of the
/// dialect, too.
#[test]
fn who_has_waited_for_room_is_refused_alike() {
    let memory_size_max = 8 << 20;
    let settings = Settings { memory_size_max, policy: Policy::VolatileLru, ..settings() };
    let mut world = World::new(4, &settings, 1, Faults::default());
    let mut client = world.connect(0);
    let large = "x".repeat(30_000);
    let mut refused = 0;
    for number in 0..400 {
        client.send(&put(number).text("t", &large).bytes());
        client.pump();
        for _ in 0..2000 {
            world.now.mono_ns += 1_000_000;
            world.round();
            client.pump();
            if !client.received.is_empty() {
                break;
            }
        }
        match show(&std::mem::take(&mut client.received), world.now.unix_ms).as_str() {
            "0 g1|" => {}
            "8 g0|" => refused += 1,
            other => panic!("record {number}: {other:?}"),
        }
    }
    assert!((100..300).contains(&refused), "{refused} of 400");
}
