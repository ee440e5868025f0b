//! What `expresslane bench reproduce` can be told.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use load::experiments::Id;

use super::OutputSettings;
use crate::bench::agent::AgentsSettings;
use crate::settings::whole;

/// Ports that set-ups take from the first on: one for each lane, or instance.
const PORTS_COUNT: u16 = 512;

pub(crate) const LONG: &str = "Repeat the published experiments, and print them beside what was published.

E1 is the predictability of Redis with ADQ over 10 to 100 connections, E2 the tail of Aerospike with ADQ, E3 Couchbase's latency by size of values, E4 its throughput in batches, E5 the recipe of ten ingredients. Mix, keys, sizes and levels are the published ones; instances, client processes and time shrink, each shown as published -> here. Two set-ups run in pairs, in random order, with a fresh server each: a peer (redis-server) and this server. What differs from the published protocol or topology is named, and then nothing is called reproduced.";

pub(crate) const EXAMPLES: &str = "Examples:
  expresslane bench reproduce all --quick --result quick.jsonl
      all five in twenty minutes; too few pairs to call a difference
  expresslane bench reproduce E1
      the full form: ten pairs of ten levels of half a minute, nearly two hours
  expresslane bench reproduce E1 --resume cut.jsonl --result whole.jsonl
      goes on where it was stopped: pairs that ran whole are kept
  expresslane bench reproduce E5 --price 5000 --peer valkey-server
      the recipe, per core and per dollar, with another peer
  expresslane bench reproduce E3 --peer expresslane
      this server against itself: what of a difference is noise
  expresslane bench reproduce E2 --agents 10.0.0.7,10.0.0.8 --secret-file secret --bind 10.0.0.5
      servers here, the load from two other machines; `bench agent --help` says how they are started

Exit codes: 0 done, and something can be told; 1 it can't be run, or a server died (one sentence says what to do); 2 a flag is wrong; \
3 done, and nothing can be told (the quick form never can); 130 stopped by Ctrl-C, with what there is until then.";

// All settings of `expresslane bench reproduce`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReproduceSettings {
    /// E1, E2, E3, E4, E5 or all
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiments: Experiments,
    /// Short levels and few pairs, marked on every line
    #[arg(long)]
    pub(crate) quick: bool,
    /// The server that ours stands beside: one with Redis' flags, or expresslane for itself
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    pub(crate) peer: String,
    /// Pairs of runs that are to count; without it 10; of the quick form 3, in E3 and E4 2
    #[arg(long, value_name = "COUNT", value_parser = whole::<u32>(1, 1000))]
    pub(crate) pairs: Option<u32>,
    /// Server instances of E1, each with a cpu as far as there are; without it half of the cpus, which are E5's lanes, too
    #[arg(long, value_name = "COUNT", value_parser = whole::<u32>(1, 256))]
    pub(crate) instances: Option<u32>,
    /// First of the ports of the servers, which must be free
    #[arg(long, value_name = "PORT", default_value_t = 16_390, value_parser = whole::<u16>(1, u16::MAX - PORTS_COUNT))]
    pub(crate) port: u16,
    /// The links of E3 and E4, which need root: made where they may be, or left out
    #[arg(long, value_enum, default_value_t = Links::Auto)]
    pub(crate) links: Links,
    /// What the machine costs, for requests a second per dollar
    #[arg(long, value_name = "DOLLARS", value_parser = price)]
    pub(crate) price: Option<f64>,
    /// Take up a result that was cut: its whole pairs are copied into --result, and only the others run. The same flags,
    /// program and machine
    #[arg(long, value_name = "FILE", requires = "result")]
    pub(crate) resume: Option<PathBuf>,
    /// How long a level takes, to try things out
    #[arg(long, hide = true, value_parser = humantime::parse_duration)]
    pub(crate) level_duration: Option<Duration>,
    /// The levels that are run, to try things out
    #[arg(long, hide = true, value_delimiter = ',')]
    pub(crate) levels: Option<Vec<u32>>,
    /// Where the servers listen, which run on this machine: its address as the agents reach it. Nobody is asked for a password there
    #[arg(long, help_heading = "Agents", value_name = "ADDRESS", requires = "agents", value_parser = bind)]
    pub(crate) bind: Option<IpAddr>,
    #[command(flatten)]
    pub(crate) agents: AgentsSettings,
    #[command(flatten)]
    pub(crate) output: OutputSettings,
}

/// Whether links are made and shaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Links {
    /// Network namespaces with a virtual link between them, removed again at the end
    Auto,
    /// Everything over loopback
    Off,
}

/// One, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Experiments(pub(crate) Vec<Id>);

impl std::str::FromStr for Experiments {
    type Err = String;

    fn from_str(text: &str) -> Result<Experiments, String> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Experiments(Id::ALL.to_vec()));
        }
        text.parse().map(|id| Experiments(vec![id]))
    }
}

/// An address of this machine that means the same on others.
fn bind(text: &str) -> Result<IpAddr, String> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let (address, zone) =
        inner.split_once('%').map_or((inner, None), |(address, zone)| (address, Some(zone)));
    match address.parse::<IpAddr>() {
        Err(_) => Err("it is an address, as in 10.0.0.5 or fd00::5".to_owned()),
        Ok(IpAddr::V6(address)) if zone.is_some() || address.is_unicast_link_local() => {
            Err("a link-local address needs its interface, and each agent has others: name one that means the same everywhere, \
                 as in fd00::5"
                .to_owned())
        }
        Ok(_) if zone.is_some() => Err("an address of IPv4 has no zone".to_owned()),
        Ok(address) => Ok(address),
    }
}

fn price(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(price) if price > 0.0 && price.is_finite() => Ok(price),
        _ => Err("it is a number of dollars above zero".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_bound_where_every_agent_finds_them() {
        for (text, want) in [("10.0.0.5", "10.0.0.5"), ("fd00::5", "fd00::5"), ("[::1]", "::1")] {
            assert_eq!(bind(text).unwrap().to_string(), want);
        }
        for (text, want) in [
            ("fe80::5", "each agent has others"),
            ("fe80::5%eth0", "each agent has others"),
            ("[fe80::5%2]", "each agent has others"),
            ("10.0.0.5%eth0", "no zone"),
            ("h5", "as in 10.0.0.5"),
            ("[::1]:7000", "as in 10.0.0.5"),
            ("[::1", "as in 10.0.0.5"),
        ] {
            assert!(bind(text).unwrap_err().contains(want), "{text}");
        }
    }
}
