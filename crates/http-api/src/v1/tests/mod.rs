//! The API as a caller meets it: two workspaces on a database in memory, and a clock that stands still.

mod campaigns;
mod confirmation;
mod consent;
mod contacts;
mod events;
mod inbox;
mod isolation;
mod leads;
mod learned;
mod mail;
mod messages;
mod refusals;
mod reminders;
mod routes;
mod segments;
mod sequences;
mod templates;
mod told;
mod webhooks;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::Value;
use tidings_access::keys::{self, Granter, Issued, Rate};
use tidings_access::{Access, Actor, Cx, Scopes, Slug, workspaces};
use tidings_delivery::capture::Capture;
use tidings_delivery::links::Links;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::Messages;
use tidings_inbox::Inbox;
use tidings_inbox::ids::MessageId;
use tidings_inbox::tokens::Tokens;
use tidings_kernel::{Lane, Mail, Sender as _};
use tidings_sequences::versions::Versions;
use tidings_signals::replies::Replies;
use tidings_testbed::Bed;
use tidings_testkit::FakeClock;
use tidings_webhooks::Targets;
use tower::ServiceExt as _;

use super::{Services, v1};
use crate::{Draining, Limits};

struct World {
    bed: Bed,
    /// What the API and its workers keep of sequences.
    versions: Versions,
    access: Access,
    clock: Arc<FakeClock>,
    router: Router,
    acme: Cx,
    other: Cx,
    inbox: Arc<Inbox>,
    draining: Draining,
    /// The id of a message to an inbox, where a test needs one that is there.
    hidden_message: OnceLock<String>,
    services: Services,
}

/// An answer, with what differs from run to run put out of sight.
struct Answer {
    status: u16,
    headers: String,
    body: String,
}

fn slug(text: &str) -> Slug {
    text.parse().unwrap()
}

impl World {
    /// Workspaces `acme` and `other`, each with a client `shop`.
    async fn new() -> Self {
        let bed = Bed::memory().await;
        let inbox = Arc::new(Inbox::new());
        Self::on(bed, inbox).await
    }

    async fn on(bed: Bed, inbox: Arc<Inbox>) -> Self {
        let draining = Draining::default();
        let (access, clock) = (bed.access.clone(), Arc::clone(&bed.clock));
        let versions = Versions::default();
        let limits = Limits::uniform(4096, Duration::from_secs(5));
        let links = Links::load(access.database(), "https://m.example.org", access.now());
        let links = links.await.unwrap();
        let services = Services {
            access: access.clone(),
            messages: Messages::new(Templates::default()),
            tokens: Tokens::new(links.signing_keys().clone()),
            links,
            replies: Replies::new(access.clone(), None),
            versions: versions.clone(),
            provider_suppressions: None,
            targets: Targets::new(true),
            inbox: Arc::clone(&inbox),
            draining: draining.clone(),
        };
        let also = services.clone();
        let router = v1(services, limits);
        let acme = bed.cx().await;
        // Another node finds what the first has made.
        let other = match workspaces::find(&access, "other".parse().unwrap()).await {
            Ok(found) => access.inside(&found, Actor::Operator),
            Err(_) => {
                let other = bed.make_workspace("other").await;
                for cx in [&acme, &other] {
                    messages::give_sender(cx, bed.shop(cx).await.id).await;
                }
                other
            }
        };
        let hidden_message = OnceLock::new();
        Self {
            bed,
            versions,
            access,
            clock,
            router,
            acme,
            other,
            inbox,
            draining,
            hidden_message,
            services: also,
        }
    }

    async fn key(&self, cx: &Cx, scopes: Scopes) -> Issued {
        self.key_with(cx, scopes, Rate::default()).await
    }

    async fn key_with(&self, cx: &Cx, scopes: Scopes, rate: Rate) -> Issued {
        let name = format!("key for {scopes}");
        let create = keys::Create {
            client: slug("shop"),
            name: name.parse().unwrap(),
            scopes,
            rate,
            expires_at: None,
            granted_by: Granter::Operator,
        };
        keys::create(cx, create).await.unwrap()
    }

    /// A key of another client, for everything.
    async fn key_of(&self, cx: &Cx, client: &str) -> Issued {
        let create = keys::Create {
            client: slug(client),
            name: "all".parse().unwrap(),
            scopes: Scopes::all(),
            rate: Rate::default(),
            expires_at: None,
            granted_by: Granter::Operator,
        };
        keys::create(cx, create).await.unwrap()
    }

    /// A message of the workspace that was kept instead of sent.
    async fn capture(&self, cx: &Cx, subject: &str) {
        let mime = format!(
            "From: shop@example.org\r\nSubject: {subject}\r\nContent-Type: text/html\r\n\r\n<p>{subject}</p>\r\n"
        );
        let mail = Mail {
            from: "shop@example.org".parse().unwrap(),
            to: vec!["ada@example.net".parse().unwrap()],
            mime: mime.into_bytes(),
            tags: vec![("workspace", cx.workspace_id().get().to_string())],
            lane: Lane::Transactional,
        };
        let capture = Capture::new(self.access.database().clone(), self.clock.clone());
        capture.send(&mail).await.unwrap();
    }

    async fn get(&self, key: &Issued, path: &str) -> Answer {
        self.send(&format!("GET {path}"), Some(&key.api_key.expose()), "").await
    }

    async fn post(&self, key: &Issued, path: &str, body: &str) -> Answer {
        self.send(&format!("POST {path}"), Some(&key.api_key.expose()), body).await
    }

    async fn put(&self, key: &Issued, path: &str, body: &str) -> Answer {
        self.send(&format!("PUT {path}"), Some(&key.api_key.expose()), body).await
    }

    async fn patch(&self, key: &Issued, path: &str, body: &str) -> Answer {
        self.send(&format!("PATCH {path}"), Some(&key.api_key.expose()), body).await
    }

    async fn delete(&self, key: &Issued, path: &str) -> Answer {
        self.send(&format!("DELETE {path}"), Some(&key.api_key.expose()), "").await
    }

    async fn send(&self, line: &str, key: Option<&str>, body: &str) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path).header("x-request-id", "r-1");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if path.starts_with("/inbox/v1/") {
            request = request.header("x-user-id", "hidden");
        }
        if !body.is_empty() {
            let kind = match body {
                json if json.starts_with(['{', '[']) => "application/json",
                yaml if yaml.contains("steps:") => "application/yaml",
                _ => "text/csv",
            };
            request = request.header("content-type", kind);
        }
        self.ask(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let mut headers: Vec<_> = parts
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
            .filter(|line| !line.starts_with("content-length"))
            .collect();
        headers.sort();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Answer {
            status: parts.status.as_u16(),
            headers: headers.concat(),
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn shown(&self) -> String {
        let mut body = self.json();
        hide(&mut body);
        let body = serde_json::to_string_pretty(&body).unwrap();
        format!("{}\n{}\n{body}", self.status, self.headers)
    }
}

/// Puts ids and keys that are made by chance out of sight.
fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_execution = fields.contains_key("arn");
            for (name, value) in fields {
                match (name.as_str(), value.as_str()) {
                    ("public_id", Some(id)) if id.len() == 12 => *value = "[id]".into(),
                    ("key", Some(key)) if key.len() == 60 => *value = "[key]".into(),
                    ("id", Some(_)) if is_execution => *value = "[id]".into(),
                    ("id", Some(id)) if id.parse::<MessageId>().is_ok() => *value = "[id]".into(),
                    ("user", Some(word)) if word.len() == 32 => *value = "[user]".into(),
                    ("token" | "refresh_token", Some(token)) => *value = token[..4].into(),
                    ("arn", Some(arn)) => *value = arn.rsplit_once(':').unwrap().0.into(),
                    _ => hide(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(hide),
        _ => {}
    }
}
