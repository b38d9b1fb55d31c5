//! What was sent and what was done, however much else there is.

use tidings_access::Cx;
use tidings_kernel::{Item, Put, tables};
use tidings_people::keys;
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store};

use super::{Did, Sent, has_event, was_sent};

each_store!(
    the_send_log_is_read_to_its_end,
    what_the_ledger_has_counts_too,
    only_what_a_person_did_counts,
);

const EMAIL: &str = "ada@example.org";

async fn sent(cx: &Cx, template: &str) -> Sent {
    was_sent(cx, &EMAIL.parse().unwrap(), &template.parse().unwrap()).await.unwrap()
}

async fn put_line(cx: &Cx, second: usize, template: &str) {
    let at = jiff::Timestamp::from_second(1_782_900_000 + second as i64).unwrap();
    let item = tables::MAIN
        .bare_item(&keys::sent(&EMAIL.parse().unwrap(), at))
        .with("subject", "x".repeat(1_000))
        .with("templateKey", template);
    cx.items().await.unwrap().put(Put::new(&tables::MAIN, item)).await.unwrap();
}

/// The line that matters is the oldest, the newest or in the midst of 300.
async fn the_send_log_is_read_to_its_end(bed: &Bed) {
    let cx = bed.cx().await;
    assert_eq!(sent(&cx, "welcome").await, Sent::No);
    for second in 0..300 {
        let template = match second {
            0 => "oldest",
            150 => "midst",
            299 => "newest",
            _ => "other",
        };
        put_line(&cx, second, template).await;
    }
    for template in ["oldest", "midst", "newest", "other"] {
        assert_eq!(sent(&cx, template).await, Sent::Yes, "{template}");
    }
    assert_eq!(sent(&cx, "welcome").await, Sent::No);
    assert_eq!(sent(&bed.make_workspace("other").await, "oldest").await, Sent::No);
}

async fn execute(cx: &Cx, sql: &str) {
    let sql = sql.to_owned();
    let run = cx.database().write(move |tx| tx.execute(&sql, &[]));
    run.await.map_err(|error: DatabaseError| format!("{error:?}")).unwrap();
}

async fn what_the_ledger_has_counts_too(bed: &Bed) {
    let cx = bed.cx().await;
    let workspace = cx.workspace_id().get();
    for sql in [
        format!("INSERT INTO leads (workspace_id, created_at, updated_at) VALUES ({workspace}, 1, 1)"),
        format!(
            "INSERT INTO channel_identities (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
             SELECT {workspace}, id, 'email', '{EMAIL}', '{EMAIL}', 1, 1 FROM leads"
        ),
        format!(
            "INSERT INTO transactional_messages (workspace_id, client_id, lead_id, idempotency_key, email, template_key,
                 status, skip_reason, sent_at, claimed_by, claimed_until, created_at, updated_at)
             SELECT {workspace}, c.id, l.id, 'k', '{EMAIL}', 'welcome', 'queued', 'x', 1, 'n', 1, 1, 1
             FROM leads l CROSS JOIN clients c WHERE c.workspace_id = {workspace}"
        ),
    ] {
        execute(&cx, &sql).await;
    }
    for (status, expected) in [
        ("queued", Sent::OnItsWay),
        ("claimed", Sent::OnItsWay),
        ("uncertain", Sent::Yes),
        ("sent", Sent::Yes),
        ("delivered", Sent::Yes),
        ("bounced", Sent::Yes),
        ("complained", Sent::Yes),
        ("failed", Sent::No),
        ("skipped", Sent::No),
        ("cancelled", Sent::No),
    ] {
        execute(&cx, &format!("UPDATE transactional_messages SET status = '{status}'")).await;
        assert_eq!(sent(&cx, "welcome").await, expected, "{status}");
        assert_eq!(sent(&cx, "elsewhere").await, Sent::No);
    }
    // What is to go in some months is not on its way.
    let later = cx.now().as_millisecond() + 1_000;
    let schedule =
        format!("UPDATE transactional_messages SET status = 'queued', scheduled_at = {later}");
    execute(&cx, &schedule).await;
    assert_eq!(sent(&cx, "welcome").await, Sent::No);
    bed.advance(1).await;
    assert_eq!(sent(&bed.cx().await, "welcome").await, Sent::OnItsWay);
}

async fn put_event(cx: &Cx, second: usize, kind: &str, template: &str, human: Option<bool>) {
    let verdict = human.map(|human| {
        tidings_kernel::Value::M([("human".to_owned(), human.into())].into_iter().collect())
    });
    let mut item = Item::new()
        .with("PK", keys::subscriber(&EMAIL.parse().unwrap()))
        .with("SK", format!("EVT#2026-07-01T10:{:02}:{:02}.000Z#{kind}", second / 60, second % 60))
        .with("eventType", kind)
        .with("templateKey", template);
    if let Some(verdict) = verdict {
        item.set("verdict", verdict);
    }
    cx.items().await.unwrap().put(Put::new(&tables::EVENTS, item)).await.unwrap();
}

async fn only_what_a_person_did_counts(bed: &Bed) {
    let cx = bed.cx().await;
    let done = async |did, template: &str| {
        has_event(&cx, &EMAIL.parse().unwrap(), did, &template.parse().unwrap()).await.unwrap()
    };
    put_event(&cx, 0, "click", "oldest", Some(true)).await;
    for second in 1..300 {
        put_event(&cx, second, "open", "welcome", Some(false)).await;
    }
    put_event(&cx, 301, "open", "welcome", None).await;
    assert!(done(Did::Click, "oldest").await);
    assert!(!done(Did::Open, "oldest").await);
    assert!(!done(Did::Open, "welcome").await, "machines open everything");
    put_event(&cx, 302, "open", "welcome", Some(true)).await;
    assert!(done(Did::Open, "welcome").await);
    assert!(!done(Did::Click, "welcome").await);
}
