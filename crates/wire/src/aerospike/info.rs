//! Info requests: names, one a line, each answered with its value; and values that clients parse.
//!
//! The reply has every name that was asked for, in the same order and once for each time, as it was asked, behind it a tab,
//! the value and the line's end. Clients read values by their place (`as_lookup.c`).

use super::PARTITIONS;
use super::message::PROTO_VERSION;
use crate::memcached::base64;
use crate::reply::Put;

/// Largest info request that is looked at. A larger one closes the connection.
pub(super) const INFO_SIZE_MAX: u64 = 32 * 1024;

/// The names of a request. One without any asks for all.
pub fn names(body: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    body.split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
}

/// A name in its parts: `truncate:namespace=test;set=demo` is `truncate` and `namespace=test;set=demo`, `sets/test` is `sets`
/// and `test`.
pub fn parts(name: &[u8]) -> (&[u8], &[u8]) {
    match name.iter().position(|byte| matches!(byte, b':' | b'/')) {
        None => (name, b""),
        Some(at) => (&name[..at], &name[at + 1..]),
    }
}

/// The value of an option in `namespace=test;set=demo`.
pub fn option<'a>(options: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    options.split(|byte| *byte == b';').find_map(|option| option.strip_prefix(name)?.strip_prefix(b"="))
}

/// The options of a request that asks for one thing only, which removes records.
pub(super) fn truncated_alone(body: &[u8]) -> Option<&[u8]> {
    let mut names = names(body);
    let options = names.next().and_then(truncated)?;
    names.next().is_none().then_some(options)
}

/// The options of a name that removes records: `truncate` all of a set (or of the namespace, in the old form without a set),
/// `truncate-namespace` all.
pub fn truncated(name: &[u8]) -> Option<&[u8]> {
    match parts(name) {
        (b"truncate" | b"truncate-namespace", options) => Some(options),
        _ => None,
    }
}

/// Writes a reply with this body.
pub fn put(out: &mut impl Put, body: &[u8]) {
    let size = u32::try_from(body.len()).expect("a reply to few names");
    let [a, b, c, d] = size.to_be_bytes();
    out.put(&[PROTO_VERSION, super::message::kind::INFO, 0, 0, a, b, c, d]);
    out.put(body);
}

/// Partitions as clients read them: a bit each, the first one the highest of the first byte, in base64 (684 letters).
pub fn bitmap(mut owns: impl FnMut(u16) -> bool) -> String {
    let mut bits = [0_u8; PARTITIONS as usize / 8];
    for partition in 0..PARTITIONS {
        bits[usize::from(partition / 8)] |= u8::from(owns(partition)) << (7 - partition % 8);
    }
    base64::letters(&bits).flatten().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_in_their_order() {
        let all = |body: &str| {
            names(body.as_bytes()).map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(all("node\npartition-generation\nnode\n"), ["node", "partition-generation", "node"]);
        assert_eq!(all("node"), ["node"]);
        assert_eq!(all("a\r\n\n\nb\n"), ["a", "b"]);
        assert!(all("").is_empty() && all("\n").is_empty());
        assert_eq!(parts(b"sets/test"), (&b"sets"[..], &b"test"[..]));
        assert_eq!(parts(b"node"), (&b"node"[..], &b""[..]));
        let options = truncated(b"truncate:namespace=test;set=demo;lut=5").unwrap();
        assert_eq!(option(options, b"namespace"), Some(&b"test"[..]));
        assert_eq!(option(options, b"set"), Some(&b"demo"[..]));
        assert_eq!(option(options, b"name"), None);
        assert!(
            truncated_alone(b"truncate:namespace=test\n") == Some(b"namespace=test")
                && truncated_alone(b"truncate:namespace=test\nnode\n").is_none()
        );
        assert_eq!((truncated_alone(b""), truncated_alone(b"truncated\n")), (None, None));
    }

    /// Runs of letters as `as_partition.c` decodes them, for four nodes and others.
    #[test]
    fn owned_partitions_are_bits_in_base64() {
        let runs =
            |runs: &[(&str, usize)]| runs.iter().map(|(text, count)| text.repeat(*count)).collect::<String>();
        let check = |owns: &dyn Fn(u16) -> bool, want: &[(&str, usize)]| {
            let map = bitmap(owns);
            assert_eq!(map, runs(want));
            assert_eq!(map.len(), 684);
        };
        check(&|pid| pid < 1024, &[("////", 42), ("//8A", 1), ("AAAA", 127), ("AAA=", 1)]);
        check(
            &|pid| pid / 1024 == 1,
            &[("AAAA", 42), ("AAD/", 1), ("////", 42), ("/wAA", 1), ("AAAA", 84), ("AAA=", 1)],
        );
        check(&|pid| pid % 4 == 0, &[("iIiI", 170), ("iIg=", 1)]);
        check(&|_| true, &[("////", 170), ("//8=", 1)]);
        check(&|_| false, &[("AAAA", 170), ("AAA=", 1)]);
        check(&|pid| pid == 1975, &[("AAAA", 82), ("AQAA", 1), ("AAAA", 87), ("AAA=", 1)]);
    }
}
