//! Patterns of KEYS, SCAN and CONFIG GET.
//!
//! `*` any bytes, `?` one byte, `[abc]` one of, `[^abc]` none of, `[a-z]` a range, `\x` the byte itself. Follows
//! `stringmatchlen` of Redis 7.0 (`src/util.c`), oddities included: a class need not be closed, a range may be written
//! backwards, the empty text matches the empty pattern alone, and a pattern that goes through more than [`STARS_MAX`]
//! stars matches nothing. Bytes compare unsigned on every machine (Redis: as the machine's `char`).
//!
//! A mismatch goes back to the last star only, never to an earlier one: what an earlier star could give, the last one can
//! give too. So the cost is at most pattern × text, without recursion, and a match can stop after any number of steps and
//! go on in a later turn. One that is to end in one go ([`matches()`]) does so for a sixty-fourth of that at most: see [`hard`].

/// A pattern with more runs of stars than this matches nothing. Redis gives up there too (CVE-2024-31228).
pub const STARS_MAX: u32 = 1000;

/// What [`Match::run`] found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The text matches.
    Yes,
    /// It does not.
    No,
    /// The budget is spent: call again.
    More,
}

/// Longest pattern that clients may have others' work matched against. With a text of 32 KiB one takes up to 0.3 milliseconds (Intel Xeon).
pub const STANDING_PATTERN_SIZE_MAX: usize = 1024;

/// How many looks at a byte a match may take that goes step by step, for each byte of pattern and text: more, and it is a hard one.
const EASY_LOOKS: usize = 4;
/// Of a longer text no more bytes count for that: there all places at once are the faster way for most patterns with a star.
const EASY_TEXT_MAX: usize = 1024;

/// Does the text match?
pub fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    matches_at_cost(pattern, text, case).0
}

/// Does the text match, and what did it take to find out: in bytes looked at, or in what takes as long.
pub fn matches_at_cost(pattern: &[u8], text: &[u8], case: Case) -> (bool, usize) {
    let easy = (EASY_LOOKS * (pattern.len() + text.len().min(EASY_TEXT_MAX) + 1)) as u64;
    let (mut matching, mut left) = (Match::new(), easy);
    let verdict = matching.run(pattern, text, case, &mut left);
    let looks = usize::try_from(easy - left).unwrap_or(usize::MAX);
    match verdict {
        Verdict::More => {
            let (fits, hard_looks) = hard::matches(matching, pattern, text, case);
            (fits, looks + hard_looks)
        }
        verdict => (verdict == Verdict::Yes, looks),
    }
}

/// Whether `a` and `A` are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// They differ: keys.
    Exact,
    /// They are the same: names of settings and commands.
    Ignored,
}

/// A match under way: where it stands in pattern and text, and where the last star was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Match {
    pattern_at: usize,
    text_at: usize,
    /// Behind the last star: in the pattern, and in the text where that star's bytes end.
    star: Option<(usize, usize)>,
    stars: u32,
}

impl Match {
    /// At the start.
    pub const fn new() -> Match {
        Match { pattern_at: 0, text_at: 0, star: None, stars: 0 }
    }

    /// Goes on for at most `budget` bytes looked at, and takes what it used off it. A class is looked at in one go, so the
    /// last step may go over by the size of the pattern. `pattern`, `text` and `case` are the same in all calls.
    pub fn run(&mut self, pattern: &[u8], text: &[u8], case: Case, budget: &mut u64) -> Verdict {
        loop {
            if *budget == 0 {
                return Verdict::More;
            }
            let rest = &pattern[self.pattern_at..];
            let (Some(&first), Some(&byte)) = (rest.first(), text.get(self.text_at)) else {
                // One of them is at its end: both must be. A match that used up the text has skipped the stars behind.
                if rest.is_empty() && self.text_at == text.len() {
                    return Verdict::Yes;
                }
                if !self.go_back(text) {
                    return Verdict::No;
                }
                *budget -= 1;
                continue;
            };
            if first == b'*' {
                let run = stars(rest);
                spend(budget, run);
                if run == rest.len() {
                    return Verdict::Yes;
                }
                self.stars += 1;
                if self.stars > STARS_MAX {
                    return Verdict::No;
                }
                self.pattern_at += run;
                self.star = Some((self.pattern_at, self.text_at));
                continue;
            }
            let (fits, size) = one(rest, byte, case);
            spend(budget, size);
            if fits {
                self.pattern_at += size;
                self.text_at += 1;
                if self.text_at == text.len() {
                    let run = stars(&pattern[self.pattern_at..]);
                    spend(budget, run);
                    self.pattern_at += run;
                }
            } else if !self.go_back(text) {
                return Verdict::No;
            }
        }
    }

    /// Gives the last star one byte more; false if there is none left to give.
    fn go_back(&mut self, text: &[u8]) -> bool {
        match self.star {
            Some((pattern_at, text_at)) if text_at + 1 < text.len() => {
                self.star = Some((pattern_at, text_at + 1));
                (self.pattern_at, self.text_at) = (pattern_at, text_at + 1);
                true
            }
            _ => false,
        }
    }
}

mod hard;

/// Number of stars that `pattern` starts with.
fn stars(pattern: &[u8]) -> usize {
    pattern.iter().take_while(|byte| **byte == b'*').count()
}

fn spend(budget: &mut u64, bytes: usize) {
    *budget = budget.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
}

/// Compares one byte with what the pattern starts with, which is no star; also the size of that part of the pattern.
fn one(pattern: &[u8], byte: u8, case: Case) -> (bool, usize) {
    match pattern {
        [b'?', ..] => (true, 1),
        [b'[', class @ ..] => {
            let (fits, size) = in_class(class, byte, case);
            (fits, size + 1)
        }
        [b'\\', literal, ..] => (same(*literal, byte, case), 2),
        [literal, ..] => (same(*literal, byte, case), 1),
        [] => (false, 0),
    }
}

/// `class` starts behind the `[`; the size covers the `]`, or all that is there without one.
fn in_class(class: &[u8], byte: u8, case: Case) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        at += match &class[at..] {
            [b'\\', literal, ..] => {
                // As in Redis, an escaped byte in a class is compared exactly even where case is ignored.
                found |= *literal == byte;
                2
            }
            [b']', ..] => return (found != negated, at + 1),
            [] => return (found != negated, at),
            [from, b'-', to, ..] => {
                let (from, to) = (*from.min(to), *from.max(to));
                found |= match case {
                    Case::Exact => (from..=to).contains(&byte),
                    Case::Ignored => (from.to_ascii_lowercase()..=to.to_ascii_lowercase())
                        .contains(&byte.to_ascii_lowercase()),
                };
                3
            }
            [literal, ..] => {
                found |= same(*literal, byte, case);
                1
            }
        };
    }
}

fn same(literal: u8, byte: u8, case: Case) -> bool {
    match case {
        Case::Exact => literal == byte,
        Case::Ignored => literal.eq_ignore_ascii_case(&byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, want: bool) {
        for (case, text) in [(Case::Exact, text.to_owned()), (Case::Ignored, text.to_ascii_uppercase())] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), case), want, "{pattern} on {text}");
        }
        crate::fuzz::glob(&[pattern.as_bytes(), &[0], text.as_bytes()].concat());
    }

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, want) in [
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("*", "", false),
            ("*", "a", true),
            ("**", "abc", true),
            ("a*", "a", true),
            ("a**", "a", true),
            ("*a", "a", true),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*c", "abcc", true),
            ("a*bc*d", "abxbcxd", true),
            ("*ab*cd*", "xxabxcdx", true),
            ("*ab*cd*", "xxaxbcdx", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h[a-b]llo", "hcllo", false),
            ("[a-", "a", true),
            ("[a-", "-", true),
            ("[a-]", "]", true),
            ("[ab", "b", true),
            ("[^", "b", true),
            ("[", "[", false),
            ("[]a]", "a]", false),
            ("[\\]]", "]", true),
            ("[\\", "\\", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\", "\\", true),
            ("a\\", "a\\", true),
            ("*?", "a", true),
            ("?*", "", false),
            ("*[0-9]", "key:7", true),
        ] {
            check(pattern, text, want);
        }
    }

    /// Each byte of the text would be looked at for each of the pattern.
    #[test]
    fn hard_patterns_match_like_easy_ones_and_cost_less() {
        let check = |pattern: &[u8], text: &[u8]| {
            for case in [Case::Exact, Case::Ignored] {
                let mut budget = u64::MAX;
                let want = Match::new().run(pattern, text, case, &mut budget) == Verdict::Yes;
                let (got, cost) = matches_at_cost(pattern, text, case);
                let name = String::from_utf8_lossy(&pattern[..pattern.len().min(40)]).into_owned();
                assert_eq!(got, want, "{name} of {} bytes", pattern.len());
                let words = pattern.len().div_ceil(64);
                let most = 2 * EASY_LOOKS * (pattern.len() + EASY_TEXT_MAX + 1)
                    + (words + 1) * text.len()
                    + 256 * (words + pattern.len());
                assert!(cost <= most, "{name} of {} bytes: {cost} looks", pattern.len());
            }
        };
        for size in [1, 5, 63, 64, 65, 127, 128, 129, 1000] {
            let run = "a".repeat(size);
            for text in ["a".repeat(5000), "a".repeat(4999) + "b", "a".repeat(2500) + "b" + &"a".repeat(2499)]
            {
                for pattern in [
                    format!("*{run}b"),
                    format!("*{run}b*"),
                    format!("*{run}b*a"),
                    format!("*{run}?b*?"),
                    format!("*{run}[^a]*c"),
                    format!("*{run}[ab]*{run}B"),
                    format!("*{run}\\b**"),
                    format!("*{run}*{run}*{run}*c"),
                    format!("*{run}[a-"),
                    format!("*{run}b{run}*{run}\\"),
                    format!("*{run}b[a-z]{run}"),
                ] {
                    check(pattern.as_bytes(), text.as_bytes());
                }
            }
        }
        check("*aaaaaaaa[^a]".repeat(1001).as_bytes(), "a".repeat(30_000).as_bytes());
        check(("*aab".repeat(1001) + "*").as_bytes(), "aaaaab".repeat(5000).as_bytes());
        check(("*aab".repeat(1000) + "*").as_bytes(), "aaaaab".repeat(5000).as_bytes());
        check(("*aab".repeat(999) + "*aac*").as_bytes(), ("aaaaab".repeat(1000) + "aac").as_bytes());
    }

    /// All short patterns of a few letters, as hard ones.
    #[test]
    fn what_goes_on_as_a_hard_one_ends_the_same() {
        let letters = *b"ab*?[]^\\-";
        let texts: Vec<Vec<u8>> = (1..=4)
            .flat_map(|size| {
                (0..1_u32 << size)
                    .map(move |bits| (0..size).map(|at| b"ab"[(bits >> at & 1) as usize]).collect())
            })
            .collect();
        for number in 0..9_u32.pow(4) {
            let pattern: Vec<u8> = [b'*']
                .into_iter()
                .chain((0..4).map(|at| letters[(number / 9_u32.pow(at) % 9) as usize]))
                .collect();
            for text in &texts {
                let mut matching = Match::new();
                if matching.run(&pattern, text, Case::Exact, &mut 1) != Verdict::More {
                    continue;
                }
                let want = matches(&pattern, text, Case::Exact);
                let (got, _) = hard::matches(matching, &pattern, text, Case::Exact);
                assert_eq!(
                    got,
                    want,
                    "{} on {}",
                    String::from_utf8_lossy(&pattern),
                    String::from_utf8_lossy(text)
                );
            }
        }
    }

    #[test]
    fn patterns_match_as_recorded() {
        for line in include_str!("../tests/vectors/glob.txt").lines().filter(|line| !line.starts_with("# ")) {
            match *line.split(' ').collect::<Vec<_>>() {
                [pattern, key, verdict] => {
                    assert_eq!(
                        matches(pattern.as_bytes(), key.as_bytes(), Case::Exact),
                        verdict == "yes",
                        "{line}"
                    )
                }
                _ => panic!("pattern, key, verdict: {line}"),
            }
        }
    }

    #[test]
    fn a_pattern_of_very_many_stars_matches_nothing() {
        let text = "a".repeat(3000);
        assert!(matches("*?".repeat(1000).as_bytes(), text.as_bytes(), Case::Exact));
        assert!(!matches("*?".repeat(1001).as_bytes(), text.as_bytes(), Case::Exact));
    }
}
