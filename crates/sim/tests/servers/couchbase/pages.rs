//! The management port.

use net::fault::Faults;
use sim::World;

use crate::couchbase::{MANAGEMENT, settings, world};

/// What the management port says to a request.
pub(crate) fn page(world: &mut World, lane: usize, request: &str) -> String {
    let mut client = world.connect_at(lane, MANAGEMENT);
    let mut got = world.exchange(&mut client, request.as_bytes(), 1, 2000);
    for _ in 0..40 {
        world.round();
        client.pump();
    }
    got.append(&mut client.received);
    String::from_utf8(got).unwrap()
}

#[test]
fn pages() {
    let mut world = world(2);
    world.attend();
    let mut get = |path: &str| page(&mut world, 1, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    let map = get("/pools/default/b/default");
    assert!(
        map.starts_with("HTTP/1.1 200 OK\r\n")
            && map.contains(r#""serverList":["127.0.0.1:11210","127.0.0.1:11211"]"#),
        "{map}"
    );
    for path in ["/pools/default/bs/default", "/pools/default/bucketsStreaming/default"] {
        let stream = get(path);
        assert!(
            stream.contains("Transfer-Encoding: chunked\r\n\r\n") && stream.ends_with("}\n\n\n\n\r\n"),
            "{stream}"
        );
        let (_, body) = stream.split_once("\r\n\r\n").unwrap();
        let (size, piece) = body.split_once("\r\n").unwrap();
        assert_eq!(usize::from_str_radix(size, 16).unwrap(), piece.len() - 2);
    }
    // mcsoda looks for the node of each server, and asks that for itself.
    let node = get("/nodes/self");
    for want in [
        r#""hostname":"127.0.0.1:8092""#,
        r#""ports":{"direct":11211}"#,
        r#""otpNode":"lane1@127.0.0.1""#,
        r#""clusterMembership":"active""#,
        r#""thisNode":true"#,
        r#""uptime":""#,
    ] {
        assert!(node.contains(want), "{want} in {node}");
    }
    let bucket = get("/pools/default/buckets/default");
    for want in [
        r#""itemCount":0"#,
        r#""vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":0,"serverList":["127.0.0.1:11210""#,
        r#""ports":{"direct":11210}"#,
        r#""ports":{"direct":11211}"#,
    ] {
        assert!(bucket.contains(want), "{want} in {bucket}");
    }
    assert!(get("/pools/default").contains(r#""nodes":[{"hostname":"127.0.0.1:8091""#));
    assert!(get("/pools/default/buckets").contains("[{\"name\":\"default\""));
    assert!(get("/pools").contains(r#""uri":"/pools/default""#));
    assert!(get("/").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(get("/pools/default/nodeServices").contains("nodesExt"));
    assert!(get("/nothing").starts_with("HTTP/1.1 404 Not Found\r\n"));
    assert!(get("/pools/default/bs/other").starts_with("HTTP/1.1 404 Not Found\r\n"));
    let mut whole = |request: &str| page(&mut world, 0, request);
    assert!(whole("PUT / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 Method Not Allowed\r\n"));
    assert!(whole("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 Bad Request\r\n"));
    assert!(whole(&"X".repeat(9000)).starts_with("HTTP/1.1 431 "));
    // Two on one connection, of which the control thread answers the first, and one that is to be the last.
    let two = whole("GET /nodes/self HTTP/1.1\r\n\r\nGET /pools HTTP/1.1\r\n\r\n");
    assert!(two.find("lane0@").unwrap() < two.find("/poolsStreaming").unwrap(), "{two}");
    for path in ["/nodes/self", "/pools", "/nothing"] {
        let last =
            whole(&format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\nGET /pools HTTP/1.1\r\n\r\n"));
        assert_eq!(last.matches("HTTP/1.1 ").count(), 1, "{path}: {last}");
        assert!(last.contains("Connection: close\r\n"));
    }
    for _ in 0..20 {
        world.round();
    }
    let kept = world.lanes[0].stats().clients;
    assert_eq!(kept, 0, "those who are to go have gone, the others have left");
}

#[test]
fn pages_want_the_password() {
    let mut settings = settings();
    settings.set_password(Some(b"secret".to_vec()));
    let mut world = World::new(1, &settings, 1, Faults::default());
    world.attend();
    for path in ["/pools", "/pools/default/bs/default", "/nodes/self", "/nothing"] {
        for (authorization, is_in) in [
            ("", false),
            ("Authorization: Basic dTp3cm9uZw==\r\n", false),
            ("Authorization: Basic nonsense\r\n", false),
            ("Authorization: Basic YW55OnNlY3JldA==\r\n", true),
        ] {
            let got = page(&mut world, 0, &format!("GET {path} HTTP/1.1\r\n{authorization}\r\n"));
            assert_eq!(got.starts_with("HTTP/1.1 401 Unauthorized\r\n"), !is_in, "{path} {got}");
        }
    }
}
