//! What is read before anything is decided: whether the keys are known, whom the client writes as, and what stands for and
//! against writing to each person. One read for all messages, with one statement for each thing that is asked.

use std::collections::HashMap;
use std::sync::Arc;

use tidings_access::{ClientId, Cx, Slug};
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Tx};

use super::wrong;
use crate::eligibility::{self, Kind, Mailing, ManyRelations};
use crate::transactional::purpose::Purpose;
use crate::transactional::request::{PartKind, Send, Wrong};
use crate::transactional::store::{self, Known, Name};

/// What was found out.
pub(super) struct Desk {
    /// Of each message, in its order.
    pub(super) looked: Vec<Looked>,
    /// What the relations say for and against writing to the people of each kind of message.
    pub(super) relations: HashMap<Mailing, ManyRelations>,
}

pub(super) enum Looked {
    Known(Known),
    New(Found),
}

/// What a new message names.
pub(super) struct Found {
    pub(super) senders: Arc<[Identity]>,
    /// Without what it names and nobody knows.
    pub(super) purpose: Purpose,
}

/// Whom the client writes as.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) slug: String,
    pub(super) email: String,
    pub(super) name: Option<String>,
    pub(super) reply_to: Option<String>,
    pub(super) is_default: bool,
}

/// What is asked of one message.
struct Asked {
    client: ClientId,
    key: Option<String>,
    to: EmailAddress,
    topic: Option<Slug>,
    audience: Option<Slug>,
    /// Without ids, which have to be found.
    purpose: Purpose,
}

impl Asked {
    /// What tells it from others, if the caller gave it a key.
    fn name(&self) -> Option<Name<'_>> {
        Some((self.client, self.key.as_deref()?))
    }

    fn about(send: &Send) -> Self {
        let part = send.part_of.as_ref();
        let kind = match (part.map(|part| part.kind), &send.reminder) {
            (Some(PartKind::Marketing), _) => Kind::Sequence,
            (Some(PartKind::Transactional), _) | (None, None) => Kind::Transactional,
            (None, Some(_)) => Kind::Reminder,
        };
        Self {
            client: send.client,
            key: send.idempotency_key.clone(),
            to: send.to.clone(),
            topic: send.topic.clone(),
            audience: part.and_then(|part| part.audience.clone()),
            purpose: Purpose {
                kind,
                topic: None,
                audience: None,
                sequence: part.map(|part| part.sequence.clone()),
                execution: part.and_then(|part| part.execution.clone()),
                step: part.and_then(|part| part.step.clone()),
                reminder: send.reminder.clone(),
            },
        }
    }
}

/// Reads what decides, in one go.
pub(super) async fn look(cx: &Cx, sends: &[&Send]) -> Result<Desk, DatabaseError> {
    let (within, asked) =
        (cx.clone(), sends.iter().map(|send| Asked::about(send)).collect::<Vec<_>>());
    cx.database().read(move |tx| look_in(tx, &within, &asked)).await
}

fn look_in(tx: &mut Tx<'_>, cx: &Cx, asked: &[Asked]) -> Result<Desk, DatabaseError> {
    let keyed: Vec<Name<'_>> = asked.iter().filter_map(Asked::name).collect();
    let known = store::known(tx, cx, &keyed)?;
    let mut names = Names::default();
    let mut looked = Vec::with_capacity(asked.len());
    let mut people: HashMap<Mailing, Vec<EmailAddress>> = HashMap::new();
    for one in asked {
        if let Some(known) = one.name().and_then(|name| known.get(&name)) {
            looked.push(Looked::Known(known.clone()));
            continue;
        }
        let purpose = Purpose {
            topic: names.id_of(tx, cx, "topics", one.topic.as_ref())?,
            audience: names.id_of(tx, cx, "audiences", one.audience.as_ref())?,
            ..one.purpose.clone()
        };
        people.entry(purpose.mailing(one.client)).or_default().push(one.to.clone());
        looked.push(Looked::New(Found { senders: names.senders(tx, cx, one.client)?, purpose }));
    }
    let mut relations = HashMap::new();
    for (mailing, people) in people {
        relations.insert(mailing, eligibility::relations_all(tx, cx, &mailing, &people)?);
    }
    Ok(Desk { looked, relations })
}

/// What many messages name alike, looked up once.
#[derive(Default)]
struct Names {
    senders: HashMap<ClientId, Arc<[Identity]>>,
    ids: HashMap<(&'static str, Slug), Option<i64>>,
}

impl Names {
    fn senders(
        &mut self,
        tx: &mut Tx<'_>,
        cx: &Cx,
        client: ClientId,
    ) -> Result<Arc<[Identity]>, DatabaseError> {
        if let Some(senders) = self.senders.get(&client) {
            return Ok(Arc::clone(senders));
        }
        let senders: Arc<[Identity]> = identities(tx, cx, client)?.into();
        self.senders.insert(client, Arc::clone(&senders));
        Ok(senders)
    }

    fn id_of(
        &mut self,
        tx: &mut Tx<'_>,
        cx: &Cx,
        table: &'static str,
        slug: Option<&Slug>,
    ) -> Result<Option<i64>, DatabaseError> {
        let Some(slug) = slug else { return Ok(None) };
        let name = (table, slug.clone());
        if let Some(id) = self.ids.get(&name) {
            return Ok(*id);
        }
        let sql = format!("SELECT id FROM {table} WHERE workspace_id = $1 AND slug = $2");
        let params = [Param::Int(cx.workspace_id().get()), Param::Text(slug.as_str())];
        let id = tx.query(&sql, &params)?.first().map(|row| row.int(0)).transpose()?;
        self.ids.insert(name, id);
        Ok(id)
    }
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
    senders: &[Identity],
    asked: Option<&str>,
    found: &mut Vec<Wrong>,
) -> Option<Identity> {
    let (chosen, else_) = match asked {
        Some(slug) => (
            senders.iter().find(|one| one.slug == slug),
            format!("this client has no sender {slug}"),
        ),
        None => (
            senders.iter().find(|one| one.is_default),
            "this client has no default sender: name one of its senders, or make one the default"
                .to_owned(),
        ),
    };
    if chosen.is_none() {
        found.push(wrong("sender", else_));
    }
    chosen.cloned()
}
