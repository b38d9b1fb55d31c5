//! `/v1/stats`: the numbers of messages by day, by template and by sequence.

use axum::Json;
use axum::extract::{Path, State};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use tidings_signals::events::Counts;
use tidings_signals::queries::{self, StatsError};
use utoipa::ToSchema;

use super::V1;
use super::auth::{Needs, Read, Refusals};
use super::events::Name;
use super::input::{Fields, FromFields, Params};
use crate::problem::{Problem, ProblemBody, Violation};

/// Each number apart: totals count every event, uniques count each message once.
#[derive(Serialize, ToSchema)]
#[schema(as = Counts)]
pub(super) struct CountsBody {
    /// Messages that a provider has taken, whichever it is
    sends: i64,
    deliveries: i64,
    opens: i64,
    /// Messages that were opened, however often
    unique_opens: i64,
    /// Opens that a person made, as far as can be told
    human_opens: i64,
    unique_human_opens: i64,
    clicks: i64,
    unique_clicks: i64,
    human_clicks: i64,
    unique_human_clicks: i64,
    bounces: i64,
    hard_bounces: i64,
    soft_bounces: i64,
    complaints: i64,
    /// Messages that a person took out of the spam
    not_spam: i64,
    replies: i64,
    /// Absence notes and their like, which are no replies
    auto_replies: i64,
    unsubscribes: i64,
    rejects: i64,
    delays: i64,
    rendering_failures: i64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryStats)]
pub(super) struct DeliveriesBody {
    #[schema(value_type = String, format = Date)]
    from: Date,
    #[schema(value_type = String, format = Date)]
    to: Date,
    total: CountsBody,
    days: Vec<DayBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = DayStats)]
pub(super) struct DayBody {
    #[schema(value_type = String, format = Date)]
    day: Date,
    counts: CountsBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplateStats)]
pub(super) struct TemplateBody {
    template_key: String,
    counts: CountsBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SequenceStats)]
pub(super) struct SequenceBody {
    sequence_id: String,
    counts: CountsBody,
}

pub(super) struct Range {
    from: Option<Date>,
    to: Option<Date>,
}

struct Day(Date);

impl std::str::FromStr for Day {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = text.len() == "2030-01-31".len();
        let day = text.parse().ok().filter(|_| plain);
        day.map(Self).ok_or("use a day such as 2030-01-31")
    }
}

impl FromFields for Range {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let from = fields.optional::<Day>("from");
        let to = fields.optional::<Day>("to");
        Some(Self { from: from?.map(|Day(day)| day), to: to?.map(|Day(day)| day) })
    }
}

pub(super) struct OfTemplate(String);

impl FromFields for OfTemplate {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        fields.required::<Name>("key").map(|Name(key)| Self(key))
    }
}

/// Show the numbers of a range of days
///
/// Day by day in UTC, and their sum. Without `to` the range ends today, without `from` it has 30 days; 366 at most. Needs
/// the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/stats/deliveries",
    tag = "Events",
    security(("key" = [])),
    params(
        ("from" = Option<String>, Query, description = "The first day", format = Date),
        ("to" = Option<String>, Query, description = "The last day", format = Date)
    ),
    responses(
        (status = 200, description = "The numbers", body = DeliveriesBody),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn deliveries(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(range): Params<Range>,
) -> Result<Json<DeliveriesBody>, Problem> {
    let cx = v1.cx(&who);
    let to = range.to.unwrap_or_else(|| cx.now().to_zoned(TimeZone::UTC).date());
    let month = jiff::Span::new().days(29);
    let from = range.from.unwrap_or_else(|| to.saturating_sub(month));
    let days = queries::days(&cx, from, to).await?;
    let mut total = Counts::default();
    for (_, counts) in &days {
        total.add(counts.clone());
    }
    let days = days.into_iter().map(|(day, counts)| DayBody { day, counts: counts.into() });
    Ok(Json(DeliveriesBody { from, to, total: total.into(), days: days.collect() }))
}

/// Show the numbers of a template
///
/// Of all its versions together; noughts if nothing was counted. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/stats/templates",
    tag = "Events",
    security(("key" = [])),
    params(("key" = String, Query, description = "The key of the template", max_length = 255)),
    responses(
        (status = 200, description = "The numbers", body = TemplateBody),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn template(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(OfTemplate(key)): Params<OfTemplate>,
) -> Result<Json<TemplateBody>, Problem> {
    let cx = v1.cx(&who);
    let counts = queries::template(&cx, &key).await?.unwrap_or_default();
    Ok(Json(TemplateBody { template_key: key, counts: counts.into() }))
}

/// Show the numbers of a sequence or a campaign
///
/// A campaign is asked for by its key. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/stats/sequences/{sequence_id}",
    tag = "Events",
    security(("key" = [])),
    params(("sequence_id" = String, Path, description = "The id of the sequence, or the key of the campaign", max_length = 255)),
    responses(
        (status = 200, description = "The numbers", body = SequenceBody),
        (status = 404, description = "Nothing was counted under this id", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn sequence(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(sequence_id): Path<String>,
) -> Result<Json<SequenceBody>, Problem> {
    let cx = v1.cx(&who);
    let missing = || Problem::not_found("nothing was counted under this id");
    let Name(id) = sequence_id.parse().map_err(|_| missing())?;
    let counts = queries::sequence(&cx, &id).await?.ok_or_else(missing)?;
    Ok(Json(SequenceBody { sequence_id: id, counts: counts.into() }))
}

impl From<StatsError> for Problem {
    fn from(error: StatsError) -> Self {
        match error {
            StatsError::Backwards | StatsError::TooLong => Self::invalid(vec![Violation {
                field: "to".to_owned(),
                message: error.to_string(),
            }]),
            StatsError::Store(error) => error.into(),
        }
    }
}

impl From<Counts> for CountsBody {
    fn from(counts: Counts) -> Self {
        Self {
            sends: counts.send_count,
            deliveries: counts.delivery_count,
            opens: counts.open_count,
            unique_opens: counts.unique_open_count,
            human_opens: counts.human_open_count,
            unique_human_opens: counts.unique_human_open_count,
            clicks: counts.click_count,
            unique_clicks: counts.unique_click_count,
            human_clicks: counts.human_click_count,
            unique_human_clicks: counts.unique_human_click_count,
            bounces: counts.bounce_count,
            hard_bounces: counts.hard_bounce_count,
            soft_bounces: counts.soft_bounce_count,
            complaints: counts.complaint_count,
            not_spam: counts.not_spam_count,
            replies: counts.reply_count,
            auto_replies: counts.auto_reply_count,
            unsubscribes: counts.unsubscribe_count,
            rejects: counts.reject_count,
            delays: counts.delay_count,
            rendering_failures: counts.rendering_failure_count,
        }
    }
}
