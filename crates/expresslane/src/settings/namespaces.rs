//! Namespaces beside Redis' databases: `[[namespace]]` in the configuration file, or one for each dialect from its flags.

use lane::{NAMESPACES_MAX, Namespace, Namespaces};
use toml::{Table, Value};
use wire::aerospike::TTL_MAX_S;

use super::file::meant;
use super::value::{bucket_name, record_namespace};
use super::{ServeSettings, Size};

/// The list of them in the file.
pub(super) const LIST: &str = "namespace";

const NAME: &str = "name";
const FUNCTION: &str = "function";
const DEFAULT_TTL: &str = "default-ttl";
const PLACEMENT: &str = "placement";
const MEMORY_SHARE: &str = "memory-share";
const KEYS: [&str; 5] = [NAME, FUNCTION, DEFAULT_TTL, MEMORY_SHARE, PLACEMENT];

/// A namespace as the file lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    kind: Kind,
    namespace: Namespace,
}

/// Whose clients name it, and so which partition function it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Aerospike,
    Couchbase,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Aerospike => "aerospike",
            Kind::Couchbase => "couchbase",
        }
    }
}

/// Reads the file's list. An error is one sentence that says what to change.
pub(super) fn read(list: &Value) -> Result<Vec<Listed>, String> {
    let form = || format!("namespaces are a list: write each under [[{LIST}]], with two brackets");
    let tables = list.as_array().ok_or_else(form)?;
    let mut all: Vec<Listed> = Vec::new();
    for table in tables {
        let listed = listed(table.as_table().ok_or_else(form)?)?;
        let alike = |other: &&Listed| other.kind == listed.kind;
        if all.iter().filter(alike).any(|other| other.namespace.name == listed.namespace.name) {
            return Err(format!(
                "two namespaces of function {} have the name `{}`: give one of them another",
                listed.kind.name(),
                listed.namespace.name
            ));
        }
        if all.iter().filter(alike).count() == NAMESPACES_MAX {
            return Err(format!(
                "there are more than {NAMESPACES_MAX} namespaces of function {}: remove some",
                listed.kind.name()
            ));
        }
        all.push(listed);
    }
    Ok(all)
}

fn listed(table: &Table) -> Result<Listed, String> {
    if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let hint = meant(key, KEYS.into_iter()).map(|it| format!("; did you mean `{it}`?"));
        let all = || format!("; there are `{}`", KEYS.join("`, `"));
        return Err(format!("there is no key `{key}` under [[{LIST}]]{}", hint.unwrap_or_else(all)));
    }
    let Some(name) = table.get(NAME) else {
        return Err(format!(
            "a [[{LIST}]] has no `{NAME}`: add what clients call it, such as {NAME} = \"users\""
        ));
    };
    let name = name.as_str().ok_or_else(|| format!("`{NAME}` under [[{LIST}]] is a string in quotes"))?;
    let wrong = |what: String| format!("namespace `{name}`: {what}");
    let word = |key: &str, rule: &str| match table.get(key) {
        None => Ok(None),
        Some(Value::String(word)) => Ok(Some(word.as_str())),
        Some(_) => Err(wrong(format!("`{key}` is {rule}"))),
    };
    const FUNCTION_RULE: &str = "\"aerospike\" or \"couchbase\"";
    let kind = match word(FUNCTION, FUNCTION_RULE)? {
        Some("aerospike") => Kind::Aerospike,
        Some("couchbase") => Kind::Couchbase,
        Some("redis") => {
            return Err(wrong(format!(
                "Redis' clients name no namespace, they have numbered databases (`databases` under [serve]); \
                 `{FUNCTION}` is {FUNCTION_RULE}"
            )));
        }
        Some(other) => return Err(wrong(format!("`{FUNCTION}` is {FUNCTION_RULE}, not \"{other}\""))),
        None => return Err(wrong(format!("it has no `{FUNCTION}`, which is {FUNCTION_RULE}"))),
    };
    match word(PLACEMENT, "\"owned\"")? {
        None | Some("owned") => {}
        Some("copied") => {
            return Err(wrong(format!(
                "`{PLACEMENT}` \"copied\" is not served yet: no namespace has copies; leave it out, or say \"owned\""
            )));
        }
        Some(other) => return Err(wrong(format!("`{PLACEMENT}` is \"owned\", not \"{other}\""))),
    }
    match kind {
        Kind::Aerospike => record_namespace(name).map(drop)?,
        Kind::Couchbase => bucket_name(name).map(drop)?,
    }
    let default_ttl_s =
        number(table, DEFAULT_TTL, 0, TTL_MAX_S, "a whole number of seconds").map_err(wrong)?;
    let share = number(table, MEMORY_SHARE, 1, 100, "a whole percentage of maxmemory").map_err(wrong)?;
    let namespace = Namespace {
        name: name.to_owned(),
        default_ttl_s: default_ttl_s.unwrap_or(0),
        memory_share: share.map(|percent| u8::try_from(percent).expect("at most 100")),
    };
    Ok(Listed { kind, namespace })
}

fn number(table: &Table, key: &str, min: u32, max: u32, what: &str) -> Result<Option<u32>, String> {
    let Some(value) = table.get(key) else { return Ok(None) };
    let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
    match number.filter(|number| (min..=max).contains(number)) {
        None => Err(format!("`{key}` is {what} from {min} to {max}")),
        number => Ok(number),
    }
}

/// The namespaces of the server: those of the file, and where it lists none of a function the one of the flags. An error
/// is a sentence that says what to change.
pub(crate) fn namespaces(settings: &ServeSettings) -> Result<Namespaces, String> {
    let has_share = |listed: &&Listed| listed.namespace.memory_share.is_some();
    if let (Some(listed), Size(0)) = (settings.namespaces.iter().find(has_share), settings.maxmemory) {
        return Err(format!(
            "namespace `{}` has a share of maxmemory, and there is none: set --maxmemory, or remove its `{MEMORY_SHARE}`",
            listed.namespace.name
        ));
    }
    let flags =
        |flags: &[(&'static str, bool)]| flags.iter().find(|(_, is_set)| *is_set).map(|(flag, _)| *flag);
    let of = |kind: Kind, set_flag: Option<&str>, whose: &str, is_open: bool, one: Namespace| {
        let listed: Vec<Namespace> = settings
            .namespaces
            .iter()
            .filter(|listed| listed.kind == kind)
            .map(|listed| listed.namespace.clone())
            .collect();
        let function = kind.name();
        match (listed.first(), set_flag) {
            (None, _) => Ok(vec![one]),
            (Some(_), Some(flag)) => Err(format!(
                "{flag} is for the one namespace of function {function}, and the file lists some under [[{LIST}]]: \
                 keep one or the other"
            )),
            (Some(first), None) if !is_open => Err(format!(
                "namespace `{}` can't be reached, for it is {whose}, who have no port: open one with --{function}, or \
                 remove it",
                first.name
            )),
            _ => Ok(listed),
        }
    };
    let bucket = settings.couchbase_bucket.as_deref().unwrap_or("default");
    let buckets = of(
        Kind::Couchbase,
        flags(&[("--couchbase-bucket", settings.couchbase_bucket.is_some())]),
        "for Couchbase's and memcached's clients",
        settings.couchbase_ports().or(settings.memcached_ports()).is_some(),
        Namespace::new(bucket),
    )?;
    let name = settings.aerospike_namespace.unwrap_or_default();
    let default_ttl_s = settings.aerospike_default_ttl.unwrap_or(0);
    let of_records = of(
        Kind::Aerospike,
        flags(&[
            ("--aerospike-namespace", settings.aerospike_namespace.is_some()),
            ("--aerospike-default-ttl", settings.aerospike_default_ttl.is_some()),
        ]),
        "for Aerospike's clients",
        settings.aerospike_ports().is_some(),
        Namespace { default_ttl_s, ..Namespace::new(name.as_str()) },
    )?;
    Ok(Namespaces::new(buckets, of_records))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Verb, parse};

    fn serve_with(flags: &[&str], file: &str) -> Result<Namespaces, String> {
        let arguments =
            ["expresslane", "serve", "--config", "lanes.toml"].iter().chain(flags).map(Into::into);
        match parse(arguments, |_| Ok(file.to_owned())) {
            Ok(Verb::Serve(settings)) => namespaces(&settings),
            Err(crate::settings::Refusal::File(problem)) => Err(problem),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn refused(flags: &[&str], file: &str, want: &str) {
        let problem = serve_with(flags, file).expect_err("it must be refused");
        assert!(problem.contains(want), "{problem}");
        assert!(!problem.contains('\n'), "more than a sentence: {problem}");
    }

    const ONE: &str = "[[namespace]]\nname = \"users\"\nfunction = \"aerospike\"\n";

    #[test]
    fn flags_stand_for_one_namespace_of_each_function() {
        assert_eq!(serve_with(&[], ""), Ok(Namespaces::default()));
        let flags = ["--couchbase-bucket", "b", "--aerospike-namespace", "n", "--aerospike-default-ttl", "7"];
        let records = Namespace { default_ttl_s: 7, ..Namespace::new("n") };
        assert_eq!(serve_with(&flags, ""), Ok(Namespaces::new(vec![Namespace::new("b")], vec![records])));
    }

    #[test]
    fn the_file_lists_several() {
        let file = "[serve]\naerospike = true\nmemcached = true\n\
                    [[namespace]]\nname = \"test\"\nfunction = \"aerospike\"\nplacement = \"owned\"\n\
                    [[namespace]]\nname = \"test\"\nfunction = \"couchbase\"\ndefault-ttl = 60\n\
                    [[namespace]]\nname = \"users\"\nfunction = \"aerospike\"\ndefault-ttl = 0\n";
        let bucket = Namespace { default_ttl_s: 60, ..Namespace::new("test") };
        let want = Namespaces::new(vec![bucket], vec![Namespace::new("test"), Namespace::new("users")]);
        assert_eq!(serve_with(&[], file), Ok(want));
        let name = |number: usize| ONE.replace("users", &format!("n{number}"));
        let list = |count: usize| (0..count).map(name).collect::<String>();
        assert!(serve_with(&["--aerospike"], &list(NAMESPACES_MAX)).is_ok());
        refused(
            &["--aerospike"],
            &list(NAMESPACES_MAX + 1),
            "there are more than 16 namespaces of function aerospike",
        );
    }

    #[test]
    fn a_share_is_one_of_a_limit() {
        let file = format!("{ONE}memory-share = 30\n");
        let users = Namespace { memory_share: Some(30), ..Namespace::new("users") };
        let want = Namespaces::new(vec![Namespace::new("default")], vec![users]);
        assert_eq!(serve_with(&["--aerospike", "--maxmemory", "1gb"], &file), Ok(want));
        let lacks = "namespace `users` has a share of maxmemory, and there is none: set --maxmemory";
        refused(&["--aerospike"], &file, lacks);
    }

    #[test]
    fn what_is_wrong_in_the_list_is_named() {
        let with = |line: &str| format!("{ONE}{line}\n");
        for (file, want) in [
            (
                with("colour = 1"),
                "lanes.toml: there is no key `colour` under [[namespace]]; there are `name`, ",
            ),
            (with("place = \"owned\""), "no key `place` under [[namespace]]; did you mean `placement`?"),
            (
                ONE.repeat(2),
                "two namespaces of function aerospike have the name `users`: give one of them another",
            ),
            ("[[namespace]]\nfunction = \"aerospike\"\n".to_owned(), "a [[namespace]] has no `name`: add "),
            ("[[namespace]]\nname = 7\n".to_owned(), "`name` under [[namespace]] is a string in quotes"),
            (
                "[[namespace]]\nname = \"a\"\n".to_owned(),
                "namespace `a`: it has no `function`, which is \"aerospike\" or",
            ),
            (
                ONE.replace("aerospike", "redis"),
                "namespace `users`: Redis' clients name no namespace, they have numbered",
            ),
            (ONE.replace("aerospike", "crc"), "`function` is \"aerospike\" or \"couchbase\", not \"crc\""),
            (ONE.replace("\"aerospike\"", "1"), "`function` is \"aerospike\" or \"couchbase\""),
            (ONE.replace("users", "a/b"), "a namespace's name has 1 to 31 letters"),
            (
                ONE.replace("aerospike", "couchbase").replace("users", "a/b"),
                "a bucket's name has 1 to 100 letters",
            ),
            (with("placement = \"copied\""), "`placement` \"copied\" is not served yet"),
            (with("placement = \"here\""), "`placement` is \"owned\", not \"here\""),
            (with("default-ttl = -1"), "`default-ttl` is a whole number of seconds from 0 to 315360000"),
            (with("memory-share = 0"), "`memory-share` is a whole percentage of maxmemory from 1 to 100"),
            (with("memory-share = 101"), "`memory-share` is a whole percentage of maxmemory from 1 to 100"),
            (with("default-ttl = \"1h\""), "from 0 to 315360000"),
            ("[namespace]\nname = \"a\"\n".to_owned(), "write each under [[namespace]], with two brackets"),
            ("namespace = [1]\n".to_owned(), "write each under [[namespace]], with two brackets"),
        ] {
            refused(&["--aerospike"], &file, want);
        }
    }

    #[test]
    fn a_list_goes_with_its_dialect_and_without_the_flags_for_one() {
        refused(
            &[],
            ONE,
            "namespace `users` can't be reached, for it is for Aerospike's clients, who have no port: open",
        );
        let bucket = ONE.replace("aerospike", "couchbase");
        refused(&[], &bucket, "open one with --couchbase, or remove it");
        for (flag, value, file) in [
            ("--aerospike-namespace", "n", ONE),
            ("--aerospike-default-ttl", "1", ONE),
            ("--couchbase-bucket", "b", &bucket),
        ] {
            let want = format!("{flag} is for the one namespace of function");
            refused(&["--aerospike", "--couchbase", flag, value], file, &want);
        }
        // Those of the other function stay the flags'.
        let both = serve_with(&["--aerospike", "--couchbase-bucket", "b"], ONE);
        assert_eq!(both, Ok(Namespaces::new(vec![Namespace::new("b")], vec![Namespace::new("users")])));
    }
}
