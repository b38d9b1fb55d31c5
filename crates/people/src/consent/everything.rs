//! Leaving everything, and coming back. Both a relation (`leads.unsubscribed_at`) and an item (`PROFILE`) say so, and
//! either is enough: who leaves is written first where it is durable soonest, who comes back is let in last.

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Change, Cx, StorageError};
use tidings_kernel::{EmailAddress, Expect, Update, Value, tables};
use tidings_sql::{DatabaseError, Param, Tx};

use super::contact;
use super::merged::{self, What};
use super::proof::{self, About, Act, Action};
use super::{Status, SubscriptionId, Whom, rows};
use crate::contacts::{self, ContactId};
use crate::keys;
use crate::suppression::{self, Against, Gate};

/// Marks the relation. Tells since when it holds, and whether it is new.
pub(super) fn leave(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    act: &Act,
) -> Result<bool, DatabaseError> {
    // The first date stays.
    let sql = "UPDATE leads SET unsubscribed_at = $3, updated_at = $3
               WHERE workspace_id = $1 AND id = $2 AND unsubscribed_at IS NULL";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(contact.get()),
        Param::Int(cx.now().as_millisecond()),
    ];
    let changed = tx.execute(sql, &params)? > 0;
    rows::void_requests(tx, cx, contact, None)?;
    merged::took_back(tx, cx, contact, What::Everything)?;
    if changed {
        proof::write(tx, cx, contact, (Action::Unsubscribed, About::default()), act)?;
        cx.record_change(tx, &audited("contact.unsubscribe", contact, true))?;
    }
    Ok(changed)
}

fn audited(action: &'static str, contact: ContactId, left: bool) -> Change {
    let told = |left: bool| json!({ "unsubscribed": left });
    Change::new(action, "contact", contact).between(told(!left), told(left))
}

/// Marks the items, each time: the one before may have died in front of them.
pub(super) async fn mark_left(cx: &Cx, marks: &Marks) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let now = keys::time(cx.now());
    for (email, against) in &marks.0 {
        let update = Update::new(&tables::MAIN, keys::profile(email))
            .set("unsubscribed", true)
            .set("updatedAt", now.as_str())
            .set_if_absent("email", email.as_str())
            .set_if_absent("suppressed", against.is_suppressed())
            .set_if_absent("tags", Value::L(Vec::new()))
            .set_if_absent("createdAt", now.as_str());
        items.update(update).await?;
    }
    // Where there was no profile one was made, and whoever was erased meanwhile must not have one.
    let emails: Vec<EmailAddress> = marks.0.iter().map(|(email, _)| email.clone()).collect();
    contacts::take_back(cx, &emails).await
}

/// Takes the marks off the items. That alone opens nothing: the relation still says it.
pub(super) async fn unmark_left(
    cx: &Cx,
    gate: &Gate,
    addresses: &[EmailAddress],
) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let now = keys::time(cx.now());
    for email in addresses {
        let update = Update::new(&tables::MAIN, keys::profile(email))
            .set("unsubscribed", false)
            .set("updatedAt", now.as_str())
            .expect(Expect::Present);
        match items.update(update).await {
            Ok(_) => {}
            Err(error) if error.is_condition_failed() => {}
            Err(error) => return Err(error.into()),
        }
        gate.came_back(cx, email).await?;
    }
    Ok(())
}

/// What the items say of each address of somebody.
pub(super) struct Marks(Vec<(EmailAddress, Against)>);

impl Marks {
    /// Of nobody there is what is remembered of somebody erased who had the address.
    pub(super) async fn load(cx: &Cx, whom: &Whom) -> Result<Self, StorageError> {
        let (within, whom) = (cx.clone(), whom.clone());
        let look = cx.database().read(move |tx| {
            let gate = suppression::gate(tx, &within)?;
            let known = contact::find(tx, &within, &whom)?;
            let mut addresses = match known {
                Some(contact) => contact::addresses(tx, &within, contact.id)?,
                None => Vec::new(),
            };
            if let Whom::Email(email) = &whom
                && !addresses.contains(email)
            {
                addresses.push(email.clone());
            }
            Ok::<_, DatabaseError>((gate, addresses))
        });
        let (gate, addresses) = look.await?;
        let mut marks = Vec::new();
        for email in addresses {
            let against = gate.look(cx, &email).await?;
            marks.push((email, against));
        }
        Ok(Self(marks))
    }

    pub(super) fn left(&self) -> bool {
        self.0.iter().any(|(_, against)| against.unsubscribed)
    }

    pub(super) fn suppressed(&self) -> bool {
        self.0.iter().any(|(_, against)| against.is_suppressed())
    }
}

/// What comes back with it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bring {
    /// All that he was subscribed to before.
    All,
    /// He came back for this one; what he left with everything stays left.
    Only(SubscriptionId),
}

/// How he had left everything when it was decided that he comes back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The items said so.
    pub(super) marked: bool,
    /// As the relation had it.
    pub(super) left_at: Option<Timestamp>,
    /// By whose address or id it was said, of those whom he is put together from.
    pub(super) named: Option<ContactId>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Back,
    /// He had not left, or came back before.
    Before,
    /// He left once more since it was decided, and that stands.
    NotBack,
}

/// He has not left everything any more, unless he leaves it again meanwhile.
pub(super) async fn come_back(
    cx: &Cx,
    contact: ContactId,
    (bring, seen): (Bring, Seen),
    act: Act,
) -> Result<Came, StorageError> {
    let within = cx.clone();
    let read = cx.database().read(move |tx| {
        let addresses = contact::addresses(tx, &within, contact)?;
        Ok::<_, DatabaseError>((suppression::gate(tx, &within)?, addresses))
    });
    let (gate, addresses) = read.await?;
    unmark_left(cx, &gate, &addresses).await?;
    let within = cx.clone();
    let come_back =
        cx.database().write(move |tx| unmark(tx, &within, contact, (bring, seen), &act));
    let came = come_back.await?;
    if came == Came::NotBack {
        mark_left(cx, &Marks::load(cx, &contact.into()).await?).await?;
    }
    Ok(came)
}

fn unmark(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    (bring, seen): (Bring, Seen),
    act: &Act,
) -> Result<Came, DatabaseError> {
    let Some(found) = contact::find(tx, cx, &contact.into())? else { return Ok(Came::Before) };
    if found.left_at.is_none() && !seen.marked {
        return Ok(Came::Before);
    }
    if found.left_at > seen.left_at {
        return Ok(Came::NotBack);
    }
    let left_at = found.left_at.unwrap_or(cx.now());
    if let Bring::Only(kept) = bring {
        leave_the_rest(tx, cx, contact, (kept, left_at), act)?;
    }
    let sql = "UPDATE leads SET unsubscribed_at = NULL, updated_at = $3
               WHERE workspace_id = $1 AND id = $2";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(contact.get()),
        Param::Int(cx.now().as_millisecond()),
    ];
    tx.execute(sql, &params)?;
    merged::came_back(tx, cx, (contact, seen.named))?;
    proof::write(tx, cx, contact, (Action::Resubscribed, About::default()), act)?;
    cx.record_change(tx, &audited("contact.resubscribe", contact, false))?;
    Ok(Came::Back)
}

/// Who left everything and comes back to one list has not come back to the others.
fn leave_the_rest(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    (kept, left_at): (SubscriptionId, Timestamp),
    act: &Act,
) -> Result<(), DatabaseError> {
    for mut other in rows::all(tx, cx, contact)? {
        let since = other.agreed_at.is_some_and(|agreed_at| agreed_at > left_at);
        if other.id == kept || other.status == Status::Unsubscribed || since {
            continue;
        }
        let before = other.told();
        other.leave(left_at, None, cx.now());
        rows::save(tx, cx, &other)?;
        proof::write(tx, cx, contact, (Action::Unsubscribed, other.about()), act)?;
        cx.record_change(tx, &other.audited("subscription.unsubscribe", Some(before)))?;
    }
    Ok(())
}
