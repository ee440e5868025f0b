//! How many servers can be asked at once: the chance that all of them answer in time, over their number.
//!
//! The deadline is the one that was asked for, or the p99.9 of the first set-up: there a thousand servers are in time in one
//! case of three. Beyond what the measurement can claim the line is dotted.

use super::{Figure, Table, at_level, named};
use crate::float::float;
use crate::record::times;
use crate::report::number;
use crate::report::svg::{Anchor, Axis, Drawing, FOOT, LEFT, RIGHT, Scale, Unit};
use crate::report::view::{Arm, View};
use crate::statistics::Level;
use crate::statistics::effective::inflation_of_events;
use crate::statistics::fanout::{Answers, FanOut, all_in_time, all_in_time_same_second};
use crate::statistics::quantiles::quantile_ns;

const TOP: f64 = 34.0;
const HEIGHT: f64 = 320.0;
/// With which probability all servers are to be in time, for the numbers in words.
const PROBABILITY: f64 = 0.99;
const SERVERS_MAX: f64 = 10_000.0;
/// Places on the axis of servers.
const PLACES: i32 = 120;
const SHOWN: [u64; 7] = [1, 3, 10, 30, 100, 1_000, 10_000];

struct Curve {
    arm: Arm,
    answers: Answers,
    seconds: Vec<Answers>,
    fan_out: FanOut,
}

pub(super) fn figure(view: &View<'_>) -> Option<Figure> {
    let deadline_ns = deadline_ns(view)?;
    let curves: Vec<Curve> =
        view.arms().into_iter().filter_map(|arm| curve(view, arm, deadline_ns)).collect();
    if curves.is_empty() {
        return None;
    }
    let bottom = HEIGHT - FOOT;
    let level = Axis::new(Scale::Log, Unit::Plain, (1.0, SERVERS_MAX), (LEFT, RIGHT));
    let upright = Axis::new(Scale::Linear, Unit::Percent, (0.0, 1.0), (bottom, TOP));
    let mut drawing = Drawing::new(HEIGHT);
    drawing.rows(&upright, "chance that all answer in time");
    drawing.columns(&level, TOP, bottom, "servers asked at once");
    let certain = upright.at(PROBABILITY);
    drawing.line("rule", (LEFT, certain), (RIGHT, certain));
    for curve in &curves {
        draw(&mut drawing, curve, &level, &upright);
    }
    let time = number::time(float(deadline_ns));
    let title = format!("Servers that can work in parallel within {time}{}", at_level(view));
    let finding = finding(view, &curves, &time);
    let svg = drawing.finish("fanout", &title, &finding);
    let reading = "A page that asks many servers is as slow as the slowest. Solid: for independent servers, the one to plan with. \
                   Pale: as if all were in the same second, which is higher the more late answers come bunched. Dashed rule: \
                   99 %. Marks: how many servers may be claimed at 99 %, by the unfavourable end of the interval.";
    let table = table(view, &curves);
    Some(Figure { id: "fanout", title, finding, reading, svg, table, has_arms: true })
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

fn curve(view: &View<'_>, arm: Arm, deadline_ns: u64) -> Option<Curve> {
    let mut seconds = Vec::new();
    let mut answers = Answers { late_count: 0, count: 0 };
    for run in view.shown(arm) {
        for saved in run.seconds {
            let of =
                Answers::within(&saved.second.response(), deadline_ns).of_which_failed(saved.second.faults());
            answers =
                Answers { late_count: answers.late_count + of.late_count, count: answers.count + of.count };
            seconds.push(of);
        }
        let lost = run.run.end.as_ref().map_or(0, |end| end.unanswered);
        answers = answers.and_lost(lost);
    }
    let late: Vec<u64> = seconds.iter().map(|second| second.late_count).collect();
    let all: Vec<u64> = seconds.iter().map(|second| second.count).collect();
    let inflation = inflation_of_events(&late, &all).max(1.0);
    let fan_out = FanOut::of(answers, inflation, PROBABILITY, Level::NINETY_FIVE)?;
    Some(Curve { arm, answers, seconds, fan_out })
}

fn draw(drawing: &mut Drawing, curve: &Curve, level: &Axis, upright: &Axis) {
    let class = curve.arm.class();
    let places = (0..=PLACES)
        .map(|place| whole(10_f64.powf(f64::from(place) / f64::from(PLACES) * SERVERS_MAX.log10())));
    let mut places: Vec<u64> = places.collect();
    places.dedup();
    let points = |of: &dyn Fn(u64) -> f64| -> Vec<(f64, f64)> {
        places.iter().map(|servers| (level.at(float(*servers)), upright.at(of(*servers)))).collect()
    };
    let together = |servers| all_in_time_same_second(&curve.seconds, servers).unwrap_or(0.0);
    drawing.curve(&format!("pale {class}"), &points(&together));
    let share = curve.answers.late_share();
    let apart = |servers| all_in_time(share, servers);
    drawing.curve(&format!("line {class}"), &points(&apart));
    let claimed = curve.fan_out.servers_claimed;
    if claimed >= 1 {
        let place = (level.at(float(claimed)), upright.at(PROBABILITY));
        let told = format!("at least {} servers at 99 %", number::count(claimed));
        drawing.mark(class, curve.arm == Arm::B, place, &told);
        drawing.text(
            &format!("tag {class}"),
            (place.0 + 8.0, place.1 + 20.0),
            Anchor::Start,
            &number::count(claimed),
        );
    }
}

fn whole(servers: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and SERVERS_MAX")]
    let servers = servers.round() as u64;
    servers
}

fn finding(view: &View<'_>, curves: &[Curve], time: &str) -> String {
    let sentences = curves.iter().map(|curve| {
        let of = named(view, curve.arm, "");
        let of = if of.is_empty() { String::new() } else { format!("{of}: ") };
        let claimed = curve.fan_out.servers_claimed;
        let measured = curve.fan_out.servers.map_or_else(|| "any number".to_owned(), number::count);
        format!(
            "{of}{} of the answers came later than {time}; all of at least {} servers answer in time with 99 % ({measured} by \
             the measured share).",
            number::percent_small(curve.answers.late_share()),
            number::count(claimed)
        )
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn table(view: &View<'_>, curves: &[Curve]) -> Table {
    let mut head = vec!["servers".to_owned()];
    for curve in curves {
        head.extend(["independent", "same second"].map(|what| named(view, curve.arm, what)));
    }
    let mut table = Table::new(head);
    for servers in SHOWN {
        let mut row = vec![number::count(servers)];
        for curve in curves {
            row.push(number::percent(all_in_time(curve.answers.late_share(), servers)));
            let together = all_in_time_same_second(&curve.seconds, servers);
            row.push(together.map_or_else(|| "–".to_owned(), number::percent));
        }
        table.rows.push(row);
    }
    table
}
