//! The commit: the contact, the row, and what makes the worker look at it.

use tidings_access::Cx;
use tidings_kernel::{Outgoing, Timer, TimerChange};
use tidings_people::contacts::{self, ContactId};
use tidings_sql::{DatabaseError, Dialect, Param, Tx};

use super::{AcceptError, Accepted};
use crate::links::Source;
use crate::transactional::manage::{envelope, in_database, timer_key};
use crate::transactional::news::{self, About, News};
use crate::transactional::store::{self, Known, New};
use crate::transactional::{MessageId, Status, sequence};

/// All of them in one commit, each with its answer.
pub(super) async fn write_down(cx: &Cx, fresh: Vec<New>) -> Vec<Result<Accepted, AcceptError>> {
    let (within, count) = (cx.clone(), fresh.len());
    // The unique key decides, not a look beforehand: so each statement is right by itself.
    let write = cx.database().write_committed(move |tx| {
        let one = |new: &New| write_one(tx, &within, new);
        fresh.iter().map(one).collect::<Result<Vec<_>, DatabaseError>>()
    });
    match write.await {
        Ok(answers) => answers,
        Err(error) => (0..count).map(|_| Err(error.clone().into())).collect(),
    }
}

fn write_one(
    tx: &mut Tx<'_>,
    cx: &Cx,
    new: &New,
) -> Result<Result<Accepted, AcceptError>, DatabaseError> {
    // A key that an erasure has replaced meanwhile is not in the way of the same key, so it is looked for.
    if let Some(known) = store::known_before_erasure(tx, cx, new.client, &new.key)? {
        return Ok(before(known, &new.hash));
    }
    let contact = somebody(tx, cx, new)?;
    let Some(id) = store::insert(tx, cx, contact.get(), new)? else {
        let known = store::known(tx, cx, new.client, &new.key)?.ok_or(DatabaseError::Conflict)?;
        return Ok(before(known, &new.hash));
    };
    let status = match new.skip_reason {
        Some(reason) => {
            let about = About {
                source: Source::Transactional(id.get()),
                client: new.client.get(),
                contact: contact.get(),
                email: Some(new.to.as_str()),
                template_key: new.template.as_ref().map(|(key, _)| key.as_str()),
                campaign: None,
                sequence: new.purpose.sequence.as_deref(),
            };
            news::tell_about(cx, tx, &about, &News::Skipped(reason), cx.now())?;
            sequence::tell_skipped(tx, cx, &new.purpose, id)?;
            Status::Skipped
        }
        None => {
            promise(tx, cx, id, new)?;
            Status::Queued
        }
    };
    Ok(Ok(Accepted {
        id,
        status,
        skip_reason: new.skip_reason.map(str::to_owned),
        scheduled_at: new.scheduled_at,
        replayed: false,
    }))
}

/// Whoever has the address, and is not erased before this is committed: then the message is found by whoever erases him.
fn somebody(tx: &mut Tx<'_>, cx: &Cx, new: &New) -> Result<ContactId, DatabaseError> {
    loop {
        let contact = contacts::ensure(tx, cx, &new.to)?;
        if tx.dialect() == Dialect::Sqlite {
            // One writes at a time.
            return Ok(contact);
        }
        let sql = "SELECT 1 FROM leads WHERE id = $1 AND erased_at IS NULL FOR SHARE";
        if !tx.query(sql, &[Param::Int(contact.get())])?.is_empty() {
            return Ok(contact);
        }
        // The eraser was faster, so the address is nobody's now.
    }
}

/// A worker will look at it, now or when its time has come.
fn promise(tx: &mut Tx<'_>, cx: &Cx, id: MessageId, new: &New) -> Result<(), DatabaseError> {
    let body = envelope(id, new.client, &new.key)?;
    let queue = new.purpose.queue();
    match new.scheduled_at.filter(|at| *at > cx.now()) {
        None => tx.enqueue(&Outgoing::new(queue, body), cx.now()),
        Some(due) => {
            let timer = Timer { key: timer_key(id), due, queue, body };
            tx.change_timer(cx.workspace(), &TimerChange::Arm(timer))
        }
    }
    .map_err(in_database)
}

/// The same request again, or another one with its key.
pub(super) fn before(known: Known, hash: &str) -> Result<Accepted, AcceptError> {
    if known.hash.as_deref() != Some(hash) {
        return Err(AcceptError::KeyReused(known.id));
    }
    Ok(Accepted {
        id: known.id,
        status: known.status,
        skip_reason: known.skip_reason,
        scheduled_at: known.scheduled_at,
        replayed: true,
    })
}
