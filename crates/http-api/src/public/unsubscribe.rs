//! `/u/<token>`: the page on which a reader takes back what he agreed to, and the one click of RFC 8058.

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use tidings_people::consent::Proof;
use tidings_signals::tracking::choices::{self, Scope};
use tidings_signals::tracking::reader::Reader;
use tidings_signals::tracking::{ChoiceError, Tracking};

use super::form::Form;
use super::page::{self, masked, page};
use super::{Peer, proof, refused, seen};

type Token = Result<Path<String>, PathRejection>;

/// Shows what can be taken back, and takes nothing back.
pub(super) async fn show(State(tracking): State<Tracking>, token: Token) -> Response {
    let Ok(Path(token)) = token else { return page::not_found() };
    match choices::by_unsubscribe(&tracking, &token).await {
        Ok(reader) => page(StatusCode::OK, "Unsubscribe", &question(&tracking, &reader)),
        Err(error) => refused(&error),
    }
}

/// Takes back at once. Whoever does not say how much, such as a mail program with its one click, means mails like
/// the one that the link was in.
pub(super) async fn act(
    State(tracking): State<Tracking>,
    token: Token,
    headers: HeaderMap,
    peer: Option<Extension<Peer>>,
    body: Body,
) -> Response {
    let Ok(Path(token)) = token else { return page::not_found() };
    let Ok(form) = Form::read(&headers, body).await else { return page::too_large() };
    let request = seen(&Method::POST, &headers, peer.map(|Extension(peer)| peer));
    let proof = proof(request);
    match carry_out(&tracking, &token, &form, proof).await {
        Ok(response) => response,
        Err(error) => refused(&error),
    }
}

async fn carry_out(
    tracking: &Tracking,
    token: &str,
    form: &Form,
    proof: Proof,
) -> Result<Response, ChoiceError> {
    let reader = choices::by_unsubscribe(tracking, token).await?;
    let scope = match form.one("scope") {
        Some(word) => Scope::from_word(word).ok_or(ChoiceError::NotOffered)?,
        None if form.has("scope") => return Err(ChoiceError::NotOffered),
        None => Scope::of(&reader.to),
    };
    match form.one("action") {
        Some("undo") => {
            choices::resubscribe(&reader, scope, proof).await?;
            Ok(page(StatusCode::OK, "You are back", &undone(&reader, scope)))
        }
        Some(_) => Err(ChoiceError::NotOffered),
        None if form.has("action") => Err(ChoiceError::NotOffered),
        None => {
            choices::unsubscribe(tracking, (&reader, token), scope, proof).await?;
            let done = done(tracking, &reader, scope);
            Ok(page(StatusCode::OK, "You are unsubscribed", &done))
        }
    }
}

fn question(tracking: &Tracking, reader: &Reader) -> Markup {
    let address = masked(reader.address.as_str());
    html! {
        @if reader.left_everything {
            p { "No newsletters or offers are sent to " strong { (address) } " any more." }
        } @else {
            p {
                "This is about emails to " strong { (address) } " from " strong { (reader.sender) } "."
                " What do you want to stop?"
            }
            form method="post" {
                @if let Some(audience) = &reader.audience {
                    button class="main" name="scope" value=(Scope::Client.as_str()) {
                        "“" (audience) "” from " (reader.sender)
                    }
                    button name="scope" value=(Scope::Audience.as_str()) {
                        "“" (audience) "” from anybody"
                    }
                    button name="scope" value=(Scope::Everything.as_str()) { "All emails" }
                } @else {
                    button class="main" name="scope" value=(Scope::Everything.as_str()) { "Stop all emails" }
                }
            }
        }
        (footnote(tracking, reader))
    }
}

/// What a scope means, in the middle of a sentence.
fn meant(reader: &Reader, scope: Scope) -> Markup {
    let audience = reader.audience.as_deref().unwrap_or_default();
    html! {
        @match scope {
            Scope::Client => { "“" (audience) "” from " strong { (reader.sender) } },
            Scope::Audience => { "“" (audience) "”, whoever sends it," },
            Scope::Everything => { "newsletters or offers" },
        }
    }
}

fn done(tracking: &Tracking, reader: &Reader, scope: Scope) -> Markup {
    html! {
        p class="done" role="status" { "It is done." }
        p {
            strong { (masked(reader.address.as_str())) } " does not get " (meant(reader, scope)) " any more."
        }
        form method="post" {
            input type="hidden" name="scope" value=(scope.as_str());
            button name="action" value="undo" { "Undo: I want to get them" }
        }
        (footnote(tracking, reader))
    }
}

fn undone(reader: &Reader, scope: Scope) -> Markup {
    html! {
        p class="done" role="status" { "It is undone." }
        p { strong { (masked(reader.address.as_str())) } " gets " (meant(reader, scope)) " again." }
        form method="post" {
            button name="scope" value=(scope.as_str()) { "Unsubscribe" }
        }
    }
}

fn footnote(tracking: &Tracking, reader: &Reader) -> Markup {
    html! {
        hr;
        p class="quiet" {
            a href=(tracking.links.preferences_path(&reader.to)) { "Choose what you get" }
            " instead. Receipts, passwords and other messages that you ask for still come."
        }
    }
}
