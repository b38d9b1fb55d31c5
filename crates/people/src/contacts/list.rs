//! Finding contacts by what they are, page by page.
//!
//! A page is driven by whatever is likely to be smallest: the index of a tag, else the subscriptions to an audience, else
//! the contacts by id. What that gives is filtered further, a bounded number of people at a time: a page may be shorter than wanted, or even empty, and still say where the next begins.

use std::collections::HashMap;

use tidings_access::{Cx, Limit, Page, Slug, StorageError};
use tidings_kernel::{EmailAddress, Query, SortRange, Value, tables};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::profile::Profile;
use super::store::Known;
use super::{Contact, ContactId, Flags, Tag};
use crate::keys;
use crate::suppression;

/// So many people are looked at for one page.
const EXAMINED: usize = 5_000;
/// So many at once.
const CHUNK: usize = 100;

/// Who is wanted. What is not named does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    pub standing: Standing,
    pub tag: Option<Tag>,
    /// An attribute's name, and its value as one would write it: `pro`, `7`, `true`.
    pub attribute: Option<(String, String)>,
    /// Who is subscribed to this audience.
    pub audience: Option<Slug>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    #[default]
    All,
    /// Neither unsubscribed nor suppressed.
    Active,
    Unsubscribed,
    Suppressed,
}

/// Where a page ended. Which of the two it is depends on the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    Email(EmailAddress),
    Id(ContactId),
}

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("there is no audience {0}")]
    NoAudience(Slug),
    #[error("the cursor belongs to a list with another filter")]
    WrongCursor,
    #[error("the contacts could not be read")]
    Store(#[from] StorageError),
}

/// Somebody who may be meant.
struct Candidate {
    email: EmailAddress,
    known: Known,
    position: After,
}

/// Some candidates, and where the next begin.
struct Chunk {
    candidates: Vec<Candidate>,
    looked_at: usize,
    next: Option<After>,
}

/// By address if a tag is named, else by id.
pub async fn list(
    cx: &Cx,
    filter: Filter,
    after: Option<After>,
    limit: Limit,
) -> Result<Page<Contact, After>, ListError> {
    let audience = match &filter.audience {
        Some(slug) => Some(audience(cx, slug).await?),
        None => None,
    };
    let wanted = usize::try_from(limit.and_one()).unwrap_or(1);
    let items = cx.items().await?;
    let within = cx.clone();
    let gate = cx.database().read(move |tx| suppression::gate(tx, &within));
    let gate = gate.await.map_err(StorageError::from)?;
    let (mut found, mut after, mut examined) = (Vec::new(), after, 0);
    loop {
        let chunk = match (&filter.tag, after.take()) {
            (Some(_), Some(After::Id(_))) | (None, Some(After::Email(_))) => {
                return Err(ListError::WrongCursor);
            }
            (Some(tag), after) => tagged(cx, tag, audience, after).await?,
            (None, after) => by_id(cx, audience, after).await?,
        };
        let keys = chunk.candidates.iter().flat_map(|candidate| gate.keys(&candidate.email));
        let keys: Vec<_> = keys.collect();
        let held = items.batch_get(&tables::MAIN, &keys).await.map_err(StorageError::from)?;
        let of_each = held.chunks((held.len() / chunk.candidates.len().max(1)).max(1));
        for (candidate, held) in chunk.candidates.into_iter().zip(of_each) {
            let flags = Flags::of(Some(&candidate.known), &gate.read(&candidate.email, held));
            let profile = held.first().cloned().flatten().map(Profile::from).unwrap_or_default();
            let contact = Contact::new(candidate.email, &candidate.known, &profile, flags);
            if filter.admits(&contact) {
                found.push((contact, candidate.position));
            }
        }
        examined += chunk.looked_at;
        if found.len() >= wanted {
            let page = Page::cut(found, limit, |(_, position)| position.clone());
            return Ok(contacts_of(page.items, page.next));
        }
        if chunk.next.is_none() || examined >= EXAMINED {
            return Ok(contacts_of(found, chunk.next));
        }
        after = chunk.next;
    }
}

fn contacts_of(found: Vec<(Contact, After)>, next: Option<After>) -> Page<Contact, After> {
    Page { items: found.into_iter().map(|(contact, _)| contact).collect(), next }
}

impl Filter {
    fn admits(&self, contact: &Contact) -> bool {
        let standing = match self.standing {
            Standing::All => true,
            Standing::Active => !contact.unsubscribed && !contact.suppressed,
            Standing::Unsubscribed => contact.unsubscribed,
            Standing::Suppressed => contact.suppressed,
        };
        let attribute = self.attribute.as_ref().is_none_or(|(name, wanted)| {
            contact.attributes.get(name).is_some_and(|value| reads_as(value, wanted))
        });
        let tag = self.tag.as_ref().is_none_or(|tag| contact.tags.contains(tag.as_str()));
        standing && attribute && tag
    }
}

/// A text is itself; everything else is its JSON.
fn reads_as(value: &Value, wanted: &str) -> bool {
    match value {
        Value::S(text) => text == wanted,
        Value::N(number) => wanted.parse().is_ok_and(|wanted| *number == wanted),
        other => serde_json::to_string(other).is_ok_and(|json| json == wanted),
    }
}

async fn audience(cx: &Cx, slug: &Slug) -> Result<i64, ListError> {
    let (workspace, wanted) = (cx.workspace_id(), slug.clone());
    let find = cx.database().read(move |tx| {
        let sql = "SELECT id FROM audiences WHERE workspace_id = $1 AND slug = $2";
        let rows = tx.query(sql, &[Param::Int(workspace.get()), Param::Text(wanted.as_str())])?;
        rows.first().map(|row| row.int(0)).transpose()
    });
    let found: Option<i64> =
        find.await.map_err(|error: DatabaseError| StorageError::from(error))?;
    found.ok_or_else(|| ListError::NoAudience(slug.clone()))
}

/// In the order of the tag's index.
async fn tagged(
    cx: &Cx,
    tag: &Tag,
    audience: Option<i64>,
    after: Option<After>,
) -> Result<Chunk, StorageError> {
    let range = match after {
        Some(After::Email(email)) => SortRange::Gt(keys::subscriber(&email)),
        _ => SortRange::All,
    };
    let query = Query::new(&tables::MAIN, keys::tag_partition(tag.as_str()));
    let page = cx.items().await?.query(query.range(range).limit(CHUNK)).await?;
    let read = page.items.iter().filter_map(|item| item.text("email")?.parse().ok());
    let emails: Vec<EmailAddress> = read.collect();
    let next = page.cursor.and(emails.last().cloned()).map(After::Email);
    let (workspace, wanted) = (cx.workspace_id().get(), emails.clone());
    let known = cx.database().read(move |tx| known_by_address(tx, workspace, audience, &wanted));
    let mut known: HashMap<String, Known> = known.await?;
    let looked_at = page.items.len();
    let candidates = emails.into_iter().filter_map(|email| {
        let known = known.remove(email.as_str())?;
        Some(Candidate { position: After::Email(email.clone()), email, known })
    });
    Ok(Chunk { candidates: candidates.collect(), looked_at, next })
}

fn known_by_address(
    tx: &mut Tx<'_>,
    workspace: i64,
    audience: Option<i64>,
    emails: &[EmailAddress],
) -> Result<HashMap<String, Known>, DatabaseError> {
    if emails.is_empty() {
        return Ok(HashMap::new());
    }
    let places: Vec<_> = (0..emails.len()).map(|place| format!("${}", place + 3)).collect();
    let sql = format!(
        "SELECT l.id, i.value, i.typed_value, l.unsubscribed_at, l.created_at, l.timezone
         FROM channel_identities i JOIN leads l ON l.id = i.lead_id
         WHERE i.workspace_id = $1 AND i.channel = 'email' AND i.value IN ({})
           AND ($2 = 0 OR EXISTS (
               SELECT 1 FROM subscriptions s
               WHERE s.lead_id = l.id AND s.audience_id = $2 AND s.status = 'subscribed'))",
        places.join(", ")
    );
    let mut params = vec![Param::Int(workspace), Param::Int(audience.unwrap_or(0))];
    params.extend(emails.iter().map(|email| Param::Text(email.as_str())));
    let read = |row: &Row| Ok((row.text(1)?.to_owned(), known(row)?));
    tx.query(&sql, &params)?.iter().map(read).collect()
}

const LEAD: &str =
    "SELECT l.id, i.value, i.typed_value, l.unsubscribed_at, l.created_at, l.timezone";
/// Of somebody with several addresses, the first.
const ADDRESS: &str = "LEFT JOIN channel_identities i ON i.id = (
    SELECT MIN(first.id) FROM channel_identities first WHERE first.lead_id = l.id AND first.channel = 'email')";

async fn by_id(
    cx: &Cx,
    audience: Option<i64>,
    after: Option<After>,
) -> Result<Chunk, StorageError> {
    let after = if let Some(After::Id(id)) = after { id.get() } else { 0 };
    let workspace = cx.workspace_id().get();
    let source = match audience {
        Some(_) => {
            "FROM (SELECT DISTINCT lead_id FROM subscriptions
                   WHERE audience_id = $4 AND status = 'subscribed' AND lead_id > $2
                   ORDER BY lead_id LIMIT $3) s
             JOIN leads l ON l.id = s.lead_id"
        }
        None => "FROM leads l",
    };
    let sql = format!(
        "{LEAD} {source} {ADDRESS}
         WHERE l.workspace_id = $1 AND l.id > $2 AND l.erased_at IS NULL ORDER BY l.id LIMIT $3"
    );
    let read = cx.database().read(move |tx| {
        let mut params = vec![Param::Int(workspace), Param::Int(after), Param::Int(CHUNK as i64)];
        params.extend(audience.map(Param::Int));
        tx.query(&sql, &params)
    });
    let rows: Vec<Row> = read.await?;
    let mut candidates = Vec::new();
    for row in &rows {
        // Somebody who is known, but not by an address.
        let Some(email) = row.optional_text(1)? else { continue };
        let Ok(email) = email.parse::<EmailAddress>() else { continue };
        let known = known(row)?;
        candidates.push(Candidate { email, position: After::Id(known.id), known });
    }
    let last = rows.last().filter(|_| rows.len() == CHUNK).map(|row| row.int(0)).transpose()?;
    let next = last.map(|id| After::Id(ContactId::from(id)));
    Ok(Chunk { candidates, looked_at: rows.len(), next })
}

fn known(row: &Row) -> Result<Known, DatabaseError> {
    Ok(Known {
        id: ContactId::from(row.int(0)?),
        typed: row.text(2)?.to_owned(),
        unsubscribed_at: row.optional_time(3)?,
        created_at: row.time(4)?,
        timezone: row.optional_text(5)?.map(ToOwned::to_owned),
    })
}
