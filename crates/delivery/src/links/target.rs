//! Where a click may lead.

use url::Url;

/// Longer links are not tracked: mail programs and proxies cut them.
pub const MAX_TARGET_BYTES: usize = 2048;

/// Whether a click on this can lead past us: a web address with a host, and nothing in it that a header cannot hold.
pub fn is_target(text: &str) -> bool {
    if text.len() > MAX_TARGET_BYTES || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return false;
    }
    // The scheme as it is written: the parser would repair `https:example.org`, and browsers each in their own way.
    let is_web = ["https://", "http://"].iter().any(|scheme| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    is_web && Url::parse(text).is_ok_and(|url| url.has_host() && url.username().is_empty())
}

/// The target as a header has it: in ASCII, as a browser would write it.
pub fn location(target: &str) -> Option<String> {
    Url::parse(target).ok().map(String::from).filter(|_| is_target(target))
}
