//! A link with a speed, inside one machine: a pair of virtual interfaces between this network namespace and one of its own.
//!
//! ```text
//!  load ── near (this namespace) ══════ far (namespace expresslane-PID) ── server
//!          198.18.x.y/30  tbf ▶            ◀ tbf  198.18.x.y+1/30
//! ```
//!
//! Both ends send through a token bucket (tc-tbf(8)), so either direction has the whole rate, as on a wire. Segments stay as large
//! as the kernel makes them: the bucket cuts those that are larger than itself, and counts the headers of each packet that a card
//! would send. Without such offloads the kernel alone sends a sixth of a gigabit.
//!
//! A bucket holds [`BUCKET_MS`] of the rate. A smaller one loses tokens where the kernel's timer wakes late, and the rate with them;
//! a larger one lets more through at once behind a pause. What it does not have is the time that one message spends on a wire by
//! its own length (8 µs for 1,000 bytes at 1 Gbit/s): what finds the bucket full passes at once.
//!
//! Namespace and interfaces bear this process' number. They go when the [`Cable`] goes, and when the program panics; what a program
//! that was killed has left is found by its name and removed by the next.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::machine;

/// In front of the process' number, in a namespace's name and in that of the near interface.
const NAMESPACE: &str = "expresslane-";
const NEAR: &str = "xl-";
/// The far interface, alone in its namespace.
const FAR: &str = "far";
/// Networks of four addresses in 198.18.0.0/15, which RFC 2544 keeps for benchmarks.
const NETWORKS_COUNT: u32 = 1 << 15;
/// What a bucket holds, in milliseconds of its rate.
const BUCKET_MS: u64 = 2;
/// What may wait before a bucket, in milliseconds of its rate; more is dropped, as by a switch.
const QUEUE_MS: u64 = 8;
/// Where `ip` and `tc` are when a user's PATH does not name it.
const FOLDERS: &str = ":/usr/sbin:/sbin";

/// One that is laid. It is taken away when this goes.
#[derive(Debug)]
pub(super) struct Cable {
    namespace: String,
    near: String,
    near_address: String,
    /// Where a server in the namespace listens.
    pub(super) far_address: String,
}

/// What there is to take away when the program panics.
static LAID: Mutex<Option<String>> = Mutex::new(None);

impl Cable {
    /// Lays it.
    ///
    /// # Errors
    /// Why not, and what to do, in a sentence. Nothing of it stays.
    pub(super) fn lay() -> Result<Cable, String> {
        let own = std::process::id();
        let (near_address, far_address) = addresses(own);
        let cable = Cable {
            namespace: format!("{NAMESPACE}{own}"),
            near: format!("{NEAR}{own}"),
            near_address,
            far_address,
        };
        remove_at_panic();
        *LAID.lock().expect("nobody panics with it") = Some(cable.namespace.clone());
        let Cable { namespace, near, near_address, far_address } = &cable;
        ip(&["netns", "add", namespace])?;
        ip(&["link", "add", near, "type", "veth", "peer", "name", FAR, "netns", namespace])?;
        ip(&["address", "add", &format!("{near_address}/30"), "dev", near])?;
        ip(&["link", "set", near, "up"])?;
        ip(&["-n", namespace, "address", "add", &format!("{far_address}/30"), "dev", FAR])?;
        ip(&["-n", namespace, "link", "set", FAR, "up"])?;
        ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        Ok(cable)
    }

    /// So many Gbit/s in either direction from now on; none: as fast as the kernel is.
    ///
    /// # Errors
    /// What `tc` says.
    pub(super) fn shape(&self, gigabits: Option<u32>) -> Result<(), String> {
        for (place, device) in self.ends() {
            let Some(gigabits) = gigabits else {
                // An end that has no bucket refuses to lose it.
                let _ = tc(&[&place[..], &["qdisc", "del", "dev", device, "root"]].concat());
                continue;
            };
            let (bucket, queue) = sizes(gigabits);
            let rate = format!("{gigabits}gbit");
            let bucket = ["tbf", "rate", &rate, "burst", &bucket, "limit", &queue];
            tc(&[&place[..], &["qdisc", "replace", "dev", device, "root"], &bucket].concat())?;
        }
        Ok(())
    }

    /// What stands before a program's words so that it runs at the far end. It keeps its process' number.
    pub(super) fn far_words(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.namespace].map(str::to_owned).into()
    }

    /// Words of `tc` that lead to each end, and its interface.
    fn ends(&self) -> [(Vec<&str>, &str); 2] {
        [(Vec::new(), &self.near), (vec!["-n", &self.namespace], FAR)]
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        remove(&self.namespace);
        *LAID.lock().expect("nobody panics with it") = None;
    }
}

/// Whether one can be laid here: one is, shaped, and taken away again.
///
/// # Errors
/// Why not, and what to do.
pub(super) fn may_be_laid() -> Result<(), String> {
    let cable = Cable::lay()?;
    cable.shape(Some(1))
}

/// Takes away what programs that were killed have left; its names. Servers that still run at its far end are ended.
pub(super) fn remove_leftovers() -> Vec<String> {
    let names = ip(&["netns", "list"]).unwrap_or_default();
    let left: Vec<String> = leftovers(&names, &is_running);
    for namespace in &left {
        for pid in ip(&["netns", "pids", namespace]).unwrap_or_default().split_whitespace() {
            if let Ok(pid) = pid.parse() {
                machine::terminate(pid);
            }
        }
        remove(namespace);
    }
    left
}

/// Of `ip netns list`, which has a name and perhaps more on each line: ours, of processes that are gone.
fn leftovers(names: &str, is_running: &dyn Fn(u32) -> bool) -> Vec<String> {
    let first = names.lines().filter_map(|line| line.split_whitespace().next());
    let is_left = |name: &&str| {
        let pid = name.strip_prefix(NAMESPACE).and_then(|rest| rest.parse().ok());
        pid.is_some_and(|pid| !is_running(pid))
    };
    first.filter(is_left).map(str::to_owned).collect()
}

/// Whether a program of ours has this number.
fn is_running(pid: u32) -> bool {
    fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("comm"))
        .is_ok_and(|name| name.starts_with("expresslane"))
}

/// With the namespace its interface goes, and with that the near one; by name, too, for a namespace lives as long as its last process.
fn remove(namespace: &str) {
    let near = namespace.replacen(NAMESPACE, NEAR, 1);
    // What is not there can't be removed.
    let _ = ip(&["link", "del", &near]);
    let _ = ip(&["netns", "del", namespace]);
}

/// A release aborts at a panic, and drops nothing.
fn remove_at_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let laid = LAID.try_lock().ok().and_then(|mut laid| laid.take());
            if let Some(namespace) = laid {
                remove(&namespace);
            }
            before(info);
        }));
    });
}

/// The near and the far one of a process' own network.
fn addresses(pid: u32) -> (String, String) {
    let first = (198 << 24 | 18 << 16) + pid % NETWORKS_COUNT * 4;
    let shown = |address: u32| std::net::Ipv4Addr::from(address).to_string();
    (shown(first + 1), shown(first + 2))
}

/// Bytes of a bucket and of the queue before it, as `tc` takes them.
fn sizes(gigabits: u32) -> (String, String) {
    let millisecond = u64::from(gigabits) * 1_000_000_000 / 8 / 1_000;
    ((millisecond * BUCKET_MS).to_string(), (millisecond * QUEUE_MS).to_string())
}

fn ip(words: &[&str]) -> Result<String, String> {
    run("ip", words)
}

fn tc(words: &[&str]) -> Result<String, String> {
    run("tc", words)
}

/// What it prints.
fn run(program: &str, words: &[&str]) -> Result<String, String> {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(FOLDERS);
    let mut command = Command::new(program);
    command.args(words).env("PATH", path).env("LC_ALL", "C").stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("`{program}` is not to be found: install iproute2"));
        }
        Err(error) => return Err(format!("`{program}`: {error}")),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said =
        said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned();
    let hint = if ["permitted", "denied"].iter().any(|word| said.contains(word)) {
        ": run it as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN"
    } else {
        ""
    };
    Err(format!("`{program} {}`: {said}{hint}", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_dead_programs_of_ours_left_is_found() {
        let names = "other\nexpresslane-12 (id: 3)\nexpresslane-7\nexpresslane-x\nmy-expresslane-9\n";
        assert_eq!(leftovers(names, &|pid| pid == 7), ["expresslane-12"]);
        assert_eq!(leftovers(names, &|_| true), [""; 0]);
    }

    #[test]
    fn each_process_has_a_network_of_its_own() {
        assert_eq!(addresses(0), ("198.18.0.1".to_owned(), "198.18.0.2".to_owned()));
        assert_eq!(addresses(32_767), ("198.19.255.253".to_owned(), "198.19.255.254".to_owned()));
        assert_ne!(addresses(7), addresses(8));
    }

    /// The largest segment of the kernel, 64 KiB, fits into every bucket.
    #[test]
    fn buckets_hold_two_milliseconds() {
        assert_eq!(sizes(1), ("250000".to_owned(), "1000000".to_owned()));
        assert_eq!(sizes(10).0, "2500000");
    }

    /// Where it may: both ends have the rate, lose it, and nothing stays behind.
    #[test]
    fn a_cable_is_laid_shaped_and_taken_away() {
        let cable = match Cable::lay() {
            Ok(cable) => cable,
            Err(why) => {
                assert!(why.contains("`ip"), "{why}");
                eprintln!("skipped: {why}");
                return;
            }
        };
        let shown = |cable: &Cable| {
            cable
                .ends()
                .map(|(place, device)| tc(&[&place[..], &["qdisc", "show", "dev", device]].concat()).unwrap())
        };
        for (gigabits, want) in [(Some(1), "rate 1Gbit"), (Some(10), "rate 10Gbit"), (None, "noqueue")] {
            cable.shape(gigabits).unwrap();
            for end in shown(&cable) {
                assert!(end.contains(want), "{want}: {end}");
            }
        }
        // Bytes on their way are counted by the bucket they pass.
        cable.shape(Some(1)).unwrap();
        let listener = std::net::UdpSocket::bind((cable.near_address.as_str(), 0)).unwrap();
        listener.send_to(&[0; 1_000], (cable.far_address.as_str(), 9)).unwrap();
        let sent = tc(&["-s", "qdisc", "show", "dev", &cable.near]).unwrap();
        assert!(!sent.contains("Sent 0 bytes"), "{sent}");
        let (namespace, near) = (cable.namespace.clone(), cable.near.clone());
        drop(cable);
        assert!(!ip(&["netns", "list"]).unwrap().contains(&namespace));
        assert!(ip(&["link", "show", &near]).is_err());
    }
}
