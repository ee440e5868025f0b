//! Bytes in, bytes out, as memcached answers them: `vectors/memcached.txt`, against a model of its store.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeMap;

use wire::memcached::meta::{Options, words};
use wire::memcached::number::parse_u64;
use wire::memcached::reply::{closes, has_value, put, put_value_end, put_value_header, put_version};
use wire::memcached::{
    Bits, Decoder, Expiry, FLAGS, Framing, HEAD, Head, Item, KEY, Limits, Outcome, Say, VALUE, Verb, expiry,
};
use wire::{ArgRanges, Args, Step};

mod transcript;
use transcript::unescape;

/// The second in which everything happens.
const NOW_S: u64 = 1_700_000_000;

#[derive(Clone, Default)]
struct Entry {
    value: Vec<u8>,
    flags: u32,
    cas: u64,
    /// Unix seconds; zero is never.
    expires_s: u64,
    has_base64_key: bool,
    was_fetched: bool,
    is_stale: bool,
    is_promised: bool,
}

/// As much of memcached as the transcripts need: one second of time and any amount of memory.
#[derive(Default)]
struct Model {
    entries: BTreeMap<Vec<u8>, Entry>,
    cas: u64,
}

impl Entry {
    fn item(&self) -> Item {
        Item {
            flags: self.flags,
            cas: self.cas,
            size: u64::try_from(self.value.len()).unwrap(),
            ttl_s: (self.expires_s > 0).then(|| self.expires_s.saturating_sub(NOW_S)),
            was_fetched: self.was_fetched,
            has_base64_key: self.has_base64_key,
            ..Item::default()
        }
    }
}

fn expires_s(exptime: i64) -> u64 {
    match expiry(exptime, NOW_S) {
        Expiry::Never => 0,
        Expiry::At(second) => second,
        Expiry::Past => 1,
    }
}

impl Model {
    fn answer(&mut self, args: &Args<'_>, out: &mut Vec<u8>) -> bool {
        let head = Head::from_bytes(args.get(HEAD));
        let key = args.get(KEY);
        let arg = |index: usize| if index < args.len() { args.get(index) } else { b"" };
        let (flags, value) = (arg(FLAGS), arg(VALUE));
        self.entries.retain(|_, entry| entry.expires_s == 0 || entry.expires_s > NOW_S);
        let outcome = match head.verb {
            Verb::Say => Outcome::Say(head.say),
            Verb::Get | Verb::Gat | Verb::Touch => self.look(&head, key),
            Verb::MetaGet => self.meta_get(key, flags),
            Verb::MetaDebug => {
                self.entries.get(key).map_or(Outcome::Miss, |entry| Outcome::Hit(entry.item()))
            }
            Verb::Set | Verb::Add | Verb::Replace | Verb::Cas | Verb::Append | Verb::Prepend => {
                self.store(&head, key, value)
            }
            Verb::Delete => self.delete(&head, key, flags),
            Verb::Incr | Verb::Decr => self.count(&head, key, flags),
            Verb::Flush => {
                self.entries.clear();
                self.cas += 1;
                Outcome::Ok
            }
            Verb::Version => {
                put_version(out, &head, "1.6.18");
                return true;
            }
            Verb::SaslList | Verb::SaslAuth | Verb::SaslStep => Outcome::Say(Say::UnknownCommand),
            Verb::Noop | Verb::Quit | Verb::End | Verb::Verbosity => Outcome::Ok,
            verb => panic!("no transcript asks for {verb:?}"),
        };
        match outcome {
            Outcome::Hit(item) if has_value(&head) => {
                put_value_header(out, &head, key, flags, &item);
                out.extend_from_slice(&self.entries[key].value);
                put_value_end(out, &head);
            }
            outcome => put(out, &head, key, flags, &outcome),
        }
        if matches!(head.verb, Verb::Get | Verb::Gat) {
            self.entries.entry(key.to_vec()).and_modify(|entry| entry.was_fetched = true);
        }
        !closes(&head, &outcome)
    }

    fn link(&mut self, key: &[u8], mut entry: Entry) -> u64 {
        self.cas += 1;
        entry.cas = self.cas;
        self.entries.insert(key.to_vec(), entry);
        self.cas
    }

    fn look(&mut self, head: &Head, key: &[u8]) -> Outcome {
        match self.entries.get_mut(key) {
            None if head.verb == Verb::Touch => Outcome::NotFound,
            None => Outcome::Miss,
            Some(entry) => {
                if head.verb != Verb::Get {
                    entry.expires_s = expires_s(head.exptime);
                    entry.was_fetched = true;
                }
                if head.verb == Verb::Touch {
                    Outcome::Touched(entry.item())
                } else {
                    Outcome::Hit(entry.item())
                }
            }
        }
    }

    fn meta_get(&mut self, key: &[u8], flags: &[u8]) -> Outcome {
        let options = Options::parse(flags).unwrap();
        let mut is_new = false;
        if options.create_exptime.is_some() && !self.entries.contains_key(key) {
            self.link(key, Entry::default());
            is_new = true;
        }
        let Some(entry) = self.entries.get_mut(key) else { return Outcome::Miss };
        // In the order of the flags.
        let mut is_won = is_new;
        let mut ttl_s = entry.item().ttl_s;
        for word in words(flags) {
            match word[0] {
                b'T' => entry.expires_s = expires_s(options.exptime.unwrap()),
                b'N' if is_new => entry.expires_s = expires_s(options.create_exptime.unwrap()),
                b'R' => {
                    let recache_s = expires_s(options.recache_exptime.unwrap());
                    is_won |=
                        !is_new && !entry.is_promised && entry.expires_s != 0 && entry.expires_s < recache_s;
                }
                b't' => ttl_s = entry.item().ttl_s,
                _ => {}
            }
        }
        let item = Item { ttl_s, is_promised: entry.is_promised, is_stale: entry.is_stale, ..entry.item() };
        is_won |= entry.is_stale && !entry.is_promised;
        entry.is_promised |= is_won;
        entry.was_fetched |= !options.is_unnoticed;
        Outcome::Hit(Item { is_won, ..item })
    }

    fn store(&mut self, head: &Head, key: &[u8], value: &[u8]) -> Outcome {
        let mut new = Entry {
            value: value.to_vec(),
            flags: head.flags,
            expires_s: expires_s(head.exptime),
            has_base64_key: head.is(Bits::BASE64),
            ..Entry::default()
        };
        let old = self.entries.get(key);
        match (head.verb, old) {
            (Verb::Set, _) | (Verb::Add, None) | (Verb::Replace, Some(_)) => {}
            (Verb::Cas, None) => return Outcome::NotFound,
            (Verb::Cas, Some(old)) if head.cas == old.cas => {}
            (Verb::Cas, Some(old)) if head.is(Bits::INVALIDATES) && 0 < head.cas && head.cas < old.cas => {
                (new.is_stale, new.is_promised, new.expires_s) = (true, old.is_promised, old.expires_s);
            }
            (Verb::Cas, Some(_)) => return Outcome::Exists,
            (Verb::Append | Verb::Prepend, Some(old)) if head.cas != 0 && head.cas != old.cas => {
                return Outcome::Exists;
            }
            (verb @ (Verb::Append | Verb::Prepend), Some(old)) => {
                let is_behind = verb == Verb::Append;
                let parts = if is_behind { [&old.value, value] } else { [value, &old.value] };
                let (flags, expires_s) = (old.flags, old.expires_s);
                // Who was promised what is forgotten.
                new = Entry { value: parts.concat(), flags, expires_s, ..Entry::default() };
            }
            _ => return Outcome::NotStored,
        }
        Outcome::Stored { cas: self.link(key, new) }
    }

    fn delete(&mut self, head: &Head, key: &[u8], flags: &[u8]) -> Outcome {
        let Some(entry) = self.entries.get_mut(key) else { return Outcome::NotFound };
        if head.is(Bits::HAS_CAS) && head.cas != entry.cas {
            return Outcome::Exists;
        }
        if head.is(Bits::INVALIDATES) {
            if let Some(exptime) = Options::parse(flags).unwrap().exptime {
                entry.expires_s = expires_s(exptime);
            }
            self.cas += 1;
            (entry.is_stale, entry.is_promised, entry.cas) = (true, false, self.cas);
        } else {
            self.entries.remove(key);
        }
        Outcome::Deleted { cas: 0 }
    }

    fn count(&mut self, head: &Head, key: &[u8], flags: &[u8]) -> Outcome {
        // T, N and t of ma, in their order; what t shows.
        let touch = |entry: &mut Entry, is_new: bool| {
            let options = Options::parse(flags).unwrap();
            let mut ttl_s = None;
            for word in words(flags) {
                match word[0] {
                    b'T' => entry.expires_s = expires_s(options.exptime.unwrap()),
                    b'N' if is_new => entry.expires_s = expires_s(options.create_exptime.unwrap()),
                    b't' => ttl_s = entry.item().ttl_s,
                    _ => {}
                }
            }
            ttl_s
        };
        let Some(old) = self.entries.get(key).cloned() else {
            if !head.is(Bits::CREATES) {
                return Outcome::NotFound;
            }
            let mut new = Entry {
                value: head.initial.to_string().into_bytes(),
                expires_s: if head.framing == Framing::Meta { 0 } else { expires_s(head.exptime) },
                ..Entry::default()
            };
            let ttl_s = touch(&mut new, true);
            self.link(key, new);
            let item = Item { ttl_s, ..self.entries[key].item() };
            return Outcome::Number { value: head.initial, item, is_new: true };
        };
        if head.cas != 0 && head.cas != old.cas {
            return Outcome::Exists;
        }
        let number = if old.value.is_empty() { None } else { parse_u64(&old.value) };
        let Some(number) = number else { return Outcome::Say(Say::NotNumber) };
        let value = match head.verb {
            Verb::Incr => number.wrapping_add(head.delta),
            _ => number.saturating_sub(head.delta),
        };
        // A shorter number leaves blanks.
        let text = format!("{value:<width$}", width = old.value.len());
        let mut new = Entry { value: text.into_bytes(), ..old };
        let ttl_s = touch(&mut new, false);
        self.link(key, new);
        Outcome::Number { value, item: Item { ttl_s, ..self.entries[key].item() }, is_new: false }
    }
}

/// What comes back for `input` on a connection that is then half closed; it arrives in pieces that end at `cuts`.
fn serve(input: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut decoder = Decoder::new(input.first().map_or(Framing::Text, |first| Framing::of(*first)));
    let (mut args, mut out, mut model, mut consumed) = (ArgRanges::new(), Vec::new(), Model::default(), 0);
    for &arrived in cuts.iter().chain([&input.len()]) {
        loop {
            let input = &input[consumed..arrived];
            match decoder.decode(input, &mut args, &Limits::default()) {
                Step::Need => break,
                Step::Command { size } => {
                    if !args.is_empty() && !model.answer(&args.view(input), &mut out) {
                        return out;
                    }
                    consumed += size;
                }
                step => panic!("no transcript is large or malformed: {step:?}"),
            }
        }
    }
    out
}

#[test]
fn answers_are_those_of_memcached_wherever_the_bytes_are_cut() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for line in include_str!("vectors/memcached.txt").lines().filter(|line| !line.starts_with('#')) {
        let (input, want) = line.split_once(' ').unwrap();
        let want = if want == "-" { Vec::new() } else { unescape(want) };
        let input = unescape(input);
        let every: Vec<usize> = (1..input.len()).collect();
        let mut cuts: Vec<Vec<usize>> = every.iter().map(|cut| vec![*cut]).collect();
        cuts.extend([vec![], every]);
        for cuts in cuts {
            let got = serve(&input, &cuts);
            if got != want {
                let cuts = &cuts[..cuts.len().min(3)];
                wrong.push(format!(
                    "{}\n  cut at {cuts:?}\n  {}\n  {}",
                    input.escape_ascii(),
                    got.escape_ascii(),
                    want.escape_ascii()
                ));
                break;
            }
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 400, "{count} transcripts");
}
