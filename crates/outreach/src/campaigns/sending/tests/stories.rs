//! A batch from the queue to the provider, and what changes on the way.

use jiff::Timestamp;
use tidings_delivery::eligibility::rules::Cap;
use tidings_delivery::eligibility::settings::{self, Sending as SendingTimes};
use tidings_delivery::templates;
use tidings_jobs::Outcome;
use tidings_kernel::{Outgoing, QueueEngine as _, queues};
use tidings_people::consent::subscriptions::{self, Unsubscribe};
use tidings_people::consent::{Act, By, Proof, Scope, Whom};
use tidings_people::suppression::{self, Kind, Suppress};
use tidings_testbed::{Bed, each_store};

use super::{AT_ONCE, World, worker};
use crate::campaigns::draft::Find;
use crate::campaigns::tallies::Kind as Tally;
use crate::campaigns::why::why;
use crate::campaigns::{Status, control};

each_store!(
    everybody_is_sent_to_once_however_often_a_batch_comes,
    two_workers_on_one_batch_send_each_message_once,
    who_left_since_is_skipped_with_the_reason,
    who_must_wait_is_moved_to_a_later_batch,
    a_pause_takes_effect_within_one_handful,
    a_node_that_stops_leaves_nobody_uncertain,
    who_leaves_while_a_batch_takes_long_is_asked_about_again,
    a_batch_that_nobody_can_work_on_pauses_the_campaign,
    a_batch_that_is_given_up_in_the_middle_comes_to_its_end,
    who_is_in_quiet_hours_gets_it_in_the_morning,
    a_cancelled_campaign_sends_nothing_more,
    each_gets_his_variant,
    who_lacks_a_required_variable_fails_alone,
    what_is_not_of_the_campaign_or_of_no_batch_is_refused,
    a_slow_pace_puts_the_batch_back,
    others_are_told_of_each_once,
);

async fn everybody_is_sent_to_once_however_often_a_batch_comes(bed: &Bed) {
    let world = World::new(bed, 21).await;
    let sending = world.campaign(10).await;
    for (index, message) in sending.messages.iter().enumerate() {
        for _ in 0..3 {
            assert_eq!(world.handle(message).await, Outcome::Done);
        }
        let sent = world.people.len().min((index + 1) * 10);
        assert_eq!(world.provider.asked(), sent);
    }
    sending.check_end("after all batches").await;
    for message in &sending.messages {
        assert_eq!(world.handle(message).await, Outcome::Done);
    }
    assert_eq!(world.provider.asked(), 21);
    sending.check_end("after they came again").await;
    assert_eq!(sending.tallies().await.get(Tally::Outcome, "sent"), 21);
    assert_eq!(sending.tallies().await.get(Tally::Domain, "example.org"), 21);
    assert_eq!(sending.tallies().await.get(Tally::Hour, "2026-07-01T12"), 21);

    let id = sending.id("p007@example.org").await;
    let mime = world.provider.mime("p007@example.org").replace("=\r\n", "").replace("=3D", "=");
    for expected in [
        "From: \"The shop\" <news@example.org>",
        "Subject: Hello Person 7",
        "List-Unsubscribe: <https://mail.example.org/u/",
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
        "Precedence: bulk",
        "Feedback-ID: spring:1:campaign:default",
        "Dear Person 7",
        "https://mail.example.org/t/c/",
        "https://mail.example.org/t/o/",
    ] {
        assert!(mime.contains(expected), "{expected} is missing in\n{mime}");
    }
    assert!(mime.contains(&format!("List-ID: <audience-{}.w1.example.org>", world.audience.id)));
    let header = mime.lines().find_map(|line| line.strip_prefix("Message-ID: ")).unwrap();
    let (_, source) = world.worker.links.read_message_id(header, bed.access.now()).await.unwrap();
    assert_eq!(source, tidings_delivery::links::Source::Recipient(id));
    let leave = mime.split("List-Unsubscribe: <https://mail.example.org/u/").nth(1).unwrap();
    let token = leave.split('>').next().unwrap().replace("\r\n ", "");
    let to = world.worker.links.read_unsubscribe(&token, bed.access.now()).await.unwrap();
    assert_eq!(to.source, source);
    assert_eq!(to.audience, Some(world.audience.id.get()));
    let log = world.log("p007@example.org").await;
    assert_eq!(log[0].text("sequenceId"), Some("spring"));
    assert_eq!(log[0].text("subject"), Some("Hello Person 7"));
    assert_eq!(log[0].text("sesMessageId"), Some("p-p007@example.org"));
}

async fn two_workers_on_one_batch_send_each_message_once(bed: &Bed) {
    let world = World::new(bed, 30).await;
    let sending = world.campaign(30).await;
    let other = worker(bed, &world.provider, "node-2").await.handler();
    let message = super::delivery(&sending.messages[0]);
    let one = world.worker.handler();
    let (first, second) = tokio::join!(one.handle(&message), other.handle(&message));
    // One of them may have found the other busy.
    for outcome in [first, second] {
        assert!(matches!(outcome, Outcome::Done | Outcome::Wait { .. }), "{outcome:?}");
    }
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    sending.check_end("after two workers").await;
    assert_eq!(world.provider.asked(), 30);
}

fn act() -> Act {
    let source = "test".parse().unwrap();
    Act { by: By::Person, source, reason: None, proof: Proof::default() }
}

async fn who_left_since_is_skipped_with_the_reason(bed: &Bed) {
    let world = World::new(bed, 8).await;
    let sending = world.campaign(8).await;
    let cx = bed.cx().await;
    let leave = |email: &str, scope| Unsubscribe {
        whom: Whom::Email(email.parse().unwrap()),
        scope,
        act: act(),
    };
    subscriptions::unsubscribe(&cx, leave("p001@example.org", Scope::Global)).await.unwrap();
    let audience = Scope::Audience(world.audience.id);
    subscriptions::unsubscribe(&cx, leave("p002@example.org", audience)).await.unwrap();
    let suppress = Suppress {
        email: "p003@example.org".parse().unwrap(),
        kind: Kind::Permanent,
        reason: "General".parse().unwrap(),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(&cx, suppress).await.unwrap();
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    for (email, reason) in [
        ("p001@example.org", "global_unsubscribe"),
        ("p002@example.org", "audience_unsubscribe"),
        ("p003@example.org", "hard_bounce"),
    ] {
        let status = sending.column(email, "status").await;
        let why = sending.column(email, "skip_reason").await;
        assert_eq!((status.as_deref(), why.as_deref()), (Some("skipped"), Some(reason)), "{email}");
        assert_eq!(sending.tallies().await.get(Tally::Skipped, reason), 1);
    }
    sending.check_end("with three who left").await;
    assert_eq!(world.provider.taken().len(), 5);
}

async fn who_must_wait_is_moved_to_a_later_batch(bed: &Bed) {
    let world = World::new(bed, 6).await;
    let cx = bed.cx().await;
    let quiet = SendingTimes { cap: Some(Cap { count: 1, hours: 24 }), ..SendingTimes::default() };
    settings::put(&cx, quiet).await.unwrap();
    let sending = world.campaign(6).await;
    // Somebody got something a moment ago.
    let line = tidings_delivery::sent::Line {
        email: "p002@example.org".parse().unwrap(),
        at: cx.now(),
        source: tidings_delivery::links::Source::Recipient(9_999),
        subject: "Hello".to_owned(),
        template_key: None,
        sequence_id: Some("winter".to_owned()),
        awaited: false,
        provider_message_id: None,
    };
    tidings_delivery::sent::record(&cx, &line, None).await.unwrap();
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken().len(), 5);
    assert_eq!(sending.column("p002@example.org", "status").await.as_deref(), Some("pending"));
    let sql = "SELECT CAST(recipient_ids AS TEXT) FROM campaign_batches WHERE number = 2";
    let moved = format!("[{}]", sending.id("p002@example.org").await);
    assert_eq!(world.rows(sql).await[0].text(0).unwrap(), moved);
    assert_eq!(sending.status().await, Status::Sending);
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken().len(), 5, "he is not this batch's any more");
    bed.advance(25 * 60).await;
    sending.feed().await;
    assert_eq!(world.work().await, 1);
    assert_eq!(world.provider.taken().len(), 6);
    assert_eq!(sending.status().await, Status::Sent);
    assert_eq!(sending.tallies().await, sending.recount().await);
}

async fn a_pause_takes_effect_within_one_handful(bed: &Bed) {
    let world = World::new(bed, 20).await;
    let sending = world.campaign(20).await;
    let pause = format!(
        "UPDATE campaigns SET status = 'paused', paused_in = 'sending' WHERE id = {}",
        sending.campaign
    );
    // While the second handful is on its way.
    let hook = move |asked| (asked == AT_ONCE + 1).then(|| pause.clone()).into_iter().collect();
    *world.provider.meanwhile.lock().unwrap() =
        Some((bed.access.database().clone(), Box::new(hook)));
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken().len(), 2 * AT_ONCE);
    let statuses = sending.statuses().await;
    assert_eq!((statuses["sent"], statuses["pending"]), (8, 12));
    for (_, email) in world.people.iter().take(2 * AT_ONCE) {
        assert_eq!(world.log(email).await.len(), 1, "{email}");
    }
    // Whatever comes again while it is paused sends nothing.
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken().len(), 2 * AT_ONCE);
    sending.set(Status::Sending).await;
    sending.feed().await;
    assert_eq!(world.work().await, 1);
    sending.check_end("after it was resumed").await;
}

async fn a_node_that_stops_leaves_nobody_uncertain(bed: &Bed) {
    let mut world = World::new(bed, 20).await;
    let (tell, stop) = tidings_jobs::Stop::new();
    world.worker = world.worker.until(stop);
    let sending = world.campaign(20).await;
    // While the second handful is on its way.
    let hook = move |asked| {
        if asked == AT_ONCE + 1 {
            tell.send_replace(true);
        }
        Vec::new()
    };
    *world.provider.meanwhile.lock().unwrap() =
        Some((bed.access.database().clone(), Box::new(hook)));
    let outcome = world.handle(&sending.messages[0]).await;
    assert!(matches!(&outcome, Outcome::Wait { after, .. } if after.is_zero()), "{outcome:?}");
    assert_eq!(world.provider.taken().len(), 2 * AT_ONCE);
    let statuses = sending.statuses().await;
    assert_eq!((statuses["sent"], statuses["pending"]), (8, 12), "{statuses:?}");
    // Whatever it still gets it gives back.
    let again = world.handle(&sending.messages[0]).await;
    assert!(matches!(again, Outcome::Wait { .. }), "{again:?}");
    assert_eq!(world.provider.taken().len(), 2 * AT_ONCE);
    let other = worker(bed, &world.provider, "node-2").await.handler();
    assert_eq!(other.handle(&super::delivery(&sending.messages[0])).await, Outcome::Done);
    sending.check_end("after another node went on").await;
}

async fn who_leaves_while_a_batch_takes_long_is_asked_about_again(bed: &Bed) {
    let world = World::new(bed, 12).await;
    let sending = world.campaign(12).await;
    let leave = format!(
        "UPDATE leads SET unsubscribed_at = 5 WHERE id = {}",
        world.people.last().unwrap().0
    );
    // Each message takes two seconds.
    let clock = bed.clock.clone();
    let hook = move |asked| {
        clock.advance(jiff::Span::new().seconds(2));
        (asked == 2).then(|| leave.clone()).into_iter().collect()
    };
    *world.provider.meanwhile.lock().unwrap() =
        Some((bed.access.database().clone(), Box::new(hook)));
    let outcome = world.handle(&sending.messages[0]).await;
    assert!(matches!(&outcome, Outcome::Wait { after, .. } if after.is_zero()), "{outcome:?}");
    assert_eq!(world.provider.taken().len(), AT_ONCE);
    while world.handle(&sending.messages[0]).await != Outcome::Done {}
    let why = sending.column("p012@example.org", "skip_reason").await;
    assert_eq!(why.as_deref(), Some("global_unsubscribe"));
    sending.check_end("after some took long").await;
}

async fn a_batch_that_nobody_can_work_on_pauses_the_campaign(bed: &Bed) {
    let world = World::new(bed, 4).await;
    let sending = world.campaign(2).await;
    let cx = bed.cx().await;
    let find = Find { id: sending.campaign, client: None };
    let first = sending.id("p001@example.org").await;
    // It names somebody who is not of this campaign.
    let broken = sending.messages[0].replace('[', "[99999,");
    let send = |body: &str| Outgoing::new(&queues::CAMPAIGN_EMAIL, body);
    bed.queues.send(vec![send(&broken), send(&sending.messages[1])]).await.unwrap();
    for _ in 0..queues::CAMPAIGN_EMAIL.max_receives {
        assert_eq!(sending.status().await, Status::Sending);
        world.work().await;
        bed.advance(20).await;
    }
    assert_eq!(sending.status().await, Status::Paused);
    let rows = world.rows("SELECT pause_reason FROM campaigns").await;
    let reason = rows[0].text(0).unwrap();
    assert!(reason.starts_with("stuck: 1 of 3 recipients of batch campaign-"), "{reason}");
    let told = why(&cx, find, "p001@example.org".parse().unwrap()).await.unwrap();
    assert!(told.steps[0].told.contains("is paused: stuck: "), "{:?}", told.steps[0]);
    // Whoever has no end goes with another batch.
    control::resume(&cx, find, None).await.unwrap();
    sending.feed().await;
    world.work().await;
    sending.check_end("after it was resumed").await;
    assert_eq!(sending.id("p001@example.org").await, first);
}

/// Somebody of the batch is just being handed over, by whoever died with the message or is slow with it.
async fn a_batch_that_is_given_up_in_the_middle_comes_to_its_end(bed: &Bed) {
    for status in [Status::Paused, Status::Cancelled] {
        let bed = match bed.access.database().dialect() {
            tidings_sql::Dialect::Sqlite => Bed::memory().await,
            tidings_sql::Dialect::Postgres => Bed::postgres().await,
        };
        let world = World::new(&bed, 3).await;
        let sending = world.campaign(3).await;
        let now = bed.access.now().as_millisecond();
        world
            .run(&format!(
                "UPDATE campaign_recipients SET status = 'claimed', claimed_by = 'gone', attempts = 1, handed_at = {now},
                     claimed_until = {} WHERE email = 'p002@example.org'",
                now + 100_000
            ))
            .await;
        if status == Status::Cancelled {
            sending.set(status).await;
        }
        let handler = world.worker.handler();
        handler.given_up(&super::delivery(&sending.messages[0]), "nobody ever answered").await;
        assert_eq!(sending.status().await, status);
        bed.advance(3).await;
        assert_eq!(world.work().await, 1, "its message comes once more");
        let claimed = sending.column("p002@example.org", "status").await;
        assert_eq!(claimed.as_deref(), Some("uncertain"));
        let open =
            "SELECT COUNT(*) FROM campaign_batches WHERE fed_at IS NOT NULL AND done_at IS NULL";
        assert_eq!(world.rows(open).await[0].int(0).unwrap(), 0);
        let left = if status == Status::Cancelled { "skipped" } else { "pending" };
        assert_eq!(sending.statuses().await[left], 2, "{left}");
    }
}

async fn who_is_in_quiet_hours_gets_it_in_the_morning(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let at = |text: &str| text.parse().unwrap();
    // It is noon in UTC, and nine in the evening in Tokyo.
    let quiet = SendingTimes { quiet: Some((at("20:00"), at("08:00"))), ..SendingTimes::default() };
    settings::put(&bed.cx().await, quiet).await.unwrap();
    let sql = "UPDATE leads SET timezone = 'Asia/Tokyo' WHERE id";
    world.run(&format!("{sql} = {}", world.people[1].0)).await;
    let sending = world.campaign(3).await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken(), ["p001@example.org", "p003@example.org"]);
    let due = sending.column("p002@example.org", "due_at").await.unwrap();
    let due = Timestamp::from_millisecond(due.parse().unwrap()).unwrap();
    assert_eq!(due.to_string(), "2026-07-01T23:00:00Z");
    bed.advance(11 * 60 - 1).await;
    sending.feed().await;
    assert_eq!(world.work().await, 0, "it is a minute before eight there");
    bed.advance(1).await;
    sending.feed().await;
    assert_eq!(world.work().await, 1);
    sending.check_end("in the morning").await;
}

async fn a_cancelled_campaign_sends_nothing_more(bed: &Bed) {
    let world = World::new(bed, 12).await;
    let sending = world.campaign(6).await;
    let cancel =
        format!("UPDATE campaigns SET status = 'cancelled' WHERE id = {}", sending.campaign);
    let hook = move |asked| (asked == 1).then(|| cancel.clone()).into_iter().collect();
    *world.provider.meanwhile.lock().unwrap() =
        Some((bed.access.database().clone(), Box::new(hook)));
    for message in &sending.messages {
        assert_eq!(world.handle(message).await, Outcome::Done);
    }
    assert_eq!(world.provider.taken().len(), AT_ONCE);
    let tallies = sending.tallies().await;
    assert_eq!(tallies.get(Tally::Skipped, "campaign_cancelled"), 8);
    assert_eq!(tallies, sending.recount().await);
    assert_eq!(sending.status().await, Status::Cancelled);
}

async fn each_gets_his_variant(bed: &Bed) {
    let world = World::new(bed, 6).await;
    put_template(bed, "spring/a", "A for {{ firstName }}", &[]).await;
    let variants = r#"[{"name":"a","weight":1,"template":"spring/a","template_version":1},
        {"name":"b","weight":1,"subject":"B for {{ firstName }}"},
        {"name":"c","weight":1,"template":"spring/a","template_version":1,"subject":"C {{ firstName }}"}]"#;
    let sending = world.campaign_with(6, "NULL", "Own", variants).await;
    for arm in 0..3 {
        let emails = format!("'p00{}@example.org', 'p00{}@example.org'", arm + 1, arm + 4);
        // The last ones are not part of the test, and get what did best.
        let of_row = if arm == 2 { "NULL".to_owned() } else { arm.to_string() };
        let sql =
            format!("UPDATE campaign_recipients SET arm = {of_row} WHERE email IN ({emails})");
        world.run(&sql).await;
    }
    world.run("UPDATE campaigns SET winner = 2").await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    for (email, subject) in [
        ("p001@example.org", "Subject: A for Person 1"),
        ("p002@example.org", "Subject: B for Person 2"),
        ("p003@example.org", "Subject: C Person 3"),
        ("p004@example.org", "Subject: A for Person 4"),
        ("p006@example.org", "Subject: C Person 6"),
    ] {
        assert!(world.provider.mime(email).contains(subject), "{email}");
    }
    let tallies = sending.tallies().await;
    for arm in ["0", "1", "2"] {
        assert_eq!(tallies.get(Tally::Arm, arm), 2);
    }
    assert_eq!(world.log("p001@example.org").await[0].text("templateKey"), Some("spring/a"));
    assert_eq!(world.log("p002@example.org").await[0].text("templateKey"), None);
}

async fn put_template(bed: &Bed, key: &str, subject: &str, required: &[&str]) {
    let content = templates::Content {
        source: tidings_templates::Source {
            subject: subject.to_owned(),
            html: Some("<body>Hello {{ firstName }}, {{ plan }}</body>".to_owned()),
            ..Default::default()
        },
        required: required.iter().map(ToString::to_string).collect(),
        examples: serde_json::from_str(r#"{"firstName":"Ada","plan":"pro"}"#).unwrap(),
        ..Default::default()
    };
    let put =
        templates::Put { key: key.parse().unwrap(), content, then: templates::Then::Activate };
    templates::put(&bed.cx().await, put).await.unwrap();
}

async fn who_lacks_a_required_variable_fails_alone(bed: &Bed) {
    let world = World::new(bed, 5).await;
    put_template(bed, "spring/a", "For {{ firstName }}", &["firstName", "plan"]).await;
    let cx = bed.cx().await;
    for email in ["p001@example.org", "p003@example.org"] {
        let attributes = serde_json::from_str(r#"{"plan":"pro"}"#).unwrap();
        let upsert = tidings_people::contacts::Upsert {
            email: email.parse().unwrap(),
            first_name: None,
            attributes: tidings_people::contacts::Attributes::parse(attributes).unwrap(),
            tags: None,
        };
        tidings_people::contacts::upsert(&cx, upsert).await.unwrap();
    }
    let sending = world.campaign_with(5, "'spring/a'", "For {{ firstName }}", "[]").await;
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken(), ["p001@example.org", "p003@example.org"]);
    assert_eq!(sending.tallies().await.get(Tally::Failed, "missing_variables"), 3);
    let why = sending.column("p002@example.org", "last_error").await;
    assert_eq!(why.as_deref(), Some("nothing is known of plan"));
    sending.check_end("with three who failed").await;
}

async fn what_is_not_of_the_campaign_or_of_no_batch_is_refused(bed: &Bed) {
    let world = World::new(bed, 2).await;
    let sending = world.campaign(2).await;
    let (id, message) = (sending.campaign, &sending.messages[0]);
    let first = sending.id("p001@example.org").await;
    let foreign = message.replace("[", &format!("[{first},99999,"));
    let expected =
        format!("1 of 3 recipients of batch campaign-{id}-batch-0001 are not of campaign {id}");
    assert_eq!(world.handle(&foreign).await, Outcome::retry(expected));
    let other = message.replace("-batch-0001", "-batch-0009");
    let expected = format!("there is no batch campaign-{id}-batch-0009");
    assert_eq!(world.handle(&other).await, Outcome::retry(expected));
    for wrong in ["batch-1", "campaign-77-batch-0001"] {
        let wrong = message.replace(&format!("campaign-{id}-batch-0001"), wrong);
        assert!(matches!(world.handle(&wrong).await, Outcome::Dead { .. }), "{wrong}");
    }
    let gone = message.replace(&format!("\"campaign_id\":{id}"), "\"campaign_id\":77");
    let gone = gone.replace(&format!("campaign-{id}-"), "campaign-77-");
    assert_eq!(world.handle(&gone).await, Outcome::retry("there is no campaign 77"));
    for body in ["{", "[]", r#"{"contract":"nope","version":1}"#] {
        assert!(matches!(world.handle(body).await, Outcome::Dead { .. }), "{body}");
    }
    assert_eq!(world.provider.asked(), 0);
}

async fn a_slow_pace_puts_the_batch_back(bed: &Bed) {
    let mut world = World::new(bed, 5).await;
    world.worker.pace = std::sync::Arc::new(tidings_delivery::pace::Pace::new(2, bed.access.now()));
    let sending = world.campaign(5).await;
    let mut sent = Vec::new();
    loop {
        let outcome = world.handle(&sending.messages[0]).await;
        sent.push(world.provider.taken().len());
        match outcome {
            Outcome::Done => break,
            Outcome::Wait { after, .. } => {
                assert_eq!(sending.statuses().await.get("claimed"), None);
                bed.clock.advance(jiff::Span::new().milliseconds(after.as_millis() as i64));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sent, [2, 4, 5]);
    sending.check_end("at two a second").await;
}

async fn others_are_told_of_each_once(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let sending = world.campaign(3).await;
    let workspace = bed.cx().await.workspace_id().get();
    world
        .run(&format!(
            "INSERT INTO webhook_endpoints (workspace_id, url, event_types, secret, created_at, updated_at)
             VALUES ({workspace}, 'https://example.org/', '[]', 'x', 0, 0)"
        ))
        .await;
    world.run("UPDATE leads SET unsubscribed_at = 1 WHERE id = (SELECT MIN(id) FROM leads)").await;
    let refused = tidings_kernel::SendError::Refused("550".to_owned());
    world.provider.answers("p002@example.org", refused);
    for _ in 0..2 {
        assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    }
    let sql = "SELECT body FROM queue_messages WHERE queue = 'webhook-fanout' ORDER BY id";
    let mut told: Vec<_> = world
        .rows(sql)
        .await
        .iter()
        .map(|row| {
            let body: serde_json::Value = serde_json::from_str(row.text(0).unwrap()).unwrap();
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            (text(&body["event_type"]), text(&body["data"]["email"]), text(&body["data"]["reason"]))
        })
        .collect();
    told.retain(|(kind, ..)| kind.starts_with("email."));
    told.sort();
    let expected = [
        ("email.failed", "p002@example.org", ""),
        ("email.sent", "p003@example.org", ""),
        ("email.skipped", "p001@example.org", "global_unsubscribe"),
    ];
    assert_eq!(told, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    let at: Timestamp = bed.access.now();
    assert_eq!(
        sending.column("p003@example.org", "sent_at").await,
        Some(at.as_millisecond().to_string())
    );
}
