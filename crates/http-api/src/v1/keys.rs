//! `/v1/clients/{slug}/keys` and `/v1/keys`: the keys of a client.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::keys::{self, Create, CreateError, Excess, Issued, Key, Rate, RevokeError};
use tidings_access::{DisplayName, KeyId, Scope};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::clients::named;
use super::input::{Body, Fields, FromFields, Listing};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

#[derive(Serialize, ToSchema)]
#[schema(as = Key)]
pub(super) struct KeyBody {
    #[schema(example = "4fR9aZkQ0b2X")]
    public_id: String,
    #[schema(example = "shop")]
    client: String,
    #[schema(example = "live")]
    name: String,
    #[schema(example = json!(["send", "read"]))]
    scopes: Vec<&'static str>,
    requests_per_second: u32,
    burst: u32,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
    /// To the minute
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = IssuedKey)]
pub(super) struct IssuedBody {
    #[serde(flatten)]
    key_data: KeyBody,
    /// The key itself. It is shown here and never again.
    #[schema(example = "tdg_4fR9aZkQ0b2X_…")]
    key: String,
}

pub(super) struct NewKey {
    name: DisplayName,
    scopes: Vec<Scope>,
    rate: AskedRate,
    expires_at: Option<Timestamp>,
}

/// Numbers that a rate can have, where there are any.
struct AskedRate {
    per_second: Option<i64>,
    burst: Option<i64>,
}

#[derive(ToSchema)]
#[schema(as = NewKey)]
#[expect(dead_code, reason = "`NewKey` is read field by field; this says how it looks")]
struct NewKeyBody {
    /// A name for people, once among the client's keys that are not revoked
    #[schema(example = "live", max_length = 100)]
    name: String,
    /// At least one of send, read, manage, inbox:user, inbox:admin, events, and none that your own key lacks
    #[schema(min_items = 1, max_items = 100, example = json!(["send", "read"]))]
    scopes: Vec<String>,
    /// At most as many as your own key may make; if there is no number, 100 or what your key has, if that is less
    #[schema(minimum = 1, maximum = 100_000, default = 100)]
    requests_per_second: Option<i64>,
    /// How many requests may come at once: at most as many as from your own key; if there is no number, 200 or what
    /// your key has, if that is less
    #[schema(minimum = 1, maximum = 1_000_000, default = 200)]
    burst: Option<i64>,
    /// When it stops working: never, if there is no time. If your own key expires this is needed, and cannot be later
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

/// List a client's keys
///
/// In the order in which they were made, revoked ones too. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/clients/{slug}/keys",
    tag = "Access",
    security(("key" = [])),
    params(
        ("slug" = String, Path),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of keys", body = ListBody<KeyBody>),
        (status = 404, description = "There is no such client", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(slug): Path<String>,
    Listing { after, limit }: Listing<KeyId>,
) -> Result<Json<ListBody<KeyBody>>, Problem> {
    let cx = v1.cx(&who);
    Ok(ListBody::answer(keys::list(&cx, named(&slug)?, after, limit).await?))
}

/// Make a key
///
/// The answer is the only place that ever has it. If the answer is lost, revoke the key and make another one.
/// Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/clients/{slug}/keys",
    tag = "Access",
    security(("key" = [])),
    params(("slug" = String, Path)),
    request_body = NewKeyBody,
    responses(
        (status = 201, description = "It works", body = IssuedBody),
        (status = 404, description = "There is no such client", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The name is taken", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn create(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(slug): Path<String>,
    Body(new): Body<NewKey>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let create = Create {
        client: named(&slug)?,
        name: new.name,
        scopes: new.scopes.into_iter().collect(),
        rate: new.rate.or(Rate::default_within(who.caller().rate)),
        expires_at: new.expires_at,
        granted_by: who.caller().as_granter(),
    };
    let issued = keys::create(&cx, create).await?;
    let unstored = [(header::CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, unstored, Json(IssuedBody::from(issued))))
}

/// Revoke a key
///
/// From the next request on, on other nodes within a second, for ever. Doing it twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/keys/{public_id}",
    tag = "Access",
    security(("key" = [])),
    params(("public_id" = String, Path)),
    responses(
        (status = 200, description = "It is refused", body = KeyBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn revoke(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(public_id): Path<String>,
) -> Result<Json<KeyBody>, Problem> {
    let id = public_id.parse().map_err(|_| Problem::not_found("there is no such key"))?;
    Ok(Json(keys::revoke(&v1.cx(&who), id).await?.into()))
}

impl FromFields for NewKey {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let name = fields.required("name");
        let scopes = fields.required_list("scopes");
        let rate = rate(fields);
        let expires_at = fields.optional_time("expires_at");
        Some(Self { name: name?, scopes: scopes?, rate: rate?, expires_at: expires_at? })
    }
}

fn rate(fields: &mut Fields) -> Option<AskedRate> {
    let per_second = fields.optional_integer("requests_per_second");
    let burst = fields.optional_integer("burst");
    let (per_second, burst) = (per_second?, burst?);
    // One after the other, so that each is named if both are wrong.
    if let Err(error) = Rate::new(per_second.unwrap_or(1), 1) {
        fields.wrong::<Rate>("requests_per_second", error);
    }
    if let Err(error) = Rate::new(1, burst.unwrap_or(1)) {
        fields.wrong::<Rate>("burst", error);
    }
    Some(AskedRate { per_second, burst })
}

impl AskedRate {
    fn or(&self, default: Rate) -> Rate {
        let per_second = self.per_second.unwrap_or(default.per_second().into());
        let burst = self.burst.unwrap_or(default.burst().into());
        Rate::new(per_second, burst).expect("a body with a wrong number is refused when it is read")
    }
}

impl From<Key> for KeyBody {
    fn from(key: Key) -> Self {
        Self {
            public_id: key.public_id.to_string(),
            client: key.client.to_string(),
            name: key.name.to_string(),
            scopes: key.scopes.iter().map(Scope::as_str).collect(),
            requests_per_second: key.rate.per_second(),
            burst: key.rate.burst(),
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
            created_at: key.created_at,
        }
    }
}

impl From<Issued> for IssuedBody {
    fn from(issued: Issued) -> Self {
        Self { key: issued.api_key.expose(), key_data: issued.key.into() }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::ClientMissing(_) => Self::not_found(error),
            CreateError::Taken { .. } => Self::conflict(error),
            CreateError::Beyond(_) => Self::new(StatusCode::FORBIDDEN, "missing_scope", error),
            CreateError::Excessive(excess) => Self::invalid(excess.iter().map(too_much).collect()),
            CreateError::ExpiryPast => Self::invalid(vec![violation("expires_at", &error)]),
            CreateError::Store(error) => error.into(),
        }
    }
}

fn too_much(excess: &Excess) -> Violation {
    let field = match excess {
        Excess::PerSecond(_) => "requests_per_second",
        Excess::Burst(_) => "burst",
        Excess::Expiry(_) => "expires_at",
    };
    violation(field, excess)
}

fn violation(field: &str, message: &impl ToString) -> Violation {
    Violation { field: field.to_owned(), message: message.to_string() }
}

impl From<RevokeError> for Problem {
    fn from(error: RevokeError) -> Self {
        match error {
            RevokeError::Missing(_) => Self::not_found(error),
            RevokeError::Store(error) => error.into(),
        }
    }
}
