//! `/v1/subscriptions`: asking for mail, taking that back, and giving it again.

use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{ClientId, Cx, Slug, clients};
use tidings_kernel::EmailAddress;
use tidings_people::consent::rules::Refusal;
use tidings_people::consent::subscriptions::{
    self, ConsentError, Outcome, Resubscribe, Subscribe, Subscription, Unsubscribe,
};
use tidings_people::consent::{Act, AudienceId, By, Line, Proof, Scope, audiences};
use utoipa::ToSchema;

use super::V1;
use super::auth::{Manage, Needs, Refusals};
use super::confirmation::{self, ConfirmationBody};
use super::input::{Body, Fields, FromFields};
use crate::problem::{Problem, ProblemBody, Violation};

#[derive(Serialize, ToSchema)]
#[schema(as = Subscription)]
pub(super) struct SubscriptionBody {
    #[schema(minimum = 1)]
    id: i64,
    #[schema(example = "news")]
    audience: String,
    /// Whose mail to the audience it is about; null means everybody's
    #[schema(example = "shop")]
    client: Option<String>,
    #[schema(value_type = String, pattern = "^(pending|subscribed|unsubscribed)$")]
    status: &'static str,
    /// Where it came from first
    source: Option<String>,
    /// When the person has shown that it reads the mail to its address
    #[schema(value_type = Option<String>, format = DateTime)]
    verified_at: Option<Timestamp>,
    /// When the person last agreed
    #[schema(value_type = Option<String>, format = DateTime)]
    agreed_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    unsubscribed_at: Option<Timestamp>,
    unsubscribe_reason: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// How things stand afterwards.
#[derive(Serialize, ToSchema)]
#[schema(as = SubscriptionOutcome)]
pub(super) struct OutcomeBody {
    #[schema(minimum = 1)]
    contact_id: i64,
    /// The one that was meant, if there is one now
    subscription: Option<SubscriptionBody>,
    /// The person wants nothing but transactional mail, whatever the subscription says
    unsubscribed_from_everything: bool,
    /// A confirmation is waited for
    to_confirm: bool,
    /// The mail that asks for it, if this call was to send one
    confirmation: Option<ConfirmationBody>,
    /// Whether anything changed
    changed: bool,
}

/// Who it is, from where and why.
struct Said {
    email: EmailAddress,
    by: Option<By>,
    source: Option<Line>,
    reason: Option<Line>,
    proof: Proof,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `ToSubscribe` reads")]
pub(super) struct NewSubscription {
    /// Whom. A contact is made if there is none
    #[schema(format = "email", max_length = 254, example = "ada@example.org")]
    email: String,
    #[schema(example = "news", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    audience: String,
    /// To the mail of one client; left out, it is to the whole audience
    #[schema(example = "shop", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    client: Option<String>,
    /// The person has confirmed it already, and you have the proof
    confirmed: Option<bool>,
    /// Who acts: `import` (default) never brings back what was taken back, `person` does, and `operator` does with a
    /// `reason`
    #[schema(pattern = "^(person|operator|import)$")]
    by: Option<String>,
    /// Where it comes from: a form, a page, an import; `api` if left out
    #[schema(min_length = 1, max_length = 200)]
    source: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    reason: Option<String>,
    /// The person's address on the network, as proof
    #[schema(example = "203.0.113.7")]
    ip: Option<String>,
    /// The person's browser, as proof; 500 characters of it are kept
    #[schema(min_length = 1, max_length = 2000)]
    user_agent: Option<String>,
    /// Which version of your words the person agreed to
    #[schema(min_length = 1, max_length = 200)]
    text_version: Option<String>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `ToChange` reads")]
pub(super) struct ScopeChange {
    #[schema(format = "email", max_length = 254, example = "ada@example.org")]
    email: String,
    /// `client` (needs `audience` and `client`), `audience` (needs `audience`) or `global`
    #[schema(pattern = "^(client|audience|global)$")]
    scope: String,
    #[schema(example = "news", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    audience: Option<String>,
    #[schema(example = "shop", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")]
    client: Option<String>,
    /// Who acts; `person` if left out
    #[schema(pattern = "^(person|operator|import)$")]
    by: Option<String>,
    /// Where it comes from; `api` if left out
    #[schema(min_length = 1, max_length = 200)]
    source: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    reason: Option<String>,
    #[schema(example = "203.0.113.7")]
    ip: Option<String>,
    #[schema(min_length = 1, max_length = 2000)]
    user_agent: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    text_version: Option<String>,
}

pub(super) struct ToSubscribe {
    audience: Slug,
    client: Option<Slug>,
    confirmed: Option<bool>,
    said: Said,
}

pub(super) struct ToChange {
    scope: Word,
    audience: Option<Slug>,
    client: Option<Slug>,
    said: Said,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Client,
    Audience,
    Global,
}

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
    let outcome = subscriptions::subscribe(&cx, cmd).await?;
    let confirmation = confirmation::ask(&v1, &cx, who.caller().client_id, &outcome).await?;
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
/// Only `by` the person, or by an operator with a reason. Doing it twice changes nothing. Needs the scope `manage`.
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
    let scope = change.scope(&cx).await?;
    let whom = change.said.email.clone().into();
    let cmd = Resubscribe { whom, scope, act: change.said.act(By::Person) };
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
pub(super) fn wrong(field: &str, error: &impl Display) -> Problem {
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

impl Said {
    pub(super) fn act(self, by: By) -> Act {
        Act {
            by: self.by.unwrap_or(by),
            source: self.source.unwrap_or_else(|| "api".parse().expect("it is a line")),
            reason: self.reason,
            proof: self.proof,
        }
    }

    fn read(fields: &mut Fields) -> Option<Self> {
        let (email, by) = (fields.required("email"), fields.optional("by"));
        let (source, reason) = (fields.optional("source"), fields.optional("reason"));
        let ip = fields.optional::<Ip>("ip");
        let user_agent = fields.optional::<Long>("user_agent");
        let text_version = fields.optional("text_version");
        let proof = Proof {
            ip: ip?.map(|ip| ip.0),
            user_agent: user_agent?.map(|text| text.0),
            text_version: text_version?,
        };
        Some(Self { email: email?, by: by?, source: source?, reason: reason?, proof })
    }
}

struct Ip(IpAddr);

impl FromStr for Ip {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| "use an IP address such as 203.0.113.7 or 2001:db8::7")
    }
}

/// What a browser calls itself.
struct Long(String);

impl FromStr for Long {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.chars().count() {
            1..=2000 => Ok(Self(text.to_owned())),
            _ => Err("use 1 to 2000 characters"),
        }
    }
}

impl FromStr for Word {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "client" => Ok(Self::Client),
            "audience" => Ok(Self::Audience),
            "global" => Ok(Self::Global),
            _ => Err("use client, audience or global"),
        }
    }
}

impl FromFields for ToSubscribe {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (audience, client) = (fields.required("audience"), fields.optional("client"));
        let (confirmed, said) = (fields.optional_bool("confirmed"), Said::read(fields));
        Some(Self { audience: audience?, client: client?, confirmed: confirmed?, said: said? })
    }
}

impl FromFields for ToChange {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let scope = fields.required::<Word>("scope");
        let (audience, client) = (fields.optional("audience"), fields.optional("client"));
        let said = Said::read(fields);
        let (scope, audience, client) = (scope?, audience?, client?);
        if scope != Word::Global && audience.is_none() {
            return fields.wrong("audience", "this scope needs one");
        }
        if scope == Word::Client && client.is_none() {
            return fields.wrong("client", "this scope needs one");
        }
        Some(Self { scope, audience, client, said: said? })
    }
}

impl From<Subscription> for SubscriptionBody {
    fn from(subscription: Subscription) -> Self {
        Self {
            id: subscription.id.get(),
            audience: subscription.audience_slug.to_string(),
            client: subscription.client_slug.map(|slug| slug.to_string()),
            status: subscription.status.as_str(),
            source: subscription.source,
            verified_at: subscription.verified_at,
            agreed_at: subscription.agreed_at,
            unsubscribed_at: subscription.unsubscribed_at,
            unsubscribe_reason: subscription.unsubscribe_reason,
            created_at: subscription.created_at,
            updated_at: subscription.updated_at,
        }
    }
}

impl From<Outcome> for OutcomeBody {
    fn from(outcome: Outcome) -> Self {
        Self {
            contact_id: outcome.contact.get(),
            subscription: outcome.subscription.map(Into::into),
            unsubscribed_from_everything: outcome.left_everything,
            to_confirm: outcome.to_confirm,
            confirmation: None,
            changed: outcome.changed,
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
