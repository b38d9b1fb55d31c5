//! `/v1/senders`: whom a client writes as.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::clients;
use tidings_access::{ClientId, Cx, DisplayName, Slug};
use tidings_delivery::senders::{self, NewSender, Replace, ReplaceError, SenderIdentity};
use tidings_kernel::EmailAddress;
use utoipa::ToSchema;

use super::V1;
use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Fields, FromFields, Params};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = Sender)]
pub(super) struct SenderBody {
    /// What messages call it
    #[schema(example = "news", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    slug: String,
    #[schema(example = "news@example.org", format = Email, max_length = 254)]
    from_email: String,
    #[schema(example = "The shop", max_length = 100)]
    from_name: Option<String>,
    /// Where answers go, if not to `from_email`
    #[schema(format = Email, max_length = 254)]
    reply_to: Option<String>,
    /// Whether messages that name no sender come from it
    default: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// All senders of a client, by slug.
#[derive(Serialize, ToSchema)]
#[schema(as = Senders)]
pub(super) struct SendersBody {
    #[schema(max_items = 100)]
    data: Vec<SenderBody>,
}

#[derive(ToSchema)]
#[schema(as = NewSender)]
pub(super) struct OneSender {
    /// What messages call it: 1 to 40 lower-case letters, digits and hyphens
    #[schema(value_type = String, example = "news", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    slug: Slug,
    /// The address in From
    #[schema(value_type = String, example = "news@example.org", format = Email, max_length = 254)]
    from_email: EmailAddress,
    /// The name beside it
    #[schema(value_type = Option<String>, example = "The shop", max_length = 100)]
    from_name: Option<DisplayName>,
    /// Where answers go, if not to `from_email`
    #[schema(value_type = Option<String>, format = Email, max_length = 254)]
    reply_to: Option<EmailAddress>,
    /// Whether messages that name no sender come from it; at most one can be
    #[schema(default = false)]
    default: Option<bool>,
}

#[derive(ToSchema)]
pub(super) struct ReplaceSenders {
    /// Without a default among them the first one is it
    #[schema(max_items = 100)]
    senders: Vec<OneSender>,
}

/// Which client is meant: `client` of the query.
pub(super) struct OfClient {
    client: Option<Slug>,
}

/// List the senders
///
/// Of the key's client, or of another one of the workspace. In the order of their slugs. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/senders",
    tag = "Senders",
    security(("key" = [])),
    params(
        ("client" = Option<String>, Query, description = "The slug of another client", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")
    ),
    responses(
        (status = 200, description = "The senders", body = SendersBody),
        (status = 404, description = "There is no such client", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(of): Params<OfClient>,
) -> Result<Json<SendersBody>, Problem> {
    let cx = v1.cx(&who);
    let client = meant(&cx, who.caller().client_id, of).await?;
    Ok(Json(senders::list(&cx, client).await?.into()))
}

/// Replace the senders
///
/// Afterwards the key's client, or another one of the workspace, has exactly these. Doing it twice changes nothing.
/// Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/senders",
    tag = "Senders",
    security(("key" = [])),
    params(
        ("client" = Option<String>, Query, description = "The slug of another client", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")
    ),
    request_body = ReplaceSenders,
    responses(
        (status = 200, description = "The senders", body = SendersBody),
        (status = 404, description = "There is no such client", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query or the body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn replace(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Params(of): Params<OfClient>,
    Body(new): Body<ReplaceSenders>,
) -> Result<Json<SendersBody>, Problem> {
    let cx = v1.cx(&who);
    let client = meant(&cx, who.caller().client_id, of).await?;
    let senders = new.senders.into_iter().map(NewSender::from).collect();
    Ok(Json(senders::replace(&cx, Replace { client, senders }).await?.into()))
}

async fn meant(cx: &Cx, own: ClientId, of: OfClient) -> Result<ClientId, Problem> {
    match of.client {
        None => Ok(own),
        Some(slug) => Ok(clients::find(cx, slug).await?.id),
    }
}

impl FromFields for OfClient {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        Some(Self { client: fields.optional("client")? })
    }
}

impl FromFields for ReplaceSenders {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        Some(Self { senders: fields.objects("senders")? })
    }
}

impl FromFields for OneSender {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (slug, from_email) = (fields.required("slug"), fields.required("from_email"));
        let (from_name, reply_to) = (fields.optional("from_name"), fields.optional("reply_to"));
        let default = fields.optional_bool("default");
        Some(Self {
            slug: slug?,
            from_email: from_email?,
            from_name: from_name?,
            reply_to: reply_to?,
            default: default?,
        })
    }
}

impl From<OneSender> for NewSender {
    fn from(new: OneSender) -> Self {
        Self {
            slug: new.slug,
            from_email: new.from_email,
            from_name: new.from_name,
            reply_to: new.reply_to,
            is_default: new.default.unwrap_or(false),
        }
    }
}

impl From<Vec<SenderIdentity>> for SendersBody {
    fn from(senders: Vec<SenderIdentity>) -> Self {
        let body = |sender: SenderIdentity| SenderBody {
            slug: sender.slug.to_string(),
            from_email: sender.from_email.to_string(),
            from_name: sender.from_name.map(|name| name.to_string()),
            reply_to: sender.reply_to.map(|address| address.to_string()),
            default: sender.is_default,
            created_at: sender.created_at,
            updated_at: sender.updated_at,
        };
        Self { data: senders.into_iter().map(body).collect() }
    }
}

impl From<ReplaceError> for Problem {
    fn from(error: ReplaceError) -> Self {
        match error {
            ReplaceError::TooMany | ReplaceError::Twice(_) | ReplaceError::TwoDefaults(_, _) => {
                Self::invalid(vec![crate::problem::Violation {
                    field: "senders".to_owned(),
                    message: error.to_string(),
                }])
            }
            ReplaceError::Store(error) => error.into(),
        }
    }
}
