//! What was published: the load of each experiment, and its figures.
//!
//! Sources: Intel's briefs on Redis and on Aerospike with ADQ (2019), Cisco's and Solarflare's on Couchbase (2012), and
//! Russell Sullivan's recipe for a million requests a second (2012). Where one of them leaves a number out, ours stands in its
//! place and [`Preset::chosen`] says so.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::measure::{Figure, Measure, figure};
use crate::connect::Dialect;
use crate::statistics::published::{ReadersCheck, readers_checks};
use crate::workload::{Distribution, Mix, Operation, Sizes, Workload};

/// Which experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Id {
    /// Round trips over 10 … 100 connections.
    E1,
    /// The tail of reads.
    E2,
    /// Latency by value size.
    E3,
    /// Throughput in batches.
    E4,
    /// The recipe, ingredient by ingredient.
    E5,
}

impl Id {
    /// All of them, in order.
    pub const ALL: [Id; 5] = [Id::E1, Id::E2, Id::E3, Id::E4, Id::E5];
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Id::E1 => "E1",
            Id::E2 => "E2",
            Id::E3 => "E3",
            Id::E4 => "E4",
            Id::E5 => "E5",
        })
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Id, String> {
        let found = Id::ALL.into_iter().find(|id| id.to_string().eq_ignore_ascii_case(text));
        found.ok_or_else(|| format!("'{text}' is no experiment: E1, E2, E3, E4, E5 or all"))
    }
}

/// What is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Nothing: one level.
    Nothing,
    /// Connections of an instance.
    Connections(&'static [u32]),
    /// Bytes of values.
    ValueSizes(&'static [u32]),
}

impl Sweep {
    /// As the level of a saved run is named; empty where nothing is swept.
    pub fn name(self) -> &'static str {
        match self {
            Sweep::Nothing => "",
            Sweep::Connections(_) => "connections",
            Sweep::ValueSizes(_) => "value-size",
        }
    }

    /// In rising order; nothing swept is none.
    pub fn levels(self) -> &'static [u32] {
        match self {
            Sweep::Nothing => &[],
            Sweep::Connections(levels) | Sweep::ValueSizes(levels) => levels,
        }
    }
}

/// One experiment as it was published.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Which.
    pub id: Id,
    /// What it is about.
    pub title: &'static str,
    /// Whose it is.
    pub source: &'static str,
    /// What was compared.
    pub compared: &'static str,
    /// What was spoken, where that is not RESP.
    pub foreign_protocol: Option<&'static str>,
    /// GET : SET.
    pub weights: (u32, u32),
    /// Keys.
    pub key_count: u64,
    /// Bytes of a value, unless they are swept.
    pub value_size: u32,
    /// What is swept.
    pub sweep: Sweep,
    /// Connections of an instance (E2: commands in flight of a client process), unless they are swept.
    pub connections: u32,
    /// Requests sent before their replies are read.
    pub pipeline: u32,
    /// Server instances or nodes.
    pub instances: u32,
    /// Client processes, each with so many threads.
    pub clients: (u32, u32),
    /// How long a level lasted, in words.
    pub duration: &'static str,
    /// What was not published, and what stands there: (what, value).
    pub chosen: &'static [(&'static str, &'static str)],
    /// The numbers, the most important first.
    pub figures: &'static [Figure],
}

const E1: Preset = Preset {
    id: Id::E1,
    title: "predictability over 10 .. 100 connections",
    source: "Redis 4.0.10 + ADQ, Intel 2019",
    compared: "the same redis-server without and with ADQ",
    foreign_protocol: None,
    weights: (1, 0),
    key_count: 10_000,
    value_size: 100,
    sweep: Sweep::Connections(&[10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
    connections: 0,
    pipeline: 1,
    instances: 94,
    clients: (94, 1),
    duration: "30 s a level",
    chosen: &[],
    figures: &[
        Figure {
            changes_percent: &[-69.0],
            headline_percent: Some(-50.0),
            ..figure("spread over load", Measure::Spread, &[739e3, 229e3])
        },
        Figure {
            changes_percent: &[-69.0],
            headline_percent: Some(-45.0),
            ..figure("mean round trip", Measure::RoundTrip, &[1_249e3, 382e3])
        },
        Figure {
            changes_percent: &[80.0],
            headline_percent: Some(30.0),
            ..figure("per instance", Measure::PerInstance, &[44_345.0, 79_601.0])
        },
        figure("spread / mean", Measure::SpreadShare, &[739.0 / 1_249.0, 229.0 / 382.0]),
        figure("Little / offered", Measure::Little, &[44_345.0 * 1_249e-6 / 55.0, 79_601.0 * 382e-6 / 55.0]),
        figure("spread of all runs", Measure::SpreadOfRuns, &[]),
        figure("spread within runs", Measure::SpreadWithin, &[]),
        figure("mean from due", Measure::FromDue, &[]),
    ],
};

const E2: Preset = Preset {
    id: Id::E2,
    title: "the tail of reads",
    source: "Aerospike 4.7 + ADQ, Intel 2019",
    compared: "a tuned server without and with ADQ",
    foreign_protocol: Some("Aerospike's"),
    weights: (1, 0),
    key_count: 1_000_000,
    value_size: 32,
    sweep: Sweep::Nothing,
    connections: 142,
    pipeline: 1,
    instances: 2,
    clients: (18, 12),
    duration: "not published",
    chosen: &[],
    figures: &[
        Figure {
            changes_percent: &[-47.0],
            headline_percent: Some(-45.0),
            ..figure("p99", Measure::P99, &[600e3, 320e3])
        },
        Figure {
            changes_percent: &[-18.8],
            headline_percent: Some(-15.0),
            ..figure("mean by buckets", Measure::BucketsMiddle, &[234_949.0, 190_800.0])
        },
        figure(" at lower edges", Measure::BucketsLower, &[]),
        figure(" at upper edges", Measure::BucketsUpper, &[]),
        figure("true mean", Measure::Mean, &[]),
        figure("above 360 µs", Measure::Slow, &[0.11, 0.0]),
        Figure {
            changes_percent: &[78.0],
            headline_percent: Some(75.0),
            ..figure("requests/s", Measure::Throughput, &[8.6e6, 15.3e6])
        },
        figure("mean from due", Measure::FromDue, &[]),
    ],
};

const E3: Preset = Preset {
    id: Id::E3,
    title: "latency by size of values",
    source: "Couchbase 1.8, Cisco and Solarflare 2012",
    compared: "links of 1 and 10 Gbit/s, then a user-level stack",
    foreign_protocol: Some("Couchbase's"),
    weights: (7, 3),
    key_count: 100_000,
    value_size: 0,
    sweep: Sweep::ValueSizes(&[128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384]),
    connections: 1,
    pipeline: 1,
    instances: 8,
    clients: (1, 1),
    duration: "1,000,000 operations",
    chosen: &[("sizes between 128 and 16384 bytes", "powers of two")],
    figures: &[
        Figure {
            changes_percent: &[-40.0, -52.0],
            ..figure("1024 B mean of both", Measure::BothAt(1_024), &[203e3, 122e3, 59e3])
        },
        figure("1024 B as mixed", Measure::MixAt(1_024), &[]),
        figure("128 B GET", Measure::GetAt(128), &[]),
        figure("128 B SET", Measure::SetAt(128), &[]),
        figure("128 B mean of both", Measure::BothAt(128), &[]),
        figure("256 B GET", Measure::GetAt(256), &[]),
        figure("256 B SET", Measure::SetAt(256), &[]),
        figure("256 B mean of both", Measure::BothAt(256), &[]),
        figure("512 B GET", Measure::GetAt(512), &[]),
        figure("512 B SET", Measure::SetAt(512), &[]),
        figure("512 B mean of both", Measure::BothAt(512), &[]),
        figure("1024 B GET", Measure::GetAt(1_024), &[]),
        figure("1024 B SET", Measure::SetAt(1_024), &[]),
        figure("2048 B GET", Measure::GetAt(2_048), &[]),
        figure("2048 B SET", Measure::SetAt(2_048), &[]),
        figure("2048 B mean of both", Measure::BothAt(2_048), &[]),
        figure("4096 B GET", Measure::GetAt(4_096), &[]),
        figure("4096 B SET", Measure::SetAt(4_096), &[]),
        figure("4096 B mean of both", Measure::BothAt(4_096), &[]),
        figure("8192 B GET", Measure::GetAt(8_192), &[]),
        figure("8192 B SET", Measure::SetAt(8_192), &[]),
        figure("8192 B mean of both", Measure::BothAt(8_192), &[]),
        figure("16384 B GET", Measure::GetAt(16_384), &[]),
        figure("16384 B SET", Measure::SetAt(16_384), &[]),
        figure("16384 B mean of both", Measure::BothAt(16_384), &[]),
    ],
};

const E4: Preset = Preset {
    id: Id::E4,
    title: "throughput in batches of 50",
    source: "Couchbase 1.8, Cisco and Solarflare 2012",
    compared: "links of 1 and 10 Gbit/s",
    foreign_protocol: Some("Couchbase's"),
    weights: (7, 3),
    key_count: 100_000,
    value_size: 1_024,
    sweep: Sweep::Nothing,
    connections: 8,
    pipeline: 50,
    instances: 8,
    clients: (1, 1),
    duration: "not published",
    chosen: &[("connections", "8, one to each published node"), ("keys", "100000, as in E3")],
    figures: &[
        figure("operations/s", Measure::Throughput, &[2e6]),
        figure("mean", Measure::Mean, &[]),
        figure("p99", Measure::P99, &[]),
    ],
};

const E5: Preset = Preset {
    id: Id::E5,
    title: "the recipe of ten ingredients",
    source: "Russell Sullivan 2012",
    compared: "200,000, then 500,000, then 1,000,000 requests/s, as ingredients came in",
    foreign_protocol: None,
    weights: (1, 0),
    key_count: 10_000,
    value_size: 100,
    sweep: Sweep::Nothing,
    connections: 50,
    pipeline: 1,
    instances: 1,
    clients: (1, 1),
    duration: "not published",
    chosen: &[("keys and values", "10000 of 100 bytes"), ("connections", "50"), ("clients", "1")],
    figures: &[
        figure("requests/s", Measure::Throughput, &[200e3, 500e3, 1e6]),
        figure("per server core", Measure::PerCore, &[1e6 / 12.0]),
        figure("per dollar", Measure::PerDollar, &[1e6 / 5_000.0]),
    ],
};

impl Preset {
    /// What was spoken, in this program's terms.
    pub fn dialect(&self) -> Dialect {
        match self.id {
            Id::E2 => Dialect::Aerospike,
            // memcached's binary frames, each with its vbucket.
            Id::E3 | Id::E4 => Dialect::Couchbase,
            Id::E1 | Id::E5 => Dialect::Resp2,
        }
    }

    /// Above this a request counts as slow (E2): 360 µs.
    pub const SLOW_NS: u64 = 360_000;

    /// Of an experiment.
    pub const fn of(id: Id) -> &'static Preset {
        match id {
            Id::E1 => &E1,
            Id::E2 => &E2,
            Id::E3 => &E3,
            Id::E4 => &E4,
            Id::E5 => &E5,
        }
    }

    /// What is asked at a level; without one where nothing is swept.
    pub fn workload(&self, level: Option<u32>) -> Workload {
        let size = match (self.sweep, level) {
            (Sweep::ValueSizes(_), Some(size)) => size,
            _ => self.value_size,
        };
        let (gets, sets) = self.weights;
        let operations =
            [(Operation::Get, gets), (Operation::Set, sets)].into_iter().filter(|(_, weight)| *weight > 0);
        Workload {
            operations: Mix(operations.collect()),
            key_count: self.key_count,
            key_distribution: Distribution::Uniform,
            value_size: Sizes::Fixed(usize::try_from(size).expect("32 bits")),
            ..Workload::default()
        }
    }

    /// Connections of an instance at a level.
    pub fn connections_at(&self, level: Option<u32>) -> u32 {
        match (self.sweep, level) {
            (Sweep::Connections(_), Some(count)) => count,
            _ => self.connections,
        }
    }

    /// Bytes of values that all keys hold at a level.
    pub fn data_size(&self, level: Option<u32>) -> u64 {
        let size = self.workload(level).value_size.max();
        self.key_count * u64::try_from(size).expect("64 bits")
    }

    /// The check that a careful reader makes on the published figures, if there is one.
    pub fn readers_check(&self) -> Option<ReadersCheck> {
        let [sweep, tail, batches] = readers_checks();
        match self.id {
            Id::E1 => Some(sweep),
            Id::E2 => Some(tail),
            Id::E4 => Some(batches),
            Id::E3 | Id::E5 => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The footnotes' percentages follow from the footnotes' values, so a mistyped one of either is seen.
    #[test]
    fn published_changes_follow_from_published_values() {
        let mut seen = 0;
        for figure in Id::ALL.into_iter().flat_map(|id| Preset::of(id).figures) {
            for (values, want) in figure.values.windows(2).zip(figure.changes_percent) {
                let change = (values[1] / values[0] - 1.0) * 100.0;
                assert!((change - want).abs() <= 0.6, "{}: {change} for {want}", figure.name);
                seen += 1;
            }
            if let (Some(headline), Some(change)) = (figure.headline_percent, figure.changes_percent.first())
            {
                assert!(headline * change > 0.0 && change.abs() > headline.abs(), "{}", figure.name);
            }
        }
        assert_eq!(seen, 8);
    }

    #[test]
    fn each_load_is_the_published_one() {
        let check = |id, mix: &str, keys, connections, pipeline, levels: &str, size: &str| {
            let preset = Preset::of(id);
            let level = preset.sweep.levels().first().copied();
            let workload = preset.workload(level);
            assert_eq!(
                (workload.operations.to_string().as_str(), workload.key_count, workload.key_distribution),
                (mix, keys, Distribution::Uniform),
                "{id}"
            );
            assert_eq!((preset.connections_at(level), preset.pipeline), (connections, pipeline), "{id}");
            assert_eq!(format!("{:?}", preset.sweep.levels()), levels, "{id}");
            assert_eq!(workload.value_size.to_string(), size, "{id}");
            assert_eq!(preset.id, id);
        };
        let tens = "[10, 20, 30, 40, 50, 60, 70, 80, 90, 100]";
        check(Id::E1, "get", 10_000, 10, 1, tens, "100");
        check(Id::E2, "get", 1_000_000, 142, 1, "[]", "32");
        check(Id::E3, "get:7,set:3", 100_000, 1, 1, "[128, 256, 512, 1024, 2048, 4096, 8192, 16384]", "128");
        check(Id::E4, "get:7,set:3", 100_000, 8, 50, "[]", "1024");
        check(Id::E5, "get", 10_000, 50, 1, "[]", "100");
        assert_eq!(Preset::of(Id::E1).connections_at(Some(70)), 70);
        assert_eq!(Preset::of(Id::E3).workload(Some(4_096)).value_size, Sizes::Fixed(4_096));
        assert_eq!(Preset::of(Id::E3).data_size(Some(16_384)), 1_638_400_000);
    }

    #[test]
    fn figures_are_those_of_the_briefs() {
        let check = |id, measure, want: &[f64]| {
            let figure = Preset::of(id).figures.iter().find(|figure| figure.measure == measure).unwrap();
            let near = figure.values.iter().zip(want).all(|(got, want)| (got - want).abs() <= want * 1e-3);
            assert!(near && figure.values.len() == want.len(), "{id} {}: {:?}", figure.name, figure.values);
        };
        check(Id::E1, Measure::Spread, &[739e3, 229e3]);
        check(Id::E1, Measure::RoundTrip, &[1_249e3, 382e3]);
        check(Id::E1, Measure::PerInstance, &[44_345.0, 79_601.0]);
        check(Id::E1, Measure::SpreadShare, &[0.5917, 0.5995]);
        check(Id::E1, Measure::Little, &[1.0070, 0.5529]);
        check(Id::E2, Measure::P99, &[600e3, 320e3]);
        check(Id::E2, Measure::BucketsMiddle, &[234_949.0, 190_800.0]);
        check(Id::E2, Measure::Slow, &[0.11, 0.0]);
        check(Id::E2, Measure::Throughput, &[8.6e6, 15.3e6]);
        check(Id::E3, Measure::BothAt(1_024), &[203e3, 122e3, 59e3]);
        check(Id::E4, Measure::Throughput, &[2e6]);
        check(Id::E5, Measure::Throughput, &[200e3, 500e3, 1e6]);
        check(Id::E5, Measure::PerCore, &[83_333.0]);
        check(Id::E5, Measure::PerDollar, &[200.0]);
        for (id, want) in [(Id::E1, "30 in flight"), (Id::E2, "2,919"), (Id::E4, "11.5 Gbit/s")] {
            assert!(Preset::of(id).readers_check().unwrap().to_string().contains(want), "{id}");
        }
        assert!(Preset::of(Id::E3).readers_check().is_none());
    }

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!((Id::ALL.map(|id| id.to_string().to_lowercase().parse()), "E6".parse::<Id>().is_err()), {
            (Id::ALL.map(Ok), true)
        });
    }
}
