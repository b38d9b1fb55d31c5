//! Who is who: what a contact is known by, contacts who are one person, and those who may be.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Limit, Page};
use tidings_leads::identity::{
    self, DetachError, Flag, FlagId, Identity, IdentityError, Merge, MergeError, MergeId, Policy,
    UnmergeError, View, Whom,
};
use tidings_people::contacts::ContactId;
use utoipa::ToSchema;

use super::super::auth::{Manage, Needs, Read, Refusals};
use super::super::input::{Body, Fields, FromFields, Listing};
use super::super::{ListBody, V1};
use super::{addressed, nobody};
use crate::problem::{Problem, ProblemBody, Violation};

#[derive(Serialize, ToSchema)]
#[schema(as = ContactIdentities)]
pub(in crate::v1) struct ViewBody {
    contact_id: i64,
    /// Where memory and features are
    lead_organization_id: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    first_seen_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_seen_at: Option<Timestamp>,
    identities: Vec<ShownBody>,
    /// Contacts who were merged into this one
    merged: Vec<i64>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ContactIdentity)]
pub(in crate::v1) struct ShownBody {
    #[schema(example = "email")]
    channel: String,
    #[schema(example = "ada@example.org")]
    value: String,
    typed_value: String,
    /// The contact who had it before the merge
    from: Option<i64>,
    /// What the person is by it in another part: a subscriber, a user of inboxes, a customer who is reminded
    #[schema(example = "SUB#ada@example.org")]
    is: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ContactMerge)]
pub(in crate::v1) struct MergeBody {
    id: i64,
    /// Who stayed
    contact_id: i64,
    /// Who went
    merged_id: i64,
    /// The event that named both; null if somebody said so
    event_id: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    merged_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    undone_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ContactFlag)]
pub(in crate::v1) struct FlagBody {
    id: i64,
    /// Two contacts who may be one person
    contact_ids: [i64; 2],
    /// Why they were not merged
    #[schema(pattern = "^(ids_differ|setting|taken_apart|too_many)$")]
    cause: String,
    event_id: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    flagged_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = IdentitySettings)]
pub(in crate::v1) struct PolicyBody {
    /// What is done when an event names identities of two people
    #[schema(pattern = "^(merge|flag)$")]
    shared_identities: &'static str,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `With` reads")]
pub(in crate::v1) struct NewMerge {
    /// The other contact: an address, or an id
    #[schema(example = "ada@example.com", max_length = 254)]
    with: String,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `ToSet` reads")]
pub(in crate::v1) struct NewIdentitySettings {
    #[schema(pattern = "^(merge|flag)$")]
    shared_identities: String,
}

pub(in crate::v1) struct With(String);
pub(in crate::v1) struct ToSet(Policy);

/// Show what a contact is known by
///
/// Over all channels, and what the person is by each: a subscriber, a user of inboxes, a customer. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}/identities",
    tag = "Leads",
    security(("key" = [])),
    params(("email" = String, Path, description = "An address, the id of a contact, or another identity such as `user_id=42` or `phone=+49301234567`", max_length = 600)),
    responses(
        (status = 200, description = "What the contact is known by", body = ViewBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(contact): Path<String>,
) -> Result<Json<ViewBody>, Problem> {
    let view = identity::view(&v1.cx(&who), meant(&contact)?).await?;
    view.map(|view| Json(view.into())).ok_or_else(nobody)
}

/// Detach an identity
///
/// What is told with it later is about somebody else. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/contacts/{email}/identities/{channel}/{value}",
    tag = "Leads",
    security(("key" = [])),
    params(
        ("email" = String, Path, description = "An address, the id of a contact, or another identity", max_length = 600),
        ("channel" = String, Path, max_length = 71),
        ("value" = String, Path, max_length = 512)
    ),
    responses(
        (status = 200, description = "The contact is not known by it", body = DetachedBody),
        (status = 404, description = "There is no such contact", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is an address, or the last identity", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "It is no identity", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn detach(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path((contact, channel, value)): Path<(String, String, String)>,
) -> Result<Json<DetachedBody>, Problem> {
    let whom = meant(&contact)?;
    let named = Identity::new(&channel, &value).map_err(|error| {
        let field = if error == IdentityError::Channel { "channel" } else { "value" };
        Problem::invalid(vec![Violation { field: field.to_owned(), message: error.to_string() }])
    })?;
    let detached = identity::detach(&v1.cx(&who), whom, named).await?;
    Ok(Json(DetachedBody { detached }))
}

#[derive(Serialize, ToSchema)]
pub(in crate::v1) struct DetachedBody {
    /// False if it was not the contact's
    detached: bool,
}

/// Say that two contacts are one person
///
/// The older one stays; identities and consent come along, consent to the strictest. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/contacts/{email}/merge",
    tag = "Leads",
    security(("key" = [])),
    params(("email" = String, Path, description = "An address, the id of a contact, or another identity such as `user_id=42` or `phone=+49301234567`", max_length = 600)),
    request_body = NewMerge,
    responses(
        (status = 200, description = "They are one", body = MergeBody),
        (status = 404, description = "One of them is not there", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "They are one already, or too many", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn merge(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(contact): Path<String>,
    Body(With(with)): Body<With>,
) -> Result<Json<MergeBody>, Problem> {
    let cx = v1.cx(&who);
    let mut both = Vec::new();
    for text in [&contact, &with] {
        let found = identity::find(&cx, meant(text)?).await?.ok_or_else(nobody)?;
        both.push(found.lead_id);
    }
    Ok(Json(identity::merge(&cx, both[0], both[1]).await?.into()))
}

/// List the merges of contacts
///
/// The newest first, also those that were undone. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contact-merges",
    tag = "Leads",
    security(("key" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of merges", body = ListBody<MergeBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn merges(
    State(v1): State<V1>,
    who: Needs<Read>,
    listing: Listing<MergeId>,
) -> Result<Json<ListBody<MergeBody>>, Problem> {
    let limit = listing.limit;
    let found = identity::merges(&v1.cx(&who), listing.after, and_one(limit)).await?;
    Ok(ListBody::answer(Page::cut(found, limit, |merge: &Merge| merge.id)))
}

/// Take two contacts apart again
///
/// Each has the identities and the consent that he had, where nothing newer was said since. Again changes nothing.
/// Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/contact-merges/{merge}/undo",
    tag = "Leads",
    security(("key" = [])),
    params(("merge" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "They are two", body = MergeBody),
        (status = 404, description = "There is no such merge", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "One of them was erased", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn unmerge(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(merge): Path<String>,
) -> Result<Json<MergeBody>, Problem> {
    let id: i64 = merge.parse().map_err(|_| Problem::not_found("there is no such merge"))?;
    Ok(Json(identity::unmerge(&v1.cx(&who), id.into()).await?.into()))
}

/// List contacts who may be one person
///
/// Those that nobody has decided on, the newest first. Merge them, or dismiss the flag. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contact-flags",
    tag = "Leads",
    security(("key" = [])),
    params(
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of flags", body = ListBody<FlagBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn flags(
    State(v1): State<V1>,
    who: Needs<Read>,
    listing: Listing<FlagId>,
) -> Result<Json<ListBody<FlagBody>>, Problem> {
    let limit = listing.limit;
    let found = identity::flags(&v1.cx(&who), listing.after, and_one(limit)).await?;
    Ok(ListBody::answer(Page::cut(found, limit, |flag: &Flag| flag.id)))
}

/// Say that two contacts are two people
///
/// Nobody is asked again. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/contact-flags/{flag}/dismiss",
    tag = "Leads",
    security(("key" = [])),
    params(("flag" = i64, Path, minimum = 1)),
    responses(
        (status = 200, description = "The flag is gone", body = DismissedBody),
        (status = 404, description = "There is no such flag, or it was decided on", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn dismiss(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(flag): Path<String>,
) -> Result<Json<DismissedBody>, Problem> {
    let missing = || Problem::not_found("there is no such flag");
    let id: i64 = flag.parse().map_err(|_| missing())?;
    if identity::dismiss(&v1.cx(&who), id.into()).await? {
        Ok(Json(DismissedBody { dismissed: true }))
    } else {
        Err(missing())
    }
}

#[derive(Serialize, ToSchema)]
pub(in crate::v1) struct DismissedBody {
    dismissed: bool,
}

/// Show what is done with identities of two people
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/settings/identity",
    tag = "Settings",
    security(("key" = [])),
    responses((status = 200, description = "What is in force", body = PolicyBody), Refusals)
)]
pub(in crate::v1) async fn policy(
    State(v1): State<V1>,
    who: Needs<Read>,
) -> Result<Json<PolicyBody>, Problem> {
    Ok(Json(identity::policy(&v1.cx(&who)).await?.into()))
}

/// Set what is done with identities of two people
///
/// `merge` makes them one, `flag` asks. Different `user_id`s or `customer_id`s are never merged. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/settings/identity",
    tag = "Settings",
    security(("key" = [])),
    request_body = NewIdentitySettings,
    responses(
        (status = 200, description = "What is in force now", body = PolicyBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn set_policy(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(ToSet(policy)): Body<ToSet>,
) -> Result<Json<PolicyBody>, Problem> {
    identity::set_policy(&v1.cx(&who), policy).await?;
    Ok(Json(policy.into()))
}

/// A contact by its address, its id, or `channel=value`. What is none of them is nobody's.
pub(in crate::v1) fn meant(text: &str) -> Result<Whom, Problem> {
    if let Ok(id) = text.parse::<i64>() {
        return Ok(Whom::Contact(ContactId::from(id)));
    }
    // An address may have a sign of equality in it, but no channel before that.
    let identity = text.split_once('=').map(|(channel, value)| Identity::new(channel, value));
    match identity {
        Some(Ok(identity)) => Ok(Whom::Identity(identity)),
        Some(Err(_)) | None => addressed(text).map(Whom::Email),
    }
}

fn and_one(limit: Limit) -> usize {
    usize::try_from(limit.and_one()).unwrap_or(usize::MAX)
}

impl FromFields for With {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        fields.required("with").map(Self)
    }
}

impl FromFields for ToSet {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        match fields.required::<String>("shared_identities")?.as_str() {
            "merge" => Some(Self(Policy::Merge)),
            "flag" => Some(Self(Policy::Flag)),
            _ => fields.wrong("shared_identities", "use merge or flag"),
        }
    }
}

impl From<Policy> for PolicyBody {
    fn from(policy: Policy) -> Self {
        let shared_identities = match policy {
            Policy::Merge => "merge",
            Policy::Flag => "flag",
        };
        Self { shared_identities }
    }
}

impl From<View> for ViewBody {
    fn from(view: View) -> Self {
        let identities = view.identities.into_iter().map(|one| ShownBody {
            channel: one.channel,
            value: one.value,
            typed_value: one.typed,
            from: one.from.map(ContactId::get),
            is: one.is,
            created_at: one.created_at,
        });
        Self {
            contact_id: view.owner.lead_id.get(),
            lead_organization_id: view.owner.lead_organization_id,
            first_seen_at: view.first_seen_at,
            last_seen_at: view.last_seen_at,
            identities: identities.collect(),
            merged: view.merged.into_iter().map(ContactId::get).collect(),
        }
    }
}

impl From<Merge> for MergeBody {
    fn from(merge: Merge) -> Self {
        Self {
            id: merge.id.get(),
            contact_id: merge.winner.get(),
            merged_id: merge.loser.get(),
            event_id: merge.event_id,
            merged_at: merge.merged_at,
            undone_at: merge.undone_at,
        }
    }
}

impl From<Flag> for FlagBody {
    fn from(flag: Flag) -> Self {
        Self {
            id: flag.id.get(),
            contact_ids: flag.contacts.map(ContactId::get),
            cause: flag.cause,
            event_id: flag.event_id,
            flagged_at: flag.flagged_at,
        }
    }
}

impl From<DetachError> for Problem {
    fn from(error: DetachError) -> Self {
        match error {
            DetachError::Missing => nobody(),
            DetachError::Address | DetachError::Last(_) => Self::conflict(error),
            DetachError::Store(error) => error.into(),
        }
    }
}

impl From<MergeError> for Problem {
    fn from(error: MergeError) -> Self {
        match error {
            MergeError::Missing(_) => nobody(),
            MergeError::Erased(_) | MergeError::Same | MergeError::TooMany => Self::conflict(error),
            MergeError::Store(error) => error.into(),
        }
    }
}

impl From<UnmergeError> for Problem {
    fn from(error: UnmergeError) -> Self {
        match error {
            UnmergeError::Missing(_) => Self::not_found(error),
            UnmergeError::Erased(_) => Self::conflict(error),
            UnmergeError::Store(error) => error.into(),
        }
    }
}
