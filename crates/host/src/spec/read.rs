//! From the text of `lanes.toml` to a wish, and from what is wrong with it to sentences with the line.

use std::net::IpAddr;

use serde::{Deserialize, Deserializer};
use toml::de::{DeTable, DeValue};

use super::check::{At, Fault};
use super::{Problem, Spec};

/// Names at least so alike (0 to 1, Jaro-Winkler) are offered as the one that was meant.
const ALIKE_MIN: f64 = 0.7;

impl Spec {
    /// Reads a whole file and checks what can be checked without a machine.
    ///
    /// # Errors
    /// One sentence each, with the line: what is no TOML, an unknown key with the one that was meant, values out of range, lanes
    /// that contradict one another. What is no TOML or no key ends the reading, so that is one problem; contradictions come all
    /// together.
    pub fn parse(text: &str) -> Result<Spec, Vec<Problem>> {
        let spec: Spec = toml::from_str(text).map_err(|error| vec![Problem(sentence(text, &error))])?;
        let faults = spec.faults();
        if faults.is_empty() { Ok(spec) } else { Err(faults.iter().map(|it| located(text, it)).collect()) }
    }

    /// Checks a wish that came another way than by [`Spec::parse`], so there are no lines.
    ///
    /// # Errors
    /// One sentence each.
    pub fn check(&self) -> Result<(), Vec<Problem>> {
        let faults = self.faults();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults.into_iter().map(|it| Problem(it.sentence)).collect())
        }
    }
}

/// Addresses as the kernel writes them: a knob is compared as text, and `2001:DB8:0::1` would be read back as `2001:db8::1`. What is
/// no address is left for the check to name.
pub(super) fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Vec::<String>::deserialize(from)?.into_iter().map(canonical).collect())
}

/// As [`addresses`], of one.
pub(super) fn gateway<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(canonical))
}

fn canonical(text: String) -> String {
    text.parse::<IpAddr>().map_or(text, |it| it.to_string())
}

/// What serde says about a key lists all that there are, so no second list of keys is kept here.
fn sentence(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map(|span| format!("line {}: ", line_of(text, span.start))).unwrap_or_default();
    let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    let mut quoted = message.split('`').skip(1).step_by(2);
    match (message.split_once(" `"), quoted.next()) {
        (Some(("unknown field", _)), Some(key)) => {
            let known: Vec<&str> = quoted.collect();
            format!("{at}there is no key `{key}` here{}", hint(key, &known))
        }
        (Some(("unknown variant", _)), Some(word)) => {
            let known: Vec<&str> = quoted.collect();
            format!("{at}`{word}` is none of {}{}", known.join(", "), hint(word, &known))
        }
        (Some(("missing field", _)), Some(key)) => format!("{at}`{key}` is missing here"),
        _ => format!("{at}{message}"),
    }
}

fn hint(written: &str, known: &[&str]) -> String {
    match meant(written, known.iter().copied()) {
        Some(it) => format!("; did you mean `{it}`?"),
        None => format!("; there are {}", known.join(", ")),
    }
}

/// The name nearest to what was written.
pub(crate) fn meant<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let alike = names.map(|name| (strsim::jaro_winkler(written, name), name));
    alike.filter(|(alike, _)| *alike >= ALIKE_MIN).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// The sentence with the line of the key that it is about, or of the table where the key is not written.
fn located(text: &str, fault: &Fault) -> Problem {
    let line = offset_of(text, fault.at).map(|offset| format!("line {}: ", line_of(text, offset)));
    Problem(format!("{}{}", line.unwrap_or_default(), fault.sentence))
}

fn offset_of(text: &str, at: At) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let (name, index, key) = at.parts();
    let (table_key, value) = file.get_ref().get_key_value(name)?;
    let (start, table) = match value.get_ref() {
        DeValue::Table(table) => (table_key.span().start, table),
        DeValue::Array(tables) => match (tables.get(index)?.span(), tables.get(index)?.get_ref()) {
            (span, DeValue::Table(table)) => (span.start, table),
            _ => return None,
        },
        _ => return None,
    };
    Some(table.get_key_value(key).map_or(start, |(key, _)| key.span().start))
}
