//! Bodies of the fuzz target for payloads of DUMP and RESTORE.

use crate::rdb::crc::Crc64;
use crate::rdb::lzf::{Broken, Compressor, Decompressor};
use crate::rdb::{HEAD_SIZE_MAX, Head, Refusal, put_string, read_head, trailer};

/// Longest string that is made of an input: a few bytes may stand for one that is 88 times as long, each.
const WHOLE_SIZE_MAX: usize = 1 << 20;

/// Any bytes are read to the same end in one piece and cut at places drawn from `seed`, and no more comes than is announced. What is
/// a string is written and read again.
pub fn payloads(input: &[u8], seed: u64) -> Option<Vec<u8>> {
    let head = read_head(&input[..input.len().min(HEAD_SIZE_MAX)], input.len());
    assert_eq!(head, read_head(input, input.len()), "more in front changes nothing");
    let string = match head {
        Err(Refusal::Broken | Refusal::Type(_)) => return None,
        Ok(Head::Number(number)) => number.to_string().into_bytes(),
        Ok(Head::Plain { start, size }) => input[start..start + size].to_vec(),
        Ok(Head::Compressed { whole_size: WHOLE_SIZE_MAX.., .. }) => return None,
        Ok(Head::Compressed { start, size, whole_size }) => {
            let compressed = &input[start..start + size];
            let whole = decompressed(compressed, whole_size, |_| usize::MAX, |_| usize::MAX);
            let byte_by_byte = decompressed(compressed, whole_size, |_| 1, |_| 1);
            assert_eq!(whole, byte_by_byte, "a byte at a time");
            let mut state = seed;
            let draw = move |count: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(count as u64 | 1);
                1 + usize::from(state.to_be_bytes()[0]) * usize::from(state.to_be_bytes()[1] & 0x7f)
            };
            assert_eq!(whole, decompressed(compressed, whole_size, draw, draw), "in pieces");
            whole.ok()?
        }
    };
    strings(&string);
    Some(string)
}

/// A string in pieces: `take` and `give` say how much of the input and of the output there is room for.
fn decompressed(
    compressed: &[u8],
    whole_size: usize,
    mut take: impl FnMut(usize) -> usize,
    mut give: impl FnMut(usize) -> usize,
) -> Result<Vec<u8>, Broken> {
    let (mut decompressor, mut whole, mut used) = (Decompressor::new(whole_size), Vec::new(), 0);
    loop {
        let input = &compressed[used..];
        let input = &input[..input.len().min(take(used))];
        let (before, size_max) = (whole.len(), give(whole.len()));
        let count = decompressor.advance(input, size_max, |bytes| whole.extend_from_slice(bytes))?;
        assert!(
            whole.len() - before <= size_max && whole.len() <= whole_size,
            "no more than there is room for"
        );
        used += count;
        if count == 0 && whole.len() == before {
            break;
        }
    }
    if used == compressed.len() && decompressor.is_whole() { Ok(whole) } else { Err(Broken) }
}

/// What is written of a string is read as the same, compressed or not, and is the same after another string.
pub fn strings(string: &[u8]) {
    let (mut plain, mut first, mut again) = (Vec::new(), Vec::new(), Vec::new());
    put_string(&mut plain, string, None);
    let mut compressor = Compressor::default();
    put_string(&mut first, string, Some(&mut compressor));
    put_string(&mut again, string, Some(&mut compressor));
    assert_eq!(first, again, "what came before changes nothing");
    assert!(first.len() <= plain.len());
    for mut payload in [plain, first] {
        let mut crc = Crc64::default();
        crc.update(&payload);
        payload.extend(trailer(crc));
        let read = match read_head(&payload, payload.len()).expect("what is written is read") {
            Head::Number(number) => number.to_string().into_bytes(),
            Head::Plain { start, size } => payload[start..start + size].to_vec(),
            Head::Compressed { start, size, whole_size } => {
                decompressed(&payload[start..start + size], whole_size, |_| usize::MAX, |_| usize::MAX)
                    .expect("what is compressed is whole")
            }
        };
        assert!(read == string, "{string:?} became {read:?}");
    }
}

/// Nearly a payload: a string that repeats itself, written, and sometimes damaged.
pub fn some_payload(next: &mut impl FnMut() -> u64) -> Vec<u8> {
    let mut below = |end: usize| usize::try_from(next() % (end as u64)).expect("below a usize");
    let (size, kinds) = (below(2000), 1 + below(30));
    let mut string = Vec::new();
    while string.len() < size {
        match below(4) {
            0 if !string.is_empty() => {
                let from = below(string.len());
                (from..from + below(300)).for_each(|index| string.push(string[index]));
            }
            _ => string.push(b'0' + u8::try_from(below(kinds)).expect("a few kinds")),
        }
    }
    if below(4) == 0 {
        string.truncate(below(12));
    }
    let mut payload = Vec::new();
    put_string(&mut payload, &string, (below(4) > 0).then(Compressor::default).as_mut());
    payload.extend([0; 10]);
    for _ in 0..below(3) {
        let end = payload.len().min(1 + below(40));
        let at = below(end);
        payload[at] = u8::try_from(below(256)).expect("a byte");
    }
    let cut_size = below(2) * below(payload.len());
    payload.truncate(payload.len() - cut_size);
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_from_seeds() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^ mixed >> 31
        };
        let mut read_count = 0;
        for seed in 0..1000 {
            read_count += usize::from(payloads(&some_payload(&mut next), seed).is_some());
        }
        assert!((300..900).contains(&read_count), "{read_count} of 1000 are strings");
    }
}
