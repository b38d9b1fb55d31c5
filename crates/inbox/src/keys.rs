//! Where the items of inboxes are, as seed 001 has it, and the names that its keys are made of.
//!
//! `#` parts a key, so no name can have one: then no name of one tenant, user or inbox can mean another one's items.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidings_kernel::{Key, Workspace};

use crate::ids::MessageId;

/// What public messages have in the place of a user.
pub const PUBLIC: &str = "$public";
/// The sort key of the counts of a whole partition.
pub const ALL: &str = "c#*";
/// What the sort keys of messages and receipts begin with.
pub const MESSAGES: &str = "m#";
/// What the sort keys of counts begin with, those of the whole partition among them.
pub const COUNTS: &str = "c#";
/// What the sort keys of inbox configurations begin with.
pub const CONFIGURATIONS: &str = "si#";
/// What the sort keys of those who say which inboxes there are begin with.
pub const NOTED: &str = "sk#";
/// What those begin with who say that a user was forgotten or signed out.
pub(crate) const FORGOTTEN: &str = "sf#";
/// What the sort keys of posts begin with.
pub const POSTS: &str = "p#";
/// What the sort keys of posts begin with that are not accepted yet.
pub const DRAFTS: &str = "d#";
/// So many users are in one page of a post.
pub const PAGE: usize = 1_000;

const MAX_CHARACTERS: usize = 128;
/// A thousand of them fit into an item, and one into the key of a timer.
const MAX_BYTES: usize = 256;
const MAX_CATEGORY: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error(
        "the key of an inbox has 1 to 128 characters (at most 256 bytes), without # and control characters"
    )]
    Inbox,
    #[error(
        "the id of a user has 1 to 128 characters (at most 256 bytes), without # and control characters, and is not $public"
    )]
    User,
    #[error("a category has 1 to 64 letters, digits, full stops, hyphens and underscores")]
    Category,
}

/// Names that a key can be made of, each a type of its own. A macro, because names that are one type would be mixed up one day.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident, $error:expr, $fits:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                if $fits(text) { Ok(Self(text.to_owned())) } else { Err($error) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                if $fits(&text) { Ok(Self(text)) } else { Err($error) }
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// Which of a tenant's inboxes.
    InboxKey, NameError::Inbox, is_name;
    /// Who a user is, in the words of the app that he uses.
    UserId, NameError::User, |text: &str| is_name(text) && text != PUBLIC;
    /// What kind of message it is. Messages are counted by it, and may live shorter or longer because of it.
    Category, NameError::Category, is_category;
}

fn is_name(text: &str) -> bool {
    // What no queue can carry cannot be a name either.
    let fits = |c: char| c != '#' && !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    (1..=MAX_BYTES).contains(&text.len())
        && !text.trim().is_empty()
        && text.chars().count() <= MAX_CHARACTERS
        && text.chars().all(fits)
}

fn is_category(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=MAX_CATEGORY).contains(&text.len()) && text.chars().all(fits)
}

/// What is of the tenant as a whole.
pub fn tenant(tenant: &Workspace) -> String {
    format!("t#{tenant}")
}

/// All of one user in one inbox.
pub fn user(tenant: &Workspace, inbox: &InboxKey, uid: &UserId) -> String {
    format!("t#{tenant}U#{uid}#{inbox}")
}

/// All that is for everyone in one inbox.
pub fn public(tenant: &Workspace, inbox: &InboxKey) -> String {
    format!("t#{tenant}G#{PUBLIC}#{inbox}")
}

/// What was posted to one inbox.
pub fn posts(tenant: &Workspace, inbox: &InboxKey) -> String {
    format!("t#{tenant}P#{inbox}")
}

pub fn tenant_settings(of: &Workspace) -> Key {
    Key::new(tenant(of), "st#tenant_settings")
}

pub fn configuration(of: &Workspace, inbox: &InboxKey) -> Key {
    Key::new(tenant(of), format!("{CONFIGURATIONS}{inbox}"))
}

/// That an inbox has messages, and of which categories.
pub fn categories(of: &Workspace, inbox: &InboxKey) -> Key {
    Key::new(tenant(of), format!("{NOTED}{inbox}"))
}

/// How far counting anew has come.
pub fn patrol(of: &Workspace) -> Key {
    Key::new(tenant(of), "sp#patrol")
}

/// That a user was forgotten or signed out whose id has this hash.
pub fn forgotten(of: &Workspace, hash: &str) -> Key {
    Key::new(tenant(of), format!("{FORGOTTEN}{hash}"))
}

/// A message or a receipt, in the partition of a user or in the public one.
pub fn message(partition: &str, id: &MessageId) -> Key {
    Key::new(partition, format!("{MESSAGES}{id}"))
}

/// The counts of a whole partition.
pub fn counts(partition: &str) -> Key {
    Key::new(partition, ALL)
}

/// The counts of one category of a partition.
pub fn category_counts(partition: &str, category: &Category) -> Key {
    Key::new(partition, format!("{COUNTS}{category}"))
}

/// What expires next in the partition of a user.
pub fn expiring(partition: &str) -> Key {
    Key::new(partition, "e#next")
}

/// That a message or receipt that has expired was counted out.
pub fn counted_out(partition: &str, id: &MessageId) -> Key {
    Key::new(partition, format!("x#{MESSAGES}{id}"))
}

pub fn post(tenant: &Workspace, inbox: &InboxKey, id: &MessageId) -> Key {
    Key::new(posts(tenant, inbox), format!("{POSTS}{id}"))
}

/// That a post may come whose users are written already.
pub fn draft(tenant: &Workspace, inbox: &InboxKey, id: &MessageId) -> Key {
    Key::new(posts(tenant, inbox), format!("{DRAFTS}{id}"))
}

/// Of which categories there are posts in one inbox.
pub fn all_filed(tenant: &Workspace, inbox: &InboxKey) -> String {
    format!("t#{tenant}C#{inbox}")
}

/// That there is a post of a category.
pub fn filed(tenant: &Workspace, inbox: &InboxKey, category: &Category, id: &MessageId) -> Key {
    Key::new(all_filed(tenant, inbox), format!("{category}#{id}"))
}

/// Whom a post is for.
pub fn all_recipients(tenant: &Workspace, inbox: &InboxKey, id: &MessageId) -> String {
    format!("t#{tenant}P#{inbox}#{id}")
}

/// Whom a post is for: the page of this number, from 1.
pub fn recipients(tenant: &Workspace, inbox: &InboxKey, id: &MessageId, page: usize) -> Key {
    Key::new(all_recipients(tenant, inbox, id), format!("u#{page:05}"))
}

/// That a request was accepted before.
pub fn host(tenant: &Workspace, inbox: &InboxKey, host_system_id: &str) -> Key {
    Key::new(format!("t#{tenant}H#{inbox}"), format!("h#{host_system_id}"))
}

/// Wakes a post that was scheduled.
pub fn timer(inbox: &InboxKey, id: &MessageId) -> String {
    format!("inbox-post/{inbox}/{id}")
}

/// Wakes who clears away a post that did not come.
pub fn draft_timer(inbox: &InboxKey, id: &MessageId) -> String {
    format!("inbox-draft/{inbox}/{id}")
}

/// Whose partition it is, if it is one that messages are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partition {
    User { inbox: InboxKey, uid: UserId },
    Public { inbox: InboxKey },
}

impl Partition {
    /// Reads a partition key. `None` if it is none of this tenant's with messages in it.
    pub fn parse(tenant: &Workspace, partition: &str) -> Option<Self> {
        let rest = partition.strip_prefix("t#")?.strip_prefix(tenant.as_str())?;
        if let Some(rest) = rest.strip_prefix("U#") {
            let (uid, inbox) = rest.split_once('#')?;
            return Some(Self::User { inbox: inbox.parse().ok()?, uid: uid.parse().ok()? });
        }
        let inbox = rest.strip_prefix("G#")?.strip_prefix(PUBLIC)?.strip_prefix('#')?;
        Some(Self::Public { inbox: inbox.parse().ok()? })
    }

    pub fn key(&self, tenant: &Workspace) -> String {
        match self {
            Self::User { inbox, uid } => user(tenant, inbox, uid),
            Self::Public { inbox } => public(tenant, inbox),
        }
    }
}

/// What a sort key of such a partition means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sort {
    Message(MessageId),
    Counts,
    CategoryCounts(Category),
    CountedOut(MessageId),
}

impl Sort {
    pub fn parse(sort: &str) -> Option<Self> {
        if sort == ALL {
            return Some(Self::Counts);
        }
        let (kind, name) = sort.split_once('#')?;
        match kind {
            "m" => Some(Self::Message(name.parse().ok()?)),
            "c" => Some(Self::CategoryCounts(name.parse().ok()?)),
            "x" => Some(Self::CountedOut(name.strip_prefix(MESSAGES)?.parse().ok()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidings_kernel::Workspace;

    use super::{Category, InboxKey, Partition, Sort, UserId};
    use crate::ids::MessageId;

    fn acme() -> Workspace {
        "acme".parse().unwrap()
    }

    #[test]
    fn keys_are_those_of_seed_001() {
        let (inbox, uid): (InboxKey, UserId) = ("app".parse().unwrap(), "ada".parse().unwrap());
        let id: MessageId = "0GV8YLWQ000000001".parse().unwrap();
        let news: Category = "news".parse().unwrap();
        let user = super::user(&acme(), &inbox, &uid);
        let public = super::public(&acme(), &inbox);
        let keys = [
            super::tenant_settings(&acme()),
            super::configuration(&acme(), &inbox),
            super::categories(&acme(), &inbox),
            super::forgotten(&acme(), "0f"),
            super::message(&user, &id),
            super::message(&public, &id),
            super::counts(&user),
            super::category_counts(&public, &news),
            super::expiring(&user),
            super::counted_out(&user, &id),
            super::post(&acme(), &inbox, &id),
            super::draft(&acme(), &inbox, &id),
            super::filed(&acme(), &inbox, &news, &id),
            super::recipients(&acme(), &inbox, &id, 1),
            super::host(&acme(), &inbox, "order/1"),
        ];
        let keys = keys.map(|key| key.to_string()).join("\n");
        insta::assert_snapshot!(keys, @r"
        t#acme / st#tenant_settings
        t#acme / si#app
        t#acme / sk#app
        t#acme / sf#0f
        t#acmeU#ada#app / m#0GV8YLWQ000000001
        t#acmeG#$public#app / m#0GV8YLWQ000000001
        t#acmeU#ada#app / c#*
        t#acmeG#$public#app / c#news
        t#acmeU#ada#app / e#next
        t#acmeU#ada#app / x#m#0GV8YLWQ000000001
        t#acmeP#app / p#0GV8YLWQ000000001
        t#acmeP#app / d#0GV8YLWQ000000001
        t#acmeC#app / news#0GV8YLWQ000000001
        t#acmeP#app#0GV8YLWQ000000001 / u#00001
        t#acmeH#app / h#order/1
        ");
        assert_eq!(super::timer(&inbox, &id), "inbox-post/app/0GV8YLWQ000000001");
    }

    #[test]
    fn what_parts_a_key_is_in_no_name() {
        let long = "x".repeat(129);
        let wide = "𝒳".repeat(65);
        for bad in ["", " ", "\u{ffff}", "a#b", "#", "a\nb", "a\0", long.as_str(), wide.as_str()] {
            assert!(bad.parse::<InboxKey>().is_err(), "{bad}");
            assert!(bad.parse::<UserId>().is_err(), "{bad}");
        }
        assert!("$public".parse::<UserId>().is_err());
        assert!("x".repeat(128).parse::<UserId>().is_ok());
        assert!("ada@example.org/ü".parse::<UserId>().is_ok());
        let long = "x".repeat(65);
        for bad in ["", "a b", "*", "ü", "a#b", long.as_str()] {
            assert!(bad.parse::<Category>().is_err(), "{bad}");
        }
        assert!("Order.Status_2-b".parse::<Category>().is_ok());
    }

    #[test]
    fn what_is_no_place_of_messages_is_none() {
        for other in [
            "t#acme",
            "t#acmeP#app",
            "t#acmeC#app",
            "t#otherU#ada#app",
            "t#acmeG#other#app",
            "",
            "t#acmeU#ada",
        ] {
            assert_eq!(Partition::parse(&acme(), other), None, "{other}");
        }
        for other in ["", "st#tenant_settings", "m#short", "x#c#*", "c#", "p#0GV8YLWQ000000001"] {
            assert_eq!(Sort::parse(other), None, "{other}");
        }
        assert_eq!(Sort::parse("c#*"), Some(Sort::Counts));
        assert_eq!(Sort::parse("c#news"), Some(Sort::CategoryCounts("news".parse().unwrap())));
    }

    proptest! {
        #[test]
        fn a_partition_means_what_it_was_made_of(
            uid in "[^#\\pC\\pZ]{1,40}", inbox in "[^#\\pC\\pZ]{1,40}",
        ) {
            let inbox: InboxKey = inbox.parse().unwrap();
            let own = Partition::User { inbox: inbox.clone(), uid: uid.parse().unwrap() };
            for partition in [own, Partition::Public { inbox }] {
                prop_assert_eq!(Partition::parse(&acme(), &partition.key(&acme())), Some(partition));
            }
        }
    }
}
