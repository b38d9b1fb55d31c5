//! What a bounce and a complaint mean. Nothing here reads or writes.

use super::EventKind;

/// What the provider says of a message that came back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounce {
    /// `Permanent`, `Transient` or `Undetermined`.
    pub kind: String,
    /// `General`, `NoEmail`, `MailboxFull` and others.
    pub subkind: String,
    /// The code by RFC 3463, such as `5.1.1`.
    pub status: Option<String>,
    /// What the server said.
    pub diagnostic: Option<String>,
}

/// What a bounce says of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nobody can be reached there, now or later.
    Hard,
    /// Not this time. Many in a row say more.
    Soft,
    /// Something is wrong with the message or the mailbox is full: it says nothing of the address.
    Content,
    /// The provider does not know either.
    Unknown,
}

/// The message or the room in the mailbox, whatever the type says.
const CONTENT: [&str; 4] =
    ["MailboxFull", "MessageTooLarge", "ContentRejected", "AttachmentRejected"];

impl Bounce {
    /// Whether this message will certainly not arrive.
    pub fn is_final(&self) -> bool {
        self.kind.eq_ignore_ascii_case("Permanent")
    }

    /// What bounces are counted by: the class and the subtype, `hard/General`.
    pub(super) fn kind_of_bounce(&self) -> String {
        let is_word = |text: &str| {
            (1..=64).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric())
        };
        let subtype = Some(self.subkind.as_str()).filter(|text| is_word(text)).unwrap_or("Other");
        format!("{}/{subtype}", self.class().as_str())
    }

    pub fn class(&self) -> Class {
        let is = |text: &str, word: &str| text.eq_ignore_ascii_case(word);
        if CONTENT.iter().any(|word| is(&self.subkind, word)) {
            return Class::Content;
        }
        // The type decides alone: "General" is said of all three.
        match &self.kind {
            kind if is(kind, "Permanent") => Class::Hard,
            kind if is(kind, "Transient") => Class::Soft,
            // "Message expired": its servers did not answer for days, and may do so tomorrow.
            _ if self.status.as_deref() == Some("4.4.7") => Class::Soft,
            _ => Class::Unknown,
        }
    }
}

impl Class {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::Content => "content",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether somebody complained. `not-spam` is the opposite: a person took the message out of the spam.
pub(super) fn is_complaint(kind: &EventKind) -> bool {
    match kind {
        EventKind::Complaint { feedback } => {
            !feedback.as_deref().is_some_and(|feedback| feedback.eq_ignore_ascii_case("not-spam"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounce, Class};

    fn check(kind: &str, subkind: &str, status: &str, class: Class) {
        let status = Some(status.to_owned()).filter(|status| !status.is_empty());
        let bounce =
            Bounce { kind: kind.into(), subkind: subkind.into(), status, diagnostic: None };
        assert_eq!(bounce.class(), class, "{kind} {subkind}");
    }

    #[test]
    fn the_type_of_a_bounce_decides_and_not_its_subtype() {
        check("Permanent", "General", "5.1.1", Class::Hard);
        check("Permanent", "NoEmail", "", Class::Hard);
        check("Permanent", "Suppressed", "", Class::Hard);
        check("Permanent", "OnAccountSuppressionList", "", Class::Hard);
        check("Transient", "General", "", Class::Soft);
        check("Transient", "CustomTimeoutExceeded", "", Class::Soft);
        check("transient", "general", "4.2.0", Class::Soft);
        check("Undetermined", "Undetermined", "", Class::Unknown);
        check("", "", "", Class::Unknown);
    }

    #[test]
    fn what_is_wrong_with_a_message_says_nothing_of_the_address() {
        for subkind in ["MailboxFull", "MessageTooLarge", "ContentRejected", "AttachmentRejected"] {
            check("Transient", subkind, "", Class::Content);
            check("Permanent", subkind, "5.3.4", Class::Content);
        }
    }

    #[test]
    fn a_message_that_expired_on_its_way_is_a_soft_bounce_unless_the_provider_calls_it_permanent() {
        check("Permanent", "General", "4.4.7", Class::Hard);
        check("Transient", "General", "4.4.7", Class::Soft);
        check("Undetermined", "General", "4.4.7", Class::Soft);
    }
}
