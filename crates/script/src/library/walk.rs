//! Visits a value and all that lies in its tables, in pieces.
//!
//! Tables that stand in one another are a list, not calls: a lane's stack would not do for as many as a script may allow. And since
//! a table may be in many others, a few of them make a walk of hours; so it stops after each piece, and the script that it is for can
//! be paused or ended.
//!
//! The fields of a table are visited in one go up to the first that is a table, and from there one by one, by Lua's `next`.

use std::ops::ControlFlow;

use mlua::{Function, Table, Value};

use super::call::{Budget, Wrong, for_each};

/// What it costs to begin a table, in scalars: one that was large once takes its time even if it is empty now.
const TABLE_WORK: usize = 64;
/// The same for a field that is looked for.
const NEXT_WORK: usize = 2;
/// Bytes of a string that take as long as a scalar.
const BYTES_OF_SCALAR: usize = 64;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// As so many elements, from the index 1 on.
    Array(i64),
    Object,
}

/// Who writes what the walk finds.
pub(super) trait Writer {
    /// Begins a table that lies in `depth` others. None if it has been written as something else.
    fn begin(&mut self, table: &Table, depth: usize, budget: &mut Budget) -> Result<Option<Shape>, Wrong>;

    /// Ends the table that was begun last and hasn't been ended.
    fn end(&mut self, shape: Shape) -> Result<(), Wrong>;

    /// Comes before each element and each field.
    fn separate(&mut self, is_first: bool) -> Result<(), Wrong>;

    /// Writes a field's key. If it is a table and may be one, it is not written, and true.
    fn key(&mut self, key: &Value) -> Result<bool, Wrong>;

    /// Writes what is no table.
    fn scalar(&mut self, value: &Value) -> Result<(), Wrong>;
}

/// A table of which a part has been visited.
struct Open {
    table: Table,
    shape: Shape,
    /// Elements or fields that have been.
    visited: i64,
    /// Of the field that was the last one.
    key: Value,
    /// Its value, if that is to come.
    value: Option<Value>,
}

/// A walk under way.
pub(super) struct Walk {
    /// Lua's.
    next: Function,
    open: Vec<Open>,
}

impl Walk {
    /// A walk of nothing yet.
    pub(super) fn new(next: Function) -> Walk {
        Walk { next, open: Vec::new() }
    }

    /// Writes a value, or begins it if it is a table; then [`Walk::go_on`] does the rest.
    pub(super) fn put(
        &mut self,
        value: Value,
        writer: &mut impl Writer,
        budget: &mut Budget,
    ) -> Result<(), Wrong> {
        if let Value::Table(table) = value {
            return self.begin(table, writer, budget);
        }
        budget.spend(work(&value));
        writer.scalar(&value)
    }

    /// Goes on until all has been visited, which is true, or the budget is spent.
    pub(super) fn go_on(&mut self, writer: &mut impl Writer, budget: &mut Budget) -> Result<bool, Wrong> {
        while let Some(open) = self.open.last_mut() {
            if budget.is_spent() {
                return Ok(false);
            }
            let value = match open.shape {
                _ if open.value.is_some() => open.value.take(),
                Shape::Array(count) if open.visited == count => None,
                Shape::Array(_) => {
                    writer.separate(open.visited == 0)?;
                    open.visited += 1;
                    Some(open.table.raw_get(open.visited)?)
                }
                Shape::Object => {
                    budget.spend(NEXT_WORK);
                    let (key, value): (Value, Value) = self.next.call((&open.table, &open.key))?;
                    open.key = key;
                    if open.key.is_nil() {
                        None
                    } else {
                        writer.separate(open.visited == 0)?;
                        open.visited += 1;
                        if writer.key(&open.key)? {
                            open.value = Some(value);
                            Some(open.key.clone())
                        } else {
                            Some(value)
                        }
                    }
                }
            };
            match value {
                Some(value) => self.put(value, writer, budget)?,
                None => {
                    writer.end(open.shape)?;
                    self.open.pop();
                }
            }
        }
        Ok(true)
    }

    /// Begins a table, and with an object all its fields up to one that has a table.
    fn begin(
        &mut self,
        mut table: Table,
        writer: &mut impl Writer,
        budget: &mut Budget,
    ) -> Result<(), Wrong> {
        loop {
            budget.spend(TABLE_WORK);
            let Some(shape) = writer.begin(&table, self.open.len(), budget)? else { return Ok(()) };
            let mut open = Open { table, shape, visited: 0, key: Value::Nil, value: None };
            let is_whole = shape == Shape::Object && open.visit_scalars(writer, budget)?;
            if is_whole {
                return writer.end(shape);
            }
            // A table that is itself a key comes before its value.
            let key = match (&open.key, &open.value) {
                (Value::Table(key), Some(_)) => Some(key.clone()),
                _ => None,
            };
            self.open.push(open);
            match key {
                Some(key) => table = key,
                None => return Ok(()),
            }
        }
    }
}

impl Open {
    /// Visits fields up to one that has a table, or until the budget is spent; true if none is left.
    fn visit_scalars(&mut self, writer: &mut impl Writer, budget: &mut Budget) -> Result<bool, Wrong> {
        let (visited, mut last) = (&mut self.visited, None);
        for_each(&self.table, |key, value: Value| {
            writer.separate(*visited == 0)?;
            *visited += 1;
            let is_key_open = writer.key(&key)?;
            if is_key_open || value.is_table() {
                last = Some((key, Some(value)));
                return Ok(ControlFlow::Break(()));
            }
            budget.spend(work(&key) + work(&value));
            writer.scalar(&value)?;
            if budget.is_spent() {
                last = Some((key, None));
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let Some((key, value)) = last else { return Ok(true) };
        (self.key, self.value) = (key, value);
        Ok(false)
    }
}

/// What it takes to write what is no table.
fn work(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.as_bytes().len() / BYTES_OF_SCALAR,
        _ => 1,
    }
}
