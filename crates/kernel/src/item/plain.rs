//! JSON as an item keeps it, and back: a body is stored as what it is and not as text.

use super::{Number, Value};
use serde_json::{Map, Number as JsonNumber, Value as Json};

/// What an item cannot keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    #[error("has a number that is too large, too small or too precise")]
    Number,
    #[error("has a field without a name")]
    EmptyName,
    #[error("has the character U+0000")]
    Nul,
    #[error("is nested too deep")]
    TooDeep,
}

/// So many lists and objects can lie around a value.
pub const MAX_DEPTH: usize = 16;

pub fn to_value(json: &Json) -> Result<Value, Unkept> {
    convert(json, MAX_DEPTH)
}

fn convert(json: &Json, depth: usize) -> Result<Value, Unkept> {
    match json {
        Json::Null => Ok(Value::Null),
        Json::Bool(flag) => Ok(Value::Bool(*flag)),
        Json::Number(number) => {
            let number: Number = number.to_string().parse().map_err(|_| Unkept::Number)?;
            Ok(Value::N(number))
        }
        Json::String(text) => Ok(Value::S(whole(text)?.to_owned())),
        Json::Array(_) | Json::Object(_) if depth == 0 => Err(Unkept::TooDeep),
        Json::Array(list) => {
            let values = list.iter().map(|json| convert(json, depth - 1));
            values.collect::<Result<_, _>>().map(Value::L)
        }
        Json::Object(object) => {
            let fields = object.iter().map(|(name, json)| {
                if name.is_empty() {
                    return Err(Unkept::EmptyName);
                }
                Ok((whole(name)?.to_owned(), convert(json, depth - 1)?))
            });
            fields.collect::<Result<_, _>>().map(Value::M)
        }
    }
}

/// PostgreSQL has no place for U+0000 in a text.
fn whole(text: &str) -> Result<&str, Unkept> {
    if text.contains('\0') { Err(Unkept::Nul) } else { Ok(text) }
}

pub fn from_value(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::N(number) => Json::Number(from_number(*number)),
        Value::S(text) => Json::String(text.clone()),
        Value::L(list) => Json::Array(list.iter().map(from_value).collect()),
        Value::M(map) => {
            let fields = map.iter().map(|(name, value)| (name.clone(), from_value(value)));
            Json::Object(fields.collect::<Map<_, _>>())
        }
        // Nothing that came as JSON is stored as one of these.
        Value::B(_) | Value::Ss(_) | Value::Ns(_) | Value::Bs(_) => Json::Null,
    }
}

fn from_number(number: Number) -> JsonNumber {
    if let Some(integer) = number.to_i64() {
        return integer.into();
    }
    let text = number.to_string();
    if let Ok(integer) = text.parse::<u64>() {
        return integer.into();
    }
    let double = text.parse().ok().and_then(JsonNumber::from_f64);
    double.unwrap_or_else(|| 0.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{MAX_DEPTH, Unkept, from_value, to_value};

    #[test]
    fn what_goes_in_comes_out() {
        for json in [
            json!(null),
            json!("text"),
            json!(""),
            json!([1, -2.5, u64::MAX, i64::MIN, 0.1, 1e20, true]),
            json!({"$ss": ["a"], "$b": "aGk=", "$m": {"$n": "1"}}),
        ] {
            assert_eq!(from_value(&to_value(&json).unwrap()), json);
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let deep = |levels| (0..levels).fold(json!(1), |inside, _| json!([inside]));
        assert!(to_value(&deep(MAX_DEPTH)).is_ok());
        assert_eq!(to_value(&deep(MAX_DEPTH + 1)), Err(Unkept::TooDeep));
        assert_eq!(to_value(&json!(1e200)), Err(Unkept::Number));
        assert_eq!(to_value(&json!({"": 1})), Err(Unkept::EmptyName));
        assert_eq!(to_value(&json!(["a\0"])), Err(Unkept::Nul));
        assert_eq!(to_value(&Json::Null).map(|_| ()), Ok(()));
    }
}
