//! Conditions, updates and key ranges as DynamoDB's expressions.
//!
//! Pure functions: a typed value in, a text with placeholders out. Every name and every value becomes a
//! placeholder, so that no reserved word, dot or bracket in a name can change what an expression means.

mod condition;
mod simple;
#[cfg(test)]
mod tests;
mod update;

use std::collections::HashMap;

use tidings_kernel::{
    Condition, Expect, Index, Path, Query, Segment, SortRange, Table, Value, Write,
};

use super::value::{Attributes, to_attribute};

pub(super) use condition::condition;
pub(super) use simple::{Simple, fits, simplify};
use update::update;

/// What the placeholders of a request's expressions stand for. The same name or value has the same one.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    names: HashMap<String, String>,
    values: HashMap<Value, String>,
}

impl Placeholders {
    fn name(&mut self, name: &str) -> String {
        let next = self.names.len();
        self.names.entry(name.to_owned()).or_insert_with(|| format!("#n{next}")).clone()
    }

    fn value(&mut self, value: &Value) -> String {
        let next = self.values.len();
        self.values.entry(value.clone()).or_insert_with(|| format!(":v{next}")).clone()
    }

    fn path(&mut self, path: &Path) -> String {
        let mut text = self.name(path.attribute());
        for segment in path.rest() {
            match segment {
                Segment::Key(name) => text.push_str(&format!(".{}", self.name(name))),
                Segment::Index(position) => text.push_str(&format!("[{position}]")),
            }
        }
        text
    }

    /// Both maps as a request wants them: DynamoDB refuses empty ones.
    pub(super) fn finish(self) -> (Option<HashMap<String, String>>, Option<Attributes>) {
        let names = self.names.into_iter().map(|(name, placeholder)| (placeholder, name));
        let values = self.values.into_iter().map(|(value, holder)| (holder, to_attribute(value)));
        let (names, values): (HashMap<_, _>, Attributes) = (names.collect(), values.collect());
        (Some(names).filter(|names| !names.is_empty()), Some(values).filter(|v| !v.is_empty()))
    }
}

/// What a write does and expects, beside its key or item.
pub(super) struct Compiled {
    pub(super) update: Option<String>,
    pub(super) condition: Option<String>,
    pub(super) names: Option<HashMap<String, String>>,
    pub(super) values: Option<Attributes>,
}

pub(super) fn write(write: &Write) -> Compiled {
    let mut placeholders = Placeholders::default();
    let (table, expect) = (write.table(), write.expectation());
    let (update, condition) = match write {
        Write::Put(_) | Write::Delete(_) => (None, expectation(table, expect, &mut placeholders)),
        Write::Update(given) => (
            update(&given.actions, &mut placeholders),
            expectation(table, expect, &mut placeholders),
        ),
        Write::Check(_) => (None, Some(check(table, expect, &mut placeholders))),
    };
    let (names, values) = placeholders.finish();
    Compiled { update, condition, names, values }
}

/// What a write expects, or nothing if it expects nothing.
fn expectation(table: &Table, expect: &Expect, placeholders: &mut Placeholders) -> Option<String> {
    let simple = match expect {
        Expect::Anything => Simple::Always,
        Expect::Absent => Simple::When(Condition::not_exists(table.partition)),
        Expect::Present => Simple::When(Condition::exists(table.partition)),
        Expect::That(condition) => simplify(condition),
    };
    match simple {
        Simple::Always => None,
        // Sent all the same: DynamoDB then answers with the item that is there, as for any failed condition.
        Simple::Never => Some(literal(table, "AND", placeholders)),
        Simple::When(when) => Some(condition(&when, placeholders)),
    }
}

/// A check has to say something, even if it expects nothing.
fn check(table: &Table, expect: &Expect, placeholders: &mut Placeholders) -> String {
    expectation(table, expect, placeholders).unwrap_or_else(|| literal(table, "OR", placeholders))
}

/// DynamoDB has no word for true and false. An item's key either exists or does not, item or no item.
fn literal(table: &Table, operator: &str, placeholders: &mut Placeholders) -> String {
    let key = placeholders.name(table.partition);
    format!("attribute_exists({key}) {operator} attribute_not_exists({key})")
}

/// Which partition and which sort keys a query reads.
pub(super) fn key_condition(
    query: &Query,
    index: Option<&Index>,
    placeholders: &mut Placeholders,
) -> String {
    let (partition, sort) = match index {
        Some(index) => (index.partition, Some(index.sort)),
        None => (query.table.partition, query.table.sort),
    };
    let partition = placeholders.name(partition);
    let wanted = placeholders.value(&query.partition.as_str().into());
    let here = format!("{partition} = {wanted}");
    // A name that no expression uses is refused, so the sort key gets one only if it is asked about.
    let sort = match sort {
        Some(sort) if query.range != SortRange::All => placeholders.name(sort),
        _ => return here,
    };
    let mut bound = |text: &String| placeholders.value(&text.as_str().into());
    let range = match &query.range {
        SortRange::All => return here,
        SortRange::Eq(key) => format!("{sort} = {}", bound(key)),
        SortRange::Lt(key) => format!("{sort} < {}", bound(key)),
        SortRange::Le(key) => format!("{sort} <= {}", bound(key)),
        SortRange::Gt(key) => format!("{sort} > {}", bound(key)),
        SortRange::Ge(key) => format!("{sort} >= {}", bound(key)),
        SortRange::BeginsWith(prefix) => format!("begins_with({sort}, {})", bound(prefix)),
        SortRange::Between(low, high) => {
            format!("{sort} BETWEEN {} AND {}", bound(low), bound(high))
        }
    };
    format!("{here} AND {range}")
}
