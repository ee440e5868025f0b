//! `expresslane stats` as its user meets it: against servers of all kinds, and against nobody.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::outcome::is_refusal;
use crate::server::{Folder, Served, Server, free_port};

fn stats(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_expresslane"));
    command.arg("stats").args(flags).env_remove("REDISCLI_AUTH").stdin(Stdio::null());
    command
}

fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn refused(command: &mut Command, code: i32, want: &str) {
    let output = command.output().unwrap();
    let text = is_refusal(&output, code, want);
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(code != 1 || text.lines().count() == 1, "more than a sentence: {text}");
}

#[test]
fn every_lane_is_shown() {
    let served = Served::start("stats-lanes", &["--lanes", "3"]);
    let mut client = served.talk();
    for key in 0..30 {
        assert_eq!(client.say(&format!("SET key{key} v")), "+OK");
    }
    let port = served.port();
    let screen = printed(&stats(&["-p", port]).output().unwrap());
    let head = format!("expresslane {}  process {}  ", env!("CARGO_PKG_VERSION"), served.id());
    assert!(screen.starts_with(&head), "{screen}");
    for lane in ["   0 ", "   1 ", "   2 "] {
        assert_eq!(screen.lines().filter(|line| line.starts_with(lane)).count(), 3, "three tables: {screen}");
    }
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let text = printed(&stats(&["-p", port, "--json"]).output().unwrap());
    assert_eq!(text.lines().count(), 1, "an object is a line: {text}");
    let look: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(look["server"]["is_expresslane"], true);
    assert_eq!((&look["total"]["keys"], &look["since_start"]), (&Value::from(30), &Value::from(true)));
    let lanes = look["lanes"].as_array().unwrap();
    assert_eq!(lanes.len(), 3);
    let sum = |name: &str| lanes.iter().map(|lane| lane[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("keys"), sum("clients")), (30, 2), "the writer, and the one who asks");
    // What the machine under the tests may not say is there all the same, without a value.
    for name in ["cpu", "us", "thread_wait", "pages_local", "pages_remote", "switches_involuntary_per_s"] {
        assert!(lanes.iter().all(|lane| lane.get(name).is_some()), "{name}: {text}");
    }
}

/// The names that docs/stats.md promises are the names that are printed, and the other way round.
#[test]
fn the_manual_names_every_value() {
    let served = Served::start("stats-names", &["--lanes", "1"]);
    let text = printed(&stats(&["-p", served.port(), "--json"]).output().unwrap());
    let look: Value = serde_json::from_str(&text).unwrap();
    let manual = include_str!("../../../../docs/stats.md");
    let (_, manual) = manual.split_once("## The object of `--json`").unwrap();
    let described: Vec<&str> =
        manual.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let mut names = Vec::new();
    for (part, value) in look.as_object().unwrap() {
        match value {
            Value::Object(part) => names.extend(part.keys().cloned()),
            Value::Array(lanes) => names.extend(lanes[0].as_object().unwrap().keys().cloned()),
            _ => names.push(part.clone()),
        }
    }
    for name in &names {
        assert!(described.contains(&name.as_str()), "docs/stats.md says nothing of `{name}`");
    }
    for name in described {
        assert!(names.iter().any(|printed| printed == name), "`{name}` of docs/stats.md is not printed");
    }
}

/// Likewise of the fields of `INFO lanes` and docs/observability.md.
#[test]
fn the_manual_names_every_field_of_lanes() {
    let served = Served::start("lanes-names", &["--lanes", "1"]);
    let info = served.talk().say("INFO lanes");
    let lane = info.lines().find_map(|line| line.strip_prefix("lane0:")).unwrap();
    let mut names: Vec<&str> = lane.split(',').map(|fact| fact.split('=').next().unwrap()).collect();
    let manual = include_str!("../../../../docs/observability.md");
    let (_, manual) = manual.split_once("## `INFO lanes`").unwrap();
    let rows = manual.lines().filter(|line| line.starts_with("| `"));
    let described = rows.filter_map(|line| line.split('|').nth(1));
    let mut described: Vec<&str> = described.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    names.sort_unstable();
    described.sort_unstable();
    assert_eq!(described, names);
}

#[test]
fn a_watch_shows_rates_and_ends_when_asked_to() {
    let served = Served::start("stats-watch", &["--lanes", "1"]);
    let mut child =
        stats(&["-p", served.port(), "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut look = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(look()["since_start"], true);
    let mut client = served.talk();
    for _ in 0..500 {
        assert_eq!(client.say("SET key v"), "+OK");
    }
    let second = look();
    assert_eq!(second["since_start"], false);
    let commands = second["total"]["commands_per_s"].as_f64().unwrap() * second["span_s"].as_f64().unwrap();
    // Its own question is one of them.
    assert!((500.5..510.0).contains(&commands), "{commands} in {second}");
    // SAFETY: the child is ours and not yet waited for, so its number names no other process.
    assert_eq!(unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(0), "Ctrl-C is the way to end it");
}

#[test]
fn a_reader_that_goes_ends_a_watch() {
    let served = Served::start("stats-pipe", &["--lanes", "1"]);
    let mut child = stats(&["-p", served.port(), "--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 11];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"expresslane");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_password_and_a_socket_are_given_as_to_redis_cli() {
    let folder = Folder::new("stats-ways");
    let (port, socket) = (free_port(), folder.path("socket"));
    let flags = ["--port", &port, "--lane-ports", "off", "--lanes", "1", "--unixsocket", &socket];
    let server = Server::start(&folder, &[&flags[..], &["--requirepass", "secret"]].concat());
    refused(
        &mut stats(&["-p", &port]),
        1,
        "refuses: it wants a password; give it in REDISCLI_AUTH, or with -a",
    );
    refused(&mut stats(&["-p", &port, "-a", "wrong"]), 1, "refuses: the password is not its own");
    printed(&stats(&["-p", &port, "-a", "secret"]).output().unwrap());
    refused(stats(&["-s", &socket]).env("REDISCLI_AUTH", ""), 1, "refuses: it wants a password;");
    printed(&stats(&["-s", &socket]).env("REDISCLI_AUTH", "secret").output().unwrap());
    drop(server);
    let open = Served::start("stats-open", &["--lanes", "1"]);
    refused(&mut stats(&["-p", open.port(), "-a", "x"]), 1, "refuses: it has no password");
}

#[test]
fn what_can_not_be_asked_ends_with_a_sentence() {
    let port = free_port();
    refused(
        &mut stats(&["-p", &port]),
        1,
        "nobody listens there; start expresslane serve, or name the server",
    );
    refused(
        &mut stats(&["-s", "no/such/socket"]),
        1,
        "there is no such socket; name the server's own with -s",
    );
    refused(
        &mut stats(&["--host", "no.such.host.invalid"]),
        1,
        "can't connect to no.such.host.invalid:6379: ",
    );
    refused(&mut stats(&["-p", "0"]), 2, "it is a whole number from 1 to 65535");
    let with_variable = stats(&["-p", "0"]).env("EXPRESSLANE_PORT", "1").output().unwrap();
    assert!(!String::from_utf8_lossy(&with_variable.stderr).contains("EXPRESSLANE_PORT"), "it is serve's");
    refused(&mut stats(&["--watch", "0"]), 2, "it is a whole number from 1 to 86400");
    refused(&mut stats(&["-s", "x", "-p", "1"]), 2, "cannot be used with");
    let answers = |reply: &'static [u8], want: &str| {
        let port = answer_once(reply);
        refused(&mut stats(&["-p", &port]), 1, want);
    };
    answers(b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Redis' protocol");
    answers(b"", "has ended");
    answers(b"-DENIED protected mode\r\n", "refuses: DENIED protected mode");
    answers(b":1\r\n", "answers INFO with something else than text");
}

#[test]
fn another_server_shows_its_totals() {
    let info = "# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:10\r\n# Clients\r\nconnected_clients:4\r\n\
                # Keyspace\r\ndb0:keys=5,expires=0,avg_ttl=0\r\n";
    let reply: &'static [u8] =
        Box::leak(format!("${}\r\n{info}\r\n", info.len()).into_bytes().into_boxed_slice());
    let screen = printed(&stats(&["-p", &answer_once(reply)]).output().unwrap());
    assert!(screen.starts_with("server 7.0.15  ") && screen.contains("4 clients  5 keys"), "{screen}");
    assert!(screen.ends_with("not an Expresslane server: only the totals\n"), "{screen}");
    let text = printed(&stats(&["-p", &answer_once(reply), "--json"]).output().unwrap());
    let look: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&look["server"]["is_expresslane"], &look["lanes"]),
        (&false.into(), &Value::Array(Vec::new()))
    );
}

/// A port where somebody answers the first question with `reply`, and is gone.
fn answer_once(reply: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::Builder::new()
        .spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            // The question is read first: a reset would take the answer with it.
            let read = client.read(&mut [0; 1024]).unwrap();
            assert!(read > 0);
            client.write_all(reply).unwrap();
        })
        .unwrap();
    port
}
