//! The witness on a pair of virtual cards between two network namespaces, with plain TCP and UDP between them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test's helpers fail the test, or say why it can't run"
)]

mod namespaces;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;

use host::facts::{Nic, Queue};
use host::kernel::Cause;
use host::spec::{BackendWish, Mode, Protocol};
use host::witness::{Counts, Place, Witness};
use host::{Cpus, Placed};
use namespaces::{Pair, QUEUE_COUNT, ip, napi_of, within};

/// Requests that a client sends; each is a packet at least.
const REQUESTS: u64 = 50;

/// Two namespaces with a cable between them; gone when dropped.
struct Lab {
    pair: Pair,
}

/// Binds to an address that a test before has let go of: a program that a test beside starts has a copy of its socket until it runs.
#[expect(clippy::disallowed_methods, reason = "the program is waited for; nothing else is done meanwhile")]
fn bound<T>(mut bind: impl FnMut() -> std::io::Result<T>) -> T {
    for _ in 0..200 {
        match bind() {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            outcome => return outcome.unwrap(),
        }
    }
    bind().unwrap()
}

impl Lab {
    /// `None`, said in words, where this process may not make one.
    fn new() -> Option<Lab> {
        Lab::with_senders(QUEUE_COUNT)
    }

    /// The client's card sends by so many queues, each of which arrives at the server's of the same number.
    fn with_senders(sender_count: u32) -> Option<Lab> {
        let lab = Lab { pair: Pair::with_senders("xlw", ["vs", "vc"], "198.18.77", sender_count)? };
        ip(&format!("-n {} addr add fd77::1/64 dev vs nodad", lab.server())).unwrap();
        ip(&format!("-n {} addr add fd77::2/64 dev vc nodad", lab.client())).unwrap();
        // With these two a virtual card has receive queues of its own, as a real one.
        within(lab.server(), || set_feature("vs", SET_GRO, true));
        within(lab.client(), || set_feature("vc", SET_TSO, false));
        Some(lab)
    }

    fn server(&self) -> &str {
        &self.pair.names[0]
    }

    fn client(&self) -> &str {
        &self.pair.names[1]
    }

    /// Runs `body` in a thread of the server's namespace.
    fn at_server<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        within(self.server(), body)
    }

    fn tc(&self, line: &str) -> String {
        self.try_tc(line).unwrap()
    }

    fn try_tc(&self, line: &str) -> Result<String, String> {
        let output = Command::new("tc").args(["-n", self.server()]).args(line.split(' ')).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Echoes over TCP between the two; the NAPI instance by which the server received. No packet of it comes later: it ends
    /// with a reset, which nobody answers or sends once more, and which has arrived.
    fn talk(&self, address: &str, port: u16) -> u32 {
        let at: SocketAddr = format!("{address}:{port}").parse().unwrap();
        let listener = within(self.server(), || bound(|| TcpListener::bind(at)));
        let mut client = within(self.client(), || TcpStream::connect(at).unwrap());
        let (mut served, _) = listener.accept().unwrap();
        for _ in 0..REQUESTS {
            let mut byte = [0];
            client.write_all(b"x").unwrap();
            served.read_exact(&mut byte).unwrap();
            served.write_all(&byte).unwrap();
            client.read_exact(&mut byte).unwrap();
        }
        let napi = napi_of(&served);
        reset(client);
        let end = served.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
        napi
    }

    /// Sends datagrams to the server.
    fn send(&self, address: &str, port: u16) {
        let at: SocketAddr = format!("{address}:{port}").parse().unwrap();
        let receiver = within(self.server(), || bound(|| UdpSocket::bind(at)));
        let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let sender = within(self.client(), || UdpSocket::bind(any).unwrap());
        for _ in 0..REQUESTS {
            sender.send_to(b"x", at).unwrap();
            receiver.recv(&mut [0; 8]).unwrap();
        }
    }
}

/// Commands of `SIOCETHTOOL` (linux/ethtool.h).
const SET_TSO: u32 = 0x1f;
const SET_GRO: u32 = 0x2c;

fn set_feature(nic: &str, command: u32, on: bool) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut words = [command, u32::from(on)];
    // SAFETY: all zeros is a value of it: numbers, and a null pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(nic.as_bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the kernel reads the two words.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), 0x8946, &raw mut request) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Closes with a reset.
fn reset(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = libc::socklen_t::try_from(size_of_val(&linger)).unwrap();
    // SAFETY: the kernel reads the two numbers.
    let result = unsafe {
        let value = (&raw const linger).cast();
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, size)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

fn lane(name: &str, nic: Option<&str>, protocol: Protocol, ports: &[u16]) -> Placed {
    Placed {
        name: name.to_owned(),
        nic: nic.map(str::to_owned),
        backend: BackendWish::Soft,
        class: None,
        protocol,
        ports: ports.to_vec(),
        addresses: vec![],
        mode: Mode::Spread,
        queues: Cpus::default(),
        cores: Cpus::default(),
        irq_cores: Cpus::default(),
    }
}

/// `vs`' lanes are 1 and 3 of the plan; another card's and those of no card stand between them.
fn lanes() -> Vec<Placed> {
    vec![
        lane("elsewhere", Some("ens9"), Protocol::Tcp, &[6379]),
        lane("redis", Some("vs"), Protocol::Tcp, &[6379, 6380]),
        lane("anywhere", None, Protocol::Tcp, &[7000]),
        lane("dns", Some("vs"), Protocol::Udp, &[53]),
    ]
}

/// `vs` as facts have it, with the NAPI instances of these queues.
fn card(napis: &[(u32, u32)]) -> Nic {
    let napi = |index| napis.iter().find(|(queue, _)| *queue == index).map(|(_, napi)| *napi);
    let queue = |index| Queue { index, napi: napi(index), ..Queue::default() };
    let queues = (0..QUEUE_COUNT).map(queue).collect();
    Nic { name: "vs".to_owned(), driver: "veth".to_owned(), queues, ..Nic::default() }
}

fn packets(counts: &Counts, lane: Option<usize>) -> u64 {
    counts.cells.iter().filter(|cell| cell.lane == lane).map(|cell| cell.packets).sum()
}

/// What every place must do: count each lane's packets as that lane's, with queue and cpu, and be gone afterwards.
fn watches(place: Place) {
    let Some(lab) = Lab::new() else { return };
    let witness = match lab.at_server(|| Witness::start_at(place, &card(&[]), &lanes())) {
        Ok(witness) => witness,
        Err(refusal) if matches!(refusal.cause, Cause::Unsupported | Cause::Forbidden) => {
            eprintln!("not tried: {refusal}");
            return;
        }
        Err(refusal) => panic!("{refusal}"),
    };
    assert_eq!(witness.place(), place);
    let before = witness.counts().unwrap();
    assert_eq!([1, 2, 3].map(|lane| packets(&before, Some(lane))), [0; 3], "nobody has talked yet");
    lab.talk("198.18.77.1", 6379);
    lab.talk("[fd77::1]", 7000);
    lab.send("198.18.77.1", 53);
    let counts = witness.counts().unwrap();
    assert_eq!(counts.nic, "vs");
    assert_eq!(packets(&counts, Some(0)), 0, "the same port on another card is not this one's");
    for lane in [1, 2] {
        let seen = packets(&counts, Some(lane));
        assert!(
            (REQUESTS..REQUESTS * 4).contains(&seen),
            "lane {lane}: {seen} of {REQUESTS} requests: {counts:?}"
        );
    }
    assert_eq!(packets(&counts, Some(3)), REQUESTS, "datagrams are not confirmed");
    for cell in counts.cells.iter().filter(|cell| cell.lane == Some(1)) {
        assert!(cell.bytes >= cell.packets * 54, "Ethernet, IPv4 and TCP: {cell:?}");
    }
    let foreign = packets(&counts, None);
    lab.talk("198.18.77.1", 6381);
    let counts = witness.counts().unwrap();
    assert!(packets(&counts, None) >= foreign + REQUESTS, "{counts:?}");
    witness.stop().unwrap();
    assert!(!lab.tc("qdisc show dev vs").contains("clsact"), "nothing is left");
}

#[test]
fn two_lanes_of_one_port_are_told_apart_by_address() {
    let Some(lab) = Lab::new() else { return };
    for at in ["198.18.77.3/24", "fd77::3/64 nodad"] {
        ip(&format!("-n {} addr add {at} dev vs", lab.server())).unwrap();
    }
    let at = |name, addresses: &[&str]| Placed {
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        ..lane(name, Some("vs"), Protocol::Tcp, &[6379])
    };
    let lanes = [at("one", &["198.18.77.1", "fd77::1"]), at("three", &["198.18.77.3", "fd77::3"])];
    let others = [at("one", &["198.18.77.1"])];
    for place in [Place::Link, Place::Filter] {
        for (address, lane) in [("198.18.77.1", 0), ("[fd77::1]", 0), ("198.18.77.3", 1), ("[fd77::3]", 1)] {
            let seen = |lanes: &[Placed]| {
                let witness = lab.at_server(|| Witness::start_at(place, &card(&[]), lanes));
                let witness = match witness {
                    Ok(witness) => witness,
                    Err(refusal) if matches!(refusal.cause, Cause::Unsupported | Cause::Forbidden) => {
                        eprintln!("not tried: {refusal}");
                        return None;
                    }
                    Err(refusal) => panic!("{refusal}"),
                };
                lab.talk(address, 6379);
                let counts = witness.counts().unwrap();
                witness.stop().unwrap();
                Some([0, 1].map(|lane| packets(&counts, Some(lane))))
            };
            let Some(both) = seen(&lanes) else { continue };
            assert!(both[lane] >= REQUESTS && both[1 - lane] == 0, "{address}: {both:?}");
            let alone = seen(&others).unwrap();
            assert_eq!(alone[0] >= REQUESTS, address == "198.18.77.1", "{address}: {alone:?}");
        }
    }
}

#[test]
fn a_link_counts_and_goes() {
    watches(Place::Link);
}

#[test]
fn a_filter_counts_and_goes() {
    watches(Place::Filter);
}

#[test]
fn the_queue_is_that_of_who_polled() {
    let Some(lab) = Lab::with_senders(1) else { return };
    // One queue sends, so one instance receives: that of the first queue.
    let napi = lab.talk("198.18.77.1", 6379);
    assert!(napi > 0, "the card polls");
    let queues = |known: &[(u32, u32)]| {
        let card = card(known);
        let witness = lab.at_server(|| Witness::start(&card, &lanes())).unwrap();
        lab.talk("198.18.77.1", 6379);
        let counts = witness.counts().unwrap();
        let mine = counts.cells.iter().filter(|cell| cell.lane == Some(1));
        let queues: BTreeSet<_> = mine.map(|cell| cell.queue).collect();
        queues.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(queues(&[(3, napi)]), [Some(3)]);
    assert_eq!(queues(&[(0, napi), (1, napi + 1)]), [Some(0)]);
    assert_eq!(queues(&[(1, napi + 1)]), [None], "who isn't known is unknown, not another");
    assert_eq!(queues(&[]), [None], "what the sender left in the packet is not taken for a queue");
}

/// A driver that records leaves the queue plus one in the packet. A virtual card leaves the sender's number there, so that it
/// can stand for such a driver; by its own name it is not believed.
#[test]
fn a_recorded_queue_is_one_less_than_what_the_packet_holds() {
    let Some(lab) = Lab::new() else { return };
    let online: Cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap().parse().unwrap();
    let everything_by = |queue: u32| {
        for other in 0..QUEUE_COUNT {
            let (mask, file) = (
                if other == queue { online.to_mask() } else { "0".to_owned() },
                "/sys/class/net/vc/queues/tx",
            );
            let line = format!("echo {mask} > {file}-{other}/xps_cpus");
            let done = Command::new("ip").args(["netns", "exec", lab.client(), "sh", "-c", &line]).status();
            assert!(done.unwrap().success(), "{line}");
        }
    };
    let records = Nic { driver: "records".to_owned(), ..card(&[]) };
    // More queues than facts have: what came by those is unknown, and no other lane's.
    let fewer = Nic { queues: records.queues[..1].to_vec(), ..records.clone() };
    for (card, sender, queue) in [
        (&records, 0, None),
        (&records, 1, Some(0)),
        (&records, 3, Some(2)),
        (&card(&[]), 3, None),
        (&fewer, 3, None),
    ] {
        everything_by(sender);
        let witness = lab.at_server(|| Witness::start(card, &lanes())).unwrap();
        lab.talk("198.18.77.1", 6379);
        let counts = witness.counts().unwrap();
        let mut mine = counts.cells.iter().filter(|cell| cell.lane == Some(1)).peekable();
        assert!(mine.peek().is_some() && mine.all(|cell| cell.queue == queue), "{sender}: {counts:?}");
    }
}

#[test]
fn dropping_it_takes_it_away() {
    let Some(lab) = Lab::new() else { return };
    let started = lab.at_server(|| Witness::start_at(Place::Filter, &card(&[]), &lanes()));
    let Ok(witness) = started else { return };
    let filters = lab.tc("filter show dev vs ingress");
    assert!(filters.contains("pref 7 ") && filters.contains("xl_witness"), "{filters}");
    drop(witness);
    assert_eq!(lab.tc("filter show dev vs ingress"), "");
    assert!(!lab.tc("qdisc show dev vs").contains("clsact"));
}

/// Its filters and its clsact are as they were, and what they do to packets too.
#[test]
fn somebody_elses_filters_stay_and_work() {
    let Some(lab) = Lab::new() else { return };
    lab.tc("qdisc add dev vs clsact");
    let away = "match ip dport 6390 0xffff action mirred egress redirect dev lo";
    if let Err(problem) = lab.try_tc(&format!("filter add dev vs ingress pref 20 protocol ip u32 {away}")) {
        eprintln!("not tried: this kernel has no filter to stand for somebody else's: {problem}");
        return;
    }
    let before = lab.tc("filter show dev vs ingress");
    for place in [Place::Link, Place::Filter] {
        let Ok(witness) = lab.at_server(|| Witness::start_at(place, &card(&[]), &lanes())) else {
            continue;
        };
        lab.talk("198.18.77.1", 6379);
        let receiver = lab.at_server(|| bound(|| UdpSocket::bind("198.18.77.1:6390")));
        let sender = within(lab.client(), || UdpSocket::bind("0.0.0.0:0").unwrap());
        sender.send_to(b"x", "198.18.77.1:6390").unwrap();
        receiver.set_nonblocking(true).unwrap();
        // What was sent before it has arrived meanwhile.
        lab.talk("198.18.77.1", 6380);
        assert!(receiver.recv(&mut [0; 8]).is_err(), "the filter behind the witness still leads away");
        witness.stop().unwrap();
        assert_eq!(lab.tc("filter show dev vs ingress"), before);
    }
    assert!(lab.tc("qdisc show dev vs").contains("clsact"));
}

#[test]
fn a_card_that_is_not_there_is_said() {
    let refusal = Witness::start(&Nic { name: "nosuchcard".to_owned(), ..Nic::default() }, &[]).unwrap_err();
    assert_eq!(refusal.cause, Cause::Gone);
    assert!(refusal.reason.contains("'nosuchcard'"), "{refusal}");
}
