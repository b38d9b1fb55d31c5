//! A hash of a JSON value by which two are told apart, in whatever order their fields were written.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidings_kernel::hex;

/// 64 hexadecimal digits.
pub fn hash(value: &Value) -> String {
    let mut hash = Sha256::new();
    feed(value, &mut hash);
    hex(&hash.finalize())
}

/// Feeds a value so that two values with the same fields give the same bytes, in whatever order they were written.
fn feed(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            hash.update(format!("o{}:", fields.len()));
            for (name, value) in fields {
                hash.update(format!("{}:{name}", name.len()));
                feed(value, hash);
            }
        }
        Value::Array(values) => {
            hash.update(format!("a{}:", values.len()));
            values.iter().for_each(|value| feed(value, hash));
        }
        Value::String(text) => hash.update(format!("s{}:{text}", text.len())),
        Value::Null | Value::Bool(_) | Value::Number(_) => hash.update(format!("v{value};")),
    }
}
