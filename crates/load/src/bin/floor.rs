//! `floor --port PORT [--reply-size BYTES] [--delay-ns TIME]`: the lower bound under every server on this machine (see `load::floor`).

use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: floor --port PORT [--reply-size BYTES] [--delay-ns TIME]\n\
    Answers every RESP request on 127.0.0.1:PORT with a bulk string of BYTES bytes (100 unless told),\n\
    TIME nanoseconds later than it could (0 unless told).";

fn main() -> ExitCode {
    let failure = match options(std::env::args().skip(1)) {
        Err(problem) => problem,
        Ok((port, reply_size, delay)) => match TcpListener::bind(("127.0.0.1", port))
            .and_then(|listener| load::floor::Floor::new(listener, reply_size))
            .and_then(|floor| floor.slowed(delay).run())
        {
            Err(error) => format!("floor: 127.0.0.1:{port}: {error}"),
        },
    };
    #[expect(clippy::print_stderr, reason = "a program says on stderr why it ends")]
    {
        eprintln!("{failure}");
    }
    ExitCode::FAILURE
}

/// The port, the size of the constant in bytes, and what each request takes longer.
fn options(mut arguments: impl Iterator<Item = String>) -> Result<(u16, usize, Duration), String> {
    let (mut port, mut reply_size, mut delay) = (None, 100, Duration::ZERO);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a value\n{USAGE}"))?;
        let wrong = |_| format!("{flag} {value}: not a number in range\n{USAGE}");
        match flag.as_str() {
            "--port" => port = Some(value.parse().map_err(wrong)?),
            "--reply-size" => reply_size = value.parse().map_err(wrong)?,
            "--delay-ns" => delay = Duration::from_nanos(value.parse().map_err(wrong)?),
            _ => return Err(format!("{flag}: no such flag\n{USAGE}")),
        }
    }
    Ok((port.ok_or(USAGE)?, reply_size, delay))
}
