//! INFO's own sections: each lane in a line `laneN:name=value,…`, and the histograms behind its percentiles.
//! docs/observability.md says what each number means.

use std::fmt::Write;

use wire::command::COMMANDS;

use super::info::View;
use crate::Settings;
use crate::admin::Census;
use crate::client::Dialect;
use crate::histogram::Histogram;
use crate::pin::{AutoPin, Queue};
use crate::stats::Commands;

/// Of these times percentiles are shown: name, percent.
const SHARES: [(&str, f64); 3] = [("p50", 50.0), ("p99", 99.0), ("p999", 99.9)];

/// `# Lanes`.
pub(super) fn each_lane(view: &View<'_>, text: &mut String) {
    for ((lane, census), signature) in view.lanes.iter().zip(&view.signatures) {
        let stats = &census.stats;
        let traffic = &census.traffic;
        let memory = census.memory.total();
        let commands = stats.commands();
        let per_command = thousandths(traffic.calls, commands.all);
        let counts: [(&str, u64); 38] = [
            ("commands", commands.all),
            ("direct", commands.direct),
            ("forwarded", commands.forwarded),
            ("moved", stats.commands_moved),
            ("asks_served", stats.asks_served),
            ("transactions", stats.transactions),
            ("lock_waits", stats.lock_waits),
            ("parts_refused", stats.parts_refused),
            ("clients", stats.clients),
            ("connections", stats.connections),
            ("handovers", stats.handovers),
            ("clients_cut", stats.clients_cut),
            ("pin_placed", stats.pin_placed),
            ("pin_fallbacks", stats.pin_fallbacks),
            ("pin_unknown", stats.pin_unknown),
            ("pin_leaking", stats.pin_leaking),
            ("keys", stats.keys),
            ("bytes", memory),
            ("resident_bytes", census.memory.resident),
            ("ring_depth", census.ring_depth),
            ("ring_depth_max", stats.ring_depth_max),
            ("bells", stats.bells),
            ("net_bytes_in", traffic.bytes_in),
            ("net_bytes_out", traffic.bytes_out),
            ("syscalls", traffic.calls),
            ("syscalls_wait", traffic.waits),
            ("syscalls_receive", traffic.receives),
            ("syscalls_send", traffic.sends),
            ("slow_dropped", stats.slow_dropped),
            ("denials_dropped", stats.denials_dropped),
            ("expired", census.memory.expired),
            ("evicted", census.memory.evicted),
            ("turns", stats.turns),
            ("turns_stalled", stats.turns_stalled),
            ("turns_preempted", stats.turns_preempted),
            ("turn_commands_max", stats.turn_commands_max),
            ("turn_slices_max", stats.turn_slices_max),
            ("meter_per_us", view.settings.meter_per_us),
        ];
        let mut facts: Vec<String> = counts.iter().map(|(name, count)| format!("{name}={count}")).collect();
        facts.push(format!("syscalls_per_command={per_command}"));
        facts.extend(queues_of(*lane, view.settings));
        // A meter that does not count time counts work: the names say so.
        let unit = if view.settings.meter_per_us == 0 { "units" } else { "us" };
        let (commands, slowest) = commands_of(census);
        for (subject, times) in [("turn", &*census.turns), ("command", &commands)] {
            for (name, share) in SHARES {
                facts.push(format!("{subject}_{name}_{unit}={}", view.time(times.percentile(share))));
            }
        }
        let turn = &census.turn_longest;
        facts.push(format!("turn_max_{unit}={}", view.time(stats.turn_meter_max)));
        facts.push(format!("turn_max_command={}", turn.command().unwrap_or("none")));
        facts.push(format!("turn_max_command_{unit}={}", view.time(turn.longest.ticks)));
        facts.push(format!("turn_preempted_max_{unit}={}", view.time(stats.turn_preempted_meter_max)));
        facts.push(format!("command_max_{unit}={}", view.time(commands.max)));
        facts.push(format!("command_max_command={}", slowest.unwrap_or("none")));
        write!(text, "lane{lane}:{}{signature}\r\n", facts.join(",")).expect("a string takes all");
    }
    let dropped = view.lines_dropped + view.sum(|census| census.stats.monitor_dropped);
    write!(text, "auto_pin:{}\r\n", view.settings.auto_pin.name()).expect("a string takes all");
    write!(text, "monitor_lines_dropped:{dropped}\r\n").expect("a string takes all");
}

/// The queues that a lane serves, where connections are placed by them: `queues=ens1:4;ens1:5,napi_ids=…,irqs=…`. What the
/// machine does not say of one is `-`.
fn queues_of(lane: u16, settings: &Settings) -> [String; 3] {
    let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let list = |name: &str, of: &dyn Fn(&Queue) -> String| {
        let values: Vec<String> = settings.queues.of_lane(lane).map(of).collect();
        let text = match settings.auto_pin {
            AutoPin::Adq if values.is_empty() => "none".to_owned(),
            AutoPin::Adq => values.join(";"),
            _ => "unknown".to_owned(),
        };
        format!("{name}={text}")
    };
    [
        list("queues", &|queue| format!("{}:{}", queue.card, number(queue.index))),
        list("napi_ids", &|queue| queue.napi_id.to_string()),
        list("irqs", &|queue| number(queue.irq)),
    ]
}

/// `# Dialects`: what each lane is asked in each of them, and the errors with which it answered.
pub(super) fn each_dialect(view: &View<'_>, text: &mut String) {
    for dialect in Dialect::ALL {
        for (lane, census) in &view.lanes {
            let Commands { all, direct, forwarded } = census.stats.dialects[dialect as usize];
            let kinds =
                census.tally.kinds.iter().filter(|(code, _)| Dialect::of_error(code.word()) == dialect);
            let mut errors: Vec<String> = kinds
                .map(|(code, count)| format!("{}:{count}", String::from_utf8_lossy(code.word())))
                .collect();
            errors.sort();
            if errors.is_empty() {
                errors.push("none".to_owned());
            }
            let (name, errors) = (dialect.name(), errors.join(";"));
            write!(
                text,
                "{name}_lane{lane}:commands={all},direct={direct},forwarded={forwarded},errors={errors}\r\n"
            )
            .expect("a string takes all");
        }
    }
}

/// `# Histograms`: of each lane how many turns and commands took up to so many nanoseconds, and longer than the number
/// before.
pub(super) fn histograms(view: &View<'_>, text: &mut String) {
    for (lane, census) in &view.lanes {
        let (commands, _) = commands_of(census);
        for (subject, times) in [("turn", &*census.turns), ("command", &commands)] {
            let buckets: Vec<String> = times
                .filled()
                .map(|(_, longest, count)| format!("{}={count}", ns(longest, view.settings.meter_per_us)))
                .collect();
            write!(text, "{subject}_ns_lane{lane}:{}\r\n", buckets.join(",")).expect("a string takes all");
        }
    }
}

/// The times of all commands of a lane, and which one took longest.
fn commands_of(census: &Census) -> (Histogram, Option<&'static str>) {
    let mut sum = Histogram::default();
    let mut slowest = None;
    for (command, times) in COMMANDS.iter().zip(&*census.times) {
        let Some(times) = times else { continue };
        if sum.max < times.max {
            slowest = Some(command.name);
        }
        sum.merge(times);
    }
    (sum, slowest)
}

/// Counts of the meter as nanoseconds; as they are where it does not count time.
fn ns(ticks: u64, meter_per_us: u64) -> u64 {
    match meter_per_us {
        0 => ticks,
        per_us => u64::try_from(u128::from(ticks) * 1000 / u128::from(per_us)).unwrap_or(u64::MAX),
    }
}

/// `a / b` with three decimals; 0 without `b`.
fn thousandths(a: u64, b: u64) -> String {
    let value = (u128::from(a) * 1000).checked_div(u128::from(b)).unwrap_or(0);
    format!("{}.{:03}", value / 1000, value % 1000)
}
