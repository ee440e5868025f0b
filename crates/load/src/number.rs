//! Numbers as people read them: three digits that count, a unit that fits, a real minus.

use crate::statistics::Interval;

/// What stands where too few requests were seen to tell a quantile.
pub(crate) const NOT_RESOLVED: &str = "not resolved";

/// Nanoseconds with their unit: `61.3 µs`, `1.25 ms`.
pub fn time(ns: f64) -> String {
    let (factor, unit) = unit_of(ns);
    format!("{} {unit}", plain(ns / factor))
}

/// As [`time`], or that it can't be told.
pub(crate) fn time_or_not(ns: Option<f64>) -> String {
    ns.map_or_else(|| NOT_RESOLVED.to_owned(), time)
}

/// Nanoseconds of the unit in which this many are best read, and its name.
fn unit_of(ns: f64) -> (f64, &'static str) {
    match ns.abs() {
        ns if ns < 999.5 => (1.0, "ns"),
        ns if ns < 999.5e3 => (1e3, "µs"),
        ns if ns < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// Three digits, more only before the point, thousands apart: `0.0123`, `61.3`, `79,601`.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let decimals = match value.abs() {
        0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size if size >= 0.09995 => 3,
        _ => 4,
    };
    grouped(&format!("{value:.decimals$}"))
}

/// A tick of an axis: as [`plain`], without zeros behind the point.
pub fn short(value: f64) -> String {
    let text = plain(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A tick that is a time: `50 µs`, `1 ms`.
pub(crate) fn short_time(ns: f64) -> String {
    let (factor, unit) = unit_of(ns);
    if ns == 0.0 { "0".to_owned() } else { format!("{} {unit}", short(ns / factor)) }
}

/// Thousands apart.
pub fn count(count: u64) -> String {
    grouped(&count.to_string())
}

fn grouped(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("−", rest));
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut shown = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown + rest
}

/// A share as a percentage: `4.2 %`, `47 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return "–".to_owned();
    }
    let decimals = usize::from(percent.abs() < 9.95);
    grouped(&format!("{percent:.decimals$}")) + " %"
}

/// A share that may be very small, with two digits that count: `0.0023 %`.
pub(crate) fn percent_small(share: f64) -> String {
    if share > 0.0 && share < 0.01 { format!("{} %", plain_small(share * 100.0)) } else { percent(share) }
}

fn plain_small(value: f64) -> String {
    let decimals = (1.0 - value.log10().floor()).clamp(1.0, 9.0);
    (1..=9_usize)
        .find(|count| *count as f64 >= decimals)
        .map_or_else(|| plain(value), |count| format!("{value:.count$}"))
}

/// As [`percent`], without a zero behind the point: for what was chosen, not measured.
pub(crate) fn percent_short(share: f64) -> String {
    percent(share).replace(".0 %", " %")
}

/// A change, which has a sign: `−47 %`, `+3.1 %`.
pub(crate) fn change(share: f64) -> String {
    let text = percent(share);
    if share > 0.0 { format!("+{text}") } else { text }
}

/// The interval of a change, in words that no minus can be misread in: `−50 % to −43 %`.
pub(crate) fn change_interval(interval: Interval) -> String {
    format!("{} to {}", change(interval.low), change(interval.high))
}

/// A share of requests as a percentile's name: `99.9 %`.
pub(crate) fn percentile(quantile: f64) -> String {
    let digits = format!("{:.6}", quantile * 100.0);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (ns, want) in [
            (0.0, "0 ns"),
            (850.4, "850 ns"),
            (999.6, "1.00 µs"),
            (61_340.0, "61.3 µs"),
            (999_499.0, "999 µs"),
            (1_249_000.0, "1.25 ms"),
            (6e11, "600 s"),
            (f64::NAN, "– s"),
        ] {
            assert_eq!(time(ns), want);
        }
        assert_eq!(short_time(50_000.0), "50 µs");
        assert_eq!(short_time(1_500_000.0), "1.5 ms");
    }

    #[test]
    fn numbers_are_grouped_and_signed() {
        assert_eq!(plain(79_601.4), "79,601");
        assert_eq!(plain(-1234.0), "−1,234");
        assert_eq!(plain(0.592), "0.592");
        assert_eq!(short(20.0), "20");
        assert_eq!(short(100.0), "100");
        assert_eq!(count(1_000_000), "1,000,000");
        assert_eq!(change(-0.468), "−47 %");
        assert_eq!(change(0.0312), "+3.1 %");
        assert_eq!(change(0.0), "0.0 %");
        assert_eq!(percentile(0.99999), "99.999 %");
        assert_eq!(percentile(0.5), "50 %");
        let interval = Interval::new(-0.5, 0.012);
        assert_eq!(change_interval(interval), "−50 % to +1.2 %");
    }
}
