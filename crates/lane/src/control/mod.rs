//! The control thread's part of a server, without the thread: it answers what no lane knows by itself.
//!
//! It is one more peer of every lane. A lane sends it the commands of `Scope::Control` as questions, its client waits;
//! what the answer needs from lanes comes by orders and reports; what only the machine knows comes through
//! [`Machine`]. Nothing here makes a system call or reads a clock, so that a simulation runs it too.
//!
//! ```text
//! question  ─ begin ─┬─ the answer is at hand ──────────────────────────────┐
//!                    └─ an order to lanes … their reports … ─ conclude ─────┴─ answer
//! ```
//! Each client has at most one question under way, so what waits here is bounded by the clients there are.

mod acl;
mod answers;
pub(crate) mod clients;
mod config;
mod debug;
mod files;
mod following;
mod functions;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod info;
mod lanes;
mod latency;
mod memcached;
mod migrate;
mod monitors;
mod namespaces;
mod outgoing;
mod pages;
mod pubsub;
mod queues;
mod replication;
mod scripts;
mod settings;
mod signature;
mod slowlog;
mod stalls;
mod times;
mod tracking;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use net::Handover;
use ring::Mailbox;
use wire::command::Id;
use wire::reply::Put;
use wire::route::PartitionMap;

use crate::admin::{Order, Question, Report};
use crate::board::Board;
use crate::client::Port;
use crate::peers::{AnswerHead, AnswerKind, AskHead, AskKind, ControlHead, ControlKind, Links, Parcel, Peer};
use crate::pin::Queue;
use crate::replies::Content;
use crate::{Now, Settings};
use acl::Acl;
use config::Config;
use files::Files;
pub use files::{Beside, FileKind, FileNews, FileOrder, Loaded, Source};
use following::Leaders;
pub use following::{FollowNews, FollowOrder, Followed, Primary, Terms};
use functions::KnownFunctions;
use latency::Delays;
use migrate::{Migrating, Migrations};
use monitors::Monitor;
pub use outgoing::{Outgoing, Reached};
use queues::Learning;
use replication::Replication;
use scripts::Library;
pub use signature::{CpuShares, Pages, Share, Signature, ThreadShares};
use slowlog::SlowLog;
use stalls::StallLog;
use times::OwnTimes;

/// What only the machine knows, asked when somebody wants to see it.
pub trait Machine {
    /// Memory of the process that is resident, bytes.
    fn resident_size(&mut self) -> u64;
    /// Memory of the machine, bytes.
    fn memory_size(&mut self) -> u64;
    /// Processor time of the process: in the kernel and outside it, microseconds.
    fn processor_us(&mut self) -> (u64, u64);
    /// What a lane's thread and cpu did since the last look, and where its memory lies, of which `resident_size` bytes
    /// are in use. A machine that is made up has nothing to say.
    fn signature(&mut self, _lane: u16, _resident_size: u64, _now: Now) -> Signature {
        Signature::default()
    }
    /// The receive queues of the network cards, now. The error says why they can't be had, and what to do.
    ///
    /// # Errors
    /// A sentence.
    fn queues(&mut self) -> Result<Vec<Queue>, String> {
        Ok(Vec::new())
    }
    /// Whether a network card may have come, gone or been set up anew since this was last asked.
    fn links_changed(&mut self) -> bool {
        false
    }
    /// Sees to it that so many clients can be connected.
    ///
    /// # Errors
    /// How many can, when that is fewer.
    fn allow_clients(&mut self, _count: usize) -> Result<(), usize> {
        Ok(())
    }
    /// Fills a buffer with chance that nobody can guess.
    ///
    /// # Errors
    /// A sentence.
    fn draw(&mut self, bytes: &mut [u8]) -> Result<(), String>;
    /// What is in the file of users. The error says why it can't be had.
    ///
    /// # Errors
    /// A sentence.
    fn read_users(&mut self) -> Result<Vec<u8>, String> {
        Err("there is no such file".to_owned())
    }
    /// Puts something into its place, in one step.
    ///
    /// # Errors
    /// A sentence.
    fn write_users(&mut self, _text: &[u8]) -> Result<(), String> {
        Err("there is no such file".to_owned())
    }
    /// Writes a line to the log: something is not as it should be.
    fn warn(&mut self, line: &str);
    /// Writes a line to the log: something has happened as it should.
    fn note(&mut self, _line: &str) {}
    /// Does something with files, without waiting for it. Only a machine that has some is told to.
    fn write_file(&mut self, _order: FileOrder) {}
    /// What has become of files, one thing after the other.
    fn file_news(&mut self) -> Option<FileNews> {
        None
    }
    /// Does something about the server that is followed, without waiting for it; false on a machine that can follow nobody.
    fn follow(&mut self, _order: FollowOrder) -> bool {
        false
    }
    /// What has become of it, one thing after the other.
    fn follow_news(&mut self) -> Option<FollowNews> {
        None
    }
    /// Whether the process has been asked to end since this was last asked. [`Control::shutdown`] says when it may.
    fn wants_end(&mut self) -> bool {
        false
    }
    /// It can't: what is to be saved before can't be.
    fn refuse_end(&mut self) {}
    /// Connections that the server begins itself; none on a machine that has no network.
    fn outgoing(&mut self) -> Option<&mut dyn Outgoing> {
        None
    }
    /// Writes names and values to the configuration file, for CONFIG REWRITE. Of `user` each line is a value. The error says why not.
    fn rewrite(&mut self, changed: &[(String, String)]) -> Result<(), String>;
}

/// What does not change while the server runs, as INFO shows it.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// `os`.
    pub os: String,
    /// `process_id`.
    pub process_id: u32,
    /// `executable`.
    pub executable: String,
    /// `config_file`; empty without one.
    pub config_file: String,
    /// `multiplexing_api`: the name of the I/O backend.
    pub backend: String,
    /// The shared port.
    pub port: u16,
}

/// What a control is made of.
pub struct ControlSetup {
    /// Its ends of the rings: the last of [`crate::mesh`].
    pub links: Links,
    /// What all lanes see.
    pub board: Arc<Board>,
    /// Who owns what.
    pub map: Arc<PartitionMap>,
    /// What the lanes have been told.
    pub settings: Settings,
    /// Who it is.
    pub identity: Identity,
    /// What CONFIG GET shows that is not the default: names of Redis' settings and their values.
    pub config: Vec<(String, String)>,
    /// The machine has files; what is to be loaded from them first. The lanes begin closed for that
    /// ([`Settings::is_loading`]).
    pub files: Option<Option<Source>>,
    /// The instant at which the server began.
    pub now: Now,
}

/// What the server's owner has asked for through a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// End when everything under way is answered.
    Drain,
    /// End at once.
    Now,
}

/// See the top of this file.
pub struct Control {
    peers: Vec<Option<Peer>>,
    mailbox: Arc<Mailbox>,
    board: Arc<Board>,
    map: Arc<PartitionMap>,
    settings: Settings,
    config: Config,
    identity: Identity,
    began: Now,
    lane_count: u16,
    /// Questions that wait for lanes, by the ticket that is on their orders.
    gathers: BTreeMap<u64, Gather>,
    ticket_newest: u64,
    /// Orders for which there was no room yet.
    unsent: VecDeque<(u16, u64, Order)>,
    shutdown: Option<Shutdown>,
    /// Who has said SHUTDOWN: they see the connection close.
    enders: Vec<Asker>,
    rates: info::Rates,
    times: OwnTimes,
    slow: SlowLog,
    delays: Delays,
    monitors: Vec<Monitor>,
    /// Lines for which there was no room on the way to a monitor.
    lines_dropped: u64,
    stalls: StallLog,
    learning: Learning,
    library: Library,
    acl: Acl,
    functions: KnownFunctions,
    replication: Replication,
    files: Files,
    migrations: Migrations,
    leaders: Leaders,
    /// Connections of the program's own on their way to lanes.
    inner: VecDeque<(u16, Box<Handover>)>,
    bells: Vec<u16>,
}

/// Who waits for an answer.
#[derive(Clone, Copy)]
struct Asker {
    lane: u16,
    client: u64,
    slot: u32,
    charge: u16,
    /// A transaction asks, and `client` is its name.
    is_exec: bool,
}

/// What lanes have been ordered to do, and what they have reported so far.
struct Gather {
    /// The question whose answer is made of it; none if nobody has asked.
    asked: Option<(Asker, Question)>,
    awaited: usize,
    reports: Vec<(u16, Report)>,
}

/// What a question comes to at first.
enum Begun {
    Answered,
    /// All lanes have to do this first.
    Everywhere(Order),
    /// The client waits for the server's end.
    Ending,
    /// Whoever answers later has kept who asks.
    Kept,
    /// Who asks is answered later.
    Waits,
    /// The same, when keys are at another server.
    Migrates(Box<Migrating>),
    /// The client's lane has to.
    AtHome(Order),
    /// So have the lanes that the client sees: on a lane's own port that one alone.
    InSight(Order),
}

impl Control {
    /// From now on lanes that see the same board may ask.
    pub fn new(setup: ControlSetup) -> Control {
        let ControlSetup { links, board, map, settings, identity, config, files, now } = setup;
        let config = Config::new(&config);
        board.attend();
        let mailbox = links.mailbox();
        let lane_count = u16::try_from(links.peers.len() - 1).expect("lanes are counted in 16 bits");
        Control {
            peers: links.peers,
            mailbox,
            board,
            map,
            settings,
            files: Files::new(files.is_some(), files.flatten(), &config, now),
            config,
            identity,
            began: now,
            lane_count,
            gathers: BTreeMap::new(),
            ticket_newest: 0,
            unsent: VecDeque::new(),
            shutdown: None,
            enders: Vec::new(),
            rates: info::Rates::default(),
            times: OwnTimes::new(lane_count),
            slow: SlowLog::default(),
            delays: Delays::default(),
            monitors: Vec::new(),
            lines_dropped: 0,
            stalls: StallLog::default(),
            learning: Learning::since(now),
            library: Library::default(),
            acl: Acl::default(),
            functions: KnownFunctions::default(),
            replication: Replication::default(),
            migrations: Migrations::default(),
            leaders: Leaders::default(),
            inner: VecDeque::new(),
            bells: Vec::new(),
        }
    }

    /// One round: takes reports and questions, answers what can be answered. It has to run again when something arrives
    /// in the mailbox. Nothing here is bounded in time as a lane's turn is: only other questions wait for it.
    pub fn turn(&mut self, now: Now, machine: &mut impl Machine) {
        // Looked at first: what lanes have told before their end is heard in this turn.
        let has_ended = self.board.has_ended();
        self.mailbox.collect();
        // What a lane, or who follows a primary, has told before a lane asks is known when that is answered: so questions are taken
        // first.
        let mut questions = Vec::new();
        (0..self.lane_count).for_each(|lane| self.hear_questions(lane, &mut questions));
        for lane in 0..self.lane_count {
            self.hear_reports(lane, now, machine);
            self.hear_notes(lane, now, machine);
        }
        self.hear_following(now, machine);
        for (asker, question) in questions {
            self.consider(asker, question, now, machine);
        }
        self.learn_queues(now, machine);
        self.tend_files(now, machine);
        self.tend_following(now, machine);
        if has_ended {
            self.close_stream();
        }
        self.tend_replicas(now, machine);
        self.tend_migrations(now, machine);
        // Orders reach a lane in the order in which they were given.
        let mut full = BTreeSet::new();
        for (lane, ticket, order) in std::mem::take(&mut self.unsent) {
            let unsent = if full.contains(&lane) { Err(order) } else { self.peer(lane).order(ticket, order) };
            if let Err(order) = unsent {
                full.insert(lane);
                self.unsent.push_back((lane, ticket, order));
            }
        }
        self.bells.clear();
        for (lane, peer) in (0..).zip(&mut self.peers) {
            if peer.as_mut().is_some_and(Peer::publish) {
                self.bells.push(lane);
            }
        }
    }

    /// Where lanes say that they have something. The runner declares sleep there before it waits.
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// The lanes whose bells the last turn made due: they sleep, and have something to do now.
    pub fn bells(&self) -> &[u16] {
        &self.bells
    }

    /// Whether a client has said SHUTDOWN.
    pub fn shutdown(&self) -> Option<Shutdown> {
        self.shutdown
    }

    /// Whether no question is under way.
    pub fn is_idle(&self) -> bool {
        self.gathers.is_empty() && self.unsent.is_empty() && self.migrations.is_idle()
    }

    fn peer(&mut self, lane: u16) -> &mut Peer {
        self.peers[usize::from(lane)].as_mut().expect("the control thread has a peer for every lane")
    }

    fn pass_inner(&mut self) {
        while let Some((lane, handover)) = self.inner.pop_front() {
            let head = ControlHead { target: 0, round: 0, kind: ControlKind::Inner };
            let mut parcel = Some(Parcel::Handover(handover));
            if !self.peer(lane).try_tell(head, &mut parcel)
                && let Some(Parcel::Handover(handover)) = parcel
            {
                return self.inner.push_front((lane, handover));
            }
        }
    }

    /// What lanes tell without being asked.
    fn hear_notes(&mut self, lane: u16, now: Now, machine: &mut impl Machine) {
        loop {
            let control = &mut self.peer(lane).control_in;
            let Some(frame) = control.peek() else { break };
            let head = ControlHead::decode(frame);
            let parcel = control.take_parcel();
            control.pop();
            match (head.kind, parcel) {
                (ControlKind::Slow, Some(Parcel::Slow(slow))) => self.note_slow(*slow),
                (ControlKind::Lines, Some(Parcel::Lines(lines))) => self.pass_lines(lane, &lines),
                (ControlKind::MonitorGone, None) => self.end_monitor(lane, head.target),
                (ControlKind::Stall, Some(Parcel::Stall(stall))) => {
                    let meter_per_us = self.settings.meter_per_us;
                    if let Some(line) = self.stalls.note(lane, &stall, now.mono_ns, meter_per_us) {
                        machine.warn(&line);
                    }
                }
                (ControlKind::UnknownQueue, None) => self.note_unknown_queue(),
                (ControlKind::Said, Some(Parcel::Said(said))) => {
                    if let Some(line) = scripts::said(&said, self.config.value("loglevel")) {
                        machine.warn(&line);
                    }
                }
                (ControlKind::Record, Some(Parcel::Record(record))) => {
                    self.hear_record(*record, now, machine)
                }
                (ControlKind::Denied, Some(Parcel::Denial(denial))) => self.note_denial(*denial, now),
                (ControlKind::Acked, Some(Parcel::Offset(offset))) => {
                    self.hear_ack(lane, head.target, *offset, now);
                }
                (ControlKind::Acked, None) => self.hear_life(lane, head.target, now),
                (ControlKind::Taken, None) => self.hear_taken(lane, head.target, head.round as usize, now),
                (ControlKind::ReplicaGone, None) => self.hear_gone(lane, head.target, now, machine),
                (ControlKind::WaiterGone, None) => self.forget_waiter(lane, head.target),
                _ => unreachable!(
                    "lanes tell the control thread of what took too long or was denied, monitoring, queues, scripts and replicas"
                ),
            }
        }
        self.peer(lane).control_in.release();
    }

    fn hear_questions(&mut self, lane: u16, questions: &mut Vec<(Asker, Question)>) {
        loop {
            let asks = &mut self.peer(lane).asks_in;
            let Some(frame) = asks.peek() else { break };
            let (head, _) = AskHead::decode(frame);
            let parcel = asks.take_parcel();
            asks.pop();
            let (AskKind::Question | AskKind::ExecQuestion, Some(Parcel::Question(question))) =
                (head.kind, parcel)
            else {
                unreachable!("lanes ask the control thread questions")
            };
            let is_exec = head.kind == AskKind::ExecQuestion;
            let asker = Asker { lane, client: head.client, slot: head.slot, charge: head.charge, is_exec };
            questions.push((asker, *question));
        }
        self.peer(lane).asks_in.release();
    }

    fn consider(&mut self, asker: Asker, question: Question, now: Now, machine: &mut impl Machine) {
        let mut out = Vec::new();
        let (lanes, order) = match self.begin(asker, &question, now, machine, &mut out) {
            Begun::Answered => {
                self.answer(asker, &out);
                return self.took(asker, &question, now);
            }
            Begun::Ending => return self.enders.push(asker),
            Begun::Kept => return,
            Begun::Waits => return self.put_off(asker),
            Begun::Migrates(migrating) => {
                self.put_off(asker);
                return self.admit_migrate(asker, question, *migrating, now);
            }
            Begun::Everywhere(order) => (0..self.lane_count, order),
            Begun::AtHome(order) => (asker.lane..asker.lane + 1, order),
            Begun::InSight(order) if question.from.port == Port::Lane => (asker.lane..asker.lane + 1, order),
            Begun::InSight(order) => (0..self.lane_count, order),
        };
        self.give(lanes, &order, Some((asker, question)));
    }

    /// Who asks is answered later.
    fn put_off(&mut self, asker: Asker) {
        let Asker { lane, client, slot, charge, is_exec } = asker;
        if !is_exec {
            self.peer(lane).put_off(AnswerHead { target: client, slot, charge, kind: AnswerKind::Later });
        }
    }

    /// Orders something of lanes, for somebody who has asked or for nobody; gives the ticket.
    fn give(&mut self, lanes: Range<u16>, order: &Order, asked: Option<(Asker, Question)>) -> u64 {
        self.ticket_newest += 1;
        let ticket = self.ticket_newest;
        self.gathers.insert(ticket, Gather { asked, awaited: lanes.len(), reports: Vec::new() });
        for lane in lanes {
            self.unsent.push_back((lane, ticket, order.clone()));
        }
        ticket
    }

    /// Lanes hold commands back: CLIENT PAUSE is answered when what had begun before is over, too. Not inside MULTI, which it would wait for.
    fn settle_pause(
        &mut self,
        asker: Asker,
        question: Question,
        reports: &[(u16, Report)],
    ) -> Option<(Asker, Question)> {
        let is_held = matches!(reports.first(), Some((_, Report::Done)));
        if question.command.id != Id::ClientPause || asker.is_exec || !is_held {
            return Some((asker, question));
        }
        self.give(0..self.lane_count, &Order::Settle, Some((asker, question)));
        None
    }

    fn hear_reports(&mut self, lane: u16, now: Now, machine: &mut impl Machine) {
        loop {
            let peer = self.peer(lane);
            let Some(frame) = peer.answers_in.peek() else { break };
            let (head, _) = AnswerHead::decode(frame);
            let parcel = peer.answers_in.take_parcel();
            peer.answers_in.pop();
            peer.credit(usize::from(head.charge), 1, 0);
            let Some(Parcel::Report(report)) = parcel else {
                unreachable!("lanes send the control thread reports")
            };
            let gather = self.gathers.get_mut(&head.target).expect("a question waits for all its reports");
            let report = match *report {
                Report::Piece { sync, content, is_over } => {
                    self.gathers.remove(&head.target);
                    self.hear_piece(lane, sync, content, is_over);
                    continue;
                }
                Report::Departing(found) => {
                    self.gathers.remove(&head.target);
                    self.hear_read(lane, head.target, found);
                    continue;
                }
                Report::Departed { is_changed } => {
                    self.gathers.remove(&head.target);
                    self.hear_deleted(lane, head.target, is_changed);
                    continue;
                }
                report => report,
            };
            gather.reports.push((lane, report));
            gather.awaited -= 1;
            if gather.awaited == 0 {
                let ticket = head.target;
                let Gather { asked, mut reports, .. } = self.gathers.remove(&head.target).expect("just seen");
                reports.sort_by_key(|(lane, _)| *lane);
                let asked = asked
                    .and_then(|(asker, question)| self.track_further(asker, question, &reports))
                    .and_then(|(asker, question)| self.settle_pause(asker, question, &reports));
                if let Some((asker, question)) = asked {
                    let mut out = Vec::new();
                    if reports.iter().any(|(_, report)| matches!(report, Report::Replica(true))) {
                        self.admit_replica(asker, &question, now, machine);
                    }
                    self.conclude(&question, reports, now, machine, &mut out);
                    self.answer(asker, &out);
                    self.took(asker, &question, now);
                } else {
                    self.hear_counts(ticket, &reports);
                }
            }
        }
        self.peer(lane).answers_in.release();
    }

    fn answer(&mut self, asker: Asker, bytes: &[u8]) {
        let Asker { lane, client, slot, charge, is_exec } = asker;
        if is_exec {
            let mut content = Content::default();
            content.put(bytes);
            return self.peer(lane).answer_exec(client, charge, content);
        }
        let head = AnswerHead { target: client, slot, charge, kind: AnswerKind::Inline };
        self.peer(lane).answer(head, bytes, Content::default());
    }
}
