//! `/v1/broadcasts`: the record of each campaign that has begun, with what came back.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Limit, Page};
use tidings_outreach::campaigns::broadcast::{self, Broadcast, List};
use utoipa::ToSchema;

use crate::problem::{Problem, ProblemBody};
use crate::v1::auth::{Needs, Read, Refusals};
use crate::v1::input::{self, Fields, FromFields, Listing, Params};
use crate::v1::{ListBody, V1};

#[derive(Serialize, ToSchema)]
#[schema(as = Broadcast)]
pub(in crate::v1) struct BroadcastBody {
    /// The key of the campaign
    #[schema(example = "spring-2030")]
    id: String,
    #[schema(minimum = 1)]
    campaign_id: Option<i64>,
    /// Only those who were subscribed to this audience were meant
    audience: Option<String>,
    template_key: Option<String>,
    /// As it was written; of several variants the first
    subject: Option<String>,
    from_email: Option<String>,
    from_name: Option<String>,
    reply_to: Option<String>,
    /// Whom it meant. Of a list of addresses it says how many
    #[schema(value_type = Object)]
    filters: serde_json::Value,
    /// Everybody it meant, those who were skipped too
    #[schema(minimum = 0)]
    audience_size: i64,
    /// When it began
    sent_at: Option<String>,
    #[schema(minimum = 0)]
    deliveries: i64,
    #[schema(minimum = 0)]
    opens: i64,
    #[schema(minimum = 0)]
    clicks: i64,
    #[schema(minimum = 0)]
    bounces: i64,
    #[schema(minimum = 0)]
    complaints: i64,
}

/// A place in the list of broadcasts.
pub(in crate::v1) struct Place(tidings_kernel::Cursor);

impl input::Cursor for Place {
    const LIST: &'static str = "broadcasts";

    fn to_text(&self) -> String {
        self.0.as_str().to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(Self(text.to_owned().into()))
    }
}

pub(in crate::v1) struct Asked {
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    after: Option<Place>,
    limit: Limit,
}

/// List the broadcasts
///
/// The newest first: a record of each campaign that has begun, with what came back so far. A client's key sees that
/// client's. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/broadcasts",
    tag = "Campaigns",
    security(("key" = [])),
    params(
        ("from" = Option<String>, Query, description = "Begun then or later", format = DateTime),
        ("to" = Option<String>, Query, description = "Begun then or before", format = DateTime),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of broadcasts", body = ListBody<BroadcastBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(asked): Params<Asked>,
) -> Result<Json<ListBody<BroadcastBody>>, Problem> {
    let Asked { from, to, after, limit } = asked;
    let limit = usize::try_from(limit.and_one() - 1).unwrap_or(100);
    let client = Some(who.caller().client_id);
    let list = List { client, from, to, limit, after: after.map(|Place(cursor)| cursor) };
    let (items, next) = broadcast::list(&v1.cx(&who), list).await?;
    Ok(ListBody::answer(Page { items, next: next.map(Place) }))
}

/// Show a broadcast
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/broadcasts/{broadcast}",
    tag = "Campaigns",
    security(("key" = [])),
    params(("broadcast" = String, Path, description = "The key of the campaign", max_length = 180)),
    responses(
        (status = 200, description = "The record", body = BroadcastBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(broadcast): Path<String>,
) -> Result<Json<BroadcastBody>, Problem> {
    let found = broadcast::get(&v1.cx(&who), &broadcast, Some(who.caller().client_id)).await?;
    let found = found.ok_or_else(|| Problem::not_found("there is no such broadcast"))?;
    Ok(Json(found.into()))
}

impl FromFields for Asked {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (from, to) = (fields.optional_time("from"), fields.optional_time("to"));
        let Listing { after, limit } = Listing::from_fields(fields)?;
        Some(Self { from: from?, to: to?, after, limit })
    }
}

impl From<Broadcast> for BroadcastBody {
    fn from(broadcast: Broadcast) -> Self {
        let record = broadcast.record();
        Self {
            id: record.id,
            campaign_id: record.campaign_id,
            audience: record.audience,
            template_key: record.template_key,
            subject: record.subject,
            from_email: record.from_email,
            from_name: record.from_name,
            reply_to: record.reply_to,
            filters: record.filters,
            audience_size: record.audience_size,
            sent_at: record.sent_at,
            deliveries: record.deliveries,
            opens: record.opens,
            clicks: record.clicks,
            bounces: record.bounces,
            complaints: record.complaints,
        }
    }
}
