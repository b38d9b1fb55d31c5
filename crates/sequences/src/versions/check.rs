//! Whether what a definition names is there: its client and sender, its audiences and topic, its templates.

use std::collections::{BTreeMap, BTreeSet};

use tidings_access::{Cx, Slug, StorageError};
use tidings_delivery::templates::{self, Pick, TemplateKey};
use tidings_outreach::audience::{unknown_audiences, unknown_features, unknown_segments};
use tidings_outreach::campaigns::named;
use tidings_sql::{DatabaseError, Param, Tx};

use super::{Coming, PutError};
use crate::definition::{Action, Check, Definition, Fault};

/// What a definition names, by their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) client: i64,
    pub(super) audience: Option<i64>,
    pub(super) topic: Option<i64>,
}

/// All that is missing is told at once.
pub(super) async fn check(
    cx: &Cx,
    definition: &Definition,
    coming: &Coming,
) -> Result<Named, PutError> {
    let found = relations(cx, definition, coming).await;
    let (named, mut faults) = found.map_err(StorageError::from)?;
    for step in definition.all_steps() {
        if let Action::Condition { check: Check::Matches(condition), .. } = &step.action {
            let unknown = unknown_audiences(cx, condition).await.map_err(StorageError::from)?;
            for slug in unknown.iter().filter(|slug| !coming.audiences.contains(slug)) {
                let pointer = format!("{}/condition", step.pointer);
                faults.push(fault(pointer, missing("audience", slug)));
            }
            let unknown = unknown_segments(cx, condition).await.map_err(StorageError::from)?;
            for slug in unknown.iter().filter(|slug| !coming.segments.contains(slug)) {
                let pointer = format!("{}/condition", step.pointer);
                faults.push(fault(pointer, missing("segment", slug)));
            }
            for message in unknown_features(condition) {
                faults.push(fault(format!("{}/condition", step.pointer), message));
            }
        }
    }
    faults.extend(templates_missing(cx, definition, &coming.templates).await?);
    match named {
        Some(named) if faults.is_empty() => Ok(named),
        _ => Err(PutError::Faults(faults)),
    }
}

fn fault(pointer: impl Into<String>, message: String) -> Fault {
    Fault { pointer: pointer.into(), line: None, message }
}

fn missing(what: &str, name: &Slug) -> String {
    format!("there is no {what} {name}; make it first, or name another")
}

async fn relations(
    cx: &Cx,
    definition: &Definition,
    coming: &Coming,
) -> Result<(Option<Named>, Vec<Fault>), DatabaseError> {
    let (workspace, definition) = (cx.workspace_id().get(), definition.clone());
    let (within, coming) = (cx.clone(), coming.clone());
    let read = cx.database().read(move |tx| {
        let mut faults = Vec::new();
        if find(tx, "sequences", workspace, &definition.id)?.is_none() {
            faults.extend(of_campaign(tx, &within, definition.id.as_str())?);
        }
        let client = find(tx, "clients", workspace, &definition.client)?;
        match (client, &definition.sender) {
            (None, _) => faults.push(fault("/client", missing("client", &definition.client))),
            (Some(client), Some(sender)) => {
                let sql = "SELECT id FROM senders WHERE client_id = $1 AND slug = $2";
                let params = [Param::Int(client), Param::Text(sender.as_str())];
                if tx.query(sql, &params)?.is_empty() {
                    let message = format!(
                        "client {} has no sender {sender}; make it first, or name another",
                        definition.client
                    );
                    faults.push(fault("/sender", message));
                }
            }
            (Some(_), None) => {}
        }
        let mut ids = [None, None];
        let places = [
            ("audience", "audiences", &definition.audience, &coming.audiences),
            ("topic", "topics", &definition.topic, &coming.topics),
        ];
        for (id, (what, table, slug, coming)) in ids.iter_mut().zip(places) {
            let Some(slug) = slug else { continue };
            *id = find(tx, table, workspace, slug)?;
            if id.is_none() && !coming.contains(slug) {
                faults.push(fault(format!("/{what}"), missing(what, slug)));
            }
        }
        let [audience, topic] = ids;
        let named = client.map(|client| Named { client, audience, topic });
        Ok::<_, DatabaseError>((named, faults))
    });
    read.await
}

/// The counters and the send log know campaigns and sequences by one word, so no word can mean both.
pub(super) fn of_campaign(
    tx: &mut Tx<'_>,
    cx: &Cx,
    id: &str,
) -> Result<Option<Fault>, DatabaseError> {
    let message = "a campaign has this as its key, and what comes back would be counted for both";
    Ok(named::is_taken(tx, cx, id)?.then(|| fault("/id", message.to_owned())))
}

fn find(
    tx: &mut Tx<'_>,
    table: &str,
    workspace: i64,
    slug: &Slug,
) -> Result<Option<i64>, DatabaseError> {
    let sql = format!("SELECT id FROM {table} WHERE workspace_id = $1 AND slug = $2");
    let rows = tx.query(&sql, &[Param::Int(workspace), Param::Text(slug.as_str())])?;
    rows.first().map(|row| row.int(0)).transpose()
}

/// Each template is asked for once, and told wherever it is named.
async fn templates_missing(
    cx: &Cx,
    definition: &Definition,
    coming: &BTreeSet<TemplateKey>,
) -> Result<Vec<Fault>, StorageError> {
    let (mut known, mut faults) = (BTreeMap::<&TemplateKey, Option<String>>::new(), Vec::new());
    for (pointer, key) in definition.templates_sent() {
        let wrong = match known.get(key) {
            Some(wrong) => wrong.clone(),
            None => {
                let wrong = wrong_with(cx, key, coming).await?;
                known.insert(key, wrong.clone());
                wrong
            }
        };
        faults.extend(wrong.map(|message| fault(pointer, message)));
    }
    Ok(faults)
}

async fn wrong_with(
    cx: &Cx,
    key: &TemplateKey,
    coming: &BTreeSet<TemplateKey>,
) -> Result<Option<String>, StorageError> {
    if key.is_partial() {
        return Ok(Some(format!("{key} is a part of templates, and no mail; name a template")));
    }
    if coming.contains(key) || templates::find(cx, key, Pick::Active).await?.is_some() {
        return Ok(None);
    }
    Ok(Some(match templates::find(cx, key, Pick::Latest).await? {
        Some(_) => format!("no version of template {key} is active; activate one"),
        None => format!("there is no template {key}; put it first, or name another"),
    }))
}
