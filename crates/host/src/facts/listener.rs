//! Where a process listens.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::plan::Placed;
use crate::spec::Protocol;

/// A socket that takes what clients send: `tcp 10.0.0.1:6379`, `udp [::]:11211`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Listener {
    /// What it takes.
    pub protocol: Protocol,
    /// At which address of its namespace. Unspecified: at any.
    pub address: IpAddr,
    /// At which port.
    pub port: u16,
}

impl Listener {
    /// Whether it can be a lane's, to which packets of this port belong.
    #[must_use]
    pub fn takes(&self, protocol: Protocol, port: u16) -> bool {
        (self.protocol, self.port) == (protocol, port)
    }

    /// Whether a lane's packets may be for it: they come to its port, at an address at which it listens. What listens at loopback
    /// gets none of a card's.
    #[must_use]
    pub fn is_for(&self, lane: &Placed) -> bool {
        let is_there = self.address.is_unspecified()
            || lane.addresses.contains(&self.address)
            || (lane.addresses.is_empty() && !(self.address.is_loopback() && lane.nic.is_some()));
        is_there && lane.ports.iter().any(|port| self.takes(lane.protocol, *port))
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        write!(f, "{protocol} {}", SocketAddr::new(self.address, self.port))
    }
}

impl FromStr for Listener {
    type Err = String;

    fn from_str(text: &str) -> Result<Listener, String> {
        let parse = || {
            let (protocol, at) = text.split_once(' ')?;
            let protocol = match protocol {
                "tcp" => Protocol::Tcp,
                "udp" => Protocol::Udp,
                _ => return None,
            };
            let at: SocketAddr = at.parse().ok()?;
            Some(Listener { protocol, address: at.ip(), port: at.port() })
        };
        parse().ok_or_else(|| {
            format!("'{text}' does not say where a process listens, as `tcp 10.0.0.1:6379` does")
        })
    }
}

impl From<Listener> for String {
    fn from(listener: Listener) -> String {
        listener.to_string()
    }
}

impl TryFrom<String> for Listener {
    type Error = String;

    fn try_from(text: String) -> Result<Listener, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Mode;

    fn listener(text: &str) -> Listener {
        let listener: Listener = text.parse().unwrap();
        assert_eq!(listener.to_string(), text);
        listener
    }

    #[test]
    fn a_listener_is_a_lanes_by_protocol_port_and_address() {
        let any = Placed::made_up("redis", Mode::Spread, "4", "2");
        let at = Placed {
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            ..any.clone()
        };
        let without_card = Placed { nic: None, ..any.clone() };
        let check = |text: &str, want: [bool; 3]| {
            let listener = listener(text);
            let lanes = [&any, &at, &without_card];
            assert_eq!(
                lanes.map(|lane| listener.is_for(lane)),
                want,
                "{text}: any address, two of them, no card"
            );
        };
        check("tcp 10.0.0.1:6379", [true, true, true]);
        check("tcp [fd00::1]:6379", [true, true, true]);
        check("tcp 0.0.0.0:6379", [true, true, true]);
        check("tcp [::]:6379", [true, true, true]);
        check("tcp 10.0.0.2:6379", [true, false, true]);
        check("tcp 127.0.0.1:6379", [false, false, true]);
        check("tcp [::1]:6379", [false, false, true]);
        check("udp 10.0.0.1:6379", [false, false, false]);
        check("tcp 10.0.0.1:6380", [false, false, false]);
    }

    #[test]
    fn what_is_no_listener_is_refused() {
        for text in ["", "tcp", "10.0.0.1:6379", "sctp 10.0.0.1:6379", "tcp 10.0.0.1", "tcp fd00::1:6379:1"] {
            assert!(text.parse::<Listener>().is_err(), "{text}");
        }
    }
}
