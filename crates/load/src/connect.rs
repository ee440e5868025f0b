//! Connecting: addresses, passwords, the protocol's version, and whose keys are whose in a cluster. All of it happens before the
//! clock starts, one question after the other, and may block.

pub mod aerospike;
pub mod couchbase;
mod version;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use net::{Address, Handover};
use serde::{Deserialize, Serialize};
use wire::client::{Collector, Reply, command};

use crate::engine::{Node, Nodes, Placing};
use crate::protocol::aerospike::Naming;

/// How long a connection, and each answer before the load begins, may take.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Where Redis listens.
pub const PORT_DEFAULT: u16 = 6379;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Endpoint {
    /// A host's name or address, and a port.
    Tcp(String, u16),
    /// A path.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp(host, port) => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    /// `HOST:PORT`, `HOST`, `:PORT`, `[::1]:PORT` or `unix:PATH`.
    fn from_str(text: &str) -> Result<Endpoint, String> {
        let wrong = || format!("'{text}' is no address: HOST:PORT, HOST, :PORT, [IPV6]:PORT or unix:PATH");
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Endpoint::Unix(PathBuf::from(path))) };
        }
        let (host, port) = host_and_port(text).filter(|_| !text.is_empty()).ok_or_else(wrong)?;
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        Ok(Endpoint::Tcp(host.to_owned(), port.unwrap_or(PORT_DEFAULT)))
    }
}

/// The two of `HOST`, `HOST:PORT`, `:PORT`, `IPV6`, `[IPV6]` or `[IPV6]:PORT`; a host may be empty. None: it is none of these.
pub fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => match text.rsplit_once(':') {
            // Two colons outside of brackets are IPv6 without a port.
            Some((host, _)) if host.contains(':') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    match port {
        Some(port) => Some((host, Some(port.parse().ok().filter(|port| *port > 0)?))),
        None => Some((host, None)),
    }
}

impl TryFrom<String> for Endpoint {
    type Error = String;

    fn try_from(text: String) -> Result<Endpoint, String> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> String {
        endpoint.to_string()
    }
}

/// What servers are spoken to in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Redis' protocol as it is when a connection begins.
    #[default]
    Resp2,
    /// Redis' protocol after HELLO 3.
    Resp3,
    /// memcached's text protocol.
    Memcached,
    /// memcached's binary protocol.
    #[serde(rename = "memcached-binary")]
    MemcachedBinary,
    /// Couchbase's key-value protocol.
    Couchbase,
    /// Aerospike's message protocol.
    Aerospike,
}

impl Dialect {
    /// Is it one of memcached's, which know neither passwords nor databases nor clusters here?
    pub fn is_memcached(self) -> bool {
        matches!(self, Dialect::Memcached | Dialect::MemcachedBinary)
    }

    /// Is it Redis' own, whose servers answer PING and INFO?
    pub fn is_redis(self) -> bool {
        matches!(self, Dialect::Resp2 | Dialect::Resp3)
    }

    /// Do its clients always know whose keys are whose?
    pub fn has_map(self) -> bool {
        matches!(self, Dialect::Couchbase | Dialect::Aerospike)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::Resp2 => "resp2",
            Dialect::Resp3 => "resp3",
            Dialect::Memcached => "memcached",
            Dialect::MemcachedBinary => "memcached-binary",
            Dialect::Couchbase => "couchbase",
            Dialect::Aerospike => "aerospike",
        })
    }
}

/// How a connection introduces itself.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// What it speaks.
    pub dialect: Dialect,
    /// Whose password it is; none: the default user's.
    pub user: Option<String>,
    /// None: it says none.
    pub password: Option<String>,
    /// The database that it selects.
    pub database: u32,
    /// Couchbase's bucket or Aerospike's namespace; none: the one that their tools take.
    pub namespace: Option<String>,
}

impl Login {
    /// The namespace that Aerospike is asked for.
    pub fn aerospike_namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(aerospike::NAMESPACE_DEFAULT)
    }
}

/// A connection that has introduced itself and may be asked.
pub struct Connected {
    stream: Stream,
    peer: Address,
    local: Address,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connected {
    /// Connects, and says what there is to say.
    ///
    /// # Errors
    /// Nobody listens there, or the server refuses: in words that name the address.
    pub fn new(endpoint: &Endpoint, login: &Login) -> io::Result<Connected> {
        let wrong =
            |error: io::Error| io::Error::new(error.kind(), format!("{endpoint}: {}", explained(&error)));
        let mut connected = Connected::open(endpoint).map_err(wrong)?;
        connected.introduce(login).map_err(wrong)?;
        Ok(connected)
    }

    fn open(endpoint: &Endpoint) -> io::Result<Connected> {
        let (stream, peer, local) = match endpoint {
            Endpoint::Tcp(host, port) => {
                let mut result = Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
                let addresses = (host.as_str(), *port).to_socket_addrs();
                // The system has no kind for a name that it does not know.
                let addresses =
                    addresses.map_err(|error| io::Error::new(io::ErrorKind::NotFound, error.to_string()));
                for address in addresses? {
                    result = TcpStream::connect_timeout(&address, PATIENCE);
                    if result.is_ok() {
                        break;
                    }
                }
                let stream = result?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
                (Stream::Tcp(stream), Address::Inet(peer), Address::Inet(local))
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                (Stream::Unix(stream), Address::Unix, Address::Unix)
            }
        };
        Ok(Connected { stream, peer, local })
    }

    fn introduce(&mut self, login: &Login) -> io::Result<()> {
        match login.dialect {
            Dialect::Resp2 | Dialect::Resp3 => self.introduce_to_redis(login),
            Dialect::Memcached | Dialect::MemcachedBinary => Ok(()),
            Dialect::Couchbase => couchbase::introduce(self, login),
            Dialect::Aerospike => aerospike::introduce(self, login),
        }
    }

    fn introduce_to_redis(&mut self, login: &Login) -> io::Result<()> {
        let mut words: Vec<&[u8]> = Vec::new();
        let user = login.user.as_deref().unwrap_or("default").as_bytes();
        if login.dialect == Dialect::Resp3 {
            words.extend([b"HELLO".as_slice(), b"3"]);
            if let Some(password) = &login.password {
                words.extend([b"AUTH".as_slice(), user, password.as_bytes()]);
            }
        } else if let Some(password) = &login.password {
            words.push(b"AUTH");
            words.extend(login.user.as_ref().map(|_| user));
            words.push(password.as_bytes());
        }
        if !words.is_empty() {
            self.ask(&words)?;
        }
        if login.database > 0 {
            self.ask(&[b"SELECT", login.database.to_string().as_bytes()])?;
        }
        Ok(())
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// An error for an answer, nonsense, or none within [`PATIENCE`].
    pub fn ask(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        let mut request = Vec::new();
        command(&mut request, words);
        self.write_all(&request)?;
        let (mut collector, mut input) = (Collector::default(), Vec::new());
        loop {
            self.read_more(&mut input)?;
            let (reply, used) = collector.next(&input).map_err(io::Error::other)?;
            input.drain(..used);
            match reply {
                None => {}
                Some(Reply::Error(text)) => {
                    return Err(io::Error::other(String::from_utf8_lossy(&text).into_owned()));
                }
                Some(reply) => return Ok(reply),
            }
        }
    }

    /// Sends a request and waits for its reply, of which `size` tells how long it is as soon as it can be told.
    ///
    /// # Errors
    /// What `size` says, or no reply within [`PATIENCE`].
    fn exchange(
        &mut self,
        request: &[u8],
        size: impl Fn(&[u8]) -> Result<Option<usize>, String>,
    ) -> io::Result<Vec<u8>> {
        self.write_all(request)?;
        let mut input = Vec::new();
        loop {
            self.read_more(&mut input)?;
            if let Some(size) = size(&input).map_err(io::Error::other)?
                && size <= input.len()
            {
                input.truncate(size);
                return Ok(input);
            }
        }
    }

    fn read_more(&mut self, input: &mut Vec<u8>) -> io::Result<()> {
        let mut part = [0; 4096];
        let size = self.read(&mut part)?;
        if size == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        input.extend_from_slice(&part[..size]);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
        }
    }

    /// For a net, which may read and write from now on.
    ///
    /// # Errors
    /// The socket cannot be made not to block.
    pub fn into_handover(self) -> io::Result<Handover> {
        let fd = match self.stream {
            Stream::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                OwnedFd::from(stream)
            }
            Stream::Unix(stream) => {
                stream.set_nonblocking(true)?;
                OwnedFd::from(stream)
            }
        };
        Ok(Handover::connected(fd, self.peer, self.local))
    }
}

/// The nodes of the cluster that `endpoint` belongs to, and where each is. Keys with this prefix will be asked for.
///
/// # Errors
/// It belongs to none, or the cluster is not whole.
pub fn cluster(endpoint: &Endpoint, login: &Login, key_prefix: &str) -> io::Result<(Nodes, Vec<Endpoint>)> {
    let wrong = |error: io::Error| io::Error::other(format!("{endpoint}: {error}"));
    let mut connected = Connected::new(endpoint, login)?;
    let host = if let Endpoint::Tcp(host, _) = endpoint { host } else { "" };
    let (nodes, placing) = match login.dialect {
        Dialect::Couchbase => {
            let nodes = couchbase::nodes(&mut connected, host).map_err(wrong)?;
            (nodes, Placing::Couchbase { host: host.to_owned() })
        }
        Dialect::Aerospike => {
            let peer = |address: &str| Connected::new(&address.parse().map_err(io::Error::other)?, login);
            let namespace = login.aerospike_namespace();
            let nodes =
                aerospike::nodes(&mut connected, endpoint.to_string(), namespace, peer).map_err(wrong)?;
            (nodes, Placing::Aerospike(Naming::new(key_prefix)))
        }
        _ => {
            let reply = connected.ask(&[b"CLUSTER", b"SLOTS"]);
            let reply = reply
                .map_err(|error| wrong(io::Error::other(format!("CLUSTER SLOTS: {}", explained(&error)))))?;
            (slots(&reply, host).map_err(|problem| wrong(io::Error::other(problem)))?, Placing::Redis)
        }
    };
    let endpoints = nodes.iter().map(|(address, _)| node(address));
    let endpoints = endpoints.collect::<Result<Vec<Endpoint>, String>>().map_err(io::Error::other)?;
    Ok((Nodes::of(nodes, placing).map_err(|problem| wrong(io::Error::other(problem)))?, endpoints))
}

/// Where a node is. MOVED names an address of IPv6 without brackets and with a port, which stands behind the last colon.
fn node(address: &str) -> Result<Endpoint, String> {
    if let Some((host, port)) = address.rsplit_once(':')
        && let (true, Ok(port)) = (host.parse::<Ipv6Addr>().is_ok(), port.parse())
    {
        return Ok(Endpoint::Tcp(host.to_owned(), port));
    }
    address.parse()
}

/// What CLUSTER SLOTS says: of each master its address, as MOVED names it, and its ranges. A master without a host is at the one
/// that was asked.
fn slots(reply: &Reply, host: &str) -> Result<Vec<Node>, String> {
    let wrong = || "CLUSTER SLOTS answers in a form that is not Redis'".to_owned();
    let Reply::Array(ranges) = reply else { return Err(wrong()) };
    let mut nodes: Vec<Node> = Vec::new();
    for range in ranges {
        let Reply::Array(parts) = range else { return Err(wrong()) };
        let [Reply::Integer(first), Reply::Integer(last), Reply::Array(master), ..] = &parts[..] else {
            return Err(wrong());
        };
        let [name, Reply::Integer(port), ..] = &master[..] else { return Err(wrong()) };
        let name = name.bytes().map(String::from_utf8_lossy).filter(|name| !name.is_empty());
        let address = format!("{}:{port}", name.as_deref().unwrap_or(host));
        let (first, last) = (u16::try_from(*first), u16::try_from(*last));
        let (Ok(first), Ok(last)) = (first, last) else { return Err(wrong()) };
        match nodes.iter_mut().find(|(known, _)| *known == address) {
            Some((_, ranges)) => ranges.push((first, last)),
            None => nodes.push((address, vec![(first, last)])),
        }
    }
    if nodes.is_empty() { Err("it serves no slots: it is no cluster".to_owned()) } else { Ok(nodes) }
}

/// An error that a server of Redis' protocol answers with, and what to do where that is known.
pub fn refusal(text: &str) -> String {
    let cure = match text.split(' ').next() {
        Some("NOAUTH") => "give the password in REDISCLI_AUTH, or with -a",
        Some("WRONGPASS") => "correct REDISCLI_AUTH or -a, and --user",
        _ if text.starts_with("ERR AUTH") => "leave out REDISCLI_AUTH and -a",
        _ if text.starts_with("ERR DB index") => "choose a lower --database",
        _ => return text.to_owned(),
    };
    format!("{}: {cure}", text.trim_end_matches('.'))
}

/// What the commonest errors mean, and what to do.
fn explained(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "nobody listens there: is the server running?".to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer within {} s: is it this protocol's server?", PATIENCE.as_secs())
        }
        io::ErrorKind::NotFound => format!("{error}: is the path or name right?"),
        _ => refusal(&error.to_string()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn addresses_are_written_as_people_do() {
        for (text, want) in [
            ("localhost:7000", "localhost:7000"),
            ("localhost", "localhost:6379"),
            (":7000", "127.0.0.1:7000"),
            ("[::1]:7000", "[::1]:7000"),
            ("::1", "[::1]:6379"),
            ("[::1]", "[::1]:6379"),
            ("unix:/tmp/s", "unix:/tmp/s"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), want, "{text}");
        }
        for text in ["", "a:", "a:0", "a:70000", "a:x", "unix:", "[::1", "[::1]7000"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    /// A server of one connection that answers whatever it reads with one reply after the other, and returns what it has read.
    pub(crate) fn server(replies: Vec<Vec<u8>>) -> (Endpoint, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::Tcp("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        let thread = std::thread::Builder::new().spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = Vec::new();
            for reply in replies {
                let mut part = [0; 1000];
                let size = stream.read(&mut part).unwrap();
                seen.extend_from_slice(&part[..size]);
                stream.write_all(&reply).unwrap();
            }
            seen
        });
        (endpoint, thread.unwrap())
    }

    fn check(login: &Login, replies: Vec<&'static [u8]>, want: &str) {
        let (endpoint, thread) = server(replies.into_iter().map(<[u8]>::to_vec).collect());
        let connected = Connected::new(&endpoint, login).unwrap();
        let seen = String::from_utf8(thread.join().unwrap()).unwrap();
        let words: Vec<&str> = seen.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect();
        assert_eq!(words.join(" ").trim(), want);
        connected.into_handover().unwrap();
    }

    #[test]
    fn connections_introduce_themselves() {
        let password = Some("secret".to_owned());
        let ok: &[u8] = b"+OK\r\n";
        check(&Login::default(), vec![], "");
        check(&Login { database: 3, ..Login::default() }, vec![ok], "SELECT 3");
        check(&Login { password: password.clone(), ..Login::default() }, vec![ok], "AUTH secret");
        let user = Some("me".to_owned());
        check(&Login { user, password: password.clone(), ..Login::default() }, vec![ok], "AUTH me secret");
        let resp3 = Login { dialect: Dialect::Resp3, password, ..Login::default() };
        check(&resp3, vec![b"%1\r\n+proto\r\n:3\r\n"], "HELLO 3 AUTH default secret");
    }

    #[test]
    fn a_refusal_is_the_servers_words() {
        let login = Login { password: Some("x".to_owned()), ..Login::default() };
        let mut gone = None;
        for (reply, want) in [
            ("-WRONGPASS no.\r\n", "WRONGPASS no: correct REDISCLI_AUTH or -a, and --user"),
            ("-ERR AUTH <password> called\r\n", "ERR AUTH <password> called: leave out REDISCLI_AUTH and -a"),
            ("-NOPERM no.\r\n", "NOPERM no."),
        ] {
            let (endpoint, thread) = server(vec![reply.as_bytes().to_vec()]);
            let problem = Connected::new(&endpoint, &login).map(|_| ()).unwrap_err().to_string();
            assert_eq!(problem, format!("{endpoint}: {want}"));
            thread.join().unwrap();
            gone = Some(endpoint);
        }
        let unknown = Endpoint::Tcp("nowhere.invalid".to_owned(), 1);
        let problem = Connected::new(&unknown, &login).map(|_| ()).unwrap_err().to_string();
        assert!(problem.ends_with(": is the path or name right?"), "{problem}");
        let problem = Connected::new(&gone.unwrap(), &login).map(|_| ()).unwrap_err().to_string();
        assert!(problem.contains("nobody listens there"), "{problem}");
    }

    /// As MOVED names it, as a map of Couchbase or a list of peers does, and as a user does.
    #[test]
    fn a_node_is_where_its_address_says() {
        let tcp = |host: &str, port| Endpoint::Tcp(host.to_owned(), port);
        for (address, want) in [
            ("127.0.0.1:7000", tcp("127.0.0.1", 7000)),
            ("h:7000", tcp("h", 7000)),
            ("::1:7000", tcp("::1", 7000)),
            ("fd00::5:7000", tcp("fd00::5", 7000)),
            ("[fd00::5]:7000", tcp("fd00::5", 7000)),
            ("unix:/a:1", Endpoint::Unix("/a:1".into())),
        ] {
            assert_eq!(node(address), Ok(want), "{address}");
        }
        assert!(node("h:x").is_err());
    }

    #[test]
    fn a_cluster_tells_its_nodes() {
        let (endpoint, thread) = server(vec![
            b"*3\r\n*3\r\n:0\r\n:99\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$1\r\na\r\n\
              *4\r\n:100\r\n:16382\r\n*2\r\n$0\r\n\r\n:7001\r\n*2\r\n$1\r\nx\r\n:1\r\n\
              *3\r\n:16383\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n"
                .to_vec(),
        ]);
        let (nodes, endpoints) = cluster(&endpoint, &Login::default(), "").unwrap();
        thread.join().unwrap();
        assert_eq!(nodes.addresses(), ["127.0.0.1:7000", "127.0.0.1:7001"]);
        assert_eq!(endpoints[1], Endpoint::Tcp("127.0.0.1".to_owned(), 7001));
        let owner = |slot| nodes.owner(wire::route::Slot::new(slot).unwrap());
        assert_eq!((owner(99), owner(100), owner(16383)), (0, 1, 0));
        for reply in [
            &b"*0\r\n"[..],
            b"+OK\r\n",
            b"*1\r\n:1\r\n",
            b"-ERR This instance has cluster support disabled\r\n",
        ] {
            let (endpoint, thread) = server(vec![reply.to_vec()]);
            let problem = cluster(&endpoint, &Login::default(), "").unwrap_err().to_string();
            assert!(problem.starts_with(&endpoint.to_string()), "{problem}");
            thread.join().unwrap();
        }
    }
}
