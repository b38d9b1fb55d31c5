//! The pixel and the way of a click.

use axum::Extension;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tidings_kernel::causes;
use tidings_signals::tracking::Tracking;
use tidings_signals::tracking::hits::{self, HitError};

use super::{Peer, page, seen};
use crate::answer::AsItIs;

/// Opens and clicks that were answered and could not be written down.
pub const UNSTORED_METRIC: &str = "tidings_tracking_unstored_total";

/// One transparent pixel.
const GIF: &[u8] =
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\
    \x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// Whatever happens, the answer is a picture: nobody shall see a broken one in his mail.
pub(super) async fn pixel(
    State(tracking): State<Tracking>,
    file: Result<Path<String>, PathRejection>,
    method: Method,
    headers: HeaderMap,
    peer: Option<Extension<Peer>>,
) -> Response {
    let file = file.map(|Path(file)| file).unwrap_or_default();
    let Some(token) = file.strip_suffix(".gif") else { return picture(StatusCode::NOT_FOUND) };
    let request = seen(&method, &headers, peer.map(|Extension(peer)| peer));
    match hits::opened(&tracking, token, &request).await {
        Ok(()) => picture(StatusCode::OK),
        Err(HitError::Invalid) => picture(StatusCode::NOT_FOUND),
        Err(error @ (HitError::Unchecked(_) | HitError::Unstored(_))) => {
            tracing::error!(error = %causes(&error), "An open was not written down");
            metrics::counter!(UNSTORED_METRIC, "event" => "open").increment(1);
            picture(StatusCode::SERVICE_UNAVAILABLE)
        }
    }
}

/// Leads on to the target that the link was made for, and to no other. A reader gets there even if we cannot write
/// it down; what is lost then is counted.
#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn click(
    State(tracking): State<Tracking>,
    token: Result<Path<String>, PathRejection>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
    method: Method,
    headers: HeaderMap,
    peer: Option<Extension<Peer>>,
) -> Response {
    let (Ok(Path(token)), Ok(Query(query))) = (token, query) else { return page::not_found() };
    // Whoever passes a link on may have hung something on it.
    let Some((_, target)) = query.into_iter().find(|(name, _)| name == "u") else {
        return page::not_found();
    };
    let request = seen(&method, &headers, peer.map(|Extension(peer)| peer));
    match hits::clicked(&tracking, (&token, &target), &request).await {
        Ok(()) => lead_on(&target),
        Err(HitError::Invalid) => page::not_found(),
        Err(error @ HitError::Unstored(_)) => {
            tracing::error!(error = %causes(&error), "A click was not written down");
            metrics::counter!(UNSTORED_METRIC, "event" => "click").increment(1);
            lead_on(&target)
        }
        // Not known to be ours: leading on could lead anywhere.
        Err(error @ HitError::Unchecked(_)) => {
            tracing::error!(error = %causes(&error), "A link could not be checked");
            page::unavailable()
        }
    }
}

fn lead_on(target: &str) -> Response {
    let location = tidings_delivery::links::location(target);
    let location = location.and_then(|location| HeaderValue::from_str(&location).ok());
    let Some(location) = location else { return page::not_found() };
    let mut response = StatusCode::FOUND.into_response();
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().extend(page::unseen());
    response
}

fn picture(status: StatusCode) -> Response {
    let mut response = (status, [(header::CONTENT_TYPE, "image/gif")], GIF).into_response();
    response.headers_mut().extend(page::unseen());
    response.extensions_mut().insert(AsItIs);
    response
}
