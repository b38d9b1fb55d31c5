//! Sequences as callers meet them: writing them down and looking at them. What they do is tested where it is done
//! (`sequences`).

mod people;

use axum::body::Body;
use axum::http::Request;
use insta::assert_snapshot;
use serde_json::{Value, json};
use tidings_access::clients::{self, Create};
use tidings_access::keys::Issued;
use tidings_access::{DisplayName, Scopes};
use tidings_delivery::templates;

use super::{Answer, World, slug};

const WELCOME: &str = r#"{"name":"Welcome","trigger":{"event":"user.signed_up"},"steps":[{"send":"a"},{"wait":"2 days"},{"send":"b"}]}"#;

async fn a_key(world: &World) -> Issued {
    for key in ["a", "b"] {
        let source = tidings_templates::Source {
            subject: key.to_owned(),
            text: Some(key.to_owned()),
            ..Default::default()
        };
        let content = templates::Content { source, ..Default::default() };
        let put =
            templates::Put { key: key.parse().unwrap(), content, then: templates::Then::Activate };
        templates::put(&world.acme, put).await.unwrap();
    }
    world.key(&world.acme, Scopes::all()).await
}

/// A key of another client of the same workspace.
async fn a_neighbour(world: &World) -> Issued {
    let create = Create { slug: slug("app"), name: DisplayName::from(&slug("app")) };
    clients::create(&world.acme, create).await.unwrap();
    world.key_of(&world.acme, "app").await
}

async fn put_as(world: &World, key: &Issued, kind: &str, body: &str) -> Answer {
    let request = Request::builder()
        .method("PUT")
        .uri("/v1/sequences/welcome")
        .header("x-request-id", "r-1")
        .header("authorization", format!("Bearer {}", key.api_key.expose()))
        .header("content-type", kind);
    world.ask(request.body(Body::from(body.to_owned())).unwrap()).await
}

fn fields(answer: &Answer) -> Vec<String> {
    let errors = answer.json()["errors"].as_array().unwrap().clone();
    errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_sequence_is_written_and_changed_version_by_version() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let made = world.put(&key, "/v1/sequences/welcome", WELCOME).await;
    assert_snapshot!("sequence_made", made.shown());
    let again = world.put(&key, "/v1/sequences/welcome", WELCOME).await;
    assert_eq!((again.status, &again.json()["change"]), (200, &"unchanged".into()));
    let yaml = "id: welcome\nclient: shop\nsteps:\n  - send: a\n";
    let changed = put_as(&world, &key, "text/yaml; charset=utf-8", yaml).await;
    assert_eq!((changed.status, &changed.json()["change"]), (200, &"changed".into()));
    assert_eq!(changed.json()["version"], 2);
    let shown = world.get(&key, "/v1/sequences/welcome").await;
    assert_snapshot!("sequence", shown.shown());
    let listed = world.get(&key, "/v1/sequences/welcome/versions?limit=1").await.json();
    assert_eq!(
        (&listed["data"][0]["version"], &listed["data"][0]["active"]),
        (&2.into(), &true.into())
    );
    let cursor = listed["next_cursor"].as_str().unwrap();
    let path = format!("/v1/sequences/welcome/versions?cursor={cursor}");
    let rest = world.get(&key, &path).await.json();
    assert_eq!((&rest["data"][0]["version"], &rest["next_cursor"]), (&1.into(), &Value::Null));
    let first = world.get(&key, "/v1/sequences/welcome/versions/1").await.json();
    assert_eq!(
        (&first["active"], &first["definition"]["name"]),
        (&false.into(), &"Welcome".into())
    );
    for missing in ["none", "No%20Slug", "welcome/versions/3", "welcome/versions/x", "%00"] {
        assert_eq!(world.get(&key, &format!("/v1/sequences/{missing}")).await.status, 404);
    }
}

#[tokio::test]
async fn all_that_is_wrong_with_a_definition_is_told_with_its_place() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let yaml = "id: other\nclient: app\nsteps:\n  - send: a\n    wat: 1\n  - wait: soon\n";
    let answer = put_as(&world, &key, "application/yaml", yaml).await;
    assert_snapshot!("sequence_yaml_wrong", answer.shown());
    let json = json!({"id": "other", "steps": [{"send": "a"}, {"wait": 7}, {"fly": true}]});
    let answer = world.put(&key, "/v1/sequences/welcome", &json.to_string()).await;
    assert_snapshot!("sequence_json_wrong", answer.shown());
    let yaml = "sender: nobody\naudience: nowhere\nsteps:\n  - send: a\n  - send: nothing\n";
    let answer = put_as(&world, &key, "application/yaml", yaml).await;
    assert_snapshot!("sequence_names_nothing", answer.shown());
    let answer = world.put(&key, "/v1/sequences/No%20Slug", WELCOME).await;
    assert_eq!((answer.status, fields(&answer)), (422, vec!["id".to_owned()]));
    assert_eq!(put_as(&world, &key, "application/json", "{").await.status, 400);
    assert_eq!(put_as(&world, &key, "text/plain", "steps: []").await.status, 415);
    assert_eq!(put_as(&world, &key, "application/json", &" ".repeat(5000)).await.status, 413);
    let answer = put_as(&world, &key, "application/json", "[]").await;
    assert_eq!((answer.status, fields(&answer)), (422, vec!["definition".to_owned()]));
    let answer = put_as(&world, &key, "application/yaml", "steps: [").await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    assert_eq!(world.get(&key, "/v1/sequences").await.json()["data"], json!([]));
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let dry = "/v1/sequences/welcome?dry_run=true";
    let answer = world.put(&key, dry, WELCOME).await;
    assert_eq!(answer.status, 200);
    let created = json!({"id": "welcome", "change": "created", "version": 1, "dry_run": true});
    assert_eq!(answer.json(), created);
    assert_eq!(world.get(&key, "/v1/sequences/welcome").await.status, 404);
    world.put(&key, "/v1/sequences/welcome", WELCOME).await;
    let changed = world.put(&key, dry, &WELCOME.replace("2 days", "3 days")).await.json();
    assert_eq!((&changed["change"], &changed["version"]), (&"changed".into(), &2.into()));
    assert_eq!(world.get(&key, "/v1/sequences/welcome").await.json()["version"], 1);
    let wrong = world.put(&key, dry, &WELCOME.replace("\"b\"", "\"nothing\"")).await;
    assert_eq!((wrong.status, fields(&wrong)), (422, vec!["steps[2].send".to_owned()]));
    assert_eq!(world.put(&key, "/v1/sequences/welcome?dry_run=7", WELCOME).await.status, 422);
}

#[tokio::test]
async fn sequences_are_listed_page_by_page_with_how_many_are_in_them() {
    let world = World::new().await;
    let key = a_key(&world).await;
    for id in ["one", "three", "two"] {
        let made = world.put(&key, &format!("/v1/sequences/{id}"), WELCOME).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    let ada = r#"{"email":"ada@example.org"}"#;
    world.post(&key, "/v1/sequences/one/executions", ada).await;
    world.post(&key, "/v1/sequences/two/pause", "").await;
    let page = world.get(&key, "/v1/sequences?limit=2").await;
    assert_snapshot!("sequences", page.shown());
    let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
    let rest = world.get(&key, &format!("/v1/sequences?limit=2&cursor={cursor}")).await.json();
    assert_eq!((&rest["data"][0]["id"], &rest["next_cursor"]), (&"two".into(), &Value::Null));
    let paused = world.get(&key, "/v1/sequences?status=paused").await.json();
    assert_eq!(paused["data"].as_array().unwrap().len(), 1);
    assert_eq!(world.get(&key, "/v1/sequences?status=lost").await.status, 422);
}

#[tokio::test]
async fn a_sequence_is_paused_archived_and_resumed() {
    let world = World::new().await;
    let key = a_key(&world).await;
    world.put(&key, "/v1/sequences/welcome", WELCOME).await;
    for (what, status) in [("pause", "paused"), ("archive", "archived"), ("resume", "active")] {
        for _ in 0..2 {
            let answer = world.post(&key, &format!("/v1/sequences/welcome/{what}"), "").await;
            assert_eq!((answer.status, &answer.json()["status"]), (200, &status.into()));
        }
    }
    world.post(&key, "/v1/sequences/welcome/archive", "").await;
    let again = world.put(&key, "/v1/sequences/welcome", WELCOME).await.json();
    assert_eq!((&again["change"], &again["version"]), (&"changed".into(), &1.into()));
    assert_eq!(world.get(&key, "/v1/sequences/welcome").await.json()["status"], "active");
}

#[tokio::test]
async fn another_clients_sequence_is_none() {
    let world = World::new().await;
    let (key, neighbour) = (a_key(&world).await, a_neighbour(&world).await);
    world.put(&key, "/v1/sequences/welcome", WELCOME).await;
    let ada = r#"{"email":"ada@example.org"}"#;
    let entered = world.post(&key, "/v1/sequences/welcome/executions", ada).await.json();
    let id = entered["execution"]["id"].as_str().unwrap();
    let begun = world.post(&key, "/v1/sequences/welcome/enrolments", r#"{"where":{}}"#).await;
    let enrolment = begun.json()["id"].as_str().unwrap().to_owned();
    let before = world.get(&key, "/v1/sequences/welcome").await.body;
    assert_eq!(world.get(&neighbour, "/v1/sequences").await.json()["data"], json!([]));
    for line in [
        "GET /v1/sequences/welcome".to_owned(),
        "GET /v1/sequences/welcome/versions".to_owned(),
        "GET /v1/sequences/welcome/versions/1".to_owned(),
        "GET /v1/sequences/welcome/mermaid".to_owned(),
        "GET /v1/sequences/welcome/funnel".to_owned(),
        "GET /v1/sequences/welcome/executions".to_owned(),
        "GET /v1/sequences/welcome/failed".to_owned(),
        "POST /v1/sequences/welcome/pause".to_owned(),
        "POST /v1/sequences/welcome/archive".to_owned(),
        "POST /v1/sequences/welcome/resume".to_owned(),
        "DELETE /v1/sequences/welcome/executions/ada@example.org".to_owned(),
        format!("POST /v1/executions/{id}/skip"),
        format!("POST /v1/sequences/welcome/failed/{id}/retry"),
        format!("DELETE /v1/sequences/welcome/failed/{id}"),
        format!("GET /v1/sequences/welcome/enrolments/{enrolment}"),
    ] {
        let answer = world.send(&line, Some(&neighbour.api_key.expose()), "").await;
        assert_eq!(answer.status, 404, "{line}: {}", answer.body);
    }
    for (path, body) in [("executions", ada), ("simulate", ada), ("enrolments", r#"{"where":{}}"#)]
    {
        let path = format!("/v1/sequences/welcome/{path}");
        assert_eq!(world.post(&neighbour, &path, body).await.status, 404, "{path}");
    }
    // Nor is what belongs to one sequence found in another of his own.
    let own = world.put(&neighbour, "/v1/sequences/own", r#"{"steps":[{"wait":"1 day"}]}"#).await;
    assert_eq!(own.status, 201, "{}", own.body);
    let path = format!("/v1/sequences/own/enrolments/{enrolment}");
    assert_eq!(world.get(&neighbour, &path).await.status, 404);
    for path in ["/v1/sequences/welcome", "/v1/sequences/welcome?dry_run=true"] {
        let taken = world.put(&neighbour, path, WELCOME).await;
        assert_eq!(taken.status, 409, "{}", taken.body);
    }
    let foreign = world
        .put(
            &neighbour,
            "/v1/sequences/x",
            &WELCOME.replace("{\"name", "{\"client\":\"shop\",\"name"),
        )
        .await;
    assert_eq!((foreign.status, fields(&foreign)), (422, vec!["client".to_owned()]));
    let contact = world.get(&neighbour, "/v1/contacts/ada@example.org/executions").await;
    assert_eq!((contact.status, &contact.json()["data"]), (200, &json!([])));
    assert_eq!(world.get(&key, "/v1/sequences/welcome").await.body, before);
}

#[tokio::test]
async fn a_sequence_is_drawn_and_its_form_is_served_to_editors() {
    let world = World::new().await;
    let key = a_key(&world).await;
    world.put(&key, "/v1/sequences/welcome", WELCOME).await;
    world.put(&key, "/v1/sequences/welcome", r#"{"steps":[{"send":"a"}]}"#).await;
    let drawn = world.get(&key, "/v1/sequences/welcome/mermaid?version=1").await;
    assert!(drawn.headers.contains("content-type: text/plain"), "{}", drawn.headers);
    assert_snapshot!("sequence_mermaid", drawn.body);
    assert!(!world.get(&key, "/v1/sequences/welcome/mermaid").await.body.contains("2 days"));
    assert_eq!(world.get(&key, "/v1/sequences/welcome/mermaid?version=9").await.status, 404);
    assert_eq!(world.get(&key, "/v1/sequences/welcome/mermaid?version=0").await.status, 422);
    let schema = world.send("GET /docs/sequence.schema.json", None, "").await;
    assert_eq!((schema.status, &schema.json()["title"]), (200, &"A sequence".into()));
    assert!(schema.headers.contains("application/schema+json"), "{}", schema.headers);
}

#[tokio::test]
async fn a_walk_is_tried_without_sending() {
    let world = World::new().await;
    let key = a_key(&world).await;
    let definition = r#"{"steps":[{"send":"a"},{"wait_for":"project.created","timeout":"3 days","then":[{"exit":"done"}]},{"send":"b"}]}"#;
    let made = world.put(&key, "/v1/sequences/welcome", definition).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let path = "/v1/sequences/welcome/simulate";
    let late = r#"{"email":"ada@example.org","at":"2026-08-01T09:00:00Z"}"#;
    assert_snapshot!("sequence_simulated", world.post(&key, path, late).await.shown());
    let came = r#"{"email":"ada@example.org","events":["project.created"]}"#;
    let came = world.post(&key, path, came).await.json();
    assert_eq!(came["ended_at"], "2026-07-01T12:00:00Z");
    let wrong = r#"{"email":"ada","at":"1900-01-01T00:00:00Z","data":7,"events":["","ok"],"x":1}"#;
    assert_snapshot!("sequence_simulate_wrong", world.post(&key, path, wrong).await.shown());
    assert_eq!(world.get(&key, "/v1/contacts/ada@example.org").await.status, 404);
}
