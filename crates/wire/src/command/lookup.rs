//! From a name to its entry: an open-addressing table made at compile time.
//!
//! A name of up to 16 bytes is two words and its length, lower-cased eight bytes at a time, so that a look-up hashes two
//! words and compares two words, however the client writes the name.

use super::COMMANDS;
use super::entry::Command;

/// Longest name of a command (subcommands are found by their container).
const NAME_SIZE_MAX: usize = 16;
/// Places of the table: a power of two with at least half of them empty, which keeps searches short.
const PLACES: usize = 512;
/// Index of no command.
const EMPTY: u16 = u16::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    head: u64,
    tail: u64,
    size: u8,
}

#[derive(Clone, Copy)]
struct Place {
    key: Key,
    index: u16,
}

static PLACED: [Place; PLACES] = {
    let nothing = Place { key: Key { head: 0, tail: 0, size: 0 }, index: EMPTY };
    let mut places = [nothing; PLACES];
    let mut index = 0;
    let mut count = 0;
    while index < COMMANDS.len() {
        if !COMMANDS[index].is_subcommand() && !COMMANDS[index].is_of_a_dialect() {
            let key = key(COMMANDS[index].name.as_bytes()).expect("a name has 1 to 16 bytes");
            let mut place = hash(&key);
            while places[place].index != EMPTY {
                place = (place + 1) % PLACES;
            }
            places[place] = Place { key, index: COMMANDS[index].id as u16 };
            count += 1;
        }
        index += 1;
    }
    assert!(count * 2 <= PLACES, "the table is at most half full");
    places
};

/// The command of this name in any case; `None` for a name that is none. Subcommands: [`Command::subcommand`].
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    let key = key(name)?;
    let mut place = hash(&key);
    loop {
        let found = &PLACED[place];
        if found.key == key {
            return COMMANDS.get(usize::from(found.index));
        }
        if found.index == EMPTY {
            return None;
        }
        place = (place + 1) % PLACES;
    }
}

/// Lower-cased words of a name; none for an empty or long one.
#[inline]
const fn key(name: &[u8]) -> Option<Key> {
    let (head, tail) = match name.len() {
        8..=NAME_SIZE_MAX => match (name.first_chunk(), name.last_chunk()) {
            (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
            _ => return None,
        },
        4..=7 => match (name.first_chunk(), name.last_chunk()) {
            (Some(head), Some(tail)) => (u32::from_le_bytes(*head) as u64, u32::from_le_bytes(*tail) as u64),
            _ => return None,
        },
        1..=3 => (name[0] as u64, name[name.len() / 2] as u64 | ((name[name.len() - 1] as u64) << 8)),
        _ => return None,
    };
    Some(Key { head: lower(head), tail: lower(tail), size: name.len().to_le_bytes()[0] })
}

/// ASCII letters in eight bytes to lower case, other ASCII as it is. Bytes above 127 stay above 127, where no name has any.
#[inline]
const fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = EACH * 0x80;
    // Of seven bits each: the eighth bit becomes 1 from 'A' on, and from behind 'Z' on.
    let low = word & !HIGH;
    let from_a = low + EACH * (0x80 - 0x41);
    let behind_z = low + EACH * (0x80 - 0x5b);
    let upper = from_a & !behind_z & HIGH;
    word | (upper >> 2)
}

/// A place of the table for a name: multiply and take the high bits.
#[inline]
const fn hash(key: &Key) -> usize {
    let mixed = (key.head ^ key.tail.rotate_left(29) ^ key.size as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [.., low, high] = mixed.to_le_bytes();
    (u16::from_le_bytes([low, high]) >> (16 - PLACES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case_and_nothing_else() {
        for command in super::super::commands() {
            let name = command.name.as_bytes();
            assert_eq!(lookup(name).map(|found| found.id), Some(command.id));
            assert_eq!(lookup(&name.to_ascii_uppercase()).map(|found| found.id), Some(command.id));
            for index in 0..name.len() {
                for byte in 0..=255u8 {
                    let mut other = name.to_vec();
                    other[index] = byte;
                    let want = super::super::commands()
                        .find(|command| command.name.as_bytes().eq_ignore_ascii_case(&other));
                    assert_eq!(lookup(&other).map(|found| found.id), want.map(|found| found.id), "{other:?}");
                }
            }
        }
        for name in [&b""[..], b"g", b"ge", b"gett", b"client|list", b"a name that is far too long", &[0; 16]]
        {
            assert!(lookup(name).is_none());
        }
    }

    #[test]
    fn searches_stay_short() {
        for command in super::super::commands() {
            let place = hash(&key(command.name.as_bytes()).unwrap());
            let steps = (0..PLACES).find(|step| PLACED[(place + step) % PLACES].index == command.id as u16);
            assert!(steps.unwrap() <= 4, "{} is {steps:?} steps from its place", command.name);
        }
    }
}
