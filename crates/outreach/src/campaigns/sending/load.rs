//! What a worker needs to know of a batch: its campaign, its recipients and what the relations say of them, in one read.
//!
//! Rows are by contact, and two contacts can turn out to be one person after they were written down. He gets it once.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidings_access::Cx;
use tidings_delivery::eligibility::{self, ManyRelations};
use tidings_delivery::links::{Addressee, Source};
use tidings_kernel::EmailAddress;
use tidings_sql::{Among, DatabaseError, Param, Row, Tx};

use super::rules::{self, State, Step};
use crate::audience::{Condition, Gate};
use crate::campaigns::batches::{self, Batch};
use crate::campaigns::{Campaign, CampaignId, RecipientId, Status, store};

/// How long after somebody it is asked again whether he got it, if he is the same person.
const AFTER_TWIN: SignedDuration = SignedDuration::from_mins(1);

/// A row of `campaign_recipients`.
#[derive(Debug, Clone)]
pub(super) struct Recipient {
    pub(super) id: i64,
    pub(super) contact: i64,
    pub(super) email: Option<String>,
    pub(super) state: State,
    /// How often he was claimed, which tells a claim from the one before.
    pub(super) attempts: i64,
    pub(super) arm: Option<i64>,
    pub(super) provider_message_id: Option<String>,
    pub(super) logged_at: Option<Timestamp>,
}

impl Recipient {
    pub(super) fn source(&self) -> Source {
        Source::Recipient(self.id)
    }

    pub(super) fn addressee(&self, campaign: &Campaign) -> Addressee {
        Addressee {
            workspace: campaign.workspace,
            source: self.source(),
            contact: self.contact,
            client: campaign.client.get(),
            audience: campaign.audience.map(|audience| audience.get()),
            topic: campaign.topic.map(|topic| topic.get()),
        }
    }
}

/// Somebody who is to be sent to, if he may be.
#[derive(Debug, Clone)]
pub(super) struct Addressed {
    pub(super) row: Recipient,
    pub(super) email: EmailAddress,
}

pub(super) struct Loaded {
    pub(super) campaign: Campaign,
    /// `None` if there is no such batch.
    pub(super) batch: Option<Batch>,
    /// How many of those that were named are not of this campaign.
    pub(super) foreign: usize,
    /// Those of this batch. Who was moved to another one is that one's.
    pub(super) rows: Vec<Recipient>,
    /// Those of them that are to be sent to now, what is asked of them, and what the relations say to that. Nobody while it
    /// is not sending.
    pub(super) relations: Option<(Vec<Addressed>, Gate, ManyRelations)>,
    /// Those whose address nobody can write to.
    pub(super) unreadable: Vec<Recipient>,
    /// Those who have it as somebody else, who is the same person.
    pub(super) duplicates: Vec<Recipient>,
    /// Those who may get it as somebody else, and until when they wait to know.
    pub(super) later: Vec<(RecipientId, Timestamp)>,
}

/// What is asked of everybody. With a filter that cannot be read nobody would have been written down.
fn gate(tx: &mut Tx<'_>, cx: &Cx, campaign: &Campaign) -> Result<Gate, DatabaseError> {
    // It may name ten thousand people, and that is read only if it may require an audience as well.
    let condition = match may_require_audience(&campaign.filter) {
        true => Condition::parse(&campaign.filter, "filter").unwrap_or_default(),
        false => Condition::EVERYONE,
    };
    Gate::load(tx, cx, &campaign.own(), &condition)
}

/// Whether it names one, or a segment, whose condition may.
fn may_require_audience(filter: &Value) -> bool {
    match filter {
        Value::Object(parts) => parts.iter().any(|(name, part)| {
            ["audience", "segment"].contains(&name.as_str()) || may_require_audience(part)
        }),
        Value::Array(parts) => parts.iter().any(may_require_audience),
        _ => false,
    }
}

/// `None` if there is no such campaign in the workspace. `ids` are different from each other.
pub(super) fn load(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (campaign, number): (CampaignId, i64),
    ids: &[i64],
) -> Result<Option<Loaded>, DatabaseError> {
    let Some(campaign) = store::load(tx, cx, campaign)? else { return Ok(None) };
    let batch = batches::find(tx, cx, campaign.id, number)?;
    let sql = "SELECT id, lead_id, email, status, claimed_until, handed_at, attempts, arm, ses_message_id, logged_at
               FROM campaign_recipients WHERE id {among} AND workspace_id = $1 AND campaign_id = $2 ORDER BY id";
    let params = [cx.workspace_id().get().into(), campaign.id.get().into()];
    let rows = tx.query_among(sql, &params, Among::Ints(ids))?;
    let foreign = ids.len() - rows.len();
    let rows = rows.iter().map(read).collect::<Result<Vec<_>, DatabaseError>>()?;
    let members = batch.as_ref().map_or(&[][..], |batch| &batch.recipients);
    let rows: Vec<_> = rows.into_iter().filter(|row| members.contains(&row.id)).collect();
    let (mut wanted, mut unreadable) = (Vec::new(), Vec::new());
    let (mut duplicates, mut later) = (Vec::new(), Vec::new());
    // Of a batch that is done nobody is sent to: who is tried again is in another one as well.
    let is_open = batch.as_ref().is_some_and(|batch| batch.done_at.is_none());
    if campaign.status == Status::Sending && is_open {
        let open = rows.iter().filter(|row| rules::next(&row.state, cx.now()) == Step::Send);
        let open: Vec<_> = open.collect();
        let twins = twins(tx, cx, campaign.id, &open)?;
        for row in open {
            match twins.get(&row.id) {
                Some(Twin::HasIt) => {
                    duplicates.push(row.clone());
                    continue;
                }
                Some(Twin::GoesFirst(until)) => {
                    later.push((RecipientId::from(row.id), *until));
                    continue;
                }
                None => {}
            }
            match row.email.as_deref().and_then(|text| text.parse().ok()) {
                Some(email) => wanted.push(Addressed { row: row.clone(), email }),
                None => unreadable.push(row.clone()),
            }
        }
    }
    let relations = if wanted.is_empty() {
        None
    } else {
        let emails: Vec<_> = wanted.iter().map(|one| one.email.clone()).collect();
        let gate = gate(tx, cx, &campaign)?;
        let relations = eligibility::relations_all(tx, cx, gate.first(), &emails)?;
        Some((wanted, gate, relations))
    };
    Ok(Some(Loaded { campaign, batch, foreign, rows, relations, unreadable, duplicates, later }))
}

/// What becomes of somebody of whom another row is the same person by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    /// The other was handed over.
    HasIt,
    /// The other goes first, and may get it or not: he is asked about again then.
    GoesFirst(Timestamp),
}

/// Those of whom another row is the same person by now: one that was handed over already, or that comes before.
fn twins(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: CampaignId,
    rows: &[&Recipient],
) -> Result<HashMap<i64, Twin>, DatabaseError> {
    let contacts: Vec<i64> = rows.iter().map(|row| row.contact).collect();
    let sql = "SELECT id FROM leads WHERE id {among} AND workspace_id = $1 AND (merged_into_id IS NOT NULL
               OR EXISTS (SELECT 1 FROM leads other WHERE other.merged_into_id = leads.id))";
    let params = [Param::Int(cx.workspace_id().get())];
    let found = tx.query_among(sql, &params, Among::Ints(&contacts))?;
    let merged = found.iter().map(|row| row.int(0)).collect::<Result<HashSet<_>, _>>()?;
    // Who was merged is rare, so each is asked for alone.
    let sql = "WITH RECURSIVE above (id) AS (
                   SELECT id FROM leads WHERE id = $3
                   UNION SELECT l.merged_into_id FROM leads l JOIN above a ON l.id = a.id WHERE l.merged_into_id IS NOT NULL),
               person (id) AS (
                   SELECT id FROM above UNION SELECT l.id FROM leads l JOIN person p ON l.merged_into_id = p.id)
               SELECT r.id, r.status, r.sent_at, r.due_at, r.arm
               FROM person p JOIN campaign_recipients r ON r.campaign_id = $1 AND r.lead_id = p.id
               WHERE r.id <> $2";
    let mut twins = HashMap::new();
    for row in rows.iter().filter(|row| merged.contains(&row.contact)) {
        let params = [Param::Int(campaign.get()), Param::Int(row.id), Param::Int(row.contact)];
        for other in tx.query(sql, &params)? {
            let (own, theirs) =
                (turn(row.arm, row.id), turn(other.optional_int(4)?, other.int(0)?));
            let twin = match (other.text(1)?, other.optional_int(2)?) {
                ("skipped" | "failed", None) => continue,
                ("pending" | "queued", None) if theirs > own => continue,
                // What is handed over just now may still be refused.
                ("pending" | "queued" | "claimed", None) => {
                    let due_at = other.optional_time(3)?.unwrap_or(cx.now()).max(cx.now());
                    Twin::GoesFirst(due_at.saturating_add(AFTER_TWIN).unwrap_or(due_at))
                }
                _ => Twin::HasIt,
            };
            if twins.get(&row.id) != Some(&Twin::HasIt) {
                twins.insert(row.id, twin);
            }
        }
    }
    Ok(twins)
}

/// Of two rows of one person the one with the lower goes first. Who is part of a test does so before who waits for its winner,
/// as without him there may be none; and still does when it is known, or two nodes could each let the other's go.
fn turn(arm: Option<i64>, id: i64) -> (bool, i64) {
    (arm.is_none(), id)
}

fn read(row: &Row) -> Result<Recipient, DatabaseError> {
    let text = |column| Ok::<_, DatabaseError>(row.optional_text(column)?.map(ToOwned::to_owned));
    Ok(Recipient {
        id: row.int(0)?,
        contact: row.int(1)?,
        email: text(2)?,
        state: State {
            status: row.text(3)?.to_owned(),
            claimed_until: row.optional_time(4)?,
            handed_at: row.optional_time(5)?,
        },
        attempts: row.int(6)?,
        arm: row.optional_int(7)?,
        provider_message_id: text(8)?,
        logged_at: row.optional_time(9)?,
    })
}
