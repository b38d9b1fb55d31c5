//! Who is let in to an inbox: a user by his token, or a back end by its key in the name of a user.

use std::fmt::Display;

use axum::extract::{FromRequestParts, Query, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use tidings_access::keys::{PublicId, Rate};
use tidings_access::{Cx, Scope};
use tidings_inbox::Reader;
use tidings_inbox::keys::{NameError, UserId};
use tidings_inbox::tokens::{PREFIX, TokenError, Visitor};

use super::cors;
use crate::problem::{Problem, Violation};
use crate::v1::auth::{self, REFUSED_METRIC};
use crate::v1::quota::Quota;
use crate::v1::{V1, inbox};

const USER: HeaderName = HeaderName::from_static("x-user-id");

/// Somebody who was let in to his inboxes.
#[derive(Clone)]
pub(in crate::v1) struct Admitted {
    cx: Cx,
    uid: UserId,
    /// Whom a token is for. A back end may open every inbox.
    visitor: Option<Visitor>,
    by: By,
    /// From when on the token or the key is not good any more.
    expires_at: Option<Timestamp>,
}

/// Somebody in one of his inboxes. Without it in the signature a handler does not know whose inbox it is about.
pub(super) struct Visit {
    pub(super) cx: Cx,
    pub(super) reader: Reader,
    /// From when on he is not let in any more.
    pub(super) expires_at: Option<Timestamp>,
    /// What he came in by, which can be taken away at any time.
    pub(super) by: By,
}

/// What somebody came in by.
#[derive(Debug, Clone)]
pub(super) enum By {
    /// A token that this key has signed.
    Token { signed_by: i64 },
    /// The key of a back end.
    Key(PublicId),
}

pub(in crate::v1) async fn admit(
    State(v1): State<V1>,
    mut request: Request,
    next: Next,
) -> Response {
    let (admitted, quota) = match who(&v1, request.headers(), request.uri()).await {
        Ok(found) => found,
        Err(problem) => return problem.into_response(),
    };
    let admitted = match admitted {
        Ok(admitted) if quota.retry_after.is_none() => {
            cors::check(&v1.services.inbox, &admitted.cx, request.headers())
                .await
                .map(|()| admitted)
        }
        refused => refused,
    };
    let mut response = match (admitted, quota.retry_after) {
        (_, Some(seconds)) => too_often(seconds).into_response(),
        (Err(problem), None) => problem.into_response(),
        (Ok(admitted), None) => {
            request.extensions_mut().insert(admitted);
            next.run(request).await
        }
    };
    auth::tell(quota, response.headers_mut());
    response
}

/// Who it is, and what is left of his quota. The inner error is for one whom we know and who still may not come in.
async fn who(
    v1: &V1,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(Result<Admitted, Problem>, Quota), Problem> {
    let presented = auth::presented(headers).or_else(|| token_of_query(uri));
    let presented = presented.ok_or_else(nobody)?;
    let now = v1.services.access.now();
    if presented.starts_with(PREFIX) {
        let found = v1.services.tokens.visitor(&v1.services.access, &presented).await;
        let (cx, visitor) = found.map_err(refused)?;
        let uid = visitor.uid.clone();
        let key = (cx.workspace_id().get(), uid.clone());
        let quota = v1.visitors.take(key, Rate::default(), now);
        let (by, expires_at) =
            (By::Token { signed_by: visitor.signed_by }, Some(visitor.expires_at));
        return Ok((Ok(Admitted { cx, uid, visitor: Some(visitor), by, expires_at }), quota));
    }
    let caller = auth::identified(v1, &presented).await?;
    let quota = v1.quotas.take(caller.key_id, caller.rate, now);
    if let Err(problem) = auth::check_scope(&caller, Scope::InboxUser) {
        return Ok((Err(problem), quota));
    }
    let cx = v1.services.access.on_behalf_of(&caller);
    let (by, expires_at) = (By::Key(caller.public_id.clone()), caller.expires_at);
    let admitted = user(headers).map(|uid| Admitted { cx, uid, visitor: None, by, expires_at });
    Ok((admitted, quota))
}

/// Browsers cannot send a header with an `EventSource`, so a stream takes it there too.
fn token_of_query(uri: &Uri) -> Option<String> {
    if !uri.path().ends_with("/stream") {
        return None;
    }
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
    let token = pairs.into_iter().find(|(name, _)| name == "token")?.1;
    // A key never stands in an address: those are logged by everybody on the way.
    token.starts_with(PREFIX).then_some(token)
}

fn user(headers: &HeaderMap) -> Result<UserId, Problem> {
    let Some(said) = headers.get(USER) else {
        return Err(wrong_user(&"with an API key this is required: whose inbox is it?"));
    };
    // Ids may have letters of any language; headers are bytes.
    let said = std::str::from_utf8(said.as_bytes()).unwrap_or_default();
    said.parse().map_err(|error: NameError| wrong_user(&error))
}

fn wrong_user(message: &dyn Display) -> Problem {
    Problem::invalid(vec![Violation {
        field: "X-User-Id".to_owned(),
        message: message.to_string(),
    }])
}

fn nobody() -> Problem {
    let detail =
        "this needs a user token (Authorization: Bearer tdu_…), or an API key and X-User-Id";
    let challenge = HeaderValue::from_static("Bearer realm=\"tidings\"");
    Problem::from_status(StatusCode::UNAUTHORIZED, detail)
        .header(header::WWW_AUTHENTICATE, challenge)
}

/// The reason is for the log; to the caller they are all one. He gets a new token in any case.
pub(super) fn refused(error: TokenError) -> Problem {
    let reason = error.reason();
    match error {
        TokenError::Store(error) => error.into(),
        TokenError::Invalid
        | TokenError::Expired
        | TokenError::WorkspaceDisabled
        | TokenError::Forgotten => {
            metrics::counter!(REFUSED_METRIC, "reason" => reason).increment(1);
            tracing::info!(reason, "A user token was refused: {error}");
            let challenge =
                HeaderValue::from_static("Bearer realm=\"tidings\", error=\"invalid_token\"");
            Problem::from_status(StatusCode::UNAUTHORIZED, "this token is not valid (any more)")
                .header(header::WWW_AUTHENTICATE, challenge)
        }
    }
}

pub(super) fn too_often(seconds: u64) -> Problem {
    let detail = format!("there were too many requests; try again in {seconds} s");
    Problem::from_status(StatusCode::TOO_MANY_REQUESTS, detail)
        .header(header::RETRY_AFTER, seconds.into())
}

impl Admitted {
    pub(in crate::v1) fn cx(&self) -> &Cx {
        &self.cx
    }

    pub(in crate::v1) fn uid(&self) -> &UserId {
        &self.uid
    }
}

impl FromRequestParts<V1> for Visit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, v1: &V1) -> Result<Self, Problem> {
        // A route that was put outside of `admit` by mistake lets nobody in.
        let admitted = parts.extensions.get::<Admitted>().cloned().ok_or_else(nobody)?;
        let params = RawPathParams::from_request_parts(parts, v1).await;
        let params = params.map_err(|_| Problem::not_found("there can be no such inbox"))?;
        let named = params.iter().find(|(name, _)| *name == "inbox").map(|(_, key)| key);
        let inbox = inbox::key(named.unwrap_or_default())?;
        if admitted.visitor.as_ref().is_some_and(|visitor| !visitor.may_open(&inbox)) {
            let detail = "this token does not open this inbox";
            return Err(Problem::new(StatusCode::FORBIDDEN, "other_inbox", detail));
        }
        let Admitted { cx, uid, visitor, by, expires_at } = admitted;
        let let_in = visitor.map(|visitor| visitor.issued_at);
        Ok(Self { cx, reader: Reader { inbox, uid, let_in }, expires_at, by })
    }
}

impl Visit {
    /// A word that is the same for the same user.
    pub(super) fn user(&self, v1: &V1) -> String {
        v1.services.tokens.pseudonym(&self.cx, &self.reader.uid)
    }
}
