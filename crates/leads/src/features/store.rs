//! The item of somebody's features: seed 004's `features` and `computed_at`, and what we need besides to keep them up.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidings_kernel::{Condition, Expect, Item, Key, StoreError, Update, Value, tables};

use super::Features;
use super::registry::{self, Feature};
use super::score::Part;
use super::state::State;
use crate::event;

/// What a state means to this program. An item of another version is counted anew.
const VERSION: i64 = 3;

pub(crate) fn key(lead_organization_id: &str) -> Key {
    Key::single(lead_organization_id)
}

/// An item as it was read, or that there was none.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    lead_organization_id: String,
    rev: i64,
    pub(super) state: State,
    values: BTreeMap<String, Value>,
    score: Vec<Value>,
    /// Whether somebody counts anew, and until when nobody else begins to.
    pub(super) rebuilding_until: Option<Timestamp>,
    /// Whether it can be gone on with.
    pub(super) is_current: bool,
    pub(super) is_new: bool,
}

impl Kept {
    pub(super) fn read(lead_organization_id: &str, item: Option<&Item>) -> Self {
        let lead_organization_id = lead_organization_id.to_owned();
        let Some(item) = item else {
            return Self {
                lead_organization_id,
                rev: 0,
                state: State::default(),
                values: BTreeMap::new(),
                score: Vec::new(),
                rebuilding_until: None,
                is_current: true,
                is_new: true,
            };
        };
        let is_of_ours = item.integer("version") == Some(VERSION);
        // What cannot be read is counted anew, as what another version wrote: events are the truth, and one item that is
        // damaged must not hold up anybody else.
        let state = item.get("state").filter(|_| is_of_ours).and_then(from_value);
        let shown = shown(item);
        Self {
            lead_organization_id,
            rev: item.integer("rev").unwrap_or_default(),
            is_current: state.is_some(),
            state: state.unwrap_or_default(),
            values: shown.values,
            score: shown.score,
            rebuilding_until: item.text("rebuilding_until").and_then(|at| at.parse().ok()),
            is_new: false,
        }
    }

    pub(super) fn is_being_rebuilt(&self, now: Timestamp) -> bool {
        self.rebuilding_until.is_some_and(|until| now < until)
    }

    /// What a write must find, or somebody else was faster.
    pub(super) fn expect(&self) -> Expect {
        if self.is_new { Expect::Absent } else { Expect::That(Condition::eq("rev", self.rev)) }
    }

    /// The state with nothing in it, to count anew.
    pub(super) fn cleared(mut self) -> Self {
        (self.state, self.values, self.score) = (State::default(), BTreeMap::new(), Vec::new());
        self.is_current = true;
        self
    }

    /// Computes some features again. Tells whether anything has another value now.
    pub(super) fn compute(
        &mut self,
        some: impl Iterator<Item = &'static Feature>,
        now: Timestamp,
    ) -> bool {
        let before = (self.values.clone(), self.score.clone());
        let mut explains = false;
        let some = some.inspect(|feature| explains |= feature.name == "engagement_score");
        registry::compute(&mut self.values, some, &self.state, now);
        if explains {
            let parts = registry::explain(&self.state, now);
            self.score = parts.iter().map(Part::to_value).collect();
        }
        (&self.values, &self.score) != (&before.0, &before.1)
    }

    /// The item that takes the place of the one that was read.
    pub(super) fn to_item(&self, now: Timestamp) -> Result<Item, StoreError> {
        Ok(tables::FEATURE
            .bare_item(&key(&self.lead_organization_id))
            .with("features", Value::M(self.values.clone()))
            .with("computed_at", event::time(now))
            .with("engagement_score_parts", self.score.clone())
            .with("state", to_value(&self.state)?)
            .with("version", VERSION)
            .with("rev", self.rev + 1))
    }

    /// The same with a note that it is being counted anew.
    pub(super) fn to_rebuilding(
        &self,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Item, StoreError> {
        Ok(self.to_item(now)?.with("rebuilding_until", event::time(until)))
    }

    /// Goes on saying that it is being counted anew.
    pub(super) fn renewal(&self, until: Timestamp) -> Update {
        Update::new(&tables::FEATURE, key(&self.lead_organization_id))
            .set("rebuilding_until", event::time(until))
            .set("rev", self.rev + 1)
            .expect(self.expect())
    }

    /// As `to_rebuilding` or `renewal` has left it.
    pub(super) fn after_write(mut self) -> Self {
        self.rev += 1;
        self.is_new = false;
        self
    }
}

/// What others see of it.
pub(super) fn shown(item: &Item) -> Features {
    let values = match item.get("features") {
        Some(Value::M(values)) => values.clone(),
        _ => BTreeMap::new(),
    };
    let score = match item.get("engagement_score_parts") {
        Some(Value::L(parts)) => parts.clone(),
        _ => Vec::new(),
    };
    let computed_at = item.text("computed_at").and_then(|at| at.parse().ok());
    Features { values, score, computed_at }
}

/// As text: read and written with each event, it is not worth taking apart twice.
fn to_value(state: &State) -> Result<Value, StoreError> {
    let text = serde_json::to_string(state).map_err(|error| StoreError::Failed(error.into()))?;
    Ok(text.into())
}

/// `None` if this is no state that we know. Earlier programs wrote it as a map.
fn from_value(value: &Value) -> Option<State> {
    match value {
        Value::S(text) => serde_json::from_str(text).ok(),
        map => serde_json::from_value(serde_json::to_value(map).ok()?).ok(),
    }
}
