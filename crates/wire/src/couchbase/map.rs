//! The map of partitions in the words of a Couchbase cluster: each lane is a node, each vbucket a row of one.
//!
//! ```text
//! {"rev":1,"revEpoch":…,"name":"default","nodeLocator":"vbucket","uuid":…,
//!  "nodes":[{"hostname":"$HOST:8091","ports":{"direct":11210}},{"hostname":"$HOST:8092","ports":{"direct":11211}}],
//!  "nodesExt":[{"services":{"kv":11210,"mgmt":8091},"thisNode":true},{"services":{"kv":11211,"mgmt":8092}}],
//!  "vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":0,"serverList":["$HOST:11210","$HOST:11211"],
//!                      "vBucketMap":[[0],[0], … 1024 rows]}, …}
//! ```
//! Without a host (`$HOST`, and no `hostname`) clients take the one that they have connected to, which is right for a server of
//! several addresses. Newer is the larger pair of `revEpoch` and `rev`. Nodes have the same order in all lists: clients take one or the
//! other as the index of `vBucketMap`. As libcouchbase (`vbucket.c`), the C++ SDK (`configuration_json.hxx`) and gocbcore
//! (`routeconfig.go`) read it.

use std::fmt::Write as _;

use crate::route::{PartitionMap, Ports, VBUCKETS};

/// What the map is made of.
#[derive(Clone, Copy, Debug)]
pub struct ClusterMap<'a> {
    /// Who owns what.
    pub map: &'a PartitionMap,
    /// The bucket; none for a client that has not selected one: then there are nodes alone.
    pub bucket: Option<Bucket<'a>>,
    /// Hex digits that no other run of a server has.
    pub run: &'a str,
    /// Grows from one run of a server to the next.
    pub epoch: i64,
    /// Where nodes are; none where clients know.
    pub host: Option<&'a str>,
    /// The lane that says this.
    pub lane: u16,
    /// Their ports for keys and values.
    pub ports: Ports,
    /// Their management ports, if they have any.
    pub management_ports: Option<Ports>,
}

/// A bucket of a server.
#[derive(Clone, Copy, Debug)]
pub struct Bucket<'a> {
    /// What clients call it.
    pub name: &'a str,
    /// Its place among the server's.
    pub number: u16,
}

/// What clients replace by the host that they have connected to.
const HOST_CONNECTED: &str = "$HOST";

/// What clients may use of this server.
const BUCKET_CAPABILITIES: &str = r#""cbhello","touch","cccp","nodesExt","collections","durableWrite""#;

impl ClusterMap<'_> {
    /// As JSON, in one line.
    pub fn json(&self) -> String {
        // A row is a few bytes: the number of a lane in brackets.
        let mut text = String::with_capacity(usize::from(VBUCKETS) * 5 + usize::from(self.map.lanes()) * 120);
        let out = &mut text;
        let (epoch, rev) = (self.epoch, self.map.epoch);
        put(out, format_args!(r#"{{"rev":{rev},"revEpoch":{epoch}"#));
        if let Some(bucket) = self.bucket {
            let (bucket, uuid) = (escaped(bucket.name), self.uuid(bucket));
            put(
                out,
                format_args!(
                    r#","name":"{bucket}","nodeLocator":"vbucket","uuid":"{uuid}","bucketType":"ephemeral""#
                ),
            );
        }
        if self.bucket.is_some() {
            out.push_str(r#","nodes":["#);
            self.nodes_of_old(out);
            out.push(']');
        }
        out.push_str(r#","nodesExt":["#);
        self.nodes(out);
        out.push(']');
        if self.bucket.is_some() {
            out.push_str(r#","vBucketServerMap":"#);
            self.server_map(out);
            put(
                out,
                format_args!(r#","bucketCapabilitiesVer":"","bucketCapabilities":[{BUCKET_CAPABILITIES}]"#),
            );
            out.push_str(r#","collectionsManifestUid":"0""#);
        }
        out.push_str(r#","clusterCapabilitiesVer":[1,0],"clusterCapabilities":{}}"#);
        text
    }

    /// A name that no other bucket has, of this run or another.
    pub fn uuid(&self, bucket: Bucket<'_>) -> String {
        format!("{}{:02x}", self.run.get(..30).unwrap_or(self.run), bucket.number)
    }

    /// The lanes as they were listed before there was `nodesExt`: gocbcore takes no node of a bucket that is not here.
    fn nodes_of_old(&self, out: &mut String) {
        let host = bracketed(self.host.unwrap_or(HOST_CONNECTED));
        for lane in 0..self.map.lanes() {
            let comma = if lane == 0 { "" } else { "," };
            let management = self.management_ports.map_or(0, |ports| ports.of(lane));
            let direct = self.ports.of(lane);
            put(
                out,
                format_args!(r#"{comma}{{"hostname":"{host}:{management}","ports":{{"direct":{direct}}}}}"#),
            );
        }
    }

    /// The services of each lane, in the order of their numbers.
    fn nodes(&self, out: &mut String) {
        for lane in 0..self.map.lanes() {
            out.push_str(if lane == 0 { "{" } else { ",{" });
            if let Some(host) = self.host {
                put(out, format_args!(r#""hostname":"{}","#, escaped(host)));
            }
            put(out, format_args!(r#""services":{{"kv":{}"#, self.ports.of(lane)));
            if let Some(ports) = self.management_ports {
                put(out, format_args!(r#","mgmt":{}"#, ports.of(lane)));
            }
            out.push('}');
            if lane == self.lane {
                out.push_str(r#","thisNode":true"#);
            }
            out.push('}');
        }
    }

    /// The value of `vBucketServerMap`: the servers, and for each vbucket the number of its own.
    pub fn server_map(&self, out: &mut String) {
        out.push_str(r#"{"hashAlgorithm":"CRC","numReplicas":0,"serverList":["#);
        let host = bracketed(self.host.unwrap_or(HOST_CONNECTED));
        for lane in 0..self.map.lanes() {
            let comma = if lane == 0 { "" } else { "," };
            put(out, format_args!(r#"{comma}"{host}:{}""#, self.ports.of(lane)));
        }
        out.push_str(r#"],"vBucketMap":["#);
        for vbucket in 0..VBUCKETS {
            let comma = if vbucket == 0 { "" } else { "," };
            let owner = self.map.owner_of_vbucket(vbucket).expect("all vbuckets have owners");
            put(out, format_args!("{comma}[{}]", owner.0));
        }
        out.push_str("]}");
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory succeeds");
}

/// A host as it stands in front of a port: an address of IPv6 in brackets.
pub fn bracketed(host: &str) -> String {
    let host = escaped(host);
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host }
}

/// A name inside of quotes, as JSON wants it.
pub fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            '\0'..' ' => put(&mut text, format_args!("\\u{:04x}", u32::from(letter))),
            _ => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(map: &PartitionMap) -> ClusterMap<'_> {
        ClusterMap {
            map,
            bucket: Some(Bucket { name: "default", number: 3 }),
            run: "00ff",
            epoch: 1_700_000_000_000,
            host: None,
            lane: 1,
            ports: Ports::from(11210),
            management_ports: Some(Ports::from(8091)),
        }
    }

    #[test]
    fn lanes_are_nodes() {
        let lanes = PartitionMap::even(2);
        let text = map(&lanes).json();
        let front = concat!(
            r#"{"rev":1,"revEpoch":1700000000000,"name":"default","nodeLocator":"vbucket","uuid":"00ff03","bucketType":"ephemeral","#,
            r#""nodes":[{"hostname":"$HOST:8091","ports":{"direct":11210}},{"hostname":"$HOST:8092","ports":{"direct":11211}}],"#,
            r#""nodesExt":[{"services":{"kv":11210,"mgmt":8091}},{"services":{"kv":11211,"mgmt":8092},"thisNode":true}],"#,
            r#""vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":0,"serverList":["$HOST:11210","$HOST:11211"],"vBucketMap":["#,
        );
        assert_eq!(&text[..front.len()], front);
        let (rows, rest) = text[front.len()..].split_once("]}").unwrap();
        let rows: Vec<&str> = rows.split(',').collect();
        assert_eq!(rows, [["[0]"; 512], ["[1]"; 512]].concat());
        assert_eq!(
            rest,
            concat!(
                r#","bucketCapabilitiesVer":"","bucketCapabilities":["cbhello","touch","cccp","nodesExt","collections","durableWrite"],"#,
                r#""collectionsManifestUid":"0","clusterCapabilitiesVer":[1,0],"clusterCapabilities":{}}"#
            )
        );
        assert!(
            map(&PartitionMap::even(4)).json().len() < 6 * 1024,
            "it goes with every wrong turn of a client"
        );
    }

    #[test]
    fn without_a_bucket_there_are_nodes_alone() {
        let lanes = PartitionMap::even(1);
        let view =
            ClusterMap { bucket: None, lane: 0, host: Some("::1"), management_ports: None, ..map(&lanes) };
        let want = concat!(
            r#"{"rev":1,"revEpoch":1700000000000,"nodesExt":[{"hostname":"::1","services":{"kv":11210},"thisNode":true}],"#,
            r#""clusterCapabilitiesVer":[1,0],"clusterCapabilities":{}}"#
        );
        assert_eq!(view.json(), want);
        let with = |name| ClusterMap { bucket: Some(Bucket { name, number: 0 }), ..view }.json();
        assert!(with("a\"b").contains(r#""name":"a\"b""#));
        assert!(with("b").contains(r#"["[::1]:11210"]"#));
    }

    #[test]
    fn ports_lie_a_step_apart() {
        let lanes = PartitionMap::even(3);
        let (ports, management_ports) =
            (Ports { first: 100, step: 10 }, Some(Ports { first: 8091, step: 2 }));
        let text = ClusterMap { ports, management_ports, ..map(&lanes) }.json();
        for want in [r#""$HOST:100","$HOST:110","$HOST:120""#, r#""services":{"kv":120,"mgmt":8095}"#] {
            assert!(text.contains(want), "{text}");
        }
        assert!(text.contains(r#"{"hostname":"$HOST:8093","ports":{"direct":110}}"#), "{text}");
        assert_eq!(Ports { first: 65_000, step: 500 }.of(2), u16::MAX);
    }

    #[test]
    fn three_lanes_share_as_the_slots_say() {
        let lanes = PartitionMap::even(3);
        let text = map(&lanes).json();
        for lane in 0..3 {
            let rows = text.matches(&format!("[{lane}]")).count();
            assert!((340..=342).contains(&rows), "{rows} rows of lane {lane}");
        }
    }
}
