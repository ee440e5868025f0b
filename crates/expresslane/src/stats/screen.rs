//! A report as tables for people: one line a lane, in three parts, none wider than a terminal's eighty columns.
//!
//! Numbers have three digits and a unit, so that a column is as wide at any size: 1.23k commands, 45.6 MiB, 789us.

use std::fmt::Write as _;

use super::report::{Dialect, Lane, Namespace, Report};

/// What stands where the server says nothing.
const NOTHING: &str = "-";

/// A column: its title of at most two lines, and what is in it.
struct Column<Row> {
    group: &'static str,
    title: &'static str,
    width: usize,
    cell: fn(&Row) -> Option<String>,
}

const fn column<Row>(
    group: &'static str,
    title: &'static str,
    width: usize,
    cell: fn(&Row) -> Option<String>,
) -> Column<Row> {
    Column { group, title, width, cell }
}

const LANE: Column<Lane> = column("", "lane", 4, |lane| Some(lane.lane.to_string()));

/// What is asked of it, and what it holds.
const WORK: &[Column<Lane>] = &[
    LANE,
    column("", "ops/s", 6, |lane| lane.commands_per_s.map(count)),
    column("", "direct", 6, |lane| lane.direct_percent.map(percent)),
    column("", "forw", 5, |lane| lane.forwarded_percent.map(percent)),
    column("", "moved", 5, |lane| lane.moved_percent.map(percent)),
    column("", "asks/s", 6, |lane| lane.asks_per_s.map(count)),
    column("", "ring", 6, |lane| lane.ring_depth.map(bytes)),
    column("", "calls/op", 8, |lane| lane.syscalls_per_command.map(|calls| format!("{calls:.2}"))),
    column("", "clients", 7, |lane| lane.clients.map(whole)),
    column("", "keys", 6, |lane| lane.keys.map(whole)),
    column("", "memory", 6, |lane| lane.bytes.map(bytes)),
];

/// How long its turns and commands take.
const TIMES: &[Column<Lane>] = &[
    LANE,
    column("turn", "p50", 6, |lane| lane.turn_p50_us.map(time)),
    column("turn", "p99", 6, |lane| lane.turn_p99_us.map(time)),
    column("turn", "p99.9", 6, |lane| lane.turn_p999_us.map(time)),
    column("turn", "max", 6, |lane| lane.turn_max_us.map(time)),
    column("turn", "max by", 12, |lane| lane.turn_max_command.clone()),
    column("command", "p50", 6, |lane| lane.command_p50_us.map(time)),
    column("command", "p99", 6, |lane| lane.command_p99_us.map(time)),
    column("command", "p99.9", 6, |lane| lane.command_p999_us.map(time)),
    column("command", "max", 6, |lane| lane.command_max_us.map(time)),
];

/// What its cpu, its thread and its memory say.
const MACHINE: &[Column<Lane>] = &[
    LANE,
    column("cpu", "cpu", 3, |lane| lane.cpu.map(|cpu| cpu.to_string())),
    column("cpu", "node", 4, |lane| lane.node.map(|node| node.to_string())),
    column("cpu", "us", 4, |lane| lane.us.map(percent)),
    column("cpu", "sy", 4, |lane| lane.sy.map(percent)),
    column("cpu", "si", 4, |lane| lane.si.map(percent)),
    column("cpu", "id", 4, |lane| lane.id.map(percent)),
    column("cpu", "wa", 4, |lane| lane.wa.map(percent)),
    column("thread", "us", 4, |lane| lane.thread_us.map(percent)),
    column("thread", "sy", 4, |lane| lane.thread_sy.map(percent)),
    column("thread", "wait", 4, |lane| lane.thread_wait.map(percent)),
    column("thread", "taken/s", 7, |lane| lane.switches_involuntary_per_s.map(count)),
    column("pages", "local", 6, |lane| lane.pages_local.map(whole)),
    column("pages", "remote", 6, |lane| lane.pages_remote.map(whole)),
];

/// Where its connections come from, while they are placed by queue or cpu.
const PINS: &[Column<Lane>] = &[
    LANE,
    column("connections", "placed", 6, |lane| lane.pin_placed.map(whole)),
    column("connections", "by load", 7, |lane| lane.pin_fallbacks.map(whole)),
    column("connections", "unknown", 7, |lane| lane.pin_unknown.map(whole)),
    column("connections", "leaking", 7, |lane| lane.pin_leaking.map(whole)),
    column("serves", "queues", 18, |lane| lane.queues.as_deref().map(|queues| queues.join(" "))),
    column("serves", "napi", 14, |lane| lane.napi_ids.as_deref().map(numbers)),
    column("serves", "irq", 9, |lane| lane.irqs.as_deref().map(numbers)),
];

/// What it is asked in each dialect.
const DIALECTS: &[Column<Dialect>] = &[
    column("", "lane", 4, |row| Some(row.lane.to_string())),
    column("", "dialect", 10, |row| Some(row.dialect.clone())),
    column("", "ops/s", 6, |row| row.commands_per_s.map(count)),
    column("", "direct", 6, |row| row.direct_percent.map(percent)),
    column("", "forw", 5, |row| row.forwarded_percent.map(percent)),
    column("", "errors", 42, |row| {
        let errors = row.errors.iter().map(|(code, count)| format!("{code} {}", whole(*count)));
        (!row.errors.is_empty()).then(|| errors.collect::<Vec<_>>().join(", "))
    }),
];

/// What is behind Redis' databases.
const NAMESPACES: &[Column<Namespace>] = &[
    column("", "function", 9, |row| Some(row.function.clone())),
    column("", "namespace", 28, |row| Some(row.namespace.clone())),
    column("", "keys", 6, |row| row.keys.map(whole)),
    column("", "ending", 6, |row| row.expires.map(whole)),
    column("", "memory", 6, |row| row.bytes.map(bytes)),
    column("", "share", 5, |row| row.memory_share_percent.map(|share| format!("{share}%"))),
    column("", "default ttl", 11, |row| row.default_ttl_s.filter(|seconds| *seconds > 0).map(uptime)),
];

/// The whole screen, with a line's end behind its last line.
pub(super) fn screen(report: &Report) -> String {
    let mut text = head(report);
    if !report.server.is_expresslane {
        text += "not an Expresslane server: only the totals\n";
    }
    if !report.lanes.is_empty() {
        for columns in [WORK, TIMES, MACHINE] {
            text.push('\n');
            text += &part(columns, &report.lanes);
        }
        let is_pinned = |lane: &Lane| {
            let counts = [lane.pin_placed, lane.pin_fallbacks, lane.pin_leaking];
            lane.queues.is_some() || counts.iter().flatten().any(|count| *count > 0)
        };
        if report.lanes.iter().any(is_pinned) {
            text.push('\n');
            text += &part(PINS, &report.lanes);
            text += "placed: on the lane of their queue or cpu; leaking: to its port by another's\n";
        }
        // Where all speak Redis' protocol the first table has said it.
        let is_used = |row: &&Dialect| row.commands.is_some_and(|count| count > 0);
        let used: Vec<Dialect> = report.dialects.iter().filter(is_used).cloned().collect();
        if used.iter().any(|row| row.dialect != "redis") {
            text.push('\n');
            text += &part(DIALECTS, &used);
        }
        // Those that every server has are shown when there is something in them.
        let is_worth_it = |row: &Namespace| {
            let is_limited = row.memory_share_percent.is_some_and(|share| share < 100);
            is_limited || [row.keys, row.default_ttl_s].iter().flatten().any(|count| *count > 0)
        };
        if report.namespaces.iter().any(is_worth_it) {
            text.push('\n');
            text += &part(NAMESPACES, &report.namespaces);
        }
        text += "\ndirect, forw, moved: % of the commands with one key; us to wait: % of the time\n\
                 max: since the start, of turns that kept their cpu; percentiles: of the span\n";
    }
    text
}

/// Three lines: who answers, the totals, and what rates are of.
fn head(report: &Report) -> String {
    let (server, total) = (&report.server, &report.total);
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    let name = if server.is_expresslane { "expresslane" } else { "server" };
    let span = match report.span_s {
        None => "no time has passed".to_owned(),
        Some(_) if report.since_start => "rates since the start".to_owned(),
        Some(seconds) => format!("rates of the last {seconds:.1} s"),
    };
    let limit = match total.maxmemory_bytes {
        None | Some(0) => String::new(),
        Some(limit) => format!(" of {}", bytes(limit)),
    };
    let share = |share: Option<f64>| or_nothing(share.map(|share| format!("{share:.0}%")));
    format!(
        "{name} {}  process {}  up {}  {}\n{} ops/s  {}  {}  {} used{limit}  {} resident\n\
         {} us + {} sy of a cpu; {span}\n",
        or_nothing(server.version.clone()),
        or_nothing(server.process_id.map(|id| id.to_string())),
        or_nothing(server.uptime_s.map(uptime)),
        or_nothing(server.backend.clone()),
        or_nothing(total.commands_per_s.map(count)),
        or_nothing(total.clients.map(|count| counted(count, "client"))),
        counted(total.keys, "key"),
        or_nothing(total.bytes.map(bytes)),
        or_nothing(total.resident_bytes.map(bytes)),
        share(total.cpu_us),
        share(total.cpu_sy),
    )
}

/// A title's line, above it the names of groups if there are any, and a line for each row.
fn part<Row>(columns: &[Column<Row>], rows: &[Row]) -> String {
    let mut text = String::new();
    if columns.iter().any(|column| !column.group.is_empty()) {
        let mut line = String::new();
        for group in columns.chunk_by(|a, b| a.group == b.group) {
            let width: usize = group.iter().map(|column| column.width + 1).sum::<usize>() - 1;
            let name = group[0].group;
            // A rule as wide as the group shows what belongs to it.
            let rule = if name.is_empty() { String::new() } else { format!("{name} ") };
            let filler = if name.is_empty() { ' ' } else { '-' };
            let _ = write!(line, "{rule}{}", String::from(filler).repeat(width.saturating_sub(rule.len())));
            line.push(' ');
        }
        text += line.trim_end();
        text.push('\n');
    }
    let mut put = |cell: &dyn Fn(&Column<Row>) -> String| {
        let cells: Vec<String> =
            columns.iter().map(|column| format!("{:>1$}", cell(column), column.width)).collect();
        text += cells.join(" ").trim_end();
        text.push('\n');
    };
    put(&|column| column.title.to_owned());
    for row in rows {
        put(&|column| (column.cell)(row).map_or_else(|| NOTHING.to_owned(), |cell| cut(cell, column.width)));
    }
    text
}

fn numbers(list: &[Option<u64>]) -> String {
    let texts: Vec<String> = list
        .iter()
        .map(|number| number.map_or_else(|| NOTHING.to_owned(), |number| number.to_string()))
        .collect();
    texts.join(" ")
}

/// A cell that is too long ends with a dot.
fn cut(cell: String, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell;
    }
    cell.chars().take(width - 1).chain(['.']).collect()
}

/// Three digits, or more where there is no larger unit, and the unit that `number` is so much of.
fn scaled(number: f64, step: f64, units: &[&str]) -> String {
    let mut number = number;
    let mut units = units.iter();
    let mut unit = units.next().expect("there is a unit");
    // What would be rounded to a thousand belongs to the next unit.
    while number >= step.min(999.5)
        && let Some(next) = units.next()
    {
        number /= step;
        unit = next;
    }
    let digits = match number {
        number if number >= 99.95 => 0,
        number if number >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.digits$}{unit}")
}

/// A rate.
fn count(number: f64) -> String {
    if number < 999.5 { format!("{number:.0}") } else { scaled(number, 1000.0, &["", "k", "M", "G", "T"]) }
}

/// So many of what has a name.
fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", whole(number), if number == 1 { "" } else { "s" })
}

/// A number of things.
fn whole(number: u64) -> String {
    if number < 1000 { number.to_string() } else { count(number as f64) }
}

/// In units of 1024, as memory comes.
fn bytes(size: u64) -> String {
    if size < 1000 { format!("{size}B") } else { scaled(size as f64, 1024.0, &["B", "K", "M", "G", "T"]) }
}

fn time(us: f64) -> String {
    if us >= 999.5 { scaled(us / 1000.0, 1000.0, &["ms", "s"]) } else { scaled(us, 1000.0, &["us"]) }
}

fn percent(share: f64) -> String {
    if share >= 99.95 { "100".to_owned() } else { format!("{share:.1}") }
}

fn uptime(seconds: u64) -> String {
    humantime::format_duration(std::time::Duration::from_secs(match seconds {
        0..3600 => seconds,
        3600..86_400 => seconds / 60 * 60,
        _ => seconds / 3600 * 3600,
    }))
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::super::info::Info;
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (number, want) in
            [(0.0, "0"), (7.4, "7"), (999.4, "999"), (999.6, "1.00k"), (12_345.0, "12.3k"), (4e12, "4.00T")]
        {
            assert_eq!(count(number), want);
        }
        for (size, want) in
            [(0, "0B"), (999, "999B"), (1000, "0.98K"), (1 << 20, "1.00M"), (u64::MAX, "16777216T")]
        {
            assert_eq!(bytes(size), want);
        }
        for (us, want) in
            [(0.25, "0.25us"), (99.96, "100us"), (999.4, "999us"), (999.6, "1.00ms"), (2_500_000.0, "2.50s")]
        {
            assert_eq!(time(us), want);
        }
        assert_eq!(
            (percent(0.04), percent(99.94), percent(99.96)),
            ("0.0".into(), "99.9".into(), "100".into())
        );
        for (seconds, want) in [(59, "59s"), (3599, "59m 59s"), (7262, "2h 1m"), (90_061, "1day 1h")] {
            assert_eq!(uptime(seconds), want);
        }
    }

    const LANES: &str = "# Lanes\n\
        lane0:commands=1000000,direct=30,forwarded=10,moved=0,asks_served=5000,transactions=1,clients=12,keys=1234567,\
        bytes=98765432,ring_depth=512,syscalls=250000,turn_p50_us=1.5,turn_p99_us=20,turn_p999_us=150.5,\
        turn_max_us=1234,turn_max_command=cluster|getkeysinslot,command_p50_us=0.25,command_p99_us=2,\
        command_p999_us=9,command_max_us=70,cpu=2,node=0,us=10.0,sy=30.5,si=5.0,id=54.5,wa=0.0,thread_us=9.0,\
        thread_sy=28.0,thread_wait=0.1,switches_voluntary=10,switches_involuntary=3,pages_local=100,pages_remote=0\n\
        lane1:commands=0,direct=0\n";

    #[test]
    fn a_look_is_three_parts_of_a_line_each_lane() {
        let info = format!(
            "# Server\nserver_name:expresslane\nexpresslane_version:0.1.0\nmultiplexing_api:epoll\nprocess_id:7\n\
             uptime_in_seconds:100\nserver_time_usec:1\nconnected_clients:12\nused_memory:98765432\n\
             used_memory_rss:123456789\nmaxmemory:1073741824\ntotal_commands_processed:1000000\n\
             used_cpu_user:10\nused_cpu_sys:30\n{LANES}"
        );
        let screen = screen(&Report::of(&Info::parse(&info), None));
        let want = "\
expresslane 0.1.0  process 7  up 1m 40s  epoll
10.0k ops/s  12 clients  1.23M keys  94.2M used of 1.00G  118M resident
10% us + 30% sy of a cpu; rates since the start

lane  ops/s direct  forw moved asks/s   ring calls/op clients   keys memory
   0  10.0k   75.0  25.0   0.0     50   512B     0.25      12  1.23M  94.2M
   1      0      -     -     -      -      -        -       -      -      -

     turn ----------------------------------- command -------------------
lane    p50    p99  p99.9    max       max by    p50    p99  p99.9    max
   0 1.50us 20.0us  150us 1.23ms cluster|get. 0.25us 2.00us 9.00us 70.0us
   1      -      -      -      -            -      -      -      -      -

     cpu ----------------------------- thread --------------- pages -------
lane cpu node   us   sy   si   id   wa   us   sy wait taken/s  local remote
   0   2    0 10.0 30.5  5.0 54.5  0.0  9.0 28.0  0.1       0    100      0
   1   -    -    -    -    -    -    -    -    -    -       -      -      -

direct, forw, moved: % of the commands with one key; us to wait: % of the time
max: since the start, of turns that kept their cpu; percentiles: of the span
";
        assert_eq!(screen, want, "\n{screen}");
    }

    #[test]
    fn other_dialects_are_shown_where_they_are_spoken() {
        let shown = |commands: u64| {
            let info = format!(
                "# Server\nserver_name:expresslane\nuptime_in_seconds:10\n# Lanes\nlane0:commands=100\n# Dialects\n\
                 redis_lane0:commands=90,direct=90,forwarded=0,errors=none\n\
                 memcached_lane0:commands={commands},direct=3,forwarded=1,errors=CLIENT_ERROR:1;ERROR:2000\n"
            );
            screen(&Report::of(&Info::parse(&info), None))
        };
        let want = "
lane    dialect  ops/s direct  forw                                     errors
   0  memcached      1   75.0  25.0                CLIENT_ERROR 1, ERROR 2.00k
   0      redis      9    100   0.0                                          -
";
        assert!(shown(10).contains(want), "{}", shown(10));
        assert!(!shown(0).contains("dialect"));
    }

    #[test]
    fn namespaces_are_shown_when_there_is_something_in_them() {
        let shown = |first: &str| {
            let info = format!(
                "# Server\nserver_name:expresslane\nuptime_in_seconds:10\n# Lanes\nlane0:commands=100\n# Namespaces\n\
                 namespace_couchbase_default:{first}\n\
                 namespace_aerospike_a-name-of-thirty-one-characters:keys=0,expires=0,bytes=0,memory_share=100,default_ttl=0\n"
            );
            screen(&Report::of(&Info::parse(&info), None))
        };
        let want = "
 function                    namespace   keys ending memory share default ttl
couchbase                      default  1.23M  1.00k  94.2M   30%     1day 1h
aerospike a-name-of-thirty-one-charac.      0      0     0B  100%           -
";
        let text = shown("keys=1234567,expires=1000,bytes=98765432,memory_share=30,default_ttl=90061");
        assert!(text.contains(want), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for (line, is_shown) in [
            ("keys=0,expires=0,bytes=0,memory_share=100,default_ttl=0", false),
            ("keys=1,expires=0,bytes=0,memory_share=100,default_ttl=0", true),
            ("keys=0,expires=0,bytes=0,memory_share=99,default_ttl=0", true),
            ("keys=0,expires=0,bytes=0,memory_share=100,default_ttl=1", true),
        ] {
            assert_eq!(shown(line).contains("namespace"), is_shown, "{line}");
        }
    }

    #[test]
    fn where_connections_are_placed_by_queue_it_is_shown() {
        let lanes = "# Lanes\nlane0:pin_placed=1200,pin_fallbacks=3,pin_unknown=1,pin_leaking=0,queues=ens1:0;ens1:2,\
                     napi_ids=513;515,irqs=40;-\nlane1:pin_placed=0,pin_fallbacks=0,pin_unknown=0,pin_leaking=2,\
                     queues=none,napi_ids=none,irqs=none\n";
        let shown = |lanes: &str| {
            let info = format!("# Server\nserver_name:expresslane\nuptime_in_seconds:1\n{lanes}");
            screen(&Report::of(&Info::parse(&info), None))
        };
        let want = "
     connections ------------------ serves ------------------------------------
lane placed by load unknown leaking             queues           napi       irq
   0  1.20k       3       1       0      ens1:0 ens1:2        513 515      40 -
   1      0       0       0       2
placed: on the lane of their queue or cpu; leaking: to its port by another's
";
        let text = shown(lanes);
        assert!(text.contains(want), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let none = shown("# Lanes\nlane0:pin_placed=0,pin_fallbacks=0,pin_unknown=0,pin_leaking=0\n");
        assert!(!none.contains("placed"), "{none}");
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let large = LANES.replace('0', "9").replace("lane9", "lane93").replace("=1", "=9999999");
        let report = Report::of(
            &Info::parse(&format!("# Server\nserver_name:expresslane\nuptime_in_seconds:1\n{large}")),
            None,
        );
        assert!(!report.lanes.is_empty());
        for line in part(WORK, &report.lanes).lines().chain(part(MACHINE, &report.lanes).lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn another_server_is_told_from_ours() {
        let screen = screen(&Report::of(&Info::parse("# Server\nredis_version:7.0.15\n"), None));
        assert!(screen.starts_with("server 7.0.15  process -  up -"), "{screen}");
        assert!(screen.ends_with("\nnot an Expresslane server: only the totals\n"), "{screen}");
    }
}
