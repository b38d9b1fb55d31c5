//! The API under `/v1`: who may call it, what it takes and gives, and its OpenAPI description.
//!
//! A handler says in its signature who may call it (`Needs<Manage>`), and takes what was sent through `input`, which
//! names all that is wrong with it at once. The description is made from the handlers themselves.

mod audiences;
mod audit_log;
mod auth;
mod body;
mod campaigns;
mod captured;
mod clients;
mod confirmation;
mod consent;
mod contacts;
mod eligibility;
mod events;
mod inbound;
mod inbox;
mod input;
mod keys;
mod lead_events;
mod lines;
mod me;
mod memory_rules;
mod messages;
mod operation_ids;
mod quota;
mod reminders;
mod reply_settings;
mod segments;
mod senders;
mod sequences;
mod settings;
mod stats;
mod subscriptions;
mod suppressions;
mod templates;
mod test_send;
#[cfg(test)]
mod tests;
mod told;
mod topics;
mod webhook_deliveries;
mod webhooks;

use std::ops::Deref;
use std::sync::Arc;

use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::{Json, Router};
use tidings_access::{Access, StorageError, StoreError};
use tidings_delivery::links::Links;
use tidings_delivery::transactional::Messages;
use tidings_inbox::Inbox;
use tidings_inbox::keys::UserId;
use tidings_inbox::tokens::Tokens;
use tidings_kernel::ProviderSuppressions;
use tidings_sequences::versions::Versions;
use tidings_signals::replies::Replies;
use tidings_webhooks::Targets;
use utoipa::Modify;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::docs::Docs;
use crate::health::Draining;
use crate::problem::Problem;
use crate::{Limits, around, widget};
use quota::Quotas;

pub use auth::REFUSED_METRIC;
pub use inbox::{Demo, STREAMS_METRIC, inbox_demo};

/// What the features need that the handlers call.
#[derive(Clone)]
pub struct Services {
    pub access: Access,
    pub messages: Messages,
    /// The links of our mails.
    pub links: Links,
    pub replies: Replies,
    /// What this process keeps of sequences.
    pub versions: Versions,
    /// The provider's own list of addresses that it does not write to, if it has one.
    pub provider_suppressions: Option<Arc<dyn ProviderSuppressions>>,
    /// Where webhooks may lead.
    pub targets: Targets,
    /// What this process keeps of inboxes.
    pub inbox: Arc<Inbox>,
    /// What lets users in to theirs.
    pub tokens: Tokens,
    /// Streams end with the process.
    pub draining: Draining,
}

/// What the handlers work with. Every layer of every route has its copy, and each request makes some more: so a copy is one pointer.
#[derive(Clone)]
pub(crate) struct V1(Arc<Shared>);

pub(crate) struct Shared {
    services: Services,
    quotas: Quotas,
    /// Of users of inboxes, by workspace.
    visitors: Quotas<(i64, UserId)>,
    /// Of inboxes, for as long as they do not change.
    pages: inbox::user::Pages,
}

impl V1 {
    fn new(services: Services) -> Self {
        Self(Arc::new(Shared {
            services,
            quotas: Quotas::default(),
            visitors: Quotas::default(),
            pages: inbox::user::Pages::default(),
        }))
    }
}

impl Deref for V1 {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The routes under `/v1`, and the page about them, to be merged with `router`.
pub fn v1(services: Services, limits: Limits) -> Router {
    let state = V1::new(services);
    let description = Arc::new(openapi());
    let docs = Docs::new(&description);
    let describe = move || async move {
        ([(header::CONTENT_TYPE, "application/json")], description.as_str().to_owned())
    };
    let identified = |routes: OpenApiRouter<V1>| {
        let (routes, _) = routes.split_for_parts();
        routes.route_layer(from_fn_with_state(state.clone(), auth::identify))
    };
    // After the layer: whoever wants to read how it works needs no key yet.
    let routes = identified(with_key())
        .route("/v1/openapi.json", get(describe))
        .route("/docs/sequence.schema.json", get(sequences::schema))
        .route("/docs", get(move || async move { docs.answer() }))
        .route("/inbox/widget.js", get(widget::serve));
    let inboxes = inbox::user::router(&state, limits);
    let files = around(identified(with_file()), limits.of_files());
    let mails = around(identified(with_mail()), limits.of_mails());
    let long = around(identified(inbox::described_long()), limits.of_long_bodies());
    let routes = around(routes, limits).merge(inboxes);
    routes.merge(files).merge(mails).merge(long).with_state(state)
}

/// The description as it is served and as it is checked in.
pub fn openapi() -> String {
    let mut description = with_key().to_openapi();
    description.merge(with_file().to_openapi());
    description.merge(with_mail().to_openapi());
    description.merge(inbox::described_long().to_openapi());
    description.merge(inbox::user::described().to_openapi());
    description.merge(inbox::user::described_without_token().to_openapi());
    body::describe(&mut description);
    operation_ids::describe(&mut description);
    lines::text(&description)
}

/// What takes a whole mail.
fn with_mail() -> OpenApiRouter<V1> {
    OpenApiRouter::new().routes(routes!(inbound::receive))
}

/// What takes or gives a whole file, and may be long and take long.
fn with_file() -> OpenApiRouter<V1> {
    OpenApiRouter::new()
        .routes(routes!(contacts::files::take))
        .routes(routes!(contacts::files::give))
        .routes(routes!(campaigns::recipients::file))
}

fn with_key() -> OpenApiRouter<V1> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(me::show))
        .routes(routes!(clients::list, clients::create))
        .routes(routes!(clients::show))
        .routes(routes!(clients::disable))
        .routes(routes!(clients::enable))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(audit_log::list))
        .routes(routes!(contacts::list, contacts::upsert))
        .routes(routes!(contacts::show, contacts::change, contacts::erase))
        .routes(routes!(contacts::address::assess))
        .routes(routes!(contacts::set_tags, contacts::add_tags, contacts::clear_tags))
        .routes(routes!(contacts::remove_tag))
        .routes(routes!(contacts::timeline::show))
        .routes(routes!(contacts::identity::show))
        .routes(routes!(contacts::identity::detach))
        .routes(routes!(contacts::identity::merges))
        .routes(routes!(contacts::identity::merge))
        .routes(routes!(contacts::identity::unmerge))
        .routes(routes!(contacts::identity::flags))
        .routes(routes!(contacts::identity::dismiss))
        .routes(routes!(contacts::identity::policy, contacts::identity::set_policy))
        .routes(routes!(lead_events::tell, lead_events::find))
        .routes(routes!(suppressions::list, suppressions::add))
        .routes(routes!(suppressions::show, suppressions::lift))
        .routes(routes!(events::list, told::tell))
        .routes(routes!(told::track))
        .routes(routes!(told::identify))
        .routes(routes!(told::batch))
        .routes(routes!(audiences::list, audiences::create))
        .routes(routes!(audiences::show, audiences::update))
        .routes(routes!(topics::list, topics::create))
        .routes(routes!(topics::show, topics::update))
        .routes(routes!(subscriptions::subscribe))
        .routes(routes!(subscriptions::unsubscribe))
        .routes(routes!(subscriptions::resubscribe))
        .routes(routes!(consent::subscriptions))
        .routes(routes!(consent::preferences, consent::switch))
        .routes(routes!(consent::log))
        .routes(routes!(eligibility::explain))
        .routes(routes!(settings::show, settings::put))
        .routes(routes!(webhooks::list, webhooks::create))
        .routes(routes!(webhooks::show, webhooks::update, webhooks::delete))
        .routes(routes!(webhooks::rotate_secret))
        .routes(routes!(webhooks::disable))
        .routes(routes!(webhooks::enable))
        .routes(routes!(webhook_deliveries::list))
        .routes(routes!(webhook_deliveries::test))
        .routes(routes!(webhook_deliveries::replay_failed))
        .routes(routes!(webhook_deliveries::show))
        .routes(routes!(webhook_deliveries::replay))
        .routes(routes!(messages::list, messages::send))
        .routes(routes!(messages::send_batch))
        .routes(routes!(messages::dry_run))
        .routes(routes!(messages::show))
        .routes(routes!(messages::events))
        .routes(routes!(messages::cancel))
        .routes(routes!(messages::settle))
        .routes(routes!(senders::list, senders::replace))
        .merge(of_signals())
        .merge(of_learning())
        .merge(of_campaigns())
        .merge(of_sequences())
        .merge(inbox::described())
        .merge(reminders::described())
        .routes(routes!(captured::list, captured::clear))
        .routes(routes!(captured::show))
        .routes(routes!(captured::raw))
        .routes(routes!(templates::list))
        .routes(routes!(templates::validate))
        .routes(routes!(templates::show, templates::put))
        .routes(routes!(templates::versions))
        .routes(routes!(templates::activate))
        .routes(routes!(templates::deactivate))
        .routes(routes!(templates::preview))
        .routes(routes!(test_send::send))
        .routes(routes!(templates::display_names::show, templates::display_names::set))
}

fn of_signals() -> OpenApiRouter<V1> {
    OpenApiRouter::new()
        .routes(routes!(stats::deliveries))
        .routes(routes!(stats::template))
        .routes(routes!(stats::sequence))
        .routes(routes!(messages::recompute))
        .routes(routes!(reply_settings::show, reply_settings::put))
}

fn of_learning() -> OpenApiRouter<V1> {
    OpenApiRouter::new()
        .routes(routes!(contacts::learned::memory))
        .routes(routes!(
            contacts::learned::memory_one,
            contacts::learned::remember,
            contacts::learned::forget_memory
        ))
        .routes(routes!(contacts::learned::features))
        .routes(routes!(contacts::learned::rebuild))
        .routes(routes!(contacts::learned::rebuild_progress, contacts::learned::rebuild_all))
        .routes(routes!(memory_rules::list))
        .routes(routes!(memory_rules::show, memory_rules::put, memory_rules::delete))
        .routes(routes!(segments::list))
        .routes(routes!(segments::show, segments::put, segments::delete))
        .routes(routes!(segments::rebuild))
        .routes(routes!(segments::members))
        .routes(routes!(segments::why))
}

fn of_campaigns() -> OpenApiRouter<V1> {
    OpenApiRouter::new()
        .routes(routes!(campaigns::list, campaigns::create))
        .routes(routes!(campaigns::previews::preview_unsaved))
        .routes(routes!(campaigns::show, campaigns::put, campaigns::delete))
        .routes(routes!(campaigns::history))
        .routes(routes!(campaigns::duplicate))
        .routes(routes!(campaigns::previews::preview))
        .routes(routes!(campaigns::control::start))
        .routes(routes!(campaigns::control::pause))
        .routes(routes!(campaigns::control::resume))
        .routes(routes!(campaigns::control::cancel))
        .routes(routes!(campaigns::control::retry_failed))
        .routes(routes!(campaigns::control::test))
        .routes(routes!(campaigns::results::show))
        .routes(routes!(campaigns::recipients::list))
        .routes(routes!(campaigns::recipients::settle))
        .routes(routes!(campaigns::recipients::explain))
        .routes(routes!(campaigns::recipients::uncertain))
        .routes(routes!(campaigns::broadcasts::list))
        .routes(routes!(campaigns::broadcasts::show))
}

fn of_sequences() -> OpenApiRouter<V1> {
    OpenApiRouter::new()
        .routes(routes!(sequences::list))
        .routes(routes!(sequences::show, sequences::put))
        .routes(routes!(sequences::versions))
        .routes(routes!(sequences::version))
        .routes(routes!(sequences::control::pause))
        .routes(routes!(sequences::control::resume))
        .routes(routes!(sequences::control::archive))
        .routes(routes!(sequences::walks::mermaid))
        .routes(routes!(sequences::walks::funnel))
        .routes(routes!(sequences::walks::simulate))
        .routes(routes!(sequences::people::list, sequences::people::enrol))
        .routes(routes!(sequences::people::stop))
        .routes(routes!(sequences::people::of_contact))
        .routes(routes!(sequences::people::skip))
        .routes(routes!(sequences::failed::list))
        .routes(routes!(sequences::failed::retry))
        .routes(routes!(sequences::failed::forget))
        .routes(routes!(sequences::enrolments::begin))
        .routes(routes!(sequences::enrolments::show))
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Tidings",
        description = "The messaging backend of a product.\n\nTimes are RFC 3339 in UTC. Lists come in pages: pass \
            `next_cursor` as `cursor` until it is null. Errors are RFC 9457 problems; `code` tells them apart.",
        version = "1"
    ),
    modifiers(&Bearer)
)]
struct Description;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, description: &mut OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("tdg_<public id>_<secret>")
            .description(Some("An API key of a client"))
            .build();
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("tdu_<claims>.<signature>")
            .description(Some("A token of a user, of `POST /v1/inbox-tokens`"))
            .build();
        components.add_security_scheme("user_token", SecurityScheme::Http(scheme));
    }
}

/// A part of a list.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ListBody<T> {
    data: Vec<T>,
    /// Where the next page begins, or null on the last.
    next_cursor: Option<String>,
}

impl<T> ListBody<T> {
    fn answer<K: input::Cursor, I: Into<T>>(page: tidings_access::Page<I, K>) -> Json<Self> {
        let data = page.items.into_iter().map(Into::into).collect();
        Json(Self { data, next_cursor: page.next.as_ref().map(input::cursor_text) })
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if error.is_passing() {
            tracing::warn!(error = %tidings_kernel::causes(&error), "A request could not be served now");
            return Self::unavailable("the store does not answer; try again in a moment");
        }
        Self::internal(error)
    }
}

impl From<StorageError> for Problem {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Relations(error) => error.into(),
            error @ StorageError::Items(_) if error.is_passing() => {
                tracing::warn!(error = %tidings_kernel::causes(&error), "A request could not be served now");
                Self::unavailable("the store does not answer; try again in a moment")
            }
            error @ StorageError::Items(_) => Self::internal(error),
        }
    }
}
