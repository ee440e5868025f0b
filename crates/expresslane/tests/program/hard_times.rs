//! The built program under clients that send too much, too little, nothing, or never read. Each test has a client that
//! does its worst, one that must not notice, and a look at what is left behind: memory, descriptors, clients.
//!
//! Sizes of memory have slack for the allocator and for what the process makes once; what they tell apart is larger by
//! far. Nothing is timed.

use std::io::{BufRead, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::server::{PATIENCE, Served, Talk, cut_off, frame, until};

const MIB: u64 = 1 << 20;

/// Reads until the server ends the connection, in order or cut off; what came before.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("the server ends the connection: {error}"),
    }
}

/// Sends until the kernel takes nothing more, for a client that never reads: how many bytes that was.
fn flood(stream: &mut TcpStream, bytes: &[u8]) -> usize {
    stream.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(size) => sent += size,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => panic!("the connection lives: {error}"),
        }
    }
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    sent
}

/// Allows a process so many open files; itself is process 0.
fn allow_files(process: i32, count: u64) -> bool {
    let limit = libc::rlimit { rlim_cur: count, rlim_max: 20_000.max(count) };
    // SAFETY: `limit` is readable, and the old limit is not asked for.
    unsafe { libc::prlimit(process, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) == 0 }
}

#[test]
fn memory_follows_bytes_received() {
    let served = Served::start("announced", &["--lanes", "2"]);
    let mut friend = served.talk();
    assert_eq!(friend.say("SET a 1"), "+OK");
    let before = served.resident_size();
    let mut clients = Vec::new();
    for start in [
        &b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n"[..],
        b"*1048576\r\n$536870912\r\n",
        b"*1048576\r\n$3\r\nDEL\r\n$1\r\na\r\n",
    ] {
        for _ in 0..100 {
            let mut stream = served.connect();
            stream.write_all(start).unwrap();
            stream.write_all(&[b'x'; 100]).unwrap_or_default();
            clients.push(stream);
        }
    }
    friend.wait_for("connected_clients", 301);
    // Every one of them has been heard: a later command of the same lane is answered.
    for _ in 0..10 {
        assert_eq!(served.talk().say("GET a"), "1");
    }
    let grown = served.resident_size().saturating_sub(before);
    assert!(grown < 4 * MIB, "{grown} bytes for 300 clients that announce 150 GB");
    drop(clients);
    friend.wait_for("connected_clients", 1);
}

/// Each command of a MULTI, and each argument, costs more than its bytes; the limit counts that too.
#[test]
fn what_small_pieces_cost_is_counted() {
    let served = Served::start("pieces", &["--lanes", "2", "--client-query-buffer-limit", "8mb"]);
    let mut friend = served.talk();
    assert_eq!(friend.say("SET a 1"), "+OK");
    let before = served.resident_size();
    let mut queuer = served.talk();
    assert_eq!(queuer.say("MULTI"), "+OK");
    let batch = frame(&[b"PING"]).repeat(1000);
    let mut refused = 0;
    let mut sent = 0;
    while refused == 0 {
        assert!(sent < 1_000_000, "a limit is reached");
        queuer.0.get_mut().write_all(&batch).unwrap();
        sent += 1000;
        refused += (0..1000).filter(|_| queuer.line().starts_with("-ERR the commands of this MULTI")).count();
    }
    let grown = served.resident_size().saturating_sub(before);
    assert!(grown < 16 * MIB, "{sent} queued commands took {grown} bytes where 8 MB are allowed");
    assert_eq!(friend.say("GET a"), "1");

    // As many empty arguments as there may be.
    let mut lister = served.connect();
    let asked = [b"*1048576\r\n$3\r\nDEL\r\n".to_vec(), b"$0\r\n\r\n".repeat(1_048_575)].concat();
    let _ = lister.write_all(&asked);
    assert!(rest(&mut lister).is_empty(), "the command is longer than the limit");
    let grown = served.resident_size().saturating_sub(before);
    assert!(grown < 32 * MIB, "{grown} bytes");
    assert_eq!(friend.say("GET a"), "1");
}

#[test]
fn lines_without_an_end_end_the_connection() {
    let served = Served::start("endless", &["--lanes", "2"]);
    let mut friend = served.talk();
    for (start, want) in [
        (&b""[..], "too big inline request"),
        (b"*", "too big mbulk count string"),
        (b"*2\r\n$", "too big bulk count string"),
        (b"*1000000000\r\n", "invalid multibulk length"),
        (b"*-5\r\n*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*3\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"SET k \"open\r\n", "unbalanced quotes in request"),
    ] {
        let mut stream = served.connect();
        let mut bytes = start.to_vec();
        bytes.resize(start.len() + 100_000, b'1');
        // The server may close in the middle of it.
        let _ = stream.write_all(&bytes);
        let got = String::from_utf8_lossy(&rest(&mut stream)).into_owned();
        // What is cut off may take the last words with it.
        assert!(got.is_empty() || got == format!("-ERR Protocol error: {want}\r\n"), "{got:?}, not {want}");
        assert_eq!(friend.say("PING"), "+PONG");
    }
    friend.wait_for("connected_clients", 1);
}

#[test]
fn a_browser_is_sent_away_unheard() {
    let served = Served::start("http", &["--lanes", "2"]);
    let mut friend = served.talk();
    for request in [
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nSET a 1\r\n",
        "Host: localhost\r\nSET a 1\r\n",
    ] {
        let mut stream = served.connect();
        stream.write_all(request.as_bytes()).unwrap();
        assert!(rest(&mut stream).is_empty(), "{request:?} is not answered");
    }
    assert_eq!(friend.say("GET a"), "nil");
}

#[test]
fn a_stranger_is_given_little() {
    let served = Served::start("stranger", &["--lanes", "2", "--requirepass", "secret"]);
    for (bytes, want) in [
        (&b"*11\r\n"[..], "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        (b"*2\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ] {
        let mut stream = served.connect();
        stream.write_all(bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&rest(&mut stream)), want);
    }
    let mut greedy = served.connect();
    let asked = frame(&[b"GET", b"a"]).repeat(1000);
    let _ = greedy.write_all(&asked);
    let got = rest(&mut greedy);
    assert!(got.len() <= 2048 && !got.windows(3).any(|window| window == b"$-1"), "{} bytes", got.len());
    let mut friend = served.talk();
    assert_eq!(friend.say("AUTH secret"), "+OK");
    friend.wait_for("connected_clients", 1);
}

/// Small replies: the sender is slowed, for good, and costs what its buffers are. Large ones: it is cut off at its limit.
#[test]
fn a_client_that_never_reads_is_slowed_and_then_cut() {
    let flags = ["--lanes", "2", "--client-output-buffer-limit", "normal 4mb 0 0"];
    let served = Served::start("deaf", &flags);
    let mut friend = served.talk();
    let value = "v".repeat(1000);
    assert_eq!(friend.say(&format!("SET small {value}")), "+OK");
    // One reply is more than the limit.
    assert_eq!(friend.say(&format!("SET large {}", "v".repeat(5_000_000))), "+OK");
    let before = served.resident_size();

    let mut slowed = served.connect();
    let asked = frame(&[b"GET", b"small"]).repeat(1_000_000);
    let sent = flood(&mut slowed, &asked);
    assert!(sent < asked.len(), "a client that does not read is not read from");
    assert_eq!(friend.say("GET small"), value);
    let grown = served.resident_size().saturating_sub(before);
    assert!(grown < 8 * MIB, "{grown} bytes for one client that does not read");
    // As soon as it reads, all it asked for is there.
    slowed.shutdown(Shutdown::Write).unwrap();
    let whole = sent / frame(&[b"GET", b"small"]).len();
    assert_eq!(rest(&mut slowed).len(), whole * (b"$1000\r\n\r\n".len() + 1000));

    let mut cut = served.connect();
    let _ = cut.write_all(&frame(&[b"GET", b"large"]).repeat(1000));
    let got = rest(&mut cut);
    assert!(got.len() < 100_000_000, "{} bytes came", got.len());
    assert_eq!(friend.say("GET small"), value);
    friend.wait_for("connected_clients", 1);
    let left = served.resident_size().saturating_sub(before);
    assert!(left < 8 * MIB, "{left} bytes are left of clients that have gone");
}

#[test]
fn ten_thousand_idle_connections() {
    const COUNT: u64 = 10_000;
    /// Resident bytes of the server for a connection that has said PING and nothing since; the kernel's are not in it.
    const SIZE_MAX: u64 = 1000;
    if !allow_files(0, COUNT + 500) {
        eprintln!("left out: {COUNT} open files are not allowed here");
        return;
    }
    let served = Served::start("idle", &["--lanes", "2", "--maxclients", "10100", "--tcp-backlog", "4096"]);
    let mut friend = served.talk();
    assert_eq!(friend.say("SET a 1"), "+OK");
    // What of the program all of them need is no part of one.
    for _ in 0..100 {
        assert_eq!(served.talk().say("PING"), "+PONG");
    }
    friend.wait_for("connected_clients", 1);
    let before = served.resident_size();
    let mut clients: Vec<TcpStream> = (0..COUNT).map(|_| served.connect()).collect();
    for client in &mut clients {
        client.write_all(b"PING\r\n").unwrap();
    }
    for client in &mut clients {
        let mut pong = [0; 7];
        client.read_exact(&mut pong).unwrap();
        assert_eq!(&pong, b"+PONG\r\n");
    }
    friend.wait_for("connected_clients", COUNT + 1);
    let size = served.resident_size().saturating_sub(before) / COUNT;
    assert!(size <= SIZE_MAX, "an idle connection takes {size} bytes");
    assert_eq!(friend.say("GET a"), "1");
    let files_count = served.files_count();
    drop(clients);
    friend.wait_for("connected_clients", 1);
    assert!(served.files_count() + 9_900 < files_count, "descriptors are closed");
}

/// A million commands in one go: written while the replies are read, and written first, as far as the kernel takes them.
#[test]
fn a_million_commands_in_one_go() {
    let served = Served::start("million", &["--lanes", "2"]);
    let mut friend = served.talk();
    let add = frame(&[b"INCR", b"count"]);
    let asked = add.repeat(1_000_000);
    let stream = served.connect();
    std::thread::scope(|scope| {
        scope.spawn(|| (&stream).write_all(&asked).unwrap());
        let mut replies = Talk(std::io::BufReader::new(stream.try_clone().unwrap()));
        for want in 1..=1_000_000 {
            assert_eq!(replies.line(), format!(":{want}"));
        }
    });
    assert_eq!(friend.say("GET count"), "1000000");
    drop(stream);

    let mut first = served.connect();
    let sent = flood(&mut first, &asked);
    first.shutdown(Shutdown::Write).unwrap();
    let got = rest(&mut first);
    let count = sent / add.len();
    assert_eq!(got.iter().filter(|byte| **byte == b':').count(), count, "each whole command has its reply");
    assert_eq!(friend.say("GET count"), (1_000_000 + count).to_string());
}

#[test]
fn connections_that_are_cut_off_leave_nothing_behind() {
    let served = Served::start("churn", &["--lanes", "2"]);
    let mut friend = served.talk();
    assert_eq!(friend.say("SET a 1"), "+OK");
    let whole = frame(&[b"GET", b"a"]);
    let value = vec![b'v'; 60_000];
    let large = frame(&[b"SET", b"large", &value]);
    let round = |count: usize| {
        for number in 0..count {
            let mut stream = served.connect();
            let bytes = match number % 6 {
                0 => &b""[..],
                1 => &whole[..],
                2 => &whole[..10],
                3 => &large[..50_000],
                4 => b"MULTI\r\nSET a 2\r\nSET b 2\r\n",
                _ => b"WATCH a b c d\r\nGET a\r\nCLIENT REPLY OFF\r\n",
            };
            stream.write_all(bytes).unwrap();
            if number % 6 == 1 && number % 12 == 1 {
                stream.read_exact(&mut [0; 7]).unwrap();
            }
            cut_off(stream);
        }
    };
    // What is made once is made.
    round(500);
    friend.wait_for("connected_clients", 1);
    let files_count = served.files_count();
    let mut count = 500;
    // What is left of connections is left each time; what the allocator keeps beside, up to 1 MiB at times, is not.
    let is_even = (0..3).any(|_| {
        let before = served.resident_size();
        round(5000);
        count += 5000;
        friend.wait_for("connected_clients", 1);
        assert_eq!(served.files_count(), files_count);
        served.resident_size().saturating_sub(before) < MIB
    });
    assert!(is_even, "more than {MIB} bytes are left of 5,000 connections, three times");
    assert_eq!(friend.say("GET a"), "1", "what was begun and not finished did not happen");
    assert_eq!(friend.info("total_connections_received"), count + 1);
}

/// The limit is taken away while the server runs: who is there is served, who comes is turned away, and INFO says so.
#[test]
fn a_server_out_of_descriptors_serves_on() {
    let served = Served::start("files", &["--lanes", "2"]);
    let mut friend = served.talk();
    assert_eq!(friend.say("SET a 1"), "+OK");
    let process = i32::try_from(served.id()).unwrap();
    if !allow_files(process, u64::try_from(served.files_count()).unwrap() + 3) {
        eprintln!("left out: limits can't be changed here");
        return;
    }
    let mut clients: Vec<TcpStream> = (0..50).map(|_| served.connect()).collect();
    let mut turned_away = 0;
    for client in &mut clients {
        let _ = client.write_all(b"PING\r\n");
        let mut pong = [0; 7];
        turned_away += u64::from(client.read_exact(&mut pong).is_err());
    }
    assert!((45..50).contains(&turned_away), "{turned_away} of 50 are turned away");
    assert_eq!(friend.say("GET a"), "1");
    assert_eq!(friend.info("rejected_connections"), turned_away);
    assert_eq!(friend.say("CONFIG RESETSTAT"), "+OK");
    assert_eq!(friend.info("rejected_connections"), 0);
    assert!(allow_files(process, 1000));
    drop(clients);
    assert_eq!(served.talk().say("GET a"), "1", "with room again, clients are let in");
}

/// A limit of the size of files (`ulimit -f`) is like a disk that is full: writes are refused until there is room.
#[test]
fn a_log_that_may_not_grow_refuses_writes() {
    let served = Served::start("size", &["--lanes", "2", "--appendonly", "yes"]);
    let mut friend = served.talk();
    friend.wait_for("aof_rewrite_in_progress", 0);
    let process = i32::try_from(served.id()).unwrap();
    let allow_size = |size: u64| {
        let limit = libc::rlimit { rlim_cur: size, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: `limit` is readable, and the old limit is not asked for.
        unsafe { libc::prlimit(process, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) == 0 }
    };
    if !allow_size(MIB) {
        eprintln!("left out: limits can't be changed here");
        return;
    }
    let value = "v".repeat(100_000);
    let mut count = 0;
    let refused = loop {
        let said = friend.say(&format!("SET {count} {value}"));
        if said != "+OK" {
            break said;
        }
        count += 1;
        assert!(count < 10_000, "the limit is reached");
    };
    assert!(refused.starts_with("-MISCONF Errors writing to the AOF file"), "{refused}");
    assert_eq!(friend.say("GET 0"), value);
    assert!(allow_size(libc::RLIM_INFINITY));
    until("a write that is taken", || friend.say("SET last 1") == "+OK");
    served.signal(libc::SIGTERM);
    let (code, printed) = served.end();
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("File too large (os error 27)"), "{printed}");
}

#[test]
fn what_is_as_large_as_allowed_is_taken() {
    let served = Served::start("limits", &["--lanes", "2", "--proto-max-bulk-len", "2mb"]);
    let mut friend = served.talk();
    let (key, longer) = ("k".repeat(32_768), "k".repeat(32_769));
    assert_eq!(friend.say(&format!("SET {key} 1")), "+OK");
    assert_eq!(friend.say(&format!("INCR {key}")), ":2");
    assert_eq!(friend.say(&format!("SET {longer} 1")), "-ERR key is longer than 32768 bytes");
    let value = "v".repeat(2 << 20);
    assert_eq!(friend.say(&format!("SET value {value}")), "+OK");
    assert_eq!(friend.say("GET value"), value);
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(friend.say("APPEND value 1"), too_long);
    assert_eq!(friend.say("SETRANGE value 2097152 1"), too_long);
    let behind = "-ERR bit offset is not an integer or out of range";
    assert_eq!(friend.say("SETBIT value 16777216 1"), behind);
    assert_eq!(friend.say("SETBIT value 16777215 1"), ":0");
    assert_eq!(friend.say("STRLEN value"), ":2097152");
    let mut longer = served.connect();
    longer.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2097153\r\n").unwrap();
    assert_eq!(rest(&mut longer), b"-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(friend.say("GET k"), "nil");
}

/// More than a pipe and the server's own queue take, said by a client, while nobody reads the log.
fn fill_log(served: &Served, friend: &mut Talk) {
    let text = "x".repeat(1000);
    for _ in 0..40 {
        let program = format!("for i = 1, 50 do redis.log(redis.LOG_WARNING, '{text}') end");
        friend.send_words(&["EVAL", &program, "0"]);
        assert_eq!(friend.reply(), "nil");
        // The control thread answers, so it has taken what was said before.
        assert_eq!(served.talk().say("CONFIG RESETSTAT"), "+OK");
    }
}

#[test]
fn a_log_that_nobody_reads_keeps_nobody_waiting() {
    let mut served = Served::start("unread", &["--lanes", "2", "--appendonly", "yes"]);
    let mut friend = served.talk();
    fill_log(&served, &mut friend);
    assert_eq!(friend.say("SET a 1"), "+OK");
    friend.wait_for("aof_rewrite_in_progress", 0);
    served.signal(libc::SIGTERM);
    until("the end", || served.has_ended());
    let (code, printed) = served.end();
    assert_eq!(code, Some(0));
    assert!(printed.contains("xxx"), "what was said first is there: {printed}");
}

#[test]
fn a_log_that_is_read_late_says_what_is_missing() {
    let mut served = Served::start("late", &["--lanes", "2"]);
    let mut friend = served.talk();
    fill_log(&served, &mut friend);
    let mut lines = served.take_log().lines().map(Result::unwrap);
    let notice = lines.find(|line| line.contains("missing here")).expect("the log goes on");
    assert!(notice.ends_with(" lines are missing here: the log was not read in time"), "{notice}");
    friend.send_words(&["EVAL", "redis.log(redis.LOG_WARNING, 'again')", "0"]);
    assert_eq!(friend.reply(), "nil");
    lines.find(|line| line.contains("again")).expect("there is room again");
}
