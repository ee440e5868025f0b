//! Clients at the port of another dialect: each is told so at once or closed, and none is left waiting.

use crate::binary::request;
use lane::{Aerospike, Dialect, Door, Port, Settings};
use net::fault::Faults;
use sim::World;
use wire::aerospike::client::{Message, put_info};
use wire::aerospike::head::info1;
use wire::route::Ports;

/// What is said at a port, up to a blank line; `.` stands for the end of the connection.
fn say(door: Door, bytes: &[u8]) -> String {
    let settings = Settings {
        doors: vec![door],
        couchbase_ports: Some(Ports::from(11210)),
        management_ports: Some(Ports::from(8091)),
        aerospike: Aerospike { ports: Some(Ports::from(3000)), ..Aerospike::default() },
        ..Settings::default()
    };
    let mut world = World::new(2, &settings, 1, Faults::default());
    let mut client = world.connect(0);
    client.send(bytes);
    for _ in 0..20 {
        client.pump();
        world.round();
    }
    client.pump();
    let text = String::from_utf8_lossy(&client.received).into_owned();
    let text = text.lines().next().unwrap_or_default().to_owned();
    if client.end.at_end() { format!("{text}.") } else { text }
}

/// Each of these requests is answered at a port with what stands beside it.
fn check(dialect: Dialect, cases: &[(&str, &[u8], &str)]) {
    for port in [Port::Shared, Port::Lane] {
        for (name, bytes, want) in cases {
            assert_eq!(say(Door { port, dialect }, bytes), *want, "{name} at {dialect:?}, {port:?}");
        }
    }
}

#[test]
fn everybody_is_told_or_closed() {
    let get = request(0x00, &[], "key", "", 0);
    let hello = request(0x1f, &[], "agent", "\0\u{8}", 0);
    let framed = [&[8][..], &get[1..]].concat();
    let tls = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 500]].concat();
    let (mut info, mut record) = (Vec::new(), Vec::new());
    put_info(&mut info, "node\nbuild\n");
    let digest = [7; 20];
    let message =
        Message { info1: info1::READ, namespace: b"test", digest: Some(&digest), ..Message::default() };
    message.put(&mut record);
    let resp = &b"*1\r\n$4\r\nPING\r\n"[..];
    let http = &b"GET /pools HTTP/1.1\r\nHost: a\r\n\r\n"[..];
    let text = &b"gets key\r\n"[..];
    let meta = &b"mn\r\n"[..];

    let other = "-ERR Protocol error: this port speaks RESP, not memcached's, Couchbase's or Aerospike's protocol, nor TLS.";
    check(
        Dialect::Redis,
        &[
            ("binary", &get, other),
            ("framed", &framed, other),
            ("hello", &hello, other),
            ("tls", &tls, other),
            ("info", &info, other),
            ("record", &record, other),
            ("text", text, "-ERR unknown command 'gets', with args beginning with: 'key' "),
            ("meta", meta, "-ERR unknown command 'mn', with args beginning with: "),
            ("http", http, "-ERR wrong number of arguments for 'get' command."),
        ],
    );
    check(
        Dialect::Memcached,
        &[
            ("resp", resp, "ERROR"),
            ("framed", &framed, "."),
            ("tls", &tls, "."),
            ("info", &info, "."),
            ("record", &record, "."),
            ("http", http, "."),
        ],
    );
    let bad = "HTTP/1.1 400 Bad Request.";
    check(
        Dialect::Management,
        &[
            ("resp", resp, bad),
            ("text", text, bad),
            ("meta", meta, bad),
            ("binary", &get, bad),
            ("framed", &framed, bad),
            ("tls", &tls, bad),
            ("info", &info, bad),
            ("record", &record, bad),
        ],
    );
    for (dialect, others) in [
        (Dialect::Couchbase, [resp, text, meta, http, &tls, &info, &record]),
        (Dialect::Aerospike, [resp, text, meta, http, &tls, &get, &framed]),
    ] {
        check(dialect, &others.map(|bytes| ("another", bytes, ".")));
    }
}
