//! What must hold for any bytes of a path, a value and a document, and of a request that has several of them.

use crate::couchbase::subdocument;
use crate::json::{Answer, Draft, Error, Operation, Verb};
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

fn run(verb: Verb, path: &[u8], value: &[u8], document: &[u8], piece: usize) -> Result<Answer, Error> {
    let mut operation = Operation::new(verb, path, true)?;
    if verb.has_value() {
        value.chunks(piece).try_for_each(|piece| operation.value(piece))?;
        operation.value_end()?;
    }
    for piece in document.chunks(piece) {
        if operation.document(piece)? {
            break;
        }
    }
    operation.finish()
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
}
