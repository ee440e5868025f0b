//! Numbers as C's `%.14g` prints them, which is how Lua 5.1 does, and as scripts' arguments of commands are written (`%.17g`).

use wire::number::format_f64;

/// The number as `tostring` shows it: 14 significant digits.
pub(crate) fn display(value: f64) -> String {
    if !value.is_finite() {
        return special(value).to_owned();
    }
    let exact = format!("{value:.13e}");
    let (mantissa, exponent) = exact.split_once('e').expect("the form has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    let Some(places) =
        (-5 < exponent && exponent < 14).then(|| usize::try_from(13 - exponent).ok()).flatten()
    else {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    };
    trimmed(&format!("{value:.places$}")).to_owned()
}

/// The number as a command's argument: 17 significant digits.
pub(crate) fn argument(value: f64) -> Vec<u8> {
    if value.is_nan() { special(value).into() } else { format_f64(value).as_bytes().to_vec() }
}

/// C shows the sign of what is no number.
fn special(value: f64) -> &'static str {
    match (value.is_nan(), value.is_sign_negative()) {
        (true, true) => "-nan",
        (true, false) => "nan",
        (false, true) => "-inf",
        (false, false) => "inf",
    }
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The integer that a number is answered as: what is behind the point is dropped, and numbers beyond 64 bits become the smallest one,
/// as C has it on x86.
pub(crate) fn integer(value: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if !(-END..END).contains(&value) {
        return i64::MIN;
    }
    #[expect(clippy::cast_possible_truncation, reason = "within 64 bits; the fraction is to be dropped")]
    let value = value as i64;
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As redis-server 7.0.15 answers `tostring(…)`.
    #[test]
    fn numbers_show_14_digits() {
        for (value, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.33333333333333"),
            (1e15, "1e+15"),
            (1e14, "1e+14"),
            (99_999_999_999_999.0, "99999999999999"),
            (999_999_999_999_999.0, "1e+15"),
            (123_456_789_012_345_678.0, "1.2345678901235e+17"),
            (1e100, "1e+100"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (0.000_123_456_789_012_345, "0.00012345678901234"),
            (-1.5, "-1.5"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::MIN_POSITIVE, "2.2250738585072e-308"),
        ] {
            assert_eq!(display(value), want);
        }
    }

    #[test]
    fn arguments_have_17_digits() {
        for (value, want) in
            [(10.0, "10"), (1e20, "1e+20"), (0.1, "0.10000000000000001"), (-f64::NAN, "-nan")]
        {
            assert_eq!(argument(value), want.as_bytes());
        }
    }

    #[test]
    fn answers_are_integers_of_64_bits() {
        for (value, want) in [
            (2.7, 2),
            (-2.7, -2),
            (1e30, i64::MIN),
            (f64::NAN, i64::MIN),
            (9.2e18, 9_200_000_000_000_000_000),
        ] {
            assert_eq!(integer(value), want);
        }
    }
}
