//! The file that describes a comparison: what is declared before the first run, the load, and the two set-ups.

use clap::{Args, Command, FromArgMatches};
use load::analysis::Metric;
use load::analysis::comparison::Declared;
use load::analysis::gates::GateBound;
use load::connect::Endpoint;
use load::statistics::claim::Claim;
use load::statistics::verdict::Margin;
use serde::{Deserialize, Serialize};

use crate::bench::settings::{
    CompareSettings, FLOOR_PAIRS, LoadSettings, MARGIN_PERCENT, METRIC, PAIRS, PAIRS_MAX, beside_rate,
};
use crate::settings::{CpuList, meant, not_toml};

/// The whole file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::bench) struct Plan {
    /// What the verdict is on.
    #[serde(default = "default_metric")]
    pub(in crate::bench) metric: Metric,
    /// Changes below so many percent are not worth speaking of.
    #[serde(default = "default_margin")]
    margin_percent: f64,
    /// Pairs of A and B that are to count.
    #[serde(default = "default_pairs")]
    pub(in crate::bench) pairs: u32,
    /// Pairs of A with itself before them.
    #[serde(default = "default_floor_pairs")]
    pub(in crate::bench) floor_pairs: u32,
    /// Of the order inside pairs, of keys and times.
    #[serde(default = "default_seed")]
    pub(in crate::bench) seed: u64,
    /// What is claimed of the change from A to B.
    #[serde(default)]
    claims: Vec<Claim>,
    /// Names of what differs on purpose in the environment.
    #[serde(default)]
    may_differ: Vec<String>,
    /// Bounds of gates in place of the usual ones.
    #[serde(default)]
    pub(in crate::bench) gates: Vec<GateBound>,
    /// Flags of `bench run`, without their dashes.
    #[serde(default)]
    load: toml::Table,
    /// The set-up that is there.
    pub(in crate::bench) a: SetUp,
    /// The set-up that is proposed.
    pub(in crate::bench) b: SetUp,
}

/// One of the two servers.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::bench) struct SetUp {
    /// What it is called in the report.
    pub(in crate::bench) name: Option<String>,
    /// Where it listens.
    #[serde(default = "default_address")]
    pub(in crate::bench) address: Option<Endpoint>,
    /// What stands before the program's words: that which starts it elsewhere, and keeps its process' number.
    #[serde(skip)]
    pub(in crate::bench) wrapper: Vec<String>,
    /// The program and its arguments; none: it runs already, and is not started anew for each run.
    pub(in crate::bench) start: Option<Vec<String>>,
    /// Variables of its environment.
    #[serde(default)]
    pub(in crate::bench) environment: std::collections::BTreeMap<String, String>,
    /// Where it is pinned, as in 0-3,8.
    pub(in crate::bench) cpus: Option<String>,
    /// Commands before it is started, for `sh -c`; each must succeed.
    #[serde(default)]
    pub(in crate::bench) before: Vec<String>,
    /// Commands after it has ended.
    #[serde(default)]
    pub(in crate::bench) after: Vec<String>,
}

fn default_metric() -> Metric {
    METRIC
}

fn default_margin() -> f64 {
    MARGIN_PERCENT
}

fn default_pairs() -> u32 {
    PAIRS
}

fn default_floor_pairs() -> u32 {
    FLOOR_PAIRS
}

fn default_seed() -> u64 {
    1
}

fn default_address() -> Option<Endpoint> {
    None
}

/// The keys of each table, for whoever mistypes one.
const KEYS: [(&str, &[&str]); 3] = [
    (
        "",
        &[
            "metric",
            "margin-percent",
            "pairs",
            "floor-pairs",
            "seed",
            "claims",
            "may-differ",
            "gates",
            "load",
            "a",
            "b",
        ],
    ),
    ("a", &["name", "address", "start", "environment", "cpus", "before", "after"]),
    ("b", &["name", "address", "start", "environment", "cpus", "before", "after"]),
];

impl Plan {
    /// Reads the file's text. An error is one sentence that says what to change.
    pub(in crate::bench) fn parse(text: &str) -> Result<(Plan, LoadSettings), String> {
        let table: toml::Table = text.parse().map_err(|error| not_toml(text, &error))?;
        for (section, keys) in KEYS {
            let inside = if section.is_empty() {
                Some(&table)
            } else {
                table.get(section).and_then(|it| it.as_table())
            };
            for key in inside.into_iter().flat_map(|table| table.keys()) {
                if !keys.contains(&key.as_str()) {
                    return Err(unknown(key, section, keys));
                }
            }
        }
        let plan: Plan = table.try_into().map_err(|error: toml::de::Error| one_line(&error.to_string()))?;
        plan.check()?;
        let load = load_settings(&plan.load)?;
        Ok((plan, load))
    }

    /// Of two servers that run already.
    pub(in crate::bench) fn of_addresses(settings: &CompareSettings, b: &Endpoint) -> Result<Plan, String> {
        let a = settings.plan.to_str().ok_or("an address is plain text")?.parse::<Endpoint>()?;
        let setup = |address: &Endpoint| SetUp {
            name: Some(address.to_string()),
            address: Some(address.clone()),
            ..SetUp::default()
        };
        let plan = Plan {
            metric: settings.metric,
            margin_percent: settings.margin_percent,
            pairs: settings.pairs,
            floor_pairs: settings.floor_pairs,
            seed: settings.load.workload.seed,
            claims: settings.claim.clone(),
            may_differ: settings.may_differ.clone(),
            gates: settings.gate.clone(),
            load: toml::Table::new(),
            a: setup(&a),
            b: setup(b),
        };
        plan.check().map(|()| plan)
    }

    fn check(&self) -> Result<(), String> {
        if self.pairs == 0 || self.pairs > PAIRS_MAX || self.floor_pairs > PAIRS_MAX {
            return Err(format!("pairs are 1 to {PAIRS_MAX}, floor-pairs up to as many"));
        }
        Margin::new(self.margin_percent / 100.0).ok_or("margin-percent is a number above zero")?;
        for (name, setup) in [("a", &self.a), ("b", &self.b)] {
            if setup.address.is_none() {
                return Err(format!("[{name}] needs the `address` where its server listens"));
            }
            if setup.start.as_ref().is_some_and(Vec::is_empty) {
                return Err(format!("`start` of [{name}] is a list of words, the program first"));
            }
            setup.cpus().map_err(|problem| format!("`cpus` of [{name}]: {problem}"))?;
        }
        for claim in &self.claims {
            claim.metric.parse::<Metric>().map_err(|problem| format!("`{claim}`: {problem}"))?;
        }
        Ok(())
    }

    /// What the analysis needs to know, and a reader before the first run.
    pub(in crate::bench) fn declared(&self) -> Declared {
        let name = |setup: &SetUp, other: &str| setup.name.clone().unwrap_or_else(|| other.to_owned());
        let (name_a, name_b) = (name(&self.a, "A"), name(&self.b, "B"));
        let setups = [(&self.a, &name_a), (&self.b, &name_b)].into_iter();
        let kept = setups.filter(|(setup, _)| setup.start.is_none()).map(|(_, name)| name.clone());
        Declared {
            servers_kept: kept.collect(),
            name_a,
            name_b,
            metric: self.metric,
            margin: Margin::new(self.margin_percent / 100.0).expect("checked when it was read"),
            claims: self.claims.clone(),
            may_differ: self.may_differ.clone(),
            gates: self.gates.clone(),
        }
    }
}

impl SetUp {
    pub(in crate::bench) fn cpus(&self) -> Result<Vec<usize>, String> {
        self.cpus.as_ref().map_or(Ok(Vec::new()), |text| text.parse::<CpuList>().map(|list| list.0))
    }

    pub(in crate::bench) fn address(&self) -> &Endpoint {
        self.address.as_ref().expect("checked when it was read")
    }
}

/// The keys of `[load]` as the flags they are, so that there is one parser and one set of messages.
fn load_settings(table: &toml::Table) -> Result<LoadSettings, String> {
    let command = LoadSettings::augment_args(Command::new("load").no_binary_name(true)).mut_args(beside_rate);
    let mut words = Vec::new();
    for (key, value) in table {
        let known: Vec<&str> = flags(&command).collect();
        if !known.contains(&key.as_str()) {
            return Err(unknown(key, "load", &known));
        }
        match value {
            toml::Value::Boolean(true) => words.push(format!("--{key}")),
            toml::Value::Boolean(false) => {}
            toml::Value::String(text) => words.push(format!("--{key}={text}")),
            toml::Value::Integer(number) => words.push(format!("--{key}={number}")),
            toml::Value::Float(number) => words.push(format!("--{key}={number}")),
            _ => return Err(format!("`{key}` under [load] is a string, a number, true or false")),
        }
    }
    let matches = command.try_get_matches_from(words).map_err(|error| {
        let text = error.to_string();
        let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        format!("[load]: {}", one_line(message).replace("--", ""))
    })?;
    LoadSettings::from_arg_matches(&matches).map_err(|error| one_line(&error.to_string()))
}

fn flags(command: &Command) -> impl Iterator<Item = &str> {
    command.get_arguments().filter_map(clap::Arg::get_long)
}

/// That a table has no such key, and where else it is one, or which of this table's it is alike.
fn unknown(key: &str, section: &str, keys: &[&str]) -> String {
    let load = LoadSettings::augment_args(Command::new("load"));
    let compare = CompareSettings::augment_args(Command::new("compare"));
    let is_in = |section: &str| KEYS.iter().any(|(name, keys)| *name == section && keys.contains(&key));
    // `a` and `b` are like every word that begins with them.
    let names = || keys.iter().copied().filter(|name| name.len() > 1);
    let hint = if is_in("") {
        "; it stands at the top of the file, above all tables".to_owned()
    } else if is_in("a") {
        "; it stands under [a] and under [b]".to_owned()
    } else if flags(&load).any(|flag| flag == key) {
        "; it stands under [load]".to_owned()
    } else if flags(&compare).any(|flag| flag == key) {
        format!("; it is a flag of the command line: --{key}")
    } else if let Some(it) = meant(key, names()) {
        format!("; did you mean `{it}`?")
    } else {
        format!("; there are {}", names().collect::<Vec<_>>().join(", "))
    };
    let under = if section.is_empty() { String::new() } else { format!(" under [{section}]") };
    format!("there is no key `{key}`{under}{hint}")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETUPS: &str = "[a]\naddress = \":1\"\n[b]\naddress = \"unix:/s\"\n";

    #[test]
    fn a_plan_is_read() {
        let text = format!(
            "pairs = 12\nclaims = [\"p99 falls by >= 20 %\"]\n[load]\nrate = 20000\nduration = \"5s\"\nverify = true\n{SETUPS}\
             start = [\"redis-server\", \"--port\", \"1\"]\ncpus = \"0-1\"\n"
        );
        let (plan, load) = Plan::parse(&text).unwrap();
        assert_eq!((plan.pairs, plan.floor_pairs, plan.metric), (12, 4, Metric::P99));
        assert_eq!(
            (load.pace.rate, load.pace.duration.as_secs(), load.workload.verify),
            (Some(20000.0), 5, true)
        );
        assert_eq!(plan.b.cpus().unwrap(), [0, 1]);
        assert!((plan.declared().margin.share() - 0.05).abs() < 1e-9);
    }

    /// What is alike is of the same table; what is a key elsewhere is sent there.
    #[test]
    fn unknown_keys_are_named_with_what_was_meant() {
        let top = |key: &str, want: &str| check_unknown(format!("{key} = 1\n{SETUPS}"), want);
        let b = |key: &str, want: &str| check_unknown(format!("{SETUPS}{key} = 1\n"), want);
        let load = |key: &str, want: &str| check_unknown(format!("{SETUPS}[load]\n{key} = 1\n"), want);
        top("piars", "`piars`; did you mean `pairs`?");
        top("floor", "`floor`; did you mean `floor-pairs`?");
        top("lod", "`lod`; did you mean `load`?");
        top("rate", "`rate`; it stands under [load]");
        top("start", "`start`; it stands under [a] and under [b]");
        top("noisy", "`noisy`; it is a flag of the command line: --noisy");
        top("author", "`author`; there are metric, margin-percent, pairs, ");
        b("cpu", "`cpu` under [b]; did you mean `cpus`?");
        b("env", "`env` under [b]; did you mean `environment`?");
        b("rate", "`rate` under [b]; it stands under [load]");
        b("pairs", "`pairs` under [b]; it stands at the top of the file");
        b("port", "`port` under [b]; there are name, address, start, ");
        load("rates", "`rates` under [load]; did you mean `rate`?");
        load("warmup", "`warmup` under [load]; did you mean `warm-up`?");
        load("result", "`result` under [load]; it is a flag of the command line: --result");
        load("html", "`html` under [load]; it is a flag of the command line: --html");
        load("metric", "`metric` under [load]; it stands at the top of the file");
        load("address", "`address` under [load]; it stands under [a] and under [b]");
        load("keep", "`keep` under [load]; there are ");
    }

    #[track_caller]
    fn check_unknown(text: String, want: &str) {
        let problem = Plan::parse(&text).map(|_| ()).unwrap_err();
        assert!(problem.starts_with(&format!("there is no key {want}")), "{problem}");
    }

    #[test]
    fn mistakes_are_said_in_a_sentence() {
        for (text, want) in [
            (format!("{SETUPS}[load]\nrate = -3\n"), "[load]: invalid value"),
            (format!("{SETUPS}[load]\nrate = [3]\n"), "`rate` under [load] is"),
            (format!("claims = [\"p98 falls by >= 20 %\"]\n{SETUPS}"), "'p98' is no metric"),
            (format!("claims = [\"it is nice\"]\n{SETUPS}"), "is no claim"),
            (format!("gates = [\"errors <= 3 %\"]\n{SETUPS}"), "is no bound of a gate"),
            (format!("metric = \"p98\"\n{SETUPS}"), "'p98' is no metric"),
            (format!("pairs = 0\n{SETUPS}"), "pairs are 1 to"),
            (format!("margin-percent = -1\n{SETUPS}"), "margin-percent is"),
            (format!("{SETUPS}start = []\n"), "`start` of [b] is a list"),
            (format!("{SETUPS}cpus = \"x\"\n"), "`cpus` of [b]"),
            ("[a]\n[b]\n".to_owned(), "[a] needs the `address`"),
            ("[a]\naddress = \":1\"\n".to_owned(), "missing field `b`"),
            ("pairs = 3\npairs = \n".to_owned(), "not TOML in line 2: string values must be quoted"),
        ] {
            let problem = Plan::parse(&text).map(|_| ()).unwrap_err();
            assert!(problem.contains(want), "{text}: {problem}");
            assert!(!problem.contains('\n'), "{problem}");
        }
    }
}
