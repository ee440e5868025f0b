//! MIGRATE: what another server is sent, what follows from what it says, and what is here in the end. It is played by the test, or by
//! another world.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lane::{Outgoing, Reached};
use net::mem;

use super::world::World;

/// Connections to nowhere: what was sent on each, and what is to be heard of them.
#[derive(Default)]
pub(crate) struct Wires {
    dialled: Vec<(u64, String, u16)>,
    sent: BTreeMap<u64, Vec<u8>>,
    hung_up: Vec<u64>,
    news: VecDeque<(u64, Reached)>,
    /// The other side takes nothing.
    is_stuck: bool,
    /// Nobody picks up.
    is_silent: bool,
}

impl Outgoing for Wires {
    fn dial(&mut self, link: u64, host: &str, port: u16, _timeout: Duration) {
        self.dialled.push((link, host.to_owned(), port));
        if !self.is_silent {
            self.news.push_back((link, Reached::Connected));
        }
    }

    fn send(&mut self, link: u64, bytes: Vec<u8>) {
        if !self.is_stuck {
            self.news.push_back((link, Reached::Sent(bytes.len())));
        }
        self.sent.entry(link).or_default().extend(bytes);
    }

    fn hang_up(&mut self, link: u64) {
        self.hung_up.push(link);
    }

    fn hear(&mut self) -> Option<(u64, Reached)> {
        self.news.pop_front()
    }
}

/// A server, a client that says MIGRATE, and another.
struct Scene {
    world: World,
    client: mem::Client,
    other: mem::Client,
}

const OK: &str = "+OK\r\n";
const NOKEY: &str = "+NOKEY\r\n";

impl Scene {
    fn new(lane_count: u16) -> Scene {
        let world = World::new(lane_count);
        let (client, other) = (world.connect(), world.connect());
        Scene { world, client, other }
    }

    /// The other client's command.
    fn ask(&mut self, command: &str) -> String {
        self.world.ask(&self.other, command)
    }

    /// What the client has been answered when it has said this.
    fn say(&mut self, command: &str) -> String {
        self.world.ask(&self.client, command)
    }

    fn wires(&mut self) -> &mut Wires {
        &mut self.world.machine.wires
    }

    /// What was sent on a connection since this was last asked, as words.
    fn sent(&mut self, link: u64) -> String {
        let bytes = self.wires().sent.remove(&link).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let is_word = |line: &&str| !line.starts_with(['*', '$']);
        // A payload ends with bytes that are no text.
        let word =
            |line: &str| if line.contains('\u{fffd}') || line.contains('\0') { "…" } else { line }.to_owned();
        text.split("\r\n").filter(is_word).map(word).collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }

    /// The other server says this.
    fn replied(&mut self, link: u64, bytes: &str) -> String {
        self.reached(link, Reached::Received(bytes.as_bytes().to_vec()))
    }

    /// Something happens to a connection; what the client is answered then.
    fn reached(&mut self, link: u64, reached: Reached) -> String {
        self.wires().news.push_back((link, reached));
        self.rounds(20)
    }

    fn rounds(&mut self, count: usize) -> String {
        (0..count).for_each(|_| self.world.round(1_000_000));
        String::from_utf8_lossy(&self.client.read_all()).into_owned()
    }

    /// Nothing is left under way.
    fn end(&mut self) {
        self.client.cut();
        self.other.cut();
        self.rounds(20);
        assert!(self.world.is_idle(), "nothing is left under way");
        self.world.lanes.iter().for_each(lane::Lane::audit);
    }
}

/// The same scene over one lane and over three.
fn over_lanes(scene: impl Fn(&mut Scene)) {
    for lane_count in [1, 3] {
        let mut it = Scene::new(lane_count);
        scene(&mut it);
        it.end();
    }
}

#[test]
fn a_key_goes_and_is_gone_when_the_other_server_has_it() {
    over_lanes(|it| {
        it.ask("SET k hello PX 60000");
        assert_eq!(it.say("MIGRATE there 7000 k 9 5000"), "");
        assert_eq!(it.wires().dialled, [(1, "there".to_owned(), 7000)]);
        assert_eq!(it.sent(1), "SELECT 9");
        assert_eq!(it.replied(1, "+OK\r\n"), "");
        let sent = it.sent(1);
        let ttl: i64 = sent.split(' ').nth(2).and_then(|word| word.parse().ok()).unwrap_or(0);
        assert!(sent.starts_with("RESTORE k ") && (59_000..=60_000).contains(&ttl), "{sent}");
        assert_eq!(it.ask("GET k"), "$5\r\nhello\r\n", "it is here until the other has it");
        assert_eq!(it.replied(1, "+O"), "");
        assert_eq!(it.replied(1, "K\r\n"), OK);
        assert_eq!(it.ask("EXISTS k"), ":0\r\n");
        // The connection is used again, and the database is the same.
        it.ask("SET l world");
        assert_eq!(it.say("MIGRATE there 7000 l 9 5000 REPLACE"), "");
        assert_eq!(it.sent(1), "RESTORE l 0 … REPLACE");
        assert_eq!(it.replied(1, "+OK\r\n"), OK);
        assert_eq!(it.wires().dialled.len(), 1);
        assert!(it.ask("INFO stats").contains("migrate_cached_sockets:1\r\n"));
        it.rounds(10_100);
        assert_eq!(it.wires().hung_up, [1], "ten seconds without use are enough");
        assert!(it.ask("INFO stats").contains("migrate_cached_sockets:0\r\n"));
    });
}

#[test]
fn what_is_not_there_is_no_reason_to_call() {
    over_lanes(|it| {
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000"), NOKEY);
        assert_eq!(it.say("MIGRATE there 7000  0 5000 KEYS a b c d e f g h"), NOKEY);
        assert_eq!(it.say("MIGRATE there 7000  0 5000 KEYS"), NOKEY);
        assert!(it.wires().dialled.is_empty());
        let refused =
            "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string\r\n";
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000 KEYS a"), refused);
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000 NOSUCH"), "-ERR syntax error\r\n");
        assert_eq!(it.say("MIGRATE there 7000 k 0 soon"), "-ERR value is not an integer or out of range\r\n");
        it.client.cut();
        it.client = it.world.connect_small(0, 1 << 20);
        let long = "k".repeat(store::KEY_SIZE_MAX + 1);
        let refused = "-ERR key is longer than 32768 bytes\r\n";
        assert_eq!(it.say(&format!("MIGRATE there 7000 {long} 0 5000")), refused);
        assert_eq!(it.say(&format!("MIGRATE there 7000  0 5000 KEYS a {long}")), refused);
        assert!(it.ask("INFO commandstats").contains("cmdstat_migrate:calls=8,"));
    });
}

#[test]
fn a_place_that_is_none_cannot_be_connected_to() {
    over_lanes(|it| {
        let refused = "-IOERR error or timeout connecting to the client\r\n";
        it.ask("SET k v");
        assert_eq!(it.say("MIGRATE there 0 k 0 5000"), refused);
        assert_eq!(it.say("MIGRATE there 70000 k 0 5000"), refused);
        assert!(it.wires().dialled.is_empty());
        it.wires().is_silent = true;
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000"), "");
        assert_eq!(it.reached(1, Reached::Ended), refused);
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000"), "");
        let told = "-IOERR error or timeout writing to target instance\r\n";
        assert_eq!(it.reached(2, Reached::Refused), told, "Redis notices when it writes");
        // Nobody picks up.
        assert_eq!(it.say("MIGRATE there 7000 k 0 100"), "");
        assert_eq!(it.rounds(100), refused);
        assert_eq!(it.wires().hung_up.last(), Some(&3));
        assert_eq!(it.ask("GET k"), "$1\r\nv\r\n");
        assert!(it.ask("INFO errorstats").contains("errorstat_IOERR:count=5\r\n"));
    });
}

#[test]
fn only_what_the_other_server_has_taken_is_gone() {
    over_lanes(|it| {
        it.ask("MSET a 1 b 2 c 3");
        assert_eq!(it.say("MIGRATE there 7000  0 5000 KEYS a x b c"), "");
        it.replied(1, "+OK\r\n");
        let sent = it.sent(1);
        // Lanes answer in any order.
        let mut keys: Vec<&str> =
            sent.split("RESTORE ").filter_map(|words| words.split(' ').next()).collect();
        keys.retain(|key| ["a", "b", "c"].contains(key));
        assert_eq!(keys.len(), 3, "{sent}");
        let mut replies = String::new();
        for key in &keys {
            replies += if *key == "b" { "-BUSYKEY Target key name already exists.\r\n" } else { "+OK\r\n" };
        }
        let told = "-ERR Target instance replied with error: BUSYKEY Target key name already exists.\r\n";
        assert_eq!(it.replied(1, &replies), told);
        assert_eq!(it.ask("MGET a b c"), "*3\r\n$-1\r\n$1\r\n2\r\n$-1\r\n");
        // After an error the database is said again.
        assert_eq!(it.say("MIGRATE there 7000 b 0 5000 COPY"), "");
        assert_eq!(it.sent(1), "SELECT 0");
        it.replied(1, "+OK\r\n");
        assert_eq!(it.replied(1, "+OK\r\n"), OK);
        assert_eq!(it.ask("GET b"), "$1\r\n2\r\n", "a copy leaves the key");
    });
}

#[test]
fn a_server_that_hangs_is_given_up() {
    over_lanes(|it| {
        it.ask("MSET a 1 b 2");
        assert_eq!(it.say("MIGRATE there 7000  0 100 KEYS a b"), "");
        it.replied(1, "+OK\r\n");
        // One answer is a sign of life.
        it.rounds(70);
        assert_eq!(it.replied(1, "+OK\r\n"), "");
        assert_eq!(it.rounds(75), "");
        let told = "-IOERR error or timeout reading to target instance\r\n";
        assert_eq!(it.rounds(30), told);
        assert_eq!(it.wires().hung_up, [1]);
        assert_eq!(it.ask("EXISTS a b"), ":1\r\n");
        it.wires().is_stuck = true;
        it.ask("MSET a 1 b 2");
        assert_eq!(it.say("MIGRATE there 7000 a 0 100"), "");
        assert_eq!(it.rounds(100), "-IOERR error or timeout writing to target instance\r\n");
        assert_eq!(it.ask("EXISTS a b"), ":2\r\n");
        assert_eq!(it.wires().dialled.len(), 2, "who has waited once does not wait again");
    });
}

#[test]
fn a_connection_that_ends_before_the_first_answer_is_made_once_more() {
    over_lanes(|it| {
        it.ask("SET k v");
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000"), "");
        it.replied(1, "+OK\r\n");
        assert_eq!(it.sent(1), "SELECT 0 RESTORE k 0 …");
        assert_eq!(it.reached(1, Reached::Ended), "");
        it.replied(2, "+OK\r\n");
        assert_eq!(it.sent(2), "SELECT 0 RESTORE k 0 …");
        assert_eq!(it.reached(2, Reached::Ended), "-IOERR error or timeout reading to target instance\r\n");
        assert_eq!(it.ask("EXISTS k"), ":1\r\n");
        // After an answer it is not: nobody knows what has become of the others.
        it.ask("SET l v");
        assert_eq!(it.say("MIGRATE there 7000  0 5000 KEYS k l"), "");
        it.replied(3, "+OK\r\n");
        it.replied(3, "+OK\r\n");
        assert_eq!(it.reached(3, Reached::Ended), "-IOERR error or timeout reading to target instance\r\n");
        assert_eq!(it.ask("EXISTS k l"), ":1\r\n");
        assert_eq!(it.wires().dialled.len(), 3);
        // One that nobody uses may end at any time, and no answer is expected on it.
        assert_eq!(it.say("MIGRATE there 7000  0 5000 COPY KEYS k l"), "");
        it.replied(4, "+OK\r\n");
        assert_eq!(it.replied(4, "+OK\r\n"), OK);
        assert_eq!(it.replied(4, "+OK\r\n"), "");
        assert_eq!(it.wires().hung_up.last(), Some(&4));
    });
}

#[test]
fn what_is_no_reply_of_redis_moves_nothing() {
    over_lanes(|it| {
        it.ask("SET k v");
        assert_eq!(it.say("MIGRATE there 80 k 0 5000"), "");
        it.replied(1, "HTTP/1.1 400 Bad Request\r\n");
        assert_eq!(it.wires().hung_up, [1]);
        assert_eq!(
            it.replied(2, "HTTP/1.1 400 Bad Request\r\n"),
            "-IOERR error or timeout reading to target instance\r\n"
        );
        assert_eq!(it.say("MIGRATE there 80 k 0 5000"), "");
        it.replied(3, &"x".repeat(70_000));
        it.replied(4, "+OK\r\n");
        assert_eq!(it.replied(4, "$2\r\n"), "-IOERR error or timeout reading to target instance\r\n");
        assert_eq!(it.ask("EXISTS k"), ":1\r\n");
    });
}

#[test]
fn a_key_that_changes_meanwhile_is_sent_again() {
    over_lanes(|it| {
        it.ask("SET k old");
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000"), "");
        it.replied(1, "+OK\r\n");
        assert_eq!(it.sent(1), "SELECT 0 RESTORE k 0 …");
        assert_eq!(it.ask("SET k new"), OK, "nobody waits for another server");
        assert_eq!(it.replied(1, "+OK\r\n"), "");
        assert_eq!(it.sent(1), "RESTORE k 0 … REPLACE");
        // Its end is part of it.
        it.ask("PEXPIRE k 100000");
        assert_eq!(it.replied(1, "+OK\r\n"), "");
        let sent = it.sent(1);
        assert!(sent.starts_with("RESTORE k 99") && sent.ends_with(" REPLACE"), "{sent}");
        assert_eq!(it.replied(1, "+OK\r\n"), OK);
        assert_eq!(it.ask("EXISTS k"), ":0\r\n");
    });
}

#[test]
fn a_key_that_keeps_changing_stays() {
    over_lanes(|it| {
        it.ask("SET k 0");
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000"), "");
        it.replied(1, "+OK\r\n");
        for _ in 0..7 {
            it.ask("INCR k");
            assert_eq!(it.replied(1, "+OK\r\n"), "");
        }
        it.ask("INCR k");
        let told = it.replied(1, "+OK\r\n");
        assert!(
            told.starts_with("-ERR a key changed each of the 8 times that it was sent")
                && told.ends_with(": k\r\n"),
            "{told}"
        );
        assert_eq!(it.ask("GET k"), "$1\r\n8\r\n");
        assert_eq!(it.sent(1).matches("RESTORE").count(), 8);
    });
}

#[test]
fn a_key_that_is_deleted_meanwhile_is_deleted_there() {
    over_lanes(|it| {
        it.ask("MSET k v l v");
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000"), "");
        it.replied(1, "+OK\r\n");
        assert_eq!(it.ask("DEL k"), ":1\r\n");
        it.sent(1);
        assert_eq!(it.replied(1, "+OK\r\n"), "");
        assert_eq!(it.sent(1), "DEL k");
        assert_eq!(it.replied(1, ":1\r\n"), OK);
        // One that could not be restored was not sent.
        assert_eq!(it.say("MIGRATE there 7000 l 0 5000"), "");
        it.ask("DEL l");
        it.sent(1);
        assert!(it.replied(1, "-BUSYKEY no\r\n").starts_with("-ERR Target instance"));
        assert_eq!(it.sent(1), "");
    });
}

#[test]
fn a_key_that_ends_meanwhile_ends_there_by_itself() {
    over_lanes(|it| {
        it.ask("SET k v PX 200");
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000"), "");
        it.replied(1, "+OK\r\n");
        it.sent(1);
        it.rounds(300);
        assert_eq!(it.replied(1, "+OK\r\n"), OK);
        assert_eq!(it.sent(1), "");
        // Before it is sent it is just not there any more.
        it.ask("SET l v PX 200");
        it.wires().is_silent = true;
        assert_eq!(it.say("MIGRATE elsewhere 7000 l 0 5000"), "");
        it.rounds(300);
        it.reached(2, Reached::Connected);
        assert_eq!(it.replied(2, "+OK\r\n"), OK);
        assert_eq!(it.sent(2), "SELECT 0");
    });
}

#[test]
fn passwords_are_said_first_and_connections_are_not_shared_by_others() {
    over_lanes(|it| {
        it.ask("SET k v");
        let ways = ["AUTH2 me secret", "AUTH secret", ""];
        for (link, way) in (1..).zip(ways) {
            assert_eq!(it.say(format!("MIGRATE there 7000 k 0 5000 COPY {way}").trim_end()), "");
            let said = format!("{} SELECT 0", way.replace("AUTH2", "AUTH"));
            assert_eq!(it.sent(link), said.trim_start());
            if !way.is_empty() {
                assert_eq!(it.replied(link, "+OK\r\n"), "");
                assert_eq!(it.sent(link), "", "no key is sent before the database is known to be right");
            }
            it.replied(link, "+OK\r\n");
            assert_eq!(it.replied(link, "+OK\r\n"), OK);
        }
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000 COPY AUTH secret"), "");
        assert_eq!(it.replied(2, "+OK\r\n"), OK, "one who says the same uses it again");
        it.wires().sent.clear();
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000 AUTH wrong"), "");
        let told = it.replied(4, "-WRONGPASS invalid\r\n-NOAUTH no\r\n");
        assert_eq!(told, "-ERR Target instance replied with error: WRONGPASS invalid\r\n");
        assert!(!it.sent(4).contains("RESTORE"));
        assert_eq!(it.wires().hung_up, [4]);
        assert_eq!(it.ask("EXISTS k"), ":1\r\n");
    });
}

#[test]
fn one_key_is_moved_by_one_alone() {
    over_lanes(|it| {
        it.ask("MSET k v l v");
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000 REPLACE"), "");
        it.replied(1, "+OK\r\n");
        let second = it.world.connect();
        assert_eq!(it.world.ask(&second, "MIGRATE elsewhere 7000  0 5000 KEYS k l"), "");
        it.replied(2, "+OK\r\n");
        assert_eq!(it.sent(2), "SELECT 0 RESTORE l 0 …");
        assert_eq!(it.replied(1, "+OK\r\n"), OK);
        it.replied(2, "+OK\r\n");
        assert_eq!(it.sent(2), "", "what is gone is not sent, and not deleted there either");
        assert_eq!(second.read_all(), OK.as_bytes());
        second.cut();
        // Named twice it goes once.
        it.ask("SET k v");
        assert_eq!(it.say("MIGRATE there 7000  0 5000 KEYS k k"), "");
        assert_eq!(it.replied(1, "+OK\r\n"), OK);
    });
}

#[test]
fn a_client_that_goes_stops_nothing() {
    over_lanes(|it| {
        it.ask("SET k v");
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000"), "");
        it.client.cut();
        it.replied(1, "+OK\r\n");
        it.replied(1, "+OK\r\n");
        assert_eq!(it.ask("EXISTS k"), ":0\r\n");
    });
}

#[test]
fn no_transaction_and_no_script_waits_for_another_server() {
    over_lanes(|it| {
        it.ask("SET k v");
        it.say("MULTI");
        let refused = "-ERR Command not allowed inside a transaction\r\n";
        assert_eq!(it.say("MIGRATE there 7000 k 0 5000"), refused);
        assert!(it.say("EXEC").starts_with("-EXECABORT"));
        let script = "EVAL return(redis.call('migrate','there','7000','k','0','9')) 0";
        assert!(it.say(script).starts_with("-ERR This Redis command is not allowed from script"));
        assert!(it.wires().dialled.is_empty());
    });
}

#[test]
fn a_node_moves_its_own_keys_as_nodes_do() {
    let mut it = Scene::new(3);
    // Slots of k and l are of different lanes, those of {k}… of k's.
    it.ask("MSET k v {k}l v l v");
    let owner = (0..3).find(|&lane| {
        let client = it.world.connect_to(lane);
        let is_owner = it.world.ask(&client, "GET k") == "$1\r\nv\r\n";
        client.cut();
        is_owner
    });
    let (mine, other) = (owner.unwrap(), (owner.unwrap() + 1) % 3);
    let stranger = it.world.connect_to(other);
    let moved = it.world.ask(&stranger, "MIGRATE there 7000 k 0 5000");
    assert!(moved.starts_with("-MOVED 7629 "), "{moved}");
    it.client.cut();
    it.client = it.world.connect_to(mine);
    let crossed = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    assert_eq!(it.say("MIGRATE there 7000  0 5000 KEYS k l"), crossed);
    assert_eq!(it.say("MIGRATE there 7000  0 5000 KEYS k {k}l"), "");
    it.replied(1, "+OK\r\n");
    assert_eq!(it.sent(1), "SELECT 0 RESTORE-ASKING k 0 … RESTORE-ASKING {k}l 0 …");
    it.ask("DEL k");
    it.replied(1, "+OK\r\n+OK\r\n");
    assert_eq!(it.sent(1), "ASKING DEL k");
    assert_eq!(it.replied(1, "+OK\r\n:1\r\n"), OK);
    assert_eq!(it.ask("EXISTS k {k}l l"), ":1\r\n");
    stranger.cut();
    it.end();
}

#[test]
fn more_than_may_be_under_way_wait_their_turn() {
    let mut it = Scene::new(2);
    it.ask("SET k v");
    let clients: Vec<mem::Client> = (0..66).map(|_| it.world.connect()).collect();
    for client in &clients[..65] {
        assert_eq!(it.world.ask(client, "MIGRATE there 7000 k 0 60000 COPY"), "");
    }
    assert_eq!(it.wires().dialled.len(), 64);
    // Its time runs all the same.
    let told = it.world.ask(&clients[65], "MIGRATE there 7000 k 0 15 COPY");
    assert_eq!(told, "-IOERR error or timeout connecting to the client\r\n");
    it.replied(1, "+OK\r\n");
    it.replied(1, "+OK\r\n");
    assert_eq!(clients[0].read_all(), OK.as_bytes());
    it.replied(1, "+OK\r\n");
    assert_eq!(clients[64].read_all(), OK.as_bytes());
    for link in 2..=64 {
        it.replied(link, "+OK\r\n");
        it.replied(link, "+OK\r\n");
    }
    assert!(clients[1..64].iter().all(|client| client.read_all() == OK.as_bytes()));
    // Of those that nobody uses the oldest makes room for another place.
    assert_eq!(it.say("MIGRATE elsewhere 7000 k 0 5000 COPY"), "");
    assert_eq!((it.wires().dialled.len(), it.wires().hung_up.len()), (65, 1));
    it.replied(65, "+OK\r\n");
    assert_eq!(it.replied(65, "+OK\r\n"), OK);
    clients.iter().for_each(mem::Client::cut);
    it.end();
}

/// Two servers: what one sends goes to the other, and back, in pieces of so many bytes at most.
fn exchange(from: &mut Scene, to: &mut World, clients: &mut BTreeMap<u64, mem::Client>) {
    for _ in 0..400 {
        from.world.round(100_000);
        for (link, bytes) in std::mem::take(&mut from.wires().sent) {
            let client = clients.entry(link).or_insert_with(|| to.connect_small(0, 1 << 22));
            let mut bytes = bytes.as_slice();
            while !bytes.is_empty() {
                bytes = &bytes[client.write(bytes)..];
                to.round(100_000);
            }
        }
        to.round(100_000);
        for (link, client) in clients.iter() {
            let bytes = client.read_all();
            if !bytes.is_empty() {
                from.wires().news.push_back((*link, Reached::Received(bytes)));
            }
        }
    }
}

#[test]
fn many_keys_and_long_ones_arrive_at_another_server() {
    for (lane_count, other_count) in [(1, 2), (3, 1)] {
        let mut it = Scene::new(lane_count);
        let mut target = World::new(other_count);
        let mut clients = BTreeMap::new();
        let names: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
        for (number, name) in names.iter().enumerate() {
            it.ask(&format!("SET {name} {}", "v".repeat(number * 37)));
        }
        it.ask("SETRANGE long 3000000 end");
        let all = format!("MIGRATE there 7000  3 5000 KEYS long {}", names.join(" "));
        assert_eq!(it.say(&all), "");
        exchange(&mut it, &mut target, &mut clients);
        assert_eq!(it.rounds(1), OK);
        assert_eq!(it.ask("DBSIZE"), ":0\r\n");
        let reader = target.connect();
        target.ask(&reader, "SELECT 3");
        assert_eq!(target.ask(&reader, "DBSIZE"), ":101\r\n");
        assert_eq!(target.ask(&reader, "GETRANGE long 3000000 -1"), "$3\r\nend\r\n");
        assert_eq!(target.ask(&reader, "STRLEN long"), ":3000003\r\n");
        assert_eq!(target.ask(&reader, "STRLEN key:99"), ":3663\r\n");
        it.end();
    }
}
