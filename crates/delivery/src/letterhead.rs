//! What stands above the mails that people can leave: how they are left with one click, which list they are of, and what
//! providers count complaints by.
//!
//! Campaigns and sequences write it alike. Not here: how it looks in a mail (`mail::letter`), and what a link does
//! (`signals::tracking`).

use tidings_kernel::EmailAddress;
use tidings_mail::{Kind, ListUnsubscribe};

use crate::links::{Addressee, Links};

/// A mail that can be left with one click, sent from this address.
pub fn marketing(links: &Links, to: &Addressee, from: &EmailAddress) -> Kind {
    Kind::Marketing {
        list_unsubscribe: ListUnsubscribe { url: links.unsubscribe(to), mailto: None },
        list_id: Some(list_id(to, from)),
    }
}

/// A list is what one can leave with one click: the audience, or else all that the client sends.
fn list_id(to: &Addressee, from: &EmailAddress) -> String {
    let list = match to.audience {
        Some(audience) => format!("audience-{audience}"),
        None => format!("client-{}", to.client),
    };
    format!("{list}.w{}.{}", to.workspace, domain(from))
}

pub fn domain(from: &EmailAddress) -> &str {
    from.as_str().rsplit_once('@').map_or("localhost", |(_, domain)| domain)
}

/// What Gmail counts complaints by: what was sent (a campaign, a sequence, a template), the workspace, the kind and the
/// sender.
pub fn feedback_id(what: &str, workspace: i64, kind: &str, sender: Option<&str>) -> String {
    let sender = sender.map_or("default".to_owned(), word);
    format!("{}:{workspace}:{kind}:{sender}", word(what))
}

fn word(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    text.chars().take(60).map(plain).collect()
}
