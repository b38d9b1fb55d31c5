//! The send log: a line `SENT#<time>` under the person for each message that a provider has taken, whatever kind it
//! was. This is its only writer.
//!
//! Two messages of the same millisecond have a line each: the later one moves on by a millisecond. Recording the same
//! message again finds its line and changes nothing. The transaction that stores a line also counts the message as sent, and
//! tells the person's timeline of what was sent to many or by itself, whoever the provider is and whether or not he tells of it
//! later: over SMTP nobody does.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp, ToSpan as _};
use tidings_access::{Cx, StorageError};
use tidings_jobs::happened::{Happened, by_email};
use tidings_kernel::{
    Cancellation, Condition, Delete, EmailAddress, Expect, Item, MAX_TXN_WRITES, StoreError, Txn,
    Update, Value, tables,
};
use tidings_people::contacts::{self, Flags};
use tidings_people::keys;

use crate::counters::{SENDS, Sums, Under};
use crate::ledger::{self, Source};

/// So many messages of one person in one millisecond are more than anybody sends.
const TRIES: i64 = 200;

/// What the log says of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub email: EmailAddress,
    pub at: Timestamp,
    pub source: Source,
    pub subject: String,
    pub template_key: Option<String>,
    /// The sequence or the campaign that it was part of.
    pub sequence_id: Option<String>,
    /// It is part of a sequence, and yet somebody waited for it: it does not count against the cap of marketing.
    pub awaited: bool,
    pub provider_message_id: Option<String>,
}

/// Writes the line, counts it and, if the person has no profile yet, makes that too. `ttl_days` says how long lines are
/// kept, if not for ever. Tells under which time the line is.
pub async fn record(
    cx: &Cx,
    line: &Line,
    ttl_days: Option<u32>,
) -> Result<Timestamp, StorageError> {
    let recorded = record_all(cx, std::slice::from_ref(line), ttl_days).await?;
    Ok(recorded.first().copied().unwrap_or(line.at))
}

/// The same for many, in as few transactions as can hold them. Tells under which time each line is, in their order.
///
/// A transaction that something stood in the way of says what it was; what that was about is changed or done, and the
/// rest is tried again with it. Whoever ends in between comes again with the same lines.
pub async fn record_all(
    cx: &Cx,
    lines: &[Line],
    ttl_days: Option<u32>,
) -> Result<Vec<Timestamp>, StorageError> {
    let items = cx.items().await?;
    let mut times: Vec<Timestamp> = lines.iter().map(|line| line.at).collect();
    let mut open: VecDeque<Open<'_>> = lines.iter().enumerate().map(Open::new).collect();
    while !open.is_empty() {
        let together = some(&mut open);
        let txn = transaction(cx, &together, ttl_days);
        let reasons = match items.transact(txn).await {
            Ok(()) => {
                for one in together {
                    times[one.place] = one.at();
                }
                continue;
            }
            Err(StoreError::Cancelled(reasons)) => reasons,
            Err(error) => return Err(error.into()),
        };
        let mut stood_in_the_way = false;
        for (one, reasons) in together.into_iter().zip(reasons.chunks(WRITES_OF_A_LINE)).rev() {
            let place = one.place;
            match one.after(cx, reasons).await? {
                After::Innocent(one) => open.push_front(one),
                After::Again(one) => {
                    stood_in_the_way = true;
                    open.push_front(one);
                }
                After::There(at) => {
                    stood_in_the_way = true;
                    times[place] = at;
                }
            }
        }
        if !stood_in_the_way {
            return Err(StoreError::Cancelled(reasons).into());
        }
    }
    forget_erased(cx, lines, &times).await?;
    Ok(times)
}

/// An erasure clears the ledger before the items. So it finds these lines, or this look finds the erasure.
async fn forget_erased(cx: &Cx, lines: &[Line], times: &[Timestamp]) -> Result<(), StorageError> {
    let sources: Vec<Source> = lines.iter().map(|line| line.source).collect();
    if sources.is_empty() {
        return Ok(());
    }
    let look = cx.database().read(move |tx| ledger::erased(tx, &sources));
    let gone = look.await?;
    if gone.is_empty() {
        return Ok(());
    }
    let (items, mut emails) = (cx.items().await?, Vec::new());
    for (line, at) in lines.iter().zip(times).filter(|(line, _)| gone.contains(&line.source)) {
        let this = Expect::That(Condition::eq("message", line.source.reference()));
        let delete = Delete::new(&tables::MAIN, keys::sent(&line.email, *at)).expect(this);
        match items.delete(delete).await {
            Ok(_) | Err(StoreError::ConditionFailed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        emails.push(line.email.clone());
    }
    contacts::take_back(cx, &emails).await
}

/// The line itself, and the profile.
const WRITES_OF_A_LINE: usize = 2;

/// A line that is not known to be there.
struct Open<'a> {
    /// Among the lines that were given.
    place: usize,
    line: &'a Line,
    reference: String,
    /// How many milliseconds it moved on.
    later: i64,
    /// Set if the person has no profile yet.
    new: Option<Flags>,
}

/// What becomes of a line whose transaction was cancelled.
enum After<'a> {
    /// It was because of others.
    Innocent(Open<'a>),
    Again(Open<'a>),
    /// It is there, under this time.
    There(Timestamp),
}

impl<'a> Open<'a> {
    fn new((place, line): (usize, &'a Line)) -> Self {
        Self { place, line, reference: line.source.reference(), later: 0, new: None }
    }

    fn at(&self) -> Timestamp {
        let at = self.line.at;
        at.saturating_add(self.later.milliseconds()).unwrap_or(at)
    }

    fn under(&self) -> Under<'_> {
        Under {
            id: &self.reference,
            at: self.at(),
            template_key: self.line.template_key.as_deref(),
            sequence_id: self.line.sequence_id.as_deref(),
        }
    }

    /// `email.sent`, of what the person did not wait for.
    fn happened(&self) -> Option<Happened> {
        let kind = match self.line.source {
            Source::Recipient(_) => "campaign",
            Source::Transactional(_) => "sequence",
        };
        let part_of = self.line.sequence_id.as_deref().filter(|_| !self.line.awaited);
        if part_of.is_none() && kind == "sequence" {
            return None;
        }
        let payload = [
            ("kind", Some(kind)),
            ("message", Some(self.reference.as_str())),
            (kind, part_of),
            ("template", self.line.template_key.as_deref()),
            ("subject", Some(self.line.subject.as_str())),
        ];
        Some(Happened {
            event_type: "email.sent",
            cause: self.reference.clone(),
            who: by_email(self.line.email.as_str()),
            at: self.at(),
            object_id: part_of.map_or_else(|| self.reference.clone(), ToOwned::to_owned).into(),
            payload: payload
                .map(|(name, value)| (name.to_owned(), value.into()))
                .into_iter()
                .collect(),
        })
    }

    /// What stood in the way is not read again: a read does not show a line past its time, and the write meets it.
    async fn after(mut self, cx: &Cx, reasons: &[Cancellation]) -> Result<After<'a>, StorageError> {
        match (reasons.first(), reasons.get(1)) {
            (Some(Cancellation::ConditionFailed { current }), _) => {
                let there = current.as_ref().and_then(|item| item.text("message"));
                if there == Some(&self.reference) {
                    return Ok(After::There(self.at()));
                }
                self.later += 1;
                if self.later >= TRIES {
                    return Err(StoreError::Conflict.into());
                }
                Ok(After::Again(self))
            }
            (_, Some(Cancellation::ConditionFailed { .. })) if self.new.is_none() => {
                self.new = Some(contacts::flags(cx, &self.line.email).await?);
                Ok(After::Again(self))
            }
            _ => Ok(After::Innocent(self)),
        }
    }
}

/// As many from the front as one transaction can hold, each person once.
fn some<'a>(open: &mut VecDeque<Open<'a>>) -> Vec<Open<'a>> {
    let (mut together, mut people) = (Vec::new(), BTreeSet::new());
    let (mut sums, mut told) = (Sums::default(), 0);
    while let Some(next) = open.front() {
        sums.add(&next.under(), &[(SENDS, 1)]);
        told += usize::from(next.happened().is_some());
        let writes = WRITES_OF_A_LINE * (together.len() + 1) + sums.len() + told;
        if writes > MAX_TXN_WRITES || !people.insert(next.line.email.as_str()) {
            break;
        }
        together.extend(open.pop_front());
    }
    together
}

fn transaction(cx: &Cx, together: &[Open<'_>], ttl_days: Option<u32>) -> Txn {
    let (mut txn, mut sums) = (Txn::new(), Sums::default());
    for one in together {
        let (email, at) = (&one.line.email, one.at());
        txn = txn.put(&tables::MAIN, item(one.line, at, ttl_days), Expect::Absent);
        txn = match one.new {
            None => txn.check(&tables::MAIN, keys::profile(email), Expect::Present),
            Some(flags) => txn.update(fresh(email, flags, at)),
        };
        if let Some(happened) = one.happened() {
            let (workspace, now) = (cx.workspace(), cx.now());
            txn = txn.enqueue(match one.line.source {
                Source::Recipient(_) => happened.to_bulk_message(workspace, now),
                Source::Transactional(_) => happened.to_message(workspace, now),
            });
        }
        sums.add(&one.under(), &[(SENDS, 1)]);
    }
    sums.count(txn, cx.now())
}

fn item(line: &Line, at: Timestamp, ttl_days: Option<u32>) -> Item {
    let mut item = tables::MAIN.bare_item(&keys::sent(&line.email, at));
    item.set("subject", line.subject.as_str());
    item.set("sentAt", keys::time(at));
    item.set("message", line.source.reference());
    let texts = [
        ("templateKey", &line.template_key),
        ("sequenceId", &line.sequence_id),
        ("sesMessageId", &line.provider_message_id),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            item.set(name, text.as_str());
        }
    }
    if line.awaited {
        item.set("awaited", true);
    }
    if let Some(days) = ttl_days {
        let end = at.saturating_add(SignedDuration::from_hours(24 * i64::from(days)));
        item.set("ttl", end.unwrap_or(Timestamp::MAX).as_second());
    }
    item
}

/// Whoever was written to is a subscriber. What is known of him stays as it is, and what stood against him before he was
/// erased stands.
fn fresh(email: &EmailAddress, flags: Flags, at: Timestamp) -> Update {
    Update::new(&tables::MAIN, keys::profile(email))
        .set_if_absent("email", email.as_str())
        .set_if_absent("tags", Value::L(Vec::new()))
        .set_if_absent("unsubscribed", flags.unsubscribed)
        .set_if_absent("suppressed", flags.suppressed)
        .set_if_absent("createdAt", keys::time(at))
        .set_if_absent("updatedAt", keys::time(at))
}
