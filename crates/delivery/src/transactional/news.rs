//! What others are told of a transactional message (`ledger::news`).

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_sql::{DatabaseError, Tx};
use tidings_webhooks::announce;

use super::letter::source;
use super::store::Sendable;
use crate::ledger::news::announcement;
pub(super) use crate::ledger::news::{About, News};

pub(super) fn tell(
    cx: &Cx,
    tx: &mut Tx<'_>,
    row: &Sendable,
    news: &News<'_>,
    at: Timestamp,
) -> Result<(), DatabaseError> {
    let about = About {
        source: source(row),
        client: row.client.get(),
        contact: row.contact,
        email: row.email.as_deref(),
        template_key: row.template.as_ref().map(|(key, _)| key.as_str()),
        campaign: None,
        sequence: row.purpose.sequence.as_deref(),
    };
    tell_about(cx, tx, &about, news, at)
}

pub(super) fn tell_about(
    cx: &Cx,
    tx: &mut Tx<'_>,
    about: &About<'_>,
    news: &News<'_>,
    at: Timestamp,
) -> Result<(), DatabaseError> {
    announce(cx, tx, &announcement(about, news, at))
}
