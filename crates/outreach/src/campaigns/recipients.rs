//! The recipients of a campaign one by one: a list with filters, and the same as a file.
//!
//! Both go by the id, so a page costs the same wherever it is, and what is exported is never held as a whole.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Cx, Limit, Page};
use tidings_kernel::EmailAddress;
use tidings_people::contacts::{ContactId, with_person};
use tidings_people::export::guarded;
use tidings_people::keys::time;
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::draft::Find;
use super::results::LookError;
use super::{Campaign, RecipientId, store};

/// So many lines of a file are made at once.
const LINES: i64 = 500;

/// Somebody a campaign means, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    pub id: RecipientId,
    pub contact: ContactId,
    /// `None` once the person is erased.
    pub email: Option<String>,
    pub state: State,
    pub skip_reason: Option<String>,
    /// The kind of failure.
    pub fail_reason: Option<String>,
    /// What was said of the last failure.
    pub last_error: Option<String>,
    pub attempts: i64,
    /// How often the provider said "not now".
    pub refusals: i64,
    /// The batch that he is in: `campaign-55-batch-0001`.
    pub batch: Option<String>,
    /// The place of the variant that he gets, if that is known.
    pub arm: Option<i64>,
    pub provider: Option<String>,
    pub provider_message_id: Option<String>,
    pub opens: i64,
    pub clicks: i64,
    pub times: Times,
}

/// When it happened for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub due_at: Option<Timestamp>,
    pub handed_at: Option<Timestamp>,
    pub sent_at: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    pub bounced_at: Option<Timestamp>,
    pub complained_at: Option<Timestamp>,
    pub opened_at: Option<Timestamp>,
    pub clicked_at: Option<Timestamp>,
    pub unsubscribed_at: Option<Timestamp>,
}

/// Where a recipient is: the last that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Pending,
    /// Somebody is about to send it.
    Claimed,
    Sent,
    Failed,
    Skipped,
    /// It was handed over, and nobody knows whether it was taken.
    Uncertain,
    Delivered,
    Bounced,
    Complained,
}

/// What happened to a message, whatever happened after it. Each has an index of those it happened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    Opened,
    Clicked,
    Bounced,
    Complained,
    Unsubscribed,
}

/// Which of them. What is not said does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub state: Option<State>,
    pub skip_reason: Option<String>,
    pub fail_reason: Option<String>,
    /// The place of a variant; those who get it because it did best are among them.
    pub arm: Option<i64>,
    /// All of these.
    pub happened: Vec<Happened>,
    /// Whoever has this address, also if he was written to at another one.
    pub email: Option<EmailAddress>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use one of {}", State::ALL.map(State::as_str).join(", "))]
pub struct StateError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use one of {}", Happened::ALL.map(Happened::as_str).join(", "))]
pub struct HappenedError;

/// A page of the recipients, in the order of their ids.
pub async fn list(
    cx: &Cx,
    find: Find,
    filter: Filter,
    (after, limit): (Option<RecipientId>, Limit),
) -> Result<Page<Recipient, RecipientId>, LookError> {
    let after = after.map_or(0, RecipientId::get);
    let (_, found) = read(cx, find, filter, (after, limit.and_one())).await?;
    Ok(Page::cut(found, limit, |one| one.id))
}

async fn read(
    cx: &Cx,
    find: Find,
    filter: Filter,
    (after, most): (i64, i64),
) -> Result<(Campaign, Vec<Recipient>), LookError> {
    let within = cx.clone();
    let read = cx.database().read(move |tx| {
        let found = store::glance(tx, &within, find.id)?.filter(|one| find.sees(one));
        let Some(campaign) = found else { return Ok(None) };
        let rows = select(tx, &within, &campaign, &filter, (after, most))?;
        Ok::<_, DatabaseError>(Some((campaign, rows)))
    });
    read.await?.ok_or(LookError::Missing(find.id))
}

const COLUMNS: &str = "r.id, r.lead_id, r.email, r.status, r.skip_reason, r.fail_reason, r.last_error, r.attempts,
    r.refusals, r.arm, r.provider, r.ses_message_id, r.open_count, r.click_count, r.created_at, r.updated_at, r.due_at,
    r.handed_at, r.sent_at, r.delivered_at, r.bounced_at, r.complained_at, r.first_opened_at, r.first_clicked_at,
    r.unsubscribed_at, r.batch_id";

/// In the order of their ids, after one of them.
pub(super) fn select(
    tx: &mut Tx<'_>,
    cx: &Cx,
    campaign: &Campaign,
    filter: &Filter,
    (after, most): (i64, i64),
) -> Result<Vec<Recipient>, DatabaseError> {
    let places = 0..campaign.variants.len() as i64;
    if filter.arm.is_some_and(|arm| !places.contains(&arm)) {
        // Nobody has it, and nobody has to be looked at for that.
        return Ok(Vec::new());
    }
    // One person has few rows: they are found by him, and not by going through all in the order of the ids.
    let id = if filter.email.is_some() { "r.id + 0" } else { "r.id" };
    let mut asked = Asked {
        person: String::new(),
        clauses: format!("r.workspace_id = $1 AND r.campaign_id = $2 AND {id} > $3"),
        params: vec![
            Param::Int(cx.workspace_id().get()),
            Param::Int(campaign.id.get()),
            Param::Int(after),
            Param::Int(most),
        ],
    };
    asked.filter(filter, campaign.progress.winner);
    let Asked { person, clauses, params } = asked;
    let sql = format!(
        "{person} SELECT {COLUMNS} FROM campaign_recipients r WHERE {clauses} ORDER BY {id} LIMIT $4"
    );
    tx.query(&sql, &params)?.iter().map(|row| recipient(row, campaign)).collect()
}

/// A statement that grows with what is asked.
struct Asked<'a> {
    person: String,
    clauses: String,
    params: Vec<Param<'a>>,
}

impl<'a> Asked<'a> {
    fn filter(&mut self, filter: &'a Filter, winner: Option<i64>) {
        match filter.state {
            Some(state) => self.and(&format!("r.status = '{state}'")),
            // A reason belongs to one state, and whoever is in that is found quickly.
            None if filter.skip_reason.is_some() => self.and("r.status = 'skipped'"),
            None if filter.fail_reason.is_some() => self.and("r.status = 'failed'"),
            None => {}
        }
        if let Some(reason) = &filter.skip_reason {
            let place = self.place(Param::Text(reason));
            self.and(&format!("r.skip_reason = {place}"));
        }
        if let Some(reason) = &filter.fail_reason {
            let place = self.place(Param::Text(reason));
            self.and(&format!("r.fail_reason = {place}"));
        }
        if let Some(arm) = filter.arm {
            // Who was not part of a test has no arm of his own.
            let or_rest = if winner == Some(arm) { " OR r.arm IS NULL" } else { "" };
            let place = self.place(Param::Int(arm));
            self.and(&format!("(r.arm = {place}{or_rest})"));
        }
        for happened in &filter.happened {
            self.and(&format!("r.{} IS NOT NULL", happened.column()));
        }
        if let Some(email) = &filter.email {
            let place = self.place(Param::Text(email.as_str()));
            self.person = with_person(&place);
            self.and("r.lead_id IN (SELECT id FROM person)");
        }
    }

    fn and(&mut self, clause: &str) {
        self.clauses += " AND ";
        self.clauses += clause;
    }

    fn place(&mut self, param: Param<'a>) -> String {
        self.params.push(param);
        format!("${}", self.params.len())
    }
}

fn recipient(row: &Row, campaign: &Campaign) -> Result<Recipient, DatabaseError> {
    let text = |column| Ok::<_, DatabaseError>(row.optional_text(column)?.map(ToOwned::to_owned));
    Ok(Recipient {
        id: row.int(0)?.into(),
        contact: row.int(1)?.into(),
        email: text(2)?,
        state: row.parsed(3, "a state")?,
        skip_reason: text(4)?,
        fail_reason: text(5)?,
        last_error: text(6)?,
        attempts: row.int(7)?,
        refusals: row.int(8)?,
        batch: text(25)?,
        arm: campaign.arm(row.optional_int(9)?),
        provider: text(10)?,
        provider_message_id: text(11)?,
        opens: row.int(12)?,
        clicks: row.int(13)?,
        times: Times {
            created_at: row.time(14)?,
            updated_at: row.time(15)?,
            due_at: row.optional_time(16)?,
            handed_at: row.optional_time(17)?,
            sent_at: row.optional_time(18)?,
            delivered_at: row.optional_time(19)?,
            bounced_at: row.optional_time(20)?,
            complained_at: row.optional_time(21)?,
            opened_at: row.optional_time(22)?,
            clicked_at: row.optional_time(23)?,
            unsubscribed_at: row.optional_time(24)?,
        },
    })
}

/// The recipients as a file, a piece at a time. Whoever changes while it runs is in it as he was when his piece was made.
pub struct Export {
    cx: Cx,
    find: Find,
    filter: Filter,
    state: Progress,
    /// How many recipients it has given.
    pub count: u64,
}

enum Progress {
    Begin,
    After(i64),
    Over,
}

/// The columns of the file, in their order.
pub const EXPORTED: [&str; 23] = [
    "id",
    "contact_id",
    "email",
    "status",
    "skip_reason",
    "fail_reason",
    "last_error",
    "attempts",
    "variant",
    "provider",
    "provider_message_id",
    "open_count",
    "click_count",
    "due_at",
    "handed_at",
    "sent_at",
    "delivered_at",
    "bounced_at",
    "complained_at",
    "first_opened_at",
    "first_clicked_at",
    "unsubscribed_at",
    "updated_at",
];

impl Export {
    pub fn new(cx: Cx, find: Find, filter: Filter) -> Self {
        Self { cx, find, filter, state: Progress::Begin, count: 0 }
    }

    /// The next piece of the file; `None` at its end. The first tells whether there is such a campaign.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, LookError> {
        let (after, first) = match self.state {
            Progress::Begin => (0, true),
            Progress::After(after) => (after, false),
            Progress::Over => return Ok(None),
        };
        let (campaign, found) =
            read(&self.cx, self.find, self.filter.clone(), (after, LINES)).await?;
        self.count += found.len() as u64;
        self.state = match found.last() {
            Some(last) if found.len() as i64 == LINES => Progress::After(last.id.get()),
            _ => Progress::Over,
        };
        Ok(Some(piece(&campaign, &found, first)))
    }
}

fn piece(campaign: &Campaign, found: &[Recipient], first: bool) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    let written = "memory takes everything that is written to it";
    if first {
        writer.write_record(EXPORTED).expect(written);
    }
    for one in found {
        writer.write_record(cells(campaign, one)).expect(written);
    }
    writer.into_inner().expect(written)
}

fn cells(campaign: &Campaign, one: &Recipient) -> [String; 23] {
    let text = |text: &Option<String>| text.as_deref().map(guarded).unwrap_or_default();
    let at = |at: Option<Timestamp>| at.map(time).unwrap_or_default();
    let place = one.arm.and_then(|arm| usize::try_from(arm).ok());
    let variant = place.and_then(|place| campaign.variants.get(place));
    let times = &one.times;
    [
        one.id.to_string(),
        one.contact.to_string(),
        text(&one.email),
        one.state.to_string(),
        text(&one.skip_reason),
        text(&one.fail_reason),
        text(&one.last_error),
        one.attempts.to_string(),
        variant.map(|variant| guarded(&variant.name)).unwrap_or_default(),
        text(&one.provider),
        text(&one.provider_message_id),
        one.opens.to_string(),
        one.clicks.to_string(),
        at(times.due_at),
        at(times.handed_at),
        at(times.sent_at),
        at(times.delivered_at),
        at(times.bounced_at),
        at(times.complained_at),
        at(times.opened_at),
        at(times.clicked_at),
        at(times.unsubscribed_at),
        time(times.updated_at),
    ]
}

impl State {
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Claimed,
        Self::Sent,
        Self::Failed,
        Self::Skipped,
        Self::Uncertain,
        Self::Delivered,
        Self::Bounced,
        Self::Complained,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Claimed => "claimed",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Uncertain => "uncertain",
            Self::Delivered => "delivered",
            Self::Bounced => "bounced",
            Self::Complained => "complained",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = StateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(StateError)
    }
}

impl Happened {
    pub const ALL: [Self; 5] =
        [Self::Opened, Self::Clicked, Self::Bounced, Self::Complained, Self::Unsubscribed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Clicked => "clicked",
            Self::Bounced => "bounced",
            Self::Complained => "complained",
            Self::Unsubscribed => "unsubscribed",
        }
    }

    fn column(self) -> &'static str {
        match self {
            Self::Opened => "first_opened_at",
            Self::Clicked => "first_clicked_at",
            Self::Bounced => "bounced_at",
            Self::Complained => "complained_at",
            Self::Unsubscribed => "unsubscribed_at",
        }
    }
}

impl FromStr for Happened {
    type Err = HappenedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|one| one.as_str() == text).ok_or(HappenedError)
    }
}
