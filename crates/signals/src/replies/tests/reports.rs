//! What mail servers tell by mail becomes of a message what it would become if the provider told it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use tidings_access::{Cx, Limit};
use tidings_delivery::ledger::Source;
use tidings_jobs::Outcome;
use tidings_kernel::{Delivery, EmailAddress, Receipt};
use tidings_people::{contacts, suppression};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::our_id;
use crate::events::keys;
use crate::events::tests::{counts, in_the_open, messages, name_copy, stored};
use crate::replies::{Ignored, Received, Replies};
use crate::ses::{stray, worker};

const POSTFIX: &str = include_str!("../../../../mail/tests/reports/postfix.eml");
const EXCHANGE: &str = include_str!("../../../../mail/tests/reports/exchange.eml");
const GMAIL: &str = include_str!("../../../../mail/tests/reports/gmail.eml");
const COMPLAINT: &str = include_str!("../../../../mail/tests/reports/complaint.eml");

each_store!(
    a_bounce_by_mail_is_recorded_once_and_suppresses,
    a_complaint_by_mail_suppresses,
    a_full_mailbox_and_a_delay_suppress_nobody,
    the_fifth_transient_bounce_in_a_row_suppresses,
    a_report_that_proves_nothing_suppresses_nobody,
    a_report_out_of_the_queue_finds_its_workspace,
    what_is_reported_of_an_erased_person_is_remembered_by_a_hash_alone,
    a_report_of_an_erased_person_suppresses_no_other,
    what_is_reported_of_an_erased_copy_is_nobody_elses,
);

/// A report of these servers about the message that this is the id of.
fn of(report: &str, id: &str) -> Vec<u8> {
    report.replace("<OURS>", id).into_bytes()
}

/// That a message did not arrive.
pub(super) fn failed(id: &str) -> Vec<u8> {
    of(POSTFIX, id)
}

async fn why_suppressed(cx: &Cx, email: &str) -> Option<suppression::Kind> {
    let status = suppression::status(cx, &email.parse().unwrap()).await.unwrap();
    status.suppression.map(|suppression| suppression.kind)
}

async fn bounced_at(cx: &Cx) -> Option<i64> {
    let sql = "SELECT bounced_at FROM campaign_recipients WHERE email = $1";
    let find = cx.database().read(move |tx| tx.query(sql, &[Param::Text("bob@example.org")]));
    let rows = find.await.map_err(|error: DatabaseError| error).unwrap();
    rows[0].optional_int(0).unwrap()
}

async fn a_bounce_by_mail_is_recorded_once_and_suppresses(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    let id = our_id(bed, &cx, bob).await;
    let report = of(POSTFIX, &id);
    assert_eq!(replies.receive(&cx, &report).await.unwrap(), Received::Told("bounce"));
    assert_eq!(replies.receive(&cx, &report).await.unwrap(), Received::Before);
    let items = stored(&cx).await;
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].text("PK"), Some("SUB#bob@example.org"));
    for (name, value) in [
        ("eventType", "bounce"),
        ("bounceType", "Permanent"),
        ("templateKey", "broadcasts/spring"),
        ("sequenceId", "spring"),
    ] {
        assert_eq!(items[0].text(name), Some(value), "{name}");
    }
    assert_eq!(counts(&cx, &keys::sequence("spring")).await.bounce_count, 1);
    assert_eq!(why_suppressed(&cx, "bob@example.org").await, Some(suppression::Kind::Permanent));
    assert!(bounced_at(&cx).await.is_some(), "the row knows of it");
    // Another server tells of the same message: an event of its own, and one message that bounced.
    let again = replies.receive(&cx, &of(EXCHANGE, &id)).await.unwrap();
    assert_eq!(again, Received::Told("bounce"));
    assert_eq!(stored(&cx).await.len(), 2);
}

async fn a_complaint_by_mail_suppresses(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    let report = of(COMPLAINT, &our_id(bed, &cx, bob).await);
    assert_eq!(replies.receive(&cx, &report).await.unwrap(), Received::Told("complaint"));
    assert_eq!(replies.receive(&cx, &report).await.unwrap(), Received::Before);
    assert_eq!(why_suppressed(&cx, "bob@example.org").await, Some(suppression::Kind::Complaint));
    assert_eq!(counts(&cx, &keys::sequence("spring")).await.complaint_count, 1);
    // Nobody is suppressed because somebody took our mail out of the spam.
    let ours = String::from_utf8(report)
        .unwrap()
        .replace("Feedback-Type: abuse", "Feedback-Type: not-spam");
    suppression::lift(
        &cx,
        suppression::Lift {
            email: "bob@example.org".parse().unwrap(),
            reason: suppression::Reason::clipped("he asked"),
        },
    )
    .await
    .unwrap();
    let ours = ours.replace("fbl-20260701-1@", "fbl-20260701-2@");
    assert_eq!(replies.receive(&cx, ours.as_bytes()).await.unwrap(), Received::Told("complaint"));
    assert_eq!(why_suppressed(&cx, "bob@example.org").await, None);
}

async fn a_full_mailbox_and_a_delay_suppress_nobody(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    let id = our_id(bed, &cx, bob).await;
    assert_eq!(replies.receive(&cx, &of(GMAIL, &id)).await.unwrap(), Received::Told("bounce"));
    let delayed = POSTFIX.replace("Action: failed", "Action: delayed").replace("5.1.1", "4.4.1");
    assert_eq!(replies.receive(&cx, &of(&delayed, &id)).await.unwrap(), Received::Told("delay"));
    assert_eq!(why_suppressed(&cx, "bob@example.org").await, None);
    assert_eq!(stored(&cx).await.len(), 2);
}

async fn the_fifth_transient_bounce_in_a_row_suppresses(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    let id = our_id(bed, &cx, bob).await;
    for number in 1..=5 {
        let report = POSTFIX
            .replace("5.1.1", "4.4.1")
            .replace("4bYQ0z1x2yz@", &format!("{number}@"))
            .replace("12:00:03", &format!("12:0{number}:03"));
        bed.advance(10).await;
        assert_eq!(why_suppressed(&cx, "bob@example.org").await, None);
        assert_eq!(
            replies.receive(&cx, &of(&report, &id)).await.unwrap(),
            Received::Told("bounce")
        );
    }
    assert_eq!(why_suppressed(&cx, "bob@example.org").await, Some(suppression::Kind::Transient));
}

async fn a_report_that_proves_nothing_suppresses_nobody(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    let id = our_id(bed, &cx, bob).await;
    // An id that nobody signed, one with another signature, and that of the provider, which anybody could guess.
    let forged = id.replacen(".", ".1", 1);
    for id in ["<t.1.abc@shop.example>", &forged, "<ses-bob@email.amazonses.com>"] {
        let received = replies.receive(&cx, &of(POSTFIX, id)).await.unwrap();
        assert_eq!(received, Received::Ignored(Ignored::DeliveryReport), "{id}");
    }
    // Who got one message names somebody else in his report.
    let about_eve = POSTFIX.replace("bob@example.org", "eve@example.org");
    let received = replies.receive(&cx, &of(&about_eve, &id)).await.unwrap();
    assert_eq!(received, Received::Told("bounce"));
    // And it is nobody's in another workspace.
    let other = bed.make_workspace("other").await;
    let received = replies.receive(&other, &of(EXCHANGE, &id)).await.unwrap();
    assert_eq!(received, Received::Ignored(Ignored::DeliveryReport));
    for email in ["bob@example.org", "eve@example.org"] {
        assert_eq!(why_suppressed(&cx, email).await, None, "{email}");
    }
    let items = stored(&cx).await;
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].text("bounceType"), Some("Undetermined"));
    // They are kept apart, without their words.
    let strays = stray::list(cx.database(), None, Limit::MAX).await.unwrap().items;
    assert!(!strays.is_empty());
    assert!(strays.iter().all(|stray| stray.reason == "delivery_report"), "{strays:?}");
    assert!(strays.iter().all(|stray| !stray.body.contains("example")), "{strays:?}");
}

async fn a_report_out_of_the_queue_finds_its_workspace(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let report = of(POSTFIX, &our_id(bed, &cx, bob).await);
    let event = json!({
        "notificationType": "Received",
        "mail": { "messageId": "in-1", "timestamp": "2026-07-01T11:00:01Z" },
        "receipt": { "timestamp": "2026-07-01T11:00:01Z", "action": { "type": "SNS", "encoding": "BASE64" } },
        "content": BASE64_STANDARD.encode(report),
    });
    let body = json!({ "Type": "Notification", "MessageId": "1", "Message": event.to_string() });
    let delivery = Delivery {
        id: "m".into(),
        body: body.to_string(),
        receives: 1,
        enqueued_at: jiff::Timestamp::UNIX_EPOCH,
        receipt: Receipt("r".into()),
    };
    let outcome = worker(Replies::new(bed.access.clone(), None)).handle(&delivery).await;
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(why_suppressed(&cx, "bob@example.org").await, Some(suppression::Kind::Permanent));
}

/// Bob is a contact with the address that the campaign has written to, and erased.
async fn erase_bob(cx: &Cx, bob: Source) {
    let known = cx.clone();
    let make = cx.database().write(move |tx| {
        let sql = "SELECT lead_id FROM campaign_recipients WHERE id = $1";
        let lead = tx.query(sql, &[Param::Int(bob.id())])?[0].int(0)?;
        let bob: EmailAddress = "bob@example.org".parse().unwrap();
        contacts::attach(tx, &known, lead.into(), (&bob).into())?;
        Ok::<_, DatabaseError>(())
    });
    make.await.unwrap();
    contacts::erase(cx, &"bob@example.org".parse().unwrap()).await.unwrap();
}

async fn what_is_reported_of_an_erased_person_is_remembered_by_a_hash_alone(bed: &Bed) {
    let complaint = COMPLAINT.replace("redacted@isp.example", "bob@example.org");
    for (number, (report, kind)) in [
        (POSTFIX, suppression::Kind::Permanent),
        (complaint.as_str(), suppression::Kind::Complaint),
    ]
    .into_iter()
    .enumerate()
    {
        let cx = bed.make_workspace(&format!("shop-{number}")).await;
        let (_, bob) = messages(bed, &cx).await;
        let replies = Replies::new(bed.access.clone(), None);
        let report = of(report, &our_id(bed, &cx, bob).await);
        erase_bob(&cx, bob).await;
        assert_eq!(why_suppressed(&cx, "bob@example.org").await, None);
        for _ in 0..2 {
            let received = replies.receive(&cx, &report).await.unwrap();
            assert_eq!(received, Received::Ignored(Ignored::Erased));
            assert_eq!(why_suppressed(&cx, "bob@example.org").await, Some(kind));
        }
        assert_eq!(in_the_open(&cx, "bob@").await, Vec::<String>::new());
    }
}

/// Who has had a mail and was erased has nobody else suppressed, erased or not; and a soft bounce says nothing that lasts.
async fn a_report_of_an_erased_person_suppresses_no_other(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    let id = our_id(bed, &cx, bob).await;
    contacts::erase(&cx, &"eve@example.org".parse().unwrap()).await.unwrap();
    erase_bob(&cx, bob).await;
    for (report, email) in [
        (POSTFIX.replace("bob@example.org", "eve@example.org"), "eve@example.org"),
        (POSTFIX.replace("bob@example.org", "ada@example.org"), "ada@example.org"),
        (POSTFIX.replace("5.1.1", "4.4.1"), "bob@example.org"),
        (COMPLAINT.to_owned(), "bob@example.org"),
    ] {
        let received = replies.receive(&cx, &of(&report, &id)).await.unwrap();
        assert_eq!(received, Received::Ignored(Ignored::Erased), "{report}");
        assert_eq!(why_suppressed(&cx, email).await, None, "{report}");
    }
    assert!(stored(&cx).await.is_empty());
}

/// The message names nobody besides any more: it must not be taken for the addressee's.
async fn what_is_reported_of_an_erased_copy_is_nobody_elses(bed: &Bed) {
    let cx = bed.cx().await;
    let (ada, _) = messages(bed, &cx).await;
    name_copy(&cx, ada, "eve@example.org").await;
    let replies = Replies::new(bed.access.clone(), None);
    let id = our_id(bed, &cx, ada).await;
    contacts::erase(&cx, &"eve@example.org".parse().unwrap()).await.unwrap();
    for report in [
        POSTFIX.replace("bob@example.org", "eve@example.org"),
        COMPLAINT.replace("redacted@isp.example", "eve@example.org"),
    ] {
        let received = replies.receive(&cx, &of(&report, &id)).await.unwrap();
        assert_eq!(received, Received::Ignored(Ignored::Erased));
        assert_eq!(why_suppressed(&cx, "ada@example.org").await, None);
    }
    assert!(stored(&cx).await.is_empty());
}
