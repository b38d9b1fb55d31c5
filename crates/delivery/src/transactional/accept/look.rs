//! What is read before anything is decided: whether the key is known, whom the client writes as, and what stands for and
//! against writing to the person.

use tidings_access::{ClientId, Cx, Slug};
use tidings_sql::{DatabaseError, Param, Tx};

use super::wrong;
use crate::eligibility::{self, Kind, Relations};
use crate::transactional::purpose::Purpose;
use crate::transactional::request::{PartKind, Send, Wrong};
use crate::transactional::store::{self, Known};

/// What is known before anything is decided.
pub(super) struct Desk {
    pub(super) senders: Vec<Identity>,
    /// Without what it names and nobody knows.
    pub(super) purpose: Purpose,
    /// What the relations say for and against writing to the person.
    pub(super) relations: Relations,
}

pub(super) enum Looked {
    Known(Known),
    New(Box<Desk>),
}

/// Whom the client writes as.
pub(super) struct Identity {
    pub(super) slug: String,
    pub(super) email: String,
    pub(super) name: Option<String>,
    pub(super) reply_to: Option<String>,
    pub(super) is_default: bool,
}

/// Reads what decides, in one go.
pub(super) async fn look(
    cx: &Cx,
    send: &Send,
    key: Option<String>,
) -> Result<Looked, DatabaseError> {
    let (within, client, topic) = (cx.clone(), send.client, send.topic.clone());
    let (to, part, reminder) = (send.to.clone(), send.part_of.clone(), send.reminder.clone());
    let look = cx.database().read(move |tx| {
        let known = key.as_deref().map(|key| store::known(tx, &within, client, key)).transpose()?;
        if let Some(Some(known)) = known {
            return Ok(Looked::Known(known));
        }
        let senders = identities(tx, &within, client)?;
        let topic = topic.as_ref().map(|slug| id_of(tx, &within, "topics", slug)).transpose()?;
        let audience = part.as_ref().and_then(|part| part.audience.as_ref());
        let audience = audience.map(|slug| id_of(tx, &within, "audiences", slug)).transpose()?;
        let part = part.as_ref();
        let purpose = Purpose {
            kind: match (part.map(|part| part.kind), &reminder) {
                (Some(PartKind::Marketing), _) => Kind::Sequence,
                (Some(PartKind::Transactional), _) | (None, None) => Kind::Transactional,
                (None, Some(_)) => Kind::Reminder,
            },
            topic: topic.flatten(),
            audience: audience.flatten(),
            sequence: part.map(|part| part.sequence.clone()),
            execution: part.and_then(|part| part.execution.clone()),
            step: part.and_then(|part| part.step.clone()),
            reminder: reminder.clone(),
        };
        let question = purpose.question(client, to.clone());
        let relations = eligibility::relations(tx, &within, &question)?;
        Ok(Looked::New(Box::new(Desk { senders, purpose, relations })))
    });
    look.await
}

fn id_of(
    tx: &mut Tx<'_>,
    cx: &Cx,
    table: &'static str,
    slug: &Slug,
) -> Result<Option<i64>, DatabaseError> {
    let sql = format!("SELECT id FROM {table} WHERE workspace_id = $1 AND slug = $2");
    let params = [Param::Int(cx.workspace_id().get()), Param::Text(slug.as_str())];
    tx.query(&sql, &params)?.first().map(|row| row.int(0)).transpose()
}

fn identities(tx: &mut Tx<'_>, cx: &Cx, client: ClientId) -> Result<Vec<Identity>, DatabaseError> {
    let sql = "SELECT slug, from_email, from_name, reply_to, is_default FROM senders
               WHERE workspace_id = $1 AND client_id = $2 LIMIT 100";
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(client.get())];
    let read = |row: &tidings_sql::Row| {
        Ok(Identity {
            slug: row.text(0)?.to_owned(),
            email: row.text(1)?.to_owned(),
            name: row.optional_text(2)?.map(str::to_owned),
            reply_to: row.optional_text(3)?.map(str::to_owned),
            is_default: row.int(4)? == 1,
        })
    };
    tx.query(sql, &params)?.iter().map(read).collect()
}

/// The one that was asked for, else the client's default.
pub(super) fn choose(
    senders: Vec<Identity>,
    asked: Option<&str>,
    found: &mut Vec<Wrong>,
) -> Option<Identity> {
    let mut senders = senders.into_iter();
    let (chosen, else_) = match asked {
        Some(slug) => {
            (senders.find(|one| one.slug == slug), format!("this client has no sender {slug}"))
        }
        None => (
            senders.find(|one| one.is_default),
            "this client has no default sender: name one of its senders, or make one the default"
                .to_owned(),
        ),
    };
    if chosen.is_none() {
        found.push(wrong("sender", else_));
    }
    chosen
}
