//! What a post may be. All that is wrong with one is told at once.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::{MAX_USERS, NewPost, To};
use crate::keys::{Category, UserId};
use crate::records::{Content, json as items};
use crate::ttl::Ttl;
use crate::wrong::{Wrong, Wrongs};

const MAX_TITLE: usize = 200;
const MAX_LABEL: usize = 100;
const MAX_SENDER: usize = 128;
const MAX_HOST_ID: usize = 200;
const MAX_URI: usize = 2_048;
const MAX_BODY: usize = 64 * 1024;
/// A post can wait so long for its time.
const MAX_WAIT: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Where a link of one of these leads, it does something to the page that shows it.
const DANGEROUS: [&str; 8] =
    ["javascript", "data", "vbscript", "file", "blob", "filesystem", "about", "view-source"];

/// A post that can be accepted.
#[derive(Debug)]
pub(super) struct Checked {
    /// Nobody twice; `None` means everyone.
    pub(super) uids: Option<Vec<UserId>>,
    pub(super) label: Option<String>,
    pub(super) category: Option<Category>,
    pub(super) content: Content,
    pub(super) host_system_id: Option<String>,
    /// Only if it is yet to come.
    pub(super) send_at: Option<Timestamp>,
    pub(super) expires_in: Option<Ttl>,
    pub(super) sender: String,
    /// The same for the same request, whatever the order of its users and whoever sends it.
    pub(super) fingerprint: String,
}

pub(super) fn check(new: NewPost, now: Timestamp) -> Result<Checked, Vec<Wrong>> {
    let mut wrongs = Wrongs::default();
    let uids = match &new.to {
        To::Everyone => None,
        To::Users(uids) => Some(users(uids, &mut wrongs)),
    };
    if let Some(label) = &new.label {
        wrongs.text("to.label", label, (1, MAX_LABEL));
    }
    let category = new.category.as_deref();
    let category = category.and_then(|name| wrongs.take("category", name.parse::<Category>()));
    wrongs.text("title", &new.title, (1, MAX_TITLE));
    wrongs.text("sender", &new.sender, (1, MAX_SENDER));
    if let Some(id) = &new.host_system_id {
        wrongs.text("host_system_id", id, (1, MAX_HOST_ID));
    }
    // The order matters: how deep it is is found out before it is written down again.
    match items::to_value(&new.body) {
        Err(error) => wrongs.add("body", error.to_string()),
        Ok(_) if new.body.to_string().len() > MAX_BODY => {
            wrongs.add("body", "must have at most 64 KB as JSON");
        }
        Ok(_) => {}
    }
    if let Some(uri) = &new.cta_uri
        && let Err(why) = check_uri(uri)
    {
        wrongs.add("cta_uri", why);
    }
    if new.send_at.is_some_and(|at| at.duration_since(now) > MAX_WAIT) {
        wrongs.add("send_at", "must be within a year from now");
    }
    let expires_in = new.expires_in.as_deref();
    let expires_in = expires_in.and_then(|time| wrongs.take("expires_in", time.parse::<Ttl>()));
    wrongs.into_result()?;
    let fingerprint = fingerprint(&new, uids.as_deref());
    Ok(Checked {
        uids,
        label: new.label,
        category,
        content: Content { title: new.title, body: new.body, cta_uri: new.cta_uri },
        host_system_id: new.host_system_id,
        send_at: new.send_at.map(tidings_access::in_millis).filter(|at| *at > now),
        expires_in,
        sender: new.sender,
        fingerprint,
    })
}

/// Each of them once, in the order in which they came.
fn users(named: &[String], wrongs: &mut Wrongs) -> Vec<UserId> {
    if named.is_empty() {
        wrongs.add("to.users", "must have at least one user");
    }
    if named.len() > MAX_USERS {
        wrongs.add("to.users", format!("must have at most {MAX_USERS} users"));
        return Vec::new();
    }
    let mut seen = HashSet::with_capacity(named.len());
    let mut uids = Vec::with_capacity(named.len());
    for (place, uid) in named.iter().enumerate() {
        if !seen.insert(uid.as_str()) {
            continue;
        }
        match uid.parse::<UserId>() {
            Ok(uid) => uids.push(uid),
            Err(error) => wrongs.add(format!("to.users[{place}]"), error.to_string()),
        }
    }
    uids
}

/// Where a link may lead: to a page, to a place of the app that shows it, or into another app.
pub fn check_uri(uri: &str) -> Result<(), &'static str> {
    if uri.is_empty() || uri.chars().count() > MAX_URI {
        return Err("must have 1 to 2048 characters");
    }
    // Browsers pass over some of these, and read a scheme that was not there.
    if uri.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("must have no spaces, control characters and backslashes");
    }
    let first = uri.find(['/', '?', '#']).map_or(uri, |end| &uri[..end]);
    let Some((scheme, _)) = first.split_once(':') else { return Ok(()) };
    let scheme = scheme.to_ascii_lowercase();
    let well_formed = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    match scheme.as_str() {
        "http" | "https" if Url::parse(uri).is_ok_and(|url| url.has_host()) => Ok(()),
        "http" | "https" => Err("must be a whole address like https://example.org/page"),
        scheme if DANGEROUS.contains(&scheme) => Err("must lead to a page or into an app"),
        _ if well_formed => Ok(()),
        _ => Err("must be a page's address, a path, or an address of an app"),
    }
}

fn fingerprint(new: &NewPost, uids: Option<&[UserId]>) -> String {
    let mut uids = uids.map(|uids| uids.iter().map(UserId::as_str).collect::<Vec<_>>());
    if let Some(uids) = &mut uids {
        uids.sort_unstable();
    }
    let request = json!({
        "users": uids,
        "label": new.label,
        "category": new.category,
        "title": new.title,
        "body": new.body,
        "cta_uri": new.cta_uri,
        "send_at": new.send_at.map(|at| at.as_millisecond()),
        "expires_in": new.expires_in,
    });
    tidings_kernel::hex(&Sha256::digest(request.to_string()))
}

#[cfg(test)]
mod tests {
    use super::check_uri;

    #[test]
    fn a_link_leads_to_a_page_or_into_an_app() {
        for good in [
            "https://example.org/a?b#c",
            "HTTP://example.org",
            "/orders/5",
            "orders/5:6",
            "?tab=news",
            "#top",
            "//example.org/a",
            "myapp://orders/5",
            "com.example.app:orders",
            "mailto:help@example.org",
        ] {
            assert_eq!(check_uri(good), Ok(()), "{good}");
        }
        let long = format!("/{}", "x".repeat(2_048));
        for bad in [
            "",
            long.as_str(),
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            " javascript:alert(1)",
            "java\nscript:alert(1)",
            "java\tscript:alert(1)",
            "\u{1}javascript:alert(1)",
            "data:text/html,hello",
            "DATA:text/html,hello",
            "vbscript:x",
            "blob:https://example.org/1",
            "file:///etc/passwd",
            "https://",
            "https:\\\\example.org",
            "1app:x",
        ] {
            assert!(check_uri(bad).is_err(), "{bad:?}");
        }
    }
}
