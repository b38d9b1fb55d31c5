//! Proof: who changed what he agreed to, when, where, and in front of which words.
//!
//! One row for each real change, in the transaction that makes it. Nothing is written when nothing changes.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{ClientId, Cx, Limit, Page, Slug, row_ids};
use tidings_jobs::happened::{Happened, by_email};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::contact;
use super::{AudienceId, By, TopicId, Whom, WordError};
use crate::contacts::ContactId;
use crate::heard;
use crate::news;
use crate::segments;

row_ids! {
    /// A row of the log.
    ProofId
}

/// What a browser calls itself can be as long as a request. More than this is not kept.
const USER_AGENT: usize = 500;

/// What shows that it was he: all of it may be unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    pub ip: Option<IpAddr>,
    pub user_agent: Option<String>,
    /// Which version of the words he agreed to.
    pub text_version: Option<Line>,
}

/// One line that somebody wrote: 1 to 200 characters, without space around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Line(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 200 characters on one line")]
pub struct LineError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// He was asked to confirm.
    Requested,
    Confirmed,
    Subscribed,
    Unsubscribed,
    Resubscribed,
    TopicOn,
    TopicOff,
}

/// A row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: ProofId,
    pub action: Action,
    pub by: By,
    /// Without an audience and a topic it is about everything.
    pub audience: Option<Slug>,
    pub client: Option<Slug>,
    pub topic: Option<Slug>,
    pub source: String,
    pub reason: Option<String>,
    pub ip: Option<String>,
    pub user_agent: Option<String>,
    pub text_version: Option<String>,
    pub happened_at: Timestamp,
}

/// Who changes something, from where and why.
#[derive(Debug, Clone)]
pub struct Act {
    pub by: By,
    /// Where it came from: a form, a page, an import.
    pub source: Line,
    pub reason: Option<Line>,
    pub proof: Proof,
}

/// What was changed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About {
    pub(super) audience: Option<AudienceId>,
    pub(super) client: Option<ClientId>,
    pub(super) topic: Option<TopicId>,
}

/// What somebody agreed to and took back, the newest first. `None` if there is no such contact.
pub async fn list(
    cx: &Cx,
    whom: Whom,
    before: Option<ProofId>,
    limit: Limit,
) -> Result<Option<Page<Entry, ProofId>>, DatabaseError> {
    let sql = "SELECT p.id, p.action, p.acted_by, a.slug, c.slug, t.slug, p.source, p.reason, p.ip,
                      p.user_agent, p.text_version, p.happened_at
               FROM consent_log p
               LEFT JOIN audiences a ON a.workspace_id = p.workspace_id AND a.id = p.audience_id
               LEFT JOIN clients c ON c.workspace_id = p.workspace_id AND c.id = p.client_id
               LEFT JOIN topics t ON t.workspace_id = p.workspace_id AND t.id = p.topic_id
               WHERE p.workspace_id = $1 AND p.lead_id = $2 AND p.id < $3
               ORDER BY p.id DESC LIMIT $4";
    let within = cx.clone();
    let list = cx.database().read(move |tx| {
        let Some(contact) = contact::find(tx, &within, &whom)? else { return Ok(None) };
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Int(contact.id.get()),
            Param::Int(before.map_or(i64::MAX, ProofId::get)),
            Param::Int(limit.and_one()),
        ];
        let found = tx.query(sql, &params)?.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Some(Page::cut(found, limit, |entry: &Entry| entry.id)))
    });
    list.await
}

/// Writes a change down.
pub(super) fn write(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    (action, about): (Action, About),
    act: &Act,
) -> Result<(), DatabaseError> {
    let sql =
        "INSERT INTO consent_log (workspace_id, lead_id, audience_id, client_id, topic_id, action,
                   acted_by, source, reason, ip, user_agent, text_version, happened_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING id";
    let ip = act.proof.ip.map(|ip| ip.to_string());
    let user_agent = act.proof.user_agent.as_deref().map(shortened).filter(|it| !it.is_empty());
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(contact.get()),
        number(about.audience.map(AudienceId::get)),
        number(about.client.map(ClientId::get)),
        number(about.topic.map(TopicId::get)),
        Param::Text(action.as_str()),
        Param::Text(act.by.as_str()),
        Param::Text(act.source.as_str()),
        text(act.reason.as_ref().map(Line::as_str)),
        text(ip.as_deref()),
        text(user_agent.as_deref()),
        text(act.proof.text_version.as_ref().map(Line::as_str)),
        Param::Int(cx.now().as_millisecond()),
    ];
    let rows = tx.query(sql, &params)?;
    let id = rows.first().ok_or(DatabaseError::NoRow)?.int(0)?;
    let data = json!({
        "contact_id": contact.get(),
        "audience_id": about.audience.map(AudienceId::get),
        "client_id": about.client.map(ClientId::get),
    });
    if let Some(told) = news::consent(cx, id, action, data) {
        tidings_webhooks::announce(cx, tx, &told)?;
    }
    segments::changed(tx, cx, &[contact])?;
    let is_heard = heard::is_heard(tx, cx, action)?;
    let happened = happened_by(action, act);
    if !is_heard && happened.is_none() {
        return Ok(());
    }
    let addresses = contact::addresses(tx, cx, contact)?;
    if let (Some(event_type), Some(email)) = (happened, addresses.first()) {
        let happened = Happened {
            event_type,
            cause: id.to_string(),
            who: by_email(email.as_str()),
            at: cx.now(),
            object_id: about.audience.map(|audience| format!("audience {audience}")),
            payload: [
                ("by".to_owned(), act.by.as_str().into()),
                ("source".to_owned(), act.source.as_str().into()),
                ("reason".to_owned(), act.reason.as_ref().map(Line::as_str).into()),
            ]
            .into_iter()
            .collect(),
        };
        heard::enqueue(tx, cx, &happened.to_message(cx.workspace(), cx.now()))?;
    }
    if !is_heard {
        return Ok(());
    }
    let place = heard::Place { audience: about.audience, client: about.client };
    heard::changed(tx, cx, (action, place), &[heard::Changed { proof: id, addresses }])
}

/// What is on his timeline then. What a program told is nothing that he did.
fn happened_by(action: Action, act: &Act) -> Option<&'static str> {
    match action {
        _ if act.by == By::Import => None,
        Action::Unsubscribed => Some("email.unsubscribed"),
        Action::Subscribed | Action::Confirmed | Action::Resubscribed => Some("email.subscribed"),
        Action::Requested | Action::TopicOn | Action::TopicOff => None,
    }
}

pub(super) fn number(value: Option<i64>) -> Param<'static> {
    value.map_or(Param::Null, Param::Int)
}

pub(super) fn text(value: Option<&str>) -> Param<'_> {
    value.map_or(Param::Null, Param::Text)
}

/// PostgreSQL keeps no U+0000, and nobody needs the other control characters.
fn shortened(user_agent: &str) -> String {
    user_agent.chars().filter(|c| !c.is_control()).take(USER_AGENT).collect()
}

fn read(row: &Row) -> Result<Entry, DatabaseError> {
    let optional = |column| row.optional_text(column).map(|text| text.map(str::to_owned));
    let slug = |column| match row.optional_text(column)? {
        Some(_) => row.parsed(column, "a slug").map(Some),
        None => Ok(None),
    };
    Ok(Entry {
        id: ProofId::from(row.int(0)?),
        action: row.parsed(1, "a change of consent")?,
        by: row.parsed(2, "who acted")?,
        audience: slug(3)?,
        client: slug(4)?,
        topic: slug(5)?,
        source: row.text(6)?.to_owned(),
        reason: optional(7)?,
        ip: optional(8)?,
        user_agent: optional(9)?,
        text_version: optional(10)?,
        happened_at: row.time(11)?,
    })
}

impl Line {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Line {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Self, LineError> {
        let text = text.trim();
        let well_formed =
            (1..=200).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        if well_formed { Ok(Self(text.to_owned())) } else { Err(LineError) }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Action {
    const ALL: [Self; 7] = [
        Self::Requested,
        Self::Confirmed,
        Self::Subscribed,
        Self::Unsubscribed,
        Self::Resubscribed,
        Self::TopicOn,
        Self::TopicOff,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Confirmed => "confirmed",
            Self::Subscribed => "subscribed",
            Self::Unsubscribed => "unsubscribed",
            Self::Resubscribed => "resubscribed",
            Self::TopicOn => "topic_on",
            Self::TopicOff => "topic_off",
        }
    }
}

impl FromStr for Action {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let found = Self::ALL.into_iter().find(|action| action.as_str() == text);
        found.ok_or(WordError("a change of consent"))
    }
}
