//! Who is calling, and whether the key allows it.
//!
//! `identify` runs before every route with a key: it finds out whose key it is and takes the request out of the
//! key's quota. A handler then asks for what it needs in its signature.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tidings_access::{AuthError, Caller, Cx, Scope, Scopes, authenticate};
use utoipa::IntoResponses;

use super::V1;
use super::quota::Quota;
use crate::problem::{Problem, ProblemBody};

/// Keys that were refused, by reason.
pub const REFUSED_METRIC: &str = "tidings_refused_keys_total";

/// A caller whose key has a scope. Without it in the signature a handler does not know its workspace.
pub(super) struct Needs<S>(Arc<Caller>, PhantomData<S>);

/// A caller with any key.
pub(super) struct AnyKey(pub(super) Arc<Caller>);

pub(super) trait Required {
    const SCOPE: Scope;

    /// Whether these open it: the scope itself, and where one scope implies another, that one.
    fn is_in(scopes: &Scopes) -> bool {
        scopes.has(Self::SCOPE)
    }
}

pub(super) struct Read;
pub(super) struct Send;
pub(super) struct Manage;
pub(super) struct InboxUser;
pub(super) struct InboxAdmin;
pub(super) struct RemindersDraft;
pub(super) struct RemindersApprove;

impl Required for Read {
    const SCOPE: Scope = Scope::Read;
}

impl Required for Send {
    const SCOPE: Scope = Scope::Send;
}

impl Required for Manage {
    const SCOPE: Scope = Scope::Manage;
}

impl Required for RemindersDraft {
    const SCOPE: Scope = Scope::RemindersDraft;

    fn is_in(scopes: &Scopes) -> bool {
        scopes.can_draft_reminders()
    }
}

impl Required for RemindersApprove {
    const SCOPE: Scope = Scope::RemindersApprove;

    fn is_in(scopes: &Scopes) -> bool {
        scopes.can_approve_reminders()
    }
}

impl Required for InboxUser {
    const SCOPE: Scope = Scope::InboxUser;
}

impl Required for InboxAdmin {
    const SCOPE: Scope = Scope::InboxAdmin;
}

/// What every route with a key can answer besides its own.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it describes what `identify` and `Needs` answer")]
pub(super) enum Refusals {
    /// There is no key, or it is not good (any more)
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(ProblemBody),
    /// The key lacks the scope
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(ProblemBody),
    /// The key was used too often; see Retry-After
    #[response(status = 429, content_type = "application/problem+json")]
    TooMany(ProblemBody),
}

pub(super) async fn identify(State(v1): State<V1>, mut request: Request, next: Next) -> Response {
    let caller = match who(&v1, request.headers()).await {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let quota = v1.quotas.take(caller.key_id, caller.rate, v1.services.access.now());
    let mut response = match quota.retry_after {
        None => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Some(seconds) => too_often(&caller, seconds).into_response(),
    };
    tell(quota, response.headers_mut());
    response
}

async fn who(v1: &V1, headers: &HeaderMap) -> Result<Arc<Caller>, Problem> {
    identified(v1, &presented(headers).ok_or_else(nobody)?).await
}

/// Whose key it is.
pub(super) async fn identified(v1: &V1, key: &str) -> Result<Arc<Caller>, Problem> {
    authenticate(&v1.services.access, key).await.map_err(refused)
}

/// The key or the token that a request comes with.
pub(super) fn presented(headers: &HeaderMap) -> Option<String> {
    let presented = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or_default();
    match presented.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Some(key.trim().to_owned()),
        Some((scheme, pair)) if scheme.eq_ignore_ascii_case("basic") => user_of(pair.trim()),
        _ => None,
    }
}

/// The name in a pair of name and password. Libraries that know nothing but those give the key as the name, Segment's do.
fn user_of(pair: &str) -> Option<String> {
    let pair = String::from_utf8(BASE64_STANDARD.decode(pair).ok()?).ok()?;
    pair.split_once(':').map(|(user, _)| user.to_owned())
}

fn nobody() -> Problem {
    let detail = "this needs an API key: send it as Authorization: Bearer tdg_…";
    let challenge = HeaderValue::from_static("Bearer realm=\"tidings\"");
    Problem::from_status(StatusCode::UNAUTHORIZED, detail)
        .header(header::WWW_AUTHENTICATE, challenge)
}

/// The reason is for the log. To the caller they are all one, or a guesser would learn which keys exist.
fn refused(error: AuthError) -> Problem {
    let reason = error.reason();
    match error {
        AuthError::Store(error) => error.into(),
        AuthError::Malformed
        | AuthError::Unknown
        | AuthError::Wrong
        | AuthError::Revoked
        | AuthError::Expired
        | AuthError::ClientDisabled
        | AuthError::WorkspaceDisabled => {
            metrics::counter!(REFUSED_METRIC, "reason" => reason).increment(1);
            tracing::info!(reason, "A key was refused: {error}");
            let challenge =
                HeaderValue::from_static("Bearer realm=\"tidings\", error=\"invalid_token\"");
            Problem::from_status(StatusCode::UNAUTHORIZED, "this API key is not valid")
                .header(header::WWW_AUTHENTICATE, challenge)
        }
    }
}

fn too_often(caller: &Caller, seconds: u64) -> Problem {
    let rate = caller.rate.per_second();
    let detail = format!("this key may make {rate} requests a second; try again in {seconds} s");
    Problem::from_status(StatusCode::TOO_MANY_REQUESTS, detail)
        .header(header::RETRY_AFTER, seconds.into())
}

pub(super) fn tell(quota: Quota, headers: &mut HeaderMap) {
    for (name, value) in [
        ("ratelimit-limit", quota.limit.into()),
        ("ratelimit-remaining", quota.remaining.into()),
        ("ratelimit-reset", quota.reset.into()),
    ] {
        headers.insert(HeaderName::from_static(name), value);
    }
}

impl<S> Needs<S> {
    pub(super) fn caller(&self) -> &Caller {
        &self.0
    }
}

impl V1 {
    pub(super) fn cx<S>(&self, who: &Needs<S>) -> Cx {
        self.services.access.on_behalf_of(who.caller())
    }
}

impl<S: Required> FromRequestParts<V1> for Needs<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &V1) -> Result<Self, Problem> {
        let caller = caller(parts)?;
        if !S::is_in(&caller.scopes) {
            check_scope(&caller, S::SCOPE)?;
        }
        Ok(Self(caller, PhantomData))
    }
}

pub(super) fn check_scope(caller: &Caller, scope: Scope) -> Result<(), Problem> {
    if caller.scopes.has(scope) {
        return Ok(());
    }
    let detail = format!("this key lacks the scope {scope}");
    Err(Problem::new(StatusCode::FORBIDDEN, "missing_scope", detail))
}

impl FromRequestParts<V1> for AnyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &V1) -> Result<Self, Problem> {
        caller(parts).map(Self)
    }
}

/// A route that was put outside of `identify` by mistake lets nobody in.
fn caller(parts: &Parts) -> Result<Arc<Caller>, Problem> {
    parts.extensions.get::<Arc<Caller>>().cloned().ok_or_else(nobody)
}
