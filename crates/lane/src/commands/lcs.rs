//! LCS: the longest common subsequence of two strings, by the table that Redis' `lcsCommand` fills.
//!
//! ```text
//!          0  b[0] b[1] …            cell (i, j) is the length for the first i bytes of a and the first j of b:
//!     0    0   0    0                one more than (i-1, j-1) where the bytes are the same,
//!    a[0]  0   .    .                else the larger of (i-1, j) and (i, j-1)
//!    a[1]  0   .    .
//! ```
//! The table has (|a| + 1) × (|b| + 1) cells of 4 bytes, and `proto-max-bulk-len` bounds it as in Redis. It lies in pieces
//! of [`PIECE`] cells, is filled a piece a step, walked back from its last cell a run a step, and given back piece by
//! piece on the way. Where only the length is wanted, cells that no later one needs are given back as it is filled.

use std::collections::VecDeque;

use store::{Budget, Rope};
use wire::number::parse_i64;
use wire::reply::{self, Proto, Put};

use super::text::Text;
use super::{NOT_AN_INTEGER, SYNTAX};
use super::{Progress, State, Step};
use crate::keyspace::{Call, Keyspace};
use crate::replies::{Content, Sink};
use crate::request::Args;

/// Cells in one piece of the table: 16 KiB.
const PIECE: usize = 4096;
/// Bytes that a cell costs of a budget.
const CELL_SIZE: usize = 4;

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

/// What is left of the table: pieces in order, from the piece `first` on.
#[derive(Default)]
struct Table {
    pieces: VecDeque<Vec<u32>>,
    first: usize,
    /// Cells filled, those given back included.
    filled: usize,
}

impl Table {
    fn cell(&self, index: usize) -> u32 {
        self.pieces[index / PIECE - self.first][index % PIECE]
    }

    fn push(&mut self, cell: u32) {
        if self.filled.is_multiple_of(PIECE) {
            self.pieces.push_back(Vec::with_capacity(PIECE));
        }
        self.pieces.back_mut().expect("just made sure of").push(cell);
        self.filled += 1;
    }

    /// Gives back what lies wholly before a cell.
    fn forget_before(&mut self, index: usize) {
        while self.first < index / PIECE {
            self.pieces.pop_front();
            self.first += 1;
        }
    }

    /// Gives back what lies wholly behind a cell.
    fn forget_behind(&mut self, index: usize) {
        self.pieces.truncate(index / PIECE + 1 - self.first);
    }
}

/// A computation under way.
pub(crate) struct Lcs {
    a: Text,
    b: Text,
    options: LcsOptions,
    table: Table,
    /// Length of the subsequence, once the table is full.
    size: Option<u32>,
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
        if cells.saturating_mul(CELL_SIZE as u64) > table_size_max {
            return Err("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
        }
        let (i, j) = (a.len(), b.len());
        Ok(Lcs {
            a,
            b,
            options,
            table: Table::default(),
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
        if self.size.is_none() && !self.fill(budget) {
            return false;
        }
        (self.options.wants_size || self.walk_back(budget)) && self.give_back(budget)
    }

    /// Cells of a row.
    fn width(&self) -> usize {
        self.b.len() + 1
    }

    fn fill(&mut self, budget: &mut Budget) -> bool {
        let width = self.width();
        let cell_count = (self.a.len() + 1) * width;
        while self.table.filled < cell_count {
            if budget.is_spent() {
                return false;
            }
            let start = self.table.filled;
            let room = (budget.bytes as usize / CELL_SIZE).max(1);
            let end = cell_count.min(start + room);
            let (mut i, mut j) = (start / width, start % width);
            for index in start..end {
                let cell = if i == 0 || j == 0 {
                    0
                } else if self.a.at(i - 1) == self.b.at(j - 1) {
                    self.table.cell(index - width - 1) + 1
                } else {
                    self.table.cell(index - width).max(self.table.cell(index - 1))
                };
                self.table.push(cell);
                j += 1;
                if j == width {
                    (i, j) = (i + 1, 0);
                }
            }
            if self.options.wants_size {
                self.table.forget_before(end.saturating_sub(width + 1));
            }
            budget.spend(1, (end - start) * CELL_SIZE);
        }
        self.size = Some(self.table.cell(cell_count - 1));
        true
    }

    /// From the last cell to the first along the longest subsequence, as Redis goes.
    fn walk_back(&mut self, budget: &mut Budget) -> bool {
        let width = self.width();
        while self.i > 0 && self.j > 0 {
            if budget.is_spent() {
                return false;
            }
            budget.spend(0, 4 * CELL_SIZE);
            let byte = self.a.at(self.i - 1);
            let index = self.i * width + self.j;
            let is_match = byte == self.b.at(self.j - 1);
            if is_match {
                self.i -= 1;
                self.j -= 1;
                self.backwards.push(byte);
                let (i, j) = (self.i, self.j);
                let range = self.range.get_or_insert(Run { a: (i, i), b: (j, j) });
                (range.a.0, range.b.0) = (i, j);
            } else if self.table.cell(index - width) > self.table.cell(index - 1) {
                self.i -= 1;
            } else {
                self.j -= 1;
            }
            // A run ends where the strings differ, and at the first byte of either.
            if !is_match || self.i == 0 || self.j == 0 {
                self.end_range();
            }
            self.table.forget_behind(self.i * width + self.j);
        }
        true
    }

    /// What is left of the table is of no use any more.
    fn give_back(&mut self, budget: &mut Budget) -> bool {
        while !self.table.pieces.is_empty() {
            if budget.is_spent() {
                return false;
            }
            budget.spend(1, 0);
            self.table.pieces.pop_back();
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
        let size = i64::from(self.size.expect("asked for when it is over"));
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
        let mut lcs = Lcs::new(text(a), text(b), options, 1 << 20).unwrap();
        while !lcs.advance(&mut Budget::new(slice, slice)) {}
        assert!(lcs.table.pieces.is_empty());
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

    #[test]
    fn a_table_of_many_pieces_is_given_back_on_the_way() {
        let (a, b) = ("abcdefghij".repeat(30), "acegi".repeat(60));
        let size = LcsOptions { wants_size: true, ..LcsOptions::default() };
        assert_eq!(run(&a, &b, size, 64), ":150\r\n");
        let text = run(&a, &b, LcsOptions::default(), 64);
        assert_eq!(text, format!("$150\r\n{}\r\n", "acegi".repeat(30)));
    }

    #[test]
    fn the_table_is_bounded() {
        let text = || Text::Bytes(b"0123456789".to_vec());
        assert!(Lcs::new(text(), text(), LcsOptions::default(), 484).is_ok());
        assert!(Lcs::new(text(), text(), LcsOptions::default(), 483).is_err());
    }
}
