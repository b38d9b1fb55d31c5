//! Preferences: which topics somebody has switched off. What he never touched is on.

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Change, Cx, Slug, StorageError};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::contact;
use super::everything::Marks;
use super::merged::{self, What};
use super::proof::{self, About, Act, Action, Line, text};
use super::topics::{self, Topic};
use super::{By, Whom};
use crate::contacts::ContactId;

/// So many topics are shown and changed at once.
pub const MAX_TOPICS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preferences {
    pub contact: ContactId,
    /// Every topic of the workspace, in the order of their slugs.
    pub topics: Vec<Preference>,
    /// He wants nothing but transactional mail, whatever the topics say.
    pub left_everything: bool,
    /// Nothing at all is sent to an address of his.
    pub suppressed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preference {
    pub topic: Topic,
    pub on: bool,
    /// Since when; `None` if he never touched it.
    pub changed_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct Switch {
    pub whom: Whom,
    /// Each topic, and whether it is on from now on.
    pub topics: Vec<(Slug, bool)>,
    pub act: Act,
}

#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    #[error("there is no such contact")]
    NoContact,
    #[error("there is no topic {0}")]
    NoTopic(Slug),
    #[error("at most {MAX_TOPICS} topics can be switched at once")]
    TooMany,
    #[error("nothing is sent to this contact, whatever it prefers: its address is suppressed")]
    Suppressed,
    #[error(
        "this contact has switched the topic {0} off; an operator who switches it on must give a reason"
    )]
    NeedsReason(Slug),
    #[error("what the contact prefers could not be saved")]
    Store(#[from] StorageError),
}

/// `None` if there is no such contact.
pub async fn show(cx: &Cx, whom: Whom) -> Result<Option<Preferences>, StorageError> {
    let within = cx.clone();
    let wanted = whom.clone();
    let show = cx.database().read(move |tx| {
        let Some(contact) = contact::find(tx, &within, &wanted)? else { return Ok(None) };
        let topics = all(tx, &within, contact.id)?;
        Ok::<_, DatabaseError>(Some((contact, topics)))
    });
    let Some((contact, topics)) = show.await? else { return Ok(None) };
    let marks = Marks::load(cx, &whom).await?;
    Ok(Some(Preferences {
        contact: contact.id,
        topics,
        left_everything: contact.left_at.is_some() || marks.left(),
        suppressed: marks.suppressed(),
    }))
}

/// Switches topics off and on: all of them or none. Doing it again changes nothing. A topic that somebody switched off
/// is not switched on by an import, nor by an operator without a reason, and none is switched on for somebody who is suppressed.
pub async fn switch(cx: &Cx, cmd: Switch) -> Result<Preferences, SwitchError> {
    if cmd.topics.len() > MAX_TOPICS {
        return Err(SwitchError::TooMany);
    }
    let whom = cmd.whom.clone();
    if cmd.topics.iter().any(|(_, on)| *on) {
        let known = show(cx, whom.clone()).await?;
        if known.ok_or(SwitchError::NoContact)?.suppressed {
            return Err(SwitchError::Suppressed);
        }
    }
    let within = cx.clone();
    cx.database().write(move |tx| try_switch(tx, &within, &cmd)).await?;
    show(cx, whom).await?.ok_or(SwitchError::NoContact)
}

fn try_switch(tx: &mut Tx<'_>, cx: &Cx, cmd: &Switch) -> Result<(), SwitchError> {
    let contact = contact::find(tx, cx, &cmd.whom)?.ok_or(SwitchError::NoContact)?;
    for (slug, on) in &cmd.topics {
        let topic = topics::load(tx, cx, slug).map_err(|error| match error {
            topics::FindError::Missing(slug) => SwitchError::NoTopic(slug),
            topics::FindError::Store(error) => error.into(),
        })?;
        let sql = "SELECT status FROM topic_preferences
                   WHERE workspace_id = $1 AND lead_id = $2 AND topic_id = $3";
        let params = [
            Param::Int(cx.workspace_id().get()),
            Param::Int(contact.id.get()),
            Param::Int(topic.id.get()),
        ];
        let rows = tx.query(sql, &params)?;
        let was_on =
            rows.first().map_or(Ok(true), |row| Ok::<_, DatabaseError>(row.text(0)? == "on"))?;
        if !*on {
            merged::took_back(tx, cx, contact.id, What::Topic(topic.id))?;
        }
        if was_on == *on || (*on && cmd.act.by == By::Import) {
            continue;
        }
        if *on && cmd.act.by == By::Operator && cmd.act.reason.is_none() {
            return Err(SwitchError::NeedsReason(slug.clone()));
        }
        save(tx, cx, contact.id, (&topic, *on), &cmd.act)?;
        if *on {
            merged::switched_on(tx, cx, (contact.id, contact.named), topic.id)?;
        }
    }
    Ok(())
}

fn save(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    (topic, on): (&Topic, bool),
    act: &Act,
) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO topic_preferences
                   (workspace_id, lead_id, topic_id, status, reason, created_at, updated_at)
               VALUES ($1, $2, $3, $4, $5, $6, $6)
               ON CONFLICT (lead_id, topic_id) DO UPDATE SET status = $4, reason = $5, updated_at = $6";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(contact.get()),
        Param::Int(topic.id.get()),
        Param::Text(if on { "on" } else { "off" }),
        text(act.reason.as_ref().map(Line::as_str)),
        Param::Int(cx.now().as_millisecond()),
    ];
    tx.execute(sql, &params)?;
    let (action, audited) = match on {
        true => (Action::TopicOn, "preference.on"),
        false => (Action::TopicOff, "preference.off"),
    };
    let about = About { topic: Some(topic.id), ..About::default() };
    proof::write(tx, cx, contact, (action, about), act)?;
    let told = |on: bool| json!({ "topic": topic.slug.as_str(), "on": on });
    let change = Change::new(audited, "contact", contact).before(told(!on)).after(told(on));
    cx.record_change(tx, &change)
}

fn all(tx: &mut Tx<'_>, cx: &Cx, contact: ContactId) -> Result<Vec<Preference>, DatabaseError> {
    let sql = "SELECT t.id, t.slug, t.name, t.description, t.created_at, t.updated_at, p.status, p.updated_at
               FROM topics t
               LEFT JOIN topic_preferences p ON p.topic_id = t.id AND p.lead_id = $2
               WHERE t.workspace_id = $1 ORDER BY t.slug LIMIT $3";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(contact.get()),
        Param::Int(MAX_TOPICS as i64),
    ];
    let read = |row: &Row| {
        let (topic, changed_at) = (topics::read(row)?, row.optional_time(7)?);
        Ok(Preference { topic, on: row.optional_text(6)? != Some("off"), changed_at })
    };
    tx.query(sql, &params)?.iter().map(read).collect()
}

impl From<DatabaseError> for SwitchError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}
