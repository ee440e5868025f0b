//! Couchbase's key-value protocol: memcached's binary frames, in which each request names the key's vbucket. A node that does
//! not own it answers with the bucket's map.

use net::Output;

use super::memcached::{Binary, BinaryReading};
use super::{Answer, Part, Protocol, memcached};
use crate::connect::couchbase::status_text;
use crate::workload::Workload;

/// The status of a request for a vbucket of somebody else's.
const NOT_MY_VBUCKET: u16 = 0x07;

/// The protocol.
pub struct Couchbase(Binary);

impl Couchbase {
    /// Prepares the requests of a workload.
    pub fn new(workload: &Workload) -> Couchbase {
        Couchbase(Binary::with_vbuckets(workload))
    }
}

impl Protocol for Couchbase {
    type Reading = BinaryReading;

    #[inline]
    fn put(&mut self, operation: usize, key: &mut dyn FnMut() -> u32, size: usize, output: &mut Output) {
        self.0.put(operation, key, size, output);
    }

    fn next(
        reading: &mut BinaryReading,
        input: &[u8],
        see: &mut impl FnMut(Part<'_>),
    ) -> Result<(Option<Answer>, usize), String> {
        let mut error = None;
        let answer = memcached::read(&mut reading.0, input, &mut |part| match part {
            Part::Error(body) => error = Some(body.to_vec()),
            part @ Part::Bytes(_) => see(part),
        })?;
        if let Some(body) = error {
            match reading.0.status() {
                NOT_MY_VBUCKET if !body.is_empty() => see(Part::Error(&body)),
                status => see(Part::Error(status_text(status).as_bytes())),
            }
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use wire::route::vbucket;

    use super::*;

    #[test]
    fn requests_name_their_vbucket() {
        let workload = Workload {
            key_prefix: "k".to_owned(),
            operations: "get,set,ping".parse().unwrap(),
            ..Workload::default()
        };
        let mut couchbase = Couchbase::new(&workload);
        let mut output = Output::new();
        (0..3).for_each(|operation| couchbase.put(operation, &mut || 7, 4, &mut output));
        let bytes: Vec<u8> = output.pieces().flatten().copied().collect();
        let of = vbucket(b"k000000000007").to_be_bytes();
        assert_ne!(of, [0, 0]);
        let get =
            [&[0x80, 0, 0, 13, 0, 0, of[0], of[1], 0, 0, 0, 13][..], &[0; 12], b"k000000000007"].concat();
        let set =
            [&[0x80, 1, 0, 13, 8, 0, of[0], of[1], 0, 0, 0, 25][..], &[0; 20], b"k0000000000070000"].concat();
        let noop = [&[0x80, 0x0a][..], &[0; 22]].concat();
        assert_eq!(bytes, [get, set, noop].concat());
    }

    #[test]
    fn errors_are_said_in_words_and_maps_shown_whole() {
        let reply = |status: u8, body: &[u8]| {
            let header = [0x81, 0, 0, 0, 0, 0, 0, status, 0, 0, 0, u8::try_from(body.len()).unwrap()];
            [&header[..], &[0; 12], body].concat()
        };
        let bytes =
            [reply(0, b"x"), reply(1, b""), reply(7, b"{map}"), reply(7, b""), reply(0x86, b"")].concat();
        for cut in 0..bytes.len() {
            let (mut reading, mut parts, mut got, mut at) =
                (BinaryReading::default(), Vec::new(), Vec::new(), 0);
            for end in [cut, bytes.len()] {
                loop {
                    let mut see = |part: Part<'_>| match part {
                        Part::Error(text) => parts.push(String::from_utf8_lossy(text).into_owned()),
                        Part::Bytes(bytes) => assert_eq!(bytes, b"x"),
                    };
                    let (answer, size) = Couchbase::next(&mut reading, &bytes[at..end], &mut see).unwrap();
                    at += size;
                    let Some(answer) = answer else { break };
                    got.push(answer);
                }
            }
            assert_eq!(got, [Answer::Value, Answer::Miss, Answer::Error, Answer::Error, Answer::Error]);
            assert_eq!(
                parts,
                ["{map}", "status 0x07: not this node's vbucket", "status 0x86: busy"],
                "{cut}"
            );
        }
    }
}
