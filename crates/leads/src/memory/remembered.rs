//! One thing that is remembered, and what it rests on: the same whatever the order of the events, and however often each
//! comes.
//!
//! It rests on the newest 50 events that said it, and on what somebody stated. The latest of all gives the value; what was said for a
//! while gives way to the rest when its time is over, which the item says beforehand (`people::memory`). So an event that says
//! something for longer than those after it keeps what it said. An event whose time was over when another one was heard of counts no
//! more: by then it was forgotten. All of that follows from the set of events alone, with when each happened and when it was heard
//! of, and so a rebuild gives the same bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use tidings_kernel::{Condition, Expect, Item, Key, Value, tables};
use tidings_people::memory::LATER;

use super::derive::{CERTAIN, Derived};
use super::hints::{self, Hint};
use crate::event::{self, StoredEvent};
use crate::features::reading::decimal;

/// On so many events it rests at most.
pub const MAX_EVENTS: usize = 50;
/// Of so many events it is kept what they said, for when what later ones said is over. As many rules with times of their own
/// hardly say the same thing.
const MAX_WORDS: usize = 8;
/// More than this no number of uncertain hints makes certain.
const NEARLY_CERTAIN: i64 = 9_900;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Remembered {
    /// By id.
    events: BTreeMap<String, Hint>,
    /// The second in which the last one was heard of.
    heard: i64,
    /// What somebody said who is no event.
    pub(super) stated: Option<Stated>,
    /// The same, said under another timeline of the same person.
    pub(super) borrowed: Option<Stated>,
}

/// Something that was written down as it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stated {
    pub(super) value: Value,
    /// In ten-thousandths.
    pub(super) confidence: i64,
    pub(super) source: String,
    /// In milliseconds.
    pub(super) at: i64,
    /// In seconds.
    pub(super) expires: Option<i64>,
}

impl Remembered {
    /// Adds what an event says. Adding it again changes nothing.
    pub(super) fn add(&mut self, event: &StoredEvent, derived: &Derived) {
        let (id, occurred_at) = (event.id.as_str(), event.occurred_at);
        let hint = Hint {
            at: occurred_at.as_millisecond(),
            confidence: derived.confidence,
            expires: derived.expires_after.map(|seconds| occurred_at.as_second() + seconds),
            said: Some((derived.value.clone(), derived.source.clone())),
        };
        self.events.insert(id.to_owned(), hint);
        self.heard = self.heard.max(event.received_at.as_second());
        self.settle();
    }

    /// Leaves only what counts.
    fn settle(&mut self) {
        let heard = self.heard;
        self.events.retain(|_, hint| hint.expires.is_none_or(|until| until > heard));
        while self.events.len() > MAX_EVENTS {
            let oldest = self.events.iter().min_by_key(|(id, hint)| (hint.at, *id));
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { return };
            self.events.remove(&oldest);
        }
        self.forget_words();
    }

    /// Leaves out what was said by whoever a later one outlives: it cannot come to count any more.
    fn forget_words(&mut self) {
        let mut newest_first: Vec<_> = self.events.iter_mut().collect();
        newest_first.sort_by(|(id, hint), (other, than)| (than.at, *other).cmp(&(hint.at, *id)));
        let (mut longest, mut kept) = (None, 0);
        for (_, hint) in newest_first {
            if kept < MAX_WORDS && longest.is_none_or(|later| outlives(hint.expires, later)) {
                (longest, kept) = (Some(hint.expires), kept + 1);
            } else {
                hint.said = None;
            }
        }
    }

    fn latest(&self) -> Option<(&str, &Hint)> {
        let latest = self.events.iter().max_by_key(|(id, hint)| (hint.at, *id));
        latest.map(|(id, hint)| (id.as_str(), hint))
    }

    /// What the latest event said of which that is known.
    fn derived(&self) -> Option<&(Value, String)> {
        let known = self.events.iter().filter(|(_, hint)| hint.said.is_some());
        known.max_by_key(|(id, hint)| (hint.at, *id))?.1.said.as_ref()
    }

    /// What was stated last, here or elsewhere.
    fn said(&self) -> Option<&Stated> {
        [&self.stated, &self.borrowed].into_iter().flatten().max_by_key(|stated| stated.at)
    }

    /// Whether what was stated is newer than every event.
    fn is_as_stated(&self) -> bool {
        let latest = self.latest().map(|(_, hint)| hint.at);
        self.said().is_some_and(|said| latest.is_none_or(|latest| latest <= said.at))
    }

    /// The second from which it is forgotten: when that of all events is over, or of what was stated since and of the rest.
    pub(super) fn expires(&self) -> Option<i64> {
        match self.next() {
            Some((_, rest)) => rest.expires(),
            None => self.lasts(),
        }
    }

    /// Until when what gives the value counts.
    fn lasts(&self) -> Option<i64> {
        match self.said() {
            Some(said) if self.is_as_stated() => said.expires,
            _ => {
                let all: Option<Vec<i64>> = self.events.values().map(|hint| hint.expires).collect();
                all?.into_iter().max()
            }
        }
    }

    /// The second in which something that was stated is over, or what the latest event said while an earlier one lasts; and what
    /// counts then, if there is anything.
    fn next(&self) -> Option<(i64, Self)> {
        let stated = [&self.stated, &self.borrowed].into_iter().flatten();
        let first = stated.filter_map(|stated| stated.expires).chain(self.outlived()).min()?;
        let is_forgotten = |until: Option<i64>| until.is_some_and(|until| until <= first);
        if !self.is_as_stated() && is_forgotten(self.lasts()) {
            return None;
        }
        let rest = self.without(first);
        let is_something = !rest.events.is_empty() || rest.said().is_some();
        (is_something && !is_forgotten(rest.expires())).then_some((first, rest))
    }

    /// When what the latest event said is over, if it is what counts and an earlier one lasts for longer.
    fn outlived(&self) -> Option<i64> {
        let (_, latest) = self.latest().filter(|_| !self.is_as_stated())?;
        let is_outlived =
            |hint: &Hint| hint.said.is_some() && outlives(hint.expires, latest.expires);
        latest.expires.filter(|_| self.events.values().any(is_outlived))
    }

    /// Without what was said and is over in this second.
    fn without(&self, second: i64) -> Self {
        let lasts = |until: Option<i64>| until.is_none_or(|until| until > second);
        let mut rest = self.clone();
        rest.stated = rest.stated.filter(|stated| lasts(stated.expires));
        rest.borrowed = rest.borrowed.filter(|stated| lasts(stated.expires));
        rest.events.retain(|_, hint| lasts(hint.expires));
        rest
    }

    /// What gives way to what.
    fn later(&self) -> Vec<Value> {
        let (mut later, mut next) = (Vec::new(), self.next());
        while let Some((from, rest)) = next {
            let one = [("from".to_owned(), from.into()), ("value".to_owned(), rest.value().0)];
            later.push(Value::M(one.into()));
            next = rest.next();
        }
        later
    }

    /// What it says, and where that is from.
    fn value(&self) -> (Value, String) {
        match self.said() {
            Some(said) if self.is_as_stated() => (said.value.clone(), said.source.clone()),
            _ => self.derived().cloned().unwrap_or((Value::Null, String::new())),
        }
    }

    /// Whether there is anything to keep.
    pub(super) fn is_kept(&self, now: Timestamp) -> bool {
        let is_something = !self.events.is_empty() || self.said().is_some();
        is_something && self.expires().is_none_or(|until| until > now.as_second())
    }

    /// 1 - ∏(1 - c) over everything that it rests on.
    fn confidence(&self) -> i64 {
        let mut all: Vec<i64> = self.events.values().map(|hint| hint.confidence).collect();
        all.extend(self.said().map(|said| said.confidence));
        // In one order, so that rounding does the same each time.
        all.sort_unstable();
        let most = all.last().copied().unwrap_or_default();
        let doubt: f64 = all.iter().map(|one| 1.0 - *one as f64 / CERTAIN as f64).product();
        let merged = ((1.0 - doubt) * CERTAIN as f64).round() as i64;
        merged.min(NEARLY_CERTAIN).max(most)
    }

    /// The events that it rests on, by their ids, the newest first.
    fn newest_first(&self) -> Vec<(&str, &Hint)> {
        let mut all: Vec<_> = self.events.iter().map(|(id, hint)| (id.as_str(), hint)).collect();
        all.sort_by_key(|(id, hint)| std::cmp::Reverse((hint.at, *id)));
        all
    }

    pub(super) fn to_item(&self, key: &Key) -> Item {
        let times = self.events.values().map(|hint| hint.at).chain(self.said().map(|said| said.at));
        let (first, last) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
        let time = |millis| event::time(Timestamp::from_millisecond(millis).unwrap_or_default());
        let (value, source) = self.value();
        let ids: Vec<Value> = self.newest_first().into_iter().map(|(id, _)| id.into()).collect();
        let hints = self.newest_first().into_iter().map(|(_, hint)| hint);
        let mut item = tables::MEMORY
            .bare_item(key)
            .with("value", value)
            .with("confidence", decimal(self.confidence(), 4))
            .with("source", source)
            .with("source_event_ids", ids)
            .with("created_at", time(first))
            .with("updated_at", time(last))
            .with("events", hints::to_text(hints));
        if self.heard > 0 {
            item.set("heard", self.heard);
        }
        if let Some(until) = self.expires() {
            item.set("expires_at", until);
        }
        let later = self.later();
        if !later.is_empty() {
            item.set(LATER, later);
        }
        // What the events say, where something else was stated since.
        if let Some((value, source)) = self.derived().filter(|_| self.is_as_stated()) {
            item.set("derived_value", value.clone());
            item.set("derived_source", source.as_str());
        }
        for (name, stated) in [("stated", &self.stated), ("borrowed", &self.borrowed)] {
            if let Some(stated) = stated {
                item.set(name, stated.to_value());
            }
        }
        item
    }

    pub(super) fn from_item(item: &Item) -> Self {
        let mut events = hints::of(item);
        let stated = item.get("stated").and_then(Stated::from_value);
        let borrowed = item.get("borrowed").and_then(Stated::from_value);
        let text = |name: &str| item.text(name).unwrap_or_default().to_owned();
        let said = match item.get("derived_value") {
            Some(value) => Some((value.clone(), text("derived_source"))),
            None => item.get("value").map(|value| (value.clone(), text("source"))),
        };
        let latest = events
            .iter_mut()
            .max_by(|(id, hint), (other, than)| (hint.at, *id).cmp(&(than.at, *other)));
        if let Some((_, latest)) = latest {
            latest.said = said;
        }
        let heard = item.integer("heard").unwrap_or_default();
        Self { events, heard, stated, borrowed }
    }

    /// Nothing but what events say.
    pub(super) fn without_stated(&self) -> Self {
        Self { stated: None, borrowed: None, ..self.clone() }
    }

    /// Nothing but what was stated here.
    pub(super) fn only_stated(&self) -> Self {
        Self { stated: self.stated.clone(), ..Self::default() }
    }
}

/// Whether something that lasts until then lasts for longer than another one. Without an end it is for ever.
fn outlives(until: Option<i64>, other: Option<i64>) -> bool {
    other.is_some_and(|other| until.is_none_or(|until| until > other))
}

/// An item as it is without what was said and is over.
pub(super) fn at(item: &Item, now: Timestamp) -> Cow<'_, Item> {
    let known = Remembered::from_item(item);
    let is_over = known.next().is_some_and(|(from, _)| from <= now.as_second());
    match tables::MEMORY.key_of(item) {
        Ok(key) if is_over => Cow::Owned(known.without(now.as_second()).to_item(&key)),
        _ => Cow::Borrowed(item),
    }
}

/// The second from which on something else counts than what does now, if anything.
pub(super) fn gives_way(item: &Item) -> Option<i64> {
    let known = Remembered::from_item(item);
    let shows = |rest: &Remembered| known.is_as_stated() || known.derived() != rest.derived();
    known.next().filter(|(_, rest)| shows(rest)).map(|(from, _)| from)
}

/// What a write must find, if this is what was read. What is past its time and not swept yet is as good as nothing.
pub(super) fn expect(found: Option<&Item>, now: Timestamp) -> Expect {
    let Some(item) = found else {
        let over = Condition::Le("expires_at".into(), now.as_second().into());
        return Expect::That(Condition::not_exists("updated_at").or(over));
    };
    let mut same = Vec::new();
    for name in ["events", "source_event_ids", "stated", "borrowed"] {
        same.push(match item.get(name) {
            Some(value) => Condition::eq(name, value.clone()),
            None => Condition::not_exists(name),
        });
    }
    Expect::That(Condition::All(same))
}

impl Stated {
    fn to_value(&self) -> Value {
        let mut map = BTreeMap::from([
            ("value".to_owned(), self.value.clone()),
            ("confidence".to_owned(), decimal(self.confidence, 4).into()),
            ("source".to_owned(), self.source.as_str().into()),
            ("at".to_owned(), self.at.into()),
        ]);
        if let Some(expires) = self.expires {
            map.insert("expires_at".to_owned(), expires.into());
        }
        Value::M(map)
    }

    fn from_value(value: &Value) -> Option<Self> {
        let Value::M(map) = value else { return None };
        let number = |name: &str| map.get(name).and_then(Value::as_number);
        Some(Self {
            value: map.get("value")?.clone(),
            confidence: parts(number("confidence")?)?,
            source: map.get("source")?.as_text()?.to_owned(),
            at: number("at")?.to_i64()?,
            expires: number("expires_at").and_then(tidings_kernel::Number::to_i64),
        })
    }
}

/// A confidence in ten-thousandths.
pub(super) fn parts(confidence: tidings_kernel::Number) -> Option<i64> {
    let text = format!("{confidence}e4");
    let whole = text.parse::<tidings_kernel::Number>().ok()?.floor();
    (0..=CERTAIN).contains(&whole).then_some(whole)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use tidings_kernel::{Item, Key, Value};
    use tidings_people::memory;

    use super::{Derived, Remembered, at};
    use crate::event::StoredEvent;

    /// When it happened and when it was heard of, and for how long it says something.
    #[derive(Debug, Clone, Copy)]
    struct Told {
        occurred: i64,
        heard: i64,
        lasts: Option<i64>,
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// What is kept of these, each with its place as its id and its value.
    fn remembered(told: &[(usize, Told)]) -> Item {
        let mut known = Remembered::default();
        for (place, one) in told {
            let event = StoredEvent {
                lead_organization_id: "1".to_owned(),
                id: format!("e{place}"),
                event_type: "t".to_owned(),
                occurred_at: second(one.occurred),
                received_at: second(one.heard),
                source_type: "api".to_owned(),
                source: "s".to_owned(),
                external_event_id: format!("e{place}"),
                object_id: None,
                object_id_ref: None,
                payload: serde_json::Map::new(),
                raw_payload: None,
            };
            let derived = Derived {
                memory_type: "interest".parse().unwrap(),
                key: "tea".parse().unwrap(),
                value: Value::from(i64::try_from(*place).unwrap()),
                confidence: 5_000,
                expires_after: one.lasts,
                source: "rule".to_owned(),
            };
            known.add(&event, &derived);
            // As the next event finds it.
            known = Remembered::from_item(&known.to_item(&key()));
        }
        known.to_item(&key())
    }

    fn key() -> Key {
        Key::new("1", "interest#tea")
    }

    /// What is said at a time, if it is not forgotten.
    fn says(item: &Item, now: i64) -> Option<i64> {
        let is_over = item.integer("expires_at").is_some_and(|until| until <= now);
        let shown = at(item, second(now));
        let (shown, told) = (shown.get("value"), memory::value(item, second(now)));
        assert!(is_over || shown == told, "at {now}: {shown:?} and {told:?}");
        told.filter(|_| !is_over)?.as_number()?.to_i64()
    }

    #[test]
    fn what_lasts_counts_again_when_what_was_said_since_is_over() {
        let day = 24 * 3600;
        let told = [
            (0, Told { occurred: day, heard: day, lasts: None }),
            (1, Told { occurred: 2 * day, heard: 2 * day, lasts: Some(day) }),
        ];
        let item = remembered(&told);
        assert_eq!(
            [2 * day, 3 * day - 1, 3 * day, 9 * day].map(|now| says(&item, now)),
            [1, 1, 0, 0].map(Some)
        );
        assert_eq!(item.integer("expires_at"), None);
    }

    proptest! {
        #[test]
        fn neither_order_nor_repetition_matters(
            told in proptest::collection::vec((1_i64..40, 0_i64..6, proptest::option::of(1_i64..30)), 1..7),
            order in proptest::collection::vec(0_usize..7, 0..20),
        ) {
            let told: Vec<_> = told
                .into_iter()
                .map(|(occurred, late, lasts)| Told { occurred, heard: occurred + late, lasts })
                .enumerate()
                .collect();
            let item = remembered(&told);
            let shuffled: Vec<_> =
                order.iter().filter_map(|place| told.get(*place)).chain(told.iter().rev()).copied().collect();
            prop_assert_eq!(&remembered(&shuffled), &item);

            // As simply as it can be said.
            let heard = told.iter().map(|(_, one)| one.heard).max().unwrap();
            for now in heard..80 {
                let lasts = |one: &Told| one.lasts.is_none_or(|lasts| one.occurred + lasts > now.max(heard));
                let latest = told.iter().filter(|(_, one)| lasts(one)).max_by_key(|(place, one)| (one.occurred, *place));
                let expected = latest.map(|(place, _)| i64::try_from(*place).unwrap());
                prop_assert_eq!(says(&item, now), expected, "at {}", now);
            }
        }
    }
}
