//! What `expresslane bench` can be told. Names are those of memtier_benchmark and redis-benchmark where they have them.

pub(crate) mod reproduce;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use load::analysis::Metric;
use load::analysis::gates::GateBound;
use load::connect::{Dialect, Endpoint, Login};
use load::search::Bound;
use load::statistics::claim::Claim;
use load::workload::{Distribution, KEY_COUNT_MAX, Mix, Sizes, Workload};

use super::agent::{AGENT_EXAMPLES, AGENT_LONG, AgentSettings, AgentsSettings};
use crate::settings::{CpuList, whole};

/// Threads of one load at most.
pub(crate) const THREADS_MAX: u16 = 256;
/// Connections of one load at most.
pub(crate) const CONNECTIONS_MAX: u32 = 60_000;
/// Requests that a connection sends at once, at most.
pub(crate) const PIPELINE_MAX: u32 = 10_000;
/// Requests a second of one load at most.
pub(crate) const RATE_MAX: f64 = 1e9;

/// A time that is not none, as a number of seconds or with its unit.
fn some_time(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("a load takes some time, such as 10s".to_owned()),
        time => Ok(time),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}

/// Seconds of a day at most, as a number of them or with their unit.
fn seconds(text: &str) -> Result<u32, String> {
    let whole = time(text).ok().filter(|time| time.subsec_nanos() == 0);
    let count = whole.and_then(|time| u32::try_from(time.as_secs()).ok()).filter(|&count| count <= 86_400);
    count.ok_or_else(|| "it is whole seconds, from 0 to 86400, such as 5 or 5s".to_owned())
}

/// What `bench` is asked to do.
#[derive(Clone, Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum BenchVerb {
    /// Load one server and show how it answers
    #[command(long_about = RUN_LONG, after_long_help = RUN_EXAMPLES)]
    Run(Box<RunSettings>),
    /// Find the highest rate at which a server keeps a bound
    #[command(long_about = SEARCH_LONG, after_long_help = SEARCH_EXAMPLES)]
    Search(Box<SearchSettings>),
    /// Compare two set-ups fairly, in pairs of runs
    #[command(long_about = COMPARE_LONG, after_long_help = COMPARE_EXAMPLE)]
    Compare(Box<CompareSettings>),
    /// Load servers on behalf of a coordinator on another machine
    #[command(long_about = AGENT_LONG, after_long_help = AGENT_EXAMPLES)]
    Agent(AgentSettings),
    /// Check this instrument against answers that are known
    #[command(long_about = SELF_TEST_LONG)]
    SelfTest(SelfTestSettings),
    /// Tell a saved result again: as text, as a page for a browser, as tables
    #[command(long_about = REPORT_LONG)]
    Report(ReportSettings),
    /// Repeat the published experiments, and print them beside what was published
    #[command(long_about = reproduce::LONG, after_long_help = reproduce::EXAMPLES)]
    Reproduce(Box<reproduce::ReproduceSettings>),
}

impl BenchVerb {
    /// The files that it writes beside its summary.
    pub(crate) fn wanted(&self) -> Option<&Wanted> {
        match self {
            BenchVerb::Run(settings) => Some(&settings.output.wanted),
            BenchVerb::Search(settings) => Some(&settings.output.wanted),
            BenchVerb::Compare(settings) => Some(&settings.output.wanted),
            BenchVerb::Reproduce(settings) => Some(&settings.output.wanted),
            BenchVerb::Report(settings) => Some(&settings.wanted),
            BenchVerb::Agent(_) | BenchVerb::SelfTest(_) => None,
        }
    }
}

const SELF_TEST_LONG: &str = "Check this instrument against answers that are known.

Made-up servers freeze, queue, lose, repeat, spoil, cut and babble: in memory, where every figure is exact, and over loopback sockets, where tolerances are wide enough for a busy machine. A line for each check says what was expected and what was measured. No server is needed.

Exit codes: 0 all came out as expected, 1 something did not: don't trust what this program measures here.";

// All settings of `expresslane bench self-test`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SelfTestSettings {
    /// Fewer and shorter: ten seconds instead of forty
    #[arg(long)]
    pub(crate) quick: bool,
}

const SEARCH_LONG: &str = "Find the highest rate at which a server keeps a bound.

Each step is a run at one rate. It passes if the upper end of the percentile's 95 % interval is below the bound, 99 % of the rate \
was answered and the load itself was on time. The rate doubles until a step fails, then the span is halved down to 3 %, and the \
answer has to pass three times more. Where nothing passes it goes down instead; a load that is late at four rates in a row, each half of the one \
before, is the limit itself, and the search ends and says so.";

const SEARCH_EXAMPLES: &str = "Examples:
  expresslane bench search --keep 'p99<500us' --preload
      from 1,000 requests a second upwards, steps of 10 s
  expresslane bench search :7000 --cluster --keep 'p99.9<2ms' --from 50000 --duration 30s --cpus 2-5 --threads 4
      the tail of a cluster; ten replies above the percentile are needed at least

Exit codes: 0 found and confirmed; 1 the server can't be loaded; 2 a flag is wrong; 3 the load was the limit, the answer was not \
confirmed, or no rate keeps the bound; 130 stopped by Ctrl-C.";

const COMPARE_LONG: &str = "Compare two set-ups fairly, in pairs of runs.

A TOML file says what is declared before the first run, the load, and how each server is started. First A runs against itself, which shows what this machine's noise is; then A and B run in pairs, in random order inside each, with a fresh server and the same keys and times for both. The answer is the change of one declared metric with its exact 95 % interval, and it may be: can't tell.

Two addresses in place of the file compare two servers that run already, with the load and what is declared as flags. They can't be started anew for each run, so what one run leaves behind the next one finds: the report says so.";

const COMPARE_EXAMPLE: &str = "Examples:
  expresslane bench compare plan.toml --result compare.jsonl --html compare.html
      what the file says, with fresh servers; everything is kept, and shown as a page
  expresslane bench compare :6379 :7000 --preload --rate 20000 --metric p99 --claim 'p99 falls by >= 20 %'
      A at port 6379 against B at port 7000, ten pairs of 10 s after four of A with itself

A file:
  metric = \"p99\"                # mean p50 p90 p99 p99.9 p99.99 tail-gap wobble throughput server-cpu
  margin-percent = 5            # changes below it are not worth speaking of
  pairs = 10                    # that count
  floor-pairs = 4               # of A with itself before them
  claims = [\"p99 falls by >= 20 %\", \"throughput not worse than -2 %\"]
  may-differ = [\"governor\"]     # of the environment, beside the servers themselves
  gates = [\"steal <= 30 %\"]     # what drops a pair, where the usual bounds would drop them all
  [load]                        # flags of bench run without their dashes
  rate = 20000
  duration = \"10s\"
  preload = true
  cpus = \"1\"
  [a]
  name = \"redis\"
  address = \"127.0.0.1:6390\"
  start = [\"redis-server\", \"--port\", \"6390\", \"--save\", \"\"]
  cpus = \"0\"
  [b]
  name = \"expresslane\"
  address = \"127.0.0.1:6391\"
  start = [\"expresslane\", \"serve\", \"--port\", \"6391\", \"--lanes\", \"1\", \"--lane-ports\", \"off\"]
  cpus = \"0\"
  before = []                   # commands for sh before it starts
  after = []                    # and when it has ended

Exit codes: 0 the claims hold, or without claims a verdict was reached; 1 it can't be run (one sentence says what to do); 2 a flag or \
the file is wrong; 3 it can't be told; 4 a claim fails; 130 stopped by Ctrl-C.";

const REPORT_LONG: &str = "Tell a saved result again: as text, as a page for a browser, as tables.

Everything is computed from the file alone, so a report can be made years later and says what the screen said. A file that was \
cut, by Ctrl-C or a full disk, is told up to there, and marked so.

Exit codes: 0 told, 1 the file can't be read or what is wanted can't be written (one sentence says why), 2 a flag is wrong.";

const RUN_LONG: &str = "Load one server and show how it answers.

Without --rate each connection sends its next requests when the last are answered (a closed loop): that shows the most a \
server can do, and says little of waiting. With --rate requests are due by a schedule, whatever the server does, and each \
counts from when it was due: that is what users feel.";

const RUN_EXAMPLES: &str = "Examples:
  expresslane bench run
      GET of 10,000 keys at 127.0.0.1:6379, 50 connections, 10 s
  expresslane bench run --preload --rate 20000 --duration 30s --operations get:9,set:1
      20,000 requests a second with random gaps; a tenth of them sets
  expresslane bench run 10.0.0.5:7000 --cluster --connections 100 --threads 4 --cpus 2-5
      a Redis Cluster, each request sent to the node that owns its key
  expresslane bench run 10.0.0.5:7000 --agents 10.0.0.7,10.0.0.8 --secret-file secret --server-agent 10.0.0.5
      from two other machines; `bench agent --help` says how they are started
  expresslane bench run :11211 --protocol memcached --result run.jsonl
      memcached; everything that was seen is kept, a line of JSON a second

Workloads: --operations get:9,set:1   get set del incr mget10 ping, with weights
           --value-size 100 | 10-1000 | 64:3,1024:1   fixed, uniform, listed with weights
           --key-distribution uniform | zipf:0.99 | hot:20:95 | sequential

Exit codes: 0 done, 1 the server can't be loaded or failed (one sentence says what to do), 2 a flag is wrong, 3 done, but what was \
seen can't be trusted or errors came back (the summary says which), 130 stopped by Ctrl-C, with what there is until then.";

// How the server is spoken to.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TargetSettings {
    /// What the server speaks
    #[arg(long, value_enum, default_value_t = Protocol::Resp2)]
    pub(crate) protocol: Protocol,
    /// Follow a Redis Cluster: learn its slots and its moves, send each request to the owner of its key. Couchbase's and Aerospike's maps are always followed
    #[arg(long)]
    pub(crate) cluster: bool,
    /// The user who logs in
    #[arg(long, value_name = "NAME", requires = "password")]
    pub(crate) user: Option<String>,
    /// Its password. Other users of the machine see flags: prefer the environment
    #[arg(short = 'a', long, value_name = "PASSWORD", env = "REDISCLI_AUTH", hide_env_values = true)]
    pub(crate) password: Option<String>,
    /// The database that is used
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) database: u32,
    /// Couchbase's bucket or Aerospike's namespace; without it `default` or `test`, as their tools have it
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// Redis' protocol
    Resp2,
    /// Redis' protocol after HELLO 3
    Resp3,
    /// memcached's text protocol
    Memcached,
    /// memcached's binary protocol
    MemcachedBinary,
    /// Couchbase's, of the owner of each vbucket
    Couchbase,
    /// Aerospike's, of the owner of each partition, one request a connection
    Aerospike,
}

impl TargetSettings {
    pub(crate) fn login(&self) -> Login {
        Login {
            dialect: match self.protocol {
                Protocol::Resp2 => Dialect::Resp2,
                Protocol::Resp3 => Dialect::Resp3,
                Protocol::Memcached => Dialect::Memcached,
                Protocol::MemcachedBinary => Dialect::MemcachedBinary,
                Protocol::Couchbase => Dialect::Couchbase,
                Protocol::Aerospike => Dialect::Aerospike,
            },
            user: self.user.clone(),
            password: self.password.clone().filter(|password| !password.is_empty()),
            database: self.database,
            namespace: self.namespace.clone(),
        }
    }
}

// What is asked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WorkloadSettings {
    /// What is done, with weights
    #[arg(long, help_heading = "Workload", value_name = "MIX", default_value = "get")]
    pub(crate) operations: Mix,
    /// Keys that there are: the prefix and twelve digits, from 0
    #[arg(long, help_heading = "Workload", value_name = "COUNT", default_value_t = 10_000, value_parser = whole::<u64>(1, KEY_COUNT_MAX))]
    pub(crate) keys: u64,
    /// What stands before the digits; with --protocol aerospike nothing ('') makes keys integers, as asbench's are
    #[arg(long, help_heading = "Workload", value_name = "TEXT", default_value = "key:")]
    pub(crate) key_prefix: String,
    /// Which of them are asked for
    #[arg(long, help_heading = "Workload", value_name = "DISTRIBUTION", default_value = "uniform")]
    pub(crate) key_distribution: Distribution,
    /// Bytes of the values that are set
    #[arg(long, help_heading = "Workload", value_name = "SIZES", default_value = "100")]
    pub(crate) value_size: Sizes,
    /// Seconds after which what is set expires
    #[arg(long, help_heading = "Workload", value_name = "SECONDS", value_parser = whole::<u32>(1, u32::MAX))]
    pub(crate) ttl: Option<u32>,
    /// Look at every value that GET brings back; they must come from a load with the same sizes
    #[arg(long, help_heading = "Workload")]
    pub(crate) verify: bool,
    /// Set every key once before the load begins
    #[arg(long, help_heading = "Workload")]
    pub(crate) preload: bool,
    /// The same seed asks for the same keys at the same times
    #[arg(long, help_heading = "Workload", value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl WorkloadSettings {
    pub(crate) fn workload(&self) -> Workload {
        Workload {
            operations: self.operations.clone(),
            key_count: self.keys,
            key_prefix: self.key_prefix.clone(),
            key_distribution: self.key_distribution,
            value_size: self.value_size.clone(),
            ttl_s: self.ttl,
            verify: self.verify,
        }
    }
}

// How hard, how long, and from where.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PaceSettings {
    /// Connections over all threads
    #[arg(short, long, help_heading = "Load", value_name = "COUNT", default_value_t = 50, value_parser = whole::<u32>(1, CONNECTIONS_MAX))]
    pub(crate) connections: u32,
    /// Requests that a connection sends at once in a closed loop
    #[arg(short = 'P', long, help_heading = "Load", value_name = "COUNT", default_value_t = 1, value_parser = whole::<u32>(1, PIPELINE_MAX), conflicts_with = "rate")]
    pub(crate) pipeline: u32,
    /// Requests a second over all connections, whatever the server does; without it a closed loop
    #[arg(short, long, help_heading = "Load", value_name = "PER-SECOND", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// How requests at a rate follow one another
    #[arg(long, help_heading = "Load", value_enum, default_value_t = Arrivals::Poisson)]
    pub(crate) arrivals: Arrivals,
    /// How long requests are begun, the warm-up included
    #[arg(short, long, help_heading = "Load", value_name = "TIME", default_value = "10s", value_parser = some_time)]
    pub(crate) duration: Duration,
    /// Ends after so many requests, if that is earlier
    #[arg(short = 'n', long, help_heading = "Load", value_name = "COUNT", value_parser = whole::<u64>(1, u64::MAX))]
    pub(crate) requests: Option<u64>,
    /// Seconds at the front that don't count; without it as many as the load takes to become steady
    #[arg(long, help_heading = "Load", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) warm_up: Option<u32>,
    /// Threads that load
    #[arg(short, long, help_heading = "Load", value_name = "COUNT", default_value_t = 1, value_parser = whole::<u16>(1, THREADS_MAX))]
    pub(crate) threads: u16,
    /// Where the threads are pinned, one each; without it the kernel decides
    #[arg(long, help_heading = "Load", value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Seconds at the front in which the rate grows from nothing; they don't count
    #[arg(long, help_heading = "Load", value_name = "SECONDS", default_value_t = 0, value_parser = seconds)]
    pub(crate) ramp: u32,
    /// How a thread at a rate waits for what is due
    #[arg(long, help_heading = "Load", value_enum, default_value_t = Waiting::Auto)]
    pub(crate) wait: Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrivals {
    /// Independent of one another: exponential gaps
    Poisson,
    /// Evenly spaced
    Even,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Waiting {
    /// Awake where --cpus gives it a core, else asleep
    Auto,
    /// In the kernel: later by a wake-up, which the send lag shows
    Sleep,
    /// Awake from a millisecond before a request is due until it is answered: needs a core that nothing else needs
    Spin,
}

impl Waiting {
    /// Whether a thread stays awake, that has a core or has none.
    pub(super) fn spins(self, has_core: bool) -> bool {
        self == Waiting::Spin || self == Waiting::Auto && has_core
    }
}

// Files that are written beside the summary.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Wanted {
    /// Write a report that a browser shows, in one file that needs no network
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write each figure of the report into this folder, as a picture of its own (SVG) for other texts
    #[arg(long, help_heading = "Output", value_name = "FOLDER")]
    pub(crate) figures: Option<PathBuf>,
    /// Write the percentiles of the response as HdrHistogram's plotters read them; of several runs FILE.0, FILE.1 and so on
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Write a line of CSV for each second
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a line of CSV for each run
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    pub(crate) runs_csv: Option<PathBuf>,
}

// All settings of `expresslane bench report`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReportSettings {
    /// A file that --result has written; one that was cut is read up to there
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print the summary as JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

// What becomes of what was seen.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OutputSettings {
    /// Keep everything in this file: a line of JSON a second, written as it comes
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    pub(crate) result: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Print the summary as JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Say nothing while the load runs
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Load although the machine is busy with something else
    #[arg(long, help_heading = "Output")]
    pub(crate) noisy: bool,
}

impl OutputSettings {
    /// Whether anything of the machine is kept for later readers. A load that is only looked at captures no machine.
    pub(crate) fn is_kept(&self) -> bool {
        self.result.is_some() || self.wanted.html.is_some() || self.wanted.figures.is_some()
    }
}

// What a load is, wherever its server is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoadSettings {
    #[command(flatten)]
    pub(crate) target: TargetSettings,
    #[command(flatten)]
    pub(crate) workload: WorkloadSettings,
    #[command(flatten)]
    pub(crate) pace: PaceSettings,
}

/// The heading of what is declared before a comparison.
const COMPARISON: &str = "Comparison";
/// Pairs of a comparison at most.
pub(crate) const PAIRS_MAX: u32 = 1000;
/// What a comparison declares that says nothing of it.
pub(crate) const METRIC: Metric = Metric::P99;
/// See [`METRIC`].
pub(crate) const MARGIN_PERCENT: f64 = 5.0;
/// See [`METRIC`].
pub(crate) const PAIRS: u32 = 10;
/// See [`METRIC`].
pub(crate) const FLOOR_PAIRS: u32 = 4;

// All settings of `expresslane bench compare`.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_args(beside_addresses))]
pub(crate) struct CompareSettings {
    /// The file that describes the comparison; or, with B, where A's server listens
    #[arg(value_name = "FILE|A")]
    pub(crate) plan: PathBuf,
    /// Where B's server listens
    #[arg(value_name = "B")]
    pub(crate) b: Option<Endpoint>,
    /// What the verdict is on: mean p50 p90 p99 p99.9 p99.99 tail-gap wobble throughput server-cpu
    #[arg(long, help_heading = COMPARISON, value_name = "METRIC", default_value_t = METRIC)]
    pub(crate) metric: Metric,
    /// Changes below it are not worth speaking of
    #[arg(long, help_heading = COMPARISON, value_name = "PERCENT", default_value_t = MARGIN_PERCENT)]
    pub(crate) margin_percent: f64,
    /// Pairs of A and B that are to count
    #[arg(long, help_heading = COMPARISON, value_name = "COUNT", default_value_t = PAIRS, value_parser = whole::<u32>(1, PAIRS_MAX))]
    pub(crate) pairs: u32,
    /// Pairs of A with itself before them
    #[arg(long, help_heading = COMPARISON, value_name = "COUNT", default_value_t = FLOOR_PAIRS, value_parser = whole::<u32>(0, PAIRS_MAX))]
    pub(crate) floor_pairs: u32,
    /// What is claimed of the change from A to B, as in 'p99 falls by >= 20 %'; may be given several times
    #[arg(long, help_heading = COMPARISON, value_name = "CLAIM")]
    pub(crate) claim: Vec<Claim>,
    /// What of the environment differs on purpose, as in governor; may be given several times
    #[arg(long, help_heading = COMPARISON, value_name = "NAME")]
    pub(crate) may_differ: Vec<String>,
    /// A bound that drops a pair, in place of the usual one, as in 'steal <= 30 %'; may be given several times
    #[arg(long, help_heading = COMPARISON, value_name = "BOUND")]
    pub(crate) gate: Vec<GateBound>,
    #[command(flatten)]
    pub(crate) load: LoadSettings,
    #[command(flatten)]
    pub(crate) agents: AgentsSettings,
    #[command(flatten)]
    pub(crate) output: OutputSettings,
}

/// What is of a rate goes with `--rate` alone, where rates are not chosen.
pub(crate) fn beside_rate(arg: clap::Arg) -> clap::Arg {
    if matches!(arg.get_id().as_str(), "arrivals" | "ramp") { arg.requires("rate") } else { arg }
}

/// What is another for a load that nobody compares: it begins on a noisy machine, too.
fn unguarded(arg: clap::Arg) -> clap::Arg {
    match arg.get_id().as_str() {
        "noisy" => arg
            .help("Say nothing of a machine that is busy with something else; the load begins all the same"),
        _ => arg,
    }
}

/// A search chooses its rates.
fn of_search(arg: clap::Arg) -> clap::Arg {
    let is_refused = arg.get_id() == "rate";
    unguarded(arg).hide(is_refused)
}

/// A flag that says what a file would say goes with two addresses alone. A password does not stand in files.
fn beside_addresses(arg: clap::Arg) -> clap::Arg {
    let arg = beside_rate(arg);
    let is_of_both = matches!(arg.get_id().as_str(), "plan" | "b" | "user" | "password");
    let is_of_all = matches!(arg.get_help_heading(), Some("Output" | "Agents"));
    if is_of_both || is_of_all { arg } else { arg.requires("b") }
}

// All settings of `expresslane bench search`.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_args(of_search))]
pub(crate) struct SearchSettings {
    /// Where the server listens: HOST:PORT, :PORT, an IPv6 address in brackets, or unix:PATH
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1:6379")]
    pub(crate) address: Endpoint,
    /// What is to be kept: p50, p90, p99, p99.9 or p99.99 below a time
    #[arg(long, value_name = "BOUND", default_value = "p99<1ms")]
    pub(crate) keep: Bound,
    /// The rate at which the search begins
    #[arg(long, value_name = "PER-SECOND", default_value = "1000", value_parser = rate)]
    pub(crate) from: f64,
    /// The highest rate that is tried
    #[arg(long, value_name = "PER-SECOND", default_value = "1000000000", value_parser = rate)]
    pub(crate) most: f64,
    #[command(flatten)]
    pub(crate) load: LoadSettings,
    #[command(flatten)]
    pub(crate) agents: AgentsSettings,
    #[command(flatten)]
    pub(crate) output: OutputSettings,
}

// All settings of `expresslane bench run`.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_args(|arg| unguarded(beside_rate(arg))))]
pub(crate) struct RunSettings {
    /// Where the server listens: HOST:PORT, :PORT, an IPv6 address in brackets, or unix:PATH
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1:6379")]
    pub(crate) address: Endpoint,
    #[command(flatten)]
    pub(crate) load: LoadSettings,
    #[command(flatten)]
    pub(crate) agents: AgentsSettings,
    #[command(flatten)]
    pub(crate) output: OutputSettings,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= RATE_MAX => Ok(rate),
        _ => Err("it is a number above zero, up to a billion".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_their_unit() {
        assert_eq!((seconds("5"), seconds("5s"), seconds("1m"), seconds("0")), (Ok(5), Ok(5), Ok(60), Ok(0)));
        for wrong in ["1500ms", "86401", "2d", "-1", "s", "", "1.5"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(some_time("10"), some_time("10s"));
        assert_eq!(some_time("1500ms"), Ok(Duration::from_millis(1500)));
        assert!(some_time("0").is_err() && some_time("ten").is_err());
    }
}
