//! What a user is told at once, and what he is told who was away.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use futures_util::StreamExt as _;
use jiff::ToSpan as _;
use serde_json::{Value, json};
use tidings_access::{Scopes, keys, signing, workspaces};
use tidings_inbox::hints::MAX_OF_USER;
use tidings_inbox::{Inbox, forget};
use tidings_testbed::Bed;

use crate::v1::tests::World;

/// A connection, as a browser reads it.
struct Stream {
    body: BodyDataStream,
    text: String,
    last_id: String,
}

#[derive(Debug, PartialEq)]
struct Event {
    name: String,
    data: Value,
}

impl World {
    async fn stream(&self, token: &str) -> Stream {
        self.stream_after(token, None).await
    }

    async fn stream_after(&self, token: &str, last: Option<&str>) -> Stream {
        let mut request = Request::builder().uri("/inbox/v1/app/stream");
        request = request.header("authorization", format!("Bearer {token}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = self.open(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        let body = response.into_body().into_data_stream();
        Stream { body, text: String::new(), last_id: String::new() }
    }

    async fn mark(&self, token: &str, action: &str, id: &str) {
        let body = json!({"ids": [id]}).to_string();
        let line = format!("PUT /inbox/v1/app/messages/{action}");
        assert_eq!(self.send(&line, Some(token), &body).await.status, 200);
    }
}

impl Stream {
    /// The next event, or nothing at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                let Some(name) = field("event: ") else { continue };
                if let Some(id) = field("id: ") {
                    self.last_id = id.to_owned();
                }
                let data = serde_json::from_str(field("data: ").unwrap()).unwrap();
                return Some(Event { name: name.to_owned(), data });
            }
            let chunk = tokio::time::timeout(Duration::from_secs(10), self.body.next());
            let chunk = chunk.await.expect("something comes")?.unwrap();
            let chunk = std::str::from_utf8(&chunk).unwrap();
            assert!(
                !chunk.contains(['\u{2028}', '\u{2029}']),
                "some take these for the end of a line"
            );
            self.text += chunk;
        }
    }

    /// The events up to the next counts: titles of messages, names of others, and how many are unread then.
    async fn until_counts(&mut self) -> (Vec<String>, i64) {
        let mut told = Vec::new();
        loop {
            let event = self.next().await.unwrap();
            match event.name.as_str() {
                "message" => told.push(event.data["title"].as_str().unwrap().to_owned()),
                "counts" => return (told, event.data["unread"].as_i64().unwrap()),
                name => told.push(name.to_owned()),
            }
        }
    }
}

fn told(titles: &[&str], unread: i64) -> (Vec<String>, i64) {
    (titles.iter().map(ToString::to_string).collect(), unread)
}

#[tokio::test]
async fn what_comes_and_what_is_marked_is_told_to_all_who_look() {
    let world = World::new().await;
    let (ada, bob) = (world.token("ada").await, world.token("bob").await);
    let before = world.publish(&["ada"], "Before").await;
    let mut streams = [world.stream(&ada).await, world.stream(&ada).await];
    let mut other = world.stream(&bob).await;
    for stream in &mut streams {
        assert_eq!(stream.until_counts().await, told(&[], 1));
    }
    assert_eq!(other.until_counts().await, told(&[], 0));

    world.clock.advance(1.second());
    world.publish(&["ada"], "For Ada").await;
    for stream in &mut streams {
        assert_eq!(stream.until_counts().await, told(&["For Ada"], 2));
    }
    world.mark(&ada, "read", &before).await;
    for stream in &mut streams {
        assert_eq!(stream.until_counts().await, told(&["marks"], 1));
    }
    world.clock.advance(1.second());
    world.publish(&[], "For everyone").await;
    for stream in &mut streams {
        assert_eq!(stream.until_counts().await, told(&["For everyone"], 2));
    }
    // Bob has heard of nothing else.
    assert_eq!(other.until_counts().await, told(&["For everyone"], 1));
}

#[tokio::test]
async fn a_message_with_line_separators_is_told_as_it_is() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    let mut stream = world.stream(&ada).await;
    assert_eq!(stream.until_counts().await, told(&[], 0));
    let odd = "One\u{2028}id: ☃\u{2029}event: two\\u2028";
    world.publish(&["ada"], odd).await;
    assert_eq!(stream.until_counts().await, told(&[odd], 1));
}

#[tokio::test]
async fn who_comes_back_misses_nothing() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    let old = world.publish(&["ada"], "Old").await;
    let mut stream = world.stream(&ada).await;
    stream.until_counts().await;
    let last = stream.last_id.clone();
    drop(stream);

    for (to, title) in [(&["ada"][..], "One"), (&[][..], "Two"), (&["ada"][..], "Three")] {
        world.clock.advance(1.second());
        world.publish(to, title).await;
    }
    let mut back = world.stream_after(&ada, Some(&last)).await;
    assert_eq!(back.until_counts().await, told(&[], 4), "first of all");
    // In the middle the connection is lost again.
    assert_eq!(back.next().await.unwrap().data["title"], "One");
    let middle = back.last_id.clone();
    drop(back);
    world.mark(&ada, "read", &old).await;
    let mut back = world.stream_after(&ada, Some(&middle)).await;
    assert_eq!(back.until_counts().await, told(&[], 3));
    assert_eq!(back.until_counts().await, told(&["Two", "Three", "marks"], 3));
    let last = back.last_id.clone();
    drop(back);

    // Nothing has happened since: nothing more is told.
    let mut back = world.stream_after(&ada, Some(&last)).await;
    assert_eq!(back.until_counts().await, told(&[], 3));
    world.clock.advance(1.second());
    world.publish(&["ada"], "Four").await;
    assert_eq!(back.until_counts().await, told(&["Four"], 4));
    // One that says nothing to us is as good as none.
    let mut anew = world.stream_after(&ada, Some("what")).await;
    assert_eq!(anew.until_counts().await, told(&[], 4));
}

#[tokio::test]
async fn a_message_with_an_older_id_is_not_missed() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    world.publish(&["ada"], "New").await;
    let mut stream = world.stream(&ada).await;
    stream.until_counts().await;
    let last = stream.last_id.clone();
    // Another node's clock is behind.
    world.clock.advance((-10).minutes());
    world.publish(&["ada"], "Late").await;
    assert_eq!(stream.until_counts().await, told(&["marks"], 2), "so the list is fetched");
    world.clock.advance(10.minutes());
    let mut back = world.stream_after(&ada, Some(&last)).await;
    assert_eq!(back.until_counts().await, told(&[], 2));
    assert_eq!(back.until_counts().await, told(&["marks"], 2));
}

#[tokio::test]
async fn who_reads_slowly_or_was_away_for_long_fetches_the_list() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    let mut stream = world.stream(&ada).await;
    stream.until_counts().await;
    for number in 0..101 {
        world.clock.advance(1.second());
        world.publish(&["ada"], &format!("{number}")).await;
    }
    assert_eq!(stream.until_counts().await, told(&["marks"], 101));
    world.clock.advance(1.second());
    world.publish(&["ada"], "Next").await;
    assert_eq!(stream.until_counts().await, told(&["Next"], 102));
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    let mut stream = world.stream(&ada).await;
    stream.until_counts().await;
    world.clock.advance(61.minutes());
    world.publish(&["ada"], "Too late").await;
    // What was on its way when it expired may still arrive.
    let mut last = stream.next().await.unwrap();
    while last.name != "expired" {
        last = stream.next().await.unwrap();
    }
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn streams_end_with_the_process_and_with_their_workspace() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    let mut stream = world.stream(&ada).await;
    stream.until_counts().await;
    workspaces::disable(&world.access, world.acme.workspace().clone()).await.unwrap();
    world.publish(&["ada"], "x").await;
    assert_eq!(stream.next().await, None);
    workspaces::enable(&world.access, world.acme.workspace().clone()).await.unwrap();

    let mut stream = world.stream(&ada).await;
    stream.until_counts().await;
    world.draining.begin();
    assert_eq!(stream.next().await, None);
    drop(stream);
    assert_eq!(world.inbox.hints.watchers(), 0);
}

#[tokio::test]
async fn what_was_archived_meanwhile_is_no_news() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    let mut stream = world.stream(&ada).await;
    stream.until_counts().await;
    let last = stream.last_id.clone();
    drop(stream);

    world.clock.advance(1.second());
    let archived = world.publish(&["ada"], "Archived").await;
    world.mark(&ada, "archive", &archived).await;
    world.clock.advance(1.second());
    world.publish(&["ada"], "Not archived").await;
    let mut back = world.stream_after(&ada, Some(&last)).await;
    assert_eq!(back.until_counts().await, told(&[], 1), "first of all");
    assert_eq!(back.until_counts().await, told(&["Not archived", "marks"], 1));
}

#[tokio::test]
async fn a_mark_is_told_to_who_has_archived_the_newest_message() {
    for to in [&["ada"][..], &[]] {
        let world = World::new().await;
        let ada = world.token("ada").await;
        let older = world.publish(&["ada"], "Older").await;
        world.clock.advance(1.second());
        let newest = world.publish(to, "Newest").await;
        world.mark(&ada, "archive", &newest).await;
        let mut stream = world.stream(&ada).await;
        assert_eq!(stream.until_counts().await, told(&[], 1));
        let last = stream.last_id.clone();
        // On another device.
        world.mark(&ada, "read", &older).await;
        assert_eq!(stream.until_counts().await, told(&["marks"], 0));
        let mut back = world.stream_after(&ada, Some(&last)).await;
        assert_eq!(back.until_counts().await, told(&[], 0), "first of all");
        assert_eq!(back.until_counts().await, told(&["marks"], 0));
    }
}

#[tokio::test]
async fn a_mark_is_told_after_many_messages_of_which_the_newest_is_archived() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    let mut stream = world.stream(&ada).await;
    stream.until_counts().await;
    let last = stream.last_id.clone();
    drop(stream);
    let mut ids = Vec::new();
    for number in 0..102 {
        world.clock.advance(1.second());
        ids.push(world.publish(&["ada"], &format!("{number}")).await);
    }
    world.mark(&ada, "archive", &ids[101]).await;
    let mut back = world.stream_after(&ada, Some(&last)).await;
    assert_eq!(back.until_counts().await, told(&[], 101), "first of all");
    assert_eq!(back.until_counts().await, told(&["marks"], 101));
    world.mark(&ada, "read", &ids[0]).await;
    assert_eq!(back.until_counts().await, told(&["marks"], 100));
}

#[tokio::test]
async fn a_stream_ends_with_its_key() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let open = async || {
        let request = Request::builder()
            .uri("/inbox/v1/app/stream")
            .header("authorization", format!("Bearer {}", key.api_key.expose()))
            .header("x-user-id", "ada");
        let response = world.open(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), 200);
        let body = response.into_body().into_data_stream();
        Stream { body, text: String::new(), last_id: String::new() }
    };
    let mut stream = open().await;
    assert_eq!(stream.until_counts().await, told(&[], 0));
    world.clock.advance(1.second());
    world.publish(&["ada"], "One").await;
    assert_eq!(stream.until_counts().await, told(&["One"], 1));
    keys::revoke(&world.acme, key.key.public_id.clone()).await.unwrap();
    world.publish(&["ada"], "Two").await;
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_stream_ends_when_its_user_is_forgotten() {
    let world = World::new().await;
    world.publish(&[], "For everyone").await;
    let (token, key) = (world.token("ada").await, world.all().await);
    let by_key = Request::builder()
        .uri("/inbox/v1/app/stream")
        .header("authorization", format!("Bearer {key}"))
        .header("x-user-id", "ada");
    let by_key = world.open(by_key.body(Body::empty()).unwrap()).await;
    let body = by_key.into_body().into_data_stream();
    let by_key = Stream { body, text: String::new(), last_id: String::new() };
    let mut streams = [world.stream(&token).await, by_key];
    for stream in &mut streams {
        assert_eq!(stream.until_counts().await, told(&[], 1));
    }
    world.inbox.hints.look(&world.access, None).await;
    world.clock.advance(1.second());
    let cx = world.access.working_in(world.acme.workspace()).await.unwrap().unwrap();
    tidings_inbox::forget(&cx, &"ada".parse().unwrap()).await.unwrap();
    world.inbox.hints.look(&world.access, None).await;
    for stream in &mut streams {
        assert_eq!(stream.next().await.map(|event| event.name).as_deref(), Some("expired"));
        assert_eq!(stream.next().await, None);
    }
    let partition =
        tidings_inbox::keys::user(cx.workspace(), &"app".parse().unwrap(), &"ada".parse().unwrap());
    let query = tidings_kernel::Query::new(&tidings_kernel::tables::INBOX, partition);
    assert_eq!(cx.items().await.unwrap().count(query).await.unwrap(), 0);
}

#[tokio::test]
async fn who_is_signed_out_is_out_on_all_his_devices() {
    let world = World::new().await;
    world.publish(&["ada", "bob"], "One").await;
    let admin = world.all().await;
    let body = r#"{"user_id":"ada"}"#;
    let tokens = world.send("POST /v1/inbox-tokens", Some(&admin), body).await.json();
    let token = tokens["token"].as_str().unwrap();
    let refresh = json!({"refresh_token": tokens["refresh_token"]}).to_string();
    let (other, bob) = (world.token_in(&world.other, "ada").await, world.token("bob").await);
    let mut streams = [world.stream(token).await, world.stream(token).await];
    for stream in &mut streams {
        assert_eq!(stream.until_counts().await, told(&[], 1));
    }
    world.clock.advance(1.second());
    let sign_out = "DELETE /v1/inbox-tokens?user_id=ada";
    assert_eq!(world.send(sign_out, Some(&admin), "").await.status, 204);
    for stream in &mut streams {
        assert_eq!(stream.next().await.map(|event| event.name).as_deref(), Some("expired"));
        assert_eq!(stream.next().await, None);
    }
    let counts = "GET /inbox/v1/app/counts";
    assert_eq!(world.send(counts, Some(token), "").await.status, 401);
    let refreshed = world.send("POST /inbox/v1/tokens/refresh", None, &refresh).await;
    assert_eq!(refreshed.status, 401, "{}", refreshed.body);
    for (token, unread) in [(&other, 0), (&bob, 1)] {
        assert_eq!(world.send(counts, Some(token), "").await.json()["unread"], unread);
    }
    world.clock.advance(1.millisecond());
    let again = world.token("ada").await;
    assert_eq!(world.send(counts, Some(&again), "").await.json()["unread"], 1);
    for query in ["", "?user_id=a%23b", "?user_id=ada&all=1"] {
        let line = format!("DELETE /v1/inbox-tokens{query}");
        assert_eq!(world.send(&line, Some(&admin), "").await.status, 422, "{query}");
    }
}

#[tokio::test]
async fn a_quiet_stream_says_every_so_often_that_it_is_there() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    let mut stream = world.stream(&ada).await;
    stream.until_counts().await;
    // From here on nothing but the stream waits, and time passes as fast as it can.
    tokio::time::pause();
    for _ in 0..3 {
        let before = tokio::time::Instant::now();
        let said = stream.body.next().await.unwrap().unwrap();
        assert_eq!(&said[..], b":\n\n");
        assert_eq!(before.elapsed().as_secs(), 15);
    }
}

#[tokio::test]
async fn a_user_has_so_many_streams_and_no_more() {
    let world = World::new().await;
    let (ada, bob) = (world.token("ada").await, world.token("bob").await);
    let mut streams = Vec::new();
    for _ in 0..MAX_OF_USER {
        streams.push(world.stream(&ada).await);
    }
    let refused = world.send("GET /inbox/v1/app/stream", Some(&ada), "").await;
    assert_eq!(refused.status, 429, "{}", refused.body);
    world.stream(&bob).await;
    streams.pop();
    world.stream(&ada).await;
}

#[tokio::test]
async fn an_event_source_has_its_token_in_the_address_and_never_a_key() {
    let world = World::new().await;
    let (ada, key) = (world.token("ada").await, world.all().await);
    world.draining.begin();
    let at = |token: &str| format!("GET /inbox/v1/app/stream?token={token}");
    let answer = world.send(&at(&ada), None, "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.body.contains("event: counts"), "{}", answer.body);
    assert_eq!(world.send(&at(&key), None, "").await.status, 401);
    let counts = format!("GET /inbox/v1/app/counts?token={ada}");
    assert_eq!(world.send(&counts, None, "").await.status, 401, "only a stream takes it there");
}

#[tokio::test]
async fn what_happens_on_one_node_is_told_on_another() {
    let bed = Bed::postgres().await;
    let beside = bed.beside().await;
    let inbox = |bed: &Bed| Arc::new(Inbox::between_nodes(bed.access.database(), 100));
    let (here, there) = (inbox(&bed), inbox(&beside));
    let here = World::on(bed, here).await;
    let there = World::on(beside, there).await;
    let (stop, stopped) = tidings_jobs::Stop::new();
    let follow = there.inbox.hints.follow(&there.access, stopped);
    let talk = async {
        let ada = here.token("ada").await;
        let mut stream = there.stream(&ada).await;
        assert_eq!(stream.until_counts().await, told(&[], 0));
        here.clock.advance(1.second());
        let id = here.publish(&["ada"], "From here").await;
        assert_eq!(stream.until_counts().await, told(&["From here"], 1));
        here.mark(&ada, "read", &id).await;
        assert_eq!(stream.until_counts().await, told(&["marks"], 0));
        here.clock.advance(1.second());
        here.publish(&[], "For everyone").await;
        assert_eq!(stream.until_counts().await, told(&["For everyone"], 1));
        stop.send_replace(true);
    };
    tokio::join!(follow, talk);
}

#[tokio::test]
async fn what_expires_is_told_when_it_does() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    world.publish(&["ada"], "Stays").await;
    world.publish_for(&world.acme, &["ada"], "For Ada", Some("10m")).await;
    world.publish_for(&world.acme, &[], "For everyone", Some("20m")).await;
    let mut stream = world.stream(&ada).await;
    assert_eq!(stream.until_counts().await, told(&[], 3));
    // Nobody does anything: only the time passes.
    world.clock.advance(10.minutes());
    assert_eq!(stream.until_counts().await, told(&["marks"], 2));
    world.clock.advance(10.minutes());
    assert_eq!(stream.until_counts().await, told(&["marks"], 1));
    // Whoever comes back later begins with what is there.
    let mut back = world.stream_after(&ada, Some(&stream.last_id)).await;
    assert_eq!(back.until_counts().await, told(&[], 1));
    world.clock.advance(1.second());
    world.publish(&["ada"], "And on").await;
    assert_eq!(back.until_counts().await, told(&["And on"], 2), "nothing else was left to tell");
}

#[tokio::test]
async fn what_expires_while_somebody_is_away_is_told_when_he_is_back() {
    for to in [&["ada"][..], &[]] {
        let world = World::new().await;
        let ada = world.token("ada").await;
        world.publish(&["ada"], "Stays").await;
        world.publish_for(&world.acme, to, "Soon over", Some("10m")).await;
        let mut stream = world.stream(&ada).await;
        assert_eq!(stream.until_counts().await, told(&[], 2));
        let last = stream.last_id.clone();
        drop(stream);
        world.clock.advance(10.minutes());
        let mut back = world.stream_after(&ada, Some(&last)).await;
        assert_eq!(back.until_counts().await, told(&[], 1), "first of all");
        assert_eq!(back.until_counts().await, told(&["marks"], 1));
        // It makes no difference that something came as well.
        world.publish(&["ada"], "New").await;
        let mut back = world.stream_after(&ada, Some(&last)).await;
        assert_eq!(back.until_counts().await, told(&[], 2), "first of all");
        assert_eq!(back.until_counts().await, told(&["New", "marks"], 2));
    }
}

#[tokio::test]
async fn a_position_of_before_there_were_more_numbers_in_it_fetches_the_list() {
    let world = World::new().await;
    let ada = world.token("ada").await;
    world.publish(&["ada"], "One").await;
    let mut stream = world.stream(&ada).await;
    stream.until_counts().await;
    let before: Vec<&str> = stream.last_id.split('.').take(3).collect();
    let mut back = world.stream_after(&ada, Some(&before.join("."))).await;
    assert_eq!(back.until_counts().await, told(&[], 1), "first of all");
    assert_eq!(back.until_counts().await, told(&["marks"], 1));
}

#[tokio::test]
async fn who_is_forgotten_and_comes_again_fetches_the_list() {
    let world = World::new().await;
    world.publish(&[], "For everyone").await;
    // The second time the numbers are the same, and it is somebody else.
    let mut positions = Vec::new();
    for number in 0..2 {
        world.clock.advance(1.minute());
        let ada = world.token("ada").await;
        let mut stream = world.stream(&ada).await;
        assert_eq!(stream.until_counts().await, told(&[], 1));
        positions.push(stream.last_id.clone());
        if number == 0 {
            forget(&world.acme, &"ada".parse().unwrap()).await.unwrap();
        }
    }
    let [then, now] = [&positions[0], &positions[1]].map(|at| at.rsplit_once('.').unwrap());
    assert_eq!(then.0, now.0);
    assert_ne!(then.1, now.1);
    let ada = world.token("ada").await;
    let mut back = world.stream_after(&ada, Some(&positions[0])).await;
    assert_eq!(back.until_counts().await, told(&[], 1), "first of all");
    assert_eq!(back.until_counts().await, told(&["marks"], 1));
}

#[tokio::test]
async fn a_stream_waits_no_longer_than_until_something_expires() {
    for to in [&["ada"][..], &[]] {
        let world = World::new().await;
        let ada = world.token("ada").await;
        world.publish_for(&world.acme, to, "Soon over", Some("7s")).await;
        let mut stream = world.stream(&ada).await;
        stream.until_counts().await;
        // From here on nothing but the stream waits, and time passes as fast as it can.
        tokio::time::pause();
        let before = tokio::time::Instant::now();
        stream.body.next().await.unwrap().unwrap();
        assert_eq!(before.elapsed().as_secs(), 7);
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_key_that_signed_its_token() {
    let world = World::new().await;
    let (ada, now) = (world.token("ada").await, world.access.now());
    let database = world.access.database();
    let mut stream = world.stream(&ada).await;
    assert_eq!(stream.until_counts().await, told(&[], 0));
    signing::rotate(database, now).await.unwrap();
    world.clock.advance(61.seconds());
    world.publish(&["ada"], "One").await;
    assert_eq!(stream.until_counts().await, told(&["One"], 1), "another key signs, and it goes on");
    let signed_by = signing::list(database).await.unwrap().iter().map(|key| key.id).min().unwrap();
    signing::revoke(database, signed_by, world.access.now()).await.unwrap();
    world.clock.advance(61.seconds());
    world.publish(&["ada"], "Two").await;
    assert_eq!(stream.next().await, None);
}

/// As on a store whose nodes cannot tell each other anything.
#[tokio::test]
async fn what_nobody_tells_is_found_by_looking() {
    let bed = Bed::postgres().await;
    let beside = bed.beside().await;
    let here = World::on(bed, Arc::default()).await;
    let there = World::on(beside, Arc::default()).await;
    let ada = here.token("ada").await;
    let mut stream = there.stream(&ada).await;
    assert_eq!(stream.until_counts().await, told(&[], 0));
    let look = async || assert_eq!(there.inbox.hints.look(&there.access, None).await, None);
    look().await;
    here.clock.advance(1.second());
    let id = here.publish(&["ada"], "From there").await;
    look().await;
    assert_eq!(stream.until_counts().await, told(&["From there"], 1));
    here.mark(&ada, "read", &id).await;
    look().await;
    assert_eq!(stream.until_counts().await, told(&["marks"], 0));
    here.clock.advance(1.second());
    here.publish(&[], "For everyone").await;
    look().await;
    assert_eq!(stream.until_counts().await, told(&["For everyone"], 1));
    assert_eq!(stream.last_id.split('.').count(), 5);
}
