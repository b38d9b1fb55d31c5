//! Items as the SDK spells them, there and back.
//!
//! The way back can fail: a server may answer with a type or a number that the model does not have.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodbstreams::types::AttributeValue as StreamValue;
use tidings_kernel::{Item, Key, StoreError, Table, Value};

pub(super) type Attributes = HashMap<String, AttributeValue>;

pub(super) fn to_attribute(value: Value) -> AttributeValue {
    match value {
        Value::S(text) => AttributeValue::S(text),
        Value::N(number) => AttributeValue::N(number.to_string()),
        Value::B(bytes) => AttributeValue::B(Blob::new(bytes)),
        Value::Bool(flag) => AttributeValue::Bool(flag),
        Value::Null => AttributeValue::Null(true),
        Value::M(map) => AttributeValue::M(to_attributes(map)),
        Value::L(list) => AttributeValue::L(list.into_iter().map(to_attribute).collect()),
        Value::Ss(texts) => AttributeValue::Ss(texts.into_iter().collect()),
        Value::Ns(numbers) => AttributeValue::Ns(numbers.iter().map(ToString::to_string).collect()),
        Value::Bs(blobs) => AttributeValue::Bs(blobs.into_iter().map(Blob::new).collect()),
    }
}

pub(super) fn to_attributes(values: impl IntoIterator<Item = (String, Value)>) -> Attributes {
    values.into_iter().map(|(name, value)| (name, to_attribute(value))).collect()
}

pub(super) fn key_attributes(table: &Table, key: &Key) -> Attributes {
    to_attributes(table.bare_item(key))
}

/// The two SDK crates generate the same enum as two types, which share neither a trait nor a conversion.
macro_rules! from_attribute {
    ($name:ident, $attribute:ident) => {
        fn $name(attribute: $attribute) -> Result<Value, StoreError> {
            let number = |text: String| text.parse().map_err(corrupt);
            Ok(match attribute {
                $attribute::S(text) => Value::S(text),
                $attribute::N(text) => Value::N(number(text)?),
                $attribute::B(blob) => Value::B(blob.into_inner()),
                $attribute::Bool(flag) => Value::Bool(flag),
                $attribute::Null(_) => Value::Null,
                $attribute::M(map) => Value::M(
                    map.into_iter()
                        .map(|(name, value)| Ok((name, $name(value)?)))
                        .collect::<Result<_, StoreError>>()?,
                ),
                $attribute::L(list) => {
                    Value::L(list.into_iter().map($name).collect::<Result<_, _>>()?)
                }
                $attribute::Ss(texts) => Value::Ss(texts.into_iter().collect()),
                $attribute::Ns(texts) => {
                    Value::Ns(texts.into_iter().map(number).collect::<Result<_, _>>()?)
                }
                $attribute::Bs(blobs) => {
                    Value::Bs(blobs.into_iter().map(|blob| blob.into_inner()).collect())
                }
                _ => return Err(corrupt("an attribute of a type that is not known")),
            })
        }
    };
}

from_attribute!(from_table, AttributeValue);
from_attribute!(from_stream, StreamValue);

pub(super) fn to_item(attributes: Attributes) -> Result<Item, StoreError> {
    item(attributes, from_table)
}

pub(super) fn stream_item(attributes: HashMap<String, StreamValue>) -> Result<Item, StoreError> {
    item(attributes, from_stream)
}

fn item<A>(
    attributes: HashMap<String, A>,
    convert: impl Fn(A) -> Result<Value, StoreError>,
) -> Result<Item, StoreError> {
    let mut item = Item::new();
    for (name, attribute) in attributes {
        item.set(&name, convert(attribute)?);
    }
    Ok(item)
}

fn corrupt(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Corrupt(error.into())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use aws_sdk_dynamodb::types::AttributeValue;
    use tidings_kernel::{Item, StoreError, Value};

    use super::{Attributes, to_attributes, to_item};

    #[test]
    fn every_value_comes_back() {
        let item = Item::new()
            .with("text", "Grüße")
            .with("empty text", "")
            .with("integer", -7)
            .with("precise", Value::N("12345678901234567890123456789012345678".parse().unwrap()))
            .with("huge", Value::N("9.9e125".parse().unwrap()))
            .with("tiny", Value::N("-1e-130".parse().unwrap()))
            .with("bytes", vec![0u8, 255])
            .with("flag", true)
            .with("nothing", Value::Null)
            .with(
                "map",
                BTreeMap::from([("list".to_owned(), Value::L(vec![1.into(), "a".into()]))]),
            )
            .with("texts", Value::texts(["a", "b"]))
            .with("numbers", Value::numbers([1, 2]))
            .with("blobs", Value::Bs(BTreeSet::from([vec![1u8], vec![2u8]])));
        assert_eq!(to_item(to_attributes(item.clone())).unwrap(), item);
    }

    #[test]
    fn numbers_are_equal_however_they_are_spelled() {
        for (spelled, plain) in [("1.50", "1.5"), ("15E-1", "1.5"), ("+7", "7"), ("-0", "0")] {
            let attributes =
                Attributes::from([("n".to_owned(), AttributeValue::N(spelled.to_owned()))]);
            let expected = Item::new().with("n", Value::N(plain.parse().unwrap()));
            assert_eq!(to_item(attributes).unwrap(), expected, "{spelled}");
        }
    }

    #[test]
    fn what_the_model_does_not_have_is_corrupt() {
        for bad in [
            AttributeValue::N("NaN".to_owned()),
            AttributeValue::N("1".repeat(39)),
            AttributeValue::Ns(vec!["1".to_owned(), "many".to_owned()]),
            AttributeValue::L(vec![AttributeValue::N(String::new())]),
        ] {
            let attributes = Attributes::from([("x".to_owned(), bad)]);
            assert!(matches!(to_item(attributes), Err(StoreError::Corrupt(_))));
        }
    }
}
