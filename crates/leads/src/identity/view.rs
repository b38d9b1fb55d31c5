//! One contact over all channels: what he is known by, and where he is in the other parts of the product.

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_people::contacts::ContactId;
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::channel::Identity;
use super::rules::MAX_MERGED;
use super::store;

/// So many identities of one contact are shown.
const SHOWN: i64 = 1_000;

/// Who is meant.
#[derive(Debug, Clone)]
pub enum Whom {
    Contact(ContactId),
    Email(EmailAddress),
    /// By anything else that he is known by.
    Identity(Identity),
}

/// To whom a partition belongs now, and all partitions of his.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub lead_id: ContactId,
    /// His own, where memory and features are.
    pub lead_organization_id: String,
    /// Where his events are: his own first, and those of all who were merged into him.
    pub partitions: Vec<String>,
}

/// Everything that one person is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub owner: Owner,
    pub first_seen_at: Option<Timestamp>,
    pub last_seen_at: Option<Timestamp>,
    pub identities: Vec<Shown>,
    /// Those who were merged into him.
    pub merged: Vec<ContactId>,
}

/// An identity, and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub channel: String,
    pub value: String,
    pub typed: String,
    /// Whose it was before he was merged.
    pub from: Option<ContactId>,
    /// What he is in another part of the product by this identity: `SUB#ada@example.org` as a subscriber,
    /// `USER#u1` in the inbox, `CUSTOMER#c1` as who is reminded.
    pub is: Option<String>,
    pub created_at: Timestamp,
}

/// To whom a partition belongs. `None` if there is no such partition, or who it was is erased.
pub async fn owner(cx: &Cx, lead_organization_id: &str) -> Result<Option<Owner>, DatabaseError> {
    let Ok(partition) = lead_organization_id.parse::<i64>() else { return Ok(None) };
    let within = cx.clone();
    let find = cx.database().read(move |tx| {
        let lead = "SELECT lead_id FROM lead_organizations WHERE workspace_id = $1 AND id = $2";
        owner_by(tx, &within, (lead, partition))
    });
    find.await
}

/// Whoever is meant, as he is known now.
pub async fn find(cx: &Cx, whom: Whom) -> Result<Option<Owner>, DatabaseError> {
    let within = cx.clone();
    cx.database().read(move |tx| find_in(tx, &within, &whom)).await
}

/// What whoever is meant is known by.
pub async fn view(cx: &Cx, whom: Whom) -> Result<Option<View>, DatabaseError> {
    let within = cx.clone();
    let view = cx.database().read(move |tx| {
        let Some(owner) = find_in(tx, &within, &whom)? else { return Ok(None) };
        let lead = Param::Int(owner.lead_id.get());
        let sql = "SELECT channel, value, typed_value, home_lead_id, created_at
                   FROM channel_identities WHERE lead_id = $1 ORDER BY id LIMIT $2";
        let rows = tx.query(sql, &[lead, Param::Int(SHOWN)])?;
        let identities = rows.iter().map(shown).collect::<Result<_, DatabaseError>>()?;
        let sql = "SELECT first_seen_at, last_seen_at FROM lead_organizations WHERE lead_id = $1";
        let rows = tx.query(sql, &[lead])?;
        let seen = |column| rows.first().map_or(Ok(None), |row| row.optional_time(column));
        let merged = store::family(tx, owner.lead_id.get())?;
        Ok(Some(View {
            first_seen_at: seen(0)?,
            last_seen_at: seen(1)?,
            identities,
            merged: merged.into_iter().skip(1).map(ContactId::from).collect(),
            owner,
        }))
    });
    view.await
}

fn shown(row: &Row) -> Result<Shown, DatabaseError> {
    let (channel, value) = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
    let is = match channel.as_str() {
        "email" => Some(format!("SUB#{value}")),
        "user_id" => Some(format!("USER#{value}")),
        "customer_id" => Some(format!("CUSTOMER#{value}")),
        _ => None,
    };
    let from = row.optional_int(3)?.map(ContactId::from);
    let typed = row.text(2)?.to_owned();
    Ok(Shown { channel, value, typed, from, is, created_at: row.time(4)? })
}

pub(super) fn find_in(
    tx: &mut Tx<'_>,
    cx: &Cx,
    whom: &Whom,
) -> Result<Option<Owner>, DatabaseError> {
    let holder = match whom {
        Whom::Contact(contact) => return owner_of(tx, cx, contact.get()),
        Whom::Email(email) => store::holder(tx, cx, &Identity::email(email))?,
        Whom::Identity(identity) => store::holder(tx, cx, identity)?,
    };
    holder.map_or(Ok(None), |holder| owner_of(tx, cx, holder.lead))
}

fn owner_of(tx: &mut Tx<'_>, cx: &Cx, lead: i64) -> Result<Option<Owner>, DatabaseError> {
    owner_by(tx, cx, ("SELECT CAST($2 AS BIGINT)", lead))
}

/// Every event asks this, so it is one statement: up to whom he has become, and down to all who have become him.
fn owner_by(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (lead, by): (&str, i64),
) -> Result<Option<Owner>, DatabaseError> {
    let sql = format!(
        "WITH RECURSIVE way (id, up, erased_at) AS (
             SELECT id, merged_into_id, erased_at FROM leads WHERE workspace_id = $1 AND id = ({lead})
             UNION SELECT l.id, l.merged_into_id, l.erased_at FROM leads l JOIN way w ON l.id = w.up),
         family (id, depth) AS (
             SELECT id, 0 FROM way WHERE up IS NULL AND erased_at IS NULL
             UNION SELECT l.id, f.depth + 1 FROM leads l JOIN family f ON l.merged_into_id = f.id
             WHERE f.depth < {MAX_MERGED})
         SELECT f.id, o.id FROM family f LEFT JOIN lead_organizations o ON o.lead_id = f.id
         ORDER BY f.depth, f.id"
    );
    let rows = tx.query(&sql, &[Param::Int(cx.workspace_id().get()), Param::Int(by)])?;
    let Some(root) = rows.first().map(|row| row.int(0)).transpose()? else { return Ok(None) };
    let mut partitions = Vec::new();
    for row in &rows {
        partitions.extend(row.optional_int(1)?.map(|id| id.to_string()));
    }
    // A lead without a partition has no events yet; his first one brings it.
    let Some(own) = partitions.first().cloned() else { return Ok(None) };
    Ok(Some(Owner { lead_id: root.into(), lead_organization_id: own, partitions }))
}
