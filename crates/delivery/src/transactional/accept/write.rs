//! The commit: the contacts, the rows, and what makes the worker look at them. One statement for each of these, however
//! many messages there are.

use std::collections::{HashMap, HashSet};

use tidings_access::Cx;
use tidings_kernel::{EmailAddress, Outgoing, Timer, TimerChange};
use tidings_people::contacts::{self, ContactId};
use tidings_sql::{Among, DatabaseError, Dialect, Tx};

use super::{AcceptError, Accepted};
use crate::links::Source;
use crate::transactional::manage::{envelope, timer_key};
use crate::transactional::news::{self, About, News};
use crate::transactional::store::{self, Known, Name, New};
use crate::transactional::{MessageId, Status, sequence};

type Answer = Result<Accepted, AcceptError>;

/// All of them in one commit, each with its answer.
pub(super) async fn write_down(cx: &Cx, fresh: Vec<New>) -> Vec<Answer> {
    let (within, count) = (cx.clone(), fresh.len());
    // The unique key decides, not a look beforehand: so each statement is right by itself.
    let database = cx.database().urgent();
    let write = database.write_committed(move |tx| write_all(tx, &within, &fresh));
    match write.await {
        Ok(answers) => answers,
        Err(error) => (0..count).map(|_| Err(error.clone().into())).collect(),
    }
}

fn write_all(tx: &mut Tx<'_>, cx: &Cx, fresh: &[New]) -> Result<Vec<Answer>, DatabaseError> {
    // A key that an erasure has replaced meanwhile is not in the way of the same key, so it is looked for.
    let names: Vec<Name<'_>> = fresh.iter().map(New::name).collect();
    let erased = store::known_before_erasure(tx, cx, &names)?;
    let writing: Vec<&New> = fresh.iter().filter(|new| !erased.contains_key(&new.name())).collect();
    let contacts = somebody(tx, cx, &writing)?;
    let written = store::insert_all(tx, cx, &contacts, &writing)?;
    // Of two with one key in one call, the first is the one that was written.
    let mut made = HashMap::new();
    for (place, new) in fresh.iter().enumerate() {
        if let Some(id) = written.get(&new.name()) {
            made.entry(new.name()).or_insert((place, *id));
        }
    }
    let mut made: Vec<(usize, MessageId)> = made.into_values().collect();
    made.sort_unstable();
    announce(tx, cx, &contacts, made.iter().map(|(place, id)| (*id, &fresh[*place])))?;
    promise(tx, cx, made.iter().map(|(place, id)| (*id, &fresh[*place])))?;

    let made: HashMap<usize, MessageId> = made.into_iter().collect();
    let late = names.iter().enumerate().filter(|(place, _)| !made.contains_key(place));
    let late: Vec<Name<'_>> = late.map(|(_, name)| *name).collect();
    let mut others = store::known(tx, cx, &late)?;
    others.extend(erased);
    let answer = |(place, new): (usize, &New)| match made.get(&place) {
        Some(id) => Ok(Ok(accepted(*id, new))),
        None => {
            let known = others.get(&new.name()).cloned().ok_or(DatabaseError::Conflict)?;
            Ok(before(known, &new.hash))
        }
    };
    fresh.iter().enumerate().map(answer).collect()
}

/// Whoever has the addresses, and is not erased before this is committed: then the message is found by whoever erases him.
fn somebody(
    tx: &mut Tx<'_>,
    cx: &Cx,
    writing: &[&New],
) -> Result<HashMap<String, ContactId>, DatabaseError> {
    let strangers: HashSet<&str> =
        writing.iter().filter(|new| !new.is_known).map(|new| new.to.as_str()).collect();
    let mut all = HashMap::new();
    let mut rest: Vec<_> = writing.iter().map(|new| &new.to).collect();
    loop {
        let is_known = |email: &EmailAddress| !strangers.contains(email.as_str());
        let found = contacts::ensure_all(tx, cx, &rest, is_known)?;
        if tx.dialect() == Dialect::Sqlite {
            // One writes at a time.
            return Ok(found);
        }
        let mut ids: Vec<i64> = found.values().map(|contact| contact.get()).collect();
        ids.sort_unstable();
        let sql =
            "SELECT id FROM leads WHERE id {among} AND erased_at IS NULL ORDER BY id FOR SHARE";
        let rows = tx.query_among(sql, &[], Among::Ints(&ids))?;
        let held = rows.iter().map(|row| row.int(0)).collect::<Result<HashSet<_>, _>>()?;
        all.extend(found.into_iter().filter(|(_, contact)| held.contains(&contact.get())));
        // Where the eraser was faster, the address is nobody's now.
        rest.retain(|email| !all.contains_key(email.as_str()));
        if rest.is_empty() {
            return Ok(all);
        }
    }
}

/// Tells of those that nobody will send.
fn announce<'n>(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contacts: &HashMap<String, ContactId>,
    made: impl Iterator<Item = (MessageId, &'n New)>,
) -> Result<(), DatabaseError> {
    for (id, new) in made {
        let Some(reason) = new.skip_reason else { continue };
        let contact = contacts.get(new.to.as_str()).ok_or(DatabaseError::NoRow)?;
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
    }
    Ok(())
}

/// A worker will look at each, now or when its time has come.
fn promise<'n>(
    tx: &mut Tx<'_>,
    cx: &Cx,
    made: impl Iterator<Item = (MessageId, &'n New)>,
) -> Result<(), DatabaseError> {
    let (mut messages, mut timers) = (Vec::new(), Vec::new());
    for (id, new) in made.filter(|(_, new)| new.skip_reason.is_none()) {
        let body = envelope(id, new.client, &new.key)?;
        let queue = new.purpose.queue();
        match new.scheduled_at.filter(|at| *at > cx.now()) {
            None => messages.push(Outgoing::new(queue, body)),
            Some(due) => {
                let timer = Timer { key: timer_key(id), due, queue, body };
                timers.push(TimerChange::Arm(timer));
            }
        }
    }
    if !timers.is_empty() {
        tx.change_timers(cx.workspace(), &timers)?;
    }
    if messages.is_empty() {
        return Ok(());
    }
    Ok(tx.enqueue_all(&messages, cx.now())?)
}

fn accepted(id: MessageId, new: &New) -> Accepted {
    Accepted {
        id,
        status: if new.skip_reason.is_some() { Status::Skipped } else { Status::Queued },
        skip_reason: new.skip_reason.map(str::to_owned),
        scheduled_at: new.scheduled_at,
        replayed: false,
    }
}

/// The same request again, or another one with its key.
pub(super) fn before(known: Known, hash: &str) -> Answer {
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
