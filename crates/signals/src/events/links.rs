//! The links of a campaign: which one a click is counted under, and how often a message had it.

use tidings_delivery::breakdown::{LINK_COUNT, Link, MAX_LINKS, OTHER, URL, keys};
use tidings_kernel::{Condition, Item, ItemStore, StoreError, tables};

use super::store::bounded;

/// The longest address of a link that is kept.
const MAX_URL: usize = 2_048;

/// What a message knows of one of its links: how often it was clicked, and how often by a person.
#[derive(Debug, Clone)]
pub(super) struct Clicks {
    pub(super) clicks: String,
    pub(super) human: String,
}

/// Under which link a click is counted.
pub(super) async fn find(
    items: &dyn ItemStore,
    campaign: &str,
    url: &str,
    email: &str,
) -> Result<Link, StoreError> {
    let other = Link { label: OTHER.to_owned(), url: None, is_new: false };
    let Some(url) = impersonal(url, email) else { return Ok(other) };
    let label = keys::label(&url);
    let wanted = [keys::link(campaign, &label), keys::links(campaign)];
    let mut found = items.batch_get(&tables::MAIN, &wanted).await?.into_iter();
    let (link, links) = (found.next().flatten(), found.next().flatten());
    let count = links.and_then(|item| item.integer(LINK_COUNT)).unwrap_or(0);
    match link {
        Some(link) => {
            let url = link.text(URL).map_or(url, ToOwned::to_owned);
            Ok(Link { label, url: Some(url), is_new: false })
        }
        None if count >= MAX_LINKS => Ok(other),
        None => Ok(Link { label, url: Some(url), is_new: true }),
    }
}

/// The address of a link without what would tell whose it was: the numbers of a campaign outlive its people.
fn impersonal(url: &str, email: &str) -> Option<String> {
    let names = |part: &str| decoded(part).to_lowercase().contains(&email.to_lowercase());
    let url = bounded(url, MAX_URL);
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let host = match path.match_indices('/').nth(2) {
        Some((end, _)) => &path[..end],
        None => path,
    };
    [url, path, host].into_iter().find(|part| !names(part)).map(ToOwned::to_owned)
}

/// With `%40` read as `@`, and so on.
fn decoded(text: &str) -> String {
    let query = format!("x={}", text.replace(['&', '='], " ").replace('+', "%2B"));
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

impl Clicks {
    /// The names of the numbers that a message has of a link.
    pub(super) fn of(label: &str) -> Self {
        Self { clicks: format!("linkClicks#{label}"), human: format!("linkHumanClicks#{label}") }
    }

    /// What goes up by one, in the link and (with the condition that decides who was first) in the message.
    pub(super) fn counted(&self, known: Option<&Item>, human: bool) -> Counted<'_> {
        let mut counted = Counted { changes: Vec::new(), names: Vec::new(), expected: Vec::new() };
        counted.one(known, &self.clicks, ("clickCount", "uniqueClickCount"));
        if human {
            counted.one(known, &self.human, ("humanClickCount", "uniqueHumanClickCount"));
        }
        counted
    }
}

/// What a click changes.
pub(super) struct Counted<'a> {
    /// Of the link.
    pub(super) changes: Vec<(&'static str, i64)>,
    /// Of the message.
    pub(super) names: Vec<&'a str>,
    /// How the message must be for that.
    pub(super) expected: Vec<Condition>,
}

impl<'a> Counted<'a> {
    fn one(
        &mut self,
        known: Option<&Item>,
        name: &'a str,
        (count, unique): (&'static str, &'static str),
    ) {
        self.changes.push((count, 1));
        if known.and_then(|item| item.integer(name)).unwrap_or(0) == 0 {
            self.changes.push((unique, 1));
        }
        self.names.push(name);
        self.expected.push(unchanged(known, name));
    }
}

/// That a number of a message is as it was read in what matters: whether it is nought. A verdict can be revised, and a
/// number be nought again.
pub(super) fn unchanged(known: Option<&Item>, name: &str) -> Condition {
    if known.and_then(|item| item.integer(name)).unwrap_or(0) > 0 {
        Condition::Gt(name.into(), 0.into())
    } else {
        Condition::not_exists(name).or(Condition::eq(name, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::impersonal;

    #[test]
    fn a_link_is_kept_without_the_address_of_whom_it_was_for() {
        let check = |url: &str, kept: Option<&str>| {
            assert_eq!(impersonal(url, "ada+x@example.org").as_deref(), kept, "{url}");
        };
        check(
            "https://shop.test/a?utm_source=mail&p=1",
            Some("https://shop.test/a?utm_source=mail&p=1"),
        );
        check("https://shop.test/a?u=ada+x@example.org&p=1", Some("https://shop.test/a"));
        check("https://shop.test/a?u=Ada%2Bx%40example.org", Some("https://shop.test/a"));
        check("https://shop.test/a#ada+x@example.org", Some("https://shop.test/a"));
        check("https://shop.test/ada%2bx@example.org/a?p=1", Some("https://shop.test"));
        check("https://ada+x@example.org/a", None);
        check("", Some(""));
    }
}
