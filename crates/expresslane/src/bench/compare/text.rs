//! A comparison in 80 columns, and as JSON.

use load::analysis::Metric;
use load::analysis::comparison::{Compared, Comparison};
use load::statistics::verdict::{Answer, Word};

/// Everything that is said at the end.
pub(super) fn text(comparison: &Comparison) -> String {
    let declared = &comparison.declared;
    let counted = comparison.pairs.iter().filter(|pair| pair.dropped.is_empty()).count();
    let mut text = format!("\n{}\n\n", sentence(comparison));
    if let Some(floor) = &comparison.floor {
        let smallest = floor.smallest_effect(counted.max(2), load::statistics::Level::NINETY_FIVE);
        text += &format!(
            "noise of this machine: {} of {} differs by {:.1} % from run to run; {counted} pairs show {:.1} % or more\n\n",
            declared.metric,
            declared.name_a,
            floor.log_deviation * 100.0,
            smallest * 100.0
        );
    }
    text += &format!(
        "{:<11}{:>13}{:>13}{:>9}  {:<17}{}\n",
        "",
        cut(&declared.name_a),
        cut(&declared.name_b),
        "change",
        "95 % interval",
        "verdict"
    );
    for compared in &comparison.metrics {
        text += &row(compared);
    }
    text += "\n";
    for (claim, answer) in &comparison.claims {
        let word = match answer {
            Some(Answer::Holds) => "holds",
            Some(Answer::Fails) => "fails",
            Some(Answer::CantTell) | None => "can't tell",
        };
        text += &format!("claim: {claim}: {word}\n");
    }
    for row in comparison.unexplained() {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "not exposed".to_owned());
        text += &format!(
            "differs undeclared, so no claim stands: {}/{}: {} | {}\n",
            row.group,
            row.name,
            value(&row.a),
            value(&row.b)
        );
    }
    for pair in comparison.pairs.iter().filter(|pair| !pair.dropped.is_empty()) {
        let why: Vec<&str> = pair.dropped.iter().map(|gate| gate.words.as_str()).collect();
        text += &format!("dropped pair {}: {}\n", pair.number, why.join("; "));
    }
    text += &format!("{counted} of {} pairs count\n", comparison.pairs.len());
    text
}

/// The answer in a sentence.
fn sentence(comparison: &Comparison) -> String {
    let declared = &comparison.declared;
    let primary = comparison.primary();
    let (Some(change), Some(verdict)) = (&primary.change, &primary.verdict) else {
        return format!("Nothing can be told: {} pairs count, and six are needed.", primary.pairs.len());
    };
    let interval = change.share_interval();
    let span = format!(
        "{:+.1} % ({:+.1} to {:+.1})",
        change.share() * 100.0,
        interval.low * 100.0,
        interval.high * 100.0
    );
    let (a, b, metric) = (&declared.name_a, &declared.name_b, primary.metric);
    match verdict.word {
        Word::CantTell => {
            let needed =
                verdict.pairs_needed.map_or_else(String::new, |count| format!("; {count} pairs would tell"));
            format!("Can't tell whether {b} differs from {a}: {metric} {span}{needed}.")
        }
        Word::Same => {
            format!("{b} is the same as {a} within {:.0} %: {metric} {span}.", verdict.margin.share() * 100.0)
        }
        word => format!("{b} is {word} than {a}: {metric} {span}."),
    }
}

fn row(compared: &Compared) -> String {
    let Some((a, b)) = compared.medians() else { return String::new() };
    let mut row = format!(
        "{:<11}{:>13}{:>13}",
        compared.metric.to_string(),
        value(compared.metric, a),
        value(compared.metric, b)
    );
    match (&compared.change, &compared.verdict) {
        (Some(change), Some(verdict)) => {
            let interval = change.share_interval();
            let span = format!("{:+.1} .. {:+.1}", interval.low * 100.0, interval.high * 100.0);
            row += &format!("{:>8.1}%  {span:<17}{}", change.share() * 100.0, verdict.word);
        }
        _ => row += "        -  too few tell it",
    }
    row.push('\n');
    row
}

/// A value with its unit.
pub(super) fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Throughput => format!("{value:.0}/s"),
        Metric::Wobble => format!("{:.1} %", value * 100.0),
        _ => format!("{:.1} us", value / 1000.0),
    }
}

fn cut(name: &str) -> String {
    name.chars().take(12).collect()
}

/// One object.
pub(super) fn json(comparison: &Comparison) -> String {
    let metrics: Vec<serde_json::Value> = comparison
        .metrics
        .iter()
        .map(|compared| {
            serde_json::json!({
                "metric": compared.metric,
                "pairs": compared.pairs,
                "medians": compared.medians(),
                "change": compared.change,
                "verdict": compared.verdict,
            })
        })
        .collect();
    let dropped: Vec<serde_json::Value> = comparison
        .pairs
        .iter()
        .filter(|pair| !pair.dropped.is_empty())
        .map(|pair| serde_json::json!({ "pair": pair.number, "gates": pair.dropped }))
        .collect();
    let claims: Vec<serde_json::Value> = comparison
        .claims
        .iter()
        .map(|(claim, answer)| serde_json::json!({ "claim": claim, "answer": answer }))
        .collect();
    let object = serde_json::json!({
        "declared": comparison.declared,
        "floor": comparison.floor,
        "metrics": metrics,
        "claims": claims,
        "answer": comparison.answer(),
        "dropped": dropped,
        "unexplained": comparison.unexplained().collect::<Vec<_>>(),
    });
    format!("{object}\n")
}
