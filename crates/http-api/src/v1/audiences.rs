//! `/v1/audiences`: the lists that people are subscribed to.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Cx, DisplayName, Page, Slug};
use tidings_delivery::confirmation;
use tidings_people::consent::Line;
use tidings_people::consent::audiences::{self, Audience, Create, CreateError, FindError, Update};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Cursor, Fields, FromFields, Listing};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

#[derive(Serialize, ToSchema)]
#[schema(as = Audience)]
pub(super) struct AudienceBody {
    #[schema(minimum = 1)]
    id: i64,
    #[schema(example = "news")]
    slug: String,
    #[schema(example = "The news")]
    name: String,
    /// Whether a new subscription counts only once it is confirmed
    double_opt_in: bool,
    /// The template of the mail that asks for the confirmation
    #[schema(example = "confirm/news")]
    confirm_template_key: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(ToSchema)]
pub(super) struct NewAudience {
    /// 1 to 40 lower-case letters, digits and hyphens
    #[schema(value_type = String, example = "news", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    slug: Slug,
    /// A name for people; the slug if there is none
    #[schema(value_type = Option<String>, example = "The news", max_length = 100)]
    name: Option<DisplayName>,
    /// Whether a new subscription counts only once it is confirmed; false if left out
    double_opt_in: Option<bool>,
    /// The template of the mail that asks for the confirmation; without one your application asks by itself, and
    /// subscribes with `confirmed` when it knows
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    confirm_template_key: Option<Line>,
}

/// What is left out stays as it is.
#[derive(ToSchema)]
pub(super) struct ChangeAudience {
    #[schema(value_type = Option<String>, min_length = 1, max_length = 100)]
    name: Option<DisplayName>,
    double_opt_in: Option<bool>,
    /// Null takes it away
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    confirm_template_key: Option<Option<Line>>,
}

/// Where a list of audiences goes on.
pub(super) struct After(Slug);

/// List the audiences
///
/// In the order of their slugs. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/audiences",
    tag = "Consent",
    security(("key" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of audiences", body = ListBody<AudienceBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Listing { after, limit }: Listing<After>,
) -> Result<Json<ListBody<AudienceBody>>, Problem> {
    let cx = v1.cx(&who);
    let page = audiences::list(&cx, after.map(|After(slug)| slug), limit).await?;
    Ok(ListBody::answer(Page { items: page.items, next: page.next.map(After) }))
}

/// Make an audience
///
/// Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/audiences",
    tag = "Consent",
    security(("key" = [])),
    request_body = NewAudience,
    responses(
        (status = 201, description = "It is there", body = AudienceBody),
        (status = 409, description = "The slug is taken", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn create(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(new): Body<NewAudience>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let create = Create {
        name: new.name.unwrap_or_else(|| DisplayName::from(&new.slug)),
        slug: new.slug,
        double_opt_in: new.double_opt_in.unwrap_or(false),
        confirm_template_key: new.confirm_template_key,
    };
    confirming(&cx, create.confirm_template_key.as_ref()).await?;
    let audience = audiences::create(&cx, create).await?;
    let location = format!("/v1/audiences/{}", audience.slug);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(AudienceBody::from(audience))))
}

/// Show an audience
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/audiences/{slug}",
    tag = "Consent",
    security(("key" = [])),
    params(("slug" = String, Path)),
    responses(
        (status = 200, description = "The audience", body = AudienceBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(slug): Path<String>,
) -> Result<Json<AudienceBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(audiences::find(&cx, named(&slug)?).await?.into()))
}

/// Change an audience
///
/// What is left out stays as it is. Where a confirmation is wanted from now on, those who never gave one are not
/// written to. Needs the scope `manage`.
#[utoipa::path(
    patch,
    path = "/v1/audiences/{slug}",
    tag = "Consent",
    security(("key" = [])),
    params(("slug" = String, Path)),
    request_body = ChangeAudience,
    responses(
        (status = 200, description = "As it is now", body = AudienceBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn update(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(slug): Path<String>,
    Body(change): Body<ChangeAudience>,
) -> Result<Json<AudienceBody>, Problem> {
    let cx = v1.cx(&who);
    let ChangeAudience { name, double_opt_in, confirm_template_key } = change;
    let update = Update { slug: named(&slug)?, name, double_opt_in, confirm_template_key };
    confirming(&cx, update.confirm_template_key.as_ref().and_then(Option::as_ref)).await?;
    Ok(Json(audiences::update(&cx, update).await?.into()))
}

/// With a template that is not there, nobody could ever confirm.
async fn confirming(cx: &Cx, key: Option<&Line>) -> Result<(), Problem> {
    let Some(key) = key else { return Ok(()) };
    match confirmation::wrong_template(cx, key.as_str(), &BTreeSet::new()).await? {
        None => Ok(()),
        Some(message) => {
            let field = "confirm_template_key".to_owned();
            Err(Problem::invalid(vec![Violation { field, message }]))
        }
    }
}

/// What cannot be a slug is no audience's.
fn named(text: &str) -> Result<Slug, Problem> {
    text.parse().map_err(|_| Problem::not_found("there is no such audience"))
}

impl FromFields for NewAudience {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (slug, name) = (fields.required("slug"), fields.optional("name"));
        let double_opt_in = fields.optional_bool("double_opt_in");
        let confirm_template_key = fields.optional("confirm_template_key");
        Some(Self {
            slug: slug?,
            name: name?,
            double_opt_in: double_opt_in?,
            confirm_template_key: confirm_template_key?,
        })
    }
}

impl FromFields for ChangeAudience {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (name, double) = (fields.optional("name"), fields.optional_bool("double_opt_in"));
        let confirm_template_key = fields.clearable("confirm_template_key");
        Some(Self {
            name: name?,
            double_opt_in: double?,
            confirm_template_key: confirm_template_key?,
        })
    }
}

impl Cursor for After {
    const LIST: &'static str = "audiences";

    fn to_text(&self) -> String {
        self.0.to_string()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

impl From<Audience> for AudienceBody {
    fn from(audience: Audience) -> Self {
        Self {
            id: audience.id.get(),
            slug: audience.slug.to_string(),
            name: audience.name.to_string(),
            double_opt_in: audience.double_opt_in,
            confirm_template_key: audience.confirm_template_key.map(|key| key.to_string()),
            created_at: audience.created_at,
            updated_at: audience.updated_at,
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
