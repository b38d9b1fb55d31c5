//! Whom a message names besides the person that it is for. It is written down with the message, so that an erasure finds
//! him there. Not here: what an erasure does with it (`people::contacts`).

use std::collections::BTreeSet;

use tidings_kernel::EmailAddress;

use super::request::Send;

/// A text of which more could be addresses than this is somebody's attempt to keep us busy.
const MOST_IN_TEXT: usize = 50;

/// Those who get a copy, the one to answer, and whoever is named in a header or in the key.
pub(super) fn named(send: &Send) -> BTreeSet<EmailAddress> {
    let mut all: BTreeSet<EmailAddress> = BTreeSet::new();
    all.extend(send.cc.iter().chain(&send.bcc).chain(&send.reply_to).cloned());
    let texts = send.headers.values().chain(&send.idempotency_key);
    all.extend(texts.flat_map(|text| addresses_in(text)));
    all.remove(&send.to);
    all
}

/// All that can be addresses in a text. Where one begins and ends in `order-7-ada@example.org-2` nobody can tell, so each
/// way is taken; what stands between spaces, colons, slashes and the like is one for sure.
fn addresses_in(text: &str) -> BTreeSet<EmailAddress> {
    let mut found = BTreeSet::new();
    let apart = |c: char| c.is_whitespace() || r#":;,<>()[]{}"'|/\&?=!*"#.contains(c);
    for word in text.split(apart) {
        let parts: Vec<&str> = word.split('@').collect();
        for pair in parts.windows(2) {
            for local in endings(pair[0]) {
                for domain in beginnings(pair[1]) {
                    if found.len() >= MOST_IN_TEXT {
                        return found;
                    }
                    found.extend(format!("{local}@{domain}").parse::<EmailAddress>().ok());
                }
            }
        }
    }
    found
}

const JOINTS: [char; 4] = ['-', '_', '#', '%'];

fn endings(text: &str) -> impl Iterator<Item = &str> {
    let later = text.match_indices(JOINTS).map(|(at, joint)| &text[at + joint.len()..]);
    std::iter::once(text).chain(later)
}

fn beginnings(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_end_matches('.');
    std::iter::once(text).chain(text.match_indices(JOINTS).map(|(at, _)| &text[..at]))
}

#[cfg(test)]
mod tests {
    use super::addresses_in;

    #[test]
    fn addresses_are_found_wherever_a_text_sets_them_off() {
        let check = |text: &str, address: &str| {
            let found = addresses_in(text);
            assert!(found.contains(&address.parse().unwrap()), "{text}: {found:?}");
        };
        for text in [
            "Ada@Example.org",
            "welcome:ada@example.org",
            "welcome-ada@example.org-2",
            "order_7_ada@example.org",
            "invite/ada@example.org/bob@example.org",
            "bob@example.org-ada@example.org",
            "<ada@example.org>, bob@example.org",
            "from ada@example.org.",
        ] {
            check(text, "ada@example.org");
        }
        check("bob@example.org-ada@example.org", "bob@example.org");
        check("ada-lovelace@my-shop.example.org", "ada-lovelace@my-shop.example.org");
        for text in ["", "order-7", "@", "ada@", "@example.org", "ada@localhost"] {
            assert!(addresses_in(text).is_empty(), "{text}");
        }
        assert!(addresses_in(&"a-@b.c-".repeat(10_000)).len() <= super::MOST_IN_TEXT);
    }
}
