//! `/v1/subscriptions`: asking for mail, taking that back, and giving it again.

mod bodies;

use std::fmt::Display;

use axum::Json;
use axum::extract::State;
use tidings_access::{ClientId, Cx, Slug, clients};
use tidings_people::consent::rules::Refusal;
use tidings_people::consent::subscriptions::{
    self, ConsentError, Resubscribe, Subscribe, Unsubscribe,
};
use tidings_people::consent::{AudienceId, By, Scope, audiences};

pub(super) use self::bodies::SubscriptionBody;
pub(super) use self::bodies::read_proof;
use self::bodies::{NewSubscription, OutcomeBody, ScopeChange, ToChange, ToSubscribe, Word};
use super::V1;
use super::auth::{Manage, Needs, Refusals};
use super::confirmation;
use super::input::Body;
use crate::problem::{Problem, ProblemBody, Violation};

/// Subscribe somebody
///
/// Where the audience wants a confirmation, the subscription is pending until it comes, and `to_confirm` says so: then a
/// mail with a link asks for it, made from the audience's template and sent by the client that calls. Each call while it
/// is pending sends one more, at most three within 24 hours. What the person took back comes back only `by` the person,
/// or by an operator with a reason. Otherwise doing it twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/subscriptions",
    tag = "Consent",
    security(("key" = [])),
    request_body = NewSubscription,
    responses(
        (status = 200, description = "How things stand now", body = OutcomeBody),
        (status = 409, description = "The person has unsubscribed, and this may not take it back", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn subscribe(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(new): Body<ToSubscribe>,
) -> Result<Json<OutcomeBody>, Problem> {
    let cx = v1.cx(&who);
    let audience = the_audience(&cx, new.audience).await?;
    let client = match new.client {
        Some(client) => Some(the_client(&cx, client).await?),
        None => None,
    };
    let email = new.said.email.clone();
    let cmd = Subscribe {
        whom: email.into(),
        audience,
        client,
        confirmed: new.confirmed.unwrap_or(false),
        act: new.said.act(By::Import),
    };
    let asks = who.caller().client_id;
    let outcome = subscriptions::subscribe_and_ask(&cx, cmd, asks).await?;
    // The mail is on its way in any case; made here, the answer can tell what becomes of it.
    let confirmation = confirmation::ask(&v1, &cx, asks, &outcome).await?;
    Ok(Json(OutcomeBody { confirmation, ..outcome.into() }))
}

/// Unsubscribe somebody
///
/// From one client's mail to an audience, from the whole audience, or from everything but transactional mail: also if
/// nobody knew the person. Doing it twice changes nothing, and the first date stays. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/subscriptions/unsubscribe",
    tag = "Consent",
    security(("key" = [])),
    request_body = ScopeChange,
    responses(
        (status = 200, description = "How things stand now", body = OutcomeBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn unsubscribe(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(change): Body<ToChange>,
) -> Result<Json<OutcomeBody>, Problem> {
    let cx = v1.cx(&who);
    let scope = change.scope(&cx).await?;
    let whom = change.said.email.clone().into();
    let cmd = Unsubscribe { whom, scope, act: change.said.act(By::Person) };
    Ok(Json(subscriptions::unsubscribe(&cx, cmd).await?.into()))
}

/// Take an unsubscription back
///
/// Only `by` the person, or by an operator with a reason: which of them has to be said, because it is kept as proof. Doing it
/// twice changes nothing. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/subscriptions/resubscribe",
    tag = "Consent",
    security(("key" = [])),
    request_body = ScopeChange,
    responses(
        (status = 200, description = "How things stand now", body = OutcomeBody),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "This may not take it back", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn resubscribe(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(change): Body<ToChange>,
) -> Result<Json<OutcomeBody>, Problem> {
    let cx = v1.cx(&who);
    // A program that repeats what it knows must not bring anybody back because it left something out.
    let by =
        change.said.by.ok_or_else(|| wrong("by", &"this is required: use person or operator"))?;
    let scope = change.scope(&cx).await?;
    let whom = change.said.email.clone().into();
    let cmd = Resubscribe { whom, scope, act: change.said.act(by) };
    Ok(Json(subscriptions::resubscribe(&cx, cmd).await?.into()))
}

pub(super) async fn the_audience(cx: &Cx, slug: Slug) -> Result<AudienceId, Problem> {
    match audiences::find(cx, slug).await {
        Ok(audience) => Ok(audience.id),
        Err(error @ audiences::FindError::Missing(_)) => Err(wrong("audience", &error)),
        Err(audiences::FindError::Store(error)) => Err(error.into()),
    }
}

pub(super) async fn the_client(cx: &Cx, slug: Slug) -> Result<ClientId, Problem> {
    match clients::find(cx, slug).await {
        Ok(client) => Ok(client.id),
        Err(error @ clients::FindError::Missing(_)) => Err(wrong("client", &error)),
        Err(clients::FindError::Store(error)) => Err(error.into()),
    }
}

/// What a body or a query names is not there.
pub(in crate::v1) fn wrong(field: &str, error: &impl Display) -> Problem {
    let violation = Violation { field: field.to_owned(), message: error.to_string() };
    Problem::invalid(vec![violation])
}

impl ToChange {
    async fn scope(&self, cx: &Cx) -> Result<Scope, Problem> {
        match (self.scope, self.audience.clone(), self.client.clone()) {
            (Word::Client, Some(audience), Some(client)) => {
                Ok(Scope::Client(the_audience(cx, audience).await?, the_client(cx, client).await?))
            }
            (Word::Audience, Some(audience), _) => {
                Ok(Scope::Audience(the_audience(cx, audience).await?))
            }
            // What is missing was noted when the body was read.
            (Word::Client | Word::Audience | Word::Global, _, _) => Ok(Scope::Global),
        }
    }
}

impl From<ConsentError> for Problem {
    fn from(error: ConsentError) -> Self {
        match error {
            ConsentError::NoContact | ConsentError::NoAudience(_) | ConsentError::NoClient(_) => {
                Self::not_found(error)
            }
            ConsentError::Refused(Refusal::NeedsReason | Refusal::NotByImport) => {
                Self::conflict(error)
            }
            ConsentError::Store(error) => error.into(),
        }
    }
}
