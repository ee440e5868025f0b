//! Flags, the environment and the file together, and what is wrong with them.

use super::*;

fn parse_with(flags: &[&str], file: &str) -> Result<Box<ServeSettings>, String> {
    let mut arguments: Vec<OsString> = vec!["expresslane".into(), "serve".into()];
    if !file.is_empty() {
        arguments.extend(["--config".into(), "lanes.toml".into()]);
    }
    arguments.extend(flags.iter().map(OsString::from));
    match parse(arguments, |_| Ok(file.to_owned())) {
        Ok(Verb::Serve(settings)) => Ok(settings),
        Ok(_) => Err("another verb".to_owned()),
        Err(Refusal::Usage(error)) => Err(one_line(&error)),
        Err(Refusal::File(problem)) => Err(problem),
    }
}

#[track_caller]
fn refused(flags: &[&str], file: &str, want: &str) {
    let problem = parse_with(flags, file).expect_err("it must be refused");
    assert!(problem.contains(want), "{problem}");
    assert!(!problem.contains('\n'), "more than a sentence: {problem}");
}

#[test]
fn the_definition_is_sound() {
    program().debug_assert();
}

/// A doc comment on the settings of a verb that is deferred, or on some that it has in common with others, would stand in the place
/// of both.
#[test]
fn the_help_of_a_verb_says_what_it_does() {
    let mut program = program();
    program.build();
    let all = |verb: &clap::Command| {
        verb.get_subcommands().map(clap::Command::get_name).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut verb_count = 0;
    for group in ["bench", "lanes"].map(|name| program.find_subcommand(name).expect("a group of verbs")) {
        for name in all(group).iter().filter(|name| *name != "help") {
            let verb = group.find_subcommand(name).expect("just listed");
            let text =
                |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
            let (short, long) = (text(verb.get_about()), text(verb.get_long_about()));
            match &**name {
                "confirm" => assert_eq!(short, "Keep what `apply --confirm` did"),
                "example" => assert_eq!(short, "Print a commented file to begin with"),
                _ => assert!(!short.is_empty() && long.starts_with(&short), "{name}: {short} {long}"),
            }
            verb_count += 1;
        }
    }
    assert_eq!(verb_count, 16);
}

#[test]
fn defaults_are_those_of_redis() {
    let settings = parse_with(&[], "").unwrap();
    assert_eq!((settings.port, settings.databases, settings.maxclients), (6379, 16, 10_000));
    assert_eq!(settings.bind.iter().map(ToString::to_string).collect::<Vec<_>>(), ["127.0.0.1", "::1"]);
    assert_eq!(settings.proto_max_bulk_len, Size(512 << 20));
    assert_eq!(settings.lanes, LanesCount::Auto);
    assert!(settings.protected_mode);
    assert!(settings.client_output_buffer_limit.normal.hard_size.is_some(), "normal clients have a limit");
}

#[test]
fn a_flag_beats_the_file_and_the_file_beats_the_default() {
    let file = "[serve]\nport = 7777\nlanes = 3\nbind = [\"10.0.0.1\", \"::1\"]\nprotected-mode = false\n";
    let settings = parse_with(&["--lanes", "2"], file).unwrap();
    assert_eq!(settings.port, 7777);
    assert_eq!(settings.lanes, LanesCount::Count(2));
    assert_eq!(settings.bind.len(), 2);
    assert!(!settings.protected_mode);
    assert_eq!(settings.tcp_backlog, 511);
}

#[test]
fn every_flag_has_its_environment_variable() {
    let program = program();
    for argument in serve_of(&program).get_arguments().filter(|argument| argument.get_id() != "help") {
        let name = argument.get_env().unwrap_or_else(|| panic!("{} has none", argument.get_id()));
        assert!(name.to_str().unwrap().starts_with("EXPRESSLANE_"), "{name:?}");
    }
}

#[test]
fn the_help_teaches() {
    let mut command = program();
    let help = command.find_subcommand_mut("serve").unwrap().render_long_help().to_string();
    for part in ["Network:", "Memory:", "Examples:", "[default: 6379]", "EXPRESSLANE_TCP_BACKLOG", "[serve]"]
    {
        assert!(help.contains(part), "{part} is missing in:\n{help}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    refused(&["--port", "70000"], "", "it is a whole number from 0 to 65535");
    refused(&["--lanes", "0"], "", "a server has at least one lane");
    refused(&["--databases", "0"], "", "it is a whole number from 1 to 65000");
    refused(&["--databases", "65001"], "", "it is a whole number from 1 to 65000");
    refused(&["--timeout", "10s"], "", "it is a whole number from 0 to 4294967295");
    refused(&["--prot", "1"], "", "--prot");
    refused(&["--maxmemory", "1tb"], "", "a size is");
    refused(&[], "[serve]\nport = 70000\n", "lanes.toml: invalid value '70000' for '--port");
    refused(
        &[],
        "[serve]\nprot = 1\n",
        "lanes.toml: there is no key `prot` under [serve]; did you mean `port`?",
    );
    refused(&[], "port = 1\n", "`port` belongs under [serve]");
    refused(&[], "serve = 3\n", "`serve` is a table: its keys stand below a line [serve]");
    assert_eq!(parse_with(&[], "[serve]\nport = 7\n[[lanes.lane]]\nname = \"a\"\n").unwrap().port, 7);
    refused(&[], "[server]\nport = 1\n", "there is no table [server]; did you mean [serve]?");
    refused(&[], "[serve]\nport = \n", "line 2");
    refused(
        &[],
        "[serve]\nport = 1.5\n",
        "`port` is a string, a whole number, true, false or a list of those",
    );
    refused(&[], "[serve]\nconfig = \"other\"\n", "`config` can't be set in the file itself");
    refused(&[], "port 6380\n", "; settings are lines such as `port = 6379` under [serve]");
}

/// TOML reads 0o770 and 770 as numbers; only the first is what it says.
#[test]
fn values_that_toml_reads_otherwise_are_refused() {
    for mode in ["770", "0o770", "0x1f8"] {
        let file = format!("[serve]\nunixsocketperm = {mode}\n");
        refused(&[], &file, "`unixsocketperm` is octal: put it in quotes, such as \"770\"");
    }
    assert_eq!(parse_with(&[], "[serve]\nunixsocketperm = \"770\"\n").unwrap().unixsocketperm, Mode(0o770));
    refused(&[], "[serve]\nrequirepass = true\n", "`requirepass` is a string: put it in quotes");
    assert_eq!(parse_with(&[], "[serve]\nrequirepass = 7\n").unwrap().requirepass.as_deref(), Some("7"));
}

#[test]
fn a_value_below_its_least_is_told_so() {
    for flag in ["--port", "--timeout", "--maxclients", "--databases", "--tcp-backlog"] {
        refused(&[flag, "-1"], "", "it is a whole number from");
    }
    refused(&["--maxmemory", "-5"], "", "a size is a whole number with b, k, kb");
    refused(&["--lanes", "-1"], "", "lanes are a number from 1 to");
    for flag in ["--proto-max-bulk-len", "--client-query-buffer-limit"] {
        refused(&[flag, "1023kb"], "", "it is at least 1mb, as in Redis, not '1023kb'");
        refused(&[flag, "x"], "", "a size is a whole number with b, k, kb");
        assert!(parse_with(&[flag, "1mb"], "").is_ok());
    }
}

/// Files of known keys and odd values, a byte of which may be changed: each is read, or refused with a sentence.
#[test]
fn any_file_is_read_or_refused_with_a_sentence() {
    let values = [
        "5",
        "-1",
        "1e400",
        "true",
        "\"\"",
        "\"yes\"",
        "\"10mb\"",
        "\"770\"",
        "[1, \"a\"]",
        "[]",
        "{ a = 1 }",
        "1979-05-27",
        "\"0-1\"",
        "\"auto\"",
        "\"50us\"",
        "9223372036854775808",
        "\"\\u0000\"",
        "'''x'''",
    ];
    let program = program();
    let keys: Vec<String> =
        serve_of(&program).get_arguments().filter_map(|flag| flag.get_long().map(str::to_owned)).collect();
    let mut state = 9_u64;
    let mut below = |count: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % count as u64).expect("an index")
    };
    let (mut read_count, mut refused_count) = (0, 0);
    for _ in 0..400 {
        let mut file =
            ["[serve]\n", "[[namespace]]\n", "[lanes]\n", ""][below(8).saturating_sub(4)].to_owned();
        for _ in 0..below(3) {
            file += &format!("{} = {}\n", keys[below(keys.len())], values[below(values.len())]);
        }
        if below(3) == 0 && !file.is_empty() {
            let at = below(file.len());
            file.replace_range(at..=at, ["=", "\"", "[", "]", "\n", "\0", "x", "\u{e9}"][below(8)]);
        }
        match parse_with(&[], &file) {
            Ok(_) => read_count += 1,
            Err(problem) => {
                let is_sentence = !problem.is_empty() && !problem.contains('\n');
                assert!(is_sentence, "{file:?}: {problem:?}");
                refused_count += 1;
            }
        }
    }
    assert!(read_count > 20 && refused_count > 100, "{read_count} are read, {refused_count} refused");
}

#[test]
fn an_announced_host_is_one_word() {
    for (host, is_one) in [("10.0.0.1", true), ("::1", true), ("db-1.example", true), ("a b", false)] {
        assert_eq!(parse_with(&["--announce-ip", host], "").is_ok(), is_one, "{host}");
    }
    for host in ["a,b", "a\nb", "a@b", "\u{e9}"] {
        refused(&["--announce-ip", host], "", "a host is an IP address or a name");
    }
}

#[test]
fn an_empty_password_is_none() {
    for (flags, file) in [
        (&["--requirepass", "", "--announce-ip", ""][..], ""),
        (&[], "[serve]\nrequirepass = \"\"\nannounce-ip = \"\"\n"),
        (&["--requirepass="], "[serve]\nrequirepass = \"x\"\n"),
    ] {
        let settings = parse_with(flags, file).unwrap();
        assert_eq!((&settings.requirepass, &settings.announce_ip), (&None, &None), "{flags:?} {file}");
    }
}

#[test]
fn a_word_without_a_flag_is_told_its_flag() {
    let hint = |words: &[&str]| {
        let arguments = ["expresslane", "serve"].iter().chain(words).map(OsString::from);
        match parse(arguments, |_| Ok(String::new())) {
            Err(Refusal::Usage(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert!(hint(&["6380"]).contains("tip: every value has its flag: '--port 6380'"));
    assert!(hint(&["/etc/x.toml"]).contains("tip: every value has its flag: '--config /etc/x.toml'"));
    assert!(!hint(&["--lanes", "x"]).contains("tip:"), "its flag stands there");
}
