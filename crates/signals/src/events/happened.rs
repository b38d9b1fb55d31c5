//! What goes on the timeline of a person: what became of his mail, and what he did with it.

use jiff::Timestamp;
use serde_json::json;
use tidings_delivery::ledger::{Message, Source};
use tidings_jobs::happened::{Happened, by_email};
use tidings_kernel::EmailAddress;

use super::{Event, EventKind, rules};

pub(super) const OPENED: &str = "email.opened";
pub(super) const CLICKED: &str = "email.clicked";

/// The parameters of a link that name a product.
const PRODUCT: [&str; 3] = ["product", "product_id", "sku"];

/// `None` for what a machine did, for what is on the way still, and for what `people::consent` tells: that somebody left.
pub(super) fn of(event: &Event, message: Option<&Message>) -> Option<Happened> {
    let event_type = match &event.kind {
        EventKind::Delivery => "email.delivered",
        EventKind::Open if event.is_human() => OPENED,
        EventKind::Click if event.is_human() => CLICKED,
        EventKind::Bounce(_) => "email.bounced",
        kind @ EventKind::Complaint { .. } if rules::is_complaint(kind) => "email.complained",
        EventKind::Reply { automatic: false, unproven: false, .. } => "email.replied",
        _ => return None,
    };
    let about = About { id: &event.id, email: &event.email, at: event.occurred_at };
    let mut happened = about.happened(event_type, message, event.url.as_deref());
    match &event.kind {
        EventKind::Bounce(bounce) => {
            happened.payload.insert("permanent".to_owned(), bounce.is_final().into());
        }
        EventKind::Reply { subject: Some(subject), .. } => {
            happened.payload.insert("subject".to_owned(), subject.as_str().into());
        }
        _ => {}
    }
    Some(happened)
}

/// What a link says of what it leads to: a shop that wants to know who is interested in what names it there.
fn product(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    let mut said = url.query_pairs().filter(|(name, _)| PRODUCT.contains(&name.as_ref()));
    said.find_map(|(_, value)| (!value.trim().is_empty()).then(|| value.into_owned()))
}

/// An event as far as a timeline needs it.
pub(super) struct About<'a> {
    pub(super) id: &'a str,
    pub(super) email: &'a EmailAddress,
    pub(super) at: Timestamp,
}

impl About<'_> {
    pub(super) fn happened(
        &self,
        event_type: &'static str,
        message: Option<&Message>,
        url: Option<&str>,
    ) -> Happened {
        let kind = message.map(|message| match message.source {
            Source::Recipient(_) => "campaign",
            Source::Transactional(_) if message.sequence_id.is_some() => "sequence",
            Source::Transactional(_) => "transactional",
        });
        let of = |wanted: &str| {
            let message = message.filter(|_| kind == Some(wanted))?;
            message.sequence_id.as_deref()
        };
        let payload = json!({
            "kind": kind,
            "message": message.map(|message| message.source.reference()),
            "campaign": of("campaign"),
            "sequence": of("sequence"),
            "template": message.and_then(|message| message.template_key.as_deref()),
            "subject": message.and_then(|message| message.subject.as_deref()),
            "url": url,
            "product": url.and_then(product),
        });
        Happened {
            event_type,
            cause: self.id.to_owned(),
            who: by_email(self.email.as_str()),
            at: self.at,
            object_id: of("campaign")
                .or(of("sequence"))
                .map(ToOwned::to_owned)
                .or_else(|| message.map(|message| message.source.reference())),
            payload: payload.as_object().cloned().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::product;

    #[test]
    fn a_link_says_what_it_leads_to() {
        for (url, said) in [
            ("https://shop.example/p/7?utm_source=mail&product=tea%201kg", Some("tea 1kg")),
            ("https://shop.example/?sku=7", Some("7")),
            ("https://shop.example/?product=&product_id=9", Some("9")),
            ("https://shop.example/?productname=7", None),
            ("https://shop.example/tea", None),
            ("no link", None),
        ] {
            assert_eq!(product(url).as_deref(), said, "{url}");
        }
    }
}
