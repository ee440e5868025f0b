//! Checks of the instrument against answers that are known: made-up servers whose response times follow from a formula, or that
//! misbehave in a way that must be told.
//!
//! ```text
//! server    a made-up server: when it answers, and what is wrong with its answers        no I/O, no clock, chance under a seed
//! simulate  a whole load of it in memory, under a clock that jumps from event to event   exact
//! serve     the same server over a net, for whoever brings sockets and a thread          live
//! exact     freezes, a queue, what is recorded, the published figure's formula
//! faults    servers that lose, repeat, spoil, refuse, cut, babble, read slowly
//! judge     is what differs called so, and what is alike not?
//! ```

pub mod exact;
pub mod faults;
pub mod judge;
pub mod serve;
pub mod server;
pub mod simulate;

use std::fmt;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Seconds, for every change of the program.
    Quick,
    /// Longer runs and more of them.
    Full,
}

/// One answer that was known, and what came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// What is known, with the tolerance.
    pub expected: String,
    /// What came out.
    pub measured: String,
    /// Whether the two agree.
    pub holds: bool,
}

impl Check {
    /// `measured` is `expected` and nothing else.
    pub fn equal<T: PartialEq + fmt::Display>(name: impl Into<String>, expected: T, measured: T) -> Check {
        Check {
            name: name.into(),
            expected: expected.to_string(),
            measured: measured.to_string(),
            holds: expected == measured,
        }
    }

    /// A time in nanoseconds, off by at most so many.
    pub fn time(name: impl Into<String>, expected_ns: f64, measured_ns: f64, within_ns: f64) -> Check {
        Check {
            name: name.into(),
            expected: format!("{} ± {}", Time(expected_ns), Time(within_ns)),
            measured: Time(measured_ns).to_string(),
            holds: (measured_ns - expected_ns).abs() <= within_ns,
        }
    }

    /// A time in nanoseconds on a real machine, which adds to times and hardly ever takes away.
    pub fn time_live(
        name: impl Into<String>,
        expected_ns: f64,
        measured_ns: f64,
        (early_ns, late_ns): (f64, f64),
    ) -> Check {
        Check {
            name: name.into(),
            expected: format!("{}, − {} + {}", Time(expected_ns), Time(early_ns), Time(late_ns)),
            measured: Time(measured_ns).to_string(),
            holds: (expected_ns - early_ns..=expected_ns + late_ns).contains(&measured_ns),
        }
    }

    /// A plain number, off by at most so much.
    pub fn number(name: impl Into<String>, expected: f64, measured: f64, within: f64) -> Check {
        Check {
            name: name.into(),
            expected: format!("{expected:.4} ± {within}"),
            measured: format!("{measured:.4}"),
            holds: (measured - expected).abs() <= within,
        }
    }

    /// Anything else, in words.
    pub fn that(
        name: impl Into<String>,
        expected: impl Into<String>,
        measured: impl Into<String>,
        holds: bool,
    ) -> Check {
        Check { name: name.into(), expected: expected.into(), measured: measured.into(), holds }
    }
}

impl fmt::Display for Check {
    /// A line; what came out exactly as expected stands there once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds { "ok" } else { "FAILED" };
        write!(f, "{word:<6}  {:<52} {}", self.name, self.measured)?;
        if self.measured == self.expected { Ok(()) } else { write!(f, "   (expected {})", self.expected) }
    }
}

/// Nanoseconds as people read them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time(pub f64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns >= 1e9 => write!(f, "{:.3} s", ns / 1e9),
            ns if ns >= 1e6 => write!(f, "{:.3} ms", ns / 1e6),
            ns => write!(f, "{:.1} µs", ns / 1e3),
        }
    }
}

#[cfg(test)]
pub(crate) fn assert_all(checks: &[Check]) {
    let failed: Vec<String> = checks.iter().filter(|check| !check.holds).map(ToString::to_string).collect();
    assert!(!checks.is_empty() && failed.is_empty(), "{}", failed.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_holds_inside_its_tolerance_alone() {
        for (measured, holds) in
            [(89.0, false), (90.0, true), (110.0, true), (111.0, false), (f64::NAN, false)]
        {
            assert_eq!(Check::time("", 100.0, measured, 10.0).holds, holds, "{measured}");
            assert_eq!(Check::number("", 100.0, measured, 10.0).holds, holds, "{measured}");
        }
        for (measured, holds) in
            [(94.0, false), (95.0, true), (150.0, true), (151.0, false), (f64::NAN, false)]
        {
            assert_eq!(Check::time_live("", 100.0, measured, (5.0, 50.0)).holds, holds, "{measured}");
        }
        assert!(Check::equal("", 3, 3).holds && !Check::equal("", 3, 4).holds);
    }

    #[test]
    fn a_check_is_a_line() {
        let line = Check::time("freeze p75", 2.5e9, 2.4e9, 5e6).to_string();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words.join(" "), "FAILED freeze p75 2.400 s (expected 2.500 s ± 5.000 ms)");
        assert_eq!(
            Check::equal("a", 3, 3).to_string().split_whitespace().collect::<Vec<_>>(),
            ["ok", "a", "3"]
        );
        assert_eq!(Time(1_500.0).to_string(), "1.5 µs");
    }
}
