//! What is remembered of somebody, as others than those who keep it read its items: what it says at a time.
//!
//! What was said for a while gives way to the rest when its time is over, and nobody writes the item then: it says beforehand what counts from when on (`later`). Not here: what follows from events (`leads`).

use jiff::Timestamp;
use tidings_kernel::{Item, Value};

/// The attribute with what counts later: a list, the earliest first, each with the second `from` which on it does, and its `value`.
pub const LATER: &str = "later";

/// What a memory says at a time.
pub fn value(item: &Item, now: Timestamp) -> Option<&Value> {
    let later = match item.get(LATER) {
        Some(Value::L(later)) => later.as_slice(),
        _ => &[],
    };
    let counts = later.iter().rev().find_map(|one| match one {
        Value::M(one) => {
            let from = one.get("from")?.as_number()?.to_i64()?;
            (from <= now.as_second()).then(|| one.get("value"))
        }
        _ => None,
    });
    counts.unwrap_or_else(|| item.get("value"))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tidings_kernel::{Item, Value};

    use super::{LATER, value};

    #[test]
    fn what_counts_follows_from_the_time() {
        let later = |from: i64, value: &str| {
            let one = [("from".to_owned(), from.into()), ("value".to_owned(), value.into())];
            Value::M(one.into())
        };
        let plain = Item::new().with("value", "stated");
        let item = plain.clone().with(LATER, vec![later(10, "borrowed"), later(20, "derived")]);
        let told = |item: &Item, second| {
            let at = Timestamp::from_second(second).unwrap();
            value(item, at).and_then(Value::as_text).map(ToOwned::to_owned).unwrap()
        };
        assert_eq!(told(&plain, 30), "stated");
        assert_eq!(
            [9, 10, 19, 20].map(|second| told(&item, second)),
            ["stated", "borrowed", "borrowed", "derived"]
        );
    }
}
