//! `/v1/contacts`: the people of the caller's workspace.

pub(super) mod address;
mod bodies;
pub(super) mod files;
pub(super) mod identity;
pub(super) mod learned;
mod progress;
pub(super) mod timeline;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use tidings_kernel::EmailAddress;
use tidings_leads::identity::{Whom, find};
use tidings_people::contacts::{
    self, ListError, Tag, TagChange, TooMuch, Update, UpdateError, UpsertError,
};
use tidings_people::suppression;
use utoipa::ToSchema;

use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Params};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};
pub(super) use bodies::attributes;
use bodies::{ChangeContact, ContactBody, EverythingBody, NewContact, TagsBody, Wanted};

#[derive(Serialize, ToSchema)]
pub(super) struct ErasedBody {
    /// False if there was nothing (left) to erase
    erased: bool,
}

/// List contacts
///
/// With `tag` in the order of the addresses, else in the order in which they became known. A page may have fewer contacts than
/// `limit`, even none, and still a `next_cursor`: a filter looks at a bounded number of people at a time. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts",
    tag = "Contacts",
    security(("key" = [])),
    params(
        ("status" = Option<String>, Query, description = "`all` (default), `active` (neither unsubscribed nor suppressed), `unsubscribed` or `suppressed`", pattern = "^(all|active|unsubscribed|suppressed)$"),
        ("tag" = Option<String>, Query, description = "Who has this tag", pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"),
        ("attribute" = Option<String>, Query, description = "The name of an attribute, together with `value`", max_length = 64),
        ("value" = Option<String>, Query, description = "What the attribute is: `pro`, `7`, `true`", max_length = 1000),
        ("audience" = Option<String>, Query, description = "Who is subscribed to this audience (its slug)", max_length = 40),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of contacts", body = ListBody<ContactBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(Wanted { filter, listing }): Params<Wanted>,
) -> Result<Json<ListBody<ContactBody>>, Problem> {
    let cx = v1.cx(&who);
    Ok(ListBody::answer(contacts::list(&cx, filter, listing.after, listing.limit).await?))
}

/// Make or change a contact
///
/// What is not named stays as it is. It takes back neither an unsubscription nor a suppression. Sending it twice changes
/// nothing the second time. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/contacts",
    tag = "Contacts",
    security(("key" = [])),
    request_body = NewContact,
    responses(
        (status = 200, description = "The contact was there, and is now like this", body = ContactBody),
        (status = 201, description = "The contact is new", body = ContactBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn upsert(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(new): Body<NewContact>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let done = contacts::put(&cx, new.into()).await?;
    let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("/v1/contacts/{}", escaped(&done.contact.email));
    Ok((status, [(header::LOCATION, location)], Json(ContactBody::from(done.contact))))
}

/// Show everything about a contact
///
/// With the identities, what the person is subscribed to, the running sequences, the suppression and the last 20 mails.
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/contacts/{email}",
    tag = "Contacts",
    security(("key" = [])),
    params(("email" = String, Path, format = Email, max_length = 254)),
    responses(
        (status = 200, description = "The contact", body = EverythingBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(email): Path<String>,
) -> Result<Json<EverythingBody>, Problem> {
    let found = contacts::get(&v1.cx(&who), &addressed(&email)?).await?;
    found.map(|everything| Json(everything.into())).ok_or_else(nobody)
}

/// Change a contact
///
/// What is not named stays as it is; a null removes the first name, the time zone or an attribute. Needs the scope `manage`.
#[utoipa::path(
    patch,
    path = "/v1/contacts/{email}",
    tag = "Contacts",
    security(("key" = [])),
    params(("email" = String, Path, format = Email, max_length = 254)),
    request_body = ChangeContact,
    responses(
        (status = 200, description = "The contact as it is now", body = ContactBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn change(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(email): Path<String>,
    Body(change): Body<ChangeContact>,
) -> Result<Json<ContactBody>, Problem> {
    let update = Update { email: addressed(&email)?, edit: change.into() };
    Ok(Json(contacts::update(&v1.cx(&who), update).await?.into()))
}

/// Erase a person
///
/// Everything that tells who it was goes, also from what was sent. If the address must not be written to, that is kept as
/// a keyed hash. If it is interrupted, send it again. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/contacts/{email}",
    tag = "Contacts",
    security(("key" = [])),
    params(("email" = String, Path, description = "An address, the id of a contact, or another identity such as `user_id=42` or `phone=+49301234567`", max_length = 600)),
    responses(
        (status = 200, description = "Nothing is left", body = ErasedBody),
        (status = 404, description = "This is no address, and no contact", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn erase(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(email): Path<String>,
) -> Result<Json<ErasedBody>, Problem> {
    let cx = v1.cx(&who);
    let provider = v1.services.provider_suppressions.as_deref();
    let done = match identity::meant(&email)? {
        Whom::Email(email) => Some(suppression::erase_everywhere(&cx, &email, provider).await?),
        Whom::Contact(contact) => {
            suppression::erase_contact_everywhere(&cx, contact, provider).await?
        }
        whom @ Whom::Identity(_) => {
            let owner = find(&cx, whom).await?.ok_or_else(nobody)?;
            suppression::erase_contact_everywhere(&cx, owner.lead_id, provider).await?
        }
    };
    let done = done.ok_or_else(nobody)?;
    Ok(Json(ErasedBody { erased: done.erased }))
}

/// Replace the tags of a contact
///
/// An empty list clears them. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/contacts/{email}/tags",
    tag = "Contacts",
    security(("key" = [])),
    params(("email" = String, Path, format = Email, max_length = 254)),
    request_body = TagsBody,
    responses(
        (status = 200, description = "The contact as it is now", body = ContactBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn set_tags(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(email): Path<String>,
    Body(body): Body<TagsBody>,
) -> Result<Json<ContactBody>, Problem> {
    tagged(&v1, &who, &email, TagChange::Replace(body.tags)).await
}

/// Add tags to a contact
///
/// Those that are there stay. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/contacts/{email}/tags",
    tag = "Contacts",
    security(("key" = [])),
    params(("email" = String, Path, format = Email, max_length = 254)),
    request_body = TagsBody,
    responses(
        (status = 200, description = "The contact as it is now", body = ContactBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn add_tags(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(email): Path<String>,
    Body(body): Body<TagsBody>,
) -> Result<Json<ContactBody>, Problem> {
    tagged(&v1, &who, &email, TagChange::Add(body.tags)).await
}

/// Clear the tags of a contact
///
/// Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/contacts/{email}/tags",
    tag = "Contacts",
    security(("key" = [])),
    params(("email" = String, Path, format = Email, max_length = 254)),
    responses(
        (status = 200, description = "The contact as it is now", body = ContactBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn clear_tags(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(email): Path<String>,
) -> Result<Json<ContactBody>, Problem> {
    tagged(&v1, &who, &email, TagChange::Replace(std::collections::BTreeSet::new())).await
}

/// Take a tag from a contact
///
/// It is no mistake if the contact does not have it. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/contacts/{email}/tags/{tag}",
    tag = "Contacts",
    security(("key" = [])),
    params(
        ("email" = String, Path, format = Email, max_length = 254),
        ("tag" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
    ),
    responses(
        (status = 200, description = "The contact as it is now", body = ContactBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn remove_tag(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path((email, tag)): Path<(String, String)>,
) -> Result<Json<ContactBody>, Problem> {
    let tag: Tag = tag.parse().map_err(|_| Problem::not_found("there is no such tag"))?;
    tagged(&v1, &who, &email, TagChange::Remove([tag].into())).await
}

async fn tagged(
    v1: &V1,
    who: &Needs<Manage>,
    email: &str,
    change: TagChange,
) -> Result<Json<ContactBody>, Problem> {
    Ok(Json(contacts::tag(&v1.cx(who), addressed(email)?, change).await?.into()))
}

/// What cannot be an address is nobody's.
pub(super) fn addressed(text: &str) -> Result<EmailAddress, Problem> {
    text.parse().map_err(|_| nobody())
}

pub(super) fn nobody() -> Problem {
    Problem::not_found(UpdateError::Missing)
}

/// An address as a part of a path.
pub(super) fn escaped(email: &EmailAddress) -> String {
    use std::fmt::Write as _;
    email.as_str().bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~@+".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

impl From<UpsertError> for Problem {
    fn from(error: UpsertError) -> Self {
        match error {
            UpsertError::TooMuch(error) => error.into(),
            UpsertError::Store(error) => error.into(),
        }
    }
}

impl From<UpdateError> for Problem {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Missing => nobody(),
            UpdateError::TooMuch(error) => error.into(),
            UpdateError::Store(error) => error.into(),
        }
    }
}

impl From<TooMuch> for Problem {
    fn from(error: TooMuch) -> Self {
        let field = match error {
            TooMuch::Tags => "tags",
            TooMuch::Attributes | TooMuch::Bytes => "attributes",
        };
        Self::invalid(vec![Violation { field: field.to_owned(), message: error.to_string() }])
    }
}

impl From<ListError> for Problem {
    fn from(error: ListError) -> Self {
        let field = match error {
            ListError::NoAudience(_) => "audience",
            ListError::WrongCursor => "cursor",
            ListError::Store(error) => return error.into(),
        };
        Self::invalid(vec![Violation { field: field.to_owned(), message: error.to_string() }])
    }
}
