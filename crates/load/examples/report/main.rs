//! Writes reports of made-up results and their figures, to look at: `cargo run --example report -- DIRECTORY`.

mod made_up;

use std::path::Path;

use load::result::Saved;

/// A comparison of many runs on machines with much to say: a page near the most that one may have.
fn largest() -> Saved {
    let mut saved = made_up::compare(6, 60, 0.9);
    for surroundings in &mut saved.surroundings {
        let items = (0..5_000).map(|number| {
            serde_json::json!({"name": format!("setting {number}"), "value": "0-127 ".repeat(90), "expected": "equal"})
        });
        let groups = serde_json::json!([{"name": "sysctl", "items": items.collect::<Vec<_>>()}]);
        surroundings.environment = serde_json::json!({ "groups": groups });
    }
    saved
}

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let results = [
        ("run", made_up::single(1)),
        ("compare", made_up::compare(2, 10, 0.7)),
        ("sweep", made_up::sweep(3)),
        ("search", made_up::search(4)),
        ("sizes", made_up::sizes(5)),
        ("largest", largest()),
    ];
    for (name, saved) in results {
        std::fs::write(Path::new(&directory).join(format!("{name}.html")), load::report::page(&saved))?;
        for (figure, text) in load::report::files(&saved) {
            std::fs::write(Path::new(&directory).join(format!("{name}-{figure}")), text)?;
        }
    }
    Ok(())
}
