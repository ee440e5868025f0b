//! What is particular to sockets: listeners, addresses, options, files.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing there has failed")]

use std::io::{ErrorKind, Read};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use net::epoll::{Epoll, Share, TcpOptions};
use net::sockets::Sockets;
use net::uring::{self, Uring};
use net::{Address, Close, Event, Limits, ListenerId};

const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Runs each over both nets, as far as the machine has them.
macro_rules! over_both {
    ($($name:ident,)*) => {
        mod over_epoll {
            $(#[test] fn $name() { super::$name::<super::Epoll>(); })*
        }
        mod over_uring {
            $(#[test] fn $name() {
                match super::uring::probe() {
                    Ok(()) => super::$name::<super::Uring>(),
                    Err(why) => eprintln!("left out: {why}"),
                }
            })*
        }
    };
}

over_both! {
    a_port_belongs_to_one_server,
    lanes_of_one_server_share_a_port_and_a_second_server_is_told,
    both_ends_are_told_as_the_client_sees_them,
    who_stops_listening_is_not_found,
    a_socket_file_has_the_mode_that_was_asked_for,
    a_left_over_socket_file_is_replaced_and_nothing_else,
    busy_polling_is_had_or_refused_in_words,
    a_net_that_sleeps_sends_all_and_ends,
}

fn make<N: Sockets>() -> N {
    N::make(Limits::default()).unwrap()
}

fn address(net: &impl Sockets, listener: ListenerId) -> SocketAddr {
    let Address::Inet(address) = net.listener_address(listener) else { panic!("a TCP listener") };
    address
}

fn shared(share: Share) -> TcpOptions {
    TcpOptions { share, ..TcpOptions::default() }
}

fn opened(net: &mut impl Sockets) -> (ListenerId, Address, Address) {
    let mut events = Vec::new();
    loop {
        net.wait(None);
        net.poll(&mut events);
        for event in events.drain(..) {
            if let Event::Opened { listener, peer, local, .. } = event {
                return (listener, peer, local);
            }
        }
    }
}

fn path<N>(name: &str) -> PathBuf {
    let kind = std::any::type_name::<N>().len();
    std::env::temp_dir().join(format!("net-sockets-{}-{kind}-{name}", std::process::id()))
}

fn a_port_belongs_to_one_server<N: Sockets>() {
    let mut first = make::<N>();
    let listener = first.listen_tcp(ANY.into(), &shared(Share::Alone)).unwrap();
    let taken = address(&first, listener);
    for share in [Share::Alone, Share::First, Share::Joins] {
        let error = make::<N>().listen_tcp(taken, &shared(share)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{share:?}");
    }
    drop(first);
    make::<N>().listen_tcp(taken, &shared(Share::First)).unwrap();
}

fn lanes_of_one_server_share_a_port_and_a_second_server_is_told<N: Sockets>() {
    let (mut first, mut second) = (make::<N>(), make::<N>());
    let listener = first.listen_tcp(ANY.into(), &shared(Share::First)).unwrap();
    let port = address(&first, listener);
    second.listen_tcp(port, &shared(Share::Joins)).unwrap();
    for share in [Share::Alone, Share::First] {
        let error = make::<N>().listen_tcp(port, &shared(share)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{share:?}");
    }
    let _clients: Vec<_> = (0..64).map(|_| TcpStream::connect(port).unwrap()).collect();
    let mut counts = [0, 0];
    while counts[0] + counts[1] < 64 {
        for (net, count) in [&mut first, &mut second].into_iter().zip(&mut counts) {
            net.poll(&mut Vec::new());
            *count = net.counters().opened;
        }
    }
    assert!(0 < counts[0] && 0 < counts[1], "{counts:?}");
}

fn both_ends_are_told_as_the_client_sees_them<N: Sockets>() {
    let mut net = make::<N>();
    let wild = net.listen_tcp(SocketAddr::from(([0, 0, 0, 0], 0)), &TcpOptions::default()).unwrap();
    let exact = net.listen_tcp(ANY.into(), &TcpOptions::default()).unwrap();
    for (listener, port) in [(wild, address(&net, wild).port()), (exact, address(&net, exact).port())] {
        let target = SocketAddr::from(([127, 0, 0, 1], port));
        let client = TcpStream::connect(target).unwrap();
        let want = (listener, Address::Inet(client.local_addr().unwrap()), Address::Inet(target));
        assert_eq!(opened(&mut net), want);
    }
    // Where the machine has IPv6.
    if let Ok(listener) = net.listen_tcp(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)), &TcpOptions::default()) {
        let target = address(&net, listener);
        let client = TcpStream::connect(target).unwrap();
        let want = (listener, Address::Inet(client.local_addr().unwrap()), Address::Inet(target));
        assert_eq!(opened(&mut net), want);
    }
}

fn who_stops_listening_is_not_found<N: Sockets>() {
    let mut net = make::<N>();
    let listener = net.listen_tcp(ANY.into(), &TcpOptions::default()).unwrap();
    let target = address(&net, listener);
    let client = TcpStream::connect(target).unwrap();
    opened(&mut net);
    net.stop_listening();
    assert_eq!(TcpStream::connect(target).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    drop(client);
    let mut events = Vec::new();
    net.wait(None);
    net.poll(&mut events);
    assert!(matches!(events[..], [Event::Input(_)]), "connections go on: {events:?}");
}

fn a_socket_file_has_the_mode_that_was_asked_for<N: Sockets>() {
    for mode in [0o700, 0o770, 0o777] {
        let path = path::<N>(&format!("mode-{mode:o}"));
        let mut net = make::<N>();
        net.listen_unix(&path, mode, 16).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        let _client = UnixStream::connect(&path).unwrap();
        assert_eq!(opened(&mut net), (ListenerId(0), Address::Unix, Address::Unix));
        std::fs::remove_file(&path).unwrap();
    }
}

fn a_left_over_socket_file_is_replaced_and_nothing_else<N: Sockets>() {
    let path = path::<N>("stale");
    let mut net = make::<N>();
    net.listen_unix(&path, 0o700, 16).unwrap();
    let error = make::<N>().listen_unix(&path, 0o700, 16).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    drop(net);
    assert!(path.exists());
    make::<N>().listen_unix(&path, 0o700, 16).unwrap();
    std::fs::remove_file(&path).unwrap();

    std::fs::write(&path, "precious").unwrap();
    let error = make::<N>().listen_unix(&path, 0o700, 16).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();

    let long = PathBuf::from("x".repeat(108));
    assert_eq!(make::<N>().listen_unix(&long, 0o700, 16).unwrap_err().kind(), ErrorKind::InvalidInput);
}

fn busy_polling_is_had_or_refused_in_words<N: Sockets>() {
    let mut net = make::<N>();
    if let Err(error) = net.set_busy_poll(50) {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("6.9"), "{error}");
    }
    let listener = net.listen_tcp(ANY.into(), &TcpOptions::default()).unwrap();
    let _client = TcpStream::connect(address(&net, listener)).unwrap();
    opened(&mut net);
}

/// Nothing else happens than what follows from a reply larger than a turn's send, and from the end behind it: a net that
/// sleeps until there is news would never come to the rest.
fn a_net_that_sleeps_sends_all_and_ends<N: Sockets>() {
    const SIZE: usize = 3 << 20;
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
    let mut net = make::<N>();
    let listener = net.listen_tcp(ANY.into(), &shared(Share::Alone)).unwrap();
    let at = address(&net, listener);
    let (size, result) = std::thread::scope(|scope| {
        let (bell, is_done) = (net.bell(), Arc::new(AtomicBool::new(false)));
        let says_so = Arc::clone(&is_done);
        let client = scope.spawn(move || {
            let mut stream = TcpStream::connect(at).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut got = Vec::new();
            let result = stream.read_to_end(&mut got);
            drop(stream);
            says_so.store(true, Ordering::SeqCst);
            bell.ring();
            (got.len(), result)
        });
        let mut events = Vec::new();
        while !is_done.load(Ordering::SeqCst) {
            net.wait(Some(u64::try_from(PATIENCE.as_nanos()).unwrap()));
            net.poll(&mut events);
            for event in events.drain(..) {
                if let Event::Opened { conn, .. } = event {
                    net.output(conn).unwrap().extend(&vec![b'x'; SIZE]);
                    net.close(conn, Close::AfterFlush);
                }
            }
            net.flush();
        }
        client.join().unwrap()
    });
    result.expect("the end comes, and in time");
    assert_eq!(size, SIZE);
}
