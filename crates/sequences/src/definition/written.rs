//! The one JSON form in which a definition is kept and shown. Reading it again gives the same definition.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidings_inbox::keys::Category;
use tidings_outreach::audience::Condition;

use super::read::{DEFAULT_TIMEOUT, is_path, written_duration, written_time, written_weekday};
use super::{
    Action, Branch, Check, Clause, Definition, Exit, InboxBody, InboxMessage, Mail, Mails, Mapping,
    OneOff, Path, Reentry, Setting, Step, Trigger, Wait, WaitFor, Window, ids,
};

/// What is as it would be anyway is left out.
pub fn to_json(definition: &Definition) -> Value {
    let Definition { timeout, reentry, .. } = definition;
    let reentry = match reentry {
        Reentry::Restart => Value::Null,
        Reentry::Ignore => json!("ignore"),
        Reentry::After(long) => json!({ "after": written_duration(*long) }),
    };
    object(json!({
        "id": definition.id.as_str(),
        "name": definition.name,
        "description": definition.description,
        "client": definition.client.as_str(),
        "sender": definition.sender.as_ref().map(|slug| slug.as_str()),
        "transactional": definition.transactional.then_some(true),
        "audience": definition.audience.as_ref().map(|slug| slug.as_str()),
        "topic": definition.topic.as_ref().map(|slug| slug.as_str()),
        "trigger": definition.trigger.as_ref().map(trigger),
        "timeout": (*timeout != DEFAULT_TIMEOUT).then(|| written_duration(*timeout)),
        "reentry": reentry,
        "window": definition.window.as_ref().map(window),
        "exitOn": list(&definition.exit_on, exit),
        "events": list(&definition.events, one_off),
        "steps": steps(&definition.steps),
    }))
}

/// Without what is null: that is as good as nothing.
fn object(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| !value.is_null());
    }
    value
}

/// Nothing, if there is nothing in it.
fn list<T>(all: &[T], written: fn(&T) -> Value) -> Value {
    if all.is_empty() { Value::Null } else { all.iter().map(written).collect() }
}

fn trigger(Trigger { event, mapping, filter }: &Trigger) -> Value {
    object(
        json!({ "event": event, "map": written_mapping(mapping), "filter": list(filter, clause) }),
    )
}

fn exit(Exit { event, mapping, filter }: &Exit) -> Value {
    if *mapping == Mapping::default() && filter.is_empty() {
        return json!(event);
    }
    object(
        json!({ "event": event, "map": written_mapping(mapping), "filter": list(filter, clause) }),
    )
}

fn one_off(OneOff { event, mail, mapping, filter }: &OneOff) -> Value {
    object(json!({
        "event": event,
        "send": mail.template.as_str(),
        "subject": mail.subject,
        "map": written_mapping(mapping),
        "filter": list(filter, clause),
    }))
}

fn written_mapping(mapping: &Mapping) -> Value {
    let text = |path: &Option<Path>| path.as_ref().map(|path| path.text.clone());
    let attributes = match &mapping.all_attributes {
        Some(path) => json!(path.text),
        None if mapping.attributes.is_empty() => Value::Null,
        None => {
            let named = mapping.attributes.iter();
            Value::Object(named.map(|(name, path)| (name.clone(), json!(path.text))).collect())
        }
    };
    let written = object(json!({
        "email": text(&mapping.email),
        "firstName": text(&mapping.first_name),
        "attributes": attributes,
    }));
    if written == json!({}) { Value::Null } else { written }
}

fn clause(Clause { path, test }: &Clause) -> Value {
    json!({ "path": path.text, test.name(): test.wanted() })
}

fn window(Window { days, from, until, zone }: &Window) -> Value {
    object(json!({
        "days": list(days, |day| json!(written_weekday(*day))),
        "from": written_time(*from),
        "until": written_time(*until),
        "zone": written_zone(zone),
    }))
}

fn written_zone(zone: &jiff::tz::TimeZone) -> Option<&str> {
    zone.iana_name().filter(|name| *name != "UTC")
}

fn steps(steps: &[Step]) -> Value {
    steps.iter().map(step).collect()
}

fn step(step: &Step) -> Value {
    let mut written = action(&step.action);
    if let Value::Object(fields) = &mut written
        && ids::is_given(&step.id)
    {
        fields.insert("id".to_owned(), json!(step.id));
    }
    written
}

fn action(action: &Action) -> Value {
    match action {
        Action::Send(Mails::One(Mail { template, subject })) => {
            object(json!({ "send": template.as_str(), "subject": subject }))
        }
        Action::Send(Mails::Variants(mails)) => {
            let mail = |Mail { template, subject }: &Mail| {
                object(json!({ "template": template.as_str(), "subject": subject }))
            };
            json!({ "send": { "variants": list(mails, mail) } })
        }
        Action::Wait(Wait::For(duration)) => json!({ "wait": written_duration(*duration) }),
        Action::Wait(Wait::Until { weekday, time, zone }) => {
            let until = object(json!({
                "until": written_time(*time),
                "weekday": weekday.map(written_weekday),
                "zone": written_zone(zone),
            }));
            json!({ "wait": until })
        }
        Action::WaitFor(WaitFor { event, filter, timeout, then, otherwise }) => object(json!({
            "wait_for": event,
            "filter": list(filter, clause),
            "timeout": written_duration(*timeout),
            "then": list(then, step),
            "else": list(otherwise, step),
        })),
        Action::Choice { path, branches, default } => {
            let branch = |Branch { value, steps: inner }: &Branch| json!({ "value": value, "steps": steps(inner) });
            object(json!({
                "choice": path.text,
                "branches": branches.iter().map(branch).collect::<Vec<_>>(),
                "default": list(default, step),
            }))
        }
        // One of the two has to be there, also where both are empty.
        Action::Condition { check, then, otherwise } => object(json!({
            "condition": written_check(check),
            "then": steps(then),
            "else": list(otherwise, step),
        })),
        Action::Tag { add, remove } => {
            let tags = object(json!({
                "add": list(add, |tag| json!(tag.as_str())),
                "remove": list(remove, |tag| json!(tag.as_str())),
            }));
            json!({ "tag": tags })
        }
        Action::Set(values) => json!({ "set": settings(values) }),
        Action::Inbox(message) => json!({ "inbox": written_inbox(message) }),
        Action::Webhook { event, data } if data.is_empty() => {
            json!({ "webhook": { "event": event } })
        }
        Action::Webhook { event, data } => {
            json!({ "webhook": { "event": event, "data": settings(data) } })
        }
        Action::Exit { reason: Some(reason) } => json!({ "exit": reason }),
        Action::Exit { reason: None } => json!({ "exit": {} }),
    }
}

fn written_check(check: &Check) -> Value {
    match check {
        Check::HasBeenSent(key) => json!({ "has_been_sent": key.as_str() }),
        Check::HasOpened(key) => json!({ "has_opened": key.as_str() }),
        Check::HasClicked(key) => json!({ "has_clicked": key.as_str() }),
        Check::FieldExists(field) => json!({ "subscriber_field_exists": field }),
        Check::FieldEquals(field, value) => {
            json!({ "subscriber_field_equals": { "field": field, "value": value } })
        }
        Check::Matches(Condition::Audience(slug)) => json!({ "in_audience": slug.as_str() }),
        Check::Matches(condition) => json!({ "matches": condition.to_json() }),
    }
}

fn written_inbox(message: &InboxMessage) -> Value {
    let body = message.body.as_ref().map(|body| match body {
        InboxBody::One(one) => setting(one),
        InboxBody::Fields(fields) => settings(fields),
    });
    object(json!({
        "inbox": message.inbox.as_str(),
        "title": setting(&message.title),
        "body": body,
        "cta_uri": message.cta_uri.as_ref().map(setting),
        "category": message.category.as_ref().map(Category::as_str),
        "expires_in": message.expires_in.map(|ttl| ttl.to_string()),
    }))
}

fn settings(settings: &BTreeMap<String, Setting>) -> Value {
    let written = |(name, value): (&String, &Setting)| (name.clone(), setting(value));
    Value::Object(settings.iter().map(written).collect::<Map<_, _>>())
}

fn setting(setting: &Setting) -> Value {
    match setting {
        Setting::FromTrigger(path) => json!(path.text),
        Setting::Value(Value::String(text)) if is_path(text) || text.starts_with("$$") => {
            json!(format!("${text}"))
        }
        Setting::Value(value) => value.clone(),
    }
}
