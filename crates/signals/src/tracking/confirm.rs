//! The link in a mail that asks whether it was really this person who wanted to be subscribed.

use tidings_access::Cx;
use tidings_delivery::links::Confirmation;
use tidings_kernel::EmailAddress;
use tidings_people::consent::confirmations::{self, Confirm, ConfirmError};
use tidings_people::consent::{Proof, SubscriptionId};
use tidings_sql::{DatabaseError, Param};

use super::{ChoiceError, Tracking};

/// What somebody is asked to confirm.
pub struct Question {
    cx: Cx,
    subscription: i64,
    pub audience: String,
    pub client: Option<String>,
    pub address: EmailAddress,
    pub stands: Stands,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    Open,
    Confirmed,
    Expired,
}

/// What a link asks. Nothing changes by looking.
pub async fn question(tracking: &Tracking, token: &str) -> Result<Question, ChoiceError> {
    let said = tracking.links.read_confirm(token, tracking.access.now()).await?;
    let Confirmation { workspace, subscription } = said;
    let cx = tracking.access.working_for(workspace).await?.ok_or(ChoiceError::Nobody)?;
    let sql = "SELECT a.name, c.name, i.value, s.status, f.expires_at, f.confirmed_at
               FROM subscriptions s
               JOIN audiences a ON a.workspace_id = s.workspace_id AND a.id = s.audience_id
               JOIN channel_identities i ON i.workspace_id = s.workspace_id AND i.lead_id = s.lead_id
                   AND i.channel = 'email'
               LEFT JOIN clients c ON c.workspace_id = s.workspace_id AND c.id = s.client_id
               LEFT JOIN confirmations f ON f.workspace_id = s.workspace_id AND f.subscription_id = s.id
               WHERE s.workspace_id = $1 AND s.id = $2 ORDER BY i.id LIMIT 1";
    let found = cx
        .database()
        .read(move |tx| tx.query(sql, &[Param::Int(workspace), Param::Int(subscription)]));
    let found = found.await?;
    let row = found.first().ok_or(ChoiceError::Nobody)?;
    let read = || {
        let is_open = row.optional_time(4)?.is_some_and(|expires_at| expires_at > cx.now());
        let stands = match (row.text(3)?, row.optional_time(5)?) {
            ("subscribed", Some(_)) => Stands::Confirmed,
            (_, None) if is_open => Stands::Open,
            _ => Stands::Expired,
        };
        Ok::<_, DatabaseError>(Question {
            cx: cx.clone(),
            subscription,
            audience: row.text(0)?.to_owned(),
            client: row.optional_text(1)?.map(str::to_owned),
            address: row.parsed(2, "an e-mail address")?,
            stands,
        })
    };
    Ok(read()?)
}

/// Yes, it was. Doing it again changes nothing.
pub async fn confirm(question: &Question, proof: Proof) -> Result<(), ChoiceError> {
    let cmd = Confirm { subscription: SubscriptionId::from(question.subscription), proof };
    match confirmations::confirm(&question.cx, cmd).await {
        Ok(_) => Ok(()),
        Err(ConfirmError::Missing(_)) => Err(ChoiceError::Nobody),
        Err(ConfirmError::NotAsked(_) | ConfirmError::Expired { .. }) => Err(ChoiceError::Expired),
        Err(ConfirmError::Store(error)) => Err(error.into()),
    }
}
