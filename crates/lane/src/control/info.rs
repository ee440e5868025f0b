//! INFO: the server in lines `name:value`, in Redis' sections and with Redis' names, and a section of its own for lanes.
//!
//! What does not exist here (replicas, files, scripts) is there with the value that an idle Redis shows, because
//! dashboards look for it.

use std::collections::BTreeMap;
use std::fmt::Write;

use wire::command::COMMANDS;
use wire::reply::{self, Proto};

use super::Identity;
use super::config::Config;
use super::files::FilesShown;
use super::functions::KnownFunctions;
use super::replication::Replicas;
use super::signature::Signature;
use super::times::OwnTimes;
use super::{lanes, namespaces};
use crate::admin::{Census, Portrait};
use crate::client::Port;
use crate::histogram::Histogram;
use crate::{Now, Settings};

/// What the sections are made of: the lanes that the client sees, counted a moment ago.
pub(super) struct View<'a> {
    pub(super) identity: &'a Identity,
    pub(super) config: &'a Config,
    pub(super) settings: &'a Settings,
    pub(super) times: &'a OwnTimes,
    pub(super) from: &'a Portrait,
    pub(super) lanes: Vec<(u16, &'a Census)>,
    /// Of the same lanes, where they are shown.
    pub(super) signatures: Vec<Signature>,
    pub(super) now: Now,
    pub(super) began: Now,
    pub(super) ops_per_second: u64,
    /// Received and sent.
    pub(super) bytes_per_second: (u64, u64),
    pub(super) resident_size: u64,
    pub(super) memory_size: u64,
    /// In the kernel and outside it.
    pub(super) processor_us: (u64, u64),
    /// Lines of MONITOR that the control thread had no room for.
    pub(super) lines_dropped: u64,
    /// How many scripts it knows, and their bytes.
    pub(super) scripts: (usize, usize),
    pub(super) functions: &'a KnownFunctions,
    pub(super) replicas: Replicas,
    pub(super) files: FilesShown,
    /// Connections that MIGRATE has made.
    pub(super) link_count: usize,
}

/// Something a second: the mean since INFO was last asked for, if that is not too short ago.
#[derive(Default)]
pub(super) struct Rate {
    since_ns: u64,
    count_then: u64,
    rate: u64,
}

impl Rate {
    /// A shorter time gives no sensible mean: the last one is shown again.
    const SPAN_NS_MIN: u64 = 100_000_000;

    pub(super) fn note(&mut self, now_ns: u64, count: u64) -> u64 {
        let span_ns = now_ns.saturating_sub(self.since_ns);
        if Self::SPAN_NS_MIN <= span_ns {
            let added = u128::from(count.saturating_sub(self.count_then));
            let rate = added * 1_000_000_000 / u128::from(span_ns);
            *self =
                Rate { since_ns: now_ns, count_then: count, rate: u64::try_from(rate).unwrap_or(u64::MAX) };
        }
        self.rate
    }
}

/// What INFO shows of the present.
#[derive(Default)]
pub(super) struct Rates {
    pub(super) calls: Rate,
    pub(super) bytes_in: Rate,
    pub(super) bytes_out: Rate,
}

type Section = (&'static str, fn(&View<'_>, &mut String));

/// Shown when none is named.
const DEFAULT: &[Section] = &[
    ("server", |view, text| view.server(text)),
    ("clients", |view, text| view.clients(text)),
    ("memory", |view, text| view.memory(text)),
    ("persistence", |view, text| view.persistence(text)),
    ("stats", |view, text| view.stats(text)),
    ("replication", |view, text| view.replication(text)),
    ("cpu", |view, text| view.processor(text)),
    ("modules", |_, _| {}),
    ("errorstats", |view, text| view.errors(text)),
    ("cluster", |view, text| view.cluster(text)),
    ("keyspace", |view, text| view.keyspace(text)),
];
/// Shown when named, or with `all` and `everything`.
const MORE: &[Section] = &[
    ("commandstats", |view, text| view.commands(text)),
    ("latencystats", |view, text| view.latencies(text)),
    ("lanes", |view, text| lanes::each_lane(view, text)),
    ("dialects", |view, text| lanes::each_dialect(view, text)),
    ("namespaces", |view, text| namespaces::each(view, text)),
];
/// Shown when named alone: long.
const NAMED: &[Section] = &[("histograms", |view, text| lanes::histograms(view, text))];

/// Whether the sections named include the one on lanes.
pub(super) fn shows_lanes(names: &[&[u8]]) -> bool {
    ["lanes", "all", "everything"]
        .iter()
        .any(|name| names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes())))
}

/// Puts lines `name:value`.
macro_rules! lines {
    ($text:expr; $($name:literal $value:expr),+ $(,)?) => {
        $(write!($text, concat!($name, ":{}\r\n"), $value).expect("a string takes all");)+
    };
}

impl View<'_> {
    /// The sections asked for, in their order in the table.
    pub(super) fn text(&self, names: &[&[u8]]) -> String {
        let is_named = |name: &str| names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()));
        let all = is_named("all") || is_named("everything");
        let default = names.is_empty() || is_named("default") || all;
        let mut text = String::new();
        let chosen = DEFAULT
            .iter()
            .filter(|(name, _)| default || is_named(name))
            .chain(MORE.iter().filter(|(name, _)| all || is_named(name)))
            .chain(NAMED.iter().filter(|(name, _)| is_named(name)));
        for (name, put) in chosen {
            if !text.is_empty() {
                text += "\r\n";
            }
            let title = match *name {
                "cpu" => "CPU".to_owned(),
                name => name[..1].to_ascii_uppercase() + &name[1..],
            };
            text += &format!("# {title}\r\n");
            put(self, &mut text);
        }
        text
    }

    pub(super) fn sum(&self, of: impl Fn(&Census) -> u64) -> u64 {
        self.lanes.iter().map(|(_, census)| of(census)).sum()
    }

    /// The times of a command over the lanes.
    pub(super) fn times(&self, command: usize) -> Histogram {
        self.times.over(&self.lanes, command)
    }

    /// Counts of the lanes' meter as microseconds; as they are where the meter does not count time.
    fn us(&self, ticks: u64) -> u64 {
        ticks / self.settings.meter_per_us.max(1)
    }

    /// The same with three decimals.
    pub(super) fn time(&self, ticks: u64) -> String {
        let per_us = u128::from(self.settings.meter_per_us.max(1));
        let thousandths = u128::from(ticks) * 1000 / per_us;
        format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
    }

    fn largest(&self, of: impl Fn(&Census) -> usize) -> usize {
        self.lanes.iter().map(|(_, census)| of(census)).max().unwrap_or(0)
    }

    /// The lanes' peaks added up: at least the peak of all together, and never less than what is used now.
    fn peak_size(&self) -> u64 {
        self.sum(|census| census.stats.memory_max).max(self.used_size())
    }

    fn used_size(&self) -> u64 {
        self.sum(|census| census.memory.total() + census.stats.clients_size + census.scripts_size)
    }

    fn server(&self, text: &mut String) {
        let identity = self.identity;
        let is_node = self.from.port == Port::Lane;
        let port = match self.from.local {
            net::Address::Inet(address) => address.port(),
            net::Address::Unix | net::Address::Mem(_) => identity.port,
        };
        let uptime_s = self.now.mono_ns.saturating_sub(self.began.mono_ns) / 1_000_000_000;
        lines!(text;
            "redis_version" self.settings.redis_version,
            "redis_git_sha1" "00000000",
            "redis_git_dirty" 0,
            "redis_build_id" "0",
            "redis_mode" if is_node { "cluster" } else { "standalone" },
            "server_name" "expresslane",
            "expresslane_version" env!("CARGO_PKG_VERSION"),
            "os" identity.os,
            "arch_bits" 64,
            "monotonic_clock" "POSIX clock_gettime",
            "multiplexing_api" identity.backend,
            "process_id" identity.process_id,
            "process_supervised" "no",
            "run_id" self.settings.run_id,
            "tcp_port" port,
            "server_time_usec" self.now.unix_ms * 1000 + i64::from(self.now.us),
            "uptime_in_seconds" uptime_s,
            "uptime_in_days" uptime_s / 86_400,
            "hz" self.config.value("hz"),
            "configured_hz" self.config.value("hz"),
            "lru_clock" (self.now.unix_ms / 1000) & 0x00ff_ffff,
            "executable" identity.executable,
            "config_file" identity.config_file,
            "io_threads_active" 0,
            "lanes" self.lanes.len(),
        );
    }

    fn clients(&self, text: &mut String) {
        lines!(text;
            "connected_clients" self.sum(|census| census.stats.clients).saturating_sub(self.replica_count()),
            "cluster_connections" 0,
            "maxclients" self.config.value("maxclients"),
            "client_recent_max_input_buffer" self.largest(|census| census.buffers.input),
            "client_recent_max_output_buffer" self.largest(|census| census.buffers.output),
            "blocked_clients" self.sum(|census| census.blocked_count),
            "tracking_clients" self.sum(|census| census.stats.tracking_clients),
            "clients_in_timeout_table" 0,
        );
    }

    fn memory(&self, text: &mut String) {
        let (used, peak) = (self.used_size(), self.peak_size());
        let (resident, active) = (self.resident_size, self.sum(|census| census.memory.resident));
        let dataset = self.sum(|census| census.memory.entries + census.memory.ropes);
        let maxmemory = self.config.value("maxmemory");
        let vm_size = self.sum(|census| census.scripts_size);
        let (scripts_count, scripts_size) = (self.scripts.0 as u64, self.scripts.1 as u64);
        let (libraries_count, functions_count) = self.functions.counts();
        let functions_size = self.functions.size() as u64;
        lines!(text;
            "used_memory" used,
            "used_memory_human" human(used),
            "used_memory_rss" resident,
            "used_memory_rss_human" human(resident),
            "used_memory_peak" peak,
            "used_memory_peak_human" human(peak),
            "used_memory_peak_perc" percent(used, peak),
            "used_memory_overhead" self.sum(|census| census.memory.heads + census.stats.clients_size),
            "used_memory_startup" 0,
            "used_memory_dataset" dataset,
            "used_memory_dataset_perc" percent(dataset, used),
            "allocator_allocated" used,
            "allocator_active" active,
            "allocator_resident" active,
            "total_system_memory" self.memory_size,
            "total_system_memory_human" human(self.memory_size),
            "used_memory_lua" vm_size,
            "used_memory_vm_eval" vm_size,
            "used_memory_lua_human" human(vm_size),
            "used_memory_scripts_eval" scripts_size,
            "number_of_cached_scripts" scripts_count,
            "number_of_functions" functions_count as u64,
            "number_of_libraries" libraries_count as u64,
            "used_memory_vm_functions" 0,
            "used_memory_vm_total" vm_size,
            "used_memory_vm_total_human" human(vm_size),
            "used_memory_functions" functions_size,
            "used_memory_scripts" scripts_size + functions_size,
            "used_memory_scripts_human" human(scripts_size + functions_size),
            "maxmemory" maxmemory,
            "maxmemory_human" human(maxmemory.parse().unwrap_or(0)),
            "maxmemory_policy" self.config.value("maxmemory-policy"),
            "allocator_frag_ratio" ratio(active, used),
            "allocator_frag_bytes" active.saturating_sub(used),
            "allocator_rss_ratio" ratio(active, active),
            "allocator_rss_bytes" 0,
            "rss_overhead_ratio" ratio(resident, active),
            "rss_overhead_bytes" resident.saturating_sub(active),
            "mem_fragmentation_ratio" ratio(resident, used),
            "mem_fragmentation_bytes" resident.saturating_sub(used),
            "mem_not_counted_for_evict" 0,
            "mem_replication_backlog" self.replicas.backlog_size,
            "mem_total_replication_buffers" self.replicas.backlog_size + self.replicas.ahead_size,
            "mem_clients_slaves" self.replicas.ahead_size,
            "mem_clients_normal" self.sum(|census| census.stats.clients_size),
            "mem_cluster_links" 0,
            "mem_aof_buffer" 0,
            "mem_allocator" "lane regions",
            "active_defrag_running" 0,
            "lazyfree_pending_objects" self.sum(|census| census.memory.retired),
            "lazyfreed_objects" 0,
        );
    }

    fn persistence(&self, text: &mut String) {
        let files = &self.files;
        // Redis says -1 where there is nothing.
        let seconds = |seconds: Option<u64>| seconds.map_or(-1, |s| i64::try_from(s).unwrap_or(i64::MAX));
        lines!(text;
            "loading" u8::from(files.is_loading),
            "async_loading" 0,
            "current_cow_peak" 0,
            "current_cow_size" 0,
            "current_cow_size_age" 0,
            "current_fork_perc" "0.00",
            "current_save_keys_processed" 0,
            "current_save_keys_total" 0,
            "rdb_changes_since_last_save" self.sum(|census| census.stats.changes).saturating_sub(files.changes_saved),
            "rdb_bgsave_in_progress" u8::from(files.saves_since_s.is_some()),
            "rdb_last_save_time" files.saved_s,
            "rdb_last_bgsave_status" files.save.status(),
            "rdb_last_bgsave_time_sec" seconds(files.save.last_s),
            "rdb_current_bgsave_time_sec" seconds(files.saves_since_s),
            "rdb_saves" files.save.count,
            "rdb_last_cow_size" 0,
            "rdb_last_load_keys_expired" files.loaded.expired,
            "rdb_last_load_keys_loaded" files.loaded.keys,
            "aof_enabled" u8::from(files.has_log),
            "aof_rewrite_in_progress" u8::from(files.rewrites_since_s.is_some()),
            "aof_rewrite_scheduled" 0,
            "aof_last_rewrite_time_sec" seconds(files.rewrite.last_s),
            "aof_current_rewrite_time_sec" seconds(files.rewrites_since_s),
            "aof_last_bgrewrite_status" files.rewrite.status(),
            "aof_rewrites" files.rewrite.count,
            "aof_rewrites_consecutive_failures" files.rewrite.failures,
            "aof_last_write_status" if files.has_trouble { "err" } else { "ok" },
            "aof_last_cow_size" 0,
            "module_fork_in_progress" 0,
            "module_fork_last_cow_size" 0,
        );
        if files.has_log {
            lines!(text;
                "aof_current_size" files.log_size,
                "aof_base_size" files.base_size,
                "aof_pending_rewrite" 0,
                "aof_buffer_length" 0,
                "aof_pending_bio_fsync" 0,
                "aof_delayed_fsync" 0,
            );
        }
        if files.loading_since_s > 0 {
            lines!(text; "loading_start_time" files.loading_since_s,);
        }
    }

    fn stats(&self, text: &mut String) {
        lines!(text;
            "total_connections_received" self.sum(|census| census.stats.connections),
            "total_commands_processed" self.call_count(),
            "instantaneous_ops_per_sec" self.ops_per_second,
            "total_net_input_bytes" self.sum(|census| census.traffic.bytes_in),
            "total_net_output_bytes" self.sum(|census| census.traffic.bytes_out),
            "total_net_repl_input_bytes" 0,
            "total_net_repl_output_bytes" self.replicas.sent_size,
            "instantaneous_input_kbps" ratio(self.bytes_per_second.0, 1024),
            "instantaneous_output_kbps" ratio(self.bytes_per_second.1, 1024),
            "instantaneous_input_repl_kbps" "0.00",
            "instantaneous_output_repl_kbps" "0.00",
            "rejected_connections" self.sum(|census| census.stats.clients_rejected),
            "sync_full" self.replicas.counts.full,
            "sync_partial_ok" self.replicas.counts.partial,
            "sync_partial_err" self.replicas.counts.partial_refused,
            "expired_keys" self.sum(|census| census.memory.expired),
            "expired_stale_perc" "0.00",
            "expired_time_cap_reached_count" 0,
            "expire_cycle_cpu_milliseconds" 0,
            "evicted_keys" self.sum(|census| census.memory.evicted),
            "evicted_clients" self.sum(|census| census.stats.clients_evicted),
            "client_output_buffer_limit_disconnections"
                self.sum(|census| census.stats.clients_cut) + self.replicas.counts.slow,
            "total_eviction_exceeded_time" 0,
            "current_eviction_exceeded_time" 0,
            "keyspace_hits" self.sum(|census| census.tally.looks.hits),
            "keyspace_misses" self.sum(|census| census.tally.looks.misses),
            "pubsub_channels" self.sum(|census| census.name_counts[0]),
            "pubsub_patterns" self.sum(|census| census.name_counts[1]),
            "pubsubshard_channels" self.sum(|census| census.name_counts[2]),
            "latest_fork_usec" 0,
            "total_forks" 0,
            "migrate_cached_sockets" self.link_count,
            "slave_expires_tracked_keys" 0,
            "active_defrag_hits" 0,
            "active_defrag_misses" 0,
            "active_defrag_key_hits" 0,
            "active_defrag_key_misses" 0,
            "total_active_defrag_time" 0,
            "current_active_defrag_time" 0,
            "tracking_total_keys" self.sum(|census| census.stats.tracked_keys),
            "tracking_total_items" self.sum(|census| census.stats.tracked_items),
            "tracking_total_prefixes"
                self.lanes.iter().map(|(_, census)| census.stats.tracked_prefixes).max().unwrap_or(0),
            "unexpected_error_replies" 0,
            "total_error_replies" self.sum(|census| census.tally.error_count),
            "dump_payload_sanitizations" 0,
            "total_reads_processed" self.sum(|census| census.traffic.receives),
            "total_writes_processed" self.sum(|census| census.traffic.sends),
            "io_threaded_reads_processed" 0,
            "io_threaded_writes_processed" 0,
            "reply_buffer_shrinks" 0,
            "reply_buffer_expands" 0,
        );
    }

    /// Replicas among the clients of the lanes that are seen.
    fn replica_count(&self) -> u64 {
        let is_seen = |lane: &&u16| self.lanes.iter().any(|(seen, _)| seen == *lane);
        self.replicas.lanes.iter().filter(is_seen).count() as u64
    }

    fn replication(&self, text: &mut String) {
        text.push_str(&self.replicas.lines);
    }

    fn processor(&self, text: &mut String) {
        let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        lines!(text;
            "used_cpu_sys" seconds(self.processor_us.0),
            "used_cpu_user" seconds(self.processor_us.1),
            "used_cpu_sys_children" "0.000000",
            "used_cpu_user_children" "0.000000",
        );
    }

    fn cluster(&self, text: &mut String) {
        lines!(text; "cluster_enabled" u8::from(self.from.port == Port::Lane));
    }

    fn keyspace(&self, text: &mut String) {
        for db in 0..usize::from(self.settings.database_count) {
            let of = |census: &Census| census.databases.get(db).copied().unwrap_or_default();
            let keys = self.sum(|census| of(census).keys);
            if keys > 0 {
                let expires = self.sum(|census| of(census).expiring);
                let ends_sum: i128 = self.lanes.iter().map(|(_, census)| of(census).ends.1).sum();
                let ends_count = i128::from(self.sum(|census| of(census).ends.0));
                let left_sum = ends_sum - ends_count * i128::from(self.now.unix_ms);
                let left_ms = left_sum.checked_div(ends_count).unwrap_or(0).max(0);
                write!(text, "db{db}:keys={keys},expires={expires},avg_ttl={left_ms}\r\n")
                    .expect("a string takes all");
            }
        }
    }

    fn commands(&self, text: &mut String) {
        for (index, command) in COMMANDS.iter().enumerate() {
            let of = |census: &Census| census.tally.calls[index];
            let undone = self.sum(|census| of(census).undone_count);
            let calls = self.sum(|census| of(census).count).saturating_sub(undone);
            let us = self.us(self.times(index).sum);
            let rejected = self.sum(|census| of(census).rejected_count);
            let failed = self.sum(|census| of(census).failed_count);
            if calls + rejected > 0 {
                write!(
                    text,
                    "cmdstat_{}:calls={calls},usec={us},usec_per_call={},rejected_calls={rejected},failed_calls={failed}\r\n",
                    command.name,
                    ratio(us, calls),
                )
                .expect("a string takes all");
            }
        }
    }

    fn errors(&self, text: &mut String) {
        let mut kinds = BTreeMap::new();
        for (code, count) in self.lanes.iter().flat_map(|(_, census)| &census.tally.kinds) {
            *kinds.entry(code).or_insert(0) += count;
        }
        for (code, count) in kinds {
            let word = String::from_utf8_lossy(code.word());
            write!(text, "errorstat_{word}:count={count}\r\n").expect("a string takes all");
        }
    }

    /// Calls of all commands, those inside EXEC included.
    fn call_count(&self) -> u64 {
        calls_of(&self.lanes)
    }

    fn latencies(&self, text: &mut String) {
        if self.config.value("latency-tracking") == "no" {
            return;
        }
        let shares = self.config.value("latency-tracking-info-percentiles");
        for (index, command) in COMMANDS.iter().enumerate() {
            let times = self.times(index);
            if times.count() == 0 {
                continue;
            }
            let facts: Vec<String> = shares
                .split(' ')
                .filter_map(|word| Some((word, word.parse().ok()?)))
                .map(|(word, share)| format!("p{word}={}", self.time(times.percentile(share))))
                .collect();
            write!(text, "latency_percentiles_usec_{}:{}\r\n", command.name, facts.join(","))
                .expect("a string takes all");
        }
    }

    /// MEMORY STATS: what is measured here under Redis' names. Those of `INFO memory` have the same values.
    pub(super) fn memory_stats(&self, proto: Proto, out: &mut Vec<u8>) {
        let (used, peak) = (self.used_size(), self.peak_size());
        let (resident, active) = (self.resident_size, self.sum(|census| census.memory.resident));
        let dataset = self.sum(|census| census.memory.entries + census.memory.ropes);
        let keys = self.sum(|census| census.stats.keys);
        let facts = [
            ("peak.allocated", Fact::Whole(peak)),
            ("total.allocated", Fact::Whole(used)),
            ("startup.allocated", Fact::Whole(0)),
            ("replication.backlog", Fact::Whole(0)),
            ("clients.slaves", Fact::Whole(0)),
            ("clients.normal", Fact::Whole(self.sum(|census| census.stats.clients_size))),
            ("cluster.links", Fact::Whole(0)),
            ("aof.buffer", Fact::Whole(0)),
            ("lua.caches", Fact::Whole(0)),
            ("functions.caches", Fact::Whole(0)),
            (
                "overhead.total",
                Fact::Whole(self.sum(|census| census.memory.heads + census.stats.clients_size)),
            ),
            ("keys.count", Fact::Whole(keys)),
            ("keys.bytes-per-key", Fact::Whole(used.checked_div(keys).unwrap_or(0))),
            ("dataset.bytes", Fact::Whole(dataset)),
            ("dataset.percentage", Fact::Ratio(dataset.saturating_mul(100), used)),
            ("peak.percentage", Fact::Ratio(used.saturating_mul(100), peak)),
            ("allocator.allocated", Fact::Whole(used)),
            ("allocator.active", Fact::Whole(active)),
            ("allocator.resident", Fact::Whole(active)),
            ("allocator-fragmentation.ratio", Fact::Ratio(active, used)),
            ("allocator-fragmentation.bytes", Fact::Whole(active.saturating_sub(used))),
            ("allocator-rss.ratio", Fact::Ratio(active, active)),
            ("allocator-rss.bytes", Fact::Whole(0)),
            ("rss-overhead.ratio", Fact::Ratio(resident, active)),
            ("rss-overhead.bytes", Fact::Whole(resident.saturating_sub(active))),
            ("fragmentation", Fact::Ratio(resident, used)),
            ("fragmentation.bytes", Fact::Whole(resident.saturating_sub(used))),
        ];
        reply::map(out, proto, facts.len());
        for (name, fact) in facts {
            reply::bulk(out, name.as_bytes());
            match fact {
                Fact::Whole(value) => reply::integer(out, i64::try_from(value).unwrap_or(i64::MAX)),
                Fact::Ratio(a, b) => {
                    reply::double(out, proto, ratio(a, b).parse().expect("a number as it was just written"));
                }
            }
        }
    }

    /// MEMORY DOCTOR: whether much more is resident than used, in a sentence.
    pub(super) fn doctor(&self) -> String {
        let (used, resident) = (self.used_size(), self.resident_size);
        if used < 5 << 20 {
            return "The server holds less than 5 MB: too little to judge how memory is used.\n".to_owned();
        }
        if resident / 2 > used {
            return format!(
                "{} are resident for {} of data: memory that was freed is given back slowly; it is used again first.\n",
                human(resident),
                human(used)
            );
        }
        "No problem found: resident memory fits the data.\n".to_owned()
    }
}

/// Calls of all commands on these lanes.
pub(super) fn calls_of(lanes: &[(u16, &Census)]) -> u64 {
    let all = || lanes.iter().flat_map(|(_, census)| &*census.tally.calls);
    let count: u64 = all().map(|calls| calls.count).sum();
    count.saturating_sub(all().map(|calls| calls.undone_count).sum())
}

/// Bytes as Redis shows them to people.
fn human(size: u64) -> String {
    let units = [("T", 1u64 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    match units.iter().find(|(_, unit)| *unit <= size) {
        None => format!("{size}B"),
        Some((name, unit)) => {
            let hundredths = u128::from(size) * 100 / u128::from(*unit);
            format!("{}.{:02}{name}", hundredths / 100, hundredths % 100)
        }
    }
}

/// A value of MEMORY STATS.
enum Fact {
    Whole(u64),
    /// The first by the second, with two decimals.
    Ratio(u64, u64),
}

/// `a` of `b` in percent, with two decimals.
fn percent(a: u64, b: u64) -> String {
    format!("{}%", ratio(a.saturating_mul(100), b))
}

/// `a / b` with two decimals; 0 without `b`.
fn ratio(a: u64, b: u64) -> String {
    let hundredths = (u128::from(a) * 100).checked_div(u128::from(b)).unwrap_or(0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
