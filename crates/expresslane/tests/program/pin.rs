//! Auto-pin over a virtual card with four queues between two network namespaces: connections whose packets arrive on a queue
//! are served by the lane that serves it, all of them.
//!
//! A program at the client's edge puts packets on the queue that a test wants, as a card's filter would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;

use host::kernel::live::Live;
use host::knob::{Direction, NicKnob};
use host::{Kernel, Knob, Setting};

use crate::namespaces::{Pair, QUEUE_COUNT, ip, within};
use crate::server::{Folder, PATIENCE, Server, Talk};

/// Connections for each queue.
const CONNECTION_COUNT: u64 = 5;
/// The server's network and address, its shared port, and lane 0's own.
const NETWORK: &str = "198.18.78";
const ADDRESS: &str = "198.18.78.1";
const PORT: u16 = 6379;
const LANE_PORT: u16 = 7000;
/// Asked so often the server has learned of a link that changed, or never will.
const LOOKS_COUNT_MAX: u32 = 20_000;

/// Two namespaces with a cable between them; gone when dropped.
struct Lab {
    pair: Pair,
}

impl Lab {
    /// `None`, said in words, where this process may not make one.
    fn new() -> Option<Lab> {
        Some(Lab { pair: Pair::new("xlp", ["vs", "vc"], NETWORK)? })
    }

    fn server(&self) -> &str {
        &self.pair.names[0]
    }

    fn client(&self) -> &str {
        &self.pair.names[1]
    }

    /// With this the server's card has NAPI instances, one for each queue: GRO on, and a peer that cuts its own segments
    /// (`veth_skb_is_eligible_for_gro`, drivers/net/veth.c).
    fn set_napi(&self) {
        let feature = |name: &str| NicKnob::Feature(name.to_owned());
        within(self.server(), || write("vs", feature("rx-gro"), "on"));
        within(self.client(), || {
            for kind in ["tcp", "tcp-ecn", "tcp-mangleid", "tcp6"] {
                write("vc", feature(&format!("tx-{kind}-segmentation")), "off");
            }
            write("vc", NicKnob::Clsact, "clsact");
        });
    }

    /// From now on the client's packets to a port arrive on this queue.
    fn steer(&self, port: u16, queue: u32) {
        within(self.client(), || {
            let filter = NicKnob::Filter(Direction::Egress, 49001 + u32::from(port - PORT));
            write("vc", filter, &format!("protocol all bpf queue {queue} tcp dst_port {port}"));
        });
    }

    /// From now on this cpu does the work on packets that arrive (RPS).
    fn receive_on(&self, cpu: u32) {
        let line = format!(
            "for queue in /sys/class/net/vs/queues/rx-*; do echo {:x} > $queue/rps_cpus; done",
            1 << cpu
        );
        let done = Command::new("ip").args(["netns", "exec", self.server(), "sh", "-ec", &line]).status();
        assert!(done.unwrap().success(), "{line}");
    }

    fn connect(&self, port: u16) -> Talk {
        let at: SocketAddr = format!("{ADDRESS}:{port}").parse().unwrap();
        let stream = within(self.client(), || TcpStream::connect(at).unwrap());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Talk(BufReader::new(stream))
    }

    /// A server of two lanes in the server's namespace.
    fn serve(&self, folder: &Folder, flags: &[&str]) -> Server {
        let mut command = Command::new("ip");
        let serve = crate::server::command(&["--bind", ADDRESS, "--lanes", "2", "--protected-mode", "no"]);
        let socket = folder.path("socket");
        command.args(["netns", "exec", self.server()]).arg(serve.get_program()).args(serve.get_args());
        command.args(["--unixsocket", &socket]).args(flags);
        command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        Server::of(folder, &mut command)
    }
}

fn write(nic: &str, knob: NicKnob, value: &str) {
    Live::new().write(&Knob::nic(nic, knob), Some(&Setting::new(value))).unwrap();
}

/// What INFO says of lanes, asked over the Unix socket, which has no queue and is counted nowhere.
struct Lanes(String);

impl Lanes {
    fn of(folder: &Folder) -> Lanes {
        let mut stream = UnixStream::connect(folder.path("socket")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"INFO lanes\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        reader.read_line(&mut head).unwrap();
        let size: usize = head.trim_start_matches('$').trim_end().parse().unwrap();
        let mut text = vec![0; size];
        reader.read_exact(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        Lanes(text)
    }

    fn text(&self, lane: u16, name: &str) -> &str {
        let line = self.0.lines().find_map(|line| line.strip_prefix(&format!("lane{lane}:"))).unwrap();
        line.split(',').find_map(|pair| pair.strip_prefix(&format!("{name}="))).unwrap()
    }

    fn counts(&self, name: &str) -> [u64; 2] {
        [0, 1].map(|lane| self.text(lane, name).parse().unwrap())
    }
}

/// The lane that serves a connection.
fn lane_of(talk: &mut Talk) -> u32 {
    let reply = talk.say("CLIENT INFO");
    let (_, lane) = reply.split_once(" lane=").unwrap();
    lane.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Backends that this machine has.
fn backends() -> Vec<&'static str> {
    match net::uring::probe() {
        Ok(()) => vec!["epoll", "uring"],
        Err(why) => {
            eprintln!("not tried over io_uring: {why}");
            vec!["epoll"]
        }
    }
}

/// Opens connections on each queue: each is served by the queue's lane.
fn check_all_queues(lab: &Lab, folder: &Folder, open: &mut Vec<Talk>) {
    for queue in 0..QUEUE_COUNT {
        lab.steer(PORT, queue);
        for _ in 0..CONNECTION_COUNT {
            let mut talk = lab.connect(PORT);
            assert_eq!(lane_of(&mut talk), queue % 2, "queue {queue}: {}", Lanes::of(folder).0);
            open.push(talk);
        }
    }
}

#[test]
fn connections_are_served_by_the_lane_of_their_queue() {
    for io in backends() {
        let Some(lab) = Lab::new() else { return };
        lab.set_napi();
        let folder = Folder::new(&format!("pin-{io}"));
        let server = lab.serve(&folder, &["--auto-pin", "adq", "--io", io]);
        let mut open = Vec::new();
        check_all_queues(&lab, &folder, &mut open);
        let lanes = Lanes::of(&folder);
        assert_eq!(lanes.counts("pin_placed"), [2 * CONNECTION_COUNT; 2]);
        assert_eq!((lanes.counts("pin_fallbacks"), lanes.counts("pin_leaking")), ([0; 2], [0; 2]));
        assert_eq!((lanes.text(0, "queues"), lanes.text(1, "queues")), ("vs:0;vs:2", "vs:1;vs:3"));
        assert_eq!((lanes.text(0, "irqs"), lanes.text(1, "napi_ids").matches(';').count()), ("-;-", 1));
        // On its own port a lane keeps who comes, and says what is not its own.
        for (port, queue, leaking) in
            [(LANE_PORT, 1, [1, 0]), (LANE_PORT + 1, 1, [1, 0]), (LANE_PORT + 1, 2, [1, 1])]
        {
            lab.steer(port, queue);
            let mut talk = lab.connect(port);
            assert_eq!(lane_of(&mut talk), u32::from(port - LANE_PORT));
            assert_eq!(Lanes::of(&folder).counts("pin_leaking"), leaking, "queue {queue} to port {port}");
            open.push(talk);
        }
        learns_of_a_link(&lab, &folder);
        drop(open);
        server.signal(libc::SIGTERM);
        let (code, printed) = server.end();
        assert_eq!(code, Some(0), "{printed}");
        assert!(
            printed.contains("auto-pin    adq: a connection goes to the lane of its queue; vs: 4 queues"),
            "{printed}"
        );
    }
}

/// A link that was down has other NAPI ids.
fn learns_of_a_link(lab: &Lab, folder: &Folder) {
    let before = Lanes::of(folder).text(0, "napi_ids").to_owned();
    for state in ["down", "up"] {
        ip(&format!("-n {} link set vs {state}", lab.server())).unwrap();
    }
    let mut looks = (0..LOOKS_COUNT_MAX).map(|_| {
        std::thread::yield_now();
        Lanes::of(folder).text(0, "napi_ids").to_owned()
    });
    let after = looks.find(|ids| *ids != before && ids.contains(';'));
    assert!(after.is_some(), "the server never heard of the link: it knows {before}");
    let counts = Lanes::of(folder).counts("pin_placed");
    check_all_queues(lab, folder, &mut Vec::new());
    let lanes = Lanes::of(folder);
    assert_eq!(lanes.counts("pin_placed"), counts.map(|count| count + 2 * CONNECTION_COUNT));
    assert_eq!(lanes.counts("pin_unknown"), [0; 2], "it knew before anybody came");
}

#[test]
fn connections_are_served_by_the_lane_on_the_cpu_that_took_them_in() {
    let online: host::Cpus =
        std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap().parse().unwrap();
    if !(online.contains(0) && online.contains(1)) {
        return eprintln!("not tried: it takes cpus 0 and 1, and here are {online}");
    }
    for io in backends() {
        let Some(lab) = Lab::new() else { return };
        let folder = Folder::new(&format!("pin-cpu-{io}"));
        let server = lab.serve(&folder, &["--auto-pin", "cpu", "--cpus", "0,1", "--io", io]);
        let mut open = Vec::new();
        for cpu in [0, 1, 0, 1] {
            lab.receive_on(cpu);
            for _ in 0..CONNECTION_COUNT {
                let mut talk = lab.connect(PORT);
                assert_eq!(lane_of(&mut talk), cpu, "{}", Lanes::of(&folder).0);
                open.push(talk);
            }
        }
        let lanes = Lanes::of(&folder);
        assert_eq!(lanes.counts("pin_placed"), [2 * CONNECTION_COUNT; 2]);
        assert_eq!((lanes.counts("pin_fallbacks"), lanes.counts("pin_leaking")), ([0; 2], [0; 2]));
        // Who comes to a lane's own port stays, and is counted where another cpu takes the packets in.
        for (cpu, leaking) in [(0, [0, 0]), (1, [1, 0])] {
            lab.receive_on(cpu);
            let mut talk = lab.connect(LANE_PORT);
            assert_eq!(lane_of(&mut talk), 0);
            assert_eq!(Lanes::of(&folder).counts("pin_leaking"), leaking, "on cpu {cpu}");
            open.push(talk);
        }
        drop(open);
        server.signal(libc::SIGTERM);
        let (code, printed) = server.end();
        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.contains("auto-pin    cpu: a connection goes to the lane on the cpu"), "{printed}");
    }
}

#[test]
fn without_napi_connections_go_by_load_and_are_counted() {
    let Some(lab) = Lab::new() else { return };
    let folder = Folder::new("pin-without");
    let server = lab.serve(&folder, &["--auto-pin", "adq"]);
    let mut open: Vec<Talk> = (0..6).map(|_| lab.connect(PORT)).collect();
    let lanes: Vec<u32> = open.iter_mut().map(lane_of).collect();
    assert_eq!(lanes.iter().sum::<u32>(), 3, "half on each: {lanes:?}");
    let info = Lanes::of(&folder);
    assert_eq!(info.counts("pin_fallbacks").iter().sum::<u64>(), 6);
    assert_eq!((info.counts("pin_placed"), info.counts("pin_unknown")), ([0; 2], [0; 2]));
    assert_eq!((info.text(0, "queues"), info.text(1, "napi_ids")), ("none", "none"));
    server.signal(libc::SIGTERM);
    let (_, printed) = server.end();
    assert!(printed.contains("no card here tells"), "{printed}");
}
