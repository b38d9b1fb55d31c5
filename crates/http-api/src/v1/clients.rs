//! `/v1/clients`: the applications of the caller's workspace.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::clients::{self, Client, Create, CreateError, FindError};
use tidings_access::{DisplayName, Slug};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Fields, FromFields, Listing};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = Client)]
pub(super) struct ClientBody {
    #[schema(minimum = 1)]
    id: i64,
    #[schema(example = "shop")]
    slug: String,
    #[schema(example = "The shop")]
    name: String,
    /// Since when its keys are refused
    #[schema(value_type = Option<String>, format = DateTime)]
    disabled_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

#[derive(ToSchema)]
pub(super) struct NewClient {
    /// 1 to 40 lower-case letters, digits and hyphens
    #[schema(value_type = String, example = "shop", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    slug: Slug,
    /// A name for people; the slug if there is none
    #[schema(value_type = Option<String>, example = "The shop", max_length = 100)]
    name: Option<DisplayName>,
}

/// List the clients
///
/// In the order of their slugs. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/clients",
    tag = "Access",
    security(("key" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of clients", body = ListBody<ClientBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Listing { after, limit }: Listing<Slug>,
) -> Result<Json<ListBody<ClientBody>>, Problem> {
    let cx = v1.cx(&who);
    Ok(ListBody::answer(clients::list(&cx, after, limit).await?))
}

/// Make a client
///
/// Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/clients",
    tag = "Access",
    security(("key" = [])),
    request_body = NewClient,
    responses(
        (status = 201, description = "It is there", body = ClientBody),
        (status = 409, description = "The slug is taken", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn create(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(new): Body<NewClient>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let name = new.name.unwrap_or_else(|| DisplayName::from(&new.slug));
    let client = clients::create(&cx, Create { slug: new.slug, name }).await?;
    let location = format!("/v1/clients/{}", client.slug);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(ClientBody::from(client))))
}

/// Show a client
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/clients/{slug}",
    tag = "Access",
    security(("key" = [])),
    params(("slug" = String, Path)),
    responses(
        (status = 200, description = "The client", body = ClientBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(slug): Path<String>,
) -> Result<Json<ClientBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(clients::find(&cx, named(&slug)?).await?.into()))
}

/// Refuse a client's keys
///
/// From the next request on, on other nodes within a second, until it is enabled again. Doing it twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/clients/{slug}/disable",
    tag = "Access",
    security(("key" = [])),
    params(("slug" = String, Path)),
    responses(
        (status = 200, description = "Its keys are refused", body = ClientBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn disable(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(slug): Path<String>,
) -> Result<Json<ClientBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(clients::disable(&cx, named(&slug)?).await?.into()))
}

/// Take a client's keys again
///
/// Doing it twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/clients/{slug}/enable",
    tag = "Access",
    security(("key" = [])),
    params(("slug" = String, Path)),
    responses(
        (status = 200, description = "Its keys work", body = ClientBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn enable(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(slug): Path<String>,
) -> Result<Json<ClientBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(clients::enable(&cx, named(&slug)?).await?.into()))
}

/// What cannot be a slug is no client's.
pub(super) fn named(text: &str) -> Result<Slug, Problem> {
    text.parse().map_err(|_| Problem::not_found("there is no such client"))
}

impl FromFields for NewClient {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (slug, name) = (fields.required("slug"), fields.optional("name"));
        Some(Self { slug: slug?, name: name? })
    }
}

impl From<Client> for ClientBody {
    fn from(client: Client) -> Self {
        Self {
            id: client.id.get(),
            slug: client.slug.to_string(),
            name: client.name.to_string(),
            disabled_at: client.disabled_at,
            created_at: client.created_at,
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Taken(_) => Self::conflict(error),
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
