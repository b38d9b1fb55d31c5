//! One attempt, as the endpoint sees it and as it is written down.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use by_hand::is_signed_by;
use serde_json::json;
use tidings_kernel::{Outgoing, QueueEngine as _, queues};
use tidings_testbed::{Bed, each_store};

use super::{Receiver, Request, all, here, json_of, only, say, sent, subscribe, work, work_with};
use crate::deliveries::{self, Status};
use crate::{EventType, Poster, Resolve, Targets, endpoints};

/// HMAC-SHA-256 out of its definition (RFC 2104), and Base64 by hand: not one line shared with what signs.
mod by_hand {
    use sha2::{Digest as _, Sha256};

    fn sixes(text: &str) -> Vec<u8> {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bits: Vec<u8> = text
            .trim_end_matches('=')
            .bytes()
            .map(|c| ALPHABET.iter().position(|one| *one == c).unwrap() as u8)
            .flat_map(|six| (0..6).rev().map(move |bit| six >> bit & 1))
            .collect();
        bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit)).collect()
    }

    /// Whether a signature is that of the content.
    pub(super) fn is_signed_by(secret: &str, content: &str, signature: &str) -> bool {
        let key = sixes(secret.strip_prefix("whsec_").unwrap());
        assert!((24..=64).contains(&key.len()));
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(&key);
        let inner: Vec<u8> = block.iter().map(|byte| byte ^ 0x36).chain(content.bytes()).collect();
        let outer = block.iter().map(|byte| byte ^ 0x5c);
        let outer: Vec<u8> = outer.chain(Sha256::digest(inner)).collect();
        sixes(signature) == Sha256::digest(outer).to_vec()
    }
}

fn content(request: &Request) -> String {
    let header = |name: &str| &request.headers[name];
    format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), request.body)
}

async fn a_delivery_is_signed_as_the_standard_says(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    receiver.answers("200 OK", "thank\u{0}you");
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    work(bed).await;

    let requests = receiver.requests();
    let request = &requests[0];
    assert_eq!(request.line, "POST /hooks HTTP/1.1");
    assert_eq!(request.headers["content-type"], "application/json");
    assert!(request.headers["user-agent"].starts_with("Tidings-Webhooks/"));
    assert_eq!(request.headers["webhook-timestamp"], "1782907200");
    assert_eq!(
        json_of(request),
        json!({
            "type": "email.sent",
            "timestamp": "2026-07-01T11:59:58Z",
            "data": { "message_id": 101, "email": "ada@example.org" }
        })
    );
    let signature = request.headers["webhook-signature"].strip_prefix("v1,").unwrap();
    let secret = issued.secret.expose();
    assert!(is_signed_by(secret, &content(request), signature));
    assert!(!is_signed_by(secret, &format!("{} ", content(request)), signature));

    let told = only(&cx, &issued).await;
    assert_eq!(told.delivery.status, Status::Delivered);
    assert_eq!(told.delivery.attempts, 1);
    assert_eq!(told.delivery.delivered_at, Some(cx.now()));
    assert_eq!(told.delivery.event_id, request.headers["webhook-id"]);
    assert_eq!(told.body.as_deref(), Some(request.body.as_str()));
    let [attempt] = &told.attempts[..] else { panic!("{told:?}") };
    assert_eq!(attempt.status_code, Some(200));
    assert_eq!(attempt.answer.as_deref(), Some("thank you"));
    assert_eq!(attempt.attempted_at, cx.now());
}

async fn for_a_day_both_secrets_sign(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let old = subscribe(&cx, &receiver.url, &[]).await;
    let new = endpoints::rotate_secret(&cx, old.endpoint.id).await.unwrap();
    assert_ne!(old.secret, new.secret);
    say(&cx, &sent("1")).await;
    work(bed).await;
    bed.advance(24 * 60).await;
    say(&bed.cx().await, &sent("2")).await;
    work(bed).await;

    let requests = receiver.requests();
    let good = |place: usize, secret: &crate::Secret| {
        let request: &Request = &requests[place];
        let signatures = request.headers["webhook-signature"].split(' ');
        let by = signatures.map(|one| one.strip_prefix("v1,").unwrap());
        by.filter(|one| is_signed_by(secret.expose(), &content(request), one)).count()
    };
    assert_eq!((good(0, &old.secret), good(0, &new.secret)), (1, 1));
    assert_eq!((good(1, &old.secret), good(1, &new.secret)), (0, 1));
    assert!(!requests[1].headers["webhook-signature"].contains(' '));
}

async fn workers_that_race_post_once(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    let poster = Poster::new(here());
    let mut handlers = crate::handlers(&bed.access, poster);
    let (_, deliver) = handlers.pop().unwrap();
    let (_, fanout) = handlers.pop().unwrap();
    bed.work(&queues::WEBHOOK_FANOUT, fanout).await;
    // The same message five times over.
    let id = all(&cx, &issued).await[0].id;
    let body = crate::rows::ask_for(cx.workspace_id().get(), id);
    for _ in 0..4 {
        let again = Outgoing::new(&queues::WEBHOOK_DELIVERY, body.clone());
        bed.queues.send(vec![again]).await.unwrap();
    }
    let race = || bed.work(&queues::WEBHOOK_DELIVERY, Arc::clone(&deliver));
    tokio::join!(race(), race(), race());
    // Who came in between waits for the claim to end, and finds it done.
    bed.advance(2).await;
    race().await;
    assert_eq!(receiver.count(), 1);
    assert_eq!(only(&cx, &issued).await.attempts.len(), 1);
    let depth = bed.queues.depth(&queues::WEBHOOK_DELIVERY).await.unwrap();
    assert_eq!((depth.ready, depth.hidden, depth.dead), (0, 0, 0));
}

async fn a_worker_that_died_after_posting_posts_again_with_the_same_id(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    // It never gets an answer, and is stopped while it waits: the claim is made, the request is out, nothing is recorded.
    receiver.answers_raw("");
    let mut dying = Box::pin(work(bed));
    while receiver.count() == 0 {
        tokio::select! { _ = &mut dying => panic!("it cannot end"), () = tokio::task::yield_now() => {} }
    }
    drop(dying);
    receiver.answers("200 OK", "");
    bed.advance(2).await;
    work(bed).await;
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].headers["webhook-id"], requests[1].headers["webhook-id"]);
    assert_eq!(requests[0].body, requests[1].body);
    let told = only(&cx, &issued).await;
    assert_eq!((told.delivery.status, told.attempts.len()), (Status::Delivered, 1));
}

async fn an_endpoint_that_does_not_answer_in_time_has_failed(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    receiver.answers_raw("");
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    work_with(bed, Poster::new(here()).within(Duration::from_millis(50))).await;
    let told = only(&cx, &issued).await;
    assert_eq!(told.delivery.status, Status::Pending);
    let error = told.attempts[0].error.as_deref().unwrap();
    assert!(error.contains("timed out"), "{error}");
    assert!(!error.contains("/hooks"), "{error}");
}

async fn a_redirect_is_not_followed_and_a_long_answer_is_cut(bed: &Bed) {
    let cx = bed.cx().await;
    let (receiver, elsewhere) = (Receiver::start().await, Receiver::start().await);
    let body = "é".repeat(100_000);
    let (length, to) = (body.len(), &elsewhere.url);
    receiver.answers_raw(&format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    let issued = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    work(bed).await;
    assert_eq!(elsewhere.count(), 0);
    let told = only(&cx, &issued).await;
    assert_eq!(told.delivery.status, Status::Pending);
    assert_eq!(told.attempts[0].status_code, Some(307));
    assert_eq!(told.attempts[0].answer.as_deref(), Some("é".repeat(512).as_str()));
}

/// A name that was public when the endpoint was made, and has moved inside since.
struct Moved;

#[async_trait]
impl Resolve for Moved {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec!["127.0.0.1".parse().unwrap()])
    }
}

async fn a_name_that_has_moved_inside_is_not_connected_to(bed: &Bed) {
    let cx = bed.cx().await;
    // With a port of its own, which only development allows: so it is the address that is refused.
    let receiver = Receiver::start().await;
    let issued = subscribe(&cx, "https://hooks.example/", &[]).await;
    let inside = subscribe(&cx, &receiver.url, &[]).await;
    say(&cx, &sent("1")).await;
    work_with(bed, Poster::new(Targets::with_resolver(false, Arc::new(Moved)))).await;
    let told = only(&cx, &issued).await;
    let error = told.attempts[0].error.as_deref().unwrap();
    assert!(error.contains("the host is not on the public internet"), "{error}");
    let told = only(&cx, &inside).await;
    assert!(told.attempts[0].error.as_deref().unwrap().contains("use https"), "{told:?}");
    assert_eq!(receiver.count(), 0);
}

async fn a_test_event_goes_to_one_endpoint_whatever_it_wants(bed: &Bed) {
    let cx = bed.cx().await;
    let receiver = Receiver::start().await;
    let one = subscribe(&cx, &receiver.url, &[EventType::EmailOpened]).await;
    subscribe(&cx, &receiver.url, &[]).await;
    let made = deliveries::send_test(&cx, one.endpoint.id).await.unwrap();
    assert_eq!((made.event_type.as_str(), made.status), ("webhook.test", Status::Pending));
    work(bed).await;
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1);
    let told = json_of(&requests[0]);
    assert_eq!(told["type"], "webhook.test");
    assert_eq!(told["data"]["webhook_id"], one.endpoint.id.get());
}

each_store!(
    a_delivery_is_signed_as_the_standard_says,
    for_a_day_both_secrets_sign,
    workers_that_race_post_once,
    a_worker_that_died_after_posting_posts_again_with_the_same_id,
    an_endpoint_that_does_not_answer_in_time_has_failed,
    a_redirect_is_not_followed_and_a_long_answer_is_cut,
    a_name_that_has_moved_inside_is_not_connected_to,
    a_test_event_goes_to_one_endpoint_whatever_it_wants,
);
