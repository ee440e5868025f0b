//! memcached's `stats`: the names that its tools know, with what this server has to say to them. What it has nothing like (slabs,
//! the LRU's segments, threads that move items) is left out.

use wire::memcached::{HEAD, Head, Outcome, Say, VALUE, reply};

use super::info::View;
use crate::documents::{Tally, Tries, VERSION};
use crate::request::Args;

/// What `stats` is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    General,
    Settings,
    Reset,
    /// `stats detail on`, which counts by prefixes of keys, and off: that is heard, and nothing is counted.
    Switch,
    /// memcached has one of this name. Here there is nothing in it.
    Empty,
    /// `stats detail` with another word.
    WrongDetail,
    /// `stats cachedump` with too few words.
    WrongDump,
    Unknown,
}

impl Group {
    /// The group that a question names.
    pub(super) fn of(args: Args<'_>) -> Group {
        let name = if args.len() > VALUE { args.flat(VALUE) } else { b"" };
        let mut words = name.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        match [(); 3].map(|()| words.next().unwrap_or_default()) {
            [b"", ..] => Group::General,
            [b"settings", ..] => Group::Settings,
            [b"reset", ..] => Group::Reset,
            [b"detail", b"on" | b"off", _] => Group::Switch,
            [b"detail", b"dump", _] => Group::Empty,
            [b"detail", ..] => Group::WrongDetail,
            [b"cachedump", _, b""] => Group::WrongDump,
            [b"items" | b"slabs" | b"sizes" | b"conns" | b"cachedump", ..] => Group::Empty,
            _ => Group::Unknown,
        }
    }
}

/// Writes the statistics of a group.
pub(super) fn put(args: Args<'_>, view: &View<'_>, out: &mut Vec<u8>) {
    let head = Head::from_bytes(args.flat(HEAD));
    let group = Group::of(args);
    let say = |out: &mut Vec<u8>, outcome: &Outcome| reply::put(out, &head, b"", b"", outcome);
    let values = match group {
        Group::General => general(view),
        Group::Settings => settings(view),
        Group::Reset => return say(out, &Outcome::Say(Say::Reset)),
        Group::Switch => return say(out, &Outcome::Ok),
        Group::WrongDetail => return say(out, &Outcome::Say(Say::DetailUsage)),
        Group::WrongDump => return say(out, &Outcome::Say(Say::BadLine)),
        // In binary its name is a key that there is not.
        Group::Unknown if head.framing.is_binary() => return say(out, &Outcome::NotFound),
        Group::Unknown => return say(out, &Outcome::Say(Say::Error)),
        Group::Empty => Vec::new(),
    };
    for (name, value) in values {
        reply::put_stat(out, &head, name, &value);
    }
    reply::put_stats_end(out, &head);
}

fn general(view: &View<'_>) -> Vec<(&'static str, String)> {
    let tries = |of: fn(&Tally) -> Tries| {
        let sum = |count: fn(Tries) -> u64| view.sum(|census| count(of(&census.documents)));
        (sum(|tries| tries.hits), sum(|tries| tries.misses))
    };
    let (get_hits, get_misses) = tries(|tally| tally.gets);
    let (touch_hits, touch_misses) = tries(|tally| tally.touches);
    let (delete_hits, delete_misses) = tries(|tally| tally.deletes);
    let (incr_hits, incr_misses) = tries(|tally| tally.incrs);
    let (decr_hits, decr_misses) = tries(|tally| tally.decrs);
    let (cas_hits, cas_misses) = tries(|tally| tally.cas);
    let stores = view.sum(|census| census.documents.store_count);
    // Each reaches every lane.
    let flushes = view.lanes.iter().map(|(_, census)| census.documents.flush_count);
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let uptime_s = view.now.mono_ns.saturating_sub(view.began.mono_ns) / 1_000_000_000;
    let documents = usize::from(view.from.db);
    let count = |number: u64| number.to_string();
    vec![
        ("pid", view.identity.process_id.to_string()),
        ("uptime", count(uptime_s)),
        ("time", (view.now.unix_ms / 1000).to_string()),
        ("version", VERSION.to_owned()),
        ("pointer_size", usize::BITS.to_string()),
        ("rusage_user", seconds(view.processor_us.1)),
        ("rusage_system", seconds(view.processor_us.0)),
        ("max_connections", view.settings.client_count_max.to_string()),
        ("curr_connections", count(view.sum(|census| census.stats.clients))),
        ("total_connections", count(view.sum(|census| census.stats.connections - census.stats.handovers))),
        ("rejected_connections", count(view.sum(|census| census.stats.clients_rejected))),
        ("cmd_get", count(get_hits + get_misses)),
        ("cmd_set", count(stores)),
        ("cmd_flush", count(flushes.max().unwrap_or(0))),
        ("cmd_touch", count(touch_hits + touch_misses)),
        ("get_hits", count(get_hits)),
        ("get_misses", count(get_misses)),
        ("delete_misses", count(delete_misses)),
        ("delete_hits", count(delete_hits)),
        ("incr_misses", count(incr_misses)),
        ("incr_hits", count(incr_hits)),
        ("decr_misses", count(decr_misses)),
        ("decr_hits", count(decr_hits)),
        ("cas_misses", count(cas_misses)),
        ("cas_hits", count(cas_hits)),
        ("cas_badval", count(view.sum(|census| census.documents.cas_mismatch_count))),
        ("touch_hits", count(touch_hits)),
        ("touch_misses", count(touch_misses)),
        ("bytes_read", count(view.sum(|census| census.traffic.bytes_in))),
        ("bytes_written", count(view.sum(|census| census.traffic.bytes_out))),
        ("limit_maxbytes", count(view.settings.memory_size_max)),
        ("threads", view.lanes.len().to_string()),
        ("bytes", count(view.sum(|census| census.memory.total()))),
        ("curr_items", count(view.sum(|census| census.databases[documents].keys))),
        ("total_items", count(stores)),
        ("evictions", count(view.sum(|census| census.memory.evicted))),
    ]
}

fn settings(view: &View<'_>) -> Vec<(&'static str, String)> {
    let evicts = view.settings.policy != store::Policy::NoEviction;
    vec![
        ("maxbytes", view.settings.memory_size_max.to_string()),
        ("maxconns", view.settings.client_count_max.to_string()),
        ("evictions", if evicts { "on" } else { "off" }.to_owned()),
        ("num_threads", view.lanes.len().to_string()),
        ("cas_enabled", "yes".to_owned()),
        ("auth_enabled_sasl", if view.settings.password.is_some() { "yes" } else { "no" }.to_owned()),
        ("item_size_max", view.settings.item_size_max.to_string()),
        ("binding_protocol", "auto-negotiate".to_owned()),
    ]
}
