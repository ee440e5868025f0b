//! What the tests of the built program share: a server of one test's own, and clients as plain sockets.
//!
//! Readiness is waited for as a service manager does, on a notification socket. What tells nobody is looked at now and then ([`until`]).

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Whatever a test waits for has happened by then, or never will.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A folder of one test's own, removed with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("expresslane-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server, killed with the test if it has not ended.
pub(crate) struct Server {
    child: Child,
    manager: UnixDatagram,
}

impl Server {
    pub(crate) fn start(folder: &Folder, flags: &[&str]) -> Server {
        Server::start_with(folder, flags, &[])
    }

    /// With environment variables of its own.
    pub(crate) fn start_with(folder: &Folder, flags: &[&str], variables: &[(&str, &str)]) -> Server {
        Server::of(folder, command(flags).envs(variables.iter().copied()))
    }

    /// By that command, as soon as it serves.
    pub(crate) fn of(folder: &Folder, command: &mut Command) -> Server {
        let name = folder.path("notify");
        // A server that was here before has left its own.
        let _ = std::fs::remove_file(&name);
        let manager = UnixDatagram::bind(&name).unwrap();
        // What it writes, it writes there.
        let child =
            command.env("NOTIFY_SOCKET", &name).env("EXPRESSLANE_DIR", folder.path("")).spawn().unwrap();
        let server = Server { child, manager };
        assert_eq!(server.state(), "READY=1");
        server
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What the service manager is told next.
    pub(crate) fn state(&self) -> String {
        let mut state = [0; 64];
        self.manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let size = loop {
            match self.manager.recv(&mut state) {
                // What a ring of this process leaves to be done interrupts as a signal does (io_uring, task work).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result.expect("the server says how far it is"),
            }
        };
        String::from_utf8_lossy(&state[..size]).into_owned()
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and not yet waited for, so its number names no other process.
        assert_eq!(unsafe { libc::kill(i32::try_from(self.child.id()).unwrap(), signal) }, 0);
    }

    /// Whether the process has ended, whoever reads what it has printed.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What is printed from now on, for a server that is not asked for its end.
    pub(crate) fn take_log(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.child.stderr.take().unwrap())
    }

    /// The exit code and what was printed.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
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

pub(crate) fn command(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_expresslane"));
    command.arg("serve").args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A start that is to fail. One that succeeds instead is ended after 20 seconds, with an exit code of 124.
pub(crate) fn run(flags: &[&str]) -> Output {
    let serve = command(flags);
    Command::new("timeout").arg("20").arg(serve.get_program()).args(serve.get_args()).output().unwrap()
}

/// A port that nobody has.
pub(crate) fn free_port() -> String {
    free_ports(1).to_string()
}

/// The first of so many ports in a row that nobody has. They lie below those that the kernel gives to clients, so nobody
/// happens to take one before the server does; and no two calls, nor those of tests beside, get the same.
pub(crate) fn free_ports(count: u32) -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    loop {
        let first = FIRST + (std::process::id() * 16 + TAKEN.fetch_add(count, Ordering::Relaxed)) % COUNT;
        let ports = (first..first + count).map(|port| u16::try_from(port).unwrap());
        if ports.clone().all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return u16::try_from(first).unwrap();
        }
    }
}

pub(crate) fn exchange(stream: &mut (impl Read + Write), bytes: &[u8], size: usize) -> String {
    stream.write_all(bytes).unwrap();
    let mut got = vec![0; size];
    stream.read_exact(&mut got).unwrap();
    String::from_utf8(got).unwrap()
}

/// A server on a free port, for tests in which clients are what matters.
pub(crate) struct Served {
    server: Server,
    port: String,
    _folder: Folder,
}

impl Served {
    /// With `flags` beside its port; it has no lane ports.
    pub(crate) fn start(name: &str, flags: &[&str]) -> Served {
        let folder = Folder::new(name);
        let port = free_port();
        let whole: Vec<&str> =
            ["--port", &port, "--lane-ports", "off"].into_iter().chain(flags.iter().copied()).collect();
        Served { server: Server::start(&folder, &whole), port, _folder: folder }
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.server.id()
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> &str {
        &self.port
    }

    /// A new connection. What takes longer than [`PATIENCE`] fails.
    pub(crate) fn connect(&self) -> TcpStream {
        connect(&self.port)
    }

    /// A new client.
    pub(crate) fn talk(&self) -> Talk {
        Talk(BufReader::new(self.connect()))
    }

    /// What the service manager is told next.
    pub(crate) fn state(&self) -> String {
        self.server.state()
    }

    pub(crate) fn signal(&self, signal: i32) {
        self.server.signal(signal);
    }

    /// The exit code and what was printed.
    pub(crate) fn end(self) -> (Option<i32>, String) {
        self.server.end()
    }

    /// As of [`Server`].
    pub(crate) fn has_ended(&mut self) -> bool {
        self.server.has_ended()
    }

    /// As of [`Server`].
    pub(crate) fn take_log(&mut self) -> BufReader<ChildStderr> {
        self.server.take_log()
    }

    /// Resident memory of the process, bytes.
    pub(crate) fn resident_size(&self) -> u64 {
        1024 * status(self.id(), "VmRSS:")
    }

    /// Asks the server to end, and sees that it does so as it should.
    pub(crate) fn end_in_order(self) {
        self.server.signal(libc::SIGTERM);
        let (code, printed) = self.server.end();
        assert_eq!(code, Some(0), "{printed}");
    }

    /// Descriptors that the process has open.
    pub(crate) fn files_count(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }
}

/// Waits for what another process does, as long as anything is waited for.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "other processes are waited for")]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what} has not happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What `/proc` says of a process.
pub(crate) fn status(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).expect("Linux tells it");
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn connect(port: &str) -> TcpStream {
    let stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A client that says one command and takes its reply.
pub(crate) struct Talk(pub(crate) BufReader<TcpStream>);

impl Talk {
    /// Of whoever listens on a port.
    pub(crate) fn to(port: &str) -> Talk {
        Talk(BufReader::new(connect(port)))
    }

    /// Sends a command, words parted at blanks.
    pub(crate) fn send(&mut self, line: &str) {
        self.send_words(&line.split(' ').collect::<Vec<_>>());
    }

    /// Sends a command whose words may hold blanks.
    pub(crate) fn send_words(&mut self, words: &[&str]) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.0.get_mut().write_all(&frame(&words)).unwrap();
    }

    /// One line of a reply, without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a reply comes in time");
        assert!(line.ends_with("\r\n"), "the connection lives: {line:?}");
        line.truncate(line.len() - 2);
        line
    }

    /// Says a command and gives its reply: a status or a number as it comes, a bulk's content, `nil` for none.
    pub(crate) fn say(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }

    /// What comes next, as [`Talk::say`] gives it.
    pub(crate) fn reply(&mut self) -> String {
        let head = self.line();
        match head.strip_prefix('$') {
            Some("-1") => "nil".to_owned(),
            Some(size) => {
                let mut bytes = vec![0; size.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                String::from_utf8(bytes).unwrap()
            }
            None => head,
        }
    }

    /// A field of INFO.
    pub(crate) fn info(&mut self, field: &str) -> u64 {
        let text = self.say("INFO everything");
        let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.expect("INFO has the field").parse().unwrap()
    }

    /// Asks for a field of INFO until it is `want`: what a client did last may still be under way.
    #[expect(clippy::disallowed_methods, reason = "a test that waits for ever tells nothing")]
    pub(crate) fn wait_for(&mut self, field: &str, want: u64) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.info(field) == want {
                return;
            }
            std::thread::yield_now();
        }
        panic!("{field} is {} and does not become {want}", self.info(field));
    }
}

/// A command as it is sent.
pub(crate) fn frame(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::client::command(&mut bytes, words);
    bytes
}

/// The connection is not ended but cut off: the kernel sends RST.
pub(crate) fn cut_off(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = libc::socklen_t::try_from(size_of::<libc::linger>()).unwrap();
    // SAFETY: `linger` is readable for `size` bytes, and the descriptor is open.
    let done = unsafe {
        let option = (&raw const linger).cast();
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, option, size)
    };
    assert_eq!(done, 0);
    drop(stream);
}
