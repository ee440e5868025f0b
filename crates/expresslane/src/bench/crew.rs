//! A load under way: threads, each with an engine over its share of the connections, and the seconds they hand over.
//!
//! Everything that can take time happens before the first request: connecting, logging in, asking for the cluster's slots. Then all
//! threads begin at once. A second that is over goes to the thread that started them, which adds those of all engines and gives
//! the memory back, so that a load never waits for whoever writes its results down.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use load::connect::{Connected, Dialect, Endpoint, Login, cluster};
use load::engine::{End, Engine, ErrorText, Failure, Next, Nodes, Pace, Plan};
use load::protocol::{Protocol, memcached, resp};
use load::record::Second;
use load::workload::Workload;
use net::epoll::Epoll;
use net::{Handover, Limits, Net, Wait};

use super::settings::Waiting;
use super::stop::Stop;
use crate::machine;

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
}

/// What came of it, beside the seconds.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) failure: Option<Failure>,
    pub(super) was_stopped: bool,
    pub(super) elapsed_ns: u64,
    pub(super) last_share: f64,
    pub(super) answered: u64,
    pub(super) unanswered: u64,
    pub(super) error_texts: Vec<ErrorText>,
    /// Of each thread, the share of a core that its work took; looking at the clock for what is due is none.
    pub(super) thread_use: Vec<f64>,
}

enum Message {
    Second(usize, Second),
    Done(Done),
}

struct Done {
    end: End,
    failure: Option<Failure>,
    cpu_use: f64,
}

/// One thread's part, ready to begin.
struct Part {
    index: usize,
    plan: Plan,
    nodes: Nodes,
    handovers: Vec<(Handover, usize)>,
    cpu: Option<usize>,
    waiting: Waiting,
    out: Sender<Message>,
    spares: Receiver<Second>,
    stop: Stop,
    start: Arc<Barrier>,
}

/// Makes the load, and shows `each` of its seconds, oldest first, as soon as all threads are through with it. What is left of the
/// last one comes at the end.
///
/// # Errors
/// It can't begin, in words that say what to do. What goes wrong later is part of the outcome.
pub(super) fn load(order: &Order, stop: &Stop, mut each: impl FnMut(&Second)) -> Result<Outcome, String> {
    let (nodes, endpoints) = if order.is_cluster {
        cluster(&order.endpoint, &order.login).map_err(|error| error.to_string())?
    } else {
        (Nodes::one(), vec![order.endpoint.clone()])
    };
    let node_count = nodes.count();
    let thread_count = usize::from(order.thread_count).min(per(order.connection_count, node_count));
    let connection_count = whole(order.connection_count).max(node_count * thread_count);
    let (out, messages) = channel();
    let start = Arc::new(Barrier::new(thread_count));
    let (mut parts, mut returns) = (Vec::new(), Vec::new());
    for index in 0..thread_count {
        let (give_back, spares) = channel();
        returns.push(give_back);
        parts.push(Part {
            index,
            plan: plan(order, index, thread_count),
            nodes: nodes.clone(),
            handovers: Vec::new(),
            cpu: (!order.cpus.is_empty()).then(|| order.cpus[index % order.cpus.len()]),
            waiting: order.waiting,
            out: out.clone(),
            spares,
            stop: stop.clone(),
            start: Arc::clone(&start),
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
        let thread = std::thread::Builder::new().name(name).spawn(move || match dialect {
            Dialect::Resp2 | Dialect::Resp3 => {
                let resp = resp::Resp::new(&part.plan.workload);
                work(part, resp);
            }
            Dialect::Memcached => {
                let text = memcached::Text::new(&part.plan.workload);
                work(part, text);
            }
        });
        threads.push(thread.map_err(|error| format!("a thread can't be started: {error}"))?);
    }
    let dones = gather(&messages, &returns, &mut each);
    for thread in threads {
        assert!(thread.join().is_ok(), "a load's thread ends by itself");
    }
    Ok(outcome(dones, stop))
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

/// Seconds that not all engines are through with, by their number, with how many have handed theirs over whole.
#[derive(Default)]
struct UnderWay(BTreeMap<u32, (Second, usize)>);

impl UnderWay {
    /// One engine's second, or, of one that has ended, what there is of it.
    fn add(&mut self, second: &Second, is_whole: bool) {
        match self.0.get_mut(&second.number) {
            Some((sum, count)) => {
                sum.add(second);
                *count += usize::from(is_whole);
            }
            None => {
                self.0.insert(second.number, (second.clone(), usize::from(is_whole)));
            }
        }
    }

    /// The oldest, if the engines that still run are all through with it.
    fn take(&mut self, running_count: usize) -> Option<Second> {
        let oldest = self.0.first_entry()?;
        (running_count == 0 || oldest.get().1 >= running_count).then(|| oldest.remove().0)
    }
}

/// Adds the engines' seconds, and shows each when the last engine is through with it.
fn gather(
    messages: &Receiver<Message>,
    returns: &[Sender<Second>],
    each: &mut impl FnMut(&Second),
) -> Vec<Done> {
    let mut under_way = UnderWay::default();
    let mut dones: Vec<Done> = Vec::new();
    while dones.len() < returns.len() {
        match messages.recv().expect("a thread says that it is done before it ends") {
            Message::Second(index, second) => {
                under_way.add(&second, true);
                // Nobody is there any more: the engine has ended.
                let _ = returns[index].send(second);
            }
            Message::Done(done) => {
                under_way.add(&done.end.last, false);
                dones.push(done);
            }
        }
        while let Some(second) = under_way.take(returns.len() - dones.len()) {
            each(&second);
        }
    }
    dones
}

fn outcome(dones: Vec<Done>, stop: &Stop) -> Outcome {
    let mut outcome = Outcome {
        failure: None,
        was_stopped: stop.is_set(),
        elapsed_ns: 0,
        last_share: 0.0,
        answered: 0,
        unanswered: 0,
        error_texts: Vec::new(),
        thread_use: Vec::new(),
    };
    let last = dones.iter().map(|done| done.end.last.number).max();
    for Done { end, failure, cpu_use } in dones {
        outcome.failure = outcome.failure.or(failure);
        outcome.elapsed_ns = outcome.elapsed_ns.max(end.elapsed_ns);
        outcome.answered += end.answered;
        outcome.unanswered += end.unanswered;
        outcome.thread_use.push(cpu_use);
        if Some(end.last.number) == last {
            outcome.last_share = outcome.last_share.max(end.last_share);
        }
        for text in end.error_texts {
            match outcome.error_texts.iter_mut().find(|known| known.text == text.text) {
                Some(known) => known.count += text.count,
                None => outcome.error_texts.push(text),
            }
        }
    }
    outcome
}

/// A thread's life.
#[expect(clippy::disallowed_methods, reason = "a load reads the clock")]
fn work<P: Protocol>(part: Part, protocol: P) {
    let Part { index, plan, nodes, handovers, cpu, waiting, out, spares, stop, start } = part;
    if let Some(cpu) = cpu {
        // Checked before: a cpu that went offline meanwhile is only a slower load.
        let _ = machine::pin(cpu);
    }
    machine::set_timer_slack();
    let is_spinning = plan.pace != Pace::Closed && waiting.spins(cpu.is_some());
    let mut net =
        Epoll::new(Limits::default()).expect("a load has descriptors: its connections are open already");
    let conns: Vec<_> = handovers
        .into_iter()
        .filter_map(|(handover, node)| net.take(handover).map(|conn| (conn, node)))
        .collect();
    start.wait();
    let began = Instant::now();
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
    let done = Done { end: engine.end(), failure, cpu_use };
    out.send(Message::Done(done)).expect("whoever started this thread waits for it");
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run are far below 2^53")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::workload::Operation;

    fn second(number: u32, begun: u64) -> Second {
        Second { number, begun, ..Second::new([Operation::Get].into_iter()) }
    }

    /// One engine of three ends early: its last second is part of the others', and none comes twice or out of order.
    #[test]
    fn a_second_is_shown_once_all_are_through_with_it() {
        let mut under_way = UnderWay::default();
        let mut shown = Vec::new();
        let mut step = |number: u32, begun: u64, is_whole: bool, running_count: usize| {
            under_way.add(&second(number, begun), is_whole);
            while let Some(second) = under_way.take(running_count) {
                shown.push((second.number, second.begun));
            }
        };
        step(0, 1, true, 3);
        step(1, 1, true, 3);
        step(0, 10, true, 3);
        step(0, 100, true, 3);
        step(1, 10, true, 3);
        step(1, 100, false, 2);
        step(2, 1, true, 2);
        step(2, 10, false, 1);
        step(3, 1, false, 0);
        assert_eq!(shown, [(0, 111), (1, 111), (2, 11), (3, 1)]);
    }
}
