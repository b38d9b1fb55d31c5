//! `/v1/segments`: saved conditions whose members are kept up as things happen.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_access::{DisplayName, Slug};
use tidings_leads::identity::{Whom, find};
use tidings_outreach::audience::Told;
use tidings_outreach::segments::{
    self, Change, FindError, Member, Put, PutError, Segment, State as Building, Why,
};
use tidings_people::contacts::ContactId;
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::contacts::identity::meant;
use super::input::{Body, Cursor, Fields, FromFields, Listing, Params};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

#[derive(Serialize, ToSchema)]
#[schema(as = Segment)]
pub(super) struct SegmentBody {
    id: i64,
    slug: String,
    name: String,
    /// See docs/campaigns.md
    #[schema(value_type = Object)]
    condition: Value,
    /// `building` while everybody is looked at for a new condition
    #[schema(value_type = String, pattern = "^(building|live)$")]
    state: &'static str,
    trigger_on_build: bool,
    /// How many are in it, exactly
    members: u64,
    /// One more with each new condition
    rev: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SegmentList)]
pub(super) struct AllBody {
    data: Vec<SegmentBody>,
}

/// A saved condition.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is only described; `Given` reads it")]
#[schema(as = NewSegment, example = json!({
    "name": "Big spenders", "condition": {"feature": "monetary_total", "at_least": 100}
}))]
pub(super) struct NewSegment {
    /// For people; without one the slug, or the name that it has
    #[schema(max_length = 100)]
    name: Option<String>,
    /// As the filter of a campaign, but without segments
    #[schema(value_type = Object)]
    condition: Value,
    /// Whether those whom the walk over everybody finds count as entering; false by default
    trigger_on_build: Option<bool>,
}

pub(super) struct Given {
    name: Option<DisplayName>,
    condition: Value,
    trigger_on_build: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SegmentMember)]
pub(super) struct MemberBody {
    contact_id: i64,
    #[schema(format = Email)]
    email: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    entered_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SegmentWhy)]
pub(super) struct WhyBody {
    contact_id: i64,
    /// Whether he is in it
    r#in: bool,
    #[schema(value_type = Option<String>, format = DateTime)]
    entered_at: Option<Timestamp>,
    /// Whether he meets the condition with what is known now
    meant: bool,
    /// The condition with all its parts: `clause`, `met`, `fact` and `parts`
    #[schema(value_type = Option<Object>)]
    explanation: Option<Told>,
}

/// A place in the list of members.
pub(super) struct After(ContactId);

impl Cursor for After {
    const LIST: &'static str = "segment-members";

    fn to_text(&self) -> String {
        self.0.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse::<i64>().ok().map(|id| Self(ContactId::from(id)))
    }
}

/// List the segments
///
/// At most 100, in the order of their slugs. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/segments",
    tag = "Segments",
    security(("key" = [])),
    responses((status = 200, description = "All of them", body = AllBody), Refusals)
)]
pub(super) async fn list(State(v1): State<V1>, who: Needs<Read>) -> Result<Json<AllBody>, Problem> {
    let all = segments::list(&v1.cx(&who)).await?;
    Ok(Json(AllBody { data: all.into_iter().map(SegmentBody::from).collect() }))
}

/// Show a segment
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/segments/{segment}",
    tag = "Segments",
    security(("key" = [])),
    params(("segment" = String, Path, pattern = "^[a-z0-9][a-z0-9-]{0,39}$")),
    responses(
        (status = 200, description = "The segment", body = SegmentBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(slug): Path<String>,
) -> Result<Json<SegmentBody>, Problem> {
    Ok(Json(segments::find(&v1.cx(&who), named(&slug)?).await?.into()))
}

/// Put a segment
///
/// With a new condition everybody is looked at; until then `state` is `building`. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/segments/{segment}",
    tag = "Segments",
    security(("key" = [])),
    params(("segment" = String, Path, pattern = "^[a-z0-9][a-z0-9-]{0,39}$")),
    request_body = NewSegment,
    responses(
        (status = 200, description = "It is so now, or was before", body = SegmentBody),
        (status = 201, description = "It is new", body = SegmentBody),
        (status = 404, description = "This cannot be a slug", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "There are 100 segments already", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The segment is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn put(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(slug): Path<String>,
    Body(given): Body<Given>,
) -> Result<(StatusCode, Json<SegmentBody>), Problem> {
    let Given { name, condition, trigger_on_build } = given;
    let cmd = Put { slug: named(&slug)?, name, condition, trigger_on_build };
    let (segment, change) = segments::put(&v1.cx(&who), cmd).await?;
    let status = match change {
        Change::Created => StatusCode::CREATED,
        Change::Changed | Change::Unchanged => StatusCode::OK,
    };
    Ok((status, Json(segment.into())))
}

/// Delete a segment
///
/// Nobody leaves it by that. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/segments/{segment}",
    tag = "Segments",
    security(("key" = [])),
    params(("segment" = String, Path, pattern = "^[a-z0-9][a-z0-9-]{0,39}$")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn delete(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(slug): Path<String>,
) -> Result<StatusCode, Problem> {
    segments::delete(&v1.cx(&who), named(&slug)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Look at everybody again for a segment
///
/// It is kept up by itself; this is for when somebody does not trust it. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/segments/{segment}/rebuild",
    tag = "Segments",
    security(("key" = [])),
    params(("segment" = String, Path, pattern = "^[a-z0-9][a-z0-9-]{0,39}$")),
    responses(
        (status = 202, description = "It is begun", body = SegmentBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn rebuild(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(slug): Path<String>,
) -> Result<(StatusCode, Json<SegmentBody>), Problem> {
    let begun = segments::rebuild(&v1.cx(&who), named(&slug)?).await?;
    Ok((StatusCode::ACCEPTED, Json(begun.into())))
}

/// List who is in a segment
///
/// In the order of their ids. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/segments/{segment}/members",
    tag = "Segments",
    security(("key" = [])),
    params(
        ("segment" = String, Path, pattern = "^[a-z0-9][a-z0-9-]{0,39}$"),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of members", body = ListBody<MemberBody>),
        (status = 404, description = "There is no such segment", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn members(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(slug): Path<String>,
    Params(listing): Params<Listing<After>>,
) -> Result<Json<ListBody<MemberBody>>, Problem> {
    let after = listing.after.map(|After(id)| id);
    let page = segments::members(&v1.cx(&who), named(&slug)?, after, listing.limit).await?;
    let page = tidings_access::Page { items: page.items, next: page.next.map(After) };
    Ok(ListBody::answer(page))
}

/// Say why somebody is in a segment, or is not
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/segments/{segment}/contacts/{email}",
    tag = "Segments",
    security(("key" = [])),
    params(
        ("segment" = String, Path, pattern = "^[a-z0-9][a-z0-9-]{0,39}$"),
        ("email" = String, Path, description = "An address, the id of a contact, or another identity such as `user_id=42`", max_length = 600)
    ),
    responses(
        (status = 200, description = "In or out, and why", body = WhyBody),
        (status = 404, description = "There is no such segment or contact", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn why(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path((slug, email)): Path<(String, String)>,
) -> Result<Json<WhyBody>, Problem> {
    let (cx, slug) = (v1.cx(&who), named(&slug)?);
    let nobody = || Problem::not_found("there is no contact with this address");
    let whom = match meant(&email).map_err(|_| nobody())? {
        Whom::Email(email) => email.into(),
        whom => find(&cx, whom).await?.ok_or_else(nobody)?.lead_id.into(),
    };
    let why = segments::why(&cx, slug, &whom).await?;
    Ok(Json(why.ok_or_else(nobody)?.into()))
}

fn named(text: &str) -> Result<Slug, Problem> {
    text.parse().map_err(|_| Problem::not_found("there is no segment of this name"))
}

impl FromFields for Given {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let name = fields.optional("name");
        let trigger_on_build = fields.optional_bool("trigger_on_build");
        let Some(condition) = fields.value("condition") else {
            return fields.wrong("condition", "this is required");
        };
        let trigger_on_build = trigger_on_build?.unwrap_or_default();
        Some(Self { name: name?, condition, trigger_on_build })
    }
}

impl From<Segment> for SegmentBody {
    fn from(segment: Segment) -> Self {
        Self {
            id: segment.id.get(),
            slug: segment.slug.to_string(),
            name: segment.name.to_string(),
            condition: segment.condition.to_json(),
            state: Building::as_str(segment.state),
            trigger_on_build: segment.trigger_on_build,
            members: segment.members,
            rev: segment.rev,
            created_at: segment.created_at,
            updated_at: segment.updated_at,
        }
    }
}

impl From<Member> for MemberBody {
    fn from(member: Member) -> Self {
        Self {
            contact_id: member.lead_id.get(),
            email: member.email.map(|email| email.typed().to_owned()),
            entered_at: member.entered_at,
        }
    }
}

impl From<Why> for WhyBody {
    fn from(why: Why) -> Self {
        Self {
            contact_id: why.lead_id.get(),
            r#in: why.entered_at.is_some(),
            entered_at: why.entered_at,
            meant: why.meant,
            explanation: why.explanation,
        }
    }
}

impl From<FindError> for Problem {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Missing(_) => Self::not_found(error),
            FindError::Store(error) => error.into(),
        }
    }
}

impl From<PutError> for Problem {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Wrong(violations) => {
                let told =
                    |one: segments::Violation| Violation { field: one.field, message: one.message };
                Self::invalid(violations.into_iter().map(told).collect())
            }
            PutError::TooMany => Self::conflict(error),
            PutError::Store(error) => error.into(),
        }
    }
}
