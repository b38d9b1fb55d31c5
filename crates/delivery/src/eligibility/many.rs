//! The same question about many people at once: what a campaign asks of a page of its audience or of a batch.
//!
//! The answers are those of `check`, which reads the relations here too. Here is only how the facts come together: one
//! statement for what the relations say of all, and the items of all in as few reads as there can be.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use tidings_access::{ClientId, Cx, StorageError};
use tidings_kernel::{EmailAddress, Item};
use tidings_people::consent::{AudienceId, TopicId};
use tidings_people::suppression::{self, Gate, Loaded, Looked};
use tidings_sql::{Among, DatabaseError, Param, Row, Tx};

use super::facts::{self, Facts, Standing};
use super::rules::Cap;
use super::settings::{self, Sending};
use super::{Explanation, Kind, Question, Reason, Verdict, rules};

/// So many send logs are read at once, where there is a cap.
const AT_ONCE: usize = 16;

/// What is the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mailing {
    pub kind: Kind,
    pub client: ClientId,
    pub audience: Option<AudienceId>,
    pub topic: Option<TopicId>,
}

/// One of those it is asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct Person {
    pub email: EmailAddress,
    /// Whoever has the profile already gives it, and it is not read twice.
    pub profile: Loaded,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub email: EmailAddress,
    pub explanation: Explanation,
    /// His item PROFILE, if there is one.
    pub profile: Option<Item>,
}

/// What the relations say of all of them, read in somebody's transaction.
pub struct ManyRelations {
    /// By address. Who is not in it is nobody's.
    pub(super) facts: HashMap<String, Facts>,
    pub(super) nobody: Facts,
    pub(super) settings: Sending,
    pub(super) gate: Gate,
}

impl ManyRelations {
    /// Whether there is a contact with this address.
    pub fn knows(&self, email: &EmailAddress) -> bool {
        self.facts.contains_key(email.as_str())
    }

    /// What marketing mail has to keep to once more when it is claimed (`put_off`), if anything.
    pub fn cap(&self) -> Option<Cap> {
        self.settings.cap
    }
}

/// Whether it may go to each of them now, in their order: what `check` says of each. It is made for some hundreds at a time.
pub async fn check_all(
    cx: &Cx,
    mailing: &Mailing,
    people: Vec<Person>,
) -> Result<Vec<Answer>, StorageError> {
    let emails: Vec<EmailAddress> = people.iter().map(|person| person.email.clone()).collect();
    let (within, mailing) = (cx.clone(), *mailing);
    let read = cx.database().read(move |tx| relations_all(tx, &within, &mailing, &emails));
    check_all_with(cx, &mailing, read.await?, people).await
}

/// Who of them can never get it, as far as is known now. That somebody has had enough for a while is not asked: it would
/// cost a read of each one's send log, and has to be asked again when it goes.
pub async fn skips_all(
    cx: &Cx,
    mailing: &Mailing,
    people: Vec<Person>,
) -> Result<Vec<Option<Reason>>, StorageError> {
    let emails: Vec<EmailAddress> = people.iter().map(|person| person.email.clone()).collect();
    let (within, asked) = (cx.clone(), *mailing);
    let read = cx.database().read(move |tx| relations_all(tx, &within, &asked, &emails));
    let mut relations: ManyRelations = read.await?;
    relations.settings.cap = None;
    let answers = check_all_with(cx, mailing, relations, people).await?;
    let skip = |answer: Answer| match answer.explanation.verdict {
        Verdict::Skip(reason) => Some(reason),
        Verdict::Send | Verdict::Defer { .. } => None,
    };
    Ok(answers.into_iter().map(skip).collect())
}

/// What `check_all_with` needs, for whoever reads it together with other things.
pub fn relations_all(
    tx: &mut Tx<'_>,
    cx: &Cx,
    mailing: &Mailing,
    emails: &[EmailAddress],
) -> Result<ManyRelations, DatabaseError> {
    let nobody = Facts { double_opt_in: double_opt_in(tx, cx, mailing)?, ..Facts::default() };
    let sql = "SELECT i.value, l.unsubscribed_at, l.erased_at, l.timezone, i.validation_status, i.verified_at,
                   whole.status, whole.verified_at, whole.agreed_at, whole.unsubscribed_at,
                   part.status, part.verified_at, part.agreed_at, part.unsubscribed_at, t.status
               FROM {given}
               JOIN channel_identities i ON i.id = (SELECT one.id FROM channel_identities one
                   WHERE one.workspace_id = $1 AND one.channel = 'email' AND one.value = given.value)
               JOIN leads l ON l.id = i.lead_id
               LEFT JOIN subscriptions whole ON whole.id = (SELECT one.id FROM subscriptions one
                   WHERE one.lead_id = i.lead_id AND one.audience_id = $2 AND one.client_id IS NULL)
               LEFT JOIN subscriptions part ON part.id = (SELECT one.id FROM subscriptions one
                   WHERE one.lead_id = i.lead_id AND one.audience_id = $2 AND one.client_id = $3)
               LEFT JOIN topic_preferences t ON t.id = (SELECT one.id FROM topic_preferences one
                   WHERE one.lead_id = i.lead_id AND one.topic_id = $4)";
    let params = [
        Param::Int(cx.workspace_id().get()),
        mailing.audience.map(AudienceId::get).into(),
        Param::Int(mailing.client.get()),
        mailing.topic.map(TopicId::get).into(),
    ];
    let emails: Vec<&str> = emails.iter().map(EmailAddress::as_str).collect();
    let rows = tx.query_among(sql, &params, Among::Texts(&emails))?;
    let read = |row: &Row| Ok((row.text(0)?.to_owned(), of_row(row, nobody.double_opt_in)?));
    let facts = rows.iter().map(read).collect::<Result<_, DatabaseError>>()?;
    let (gate, settings) = (suppression::gate(tx, cx)?, settings::load(tx, cx)?);
    Ok(ManyRelations { facts, nobody, settings, gate })
}

/// The rest of `check_all`. Whoever is not among those that the relations were read for counts as nobody's address.
pub async fn check_all_with(
    cx: &Cx,
    mailing: &Mailing,
    relations: ManyRelations,
    people: Vec<Person>,
) -> Result<Vec<Answer>, StorageError> {
    let ManyRelations { facts, nobody, settings, gate } = relations;
    let policy = settings.policy();
    let people = people.into_iter().map(|person| (person.email, person.profile)).collect();
    let looked = gate.look_all(cx, people).await?;
    let cap = policy.cap.filter(|_| mailing.kind.is_marketing());
    let mut sent = logs(cx, &looked, cap).await?.into_iter();
    let mut answers = Vec::with_capacity(looked.len());
    for Looked { email, against, profile } in looked {
        let mut facts = facts.get(email.as_str()).unwrap_or(&nobody).clone();
        facts.unsubscribed_mark = against.unsubscribed;
        facts.suppressed = facts::suppressed(&against);
        facts.sent = sent.next().unwrap_or_default();
        let question = mailing.about(email);
        let explanation = rules::decide(&question, &facts, &policy, cx.now());
        answers.push(Answer { email: question.email, explanation, profile });
    }
    Ok(answers)
}

/// When each of them was sent something, if there is a cap that counts it.
async fn logs(
    cx: &Cx,
    looked: &[Looked],
    cap: Option<Cap>,
) -> Result<Vec<Vec<Timestamp>>, StorageError> {
    let Some(cap) = cap else { return Ok(Vec::new()) };
    let items = cx.items().await?;
    let log = |one: &Looked| {
        let (items, email, now) = (Arc::clone(&items), one.email.clone(), cx.now());
        async move { facts::sent(items.as_ref(), &email, cap, now).await }
    };
    let logs: Vec<_> = looked.iter().map(log).collect();
    stream::iter(logs).buffered(AT_ONCE).try_collect().await
}

impl Mailing {
    /// The question about one of them.
    pub fn about(&self, email: EmailAddress) -> Question {
        let Self { kind, client, audience, topic } = *self;
        Question { kind, email, client, audience, topic }
    }
}

impl Question {
    /// What could be asked of others, too.
    pub(super) fn mailing(&self) -> Mailing {
        let Self { kind, client, audience, topic, .. } = *self;
        Mailing { kind, client, audience, topic }
    }
}

fn double_opt_in(tx: &mut Tx<'_>, cx: &Cx, mailing: &Mailing) -> Result<bool, DatabaseError> {
    let Some(audience) = mailing.audience else { return Ok(false) };
    let sql = "SELECT double_opt_in FROM audiences WHERE workspace_id = $1 AND id = $2";
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(audience.get())];
    Ok(tx.query(sql, &params)?.first().map_or(Ok(0), |row| row.int(0))? == 1)
}

fn of_row(row: &Row, double_opt_in: bool) -> Result<Facts, DatabaseError> {
    Ok(Facts {
        known: true,
        unsubscribed_at: row.optional_time(1)?,
        erased_at: row.optional_time(2)?,
        zone: facts::zone(row.optional_text(3)?),
        invalid: row.text(4)? == "invalid",
        verified: row.optional_time(5)?.is_some(),
        audience_wide: standing(row, 6)?,
        client_part: standing(row, 10)?,
        topic_off: row.optional_text(14)? == Some("off"),
        double_opt_in,
        ..Facts::default()
    })
}

/// In four columns, if there is one.
fn standing(row: &Row, first: usize) -> Result<Option<Standing>, DatabaseError> {
    if row.optional_text(first)?.is_none() {
        return Ok(None);
    }
    Ok(Some(Standing {
        status: row.parsed(first, "the status of a subscription")?,
        verified: row.optional_time(first + 1)?.is_some(),
        agreed_at: row.optional_time(first + 2)?,
        unsubscribed_at: row.optional_time(first + 3)?,
    }))
}
