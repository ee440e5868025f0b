//! An agent's conversation with one coordinator. One thread hears, one speaks and decides; looking at the machine, connecting and
//! loading have threads of their own, so that a sign of life is always answered.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use load::agents::message::{
    Answer, Ask, Described, Done, Ping, Pong, Ready, Refused, Reported, Start, Task,
};
use load::agents::session::{Act, Session};
use load::environment::{Environment, Hashes, Kernel, Program};

use super::stream::{Incoming, Outgoing};
use super::task;
use crate::bench::crew::{Outcome, Prepared};
use crate::bench::watch::{self, Watch};
use crate::clock::Clock;
use crate::machine;
use crate::stop::Stop;

/// Events that wait while the coordinator takes nothing; then whoever brings more waits, too.
const EVENTS_MAX: usize = 64;
/// A start lies this far ahead at most: what is later was meant for another clock.
const AHEAD_NS_MAX: u64 = 10_000_000_000;

/// What all sessions of an agent share.
pub(super) struct Host {
    clock: Clock,
    password: Option<String>,
    /// This program, once somebody has asked for it: its hash takes time.
    load: OnceLock<Program>,
}

impl Host {
    /// With what it logs in with at servers.
    pub(super) fn new(password: Option<String>) -> Host {
        Host { clock: Clock::new(), password, load: OnceLock::new() }
    }

    /// The clock of all its sessions.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// This machine; if it is to be watched, also whether it is quiet.
    fn described(&self, is_watched: bool) -> Described {
        let quiet = is_watched.then(|| watch::quiet(self.clock)).filter(watch::is_noisy);
        let load = self.load.get_or_init(|| Program {
            role: "load".to_owned(),
            command: vec!["expresslane bench agent".to_owned()],
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            sha256: std::env::current_exe().ok().and_then(|path| Hashes::default().of(&path)),
        });
        let environment = Environment::capture(Path::new("/"), &Kernel::new(), std::slice::from_ref(load));
        Described {
            environment: serde_json::to_value(environment).expect("an environment has text for keys"),
            complaints: quiet.map(|quiet| quiet.complaints).unwrap_or_default(),
        }
    }
}

enum Event {
    /// The coordinator has said something, at that time.
    Asked(Ask, u64),
    /// It will say nothing more.
    Gone(String),
    Described(Described),
    Prepared(Result<Box<Prepared>, String>),
    Second(Box<Reported>),
    Done(Box<Outcome>),
}

struct Serving {
    host: Arc<Host>,
    out: Outgoing,
    events: SyncSender<Event>,
    session: Session,
    /// Of the load that is prepared or runs.
    stop: Stop,
    prepared: Option<Prepared>,
    running: Option<JoinHandle<()>>,
    is_looking: bool,
}

/// Does what the coordinator asks until it is gone; why it ended. No load of it runs after that.
pub(super) fn session(out: Outgoing, incoming: Incoming, host: &Arc<Host>) -> String {
    let (events_in, events) = sync_channel(EVENTS_MAX);
    let reader = {
        let (events, clock) = (events_in.clone(), host.clock);
        let read = move || hear(incoming, &events, clock);
        std::thread::Builder::new().name("hears".to_owned()).spawn(read)
    };
    let Ok(reader) = reader else { return "a thread can't be started".to_owned() };
    let mut serving = Serving {
        host: Arc::clone(host),
        out,
        events: events_in,
        session: Session::new(),
        stop: Stop::new(),
        prepared: None,
        running: None,
        is_looking: false,
    };
    let end = serving.serve(&events);
    serving.stop.set();
    serving.out.close();
    // Whoever waits to bring something brings it to nobody.
    drop(events);
    let running = serving.running.take();
    for thread in [Some(reader), running].into_iter().flatten() {
        if thread.join().is_err() {
            return "a thread of it broke a promise".to_owned();
        }
    }
    end
}

/// Hears the coordinator until it hangs up or falls silent.
fn hear(mut incoming: Incoming, events: &SyncSender<Event>, clock: Clock) {
    loop {
        let event = match incoming.next::<Ask>() {
            Ok(ask) => Event::Asked(ask, clock.mono_ns()),
            Err(why) => Event::Gone(why),
        };
        let is_last = matches!(event, Event::Gone(_));
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}

impl Serving {
    fn serve(&mut self, events: &Receiver<Event>) -> String {
        loop {
            let event = events.recv().expect("this thread has a sender, too");
            if let Err(end) = self.step(event) {
                return end;
            }
        }
    }

    /// One event; the words with which the session ends, if it does.
    fn step(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Asked(ask, at_ns) => {
                let act = self.session.asked(ask).map_err(|breach| breach.to_string())?;
                self.act(act, at_ns)
            }
            Event::Gone(why) => Err(why),
            Event::Described(described) => {
                self.is_looking = false;
                self.out.send(&Answer::Described(described))
            }
            Event::Prepared(Ok(prepared)) => {
                self.session.prepared(true);
                let thread_count = u32::try_from(prepared.thread_count()).expect("few threads");
                self.prepared = Some(*prepared);
                self.out.send(&Answer::Ready(Ready { thread_count }))
            }
            Event::Prepared(Err(problem)) => self.refuse(problem),
            Event::Second(reported) => self.out.send(&Answer::Second(reported)),
            Event::Done(outcome) => {
                self.session.ended();
                self.out.send(&Answer::Done(done(*outcome)))
            }
        }
    }

    fn act(&mut self, act: Act, at_ns: u64) -> Result<(), String> {
        match act {
            Act::Pong(ping) => self.pong(ping, at_ns),
            Act::Describe { .. } if self.is_looking => Err("it asks again before it was answered".to_owned()),
            Act::Describe { is_watched } => {
                self.is_looking = true;
                let (events, host) = (self.events.clone(), Arc::clone(&self.host));
                started("looks", move || {
                    // The session may be over.
                    let _ = events.send(Event::Described(host.described(is_watched)));
                })
                .map(drop)
            }
            Act::Prepare(task) => self.prepare(*task),
            Act::Start(start) => self.start(start),
            Act::Stop => {
                self.stop.set();
                Ok(())
            }
            Act::Nothing => Ok(()),
        }
    }

    fn pong(&mut self, ping: Ping, received_ns: u64) -> Result<(), String> {
        let clock = self.host.clock;
        let (unix_ms, answered_ns) = (clock.unix_ms(), clock.mono_ns());
        self.out.send(&Answer::Pong(Pong { sent_ns: ping.sent_ns, received_ns, answered_ns, unix_ms }))
    }

    fn refuse(&mut self, problem: String) -> Result<(), String> {
        self.session.prepared(false);
        self.out.send(&Answer::Refused(Refused { problem }))
    }

    fn prepare(&mut self, task: Task) -> Result<(), String> {
        let allowed = machine::allowed_cpus().map_err(|error| error.to_string());
        let order = allowed.and_then(|allowed| task::order(task, &allowed, self.host.password.as_deref()));
        let order = match order {
            Ok(order) => order,
            Err(problem) => return self.refuse(problem),
        };
        self.stop = Stop::new();
        let (events, stop) = (self.events.clone(), self.stop.clone());
        // It is not waited for: when the coordinator has gone meanwhile, the load ends where it arrives, without a request.
        started("connects", move || {
            let _ = events.send(Event::Prepared(Prepared::new(&order, &stop).map(Box::new)));
        })
        .map(drop)
    }

    #[expect(clippy::disallowed_methods, reason = "an agent reads the clock")]
    fn start(&mut self, start: Start) -> Result<(), String> {
        let prepared = self.prepared.take().expect("a session is ready when a load is");
        let (now, now_ns) = (Instant::now(), self.host.clock.mono_ns());
        if start.at_ns > now_ns + AHEAD_NS_MAX {
            return Err(
                "it starts a load at a time that is far away: its clock was measured wrong".to_owned()
            );
        }
        // Too late already: then everything counts from when it should have been.
        let late = Duration::from_nanos(now_ns.saturating_sub(start.at_ns));
        let early = Duration::from_nanos(start.at_ns.saturating_sub(now_ns));
        let at = now.checked_sub(late).unwrap_or(now) + early;
        let whole = |count: u32| usize::try_from(count).expect("32 bits");
        let (first, of, events) = (whole(start.first), whole(start.of), self.events.clone());
        let clock = self.host.clock;
        self.running = Some(started("loads", move || {
            let mut watch = Watch::begin(clock, None);
            let outcome = prepared.run(at, first, of, |second| {
                let reported = Reported { second: second.clone(), counters: watch.second() };
                // Nobody hears it any more: then the load is being stopped.
                let _ = events.send(Event::Second(Box::new(reported)));
            });
            let _ = events.send(Event::Done(Box::new(outcome)));
        })?);
        Ok(())
    }
}

fn started(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| format!("a thread can't be started: {error}"))
}

fn done(outcome: Outcome) -> Done {
    Done {
        failure: outcome.failure,
        elapsed_ns: outcome.elapsed_ns,
        last_share: outcome.last_share,
        answered: outcome.answered,
        unanswered: outcome.unanswered,
        error_texts: outcome.error_texts,
        thread_use: outcome.thread_use,
        late_ns: outcome.late_ns,
    }
}
