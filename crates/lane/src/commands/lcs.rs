//! LCS: the longest common subsequence of two strings, the one of several that Redis' `lcsCommand` finds.
//!
//! Redis fills a table of (|a| + 1) × (|b| + 1) cells of 4 bytes, which `proto-max-bulk-len` bounds, as here. A [`Table`] keeps a bit of each
//! cell, which is all that the way back asks, and none where only the length is wanted. It is filled a slice a step, walked back from its
//! last cell some bytes a step, and given back on the way.

mod table;

use store::{Budget, Rope};
use wire::number::parse_i64;
use wire::reply::{self, Proto, Put};

use self::table::{Keep, Table};
use super::text::Text;
use super::{NOT_AN_INTEGER, SYNTAX};
use super::{Progress, State, Step};
use crate::keyspace::{Call, Keyspace};
use crate::replies::{Content, Sink};
use crate::request::Args;

/// Bytes that a cell has in Redis.
const CELL_SIZE: u64 = 4;
/// Bytes that a step back costs of a budget.
const STEP_COST: usize = 16;

/// What LCS' options say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LcsOptions {
    wants_size: bool,
    wants_ranges: bool,
    wants_range_sizes: bool,
    range_size_min: u64,
}

impl LcsOptions {
    /// Reads `[LEN] [IDX] [MINMATCHLEN size] [WITHMATCHLEN]` from argument 3 on.
    pub(crate) fn parse(args: Args<'_>) -> Result<LcsOptions, &'static str> {
        let mut options = LcsOptions::default();
        let mut index = 3;
        while index < args.len() {
            let word = args.flat(index);
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("idx") {
                options.wants_ranges = true;
            } else if is("len") {
                options.wants_size = true;
            } else if is("withmatchlen") {
                options.wants_range_sizes = true;
            } else if is("minmatchlen") && index + 1 < args.len() {
                index += 1;
                let number = parse_i64(args.flat(index)).ok_or(NOT_AN_INTEGER)?;
                options.range_size_min = u64::try_from(number).unwrap_or(0);
            } else {
                return Err(SYNTAX);
            }
            index += 1;
        }
        if options.wants_ranges && options.wants_size {
            return Err("ERR If you want both the length and indexes, please just use IDX.");
        }
        Ok(options)
    }
}

/// A computation under way.
pub(crate) struct Lcs {
    a: Text,
    b: Text,
    options: LcsOptions,
    table: Table,
    /// Length of the subsequence, once the table is full.
    size: Option<usize>,
    /// Where the way back stands.
    i: usize,
    j: usize,
    /// The subsequence, last byte first.
    backwards: Vec<u8>,
    /// The run of matches under way: its first and last byte in `a`, and in `b`.
    range: Option<Run>,
    /// Runs found, encoded, the last one in the strings first.
    ranges: Content,
    range_count: usize,
}

#[derive(Clone, Copy)]
struct Run {
    a: (usize, usize),
    b: (usize, usize),
}

impl Lcs {
    /// Begins with what is at the two keys, or Redis' error. `table_size_max` bounds the table, in bytes.
    pub(crate) fn new(
        a: Text,
        b: Text,
        options: LcsOptions,
        table_size_max: u64,
    ) -> Result<Lcs, &'static str> {
        let cells = (a.len() as u64 + 1).saturating_mul(b.len() as u64 + 1);
        if cells.saturating_mul(CELL_SIZE) > table_size_max {
            return Err("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
        }
        let (i, j) = (a.len(), b.len());
        let keep = match options.wants_size {
            true => Keep::Nothing,
            false if j > i => Keep::LeftIsLarger,
            false => Keep::AboveIsLarger,
        };
        Ok(Lcs {
            a,
            b,
            options,
            table: Table::new(i.min(j), keep),
            size: None,
            i,
            j,
            backwards: Vec::new(),
            range: None,
            ranges: Content::default(),
            range_count: 0,
        })
    }

    /// Computes until the budget is spent, and says whether it is over.
    pub(crate) fn advance(&mut self, budget: &mut Budget) -> bool {
        if self.size.is_none() {
            let (long, short) = if self.is_across() { (&self.b, &self.a) } else { (&self.a, &self.b) };
            if !self.table.fill(long, short, budget) {
                return false;
            }
            self.size = Some(self.table.size());
        }
        (self.options.wants_size || self.walk_back(budget)) && self.table.give_back(budget)
    }

    /// Whether rows are the bytes of the second string, which is the longer one.
    fn is_across(&self) -> bool {
        self.b.len() > self.a.len()
    }

    /// Whether the way back goes on along the first string: the cell of its byte before is larger than the one of the other's.
    fn is_first_larger(&mut self) -> bool {
        match self.is_across() {
            true => self.table.bit(self.j - 1, self.i - 1),
            false => self.table.bit(self.i - 1, self.j - 1),
        }
    }

    /// From the last cell to the first along the longest subsequence, as Redis goes.
    fn walk_back(&mut self, budget: &mut Budget) -> bool {
        while self.i > 0 && self.j > 0 {
            if budget.is_spent() {
                return false;
            }
            budget.spend(0, STEP_COST);
            // Looked at on every step, for what lies behind is given back with it.
            let is_first_larger = self.is_first_larger();
            let byte = self.a.at(self.i - 1);
            let is_match = byte == self.b.at(self.j - 1);
            if is_match {
                self.i -= 1;
                self.j -= 1;
                self.backwards.push(byte);
                let (i, j) = (self.i, self.j);
                let range = self.range.get_or_insert(Run { a: (i, i), b: (j, j) });
                (range.a.0, range.b.0) = (i, j);
            } else if is_first_larger {
                self.i -= 1;
            } else {
                self.j -= 1;
            }
            // A run ends where the strings differ, and at the first byte of either.
            if !is_match || self.i == 0 || self.j == 0 {
                self.end_range();
            }
        }
        true
    }

    fn end_range(&mut self) {
        let Some(range) = self.range.take() else { return };
        let size = range.a.1 - range.a.0 + 1;
        if (size as u64) < self.options.range_size_min {
            return;
        }
        self.range_count += 1;
        let out = &mut self.ranges;
        let number = |index: usize| i64::try_from(index).expect("an index in a string");
        reply::array(out, if self.options.wants_range_sizes { 3 } else { 2 });
        for (start, end) in [range.a, range.b] {
            reply::array(out, 2);
            reply::integer(out, number(start));
            reply::integer(out, number(end));
        }
        if self.options.wants_range_sizes {
            reply::integer(out, number(size));
        }
    }

    /// The reply, when it is over. The strings, which may be long, go to `retire`.
    pub(crate) fn finish(
        mut self,
        proto: Proto,
        out: &mut impl Put,
        retire: &mut impl FnMut(Rope),
    ) -> Content {
        let size = i64::try_from(self.size.expect("asked for when it is over")).expect("a string's length");
        self.a.retire(retire);
        self.b.retire(retire);
        if self.options.wants_size {
            reply::integer(out, size);
            return Content::default();
        }
        if !self.options.wants_ranges {
            self.backwards.reverse();
            reply::bulk(out, &self.backwards);
            return Content::default();
        }
        reply::map(out, proto, 2);
        reply::bulk(out, b"matches");
        reply::array(out, self.range_count);
        reply::bulk(&mut self.ranges, b"len");
        reply::integer(&mut self.ranges, size);
        self.ranges
    }
}

/// LCS with both keys on this lane.
pub(crate) fn lcs(
    space: &mut Keyspace,
    call: &Call<'_>,
    progress: &mut Progress,
    sink: &mut Sink<'_>,
    budget: &mut Budget,
) -> Step {
    if progress.state.is_none() {
        let (first, second) = (space.key(call, 1), space.key(call, 2));
        space.look_up(&first);
        space.look_up(&second);
        let begun = LcsOptions::parse(call.args).and_then(|options| {
            let a = Text::of(space.get(&first).map(|entry| entry.value()));
            let b = Text::of(space.get(&second).map(|entry| entry.value()));
            Lcs::new(a, b, options, space.bulk_size_max)
        });
        match begun {
            Ok(lcs) => progress.state = Some(Box::new(State::Comparing(lcs))),
            Err(text) => {
                reply::error(sink, text);
                return Step::Done;
            }
        }
    }
    let Some(State::Comparing(lcs)) = progress.state.as_deref_mut() else {
        unreachable!("LCS' state is a comparison")
    };
    if !lcs.advance(budget) {
        return Step::More;
    }
    let Some(State::Comparing(lcs)) = progress.state.take().map(|state| *state) else {
        unreachable!("just looked")
    };
    let rest = lcs.finish(call.proto, sink, &mut |rope| space.shard.retire(rope));
    sink.append(rest);
    Step::Done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(a: &str, b: &str, options: LcsOptions, slice: u32) -> String {
        let text = |text: &str| Text::Bytes(text.as_bytes().to_vec());
        let mut lcs = Lcs::new(text(a), text(b), options, 1 << 24).unwrap();
        while !lcs.advance(&mut Budget::new(slice, slice)) {}
        assert_eq!(lcs.table.kept_size(), 0);
        let mut out = Content::default();
        let rest = lcs.finish(Proto::Resp2, &mut out, &mut |_| {});
        out.append(rest);
        String::from_utf8(out.front().to_vec()).unwrap()
    }

    #[test]
    fn every_slice_gives_the_same() {
        for slice in [1, 7, 100, 100_000] {
            let text = LcsOptions::default();
            assert_eq!(run("ohmytext", "mynewtext", text, slice), "$6\r\nmytext\r\n");
            assert_eq!(run("", "mynewtext", text, slice), "$0\r\n\r\n");
            let size = LcsOptions { wants_size: true, ..text };
            assert_eq!(run("ohmytext", "mynewtext", size, slice), ":6\r\n");
        }
    }

    /// A long run of the same bytes, and what differs only behind it: no step gives back more than a piece.
    #[test]
    fn what_is_the_same_is_given_back_step_by_step() {
        let same = "x".repeat(2000);
        let text = |first: &str| Text::Bytes(format!("{first}{same}").into_bytes());
        let mut lcs = Lcs::new(text("a"), text("b"), LcsOptions::default(), 1 << 24).unwrap();
        let (mut kept_size, mut most, mut is_over) = (0, 0, false);
        while !is_over {
            is_over = lcs.advance(&mut Budget::new(1, 16));
            let kept_now = lcs.table.kept_size();
            most = kept_size.max(most);
            assert!(kept_size <= kept_now + 8 * 1024, "{kept_size} bytes are {kept_now} after a step");
            kept_size = kept_now;
        }
        assert!(most > 400_000, "{most} bytes of a table");
    }

    #[test]
    fn a_table_of_many_pieces_is_given_back_on_the_way() {
        let (a, b) = ("abcdefghij".repeat(30), "acegi".repeat(60));
        let size = LcsOptions { wants_size: true, ..LcsOptions::default() };
        assert_eq!(run(&a, &b, size, 64), ":150\r\n");
        let text = run(&a, &b, LcsOptions::default(), 64);
        assert_eq!(text, format!("$150\r\n{}\r\n", "acegi".repeat(30)));
    }

    /// By the whole table, as Redis' `lcsCommand` goes through it.
    fn plainly(a: &[u8], b: &[u8]) -> String {
        let mut table = vec![vec![0_u32; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] = match a[i - 1] == b[j - 1] {
                    true => table[i - 1][j - 1] + 1,
                    false => table[i - 1][j].max(table[i][j - 1]),
                };
            }
        }
        let (mut i, mut j, mut backwards) = (a.len(), b.len(), Vec::new());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                backwards.push(a[i - 1]);
                (i, j) = (i - 1, j - 1);
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        backwards.reverse();
        String::from_utf8(backwards).expect("letters")
    }

    /// Whichever of the two is longer, and where several subsequences are as long.
    #[test]
    fn of_several_as_long_it_is_the_one_that_redis_finds() {
        let mut state = 1_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for size_max in [8, 8, 8, 50, 70, 140, 1200].repeat(10) {
            let letter_count = [1, 2, 3, 26][draw(4)];
            let [a, b] = [0, 1].map(|_| {
                let size = draw(size_max);
                (0..size)
                    .map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz"[draw(letter_count)]))
                    .collect::<String>()
            });
            let want = plainly(a.as_bytes(), b.as_bytes());
            let (options, slice) = (LcsOptions::default(), [1, 20, 40, 1000][draw(4)]);
            assert_eq!(run(&a, &b, options, slice), format!("${}\r\n{want}\r\n", want.len()), "{a} {b}");
            let options = LcsOptions { wants_size: true, ..options };
            assert_eq!(run(&a, &b, options, slice), format!(":{}\r\n", want.len()));
        }
    }

    #[test]
    fn the_table_is_bounded() {
        let text = || Text::Bytes(b"0123456789".to_vec());
        assert!(Lcs::new(text(), text(), LcsOptions::default(), 484).is_ok());
        assert!(Lcs::new(text(), text(), LcsOptions::default(), 483).is_err());
    }
}
