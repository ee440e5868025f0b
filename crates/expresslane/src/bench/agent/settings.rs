//! What an agent, and a coordinator about its agents, can be told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use load::connect::host_and_port;

/// Where agents listen unless told otherwise.
const PORT_DEFAULT: u16 = 7411;
/// Of `--listen`: this machine alone.
const LISTEN_DEFAULT: &str = "127.0.0.1:7411";

pub(crate) const AGENT_LONG: &str = "Load servers on behalf of a coordinator on another machine.

An agent waits for `bench run`, `search`, `compare` or `reproduce` with --agents. It makes its part of the load from its own machine and \
sends every second of it back, where histograms are added: percentiles are those of all requests, never means. It serves one \
coordinator at a time, tells others who that is, and ends its load when the coordinator is gone. Started beside the server it \
can also just say what machine that is (--server-agent).

Both sides prove that they know one secret, and each message is authenticated. Nothing is encrypted. Whoever knows the secret \
can load any server that the agent reaches.";

pub(crate) const AGENT_EXAMPLES: &str = "Examples:
  (umask 077; openssl rand -hex 32 >secret)
      once; the same file on all machines
  expresslane bench agent --listen 10.0.0.7:7411 --secret-file secret
      on each machine that is to load
  expresslane bench run 10.0.0.5:7000 --agents 10.0.0.7,10.0.0.8 --secret-file secret --rate 200000 --connections 200
      here: each of the two has 100 connections and half of the rate

Exit codes: 1 it can't listen there, 2 a flag is wrong; otherwise it runs until it is ended.";

// All settings of `expresslane bench agent`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgentSettings {
    /// Where coordinators reach it; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = LISTEN_DEFAULT, value_parser = listen)]
    pub(super) listen: SocketAddr,
    /// The secret, in a file that only its owner can read; without it EXPRESSLANE_AGENT_SECRET of the environment
    #[arg(long, value_name = "FILE")]
    pub(super) secret_file: Option<PathBuf>,
    /// What it logs in with at servers that want a password. Other users of the machine see flags: prefer the environment
    #[arg(short = 'a', long, value_name = "PASSWORD", env = "REDISCLI_AUTH", hide_env_values = true)]
    password: Option<String>,
}

impl AgentSettings {
    pub(super) fn password(&self) -> Option<String> {
        self.password.clone().filter(|password| !password.is_empty())
    }
}

// Which agents a coordinator has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct AgentsSettings {
    /// Load from these machines instead of this one, each with `expresslane bench agent`; connections, rate and requests are
    /// over all of them, threads and cpus each one's own
    #[arg(long, help_heading = "Agents", value_name = "HOST[:PORT],...", value_delimiter = ',')]
    pub(super) agents: Vec<AgentAddress>,
    /// An agent beside the server, which only says what machine that is
    #[arg(long, help_heading = "Agents", value_name = "HOST[:PORT]")]
    pub(super) server_agent: Option<AgentAddress>,
    /// Their secret, in a file that only its owner can read; without it EXPRESSLANE_AGENT_SECRET of the environment
    #[arg(long, help_heading = "Agents", value_name = "FILE")]
    pub(super) secret_file: Option<PathBuf>,
}

/// Where an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentAddress {
    host: String,
    port: u16,
}

impl AgentAddress {
    pub(super) fn host_and_port(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// Does it say which interface of this machine leads to it? Link-local addresses of IPv6 do.
    pub(super) fn has_zone(&self) -> bool {
        self.host.contains('%')
    }
}

impl std::fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let AgentAddress { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl FromStr for AgentAddress {
    type Err = String;

    /// `HOST`, `HOST:PORT`, `IPV6` or `[IPV6]:PORT`.
    fn from_str(text: &str) -> Result<AgentAddress, String> {
        let wrong = || format!("'{text}' is no agent's address: HOST, HOST:PORT or [IPV6]:PORT");
        let (host, port) = host_and_port(text).ok_or_else(wrong)?;
        if host.is_empty() || host.contains('/') {
            return Err(wrong());
        }
        Ok(AgentAddress { host: host.to_owned(), port: port.unwrap_or(PORT_DEFAULT) })
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "it is an address of this machine and a port, as in 10.0.0.7:7411 or [fd00::7]:7411; the zone of a link-local address is its \
         interface's number, as in [fe80::7%2]:7411"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, want) in [
            ("h2", "h2:7411"),
            ("h2:9", "h2:9"),
            ("10.0.0.7:7412", "10.0.0.7:7412"),
            ("::1", "[::1]:7411"),
            ("[::1]", "[::1]:7411"),
            ("[::1]:5", "[::1]:5"),
            ("fe80::7%eth0", "[fe80::7%eth0]:7411"),
            ("[fe80::7%2]:5", "[fe80::7%2]:5"),
        ] {
            assert_eq!(text.parse::<AgentAddress>().unwrap().to_string(), want);
        }
        for text in ["", ":7411", "h:", "h:0", "h:x", "h:70000", "[::1", "[::1]5", "unix:/path"] {
            assert!(text.parse::<AgentAddress>().is_err(), "{text}");
        }
        assert_eq!(listen(LISTEN_DEFAULT).unwrap().port(), PORT_DEFAULT);
        assert_eq!(listen("[fe80::7%2]:9").unwrap().to_string(), "[fe80::7%2]:9");
        for text in ["h2", "h2:9", "::1", "[::1]", "10.0.0.7", "[fe80::7%eth0]:9"] {
            assert!(listen(text).unwrap_err().contains("interface's number"), "{text}");
        }
    }
}
