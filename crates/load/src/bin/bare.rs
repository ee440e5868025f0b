//! `bare`: the lower bound under every load on this machine (see `load::bare`).

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;

/// GETs of one key over many connections of one thread, as fast as they are answered by replies of a known size. Prints nothing.
#[derive(Parser)]
struct Options {
    /// Where to connect.
    #[arg(long, value_name = "ADDRESS:PORT")]
    address: SocketAddr,
    /// Connections.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Requests that a connection sends at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pipeline: u16,
    /// Bytes of the value in each reply.
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    value_size: usize,
    /// Ends after so many requests.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT")]
    requests: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let request = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n";
    let reply_size = format!("${}\r\n", options.value_size).len() + options.value_size + 2;
    let (connections, pipeline) = (usize::from(options.connections), usize::from(options.pipeline));
    match load::bare::run(options.address, connections, pipeline, request, reply_size, options.requests) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            #[expect(clippy::print_stderr, reason = "a program says on stderr why it ends")]
            {
                eprintln!("bare: {problem}");
            }
            ExitCode::FAILURE
        }
    }
}
