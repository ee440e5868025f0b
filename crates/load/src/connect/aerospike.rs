//! How a connection to Aerospike introduces itself, and whose partitions are whose.

use std::io;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wire::aerospike::client::{frame, put_info, put_login};
use wire::aerospike::{Code, PARTITIONS};
use wire::route::SLOTS;

use super::{Connected, Login};
use crate::engine::Node;

/// The namespace, unless another is named.
pub const NAMESPACE_DEFAULT: &str = "test";

/// The first byte of each frame.
pub(crate) const VERSION: u8 = 2;
/// Frames of text.
pub(crate) const INFO: u8 = 1;
/// Frames about who may do what.
const ADMIN: u8 = 2;
/// Frames of data.
pub(crate) const MESSAGE: u8 = 3;
/// Bytes of a reply's frame at most.
const FRAME_SIZE_MAX: usize = 1 << 20;
/// Slots that stand for a partition.
const SLOTS_PER_PARTITION: u16 = SLOTS / PARTITIONS;

/// Says who it is if there is a password, and sees that it is Aerospike who answers.
pub(super) fn introduce(connected: &mut Connected, login: &Login) -> io::Result<()> {
    if let Some(password) = &login.password {
        let user = login.user.as_deref().unwrap_or("admin");
        let mut request = Vec::new();
        put_login(&mut request, user, credential(password).as_bytes());
        let reply = ask(connected, ADMIN, &request)?;
        match reply.get(1).copied().map(Code) {
            // A server without users wants nobody to log in.
            Some(Code::OK | Code::SECURITY_NOT_ENABLED) => {}
            Some(code) => {
                let text = format!("the server refuses this user and password: {}", code_text(code));
                return Err(io::Error::other(text));
            }
            None => return Err(io::Error::other("a reply about rights that is too short")),
        }
    }
    info(connected, &["node"]).map(|_| ())
}

/// The credential of the last password: it costs tens of milliseconds, and many connections say the same.
fn credential(password: &str) -> String {
    static LAST: Mutex<Option<(String, String)>> = Mutex::new(None);
    let mut last = LAST.lock().expect("nobody ends while it computes");
    match &*last {
        Some((known, credential)) if known == password => credential.clone(),
        _ => {
            let credential = auth::aerospike_credential(password.as_bytes());
            *last = Some((password.to_owned(), credential.clone()));
            credential
        }
    }
}

/// What the server is of.
pub(super) fn build(connected: &mut Connected) -> io::Result<String> {
    info(connected, &["build"]).map(|mut values| values.remove(0))
}

/// Sends a frame and waits for the body of the reply, of the same kind.
fn ask(connected: &mut Connected, kind: u8, request: &[u8]) -> io::Result<Vec<u8>> {
    let reply = connected.exchange(request, |input| {
        let is_right = [VERSION, kind].iter().zip(input).all(|(want, got)| want == got);
        if !is_right || input.len() > FRAME_SIZE_MAX {
            return Err("bytes that are no reply of Aerospike's: say what the server speaks with --protocol"
                .to_owned());
        }
        Ok(frame(input).map(|(_, _, size)| size))
    })?;
    Ok(frame(&reply).map(|(_, body, _)| body.to_vec()).unwrap_or_default())
}

/// The values of some names, in their order.
fn info(connected: &mut Connected, names: &[&str]) -> io::Result<Vec<String>> {
    let lines: String = names.iter().flat_map(|name| [name, "\n"]).collect();
    let mut request = Vec::new();
    put_info(&mut request, &lines);
    let reply = ask(connected, INFO, &request)?;
    values(&reply, names).map_err(io::Error::other)
}

fn values(reply: &[u8], names: &[&str]) -> Result<Vec<String>, String> {
    let text = String::from_utf8_lossy(reply);
    let mut lines = text.lines();
    let value = |name: &&str| {
        let (named, value) = lines.next().and_then(|line| line.split_once('\t')).unwrap_or_default();
        if named != *name || value.starts_with("ERROR") {
            return Err(format!("the server does not tell its {name}: '{named}' is '{value}'"));
        }
        Ok(value.to_owned())
    };
    names.iter().map(value).collect()
}

/// The nodes of the cluster, of whom each owns some partitions of the namespace: the one asked, and its peers, whom `connect`
/// connects to.
pub(super) fn nodes(
    connected: &mut Connected,
    address: String,
    namespace: &str,
    mut connect: impl FnMut(&str) -> io::Result<Connected>,
) -> io::Result<Vec<Node>> {
    let first = info(connected, &["replicas", "peers-clear-std"])?;
    let mut nodes = vec![(address, ranges(&first[0], namespace).map_err(io::Error::other)?)];
    for address in peers(&first[1]).map_err(io::Error::other)? {
        let replicas = info(&mut connect(&address)?, &["replicas"])?;
        nodes.push((address, ranges(&replicas[0], namespace).map_err(io::Error::other)?));
    }
    nodes.retain(|(_, ranges)| !ranges.is_empty());
    Ok(nodes)
}

/// The first address of each peer: `generation,port,[[name,tls,[host:port,…]],…]`.
fn peers(text: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("the list of peers does not read: '{text}'");
    let mut parts = text.splitn(3, ',');
    let (_, port, list) = (parts.next(), parts.next().ok_or_else(wrong)?, parts.next().ok_or_else(wrong)?);
    let port = if port.is_empty() { "3000" } else { port };
    let list = list.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']')).ok_or_else(wrong)?;
    let mut addresses = Vec::new();
    let mut rest = list.trim_start_matches(',');
    while !rest.is_empty() {
        // [name,tls,[first,…]]
        let inner = rest.strip_prefix('[').ok_or_else(wrong)?;
        let (_, behind) = inner.split_once(",[").ok_or_else(wrong)?;
        let end = list_end(behind).ok_or_else(wrong)?;
        let (hosts, behind) = (&behind[..end], behind[end + 1..].strip_prefix(']').ok_or_else(wrong)?);
        // An address of IPv6 has brackets of its own.
        let host = hosts.split(',').next().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let has_port =
            host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let has_port = has_port && (!host.starts_with('[') || host.contains("]:"));
        addresses.push(if has_port { host.to_owned() } else { format!("{host}:{port}") });
        rest = behind.trim_start_matches(',');
    }
    Ok(addresses)
}

/// Where the bracket is that closes a list whose own has been read.
fn list_end(text: &str) -> Option<usize> {
    let mut open = 1;
    text.bytes().position(|byte| {
        match byte {
            b'[' => open += 1,
            b']' => open -= 1,
            _ => {}
        }
        open == 0
    })
}

/// The slots that stand for the partitions a node owns: `namespace:regime,count,bits,…;…`.
fn ranges(replicas: &str, namespace: &str) -> Result<Vec<(u16, u16)>, String> {
    let wrong = || format!("the map of partitions does not read: '{replicas}'");
    let entries = || replicas.trim().split(';').filter_map(|entry| entry.split_once(':'));
    let Some((_, map)) = entries().find(|(name, _)| *name == namespace) else {
        let names: Vec<_> = entries().map(|(name, _)| name).collect();
        return Err(format!(
            "the server has no namespace '{namespace}', but {}: --namespace",
            names.join(", ")
        ));
    };
    let bits = map.split(',').nth(2).and_then(|text| STANDARD.decode(text).ok()).ok_or_else(wrong)?;
    if bits.len() * 8 != usize::from(PARTITIONS) {
        return Err(wrong());
    }
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for partition in 0..PARTITIONS {
        if bits[usize::from(partition / 8)] & 0x80 >> (partition % 8) == 0 {
            continue;
        }
        let first = partition * SLOTS_PER_PARTITION;
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == first => *last += SLOTS_PER_PARTITION,
            _ => ranges.push((first, first + SLOTS_PER_PARTITION - 1)),
        }
    }
    Ok(ranges)
}

/// A result's number and word, and what to do.
pub(crate) fn code_text(code: Code) -> String {
    let hint = match code {
        Code::NAMESPACE => ": --namespace names another",
        Code::NOT_AUTHENTICATED | Code::CREDENTIAL => ": --user and --password say who you are",
        _ => "",
    };
    format!("result {}, {}{hint}", code.0, code.word().unwrap_or("AS_OK"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The map of a node that owns these partitions.
    pub(crate) fn replicas(owns: impl Fn(u16) -> bool) -> String {
        let mut bits = [0_u8; 512];
        for partition in (0..PARTITIONS).filter(|partition| owns(*partition)) {
            bits[usize::from(partition / 8)] |= 0x80 >> (partition % 8);
        }
        format!("bar:0,1,{};test:0,1,{}", STANDARD.encode([0; 512]), STANDARD.encode(bits))
    }

    fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[2, kind, 0, 0, 0, 0][..], &u16::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
    }

    #[test]
    fn connections_log_in_and_read_the_map() {
        use crate::connect::tests::server;
        use crate::connect::{Dialect, cluster};
        let login = Login {
            dialect: Dialect::Aerospike,
            user: Some("me".to_owned()),
            password: Some("secret".to_owned()),
            ..Login::default()
        };
        let admin = |result: u8| framed(ADMIN, &[&[0, result, 20, 0][..], &[0; 12]].concat());
        let node = || framed(INFO, b"node\tA1\n");
        let owns = |second: bool| replicas(move |partition| (partition >= 1000) == second);
        let (peer, peer_thread) =
            server(vec![admin(0), node(), framed(INFO, format!("replicas\t{}\n", owns(true)).as_bytes())]);
        let map = format!("replicas\t{}\npeers-clear-std\t1,3000,[[A2,,[{peer}]]]\n", owns(false));
        let (endpoint, thread) = server(vec![admin(0), node(), framed(INFO, map.as_bytes())]);
        let (nodes, endpoints) = cluster(&endpoint, &login, "").unwrap();
        assert_eq!(endpoints, [endpoint, peer]);
        let owner = |partition: u16| nodes.owner(wire::route::Slot::new(partition * 4 + 3).unwrap());
        assert_eq!((owner(999), owner(1000)), (0, 1));
        let credential = auth::aerospike_credential(b"secret");
        let fields = [&[0, 0, 0, 3, 0][..], b"me", &[0, 0, 0, 61, 3], credential.as_bytes()].concat();
        let log_in = framed(ADMIN, &[&[0, 0, 20, 2][..], &[0; 12], &fields].concat());
        let first = [&log_in[..], &framed(INFO, b"node\n")].concat();
        assert_eq!(
            thread.join().unwrap(),
            [&first[..], &framed(INFO, b"replicas\npeers-clear-std\n")].concat()
        );
        assert_eq!(peer_thread.join().unwrap(), [&first[..], &framed(INFO, b"replicas\n")].concat());
        for (replies, says) in [
            (
                vec![admin(52), framed(INFO, b"node\tERROR:4:unrecognized command\n")],
                "does not tell its node",
            ),
            (vec![admin(65)], "--password"),
            (vec![b"-ERR unknown command\r\n".to_vec()], "no reply of Aerospike's"),
        ] {
            let (endpoint, thread) = server(replies);
            let problem = cluster(&endpoint, &login, "").unwrap_err().to_string();
            assert!(problem.contains(says) && problem.starts_with(&endpoint.to_string()), "{problem}");
            thread.join().unwrap();
        }
    }

    #[test]
    fn peers_are_named_with_their_ports() {
        let check = |text: &str, want: &[&str]| assert_eq!(peers(text).unwrap(), want, "{text}");
        check("1,13000,[]", &[]);
        check(
            "1,13000,[[A000000000000002,,[127.0.0.1:13001]],[A000000000000003,,[127.0.0.1:13002,10.0.0.1:13002]]]",
            &["127.0.0.1:13001", "127.0.0.1:13002"],
        );
        check("7,,[[BB,tls,[10.0.0.5]]]", &["10.0.0.5:3000"]);
        check(
            "7,3100,[[BB,,[10.0.0.5]],[CC,,[[::1]:3200]],[DD,,[[::2]]]]",
            &["10.0.0.5:3100", "[::1]:3200", "[::2]:3100"],
        );
        for text in ["", "1", "1,3000", "1,3000,", "1,3000,[[A]]", "1,3000,[[A,,[]]]", "1,3000,[x]"] {
            assert!(peers(text).is_err(), "{text}");
        }
    }

    /// The texts are those that real servers' clients were seen to accept.
    #[test]
    fn bits_tell_whose_a_partition_is() {
        let quarter = format!("test:0,1,{}//8A{}AAA=", "////".repeat(42), "AAAA".repeat(127));
        assert_eq!(ranges(&quarter, "test"), Ok(vec![(0, 4095)]));
        let fourths = format!("test:0,1,{}iIg=", "iIiI".repeat(170));
        let owned = ranges(&fourths, "test").unwrap();
        assert_eq!((owned.len(), owned[0], owned[1]), (1024, (0, 3), (16, 19)));
        let one = format!("a:0,1,x;test:0,1,{}AQAA{}AAA=", "AAAA".repeat(82), "AAAA".repeat(87));
        assert_eq!(ranges(&one, "test"), Ok(vec![(1975 * 4, 1975 * 4 + 3)]));
        assert_eq!(ranges(&replicas(|partition| partition == 1975), "test"), Ok(vec![(7900, 7903)]));
        assert!(ranges(&quarter, "prod").unwrap_err().contains("--namespace"));
        for text in ["test:0,1,AAAA", "test:0,1", "test:0,1,%%"] {
            assert!(ranges(text, "test").unwrap_err().contains("does not read"), "{text}");
        }
    }

    #[test]
    fn values_come_in_the_order_of_their_names() {
        let reply = b"node\tA1\nbuild\t7.0\n";
        assert_eq!(values(reply, &["node", "build"]), Ok(vec!["A1".to_owned(), "7.0".to_owned()]));
        assert!(values(reply, &["build"]).is_err());
        assert!(values(b"node\tERROR:4:unrecognized command\n", &["node"]).is_err());
        assert!(values(b"", &["node"]).is_err());
    }
}
