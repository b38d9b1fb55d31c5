//! The relations of a contact: `leads`, `channel_identities`, `lead_organizations`.

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Tx};

use super::values::ContactId;
use crate::consent::erased;
use crate::news;
use crate::segments;

/// So many addresses of one person are looked at: marked when he leaves, and cleaned when he is erased.
pub(crate) const MAX_ADDRESSES: i64 = 1000;

/// `WITH` everybody, as `person (id)`, who is the same person as whoever has the address that stands in this place; the workspace is `$1`.
/// An address goes along when somebody becomes one with another contact, and rows about him stay: so they are looked for with all who
/// were merged into whoever has the address now.
pub fn with_person(address: &str) -> String {
    format!(
        "WITH RECURSIVE person (id) AS (
             SELECT lead_id FROM channel_identities WHERE workspace_id = $1 AND channel = 'email' AND value = {address}
             UNION
             SELECT l.id FROM leads l JOIN person p ON l.merged_into_id = p.id
         )"
    )
}

/// What the relations say of the person with an address.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) id: ContactId,
    /// The address as somebody wrote it.
    pub(crate) typed: String,
    pub(crate) timezone: Option<String>,
    pub(crate) unsubscribed_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
}

pub(crate) fn find(
    tx: &mut Tx<'_>,
    cx: &Cx,
    email: &EmailAddress,
) -> Result<Option<Known>, DatabaseError> {
    let sql = "SELECT l.id, i.typed_value, l.unsubscribed_at, l.created_at, l.timezone
               FROM channel_identities i JOIN leads l ON l.id = i.lead_id
               WHERE i.workspace_id = $1 AND i.channel = 'email' AND i.value = $2";
    let params = [Param::Int(cx.workspace_id().get()), Param::Text(email.as_str())];
    let rows = tx.query(sql, &params)?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Known {
        id: ContactId::from(row.int(0)?),
        typed: row.text(1)?.to_owned(),
        unsubscribed_at: row.optional_time(2)?,
        created_at: row.time(3)?,
        timezone: row.optional_text(4)?.map(ToOwned::to_owned),
    }))
}

/// What a contact is known by, in its normal form and as somebody wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownBy<'a> {
    /// `email`, `phone`, `whatsapp`, `user_id`, `customer_id`, `anonymous_id` or `custom:<name>`.
    pub channel: &'a str,
    pub value: &'a str,
    pub typed: &'a str,
}

impl<'a> From<&'a EmailAddress> for KnownBy<'a> {
    fn from(email: &'a EmailAddress) -> Self {
        Self { channel: EMAIL, value: email.as_str(), typed: email.typed() }
    }
}

impl KnownBy<'_> {
    fn email(&self) -> Option<EmailAddress> {
        if self.channel == EMAIL { self.typed.parse().ok() } else { None }
    }
}

const EMAIL: &str = "email";

/// Finds the person with an address or makes one, in the caller's transaction. What somebody erased with this address had
/// unsubscribed from and switched off holds for whoever is made.
pub fn ensure(tx: &mut Tx<'_>, cx: &Cx, email: &EmailAddress) -> Result<ContactId, DatabaseError> {
    if let Some(known) = find(tx, cx, email)? {
        return Ok(known.id);
    }
    match make(tx, cx, email.into())? {
        Some(id) => Ok(id),
        None => find(tx, cx, email)?.map(|known| known.id).ok_or(DatabaseError::Conflict),
    }
}

/// Makes a contact who is known by this and nothing else, in the caller's transaction: there is no other way to make one
/// but by a file of many. `None` if somebody else was faster; a transaction that looks as if it ran alone never sees that.
pub fn make(
    tx: &mut Tx<'_>,
    cx: &Cx,
    known_by: KnownBy<'_>,
) -> Result<Option<ContactId>, DatabaseError> {
    let (workspace, now) =
        (Param::Int(cx.workspace_id().get()), Param::Int(cx.now().as_millisecond()));
    let lead =
        "INSERT INTO leads (workspace_id, created_at, updated_at) VALUES ($1, $2, $2) RETURNING id";
    let rows = tx.query(lead, &[workspace, now])?;
    let id = rows.first().ok_or(DatabaseError::NoRow)?.int(0)?;
    if !insert(tx, cx, id, known_by)? {
        tx.execute("DELETE FROM leads WHERE id = $1", &[Param::Int(id)])?;
        return Ok(None);
    }
    let organization =
        "INSERT INTO lead_organizations (workspace_id, lead_id, created_at, updated_at)
                        VALUES ($1, $2, $3, $3)";
    tx.execute(organization, &[workspace, Param::Int(id), now])?;
    let email = known_by.email();
    tidings_webhooks::announce(cx, tx, &news::created(cx, id, email.as_ref()))?;
    let id = ContactId::from(id);
    if let Some(email) = &email {
        erased::restore(tx, cx, &[(id, email)])?;
        segments::changed(tx, cx, &[id])?;
    }
    Ok(Some(id))
}

/// A contact is known by this too from now on. `false` if somebody is known by it already: then nothing changes. What somebody
/// erased with an address had taken back holds for whoever gets it.
pub fn attach(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    known_by: KnownBy<'_>,
) -> Result<bool, DatabaseError> {
    if !insert(tx, cx, contact.get(), known_by)? {
        return Ok(false);
    }
    if let Some(email) = known_by.email() {
        erased::restore(tx, cx, &[(contact, &email)])?;
        segments::changed(tx, cx, &[contact])?;
    }
    Ok(true)
}

fn insert(
    tx: &mut Tx<'_>,
    cx: &Cx,
    lead: i64,
    known_by: KnownBy<'_>,
) -> Result<bool, DatabaseError> {
    let sql = "INSERT INTO channel_identities
                   (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
               VALUES ($1, $2, $3, $4, $5, $6, $6)
               ON CONFLICT (workspace_id, channel, value) DO NOTHING";
    let params = [
        Param::Int(cx.workspace_id().get()),
        Param::Int(lead),
        Param::Text(known_by.channel),
        Param::Text(known_by.value),
        Param::Text(known_by.typed),
        Param::Int(cx.now().as_millisecond()),
    ];
    Ok(tx.execute(sql, &params)? > 0)
}
