//! Experiments in 80 columns, and as JSON.

use std::time::Duration;

use load::experiments::{Evaluation, Finding, Id, Planned, Preset, Row, Scale, State, Unit, ingredients};

/// Columns of a line.
const WIDTH: usize = 80;

/// How long it is going to take, before it begins: a line an experiment, and what they are together.
pub(in crate::bench) fn schedule(plans: &[Planned]) -> Vec<String> {
    let shown =
        |seconds: f64| humantime::format_duration(Duration::from_secs_f64(seconds.round())).to_string();
    let line = |planned: &Planned| {
        let Scale { pairs, level_s, levels, .. } = &planned.scale;
        let runs = match levels.len() {
            0 => format!("{level_s} s each"),
            count => format!("{count} levels of {level_s} s each"),
        };
        let (arms, all) = (planned.arms.len(), shown(planned.load_s()));
        let plural = if *pairs == 1 { "" } else { "s" };
        format!("{}: {pairs} pair{plural} of {arms} set-ups, {runs}: {all} of load", planned.id)
    };
    let all_s: f64 = plans.iter().map(Planned::load_s).sum();
    let spare = if plans.iter().any(|planned| !planned.scale.is_quick) {
        ", and up to half as much again for pairs that are dropped"
    } else {
        ""
    };
    let together = format!(
        "{} of load in all; on top of it servers start and are given their keys{spare}",
        shown(all_s)
    );
    plans.iter().map(line).chain([together]).collect()
}

/// All that is said of one experiment.
pub(in crate::bench) fn text(evaluation: &Evaluation) -> String {
    let planned = &evaluation.planned;
    let preset = Preset::of(planned.id);
    let mark = if planned.scale.is_quick { "quick " } else { "" };
    let mut page = Page { text: String::new(), mark };
    page.text.push('\n');
    page.line("", &format!("{} {}", planned.id, preset.title));
    page.line("  ", &format!("published: {}: {}", preset.source, preset.compared));
    page.line("  ", &evaluation.sentence());
    if let Some(cut) = evaluation.cut() {
        page.line("  ", &cut);
    }
    for why in &planned.mismatches {
        page.line("  not comparable: ", why);
    }
    let header = row_text("", "published", "from", "to", "change");
    page.text += &format!("{mark}{header}\n");
    let mut step = None;
    for row in &evaluation.rows {
        if planned.id != Id::E5 && row.step.is_whole && step.as_ref() != Some(&row.step) {
            let name = |arm: &str| planned.arm(arm).map_or(String::new(), |arm| arm.name.clone());
            let apart = match (row.step.published.is_empty(), planned.stands_in(&row.step)) {
                (true, _) => " (was not published)",
                (false, true) => " (was published of another protocol)",
                (false, false) => "",
            };
            page.line("  ", &format!("from {} to {}{apart}", name(&row.step.from), name(&row.step.to)));
            step = Some(row.step.clone());
        }
        page.row(row, planned.stands_in(&row.step));
    }
    if evaluation.rows.iter().any(|row| row.is_doubtful) {
        page.line("  ", "?: not one pair counts, so nothing is concluded; what was dropped stands below");
    }
    if planned.id == Id::E5 {
        for ingredient in ingredients(evaluation.planned.agents_count > 0) {
            let state = match ingredient.state {
                State::Always => "always",
                State::Switched => "switched",
                State::Missing => "missing",
            };
            page.line(
                "  ",
                &format!("{}. {}: {state}: {}", ingredient.number, ingredient.name, ingredient.why),
            );
        }
    }
    for limited in &evaluation.limited {
        let name = planned.arm(&limited.arm).map_or("", |arm| &arm.name);
        page.line(
            "  load-limited: ",
            &format!("{name}, {} of {} runs: {}", limited.count, limited.of, limited.words),
        );
    }
    for tuned in &planned.tuned {
        page.line("  on both sides: ", &format!("{}: {}", tuned.what, tuned.how));
    }
    for row in &planned.shrunk {
        page.line("  ", &format!("{}: {} -> {}", row.what, row.published, row.here));
    }
    for missing in &planned.missing {
        page.line("  not here: ", &format!("{}: {}", missing.what, missing.why));
    }
    if let Some(check) = &evaluation.readers_check {
        page.line("  reader's check of the published figures: ", check);
    }
    for (arm, pair, why) in &evaluation.dropped {
        page.line("  dropped: ", &format!("{arm}, pair {}: {why}", pair + 1));
    }
    page.text
}

/// A line an experiment, after all of them.
pub(in crate::bench) fn ending(evaluations: &[Evaluation]) -> String {
    let mut text = "\n".to_owned();
    for evaluation in evaluations {
        let mark = if evaluation.planned.scale.is_quick { "quick " } else { "" };
        let word = match evaluation.finding {
            Finding::Reproduced => "reproduced".to_owned(),
            Finding::NotReproduced => "not reproduced".to_owned(),
            Finding::CantTell => "can't tell".to_owned(),
            Finding::StandIn(None) => "no repetition; too few pairs to tell".to_owned(),
            Finding::StandIn(Some(word)) => format!("no repetition; {word}"),
        };
        text += &format!("{mark}{}: {word}\n", evaluation.planned.id);
    }
    text
}

/// One array.
pub(in crate::bench) fn json(evaluations: &[Evaluation]) -> String {
    let text = serde_json::to_string(evaluations).expect("evaluations have text for keys");
    format!("{text}\n")
}

struct Page {
    text: String,
    /// Stands in front of every line.
    mark: &'static str,
}

impl Page {
    /// A sentence, broken where it is too long.
    fn line(&mut self, before: &str, sentence: &str) {
        let mut line = format!("{}{before}", self.mark);
        let mut is_empty = true;
        for word in sentence.split_whitespace() {
            if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.text += line.trim_end();
                self.text.push('\n');
                line = format!("{}    ", self.mark);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line += word;
            is_empty = false;
        }
        self.text += line.trim_end();
        self.text.push('\n');
    }

    fn row(&mut self, row: &Row, is_stand_in: bool) {
        let shown: Vec<String> = row.published.iter().map(|value| number(*value, row.unit)).collect();
        let published = match (shown.is_empty(), is_stand_in) {
            (true, _) => "-".to_owned(),
            (false, true) => format!("({})", shown.join(" > ")),
            (false, false) => shown.join(" > "),
        };
        let doubt = if row.is_doubtful { "?" } else { "" };
        let value = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{}{doubt}", number(value, row.unit)))
        };
        let change = match (&row.change, row.from, row.to) {
            (Some(change), ..) => format!("{:+.1} %", change.share() * 100.0),
            _ => String::new(),
        };
        let name = match row.unit {
            Unit::Time => format!("{}, µs", row.name),
            _ => row.name.clone(),
        };
        self.text += self.mark;
        self.text += row_text(&name, &published, &value(row.from), &value(row.to), &change).trim_end();
        self.text.push('\n');
        if let Some(change) = &row.change {
            let interval = change.share_interval();
            let word = row.verdict.map_or_else(|| "neither way is good".to_owned(), |it| it.to_string());
            let limited = match row.is_load_limited {
                [false, false] => "",
                [false, true] => ", load-limited (to)",
                [true, false] => ", load-limited (from)",
                [true, true] => ", load-limited",
            };
            let headline =
                row.headline_percent.map_or_else(String::new, |it| format!(", headline {it:+.0} %"));
            self.line(
                "    ",
                &format!(
                    "95 %: {:+.1} .. {:+.1}: {word}{limited}{headline}",
                    interval.low * 100.0,
                    interval.high * 100.0
                ),
            );
        }
    }
}

/// The columns of a row: 74, and six for the mark.
fn row_text(name: &str, published: &str, from: &str, to: &str, change: &str) -> String {
    format!("  {name:<25}{published:>20}{from:>9}{to:>9}{change:>9}")
}

/// A value in few digits.
fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Time => short(value / 1000.0),
        Unit::PerSecond => short(value),
        Unit::Share => format!("{:.1} %", value * 100.0),
        Unit::Ratio => format!("{value:.2}"),
    }
}

fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} M", value / 1e6),
        value if value >= 1_000.0 => format!("{value:.0}"),
        value if value >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::experiments::{Measured, Offer};

    fn planned(id: Id, is_quick: bool) -> Planned {
        let preset = Preset::of(id);
        let scale = Scale::new(preset, is_quick, 1, 1, 64 << 30);
        let offer = Offer {
            peer: "redis-server".to_owned(),
            price: Some(1_000.0),
            cpus_count: 2,
            server_cpus_count: 1,
            links: Ok(()),
            io_uring: Ok(()),
            agents_count: 0,
            nodes_count: 1,
            has_irqbalance: false,
        };
        Planned::new(preset, scale, &offer)
    }

    /// Both set-ups' round trips rise with the connections; B's by half as much.
    fn evaluation(id: Id, is_quick: bool, pairs: u32) -> Evaluation {
        let (preset, planned) = (Preset::of(id), planned(id, is_quick));
        let levels: Vec<Option<u32>> = match preset.sweep.levels() {
            [] => vec![None],
            levels => levels.iter().copied().map(Some).collect(),
        };
        let mut runs = Vec::new();
        for pair in 0..pairs {
            for (at, arm) in (1_u32..).zip(&planned.arms) {
                for level in &levels {
                    let mean_ns = f64::from(level.unwrap_or(50)) * 20_000.0 / f64::from(at);
                    runs.push(Measured {
                        experiment: id.to_string(),
                        arm: arm.arm.clone(),
                        pair,
                        level: level.map(f64::from),
                        connection_count: preset.connections_at(*level),
                        per_second: 1e9 / mean_ns,
                        mean_ns,
                        get_mean_ns: Some(mean_ns),
                        set_mean_ns: Some(mean_ns),
                        p99_ns: Some(mean_ns),
                        is_whole: true,
                        ..Measured::default()
                    });
                }
            }
        }
        Evaluation::of(&planned, &runs)
    }

    #[test]
    fn every_line_of_the_quick_form_says_so_and_none_is_too_long() {
        for id in Id::ALL {
            for (is_quick, pairs) in [(true, 3), (false, 10), (false, 0)] {
                let evaluation = evaluation(id, is_quick, pairs);
                for line in text(&evaluation).lines().filter(|line| !line.is_empty()) {
                    assert_eq!(line.starts_with("quick "), is_quick, "{line}");
                    assert!(line.chars().count() <= WIDTH, "{}: {line}", line.chars().count());
                }
            }
        }
    }

    /// Without the breaks of its lines.
    fn in_a_row(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn published_figures_stand_back_where_another_protocol_was_measured() {
        for id in Id::ALL {
            let text = text(&evaluation(id, false, 10));
            assert!(!text.contains("RESP stand-in"), "{text}");
            assert_eq!(
                in_a_row(&text).contains("(was published of another protocol)"),
                id == Id::E2,
                "{text}"
            );
            assert!(!text.contains("eproduced"), "{text}");
        }
        let tail = in_a_row(&text(&evaluation(Id::E2, false, 10)));
        let own = tail.find(" 600.0 > 320.0 ").unwrap();
        let peer = tail.find("from redis-server in RESP to expresslane in RESP (was").unwrap();
        assert!(own < peer && peer < tail.find("(600.0 > 320.0)").unwrap(), "{tail}");
        let sweep = text(&evaluation(Id::E1, false, 10));
        for want in [
            "739.0 > 229.0",
            "605.5    302.8  -50.0 %",
            "95 %: -50.0 .. -50.0: better, headline -50 %",
            "instances: 94 -> 1",
            "79,601/s × 382 µs = 30 in flight",
            "not here: the change from without to with ADQ",
        ] {
            assert!(sweep.contains(want), "{want}: {sweep}");
        }
    }

    #[test]
    fn how_long_it_takes_is_said_beforehand() {
        let full = schedule(&Id::ALL.map(|id| planned(id, false)));
        assert_eq!(full.len(), 6);
        assert_eq!(full[0], "E1: 10 pairs of 2 set-ups, 10 levels of 32 s each: 1h 46m 40s of load");
        assert!(full[5].contains(" of load in all; ") && full[5].contains("half as much again"), "{full:?}");
        let mut one = planned(Id::E2, true);
        one.scale.pairs = 1;
        assert_eq!(schedule(&[one])[0], "E2: 1 pair of 6 set-ups, 4 s each: 24s of load");
        let quick = schedule(&[planned(Id::E1, true), planned(Id::E2, true)]);
        assert_eq!(quick[0], "E1: 3 pairs of 2 set-ups, 10 levels of 3 s each: 3m of load");
        assert_eq!(quick[1], "E2: 3 pairs of 6 set-ups, 4 s each: 1m 12s of load");
        assert_eq!(quick[2], "4m 12s of load in all; on top of it servers start and are given their keys");
    }

    #[test]
    fn the_ladder_names_all_ten_ingredients() {
        let text = text(&evaluation(Id::E5, true, 3));
        assert!(text.contains("1. shared nothing: always") && text.contains("10. a socket's card"), "{text}");
        assert!(text.contains("+ client routes") && text.contains("200.0"), "{text}");
        assert!(!text.contains("Cut short"), "{text}");
        assert!(
            super::text(&evaluation(Id::E5, true, 1)).contains("of 3 pairs that were planned, 1 ran whole")
        );
        assert!(ending(&[evaluation(Id::E5, true, 3)]).contains("quick E5: no repetition; too few pairs"));
    }
}
