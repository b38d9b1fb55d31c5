//! Inboxes: what a back end does with them (`/v1/inboxes`, `/v1/inbox-settings`, `/v1/inbox-tokens`), and what their
//! users do (`user`).

pub(super) mod configurations;
mod demo;
pub(super) mod posts;
pub(super) mod settings;
pub(super) mod tokens;
pub(super) mod user;

use axum::http::{HeaderMap, HeaderName};
use tidings_access::{Cx, Limit};
use tidings_inbox::Wrong;
use tidings_inbox::keys::InboxKey;
use tidings_kernel::{Cursor, Key, tables};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use demo::{Demo, inbox_demo};
pub use user::STREAMS_METRIC;

use super::V1;
use super::auth::{InboxAdmin, Needs};
use crate::problem::{Problem, Violation};

const ADMIN: HeaderName = HeaderName::from_static("x-admin-id");

pub(super) fn described() -> OpenApiRouter<V1> {
    OpenApiRouter::new()
        .routes(routes!(posts::list))
        .routes(routes!(posts::show, posts::redact))
        .routes(routes!(configurations::list))
        .routes(routes!(configurations::show, configurations::put, configurations::delete))
        .routes(routes!(settings::show, settings::put))
        .routes(routes!(tokens::create, tokens::end))
}

/// What may name as many users as a post can have, and is as long as that. It is no file: it is read as a whole.
pub(super) fn described_long() -> OpenApiRouter<V1> {
    OpenApiRouter::new().routes(routes!(posts::publish))
}

/// The inbox of a path.
fn key(text: &str) -> Result<InboxKey, Problem> {
    text.parse().map_err(|error| Problem::not_found(format!("there can be no such inbox: {error}")))
}

/// What a back end does, in the name of whoever of its people does it.
struct Acting {
    cx: Cx,
    /// Who does it, in the words of the back end, or which client that is.
    name: String,
}

fn acting(v1: &V1, who: &Needs<InboxAdmin>, headers: &HeaderMap) -> Result<Acting, Problem> {
    let cx = v1.cx(who);
    Ok(match admin(headers)? {
        Some(name) => Acting { cx: cx.said_by(name.clone()), name },
        None => Acting { cx, name: who.caller().client.to_string() },
    })
}

fn admin(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(said) = headers.get(ADMIN) else { return Ok(None) };
    let wrong = || {
        let message = "this has 1 to 128 characters".to_owned();
        Problem::invalid(vec![Violation { field: "X-Admin-Id".to_owned(), message }])
    };
    let said = std::str::from_utf8(said.as_bytes()).map_err(|_| wrong())?.trim();
    if said.is_empty() || said.chars().count() > 128 {
        return Err(wrong());
    }
    Ok(Some(said.to_owned()))
}

/// After the item with this key.
fn after(key: Option<&Key>) -> Option<Cursor> {
    let item = tables::INBOX.bare_item(key?);
    Some(Cursor::after(&tables::INBOX, None, &item).expect("a whole key is a place"))
}

fn number(limit: Limit) -> usize {
    usize::try_from(limit.and_one() - 1).unwrap_or(1)
}

fn invalid(wrongs: Vec<Wrong>) -> Problem {
    let told = wrongs.into_iter();
    Problem::invalid(told.map(|one| Violation { field: one.field, message: one.message }).collect())
}
