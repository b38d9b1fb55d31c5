//! The snapshot: freezing what is sent, and writing down who gets it.
//!
//! The audience is walked page by page. A page is one commit: a row for everybody on it, the batches that they are in, the
//! tallies of those who are skipped, and where the walk goes on. The commit looks whether the walk is still where it was
//! when the page was read; so of two workers with the same page one writes it, and a crash leaves nothing half-done. While one
//! page is written the next is read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tidings_access::{Cx, Slug, StorageError};
use tidings_delivery::eligibility::{Loaded, Person, Reason, settings};
use tidings_delivery::senders::{self, ResolveError, SenderIdentity};
use tidings_delivery::templates::{self, Pick, Stored, TemplateKey};
use tidings_delivery::transactional::Wrong;
use tidings_sql::{Among, DatabaseError, Dialect, Param, Tx};

use super::store::{self, Frozen, Locked};
use super::tallies::{self, Counts, Outcome};
use super::{Campaign, Schedule, Status, batches, pace, variants};
use crate::audience::{self, Condition, Gate, Member, Walk};

/// What happens after a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    /// Somebody else may go on.
    Yield,
}

/// How far a snapshot is after a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// It was written, and there may be more.
    Written,
    /// It was written, and was the last one.
    Last,
    /// Somebody else was faster, or the campaign is no longer being snapshotted.
    Overtaken,
}

/// Finds the versions of all templates and the sender, or tells all that is missing.
pub(super) async fn freeze(
    cx: &Cx,
    campaign: &Campaign,
) -> Result<Result<Frozen, Vec<Wrong>>, StorageError> {
    let mut wrong = Vec::new();
    let mut base = None;
    if let Some(template) = &campaign.content.template {
        base = active(cx, &template.key, "template", &mut wrong).await?;
    }
    let mut default_sender = base.as_ref().and_then(|stored| stored.content.default_sender.clone());
    let mut variants = campaign.variants.clone();
    for (place, variant) in variants.iter_mut().enumerate() {
        let Some(key) = &variant.template else { continue };
        let field = format!("variants[{place}].template");
        if let Some(stored) = active(cx, key, &field, &mut wrong).await? {
            variant.template_version = Some(stored.version);
            default_sender = default_sender.or_else(|| stored.content.default_sender.clone());
        }
    }
    let sender = sender(cx, campaign, default_sender).await?;
    match sender {
        Ok(sender) if wrong.is_empty() => Ok(Ok(Frozen {
            template_version: base.map(|stored| stored.version),
            variants,
            from_email: sender.from_email.to_string(),
            from_name: sender.from_name.as_ref().map(ToString::to_string),
            reply_to: sender.reply_to.as_ref().map(ToString::to_string),
        })),
        Ok(_) => Ok(Err(wrong)),
        Err(message) => {
            wrong.push(Wrong { field: "sender".to_owned(), message });
            Ok(Err(wrong))
        }
    }
}

/// The active version of a template.
async fn active(
    cx: &Cx,
    key: &str,
    field: &str,
    wrong: &mut Vec<Wrong>,
) -> Result<Option<Arc<Stored>>, StorageError> {
    let found = match key.parse::<TemplateKey>() {
        Ok(key) => templates::find(cx, &key, Pick::Active).await?,
        Err(_) => None,
    };
    if found.is_none() {
        let message = format!("there is no active template {key}");
        wrong.push(Wrong { field: field.to_owned(), message });
    }
    Ok(found.map(|(_, _, stored)| stored))
}

/// Whom it comes from, or why that cannot be said.
async fn sender(
    cx: &Cx,
    campaign: &Campaign,
    of_template: Option<String>,
) -> Result<Result<SenderIdentity, String>, StorageError> {
    let slug = |text: Option<&String>| text.and_then(|text| text.parse::<Slug>().ok());
    let (named, default) = (slug(campaign.sender.slug.as_ref()), slug(of_template.as_ref()));
    let (within, client) = (cx.clone(), campaign.client);
    let find = cx.database().read(move |tx| {
        match senders::resolve(tx, &within, client, named.as_ref(), default.as_ref()) {
            Ok(sender) => Ok(Ok(sender)),
            Err(ResolveError::Store(error)) => Err(error),
            Err(error) => Ok(Err(error.to_string())),
        }
    });
    Ok(find.await?)
}

/// The subject of a campaign that has begun, for its record: as it was written, before anybody's name is in it.
pub(super) async fn subject(cx: &Cx, campaign: &Campaign) -> Result<String, StorageError> {
    let content = campaign.content_for(Some(0));
    if let Some(subject) = content.subject {
        return Ok(subject);
    }
    let Some(template) = content.template else { return Ok(String::new()) };
    let (Ok(key), Some(version)) = (template.key.parse::<TemplateKey>(), template.version) else {
        return Ok(String::new());
    };
    let found = templates::find(cx, &key, Pick::Number(version)).await?;
    Ok(found.map(|(_, _, stored)| stored.content.source.subject.clone()).unwrap_or_default())
}

/// A page that was read and is not written yet.
pub(super) struct Read {
    /// Where the walk was when it was read.
    cursor: Option<String>,
    new: Vec<New>,
    next: Option<String>,
}

/// Reads a page, unless it was read ahead, and writes it down. With `Then::Yield` a message in the same commit makes somebody go on;
/// else the next page is read meanwhile.
pub(super) async fn page(
    cx: &Cx,
    campaign: &Campaign,
    ahead: &mut Option<Read>,
    (most, then): (usize, Then),
) -> Result<Result<Page, String>, StorageError> {
    let cursor = campaign.progress.snapshot_cursor.as_deref();
    let found = match ahead.take().filter(|read| read.cursor.as_deref() == cursor) {
        Some(read) => read,
        None => match read(cx, campaign, cursor, most).await? {
            Ok(read) => read,
            Err(why) => return Ok(Err(why)),
        },
    };
    let next = found.next.clone();
    let writing = write(cx, campaign, found, then);
    if then == Then::Yield || next.is_none() {
        return Ok(Ok(writing.await?));
    }
    let (written, read) = tokio::join!(writing, read(cx, campaign, next.as_deref(), most));
    // What went wrong with it goes wrong again when it is its turn.
    *ahead = read.ok().and_then(Result::ok);
    Ok(Ok(written?))
}

async fn read(
    cx: &Cx,
    campaign: &Campaign,
    cursor: Option<&str>,
    most: usize,
) -> Result<Result<Read, String>, StorageError> {
    let condition = match Condition::parse(&campaign.filter, "filter") {
        Ok(condition) => condition,
        Err(_) => return Ok(Err("its filter cannot be read".to_owned())),
    };
    let (client, audience) = (campaign.client, campaign.audience);
    let gate = gate(cx, campaign, condition.clone()).await?;
    let walk = Walk { condition, client, audience, profiles: true };
    let found = audience::page(cx, &walk, cursor, most).await?;
    let new = recipients(cx, campaign, &gate, found.contacts).await?;
    Ok(Ok(Read { cursor: cursor.map(str::to_owned), new, next: found.next }))
}

async fn write(
    cx: &Cx,
    campaign: &Campaign,
    Read { cursor, new, next }: Read,
    then: Then,
) -> Result<Page, StorageError> {
    let (within, id) = (cx.clone(), campaign.id);
    let write = cx.database().write_committed(move |tx| {
        let Some(mut locked) = store::lock(tx, &within, id)? else { return Ok(Page::Overtaken) };
        let same = locked.status == Status::Snapshotting
            && !locked.snapshot_done
            && locked.snapshot_cursor == cursor;
        if !same {
            return Ok(Page::Overtaken);
        }
        write_page(tx, &within, &mut locked, &new)?;
        let sql = "UPDATE campaigns SET snapshot_cursor = $3, snapshot_done_at = $4
                   WHERE workspace_id = $1 AND id = $2";
        let done_at = if next.is_none() { Some(within.now()) } else { None };
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Int(id.get()),
            next.as_deref().into(),
            done_at.into(),
        ];
        tx.execute(sql, &params)?;
        if then == Then::Yield {
            store::step(tx, &within, id)?;
        }
        Ok::<_, DatabaseError>(if next.is_none() { Page::Last } else { Page::Written })
    });
    Ok(write.await?)
}

/// What is asked of everybody whom it means.
pub(super) async fn gate(
    cx: &Cx,
    campaign: &Campaign,
    condition: Condition,
) -> Result<Gate, StorageError> {
    let (within, own) = (cx.clone(), campaign.own());
    let load = cx.database().read(move |tx| Gate::load(tx, &within, &own, &condition));
    let gate: Result<Gate, DatabaseError> = load.await;
    Ok(gate?)
}

/// Somebody to be written down.
#[derive(Debug, Clone)]
struct New {
    contact: i64,
    email: String,
    skip_reason: Option<&'static str>,
    arm: Option<i64>,
    held: bool,
    due_at: Timestamp,
    /// Known when it is written.
    batch: Option<String>,
}

/// Decides what becomes of each of a page.
async fn recipients(
    cx: &Cx,
    campaign: &Campaign,
    gate: &Gate,
    members: Vec<Member>,
) -> Result<Vec<New>, StorageError> {
    let person = |member: &Member| Person {
        email: member.email.clone(),
        profile: Loaded::Profile(member.profile.clone()),
    };
    let people = members.iter().map(person).collect();
    // What has to wait is decided right before it is sent.
    let skips = gate.skips(cx, people).await?;
    let zone = match campaign.schedule {
        Some(Schedule::Local(_)) => Some(home_zone(cx).await?),
        _ => None,
    };
    let started_at = campaign.times.started_at.unwrap_or(cx.now());
    let new = members.iter().zip(skips).map(|(member, skip)| {
        let lot = variants::lot(campaign, &member.email);
        let due_at = match (campaign.schedule, &zone) {
            (Some(Schedule::Local(local)), Some(home)) => {
                let own = member.timezone.as_deref().and_then(|name| TimeZone::get(name).ok());
                // Where that time has passed it is due at once, together with all others that are.
                pace::local_due(local, own.as_ref().unwrap_or(home)).max(started_at)
            }
            _ => started_at,
        };
        New {
            contact: member.lead_id.get(),
            email: member.email.to_string(),
            skip_reason: skip.map(Reason::as_str),
            arm: lot.arm,
            held: lot.held,
            due_at,
            batch: None,
        }
    });
    Ok(new.collect())
}

/// The time zone of those of whom none is known.
pub(super) async fn home_zone(cx: &Cx) -> Result<TimeZone, StorageError> {
    let settings = settings::show(cx).await?;
    let zone = settings.quiet_zone.and_then(|zone| TimeZone::get(zone.as_str()).ok());
    Ok(zone.unwrap_or(TimeZone::UTC))
}

fn write_page(
    tx: &mut Tx<'_>,
    cx: &Cx,
    locked: &mut Locked,
    new: &[New],
) -> Result<(), DatabaseError> {
    let mut new = those_to_write(tx, cx, locked, new)?;
    let mut counts = Counts::default();
    let mut groups = BTreeMap::<(bool, Timestamp), Vec<usize>>::new();
    for (place, one) in new.iter().enumerate() {
        match one.skip_reason {
            None => groups.entry((one.held, one.due_at)).or_default().push(place),
            Some(reason) => {
                counts.count(tallies::Kind::Outcome, Outcome::Skipped.as_str(), 1);
                counts.count(tallies::Kind::Skipped, reason, 1);
            }
        }
    }
    // Everybody's batch is known before his row is written, so that it is written once.
    let mut filled = Vec::new();
    for (group, places) in groups {
        let mut places = places.into_iter();
        for slot in batches::slots(tx, locked, group, places.len())? {
            let of_slot: Vec<usize> = places.by_ref().take(slot.count).collect();
            for place in &of_slot {
                new[*place].batch = Some(batches::batch_id(locked.id, slot.number));
            }
            filled.push((group, slot, of_slot));
        }
    }
    let ids = insert(tx, cx, locked, &new)?;
    for (group, slot, places) in filled {
        let ids = places.iter().map(|place| ids.get(&new[*place].contact).copied());
        let mut ids = ids.collect::<Option<Vec<i64>>>().ok_or(DatabaseError::NoRow)?;
        ids.sort_unstable();
        batches::fill(tx, cx, locked.id, (group, &slot), &ids)?;
    }
    locked.recipients += new.len() as i64;
    tallies::add(tx, cx, locked.id, &counts)?;
    locked.save(tx, cx)
}

/// Those who have no row yet and were not erased since they were found. Everybody once.
fn those_to_write(
    tx: &mut Tx<'_>,
    cx: &Cx,
    locked: &Locked,
    new: &[New],
) -> Result<Vec<New>, DatabaseError> {
    let alive = not_erased(tx, cx, new)?;
    let ids: Vec<i64> = new.iter().map(|one| one.contact).collect();
    // Only who holds the campaign writes its rows, so nobody adds one before this is committed.
    let sql = "SELECT r.lead_id FROM {given} JOIN campaign_recipients r ON r.id = (SELECT one.id
                   FROM campaign_recipients one WHERE one.campaign_id = $1 AND one.lead_id = given.value)";
    let rows = tx.query_among(sql, &[Param::Int(locked.id.get())], Among::Ints(&ids))?;
    let mut known = rows.iter().map(|row| row.int(0)).collect::<Result<HashSet<_>, _>>()?;
    let is_new = |one: &&New| alive.contains(&one.contact) && known.insert(one.contact);
    Ok(new.iter().filter(is_new).cloned().collect())
}

/// Those who were not erased since they were found. They cannot be before this is committed, and then their rows are
/// found by whoever erases them.
fn not_erased(tx: &mut Tx<'_>, cx: &Cx, new: &[New]) -> Result<HashSet<i64>, DatabaseError> {
    let lock = match tx.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => "ORDER BY id FOR SHARE",
    };
    let sql = format!(
        "SELECT id FROM leads WHERE workspace_id = $1 AND erased_at IS NULL AND id {{among}} {lock}"
    );
    let ids: Vec<i64> = new.iter().map(|one| one.contact).collect();
    let params = [Param::Int(cx.workspace_id().get())];
    tx.query_among(&sql, &params, Among::Ints(&ids))?.iter().map(|row| row.int(0)).collect()
}

/// Writes the rows and tells their ids by contact.
fn insert(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &Locked,
    new: &[New],
) -> Result<HashMap<i64, i64>, DatabaseError> {
    let columns = "INSERT INTO campaign_recipients (workspace_id, campaign_id, created_at, updated_at, status, lead_id,
                       email, skip_reason, arm, due_at, batch_id)";
    let end = "RETURNING lead_id, id";
    let fixed =
        [Param::Int(cx.workspace_id().get()), Param::Int(campaign.id.get()), Param::from(cx.now())];
    let mut rows = Vec::with_capacity(new.len());
    match tx.dialect() {
        Dialect::Sqlite => {
            let sql = format!(
                "{columns} VALUES ($1, $2, $3, $3, CASE WHEN $6 IS NULL THEN 'pending' ELSE 'skipped' END, $4, $5, $6, $7,
                                   $8, $9) {end}"
            );
            for one in new {
                let mut params = fixed.to_vec();
                params.extend([
                    Param::Int(one.contact),
                    Param::Text(&one.email),
                    one.skip_reason.into(),
                    one.arm.into(),
                    Param::from(one.due_at),
                    one.batch.as_deref().into(),
                ]);
                rows.extend(tx.query(&sql, &params)?);
            }
        }
        Dialect::Postgres => {
            let sql = format!(
                "{columns} SELECT $1, $2, $3, $3, CASE WHEN r IS NULL THEN 'pending' ELSE 'skipped' END, l, e, r, a, d, b
                 FROM unnest($4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::text[])
                     AS new (l, e, r, a, d, b)
                 ORDER BY l {end}"
            );
            let contacts: Vec<_> = new.iter().map(|one| Some(one.contact)).collect();
            let emails: Vec<_> = new.iter().map(|one| Some(one.email.as_str())).collect();
            let reasons: Vec<_> = new.iter().map(|one| one.skip_reason).collect();
            let arms: Vec<_> = new.iter().map(|one| one.arm).collect();
            let due: Vec<_> = new.iter().map(|one| Some(one.due_at.as_millisecond())).collect();
            let batches: Vec<_> = new.iter().map(|one| one.batch.as_deref()).collect();
            let mut params = fixed.to_vec();
            params.extend([
                Param::Ints(&contacts),
                Param::Texts(&emails),
                Param::Texts(&reasons),
                Param::Ints(&arms),
                Param::Ints(&due),
                Param::Texts(&batches),
            ]);
            rows = tx.query(&sql, &params)?;
        }
    }
    rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect()
}
