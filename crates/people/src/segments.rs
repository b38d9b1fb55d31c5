//! Who has to be looked at again, because something changed that a segment may ask.
//!
//! Here: the message in `segment-processing`, in the commit that makes the change, if the workspace has a segment at all.
//! Not here: in which segments somebody is (`outreach::segments`). The message names people and nothing else: what is known
//! of them is loaded by whoever works on it, and so a message too many does no harm.

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_jobs::contracts::{Contract as _, SegmentCheck};
use tidings_kernel::{Outgoing, Timer, TimerChange, queues};
use tidings_sql::{Among, DatabaseError, Param, Tx};

use crate::contacts::ContactId;

const ANY: &str = "SELECT 1 FROM segments WHERE workspace_id = $1 AND deleted_at IS NULL LIMIT 1";

/// Something changed of these people: they are looked at again if the transaction is committed.
pub fn changed(tx: &mut Tx<'_>, cx: &Cx, contacts: &[ContactId]) -> Result<(), DatabaseError> {
    let none = contacts.is_empty() || tx.query(ANY, &[workspace(cx)])?.is_empty();
    if none {
        return Ok(());
    }
    for message in messages(cx, contacts) {
        send(tx, cx, &message)?;
    }
    Ok(())
}

/// Whether there is a segment at all.
pub async fn any(cx: &Cx) -> Result<bool, DatabaseError> {
    let id = cx.workspace_id().get();
    let look = cx.database().glance(move |tx| tx.query(ANY, &[Param::Int(id)]));
    Ok(!look.await?.is_empty())
}

/// The messages to enqueue in a transaction of items. None if there is no segment.
pub async fn to_check(cx: &Cx, contacts: &[ContactId]) -> Result<Vec<Outgoing>, DatabaseError> {
    Ok(if any(cx).await? { messages(cx, contacts) } else { Vec::new() })
}

/// The same for people by the partitions of what is known of them.
pub async fn to_check_partitions(
    cx: &Cx,
    lead_organization_ids: &[&str],
) -> Result<Vec<Outgoing>, DatabaseError> {
    let ids: Vec<i64> = lead_organization_ids.iter().filter_map(|id| id.parse().ok()).collect();
    let id = cx.workspace_id().get();
    let look = cx.database().glance(move |tx| {
        let sql = "SELECT o.lead_id FROM {given} CROSS JOIN lead_organizations o
                   WHERE o.id = given.value AND o.workspace_id = $1
                     AND EXISTS (SELECT 1 FROM segments s WHERE s.workspace_id = $1 AND s.deleted_at IS NULL)";
        tx.query_among(sql, &[Param::Int(id)], Among::Ints(&ids))
    });
    let rows = look.await?;
    let found: Vec<ContactId> =
        rows.iter().map(|row| row.int(0).map(ContactId::from)).collect::<Result<_, _>>()?;
    Ok(messages(cx, &found))
}

/// These people are looked at again at a time, each at his own, although nothing happens then. For the same person and reason the last
/// time that was said counts.
pub fn look_again(
    tx: &mut Tx<'_>,
    cx: &Cx,
    reason: &str,
    people: impl Iterator<Item = (ContactId, Timestamp)>,
) -> Result<(), DatabaseError> {
    let timers = people.flat_map(|(contact, due)| {
        let key = format!("segments/{contact}/{reason}");
        messages(cx, &[contact]).into_iter().map(move |Outgoing { body, .. }| {
            let (key, queue) = (key.clone(), &queues::SEGMENT_PROCESSING);
            TimerChange::Arm(Timer { key, due, queue, body })
        })
    });
    let timers: Vec<_> = timers.collect();
    Ok(tx.change_timers(cx.workspace(), &timers)?)
}

/// For those who know that there is a segment.
pub(crate) fn messages(cx: &Cx, contacts: &[ContactId]) -> Vec<Outgoing> {
    let message = |some: &[ContactId]| {
        let contacts = some.iter().map(|contact| contact.get()).collect();
        let check = SegmentCheck { workspace: cx.workspace().clone(), contacts };
        let body = check.to_body().expect("the number of people is bounded");
        Outgoing::new(&queues::SEGMENT_PROCESSING, body)
    };
    contacts.chunks(SegmentCheck::MAX_CONTACTS).map(message).collect()
}

/// Leaves if the transaction is committed.
pub fn send(tx: &mut Tx<'_>, cx: &Cx, message: &Outgoing) -> Result<(), DatabaseError> {
    Ok(tx.enqueue(message, cx.now())?)
}

fn workspace(cx: &Cx) -> Param<'static> {
    Param::Int(cx.workspace_id().get())
}
