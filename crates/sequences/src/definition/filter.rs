//! Whether the data of an event meets the clauses of a filter. Each compares as the conditions of audiences do.

use serde_json::Value;
use tidings_kernel::Value as Known;

use super::Clause;

/// Whether all of them hold. Without any it is so.
pub fn holds(clauses: &[Clause], data: &Value) -> bool {
    clauses.iter().all(|clause| {
        let known = clause.path.find(data).map(known);
        clause.test.holds(known.as_ref())
    })
}

/// In the form in which things compare. What has none is there all the same, and is like nothing else.
fn known(value: &Value) -> Known {
    serde_json::from_value(value.clone()).unwrap_or_else(|_| Known::M(Default::default()))
}
