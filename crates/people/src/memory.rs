//! What is remembered of somebody, as others than those who keep it read its items: what it says at a time.
//!
//! What was said for a while gives way to the rest when its time is over, and nobody writes the item then: it says beforehand what counts from when on (`later`). Not here: what follows from events (`leads`).

use jiff::Timestamp;
use tidings_kernel::{Item, Value, tables};

/// The attribute with what counts later: a list, the earliest first, each with the second `from` which on it does, and its `value`.
pub const LATER: &str = "later";

/// What a memory says at a time.
pub fn value(item: &Item, now: Timestamp) -> Option<&Value> {
    let begun = later(item).filter(|(from, _)| *from <= now.as_second()).last();
    begun.map_or_else(|| item.get("value"), |(_, value)| value)
}

/// From when on a memory says something else, or nothing, although nobody writes it: the earliest such time to come.
pub fn until(item: &Item, now: Timestamp) -> Option<Timestamp> {
    let times = later(item).map(|(from, _)| from).chain(tables::MEMORY.expires_at(item));
    let to_come = times.filter(|second| *second > now.as_second());
    to_come.min().and_then(|second| Timestamp::from_second(second).ok())
}

/// What counts later: from which second on, and what.
fn later(item: &Item) -> impl Iterator<Item = (i64, Option<&Value>)> {
    let later = match item.get(LATER) {
        Some(Value::L(later)) => later.as_slice(),
        _ => &[],
    };
    later.iter().filter_map(|one| match one {
        Value::M(one) => Some((one.get("from")?.as_number()?.to_i64()?, one.get("value"))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tidings_kernel::{Item, Value, tables};

    use super::{LATER, until, value};

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
        let changes = |item: &Item, second| {
            let at = Timestamp::from_second(second).unwrap();
            until(item, at).map(Timestamp::as_second)
        };
        assert_eq!(changes(&plain, 1), None);
        let ends = item.with(tables::MEMORY.ttl.unwrap(), 30);
        assert_eq!(
            [9, 10, 20, 29, 30].map(|second| changes(&ends, second)),
            [Some(10), Some(20), Some(30), Some(30), None]
        );
    }
}
