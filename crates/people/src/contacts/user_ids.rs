//! People as a product calls its users. Here: whose id it is, and learning it. Not here: what else is known of somebody.

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param};

use super::store;

/// The longest id of a user, in characters.
pub const MAX_USER_ID: usize = 255;

/// The address of whoever a product calls so, if anybody has told us.
pub async fn of_user_id(cx: &Cx, user_id: &str) -> Result<Option<EmailAddress>, DatabaseError> {
    let (workspace, user_id) = (cx.workspace_id().get(), user_id.to_owned());
    let read = cx.database().read(move |tx| {
        let sql = "SELECT e.value FROM channel_identities u
                   JOIN channel_identities e ON e.lead_id = u.lead_id AND e.channel = 'email'
                   WHERE u.workspace_id = $1 AND u.channel = 'user_id' AND u.value = $2
                   ORDER BY e.id LIMIT 1";
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Text(&user_id)])?;
        rows.first().map(|row| row.parsed(0, "an address")).transpose()
    });
    read.await
}

/// What products call the person with this address, the one that was told last first.
pub async fn user_ids(cx: &Cx, email: &EmailAddress) -> Result<Vec<String>, DatabaseError> {
    let (workspace, email) = (cx.workspace_id().get(), email.clone());
    let read = cx.database().read(move |tx| {
        let sql = "SELECT u.value FROM channel_identities e
                   JOIN channel_identities u ON u.lead_id = e.lead_id AND u.channel = 'user_id'
                   WHERE e.workspace_id = $1 AND e.channel = 'email' AND e.value = $2
                   ORDER BY u.updated_at DESC, u.id DESC LIMIT 20";
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Text(email.as_str())])?;
        rows.iter().map(|row| Ok(row.text(0)?.to_owned())).collect()
    });
    read.await
}

/// Writes down that a product calls the person with this address so, if nobody is called so and he is called nothing else.
/// Whose it is otherwise, the rules of identities decide (`leads::identity`), which are told the same event: an id goes
/// from one person to another by a merge and in no other way. Nothing happens if nobody has the address.
pub async fn learn_user_id(
    cx: &Cx,
    email: &EmailAddress,
    user_id: &str,
    at: Timestamp,
) -> Result<(), DatabaseError> {
    let (within, email, user_id) = (cx.clone(), email.clone(), user_id.to_owned());
    let write = cx.database().write(move |tx| {
        let Some(known) = store::find(tx, &within, &email)? else { return Ok(()) };
        let sql =
            "SELECT 1 FROM channel_identities WHERE lead_id = $1 AND channel = 'user_id' LIMIT 1";
        if !tx.query(sql, &[Param::Int(known.id.get())])?.is_empty() {
            return Ok(());
        }
        // It is at home where the address is: if they are taken apart who are one now, it goes with it.
        let sql = "INSERT INTO channel_identities
                       (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at, home_lead_id)
                   VALUES ($1, $2, 'user_id', $3, $3, $4, $4,
                       (SELECT home_lead_id FROM channel_identities
                        WHERE workspace_id = $1 AND channel = 'email' AND value = $5))
                   ON CONFLICT (workspace_id, channel, value) DO NOTHING";
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Int(known.id.get()),
            Param::Text(&user_id),
            Param::from(at),
            Param::Text(email.as_str()),
        ];
        tx.execute(sql, &params).map(drop)
    });
    write.await
}
