//! One server that is followed, from the first word to the last.

#![expect(clippy::disallowed_methods, reason = "this thread is no lane: it notes when a primary was refused")]

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use lane::{FollowNews, Followed, Primary, Terms};

use super::wire::{BEAT, Beat, Trouble, Wire, ask, gone, line, said_instead, shown};
use super::{Shared, Wanted};
use crate::files::Lanes;
use crate::files::load::{Frame, Input, Meant, Target, frame_size};
use crate::inner::Link;
use crate::news::Teller;

/// The same of one that was followed until just now: its stream is kept for as long as there is room.
const AGAIN: Duration = Duration::from_millis(20);
/// One that sends what can't be taken has to send all that it has once more: it is tried again after a second, and then after twice as
/// long each time, up to a minute; one that has done so for an hour is as new.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(60);
const FORGIVEN: Duration = Duration::from_secs(3600);
/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The largest command of a stream, bytes: an argument of 512 MB, and others.
const COMMAND_SIZE_MAX: usize = 1 << 30;
/// What a snapshot begins with.
const SNAPSHOT_HEAD: &[u8] = b"REDIS";
/// Bytes of a stream's name, and of the mark at the end of a snapshot whose length is not known before.
const NAME_SIZE: usize = 40;

/// One that is followed.
pub(super) struct Following<'a> {
    number: u64,
    primary: Primary,
    shared: &'a Arc<Shared>,
    lanes: &'a Lanes,
    teller: &'a Teller<FollowNews>,
    /// Where what changes goes.
    link: Option<Link>,
    /// The stream's name, and how much of it has been taken: up to the end of a command, or of a transaction.
    place: Option<(String, u64)>,
    /// In which database the stream has begun.
    stream_db: u64,
    /// Bytes of a transaction that is not all there.
    open_size: Option<u64>,
    was_in_step: bool,
    /// How long it was let alone when it had last sent what can't be taken, and when that was.
    refused: Option<(Duration, Instant)>,
}

impl<'a> Following<'a> {
    pub(super) fn new(
        number: u64,
        primary: Primary,
        shared: &'a Arc<Shared>,
        lanes: &'a Lanes,
        teller: &'a Teller<FollowNews>,
    ) -> Following<'a> {
        Following {
            number,
            primary,
            shared,
            lanes,
            teller,
            link: None,
            place: None,
            stream_db: 0,
            open_size: None,
            was_in_step: false,
            refused: None,
        }
    }

    /// Follows until somebody else is wanted, or nobody.
    pub(super) fn run(mut self) {
        loop {
            let trouble = match self.follow() {
                Ok(never) => match never {},
                Err(trouble) => trouble,
            };
            if let Some(link) = &mut self.link {
                if self.open_size.take().is_some() {
                    // It comes again from its beginning.
                    let _ = link.send(&[b"DISCARD"]);
                }
                // All that has come whole is done.
                let _ = link.settle();
            }
            // It is not to wait for this server.
            self.shared.lock().interrupt();
            let was_in_step = std::mem::take(&mut self.was_in_step);
            let (why, pause) = match trouble {
                Trouble::Gone(why) => (why, if was_in_step { AGAIN } else { BEAT }),
                Trouble::Refused(why) => {
                    // What comes behind it makes no sense.
                    (self.link, self.place) = (None, None);
                    let now = Instant::now();
                    let last = self.refused.filter(|(_, at)| now.duration_since(*at) < FORGIVEN);
                    let pause = last.map_or(BEAT, |(pause, _)| (pause * 2).min(REFUSED_PAUSE_MAX));
                    self.refused = Some((pause, now));
                    (why, pause)
                }
            };
            self.tell(Followed::Gone(why));
            if self.shared.lock().number != self.number {
                return;
            }
            self.shared.rest(self.number, pause);
        }
    }

    fn tell(&self, followed: Followed) {
        self.teller.tell(FollowNews::Of(self.number, followed));
    }

    fn follow(&mut self) -> Result<std::convert::Infallible, Trouble> {
        self.tell(Followed::Connects);
        let mut input = Input::new(self.connect()?);
        self.tell(Followed::Greets);
        let reply = self.greet(&mut input)?;
        let words: Vec<&str> = reply.split(' ').collect();
        match (words.as_slice(), &mut self.place) {
            (["+FULLRESYNC", name, offset], _) if name.len() == NAME_SIZE => {
                let offset = offset.parse().map_err(|_| said_instead("an offset", &reply))?;
                let place = ((*name).to_owned(), offset);
                (self.link, self.place) = (None, None);
                self.load(&mut input)?;
                self.place = Some(place);
            }
            (["+CONTINUE"], Some(_)) => {}
            (["+CONTINUE", new], Some((name, _))) if new.len() == NAME_SIZE => (*new).clone_into(name),
            _ => return Err(said_instead("a stream", &reply)),
        }
        let (_, offset) = *self.place.as_ref().expect("just begun, or gone on with");
        // What the primary is told that is here clients see.
        self.have_lanes_told(Followed::InStep { offset })?;
        self.was_in_step = true;
        self.take_changes(&mut input)
    }

    fn connect(&self) -> Result<Wire, Trouble> {
        let Primary { host, port } = &self.primary;
        let terms = self.shared.lock().terms.clone();
        let timeout = Duration::from_secs(terms.timeout_s.max(1));
        let mut last = gone(&"it has no address");
        for address in (host.as_str(), *port).to_socket_addrs().map_err(|error| gone(&error))? {
            match TcpStream::connect_timeout(&address, timeout.min(CONNECT_MAX)) {
                Err(error) => last = gone(&error),
                Ok(stream) => {
                    let set_up = || {
                        stream.set_nodelay(true)?;
                        stream.set_write_timeout(Some(timeout))?;
                        stream.try_clone()
                    };
                    let other = set_up().map_err(|error| gone(&error))?;
                    let mut wanted = self.shared.lock();
                    if wanted.number != self.number {
                        return Err(gone(&"it is not wanted any more"));
                    }
                    wanted.stream = Some(other);
                    return Ok(Wire::new(stream, Arc::clone(self.shared), self.number, self.teller.clone()));
                }
            }
        }
        Err(last)
    }

    /// Says who this is, and asks for the stream. The reply to that is given back.
    fn greet(&self, input: &mut Input<Wire>) -> Result<String, Trouble> {
        let Terms { user, password, announce_ip, announce_port, .. } = self.shared.lock().terms.clone();
        let reply = ask(input, &["PING"])?;
        let wants_password =
            ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"].iter().any(|it| reply.starts_with(it));
        if reply != "+PONG" && !wants_password {
            return Err(said_instead("PONG", &reply));
        }
        if !password.is_empty() {
            let reply = match user.is_empty() {
                true => ask(input, &["AUTH", &password])?,
                false => ask(input, &["AUTH", &user, &password])?,
            };
            if !reply.starts_with('+') {
                return Err(said_instead("that the password is right", &reply));
            }
        }
        let port = announce_port.to_string();
        let mut words = vec![vec!["REPLCONF", "listening-port", &port]];
        if !announce_ip.is_empty() {
            words.push(vec!["REPLCONF", "ip-address", &announce_ip]);
        }
        words.push(vec!["REPLCONF", "capa", "eof", "capa", "psync2"]);
        for words in words {
            // One that does not know such a word is followed all the same.
            let reply = ask(input, &words)?;
            if !reply.starts_with(['+', '-']) {
                return Err(said_instead("OK", &reply));
            }
        }
        let (name, offset) = match &self.place {
            Some((name, offset)) => (name.as_str(), (offset + 1).to_string()),
            None => ("?", "-1".to_owned()),
        };
        // A snapshot may be under way for others: until then there are empty lines.
        ask(input, &["PSYNC", name, &offset])
    }

    /// Takes all that there is.
    fn load(&mut self, input: &mut Input<Wire>) -> Result<(), Trouble> {
        self.tell(Followed::Prepares);
        input.from.beat = Beat::Newline;
        let head = line(input)?;
        let end = match head.strip_prefix('$') {
            Some(size) if size.parse::<u64>().is_ok() => End::Size(size.parse().expect("just seen")),
            Some(mark) if mark.strip_prefix("EOF:").is_some_and(|mark| mark.len() == NAME_SIZE) => {
                End::Mark(mark.as_bytes()["EOF:".len()..].to_vec())
            }
            _ => return Err(said_instead("a snapshot", &head)),
        };
        if let End::Size(size) = end {
            input.from.total = Some(size);
        }
        input.from.size = input.rest().len() as u64;
        // Up to here clients see what there was.
        input.fetch(SNAPSHOT_HEAD.len()).map_err(|why| gone(&why))?;
        if !input.rest().starts_with(SNAPSHOT_HEAD) {
            let head = &input.rest()[..input.rest().len().min(SNAPSHOT_HEAD.len())];
            return Err(said_instead("a snapshot", &String::from_utf8_lossy(head)));
        }
        self.have_lanes_told(Followed::Sends)?;
        let usher = self.usher();
        let mut target = Target::connect(self.lanes, false, &usher).map_err(|why| gone(&why))?;
        let result = fill(&mut target, input, &end);
        self.stream_db = target.stream_db;
        target.close();
        if result.is_err() {
            // Half of it is worse than nothing.
            let _ = Target::connect(self.lanes, false, &usher).and_then(|mut target| target.empty());
        }
        result.map_err(|why| match input.from.has_ended {
            true => gone(&format!("its snapshot was cut off: {why}")),
            false => Trouble::Refused(format!("its snapshot can't be loaded: {why}")),
        })
    }

    /// Waits until lanes let no client in, or do so again.
    fn have_lanes_told(&self, followed: Followed) -> Result<(), Trouble> {
        self.tell(followed);
        let is_waiting =
            |wanted: &mut Wanted| wanted.number == self.number && wanted.may_go_on != self.number;
        let wanted = self.shared.changed.wait_while(self.shared.lock(), is_waiting);
        let mut wanted = wanted.unwrap_or_else(PoisonError::into_inner);
        wanted.may_go_on = 0;
        if wanted.number == self.number { Ok(()) } else { Err(gone(&"it is not wanted any more")) }
    }

    fn usher(&self) -> impl Fn(u16, net::Handover) + Send + Sync + use<> {
        let teller = self.teller.clone();
        move |lane, handover| teller.tell(FollowNews::Inner { lane, handover })
    }

    /// Takes what changes, until that ends.
    fn take_changes(&mut self, input: &mut Input<Wire>) -> Result<std::convert::Infallible, Trouble> {
        if self.link.is_none() {
            let mut link = Link::connect(0, false, &self.usher()).map_err(|why| gone(&why))?;
            if self.stream_db != 0 {
                let db = self.stream_db.to_string();
                link.send(&[b"SELECT", db.as_bytes()]).map_err(|why| gone(&why))?;
            }
            self.link = Some(link);
        }
        let link = self.link.as_mut().expect("just made sure of");
        let (_, offset) = self.place.as_mut().expect("a stream has begun");
        input.from.begin_stream(*offset).map_err(|error| gone(&error))?;
        loop {
            // An empty line keeps the connection, and counts.
            if let [b'\n', ..] = input.rest() {
                input.pass(1);
                *self.open_size.as_mut().unwrap_or(offset) += 1;
                continue;
            }
            match frame_size(input.rest()).map_err(Trouble::Refused)? {
                Frame::Command(size) => {
                    let frame = &input.rest()[..size];
                    let meant = Meant::by(frame).map_err(Trouble::Refused)?;
                    match meant {
                        Meant::Change | Meant::Begin | Meant::Commit => {
                            link.forward(frame).map_err(|why| refused(frame, &why))?;
                        }
                        Meant::Nothing => {}
                        Meant::GetAck => {
                            link.settle().map_err(|why| refused(b"what came last", &why))?;
                            input.from.beat = Beat::Ack(*offset);
                            input.from.beat_now().map_err(|error| gone(&error))?;
                        }
                    }
                    input.pass(size);
                    // Half a transaction is none.
                    let before = self.open_size.take();
                    let is_open = meant == Meant::Begin || before.is_some() && meant != Meant::Commit;
                    let size = before.unwrap_or(0) + size as u64;
                    match is_open {
                        true => self.open_size = Some(size),
                        false => *offset += size,
                    }
                }
                Frame::Remark(_) => return Err(Trouble::Refused("a remark is no change".to_owned())),
                Frame::More if input.rest().len() > COMMAND_SIZE_MAX => {
                    return Err(Trouble::Refused(format!(
                        "a command is larger than {COMMAND_SIZE_MAX} bytes"
                    )));
                }
                Frame::More => {
                    link.settle().map_err(|why| refused(b"what came last", &why))?;
                    input.from.beat = Beat::Ack(*offset);
                    if !input.fetch_more().map_err(|why| gone(&why))? {
                        return Err(gone(&"it has closed the connection"));
                    }
                }
            }
        }
    }
}

/// How a snapshot ends.
enum End {
    /// After so many bytes.
    Size(u64),
    /// By a mark behind it.
    Mark(Vec<u8>),
}

fn fill(target: &mut Target, input: &mut Input<Wire>, end: &End) -> Result<(), String> {
    target.empty()?;
    target.read_snapshot(input)?;
    match end {
        End::Size(size) => {
            let read = input.from.size - input.rest().len() as u64;
            if read != *size {
                return Err(format!("it was to have {size} bytes, and has {read}"));
            }
        }
        End::Mark(mark) => {
            input.fetch(mark.len())?;
            if !input.rest().starts_with(mark) {
                return Err("the mark of its end is not behind it".to_owned());
            }
            input.pass(mark.len());
        }
    }
    Ok(())
}

fn refused(frame: &[u8], why: &str) -> Trouble {
    Trouble::Refused(format!("{} was refused: {why}", shown(frame)))
}
