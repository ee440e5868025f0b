//! LATENCY: the worst delays by event and second. A command that took `latency-monitor-threshold` milliseconds or longer
//! on its client's lane is an event, `fast-command` if it is of constant cost and `command` otherwise. Nothing else a lane
//! does is long: its housekeeping has a budget in each turn.

use std::collections::{BTreeMap, VecDeque};

use wire::command::Id;
use wire::reply::{self, Proto};

use crate::Now;
use crate::request::Args;

/// Seconds with an event that are remembered, as in Redis; the oldest are forgotten.
const SAMPLES_MAX: usize = 160;
/// Columns and rows of a graph.
const COLUMNS: usize = 80;
const ROWS: u64 = 4;
/// What stands for a third, two thirds and the whole of a row.
const FILL: [char; 3] = ['_', 'o', '#'];

/// The worst delay of a second.
#[derive(Clone, Copy)]
struct Sample {
    unix_s: i64,
    ms: u64,
}

/// The delays of one event, the oldest first.
#[derive(Default)]
struct Series {
    samples: VecDeque<Sample>,
    /// Of all times since it was reset.
    ms_max: u64,
}

/// The events that were seen, by name.
#[derive(Default)]
pub(super) struct Delays {
    events: BTreeMap<&'static str, Series>,
}

impl Delays {
    pub(super) fn note(&mut self, event: &'static str, unix_s: i64, ms: u64) {
        let series = self.events.entry(event).or_default();
        series.ms_max = series.ms_max.max(ms);
        match series.samples.back_mut() {
            Some(last) if last.unix_s == unix_s => last.ms = last.ms.max(ms),
            _ => series.samples.push_back(Sample { unix_s, ms }),
        }
        if series.samples.len() > SAMPLES_MAX {
            series.samples.pop_front();
        }
    }

    /// LATENCY LATEST, HISTORY, RESET, GRAPH and DOCTOR. `threshold_ms`: the setting; 0 is off.
    pub(super) fn answer(
        &mut self,
        id: Id,
        args: Args<'_>,
        proto: Proto,
        now: Now,
        threshold_ms: u64,
        out: &mut Vec<u8>,
    ) {
        let put_number = |out: &mut Vec<u8>, ms| reply::integer(out, i64::try_from(ms).unwrap_or(i64::MAX));
        match id {
            Id::LatencyLatest => {
                reply::array(out, self.events.len());
                for (name, series) in &self.events {
                    let last = series.samples.back().expect("an event was seen at least once");
                    reply::array(out, 4);
                    reply::bulk(out, name.as_bytes());
                    reply::integer(out, last.unix_s);
                    put_number(out, last.ms);
                    put_number(out, series.ms_max);
                }
            }
            Id::LatencyHistory => {
                let samples = self.series(args.flat(2)).map(|(_, series)| &series.samples);
                reply::array(out, samples.map_or(0, VecDeque::len));
                for sample in samples.into_iter().flatten() {
                    reply::array(out, 2);
                    reply::integer(out, sample.unix_s);
                    put_number(out, sample.ms);
                }
            }
            Id::LatencyReset => {
                let count = self.events.len();
                let is_meant = |name: &str| {
                    (2..args.len()).any(|index| args.flat(index).eq_ignore_ascii_case(name.as_bytes()))
                };
                self.events.retain(|name, _| args.len() > 2 && !is_meant(name));
                put_number(out, (count - self.events.len()) as u64);
            }
            Id::LatencyGraph => match self.series(args.flat(2)) {
                None => {
                    let event = reply::quoted(args.flat(2));
                    reply::error_bytes(out, &[b"ERR No samples available for event '", event, b"'"].concat());
                }
                Some((name, series)) => {
                    let text = series.graph(name, now.unix_ms / 1000);
                    reply::verbatim(out, proto, b"txt", text.as_bytes());
                }
            },
            _ => reply::verbatim(out, proto, b"txt", self.report(now, threshold_ms).as_bytes()),
        }
    }

    fn series(&self, event: &[u8]) -> Option<(&'static str, &Series)> {
        let name = std::str::from_utf8(event).ok()?;
        self.events.get_key_value(name).map(|(name, series)| (*name, series))
    }

    /// What DOCTOR says. The line of an event is Redis' own; the advice is for a lane.
    fn report(&self, now: Now, threshold_ms: u64) -> String {
        if self.events.is_empty() {
            return if threshold_ms == 0 {
                "Latency monitoring is disabled. Use \"CONFIG SET latency-monitor-threshold <milliseconds>\" to enable it.\n"
            } else {
                "No latency spike was observed since the server began or LATENCY RESET was said.\n"
            }
            .to_owned();
        }
        let mut text = "Latency spikes were observed:\n\n".to_owned();
        for (number, (name, series)) in (1..).zip(&self.events) {
            let count = series.samples.len() as u64;
            let average = series.samples.iter().map(|sample| sample.ms).sum::<u64>() / count;
            let deviation =
                series.samples.iter().map(|sample| sample.ms.abs_diff(average)).sum::<u64>() / count;
            let first_s = series.samples.front().expect("an event was seen at least once").unix_s;
            let period_s = u64::try_from(now.unix_ms / 1000 - first_s).unwrap_or(0).max(1);
            let hundredths = period_s * 100 / count;
            text += &format!(
                "{number}. {name}: {count} latency spikes (average {average}ms, mean deviation {deviation}ms, period \
                 {}.{:02} sec). Worst all time event {}ms.\n",
                hundredths / 100,
                hundredths % 100,
                series.ms_max,
            );
        }
        text += "\nSLOWLOG GET shows the commands. INFO lanes shows each lane's longest turn, and whether its thread was \
                 preempted: then the time is the machine's.\n";
        text
    }
}

impl Series {
    /// The delays as bars, the latest on the right, and under each how long ago it was: Redis' own drawing.
    fn graph(&self, name: &str, now_s: i64) -> String {
        let all = || self.samples.iter().map(|sample| sample.ms);
        let (low, high) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
        let mut text = format!(
            "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
            self.ms_max,
            "-".repeat(COLUMNS)
        );
        let samples: Vec<Sample> = self.samples.iter().copied().collect();
        for (nth, part) in samples.chunks(COLUMNS).enumerate() {
            if nth > 0 {
                text.push('\n');
            }
            let step_count = ROWS * FILL.len() as u64;
            let steps: Vec<u64> = part
                .iter()
                .map(|sample| ((sample.ms - low) * step_count / (high - low).max(1)).min(step_count - 1))
                .collect();
            for row in (0..ROWS).rev() {
                text.extend(steps.iter().map(|step| match step.checked_sub(row * FILL.len() as u64) {
                    None => ' ',
                    Some(step) => *usize::try_from(step).ok().and_then(|step| FILL.get(step)).unwrap_or(&'|'),
                }));
                text.push('\n');
            }
            text.extend(std::iter::repeat_n(' ', part.len()));
            text.push('\n');
            let labels: Vec<String> = part.iter().map(|sample| ago(now_s - sample.unix_s)).collect();
            for at in 0..labels.iter().map(String::len).max().unwrap_or(0) {
                text.extend(labels.iter().map(|label| label.chars().nth(at).unwrap_or(' ')));
                text.push('\n');
            }
        }
        text
    }
}

fn ago(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_drawn_as_redis_draws_it() {
        // From LATENCY GRAPH of redis-server 7.0.15 for these delays.
        let mut series = Series::default();
        for (unix_s, ms) in [(195, 10), (196, 20), (197, 30), (198, 110)] {
            series.samples.push_back(Sample { unix_s, ms });
        }
        series.ms_max = 110;
        let want = "command - high 110 ms, low 10 ms (all time high 110 ms)\n\
                    --------------------------------------------------------------------------------\n\
                    \x20  #\n\
                    \x20  |\n\
                    \x20  |\n\
                    _o#|\n\
                    \x20   \n\
                    4321\n\
                    ssss\n";
        assert_eq!(series.graph("command", 199), want);
    }

    #[test]
    fn a_second_has_its_worst_delay_and_the_oldest_are_forgotten() {
        let mut delays = Delays::default();
        for second in 0..200 {
            delays.note("command", second, 5);
            delays.note("command", second, 7);
            delays.note("command", second, 6);
        }
        let series = &delays.events["command"];
        assert_eq!(series.samples.len(), SAMPLES_MAX);
        assert!(series.samples.iter().all(|sample| sample.ms == 7));
        assert_eq!(series.samples.front().map(|sample| sample.unix_s), Some(40));
    }
}
