//! What tests over virtual cards share: two network namespaces with a cable between them.
//!
//! A test begins with [`Pair::new`] and is over where it gives none: then this user can't make namespaces, which is said.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Queues that cards of a pair receive by.
pub(crate) const QUEUE_COUNT: u32 = 4;

static PAIRS: AtomicU32 = AtomicU32::new(0);

/// Two namespaces; gone when dropped, however the test ends.
pub(crate) struct Pair {
    /// The one under test, and its peer.
    pub(crate) names: [String; 2],
}

impl Pair {
    /// The first namespace has the first card with address 1 of `network` (`198.18.77`; RFC 2544 keeps 198.18 for benchmarks), the
    /// second the other one with address 2. Both are up. `None`, said in words, where this user may not make such.
    pub(crate) fn new(tag: &str, cards: [&str; 2], network: &str) -> Option<Pair> {
        Pair::with_senders(tag, cards, network, QUEUE_COUNT)
    }

    /// The second card sends by so many queues, each of which arrives at the first card's of the same number.
    pub(crate) fn with_senders(
        tag: &str,
        cards: [&str; 2],
        network: &str,
        sender_count: u32,
    ) -> Option<Pair> {
        Pair::with_queues(tag, cards, network, QUEUE_COUNT, sender_count)
    }

    /// The same, and the first card has so many queues.
    pub(crate) fn with_queues(
        tag: &str,
        cards: [&str; 2],
        network: &str,
        queue_count: u32,
        sender_count: u32,
    ) -> Option<Pair> {
        let number = PAIRS.fetch_add(1, Ordering::Relaxed);
        let name = |side: &str| format!("{tag}{}n{number}{side}", std::process::id());
        let pair = Pair { names: [name("a"), name("b")] };
        let [a, b] = &pair.names;
        for name in [a, b] {
            if let Err(problem) = ip(&format!("netns add {name}")) {
                eprintln!("not tried: network namespaces take root and iproute2: {problem}");
                return None;
            }
            ip(&format!("-n {name} link set lo up")).unwrap();
        }
        let queues = |senders: u32| format!("numtxqueues {senders} numrxqueues {queue_count}");
        let [card, peer] = cards;
        ip(&format!(
            "link add {card} {} netns {a} type veth peer name {peer} {} netns {b}",
            queues(queue_count),
            queues(sender_count)
        ))
        .unwrap();
        for (host, (name, card)) in [(a, card), (b, peer)].into_iter().enumerate() {
            ip(&format!("-n {name} addr add {network}.{}/24 dev {card}", host + 1)).unwrap();
            ip(&format!("-n {name} link set {card} up")).unwrap();
        }
        Some(pair)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}

/// Runs `ip` with these words.
pub(crate) fn ip(words: &str) -> Result<(), String> {
    let output =
        Command::new("ip").args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {words}: {}", said.trim())) }
}

/// Runs `body` in a thread of that namespace: sockets are of it, netlink too, files of /sys are not.
pub(crate) fn within<T: Send>(namespace: &str, body: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(format!("/run/netns/{namespace}")).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: it concerns this thread alone, and the descriptor is open through the call.
            assert_eq!(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            body()
        });
        thread.join().unwrap()
    })
}

/// The NAPI instance that polled the packets which a socket got (`SO_INCOMING_NAPI_ID`).
pub(crate) fn napi_of(socket: &impl AsRawFd) -> u32 {
    let (mut napi, mut size) = (0_u32, 4);
    let (option, to) = (libc::SO_INCOMING_NAPI_ID, (&raw mut napi).cast());
    // SAFETY: four bytes are written, as `size` says.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, to, &raw mut size) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    napi
}
