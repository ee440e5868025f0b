//! Operations on a text against the same changes to a tree of serde_json's, for random documents, paths and values that come in
//! random pieces.

use serde_json::Value;

use super::{changed, run_cut};
use crate::json::{Answer, Error, Verb};

/// Random numbers of a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let high = usize::try_from(self.0 >> 33).expect("31 bits");
        high % end
    }

    fn of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }
}

/// Names as they are, as a document may write them, and as a path may.
const NAMES: [[&str; 3]; 8] = [
    ["a", r"\u0061", "a"],
    ["b", "b", "`b`"],
    ["ab", "ab", "a`b`"],
    ["ü😀", r"\u00fc\ud83d\uDE00", "ü😀"],
    ["x.y", "x.y", "`x.y`"],
    ["q`r", "q`r", "`q``r`"],
    ["s\"t\\", r#"s\"t\\"#, r#"s\"t\\"#],
    ["[0]\n", r"[0]\n", r"`[0]\n`"],
];

/// A random document's text; names are once in each object, as serde_json keeps only one.
fn some_text(random: &mut Random, depth: usize) -> String {
    let blank = random.of(&["", "", "", " ", "\n\t"]).to_string();
    let kind = if depth == 0 { 2 + random.below(6) } else { random.below(8) };
    let text = match kind {
        0 => {
            let mut members = Vec::new();
            for name in NAMES {
                if random.below(3) == 0 {
                    let name = if random.below(2) == 0 {
                        name[1]
                    } else {
                        &serde_json::to_string(name[0]).expect("text")[1..]
                    };
                    let name = name.trim_end_matches('"');
                    members.push(format!("{blank}\"{name}\"{blank}:{}", some_text(random, depth - 1)));
                }
            }
            format!("{{{}{blank}}}", members.join(","))
        }
        1 => {
            let elements: Vec<_> = (0..random.below(4)).map(|_| some_text(random, depth - 1)).collect();
            format!("[{}{blank}]", elements.join(","))
        }
        2 => random.of(&["true", "false", "null"]).to_string(),
        3 => random.of(&["\"\"", "\"a\"", r#""\\\"\u00fc\/""#, "\"},[\""]).to_string(),
        4 => random.of(&["0.5", "-1e3", "12.25E-1", "-0.0"]).to_string(),
        _ => random.of(&["0", "1", "-17", "9223372036854775807", "41"]).to_string(),
    };
    format!("{blank}{text}{blank}")
}

/// A random step of a path: for the model and as text.
#[derive(Clone, Debug)]
enum Go {
    Name(usize),
    Index(usize),
    Last,
}

fn some_path(random: &mut Random, document: &Value) -> (Vec<Go>, String) {
    let (mut steps, mut at) = (Vec::new(), Some(document));
    while random.below(4) > 0 && steps.len() < 6 {
        let step = match at {
            Some(Value::Array(elements)) if random.below(12) > 0 => match random.below(4) {
                0 => Go::Last,
                _ => Go::Index(random.below(elements.len() + 2)),
            },
            Some(Value::Object(members)) if random.below(12) > 0 && !members.is_empty() => {
                let name = members.keys().nth(random.below(members.len())).expect("a member");
                Go::Name(NAMES.iter().position(|known| known[0] == name).expect("a known name"))
            }
            _ if random.below(6) > 0 => Go::Name(random.below(NAMES.len())),
            _ => Go::Index(random.below(2)),
        };
        at = at.and_then(|value| child(value, &step).ok().flatten());
        steps.push(step);
    }
    let mut text = String::new();
    for step in &steps {
        match step {
            Go::Name(index) => {
                if !text.is_empty() && !text.ends_with('.') {
                    text.push('.');
                }
                text.push_str(NAMES[*index][2]);
            }
            Go::Index(index) => text.push_str(&format!("[{index}]")),
            Go::Last => text.push_str("[-1]"),
        }
    }
    (steps, text)
}

/// What a step leads to; an error if the value is of another kind.
fn child<'a>(value: &'a Value, step: &Go) -> Result<Option<&'a Value>, Error> {
    match (value, step) {
        (Value::Object(members), Go::Name(index)) => Ok(members.get(NAMES[*index][0])),
        (Value::Array(elements), Go::Index(index)) => Ok(elements.get(*index)),
        (Value::Array(elements), Go::Last) => Ok(elements.last()),
        _ => Err(Error::PathMismatch),
    }
}

/// The value at a path, or how many steps lead to the last that is there.
fn walk<'a>(document: &'a Value, steps: &[Go]) -> Result<Result<&'a Value, usize>, Error> {
    let mut at = document;
    for (index, step) in steps.iter().enumerate() {
        match child(at, step)? {
            Some(inner) => at = inner,
            None => return Ok(Err(index)),
        }
    }
    Ok(Ok(at))
}

fn at_mut<'a>(document: &'a mut Value, steps: &[Go]) -> &'a mut Value {
    steps.iter().fold(document, |value, step| match (value, step) {
        (Value::Object(members), Go::Name(index)) => members.get_mut(NAMES[*index][0]).expect("it is there"),
        (Value::Array(elements), Go::Index(index)) => &mut elements[*index],
        (Value::Array(elements), Go::Last) => elements.last_mut().expect("it is there"),
        (value, step) => panic!("{step:?} {value}"),
    })
}

/// What the model makes of an operation: the new document, and the sum of a counter.
fn modelled(
    verb: Verb,
    steps: &[Go],
    makes_parents: bool,
    values: &[Value],
    document: &Value,
) -> Result<(Value, Option<i64>), Error> {
    let mut tree = document.clone();
    let (value, delta) = (values[0].clone(), values[0].as_i64());
    let met = walk(document, steps)?;
    let above = steps.len().saturating_sub(1);
    let named = match steps.last() {
        Some(Go::Name(index)) => Some(NAMES[*index][0].to_string()),
        _ => None,
    };
    // Makes objects on the way to something new; what is missing must be named.
    let make = |tree: &mut Value, there: usize, inner: Value| {
        let names: Option<Vec<_>> = steps[there..]
            .iter()
            .map(|step| match step {
                Go::Name(index) => Some(NAMES[*index][0].to_string()),
                _ => None,
            })
            .collect();
        let names = names.ok_or(Error::PathMissing)?;
        if names.len() > 1 && !makes_parents {
            return Err(Error::PathMissing);
        }
        let mut inner = inner;
        for name in names[1..].iter().rev() {
            inner = Value::Object([(name.clone(), inner)].into_iter().collect());
        }
        let Value::Object(members) = at_mut(tree, &steps[..there]) else { return Err(Error::PathMissing) };
        members.insert(names[0].clone(), inner);
        Ok(())
    };
    match (verb, met) {
        (Verb::Add | Verb::Upsert, _) if named.is_none() => return Err(Error::PathSyntax),
        (Verb::Add, Ok(_)) => return Err(Error::PathExists),
        (Verb::Upsert | Verb::Replace, Ok(_)) => *at_mut(&mut tree, steps) = value,
        (Verb::Add | Verb::Upsert, Err(there)) => make(&mut tree, there, value)?,
        (Verb::Remove, Ok(_)) => match (at_mut(&mut tree, &steps[..above]), &steps[above]) {
            (Value::Object(members), _) => drop(members.remove(&named.expect("a name"))),
            (Value::Array(elements), Go::Index(index)) => drop(elements.remove(*index)),
            (Value::Array(elements), _) => drop(elements.pop()),
            (other, _) => panic!("{other}"),
        },
        (Verb::Insert, met) => {
            let Some(Go::Index(index)) = steps.last() else { return Err(Error::PathSyntax) };
            let is_there = met.is_ok() || met == Err(above);
            match at_mut(&mut tree, if is_there { &steps[..above] } else { &[] }) {
                Value::Array(elements) if is_there && *index <= elements.len() => {
                    elements.splice(index..index, values.iter().cloned());
                }
                _ => return Err(Error::PathMissing),
            }
        }
        (Verb::PushLast | Verb::PushFirst | Verb::AddUnique, Ok(Value::Array(old))) => {
            if verb == Verb::AddUnique {
                for element in old {
                    if element.is_array() || element.is_object() {
                        return Err(Error::PathMismatch);
                    }
                    if *element == value {
                        return Err(Error::PathExists);
                    }
                }
            }
            let Value::Array(elements) = at_mut(&mut tree, steps) else { panic!("it was one") };
            let at = if verb == Verb::PushFirst { 0 } else { elements.len() };
            elements.splice(at..at, values.iter().cloned());
        }
        (Verb::PushLast | Verb::PushFirst | Verb::AddUnique, Ok(_)) => return Err(Error::PathMismatch),
        (Verb::PushLast | Verb::PushFirst | Verb::AddUnique, Err(there)) if makes_parents => {
            make(&mut tree, there, Value::Array(values.to_vec()))?;
        }
        (Verb::Counter, Ok(old)) => {
            let old = old.as_i64().ok_or(Error::PathMismatch)?;
            let sum = old.checked_add(delta.expect("a number")).ok_or(Error::ValueUnfit)?;
            *at_mut(&mut tree, steps) = sum.into();
            return Ok((tree, Some(sum)));
        }
        (Verb::Counter, Err(there)) => {
            let is_object = walk(document, &steps[..there])?.expect("it is there").is_object();
            if is_object && makes_parents && named.is_none() {
                return Err(Error::PathSyntax);
            }
            make(&mut tree, there, value)?;
            return Ok((tree, delta));
        }
        _ => return Err(Error::PathMissing),
    }
    Ok((tree, None))
}

#[test]
fn operations_do_to_a_text_what_they_do_to_a_tree() {
    let verbs = [
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
    let (mut done, mut refused) = ([0u32; 12], [0u32; 12]);
    for seed in 0..40_000 {
        let mut random = Random(seed);
        for _ in 0..4 {
            random.below(2);
        }
        let mut document = some_text(&mut random, 4);
        while !document.trim_start().starts_with(['{', '[']) {
            document = some_text(&mut random, 4);
        }
        let tree: Value =
            serde_json::from_str(&document).unwrap_or_else(|error| panic!("{error} {document}"));
        let (steps, path) = some_path(&mut random, &tree);
        let which = random.below(12);
        let (verb, makes_parents) = (verbs[which], random.below(2) == 0);
        let texts: Vec<_> = match verb {
            Verb::Counter => vec![random.of(&["1", "-3", "9223372036854775807"]).to_string()],
            Verb::AddUnique => vec![some_text(&mut random, 0)],
            Verb::PushLast | Verb::PushFirst | Verb::Insert => {
                (0..=random.below(2)).map(|_| some_text(&mut random, 2)).collect()
            }
            _ => vec![some_text(&mut random, 2)],
        };
        let value = texts.join(",");
        let values: Vec<Value> = texts.iter().map(|text| serde_json::from_str(text).expect("JSON")).collect();
        let got = run_cut(verb, &path, makes_parents, &value, document.as_bytes(), || 1 + random.below(9));
        let about = format!("seed {seed}: {verb:?} {path} {makes_parents} {value} in {document}");
        let is_done = match verb {
            Verb::Get | Verb::Exists | Verb::Count => {
                let want = walk(&tree, &steps).and_then(|met| met.map_err(|_| Error::PathMissing));
                match (got, want) {
                    (Ok(Answer::Value(range)), Ok(want)) => {
                        let value: Value = serde_json::from_str(&document[range.clone()]).expect(&about);
                        assert_eq!((&value, verb), (want, Verb::Get), "{about}");
                        assert_eq!(document[range.clone()].trim(), &document[range], "{about}");
                        true
                    }
                    (Ok(Answer::Exists), Ok(_)) => verb == Verb::Exists,
                    (Ok(Answer::Count(count)), Ok(want)) => {
                        let size =
                            want.as_array().map(Vec::len).or(want.as_object().map(serde_json::Map::len));
                        assert_eq!(Some(usize::try_from(count).expect("few")), size, "{about}");
                        true
                    }
                    (Err(error), Ok(want)) => {
                        let is_scalar = !want.is_array() && !want.is_object();
                        assert!(error == Error::PathMismatch && verb == Verb::Count && is_scalar, "{about}");
                        false
                    }
                    (got, want) => {
                        assert_eq!(got.expect_err(&about), want.expect_err(&about), "{about}");
                        false
                    }
                }
            }
            _ => {
                let is_whole = steps.is_empty()
                    && matches!(verb, Verb::Add | Verb::Upsert | Verb::Replace | Verb::Remove);
                let is_unfit = verb == Verb::Insert && !matches!(steps.last(), Some(Go::Index(_)));
                let want = match verb {
                    _ if is_whole => Err(Error::ValueUnfit),
                    _ if is_unfit => Err(Error::PathSyntax),
                    _ => modelled(verb, &steps, makes_parents, &values, &tree),
                };
                match (got, want) {
                    (Ok(answer), Ok((want, sum))) => {
                        let text = changed(&answer, &value, &document);
                        let new: Value = serde_json::from_str(&text)
                            .unwrap_or_else(|error| panic!("{error} {text} {about}"));
                        assert_eq!(new, want, "{about}");
                        assert_eq!(sum, if let Answer::Sum(sum, _) = answer { Some(sum) } else { None });
                        true
                    }
                    (got, want) => {
                        let error = got.expect_err(&about);
                        assert_eq!(error, want.map(|_| ()).expect_err(&about), "{about}");
                        false
                    }
                }
            }
        };
        *(if is_done { &mut done[which] } else { &mut refused[which] }) += 1;
    }
    assert!(done.into_iter().chain(refused).all(|count| count > 40), "{done:?} {refused:?}");
}

/// What the scanner says of a value, whole and in pieces.
fn is_json(text: &[u8], random: &mut Random) -> bool {
    let document = |cut: &mut dyn FnMut() -> usize| {
        let value = String::from_utf8(text.to_vec()).expect("text");
        run_cut(Verb::Add, "a", false, &value, b"{}", cut)
            .map_err(|error| assert_eq!(error, Error::ValueUnfit))
    };
    let whole = document(&mut || usize::MAX);
    assert_eq!(document(&mut || 1 + random.below(5)), whole);
    whole.is_ok()
}

#[test]
fn what_is_json_is_what_others_say_it_is() {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..20_000 {
        let mut random = Random(seed << 20);
        let mut text = some_text(&mut random, 3).into_bytes();
        for _ in 0..random.below(3) {
            let at = random.below(text.len());
            let odd = b"{}[]\",:\\u0-19.eE+ \n\x01/tfn";
            let byte = odd[random.below(odd.len())];
            match random.below(3) {
                0 => text.insert(at, byte),
                1 => drop(text.remove(at)),
                _ => text[at] = byte,
            }
            if text.is_empty() {
                text.push(byte);
            }
        }
        let Ok(readable) = std::str::from_utf8(&text) else { continue };
        // serde_json refuses halves of pairs and numbers that no float has, which are JSON by its grammar.
        let is_odd = readable.contains("\\ud") || readable.contains("\\uD");
        let want = serde_json::from_str::<Value>(readable);
        if is_odd || want.as_ref().is_err_and(|error| error.to_string().contains("out of range")) {
            continue;
        }
        assert_eq!(is_json(&text, &mut random), want.is_ok(), "seed {seed}: {readable}");
        *(if want.is_ok() { &mut good } else { &mut bad }) += 1;
    }
    assert!(good > 5_000 && bad > 5_000, "{good} {bad}");
}
