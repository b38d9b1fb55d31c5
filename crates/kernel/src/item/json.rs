//! Items as plain JSON: what `sqlite3` and `psql` show, what the CLI reads and prints.
//!
//! Strings, numbers, booleans, null, maps and lists are themselves. What JSON has no word for is an object
//! with one key that begins with `$`: `{"$ss":["a"]}`, `{"$ns":[1]}`, `{"$b":"aGk="}`, `{"$bs":["aGk="]}`, and
//! `{"$n":"…"}` for a number that readers of JSON would round. A map with a name that begins with `$` is
//! wrapped, so that it is not taken for one of these: `{"$m":{"$b":"no bytes"}}`.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Item, Number, Value};

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::S(text) => out.serialize_str(text),
            Value::N(number) => number.serialize(out),
            Value::Bool(flag) => out.serialize_bool(*flag),
            Value::Null => out.serialize_unit(),
            Value::L(list) => list.serialize(out),
            Value::M(map) if looks_tagged(map) => tagged(out, "$m", map),
            Value::M(map) => map.serialize(out),
            Value::B(bytes) => tagged(out, "$b", &BASE64.encode(bytes)),
            Value::Ss(texts) => tagged(out, "$ss", texts),
            Value::Ns(numbers) => tagged(out, "$ns", numbers),
            Value::Bs(blobs) => {
                tagged(out, "$bs", &blobs.iter().map(|b| BASE64.encode(b)).collect::<Vec<_>>())
            }
        }
    }
}

fn looks_tagged(map: &BTreeMap<String, Value>) -> bool {
    map.keys().any(|name| name.starts_with('$'))
}

fn tagged<S: Serializer, T: Serialize + ?Sized>(
    out: S,
    tag: &str,
    content: &T,
) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(Some(1))?;
    map.serialize_entry(tag, content)?;
    map.end()
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        if let Some(integer) = self.to_i64() {
            return out.serialize_i64(integer);
        }
        // A double holds any 15 digits exactly, in both directions.
        if self.significant_digits() <= 15 && (-20..=0).contains(&self.exponent()) {
            let double = self.to_string().parse::<f64>().map_err(serde::ser::Error::custom)?;
            return out.serialize_f64(double);
        }
        tagged(out, "$n", &self.to_string())
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        match Value::deserialize(input)? {
            Value::N(number) => Ok(number),
            other => Err(D::Error::custom(format!("expected a number, found {}", other.kind()))),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an attribute value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<Value, E> {
        Ok(Value::N(integer.into()))
    }

    fn visit_u64<E: serde::de::Error>(self, integer: u64) -> Result<Value, E> {
        match i64::try_from(integer) {
            Ok(integer) => Ok(Value::N(integer.into())),
            Err(_) => integer.to_string().parse().map(Value::N).map_err(E::custom),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, double: f64) -> Result<Value, E> {
        double.to_string().parse().map(Value::N).map_err(E::custom)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::S(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::S(text))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        input.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Value::L(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let Some(first) = entries.next_key::<String>()? else {
            return Ok(Value::M(BTreeMap::new()));
        };
        if !first.starts_with('$') {
            let value = entries.next_value()?;
            let map = rest_of_map(entries, BTreeMap::from([(first, value)]))?;
            return match map.keys().find(|name| name.starts_with('$')) {
                Some(name) => Err(A::Error::custom(stray_tag(name))),
                None => Ok(Value::M(map)),
            };
        }
        let value = match first.as_str() {
            "$m" => Value::M(entries.next_value::<PlainMap>()?.0),
            tag => untag(tag, entries.next_value()?).map_err(A::Error::custom)?,
        };
        match entries.next_key::<String>()? {
            Some(_) => Err(A::Error::custom(stray_tag(&first))),
            None => Ok(value),
        }
    }
}

/// A map whose names are taken as they are, `$` or not.
struct PlainMap(BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for PlainMap {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct PlainVisitor;
        impl<'de> Visitor<'de> for PlainVisitor {
            type Value = PlainMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<PlainMap, A::Error> {
                rest_of_map(entries, BTreeMap::new()).map(PlainMap)
            }
        }
        input.deserialize_map(PlainVisitor)
    }
}

fn rest_of_map<'de, A: MapAccess<'de>>(
    mut entries: A,
    mut map: BTreeMap<String, Value>,
) -> Result<BTreeMap<String, Value>, A::Error> {
    while let Some((name, value)) = entries.next_entry::<String, Value>()? {
        map.insert(name, value);
    }
    Ok(map)
}

fn stray_tag(name: &str) -> String {
    format!("a map with a name like {name:?} must be wrapped: {{\"$m\": {{…}}}}")
}

fn untag(tag: &str, content: Value) -> Result<Value, String> {
    let wrong =
        |expected: &str, found: &Value| format!("{tag} expects {expected}, found {}", found.kind());
    let bytes = |value: Value| match value {
        Value::S(text) => BASE64.decode(&text).map_err(|_| format!("{tag} holds bad base64")),
        other => Err(wrong("base64 text", &other)),
    };
    let text = |value: Value| match value {
        Value::S(text) => Ok(text),
        other => Err(wrong("text", &other)),
    };
    let number = |value: Value| match value {
        Value::N(number) => Ok(number),
        other => Err(wrong("numbers", &other)),
    };
    let list = |value: Value| match value {
        Value::L(list) => Ok(list.into_iter()),
        other => Err(wrong("a list", &other)),
    };
    match tag {
        "$b" => bytes(content).map(Value::B),
        "$n" => text(content)?.parse().map(Value::N).map_err(|error| format!("$n: {error}")),
        "$ss" => list(content)?.map(text).collect::<Result<_, _>>().map(Value::Ss),
        "$ns" => list(content)?.map(number).collect::<Result<_, _>>().map(Value::Ns),
        "$bs" => list(content)?.map(bytes).collect::<Result<_, _>>().map(Value::Bs),
        other => Err(stray_tag(other)),
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        PlainMap::deserialize(input).map(|map| Item::from(map.0))
    }
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(self.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::{Item, Value};

    #[track_caller]
    fn check(json: &str) {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), json);
    }

    #[test]
    fn values_are_readable_and_come_back() {
        for json in [
            r#""text""#,
            "1500",
            "1500.25",
            "-0.001",
            r#"{"$n":"12345678901234567890123456789012345678"}"#,
            r#"{"$n":"15E98"}"#,
            "true",
            "null",
            r#"{"a":[1,{"b":null}]}"#,
            r#"{"$b":"aGk="}"#,
            r#"{"$ss":["a","b"]}"#,
            r#"{"$ns":[-1,2.5]}"#,
            r#"{"$bs":["aGk="]}"#,
            r#"{"$m":{"$b":"no bytes"}}"#,
            r#"{"$m":{"$m":{"$m":{"$x":{"$b":"aGk="}}},"b":1}}"#,
            "{}",
        ] {
            check(json);
        }
    }

    #[test]
    fn an_item_may_have_any_name() {
        let json = r#"{"$b":"plain","PK":"a"}"#;
        let item: Item = serde_json::from_str(json).unwrap();
        assert_eq!(item.text("$b"), Some("plain"));
        assert_eq!(serde_json::to_string(&item).unwrap(), json);
    }

    #[test]
    fn what_is_ambiguous_is_refused() {
        for json in [
            r#"{"$b":"aGk=","x":1}"#,
            r#"{"x":1,"$b":"aGk="}"#,
            r#"{"$what":1}"#,
            r#"{"$b":"!"}"#,
            r#"{"$n":"many"}"#,
            r#"{"$ss":[1]}"#,
            r#"{"$ns":"1"}"#,
            "1e300",
        ] {
            assert!(serde_json::from_str::<Value>(json).is_err(), "{json}");
        }
    }
}
