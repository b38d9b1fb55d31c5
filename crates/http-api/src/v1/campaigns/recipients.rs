//! `/v1/campaigns/{campaign}/recipients`: whom a campaign went to, one by one, and why (not).

use axum::Json;
use axum::body::{Body as FileBody, Bytes};
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::IntoResponse;
use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::Limit;
use tidings_kernel::EmailAddress;
use tidings_outreach::audience::Told;
use tidings_outreach::campaigns::RecipientId;
use tidings_outreach::campaigns::recipients::{self, Export, Filter, Happened, Recipient};
use tidings_outreach::campaigns::results::LookError;
use tidings_outreach::campaigns::sending::{
    self, Settle, SettleError, Settled, Uncertain, UncertainList,
};
use tidings_outreach::campaigns::why::{self, Step, Why};
use utoipa::ToSchema;

use super::{one_wrong, the_campaign, which};
use crate::problem::{Problem, ProblemBody};
use crate::v1::auth::{Manage, Needs, Read, Refusals};
use crate::v1::input::{Body, Fields, FromFields, Listing, Params};
use crate::v1::{ListBody, V1};

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignRecipient)]
pub(in crate::v1) struct RecipientBody {
    #[schema(minimum = 1)]
    id: i64,
    #[schema(minimum = 1)]
    contact_id: i64,
    /// Null once the person is erased
    #[schema(format = Email)]
    email: Option<String>,
    #[schema(value_type = String, pattern = "^(pending|claimed|sent|failed|skipped|uncertain|delivered|bounced|complained)$")]
    status: &'static str,
    #[schema(example = "global_unsubscribe")]
    skip_reason: Option<String>,
    /// The kind of failure
    fail_reason: Option<String>,
    last_error: Option<String>,
    #[schema(minimum = 0)]
    attempts: i64,
    /// The place of the variant that they get, from 0
    #[schema(minimum = 0)]
    variant: Option<i64>,
    provider: Option<String>,
    provider_message_id: Option<String>,
    #[schema(minimum = 0)]
    open_count: i64,
    #[schema(minimum = 0)]
    click_count: i64,
    /// From when they may get it
    #[schema(value_type = Option<String>, format = DateTime)]
    due_at: Option<Timestamp>,
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
    #[schema(value_type = Option<String>, format = DateTime)]
    unsubscribed_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = UncertainRecipient)]
pub(in crate::v1) struct UncertainBody {
    #[schema(minimum = 1)]
    id: i64,
    #[schema(minimum = 1)]
    contact_id: i64,
    /// Null once the person is erased
    #[schema(format = Email)]
    email: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    handed_at: Option<Timestamp>,
    provider: Option<String>,
    last_error: Option<String>,
}

#[derive(ToSchema)]
pub(in crate::v1) struct SettleRecipient {
    /// What became of it. Who is `failed` is tried again by `retry-failed`
    #[schema(value_type = String, pattern = "^(sent|failed)$")]
    outcome: Settled,
    /// How that is known
    #[schema(max_length = 500)]
    reason: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignWhy)]
pub(in crate::v1) struct WhyBody {
    #[schema(format = Email)]
    email: String,
    #[schema(value_type = String, pattern = "^(not_started|not_yet|no_contact|not_meant|added_later|meant_since|waiting|skipped|failed|uncertain|sent)$")]
    answer: &'static str,
    /// The same in words
    told: &'static str,
    /// What happened and what decided, in order
    steps: Vec<StepBody>,
    recipient: Option<RecipientBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CampaignWhyStep)]
pub(in crate::v1) struct StepBody {
    #[schema(value_type = String, example = "eligibility")]
    kind: &'static str,
    /// When it happened; null for what is true now
    #[schema(value_type = Option<String>, format = DateTime)]
    at: Option<Timestamp>,
    /// Whether it speaks for sending or against it; null for what only happened
    speaks_for: Option<bool>,
    told: String,
    /// The condition with all its parts: `clause`, `met`, `fact` and `parts`
    #[schema(value_type = Option<Object>)]
    condition: Option<Told>,
}

/// Which recipients are wanted: the query of the list and of the file.
pub(in crate::v1) struct Wanted(Filter);

pub(in crate::v1) struct Which {
    filter: Filter,
    after: Option<RecipientId>,
    limit: Limit,
}

pub(in crate::v1) struct About(EmailAddress);

/// List the recipients of a campaign
///
/// In the order in which they were written down. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/campaigns/{campaign}/recipients",
    tag = "Campaigns",
    security(("key" = [])),
    params(
        ("campaign" = String, Path, description = "Its id or its key", max_length = 180),
        ("status" = Option<String>, Query, description = "Where they are now", pattern = "^(pending|claimed|sent|failed|skipped|uncertain|delivered|bounced|complained)$"),
        ("skip_reason" = Option<String>, Query, description = "Skipped for this reason", max_length = 100),
        ("fail_reason" = Option<String>, Query, description = "Failed so", max_length = 100),
        ("variant" = Option<i64>, Query, description = "The place of their variant, from 0", minimum = 0, maximum = 9),
        ("happened" = Option<String>, Query, description = "What happened, whatever happened after it: several with `,` between", pattern = "^(opened|clicked|bounced|complained|unsubscribed)(,.*)?$"),
        ("email" = Option<String>, Query, description = "Whoever has this address", format = Email),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of recipients", body = ListBody<RecipientBody>),
        (status = 404, description = "There is no such campaign", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(campaign): Path<String>,
    Params(wanted): Params<Which>,
) -> Result<Json<ListBody<RecipientBody>>, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    let Which { filter, after, limit } = wanted;
    let page = recipients::list(&cx, find, filter, (after, limit)).await?;
    Ok(ListBody::answer(page))
}

/// Give out the recipients of a campaign as a file
///
/// CSV, with the same filters as the list. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/campaigns/{campaign}/recipients.csv",
    tag = "Campaigns",
    security(("key" = [])),
    params(
        ("campaign" = String, Path, description = "Its id or its key", max_length = 180),
        ("status" = Option<String>, Query, description = "Where they are now", pattern = "^(pending|claimed|sent|failed|skipped|uncertain|delivered|bounced|complained)$"),
        ("skip_reason" = Option<String>, Query, description = "Skipped for this reason", max_length = 100),
        ("fail_reason" = Option<String>, Query, description = "Failed so", max_length = 100),
        ("variant" = Option<i64>, Query, description = "The place of their variant, from 0", minimum = 0, maximum = 9),
        ("happened" = Option<String>, Query, description = "What happened, whatever happened after it: several with `,` between", pattern = "^(opened|clicked|bounced|complained|unsubscribed)(,.*)?$"),
        ("email" = Option<String>, Query, description = "Whoever has this address", format = Email)
    ),
    responses(
        (status = 200, description = "The file, piece by piece", content((String = "text/csv"))),
        (status = 404, description = "There is no such campaign", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn file(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(campaign): Path<String>,
    Params(Wanted(filter)): Params<Wanted>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    let mut export = Export::new(cx, find, filter);
    // The first piece tells whether there is such a file at all; later it is too late to say no.
    let first = export.next().await?.unwrap_or_default();
    let rest = stream::unfold(export, |mut export| async move {
        let next = export.next().await.transpose()?;
        Some((next.map(Bytes::from), export))
    });
    let pieces = stream::once(async { Ok(Bytes::from(first)) }).chain(rest);
    Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], FileBody::from_stream(pieces)))
}

/// Explain why somebody got a campaign, or did not
///
/// Everything that is known of it, in its order. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/campaigns/{campaign}/why",
    tag = "Campaigns",
    security(("key" = [])),
    params(
        ("campaign" = String, Path, description = "Its id or its key", max_length = 180),
        ("email" = String, Query, description = "Of whom", format = Email)
    ),
    responses(
        (status = 200, description = "Why (not)", body = WhyBody),
        (status = 404, description = "There is no such campaign", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn explain(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(campaign): Path<String>,
    Params(About(email)): Params<About>,
) -> Result<Json<WhyBody>, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    Ok(Json(why::why(&cx, find, email).await?.into()))
}

/// List those of whom nobody knows whether they got it
///
/// It was handed over for them, and no answer came. They are not sent to again by themselves. The oldest first. Needs the
/// scope `read`.
#[utoipa::path(
    get,
    path = "/v1/campaigns/{campaign}/uncertain",
    tag = "Campaigns",
    security(("key" = [])),
    params(
        ("campaign" = String, Path, description = "Its id or its key", max_length = 180),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of them", body = ListBody<UncertainBody>),
        (status = 404, description = "There is no such campaign", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn uncertain(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(campaign): Path<String>,
    Listing { after, limit }: Listing<RecipientId>,
) -> Result<Json<ListBody<UncertainBody>>, Problem> {
    let cx = v1.cx(&who);
    let campaign = the_campaign(&cx, &campaign, &who).await?.id;
    let page = sending::uncertain(&cx, UncertainList { campaign, after, limit }).await?;
    Ok(ListBody::answer(page))
}

/// Settle a recipient that nobody knows about
///
/// A person says what became of it. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/campaigns/{campaign}/recipients/{recipient_id}/settle",
    tag = "Campaigns",
    security(("key" = [])),
    params(
        ("campaign" = String, Path, description = "Its id or its key", max_length = 180),
        ("recipient_id" = i64, Path, minimum = 1)
    ),
    request_body = SettleRecipient,
    responses(
        (status = 200, description = "It is settled", body = RecipientBody),
        (status = 404, description = "There is no such campaign or recipient", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is not uncertain", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn settle(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path((campaign, recipient)): Path<(String, String)>,
    Body(new): Body<SettleRecipient>,
) -> Result<Json<RecipientBody>, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    let missing = || Problem::not_found("there is no such recipient");
    let id = recipient.parse::<i64>().ok().filter(|id| *id > 0).ok_or_else(missing)?;
    let one = || async {
        let before = (id > 1).then(|| RecipientId::from(id - 1));
        let limit = Limit::try_from(1).unwrap_or_default();
        let page = recipients::list(&cx, find, Filter::default(), (before, limit)).await?;
        let found = page.items.into_iter().next().filter(|found| found.id.get() == id);
        found.ok_or_else(missing)
    };
    one().await?;
    let SettleRecipient { outcome, reason } = new;
    sending::settle(&cx, Settle { recipient: id.into(), outcome, reason }).await?;
    Ok(Json(one().await?.into()))
}

impl FromFields for Wanted {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let state = fields.optional("status");
        let (skip_reason, fail_reason) = (word(fields, "skip_reason"), word(fields, "fail_reason"));
        let arm = match fields.optional::<i64>("variant") {
            Some(Some(place)) if !(0..10).contains(&place) => {
                fields.wrong("variant", "use the place of a variant, from 0")
            }
            place => place,
        };
        let happened = fields.optional::<Several>("happened");
        let email = fields.optional("email");
        Some(Self(Filter {
            state: state?,
            skip_reason: skip_reason?,
            fail_reason: fail_reason?,
            arm: arm?,
            happened: happened?.map_or_else(Vec::new, |Several(all)| all),
            email: email?,
        }))
    }
}

fn word(fields: &mut Fields, name: &'static str) -> Option<Option<String>> {
    match fields.optional::<String>(name)? {
        Some(text) if text.is_empty() || text.len() > 100 || text.contains('\0') => {
            fields.wrong(name, "use 1 to 100 characters")
        }
        text => Some(text),
    }
}

/// Several words in one text.
struct Several(Vec<Happened>);

impl std::str::FromStr for Several {
    type Err = recipients::HappenedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.take(10).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl FromFields for Which {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let wanted = Wanted::from_fields(fields);
        let Listing { after, limit } = Listing::from_fields(fields)?;
        Some(Self { filter: wanted?.0, after, limit })
    }
}

impl FromFields for About {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        fields.required("email").map(Self)
    }
}

impl FromFields for SettleRecipient {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let outcome = match fields.required::<String>("outcome") {
            Some(word) => match word.as_str() {
                "sent" => Some(Settled::Sent),
                "failed" => Some(Settled::NotSent),
                _ => fields.wrong("outcome", "use sent or failed"),
            },
            None => None,
        };
        let reason = fields.optional("reason");
        Some(Self { outcome: outcome?, reason: reason? })
    }
}

impl From<Recipient> for RecipientBody {
    fn from(one: Recipient) -> Self {
        Self {
            id: one.id.get(),
            contact_id: one.contact.get(),
            email: one.email,
            status: one.state.as_str(),
            skip_reason: one.skip_reason,
            fail_reason: one.fail_reason,
            last_error: one.last_error,
            attempts: one.attempts,
            variant: one.arm,
            provider: one.provider,
            provider_message_id: one.provider_message_id,
            open_count: one.opens,
            click_count: one.clicks,
            due_at: one.times.due_at,
            sent_at: one.times.sent_at,
            delivered_at: one.times.delivered_at,
            bounced_at: one.times.bounced_at,
            complained_at: one.times.complained_at,
            first_opened_at: one.times.opened_at,
            first_clicked_at: one.times.clicked_at,
            unsubscribed_at: one.times.unsubscribed_at,
            updated_at: one.times.updated_at,
        }
    }
}

impl From<Uncertain> for UncertainBody {
    fn from(one: Uncertain) -> Self {
        Self {
            id: one.id.get(),
            contact_id: one.contact,
            email: one.email,
            handed_at: one.handed_at,
            provider: one.provider,
            last_error: one.last_error,
        }
    }
}

impl From<Why> for WhyBody {
    fn from(why: Why) -> Self {
        let step = |one: Step| StepBody {
            kind: one.kind.as_str(),
            at: one.at,
            speaks_for: one.speaks_for,
            told: one.told,
            condition: one.condition,
        };
        Self {
            email: why.email.to_string(),
            answer: why.answer.as_str(),
            told: why.answer.in_words(),
            steps: why.steps.into_iter().map(step).collect(),
            recipient: why.recipient.map(Into::into),
        }
    }
}

impl From<LookError> for Problem {
    fn from(error: LookError) -> Self {
        match error {
            LookError::Missing(_) => Self::not_found("there is no such campaign"),
            LookError::Store(error) => error.into(),
        }
    }
}

impl From<SettleError> for Problem {
    fn from(error: SettleError) -> Self {
        match error {
            SettleError::Missing(_) => Self::not_found("there is no such recipient"),
            SettleError::NotUncertain { .. } => Self::conflict(error),
            SettleError::Reason => one_wrong("reason", &error.to_string()),
            SettleError::Store(error) => error.into(),
        }
    }
}
