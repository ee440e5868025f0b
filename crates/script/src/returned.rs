//! What a script returns, on its way to a reply: an element after the other, so that its lane can do other things in between.

use mlua::{Table, Value};
use wire::Proto;
use wire::client::Reply;

use crate::Engine;
use crate::convert::DEPTH_MAX;

/// A list that a script has returned, see the top of this file. The tables that stand for maps and sets of RESP3 count as one element each.
#[derive(Debug)]
pub struct Returned {
    proto: Proto,
    /// Lists that are not through, and how many elements of each have been given.
    open: Vec<(Table, usize)>,
    /// One that has not been opened.
    next: Option<Table>,
    /// Bytes of values that it may still have.
    size_left: usize,
}

/// A part of it.
#[derive(Debug)]
pub enum Part {
    /// An element that is no list.
    Value(Reply),
    /// A list begins: its elements follow.
    Open,
    /// It ends, with so many elements.
    Close(usize),
    /// It is larger than a reply may be. Nothing follows.
    TooLarge,
}

impl Returned {
    pub(crate) fn new(list: Table, proto: Proto, size_max: usize) -> Returned {
        Returned { proto, open: Vec::new(), next: Some(list), size_left: size_max }
    }

    /// The next part; nothing behind the last.
    pub fn next(&mut self, engine: &Engine) -> Option<Part> {
        if let Some(list) = self.next.take() {
            self.open.push((list, 0));
            return Some(Part::Open);
        }
        let depth = self.open.len();
        let (list, count) = self.open.last_mut()?;
        let value = list.raw_get::<Value>(*count + 1).unwrap_or_default();
        if value == Value::Nil {
            let count = *count;
            self.open.pop();
            return Some(Part::Close(count));
        }
        *count += 1;
        let names = &engine.names;
        if let Value::Table(table) = &value
            && depth < DEPTH_MAX
            && !names.is_special(table)
        {
            let Some(left) = self.size_left.checked_sub(size_of::<Reply>()) else {
                return Some(Part::TooLarge);
            };
            self.size_left = left;
            self.next = Some(table.clone());
            return self.next(engine);
        }
        let reply = names.reply(&value, self.proto, depth, &mut self.size_left);
        Some(reply.map_or(Part::TooLarge, Part::Value))
    }
}
