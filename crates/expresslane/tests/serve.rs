//! The built program as its user meets it: it starts, says so, refuses with a sentence, and ends when asked to.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod server;

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Output;

use server::{Folder, Server, command, exchange, free_port, run};

#[test]
fn a_server_serves_and_ends_in_order() {
    let folder = Folder::new("ends");
    let (port, socket) = (free_port(), folder.path("socket"));
    let flags = ["--port", &port, "--lane-ports", "off", "--lanes", "2", "--unixsocket", &socket];
    let server = Server::start(&folder, &flags);
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    assert_eq!(exchange(&mut client, b"SET a 1\r\nGET a\r\n", 12), "+OK\r\n$1\r\n1\r\n");
    let mut local = UnixStream::connect(&socket).unwrap();
    assert_eq!(exchange(&mut local, b"GET a\r\n", 7), "$1\r\n1\r\n");
    server.signal(libc::SIGTERM);
    assert_eq!(server.state(), "STOPPING=1");
    let mut rest = Vec::new();
    // The connection ends, in order or cut off; no reply is owed.
    let _ = client.read_to_end(&mut rest);
    assert!(rest.is_empty());
    let (code, printed) = server.end();
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("memory only"), "{printed}");
    assert!(!std::path::Path::new(&socket).exists(), "the socket file is removed");
}

#[test]
fn a_second_server_on_a_port_is_refused() {
    let folder = Folder::new("second");
    let port = free_port();
    let server = Server::start(&folder, &["--port", &port, "--lane-ports", "off", "--lanes", "1"]);
    let second = run(&["--port", &port, "--lane-ports", "off", "--lanes", "1"]);
    refusal(&second, Some(1), "another program listens there; stop it, or choose another port with --port");
    server.signal(libc::SIGINT);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn what_is_wrong_ends_start_up_with_a_sentence() {
    let folder = Folder::new("wrong");
    let file = folder.path("lanes.toml");
    std::fs::write(&file, "[serve]\nmaxclient = 5\n").unwrap();
    let config = run(&["--config", &file]);
    refusal(&config, Some(1), "there is no key `maxclient` under [serve]; did you mean `maxclients`?");
    refusal(
        &run(&["--config", &folder.path("none.toml")]),
        Some(1),
        "name a readable TOML file with --config",
    );
    refusal(&run(&["--port", "x"]), Some(2), "invalid value 'x' for '--port <PORT>'");
    refusal(
        &run(&["--bind", "0.0.0.0"]),
        Some(1),
        "set requirepass, bind 127.0.0.1, or say --protected-mode no",
    );
    refusal(&run(&["--bind", "192.0.2.1", "--requirepass", "x"]), Some(1), "has no address 192.0.2.1");
}

/// The variable is the flag's; a flag still wins.
#[test]
fn the_environment_is_read() {
    let output = command(&["--port", "0"]).env("EXPRESSLANE_LANE_PORTS", "off").output().unwrap();
    refusal(&output, Some(1), "nobody could connect");
    let output = command(&["--lanes", "300"]).env("EXPRESSLANE_LANES", "0").output().unwrap();
    refusal(&output, Some(2), "'300' for '--lanes");
}

#[track_caller]
fn refusal(output: &Output, code: Option<i32>, want: &str) {
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains(want), "{printed}");
    assert_eq!(output.status.code(), code, "{printed}");
}
