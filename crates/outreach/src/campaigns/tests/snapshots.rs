//! Who is written down, what is frozen, and what is recorded.

use std::pin::pin;
use std::task::Poll;

use insta::assert_snapshot;
use serde_json::json;
use tidings_access::Limit;
use tidings_people::consent::audiences;
use tidings_people::contacts;
use tidings_testbed::{Bed, each_store};

use super::{World, find, put_template, step_delivery};
use crate::campaigns::batches::{self, Finished};
use crate::campaigns::brake::Came;
use crate::campaigns::control::{ControlError, Start, When, start};
use crate::campaigns::draft::{self, Draft};
use crate::campaigns::tallies::Kind;
use crate::campaigns::{Content, Schedule, Status, Template, broadcast};

each_store!(
    everybody_is_written_down_once_and_those_who_are_skipped_with_the_reason,
    an_audience_that_only_the_filter_names_is_asked_as_its_own,
    the_broadcast_is_recorded_as_the_seed_has_it,
    what_is_sent_does_not_change_after_the_start,
    a_campaign_that_means_nobody_is_sent,
    what_cannot_be_sent_does_not_start,
    who_is_overtaken_in_his_last_turn_still_goes_on,
    a_start_in_many_years_is_refused,
    a_template_that_is_gone_by_then_makes_it_fail,
    whoever_is_written_down_when_it_fails_is_skipped,
    who_is_erased_meanwhile_is_not_sent_to_and_counted,
    who_is_erased_while_he_is_being_written_down_leaves_no_address,
    who_is_erased_is_named_by_no_filter,
);

async fn everybody_is_written_down_once_and_those_who_are_skipped_with_the_reason(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(9).await;
    world.people(["left@example.org".into(), "bad@example.org".into()]).await;
    let lead = |email: &str| {
        format!("SELECT lead_id FROM channel_identities WHERE value = '{email}@example.org'")
    };
    let left = format!("UPDATE leads SET unsubscribed_at = 5 WHERE id = ({})", lead("left"));
    world.run_sql(&left).await;
    let bad =
        "UPDATE channel_identities SET validation_status = 'invalid' WHERE value LIKE 'bad@%'";
    world.run_sql(bad).await;
    let id = world.started(world.draft()).await;
    assert_eq!(world.status(id).await, Status::Snapshotting);
    assert_eq!(world.count("campaign_recipients").await, 0);
    world.run().await;
    world.check(id).await;
    let recipients = world.recipients(id).await;
    assert_eq!(recipients.len(), 11);
    assert_eq!(recipients["left@example.org"], "skipped global_unsubscribe");
    assert_eq!(recipients["bad@example.org"], "skipped invalid_address");
    assert_eq!(recipients.values().filter(|status| *status == "sent").count(), 9);
    let campaign = world.campaign(id).await;
    assert_eq!((campaign.status, campaign.progress.recipients), (Status::Sent, 11));
    let moves = draft::moves(&bed.cx().await, find(id), None, Limit::MAX).await.unwrap().items;
    let moves: Vec<_> = moves.iter().rev().map(|one| (one.status, one.actor.as_str())).collect();
    let expected =
        [(Status::Snapshotting, "operator"), (Status::Sending, "worker"), (Status::Sent, "worker")];
    assert_eq!(moves, expected);
    let tallies: Vec<_> = world
        .tallies(id)
        .await
        .iter()
        .map(|(kind, name, count)| format!("{} {name} {count}", kind.as_str()))
        .collect();
    assert_snapshot!(tallies.join("\n"), @r"
    outcome sent 9
    outcome skipped 2
    skipped global_unsubscribe 1
    skipped invalid_address 1
    domain example.org 9
    hour 2026-07-01T12 9
    ");
}

async fn an_audience_that_only_the_filter_names_is_asked_as_its_own(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(3).await;
    let (slug, name) = ("news".parse().unwrap(), "News".parse().unwrap());
    let create = audiences::Create { slug, name, double_opt_in: true, confirm_template_key: None };
    audiences::create(&cx, create).await.unwrap();
    world
        .run_sql(
            "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, status, agreed_at, created_at, updated_at)
             SELECT l.workspace_id, l.id, a.id, 'subscribed', 1, 1, 1 FROM leads l, audiences a",
        )
        .await;
    let one = "(SELECT MIN(id) FROM leads)";
    world.run_sql(&format!("UPDATE subscriptions SET verified_at = 1 WHERE lead_id = {one}")).await;
    let filter = json!({"all": [{"audience": "news"}, {"not": {"tag": "x"}}]});
    let id = world.started(Draft { filter, ..world.draft() }).await;
    world.run().await;
    world.check(id).await;
    let mut told: Vec<_> = world.recipients(id).await.into_values().collect();
    told.sort();
    assert_eq!(told, ["sent", "skipped unverified", "skipped unverified"]);
}

async fn the_broadcast_is_recorded_as_the_seed_has_it(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(3).await;
    put_template(&cx, "broadcasts/april", "What's new in April").await;
    let slug: tidings_access::Slug = "news".parse().unwrap();
    let name = tidings_access::DisplayName::from(&slug);
    let create = audiences::Create { slug, name, double_opt_in: false, confirm_template_key: None };
    audiences::create(&cx, create).await.unwrap();
    world
        .run_sql(
            "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, status, agreed_at, created_at, updated_at)
             SELECT l.workspace_id, l.id, a.id, 'subscribed', 1, 1, 1 FROM leads l, audiences a",
        )
        .await;
    let template = Some(Template { key: "broadcasts/april".to_owned(), version: None });
    let draft = Draft {
        key: Some("product-update-2026-04".to_owned()),
        audience: Some("news".parse().unwrap()),
        filter: json!({"not": {"any": [{"tag": "x"}, {"contacts": ["p0@example.org"]}]}}),
        content: Content { template, ..Content::default() },
        ..world.draft()
    };
    let id = world.started(draft).await;
    world.run().await;
    let key = broadcast::key(cx.now(), "product-update-2026-04");
    let items = cx.items().await.unwrap();
    let item = items.get(&tidings_kernel::tables::MAIN, &key).await.unwrap().unwrap();
    assert_snapshot!(serde_json::to_string_pretty(&item).unwrap(), @r#"
    {
      "PK": "BROADCAST",
      "SK": "2026-07-01T12:00:00.000Z#product-update-2026-04",
      "audience": "news",
      "audienceSize": 2,
      "broadcastId": "product-update-2026-04",
      "campaignId": 1,
      "clientId": 1,
      "filters": {
        "not": {
          "any": [
            {
              "tag": "x"
            },
            {
              "contacts": 1
            }
          ]
        }
      },
      "sender": {
        "fromEmail": "hello@example.org",
        "fromName": "The shop"
      },
      "sentAt": "2026-07-01T12:00:00.000Z",
      "subject": "What's new in April",
      "templateKey": "broadcasts/april"
    }
    "#);
    // Written again it stays as it is, and what came back is merged into what is read.
    broadcast::write(&cx, &world.campaign(id).await, "Other").await.unwrap();
    let update = tidings_kernel::Update::new(
        &tidings_kernel::tables::MAIN,
        tidings_kernel::Key::new("STATS#product-update-2026-04", "COUNTERS"),
    );
    items.update(update.add("openCount", 7).add("bounceCount", 1)).await.unwrap();
    let found = broadcast::get(&cx, "product-update-2026-04", None).await.unwrap().unwrap();
    assert_eq!(found.item, item);
    assert_eq!(found.counts, [0, 7, 0, 1, 0]);
    assert!(broadcast::get(&cx, "nothing", None).await.unwrap().is_none());
    let list = broadcast::List { limit: 20, ..Default::default() };
    assert_eq!(broadcast::list(&cx, list.clone()).await.unwrap().0, [found]);
    // Another client sees nothing of it.
    let other = Some((world.client.get() + 1).into());
    assert!(broadcast::get(&cx, "product-update-2026-04", other).await.unwrap().is_none());
    let theirs = broadcast::List { client: other, ..list.clone() };
    assert!(broadcast::list(&cx, theirs).await.unwrap().0.is_empty());
    let ours = broadcast::List { client: Some(world.client), ..list.clone() };
    assert_eq!(broadcast::list(&cx, ours).await.unwrap().0.len(), 1);
    let later = broadcast::List { from: Some("2026-07-02T00:00:00Z".parse().unwrap()), ..list };
    assert!(broadcast::list(&cx, later).await.unwrap().0.is_empty());
}

async fn what_is_sent_does_not_change_after_the_start(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(2).await;
    put_template(&cx, "spring", "One").await;
    let template = Some(Template { key: "spring".to_owned(), version: None });
    let draft = Draft { content: Content { template, ..Content::default() }, ..world.draft() };
    let id = world.started(draft).await;
    put_template(&cx, "spring", "Two").await;
    world.run_sql("UPDATE senders SET from_email = 'other@example.org'").await;
    world.run().await;
    let campaign = world.campaign(id).await;
    let frozen = campaign.content_for(None).template.unwrap();
    assert_eq!(frozen.version, Some(1));
    assert_eq!(campaign.sender.from_email.as_deref(), Some("hello@example.org"));
    let record = broadcast::get(&cx, &campaign.key(), None).await.unwrap().unwrap();
    assert_eq!(record.item.text("subject"), Some("One"));
}

async fn a_campaign_that_means_nobody_is_sent(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.started(world.draft()).await;
    world.run().await;
    let campaign = world.campaign(id).await;
    assert_eq!((campaign.status, campaign.progress.recipients), (Status::Sent, 0));
    assert!(broadcast::get(&bed.cx().await, &campaign.key(), None).await.unwrap().is_some());
}

async fn what_cannot_be_sent_does_not_start(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let template = Some(Template { key: "gone".to_owned(), version: None });
    let draft = Draft {
        content: Content { template, ..Content::default() },
        sender: Some("nobody".parse().unwrap()),
        ..world.draft()
    };
    let id = world.drafted(draft).await;
    let refused = start(&cx, Start { campaign: find(id), when: None }).await.unwrap_err();
    let ControlError::Invalid(wrong) = refused else { panic!("{refused}") };
    let fields: Vec<_> = wrong.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(fields, ["template", "sender"]);
    assert_eq!(world.status(id).await, Status::Draft);
    assert_eq!(world.count("queue_messages").await, 0);
}

async fn who_is_overtaken_in_his_last_turn_still_goes_on(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(30).await;
    // Three turns of four people each are not enough, so somebody is overtaken in his last one if another is ahead by a
    // page at any moment. Whoever it was: it ends, although the one who was faster is never heard of again.
    for turns in 0..24 {
        let id = world.started(world.draft()).await;
        let (one, first) = (std::sync::Arc::clone(&world.steps), step_delivery(id));
        let slow = one.handle(&first);
        let mut slow = pin!(slow);
        for _ in 0..turns {
            let polled = std::future::poll_fn(|context| Poll::Ready(slow.as_mut().poll(context)));
            if polled.await.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        // The other one writes a page, and its message is lost with it.
        let (other, again) = (std::sync::Arc::clone(&world.steps), step_delivery(id));
        tidings_testbed::until_turn(other.handle(&again), turns).await;
        let sql = format!("DELETE FROM queue_messages WHERE body LIKE '%:{id}%'");
        world.run_sql(&sql).await;
        slow.await;
        world.run().await;
        assert_eq!(world.status(id).await, Status::Sent, "after {turns} turns");
    }
}

async fn a_start_in_many_years_is_refused(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let id = world.drafted(world.draft()).await;
    let local = "2036-01-01T09:00".parse().unwrap();
    for schedule in [Schedule::At("2027-07-02T00:00:00Z".parse().unwrap()), Schedule::Local(local)]
    {
        let when = Some(When::Then(schedule));
        let refused = start(&cx, Start { campaign: find(id), when }).await.unwrap_err();
        let ControlError::Invalid(wrong) = refused else { panic!("{refused}") };
        assert_eq!(wrong[0].field, "scheduled_at");
    }
    assert_eq!(world.status(id).await, Status::Draft);
}

async fn a_template_that_is_gone_by_then_makes_it_fail(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    put_template(&cx, "spring", "One").await;
    let template = Some(Template { key: "spring".to_owned(), version: None });
    let at = "2026-07-01T13:00:00Z".parse().unwrap();
    let draft = Draft {
        content: Content { template, ..Content::default() },
        schedule: Some(crate::campaigns::Schedule::At(at)),
        ..world.draft()
    };
    let id = world.started(draft).await;
    tidings_delivery::templates::deactivate(&cx, "spring".parse().unwrap()).await.unwrap();
    world.advance_to(at).await;
    world.run().await;
    let campaign = world.campaign(id).await;
    assert_eq!(campaign.status, Status::Failed);
    let why = campaign.last_error.unwrap();
    assert_eq!(why, "template: there is no active template spring");
}

/// What it means was readable when it began.
async fn whoever_is_written_down_when_it_fails_is_skipped(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(20).await;
    let id = world.started(world.draft()).await;
    world.handle_step(id).await;
    let written = world.count("campaign_recipients").await;
    assert!((4..20).contains(&written), "{written}");
    world.run_sql(r#"UPDATE campaigns SET filter = '{"of a later version": 1}'"#).await;
    world.run().await;
    world.check(id).await;
    let campaign = world.campaign(id).await;
    assert_eq!(campaign.status, Status::Failed);
    assert_eq!(campaign.last_error.as_deref(), Some("its filter cannot be read"));
    let recipients = world.recipients(id).await;
    assert_eq!(recipients.len() as i64, written);
    assert!(
        recipients.values().all(|status| status == "skipped campaign_failed"),
        "{recipients:?}"
    );
    assert_eq!(world.tallies(id).await.get(Kind::Skipped, "campaign_failed"), written);
    assert_eq!(world.count("campaign_batches WHERE done_at IS NULL").await, 0);
    assert_eq!(world.count("timers").await + world.count("queue_messages").await, 0);
    assert_eq!(world.sent(), 0);
}

async fn who_is_erased_meanwhile_is_not_sent_to_and_counted(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(6).await;
    let id = world.started(world.draft()).await;
    world.step().await;
    contacts::erase(&cx, &"p2@example.org".parse().unwrap()).await.unwrap();
    world.check(id).await;
    world.run().await;
    world.check(id).await;
    assert_eq!(world.recipients(id).await["-"], "skipped erased");
    assert_eq!((world.sent(), world.status(id).await), (5, Status::Sent));
    // A batch that has nobody left is done, too.
    let other = world.started(world.draft()).await;
    world.step().await;
    for number in [0, 1, 3, 4, 5] {
        let email = format!("p{number}@example.org").parse().unwrap();
        contacts::erase(&cx, &email).await.unwrap();
    }
    let (within, came) = (cx.clone(), Came::default());
    let finish =
        cx.database().write_committed(move |tx| batches::finish(tx, &within, other, 1, &came));
    assert_eq!(finish.await.unwrap(), Finished::Now);
    world.check(other).await;
    assert_eq!(world.status(other).await, Status::Sent);
}

/// Whenever he is erased while a worker reads and writes the page that he is on.
async fn who_is_erased_while_he_is_being_written_down_leaves_no_address(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(2).await;
    for turns in super::crash::every(bed, 24) {
        let email = format!("gone{turns}@example.org");
        world.people([email.clone()]).await;
        let id = world.started(world.draft()).await;
        let first = step_delivery(id);
        let mut working = pin!(world.steps.handle(&first));
        let mut left = turns;
        let ended = std::future::poll_fn(|context| match working.as_mut().poll(context) {
            Poll::Pending if left > 0 => {
                left -= 1;
                Poll::Pending
            }
            other => Poll::Ready(other.is_ready()),
        });
        let ended = ended.await;
        contacts::erase(&bed.cx().await, &email.parse().unwrap()).await.unwrap();
        if !ended {
            working.await;
        }
        world.run().await;
        world.check(id).await;
        assert_eq!(world.count("campaign_recipients WHERE email LIKE 'gone%'").await, 0);
        assert_eq!(world.status(id).await, Status::Sent);
    }
}

async fn who_is_erased_is_named_by_no_filter(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(3).await;
    let filter = json!({"contacts": ["P0@Example.org", " p1@example.org", "p10@example.org"]});
    let id = world.drafted(Draft { filter, ..world.draft() }).await;
    contacts::erase(&cx, &"p1@example.org".parse().unwrap()).await.unwrap();
    let left = json!({"contacts": ["p0@example.org", "erased@erased.invalid", "p10@example.org"]});
    assert_eq!(world.campaign(id).await.filter, left);
    world.start(id).await;
    world.run().await;
    assert_eq!(world.recipients(id).await.keys().collect::<Vec<_>>(), ["p0@example.org"]);
}
