//! `/inbox/demo`: a page with an inbox in it, for whoever tries Tidings. Everybody who reaches it is the demo's user, so only
//! a demo serves it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use maud::html;
use serde_json::Value;
use tidings_access::Cx;
use tidings_inbox::keys::{InboxKey, UserId};
use tidings_inbox::publish::{NewPost, To};
use tidings_inbox::tokens::{Issue, LIFETIME};

use super::posts;
use super::user::{Admitted, admit};
use crate::answer::AsItIs;
use crate::problem::Problem;
use crate::v1::input::{Body, Fields, FromFields};
use crate::v1::{Services, V1};
use crate::{Limits, around};

const PAGE: &str = include_str!("../../../assets/inbox/demo.html");

/// Whose inbox the page shows.
#[derive(Clone)]
pub struct Demo {
    pub cx: Cx,
    pub inbox: InboxKey,
    pub uid: UserId,
    /// How a browser reaches this server: `http://127.0.0.1:8080`.
    pub origin: String,
}

/// The page and what it calls, to be merged with `router`.
pub fn inbox_demo(services: Services, limits: Limits, demo: Demo) -> Router {
    let state = V1::new(services);
    let sending = Router::new()
        .route("/inbox/demo/messages", post(send))
        .route_layer(from_fn_with_state(state.clone(), admit));
    let routes = Router::new().route("/inbox/demo", get(show)).merge(sending);
    around(routes.layer(Extension(Arc::new(demo))), limits).with_state(state)
}

async fn show(
    State(v1): State<V1>,
    Extension(demo): Extension<Arc<Demo>>,
) -> Result<Response, Problem> {
    let issue =
        Issue { uid: demo.uid.clone(), inboxes: vec![demo.inbox.clone()], lifetime: LIFETIME };
    // The demo's own `cx` has the time when the demo began.
    let cx = v1.services.access.visiting(demo.cx.workspace_id().get()).await?;
    let cx = cx.ok_or_else(|| Problem::not_found("the workspace of the demo is disabled"))?;
    let issued = v1.services.tokens.issue(&cx, issue).await?;
    let mut page = PAGE.to_owned();
    for (name, value) in [
        ("{{token}}", issued.token.as_str()),
        ("{{refresh_token}}", &issued.refresh_token),
        ("{{inbox}}", demo.inbox.as_str()),
        ("{{user}}", demo.uid.as_str()),
        ("{{origin}}", &demo.origin),
    ] {
        page = page.replace(name, &html! { (value) }.into_string());
    }
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let mut response = (headers, page).into_response();
    response.extensions_mut().insert(AsItIs);
    Ok(response)
}

/// What the page's form sends.
struct Note {
    everyone: bool,
    post: NewPost,
}

async fn send(
    State(v1): State<V1>,
    Extension(demo): Extension<Arc<Demo>>,
    Extension(admitted): Extension<Admitted>,
    Body(note): Body<Note>,
) -> Result<Response, Problem> {
    let to = if note.everyone {
        To::Everyone
    } else {
        To::Users(vec![admitted.uid().as_str().to_owned()])
    };
    let post = NewPost { to, ..note.post };
    let published = v1.services.inbox.publish(admitted.cx(), &demo.inbox, post).await?;
    Ok(posts::answer(&published))
}

impl FromFields for Note {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let everyone = match fields.value("to") {
            Some(Value::String(to)) if to == "everyone" => Some(true),
            Some(Value::String(to)) if to == "me" => Some(false),
            _ => fields.wrong("to", "use me or everyone"),
        };
        let title = fields.required::<String>("title");
        let body = fields.value("body").unwrap_or(Value::Null);
        let category = fields.optional::<String>("category");
        let cta_uri = fields.optional::<String>("cta_uri");
        let post = NewPost {
            to: To::Everyone,
            label: None,
            category: category?,
            title: title?,
            body,
            cta_uri: cta_uri?,
            host_system_id: None,
            send_at: None,
            expires_in: None,
            sender: "The demo".to_owned(),
        };
        Some(Self { everyone: everyone?, post })
    }
}
