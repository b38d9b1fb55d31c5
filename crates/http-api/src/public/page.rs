//! What every page has in common: one small stylesheet, no script, nothing from elsewhere, and nothing kept by anybody.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use crate::answer::AsItIs;

const STYLE: &str = include_str!("page.css");

/// The page may show itself and send its form, and nothing else. The stylesheet is named by its hash, so that nothing
/// that somebody smuggles into a name can become one.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).expect("a policy is plain text")
});

/// Snapshots show the pages, and not how they are painted.
#[cfg(test)]
pub(super) fn style_of_tests() -> &'static str {
    STYLE
}

/// A page with a heading.
pub(super) fn page(status: StatusCode, title: &str, content: &Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    (content)
                }
            }
        }
    };
    let mut response = (status, page).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    for (name, value) in unseen() {
        headers.insert(name, value);
    }
    response.extensions_mut().insert(AsItIs);
    response
}

/// Nobody keeps the answer, indexes it, or learns from where its reader came: the address holds his token.
pub(super) fn unseen() -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex")),
    ]
}

/// The link was never ours, or was changed on its way. It says nothing about anybody.
pub(super) fn not_found() -> Response {
    let content = html! {
        p { "This address is not complete, or it was changed on its way to you." }
        p class="quiet" { "Try the link in the email again, or copy all of it." }
    };
    page(StatusCode::NOT_FOUND, "This link does not work", &content)
}

/// There is nobody any more whom the link is about.
pub(super) fn nobody() -> Response {
    let content = html! {
        p { "We have no data about you any more, so there is nothing to change here." }
        p class="quiet" { "You will not get emails because of this link." }
    };
    page(StatusCode::OK, "Nothing left to do", &content)
}

pub(super) fn not_understood() -> Response {
    let content = html! {
        p { "Nothing was changed." }
        p class="quiet" { "Open the link in the email again, and choose once more." }
    };
    page(StatusCode::BAD_REQUEST, "We did not understand that", &content)
}

/// It cannot be given back here.
pub(super) fn suppressed() -> Response {
    let content = html! {
        p { "At the moment nothing is sent to this address: an email to it came back, or was reported as unwanted." }
        p class="quiet" { "What you switched off is saved. To get emails again, write to the sender." }
    };
    page(StatusCode::CONFLICT, "We cannot send to this address", &content)
}

pub(super) fn too_large() -> Response {
    let content = html! { p { "Nothing was changed: what was sent is larger than anything this page sends." } };
    page(StatusCode::PAYLOAD_TOO_LARGE, "That was too much", &content)
}

/// Nothing was changed, or it is not known to be.
pub(super) fn unavailable() -> Response {
    let content = html! {
        p { "We could not save or read anything just now." }
        p class="quiet" { "Please try again in a minute." }
    };
    let mut response =
        page(StatusCode::SERVICE_UNAVAILABLE, "Please try again in a moment", &content);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("30"));
    response
}

/// Enough to recognise an address by whoever has it, and not enough to learn it: `a•••@example.org`.
pub(super) fn masked(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((local, domain)) => {
            let first: String = local.chars().take(1).collect();
            format!("{first}•••@{domain}")
        }
        None => "•••".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn an_address_is_shown_only_to_who_knows_it() {
        assert_eq!(masked("ada@example.org"), "a•••@example.org");
        assert_eq!(masked("a@example.org"), "a•••@example.org");
        assert_eq!(masked("äda|x@example.org"), "ä•••@example.org");
        assert_eq!(masked("\"@\"@example.org"), "\"•••@example.org");
        assert_eq!(masked(""), "•••");
    }
}
