//! Writes reports of made-up results, to look at: `cargo run --example report -- DIRECTORY`.

mod made_up;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let results = [
        ("run", made_up::single(1)),
        ("compare", made_up::compare(2, 10, 0.7)),
        ("sweep", made_up::sweep(3)),
        ("search", made_up::search(4)),
        ("sizes", made_up::sizes(5)),
    ];
    for (name, saved) in results {
        std::fs::write(Path::new(&directory).join(format!("{name}.html")), load::report::page(&saved))?;
    }
    Ok(())
}
