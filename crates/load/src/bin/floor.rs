//! `floor --port PORT [--reply-size BYTES] [--delay-ns TIME] [--threads COUNT]`: the lower bound under every server on this machine (see `load::floor`).

use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: floor --port PORT [--reply-size BYTES] [--delay-ns TIME] [--threads COUNT]\n\
    Answers every RESP request on 127.0.0.1:PORT with a bulk string of BYTES bytes (100 unless told),\n\
    TIME nanoseconds later than it could (0 unless told), in a process of COUNT threads (1 unless told),\n\
    all but one of which sleep: each call on a descriptor then costs what it costs a server of several threads.";

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|word| word == "--help" || word == "-h") {
        #[expect(clippy::print_stdout, reason = "a program says how it is used")]
        {
            println!("{USAGE}");
        }
        return ExitCode::SUCCESS;
    }
    let failure = match options(std::env::args().skip(1)) {
        Err(problem) => problem,
        Ok(Options { port, reply_size, delay, threads }) => {
            #[expect(clippy::disallowed_methods, reason = "they do nothing")]
            (1..threads).for_each(|_| drop(std::thread::spawn(sleep)));
            match TcpListener::bind(("127.0.0.1", port))
                .and_then(|listener| load::floor::Floor::new(listener, reply_size))
                .and_then(|floor| floor.slowed(delay).run())
            {
                Err(error) => format!("floor: 127.0.0.1:{port}: {error}"),
            }
        }
    };
    #[expect(clippy::print_stderr, reason = "a program says on stderr why it ends")]
    {
        eprintln!("{failure}");
    }
    ExitCode::FAILURE
}

/// Until the process ends.
fn sleep() {
    loop {
        std::thread::park();
    }
}

struct Options {
    port: u16,
    /// Of the constant, in bytes.
    reply_size: usize,
    /// What each request takes longer.
    delay: Duration,
    threads: usize,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let (mut port, mut reply_size, mut delay, mut threads) = (None, 100, Duration::ZERO, 1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a value\n{USAGE}"))?;
        let wrong = |_| format!("{flag} {value}: not a number in range\n{USAGE}");
        match flag.as_str() {
            "--port" => port = Some(value.parse().map_err(wrong)?),
            "--reply-size" => reply_size = value.parse().map_err(wrong)?,
            "--threads" => threads = value.parse::<NonZeroUsize>().map_err(wrong)?.get(),
            "--delay-ns" => delay = Duration::from_nanos(value.parse().map_err(wrong)?),
            _ => return Err(format!("{flag}: no such flag\n{USAGE}")),
        }
    }
    Ok(Options { port: port.ok_or(USAGE)?, reply_size, delay, threads })
}
