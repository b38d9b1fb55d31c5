//! What each event contributes to one thing that is remembered, as it is written: one text for all of them, in the order of
//! `source_event_ids`.
//!
//! There are up to 50, read and written with every event that says the same: so they are to be small, and quick to read. Read are
//! also those that an earlier program wrote: a map by ids. Here: how they are written. Not here: what follows from them (`remembered`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidings_kernel::{Item, Value};

use super::remembered::parts;

/// What an event contributes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hint {
    /// In milliseconds.
    pub(super) at: i64,
    /// In ten-thousandths.
    pub(super) confidence: i64,
    /// In seconds.
    pub(super) expires: Option<i64>,
    /// What it says and where that is from, as long as it can come to count.
    pub(super) said: Option<(Value, String)>,
}

/// When it happened, how certain it is, when that is over, and what it says.
#[derive(Serialize, Deserialize)]
struct Written(i64, i64, Option<i64>, Option<(Value, String)>);

/// As they come: the newest first, of which it stands beside them what it says.
pub(super) fn to_text<'a>(hints: impl Iterator<Item = &'a Hint>) -> String {
    let written = hints.enumerate().map(|(place, hint)| {
        let said = hint.said.clone().filter(|_| place > 0);
        Written(hint.at, hint.confidence, hint.expires, said)
    });
    serde_json::to_string(&written.collect::<Vec<_>>()).expect("numbers and values are JSON")
}

/// Those of an item, by the ids of their events. What cannot be read is none.
pub(super) fn of(item: &Item) -> BTreeMap<String, Hint> {
    let ids = match item.get("source_event_ids") {
        Some(Value::L(ids)) => ids.as_slice(),
        _ => &[],
    };
    match item.get("events") {
        Some(Value::S(text)) => {
            let hints: Vec<Written> = serde_json::from_str(text).unwrap_or_default();
            let hint =
                |Written(at, confidence, expires, said)| Hint { at, confidence, expires, said };
            let both = ids.iter().zip(hints);
            both.filter_map(|(id, written)| Some((id.as_text()?.to_owned(), hint(written))))
                .collect()
        }
        Some(Value::M(events)) => {
            events.iter().filter_map(|(id, value)| Some((id.clone(), from_map(value)?))).collect()
        }
        _ => BTreeMap::new(),
    }
}

fn from_map(value: &Value) -> Option<Hint> {
    let Value::M(map) = value else { return None };
    let number = |name: &str| map.get(name).and_then(Value::as_number);
    Some(Hint {
        at: number("at")?.to_i64()?,
        confidence: parts(number("confidence")?)?,
        expires: number("expires_at").and_then(tidings_kernel::Number::to_i64),
        said: map
            .get("value")
            .cloned()
            .zip(map.get("source").and_then(Value::as_text).map(str::to_owned)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidings_kernel::{Item, Value, plain};

    use super::{Hint, of, to_text};

    fn hint(at: i64, said: Option<&str>) -> Hint {
        let said = said.map(|said| (Value::from(said), "rule".to_owned()));
        Hint { at, confidence: 5_000, expires: said.as_ref().map(|_| 9), said }
    }

    #[test]
    fn hints_are_one_text_and_read_back() {
        let hints = [hint(3, Some("tea")), hint(2, Some("milk")), hint(1, None)];
        let text = to_text(hints.iter());
        assert_eq!(text, r#"[[3,5000,9,null],[2,5000,9,["milk","rule"]],[1,5000,null,null]]"#);
        let ids: Vec<Value> = ["c", "b", "a"].map(Value::from).into();
        let read = of(&Item::new().with("events", text).with("source_event_ids", ids));
        // What the newest says is the value of the item.
        assert_eq!(read["c"], Hint { said: None, ..hints[0].clone() });
        assert_eq!((&read["b"], &read["a"]), (&hints[1], &hints[2]));
    }

    #[test]
    fn those_of_earlier_programs_are_read() {
        let events = json!({
            "a": {"at": 1, "confidence": 0.5},
            "b": {"at": 2, "confidence": 0.5, "expires_at": 9, "value": "milk", "source": "rule"},
        });
        let read = of(&Item::new().with("events", plain::to_value(&events).unwrap()));
        assert_eq!((&read["a"], &read["b"]), (&hint(1, None), &hint(2, Some("milk"))));
    }
}
