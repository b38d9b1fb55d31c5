//! Who is in a sequence, who failed, and many at once.

use insta::assert_snapshot;
use serde_json::{Value, json};
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::Messages;
use tidings_kernel::queues;
use tidings_people::{contacts, suppression};
use tidings_sequences::executions::{Tools, Worker};

use super::super::messages::send_to;
use super::super::{Answer, World};
use super::{WELCOME, a_key};

const PATH: &str = "/v1/sequences/welcome/executions";
const ADA: &str = r#"{"email":"ada@example.org"}"#;

async fn work(world: &World) {
    let tools = Tools {
        access: world.access.clone(),
        versions: world.versions.clone(),
        messages: Messages::new(Templates::default()),
        inbox: std::sync::Arc::default(),
    };
    world.bed.work(&queues::SEQUENCE_STEPS, Worker::new(tools).handler()).await;
}

fn outcome(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["outcome"].as_str().unwrap().to_owned())
}

fn is(status: u16, outcome: &str) -> (u16, String) {
    (status, outcome.to_owned())
}

async fn suppress(world: &World, email: &str) {
    let suppress = suppression::Suppress {
        email: email.parse().unwrap(),
        kind: suppression::Kind::Permanent,
        reason: "gone".parse().unwrap(),
        source: None,
        note: None,
        at: world.acme.now(),
    };
    suppression::suppress(&world.acme, suppress).await.unwrap();
}

#[tokio::test]
async fn somebody_is_let_in_once_for_each_key() {
    let world = World::new().await;
    let key = a_key(&world).await;
    world.put(&key, "/v1/sequences/welcome", WELCOME).await;
    let body = r#"{"email":"Ada@Example.org","first_name":"Ada","attributes":{"plan":"pro"},"data":{"n":1}}"#;
    let began = send_to(&world, PATH, (&key, "k-1"), body).await;
    assert_snapshot!("execution_began", began.shown());
    let replayed = send_to(&world, PATH, (&key, "k-1"), body).await;
    assert_eq!(outcome(&replayed), is(200, "replayed"));
    assert!(replayed.headers.contains("idempotency-replayed: true"), "{}", replayed.headers);
    assert_eq!(replayed.json()["execution"]["id"], began.json()["execution"]["id"]);
    // The key is for one person; without it, or with another, he begins anew.
    let bob = r#"{"email":"bob@example.org"}"#;
    assert_eq!(outcome(&send_to(&world, PATH, (&key, "k-1"), bob).await), is(201, "began"));
    assert_eq!(outcome(&world.post(&key, PATH, body).await), is(201, "restarted"));
    let contact = world.get(&key, "/v1/contacts/ada@example.org").await.json();
    assert_eq!(
        (&contact["first_name"], &contact["attributes"]["plan"]),
        (&"Ada".into(), &"pro".into())
    );
    let long = "k".repeat(256);
    assert_eq!(send_to(&world, PATH, (&key, &long), ADA).await.status, 422);
    assert_eq!(world.get(&key, "/v1/sequences/welcome").await.json()["active"], 2);
}

#[tokio::test]
async fn whoever_comes_again_is_told_what_became_of_it() {
    let world = World::new().await;
    let key = a_key(&world).await;
    for (reentry, wanted) in
        [(json!("ignore"), "already_in"), (json!({"after": "30 days"}), "too_soon")]
    {
        let definition = json!({"reentry": reentry, "steps": [{"wait": "1 day"}]}).to_string();
        world.put(&key, "/v1/sequences/welcome", &definition).await;
        world.delete(&key, &format!("{PATH}/ada@example.org")).await;
        let first = world.post(&key, PATH, ADA).await;
        assert_eq!(outcome(&first), is(201, "began"), "{}", first.body);
        let again = world.post(&key, PATH, ADA).await;
        assert_eq!(outcome(&again), is(200, wanted));
        assert_eq!(again.json()["execution"]["id"], first.json()["execution"]["id"]);
        let again_at = &again.json()["again_at"];
        assert_eq!(
            *again_at,
            if wanted == "too_soon" { json!("2026-07-31T12:00:00Z") } else { Value::Null }
        );
    }
}

#[tokio::test]
async fn whoever_may_not_come_in_is_refused_with_the_reason() {
    let world = World::new().await;
    let key = a_key(&world).await;
    world.put(&key, "/v1/sequences/welcome", WELCOME).await;
    suppress(&world, "gone@example.org").await;
    let gone = r#"{"email":"gone@example.org"}"#;
    assert_snapshot!("execution_refused", world.post(&key, PATH, gone).await.shown());
    world.post(&key, "/v1/sequences/welcome/pause", "").await;
    let paused = world.post(&key, PATH, ADA).await;
    assert_eq!((paused.status, &paused.json()["reason"]), (409, &"paused".into()));
    let many = world.post(&key, "/v1/sequences/welcome/enrolments", r#"{"where":{}}"#).await;
    assert_eq!((many.status, &many.json()["reason"]), (409, &"paused".into()));
    let deep = format!("{}1{}", r#"{"a":"#.repeat(9), "}".repeat(9));
    let wrong = format!(
        r#"{{"email":"no","first_name":"","attributes":{{"1":1}},"data":{deep},"tags":[]}}"#
    );
    assert_snapshot!("execution_wrong", world.post(&key, PATH, &wrong).await.shown());
    assert_eq!(world.post(&key, "/v1/sequences/none/executions", ADA).await.status, 404);
    assert_eq!(world.get(&key, PATH).await.json()["data"], json!([]));
}

#[tokio::test]
async fn people_are_looked_at_moved_on_and_taken_out() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let definition = r#"{"steps":[{"wait":"2 days"},{"wait_for":"paid","timeout":"5 days","then":[]},{"exit":"done"}]}"#;
    let made = world.put(&key, "/v1/sequences/welcome", definition).await;
    assert_eq!(made.status, 201, "{}", made.body);
    for name in ["ada", "bob", "eve"] {
        world.post(&key, PATH, &format!(r#"{{"email":"{name}@example.org"}}"#)).await;
        world.bed.advance(1).await;
    }
    work(&world).await;
    let page = world.get(&key, &format!("{PATH}?limit=2")).await;
    let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
    assert_snapshot!("executions", page.shown().replace(&cursor, "[cursor]"));
    let rest = world.get(&key, &format!("{PATH}?limit=2&cursor={cursor}")).await.json();
    assert_eq!(rest["data"][0]["email"], "ada@example.org");
    assert_eq!(rest["data"].as_array().unwrap().len(), 1);
    let other = world.get(&key, &format!("/v1/sequences/welcome/failed?cursor={cursor}")).await;
    assert_eq!(other.status, 422, "{}", other.body);

    let id = rest["data"][0]["id"].as_str().unwrap().to_owned();
    let skip = format!("/v1/executions/{id}/skip");
    let skipped = world.post(&key, &skip, "").await;
    assert_eq!((skipped.status, &skipped.json()["step"]), (200, &"2".into()), "{}", skipped.body);
    assert_eq!(world.post(&key, &skip, "").await.status, 409);
    work(&world).await;
    let waits = world.get(&key, "/v1/contacts/ada@example.org/executions").await;
    assert_snapshot!("contact_executions", waits.shown());
    world.post(&key, &skip, "").await;
    work(&world).await;
    for gone in [skip.as_str(), "/v1/executions/none/skip"] {
        assert_eq!(world.post(&key, gone, "").await.status, 404);
    }
    assert_eq!(
        world.get(&key, "/v1/contacts/ada@example.org/executions").await.json()["data"],
        json!([])
    );
    assert_eq!(world.get(&key, "/v1/contacts/nobody@example.org/executions").await.status, 404);

    let bob = format!("{PATH}/bob@example.org");
    assert_eq!(world.delete(&key, &bob).await.status, 204);
    assert_eq!(world.delete(&key, &bob).await.status, 404);
    assert_snapshot!("funnel", world.get(&key, "/v1/sequences/welcome/funnel").await.shown());
    assert_eq!(world.get(&key, "/v1/sequences/welcome/funnel?version=2").await.status, 404);
}

#[tokio::test]
async fn what_failed_is_listed_tried_again_and_forgotten() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let definition = r#"{"timeout":"1 hour","steps":[{"wait":"2 days"}]}"#;
    let made = world.put(&key, "/v1/sequences/welcome", definition).await;
    assert_eq!(made.status, 201, "{}", made.body);
    world.post(&key, PATH, ADA).await;
    let fail = || async {
        work(&world).await;
        world.bed.advance(61).await;
        work(&world).await;
    };
    fail().await;
    let path = "/v1/sequences/welcome/failed";
    let failed = world.get(&key, path).await;
    assert_snapshot!("failed_executions", failed.shown());
    let one = format!("{path}/{}", failed.json()["data"][0]["id"].as_str().unwrap());
    // Somebody who is in it again keeps what failed from coming back.
    world.post(&key, PATH, ADA).await;
    assert_eq!(world.post(&key, &format!("{one}/retry"), "").await.status, 409);
    world.delete(&key, &format!("{PATH}/ada@example.org")).await;
    let again = world.post(&key, &format!("{one}/retry"), "").await;
    assert_eq!((again.status, &again.json()["state"]), (200, &"going".into()), "{}", again.body);
    assert_eq!(world.get(&key, path).await.json()["data"], json!([]));
    assert_eq!(world.post(&key, &format!("{one}/retry"), "").await.status, 404);
    fail().await;
    assert_eq!(world.delete(&key, &one).await.status, 204);
    assert_eq!(world.delete(&key, &one).await.status, 404);
    assert_eq!(world.delete(&key, &format!("{path}/none")).await.status, 404);
    assert_eq!(world.get(&key, path).await.json()["data"], json!([]));
}

#[tokio::test]
async fn many_are_let_in_by_a_condition() {
    let world = World::new().await;
    let key = a_key(&world).await;
    world
        .put(&key, "/v1/sequences/welcome", r#"{"reentry":"ignore","steps":[{"wait":"1 day"}]}"#)
        .await;
    for (name, tag) in [("ada", "trial"), ("bob", "trial"), ("eve", "paid"), ("gone", "trial")] {
        let upsert = contacts::Upsert {
            email: format!("{name}@example.org").parse().unwrap(),
            first_name: None,
            attributes: contacts::Attributes::default(),
            tags: Some(contacts::TagChange::Add([tag.parse().unwrap()].into())),
        };
        contacts::upsert(&world.acme, upsert).await.unwrap();
    }
    suppress(&world, "gone@example.org").await;
    world.post(&key, PATH, ADA).await;
    let path = "/v1/sequences/welcome/enrolments";
    let body = r#"{"where":{"tag":"trial"},"data":{"n":1}}"#;
    let begun = send_to(&world, path, (&key, "k-1"), body).await;
    assert_eq!((begun.status, &begun.json()["status"]), (202, &"running".into()));
    let again = send_to(&world, path, (&key, "k-1"), body).await;
    assert_eq!((again.status, again.json()), (202, begun.json()));
    let own = format!("{path}/{}", begun.json()["id"].as_str().unwrap());
    assert!(begun.headers.contains(&format!("location: {own}\n")), "{}", begun.headers);
    work(&world).await;
    assert_snapshot!("enrolment", world.get(&key, &own).await.shown());
    assert_eq!(world.get(&key, "/v1/sequences/welcome").await.json()["active"], 2);
    let wrong = r#"{"where":{"all":[{"tag":"b a d"},{"near":1}]},"data":[],"x":1}"#;
    assert_snapshot!("enrolment_wrong", world.post(&key, path, wrong).await.shown());
    let unknown = r#"{"where":{"audience":"nowhere"}}"#;
    assert_eq!(world.post(&key, path, unknown).await.status, 422);
    assert_eq!(world.post(&key, path, "{}").await.status, 422);
    assert_eq!(world.get(&key, &format!("{path}/none")).await.status, 404);
}
