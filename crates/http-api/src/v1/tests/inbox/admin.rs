//! What a back end does with inboxes.

use axum::body::Body;
use axum::http::Request;
use insta::assert_snapshot;
use jiff::ToSpan as _;
use serde_json::{Value, json};
use tidings_access::Scopes;
use tidings_sql::DatabaseError;

use crate::v1::tests::World;

#[tokio::test]
async fn a_message_is_published_once_shown_and_taken_away() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let path = "/v1/inboxes/app/messages";
    let body = r#"{"to":{"users":["ada","bob","ada"],"label":"Two"},"category":"orders","title":"On its way",
                   "body":{"order":7},"cta_uri":"/orders/7","host_system_id":"order-7","expires_in":"2d"}"#;
    let made = world.post(&key, path, body).await;
    assert_snapshot!("published", made.shown());
    let again = world.post(&key, path, body).await;
    assert_snapshot!("published_again", again.shown());
    assert_eq!(again.json()["id"], made.json()["id"]);
    let other = world.post(&key, path, &body.replace("On its way", "Lost")).await;
    assert_snapshot!(
        "published_other",
        other.shown().replace(made.json()["id"].as_str().unwrap(), "[id]")
    );

    let one = format!("{path}/{}", made.json()["id"].as_str().unwrap());
    assert_snapshot!("post", world.get(&key, &one).await.shown());
    world.clock.advance(1.minute());
    let everyone = r#"{"to":{"everyone":true},"title":"We are closed on Monday"}"#;
    assert_eq!(world.post(&key, path, everyone).await.status, 201);
    let later = r#"{"to":{"everyone":true},"title":"x","send_at":"2026-07-02T12:00:00Z"}"#;
    let later = world.post(&key, path, later).await;
    assert_eq!((later.status, later.json()["state"].clone()), (202, json!("scheduled")));
    let first = world.get(&key, &format!("{path}?limit=2")).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&key, &format!("{path}?limit=2&cursor={cursor}")).await.json();
    assert_eq!(rest["data"][0]["id"], made.json()["id"]);
    assert!(rest["next_cursor"].is_null() && rest["data"].as_array().unwrap().len() == 1);

    assert_snapshot!("redacted", world.delete(&key, &one).await.shown());
    assert_eq!(world.delete(&key, &one).await.status, 200);
    let later = format!("{path}/{}", later.json()["id"].as_str().unwrap());
    assert_eq!(world.delete(&key, &later).await.json()["state"], "cancelled");
    for missing in ["/v1/inboxes/app/messages/0GV8YLWQ000000001", "/v1/inboxes/app/messages/x"] {
        assert_eq!(world.get(&key, missing).await.status, 404);
        assert_eq!(world.delete(&key, missing).await.status, 404);
    }
    assert_eq!(world.get(&key, "/v1/inboxes/a%23b/messages").await.status, 404);
}

#[tokio::test]
async fn a_wrong_message_is_told_all_that_is_wrong() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    for (name, body) in [
        ("nothing", "{}"),
        ("types", r#"{"to":7,"title":7,"category":[],"send_at":"soon","expires_in":3}"#),
        ("to", r#"{"to":{"everyone":"yes","users":[1],"label":2,"all":true},"title":"x"}"#),
        ("both", r#"{"to":{"everyone":true,"users":["ada"]},"title":"x"}"#),
        ("neither", r#"{"to":{},"title":"x"}"#),
        (
            "values",
            r#"{"to":{"users":["a#b","$public"]},"title":" ","category":"a b","cta_uri":"javascript:alert(1)",
                "expires_in":"9w"}"#,
        ),
    ] {
        let answer = world.post(&key, "/v1/inboxes/app/messages", body).await;
        assert_eq!(answer.status, 422, "{name}: {}", answer.body);
        assert_snapshot!(format!("message_{name}"), answer.json()["errors"]);
    }
    let listed = world.get(&key, "/v1/inboxes/app/messages").await.json();
    assert_eq!(listed["data"], json!([]));
}

#[tokio::test]
async fn settings_are_put_and_shown() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    assert_snapshot!("settings_none", world.get(&key, "/v1/inbox-settings").await.shown());
    let new = r#"{"title":"Acme","ttl":"60d","allowed_origins":["https://app.example.org/"],"look_back":"1d"}"#;
    assert_snapshot!("settings_put", world.put(&key, "/v1/inbox-settings", new).await.shown());
    let wrong = r#"{"title":7,"ttl":"1w","allowed_origins":["app"],"look":1}"#;
    assert_eq!(world.put(&key, "/v1/inbox-settings", wrong).await.status, 422);
    let wrong = r#"{"ttl":"1w","allowed_origins":["app"]}"#;
    let answer = world.put(&key, "/v1/inbox-settings", wrong).await;
    assert_snapshot!("settings_wrong", answer.json()["errors"]);

    assert_eq!(world.get(&key, "/v1/inboxes/app").await.status, 404);
    let new = r#"{"title":"In the app","ttl":{"default":"30d","orders":"90d"}}"#;
    assert_snapshot!("inbox_put", world.put(&key, "/v1/inboxes/app", new).await.shown());
    let wrong = r#"{"ttl":{"default":3,"a b":"1d","x":"1w"}}"#;
    let answer = world.put(&key, "/v1/inboxes/app", wrong).await;
    assert_snapshot!("inbox_wrong", answer.json()["errors"]);
    world.put(&key, "/v1/inboxes/web", "{}").await;
    let page = world.get(&key, "/v1/inboxes?limit=1").await.json();
    assert_eq!(page["data"][0]["key"], "app");
    let next = format!("/v1/inboxes?limit=1&cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(world.get(&key, &next).await.json()["data"][0]["key"], "web");
    assert_eq!(world.delete(&key, "/v1/inboxes/web").await.status, 204);
    assert_eq!(world.delete(&key, "/v1/inboxes/web").await.status, 404);
}

#[tokio::test]
async fn a_back_end_makes_tokens_for_its_users() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let body = r#"{"user_id":"ada","inboxes":["app"],"expires_in":60}"#;
    let made = world.post(&key, "/v1/inbox-tokens", body).await;
    assert_snapshot!("token_made", made.shown());
    let wrong = r#"{"user_id":"a#b","inboxes":["x#"],"expires_in":86401,"for":"ever"}"#;
    let answer = world.post(&key, "/v1/inbox-tokens", wrong).await;
    assert_snapshot!("token_wrong", answer.json()["errors"]);
}

#[tokio::test]
async fn a_message_may_name_thousands_of_users_and_is_no_file() {
    let mut world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let time = std::time::Duration::from_secs(30);
    let limits = crate::Limits { max_file: 1 << 30, ..crate::Limits::uniform(4096, time) };
    world.router = crate::v1::v1(world.services.clone(), limits);
    let users: Vec<_> = (0..1_500).map(|number| format!("user-{number}")).collect();
    let many = json!({"to": {"users": users}, "title": "Hello"}).to_string();
    let made = world.post(&key, "/v1/inboxes/app/messages", &many).await;
    assert_eq!((made.status, made.json()["state"].clone()), (202, json!("delivering")));
    assert_eq!(made.json()["recipients"], 1_500);

    // A file may have this length, and is not held in memory.
    let endless = json!({"to": {"users": ["ada"]}, "title": "x".repeat(33 << 20)}).to_string();
    let refused = world.post(&key, "/v1/inboxes/app/messages", &endless).await;
    assert_eq!(refused.status, 413, "{}", refused.body);
}

#[tokio::test]
async fn a_back_end_says_which_of_its_people_it_is() {
    let world = World::new().await;
    let key = world.all().await;
    let publish = async |admin: Option<&str>| {
        let mut request = Request::builder()
            .method("POST")
            .uri("/v1/inboxes/app/messages")
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json");
        if let Some(admin) = admin {
            request = request.header("x-admin-id", admin.as_bytes());
        }
        let body = Body::from(r#"{"to":{"users":["ada"]},"title":"Hello"}"#);
        world.ask(request.body(body).unwrap()).await
    };
    for (admin, sender) in [(None, "shop"), (Some(" Grace "), "Grace"), (Some("ürsula"), "ürsula")]
    {
        let made = publish(admin).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let path = format!("GET /v1/inboxes/app/messages/{}", made.json()["id"].as_str().unwrap());
        assert_eq!(world.send(&path, Some(&key), "").await.json()["sender"], sender);
    }
    for wrong in ["", " ", &"x".repeat(129)] {
        let refused = publish(Some(wrong)).await;
        assert_eq!(
            (refused.status, refused.json()["errors"][0]["field"].clone()),
            (422, json!("X-Admin-Id"))
        );
    }
}

#[tokio::test]
async fn the_audit_log_names_who_of_a_back_end_did_it() {
    let world = World::new().await;
    let key = world.all().await;
    let messages = "/v1/inboxes/app/messages";
    let act = async |line: &str, admin: Option<&str>, body: &str| {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json");
        if let Some(admin) = admin {
            request = request.header("x-admin-id", admin.as_bytes());
        }
        world.ask(request.body(Body::from(body.to_owned())).unwrap()).await
    };
    let grace = Some("Grace");
    act("PUT /v1/inbox-settings", grace, r#"{"title":"Acme"}"#).await;
    act("PUT /v1/inboxes/app", grace, r#"{"title":"App"}"#).await;
    act("PUT /v1/inboxes/app", grace, r#"{"title":"Our app"}"#).await;
    assert_eq!(act("DELETE /v1/inboxes/app", Some(" "), "").await.status, 422);
    assert_eq!(act("DELETE /v1/inboxes/app", Some("Hedy"), "").await.status, 204);
    let everyone = r#"{"to":{"everyone":true},"title":"Hello"}"#;
    for admin in [Some("Hedy"), None] {
        let post = act(&format!("POST {messages}"), grace, everyone).await.json();
        let one = format!("DELETE {messages}/{}", post["id"].as_str().unwrap());
        assert_eq!(act(&one, Some(" "), "").await.status, 422);
        assert_eq!(act(&one, admin, "").await.json()["state"], "redacted");
    }
    assert_snapshot!(audited(&world).await.join("\n"), @r#"
    inbox_settings.put {"by":"Grace","title":"Acme"}
    inbox.put {"by":"Grace","description":"","title":"App","ttl":{}}
    inbox.put {"by":"Grace","title":"Our app"}
    inbox.delete {"by":"Hedy"}
    post.publish {"by":"Grace","recipients":0,"state":"done"}
    post.redact {"by":"Hedy","recipients":0,"state":"redacted"}
    post.publish {"by":"Grace","recipients":0,"state":"done"}
    post.redact {"recipients":0,"state":"redacted"}
    "#);
}

/// What waits to be written into the audit log: what was done, and what there is since.
async fn audited(world: &World) -> Vec<String> {
    let sql = "SELECT body FROM queue_messages WHERE queue = 'audit-entries' ORDER BY id";
    let rows = world.acme.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    let shown = |row: &tidings_sql::Row| {
        let body: Value = serde_json::from_str(row.text(0).unwrap()).unwrap();
        format!("{} {}", body["action"].as_str().unwrap(), body["after"])
    };
    rows.iter().map(shown).collect()
}
