//! What `expresslane lanes` can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::settings::whole;

/// Where journals lie, unless a flag says otherwise.
pub(crate) const STATE_DIR: &str = "/var/lib/expresslane/lanes";
/// What a verb reads when no file is named.
const FILE: &str = "lanes.toml";

/// What `lanes` is asked to do.
#[derive(Clone, Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum LanesVerb {
    /// Show the machine: cards, queues, interrupts, cores, and what stands in the way
    #[command(long_about = FACTS_LONG)]
    Facts(FactsSettings),
    /// Show what would be done, step by step, and what undoes it
    #[command(long_about = PLAN_LONG, after_long_help = PLAN_EXAMPLES)]
    Plan(PlanSettings),
    /// Do what `plan` shows
    #[command(long_about = APPLY_LONG, after_long_help = APPLY_EXAMPLES)]
    Apply(ApplySettings),
    /// Keep what `apply --confirm` did
    #[command(after_long_help = CONFIRM_CODES)]
    Confirm(StateSettings),
    /// Put everything back as it was before the first apply
    #[command(long_about = REVERT_LONG)]
    Revert(RevertSettings),
    /// Show whether lanes are in force, and whether traffic really uses them
    #[command(long_about = STATUS_LONG)]
    Status(StatusSettings),
    /// Stay, and set again what a link event or a reset took away
    #[command(long_about = GUARD_LONG)]
    Guard(GuardSettings),
    /// Judge the machine by the ten ingredients and by what ADQ asks of a system
    #[command(long_about = CHECK_LONG)]
    Check(CheckSettings),
    /// Print a commented file to begin with
    #[command(after_long_help = EXAMPLE_CODES)]
    Example(ExampleSettings),
}

const FACTS_LONG: &str = "Show the machine: cards, queues, interrupts, cores, and what stands in the way.

Reads only. What this user may not read is listed with the reason. Queues are shown \
with their lanes: those of FILE, else those in force. With FILE and --json the facts have all that `plan FILE --facts` needs on another machine.

Exit codes: 0 shown (what is wrong with FILE is among what can't be read), 2 a flag is wrong, or FILE with --json.";

const PLAN_LONG: &str = "Show what would be done, step by step, and what undoes it.

Changes nothing and needs no rights. Each step shows what is there and what is wanted, the same as a command of ip, tc, ethtool or sysctl, \
what may happen besides, and what revert will do. Of steps that differ in numbers alone, such as \
those of many queues, the first is shown and the others are a line; --long and --json have all. A wish that this machine can't fulfil is refused with the limit that it meets.";

const PLAN_EXAMPLES: &str = "Examples:
  expresslane lanes plan
      lanes.toml of this directory, on this machine
  expresslane lanes facts redis.toml --json > facts.json; expresslane lanes plan redis.toml --facts facts.json
      the same of a machine that is elsewhere

Exit codes: 0 shown, 1 the machine can't be read, 2 the file or a flag is wrong, or the wish can't be fulfilled (each reason is a line).";

const APPLY_LONG: &str = "Do what `plan` shows.

Before each change what was there is written to a journal on disk; a step that fails undoes those before it; a crash leaves a journal from \
which `revert` restores. Applying a changed file changes only what differs, and `revert` still returns to the beginning.

In a session of ssh over a card whose link or queueing changes, it takes --confirm, or --no-confirm to go without.";

const APPLY_EXAMPLES: &str = "Examples:
  expresslane lanes apply lanes.toml
  expresslane lanes apply lanes.toml --confirm 60s
      goes back by itself after 60 s unless `expresslane lanes confirm` is run meanwhile: for a session that comes over the same card

Exit codes: 0 done, 1 not done (one sentence says why; everything is as it was), 2 the file or a flag is wrong.";

const REVERT_LONG: &str = "Put everything back as it was before the first apply.

In reverse order, and only what still has what was written: what somebody changed meanwhile is reported and left, unless --force. Only own \
filters and rules are removed. A journal of an earlier boot is void: those settings went with the kernel that had them.

Exit codes: 0 everything is back, 1 something was left (each is a line), 2 a flag is wrong.";

const STATUS_LONG: &str = "Show whether lanes are in force, and whether traffic really uses them.

Three levels: configured (each knob has what was written), effective (filters in hardware, interrupts and threads really on their cores), \
used (packets of the lane on the lane's queues or cores, counted at the card's edge for a moment).

Exit codes, as monitoring plugins have them: 0 all lanes well, 1 traffic leaks or strangers use a lane, 2 a lane is not in force, 3 it can't \
be told, or a flag is wrong.";

const GUARD_LONG: &str = "Stay, and set again what a link event or a reset took away.

Looks when the kernel tells of a link and every few seconds. What somebody undoes again and again is left after a few times, with the likely \
culprit named. Ends at SIGTERM or Ctrl-C and leaves the lanes in force.

Exit codes: 0 ended by a signal, or the lanes were reverted; 1 no lanes are in force, or the machine or the journal can't be read or \
written; 2 a flag is wrong.";

const CONFIRM_CODES: &str = "Exit codes: 0 confirmed, or nothing waits for it; 1 not confirmed (no lanes are in force, or somebody else is changing them); \
2 a flag is wrong.";

const EXAMPLE_CODES: &str = "Exit codes: 0 printed, 2 there is no such example.";

const CHECK_LONG: &str = "Judge the machine by the ten ingredients and by what ADQ asks of a system.

Each is ok, off or not available here, with what it costs and the command that mends it. With a file also what its lanes need.

Exit codes: 0 nothing is off, 1 something is, 2 the file or a flag is wrong.";

// Where journals are kept.
#[derive(Clone, Debug, Args)]
pub(crate) struct StateSettings {
    /// Directory of the journal
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, env = "EXPRESSLANE_STATE_DIR")]
    pub(crate) state_dir: PathBuf,
}

// All settings of `lanes facts`.
#[derive(Clone, Debug, Args)]
pub(crate) struct FactsSettings {
    /// A wish: its lanes are drawn, and its processes and sysctls are read, too; without one the lanes in force are drawn
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) state: StateSettings,
}

// All settings of `lanes plan`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlanSettings {
    /// The wish
    #[arg(value_name = "FILE", default_value = FILE)]
    pub(crate) file: PathBuf,
    /// Facts of another machine, from `lanes facts FILE --json` there
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// Show all steps, also those that differ from the one before in numbers alone
    #[arg(long)]
    pub(crate) long: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

// All settings of `lanes check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckSettings {
    /// The wish; without one the machine alone
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Facts of another machine, from `lanes facts FILE --json` there
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

// All settings of `lanes apply`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApplySettings {
    /// The wish
    #[arg(value_name = "FILE", default_value = FILE)]
    pub(crate) file: PathBuf,
    /// Wait so long for `lanes confirm`, and revert without it
    #[arg(long, value_name = "DURATION", value_parser = span)]
    pub(crate) confirm: Option<Duration>,
    /// Without a way back in time, though it may cut the session of ssh that this runs in
    #[arg(long, conflicts_with = "confirm")]
    pub(crate) no_confirm: bool,
    #[command(flatten)]
    pub(crate) state: StateSettings,
}

// All settings of `lanes revert`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RevertSettings {
    /// Also what somebody else changed since
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) state: StateSettings,
}

// All settings of `lanes status`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusSettings {
    /// The wish; without it the one that was applied last
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// How long traffic is looked at
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = span)]
    pub(crate) sample: Duration,
    /// Go on every so many seconds, two if none are named
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = whole::<u32>(1, 86_400))]
    pub(crate) watch: Option<u32>,
    /// Print JSON, an object a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) state: StateSettings,
}

// All settings of `lanes guard`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GuardSettings {
    /// Look at least so often
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = span)]
    pub(crate) every: Duration,
    #[command(flatten)]
    pub(crate) state: StateSettings,
}

// All settings of `lanes example`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExampleSettings {
    /// redis, aerospike, memcached or serve
    #[arg(value_name = "NAME", value_parser = ["redis", "aerospike", "memcached", "serve"])]
    pub(crate) name: String,
}

/// The longest span that a flag takes, a day.
const SPAN_MAX: Duration = Duration::from_secs(86_400);

fn span(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(span) if !span.is_zero() && span <= SPAN_MAX => Ok(span),
        _ => Err("it is a duration such as 500ms, 60s or 5m, above zero and up to a day".to_owned()),
    }
}
