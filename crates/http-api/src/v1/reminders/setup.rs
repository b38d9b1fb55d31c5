//! Templates and settings of reminders.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Map, Value};
use tidings_reminders::{Kind, settings, templates};
use utoipa::ToSchema;

use super::super::auth::{Manage, Needs, Read, Refusals};
use super::super::input::{Body, Fields, FromFields};
use super::super::{ListBody, V1};
use super::page;
use super::read::{NewTemplate, NewTemplateBody};
use super::shown::{PreviewBody, TemplateBody};
use crate::problem::{Problem, ProblemBody};

/// Settings of reminders, whole. What is left out is as by default.
#[derive(ToSchema)]
#[schema(as = ReminderSettings)]
#[expect(dead_code, reason = "`settings::parse` reads it; this says how it looks")]
pub(in crate::v1) struct SettingsBody {
    /// `first_again`, `second_again`, `second_after_first`, `final_again`, `final_after_second`
    #[schema(value_type = Option<Object>)]
    days: Option<Value>,
    /// By currency: above it two different people have to approve
    #[schema(value_type = Option<Object>)]
    two_person_above: Option<Value>,
    #[schema(minimum = 1, maximum = 100)]
    batch_limit: Option<u32>,
    /// By currency
    #[schema(value_type = Option<Object>)]
    batch_amount_limit: Option<Value>,
    /// Days
    #[schema(minimum = 1, maximum = 28)]
    draft_expires_after: Option<u32>,
    client: Option<String>,
    sender: Option<String>,
    /// `on`, `first_after_due`, `second_after`, `final_after`, `first_template`, `second_template`, `final_template`
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
}

pub(in crate::v1) struct Setting(Value);

impl FromFields for Setting {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        Some(Self(Value::Object(fields.everything())))
    }
}

/// What a preview is made with.
#[derive(ToSchema)]
#[schema(as = NewReminderPreview)]
pub(in crate::v1) struct PreviewAsked {
    /// `first` by default
    #[schema(value_type = Option<String>, pattern = "^(first|second|final)$")]
    reminder_type: Option<Kind>,
    #[schema(value_type = Option<Object>)]
    variables: Option<Map<String, Value>>,
}

impl FromFields for PreviewAsked {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let kind = fields.optional("reminder_type");
        let variables = fields.optional_object("variables");
        Some(Self { reminder_type: kind?, variables: variables? })
    }
}

/// List the templates of reminders
///
/// The active version of each. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminder-templates",
    tag = "Reminders",
    security(("key" = [])),
    responses(
        (status = 200, description = "The templates", body = ListBody<TemplateBody>),
        Refusals
    )
)]
pub(in crate::v1) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
) -> Result<Json<ListBody<TemplateBody>>, Problem> {
    let cx = v1.cx(&who);
    let items = templates::list(&cx).await?;
    Ok(page(tidings_reminders::Page { items, next: None }))
}

/// Show a template of reminders
///
/// Its active version. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminder-templates/{template}",
    tag = "Reminders",
    security(("key" = [])),
    params(("template" = String, Path)),
    responses(
        (status = 200, description = "The template", body = TemplateBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
) -> Result<Json<TemplateBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(templates::get(&cx, &id, None).await?.into()))
}

/// List the versions of a template of reminders
///
/// The newest first. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminder-templates/{template}/versions",
    tag = "Reminders",
    security(("key" = [])),
    params(("template" = String, Path)),
    responses(
        (status = 200, description = "The versions", body = ListBody<TemplateBody>),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn versions(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
) -> Result<Json<ListBody<TemplateBody>>, Problem> {
    let cx = v1.cx(&who);
    let items = templates::versions(&cx, &id).await?;
    if items.is_empty() {
        return Err(Problem::not_found("there is no such template"));
    }
    Ok(page(tidings_reminders::Page { items, next: None }))
}

/// Write a template of reminders
///
/// It is the next version, and the active one. The same again makes none. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/reminder-templates/{template}",
    tag = "Reminders",
    security(("key" = [])),
    params(("template" = String, Path)),
    request_body = NewTemplateBody,
    responses(
        (status = 200, description = "The template", body = TemplateBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn put(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(id): Path<String>,
    Body(new): Body<NewTemplate>,
) -> Result<Json<TemplateBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(templates::put(&cx, new.of(id)).await?.into()))
}

/// See what a template of reminders says
///
/// With an example customer. Needs the scope `read`.
#[utoipa::path(
    post,
    path = "/v1/reminder-templates/{template}/preview",
    tag = "Reminders",
    security(("key" = [])),
    params(("template" = String, Path)),
    request_body = PreviewAsked,
    responses(
        (status = 200, description = "What it says", body = PreviewBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It cannot be rendered", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn preview(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
    Body(asked): Body<PreviewAsked>,
) -> Result<Json<PreviewBody>, Problem> {
    let cx = v1.cx(&who);
    let kind = asked.reminder_type.unwrap_or(Kind::First);
    let variables = asked.variables.unwrap_or_default();
    Ok(Json(templates::preview(&cx, &id, kind, None, &variables).await?.into()))
}

/// Show the settings of reminders
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/settings/reminders",
    tag = "Reminders",
    security(("key" = [])),
    responses(
        (status = 200, description = "What is in force", body = SettingsBody),
        Refusals
    )
)]
pub(in crate::v1) async fn settings(
    State(v1): State<V1>,
    who: Needs<Read>,
) -> Result<Json<Value>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(settings::get(&cx).await?.to_json()))
}

/// Set how reminders are decided and sent
///
/// All settings at once: what is left out is as by default. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/settings/reminders",
    tag = "Reminders",
    security(("key" = [])),
    request_body = SettingsBody,
    responses(
        (status = 200, description = "What is in force now", body = SettingsBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn put_settings(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(Setting(asked)): Body<Setting>,
) -> Result<Json<Value>, Problem> {
    let cx = v1.cx(&who);
    let asked = settings::parse(&asked).map_err(settings::PutError::Invalid)?;
    Ok(Json(settings::put(&cx, asked).await?.to_json()))
}
