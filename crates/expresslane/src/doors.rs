//! Where clients come in: for each dialect a port that all lanes share, or one for each lane.

use std::fmt;

use lane::{Dialect, Door, Port};
use wire::route::Ports;

use crate::settings::ServeSettings;

/// A way in that the settings open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entrance {
    /// The setting.
    pub(crate) flag: &'static str,
    pub(crate) door: Door,
    /// The lanes' ports; the first is the one that all lanes share, where they do.
    pub(crate) ports: Ports,
}

/// All of them, the shared port of Redis first.
pub(crate) fn entrances(settings: &ServeSettings) -> Vec<Entrance> {
    let redis = (settings.port > 0).then(|| Ports::from(settings.port));
    let entrances = [
        ("--port", Port::Shared, Dialect::Redis, redis),
        ("--lane-ports", Port::Lane, Dialect::Redis, settings.lane_ports.0),
        ("--memcached", Port::Shared, Dialect::Memcached, settings.memcached_ports()),
        ("--couchbase", Port::Lane, Dialect::Couchbase, settings.couchbase_ports()),
        ("--couchbase-management", Port::Lane, Dialect::Management, settings.management_ports()),
        ("--aerospike", Port::Lane, Dialect::Aerospike, settings.aerospike_ports()),
    ];
    let open = |(flag, port, dialect, ports): (_, _, _, Option<Ports>)| {
        ports.map(|ports| Entrance { flag, door: Door { port, dialect }, ports })
    };
    entrances.into_iter().filter_map(open).collect()
}

/// Who speaks two dialects at one port is understood by nobody: an error says which are to be moved.
pub(crate) fn check(entrances: &[Entrance], lanes_count: usize) -> Result<(), String> {
    for (index, entrance) in entrances.iter().enumerate() {
        let (flag, ports) = (entrance.flag, entrance.ports);
        if entrance.door.port == Port::Shared && ports.step > 1 {
            return Err(format!("{flag} is one port for all lanes: leave out the step behind it"));
        }
        check_end(flag, ports, entrance.ports_count(lanes_count))?;
        let row = entrance.row(lanes_count);
        for other in &entrances[..index] {
            let others = other.row(lanes_count);
            if row.meets(&others) {
                return Err(format!(
                    "{flag} {row} and {} {others} have a port in common: move one of them",
                    other.flag
                ));
            }
        }
    }
    Ok(())
}

/// Refuses ports that end above the last one there is.
pub(crate) fn check_end(flag: &str, ports: Ports, ports_count: usize) -> Result<(), String> {
    let Ports { first, step } = ports;
    if usize::from(first) + (ports_count - 1) * usize::from(step) > usize::from(u16::MAX) {
        let steps = if step > 1 { format!(" in steps of {step}") } else { String::new() };
        return Err(format!(
            "{ports_count} ports from {first}{steps} end above 65535: choose a lower {flag}"
        ));
    }
    Ok(())
}

impl Entrance {
    /// Where a lane listens.
    pub(crate) fn port(&self, lane: u16) -> u16 {
        match self.door.port {
            Port::Shared => self.ports.first,
            Port::Lane => self.ports.of(lane),
        }
    }

    /// Where all lanes do.
    pub(crate) fn row(&self, lanes_count: usize) -> Row {
        let last_lane = u16::try_from(self.ports_count(lanes_count) - 1).unwrap_or(u16::MAX);
        Row { first: self.ports.first, last: self.port(last_lane), step: self.ports.step }
    }

    fn ports_count(&self, lanes_count: usize) -> usize {
        match self.door.port {
            Port::Shared => 1,
            Port::Lane => lanes_count,
        }
    }
}

/// One port, or ports in even steps: `11211`, `7000-7003`, `7000-7030 in steps of 10`.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) step: u16,
}

impl Row {
    fn meets(&self, other: &Row) -> bool {
        let is_of = |port: u16, row: &Row| {
            (row.first..=row.last).contains(&port) && (port - row.first).is_multiple_of(row.step)
        };
        (self.first..=self.last).step_by(self.step.into()).any(|port| is_of(port, other))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { first, last, step } = self;
        match step {
            _ if first == last => write!(f, "{first}"),
            1 => write!(f, "{first}-{last}"),
            _ => write!(f, "{first}-{last} in steps of {step}"),
        }
    }
}
