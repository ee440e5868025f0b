//! A model of a replica: it loads the snapshot that it is sent, and carries out the stream.

use std::collections::{BTreeMap, VecDeque};

use net::mem;
use wire::rdb::crc::Crc64;

use super::world::World;

type Value = (Vec<u8>, Option<i64>);
type Words = Vec<Vec<u8>>;

/// A replica: it reads what it is sent, and carries it out.
pub(super) struct Follower {
    pub(super) client: mem::Client,
    /// What has been read and not understood yet.
    bytes: Vec<u8>,
    is_psync: bool,
    /// The offset that it was told, and bytes of the stream since.
    pub(super) offset: u64,
    pub(super) databases: BTreeMap<u16, BTreeMap<Vec<u8>, Value>>,
    db: u16,
    /// Sources of the libraries in the snapshot.
    pub(super) functions: Vec<String>,
    /// Commands since MULTI.
    queued: Option<Vec<Words>>,
    /// All that it has carried out, transactions in one piece.
    pub(super) log: Vec<String>,
    pub(super) has_loaded: bool,
}

impl Follower {
    /// Says SYNC, or PSYNC as a server that has nothing yet.
    pub(super) fn new(world: &mut World, client: mem::Client, is_psync: bool) -> Follower {
        if is_psync {
            let said = "REPLCONF listening-port 7777 capa eof capa psync2";
            assert_eq!(world.ask(&client, said), "+OK\r\n");
        }
        let words: &[&[u8]] = if is_psync { &[b"PSYNC", b"?", b"-1"] } else { &[b"SYNC"] };
        let mut asked = Vec::new();
        wire::client::command(&mut asked, words);
        client.write(&asked);
        Follower {
            client,
            bytes: Vec::new(),
            is_psync,
            offset: 0,
            databases: BTreeMap::new(),
            db: 0,
            functions: Vec::new(),
            queued: None,
            log: Vec::new(),
            has_loaded: false,
        }
    }

    /// Reads what has come, and carries out as much as is whole.
    pub(super) fn go_on(&mut self) {
        self.bytes.extend(self.client.read_all());
        if !self.has_loaded && !self.load() {
            return;
        }
        while let Some((words, size)) = command(&self.bytes) {
            self.bytes.drain(..size);
            self.offset += size as u64;
            self.take(words);
        }
    }

    pub(super) fn acknowledge(&mut self) {
        let mut said = Vec::new();
        wire::client::command(&mut said, &[b"REPLCONF", b"ACK", self.offset.to_string().as_bytes()]);
        self.client.write(&said);
    }

    /// Reads the snapshot once all of it is there.
    fn load(&mut self) -> bool {
        let text = self.bytes.clone();
        let mut at = 0;
        let mut line = || {
            let end = text[at..].windows(2).position(|pair| pair == b"\r\n")?;
            let line = String::from_utf8(text[at..at + end].to_vec()).expect("a line of text");
            at += end + 2;
            Some(line.trim_start_matches('\n').to_owned())
        };
        if self.is_psync {
            let Some(ok) = line() else { return false };
            let words: Vec<&str> = ok.split(' ').collect();
            assert_eq!((words[0], words[1].len(), words.len()), ("+FULLRESYNC", 40, 3), "{ok}");
            self.offset = words[2].parse().expect("an offset");
        }
        let Some(length) = line() else { return false };
        let length = length.strip_prefix('$').expect("a length");
        let rest = &text[at..];
        let (file, used) = match length.strip_prefix("EOF:") {
            Some(mark) => {
                assert!(self.is_psync && mark.len() == 40, "{mark}");
                let Some(end) = rest.windows(40).position(|part| part == mark.as_bytes()) else {
                    return false;
                };
                (&rest[..end], end + 40)
            }
            None => {
                let size: usize = length.parse().expect("a number");
                let Some(file) = rest.get(..size) else { return false };
                (file, size)
            }
        };
        self.read(file);
        self.bytes = text[at + used..].to_vec();
        self.has_loaded = true;
        if self.is_psync {
            self.acknowledge();
        }
        true
    }

    /// A snapshot's bytes.
    fn read(&mut self, file: &[u8]) {
        let (body, sum) = file.split_at(file.len() - 8);
        let mut crc = Crc64::default();
        crc.update(body);
        assert_eq!(sum, crc.value().to_le_bytes(), "the checksum");
        let mut rest = body.strip_prefix(b"REDIS0010").expect("the version");
        let mut db = None;
        let mut expires_at = None;
        loop {
            let (&kind, behind) = rest.split_first().expect("an end comes");
            rest = behind;
            match kind {
                0xfa => {
                    string(&mut rest);
                    string(&mut rest);
                }
                0xfe => db = Some(u16::try_from(length(&mut rest).unwrap()).unwrap()),
                0xfc => {
                    let (bytes, behind) = rest.split_first_chunk().unwrap();
                    (expires_at, rest) = (Some(i64::from_le_bytes(*bytes)), behind);
                }
                0xf5 => {
                    assert!(db.is_none(), "functions come before keys");
                    self.functions.push(String::from_utf8(string(&mut rest)).expect("text"));
                }
                0 => {
                    let (key, value) = (string(&mut rest), string(&mut rest));
                    let database = self.databases.entry(db.expect("a database comes first")).or_default();
                    let before = database.insert(key.clone(), (value, expires_at.take()));
                    assert!(before.is_none(), "a key is there once: {}", String::from_utf8_lossy(&key));
                }
                0xff => break assert!(rest.is_empty(), "nothing comes behind the end"),
                kind => panic!("a snapshot has no {kind}"),
            }
        }
    }

    /// The first key that is not what it should be.
    pub(super) fn difference(&self, want: &BTreeMap<u16, BTreeMap<Vec<u8>, Value>>) -> Option<(u16, String)> {
        let empty = BTreeMap::new();
        (0..16).find_map(|db| {
            let (got, want) = (self.databases.get(&db).unwrap_or(&empty), want.get(&db).unwrap_or(&empty));
            let key = got.keys().chain(want.keys()).find(|&key| got.get(key) != want.get(key))?;
            Some((db, String::from_utf8_lossy(key).into_owned()))
        })
    }

    fn take(&mut self, words: Words) {
        match (words[0].as_slice(), &mut self.queued) {
            (b"MULTI", queued) => *queued = Some(Vec::new()),
            (b"EXEC", queued) => {
                let queued = queued.take().expect("EXEC comes behind MULTI");
                assert!(
                    queued.iter().filter(|words| words[0] != b"SELECT").count() > 1,
                    "one is no transaction"
                );
                let texts: Vec<String> = queued.iter().map(text).collect();
                self.log.push(texts.join("; "));
                queued.into_iter().for_each(|words| self.run(&words));
            }
            (_, Some(queued)) => queued.push(words),
            (_, None) => {
                self.log.push(text(&words));
                self.run(&words);
            }
        }
    }

    fn run(&mut self, words: &Words) {
        let number = |index: usize| String::from_utf8_lossy(&words[index]).parse::<i64>().expect("a number");
        let database = self.databases.entry(self.db).or_default();
        match words[0].as_slice() {
            b"SELECT" => self.db = u16::try_from(number(1)).unwrap(),
            b"SET" => {
                let before = database.get(&words[1]).and_then(|(_, end)| *end);
                let end = match words.get(3).map(Vec::as_slice) {
                    None => None,
                    Some(b"KEEPTTL") => before,
                    Some(b"PXAT") => Some(number(4)),
                    Some(other) => panic!("SET has {other:?}"),
                };
                database.insert(words[1].clone(), (words[2].clone(), end));
            }
            b"SETRANGE" => {
                let (value, _) = database.entry(words[1].clone()).or_default();
                let at = usize::try_from(number(2)).unwrap();
                let end = at + words[3].len();
                value.resize(value.len().max(end), 0);
                value[at..end].copy_from_slice(&words[3]);
            }
            b"DEL" => {
                assert!(database.remove(&words[1]).is_some(), "what is deleted was there: {}", text(words))
            }
            b"PEXPIREAT" => database.get_mut(&words[1]).expect("what expires is there").1 = Some(number(2)),
            b"PERSIST" => database.get_mut(&words[1]).expect("what persists is there").1 = None,
            b"FLUSHDB" => database.clear(),
            b"FLUSHALL" => self.databases.clear(),
            b"SWAPDB" => {
                let (a, b) = (u16::try_from(number(1)).unwrap(), u16::try_from(number(2)).unwrap());
                let (first, second) = (self.databases.remove(&a), self.databases.remove(&b));
                self.databases.insert(a, second.unwrap_or_default());
                self.databases.insert(b, first.unwrap_or_default());
            }
            b"PUBLISH" | b"SPUBLISH" | b"PING" | b"FUNCTION" => {}
            b"REPLCONF" => self.acknowledge(),
            other => panic!("a replica is not sent {}", String::from_utf8_lossy(other)),
        }
    }
}

fn text(words: &Words) -> String {
    words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
}

/// A command at the front, if all of it is there, and its bytes.
fn command(bytes: &[u8]) -> Option<(Words, usize)> {
    let (count, mut at) = number_line(bytes, 0, b'*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (size, start) = number_line(bytes, at, b'$')?;
        words.push(bytes.get(start..start + size)?.to_vec());
        at = start + size + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

/// A line `sign number` at a place, and where the next begins.
fn number_line(bytes: &[u8], at: usize, sign: u8) -> Option<(usize, usize)> {
    let end = at + bytes.get(at..)?.windows(2).position(|pair| pair == b"\r\n")?;
    let line = String::from_utf8_lossy(&bytes[at..end]);
    assert_eq!(bytes[at], sign, "{line}");
    Some((line[1..].parse().expect("a number"), end + 2))
}

fn length(rest: &mut &[u8]) -> Result<usize, u8> {
    let (&first, behind) = rest.split_first().unwrap();
    *rest = behind;
    let low = usize::from(first & 0x3f);
    match first >> 6 {
        0 => Ok(low),
        1 => {
            let (&second, behind) = rest.split_first().unwrap();
            *rest = behind;
            Ok(low << 8 | usize::from(second))
        }
        2 => {
            let (bytes, behind) = rest.split_first_chunk().unwrap();
            *rest = behind;
            Ok(u32::from_be_bytes(*bytes) as usize)
        }
        _ => Err(first & 0x3f),
    }
}

fn string(rest: &mut &[u8]) -> Vec<u8> {
    let (number, size) = match length(rest) {
        Ok(size) => {
            let (string, behind) = rest.split_at(size);
            *rest = behind;
            return string.to_vec();
        }
        Err(0) => (i32::from(rest[0].cast_signed()), 1),
        Err(1) => (i32::from(i16::from_le_bytes(rest[..2].try_into().unwrap())), 2),
        Err(2) => (i32::from_le_bytes(rest[..4].try_into().unwrap()), 4),
        Err(kind) => panic!("no string is written like {kind}"),
    };
    *rest = &rest[size..];
    number.to_string().into_bytes()
}

/// What the server holds, as its clients see it.
pub(super) fn held(world: &mut World) -> BTreeMap<u16, BTreeMap<Vec<u8>, Value>> {
    let client = world.connect();
    let mut databases = BTreeMap::new();
    for db in 0..16_u16 {
        world.ask(&client, &format!("SELECT {db}"));
        let mut keys: VecDeque<String> =
            world.ask(&client, "KEYS *").split("\r\n").map(str::to_owned).collect();
        keys.pop_front();
        let mut database = BTreeMap::new();
        while let (Some(_), Some(key)) = (keys.pop_front(), keys.pop_front()) {
            let value = world.ask(&client, &format!("GET {key}"));
            let value = value.split_once("\r\n").expect("a value").1.trim_end_matches("\r\n").to_owned();
            let end = world.ask(&client, &format!("PEXPIRETIME {key}"));
            let end: i64 = end.trim_matches([':', '\r', '\n']).parse().expect("an end");
            database.insert(key.into_bytes(), (value.into_bytes(), (end > 0).then_some(end)));
        }
        if !database.is_empty() {
            databases.insert(db, database);
        }
    }
    databases
}

/// A server with a replica that has loaded its snapshot.
pub(super) fn followed(lane_count: u16) -> (World, Follower) {
    let mut world = World::with(lane_count, &[("enable-debug-command", "yes")]);
    let client = world.connect();
    let mut follower = Follower::new(&mut world, client, true);
    turn(&mut world, &mut follower);
    assert!(follower.has_loaded);
    (world, follower)
}

/// Some rounds, in which the replica takes what it is sent.
pub(super) fn turn(world: &mut World, follower: &mut Follower) {
    for _ in 0..20 {
        world.round(1_000_000);
        follower.go_on();
    }
}
