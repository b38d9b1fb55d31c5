//! Consent when two contacts turn out to be one person, and when they turn out not to be.
//!
//! The one who stays gets the strictest of both: who left everything has left it, an audience that one of them
//! unsubscribed from is unsubscribed from, and a topic that one switched off is off. What only the other one had is moved to
//! him and keeps its home. Taking them apart gives everything back where nothing newer was said since; what was
//! taken back in between holds for both, since nobody knows which of them said it.
//!
//! Here: the rows of consent, in the caller's transaction. Not here: who is who, and the identities (`leads::identity`).
//! A suppression belongs to an address and goes with it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_access::Cx;
use tidings_sql::{DatabaseError, Param, Tx};

use super::proof::{self, About, Act, Action, Line, Proof};
use super::rows::{self, Subscription};
use super::{By, Status, TopicId};
use crate::contacts::ContactId;

/// What a merge changed in the consent of the one who stays, to be undone by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absorbed {
    /// He left everything because the other one had, then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    subscriptions: Vec<Before>,
    /// Topics that were on, by the row of the preference, and since when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    topics: Vec<(i64, i64)>,
}

/// A subscription as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    id: i64,
    status: String,
    verified_at: Option<i64>,
    agreed_at: Option<i64>,
    updated_at: i64,
}

/// Who is taken apart: he who stays alone, he who comes back, and all who were merged into the latter, himself among them.
#[derive(Debug, Clone, Copy)]
pub struct Apart<'a> {
    /// To whom the rows belong now.
    pub from: ContactId,
    /// Into whom the other one was merged. He may have been merged himself since.
    pub winner: ContactId,
    pub loser: ContactId,
    pub homes: &'a [i64],
    pub merged_at: Timestamp,
    /// He said again what was known while they were one: then whatever is strict stays so, for both.
    pub said_again: bool,
}

/// Somebody takes back what he has taken back already. Nothing changes by it, but it was said: if he turns out to be two,
/// it holds for both.
pub(super) fn said_again(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
) -> Result<(), DatabaseError> {
    let sql = "WITH RECURSIVE family (id) AS (
                   SELECT id FROM leads WHERE id = $1
                   UNION SELECT l.id FROM leads l JOIN family f ON l.merged_into_id = f.id)
               UPDATE lead_merges SET said_at = $2
               WHERE winner_id IN (SELECT id FROM family) AND undone_at IS NULL";
    let params = [Param::Int(contact.get()), Param::Int(cx.now().as_millisecond())];
    tx.execute(sql, &params).map(drop)
}

impl Apart<'_> {
    /// What was said after this holds for both.
    fn since(&self) -> i64 {
        if self.said_again { -1 } else { self.merged_at.as_millisecond() }
    }
}

/// The consent of the one who stays is the strictest of both from now on.
pub fn absorb(
    tx: &mut Tx<'_>,
    cx: &Cx,
    winner: ContactId,
    loser: ContactId,
) -> Result<Absorbed, DatabaseError> {
    let act = act("merge");
    let left_at = absorb_leaving(tx, cx, (winner, loser), &act)?;
    let mut absorbed = Absorbed { left_at, ..Absorbed::default() };
    let mine = rows::all(tx, cx, winner)?;
    for theirs in rows::all(tx, cx, loser)? {
        match mine.iter().find(|mine| is_same_place(mine, &theirs)) {
            None => rehome(tx, "subscriptions", theirs.id.get(), winner)?,
            Some(mine)
                if theirs.status == Status::Unsubscribed && mine.status != Status::Unsubscribed =>
            {
                absorbed.subscriptions.push(Before::of(mine));
                leave_as(tx, cx, (mine.clone(), &theirs), &act)?;
            }
            Some(_) => {}
        }
    }
    let mine = topics_of(tx, winner)?;
    for theirs in topics_of(tx, loser)? {
        match mine.iter().find(|mine| mine.topic == theirs.topic) {
            None => rehome(tx, "topic_preferences", theirs.id, winner)?,
            Some(mine) if mine.is_on && !theirs.is_on => {
                absorbed.topics.push((mine.id, mine.updated_at));
                switch(tx, mine.id, "off", cx.now().as_millisecond())?;
                let about = About { topic: Some(mine.topic), ..About::default() };
                proof::write(tx, cx, winner, (Action::TopicOff, about), &act)?;
            }
            Some(_) => {}
        }
    }
    Ok(absorbed)
}

/// Each has his own consent again.
pub fn release(
    tx: &mut Tx<'_>,
    cx: &Cx,
    apart: Apart<'_>,
    absorbed: &Absorbed,
) -> Result<(), DatabaseError> {
    let act = act("unmerge");
    release_leaving(tx, cx, apart, (absorbed.left_at, &act))?;
    release_subscriptions(tx, cx, apart, (&absorbed.subscriptions, &act))?;
    release_topics(tx, cx, apart, (&absorbed.topics, &act))
}

fn act(source: &str) -> Act {
    let source: Line = source.parse().expect("it is one line");
    Act { by: By::Import, source, reason: None, proof: Proof::default() }
}

fn absorb_leaving(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (winner, loser): (ContactId, ContactId),
    act: &Act,
) -> Result<Option<i64>, DatabaseError> {
    let Some(left_at) = left_at(tx, loser)? else { return Ok(None) };
    if left_at_is(tx, winner, None, Some(left_at), cx)? {
        rows::void_requests(tx, cx, winner, None)?;
        proof::write(tx, cx, winner, (Action::Unsubscribed, About::default()), act)?;
        return Ok(Some(left_at));
    }
    Ok(None)
}

fn release_leaving(
    tx: &mut Tx<'_>,
    cx: &Cx,
    apart: Apart<'_>,
    (absorbed, act): (Option<i64>, &Act),
) -> Result<(), DatabaseError> {
    if let Some(at) = absorbed
        && !apart.said_again
        && left_at_is(tx, apart.winner, Some(at), None, cx)?
    {
        proof::write(tx, cx, apart.winner, (Action::Resubscribed, About::default()), act)?;
    }
    let since = left_at(tx, apart.from)?.filter(|at| *at > apart.since());
    if let Some(at) = since
        && left_at_is(tx, apart.loser, None, Some(at), cx)?
    {
        proof::write(tx, cx, apart.loser, (Action::Unsubscribed, About::default()), act)?;
    }
    Ok(())
}

fn left_at(tx: &mut Tx<'_>, contact: ContactId) -> Result<Option<i64>, DatabaseError> {
    let rows =
        tx.query("SELECT unsubscribed_at FROM leads WHERE id = $1", &[Param::Int(contact.get())])?;
    rows.first().map_or(Ok(None), |row| row.optional_int(0))
}

/// Changes since when somebody has left everything, if it was as expected.
fn left_at_is(
    tx: &mut Tx<'_>,
    contact: ContactId,
    before: Option<i64>,
    after: Option<i64>,
    cx: &Cx,
) -> Result<bool, DatabaseError> {
    let sql = "UPDATE leads SET unsubscribed_at = $2, updated_at = $4
               WHERE id = $1 AND coalesce(unsubscribed_at, -1) = $3";
    let params = [
        Param::Int(contact.get()),
        proof::number(after),
        Param::Int(before.unwrap_or(-1)),
        Param::Int(cx.now().as_millisecond()),
    ];
    Ok(tx.execute(sql, &params)? > 0)
}

fn is_same_place(one: &Subscription, other: &Subscription) -> bool {
    (one.audience, one.client) == (other.audience, other.client)
}

/// One leaves what the other has left, since when and why he did.
fn leave_as(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (mut one, other): (Subscription, &Subscription),
    act: &Act,
) -> Result<(), DatabaseError> {
    one.leave(other.unsubscribed_at.unwrap_or(cx.now()), None, cx.now());
    rows::save(tx, cx, &one)?;
    rows::void_requests(tx, cx, one.contact, Some(one.id))?;
    proof::write(tx, cx, one.contact, (Action::Unsubscribed, one.about()), act)
}

fn release_subscriptions(
    tx: &mut Tx<'_>,
    cx: &Cx,
    apart: Apart<'_>,
    (before, act): (&[Before], &Act),
) -> Result<(), DatabaseError> {
    for before in before.iter().filter(|_| !apart.said_again) {
        let Some(mut now) = rows::load(tx, cx, before.id.into())? else { continue };
        if now.updated_at != apart.merged_at || now.status != Status::Unsubscribed {
            continue; // Something newer was said.
        }
        before.give_back(&mut now);
        rows::save(tx, cx, &now)?;
        if now.status == Status::Subscribed {
            proof::write(tx, cx, now.contact, (Action::Resubscribed, now.about()), act)?;
        }
    }
    let all = rows::all(tx, cx, apart.from)?;
    go_home(tx, "subscriptions", apart)?;
    let (theirs, mine) = (rows::all(tx, cx, apart.loser)?, rows::all(tx, cx, apart.from)?);
    let is_new = |one: &&Subscription| {
        one.status == Status::Unsubscribed && one.updated_at.as_millisecond() > apart.since()
    };
    for said in all.iter().filter(is_new) {
        let counterpart = theirs.iter().find(|one| is_same_place(one, said));
        if let Some(one) = counterpart.filter(|one| one.status != Status::Unsubscribed) {
            leave_as(tx, cx, (one.clone(), said), act)?;
        }
        // It was the other one's and has gone home; he who stays has said it too, perhaps.
        if !mine.iter().any(|one| is_same_place(one, said)) {
            let place = (said.audience, said.client);
            let copy = rows::insert(tx, cx, apart.from, place, &act.source)?;
            leave_as(tx, cx, (copy, said), act)?;
        }
    }
    Ok(())
}

impl Before {
    fn of(subscription: &Subscription) -> Self {
        let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millisecond);
        Self {
            id: subscription.id.get(),
            status: subscription.status.to_string(),
            verified_at: millis(subscription.verified_at),
            agreed_at: millis(subscription.agreed_at),
            updated_at: subscription.updated_at.as_millisecond(),
        }
    }

    fn give_back(&self, now: &mut Subscription) {
        let time = |at: Option<i64>| at.and_then(|at| Timestamp::from_millisecond(at).ok());
        now.status = self.status.parse().unwrap_or(Status::Pending);
        now.verified_at = time(self.verified_at);
        now.agreed_at = time(self.agreed_at);
        now.unsubscribed_at = None;
        now.unsubscribe_reason = None;
        now.updated_at = time(Some(self.updated_at)).unwrap_or(now.updated_at);
    }
}

/// What somebody said of a topic.
struct Said {
    id: i64,
    topic: TopicId,
    is_on: bool,
    updated_at: i64,
}

fn topics_of(tx: &mut Tx<'_>, contact: ContactId) -> Result<Vec<Said>, DatabaseError> {
    let sql = "SELECT id, topic_id, status, updated_at FROM topic_preferences
               WHERE lead_id = $1 ORDER BY id LIMIT 1000";
    let rows = tx.query(sql, &[Param::Int(contact.get())])?;
    let read = rows.iter().map(|row| {
        let (id, topic, updated_at) = (row.int(0)?, row.int(1)?.into(), row.int(3)?);
        Ok(Said { id, topic, is_on: row.text(2)? == "on", updated_at })
    });
    read.collect()
}

fn release_topics(
    tx: &mut Tx<'_>,
    cx: &Cx,
    apart: Apart<'_>,
    (before, act): (&[(i64, i64)], &Act),
) -> Result<(), DatabaseError> {
    let merged_at = apart.merged_at.as_millisecond();
    for (id, updated_at) in before.iter().filter(|_| !apart.said_again) {
        let sql = "UPDATE topic_preferences SET status = 'on', updated_at = $2
                   WHERE id = $1 AND status = 'off' AND updated_at = $3 RETURNING lead_id, topic_id";
        let params = [Param::Int(*id), Param::Int(*updated_at), Param::Int(merged_at)];
        if let Some(row) = tx.query(sql, &params)?.first() {
            let about = About { topic: Some(row.int(1)?.into()), ..About::default() };
            proof::write(tx, cx, row.int(0)?.into(), (Action::TopicOn, about), act)?;
        }
    }
    let all = topics_of(tx, apart.from)?;
    go_home(tx, "topic_preferences", apart)?;
    for said in all.iter().filter(|said| !said.is_on && said.updated_at > apart.since()) {
        for contact in [apart.from, apart.loser] {
            let sql = "INSERT INTO topic_preferences
                           (workspace_id, lead_id, topic_id, status, created_at, updated_at)
                       VALUES ($1, $2, $3, 'off', $4, $4)
                       ON CONFLICT (lead_id, topic_id) DO UPDATE SET status = 'off', updated_at = $4
                       WHERE topic_preferences.status = 'on'";
            let params = [
                Param::Int(cx.workspace_id().get()),
                Param::Int(contact.get()),
                Param::Int(said.topic.get()),
                Param::Int(said.updated_at),
            ];
            if tx.execute(sql, &params)? > 0 {
                let about = About { topic: Some(said.topic), ..About::default() };
                proof::write(tx, cx, contact, (Action::TopicOff, about), act)?;
            }
        }
    }
    Ok(())
}

fn switch(tx: &mut Tx<'_>, id: i64, status: &str, at: i64) -> Result<(), DatabaseError> {
    let sql = "UPDATE topic_preferences SET status = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, &[Param::Int(id), Param::Text(status), Param::Int(at)]).map(drop)
}

/// A row of the one who goes is another's from now on, and remembers where it was at home.
fn rehome(tx: &mut Tx<'_>, table: &str, id: i64, to: ContactId) -> Result<(), DatabaseError> {
    let sql = format!(
        "UPDATE {table} SET home_lead_id = coalesce(home_lead_id, lead_id), lead_id = $2 WHERE id = $1"
    );
    tx.execute(&sql, &[Param::Int(id), Param::Int(to.get())]).map(drop)
}

/// What is at home with those who leave goes to them. It is with whoever they became, or with somebody on the way there, where
/// it stayed because the next one had the same already.
fn go_home(tx: &mut Tx<'_>, table: &str, apart: Apart<'_>) -> Result<(), DatabaseError> {
    let sql = format!(
        "UPDATE {table} SET lead_id = $2,
             home_lead_id = CASE WHEN home_lead_id = $2 THEN NULL ELSE home_lead_id END
         WHERE lead_id = $1 AND home_lead_id = $3"
    );
    for lead in way_up(tx, apart.winner)? {
        for home in apart.homes {
            let params = [Param::Int(lead), Param::Int(apart.loser.get()), Param::Int(*home)];
            tx.execute(&sql, &params)?;
        }
    }
    Ok(())
}

/// A contact, into whom he was merged, and so on.
fn way_up(tx: &mut Tx<'_>, contact: ContactId) -> Result<Vec<i64>, DatabaseError> {
    let sql = "WITH RECURSIVE way (id, up) AS (
                   SELECT id, merged_into_id FROM leads WHERE id = $1
                   UNION SELECT l.id, l.merged_into_id FROM leads l JOIN way w ON l.id = w.up)
               SELECT id FROM way";
    let rows = tx.query(sql, &[Param::Int(contact.get())])?;
    rows.iter().map(|row| row.int(0)).collect()
}
