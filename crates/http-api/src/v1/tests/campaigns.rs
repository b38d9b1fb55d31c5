//! Campaigns as callers meet them. What they do is tested where it is done (`outreach`).

use insta::assert_snapshot;
use serde_json::{Value, json};
use tidings_access::keys::Issued;
use tidings_access::{Cx, Scopes};
use tidings_outreach::campaigns::broadcast;
use tidings_outreach::campaigns::draft::{self, Find};
use tidings_people::contacts;
use tidings_people::suppression;
use tidings_sql::Param;

use super::{Answer, World, slug};

pub(super) const SPRING: &str =
    r#"{"external_key":"spring","name":"Spring","subject":"Hello {{ firstName }}","text":"Hi"}"#;

fn with(more: &Value) -> String {
    let mut body: Value = serde_json::from_str(SPRING).unwrap();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.to_string()
}

async fn a_key(world: &World) -> Issued {
    world.key(&world.acme, Scopes::all()).await
}

async fn contact(cx: &Cx, email: &str, tag: &str) {
    let upsert = contacts::Upsert {
        email: email.parse().unwrap(),
        first_name: None,
        attributes: contacts::Attributes::default(),
        tags: Some(contacts::TagChange::Add([tag.parse().unwrap()].into())),
    };
    contacts::upsert(cx, upsert).await.unwrap();
}

/// A recipient of a campaign, as the ledger would have it.
pub(super) async fn recipient(cx: &Cx, campaign: i64, email: &str) {
    let (workspace, email) = (cx.workspace_id().get(), email.to_owned());
    let now = cx.now().as_millisecond();
    let write = cx.database().write(move |tx| {
        let sql = "INSERT INTO campaign_recipients
                       (workspace_id, campaign_id, lead_id, email, status, skip_reason, created_at, updated_at)
                   SELECT $1, $2, lead_id, $3, 'skipped', 'hard_bounce', $4, $4 FROM channel_identities
                   WHERE workspace_id = $1 AND channel = 'email' AND value = $3";
        let params =
            [Param::Int(workspace), Param::Int(campaign), Param::Text(&email), Param::Int(now)];
        tx.execute(sql, &params).map(drop)
    });
    write.await.unwrap();
}

#[tokio::test]
async fn a_campaign_is_made_once_for_each_key() {
    let world = World::new().await;
    let key = a_key(&world).await;
    assert_snapshot!("campaign_made", world.post(&key, "/v1/campaigns", SPRING).await.shown());
    let again = world.post(&key, "/v1/campaigns", SPRING).await;
    assert_eq!((again.status, &again.json()["id"]), (200, &1.into()));
    let other = world.post(&key, "/v1/campaigns", &with(&json!({"name": "Autumn"}))).await;
    assert_snapshot!("campaign_key_reused", other.shown());
    for name in ["1", "spring"] {
        assert_eq!(world.get(&key, &format!("/v1/campaigns/{name}")).await.json()["id"], 1);
    }
    let unkeyed = r#"{"name":"No key","subject":"s","text":"t"}"#;
    let unkeyed = world.post(&key, "/v1/campaigns", unkeyed).await.json();
    let own = format!("campaign-{}", unkeyed["id"]);
    assert_eq!(unkeyed["key"], own);
    let shown = world.get(&key, &format!("/v1/campaigns/{own}")).await.json();
    assert_eq!(shown["name"], "No key");
    for missing in ["campaign-1", "99", "0", "-1", "nothing"] {
        assert_eq!(world.get(&key, &format!("/v1/campaigns/{missing}")).await.status, 404);
    }
}

#[tokio::test]
async fn campaigns_are_listed_page_by_page() {
    let world = World::new().await;
    let key = a_key(&world).await;
    for number in 0..3 {
        let body = with(&json!({"external_key": format!("k-{number}")}));
        assert_eq!(world.post(&key, "/v1/campaigns", &body).await.status, 201);
    }
    let page = world.get(&key, "/v1/campaigns?limit=2&status=draft").await.json();
    assert_eq!((&page["data"][0]["id"], &page["data"][1]["id"]), (&3.into(), &2.into()));
    assert_eq!(page["data"][0].get("filter"), None);
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = world.get(&key, &format!("/v1/campaigns?limit=2&cursor={cursor}")).await.json();
    assert_eq!((&page["data"][0]["id"], &page["next_cursor"]), (&1.into(), &().into()));
    let none = world.get(&key, "/v1/campaigns?status=sent").await.json();
    assert_eq!(none["data"], json!([]));
    assert_eq!(world.get(&key, "/v1/campaigns?status=lost").await.status, 422);
}

#[tokio::test]
async fn everything_that_is_wrong_with_a_campaign_is_told() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let unreadable = json!({
        "name": 7, "tracking": "maybe", "variants": [{"name": "a"}, 7], "test": {"wait": "soon"},
        "scheduled_at": "soon", "unknown": true,
    });
    let answer = world.post(&key, "/v1/campaigns", &unreadable.to_string()).await;
    assert_snapshot!("campaign_unreadable", answer.shown());
    let wrong = with(&json!({
        "external_key": "17",
        "audience": "none",
        "filter": {"all": [{"tag": "b a d"}, {"not": {"audience": "nowhere"}}, {"attribute": "plan", "near": 3}]},
        "subject": "{{ broken",
        "variants": [{"name": "a", "subject": "x"}],
        "rate_per_hour": 0,
    }));
    let answer = world.post(&key, "/v1/campaigns", &wrong).await;
    assert_snapshot!("campaign_invalid", answer.shown());
    let answer = world.post(&key, "/v1/campaigns/preview", &wrong).await;
    assert_eq!(answer.status, 422);
    assert_eq!(world.get(&key, "/v1/campaigns").await.json()["data"], json!([]));
}

#[tokio::test]
async fn a_draft_is_replaced_and_deleted_and_what_has_begun_is_not() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let body = r#"{"name":"Spring","subject":"One","text":"t"}"#;
    let put = |path: &'static str, body: String| {
        let (world, key) = (&world, &key);
        async move { world.put(key, path, &body).await }
    };
    assert_eq!(put("/v1/campaigns/spring", body.to_owned()).await.status, 201);
    let two = put("/v1/campaigns/1", body.replace("One", "Two")).await;
    assert_eq!((two.status, &two.json()["external_key"]), (200, &"spring".into()));
    assert_eq!(two.json()["subject"], "Two");
    assert_eq!(put("/v1/campaigns/99", body.to_owned()).await.status, 404);
    let other = put("/v1/campaigns/summer", with(&json!({}))).await;
    assert_eq!(other.status, 422, "{}", other.body);
    assert_eq!(world.post(&key, "/v1/campaigns/spring/start", "").await.status, 200);
    let late = put("/v1/campaigns/spring", body.to_owned()).await;
    assert_snapshot!("campaign_too_late", late.shown());
    assert_eq!(world.delete(&key, "/v1/campaigns/spring").await.status, 409);
    assert_eq!(put("/v1/campaigns/summer", body.to_owned()).await.status, 201);
    assert_eq!(world.delete(&key, "/v1/campaigns/summer").await.status, 204);
    assert_eq!(world.delete(&key, "/v1/campaigns/summer").await.status, 404);
}

#[tokio::test]
async fn a_preview_counts_and_says_why_not() {
    let world = World::new().await;
    let key = a_key(&world).await;
    for (email, tag) in
        [("a@example.org", "beta"), ("b@example.org", "beta"), ("c@example.org", "x")]
    {
        contact(&world.acme, email, tag).await;
    }
    let suppress = suppression::Suppress {
        email: "b@example.org".parse().unwrap(),
        kind: suppression::Kind::Manual,
        reason: "asked".parse().unwrap(),
        source: None,
        note: None,
        at: world.acme.now(),
    };
    suppression::suppress(&world.acme, suppress).await.unwrap();
    let body = with(&json!({"filter": {"tag": "beta"}, "sender": "nobody"}));
    let unsaved = world.post(&key, "/v1/campaigns/preview", &body).await;
    assert_snapshot!("campaign_preview", unsaved.shown());
    assert_eq!(world.get(&key, "/v1/campaigns").await.json()["data"], json!([]));
    world.post(&key, "/v1/campaigns", &body).await;
    let saved = world.post(&key, "/v1/campaigns/spring/preview", "").await;
    assert_eq!(saved.json(), unsaved.json());
}

#[tokio::test]
async fn a_preview_of_everybody_is_told_while_it_goes_on() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let within = world.acme.clone();
    let crowd = world.acme.database().write(move |tx| {
        for number in 0..1_100 {
            let email = format!("p{number}@example.org").parse().unwrap();
            contacts::ensure(tx, &within, &email)?;
        }
        Ok::<_, tidings_sql::DatabaseError>(())
    });
    crowd.await.unwrap();
    let followed = async |path: &str, body: &'static str| {
        let request = axum::http::Request::post(path)
            .header("authorization", format!("Bearer {}", key.api_key.expose()))
            .header("content-type", "application/json")
            .header("accept", "application/x-ndjson");
        world.ask(request.body(axum::body::Body::from(body)).unwrap()).await
    };
    let told = followed("/v1/campaigns/preview", SPRING).await;
    assert!(told.headers.contains("content-type: application/x-ndjson"), "{}", told.headers);
    let lines: Vec<Value> =
        told.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let counts: Vec<_> = lines.iter().map(|line| (&line["type"], &line["count"])).collect();
    let (progress, done) = (json!("progress"), json!("done"));
    assert_eq!(
        counts,
        [(&progress, &json!(500)), (&progress, &json!(1_000)), (&done, &json!(1_100))]
    );
    assert_eq!((&lines[2]["complete"], &lines[2]["sendable"]), (&json!(true), &json!(1_100)));
    world.post(&key, "/v1/campaigns", SPRING).await;
    assert_eq!(followed("/v1/campaigns/spring/preview", "").await.body, told.body);
    // What is wrong from the beginning is a problem like any other.
    assert_eq!(followed("/v1/campaigns/other/preview", "").await.status, 404);
}

#[tokio::test]
async fn a_campaign_is_duplicated_as_a_draft() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let body = with(&json!({"filter": {"tag": "beta"}, "scheduled_at": "2026-07-05T00:00:00Z"}));
    world.post(&key, "/v1/campaigns", &body).await;
    let path = "/v1/campaigns/spring/duplicate";
    let made = world.post(&key, path, r#"{"external_key":"summer","name":"Summer"}"#).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert!(made.headers.contains("location: /v1/campaigns/2"), "{}", made.headers);
    let (made, before) = (made.json(), world.get(&key, "/v1/campaigns/spring").await.json());
    assert_eq!((&made["external_key"], &made["name"]), (&json!("summer"), &json!("Summer")));
    assert_eq!((&made["status"], &made["scheduled_at"]), (&json!("draft"), &Value::Null));
    for same in ["subject", "text", "filter", "tracking"] {
        assert_eq!(made[same], before[same], "{same}");
    }
    let again = world.post(&key, path, r#"{"external_key":"summer","name":"Summer"}"#).await;
    assert_eq!((again.status, &again.json()["id"]), (200, &made["id"]));
    let reused = world.post(&key, path, r#"{"external_key":"spring"}"#).await;
    assert_eq!(reused.status, 409, "{}", reused.body);
    let without = world.post(&key, path, "").await;
    assert_eq!((without.status, &without.json()["external_key"]), (201, &Value::Null));
    assert_eq!(world.post(&key, "/v1/campaigns/none/duplicate", "").await.status, 404);
}

#[tokio::test]
async fn a_campaign_is_started_paused_resumed_and_cancelled() {
    let world = World::new().await;
    let key = a_key(&world).await;
    world.post(&key, "/v1/campaigns", SPRING).await;
    let act = |what: &'static str, body: &'static str| {
        let (world, key) = (&world, &key);
        async move {
            let answer: Answer =
                world.post(key, &format!("/v1/campaigns/spring/{what}"), body).await;
            answer
        }
    };
    for wrong in [
        r#"{"scheduled_at":"soon"}"#,
        r#"{"now":true,"scheduled_at":"2026-08-01T00:00:00Z"}"#,
        r#"{"scheduled_at":"2026-08-01T00:00:00Z","local_time":"2026-08-01T09:00"}"#,
        r#"{"then":1}"#,
    ] {
        assert_eq!(act("start", wrong).await.status, 422, "{wrong}");
    }
    let local = act("start", r#"{"local_time":"2026-08-01T09:00"}"#).await.json();
    assert_eq!(local["campaign"]["status"], "scheduled");
    // It is nine on Kiritimati first.
    assert_eq!(local["campaign"]["scheduled_at"], "2026-07-31T19:00:00Z");
    let started = act("start", r#"{"now":true}"#).await;
    assert_snapshot!("campaign_started", started.shown());
    assert_eq!(act("start", "").await.json()["changed"], false);
    let paused = act("pause", r#"{"reason":"a typo"}"#).await.json();
    assert_eq!(paused["campaign"]["pause_reason"], "a typo");
    assert_eq!(act("pause", "").await.json()["changed"], false);
    let why = r#"{"reason":"it is none"}"#;
    assert_eq!(act("resume", why).await.json()["campaign"]["status"], "snapshotting");
    assert_eq!(act("retry-failed", "").await.status, 409);
    for wrong in [r#"{"reason":7}"#, r#"{"why":"x"}"#] {
        assert_eq!(act("cancel", wrong).await.status, 422, "{wrong}");
    }
    let why = r#"{"reason":"nobody wants it"}"#;
    assert_eq!(act("cancel", why).await.json()["campaign"]["status"], "cancelled");
    assert_snapshot!("campaign_not_resumed", act("resume", "").await.shown());
    assert_eq!(act("start", "").await.status, 409);
    let history = world.get(&key, "/v1/campaigns/spring/history").await;
    // Whose key it was differs from run to run.
    let actor = history.json()["data"][0]["actor"].as_str().unwrap().to_owned();
    assert_snapshot!("campaign_history", history.shown().replace(&actor, "key:…"));
}

#[tokio::test]
async fn a_campaign_that_cannot_start_says_why() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let body = r#"{"name":"x","external_key":"x","template":"nothing","sender":"nobody"}"#;
    assert_eq!(world.post(&key, "/v1/campaigns", body).await.status, 201);
    let answer = world.post(&key, "/v1/campaigns/x/start", "").await;
    assert_snapshot!("campaign_cannot_start", answer.shown());
}

#[tokio::test]
async fn a_campaign_is_tried_on_a_few() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let variants = json!([{"name": "a", "subject": "A"}, {"name": "b", "subject": "B"}]);
    world.post(&key, "/v1/campaigns", &with(&json!({"variants": variants}))).await;
    let path = "/v1/campaigns/spring/test";
    let all = world.post(&key, path, r#"{"to":["eve@example.org"]}"#).await;
    assert_snapshot!("campaign_test", all.shown());
    let one = world.post(&key, path, r#"{"to":["eve@example.org"],"variant":"b"}"#).await.json();
    assert_eq!(one["data"].as_array().unwrap().len(), 1);
    let message = &one["data"][0]["message"];
    let message = world.get(&key, &format!("/v1/messages/{}", message["id"])).await.json();
    assert_eq!(message["metadata"], json!({"test": true, "campaign": "spring"}));
    for wrong in [r#"{"to":[]}"#, r#"{"to":["x"]}"#, r#"{"to":["eve@example.org"],"variant":"c"}"#]
    {
        assert_eq!(world.post(&key, path, wrong).await.status, 422, "{wrong}");
    }
}

#[tokio::test]
async fn recipients_are_listed_exported_and_explained() {
    let world = World::new().await;
    let key = a_key(&world).await;
    for email in ["a@example.org", "b@example.org"] {
        contact(&world.acme, email, "beta").await;
    }
    world.post(&key, "/v1/campaigns", SPRING).await;
    for email in ["a@example.org", "b@example.org"] {
        recipient(&world.acme, 1, email).await;
    }
    let path = "/v1/campaigns/spring/recipients";
    let page = world.get(&key, &format!("{path}?limit=1&status=skipped")).await;
    assert_snapshot!("campaign_recipients", page.shown());
    let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
    let page = world.get(&key, &format!("{path}?cursor={cursor}")).await.json();
    assert_eq!(page["data"][0]["email"], "b@example.org");
    let none = world.get(&key, &format!("{path}?happened=opened,clicked")).await.json();
    assert_eq!(none["data"], json!([]));
    for wrong in ["status=lost", "happened=sung", "variant=10", "email=x", "skip_reason="] {
        assert_eq!(world.get(&key, &format!("{path}?{wrong}")).await.status, 422, "{wrong}");
    }
    let file = world.get(&key, &format!("{path}.csv?email=b@example.org")).await;
    assert!(file.headers.contains("content-type: text/csv"), "{}", file.headers);
    assert_eq!(file.body.lines().count(), 2, "{}", file.body);
    let why = world.get(&key, "/v1/campaigns/spring/why?email=a@example.org").await;
    assert_snapshot!("campaign_why", why.shown());
    assert_snapshot!("campaign_results", world.get(&key, "/v1/campaigns/1/results").await.shown());
    let uncertain = world.get(&key, "/v1/campaigns/1/uncertain").await.json();
    assert_eq!(uncertain["data"], json!([]));
    let settle = format!("{path}/1/settle");
    let settled = world.post(&key, &settle, r#"{"outcome":"sent"}"#).await;
    assert_eq!(settled.status, 409, "{}", settled.body);
    assert_eq!(world.post(&key, &settle, r#"{"outcome":"lost"}"#).await.status, 422);
    for missing in ["9", "0", "x"] {
        let settle = format!("{path}/{missing}/settle");
        assert_eq!(world.post(&key, &settle, r#"{"outcome":"sent"}"#).await.status, 404);
    }
}

#[tokio::test]
async fn who_became_one_with_another_is_found_by_either_address() {
    let world = World::new().await;
    let key = a_key(&world).await;
    world.post(&key, "/v1/campaigns", SPRING).await;
    for email in ["a@example.org", "b@example.org"] {
        contact(&world.acme, email, "beta").await;
        recipient(&world.acme, 1, email).await;
    }
    let with = r#"{"with":"b@example.org"}"#;
    let merged = world.post(&key, "/v1/contacts/a@example.org/merge", with).await;
    assert_eq!(merged.status, 200, "{}", merged.body);
    for email in ["a@example.org", "b@example.org"] {
        let path = format!("/v1/campaigns/spring/recipients?email={email}");
        let found = world.get(&key, &path).await.json();
        assert_eq!(found["data"].as_array().unwrap().len(), 2, "{found}");
        let why = world.get(&key, &format!("/v1/campaigns/spring/why?email={email}")).await.json();
        assert_eq!(why["recipient"]["email"], email, "{why}");
    }
}

#[tokio::test]
async fn what_nobody_knew_is_settled_once() {
    let world = World::new().await;
    let key = a_key(&world).await;
    world.post(&key, "/v1/campaigns", SPRING).await;
    contact(&world.acme, "a@example.org", "beta").await;
    recipient(&world.acme, 1, "a@example.org").await;
    sql(
        &world.acme,
        "UPDATE campaign_recipients SET status = 'uncertain', skip_reason = NULL, handed_at = 1",
    )
    .await;
    let listed = world.get(&key, "/v1/campaigns/1/uncertain").await.json();
    assert_eq!(listed["data"][0]["email"], "a@example.org", "{listed}");
    let settle = "/v1/campaigns/spring/recipients/1/settle";
    let body = r#"{"outcome":"sent","reason":"it is in their log"}"#;
    let settled = world.post(&key, settle, body).await;
    assert_eq!((settled.status, &settled.json()["status"]), (200, &"sent".into()));
    assert_eq!(world.post(&key, settle, body).await.status, 409);
    assert_eq!(world.get(&key, "/v1/campaigns/1/uncertain").await.json()["data"], json!([]));
}

async fn sql(cx: &Cx, sql: &'static str) {
    cx.database().write(move |tx| tx.execute(sql, &[]).map(drop)).await.unwrap();
}

#[tokio::test]
async fn broadcasts_are_listed_by_time_and_page_by_page() {
    let world = World::new().await;
    let key = a_key(&world).await;
    for (number, day) in ["01", "02", "03"].into_iter().enumerate() {
        let name = format!("day-{day}");
        let made = world.post(&key, "/v1/campaigns", &with(&json!({"external_key": name}))).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let find = Find { id: (number as i64 + 1).into(), client: None };
        let mut campaign = draft::get(&world.acme, find).await.unwrap();
        campaign.times.started_at = Some(format!("2026-06-{day}T12:00:00Z").parse().unwrap());
        broadcast::write(&world.acme, &campaign, "Hello").await.unwrap();
    }
    let ids = |answer: &Answer| -> Vec<String> {
        let json = answer.json();
        let data = json["data"].as_array().unwrap().clone();
        data.iter().map(|one| format!("{} {}", one["campaign_id"], one["id"])).collect()
    };
    let page = world.get(&key, "/v1/broadcasts?limit=2").await;
    assert_eq!(ids(&page), [r#"3 "day-03""#, r#"2 "day-02""#]);
    let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
    let rest = world.get(&key, &format!("/v1/broadcasts?limit=2&cursor={cursor}")).await;
    assert_eq!(ids(&rest), [r#"1 "day-01""#]);
    let within = "from=2026-06-02T00:00:00Z&to=2026-06-03T00:00:00Z";
    let some = world.get(&key, &format!("/v1/broadcasts?{within}")).await;
    assert_eq!(ids(&some), [r#"2 "day-02""#]);
    assert_eq!(world.get(&key, "/v1/broadcasts?from=soon").await.status, 422);
    // What has not begun has no record.
    assert_eq!(world.get(&key, "/v1/broadcasts/day-01").await.status, 404);
    sql(
        &world.acme,
        "UPDATE campaigns SET started_at = 1780315200000 WHERE external_key = 'day-01'",
    )
    .await;
    let one = world.get(&key, "/v1/broadcasts/day-01").await;
    assert_eq!((one.status, &one.json()["campaign_id"]), (200, &1.into()), "{}", one.body);
}

/// A client's key sees no other client's campaigns.
#[tokio::test]
async fn campaigns_belong_to_their_client() {
    let world = World::new().await;
    let shop = a_key(&world).await;
    world.post(&shop, "/v1/campaigns", SPRING).await;
    let create =
        tidings_access::clients::Create { slug: slug("blog"), name: "The blog".parse().unwrap() };
    tidings_access::clients::create(&world.acme, create).await.unwrap();
    let blog = world.key_of(&world.acme, "blog").await;
    for path in ["", "/results", "/recipients", "/recipients.csv", "/history", "/uncertain"] {
        let path = format!("/v1/campaigns/1{path}");
        assert_eq!(world.get(&shop, &path).await.status, 200, "{path}");
        assert_eq!(world.get(&blog, &path).await.status, 404, "{path}");
    }
    let mut begun = draft::get(&world.acme, Find { id: 1.into(), client: None }).await.unwrap();
    begun.times.started_at = Some(world.acme.now());
    broadcast::write(&world.acme, &begun, "Hello").await.unwrap();
    sql(&world.acme, "UPDATE campaigns SET started_at = created_at").await;
    for (key, status, count) in [(&shop, 200, 1), (&blog, 404, 0)] {
        assert_eq!(world.get(key, "/v1/broadcasts/spring").await.status, status);
        let listed = world.get(key, "/v1/broadcasts").await.json();
        assert_eq!(listed["data"].as_array().unwrap().len(), count);
    }
    for act in ["start", "pause", "resume", "cancel", "retry-failed", "preview"] {
        let answer = world.post(&blog, &format!("/v1/campaigns/spring/{act}"), "").await;
        assert_eq!(answer.status, 404, "{act}");
    }
    assert_eq!(world.post(&blog, "/v1/campaigns", SPRING).await.status, 409);
    assert_eq!(world.get(&blog, "/v1/campaigns").await.json()["data"], json!([]));
}
