//! What parts of the load cost. One program, for to link one takes half a minute.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod engine;
mod recording;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["engine", pipeline, count] => engine::main(pipeline, count),
        ["recording", kind @ ("single" | "batch"), count] => recording::main(kind == "batch", count, false),
        ["recording", kind @ ("single" | "batch"), count, "time"] => {
            recording::main(kind == "batch", count, true)
        }
        _ => println!("usage: cost engine PIPELINE COUNT | cost recording single|batch COUNT [time]"),
    }
}
