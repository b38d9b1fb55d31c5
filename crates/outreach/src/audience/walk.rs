//! The walk over all who are meant, page by page, without ever holding them all.
//!
//! A page is driven by whatever is likely to be smallest (`cursor`), reads a bounded number of people at a time with what
//! the condition asks (`members`), and keeps those who meet it. The order of each driver does not change, so the place where a
//! page ended is all that has to be kept: whoever goes on from there, now or after a crash, meets everybody else once. Who is
//! added before that place meanwhile is not met.

use tidings_access::{ClientId, Cx, StorageError};
use tidings_kernel::{EmailAddress, Item};
use tidings_people::consent::AudienceId;
use tidings_people::contacts::ContactId;

use super::condition::Condition;
use super::cursor::{self, Driver};
use super::facts::Facts;
use super::matching::{Told, explain, matches};
use super::members::{self, Candidate};

/// So many people are looked at for one page.
const EXAMINED: usize = 5_000;
/// So many at once.
const CHUNK: usize = 500;

/// Whom a walk goes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    pub condition: Condition,
    /// Who writes: subscriptions to his part of an audience count.
    pub client: ClientId,
    /// Only who is subscribed to this audience.
    pub audience: Option<AudienceId>,
    /// Whether the caller wants the profiles. Without it they are read only where the condition asks.
    pub profiles: bool,
}

/// Some of those who are meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// At most as many as wanted, and maybe none.
    pub contacts: Vec<Member>,
    /// Where to go on. `None` if that was all. It may hold an address, so it is not for logs.
    pub next: Option<String>,
    /// How many were looked at for it.
    pub looked_at: usize,
}

/// Somebody who is meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub lead_id: ContactId,
    /// The first of his addresses: where he is written to.
    pub email: EmailAddress,
    /// The item PROFILE, if there is one and somebody wanted it.
    pub profile: Option<Item>,
    pub timezone: Option<String>,
}

/// Whether somebody is meant, and why (not).
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    /// Where he is written to. `None` if nobody can be meant by what was asked about: no contact has the address, or he
    /// has none, was erased or became part of another.
    pub member: Option<Member>,
    /// Whether he is subscribed to the walk's own audience, if it has one.
    pub in_audience: Option<bool>,
    pub condition: Option<Told>,
    pub meant: bool,
}

/// Up to `limit` (at most 1,000) of those who are meant, after a place that an earlier page told. A page may have less, or nobody at all, and still
/// say where the next begins: it ends when it is half full, or has looked at enough people.
pub async fn page(
    cx: &Cx,
    walk: &Walk,
    after: Option<&str>,
    limit: usize,
) -> Result<Found, StorageError> {
    let limit = limit.clamp(1, 1_000);
    let (driver, mut place) = cursor::resume(walk, after)?;
    let (mut contacts, mut looked_at) = (Vec::new(), 0);
    loop {
        // Never more candidates than there is room for, so that a page ends where a chunk does.
        let room = (limit - contacts.len()).min(CHUNK);
        let chunk = members::chunk(cx, walk, (driver, &place), room).await?;
        looked_at += chunk.looked_at;
        contacts.extend(meant(cx, walk, driver, chunk.candidates).await?);
        let Some(next) = chunk.next else {
            return Ok(Found { contacts, next: None, looked_at });
        };
        if contacts.len() * 2 >= limit || looked_at >= EXAMINED {
            return Ok(Found { contacts, next: driver.cursor(&next), looked_at });
        }
        place = next;
    }
}

/// Those of the candidates who meet the condition.
async fn meant(
    cx: &Cx,
    walk: &Walk,
    driver: Driver<'_>,
    mut people: Vec<Candidate>,
) -> Result<Vec<Member>, StorageError> {
    let items = cx.items().await?;
    people.retain(|one| walk.audience.is_none() || one.in_audience);
    members::add_items(cx, walk, &mut people).await?;
    people.retain(|one| matches(&walk.condition, &one.facts));
    if walk.profiles && !walk.condition.asks_profile() {
        members::add_profiles(items.as_ref(), &mut people).await?;
    }
    if matches!(driver, Driver::Listed(_) | Driver::Tagged(_) | Driver::AnyTagged(_)) {
        people.sort_by(|a, b| a.email().cmp(b.email()));
    }
    Ok(people.into_iter().map(member).collect())
}

/// What is known of somebody, as far as the condition of a walk asks.
#[derive(Debug, Clone)]
pub struct Known {
    pub lead_id: ContactId,
    /// The first of his addresses: where he is written to.
    pub email: EmailAddress,
    pub facts: Facts,
}

/// What is known of these people. Who was erased, became part of another or has no address is not among them.
pub async fn known(
    cx: &Cx,
    walk: &Walk,
    contacts: &[ContactId],
) -> Result<Vec<Known>, StorageError> {
    let ids = contacts.iter().map(|contact| contact.get()).collect();
    let mut people = members::with_ids(cx, walk, ids).await?;
    members::add_items(cx, walk, &mut people).await?;
    let known =
        |one: Candidate| Known { lead_id: one.id, email: one.email().clone(), facts: one.facts };
    Ok(people.into_iter().map(known).collect())
}

/// Whether whoever has an address is meant.
pub async fn why(cx: &Cx, walk: &Walk, email: &EmailAddress) -> Result<Why, StorageError> {
    let people = members::with_addresses(cx, walk, vec![email.clone()]).await?;
    why_of_one(cx, walk, people).await
}

/// Whether a contact is meant.
pub async fn why_of(cx: &Cx, walk: &Walk, contact: ContactId) -> Result<Why, StorageError> {
    let people = members::with_ids(cx, walk, vec![contact.get()]).await?;
    why_of_one(cx, walk, people).await
}

async fn why_of_one(cx: &Cx, walk: &Walk, mut people: Vec<Candidate>) -> Result<Why, StorageError> {
    members::add_items(cx, walk, &mut people).await?;
    let Some(one) = people.pop() else {
        return Ok(Why { member: None, in_audience: None, condition: None, meant: false });
    };
    let in_audience = walk.audience.map(|_| one.in_audience);
    let condition = explain(&walk.condition, &one.facts);
    let meant = condition.met && in_audience.unwrap_or(true);
    Ok(Why { member: Some(member(one)), in_audience, condition: Some(condition), meant })
}

fn member(one: Candidate) -> Member {
    let email = one.email().clone();
    Member {
        lead_id: one.id,
        email,
        profile: one.facts.profile.into_item(),
        timezone: one.timezone,
    }
}
