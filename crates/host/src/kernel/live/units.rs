//! Rates, sizes and times in the words of tc(8).

use crate::{Rate, Refusal};

use super::errno::invalid;

/// Bytes that a word means.
const SIZES: &[(&str, u64)] = &[("Gb", 1 << 30), ("Mb", 1 << 20), ("Kb", 1 << 10), ("b", 1)];
/// Microseconds that a word means.
const TIMES: &[(&str, u64)] = &[("s", 1_000_000), ("ms", 1_000), ("us", 1)];

fn shown(value: u64, units: &[(&str, u64)]) -> String {
    let (name, size) = units
        .iter()
        .find(|(_, size)| value != 0 && value.is_multiple_of(*size))
        .unwrap_or(&units[units.len() - 1]);
    format!("{}{name}", value / size)
}

/// A whole or decimal number and its unit, exact: `1.5Mb`.
fn parsed(text: &str, units: &[(&str, u64)], plain: u64) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "" => plain,
        _ => units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    let mut value = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    if !rest.is_empty() {
        let scale = 10_u64.checked_pow(rest.len().try_into().ok()?)?;
        let part = rest.parse::<u64>().ok()?.checked_mul(unit)?;
        if !part.is_multiple_of(scale) {
            return None;
        }
        value = value.checked_add(part / scale)?;
    }
    Some(value)
}

/// Bytes a second as `1Gbit`.
pub(super) fn rate(bytes: u64) -> String {
    Rate(bytes.saturating_mul(8)).to_string()
}

/// Bytes a second of `1Gbit`.
pub(super) fn parse_rate(text: &str) -> Result<u64, Refusal> {
    let rate: Rate = text.parse().map_err(invalid)?;
    Ok(rate.0 / 8)
}

/// Bytes as `128Kb`.
pub(super) fn size(bytes: u64) -> String {
    shown(bytes, SIZES)
}

/// Bytes of `128Kb`, `128k`; a number alone is bytes.
pub(super) fn parse_size(text: &str) -> Result<u32, Refusal> {
    let with_b = match text.as_bytes().last() {
        Some(b'k' | b'K' | b'm' | b'M' | b'g' | b'G') => format!("{text}b"),
        _ => text.to_owned(),
    };
    parsed(&with_b, SIZES, 1)
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| invalid(format!("'{text}' is no size like 1600b, 128Kb (below 4 Gb)")))
}

/// Microseconds as `50ms`.
pub(super) fn time(microseconds: u64) -> String {
    shown(microseconds, TIMES)
}

/// Microseconds of `50ms`; a number alone is microseconds.
pub(super) fn parse_time(text: &str) -> Result<u64, Refusal> {
    parsed(text, TIMES, 1).ok_or_else(|| invalid(format!("'{text}' is no time like 50ms")))
}

/// The kernel counts a bucket's content in ticks of 64 ns, the time that sending it takes at the bucket's rate
/// (/proc/net/psched: nanoseconds of a microsecond, of a tick).
const TICK_NS: u64 = 64;
const SECOND_NS: u128 = 1_000_000_000;

/// Ticks that so many bytes take.
pub(super) fn ticks(bytes: u32, rate: u64) -> u32 {
    let nanoseconds = u128::from(bytes) * SECOND_NS / u128::from(rate.max(1));
    u32::try_from(nanoseconds / u128::from(TICK_NS)).unwrap_or(u32::MAX)
}

/// Bytes that take so many ticks. Ticks are coarse at high rates: of the bytes that come out the same, those in whole Kb count.
pub(super) fn bytes_of(ticks_count: u32, rate: u64) -> u64 {
    let bytes = u128::from(ticks_count) * u128::from(TICK_NS) * u128::from(rate) / SECOND_NS;
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let off_by = |candidate: u64, slack: u32| {
        u32::try_from(candidate).is_ok_and(|candidate| ticks(candidate, rate).abs_diff(ticks_count) <= slack)
    };
    let (above, near) = (bytes.next_multiple_of(1024), (bytes + 512) / 1024 * 1024);
    // The kernel's own arithmetic may be a tick off.
    let candidates = [(above, 0), (near, 0), (near, 1), (bytes, 1)];
    candidates
        .iter()
        .find(|(candidate, slack)| off_by(*candidate, *slack))
        .map_or(bytes, |(candidate, _)| *candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_shown_as_tc_does() {
        let check = |text: &str, bytes: u64, want: &str| {
            assert_eq!(parse_rate(text).unwrap(), bytes, "{text}");
            assert_eq!(rate(bytes), want);
        };
        check("1Gbit", 125_000_000, "1Gbit");
        check("1000mbit", 125_000_000, "1Gbit");
        check("2500Mbit", 312_500_000, "2500Mbit");
        check("500Kbit", 62_500, "500Kbit");
        check("0bit", 0, "0bit");
        check("100Gbit", 12_500_000_000, "100Gbit");
        for odd in ["", "fast", "1Xbit", "-1Gbit"] {
            assert_eq!(parse_rate(odd).unwrap_err().cause, crate::kernel::Cause::Invalid, "{odd}");
        }
    }

    #[test]
    fn sizes_and_times_too() {
        for (text, bytes, want) in [
            ("128Kb", 131_072, "128Kb"),
            ("128k", 131_072, "128Kb"),
            ("1600", 1600, "1600b"),
            ("2Mb", 2 << 20, "2Mb"),
        ] {
            assert_eq!((parse_size(text).unwrap(), size(bytes.into()).as_str()), (bytes, want));
        }
        for (text, microseconds) in [("50ms", 50_000), ("1s", 1_000_000), ("70us", 70)] {
            assert_eq!((parse_time(text).unwrap(), time(microseconds).as_str()), (microseconds, text));
        }
        assert!(parse_size("5Gb").is_err());
    }

    #[test]
    fn a_bucket_of_whole_kilobytes_survives_the_kernels_ticks() {
        for rate in [125_000, 12_500_000, 125_000_000, 312_500_000, 1_250_000_000, 3_125_000_000] {
            for kilobytes in [1, 2, 15, 32, 128, 1000] {
                let bytes = kilobytes * 1024;
                for drift in [0, 1] {
                    assert_eq!(
                        bytes_of(ticks(bytes, rate) + drift, rate),
                        u64::from(bytes),
                        "{rate} {kilobytes}"
                    );
                }
            }
        }
    }
}
