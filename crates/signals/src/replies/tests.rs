//! What people answer finds its message and its person.

mod forwarding;
mod reports;
mod verdicts;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use tidings_access::{Cx, Limit};
use tidings_delivery::ledger::Source;
use tidings_delivery::links::Links;
use tidings_jobs::Outcome;
use tidings_kernel::{Delivery, Receipt};
use tidings_people::contacts::{self, Attributes, Upsert};
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store};

use super::{Ignored, Received, Replies, Trust};
use crate::events::keys;
use crate::events::tests::{counts, messages, stored};
use crate::ses::{stray, worker};

each_store!(
    a_reply_finds_the_message_that_it_answers,
    the_id_of_the_provider_is_read_without_its_host,
    a_machine_does_not_reply,
    a_stranger_is_kept_apart,
    a_contact_may_write_without_answering,
    a_contact_of_the_only_workspace_may_write_through_the_provider,
    a_contact_without_a_profile_is_one,
    a_mail_out_of_the_queue_finds_its_workspace,
    a_message_of_another_workspace_is_not_answered,
    of_an_erased_persons_reply_nothing_is_kept,
    strays_are_swept_when_their_time_has_come,
);

fn mime(from: &str, in_reply_to: &str, more: &str) -> Vec<u8> {
    format!(
        "From: Bob <{from}>\r\nTo: replies@shop.example\r\nSubject: Re: Spring!\r\nMessage-ID: <{from}-1@mail.example>\r\n\
         Date: Wed, 01 Jul 2026 11:00:00 +0000\r\nIn-Reply-To: {in_reply_to}\r\n{more}\
         Content-Type: text/plain; charset=utf-8\r\n\r\nThanks for reaching out!\r\n"
    )
    .into_bytes()
}

async fn our_id(bed: &Bed, cx: &Cx, source: Source) -> String {
    let links = Links::load(cx.database(), "https://m.example", bed.access.now()).await.unwrap();
    let id = links.message_id(&source, cx.workspace_id().get(), "shop.example");
    format!("<{}>", id.trim_matches(['<', '>']))
}

async fn a_reply_finds_the_message_that_it_answers(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    let mail = mime("Bob@Example.org", &our_id(bed, &cx, bob).await, "");
    assert_eq!(replies.receive(&cx, &mail).await.unwrap(), Received::Reply);
    assert_eq!(replies.receive(&cx, &mail).await.unwrap(), Received::Before);
    let items = stored(&cx).await;
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].text("PK"), Some("SUB#bob@example.org"));
    assert_eq!(items[0].text("SK"), Some("EVT#2026-07-01T11:00:00.000Z#reply"));
    for (name, value) in [
        ("eventType", "reply"),
        ("subject", "Re: Spring!"),
        ("templateKey", "broadcasts/spring"),
        ("sequenceId", "spring"),
        ("sesMessageId", "ses-bob"),
    ] {
        assert_eq!(items[0].text(name), Some(value), "{name}");
    }
    assert_eq!(items[0].text("body").map(str::trim), Some("Thanks for reaching out!"));
    assert_eq!(counts(&cx, &keys::sequence("spring")).await.reply_count, 1);
    let heard = heard(&cx).await;
    assert_eq!(heard.len(), 1, "once, however often the mail comes");
    assert_eq!(heard[0]["name"], "email.replied");
    assert_eq!(heard[0]["origin"], "system");
    assert_eq!(heard[0]["email"], "bob@example.org");
    let data = json!({
        "sequenceId": "spring", "templateKey": "broadcasts/spring", "subject": "Re: Spring!",
    });
    assert_eq!(heard[0]["data"], data);
}

/// What sequences hear.
async fn heard(cx: &Cx) -> Vec<serde_json::Value> {
    let sql = "SELECT body FROM queue_messages WHERE queue = 'sequence-events' ORDER BY id";
    let rows = cx.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    rows.iter().map(|row| serde_json::from_str(row.text(0).unwrap()).unwrap()).collect()
}

async fn the_id_of_the_provider_is_read_without_its_host(bed: &Bed) {
    let cx = bed.cx().await;
    messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    for (host, found) in [
        ("eu-west-1.amazonses.com", true),
        ("email.amazonses.com", true),
        ("evilamazonses.com", false),
    ] {
        let mut mail = mime("bob@example.org", &format!("<ses-bob@{host}>"), "");
        // Another mail each time.
        mail.extend_from_slice(host.as_bytes());
        let mail = String::from_utf8(mail).unwrap().replace("-1@", &format!("-{host}@"));
        let received = replies.receive(&cx, mail.as_bytes()).await.unwrap();
        assert_eq!(received == Received::Reply, found, "{host}: {received:?}");
    }
}

async fn a_machine_does_not_reply(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    let mail =
        mime("bob@example.org", &our_id(bed, &cx, bob).await, "Auto-Submitted: auto-replied\r\n");
    assert_eq!(replies.receive(&cx, &mail).await.unwrap(), Received::Automatic);
    let counted = counts(&cx, &keys::sequence("spring")).await;
    assert_eq!((counted.reply_count, counted.auto_reply_count), (0, 1));
    assert_eq!(stored(&cx).await[0].get("autoReply"), Some(&true.into()));
    assert!(heard(&cx).await.is_empty(), "an absence note ends no sequence");
}

async fn a_stranger_is_kept_apart(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    let mail = mime("eve@example.org", &our_id(bed, &cx, bob).await, "");
    for _ in 0..2 {
        let received = replies.receive(&cx, &mail).await.unwrap();
        assert_eq!(received, Received::Ignored(Ignored::UnknownSender));
    }
    assert!(stored(&cx).await.is_empty());
    let strays = stray::list(cx.database(), None, Limit::MAX).await.unwrap().items;
    assert_eq!(strays.len(), 1);
    assert_eq!(strays[0].reason, "unknown_sender");
    assert_eq!(strays[0].body, json!({ "bytes": mail.len() }).to_string());
}

async fn of_an_erased_persons_reply_nothing_is_kept(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let mail = mime("bob@example.org", &our_id(bed, &cx, bob).await, "");
    let name_him = cx.database().write(|tx| {
        let sql = "INSERT INTO channel_identities
                       (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
                   SELECT workspace_id, lead_id, 'email', email, email, 1, 1 FROM campaign_recipients";
        tx.execute(sql, &[])
    });
    let named: Result<u64, tidings_sql::DatabaseError> = name_him.await;
    assert_eq!(named.unwrap(), 1);
    contacts::erase(&cx, &"bob@example.org".parse().unwrap()).await.unwrap();
    let replies = Replies::new(bed.access.clone(), None);
    let received = replies.receive(&cx, &mail).await.unwrap();
    assert_eq!(received, Received::Ignored(Ignored::Erased));
    assert!(stored(&cx).await.is_empty());
    assert!(stray::list(cx.database(), None, Limit::MAX).await.unwrap().items.is_empty());
}

async fn strays_are_swept_when_their_time_has_come(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let replies = Replies::new(bed.access.clone(), None);
    let id = our_id(bed, &cx, bob).await;
    for stranger in ["eve@example.org", "mallory@example.org", "trudy@example.org"] {
        replies.receive(&cx, &mime(stranger, &id, "")).await.unwrap();
    }
    bed.advance(90 * 24 * 60).await;
    assert_eq!(stray::sweep(&bed.access, 2).await.unwrap(), 0);
    bed.advance(1).await;
    assert_eq!(stray::sweep(&bed.access, 2).await.unwrap(), 2);
    assert_eq!(stray::sweep(&bed.access, 2).await.unwrap(), 1);
    assert!(stray::list(cx.database(), None, Limit::MAX).await.unwrap().items.is_empty());
}

async fn a_contact_may_write_without_answering(bed: &Bed) {
    let cx = bed.cx().await;
    let upsert = Upsert {
        email: "bob@example.org".parse().unwrap(),
        first_name: None,
        attributes: Attributes::default(),
        tags: None,
    };
    contacts::upsert(&cx, upsert).await.unwrap();
    let replies = Replies::new(bed.access.clone(), None);
    let mail = mime("bob@example.org", "<unknown@elsewhere.example>", "");
    assert_eq!(replies.receive(&cx, &mail).await.unwrap(), Received::Reply);
    assert_eq!(stored(&cx).await[0].text("sequenceId"), None);
}

/// A contact of whom nothing but the address is known.
async fn make_contact(cx: &Cx, email: &str) {
    let (within, email) = (cx.clone(), email.parse().unwrap());
    let ensure = cx.database().write(move |tx| contacts::ensure(tx, &within, &email).map(drop));
    ensure.await.map_err(|error: DatabaseError| error).unwrap();
}

async fn a_contact_of_the_only_workspace_may_write_through_the_provider(bed: &Bed) {
    let cx = bed.cx().await;
    make_contact(&cx, "bob@example.org").await;
    let replies = Replies::new(bed.access.clone(), None);
    let mail = mime("bob@example.org", "<unknown@elsewhere.example>", "");
    assert_eq!(replies.deliver(&mail, Trust::Ordinary).await.unwrap(), Received::Reply);
    // Of two he may have meant the other.
    bed.make_workspace("other").await;
    let mail = mime("bob@example.org", "<other@elsewhere.example>", "");
    let received = replies.deliver(&mail, Trust::Ordinary).await;
    assert_eq!(received.unwrap(), Received::Ignored(Ignored::NoWorkspace));
}

async fn a_contact_without_a_profile_is_one(bed: &Bed) {
    let cx = bed.cx().await;
    make_contact(&cx, "bob@example.org").await;
    let replies = Replies::new(bed.access.clone(), None);
    let mail = mime("bob@example.org", "<unknown@elsewhere.example>", "");
    assert_eq!(replies.receive(&cx, &mail).await.unwrap(), Received::Reply);
}

async fn a_mail_out_of_the_queue_finds_its_workspace(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let mail = mime("bob@example.org", &our_id(bed, &cx, bob).await, "");
    for (encoding, content) in [
        ("BASE64", BASE64_STANDARD.encode(&mail)),
        ("UTF8", String::from_utf8(mail.clone()).unwrap()),
    ] {
        let event = json!({
            "notificationType": "Received",
            "mail": { "messageId": "in-1", "timestamp": "2026-07-01T11:00:01Z" },
            "receipt": { "timestamp": "2026-07-01T11:00:01Z", "action": { "type": "SNS", "encoding": encoding } },
            "content": content,
        });
        let body =
            json!({ "Type": "Notification", "MessageId": encoding, "Message": event.to_string() });
        let delivery = Delivery {
            id: "m".into(),
            body: body.to_string(),
            receives: 1,
            enqueued_at: jiff::Timestamp::UNIX_EPOCH,
            receipt: Receipt("r".into()),
        };
        let outcome = worker(Replies::new(bed.access.clone(), None)).handle(&delivery).await;
        assert_eq!(outcome, Outcome::Done, "{encoding}");
        assert_eq!(stored(&cx).await.len(), 1, "{encoding}");
    }
}

async fn a_message_of_another_workspace_is_not_answered(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, bob) = messages(bed, &cx).await;
    let other = bed.make_workspace("other").await;
    let replies = Replies::new(bed.access.clone(), None);
    let mail = mime("bob@example.org", &our_id(bed, &cx, bob).await, "");
    let received = replies.receive(&other, &mail).await.unwrap();
    assert_eq!(received, Received::Ignored(Ignored::UnknownSender));
    assert!(stored(&cx).await.is_empty());
}
