//! Looking at segments: which there are, who is in one, why somebody is or is not, and whether it has exactly those it
//! ought to have.

use jiff::Timestamp;
use tidings_access::{Cx, Limit, Page, Slug, StorageError};
use tidings_kernel::EmailAddress;
use tidings_people::consent::Whom;
use tidings_people::contacts::ContactId;
use tidings_sql::{Among, DatabaseError, Param, Row};

use super::settle::entered_at;
use super::store;
use super::{Segment, SegmentId};
use crate::audience::{self, Told};

/// So many people are compared at once.
const COMPARED: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no segment {0}")]
    Missing(Slug),
    #[error("the segment could not be reached")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for FindError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

/// Somebody who is in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub lead_id: ContactId,
    /// The first of his addresses. `None` if he was erased a moment ago.
    pub email: Option<EmailAddress>,
    pub entered_at: Timestamp,
}

/// Whether somebody is in a segment, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    pub lead_id: ContactId,
    /// Since when he is in it. `None` if he is not.
    pub entered_at: Option<Timestamp>,
    /// Whether he meets the condition with what is known now. A change that is on its way makes the two differ for a moment.
    pub meant: bool,
    pub explanation: Option<Told>,
}

/// A segment held against a walk over everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// What the segment says.
    pub members: u64,
    /// How many rows there are.
    pub rows: u64,
    /// How many meet the condition.
    pub meant: u64,
    /// Who of them is not in it.
    pub missing: u64,
    /// And who is in it and does not meet the condition.
    pub surplus: u64,
}

impl Verified {
    pub fn is_right(&self) -> bool {
        self.members == self.rows && self.missing == 0 && self.surplus == 0
    }
}

/// All of a workspace, in the order of their slugs. There are at most a hundred.
pub async fn list(cx: &Cx) -> Result<Vec<Segment>, DatabaseError> {
    let within = cx.clone();
    let list = cx.database().read(move |tx| {
        let mut all = store::all(tx, &within)?;
        all.sort_by(|a, b| a.slug.cmp(&b.slug));
        Ok(all)
    });
    list.await
}

pub async fn find(cx: &Cx, slug: Slug) -> Result<Segment, FindError> {
    let within = cx.clone();
    let find = cx.database().read(move |tx| {
        store::by_slug(tx, &within, &slug)?.ok_or_else(|| FindError::Missing(slug.clone()))
    });
    find.await
}

/// Who is in it, by contact, after one of them.
pub async fn members(
    cx: &Cx,
    slug: Slug,
    after: Option<ContactId>,
    limit: Limit,
) -> Result<Page<Member, ContactId>, FindError> {
    let segment = find(cx, slug).await?.id.get();
    let after = after.map_or(0, ContactId::get);
    let read = cx.database().read(move |tx| {
        let sql = "SELECT m.lead_id, m.entered_at, (
                       SELECT i.typed_value FROM channel_identities i
                       WHERE i.lead_id = m.lead_id AND i.channel = 'email' ORDER BY i.id LIMIT 1)
                   FROM segment_members m
                   WHERE m.segment_id = $1 AND m.lead_id > $2 ORDER BY m.lead_id LIMIT $3";
        let params = [Param::Int(segment), Param::Int(after), Param::Int(limit.and_one())];
        let member = |row: &Row| {
            let email = row.optional_text(2)?.and_then(|text| text.parse().ok());
            Ok(Member { lead_id: row.int(0)?.into(), entered_at: row.time(1)?, email })
        };
        let found: Result<Vec<Member>, DatabaseError> =
            tx.query(sql, &params)?.iter().map(member).collect();
        Ok::<_, DatabaseError>(Page::cut(found?, limit, |member| member.lead_id))
    });
    Ok(read.await?)
}

/// `None` if there is no such contact, or he has no address and can be in no segment.
pub async fn why(cx: &Cx, slug: Slug, whom: &Whom) -> Result<Option<Why>, FindError> {
    let segment = find(cx, slug).await?;
    let answer = match whom {
        Whom::Email(email) => audience::why(cx, &segment.walk(), email).await?,
        Whom::Contact(contact) => audience::why_of(cx, &segment.walk(), *contact).await?,
    };
    let Some(member) = answer.member else { return Ok(None) };
    let (id, lead_id) = (segment.id, member.lead_id);
    let entered_at = cx.database().glance(move |tx| entered_at(tx, id, lead_id)).await?;
    Ok(Some(Why { lead_id, entered_at, meant: answer.meant, explanation: answer.condition }))
}

/// Walks over everybody whom the condition means and compares. It changes nothing, and holds a page at most.
pub async fn verify(cx: &Cx, slug: Slug) -> Result<Verified, FindError> {
    let segment = find(cx, slug).await?;
    let (mut verified, mut after) = (Verified::default(), None::<String>);
    loop {
        let found = audience::page(cx, &segment.walk(), after.as_deref(), COMPARED).await?;
        let ids = found.contacts.iter().map(|member| member.lead_id.get()).collect();
        let inside = count_among(cx, segment.id, ids).await?;
        verified.meant += found.contacts.len() as u64;
        verified.missing += found.contacts.len() as u64 - inside;
        after = found.next;
        if after.is_none() {
            break;
        }
    }
    let id = segment.id.get();
    let count = cx.database().read(move |tx| {
        let sql =
            "SELECT s.members, (SELECT COUNT(*) FROM segment_members m WHERE m.segment_id = s.id)
                   FROM segments s WHERE s.id = $1";
        let rows = tx.query(sql, &[Param::Int(id)])?;
        let row = rows.first().ok_or(DatabaseError::NoRow)?;
        Ok::<_, DatabaseError>((row.int(0)?.unsigned_abs(), row.int(1)?.unsigned_abs()))
    });
    (verified.members, verified.rows) = count.await?;
    verified.surplus = verified.rows.saturating_sub(verified.meant - verified.missing);
    Ok(verified)
}

async fn count_among(cx: &Cx, segment: SegmentId, ids: Vec<i64>) -> Result<u64, DatabaseError> {
    let count = cx.database().read(move |tx| {
        let sql = "SELECT COUNT(*) FROM segment_members WHERE segment_id = $1 AND lead_id {among}";
        let rows = tx.query_among(sql, &[Param::Int(segment.get())], Among::Ints(&ids))?;
        Ok(rows.first().ok_or(DatabaseError::NoRow)?.int(0)?.unsigned_abs())
    });
    count.await
}
