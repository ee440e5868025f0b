//! The configuration file: TOML whose table `[serve]` holds flags' values under the flags' names, and whose list `[[namespace]]`
//! has no flags.

use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

use super::namespaces::{self, LIST, Listed};

/// The table of this verb. Other verbs get tables of their own in the same file.
pub(super) const TABLE: &str = "serve";
/// The table of a wish for the machine.
const LANES: &str = crate::lanes::TABLE;
/// Names at least so alike (0 to 1, Jaro-Winkler) are offered as the one that was meant.
const ALIKE_MIN: f64 = 0.8;

/// What a file says.
pub(super) struct Contents {
    /// Values by flag.
    pub(super) values: Vec<(String, Vec<String>)>,
    pub(super) namespaces: Vec<Listed>,
}

/// What `text` says. An error is one sentence that says what to change.
pub(super) fn read(text: &str, serve: &Command) -> Result<Contents, String> {
    let file: Table = text.parse().map_err(|error| {
        format!("{}; settings are lines such as `port = 6379` under [{TABLE}]", not_toml(text, &error))
    })?;
    let (mut values, mut namespaces) = (Vec::new(), Vec::new());
    for (name, value) in &file {
        match value {
            list if name == LIST => namespaces = namespaces::read(list)?,
            Value::Table(table) if name == TABLE => {
                for (key, value) in table {
                    values.push((key.clone(), value_of(serve, key, value)?));
                }
            }
            // `expresslane lanes` reads that one.
            Value::Table(_) if name == LANES => {}
            Value::Table(_) => {
                let hint =
                    meant(name, [TABLE, LANES].into_iter()).map(|it| format!("; did you mean [{it}]?"));
                return Err(format!("there is no table [{name}]{}", hint.unwrap_or_default()));
            }
            _ if name == TABLE || name == LANES => {
                return Err(format!("`{name}` is a table: its keys stand below a line [{name}]"));
            }
            _ if find(serve, name).is_some() => return Err(format!("`{name}` belongs under [{TABLE}]")),
            _ => return Err(unknown(serve, name)),
        }
    }
    Ok(Contents { values, namespaces })
}

/// The same command with the file's values as defaults, so that flags and environment still win over them.
pub(super) fn as_defaults(serve: Command, values: Vec<(String, Vec<String>)>) -> Command {
    values.into_iter().fold(serve, |serve, (key, values)| {
        let id = find(&serve, &key).expect("`read` has found it").get_id().clone();
        serve.mut_arg(id, |argument| argument.default_values(values))
    })
}

fn value_of(serve: &Command, key: &str, value: &Value) -> Result<Vec<String>, String> {
    let argument = find(serve, key).ok_or_else(|| unknown(serve, key))?;
    if key == "config" {
        return Err("`config` can't be set in the file itself".to_owned());
    }
    let wrong = || format!("`{key}` is a string, a whole number, true, false or a list of those");
    match value {
        // TOML has its own octal numbers, and hands on no more than the number.
        Value::Integer(_) if key == "unixsocketperm" => {
            Err(format!("`{key}` is octal: put it in quotes, such as \"770\""))
        }
        Value::Boolean(_) if key == "requirepass" => Err(format!("`{key}` is a string: put it in quotes")),
        Value::Array(list) => {
            let parts: Option<Vec<String>> = list.iter().map(plain).collect();
            let parts = parts.ok_or_else(wrong)?;
            // A flag that takes one value of several parts has them with commas between.
            Ok(if matches!(argument.get_action(), ArgAction::Append) { parts } else { vec![parts.join(",")] })
        }
        value => plain(value).map(|text| vec![text]).ok_or_else(wrong),
    }
}

/// A value as it would stand behind the flag.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Boolean(true) => Some("yes".to_owned()),
        Value::Boolean(false) => Some("no".to_owned()),
        _ => None,
    }
}

pub(super) fn find<'a>(serve: &'a Command, key: &str) -> Option<&'a Arg> {
    serve.get_arguments().find(|argument| argument.get_long() == Some(key))
}

fn unknown(serve: &Command, key: &str) -> String {
    let hint = meant(key, serve.get_arguments().filter_map(Arg::get_long));
    let hint = hint.map_or_else(
        || "; `expresslane serve --help` lists them".to_owned(),
        |it| format!("; did you mean `{it}`?"),
    );
    format!("there is no key `{key}` under [{TABLE}]{hint}")
}

/// The name nearest to what was written.
pub(crate) fn meant<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let alike = names.map(|name| (strsim::jaro_winkler(written, name), name));
    alike.filter(|(alike, _)| *alike >= ALIKE_MIN).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// Where and why the text is not TOML, in one line.
pub(crate) fn not_toml(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
    let at = line.map(|line| format!(" in line {line}")).unwrap_or_default();
    let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    format!("not TOML{at}: {message}")
}
