//! What is left of somebody who was erased: nothing that tells who it was, and everything that protects him.

use jiff::ToSpan as _;
use tidings_access::Cx;
use tidings_inbox::marks::{self, Mark};
use tidings_inbox::publish::{NewPost, To};
use tidings_inbox::{Inbox, Reader};
use tidings_kernel::{Expect, Item, Key, Put, Timer, Txn, queues, tables};
use tidings_testbed::{Bed, each_store};

use super::{
    address, attributes, bare, execute, found, item, partition, rows, suppress, tags_in_step,
    unsubscribe, upsert, with_tags,
};
use crate::contacts::store;
use crate::contacts::{
    ContactId, Erased, KnownBy, Upsert, attach, erase, erase_contact, get, learn_user_id, make,
    resume,
};
use crate::keys;
use crate::suppression::{self, Kind};

each_store!(
    nothing_is_left_of_the_person,
    a_suppression_outlives_the_person,
    an_unsubscription_outlives_the_person,
    who_was_free_to_be_written_to_starts_anew,
    thousands_of_events_are_erased_too,
    many_walks_end_too,
    what_was_waiting_is_not_sent,
    messages_of_others_name_him_no_more,
    an_address_that_is_nobodys_can_be_erased,
    dead_letters_name_him_no_more,
    an_erasure_that_lacked_only_its_last_line_is_finished,
    an_erasure_that_nobody_asks_for_again_is_finished,
    an_erasure_is_found_by_every_address,
    his_inboxes_are_emptied_and_no_others,
    whoever_has_no_address_is_erased_too,
);

/// A send log, executions on both sides, and events.
pub(super) async fn put_history(cx: &Cx, email: &str, count: usize) {
    let items = cx.items().await.unwrap();
    let own = format!("SUB#{email}");
    let pairs = [(own.as_str(), "EXEC#onboarding"), ("EXEC#onboarding", own.as_str())];
    for (partition, sort) in pairs {
        let arn = "tidings:execution:onboarding:x1";
        let item = Item::new().with("PK", partition).with("SK", sort).with("executionArn", arn);
        items.put(Put::new(&tables::MAIN, item)).await.unwrap();
    }
    put_walks(cx, email).await;
    for number in 0..count {
        let sent = Item::new().with("PK", own.as_str()).with("SK", format!("SENT#{number:06}"));
        let event = Item::new().with("PK", own.as_str()).with("SK", format!("EVT#{number:06}"));
        items.put(Put::new(&tables::MAIN, sent)).await.unwrap();
        items.put(Put::new(&tables::EVENTS, event)).await.unwrap();
    }
}

/// Where the execution is, with its timer, and one that failed before.
async fn put_walks(cx: &Cx, email: &str) {
    let address = address(email);
    let state = tables::MAIN.bare_item(&keys::execution("x1")).with("email", email);
    let timer = Timer {
        key: keys::execution_timer("x1"),
        due: cx.now().checked_add(30.hours()).unwrap(),
        queue: &queues::SEQUENCE_STEPS,
        body: "{}".to_owned(),
    };
    let at = "2026-06-01T00:00:00Z".parse().unwrap();
    let failed = tables::MAIN.bare_item(&keys::failed("onboarding", at, "x0")).with("email", email);
    let entry = tables::MAIN.bare_item(&keys::failed_entry(&address, "onboarding", at, "x0"));
    let txn = Txn::new()
        .put(&tables::MAIN, state, Expect::Anything)
        .put(&tables::MAIN, failed, Expect::Anything)
        .put(&tables::MAIN, entry, Expect::Anything)
        .arm(timer);
    cx.items().await.unwrap().transact(txn).await.unwrap();
}

/// That nothing of it is left.
pub(super) async fn no_walks(cx: &Cx) {
    for gone in ["EXEC#onboarding", "EXECUTION#x1", "FAILED#onboarding"] {
        assert_eq!(walks_at(cx, gone).await, [], "{gone}");
    }
    let timers = "SELECT timer_key FROM timers WHERE $1 > 0 AND timer_key LIKE 'execution/%'";
    assert_eq!(rows(cx, timers).await.len(), 0);
}

async fn many_walks_end_too(bed: &Bed) {
    let cx = bed.cx().await;
    let (items, email) = (cx.items().await.unwrap(), address("ada@example.org"));
    for number in 0..120 {
        let (sequence, id) = (format!("s{number}"), format!("x{number}"));
        let arn = keys::execution_arn(&sequence, &id);
        let own = tables::MAIN.bare_item(&keys::execution_of(&email, &sequence));
        let partner = tables::MAIN.bare_item(&keys::execution_in(&sequence, &email));
        let txn = Txn::new()
            .put(&tables::MAIN, own.with("executionArn", arn), Expect::Absent)
            .put(&tables::MAIN, partner, Expect::Absent)
            .put(&tables::MAIN, tables::MAIN.bare_item(&keys::execution(&id)), Expect::Absent);
        items.transact(txn).await.unwrap();
    }
    assert!(erase(&cx, &email).await.unwrap().erased);
    for place in ["EXEC#s0", "EXECUTION#x0", "EXEC#s119", "EXECUTION#x119", "SUB#ada@example.org"] {
        assert_eq!(walks_at(&cx, place).await, [], "{place}");
    }
}

/// But for the marks that walks were stopped, which name nobody: a worker may have one in hand.
async fn walks_at(cx: &Cx, place: &str) -> Vec<Item> {
    let mut items = partition(cx, &tables::MAIN, place).await;
    items.retain(|item| item.text("SK") != Some("STOPPED"));
    items
}

async fn put_relations(cx: &Cx) {
    for sql in [
        "INSERT INTO audiences (workspace_id, slug, name, created_at, updated_at) VALUES ($1, 'news', 'News', 1, 1)",
        "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, status, created_at, updated_at)
         SELECT $1, l.id, a.id, 'subscribed', 1, 1 FROM leads l CROSS JOIN audiences a",
        "INSERT INTO confirmations (workspace_id, subscription_id, expires_at, created_at)
         SELECT $1, id, 5, 1 FROM subscriptions",
        "INSERT INTO topics (workspace_id, slug, name, created_at, updated_at) VALUES ($1, 'offers', 'Offers', 1, 1)",
        "INSERT INTO topic_preferences (workspace_id, lead_id, topic_id, status, created_at, updated_at)
         SELECT $1, l.id, t.id, 'off', 1, 1 FROM leads l CROSS JOIN topics t",
        "INSERT INTO consent_log
             (workspace_id, lead_id, action, acted_by, source, ip, user_agent, happened_at)
         SELECT $1, id, 'subscribed', 'person', 'form', '10.0.0.1', 'Browser of Ada', 1 FROM leads",
        "UPDATE leads SET display_name = 'Ada', attributes = '{\"a\":\"Ada\"}' WHERE workspace_id = $1",
        "INSERT INTO captured_mails (workspace_id, mail_from, rcpt_to, mime, created_at)
         VALUES ($1, 'shop@example.org', '[\"ada@example.org\"]', '', 1),
                ($1, 'shop@example.org', '[\"adam@example.org\"]', '', 1)",
    ] {
        execute(cx, sql).await;
    }
    put_ledger(cx).await;
}

/// A message of each kind of state.
async fn put_ledger(cx: &Cx) {
    for sql in [
        "INSERT INTO transactional_messages (workspace_id, client_id, lead_id, idempotency_key, email, subject, html_body,
             text_body, context, envelope, metadata, last_error, status, claimed_by, claimed_until, handed_at, sent_at,
             created_at, updated_at)
         SELECT $1, c.id, l.id, s.status || s.handed, 'ada@example.org', 'Dear Ada', '<p>Ada', 'Ada', '{\"n\":\"Ada\"}',
             '{\"to\":\"Ada\"}', '{\"m\":\"Ada\"}', 'no mailbox Ada', s.status, 'n', 5,
             CASE WHEN s.handed = 'handed' THEN 3 END, 1, 1, 1
         FROM leads l CROSS JOIN clients c CROSS JOIN (
             SELECT 'queued' AS status, '' AS handed UNION ALL SELECT 'claimed', '' UNION ALL
             SELECT 'claimed', 'handed' UNION ALL SELECT 'sent', '') s",
        "INSERT INTO campaigns (workspace_id, client_id, name, created_at, updated_at)
         SELECT $1, id, 'Spring', 1, 1 FROM clients",
        "INSERT INTO campaign_recipients (workspace_id, campaign_id, lead_id, email, created_at, updated_at)
         SELECT $1, c.id, l.id, 'ada@example.org', 1, 1 FROM leads l CROSS JOIN campaigns c",
    ] {
        execute(cx, sql).await;
    }
}

/// Two messages to Bob that name Ada: one with a copy for her, and a reply of hers that was passed on to him and is in
/// his send log.
pub(super) async fn put_mentions(cx: &Cx) {
    let workspace = cx.workspace_id().get();
    for sql in [
        "INSERT INTO clients (workspace_id, slug, name, created_at) VALUES ($1, 'mill', 'Mill', 1)
         ON CONFLICT DO NOTHING",
        "INSERT INTO leads (workspace_id, created_at, updated_at) VALUES ($1, 1, 1)",
        "DELETE FROM message_addresses WHERE workspace_id = $1",
        "DELETE FROM transactional_messages WHERE workspace_id = $1",
        "INSERT INTO transactional_messages (workspace_id, client_id, lead_id, idempotency_key, email, reply_to, subject,
             text_body, envelope, status, sent_at, logged_at, created_at, updated_at)
         SELECT workspace_id, id, (SELECT max(id) FROM leads), 'for:ada@example.org', 'bob@example.org',
             'ada@example.org', 'Hello Bob', 'Hello Bob', '{\"cc\":[\"ada@example.org\"]}', 'sent', 1, 60000, 1, 1
         FROM clients WHERE workspace_id = $1 AND slug = 'mill'",
        "INSERT INTO transactional_messages (workspace_id, client_id, lead_id, idempotency_key, email, reply_to, subject,
             text_body, envelope, status, sent_at, logged_at, created_at, updated_at)
         SELECT workspace_id, id, (SELECT max(id) FROM leads), 'forward:1:abc', 'bob@example.org',
             'ada@example.org', 'Fwd: Ada writes', 'Fwd: Ada writes', '{}', 'sent', 1, 60000, 1, 1
         FROM clients WHERE workspace_id = $1 AND slug = 'mill'",
        "INSERT INTO message_addresses (workspace_id, email, message_id)
         SELECT workspace_id, 'ada@example.org', id FROM transactional_messages WHERE workspace_id = $1",
    ] {
        execute(cx, sql).await;
    }
    let sql = "SELECT max(id) FROM transactional_messages WHERE workspace_id = $1 AND subject LIKE 'Fwd%'";
    let id = rows(cx, sql).await[0].int(0).unwrap();
    let tags = format!(r#"{{"workspace":"1","message":"t-{id}"}}"#);
    let other = tags.replace("t-", "t-9");
    let capture = cx.database().write(move |tx| {
        for tags in [&tags, &other] {
            let sql = "INSERT INTO captured_mails (workspace_id, mail_from, rcpt_to, mime, tags, created_at)
                       VALUES ($1, 'shop@example.org', '[\"bob@example.org\"]', '', $2, 1)";
            let workspace = tidings_sql::Param::Int(workspace);
            tx.execute(sql, &[workspace, tidings_sql::Param::Text(tags)])?;
        }
        Ok(())
    });
    let captured: Result<(), tidings_sql::DatabaseError> = capture.await;
    captured.unwrap();
    // Its millisecond was taken, so that the line has moved on.
    let line = Item::new()
        .with("PK", "SUB#bob@example.org")
        .with("SK", "SENT#1970-01-01T00:01:00.003Z")
        .with("message", format!("t-{id}"))
        .with("subject", "Fwd: Ada writes");
    cx.items().await.unwrap().put(Put::new(&tables::MAIN, line)).await.unwrap();
}

/// What is left of those.
pub(super) async fn mentions(cx: &Cx) -> Vec<String> {
    let sql = "SELECT idempotency_key, status, email, reply_to, subject, text_body, CAST(envelope AS TEXT)
               FROM transactional_messages WHERE workspace_id = $1 ORDER BY idempotency_key";
    let mut said: Vec<String> = rows(cx, sql)
        .await
        .iter()
        .map(|row| {
            let text = |place| row.optional_text(place).unwrap().unwrap_or("-").to_owned();
            let key = text(0).chars().take(8).collect::<String>();
            format!("{key} {}", (1..7).map(text).collect::<Vec<_>>().join(" "))
        })
        .collect();
    let line = item(cx, "SUB#bob@example.org", "SENT#1970-01-01T00:01:00.003Z").await.unwrap();
    said.push(format!("{:?}", line.text("subject")));
    for sql in [
        "SELECT count(*) FROM message_addresses WHERE workspace_id = $1",
        "SELECT count(*) FROM captured_mails WHERE workspace_id = $1",
    ] {
        said.push(rows(cx, sql).await[0].int(0).unwrap().to_string());
    }
    said
}

pub(super) const NAMED_NO_MORE: [&str; 5] = [
    "erased:0 sent bob@example.org - Hello Bob Hello Bob {\"cc\":[]}",
    "forward: sent - - - - {}",
    "Some(\"\")",
    "0",
    "1",
];

async fn messages_of_others_name_him_no_more(bed: &Bed) {
    let cx = bed.cx().await;
    put_mentions(&cx).await;
    let email = address("ada@example.org");
    assert!(erase(&cx, &email).await.unwrap().erased);
    let mut left = mentions(&cx).await;
    // The first digit of a hash can be any.
    left[0].replace_range(7..8, "0");
    assert_eq!(left, NAMED_NO_MORE);
    assert!(!erase(&cx, &email).await.unwrap().erased);
}

async fn dead_letters_name_him_no_more(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, bare("ada@example.org")).await.unwrap();
    let id = cx.workspace_id().get();
    let named = [
        ("a", r#"{"Message":"{\"to\":[\"Ada@example.org\"]}"}"#.to_owned()),
        ("b", format!(r#"{{"workspace_id":{id},"email":"ada@example.org"}}"#)),
        ("c", r#"{"workspace":"acme","email":"ada@example.org"}"#.to_owned()),
        ("d", format!(r#"{{"workspace_id":{},"email":"ada@example.org"}}"#, id + 1)),
        ("e", r#"{"workspace":"other","email":"ada@example.org"}"#.to_owned()),
        ("f", r#"{"email":"nada@example.org"}"#.to_owned()),
    ];
    // More than are looked at at once, of which one in three stays.
    let many = (0..100).map(|number| {
        let workspace = if number % 3 == 0 { "other" } else { "acme" };
        let body = format!(r#"{{"workspace":"{workspace}","email":"ada@example.org"}}"#);
        (format!("n{number:03}"), body)
    });
    let letters: Vec<(String, String)> =
        named.into_iter().map(|(id, body)| (id.to_owned(), body)).chain(many).collect();
    let bury = cx.database().write(move |tx| {
        for (id, body) in &letters {
            let sql =
                "INSERT INTO dead_letters (queue, id, receives, enqueued_at, died_at, reason, body)
                       VALUES ('ses-webhooks', $1, 1, 1, 1, 'broken', $2)";
            tx.execute(sql, &[tidings_sql::Param::Text(id), tidings_sql::Param::Text(body)])?;
        }
        Ok(())
    });
    let buried: Result<(), tidings_sql::DatabaseError> = bury.await;
    buried.unwrap();
    erase(&cx, &address("ada@example.org")).await.unwrap();
    let left = rows(&cx, "SELECT id FROM dead_letters WHERE $1 > 0 ORDER BY id").await;
    let left: Vec<_> = left.iter().map(|row| row.text(0).unwrap()).collect();
    assert_eq!(left[..3], ["d", "e", "f"], "those of others stay");
    let others: Vec<_> = (0..100).step_by(3).map(|number| format!("n{number:03}")).collect();
    assert_eq!(left[3..], others);
}

/// Every text in every row and item of the workspace that could tell who it was.
async fn traces(cx: &Cx) -> Vec<String> {
    let mut found = Vec::new();
    for sql in [
        "SELECT display_name, CAST(attributes AS TEXT) FROM leads WHERE workspace_id = $1",
        "SELECT value, typed_value FROM channel_identities WHERE workspace_id = $1",
        "SELECT ip, user_agent FROM consent_log WHERE workspace_id = $1",
        "SELECT CAST(addresses AS TEXT), address_hash FROM erasures WHERE workspace_id = $1",
        "SELECT email, last_error FROM campaign_recipients WHERE workspace_id = $1",
        "SELECT email, subject, html_body, text_body, last_error, CAST(context AS TEXT), CAST(envelope AS TEXT),
             CAST(metadata AS TEXT) FROM transactional_messages WHERE workspace_id = $1",
        "SELECT target_id, CAST(state_after AS TEXT) FROM audit_log WHERE workspace_id = $1",
        "SELECT CAST(rcpt_to AS TEXT) FROM captured_mails WHERE workspace_id = $1",
    ] {
        found.extend(rows(cx, sql).await.iter().map(|row| format!("{row:?}")));
    }
    let items = cx.items().await.unwrap();
    for table in tables::ALL {
        let page = items.scan(tidings_kernel::Scan::new(table).limit(1000)).await.unwrap();
        found.extend(page.items.iter().map(|item| serde_json::to_string(item).unwrap()));
    }
    found.retain(|text| {
        // A keyed hash tells nothing, whatever its digits spell.
        let words = text.split_inclusive(|c: char| !c.is_ascii_hexdigit());
        let text: String = words.filter(|word| word.len() < 64).collect();
        let text = text.replace("adam@example.org", "").to_lowercase();
        text.contains("ada") || text.contains("10.0.0.1")
    });
    found
}

async fn nothing_is_left_of_the_person(bed: &Bed) {
    let cx = bed.cx().await;
    let cmd = Upsert {
        first_name: Some("Ada".parse().unwrap()),
        attributes: attributes(serde_json::json!({"city": "Adaville"})),
        ..with_tags("Ada@Example.org", &["beta"])
    };
    upsert(&cx, cmd).await.unwrap();
    suppress(&cx, "ada@example.org").await;
    put_relations(&cx).await;
    put_history(&cx, "ada@example.org", 5).await;
    assert!(!traces(&cx).await.is_empty());

    let email = address("ADA@example.org");
    assert!(erase(&cx, &email).await.unwrap().erased);
    assert_eq!(traces(&cx).await, Vec::<String>::new());
    assert!(get(&cx, &email).await.unwrap().is_none());
    for (table, left) in [
        ("SELECT id FROM subscriptions WHERE workspace_id = $1", 0),
        ("SELECT id FROM confirmations WHERE workspace_id = $1", 0),
        ("SELECT id FROM topic_preferences WHERE workspace_id = $1", 0),
        ("SELECT id FROM captured_mails WHERE workspace_id = $1", 1),
        ("SELECT id FROM consent_log WHERE workspace_id = $1", 1),
        ("SELECT id FROM transactional_messages WHERE workspace_id = $1", 4),
        ("SELECT id FROM leads WHERE workspace_id = $1 AND erased_at IS NOT NULL", 1),
    ] {
        assert_eq!(rows(&cx, table).await.len(), left, "{table}");
    }
    assert!(!erase(&cx, &email).await.unwrap().erased);
}

async fn what_was_waiting_is_not_sent(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, bare("ada@example.org")).await.unwrap();
    put_ledger(&cx).await;
    erase(&cx, &address("ada@example.org")).await.unwrap();
    let sql = "SELECT idempotency_key, status, skip_reason FROM transactional_messages
               WHERE workspace_id = $1 ORDER BY idempotency_key";
    let said: Vec<_> = rows(&cx, sql)
        .await
        .iter()
        .map(|row| {
            let reason = row.optional_text(2).unwrap().unwrap_or("-");
            format!("{} {} {reason}", row.text(0).unwrap(), row.text(1).unwrap())
        })
        .collect();
    assert_eq!(
        said,
        [
            "claimed cancelled erased",
            "claimedhanded uncertain -",
            "queued cancelled erased",
            "sent sent -"
        ]
    );
    let sql = "SELECT status, skip_reason FROM campaign_recipients WHERE workspace_id = $1";
    let recipients = rows(&cx, sql).await;
    assert_eq!(recipients[0].text(0).unwrap(), "skipped");
    assert_eq!(recipients[0].text(1).unwrap(), "erased");
}

async fn a_suppression_outlives_the_person(bed: &Bed) {
    let cx = bed.cx().await;
    let email = address("ada@example.org");
    upsert(&cx, bare("ada@example.org")).await.unwrap();
    suppress(&cx, "ada@example.org").await;
    erase(&cx, &email).await.unwrap();
    let status = suppression::status(&cx, &email).await.unwrap();
    assert_eq!(status.suppression.unwrap().kind, Kind::Permanent);
    assert_eq!(partition(&cx, &tables::MAIN, "SUPPRESSIONS").await, []);

    let back = upsert(&cx, bare("Ada@Example.ORG")).await.unwrap();
    assert!(back.created && back.contact.suppressed && !back.contact.unsubscribed);
    assert!(item(&cx, "SUB#ada@example.org", "SUPPRESSION").await.is_some());
    assert_eq!(partition(&cx, &tables::MAIN, "SUPPRESSIONS").await.len(), 1);
    // And a second time.
    erase(&cx, &email).await.unwrap();
    assert!(upsert(&cx, bare("ada@example.org")).await.unwrap().contact.suppressed);

    let reason = "she asked us to".parse().unwrap();
    suppression::lift(&cx, suppression::Lift { email: email.clone(), reason }).await.unwrap();
    assert!(!found(&cx, "ada@example.org").await.suppressed);
    erase(&cx, &email).await.unwrap();
    assert!(!upsert(&cx, bare("ada@example.org")).await.unwrap().contact.suppressed);
}

async fn an_unsubscription_outlives_the_person(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, bare("ada@example.org")).await.unwrap();
    unsubscribe(&cx, "ada@example.org").await;
    erase(&cx, &address("ada@example.org")).await.unwrap();
    let status = suppression::status(&cx, &address("ada@example.org")).await.unwrap();
    assert!(status.unsubscribed_before_erasure && status.suppression.is_none());
    let back = upsert(&cx, bare("ada@example.org")).await.unwrap().contact;
    assert!(back.unsubscribed && !back.suppressed);

    // The relation's mark counts as much as the profile's.
    upsert(&cx, bare("bob@example.org")).await.unwrap();
    execute(&cx, "UPDATE leads SET unsubscribed_at = 5 WHERE workspace_id = $1").await;
    erase(&cx, &address("bob@example.org")).await.unwrap();
    assert!(upsert(&cx, bare("bob@example.org")).await.unwrap().contact.unsubscribed);
}

async fn who_was_free_to_be_written_to_starts_anew(bed: &Bed) {
    let cx = bed.cx().await;
    let first = upsert(&cx, with_tags("ada@example.org", &["a"])).await.unwrap().contact;
    erase(&cx, &address("ada@example.org")).await.unwrap();
    let again = upsert(&cx, bare("ada@example.org")).await.unwrap();
    assert!(again.created && again.contact.id != first.id);
    assert!(!again.contact.suppressed && !again.contact.unsubscribed);
    assert!(tags_in_step(&cx, "ada@example.org", &["a"]).await.is_empty());
}

async fn thousands_of_events_are_erased_too(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, bare("ada@example.org")).await.unwrap();
    let items = cx.items().await.unwrap();
    for chunk in 0..21 {
        let txn = (0..100).fold(tidings_kernel::Txn::new(), |txn, number| {
            let sort = format!("EVT#{:06}", chunk * 100 + number);
            let item = Item::new().with("PK", "SUB#ada@example.org").with("SK", sort);
            txn.put(&tables::EVENTS, item, tidings_kernel::Expect::Anything)
        });
        items.transact(txn).await.unwrap();
    }
    assert!(erase(&cx, &address("ada@example.org")).await.unwrap().erased);
    assert_eq!(partition(&cx, &tables::EVENTS, "SUB#ada@example.org").await, []);
}

async fn an_address_that_is_nobodys_can_be_erased(bed: &Bed) {
    let cx = bed.cx().await;
    let email = address("ada@example.org");
    assert!(!erase(&cx, &email).await.unwrap().erased);
    suppress(&cx, "ada@example.org").await;
    assert!(erase(&cx, &email).await.unwrap().erased);
    assert!(!erase(&cx, &email).await.unwrap().erased);
    assert!(suppression::status(&cx, &email).await.unwrap().suppression.is_some());
    assert_eq!(traces(&cx).await, Vec::<String>::new());
}

async fn an_erasure_that_lacked_only_its_last_line_is_finished(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, bare("ada@example.org")).await.unwrap();
    erase(&cx, &address("ada@example.org")).await.unwrap();
    let cut_short = "UPDATE erasures SET done_at = NULL, addresses = '[\"ada@example.org\"]'
                     WHERE workspace_id = $1";
    execute(&cx, cut_short).await;
    // Somebody new with the same address is erased by the same call.
    upsert(&cx, bare("ada@example.org")).await.unwrap();
    assert!(erase(&cx, &address("ada@example.org")).await.unwrap().erased);
    let open = "SELECT id FROM erasures WHERE workspace_id = $1 AND done_at IS NULL";
    assert_eq!(rows(&cx, open).await.len(), 0);
    assert_eq!(traces(&cx).await, Vec::<String>::new());
}

/// An erasure that ended right after its first transaction, of somebody with two addresses.
async fn begun(cx: &Cx) {
    upsert(cx, with_tags("ada@example.org", &["a"])).await.unwrap();
    execute(
        cx,
        "INSERT INTO channel_identities (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
         SELECT $1, id, 'email', 'lovelace@example.org', 'lovelace@example.org', 1, 1 FROM leads",
    )
    .await;
    let (within, email) = (cx.clone(), address("ada@example.org"));
    let begin = cx.database().write(move |tx| crate::contacts::erase::begin(tx, &within, &email));
    begin.await.map(drop).unwrap();
    put_history(cx, "ada@example.org", 2).await;
    put_history(cx, "lovelace@example.org", 2).await;
}

async fn is_clean(cx: &Cx) {
    let open = "SELECT id FROM erasures WHERE workspace_id = $1 AND done_at IS NULL";
    assert_eq!(rows(cx, open).await.len(), 0);
    for email in ["ada@example.org", "lovelace@example.org"] {
        for table in [&tables::MAIN, &tables::EVENTS] {
            assert_eq!(partition(cx, table, &format!("SUB#{email}")).await, []);
        }
    }
    assert!(tags_in_step(cx, "ada@example.org", &["a"]).await.is_empty());
}

async fn an_erasure_that_nobody_asks_for_again_is_finished(bed: &Bed) {
    begun(&bed.cx().await).await;
    bed.advance(15).await;
    // Whoever began it may still be at work.
    assert_eq!(resume(&bed.access, 10).await.unwrap(), 0);
    bed.advance(1).await;
    assert_eq!(resume(&bed.access, 10).await.unwrap(), 1);
    assert_eq!(resume(&bed.access, 10).await.unwrap(), 0);
    is_clean(&bed.cx().await).await;
}

async fn an_erasure_is_found_by_every_address(bed: &Bed) {
    let cx = bed.cx().await;
    begun(&cx).await;
    assert!(erase(&cx, &address("lovelace@example.org")).await.unwrap().erased);
    is_clean(&cx).await;
}

/// Publishes to users of an inbox, or to everyone.
async fn publish(cx: &Cx, inbox: &str, users: &[&str], category: Option<&str>) -> String {
    let to = match users {
        [] => To::Everyone,
        users => To::Users(users.iter().map(ToString::to_string).collect()),
    };
    let post = NewPost {
        to,
        label: None,
        category: category.map(str::to_owned),
        title: "For Ada".to_owned(),
        body: serde_json::json!({}),
        cta_uri: None,
        host_system_id: None,
        send_at: None,
        expires_in: None,
        sender: "Ops".to_owned(),
    };
    let published = Inbox::new().publish(cx, &inbox.parse().unwrap(), post).await.unwrap();
    published.id.to_string()
}

async fn inbox_of(cx: &Cx, uid: &str, inbox: &str) -> usize {
    let partition_key = format!("t#{}U#{uid}#{inbox}", cx.workspace());
    partition(cx, &tables::INBOX, &partition_key).await.len()
}

async fn whoever_has_no_address_is_erased_too(bed: &Bed) {
    let cx = bed.cx().await;
    let within = cx.clone();
    let made = cx.database().write(move |tx| {
        let phone = KnownBy { channel: "phone", value: "+493012345", typed: "+493012345" };
        let user = KnownBy { channel: "user_id", value: "u-1", typed: "u-1" };
        let contact = make(tx, &within, phone)?.expect("nobody has the number");
        assert!(attach(tx, &within, contact, user)?);
        let sql = "SELECT id FROM lead_organizations WHERE lead_id = $1";
        let partition = tx.query(sql, &[tidings_sql::Param::Int(contact.get())])?[0].int(0)?;
        Ok::<_, tidings_sql::DatabaseError>((contact, partition.to_string()))
    });
    let (contact, own) = made.await.unwrap();
    let items = cx.items().await.unwrap();
    let event = tables::EVENT.bare_item(&Key::new(own.as_str(), "2026-01-01T00:00:00.000Z#1"));
    let memory = tables::MEMORY.bare_item(&Key::new(own.as_str(), "preference#colour"));
    let feature = tables::FEATURE.bare_item(&Key::single(own.as_str()));
    for (table, item) in
        [(&tables::EVENT, event), (&tables::MEMORY, memory), (&tables::FEATURE, feature)]
    {
        items.put(Put::new(table, item)).await.unwrap();
    }
    publish(&cx, "app", &["u-1", "bob"], None).await;
    // Another workspace cannot.
    let other = bed.make_workspace("other").await;
    assert_eq!(erase_contact(&other, contact).await.unwrap(), None);

    assert_eq!(erase_contact(&cx, contact).await.unwrap(), Some(Erased { erased: true }));
    for table in [&tables::EVENT, &tables::MEMORY, &tables::FEATURE] {
        assert_eq!(partition(&cx, table, &own).await.len(), 0, "{}", table.name);
    }
    assert_eq!(inbox_of(&cx, "u-1", "app").await, 0);
    assert!(inbox_of(&cx, "bob", "app").await > 0);
    let left = rows(&cx, "SELECT id FROM channel_identities WHERE workspace_id = $1").await;
    assert!(left.is_empty());
    assert_eq!(erase_contact(&cx, contact).await.unwrap(), Some(Erased { erased: false }));
    assert_eq!(erase_contact(&cx, ContactId::from(999)).await.unwrap(), None);
    // Who has an address is erased with everything under it.
    upsert(&cx, bare("ada@example.org")).await.unwrap();
    assert_eq!(
        erase_contact(&cx, ContactId::from(contact.get() + 1)).await.unwrap(),
        Some(Erased { erased: true })
    );
    assert!(get(&cx, &address("ada@example.org")).await.unwrap().is_none());
}

/// He has another id besides, as somebody has who was two contacts once.
async fn called_too(cx: &Cx, email: &str, user_id: &'static str) {
    let (within, email) = (cx.clone(), address(email));
    let known_by = KnownBy { channel: "user_id", value: user_id, typed: user_id };
    let attach = cx.database().write(move |tx| {
        let contact = store::find(tx, &within, &email)?.expect("he is a contact").id;
        attach(tx, &within, contact, known_by)
    });
    assert!(attach.await.unwrap());
}

async fn his_inboxes_are_emptied_and_no_others(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, bare("ada@example.org")).await.unwrap();
    learn_user_id(&cx, &address("ada@example.org"), "ada-7", cx.now()).await.unwrap();
    called_too(&cx, "ada@example.org", "ada#no-inbox-can-have-it").await;
    publish(&cx, "news", &["ada-7", "bob"], None).await;
    for _ in 0..120 {
        publish(&cx, "app", &["ada-7", "bob"], Some("orders")).await;
    }
    let public = publish(&cx, "app", &[], None).await;
    let reader =
        Reader { inbox: "app".parse().unwrap(), uid: "ada-7".parse().unwrap(), let_in: None };
    marks::mark(&cx, &Inbox::new(), &reader, Mark::Read, &[public.parse().unwrap()]).await.unwrap();
    let (app, news) = (inbox_of(&cx, "bob", "app").await, inbox_of(&cx, "bob", "news").await);
    assert!(inbox_of(&cx, "ada-7", "app").await > app && app > 120);

    // Whoever began it died after the first transaction.
    let (within, email) = (cx.clone(), address("ada@example.org"));
    let begin = cx.database().write(move |tx| crate::contacts::erase::begin(tx, &within, &email));
    begin.await.map(drop).unwrap();
    bed.advance(16).await;
    assert_eq!(resume(&bed.access, 10).await.unwrap(), 1);
    for inbox in ["app", "news"] {
        assert_eq!(inbox_of(&cx, "ada-7", inbox).await, 0, "{inbox}");
    }
    assert_eq!(
        (inbox_of(&cx, "bob", "app").await, inbox_of(&cx, "bob", "news").await),
        (app, news)
    );
    let left = "SELECT id FROM erasures WHERE workspace_id = $1 AND user_ids IS NOT NULL";
    assert_eq!(rows(&cx, left).await.len(), 0);
    // He can come again, as somebody new.
    publish(&cx, "app", &["ada-7"], None).await;
    let counts = tidings_inbox::read::counts(&cx, &Inbox::new(), &reader).await.unwrap();
    assert_eq!((counts.total, counts.unread), (2, 2));
}
