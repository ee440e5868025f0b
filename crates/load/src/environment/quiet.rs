//! Whether the machine is quiet enough to measure on, asked before a run and said in words that can be acted on.
//!
//! A span of a second or more is watched before the load starts. What counts are the cpu time of others, the time in which
//! some task waited for a cpu (pressure: nothing of ours runs yet, so it is others'), and what a hypervisor took. The load
//! average is shown and never judged: it counts tasks that wait for disks, and forgets over minutes.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::counters::{Counters, Rates, pressure};
use super::files::{Below, Files};

/// Cpus' worth of others' work from which on a run is marked, and from which on it should not begin: a tenth and a half of
/// one cpu are what a lane that shares its cpu would lose.
pub const OTHERS_CPUS_BOUNDS: Bounds = Bounds { noticed: 0.10, noisy: 0.50 };
/// The same for the share of time in which some task waited for a cpu.
pub const PRESSURE_BOUNDS: Bounds = Bounds { noticed: 0.05, noisy: 0.20 };
/// The same for the share of all cpu time that a hypervisor gave to others.
pub const STEAL_BOUNDS: Bounds = Bounds { noticed: 0.01, noisy: 0.05 };

/// From where on a disturbance is noticed, and from where on it is too much. Values at a bound are below it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Above this a run is marked.
    pub noticed: f64,
    /// Above this a run should not begin.
    pub noisy: f64,
}

/// How quiet it is; the worst of all that was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// Nothing was seen that disturbs.
    #[default]
    Quiet,
    /// Measure, and say so beside the result.
    Noticed,
    /// Wait, or be told to measure all the same.
    Noisy,
    /// Nothing could be looked at: neither quiet nor noisy.
    Unknown,
}

/// What was seen before a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// The verdict.
    pub noise: Noise,
    /// Seconds that were watched.
    pub seconds: f64,
    /// Cpus' worth of work that was not of the sampler's processes. None: not exposed.
    pub others_cpus: Option<f64>,
    /// Share of the span in which some task waited for a cpu.
    pub pressure: Option<f64>,
    /// The kernel's own figure of that for the last ten seconds.
    pub pressure_avg10: Option<f64>,
    /// Share of all cpu time that other machines on the same hardware took.
    pub steal: Option<f64>,
    /// Tasks that ran or waited, averaged over the last minute.
    pub load_1min: Option<f64>,
    /// A sentence for each thing that disturbs, with what to do about it. None for a quiet machine.
    pub complaints: Vec<String>,
}

impl Quiet {
    /// Judges the span between two samples, whose sampler was given the processes that are ours. The averages of pressure
    /// and load are read below `root` now.
    pub fn look(root: &Path, earlier: &Counters, now: &Counters) -> Quiet {
        Quiet::read(&Below::new(root), now.since(earlier))
    }

    fn read(files: &dyn Files, rates: Option<Rates>) -> Quiet {
        let rates = rates.unwrap_or_default();
        let mut quiet = Quiet {
            seconds: rates.seconds,
            others_cpus: others_cpus(&rates),
            pressure: rates.pressure_cpu,
            pressure_avg10: files
                .text("proc/pressure/cpu")
                .and_then(|text| pressure(&text))
                .map(|seen| seen.avg10),
            steal: steal(&rates),
            load_1min: files
                .text("proc/loadavg")
                .and_then(|text| text.split_whitespace().next()?.parse().ok()),
            ..Quiet::default()
        };
        quiet.judge();
        quiet
    }

    fn judge(&mut self) {
        let span = if (0.95..1.05).contains(&self.seconds) {
            "the last second".to_owned()
        } else {
            format!("the last {:.1} s", self.seconds)
        };
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        if self.others_cpus.is_none()
            && self.pressure.or(self.pressure_avg10).is_none()
            && self.steal.is_none()
        {
            self.noise = Noise::Unknown;
            self.complaints.push(
                "neither /proc/stat nor /proc/pressure/cpu can be read: nobody can say whether the machine is quiet"
                    .to_owned(),
            );
            return;
        }
        if let Some(cpus) = self.others_cpus {
            let words =
                format!("others used {} of a core in {span}; wait until they are through", percent(cpus));
            self.complain(cpus, OTHERS_CPUS_BOUNDS, words);
        }
        // Of the span and the last ten seconds the worse: a neighbour that works every few seconds is one.
        let waited = [(self.pressure, span.as_str()), (self.pressure_avg10, "the last 10 s")];
        let worst = waited
            .into_iter()
            .filter_map(|(share, span)| Some((share?, span)))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((share, span)) = worst {
            let words = format!(
                "tasks waited for a core in {} of {span}; stop what competes for the cores",
                percent(share)
            );
            self.complain(share, PRESSURE_BOUNDS, words);
        }
        if let Some(share) = self.steal {
            let words = format!(
                "the hypervisor gave {:.1} % of the cpu time to other machines in {span}; use a machine of your own",
                share * 100.0
            );
            self.complain(share, STEAL_BOUNDS, words);
        }
    }

    fn complain(&mut self, value: f64, bounds: Bounds, words: String) {
        let noise = bounds.judge(value);
        if noise != Noise::Quiet {
            self.complaints.push(words);
        }
        self.noise = self.noise.max(noise);
    }
}

impl Bounds {
    /// Where a value lies.
    pub fn judge(self, value: f64) -> Noise {
        if self.noisy < value {
            Noise::Noisy
        } else if self.noticed < value {
            Noise::Noticed
        } else {
            Noise::Quiet
        }
    }
}

/// What all cpus did less what our processes did. Times in ticks are rounded, so a small negative number is none.
fn others_cpus(rates: &Rates) -> Option<f64> {
    let busy = rates.cpu_user? + rates.cpu_system? + rates.cpu_softirq? + rates.cpu_irq?;
    let ours = rates.process_user.unwrap_or(0.0) + rates.process_system.unwrap_or(0.0);
    Some((busy - ours).max(0.0))
}

fn steal(rates: &Rates) -> Option<f64> {
    let steal = rates.cpu_steal?;
    // iowait may go back and is none then; it is idle time that is missed.
    let others = [
        rates.cpu_user,
        rates.cpu_system,
        rates.cpu_softirq,
        rates.cpu_irq,
        rates.cpu_idle,
        rates.cpu_iowait,
    ];
    let total = steal + others.into_iter().flatten().sum::<f64>();
    (0.0 < total).then(|| steal / total)
}

#[cfg(test)]
mod tests {
    use super::super::counters::Sampler;
    use super::super::tests::Tree;
    use super::*;

    fn calm() -> Rates {
        Rates {
            seconds: 1.0,
            cpu_user: Some(0.02),
            cpu_system: Some(0.01),
            cpu_softirq: Some(0.0),
            cpu_irq: Some(0.0),
            cpu_idle: Some(1.97),
            cpu_iowait: None,
            cpu_steal: Some(0.0),
            pressure_cpu: Some(0.01),
            ..Rates::default()
        }
    }

    fn check(rates: Rates, files: &str, noise: Noise, complaints: &[&str]) {
        let quiet = Quiet::read(&Tree::parse(files), Some(rates));
        let got: Vec<&str> = quiet.complaints.iter().map(String::as_str).collect();
        assert_eq!((quiet.noise, &got[..]), (noise, complaints));
    }

    const FILES: &str = "=== proc/pressure/cpu\nsome avg10=1.00 avg60=0.00 avg300=0.00 total=9\n=== proc/loadavg\n0.70 0.1 0.1 1/2 3\n";

    #[test]
    fn a_calm_machine_has_no_complaints() {
        check(calm(), FILES, Noise::Quiet, &[]);
        let quiet = Quiet::read(&Tree::parse(FILES), Some(calm()));
        assert_eq!((quiet.pressure_avg10, quiet.load_1min, quiet.steal), (Some(0.01), Some(0.7), Some(0.0)));
    }

    #[test]
    fn what_others_use_is_said_with_what_to_do() {
        let busy = Rates { cpu_user: Some(0.30), cpu_softirq: Some(0.06), ..calm() };
        let words = "others used 37 % of a core in the last second; wait until they are through";
        check(busy.clone(), FILES, Noise::Noticed, &[words]);
        // Our own processes are not others.
        let ours = Rates { process_user: Some(0.2), process_system: Some(0.1), ..busy.clone() };
        check(ours, FILES, Noise::Quiet, &[]);
        let words = "others used 137 % of a core in the last 2.5 s; wait until they are through";
        check(Rates { cpu_system: Some(1.01), seconds: 2.5, ..busy }, FILES, Noise::Noisy, &[words]);
    }

    #[test]
    fn the_worse_of_both_pressures_counts() {
        let span = "tasks waited for a core in 30 % of the last second; stop what competes for the cores";
        check(Rates { pressure_cpu: Some(0.3), ..calm() }, FILES, Noise::Noisy, &[span]);
        let before = "tasks waited for a core in 7 % of the last 10 s; stop what competes for the cores";
        check(calm(), &FILES.replace("avg10=1.00", "avg10=7.00"), Noise::Noticed, &[before]);
    }

    #[test]
    fn steal_is_a_share_of_all_cpu_time() {
        let words = "the hypervisor gave 4.8 % of the cpu time to other machines in the last second; use a machine of your own";
        check(Rates { cpu_steal: Some(0.1), ..calm() }, FILES, Noise::Noticed, &[words]);
    }

    #[test]
    fn a_machine_that_shows_nothing_is_not_called_quiet() {
        for rates in [Some(Rates { seconds: 1.0, ..Rates::default() }), None] {
            let quiet = Quiet::read(&Tree::parse(""), rates);
            assert_eq!((quiet.noise, quiet.complaints.len()), (Noise::Unknown, 1));
        }
    }

    #[test]
    fn a_value_at_a_bound_is_below_it() {
        let bounds = Bounds { noticed: 0.1, noisy: 0.5 };
        let noises = [0.1, 0.11, 0.5, 0.51].map(|value| bounds.judge(value));
        assert_eq!(noises, [Noise::Quiet, Noise::Noticed, Noise::Noticed, Noise::Noisy]);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let root = Path::new("/");
        let sampler = Sampler::new(root, vec![], vec![]);
        let quiet = Quiet::look(root, &sampler.sample(1_000_000_000), &sampler.sample(3_000_000_000));
        assert!(quiet.load_1min.is_some() && quiet.others_cpus.is_some());
        assert_eq!(quiet.seconds.to_string(), "2");
    }
}
