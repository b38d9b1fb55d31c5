//! What a user sees and marks, and which pages may ask for it.

use axum::body::Body;
use axum::http::Request;
use insta::assert_snapshot;
use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::{Scopes, workspaces};

use super::titles;
use crate::v1::tests::{Answer, World};

#[tokio::test]
async fn a_user_lists_marks_and_counts() {
    let world = World::new().await;
    let token = world.token("ada").await;
    let ask = async |line: &str, body: &str| world.send(line, Some(&token), body).await;
    let first = world.publish(&["ada", "bob"], "One").await;
    world.clock.advance(1.minute());
    world.publish(&[], "Two").await;
    world.clock.advance(1.minute());
    let third = world.publish(&["ada"], "Three").await;

    let listed = ask("GET /inbox/v1/app/messages?limit=2", "").await;
    assert_snapshot!("messages", steady(&listed));
    let cursor = listed.json()["next_cursor"].as_str().unwrap().to_owned();
    let rest = ask(&format!("GET /inbox/v1/app/messages?cursor={cursor}"), "").await.json();
    assert_eq!(titles(&rest), ["One"]);
    assert!(rest["next_cursor"].is_null());
    let one = ask(&format!("GET /inbox/v1/app/messages/{first}"), "").await;
    assert_eq!(one.json()["title"], "One");
    assert_eq!(ask("GET /inbox/v1/app/messages/0GV8YLWQ000000001", "").await.status, 404);

    let ids = json!({"ids": [first, "0GV8YLWQ000000001"]}).to_string();
    let marked = ask("PUT /inbox/v1/app/messages/read", &ids).await;
    assert_snapshot!("marked", marked.shown());
    let unread = ask("GET /inbox/v1/app/messages?unread=true&category=news", "").await.json();
    assert_eq!(titles(&unread), ["Three", "Two"]);
    let ids = json!({"ids": [third]}).to_string();
    for (action, unread) in
        [("seen", 2), ("archive", 1), ("unarchive", 1), ("unread", 2), ("archive", 1)]
    {
        let answer = ask(&format!("PUT /inbox/v1/app/messages/{action}"), &ids).await.json();
        assert_eq!(answer["counts"]["unread"], unread, "{action}: {answer}");
    }
    let archived = ask("GET /inbox/v1/app/messages?archived=true", "").await.json();
    assert_eq!(titles(&archived), ["Three"]);
    let all = ask("PUT /inbox/v1/app/messages/read-all", "").await.json();
    assert_eq!((all["counts"]["unread"].clone(), all["up_to"].is_string()), (json!(0), true));
    let category = ask("PUT /inbox/v1/app/messages/read-all", r#"{"category":"news"}"#).await;
    assert_eq!(category.status, 200);
    assert_snapshot!("counts", steady(&ask("GET /inbox/v1/app/counts", "").await));
    // Bob has read nothing.
    let bob = world.token("bob").await;
    let bob = world.send("GET /inbox/v1/app/counts", Some(&bob), "").await.json();
    assert_eq!((bob["total"].clone(), bob["unread"].clone()), (json!(2), json!(2)));
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let world = World::new().await;
    let token = world.token("ada").await;
    for (name, line, body) in [
        ("query", "GET /inbox/v1/app/messages?limit=0&cursor=x&category=a+b&unread=1&q=2", ""),
        ("ids", "PUT /inbox/v1/app/messages/read", r#"{"ids":["x",7]}"#),
        ("no_ids", "PUT /inbox/v1/app/messages/read", r#"{"ids":[]}"#),
        (
            "read_all",
            "PUT /inbox/v1/app/messages/read-all",
            r#"{"category":"a b","up_to":"x","n":1}"#,
        ),
    ] {
        let answer = world.send(line, Some(&token), body).await;
        assert_eq!(answer.status, 422, "{name}: {}", answer.body);
        assert_snapshot!(format!("user_{name}"), answer.json()["errors"]);
    }
    let many = json!({"ids": vec!["0GV8YLWQ000000001"; 51]}).to_string();
    assert_eq!(
        world.send("PUT /inbox/v1/app/messages/seen", Some(&token), &many).await.status,
        422
    );
    assert_eq!(world.send("GET /inbox/v1/a%23b/counts", Some(&token), "").await.status, 404);
}

#[tokio::test]
async fn who_has_an_answer_already_gets_none() {
    let world = World::new().await;
    let token = world.token("ada").await;
    world.publish(&["ada"], "One").await;
    let ask = async |path: &str, tag: &str| {
        let request = Request::builder().uri(path).header("if-none-match", tag);
        let request = request.header("authorization", format!("Bearer {token}"));
        world.ask(request.body(Body::empty()).unwrap()).await
    };
    for path in ["/inbox/v1/app/counts", "/inbox/v1/app/messages"] {
        let first = ask(path, "\"other\"").await;
        assert_eq!(first.status, 200);
        let tag = first.headers.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        let again = ask(path, &format!("\"x\", W/{tag}")).await;
        assert_eq!((again.status, again.body.as_str()), (304, ""));
        assert!(again.headers.contains(&format!("etag: {tag}")), "{}", again.headers);
        world.publish(&["ada"], "Another").await;
        assert_eq!(ask(path, tag).await.status, 200);
    }
}

/// Whoever was forgotten and comes again begins with the same numbers as he who was before him.
#[tokio::test]
async fn nobody_is_shown_what_he_had_before_he_was_forgotten() {
    let world = World::new().await;
    let mut before: Option<String> = None;
    for title in ["Before", "After"] {
        let token = world.token("ada").await;
        world.publish(&["ada"], title).await;
        for _ in 0..2 {
            let page = world.send("GET /inbox/v1/app/messages", Some(&token), "").await.json();
            assert_eq!(titles(&page), [title]);
        }
        // What he had before lets nobody in who came after him.
        for old in before.iter() {
            for line in ["GET /inbox/v1/app/messages", "PUT /inbox/v1/app/messages/read-all"] {
                let refused = world.send(line, Some(old), "").await;
                assert_eq!(refused.status, 401, "{}", refused.body);
                assert!(refused.headers.contains("invalid_token"), "{}", refused.headers);
            }
        }
        let cx = world.access.working_in(world.acme.workspace()).await.unwrap().unwrap();
        tidings_inbox::forget(&cx, &"ada".parse().unwrap()).await.unwrap();
        world.clock.advance(1.millisecond());
        before = Some(token);
    }
}

/// A list that was asked for before is kept; one with another limit was never made.
#[tokio::test]
async fn a_list_that_is_kept_is_the_list_that_would_be_made() {
    let world = World::new().await;
    let key = world.all().await;
    let mut limit = 50;
    let mut is_the_same = async |what: &str| {
        let token = world.token("ada").await;
        limit += 1;
        for filter in ["", "&unread=true", "&archived=true"] {
            let line = |limit| format!("GET /inbox/v1/app/messages?limit={limit}{filter}");
            let made = world.send(&line(limit), Some(&token), "").await;
            for _ in 0..2 {
                let kept = world.send(&line(50), Some(&token), "").await;
                assert_eq!((kept.status, &kept.body), (200, &made.body), "{what}{filter}");
            }
        }
    };
    is_the_same("nothing").await;
    let own = world.publish(&["ada", "bob"], "One").await;
    is_the_same("one's own").await;
    let public = world.publish(&[], "Two").await;
    is_the_same("everyone's").await;
    let ids = json!({"ids": [own, public]}).to_string();
    for action in ["seen", "read", "unread", "archive", "unarchive"] {
        let token = world.token("ada").await;
        let line = format!("PUT /inbox/v1/app/messages/{action}");
        assert_eq!(world.send(&line, Some(&token), &ids).await.status, 200);
        is_the_same(action).await;
    }
    let line = format!("DELETE /v1/inboxes/app/messages/{public}");
    assert_eq!(world.send(&line, Some(&key), "").await.status, 200);
    is_the_same("redacted").await;
    let token = world.token("ada").await;
    assert_eq!(
        world.send("PUT /inbox/v1/app/messages/read-all", Some(&token), "").await.status,
        200
    );
    is_the_same("read-all").await;
    world.publish(&[], "Three").await;
    is_the_same("another").await;
    // They expire one after the other, and nobody has counted them out yet.
    for days in [29, 1, 30, 60, 400] {
        world.clock.advance((days * 24).hours());
        is_the_same(&format!("{days} days later")).await;
    }
}

#[tokio::test]
async fn a_token_opens_its_own_inboxes_as_long_as_it_is_good() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    world.publish(&["ada"], "Top secret").await;
    let body = r#"{"user_id":"ada","inboxes":["app"],"expires_in":60}"#;
    let made = world.post(&key, "/v1/inbox-tokens", body).await.json();
    let (token, refresh) =
        (made["token"].as_str().unwrap(), made["refresh_token"].as_str().unwrap());
    let counts = "GET /inbox/v1/app/counts";
    assert_eq!(world.send(counts, Some(token), "").await.json()["unread"], 1);
    let other = world.send("GET /inbox/v1/web/counts", Some(token), "").await;
    assert_eq!((other.status, other.json()["code"].clone()), (403, json!("other_inbox")));
    // A token is no key, and another workspace's user of the same name is somebody else.
    assert_eq!(world.send("GET /v1/me", Some(token), "").await.status, 401);
    let theirs = world.token_in(&world.other, "ada").await;
    assert_eq!(world.send(counts, Some(&theirs), "").await.json()["total"], 0);
    for bad in [refresh, "tdu_x.y", "tdu_"] {
        let answer = world.send(counts, Some(bad), "").await;
        assert_eq!(answer.status, 401, "{bad}");
        assert!(answer.headers.contains("www-authenticate: Bearer"), "{}", answer.headers);
    }

    world.clock.advance(61.seconds());
    assert_eq!(world.send(counts, Some(token), "").await.status, 401);
    let ask = json!({"refresh_token": refresh}).to_string();
    let next = world.send("POST /inbox/v1/tokens/refresh", None, &ask).await;
    assert_snapshot!("refreshed", next.shown());
    let next = next.json();
    assert_eq!(world.send(counts, next["token"].as_str(), "").await.status, 200);
    let ask = json!({"refresh_token": token}).to_string();
    let refused = world.send("POST /inbox/v1/tokens/refresh", None, &ask).await;
    assert_snapshot!("refresh_refused", refused.shown());

    workspaces::disable(&world.access, world.acme.workspace().clone()).await.unwrap();
    assert_eq!(world.send(counts, next["token"].as_str(), "").await.status, 401);
}

#[tokio::test]
async fn a_back_end_asks_in_the_name_of_a_user() {
    let world = World::new().await;
    let key = world.all().await;
    world.publish(&["ÿda"], "One").await;
    let ask = async |user: Option<&[u8]>| {
        let request = Request::builder().uri("/inbox/v1/app/counts");
        let mut request = request.header("authorization", format!("Bearer {key}"));
        if let Some(user) = user {
            request = request.header("x-user-id", user);
        }
        world.ask(request.body(Body::empty()).unwrap()).await
    };
    assert_eq!(ask(Some("ÿda".as_bytes())).await.json()["unread"], 1);
    assert_eq!(ask(Some(b"ada")).await.json()["unread"], 0);
    assert_eq!(ask(None).await.status, 422);
    assert_eq!(ask(Some(b"a#b")).await.status, 422);
    assert_eq!(ask(Some(b"\xff")).await.status, 422);
}

#[tokio::test]
async fn pages_of_allowed_origins_may_ask_and_others_are_told_why_not() {
    let world = World::new().await;
    let (token, key) = (world.token("ada").await, world.key(&world.acme, Scopes::all()).await);
    let (counts, page) = ("GET /inbox/v1/app/counts", "https://app.example.org");
    let refused = world.ask_from_page(counts, page, Some(&token)).await;
    assert_snapshot!("origin_refused", refused.shown());
    // Our own pages need no permission.
    let ours = world.ask_from_page(counts, "https://m.example.org", Some(&token)).await;
    assert_eq!(ours.status, 200);

    let allow = r#"{"allowed_origins":["https://app.example.org"]}"#;
    assert_eq!(world.put(&key, "/v1/inbox-settings", allow).await.status, 200);
    let allowed = world.ask_from_page(counts, page, Some(&token)).await;
    assert_eq!(allowed.status, 200);
    for header in [
        "access-control-allow-origin: https://app.example.org",
        "access-control-expose-headers: date, etag",
        "vary: origin",
    ] {
        assert!(allowed.headers.contains(header), "{}", allowed.headers);
    }
    let other = world.ask_from_page(counts, "https://evil.example", Some(&token)).await;
    assert_eq!((other.status, other.json()["code"].clone()), (403, json!("origin_not_allowed")));
    // What another workspace allows is nothing to this one.
    let theirs = world.token_in(&world.other, "ada").await;
    assert_eq!(world.ask_from_page(counts, page, Some(&theirs)).await.status, 403);
    // A page sees that its token is over.
    let expired = world.ask_from_page(counts, page, Some("tdu_x.y")).await;
    assert_eq!(expired.status, 401);
    assert!(expired.headers.contains("access-control-allow-origin: https://app.example.org"));
}

#[tokio::test]
async fn a_page_can_read_also_what_no_handler_has_answered() {
    let mut world = World::new().await;
    // One of our own, which needs no permission.
    let (token, page) = (world.token("ada").await, "https://m.example.org");
    world.publish(&["ada"], "One").await;
    let readable = |answer: Answer, status: u16| {
        assert_eq!(answer.status, status, "{}", answer.body);
        assert_eq!(answer.json()["request_id"], "r-1");
        let allowed = format!("access-control-allow-origin: {page}\n");
        assert!(answer.headers.contains(&allowed), "{}", answer.headers);
        assert!(answer.headers.contains("vary: origin\n"), "{}", answer.headers);
    };
    let request = Request::builder().method("PUT").uri("/inbox/v1/app/messages/read");
    let request = request.header("x-request-id", "r-1").header("origin", page);
    let request = request.header("content-length", "5000");
    readable(world.ask(request.body(Body::empty()).unwrap()).await, 413);
    readable(world.ask_from_page("DELETE /inbox/v1/app/counts", page, Some(&token)).await, 405);
    // There is no time for what has to wait for the disk.
    let limits = crate::Limits::uniform(4096, std::time::Duration::ZERO);
    world.router = crate::v1(world.services.clone(), limits);
    let line = "PUT /inbox/v1/app/messages/read-all";
    readable(world.ask_from_page(line, page, Some(&token)).await, 504);
}

#[tokio::test]
async fn a_browser_may_ask_whether_it_may_ask() {
    let world = World::new().await;
    for path in ["/inbox/v1/app/messages/read", "/inbox/v1/tokens/refresh", "/inbox/v1/app/stream"]
    {
        let line = format!("OPTIONS {path}");
        let answer = world.ask_from_page(&line, "https://app.example.org", None).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{path}");
        if path.ends_with("read") {
            assert_snapshot!("preflight", answer.headers);
        }
    }
    let v1 = world.ask_from_page("OPTIONS /v1/me", "https://app.example.org", None).await;
    assert!(!v1.headers.contains("access-control"), "a key has no place in a browser");
}

#[tokio::test]
async fn one_user_who_asks_too_often_waits_and_others_do_not() {
    let world = World::new().await;
    let (ada, bob) = (world.token("ada").await, world.token("bob").await);
    let counts = "GET /inbox/v1/app/counts";
    let mut refused = 0;
    for _ in 0..210 {
        refused += usize::from(world.send(counts, Some(&ada), "").await.status == 429);
    }
    assert_eq!(refused, 10);
    let answer = world.send(counts, Some(&ada), "").await;
    assert!(answer.headers.contains("retry-after: 1"), "{}", answer.headers);
    assert_eq!(world.send(counts, Some(&bob), "").await.status, 200);
}

#[tokio::test]
async fn the_component_is_served_to_every_page() {
    let world = World::new().await;
    let served = world.send("GET /inbox/widget.js", None, "").await;
    assert_snapshot!("widget", served.headers.replace(tag(&served.headers), "[tag]"));
    assert!(served.body.contains("customElements.define('tidings-inbox'"), "{}", served.body.len());
    let request = Request::builder().uri("/inbox/widget.js");
    let request = request.header("if-none-match", tag(&served.headers));
    let again = world.ask(request.body(Body::empty()).unwrap()).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let request = Request::builder().uri("/inbox/widget.js").header("accept-encoding", "br, gzip");
    let small = world.open(request.body(Body::empty()).unwrap()).await;
    assert_eq!(small.headers()["content-encoding"], "gzip");
    assert_eq!(small.headers()["vary"], "accept-encoding");
    assert_ne!(small.headers()["etag"], tag(&served.headers), "it has other bytes");
    let small = axum::body::to_bytes(small.into_body(), usize::MAX).await.unwrap();
    assert!(small.starts_with(&[0x1f, 0x8b]) && small.len() < 15_000, "{}", small.len());
    assert_eq!(world.send("GET /inbox/demo", None, "").await.status, 404, "only a demo has one");
}

/// Ids and keys are made by chance, and so is what follows from them.
fn steady(answer: &Answer) -> String {
    let shown = answer.shown().replace(tag(&answer.headers), "[tag]");
    match answer.json()["next_cursor"].as_str() {
        Some(cursor) => shown.replace(cursor, "[cursor]"),
        None => shown,
    }
}

fn tag(headers: &str) -> &str {
    headers.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap()
}

#[tokio::test]
async fn a_demo_has_a_page_with_an_inbox_in_it() {
    let mut world = World::new().await;
    let demo = crate::Demo {
        cx: world.acme.clone(),
        inbox: "app".parse().unwrap(),
        uid: "demo".parse().unwrap(),
        origin: "http://127.0.0.1:8080".to_owned(),
    };
    let services = world.services.clone();
    let limits = crate::Limits::uniform(4096, std::time::Duration::from_secs(5));
    world.router = world.router.clone().merge(crate::inbox_demo(services, limits, demo));
    let page = world.send("GET /inbox/demo", None, "").await;
    assert_eq!(page.status, 200);
    assert!(
        !page.body.contains("{{") && page.body.contains("http://127.0.0.1:8080/inbox/widget.js")
    );
    assert!(page.headers.contains("content-type: text/html; charset=utf-8\n"), "{}", page.headers);
    let token = page.body.split("token=\"").nth(1).unwrap().split('"').next().unwrap();
    let note = r#"{"to":"me","title":"Hello","body":"From the page"}"#;
    let sent = world.send("POST /inbox/demo/messages", Some(token), note).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
    let counts = world.send("GET /inbox/v1/app/counts", Some(token), "").await.json();
    assert_eq!(counts["unread"], 1);
    assert_eq!(world.send("POST /inbox/demo/messages", None, note).await.status, 401);
    let wrong = world.send("POST /inbox/demo/messages", Some(token), r#"{"to":"all"}"#).await;
    assert_eq!((wrong.status, wrong.json()["errors"].as_array().unwrap().len()), (422, 2));
}
