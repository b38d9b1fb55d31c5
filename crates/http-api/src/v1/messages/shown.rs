//! Messages as callers see them.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_delivery::transactional::{
    Accepted, CopyStatus, Found, Happened, LateCopy, Message, Preview,
};
use tidings_signals::queries::Stored;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::v1::eligibility::ExplanationBody;

#[derive(Serialize, ToSchema)]
#[schema(as = AcceptedMessage)]
pub(crate) struct AcceptedBody {
    #[schema(minimum = 1, example = 101)]
    id: i64,
    /// `queued`, or `skipped` if this person must not be written to
    #[schema(value_type = String, example = "queued")]
    status: &'static str,
    /// Why it is skipped
    #[schema(example = "hard_bounce")]
    skip_reason: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    scheduled_at: Option<Timestamp>,
    /// Whether it was there already
    replayed: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = MessageBatchResult)]
pub(crate) struct BatchBody {
    /// In the order of the request
    pub(crate) data: Vec<ResultBody>,
}

/// One of the two is there.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageResult)]
pub(crate) struct ResultBody {
    message: Option<AcceptedBody>,
    /// Why it was not accepted: `status`, `code`, `detail` and `errors` of a problem
    #[schema(value_type = Option<Object>)]
    problem: Option<Value>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = MessagePreview)]
pub(crate) struct PreviewBody {
    /// Whether it would be sent now
    would_deliver: bool,
    decision: ExplanationBody,
    from_email: String,
    from_name: Option<String>,
    reply_to: Option<String>,
    #[schema(minimum = 1)]
    template_version: Option<i64>,
    subject: String,
    html: Option<String>,
    text: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Message)]
pub(crate) struct MessageBody {
    #[schema(minimum = 1, example = 101)]
    id: i64,
    /// Null once the person is erased
    to: Option<String>,
    #[schema(minimum = 1)]
    contact_id: i64,
    #[schema(value_type = String, pattern = "^(queued|claimed|sent|failed|skipped|cancelled|uncertain|delivered|bounced|complained)$")]
    status: &'static str,
    skip_reason: Option<String>,
    last_error: Option<String>,
    idempotency_key: Option<String>,
    template: Option<String>,
    #[schema(minimum = 1)]
    template_version: Option<i64>,
    from_email: Option<String>,
    from_name: Option<String>,
    reply_to: Option<String>,
    subject: Option<String>,
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// The sequence that it is part of
    sequence_id: Option<String>,
    /// How often it was handed to the provider
    #[schema(minimum = 0)]
    attempts: i64,
    provider: Option<String>,
    provider_message_id: Option<String>,
    #[schema(minimum = 0)]
    open_count: i64,
    #[schema(minimum = 0)]
    click_count: i64,
    /// Those to whom the mail server did not give a copy with it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    late_copies: Vec<LateCopyBody>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    scheduled_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    sent_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    delivered_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    bounced_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    complained_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    first_opened_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    first_clicked_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = LateCopy)]
pub(crate) struct LateCopyBody {
    to: String,
    #[schema(value_type = String, pattern = "^(waiting|claimed|sent|failed|skipped|uncertain)$")]
    status: &'static str,
    /// What the mail server said last
    error: Option<String>,
    #[schema(minimum = 1)]
    attempts: u32,
    /// When a copy that waits is tried again
    #[schema(value_type = Option<String>, format = DateTime)]
    tried_again_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = MessageWithBodies)]
pub(crate) struct ShownBody {
    #[serde(flatten)]
    message: MessageBody,
    /// As it was sent; before that, what it will be made from
    html: Option<String>,
    text: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = MessageEvents)]
pub(crate) struct EventsBody {
    data: Vec<EventBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = MessageEvent)]
pub(crate) struct EventBody {
    #[schema(example = "delivered")]
    r#type: String,
    #[schema(value_type = String, format = DateTime)]
    occurred_at: Timestamp,
    reason: Option<String>,
    /// Where a click led
    url: Option<String>,
    /// Whether a person or a machine did it, and why we think so
    #[schema(value_type = Option<Object>)]
    verdict: Option<Value>,
}

impl From<Accepted> for AcceptedBody {
    fn from(accepted: Accepted) -> Self {
        Self {
            id: accepted.id.get(),
            status: accepted.status.as_str(),
            skip_reason: accepted.skip_reason,
            scheduled_at: accepted.scheduled_at,
            replayed: accepted.replayed,
        }
    }
}

impl From<Accepted> for ResultBody {
    fn from(accepted: Accepted) -> Self {
        Self { message: Some(accepted.into()), problem: None }
    }
}

impl From<Problem> for ResultBody {
    fn from(problem: Problem) -> Self {
        Self { message: None, problem: Some(problem.body()) }
    }
}

impl From<Preview> for PreviewBody {
    fn from(preview: Preview) -> Self {
        Self {
            would_deliver: preview.would_deliver(),
            decision: preview.decision.into(),
            from_email: preview.from_email,
            from_name: preview.from_name,
            reply_to: preview.reply_to,
            template_version: preview.template_version,
            subject: preview.rendered.subject,
            html: preview.rendered.html,
            text: preview.rendered.text,
        }
    }
}

impl From<Message> for MessageBody {
    fn from(message: Message) -> Self {
        let times = message.times;
        Self {
            id: message.id.get(),
            to: message.email,
            contact_id: message.contact,
            status: message.status.as_str(),
            skip_reason: message.skip_reason,
            last_error: message.last_error,
            idempotency_key: message.idempotency_key,
            template: message.template_key,
            template_version: message.template_version,
            from_email: message.from_email,
            from_name: message.from_name,
            reply_to: message.reply_to,
            subject: message.subject,
            metadata: message.metadata,
            sequence_id: message.sequence_id,
            attempts: message.attempts,
            provider: message.provider,
            provider_message_id: message.provider_message_id,
            open_count: message.open_count,
            click_count: message.click_count,
            late_copies: message.late_copies.into_iter().map(LateCopyBody::from).collect(),
            created_at: times.created_at,
            updated_at: times.updated_at,
            scheduled_at: times.scheduled_at,
            sent_at: times.sent_at,
            delivered_at: times.delivered_at,
            bounced_at: times.bounced_at,
            complained_at: times.complained_at,
            first_opened_at: times.first_opened_at,
            first_clicked_at: times.first_clicked_at,
        }
    }
}

impl From<LateCopy> for LateCopyBody {
    fn from(copy: LateCopy) -> Self {
        Self {
            to: copy.to,
            status: copy.status.as_str(),
            error: copy.error,
            attempts: copy.attempts,
            tried_again_at: copy.until.filter(|_| copy.status == CopyStatus::Waiting),
        }
    }
}

impl From<Found> for ShownBody {
    fn from(found: Found) -> Self {
        Self { message: found.message.into(), html: found.html, text: found.text }
    }
}

impl EventsBody {
    pub(crate) fn new(happened: Vec<Happened>, events: Vec<Stored>) -> Self {
        let known = happened.into_iter().map(|one| EventBody {
            r#type: one.kind.to_owned(),
            occurred_at: one.at,
            reason: one.reason,
            url: None,
            verdict: None,
        });
        let recorded = events.into_iter().map(|one| EventBody {
            r#type: one.kind,
            occurred_at: one.occurred_at,
            reason: one.reason.or(one.bounce_subtype).or(one.feedback_type),
            url: one.url,
            verdict: one.verdict,
        });
        let mut data: Vec<_> = known.chain(recorded).collect();
        data.sort_by_key(|one| one.occurred_at);
        Self { data }
    }
}
