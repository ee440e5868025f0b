//! How many servers can be asked at once: the chance that all of them answer in time, over their number.
//!
//! Above for independent servers, which is what to plan with; below as if all went through the same second, which is higher the
//! more late answers come bunched. The deadline is the one that was asked for, or the p99.9 of the first set-up: there a
//! thousand servers are in time in one case of three. Other deadlines are in a table, and the page's script draws them.

use serde_json::json;

use super::{Figure, More, Table, at_level, extent, named, whole};
use crate::float::float;
use crate::number;
use crate::record::times;
use crate::report::svg::{Anchor, Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit};
use crate::report::view::{Arm, View};
use crate::statistics::Level;
use crate::statistics::effective::inflation_of_events;
use crate::statistics::fanout::{
    Answers, FanOut, OverRuns, all_in_time, all_in_time_same_second, over_runs, servers_max,
};
use crate::statistics::quantiles::{counts_within, quantile_ns};

const TOP: f64 = 34.0;
const PANEL: f64 = 230.0;
const LOWER: f64 = 150.0;
const GAP: f64 = 44.0;
/// With which probability all servers are to be in time, for the numbers in words.
const PROBABILITY: f64 = 0.99;
const SERVERS_MAX: f64 = 10_000.0;
/// Places on the axis of servers.
const PLACES: i32 = 120;
/// Places at which the script may draw the same second.
const SAME_PLACES: i32 = 40;
const SHOWN: [u64; 7] = [1, 3, 10, 30, 100, 1_000, 10_000];
/// Round deadlines of each decade; those of the table.
const MANTISSAS: [u64; 10] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];
const MANTISSAS_SHOWN: [u64; 3] = [10, 20, 50];
/// Deadlines that can be chosen.
const DEADLINES_MAX: usize = 60;

/// One set-up, at every deadline.
struct Curve {
    arm: Arm,
    /// Of each deadline: all answers, those of each second, and of each run.
    answers: Vec<Answers>,
    seconds: Vec<Vec<Answers>>,
    runs: Vec<Vec<Answers>>,
}

/// What may be said of a set-up at one deadline.
struct Told<'a> {
    arm: Arm,
    late_share: f64,
    seconds: &'a [Answers],
    runs: &'a [Answers],
    fan_out: FanOut,
    over_runs: Option<OverRuns>,
}

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let deadlines_ns = deadlines(view, deadline_ns(view)?);
    let chosen = deadlines_ns.iter().position(|deadline| Some(*deadline) == deadline_ns(view))?;
    let curves: Vec<Curve> =
        view.arms().into_iter().filter_map(|arm| curve(view, arm, &deadlines_ns)).collect();
    let at_all: Vec<Vec<Told<'_>>> = curves
        .iter()
        .map(|curve| (0..deadlines_ns.len()).filter_map(|index| curve.told(index)).collect())
        .collect();
    let told: Vec<&Told<'_>> = at_all.iter().filter_map(|at| at.get(chosen)).collect();
    if told.is_empty() {
        return None;
    }
    let top = TOP + PANEL + GAP;
    let bottom = top + LOWER;
    let level = Axis::new(Scale::Log, Unit::Plain, (1.0, SERVERS_MAX), (LEFT, RIGHT));
    let upper = Axis::new(Scale::Linear, Unit::Percent, (0.0, 1.0), (TOP + PANEL, TOP));
    let lower = Axis::new(Scale::Linear, Unit::Percent, (0.0, 1.0), (bottom, top));
    let mut drawing = Drawing::new(bottom + FOOT);
    drawing.rows(&upper, "chance that all answer in time, independent servers");
    drawing.grid(&level, TOP, TOP + PANEL);
    drawing.rows(&lower, "as if all went through the same second");
    drawing.columns(&level, top, bottom, "servers asked at once");
    let certain = upper.at(PROBABILITY);
    drawing.line("rule", (LEFT, certain), (RIGHT, certain));
    for told in &told {
        draw(view, &mut drawing, told, &level, &upper);
        draw_same_second(view, &mut drawing, told, &level, &lower);
    }
    let time = number::time(float(deadlines_ns[chosen]));
    let title = format!("Servers that can work in parallel within {time}{}", at_level(view));
    let finding = finding(view, &told, &time);
    let svg = drawing.finish("fanout", &title, &finding);
    let has_band = told.iter().any(|told| told.runs.len() > 1);
    let reading = format!(
        "A page that asks many servers is as slow as the slowest. Above: for independent servers, the ones to plan with; {}the dashed \
         rule is 99 %, marks say how many servers may be claimed there, by the unfavourable end of the interval. Below: the mean \
         over seconds, as if all servers were in the same one; thin dashes repeat the line from above. The further apart the two, the \
         more late answers come bunched.",
        if has_band { "the band is the span of single runs, " } else { "" }
    )
    .into();
    let table = table(view, &told);
    let more = More {
        title: "Other deadlines",
        table: deadlines_table(view, &at_all, &deadlines_ns, chosen),
        data: data(&at_all, &deadlines_ns, chosen),
    };
    Some(Figure { id: "fanout", title, finding, reading, svg, table, has_arms: true, more: Some(more) })
}

fn deadline_ns(view: &View<'_>) -> Option<u64> {
    if let Some(bound) = view.bound {
        return Some(bound.below_ns);
    }
    let mut all = times();
    for run in view.shown(*view.arms().first()?) {
        all.add(run.response()).expect("all histograms have one shape");
    }
    let told = [0.999, 0.99].into_iter().find(|quantile| quantile_ns(&all, *quantile).is_some())?;
    Some(all.value_at_quantile(told))
}

/// Round times from the fastest set-up's median to the slowest answer, and the one that is drawn, rising.
fn deadlines(view: &View<'_>, drawn_ns: u64) -> Vec<u64> {
    let shown = view.arms().into_iter().flat_map(|arm| view.shown(arm));
    let ends = shown.flat_map(|run| [run.response().value_at_quantile(0.5), run.response().max()].map(float));
    let (low, high) = extent(ends).unwrap_or_default();
    let decades = (0..12).map(|power| 10_u64.pow(power));
    let round = decades.flat_map(|decade| MANTISSAS.map(|mantissa| mantissa * decade));
    let mut all: Vec<u64> = round.filter(|ns| (low..=high).contains(&float(*ns))).collect();
    let step = all.len().div_ceil(DEADLINES_MAX).max(1);
    all = all.into_iter().step_by(step).chain([drawn_ns]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn curve(view: &View<'_>, arm: Arm, deadlines_ns: &[u64]) -> Option<Curve> {
    let none = Answers { late_count: 0, count: 0 };
    let mut curve = Curve {
        arm,
        answers: vec![none; deadlines_ns.len()],
        seconds: vec![Vec::new(); deadlines_ns.len()],
        runs: vec![Vec::new(); deadlines_ns.len()],
    };
    for run in view.shown(arm) {
        let mut of_run = vec![none; deadlines_ns.len()];
        for saved in run.seconds {
            let response = saved.second.response();
            let within = counts_within(&response, deadlines_ns);
            for (index, within) in within.into_iter().enumerate() {
                let count = response.len();
                let of = Answers { late_count: count - within, count };
                let of = of.of_which_failed(saved.second.faults());
                of_run[index] = of_run[index].and(of);
                curve.seconds[index].push(of);
            }
        }
        let lost = run.run.end.as_ref().map_or(0, |end| end.unanswered);
        for (index, of) in of_run.into_iter().enumerate() {
            curve.runs[index].push(of.and_lost(lost));
            curve.answers[index] = curve.answers[index].and(of.and_lost(lost));
        }
    }
    (curve.answers[0].count > 0).then_some(curve)
}

impl Curve {
    fn told(&self, index: usize) -> Option<Told<'_>> {
        let (seconds, runs) = (&self.seconds[index], &self.runs[index]);
        let late: Vec<u64> = seconds.iter().map(|second| second.late_count).collect();
        let all: Vec<u64> = seconds.iter().map(|second| second.count).collect();
        let inflation = inflation_of_events(&late, &all).max(1.0);
        let fan_out = FanOut::of(self.answers[index], inflation, PROBABILITY, Level::NINETY_FIVE)?;
        let of_runs = runs.iter().filter(|run| run.count > 0);
        let of_runs: Vec<Option<u64>> =
            of_runs.map(|run| servers_max(run.late_share(), PROBABILITY)).collect();
        Some(Told {
            arm: self.arm,
            late_share: self.answers[index].late_share(),
            seconds,
            runs,
            fan_out,
            over_runs: over_runs(&of_runs, Level::NINETY_FIVE),
        })
    }
}

fn places(count: i32) -> Vec<u64> {
    let all = (0..=count).map(|place| 10_f64.powf(f64::from(place) / f64::from(count) * SERVERS_MAX.log10()));
    let mut places: Vec<u64> =
        all.map(|servers| u64::try_from(whole(servers.round())).expect("at most SERVERS_MAX")).collect();
    places.dedup();
    places
}

fn points(level: &Axis, upright: &Axis, of: impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    places(PLACES).iter().map(|servers| (level.at(float(*servers)), upright.at(of(*servers)))).collect()
}

fn draw(view: &View<'_>, drawing: &mut Drawing, told: &Told<'_>, level: &Axis, upright: &Axis) {
    let class = told.arm.class();
    let shares = told.runs.iter().filter(|run| run.count > 0).map(|run| run.late_share());
    if let Some((best, worst)) = extent(shares).filter(|_| told.runs.len() > 1) {
        let line = |share: f64| points(level, upright, |servers| all_in_time(share, servers));
        drawing.band(&format!("band {class}"), &line(best), &line(worst));
    }
    let apart = points(level, upright, |servers| all_in_time(told.late_share, servers));
    drawing.named_curve(&format!("line {class}"), &named(view, told.arm, "independent"), &apart);
    let claimed = told.fan_out.servers_claimed;
    if claimed >= 1 {
        let place = (level.at(float(claimed)), upright.at(PROBABILITY));
        let said = format!("at least {} servers at 99 %", number::count(claimed));
        drawing.mark(class, told.arm == Arm::B, place, &said);
        drawing.text(
            &format!("tag {class}"),
            (place.0 + 8.0, place.1 + 20.0),
            Anchor::Start,
            &number::count(claimed),
        );
    }
}

fn draw_same_second(view: &View<'_>, drawing: &mut Drawing, told: &Told<'_>, level: &Axis, upright: &Axis) {
    let class = told.arm.class();
    let apart = points(level, upright, |servers| all_in_time(told.late_share, servers));
    drawing.curve(&format!("thin {class}"), &apart);
    let together = |servers| all_in_time_same_second(told.seconds, servers).unwrap_or(0.0);
    let name = named(view, told.arm, "same second");
    drawing.named_curve(&format!("line {class}"), &name, &points(level, upright, together));
}

fn finding(view: &View<'_>, told: &[&Told<'_>], time: &str) -> String {
    let sentences = told.iter().map(|told| {
        let of = named(view, told.arm, "");
        let of = if of.is_empty() { String::new() } else { format!("{of}: ") };
        let runs = told
            .over_runs
            .map_or_else(String::new, |runs| format!(" Single runs: {}.", of_runs(&runs)));
        format!(
            "{of}{} of the answers came later than {time}; all of at least {} servers answer in time with 99 % ({} by \
             the measured share).{runs}",
            number::percent_small(told.late_share),
            number::count(told.fan_out.servers_claimed),
            servers(told.fan_out.servers)
        )
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// A number of servers; none: nothing was late.
fn servers(count: Option<u64>) -> String {
    count.map_or_else(|| "any number".to_owned(), number::count)
}

fn of_runs(runs: &OverRuns) -> String {
    let span = format!("{} to {}", servers(runs.lowest), servers(runs.highest));
    match runs.interval {
        Some((low, high)) => {
            format!(
                "{span}, the middle one {} (95 %: {} to {})",
                servers(runs.middle),
                servers(low),
                servers(high)
            )
        }
        None => format!("{span}, too few for an interval"),
    }
}

fn table(view: &View<'_>, told: &[&Told<'_>]) -> Table {
    let mut head = vec!["servers".to_owned()];
    for told in told {
        head.extend(["independent", "same second"].map(|what| named(view, told.arm, what)));
    }
    let mut table = Table::new(head);
    for servers in SHOWN {
        let mut row = vec![number::count(servers)];
        for told in told {
            row.push(number::percent(all_in_time(told.late_share, servers)));
            let together = all_in_time_same_second(told.seconds, servers);
            row.push(together.map_or_else(|| "–".to_owned(), number::percent));
        }
        table.rows.push(row);
    }
    if told.iter().any(|told| told.over_runs.is_some()) {
        let mut row = vec!["single runs, servers at 99 %".to_owned()];
        for told in told {
            row.push(told.over_runs.map_or_else(|| "–".to_owned(), |runs| of_runs(&runs)));
            row.push("–".to_owned());
        }
        table.rows.push(row);
    }
    table
}

fn deadlines_table(view: &View<'_>, curves: &[Vec<Told<'_>>], deadlines_ns: &[u64], chosen: usize) -> Table {
    let mut head = vec!["deadline".to_owned()];
    for first in curves.iter().filter_map(|told| told.first()) {
        head.extend(
            ["late", "servers at 99 %, measured", "at least"].map(|what| named(view, first.arm, what)),
        );
    }
    let mut table = Table::new(head);
    for (index, deadline) in deadlines_ns.iter().enumerate() {
        let mut mantissa = *deadline;
        while mantissa >= 100 && mantissa % 10 == 0 {
            mantissa /= 10;
        }
        if index != chosen && !MANTISSAS_SHOWN.contains(&mantissa) {
            continue;
        }
        let mut row = vec![number::time(float(*deadline))];
        for told in curves.iter().filter_map(|told| told.get(index)) {
            row.extend([
                number::percent_small(told.late_share),
                servers(told.fan_out.servers),
                number::count(told.fan_out.servers_claimed),
            ]);
        }
        table.rows.push(row);
    }
    table
}

/// For the script: of each set-up and deadline the late share, the servers that may be claimed, and the chances in the same
/// second in thousandths.
fn data(curves: &[Vec<Told<'_>>], deadlines_ns: &[u64], chosen: usize) -> String {
    let places = places(SAME_PLACES);
    let arms: Vec<serde_json::Value> = curves
        .iter()
        .map(|told| {
            let same = told.iter().map(|told| -> Vec<usize> {
                let chances = places
                    .iter()
                    .map(|servers| all_in_time_same_second(told.seconds, *servers).unwrap_or(0.0));
                chances.map(|chance| whole((chance * 1000.0).round())).collect()
            });
            json!({
                "class": told.first().map_or("a", |told| told.arm.class()),
                "late": told.iter().map(|told| told.late_share).collect::<Vec<f64>>(),
                "claimed": told.iter().map(|told| told.fan_out.servers_claimed).collect::<Vec<u64>>(),
                "same": same.collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "deadlines": deadlines_ns, "chosen": chosen, "servers": places, "arms": arms }).to_string()
}
