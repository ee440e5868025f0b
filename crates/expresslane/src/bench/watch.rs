//! What the machine does beside a load: its counters once a second, and the server's CPU time.

use std::collections::BTreeMap;
use std::path::Path;

use load::connect::{Connected, Endpoint, Login};
use load::environment::counters::{Counters, Sampler};
use load::environment::quiet::{Noise, Quiet};

use super::Trouble;
use crate::clock::Clock;

/// Seconds that are watched before a load, to see whether the machine is quiet.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// The counters of a run.
pub(super) struct Watch {
    clock: Clock,
    sampler: Sampler,
    last: Counters,
    server: Option<(Sampler, Counters)>,
}

impl Watch {
    /// From now on, with the server's process if it is on this machine.
    pub(super) fn begin(clock: Clock, server_pid: Option<u32>) -> Watch {
        Watch::among(clock, server_pid, &[server_pid])
    }

    /// Of one of several servers that are loaded at once: what all of them do is not somebody else's.
    pub(super) fn among(clock: Clock, server_pid: Option<u32>, all_pids: &[Option<u32>]) -> Watch {
        let root = Path::new("/");
        let pids = all_pids.iter().copied().flatten().chain([std::process::id()]).collect();
        let sampler = Sampler::new(root, Vec::new(), pids);
        let last = sampler.sample(clock.mono_ns());
        let server = server_pid.map(|pid| {
            let sampler = Sampler::of_process(root, pid);
            let first = sampler.sample(clock.mono_ns());
            (sampler, first)
        });
        Watch { clock, sampler, last, server }
    }

    /// The rates since this was last asked.
    pub(super) fn second(&mut self) -> BTreeMap<String, f64> {
        let now = self.sampler.sample(self.clock.mono_ns());
        let rates = now.since(&self.last);
        self.last = now;
        let named = rates.iter().flat_map(|rates| rates.named());
        named.filter_map(|(name, rate)| Some((name.to_owned(), rate?))).collect()
    }

    /// CPU time of the server since the beginning, in nanoseconds.
    pub(super) fn server_cpu_ns(&self) -> Option<u64> {
        let (sampler, first) = self.server.as_ref()?;
        let rates = sampler.sample(self.clock.mono_ns()).since(first)?;
        let seconds = rates.process_ran? * rates.seconds;
        u64::try_from(std::time::Duration::try_from_secs_f64(seconds).ok()?.as_nanos()).ok()
    }
}

/// Looks for a second whether something else runs.
pub(super) fn quiet(clock: Clock) -> Quiet {
    let root = Path::new("/");
    let sampler = Sampler::new(root, Vec::new(), vec![std::process::id()]);
    let before = sampler.sample(clock.mono_ns());
    #[expect(clippy::disallowed_methods, reason = "nothing else is to be done meanwhile")]
    std::thread::sleep(LOOK);
    Quiet::look(root, &before, &sampler.sample(clock.mono_ns()))
}

/// Whether a load would say more of others than of the server.
pub(super) fn is_noisy(quiet: &Quiet) -> bool {
    quiet.noise == Noise::Noisy
}

/// That it is noisy, before a load that begins all the same.
pub(super) fn unquiet(quiet: &Quiet) -> String {
    format!("loading although this machine is not quiet: {}", quiet.complaints.join("; "))
}

/// That it is too noisy for a load that is to prove something.
pub(super) fn too_noisy(quiet: &Quiet) -> Trouble {
    Trouble::load(format!("{}; or pass --noisy", quiet.complaints.join("; ")))
}

/// The process of the server that listens at a loopback address or a path, if it tells. It must be there: in another
/// namespace the number is somebody else's, and then the port it says is not the one asked.
pub(super) fn server_pid(endpoint: &Endpoint, login: &Login) -> Option<u32> {
    let is_here = match endpoint {
        Endpoint::Tcp(host, _) => matches!(host.as_str(), "localhost" | "::1") || host.starts_with("127."),
        Endpoint::Unix(_) => true,
    };
    if !is_here || !login.dialect.is_redis() {
        return None;
    }
    let text = Connected::new(endpoint, login).ok()?.info_of_server().ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("process_id:"))?.trim().parse().ok()?;
    Path::new(&format!("/proc/{pid}/task")).exists().then_some(pid)
}

/// What a server says of its version. None: it does not say.
pub(super) fn server_version(endpoint: &Endpoint, login: &Login) -> Option<String> {
    Connected::new(endpoint, login).and_then(|mut connected| connected.version(login)).ok().flatten()
}
