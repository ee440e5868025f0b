//! How a connection to Couchbase introduces itself, and what a bucket's map says.

use std::io;

use serde::Deserialize;
use wire::memcached::client::packet;
use wire::route::{SLOTS, VBUCKETS};

use super::{Connected, Endpoint, Login};
use crate::engine::Node;

/// The bucket, unless another is named.
pub const BUCKET_DEFAULT: &str = "default";

/// Bytes of a header.
const HEADER_SIZE: usize = 24;
/// Bytes of a reply's body at most. A map of 64 nodes has less than a tenth.
const BODY_SIZE_MAX: usize = 1 << 20;
/// Slots that stand for a vbucket.
const SLOTS_PER_VBUCKET: u16 = SLOTS / VBUCKETS;

const HELLO: u8 = 0x1f;
const SASL_AUTH: u8 = 0x21;
const SELECT_BUCKET: u8 = 0x89;
const GET_CLUSTER_CONFIG: u8 = 0xb5;
/// Buckets are selected, and requests for vbuckets of other nodes answered with the map.
const FEATURE_SELECT_BUCKET: [u8; 2] = [0, 0x08];

/// Says hello, who it is if there is a password, and which bucket it wants.
pub(super) fn introduce(connected: &mut Connected, login: &Login) -> io::Result<()> {
    ask(connected, "HELLO", HELLO, b"{\"a\":\"expresslane-bench\"}", &FEATURE_SELECT_BUCKET)?;
    let bucket = login.namespace.as_deref().unwrap_or(BUCKET_DEFAULT);
    if let Some(password) = &login.password {
        let user = login.user.as_deref().unwrap_or(bucket);
        let secret = ["", user, password].join("\0");
        ask(connected, "AUTH", SASL_AUTH, b"PLAIN", secret.as_bytes())?;
    }
    ask(connected, "SELECT_BUCKET", SELECT_BUCKET, bucket.as_bytes(), b"").map(|_| ())
}

/// The nodes of the bucket, of whom each owns some vbuckets.
pub(super) fn nodes(connected: &mut Connected, host: &str) -> io::Result<Vec<Node>> {
    let map = ask(connected, "GET_CLUSTER_CONFIG", GET_CLUSTER_CONFIG, b"", b"")?;
    parse(&map, host).map_err(io::Error::other)
}

/// Sends a request and waits for its reply's value, as memcached's binary protocol has both, too.
pub(super) fn ask(
    connected: &mut Connected,
    name: &str,
    opcode: u8,
    key: &[u8],
    value: &[u8],
) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    packet(&mut request, opcode, b"", key, value.len(), 0);
    request.extend_from_slice(value);
    let reply = connected.exchange(&request, |input| {
        let Some(header) = input.first_chunk::<HEADER_SIZE>() else { return Ok(None) };
        let size = usize::try_from(u32::from_be_bytes([header[8], header[9], header[10], header[11]]));
        match size {
            Ok(size) if header[0] == 0x81 && size <= BODY_SIZE_MAX => Ok(Some(HEADER_SIZE + size)),
            _ => Err(format!(
                "{name}: bytes that are no reply of memcached's or Couchbase's: say what the server speaks with --protocol"
            )),
        }
    })?;
    let front = usize::from(u16::from_be_bytes([reply[2], reply[3]])) + usize::from(reply[4]);
    let status = u16::from_be_bytes([reply[6], reply[7]]);
    if status != 0 {
        return Err(io::Error::other(format!("{name}: {}", status_text(status))));
    }
    reply.get(HEADER_SIZE + front..).map(<[u8]>::to_vec).ok_or_else(|| {
        io::Error::other(format!("{name}: a reply whose key and extras are longer than its body"))
    })
}

/// What a status means, and what to do.
pub(crate) fn status_text(status: u16) -> String {
    let meaning = match status {
        0x02 => "it exists, or has changed meanwhile",
        0x03 => "too large",
        0x06 => "no number",
        0x07 => "not this node's vbucket",
        0x08 => "no bucket is selected",
        0x09 => "locked",
        0x20 => "the server wants a password, or another one: --password",
        0x24 => "there is no such bucket, or not for this user: --namespace names it, --password opens it",
        0x81 => "the server does not know this: is it Couchbase's port for data?",
        0x82 => "out of memory",
        0x85 | 0x86 => "busy",
        _ => "see the list of statuses in Couchbase's documentation of its binary protocol",
    };
    format!("status {status:#04x}: {meaning}")
}

/// A bucket's map, as far as it is looked at.
#[derive(Deserialize)]
struct Config {
    #[serde(rename = "nodesExt")]
    nodes: Vec<ConfigNode>,
    #[serde(rename = "vBucketServerMap")]
    map: Option<ServerMap>,
}

#[derive(Deserialize)]
struct ConfigNode {
    hostname: Option<String>,
    services: Services,
}

#[derive(Deserialize)]
struct Services {
    /// A node without one serves no data.
    kv: Option<u16>,
}

#[derive(Deserialize)]
struct ServerMap {
    /// A row for each vbucket: indices of nodes, the first is the owner's; -1 is none.
    #[serde(rename = "vBucketMap")]
    rows: Vec<Vec<i32>>,
}

/// The nodes of a map and their slots: sixteen stand for a vbucket. A node without a host is at the one that was asked.
pub(crate) fn parse(text: &[u8], host: &str) -> Result<Vec<Node>, String> {
    let wrong = |why: String| format!("the bucket's map {why}");
    let config: Config =
        serde_json::from_slice(text).map_err(|error| wrong(format!("does not read: {error}")))?;
    let rows = config.map.ok_or_else(|| wrong("has no vbuckets: is the bucket selected?".to_owned()))?.rows;
    if rows.len() != usize::from(VBUCKETS) {
        return Err(wrong(format!("has {} vbuckets; {VBUCKETS} are spoken of here", rows.len())));
    }
    let mut nodes: Vec<Node> = Vec::new();
    for node in config.nodes {
        let name = match node.hostname.as_deref() {
            None | Some("" | "$HOST") => host,
            Some(name) => name,
        };
        let address = Endpoint::Tcp(name.to_owned(), node.services.kv.unwrap_or(0)).to_string();
        nodes.push((address, Vec::new()));
    }
    for (row, first) in rows.iter().zip((0..).step_by(usize::from(SLOTS_PER_VBUCKET))) {
        let owner = row.first().and_then(|index| usize::try_from(*index).ok());
        let node = owner.and_then(|index| nodes.get_mut(index));
        let (_, ranges) =
            node.ok_or_else(|| wrong(format!("has no node for vbucket {}", first / SLOTS_PER_VBUCKET)))?;
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == first => *last += SLOTS_PER_VBUCKET,
            _ => ranges.push((first, first + SLOTS_PER_VBUCKET - 1)),
        }
    }
    nodes.retain(|(_, ranges)| !ranges.is_empty());
    Ok(nodes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A map of nodes at these ports, of whom the vbuckets' owners are told by `owner`.
    pub(crate) fn map(ports: &[u16], owner: impl Fn(u16) -> usize) -> String {
        let nodes: Vec<_> =
            ports.iter().map(|port| format!("{{\"services\":{{\"kv\":{port},\"mgmt\":8091}}}}")).collect();
        let rows: Vec<_> = (0..VBUCKETS).map(|vbucket| format!("[{}]", owner(vbucket))).collect();
        format!(
            "{{\"rev\":1,\"nodesExt\":[{}],\"vBucketServerMap\":{{\"numReplicas\":0,\"vBucketMap\":[{}]}}}}",
            nodes.join(","),
            rows.join(",")
        )
    }

    fn reply(status: u8, value: &[u8]) -> Vec<u8> {
        let size = u32::try_from(value.len()).unwrap().to_be_bytes();
        [&[0x81, 0, 0, 0, 0, 0, 0, status][..], &size, &[0; 12], value].concat()
    }

    #[test]
    fn connections_introduce_themselves_and_read_the_map() {
        use crate::connect::tests::server;
        use crate::connect::{Dialect, cluster};
        let map = map(&[11210, 11211], |vbucket| usize::from(vbucket / 512));
        let ok = || reply(0, b"");
        let login = Login {
            dialect: Dialect::Couchbase,
            password: Some("secret".to_owned()),
            namespace: Some("beer".to_owned()),
            ..Login::default()
        };
        let (endpoint, thread) = server(vec![ok(), ok(), ok(), reply(0, map.as_bytes())]);
        let (nodes, endpoints) = cluster(&endpoint, &login, "").unwrap();
        assert_eq!((nodes.count(), endpoints[1].to_string()), (2, "127.0.0.1:11211".to_owned()));
        let seen = thread.join().unwrap();
        let mut want = Vec::new();
        let mut put = |opcode, key: &[u8], value: &[u8]| {
            packet(&mut want, opcode, b"", key, value.len(), 0);
            want.extend_from_slice(value);
        };
        put(0x1f, b"{\"a\":\"expresslane-bench\"}", b"\0\x08");
        put(0x21, b"PLAIN", b"\0beer\0secret");
        put(0x89, b"beer", b"");
        put(0xb5, b"", b"");
        assert_eq!(seen, want);
        for (replies, says) in [
            (vec![reply(0x81, b"")], "HELLO: status 0x81"),
            (vec![ok(), reply(0x20, b"")], "--password"),
            (vec![ok(), ok(), reply(0x24, b"")], "--namespace"),
            (
                vec![b"-ERR unknown command\r\n and so on\r\n".to_vec()],
                "no reply of memcached's or Couchbase's",
            ),
        ] {
            let (endpoint, thread) = server(replies);
            let problem = cluster(&endpoint, &login, "").unwrap_err().to_string();
            assert!(problem.contains(says) && problem.starts_with(&endpoint.to_string()), "{problem}");
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_map_tells_whose_a_vbucket_is() {
        let text = map(&[11210, 11211], |vbucket| usize::from(vbucket / 512));
        let nodes = parse(text.as_bytes(), "::1").unwrap();
        let want = [("[::1]:11210", vec![(0, 8191)]), ("[::1]:11211", vec![(8192, 16383)])];
        assert_eq!(nodes, want.map(|(address, ranges)| (address.to_owned(), ranges)));
        let odd = map(&[1, 2, 3], |vbucket| usize::from(vbucket % 2) * 2);
        let nodes = parse(odd.as_bytes(), "h").unwrap();
        assert_eq!(nodes.iter().map(|(address, _)| &address[..]).collect::<Vec<_>>(), ["h:1", "h:3"]);
        assert_eq!((nodes[0].1.len(), nodes[1].1[0]), (512, (16, 31)));
        let named = text.replacen("{\"services\"", "{\"hostname\":\"db\",\"services\"", 1);
        assert_eq!(parse(named.as_bytes(), "h").unwrap()[0].0, "db:11210");
    }

    #[test]
    fn a_map_must_be_whole() {
        let whole = map(&[1], |_| 0);
        assert!(parse(whole.as_bytes(), "h").is_ok());
        for (from, to, says) in [
            ("[0],", "", "1023 vbuckets"),
            ("[0]", "[-1]", "no node for vbucket 0"),
            ("[0]", "[1]", "no node for vbucket 0"),
            ("[0]", "[]", "no node for vbucket 0"),
            ("vBucketServerMap", "other", "no vbuckets"),
            ("{\"rev\"", "{rev", "does not read"),
        ] {
            let problem = parse(whole.replacen(from, to, 1).as_bytes(), "h").unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
