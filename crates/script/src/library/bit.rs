//! `bit`: operations on 32 bits, as Lua BitOp has them. Numbers are rounded to whole ones and wrap round; results are signed.

use mlua::{Lua, Table, Value};

use super::call::{Answer, Args, Binder, Wrong, one};
use crate::number;

/// Most digits of `tohex`.
const HEX_DIGITS_MAX: u32 = 8;

/// The library's table.
pub(super) fn library(lua: &Lua, binder: &Binder) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    type Unary = fn(u32) -> u32;
    type Fold = fn(u32, u32) -> u32;
    let unary: [(_, Unary); 3] = [("tobit", |bits| bits), ("bnot", |bits| !bits), ("bswap", u32::swap_bytes)];
    for (name, apply) in unary {
        binder.bind(lua, &table, name, move |_, args| signed(apply(bits(args, 1)?)))?;
    }
    let folds: [(_, Fold); 3] = [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];
    for (name, apply) in folds {
        binder.bind(lua, &table, name, move |_, args| {
            // The last one first, for the sake of which wrong one is told of.
            let first = bits(args, 1)?;
            let mut rest = (2..=args.count()).rev();
            signed(rest.try_fold(first, |sum, index| Ok::<_, Wrong>(apply(sum, bits(args, index)?)))?)
        })?;
    }
    let shifts: [(_, Fold); 5] = [
        ("lshift", |bits, count| bits << count),
        ("rshift", |bits, count| bits >> count),
        ("arshift", |bits, count| (bits.cast_signed() >> count).cast_unsigned()),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, apply) in shifts {
        binder.bind(lua, &table, name, move |_, args| {
            let value = bits(args, 1)?;
            signed(apply(value, bits(args, 2)? % u32::BITS))
        })?;
    }
    binder.bind(lua, &table, "tohex", to_hex)?;
    Ok(table)
}

/// An argument's bits. Adding 2^52 + 2^51 leaves the integer, rounded to even, in the low bits of a float.
fn bits(args: &Args, index: usize) -> Result<u32, Wrong> {
    const LOW: f64 = 6_755_399_441_055_744.0;
    Ok(number::low_u32((args.number(index)? + LOW).to_bits()))
}

fn signed(bits: u32) -> Answer {
    one(Value::Integer(i64::from(bits.cast_signed())))
}

/// The last digits of a number, in capitals if their count is negative. The least count there is has no positive one: that once wrote
/// beyond a buffer (CVE-2024-31449).
fn to_hex(lua: &Lua, args: &Args) -> Answer {
    let value = bits(args, 1)?;
    let count = if args.count() < 2 { 8 } else { bits(args, 2)?.cast_signed() };
    let size = usize::try_from(count.unsigned_abs().min(HEX_DIGITS_MAX)).expect("at most 8");
    let text = if count < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    one(Value::String(lua.create_string(&text[text.len() - size..])?))
}
