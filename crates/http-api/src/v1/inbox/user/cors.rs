//! Which web pages may ask from a browser: those of the origins that the workspace allows, and our own.
//!
//! A browser asks first whether it may ask (a preflight), without a token: then nobody knows yet which workspace it is
//! about, and everybody may. The request itself is refused if its page is of another origin. What such a page then
//! can read is the refusal, so that whoever builds it sees why. No cookie lets anybody in here, so there is nothing that
//! a foreign page could do in the name of a visitor who has not given it his token.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use tidings_access::Cx;
use tidings_inbox::Inbox;

use crate::problem::Problem;

const METHODS: HeaderValue = HeaderValue::from_static("GET, PUT, POST");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, last-event-id, x-user-id, if-none-match, cache-control",
);
const EXPOSED: HeaderValue =
    HeaderValue::from_static("date, etag, retry-after, x-request-id, ratelimit-remaining");
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// A preflight. What it asks for stands in the headers of the answer, and all of it may be had.
pub(super) async fn asks_first() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Tells the browser that the page may read the answer, whoever has made it.
pub(super) async fn answer(request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let asks_first = *request.method() == Method::OPTIONS;
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let Some(origin) = origin else { return response };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    if asks_first {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    } else {
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    response
}

/// Refuses pages of other origins.
pub(super) async fn check(inbox: &Inbox, cx: &Cx, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if is_ours(origin, host) {
        return Ok(());
    }
    let settings = inbox.settings.tenant(cx).await?;
    if is_allowed(origin, &settings.allowed_origins) {
        return Ok(());
    }
    let detail = "pages of this origin may not ask; PUT /v1/inbox-settings has allowed_origins";
    Err(Problem::new(StatusCode::FORBIDDEN, "origin_not_allowed", detail))
}

/// Our own pages, under whatever name the browser has for us.
fn is_ours(origin: &str, host: &str) -> bool {
    let own = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    !host.is_empty() && own.is_some_and(|own| own.eq_ignore_ascii_case(host))
}

fn is_allowed(origin: &str, allowed: &[String]) -> bool {
    allowed.iter().any(|one| one == "*" || one.eq_ignore_ascii_case(origin))
}

#[cfg(test)]
mod tests {
    use super::{is_allowed, is_ours};

    #[test]
    fn an_origin_is_allowed_as_a_whole() {
        let allowed = ["https://app.example.org".to_owned()];
        for (origin, expected) in [
            ("https://app.example.org", true),
            ("https://APP.example.org", true),
            ("http://app.example.org", false),
            ("https://app.example.org:8443", false),
            ("https://app.example.org.evil.example", false),
            ("https://evil.example/https://app.example.org", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(origin, &allowed), expected, "{origin}");
            assert!(is_allowed(origin, &["*".to_owned()]));
            assert!(!is_allowed(origin, &[]));
        }
    }

    #[test]
    fn our_own_pages_are_ours() {
        for (origin, host, expected) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", true),
            ("https://mail.example.org", "mail.example.org", true),
            ("https://mail.example.org", "MAIL.example.org", true),
            ("https://mail.example.org.evil.example", "mail.example.org", false),
            ("https://mail.example.org:1", "mail.example.org", false),
            ("null", "null", false),
            ("https://", "", false),
        ] {
            assert_eq!(is_ours(origin, host), expected, "{origin} {host}");
        }
    }
}
