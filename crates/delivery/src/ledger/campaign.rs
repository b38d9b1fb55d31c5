//! `campaign-email`: a batch of recipients that were written down before.

use async_trait::async_trait;
use tidings_jobs::contracts::CampaignEmail;
use tidings_jobs::{Outcome, Work};
use tidings_sql::{DatabaseError, Param, Tx};

use super::{Ledger, PAUSE, failed, is_settled, nobody_to_hand_it_to};

pub(super) struct Send(pub(super) Ledger);

/// What the ledger says of the batch.
struct Batch {
    /// `None`: there is no such campaign.
    campaign: Option<String>,
    /// Of those recipients that are of this campaign.
    recipients: Vec<String>,
}

#[async_trait]
impl Work<CampaignEmail> for Send {
    async fn work(&self, message: CampaignEmail) -> Outcome {
        let (campaign, mut ids) = (message.campaign_id, message.campaign_recipient_ids.clone());
        ids.sort_unstable();
        ids.dedup();
        let named = ids.len();
        let batch = self.0.database.read(move |tx| load(tx, campaign, &ids)).await;
        match batch {
            Ok(batch) => decide(&message, named, &batch),
            Err(error) => failed(&error),
        }
    }
}

fn load(tx: &mut Tx<'_>, campaign: i64, ids: &[i64]) -> Result<Batch, DatabaseError> {
    let found = tx.query("SELECT status FROM campaigns WHERE id = $1", &[Param::Int(campaign)])?;
    let status = found.first().map(|row| row.text(0).map(str::to_owned)).transpose()?;
    let mut recipients = Vec::new();
    for id in ids {
        let sql = "SELECT status FROM campaign_recipients WHERE id = $1 AND campaign_id = $2";
        for row in tx.query(sql, &[Param::Int(*id), Param::Int(campaign)])? {
            recipients.push(row.text(0)?.to_owned());
        }
    }
    Ok(Batch { campaign: status, recipients })
}

fn decide(message: &CampaignEmail, named: usize, batch: &Batch) -> Outcome {
    let (id, batch_id) = (message.campaign_id, &message.batch_id);
    let missing = named - batch.recipients.len();
    match batch.campaign.as_deref() {
        None => Outcome::retry(format!("there is no campaign {id}")),
        Some(_) if missing > 0 => Outcome::retry(format!(
            "{missing} of {named} recipients of batch {batch_id} are not of campaign {id}"
        )),
        Some(_) if batch.recipients.iter().all(|status| is_settled(status)) => Outcome::Done,
        Some("cancelled" | "failed") => Outcome::Done,
        Some("paused") => Outcome::wait(format!("campaign {id} is paused"), PAUSE),
        Some(_) => nobody_to_hand_it_to(),
    }
}
