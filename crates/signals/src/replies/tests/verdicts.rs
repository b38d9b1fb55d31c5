//! What SES thinks of a mail that it received: what is spam is no reply, and what may be forged ends no sequence.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tidings_access::{Cx, Limit};
use tidings_delivery::ledger::Source;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::Messages;
use tidings_jobs::Outcome;
use tidings_kernel::{Delivery, Receipt};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::{mime, our_id, reports};
use crate::events::keys;
use crate::events::tests::{counts, messages, stored};
use crate::replies::Replies;
use crate::ses::{stray, worker};

each_store!(
    what_is_spam_or_has_a_virus_is_a_stray_and_no_reply,
    what_fails_dmarc_is_kept_and_nothing_follows_from_it,
    what_else_is_said_of_a_mail_changes_nothing,
    a_report_is_believed_for_what_it_gives_back,
);

/// As the documentation of SES has it, with these verdicts.
fn received(mail: &[u8], failed: &[&str], said: &str) -> String {
    let path = format!("{}/tests/fixtures/received.json", env!("CARGO_MANIFEST_DIR"));
    let mut event: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for name in failed {
        event["receipt"][name]["status"] = said.into();
    }
    event["content"] = BASE64_STANDARD.encode(mail).into();
    json!({ "Type": "Notification", "MessageId": "in-1", "Message": event.to_string() }).to_string()
}

async fn take(bed: &Bed, body: String) {
    let replies = Replies::new(bed.access.clone(), None);
    let to = "team@shop.example".parse().unwrap();
    let replies = replies.passing_on(Messages::new(Templates::default()), Some(to));
    let delivery = Delivery {
        id: "m".into(),
        body,
        receives: 1,
        enqueued_at: jiff::Timestamp::UNIX_EPOCH,
        receipt: Receipt("r".into()),
    };
    // It comes twice.
    for _ in 0..2 {
        let outcome = worker(replies.clone()).handle(&delivery).await;
        assert_eq!(outcome, Outcome::Done);
    }
}

/// A message to Ada of a client with a sender, and what she answers.
async fn answered(bed: &Bed, cx: &Cx) -> (Source, Vec<u8>) {
    let (ada, _) = messages(bed, cx).await;
    let workspace = cx.workspace_id().get();
    let sender = cx.database().write(move |tx| {
        let sql = "INSERT INTO senders (workspace_id, client_id, slug, from_email, from_name, is_default, created_at, updated_at)
                   SELECT workspace_id, id, 'hello', 'hello@shop.example', 'The shop', 1, 0, 0 FROM clients WHERE workspace_id = $1";
        tx.execute(sql, &[Param::Int(workspace)])
    });
    sender.await.map_err(|error: DatabaseError| error).unwrap();
    (ada, mime("ada@example.org", &our_id(bed, cx, ada).await, ""))
}

/// How many messages wait in a queue, and how many replies were passed on.
async fn waiting(cx: &Cx, queue: &'static str) -> i64 {
    let read = cx.database().read(move |tx| {
        let sql = "SELECT count(*) FROM queue_messages WHERE queue = $1";
        tx.query(sql, &[Param::Text(queue)])?[0].int(0)
    });
    read.await.map_err(|error: DatabaseError| error).unwrap()
}

async fn passed_on(cx: &Cx) -> i64 {
    let read = cx.database().read(|tx| {
        let sql =
            "SELECT count(*) FROM transactional_messages WHERE idempotency_key LIKE 'forward:%'";
        tx.query(sql, &[])?[0].int(0)
    });
    read.await.map_err(|error: DatabaseError| error).unwrap()
}

/// What sequences and timelines were told, and what was passed on.
async fn told(cx: &Cx) -> [i64; 3] {
    [waiting(cx, "sequence-events").await, waiting(cx, "lead-ingestion").await, passed_on(cx).await]
}

async fn what_is_spam_or_has_a_virus_is_a_stray_and_no_reply(bed: &Bed) {
    for (name, reason) in [("virusVerdict", "virus"), ("spamVerdict", "spam")] {
        let cx = bed.make_workspace(&format!("w-{reason}")).await;
        let (_, mail) = answered(bed, &cx).await;
        let mail = String::from_utf8(mail).unwrap().replace("-1@", &format!("-{reason}@"));
        let before = told(&cx).await;
        take(bed, received(mail.as_bytes(), &[name], "FAIL")).await;
        assert!(stored(&cx).await.is_empty(), "{name}");
        assert_eq!(told(&cx).await, before, "{name}");
        let strays = stray::list(cx.database(), None, Limit::MAX).await.unwrap().items;
        assert_eq!((strays[0].reason.as_str(), strays[0].event_type.as_str()), (reason, "reply"));
        assert_eq!(strays[0].body, json!({ "bytes": mail.len() }).to_string());
    }
}

async fn what_fails_dmarc_is_kept_and_nothing_follows_from_it(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, mail) = answered(bed, &cx).await;
    let before = told(&cx).await;
    take(bed, received(&mail, &["dmarcVerdict", "spfVerdict", "dkimVerdict"], "FAIL")).await;
    let items = stored(&cx).await;
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].text("eventType"), Some("reply"));
    assert_eq!(items[0].get("unproven"), Some(&true.into()));
    assert_eq!(told(&cx).await, before);
    let counted = counts(&cx, &keys::template("onboarding/welcome")).await;
    assert_eq!((counted.reply_count, counted.auto_reply_count), (0, 0));
}

async fn what_else_is_said_of_a_mail_changes_nothing(bed: &Bed) {
    for (run, (failed, said)) in [
        (vec![], "PASS"),
        // A mailing list, or mail that was passed on.
        (vec!["spfVerdict"], "FAIL"),
        (vec!["dkimVerdict"], "FAIL"),
        (vec!["dmarcVerdict", "spamVerdict", "virusVerdict"], "GRAY"),
        (vec!["dmarcVerdict", "spamVerdict", "virusVerdict"], "PROCESSING_FAILED"),
    ]
    .into_iter()
    .enumerate()
    {
        let cx = bed.make_workspace(&format!("w{run}")).await;
        let (_, mail) = answered(bed, &cx).await;
        let before = told(&cx).await;
        take(bed, received(&mail, &failed, said)).await;
        let items = stored(&cx).await;
        assert_eq!(items.len(), 1, "{failed:?} {said}");
        assert_eq!(items[0].get("unproven"), None, "{failed:?} {said}");
        assert_eq!(told(&cx).await, before.map(|number| number + 1), "{failed:?} {said}");
    }
}

async fn a_report_is_believed_for_what_it_gives_back(bed: &Bed) {
    let cx = bed.cx().await;
    let (ada, _) = answered(bed, &cx).await;
    let report = reports::failed(&our_id(bed, &cx, ada).await);
    take(bed, received(&report, &["spamVerdict", "dmarcVerdict"], "FAIL")).await;
    assert_eq!(stored(&cx).await[0].text("eventType"), Some("bounce"));
}
