//! What a template knows of a person. Seed 000 says the order; later wins.

use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json};
use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, Item, ItemStore, Query, Value, tables};
use tidings_people::keys;
use tidings_sql::{DatabaseError, Param};

use super::display_names::{self, DisplayNames};
use super::store::Stored;

/// How many memories of a person a template can see.
const MAX_MEMORIES: usize = 500;

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
    let wanted = Wanted { memory: template.names("memory"), features: template.names("features") };
    variables_wanted(cx, wanted, recipient).await
}

/// What has to be looked for, because the content names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub memory: bool,
    pub features: bool,
}

/// The same for content that is not stored.
pub async fn variables_wanted(
    cx: &Cx,
    wanted: Wanted,
    recipient: &Recipient<'_>,
) -> Result<Map<String, Json>, StorageError> {
    let items = cx.items().await?;
    let mut variables = Map::new();
    variables.insert("email".to_owned(), recipient.email.as_str().into());
    let wanted_items = [keys::profile(recipient.email), display_names::key()];
    let mut found = items.batch_get(&tables::MAIN, &wanted_items).await?.into_iter();
    if let Some(profile) = found.next().flatten() {
        add_profile(&mut variables, &profile);
    }
    if let Some(labels) = found.next().flatten() {
        add_labels(&mut variables, &display_names::read(&labels));
    }
    variables.extend(recipient.context.iter().map(|(name, value)| (name.clone(), value.clone())));
    let links = [
        ("unsubscribeUrl", recipient.unsubscribe_url),
        ("preferencesUrl", recipient.preferences_url),
    ];
    for (name, url) in links {
        if let Some(url) = url {
            variables.insert(name.to_owned(), url.into());
        }
    }
    let year = cx.now().to_zoned(TimeZone::UTC).year();
    variables.insert("currentYear".to_owned(), year.into());
    if (wanted.memory || wanted.features)
        && let Some(lead) = lead_organization(cx, recipient.email).await?
    {
        if wanted.memory {
            variables.insert("memory".to_owned(), memory(items.as_ref(), &lead).await?);
        }
        if wanted.features {
            variables.insert("features".to_owned(), features(items.as_ref(), &lead).await?);
        }
    }
    Ok(variables)
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

/// `<attribute>Name`, with the value itself where it has no label. A value that is no text has none.
fn add_labels(variables: &mut Map<String, Json>, labels: &DisplayNames) {
    for (name, values) in labels.iter() {
        let Some(attribute) = name.strip_suffix("Name") else { continue };
        let Some(Json::String(raw)) = variables.get(attribute) else { continue };
        let label = values.get(raw).unwrap_or(raw).clone();
        variables.insert(name.clone(), label.into());
    }
}

async fn lead_organization(cx: &Cx, email: &EmailAddress) -> Result<Option<String>, DatabaseError> {
    let sql = "SELECT o.id FROM channel_identities i
               JOIN lead_organizations o ON o.workspace_id = i.workspace_id AND o.lead_id = i.lead_id
               WHERE i.workspace_id = $1 AND i.channel = 'email' AND i.value = $2";
    let (workspace, email) = (cx.workspace_id().get(), email.as_str().to_owned());
    let find = cx.database().read(move |tx| {
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Text(&email)])?;
        rows.first().map(|row| row.int(0)).transpose()
    });
    let id: Option<i64> = find.await?;
    Ok(id.map(|id| id.to_string()))
}

/// `memory.<type>.<key>`: seed 004's sort key is `<type>#<key>`.
async fn memory(items: &dyn ItemStore, lead: &str) -> Result<Json, StorageError> {
    let found = items.query(Query::new(&tables::MEMORY, lead).limit(MAX_MEMORIES)).await?.items;
    let mut all = Map::new();
    for item in &found {
        let Some((kind, key)) = item.text("memory_type#key").and_then(|sort| sort.split_once('#'))
        else {
            continue;
        };
        let group = all.entry(kind).or_insert_with(|| Json::Object(Map::new()));
        if let Json::Object(group) = group {
            group.insert(key.to_owned(), item.get("value").map_or(Json::Null, to_json));
        }
    }
    Ok(Json::Object(all))
}

async fn features(items: &dyn ItemStore, lead: &str) -> Result<Json, StorageError> {
    let item = items.get(&tables::FEATURE, &tidings_kernel::Key::single(lead)).await?;
    let features = item.as_ref().and_then(|item| item.get("features")).map(to_json);
    Ok(features.unwrap_or_else(|| Json::Object(Map::new())))
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
