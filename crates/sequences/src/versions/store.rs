//! What is written to `sequences`, `sequence_versions` and `sequence_listens`, each time in one transaction.

use std::collections::BTreeSet;

use serde_json::json;
use tidings_access::{Change as Audited, ClientId, Cx};
use tidings_delivery::canonical;
use tidings_sql::{DatabaseError, Param, Tx};

use super::check::{self, Named};
use super::look::Role;
use super::{Change, Put, PutError, Status};
use crate::definition::{Action, Definition, WaitFor, to_json};

/// A definition as its rows have it.
#[derive(Debug)]
pub(super) struct New {
    slug: String,
    name: Option<String>,
    transactional: bool,
    named: Named,
    definition: String,
    hash: String,
    listens: BTreeSet<(String, Role)>,
}

impl New {
    pub(super) fn of(definition: &Definition, named: Named) -> Self {
        let written = to_json(definition);
        Self {
            slug: definition.id.to_string(),
            name: definition.name.clone(),
            transactional: definition.transactional,
            named,
            hash: canonical::hash(&written),
            definition: written.to_string(),
            listens: listens(definition),
        }
    }

    /// In the order in which both statements have them, after the workspace, the slug and the time.
    fn params<'a>(&'a self, cx: &Cx) -> Vec<Param<'a>> {
        vec![
            Param::Int(cx.workspace_id().get()),
            Param::Text(&self.slug),
            Param::from(cx.now()),
            self.name.as_deref().into(),
            Param::Int(self.named.client),
            self.named.audience.into(),
            self.named.topic.into(),
            Param::Int(self.transactional.into()),
        ]
    }
}

fn listens(definition: &Definition) -> BTreeSet<(String, Role)> {
    let trigger = definition.trigger.iter().map(|trigger| (&trigger.event, Role::Trigger));
    let exits = definition.exit_on.iter().map(|exit| (&exit.event, Role::Exit));
    let mails = definition.events.iter().map(|one| (&one.event, Role::Event));
    let waits = definition.all_steps().into_iter().filter_map(|step| match &step.action {
        Action::WaitFor(WaitFor { event, .. }) => Some((event, Role::Wait)),
        _ => None,
    });
    let all = trigger.chain(exits).chain(mails).chain(waits);
    all.map(|(event, role)| (event.clone(), role)).collect()
}

/// Makes a definition the active one, unless it is. `None` if what is there is not of the one client that may change it.
pub(super) fn put(
    tx: &mut Tx<'_>,
    cx: &Cx,
    new: &New,
    only_of: Option<ClientId>,
) -> Result<Option<Put>, PutError> {
    let sql = "INSERT INTO sequences (workspace_id, slug, created_at, updated_at, name, client_id, audience_id, topic_id,
                   transactional, active_version)
               VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8, 1)
               ON CONFLICT (workspace_id, slug) DO NOTHING RETURNING id";
    let made = tx.query(sql, &new.params(cx))?;
    if let Some(row) = made.first() {
        // Somebody may have made such a campaign a moment ago.
        if let Some(fault) = check::of_campaign(tx, cx, &new.slug)? {
            return Err(PutError::Faults(vec![fault]));
        }
        insert(tx, cx, (row.int(0)?, 1), new)?;
        let told = json!({ "version": 1, "hash": new.hash, "status": "active" });
        let change = Audited::new("sequence.create", "sequence", &new.slug).after(told);
        cx.record_change(tx, &change)?;
        return Ok(Some(Put { change: Change::Created, version: 1, status: Status::Active }));
    }
    let Some(there) = lock(tx, cx, &new.slug)? else { return Err(DatabaseError::NoRow.into()) };
    if only_of.is_some_and(|client| client != there.client) {
        return Ok(None);
    }
    let sql = "SELECT hash, (SELECT MAX(version) FROM sequence_versions WHERE sequence_id = $1)
               FROM sequence_versions WHERE sequence_id = $1 AND version = $2";
    let rows = tx.query(sql, &[Param::Int(there.id), Param::Int(there.version)])?;
    let row = rows.first().ok_or(DatabaseError::NoRow)?;
    let (is_same, last) = (row.text(0)? == new.hash, row.int(1)?);
    if is_same && there.status != Status::Archived {
        let There { version, status, .. } = there;
        return Ok(Some(Put { change: Change::Unchanged, version, status }));
    }
    let version = if is_same { there.version } else { last + 1 };
    let status = if there.status == Status::Archived { Status::Active } else { there.status };
    let sql = "UPDATE sequences SET updated_at = $3, name = $4, client_id = $5, audience_id = $6, topic_id = $7,
                   transactional = $8, active_version = $9, status = $10
               WHERE workspace_id = $1 AND slug = $2";
    let mut params = new.params(cx);
    params.extend([Param::Int(version), Param::Text(status.as_str())]);
    tx.execute(sql, &params)?;
    if !is_same {
        insert(tx, cx, (there.id, version), new)?;
    }
    let before =
        json!({ "version": there.version, "hash": row.text(0)?, "status": there.status.as_str() });
    let after = json!({ "version": version, "hash": new.hash, "status": status.as_str() });
    let change = Audited::new("sequence.update", "sequence", &new.slug).between(before, after);
    cx.record_change(tx, &change)?;
    Ok(Some(Put { change: Change::Changed, version, status }))
}

/// A version, and what matters to the sequence from now on. Whoever waits or can be taken out by an older version still
/// hears of it.
fn insert(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (id, version): (i64, i64),
    new: &New,
) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO sequence_versions (workspace_id, sequence_id, version, definition, hash, created_by, created_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let (workspace, actor) = (Param::Int(cx.workspace_id().get()), cx.actor().to_string());
    let params = [
        workspace,
        Param::Int(id),
        Param::Int(version),
        Param::Text(&new.definition),
        Param::Text(&new.hash),
        Param::Text(&actor),
        Param::from(cx.now()),
    ];
    tx.execute(sql, &params)?;
    let sql =
        "DELETE FROM sequence_listens WHERE sequence_id = $1 AND role IN ('trigger', 'event')";
    tx.execute(sql, &[Param::Int(id)])?;
    for (event, role) in &new.listens {
        let sql = "INSERT INTO sequence_listens (workspace_id, event_name, sequence_id, role)
                   VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let params = [workspace, Param::Text(event), Param::Int(id), Param::Text(role.as_str())];
        tx.execute(sql, &params)?;
    }
    Ok(())
}

struct There {
    id: i64,
    client: ClientId,
    version: i64,
    status: Status,
}

/// Every other change of it waits for the end of this transaction.
fn lock(tx: &mut Tx<'_>, cx: &Cx, slug: &str) -> Result<Option<There>, DatabaseError> {
    let sql = "UPDATE sequences SET updated_at = updated_at WHERE workspace_id = $1 AND slug = $2
               RETURNING id, active_version, status, client_id";
    let rows = tx.query(sql, &[Param::Int(cx.workspace_id().get()), Param::Text(slug)])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let status = row.parsed(2, "a status")?;
    let client = row.int(3)?.into();
    Ok(Some(There { id: row.int(0)?, client, version: row.int(1)?, status }))
}

/// Tells whether there is such a sequence.
pub(super) fn set_status(
    tx: &mut Tx<'_>,
    cx: &Cx,
    slug: &str,
    status: Status,
) -> Result<bool, DatabaseError> {
    let Some(there) = lock(tx, cx, slug)? else { return Ok(false) };
    if there.status == status {
        return Ok(true);
    }
    let sql = "UPDATE sequences SET status = $2, updated_at = $3 WHERE id = $1";
    let params = [Param::Int(there.id), Param::Text(status.as_str()), Param::from(cx.now())];
    tx.execute(sql, &params)?;
    let action = match status {
        Status::Active => "sequence.resume",
        Status::Paused => "sequence.pause",
        Status::Archived => "sequence.archive",
    };
    let change = Audited::new(action, "sequence", slug)
        .between(json!({ "status": there.status.as_str() }), json!({ "status": status.as_str() }));
    cx.record_change(tx, &change)?;
    Ok(true)
}
