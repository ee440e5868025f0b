//! A load under way: threads, each with an engine over its share of the connections, and the seconds they hand over.
//!
//! Everything that can take time happens before the first request: connecting, logging in, asking for the cluster's slots. Then all
//! threads begin at one instant, and learn only then which of how many they are: some may belong to other hosts. A second that is
//! over goes to a thread that adds those of all engines and gives the memory back, so that a load never waits for whoever writes its
//! results down.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use load::agents::told::AgentRun;
use load::connect::{Connected, Dialect, Endpoint, Login, cluster};
use load::engine::{End, Engine, ErrorText, Failure, IN_FLIGHT_MAX, Next, Nodes, Pace, Plan};
use load::merge::Merge;
use load::protocol::{Protocol, aerospike, couchbase, memcached, resp};
use load::record::Second;
use load::workload::Workload;
use net::epoll::Epoll;
use net::{Handover, Limits, Net, Wait};

use super::agent::Agents;
use super::settings::Waiting;
use crate::machine;
use crate::stop::Stop;

/// How long an engine sleeps at most before it looks whether it is to stop.
const SLEEP_NS_MAX: u64 = 100_000_000;
/// Awake from so long before a request is due, with [`Waiting::Spin`]: longer than the kernel takes to wake a thread, also one
/// whose core a hypervisor has given to others meanwhile.
const AWAKE_NS: u64 = 1_000_000;

/// One load.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) endpoint: Endpoint,
    pub(super) login: Login,
    pub(super) is_cluster: bool,
    pub(super) connection_count: u32,
    pub(super) pipeline: u32,
    pub(super) thread_count: u16,
    /// Where threads are pinned, in order; none: nowhere.
    pub(super) cpus: Vec<usize>,
    /// Over all threads.
    pub(super) pace: Pace,
    /// In which a rate grows from nothing.
    pub(super) ramp: Duration,
    pub(super) waiting: Waiting,
    pub(super) workload: Workload,
    pub(super) duration: Duration,
    pub(super) requests_max: u64,
    pub(super) seed: u64,
    /// Other hosts that make it; none: this process does.
    pub(super) agents: Option<Agents>,
}

/// What came of it, beside the seconds.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Why it ended before its time.
    pub(super) failure: Option<String>,
    pub(super) was_stopped: bool,
    pub(super) elapsed_ns: u64,
    pub(super) last_share: f64,
    pub(super) answered: u64,
    pub(super) unanswered: u64,
    pub(super) error_texts: Vec<ErrorText>,
    /// Of each thread, the share of a core that its work took; looking at the clock for what is due is none.
    pub(super) thread_use: Vec<f64>,
    /// From the instant at which all were to begin until the last thread did.
    pub(super) late_ns: u64,
    /// Each of the hosts that made it, if others did.
    pub(super) agents: Vec<AgentRun>,
}

impl Outcome {
    /// The same texts are counted together.
    pub(super) fn add_error_texts(&mut self, texts: Vec<ErrorText>) {
        for text in texts {
            match self.error_texts.iter_mut().find(|known| known.text == text.text) {
                Some(known) => known.count = known.count.saturating_add(text.count),
                None => self.error_texts.push(text),
            }
        }
    }
}

enum Message {
    /// It waits for its start.
    Ready,
    Second(usize, Second),
    Done(usize, Done),
}

struct Done {
    end: End,
    failure: Option<Failure>,
    cpu_use: f64,
    late_ns: u64,
}

/// What a thread waits for.
struct Start {
    at: Instant,
    plan: Plan,
}

/// One thread's part, ready to begin.
struct Part {
    index: usize,
    workload: Workload,
    is_open: bool,
    nodes: Nodes,
    handovers: Vec<(Handover, usize)>,
    cpu: Option<usize>,
    waiting: Waiting,
    out: Sender<Message>,
    spares: Receiver<Second>,
    stop: Stop,
    start: Receiver<Start>,
}

/// Makes the load, and shows `each` of its seconds, oldest first, as soon as all threads are through with it. What is left of the
/// last one comes at the end.
///
/// # Errors
/// It can't begin, in words that say what to do. What goes wrong later is part of the outcome.
pub(super) fn load(order: &Order, stop: &Stop, each: impl FnMut(&Second) + Send) -> Result<Outcome, String> {
    if let Some(agents) = &order.agents {
        return agents.load(order, stop, each);
    }
    let prepared = Prepared::new(order, stop)?;
    let thread_count = prepared.thread_count();
    #[expect(clippy::disallowed_methods, reason = "a load reads the clock")]
    let now = Instant::now();
    Ok(prepared.run(now, 0, thread_count, each))
}

/// A load whose connections stand and whose threads wait. Dropped, it ends without a request.
pub(super) struct Prepared {
    order: Order,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
    starts: Vec<Sender<Start>>,
    messages: Receiver<Message>,
    returns: Vec<Sender<Second>>,
}

impl Prepared {
    /// Connects, logs in, and starts the threads.
    ///
    /// # Errors
    /// It can't begin, in words that say what to do.
    pub(super) fn new(order: &Order, stop: &Stop) -> Result<Prepared, String> {
        let (nodes, endpoints) = if order.is_cluster {
            cluster(&order.endpoint, &order.login, &order.workload.key_prefix)
                .map_err(|error| error.to_string())?
        } else {
            (Nodes::one(), vec![order.endpoint.clone()])
        };
        let node_count = nodes.count();
        let thread_count = usize::from(order.thread_count).min(per(order.connection_count, node_count));
        let connection_count = whole(order.connection_count).max(node_count * thread_count);
        let (out, messages) = channel();
        let (mut parts, mut returns, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..thread_count {
            let (give_back, spares) = channel();
            let (begin, start) = channel();
            returns.push(give_back);
            starts.push(begin);
            parts.push(Part {
                index,
                workload: order.workload.clone(),
                is_open: order.pace != Pace::Closed,
                nodes: nodes.clone(),
                handovers: Vec::new(),
                cpu: (!order.cpus.is_empty()).then(|| order.cpus[index % order.cpus.len()]),
                waiting: order.waiting,
                out: out.clone(),
                spares,
                stop: stop.clone(),
                start,
            });
        }
        drop(out);
        for number in 0..connection_count {
            // Every thread has connections to every node.
            let (node, thread) = (number % node_count, number / node_count % thread_count);
            let connected = Connected::new(&endpoints[node], &order.login).and_then(Connected::into_handover);
            parts[thread].handovers.push((connected.map_err(|error| error.to_string())?, node));
        }
        let dialect = order.login.dialect;
        let mut threads = Vec::new();
        for part in parts {
            let name = format!("load {}", part.index);
            let namespace = order.login.aerospike_namespace().to_owned();
            let thread = std::thread::Builder::new().name(name).spawn(move || match dialect {
                Dialect::Resp2 | Dialect::Resp3 => {
                    let resp = resp::Resp::new(&part.workload);
                    work(part, resp);
                }
                Dialect::Memcached => {
                    let text = memcached::Text::new(&part.workload);
                    work(part, text);
                }
                Dialect::MemcachedBinary => {
                    let binary = memcached::Binary::new(&part.workload);
                    work(part, binary);
                }
                Dialect::Couchbase => {
                    let couchbase = couchbase::Couchbase::new(&part.workload);
                    work(part, couchbase);
                }
                Dialect::Aerospike => {
                    let aerospike = aerospike::Aerospike::new(&part.workload, &namespace);
                    work(part, aerospike);
                }
            });
            threads.push(thread.map_err(|error| not_started(&error))?);
        }
        for _ in 0..thread_count {
            // No thread hands anything else over before it is told to begin.
            messages.recv().map_err(|_| "a thread ended before the load began".to_owned())?;
        }
        Ok(Prepared { order: order.clone(), stop: stop.clone(), threads, starts, messages, returns })
    }

    /// Threads that wait: fewer than were ordered where there are few connections.
    pub(super) fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Begins at that instant, as the threads from number `first` on among `of`, here and on other hosts; see [`load()`].
    pub(super) fn run(
        self,
        at: Instant,
        first: usize,
        of: usize,
        mut each: impl FnMut(&Second) + Send,
    ) -> Outcome {
        let leaves_idle_time = self.order.pace != Pace::Closed;
        let (messages, returns) = (self.messages, self.returns);
        let collect = move || {
            if leaves_idle_time {
                machine::stand_aside();
            }
            gather(&messages, &returns, &mut each)
        };
        let collected = std::thread::scope(|scope| {
            // On a thread of its own, for who has stood aside can't come back.
            let thread =
                std::thread::Builder::new().name("collects".to_owned()).spawn_scoped(scope, collect)?;
            for (index, start) in self.starts.iter().enumerate() {
                let plan = plan(&self.order, first + index, of);
                start.send(Start { at, plan }).expect("a thread waits for its start");
            }
            Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let dones = match collected {
            Ok(dones) => dones,
            Err(error) => return Outcome { failure: Some(not_started(&error)), ..Outcome::default() },
        };
        for thread in self.threads {
            assert!(thread.join().is_ok(), "a load's thread ends by itself");
        }
        outcome(dones, &self.stop)
    }
}

fn not_started(error: &io::Error) -> String {
    format!("a thread can't be started: {error}")
}

/// Connections per thread that leave each thread one to each node.
fn per(connection_count: u32, node_count: usize) -> usize {
    (whole(connection_count) / node_count).max(1)
}

fn whole(count: u32) -> usize {
    usize::try_from(count).expect("32 bits")
}

/// A thread's share of the order.
fn plan(order: &Order, index: usize, thread_count: usize) -> Plan {
    let (share, shares) = (u64_of(index), u64_of(thread_count));
    #[expect(clippy::cast_precision_loss, reason = "a count of threads")]
    let part = 1.0 / thread_count as f64;
    Plan {
        workload: order.workload.clone(),
        pace: match order.pace {
            Pace::Closed => Pace::Closed,
            Pace::Even(rate) => Pace::Even(rate * part),
            Pace::Poisson(rate) => Pace::Poisson(rate * part),
        },
        pipeline: whole(order.pipeline),
        // The first threads take what does not divide.
        requests_max: match order.requests_max {
            u64::MAX => u64::MAX,
            count => count / shares + u64::from(share < count % shares),
        },
        ramp_ns: nanoseconds(order.ramp),
        in_flight_max: IN_FLIGHT_MAX,
        duration_ns: nanoseconds(order.duration),
        seed: order.seed.wrapping_add(share.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        share: (
            u32::try_from(index).expect("few threads"),
            u32::try_from(thread_count).expect("few threads"),
        ),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn u64_of(count: usize) -> u64 {
    u64::try_from(count).expect("64 bits")
}

/// Adds the engines' seconds, and shows each when the last engine is through with it.
fn gather(
    messages: &Receiver<Message>,
    returns: &[Sender<Second>],
    each: &mut impl FnMut(&Second),
) -> Vec<Done> {
    let mut merge = Merge::new(returns.len());
    let mut dones: Vec<Done> = Vec::new();
    while dones.len() < returns.len() {
        match messages.recv().expect("a thread says that it is done before it ends") {
            Message::Ready => {}
            Message::Second(index, second) => {
                merge.add(index, &second);
                // Nobody is there any more: the engine has ended.
                let _ = returns[index].send(second);
            }
            Message::Done(index, done) => {
                merge.end(index, Some(&done.end.last));
                dones.push(done);
            }
        }
        while let Some(second) = merge.take() {
            each(&second);
        }
    }
    dones
}

fn outcome(dones: Vec<Done>, stop: &Stop) -> Outcome {
    let mut outcome = Outcome { was_stopped: stop.is_set(), ..Outcome::default() };
    let last = dones.iter().map(|done| done.end.last.number).max();
    for Done { end, failure, cpu_use, late_ns } in dones {
        outcome.failure = outcome.failure.or(failure.map(|failure| failure.to_string()));
        outcome.late_ns = outcome.late_ns.max(late_ns);
        outcome.elapsed_ns = outcome.elapsed_ns.max(end.elapsed_ns);
        outcome.answered += end.answered;
        outcome.unanswered += end.unanswered;
        outcome.thread_use.push(cpu_use);
        if Some(end.last.number) == last {
            outcome.last_share = outcome.last_share.max(end.last_share);
        }
        outcome.add_error_texts(end.error_texts);
    }
    outcome
}

/// A thread's life.
#[expect(clippy::disallowed_methods, reason = "a load reads the clock")]
fn work<P: Protocol>(part: Part, protocol: P) {
    let Part { index, is_open, nodes, handovers, cpu, waiting, out, spares, stop, start, .. } = part;
    if let Some(cpu) = cpu {
        // Checked before: a cpu that went offline meanwhile is only a slower load.
        let _ = machine::pin(cpu);
    }
    machine::set_timer_slack();
    let is_spinning = is_open && waiting.spins(cpu.is_some());
    let mut net =
        Epoll::new(Limits::default()).expect("a load has descriptors: its connections are open already");
    let conns: Vec<_> = handovers
        .into_iter()
        .filter_map(|(handover, node)| net.take(handover).map(|conn| (conn, node)))
        .collect();
    // Whoever started it may have given up already; then nobody says when to begin.
    let _ = out.send(Message::Ready);
    let Ok(Start { at, plan }) = start.recv() else { return };
    while !stop.is_set() {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(Duration::from_nanos(SLEEP_NS_MAX)));
    }
    let began = Instant::now();
    let late_ns = u64::try_from(began.saturating_duration_since(at).as_nanos()).unwrap_or(u64::MAX);
    let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let cpu_before_ns = machine::thread_cpu_ns();
    let mut engine = Engine::new(plan, protocol, nodes, &conns, clock);
    let (mut failure, mut idle_ns) = (None, 0);
    loop {
        let steps = engine.steps();
        let began_ns = if is_spinning { clock() } else { 0 };
        let next = engine.turn(&mut net).unwrap_or_else(|problem| {
            failure = Some(problem);
            Next::Over
        });
        while let Some(second) = engine.take_second() {
            out.send(Message::Second(index, second)).expect("whoever started this thread waits for it");
        }
        while let Ok(second) = spares.try_recv() {
            engine.give_back(second);
        }
        if next == Next::Over || stop.is_set() {
            break;
        }
        let now_ns = clock();
        let sleep_ns = match next {
            Next::At(_) if is_spinning && engine.in_flight() > 0 => 0,
            Next::At(at_ns) if is_spinning => at_ns.saturating_sub(now_ns + AWAKE_NS),
            Next::At(at_ns) => at_ns.saturating_sub(now_ns),
            Next::Replies | Next::Over => SLEEP_NS_MAX,
        };
        if sleep_ns > 0 {
            net.wait(Some(sleep_ns.min(SLEEP_NS_MAX)));
        } else if is_spinning && engine.steps() == steps {
            idle_ns += now_ns - began_ns;
        }
    }
    let elapsed_ns = clock().max(1);
    let used_ns = machine::thread_cpu_ns().saturating_sub(cpu_before_ns).saturating_sub(idle_ns);
    let cpu_use = share(used_ns, elapsed_ns);
    let done = Done { end: engine.end(), failure, cpu_use, late_ns };
    out.send(Message::Done(index, done)).expect("whoever started this thread waits for it");
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run are far below 2^53")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
