//! `/v1/contacts/{email}/…`: what one person agreed to, prefers, and the proof of it.

use std::net::IpAddr;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_access::Slug;
use tidings_people::consent::preferences::{
    self, MAX_TOPICS, Preference, Preferences, Switch, SwitchError,
};
use tidings_people::consent::proof::{self, Entry, ProofId};
use tidings_people::consent::{Act, By, Line, Proof, subscriptions as consent_to};
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::contacts::{addressed, nobody};
use super::input::{Body, Fields, FromFields, Listing};
use super::subscriptions::{SubscriptionBody, read_proof, wrong};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = Preferences)]
pub(super) struct PreferencesBody {
    /// Every topic of the workspace, up to 100
    topics: Vec<PreferenceBody>,
    /// The person wants nothing but transactional mail, whatever the topics say
    unsubscribed_from_everything: bool,
    /// Nothing at all is sent to the person
    suppressed: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Preference)]
pub(super) struct PreferenceBody {
    #[schema(example = "tips")]
    topic: String,
    name: String,
    description: Option<String>,
    /// What nobody touched is on
    on: bool,
    #[schema(value_type = Option<String>, format = DateTime)]
    changed_at: Option<Timestamp>,
}

#[derive(ToSchema)]
pub(super) struct NewPreferences {
    /// Topics by their slugs, and whether each is on; those that are left out stay as they are. Up to 100
    #[schema(value_type = std::collections::BTreeMap<String, bool>, example = json!({"tips": false}))]
    topics: Vec<(Slug, bool)>,
    /// Who acts. If left out it is the `person` who switches off, and an `import` where a topic is to be on: that switches nothing
    /// on that was switched off
    #[schema(value_type = Option<String>, pattern = "^(person|operator|import)$")]
    by: Option<By>,
    /// Where it comes from; `api` if left out
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    source: Option<Line>,
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    reason: Option<Line>,
    /// The person's address on the network, as proof
    #[schema(value_type = Option<String>, example = "203.0.113.7")]
    ip: Option<IpAddr>,
    /// The person's browser, as proof; 500 characters of it are kept
    #[schema(min_length = 1, max_length = 2000)]
    user_agent: Option<String>,
    /// Which version of your words the person chose by
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    text_version: Option<Line>,
}

/// A change of what somebody agreed to.
#[derive(Serialize, ToSchema)]
#[schema(as = ConsentEntry)]
pub(super) struct EntryBody {
    #[schema(minimum = 1)]
    id: i64,
    #[schema(value_type = String, pattern = "^(requested|confirmed|subscribed|unsubscribed|resubscribed|topic_on|topic_off)$")]
    action: &'static str,
    #[schema(value_type = String, pattern = "^(person|operator|import)$")]
    by: &'static str,
    /// Without an audience and a topic it is about everything
    audience: Option<String>,
    client: Option<String>,
    topic: Option<String>,
    source: String,
    reason: Option<String>,
    ip: Option<String>,
    user_agent: Option<String>,
    text_version: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    happened_at: Timestamp,
}

/// List a contact's subscriptions
///
/// Those that the person left, too; in the order in which they came. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}/subscriptions",
    tag = "Consent",
    security(("key" = [])),
    params(("email" = String, Path)),
    responses(
        (status = 200, description = "All of them: `next_cursor` is always null", body = ListBody<SubscriptionBody>),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn subscriptions(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(email): Path<String>,
) -> Result<Json<ListBody<SubscriptionBody>>, Problem> {
    let cx = v1.cx(&who);
    let found = consent_to::list(&cx, addressed(&email)?.into()).await?.ok_or_else(nobody)?;
    let data = found.into_iter().map(Into::into).collect();
    Ok(Json(ListBody { data, next_cursor: None }))
}

/// Show a contact's preferences
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}/preferences",
    tag = "Consent",
    security(("key" = [])),
    params(("email" = String, Path)),
    responses(
        (status = 200, description = "Each topic, and whether it is on", body = PreferencesBody),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn preferences(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(email): Path<String>,
) -> Result<Json<PreferencesBody>, Problem> {
    let cx = v1.cx(&who);
    let found = preferences::show(&cx, addressed(&email)?.into()).await?;
    Ok(Json(found.ok_or_else(nobody)?.into()))
}

/// Switch topics off and on
///
/// All of them or none. For a contact that is suppressed nothing is switched on. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/contacts/{email}/preferences",
    tag = "Consent",
    security(("key" = [])),
    params(("email" = String, Path)),
    request_body = NewPreferences,
    responses(
        (status = 200, description = "As they are now", body = PreferencesBody),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "A topic cannot be switched on: the contact is suppressed, or has switched it off and no reason is given", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn switch(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(email): Path<String>,
    Body(new): Body<NewPreferences>,
) -> Result<Json<PreferencesBody>, Problem> {
    let cx = v1.cx(&who);
    let gives_back = new.topics.iter().any(|(_, on)| *on);
    let act = Act {
        by: new.by.unwrap_or(if gives_back { By::Import } else { By::Person }),
        source: new.source.unwrap_or_else(|| "api".parse().expect("it is a line")),
        reason: new.reason,
        proof: Proof { ip: new.ip, user_agent: new.user_agent, text_version: new.text_version },
    };
    let cmd = Switch { whom: addressed(&email)?.into(), topics: new.topics, act };
    Ok(Json(preferences::switch(&cx, cmd).await?.into()))
}

/// List the proof of a contact's consent
///
/// Every change of what the person agreed to, the newest first. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}/consent",
    tag = "Consent",
    security(("key" = [])),
    params(
        ("email" = String, Path),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of changes", body = ListBody<EntryBody>),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn log(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(email): Path<String>,
    Listing { after, limit }: Listing<ProofId>,
) -> Result<Json<ListBody<EntryBody>>, Problem> {
    let cx = v1.cx(&who);
    let page = proof::list(&cx, addressed(&email)?.into(), after, limit).await?;
    Ok(ListBody::answer(page.ok_or_else(nobody)?))
}

impl FromFields for NewPreferences {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let topics = match fields.optional_object("topics") {
            Some(Some(object)) if (1..=MAX_TOPICS).contains(&object.len()) => {
                let read = object.iter().map(|(slug, on)| match (slug.parse(), on) {
                    (Ok(slug), Value::Bool(on)) => Some((slug, *on)),
                    (Err(error), _) => fields.wrong(&format!("topics.{slug}"), error),
                    (_, _) => fields.wrong(&format!("topics.{slug}"), "use true or false"),
                });
                let read: Vec<_> = read.collect();
                read.into_iter().collect::<Option<Vec<_>>>()
            }
            Some(Some(_)) => fields.wrong("topics", format_args!("use 1 to {MAX_TOPICS} topics")),
            Some(None) => fields.wrong("topics", "this is required"),
            None => None,
        };
        let by = fields.optional("by");
        let (source, reason) = (fields.optional("source"), fields.optional("reason"));
        let Proof { ip, user_agent, text_version } = read_proof(fields)?;
        let (topics, by, source, reason) = (topics?, by?, source?, reason?);
        Some(Self { topics, by, source, reason, ip, user_agent, text_version })
    }
}

impl From<Preferences> for PreferencesBody {
    fn from(preferences: Preferences) -> Self {
        Self {
            topics: preferences.topics.into_iter().map(Into::into).collect(),
            unsubscribed_from_everything: preferences.left_everything,
            suppressed: preferences.suppressed,
        }
    }
}

impl From<Preference> for PreferenceBody {
    fn from(preference: Preference) -> Self {
        Self {
            topic: preference.topic.slug.to_string(),
            name: preference.topic.name.to_string(),
            description: preference.topic.description.map(|text| text.to_string()),
            on: preference.on,
            changed_at: preference.changed_at,
        }
    }
}

impl From<Entry> for EntryBody {
    fn from(entry: Entry) -> Self {
        let text = |slug: Option<Slug>| slug.map(|slug| slug.to_string());
        Self {
            id: entry.id.get(),
            action: entry.action.as_str(),
            by: entry.by.as_str(),
            audience: text(entry.audience),
            client: text(entry.client),
            topic: text(entry.topic),
            source: entry.source,
            reason: entry.reason,
            ip: entry.ip,
            user_agent: entry.user_agent,
            text_version: entry.text_version,
            happened_at: entry.happened_at,
        }
    }
}

impl From<SwitchError> for Problem {
    fn from(error: SwitchError) -> Self {
        match &error {
            SwitchError::NoContact => nobody(),
            SwitchError::NoTopic(slug) => wrong(&format!("topics.{slug}"), &error),
            SwitchError::TooMany => wrong("topics", &error),
            SwitchError::Suppressed => {
                Self::new(StatusCode::CONFLICT, "suppressed_contact_cannot_be_enabled", error)
            }
            SwitchError::NeedsReason(_) => Self::conflict(error),
            SwitchError::Store(_) => match error {
                SwitchError::Store(error) => error.into(),
                other => Self::internal(other),
            },
        }
    }
}
