//! Seed 002, e-mail tracking: drafts, sent mails, templates and GSI1, with its own examples.

use tidings_kernel::{
    Condition, Expect, Item, Key, Query, Txn, Update, Value, tables::EMAIL_TRACKING,
};

use super::{Case, cases};
use crate::items::ground::{Ground, cancelled, item, sorts};

pub(super) const CASES: &[Case] = &cases![
    each_kind_of_item_comes_back,
    all_drafts_pending_approval,
    history_of_a_customer,
    recent_emails_by_type,
    the_duplicate_check_finds_what_is_recent,
    all_sent_emails_in_date_range,
    versions_of_a_template,
    approving_a_draft_moves_it_in_the_index,
    a_draft_is_sent_once,
];

fn draft() -> Item {
    item!({
        "PK": "CUSTOMER#cust_001",
        "SK": "DRAFT#20250921_143022_cust_001",
        "GSI1PK": "STATUS#draft",
        "GSI1SK": "2025-09-21T14:30:22Z",
        "customer_id": "cust_001",
        "customer_name": "John Doe",
        "customer_email": "john@example.com",
        "reminder_type": "first",
        "email_subject": "Payment Reminder from Innovate AI",
        "email_content": "Dear John...",
        "status": "draft",
        "created_date": "2025-09-21T14:30:22Z",
        "created_by": "ai_system",
        "overdue_amount": 1500.00,
        "overdue_invoices": ["INV-001", "INV-002"],
    })
}

fn sent() -> Item {
    item!({
        "PK": "CUSTOMER#cust_001",
        "SK": "SENT#20250921_150000_first",
        "GSI1PK": "STATUS#sent",
        "GSI1SK": "2025-09-21T15:00:00Z",
        "customer_id": "cust_001",
        "reminder_type": "first",
        "email_subject": "Payment Reminder from Innovate AI",
        "email_content": "Dear John...",
        "status": "sent",
        "sent_date": "2025-09-21T15:00:00Z",
        "approved_by": "user_123",
        "ses_message_id": "0000014a-f4d4-4f41-9d83-8c0a6df0c5a1-000000",
        "delivery_status": "delivered",
    })
}

fn template() -> Item {
    item!({
        "PK": "TEMPLATE#reminder_first",
        "SK": "VERSION#1",
        "GSI1PK": "STATUS#active",
        "GSI1SK": "2025-09-21T12:00:00Z",
        "template_id": "reminder_first",
        "template_name": "First Reminder Template",
        "template_type": "first_reminder",
        "subject_template": "Payment Reminder: Invoice {{invoice_id}} - Innovate AI",
        "body_template": "Dear {{customer_name}}...",
        "status": "active",
        "created_date": "2025-09-21T12:00:00Z",
        "version": 1,
        "branding": "innovate_ai",
    })
}

/// Another sent mail of the same customer.
fn sent_on(day: u32, kind: &str) -> Item {
    let date = format!("2025-09-{day:02}T15:00:00Z");
    sent()
        .with("SK", format!("SENT#202509{day:02}_150000_{kind}"))
        .with("GSI1SK", date.as_str())
        .with("sent_date", date)
        .with("reminder_type", kind)
}

async fn fill(ground: &Ground) {
    let items = [draft(), sent(), template(), sent_on(1, "first"), sent_on(10, "second")];
    ground.put_all(&EMAIL_TRACKING, &items).await;
}

fn by_status(status: &str) -> Query {
    Query::new(&EMAIL_TRACKING, format!("STATUS#{status}")).index("GSI1")
}

async fn each_kind_of_item_comes_back(ground: Ground) {
    fill(&ground).await;
    for item in [draft(), sent(), template()] {
        let key = EMAIL_TRACKING.key_of(&item).unwrap();
        assert_eq!(ground.get(&EMAIL_TRACKING, &key).await, Some(item));
    }
    let key = EMAIL_TRACKING.key_of(&draft()).unwrap();
    let stored = ground.get(&EMAIL_TRACKING, &key).await.unwrap();
    assert_eq!(stored.get("overdue_amount"), Some(&Value::from(1500)));
}

async fn all_drafts_pending_approval(ground: Ground) {
    fill(&ground).await;
    let other = draft()
        .with("PK", "CUSTOMER#cust_002")
        .with("SK", "DRAFT#20250920_090000_cust_002")
        .with("GSI1SK", "2025-09-20T09:00:00Z");
    ground.put(&EMAIL_TRACKING, other.clone()).await;
    assert_eq!(ground.query(by_status("draft")).await, [other, draft()]);
    assert_eq!(ground.query(by_status("failed")).await, []);
}

async fn history_of_a_customer(ground: Ground) {
    fill(&ground).await;
    let query = Query::new(&EMAIL_TRACKING, "CUSTOMER#cust_001").begins_with("SENT#");
    let found = ground.query(query.backward()).await;
    assert_eq!(found, [sent(), sent_on(10, "second"), sent_on(1, "first")]);
}

/// The seed's query has no range: the filter alone keeps drafts out, as they have no date of sending.
fn recent(kind: &str, cutoff: &str) -> Query {
    let filter =
        Condition::eq("reminder_type", kind).and(Condition::Gt("sent_date".into(), cutoff.into()));
    Query::new(&EMAIL_TRACKING, "CUSTOMER#cust_001").filter(filter)
}

async fn recent_emails_by_type(ground: Ground) {
    fill(&ground).await;
    let found = ground.query(recent("first", "2025-09-14T15:00:00Z")).await;
    assert_eq!(found, [sent()]);
}

async fn the_duplicate_check_finds_what_is_recent(ground: Ground) {
    fill(&ground).await;
    for (kind, cutoff, expected) in [
        ("first", "2025-09-14T15:00:00", 1),
        ("first", "2025-08-01T00:00:00", 2),
        ("first", "2025-09-21T15:00:00Z", 0),
        ("second", "2025-09-16T00:00:00", 0),
        ("second", "2025-09-05T00:00:00", 1),
        ("final", "2025-01-01T00:00:00", 0),
    ] {
        let query = recent(kind, cutoff);
        assert_eq!(ground.store.count(query.clone()).await.unwrap(), expected, "{kind} {cutoff}");
        let page = ground.store.query(query.limit(1)).await.unwrap();
        assert_eq!(page.items.len() as u64, expected.min(1), "{kind} {cutoff}");
    }
}

async fn all_sent_emails_in_date_range(ground: Ground) {
    fill(&ground).await;
    let range = |from: &str, to: &str| by_status("sent").between(from, to);
    let found = ground.query(range("2025-09-01T15:00:00Z", "2025-09-20T00:00:00Z")).await;
    assert_eq!(sorts(&found), ["SENT#20250901_150000_first", "SENT#20250910_150000_second"]);
    assert_eq!(ground.query(range("2025-09-21", "2025-09-22")).await, [sent()]);
    assert_eq!(ground.query(range("2025-10-01", "2025-11-01")).await, []);
}

async fn versions_of_a_template(ground: Ground) {
    fill(&ground).await;
    let second = template().with("SK", "VERSION#2").with("version", 2);
    ground.put(&EMAIL_TRACKING, second.clone()).await;
    let newest = Query::new(&EMAIL_TRACKING, "TEMPLATE#reminder_first")
        .begins_with("VERSION#")
        .backward()
        .limit(1);
    let page = ground.store.query(newest).await.unwrap();
    assert_eq!(page.items, [second]);
    assert_eq!(ground.query(by_status("active")).await.len(), 2);
}

async fn approving_a_draft_moves_it_in_the_index(ground: Ground) {
    fill(&ground).await;
    let key = EMAIL_TRACKING.key_of(&draft()).unwrap();
    let approve = Update::new(&EMAIL_TRACKING, key)
        .set("status", "approved")
        .set("GSI1PK", "STATUS#approved")
        .expect(Expect::That(Condition::eq("status", "draft")));
    ground.update(approve).await;
    assert_eq!(ground.query(by_status("draft")).await, []);
    assert_eq!(sorts(&ground.query(by_status("approved")).await), [draft().text("SK").unwrap()]);
}

async fn a_draft_is_sent_once(ground: Ground) {
    ground.put(&EMAIL_TRACKING, draft()).await;
    let key = Key::new("CUSTOMER#cust_001", "DRAFT#20250921_143022_cust_001");
    let send = || {
        Txn::new()
            .delete(&EMAIL_TRACKING, key.clone(), Expect::That(Condition::eq("status", "draft")))
            .put(&EMAIL_TRACKING, sent(), Expect::Absent)
    };
    ground.store.transact(send()).await.unwrap();
    cancelled(ground.store.transact(send()).await);
    assert_eq!(ground.contents(&EMAIL_TRACKING).await, [sent()]);
}
