//! CONFIG REWRITE of the built program: what clients set, the file keeps, and the next start reads.

use crate::server::{Folder, Served, Server, Talk, free_port};

/// What CONFIG SET changed is there after a restart, once CONFIG REWRITE has written it down.
#[test]
fn settings_that_are_written_down_outlive_the_server() {
    let folder = Folder::new("rewrite");
    let (file, port) = (folder.path("lanes.toml"), free_port());
    let text = format!("# ours\n[serve]\nlanes = 2 # a core each\nlane-ports = \"off\"\nport = {port}\n");
    std::fs::write(&file, &text).unwrap();
    let set = [
        ("maxmemory", "100mb", "104857600"),
        ("maxmemory-policy", "allkeys-lfu", "allkeys-lfu"),
        ("maxclients", "123", "123"),
        ("timeout", "300", "300"),
        ("protected-mode", "no", "no"),
        ("proto-max-bulk-len", "2mb", "2097152"),
        ("client-query-buffer-limit", "3mb", "3145728"),
        (
            "client-output-buffer-limit",
            "normal 1mb 512kb 7",
            "normal 1048576 524288 7 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ),
        ("slowlog-log-slower-than", "-1", "-1"),
        ("slowlog-max-len", "5", "5"),
        ("requirepass", "007", "007"),
    ];
    let server = Server::start(&folder, &["--config", &file]);
    let mut client = Talk::to(&port);
    for (name, value, _) in set {
        client.send_words(&["CONFIG", "SET", name, value]);
        assert_eq!(client.reply(), "+OK", "{name}");
    }
    assert_eq!(client.say("CONFIG SET hz 50"), "+OK");
    assert_eq!(client.say("CONFIG REWRITE"), "+OK");
    server.signal(libc::SIGTERM);
    let (_, printed) = server.end();
    assert!(printed.contains("not written, for the file has no such keys: hz\n"), "{printed}");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.starts_with(&text), "what was there stays: {written}");
    let _server = Server::start(&folder, &["--config", &file]);
    let mut client = Talk::to(&port);
    assert_eq!(client.say("PING"), "-NOAUTH Authentication required.");
    assert_eq!(client.say("AUTH 007"), "+OK");
    for (name, _, want) in set {
        client.send_words(&["CONFIG", "GET", name]);
        assert_eq!(client.line(), "*2");
        assert_eq!((client.reply(), client.reply()), (name.to_owned(), want.to_owned()));
    }
}

#[test]
fn nothing_is_written_down_without_a_file() {
    let served = Served::start("no-file", &["--lanes", "1"]);
    let mut client = served.talk();
    assert_eq!(client.say("CONFIG SET timeout 5"), "+OK");
    assert_eq!(client.say("CONFIG REWRITE"), "-ERR The server is running without a config file");
}
