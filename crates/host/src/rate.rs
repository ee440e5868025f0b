//! Rates as `tc(8)` reads and prints them: `500kbit`, `1Gbit`.

use std::fmt;
use std::str::FromStr;

/// Bits a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

/// Units in bits a second, lower case. `bps` counts bytes; the `i` ones are powers of 1024 (`tc(8)`, "RATES").
const UNITS: &[(&str, u64)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
    ("kibit", 1 << 10),
    ("mibit", 1 << 20),
    ("gibit", 1 << 30),
    ("tibit", 1 << 40),
    ("bps", 8),
    ("kbps", 8_000),
    ("mbps", 8_000_000),
    ("gbps", 8_000_000_000),
    ("tbps", 8_000_000_000_000),
];

impl Rate {
    /// As many megabits a second.
    #[must_use]
    pub fn mbit(count: u32) -> Rate {
        Rate(u64::from(count) * 1_000_000)
    }
}

impl FromStr for Rate {
    type Err = String;

    /// A whole number and a unit of `tc(8)`, upper or lower case; without a unit, bits.
    fn from_str(text: &str) -> Result<Rate, String> {
        let bad =
            || format!("'{text}' is no rate: write a whole number and bit, kbit, Mbit or Gbit, \"500kbit\"");
        let text_trimmed = text.trim();
        let digits = text_trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(text_trimmed.len());
        let (number, unit) = text_trimmed.split_at(digits);
        let number: u64 = number.parse().map_err(|_| bad())?;
        let unit = if unit.is_empty() { "bit".to_owned() } else { unit.to_ascii_lowercase() };
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
        number.checked_mul(*factor).map(Rate).ok_or_else(|| format!("'{text}' is more than any link carries"))
    }
}

impl fmt::Display for Rate {
    /// In the largest unit that keeps it whole, as `tc` prints: `1Gbit`, `1500Mbit`, `0bit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rate, mut prefixes) = (self.0, ["", "K", "M", "G", "T"].iter());
        let mut prefix = prefixes.next();
        while rate >= 1000 && rate.is_multiple_of(1000) && prefixes.len() > 0 {
            rate /= 1000;
            prefix = prefixes.next();
        }
        write!(f, "{rate}{}bit", prefix.unwrap_or(&""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_and_printed_as_tc_does() {
        let check =
            |text: &str, want: &str| assert_eq!(text.parse::<Rate>().unwrap().to_string(), want, "{text}");
        check("500kbit", "500Kbit");
        check("1Gbit", "1Gbit");
        check("1500mbit", "1500Mbit");
        check(" 1000Mbit ", "1Gbit");
        check("0", "0bit");
        check("1", "1bit");
        check("1mbps", "8Mbit");
        check("3bps", "24bit");
        check("1kibit", "1024bit");
        check("5000Tbit", "5000Tbit");
    }

    #[test]
    fn what_is_no_rate_is_named() {
        for text in
            ["", "fast", "1.5Gbit", "-1Gbit", "10%", "1 Gbit/s", "99999999999999999999", "99999999999Gbit"]
        {
            assert!(text.parse::<Rate>().unwrap_err().contains(text), "{text}");
        }
    }
}
