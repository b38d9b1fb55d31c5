//! A second opinion: the part of JSON Schema that our schemas use, written from its specification.

use jiff::Timestamp;
use regex_lite::Regex;
use serde_json::Value;

/// Whether a value keeps to a schema. Panics at a keyword that it does not know, lest one be passed over.
pub(super) fn is_valid(schema: &Value, value: &Value) -> bool {
    let keywords = schema.as_object().expect("a schema is an object");
    keywords.iter().all(|(keyword, rule)| holds(keyword, rule, value))
}

fn holds(keyword: &str, rule: &Value, value: &Value) -> bool {
    match keyword {
        "$schema" | "title" | "description" => true,
        "type" => match rule {
            Value::Array(types) => types.iter().any(|name| is_of_type(name, value)),
            name => is_of_type(name, value),
        },
        "const" => value == rule,
        "enum" => rule.as_array().unwrap().contains(value),
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        // Not as floats, in which the largest integer and the next are the same.
        "maximum" => match (value.as_i64(), value.as_u64()) {
            (Some(number), _) => number <= rule.as_i64().unwrap(),
            (None, Some(number)) => number <= rule.as_u64().unwrap(),
            (None, None) => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        },
        "minLength" => value.as_str().is_none_or(|text| text.chars().count() >= count(rule)),
        "maxLength" => value.as_str().is_none_or(|text| text.chars().count() <= count(rule)),
        "pattern" => {
            let pattern = Regex::new(rule.as_str().unwrap()).unwrap();
            value.as_str().is_none_or(|text| pattern.is_match(text))
        }
        "format" => {
            assert_eq!(rule, "date-time");
            value.as_str().is_none_or(|text| text.parse::<Timestamp>().is_ok())
        }
        "minItems" => value.as_array().is_none_or(|values| values.len() >= count(rule)),
        "maxItems" => value.as_array().is_none_or(|values| values.len() <= count(rule)),
        "items" => {
            value.as_array().is_none_or(|values| values.iter().all(|value| is_valid(rule, value)))
        }
        "required" => value.as_object().is_none_or(|object| {
            rule.as_array().unwrap().iter().all(|name| object.contains_key(name.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|object| {
            let mut properties = rule.as_object().unwrap().iter();
            properties
                .all(|(name, schema)| object.get(name).is_none_or(|value| is_valid(schema, value)))
        }),
        unknown => panic!("the schemas use {unknown}, which is not checked"),
    }
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        unknown => panic!("the schemas use the type {unknown}, which is not checked"),
    }
}

fn count(rule: &Value) -> usize {
    rule.as_u64().unwrap().try_into().unwrap()
}
