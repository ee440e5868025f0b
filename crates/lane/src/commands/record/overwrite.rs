//! A put of all bins that a short record has, or of one that is to be made: nearly every write. The record becomes the request's
//! operations as they came, so nothing is put together.

use wire::aerospike::OPS;
use wire::aerospike::head::{info2, info3};
use wire::aerospike::op::{Name, kind, make_read};

use super::read::bins_of;
use super::{FRONT_HEADER_SIZE, Record, Request, is_bin, op_at};
use crate::request::{Arg, FLAT_SIZE_MAX};

/// Most operations of a request that is looked at here: names are compared with one another.
const OP_COUNT_MAX: usize = 8;

/// What the record becomes, and of how many bins, if the request only puts bins and nothing stays of what is there.
pub(super) fn overwritten(request: &Request<'_>, record: Option<&Record<'_>>) -> Option<(Vec<u8>, usize)> {
    let head = &request.head;
    let count = usize::from(head.op_count);
    let only_puts = head.info1 == 0 && head.info2 & info2::RESPOND_ALL == 0;
    if !only_puts || count == 0 || count > OP_COUNT_MAX || request.call.args.len() != OPS + 1 {
        return None;
    }
    let Arg::Flat(ops) = request.call.args.get(OPS) else { return None };
    let user_key = match record.map(Record::user_key) {
        Some(stored) if !stored.is_empty() => stored,
        _ => request.user_key(),
    };
    let set = request.set();
    let size = FRONT_HEADER_SIZE + set.len() + user_key.len() + ops.len();
    if size > FLAT_SIZE_MAX {
        return None;
    }
    let mut value = Vec::with_capacity(size);
    let [set_size, ..] = set.len().to_le_bytes();
    let [key_low, key_high, ..] = user_key.len().to_le_bytes();
    value.extend_from_slice(&[set_size, key_low, key_high]);
    value.extend_from_slice(set);
    value.extend_from_slice(user_key);
    let ops_start = value.len();
    value.extend_from_slice(ops);
    let mut names = [Name::default(); OP_COUNT_MAX];
    let mut at = 0;
    for index in 0..count {
        if at >= ops.len() {
            return None;
        }
        let op = op_at(Arg::Flat(ops), at).ok()?;
        if op.kind != kind::WRITE || !is_bin(&op) || names[..index].contains(&op.name) {
            return None;
        }
        names[index] = op.name;
        make_read(&mut value[ops_start + at..]);
        at += op.size();
    }
    let replaces = head.info3 & (info3::CREATE_OR_REPLACE | info3::REPLACE_ONLY) != 0;
    // Bins that are put keep their places, so these must be the first ones.
    let goes = |record: &Record<'_>| {
        let bins = bins_of(record);
        bins.len() <= count && bins.iter().zip(&names).all(|((_, op), name)| op.name == *name)
    };
    let nothing_stays = replaces || record.is_none_or(goes);
    (at == ops.len() && nothing_stays).then_some((value, count))
}
