//! What the ledger says of a message, for whoever has news of it.

use tidings_kernel::EmailAddress;
use tidings_sql::{Among, DatabaseError, Param, Row, Tx};

use crate::links::Source;

/// A message that was written down to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub source: Source,
    pub workspace: i64,
    pub client: i64,
    pub contact: i64,
    /// Whose mail it was, and what it was about: what its reader leaves if he says no more.
    pub audience: Option<i64>,
    pub topic: Option<i64>,
    /// `None` once the person is erased.
    pub email: Option<String>,
    pub template_key: Option<String>,
    pub subject: Option<String>,
    /// What its counters are kept under: a sequence, a campaign's own key, or `campaign-<id>`.
    pub sequence_id: Option<String>,
    pub provider_message_id: Option<String>,
    /// The place of the variant that it has, if its campaign has variants.
    pub arm: Option<i64>,
    /// Whether its links lead past us.
    pub is_tracked: bool,
}

impl Source {
    pub fn id(self) -> i64 {
        match self {
            Self::Transactional(id) | Self::Recipient(id) => id,
        }
    }

    /// As it is written in tags and keys: `t-101`, `c-501`.
    pub fn reference(self) -> String {
        match self {
            Self::Transactional(id) => format!("t-{id}"),
            Self::Recipient(id) => format!("c-{id}"),
        }
    }

    /// What [`Source::reference`] wrote.
    pub fn from_reference(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once('-')?;
        let id = id.parse().ok().filter(|id| *id > 0)?;
        match kind {
            "t" => Some(Self::Transactional(id)),
            "c" => Some(Self::Recipient(id)),
            _ => None,
        }
    }

    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Transactional(_) => "transactional_messages",
            Self::Recipient(_) => "campaign_recipients",
        }
    }

    /// Everything of [`Message`] but the source, of the rows `m`.
    fn select(self) -> &'static str {
        match self {
            Self::Transactional(_) => {
                "SELECT m.id, m.workspace_id, m.client_id, m.lead_id, m.email, m.ses_message_id, m.template_key,
                        m.subject, m.sequence_id, NULL, NULL, NULL,
                        CASE WHEN m.envelope ->> 'tracking' = 'off' THEN 0 ELSE 1 END, m.audience_id, m.topic_id
                 FROM transactional_messages m"
            }
            Self::Recipient(_) => {
                "SELECT m.id, m.workspace_id, c.client_id, m.lead_id, m.email, m.ses_message_id, c.template_key,
                        c.subject, c.external_key, c.id, COALESCE(m.arm, c.winner), CAST(c.variants AS TEXT),
                        c.tracking, c.audience_id, c.topic_id
                 FROM campaign_recipients m
                 JOIN campaigns c ON c.workspace_id = m.workspace_id AND c.id = m.campaign_id"
            }
        }
    }

    fn with_id(self, id: i64) -> Self {
        match self {
            Self::Transactional(_) => Self::Transactional(id),
            Self::Recipient(_) => Self::Recipient(id),
        }
    }
}

/// Those of these messages whose person was erased.
pub fn erased(tx: &mut Tx<'_>, sources: &[Source]) -> Result<Vec<Source>, DatabaseError> {
    let mut gone = Vec::new();
    for kind in [Source::Transactional(0), Source::Recipient(0)] {
        let ids: Vec<i64> =
            sources.iter().filter(|one| one.table() == kind.table()).map(|one| one.id()).collect();
        if ids.is_empty() {
            continue;
        }
        let sql = format!("SELECT id FROM {} WHERE id {{among}} AND email IS NULL", kind.table());
        for row in tx.query_among(&sql, &[], Among::Ints(&ids))? {
            gone.push(kind.with_id(row.int(0)?));
        }
    }
    Ok(gone)
}

impl Message {
    /// Whichever workspace it is in: the row says so.
    pub fn find(tx: &mut Tx<'_>, source: Source) -> Result<Option<Self>, DatabaseError> {
        let sql = format!("{} WHERE m.id = $1", source.select());
        let rows = tx.query(&sql, &[Param::Int(source.id())])?;
        rows.first().map(|row| read(source, row)).transpose()
    }

    /// Whether it names anybody besides the one whom it is for: he may have got a copy.
    pub fn names_others(tx: &mut Tx<'_>, source: Source) -> Result<bool, DatabaseError> {
        let Source::Transactional(id) = source else { return Ok(false) };
        let sql = "SELECT 1 FROM message_addresses WHERE message_id = $1 LIMIT 1";
        Ok(!tx.query(sql, &[Param::Int(id)])?.is_empty())
    }

    /// Whether it names this one besides the one whom it is for. An erased person it names no more.
    pub fn names(
        tx: &mut Tx<'_>,
        source: Source,
        email: &EmailAddress,
    ) -> Result<bool, DatabaseError> {
        let Source::Transactional(id) = source else { return Ok(false) };
        let sql = "SELECT 1 FROM message_addresses WHERE message_id = $1 AND email = $2";
        Ok(!tx.query(sql, &[Param::Int(id), Param::Text(email.as_str())])?.is_empty())
    }

    /// The messages that the provider calls so, at most two: one is the answer, and two are none.
    pub fn of_provider(tx: &mut Tx<'_>, id: &str) -> Result<Vec<Self>, DatabaseError> {
        let mut found = Vec::new();
        for source in [Source::Transactional(0), Source::Recipient(0)] {
            let sql = format!("{} WHERE m.ses_message_id = $1 LIMIT 2", source.select());
            for row in tx.query(&sql, &[Param::Text(id)])? {
                found.push(read(source, &row)?);
            }
        }
        found.truncate(2);
        Ok(found)
    }
}

fn read(source: Source, row: &Row) -> Result<Message, DatabaseError> {
    let text = |column| -> Result<Option<String>, DatabaseError> {
        Ok(row.optional_text(column)?.map(ToOwned::to_owned))
    };
    let campaign = row.optional_int(9)?.map(|id| format!("campaign-{id}"));
    let (mut template_key, mut subject, arm) = (text(6)?, text(7)?, row.optional_int(10)?);
    if let (Some(arm), Some(variants)) = (arm, row.optional_text(11)?) {
        let variants: Vec<Variant> = serde_json::from_str(variants)
            .map_err(|_| DatabaseError::damaged(11, "a list of variants"))?;
        let variant = usize::try_from(arm).ok().and_then(|arm| variants.into_iter().nth(arm));
        if let Some(variant) = variant {
            subject = match &variant.template {
                // A template has a subject of its own.
                Some(_) => variant.subject,
                None => variant.subject.or(subject),
            };
            template_key = variant.template.or(template_key);
        }
    }
    Ok(Message {
        source: source.with_id(row.int(0)?),
        workspace: row.int(1)?,
        client: row.int(2)?,
        contact: row.int(3)?,
        email: text(4)?,
        provider_message_id: text(5)?,
        template_key,
        subject,
        sequence_id: text(8)?.or(campaign),
        arm,
        is_tracked: row.int(12)? != 0,
        audience: row.optional_int(13)?,
        topic: row.optional_int(14)?,
    })
}

/// What a variant says of its messages.
#[derive(serde::Deserialize)]
struct Variant {
    template: Option<String>,
    subject: Option<String>,
}

#[cfg(test)]
mod tests {
    use crate::links::Source;

    #[test]
    fn a_reference_is_read_as_it_was_written() {
        for source in [Source::Transactional(101), Source::Recipient(501)] {
            assert_eq!(Source::from_reference(&source.reference()), Some(source));
        }
        for text in ["", "t-", "t-0", "t--1", "x-1", "101", "t-1x", "c-99999999999999999999"] {
            assert_eq!(Source::from_reference(text), None, "{text:?}");
        }
    }
}
