//! What must hold for any bytes of a Couchbase connection, and of one to the management port.

use super::memcached::requests_as;
use crate::couchbase::request::MAGIC_FRAMED;
use crate::http;
use crate::memcached::Framing;
use crate::memcached::head::MAGIC_REQUEST;
use crate::resp::{ArgRanges, Step};

/// Requests decode the same in one piece and cut at places drawn from `seed`, and can be answered; a request of HTTP does so, too.
pub fn requests(input: &[u8], seed: u64) {
    requests_as(Framing::Couchbase, input, seed);
    let whole = pages(input, usize::MAX);
    for piece in [1, 1 + usize::from(seed.to_le_bytes()[1])] {
        assert_eq!(whole, pages(input, piece), "the same in pieces");
    }
}

/// What is asked of the management port by bytes that arrive `piece` at a time.
fn pages(input: &[u8], piece: usize) -> Vec<Vec<Vec<u8>>> {
    let (mut decoder, mut args, mut pages) = (http::Decoder::default(), ArgRanges::new(), Vec::new());
    let (mut consumed, mut arrived) = (0, 0);
    while arrived < input.len() {
        arrived = arrived.saturating_add(piece).min(input.len());
        while let Step::Command { size } = decoder.decode(&input[consumed..arrived], &mut args) {
            assert!(0 < size && size <= arrived - consumed, "a request has a size");
            let page: Vec<Vec<u8>> = args.iter(&input[consumed..arrived]).map(<[u8]>::to_vec).collect();
            consumed += size;
            let closes = http::Ask::from_bytes(&page[http::ASK]).closes;
            pages.push(page);
            if closes {
                return pages;
            }
        }
    }
    pages
}

/// Bytes that are nearly a stream of requests, some of them damaged.
pub fn some_input(next: &mut impl FnMut() -> u64) -> Vec<u8> {
    const OPCODES: [u8; 38] = [
        0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x0e, 0x10, 0x11, 0x1c, 0x1d,
        0x1e, 0x1f, 0x20, 0x21, 0x22, 0x83, 0x89, 0x91, 0x92, 0x94, 0x95, 0xa0, 0xb5, 0xba, 0xbb, 0xfe, 0xc5,
        0xc8, 0xd0, 0xd1, 0xd2,
    ];
    let mut input = Vec::new();
    let mut below =
        |count: usize| usize::try_from(next() % u64::try_from(count).expect("fits")).expect("fits");
    for _ in 0..1 + below(6) {
        let opcode = OPCODES[below(OPCODES.len())];
        let extras_size = match opcode {
            1..=3 | 0x11 => 8,
            5 | 6 => 20,
            0x1c..=0x1e => 4,
            0x94 => [0, 4][below(2)],
            0xa0 => below(2),
            0xb5 => [0, 16][below(2)],
            0xc5 | 0xc8 | 0xd2 => [3, 4, 7][below(3)],
            0xd1 => [0, 4, 5][below(3)],
            _ => 0,
        };
        let key: &[u8] = match opcode {
            0x08 | 0x0a | 0x20 | 0x91 | 0x92 | 0xb5 | 0xba | 0xbb | 0xfe => b"",
            _ => [&b"key"[..], b"\0key", b"\x08key", b"SCRAM-SHA1"][below(4)],
        };
        let value: Vec<u8> = match opcode {
            1..=3 | 0x0e | 0x11 => vec![b'v'; [0, 5, 20_000, 70_000][below(4)]],
            0x1f => [0x03, 0x04, 0x07, 0x08, 0x0b, 0x12]
                .iter()
                .flat_map(|code| [0, *code])
                .skip(2 * below(4))
                .collect(),
            0x21 | 0x22 => b"n,,n=u,r=x".to_vec(),
            0x91 => vec![0; 8],
            0x92 => b"\0\x01\0\x04\0key".to_vec(),
            0xbb => b"_default._default".to_vec(),
            0xfe => vec![0, 2],
            0xc5 | 0xc8 | 0xd2 => b"path.of[1]value".repeat([1, 3000][below(2)]),
            0xd0 => b"\xc5\0\0\x01a".repeat(below(4)),
            0xd1 => b"\xc8\x01\0\x01\0\0\0\x01a1".repeat(below(4)),
            _ => Vec::new(),
        };
        let frames: &[u8] = [&b""[..], b"\x13\x01\xca\x08", b"\x50", b"\x11\x03", b"\xff\xff"][below(5)];
        let size = |size: usize| u8::try_from(size).expect("short");
        let body_size = frames.len() + extras_size + key.len() + value.len();
        if frames.is_empty() {
            input.extend([MAGIC_REQUEST, opcode, 0, size(key.len())]);
        } else {
            input.extend([MAGIC_FRAMED, opcode, size(frames.len()), size(key.len())]);
        }
        input.extend([size(extras_size), size(below(3)), 0, size(below(3))]);
        input.extend(u32::try_from(body_size).expect("short").to_be_bytes());
        input.extend([0, 0, 0, 7]);
        input.extend([0, 0, 0, 0, 0, 0, 0, size(below(2))]);
        input.extend(frames);
        input.extend((0..extras_size).map(|index| size(index % 3)));
        input.extend([key, &value].concat());
    }
    if below(2) == 0 {
        for _ in 0..1 + below(3) {
            let index = below(input.len());
            input[index] = b"\x80\x08\0\x01\x1f\xff"[below(6)];
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_may_come() {
        let mut state: u64 = 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for seed in 0..600 {
            requests(&some_input(&mut next), seed);
        }
        for seed in 0..200 {
            let size = next() % 300;
            let input: Vec<u8> = (0..size)
                .map(|_| b"GET /pools HTTP/1.\r\n: \x80"[usize::from(next().to_be_bytes()[0] % 23)])
                .collect();
            requests(&input, seed);
        }
    }
}
