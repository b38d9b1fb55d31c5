//! What erased people had taken back, as far as it is less than everything: audiences, one client's part of an audience,
//! and topics. It is kept under the keyed hash of each of their addresses, so that it tells nobody who it was.
//!
//! Both ways are in the transaction of the relations that makes them necessary: erasing writes it down as it deletes the
//! rows, and whoever makes a contact with such an address gives the rows back before anybody can see it without them.
//! That somebody left everything, and that an address is suppressed, is an item (`suppression::memory`).

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{ClientId, Cx};
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Dialect, Param, Row, Tx};

use super::proof::{self, About, Act, Action, Line, Proof};
use super::{AudienceId, By, TopicId, rows};
use crate::contacts::ContactId;
use crate::suppression::memory::Secret;

/// What the proof says of where it came from.
const SOURCE: &str = "before erasure";

/// Something that somebody does not want, since when.
struct OptOut {
    hash: String,
    from: From,
    left_at: Timestamp,
}

enum From {
    Audience(AudienceId, Option<ClientId>),
    Topic(TopicId),
}

/// Writes down what this person does not want, for each of his addresses. What is known of an address already stays.
pub(crate) fn remember(
    tx: &mut Tx<'_>,
    contact: ContactId,
    hashes: &[String],
) -> Result<(), DatabaseError> {
    for hash in hashes {
        let params = [Param::Int(contact.get()), Param::Text(hash)];
        for sql in [
            "INSERT INTO erased_opt_outs (workspace_id, address_hash, audience_id, client_id, left_at)
             SELECT workspace_id, $2, audience_id, client_id, unsubscribed_at FROM subscriptions
             WHERE lead_id = $1 AND status = 'unsubscribed' ON CONFLICT DO NOTHING",
            "INSERT INTO erased_opt_outs (workspace_id, address_hash, topic_id, left_at)
             SELECT workspace_id, $2, topic_id, updated_at FROM topic_preferences
             WHERE lead_id = $1 AND status = 'off' ON CONFLICT DO NOTHING",
        ] {
            tx.execute(sql, &params)?;
        }
    }
    Ok(())
}

/// Gives contacts that were made right now what was remembered of their addresses. It is theirs from now on, and not
/// remembered any more: they may take it back as anybody may, and an erasure writes down what they have not.
pub(crate) fn restore(
    tx: &mut Tx<'_>,
    cx: &Cx,
    made: &[(ContactId, &EmailAddress)],
) -> Result<(), DatabaseError> {
    if made.is_empty() {
        return Ok(());
    }
    let Some(secret) = Secret::find(tx, cx)? else { return Ok(()) };
    let of_hash: HashMap<String, ContactId> =
        made.iter().map(|(contact, email)| (secret.hash(email), *contact)).collect();
    let mut found = take(tx, cx, &of_hash)?;
    found.sort_unstable_by_key(|one| one.left_at);
    for opt_out in found {
        if let Some(contact) = of_hash.get(&opt_out.hash) {
            opt_out.give_to(tx, cx, *contact)?;
        }
    }
    Ok(())
}

fn take(
    tx: &mut Tx<'_>,
    cx: &Cx,
    of_hash: &HashMap<String, ContactId>,
) -> Result<Vec<OptOut>, DatabaseError> {
    let sql = |among: &str| {
        format!(
            "DELETE FROM erased_opt_outs WHERE workspace_id = $1 AND address_hash {among}
             RETURNING address_hash, audience_id, client_id, topic_id, left_at"
        )
    };
    let workspace = Param::Int(cx.workspace_id().get());
    let rows = match tx.dialect() {
        Dialect::Sqlite => {
            let list = json!(of_hash.keys().collect::<Vec<_>>()).to_string();
            let among = "IN (SELECT value FROM json_each($2))";
            tx.query(&sql(among), &[workspace, Param::Text(&list)])?
        }
        Dialect::Postgres => {
            let list: Vec<_> = of_hash.keys().map(|hash| Some(hash.as_str())).collect();
            tx.query(&sql("= ANY($2)"), &[workspace, Param::Texts(&list)])?
        }
    };
    rows.iter().map(OptOut::read).collect()
}

impl OptOut {
    fn read(row: &Row) -> Result<Self, DatabaseError> {
        let from = match (row.optional_int(1)?, row.optional_int(3)?) {
            (Some(audience), _) => {
                From::Audience(audience.into(), row.optional_int(2)?.map(ClientId::from))
            }
            (None, Some(topic)) => From::Topic(topic.into()),
            (None, None) => return Err(DatabaseError::damaged(1, "an audience or a topic")),
        };
        Ok(Self { hash: row.text(0)?.to_owned(), from, left_at: row.time(4)? })
    }

    /// With proof, like any other change: a program that tells what it knows has made it.
    fn give_to(&self, tx: &mut Tx<'_>, cx: &Cx, contact: ContactId) -> Result<(), DatabaseError> {
        let source: Line = SOURCE.parse().expect("it is one line");
        let act = Act { by: By::Import, source, reason: None, proof: Proof::default() };
        let change = match self.from {
            From::Audience(audience, client) => {
                let place = (audience, client);
                let mut subscription = rows::insert(tx, cx, contact, place, &act.source)?;
                subscription.leave(self.left_at, None, cx.now());
                rows::save(tx, cx, &subscription)?;
                (Action::Unsubscribed, subscription.about())
            }
            From::Topic(topic) => {
                let sql = "INSERT INTO topic_preferences
                               (workspace_id, lead_id, topic_id, status, created_at, updated_at)
                           VALUES ($1, $2, $3, 'off', $4, $4)
                           ON CONFLICT (lead_id, topic_id) DO NOTHING";
                let params = [
                    Param::Int(cx.workspace_id().get()),
                    Param::Int(contact.get()),
                    Param::Int(topic.get()),
                    Param::Int(self.left_at.as_millisecond()),
                ];
                tx.execute(sql, &params)?;
                (Action::TopicOff, About { topic: Some(topic), ..About::default() })
            }
        };
        proof::write(tx, cx, contact, change, &act)
    }
}
