//! The links of our mails as a reader, a mail program and a machine meet them.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use insta::assert_snapshot;
use jiff::ToSpan as _;
use tidings_access::{Cx, DisplayName};
use tidings_delivery::links::{Addressee, Links, Source};
use tidings_kernel::queues;
use tidings_people::consent::subscriptions::{self, Subscribe};
use tidings_people::consent::{Act, By, Proof, Whom, audiences, topics};
use tidings_signals::tracking::{Tracking, handler};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::Bed;
use tower::ServiceExt as _;

use super::{Peer, public};
use crate::Limits;

const ONE_CLICK: &str = "List-Unsubscribe=One-Click";
const FORM: &str = "application/x-www-form-urlencoded";

struct World {
    bed: Bed,
    cx: Cx,
    tracking: Tracking,
    router: Router,
    to: Addressee,
    /// What waits for ada to be confirmed.
    pending: i64,
}

struct Answer {
    status: u16,
    headers: String,
    body: String,
}

fn act() -> Act {
    Act { by: By::Person, source: "test".parse().unwrap(), reason: None, proof: Proof::default() }
}

impl World {
    /// `ada|l@example.org` gets `News & more` from `shop`, and has asked for `Beta`.
    async fn new() -> Self {
        let bed = Bed::memory().await;
        let cx = bed.cx().await;
        let client = bed.shop(&cx).await.id;
        let mut contact = None;
        let mut made = Vec::new();
        for (slug, name, double_opt_in) in
            [("news", "News <b>& more</b>", false), ("beta", "Beta", true)]
        {
            let create = audiences::Create {
                slug: slug.parse().unwrap(),
                name: name.parse::<DisplayName>().unwrap(),
                double_opt_in,
                confirm_template_key: None,
            };
            let audience = audiences::create(&cx, create).await.unwrap().id;
            let whom = Whom::Email("ada|l@example.org".parse().unwrap());
            let subscribe =
                Subscribe { whom, audience, client: None, confirmed: false, act: act() };
            let outcome = subscriptions::subscribe(&cx, subscribe).await.unwrap();
            contact = Some(outcome.contact);
            made.push((audience, outcome.subscription.unwrap().id));
        }
        for (slug, name, description) in
            [("offers", "Offers", None), ("tips", "Tips", Some("How to make more of it"))]
        {
            let create = topics::Create {
                slug: slug.parse().unwrap(),
                name: name.parse().unwrap(),
                description: description.map(|text| text.parse().unwrap()),
            };
            topics::create(&cx, create).await.unwrap();
        }
        let contact = contact.unwrap().get();
        let ids = [cx.workspace_id().get(), client.get(), contact];
        let insert = cx.database().write(move |tx| {
            let sql = "INSERT INTO transactional_messages
                           (workspace_id, client_id, lead_id, idempotency_key, email, status, sent_at,
                            created_at, updated_at)
                       VALUES ($1, $2, $3, 'k', 'ada|l@example.org', 'sent', 0, 0, 0) RETURNING id";
            tx.query(sql, &ids.map(Param::Int))?[0].int(0)
        });
        let message = insert.await.map_err(|error: DatabaseError| error).unwrap();
        let to = Addressee {
            workspace: ids[0],
            source: Source::Transactional(message),
            contact,
            client: ids[1],
            audience: Some(made[0].0.get()),
            topic: None,
        };
        let links = Links::load(cx.database(), "https://m.example.org", cx.now()).await.unwrap();
        let tracking = Tracking { access: bed.access.clone(), links };
        let limits = Limits::uniform(1 << 20, Duration::from_secs(5));
        let router = public(tracking.clone(), limits);
        Self { bed, cx, tracking, router, to, pending: made[1].1.get() }
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let mut headers: Vec<_> = parts
            .headers
            .iter()
            .filter(|(name, _)| !["x-request-id", "content-length"].contains(&name.as_str()))
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        headers.sort();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let body = String::from_utf8_lossy(&body).into_owned();
        Answer { status: parts.status.as_u16(), headers: headers.join("\n"), body }
    }

    async fn ask(&self, method: &str, link: &str) -> Answer {
        let path = link.trim_start_matches("https://m.example.org");
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        self.send(request).await
    }

    async fn get(&self, link: &str) -> Answer {
        self.ask("GET", link).await
    }

    async fn post(&self, link: &str, body: &str) -> Answer {
        let path = link.trim_start_matches("https://m.example.org");
        let request = Request::builder().method("POST").uri(path);
        let request = request.header(header::CONTENT_TYPE, FORM).header("user-agent", "Browser");
        let peer = Peer("192.0.2.7".parse().unwrap());
        let request = request.extension(peer).body(Body::from(body.to_owned())).unwrap();
        self.send(request).await
    }

    /// All links of a mail.
    fn links(&self) -> Vec<String> {
        let links = &self.tracking.links;
        vec![
            links.pixel(&self.to),
            links.click(&self.to, "https://shop.example.org/a?b=c").unwrap(),
            links.unsubscribe(&self.to),
            links.preferences(&self.to),
            links.confirm(self.to.workspace, self.pending),
        ]
    }

    /// Everything that the links could change of what somebody agreed to.
    async fn consent(&self) -> String {
        let read = self.cx.database().read(|tx| {
            let mut told = String::new();
            for sql in [
                "SELECT id, status, unsubscribed_at, verified_at FROM subscriptions ORDER BY id",
                "SELECT topic_id, status FROM topic_preferences ORDER BY topic_id",
                "SELECT id, unsubscribed_at FROM leads ORDER BY id",
                "SELECT subscription_id, confirmed_at, expires_at FROM confirmations",
                "SELECT id, action, source, ip, user_agent FROM consent_log ORDER BY id",
            ] {
                told.push_str(&format!("{:?}\n", tx.query(sql, &[])?));
            }
            Ok::<_, DatabaseError>(told)
        });
        read.await.unwrap()
    }

    async fn statuses(&self) -> Vec<String> {
        let sql = "SELECT a.slug, s.client_id, s.status FROM subscriptions s
                   JOIN audiences a ON a.id = s.audience_id ORDER BY s.id";
        let rows = self.cx.database().read(move |tx| tx.query(sql, &[])).await;
        let rows = rows.map_err(|error: DatabaseError| error).unwrap();
        let told = rows.iter().map(|row| {
            let whose = if row.optional_int(1).unwrap().is_some() { " of client" } else { "" };
            format!("{}{whose} {}", row.text(0).unwrap(), row.text(2).unwrap())
        });
        told.collect()
    }

    async fn work(&self) -> usize {
        self.bed.work(&queues::EMAIL_EVENTS, handler(self.tracking.clone(), None)).await
    }

    /// What differs from run to run is put out of sight.
    fn shown(&self, answer: &Answer) -> String {
        let mut body = answer.body.clone();
        for link in self.links() {
            let token = link.split('?').next().unwrap().rsplit('/').next().unwrap();
            body = body.replace(token.trim_end_matches(".gif"), "[token]");
        }
        let body = body.replace(super::page::style_of_tests(), "[style]");
        let body = body.replace("><", ">\n<");
        let mut headers = answer.headers.clone();
        if let Some((before, after)) = answer.headers.split_once("'sha256-") {
            let (_, after) = after.split_once('\'').unwrap();
            headers = format!("{before}'sha256-[hash]'{after}");
        }
        format!("{}\n{headers}\n\n{body}", answer.status)
    }
}

#[tokio::test]
async fn get_and_head_of_every_link_change_nothing() {
    let world = World::new().await;
    let before = world.consent().await;
    for link in world.links() {
        for method in ["GET", "HEAD", "GET"] {
            let answer = world.ask(method, &link).await;
            let expected = if link.contains("/t/c/") { 302 } else { 200 };
            assert_eq!(answer.status, expected, "{method} {link}");
            assert_eq!(answer.body.is_empty(), method == "HEAD" || expected == 302);
            for header in
                ["cache-control: no-store", "referrer-policy: no-referrer", "x-robots-tag: noindex"]
            {
                assert!(answer.headers.contains(header), "{method} {link}: {}", answer.headers);
            }
        }
        for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
            assert_eq!(world.ask(method, &link).await.status, 405, "{method} {link}");
        }
    }
    assert_eq!(world.work().await, 6, "three opens and three clicks");
    assert_eq!(world.consent().await, before);
}

#[tokio::test]
async fn a_link_that_was_changed_leads_nowhere_and_says_nothing() {
    let world = World::new().await;
    let before = world.consent().await;
    for (at, link) in world.links().into_iter().enumerate() {
        let (path, query) = link.split_once('?').map_or((link.as_str(), ""), |(a, b)| (a, b));
        let (start, token) = path.rsplit_once('/').unwrap();
        let mut forged = vec![
            format!("{start}/x{token}?{query}"),
            format!("{start}/{}?{query}", token.to_uppercase()),
            format!("{start}/%FF{token}?{query}"),
            format!("{start}/{}?{query}", "A".repeat(5000)),
            format!("{start}/%C3%BC?{query}"),
        ];
        // The token of every other link, too.
        for (other, link) in world.links().iter().enumerate().filter(|(other, _)| *other != at) {
            let token = link.split('?').next().unwrap().rsplit('/').next().unwrap();
            let token = token.trim_end_matches(".gif");
            let gif = if at == 0 { ".gif" } else { "" };
            assert_ne!(other, at);
            forged.push(format!("{start}/{token}{gif}?{query}"));
        }
        for link in forged {
            for (method, body) in [("GET", ""), ("POST", ONE_CLICK)] {
                let answer = match method {
                    "GET" => world.get(&link).await,
                    _ if at < 2 => continue,
                    _ => world.post(&link, body).await,
                };
                assert_eq!(answer.status, 404, "{method} {link}");
                assert!(!answer.body.contains("example.org"), "{link}: {}", answer.body);
                assert!(!answer.body.contains("News"), "{link}: {}", answer.body);
                if at == 0 {
                    assert!(answer.headers.contains("content-type: image/gif"));
                }
            }
        }
    }
    assert_eq!(world.work().await, 0);
    assert_eq!(world.consent().await, before);
}

#[tokio::test]
async fn a_click_leads_to_its_own_target_and_nowhere_else() {
    let world = World::new().await;
    let target = "https://shop.exämple.org/ä?u=1&x=%0d%0aSet-Cookie:a#z|y";
    let link = world.tracking.links.click(&world.to, target).unwrap();
    let answer = world.get(&link).await;
    let expected = "location: https://shop.xn--exmple-cua.org/%C3%A4?u=1&x=%0d%0aSet-Cookie:a#z|y";
    assert!(answer.headers.contains(expected), "{}", answer.headers);
    assert!(!answer.headers.contains("set-cookie"));
    // Whoever passes the link on hangs something on it.
    assert_eq!(world.get(&format!("{link}&fbclid=1")).await.status, 302);

    let (path, _) = link.split_once('?').unwrap();
    for query in [
        "",
        "u=",
        "u=https%3A%2F%2Fevil.example.net%2F",
        "u=javascript%3Aalert(1)",
        "u=%2F%2Fevil.example.net",
        "v=https%3A%2F%2Fshop.example.org%2F",
        "u=https%3A%2F%2Fevil.example.net%2F&u=https%3A%2F%2Fshop.example.org%2F",
        "u=%FF",
    ] {
        let answer = world.get(&format!("{path}?{query}")).await;
        assert_eq!(answer.status, 404, "{query}");
        assert!(!answer.headers.contains("location"), "{query}");
    }
}

#[tokio::test]
async fn one_click_unsubscribes_at_once_without_a_scope_a_cookie_or_a_redirect() {
    let world = World::new().await;
    let link = world.tracking.links.unsubscribe(&world.to);
    for _ in 0..2 {
        let answer = world.post(&link, ONE_CLICK).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.headers.contains("location") && !answer.headers.contains("set-cookie"));
        // Before anybody works on a queue.
        let expected = ["news subscribed", "beta pending", "news of client unsubscribed"];
        assert_eq!(world.statuses().await, expected);
        world.bed.clock.advance(1.minute());
    }
    assert_eq!(world.work().await, 2);
    let consent = world.consent().await;
    assert!(consent.contains("192.0.2.7") && consent.contains("Browser"), "{consent}");
    // Mail programs may send a form of several parts, or nothing that we know.
    let multipart = "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--";
    let path = link.trim_start_matches("https://m.example.org");
    for (kind, body) in [("multipart/form-data; boundary=b", multipart), ("text/plain", "")] {
        let world = World::new().await;
        let link = world.tracking.links.unsubscribe(&world.to);
        let path = link.trim_start_matches("https://m.example.org");
        let request = Request::post(path).header("content-type", kind);
        let answer = world.send(request.body(Body::from(body)).unwrap()).await;
        assert_eq!(answer.status, 200, "{kind}");
        assert_eq!(world.statuses().await.len(), 3, "{kind}");
    }
    assert!(path.starts_with("/u/"));
}

#[tokio::test]
async fn every_scope_works_twice_and_can_be_undone() {
    let world = World::new().await;
    let link = world.tracking.links.unsubscribe(&world.to);
    for scope in ["client", "audience", "everything"] {
        world.bed.clock.advance(1.minute());
        let once = world.post(&link, &format!("scope={scope}")).await;
        let state = world.consent().await;
        let twice = world.post(&link, &format!("scope={scope}")).await;
        assert_eq!((once.status, twice.status), (200, 200));
        assert_eq!(world.consent().await, state, "{scope} twice is the same state");
    }
    let left = world.statuses().await;
    assert_eq!(left, ["news unsubscribed", "beta pending", "news of client unsubscribed"]);
    assert!(world.get(&link).await.body.contains("No newsletters or offers are sent"));
    world.bed.clock.advance(1.minute());
    for scope in ["client", "audience", "everything"] {
        let answer = world.post(&link, &format!("scope={scope}&action=undo")).await;
        assert_eq!(answer.status, 200);
    }
    let back = world.statuses().await;
    assert_eq!(back, ["news subscribed", "beta pending", "news of client subscribed"]);
    assert!(world.get(&link).await.body.contains("What do you want to stop?"));
    world.work().await;
    assert_eq!(world.statuses().await, back, "late events change nothing");

    let before = world.consent().await;
    for body in
        ["scope=all", "scope=", "scope=client&scope=audience", "action=x", "action=undo&action=x"]
    {
        assert_eq!(world.post(&link, body).await.status, 400, "{body}");
    }
    let long = format!("scope=client&x={}", "x".repeat(16 * 1024));
    assert_eq!(world.post(&link, &long).await.status, 413);
    assert_eq!(world.consent().await, before);
}

#[tokio::test]
async fn a_reader_chooses_what_he_gets() {
    let world = World::new().await;
    let link = world.tracking.links.preferences(&world.to);
    assert_snapshot!("preferences", world.shown(&world.get(&link).await));
    let shown = "list=1&topic=1&topic=2";
    for _ in 0..2 {
        let saved = world.post(&link, &format!("action=save&{shown}&topic_on=2")).await;
        assert_snapshot!("preferences_saved", world.shown(&saved));
        assert_eq!(world.statuses().await, ["news unsubscribed", "beta pending"]);
    }
    // What the page did not show stays as it is.
    world.post(&link, "action=save&topic=1&topic_on=1").await;
    assert_eq!(world.statuses().await, ["news unsubscribed", "beta pending"]);
    world.bed.clock.advance(1.minute());
    let stopped = world.post(&link, "action=stop").await;
    assert_snapshot!("preferences_stopped", world.shown(&stopped));
    world.bed.clock.advance(1.minute());
    assert_eq!(world.post(&link, "action=start").await.status, 200);
    world.work().await;
    assert!(!world.get(&link).await.body.contains("You have stopped"), "his last word counts");
    let before = world.consent().await;
    for body in
        ["", ONE_CLICK, "action=x", "action=save&topic=99", "action=save&list=99&list_on=99"]
    {
        assert_eq!(world.post(&link, body).await.status, 400, "{body}");
    }
    assert_eq!(world.consent().await, before);
}

#[tokio::test]
async fn a_subscription_is_confirmed_by_post_and_within_its_time() {
    let world = World::new().await;
    let link = world.tracking.links.confirm(world.to.workspace, world.pending);
    assert_snapshot!("confirm", world.shown(&world.get(&link).await));
    assert_eq!(world.statuses().await, ["news subscribed", "beta pending"]);
    let confirmed = world.post(&link, "").await;
    assert_snapshot!("confirmed", world.shown(&confirmed));
    assert_eq!(world.statuses().await, ["news subscribed", "beta subscribed"]);
    let state = world.consent().await;
    assert_eq!(world.post(&link, "").await.status, 200);
    assert_eq!(world.get(&link).await.status, 200);
    assert_eq!(world.consent().await, state);

    let late = World::new().await;
    let link = late.tracking.links.confirm(late.to.workspace, late.pending);
    late.bed.clock.advance((8 * 24).hours());
    assert_snapshot!("confirm_expired", late.shown(&late.get(&link).await));
    assert_eq!(late.post(&link, "").await.status, 410);
    assert_eq!(late.statuses().await, ["news subscribed", "beta pending"]);
}

#[tokio::test]
async fn the_pages_are_these() {
    let world = World::new().await;
    let link = world.tracking.links.unsubscribe(&world.to);
    assert_snapshot!("unsubscribe", world.shown(&world.get(&link).await));
    let done = world.post(&link, "scope=audience").await;
    assert_snapshot!("unsubscribed", world.shown(&done));
    let undone = world.post(&link, "scope=audience&action=undo").await;
    assert_snapshot!("undone", world.shown(&undone));
    assert_snapshot!("not_found", world.shown(&world.get("/u/nonsense").await));
    assert_snapshot!("not_understood", world.shown(&world.post(&link, "scope=x").await));
    let without = Addressee { audience: None, ..world.to };
    let global = world.tracking.links.unsubscribe(&without);
    assert_snapshot!("unsubscribe_everything", {
        let token = global.rsplit('/').next().unwrap().to_owned();
        let preferences = world.tracking.links.preferences(&without);
        let other = preferences.rsplit('/').next().unwrap().to_owned();
        world.shown(&world.get(&global).await).replace(&token, "[token]").replace(&other, "[token]")
    });
}

#[tokio::test]
async fn whoever_is_erased_or_unknown_gets_a_friendly_page() {
    let world = World::new().await;
    let gone = Addressee { contact: 999, ..world.to };
    let other_workspace = Addressee { workspace: 999, ..world.to };
    for to in [gone, other_workspace] {
        for link in [world.tracking.links.unsubscribe(&to), world.tracking.links.preferences(&to)] {
            assert_eq!(world.get(&link).await.status, 200);
            assert_eq!(world.post(&link, "action=stop").await.status, 200);
        }
    }
    let erase = world
        .cx
        .database()
        .write(|tx| tx.execute("UPDATE transactional_messages SET email = NULL", &[]));
    erase.await.map_err(|error: DatabaseError| error).unwrap();
    let link = world.tracking.links.unsubscribe(&world.to);
    assert_snapshot!("nobody", world.shown(&world.get(&link).await));
    let missing = world.tracking.links.confirm(world.to.workspace, 999);
    assert!(world.get(&missing).await.body.contains("Nothing left to do"));
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_acknowledged_but_a_reader_gets_to_his_target() {
    let world = World::new().await;
    let links = world.links();
    world.cx.database().close().await;
    let pixel = world.get(&links[0]).await;
    assert_eq!(pixel.status, 503);
    assert!(pixel.headers.contains("content-type: image/gif"), "still a picture");
    let click = world.get(&links[1]).await;
    assert_eq!(click.status, 302);
    assert!(click.headers.contains("location: https://shop.example.org/a?b=c"));
    for link in &links[2..] {
        assert_eq!(world.get(link).await.status, 503);
        assert_eq!(world.post(link, ONE_CLICK).await.status, 503, "it must be sent again");
    }
}

#[test]
fn only_a_proxy_of_ours_is_believed_whom_it_asks_for() {
    let check = |peer: &str, said: &[&str], expected: &str| {
        let mut headers = axum::http::HeaderMap::new();
        for said in said {
            headers.append("x-forwarded-for", said.parse().unwrap());
        }
        let found = super::address(&headers, Some(Peer(peer.parse().unwrap())));
        assert_eq!(found.unwrap().to_string(), expected);
    };
    check("192.0.2.7", &["203.0.113.9"], "192.0.2.7");
    check("127.0.0.1", &["203.0.113.9"], "203.0.113.9");
    check("::ffff:10.0.0.3", &["1.1.1.1, 203.0.113.9"], "203.0.113.9");
    check("fd00::1", &["1.1.1.1", "203.0.113.9"], "203.0.113.9");
    check("10.0.0.3", &["nonsense"], "10.0.0.3");
    check("10.0.0.3", &[], "10.0.0.3");
}
