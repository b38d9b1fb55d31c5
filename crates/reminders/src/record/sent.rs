//! A reminder that was sent, as an item.

use jiff::Timestamp;
use tidings_kernel::{Expect, Item, StoreError, Txn, tables};

use super::values::{Reader, damaged, texts, time, ttl};
use super::{ContentType, Delivery, Draft, Sent};
use crate::keys;

const KEPT_DAYS: i64 = 365;

impl Sent {
    /// What a draft has become.
    pub(crate) fn of(draft: &Draft, message: i64, sent_at: Timestamp) -> Self {
        let sort = keys::sent_sort(sent_at, draft.kind);
        Self {
            id: sort.strip_prefix(keys::SENT).unwrap_or(&sort).to_owned(),
            customer: draft.customer.clone(),
            kind: draft.kind,
            email: draft.email.as_ref().map(|email| email.typed().to_owned()),
            subject: draft.subject.clone(),
            content: draft.content.clone(),
            content_type: draft.content_type,
            sent_at,
            approved_by: draft.approvals.iter().map(|approval| approval.by.clone()).collect(),
            approved_at: draft.approved_at,
            drafted_at: draft.created_at,
            owed: draft.owed,
            invoices: draft.invoices.iter().map(|invoice| invoice.id.clone()).collect(),
            draft: draft.id.clone(),
            message,
            provider_message_id: None,
            delivery: Delivery::Sent,
        }
    }

    pub(crate) fn sort(&self) -> String {
        format!("{}{}", keys::SENT, self.id)
    }

    /// Writes it if it is not there.
    pub(crate) fn put(&self, txn: Txn) -> Txn {
        txn.put(&tables::EMAIL_TRACKING, self.to_item(), Expect::Absent)
    }

    fn to_item(&self) -> Item {
        let key = keys::sent(&self.customer, &self.sort());
        let mut item = tables::EMAIL_TRACKING.bare_item(&key);
        item.set("GSI1PK", keys::status("sent"));
        item.set("GSI1SK", time(self.sent_at));
        item.set("customer_id", self.customer.as_str());
        item.set("reminder_type", self.kind.as_str());
        item.set("status", "sent");
        item.set("sent_date", time(self.sent_at));
        // The seed has one; of several people the last one let it go.
        item.set("approved_by", self.approved_by.last().map_or("", String::as_str));
        item.set("approvers", texts(&self.approved_by));
        item.set("drafted_at", time(self.drafted_at));
        item.set("overdue_amount", self.owed.amount);
        item.set("currency", self.owed.currency.as_str());
        item.set("overdue_invoices", texts(&self.invoices));
        item.set("content_type", self.content_type.as_str());
        item.set("draft", self.draft.as_str());
        item.set("message_id", self.message);
        item.set("delivery_status", self.delivery.as_str());
        item.set("rev", 1_i64);
        item.set("ttl", ttl(self.sent_at, KEPT_DAYS));
        for (name, text) in [
            ("customer_email", &self.email),
            ("email_subject", &self.subject),
            ("email_content", &self.content),
            ("approved_at", &self.approved_at.map(time)),
            ("ses_message_id", &self.provider_message_id),
        ] {
            if let Some(text) = text {
                item.set(name, text.as_str());
            }
        }
        item
    }

    pub(crate) fn read(item: &Item) -> Result<Self, StoreError> {
        let reader = Reader(item);
        let sort = reader.text("SK")?.strip_prefix(keys::SENT).ok_or_else(|| damaged("SK"))?;
        let invoice = |id: String| id.parse().map_err(|_| damaged("overdue_invoices"));
        Ok(Self {
            id: sort.to_owned(),
            customer: reader.parsed("customer_id")?,
            kind: reader.parsed("reminder_type")?,
            email: reader.optional("customer_email"),
            subject: reader.optional("email_subject"),
            content: reader.optional("email_content"),
            content_type: item
                .text("content_type")
                .and_then(ContentType::parse)
                .unwrap_or(ContentType::Text),
            sent_at: reader.parsed("sent_date")?,
            approved_by: reader.texts("approvers"),
            approved_at: reader.optional_time("approved_at")?,
            drafted_at: reader.parsed("drafted_at")?,
            owed: reader.money("overdue_amount")?,
            invoices: reader
                .texts("overdue_invoices")
                .into_iter()
                .map(invoice)
                .collect::<Result<_, _>>()?,
            draft: reader.parsed("draft")?,
            message: reader.integer("message_id")?,
            provider_message_id: reader.optional("ses_message_id"),
            delivery: item
                .text("delivery_status")
                .and_then(Delivery::parse)
                .ok_or_else(|| damaged("delivery_status"))?,
        })
    }
}
