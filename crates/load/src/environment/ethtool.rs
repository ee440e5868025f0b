//! A link's driver, rings, channels, coalescing and offloads, as `ethtool` prints them: `linux/ethtool.h`.
//!
//! ```text
//! ethtool_drvinfo     cmd, driver[32], version[32], fw_version[32], bus_info[32], …                 196 bytes
//! ethtool_coalesce    cmd, 22 words                                                                  92 bytes
//! ethtool_ringparam   cmd, maxima (rx, mini, jumbo, tx), set (rx, mini, jumbo, tx)                   36 bytes
//! ethtool_channels    cmd, maxima (rx, tx, other, combined), set (rx, tx, other, combined)           36 bytes
//! ethtool_value       cmd, data                                                                       8 bytes
//! ```
//! The address on the bus is in there, too, and left: it names a slot and not a property.

use super::{Group, System};

const GET_DRIVER: u32 = 0x03;
const GET_COALESCE: u32 = 0x0e;
const GET_RINGS: u32 = 0x10;
const GET_CHANNELS: u32 = 0x3c;
const GET_FLAGS: u32 = 0x25;
/// Offloads that have a command of their own.
const OFFLOADS: [(&str, u32); 6] = [
    ("rx-checksum", 0x14),
    ("tx-checksum", 0x16),
    ("scatter-gather", 0x18),
    ("tso", 0x1e),
    ("gso", 0x23),
    ("gro", 0x2b),
];
/// Offloads that are bits of the answer to [`GET_FLAGS`].
const FLAGS: [(&str, u32); 5] = [("rxvlan", 8), ("txvlan", 7), ("lro", 15), ("ntuple", 27), ("rxhash", 28)];

/// All that is asked here: they change nothing, and their structures have fixed sizes of at most 196 bytes.
pub(super) const READING_COMMANDS: [u32; 11] =
    [GET_DRIVER, GET_COALESCE, GET_RINGS, GET_CHANNELS, GET_FLAGS, 0x14, 0x16, 0x18, 0x1e, 0x23, 0x2b];

/// Adds what the driver of a link answers.
pub(super) fn describe(group: &mut Group, link: &str, system: &dyn System) {
    let driver = system.link(link, GET_DRIVER);
    group.equal("driver version", driver.as_ref().and_then(|answer| text(answer, 36)));
    group.equal("firmware", driver.as_ref().and_then(|answer| text(answer, 68)));
    group.equal("rings", system.link(link, GET_RINGS).map(|words| rings(&words)));
    group.equal("channels", system.link(link, GET_CHANNELS).map(|words| channels(&words)));
    group.equal("coalescing", system.link(link, GET_COALESCE).map(|words| coalescing(&words)));
    group.equal("offloads", offloads(link, system));
}

fn rings(words: &[u32]) -> String {
    format!("rx {} of {}, tx {} of {}", words[5], words[1], words[8], words[4])
}

fn channels(words: &[u32]) -> String {
    let kinds = ["rx", "tx", "other", "combined"];
    let kinds = kinds.iter().enumerate().filter(|(at, _)| words[1 + at] != 0);
    kinds
        .map(|(at, kind)| format!("{kind} {} of {}", words[5 + at], words[1 + at]))
        .collect::<Vec<_>>()
        .join(", ")
}

fn coalescing(words: &[u32]) -> String {
    let adaptive = |word: u32| if word == 0 { "fixed" } else { "adaptive" };
    format!(
        "rx {} {} µs {} frames, tx {} {} µs {} frames",
        adaptive(words[10]),
        words[1],
        words[2],
        adaptive(words[11]),
        words[5],
        words[6]
    )
}

fn offloads(link: &str, system: &dyn System) -> Option<String> {
    let state = |is_on: bool| if is_on { "on" } else { "off" };
    let mut shown: Vec<String> = OFFLOADS
        .iter()
        .filter_map(|(name, command)| Some(format!("{name} {}", state(system.link(link, *command)?[1] != 0))))
        .collect();
    if let Some(words) = system.link(link, GET_FLAGS) {
        shown.extend(FLAGS.iter().map(|(name, bit)| format!("{name} {}", state(words[1] >> bit & 1 == 1))));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// The text of up to 32 bytes at an offset; none when the driver left it empty.
fn text(words: &[u32], offset: usize) -> Option<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).skip(offset).take(32).collect();
    let size = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..size]).trim().to_owned();
    (!text.is_empty() && text != "N/A").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::super::system::Answer;
    use super::*;

    /// A driver that answers each command with numbers that tell their place.
    struct Driver;

    impl System for Driver {
        fn machine(&self) -> Option<String> {
            None
        }

        fn link(&self, name: &str, command: u32) -> Option<Answer> {
            assert_eq!(name, "eth0");
            let mut words = [0; 64];
            match command {
                GET_DRIVER => {
                    let mut bytes = [0; 256];
                    for (at, text) in
                        [(4, "ice"), (36, "6.1.0"), (68, "4.40 0x8001c967"), (100, "0000:17:00.0")]
                    {
                        bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
                    }
                    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    }
                }
                GET_FLAGS => words[1] = 1 << 27,
                0x14 | 0x1e => words[1] = 1,
                0x18 => return None,
                _ => {
                    for (at, word) in (0..).zip(words.iter_mut()) {
                        *word = at;
                    }
                }
            }
            Some(words)
        }
    }

    #[test]
    fn each_word_stands_where_the_header_says() {
        let mut group = Group::new("link eth0");
        describe(&mut group, "eth0", &Driver);
        let got: Vec<(&str, &str)> =
            group.items.iter().map(|item| (item.name.as_str(), item.shown())).collect();
        let want = [
            ("driver version", "6.1.0"),
            ("firmware", "4.40 0x8001c967"),
            ("rings", "rx 5 of 1, tx 8 of 4"),
            ("channels", "rx 5 of 1, tx 6 of 2, other 7 of 3, combined 8 of 4"),
            ("coalescing", "rx adaptive 1 µs 2 frames, tx adaptive 5 µs 6 frames"),
            (
                "offloads",
                "rx-checksum on, tx-checksum on, tso on, gso on, gro on, rxvlan off, txvlan off, lro off, ntuple on, \
                 rxhash off",
            ),
        ];
        assert_eq!(got, want);
    }
}
