//! CLIENT REPLY OFF and SKIP: what is not heard takes nothing with it that is.

use crate::check::{bulk, words};
use sim::World;
use wire::route::{PartitionMap, Slot};

/// A key of this lane of four.
fn key_of(lane: u16) -> String {
    let map = PartitionMap::even(4);
    let mut keys = (0..).map(|number: u32| format!("key:{number}"));
    keys.find(|key| map.owner(Slot::of(key.as_bytes())).0 == lane).expect("every lane has keys")
}

fn pipeline(lines: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        wire::client::command(&mut bytes, &words(line));
    }
    bytes
}

/// A value that is passed by reference, so that its reply waits for the end of the turn, and one of another lane, whose
/// reply comes in a later one: neither is heard, and the replies behind them are.
#[test]
fn a_reply_behind_one_that_is_skipped_is_heard() {
    for lane in [0, 1] {
        let mut world = World::quiet(4);
        let mut client = world.connect(0);
        let key = key_of(lane);
        let mut bytes = Vec::new();
        wire::client::command(&mut bytes, &[b"SET", key.as_bytes(), &[b'v'; 100_000]]);
        assert_eq!(world.exchange(&mut client, &bytes, 5, 100), b"+OK\r\n");
        let skip = pipeline(&["CLIENT REPLY SKIP".to_owned(), format!("GET {key}"), "ECHO heard".to_owned()]);
        let want = bulk(b"heard");
        assert_eq!(world.exchange(&mut client, &skip, want.len(), 100), want, "lane {lane}, in one piece");
        // The next command comes at every moment around the reply that is not heard.
        for rounds in 0..6 {
            client.send(&pipeline(&["CLIENT REPLY SKIP".to_owned(), format!("GET {key}")]));
            client.pump();
            for _ in 0..rounds {
                world.round();
            }
            let echo = pipeline(&[format!("ECHO {rounds}")]);
            let want = bulk(rounds.to_string().as_bytes());
            assert_eq!(
                world.exchange(&mut client, &echo, want.len(), 100),
                want,
                "lane {lane}, {rounds} rounds later"
            );
        }
    }
}

/// RESET ends CLIENT REPLY OFF and is answered, a skipped one is not; what a client says of replies inside MULTI is a command
/// like others.
#[test]
fn what_ends_the_silence_is_heard() {
    let check = |lines: &[&str], want: &str| {
        for lane_count in [1, 4] {
            let mut world = World::quiet(lane_count);
            let mut client = world.connect(0);
            let lines: Vec<String> = lines.iter().chain([&"PING"]).map(|line| (*line).to_owned()).collect();
            let want = format!("{want}+PONG\r\n");
            let got = world.exchange(&mut client, &pipeline(&lines), want.len(), 100);
            assert_eq!(String::from_utf8_lossy(&got), want, "{lines:?} over {lane_count} lanes");
        }
    };
    check(&["CLIENT REPLY OFF", "GET a", "RESET"], "+RESET\r\n");
    check(&["CLIENT REPLY SKIP", "RESET", "GET a"], "$-1\r\n");
    check(&["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "GET a"], "");
    check(&["CLIENT REPLY SKIP", "CLIENT REPLY ON"], "+OK\r\n");
    check(
        &["CLIENT REPLY OFF", "CLIENT REPLY x", "CLIENT REPLY SKIP", "GET a", "client reply On"],
        "+OK\r\n",
    );
    check(&["CLIENT REPLY OFF", "MULTI", "CLIENT REPLY ON", "RESET"], "+RESET\r\n");
}
