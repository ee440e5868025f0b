//! Settings of a card that the ethtool family of netlink has: channels, rings, moderation, features, private flags.
//!
//! Source: Documentation/networking/ethtool-netlink.rst. What it lacks is in [`super::ioctl`].

use std::collections::BTreeMap;

use super::errno::{invalid, said, unsupported};
use super::netlink::{Attributes, Family, GENERIC_HEADER_SIZE, Message, Netlink, Reply};
use crate::facts::{Channels, Feature, Rings};
use crate::{Refusal, Setting};

const FAMILY: &str = "ethtool";
const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
const FLAGS_GET: u8 = 13;
const FLAGS_SET: u8 = 14;
const RINGS_GET: u8 = 15;
const RINGS_SET: u8 = 16;
const CHANNELS_GET: u8 = 17;
const CHANNELS_SET: u8 = 18;
const COALESCE_GET: u8 = 19;
const COALESCE_SET: u8 = 20;

/// First attribute of every request: which card.
const HEADER: u16 = 1;
const HEADER_NAME: u16 = 2;

const CHANNELS_RX_MAX: u16 = 2;
const CHANNELS_TX_MAX: u16 = 3;
const CHANNELS_COMBINED_MAX: u16 = 5;
const CHANNELS_RX: u16 = 6;
const CHANNELS_TX: u16 = 7;
const CHANNELS_COMBINED: u16 = 9;

const CHANNELS: &[(&str, u16)] = &[("rx", CHANNELS_RX), ("tx", CHANNELS_TX), ("combined", CHANNELS_COMBINED)];

const RINGS_RX_MAX: u16 = 2;
const RINGS_TX_MAX: u16 = 5;
const RINGS_RX: u16 = 6;
const RINGS_TX: u16 = 9;
const RINGS: &[(&str, u16)] = &[("rx", RINGS_RX), ("tx", RINGS_TX)];

/// Words of moderation in the order of settings, the attribute of each, and whether it is on or off.
const COALESCE: &[(&str, u16, bool)] =
    &[("adaptive-rx", 11, true), ("rx-usecs", 2, false), ("adaptive-tx", 12, true), ("tx-usecs", 6, false)];

const FEATURES_HARDWARE: u16 = 2;
const FEATURES_WANTED: u16 = 3;
const FEATURES_ACTIVE: u16 = 4;
const FEATURES_FIXED: u16 = 5;
const FLAGS: u16 = 2;

const BITS_NO_MASK: u16 = 1;
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

fn request(netlink: &mut Netlink, command: u8, nic: &str) -> Result<(Family, Message), Refusal> {
    let family = Family::find(netlink, FAMILY)?
        .ok_or_else(|| unsupported("this kernel has no ethtool netlink: it came with Linux 5.6"))?;
    Ok((family, with_header(family, command, nic)))
}

fn with_header(family: Family, command: u8, nic: &str) -> Message {
    let mut request = family.request(command, 0);
    request.nest(HEADER, &[], |header| {
        header.put_text(HEADER_NAME, nic);
    });
    request
}

/// The one answer to a request for one card.
fn get(netlink: &mut Netlink, command: u8, nic: &str) -> Result<Reply, Refusal> {
    let (_, request) = request(netlink, command, nic)?;
    netlink.ask(&request)?.into_iter().next().ok_or_else(|| said(libc::EOPNOTSUPP, ""))
}

/// Those of a card, and the most of each.
pub(crate) fn channels(netlink: &mut Netlink, nic: &str) -> Result<Channels, Refusal> {
    let reply = get(netlink, CHANNELS_GET, nic)?;
    Ok(channels_of(reply.split::<GENERIC_HEADER_SIZE>().1))
}

fn channels_of(attributes: Attributes<'_>) -> Channels {
    let count = |kind| attributes.u32(kind).unwrap_or(0);
    Channels {
        rx: count(CHANNELS_RX),
        tx: count(CHANNELS_TX),
        combined: count(CHANNELS_COMBINED),
        rx_max: count(CHANNELS_RX_MAX),
        tx_max: count(CHANNELS_TX_MAX),
        combined_max: count(CHANNELS_COMBINED_MAX),
    }
}

pub(super) fn set_channels(netlink: &mut Netlink, nic: &str, value: &Setting) -> Result<(), Refusal> {
    set_numbers(netlink, CHANNELS_SET, nic, value, CHANNELS)
}

pub(crate) fn rings(netlink: &mut Netlink, nic: &str) -> Result<Rings, Refusal> {
    let reply = get(netlink, RINGS_GET, nic)?;
    Ok(rings_of(reply.split::<GENERIC_HEADER_SIZE>().1))
}

fn rings_of(attributes: Attributes<'_>) -> Rings {
    let count = |kind| attributes.u32(kind).unwrap_or(0);
    Rings {
        rx: count(RINGS_RX),
        tx: count(RINGS_TX),
        rx_max: count(RINGS_RX_MAX),
        tx_max: count(RINGS_TX_MAX),
    }
}

pub(super) fn rings_text(rings: &Rings) -> Setting {
    Setting::new(format!("rx {} tx {}", rings.rx, rings.tx))
}

pub(super) fn set_rings(netlink: &mut Netlink, nic: &str, value: &Setting) -> Result<(), Refusal> {
    set_numbers(netlink, RINGS_SET, nic, value, RINGS)
}

fn set_numbers(
    netlink: &mut Netlink,
    command: u8,
    nic: &str,
    value: &Setting,
    kinds: &[(&str, u16)],
) -> Result<(), Refusal> {
    let (_, mut request) = request(netlink, command, nic)?;
    put_numbers(&mut request, value, kinds)?;
    netlink.ask(&request).map(|_| ())
}

/// Pairs of a word and a number.
fn put_numbers(request: &mut Message, value: &Setting, kinds: &[(&str, u16)]) -> Result<(), Refusal> {
    let words: Vec<&str> = value.words().collect();
    for pair in words.chunks(2) {
        let kind = kinds.iter().find(|(name, _)| *name == pair[0]).map(|(_, kind)| *kind);
        let number = pair.get(1).and_then(|text| text.parse().ok());
        let (Some(kind), Some(number)) = (kind, number) else {
            let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
            return Err(invalid(format!("'{value}' is not pairs of {} and a number", names.join(", "))));
        };
        request.put_u32(kind, number);
    }
    Ok(())
}

/// Moderation; what the card has not is absent.
pub(crate) fn coalesce(netlink: &mut Netlink, nic: &str) -> Result<Setting, Refusal> {
    let reply = get(netlink, COALESCE_GET, nic)?;
    Ok(coalesce_of(reply.split::<GENERIC_HEADER_SIZE>().1))
}

fn coalesce_of(attributes: Attributes<'_>) -> Setting {
    let word = |(name, kind, is_switch): &(&str, u16, bool)| {
        let number = attributes.number(*kind)?;
        Some(if *is_switch { format!("{name} {}", on_off(number != 0)) } else { format!("{name} {number}") })
    };
    Setting::new(COALESCE.iter().filter_map(word).collect::<Vec<_>>().join(" "))
}

pub(super) fn set_coalesce(netlink: &mut Netlink, nic: &str, value: &Setting) -> Result<(), Refusal> {
    let (_, mut request) = request(netlink, COALESCE_SET, nic)?;
    put_coalesce(&mut request, value)?;
    netlink.ask(&request).map(|_| ())
}

fn put_coalesce(request: &mut Message, value: &Setting) -> Result<(), Refusal> {
    for (name, number) in coalesce_words(value)? {
        let (_, kind, is_switch) =
            COALESCE.iter().find(|(this, _, _)| *this == name).expect("names were checked");
        if *is_switch {
            request.put_u8(*kind, u8::from(number != 0));
        } else {
            request.put_u32(*kind, number);
        }
    }
    Ok(())
}

/// Words of moderation as numbers; on is 1.
pub(super) fn coalesce_words(value: &Setting) -> Result<Vec<(&'static str, u32)>, Refusal> {
    let words: Vec<&str> = value.words().collect();
    let pairs = words.chunks(2).map(|pair| {
        let (name, _, is_switch) = COALESCE.iter().find(|(name, _, _)| *name == pair[0])?;
        let number = match (is_switch, *pair.get(1)?) {
            (true, "on") => 1,
            (true, "off") => 0,
            (true, _) => return None,
            (false, text) => text.parse().ok()?,
        };
        Some((*name, number))
    });
    pairs.collect::<Option<Vec<_>>>().ok_or_else(|| {
        invalid(format!(
            "'{value}' is not like 'adaptive-rx off rx-usecs 50 adaptive-tx off tx-usecs 50', or a part of that"
        ))
    })
}

/// Words of `value` that `card`, the moderation of the card as it is told here, has not: drivers know some of them each, and the
/// kernel leaves out what the driver does not know (net/ethtool/coalesce.c).
fn lacking<'a>(value: &'a Setting, card: &Setting) -> Vec<&'a str> {
    value.words().step_by(2).filter(|word| card.after(word).is_none()).collect()
}

/// Of a queue's moderation what the driver knows: the request for a queue is answered with zeros for the rest.
pub(super) fn known_moderation(queue: &Setting, card: &Setting) -> Setting {
    let lacking = lacking(queue, card);
    let words: Vec<&str> = queue.words().collect();
    let known = words.chunks(2).filter(|pair| !lacking.contains(&pair[0]));
    Setting::new(known.flatten().copied().collect::<Vec<_>>().join(" "))
}

/// Refuses moderation that the driver does not know, word by word: the kernel does so without saying which.
pub(super) fn check_moderation(nic: &str, value: &Setting, card: &Setting) -> Result<(), Refusal> {
    let lacking = lacking(value, card);
    if lacking.is_empty() {
        return Ok(());
    }
    let has: Vec<&str> = card.words().step_by(2).collect();
    Err(super::errno::unsupported(format!(
        "the driver of {nic} has no {}: it has {}; leave the others out of `moderation`",
        lacking.join(" and no "),
        if has.is_empty() { "none of them".to_owned() } else { has.join(", ") }
    )))
}

/// `on`, `off`.
pub(super) fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

pub(super) fn parse_on_off(value: &Setting) -> Result<bool, Refusal> {
    match value.as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(invalid(format!("'{other}' is neither 'on' nor 'off'"))),
    }
}

/// Features by the kernel's names. One that the card can't have is there only if it is on or never changes.
pub(crate) fn features(netlink: &mut Netlink, nic: &str) -> Result<BTreeMap<String, Feature>, Refusal> {
    let reply = get(netlink, FEATURES_GET, nic)?;
    Ok(features_of(reply.split::<GENERIC_HEADER_SIZE>().1))
}

fn features_of(attributes: Attributes<'_>) -> BTreeMap<String, Feature> {
    let (hardware, fixed) = (bits(attributes, FEATURES_HARDWARE), bits(attributes, FEATURES_FIXED));
    let active = bits(attributes, FEATURES_ACTIVE);
    let mut features = BTreeMap::new();
    // What the card has is told with a mask of all that there are.
    let is_set = |set: &BTreeMap<String, bool>, name: &String| set.get(name) == Some(&true);
    for name in hardware.keys().chain(active.keys()).chain(fixed.keys()) {
        let can_change = is_set(&hardware, name) && !is_set(&fixed, name);
        let feature = Feature { on: is_set(&active, name), fixed: !can_change };
        features.insert(name.clone(), feature);
    }
    features
}

/// Names of a bitset's bits, and their values where it has a mask. Without a mask what is listed is set.
fn bits(attributes: Attributes<'_>, kind: u16) -> BTreeMap<String, bool> {
    let set = attributes.within(kind);
    let has_mask = set.find(BITS_NO_MASK).is_none();
    let listed = set.within(BITS).filter(|(kind, _)| *kind == BIT).filter_map(|(_, bit)| {
        let bit = Attributes(bit);
        Some((bit.text(BIT_NAME)?, !has_mask || bit.find(BIT_VALUE).is_some()))
    });
    listed.collect()
}

pub(super) fn feature(netlink: &mut Netlink, nic: &str, name: &str) -> Result<bool, Refusal> {
    let features = features(netlink, nic)?;
    let found = features.get(name);
    match found {
        Some(feature) => Ok(feature.on),
        None => Err(unsupported(format!(
            "{nic} has no feature '{name}' (or can't have it): see `ethtool -k {nic}`"
        ))),
    }
}

pub(super) fn set_feature(netlink: &mut Netlink, nic: &str, name: &str, is_on: bool) -> Result<(), Refusal> {
    set_bit(netlink, FEATURES_SET, FEATURES_WANTED, nic, name, is_on)?;
    if feature(netlink, nic, name)? == is_on {
        return Ok(());
    }
    Err(unsupported(format!(
        "the driver keeps {name} {}: it is fixed, or hangs on another feature",
        on_off(!is_on)
    )))
}

pub(crate) fn private_flags(netlink: &mut Netlink, nic: &str) -> Result<BTreeMap<String, bool>, Refusal> {
    let reply = get(netlink, FLAGS_GET, nic)?;
    Ok(bits(reply.split::<GENERIC_HEADER_SIZE>().1, FLAGS))
}

pub(super) fn private_flag(netlink: &mut Netlink, nic: &str, name: &str) -> Result<bool, Refusal> {
    let flags = private_flags(netlink, nic)?;
    flags.get(name).copied().ok_or_else(|| {
        let names: Vec<&str> = flags.keys().map(String::as_str).collect();
        unsupported(format!("this driver has no private flag '{name}', only {}", names.join(", ")))
    })
}

pub(super) fn set_private_flag(
    netlink: &mut Netlink,
    nic: &str,
    name: &str,
    is_on: bool,
) -> Result<(), Refusal> {
    private_flag(netlink, nic, name)?;
    set_bit(netlink, FLAGS_SET, FLAGS, nic, name, is_on)
}

/// One bit of a bitset; the others stay.
fn set_bit(
    netlink: &mut Netlink,
    command: u8,
    kind: u16,
    nic: &str,
    name: &str,
    is_on: bool,
) -> Result<(), Refusal> {
    let (_, mut request) = request(netlink, command, nic)?;
    put_bit(&mut request, kind, name, is_on);
    netlink.ask(&request).map(|_| ())
}

fn put_bit(request: &mut Message, kind: u16, name: &str, is_on: bool) {
    request.nest(kind, &[], |set| {
        set.nest(BITS, &[], |bits| {
            bits.nest(BIT, &[], |bit| {
                bit.put_text(BIT_NAME, name);
                if is_on {
                    bit.put(BIT_VALUE, &[]);
                }
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_is_set_and_the_others_are_not_named() {
        let mut message = Message::new(0, 0, &[]);
        put_bit(&mut message, FLAGS, "fw-lldp-agent", false);
        put_bit(&mut message, FEATURES_ACTIVE, "rx-gro", true);
        let attributes = message.attributes(0);
        assert_eq!(bits(attributes, FLAGS), BTreeMap::from([("fw-lldp-agent".to_owned(), false)]));
        assert_eq!(bits(attributes, FEATURES_ACTIVE), BTreeMap::from([("rx-gro".to_owned(), true)]));
        assert_eq!(bits(attributes, FEATURES_FIXED), BTreeMap::new());
    }

    #[test]
    fn counts_are_written_where_they_are_read() {
        let mut message = Message::new(0, 0, &[]);
        put_numbers(&mut message, &Setting::new("rx 1024 tx 512"), RINGS).unwrap();
        let most = message.put_u32(RINGS_RX_MAX, 4096).put_u32(RINGS_TX_MAX, 2048);
        let rings = rings_of(most.attributes(0));
        assert_eq!((rings_text(&rings).as_str(), rings.rx_max, rings.tx_max), ("rx 1024 tx 512", 4096, 2048));
        // ETHTOOL_A_RINGS_RX and _TX of linux/ethtool_netlink.h.
        let attributes = message.attributes(0);
        assert_eq!((attributes.u32(6), attributes.u32(9)), (Some(1024), Some(512)));

        let mut message = Message::new(0, 0, &[]);
        put_numbers(&mut message, &Setting::new("rx 1 tx 2 combined 3"), CHANNELS).unwrap();
        assert_eq!(channels_of(message.attributes(0)).text(), "rx 1 tx 2 combined 3");
        assert!(put_numbers(&mut message, &Setting::new("many 4"), CHANNELS).is_err());
    }

    #[test]
    fn moderation_is_written_where_it_is_read() {
        let text = "adaptive-rx on rx-usecs 50 adaptive-tx off tx-usecs 7";
        let mut message = Message::new(0, 0, &[]);
        put_coalesce(&mut message, &Setting::new(text)).unwrap();
        let attributes = message.attributes(0);
        assert_eq!(coalesce_of(attributes).as_str(), text);
        // ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX and _TX, and RX_USECS.
        assert_eq!((attributes.u8(11), attributes.u8(12), attributes.u32(2)), (Some(1), Some(0), Some(50)));
        let mut part = Message::new(0, 0, &[]);
        put_coalesce(&mut part, &Setting::new("tx-usecs 0")).unwrap();
        assert_eq!(coalesce_of(part.attributes(0)).as_str(), "tx-usecs 0", "what is not named is not sent");
    }

    /// Sets as the kernel tells them (`features_fill_reply`): of that with a mask, which lists all, what has a value is set; of those
    /// without, what is listed.
    #[test]
    fn a_feature_can_change_if_the_card_has_it_and_the_driver_does_not_keep_it() {
        let mut message = Message::new(0, 0, &[]);
        let hardware = ["rx-gro", "rx-lro", "highdma"];
        message.nest(FEATURES_HARDWARE, &[], |set| {
            set.nest(BITS, &[], |bits| {
                for name in ["highdma", "hw-tc-offload", "rx-gro", "rx-lro", "vlan-challenged"] {
                    bits.nest(BIT, &[], |bit| {
                        bit.put_text(BIT_NAME, name);
                        if hardware.contains(&name) {
                            bit.put(BIT_VALUE, &[]);
                        }
                    });
                }
            });
        });
        for (kind, names) in
            [(FEATURES_ACTIVE, &["rx-gro", "highdma", "vlan-challenged"][..]), (FEATURES_FIXED, &["highdma"])]
        {
            message.nest(kind, &[], |set| {
                set.put(BITS_NO_MASK, &[]).nest(BITS, &[], |bits| {
                    for name in names {
                        bits.nest(BIT, &[], |bit| {
                            bit.put_text(BIT_NAME, name);
                        });
                    }
                });
            });
        }
        let features = features_of(message.attributes(0));
        let shown = features.iter().map(|(name, it)| (name.as_str(), it.on, it.fixed));
        let want = [
            ("highdma", true, true),
            ("hw-tc-offload", false, true),
            ("rx-gro", true, false),
            ("rx-lro", false, false),
            ("vlan-challenged", true, true),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), want);
        let listed = bits(message.attributes(0), FEATURES_ACTIVE);
        assert!(listed.len() == 3 && listed.values().all(|is_set| *is_set), "without a mask all are set");
    }

    #[test]
    fn moderation_that_a_driver_lacks_is_named() {
        let all = Setting::new("adaptive-rx off rx-usecs 20 adaptive-tx off tx-usecs 0");
        let check = |card: &str, known: &str, refused: &str| {
            let card = Setting::new(card);
            assert_eq!(known_moderation(&all, &card).as_str(), known);
            let said = check_moderation("ens1", &all, &card).map_err(|refusal| refusal.reason);
            match refused {
                "" => assert_eq!(said, Ok(())),
                _ => assert!(said.as_ref().is_err_and(|it| it.contains(refused)), "{said:?}"),
            }
        };
        check("adaptive-rx on rx-usecs 20 adaptive-tx on tx-usecs 64", all.as_str(), "");
        // ena, gve, and a card that has none.
        let ena = "has no adaptive-tx: it has adaptive-rx, rx-usecs, tx-usecs;";
        check("adaptive-rx on rx-usecs 20 tx-usecs 64", "adaptive-rx off rx-usecs 20 tx-usecs 0", ena);
        let gve = "has no adaptive-rx and no adaptive-tx: it has rx-usecs, tx-usecs;";
        check("rx-usecs 20 tx-usecs 50", "rx-usecs 20 tx-usecs 0", gve);
        check("", "", "and no tx-usecs: it has none of them;");
    }

    #[test]
    fn words_of_moderation_are_numbers() {
        let words = coalesce_words(&Setting::new("adaptive-rx on rx-usecs 50 adaptive-tx off")).unwrap();
        assert_eq!(words, [("adaptive-rx", 1), ("rx-usecs", 50), ("adaptive-tx", 0)]);
        for odd in ["rx-usecs", "rx-usecs x", "adaptive-rx 1", "frames 5"] {
            assert!(coalesce_words(&Setting::new(odd)).unwrap_err().reason.contains(odd), "{odd}");
        }
    }
}
