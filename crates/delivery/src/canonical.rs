//! A hash of a JSON value by which two are told apart, in whatever order their fields were written.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidings_kernel::hex;

/// 64 hexadecimal digits.
pub fn hash(value: &Value) -> String {
    let mut text = String::with_capacity(512);
    write(value, &mut text);
    hex(&Sha256::digest(text))
}

/// Writes a value so that two values with the same fields give the same text, in whatever order they were written.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            write_count('o', fields.len(), text);
            for (name, value) in fields {
                write_number(name.len(), text);
                text.push(':');
                text.push_str(name);
                write(value, text);
            }
        }
        Value::Array(values) => {
            write_count('a', values.len(), text);
            values.iter().for_each(|value| write(value, text));
        }
        Value::String(written) => {
            write_count('s', written.len(), text);
            text.push_str(written);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            write!(text, "v{value};").expect("a text can be written to");
        }
    }
}

fn write_count(kind: char, count: usize, text: &mut String) {
    text.push(kind);
    write_number(count, text);
    text.push(':');
}

/// Every message is written so once, and a formatter would take longer for its many small numbers than all the rest.
fn write_number(number: usize, text: &mut String) {
    if number >= 10 {
        write_number(number / 10, text);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{hash, write};

    fn written(value: &Value) -> String {
        let mut text = String::new();
        write(value, &mut text);
        text
    }

    #[test]
    fn no_two_values_are_written_alike() {
        let value = json!({ "b": [1, -2.5, null, true], "a": "x".repeat(10), "": {} });
        assert_eq!(written(&value), "o3:0:o0:1:as10:xxxxxxxxxx1:ba4:v1;v-2.5;vnull;vtrue;");
        assert_ne!(hash(&json!(["ab", "c"])), hash(&json!(["a", "bc"])));
        assert_ne!(hash(&json!("1")), hash(&json!(1)));
    }

    /// Hashes are stored: what was written before must be found again.
    #[test]
    fn the_hash_of_a_value_stays_the_same() {
        let value = json!({ "to": "ada@example.org", "n": 12345 });
        let before = "99c9460c0237632cb3d2963140875005868755159ee750f2ba88df8b4d3f049a";
        assert_eq!(hash(&value), before);
    }
}
