//! Senders: whom a client writes as. A message names a sender by its slug, never an address.
//!
//! Here: the senders of a client, and `resolve`, which finds the one for a message. Not here: whether the provider lets
//! us write as that address; it says so when we try.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tidings_access::{Change, ClientId, Cx, DisplayName, Slug, row_ids};
use tidings_kernel::{EmailAddress, hex};
use tidings_mail::Mailbox;
use tidings_sql::{DatabaseError, Param, Row, Tx};

/// How many a client can have.
pub const MAX_SENDERS: usize = 100;

row_ids! {
    SenderId
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderIdentity {
    pub id: SenderId,
    pub client: ClientId,
    pub slug: Slug,
    pub from_email: EmailAddress,
    pub from_name: Option<DisplayName>,
    /// Where answers go, if not to `from_email`.
    pub reply_to: Option<EmailAddress>,
    /// The one that is meant when none is named. A client with senders has exactly one.
    pub is_default: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl SenderIdentity {
    /// For the `From` of a letter.
    pub fn mailbox(&self) -> Mailbox {
        Mailbox {
            name: self.from_name.as_ref().map(ToString::to_string),
            email: self.from_email.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSender {
    pub slug: Slug,
    pub from_email: EmailAddress,
    pub from_name: Option<DisplayName>,
    pub reply_to: Option<EmailAddress>,
    pub is_default: bool,
}

#[derive(Debug, Clone)]
pub struct Replace {
    pub client: ClientId,
    /// Without a default among them the first one is it.
    pub senders: Vec<NewSender>,
}

#[derive(Debug, Clone)]
pub struct Add {
    pub client: ClientId,
    pub sender: NewSender,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    #[error("a client has at most {MAX_SENDERS} senders")]
    TooMany,
    #[error("there are two senders {0}")]
    Twice(Slug),
    #[error("both {0} and {1} are to be the default")]
    TwoDefaults(Slug, Slug),
    #[error("the senders could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum AddError {
    #[error("a client has at most {MAX_SENDERS} senders")]
    TooMany,
    #[error("there is already a sender {0}")]
    Taken(Slug),
    #[error("the sender could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("there is no sender {0}")]
    Missing(Slug),
    #[error("sender {0} is the default: make another one the default first")]
    IsDefault(Slug),
    #[error("the sender could not be changed")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("the client has no sender {0}")]
    Missing(Slug),
    #[error("the client has no sender yet: add one with PUT /v1/senders or `tidings senders add`")]
    NoDefault,
    #[error("the senders could not be read")]
    Store(#[from] DatabaseError),
}

/// All of a client, by slug.
pub async fn list(cx: &Cx, client: ClientId) -> Result<Vec<SenderIdentity>, DatabaseError> {
    let workspace = cx.workspace_id().get();
    cx.database().read(move |tx| load_all(tx, workspace, client)).await
}

/// Makes exactly these the client's senders. One that stays keeps its id. Doing it again changes nothing.
pub async fn replace(cx: &Cx, cmd: Replace) -> Result<Vec<SenderIdentity>, ReplaceError> {
    check(&cmd.senders)?;
    let within = cx.clone();
    let replace = cx.database().write(move |tx| {
        let workspace = within.workspace_id().get();
        let before = load_all(tx, workspace, cmd.client)?;
        for gone in before.iter().filter(|one| cmd.senders.iter().all(|new| new.slug != one.slug)) {
            tx.execute("DELETE FROM senders WHERE id = $1", &[Param::Int(gone.id.get())])?;
        }
        clear_default(tx, workspace, cmd.client)?;
        let default = cmd.senders.iter().position(|new| new.is_default).unwrap_or(0);
        for (index, new) in cmd.senders.iter().enumerate() {
            put(
                tx,
                &within,
                cmd.client,
                &NewSender { is_default: index == default, ..new.clone() },
            )?;
        }
        let after = load_all(tx, workspace, cmd.client)?;
        if changed(&before, &after) {
            let change = Change::new("senders.replace", "client", cmd.client)
                .between(told_all(&before), told_all(&after));
            within.record_change(tx, &change)?;
        }
        Ok(after)
    });
    replace.await
}

/// Adds one. The first one of a client is its default.
pub async fn add(cx: &Cx, cmd: Add) -> Result<SenderIdentity, AddError> {
    let within = cx.clone();
    let add = cx.database().write(move |tx| {
        let workspace = within.workspace_id().get();
        let before = load_all(tx, workspace, cmd.client)?;
        if before.len() >= MAX_SENDERS {
            return Err(AddError::TooMany);
        }
        if before.iter().any(|one| one.slug == cmd.sender.slug) {
            return Err(AddError::Taken(cmd.sender.slug.clone()));
        }
        let is_default = cmd.sender.is_default || before.is_empty();
        if is_default {
            clear_default(tx, workspace, cmd.client)?;
        }
        put(tx, &within, cmd.client, &NewSender { is_default, ..cmd.sender.clone() })?;
        let added = find(tx, workspace, cmd.client, &cmd.sender.slug)?;
        let added = added.ok_or(DatabaseError::NoRow)?;
        let change = Change::new("sender.add", "sender", &cmd.sender.slug).after(told(&added));
        within.record_change(tx, &change)?;
        Ok(added)
    });
    add.await
}

/// Messages that name no sender come from this one. Doing it again changes nothing.
pub async fn set_default(
    cx: &Cx,
    client: ClientId,
    slug: Slug,
) -> Result<SenderIdentity, ChangeError> {
    let within = cx.clone();
    let set = cx.database().write(move |tx| {
        let workspace = within.workspace_id().get();
        let all = load_all(tx, workspace, client)?;
        let found = all.iter().find(|one| one.slug == slug).cloned();
        let found = found.ok_or_else(|| ChangeError::Missing(slug.clone()))?;
        if found.is_default {
            return Ok(found);
        }
        clear_default(tx, workspace, client)?;
        let sql = "UPDATE senders SET is_default = 1, updated_at = $2 WHERE id = $1";
        let now = within.now();
        tx.execute(sql, &[Param::Int(found.id.get()), Param::Int(now.as_millisecond())])?;
        let before = all.iter().find(|one| one.is_default).map(|one| one.slug.to_string());
        let change = Change::new("sender.default", "sender", &slug)
            .between(json!({ "default": before }), json!({ "default": slug.as_str() }));
        within.record_change(tx, &change)?;
        Ok(SenderIdentity { is_default: true, updated_at: now, ..found })
    });
    set.await
}

/// Removes one that is not the default, or the last one.
pub async fn remove(cx: &Cx, client: ClientId, slug: Slug) -> Result<SenderIdentity, ChangeError> {
    let within = cx.clone();
    let remove = cx.database().write(move |tx| {
        let all = load_all(tx, within.workspace_id().get(), client)?;
        let others = all.len() > 1;
        let found = all.into_iter().find(|one| one.slug == slug);
        let found = found.ok_or_else(|| ChangeError::Missing(slug.clone()))?;
        if found.is_default && others {
            return Err(ChangeError::IsDefault(slug.clone()));
        }
        tx.execute("DELETE FROM senders WHERE id = $1", &[Param::Int(found.id.get())])?;
        let change = Change::new("sender.remove", "sender", &slug).before(told(&found));
        within.record_change(tx, &change)?;
        Ok(found)
    });
    remove.await
}

/// Whom a message comes from: the one it names, else the template's, else the client's default. A name that the client
/// does not have is a mistake and no reason to take another.
pub fn resolve(
    tx: &mut Tx<'_>,
    cx: &Cx,
    client: ClientId,
    requested: Option<&Slug>,
    template_default: Option<&Slug>,
) -> Result<SenderIdentity, ResolveError> {
    let workspace = cx.workspace_id().get();
    match requested.or(template_default) {
        Some(slug) => {
            find(tx, workspace, client, slug)?.ok_or_else(|| ResolveError::Missing(slug.clone()))
        }
        None => {
            let sql =
                format!("{SELECT} WHERE workspace_id = $1 AND client_id = $2 AND is_default = 1");
            let rows = tx.query(&sql, &[Param::Int(workspace), Param::Int(client.get())])?;
            Ok(read(rows.first().ok_or(ResolveError::NoDefault)?)?)
        }
    }
}

/// As the audit log has it: an address may be a person's, so of addresses it has the domain and a part of the hash, which
/// tells whether it is another one.
fn told(sender: &SenderIdentity) -> Value {
    let address = |email: &EmailAddress| {
        let digest = hex(&Sha256::digest(email.as_str()));
        json!({ "domain": email.domain(), "hash": &digest[..16] })
    };
    json!({
        "from": address(&sender.from_email),
        "reply_to": sender.reply_to.as_ref().map(address),
        "named": sender.from_name.is_some(),
        "default": sender.is_default,
    })
}

fn told_all(senders: &[SenderIdentity]) -> Value {
    senders.iter().map(|one| (one.slug.to_string(), told(one))).collect::<Map<_, _>>().into()
}

/// Whether something else than a time is another.
fn changed(before: &[SenderIdentity], after: &[SenderIdentity]) -> bool {
    let what = |one: &SenderIdentity| {
        let SenderIdentity { slug, from_email, from_name, reply_to, is_default, .. } = one.clone();
        (slug, from_email, from_name, reply_to, is_default)
    };
    !before.iter().map(what).eq(after.iter().map(what))
}

fn check(senders: &[NewSender]) -> Result<(), ReplaceError> {
    if senders.len() > MAX_SENDERS {
        return Err(ReplaceError::TooMany);
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = senders.iter().find(|new| !seen.insert(&new.slug)) {
        return Err(ReplaceError::Twice(twice.slug.clone()));
    }
    let mut defaults = senders.iter().filter(|new| new.is_default);
    match (defaults.next(), defaults.next()) {
        (Some(one), Some(two)) => {
            Err(ReplaceError::TwoDefaults(one.slug.clone(), two.slug.clone()))
        }
        _ => Ok(()),
    }
}

const SELECT: &str = "SELECT id, client_id, slug, from_email, from_name, reply_to, is_default, created_at, updated_at
                      FROM senders";

fn load_all(
    tx: &mut Tx<'_>,
    workspace: i64,
    client: ClientId,
) -> Result<Vec<SenderIdentity>, DatabaseError> {
    let sql = format!("{SELECT} WHERE workspace_id = $1 AND client_id = $2 ORDER BY slug");
    let rows = tx.query(&sql, &[Param::Int(workspace), Param::Int(client.get())])?;
    rows.iter().map(read).collect()
}

fn find(
    tx: &mut Tx<'_>,
    workspace: i64,
    client: ClientId,
    slug: &Slug,
) -> Result<Option<SenderIdentity>, DatabaseError> {
    let sql = format!("{SELECT} WHERE workspace_id = $1 AND client_id = $2 AND slug = $3");
    let params = [Param::Int(workspace), Param::Int(client.get()), Param::Text(slug.as_str())];
    tx.query(&sql, &params)?.first().map(read).transpose()
}

fn clear_default(tx: &mut Tx<'_>, workspace: i64, client: ClientId) -> Result<(), DatabaseError> {
    let sql = "UPDATE senders SET is_default = 0
               WHERE workspace_id = $1 AND client_id = $2 AND is_default = 1";
    tx.execute(sql, &[Param::Int(workspace), Param::Int(client.get())])?;
    Ok(())
}

/// `updated_at` moves only when something else does.
fn put(tx: &mut Tx<'_>, cx: &Cx, client: ClientId, new: &NewSender) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO senders (workspace_id, client_id, slug, from_email, from_name, reply_to, is_default,
                                    created_at, updated_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
               ON CONFLICT (client_id, slug) DO UPDATE SET
                   updated_at = CASE WHEN senders.from_email = excluded.from_email
                                      AND COALESCE(senders.from_name, '') = COALESCE(excluded.from_name, '')
                                      AND COALESCE(senders.reply_to, '') = COALESCE(excluded.reply_to, '')
                                     THEN senders.updated_at ELSE excluded.updated_at END,
                   from_email = excluded.from_email, from_name = excluded.from_name,
                   reply_to = excluded.reply_to, is_default = excluded.is_default
               WHERE senders.workspace_id = excluded.workspace_id";
    let name = new.from_name.as_ref().map(DisplayName::as_str);
    let reply_to = new.reply_to.as_ref().map(EmailAddress::as_str);
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(client.get()),
        Param::Text(new.slug.as_str()),
        Param::Text(new.from_email.as_str()),
        name.map_or(Param::Null, Param::Text),
        reply_to.map_or(Param::Null, Param::Text),
        Param::Int(new.is_default.into()),
        Param::Int(cx.now().as_millisecond()),
    ];
    // Nothing is written for a client of another workspace.
    if tx.execute(sql, &params)? == 0 { Err(DatabaseError::NoRow) } else { Ok(()) }
}

fn read(row: &Row) -> Result<SenderIdentity, DatabaseError> {
    let optional = |column: usize| row.optional_text(column).map(|text| text.is_some());
    Ok(SenderIdentity {
        id: SenderId::from(row.int(0)?),
        client: ClientId::from(row.int(1)?),
        slug: row.parsed(2, "a slug")?,
        from_email: row.parsed(3, "an address")?,
        from_name: optional(4)?.then(|| row.parsed(4, "a name")).transpose()?,
        reply_to: optional(5)?.then(|| row.parsed(5, "an address")).transpose()?,
        is_default: row.int(6)? == 1,
        created_at: row.time(7)?,
        updated_at: row.time(8)?,
    })
}
