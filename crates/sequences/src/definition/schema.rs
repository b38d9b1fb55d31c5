//! The form of a definition's file as a JSON Schema, so that editors can help those who write one.
//!
//! It says what can be written and not all that is wrong: names that are there twice, a branch too deep, a client that
//! there is not are found by `read` and when it is applied.

use serde_json::{Map, Value, json};
use tidings_outreach::audience::Test;

use super::read::{
    KINDS, MAX_BRANCHES, MAX_CLAUSES, MAX_EVENTS, MAX_EXITS, MAX_STEPS, MAX_VARIANTS,
};

const SLUG: &str = "^[a-z0-9][a-z0-9-]{0,39}$";
const TEMPLATE: &str = "^[a-z0-9_-]+(/[a-z0-9_-]+)*$";
/// Looser than what is read: not every validator knows what a letter is beyond ASCII.
const EVENT: &str = "^\\S(.*\\S)?$";
const PATH: &str = "^\\$";
const TIME: &str = "^([01]?[0-9]|2[0-3]):[0-5][0-9]$";
const ATTRIBUTE: &str = "^[A-Za-z][A-Za-z0-9_]{0,63}$";

/// JSON Schema 2020-12.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A sequence",
        "description": "Mails that go out by themselves, one step after the other, to whoever something happened to",
        "type": "object",
        "additionalProperties": false,
        "required": ["id", "client", "steps"],
        "properties": whole(),
        "$defs": definitions(),
    })
}

fn whole() -> Value {
    json!({
        "$schema": { "type": "string", "description": "Where this schema is, for editors. It is not kept" },
        "id": described("slug", "The name of the sequence. It stays, whatever the file is called"),
        "name": { "type": "string", "minLength": 1, "maxLength": 100, "description": "What people call it" },
        "description": { "type": "string", "minLength": 1, "maxLength": 1000, "description": "What it is for" },
        "client": described("slug", "On whose behalf its mails go out"),
        "sender": described("slug", "One of the client's senders. Else the template's, else the client's default"),
        "transactional": {
            "type": "boolean",
            "default": false,
            "description": "Its mails go to those who have unsubscribed, too. Nothing goes past a suppression",
        },
        "audience": described("slug", "The audience that its mails are part of. Not of a transactional sequence"),
        "topic": described("slug", "The topic that its mails are about. Not of a transactional sequence"),
        "trigger": {
            "type": "object",
            "description": "The event with which people come in. Without one they are entered by hand only",
            "additionalProperties": false,
            "required": ["event"],
            "properties": { "event": to("event"), "map": to("map"), "filter": to("filter") },
        },
        "timeout": described("duration", "Whoever is not at the end by then is taken out as failed. 1 year unless said, 10 years at most"),
        "reentry": {
            "description": "What becomes of somebody who is in the sequence, or was, when the trigger comes again: restart (he begins anew), ignore (he goes on where he is), or after so long",
            "default": "restart",
            "oneOf": [
                { "enum": ["restart", "ignore"] },
                {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["after"],
                    "properties": { "after": described("duration", "Nobody comes in again before this long after he came in last") },
                },
            ],
        },
        "window": {
            "type": "object",
            "description": "Mails go out within it only, by the clock where the person is. It may go over midnight",
            "additionalProperties": false,
            "required": ["from", "until"],
            "properties": {
                "days": {
                    "type": "array", "minItems": 1, "items": to("weekday"),
                    "description": "The days on which it opens. Every day unless said",
                },
                "from": described("time", "When it opens"),
                "until": described("time", "When it closes. The same as from is the whole day"),
                "zone": to("zone"),
            },
        },
        "exitOn": {
            "type": "array",
            "maxItems": MAX_EXITS,
            "description": "The events that take a person out",
            "items": { "oneOf": [to("event"), exit_event()] },
        },
        "events": {
            "type": "array",
            "maxItems": MAX_EVENTS,
            "description": "Mails that an event sends by itself, whether or not the person is in the sequence",
            "items": one_off(),
        },
        "steps": {
            "type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": to("step"),
            "description": "What happens, one after the other",
        },
    })
}

fn exit_event() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["event"],
        "properties": {
            "event": to("event"),
            "map": {
                "type": "object",
                "additionalProperties": false,
                "properties": { "email": described("path", "Where the address is. The event's own unless said") },
            },
            "filter": to("filter"),
        },
    })
}

fn one_off() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["event", "send"],
        "properties": {
            "event": to("event"),
            "send": to("template"),
            "subject": to("subject"),
            "map": to("map"),
            "filter": to("filter"),
        },
    })
}

fn definitions() -> Value {
    let mut all = words();
    let steps = [
        ("send", send()),
        ("wait", wait()),
        ("wait_for", wait_for()),
        ("choice", choice()),
        ("condition", condition()),
        ("tag", tag()),
        (
            "set",
            one_key(
                "set",
                &described("settings", "Attributes of the person. A null takes one away"),
            ),
        ),
        ("inbox", inbox()),
        ("webhook", webhook()),
        ("exit", exit()),
    ];
    let kinds: Vec<_> = KINDS.iter().map(|name| to(&format!("{name}_step"))).collect();
    for (name, step) in steps {
        all.insert(format!("{name}_step"), step);
    }
    all.insert(
        "step".to_owned(),
        json!({ "description": "One thing that is done", "oneOf": kinds }),
    );
    all.insert(
        "steps".to_owned(),
        json!({ "type": "array", "maxItems": MAX_STEPS, "items": to("step") }),
    );
    Value::Object(all)
}

fn words() -> Map<String, Value> {
    let text = |pattern: &str, description: &str| json!({ "type": "string", "pattern": pattern, "description": description });
    let count = json!({ "type": "integer", "minimum": 0 });
    let tests: Map<String, Value> =
        Test::NAMES.iter().map(|name| ((*name).to_owned(), test(name))).collect();
    let mut clause = json!({ "path": to("path") });
    if let Value::Object(fields) = &mut clause {
        fields.extend(tests);
    }
    let all = json!({
        "slug": text(SLUG, "1 to 40 lower-case letters, digits and hyphens"),
        "template": text(TEMPLATE, "The key of a template, such as onboarding/welcome"),
        "subject": { "type": "string", "minLength": 1, "maxLength": 500, "description": "In place of the template's own" },
        "event": {
            "type": "string", "pattern": EVENT, "maxLength": 100,
            "description": "The name of an event, such as user.signed_up",
        },
        "path": text(PATH, "A place in the data of the event, such as $.user.plan or $.items[0].sku"),
        "time": text(TIME, "A time of the day, such as \"09:00\""),
        "zone": { "type": "string", "default": "UTC", "description": "A zone such as Europe/Berlin, for those of whom none is known" },
        "weekday": {
            "enum": ["mon", "tue", "wed", "thu", "fri", "sat", "sun", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
        },
        "id": { "type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_.-]{0,99}$", "description": "A name for the step that stays when others come before it" },
        "duration": {
            "description": "How long, such as 2 days, or 2 days 4 hours",
            "oneOf": [
                { "type": "string", "pattern": "^\\s*[0-9]+\\s*[A-Za-z]+(\\s*[0-9]+\\s*[A-Za-z]+)*\\s*$" },
                {
                    "type": "object",
                    "additionalProperties": false,
                    "minProperties": 1,
                    "properties": { "weeks": count, "days": count, "hours": count, "minutes": count },
                },
            ],
        },
        "map": {
            "type": "object",
            "description": "Where the event has what is known of its person",
            "additionalProperties": false,
            "properties": {
                "email": described("path", "His address. The event's own unless said"),
                "firstName": described("path", "His first name"),
                "attributes": {
                    "description": "His attributes: the path of an object, or a path for each of them",
                    "oneOf": [
                        to("path"),
                        { "type": "object", "propertyNames": { "pattern": ATTRIBUTE }, "additionalProperties": to("path") },
                    ],
                },
            },
        },
        "filter": {
            "type": "array",
            "maxItems": MAX_CLAUSES,
            "description": "What the data of the event has to be like. All of it has to hold",
            "items": {
                "type": "object",
                "additionalProperties": false,
                "required": ["path"],
                "minProperties": 2,
                "properties": clause,
            },
        },
        "scalar": { "type": ["string", "number", "boolean"] },
        "settings": {
            "type": "object",
            "description": "Values by name. $.plan is what the trigger's data has there, and $$.plan the text $.plan",
        },
    });
    if let Value::Object(all) = all { all } else { Map::new() }
}

fn test(name: &str) -> Value {
    match name {
        "in" => json!({ "type": "array", "minItems": 1, "maxItems": 200, "items": to("scalar") }),
        "exists" => json!({ "type": "boolean" }),
        "equals" | "not_equals" | "contains" => to("scalar"),
        _ => json!({ "type": ["string", "number"] }),
    }
}

fn send() -> Value {
    let variant = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["template"],
        "properties": { "template": to("template"), "subject": to("subject") },
    });
    let variants = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["variants"],
        "properties": { "variants": { "type": "array", "minItems": 2, "maxItems": MAX_VARIANTS, "items": variant } },
    });
    step(
        "Sends a mail, or one of several variants: a person gets the same one in all steps",
        &["send"],
        json!({ "send": { "oneOf": [to("template"), variants] }, "subject": to("subject") }),
    )
}

fn wait() -> Value {
    let until = json!({
        "type": "object",
        "description": "Until the next time that it is so where the person is",
        "additionalProperties": false,
        "required": ["until"],
        "properties": { "until": to("time"), "weekday": to("weekday"), "zone": to("zone") },
    });
    step(
        "Waits: from 1 minute to 5 years, or until a time of the day",
        &["wait"],
        json!({ "wait": { "oneOf": [to("duration"), until] } }),
    )
}

fn wait_for() -> Value {
    step(
        "Waits for an event of the person",
        &["wait_for", "timeout"],
        json!({
            "wait_for": to("event"),
            "filter": to("filter"),
            "timeout": described("duration", "So long at most"),
            "then": described("steps", "When it came in time"),
            "else": described("steps", "When it did not"),
        }),
    )
}

fn choice() -> Value {
    let branch = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["value"],
        "properties": { "value": to("scalar"), "steps": to("steps") },
    });
    step(
        "Chooses by what the trigger's data says",
        &["choice", "branches"],
        json!({
            "choice": to("path"),
            "branches": { "type": "array", "minItems": 1, "maxItems": MAX_BRANCHES, "items": branch },
            "default": described("steps", "When it is none of these values, or is not there"),
        }),
    )
}

fn condition() -> Value {
    let equals = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["field", "value"],
        "properties": { "field": { "type": "string" }, "value": to("scalar") },
    });
    let check = json!({
        "type": "object",
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {
            "has_been_sent": described("template", "This template was sent to him"),
            "has_opened": described("template", "He has opened a mail of this template"),
            "has_clicked": described("template", "He has clicked in a mail of this template"),
            "subscriber_field_exists": { "type": "string", "description": "This field is known of him" },
            "subscriber_field_equals": equals,
            "in_audience": described("slug", "He is subscribed to this audience"),
            "matches": { "type": "object", "description": "A condition as campaigns have it, such as {tag: beta} or {all: [...]}" },
        },
    });
    let mut step = step(
        "Asks what is known of the person now",
        &["condition"],
        json!({
            "condition": check,
            "then": described("steps", "When it is so"),
            "else": described("steps", "When it is not"),
        }),
    );
    step["anyOf"] = json!([{ "required": ["then"] }, { "required": ["else"] }]);
    step
}

fn tag() -> Value {
    let tags = json!({ "type": "array", "minItems": 1, "maxItems": 45, "items": { "type": "string", "minLength": 1 } });
    let change = json!({
        "type": "object",
        "description": "Marks the person, or takes marks away",
        "additionalProperties": false,
        "minProperties": 1,
        "properties": { "add": tags, "remove": tags },
    });
    one_key("tag", &change)
}

fn inbox() -> Value {
    let text = |most: usize, description: &str| json!({ "type": "string", "minLength": 1, "maxLength": most, "description": description });
    let message = json!({
        "type": "object",
        "description": "Puts a message into the inbox inside an app. Who has no user id is passed over",
        "additionalProperties": false,
        "required": ["inbox", "title"],
        "properties": {
            "inbox": text(128, "Which inbox, such as app"),
            "title": text(200, "What it is called. $.plan is what the trigger's data has there"),
            "body": { "description": "What it says: a text, or any JSON that the app understands. Directly under a name $.plan is what the trigger's data has there" },
            "cta_uri": text(2048, "Where it leads: an address, a path, or an address of an app"),
            "category": { "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$", "description": "What kind of message it is" },
            "expires_in": { "type": "string", "pattern": "^[0-9]+[dms]$", "description": "How long it lives: days, minutes or seconds, such as 30d" },
        },
    });
    one_key("inbox", &message)
}

fn webhook() -> Value {
    let webhook = json!({
        "type": "object",
        "description": "Tells the endpoints of the workspace's webhooks",
        "additionalProperties": false,
        "required": ["event"],
        "properties": { "event": to("event"), "data": to("settings") },
    });
    one_key("webhook", &webhook)
}

fn exit() -> Value {
    let reason = json!({
        "description": "Ends it here, for a reason or for none",
        "oneOf": [
            { "type": "string", "minLength": 1, "maxLength": 200 },
            { "type": "object", "maxProperties": 0 },
            { "type": "null" },
        ],
    });
    one_key("exit", &reason)
}

fn one_key(name: &str, value: &Value) -> Value {
    let description = value["description"].clone();
    step(description.as_str().unwrap_or_default(), &[name], json!({ name: value }))
}

fn step(description: &str, required: &[&str], mut properties: Value) -> Value {
    properties["id"] = to("id");
    json!({
        "type": "object",
        "description": description,
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn to(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn described(name: &str, description: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}"), "description": description })
}
