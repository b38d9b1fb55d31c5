//! Each cause is heard once, in the commit that makes it true.

use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store};

use crate::consent::subscriptions::{self, Resubscribe, Subscribe, Unsubscribe};
use crate::consent::{Act, AudienceId, By, Proof, Scope, Whom, audiences};
use crate::contacts::{self, Attributes, Upsert};
use crate::import;
use crate::suppression::{self, Kind, Suppress};

each_store!(
    who_leaves_is_always_heard_of_and_once,
    who_comes_is_heard_of_if_a_sequence_listens,
    a_suppression_is_heard_once,
    a_file_of_many_is_heard_of_only_by_those_who_listen,
    what_is_told_can_be_carried,
);

/// What is on its way.
async fn heard(cx: &Cx) -> Vec<Value> {
    let sql = "SELECT body FROM queue_messages WHERE queue = 'sequence-events' ORDER BY id";
    let rows = cx.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    rows.iter().map(|row| serde_json::from_str(row.text(0).unwrap()).unwrap()).collect()
}

fn names(heard: &[Value]) -> Vec<&str> {
    heard.iter().map(|one| one["name"].as_str().unwrap()).collect()
}

async fn execute(cx: &Cx, sql: &'static str) {
    let run = cx.database().write(move |tx| tx.execute(sql, &[]));
    run.await.map_err(|error: DatabaseError| format!("{error:?}")).unwrap();
}

async fn make_sequence(cx: &Cx) {
    execute(
        cx,
        "INSERT INTO sequences (workspace_id, slug, client_id, active_version, created_at, updated_at)
         SELECT workspace_id, 'welcome', id, 1, 1, 1 FROM clients",
    )
    .await;
}

async fn listen(cx: &Cx) {
    make_sequence(cx).await;
    execute(
        cx,
        "INSERT INTO sequence_listens (workspace_id, event_name, sequence_id, role)
         SELECT workspace_id, 'subscriber.subscribed', id, 'trigger' FROM sequences",
    )
    .await;
}

async fn audience(cx: &Cx) -> AudienceId {
    let create = audiences::Create {
        slug: "news".parse().unwrap(),
        name: "News".parse().unwrap(),
        double_opt_in: false,
        confirm_template_key: None,
    };
    audiences::create(cx, create).await.unwrap().id
}

fn whom() -> Whom {
    Whom::Email("ada@example.org".parse().unwrap())
}

fn act() -> Act {
    Act { by: By::Person, source: "a page".parse().unwrap(), reason: None, proof: Proof::default() }
}

async fn subscribe(cx: &Cx, audience: AudienceId) {
    let cmd = Subscribe { whom: whom(), audience, client: None, confirmed: false, act: act() };
    subscriptions::subscribe(cx, cmd).await.unwrap();
}

async fn who_leaves_is_always_heard_of_and_once(bed: &Bed) {
    let cx = bed.cx().await;
    let (audience, client) = (audience(&cx).await, bed.shop(&cx).await.id);
    for scope in [Scope::Audience(audience), Scope::Client(audience, client), Scope::Global] {
        for _ in 0..2 {
            let cmd = Unsubscribe { whom: whom(), scope, act: act() };
            subscriptions::unsubscribe(&cx, cmd).await.unwrap();
        }
    }
    let heard = heard(&cx).await;
    assert_eq!(names(&heard), ["subscriber.unsubscribed"; 3]);
    let data: Vec<_> = heard.iter().map(|one| one["data"].clone()).collect();
    assert_eq!(
        data,
        [
            json!({ "scope": "audience", "audience": "news" }),
            json!({ "scope": "client", "audience": "news", "client": "shop" }),
            json!({ "scope": "everything" }),
        ]
    );
    for one in &heard {
        assert_eq!(one["email"], "ada@example.org");
        assert_eq!(one["origin"], "system");
        assert_eq!(one["workspace"], "acme");
        assert!(!one["event_id"].as_str().unwrap().contains('@'), "{one}");
    }
    assert_ne!(heard[0]["event_id"], heard[1]["event_id"]);
}

async fn who_comes_is_heard_of_if_a_sequence_listens(bed: &Bed) {
    let cx = bed.cx().await;
    let audience = audience(&cx).await;
    subscribe(&cx, audience).await;
    assert!(heard(&cx).await.is_empty());
    execute(&cx, "DELETE FROM subscriptions").await;
    listen(&cx).await;
    for _ in 0..2 {
        subscribe(&cx, audience).await;
    }
    let told = heard(&cx).await;
    assert_eq!(names(&told), ["subscriber.subscribed"]);
    assert_eq!(told[0]["data"], json!({ "scope": "audience", "audience": "news" }));
    // Another workspace listens for itself.
    let other = bed.make_workspace("other").await;
    subscribe(&other, self::audience(&other).await).await;
    assert_eq!(heard(&cx).await.len(), 1);
    // Whoever comes back has been here before.
    let scope = Scope::Audience(audience);
    let cmd = Unsubscribe { whom: whom(), scope, act: act() };
    subscriptions::unsubscribe(&cx, cmd).await.unwrap();
    let cmd = Resubscribe { whom: whom(), scope, act: act() };
    subscriptions::resubscribe(&cx, cmd).await.unwrap();
    let told = heard(&cx).await;
    assert_eq!(names(&told), ["subscriber.subscribed", "subscriber.unsubscribed"]);
}

async fn a_suppression_is_heard_once(bed: &Bed) {
    let cx = bed.cx().await;
    let suppress = |at: &str| Suppress {
        email: "ada@example.org".parse().unwrap(),
        kind: Kind::Permanent,
        reason: "it bounced".parse().unwrap(),
        source: Some("event-1".to_owned()),
        note: None,
        at: at.parse().unwrap(),
    };
    for hour in ["10", "11", "09"] {
        let at = format!("2026-07-01T{hour}:00:00Z");
        suppression::suppress(&cx, suppress(&at)).await.unwrap();
    }
    let heard = heard(&cx).await;
    assert_eq!(names(&heard), ["subscriber.suppressed"]);
    assert_eq!(heard[0]["data"], json!({ "kind": "Permanent" }));
    assert_eq!(heard[0]["email"], "ada@example.org");
}

async fn a_file_of_many_is_heard_of_only_by_those_who_listen(bed: &Bed) {
    let cx = bed.cx().await;
    audience(&cx).await;
    let import = async |prefix: &str, unsubscribed: &str| {
        let lines = (0..250).map(|number| format!("{prefix}{number}@example.org,{unsubscribed}\n"));
        let file = format!("email,unsubscribed\n{}", lines.collect::<String>());
        let settings = import::Settings {
            source: "a fair".to_owned(),
            audience: Some("news".parse().unwrap()),
            ..Default::default()
        };
        import::run(&cx, std::io::Cursor::new(file), settings, |_| ()).await.unwrap();
    };
    import("a", "false").await;
    import("b", "true").await;
    assert!(heard(&cx).await.is_empty());
    listen(&cx).await;
    import("a", "false").await;
    assert!(heard(&cx).await.is_empty(), "nobody is new");
    import("c", "false").await;
    let told = heard(&cx).await;
    assert_eq!(names(&told), ["subscriber.subscribed"; 250]);
    assert_eq!(told[0]["data"], json!({ "scope": "audience", "audience": "news" }));
    import("c", "true").await;
    let told = heard(&cx).await;
    let left = told.iter().filter(|one| one["name"] == "subscriber.unsubscribed");
    let mut left: Vec<_> = left.map(|one| one["email"].as_str().unwrap()).collect();
    left.sort_unstable();
    left.dedup();
    assert_eq!(left.len(), 250);
    assert_eq!(told.len(), 500);
}

async fn what_is_told_can_be_carried(bed: &Bed) {
    let cx = bed.cx().await;
    let upsert = Upsert {
        email: "ada@example.org".parse().unwrap(),
        first_name: None,
        attributes: Attributes::default(),
        tags: None,
    };
    contacts::upsert(&cx, upsert).await.unwrap();
    let long = super::Heard {
        id: "x".repeat(5_000),
        name: super::REPLIED,
        email: "ada@example.org".parse().unwrap(),
        at: jiff::Timestamp::MIN,
        data: super::object(json!({ "subject": "\u{0}\u{ffff}\n".repeat(50_000) })),
    };
    let message = long.to_message(&cx);
    message.validate().unwrap();
    assert!(message.body.len() < 10_000);
}
