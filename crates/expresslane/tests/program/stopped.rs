//! Ctrl-C while servers are compared and rates are searched: what there is by then is told, and no server of a set-up stays behind.

#![allow(clippy::disallowed_methods, reason = "whoever waits for another process looks now and then")]

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use load::report::page;
use load::result::Saved;

use crate::outcome::saved;
use crate::server::{Folder, Served, Talk, free_port, until};

/// A load of an hour, as a shell starts it: the first of a group of processes that Ctrl-C goes to.
struct Bench {
    child: Option<Child>,
    result: String,
}

impl Bench {
    fn start(folder: &Folder, words: &[&str]) -> Bench {
        let result = folder.path("result.jsonl");
        let mut command = Command::new(env!("CARGO_BIN_EXE_expresslane"));
        command.arg("bench").args(words).args(["--noisy", "-q", "--result", &result]);
        command
            .env_remove("REDISCLI_AUTH")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Bench { child: Some(command.process_group(0).spawn().unwrap()), result }
    }

    /// Waits until the result has a line of that kind.
    fn until_line(&self, kind: &str) {
        let start = format!("{{\"line\":\"{kind}\"");
        until(kind, || fs::read_to_string(&self.result).is_ok_and(|text| text.contains(&start)));
    }

    /// As the terminal does it: to all of the group.
    fn press_ctrl_c(&self) {
        let group = i32::try_from(self.child.as_ref().unwrap().id()).unwrap();
        // SAFETY: the child leads the group and is not yet waited for, so the number names no other one.
        assert_eq!(unsafe { libc::kill(-group, libc::SIGINT) }, 0);
    }

    fn end(mut self) -> (Output, Saved) {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        let saved = saved(&self.result);
        (output, saved)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Two set-ups of one server, with hooks that leave a mark.
fn plan(folder: &Folder, port: &str) -> String {
    let program = env!("CARGO_BIN_EXE_expresslane");
    let (before, after) = (folder.path("before"), folder.path("after"));
    let setup = |name: &str| {
        format!(
            "[{name}]\naddress = \":{port}\"\nstart = [\"{program}\", \"serve\", \"--port\", \"{port}\", \"--lanes\", \"1\", \
             \"--lane-ports\", \"off\"]\nbefore = [\"echo {name} >> {before}\"]\nafter = [\"echo {name} >> {after}\"]\n"
        )
    };
    let path = folder.path("plan.toml");
    let load = "pairs = 2\nfloor-pairs = 0\n[load]\nkeys = 100\nrate = 1000\nduration = \"1h\"\n";
    fs::write(&path, format!("{load}{}{}", setup("a"), setup("b"))).unwrap();
    path
}

#[test]
fn whoever_stops_a_comparison_gets_what_there_is() {
    let folder = Folder::new("stopped-compare");
    let port = free_port();
    let bench = Bench::start(&folder, &["compare", &plan(&folder, &port)]);
    bench.until_line("second");
    bench.press_ctrl_c();
    let (output, saved) = bench.end();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(130) && text.contains("stopped by hand"), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("none of their pairs was run") && text.contains("stopped by hand"), "{text}");
    assert!(page(&saved).contains("stopped by hand"));
    let [run] = &saved.runs[..] else { panic!("{} runs", saved.runs.len()) };
    let end = run.end.as_ref().unwrap();
    assert_eq!((end.was_stopped, &end.failure), (true, &None), "the terminal did not end the server");
    assert!(end.answered > 0 && saved.is_complete);
    assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_err(), "the server has ended");
    let marks = |name: &str| fs::read_to_string(folder.path(name)).unwrap();
    assert_eq!(marks("before"), marks("after"));
    assert_eq!(marks("after").lines().count(), 1, "no other server was started");
}

/// The server can't end: it is stopped, so that it never sees that it is asked to.
#[test]
fn a_second_one_ends_it_at_once_with_its_server() {
    let folder = Folder::new("stopped-twice");
    let port = free_port();
    let bench = Bench::start(&folder, &["compare", &plan(&folder, &port)]);
    bench.until_line("second");
    let info = Talk::to(&port).say("INFO server");
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().to_owned();
    // SAFETY: a number for the kernel: that of a server of this test, which runs.
    assert_eq!(unsafe { libc::kill(pid.parse().unwrap(), libc::SIGSTOP) }, 0);
    bench.press_ctrl_c();
    bench.until_line("run_end");
    let began = Instant::now();
    bench.press_ctrl_c();
    let (output, saved) = bench.end();
    assert_eq!(output.status.signal(), Some(libc::SIGINT), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(15), "the server has thirty seconds to end");
    assert!(!saved.is_complete && saved.runs[0].end.as_ref().unwrap().was_stopped);
    until("the server's end", || !Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn whoever_stops_a_search_gets_what_there_is() {
    let served = Served::start("stopped-search-server", &["--lanes", "1"]);
    let folder = Folder::new("stopped-search");
    let address = format!(":{}", served.port());
    let words = ["search", &address, "--keep", "p50<1s", "--duration", "1h", "--from", "1000"];
    let bench = Bench::start(&folder, &words);
    bench.until_line("second");
    bench.press_ctrl_c();
    let (output, saved) = bench.end();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(130) && text.contains("stopped by hand"), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "Stopped before its end. No rate was found that keeps p50<1000ms.\n");
    assert_eq!((saved.runs.len(), saved.is_complete), (1, true));
    let end = saved.runs[0].end.as_ref().unwrap();
    assert!(end.was_stopped && end.answered > 0);
    assert!(page(&saved).contains("stopped by hand"));
}
