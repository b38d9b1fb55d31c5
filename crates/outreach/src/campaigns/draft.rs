//! Drafts: writing a campaign down, changing and deleting it while that can be done, and looking at it.

mod check;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tidings_access::{Change, ClientId, Cx, Limit, Page, Slug, StorageError};
pub use tidings_delivery::transactional::Wrong;
use tidings_kernel::{EmailAddress, hex};
use tidings_people::consent::{AudienceId, TopicId};
use tidings_sql::{DatabaseError, Param, Tx};

use super::life::{Command, Illegal, decide};
use super::store::{self, Fields, Moved};
use super::{Campaign, CampaignId, Content, MoveId, Schedule, Status, Test, Tracking, Variant};

pub(super) use check::too_late;
pub use check::{
    MAX_KEY, MAX_METADATA_BYTES, MAX_NAME, MAX_VARIANTS, MAX_WAIT_MS, MAX_WARMUP, MIN_WAIT_MS,
};

/// A campaign as somebody wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    pub client: ClientId,
    /// What the caller calls it, and its counters are kept under: unique in the workspace.
    pub key: Option<String>,
    pub name: String,
    /// Only those who are subscribed to this audience.
    pub audience: Option<Slug>,
    pub topic: Option<Slug>,
    /// Whom it means: a condition (`audience`). `{}` is everybody.
    pub filter: Value,
    pub sender: Option<Slug>,
    pub content: Content,
    pub variants: Vec<Variant>,
    pub test: Option<Test>,
    pub tracking: Tracking,
    pub metadata: Map<String, Value>,
    pub schedule: Option<Schedule>,
    pub rate_per_hour: Option<i64>,
    pub warmup: Vec<i64>,
}

/// Which campaign, and whose: a client sees no other client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Find {
    pub id: CampaignId,
    /// `None` for whoever may see those of all clients.
    pub client: Option<ClientId>,
}

/// Which campaigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    pub client: Option<ClientId>,
    pub status: Option<Status>,
    /// The last one of the page before.
    pub after: Option<CampaignId>,
    pub limit: Limit,
}

/// A campaign that was written down, now or before.
#[derive(Debug, Clone, PartialEq)]
pub struct Drafted {
    pub campaign: Campaign,
    pub created: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    #[error("the campaign was not written down: {}", .0.iter().map(|one| format!("{}: {}", one.field, one.message)).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<Wrong>),
    #[error("there is no campaign {0}")]
    Missing(CampaignId),
    #[error("the key {0} is that of another campaign")]
    KeyReused(String),
    #[error("campaign {id} cannot be changed: {why}")]
    Illegal { id: CampaignId, why: Illegal },
    #[error("the campaign could not be written down")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for DraftError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no campaign {0}")]
    Missing(CampaignId),
    #[error("the campaign could not be reached")]
    Store(#[from] DatabaseError),
}

impl Draft {
    /// The least that a campaign needs.
    pub fn of(client: ClientId, name: impl Into<String>, content: Content) -> Self {
        Self {
            client,
            key: None,
            name: name.into(),
            audience: None,
            topic: None,
            filter: json!({}),
            sender: None,
            content,
            variants: Vec::new(),
            test: None,
            tracking: Tracking::On,
            metadata: Map::new(),
            schedule: None,
            rate_per_hour: None,
            warmup: Vec::new(),
        }
    }

    /// Tells one request from another.
    fn fingerprint(&self) -> String {
        let content = &self.content;
        let schedule = match self.schedule {
            None => Value::Null,
            Some(Schedule::At(at)) => json!(at.to_string()),
            Some(Schedule::Local(local)) => json!(local.to_string()),
        };
        let test = self.test.map(|test| json!([test.percent, test.metric.as_str(), test.wait_ms]));
        let all = json!([
            self.client.get(),
            self.key,
            self.name,
            self.audience.as_ref().map(Slug::as_str),
            self.topic.as_ref().map(Slug::as_str),
            self.filter,
            self.sender.as_ref().map(Slug::as_str),
            content.template.as_ref().map(|template| &template.key),
            [&content.subject, &content.preview_text, &content.html, &content.text],
            self.variants,
            test,
            self.tracking,
            self.metadata,
            schedule,
            self.rate_per_hour,
            self.warmup,
        ]);
        hex(&Sha256::digest(all.to_string()))
    }
}

/// Writes a campaign down. The same request with the same key finds the campaign that it made before, wherever that is
/// by now.
pub async fn create(cx: &Cx, draft: Draft) -> Result<Drafted, DraftError> {
    write(cx, draft, Existing::MustBeTheSame).await
}

/// Writes a campaign down under its key, or puts it in the place of the draft that has it.
pub async fn put(cx: &Cx, draft: Draft) -> Result<Drafted, DraftError> {
    write(cx, draft, Existing::IsReplaced).await
}

/// Looks whether a campaign could be written down, without doing it, and finds the audience and the topic that it names.
pub(super) async fn check_only(
    cx: &Cx,
    draft: &Draft,
) -> Result<(Option<AudienceId>, Option<TopicId>), DraftError> {
    let wrong = check::check(cx, draft).await?;
    let (within, draft) = (cx.clone(), draft.clone());
    let resolved = cx.database().read(move |tx| resolve(tx, &within, &draft, ("", wrong.clone())));
    let fields = resolved.await?;
    Ok((fields.audience.map(Into::into), fields.topic.map(Into::into)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    MustBeTheSame,
    IsReplaced,
}

async fn write(cx: &Cx, draft: Draft, existing: Existing) -> Result<Drafted, DraftError> {
    let wrong = check::check(cx, &draft).await?;
    let (within, hash) = (cx.clone(), draft.fingerprint());
    // Whoever makes a sequence at the same time looks at the campaigns, as this looks at the sequences: one sees the other.
    let write = cx.database().write(move |tx| {
        let fields = resolve(tx, &within, &draft, (&hash, wrong.clone()))?;
        if let Some(id) = store::insert(tx, &within, &fields)? {
            let campaign = store::load(tx, &within, id)?.ok_or(DatabaseError::NoRow)?;
            let change = Change::new("campaign.create", "campaign", id).after(told(&campaign));
            within.record_change(tx, &change)?;
            return Ok(Drafted { campaign, created: true });
        }
        let key = draft.key.clone().unwrap_or_default();
        let found = store::by_key(tx, &within, &key)?;
        let (id, client, before) = found.ok_or(DatabaseError::Conflict)?;
        if client != draft.client {
            return Err(DraftError::KeyReused(key));
        }
        if before.as_deref() != Some(&hash) {
            match existing {
                Existing::MustBeTheSame => return Err(DraftError::KeyReused(key)),
                Existing::IsReplaced => replace(tx, &within, id, &fields)?,
            }
        }
        let campaign = store::load(tx, &within, id)?.ok_or(DatabaseError::NoRow)?;
        Ok(Drafted { campaign, created: false })
    });
    write.await
}

/// Changes a campaign that is a draft or scheduled, or paused before it began. A new time moves its start.
pub async fn update(cx: &Cx, find: Find, draft: Draft) -> Result<Campaign, DraftError> {
    let wrong = check::check(cx, &draft).await?;
    let (within, hash) = (cx.clone(), draft.fingerprint());
    let update = cx.database().write(move |tx| {
        let before = visible(tx, &within, find)?;
        if before.client != draft.client {
            return Err(DraftError::Missing(find.id));
        }
        let fields = resolve(tx, &within, &draft, (&hash, wrong.clone()))?;
        if let Some(key) = &draft.key
            && let Some((other, ..)) = store::by_key(tx, &within, key)?
            && other != find.id
        {
            return Err(DraftError::KeyReused(key.clone()));
        }
        replace(tx, &within, find.id, &fields)?;
        Ok(store::load(tx, &within, find.id)?.ok_or(DatabaseError::NoRow)?)
    });
    update.await
}

fn replace(tx: &mut Tx<'_>, cx: &Cx, id: CampaignId, fields: &Fields) -> Result<(), DraftError> {
    let locked = store::lock(tx, cx, id)?.ok_or(DraftError::Missing(id))?;
    let illegal = |why| DraftError::Illegal { id, why };
    decide(locked.state(cx.now()), Command::Edit).map_err(illegal)?;
    let mut fields = fields.clone();
    if locked.status != Status::Draft {
        // What is scheduled has a time. One that has passed begins as soon as a worker looks, unless it is paused.
        match fields.schedule {
            Some(schedule) if locked.status == Status::Scheduled => {
                store::step_at(tx, cx, id, schedule.due())?;
            }
            Some(_) => {}
            None => fields.schedule = store::glance(tx, cx, id)?.and_then(|before| before.schedule),
        }
    }
    let before = store::glance(tx, cx, id)?.ok_or(DatabaseError::NoRow)?;
    store::update(tx, cx, id, &fields)?;
    let after = store::glance(tx, cx, id)?.ok_or(DatabaseError::NoRow)?;
    if before.request_hash != after.request_hash || before.schedule != after.schedule {
        let change =
            Change::new("campaign.update", "campaign", id).between(told(&before), told(&after));
        cx.record_change(tx, &change)?;
    }
    Ok(())
}

/// As the audit log has it. What it says is there as a fingerprint.
fn told(campaign: &Campaign) -> Value {
    json!({
        "name": campaign.name,
        "status": campaign.status.as_str(),
        "audience": campaign.audience.map(AudienceId::get),
        "topic": campaign.topic.map(TopicId::get),
        "template": campaign.content.template.as_ref().map(|template| &template.key),
        "scheduled_at": campaign.schedule.map(|schedule| schedule.due().to_string()),
        "rate_per_hour": campaign.rate_per_hour,
        "fingerprint": campaign.request_hash,
    })
}

/// Deletes a draft.
pub async fn delete(cx: &Cx, find: Find) -> Result<(), DraftError> {
    let within = cx.clone();
    let delete = cx.database().write_committed(move |tx| {
        let before = visible(tx, &within, find)?;
        let locked = store::lock(tx, &within, find.id)?.ok_or(DraftError::Missing(find.id))?;
        let illegal = |why| DraftError::Illegal { id: find.id, why };
        decide(locked.state(within.now()), Command::Delete).map_err(illegal)?;
        let params = [Param::Int(within.workspace_id().get()), Param::Int(find.id.get())];
        tx.execute("DELETE FROM campaigns WHERE workspace_id = $1 AND id = $2", &params)?;
        let change = Change::new("campaign.delete", "campaign", find.id).before(told(&before));
        within.record_change(tx, &change)?;
        Ok(())
    });
    delete.await
}

pub async fn get(cx: &Cx, find: Find) -> Result<Campaign, FindError> {
    let within = cx.clone();
    let get = cx.database().read(move |tx| {
        let found = store::load(tx, &within, find.id)?;
        found.filter(|one| find.sees(one)).ok_or(FindError::Missing(find.id))
    });
    get.await
}

/// The campaign that has a key.
pub async fn by_key(
    cx: &Cx,
    key: String,
    client: Option<ClientId>,
) -> Result<Option<Campaign>, DatabaseError> {
    let within = cx.clone();
    let find = cx.database().read(move |tx| {
        let Some((id, ..)) = store::by_key(tx, &within, &key)? else { return Ok(None) };
        let found = store::load(tx, &within, id)?;
        Ok(found.filter(|one| Find { id, client }.sees(one)))
    });
    find.await
}

/// The newest first, without their bodies and filters.
pub async fn list(cx: &Cx, list: List) -> Result<Page<Campaign, CampaignId>, DatabaseError> {
    let within = cx.clone();
    let find = cx.database().read(move |tx| {
        let before = list.after.map_or(i64::MAX, CampaignId::get);
        let which = (list.client, list.status);
        let found = store::list(tx, &within, which, (before, list.limit.and_one()))?;
        Ok(Page::cut(found, list.limit, |campaign: &Campaign| campaign.id))
    });
    find.await
}

/// What happened to a campaign before this move, the latest first.
pub async fn moves(
    cx: &Cx,
    find: Find,
    after: Option<MoveId>,
    limit: Limit,
) -> Result<Page<Moved, MoveId>, FindError> {
    let within = cx.clone();
    let find = cx.database().read(move |tx| {
        let found = store::glance(tx, &within, find.id)?;
        found.filter(|one| find.sees(one)).ok_or(FindError::Missing(find.id))?;
        let before = after.map_or(i64::MAX, MoveId::get);
        let found = store::moves(tx, &within, find.id, (before, limit.and_one()))?;
        Ok(Page::cut(found, limit, |one: &Moved| one.id))
    });
    find.await
}

impl Find {
    pub(super) fn sees(self, campaign: &Campaign) -> bool {
        self.client.is_none_or(|client| client == campaign.client)
    }
}

fn visible(tx: &mut Tx<'_>, cx: &Cx, find: Find) -> Result<Campaign, DraftError> {
    let found = store::glance(tx, cx, find.id)?;
    found.filter(|one| find.sees(one)).ok_or(DraftError::Missing(find.id))
}

/// Finds what a draft names, and adds what there is not to what is wrong with it.
fn resolve(
    tx: &mut Tx<'_>,
    cx: &Cx,
    draft: &Draft,
    (hash, mut wrong): (&str, Vec<Wrong>),
) -> Result<Fields, DraftError> {
    let workspace = cx.workspace_id().get();
    let mut find = |table: &str, field: &str, slug: Option<&Slug>| {
        let Some(slug) = slug else { return Ok(None) };
        let sql = format!("SELECT id FROM {table} WHERE workspace_id = $1 AND slug = $2");
        let rows = tx.query(&sql, &[Param::Int(workspace), Param::Text(slug.as_str())])?;
        let id = rows.first().map(|row| row.int(0)).transpose()?;
        if id.is_none() {
            let message = format!("there is no {field} {slug}");
            wrong.push(Wrong { field: field.to_owned(), message });
        }
        Ok::<_, DatabaseError>(id)
    };
    let audience = find("audiences", "audience", draft.audience.as_ref())?;
    let topic = find("topics", "topic", draft.topic.as_ref())?;
    if let Some(key) = &draft.key
        && store::by_key(tx, cx, key)?.is_none()
        && is_sequence(tx, workspace, key)?
    {
        let message = "a sequence has this id, and what comes back would be counted for both";
        wrong.push(Wrong { field: "external_key".to_owned(), message: message.to_owned() });
    }
    if !wrong.is_empty() {
        return Err(DraftError::Invalid(wrong));
    }
    Ok(Fields {
        client: draft.client,
        key: draft.key.clone(),
        hash: hash.to_owned(),
        name: draft.name.trim().to_owned(),
        audience,
        topic,
        filter: normalised(&draft.filter),
        sender: draft.sender.as_ref().map(ToString::to_string),
        content: draft.content.clone(),
        variants: draft.variants.clone(),
        test: draft.test,
        tracking: draft.tracking,
        metadata: Value::Object(draft.metadata.clone()),
        schedule: draft.schedule,
        rate_per_hour: draft.rate_per_hour,
        warmup: draft.warmup.clone(),
    })
}

/// The counters and the send log know campaigns and sequences by one word, so no word can mean both.
fn is_sequence(tx: &mut Tx<'_>, workspace: i64, key: &str) -> Result<bool, DatabaseError> {
    let sql = "SELECT id FROM sequences WHERE workspace_id = $1 AND slug = $2";
    Ok(!tx.query(sql, &[Param::Int(workspace), Param::Text(key)])?.is_empty())
}

/// A filter as it was given, but for the addresses in it: they are written as everywhere, so that erasure finds them.
fn normalised(filter: &Value) -> Value {
    let address = |value: &Value| {
        let text = value.as_str().and_then(|text| text.parse::<EmailAddress>().ok());
        text.map_or_else(|| value.clone(), |email| email.as_str().into())
    };
    match filter {
        Value::Array(list) => list.iter().map(normalised).collect(),
        Value::Object(fields) => {
            let field = |(name, inner): (&String, &Value)| match (name.as_str(), inner) {
                ("contacts", Value::Array(people)) => {
                    (name.clone(), people.iter().map(address).collect())
                }
                _ => (name.clone(), normalised(inner)),
            };
            Value::Object(fields.iter().map(field).collect())
        }
        other => other.clone(),
    }
}
