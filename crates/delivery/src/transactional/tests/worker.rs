//! From the queue to the provider.

use std::time::Duration;

use tidings_jobs::Outcome;
use tidings_kernel::SendError;
use tidings_testbed::{Bed, each_store};

use super::World;
use super::accept::suppress;
use crate::ledger;
use crate::ledger::marks::{self, Facts, Mark};
use crate::transactional::{AcceptError, Disposition, Part, PartBody, Status, Tracking};

each_store!(
    a_message_is_handed_over_once_and_logged,
    an_envelope_that_names_another_client_or_key_is_refused,
    what_has_its_end_is_acknowledged_without_the_provider,
    a_suppression_that_came_after_acceptance_counts,
    what_was_refused_for_good_is_failed,
    where_nobody_is_a_message_comes_back_and_that_is_told_once,
    what_was_not_taken_is_sent_later_as_it_was_rendered_first,
    a_closed_provider_costs_no_try,
    no_answer_is_uncertain_and_never_sent_again,
    two_workers_make_one_handover,
    a_missing_line_of_the_send_log_is_repaired,
    two_messages_of_one_millisecond_have_a_line_each,
    an_event_that_is_quicker_than_the_answer_is_kept,
    a_copy_goes_past_no_suppression,
    what_cannot_become_a_mail_is_failed_before_anybody_is_called,
    the_send_log_can_expire,
    a_person_who_is_erased_meanwhile_is_not_logged,
    what_an_event_settles_is_logged,
    a_template_is_frozen_when_a_message_is_accepted,
    who_is_too_fast_waits_without_a_claim,
);

async fn a_message_is_handed_over_once_and_logged(bed: &Bed) {
    let world = World::new(bed).await;
    let mut send = world.mail("ada@example.org");
    send.headers.insert("X-Order".to_owned(), "42".to_owned());
    send.parts.push(Part {
        content_type: "text/calendar; method=REQUEST".to_owned(),
        filename: Some("invite.ics".to_owned()),
        disposition: Disposition::Attachment,
        body: PartBody::Text("BEGIN:VCALENDAR".to_owned()),
    });
    let id = world.accept(send).await.unwrap().id;
    assert_eq!(world.work().await, 1);
    let mails = world.provider.taken();
    assert_eq!(mails.len(), 1);
    let mime = String::from_utf8(mails[0].mime.clone()).unwrap();
    assert!(mime.contains("X-Order: 42"), "{mime}");
    assert!(mime.contains("invite.ics"), "{mime}");
    assert!(mime.contains("Message-ID: <t."), "{mime}");
    assert!(!mime.contains("List-Unsubscribe"), "{mime}");
    assert!(mime.contains("Feedback-ID: inline:"), "{mime}");
    let found = world.found(id).await;
    assert_eq!(found.message.status, Status::Sent);
    assert_eq!(found.message.provider.as_deref(), Some("test"));
    assert_eq!(found.message.provider_message_id.as_deref(), Some("p-1"));
    assert_eq!(found.message.subject.as_deref(), Some("Hello Ada"));
    let html = found.html.unwrap();
    assert!(html.contains("https://mail.example.org/"), "it is tracked: {html}");
    assert!(!html.contains("href=\"https://example.org/a\""), "it is tracked: {html}");
    let log = world.log("ada@example.org").await;
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].text("SK"), Some("SENT#2026-07-01T12:00:00.000Z"));
    assert_eq!(log[0].text("subject"), Some("Hello Ada"));
    assert_eq!(log[0].text("sentAt"), Some("2026-07-01T12:00:00.000Z"));
    assert_eq!(log[0].get("ttl"), None);
    // The same message again, as a queue may.
    assert_eq!(world.handle(&world.envelope(id).await).await, Outcome::Done);
    assert_eq!(world.provider.taken().len(), 1);
    assert_eq!(world.log("ada@example.org").await.len(), 1);
    let mut quiet = world.mail("ada@example.org");
    quiet.tracking = Tracking::Off;
    let id = world.accept(quiet).await.unwrap().id;
    world.work().await;
    let html = world.found(id).await.html.unwrap();
    assert!(html.contains("href=\"https://example.org/a\""), "{html}");
    assert!(!html.contains("mail.example.org"), "{html}");
}

async fn an_envelope_that_names_another_client_or_key_is_refused(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accept(world.keyed("ada@example.org", "key-1")).await.unwrap().id;
    let right = world.envelope(id).await;
    let client = format!("\"client_id\":{}", world.client);
    for wrong in [right.replace(&client, "\"client_id\":999"), right.replace("key-1", "key-2")] {
        assert_ne!(wrong, right);
        let outcome = world.handle(&wrong).await;
        assert!(matches!(outcome, Outcome::Dead { .. }), "{outcome:?}");
        assert_eq!(world.status(id).await, Status::Queued);
    }
    let missing = right.replace(&format!("_id\":{id}"), "_id\":424242");
    assert!(matches!(world.handle(&missing).await, Outcome::Retry { .. }));
    assert!(world.provider.taken().is_empty());
}

async fn what_has_its_end_is_acknowledged_without_the_provider(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let envelope = world.envelope(id).await;
    for status in Status::ALL {
        if matches!(status, Status::Queued | Status::Claimed) {
            continue;
        }
        let set = format!("status = '{status}', skip_reason = 'x', sent_at = 1782907200000");
        world.run(&format!("UPDATE transactional_messages SET {set}")).await;
        assert_eq!(world.handle(&envelope).await, Outcome::Done, "{status}");
        assert_eq!(world.status(id).await, status);
    }
    assert!(world.provider.taken().is_empty());
    assert_eq!(world.log("ada@example.org").await.len(), 1, "however often it is looked at");
}

async fn a_suppression_that_came_after_acceptance_counts(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    suppress(bed, "ada@example.org").await;
    world.work().await;
    let message = world.found(id).await.message;
    assert_eq!(message.status, Status::Skipped);
    assert_eq!(message.skip_reason.as_deref(), Some("hard_bounce"));
    assert!(world.provider.taken().is_empty());
    assert!(world.log("ada@example.org").await.is_empty());
}

async fn what_was_refused_for_good_is_failed(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    world.provider.answers(SendError::Refused("550 no such user".to_owned()));
    world.work().await;
    let message = world.found(id).await.message;
    assert_eq!(message.status, Status::Failed);
    assert_eq!(message.last_error.as_deref(), Some("refused for good: 550 no such user"));
    bed.advance(60).await;
    assert_eq!(world.work().await, 0);
}

async fn where_nobody_is_a_message_comes_back_and_that_is_told_once(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let reason = "550 5.1.1 no such user to RCPT".to_owned();
    world.provider.answers(SendError::NoSuchAddress { reason, status: "5.1.1".to_owned() });
    world.work().await;
    let message = world.found(id).await.message;
    assert_eq!(
        (message.status, message.times.bounced_at),
        (Status::Bounced, Some(bed.access.now()))
    );
    assert!(message.last_error.unwrap().contains("no such user"));
    world.handle(&world.envelope(id).await).await;
    assert!(world.provider.taken().is_empty());
    let sql = "SELECT body FROM queue_messages WHERE queue = 'ses-webhooks'";
    let rows = bed.access.database().read(move |tx| tx.query(sql, &[])).await;
    let rows: Vec<tidings_sql::Row> =
        rows.map_err(|error: tidings_sql::DatabaseError| error).unwrap();
    let [row] = rows.as_slice() else { panic!("it is told once: {}", rows.len()) };
    let told: serde_json::Value = serde_json::from_str(row.text(0).unwrap()).unwrap();
    assert_eq!(told["provider_event_id"], format!("t-{id}:turned-away:1"));
    assert_eq!(told["metadata"]["recipients"][0]["email"], "ada@example.org");
    assert_eq!(told["metadata"]["recipients"][0]["status"], "5.1.1");
}

async fn what_was_not_taken_is_sent_later_as_it_was_rendered_first(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    world.provider.answers(SendError::Later("421 try later".to_owned()));
    world.work().await;
    let message = world.found(id).await.message;
    assert_eq!((message.status, message.attempts), (Status::Queued, 1));
    assert_eq!(message.times.handed_at, None);
    world.run("UPDATE transactional_messages SET context = '{\"name\":\"Eve\"}'").await;
    bed.advance(60).await;
    world.work().await;
    let message = world.found(id).await.message;
    assert_eq!((message.status, message.attempts), (Status::Sent, 2));
    assert_eq!(message.subject.as_deref(), Some("Hello Ada"));
    assert_eq!(world.provider.taken().len(), 1);
}

async fn a_closed_provider_costs_no_try(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let envelope = world.envelope(id).await;
    let too_many = |secs| SendError::Throttled {
        reason: "slow".to_owned(),
        retry_after: Some(Duration::from_secs(secs)),
    };
    for (error, expected) in [(SendError::Closed("paused".to_owned()), 60), (too_many(7), 7)] {
        world.provider.answers(error);
        match world.handle(&envelope).await {
            Outcome::Wait { after, .. } => assert_eq!(after, Duration::from_secs(expected)),
            other => panic!("{other:?}"),
        }
        assert_eq!(world.status(id).await, Status::Queued);
        bed.clock.advance(jiff::Span::new().seconds(i64::try_from(expected).unwrap()));
    }
    assert_eq!(world.handle(&envelope).await, Outcome::Done);
    assert_eq!(world.status(id).await, Status::Sent);
}

async fn no_answer_is_uncertain_and_never_sent_again(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    world.provider.answers(SendError::Uncertain("timed out".to_owned()));
    world.work().await;
    assert_eq!(world.status(id).await, Status::Uncertain);
    for _ in 0..3 {
        bed.advance(600).await;
        assert_eq!(world.handle(&world.envelope(id).await).await, Outcome::Done);
    }
    assert!(world.provider.taken().is_empty());
    assert_eq!(world.status(id).await, Status::Uncertain);
}

async fn two_workers_make_one_handover(bed: &Bed) {
    let world = World::new(bed).await;
    for round in 0..10 {
        let id = world.accepted(&format!("ada{round}@example.org")).await;
        let envelope = world.envelope(id).await;
        let mut workers = Vec::new();
        for _ in 0..4 {
            let (worker, body) = (world.worker.handler(), envelope.clone());
            workers.push(tokio::spawn(async move { worker.handle(&super::delivery(&body)).await }));
        }
        let mut done = 0;
        for worker in workers {
            match worker.await.unwrap() {
                Outcome::Done => done += 1,
                Outcome::Wait { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(done >= 1);
        assert_eq!(world.provider.taken_of(id), 1);
        assert_eq!(world.status(id).await, Status::Sent);
    }
}

async fn a_missing_line_of_the_send_log_is_repaired(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let envelope = world.envelope(id).await;
    // The process ended between the answer and the log.
    world
        .run("UPDATE transactional_messages SET status = 'sent', sent_at = 1782907200000, logged_at = 1782907200000,
              subject = 'Hello Ada'")
        .await;
    assert_eq!(world.handle(&envelope).await, Outcome::Done);
    // An event knows an earlier time; the line stays where it is.
    world.run("UPDATE transactional_messages SET sent_at = 1782907100000").await;
    assert_eq!(world.handle(&envelope).await, Outcome::Done);
    let log = world.log("ada@example.org").await;
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].text("SK"), Some("SENT#2026-07-01T12:00:00.000Z"));
}

async fn two_messages_of_one_millisecond_have_a_line_each(bed: &Bed) {
    let world = World::new(bed).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.accepted("ada@example.org").await);
    }
    world.work().await;
    for id in ids {
        world.handle(&world.envelope(id).await).await;
    }
    let log = world.log("ada@example.org").await;
    let times: Vec<_> = log.iter().filter_map(|item| item.text("sentAt")).collect();
    assert_eq!(
        times,
        ["2026-07-01T12:00:00.000Z", "2026-07-01T12:00:00.001Z", "2026-07-01T12:00:00.002Z"]
    );
}

async fn an_event_that_is_quicker_than_the_answer_is_kept(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let row = bed
        .access
        .database()
        .read(move |tx| crate::transactional::store::sendable(tx, id.get()))
        .await
        .map_err(|error: tidings_sql::DatabaseError| error)
        .unwrap()
        .unwrap();
    world
        .run("UPDATE transactional_messages SET status = 'delivered', attempts = 1, delivered_at = 5, sent_at = 4")
        .await;
    let now = bed.access.now();
    let marked = bed.access.database().write(move |tx| {
        crate::transactional::marks::accepted(tx, &row, ("test", Some("p-9"), &[]), now)
    });
    let taken = marked.await.map_err(|error: tidings_sql::DatabaseError| error).unwrap();
    let taken = taken.unwrap();
    assert_eq!(taken.email.as_deref(), Some("ada@example.org"));
    assert_eq!(taken.logged_at, now);
    let message = world.found(id).await.message;
    assert_eq!(message.status, Status::Delivered);
    assert_eq!(message.provider_message_id.as_deref(), Some("p-9"));
    assert_eq!(message.times.sent_at.unwrap().as_millisecond(), 4);
}

async fn a_copy_goes_past_no_suppression(bed: &Bed) {
    let world = World::new(bed).await;
    let mut send = world.mail("ada@example.org");
    send.cc = vec!["bob@example.org".parse().unwrap(), "eve@example.org".parse().unwrap()];
    send.bcc = vec!["cyd@example.org".parse().unwrap(), "eve@example.org".parse().unwrap()];
    suppress(bed, "eve@example.org").await;
    world.accept(send).await.unwrap();
    world.work().await;
    let to: Vec<_> = world.provider.taken()[0].to.iter().map(ToString::to_string).collect();
    assert_eq!(to, ["ada@example.org", "bob@example.org", "cyd@example.org"]);
}

async fn what_cannot_become_a_mail_is_failed_before_anybody_is_called(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    world.run("UPDATE transactional_messages SET from_email = 'nobody'").await;
    world.work().await;
    let message = world.found(id).await.message;
    assert_eq!((message.status, message.attempts), (Status::Failed, 0));
    assert!(world.provider.taken().is_empty());
}

async fn the_send_log_can_expire(bed: &Bed) {
    let mut world = World::new(bed).await;
    world.worker.settings.ttl_days = Some(30);
    world.accepted("ada@example.org").await;
    world.work().await;
    let log = world.log("ada@example.org").await;
    let end: jiff::Timestamp = "2026-07-31T12:00:00Z".parse().unwrap();
    assert_eq!(log[0].integer("ttl"), Some(end.as_second()));
}

async fn a_person_who_is_erased_meanwhile_is_not_logged(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    let envelope = world.envelope(id).await;
    world
        .run("UPDATE transactional_messages SET status = 'sent', sent_at = 1782907200000, email = NULL")
        .await;
    assert_eq!(world.handle(&envelope).await, Outcome::Done);
    assert!(world.log("ada@example.org").await.is_empty());
}

async fn what_an_event_settles_is_logged(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    world.provider.answers(SendError::Uncertain("timed out".to_owned()));
    world.work().await;
    let (workspace, now) = (bed.cx().await.workspace_id().get(), bed.access.now());
    for mark in [Mark::Delivered, Mark::Sent, Mark::Opened] {
        let marked = bed.access.database().write(move |tx| {
            let source = (workspace, ledger::Source::Transactional(id.get()));
            marks::mark(tx, source, Some((mark, now)), &Facts::default(), now)
        });
        assert!(marked.await.map_err(|error: tidings_sql::DatabaseError| error).unwrap());
        world.work().await;
    }
    assert_eq!(world.status(id).await, Status::Delivered);
    assert_eq!(world.log("ada@example.org").await.len(), 1);
    assert!(world.provider.taken().is_empty());
}

async fn a_template_is_frozen_when_a_message_is_accepted(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = bed.cx().await;
    world.put_template("welcome", "First {{ name }}", &["name", "order.id"]).await;
    let to = || "ada@example.org".parse().unwrap();
    let bare = crate::transactional::Send::of_template(world.client, to(), "welcome");
    let Err(AcceptError::Invalid(wrong)) = world.messages.accept(&cx, bare.clone()).await else {
        panic!("accepted")
    };
    let fields: Vec<_> = wrong.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(fields, ["context.name", "context.order.id"]);
    assert_eq!(world.count("transactional_messages").await, 0);
    let mut send = bare;
    send.context = serde_json::from_str(r#"{"name":"Ada","order":{"id":7}}"#).unwrap();
    let id = world.messages.accept(&cx, send).await.unwrap().id;
    world.put_template("welcome", "Second {{ name }}", &[]).await;
    world.work().await;
    let message = world.found(id).await.message;
    assert_eq!(message.subject.as_deref(), Some("First Ada"));
    assert_eq!(message.template_version, Some(1));
    let log = world.log("ada@example.org").await;
    assert_eq!(log[0].text("templateKey"), Some("welcome"));
}

async fn who_is_too_fast_waits_without_a_claim(bed: &Bed) {
    let mut world = World::new(bed).await;
    world.worker.pace = std::sync::Arc::new(crate::pace::Pace::new(1, bed.access.now()));
    let ids = [world.accepted("ada@example.org").await, world.accepted("ada@example.org").await];
    world.worker.pace.throttled(Some(Duration::from_secs(5)), bed.access.now());
    let outcome = world.handle(&world.envelope(ids[0]).await).await;
    assert!(matches!(outcome, Outcome::Wait { .. }), "{outcome:?}");
    let message = world.found(ids[0]).await.message;
    assert_eq!((message.status, message.attempts), (Status::Queued, 0));
    assert!(world.provider.taken().is_empty());
}
