//! Labels for the values of attributes: `planName` is "Professional" where `plan` is "pro".

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use tidings_access::{Change, Cx, StorageError};
use tidings_kernel::{Expect, Item, ItemStore, Key, Txn, Value, tables};

const MAX_NAMES: usize = 100;
const MAX_LABELS: usize = 1000;
const MAX_LENGTH: usize = 200;

/// For each `<attribute>Name` what a value is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DisplayNames(BTreeMap<String, BTreeMap<String, String>>);

/// A label that cannot be taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub field: String,
    pub message: String,
}

impl DisplayNames {
    /// Everything that is wrong with it, or it.
    pub fn parse(object: Map<String, Json>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut wrong = |field: &str, message: &str| {
            let field = field.chars().take(100).collect();
            faults.push(Fault { field, message: message.to_owned() });
        };
        if object.len() > MAX_NAMES {
            wrong("names", "use at most 100 names");
        }
        if object.values().filter_map(Json::as_object).map(Map::len).sum::<usize>() > MAX_LABELS {
            wrong("names", "use at most 1000 labels in all");
        }
        let mut names = BTreeMap::new();
        for (name, values) in object.into_iter().take(MAX_NAMES) {
            if !is_name(&name) {
                wrong(&name, "use the name of an attribute with Name at its end, such as planName");
            }
            let Json::Object(values) = values else {
                wrong(&name, "use an object of values and what they are called");
                continue;
            };
            let mut labels = BTreeMap::new();
            for (raw, label) in values.into_iter().take(MAX_LABELS) {
                match label {
                    Json::String(label) if fits(&raw) && fits(&label) => {
                        labels.insert(raw, label);
                    }
                    _ => wrong(&format!("{name}.{raw}"), "use texts of 1 to 200 characters"),
                }
            }
            names.insert(name, labels);
        }
        faults.truncate(50);
        if faults.is_empty() { Ok(Self(names)) } else { Err(faults) }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &BTreeMap<String, String>)> {
        self.0.iter()
    }
}

/// The labels of a workspace; none if nobody gave any.
pub async fn get(cx: &Cx) -> Result<DisplayNames, StorageError> {
    load(cx.items().await?.as_ref()).await
}

/// These and no others. Doing it again changes nothing.
pub async fn set(cx: &Cx, names: &DisplayNames) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let before = load(items.as_ref()).await?;
    if before == *names {
        return Ok(());
    }
    let map: BTreeMap<String, Value> = names
        .iter()
        .map(|(name, labels)| {
            let labels: BTreeMap<String, Value> =
                labels.iter().map(|(raw, label)| (raw.clone(), label.as_str().into())).collect();
            (name.clone(), labels.into())
        })
        .collect();
    let item = tables::MAIN
        .bare_item(&key())
        .with("names", map)
        .with("updatedAt", tidings_people::keys::time(cx.now()));
    let change = Change::new("settings.display_names", "workspace", cx.workspace())
        .between(json!(before.0), json!(names.0));
    let txn = Txn::new().put(&tables::MAIN, item, Expect::Anything).enqueue(cx.audited(&change));
    Ok(items.transact(txn).await?)
}

async fn load(items: &dyn ItemStore) -> Result<DisplayNames, StorageError> {
    let item = items.get(&tables::MAIN, &key()).await?;
    Ok(item.as_ref().map(read).unwrap_or_default())
}

pub(super) fn key() -> Key {
    Key::new("SETTINGS", "DISPLAY_NAMES")
}

pub(super) fn read(item: &Item) -> DisplayNames {
    let Some(Value::M(names)) = item.get("names") else { return DisplayNames::default() };
    let labels = |value: &Value| match value {
        Value::M(map) => map
            .iter()
            .filter_map(|(raw, label)| Some((raw.clone(), label.as_text()?.to_owned())))
            .collect(),
        _ => BTreeMap::new(),
    };
    DisplayNames(names.iter().map(|(name, value)| (name.clone(), labels(value))).collect())
}

fn is_name(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (5..=68).contains(&name.len()) && name.ends_with("Name") && name.chars().all(inside)
}

fn fits(text: &str) -> bool {
    (1..=MAX_LENGTH).contains(&text.chars().count())
}
