//! What the parser's own messages leave open: that a wrong value came from the environment, what a word without a flag
//! was meant to be, and that a variable is none of ours.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use super::file::{self, meant};

/// What every variable begins with.
const PREFIX: &str = "EXPRESSLANE_";

/// The environment variable of a flag.
pub(super) fn variable(flag: &str) -> String {
    format!("{PREFIX}{}", flag.to_uppercase().replace('-', "_"))
}

/// The same error with what the user may not see in it.
pub(super) fn explained(mut error: clap::Error, arguments: &[OsString], serve: &Command) -> clap::Error {
    // Other verbs have flags of the same names.
    if arguments.get(1).is_none_or(|verb| verb != serve.get_name()) {
        return error;
    }
    let Some(ContextValue::String(subject)) = error.get(ContextKind::InvalidArg) else { return error };
    let hint = match error.kind() {
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => origin(subject, arguments, serve),
        ErrorKind::UnknownArgument if !subject.starts_with('-') => Some(wanted(subject, serve)),
        _ => None,
    };
    if let Some(hint) = hint {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(hint)]));
    }
    error
}

/// For a value that the command line does not give.
fn origin(subject: &str, arguments: &[OsString], serve: &Command) -> Option<String> {
    // The subject is the flag and the name of its value.
    let flag = subject.split(' ').next()?;
    let argument = file::find(serve, flag.strip_prefix("--")?)?;
    let names = |word: &OsString| {
        let word = word.to_string_lossy();
        word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let name = argument.get_env()?.to_string_lossy();
    (!arguments.iter().any(names)).then(|| format!("the value is that of the environment variable {name}"))
}

/// For a word that no flag stands before, as `redis-server` takes one.
fn wanted(word: &str, serve: &Command) -> String {
    let flag = if word.parse::<u16>().is_ok() { "port" } else { "config" };
    debug_assert!(serve.get_arguments().any(|argument| argument.get_long() == Some(flag)));
    format!("every value has its flag: '--{flag} {word}'")
}

/// The sentence for variables that look like ours and are not, such as mistyped ones.
pub(super) fn strange(names: impl Iterator<Item = OsString>, serve: &Command) -> Option<String> {
    let known: Vec<String> = serve.get_arguments().filter_map(Arg::get_long).map(variable).collect();
    let mut strange: Vec<String> = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.starts_with(PREFIX) && !known.contains(name))
        .collect();
    strange.sort();
    match &strange[..] {
        [] => None,
        [name] => {
            let hint = meant(name, known.iter().map(String::as_str));
            let hint = hint.map(|it| format!("; did you mean {it}?")).unwrap_or_default();
            Some(format!("the environment variable {name} is no setting of serve and has no effect{hint}"))
        }
        names => Some(format!(
            "the environment variables {} are no settings of serve and have no effect",
            names.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{program, serve_of};

    #[test]
    fn a_variable_that_is_no_setting_is_named() {
        let check = |names: &[&str], want: Option<&str>| {
            let sentence = strange(names.iter().map(OsString::from), serve_of(&program()));
            assert_eq!(sentence.as_deref(), want);
        };
        check(&["PATH", "EXPRESSLANE_PORT", "EXPRESSLANE_LANE_PORTS", "EXPRESSLANE_CONFIG"], None);
        check(
            &["EXPRESSLANE_MAXMEM"],
            Some(
                "the environment variable EXPRESSLANE_MAXMEM is no setting of serve and has no effect; did you mean \
                 EXPRESSLANE_MAXMEMORY?",
            ),
        );
        check(
            &["EXPRESSLANE_Y", "PATH", "EXPRESSLANE_X"],
            Some(
                "the environment variables EXPRESSLANE_X, EXPRESSLANE_Y are no settings of serve and have no effect",
            ),
        );
    }

    #[test]
    fn a_value_that_no_flag_gave_came_from_the_environment() {
        let program = program();
        let origin = |arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            origin("--port <PORT>", &arguments, serve_of(&program))
        };
        let from_environment =
            Some("the value is that of the environment variable EXPRESSLANE_PORT".to_owned());
        assert_eq!(origin(&["serve"]), from_environment);
        assert_eq!(origin(&["serve", "--port-x", "1"]), from_environment);
        assert_eq!(origin(&["serve", "--port", "x"]), None);
        assert_eq!(origin(&["serve", "--port=x"]), None);
    }
}
