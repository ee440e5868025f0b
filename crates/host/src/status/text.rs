//! The report for people: a line a lane, and below it what is wrong and what to do.

use std::fmt::Write as _;

use crate::screen::wrap;

use super::{Difference, Finding, Report, Used, Verdict};

/// Columns of a lane's name; names are at most 32 long, and most are short.
const NAME_COLUMNS: usize = 12;

impl Report {
    /// For a terminal of 80 columns.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for lane in &self.lanes {
            let first = format!("lane {}: ", lane.name);
            let width = NAME_COLUMNS + 7;
            let seen = match &lane.used {
                Used::Traffic { on_packets, off_packets, unknown_packets, .. } => {
                    format!(" ({} packets)", on_packets + off_packets + unknown_packets)
                }
                _ => String::new(),
            };
            let word = match lane.verdict {
                Verdict::Ok => String::new(),
                verdict => format!(" [{}]", verdict.word()),
            };
            wrap(&mut text, &format!("{first:<width$}"), width, &format!("{}{seen}{word}", lane.headline));
            lane.used.remark().iter().for_each(|it| wrap(&mut text, "    ", 8, it));
            lane.differences.iter().for_each(|it| it.print(&mut text));
            lane.findings.iter().for_each(|it| it.print(&mut text));
        }
        if !self.shared.is_empty() {
            text.push_str("of cards and the machine:\n");
            self.shared.iter().for_each(|it| it.print(&mut text));
        }
        if !self.shared.is_empty() || self.lanes.iter().any(|lane| !lane.differences.is_empty()) {
            wrap(&mut text, "-> ", 3, APPLY);
        }
        for note in &self.notes {
            wrap(&mut text, "note: ", 6, note);
        }
        if let Some(polled) = self.polled.filter(|polled| *polled > 0) {
            let _ = writeln!(text, "busy polling received {polled} packets");
        }
        let seconds = self.watched_ms as f64 / 1e3;
        let _ = writeln!(text, "{}: watched for {seconds:.1} s", self.verdict.word());
        text
    }
}

/// What mends a knob.
const APPLY: &str = "`expresslane lanes apply` sets what differs; if it differs again, somebody else sets it: `expresslane lanes \
    guard` tells";

impl Verdict {
    /// In lower case, as in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Unknown => "unknown",
            Verdict::Warning => "warning",
            Verdict::Critical => "critical",
        }
    }
}

impl Difference {
    fn print(&self, to: &mut String) {
        // The words of plans: `none` is an empty set, `nothing` is no value.
        let said = |setting: &Option<crate::Setting>| match setting {
            Some(setting) if setting.as_str().is_empty() => "none".to_owned(),
            Some(setting) => setting.to_string(),
            None => "nothing".to_owned(),
        };
        let words = match &self.unreadable {
            Some(why) => format!("{}: can't be read: {why}", self.knob),
            None => format!("{}: wanted {}, has {}", self.knob, said(&self.want), said(&self.have)),
        };
        wrap(to, "    ", 8, &words);
    }
}

impl Finding {
    fn print(&self, to: &mut String) {
        wrap(to, "    ", 8, &self.problem);
        wrap(to, "    -> ", 7, &self.remedy);
    }
}
