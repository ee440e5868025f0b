//! Clients that end their side while something is under way for them.

use net::mem::Client;

use super::world::World;

/// How many clients there are, as one of the shared port sees them.
fn count(world: &mut World, client: &Client) -> usize {
    world.ask(client, "CLIENT LIST").matches("id=").count()
}

/// Whether the end comes with the command or later.
#[test]
fn who_waits_for_replicas_and_goes_is_let_go() {
    for lanes in [1, 2] {
        let mut world = World::new(lanes);
        let client = world.connect();
        for is_later in [false, true] {
            let others: Vec<Client> = (0..10).map(|_| world.connect()).collect();
            for other in &others {
                other.write(b"SET k v\r\nWAIT 1 0\r\n");
                if is_later {
                    (0..10).for_each(|_| world.round(0));
                }
                other.end();
            }
            (0..10).for_each(|_| world.round(0));
            assert_eq!(count(&mut world, &client), 1, "later: {is_later}");
        }
        assert_eq!(world.ask(&client, "GET k"), "$1\r\nv\r\n");
    }
}

/// What a pause has held back of it is not carried out.
#[test]
fn who_goes_while_a_pause_holds_it_back_is_let_go() {
    for lanes in [1, 2] {
        let mut world = World::new(lanes);
        let (client, stays) = (world.connect(), world.connect());
        assert_eq!(world.ask(&client, "SET a old"), "+OK\r\n");
        assert_eq!(world.ask(&client, "CLIENT PAUSE 100000 WRITE"), "+OK\r\n");
        assert_eq!(world.ask(&stays, "SET b new"), "");
        for is_later in [false, true] {
            let others: Vec<Client> = (0..10).map(|_| world.connect()).collect();
            for other in &others {
                other.write(b"GET a\r\nSET a of-one-that-gave-up\r\n");
                if is_later {
                    (0..10).for_each(|_| world.round(0));
                }
                other.end();
            }
            (0..10).for_each(|_| world.round(0));
            assert_eq!(count(&mut world, &client), 2, "later: {is_later}");
            // What it was answered before it may read.
            let heard: Vec<_> =
                others.iter().map(|other| String::from_utf8_lossy(&other.read_all()).into_owned()).collect();
            assert_eq!(heard, vec!["$3\r\nold\r\n"; 10], "later: {is_later}");
        }
        assert_eq!(world.ask(&client, "CLIENT UNPAUSE"), "+OK\r\n");
        (0..10).for_each(|_| world.round(0));
        assert_eq!(String::from_utf8_lossy(&stays.read_all()), "+OK\r\n");
        assert_eq!(world.ask(&client, "MGET a b"), "*2\r\n$3\r\nold\r\n$3\r\nnew\r\n");
    }
}

/// Its own messages come before QUIT's reply, however many lanes they go over.
#[test]
fn who_quits_or_resets_has_had_its_messages() {
    for lanes in [1, 2, 3] {
        let mut world = World::new(lanes);
        for last in ["QUIT", "RESET"] {
            let client = world.connect();
            world.ask(&client, "HELLO 3");
            world.ask(&client, "SUBSCRIBE c");
            let got = world.ask_all(&client, &["PUBLISH c x", last]);
            let message = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n";
            let want = if last == "QUIT" { "+OK\r\n" } else { "+RESET\r\n" };
            assert_eq!(got, format!("{message}:1\r\n{want}"), "over {lanes} lanes");
        }
    }
}

/// However many channels it has named at a time before.
#[test]
fn who_publishes_hears_itself_before_the_answer() {
    for lanes in [1, 2] {
        let mut world = World::new(lanes);
        let client = world.connect();
        world.ask(&client, "HELLO 3");
        let names: Vec<String> = (0..600).map(|number| format!("c{number}")).collect();
        world.ask(&client, &format!("SUBSCRIBE {}", names.join(" ")));
        (0..20).for_each(|_| {
            world.round(0);
            client.read_all();
        });
        let got = world.ask_all(&client, &["PUBLISH c1 x", "PUBLISH c2 y"]);
        let message =
            |name: &str, word: &str| format!(">3\r\n$7\r\nmessage\r\n$2\r\n{name}\r\n$1\r\n{word}\r\n");
        assert_eq!(got, format!("{}:1\r\n{}:1\r\n", message("c1", "x"), message("c2", "y")));
        // A script speaks to nobody who has subscribed.
        assert_eq!(world.ask(&client, "EVAL return\tredis.call('ping') 0"), "+PONG\r\n");
    }
}
