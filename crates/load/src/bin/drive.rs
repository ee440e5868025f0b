//! `drive`: asks a server and prints how long that took, as one line of JSON (see `load::drive`).

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use load::drive::{Command, Drive, Order, Owner, Pace, Report, Setup};

/// Requests over many connections of one thread, in a closed loop or at a rate. Prints counts and times in nanoseconds as
/// one line of JSON. At a rate it never sleeps: give it a core of its own (taskset).
#[derive(Parser)]
struct Options {
    /// Where to connect; may be given again, connections are dealt out in turn.
    #[arg(long, required = true, value_name = "ADDRESS:PORT")]
    address: Vec<SocketAddr>,
    /// Connections over all addresses.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Requests that a connection sends at once in a closed loop; the next ones follow when all are answered.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pipeline: u16,
    /// What is asked.
    #[arg(long, value_enum, default_value_t = Verb::Get)]
    command: Verb,
    /// Bytes of a value that is set.
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    value_size: usize,
    /// Keys that are asked for: `key:` and twelve digits, from 0.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    keys: u32,
    /// Which of them comes next.
    #[arg(long, value_enum, default_value_t = Sequence::Random)]
    order: Sequence,
    /// Whose keys a connection asks for; `own` and `next` need a server with lanes.
    #[arg(long, value_enum, default_value_t = Whose::Any)]
    owner: Whose,
    /// Lanes of the server.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    lanes: u16,
    /// Requests a second over all connections, whatever the server does. Without it: a closed loop.
    #[arg(long, value_parser = positive)]
    rate: Option<f64>,
    /// How requests at a rate follow one another.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    arrivals: Arrivals,
    /// Ends after so many requests.
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true, value_name = "COUNT")]
    requests: u64,
    /// Ends after so long.
    #[arg(long, value_parser = positive, required_unless_present = "requests")]
    seconds: Option<f64>,
    /// Requests of the first so many seconds are not recorded.
    #[arg(long, value_parser = positive, value_name = "SECONDS")]
    warm_up: Option<f64>,
    /// The same seed asks for the same keys at the same times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Verb {
    Get,
    Set,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sequence {
    Random,
    Ascending,
}

#[derive(Clone, Copy, ValueEnum)]
enum Whose {
    /// Anybody's
    Any,
    /// The lane's that serves the connection
    Own,
    /// The next lane's, so that every request is forwarded
    Next,
}

#[derive(Clone, Copy, ValueEnum)]
enum Arrivals {
    /// Independent of one another
    Poisson,
    /// Evenly spaced
    Even,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(report) => {
            #[expect(clippy::print_stdout, reason = "a program prints its result")]
            {
                println!("{}", report.json());
            }
            ExitCode::SUCCESS
        }
        Err(problem) => {
            #[expect(clippy::print_stderr, reason = "a program says on stderr why it ends")]
            {
                eprintln!("drive: {problem}");
            }
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a program reads the clock")]
fn run(options: &Options) -> std::io::Result<Report> {
    let began = Instant::now();
    let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Drive::new(setup(options), clock)?.run()
}

fn setup(options: &Options) -> Setup {
    Setup {
        servers: options.address.clone(),
        connections_count: usize::from(options.connections),
        pipeline: usize::from(options.pipeline),
        command: match options.command {
            Verb::Get => Command::Get,
            Verb::Set => Command::Set(options.value_size),
        },
        keys: 0..options.keys,
        lanes: options.lanes,
        owner: match options.owner {
            Whose::Any => Owner::Any,
            Whose::Own => Owner::Own,
            Whose::Next => Owner::Next,
        },
        order: match options.order {
            Sequence::Random => Order::Random,
            Sequence::Ascending => Order::Ascending,
        },
        pace: match (options.rate, options.arrivals) {
            (None, _) => Pace::Closed,
            (Some(rate), Arrivals::Poisson) => Pace::Poisson(rate),
            (Some(rate), Arrivals::Even) => Pace::Even(rate),
        },
        requests_max: options.requests,
        duration_ns: options.seconds.map_or(u64::MAX, nanoseconds),
        warm_up_ns: options.warm_up.map_or(0, nanoseconds),
        seed: options.seed,
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("not a number above 0".to_owned()),
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    let exact = std::time::Duration::try_from_secs_f64(seconds).unwrap_or(std::time::Duration::MAX);
    u64::try_from(exact.as_nanos()).unwrap_or(u64::MAX)
}
