//! `/v1/templates/{key}/test-send`: trying a template on a few people.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_access::Slug;
use tidings_delivery::transactional::{TestSend, Tested};
use tidings_kernel::EmailAddress;
use utoipa::ToSchema;

use super::V1;
use super::auth::{Needs, Refusals, Send};
use super::input::{Body, Fields, FromFields};
use super::messages::{MAX_BATCH_KEY, ResultBody, header_key, unreserved};
use crate::problem::{Problem, ProblemBody};

#[derive(ToSchema)]
#[schema(as = TestSend)]
pub(super) struct NewTest {
    /// Whoever comes twice gets one
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 25, example = json!(["ada@example.org"]))]
    to: Vec<EmailAddress>,
    /// Any version; the active one if left out
    #[schema(value_type = Option<i64>, minimum = 1)]
    version: Option<i64>,
    /// Variables: up to 64 KB, and 8 deep. The template's examples stand in for what is absent
    #[schema(value_type = Option<Object>)]
    context: Map<String, Value>,
    /// One of the client's senders; the template's or the client's default if left out
    #[schema(value_type = Option<String>, pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    sender: Option<Slug>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TestSendResult)]
pub(super) struct TestedBody {
    /// One for each address, in the order of the request
    data: Vec<TestedOneBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TestSendResultOne)]
pub(super) struct TestedOneBody {
    #[schema(format = Email, example = "ada@example.org")]
    to: String,
    #[serde(flatten)]
    result: ResultBody,
}

/// Send a template to a few people to try it
///
/// Real mails, to 1 to 25 addresses, with `[Test] ` before the subject, `test: true` in their metadata and no tracking.
/// They are messages like any other: they are listed, and whoever must not be written to gets none. A version that is
/// not active can be tried too. Needs the scope `send`.
#[utoipa::path(
    post,
    path = "/v1/templates/{key}/test-send",
    tag = "Templates",
    security(("key" = [])),
    params(
        ("key" = String, Path, max_length = 200),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to ask again", max_length = 250)
    ),
    request_body = NewTest,
    responses(
        (status = 200, description = "What became of each", body = TestedBody),
        (status = 404, description = "There is no such template or version", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn send(
    State(v1): State<V1>,
    who: Needs<Send>,
    Path(key): Path<String>,
    headers: HeaderMap,
    Body(new): Body<NewTest>,
) -> Result<Json<TestedBody>, Problem> {
    let template = key.parse().map_err(|_| Problem::not_found("there is no such template"))?;
    let cmd = TestSend {
        client: who.caller().client_id,
        template,
        version: new.version,
        to: new.to,
        context: new.context,
        sender: new.sender,
        idempotency_key: header_key(&headers, MAX_BATCH_KEY)?.map(unreserved).transpose()?,
    };
    let told = v1.services.messages.test(&v1.cx(&who), cmd).await?;
    Ok(Json(TestedBody { data: told.into_iter().map(Into::into).collect() }))
}

impl FromFields for NewTest {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (to, sender) = (fields.required_list("to"), fields.optional("sender"));
        let context = fields.optional_object("context");
        let version = match fields.optional_integer("version") {
            Some(Some(version)) if version < 1 => {
                fields.wrong("version", "use the number of a version")
            }
            version => version,
        };
        Some(Self {
            to: to?,
            version: version?,
            context: context?.unwrap_or_default(),
            sender: sender?,
        })
    }
}

impl From<Tested> for TestedOneBody {
    fn from(tested: Tested) -> Self {
        let result = match tested.answer {
            Ok(accepted) => ResultBody::from(accepted),
            Err(error) => ResultBody::from(Problem::from(error)),
        };
        Self { to: tested.to.to_string(), result }
    }
}
