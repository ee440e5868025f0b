//! What a server says of its version, each in its own protocol.
//!
//! ```text
//!   Redis      INFO server                  lines of `…_version:`        redis 7.2.4, valkey 8.0.1
//!   memcached  version, or opcode 0x0b      `VERSION 1.6.18`             memcached 1.6.18
//!   Couchbase  opcode 0x0b                  the value of the reply       couchbase 7.6.2-3721-enterprise
//!   Aerospike  info `build`                 the value of the name        aerospike 7.0.0.5
//! ```

use std::io;

use wire::client::Reply;

use super::{Connected, Dialect, Login, aerospike, couchbase};

/// VERSION of memcached's binary protocol (docs/protocol-binary.txt of memcached), which Couchbase kept.
const VERSION: u8 = 0x0b;
/// Bytes of a line of text at most.
const LINE_SIZE_MAX: usize = 1024;

impl Connected {
    /// What the server is, and of which version. None: it answers, and does not say.
    ///
    /// # Errors
    /// It refuses to tell, or answers in another protocol.
    pub fn version(&mut self, login: &Login) -> io::Result<Option<String>> {
        let named = |product: &str, version: &str| {
            let version = version.trim();
            (!version.is_empty()).then(|| format!("{product} {version}"))
        };
        match login.dialect {
            Dialect::Resp2 | Dialect::Resp3 => Ok(of_info(&self.info_of_server()?)),
            Dialect::Memcached => Ok(named("memcached", &line(self)?)),
            Dialect::MemcachedBinary => Ok(named("memcached", &packet(self)?)),
            Dialect::Couchbase => Ok(named("couchbase", &packet(self)?)),
            Dialect::Aerospike => Ok(named("aerospike", &aerospike::build(self)?)),
        }
    }

    /// INFO's section of the server, of Redis and its descendants.
    ///
    /// # Errors
    /// An error for an answer, or one that is no text.
    pub fn info_of_server(&mut self) -> io::Result<String> {
        let reply = self.ask(&[b"INFO", b"server"])?;
        let bytes = match &reply {
            Reply::Verbatim(_, bytes) => bytes,
            reply => reply.bytes().ok_or_else(|| io::Error::other("INFO answers with no text"))?,
        };
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Descendants of Redis name the Redis that they stand for, and their own version beside it; what compiled them is none.
fn of_info(info: &str) -> Option<String> {
    let of = |line: &str| {
        let (name, version) = line.trim().split_once("_version:")?;
        (name != "gcc").then(|| format!("{name} {version}"))
    };
    let all: Vec<String> = info.lines().filter_map(of).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Behind VERSION of memcached's text.
fn line(connected: &mut Connected) -> io::Result<String> {
    let reply = connected.exchange(b"version\r\n", |input| {
        let end = input.windows(2).position(|pair| pair == b"\r\n");
        if end.is_none() && input.len() > LINE_SIZE_MAX {
            return Err("a line without an end".to_owned());
        }
        Ok(end.map(|at| at + 2))
    })?;
    let text = String::from_utf8_lossy(&reply);
    let version = text.strip_prefix("VERSION ");
    version.map(str::to_owned).ok_or_else(|| io::Error::other(format!("version: '{}'", text.trim_end())))
}

fn packet(connected: &mut Connected) -> io::Result<String> {
    let value = couchbase::ask(connected, "VERSION", VERSION, b"", b"")?;
    Ok(String::from_utf8_lossy(&value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::server;
    use super::*;

    fn binary(status: u8, value: &str) -> Vec<u8> {
        let mut reply =
            vec![0x81, VERSION, 0, 0, 0, 0, 0, status, 0, 0, 0, u8::try_from(value.len()).unwrap()];
        reply.resize(24, 0);
        [&reply[..], value.as_bytes()].concat()
    }

    /// `replies` to what introduces the connection come first.
    fn check(dialect: Dialect, replies: Vec<Vec<u8>>, asked: &[u8], want: Result<Option<&str>, &str>) {
        let (endpoint, thread) = server(replies);
        let login = Login { dialect, ..Login::default() };
        let mut connected = Connected::new(&endpoint, &login).unwrap();
        let got = connected.version(&login);
        let seen = thread.join().unwrap();
        assert!(seen.ends_with(asked), "{}", String::from_utf8_lossy(&seen));
        match (got, want) {
            (Ok(got), Ok(want)) => assert_eq!(got.as_deref(), want),
            (Err(error), Err(want)) => assert!(error.to_string().contains(want), "{error}"),
            (got, want) => panic!("{got:?}, not {want:?}"),
        }
    }

    #[test]
    fn each_is_asked_in_its_own_protocol() {
        let info = |text: &str| vec![format!("${}\r\n{text}\r\n", text.len()).into_bytes()];
        let ask = b"INFO\r\n$6\r\nserver\r\n";
        let redis = Ok(Some("redis 7.0.15"));
        check(Dialect::Resp2, info("# Server\r\nredis_version:7.0.15\r\ngcc_version:12.2.0\r\n"), ask, redis);
        let valkey = info("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.0.1\n");
        check(Dialect::Resp2, valkey, ask, Ok(Some("redis 7.2.4, valkey 8.0.1")));
        check(Dialect::Resp2, info("process_id:5\n"), ask, Ok(None));
        let verbatim = vec![b"%0\r\n".to_vec(), b"=24\r\ntxt:redis_version:7.0.15\r\n".to_vec()];
        check(Dialect::Resp3, verbatim, ask, redis);
        check(Dialect::Resp2, vec![b"-NOPERM no\r\n".to_vec()], ask, Err("NOPERM"));

        let text = |line: &str| vec![line.as_bytes().to_vec()];
        let ask = b"version\r\n";
        check(Dialect::Memcached, text("VERSION 1.6.18\r\n"), ask, Ok(Some("memcached 1.6.18")));
        check(Dialect::Memcached, text("ERROR\r\n"), ask, Err("version: 'ERROR'"));
        check(Dialect::Memcached, text(&"x".repeat(2000)), ask, Err("without an end"));

        let mut ask = vec![0x80, VERSION];
        ask.resize(24, 0);
        let packets = |value| vec![binary(0, value)];
        check(Dialect::MemcachedBinary, packets("1.6.18"), &ask, Ok(Some("memcached 1.6.18")));
        check(Dialect::MemcachedBinary, packets(""), &ask, Ok(None));
        check(Dialect::MemcachedBinary, vec![binary(0x81, "")], &ask, Err("VERSION: status 0x81"));
        let couchbase = |status| vec![binary(0, ""), binary(0, ""), binary(status, "7.6.2-3721-enterprise")];
        check(Dialect::Couchbase, couchbase(0), &ask, Ok(Some("couchbase 7.6.2-3721-enterprise")));
        check(Dialect::Couchbase, couchbase(0x20), &ask, Err("--password"));

        let info = |text: &str| {
            let size = u8::try_from(text.len()).unwrap();
            [&[2, 1, 0, 0, 0, 0, 0, size][..], text.as_bytes()].concat()
        };
        let aerospike = |build| vec![info("node\tA1\n"), info(build)];
        let ask = info("build\n");
        check(Dialect::Aerospike, aerospike("build\t7.0.0.5\n"), &ask, Ok(Some("aerospike 7.0.0.5")));
        let unknown = aerospike("build\tERROR:4:unrecognized command\n");
        check(Dialect::Aerospike, unknown, &ask, Err("does not tell its build"));
    }
}
