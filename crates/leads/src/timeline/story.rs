//! An event in words, for a person who reads a timeline.

use jiff::Timestamp;
use serde_json::Value;

use crate::event::StoredEvent;

/// So much of a text in a payload is told.
const TOLD: usize = 60;

/// What a payload calls the thing that an event is about, the best first.
const NAMES: [&str; 8] =
    ["title", "subject", "product_name", "product", "name", "sequence", "step", "url"];

/// How long ago it was, in the largest unit that is at least one.
pub fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - at.as_second();
    if seconds < 0 {
        return "ahead of now".to_owned();
    }
    for (unit, size) in [
        ("year", 31_536_000),
        ("month", 2_592_000),
        ("day", 86_400),
        ("hour", 3_600),
        ("minute", 60),
    ] {
        match seconds / size {
            0 => {}
            1 => return format!("1 {unit} ago"),
            many => return format!("{many} {unit}s ago"),
        }
    }
    "just now".to_owned()
}

/// What happened, as somebody would say it: `opened  “Welcome” (campaign 7)`.
pub fn sentence(event: &StoredEvent) -> String {
    let mut told = verb(&event.event_type);
    let said = NAMES.iter().find_map(|name| event.payload.get(*name).and_then(text));
    let about = said.or_else(|| event.object_id_ref.as_deref().and_then(short));
    if let Some(about) = about {
        told.push_str(&format!("  “{about}”"));
    }
    let amount = event.payload.get("amount").or_else(|| event.payload.get("total"));
    if let Some(amount) = amount.and_then(plain) {
        let currency = event.payload.get("currency").and_then(text).unwrap_or_default();
        told.push_str(format!("  {amount} {currency}").trim_end());
    }
    if let Some(object) = event.object_id.as_deref().and_then(short) {
        told.push_str(&format!("  ({object})"));
    }
    if event.is_by_machine() {
        told.push_str("  [a machine]");
    }
    told
}

/// The type without where it comes from, and with spaces: `email.opened` is `opened`, `purchase_completed` is
/// `purchase completed`.
fn verb(event_type: &str) -> String {
    let known = [
        ("email.sent", "was sent mail"),
        ("email.delivered", "got mail"),
        ("email.opened", "opened"),
        ("email.clicked", "clicked"),
        ("email.bounced", "bounced"),
        ("email.complained", "complained of spam"),
        ("email.replied", "replied"),
        ("email.unsubscribed", "unsubscribed"),
        ("inbox.published", "got an inbox message"),
        ("inbox.read", "read an inbox message"),
        ("inbox.read_all", "read all inbox messages"),
        ("inbox.withdrawn", "lost an inbox message that was taken back"),
        ("inbox.expired", "let an inbox message expire unread"),
        ("inbox.archived", "archived an inbox message"),
        ("sequence.entered", "entered a sequence"),
        ("sequence.step_sent", "got a mail of a sequence"),
        ("sequence.completed", "completed a sequence"),
        ("sequence.exited", "left a sequence"),
    ];
    let told = known.iter().find(|(name, _)| *name == event_type).map(|(_, told)| *told);
    let told = told.map_or_else(|| event_type.replace(['_', '.'], " "), str::to_owned);
    short(&told).unwrap_or_default()
}

fn text(value: &Value) -> Option<String> {
    short(value.as_str()?)
}

/// On one line, and cut: whoever reads a story at a terminal must not be steered by what somebody else has sent.
fn short(text: &str) -> Option<String> {
    let text = text.trim();
    let mut told: String = text.chars().filter(|c| !c.is_control()).take(TOLD).collect();
    if text.chars().count() > TOLD {
        told.push('…');
    }
    (!told.is_empty()).then_some(told)
}

/// A number, or what somebody wrote in its place.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => short(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
