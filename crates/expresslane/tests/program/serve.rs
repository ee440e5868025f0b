//! The built program as its user meets it: it starts, says so, refuses with a sentence, and ends when asked to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::server::{Folder, Served, Server, Talk, command, exchange, free_port, free_ports, run, status};

#[test]
fn a_server_serves_and_ends_in_order() {
    let folder = Folder::new("ends");
    let (port, socket) = (free_port(), folder.path("socket"));
    let flags = ["--port", &port, "--lane-ports", "off", "--lanes", "2", "--unixsocket", &socket];
    let server = Server::start(&folder, &flags);
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    assert_eq!(exchange(&mut client, b"SET a 1\r\nGET a\r\n", 12), "+OK\r\n$1\r\n1\r\n");
    let mut local = UnixStream::connect(&socket).unwrap();
    assert_eq!(exchange(&mut local, b"GET a\r\n", 7), "$1\r\n1\r\n");
    let ends = format!("addr={socket}:0 laddr={socket}:0");
    let mut other = UnixStream::connect(&socket).unwrap();
    assert_eq!(exchange(&mut other, b"PING\r\n", 7), "+PONG\r\n");
    // A terminal that is closed is nothing to it.
    server.signal(libc::SIGHUP);
    assert_eq!(exchange(&mut other, b"PING\r\n", 7), "+PONG\r\n");
    let filter = format!("CLIENT KILL ADDR {socket}:0 SKIPME yes\r\nCLIENT INFO\r\n");
    let info = exchange(&mut local, filter.as_bytes(), 300);
    assert!(info.starts_with(":1\r\n") && info.contains(&ends), "{info}");
    server.signal(libc::SIGTERM);
    assert_eq!(server.state(), "STOPPING=1");
    let mut rest = Vec::new();
    // The connection ends, in order or cut off; no reply is owed.
    let _ = client.read_to_end(&mut rest);
    assert!(rest.is_empty());
    let (code, printed) = server.end();
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("memory only"), "{printed}");
    assert!(!std::path::Path::new(&socket).exists(), "the socket file is removed");
}

/// Clients count as fast as they can while the server is asked to end. Whatever number they were told, it has when it comes again.
fn check_counts_outlive_the_end(name: &str, flags: &[&str]) {
    const CLIENTS_COUNT: usize = 8;
    let folder = Folder::new(name);
    let port = free_port();
    let flags = [&["--port", &port, "--lane-ports", "off", "--lanes", "2"], flags].concat();
    let server = Server::start(&folder, &flags);
    let address = format!("127.0.0.1:{port}");
    let count = |number: usize| -> u64 {
        let mut stream = TcpStream::connect(&address).unwrap();
        let mut replies = BufReader::new(stream.try_clone().unwrap());
        let mut told = 0;
        while stream.write_all(format!("INCR count:{number}\r\n").as_bytes()).is_ok() {
            let mut line = String::new();
            // The connection ends, in order or cut off, before a reply or in the middle of one.
            if replies.read_line(&mut line).is_err() || !line.ends_with('\n') {
                break;
            }
            told = line.trim_end().strip_prefix(':').expect("a number").parse().unwrap();
        }
        told
    };
    let told: Vec<u64> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS_COUNT)
            .map(|number| {
                scope.spawn({
                    let count = &count;
                    move || count(number)
                })
            })
            .collect();
        let mut other = Talk::to(&port);
        while other.say("GET count:0").len() < "1000".len() {}
        server.signal(libc::SIGTERM);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let (code, printed) = server.end();
    assert_eq!(code, Some(0), "{printed}");
    let server = Server::start(&folder, &flags);
    let mut client = Talk::to(&port);
    for (number, told) in told.iter().enumerate() {
        let found: u64 = client.say(&format!("GET count:{number}")).parse().unwrap();
        // One more may have been counted and its reply not been sent.
        assert!((*told..=told + 1).contains(&found), "client {number} was told {told}, and there is {found}");
    }
    server.signal(libc::SIGTERM);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn what_was_answered_until_the_end_is_in_the_log() {
    check_counts_outlive_the_end("log-at-end", &["--appendonly", "yes"]);
}

#[test]
fn what_was_answered_until_the_end_is_in_the_snapshot() {
    check_counts_outlive_the_end("save-at-end", &["--save", "3600 1"]);
}

/// A process that was killed while it wrote a snapshot or a base has left it behind.
#[test]
fn what_a_killed_process_has_not_finished_is_removed() {
    let folder = Folder::new("unfinished");
    std::fs::create_dir(folder.path("appendonlydir")).unwrap();
    // Its number is nobody's until it is waited for.
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let (gone, alive) = (gone.id(), std::process::id());
    let name = |form: &str, process: u32| folder.path(&form.replace("PID", &process.to_string()));
    let users = folder.path("users.acl");
    std::fs::write(&users, "").unwrap();
    let forms = ["temp-PID.rdb", "appendonlydir/temp-rewriteaof-PID.rdb", ".users.acl.PID.new"];
    for form in forms {
        std::fs::write(name(form, gone), "half").unwrap();
        std::fs::write(name(form, alive), "half").unwrap();
    }
    let port = free_port();
    let flags = ["--port", &port, "--lane-ports", "off", "--lanes", "1", "--appendonly", "yes"];
    let server = Server::start(&folder, &[&flags[..], &["--aclfile", &users]].concat());
    server.signal(libc::SIGTERM);
    let (code, printed) = server.end();
    assert_eq!(code, Some(0), "{printed}");
    for form in forms {
        assert!(!std::fs::exists(name(form, gone)).unwrap(), "{form}");
        assert!(std::fs::exists(name(form, alive)).unwrap(), "{form}");
        let file = form.replace("PID", &gone.to_string());
        let file = file.rsplit('/').next().unwrap();
        let said = format!("removed what processes that are gone have not finished, 4 bytes: {file}\n");
        assert!(printed.contains(&said), "{printed}");
    }
}

#[test]
fn a_second_server_on_a_port_is_refused() {
    let folder = Folder::new("second");
    let port = free_port();
    let server = Server::start(&folder, &["--port", &port, "--lane-ports", "off", "--lanes", "1"]);
    let second = run(&["--port", &port, "--lane-ports", "off", "--lanes", "1"]);
    refusal(&second, Some(1), "another program listens there; stop it, or choose another port with --port");
    server.signal(libc::SIGINT);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn what_is_wrong_ends_start_up_with_a_sentence() {
    let folder = Folder::new("wrong");
    let file = folder.path("lanes.toml");
    std::fs::write(&file, "[serve]\nmaxclient = 5\n").unwrap();
    let config = run(&["--config", &file]);
    refusal(&config, Some(1), "there is no key `maxclient` under [serve]; did you mean `maxclients`?");
    refusal(
        &run(&["--config", &folder.path("none.toml")]),
        Some(1),
        "name a readable TOML file with --config",
    );
    refusal(&run(&["--port", "x"]), Some(2), "invalid value 'x' for '--port <PORT>'");
    refusal(
        &run(&["--bind", "0.0.0.0"]),
        Some(1),
        "set requirepass, bind 127.0.0.1, or say --protected-mode no",
    );
    refusal(&run(&["--bind", "0.0.0.0", "--requirepass", ""]), Some(1), "there is no password");
    refusal(&run(&["--bind", "192.0.2.1", "--requirepass", "x"]), Some(1), "has no address 192.0.2.1");
    let none = folder.path("none");
    let make = format!("--dir {none}: No such file or directory (os error 2); make that directory");
    refusal(&run(&["--dir", &none]), Some(1), &make);
    refusal(&run(&["--dir", &none, "--appendonly", "yes"]), Some(1), &make);
    assert!(!std::fs::exists(&none).unwrap(), "a directory that was not there is not made");
    refusal(&run(&["--dir", &file]), Some(1), "lanes.toml is no directory: name one");
}

/// The variable is the flag's; a flag still wins.
#[test]
fn the_environment_is_read() {
    let output = command(&["--port", "0"]).env("EXPRESSLANE_LANE_PORTS", "off").output().unwrap();
    refusal(&output, Some(1), "nobody could connect");
    let output = command(&["--lanes", "300"]).env("EXPRESSLANE_LANES", "0").output().unwrap();
    refusal(&output, Some(2), "'300' for '--lanes");
    let output = command(&[]).env("EXPRESSLANE_LANES", "0").output().unwrap();
    refusal(&output, Some(2), "tip: the value is that of the environment variable EXPRESSLANE_LANES");
}

#[track_caller]
fn refusal(output: &Output, code: Option<i32>, want: &str) {
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains(want), "{printed}");
    assert_eq!(output.status.code(), code, "{printed}");
}

/// A command that takes longer than anybody waits is cut off by a second signal, and the exit code says so.
#[test]
fn a_second_signal_ends_at_once() {
    let served = Served::start("second-signal", &["--lanes", "1"]);
    let mut client = served.talk();
    client.send_words(&["EVAL", "while true do end", "0"]);
    // It has begun when another client that asked later is answered.
    assert_eq!(served.talk().say("PING"), "+PONG");
    served.signal(libc::SIGTERM);
    assert_eq!(served.state(), "STOPPING=1");
    served.signal(libc::SIGTERM);
    let (code, printed) = served.end();
    assert_eq!(code, Some(1), "{printed}");
    assert!(!printed.contains("ended"), "it does not wait for the command: {printed}");
}

/// While another lane's command is waited for, one that has nothing left to do takes no time: under `--sched` it would keep the threads
/// that end the server from their cpu.
#[test]
fn a_lane_that_has_finished_sleeps_until_all_have() {
    // The server ends within a second, which may be over before this test has looked, where the machine is busy.
    let seen = (0..5).find_map(|_| is_asleep_while_another_lane_drains());
    assert_eq!(
        seen,
        Some(true),
        "the lane goes around and around, or there were five servers of which too little was seen"
    );
}

/// Whether a lane with nothing to do sleeps while another one ends a script; nothing if the server ended before that could be said.
fn is_asleep_while_another_lane_drains() -> Option<bool> {
    const LOOKS_COUNT: usize = 4000;
    const ASLEEP_COUNT: usize = 20;
    let folder = Folder::new("sleeps");
    let ports = free_ports(2);
    let (first, second) = (ports.to_string(), (ports + 1).to_string());
    let server = Server::start(&folder, &["--port", "0", "--lane-ports", &first, "--lanes", "2"]);
    let mut client = Talk::to(&first);
    client.send_words(&["EVAL", "while true do end", "0"]);
    assert_eq!(Talk::to(&first).say("PING"), "+PONG");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
    let mut tasks = tasks.map(|task| task.unwrap().path().join("stat"));
    let stat = tasks.find(|stat| std::fs::read_to_string(stat).unwrap().contains("(lane 1)")).unwrap();
    server.signal(libc::SIGTERM);
    assert_eq!(server.state(), "STOPPING=1");
    // It has heard that the end is near once nobody listens there.
    while TcpStream::connect(format!("127.0.0.1:{second}")).is_ok() {}
    let (mut look_count, mut asleep_count) = (0, 0);
    while look_count < LOOKS_COUNT
        && asleep_count < ASLEEP_COUNT
        && let Ok(stat) = std::fs::read_to_string(&stat)
    {
        look_count += 1;
        asleep_count = if stat.contains(") S ") { asleep_count + 1 } else { 0 };
    }
    let (code, printed) = server.end();
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("some commands had not finished"), "{printed}");
    let has_looked_enough = asleep_count == ASLEEP_COUNT || look_count >= 2 * ASLEEP_COUNT;
    has_looked_enough.then_some(asleep_count == ASLEEP_COUNT)
}

/// Start-up says in one piece what is served, and what it was told that means nothing.
#[test]
fn the_table_is_one_entry_of_the_log() {
    let folder = Folder::new("table");
    let port = free_port();
    let flags = ["--port", &port, "--lane-ports", "off", "--lanes", "1"];
    let server = Server::start_with(&folder, &flags, &[("EXPRESSLANE_MAXMEM", "1gb")]);
    server.signal(libc::SIGTERM);
    let (code, printed) = server.end();
    assert_eq!(code, Some(0), "{printed}");
    let entries: Vec<&str> = printed.lines().filter(|line| !line.starts_with("  ")).collect();
    assert_eq!(entries.len(), 3, "start, signal and end: {printed}");
    assert!(entries.iter().all(|line| line.contains("Z info  ")), "{printed}");
    assert!(printed.contains(&format!("\n  shared      127.0.0.1:{port} ")), "{printed}");
    assert!(
        printed.contains("note        the environment variable EXPRESSLANE_MAXMEM is no setting"),
        "{printed}"
    );
}

/// What the machine does not allow ends start-up with a sentence, too. The child has no privileges, whoever runs tests.
#[test]
fn what_is_not_allowed_ends_start_up_with_a_sentence() {
    let folder = Folder::new("not-allowed");
    let port = free_port();
    let socket = folder.path("none/socket");
    refusal(
        &run(&["--port", "0", "--lane-ports", "off", "--lanes", "1", "--unixsocket", &socket]),
        Some(1),
        "choose another --unixsocket",
    );
    let start = |flags: &[&str], files_count: u64| {
        let mut command = command(&[&["--lane-ports", "off", "--lanes", "1"], flags].concat());
        restrain(&mut command, files_count);
        command.output().unwrap()
    };
    refusal(&start(&["--port", &port], 200), Some(1), "raise the limit (ulimit -n 10");
    refusal(&start(&["--port", &port], 200), Some(1), ", or lower --maxclients to ");
    let first: u16 = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    if first > 1 {
        let output = start(&["--port", "1", "--bind", "127.0.0.1", "--maxclients", "10"], 200);
        refusal(&output, Some(1), "can't listen on 127.0.0.1:1: ports below 1024 need CAP_NET_BIND_SERVICE");
    }
    let file = folder.path("lanes.toml");
    std::fs::write(&file, "[serve]\nport = \"x\"\n").unwrap();
    refusal(&run(&["--config", &file]), Some(1), "invalid value 'x' for '--port <PORT>'");
    std::fs::write(&file, "[serve\n").unwrap();
    refusal(&run(&["--config", &file]), Some(1), "not TOML in line 1");
    refusal(&run(&["--cpus", "8000"]), Some(1), "this process may not run on 8000, only on ");
}

/// Where there is a cpu without a lane, nothing but a lane runs on a lane's.
#[test]
fn other_threads_keep_off_the_lanes_cpus() {
    let allowed = |path: &str| -> String {
        let status = std::fs::read_to_string(format!("{path}/status")).unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.expect("Linux tells it").trim().to_owned()
    };
    let own = allowed("/proc/self");
    let first: String = own.chars().take_while(char::is_ascii_digit).collect();
    let served = Served::start("beside", &["--lanes", "1", "--cpus", &first]);
    let mut threads_count = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", served.id())).unwrap() {
        let path = task.unwrap().path().display().to_string();
        let name = std::fs::read_to_string(format!("{path}/comm")).unwrap();
        let is_beside = allowed(&path).split(['-', ',']).next() != Some(&*first);
        assert_eq!(is_beside, name.trim() != "lane 0" && own != first, "{name} of {own}");
        threads_count += 1;
    }
    assert!(threads_count >= 4, "the first, the lane, control and paging");
    served.end_in_order();
}

/// The lane alone goes before others; where the right is missing, the sentence names it.
#[test]
fn lanes_alone_are_scheduled_as_asked_or_the_right_is_named() {
    let folder = Folder::new("sched");
    let flags = ["--port", &free_port(), "--lane-ports", "off", "--lanes", "1", "--sched", "fifo:3"];
    refusal(&run(&["--sched", "fifo:100"]), Some(2), "fifo:N or rr:N with a priority N from 1 to 99");
    let mut probe = Command::new(env!("CARGO_BIN_EXE_expresslane"));
    if !probe.args(["run", "--sched", "fifo:3", "--", "true"]).status().unwrap().success() {
        refusal(&run(&flags), Some(1), "--sched fifo:3: it takes CAP_SYS_NICE or a higher RLIMIT_RTPRIO");
        return;
    }
    let server = Server::start(&folder, &flags);
    let mut names = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap() {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        let (name, rest) = stat.split_once('(').unwrap().1.rsplit_once(')').unwrap();
        // Fields 40 and 41 of stat, real-time priority and policy: the state behind the name is the third.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let want = if name == "lane 0" { ("3", "1") } else { ("0", "0") };
        // Threads that bring pages and give them back give way to everybody (SCHED_IDLE) where no cpu is without a lane.
        let gives_way = ["paging", "heaps"].contains(&name) && (fields[37], fields[38]) == ("0", "5");
        assert!(gives_way || (fields[37], fields[38]) == want, "{stat}");
        names.push(name.to_owned());
    }
    assert!(names.contains(&"lane 0".to_owned()) && names.len() >= 4, "{names:?}");
    server.signal(libc::SIGTERM);
    assert_eq!(server.state(), "STOPPING=1");
    let (code, printed) = server.end();
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("sched       fifo:3"), "{printed}");
}

/// A lane that opened the file for which the kernel's table has no room would wait for the kernel to make a larger one.
#[test]
fn there_is_room_for_as_many_clients_as_are_allowed() {
    let folder = Folder::new("clients");
    let port = free_port();
    let mut command =
        command(&["--port", &port, "--lane-ports", "off", "--lanes", "1", "--maxclients", "1500"]);
    restrain(&mut command, 5000);
    let server = Server::of(&folder, &mut command);
    let room = || status(server.id(), "FDSize:");
    assert!(room() > 1500, "{}", room());
    let mut client = Talk::to(&port);
    assert_eq!(client.say("CONFIG SET maxclients 4000"), "+OK");
    assert!(room() > 4000, "{}", room());
    let refused = client.say("CONFIG SET timeout 9 maxclients 6000");
    let why = "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to \
               handle the specified number of clients, try with ";
    let most = refused.strip_prefix(why).unwrap_or_else(|| panic!("{refused}"));
    client.send("CONFIG GET timeout");
    let got: Vec<String> = (0..5).map(|_| client.line()).collect();
    assert_eq!(got, ["*2", "$7", "timeout", "$1", "0"], "nothing has changed");
    assert_eq!(client.say(&format!("CONFIG SET maxclients {most}")), "+OK");
    assert_eq!(client.say("CONFIG SET maxclients 10"), "+OK");
    drop(client);
    server.signal(libc::SIGTERM);
    assert_eq!(server.end().0, Some(0));
}

/// The child may open so many files, and is privileged to nothing.
fn restrain(command: &mut Command, files_count: u64) {
    let forget = move || {
        let limit = libc::rlimit { rlim_cur: files_count, rlim_max: files_count };
        for capability in 0..64 {
            // SAFETY: names a capability by its number; one that there is not is refused.
            let _ = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
        // SAFETY: `limit` is readable for one rlimit.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: between fork and exec only system calls are made, which take no locks and no memory.
    unsafe { command.pre_exec(forget) };
}

/// A file mode is the socket's from its first moment on, and a lane's port is where its clients are told it is.
#[test]
fn a_socket_has_its_mode_and_a_proxy_its_ports() {
    let folder = Folder::new("mode");
    let (port, lane, socket) = (free_port(), free_port(), folder.path("socket"));
    let flags = [
        ["--port", &port],
        ["--lane-ports", &lane],
        ["--lanes", "1"],
        ["--unixsocket", &socket],
        ["--unixsocketperm", "620"],
        ["--announce-ip", "db.example"],
        ["--announce-port", "31000"],
    ];
    let _server = Server::start(&folder, &flags.concat());
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o620);
    let mut client = Talk::to(&port);
    let nodes = client.say("CLUSTER NODES");
    assert!(nodes.contains(" db.example:31000@41000 "), "{nodes}");
    assert_eq!(client.say("CONFIG GET unixsocketperm"), "*2");
    assert_eq!((client.reply(), client.reply()), ("unixsocketperm".to_owned(), "620".to_owned()));
}
