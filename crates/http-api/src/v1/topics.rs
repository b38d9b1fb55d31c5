//! `/v1/topics`: the categories of mail that people can switch off.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{DisplayName, Page, Slug};
use tidings_people::consent::Line;
use tidings_people::consent::topics::{self, Create, CreateError, FindError, Topic, Update};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Cursor, Fields, FromFields, Listing};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = Topic)]
pub(super) struct TopicBody {
    #[schema(minimum = 1)]
    id: i64,
    #[schema(example = "tips")]
    slug: String,
    #[schema(example = "Tips")]
    name: String,
    /// What it is about, for those who decide whether they want it
    #[schema(example = "Once a week, what others found out")]
    description: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(ToSchema)]
pub(super) struct NewTopic {
    /// 1 to 40 lower-case letters, digits and hyphens
    #[schema(value_type = String, example = "tips", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    slug: Slug,
    /// A name for people; the slug if there is none
    #[schema(value_type = Option<String>, example = "Tips", max_length = 100)]
    name: Option<DisplayName>,
    /// What it is about, for those who decide whether they want it
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    description: Option<Line>,
}

/// What is left out stays as it is.
#[derive(ToSchema)]
pub(super) struct ChangeTopic {
    #[schema(value_type = Option<String>, min_length = 1, max_length = 100)]
    name: Option<DisplayName>,
    /// Null takes it away
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    description: Option<Option<Line>>,
}

/// Where a list of topics goes on.
pub(super) struct After(Slug);

/// List the topics
///
/// In the order of their slugs. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/topics",
    tag = "Consent",
    security(("key" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of topics", body = ListBody<TopicBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Listing { after, limit }: Listing<After>,
) -> Result<Json<ListBody<TopicBody>>, Problem> {
    let cx = v1.cx(&who);
    let page = topics::list(&cx, after.map(|After(slug)| slug), limit).await?;
    Ok(ListBody::answer(Page { items: page.items, next: page.next.map(After) }))
}

/// Make a topic
///
/// Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/topics",
    tag = "Consent",
    security(("key" = [])),
    request_body = NewTopic,
    responses(
        (status = 201, description = "It is there", body = TopicBody),
        (status = 409, description = "The slug is taken", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn create(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(new): Body<NewTopic>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let create = Create {
        name: new.name.unwrap_or_else(|| DisplayName::from(&new.slug)),
        slug: new.slug,
        description: new.description,
    };
    let topic = topics::create(&cx, create).await?;
    let location = format!("/v1/topics/{}", topic.slug);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(TopicBody::from(topic))))
}

/// Show a topic
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/topics/{slug}",
    tag = "Consent",
    security(("key" = [])),
    params(("slug" = String, Path)),
    responses(
        (status = 200, description = "The topic", body = TopicBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(slug): Path<String>,
) -> Result<Json<TopicBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(topics::find(&cx, named(&slug)?).await?.into()))
}

/// Change a topic
///
/// What is left out stays as it is. Needs the scope `manage`.
#[utoipa::path(
    patch,
    path = "/v1/topics/{slug}",
    tag = "Consent",
    security(("key" = [])),
    params(("slug" = String, Path)),
    request_body = ChangeTopic,
    responses(
        (status = 200, description = "As it is now", body = TopicBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn update(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(slug): Path<String>,
    Body(change): Body<ChangeTopic>,
) -> Result<Json<TopicBody>, Problem> {
    let cx = v1.cx(&who);
    let ChangeTopic { name, description } = change;
    let update = Update { slug: named(&slug)?, name, description };
    Ok(Json(topics::update(&cx, update).await?.into()))
}

/// What cannot be a slug is no topic's.
fn named(text: &str) -> Result<Slug, Problem> {
    text.parse().map_err(|_| Problem::not_found("there is no such topic"))
}

impl FromFields for NewTopic {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (slug, name) = (fields.required("slug"), fields.optional("name"));
        let description = fields.optional("description");
        Some(Self { slug: slug?, name: name?, description: description? })
    }
}

impl FromFields for ChangeTopic {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (name, description) = (fields.optional("name"), fields.clearable("description"));
        Some(Self { name: name?, description: description? })
    }
}

impl Cursor for After {
    const LIST: &'static str = "topics";

    fn to_text(&self) -> String {
        self.0.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl From<Topic> for TopicBody {
    fn from(topic: Topic) -> Self {
        Self {
            id: topic.id.get(),
            slug: topic.slug.to_string(),
            name: topic.name.to_string(),
            description: topic.description.map(|text| text.to_string()),
            created_at: topic.created_at,
            updated_at: topic.updated_at,
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Taken(_) | CreateError::TooMany => Self::conflict(error),
            CreateError::Store(error) => error.into(),
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
