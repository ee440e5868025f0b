//! The pages of the management port that have numbers of all lanes: what clients of Couchbase read of a pool, a bucket and its
//! nodes. Every lane is a node.

use wire::couchbase::ClusterMap;
use wire::couchbase::map::{Bucket, bracketed};
use wire::http::{self, ASK, Ask, Code, PATH};
use wire::route::{PartitionMap, Ports};

use super::info::View;
use crate::admin::Census;
use crate::couchbase::VERSION;
use crate::pages::{Page, host};
use crate::request::Args;

/// What nodes of 7.2 say of it: 7 × 65536 + 2.
const COMPATIBILITY: u32 = 7 << 16 | 2;
const MB: u64 = 1024 * 1024;

/// Writes the page that is asked for.
pub(super) fn put(args: Args<'_>, map: &PartitionMap, view: &View<'_>, out: &mut Vec<u8>) {
    let pages = Pages { map, view, host: host(view.settings, view.from.local) };
    let body = match Page::at(args.flat(PATH), &view.settings.namespaces) {
        Some(Page::Node) => {
            let own = view.lanes.iter().find(|(lane, _)| *lane == view.from.lane);
            own.map_or_else(String::new, |(lane, census)| pages.node(*lane, census))
        }
        Some(Page::Pool) => pages.pool(),
        Some(Page::Bucket(number)) => pages.bucket(number),
        _ => {
            let buckets = view.settings.namespaces.buckets();
            let buckets: Vec<String> = buckets.map(|(number, _)| pages.bucket(number)).collect();
            format!("[{}]", buckets.join(","))
        }
    };
    http::put(out, Ask::from_bytes(args.flat(ASK)), Code::OK, &body);
}

struct Pages<'a> {
    map: &'a PartitionMap,
    view: &'a View<'a>,
    host: String,
}

impl Pages<'_> {
    fn node(&self, lane: u16, census: &Census) -> String {
        let view = self.view;
        let lane_count = u64::from(self.map.lanes().max(1));
        let uptime_s = view.now.mono_ns.saturating_sub(view.began.mono_ns) / 1_000_000_000;
        let used = census.memory.total();
        // A lane's part of what there is.
        let limit = match view.settings.memory_size_max {
            0 => view.memory_size,
            limit => limit,
        } / lane_count;
        let host = bracketed(&self.host);
        let of_lane = |ports: Option<Ports>| ports.map_or(0, |ports| ports.of(lane));
        let kv = of_lane(view.settings.couchbase_ports);
        let management = of_lane(view.settings.management_ports);
        let this = if lane == view.from.lane { r#","thisNode":true"# } else { "" };
        let (free, used_mb, limit_mb) = (limit.saturating_sub(used), used / MB, limit / MB);
        format!(
            concat!(
                r#"{{"hostname":"{host}:{management}","otpNode":"lane{lane}@{bare}","status":"healthy","clusterMembership":"active","#,
                r#""version":"{version}","os":"{os}","clusterCompatibility":{compatibility},"uptime":"{uptime_s}","#,
                r#""memoryTotal":{limit},"memoryFree":{free},"mcdMemoryReserved":{limit_mb},"mcdMemoryAllocated":{used_mb},"#,
                r#""couchApiBase":"http://{host}:{management}/","ports":{{"direct":{kv}}},"services":["kv"]{this}}}"#
            ),
            host = host,
            bare = self.host,
            management = management,
            lane = lane,
            version = VERSION,
            os = std::env::consts::OS,
            compatibility = COMPATIBILITY,
            uptime_s = uptime_s,
            limit = limit,
            free = free,
            limit_mb = limit_mb,
            used_mb = used_mb,
            kv = kv,
            this = this,
        )
    }

    fn nodes(&self) -> String {
        let nodes: Vec<String> =
            self.view.lanes.iter().map(|(lane, census)| self.node(*lane, census)).collect();
        format!("[{}]", nodes.join(","))
    }

    fn pool(&self) -> String {
        let used = self.view.sum(|census| census.memory.total());
        let total = self.limit();
        format!(
            concat!(
                r#"{{"name":"default","nodes":{nodes},"buckets":{{"uri":"/pools/default/buckets"}},"balanced":true,"#,
                r#""rebalanceStatus":"none","storageTotals":{{"ram":{{"total":{total},"quotaTotal":{total},"used":{used}}}}}}}"#
            ),
            nodes = self.nodes(),
            total = total,
            used = used,
        )
    }

    fn bucket(&self, number: u16) -> String {
        let view = self.view;
        let bucket = Bucket { name: &view.settings.namespaces.of(number).name, number };
        let documents = usize::from(view.settings.database_count + number);
        let items = view.sum(|census| census.databases[documents].keys);
        let used = view.sum(|census| census.databases[documents].held);
        let lane_count = u64::from(self.map.lanes().max(1));
        let shares = view.settings.namespaces.shares(view.settings.memory_size_max, lane_count);
        let total = shares[usize::from(number)].map_or(self.limit(), |share| share * lane_count);
        let percent = used.saturating_mul(100).checked_div(total).unwrap_or(0);
        let mut server_map = String::new();
        let own = ClusterMap {
            host: Some(&self.host),
            ..view.settings.cluster_map(self.map, view.from.lane, Some(number))
        };
        own.server_map(&mut server_map);
        format!(
            concat!(
                r#"{{"name":"{name}","bucketType":"ephemeral","authType":"sasl","saslPassword":"","proxyPort":0,"#,
                r#""uuid":"{uuid}","nodeLocator":"vbucket","uri":"/pools/default/buckets/{name}","#,
                r#""streamingUri":"/pools/default/bucketsStreaming/{name}","replicaNumber":0,"#,
                r#""bucketCapabilities":["cbhello","touch","cccp","nodesExt","collections","durableWrite"],"#,
                r#""basicStats":{{"quotaPercentUsed":{percent},"opsPerSec":{rate},"itemCount":{items},"diskUsed":0,"memUsed":{used}}},"#,
                r#""quota":{{"ram":{total},"rawRAM":{total}}},"nodes":{nodes},"vBucketServerMap":{server_map}}}"#
            ),
            name = bucket.name,
            uuid = own.uuid(bucket),
            percent = percent,
            rate = view.ops_per_second,
            items = items,
            used = used,
            total = total,
            nodes = self.nodes(),
            server_map = server_map,
        )
    }

    /// Bytes that all lanes may use.
    fn limit(&self) -> u64 {
        match self.view.settings.memory_size_max {
            0 => self.view.memory_size,
            limit => limit,
        }
    }
}
