//! What a look at a server means, in numbers with units: what `--json` prints as it stands, and the screen as tables.
//! docs/stats.md describes the object; names in it stay as they are, new ones may come.
//!
//! Counters become rates over the time since the look before, or since the server's start at the first look; a time's
//! percentiles are of the same span. `None` is what the server, or the machine under it, does not say.

use std::collections::BTreeMap;

use serde::Serialize;

use super::info::{Fields, Histogram, Info};

/// See the top of this file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Report {
    /// The server's clock, milliseconds since 1970.
    pub(super) time_ms: Option<u64>,
    /// Seconds that rates and percentiles are of.
    pub(super) span_s: Option<f64>,
    /// Whether the span began with the server, and not with the look before.
    pub(super) since_start: bool,
    pub(super) server: Server,
    pub(super) total: Total,
    /// Empty for a server that has none.
    pub(super) lanes: Vec<Lane>,
    /// What each lane is asked in each dialect; empty for a server that does not tell.
    pub(super) dialects: Vec<Dialect>,
    /// What is behind Redis' databases; empty for a server that does not tell.
    pub(super) namespaces: Vec<Namespace>,
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Server {
    pub(super) is_expresslane: bool,
    /// Its own version.
    pub(super) version: Option<String>,
    /// The version of Redis that it is, or is like.
    pub(super) redis_version: Option<String>,
    pub(super) process_id: Option<u64>,
    pub(super) uptime_s: Option<u64>,
    /// How bytes reach it.
    pub(super) backend: Option<String>,
}

/// Of the whole server, or of the one lane whose port was asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Total {
    pub(super) commands: Option<u64>,
    pub(super) commands_per_s: Option<f64>,
    pub(super) clients: Option<u64>,
    pub(super) keys: u64,
    /// Memory of data and clients.
    pub(super) bytes: Option<u64>,
    /// Memory of the process.
    pub(super) resident_bytes: Option<u64>,
    /// 0: no limit.
    pub(super) maxmemory_bytes: Option<u64>,
    /// Of the process, over all its threads, in percent of one cpu.
    pub(super) cpu_us: Option<f64>,
    pub(super) cpu_sy: Option<f64>,
}

/// One lane. Shares of commands are of those with one key; shares of time are in percent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Lane {
    pub(super) lane: u16,
    pub(super) commands: Option<u64>,
    pub(super) commands_per_s: Option<f64>,
    pub(super) direct_percent: Option<f64>,
    pub(super) forwarded_percent: Option<f64>,
    pub(super) moved_percent: Option<f64>,
    /// Of other lanes' clients.
    pub(super) asks_per_s: Option<f64>,
    pub(super) transactions_per_s: Option<f64>,
    pub(super) turn_p50_us: Option<f64>,
    pub(super) turn_p99_us: Option<f64>,
    pub(super) turn_p999_us: Option<f64>,
    /// Since the start, or the last CONFIG RESETSTAT.
    pub(super) turn_max_us: Option<f64>,
    pub(super) turn_max_command: Option<String>,
    /// Of the turns in which the kernel let others run on the cpu; the longest one above is of the rest.
    pub(super) turn_preempted_max_us: Option<f64>,
    pub(super) command_p50_us: Option<f64>,
    pub(super) command_p99_us: Option<f64>,
    pub(super) command_p999_us: Option<f64>,
    /// Since the start, or the last CONFIG RESETSTAT.
    pub(super) command_max_us: Option<f64>,
    /// Bytes of asks that wait for this lane.
    pub(super) ring_depth: Option<u64>,
    pub(super) clients: Option<u64>,
    /// Connections by auto-pin, since the start or the last CONFIG RESETSTAT: on the lane of their queue or cpu, placed by load
    /// after all, of those by a queue that nobody knew, and to the lane's own port by another lane's queue.
    pub(super) pin_placed: Option<u64>,
    pub(super) pin_fallbacks: Option<u64>,
    pub(super) pin_unknown: Option<u64>,
    pub(super) pin_leaking: Option<u64>,
    /// The queues that the lane serves under `--auto-pin adq`, `card:number`, and in the same order their NAPI ids and
    /// interrupts.
    pub(super) queues: Option<Vec<String>>,
    pub(super) napi_ids: Option<Vec<Option<u64>>>,
    pub(super) irqs: Option<Vec<Option<u64>>>,
    pub(super) keys: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) syscalls_per_command: Option<f64>,
    pub(super) cpu: Option<u64>,
    pub(super) node: Option<u64>,
    /// How the lane's cpu spent its time, whoever ran there.
    pub(super) us: Option<f64>,
    pub(super) sy: Option<f64>,
    pub(super) si: Option<f64>,
    pub(super) id: Option<f64>,
    pub(super) wa: Option<f64>,
    /// How the lane's thread did.
    pub(super) thread_us: Option<f64>,
    pub(super) thread_sy: Option<f64>,
    /// Ready to run while another thread had the cpu.
    pub(super) thread_wait: Option<f64>,
    pub(super) switches_voluntary_per_s: Option<f64>,
    pub(super) switches_involuntary_per_s: Option<f64>,
    pub(super) pages_local: Option<u64>,
    pub(super) pages_remote: Option<u64>,
}

/// What a lane is asked in a dialect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Dialect {
    pub(super) dialect: String,
    pub(super) lane: u16,
    pub(super) commands: Option<u64>,
    pub(super) commands_per_s: Option<f64>,
    pub(super) direct_percent: Option<f64>,
    pub(super) forwarded_percent: Option<f64>,
    /// By their first word or their code, since the start or the last CONFIG RESETSTAT.
    pub(super) errors: BTreeMap<String, u64>,
}

/// A namespace, over all lanes that the port shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Namespace {
    pub(super) namespace: String,
    /// The partition function of its keys, by the dialect whose it is.
    pub(super) function: String,
    pub(super) keys: Option<u64>,
    /// Keys that end.
    pub(super) expires: Option<u64>,
    /// Memory of its keys, which counts against its share.
    pub(super) bytes: Option<u64>,
    /// Of maxmemory.
    pub(super) memory_share_percent: Option<u64>,
    /// How long lives what is stored without an end; 0: for ever.
    pub(super) default_ttl_s: Option<u64>,
}

impl Report {
    /// Of what a server says now and said before. Counters that have gone back (another process answers, or they were
    /// reset) make this the first look.
    pub(super) fn of(now: &Info, before: Option<&Info>) -> Report {
        let commands = |info: &Info| info.count("total_commands_processed");
        let goes_on =
            |then: &&Info| then.text("run_id") == now.text("run_id") && commands(then) <= commands(now);
        let before = before.filter(goes_on);
        let uptime_s = now.count("uptime_in_seconds");
        let time_us = now.count("server_time_usec");
        let span_s = match before {
            Some(then) => time_us
                .zip(then.count("server_time_usec"))
                .map(|(now, then)| now.saturating_sub(then) as f64 / 1e6),
            None => uptime_s.map(|seconds| seconds as f64),
        };
        // No time has passed: there are no rates.
        let span_s = span_s.filter(|seconds| *seconds > 0.0);
        let rate = |count: Option<u64>, then: Option<u64>| {
            Some(count?.saturating_sub(then.unwrap_or(0)) as f64 / span_s?)
        };
        let share = |name: &str| {
            let seconds = |info: &Info| info.text(name)?.parse::<f64>().ok();
            Some((seconds(now)? - before.and_then(seconds).unwrap_or(0.0)).max(0.0) * 100.0 / span_s?)
        };
        let is_expresslane = now.text("server_name") == Some("expresslane");
        let text = |name: &str| now.text(name).map(str::to_owned);
        let version = if is_expresslane { text("expresslane_version") } else { text("valkey_version") };
        let lane = |(lane, fields): (&u16, &Fields)| {
            let then = before.and_then(|then| then.lanes.get(lane));
            let times = |subject: &str| of_span(now, before, subject, *lane);
            Lane::of(*lane, fields, then, &rate, [times("turn"), times("command")])
        };
        let dialect = |(name, fields): (&(String, u16), &Fields)| {
            Dialect::of(name, fields, before.and_then(|then| then.dialects.get(name)), &rate)
        };
        Report {
            time_ms: time_us.map(|us| us / 1000),
            span_s,
            since_start: before.is_none(),
            server: Server {
                is_expresslane,
                version: version.or_else(|| text("redis_version")),
                redis_version: text("redis_version"),
                process_id: now.count("process_id"),
                uptime_s,
                backend: text("multiplexing_api"),
            },
            total: Total {
                commands: commands(now),
                commands_per_s: rate(commands(now), before.and_then(commands)),
                clients: now.count("connected_clients"),
                keys: keys(now),
                bytes: now.count("used_memory"),
                resident_bytes: now.count("used_memory_rss"),
                maxmemory_bytes: now.count("maxmemory"),
                cpu_us: share("used_cpu_user"),
                cpu_sy: share("used_cpu_sys"),
            },
            lanes: now.lanes.iter().map(lane).collect(),
            dialects: now.dialects.iter().map(dialect).collect(),
            namespaces: now.namespaces.iter().map(Namespace::of).collect(),
        }
    }
}

impl Lane {
    fn of(
        lane: u16,
        now: &Fields,
        then: Option<&Fields>,
        rate: &dyn Fn(Option<u64>, Option<u64>) -> Option<f64>,
        [turns, commands]: [Option<Histogram>; 2],
    ) -> Lane {
        let count = |name: &str| now.count(name);
        let number = |name: &str| now.number(name);
        let numbers = |name: &str| Some(now.list(name)?.map(|number| number.parse().ok()).collect());
        let before = |name: &str| then.and_then(|then| then.count(name));
        let since = |name: &str| Some(count(name)?.saturating_sub(before(name).unwrap_or(0)));
        let rate = |name: &str| rate(count(name), before(name));
        let ways = ["direct", "forwarded", "moved"].map(|way| since(way).unwrap_or(0));
        let percent = |way: u64| ratio(way * 100, ways.iter().sum());
        let time = |times: &Option<Histogram>, share: f64, name: &str| match times {
            Some(times) => percentile_us(times, share),
            None => number(name),
        };
        Lane {
            lane,
            commands: count("commands"),
            commands_per_s: rate("commands"),
            direct_percent: percent(ways[0]),
            forwarded_percent: percent(ways[1]),
            moved_percent: percent(ways[2]),
            asks_per_s: rate("asks_served"),
            transactions_per_s: rate("transactions"),
            turn_p50_us: time(&turns, 50.0, "turn_p50_us"),
            turn_p99_us: time(&turns, 99.0, "turn_p99_us"),
            turn_p999_us: time(&turns, 99.9, "turn_p999_us"),
            turn_max_us: number("turn_max_us"),
            turn_max_command: now.text("turn_max_command").filter(|name| *name != "none").map(str::to_owned),
            turn_preempted_max_us: number("turn_preempted_max_us"),
            command_p50_us: time(&commands, 50.0, "command_p50_us"),
            command_p99_us: time(&commands, 99.0, "command_p99_us"),
            command_p999_us: time(&commands, 99.9, "command_p999_us"),
            command_max_us: number("command_max_us"),
            ring_depth: count("ring_depth"),
            clients: count("clients"),
            pin_placed: count("pin_placed"),
            pin_fallbacks: count("pin_fallbacks"),
            pin_unknown: count("pin_unknown"),
            pin_leaking: count("pin_leaking"),
            queues: now.list("queues").map(|queues| queues.map(str::to_owned).collect()),
            napi_ids: numbers("napi_ids"),
            irqs: numbers("irqs"),
            keys: count("keys"),
            bytes: count("bytes"),
            syscalls_per_command: since("syscalls")
                .zip(since("commands"))
                .and_then(|(calls, commands)| ratio(calls, commands)),
            cpu: count("cpu"),
            node: count("node"),
            us: number("us"),
            sy: number("sy"),
            si: number("si"),
            id: number("id"),
            wa: number("wa"),
            thread_us: number("thread_us"),
            thread_sy: number("thread_sy"),
            thread_wait: number("thread_wait"),
            switches_voluntary_per_s: rate("switches_voluntary"),
            switches_involuntary_per_s: rate("switches_involuntary"),
            pages_local: count("pages_local"),
            pages_remote: count("pages_remote"),
        }
    }
}

impl Dialect {
    fn of(
        (dialect, lane): &(String, u16),
        now: &Fields,
        then: Option<&Fields>,
        rate: &dyn Fn(Option<u64>, Option<u64>) -> Option<f64>,
    ) -> Dialect {
        let before = |name: &str| then.and_then(|then| then.count(name));
        let since = |name: &str| now.count(name).unwrap_or(0).saturating_sub(before(name).unwrap_or(0));
        let (direct, forwarded) = (since("direct"), since("forwarded"));
        let error = |pair: &str| {
            let (code, count) = pair.rsplit_once(':')?;
            Some((code.to_owned(), count.parse().ok()?))
        };
        Dialect {
            dialect: dialect.clone(),
            lane: *lane,
            commands: now.count("commands"),
            commands_per_s: rate(now.count("commands"), before("commands")),
            direct_percent: ratio(direct * 100, direct + forwarded),
            forwarded_percent: ratio(forwarded * 100, direct + forwarded),
            errors: now.list("errors").into_iter().flatten().filter_map(error).collect(),
        }
    }
}

impl Namespace {
    fn of((function, name, now): &(String, String, Fields)) -> Namespace {
        Namespace {
            namespace: name.clone(),
            function: function.clone(),
            keys: now.count("keys"),
            expires: now.count("expires"),
            bytes: now.count("bytes"),
            memory_share_percent: now.count("memory_share"),
            default_ttl_s: now.count("default_ttl"),
        }
    }
}

/// Of all dialects, as lanes count them; of a server without lanes those of its databases.
fn keys(now: &Info) -> u64 {
    let sum = |of: &mut dyn Iterator<Item = &Fields>| of.filter_map(|fields| fields.count("keys")).sum();
    if now.lanes.is_empty() { sum(&mut now.databases.iter()) } else { sum(&mut now.lanes.values()) }
}

/// `a / b`; nothing without `b`.
fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

/// What was counted since the look before.
fn of_span(now: &Info, before: Option<&Info>, subject: &str, lane: u16) -> Option<Histogram> {
    let then = before.and_then(|before| before.histogram(subject, lane));
    let count_then = |ns: &u64| then.and_then(|then| then.get(ns)).copied().unwrap_or(0);
    let since = |(ns, count): (&u64, &u64)| (*ns, count.saturating_sub(count_then(ns)));
    Some(now.histogram(subject, lane)?.iter().map(since).collect())
}

/// The time within which `share` percent of those counted ended, in microseconds; nothing of nothing.
fn percentile_us(times: &Histogram, share: f64) -> Option<f64> {
    let total: u64 = times.values().sum();
    let mut left = total as f64 * share / 100.0;
    times.iter().find_map(|(ns, count)| {
        left -= *count as f64;
        (*count > 0 && left <= 0.0).then_some(*ns as f64 / 1000.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(time_s: u64, rest: &str) -> Info {
        Info::parse(&format!(
            "# Server\nserver_name:expresslane\nrun_id:r\nuptime_in_seconds:{time_s}\nserver_time_usec:{}\n{rest}",
            time_s * 1_000_000
        ))
    }

    #[test]
    fn rates_are_of_the_time_since_the_last_look() {
        let first = info(
            10,
            "total_commands_processed:100\nused_cpu_user:1.5\n# Lanes\nlane0:commands=100,direct=90,forwarded=10,moved=0,syscalls=50\n",
        );
        let second = info(
            12,
            "total_commands_processed:400\nused_cpu_user:2.0\n# Lanes\nlane0:commands=400,direct=90,forwarded=160,moved=150,syscalls=650\n",
        );
        let report = Report::of(&first, None);
        assert_eq!((report.since_start, report.span_s), (true, Some(10.0)));
        assert_eq!((report.total.commands_per_s, report.total.cpu_us), (Some(10.0), Some(15.0)));
        let lane = &report.lanes[0];
        assert_eq!((lane.direct_percent, lane.forwarded_percent), (Some(90.0), Some(10.0)));
        assert_eq!(lane.syscalls_per_command, Some(0.5));
        let report = Report::of(&second, Some(&first));
        assert_eq!((report.since_start, report.span_s), (false, Some(2.0)));
        assert_eq!((report.total.commands_per_s, report.total.cpu_us), (Some(150.0), Some(25.0)));
        let lane = &report.lanes[0];
        assert_eq!((lane.commands, lane.commands_per_s), (Some(400), Some(150.0)));
        assert_eq!((lane.direct_percent, lane.moved_percent), (Some(0.0), Some(50.0)));
        assert_eq!(lane.syscalls_per_command, Some(2.0));
    }

    #[test]
    fn dialects_are_told_by_lane() {
        let first = info(10, "# Dialects\nmemcached_lane1:commands=10,direct=5,forwarded=5,errors=none\n");
        let second = info(
            12,
            "# Dialects\nmemcached_lane1:commands=30,direct=20,forwarded=10,errors=ERROR:2;CLIENT_ERROR:1\n",
        );
        let of_first = &Report::of(&first, None).dialects[0];
        assert_eq!((of_first.commands_per_s, of_first.errors.len()), (Some(1.0), 0));
        let dialect = &Report::of(&second, Some(&first)).dialects[0];
        assert_eq!((dialect.dialect.as_str(), dialect.lane), ("memcached", 1));
        assert_eq!((dialect.commands, dialect.commands_per_s), (Some(30), Some(10.0)));
        assert_eq!((dialect.direct_percent, dialect.forwarded_percent), (Some(75.0), Some(25.0)));
        assert_eq!(dialect.errors, [("CLIENT_ERROR".to_owned(), 1), ("ERROR".to_owned(), 2)].into());
    }

    #[test]
    fn namespaces_are_told_in_their_order() {
        let line = "keys=3,expires=1,bytes=500,memory_share=30,default_ttl=60";
        let text = format!("# Namespaces\nnamespace_couchbase_z:{line}\nnamespace_aerospike_test:keys=4\n");
        let report = Report::of(&info(1, &text), None);
        let small = Namespace {
            namespace: "z".to_owned(),
            function: "couchbase".to_owned(),
            keys: Some(3),
            expires: Some(1),
            bytes: Some(500),
            memory_share_percent: Some(30),
            default_ttl_s: Some(60),
        };
        assert_eq!(report.namespaces[0], small);
        let other = &report.namespaces[1];
        assert_eq!((&other.namespace[..], other.keys, other.default_ttl_s), ("test", Some(4), None));
    }

    #[test]
    fn counters_that_go_back_begin_anew() {
        let before = info(10, "total_commands_processed:100\n");
        assert!(Report::of(&info(11, "total_commands_processed:5\n"), Some(&before)).since_start);
        let other = Info::parse("# Server\nrun_id:other\ntotal_commands_processed:500\n");
        assert!(Report::of(&other, Some(&before)).since_start);
        // Nothing passed between two looks: no rate, and no division by zero.
        let again = Report::of(&before, Some(&before));
        assert_eq!((again.since_start, again.total.commands_per_s), (false, None));
    }

    #[test]
    fn percentiles_are_of_the_span_where_there_are_histograms() {
        let lanes = "# Lanes\nlane0:turn_p50_us=7.5,turn_max_us=9.25,turn_max_command=set,node=unknown\n";
        let told = Report::of(&info(1, lanes), None);
        assert_eq!((told.lanes[0].turn_p50_us, told.lanes[0].command_p99_us), (Some(7.5), None));
        assert_eq!((told.lanes[0].turn_max_us, told.lanes[0].node), (Some(9.25), None));
        let first = info(1, &format!("{lanes}# Histograms\nturn_ns_lane0:1000=100,2000=0\n"));
        let second = info(2, &format!("{lanes}# Histograms\nturn_ns_lane0:1000=150,2000=49,8000=1\n"));
        let lane = &Report::of(&second, Some(&first)).lanes[0];
        assert_eq!(
            (lane.turn_p50_us, lane.turn_p99_us, lane.turn_p999_us),
            (Some(1.0), Some(2.0), Some(8.0))
        );
        let idle = &Report::of(&second, Some(&second)).lanes[0];
        assert_eq!(idle.turn_p50_us, None, "nothing happened");
    }

    #[test]
    fn a_lanes_queues_are_told_where_connections_are_placed_by_them() {
        let line = "pin_placed=7,pin_leaking=2,queues=ens1:4;ens1:5,napi_ids=513;514,irqs=40;-";
        let lanes =
            format!("# Lanes\nlane0:{line}\nlane1:queues=none,napi_ids=none,irqs=none\nlane2:keys=1\n");
        let report = Report::of(&info(1, &lanes), None);
        let lane = &report.lanes[0];
        assert_eq!((lane.pin_placed, lane.pin_fallbacks, lane.pin_leaking), (Some(7), None, Some(2)));
        assert_eq!(lane.queues.as_deref(), Some(&["ens1:4".to_owned(), "ens1:5".to_owned()][..]));
        assert_eq!(
            (&lane.napi_ids, &lane.irqs),
            (&Some(vec![Some(513), Some(514)]), &Some(vec![Some(40), None]))
        );
        assert_eq!(report.lanes[1].queues.as_deref(), Some(&[][..]));
        assert_eq!(report.lanes[2].queues, None);
    }

    #[test]
    fn another_server_has_totals() {
        let redis = "# Server\nredis_version:7.0.15\nuptime_in_seconds:4\n# Clients\nconnected_clients:3\n\
                     # Keyspace\ndb0:keys=5,expires=0\ndb3:keys=2,expires=0\n";
        let report = Report::of(&Info::parse(redis), None);
        assert!(!report.server.is_expresslane && report.lanes.is_empty());
        assert_eq!(report.server.version.as_deref(), Some("7.0.15"));
        assert_eq!((report.total.keys, report.total.clients), (7, Some(3)));
    }
}
