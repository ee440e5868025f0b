//! What clients ask for: random commands, each with what its reply must look like.

use wire::ArgRanges;
use wire::command::{Flag, Scope, resolve};

use crate::chance::Chance;
use crate::crew;
use crate::expect::Expect;
use crate::object::{Object, Op};
use crate::text;

/// A command and what its reply must look like.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) expect: Expect,
}

/// What there is to work on, and how hard.
#[derive(Clone, Debug)]
pub(crate) struct Theme {
    pub(crate) register_count: usize,
    pub(crate) counter_count: usize,
    /// Keys of each group.
    pub(crate) group_sizes: Vec<usize>,
    pub(crate) watched_count: usize,
    pub(crate) account_count: usize,
    pub(crate) place_count: usize,
    pub(crate) fleeting_count: usize,
    /// Keys of each crew.
    pub(crate) crew_sizes: [usize; crew::COUNT],
    /// Whether values may be long.
    pub(crate) has_long_values: bool,
    /// Whether everything may be deleted at once; then nothing that must last is used.
    pub(crate) flushes: bool,
    /// Whether the wall clock goes forward only.
    pub(crate) is_steady: bool,
}

/// Keys that are always written together under one watch: on whatever lanes chance has put them.
pub(crate) const WATCHED_SIZE: usize = 2;
/// Strings of bits, and the bits that are used in each: they lie so far apart that some strings are long.
const BITS_COUNT: usize = 2;
const BIT_COUNT: usize = 32;
/// What accounts hold together.
const TOTAL: i64 = 1_000_000;
const TOKEN: &[u8] = b"the only one";

/// Makes commands; owns what makes each write unique.
pub(crate) struct Author {
    pub(crate) theme: Theme,
    next_number: u32,
}

fn words(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

fn request(parts: &[&[u8]], expect: Expect) -> Request {
    Request { words: words(parts), expect }
}

fn key(kind: &str, number: usize) -> Vec<u8> {
    format!("{kind}:{number}").into_bytes()
}

fn group_key(kind: &str, group: usize, member: impl std::fmt::Display) -> Vec<u8> {
    format!("{kind}:{group}:{member}").into_bytes()
}

/// The same as a script: it names the keys, or has all there are. Some are known already, others are new.
fn scripted(request: Request, chance: &mut Chance) -> Request {
    let mut args = ArgRanges::new();
    args.set(request.words.iter().map(Vec::as_slice));
    let args = args.view(&[]);
    let Ok(command) = resolve(&args) else { return request };
    if command.flags.has(Flag::Noscript) || matches!(command.scope, Scope::Connection | Scope::Control) {
        return request;
    }
    let declared: Vec<usize> = match command.key_positions(args) {
        Ok(positions) if chance.hits(800) => positions.collect(),
        _ => Vec::new(),
    };
    let script = format!("return redis.pcall(unpack(ARGV)) -- {}", chance.below(8));
    let mut words = words(&[b"EVAL", script.as_bytes(), declared.len().to_string().as_bytes()]);
    words.extend(declared.iter().map(|&index| request.words[index].clone()));
    words.extend(request.words);
    Request { words, expect: request.expect }
}

/// Two commands with a key and a number each, as one script.
fn in_one_script(first: &Request, second: &Request, chance: &mut Chance) -> Request {
    const BOTH: &[u8] = b"redis.call(ARGV[1], KEYS[1], ARGV[2]) redis.call(ARGV[3], KEYS[2], ARGV[4]) return redis.status_reply('OK')";
    const UNDECLARED: &[u8] =
        b"redis.call(ARGV[1], ARGV[2], ARGV[3]) redis.call(ARGV[4], ARGV[5], ARGV[6]) return redis.status_reply('OK')";
    let ([a, b, c], [d, e, f]) = (&first.words[..], &second.words[..]) else {
        unreachable!("a command, a key and a number each")
    };
    if chance.hits(700) {
        request(&[b"EVAL", BOTH, b"2", b, e, a, c, d, f], Expect::Ok(Vec::new()))
    } else {
        request(&[b"EVAL", UNDECLARED, b"0", a, b, c, d, e, f], Expect::Ok(Vec::new()))
    }
}

impl Author {
    pub(crate) fn new(theme: Theme) -> Author {
        Author { theme, next_number: 1 }
    }

    /// A write that no other is.
    fn part(&mut self, chance: &mut Chance) -> (u32, usize) {
        let size = match chance.below(20) {
            0 => chance.below(2_000),
            1 if self.theme.has_long_values => chance.between(14_000, 40_000),
            2 if self.theme.has_long_values => chance.between(60_000, 250_000),
            _ => chance.below(20),
        };
        self.number(size)
    }

    fn number(&mut self, size: usize) -> (u32, usize) {
        self.next_number += 1;
        (self.next_number, size)
    }

    /// A number above all before it.
    pub(crate) fn rising(&mut self) -> u32 {
        self.number(0).0
    }

    /// What must be there before anything else begins.
    pub(crate) fn beginnings(&self) -> Vec<Request> {
        if self.theme.flushes {
            return Vec::new();
        }
        let mut accounts = words(&[b"MSET"]);
        for account in 0..self.theme.account_count {
            let share = if account == 0 { TOTAL } else { 0 };
            accounts.extend([key("b", account), share.to_string().into_bytes()]);
        }
        vec![
            Request { words: accounts, expect: Expect::Ok(Vec::new()) },
            request(&[b"SET", &key("n", 0), TOKEN], Expect::Ok(Vec::new())),
        ]
    }

    /// Looks at everything, at the end.
    pub(crate) fn endings(&self) -> Vec<Request> {
        let mut all = Vec::new();
        for register in 0..self.theme.register_count {
            all.push(request(
                &[b"GET", &key("r", register)],
                Expect::Text(Object::Register(register), Op::Get),
            ));
        }
        for counter in 0..self.theme.counter_count {
            all.push(request(&[b"GET", &key("c", counter)], Expect::NumberText(Object::Counter(counter))));
        }
        all.extend((0..self.theme.group_sizes.len()).map(|group| self.look_at_group(group)));
        all.extend((0..self.theme.watched_count).map(|watched| self.look_at_watched(watched)));
        if !self.theme.flushes {
            all.push(self.look_at_accounts());
            all.push(self.look_at_places());
        }
        all
    }

    /// A command, or the commands of a MULTI.
    pub(crate) fn next(&mut self, chance: &mut Chance) -> Vec<Request> {
        if chance.hits(150) {
            return self.multi(chance);
        }
        // Where the clock is set back, what is over on one lane may not be on another.
        if self.theme.is_steady && chance.hits(60) {
            return self.on_crew(chance);
        }
        vec![self.single(chance)]
    }

    /// Keys that are written together and end together, looked at by one command or by several in an EXEC: either sees one time.
    fn on_crew(&mut self, chance: &mut Chance) -> Vec<Request> {
        let crew = chance.below(crew::COUNT);
        let size = self.theme.crew_sizes[crew];
        if chance.hits(300) {
            let (words, look) = crew::look(chance, crew, size);
            return vec![Request { words, expect: Expect::Crew(look) }];
        }
        let number = chance.hits(500).then(|| self.rising());
        let (queued, exec) = crew::exec(chance, crew, size, number);
        let mut all = vec![request(&[b"MULTI"], Expect::Ok(Vec::new()))];
        all.extend(queued.into_iter().map(|words| Request { words, expect: Expect::Queued }));
        all.push(request(&[b"EXEC"], Expect::CrewExec(exec)));
        all
    }

    fn multi(&mut self, chance: &mut Chance) -> Vec<Request> {
        let mut all = vec![request(&[b"MULTI"], Expect::Ok(Vec::new()))];
        let mut expects = Vec::new();
        let mut queue = |request: Request| {
            expects.push(request.expect);
            all.push(Request { words: request.words, expect: Expect::Queued });
        };
        match chance.below(8) {
            0 => {
                let group = chance.below(self.theme.group_sizes.len());
                let part = self.part(chance);
                let value = text::bytes(part.0, part.1);
                let size = self.theme.group_sizes[group].min(24);
                let rest = self.theme.group_sizes[group] - size;
                for member in 0..size {
                    let ops =
                        if member == 0 { vec![(Object::Group(group), Op::Set(part))] } else { Vec::new() };
                    queue(request(&[b"SET", &group_key("g", group, member), &value], Expect::Ok(ops)));
                }
                if rest > 0 {
                    let mut words = words(&[b"MSET"]);
                    for member in size..size + rest {
                        words.extend([group_key("g", group, member), value.clone()]);
                    }
                    queue(Request { words, expect: Expect::Ok(Vec::new()) });
                }
            }
            1 if !self.theme.flushes => {
                let [take, give] = self.transfer(chance);
                if chance.hits(300) {
                    queue(in_one_script(&take, &give, chance));
                } else {
                    [take, give].into_iter().for_each(queue);
                }
            }
            2 => {
                // Many small commands: their parts take several steps.
                for _ in 0..chance.between(200, 300) {
                    let register = chance.below(self.theme.register_count);
                    queue(request(
                        &[b"GET", &key("r", register)],
                        Expect::Text(Object::Register(register), Op::Get),
                    ));
                }
                queue(self.look_at_registers(chance));
            }
            3 => {
                // Locks are held while the control thread is asked.
                for _ in 0..chance.between(1, 3) {
                    queue(self.on_group(chance));
                    queue(self.ask_control(chance));
                }
            }
            4 => {
                for request in self.unite_group(chance) {
                    queue(request);
                }
            }
            _ => {
                for _ in 0..chance.below(6) {
                    queue(self.single(chance));
                }
            }
        }
        all.push(request(&[b"EXEC"], Expect::Exec(expects, Vec::new())));
        all
    }

    /// What the control thread answers, by itself or from what it orders of lanes; inside a MULTI too.
    fn ask_control(&self, chance: &mut Chance) -> Request {
        let number = chance.between(1, 500).to_string().into_bytes();
        let words: &[&[u8]] = match chance.below(6) {
            0 => &[b"INFO"],
            1 => &[b"CONFIG", b"GET", b"hz"],
            2 => &[b"CONFIG", b"SET", b"hz", &number],
            // Every lane is told.
            3 => &[b"CONFIG", b"SET", b"timeout", b"0"],
            4 => &[b"CLIENT", b"LIST"],
            _ => &[b"CLIENT", b"ID"],
        };
        request(words, Expect::Whatever)
    }

    fn transfer(&mut self, chance: &mut Chance) -> [Request; 2] {
        let amount = chance.below(1000).to_string().into_bytes();
        let any = || Expect::Whatever;
        let (from, to) = (chance.below(self.theme.account_count), chance.below(self.theme.account_count));
        [
            request(&[b"DECRBY", &key("b", from), &amount], any()),
            request(&[b"INCRBY", &key("b", to), &amount], any()),
        ]
    }

    /// A command, or a script that does nothing but call it.
    fn single(&mut self, chance: &mut Chance) -> Request {
        let request = self.plain(chance);
        if chance.hits(50) { scripted(request, chance) } else { request }
    }

    fn plain(&mut self, chance: &mut Chance) -> Request {
        match chance.below(100) {
            0..40 => self.on_register(chance),
            40..50 => self.on_counter(chance),
            50..55 => self.on_bits(chance),
            55..75 => self.on_group(chance),
            75..80 => self.on_fleeting(chance),
            80..90 if !self.theme.flushes => match chance.below(4) {
                0 => self.look_at_accounts(),
                1 => self.look_at_places(),
                2 => {
                    // Only one place holds anything, so a rename never overwrites.
                    let (from, to) =
                        (chance.below(self.theme.place_count), chance.below(self.theme.place_count));
                    request(&[b"RENAMENX", &key("n", from), &key("n", to)], Expect::Renamed)
                }
                _ => {
                    let (from, to) =
                        (chance.below(self.theme.place_count), chance.below(self.theme.place_count));
                    request(&[b"RENAME", &key("n", from), &key("n", to)], Expect::Renamed)
                }
            },
            90..92 if self.theme.flushes => self.flush(),
            90 => self.look_at_names(),
            92 => request(&[b"DBSIZE"], Expect::Whatever),
            // Names are looked at lane by lane, and yet all at one instant.
            93 => {
                let group = chance.below(self.theme.group_sizes.len());
                let expect = Expect::All(Object::Group(group), self.theme.group_sizes[group]);
                request(&[b"KEYS", &group_key("g", group, "*")], expect)
            }
            94 if !self.theme.flushes => request(&[b"KEYS", b"n:*"], Expect::OneName),
            94 => self.look_at_names(),
            95 => request(&[b"PING"], Expect::Echo(b"PONG".to_vec())),
            96 if chance.hits(500) => self.ask_control(chance),
            96 => {
                let text = self.rising().to_string().into_bytes();
                request(&[b"ECHO", &text], Expect::Echo(text.clone()))
            }
            _ => self.look_at_registers(chance),
        }
    }

    /// FLUSHALL deletes each thing.
    pub(crate) fn flush(&self) -> Request {
        let theme = &self.theme;
        let registers = (0..theme.register_count).map(Object::Register);
        let counters = (0..theme.counter_count).map(Object::Counter);
        let groups = (0..theme.group_sizes.len()).map(Object::Group);
        let watched = (0..theme.watched_count).map(Object::Watched);
        let bits = (0..BITS_COUNT).map(Object::Bits);
        let all = registers.chain(counters).chain(groups).chain(watched).chain(bits);
        request(&[b"FLUSHALL"], Expect::Ok(all.map(|object| (object, Op::Clear)).collect()))
    }

    fn on_register(&mut self, chance: &mut Chance) -> Request {
        let number = chance.below(self.theme.register_count);
        let object = Object::Register(number);
        let key = key("r", number);
        let flag = |name: &[u8], op: Op| request(&[name, &key], Expect::Flag(object, op, 1));
        match chance.below(16) {
            0..4 => {
                let part = self.part(chance);
                let value = text::bytes(part.0, part.1);
                request(&[b"SET", &key, &value], Expect::Ok(vec![(object, Op::Set(part))]))
            }
            4 => {
                let part = self.part(chance);
                let value = text::bytes(part.0, part.1);
                request(&[b"SET", &key, &value, b"NX"], Expect::OkOrNothing(object, Op::SetIfAbsent(part)))
            }
            5 => {
                let part = self.part(chance);
                let value = text::bytes(part.0, part.1);
                request(&[b"SET", &key, &value, b"GET"], Expect::Text(object, Op::SetAndGet(part)))
            }
            6 => {
                let part = self.part(chance);
                let value = text::bytes(part.0, part.1);
                request(&[b"APPEND", &key, &value], Expect::Size(object, Op::Append(part)))
            }
            7 => request(&[b"STRLEN", &key], Expect::Size(object, Op::Length)),
            8 => flag(b"DEL", Op::Delete),
            9 => flag(b"EXISTS", Op::Exists),
            // Longer than any run, so it shows in what EXPIRE and PERSIST say and nowhere else.
            10 => request(&[b"EXPIRE", &key, b"100000000"], Expect::Flag(object, Op::Expire, 1)),
            11 => flag(b"PERSIST", Op::Persist),
            _ => request(&[b"GET", &key], Expect::Text(object, Op::Get)),
        }
    }

    fn on_counter(&mut self, chance: &mut Chance) -> Request {
        let number = chance.below(self.theme.counter_count);
        let object = Object::Counter(number);
        let key = key("c", number);
        match chance.below(8) {
            0..4 => request(&[b"INCR", &key], Expect::Number(object, Op::Add(1))),
            4 => request(&[b"DECRBY", &key, b"3"], Expect::Number(object, Op::Add(-3))),
            5 if chance.hits(200) => request(&[b"DEL", &key], Expect::Flag(object, Op::Delete, 1)),
            _ => request(&[b"GET", &key], Expect::NumberText(object)),
        }
    }

    fn on_bits(&mut self, chance: &mut Chance) -> Request {
        let number = chance.below(BITS_COUNT);
        let object = Object::Bits(number);
        let key = key("bits", number);
        let nth = chance.below(BIT_COUNT);
        let bit = u32::try_from(nth).expect("bits are few");
        let offset = (nth * nth * 400).to_string().into_bytes();
        match chance.below(4) {
            0 => request(&[b"BITCOUNT", &key], Expect::Number(object, Op::CountBits)),
            1 => request(&[b"GETBIT", &key, &offset], Expect::Flag(object, Op::GetBit(bit), 1)),
            _ => {
                let value = chance.hits(500);
                let text: &[u8] = if value { b"1" } else { b"0" };
                request(&[b"SETBIT", &key, &offset, text], Expect::Flag(object, Op::SetBit(bit, value), 1))
            }
        }
    }

    /// The keys of a group hold the same, and so does what they come to together.
    fn unite_group(&mut self, chance: &mut Chance) -> [Request; 2] {
        let group = chance.below(self.theme.group_sizes.len());
        let object = Object::Group(group);
        let whole = key("whole", group);
        let operation: &[u8] = if chance.hits(500) { b"AND" } else { b"OR" };
        let mut words = words(&[b"BITOP", operation, &whole]);
        words.extend((0..self.theme.group_sizes[group]).map(|member| group_key("g", group, member)));
        [
            Request { words, expect: Expect::Size(object, Op::Length) },
            request(&[b"GET", &whole], Expect::Text(object, Op::Get)),
        ]
    }

    fn on_group(&mut self, chance: &mut Chance) -> Request {
        let group = chance.below(self.theme.group_sizes.len());
        let object = Object::Group(group);
        let size = self.theme.group_sizes[group];
        let count = i64::try_from(size).expect("groups are small");
        let kind = chance.below(10);
        match kind {
            0..4 => {
                let name: &[u8] = if kind == 0 { b"MSETNX" } else { b"MSET" };
                let part = if size < 8 { self.part(chance) } else { self.number(3) };
                let value = text::bytes(part.0, part.1);
                let mut words = words(&[name]);
                for member in chance.order(size) {
                    words.extend([group_key("g", group, member), value.clone()]);
                }
                let expect = if kind == 0 {
                    Expect::Flag(object, Op::SetIfAbsent(part), 1)
                } else {
                    Expect::Ok(vec![(object, Op::Set(part))])
                };
                Request { words, expect }
            }
            4 | 5 => {
                let name: &[u8] = if kind == 4 { b"DEL" } else { b"EXISTS" };
                let op = if kind == 4 { Op::Delete } else { Op::Exists };
                let mut words = words(&[name]);
                words.extend(chance.order(size).into_iter().map(|member| group_key("g", group, member)));
                Request { words, expect: Expect::Flag(object, op, count) }
            }
            _ => self.look_at_group(group),
        }
    }

    /// Values that live for a few turns.
    fn on_fleeting(&mut self, chance: &mut Chance) -> Request {
        let key = key("e", chance.below(self.theme.fleeting_count));
        if chance.hits(500) || !self.theme.is_steady {
            return request(
                &[b"GET", &key],
                if self.theme.is_steady { Expect::Fleeing } else { Expect::Whatever },
            );
        }
        let part = self.part(chance);
        let value = text::bytes(part.0, part.1);
        let life_ms = chance.between(1, 20);
        let expect = Expect::Fleeting(part.0, i64::try_from(life_ms).expect("a short time"));
        request(&[b"SET", &key, &value, b"PX", life_ms.to_string().as_bytes()], expect)
    }

    fn look_at_registers(&mut self, chance: &mut Chance) -> Request {
        let mut words = words(&[b"MGET"]);
        let mut expects = Vec::new();
        for _ in 0..chance.between(1, 5) {
            let register = chance.below(self.theme.register_count);
            words.push(key("r", register));
            expects.push(Expect::Text(Object::Register(register), Op::Get));
        }
        Request { words, expect: Expect::Each(expects) }
    }

    fn look_at_names(&self) -> Request {
        let names = (0..self.theme.register_count).map(|n| (key("r", n), Object::Register(n)));
        request(&[b"KEYS", b"r:*"], Expect::Names(names.collect()))
    }

    fn look_at_group(&self, group: usize) -> Request {
        let size = self.theme.group_sizes[group];
        let mut words = words(&[b"MGET"]);
        words.extend((0..size).map(|member| group_key("g", group, member)));
        Request { words, expect: Expect::Same(Object::Group(group), size) }
    }

    fn look_at_accounts(&self) -> Request {
        let mut words = words(&[b"MGET"]);
        words.extend((0..self.theme.account_count).map(|account| key("b", account)));
        Request { words, expect: Expect::Sum(TOTAL) }
    }

    fn look_at_places(&self) -> Request {
        let mut words = words(&[b"MGET"]);
        words.extend((0..self.theme.place_count).map(|place| key("n", place)));
        Request { words, expect: Expect::OneOf(self.theme.place_count, TOKEN.to_vec()) }
    }

    // ---- a number raised by WATCH, look, MULTI, EXEC: the commands come one after the other, as replies do

    pub(crate) fn watch(&self, watched: usize) -> Request {
        let mut words = words(&[b"WATCH"]);
        words.extend((0..WATCHED_SIZE).map(|member| group_key("w", watched, member)));
        Request { words, expect: Expect::Ok(Vec::new()) }
    }

    pub(crate) fn look_at_watched(&self, watched: usize) -> Request {
        let mut words = words(&[b"MGET"]);
        words.extend((0..WATCHED_SIZE).map(|member| group_key("w", watched, member)));
        Request { words, expect: Expect::SameNumber(Object::Watched(watched), WATCHED_SIZE) }
    }

    pub(crate) fn advance(&self, watched: usize, from: i64) -> Vec<Request> {
        let next = (from + 1).to_string().into_bytes();
        let mut all = vec![request(&[b"MULTI"], Expect::Ok(Vec::new()))];
        for member in 0..WATCHED_SIZE {
            all.push(request(&[b"SET", &group_key("w", watched, member), &next], Expect::Queued));
        }
        let expects = vec![Expect::Ok(Vec::new()); WATCHED_SIZE];
        let whole = vec![(Object::Watched(watched), Op::Advance(from))];
        all.push(request(&[b"EXEC"], Expect::Exec(expects, whole)));
        all
    }

    // ---- two keys of one lane, of which the second is written after the first and looked at before it

    pub(crate) fn write_pair(&mut self, pair: usize) -> [Request; 2] {
        let number = self.rising().to_string().into_bytes();
        ["elder", "younger"].map(|half| {
            request(&[b"SET", format!("{{p{pair}}}{half}").as_bytes(), &number], Expect::Ok(Vec::new()))
        })
    }

    pub(crate) fn read_pair(&self, pair: usize) -> [Request; 2] {
        [("younger", Expect::Younger(pair)), ("elder", Expect::Elder(pair))]
            .map(|(half, expect)| request(&[b"GET", format!("{{p{pair}}}{half}").as_bytes()], expect))
    }

    /// Looks at the elder half of a pair together with much elsewhere, so that it is locked for a while.
    pub(crate) fn lock_pair(&mut self, chance: &mut Chance, pair: usize) -> Request {
        let elder = format!("{{p{pair}}}elder");
        let mut words = words(&[b"EXISTS", elder.as_bytes()]);
        let count = chance.pick(&[1, 3, 900]);
        words.extend((0..count).map(|n| key("nobody", n)));
        Request { words, expect: Expect::Whatever }
    }
}
