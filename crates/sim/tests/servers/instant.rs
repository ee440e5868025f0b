//! The one time that an EXEC, and a command of several keys, sees, however long it takes: keys end meanwhile, lanes go by clocks that
//! they read at different times, and others see what has ended.

use std::collections::BTreeSet;

use crate::check::Talk;
use sim::{Client, World};
use wire::client::{Collector, Reply};
use wire::route::PartitionMap;

/// How many keys, or commands, take some turns.
const MANY: usize = 6000;

fn send(client: &mut Client, lines: &[&str]) {
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| wire::client::command(&mut bytes, &crate::check::words(line)));
    client.send(&bytes);
    client.pump();
}

/// Rounds of a millisecond each, until there are so many replies.
fn replies(world: &mut World, client: &mut Client, count: usize) -> (Vec<Reply>, usize) {
    let (mut all, mut rounds) = (Vec::new(), 0);
    let mut collector = Collector::default();
    while all.len() < count {
        client.pump();
        let bytes = std::mem::take(&mut client.received);
        let mut at = 0;
        loop {
            let (reply, size) = collector.next(&bytes[at..]).expect("the server speaks RESP");
            at += size;
            let Some(reply) = reply else { break };
            all.push(reply);
        }
        client.received = bytes[at..].to_vec();
        world.round();
        world.pass(950_000);
        rounds += 1;
        assert!(rounds < 5_000, "{} of {count} replies", all.len());
    }
    (all, rounds)
}

/// A key of each lane.
fn keys(lane_count: u16) -> Vec<String> {
    let map = PartitionMap::even(lane_count);
    let of = |lane| {
        let names = (0..).map(|number| format!("key:{number}"));
        names.into_iter().find(|name| map.owner_of(name.as_bytes()).0 == lane).expect("there are enough")
    };
    (0..lane_count).map(of).collect()
}

fn array(reply: &Reply) -> &[Reply] {
    let Reply::Array(items) = reply else { panic!("not an array: {reply:?}") };
    items
}

#[test]
fn an_exec_sees_one_time_however_long_it_takes() {
    for lane_count in [1, 2, 4] {
        let mut world = World::quiet(lane_count);
        let mut client = world.connect(0);
        let keys = keys(lane_count);
        let mut lines = vec!["MULTI".to_owned(), "TIME".to_owned()];
        lines.extend(keys.iter().map(|key| format!("SET {key} v PX 3")));
        for nth in 0..MANY {
            let key = &keys[nth % keys.len()];
            let line = match nth / keys.len() % 5 {
                0 => format!("GET {key}"),
                1 => format!("PTTL {key}"),
                2 => format!("PEXPIRETIME {key}"),
                3 => format!("MGET {}", keys.join(" ")),
                _ => "TIME".to_owned(),
            };
            lines.push(line);
        }
        // What is written anew late is written at the same time.
        lines.extend(keys.iter().map(|key| format!("GETEX {key} PX 3")));
        lines.extend(keys.iter().map(|key| format!("PEXPIRETIME {key}")));
        lines.push("EXEC".to_owned());
        send(&mut client, &lines.iter().map(String::as_str).collect::<Vec<_>>());
        let (all, rounds) = replies(&mut world, &mut client, lines.len());
        assert!(rounds > 10, "{rounds} rounds are over before any key's time is");
        let items = array(all.last().expect("EXEC has a reply"));
        assert_eq!(items.len(), lines.len() - 2);
        let different: BTreeSet<(String, String)> = items
            .iter()
            .zip(&lines[1..])
            .map(|(item, line)| (line.split(' ').next().expect("a name").to_owned(), format!("{item:?}")))
            .collect();
        // One reply to each, wherever in the transaction and on whatever lane.
        let shown = different.iter().take(20);
        assert_eq!(different.len(), 7, "{lane_count} lanes: {:?}", shown.collect::<Vec<_>>());
        assert!(different.contains(&("PTTL".to_owned(), "Integer(3)".to_owned())), "{different:?}");
        assert!(
            !different.iter().any(|(name, seen)| name.ends_with("GET") && seen.contains("Null")),
            "{different:?}"
        );
        // Afterwards their time is over, and nothing is left of them.
        (0..20).for_each(|_| world.pass(1_000_000));
        (0..4).for_each(|_| world.round());
        assert_eq!(world.lanes.iter().map(|lane| lane.stats().keys).sum::<u64>(), 0);
    }
}

/// Says how many of the values in its reply are there. A key of each lane comes to its end so many rounds after the lines have begun
/// to run as a transaction; then another client says something, too.
fn there(lane_count: u16, lines: &[String], rounds: usize, others: &[&str]) -> Option<usize> {
    let mut world = World::quiet(lane_count);
    let (mut client, mut other) = (world.connect(0), world.connect(0));
    let end_ms = world.now.unix_ms + 1000;
    let sets: Vec<String> = keys(lane_count).iter().map(|key| format!("SET {key} v PXAT {end_ms}")).collect();
    send(&mut client, &sets.iter().map(String::as_str).collect::<Vec<_>>());
    replies(&mut world, &mut client, sets.len());
    let before: u64 = world.lanes.iter().map(|lane| lane.stats().transactions).sum();
    send(&mut client, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    while world.lanes.iter().map(|lane| lane.stats().transactions).sum::<u64>() == before {
        client.pump();
        world.round();
    }
    (0..rounds).for_each(|_| world.round());
    if world.is_idle() {
        return None;
    }
    world.pass(2_000_000_000);
    send(&mut other, others);
    let (seen, _) = replies(&mut world, &mut other, others.len());
    assert!(seen.iter().all(|seen| *seen != Reply::Bulk(b"v".to_vec())), "others see that it is over");
    let (all, _) = replies(&mut world, &mut client, lines.len());
    let values = array(all.last().expect("there is a reply"));
    Some(values.iter().filter(|value| **value == Reply::Bulk(b"v".to_vec())).count())
}

/// Whenever the time comes of what the lines look at, all of them see it before, or all after.
fn check_all_or_nothing(lane_count: u16, lines: &[String], count: usize, others: &[&str]) {
    let seen: Vec<usize> =
        (0..).map_while(|rounds| there(lane_count, lines, rounds, others)).take(200).collect();
    assert!(seen.len() > 3, "{seen:?}");
    let is_one = |there: &usize| [0, count].contains(there);
    assert!(seen.iter().all(is_one), "{lane_count} lanes: {seen:?} of {count}");
    assert!(seen.contains(&count), "time comes while they run: {seen:?}");
}

/// Of several keys on one lane, in slices, and on several.
#[test]
fn a_command_of_several_keys_sees_one_time() {
    for lane_count in [1, 4] {
        let keys = keys(lane_count);
        let words: Vec<&str> = (0..MANY).map(|nth| keys[nth % keys.len()].as_str()).collect();
        check_all_or_nothing(lane_count, &[format!("MGET {}", words.join(" "))], MANY, &["PING"]);
    }
}

/// Lane 1 grants before lane 2's clock says that a watched key of lane 1 is over, and no other lane tells it.
#[test]
fn a_watched_key_that_ends_before_all_locks_are_there_has_changed() {
    for (passed_ms, want) in [(0, "*1\r\n+OK\r\n"), (2, "*-1\r\n")] {
        let keys = keys(3);
        let mut talk = Talk::new(3);
        let end_ms = talk.world.now.unix_ms + 10;
        talk.say(&format!("SET {} v PXAT {end_ms}", keys[1]));
        talk.say(&format!("WATCH {}", keys[1]));
        talk.say("MULTI");
        talk.say(&format!("SET {} w", keys[2]));
        let World { now, .. } = &mut talk.world;
        now.mono_ns += u64::try_from(end_ms - 1 - now.unix_ms).expect("ahead") * 1_000_000;
        now.unix_ms = end_ms - 1;
        let client = &mut talk.client;
        client.send(b"*1\r\n$4\r\nexec\r\n");
        client.pump();
        talk.world.turn(0);
        talk.world.turn(1);
        talk.world.pass(passed_ms * 1_000_000);
        talk.world.turn(2);
        assert_eq!(
            String::from_utf8_lossy(&talk.hear().expect("EXEC is answered")),
            want,
            "{passed_ms} ms later"
        );
    }
}

/// Two lanes take part. One has read its clock before the key's time had come, and the other after: the transaction goes by the later
/// time, and then so does who asks the former lane in the same turn.
#[test]
fn what_a_transaction_has_seen_end_is_there_for_nobody_after_it() {
    for is_late in [false, true] {
        let keys = keys(3);
        let mut talk = Talk::new(3);
        let end_ms = talk.world.now.unix_ms + 10;
        talk.say(&format!("SET {} v PXAT {end_ms}", keys[1]));
        let mut other = talk.world.connect(1);
        let ping = talk.world.exchange(&mut other, b"*1\r\n$4\r\nping\r\n", 7, 9);
        assert_eq!(ping, b"+PONG\r\n");
        talk.say("MULTI");
        talk.say(&format!("GET {}", keys[1]));
        talk.say(&format!("SET {} w", keys[2]));
        let (before, after) = (talk.world.now, end_ms - talk.world.now.unix_ms);
        let client = &mut talk.client;
        client.send(b"*1\r\n$4\r\nexec\r\n");
        client.pump();
        talk.world.turn(0);
        talk.world.turn(1);
        if is_late {
            talk.world.pass(u64::try_from(after).expect("ahead") * 1_000_000);
        }
        talk.world.turn(2);
        talk.world.turn(0);
        // Lane 1 is told to go on, in a turn that began long ago.
        talk.world.lags_ns[1] = u64::MAX;
        send(&mut other, &[&format!("GET {}", keys[1])]);
        assert!(before.unix_ms < end_ms);
        talk.world.turn(1);
        talk.world.lags_ns[1] = 0;
        other.pump();
        let got = String::from_utf8_lossy(&other.received).into_owned();
        assert_eq!(got, if is_late { "$-1\r\n" } else { "$1\r\nv\r\n" });
        let exec = String::from_utf8_lossy(&talk.hear().expect("EXEC is answered")).into_owned();
        assert_eq!(exec, format!("*2\r\n{got}+OK\r\n"));
    }
}

/// Who begins to watch a key that is over, or looks at it, does not take it from a transaction that still sees it.
#[test]
fn what_is_locked_stays_where_it_is() {
    let key = &keys(1)[0];
    let mut lines = vec!["MULTI".to_owned()];
    lines.extend(std::iter::repeat_n(format!("GET {key}"), MANY));
    lines.push("EXEC".to_owned());
    let (watch, get) = (format!("WATCH {key}"), format!("GET {key}"));
    check_all_or_nothing(1, &lines, MANY, &[&watch, &get]);
}
