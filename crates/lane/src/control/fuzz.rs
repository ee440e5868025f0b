//! Body of the fuzz target for settings: what must hold for any CONFIG SET. `fuzz/` calls it with bytes of a fuzzer, the test with
//! bytes of a seeded generator.

use wire::reply::Proto;

use super::config::Config;
use crate::Settings;

/// Each line of `input` is a CONFIG SET: names and values in turn, with zero bytes between. What is refused changes nothing; what
/// is taken has a form in which it is given back, taken once more and kept as it is, and lanes can be told of it.
pub fn config(input: &[u8]) {
    let mut config = Config::new(&[]);
    for line in input.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let before = shown(&config);
        match config.check(&pairs) {
            Ok(changes) => config.set(changes),
            Err(why) => {
                assert!(why.starts_with(b"ERR ") && shown(&config) == before, "{why:?}");
                continue;
            }
        };
        let after = shown(&config);
        for (name, _) in &pairs {
            let value = config.value(std::str::from_utf8(name).expect("a known name")).to_owned();
            config.set(config.check(&[(name, value.as_bytes())]).expect("what is given back is taken"));
        }
        assert!(shown(&config) == after, "a value is its own form");
        config.apply(&mut Settings::default());
    }
}

/// All settings, as CONFIG GET gives them back.
fn shown(config: &Config) -> Vec<u8> {
    let mut out = Vec::new();
    config.get([b"*".as_slice()].into_iter(), Proto::Resp2, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::super::settings::SETTINGS;
    use crate::chance::Chance;

    const VALUES: [&str; 16] = [
        "",
        "0",
        "-1",
        "12",
        "9223372036854775807",
        "9223372036854775808",
        "10mb",
        "50%",
        "yes",
        "no",
        "allkeys-lru",
        "900 1 300 10",
        "normal 1gb 0 0",
        "pubsub 1 2 3 normal 0 0 0",
        "50 99.9 1e2",
        "KEA$lg",
    ];

    #[test]
    fn any_settings_are_taken_or_refused() {
        let mut chance = Chance::new(3);
        let mut below = |count: usize| usize::try_from(chance.next() % count as u64).expect("an index");
        for _ in 0..300 {
            let mut input = Vec::new();
            for _ in 0..10 {
                for _ in 0..1 + below(2) {
                    input.extend_from_slice(SETTINGS[below(SETTINGS.len())].name.as_bytes());
                    input.push(0);
                    let value = VALUES[below(VALUES.len())];
                    let start = input.len();
                    input.extend_from_slice(value.as_bytes());
                    if below(3) == 0 && !value.is_empty() {
                        let at = start + below(value.len());
                        input[at] = b"0-9 km%.\xff"[below(9)];
                    }
                    input.push(0);
                }
                input.pop();
                input.push(b'\n');
            }
            super::config(&input);
        }
    }
}
