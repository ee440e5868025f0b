//! Several buckets on the same ports: a key is another document in each, and what concerns one leaves the others.

use lane::{Namespace, Namespaces, Settings};
use net::fault::Faults;
use sim::{Client, World};

use crate::binary::{replies, request, request_at};
use crate::couchbase::{MEMCACHED, STORE, exchange, hello, key_of, pages, say, settings};

/// A server with two buckets, the second of which has a default time to live.
fn world(lane_count: u16) -> World {
    let users = Namespace { default_ttl_s: 60, ..Namespace::new("users") };
    let namespaces = Namespaces::new(vec![Namespace::new("default"), users], vec![Namespace::new("test")]);
    World::new(lane_count, &Settings { namespaces, ..settings() }, 1, Faults::default())
}

/// A client of a lane that has selected a bucket.
fn selected(world: &mut World, lane: usize, bucket: &str) -> Client {
    let mut client = world.connect(lane);
    assert_eq!(say(world, &mut client, &request(0x89, &[], bucket, "", 0)), "89:0: ");
    client
}

#[test]
fn a_key_is_another_document_in_each() {
    for lane_count in [1, 4] {
        let mut world = world(lane_count);
        let mut one = selected(&mut world, 0, "default");
        let mut two = selected(&mut world, 0, "users");
        for number in 0..20 {
            let key = format!("key-{number}");
            assert_eq!(say(&mut world, &mut one, &request(0x01, &STORE, &key, "one", 0)), "01:0: ");
            assert_eq!(say(&mut world, &mut two, &request(0x02, &STORE, &key, "two", 0)), "02:0: ");
            assert_eq!(say(&mut world, &mut one, &request(0x00, &[], &key, "", 0)), "00:0:one ");
            assert_eq!(say(&mut world, &mut two, &request(0x00, &[], &key, "", 0)), "00:0:two ");
        }
        // A client may select another one, and what it has sent behind that is meant for the other.
        let moved = [
            request(0x00, &[], "key-1", "", 0),
            request(0x89, &[], "users", "", 0),
            request(0x00, &[], "key-1", "", 0),
            request(0x89, &[], "none", "", 0),
            request(0x00, &[], "key-1", "", 0),
        ];
        let got = replies(&exchange(&mut world, &mut one, &moved.concat(), 5));
        let got: Vec<_> = got.iter().map(|reply| (reply.status, &reply.value[..])).collect();
        assert_eq!((got[0], got[1].0, got[2]), ((0, &b"one"[..]), 0, (0, &b"two"[..])));
        assert_eq!((got[3].0, got[4]), (0x24, (0, &b"two"[..])), "one that there is not changes nothing");
        // Who selects none has the first, and so have memcached's clients.
        let mut plain = world.connect(0);
        assert_eq!(say(&mut world, &mut plain, &request(0x00, &[], "key-2", "", 0)), "00:0:one ");
        let mut text = world.connect_at(0, MEMCACHED);
        let got = world.exchange(&mut text, b"get key-3\r\n", 26, 20_000);
        assert_eq!(String::from_utf8_lossy(&got), "VALUE key-3 33554432 3\r\none\r\nEND\r\n");
    }
}

#[test]
fn locks_flushes_and_ends_are_a_buckets_own() {
    let mut world = world(2);
    let mut one = selected(&mut world, 0, "default");
    let mut two = selected(&mut world, 0, "users");
    for client in [&mut one, &mut two] {
        assert_eq!(say(&mut world, client, &request(0x01, &STORE, "a", "v", 0)), "01:0: ");
    }
    // Both lock the same key; the one that lets go first does not open the other's.
    let cas = replies(&exchange(&mut world, &mut one, &request(0x94, &[], "a", "", 0), 1))[0].cas;
    let other = replies(&exchange(&mut world, &mut two, &request(0x94, &[], "a", "", 0), 1))[0].cas;
    assert_eq!(say(&mut world, &mut two, &request(0x95, &[], "a", "", other)), "95:0: ");
    assert!(
        say(&mut world, &mut one, &request(0x01, &STORE, "a", "x", 0)).starts_with("01:2:"),
        "it is locked"
    );
    assert_eq!(say(&mut world, &mut two, &request(0x01, &STORE, "a", "x", 0)), "01:0: ");
    assert_eq!(say(&mut world, &mut one, &request(0x95, &[], "a", "", cas)), "95:0: ");
    // An end that nobody names is the bucket's.
    world.now.unix_ms += 61_000;
    assert_eq!(say(&mut world, &mut one, &request(0x00, &[], "a", "", 0)), "00:0:v ");
    assert_eq!(say(&mut world, &mut two, &request(0x00, &[], "a", "", 0)), "00:1: ");
    // So is a flush, at once or later.
    for client in [&mut one, &mut two] {
        assert_eq!(say(&mut world, client, &request(0x01, &STORE, "a", "v", 0)), "01:0: ");
    }
    assert_eq!(say(&mut world, &mut one, &request(0x08, &5_u32.to_be_bytes(), "", "", 0)), "08:0: ");
    assert_eq!(say(&mut world, &mut two, &request(0x08, &[], "", "", 0)), "08:0: ");
    assert_eq!(say(&mut world, &mut one, &request(0x00, &[], "a", "", 0)), "00:0:v ");
    assert_eq!(say(&mut world, &mut two, &request(0x00, &[], "a", "", 0)), "00:1: ");
    assert_eq!(say(&mut world, &mut two, &request(0x01, &STORE, "a", "v", 0)), "01:0: ");
    world.now.unix_ms += 6_000;
    assert_eq!(say(&mut world, &mut one, &request(0x00, &[], "a", "", 0)), "00:1: ");
    assert_eq!(say(&mut world, &mut two, &request(0x00, &[], "a", "", 0)), "00:0:v ");
}

#[test]
fn each_has_a_map_and_pages_of_its_own() {
    let mut world = world(2);
    world.attend();
    let map = |world: &mut World, client: &mut Client| say(world, client, &request(0xb5, &[], "", "", 0));
    let mut one = selected(&mut world, 0, "default");
    let mut two = selected(&mut world, 0, "users");
    let (first, second) = (map(&mut world, &mut one), map(&mut world, &mut two));
    let uuid = |text: &str| {
        let (_, rest) = text.split_once(r#""uuid":""#).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    assert!(
        first.contains(r#""name":"default""#) && second.contains(r#""name":"users""#),
        "{first} {second}"
    );
    assert_ne!(uuid(&first), uuid(&second));
    // A client that is sent on has the map of the bucket that it has selected; if it wants a map once, each bucket's once.
    let key = key_of(&wire::route::PartitionMap::even(2), 1);
    let wrong = || request_at(1023, 0x00, &[], key.as_bytes(), b"", 0);
    let mut other = world.connect(0);
    exchange(&mut world, &mut other, &hello(&[8, 0x1e]), 1);
    for bucket in ["users", "default"] {
        assert_eq!(say(&mut world, &mut other, &request(0x89, &[], bucket, "", 0)), "89:0: ");
        assert!(say(&mut world, &mut other, &wrong()).contains(&format!(r#""name":"{bucket}""#)));
        assert_eq!(say(&mut world, &mut other, &wrong()), "00:7: ");
    }
    assert_eq!(say(&mut world, &mut one, &request(0x01, &STORE, "a", "v", 0)), "01:0: ");
    let mut page = |path: &str| pages::page(&mut world, 0, &format!("GET {path} HTTP/1.1\r\n\r\n"));
    let all = page("/pools/default/buckets");
    let names: Vec<_> =
        all.match_indices(r#"[{"name":""#).chain(all.match_indices(r#"},{"name":""#)).collect();
    assert_eq!(names.len(), 2, "{all}");
    assert!(page("/pools/default/buckets/default").contains(r#""itemCount":1,"#));
    assert!(page("/pools/default/buckets/users").contains(r#""itemCount":0,"#));
    assert!(page("/pools/default/b/users").contains(r#""name":"users""#));
    assert!(page("/pools/default/bs/users").contains(r#""name":"users""#));
    assert!(page("/pools/default/b/none").starts_with("HTTP/1.1 404 "));
}

/// A bucket that has taken its share says so in its own words, to memcached's clients too, and the other goes on.
#[test]
fn a_share_is_answered_in_the_words_of_the_dialect() {
    let small = Namespace { memory_share: Some(1), ..Namespace::new("default") };
    let namespaces = Namespaces::new(vec![small, Namespace::new("users")], vec![Namespace::new("test")]);
    let settings = Settings { namespaces, memory_size_max: 32 << 20, ..settings() };
    let mut world = World::new(2, &settings, 1, Faults::default());
    let mut one = selected(&mut world, 0, "default");
    let mut two = selected(&mut world, 0, "users");
    let large = "x".repeat(20_000);
    let (mut stored, mut refused) = (0, 0);
    for number in 0..40 {
        let set = request(0x01, &STORE, &format!("key-{number}"), &large, 0);
        match replies(&exchange(&mut world, &mut one, &set, 1))[0].status {
            0 => stored += 1,
            0x82 => refused += 1,
            other => panic!("{other:x}"),
        }
        assert_eq!(say(&mut world, &mut two, &set), "01:0: ");
    }
    assert!((12..=16).contains(&stored) && refused == 40 - stored, "{stored} and {refused}");
    world.attend();
    let mut page = |path: &str| pages::page(&mut world, 0, &format!("GET {path} HTTP/1.1\r\n\r\n"));
    let share = (32 << 20) / 2 / 100 * 2;
    let own = page("/pools/default/buckets/default");
    assert!(own.contains(&format!(r#""quota":{{"ram":{share},"rawRAM":{share}}}"#)), "{own}");
    assert!(page("/pools/default/buckets/users").contains(r#""quota":{"ram":33554432,"#));
    let mut text = world.connect_at(0, MEMCACHED);
    let line = format!("set key-0 0 0 {}\r\n{large}\r\n", large.len());
    let got = world.exchange(&mut text, line.as_bytes(), 20, 20_000);
    assert_eq!(String::from_utf8_lossy(&got), "SERVER_ERROR out of memory storing object\r\n");
}
