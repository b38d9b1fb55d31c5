//! `/p/<token>`: the page on which a reader chooses what he gets.

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use tidings_people::consent::Proof;
use tidings_signals::tracking::choices::{self, Choices, Scope};
use tidings_signals::tracking::reader::{Reader, Subscription, Topic};
use tidings_signals::tracking::{ChoiceError, Tracking};

use super::form::Form;
use super::page::{self, masked, page};
use super::{Peer, proof, refused, seen};

type Token = Result<Path<String>, PathRejection>;

const TITLE: &str = "Your email preferences";

pub(super) async fn show(State(tracking): State<Tracking>, token: Token) -> Response {
    let Ok(Path(token)) = token else { return page::not_found() };
    match choices::by_preferences(&tracking, &token).await {
        Ok(reader) => page(StatusCode::OK, TITLE, &centre(&reader, None)),
        Err(error) => refused(&error),
    }
}

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
        Ok((reader, said)) => page(StatusCode::OK, TITLE, &centre(&reader, Some(said))),
        Err(error) => refused(&error),
    }
}

async fn carry_out(
    tracking: &Tracking,
    token: &str,
    form: &Form,
    proof: Proof,
) -> Result<(Reader, &'static str), ChoiceError> {
    let reader = choices::by_preferences(tracking, token).await?;
    let said = match form.one("action") {
        Some("save") => {
            choices::choose(tracking, (&reader, token), &chosen(form), proof).await?;
            "Your choice is saved."
        }
        Some("stop") => {
            choices::unsubscribe(tracking, (&reader, token), Scope::Everything, proof).await?;
            "All emails are stopped."
        }
        Some("start") => {
            choices::resubscribe(&reader, Scope::Everything, proof).await?;
            "You get emails again, as chosen here."
        }
        Some(_) | None => return Err(ChoiceError::NotOffered),
    };
    // As it is stored, and not as it was sent.
    Ok((choices::by_preferences(tracking, token).await?, said))
}

/// A box that is not ticked is not sent, so the page says which ones it has shown.
fn chosen(form: &Form) -> Choices {
    let read = |shown: &str, on: &str| {
        let on = form.numbers(on);
        form.numbers(shown).into_iter().map(|id| (id, on.contains(&id))).collect()
    };
    Choices { topics: read("topic", "topic_on"), subscriptions: read("list", "list_on") }
}

fn centre(reader: &Reader, said: Option<&str>) -> Markup {
    let lists: Vec<_> = reader.subscriptions.iter().collect();
    html! {
        @if let Some(said) = said {
            p class="done" role="status" { (said) }
        }
        p { "Emails to " strong { (masked(reader.address.as_str())) } "." }
        @if reader.is_suppressed {
            p {
                "At the moment nothing is sent to this address: an email to it came back, or was reported as unwanted."
            }
        }
        @if reader.left_everything {
            p { "You have stopped all emails. What is chosen below counts once you start them again." }
            form method="post" {
                button class="main" name="action" value="start" { "Start emails again" }
            }
            hr;
        }
        @if lists.is_empty() && reader.topics.is_empty() {
            p class="quiet" { "There is nothing to choose from yet." }
        } @else {
            form method="post" {
                @if !lists.is_empty() {
                    fieldset {
                        legend { "Subscriptions" }
                        ul { @for subscription in lists { (list(subscription)) } }
                    }
                }
                @if !reader.topics.is_empty() {
                    fieldset {
                        legend { "Topics" }
                        ul { @for topic in &reader.topics { (subject(topic)) } }
                    }
                }
                button class={ @if !reader.left_everything { "main" } } name="action" value="save" { "Save" }
            }
        }
        @if !reader.left_everything {
            hr;
            form method="post" {
                button name="action" value="stop" { "Stop all emails" }
            }
        }
        p class="quiet" { "Receipts, passwords and other messages that you ask for still come." }
    }
}

fn list(subscription: &Subscription) -> Markup {
    let from = subscription.client_name.as_deref();
    html! {
        li {
            @if subscription.is_pending {
                label {
                    input type="checkbox" disabled;
                    span {
                        (subscription.audience_name)
                        small { "Waits for your confirmation: see the email that we sent you." }
                    }
                }
            } @else {
                input type="hidden" name="list" value=(subscription.id);
                label {
                    input type="checkbox" name="list_on" value=(subscription.id) checked[subscription.is_on];
                    span {
                        (subscription.audience_name)
                        @if let Some(from) = from { small { "from " (from) } }
                    }
                }
            }
        }
    }
}

fn subject(topic: &Topic) -> Markup {
    html! {
        li {
            input type="hidden" name="topic" value=(topic.id);
            label {
                input type="checkbox" name="topic_on" value=(topic.id) checked[topic.is_on];
                span {
                    (topic.name)
                    @if let Some(description) = &topic.description { small { (description) } }
                }
            }
        }
    }
}
