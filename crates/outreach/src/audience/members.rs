//! Candidates of a walk: some of those that its driver has, with what the relations and the items know of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidings_access::{ClientId, Cx, Slug, StorageError};
use tidings_kernel::{
    EmailAddress, Item, ItemStore, Key, MAX_BATCH_GET, Query, SortRange, Table, Value, tables,
};
use tidings_people::consent::AudienceId;
use tidings_people::contacts::{ContactId, Profile, Tag};
use tidings_people::{features, keys, memory};
use tidings_sql::{Among, DatabaseError, Param, Row, Tx};

use super::condition::{Addresses, Subject};
use super::cursor::{self, Driver, Place};
use super::facts::Facts;
use super::standing::Standing;
use super::walk::Walk;

/// Somebody who may be meant.
pub(super) struct Candidate {
    pub(super) id: ContactId,
    pub(super) timezone: Option<String>,
    pub(super) facts: Facts,
    /// The partition of what was derived of him.
    organization: Option<String>,
    /// Whether he is subscribed to the walk's own audience, if it has one.
    pub(super) in_audience: bool,
}

/// Some candidates, in no particular order.
pub(super) struct Chunk {
    pub(super) candidates: Vec<Candidate>,
    pub(super) looked_at: usize,
    /// Where the next begin. `None` if there are no more.
    pub(super) next: Option<Place>,
}

/// All contacts after $2.
pub(super) const EVERYONE: &str =
    "SELECT id FROM leads WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3";
/// Those of them who may be subscribed to the audience $4, because they are to all of it or to the client $5's part.
pub(super) const SUBSCRIBED: &str = "SELECT DISTINCT lead_id AS id FROM subscriptions
     WHERE audience_id = $4 AND status = 'subscribed' AND lead_id > $2 AND workspace_id = $1
       AND (client_id IS NULL OR client_id = $5)
     ORDER BY lead_id LIMIT $3";
/// Those of them who are in the segment $4.
pub(super) const IN_SEGMENT: &str = "SELECT lead_id AS id FROM segment_members
     WHERE segment_id = $4 AND lead_id > $2 AND workspace_id = $1
     ORDER BY lead_id LIMIT $3";
/// The given contacts.
const GIVEN: &str = "SELECT value AS id FROM {given}";
/// In which segments the given contacts are.
const SEGMENTS: &str = "SELECT m.lead_id, s.slug FROM {given}
     CROSS JOIN segment_members m JOIN segments s ON s.id = m.segment_id
     WHERE m.lead_id = given.value AND s.workspace_id = $1 AND s.deleted_at IS NULL";
/// Who has one of the given addresses.
pub(super) const ADDRESSED: &str = "SELECT DISTINCT one.lead_id AS id FROM {given}
     JOIN channel_identities one ON one.id = (SELECT i.id FROM channel_identities i
         WHERE i.workspace_id = $1 AND i.channel = 'email' AND i.value = given.value)";
/// How the given contacts of the workspace stand with audiences, as a whole and for the client $1.
pub(super) const AUDIENCES: &str =
    "SELECT s.lead_id, s.audience_id, s.client_id, s.status, s.agreed_at, s.unsubscribed_at
     FROM {given} CROSS JOIN subscriptions s
     WHERE s.lead_id = given.value AND s.status <> 'pending'
       AND (s.client_id IS NULL OR s.client_id = $1)";

/// Up to `limit` of those after a place.
pub(super) async fn chunk(
    cx: &Cx,
    walk: &Walk,
    (driver, place): (Driver<'_>, &Place),
    limit: usize,
) -> Result<Chunk, StorageError> {
    match (driver, place) {
        (Driver::Listed(list), place) => {
            let done = if let Place::Count(count) = place { *count } else { 0 };
            let rest = list.as_slice().get(done..).unwrap_or_default();
            let some = &rest[..limit.min(rest.len())];
            let mut candidates = with_addresses(cx, walk, some.to_vec()).await?;
            candidates.retain(|candidate| is_his_turn(candidate, list, some));
            let next = (some.len() < rest.len()).then_some(Place::Count(done + some.len()));
            Ok(Chunk { candidates, looked_at: some.len(), next })
        }
        (Driver::Tagged(tag), place) => tagged(cx, walk, &[tag], (place, limit)).await,
        (Driver::AnyTagged(parts), place) => {
            let tags: Vec<&Tag> = cursor::tags(parts).collect();
            tagged(cx, walk, &tags, (place, limit)).await
        }
        (Driver::Segment(_) | Driver::Audience(_) | Driver::Named(_) | Driver::Contacts, place) => {
            let after = if let Place::Id(id) = place { *id } else { 0 };
            by_id(cx, walk, driver, (after, limit)).await
        }
    }
}

/// Whoever has several of the listed addresses comes with the first of them.
fn is_his_turn(candidate: &Candidate, list: &Addresses, some: &[EmailAddress]) -> bool {
    let listed = candidate.facts.addresses.iter().filter(|address| list.contains(address));
    listed.min().is_some_and(|first| some.binary_search(first).is_ok())
}

/// In the order of the indexes of the tags, which is that of the addresses. Whoever has several that are tagged comes with the first of them.
async fn tagged(
    cx: &Cx,
    walk: &Walk,
    tags: &[&Tag],
    (place, limit): (&Place, usize),
) -> Result<Chunk, StorageError> {
    let range = match place {
        Place::Address(address) => SortRange::Gt(format!("SUB#{address}")),
        _ => SortRange::All,
    };
    let items = cx.items().await?;
    let address = |item: &Item| item.text("SK")?.strip_prefix("SUB#").map(ToOwned::to_owned);
    let mut found = BTreeSet::new();
    // What one index may have after its page is not known yet, so nothing behind that counts.
    let mut until = None::<String>;
    for tag in tags {
        let partition = keys::tag_partition(tag.as_str());
        let query = Query::new(&tables::MAIN, partition).range(range.clone()).limit(limit);
        let page = items.query(query).await?;
        let last = page.cursor.and(page.items.last().and_then(address));
        until = match (until, last) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        found.extend(page.items.iter().filter_map(address));
    }
    let known = |one: &String| until.as_ref().is_none_or(|until| one <= until);
    let some: Vec<String> = found.iter().filter(|one| known(one)).take(limit).cloned().collect();
    let is_all = until.is_none() && some.len() == found.len();
    let next = some.last().filter(|_| !is_all).cloned().map(Place::Address);
    let emails: Vec<EmailAddress> = some.iter().filter_map(|one| one.parse().ok()).collect();
    let wanted: BTreeSet<EmailAddress> = emails.iter().cloned().collect();
    let mut candidates = with_addresses(cx, walk, emails).await?;
    let tagged = tagged_addresses(items.as_ref(), tags, &candidates).await?;
    candidates.retain(|candidate| {
        let his = candidate.facts.addresses.iter();
        match candidate.facts.addresses.as_slice() {
            [only] => wanted.contains(only),
            _ => his
                .filter(|one| tagged.contains(*one))
                .min()
                .is_some_and(|one| wanted.contains(one)),
        }
    });
    Ok(Chunk { candidates, looked_at: some.len(), next })
}

/// Which addresses of those who have several are in the index of one of the tags.
async fn tagged_addresses(
    items: &dyn ItemStore,
    tags: &[&Tag],
    people: &[Candidate],
) -> Result<BTreeSet<EmailAddress>, StorageError> {
    let several = people.iter().map(|one| &one.facts.addresses).filter(|his| his.len() > 1);
    let addresses: Vec<&EmailAddress> = several.flatten().collect();
    let mut tagged = BTreeSet::new();
    for tag in tags {
        let keys = addresses.iter().map(|address| Some(keys::tag(tag.as_str(), address)));
        let found = get_all(items, &tables::MAIN, keys.collect()).await?;
        let there = addresses.iter().zip(found).filter(|(_, entry)| entry.is_some());
        tagged.extend(there.map(|(address, _)| (*address).clone()));
    }
    Ok(tagged)
}

/// Those who have one of these addresses.
pub(super) async fn with_addresses(
    cx: &Cx,
    walk: &Walk,
    emails: Vec<EmailAddress>,
) -> Result<Vec<Candidate>, StorageError> {
    if emails.is_empty() {
        return Ok(Vec::new());
    }
    let (within, asked) = (cx.clone(), Asked::of(walk));
    let read = cx.database().read(move |tx| {
        let emails: Vec<&str> = emails.iter().map(EmailAddress::as_str).collect();
        let workspace = [Param::Int(within.workspace_id().get())];
        let rows = tx.query_among(&people_of(ADDRESSED), &workspace, Among::Texts(&emails))?;
        let mut people = grouped(&rows)?.people;
        asked.add(tx, &within, &mut people)?;
        Ok::<_, DatabaseError>(people)
    });
    Ok(read.await?)
}

/// Those of these contacts who can be meant.
pub(super) async fn with_ids(
    cx: &Cx,
    walk: &Walk,
    ids: Vec<i64>,
) -> Result<Vec<Candidate>, StorageError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let (within, asked) = (cx.clone(), Asked::of(walk));
    let read = cx.database().read(move |tx| {
        let workspace = [Param::Int(within.workspace_id().get())];
        let rows = tx.query_among(&people_of(GIVEN), &workspace, Among::Ints(&ids))?;
        let mut people = grouped(&rows)?.people;
        asked.add(tx, &within, &mut people)?;
        Ok::<_, DatabaseError>(people)
    });
    Ok(read.await?)
}

/// In the order of their ids.
async fn by_id(
    cx: &Cx,
    walk: &Walk,
    driver: Driver<'_>,
    (after, limit): (i64, usize),
) -> Result<Chunk, StorageError> {
    let mut asked = Asked::of(walk);
    let source = match driver {
        Driver::Segment(slug) => Source::Segment(slug.clone()),
        Driver::Audience(id) => Source::Audience(id.get()),
        Driver::Named(slug) => Source::Named(slug.clone()),
        Driver::Contacts | Driver::Listed(_) | Driver::Tagged(_) | Driver::AnyTagged(_) => {
            Source::Contacts
        }
    };
    // What drives the walk is true of everybody in it, and needs no second look; but whoever left an audience may be among
    // those who were subscribed to a part of it before.
    match &source {
        Source::Segment(slug) => drop(asked.segments.remove(slug)),
        Source::Audience(_) => asked.audience = None,
        Source::Named(_) | Source::Contacts => {}
    }
    let within = cx.clone();
    let read = cx.database().read(move |tx| {
        let size = i64::try_from(limit).unwrap_or(i64::MAX);
        let workspace = Param::Int(within.workspace_id().get());
        let mut params = vec![workspace, Param::Int(after), Param::Int(size)];
        let page = match (&source, source.id(tx, &within)?) {
            (Source::Contacts, _) => EVERYONE,
            // Nobody is subscribed to what there is not, or in it.
            (_, None) => return Ok(Chunk { candidates: Vec::new(), looked_at: 0, next: None }),
            (Source::Segment(_), Some(segment)) => {
                params.push(Param::Int(segment));
                IN_SEGMENT
            }
            (Source::Audience(_) | Source::Named(_), Some(audience)) => {
                params.extend([Param::Int(audience), Param::Int(asked.client.get())]);
                SUBSCRIBED
            }
        };
        let rows = tx.query(&people_of(page), &params)?;
        let Grouped { mut people, seen, last } = grouped(&rows)?;
        for one in &mut people {
            match &source {
                Source::Segment(slug) => drop(one.facts.segments.insert(slug.clone())),
                Source::Audience(_) => one.in_audience = true,
                Source::Named(_) | Source::Contacts => {}
            }
        }
        asked.add(tx, &within, &mut people)?;
        let next = last.filter(|_| seen == limit).map(Place::Id);
        Ok::<_, DatabaseError>(Chunk { candidates: people, looked_at: seen, next })
    });
    Ok(read.await?)
}

/// What drives a walk by id, without what it borrows.
enum Source {
    Segment(Slug),
    Audience(i64),
    Named(Slug),
    Contacts,
}

impl Source {
    /// Of the audience or the segment. `None` if there is none.
    fn id(&self, tx: &mut Tx<'_>, cx: &Cx) -> Result<Option<i64>, DatabaseError> {
        let (sql, slug) = match self {
            Self::Contacts => return Ok(None),
            Self::Audience(id) => return Ok(Some(*id)),
            Self::Named(slug) => {
                ("SELECT id FROM audiences WHERE workspace_id = $1 AND slug = $2", slug)
            }
            Self::Segment(slug) => (
                "SELECT id FROM segments WHERE workspace_id = $1 AND slug = $2 AND deleted_at IS NULL",
                slug,
            ),
        };
        let params = [Param::Int(cx.workspace_id().get()), Param::Text(slug.as_str())];
        tx.query(sql, &params)?.first().map(|row| row.int(0)).transpose()
    }
}

/// The people whose ids a statement gives, each once for each of his addresses, the first of them first. The page comes before
/// `CROSS JOIN`, and so SQLite does not begin with all leads of the workspace.
pub(super) fn people_of(page: &str) -> String {
    format!(
        "SELECT l.id, l.timezone, l.erased_at, l.merged_into_id, o.id, i.value, i.typed_value
         FROM ({page}) page CROSS JOIN leads l
         LEFT JOIN lead_organizations o ON o.lead_id = l.id
         LEFT JOIN channel_identities i ON i.lead_id = l.id AND i.channel = 'email'
         WHERE l.id = page.id AND l.workspace_id = $1
         ORDER BY l.id, i.id"
    )
}

struct Grouped {
    people: Vec<Candidate>,
    /// With those who cannot be meant.
    seen: usize,
    last: Option<i64>,
}

/// Whoever was erased, or is somebody else by now, or has no address, is nobody's candidate.
fn grouped(rows: &[Row]) -> Result<Grouped, DatabaseError> {
    let (mut people, mut seen, mut last) = (Vec::<Candidate>::new(), 0, None);
    for row in rows {
        let id = row.int(0)?;
        let is_new = last != Some(id);
        if is_new {
            (last, seen) = (Some(id), seen + 1);
        }
        let gone = row.optional_int(2)?.is_some() || row.optional_int(3)?.is_some();
        let Some(value) = row.optional_text(5)?.filter(|_| !gone) else { continue };
        let Ok(normal) = value.parse::<EmailAddress>() else { continue };
        // What he is addressed as, if it still is the same address.
        let typed = row.text(6)?.parse().ok().filter(|typed| *typed == normal);
        let address = typed.unwrap_or(normal);
        match people.last_mut().filter(|one| one.id.get() == id) {
            Some(one) => one.facts.addresses.push(address),
            None => people.push(Candidate {
                id: ContactId::from(id),
                timezone: row.optional_text(1)?.map(ToOwned::to_owned),
                facts: Facts { addresses: vec![address], ..Facts::default() },
                organization: row.optional_int(4)?.map(|id| id.to_string()),
                in_audience: false,
            }),
        }
    }
    Ok(Grouped { people, seen, last })
}

/// What has to be known of subscriptions and segments.
struct Asked {
    client: ClientId,
    audience: Option<AudienceId>,
    named: BTreeSet<Slug>,
    segments: BTreeSet<Slug>,
}

impl Asked {
    fn of(walk: &Walk) -> Self {
        let named = walk.condition.audiences().into_iter().cloned().collect();
        let segments = walk.condition.segments().into_iter().cloned().collect();
        Self { client: walk.client, audience: walk.audience, named, segments }
    }

    fn add(&self, tx: &mut Tx<'_>, cx: &Cx, people: &mut [Candidate]) -> Result<(), DatabaseError> {
        self.add_audiences(tx, cx, people)?;
        self.add_segments(tx, cx, people)
    }

    fn add_segments(
        &self,
        tx: &mut Tx<'_>,
        cx: &Cx,
        people: &mut [Candidate],
    ) -> Result<(), DatabaseError> {
        if people.is_empty() || self.segments.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = people.iter().map(|one| one.id.get()).collect();
        let workspace = [Param::Int(cx.workspace_id().get())];
        let rows = tx.query_among(SEGMENTS, &workspace, Among::Ints(&ids))?;
        let mut by_id: HashMap<i64, &mut Candidate> =
            people.iter_mut().map(|one| (one.id.get(), one)).collect();
        for row in &rows {
            let Some(one) = by_id.get_mut(&row.int(0)?) else { continue };
            let slug: Slug = row.parsed(1, "a slug")?;
            if self.segments.contains(&slug) {
                one.facts.segments.insert(slug);
            }
        }
        Ok(())
    }

    fn add_audiences(
        &self,
        tx: &mut Tx<'_>,
        cx: &Cx,
        people: &mut [Candidate],
    ) -> Result<(), DatabaseError> {
        if people.is_empty() || (self.named.is_empty() && self.audience.is_none()) {
            return Ok(());
        }
        let slugs = self.slugs(tx, cx)?;
        let ids: Vec<i64> = people.iter().map(|one| one.id.get()).collect();
        let client = [Param::Int(self.client.get())];
        let rows = tx.query_among(AUDIENCES, &client, Among::Ints(&ids))?;
        let mut standings = HashMap::<(i64, AudienceId), Standing>::new();
        for row in &rows {
            let place = (row.int(0)?, AudienceId::from(row.int(1)?));
            standings.entry(place).or_default().add(row)?;
        }
        let mut by_id: HashMap<i64, &mut Candidate> =
            people.iter_mut().map(|one| (one.id.get(), one)).collect();
        for ((id, audience), standing) in standings {
            let Some(one) = by_id.get_mut(&id) else { continue };
            // Whoever left the walk's own audience is told of with the reason, by the gate.
            one.in_audience |= self.audience == Some(audience) && standing.has_agreed();
            if standing.is_subscribed() {
                one.facts.audiences.extend(slugs.get(&audience).cloned());
            }
        }
        Ok(())
    }

    /// Those that the condition names and that there are.
    fn slugs(&self, tx: &mut Tx<'_>, cx: &Cx) -> Result<HashMap<AudienceId, Slug>, DatabaseError> {
        if self.named.is_empty() {
            return Ok(HashMap::new());
        }
        let sql = "SELECT id, slug FROM audiences
                   WHERE workspace_id = $1 AND slug IN (SELECT value FROM {given})";
        let named: Vec<&str> = self.named.iter().map(Slug::as_str).collect();
        let workspace = [Param::Int(cx.workspace_id().get())];
        let rows = tx.query_among(sql, &workspace, Among::Texts(&named))?;
        let read = |row: &Row| Ok((AudienceId::from(row.int(0)?), row.parsed(1, "a slug")?));
        rows.iter().map(read).collect()
    }
}

impl Candidate {
    /// The address that he is written to at.
    pub(super) fn email(&self) -> &EmailAddress {
        // `grouped` makes nobody without one.
        &self.facts.addresses[0]
    }
}

/// What the items know of them: only what is asked for.
pub(super) async fn add_items(
    cx: &Cx,
    walk: &Walk,
    people: &mut [Candidate],
) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let items = items.as_ref();
    if walk.condition.asks_profile() {
        add_profiles(items, people).await?;
        add_other_profiles(items, people).await?;
    }
    let subjects: BTreeSet<&Subject> = walk.condition.subjects().into_iter().collect();
    if subjects.iter().any(|subject| matches!(subject, Subject::Feature(_))) {
        add_features(items, &subjects, people).await?;
    }
    for subject in subjects {
        if let Subject::Memory { memory_type, key } = subject {
            let sort = format!("{memory_type}#{key}");
            let keys = people.iter().map(|one| Some(Key::new(one.organization.clone()?, &*sort)));
            let found = get_all(items, &tables::MEMORY, keys.collect()).await?;
            for (one, item) in people.iter_mut().zip(found) {
                let Some(item) = item else { continue };
                let value = memory::value(&item, cx.now());
                one.facts.derived.extend(value.map(|value| (subject.clone(), value.clone())));
                let ends = memory::until(&item, cx.now());
                one.facts.until = one.facts.until.into_iter().chain(ends).min();
            }
        }
    }
    Ok(())
}

pub(super) async fn add_profiles(
    items: &dyn ItemStore,
    people: &mut [Candidate],
) -> Result<(), StorageError> {
    let keys = people.iter().map(|one| Some(keys::profile(one.email()))).collect();
    let found = get_all(items, &tables::MAIN, keys).await?;
    for (one, item) in people.iter_mut().zip(found) {
        one.facts.profile = item.map(Profile::from).unwrap_or_default();
    }
    Ok(())
}

/// Those of the other addresses of who has several.
async fn add_other_profiles(
    items: &dyn ItemStore,
    people: &mut [Candidate],
) -> Result<(), StorageError> {
    let others = people.iter().flat_map(|one| one.facts.addresses.iter().skip(1));
    let wanted: Vec<Option<Key>> = others.map(|address| Some(keys::profile(address))).collect();
    let mut found = get_all(items, &tables::MAIN, wanted).await?.into_iter();
    for one in people {
        let his = found.by_ref().take(one.facts.addresses.len() - 1);
        one.facts.others = his.flatten().map(Profile::from).collect();
    }
    Ok(())
}

async fn add_features(
    items: &dyn ItemStore,
    subjects: &BTreeSet<&Subject>,
    people: &mut [Candidate],
) -> Result<(), StorageError> {
    let keys = people.iter().map(|one| one.organization.clone().map(Key::single)).collect();
    let found = get_all(items, &tables::FEATURE, keys).await?;
    for (one, item) in people.iter_mut().zip(found) {
        let mut features: BTreeMap<String, Value> =
            match item.and_then(|mut item| item.remove("features")) {
                Some(Value::M(features)) => features,
                // Nothing has happened to him yet.
                _ => features::all_before_anything(),
            };
        for subject in subjects {
            if let Subject::Feature(name) = subject {
                let value = features.remove(name);
                one.facts.derived.extend(value.map(|value| ((*subject).clone(), value)));
            }
        }
    }
    Ok(())
}

/// What is under each key, in as few reads as there can be. Where there is no key there is nothing.
async fn get_all(
    items: &dyn ItemStore,
    table: &'static Table,
    keys: Vec<Option<Key>>,
) -> Result<Vec<Option<Item>>, StorageError> {
    let mut found = Vec::with_capacity(keys.len());
    for some in keys.chunks(MAX_BATCH_GET) {
        let wanted: Vec<Key> = some.iter().flatten().cloned().collect();
        let mut got = if wanted.is_empty() {
            Vec::new().into_iter()
        } else {
            items.batch_get(table, &wanted).await?.into_iter()
        };
        found.extend(some.iter().map(|key| key.as_ref().and_then(|_| got.next().flatten())));
    }
    Ok(found)
}
