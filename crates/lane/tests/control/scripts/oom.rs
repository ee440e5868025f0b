//! Scripts where there is no room for what they add.

use lane::Settings;
use net::mem::Client;

use super::{audit, hear, key_of, say, send};
use crate::world::World;

/// All lanes together may hold 4 MiB.
fn tight(lanes: u16) -> World {
    World::told(lanes, &[("maxmemory", "4194304")], |settings: &mut Settings| {
        settings.memory_size_max = 4 << 20;
    })
}

#[test]
fn a_script_without_room_is_told_by_its_call() {
    for lanes in [1, 2] {
        let mut world = tight(lanes);
        let client = world.connect();
        let (a, b) = (key_of(0, lanes), format!("{{{}}}b", key_of(lanes - 1, lanes)));
        let fills = "for i = 1, 200 do redis.call('append', KEYS[1 + i % 2], string.rep('x', 100000)) end";
        // It begins while there is room, and is not cut off.
        send(&client, &["EVAL", fills, "2", &a, &b]);
        (0..1000).for_each(|_| world.round(1_000));
        assert_eq!(hear(&mut world, &client), "$-1\r\n");
        assert_eq!(say(&mut world, &client, &["STRLEN", &b]), ":10000000\r\n");
        for key in [&a, &b] {
            let script = "return redis.call('append', KEYS[1], 'x')";
            let got = say(&mut world, &client, &["EVAL", script, "1", key]);
            assert!(got.starts_with("-OOM command not allowed when used memory > 'maxmemory'."), "{got}");
        }
        let frees = "return redis.call('del', KEYS[1], KEYS[2])";
        assert_eq!(say(&mut world, &client, &["EVAL", frees, "2", &a, &b]), ":2\r\n");
        let fits = "for i = 1, 100 do redis.call('set', KEYS[1], string.rep('x', 100000)) end return 'done'";
        assert_eq!(say(&mut world, &client, &["EVAL", fits, "2", &a, &b]), "$4\r\ndone\r\n");
        audit(world, client);
    }
}

#[test]
fn what_a_script_has_begun_to_change_it_may_end() {
    for lanes in [1, 2] {
        let mut world = tight(lanes);
        let client = world.connect();
        let [from, to, third] = [(0, "from"), (lanes - 1, "to"), (0, "third")]
            .map(|(lane, name)| format!("{{{}}}{name}", key_of(lane, lanes)));
        let value = "x".repeat(50_000);
        assert_eq!(say(&mut world, &client, &["SET", &from, "precious"]), "+OK\r\n");
        let is_full = |number: &usize| {
            let got = say(&mut world, &client, &["SET", &format!("{number}"), &value]);
            got.starts_with("-OOM ")
        };
        // Both lanes are full: the keys are spread over them.
        assert!((0..200).filter(is_full).count() > 100);
        let script = "local v = redis.call('getdel', KEYS[1]) redis.call('set', KEYS[2], v) redis.call('copy', KEYS[2], KEYS[1])
            redis.call('mset', KEYS[3], string.rep('y', 300000)) return v";
        let words = ["EVAL", script, "3", &from, &to, &third];
        assert_eq!(say(&mut world, &client, &words), "$8\r\nprecious\r\n", "{lanes} lanes");
        for key in [&from, &to] {
            assert_eq!(say(&mut world, &client, &["GET", key]), "$8\r\nprecious\r\n");
        }
        assert_eq!(say(&mut world, &client, &["STRLEN", &third]), ":300000\r\n");
        audit(world, client);
    }
}

/// A long command's room is made in slices.
#[test]
fn a_call_for_which_there_is_no_room_is_refused_alone() {
    for lanes in [1, 2] {
        let mut world = tight(lanes);
        let client = world.connect();
        let key = key_of(lanes - 1, lanes);
        let script =
            "local mset = function() return redis.pcall('mset', KEYS[1], string.rep('x', 5e6)).err end
            return {mset(), mset(), redis.call('get', KEYS[1])}";
        let refusal = "OOM command not allowed when used memory > 'maxmemory'.";
        let refused = format!("${}\r\n{refusal}\r\n", refusal.len());
        for _ in 0..2 {
            let got = say(&mut world, &client, &["EVAL", script, "1", &key]);
            assert_eq!(got, format!("*3\r\n{refused}{refused}$-1\r\n"));
        }
        audit(world, client);
    }
}

/// Both lanes, to a few kilobytes: the keys are spread over them.
fn fill(world: &mut World, client: &Client) {
    for size in [50_000, 5_000, 500] {
        let value = "x".repeat(size);
        let mut is_full = |number: &usize| {
            say(world, client, &["SET", &format!("{number}:{size}"), &value]).starts_with("-OOM ")
        };
        assert!((0..200).filter(&mut is_full).count() > 100);
    }
}

/// Whether there is room is known before anything is done, wherever it is.
#[test]
fn a_call_over_lanes_begins_on_all_of_them_or_on_none() {
    let mut world = tight(2);
    let client = world.connect();
    for (a, b) in [(0, 1), (1, 0)].map(|(a, b)| (key_of(a, 2), key_of(b, 2))) {
        // One of them has room, the other has not.
        for name in ["mset", "msetnx"] {
            let script = "local got = redis.pcall(ARGV[1], KEYS[1], 'small', KEYS[2], string.rep('x', 5e6))
                return {got.err, redis.call('get', KEYS[1]), redis.call('get', KEYS[2])}";
            let got = say(&mut world, &client, &["EVAL", script, "2", &a, &b, name]);
            let refusal = "OOM command not allowed when used memory > 'maxmemory'.";
            let want = format!("*3\r\n${}\r\n{refusal}\r\n$-1\r\n$-1\r\n", refusal.len());
            assert_eq!(got, want, "{name} {a} {b}");
        }
        // What is refused has not written: it may be ended.
        let other = world.connect();
        let script = "redis.pcall('mset', KEYS[1], 'small', KEYS[2], string.rep('x', 5e6)) while true do end";
        send(&client, &["EVAL", script, "2", &a, &b]);
        world.ask(&other, "CONFIG SET busy-reply-threshold 1");
        (0..400).for_each(|_| world.round(1_000_000));
        assert_eq!(say(&mut world, &other, &["SCRIPT", "KILL"]), "+OK\r\n");
        assert!(hear(&mut world, &client).contains("Script killed by user with SCRIPT KILL"));
        assert_eq!(say(&mut world, &client, &["EXISTS", &a, &b]), ":0\r\n");
        other.cut();
    }
    audit(world, client);
}

/// What looks before it adds is told before it looks.
#[test]
fn a_call_of_steps_begins_where_there_is_room_for_it() {
    let mut world = tight(2);
    let client = world.connect();
    let (a, b) = (key_of(0, 2), key_of(1, 2));
    assert_eq!(say(&mut world, &client, &["SET", &a, "source"]), "+OK\r\n");
    fill(&mut world, &client);
    let long = format!("{{{b}}}{}", "n".repeat(30_000));
    for call in [
        "'copy', KEYS[1], KEYS[2]",
        "'msetnx', KEYS[1], 'v', KEYS[2], 'v'",
        "'bitop', 'not', KEYS[2], KEYS[1]",
    ] {
        let script = format!(
            "local got = redis.pcall({call}) return {{got.err:sub(1, 3), redis.call('get', KEYS[1]), redis.call('get', KEYS[2])}}"
        );
        let got = say(&mut world, &client, &["EVAL", &script, "2", &a, &long]);
        assert_eq!(got, "*3\r\n$3\r\nOOM\r\n$6\r\nsource\r\n$-1\r\n", "{call}");
    }
    audit(world, client);
}

/// Before anybody looks at its text.
#[test]
fn a_script_larger_than_it_may_be_is_refused() {
    for lanes in [1, 2] {
        let mut world =
            World::told(lanes, &[], |settings: &mut Settings| settings.script_memory_max = 40_000);
        let client = world.connect();
        let (key, long) = (key_of(lanes - 1, lanes), "x".repeat(45_000));
        let refusal = "-ERR the arguments of this script are larger than script-memory-limit\r\n";
        let text = format!("return '{long}'");
        for words in [["EVAL", &text, "1", &key, "v"], ["EVAL_RO", "return 1", "1", &key, &long]] {
            assert_eq!(say(&mut world, &client, &words), refusal);
            say(&mut world, &client, &["MULTI"]);
            assert_eq!(say(&mut world, &client, &words), "+QUEUED\r\n");
            assert_eq!(say(&mut world, &client, &["EXEC"]), format!("*1\r\n{refusal}"));
        }
        assert_eq!(say(&mut world, &client, &["PING"]), "+PONG\r\n");
        audit(world, client);
    }
}
