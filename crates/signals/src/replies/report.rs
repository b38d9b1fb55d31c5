//! What mail servers tell by mail: bounces and complaints, which over SMTP come no other way.
//!
//! Anybody can send us a report. It is believed if it gives back the Message-ID that we signed, which only who has had the
//! mail can know, and only of whom that mail was written to: so nobody can have another one suppressed. Not here: reading
//! the report (`mail::inbound`), and what an event changes (`events`), also of whoever is erased.

use tidings_access::Cx;
use tidings_delivery::ledger::Message;
use tidings_kernel::EmailAddress;
use tidings_mail::inbound::{Action, Fate, Report, Says};
use tidings_people::contacts::{self, ContactId};
use tidings_sql::DatabaseError;

use super::{Ignored, ReceiveError, Received, Replies, id_of, written_at};
use crate::events::{Bounce, Event, EventKind, Recorded, record_of};

impl Replies {
    /// The message of ours that a report is about. What the provider's id would say, anybody could.
    pub(super) async fn reported(&self, report: &Report) -> Result<Option<Message>, ReceiveError> {
        for id in report.about.iter().take(super::MAX_REFERENCES) {
            if let Some(found) = self.of_ours(id).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Records what a report says. The same report again is the same event.
    pub(super) async fn take_report(
        &self,
        cx: &Cx,
        (mime, report): (&[u8], Report),
        message: Option<Message>,
    ) -> Result<Received, ReceiveError> {
        let id = id_of(mime, report.message_id.as_ref());
        let Some(message) = message else {
            return self.ignore(&id, mime, Ignored::DeliveryReport).await;
        };
        let addressee = match message.email.as_deref().map(str::parse::<EmailAddress>) {
            Some(Ok(addressee)) => addressee,
            Some(Err(_)) => return self.ignore(&id, mime, Ignored::DeliveryReport).await,
            None => match erased_addressee(cx, &report.says, &message).await? {
                Some(addressee) => addressee,
                None => return Ok(Received::Ignored(Ignored::Erased)),
            },
        };
        // One who got a copy and is erased: the message does not name him any more, so it would be taken for the addressee's.
        for email in named(&report.says) {
            if email != addressee && contacts::was_erased(cx, &email).await? {
                return Ok(Received::Ignored(Ignored::Erased));
            }
        }
        let source = message.source;
        let has_copies = cx.database().read(move |tx| Message::names_others(tx, source));
        let has_copies: Result<bool, DatabaseError> = has_copies.await;
        let Some(kind) = happened(&report.says, &addressee, has_copies?) else {
            return self.ignore(&id, mime, Ignored::DeliveryReport).await;
        };
        let name = kind.as_str();
        // A writer of reports chooses their ids: one of another message is another report.
        let id = format!("report:{}:{id}", source.reference());
        let mut event = Event::new(id, kind, addressee, written_at(report.date, cx.now()));
        event.source = Some(source);
        event.provider_message_id.clone_from(&message.provider_message_id);
        event.keep_days = self.keep_days;
        Ok(match record_of(cx, event, Some(&message)).await? {
            Recorded::Now => Received::Told(name),
            Recorded::Before => Received::Before,
            Recorded::Erased => Received::Ignored(Ignored::Erased),
        })
    }
}

/// Whom a message was written to who is erased, if the report names him: a hash tells that it is he. Of one that names
/// nobody, as most complaints, nothing can be kept.
async fn erased_addressee(
    cx: &Cx,
    says: &Says,
    message: &Message,
) -> Result<Option<EmailAddress>, DatabaseError> {
    let named = named(says);
    let (within, contact) = (cx.clone(), ContactId::from(message.contact));
    let find = cx.database().read(move |tx| {
        for email in &named {
            if contacts::was_address_of(tx, &within, contact, email)? {
                return Ok(Some(email.clone()));
            }
        }
        Ok(None)
    });
    find.await
}

/// Whom a report names.
fn named(says: &Says) -> Vec<EmailAddress> {
    match says {
        Says::Delivery(fates) => fates.iter().flat_map(|fate| fate.recipients.clone()).collect(),
        Says::Complaint { recipients, .. } => recipients.clone(),
        Says::Other => Vec::new(),
    }
}

/// What a report says of whom the message was written to. `None` if that is nothing.
fn happened(says: &Says, addressee: &EmailAddress, has_copies: bool) -> Option<EventKind> {
    let fates = match says {
        // Most of those who pass complaints on do not say whose they are: where others got the message too, it may be theirs.
        Says::Complaint { .. } if has_copies => return None,
        Says::Complaint { feedback, .. } => {
            return Some(EventKind::Complaint { feedback: feedback.clone() });
        }
        Says::Delivery(fates) => fates,
        Says::Other => return None,
    };
    if let Some(fate) = fates.iter().find(|fate| fate.recipients.contains(addressee)) {
        return match fate.action {
            Action::Failed => Some(EventKind::Bounce(bounce(fate))),
            Action::Delayed => {
                let reason = fate.diagnostic.clone().or_else(|| fate.status.clone());
                Some(EventKind::Delay { reason })
            }
            Action::Other => None,
        };
    }
    // Nobody else got it from us: it was passed on to another address, or the report calls him by one. It did not
    // arrive, and that says nothing certain of the address that we know.
    match fates.as_slice() {
        [fate] if fate.action == Action::Failed && !has_copies => {
            let kind = "Undetermined".to_owned();
            Some(EventKind::Bounce(Bounce { kind, ..bounce(fate) }))
        }
        _ => None,
    }
}

/// The words of SES for what a status by RFC 3463 says: they are those of all other bounces.
fn bounce(fate: &Fate) -> Bounce {
    let mut digits = fate.status.as_deref().unwrap_or_default().split('.');
    let (class, subject, detail) = (digits.next(), digits.next(), digits.next());
    let place = (subject.unwrap_or_default(), detail.unwrap_or_default());
    let kind = match (class, place) {
        // It was tried for days, and its servers may answer tomorrow.
        (Some("4" | "5"), ("4", "7")) | (Some("4"), _) => "Transient",
        (Some("5"), _) => "Permanent",
        _ => "Undetermined",
    };
    let subkind = match place {
        ("2", "2") => "MailboxFull",
        ("2", "3") | ("3", "4") => "MessageTooLarge",
        // What the message says or who sends it, and not whom it is for.
        ("6" | "7", _) => "ContentRejected",
        _ => "General",
    };
    Bounce {
        kind: kind.to_owned(),
        subkind: subkind.to_owned(),
        status: fate.status.clone(),
        diagnostic: fate.diagnostic.clone(),
    }
}

#[cfg(test)]
mod tests {
    use tidings_mail::inbound::{Action, Fate, Says};

    use super::{EventKind, happened};

    #[test]
    fn a_report_counts_for_whom_the_message_was_written_to() {
        let check = |recipients: &[&str], status: &str, has_copies: bool, expected: &str| {
            let fate = Fate {
                recipients: recipients.iter().map(|one| one.parse().unwrap()).collect(),
                action: Action::Failed,
                status: Some(status.to_owned()),
                diagnostic: None,
            };
            let ada = "ada@example.org".parse().unwrap();
            let told = match happened(&Says::Delivery(vec![fate]), &ada, has_copies) {
                Some(EventKind::Bounce(bounce)) => {
                    format!("{} {}", bounce.kind, bounce.class().as_str())
                }
                Some(other) => panic!("{other:?}"),
                None => "nothing".to_owned(),
            };
            assert_eq!(told, expected, "{recipients:?} {status} {has_copies}");
        };
        check(&["ada@example.org"], "5.1.1", false, "Permanent hard");
        check(&["ada@example.org"], "5.1.1", true, "Permanent hard");
        check(&["ADA@example.org", "ada@corp.example"], "5.1.10", false, "Permanent hard");
        check(&["ada@example.org"], "5.0.0", false, "Permanent hard");
        check(&["ada@example.org"], "5.4.4", false, "Permanent hard");
        check(&["ada@example.org"], "4.4.1", false, "Transient soft");
        check(&["ada@example.org"], "4.4.7", false, "Transient soft");
        check(&["ada@example.org"], "5.4.7", false, "Transient soft");
        check(&["ada@example.org"], "5.2.2", false, "Permanent content");
        check(&["ada@example.org"], "5.3.4", false, "Permanent content");
        check(&["ada@example.org"], "5.7.1", false, "Permanent content");
        check(&["ada@example.org"], "nonsense", false, "Undetermined unknown");
        check(&["eve@example.org"], "5.1.1", false, "Undetermined unknown");
        check(&[], "5.1.1", false, "Undetermined unknown");
        check(&["eve@example.org"], "5.1.1", true, "nothing");
    }

    #[test]
    fn a_complaint_counts_only_if_nobody_else_got_the_message() {
        let ada = "ada@example.org".parse().unwrap();
        let complaint =
            Says::Complaint { feedback: Some("abuse".to_owned()), recipients: Vec::new() };
        assert!(matches!(happened(&complaint, &ada, false), Some(EventKind::Complaint { .. })));
        assert_eq!(happened(&complaint, &ada, true), None);
    }
}
