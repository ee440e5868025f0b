//! Commands that walk over keys: KEYS, SCAN, RANDOMKEY.

use std::collections::VecDeque;

use store::{Budget, Entry};
use wire::glob::{Case, Match, Verdict};
use wire::number::parse_i64;
use wire::reply::{self, Put};
use wire::route::{SLOTS, Slot};

use super::{NOT_AN_INTEGER, SYNTAX};
use super::{Progress, State, Step};
use crate::keyspace::{Call, Keyspace};
use crate::replies::{Content, Sink};
use crate::request::Args;

/// A match that takes more looks at bytes than this goes on in later slices: pattern and key together can take
/// millions.
const LOOKS_MAX: u64 = 1024;
/// SCAN goes through at least this many buckets and empty partitions before it answers with fewer keys than COUNT, so
/// that a small database takes few calls.
const WALK_COUNT_MIN: u64 = 4096;
/// As in Redis, SCAN gives up on reaching COUNT after so many times as many steps.
const WALK_FACTOR: u64 = 10;

/// A cursor's partition stands above this many bits of position in it.
const PARTITION_SHIFT: u32 = 48;

/// A walk over the keys of a database.
pub(crate) struct Walk {
    /// Where it goes on; 0 again at its end.
    cursor: u64,
    has_ended: bool,
    /// Steps gone, and keys met.
    step_count: u64,
    met_count: u64,
    /// Keys found, encoded.
    found: Content,
    found_count: usize,
    /// Keys whose match takes long, and how far the first one has come.
    long: VecDeque<Vec<u8>>,
    matching: Match,
}

/// What a walk takes.
struct Filter<'a> {
    /// `None` takes every key.
    pattern: Option<&'a [u8]>,
    /// TYPE; `None` takes every type.
    kind: Option<&'a [u8]>,
}

impl Walk {
    fn new(cursor: u64) -> Walk {
        Walk {
            cursor,
            has_ended: false,
            step_count: 0,
            met_count: 0,
            found: Content::default(),
            found_count: 0,
            long: VecDeque::new(),
            matching: Match::new(),
        }
    }

    fn take(&mut self, key: &[u8]) {
        self.found_count += 1;
        reply::bulk(&mut self.found, key);
    }

    /// Looks at an entry; what takes long is put off.
    fn meet(&mut self, key: &[u8], entry: &Entry<'_>, filter: &Filter<'_>) {
        self.met_count += 1;
        if filter.kind.is_some_and(|kind| !kind.eq_ignore_ascii_case(entry.kind().name().as_bytes())) {
            return;
        }
        let Some(pattern) = filter.pattern else { return self.take(key) };
        match Match::new().run(pattern, key, Case::Exact, &mut LOOKS_MAX.clone()) {
            Verdict::Yes => self.take(key),
            Verdict::No => {}
            Verdict::More => self.long.push_back(key.to_vec()),
        }
    }

    /// Goes on until the budget is spent or `is_enough`, and says whether it is over.
    fn advance(
        &mut self,
        space: &mut Keyspace,
        db: u16,
        filter: &Filter<'_>,
        budget: &mut Budget,
        is_enough: impl Fn(&Walk) -> bool,
    ) -> bool {
        loop {
            while let Some(key) = self.long.front() {
                if budget.is_spent() {
                    return false;
                }
                let pattern = filter.pattern.expect("only a pattern takes long");
                let mut looks = LOOKS_MAX;
                let verdict = self.matching.run(pattern, key, Case::Exact, &mut looks);
                budget.spend(1, usize::try_from(LOOKS_MAX - looks).expect("at most LOOKS_MAX"));
                if verdict == Verdict::More {
                    continue;
                }
                self.matching = Match::new();
                let key = self.long.pop_front().expect("just looked at");
                if verdict == Verdict::Yes {
                    self.take(&key);
                }
            }
            if self.has_ended || is_enough(self) {
                return true;
            }
            if budget.is_spent() {
                return false;
            }
            // One bucket, or one run of empty partitions.
            let mut one = Budget::new(1, u32::MAX);
            let mut cost = (1, 0);
            let (cursor, now_ms) = (self.cursor, space.now.unix_ms);
            // Keys whose time has come are taken out by whoever looks if housekeeping does not.
            let mut lapsed = Vec::new();
            let since_ms = if space.shard.expires_actively() { now_ms } else { i64::MIN };
            self.cursor = space.shard.scan(db, cursor, since_ms, &mut one, &mut |key, entry| {
                cost = (cost.0 + 1, cost.1 + key.len());
                if entry.expires_at().is_some_and(|at| at <= now_ms) {
                    lapsed.push(key.to_vec());
                } else {
                    self.meet(key, entry, filter);
                }
            });
            for key in &lapsed {
                space.lapse(&space.shard.key(db, Slot::of(key).number(), key));
            }
            self.step_count += 1;
            self.has_ended = self.cursor == 0;
            budget.spend(cost.0, cost.1);
        }
    }
}

/// The walk under way, or a new one from `cursor` on.
fn walk(progress: &mut Progress, cursor: u64) -> &mut Walk {
    let state = progress.state.get_or_insert_with(|| Box::new(State::Walking(Walk::new(cursor))));
    let State::Walking(walk) = state.as_mut() else { unreachable!("a walk's state is a walk") };
    walk
}

/// KEYS, a run of buckets a step.
pub(crate) fn keys(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let pattern = call.args.flat(1);
    let filter = Filter { pattern: (pattern != b"*").then_some(pattern), kind: None };
    let walk = walk(progress, 0);
    if !walk.advance(space, call.db, &filter, budget, |_| false) {
        return Step::More;
    }
    reply::array(sink, walk.found_count);
    sink.append(std::mem::take(&mut walk.found));
    Step::Done
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type], of this lane alone. One over several lanes is a transaction, which asks one
/// lane after the other for [`scan_share`].
pub(crate) fn scan(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    let (goal, filter) = match scan_options(call.args) {
        Ok(options) => options,
        Err(text) => {
            reply::error(sink, text);
            return Step::Done;
        }
    };
    let walk = walk(progress, goal.cursor);
    if !walk.advance(space, call.db, &filter, budget, |walk| goal.is_reached(walk)) {
        return Step::More;
    }
    put_scanned(sink, walk.cursor, walk.found_count, std::mem::take(&mut walk.found));
    Step::Done
}

/// From where a SCAN goes on, and after how much it has done enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    cursor: u64,
    /// Keys to look at.
    look_count: u64,
    /// Buckets and runs of empty partitions to look at.
    step_count: u64,
}

impl Goal {
    fn is_reached(&self, walk: &Walk) -> bool {
        self.look_count <= walk.met_count || self.step_count <= walk.step_count
    }
}

/// What a lane has found for a SCAN over several.
pub(crate) struct Scanned {
    /// Where the SCAN goes on: here, on the next lane, or, 0, nowhere.
    next: u64,
    met_count: u64,
    step_count: u64,
    found: Content,
    found_count: usize,
}

/// A SCAN over several lanes, as far as it has come.
pub(crate) struct Scanning {
    goal: Goal,
    /// How many lanes have answered.
    pub(crate) lane_count: usize,
    found: Content,
    found_count: usize,
}

impl Scanning {
    /// Of a SCAN with these arguments; none if they are wrong, or its cursor is behind all keys, which no SCAN gave.
    pub(crate) fn of(args: Args<'_>) -> Option<Scanning> {
        let (goal, _) = scan_options(args).ok()?;
        let is_past = goal.cursor >> PARTITION_SHIFT >= u64::from(SLOTS);
        (!is_past).then(|| Scanning { goal, lane_count: 0, found: Content::default(), found_count: 0 })
    }

    /// What is left to do.
    pub(crate) fn goal(&self) -> Goal {
        self.goal
    }

    /// The slot whose lane goes on with it.
    pub(crate) fn slot(&self) -> Slot {
        let number = u16::try_from(self.goal.cursor >> PARTITION_SHIFT).ok();
        number.and_then(Slot::new).expect("a cursor is before the end or no cursor")
    }

    /// Takes what a lane has found; the reply is written if that is enough or all there is.
    pub(crate) fn take(&mut self, scanned: Scanned, out: &mut Content) -> bool {
        let Goal { cursor, look_count, step_count } = &mut self.goal;
        *cursor = scanned.next;
        *look_count = look_count.saturating_sub(scanned.met_count);
        *step_count = step_count.saturating_sub(scanned.step_count);
        let is_over = *cursor == 0 || *look_count == 0 || *step_count == 0;
        self.lane_count += 1;
        self.found_count += scanned.found_count;
        self.found.append(scanned.found);
        if is_over {
            put_scanned(out, self.goal.cursor, self.found_count, std::mem::take(&mut self.found));
        }
        is_over
    }
}

fn put_scanned(out: &mut impl Appends, next: u64, found_count: usize, found: Content) {
    reply::array(out, 2);
    reply::bulk(out, next.to_string().as_bytes());
    reply::array(out, found_count);
    out.append_all(found);
}

/// Where a reply goes that is partly written already.
trait Appends: Put {
    fn append_all(&mut self, content: Content);
}

impl Appends for Sink<'_> {
    fn append_all(&mut self, content: Content) {
        self.append(content);
    }
}

impl Appends for Content {
    fn append_all(&mut self, content: Content) {
        self.append(content);
    }
}

/// This lane's share of a SCAN over several, a run of buckets a step; none while there is more to do.
pub(crate) fn scan_share(
    space: &mut Keyspace,
    call: &Call<'_>,
    goal: Goal,
    progress: &mut Progress,
    budget: &mut Budget,
) -> Option<Scanned> {
    let (_, filter) = scan_options(call.args).expect("planning has found them right");
    // Behind its own partitions a lane has none with keys, and the next lane's are there.
    let cursor_after = space.cursor_after;
    let is_behind = |cursor: u64| cursor == 0 || cursor_after > 0 && cursor >= cursor_after;
    let is_enough = |walk: &Walk| goal.is_reached(walk) || walk.step_count > 0 && is_behind(walk.cursor);
    let walk = walk(progress, goal.cursor);
    if !walk.advance(space, call.db, &filter, budget, is_enough) {
        return None;
    }
    Some(Scanned {
        next: if is_behind(walk.cursor) { cursor_after } else { walk.cursor },
        met_count: walk.met_count,
        step_count: walk.step_count,
        found: std::mem::take(&mut walk.found),
        found_count: walk.found_count,
    })
}

fn scan_options(args: Args<'_>) -> Result<(Goal, Filter<'_>), &'static str> {
    let cursor = parse_cursor(args.flat(1)).ok_or("ERR invalid cursor")?;
    let mut filter = Filter { pattern: None, kind: None };
    let mut count = 10;
    let mut index = 2;
    while index < args.len() {
        let word = args.flat(index).to_ascii_lowercase();
        if index + 1 == args.len() {
            return Err(SYNTAX);
        }
        let value = args.flat(index + 1);
        match word.as_slice() {
            b"match" => filter.pattern = (value != b"*").then_some(value),
            b"count" => {
                let number = parse_i64(value).ok_or(NOT_AN_INTEGER)?;
                count = u64::try_from(number).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            }
            b"type" => filter.kind = Some(value),
            _ => return Err(SYNTAX),
        }
        index += 2;
    }
    let step_count = WALK_COUNT_MIN.max(count.saturating_mul(WALK_FACTOR));
    Ok((Goal { cursor, look_count: count, step_count }, filter))
}

/// A cursor as C's `strtoul` reads it, which Redis uses: a sign may stand in front, and nothing at all is 0.
fn parse_cursor(text: &[u8]) -> Option<u64> {
    let (is_negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits
        .iter()
        .try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// This lane's draw for RANDOMKEY. Keys that are drawn after their time has come are taken out; where they have to stay, the last of a slice of such
/// draws is this lane's answer, as in Redis that of a hundred.
pub(crate) fn random_key(
    space: &mut Keyspace,
    call: &Call<'_>,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    loop {
        if budget.is_spent() && !space.keeps(call.db) {
            return Step::More;
        }
        let is_last = budget.is_spent();
        budget.spend(16, 0);
        let draw = space.draw();
        let Some(entry) = space.shard.random(call.db, draw) else {
            reply::null(sink, call.proto);
            return Step::Done;
        };
        if is_last || entry.expires_at().is_none_or(|at| at > space.now.unix_ms) {
            reply::bulk(sink, entry.key());
            return Step::Done;
        }
        let bytes = entry.key().to_vec();
        let key = space.shard.key(call.db, Slot::of(&bytes).number(), &bytes);
        space.lapse(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_strtoul_reads_them() {
        let check = |text: &str, want| assert_eq!(parse_cursor(text.as_bytes()), want, "{text:?}");
        check("0", Some(0));
        check("", Some(0));
        check("+7", Some(7));
        check("-1", Some(u64::MAX));
        check("18446744073709551615", Some(u64::MAX));
        check("18446744073709551616", None);
        check("-", None);
        check(" 1", None);
        check("1a", None);
        check("foo", None);
    }
}
