//! What the world may call without a key: the links of our mails.
//!
//! Here: the pixel, the way of a click, the pages on which a reader unsubscribes, chooses and confirms. A link proves
//! itself by its signature. GET and HEAD change nothing, because machines follow every link; POST does. Not here:
//! what any of it means (`signals::tracking`).

mod confirm;
mod form;
mod page;
mod preferences;
#[cfg(test)]
mod tests;
mod tracking;
mod unsubscribe;

use std::net::IpAddr;

use axum::Router;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use axum::routing::get;
use tidings_access::StorageError;
use tidings_people::consent::Proof;
use tidings_signals::tracking::hits::Request as Seen;
use tidings_signals::tracking::{ChoiceError, Tracking};

pub use tracking::UNSTORED_METRIC;

use crate::{Limits, around};

/// Who is at the other end of the connection. The listener says so with each request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// The links of our mails, to be merged with `router`.
pub fn public(tracking: Tracking, limits: Limits) -> Router {
    let routes = Router::new()
        .route("/t/o/{file}", get(tracking::pixel))
        .route("/t/c/{token}", get(tracking::click))
        .route("/u/{token}", get(unsubscribe::show).post(unsubscribe::act))
        .route("/p/{token}", get(preferences::show).post(preferences::act))
        .route("/confirm/{token}", get(confirm::show).post(confirm::act));
    around(routes, limits).with_state(tracking)
}

/// Which version of the words on our pages somebody agreed to or refused by. A change of what they say is another version.
const WORDS: &str = "tidings-1";

/// What is kept of a choice that was made on one of our pages.
fn proof(request: Seen) -> Proof {
    let text_version = Some(WORDS.parse().expect("it is a line"));
    Proof { ip: request.ip, user_agent: request.user_agent, text_version }
}

/// What a request tells of whoever made it.
fn seen(method: &Method, headers: &HeaderMap, peer: Option<Peer>) -> Seen {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let says = |name: &str, words: &[&str]| {
        let said = text(name).unwrap_or_default().to_ascii_lowercase();
        words.iter().any(|word| said.contains(word))
    };
    let user_agent =
        headers.get("user-agent").map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    Seen {
        head: *method == Method::HEAD,
        user_agent: user_agent.map(std::borrow::Cow::into_owned),
        ip: address(headers, peer),
        prefetch: ["purpose", "sec-purpose", "x-purpose", "x-moz"]
            .iter()
            .any(|name| says(name, &["prefetch", "prerender", "preview"])),
        gpc: text("sec-gpc") == Some("1"),
    }
}

/// Who asked. A proxy of ours is on this machine or in a private network, and says last whom it asks for; anybody else
/// could say what he likes.
fn address(headers: &HeaderMap, peer: Option<Peer>) -> Option<IpAddr> {
    let peer = peer.map(|Peer(ip)| ip.to_canonical());
    let is_ours = match peer {
        Some(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private(),
        Some(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local(),
        None => false,
    };
    if !is_ours {
        return peer;
    }
    let said = headers.get_all("x-forwarded-for").iter().next_back();
    let said = said.and_then(|value| value.to_str().ok()).and_then(|list| list.rsplit(',').next());
    said.and_then(|ip| ip.trim().parse().ok()).or(peer)
}

/// What could not be done, as a page.
fn refused(error: &ChoiceError) -> Response {
    match error {
        ChoiceError::Invalid => page::not_found(),
        ChoiceError::Nobody => page::nobody(),
        ChoiceError::NotOffered => page::not_understood(),
        ChoiceError::Suppressed => page::suppressed(),
        ChoiceError::Expired => page::not_found(),
        ChoiceError::Store(error) => unavailable(error),
    }
}

fn unavailable(error: &StorageError) -> Response {
    tracing::error!(error = %tidings_kernel::causes(error), "A page could not be served");
    page::unavailable()
}
