//! A draft as an item.

use serde_json::json;
use tidings_delivery::canonical;
use tidings_kernel::{
    Condition, EmailAddress, Expect, Item, Number, StoreError, Txn, Value, tables,
};

use super::values::{
    Reader, damaged, invoices, map, number_of, read_invoices, text_of, texts, time, time_of, ttl,
};
use super::{Approval, ContentType, Draft, Edition, Status, TemplateRef};
use crate::ids::InvoiceId;
use crate::keys;
use crate::money::{Currency, Money};
use crate::record::{Invoice, Last};

/// So long a draft is kept, and what is approved or being sent.
const KEPT_DAYS: i64 = 30;
const SENDING_DAYS: i64 = 365;

/// Of all that is approved: change any of it, and the approval is of something else.
pub(crate) fn hash_of(draft: &Draft) -> String {
    let ids: Vec<&str> = draft.invoices.iter().map(|invoice| invoice.id.as_str()).collect();
    canonical::hash(&json!({
        "to": draft.email.as_ref().map(EmailAddress::as_str),
        "subject": draft.subject,
        "content": draft.content,
        "content_type": draft.content_type.as_str(),
        "amount": draft.owed.amount.to_string(),
        "currency": draft.owed.currency.as_str(),
        "invoices": ids,
    }))
}

impl Draft {
    /// Writes it if nobody else has in the meantime. A new one has no revision yet.
    pub(crate) fn put(&self, txn: Txn) -> Txn {
        let expect = match self.rev {
            0 => Expect::Absent,
            rev => Expect::That(Condition::eq("rev", rev)),
        };
        txn.put(&tables::EMAIL_TRACKING, self.to_item(), expect)
    }

    /// What it asks for.
    pub(crate) fn asked(&self) -> (&Money, &[Invoice]) {
        (&self.owed, &self.invoices)
    }

    /// Whether it asks for this invoice.
    pub(crate) fn names(&self, invoice: &InvoiceId) -> bool {
        self.invoices.iter().any(|one| one.id == *invoice)
    }

    fn to_item(&self) -> Item {
        let mut item = tables::EMAIL_TRACKING.bare_item(&keys::draft(&self.id));
        // What was sent has a record of its own in the index.
        if self.status != Status::Sent {
            let at = if self.status == Status::Draft { self.created_at } else { self.changed_at };
            item.set("GSI1PK", keys::status(self.status.as_str()));
            item.set("GSI1SK", time(at));
        }
        item.set("customer_id", self.customer.as_str());
        item.set("reminder_type", self.kind.as_str());
        item.set("status", self.status.as_str());
        item.set("created_date", time(self.created_at));
        item.set("created_by", self.created_by.as_str());
        item.set("overdue_amount", self.owed.amount);
        item.set("overdue_invoices", texts(self.invoices.iter().map(|invoice| &invoice.id)));
        item.set("currency", self.owed.currency.as_str());
        item.set("invoice_facts", invoices(&self.invoices));
        item.set("content_type", self.content_type.as_str());
        item.set("content_hash", self.hash.as_str());
        item.set("edition", self.edition);
        item.set("rev", self.rev + 1);
        item.set("approvals", Value::L(self.approvals.iter().map(approval).collect()));
        item.set("approvals_needed", i64::from(self.approvals_needed));
        item.set("expires_at", time(self.expires_at));
        item.set("changed_at", time(self.changed_at));
        item.set("editions", Value::L(self.editions.iter().map(edition).collect()));
        let email = self.email.as_ref().map(|email| email.typed().to_owned());
        for (name, text) in [
            ("customer_name", &self.name),
            ("customer_email", &email),
            ("email_subject", &self.subject),
            ("email_content", &self.content),
            ("reason", &self.reason),
            ("decided_by", &self.decided_by),
            ("approved_at", &self.approved_at.map(time)),
            ("sent", &self.sent),
            ("sent_with_sender", &self.sender),
        ] {
            if let Some(text) = text {
                item.set(name, text.as_str());
            }
        }
        for (name, number) in [("message_id", self.message), ("sent_with_client", self.client)] {
            if let Some(number) = number {
                item.set(name, number);
            }
        }
        if let Some(template) = &self.template {
            item.set(
                "template",
                map([("id", template.id.as_str().into()), ("version", template.version.into())]),
            );
        }
        if let Some(before) = &self.before {
            item.set("last_before", before.to_value());
        }
        let kept = ttl(self.created_at, KEPT_DAYS);
        item.set(
            "ttl",
            match self.status {
                // Whoever approved it counts on it, however long nobody sends.
                Status::Approved | Status::Sending => ttl(self.changed_at, SENDING_DAYS),
                // What comes back of a mail most often comes within a day.
                Status::Sent | Status::Failed | Status::Withdrawn => {
                    kept.max(ttl(self.changed_at, 1))
                }
                Status::Draft | Status::Rejected | Status::Expired | Status::Superseded => kept,
            },
        );
        item
    }

    pub(crate) fn read(item: &Item) -> Result<Self, StoreError> {
        let reader = Reader(item);
        let sort = reader.text("SK")?.strip_prefix("DRAFT#").ok_or_else(|| damaged("SK"))?;
        let owed = reader.money("overdue_amount")?;
        let read_approval =
            |value: &Value| read_approval(value).ok_or_else(|| damaged("approvals"));
        let read_edition =
            |value: &Value| read_edition(value, owed.currency).ok_or_else(|| damaged("editions"));
        let template = match item.get("template") {
            Some(Value::M(fields)) => text_of(fields, "id")
                .zip(number_of(fields, "version").and_then(Number::to_i64))
                .map(|(id, version)| TemplateRef { id, version }),
            _ => None,
        };
        Ok(Self {
            id: sort.parse().map_err(|_| damaged("SK"))?,
            customer: reader.parsed("customer_id")?,
            name: reader.optional("customer_name"),
            email: item
                .text("customer_email")
                .map(|_| reader.parsed("customer_email"))
                .transpose()?,
            subject: reader.optional("email_subject"),
            content: reader.optional("email_content"),
            content_type: item
                .text("content_type")
                .and_then(ContentType::parse)
                .unwrap_or(ContentType::Text),
            kind: reader.parsed("reminder_type")?,
            status: reader.parsed("status")?,
            reason: reader.optional("reason"),
            created_at: reader.parsed("created_date")?,
            created_by: reader.text("created_by")?.to_owned(),
            owed,
            invoices: read_invoices(reader, "invoice_facts", owed.currency)?,
            template,
            hash: reader.text("content_hash")?.to_owned(),
            edition: reader.integer("edition")?,
            approvals: reader
                .list("approvals")
                .iter()
                .map(read_approval)
                .collect::<Result<_, _>>()?,
            approvals_needed: u32::try_from(reader.integer("approvals_needed")?).unwrap_or(1),
            approved_at: reader.optional_time("approved_at")?,
            decided_by: reader.optional("decided_by"),
            expires_at: reader.parsed("expires_at")?,
            changed_at: reader.parsed("changed_at")?,
            message: item.integer("message_id"),
            sent: reader.optional("sent"),
            editions: reader.list("editions").iter().map(read_edition).collect::<Result<_, _>>()?,
            before: item.get("last_before").map(|v| Last::read(v, "last_before")).transpose()?,
            client: item.integer("sent_with_client"),
            sender: reader.optional("sent_with_sender"),
            rev: reader.integer("rev")?,
        })
    }
}

fn approval(one: &Approval) -> Value {
    map([
        ("by", one.by.as_str().into()),
        ("actor", one.actor.as_str().into()),
        ("at", time(one.at).into()),
        ("hash", one.hash.as_str().into()),
        ("edition", one.edition.into()),
    ])
}

fn read_approval(value: &Value) -> Option<Approval> {
    let Value::M(fields) = value else { return None };
    Some(Approval {
        by: text_of(fields, "by")?,
        actor: text_of(fields, "actor")?,
        at: time_of(fields, "at")?,
        hash: text_of(fields, "hash")?,
        edition: number_of(fields, "edition")?.to_i64()?,
    })
}

fn edition(one: &Edition) -> Value {
    map([
        ("edition", one.edition.into()),
        ("hash", one.hash.as_str().into()),
        ("by", one.replaced_by.as_str().into()),
        ("at", time(one.replaced_at).into()),
        ("subject", one.subject.as_str().into()),
        ("content", one.content.as_str().into()),
        ("amount", one.amount.amount.into()),
        ("currency", one.amount.currency.as_str().into()),
    ])
}

fn read_edition(value: &Value, else_: Currency) -> Option<Edition> {
    let Value::M(fields) = value else { return None };
    let currency = text_of(fields, "currency").and_then(|code| code.parse().ok());
    Some(Edition {
        edition: number_of(fields, "edition")?.to_i64()?,
        hash: text_of(fields, "hash")?,
        replaced_by: text_of(fields, "by")?,
        replaced_at: time_of(fields, "at")?,
        subject: text_of(fields, "subject")?,
        content: text_of(fields, "content")?,
        amount: Money { amount: number_of(fields, "amount")?, currency: currency.unwrap_or(else_) },
    })
}
