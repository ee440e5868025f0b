//! `min-replicas-to-write` without replicas: whoever asks for some is not written to. With them: `following`.

use super::world::World;

const REFUSED: &str = "-NOREPLICAS Not enough good replicas to write.\r\n";

/// What commands, one behind the other, are answered while two replicas are wanted, on a server of one lane and on one of three.
fn check(exchanges: &[(&str, &str)]) {
    for lanes in [1, 3] {
        let mut world = World::new(lanes);
        let client = world.connect();
        assert_eq!(world.ask(&client, "SET k old"), "+OK\r\n");
        assert_eq!(world.ask(&client, "CONFIG SET min-replicas-to-write 2"), "+OK\r\n");
        for (command, want) in exchanges {
            assert_eq!(world.ask(&client, command), *want, "{command} on {lanes} lanes");
        }
        assert_eq!(world.ask(&client, "CONFIG SET min-replicas-to-write 0"), "+OK\r\n");
        assert_eq!(world.ask(&client, "SET k new GET"), "$3\r\nold\r\n", "nothing was written meanwhile");
    }
}

#[test]
fn what_reads_is_served_and_what_writes_is_not() {
    check(&[
        ("GET k", "$3\r\nold\r\n"),
        ("SET k new", REFUSED),
        ("DEL k other third", REFUSED),
        ("FLUSHALL", REFUSED),
        ("PING", "+PONG\r\n"),
        ("DBSIZE", ":1\r\n"),
    ]);
}

#[test]
fn a_transaction_that_would_write_is_discarded() {
    let discarded = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    check(&[
        ("MULTI", "+OK\r\n"),
        ("SET k new", REFUSED),
        ("EXEC", discarded),
        ("EXEC", "-ERR EXEC without MULTI\r\n"),
    ]);
    check(&[("MULTI", "+OK\r\n"), ("GET k", "+QUEUED\r\n"), ("EXEC", "*1\r\n$3\r\nold\r\n")]);
}

#[test]
fn what_was_queued_before_is_not_written_either() {
    let mut world = World::new(2);
    let (client, other) = (world.connect(), world.connect());
    world.ask(&client, "WATCH k");
    world.ask(&client, "MULTI");
    assert_eq!(world.ask(&client, "SET k v"), "+QUEUED\r\n");
    world.ask(&other, "CONFIG SET min-replicas-to-write 1");
    let discarded =
        "-EXECABORT Transaction discarded because of: NOREPLICAS Not enough good replicas to write.\r\n";
    assert_eq!(world.ask(&client, "EXEC"), discarded);
    world.ask(&other, "CONFIG SET min-replicas-to-write 0");
    assert_eq!(world.ask(&client, "EXEC"), "-ERR EXEC without MULTI\r\n");
    assert_eq!(world.ask(&client, "GET k"), "$-1\r\n");
}

/// A script may read. One that says what it does is refused at once if it may write.
#[test]
fn a_script_is_told_when_it_writes() {
    let write = "EVAL return(redis.call('set',KEYS[1],'new')) 1 k";
    let caught = "EVAL return(redis.pcall('set',KEYS[1],'new').err) 1 k";
    let mut world = World::new(2);
    let client = world.connect();
    world.ask(&client, "CONFIG SET min-replicas-to-write 1");
    assert!(world.ask(&client, write).starts_with("-NOREPLICAS Not enough good replicas to write."));
    assert!(world.ask(&client, caught).contains("NOREPLICAS Not enough good replicas to write."));
    assert_eq!(world.ask(&client, "EVAL return(redis.call('get',KEYS[1])) 1 k"), "$-1\r\n");
    world.ask(&client, "MULTI");
    assert_eq!(world.ask(&client, write), "+QUEUED\r\n", "it may not come to writing");
    assert!(world.ask(&client, "EXEC").starts_with("*1\r\n-NOREPLICAS"));
}

#[test]
fn a_lag_of_zero_asks_for_none_and_silence_is_kept() {
    let mut world = World::new(1);
    let client = world.connect();
    world.ask(&client, "CONFIG SET min-slaves-to-write 1 min-replicas-max-lag 0");
    assert_eq!(world.ask(&client, "SET k v"), "+OK\r\n");
    world.ask(&client, "CONFIG SET min-replicas-max-lag 10");
    assert_eq!(world.ask(&client, "SET k w"), REFUSED);
    assert_eq!(world.ask(&client, "CLIENT REPLY OFF"), "");
    assert_eq!(world.ask(&client, "SET k w"), "");
    assert_eq!(world.ask(&client, "CLIENT REPLY ON"), "+OK\r\n");
    assert_eq!(world.ask(&client, "GET k"), "$1\r\nv\r\n");
    let stats = world.ask(&client, "INFO commandstats");
    let set = stats.lines().find(|line| line.starts_with("cmdstat_set:")).expect("SET was called");
    assert!(
        set.starts_with("cmdstat_set:calls=1,") && set.ends_with("rejected_calls=2,failed_calls=0"),
        "{set}"
    );
}

/// Who waits for replicas and ends its side is closed, and another lane's client may be let in at its place in the same turn.
#[test]
fn who_waits_no_more_leaves_nothing_to_whoever_takes_its_place() {
    for stays in [true, false] {
        let mut world = World::new(2);
        let client = world.connect();
        assert_eq!(world.ask(&client, "PING"), "+PONG\r\n");
        let mut guests = Vec::new();
        for _ in 0..20 {
            // Lane 0 has more clients, so the next one that it lets in is lane 1's.
            let waiting = world.connect_to(1);
            let others = [0, 0, 0].map(|lane| world.connect_to(lane));
            assert_eq!(world.ask(&waiting, "WAIT 1 0"), "");
            waiting.end();
            let guest = world.connect_at(0);
            assert_eq!(world.ask(&guest, "PING"), "+PONG\r\n");
            assert!(waiting.was_cut() || waiting.at_end());
            if stays {
                guests.push(guest);
            } else {
                guest.end();
            }
            others.iter().for_each(net::mem::Client::end);
        }
        (0..10).for_each(|_| world.round(1_000_000));
        let want = format!("connected_clients:{}\r\n", 1 + guests.len());
        let info = world.ask(&client, "INFO clients");
        assert!(info.contains(&want), "{want}{info}");
        let list = world.ask(&client, "CLIENT LIST");
        assert_eq!(list.matches("id=").count(), 1 + guests.len(), "{list}");
        assert!(world.lanes.iter().map(|lane| lane.stats().handovers).sum::<u64>() > 5);
    }
}
