//! `/v1/templates`. A key such as `onboarding/welcome` is one part of the path:
//! `onboarding%2Fwelcome`.

mod bodies;
pub(super) mod display_names;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use tidings_access::{Cx, Page};
use tidings_delivery::templates::{
    self, Activate, ActivateError, Pick, Preview, PreviewError, Put, PutError, TemplateKey, Which,
};
use tidings_templates::Fault;

use self::bodies::{
    Before, NewActivation, NewPreview, NewTemplate, PreviewedBody, PutBody, ShownBody,
    TemplateBody, ValidatedBody, VersionBody, Wanted, Written,
};
use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Listing, Params};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

#[derive(Deserialize)]
pub(super) struct WhichVersion {
    version: Option<String>,
}

/// List the templates
///
/// In the order of their keys, those that begin with `prefix` if there is one. Partials are among them, below `partials/`. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/templates",
    tag = "Templates",
    security(("key" = [])),
    params(
        ("prefix" = Option<String>, Query, description = "What their keys begin with, such as `onboarding/`", min_length = 1, max_length = 200),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of templates", body = ListBody<TemplateBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(Wanted { prefix, after, limit }): Params<Wanted>,
) -> Result<Json<ListBody<TemplateBody>>, Problem> {
    let cx = v1.cx(&who);
    Ok(ListBody::answer(templates::list(&cx, prefix.as_deref(), after, limit).await?))
}

/// Put a version of a template
///
/// Versions never change: other content is the next version, the same content again is the one that there is. A `/` in the
/// key is written as `%2F`. Partials have keys below `partials/`, and a version keeps those that it was put with. Needs the
/// scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/templates/{key}",
    tag = "Templates",
    security(("key" = [])),
    params(("key" = String, Path, description = "Such as `onboarding%2Fwelcome`", max_length = 200)),
    request_body = NewTemplate,
    responses(
        (status = 200, description = "This content is the newest version already", body = PutBody),
        (status = 201, description = "There is a new version", body = PutBody),
        (status = 409, description = "Others kept changing it", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The template has faults; each is a violation, with its place", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn put(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(key): Path<String>,
    Body(new): Body<Written>,
) -> Result<(StatusCode, Json<PutBody>), Problem> {
    let cx = v1.cx(&who);
    let key: TemplateKey = key.parse().map_err(|error: templates::KeyError| {
        Problem::invalid(vec![Violation { field: "key".to_owned(), message: error.to_string() }])
    })?;
    let cmd = Put { key: key.clone(), content: new.content, then: new.then };
    let done = templates::put(&cx, cmd).await?;
    let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
    let body = PutBody {
        key: key.to_string(),
        version: done.version,
        created: done.created,
        status: done.status.as_str(),
        variables: done.validated.variables.into_iter().collect(),
        warnings: done.validated.warnings,
    };
    Ok((status, Json(body)))
}

/// Check a template
///
/// Nothing is stored. Needs the scope `read`.
#[utoipa::path(
    post,
    path = "/v1/templates/validate",
    tag = "Templates",
    security(("key" = [])),
    request_body = NewTemplate,
    responses(
        (status = 200, description = "It has no faults", body = ValidatedBody),
        (status = 422, description = "It has; each is a violation, with its place", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn validate(
    State(v1): State<V1>,
    who: Needs<Read>,
    Body(new): Body<Written>,
) -> Result<Json<ValidatedBody>, Problem> {
    let cx = v1.cx(&who);
    let key = new.key.unwrap_or_else(|| "new".parse().expect("a key"));
    let done = templates::validate(&cx, &key, new.content).await?;
    let variables = done.variables.into_iter().collect();
    Ok(Json(ValidatedBody { variables, warnings: done.warnings }))
}

/// Show a template
///
/// With its active version, or the newest if none is active, or the one that is asked for. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/templates/{key}",
    tag = "Templates",
    security(("key" = [])),
    params(
        ("key" = String, Path, description = "Such as `onboarding%2Fwelcome`", max_length = 200),
        ("version" = Option<String>, Query, description = "A number, `active` or `latest`")
    ),
    responses(
        (status = 200, description = "The template", body = ShownBody),
        (status = 404, description = "There is none, or no such version", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(key): Path<String>,
    Query(which): Query<WhichVersion>,
) -> Result<Json<ShownBody>, Problem> {
    let cx = v1.cx(&who);
    let key = named(&key)?;
    let picks: &[Pick] = match which.version.as_deref() {
        None => &[Pick::Active, Pick::Latest],
        Some("active") => &[Pick::Active],
        Some("latest") => &[Pick::Latest],
        Some(number) => match number.parse() {
            Ok(number) => &[Pick::Number(number)],
            Err(_) => {
                let message = "use a number, active or latest".to_owned();
                return Err(Problem::invalid(vec![Violation {
                    field: "version".to_owned(),
                    message,
                }]));
            }
        },
    };
    for pick in picks {
        if let Some((summary, status, stored)) = templates::find(&cx, &key, *pick).await? {
            return Ok(Json(ShownBody::new(summary, status.as_str(), &stored)));
        }
    }
    Err(Problem::not_found("there is no such template or version"))
}

/// List the versions of a template
///
/// The newest first. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/templates/{key}/versions",
    tag = "Templates",
    security(("key" = [])),
    params(
        ("key" = String, Path, max_length = 200),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of versions", body = ListBody<VersionBody>),
        (status = 404, description = "There is no such template", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn versions(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(key): Path<String>,
    Listing { after, limit }: Listing<Before>,
) -> Result<Json<ListBody<VersionBody>>, Problem> {
    let cx = v1.cx(&who);
    let key = named(&key)?;
    let page = templates::versions(&cx, &key, after.map(|Before(version)| version), limit).await?;
    let page = page.ok_or_else(|| Problem::not_found("there is no such template"))?;
    let next = page.next.map(Before);
    Ok(ListBody::answer(Page { items: page.items, next }))
}

/// Activate a version
///
/// In place of the one that is active; an older one to go back. Doing it twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/templates/{key}/activate",
    tag = "Templates",
    security(("key" = [])),
    params(("key" = String, Path, max_length = 200)),
    request_body = NewActivation,
    responses(
        (status = 200, description = "It is active", body = ShownBody),
        (status = 404, description = "There is no such template or version", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "Others kept changing it", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn activate(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(key): Path<String>,
    Body(new): Body<NewActivation>,
) -> Result<Json<ShownBody>, Problem> {
    let cx = v1.cx(&who);
    let key = named(&key)?;
    templates::activate(&cx, Activate { key: key.clone(), version: new.version }).await?;
    shown(&cx, &key, Pick::Number(new.version)).await
}

/// Deactivate a template
///
/// Nothing is sent with it until a version is activated. Doing it twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/templates/{key}/deactivate",
    tag = "Templates",
    security(("key" = [])),
    params(("key" = String, Path, max_length = 200)),
    responses(
        (status = 200, description = "None of its versions is active", body = ShownBody),
        (status = 404, description = "There is no such template", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "Others kept changing it", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn deactivate(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(key): Path<String>,
) -> Result<Json<ShownBody>, Problem> {
    let cx = v1.cx(&who);
    let key = named(&key)?;
    templates::deactivate(&cx, key.clone()).await?;
    shown(&cx, &key, Pick::Latest).await
}

/// Preview a template
///
/// As a contact would get it, with links that lead nowhere. Nothing is stored or sent. Needs the scope `read`.
#[utoipa::path(
    post,
    path = "/v1/templates/{key}/preview",
    tag = "Templates",
    security(("key" = [])),
    params(("key" = String, Path, max_length = 200)),
    request_body = NewPreview,
    responses(
        (status = 200, description = "The mail", body = PreviewedBody),
        (status = 404, description = "There is no such template or version", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong, or it cannot be rendered with these variables", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn preview(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(key): Path<String>,
    Body(new): Body<NewPreview>,
) -> Result<Json<PreviewedBody>, Problem> {
    let cx = v1.cx(&who);
    let pick = new.version.map_or(Pick::Active, Pick::Number);
    let template = Which { key: named(&key)?, pick };
    let cmd = Preview { template, as_contact: new.email, variables: new.variables };
    let made = templates::preview(&cx, cmd).await?;
    Ok(Json(PreviewedBody {
        version: made.version,
        subject: made.rendered.subject,
        html: made.rendered.html,
        text: made.rendered.text,
        missing_variables: made.missing,
        warnings: made.warnings,
    }))
}

async fn shown(cx: &Cx, key: &TemplateKey, pick: Pick) -> Result<Json<ShownBody>, Problem> {
    let found = templates::find(cx, key, pick).await?;
    let (summary, status, stored) =
        found.ok_or_else(|| Problem::not_found("there is no such template or version"))?;
    Ok(Json(ShownBody::new(summary, status.as_str(), &stored)))
}

/// What cannot be a key is no template's.
fn named(text: &str) -> Result<TemplateKey, Problem> {
    text.parse().map_err(|_| Problem::not_found("there is no such template"))
}

/// Each fault is a violation of the part that it is in, with its place.
fn faults(faults: Vec<Fault>) -> Problem {
    let violation = |fault: Fault| {
        let message = match (fault.line, fault.column) {
            (Some(line), Some(column)) => {
                format!("line {line}, column {column}: {}", fault.message)
            }
            _ => fault.message,
        };
        Violation { field: fault.part.to_string(), message }
    };
    Problem::invalid(faults.into_iter().take(50).map(violation).collect())
}

impl From<PutError> for Problem {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Faults(found) => faults(found),
            PutError::Contended => Self::conflict(error),
            PutError::Store(error) => error.into(),
        }
    }
}

impl From<ActivateError> for Problem {
    fn from(error: ActivateError) -> Self {
        match error {
            ActivateError::Missing(_) | ActivateError::NoVersion(..) => Self::not_found(error),
            ActivateError::Contended => Self::conflict(error),
            ActivateError::Store(error) => error.into(),
        }
    }
}

impl From<PreviewError> for Problem {
    fn from(error: PreviewError) -> Self {
        match error {
            PreviewError::Missing(_) => Self::not_found(error),
            PreviewError::Render(_) => {
                let field = "variables".to_owned();
                Self::invalid(vec![Violation { field, message: error.to_string() }])
            }
            PreviewError::Store(error) => error.into(),
        }
    }
}
