//! Made-up servers on threads of this program, at ports that the kernel chooses. Each ends when it is dropped, and by itself
//! if nobody does that.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use load::connect::Endpoint;
use load::floor::Floor;
use load::oracle::serve::Serving;
use load::oracle::server::Behaviour;
use net::epoll::{Epoll, TcpOptions};
use net::{Address, Limits, Wait};

use crate::machine;

/// How long a server lives at most.
const LIFE: Duration = Duration::from_secs(120);
/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A server at work.
pub(super) struct Made {
    pub(super) endpoint: Endpoint,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Made {
    /// One that behaves like this, and receives from a connection at most once in so many nanoseconds.
    pub(super) fn server(behaviour: Behaviour, reads_every_ns: u64) -> Result<Made, String> {
        let trouble = |error: std::io::Error| format!("a made-up server can't listen: {error}");
        let mut net = Epoll::new(Limits::default()).map_err(trouble)?;
        let listener =
            net.listen_tcp(SocketAddr::from((HOST, 0)), &TcpOptions::default()).map_err(trouble)?;
        let Address::Inet(address) = net.listener_address(listener) else {
            return Err("a made-up server listens at no address".to_owned());
        };
        let mut serving = Serving::new(behaviour, reads_every_ns);
        Made::start(address.port(), move |clock, is_over| {
            machine::set_timer_slack();
            while !is_over() {
                let next_ns = serving.turn(clock(), &mut net);
                let look_ns = u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX);
                net.wait(Some(next_ns.map_or(look_ns, |at_ns| at_ns.saturating_sub(clock())).min(look_ns)));
            }
        })
    }

    /// The one that nothing can be faster than.
    pub(super) fn floor(payload_size: usize) -> Result<Made, String> {
        let trouble = |error: std::io::Error| format!("the floor can't listen: {error}");
        let listener = TcpListener::bind((HOST, 0)).map_err(trouble)?;
        let port = listener.local_addr().map_err(trouble)?.port();
        let mut floor = Floor::new(listener, payload_size).map_err(trouble)?;
        let look_ms = i32::try_from(LOOK.as_millis()).unwrap_or(i32::MAX);
        Made::start(port, move |_, is_over| while !is_over() && floor.turn(look_ms).is_ok() {})
    }

    /// A port at which nobody listens.
    pub(super) fn nobody() -> Result<Endpoint, String> {
        let listener = TcpListener::bind((HOST, 0)).map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        Ok(Endpoint::Tcp(HOST.to_string(), port))
    }

    #[expect(clippy::disallowed_methods, reason = "a live server reads the clock")]
    fn start(
        port: u16,
        work: impl FnOnce(&dyn Fn() -> u64, &dyn Fn() -> bool) + Send + 'static,
    ) -> Result<Made, String> {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("made-up server".to_owned()).spawn(move || {
            let began = Instant::now();
            let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            work(&clock, &|| flag.load(Ordering::Relaxed) || began.elapsed() > LIFE);
        });
        let thread = Some(thread.map_err(|error| format!("a thread can't be started: {error}"))?);
        Ok(Made { endpoint: Endpoint::Tcp(HOST.to_string(), port), is_over, thread })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It looks within a moment; how it ended matters to nobody any more.
            let _ = thread.join();
        }
    }
}
