//! Inboxes over HTTP: what back ends do (`admin`), what users see and mark (`user`), and what they are told live (`live`).

mod admin;
mod live;
mod user;

use axum::body::Body;
use axum::http::{Request, Response};
use serde_json::{Value, json};
use tidings_access::{Cx, Scopes};
use tidings_inbox::publish::{NewPost, To};
use tidings_inbox::tokens::{Issue, LIFETIME, Tokens};
use tower::ServiceExt as _;

use super::{Answer, World};

impl World {
    /// A message to some users, or to everyone.
    async fn publish(&self, to: &[&str], title: &str) -> String {
        self.publish_in(&self.acme, to, title).await
    }

    async fn publish_in(&self, cx: &Cx, to: &[&str], title: &str) -> String {
        self.publish_for(cx, to, title, None).await
    }

    async fn publish_for(&self, cx: &Cx, to: &[&str], title: &str, ttl: Option<&str>) -> String {
        let to = match to {
            [] => To::Everyone,
            users => To::Users(users.iter().map(ToString::to_string).collect()),
        };
        let post = NewPost {
            to,
            label: Some("Readers".to_owned()),
            category: Some("news".to_owned()),
            title: title.to_owned(),
            body: json!({"text": title}),
            cta_uri: None,
            host_system_id: None,
            send_at: None,
            expires_in: ttl.map(ToOwned::to_owned),
            sender: "Ops".to_owned(),
        };
        // At the time that it is now.
        let cx = self.access.working_in(cx.workspace()).await.unwrap().unwrap();
        let published = self.inbox.publish(&cx, &"app".parse().unwrap(), post).await.unwrap();
        published.id.to_string()
    }

    /// A token of a user of `acme`.
    async fn token(&self, uid: &str) -> String {
        self.token_in(&self.acme, uid).await
    }

    async fn token_in(&self, cx: &Cx, uid: &str) -> String {
        let keys = tidings_access::signing::SigningKeys::load(cx.database(), cx.now());
        let cx = self.access.working_in(cx.workspace()).await.unwrap().unwrap();
        let issue = Issue { uid: uid.parse().unwrap(), inboxes: vec![], lifetime: LIFETIME };
        Tokens::new(keys.await.unwrap()).issue(&cx, issue).await.unwrap().token
    }

    /// What a browser on a page of this origin gets.
    async fn ask_from_page(&self, line: &str, origin: &str, token: Option<&str>) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("x-request-id", "r-1")
            .header("host", "m.example.org")
            .header("origin", origin);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.ask(request.body(Body::empty()).unwrap()).await
    }

    async fn open(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn all(&self) -> String {
        self.key(&self.acme, Scopes::all()).await.api_key.expose()
    }
}

fn titles(page: &Value) -> Vec<&str> {
    let messages = page["messages"].as_array().unwrap();
    messages.iter().map(|message| message["title"].as_str().unwrap()).collect()
}
