//! Follows another server, as `REPLICAOF` says: a thread of its own is its replica, and a client of the lanes. docs/replication.md is
//! the lecture.
//!
//! ```text
//! primary ── snapshot ──▶ follow ── SET … ──▶ a connection to each lane
//!         ── changes ───▶        ─ as they are ▶ one connection, which keeps their order
//!         ◀── REPLCONF ACK ──    ◀── answers ──
//! ```
//! Where the stream was cut off it goes on, as long as the primary has what came since: what is counted are whole commands, and the
//! connection to the lane outlives the one to the primary.

#![expect(
    clippy::disallowed_methods,
    reason = "this thread is no lane: it waits for another server, and reads the clock for that"
)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lane::{FollowNews, FollowOrder, Followed, Primary, Terms};
use wire::client::command;

use crate::files::Lanes;
use crate::files::load::{Frame, Input, Meant, Target, frame_size};
use crate::inner::Link;
use crate::news::{Teller, channel};

/// How often a primary hears of this replica, and after how long one that is not there is tried again.
const BEAT: Duration = Duration::from_secs(1);
/// The same of one that was followed until just now: its stream is kept for as long as there is room.
const AGAIN: Duration = Duration::from_millis(20);
/// One that sends what can't be taken has to send all that it has once more: it is tried again after a second, and then after twice as
/// long each time, up to a minute; one that has done so for an hour is as new.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(60);
const FORGIVEN: Duration = Duration::from_secs(3600);
/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The longest line of a greeting, bytes.
const LINE_SIZE_MAX: usize = 4096;
/// The largest command of a stream, bytes: an argument of 512 MB, and others.
const COMMAND_SIZE_MAX: usize = 1 << 30;
/// What a snapshot begins with.
const SNAPSHOT_HEAD: &[u8] = b"REDIS";
/// Bytes of a stream's name, and of the mark at the end of a snapshot whose length is not known before.
const NAME_SIZE: usize = 40;
/// Of what a primary has said the log has so many bytes.
const SHOWN_SIZE_MAX: usize = 200;

/// The control thread's end.
pub(crate) struct Follower {
    shared: Arc<Shared>,
    lanes: Lanes,
    teller: Teller<FollowNews>,
    news: Receiver<FollowNews>,
    has_thread: bool,
}

/// What the control thread wants.
#[derive(Default)]
struct Shared {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    /// Who is to be followed; under 0 nobody.
    number: u64,
    primary: Option<Primary>,
    terms: Terms,
    /// For whom lanes are closed.
    may_load: u64,
    /// Those whose end is to be told.
    ends: Vec<u64>,
    /// The connection that is waited for.
    stream: Option<TcpStream>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `number` is not wanted any more, or the time is over.
    fn rest(&self, number: u64, time_max: Duration) {
        let wanted = self.lock();
        let is_wanted = |wanted: &mut Wanted| wanted.number == number;
        let _ = self.changed.wait_timeout_while(wanted, time_max, is_wanted);
    }
}

impl Wanted {
    /// Whoever reads from the primary stops.
    fn interrupt(&mut self) {
        if let Some(stream) = self.stream.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Follower {
    /// `teller` and `news` are the two ends of one way to the control thread.
    pub(crate) fn new(lanes: Lanes) -> Follower {
        let (teller, news) = channel();
        Follower { shared: Arc::default(), lanes, teller, news, has_thread: false }
    }

    /// Who is woken by news.
    pub(crate) fn is_heard_by(&self, control: thread::Thread) {
        self.teller.is_heard_by(control);
    }

    pub(crate) fn news(&self) -> Option<FollowNews> {
        self.news.try_recv().ok()
    }

    /// False if there is no thread for it.
    pub(crate) fn order(&mut self, order: FollowOrder) -> bool {
        if matches!(order, FollowOrder::Begin { .. }) && !self.has_thread {
            let (shared, lanes, teller) = (Arc::clone(&self.shared), self.lanes.clone(), self.teller.clone());
            let thread = thread::Builder::new().name("follow".to_owned());
            self.has_thread = thread.spawn(move || run(&shared, &lanes, &teller)).is_ok();
            if !self.has_thread {
                return false;
            }
        }
        let mut wanted = self.shared.lock();
        match order {
            FollowOrder::Begin { number, primary } => {
                (wanted.number, wanted.primary) = (number, Some(primary));
                wanted.interrupt();
            }
            FollowOrder::Heed(terms) => wanted.terms = terms,
            FollowOrder::Load(number) => wanted.may_load = number,
            FollowOrder::End(number) => {
                wanted.ends.push(number);
                if wanted.number == number {
                    wanted.number = 0;
                    wanted.interrupt();
                }
            }
        }
        self.shared.changed.notify_all();
        true
    }
}

fn run(shared: &Arc<Shared>, lanes: &Lanes, teller: &Teller<FollowNews>) {
    let mut number = 0;
    loop {
        let (primary, ends) = {
            let is_same = |wanted: &mut Wanted| wanted.number == number && wanted.ends.is_empty();
            let wanted = shared.changed.wait_while(shared.lock(), is_same);
            let mut wanted = wanted.unwrap_or_else(PoisonError::into_inner);
            number = wanted.number;
            (wanted.primary.clone(), std::mem::take(&mut wanted.ends))
        };
        for ended in ends {
            teller.tell(FollowNews::Of(ended, Followed::Ended));
        }
        if let Some(primary) = primary.filter(|_| number != 0) {
            Following {
                number,
                primary,
                shared,
                lanes,
                teller,
                link: None,
                place: None,
                open_size: None,
                was_in_step: false,
                refused: None,
            }
            .run();
        }
    }
}

/// Why a primary is not followed further.
enum Trouble {
    /// It is not there.
    Gone(String),
    /// It has sent something that this server can't take.
    Refused(String),
}

fn gone(why: &impl ToString) -> Trouble {
    Trouble::Gone(why.to_string())
}

/// One that is followed.
struct Following<'a> {
    number: u64,
    primary: Primary,
    shared: &'a Arc<Shared>,
    lanes: &'a Lanes,
    teller: &'a Teller<FollowNews>,
    /// Where what changes goes.
    link: Option<Link>,
    /// The stream's name, and how much of it has been taken: up to the end of a command, or of a transaction.
    place: Option<(String, u64)>,
    /// Bytes of a transaction that is not all there.
    open_size: Option<u64>,
    was_in_step: bool,
    /// How long it was let alone when it had last sent what can't be taken, and when that was.
    refused: Option<(Duration, Instant)>,
}

impl Following<'_> {
    /// Follows until somebody else is wanted, or nobody.
    fn run(mut self) {
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
        self.tell(Followed::InStep { offset });
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
                        stream.set_read_timeout(Some(BEAT / 2))?;
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
    fn load(&self, input: &mut Input<Wire>) -> Result<(), Trouble> {
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
        self.close_lanes()?;
        let usher = self.usher();
        let target = Target::connect(self.lanes, false, &usher).map_err(|why| gone(&why))?;
        let result = fill(target, input, &end);
        if result.is_err() {
            // Half of it is worse than nothing.
            let _ = Target::connect(self.lanes, false, &usher).and_then(|mut target| target.empty());
        }
        result.map_err(|why| match input.from.has_ended {
            true => gone(&format!("its snapshot was cut off: {why}")),
            false => Trouble::Refused(format!("its snapshot can't be loaded: {why}")),
        })
    }

    /// Waits until lanes let no client in.
    fn close_lanes(&self) -> Result<(), Trouble> {
        self.tell(Followed::Sends);
        let is_waiting = |wanted: &mut Wanted| wanted.number == self.number && wanted.may_load != self.number;
        let wanted = self.shared.changed.wait_while(self.shared.lock(), is_waiting);
        let mut wanted = wanted.unwrap_or_else(PoisonError::into_inner);
        wanted.may_load = 0;
        if wanted.number == self.number { Ok(()) } else { Err(gone(&"it is not wanted any more")) }
    }

    fn usher(&self) -> impl Fn(u16, net::Handover) + Send + Sync + use<> {
        let teller = self.teller.clone();
        move |lane, handover| teller.tell(FollowNews::Inner { lane, handover })
    }

    /// Takes what changes, until that ends.
    fn take_changes(&mut self, input: &mut Input<Wire>) -> Result<std::convert::Infallible, Trouble> {
        if self.link.is_none() {
            self.link = Some(Link::connect(0, false, &self.usher()).map_err(|why| gone(&why))?);
        }
        let link = self.link.as_mut().expect("just made sure of");
        let (_, offset) = self.place.as_mut().expect("a stream has begun");
        input.from.beat = Beat::Ack(*offset);
        input.from.beat_now().map_err(|error| gone(&error))?;
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

fn fill(mut target: Target, input: &mut Input<Wire>, end: &End) -> Result<(), String> {
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
    target.end().map(|_| ())
}

fn refused(frame: &[u8], why: &str) -> Trouble {
    Trouble::Refused(format!("{} was refused: {why}", shown(frame)))
}

fn said_instead(wanted: &str, reply: &str) -> Trouble {
    gone(&format!("it should have said {wanted}, and said: {}", shown(reply.as_bytes())))
}

/// The beginning of something that another server has sent, fit for a log.
fn shown(bytes: &[u8]) -> String {
    let text = bytes[..bytes.len().min(SHOWN_SIZE_MAX)].escape_ascii().to_string();
    if bytes.len() > SHOWN_SIZE_MAX { format!("{text}…") } else { text }
}

fn ask(input: &mut Input<Wire>, words: &[&str]) -> Result<String, Trouble> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut frame = Vec::new();
    command(&mut frame, &words);
    input.from.stream.write_all(&frame).map_err(|error| gone(&error))?;
    line(input)
}

/// The next line without its end. Empty ones are there to keep the connection, and are passed over.
fn line(input: &mut Input<Wire>) -> Result<String, Trouble> {
    loop {
        if let Some(end) = input.rest().iter().take(LINE_SIZE_MAX).position(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(&input.rest()[..end]).trim_end_matches('\r').to_owned();
            input.pass(end + 1);
            if text.is_empty() {
                continue;
            }
            return Ok(text);
        }
        if input.rest().len() >= LINE_SIZE_MAX {
            return Err(said_instead("a line", &String::from_utf8_lossy(input.rest())));
        }
        if !input.fetch_more().map_err(|why| gone(&why))? {
            return Err(gone(&"it has closed the connection"));
        }
    }
}

/// What the primary hears each second while it says nothing.
#[derive(Clone, Copy)]
enum Beat {
    Nothing,
    /// That this server is still there.
    Newline,
    /// How far it is.
    Ack(u64),
}

/// The connection to the primary.
struct Wire {
    stream: TcpStream,
    /// For how long it may be silent.
    shared: Arc<Shared>,
    heard: Instant,
    beat: Beat,
    beaten: Instant,
    number: u64,
    teller: Teller<FollowNews>,
    /// Bytes read since the snapshot began, and all that it has.
    size: u64,
    total: Option<u64>,
    /// Nothing more comes.
    has_ended: bool,
}

impl Wire {
    fn new(stream: TcpStream, shared: Arc<Shared>, number: u64, teller: Teller<FollowNews>) -> Wire {
        let now = Instant::now();
        Wire {
            stream,
            shared,
            heard: now,
            beat: Beat::Nothing,
            beaten: now,
            number,
            teller,
            size: 0,
            total: None,
            has_ended: false,
        }
    }

    fn beat_now(&mut self) -> io::Result<()> {
        self.beaten = Instant::now();
        let followed = match self.beat {
            Beat::Nothing => return Ok(()),
            Beat::Newline => {
                self.stream.write_all(b"\n")?;
                Followed::Read { size: self.size, total: self.total }
            }
            Beat::Ack(offset) => {
                let mut frame = Vec::new();
                command(&mut frame, &[b"REPLCONF", b"ACK", offset.to_string().as_bytes()]);
                self.stream.write_all(&frame)?;
                Followed::Offset(offset)
            }
        };
        self.teller.tell(FollowNews::Of(self.number, followed));
        Ok(())
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.stream.read(buffer);
            let now = Instant::now();
            if now.duration_since(self.beaten) >= BEAT {
                self.beat_now().inspect_err(|_| self.has_ended = true)?;
            }
            match read {
                Ok(size) => {
                    self.heard = now;
                    self.size += size as u64;
                    self.has_ended |= size == 0;
                    return Ok(size);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let seconds = self.shared.lock().terms.timeout_s.max(1);
                    if now.duration_since(self.heard).as_secs() >= seconds {
                        self.has_ended = true;
                        return Err(io::Error::new(
                            ErrorKind::TimedOut,
                            format!("it has said nothing for {seconds} s"),
                        ));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.has_ended = true;
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_no_more_than_the_beginning_of_what_was_sent() {
        assert_eq!(shown(b"a\r\n\xff"), "a\\r\\n\\xff");
        assert_eq!(shown(&[b'x'; 1000]).chars().count(), SHOWN_SIZE_MAX + 1);
    }
}
