//! What a template knows of a person. Seed 000 says the order; later wins.
//!
//! The profile is that of the address that he is written to at. Who was merged has others, and what the first does not say
//! they may. Not here: what of it is looked up (`wanted`).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json};
use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, Item, ItemStore, Key, Query, Value, tables};
use tidings_people::contacts::Other;
use tidings_people::{features, keys, memory as remembered};
use tidings_sql::{Among, DatabaseError, Param, Row};

use super::display_names::{self, DisplayNames};
use super::store::Stored;
use super::wanted::{Wanted, others_of};

/// How many memories of a person a template can see, and how many of them are read at once.
const MAX_MEMORIES: usize = 5_000;
const PAGE: usize = 500;
/// Of so many people memories are read at once.
const AT_ONCE: usize = 16;

/// The columns of a PROFILE that are not for templates.
const NOT_SHOWN: [&str; 7] =
    ["PK", "SK", "unsubscribed", "suppressed", "createdAt", "updatedAt", "ttl"];

/// Whom a mail is for, and what is known besides.
#[derive(Debug, Clone)]
pub struct Recipient<'a> {
    pub email: &'a EmailAddress,
    /// What the message gives.
    pub context: &'a Map<String, Json>,
    pub unsubscribe_url: Option<&'a str>,
    pub preferences_url: Option<&'a str>,
}

/// The variables for one mail: address, profile, labels of its values, the message's own, links, the year; memory and
/// features where the template names them.
pub async fn variables_for(
    cx: &Cx,
    template: &Stored,
    recipient: &Recipient<'_>,
) -> Result<Map<String, Json>, StorageError> {
    variables_wanted(cx, Wanted::of(template.roots()), recipient).await
}

/// The same for content that is not stored.
pub async fn variables_wanted(
    cx: &Cx,
    wanted: Wanted,
    recipient: &Recipient<'_>,
) -> Result<Map<String, Json>, StorageError> {
    let items = cx.items().await?;
    let wanted_items = [keys::profile(recipient.email), display_names::key()];
    let mut found = items.batch_get(&tables::MAIN, &wanted_items).await?.into_iter();
    let (profile, labels) = (found.next().flatten(), found.next().flatten());
    let labels = labels.as_ref().map(display_names::read).unwrap_or_default();
    let wanted = wanted.without(recipient.context);
    let asked = std::iter::once((recipient.email, profile.as_ref()));
    let mut others = others_of(cx, &wanted, asked).await?;
    let others = others.remove(recipient.email.as_str()).unwrap_or_default();
    let mut learned = learned_of(cx, &wanted, &[recipient.email]).await?;
    let known = Known {
        profile: profile.as_ref(),
        others: &others,
        labels: &labels,
        learned: learned.remove(recipient.email.as_str()).unwrap_or_default(),
    };
    Ok(variables_known(known, recipient, cx.now()))
}

/// What is known of a person, read by whoever writes to many.
#[derive(Debug)]
pub struct Known<'a> {
    /// His item PROFILE, if he has one.
    pub profile: Option<&'a Item>,
    /// His other addresses, in their order, if he may need them.
    pub others: &'a [Other],
    /// Those of the workspace.
    pub labels: &'a DisplayNames,
    pub learned: Learned,
}

/// What was learned of a person over time. Nothing where it is not wanted, or nobody knows him.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Learned {
    pub memory: Option<Json>,
    pub features: Option<Json>,
}

/// The same without a look into any store.
pub fn variables_known(
    known: Known<'_>,
    recipient: &Recipient<'_>,
    now: Timestamp,
) -> Map<String, Json> {
    let mut variables = Map::new();
    variables.insert("email".to_owned(), recipient.email.as_str().into());
    if let Some(profile) = known.profile {
        add_profile(&mut variables, profile);
    }
    add_others(&mut variables, known.others);
    let given = || recipient.context.iter().map(|(name, value)| (name.clone(), value.clone()));
    variables.extend(given());
    add_labels(&mut variables, known.labels);
    // What a message says itself counts before any label, and labels are those of what it says.
    variables.extend(given());
    let links = [
        ("unsubscribeUrl", recipient.unsubscribe_url),
        ("preferencesUrl", recipient.preferences_url),
    ];
    for (name, url) in links {
        if let Some(url) = url {
            variables.insert(name.to_owned(), url.into());
        }
    }
    let year = now.to_zoned(TimeZone::UTC).year();
    variables.insert("currentYear".to_owned(), year.into());
    let learned = [("memory", known.learned.memory), ("features", known.learned.features)];
    for (name, value) in learned {
        if let Some(value) = value {
            variables.insert(name.to_owned(), value);
        }
    }
    variables
}

/// What was learned of these people, by their addresses, as far as it is wanted.
pub async fn learned_of(
    cx: &Cx,
    wanted: &Wanted,
    emails: &[&EmailAddress],
) -> Result<HashMap<String, Learned>, StorageError> {
    let mut learned = HashMap::new();
    if !wanted.memory && !wanted.features {
        return Ok(learned);
    }
    let items = cx.items().await?;
    let leads = lead_organizations(cx, emails).await?;
    let mut features = if wanted.features {
        let keys: Vec<_> = leads.iter().map(|(_, lead)| Key::single(lead.as_str())).collect();
        items.batch_get(&tables::FEATURE, &keys).await?.into_iter()
    } else {
        Vec::new().into_iter()
    };
    let memories = leads.iter().map(|(_, lead)| {
        let (items, lead) = (Arc::clone(&items), wanted.memory.then(|| lead.clone()));
        async move {
            match lead {
                Some(lead) => memory(items.as_ref(), &lead, cx.now()).await.map(Some),
                None => Ok(None),
            }
        }
    });
    let memories: Vec<_> = memories.collect();
    let memories: Vec<_> = stream::iter(memories).buffered(AT_ONCE).try_collect().await?;
    for ((email, _), memory) in leads.into_iter().zip(memories) {
        let item = features.next().flatten();
        let features = wanted.features.then(|| features_in(item.as_ref()));
        learned.insert(email, Learned { memory, features });
    }
    Ok(learned)
}

/// The required variables that are absent or empty. With any of them missing nothing may be sent, or even written.
pub fn missing(template: &Stored, variables: &Map<String, Json>) -> Vec<String> {
    let is_missing = |path: &&String| {
        let mut steps = path.split('.');
        let mut here = steps.next().and_then(|root| variables.get(root));
        for step in steps {
            here = here.and_then(|value| value.get(step));
        }
        match here {
            None | Some(Json::Null) => true,
            Some(Json::String(text)) => text.trim().is_empty(),
            Some(_) => false,
        }
    };
    template.content.required.iter().filter(is_missing).cloned().collect()
}

fn add_profile(variables: &mut Map<String, Json>, profile: &Item) {
    let shown = profile.iter().filter(|(name, _)| !NOT_SHOWN.contains(&name.as_str()));
    variables.extend(shown.map(|(name, value)| (name.clone(), to_json(value))));
}

/// What the address itself does not say, as the first of the others does that says it. Null is as good as nothing, and the tags
/// are those of all of them.
fn add_others(variables: &mut Map<String, Json>, others: &[Other]) {
    let mut tags = BTreeSet::new();
    for Other { profile, .. } in others {
        let first_name = profile.first_name().map(|name| ("firstName".to_owned(), name.into()));
        for (name, value) in profile.attributes().into_iter().chain(first_name) {
            if value != Value::Null && variables.get(&name).is_none_or(Json::is_null) {
                variables.insert(name, to_json(&value));
            }
        }
        tags.extend(profile.tags());
    }
    if tags.is_empty() {
        return;
    }
    if let Some(Json::Array(own)) = variables.get("tags") {
        tags.extend(own.iter().filter_map(Json::as_str).map(ToOwned::to_owned));
    }
    variables.insert("tags".to_owned(), tags.into_iter().collect());
}

/// `<attribute>Name`, with the value itself where it has no label. A value that is no text has none.
fn add_labels(variables: &mut Map<String, Json>, labels: &DisplayNames) {
    for (name, values) in labels.iter() {
        let Some(attribute) = name.strip_suffix("Name") else { continue };
        let Some(Json::String(raw)) = variables.get(attribute) else { continue };
        let label = values.get(raw).unwrap_or(raw).clone();
        variables.insert(name.clone(), label.into());
    }
}

/// Address and partition of those who have one.
async fn lead_organizations(
    cx: &Cx,
    emails: &[&EmailAddress],
) -> Result<Vec<(String, String)>, DatabaseError> {
    let sql = "SELECT i.value, o.id FROM {given}
               JOIN channel_identities i ON i.id = (SELECT one.id FROM channel_identities one
                   WHERE one.workspace_id = $1 AND one.channel = 'email' AND one.value = given.value)
               JOIN lead_organizations o ON o.lead_id = i.lead_id";
    let workspace = cx.workspace_id().get();
    let emails: Vec<String> = emails.iter().map(|email| email.as_str().to_owned()).collect();
    let find = cx.database().read(move |tx| {
        let emails: Vec<&str> = emails.iter().map(String::as_str).collect();
        let rows = tx.query_among(sql, &[Param::Int(workspace)], Among::Texts(&emails))?;
        let pair = |row: &Row| Ok((row.text(0)?.to_owned(), row.int(1)?.to_string()));
        rows.iter().map(pair).collect::<Result<_, DatabaseError>>()
    });
    find.await
}

/// `memory.<type>.<key>`: seed 004's sort key is `<type>#<key>`.
async fn memory(items: &dyn ItemStore, lead: &str, now: Timestamp) -> Result<Json, StorageError> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        // A page can be shorter than was asked for: it has so many bytes at most.
        let query = Query::new(&tables::MEMORY, lead).limit(PAGE).after(cursor);
        let page = items.query(query).await?;
        found.extend(page.items);
        cursor = page.cursor;
        if cursor.is_none() || found.len() >= MAX_MEMORIES {
            break;
        }
    }
    let mut all = Map::new();
    for item in &found {
        let Some((kind, key)) = item.text("memory_type#key").and_then(|sort| sort.split_once('#'))
        else {
            continue;
        };
        let group = all.entry(kind).or_insert_with(|| Json::Object(Map::new()));
        if let Json::Object(group) = group {
            group.insert(key.to_owned(), remembered::value(item, now).map_or(Json::Null, to_json));
        }
    }
    Ok(Json::Object(all))
}

fn features_in(item: Option<&Item>) -> Json {
    let features = item.and_then(|item| item.get("features")).map(to_json);
    features.unwrap_or_else(|| to_json(&Value::M(features::all_before_anything())))
}

/// A stored value as templates see it. Bytes are nothing to them.
pub(super) fn to_json(value: &Value) -> Json {
    match value {
        Value::S(text) => text.as_str().into(),
        Value::N(number) => serde_json::to_value(number).unwrap_or_default(),
        Value::Bool(flag) => (*flag).into(),
        Value::Null | Value::B(_) | Value::Bs(_) => Json::Null,
        Value::M(map) => {
            Json::Object(map.iter().map(|(name, value)| (name.clone(), to_json(value))).collect())
        }
        Value::L(list) => Json::Array(list.iter().map(to_json).collect()),
        Value::Ss(texts) => texts.iter().map(String::as_str).collect(),
        Value::Ns(numbers) => {
            numbers.iter().map(|n| serde_json::to_value(n).unwrap_or_default()).collect()
        }
    }
}
