//! What follows from an event: the registry of derivations that are built in.
//!
//! Each is a function of one event alone, so what is derived does not depend on when it is. Here: what everybody needs.
//! Not here: what a workspace adds (`rules`), and how what was derived is put together (`remembered`).

use serde_json::{Value as Json, json};
use tidings_kernel::{Value, plain};

use super::names::{MemoryKey, MemoryType};
use super::rules::RuleSet;
use crate::canonical::canonical;
use crate::event::StoredEvent;
use crate::features::reading;

/// So many things one event can say.
pub(super) const MAX_DERIVED: usize = 20;
/// So many bytes a value may have, as JSON.
pub const MAX_VALUE: usize = 4 * 1024;
/// What is certain. Confidences are whole ten-thousandths, so that they sum up the same in any order.
pub const CERTAIN: i64 = 10_000;
const DAY: i64 = 24 * 60 * 60;

/// Something that an event says of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Derived {
    pub memory_type: MemoryType,
    pub key: MemoryKey,
    pub value: Value,
    /// In ten-thousandths.
    pub confidence: i64,
    /// Seconds from when the event happened.
    pub expires_after: Option<i64>,
    /// Who derived it.
    pub source: String,
}

/// One way to learn from events.
pub struct Derivation {
    pub name: &'static str,
    pub doc: &'static str,
    derive: fn(&StoredEvent) -> Vec<Said>,
}

/// What a derivation says, before names and sizes are checked.
struct Said {
    memory_type: &'static str,
    key: String,
    value: Json,
    confidence: i64,
    expires_after: Option<i64>,
}

/// Those that are built in.
pub static ALL: [Derivation; 6] = [
    Derivation {
        name: "purchase",
        doc: "What he bought: purchase_completed, Order Completed.",
        derive: purchase,
    },
    Derivation {
        name: "interest",
        doc: "Products and categories that he looked at: product_viewed, cart_item_added, and email.clicked with a product.",
        derive: interest,
    },
    Derivation {
        name: "preference",
        doc: "What he said that he prefers: preference_set, preference_updated.",
        derive: preference,
    },
    Derivation {
        name: "sentiment",
        doc: "The mood of what he wrote: any event with a sentiment.",
        derive: sentiment,
    },
    Derivation {
        name: "channel",
        doc: "Where he answers: opens, clicks, replies, what he read in the inbox, messages by channel.",
        derive: channel,
    },
    Derivation {
        name: "objection",
        doc: "What he has against it: objection_raised, objections of a message, why he unsubscribed.",
        derive: objection,
    },
];

/// Everything that an event says, each thing once: what a workspace's own rules say counts more. What a machine did says nothing of
/// a person.
pub(super) fn derive(event: &StoredEvent, rules: &[RuleSet]) -> Vec<Derived> {
    if event.is_by_machine() {
        return Vec::new();
    }
    let built_in = ALL.iter().flat_map(|derivation| {
        let said = (derivation.derive)(event);
        said.into_iter().filter_map(|said| said.checked(derivation.name))
    });
    let own = rules.iter().flat_map(|set| set.derive(event));
    let mut all: Vec<Derived> = Vec::new();
    for derived in built_in.chain(own) {
        let same =
            |known: &Derived| known.memory_type == derived.memory_type && known.key == derived.key;
        match all.iter().position(same) {
            Some(place) => all[place] = derived,
            None if all.len() < MAX_DERIVED => all.push(derived),
            None => {}
        }
    }
    all
}

/// A value that can be remembered.
pub(super) fn kept(json: &Json) -> Option<Value> {
    let fits = serde_json::to_string(json).is_ok_and(|text| text.len() <= MAX_VALUE);
    plain::to_value(json).ok().filter(|_| fits)
}

impl Said {
    fn checked(self, source: &str) -> Option<Derived> {
        Some(Derived {
            memory_type: self.memory_type.parse().ok()?,
            key: self.key.parse().ok()?,
            value: kept(&self.value)?,
            confidence: self.confidence,
            expires_after: self.expires_after,
            source: source.to_owned(),
        })
    }
}

const PRODUCT: &[&str] = &["product", "product_id", "productId", "sku"];
/// What a purchase has its lines in.
const LINES: [&str; 5] = ["items", "products", "lines", "line_items", "lineItems"];

fn purchase(event: &StoredEvent) -> Vec<Said> {
    if canonical(&event.event_type) != "purchase_completed" {
        return Vec::new();
    }
    let said = |key: String, value: Json| Said {
        memory_type: "purchase",
        key,
        value,
        confidence: CERTAIN,
        expires_after: None,
    };
    let lines = LINES.iter().find_map(|name| event.payload.get(*name)?.as_array());
    let mut all = Vec::new();
    for line in lines.into_iter().flatten().filter_map(Json::as_object).take(MAX_DERIVED) {
        let Some(product) = reading::name(line, PRODUCT) else { continue };
        let mut value = json!({"product": product});
        for name in ["name", "quantity", "amount", "price"] {
            if let Some(given) = line.get(name).filter(|given| !given.is_null()) {
                value[name] = given.clone();
            }
        }
        all.push(said(format!("product:{product}"), value));
    }
    if all.is_empty() {
        let product = reading::name(&event.payload, PRODUCT).or_else(|| event.object_id.clone());
        let key = product.map_or_else(|| "last".to_owned(), |product| format!("product:{product}"));
        let amount = reading::amount(&event.payload).map(|amount| amount.to_string());
        let currency = reading::currency(&event.payload);
        all.push(said(key, json!({"amount": amount, "currency": currency})));
    }
    all
}

fn interest(event: &StoredEvent) -> Vec<Said> {
    let confidence = match &*canonical(&event.event_type) {
        "product_viewed" => 3_000,
        "email_clicked" => 5_000,
        "cart_item_added" => 6_000,
        _ => return Vec::new(),
    };
    let product = reading::name(&event.payload, PRODUCT);
    let category = reading::name(&event.payload, &["category"]);
    let named = [("product", product), ("category", category)];
    let said = |(what, name): (&str, Option<String>)| {
        let name = name?;
        Some(Said {
            memory_type: "interest",
            key: format!("{what}:{name}"),
            value: name.into(),
            confidence,
            expires_after: Some(90 * DAY),
        })
    };
    named.into_iter().filter_map(said).collect()
}

fn preference(event: &StoredEvent) -> Vec<Said> {
    if !matches!(&*canonical(&event.event_type), "preference_set" | "preference_updated") {
        return Vec::new();
    }
    let mut given = Vec::new();
    if let Some(Json::Object(all)) = event.payload.get("preferences") {
        given.extend(all.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    let name = reading::name(&event.payload, &["preference", "key", "name"]);
    if let (Some(name), Some(value)) = (name, event.payload.get("value")) {
        given.push((name, value.clone()));
    }
    let given = given.into_iter().filter(|(_, value)| !value.is_null());
    let said = |(key, value)| Said {
        memory_type: "preference",
        key,
        value,
        confidence: CERTAIN,
        expires_after: None,
    };
    given.map(said).collect()
}

fn sentiment(event: &StoredEvent) -> Vec<Said> {
    let Some(mood) = reading::mood(&event.payload) else { return Vec::new() };
    let label = match mood {
        ..-2_500 => "negative",
        -2_500..=2_500 => "neutral",
        _ => "positive",
    };
    vec![Said {
        memory_type: "sentiment",
        key: "latest".to_owned(),
        value: label.into(),
        confidence: 7_000,
        expires_after: Some(180 * DAY),
    }]
}

fn channel(event: &StoredEvent) -> Vec<Said> {
    let (key, confidence) = match &*canonical(&event.event_type) {
        "email_opened" => ("email".to_owned(), 2_000),
        "email_clicked" => ("email".to_owned(), 5_000),
        "email_replied" => ("email".to_owned(), 8_000),
        "inbox_read" => ("inbox".to_owned(), 4_000),
        "message_received" => match reading::name(&event.payload, &["channel"]) {
            Some(channel) => (channel, 8_000),
            None => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    vec![Said {
        memory_type: "channel",
        key,
        value: event.event_type.as_str().into(),
        confidence,
        expires_after: Some(180 * DAY),
    }]
}

fn objection(event: &StoredEvent) -> Vec<Said> {
    let said = |key: String, value: Json| Said {
        memory_type: "objection",
        key,
        value,
        confidence: 8_000,
        expires_after: Some(365 * DAY),
    };
    match &*canonical(&event.event_type) {
        "objection_raised" => {
            let Some(key) = reading::name(&event.payload, &["objection", "reason", "key"]) else {
                return Vec::new();
            };
            let text = event.payload.get("text").filter(|text| text.is_string()).cloned();
            vec![said(key.clone(), text.unwrap_or_else(|| key.into()))]
        }
        "message_received" => {
            let all = event.payload.get("objections").and_then(Json::as_array);
            let words = all.into_iter().flatten().filter_map(reading::word).take(MAX_DERIVED);
            words.map(|word| said(word.clone(), word.into())).collect()
        }
        "email_unsubscribed" => {
            let reason = reading::name(&event.payload, &["reason"]);
            reason
                .map(|reason| said("unsubscribed".to_owned(), reason.into()))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}
