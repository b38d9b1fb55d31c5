//! What the provider's answers make of recipients, and what comes after the answer.

use std::time::Duration;

use tidings_access::Limit;
use tidings_delivery::ledger::marks::{self, Facts, Mark};
use tidings_delivery::links::Source;
use tidings_jobs::Outcome;
use tidings_kernel::SendError;
use tidings_testbed::{Bed, each_store};

use super::{Sending, World};
use crate::campaigns::sending::{Settle, SettleError, Settled, UncertainList, settle, uncertain};
use crate::campaigns::tallies::Kind as Tally;
use crate::campaigns::{RecipientId, Status};

each_store!(
    each_answer_has_its_end,
    who_is_never_taken_fails_after_ten_times,
    a_provider_that_is_away_costs_nothing,
    who_is_always_throttled_holds_up_nobody_for_long_and_fails_in_the_end,
    an_event_settles_what_was_uncertain_and_the_tallies_with_it,
    a_person_settles_what_was_uncertain,
    an_event_before_the_answer_makes_one_line,
    a_late_answer_after_the_batch_has_ended_counts,
);

fn why() -> String {
    "because".to_owned()
}

async fn each_answer_has_its_end(bed: &Bed) {
    let world = World::new(bed, 6).await;
    let sending = world.campaign(6).await;
    // One of six is enough for the brake.
    world.take_brake_off().await;
    world.provider.answers("p001@example.org", SendError::Refused(why()));
    world.provider.answers("p002@example.org", SendError::Later(why()));
    world.provider.answers("p003@example.org", SendError::Uncertain(why()));
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(world.provider.taken().len(), 3);
    for (email, status, error) in [
        ("p001@example.org", "failed", "refused for good: because"),
        ("p002@example.org", "pending", "not taken now: because"),
        ("p003@example.org", "uncertain", "handed over without an answer: because"),
    ] {
        assert_eq!(sending.column(email, "status").await.as_deref(), Some(status), "{email}");
        assert_eq!(sending.column(email, "last_error").await.as_deref(), Some(error), "{email}");
        assert_eq!(sending.column(email, "claimed_by").await, None, "{email}");
    }
    assert_eq!(sending.status().await, Status::Sending, "somebody is to be tried again");
    bed.advance(2).await;
    sending.feed().await;
    assert_eq!(world.work().await, 1);
    let tallies = sending.tallies().await;
    for (outcome, count) in [("sent", 4), ("failed", 1), ("uncertain", 1)] {
        assert_eq!(tallies.get(Tally::Outcome, outcome), count, "{outcome}");
    }
    assert_eq!(tallies.get(Tally::Failed, "refused"), 1);
    sending.check_end("after all answers").await;
}

async fn who_is_never_taken_fails_after_ten_times(bed: &Bed) {
    let world = World::new(bed, 2).await;
    let sending = world.campaign(2).await;
    for _ in 0..20 {
        world.provider.answers("p001@example.org", SendError::Later(why()));
    }
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    for _ in 0..12 {
        bed.advance(5 * 60).await;
        sending.feed().await;
        world.work().await;
    }
    assert_eq!(sending.column("p001@example.org", "refusals").await.as_deref(), Some("10"));
    assert_eq!(sending.tallies().await.get(Tally::Failed, "not_taken"), 1);
    assert_eq!(world.provider.asked(), 11);
    sending.check_end("after ten refusals").await;
}

async fn a_provider_that_is_away_costs_nothing(bed: &Bed) {
    let world = World::new(bed, 10).await;
    let sending = world.campaign(10).await;
    let slower =
        |secs| SendError::Throttled { reason: why(), retry_after: Some(Duration::from_secs(secs)) };
    for (error, seconds) in [(SendError::Closed(why()), 60), (slower(7), 7)] {
        let asked = world.provider.asked();
        world.provider.answers("p002@example.org", error);
        let expected = Outcome::wait(
            format!(
                "batch campaign-{}-batch-0001 waits: the provider takes no mail now",
                sending.campaign
            ),
            Duration::from_secs(seconds),
        );
        assert_eq!(world.handle(&sending.messages[0]).await, expected);
        // Those who were handed over together had their answers, and nobody else was tried.
        assert!(world.provider.asked() - asked <= super::AT_ONCE);
        assert_eq!(sending.column("p002@example.org", "status").await.as_deref(), Some("pending"));
        assert_eq!(sending.column("p002@example.org", "handed_at").await, None);
        assert_eq!(sending.column("p002@example.org", "refusals").await.as_deref(), Some("0"));
    }
    assert_eq!(world.log("p001@example.org").await.len(), 1, "he was taken the first time");
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    sending.check_end("after the provider was back").await;
    assert_eq!(world.provider.taken().len(), 10);
}

async fn who_is_always_throttled_holds_up_nobody_for_long_and_fails_in_the_end(bed: &Bed) {
    let world = World::new(bed, 10).await;
    let sending = world.campaign(10).await;
    for _ in 0..400 {
        let throttled = SendError::Throttled { reason: why(), retry_after: None };
        world.provider.answers("p001@example.org", throttled);
    }
    let mut waited = Vec::new();
    loop {
        match world.handle(&sending.messages[0]).await {
            Outcome::Wait { after, .. } => waited.push(after.as_secs()),
            outcome => {
                assert_eq!(outcome, Outcome::Done);
                break;
            }
        }
    }
    assert_eq!(waited, [5, 10, 15]);
    assert_eq!(world.provider.taken().len(), 9, "all others have it");
    let row = |column: &'static str| sending.column("p001@example.org", column);
    assert_eq!(row("status").await.as_deref(), Some("pending"));
    assert_eq!(row("refusals").await.as_deref(), Some("0"));
    // Two days later it counts, and ten times are enough.
    world.run("UPDATE campaign_recipients SET attempts = 299 WHERE status = 'pending'").await;
    for _ in 0..12 {
        bed.advance(5 * 60).await;
        sending.feed().await;
        world.work().await;
    }
    assert_eq!(sending.tallies().await.get(Tally::Failed, "not_taken"), 1);
    sending.check_end("without the one who is always throttled").await;
}

/// PostgreSQL alone can be told to say that it is away.
#[tokio::test]
async fn answers_wait_for_a_database_that_is_away_for_a_moment() {
    let bed = Bed::postgres().await;
    let world = World::new(&bed, 10).await;
    let sending = world.campaign(10).await;
    world.run("CREATE SEQUENCE tries").await;
    // A sequence counts on, also in what is not committed.
    world
        .run(
            "CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS '
             BEGIN
                IF nextval(''tries'') <= 6 THEN RAISE EXCEPTION ''away'' USING ERRCODE = ''57P03''; END IF;
                RETURN NEW;
             END'",
        )
        .await;
    world
        .run(
            "CREATE TRIGGER away BEFORE UPDATE ON campaign_recipients
             FOR EACH ROW WHEN (NEW.status = 'sent') EXECUTE FUNCTION away()",
        )
        .await;
    tokio::time::pause();
    assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(sending.statuses().await["sent"], 10);
    sending.check_end("although the database was away").await;
}

async fn without_an_answer(sending: &Sending<'_, '_>, emails: &[&str]) {
    for email in emails {
        sending.world.provider.answers(email, SendError::Uncertain(why()));
    }
    assert_eq!(sending.world.handle(&sending.messages[0]).await, Outcome::Done);
    assert_eq!(sending.status().await, Status::Sent);
    let uncertain = sending.tallies().await.get(Tally::Outcome, "uncertain");
    assert_eq!(uncertain, emails.len() as i64);
}

async fn mark(sending: &Sending<'_, '_>, email: &str, mark: Mark) {
    let cx = sending.world.bed.cx().await;
    let row = (cx.workspace_id().get(), Source::Recipient(sending.id(email).await));
    let now = cx.now();
    let done = cx
        .database()
        .write_committed(move |tx| marks::mark(tx, row, Some((mark, now)), &Facts::default(), now));
    assert!(done.await.unwrap());
}

async fn an_event_settles_what_was_uncertain_and_the_tallies_with_it(bed: &Bed) {
    let world = World::new(bed, 6).await;
    let sending = world.campaign(6).await;
    let emails = ["p001@example.org", "p002@example.org", "p003@example.org"];
    without_an_answer(&sending, &emails).await;
    bed.advance(70).await;
    for _ in 0..2 {
        mark(&sending, emails[0], Mark::Sent).await;
        mark(&sending, emails[0], Mark::Delivered).await;
        mark(&sending, emails[1], Mark::Bounced).await;
        mark(&sending, emails[2], Mark::Failed).await;
        assert_eq!(sending.tallies().await, sending.recount().await);
        world.work().await;
        assert_eq!(sending.tallies().await, sending.recount().await);
    }
    let tallies = sending.tallies().await;
    for (outcome, count) in [("sent", 5), ("failed", 1), ("uncertain", 0)] {
        assert_eq!(tallies.get(Tally::Outcome, outcome), count, "{outcome}");
    }
    assert_eq!(tallies.get(Tally::Domain, "example.org"), 5);
    for (email, lines) in [(emails[0], 1), (emails[1], 1), (emails[2], 0)] {
        let log = world.log(email).await;
        assert_eq!(log.len(), lines, "{email}");
        let number = email[3..4].to_owned();
        let subject = format!("Hello Person {number}");
        assert!(log.iter().all(|line| line.text("subject") == Some(&subject)));
    }
    assert_eq!(world.sends().await, 5);
    assert_eq!(world.provider.taken().len(), 3);
    assert_eq!(world.queue().await, 0);
}

async fn a_person_settles_what_was_uncertain(bed: &Bed) {
    let world = World::new(bed, 5).await;
    let sending = world.campaign(5).await;
    let emails = ["p001@example.org", "p002@example.org"];
    without_an_answer(&sending, &emails).await;
    let cx = bed.cx().await;
    let list = || async {
        let list = UncertainList { campaign: sending.campaign, after: None, limit: Limit::MAX };
        uncertain(&bed.cx().await, list).await.unwrap().items
    };
    let listed: Vec<_> = list().await.into_iter().filter_map(|one| one.email).collect();
    assert_eq!(listed, emails);
    let say = |id: i64, outcome| {
        let cmd = Settle { recipient: RecipientId::from(id), outcome, reason: Some(why()) };
        let cx = cx.clone();
        async move { settle(&cx, cmd).await }
    };
    let (first, second) = (sending.id(emails[0]).await, sending.id(emails[1]).await);
    say(first, Settled::Sent).await.unwrap();
    say(second, Settled::NotSent).await.unwrap();
    assert!(matches!(
        say(first, Settled::NotSent).await,
        Err(SettleError::NotUncertain { status, .. }) if status == "sent"
    ));
    assert!(matches!(say(99_999, Settled::Sent).await, Err(SettleError::Missing(_))));
    assert!(list().await.is_empty());
    assert_eq!(sending.tallies().await, sending.recount().await);
    assert_eq!(sending.tallies().await.get(Tally::Failed, "not_sent"), 1);
    assert_eq!(world.work().await, 1);
    assert_eq!(world.log(emails[0]).await.len(), 1);
    assert!(world.log(emails[1]).await.is_empty());
    assert_eq!(world.sends().await, 4);
    assert_eq!(sending.tallies().await, sending.recount().await);
}

async fn an_event_before_the_answer_makes_one_line(bed: &Bed) {
    let world = World::new(bed, 3).await;
    let sending = world.campaign(3).await;
    // As the event's own worker marks it.
    let event = "UPDATE campaign_recipients SET status = 'delivered', sent_at = 1782907100000,
        logged_at = 1782907100000, delivered_at = 1782907100000 WHERE email = 'p002@example.org'";
    let hook = move |asked| (asked == 3).then(|| event.to_owned()).into_iter().collect();
    *world.provider.meanwhile.lock().unwrap() =
        Some((bed.access.database().clone(), Box::new(hook)));
    for _ in 0..2 {
        assert_eq!(world.handle(&sending.messages[0]).await, Outcome::Done);
    }
    let log = world.log("p002@example.org").await;
    let places: Vec<_> = log.iter().filter_map(|item| item.text("SK")).collect();
    assert_eq!(places, ["SENT#2026-07-01T11:58:20.000Z"]);
    let status = sending.column("p002@example.org", "status").await;
    assert_eq!(status.as_deref(), Some("delivered"));
    let provider_id = sending.column("p002@example.org", "ses_message_id").await;
    assert_eq!(provider_id.as_deref(), Some("p-p002@example.org"));
    assert_eq!(sending.tallies().await, sending.recount().await);
    assert_eq!(sending.tallies().await.get(Tally::Outcome, "sent"), 3);
}

/// The process was slow, another one has called them uncertain and ended the batch, and then the answers come.
async fn a_late_answer_after_the_batch_has_ended_counts(bed: &Bed) {
    for (error, status, outcome) in [
        (None, "sent", "sent"),
        (Some(SendError::Refused(why())), "failed", "failed"),
        (Some(SendError::Later(why())), "failed", "failed"),
        (Some(SendError::Closed(why())), "failed", "failed"),
    ] {
        let bed = match bed.access.database().dialect() {
            tidings_sql::Dialect::Sqlite => Bed::memory().await,
            tidings_sql::Dialect::Postgres => Bed::postgres().await,
        };
        let world = World::new(&bed, 1).await;
        let sending = world.campaign(1).await;
        if let Some(error) = error {
            world.provider.answers("p001@example.org", error);
        }
        let (campaign, workspace) = (sending.campaign, bed.cx().await.workspace_id().get());
        // What another worker does once the claim is over, and what ending the batch counts.
        let hook = move |_| {
            let sql = "UPDATE campaign_recipients SET status = 'uncertain', tallied = 'uncertain', claimed_by = NULL,
                claimed_until = NULL";
            vec![sql.to_owned(), "UPDATE campaign_batches SET done_at = 1".to_owned()]
        };
        world
            .run(&format!(
                "INSERT INTO campaign_tallies (workspace_id, campaign_id, kind, name, count)
                 VALUES ({workspace}, {campaign}, 'outcome', 'uncertain', 1)"
            ))
            .await;
        let rest = world.bed.access.database().clone();
        *world.provider.meanwhile.lock().unwrap() = Some((rest, Box::new(hook)));
        world.handle(&sending.messages[0]).await;
        let found = sending.column("p001@example.org", "status").await;
        assert_eq!(found.as_deref(), Some(status));
        let tallies = sending.tallies().await;
        assert_eq!(tallies.get(Tally::Outcome, outcome), 1);
        assert_eq!(tallies, sending.recount().await);
    }
}
