//! Consent when two contacts turn out to be one person, and when they turn out not to be.
//!
//! The one who stays gets the strictest of both: who left everything has left it, an audience that one of them
//! unsubscribed from is unsubscribed from, one that one of them did not confirm is not confirmed, and a topic that one switched
//! off is off. What each said himself is kept with the merges (`own`), so that whoever comes apart again has just that, and
//! those who are still one have the strictest of theirs. What was taken back in between holds for all who were one then, since
//! nobody knows which of them said it; what was agreed to in between is his by whose address or id it was said, and holds for
//! the others only as long as they are one.
//!
//! Here: the rows of consent, in the caller's transaction. Not here: who is who, and the identities (`leads::identity`).
//! A suppression belongs to an address and goes with it.

mod older;
mod own;
mod store;

use tidings_access::{Cx, StorageError};
use tidings_sql::{DatabaseError, Param, Tx};

pub(super) use own::What;
use own::{Agreed, Place, Topic};

use super::everything::Marks;
use super::proof::{Act, Line, Proof};
use super::rows::Subscription;
use super::{By, SubscriptionId};
use crate::contacts::ContactId;

/// Who is taken apart: he who stays alone, he who comes back, and all who were merged into the latter, himself first.
#[derive(Debug, Clone, Copy)]
pub struct Apart<'a> {
    /// To whom the rows belong now.
    pub from: ContactId,
    /// Into whom the other one was merged. He may have been merged himself since.
    pub winner: ContactId,
    pub homes: &'a [i64],
}

/// Whether the items say of somebody that he left everything. The relations need not: of who was erased and came again, they do
/// not.
pub async fn is_marked(cx: &Cx, contact: ContactId) -> Result<bool, StorageError> {
    Ok(Marks::load(cx, &contact.into()).await?.left())
}

/// The consent of the one who stays is the strictest of both from now on. The caller has written the merge down, and says of
/// whom the items say that he left everything.
pub fn absorb(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (winner, loser): (ContactId, ContactId),
    marked: &[ContactId],
) -> Result<(), DatabaseError> {
    let goes = store::family_of(tx, loser.get())?;
    let mut stays = store::family_of(tx, winner.get())?;
    stays.retain(|lead| !goes.contains(lead));
    let mut families = Vec::new();
    for (root, leads) in [(winner, &stays), (loser, &goes)] {
        let mut family = store::load(tx, cx, leads)?;
        // Where the relations say it too, they also say of whom.
        if marked.contains(&root) && family.strictest().left_at.is_none() {
            family.take_back(What::Everything, cx.now().as_millisecond());
        }
        families.push(family);
    }
    let other = families.pop().unwrap_or_default();
    let mut family = families.pop().unwrap_or_default();
    family.join(other);
    store::keep(tx, &family)?;
    store::put(tx, cx, &family, &act("merge"))
}

/// Each has his own consent again. The caller has taken the two apart already.
pub fn release(tx: &mut Tx<'_>, cx: &Cx, apart: Apart<'_>) -> Result<(), DatabaseError> {
    let mut leads = store::family_of(tx, apart.from.get())?;
    leads.extend(
        apart.homes.iter().filter(|home| !leads.contains(home)).copied().collect::<Vec<_>>(),
    );
    let mut stays = store::load(tx, cx, &leads)?;
    let goes = stays.split(apart.homes);
    store::go_home(tx, apart)?;
    for family in [&stays, &goes] {
        store::keep(tx, family)?;
        store::put(tx, cx, family, &act("unmerge"))?;
    }
    Ok(())
}

/// Somebody takes something back, perhaps once more. If he turns out to be two, it holds for both.
pub(super) fn took_back(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    what: What,
) -> Result<(), DatabaseError> {
    let leads = store::family_of(tx, contact.get())?;
    if leads.len() == 1 {
        return Ok(());
    }
    let mut family = store::load(tx, cx, &leads)?;
    family.take_back(what, cx.now().as_millisecond());
    store::keep(tx, &family)
}

/// Somebody comes back to everything, by an address or an id of one of those he was put together from, if it is known of whom.
pub(super) fn came_back(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (contact, by): (ContactId, Option<ContactId>),
) -> Result<(), DatabaseError> {
    agreed(tx, cx, (contact, by), &Agreed::Everything)
}

/// The same of a subscription, as it stands since.
pub(super) fn agreed_to(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (contact, by): (ContactId, Option<ContactId>),
    subscription: &Subscription,
) -> Result<(), DatabaseError> {
    agreed(tx, cx, (contact, by), &Agreed::Place(Place::of(subscription)))
}

/// The same of a topic.
pub(super) fn switched_on(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (contact, by): (ContactId, Option<ContactId>),
    topic: super::TopicId,
) -> Result<(), DatabaseError> {
    let updated_at = cx.now().as_millisecond();
    let topic = Topic { topic: topic.get(), on: true, updated_at };
    agreed(tx, cx, (contact, by), &Agreed::Topic(topic))
}

fn agreed(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (contact, by): (ContactId, Option<ContactId>),
    said: &Agreed,
) -> Result<(), DatabaseError> {
    let leads = store::family_of(tx, contact.get())?;
    if leads.len() == 1 {
        return Ok(());
    }
    let mut family = store::load(tx, cx, &leads)?;
    family.agree(by.map(ContactId::get), said);
    store::keep(tx, &family)?;
    // Who comes back to an audience is back for the parts of it that were left with it.
    store::put(tx, cx, &family, &act("merge"))
}

/// A subscription that nobody of them had is at home with him by whose address it came.
pub(super) fn is_at_home(
    tx: &mut Tx<'_>,
    subscription: SubscriptionId,
    home: ContactId,
) -> Result<(), DatabaseError> {
    let sql = "UPDATE subscriptions SET home_lead_id = $2 WHERE id = $1 AND lead_id <> $2";
    tx.execute(sql, &[Param::Int(subscription.get()), Param::Int(home.get())]).map(drop)
}

/// Whose a subscription is: his who has it, or his who had it before he was merged.
pub(super) fn home_of(
    tx: &mut Tx<'_>,
    subscription: SubscriptionId,
) -> Result<Option<ContactId>, DatabaseError> {
    let sql = "SELECT coalesce(home_lead_id, lead_id) FROM subscriptions WHERE id = $1";
    let rows = tx.query(sql, &[Param::Int(subscription.get())])?;
    rows.first().map(|row| Ok(row.int(0)?.into())).transpose()
}

fn act(source: &str) -> Act {
    let source: Line = source.parse().expect("it is one line");
    Act { by: By::Import, source, reason: None, proof: Proof::default() }
}
