//! The keys of a subscriber's items in the main table and of his events, as seed 000 has them.

use jiff::Timestamp;
use tidings_kernel::{EmailAddress, Key};

pub const PROFILE: &str = "PROFILE";
pub const SUPPRESSION: &str = "SUPPRESSION";

/// The partition of everything about one subscriber, in the main table and in that of the events.
pub fn subscriber(email: &EmailAddress) -> String {
    format!("SUB#{email}")
}

pub fn profile(email: &EmailAddress) -> Key {
    Key::new(subscriber(email), PROFILE)
}

pub fn suppression(email: &EmailAddress) -> Key {
    Key::new(subscriber(email), SUPPRESSION)
}

/// When a suppression was lifted, so that a bounce from before does not bring it back.
pub fn lifted(email: &EmailAddress) -> Key {
    Key::new(subscriber(email), "SUPPRESSION_LIFTED")
}

/// The transient bounces of late, and the deliveries between them.
pub fn bounces(email: &EmailAddress) -> Key {
    Key::new(subscriber(email), "BOUNCES")
}

/// The partition that lists all suppressions, by address.
pub const SUPPRESSIONS: &str = "SUPPRESSIONS";

pub fn suppression_entry(email: &EmailAddress) -> Key {
    Key::new(SUPPRESSIONS, subscriber(email))
}

/// One of a subscriber's tags, in the index of the tag.
pub fn tag(tag: &str, email: &EmailAddress) -> Key {
    Key::new(tag_partition(tag), subscriber(email))
}

pub fn tag_partition(tag: &str) -> String {
    format!("TAG#{tag}")
}

/// A line of the send log.
pub fn sent(email: &EmailAddress, at: Timestamp) -> Key {
    Key::new(subscriber(email), format!("SENT#{}", time(at)))
}

/// A time as the keys and attributes of the items have it: `2026-03-17T10:30:00.000Z`. It sorts as it reads.
pub fn time(at: Timestamp) -> String {
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::{sent, tag, time};

    #[test]
    fn keys_are_those_of_the_seed() {
        let email = "User@Example.com".parse().unwrap();
        let at = "2026-03-17T10:30:00Z".parse().unwrap();
        assert_eq!(
            sent(&email, at).to_string(),
            "SUB#user@example.com / SENT#2026-03-17T10:30:00.000Z"
        );
        assert_eq!(tag("beta", &email).to_string(), "TAG#beta / SUB#user@example.com");
        assert_eq!(
            time("2026-03-17T10:30:00.123456Z".parse().unwrap()),
            "2026-03-17T10:30:00.123Z"
        );
    }
}
