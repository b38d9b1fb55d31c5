//! What goes on the timeline of a user: that he got a message, what he did with it, and that it is gone.
//!
//! What is told is enough to count from it alone how many of his own messages are unread. Messages to everybody are told to
//! nobody: only what a user does with one is, and says that it is such.
//!
//! Most users of an app are no contacts, and a message can go to a million of them. So only of users whom a contact is known
//! by (an identity `user_id`) it is told; that is one look at the relations for a page of users or a mark.

use std::collections::HashSet;

use serde_json::json;
use tidings_access::{Cx, StorageError};
use tidings_jobs::happened::{Happened, by_user_id};
use tidings_kernel::Outgoing;
use tidings_sql::{Among, DatabaseError, Param};

use crate::ids::MessageId;
use crate::keys::{Category, InboxKey, UserId};
use crate::marks::ReadAll;
use crate::view::Reader;

pub(crate) const READ: &str = "inbox.read";
pub(crate) const UNREAD: &str = "inbox.unread";
pub(crate) const ARCHIVED: &str = "inbox.archived";

/// Those of the users whom contacts are known by.
pub(crate) async fn known(cx: &Cx, uids: &[UserId]) -> Result<HashSet<String>, StorageError> {
    let workspace = cx.workspace_id().get();
    let uids: Vec<String> = uids.iter().map(|uid| uid.as_str().to_owned()).collect();
    let find = cx.database().read(move |tx| {
        let sql = "SELECT given.value FROM {given}
                   JOIN channel_identities i ON i.workspace_id = $1 AND i.channel = 'user_id'
                       AND i.value = given.value";
        let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
        let rows = tx.query_among(sql, &[Param::Int(workspace)], Among::Texts(&uids))?;
        rows.iter().map(|row| Ok(row.text(0)?.to_owned())).collect()
    });
    let found: Result<HashSet<String>, DatabaseError> = find.await;
    Ok(found?)
}

pub(crate) async fn is_known(cx: &Cx, uid: &UserId) -> Result<bool, StorageError> {
    Ok(!known(cx, std::slice::from_ref(uid)).await?.is_empty())
}

/// What happens to a message of a user without him.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    /// He got it.
    Published,
    /// It was taken away from him.
    Withdrawn,
    /// Its time was over before he read it.
    Expired,
}

/// What happened to a message of his. Each happens once: told again, it is the same event.
pub(crate) fn befell(
    cx: &Cx,
    (inbox, uid): (&InboxKey, &UserId),
    (id, category): (&MessageId, Option<&Category>),
    fate: Fate,
) -> Outgoing {
    let payload = json!({
        "message": id.as_str(),
        "inbox": inbox.to_string(),
        "category": category.map(Category::as_str),
    });
    let event_type = match fate {
        Fate::Published => "inbox.published",
        Fate::Withdrawn => "inbox.withdrawn",
        Fate::Expired => "inbox.expired",
    };
    let happened = Happened {
        event_type,
        cause: format!("{inbox}/{uid}/{id}"),
        who: by_user_id(uid.as_str()),
        at: cx.now(),
        object_id: Some(id.as_str().to_owned()),
        payload: payload.as_object().cloned().unwrap_or_default(),
    };
    happened.to_message(cx.workspace(), cx.now())
}

/// A message as its user marks it.
pub(crate) struct Marked<'a> {
    pub(crate) id: &'a MessageId,
    pub(crate) category: Option<&'a Category>,
    pub(crate) was_unread: bool,
    /// Whether everybody has it.
    pub(crate) is_public: bool,
}

/// He marked a message that was unread before, or was not.
pub(crate) fn marked(
    cx: &Cx,
    reader: &Reader,
    event_type: &'static str,
    message: &Marked<'_>,
) -> Outgoing {
    let (Reader { inbox, uid, .. }, id) = (reader, message.id);
    let payload = json!({
        "message": id.as_str(),
        "inbox": inbox.to_string(),
        "category": message.category.map(Category::as_str),
        "unread": message.was_unread,
        "public": message.is_public.then_some(true),
    });
    let happened = Happened {
        event_type,
        // He may read it, mark it unread, and read it again.
        cause: format!("{inbox}/{uid}/{id}/{}", cx.now()),
        who: by_user_id(uid.as_str()),
        at: cx.now(),
        object_id: Some(id.as_str().to_owned()),
        payload: payload.as_object().cloned().unwrap_or_default(),
    };
    happened.to_message(cx.workspace(), cx.now())
}

/// He read all of them, or all of a category, or those up to one message. The number tells one time from the next.
pub(crate) fn read_all(cx: &Cx, reader: &Reader, what: &ReadAll, number: i64) -> Outgoing {
    let Reader { inbox, uid, .. } = reader;
    let payload = json!({
        "inbox": inbox.to_string(),
        "category": what.category.as_ref().map(Category::as_str),
        "up_to": what.up_to.as_ref().map(MessageId::as_str),
    });
    let happened = Happened {
        event_type: "inbox.read_all",
        cause: format!("{inbox}/{uid}/{number}/{}", cx.now()),
        who: by_user_id(uid.as_str()),
        at: cx.now(),
        object_id: None,
        payload: payload.as_object().cloned().unwrap_or_default(),
    };
    happened.to_message(cx.workspace(), cx.now())
}
