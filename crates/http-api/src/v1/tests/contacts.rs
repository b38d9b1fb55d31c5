//! Contacts and suppressions as a caller meets them.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures_util::stream;
use insta::assert_snapshot;
use jiff::ToSpan;
use serde_json::{Value, json};
use tidings_access::Scopes;
use tidings_access::keys::Issued;

use super::{Answer, World};
use crate::Limits;
use crate::v1::v1;

async fn begun() -> (World, Issued) {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    (world, key)
}

async fn send(world: &World, key: &Issued, line: &str, body: &str) -> Answer {
    world.send(line, Some(&key.api_key.expose()), body).await
}

#[tokio::test]
async fn a_contact_is_made_changed_shown_and_erased() {
    let (world, key) = begun().await;
    let new = r#"{"email":"Ada@Example.org","first_name":"Ada","attributes":{"plan":"pro","seats":3},"tags":["Beta"]}"#;
    assert_snapshot!("contact_made", world.post(&key, "/v1/contacts", new).await.shown());
    world.clock.advance(1.hour());
    let again = world.post(&key, "/v1/contacts", new).await;
    assert_eq!((again.status, &again.json()["updated_at"]), (200, &json!("2026-07-01T12:00:00Z")));
    let change =
        r#"{"first_name":null,"attributes":{"plan":null,"city":"London"},"add_tags":["vip"]}"#;
    let path = "/v1/contacts/ADA@example.org";
    let changed = send(&world, &key, &format!("PATCH {path}"), change).await;
    assert_snapshot!("contact_changed", changed.shown());
    assert_snapshot!("contact", world.get(&key, path).await.shown());
    assert_snapshot!(
        "contact_missing",
        world.get(&key, "/v1/contacts/bob@example.org").await.shown()
    );
    assert_eq!(world.get(&key, "/v1/contacts/nonsense").await.status, 404);

    assert_eq!(world.delete(&key, path).await.body, r#"{"erased":true}"#);
    assert_eq!(world.delete(&key, path).await.body, r#"{"erased":false}"#);
    assert_eq!(world.get(&key, path).await.status, 404);
}

#[tokio::test]
async fn tags_are_replaced_added_removed_and_cleared() {
    let (world, key) = begun().await;
    world.post(&key, "/v1/contacts", r#"{"email":"ada@example.org"}"#).await;
    for (line, body, tags) in [
        ("PUT /tags", r#"{"tags":["a","b"]}"#, json!(["a", "b"])),
        ("POST /tags", r#"{"tags":["B","c"]}"#, json!(["a", "b", "c"])),
        ("DELETE /tags/A", "", json!(["b", "c"])),
        ("DELETE /tags/none", "", json!(["b", "c"])),
        ("PUT /tags", r#"{"tags":[]}"#, json!([])),
        ("POST /tags", r#"{"tags":["z"]}"#, json!(["z"])),
        ("DELETE /tags", "", json!([])),
    ] {
        let line = line.replace(' ', " /v1/contacts/ada@example.org");
        let answer = send(&world, &key, &line, body).await;
        assert_eq!(
            (answer.status, &answer.json()["tags"]),
            (200, &tags),
            "{line}: {}",
            answer.body
        );
    }
    let many: Vec<_> = (0..46).map(|number| format!("t{number}")).collect();
    let body = json!({ "tags": many }).to_string();
    let answer = send(&world, &key, "PUT /v1/contacts/ada@example.org/tags", &body).await;
    assert_snapshot!("tags_too_many", answer.shown());
    assert_eq!(send(&world, &key, "PUT /v1/contacts/ada@example.org/tags", "{}").await.status, 422);
}

#[tokio::test]
async fn a_wrong_contact_is_told_all_that_is_wrong_and_nothing_is_made() {
    let (world, key) = begun().await;
    let wrong = r#"{"email":"ada","first_name":"","attributes":{"suppressed":false,"PK":"x","a b":1},"tags":["ok","no tag"],
                    "add_tags":["x"],"unsubscribed":false}"#;
    assert_snapshot!("contact_wrong", world.post(&key, "/v1/contacts", wrong).await.shown());
    let two = r#"{"email":"ada@example.org","tags":["a"],"remove_tags":["b"]}"#;
    let answer = world.post(&key, "/v1/contacts", two).await;
    assert_eq!(
        answer.json()["errors"],
        json!([{"field": "tags", "message": "use only one of tags, add_tags and remove_tags"}])
    );
    let listed = world.get(&key, "/v1/contacts").await;
    assert_eq!(listed.json()["data"], json!([]));
    let query = "/v1/contacts?status=gone&tag=a%20b&attribute=plan&audience=None!&limit=0&cursor=x";
    assert_snapshot!("contacts_query_wrong", world.get(&key, query).await.shown());
    let long = format!("/v1/contacts?attribute={}&value={}", "a".repeat(65), "v".repeat(1001));
    assert_eq!(
        world.get(&key, &long).await.json()["errors"],
        json!([
            {"field": "attribute", "message": "use at most 64 characters"},
            {"field": "value", "message": "use at most 1000 characters"},
        ])
    );
    let longest = format!("/v1/contacts?attribute={}&value={}", "a".repeat(64), "v".repeat(1000));
    assert_eq!(world.get(&key, &longest).await.status, 200);
    let missing = world.get(&key, "/v1/contacts?audience=none").await;
    assert_eq!(missing.json()["errors"][0]["message"], "there is no audience none");
}

#[tokio::test]
async fn contacts_are_listed_by_what_they_are() {
    let (world, key) = begun().await;
    for number in 0..5 {
        let body = json!({
            "email": format!("p{number}@example.org"),
            "attributes": {"even": number % 2 == 0},
            "tags": if number < 4 { vec!["few"] } else { vec![] },
        });
        world.post(&key, "/v1/contacts", &body.to_string()).await;
    }
    let body = r#"{"email":"p0@example.org","reason":"asked by phone"}"#;
    assert_eq!(world.post(&key, "/v1/suppressions", body).await.status, 201);
    let walk = async |query: &str| {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page =
                world.get(&key, &format!("/v1/contacts?limit=2{query}{cursor}")).await.json();
            for contact in page["data"].as_array().unwrap() {
                found.push(contact["email"].as_str().unwrap()[1..2].to_owned());
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return found.concat(),
            }
        }
    };
    for (query, expected) in [
        ("", "01234"),
        ("&tag=few", "0123"),
        ("&status=active", "1234"),
        ("&status=suppressed", "0"),
        ("&status=unsubscribed", ""),
        ("&attribute=even&value=true", "024"),
        ("&tag=FEW&attribute=even&value=true&status=active", "2"),
    ] {
        assert_eq!(walk(query).await, expected, "{query}");
    }
    let page = world.get(&key, "/v1/contacts?limit=2").await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let other = world.get(&key, &format!("/v1/contacts?tag=few&cursor={cursor}")).await;
    assert_eq!(other.json()["errors"][0]["field"], "cursor", "{}", other.body);
}

#[tokio::test]
async fn suppressions_are_made_listed_and_lifted_with_a_reason() {
    let (world, key) = begun().await;
    let body = r#"{"email":"Ada@Example.org","type":"complaint","reason":"wrote to us","note":"see the letter"}"#;
    let made = world.post(&key, "/v1/suppressions", body).await;
    let hidden = made.shown().replace(key.key.public_id.as_str(), "[id]");
    assert_snapshot!("suppression_made", hidden);
    assert_eq!(world.post(&key, "/v1/suppressions", body).await.status, 200);
    let path = "/v1/suppressions/ada@example.org";
    assert_eq!(world.get(&key, path).await.body, made.body);
    let listed = world.get(&key, "/v1/suppressions").await.json();
    assert_eq!(listed["data"][0]["email"], "ada@example.org");

    let wrong = r#"{"email":"ada","type":"Soft","reason":" "}"#;
    assert_snapshot!(
        "suppression_wrong",
        world.post(&key, "/v1/suppressions", wrong).await.shown()
    );
    assert_snapshot!("suppression_no_reason", world.delete(&key, path).await.shown());
    assert_eq!(world.get(&key, path).await.status, 200);
    let lifted = world.delete(&key, &format!("{path}?reason=she%20came%20back")).await;
    let mut told = lifted.json();
    assert_eq!(told.as_object_mut().unwrap().remove("provider"), Some("none".into()));
    assert_eq!((lifted.status, told), (200, made.json()));
    assert_snapshot!("suppression_missing", world.get(&key, path).await.shown());
    assert_eq!(world.delete(&key, &format!("{path}?reason=again")).await.status, 404);
}

#[tokio::test]
async fn a_file_goes_in_and_comes_out() {
    let (world, key) = begun().await;
    let file = "E-Mail;first name;plan\nada@example.org;Ada;pro\nnobody;x;y\n";
    let looked = world.post(&key, "/v1/contacts/import?dry_run=true&tags=fair,2026", file).await;
    assert_eq!((looked.status, &looked.json()["new"]), (200, &json!(1)), "{}", looked.body);
    assert_eq!(world.get(&key, "/v1/contacts").await.json()["data"], json!([]));
    let imported = world.post(&key, "/v1/contacts/import?tags=fair,2026", file).await;
    assert_snapshot!("imported", imported.shown());
    let exported = world.get(&key, "/v1/contacts/export?tag=fair").await;
    assert_eq!(exported.status, 200);
    let expected = "email,first_name,tags,attributes,unsubscribed,suppressed,timezone,created_at,updated_at\n\
        ada@example.org,Ada,2026;fair,\"{\"\"plan\"\":\"\"pro\"\"}\",no,no,,\
        2026-07-01T12:00:00.000Z,2026-07-01T12:00:00.000Z\n";
    assert_eq!(exported.body, expected);
    let lines = world.get(&key, "/v1/contacts/export?format=jsonl").await;
    assert_eq!(lines.json()["attributes"], json!({"plan": "pro"}));
}

/// Sends a file and asks to be told while it is taken in.
async fn follow(world: &World, key: &Issued, query: &str, body: Body) -> Answer {
    let request = Request::post(format!("/v1/contacts/import{query}"))
        .header("authorization", format!("Bearer {}", key.api_key.expose()))
        .header("x-request-id", "r-1")
        .header("content-type", "text/csv")
        .header("accept", "application/json;q=0.5, application/x-ndjson");
    world.ask(request.body(body).unwrap()).await
}

#[tokio::test]
async fn an_import_is_told_while_it_goes_on() {
    let (mut world, key) = begun().await;
    let limits = Limits::uniform(4096, Duration::from_secs(5));
    world.router = v1(world.services.clone(), Limits { max_file: 1_000_000, ..limits });
    let people: String = (0..9_000).map(|n| format!("p{n}@example.org;pro\n")).collect();
    let file = format!("E-Mail;plan\n{people}nobody;x\n");
    let pieces = file.as_bytes().chunks(10_000).map(|piece| Ok::<_, Infallible>(piece.to_vec()));
    let pieces: Vec<_> = pieces.collect();
    let told = follow(&world, &key, "", Body::from_stream(stream::iter(pieces))).await;
    assert_eq!(told.status, 200, "{}", told.body);
    assert!(told.headers.contains("content-type: application/x-ndjson"), "{}", told.headers);
    let lines: Vec<Value> =
        told.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["columns", "progress", "progress", "error", "progress", "done"]);
    assert_eq!(lines[0]["columns"][0], json!({"column": "E-Mail", "field": "email"}));
    let so_far: Vec<_> = lines.iter().filter_map(|line| line["lines"].as_u64()).collect();
    assert_eq!(so_far, [4_000, 8_000, 9_001, 9_001]);
    assert_eq!(lines[3]["line"], 9_002);
    assert_eq!((&lines[5]["new"], &lines[5]["invalid"]), (&json!(9_000), &json!(1)));
    let again = follow(&world, &key, "?dry_run=true", Body::from(file)).await;
    let last: Value = serde_json::from_str(again.body.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["unchanged"]), (&json!("done"), &json!(9_000)));
}

#[tokio::test]
async fn an_import_that_ends_before_its_end_says_so_in_its_last_line() {
    let (mut world, key) = begun().await;
    let limits = Limits::uniform(4096, Duration::from_secs(5));
    world.router = v1(world.services.clone(), Limits { max_file: 1_000_000, ..limits });
    // Before anything is told it is a problem like any other.
    let refused = follow(&world, &key, "", Body::from("name\nAda\n")).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    let broken: Vec<Result<String, std::io::Error>> = vec![
        Ok("email\n".to_owned()),
        Ok((0..5_000).map(|n| format!("p{n}@example.org\n")).collect()),
        Err(std::io::Error::other("the line is dead")),
    ];
    let broken = Body::from_stream(stream::iter(broken));
    let told = follow(&world, &key, "?dry_run=true", broken).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let last: Value = serde_json::from_str(told.body.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["problem"]["status"]), (&json!("problem"), &json!(422)));
}

#[tokio::test]
async fn a_file_that_cannot_be_taken_is_refused_with_a_reason() {
    let (world, key) = begun().await;
    for (query, file, status, told) in [
        ("", "name\nAda\n", 422, "no column is the e-mail address"),
        ("", r#"{"email":"ada@example.org"}"#, 415, "send CSV"),
        ("?map=Mail=email", "email\nada@example.org\n", 422, "there is no column"),
        ("?audience=news", "email\nada@example.org\n", 422, "required with audience"),
        ("?audience=news&source=x", "email\nada@example.org\n", 422, "there is no audience news"),
        ("?tags=a%20b", "email\nada@example.org\n", 422, "tags"),
    ] {
        let answer = world.post(&key, &format!("/v1/contacts/import{query}"), file).await;
        assert_eq!(answer.status, status, "{query}: {}", answer.body);
        assert!(answer.body.contains(told), "{query}: {}", answer.body);
    }
    let long = format!("email\n{}", "ada@example.org\n".repeat(1_000));
    let answer = world.post(&key, "/v1/contacts/import", &long).await;
    assert!((400..500).contains(&answer.status), "{}", answer.body);
    assert_eq!(world.get(&key, "/v1/contacts/export?format=pdf").await.status, 422);
}
