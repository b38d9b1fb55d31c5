//! What the provider tells, as its documentation has it, in both forms.

mod seen;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::{Cx, Limit};
use tidings_delivery::ledger::turned_away::{self, TurnedAway};
use tidings_delivery::ledger::{Message, Source};
use tidings_jobs::contracts::{Contract as _, SesWebhook};
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, EmailAddress, Receipt};
use tidings_people::suppression;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::{PATIENCE, stray, worker};
use crate::events::tests::{counts, messages, row, stored};
use crate::events::{Counts, keys};
use crate::replies::Replies;

each_store!(
    every_type_leaves_its_event_and_its_mark,
    what_our_own_links_tell_is_not_counted_again,
    both_forms_suppress_after_a_bounce,
    only_who_must_not_be_written_to_is_suppressed,
    what_is_called_permanent_suppresses_whatever_its_status,
    a_copy_that_bounced_is_suppressed_and_the_recipient_is_not,
    who_was_turned_away_at_the_door_is_suppressed_once,
    five_soft_bounces_in_a_row_suppress,
    a_tag_settles_a_message_whose_id_nobody_wrote_down,
    a_tag_of_another_installation_is_not_believed,
    what_is_about_nobody_is_kept_and_suppresses_nobody,
    the_contract_and_the_envelope_are_one_event,
    what_breaks_its_contract_is_given_up,
    what_the_provider_did_not_send_has_failed,
    who_of_several_bounced_or_complained_is_told_apart,
    feedback_of_an_identity_says_the_same_as_an_event,
    who_is_on_the_list_of_the_provider_is_suppressed_here_too,
    what_is_left_out_or_null_does_no_harm,
    what_is_not_about_a_mail_changes_nothing,
);

const HAPPENED: &str = "2026-07-01T11:59:30.250Z";

/// Fields, their nesting and their order are those of the documentation of SES; the people and ids are ours.
fn written(name: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn fixture(name: &str) -> Value {
    serde_json::from_str(&written(name)).unwrap()
}

fn envelope(id: &str, event: &Value) -> String {
    envelope_around(id, &event.to_string())
}

fn envelope_around(id: &str, message: &str) -> String {
    let envelope = json!({
        "Type": "Notification",
        "MessageId": id,
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:ses-events",
        "Subject": "Amazon SES Email Event Notification",
        "Message": message,
        "Timestamp": "2026-07-01T11:59:59.900Z",
    });
    envelope.to_string()
}

struct World<'a> {
    bed: &'a Bed,
    cx: Cx,
    ada: Source,
    bob: Source,
}

impl<'a> World<'a> {
    async fn new(bed: &'a Bed) -> Self {
        Self::in_workspace(bed, bed.cx().await).await
    }

    /// In a workspace of its own. What is told afterwards is about its message, and not about that of another.
    async fn in_workspace(bed: &'a Bed, cx: Cx) -> Self {
        let (ada, bob) = messages(bed, &cx).await;
        let world = Self { bed, cx, ada, bob };
        world.run("UPDATE campaign_recipients SET ses_message_id = NULL").await;
        let sql =
            "UPDATE campaign_recipients SET ses_message_id = '0100018f-ses-bob' WHERE id = $1";
        let name = world.cx.database().write(move |tx| tx.execute(sql, &[Param::Int(bob.id())]));
        name.await.map_err(|error: DatabaseError| error).unwrap();
        // Only the provider looks who opens and clicks.
        world.run("UPDATE campaigns SET tracking = 0").await;
        world
    }

    async fn run(&self, sql: &'static str) {
        let done = self.cx.database().write(move |tx| tx.execute(sql, &[])).await;
        done.map_err(|error: DatabaseError| error).unwrap();
    }

    async fn take(&self, body: &str, receives: u32) -> Outcome {
        let worker: Arc<dyn Handler> = worker(Replies::new(self.bed.access.clone(), None));
        let delivery = Delivery {
            id: "m".into(),
            body: body.into(),
            receives,
            enqueued_at: Timestamp::UNIX_EPOCH,
            receipt: Receipt("r".into()),
        };
        worker.handle(&delivery).await
    }

    /// Brings an event of the documentation twice, with the line break that SES puts at its end.
    async fn tell(&self, name: &str) {
        let body = envelope_around(&format!("sns-{name}"), &written(name));
        for _ in 0..2 {
            assert_eq!(self.take(&body, 1).await, Outcome::Done, "{name}");
        }
    }

    async fn is_suppressed(&self, email: &str) -> Option<&'static str> {
        let email: EmailAddress = email.parse().unwrap();
        let status = suppression::status(&self.cx, &email).await.unwrap();
        status.suppression.map(|suppression| suppression.kind.as_str())
    }
}

async fn every_type_leaves_its_event_and_its_mark(bed: &Bed) {
    let world = World::new(bed).await;
    for name in ["send", "delivery-delay", "delivery", "open", "click", "bounce-permanent"] {
        world.tell(name).await;
    }
    world.tell("complaint").await;
    world.tell("subscription").await;
    let mut kinds: Vec<_> = stored(&world.cx)
        .await
        .iter()
        .map(|item| {
            format!("{} {}", item.text("eventType").unwrap(), item.text("timestamp").unwrap())
        })
        .collect();
    kinds.sort();
    // The time is that of the event, and not that of the mail, which is two minutes before.
    let expected: Vec<_> = ["bounce", "click", "complaint", "delay", "delivery", "open"]
        .iter()
        .map(|kind| format!("{kind} {HAPPENED}"))
        .chain(["send 2026-07-01T11:58:00.000Z".to_owned()])
        .collect();
    assert_eq!(kinds, expected);
    let at = HAPPENED.parse::<Timestamp>().unwrap().as_millisecond();
    let sent = "2026-07-01T11:58:00Z".parse::<Timestamp>().unwrap().as_millisecond();
    assert_eq!(
        row(&world.cx, world.bob).await,
        format!(
            "complained Some(\"0100018f-ses-bob\") [1, 1, {sent}, {at}, {at}, {at}, {at}, {at}, -1]"
        )
    );
    let counted = counts(&world.cx, &keys::sequence("spring")).await;
    // What was sent is counted by the send log, and not because the provider tells of it.
    let expected = Counts {
        send_count: 0,
        delivery_count: 1,
        delay_count: 1,
        open_count: 1,
        click_count: 1,
        bounce_count: 1,
        hard_bounce_count: 1,
        complaint_count: 1,
        unique_open_count: 1,
        unique_click_count: 1,
        ..Counts::default()
    };
    assert_eq!(counted, expected);
    let items = stored(&world.cx).await;
    let click = items.iter().find(|item| item.text("eventType") == Some("click")).unwrap();
    assert_eq!(click.text("linkUrl"), Some("https://shop.example/spring?a=1&b=2"));
    assert_eq!(click.text("userAgent"), Some("Mozilla/5.0 (Example)"));
}

async fn what_our_own_links_tell_is_not_counted_again(bed: &Bed) {
    let world = World::new(bed).await;
    world.run("UPDATE campaigns SET tracking = 1").await;
    for name in ["delivery", "open", "click"] {
        world.tell(name).await;
    }
    assert_eq!(stored(&world.cx).await.len(), 3, "all of it is kept");
    let expected = Counts { delivery_count: 1, ..Counts::default() };
    assert_eq!(counts(&world.cx, &keys::sequence("spring")).await, expected);
    let at = HAPPENED.parse::<Timestamp>().unwrap().as_millisecond();
    let row_of_bob = row(&world.cx, world.bob).await;
    assert!(row_of_bob.ends_with(&format!("[0, 0, -1, {at}, -1, -1, -1, -1, -1]")), "{row_of_bob}");
    // The same of a transactional message, which says so itself.
    let find = async |source| {
        let found = world.cx.database().read(move |tx| Message::find(tx, source)).await;
        found.map_err(|error: DatabaseError| error).unwrap().unwrap()
    };
    assert!(find(world.ada).await.is_tracked);
    world.run("UPDATE transactional_messages SET envelope = '{\"tracking\":\"off\"}'").await;
    assert!(!find(world.ada).await.is_tracked);
}

async fn both_forms_suppress_after_a_bounce(bed: &Bed) {
    let world = World::new(bed).await;
    world.tell("bounce-permanent").await;
    assert_eq!(world.is_suppressed("bob@example.org").await, Some("Permanent"));
    assert!(row(&world.cx, world.bob).await.starts_with("bounced"));
    let lift = suppression::Lift {
        email: "bob@example.org".parse().unwrap(),
        reason: suppression::Reason::clipped("mistake"),
    };
    suppression::lift(&world.cx, lift).await.unwrap();
    // Redelivered: it happened before somebody lifted the suppression.
    world.tell("bounce-permanent").await;
    assert_eq!(world.is_suppressed("bob@example.org").await, None);
    // The other form, of a bounce after that.
    let mut event = fixture("notification-bounce");
    event["bounce"]["timestamp"] = "2026-07-01T12:30:00Z".into();
    assert_eq!(world.take(&envelope("sns-9", &event), 1).await, Outcome::Done);
    assert_eq!(world.is_suppressed("bob@example.org").await, Some("Permanent"));
}

async fn only_who_must_not_be_written_to_is_suppressed(bed: &Bed) {
    let world = World::new(bed).await;
    for name in [
        "delivery",
        "open",
        "reject",
        "rendering-failure",
        "bounce-transient",
        "bounce-undetermined",
        "bounce-mailbox-full",
        "complaint-not-spam",
    ] {
        world.tell(name).await;
        assert_eq!(world.is_suppressed("bob@example.org").await, None, "{name}");
    }
    let counted = counts(&world.cx, &keys::sequence("spring")).await;
    assert_eq!((counted.bounce_count, counted.hard_bounce_count), (3, 0));
    assert_eq!((counted.complaint_count, counted.not_spam_count), (0, 1));
    world.tell("notification-complaint").await;
    assert_eq!(world.is_suppressed("bob@example.org").await, Some("Complaint"));
}

/// It was tried for days, and the provider says that it is over.
async fn what_is_called_permanent_suppresses_whatever_its_status(bed: &Bed) {
    let world = World::new(bed).await;
    world.tell("bounce-expired").await;
    assert_eq!(world.is_suppressed("bob@example.org").await, Some("Permanent"));
    assert!(row(&world.cx, world.bob).await.starts_with("bounced"));
}

async fn a_copy_that_bounced_is_suppressed_and_the_recipient_is_not(bed: &Bed) {
    let world = World::new(bed).await;
    world.tell("bounce-of-a-copy").await;
    assert_eq!(world.is_suppressed("copy@example.org").await, Some("Permanent"));
    assert_eq!(world.is_suppressed("bob@example.org").await, None);
    assert!(row(&world.cx, world.bob).await.starts_with("pending"));
}

/// As the sending side tells it, which SMTP says nothing more of.
async fn who_was_turned_away_at_the_door_is_suppressed_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.run("UPDATE transactional_messages SET status = 'bounced'").await;
    world.run("UPDATE campaign_recipients SET status = 'failed', ses_message_id = NULL").await;
    let (workspace, now) = (world.cx.workspace_id().get(), world.cx.now());
    for (source, email) in [
        (world.ada, "ada@example.org"),
        (world.bob, "bob@example.org"),
        // He was to get a copy of hers.
        (world.ada, "copy@example.org"),
    ] {
        for _ in 0..2 {
            let tell = world.cx.database().write_committed(move |tx| {
                let said = "550 5.1.1 no such user to RCPT";
                let (attempt, status) = (1, "5.1.1");
                let who = TurnedAway { workspace, source, attempt, email, status, said };
                turned_away::tell(tx, &who, now)
            });
            tell.await.unwrap();
        }
    }
    let worker = worker(Replies::new(bed.access.clone(), None));
    assert_eq!(bed.work(&tidings_kernel::queues::SES_WEBHOOKS, worker).await, 6);
    for email in ["ada@example.org", "bob@example.org", "copy@example.org"] {
        assert_eq!(world.is_suppressed(email).await, Some("Permanent"), "{email}");
    }
    assert_eq!(stored(&world.cx).await.len(), 3);
    for source in [world.ada, world.bob] {
        assert!(row(&world.cx, source).await.starts_with("bounced"));
    }
}

async fn five_soft_bounces_in_a_row_suppress(bed: &Bed) {
    let world = World::new(bed).await;
    for minute in 1..=5 {
        assert_eq!(world.is_suppressed("bob@example.org").await, None);
        let mut event = fixture("bounce-transient");
        event["bounce"]["timestamp"] = format!("2026-07-01T11:0{minute}:00Z").into();
        let body = envelope(&format!("sns-{minute}"), &event);
        for _ in 0..3 {
            assert_eq!(world.take(&body, 1).await, Outcome::Done);
        }
    }
    assert_eq!(world.is_suppressed("bob@example.org").await, Some("Transient"));
}

fn tagged(world: &World<'_>, workspace: &str) -> Value {
    let mut event = fixture("tagged-delivery");
    event["mail"]["tags"]["workspace"] = json!([workspace]);
    event["mail"]["tags"]["message"] = json!([world.ada.reference()]);
    event
}

async fn a_tag_settles_a_message_whose_id_nobody_wrote_down(bed: &Bed) {
    let world = World::new(bed).await;
    assert!(row(&world.cx, world.ada).await.starts_with("uncertain None"));
    let id = world.cx.workspace_id().get().to_string();
    let body = envelope("sns-1", &tagged(&world, &id));
    assert_eq!(world.take(&body, 1).await, Outcome::Done);
    let settled = row(&world.cx, world.ada).await;
    assert!(settled.starts_with("delivered Some(\"0100018f-ses-ada\")"), "{settled}");
}

async fn a_tag_of_another_installation_is_not_believed(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.cx.workspace_id().get().to_string();
    let mut foreign = vec![tagged(&world, "999"), tagged(&world, &id)];
    foreign[1]["mail"]["destination"] = json!(["eve@example.org"]);
    for event in foreign {
        let outcome = world.take(&envelope("sns-1", &event), 1).await;
        assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
    }
    world.run("UPDATE transactional_messages SET ses_message_id = 'another'").await;
    let outcome = world.take(&envelope("sns-1", &tagged(&world, &id)), 1).await;
    assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
}

async fn what_is_about_nobody_is_kept_and_suppresses_nobody(bed: &Bed) {
    let world = World::new(bed).await;
    world.run("UPDATE campaign_recipients SET ses_message_id = 'another'").await;
    let body = envelope("sns-1", &fixture("bounce-permanent"));
    for receives in 1..=PATIENCE {
        let outcome = world.take(&body, receives).await;
        assert!(matches!(outcome, Outcome::Retry { .. }), "its id may not be written down yet");
    }
    for _ in 0..2 {
        assert_eq!(world.take(&body, PATIENCE + 1).await, Outcome::Done);
    }
    assert_eq!(world.is_suppressed("bob@example.org").await, None);
    assert!(stored(&world.cx).await.is_empty());
    let strays = stray::list(world.cx.database(), None, Limit::MAX).await.unwrap();
    assert_eq!(strays.items.len(), 1);
    assert_eq!(
        (strays.items[0].id.as_str(), strays.items[0].event_type.as_str()),
        ("sns-1", "Bounce")
    );
    let body = &strays.items[0].body;
    assert!(!body.contains('@'), "nobody could find it to erase it: {body}");
    for part in ["0100018f-ses-bob", "Permanent", "General", HAPPENED] {
        assert!(body.contains(part), "{body}");
    }
    // With our tag and without its row it is an event of the workspace, and still suppresses nobody.
    let mut event = fixture("bounce-permanent");
    event["mail"]["tags"]["workspace"] = json!(["acme"]);
    assert_eq!(world.take(&envelope("sns-2", &event), PATIENCE + 1).await, Outcome::Done);
    assert_eq!(stored(&world.cx).await.len(), 1);
    assert_eq!(world.is_suppressed("bob@example.org").await, None);
}

async fn the_contract_and_the_envelope_are_one_event(bed: &Bed) {
    let world = World::new(bed).await;
    let body = envelope("sns-1", &fixture("bounce-permanent"));
    let contract = SesWebhook::from_sns(&body, bed.access.now()).unwrap().to_body().unwrap();
    assert_eq!(world.take(&contract, 1).await, Outcome::Done);
    let before = stored(&world.cx).await;
    assert_eq!(before[0].text("bounceSubType"), Some("General"));
    assert_eq!(before[0].text("diagnostic"), Some("smtp; 550 5.1.1 user unknown"));
    assert_eq!(world.take(&body, 1).await, Outcome::Done);
    assert_eq!(stored(&world.cx).await, before);
    assert_eq!(world.is_suppressed("bob@example.org").await, Some("Permanent"));
}

async fn what_breaks_its_contract_is_given_up(bed: &Bed) {
    let world = World::new(bed).await;
    let mut unknown = fixture("delivery");
    unknown["eventType"] = "Teleported".into();
    for (body, told) in [
        ("{".to_owned(), ""),
        ("[]".to_owned(), ""),
        (r#"{"contract":"nope","version":1}"#.to_owned(), ""),
        (envelope("sns-1", &unknown), "Message.eventType"),
        // Without the envelope nobody can tell whether it came before.
        (written("bounce-permanent"), "turn off raw message delivery"),
        (envelope_around("sns-2", &written("received-in-a-bucket")), "publish to SNS"),
    ] {
        let outcome = world.take(&body, 1).await;
        let Outcome::Dead { reason } = outcome else { panic!("{body}: {outcome:?}") };
        assert!(reason.contains(told), "{reason}");
    }
    assert!(stored(&world.cx).await.is_empty());
    assert_eq!(world.is_suppressed("bob@example.org").await, None);
}

/// Of a mail that it threw away, SES names as its destination whoever sent it.
async fn what_the_provider_did_not_send_has_failed(bed: &Bed) {
    for (name, said) in [
        ("reject", "Bad content"),
        ("rendering-failure", "Attribute 'name' is not present in the rendering data."),
    ] {
        let world = World::in_workspace(bed, bed.make_workspace(name).await).await;
        world.tell(name).await;
        let items = stored(&world.cx).await;
        assert_eq!(items.len(), 1, "{name}");
        assert_eq!(items[0].text("PK"), Some("SUB#bob@example.org"));
        assert_eq!(items[0].text("reason"), Some(said));
        assert_eq!(items[0].text("timestamp"), Some("2026-07-01T11:58:00.000Z"));
        assert!(row(&world.cx, world.bob).await.starts_with("failed"), "{name}");
        let counted = counts(&world.cx, &keys::sequence("spring")).await;
        let expected = (i64::from(name == "reject"), i64::from(name != "reject"));
        assert_eq!((counted.reject_count, counted.rendering_failure_count), expected);
    }
}

async fn who_of_several_bounced_or_complained_is_told_apart(bed: &Bed) {
    let world = World::new(bed).await;
    world.tell("notification-complaint-without-report").await;
    assert_eq!(world.is_suppressed("richard@example.org").await, Some("Complaint"));
    assert_eq!(world.is_suppressed("bob@example.org").await, None);
    assert!(row(&world.cx, world.bob).await.starts_with("pending"));
    world.tell("notification-bounce-without-dsn").await;
    assert_eq!(world.is_suppressed("bob@example.org").await, Some("Permanent"));
    assert_eq!(world.is_suppressed("mary@example.org").await, None);
    assert!(row(&world.cx, world.bob).await.starts_with("bounced"));
    assert_eq!(stored(&world.cx).await.len(), 3);
    let counted = counts(&world.cx, &keys::sequence("spring")).await;
    assert_eq!((counted.bounce_count, counted.complaint_count), (1, 0), "a copy is not counted");
}

async fn feedback_of_an_identity_says_the_same_as_an_event(bed: &Bed) {
    for (event, feedback) in [
        ("delivery", "notification-delivery"),
        ("bounce-permanent", "notification-bounce"),
        ("complaint", "notification-complaint"),
    ] {
        let mut told = Vec::new();
        for name in [event, feedback] {
            let world = World::in_workspace(bed, bed.make_workspace(name).await).await;
            world.tell(name).await;
            let items = stored(&world.cx).await;
            assert_eq!(items.len(), 1, "{name}");
            let counted = counts(&world.cx, &keys::sequence("spring")).await;
            let status = row(&world.cx, world.bob).await;
            // However its time is written.
            assert_eq!(items[0].text("timestamp"), Some(HAPPENED), "{name}");
            let is_suppressed = world.is_suppressed("bob@example.org").await;
            told.push((items[0].text("SK").map(str::to_owned), status, counted, is_suppressed));
        }
        assert_eq!(told[0], told[1], "{event}");
    }
}

async fn who_is_on_the_list_of_the_provider_is_suppressed_here_too(bed: &Bed) {
    for (name, kind) in
        [("bounce-on-account-list", "Permanent"), ("complaint-on-account-list", "Complaint")]
    {
        let world = World::in_workspace(bed, bed.make_workspace(name).await).await;
        world.tell(name).await;
        assert_eq!(world.is_suppressed("bob@example.org").await, Some(kind));
    }
}

/// And an address is the same however a server spells it.
async fn what_is_left_out_or_null_does_no_harm(bed: &Bed) {
    let world = World::new(bed).await;
    // In the same moment, so that there is nothing to wait for.
    world.tell("delivery").await;
    world.tell("click-without-tags").await;
    world.tell("bounce-in-many-lines").await;
    let items = stored(&world.cx).await;
    let of = |kind| items.iter().find(|item| item.text("eventType") == Some(kind)).unwrap();
    assert_eq!(of("click").text("linkUrl"), Some("https://shop.example/spring?a=1&b=2"));
    let said = of("bounce").text("diagnostic").unwrap();
    assert!(said.ends_with("\n550 5.1.1 a slip of the pen."), "{said}");
    assert!(row(&world.cx, world.bob).await.starts_with("bounced"));
    assert_eq!(world.is_suppressed("bob@example.org").await, Some("Permanent"));
}

async fn what_is_not_about_a_mail_changes_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    let said = "You have chosen to subscribe to the topic.";
    let confirmation = json!({
        "Type": "SubscriptionConfirmation",
        "MessageId": "sns-1",
        "Token": "2336412f",
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:ses-events",
        "Message": said,
        "SubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=2336412f",
        "Timestamp": "2026-07-01T11:59:59.900Z",
        "SignatureVersion": "1",
        "Signature": "EXAMPLE",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0000.pem",
    });
    let announced = "Successfully validated SNS topic for Amazon SES event publishing.";
    let succeeded =
        json!({ "notificationType": "AmazonSnsSubscriptionSucceeded", "message": said });
    for body in [
        confirmation.to_string(),
        envelope_around("sns-2", announced),
        envelope("sns-3", &succeeded),
        envelope_around("sns-4", &written("subscription")),
    ] {
        assert_eq!(world.take(&body, 1).await, Outcome::Done);
    }
    assert!(stored(&world.cx).await.is_empty());
}
