//! What must hold for any bytes of a path, a value and a document, and of a request that has several of them.

use crate::couchbase::subdocument;
use crate::json::{Answer, Draft, Error, Operation, Piece, Verb};
use crate::memcached::Head;

const VERBS: [Verb; 12] = [
    Verb::Get,
    Verb::Exists,
    Verb::Count,
    Verb::Add,
    Verb::Upsert,
    Verb::Remove,
    Verb::Replace,
    Verb::PushLast,
    Verb::PushFirst,
    Verb::Insert,
    Verb::AddUnique,
    Verb::Counter,
];

/// Every verb comes to the same in one piece and byte by byte, names only bytes that there are, and leaves a document of the size
/// that its edit says. The first bytes tell how long path and value are. The same bytes as a request of several paths name only parts of
/// it. Returns how many verbs had something to say.
pub fn operations(input: &[u8]) -> u32 {
    let (Some([path_size, value_size, opcode]), rest) =
        (input.first_chunk::<3>(), input.get(3..).unwrap_or_default())
    else {
        return 0;
    };
    specs(*opcode, rest);
    let (path, rest) = rest.split_at(usize::from(*path_size).min(rest.len()));
    let (value, document) = rest.split_at(usize::from(*value_size).min(rest.len()));
    let mut answers = 0;
    for verb in VERBS {
        let whole = run(verb, path, value, document, usize::MAX);
        assert_eq!(whole, run(verb, path, value, document, 1), "the same in pieces");
        let Ok(answer) = whole else { continue };
        answers += 1;
        match answer {
            Answer::Value(range) => assert!(range.start < range.end && range.end <= document.len()),
            Answer::Exists | Answer::Count(_) => {}
            Answer::Edit(edit) | Answer::Sum(_, edit) => {
                let put = edit.front.len() + edit.back.len() + if edit.has_value { value.len() } else { 0 };
                let mut draft = Draft::new(document.len());
                draft.apply(&edit, 0..value.len());
                assert_eq!(draft.size() + edit.at.len(), document.len() + put);
            }
        }
    }
    answers
}

/// Structured documents, paths and values, chosen by the bytes, and by what follows from them when they end. Some are damaged. A request
/// of several verbs does to a draft, which is made of pieces, what one after the other does to a text. Returns how many verbs had
/// something to say.
pub fn requests(input: &[u8]) -> u32 {
    each_request(input, |_, _| {})
}

/// A verb, its path in steps, its value, and the document before it.
struct Asked<'a> {
    verb: Verb,
    /// None of one that is damaged.
    steps: Option<&'a [&'static str]>,
    value: &'a str,
    document: &'a str,
}

/// The same for somebody who looks on: at what was asked, and at what came of it with the document behind that.
fn each_request(input: &[u8], mut see: impl FnMut(&Asked<'_>, (&Result<Answer, Error>, &str))) -> u32 {
    let mut dice = Dice { input, state: 0 };
    let mut document = String::new();
    while !document.trim_start().starts_with(['{', '[']) {
        document.clear();
        put_value(&mut document, &mut dice, 4);
    }
    dice.damage(&mut document);
    let (mut text, mut draft, mut request) = (document.clone(), Draft::new(document.len()), String::new());
    let mut answers = 0;
    for _ in 0..1 + dice.below(6) {
        let verb = VERBS[dice.below(VERBS.len())];
        let steps: Vec<_> = (0..dice.below(5)).map(|_| STEPS[dice.below(STEPS.len())]).collect();
        let (whole, mut value) = (steps.join(".").replace(".[", "["), String::new());
        let mut path = whole.clone();
        dice.damage(&mut path);
        let steps = (path == whole).then_some(&steps[..]);
        if verb == Verb::Counter {
            value = ["1", "-3", "9223372036854775807"][dice.below(3)].to_owned();
        } else {
            // Arrays take several at once.
            let several = matches!(verb, Verb::PushLast | Verb::PushFirst | Verb::Insert);
            (0..1 + dice.below(if several { 3 } else { 1 })).for_each(|index| {
                value.push_str(if index > 0 { "," } else { "" });
                put_value(&mut value, &mut dice, 2);
            });
        }
        answers += operations(&packed(&path, &value, &text));
        let want = run(verb, path.as_bytes(), value.as_bytes(), text.as_bytes(), usize::MAX);
        let pieces = pieces(&draft, &request, &document);
        let got = run_pieces(verb, path.as_bytes(), [value.as_bytes()].into_iter(), pieces);
        assert_eq!(got, want, "{verb:?} {path} {value} {text}");
        let asked = Asked { verb, steps, value: &value, document: &text.clone() };
        let Ok(Answer::Edit(edit) | Answer::Sum(_, edit)) = &got else {
            see(&asked, (&got, &text));
            continue;
        };
        let put = if edit.has_value { value.as_str() } else { "" };
        let made = [&edit.front, &edit.back].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        text.replace_range(edit.at.clone(), &[&made[0], put, &made[1]].concat());
        draft.apply(edit, request.len()..request.len() + value.len());
        request.push_str(&value);
        let whole = self::pieces(&draft, &request, &document).collect::<Vec<_>>().concat();
        assert!(whole == text.as_bytes() && draft.size() == text.len(), "{verb:?} {path} {value}: {text}");
        see(&asked, (&got, &text));
    }
    answers
}

/// Choices by bytes of an input.
struct Dice<'a> {
    input: &'a [u8],
    state: u64,
}

impl Dice<'_> {
    fn below(&mut self, end: usize) -> usize {
        let (byte, rest) = self.input.split_first().unwrap_or((&0, &[]));
        self.input = rest;
        self.state = self.state.wrapping_add(u64::from(*byte) + 1).wrapping_mul(6_364_136_223_846_793_005);
        usize::try_from(self.state >> 33).expect("31 bits") % end
    }

    /// Now and then makes another text of one.
    fn damage(&mut self, text: &mut String) {
        if self.below(8) > 0 || text.is_empty() || !text.is_ascii() {
            return;
        }
        let (at, odd) = (self.below(text.len()), "{}[]\",:\\`.u01-e ");
        let byte = &odd[self.below(odd.len())..][..1];
        text.replace_range(at..at + self.below(2), byte);
    }
}

const NAMES: [&str; 5] = ["a", "b", "ab", "x.y", "q"];

/// Steps of a path, as it has them.
const STEPS: [&str; 9] = ["a", "b", "`ab`", "`x.y`", "q", "[0]", "[1]", "[-1]", "[2]"];

/// A value: arrays and objects up to a depth; names may be written otherwise, and are once in each object.
fn put_value(text: &mut String, dice: &mut Dice<'_>, depth: usize) {
    let blank = ["", "", "", " ", "\n\t"][dice.below(5)];
    text.push_str(blank);
    match if depth == 0 { 2 + dice.below(5) } else { dice.below(7) } {
        kind @ 0..2 => {
            text.push_str(["{", "["][kind]);
            let first = dice.below(2);
            for (index, name) in NAMES[first..][..dice.below(4)].iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                if kind == 0 {
                    text.push_str(blank);
                    match dice.below(4) {
                        0 => text.push_str(&format!("\"\\u{:04x}{}\"", name.as_bytes()[0], &name[1..])),
                        _ => text.push_str(&format!("\"{name}\"")),
                    }
                    text.push_str(blank);
                    text.push(':');
                }
                put_value(text, dice, depth - 1);
            }
            text.push_str(blank);
            text.push_str(["}", "]"][kind]);
        }
        2 => text.push_str(["true", "false", "null"][dice.below(3)]),
        3 => text.push_str(["\"\"", "\"a\"", r#""\\\"\u00fc""#, "\"},[\""][dice.below(4)]),
        _ => text.push_str(["0", "1", "-17", "0.5", "9223372036854775807", "12.25E-1"][dice.below(6)]),
    }
    text.push_str(blank);
}

/// What [`operations`] takes apart.
fn packed(path: &str, value: &str, document: &str) -> Vec<u8> {
    let [path_size, value_size] = [path, value].map(|text| u8::try_from(text.len()).unwrap_or(u8::MAX));
    [&[path_size, value_size, 0xc5][..], path.as_bytes(), value.as_bytes(), document.as_bytes()].concat()
}

/// What a draft is made of, a few bytes at a time.
fn pieces<'a>(draft: &'a Draft, request: &'a str, document: &'a str) -> impl Iterator<Item = &'a [u8]> {
    const SIZE_MAX: usize = 7;
    let mut at = 0;
    std::iter::from_fn(move || {
        let bytes = match draft.piece_at(at)? {
            Piece::Document(range) => &document.as_bytes()[range],
            Piece::Request(range) => &request.as_bytes()[range],
            Piece::Made(range) => &draft.made()[range],
        };
        let bytes = &bytes[..bytes.len().min(SIZE_MAX)];
        assert!(!bytes.is_empty(), "a piece has bytes");
        at += bytes.len();
        Some(bytes)
    })
}

fn run_pieces<'a>(
    verb: Verb,
    path: &[u8],
    mut value: impl Iterator<Item = &'a [u8]>,
    document: impl Iterator<Item = &'a [u8]>,
) -> Result<Answer, Error> {
    let mut operation = Operation::new(verb, path, true)?;
    if verb.has_value() {
        value.try_for_each(|piece| operation.value(piece))?;
        operation.value_end()?;
    }
    for piece in document {
        if operation.document(piece)? {
            break;
        }
    }
    operation.finish()
}

fn run(verb: Verb, path: &[u8], value: &[u8], document: &[u8], piece: usize) -> Result<Answer, Error> {
    run_pieces(verb, path, value.chunks(piece), document.chunks(piece))
}

fn specs(opcode: u8, value: &[u8]) {
    let Some(changes) = subdocument::changes(opcode) else { return };
    let size = u64::try_from(value.len()).expect("a size fits 64 bits");
    let extras = &[0, 2, 0][..usize::from(subdocument::extras_sizes(opcode, changes)[0])];
    let Ok(head) = subdocument::ask(Head { opcode, ..Head::default() }, extras, size, changes) else {
        return;
    };
    for spec in subdocument::specs(&head, value.len(), |range| value[range].to_vec()).unwrap_or_default() {
        assert!(spec.value.start <= spec.value.end && spec.value.end <= value.len());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn anything_may_come() {
        let mut state: u64 = 1;
        let mut below = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).expect("31 bits") % count
        };
        let mut answers = 0;
        for _ in 0..20_000 {
            let odd = b"{}[]\",:\\`.u01-aeE \xff\xf0\0\x01\xc5\xc8";
            let size = below(60);
            let mut input = vec![
                u8::try_from(below(12)).expect("small"),
                u8::try_from(below(12)).expect("small"),
                u8::try_from(0xc5 + below(14)).expect("a byte"),
            ];
            input.extend((0..size).map(|_| odd[below(odd.len())]));
            answers += operations(&input);
        }
        assert!(answers > 20, "{answers}");
    }

    /// What a path leads to in a tree of serde_json's.
    fn at<'a>(tree: &'a Value, steps: &[&str]) -> Option<&'a Value> {
        steps.iter().try_fold(tree, |value, step| match step.strip_prefix('[') {
            Some("-1]") => value.as_array()?.last(),
            Some(digit) => value.get(digit.trim_end_matches(']').parse::<usize>().expect("a digit")),
            None => value.get(step.trim_matches('`')),
        })
    }

    #[test]
    fn requests_do_what_serde_json_finds_done() {
        let mut counts = [0_u32; 12];
        for seed in 0..6000_u32 {
            each_request(&seed.to_le_bytes(), |asked, (answer, after)| {
                let &Asked { verb, steps: Some(steps), value, document } = asked else { return };
                let Ok(tree) = serde_json::from_str::<Value>(document) else { return };
                let about = format!("{verb:?} {steps:?} {value} in {document}: {answer:?}, {after}");
                let after: Value = serde_json::from_str(after).expect(&about);
                let (found, then) = (at(&tree, steps), at(&after, steps));
                let size = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
                let Ok(answer) = answer else {
                    let is_seen = matches!(verb, Verb::Get | Verb::Exists) && found.is_some();
                    assert!(!is_seen && tree == after, "{about}");
                    return;
                };
                counts[VERBS.iter().position(|known| *known == verb).expect("one of them")] += 1;
                match (verb, answer) {
                    (Verb::Get, Answer::Value(range)) => {
                        assert_eq!(
                            serde_json::from_str(&document[range.clone()]).ok().as_ref(),
                            found,
                            "{about}"
                        );
                    }
                    (Verb::Exists, _) => assert!(found.is_some(), "{about}"),
                    (Verb::Count, Answer::Count(count)) => {
                        let members = found.and_then(Value::as_object).map_or(0, serde_json::Map::len);
                        assert_eq!(usize::try_from(*count).ok(), Some(size(found).max(members)), "{about}");
                    }
                    (Verb::Add | Verb::Upsert | Verb::Replace, _) => {
                        assert_eq!(serde_json::from_str(value).ok().as_ref(), then, "{about}");
                    }
                    (Verb::PushLast | Verb::PushFirst | Verb::AddUnique, _) => {
                        let values: Vec<Value> = serde_json::from_str(&format!("[{value}]")).expect(&about);
                        let [old, new] = [found, then].map(|value| value.and_then(Value::as_array));
                        let (old, new) = (old.map_or(&[][..], Vec::as_slice), new.expect(&about).as_slice());
                        let both = if verb == Verb::PushFirst { [&values, old] } else { [old, &values] };
                        assert_eq!(both.concat(), new, "{about}");
                    }
                    (Verb::Counter, Answer::Sum(sum, _)) => {
                        let old = found.map_or(0, |value| value.as_i64().expect(&about));
                        let delta: i64 = value.parse().expect(&about);
                        assert_eq!(
                            (old + delta, then.and_then(Value::as_i64)),
                            (*sum, Some(*sum)),
                            "{about}"
                        );
                    }
                    (Verb::Remove | Verb::Insert, _) => {
                        let above = &steps[..steps.len() - 1];
                        let count = |tree: &Value| {
                            let members =
                                at(tree, above).and_then(Value::as_object).map(serde_json::Map::len);
                            members.unwrap_or(size(at(tree, above)))
                        };
                        let (before, behind) = (count(&tree), count(&after));
                        assert!(
                            if verb == Verb::Remove { behind + 1 == before } else { behind > before },
                            "{about}"
                        );
                    }
                    _ => panic!("{about}"),
                }
            });
        }
        assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
    }

    #[test]
    fn requests_of_several_verbs_do_what_one_after_the_other_does() {
        let answers: u32 = (0..6000_u32).map(|seed| requests(&seed.to_le_bytes())).sum();
        assert!(answers > 10_000, "{answers}");
    }
}
