//! The line on the terminal that tells how a load goes, and the lines that stay.

use std::io::{IsTerminal, Write};

use load::number;
use load::record::Second;

use super::crew::Order;
use super::settings::OutputSettings;

/// Signs of the bar.
const BAR_SIZE: usize = 16;
/// Of the line: one that wraps can't be written over.
const LINE_SIZE_MAX: usize = 79;

/// What is shown of the load under way.
pub(super) struct Live {
    is_quiet: bool,
    /// A terminal, on which a line can be written over.
    is_on: bool,
    bar: Bar,
}

impl Live {
    pub(super) fn new(output: &OutputSettings) -> Live {
        let is_on = !output.quiet && std::io::stderr().is_terminal();
        Live { is_quiet: output.quiet, is_on, bar: Bar::default() }
    }

    /// A line that stays.
    pub(super) fn line(&mut self, text: &str) {
        if !self.is_quiet {
            self.clear();
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
    }

    /// A load begins, which is called so.
    pub(super) fn begin(&mut self, what: &str, order: &Order) {
        self.bar = Bar {
            what: what.to_owned(),
            duration_s: order.duration.as_secs_f64(),
            requests_max: order.requests_max,
            begun: 0,
        };
    }

    /// A second of it is over.
    pub(super) fn second(&mut self, second: &Second) {
        let line = self.bar.line(second);
        if self.is_on {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{line}");
        }
    }

    pub(super) fn clear(&mut self) {
        if self.is_on {
            let _ = std::io::stderr().lock().write_all(b"\r\x1b[K");
        }
    }
}

/// How far a load is.
#[derive(Default)]
struct Bar {
    what: String,
    /// Beyond all bounds, where only requests end it.
    duration_s: f64,
    requests_max: u64,
    begun: u64,
}

impl Bar {
    /// After one more second.
    fn line(&mut self, second: &Second) -> String {
        self.begun = self.begun.saturating_add(second.begun);
        let elapsed_s = f64::from(second.number + 1).min(self.duration_s);
        let of_requests = self.begun as f64 / self.requests_max.max(1) as f64;
        let share = (elapsed_s / self.duration_s).max(of_requests).clamp(0.0, 1.0);
        let full = (1..=BAR_SIZE).filter(|sign| *sign as f64 <= share * BAR_SIZE as f64).count();
        let bar = "#".repeat(full) + &".".repeat(BAR_SIZE - full);
        let p99 = number::time(second.response().value_at_quantile(0.99) as f64);
        let faults = match second.faults() {
            0 => String::new(),
            faults => format!("  {} errors", number::count(faults)),
        };
        let line = format!(
            "{} [{bar}] {:>3.0} %  {} s  {}/s  p99 {p99}{faults}",
            self.what,
            (share * 100.0).floor(),
            number::short(elapsed_s),
            number::count(second.count()),
        );
        line.chars().take(LINE_SIZE_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::workload::Operation;

    fn second(number: u32, begun: u64) -> Second {
        let mut second = Second { number, begun, ..Second::new([Operation::Get].into_iter()) };
        second.operations[0].response.record_n(61_300, begun).unwrap();
        second
    }

    #[test]
    fn the_bar_is_as_full_as_time_or_requests_say() {
        let check = |duration_s, requests_max, seconds: &[Second], want: &str| {
            let mut bar = Bar { what: "run".to_owned(), duration_s, requests_max, begun: 0 };
            let lines: Vec<String> = seconds.iter().map(|second| bar.line(second)).collect();
            assert_eq!(lines.last().map(String::as_str), Some(want));
        };
        check(
            10.0,
            u64::MAX,
            &[second(0, 20_014), second(1, 20_014)],
            "run [###.............]  20 %  2 s  20,014/s  p99 61.3 µs",
        );
        let forever_s = std::time::Duration::MAX.as_secs_f64();
        check(
            forever_s,
            40,
            &[second(0, 10), second(1, 20)],
            "run [############....]  75 %  2 s  20/s  p99 61.3 µs",
        );
        check(0.5, u64::MAX, &[second(0, 7)], "run [################] 100 %  0.5 s  7/s  p99 61.3 µs");
        let mut failed = second(4, 1_000);
        failed.operations[0].errors = 1_000;
        check(
            10.0,
            2_000,
            &[failed],
            "run [########........]  50 %  5 s  1,000/s  p99 61.3 µs  1,000 errors",
        );
        let mut bar = Bar { what: "x".repeat(100), duration_s: 1.0, requests_max: 1, begun: 0 };
        assert_eq!(bar.line(&second(0, 1)).chars().count(), LINE_SIZE_MAX);
    }
}
