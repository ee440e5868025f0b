//! Flags whose value is several words, as `redis-server` takes them: `--replicaof 10.0.0.1 6379 --save 900 1 --save 300 10`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Those flags, and what stands between the words of one value.
const FLAGS: [(&str, &str); 5] = [
    ("--bind", ","),
    ("--client-output-buffer-limit", " "),
    ("--replicaof", " "),
    ("--save", " "),
    ("--user", " "),
];

/// Of these the ones that may be given several times and mean all of it together.
const GATHERED: [&str; 2] = ["--client-output-buffer-limit", "--save"];

/// The same arguments, with one word for each such flag. Its value ends where another flag begins.
pub(super) fn joined(arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_none_or(|verb| verb != "serve") {
        return arguments;
    }
    let mut words = arguments.into_iter().peekable();
    let mut joined: Vec<OsString> = Vec::with_capacity(words.len());
    while let Some(word) = words.next() {
        let of_flag = FLAGS.into_iter().find_map(|(flag, between)| {
            let rest = word.as_bytes().strip_prefix(flag.as_bytes())?;
            let first = rest.strip_prefix(b"=").map(|first| OsStr::from_bytes(first).to_owned());
            (first.is_some() || rest.is_empty()).then_some((flag, between, first))
        });
        let Some((flag, between, first)) = of_flag else {
            joined.push(word);
            continue;
        };
        let mut values = Vec::from_iter(first);
        values.extend(std::iter::from_fn(|| words.next_if(is_value)));
        if values.is_empty() {
            joined.push(word);
            continue;
        }
        let value = values.join(OsStr::new(between));
        let start = format!("{flag}=");
        let is_earlier = |word: &&mut OsString| word.as_bytes().starts_with(start.as_bytes());
        let earlier = joined.iter_mut().find(is_earlier).filter(|_| GATHERED.contains(&flag));
        let adds = !value.is_empty() && earlier.as_ref().is_some_and(|earlier| earlier.len() > start.len());
        match earlier {
            Some(earlier) if adds => earlier.extend([between.as_ref(), &*value]),
            // An empty one takes back those before it.
            Some(earlier) => *earlier = OsString::from_iter([start.as_ref(), &*value]),
            None => joined.push(OsString::from_iter([start.as_ref(), &*value])),
        }
    }
    joined
}

/// Whether it is no flag: those of one letter are clap's own.
fn is_value(word: &OsString) -> bool {
    !word.as_bytes().starts_with(b"--") && word != "-h" && word != "-V"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, want: &[&str]) {
        let words = line.split(' ').map(|word| if word == "''" { "" } else { word }).map(OsString::from);
        assert_eq!(joined(words.collect()), want, "{line}");
    }

    #[test]
    fn words_up_to_the_next_flag_are_one_value() {
        check("x serve --replicaof host 1 --port 2", &["x", "serve", "--replicaof=host 1", "--port", "2"]);
        check("x serve --bind ::1 -10.0.0.1", &["x", "serve", "--bind=::1,-10.0.0.1"]);
        check("x serve --user a on -@all --user b", &["x", "serve", "--user=a on -@all", "--user=b"]);
        check("x serve --save ''", &["x", "serve", "--save="]);
        check("x serve --save --port 1", &["x", "serve", "--save", "--port", "1"]);
        check("x serve --save=1 2", &["x", "serve", "--save=1 2"]);
        check("x serve --save= --saved 1", &["x", "serve", "--save=", "--saved", "1"]);
        check("x serve --bind ::1 -h", &["x", "serve", "--bind=::1", "-h"]);
    }

    #[test]
    fn all_saves_are_one_value() {
        check("x serve --save 9 1 --port 1 --save 3 10", &["x", "serve", "--save=9 1 3 10", "--port", "1"]);
        check("x serve --save=9 1 --save 3 --save=5", &["x", "serve", "--save=9 1 3 5"]);
        check("x serve --save 9 1 --save ''", &["x", "serve", "--save="]);
        check("x serve --save '' --save 3 10", &["x", "serve", "--save=3 10"]);
    }

    #[test]
    fn other_verbs_have_flags_of_their_own() {
        check("x stats --bind a b", &["x", "stats", "--bind", "a", "b"]);
    }
}
