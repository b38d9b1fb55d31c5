//! Pairs who may be one person, and what the workspace wants to be done with such.

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Change, Cx, row_ids};
use tidings_people::contacts::ContactId;
use tidings_sql::{DatabaseError, Param, Row};

use super::rules::Policy;
use super::store;

row_ids! {
    FlagId
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    pub id: FlagId,
    pub contacts: [ContactId; 2],
    /// `ids_differ`, `setting`, `taken_apart` or `too_many`.
    pub cause: String,
    pub event_id: Option<String>,
    pub flagged_at: Timestamp,
}

/// Pairs that nobody has decided on, the newest first. Of whoever is erased there is nothing to decide.
pub async fn flags(
    cx: &Cx,
    before: Option<FlagId>,
    limit: usize,
) -> Result<Vec<Flag>, DatabaseError> {
    let (workspace, limit) = (cx.workspace_id().get(), i64::try_from(limit).unwrap_or(i64::MAX));
    let list = cx.database().read(move |tx| {
        let sql = "SELECT id, first_id, second_id, cause, event_id, flagged_at FROM lead_flags
                   WHERE workspace_id = $1 AND id < $2 AND resolved_at IS NULL
                         AND NOT EXISTS (SELECT 1 FROM leads l
                             WHERE l.id IN (lead_flags.first_id, lead_flags.second_id) AND l.erased_at IS NOT NULL)
                   ORDER BY id DESC LIMIT $3";
        let before = Param::Int(before.map_or(i64::MAX, FlagId::get));
        let rows = tx.query(sql, &[Param::Int(workspace), before, Param::Int(limit)])?;
        rows.iter().map(read).collect()
    });
    list.await
}

fn read(row: &Row) -> Result<Flag, DatabaseError> {
    Ok(Flag {
        id: row.int(0)?.into(),
        contacts: [row.int(1)?.into(), row.int(2)?.into()],
        cause: row.text(3)?.to_owned(),
        event_id: row.optional_text(4)?.map(ToOwned::to_owned),
        flagged_at: row.time(5)?,
    })
}

/// They are two people, and nobody is asked again. `false` if there is no such flag, or it was decided on before.
pub async fn dismiss(cx: &Cx, id: FlagId) -> Result<bool, DatabaseError> {
    let within = cx.clone();
    let dismiss = cx.database().write(move |tx| {
        let sql = "UPDATE lead_flags SET resolved_at = $3, resolution = 'dismissed'
                   WHERE workspace_id = $1 AND id = $2 AND resolved_at IS NULL
                   RETURNING first_id, second_id, cause";
        let workspace = Param::Int(within.workspace_id().get());
        let params = [workspace, Param::Int(id.get()), Param::from(within.now())];
        let rows = tx.query(sql, &params)?;
        let Some(row) = rows.first() else { return Ok(false) };
        let of = |resolution: Option<&str>| -> Result<_, DatabaseError> {
            let contacts = [row.int(0)?, row.int(1)?];
            Ok(json!({ "contacts": contacts, "cause": row.text(2)?, "resolution": resolution }))
        };
        // Of whom it was stays in both: it is what a reader looks for.
        let change = Change::new("contact.flag_dismiss", "contact_flag", id)
            .before(of(None)?)
            .after(of(Some("dismissed"))?);
        within.record_change(tx, &change)?;
        Ok(true)
    });
    dismiss.await
}

/// What is done when one event names identities of two people.
pub async fn policy(cx: &Cx) -> Result<Policy, DatabaseError> {
    let within = cx.clone();
    cx.database().read(move |tx| store::policy(tx, &within)).await
}

/// Setting the same again changes nothing.
pub async fn set_policy(cx: &Cx, policy: Policy) -> Result<(), DatabaseError> {
    let within = cx.clone();
    let word = |policy: Policy| match policy {
        Policy::Merge => "merge",
        Policy::Flag => "flag",
    };
    let set = cx.database().write(move |tx| {
        let before = store::policy(tx, &within)?;
        if before == policy {
            return Ok(());
        }
        let sql = "INSERT INTO workspace_settings (workspace_id, shared_identities, updated_at)
                   VALUES ($1, $2, $3)
                   ON CONFLICT (workspace_id) DO UPDATE SET shared_identities = $2, updated_at = $3";
        let workspace = within.workspace_id().get();
        let params =
            [Param::Int(workspace), Param::Text(word(policy)), Param::from(within.now())];
        tx.execute(sql, &params)?;
        let told = |policy| json!({ "shared_identities": word(policy) });
        let change = Change::new("settings.identity", "workspace", workspace);
        within.record_change(tx, &change.between(told(before), told(policy)))
    });
    set.await
}
