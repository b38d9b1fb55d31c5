//! When a workspace's marketing mail waits: how many a person gets in how many hours, and in which hours none.

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tidings_access::{Change, Cx};
use tidings_sql::{DatabaseError, Param, Tx};

use super::rules::{Cap, Policy, Quiet};

pub use tidings_people::contacts::Zone;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sending {
    pub cap: Option<Cap>,
    /// From when to when. It may go over midnight.
    pub quiet: Option<(Time, Time)>,
    /// For those of whom no time zone is known; UTC without one.
    pub quiet_zone: Option<Zone>,
    /// `None` if nobody ever set anything.
    pub updated_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error(
        "use a frequency_cap_count from 1 to 100 together with frequency_cap_hours from 1 to 720"
    )]
    Cap,
    #[error("use quiet_from and quiet_until together, and not the same time for both")]
    Quiet,
}

/// What is in force. Without any setting nothing waits.
pub async fn show(cx: &Cx) -> Result<Sending, DatabaseError> {
    let within = cx.clone();
    cx.database().read(move |tx| load(tx, &within)).await
}

/// Puts these settings in the place of those before. `updated_at` is not looked at.
pub async fn put(cx: &Cx, sending: Sending) -> Result<Sending, DatabaseError> {
    let sql = "INSERT INTO workspace_settings (workspace_id, frequency_cap_count, frequency_cap_hours,
                   quiet_from, quiet_until, quiet_zone, updated_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7)
               ON CONFLICT (workspace_id) DO UPDATE SET frequency_cap_count = $2,
                   frequency_cap_hours = $3, quiet_from = $4, quiet_until = $5, quiet_zone = $6, updated_at = $7";
    let within = cx.clone();
    let put = cx.database().write(move |tx| {
        let before = load(tx, &within)?;
        let same = Sending { updated_at: before.updated_at, ..sending.clone() } == before;
        if same && before.updated_at.is_some() {
            return Ok(before);
        }
        let number = |value: Option<i64>| value.map_or(Param::Null, Param::Int);
        let params = [
            Param::Int(within.workspace_id().get()),
            number(sending.cap.map(|cap| cap.count.into())),
            number(sending.cap.map(|cap| cap.hours.into())),
            number(sending.quiet.map(|(from, _)| minutes(from))),
            number(sending.quiet.map(|(_, until)| minutes(until))),
            sending.quiet_zone.as_ref().map_or(Param::Null, |zone| Param::Text(zone.as_str())),
            Param::Int(within.now().as_millisecond()),
        ];
        tx.execute(sql, &params)?;
        let change = Change::new("settings.sending", "workspace", within.workspace())
            .between(told(&before), told(&sending));
        within.record_change(tx, &change)?;
        Ok(Sending { updated_at: Some(within.now()), ..sending.clone() })
    });
    put.await
}

/// As the audit log has it.
fn told(sending: &Sending) -> Value {
    json!({
        "frequency_cap_count": sending.cap.map(|cap| cap.count),
        "frequency_cap_hours": sending.cap.map(|cap| cap.hours),
        "quiet_from": sending.quiet.map(|(from, _)| from.to_string()),
        "quiet_until": sending.quiet.map(|(_, until)| until.to_string()),
        "quiet_zone": sending.quiet_zone.as_ref().map(Zone::as_str),
    })
}

pub(super) fn load(tx: &mut Tx<'_>, cx: &Cx) -> Result<Sending, DatabaseError> {
    let sql = "SELECT frequency_cap_count, frequency_cap_hours, quiet_from, quiet_until, quiet_zone, updated_at
               FROM workspace_settings WHERE workspace_id = $1";
    let rows = tx.query(sql, &[Param::Int(cx.workspace_id().get())])?;
    let Some(row) = rows.first() else { return Ok(Sending::default()) };
    let damaged = |_| DatabaseError::damaged(0, "settings");
    let cap = cap_of(row.optional_int(0)?, row.optional_int(1)?).map_err(damaged)?;
    let time = |column| {
        let at = row.optional_int(column)?.map(|minutes| at_minute(minutes).ok_or(Wrong::Quiet));
        at.transpose().map_err(damaged)
    };
    let zone = match row.optional_text(4)? {
        Some(_) => Some(row.parsed(4, "a time zone")?),
        None => None,
    };
    Ok(Sending {
        cap,
        quiet: quiet_of(time(2)?, time(3)?).map_err(damaged)?,
        quiet_zone: zone,
        updated_at: row.optional_time(5)?,
    })
}

/// A cap out of what may be left out, both together.
pub fn cap_of(count: Option<i64>, hours: Option<i64>) -> Result<Option<Cap>, Wrong> {
    match (count, hours) {
        (None, None) => Ok(None),
        (Some(count @ 1..=100), Some(hours @ 1..=720)) => {
            let count = u8::try_from(count).map_err(|_| Wrong::Cap)?;
            Ok(Some(Cap { count, hours: u16::try_from(hours).map_err(|_| Wrong::Cap)? }))
        }
        _ => Err(Wrong::Cap),
    }
}

/// Quiet hours out of what may be left out, both together.
pub fn quiet_of(from: Option<Time>, until: Option<Time>) -> Result<Option<(Time, Time)>, Wrong> {
    match (from, until) {
        (None, None) => Ok(None),
        (Some(from), Some(until)) if from != until => Ok(Some((from, until))),
        _ => Err(Wrong::Quiet),
    }
}

fn minutes(time: Time) -> i64 {
    i64::from(time.hour()) * 60 + i64::from(time.minute())
}

fn at_minute(minutes: i64) -> Option<Time> {
    let (hour, minute) = (i8::try_from(minutes / 60).ok()?, i8::try_from(minutes % 60).ok()?);
    Time::new(hour, minute, 0, 0).ok()
}

impl Sending {
    pub(super) fn policy(&self) -> Policy {
        let zone = self.quiet_zone.as_ref().and_then(|zone| TimeZone::get(zone.as_str()).ok());
        let zone = zone.unwrap_or(TimeZone::UTC);
        let quiet = self.quiet.map(|(from, until)| Quiet { from, until, zone });
        Policy { cap: self.cap, quiet }
    }
}
