//! Where clients come in: for each dialect a port that all lanes share, or one for each lane.

use std::fmt;
use std::ops::RangeInclusive;

use lane::{Dialect, Door, Port};

use crate::settings::ServeSettings;

/// A way in that the settings open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entrance {
    /// The setting.
    pub(crate) flag: &'static str,
    pub(crate) door: Door,
    /// The port that all lanes share, or that of lane 0.
    pub(crate) first_port: u16,
}

/// All of them, the shared port of Redis first.
pub(crate) fn entrances(settings: &ServeSettings) -> Vec<Entrance> {
    let redis = (settings.port > 0).then_some(settings.port);
    let entrances = [
        ("--port", Port::Shared, Dialect::Redis, redis),
        ("--lane-ports", Port::Lane, Dialect::Redis, settings.lane_ports.0),
        ("--memcached", Port::Shared, Dialect::Memcached, settings.memcached_port()),
        ("--couchbase", Port::Lane, Dialect::Couchbase, settings.couchbase_port()),
        ("--couchbase-management", Port::Lane, Dialect::Management, settings.management_port()),
        ("--aerospike", Port::Lane, Dialect::Aerospike, settings.aerospike_port()),
    ];
    let open = |(flag, port, dialect, first_port): (_, _, _, Option<u16>)| {
        first_port.map(|first_port| Entrance { flag, door: Door { port, dialect }, first_port })
    };
    entrances.into_iter().filter_map(open).collect()
}

/// Who speaks two dialects at one port is understood by nobody: an error says which are to be moved.
pub(crate) fn check(entrances: &[Entrance], lanes_count: usize) -> Result<(), String> {
    for (index, entrance) in entrances.iter().enumerate() {
        check_first_port(entrance.flag, entrance.first_port, entrance.ports_count(lanes_count))?;
        let ports = entrance.ports(lanes_count);
        for other in &entrances[..index] {
            let others = other.ports(lanes_count);
            if ports.0.start() <= others.0.end() && others.0.start() <= ports.0.end() {
                return Err(format!(
                    "{} {ports} and {} {others} have a port in common: move one of them",
                    entrance.flag, other.flag
                ));
            }
        }
    }
    Ok(())
}

/// Refuses ports that end above the last one there is.
pub(crate) fn check_first_port(flag: &str, first_port: u16, ports_count: usize) -> Result<(), String> {
    if usize::from(first_port) + ports_count - 1 > usize::from(u16::MAX) {
        return Err(format!("{ports_count} ports from {first_port} end above 65535: choose a lower {flag}"));
    }
    Ok(())
}

impl Entrance {
    /// Where a lane listens.
    pub(crate) fn port(&self, lane: u16) -> u16 {
        match self.door.port {
            Port::Shared => self.first_port,
            Port::Lane => self.first_port.saturating_add(lane),
        }
    }

    /// Where all lanes do.
    pub(crate) fn ports(&self, lanes_count: usize) -> Ports {
        let last_lane = u16::try_from(self.ports_count(lanes_count) - 1).unwrap_or(u16::MAX);
        Ports(self.first_port..=self.port(last_lane))
    }

    fn ports_count(&self, lanes_count: usize) -> usize {
        match self.door.port {
            Port::Shared => 1,
            Port::Lane => lanes_count,
        }
    }
}

/// One port, or ports side by side: `11211`, `7000-7003`.
pub(crate) struct Ports(RangeInclusive<u16>);

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.0.start(), self.0.end());
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}
