//! `/v1/contacts/{email}/eligibility`: whether a message may go to a person now, and why (not).

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::Slug;
use tidings_delivery::eligibility::{self, Checked, Explanation, Kind, Outcome, Question, Reason};
use tidings_people::consent::topics;
use utoipa::ToSchema;

use super::V1;
use super::auth::{Needs, Read, Refusals};
use super::contacts::addressed;
use super::input::{Fields, FromFields, Params};
use super::subscriptions::{the_audience, the_client, wrong};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = Eligibility)]
pub(super) struct ExplanationBody {
    /// `send`, `skip` or `defer`
    #[schema(value_type = String, pattern = "^(send|skip|defer)$")]
    verdict: &'static str,
    /// Why not
    #[schema(value_type = Option<String>, example = "global_unsubscribe")]
    reason: Option<&'static str>,
    /// When a message that has to wait can be tried again
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// All checks in their order; the first that stops the message or puts it off decides
    checks: Vec<CheckBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = EligibilityCheck)]
pub(super) struct CheckBody {
    #[schema(value_type = String, example = "suppression")]
    check: &'static str,
    #[schema(value_type = String, pattern = "^(passed|not_asked|stopped|put_off)$")]
    outcome: &'static str,
    #[schema(value_type = Option<String>, example = "hard_bounce")]
    reason: Option<&'static str>,
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// What it was decided on, in words
    fact: String,
}

pub(super) struct Asked {
    kind: Kind,
    client: Option<Slug>,
    audience: Option<Slug>,
    topic: Option<Slug>,
}

/// Explain whether a contact can be written to
///
/// It is the same function that decides when a message is sent. An address that is nobody's is explained as well: it may be
/// suppressed. Asking changes nothing. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}/eligibility",
    tag = "Consent",
    security(("key" = [])),
    params(
        ("email" = String, Path),
        ("kind" = String, Query, description = "Of the message", pattern = "^(transactional|sequence|campaign|reminder)$"),
        ("client" = Option<String>, Query, description = "Who sends it; the caller's client if left out", pattern = "^[a-z0-9][a-z0-9-]{0,39}$"),
        ("audience" = Option<String>, Query, description = "To which audience it goes", pattern = "^[a-z0-9][a-z0-9-]{0,39}$"),
        ("topic" = Option<String>, Query, description = "What it is about", pattern = "^[a-z0-9][a-z0-9-]{0,39}$")
    ),
    responses(
        (status = 200, description = "Whether, and why (not)", body = ExplanationBody),
        (status = 404, description = "This is no address", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn explain(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(email): Path<String>,
    Params(asked): Params<Asked>,
) -> Result<Json<ExplanationBody>, Problem> {
    let cx = v1.cx(&who);
    let email = addressed(&email)?;
    let client = match asked.client {
        Some(client) => the_client(&cx, client).await?,
        None => who.caller().client_id,
    };
    let audience = match asked.audience {
        Some(audience) => Some(the_audience(&cx, audience).await?),
        None => None,
    };
    let topic = match asked.topic.map(|topic| topics::find(&cx, topic)) {
        Some(found) => match found.await {
            Ok(topic) => Some(topic.id),
            Err(error @ topics::FindError::Missing(_)) => return Err(wrong("topic", &error)),
            Err(topics::FindError::Store(error)) => return Err(error.into()),
        },
        None => None,
    };
    let question = Question { kind: asked.kind, email, client, audience, topic };
    Ok(Json(eligibility::check(&cx, &question).await?.into()))
}

impl FromFields for Asked {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (kind, client) = (fields.required("kind"), fields.optional("client"));
        let (audience, topic) = (fields.optional("audience"), fields.optional("topic"));
        Some(Self { kind: kind?, client: client?, audience: audience?, topic: topic? })
    }
}

impl From<Explanation> for ExplanationBody {
    fn from(explanation: Explanation) -> Self {
        Self {
            verdict: explanation.verdict.as_str(),
            reason: explanation.verdict.reason().map(Reason::as_str),
            until: explanation.verdict.until(),
            checks: explanation.checks.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Checked> for CheckBody {
    fn from(checked: Checked) -> Self {
        let (reason, until) = match checked.outcome {
            Outcome::Passed | Outcome::NotAsked => (None, None),
            Outcome::Stopped(reason) => (Some(reason.as_str()), None),
            Outcome::PutOff { reason, until } => (Some(reason.as_str()), Some(until)),
        };
        let (check, outcome) = (checked.check.as_str(), checked.outcome.as_str());
        Self { check, outcome, reason, until, fact: checked.fact }
    }
}
