//! The coordinator: connections to all agents, and a load that they make together.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use load::agents::clock::{Offset, Sample, skew_ms};
use load::agents::division;
use load::agents::handshake::Secret;
use load::agents::message::{Answer, Ask, Describe, Described, Ping, Start};
use load::agents::{AGENTS_MAX, Breach};
use load::record::{SECOND_NS, Second};

use super::gather::Gathering;
use super::settings::{AgentAddress, AgentsSettings};
use super::stream::{self, Incoming, Outgoing};
use super::{secret, task};
use crate::bench::Trouble;
use crate::bench::crew::{Order, Outcome};
use crate::bench::settings::THREADS_MAX;
use crate::clock::Clock;
use crate::stop::Stop;

/// Between two signs of life; an agent that misses six of them ends its load.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Questions of a measurement of clocks; the one with the shortest way counts.
const PINGS_COUNT: usize = 32;
/// How long one of them is waited for.
const PING_PATIENCE: Duration = Duration::from_secs(1);
/// From the order until the start: long enough to reach every agent.
const AHEAD_NS: u64 = 300_000_000;
/// Between looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Calls of an agent that is busy, one a [`LOOK`].
const CALLS_COUNT_MAX: u32 = 10;
/// How long an agent has for ending its load, or for describing its machine.
const PATIENCE_NS: u64 = 15 * SECOND_NS;

/// The agents of a coordinator. Clones are one.
#[derive(Clone)]
pub(in crate::bench) struct Agents(Arc<Mutex<Fleet>>);

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Agents")
    }
}

/// Those who load, and the one beside the server.
pub(in crate::bench) struct Hosts {
    /// None: this process loads.
    pub(in crate::bench) agents: Option<Agents>,
    server: Option<Agents>,
}

impl Hosts {
    /// Connects to all of them.
    ///
    /// # Errors
    /// One is not there, is busy or is somebody else: in words that name it.
    pub(in crate::bench) fn of(settings: &AgentsSettings) -> Result<Hosts, Trouble> {
        let AgentsSettings { agents, server_agent, secret_file } = settings;
        if agents.is_empty() && server_agent.is_none() {
            return match secret_file {
                Some(_) => Err(Trouble::usage("--secret-file is for --agents and --server-agent")),
                None => Ok(Hosts { agents: None, server: None }),
            };
        }
        let all: Vec<&AgentAddress> = agents.iter().chain(server_agent).collect();
        if let Some(twice) = (1..all.len()).find(|at| all[..*at].contains(&all[*at])) {
            return Err(Trouble::usage(format!(
                "{} is named twice, and an agent has one part in a load",
                all[twice]
            )));
        }
        if agents.len() > AGENTS_MAX {
            return Err(Trouble::usage(format!("a load has up to {AGENTS_MAX} agents")));
        }
        let secret = secret::secret(secret_file.as_deref()).map_err(Trouble::usage)?;
        let secret = secret.unwrap_or_else(Secret::none);
        let fleet = |addresses: &[AgentAddress]| match addresses {
            [] => Ok(None),
            _ => Fleet::call(addresses, &secret).map(|fleet| Some(Agents(Arc::new(Mutex::new(fleet))))),
        };
        let all = || Ok(Hosts { agents: fleet(agents)?, server: fleet(server_agent.as_slice())? });
        all().map_err(|problem: String| Trouble::load(problem))
    }

    /// The machines of all of them: side, name and what was seen; before the first load also whether they are quiet. Those that
    /// don't say are left out.
    pub(in crate::bench) fn described(&self, is_before: bool) -> Vec<(&'static str, String, Described)> {
        let sides = [("client", &self.agents), ("server", &self.server)];
        let of = |(side, agents): (&'static str, &Option<Agents>)| {
            let described =
                agents.as_ref().map(|agents| agents.fleet().describe(is_before)).unwrap_or_default();
            described.into_iter().map(move |(name, described)| (side, name, described)).collect::<Vec<_>>()
        };
        sides.into_iter().flat_map(of).collect()
    }
}

/// Agents that are called anew for each set-up, in as many groups as it has loads: an agent makes one load at a time.
pub(in crate::bench) struct Roster {
    agents: Vec<AgentAddress>,
    secret: Secret,
}

impl Roster {
    /// Of the agents that were named. None: there are none, and this process loads.
    ///
    /// # Errors
    /// Their secret can't be had.
    pub(in crate::bench) fn of(settings: &AgentsSettings) -> Result<Option<Roster>, String> {
        let AgentsSettings { agents, server_agent, secret_file } = settings;
        if server_agent.is_some() {
            return Err(
                "--server-agent is for servers elsewhere: these are started on this machine".to_owned()
            );
        }
        if agents.is_empty() {
            return match secret_file {
                Some(_) => Err("--secret-file is for --agents".to_owned()),
                None => Ok(None),
            };
        }
        let secret = secret::secret(secret_file.as_deref())?.unwrap_or_else(Secret::none);
        Ok(Some(Roster { agents: agents.clone(), secret }))
    }

    /// How many.
    pub(in crate::bench) fn count(&self) -> usize {
        self.agents.len()
    }

    /// Connects to them in so many groups of up to `most` each, the first agents first.
    ///
    /// # Errors
    /// One is not there, is busy or is somebody else: in words that name it.
    pub(in crate::bench) fn groups(&self, count: usize, most: usize) -> Result<Vec<Agents>, String> {
        let call = |agents: Vec<AgentAddress>| {
            Fleet::call(&agents, &self.secret).map(|fleet| Agents(Arc::new(Mutex::new(fleet))))
        };
        dealt(&self.agents, count, most).map(call).collect()
    }
}

/// In turn to so many groups, each of up to `most`.
fn dealt<T: Clone>(all: &[T], count: usize, most: usize) -> impl Iterator<Item = Vec<T>> {
    (0..count).map(move |group| all.iter().skip(group).step_by(count).take(most).cloned().collect())
}

impl Agents {
    fn fleet(&self) -> std::sync::MutexGuard<'_, Fleet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many.
    pub(in crate::bench) fn count(&self) -> u32 {
        u32::try_from(self.fleet().links.len()).expect("few agents")
    }

    /// As [`crew::load`](crate::bench::crew::load), from all agents together.
    ///
    /// # Errors
    /// One of them can't begin. The others are let go.
    pub(in crate::bench) fn load(
        &self,
        order: &Order,
        stop: &Stop,
        each: impl FnMut(&Second),
    ) -> Result<Outcome, String> {
        let mut fleet = self.fleet();
        let result = fleet.load(order, stop, each);
        if result.is_err() {
            fleet.links.iter_mut().for_each(|link| link.lose("another agent could not begin"));
        }
        result
    }
}

/// What was heard of an agent.
enum Event {
    /// At that time.
    Said(Answer, u64),
    /// Nothing more will be.
    Lost(String),
}

/// One agent's connection.
struct Link {
    name: String,
    out: Arc<Mutex<Outgoing>>,
    samples: Vec<Sample>,
    /// Its wall clock minus ours, as it was last heard.
    wall_skew_ms: i64,
    lost: Option<String>,
    /// The heart stops with it.
    _heart: Sender<()>,
}

impl Link {
    fn send(&mut self, ask: &Ask) {
        let sent = self.out.lock().unwrap_or_else(PoisonError::into_inner).send(ask);
        if let Err(why) = sent {
            self.lose(&why);
        }
    }

    /// It is not spoken to any more, and learns of it.
    fn lose(&mut self, why: &str) {
        self.lost.get_or_insert_with(|| why.to_owned());
        self.out.lock().unwrap_or_else(PoisonError::into_inner).close();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.lose("the coordinator has ended");
    }
}

struct Fleet {
    clock: Clock,
    links: Vec<Link>,
    events: Receiver<(usize, Event)>,
}

impl Fleet {
    fn call(addresses: &[AgentAddress], secret: &Secret) -> Result<Fleet, String> {
        let clock = Clock::new();
        let (out, events) = channel();
        let mut links = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let named = |problem: String| format!("agent {address}: {problem}");
            let (outgoing, incoming) = welcomed(address, secret).map_err(named)?;
            let outgoing = Arc::new(Mutex::new(outgoing));
            let (heart, beats) = channel();
            let (heard, speaking) = (out.clone(), Arc::clone(&outgoing));
            let name = |what: &str| std::thread::Builder::new().name(format!("{what} {address}"));
            name("hears")
                .spawn(move || hear(index, incoming, &heard, clock))
                .and_then(|_| name("beats").spawn(move || beat(&beats, &speaking, clock)))
                .map_err(|error| named(format!("a thread can't be started: {error}")))?;
            links.push(Link {
                name: address.to_string(),
                out: outgoing,
                samples: Vec::new(),
                wall_skew_ms: 0,
                lost: None,
                _heart: heart,
            });
        }
        Ok(Fleet { clock, links, events })
    }

    /// The next thing that was said and is not about clocks or losses: those are noted at the links.
    fn next(&mut self, patience: Duration) -> Option<(usize, Answer)> {
        let (agent, event) = match self.events.recv_timeout(patience) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        };
        let link = &mut self.links[agent];
        match event {
            Event::Lost(why) => link.lose(&why),
            // What was on its way when it was given up.
            Event::Said(..) if link.lost.is_some() => {}
            Event::Said(Answer::Pong(pong), back_ns) => {
                let sample = Sample {
                    sent_ns: pong.sent_ns,
                    received_ns: pong.received_ns,
                    answered_ns: pong.answered_ns,
                    back_ns,
                };
                if link.samples.len() < PINGS_COUNT {
                    link.samples.push(sample);
                }
                link.wall_skew_ms = skew_ms(pong.unix_ms, self.clock.unix_ms());
            }
            Event::Said(answer, _) => return Some((agent, answer)),
        }
        None
    }

    /// What was said where only clocks are spoken of.
    fn untimely(&mut self, said: Option<(usize, Answer)>) {
        if let Some((agent, _)) = said {
            self.links[agent].lose(&Breach::Untimely("an answer to no question".to_owned()).to_string());
        }
    }

    fn present(&self) -> Vec<usize> {
        (0..self.links.len()).filter(|agent| self.links[*agent].lost.is_none()).collect()
    }

    /// Offsets and skews of those who are there, now.
    fn measure(&mut self) -> Vec<Option<(Offset, i64)>> {
        self.links.iter_mut().for_each(|link| link.samples.clear());
        for round in 1..=PINGS_COUNT {
            let until_ns = self.clock.mono_ns() + nanoseconds(PING_PATIENCE);
            for agent in self.present() {
                let sent_ns = self.clock.mono_ns();
                self.links[agent].send(&Ask::Ping(Ping { sent_ns }));
            }
            let is_owed = |fleet: &Fleet| {
                fleet.present().into_iter().any(|agent| fleet.links[agent].samples.len() < round)
            };
            while is_owed(self) && self.clock.mono_ns() < until_ns {
                let said = self.next(PING_PATIENCE);
                self.untimely(said);
            }
        }
        let of = |link: &Link| {
            let offset = Offset::of(link.samples.iter().copied()).filter(|_| link.lost.is_none());
            offset.map(|offset| (offset, link.wall_skew_ms))
        };
        self.links.iter().map(of).collect()
    }

    /// The machines of those who say.
    fn describe(&mut self, is_before: bool) -> Vec<(String, Described)> {
        for agent in self.present() {
            self.links[agent].send(&Ask::Describe(Describe { is_before }));
        }
        let until_ns = self.clock.mono_ns() + PATIENCE_NS;
        let mut described: Vec<Option<Described>> = self.links.iter().map(|_| None).collect();
        let is_owed = |fleet: &Fleet, described: &[Option<Described>]| {
            fleet.present().into_iter().any(|agent| described[agent].is_none())
        };
        while is_owed(self, &described) && self.clock.mono_ns() < until_ns {
            match self.next(LOOK) {
                Some((agent, Answer::Described(one))) => described[agent] = Some(one),
                said => self.untimely(said),
            }
        }
        let named = self.links.iter().zip(described);
        named.filter_map(|(link, described)| Some((link.name.clone(), described?))).collect()
    }

    /// Whoever is not there any more ends a load before it begins.
    fn check(&self) -> Result<(), String> {
        let lost = self.links.iter().find_map(|link| Some((&link.name, link.lost.as_ref()?)));
        lost.map_or(Ok(()), |(name, why)| Err(format!("agent {name} was lost: {why}")))
    }

    fn load(&mut self, order: &Order, stop: &Stop, mut each: impl FnMut(&Second)) -> Result<Outcome, String> {
        let Some(thread_counts) = self.prepare(order, stop)? else {
            return Ok(Outcome { was_stopped: true, ..Outcome::default() });
        };
        let clocks = self.measure();
        self.check()?;
        let (firsts, of) = division::threads(&thread_counts).ok_or("more threads than can be counted")?;
        let at_ns = self.clock.mono_ns() + AHEAD_NS;
        for ((link, clock), first) in self.links.iter_mut().zip(&clocks).zip(firsts) {
            let theirs_ns = clock.as_ref().and_then(|(offset, _)| offset.theirs_ns(at_ns));
            let theirs_ns =
                theirs_ns.ok_or_else(|| format!("agent {}: its clock can't be read", link.name))?;
            link.send(&Ask::Start(Start { at_ns: theirs_ns, first, of }));
        }
        let names = self.links.iter().map(|link| link.name.as_str());
        let offsets = clocks.iter().map(|clock| clock.map(|(offset, _)| offset));
        let mut gathering = Gathering::new(names.zip(offsets), &order.workload);
        self.gather(&mut gathering, at_ns, stop, &mut each);
        let clocks = self.measure();
        Ok(gathering.outcome(&clocks, stop.is_set()))
    }

    /// Lets all of them connect; how many threads each has then. None: it was stopped.
    fn prepare(&mut self, order: &Order, stop: &Stop) -> Result<Option<Vec<u32>>, String> {
        self.check()?;
        let count = u32::try_from(self.links.len()).expect("few agents");
        let parts = division::connections(order.connection_count, count).ok_or_else(|| {
            format!("{} connections are fewer than {count} agents: each needs one", order.connection_count)
        })?;
        for (link, part) in self.links.iter_mut().zip(parts) {
            link.send(&Ask::Prepare(Box::new(task::task(order, part))));
        }
        let mut thread_counts: Vec<Option<u32>> = vec![None; self.links.len()];
        while thread_counts.contains(&None) {
            if stop.is_set() {
                self.links.iter_mut().for_each(|link| link.lose("stopped by hand"));
                return Ok(None);
            }
            match self.next(LOOK) {
                Some((agent, Answer::Ready(ready)))
                    if (1..=u32::from(THREADS_MAX)).contains(&ready.thread_count) =>
                {
                    thread_counts[agent] = Some(ready.thread_count);
                }
                Some((agent, Answer::Refused(refused))) => {
                    return Err(format!("agent {}: {}", self.links[agent].name, refused.problem));
                }
                said => self.untimely(said),
            }
            self.check()?;
        }
        Ok(Some(thread_counts.into_iter().flatten().collect()))
    }

    /// From the start until no agent loads any more.
    fn gather(&mut self, gathering: &mut Gathering, at_ns: u64, stop: &Stop, each: &mut impl FnMut(&Second)) {
        let mut stopped_ns = None;
        loop {
            let now_ns = self.clock.mono_ns();
            let elapsed_s = u32::try_from(now_ns.saturating_sub(at_ns) / SECOND_NS).unwrap_or(u32::MAX);
            for agent in gathering.behind(elapsed_s) {
                self.links[agent].lose("its seconds don't come any more");
            }
            if stopped_ns.is_some_and(|stopped_ns| now_ns > stopped_ns + PATIENCE_NS) {
                let running: Vec<usize> = gathering.running().collect();
                running.into_iter().for_each(|agent| self.links[agent].lose("it does not stop"));
            }
            for (agent, link) in self.links.iter().enumerate() {
                if let Some(why) = &link.lost {
                    gathering.lose(agent, why);
                }
            }
            if stopped_ns.is_none() && (stop.is_set() || gathering.has_lost()) {
                stopped_ns = Some(now_ns);
                let running: Vec<usize> = gathering.running().collect();
                running.into_iter().for_each(|agent| self.links[agent].send(&Ask::Stop));
            }
            while let Some(second) = gathering.take() {
                each(&second);
            }
            if gathering.running().next().is_none() {
                return;
            }
            if let Some((agent, answer)) = self.next(LOOK)
                && let Err(breach) = gathering.heard(agent, answer)
            {
                self.links[agent].lose(&breach.to_string());
            }
        }
    }
}

/// Connects, and has the agent for itself.
fn welcomed(address: &AgentAddress, secret: &Secret) -> Result<(Outgoing, Incoming), String> {
    for attempt in 1.. {
        let (out, mut incoming) = stream::call(address, secret.clone())?;
        match incoming.next::<Answer>()? {
            Answer::Welcome => return Ok((out, incoming)),
            // One that has just ended is still being let go.
            Answer::Busy(_) if attempt < CALLS_COUNT_MAX => pause(),
            Answer::Busy(busy) => {
                return Err(format!(
                    "busy with the coordinator {} for {} s; an agent serves one at a time",
                    busy.with, busy.since_s
                ));
            }
            _ => return Err(Breach::Untimely("no welcome".to_owned()).to_string()),
        }
    }
    unreachable!("the last attempt returns")
}

#[expect(clippy::disallowed_methods, reason = "nothing else is to be done meanwhile")]
fn pause() {
    std::thread::sleep(LOOK);
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Hears an agent until it hangs up or falls silent.
fn hear(agent: usize, mut incoming: Incoming, heard: &Sender<(usize, Event)>, clock: Clock) {
    loop {
        let event = match incoming.next::<Answer>() {
            Ok(answer) => Event::Said(answer, clock.mono_ns()),
            Err(why) => Event::Lost(why),
        };
        let is_last = matches!(event, Event::Lost(_));
        if heard.send((agent, event)).is_err() || is_last {
            return;
        }
    }
}

/// Gives signs of life until the link is dropped. Whether they arrive, whoever hears notices.
fn beat(beats: &Receiver<()>, out: &Mutex<Outgoing>, clock: Clock) {
    while beats.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
        let ping = Ask::Ping(Ping { sent_ns: clock.mono_ns() });
        if out.lock().unwrap_or_else(PoisonError::into_inner).send(&ping).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_dealt_in_turn_and_those_beyond_the_most_are_left_out() {
        let check = |count: usize, most: usize, want: &[&[u32]]| {
            assert_eq!(dealt(&[1, 2, 3, 4, 5], count, most).collect::<Vec<_>>(), want, "{count} of {most}");
        };
        check(1, 9, &[&[1, 2, 3, 4, 5]]);
        check(2, 9, &[&[1, 3, 5], &[2, 4]]);
        check(2, 1, &[&[1], &[2]]);
        check(5, 2, &[&[1], &[2], &[3], &[4], &[5]]);
    }
}
