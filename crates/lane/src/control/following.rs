//! REPLICAOF: this server follows another one. docs/replication.md is the lecture.
//!
//! ```text
//!                      ┌───────────────────────────────── gone ─────────────────────────────────┐
//! nobody ─ REPLICAOF ─▶ connects ─▶ greets ─▶ (lanes close) ─▶ all it has ─▶ (lanes open) ─▶ in step
//!                                           └────────── where it was ───────────────────────────▲
//! ```
//! The connection is the program's ([`FollowOrder`], [`FollowNews`]), and what comes over it goes to lanes as commands of connections of
//! its own. Clients only read meanwhile. The lanes end no key: the other server says which are gone.

use std::fmt::Write;
use std::sync::Arc;

use wire::number::parse_i64;
use wire::reply::{self, OK, Put};

mod told;

use super::{Asker, Begun, Control, Machine};
use crate::admin::{Order, Question};
use crate::oversight::LOADING;
use crate::request::Args;
use crate::{Following, Now};
pub use told::{FollowNews, FollowOrder, Followed, Primary, Terms};

/// The one that is followed.
struct Leader {
    number: u64,
    primary: Primary,
    state: State,
    /// Where in its stream this server is, if it has begun.
    offset: Option<u64>,
    /// When it was heard last.
    heard_ns: u64,
    /// Since when it is not there, if it ever was.
    gone_ns: Option<u64>,
    /// Bytes of its snapshot that have been read, and all of them.
    read: (u64, Option<u64>),
    /// Why it is not there, as the log has it.
    why: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is tried again soon.
    Waits,
    Connects,
    Greets,
    /// What it has comes soon.
    Awaits,
    /// Lanes are told to let no client in.
    Closes(u64),
    Loads,
    /// Lanes are told to let them in.
    Opens(u64),
    InStep,
}

/// Who is followed, and who was.
#[derive(Default)]
pub(super) struct Leaders {
    now: Option<Leader>,
    number_newest: u64,
    /// One that is to be followed no more, and who has asked for that.
    leaving: Vec<(u64, Asker)>,
    /// Lanes are told that nobody is followed.
    freeing: Vec<(u64, Asker)>,
    /// Whose snapshot is on its way into the lanes: what they hold is not all of anything.
    loading: Option<u64>,
    /// So it is, or was: what is in files is all there is.
    lacks_data: bool,
    /// `replicaof` was looked at.
    has_begun: bool,
}

impl Leaders {
    /// Whether the data are another server's, and how far it is away.
    pub(super) fn following(&self, serves_stale: bool) -> Option<Following> {
        Some(match &self.now {
            _ if self.loading.is_some() => Following::Loads,
            Some(Leader { state: State::Opens(_) | State::InStep, .. }) => Following::Serves,
            Some(_) if !serves_stale => Following::IsStale,
            Some(_) => Following::Serves,
            // One that is on its way out may have something on its way in.
            None => return self.is_led().then_some(Following::Serves),
        })
    }

    /// Whether somebody is followed, and what it has not all here.
    pub(super) fn lacks_link(&self) -> bool {
        self.now.as_ref().is_some_and(|leader| leader.state != State::InStep)
    }

    /// Whether half of a snapshot is in the lanes.
    pub(super) fn loads(&self) -> bool {
        self.loading.is_some()
    }

    /// Whether lanes hold less than files may: a snapshot is on its way into them, or the last one was cut off.
    pub(super) fn lacks_data(&self) -> bool {
        self.lacks_data
    }

    /// Whether somebody is, or was just now.
    pub(super) fn is_led(&self) -> bool {
        self.now.is_some() || !self.leaving.is_empty()
    }
}

impl Control {
    /// `REPLICAOF host port`, `REPLICAOF NO ONE`.
    pub(super) fn begin_following(
        &mut self,
        asker: Asker,
        question: &Question,
        now: Now,
        machine: &mut impl Machine,
        out: &mut Vec<u8>,
    ) -> Begun {
        let args = Args::Owned(&question.request);
        let (host, port) = (args.flat(1), args.flat(2));
        if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
            return self.follow_nobody(asker, machine, out);
        }
        let Some(port) = parse_i64(port).and_then(|port| u16::try_from(port).ok()) else {
            reply::error(out, "ERR Invalid master port");
            return Begun::Answered;
        };
        let Ok(host) = String::from_utf8(host.to_vec()) else {
            reply::error(out, "ERR Invalid master host");
            return Begun::Answered;
        };
        let primary = Primary { host, port };
        let is_same = |leader: &Leader| {
            leader.primary.host.eq_ignore_ascii_case(&primary.host) && leader.primary.port == primary.port
        };
        if self.leaders.now.as_ref().is_some_and(is_same) {
            reply::simple(out, "OK Already connected to specified master");
            return Begun::Answered;
        }
        if self.is_loading() {
            reply::error(out, LOADING);
            return Begun::Answered;
        }
        if !self.follow(primary, now, machine) {
            reply::error(out, "ERR this server can't follow another one: it has no network of its own");
            return Begun::Answered;
        }
        Begun::Everywhere(Order::Settings(Arc::new(self.settings.clone())))
    }

    fn follow(&mut self, primary: Primary, now: Now, machine: &mut impl Machine) -> bool {
        let number = self.leaders.number_newest + 1;
        if !machine.follow(FollowOrder::Heed(self.terms())) {
            return false;
        }
        machine.note(&format!("following {}:{}", primary.host, primary.port));
        self.config.note("replicaof", format!("{} {}", primary.host, primary.port));
        machine.follow(FollowOrder::Begin { number, primary: primary.clone() });
        self.leaders.number_newest = number;
        self.leaders.now = Some(Leader {
            number,
            primary,
            state: State::Waits,
            offset: None,
            heard_ns: now.mono_ns,
            gone_ns: None,
            read: (0, None),
            why: String::new(),
        });
        self.heed_leader(now);
        true
    }

    fn follow_nobody(&mut self, asker: Asker, machine: &mut impl Machine, out: &mut Vec<u8>) -> Begun {
        let Some(Leader { number, primary, .. }) = self.leaders.now.take() else {
            let Leaders { leaving, freeing, .. } = &mut self.leaders;
            // It may not be over for who has asked before.
            let before = if leaving.is_empty() { freeing } else { leaving };
            if let Some((of, _)) = before.last() {
                before.push((*of, asker));
                return Begun::Kept;
            }
            out.put(OK);
            return Begun::Answered;
        };
        machine.note(&format!("following {}:{} no more", primary.host, primary.port));
        self.config.note("replicaof", String::new());
        machine.follow(FollowOrder::End(number));
        // What of it is on its way comes first: nothing of it is to come after what clients write from now on.
        self.leaders.leaving.push((number, asker));
        Begun::Kept
    }

    fn terms(&self) -> Terms {
        let value = |name: &str| self.config.value(name).to_owned();
        let announced = self.config.value("replica-announce-port").parse().unwrap_or(0);
        Terms {
            user: value("masteruser"),
            password: value("masterauth"),
            timeout_s: self.config.value("repl-timeout").parse().unwrap_or(60),
            announce_ip: value("replica-announce-ip"),
            announce_port: if announced > 0 { announced } else { self.identity.port },
        }
    }

    /// CONFIG SET has changed something.
    pub(super) fn heed_leader_settings(&mut self, now: Now, machine: &mut impl Machine) {
        machine.follow(FollowOrder::Heed(self.terms()));
        self.heed_leader(now);
    }

    /// What lanes are told depends on the one that is followed.
    pub(super) fn heed_leader(&mut self, now: Now) {
        let serves_stale = self.config.value("replica-serve-stale-data") == "yes";
        self.settings.follows = self.leaders.following(serves_stale);
        // What there is room for the other server decides (`replica-ignore-maxmemory`).
        self.settings.memory_size_max = match self.settings.follows {
            Some(_) => 0,
            None => self.config.value("maxmemory").parse().unwrap_or(0),
        };
        self.settings.writes_refused = self.refusal_of_writes(now);
    }

    /// Has lanes heed what has changed.
    fn tell_lanes(&mut self, now: Now) -> u64 {
        self.heed_leader(now);
        self.give(0..self.lane_count, &Order::Settings(Arc::new(self.settings.clone())), None)
    }

    /// Takes what there is to say of the one that is followed.
    pub(super) fn hear_following(&mut self, now: Now, machine: &mut impl Machine) {
        while let Some(news) = machine.follow_news() {
            match news {
                FollowNews::Inner { lane, handover } => self.inner.push_back((lane, Box::new(handover))),
                FollowNews::Of(number, Followed::Ended) => self.end_leader(number, now, machine),
                FollowNews::Of(number, followed) => self.hear_leader(number, followed, now, machine),
            }
        }
    }

    /// Goes on with the one that is followed.
    pub(super) fn tend_following(&mut self, now: Now, machine: &mut impl Machine) {
        if !self.leaders.has_begun && !self.is_loading() {
            self.leaders.has_begun = true;
            let named = self.config.value("replicaof").rsplit_once(' ');
            let primary = named.and_then(|(host, port)| {
                Some(Primary { host: host.trim().to_owned(), port: port.parse().ok()? })
            });
            if let Some(primary) = primary {
                self.follow(primary, now, machine);
                self.tell_lanes(now);
            }
        }
        self.pass_inner();
        if let Some(leader) = &mut self.leaders.now {
            match leader.state {
                State::Closes(ticket) if !self.gathers.contains_key(&ticket) => {
                    leader.state = State::Loads;
                    let number = leader.number;
                    self.leaders.lacks_data = true;
                    // What is on disk stays what it is until all of the other is here.
                    self.hold_log(machine);
                    machine.follow(FollowOrder::Load(number));
                }
                State::Opens(ticket) if !self.gathers.contains_key(&ticket) => {
                    leader.state = State::InStep;
                    machine.follow(FollowOrder::Serve(leader.number));
                }
                _ => {}
            }
        }
        let (freed, freeing) = std::mem::take(&mut self.leaders.freeing)
            .into_iter()
            .partition(|(ticket, _)| !self.gathers.contains_key(ticket));
        self.leaders.freeing = freeing;
        let freed: Vec<(u64, Asker)> = freed;
        for (_, asker) in freed {
            self.answer(asker, OK);
        }
    }

    /// Nothing more comes of one that was followed.
    fn end_leader(&mut self, number: u64, now: Now, machine: &mut impl Machine) {
        let askers: Vec<Asker> =
            self.leaders.leaving.extract_if(.., |(leaving, _)| *leaving == number).map(|it| it.1).collect();
        self.leaders.loading.take_if(|loading| *loading == number);
        // Somebody else may be followed by now.
        let ticket = self.tell_lanes(now);
        self.leaders.freeing.extend(askers.into_iter().map(|asker| (ticket, asker)));
        if self.leaders.now.is_none() {
            // What there is, be it nothing, is this server's own from here on.
            self.leaders.lacks_data = false;
            self.resume_log(now, machine);
        }
    }

    fn hear_leader(&mut self, number: u64, followed: Followed, now: Now, machine: &mut impl Machine) {
        if matches!(followed, Followed::InStep { .. } | Followed::Gone(_))
            && self.leaders.loading.take_if(|loading| *loading == number).is_some()
        {
            self.tell_lanes(now);
        }
        let Some(leader) = self.leaders.now.as_mut().filter(|leader| leader.number == number) else { return };
        let name = format!("{}:{}", leader.primary.host, leader.primary.port);
        let was_in_step = matches!(leader.state, State::InStep | State::Opens(_));
        if !matches!(followed, Followed::Gone(_) | Followed::Connects) {
            leader.heard_ns = now.mono_ns;
        }
        match followed {
            Followed::Connects => leader.state = State::Connects,
            Followed::Greets => leader.state = State::Greets,
            Followed::Prepares => (leader.state, leader.read) = (State::Awaits, (0, None)),
            Followed::Sends => {
                machine.note(&format!("{name} sends all that it has"));
                self.leaders.loading = Some(number);
                let ticket = self.tell_lanes(now);
                self.leaders.now.as_mut().expect("just seen").state = State::Closes(ticket);
            }
            Followed::Read { size, total } => leader.read = (size, total),
            Followed::InStep { offset } => {
                machine.note(&format!("in step with {name}, from offset {offset} on"));
                (leader.offset, leader.gone_ns) = (Some(offset), None);
                leader.why.clear();
                leader.state = State::InStep;
                self.leaders.lacks_data = false;
                self.resume_log(now, machine);
                let ticket = self.tell_lanes(now);
                self.leaders.now.as_mut().expect("just seen").state = State::Opens(ticket);
            }
            Followed::Offset(offset) => leader.offset = Some(offset),
            Followed::Gone(why) => {
                // It is tried each second: the log has each reason once.
                if was_in_step || leader.why != why {
                    machine.warn(&format!("{name} can't be followed and is tried again: {why}"));
                    leader.why = why;
                }
                if was_in_step {
                    leader.gone_ns = Some(now.mono_ns);
                }
                leader.state = State::Waits;
                self.tell_lanes(now);
            }
            Followed::Ended => unreachable!("the end is heard elsewhere"),
        }
    }

    /// ROLE of one that follows.
    pub(super) fn led_role(&self, out: &mut Vec<u8>) -> bool {
        let Some(Leader { primary, state, offset, .. }) = &self.leaders.now else { return false };
        let word = match state {
            State::Waits => "connect",
            State::Connects => "connecting",
            State::Greets => "handshake",
            State::Awaits | State::Closes(_) | State::Loads | State::Opens(_) => "sync",
            State::InStep => "connected",
        };
        let offset = offset.filter(|_| *state == State::InStep).and_then(|it| i64::try_from(it).ok());
        reply::array(out, 5);
        reply::bulk(out, b"slave");
        reply::bulk(out, primary.host.as_bytes());
        reply::integer(out, i64::from(primary.port));
        reply::bulk(out, word.as_bytes());
        reply::integer(out, offset.unwrap_or(-1));
        true
    }

    /// What INFO says of the one that is followed.
    pub(super) fn leader_lines(&self, now: Now) -> Option<String> {
        let leader = self.leaders.now.as_ref()?;
        let Leader { primary, state, offset, heard_ns, gone_ns, read: (size, total), .. } = leader;
        let seconds = |since_ns: u64| now.mono_ns.saturating_sub(since_ns) / 1_000_000_000;
        let is_up = *state == State::InStep;
        let loads = matches!(state, State::Awaits | State::Closes(_) | State::Loads | State::Opens(_));
        let heard_s = if is_up { i64::try_from(seconds(*heard_ns)).unwrap_or(i64::MAX) } else { -1 };
        // Redis begins at 1.
        let offset = offset.unwrap_or(1);
        let mut text = String::new();
        let mut put = |name: &str, value: &dyn std::fmt::Display| {
            write!(text, "{name}:{value}\r\n").expect("a string takes all");
        };
        put("role", &"slave");
        put("master_host", &primary.host);
        put("master_port", &primary.port);
        put("master_link_status", &if is_up { "up" } else { "down" });
        put("master_last_io_seconds_ago", &heard_s);
        put("master_sync_in_progress", &u8::from(loads));
        put("slave_read_repl_offset", &offset);
        put("slave_repl_offset", &offset);
        if loads {
            // What its end says is not known before.
            let total_size = total.unwrap_or(0);
            put("master_sync_total_bytes", &total_size);
            put("master_sync_read_bytes", size);
            put("master_sync_left_bytes", &total_size.saturating_sub(*size));
            #[expect(clippy::cast_precision_loss, reason = "for people, with two digits")]
            let percent = if total_size > 0 { *size as f64 / total_size as f64 * 100.0 } else { 0.0 };
            put("master_sync_perc", &format_args!("{percent:.2}"));
            put("master_sync_last_io_seconds_ago", &seconds(*heard_ns));
        }
        if !is_up {
            let gone_s = gone_ns.map_or(-1, |gone_ns| i64::try_from(seconds(gone_ns)).unwrap_or(i64::MAX));
            put("master_link_down_since_seconds", &gone_s);
        }
        put("slave_priority", &self.config.value("replica-priority"));
        put("slave_read_only", &1);
        put("replica_announced", &u8::from(self.config.value("replica-announced") == "yes"));
        Some(text)
    }
}
