//! `/v1/templates` and `/v1/settings/display-names`. A key such as `onboarding/welcome` is one part of the path:
//! `onboarding%2Fwelcome`.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidings_access::{Limit, StorageError};
use tidings_delivery::templates::display_names::{self, DisplayNames};
use tidings_delivery::templates::{
    self, Activate, ActivateError, Content, Pick, Preview, PreviewError, Put, PutError, Stored,
    Summary, TemplateKey, Then, VersionSummary, Which,
};
use tidings_kernel::EmailAddress;
use tidings_templates::{Fault, Source};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Fields, FromFields, Listing};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

#[derive(Serialize, ToSchema)]
#[schema(as = Template)]
pub(super) struct TemplateBody {
    #[schema(example = "onboarding/welcome")]
    key: String,
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    description: Option<String>,
    /// The version that is sent; null if none is
    #[schema(minimum = 1)]
    active_version: Option<i64>,
    #[schema(minimum = 1)]
    latest_version: i64,
    #[schema(value_type = Option<String>, format = DateTime)]
    updated_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplateVersion)]
pub(super) struct VersionBody {
    #[schema(minimum = 1)]
    version: i64,
    #[schema(example = "active", pattern = "^(draft|active|inactive)$")]
    status: &'static str,
    subject: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    created_at: Option<Timestamp>,
    /// `operator`, or `key:` and the public id of a key
    created_by: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplateShown)]
pub(super) struct ShownBody {
    #[serde(flatten)]
    template: TemplateBody,
    #[schema(minimum = 1)]
    version: i64,
    #[schema(example = "active", pattern = "^(draft|active|inactive)$")]
    status: &'static str,
    subject: String,
    html: Option<String>,
    mjml: Option<String>,
    text: Option<String>,
    preheader: Option<String>,
    required_variables: Vec<String>,
    #[schema(value_type = Object)]
    example_variables: Map<String, Value>,
    default_sender: Option<String>,
    /// What it names, as dotted paths
    variables: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplatePut)]
pub(super) struct PutBody {
    key: String,
    #[schema(minimum = 1)]
    version: i64,
    /// Whether this made a version; the same content again does not
    created: bool,
    #[schema(example = "active", pattern = "^(draft|active)$")]
    status: &'static str,
    variables: Vec<String>,
    /// What works, but not as one may wish
    warnings: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplateValidated)]
pub(super) struct ValidatedBody {
    variables: Vec<String>,
    warnings: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TemplatePreviewed)]
pub(super) struct PreviewedBody {
    #[schema(minimum = 1)]
    version: i64,
    subject: String,
    html: Option<String>,
    text: String,
    /// Required variables that nobody gave: a message like this would be refused
    missing_variables: Vec<String>,
    warnings: Vec<String>,
}

/// A version. Either `html` or `mjml`, or `text` alone.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is read field by field; this describes the fields")]
pub(super) struct NewTemplate {
    /// Only for validation: the key that it would have, which says whether it is a partial
    #[schema(
        max_length = 200,
        pattern = "^[a-z0-9_-]+(/[a-z0-9_-]+)*$",
        example = "onboarding/welcome"
    )]
    key: Option<String>,
    /// A name for people; the key if there is none
    #[schema(min_length = 1, max_length = 100)]
    name: Option<String>,
    /// What sort of mail it is
    #[schema(min_length = 1, max_length = 64)]
    r#type: Option<String>,
    #[schema(min_length = 1, max_length = 1000)]
    description: Option<String>,
    /// Liquid; a partial needs none
    #[schema(max_length = 2000, example = "Welcome, {{ firstName | default: 'friend' }}")]
    subject: Option<String>,
    /// HTML with Liquid
    html: Option<String>,
    /// MJML with Liquid
    mjml: Option<String>,
    /// Made from the HTML if there is none
    text: Option<String>,
    /// What an inbox shows beside the subject
    #[schema(max_length = 2000)]
    preheader: Option<String>,
    /// Paths that must be given, or nothing is sent
    #[schema(max_items = 100, example = json!(["order.id"]))]
    required_variables: Option<Vec<String>>,
    /// What else may be given, with values for previews; up to 16 KB
    #[schema(value_type = Option<Object>)]
    example_variables: Option<Map<String, Value>>,
    /// The sender where a message names none
    #[schema(min_length = 1, max_length = 254)]
    default_sender: Option<String>,
    /// What the new version becomes: `active` (the default) or `draft`
    #[schema(pattern = "^(active|draft)$")]
    status: Option<String>,
}

#[derive(ToSchema)]
pub(super) struct NewActivation {
    /// Also an older one, to go back
    #[schema(minimum = 1)]
    version: i64,
}

#[derive(ToSchema)]
pub(super) struct NewPreview {
    /// The active one if there is none
    #[schema(minimum = 1)]
    version: Option<i64>,
    /// Whose profile is used
    #[schema(value_type = Option<String>, format = Email, max_length = 254)]
    email: Option<EmailAddress>,
    /// What a message would give
    #[schema(value_type = Option<Object>)]
    variables: Map<String, Value>,
}

/// For each `<attribute>Name` what a value is called.
#[derive(Serialize, ToSchema)]
#[schema(as = DisplayNames, example = json!({"names": {"planName": {"pro": "Professional"}}}))]
pub(super) struct DisplayNamesBody {
    names: BTreeMap<String, BTreeMap<String, String>>,
}

pub(super) struct NewNames(DisplayNames);

#[derive(Deserialize)]
pub(super) struct WhichVersion {
    version: Option<String>,
}

/// List the templates
///
/// In the order of their keys. Partials are among them, below `partials/`. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/templates",
    tag = "Templates",
    security(("key" = [])),
    params(
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
    Listing { after, limit }: Listing<TemplateKey>,
) -> Result<Json<ListBody<TemplateBody>>, Problem> {
    let cx = v1.cx(&who);
    Ok(ListBody::answer(templates::list(&cx, None, after, limit).await.map_err(storage)?))
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
        if let Some((summary, status, stored)) =
            templates::find(&cx, &key, *pick).await.map_err(storage)?
        {
            return Ok(Json(ShownBody::new(summary, status.as_str(), &stored)));
        }
    }
    Err(Problem::not_found("there is no such template or version"))
}

/// List the versions of a template
///
/// The newest first; up to 100. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/templates/{key}/versions",
    tag = "Templates",
    security(("key" = [])),
    params(("key" = String, Path, max_length = 200)),
    responses(
        (status = 200, description = "The newest versions", body = ListBody<VersionBody>),
        (status = 404, description = "There is no such template", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn versions(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(key): Path<String>,
) -> Result<Json<ListBody<VersionBody>>, Problem> {
    let cx = v1.cx(&who);
    let key = named(&key)?;
    let page = templates::versions(&cx, &key, None, Limit::MAX).await.map_err(storage)?;
    let page = page.ok_or_else(|| Problem::not_found("there is no such template"))?;
    let data = page.items.into_iter().map(Into::into).collect();
    Ok(Json(ListBody { data, next_cursor: None }))
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

/// Show the display names
///
/// What values of attributes are called in templates. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/settings/display-names",
    tag = "Templates",
    security(("key" = [])),
    responses((status = 200, description = "The names", body = DisplayNamesBody), Refusals)
)]
pub(super) async fn display_names(
    State(v1): State<V1>,
    who: Needs<Read>,
) -> Result<Json<DisplayNamesBody>, Problem> {
    let names = display_names::get(&v1.cx(&who)).await.map_err(storage)?;
    Ok(Json(names.into()))
}

/// Set the display names
///
/// These and no others: at most 100 names and 1000 labels. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/settings/display-names",
    tag = "Templates",
    security(("key" = [])),
    request_body = DisplayNamesBody,
    responses(
        (status = 200, description = "The names", body = DisplayNamesBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn set_display_names(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(NewNames(names)): Body<NewNames>,
) -> Result<Json<DisplayNamesBody>, Problem> {
    display_names::set(&v1.cx(&who), &names).await.map_err(storage)?;
    Ok(Json(names.into()))
}

async fn shown(
    cx: &tidings_access::Cx,
    key: &TemplateKey,
    pick: Pick,
) -> Result<Json<ShownBody>, Problem> {
    let found = templates::find(cx, key, pick).await.map_err(storage)?;
    let (summary, status, stored) =
        found.ok_or_else(|| Problem::not_found("there is no such template or version"))?;
    Ok(Json(ShownBody::new(summary, status.as_str(), &stored)))
}

/// What cannot be a key is no template's.
fn named(text: &str) -> Result<TemplateKey, Problem> {
    text.parse().map_err(|_| Problem::not_found("there is no such template"))
}

/// A version as a caller writes it.
pub(super) struct Written {
    key: Option<TemplateKey>,
    content: Content,
    then: Then,
}

impl FromFields for Written {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let key = fields.optional("key");
        let (name, kind) = (fields.optional("name"), fields.optional("type"));
        let (description, default_sender) =
            (fields.optional("description"), fields.optional("default_sender"));
        let subject = fields.optional("subject");
        let (html, mjml) = (fields.optional("html"), fields.optional("mjml"));
        let (text, preheader) = (fields.optional("text"), fields.optional("preheader"));
        let required = fields.optional_list("required_variables");
        let examples = fields.optional_object("example_variables");
        let then = match fields.optional::<String>("status")?.as_deref() {
            None | Some("active") => Some(Then::Activate),
            Some("draft") => Some(Then::KeepAsDraft),
            Some(_) => fields.wrong("status", "use active or draft"),
        };
        let source = Source {
            subject: subject?.unwrap_or_default(),
            html: html?,
            mjml: mjml?,
            text: text?,
            preheader: preheader?,
        };
        let content = Content {
            name: name?,
            kind: kind?,
            description: description?,
            source,
            required: required?.unwrap_or_default(),
            examples: examples?.unwrap_or_default(),
            default_sender: default_sender?,
        };
        Some(Self { key: key?, content, then: then? })
    }
}

impl FromFields for NewActivation {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        match fields.optional_integer("version")? {
            Some(version) if version > 0 => Some(Self { version }),
            _ => fields.wrong("version", "use the number of a version"),
        }
    }
}

impl FromFields for NewPreview {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let version = fields.optional_integer("version");
        let email = fields.optional("email");
        let variables = fields.optional_object("variables");
        Some(Self { version: version?, email: email?, variables: variables?.unwrap_or_default() })
    }
}

impl FromFields for NewNames {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let Some(names) = fields.optional_object("names")? else {
            return fields.wrong("names", "this is required");
        };
        match DisplayNames::parse(names) {
            Ok(names) => Some(Self(names)),
            Err(faults) => {
                for fault in faults {
                    fields.wrong::<()>(&format!("names.{}", fault.field), fault.message);
                }
                None
            }
        }
    }
}

impl From<DisplayNames> for DisplayNamesBody {
    fn from(names: DisplayNames) -> Self {
        Self { names: names.iter().map(|(name, labels)| (name.clone(), labels.clone())).collect() }
    }
}

impl From<Summary> for TemplateBody {
    fn from(summary: Summary) -> Self {
        Self {
            key: summary.key.to_string(),
            name: summary.name,
            kind: summary.kind,
            description: summary.description,
            active_version: summary.active_version,
            latest_version: summary.latest_version,
            updated_at: summary.updated_at,
        }
    }
}

impl From<VersionSummary> for VersionBody {
    fn from(version: VersionSummary) -> Self {
        Self {
            version: version.version,
            status: version.status.as_str(),
            subject: version.subject,
            created_at: version.created_at,
            created_by: version.created_by,
        }
    }
}

impl ShownBody {
    fn new(summary: Summary, status: &'static str, stored: &Stored) -> Self {
        let Content { source, required, examples, default_sender, .. } = stored.content.clone();
        Self {
            template: summary.into(),
            version: stored.version,
            status,
            subject: source.subject,
            html: source.html,
            mjml: source.mjml,
            text: source.text,
            preheader: source.preheader,
            required_variables: required,
            example_variables: examples,
            default_sender,
            variables: stored.variables().into_iter().collect(),
        }
    }
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

fn storage(error: StorageError) -> Problem {
    if error.is_passing() {
        tracing::warn!(error = %tidings_kernel::causes(&error), "A request could not be served now");
        return Problem::unavailable("the store does not answer; try again in a moment");
    }
    Problem::internal(error)
}

impl From<PutError> for Problem {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Faults(found) => faults(found),
            PutError::Contended => Self::conflict(error),
            PutError::Store(error) => storage(error),
        }
    }
}

impl From<ActivateError> for Problem {
    fn from(error: ActivateError) -> Self {
        match error {
            ActivateError::Missing(_) | ActivateError::NoVersion(..) => Self::not_found(error),
            ActivateError::Contended => Self::conflict(error),
            ActivateError::Store(error) => storage(error),
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
            PreviewError::Store(error) => storage(error),
        }
    }
}
