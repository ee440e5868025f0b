//! What the management port serves: the map of partitions, once or for as long as the connection lasts, and what clients of
//! Couchbase look at before they ask for it. Pages with numbers of all lanes are the control thread's (`control/pages.rs`).
//!
//! ```text
//! /pools/default/b/BUCKET                                the map
//! /pools/default/bs/BUCKET, …/bucketsStreaming/BUCKET    the map, and the connection stays: it changes with the process only
//! /pools   /pools/default/nodeServices   /               where to go from here
//! /pools/default   …/buckets   …/buckets/BUCKET   /nodes/self        with numbers
//! ```

use auth::is_same;
use net::Address;
use wire::command::{COMMANDS, Id};
use wire::couchbase::ClusterMap;
use wire::couchbase::map::{Bucket, escaped};
use wire::http::{self, ASK, AUTHORIZATION, Ask, Code, PATH};
use wire::reply::Put;
use wire::route::{PartitionMap, Ports};

use crate::Settings;
use crate::core::Core;
use crate::couchbase::VERSION;
use crate::dispatch::{Caller, Flow, Input};
use crate::namespaces::Namespaces;
use crate::request::Args;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Root,
    Pools,
    NodeServices,
    /// Of the bucket of this number, as all that have one.
    Map(u16),
    MapStream(u16),
    /// With numbers of all lanes, from here on.
    Pool,
    Buckets,
    Bucket(u16),
    Node,
}

impl Page {
    /// The page at a path; none where there is none.
    pub(crate) fn at(path: &[u8], namespaces: &Namespaces) -> Option<Page> {
        let path = std::str::from_utf8(path).ok()?;
        let (front, name) = path.rsplit_once('/')?;
        Some(match path {
            "/" => Page::Root,
            "/pools" | "/pools/" => Page::Pools,
            "/pools/default" => Page::Pool,
            "/pools/default/buckets" => Page::Buckets,
            "/pools/default/nodeServices" => Page::NodeServices,
            "/nodes/self" => Page::Node,
            _ => {
                let page = match front {
                    "/pools/default/b" => Page::Map,
                    "/pools/default/bs" | "/pools/default/bucketsStreaming" => Page::MapStream,
                    "/pools/default/buckets" => Page::Bucket,
                    _ => return None,
                };
                page(namespaces.bucket(name.as_bytes())?)
            }
        })
    }

    fn has_numbers(self) -> bool {
        matches!(self, Page::Pool | Page::Buckets | Page::Bucket(_) | Page::Node)
    }
}

impl Core {
    /// Answers a request to the management port, or lets the control thread do so.
    pub(crate) fn answer_page(&mut self, caller: &mut Caller<'_>, input: &mut Input<'_>) -> Flow {
        let args = input.args();
        let ask = Ask::from_bytes(args.flat(ASK));
        let page = Page::at(args.flat(PATH), &self.settings.namespaces);
        let refusal = match page {
            _ if ask.code != Code::OK => Some(ask.code),
            _ if !is_welcome(&self.settings, args) => Some(Code::UNAUTHORIZED),
            None => Some(Code::NOT_FOUND),
            Some(_) => None,
        };
        if refusal.is_none_or(|code| code == Code::NOT_FOUND) {
            caller.client.is_authenticated = true;
        }
        if let (None, Some(page)) = (refusal, page)
            && page.has_numbers()
        {
            let flow = self.dispatch_control(caller, &COMMANDS[Id::PageStatus as usize], input);
            caller.client.is_leaving |= ask.closes && matches!(flow, Flow::Block);
            return flow;
        }
        let host = host(&self.settings, caller.client.local);
        let view = |bucket: Option<u16>| ClusterMap {
            host: Some(&host),
            ..self.settings.cluster_map(&self.map, self.id, bucket)
        };
        let sink = &mut caller.sink();
        match (refusal, page) {
            (Some(code), _) => put_refusal(sink, ask, code),
            (None, Some(Page::Map(bucket))) => http::put(sink, ask, Code::OK, &view(Some(bucket)).json()),
            (None, Some(Page::MapStream(bucket))) => {
                // Four newlines end a map.
                http::put_stream(sink, &(view(Some(bucket)).json() + "\n\n\n\n"));
                return if ask.closes { Flow::Leave } else { Flow::Next };
            }
            (None, Some(Page::NodeServices)) => http::put(sink, ask, Code::OK, &view(None).json()),
            (None, Some(Page::Pools)) => http::put(sink, ask, Code::OK, &pools(&self.settings)),
            (None, _) => {
                http::put(sink, ask, Code::OK, &format!(r#"{{"implementationVersion":"{VERSION}"}}"#));
            }
        }
        if ask.closes { Flow::Leave } else { Flow::Next }
    }
}

/// Whether a request has the password, if there is one. The user may be any.
fn is_welcome(settings: &Settings, args: Args<'_>) -> bool {
    let Some(password) = &settings.password else { return true };
    let given = http::credentials(args.flat(AUTHORIZATION));
    given.is_some_and(|(_, given)| is_same(&given, password))
}

fn put_refusal(out: &mut impl Put, ask: Ask, code: Code) {
    let text = match code {
        Code::UNAUTHORIZED => "the password is missing or wrong: send it with any user (Basic)\n",
        Code::NOT_FOUND => "there is no such page; / and /pools/default are some\n",
        Code::NOT_ALLOWED => "only GET is served here\n",
        Code::TOO_LARGE => "a request has 8 KiB at most\n",
        Code::VERSION => "HTTP/1.1 is served here\n",
        _ => "this is no request of HTTP\n",
    };
    out.note_code("HTTP");
    http::put(out, ask, code, text);
}

fn pools(settings: &Settings) -> String {
    let uuid = &settings.run_id;
    format!(
        concat!(
            r#"{{"pools":[{{"name":"default","uri":"/pools/default","streamingUri":"/poolsStreaming/default"}}],"#,
            r#""isAdminCreds":false,"uuid":"{uuid}","implementationVersion":"{version}","componentsVersion":{{}}}}"#
        ),
        uuid = uuid,
        version = VERSION
    )
}

/// Where a client finds nodes: the host that is announced, or the one that it has connected to.
pub(crate) fn host(settings: &Settings, local: Address) -> String {
    escaped(&settings.lane_ends(0, local).0)
}

impl Settings {
    /// The map of a bucket's partitions, or of nodes alone, as a lane says it without a host.
    pub(crate) fn cluster_map<'a>(
        &'a self,
        map: &'a PartitionMap,
        lane: u16,
        bucket: Option<u16>,
    ) -> ClusterMap<'a> {
        ClusterMap {
            map,
            bucket: bucket.map(|number| Bucket { name: &self.namespaces.of(number).name, number }),
            run: &self.run_id,
            epoch: self.map_epoch,
            host: None,
            lane,
            ports: self.couchbase_ports.unwrap_or(Ports::from(0)),
            management_ports: self.management_ports,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::Namespace;

    #[test]
    fn paths() {
        let buckets = ["a", "b"].map(Namespace::new).to_vec();
        let namespaces = Namespaces::new(buckets, vec![Namespace::new("of-records")]);
        for (path, want) in [
            ("/", Some(Page::Root)),
            ("/pools", Some(Page::Pools)),
            ("/pools/default", Some(Page::Pool)),
            ("/pools/default/buckets", Some(Page::Buckets)),
            ("/pools/default/buckets/b", Some(Page::Bucket(1))),
            ("/pools/default/buckets/a", Some(Page::Bucket(0))),
            ("/pools/default/buckets/c", None),
            ("/pools/default/buckets/of-records", None),
            ("/pools/default/b/b", Some(Page::Map(1))),
            ("/pools/default/bs/b", Some(Page::MapStream(1))),
            ("/pools/default/bucketsStreaming/b", Some(Page::MapStream(1))),
            ("/pools/default/bs/c", None),
            ("/nodes/self", Some(Page::Node)),
            ("/nodes", None),
            ("b", None),
            ("", None),
        ] {
            assert_eq!(Page::at(path.as_bytes(), &namespaces), want, "{path}");
        }
        assert_eq!(Page::at(b"/\xff", &namespaces), None);
    }
}
