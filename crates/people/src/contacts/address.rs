//! What was found out about an address: whether somebody has shown that he reads it, and whether mail arrives there.
//!
//! Here: writing that down. Not here: what follows from it (`delivery::eligibility`), and what a provider says, which is a
//! suppression.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Change, Cx};
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::{ContactId, Identity, show};
use crate::consent::Line;
use crate::{news, segments};

/// Whether mail arrives at an address, as far as somebody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validation {
    #[default]
    Unknown,
    Valid,
    Invalid,
    /// It may arrive: a catch-all, an address for a few minutes.
    Risky,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use valid, invalid, risky or unknown")]
pub struct ValidationError;

/// What is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assess {
    pub email: EmailAddress,
    /// Somebody has shown that he reads it, or that is taken back.
    pub verified: Option<bool>,
    pub validation: Option<Validation>,
    /// Why it is valid or not; only together with `validation`.
    pub reason: Option<Line>,
}

#[derive(Debug, thiserror::Error)]
pub enum AssessError {
    #[error("there is no contact with this address")]
    Missing,
    #[error("a reason says why an address is valid or not, so it needs a validation_status")]
    ReasonAlone,
    #[error("the address could not be changed")]
    Store(#[from] DatabaseError),
}

/// Writes down what was found out about an address. Marketing mail goes to none that is invalid, and to none that is not
/// verified where that is wanted. Doing it again changes nothing, and the first time stays.
pub async fn assess(cx: &Cx, cmd: Assess) -> Result<Identity, AssessError> {
    if cmd.reason.is_some() && cmd.validation.is_none() {
        return Err(AssessError::ReasonAlone);
    }
    let within = cx.clone();
    cx.database().write(move |tx| write(tx, &within, &cmd)).await
}

fn write(tx: &mut Tx<'_>, cx: &Cx, cmd: &Assess) -> Result<Identity, AssessError> {
    let sql = format!(
        "SELECT {}, id, lead_id FROM channel_identities
         WHERE workspace_id = $1 AND channel = 'email' AND value = $2",
        show::IDENTITY
    );
    let params = [Param::Int(cx.workspace_id().get()), Param::Text(cmd.email.as_str())];
    let rows = tx.query(&sql, &params)?;
    let row = rows.first().ok_or(AssessError::Missing)?;
    let before = show::identity(row)?;
    let (id, contact) = ids(row)?;
    let after = cmd.applied(before.clone(), cx.now());
    if after == before {
        return Ok(before);
    }
    let sql = "UPDATE channel_identities
               SET verified_at = $2, validation_status = $3, validation_reason = $4, validated_at = $5, updated_at = $6
               WHERE id = $1";
    let time = |at: Option<Timestamp>| at.map_or(Param::Null, |at| Param::Int(at.as_millisecond()));
    let params = [
        Param::Int(id),
        time(after.verified_at),
        Param::Text(after.validation.as_str()),
        after.validation_reason.as_deref().map_or(Param::Null, Param::Text),
        time(after.validated_at),
        Param::Int(cx.now().as_millisecond()),
    ];
    tx.execute(sql, &params)?;
    let change =
        Change::new("contact.assess", "contact", contact).between(told(&before), told(&after));
    cx.record_change(tx, &change)?;
    tidings_webhooks::announce(cx, tx, &news::updated(cx, contact.get(), &cmd.email))?;
    segments::changed(tx, cx, &[contact])?;
    Ok(after)
}

fn ids(row: &Row) -> Result<(i64, ContactId), DatabaseError> {
    let first = show::IDENTITY.split(',').count();
    Ok((row.int(first)?, ContactId::from(row.int(first + 1)?)))
}

/// Without the address and the reason: the log has nobody in it.
fn told(identity: &Identity) -> serde_json::Value {
    json!({
        "verified": identity.verified_at.is_some(),
        "validation_status": identity.validation.as_str(),
    })
}

impl Assess {
    fn applied(&self, mut identity: Identity, now: Timestamp) -> Identity {
        match self.verified {
            Some(true) => drop(identity.verified_at.get_or_insert(now)),
            Some(false) => identity.verified_at = None,
            None => {}
        }
        let reason = self.reason.as_ref().map(|reason| reason.as_str().to_owned());
        if let Some(validation) = self.validation
            && (validation != identity.validation || reason != identity.validation_reason)
        {
            identity.validation = validation;
            identity.validation_reason = reason;
            identity.validated_at = (validation != Validation::Unknown).then_some(now);
        }
        identity
    }
}

impl Validation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Risky => "risky",
        }
    }
}

impl FromStr for Validation {
    type Err = ValidationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Unknown, Self::Valid, Self::Invalid, Self::Risky];
        all.into_iter().find(|one| one.as_str() == text).ok_or(ValidationError)
    }
}

impl fmt::Display for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
