//! `/v1/reminders`: reminders of overdue invoices, drafted by a program or a person, approved by a person, sent once.
//!
//! Here: how they travel. Not here: any rule (`tidings-reminders`).

mod drafts;
mod money;
mod read;
mod setup;
mod shown;

use axum::Json;
use tidings_reminders::{CustomerId, DraftId, Listing as Part, Page};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::input::{self, Cursor, Listing};
use super::{ListBody, V1};
use crate::problem::Problem;

pub(super) fn described() -> OpenApiRouter<V1> {
    OpenApiRouter::new()
        .routes(routes!(drafts::list, drafts::create))
        .routes(routes!(drafts::create_many))
        .routes(routes!(drafts::note_overdue))
        .routes(routes!(drafts::approve_many))
        .routes(routes!(drafts::show, drafts::edit))
        .routes(routes!(drafts::approve))
        .routes(routes!(drafts::reject))
        .routes(routes!(money::sent))
        .routes(routes!(money::report))
        .routes(routes!(money::outstanding))
        .routes(routes!(money::pay))
        .routes(routes!(money::history))
        .routes(routes!(money::recent))
        .routes(routes!(money::allowed))
        .routes(routes!(money::payments))
        .routes(routes!(setup::list))
        .routes(routes!(setup::show, setup::put))
        .routes(routes!(setup::versions))
        .routes(routes!(setup::preview))
        .routes(routes!(setup::settings, setup::put_settings))
}

/// Where a list goes on, as the store has it.
struct After(String);

impl Cursor for After {
    const LIST: &'static str = "reminders";

    fn to_text(&self) -> String {
        self.0.clone()
    }

    fn from_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }
}

fn listing(asked: Listing<After>) -> Part {
    Part { limit: asked.limit.get(), cursor: asked.after.map(|After(text)| text) }
}

fn page<T, B: From<T>>(page: Page<T>) -> Json<ListBody<B>> {
    let data = page.items.into_iter().map(Into::into).collect();
    let next_cursor = page.next.map(|next| input::cursor_text(&After(next)));
    Json(ListBody { data, next_cursor })
}

/// What cannot be an id is nobody's.
fn draft_id(text: &str) -> Result<DraftId, Problem> {
    text.parse().map_err(|_| Problem::not_found("there is no such draft"))
}

fn customer_id(text: &str) -> Result<CustomerId, Problem> {
    text.parse().map_err(|_| Problem::not_found("there is no such customer"))
}
