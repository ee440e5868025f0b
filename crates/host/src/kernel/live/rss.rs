//! How a card spreads what it receives: its indirection tables, the default one and those of further contexts.
//!
//! ```text
//! struct ethtool_rxfh: command u32 | context u32 | table length u32 | key length u32 | hash u8 | transform u8 | 6 bytes of
//! nothing | table u32 × length | key
//! ```
//! A table and its hash key are of the same structure; the key stays as it is. Source: include/uapi/linux/ethtool.h.

use std::collections::BTreeMap;

use super::errno::{invalid, unsupported};
use super::ioctl::{call, words};
use super::netlink::{DUMP, Family, GENERIC_HEADER_SIZE, Netlink, u32_at};
use crate::facts::{context_text, spread_text};
use crate::kernel::Cause;
use crate::{Cpus, Refusal, Setting};

const GET: u32 = 0x46;
const SET: u32 = 0x47;
/// Asks how many queues receive, by a `struct ethtool_rxnfc` of this size; the answer's place in it.
const GET_RINGS: u32 = 0x2d;
const RINGS_SIZE: usize = 192;
const RINGS: usize = 8;
const HEADER_SIZE: usize = 24;
const LENGTH: usize = 8;
const TRANSFORM: usize = 17;
/// Asks for a new context.
const ALLOCATE: u32 = 0xffff_ffff;
/// Longer tables are not believed.
const LENGTH_MAX: u32 = 65_536;
/// Older kernels don't list contexts: so many numbers are tried.
const CONTEXTS_TRIED: u32 = 32;

const NETLINK_GET: u8 = 38;
const NETLINK_HEADER: u16 = 1;
const NETLINK_NAME: u16 = 2;
const NETLINK_CONTEXT: u16 = 2;
const NETLINK_TABLE: u16 = 4;

/// A request to read, with room for a table of this length; length 0 asks for the length.
fn get(context: u32, length: u32) -> Vec<u8> {
    let mut request = words(&[GET, context, length, 0, 0, 0]);
    request.resize(HEADER_SIZE + length as usize * 4, 0);
    request
}

/// A request to write. No table: the default one, or (of a context) none any more.
fn set(context: u32, transform: u8, table: &[u32]) -> Vec<u8> {
    let length = u32::try_from(table.len()).expect("tables are short");
    let mut request = words(&[SET, context, length, 0, 0, 0]);
    request[TRANSFORM] = transform;
    request.extend(words(table));
    request
}

/// A table and the transform that belongs to it.
fn table(nic: &str, context: u32) -> Result<(Vec<u32>, u8), Refusal> {
    let mut request = get(context, 0);
    call(nic, &mut request)?;
    let length = u32_at(&request, LENGTH);
    if length == 0 || length > LENGTH_MAX {
        return Err(unsupported(format!("{nic} has no table by which it spreads packets")));
    }
    let mut request = get(context, length);
    call(nic, &mut request)?;
    let entries = request[HEADER_SIZE..].chunks_exact(4).map(|entry| u32_at(entry, 0));
    Ok((entries.collect(), request[TRANSFORM]))
}

/// The default context's table.
pub(crate) fn default_table(nic: &str) -> Result<Vec<u32>, Refusal> {
    Ok(table(nic, 0)?.0)
}

pub(super) fn read(nic: &str) -> Result<Option<Setting>, Refusal> {
    Ok(Some(Setting::new(spread_text(&default_table(nic)?))))
}

/// The entries that a text means, for a table of this length. None: the driver's default.
fn parse(text: &Setting, length: usize) -> Result<Option<Vec<u32>>, Refusal> {
    let bad = || {
        invalid(format!(
            "'{text}' is not like 'equal 4', 'start 2 equal 1', 'default' or 'table' and {length} queues"
        ))
    };
    let words: Vec<&str> = text.words().collect();
    let number = |text: &str| text.parse::<u32>().map_err(|_| bad());
    let (start, count) = match words.as_slice() {
        ["default"] => return Ok(None),
        ["equal", count] => (0, number(count)?),
        ["start", start, "equal", count] => (number(start)?, number(count)?),
        ["table", entries @ ..] if entries.len() == length => {
            return entries.iter().map(|entry| number(entry)).collect::<Result<_, _>>().map(Some);
        }
        _ => return Err(bad()),
    };
    if count == 0 || count as usize > length {
        return Err(invalid(format!("a table of {length} entries can't be spread over {count} queues")));
    }
    Ok(Some((0_u32..).take(length).map(|index| start.saturating_add(index % count)).collect()))
}

/// The kernel remembers of a table whether someone wrote it, and then refuses to take queues away that it names. So the table
/// that a card has by itself is not written but asked for (`ethtool -X … default`), and what was is so in this, too.
pub(super) fn write(nic: &str, value: &Setting) -> Result<(), Refusal> {
    let (now, transform) = table(nic, 0)?;
    let wish = parse(value, now.len())?.unwrap_or_default();
    let written: &[u32] = if is_default(&wish, rings(nic)) { &[] } else { &wish };
    call(nic, &mut set(0, transform, written))
}

/// Queues that receive; none where the driver doesn't say.
fn rings(nic: &str) -> Option<u32> {
    let mut request = words(&[GET_RINGS]);
    request.resize(RINGS_SIZE, 0);
    call(nic, &mut request).ok()?;
    Some(u32_at(&request, RINGS))
}

/// Whether it is the table that the kernel makes for so many queues (`ethtool_rxfh_indir_default`).
fn is_default(table: &[u32], rings: Option<u32>) -> bool {
    rings.is_some_and(|rings| rings > 0 && table.iter().copied().eq((0..rings).cycle().take(table.len())))
}

/// Further contexts by number, and their tables. None: the driver can have none.
pub(crate) fn contexts(netlink: &mut Netlink, nic: &str) -> Result<Option<BTreeMap<u32, Vec<u32>>>, Refusal> {
    match call(nic, &mut get(1, 0)) {
        Err(refusal) if refusal.cause == Cause::Unsupported => return Ok(None),
        Err(refusal) if refusal.cause == Cause::Forbidden => return Err(refusal),
        _ => {}
    }
    if let Some(listed) = list(netlink, nic)? {
        return Ok(Some(listed));
    }
    let tried = (1..=CONTEXTS_TRIED).filter_map(|context| Some((context, table(nic, context).ok()?.0)));
    Ok(Some(tried.collect()))
}

/// As the kernel lists them, since Linux 6.11.
fn list(netlink: &mut Netlink, nic: &str) -> Result<Option<BTreeMap<u32, Vec<u32>>>, Refusal> {
    let Some(family) = Family::find(netlink, "ethtool")? else { return Ok(None) };
    let mut request = family.request(NETLINK_GET, DUMP);
    request.nest(NETLINK_HEADER, &[], |header| {
        header.put_text(NETLINK_NAME, nic);
    });
    let Ok(replies) = netlink.ask(&request) else { return Ok(None) };
    let context = |reply: &super::netlink::Reply| {
        let attributes = reply.split::<GENERIC_HEADER_SIZE>().1;
        let table = attributes.find(NETLINK_TABLE)?.chunks_exact(4).map(|entry| u32_at(entry, 0)).collect();
        Some((attributes.u32(NETLINK_CONTEXT)?, table))
    };
    Ok(Some(replies.iter().filter_map(context).filter(|(number, _)| *number != 0).collect()))
}

/// The context that spreads over exactly these queues.
pub(super) fn context_of(contexts: &BTreeMap<u32, Vec<u32>>, queues: &Cpus) -> Option<u32> {
    contexts.iter().find(|(_, table)| queues_of(table) == *queues).map(|(number, _)| *number)
}

/// Queues that a table names.
pub(super) fn queues_of(table: &[u32]) -> Cpus {
    table.iter().copied().collect()
}

fn in_turns(queues: &[u32], length: usize) -> Vec<u32> {
    queues.iter().copied().cycle().take(length).collect()
}

fn supported(netlink: &mut Netlink, nic: &str) -> Result<BTreeMap<u32, Vec<u32>>, Refusal> {
    contexts(netlink, nic)?.ok_or_else(|| {
        unsupported(format!("the driver of {nic} has no RSS contexts: mlx5, bnxt, sfc and few others have"))
    })
}

pub(super) fn read_context(
    netlink: &mut Netlink,
    nic: &str,
    queues: &Cpus,
) -> Result<Option<Setting>, Refusal> {
    let contexts = supported(netlink, nic)?;
    Ok(context_of(&contexts, queues).map(|number| Setting::new(context_text(&contexts[&number]))))
}

pub(super) fn write_context(
    netlink: &mut Netlink,
    nic: &str,
    queues: &Cpus,
    value: Option<&Setting>,
) -> Result<(), Refusal> {
    let contexts = supported(netlink, nic)?;
    let now = context_of(&contexts, queues);
    let Some(value) = value else {
        return match now {
            Some(number) => call(nic, &mut set(number, 0, &[])),
            None => Ok(()),
        };
    };
    let length = table(nic, 0)?.0.len();
    let wish = context_entries(value, queues, length)?;
    let transform = now.map_or(Ok(0), |number| table(nic, number).map(|(_, transform)| transform))?;
    call(nic, &mut set(now.unwrap_or(ALLOCATE), transform, &wish))
}

fn context_entries(value: &Setting, queues: &Cpus, length: usize) -> Result<Vec<u32>, Refusal> {
    let all: Vec<u32> = queues.iter().collect();
    let entries = match value.words().collect::<Vec<_>>().as_slice() {
        ["equal", count] if count.parse() == Ok(all.len()) && !all.is_empty() => in_turns(&all, length),
        ["table", ..] => parse(value, length)?.unwrap_or_default(),
        _ => Vec::new(),
    };
    if queues_of(&entries) != *queues || queues.is_empty() {
        return Err(invalid(format!(
            "'{value}': the context of the queues {queues} is 'equal {}', or a table of {length} entries that names just those",
            all.len()
        )));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_laid_out_behind_its_header() {
        let request = set(ALLOCATE, 1, &[4, 5]);
        let want = [&words(&[0x47, 0xffff_ffff, 2, 0])[..], &[0, 1, 0, 0], &[0; 4], &words(&[4, 5])].concat();
        assert_eq!(request, want);
        assert_eq!(get(3, 2), [&words(&[0x46, 3, 2, 0, 0, 0])[..], &[0; 8]].concat());
        assert_eq!(set(3, 0, &[]).len(), HEADER_SIZE, "no table takes the context away");
    }

    #[test]
    fn tables_have_words_both_ways() {
        let check = |table: &[u32], want: &str| {
            let text = Setting::new(spread_text(table));
            assert_eq!(text.as_str(), want);
            assert_eq!(parse(&text, table.len()).unwrap().unwrap(), table);
        };
        check(&[0, 1, 2, 3, 0, 1, 2, 3], "equal 4");
        check(&[0, 1, 2, 0, 1], "equal 3");
        check(&[2, 2, 2], "start 2 equal 1");
        check(&[4, 5, 4], "start 4 equal 2");
        check(&[0, 0, 1, 1], "table 0 0 1 1");
        check(&[0], "equal 1");
        for odd in ["", "equal", "equal 0", "equal 9", "equal x", "table 1 2", "weight 1"] {
            assert!(parse(&Setting::new(odd), 8).is_err(), "{odd}");
        }
        assert_eq!(parse(&Setting::new("default"), 8).unwrap(), None);
    }

    #[test]
    fn the_table_that_a_card_has_by_itself_is_known() {
        let check =
            |table: &[u32], rings, want| assert_eq!(is_default(table, rings), want, "{table:?} {rings:?}");
        check(&[0, 1, 2, 3, 0, 1], Some(4), true);
        check(&[0, 1, 2, 3, 0, 1], Some(8), false);
        check(&[0, 1, 0, 1], Some(4), false);
        check(&[2, 3, 2, 3], Some(2), false);
        check(&[0, 0], Some(1), true);
        check(&[0, 1], None, false);
        check(&[0, 1], Some(0), false);
    }

    #[test]
    fn a_context_is_known_by_its_queues() {
        let queues: Cpus = "4,6-7".parse().unwrap();
        let entries = context_entries(&Setting::new("equal 3"), &queues, 8).unwrap();
        assert_eq!(entries, [4, 6, 7, 4, 6, 7, 4, 6]);
        assert_eq!(context_text(&entries), "equal 3");
        let contexts = BTreeMap::from([(1, vec![0, 1]), (5, entries)]);
        assert_eq!(
            (context_of(&contexts, &queues), context_of(&contexts, &"4,6".parse().unwrap())),
            (Some(5), None)
        );
        for odd in ["equal 2", "table 4 6", "table 4 4 4 4 6 6 6 6", "default"] {
            assert!(context_entries(&Setting::new(odd), &queues, 8).is_err(), "{odd}");
        }
    }
}
