//! The reader of a mail who follows one of its links: who he is, and how things stand for him.

use tidings_access::{Access, Cx, Slug, StorageError};
use tidings_delivery::links::{Addressee, Source};
use tidings_kernel::EmailAddress;
use tidings_people::consent::{ContactId, Whom, preferences};
use tidings_sql::{DatabaseError, Param, Row, Tx};

/// A page shows so many subscriptions.
const MOST: i64 = 200;
/// Somebody was merged into somebody who was merged himself.
const MERGES: usize = 10;

/// Somebody whom a link is about, and for whom it can do something.
#[derive(Clone)]
pub struct Reader {
    pub cx: Cx,
    pub to: Addressee,
    /// Who he is now: two contacts may have turned out to be one.
    pub contact: i64,
    /// Where the mail went.
    pub address: EmailAddress,
    /// The application that wrote.
    pub sender: String,
    /// The audience that the mail was for.
    pub audience: Option<String>,
    /// He wants nothing but transactional mail, whatever the subscriptions say.
    pub left_everything: bool,
    /// Nothing at all is sent to him, whatever he wants: his mail came back, or he complained.
    pub is_suppressed: bool,
    pub subscriptions: Vec<Subscription>,
    pub topics: Vec<Topic>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub id: i64,
    pub audience: i64,
    pub audience_name: String,
    /// Without a client it is to the whole audience.
    pub client: Option<i64>,
    pub client_name: Option<String>,
    pub is_on: bool,
    pub is_pending: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub id: i64,
    pub slug: Slug,
    pub name: String,
    pub description: Option<String>,
    pub is_on: bool,
}

/// What the relations say.
struct Rows {
    contact: i64,
    address: EmailAddress,
    sender: String,
    audience: Option<String>,
    subscriptions: Vec<Subscription>,
}

/// `None` if there is nobody any more whom the link is about.
pub async fn find(access: &Access, to: Addressee) -> Result<Option<Reader>, StorageError> {
    let Some(cx) = access.working_for(to.workspace).await? else { return Ok(None) };
    let Some(rows) = cx.database().read(move |tx| read(tx, &to)).await? else { return Ok(None) };
    let whom = Whom::Contact(ContactId::from(rows.contact));
    let Some(preferences) = preferences::show(&cx, whom).await? else { return Ok(None) };
    let topics = preferences.topics.into_iter().map(|preference| Topic {
        id: preference.topic.id.get(),
        slug: preference.topic.slug,
        name: preference.topic.name.to_string(),
        description: preference.topic.description.map(|line| line.to_string()),
        is_on: preference.on,
    });
    Ok(Some(Reader {
        cx,
        to,
        contact: rows.contact,
        address: rows.address,
        sender: rows.sender,
        audience: rows.audience,
        left_everything: preferences.left_everything,
        is_suppressed: preferences.suppressed,
        subscriptions: rows.subscriptions,
        topics: topics.collect(),
    }))
}

fn read(tx: &mut Tx<'_>, to: &Addressee) -> Result<Option<Rows>, DatabaseError> {
    let Some(contact) = contact(tx, to)? else { return Ok(None) };
    let Some(address) = address(tx, to)? else { return Ok(None) };
    let workspace = Param::Int(to.workspace);
    let sql = "SELECT name FROM clients WHERE workspace_id = $1 AND id = $2";
    let sender = tx.query(sql, &[workspace, Param::Int(to.client)])?;
    let Some(sender) = sender.first() else { return Ok(None) };
    let sender = sender.text(0)?.to_owned();
    let audience = match to.audience {
        Some(id) => {
            let sql = "SELECT name FROM audiences WHERE workspace_id = $1 AND id = $2";
            let rows = tx.query(sql, &[workspace, Param::Int(id)])?;
            rows.first().map(|row| row.text(0).map(str::to_owned)).transpose()?
        }
        None => None,
    };
    let person = [workspace, Param::Int(contact), Param::Int(MOST)];
    let sql = "SELECT s.id, s.audience_id, a.name, s.client_id, c.name, s.status
               FROM subscriptions s
               JOIN audiences a ON a.workspace_id = s.workspace_id AND a.id = s.audience_id
               LEFT JOIN clients c ON c.workspace_id = s.workspace_id AND c.id = s.client_id
               WHERE s.workspace_id = $1 AND s.lead_id = $2 ORDER BY a.name, s.id LIMIT $3";
    let subscriptions = tx.query(sql, &person)?;
    Ok(Some(Rows {
        contact,
        address,
        sender,
        audience,
        subscriptions: subscriptions.iter().map(subscription).collect::<Result<_, _>>()?,
    }))
}

/// Who the contact is now.
fn contact(tx: &mut Tx<'_>, to: &Addressee) -> Result<Option<i64>, DatabaseError> {
    let sql = "SELECT merged_into_id FROM leads WHERE workspace_id = $1 AND id = $2";
    let mut contact = to.contact;
    for _ in 0..MERGES {
        let rows = tx.query(sql, &[Param::Int(to.workspace), Param::Int(contact)])?;
        let Some(row) = rows.first() else { return Ok(None) };
        match row.optional_int(0)? {
            Some(other) => contact = other,
            None => return Ok(Some(contact)),
        }
    }
    Ok(None)
}

/// Where the message went. It is gone once the person is erased.
fn address(tx: &mut Tx<'_>, to: &Addressee) -> Result<Option<EmailAddress>, DatabaseError> {
    let (table, id) = match to.source {
        Source::Transactional(id) => ("transactional_messages", id),
        Source::Recipient(id) => ("campaign_recipients", id),
    };
    let sql = format!(
        "SELECT email FROM {table} WHERE workspace_id = $1 AND id = $2 AND email IS NOT NULL"
    );
    let rows = tx.query(&sql, &[Param::Int(to.workspace), Param::Int(id)])?;
    rows.first().map(|row| row.parsed(0, "an e-mail address")).transpose()
}

fn subscription(row: &Row) -> Result<Subscription, DatabaseError> {
    let status = row.text(5)?;
    Ok(Subscription {
        id: row.int(0)?,
        audience: row.int(1)?,
        audience_name: row.text(2)?.to_owned(),
        client: row.optional_int(3)?,
        client_name: row.optional_text(4)?.map(str::to_owned),
        is_on: status == "subscribed",
        is_pending: status == "pending",
    })
}
