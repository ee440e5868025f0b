//! Operations on documents, worked out by hand.

mod random;

use super::*;

/// Runs an operation; the value and the document come in pieces of the sizes that `cut` gives.
fn run_cut(
    verb: Verb,
    path: &str,
    makes_parents: bool,
    value: &str,
    document: &[u8],
    mut cut: impl FnMut() -> usize,
) -> Result<Answer, Error> {
    let mut operation = Operation::new(verb, path.as_bytes(), makes_parents)?;
    if verb.has_value() {
        let mut rest = value.as_bytes();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(cut().clamp(1, rest.len()));
            operation.value(piece)?;
            rest = behind;
        }
        operation.value_end()?;
    }
    let mut rest = document;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(cut().clamp(1, rest.len()));
        if operation.document(piece)? {
            break;
        }
        rest = behind;
    }
    operation.finish()
}

/// The same in one piece, having seen that pieces of one byte make no difference.
fn run(verb: Verb, path: &str, makes_parents: bool, value: &str, document: &str) -> Result<Answer, Error> {
    let whole = run_cut(verb, path, makes_parents, value, document.as_bytes(), || usize::MAX);
    let bytes = run_cut(verb, path, makes_parents, value, document.as_bytes(), || 1);
    assert_eq!(whole, bytes, "{verb:?} {path} {value} {document}");
    whole
}

/// The document that an answer leaves, written out of a draft.
fn changed(answer: &Answer, value: &str, document: &str) -> String {
    let (Answer::Edit(edit) | Answer::Sum(_, edit)) = answer else { panic!("{answer:?} changes nothing") };
    let mut draft = Draft::new(document.len());
    draft.apply(edit, 0..value.len());
    written(&draft, value, document)
}

fn written(draft: &Draft, request: &str, document: &str) -> String {
    let mut text = String::new();
    for piece in draft.pieces() {
        text.push_str(match piece {
            Piece::Document(range) => &document[range.clone()],
            Piece::Request(range) => &request[range.clone()],
            Piece::Made(range) => std::str::from_utf8(&draft.made()[range.clone()]).expect("made of text"),
        });
    }
    assert_eq!(text.len(), draft.size());
    text
}

#[test]
fn values_are_found_where_they_stand() {
    let check = |path: &str, document: &str, want: Result<&str, Error>| {
        let found = run(Verb::Get, path, false, "", document).map(|answer| match answer {
            Answer::Value(range) => document[range].to_string(),
            other => panic!("{other:?}"),
        });
        assert_eq!(found, want.map(str::to_string), "{path} {document}");
        let exists = run(Verb::Exists, path, false, "", document);
        assert_eq!(exists, want.map(|_| Answer::Exists), "{path} {document}");
    };
    let toy = r#"{ "type":"product", "pName" : "Tickle Me", "pDetails":{"audience":"children"},
        "pDistributors":[ {"dName":"Out","dAdded":["Feb",36,2025]} , {"dName":"Go!","dAdded":["May",72,1492]}],
        "dot.ted.field":{"subfield":1.5e3},"back`tick`field":null,"field.with.\"quotes\"":true}"#;
    check("type", toy, Ok("\"product\""));
    check("pName", toy, Ok("\"Tickle Me\""));
    check("pDetails", toy, Ok(r#"{"audience":"children"}"#));
    check("pDistributors[0].dName", toy, Ok("\"Out\""));
    check("pDistributors[1].dAdded[2]", toy, Ok("1492"));
    check("pDistributors[-1].dAdded[-1]", toy, Ok("1492"));
    check("pDistributors[-1].dName", toy, Ok("\"Go!\""));
    check("`dot.ted.field`.subfield", toy, Ok("1.5e3"));
    check("`back``tick``field`", toy, Ok("null"));
    check(r#"`field.with.\"quotes\"`"#, toy, Ok("true"));
    check("pDistributors.count", toy, Err(Error::PathMismatch));
    check("type.category", toy, Err(Error::PathMismatch));
    check("pDetails[0]", toy, Err(Error::PathMismatch));
    check("pDistributors[2]", toy, Err(Error::PathMissing));
    check("pDistributors[-1].none", toy, Err(Error::PathMissing));
    check("audience", toy, Err(Error::PathMissing));
    check("a..b", toy, Err(Error::PathSyntax));
    check("[-1]", "[ 1, 2, 3,       4        ]", Ok("4"));
    check("[-1]", "[]", Err(Error::PathMissing));
    check("[-1][-1][-1]", "[1,2,3,[4,5,6,[7,8,9]]]", Ok("9"));
    check("[-1].a", r#"[{"a":1},{"a":2},{"b":3}]"#, Err(Error::PathMissing));
    check("[-1].a", r#"[{"b":1},[],{"a":3,"b":4}]"#, Ok("3"));
    check("[-1].a", r#"[{"a":1},7]"#, Err(Error::PathMismatch));
    check("[-1][0]", "[[1],[2],[]]", Err(Error::PathMissing));
    check("[-1].a[-1].b", r#"[{"a":[{"b":1},{"b":2}]},{"a":[{"b":3},{"b":4}],"c":[{"b":5}]}]"#, Ok("4"));
    check("a.b", r#"{"x":{"a":{"b":1}},"a":{"x":{"b":2},"b":3}}"#, Ok("3"));
    check("a", r#"{"\u0061":1}"#, Ok("1"));
    check("", "[1]", Ok("[1]"));
    check("", " 17", Ok("17"));
    check("a", r#"{"a":1 "#, Ok("1"));
    check("b", r#"{"a":1 "#, Err(Error::DocumentNotJson));
    check("a", "", Err(Error::DocumentNotJson));
    check("a", "nonjson", Err(Error::DocumentNotJson));
    check("a", "true story", Err(Error::DocumentNotJson));
    check("a", "5 apples", Err(Error::DocumentNotJson));
    check("a", "5", Err(Error::PathMismatch));
    check("a", " null ", Err(Error::PathMismatch));
    check("a", r#"{"b":tru,"a":1}"#, Err(Error::DocumentNotJson));
}

#[test]
fn what_is_inside_is_counted() {
    let check = |path: &str, document: &str, want| {
        assert_eq!(run(Verb::Count, path, false, "", document), want, "{path} {document}");
    };
    check("array", r#"{"array":[1,[2,3],{"a":4},4]}"#, Ok(Answer::Count(4)));
    check("array[0]", r#"{"array":[1,2,3,4]}"#, Err(Error::PathMismatch));
    check("", "[]", Ok(Answer::Count(0)));
    check("", "{}", Ok(Answer::Count(0)));
    check("", r#"{"a":1,"b":[2]}"#, Ok(Answer::Count(2)));
    check("array[-1]", r#"{"array":[[1],[]]}"#, Ok(Answer::Count(0)));
    check("array[-1]", r#"{"array":[[],[1,2]]}"#, Ok(Answer::Count(2)));
    check("n", r#"{"a":"k"}"#, Err(Error::PathMissing));
}

#[test]
fn documents_are_changed_in_place() {
    let check = |verb, path: &str, value: &str, document: &str, want: Result<&str, Error>| {
        let is_making = path.starts_with('+');
        let path = path.strip_prefix('+').unwrap_or(path);
        let got = run(verb, path, is_making, value, document).map(|answer| changed(&answer, value, document));
        assert_eq!(got, want.map(str::to_string), "{verb:?} {path} {value} {document}");
    };
    use Verb::{Add, AddUnique, Counter, Insert, PushFirst, PushLast, Remove, Replace, Upsert};
    check(Add, "a", "1", "{}", Ok(r#"{"a":1}"#));
    check(Add, "b", "[2]", r#"{"a":1 }"#, Ok(r#"{"a":1 ,"b":[2]}"#));
    check(Add, "a", "1", r#"{"a":2}"#, Err(Error::PathExists));
    check(Add, "a.b", "1", "{}", Err(Error::PathMissing));
    check(Add, "+a.b", "1", "{}", Ok(r#"{"a":{"b":1}}"#));
    check(Add, "+x.b.c", "1", r#"{"a":1,"x":{"y":2}}"#, Ok(r#"{"a":1,"x":{"y":2,"b":{"c":1}}}"#));
    check(Add, "+a[0].b", "1", "{}", Err(Error::PathMissing));
    check(Add, "+a.b", "1", "[null]", Err(Error::PathMismatch));
    check(Add, "", "1", "{}", Err(Error::ValueUnfit));
    check(Add, "[0]", "1", "[]", Err(Error::PathSyntax));
    check(Add, "a", "INVALID", "{}", Err(Error::ValueUnfit));
    check(Add, "a", "1,2", "{}", Err(Error::ValueUnfit));
    check(Add, "a", r#"1,"k2":2"#, "{}", Err(Error::ValueUnfit));
    check(Add, "a", "1}", "{}", Err(Error::ValueUnfit));
    check(Add, "a", "", "{}", Err(Error::ValueUnfit));
    check(Add, r#"+q\"\n.`x.y`"#, "1", "{}", Ok(r#"{"q\"\n":{"x.y":1}}"#));
    check(Upsert, "a", "3", r#"{"a": 1, "b":2}"#, Ok(r#"{"a": 3, "b":2}"#));
    check(Upsert, "c", "3", r#"{"a":1}"#, Ok(r#"{"a":1,"c":3}"#));
    check(Upsert, "array[0]", "true", r#"{"array":[null]}"#, Err(Error::PathSyntax));
    check(Upsert, "array[-1]", "true", r#"{"array":[null]}"#, Err(Error::PathSyntax));
    check(Replace, "a[1]", r#""x""#, r#"{"a":[1,2,3]}"#, Ok(r#"{"a":[1,"x",3]}"#));
    check(Replace, "a[-1]", "4", r#"{"a":[1,2, 3 ]}"#, Ok(r#"{"a":[1,2, 4 ]}"#));
    check(Replace, "b", "1", r#"{"a":1}"#, Err(Error::PathMissing));
    check(Replace, "", "1", "[]", Err(Error::ValueUnfit));
    check(Remove, "a", "", r#"{ "a" : 1 , "b":2}"#, Ok(r#"{ "b":2}"#));
    check(Remove, "b", "", r#"{"a":1 , "b":2 }"#, Ok(r#"{"a":1 }"#));
    check(Remove, "b", "", r#"{"a":1,"b":2,"c":3}"#, Ok(r#"{"a":1,"c":3}"#));
    check(Remove, "a", "", r#"{"a":{"x":[1,2]}}"#, Ok("{}"));
    check(Remove, "[0]", "", "[1,2]", Ok("[2]"));
    check(Remove, "[1]", "", "[1,2]", Ok("[1]"));
    check(Remove, "[-1]", "", "[1, 2, 3]", Ok("[1, 2]"));
    check(Remove, "[-1]", "", "[1]", Ok("[]"));
    check(Remove, "[-1].a", "", r#"[{"a":0,"b":1},{"a":2,"b":3}]"#, Ok(r#"[{"a":0,"b":1},{"b":3}]"#));
    check(Remove, "[-1].b", "", r#"[{"a":0,"b":1},{"a":2,"b":3}]"#, Ok(r#"[{"a":0,"b":1},{"a":2}]"#));
    check(Remove, "[-1]", "", "[]", Err(Error::PathMissing));
    check(Remove, "", "", "{}", Err(Error::ValueUnfit));
    check(PushLast, "", "null", "[]", Ok("[null]"));
    check(PushLast, "", "2, [3]", "[1 ]", Ok("[1 ,2, [3]]"));
    check(PushLast, "a", "7,8", r#"{"a":[{}]}"#, Ok(r#"{"a":[{},7,8]}"#));
    check(PushLast, "a", "1", "{}", Err(Error::PathMissing));
    check(PushLast, "+a", "1", "{}", Ok(r#"{"a":[1]}"#));
    check(PushLast, "+a.b", "1,2", r#"{"a":{"c":0}}"#, Ok(r#"{"a":{"c":0,"b":[1,2]}}"#));
    check(PushLast, "", "1", "{}", Err(Error::PathMismatch));
    check(PushLast, "", "1],[2", "[]", Err(Error::ValueUnfit));
    check(PushLast, "", "1,", "[]", Err(Error::ValueUnfit));
    check(PushLast, "", " ", "[]", Err(Error::ValueUnfit));
    check(PushLast, "+array[2]", "true", r#"{"array":[null]}"#, Err(Error::PathMissing));
    check(PushFirst, "", "0", "[ 1]", Ok("[ 0,1]"));
    check(PushFirst, "", "0", "[]", Ok("[0]"));
    check(PushFirst, "[-1]", "0", "[[],[1]]", Ok("[[],[0,1]]"));
    check(PushFirst, "+a", "0", "{}", Ok(r#"{"a":[0]}"#));
    check(Insert, "[2]", "3", "[1,2,4,5]", Ok("[1,2,3,4,5]"));
    check(Insert, "[0]", "0", "[]", Ok("[0]"));
    check(Insert, "[4]", "6,7", "[1,2,4,5]", Ok("[1,2,4,5,6,7]"));
    check(Insert, "[5]", "6", "[1,2,4,5]", Err(Error::PathMissing));
    check(Insert, "[-1]", "6", "[1]", Err(Error::PathSyntax));
    check(Insert, "[0].any", "6", "[1]", Err(Error::PathSyntax));
    check(Insert, "non[0]", "6", "{}", Err(Error::PathMissing));
    check(Insert, "[0]", "6", "{}", Err(Error::PathMismatch));
    check(Insert, "[-1][1]", "6", "[[0],[1,2]]", Ok("[[0],[1,6,2]]"));
    check(AddUnique, "", "1", "[]", Ok("[1]"));
    check(AddUnique, "", " 2 ", "[1]", Ok("[1, 2 ]"));
    check(AddUnique, "", "2", "[1,2,3]", Err(Error::PathExists));
    check(AddUnique, "", "\"2\"", "[1,2,3]", Ok("[1,2,3,\"2\"]"));
    check(AddUnique, "", "12", "[1,123]", Ok("[1,123,12]"));
    check(AddUnique, "", "2", "[1,[]]", Err(Error::PathMismatch));
    check(AddUnique, "", "[]", "[1]", Err(Error::ValueUnfit));
    check(AddUnique, "", "1,2", "[]", Err(Error::ValueUnfit));
    check(AddUnique, "a", "1", r#"{"a":{}}"#, Err(Error::PathMismatch));
    check(AddUnique, "+a", "1", "{}", Ok(r#"{"a":[1]}"#));
    check(AddUnique, "[-1]", "1", "[[1],[2]]", Ok("[[1],[2,1]]"));
    check(AddUnique, "[-1]", "1", "[[[]],[2]]", Ok("[[[]],[2,1]]"));
    check(Counter, "a", "5", r#"{"a": -7}"#, Ok(r#"{"a": -2}"#));
    check(Counter, "a", "-5", "{}", Ok(r#"{"a":-5}"#));
    check(Counter, "[0]", "1", "[-20,1]", Ok("[-19,1]"));
    check(Counter, "a.b", "1", "{}", Err(Error::PathMissing));
    check(Counter, "+a.b", "1", r#"{"c":0}"#, Ok(r#"{"c":0,"a":{"b":1}}"#));
    check(Counter, "[0]", "42", "[]", Err(Error::PathMissing));
    check(Counter, "+array[1]", "100", r#"{"array":[null]}"#, Err(Error::PathMissing));
    check(Counter, "a", "1", r#"{"a":3.14}"#, Err(Error::PathMismatch));
    check(Counter, "a", "1", r#"{"a":1e2}"#, Err(Error::PathMismatch));
    check(Counter, "a", "1", r#"{"a":"1"}"#, Err(Error::PathMismatch));
    check(Counter, "a", "1", r#"{"a":null}"#, Err(Error::PathMismatch));
    check(Counter, "a", "1", r#"{"a":9999999999999999999999999999999}"#, Err(Error::NumberTooBig));
    check(Counter, "a", "1", r#"{"a":0.99999999999999999999999999}"#, Err(Error::PathMismatch));
    check(Counter, "a", "1", r#"{"a":9223372036854775808}"#, Err(Error::NumberTooBig));
    check(Counter, "a", "1", r#"{"a":9223372036854775806}"#, Ok(r#"{"a":9223372036854775807}"#));
    check(Counter, "a", "2", r#"{"a":9223372036854775806}"#, Err(Error::ValueUnfit));
    check(Counter, "a", "-9223372036854775808", r#"{"a":0}"#, Ok(r#"{"a":-9223372036854775808}"#));
    check(Counter, "a", "-1", r#"{"a":-9223372036854775808}"#, Err(Error::ValueUnfit));
    for delta in ["", "bad", "3.14", "-", "43f", "0", "-0", "01", "+1", " 1", "9223372036854775808"] {
        check(Counter, "a", delta, "{}", Err(Error::DeltaUnfit));
    }
}

#[test]
fn nothing_lies_deeper_than_the_deepest_level() {
    let nested = |count: usize, inner: &str| format!("{}{inner}{}", "[".repeat(count), "]".repeat(count));
    let path = |count: usize| "[0]".repeat(count);
    let check = |verb, path: &str, value: &str, document: &str, want: Result<(), Error>| {
        assert_eq!(run(verb, path, false, value, document).map(|_| ()), want, "{verb:?} {path} {value}");
    };
    let deepest = usize::from(LEVELS_MAX);
    check(Verb::Get, &path(31), "", &nested(31, "1"), Ok(()));
    check(Verb::Get, &path(30), "", &nested(deepest, ""), Ok(()));
    check(Verb::Get, &path(30), "", &nested(deepest, "1"), Err(Error::DocumentTooDeep));
    check(Verb::Get, &path(30), "", &nested(deepest + 1, ""), Err(Error::DocumentTooDeep));
    check(Verb::Get, &path(32), "", "[]", Err(Error::PathTooBig));
    check(Verb::Replace, &path(31), "2", &nested(31, "1"), Ok(()));
    check(Verb::Replace, &path(31), "[]", &nested(31, "1"), Ok(()));
    check(Verb::Replace, &path(31), "[1]", &nested(31, "1"), Err(Error::ValueTooDeep));
    check(Verb::Replace, &path(30), "[3,4]", &nested(31, "1"), Ok(()));
    check(Verb::Replace, &path(30), "[[5]]", &nested(31, "1"), Err(Error::ValueTooDeep));
    check(Verb::PushLast, &path(30), "1,[]", &nested(31, "1"), Ok(()));
    check(Verb::PushLast, &path(30), "[1]", &nested(31, "1"), Err(Error::ValueTooDeep));
    check(Verb::PushLast, &path(31), "1", &nested(32, ""), Err(Error::ValueTooDeep));
    check(Verb::PushFirst, &path(31), "1", &nested(32, ""), Err(Error::PathTooBig));
    check(Verb::AddUnique, &path(30), "2", &nested(31, "1"), Ok(()));
    check(Verb::AddUnique, &path(31), "2", &nested(32, ""), Err(Error::ValueTooDeep));
    check(Verb::Insert, &path(31), "2", &nested(31, "1"), Ok(()));
    check(Verb::Insert, &path(31), "[2]", &nested(31, "1"), Err(Error::ValueTooDeep));
    let long = format!("\"{}\"", "u".repeat(UNIQUE_SIZE_MAX - 2));
    check(Verb::AddUnique, "", &long, "[1]", Ok(()));
    check(Verb::AddUnique, "", &format!("{long} "), "[1]", Err(Error::ValueTooBig));
    check(Verb::AddUnique, "", &format!("{long},1"), "[1]", Err(Error::ValueUnfit));
}

#[test]
fn several_edits_make_one_document() {
    let document = r#"{"a":1,"list":[1,2,3],"gone":true}"#;
    let request = r#"{"new":[]}4,5"#;
    let steps: [(Verb, &str, std::ops::Range<usize>); 6] = [
        (Verb::Upsert, "deep.er", 0..10),
        (Verb::PushLast, "list", 10..13),
        (Verb::Remove, "gone", 0..0),
        (Verb::Counter, "deep.er.new[0]", 10..11),
        (Verb::PushLast, "deep.er.new", 10..13),
        (Verb::Counter, "deep.er.new[0]", 10..11),
    ];
    let mut draft = Draft::new(document.len());
    let mut failed = 0;
    for (verb, path, value) in steps {
        let text = written(&draft, request, document);
        match run(verb, path, true, &request[value.clone()], &text) {
            Ok(Answer::Edit(edit) | Answer::Sum(_, edit)) => draft.apply(&edit, value),
            other => {
                assert_eq!(other, Err(Error::PathMissing), "{path}");
                failed += 1;
            }
        }
        // Byte for byte, through the pieces.
        let text = written(&draft, request, document);
        for at in 0..text.len() {
            let byte = match draft.piece_at(at).expect("a piece") {
                Piece::Document(range) => document.as_bytes()[range.start],
                Piece::Request(range) => request.as_bytes()[range.start],
                Piece::Made(range) => draft.made()[range.start],
            };
            assert_eq!(byte, text.as_bytes()[at]);
        }
        assert_eq!(draft.piece_at(text.len()), None);
    }
    assert_eq!(failed, 1, "there is no element 0 yet");
    let want = r#"{"a":1,"list":[1,2,3,4,5],"deep":{"er":{"new":[8,5]}}}"#;
    assert_eq!(written(&draft, request, document), want);
}
