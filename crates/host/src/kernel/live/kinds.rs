//! Kinds of queueing disciplines and classes: their options as words of tc(8), and as bytes.
//!
//! A kind that is not known here is shown by its name alone and can't be written. Defaults are left out of the text; what a
//! reader could not tell from a default is, too. Sources: include/uapi/linux/pkt_sched.h, and how tc(8) fills it.

use super::errno::invalid;
use super::netlink::{Attributes, Message, u16_at, u32_at};
use super::qdisc::{KIND, OPTIONS, read_only};
use super::units::{bytes_of, parse_rate, parse_size, parse_time, rate, size, ticks, time};
use crate::Refusal;

/// A kind's options differ between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Qdisc,
    Class,
}

/// Kinds that the kernel gives a card by itself, without a handle.
pub(super) fn is_default(kind: &str) -> bool {
    matches!(kind, "mq" | "noqueue" | "pfifo_fast")
}

/// Kinds below which something can hang, by their handle.
pub(super) fn has_classes(kind: &str) -> bool {
    matches!(
        kind,
        "htb" | "mq" | "mqprio" | "prio" | "hfsc" | "drr" | "ets" | "multiq" | "taprio" | "qfq" | "cbq"
    )
}

/// The kind and its options in words.
pub(super) fn text(place: Place, kind: &str, options: &[u8]) -> String {
    let words = match (place, kind) {
        (Place::Class, "htb") => htb_class_text(Attributes(options)),
        (Place::Qdisc, "htb") => htb_text(Attributes(options)),
        (Place::Qdisc, "tbf") => tbf_text(Attributes(options)),
        (Place::Qdisc, "mqprio") => mqprio_text(options),
        (Place::Qdisc, "fq") => fq_text(Attributes(options)),
        (Place::Qdisc, "fq_codel") => fq_codel_text(Attributes(options)),
        (Place::Qdisc, "pfifo") => format!("limit {}", u32_at(options, 0)),
        (Place::Qdisc, "bfifo") => format!("limit {}", size(u32_at(options, 0).into())),
        _ => String::new(),
    };
    format!("{kind} {words}").trim_end().to_owned()
}

/// Puts kind and options into a request; the kind.
pub(super) fn put<'a>(place: Place, message: &mut Message, text: &'a str) -> Result<&'a str, Refusal> {
    let mut words = text.split_ascii_whitespace();
    let kind = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    message.put_text(KIND, kind);
    let put: Option<()> = match (place, kind) {
        (Place::Class, "htb") => put_htb_class(message, &words)?,
        (Place::Qdisc, "htb") => put_htb(message, &words),
        (Place::Qdisc, "tbf") => put_tbf(message, &words)?,
        (Place::Qdisc, "mqprio") => put_mqprio(message, &words)?,
        (Place::Qdisc, "fq") => put_fq(message, &words)?,
        (Place::Qdisc, "fq_codel") => put_fq_codel(message, &words),
        (Place::Qdisc, "pfifo" | "bfifo") => put_fifo(message, &words)?,
        (Place::Qdisc, "clsact" | "ingress" | "mq" | "noqueue" | "pfifo_fast") => {
            words.is_empty().then_some(())
        }
        _ => return Err(read_only(kind)),
    };
    put.ok_or_else(|| {
        invalid(format!("'{text}' has words that {kind} does not know, or lacks one that it needs"))
    })?;
    Ok(kind)
}

/// Words as pairs of a name and a value; each name once.
fn pairs<'a>(words: &[&'a str], names: &[&str]) -> Option<Vec<(&'a str, &'a str)>> {
    let pairs: Option<Vec<(&str, &str)>> =
        words.chunks(2).map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect();
    let pairs = pairs?;
    let is_once = |name: &str| pairs.iter().filter(|(this, _)| *this == name).count() == 1;
    pairs.iter().all(|(name, _)| names.contains(name) && is_once(name)).then_some(pairs)
}

fn value<'a>(pairs: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(this, _)| *this == name).map(|(_, value)| *value)
}

const HTB_PARMS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_RATE64: u16 = 6;
const HTB_CEIL64: u16 = 7;
/// Version of the options that the kernel wants.
const HTB_VERSION: u32 = 3;
/// Bytes of a rate that make a byte of quantum, unless said otherwise.
const HTB_RATE_TO_QUANTUM: u32 = 10;

/// `struct tc_htb_glob`: version, rate2quantum, default class, debug, direct packets; each u32.
fn htb_text(options: Attributes<'_>) -> String {
    let global = options.find(HTB_INIT).unwrap_or_default();
    let (ratio, default) = (u32_at(global, 4), u32_at(global, 8));
    let mut text = if default == 0 { String::new() } else { format!("default {default:x}") };
    if ratio != HTB_RATE_TO_QUANTUM {
        text += &format!(" r2q {ratio}");
    }
    text
}

fn put_htb(message: &mut Message, words: &[&str]) -> Option<()> {
    let pairs = pairs(words, &["default", "r2q"])?;
    let default = match value(&pairs, "default") {
        Some(text) => u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()?,
        None => 0,
    };
    let ratio = match value(&pairs, "r2q") {
        Some(text) => text.parse().ok()?,
        None => HTB_RATE_TO_QUANTUM,
    };
    let global = [HTB_VERSION, ratio, default, 0, 0].map(u32::to_ne_bytes).concat();
    message.nest(OPTIONS, &[], |options| {
        options.put(HTB_INIT, &global);
    });
    Some(())
}

/// What a bucket holds where nothing is said: a packet, as tc(8) fills it on a kernel with fine timers.
const HTB_BURST: u32 = 1600;

/// `struct tc_ratespec`: cell_log u8, linklayer u8, overhead u16, cell_align u16, mpu u16, rate u32.
const RATE_SPEC_SIZE: usize = 12;
const RATE_OFFSET: usize = 8;
const LINK_LAYER_ETHERNET: u8 = 1;

fn rate_spec(rate: u64) -> [u8; RATE_SPEC_SIZE] {
    let mut spec = [0; RATE_SPEC_SIZE];
    spec[1] = LINK_LAYER_ETHERNET;
    let low = u32::try_from(rate).unwrap_or(u32::MAX);
    spec[RATE_OFFSET..].copy_from_slice(&low.to_ne_bytes());
    spec
}

/// The rate of a structure, or the wide one beside it where it does not fit.
fn full_rate(options: Attributes<'_>, wide: u16, spec: &[u8]) -> u64 {
    options.number(wide).unwrap_or_else(|| u32_at(spec, RATE_OFFSET).into())
}

/// `struct tc_htb_opt`: rate, ceil (specs), buffer, cbuffer, quantum, level, prio (each u32).
fn htb_class_text(options: Attributes<'_>) -> String {
    let parms = options.find(HTB_PARMS).unwrap_or_default();
    let ceil_spec = parms.get(RATE_SPEC_SIZE..).unwrap_or_default();
    let (low, high) = (full_rate(options, HTB_RATE64, parms), full_rate(options, HTB_CEIL64, ceil_spec));
    let (burst, ceil_burst) = (bytes_of(u32_at(parms, 24), low), bytes_of(u32_at(parms, 28), high));
    let priority = u32_at(parms, 40);
    let mut text = format!("rate {} ceil {}", rate(low), rate(high));
    let is_usual = |ticks_count: u32, rate: u64| ticks(HTB_BURST, rate).abs_diff(ticks_count) <= 1;
    if !is_usual(u32_at(parms, 24), low) {
        text += &format!(" burst {}", size(burst));
    }
    if !is_usual(u32_at(parms, 28), high) {
        text += &format!(" cburst {}", size(ceil_burst));
    }
    if priority != 0 {
        text += &format!(" prio {priority}");
    }
    text
}

fn put_htb_class(message: &mut Message, words: &[&str]) -> Result<Option<()>, Refusal> {
    let Some(pairs) = pairs(words, &["rate", "ceil", "burst", "cburst", "prio"]) else { return Ok(None) };
    let Some(low) = value(&pairs, "rate") else { return Ok(None) };
    let low = parse_rate(low)?;
    let high = value(&pairs, "ceil").map_or(Ok(low), parse_rate)?;
    if low == 0 || high < low {
        return Err(invalid("a class needs a rate above 0, and a ceil of at least that"));
    }
    let burst = value(&pairs, "burst").map_or(Ok(HTB_BURST), parse_size)?;
    let ceil_burst = value(&pairs, "cburst").map_or(Ok(HTB_BURST), parse_size)?;
    let Ok(priority) = value(&pairs, "prio").map_or(Ok(0), str::parse) else { return Ok(None) };
    let numbers: [u32; 5] = [ticks(burst, low), ticks(ceil_burst, high), 0, 0, priority];
    let parms = [&rate_spec(low)[..], &rate_spec(high), &numbers.map(u32::to_ne_bytes).concat()].concat();
    message.nest(OPTIONS, &[], |options| {
        put_wide(options, HTB_RATE64, low);
        put_wide(options, HTB_CEIL64, high);
        options.put(HTB_PARMS, &parms);
    });
    Ok(Some(()))
}

/// A rate that the 32 bits of a structure don't hold.
fn put_wide(options: &mut Message, kind: u16, rate: u64) {
    if rate > u32::MAX.into() {
        options.put_u64(kind, rate);
    }
}

const TBF_PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_BURST: u16 = 6;
const MICROSECONDS: u64 = 1_000_000;

/// `struct tc_tbf_qopt`: rate, peakrate (specs), limit, buffer, mtu (each u32).
fn tbf_text(options: Attributes<'_>) -> String {
    let parms = options.find(TBF_PARMS).unwrap_or_default();
    let bytes_rate = full_rate(options, TBF_RATE64, parms).max(1);
    let (limit, burst) = (u64::from(u32_at(parms, 24)), bytes_of(u32_at(parms, 28), bytes_rate));
    let waiting = limit.saturating_sub(burst);
    let latency = (waiting.saturating_mul(MICROSECONDS) + bytes_rate / 2) / bytes_rate;
    format!("rate {} burst {} latency {}", rate(bytes_rate), size(burst), time(latency))
}

fn put_tbf(message: &mut Message, words: &[&str]) -> Result<Option<()>, Refusal> {
    let Some(pairs) = pairs(words, &["rate", "burst", "latency"]) else { return Ok(None) };
    let (Some(rate), Some(burst), Some(latency)) =
        (value(&pairs, "rate"), value(&pairs, "burst"), value(&pairs, "latency"))
    else {
        return Ok(None);
    };
    let (rate, burst, latency) = (parse_rate(rate)?, parse_size(burst)?, parse_time(latency)?);
    if rate == 0 || burst == 0 {
        return Err(invalid("a bucket needs a rate and a burst above 0"));
    }
    let waiting = u128::from(rate) * u128::from(latency) / u128::from(MICROSECONDS);
    let limit = u32::try_from(waiting + u128::from(burst))
        .map_err(|_| invalid("rate and latency make a queue above 4 Gb: take a shorter latency"))?;
    let numbers = [limit, ticks(burst, rate), 0].map(u32::to_ne_bytes).concat();
    let parms = [&rate_spec(rate)[..], &[0; RATE_SPEC_SIZE], &numbers].concat();
    message.nest(OPTIONS, &[], |options| {
        options.put(TBF_PARMS, &parms).put_u32(TBF_BURST, burst);
        put_wide(options, TBF_RATE64, rate);
    });
    Ok(Some(()))
}

const MQPRIO_MODE: u16 = 1;
const MQPRIO_SHAPER: u16 = 2;
const MQPRIO_MIN_RATE: u16 = 3;
const MQPRIO_MAX_RATE: u16 = 4;
const MQPRIO_CLASSES_COUNT_MAX: usize = 16;
/// `struct tc_mqprio_qopt`: num_tc u8, prio_tc_map u8 ×16, hw u8, count u16 ×16, offset u16 ×16.
const MQPRIO_SIZE: usize = 82;
const MQPRIO_MAP_OFFSET: usize = 1;
const MQPRIO_HW_OFFSET: usize = 17;
const MQPRIO_COUNT_OFFSET: usize = 18;
const MQPRIO_OFFSET_OFFSET: usize = 50;
const MODES: &[&str] = &["dcb", "channel"];
const SHAPERS: &[&str] = &["dcb", "bw_rlimit"];

fn mqprio_text(options: &[u8]) -> String {
    let classes_count = usize::from(options.first().copied().unwrap_or(0)).min(MQPRIO_CLASSES_COUNT_MAX);
    let map = options.get(MQPRIO_MAP_OFFSET..MQPRIO_HW_OFFSET).unwrap_or_default();
    // A tail of class 0 says no more than its absence.
    let map_end = map.iter().rposition(|class| *class != 0).map_or(0, |last| last + 1).max(classes_count);
    let map: Vec<String> = map.iter().take(map_end).map(u8::to_string).collect();
    let queues = (0..classes_count).map(|class| {
        let at = |base: usize| u16_at(options, base + 2 * class);
        format!("{}@{}", at(MQPRIO_COUNT_OFFSET), at(MQPRIO_OFFSET_OFFSET))
    });
    let queues: Vec<String> = queues.collect();
    let hardware = options.get(MQPRIO_HW_OFFSET).copied().unwrap_or(0);
    let mut text =
        format!("num_tc {classes_count} map {} queues {} hw {hardware}", map.join(" "), queues.join(" "));
    let rest = Attributes(options.get(MQPRIO_SIZE.next_multiple_of(4)..).unwrap_or_default());
    for (name, kind, words) in [("mode", MQPRIO_MODE, MODES), ("shaper", MQPRIO_SHAPER, SHAPERS)] {
        if let Some(word) = rest.u16(kind).and_then(|number| words.get(usize::from(number))) {
            text += &format!(" {name} {word}");
        }
    }
    for (name, kind) in [("min_rate", MQPRIO_MIN_RATE), ("max_rate", MQPRIO_MAX_RATE)] {
        let rates = rest.within(kind).take(classes_count);
        let rates: Vec<String> = rates
            .map(|(_, value)| rate(value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))))
            .collect();
        if !rates.is_empty() {
            text += &format!(" {name} {}", rates.join(" "));
        }
    }
    text
}

/// Names of mqprio's words; what follows one, up to the next, is its values.
const MQPRIO_WORDS: &[&str] = &["num_tc", "map", "queues", "hw", "mode", "shaper", "min_rate", "max_rate"];

fn put_mqprio(message: &mut Message, words: &[&str]) -> Result<Option<()>, Refusal> {
    let values = |name: &str| -> Vec<&str> {
        let behind = words.iter().skip_while(|word| **word != name).skip(1);
        behind.take_while(|word| !MQPRIO_WORDS.contains(word)).copied().collect()
    };
    let (map, queues) = (values("map"), values("queues"));
    let (Some(classes_count), Ok(map)) = (
        values("num_tc").first().and_then(|text| text.parse::<u8>().ok()),
        map.iter().map(|class| class.parse::<u8>()).collect::<Result<Vec<u8>, _>>(),
    ) else {
        return Ok(None);
    };
    let queue = |text: &&str| {
        let (count, offset) = text.split_once('@')?;
        Some((count.parse::<u16>().ok()?, offset.parse::<u16>().ok()?))
    };
    let Some(queues) = queues.iter().map(queue).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let hardware = match values("hw").as_slice() {
        ["1"] | [] => 1,
        ["0"] => 0,
        _ => return Ok(None),
    };
    let is_known = words.first().is_some_and(|word| MQPRIO_WORDS.contains(word));
    if !is_known || queues.len() != usize::from(classes_count) || map.len() > MQPRIO_CLASSES_COUNT_MAX {
        return Ok(None);
    }
    let mut options = [0; MQPRIO_SIZE];
    options[0] = classes_count;
    options[MQPRIO_MAP_OFFSET..MQPRIO_MAP_OFFSET + map.len()].copy_from_slice(&map);
    options[MQPRIO_HW_OFFSET] = hardware;
    if queues.len() > MQPRIO_CLASSES_COUNT_MAX {
        return Err(invalid(format!("mqprio has at most {MQPRIO_CLASSES_COUNT_MAX} classes")));
    }
    for (class, (count, offset)) in queues.iter().enumerate() {
        for (base, number) in [(MQPRIO_COUNT_OFFSET, count), (MQPRIO_OFFSET_OFFSET, offset)] {
            options[base + 2 * class..][..2].copy_from_slice(&number.to_ne_bytes());
        }
    }
    let chosen = |name: &str, words: &[&str]| -> Result<Option<u16>, Refusal> {
        let Some(text) = values(name).first().copied() else { return Ok(None) };
        let index = words.iter().position(|word| *word == text).and_then(|index| index.try_into().ok());
        index
            .map(Some)
            .ok_or_else(|| invalid(format!("'{name} {text}': {name} is one of {}", words.join(", "))))
    };
    let (mode, shaper) = (chosen("mode", MODES)?, chosen("shaper", SHAPERS)?);
    let rates = |name: &str| values(name).into_iter().map(parse_rate).collect::<Result<Vec<u64>, Refusal>>();
    let (low, high) = (rates("min_rate")?, rates("max_rate")?);
    message.nest(OPTIONS, &options, |nested| {
        for (kind, number) in [(MQPRIO_MODE, mode), (MQPRIO_SHAPER, shaper)] {
            if let Some(number) = number {
                nested.put_u16(kind, number);
            }
        }
        for (kind, rates) in [(MQPRIO_MIN_RATE, low), (MQPRIO_MAX_RATE, high)] {
            if !rates.is_empty() {
                nested.nest(kind, &[], |list| {
                    for rate in rates {
                        list.put_u64(kind, rate);
                    }
                });
            }
        }
    });
    Ok(Some(()))
}

const FQ_LIMIT: u16 = 1;
const FQ_FLOW_LIMIT: u16 = 2;
const FQ_FLOW_MAX_RATE: u16 = 7;
const FQ_LIMIT_DEFAULT: u32 = 10_000;
const FQ_FLOW_LIMIT_DEFAULT: u32 = 100;

fn fq_text(options: Attributes<'_>) -> String {
    let mut text = String::new();
    for (name, kind, default) in
        [("limit", FQ_LIMIT, FQ_LIMIT_DEFAULT), ("flow_limit", FQ_FLOW_LIMIT, FQ_FLOW_LIMIT_DEFAULT)]
    {
        match options.u32(kind) {
            Some(number) if number != default => text += &format!(" {name} {number}"),
            _ => {}
        }
    }
    match options.u32(FQ_FLOW_MAX_RATE) {
        Some(u32::MAX) | None => {}
        Some(bytes) => text += &format!(" maxrate {}", rate(bytes.into())),
    }
    text.trim_start().to_owned()
}

fn put_fq(message: &mut Message, words: &[&str]) -> Result<Option<()>, Refusal> {
    let Some(pairs) = pairs(words, &["limit", "flow_limit", "maxrate"]) else { return Ok(None) };
    let mut numbers: Vec<(u16, u32)> = Vec::new();
    for (name, kind) in [("limit", FQ_LIMIT), ("flow_limit", FQ_FLOW_LIMIT)] {
        match value(&pairs, name).map(str::parse) {
            Some(Ok(number)) => numbers.push((kind, number)),
            Some(Err(_)) => return Ok(None),
            None => {}
        }
    }
    if let Some(text) = value(&pairs, "maxrate") {
        let bytes = u32::try_from(parse_rate(text)?);
        numbers.push((FQ_FLOW_MAX_RATE, bytes.map_err(|_| invalid("fq's maxrate is at most 34 Gbit"))?));
    }
    put_numbers(message, &numbers);
    Ok(Some(()))
}

const FQ_CODEL_LIMIT: u16 = 2;
const FQ_CODEL_FLOWS: u16 = 5;
const FQ_CODEL_LIMIT_DEFAULT: u32 = 10_240;
const FQ_CODEL_FLOWS_DEFAULT: u32 = 1_024;

fn fq_codel_text(options: Attributes<'_>) -> String {
    let mut text = String::new();
    for (name, kind, default) in
        [("limit", FQ_CODEL_LIMIT, FQ_CODEL_LIMIT_DEFAULT), ("flows", FQ_CODEL_FLOWS, FQ_CODEL_FLOWS_DEFAULT)]
    {
        match options.u32(kind) {
            Some(number) if number != default => text += &format!(" {name} {number}"),
            _ => {}
        }
    }
    text.trim_start().to_owned()
}

fn put_fq_codel(message: &mut Message, words: &[&str]) -> Option<()> {
    let pairs = pairs(words, &["limit", "flows"])?;
    let number = |(name, kind): (&str, u16)| Some((kind, value(&pairs, name)?.parse::<u32>()));
    let numbers = [("limit", FQ_CODEL_LIMIT), ("flows", FQ_CODEL_FLOWS)].into_iter().filter_map(number);
    let numbers: Option<Vec<(u16, u32)>> = numbers.map(|(kind, number)| Some((kind, number.ok()?))).collect();
    put_numbers(message, &numbers?);
    Some(())
}

fn put_numbers(message: &mut Message, numbers: &[(u16, u32)]) {
    message.nest(OPTIONS, &[], |options| {
        for (kind, number) in numbers {
            options.put_u32(*kind, *number);
        }
    });
}

/// `struct tc_fifo_qopt` is the limit alone: packets of pfifo, bytes of bfifo.
fn put_fifo(message: &mut Message, words: &[&str]) -> Result<Option<()>, Refusal> {
    match words {
        [] => Ok(Some(())),
        ["limit", text] => {
            let limit = parse_size(text)?;
            message.put_u32(OPTIONS, limit);
            Ok(Some(()))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::qdisc::{TC_HEADER_SIZE, options_of};
    use super::*;

    fn message() -> Message {
        Message::new(36, 0, &[0; TC_HEADER_SIZE])
    }

    #[test]
    fn what_is_written_is_read_again() {
        let check = |place: Place, want: &str| {
            let mut message = message();
            put(place, &mut message, want).unwrap();
            let (kind, options) = options_of(&message);
            assert_eq!(text(place, &kind, options), want);
        };
        check(Place::Qdisc, "htb default 10");
        check(Place::Qdisc, "htb");
        check(Place::Qdisc, "htb default ff r2q 100");
        check(Place::Class, "htb rate 1Gbit ceil 1Gbit");
        check(Place::Class, "htb rate 500Kbit ceil 100Gbit burst 15Kb cburst 128Kb prio 3");
        check(Place::Qdisc, "tbf rate 1Gbit burst 128Kb latency 50ms");
        check(Place::Qdisc, "tbf rate 50Gbit burst 1Mb latency 400us");
        check(Place::Qdisc, "fq");
        check(Place::Qdisc, "fq limit 5000 maxrate 1Gbit");
        check(Place::Qdisc, "fq_codel limit 1000");
        check(Place::Qdisc, "pfifo limit 100");
        check(Place::Qdisc, "bfifo limit 64Kb");
        check(Place::Qdisc, "mq");
        check(Place::Qdisc, "mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 0");
        check(
            Place::Qdisc,
            "mqprio num_tc 3 map 0 1 2 queues 2@0 4@2 16@6 hw 1 mode channel shaper bw_rlimit min_rate 0bit 1Gbit 0bit \
             max_rate 0bit 2Gbit 40Gbit",
        );
    }

    #[test]
    fn a_map_is_shown_to_its_last_word() {
        let mut message = message();
        put(Place::Qdisc, &mut message, "mqprio num_tc 2 map 1 1 0 1 0 0 queues 1@0 1@1 hw 0").unwrap();
        let (_, options) = options_of(&message);
        assert!(mqprio_text(options).starts_with("num_tc 2 map 1 1 0 1 queues 1@0"));
    }

    /// Byte for byte what `tc qdisc add … mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 1 mode channel` puts into its options.
    #[test]
    fn mqprio_is_laid_out_as_the_kernel_reads_it() {
        let mut message = message();
        put(Place::Qdisc, &mut message, "mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 1 mode channel").unwrap();
        let (_, options) = options_of(&message);
        let mut want = vec![0; 84];
        (want[0], want[2], want[17]) = (2, 1, 1);
        want[18..22].copy_from_slice(&[2_u16.to_ne_bytes(), 2_u16.to_ne_bytes()].concat());
        want[52..54].copy_from_slice(&2_u16.to_ne_bytes());
        want.extend([6_u16.to_ne_bytes(), 1_u16.to_ne_bytes(), 1_u16.to_ne_bytes(), [0, 0]].concat());
        assert_eq!(options, want);
    }

    #[test]
    fn what_no_kind_takes_is_refused_before_the_kernel_sees_it() {
        let check = |place: Place, text: &str| {
            assert!(put(place, &mut message(), text).is_err(), "{text}");
        };
        for text in [
            "",
            "sfq",
            "htb default",
            "htb default xyz",
            "htb default 1 default 2",
            "tbf rate 1Gbit",
            "tbf rate 1Gbit burst 0 latency 1ms",
            "tbf rate fast burst 1Kb latency 1ms",
            "fq quantum 1",
            "pfifo limit",
            "mq 1",
            "mqprio num_tc 2 map 0 1 queues 2@0 hw 1",
            "mqprio num_tc 1 map 0 queues 2 hw 1",
            "mqprio num_tc 1 map 0 queues 2@0 hw 2",
            "mqprio num_tc 1 map 0 queues 2@0 hw 1 mode fast",
        ] {
            check(Place::Qdisc, text);
        }
        for text in ["htb", "htb rate 0bit", "htb rate 2Gbit ceil 1Gbit", "fq"] {
            check(Place::Class, text);
        }
    }
}
