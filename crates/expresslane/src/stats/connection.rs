//! One connection to a server, over TCP or a Unix socket, that asks and waits. Each of its errors is a sentence that
//! says what to do.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use wire::client::{self, Collector, Reply};

use crate::settings::StatsSettings;

/// A server that does not answer for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes read at once.
const READ_SIZE: usize = 64 << 10;

/// See the top of this file.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    /// The server, as the user named it.
    name: String,
    collector: Collector,
    /// What was read and not yet understood.
    input: Vec<u8>,
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

impl Connection {
    /// Connects, and gives the password if there is one.
    pub(super) fn open(settings: &StatsSettings) -> Result<Connection, String> {
        let (name, stream) = match &settings.socket {
            Some(path) => {
                let name = path.display().to_string();
                let stream = UnixStream::connect(path).and_then(|stream| {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    Ok(Box::new(stream) as Box<dyn Stream>)
                });
                (name, stream)
            }
            None => {
                let is_v6 = settings.host.contains(':');
                let host = if is_v6 { format!("[{}]", settings.host) } else { settings.host.clone() };
                let name = format!("{host}:{}", settings.port);
                let stream = connect(&settings.host, settings.port).map(|it| Box::new(it) as Box<dyn Stream>);
                (name, stream)
            }
        };
        let stream = stream.map_err(|error| cannot_connect(&name, &error))?;
        let mut connection = Connection { stream, name, collector: Collector::default(), input: Vec::new() };
        // An empty one is none, as to redis-cli.
        if let Some(password) = settings.password.as_deref().filter(|password| !password.is_empty()) {
            connection.ask(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(connection)
    }

    /// Everything that INFO has to say.
    pub(super) fn info(&mut self) -> Result<String, String> {
        // Servers leave out sections that they do not know.
        let reply = self.ask(&[b"INFO", b"everything", b"histograms"])?;
        let text = reply
            .bytes()
            .ok_or_else(|| format!("{} answers INFO with something else than text", self.name))?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn ask(&mut self, args: &[&[u8]]) -> Result<Reply, String> {
        let mut command = Vec::new();
        client::command(&mut command, args);
        let lost = |name: &str, error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("{name} does not answer within {} s: look at its log", PATIENCE.as_secs())
            }
            _ => format!("the connection to {name} has ended ({error}): is the server still up?"),
        };
        self.stream.write_all(&command).map_err(|error| lost(&self.name, error))?;
        let mut part = vec![0; READ_SIZE];
        loop {
            let (reply, size) = self.collector.next(&self.input).map_err(|error| {
                format!("{} does not speak Redis' protocol ({error}): is the port right?", self.name)
            })?;
            self.input.drain(..size);
            match reply {
                Some(Reply::Error(text)) => return Err(refused(&self.name, &String::from_utf8_lossy(&text))),
                Some(reply) => return Ok(reply),
                None => {}
            }
            let size = self.stream.read(&mut part).map_err(|error| lost(&self.name, error))?;
            if size == 0 {
                return Err(lost(&self.name, ErrorKind::UnexpectedEof.into()));
            }
            self.input.extend_from_slice(&part[..size]);
        }
    }
}

/// To the first of the host's addresses that lets us in.
fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn cannot_connect(name: &str, error: &io::Error) -> String {
    let cure = match error.kind() {
        ErrorKind::ConnectionRefused => {
            "nobody listens there; start expresslane serve, or name the server with --host and -p, or -s"
                .to_owned()
        }
        ErrorKind::NotFound => "there is no such socket; name the server's own with -s".to_owned(),
        ErrorKind::PermissionDenied => {
            "this user may not; see --unixsocketperm of expresslane serve".to_owned()
        }
        ErrorKind::TimedOut => "it does not answer; check the address and firewalls".to_owned(),
        _ => format!("{error}; check the name with --host and -p"),
    };
    format!("can't connect to {name}: {cure}")
}

/// An error that the server answers with.
fn refused(name: &str, text: &str) -> String {
    let cure = match text.split(' ').next() {
        Some("NOAUTH") => "it wants a password; give it in REDISCLI_AUTH, or with -a".to_owned(),
        Some("WRONGPASS") => "the password is not its own; correct REDISCLI_AUTH or -a".to_owned(),
        _ if text.starts_with("ERR AUTH") => "it has no password; leave out REDISCLI_AUTH and -a".to_owned(),
        _ => text.to_owned(),
    };
    format!("{name} refuses: {cure}")
}
