//! The page about the contracts, `docs/contracts/README.md`.

use crate::contracts::{ALL, Field, Kind, MAX_BODY_BYTES, Presence, Shape};

const OPENING: &str = "\
# Queue contracts

<!-- Written by `TIDINGS_TEST_REFRESH=1 cargo test -p tidings-jobs documents` from crates/jobs/src/contracts. -->

Every message in a queue is an envelope: a JSON object with the name of its `contract`, the integer `version`, and the
fields of that contract. It carries stable ids and where to route it, never state that can change: who handles a
message loads that. Messages come at least once, so handling one twice must do what handling it once does.

- A body that is not JSON, names another contract or version, or breaks the rule of a field fails that message alone,
  and all that is wrong is told at once: the field, what it must be, and what was found, but never the value.
- An optional field may be missing or `null`. Fields that the contract does not know are passed over.
";

const RULES: &str = "\
- A positive integer goes up to 9223372036854775807 and is written without a decimal point: 7.0 is none. (JSON Schema
  cannot tell the two apart; that is the only value on which the schemas here are more lenient.)
- A timestamp is ISO-8601 in the form of RFC 3339: date, `T`, time with seconds, at most nine decimals, `Z` or an offset.
- Characters are counted as Unicode code points.
";

const SNS: &str = "
The queue also takes the Notification envelope of SNS around an event of SES, and makes this contract of it:
`provider_event_id` is the `MessageId` of SNS, `notification_type` the `eventType` or `notificationType` in lower case,
`ses_message_id` is `mail.messageId`, and `metadata` holds what the event says, as far as it says it: `mail_timestamp`,
`event_timestamp`, `recipients` (those whom it happened to, each with `email`, `status`, `diagnostic`), `destination` (all
whom the mail went to), `bounce_type`, `bounce_subtype`, `feedback_type`, `feedback_id`, `reject_reason`, `url`,
`user_agent`, and of `tags` those that we gave: `workspace` and `message`. A text has at most 1024 characters, a list at
most 50 entries. Raw message delivery must be off, for it drops the `MessageId`.
";

pub(super) fn page() -> String {
    let mut page = OPENING.to_owned();
    page += &format!("- A body has at most {MAX_BODY_BYTES} bytes.\n");
    page += RULES;
    page += "\n| contract | queues | what it asks for |\n|---|---|---|\n";
    for shape in ALL {
        let Shape { name, version, doc, queues, .. } = shape;
        let queues = queues.iter().map(|queue| format!("`{queue}`")).collect::<Vec<_>>().join(", ");
        page += &format!("| [`{name}` v{version}]({name}.v{version}.json) | {queues} | {doc} |\n");
    }
    for shape in ALL {
        page += &section(shape);
    }
    page
}

fn section(shape: &Shape) -> String {
    let mut section = format!("\n## {} v{}\n\n", shape.name, shape.version);
    section += "| field | presence | what it must be | what it means |\n|---|---|---|---|\n";
    for field in shape.fields {
        section += &row("", field);
        if let Kind::Array { of: Kind::Object(fields), .. } = field.kind {
            for inside in *fields {
                section += &row(&format!("{}[].", field.name), inside);
            }
        }
    }
    if shape.name == "ses-webhooks" {
        section += SNS;
    }
    section
}

fn row(path: &str, field: &Field) -> String {
    let presence = match field.presence {
        Presence::Required => "required",
        Presence::Optional => "optional",
    };
    format!("| `{path}{}` | {presence} | {} | {} |\n", field.name, field.kind, field.doc)
}
