//! The description of the API as a page for people: `GET /docs`.
//!
//! It is made from the OpenAPI document when the server starts, so it cannot say anything else. One file, no script,
//! nothing from elsewhere. Not here: the document itself (`v1`), and how schemas and examples are written (`schema`, `example`).

mod example;
mod operation;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::answer::AsItIs;
use operation::Operation;

const STYLE: &str = include_str!("docs.css");

/// The page, written once and served to everybody.
#[derive(Clone)]
pub(crate) struct Docs {
    page: axum::body::Bytes,
    policy: HeaderValue,
}

impl Docs {
    /// From the text of an OpenAPI document.
    pub(crate) fn new(openapi: &str) -> Self {
        let document: Value =
            serde_json::from_str(openapi).expect("the description of the API is JSON");
        let hash = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; frame-ancestors 'none'"
        );
        Self {
            page: page(&document).into_string().into(),
            policy: HeaderValue::from_str(&policy).expect("a policy is plain text"),
        }
    }

    pub(crate) fn answer(&self) -> Response {
        let mut response = self.page.clone().into_response();
        let headers = response.headers_mut();
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, html);
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response.extensions_mut().insert(AsItIs);
        response
    }
}

fn page(document: &Value) -> Markup {
    let groups = groups(document);
    let title = format!("{} API", text(&document["info"], "title"));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (contents(&groups))
                main {
                    h1 { (title) }
                    (prose(text(&document["info"], "description")))
                    (begin())
                    @for (tag, operations) in &groups {
                        section {
                            h2 id=(anchor(tag)) { (tag) }
                            @for operation in operations {
                                (operation.show(document))
                            }
                        }
                    }
                    section {
                        h2 id="schemas" { "Schemas" }
                        (schema::all(document))
                    }
                }
            }
        }
    }
}

fn begin() -> Markup {
    html! {
        p {
            "Every request has a key in its header " code { "Authorization" } ". The examples take it, and the server's address, from two variables:"
        }
        pre { "export TIDINGS=http://127.0.0.1:8080 KEY=tdg_…" }
        p { "The same as OpenAPI 3.1, for programs: " a href="/v1/openapi.json" { "/v1/openapi.json" } }
    }
}

fn contents(groups: &BTreeMap<&str, Vec<Operation<'_>>>) -> Markup {
    html! {
        nav aria-label="Contents" {
            @for (tag, operations) in groups {
                a.tag href=(format!("#{}", anchor(tag))) { (tag) }
                ul {
                    @for operation in operations {
                        li { a href=(format!("#{}", operation.anchor())) { (operation.summary()) } }
                    }
                }
            }
            a.tag href="#schemas" { "Schemas" }
        }
    }
}

/// The operations by their tag.
fn groups(document: &Value) -> BTreeMap<&str, Vec<Operation<'_>>> {
    let mut groups: BTreeMap<&str, Vec<Operation<'_>>> = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, described) in methods.as_object().into_iter().flatten() {
            let operation = Operation { method, path, described };
            groups.entry(operation.tag()).or_default().push(operation);
        }
    }
    for operations in groups.values_mut() {
        operations.sort_by_key(|operation| (operation.path, operation.order()));
    }
    groups
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// `POST /v1/messages/{id}` becomes `post-v1-messages-id`.
fn anchor(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

/// Paragraphs, with `code` in them.
fn prose(text: &str) -> Markup {
    html! {
        @for paragraph in text.split("\n\n").filter(|one| !one.trim().is_empty()) {
            p { (inline(paragraph)) }
        }
    }
}

fn inline(text: &str) -> Markup {
    html! {
        @for (position, piece) in text.split('`').enumerate() {
            @if position % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}
