//! Other machines that load together with this one, or instead of it: `expresslane bench agent` there, a coordinator here.
//!
//! ```text
//! run, search, compare, reproduce ──▶ crew::load ──▶ fleet (coordinator) ──stream──▶ seat ──▶ session ──▶ crew::Prepared    another host
//!                                           │ measure: clocks              │ one coordinator at a time
//!                                           └ gather: seconds are added    └ its own machine, captured
//! ```
//! What is said, when, and by whom is `load::agents`; here are sockets, threads and clocks.

mod fleet;
mod gather;
mod secret;
mod session;
mod settings;
mod stream;
mod task;

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use load::agents::handshake::Secret;
use load::agents::message::{Answer, Busy};

pub(in crate::bench) use fleet::{Agents, Hosts, Roster};
pub(crate) use settings::{AGENT_EXAMPLES, AGENT_LONG, AgentSettings, AgentsSettings};

use super::Trouble;
use crate::clock::Clock;
use session::Host;

/// Connections that are let in before they have proved themselves. Others are closed, and may come again.
const STRANGERS_MAX: usize = 8;

/// Who has the agent, and since when by its clock.
type Seat = Mutex<Option<(SocketAddr, u64)>>;

/// Serves coordinators, one after the other, until it is ended.
pub(super) fn agent(settings: &AgentSettings) -> Result<(), Trouble> {
    let secret = secret::secret(settings.secret_file.as_deref()).map_err(Trouble::usage)?;
    let address = settings.listen;
    if secret.is_none() && !is_here(address.ip()) {
        return Err(Trouble::usage(format!(
            "--listen {address} can be reached from other machines, and whoever reaches an agent can load others with it: give it \
             --secret-file FILE, or {} in its environment",
            secret::VARIABLE
        )));
    }
    let listener = TcpListener::bind(address)
        .and_then(|listener| Ok((listener.local_addr()?, listener)))
        .map_err(|error| Trouble::load(format!("{address}: {error}; choose another --listen")));
    let (address, listener) = listener?;
    let host = Arc::new(Host::new(settings.password()));
    let secret = secret.unwrap_or_else(Secret::none);
    let (seat, strangers) = (Arc::new(Seat::default()), Arc::new(AtomicUsize::new(0)));
    super::say(&format!("expresslane agent listens on {address}\n"));
    for stream in listener.incoming() {
        // One that went away before it was taken in.
        let Ok(stream) = stream else { continue };
        if strangers.fetch_add(1, Ordering::Relaxed) >= STRANGERS_MAX {
            strangers.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (secret, seat, host) = (secret.clone(), Arc::clone(&seat), Arc::clone(&host));
        let strangers_left = Arc::clone(&strangers);
        let serve = move || serve(&stream, secret, &seat, &host, &strangers_left);
        if std::thread::Builder::new().name("coordinator".to_owned()).spawn(serve).is_err() {
            strangers.fetch_sub(1, Ordering::Relaxed);
            note("a thread can't be started: a coordinator was sent away");
        }
    }
    Ok(())
}

/// Only programs of this machine reach it.
fn is_here(address: IpAddr) -> bool {
    address.is_loopback()
}

/// One connection, from its first byte to its last. Whatever goes wrong is its own end and nobody else's.
fn serve(stream: &TcpStream, secret: Secret, seat: &Seat, host: &Arc<Host>, strangers: &AtomicUsize) {
    let peer = stream.peer_addr();
    let known = peer.and_then(|peer| Ok((peer, stream.try_clone()?)));
    let known = known.map_err(|error| error.to_string()).and_then(|(peer, stream)| {
        stream::answer(stream, secret)
            .map(|ends| (peer, ends))
            .map_err(|problem| format!("{peer}: {problem}"))
    });
    strangers.fetch_sub(1, Ordering::Relaxed);
    let (peer, (mut out, incoming)) = match known {
        Ok(known) => known,
        Err(problem) => return note(&problem),
    };
    if let Some(busy) = take(seat, peer, host.clock()) {
        // Whoever goes before he is told need not know.
        let _ = out.send(&Answer::Busy(busy));
        return;
    }
    note(&format!("{peer}: begins"));
    let end = match out.send(&Answer::Welcome) {
        Ok(()) => session::session(out, incoming, host),
        Err(problem) => problem,
    };
    *seat.lock().unwrap_or_else(PoisonError::into_inner) = None;
    note(&format!("{peer}: {end}"));
}

/// Takes the seat, unless somebody has it.
fn take(seat: &Seat, peer: SocketAddr, clock: Clock) -> Option<Busy> {
    let mut seat = seat.lock().unwrap_or_else(PoisonError::into_inner);
    let now_ns = clock.mono_ns();
    if let Some((with, since_ns)) = *seat {
        let since_s = now_ns.saturating_sub(since_ns) / load::record::SECOND_NS;
        return Some(Busy { with: with.to_string(), since_s });
    }
    *seat = Some((peer, now_ns));
    None
}

/// On the agent's standard error. Whoever read it may have gone.
fn note(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "expresslane agent: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_coordinator_has_the_agent_and_others_are_told_who() {
        let (seat, clock) = (Seat::default(), Clock::new());
        let [one, two] = ["10.0.0.1:5", "10.0.0.2:6"].map(|text| text.parse().unwrap());
        assert_eq!(take(&seat, one, clock), None);
        let busy = take(&seat, two, clock).unwrap();
        assert_eq!((busy.with.as_str(), busy.since_s), ("10.0.0.1:5", 0));
        *seat.lock().unwrap() = None;
        assert_eq!(take(&seat, two, clock), None);
    }
}
