//! What a step does: a mail, tags, attributes, telling others. Each can be done again without doing more. Tags and attributes
//! are not: they are changed in the transaction that takes the walk further (`Acted::Edits`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use tidings_access::{Cx, StorageError};
use tidings_delivery::transactional::{AcceptError, Lines, PartKind, PartOf, Send, Status};
use tidings_inbox::keys::UserId;
use tidings_inbox::publish::{NewPost, PublishError, To};
use tidings_people::contacts::{self, Attributes, Edit, Tag, TagChange};
use tidings_webhooks::{Announcement, EventType};

use super::super::{Execution, skips};
use super::Tools;
use crate::definition::{Definition, InboxMessage, Mails, Setting, Wait};
use crate::definition::{Op, Program};

/// How long a walk waits for another worker that does the same.
const A_MOMENT: Duration = Duration::from_secs(2);

pub(super) enum Acted {
    Done {
        next: usize,
    },
    /// A mail that is not sent, for a reason that its row has.
    NotSent {
        next: usize,
    },
    /// An inbox message for somebody who has no inbox.
    Skipped {
        next: usize,
    },
    /// It is not the time for it yet.
    Later {
        until: Timestamp,
    },
    NotNow(String, Duration),
    /// The person is another one afterwards. Somebody may change the same after us, so it happens together with the step, once.
    Edits {
        edit: Edit,
        next: usize,
    },
    /// It could not be done, and perhaps never can.
    Refused(String),
}

pub(super) async fn act(
    tools: &Tools,
    cx: &Cx,
    program: &Program,
    execution: &Execution,
) -> Result<Acted, StorageError> {
    let Some(place) = program.places.get(execution.at) else {
        return Ok(Acted::Done { next: program.end() });
    };
    match &place.op {
        Op::Send { mails, next } => send(tools, cx, program, (execution, mails), *next).await,
        Op::Tag { add, remove, next } => {
            let all = |tags: &[Tag]| -> BTreeSet<Tag> { tags.iter().cloned().collect() };
            let tags = Some(TagChange::AddAndRemove(all(add), all(remove)));
            Ok(Acted::Edits { edit: Edit { tags, ..Edit::default() }, next: *next })
        }
        Op::Set { values, next } => {
            let attributes = match Attributes::parse(settings(values, &execution.input)) {
                Ok(attributes) => attributes,
                Err(faults) => {
                    let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
                    return Ok(Acted::Refused(told.join("; ")));
                }
            };
            Ok(Acted::Edits { edit: Edit { attributes, ..Edit::default() }, next: *next })
        }
        Op::Inbox { message, next } => post(tools, cx, program, (execution, message), *next).await,
        Op::Webhook { event, data, next } => {
            tell(cx, execution, event, settings(data, &execution.input)).await?;
            Ok(Acted::Done { next: *next })
        }
        Op::Wait { next, .. }
        | Op::WaitFor { late: next, .. }
        | Op::Choice { default: next, .. }
        | Op::Check { no: next, .. } => Ok(Acted::Done { next: *next }),
        Op::Exit { .. } => Ok(Acted::Done { next: program.end() }),
    }
}

/// Until when the step waits.
pub(super) async fn rest(
    cx: &Cx,
    program: &Program,
    execution: &Execution,
) -> Result<Timestamp, StorageError> {
    let Some(Op::Wait { wait, .. }) = program.places.get(execution.at).map(|place| &place.op)
    else {
        return Ok(cx.now());
    };
    let zone = match wait {
        Wait::For(_) => None,
        Wait::Until { .. } => zone(cx, execution).await?,
    };
    // From when he came to the step: a worker that is late makes no wait longer.
    Ok(wait.ends(execution.since, zone.as_ref()))
}

async fn zone(cx: &Cx, execution: &Execution) -> Result<Option<TimeZone>, StorageError> {
    let named = contacts::timezone(cx, &execution.email).await?;
    Ok(named.and_then(|name| TimeZone::get(&name).ok()))
}

async fn send(
    tools: &Tools,
    cx: &Cx,
    program: &Program,
    (execution, mails): (&Execution, &Mails),
    next: usize,
) -> Result<Acted, StorageError> {
    let definition = &program.definition;
    if let Some(window) = &definition.window {
        let zone = zone(cx, execution).await?;
        if let Some(until) = window.opens(cx.now(), zone.as_ref()) {
            return Ok(Acted::Later { until });
        }
    }
    let Some(client) = tools.versions.client(cx, definition.client.as_str()).await? else {
        return Ok(Acted::Refused(format!("there is no client {}", definition.client)));
    };
    let (mail, _) = mails.of(&execution.email, &definition.id);
    let mut send =
        Send::of_template(client, execution.email.clone(), mail.template.as_str().to_owned());
    send.idempotency_key = Some(format!("sequence/{}/{}", execution.id, execution.at));
    send.sender.clone_from(&definition.sender);
    send.topic.clone_from(&definition.topic);
    send.lines = Lines { subject: mail.subject.clone(), preheader: None };
    send.context = context(&execution.input);
    let step = Some(skips::named(execution));
    send.part_of = Some(PartOf { step, ..part_of(definition, Some(execution.id.as_str())) });
    // What is put off once it is written down goes when that is over, whatever the window says then: so it is asked before.
    if definition.window.is_some()
        && let Some(until) = put_off(tools, cx, &send).await?
    {
        return Ok(Acted::Later { until });
    }
    match tools.messages.accept(cx, send).await {
        // That is counted when the message tells of it (`skips`), as it is if that turns out later.
        Ok(accepted) if accepted.status == Status::Skipped => Ok(Acted::NotSent { next }),
        Ok(_) => Ok(Acted::Done { next }),
        Err(AcceptError::Store(error)) => Err(error),
        Err(AcceptError::InFlight) => {
            let reason = format!("another worker sends the mail of execution {}", execution.id);
            Ok(Acted::NotNow(reason, A_MOMENT))
        }
        // The same step with another content: what was accepted first is what is sent.
        Err(AcceptError::KeyReused(_)) => Ok(Acted::Done { next }),
        Err(
            error @ (AcceptError::Invalid(_)
            | AcceptError::NoTemplate(_)
            | AcceptError::NoVersion(..)
            | AcceptError::BatchSize),
        ) => Ok(Acted::Refused(error.to_string())),
    }
}

/// Until when quiet hours or a cap put a mail off. What is wrong with it is told when it is to be written down.
async fn put_off(tools: &Tools, cx: &Cx, send: &Send) -> Result<Option<Timestamp>, StorageError> {
    match tools.messages.dry_run(cx, send).await {
        Ok(preview) => Ok(preview.decision.verdict.until()),
        Err(AcceptError::Store(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

pub(crate) fn part_of(definition: &Definition, execution: Option<&str>) -> PartOf {
    PartOf {
        sequence: definition.id.to_string(),
        execution: execution.map(ToOwned::to_owned),
        step: None,
        kind: if definition.transactional { PartKind::Transactional } else { PartKind::Marketing },
        audience: definition.audience.clone(),
    }
}

/// What the event said can be said in the mail.
pub(crate) fn context(input: &Value) -> Map<String, Value> {
    match input {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    }
}

/// Puts a message into his inbox. Somebody whom no app calls by an id has none, and goes on without it.
async fn post(
    tools: &Tools,
    cx: &Cx,
    program: &Program,
    (execution, message): (&Execution, &InboxMessage),
    next: usize,
) -> Result<Acted, StorageError> {
    let known = contacts::user_ids(cx, &execution.email).await?;
    let Some(uid) = known.into_iter().find(|id| id.parse::<UserId>().is_ok()) else {
        tracing::info!(
            execution.id = %execution.id,
            "Execution {} goes on without its inbox message: nobody has told a user id",
            execution.id
        );
        return Ok(Acted::Skipped { next });
    };
    let data = &execution.input;
    let new = NewPost {
        to: To::Users(vec![uid]),
        label: None,
        category: message.category.as_ref().map(ToString::to_string),
        title: message.title(data),
        body: message.body(data),
        cta_uri: message.cta_uri(data),
        host_system_id: Some(format!("sequence/{}/{}", execution.id, execution.at)),
        send_at: None,
        expires_in: message.expires_in.map(|ttl| ttl.to_string()),
        sender: program.definition.client.to_string(),
    };
    match tools.inbox.publish(cx, &message.inbox, new).await {
        Ok(_) => Ok(Acted::Done { next }),
        // He was called otherwise when it was tried before: what was published first is what he has.
        Err(PublishError::OtherRequest(_)) => Ok(Acted::Done { next }),
        Err(PublishError::Store(error)) => Err(error),
        Err(PublishError::Busy) => {
            let reason = format!("the inbox of execution {} is busy", execution.id);
            Ok(Acted::NotNow(reason, A_MOMENT))
        }
        Err(error @ (PublishError::Invalid(_) | PublishError::Full)) => {
            Ok(Acted::Refused(error.to_string()))
        }
    }
}

pub(crate) fn settings(values: &BTreeMap<String, Setting>, input: &Value) -> Map<String, Value> {
    let value = |setting: &Setting| setting.value(input).cloned().unwrap_or_default();
    values.iter().map(|(name, setting)| (name.clone(), value(setting))).collect()
}

async fn tell(
    cx: &Cx,
    execution: &Execution,
    event: &str,
    data: Map<String, Value>,
) -> Result<(), StorageError> {
    let told = json!({
        "email": execution.email.as_str(),
        "sequence_id": execution.sequence,
        "execution_id": execution.id.as_str(),
        "step": execution.step,
        "event": event,
        "data": data,
    });
    let Value::Object(data) = told else { return Ok(()) };
    let announcement = Announcement {
        event_id: format!("{}/{}", execution.id, execution.at),
        event_type: EventType::SequenceStep,
        occurred_at: execution.since,
        data,
    };
    let within = cx.clone();
    let tell = cx
        .database()
        .write_committed(move |tx| tidings_webhooks::announce(&within, tx, &announcement));
    Ok(tell.await?)
}
