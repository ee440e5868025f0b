//! The built program as its user meets it: it starts, says so, refuses with a sentence, and ends when asked to.
//!
//! Readiness is waited for as a service manager does, on a notification socket, so nothing here polls or sleeps.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A folder of one test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("expresslane-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server, killed with the test if it has not ended.
struct Server {
    child: Child,
    manager: UnixDatagram,
}

impl Server {
    fn start(folder: &Folder, flags: &[&str]) -> Server {
        let name = folder.path("notify");
        let manager = UnixDatagram::bind(&name).unwrap();
        let child = command(flags).env("NOTIFY_SOCKET", &name).spawn().unwrap();
        let server = Server { child, manager };
        assert_eq!(server.state(), "READY=1");
        server
    }

    /// What the service manager is told next.
    fn state(&self) -> String {
        let mut state = [0; 64];
        self.manager.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let size = self.manager.recv(&mut state).expect("the server says how far it is");
        String::from_utf8_lossy(&state[..size]).into_owned()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and not yet waited for, so its number names no other process.
        assert_eq!(unsafe { libc::kill(i32::try_from(self.child.id()).unwrap(), signal) }, 0);
    }

    /// The exit code and what was printed.
    fn end(mut self) -> (Option<i32>, String) {
        let mut printed = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
        (self.child.wait().unwrap().code(), printed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_expresslane"));
    command.arg("serve").args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A start that is to fail. One that succeeds instead is ended after 20 seconds, with an exit code of 124.
fn run(flags: &[&str]) -> Output {
    let serve = command(flags);
    Command::new("timeout").arg("20").arg(serve.get_program()).args(serve.get_args()).output().unwrap()
}

/// A port of 127.0.0.1 that was free a moment ago.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn exchange(stream: &mut (impl Read + Write), bytes: &[u8], size: usize) -> String {
    stream.write_all(bytes).unwrap();
    let mut got = vec![0; size];
    stream.read_exact(&mut got).unwrap();
    String::from_utf8(got).unwrap()
}

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
