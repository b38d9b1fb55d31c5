//! `/confirm/<token>`: the page on which somebody says that it was he who subscribed.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use tidings_signals::tracking::confirm::{self, Question, Stands};
use tidings_signals::tracking::{ChoiceError, Tracking};

use super::page::{self, masked, page};
use super::{Peer, proof, refused, seen};

type Token = Result<Path<String>, PathRejection>;

pub(super) async fn show(State(tracking): State<Tracking>, token: Token) -> Response {
    let Ok(Path(token)) = token else { return page::not_found() };
    match confirm::question(&tracking, &token).await {
        Ok(question) => match question.stands {
            Stands::Open => page(StatusCode::OK, "Confirm your subscription", &ask(&question)),
            Stands::Confirmed => confirmed(&question),
            Stands::Expired => expired(),
        },
        Err(error) => refused(&error),
    }
}

pub(super) async fn act(
    State(tracking): State<Tracking>,
    token: Token,
    headers: HeaderMap,
    peer: Option<Extension<Peer>>,
) -> Response {
    let Ok(Path(token)) = token else { return page::not_found() };
    let request = seen(&Method::POST, &headers, peer.map(|Extension(peer)| peer));
    let proof = proof(request);
    let question = match confirm::question(&tracking, &token).await {
        Ok(question) => question,
        Err(error) => return refused(&error),
    };
    match confirm::confirm(&question, proof).await {
        Ok(()) => confirmed(&question),
        Err(ChoiceError::Expired) => expired(),
        Err(error) => refused(&error),
    }
}

fn ask(question: &Question) -> Markup {
    html! {
        p {
            "Shall " strong { (masked(question.address.as_str())) } " get “" (question.audience) "”"
            @if let Some(client) = &question.client { " from " strong { (client) } } "?"
        }
        form method="post" {
            button class="main" { "Yes, subscribe me" }
        }
        p class="quiet" { "If it was not you who asked for this, just close this page. Nothing will be sent." }
    }
}

fn confirmed(question: &Question) -> Response {
    let content = html! {
        p class="done" role="status" { "It is confirmed." }
        p { strong { (masked(question.address.as_str())) } " gets “" (question.audience) "” from now on." }
        p class="quiet" { "Every email has a link by which you can end this." }
    };
    page(StatusCode::OK, "You are subscribed", &content)
}

fn expired() -> Response {
    let content = html! {
        p { "Nothing was changed: this link is too old, or you have unsubscribed since." }
        p class="quiet" { "Subscribe once more, and we send you a new one." }
    };
    page(StatusCode::GONE, "This link has expired", &content)
}
