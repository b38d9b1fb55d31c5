//! `/v1/settings/sending`: when the workspace's marketing mail waits.

use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use jiff::civil::Time;
use serde::Serialize;
use tidings_delivery::eligibility::settings::{self, Sending, Zone, cap_of, quiet_of};
use utoipa::ToSchema;

use super::V1;
use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Fields, FromFields};
use crate::problem::{Problem, ProblemBody};

#[derive(Serialize, ToSchema)]
#[schema(as = SendingSettings)]
pub(super) struct SendingBody {
    /// How many marketing mails a person gets in `frequency_cap_hours` at most
    #[schema(minimum = 1, maximum = 100)]
    frequency_cap_count: Option<u8>,
    #[schema(minimum = 1, maximum = 720)]
    frequency_cap_hours: Option<u16>,
    /// From when no marketing mail is sent, where the person is
    #[schema(value_type = Option<String>, example = "21:00", pattern = "^[0-2][0-9]:[0-5][0-9]$")]
    quiet_from: Option<String>,
    /// Until when
    #[schema(value_type = Option<String>, example = "08:00", pattern = "^[0-2][0-9]:[0-5][0-9]$")]
    quiet_until: Option<String>,
    /// For those of whom no time zone is known; UTC without one
    #[schema(example = "Europe/Berlin")]
    quiet_zone: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    updated_at: Option<Timestamp>,
}

#[derive(ToSchema)]
pub(super) struct NewSending {
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 100)]
    frequency_cap_count: (),
    /// Together with `frequency_cap_count`
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 720)]
    frequency_cap_hours: (),
    #[schema(value_type = Option<String>, example = "21:00", pattern = "^[0-2][0-9]:[0-5][0-9]$")]
    quiet_from: (),
    /// Together with `quiet_from`
    #[schema(value_type = Option<String>, example = "08:00", pattern = "^[0-2][0-9]:[0-5][0-9]$")]
    quiet_until: (),
    #[schema(value_type = Option<String>, example = "Europe/Berlin", max_length = 64)]
    quiet_zone: (),
    #[schema(ignore)]
    sending: Sending,
}

/// Show when marketing mail waits
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/settings/sending",
    tag = "Settings",
    security(("key" = [])),
    responses(
        (status = 200, description = "What is in force; without a setting nothing waits", body = SendingBody),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
) -> Result<Json<SendingBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(settings::show(&cx).await?.into()))
}

/// Set when marketing mail waits
///
/// All settings at once: what is left out no longer holds. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/settings/sending",
    tag = "Settings",
    security(("key" = [])),
    request_body = NewSending,
    responses(
        (status = 200, description = "What is in force now", body = SendingBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn put(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(new): Body<NewSending>,
) -> Result<Json<SendingBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(settings::put(&cx, new.sending).await?.into()))
}

/// A time of the day to the minute.
struct Minute(Time);

impl FromStr for Minute {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "use a time of the day such as 21:00";
        let time = text.parse::<Time>().map_err(|_| wrong)?;
        if text.len() == 5 { Ok(Self(time)) } else { Err(wrong) }
    }
}

impl FromFields for NewSending {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let count = fields.optional_integer("frequency_cap_count");
        let hours = fields.optional_integer("frequency_cap_hours");
        let from = fields.optional::<Minute>("quiet_from");
        let until = fields.optional::<Minute>("quiet_until");
        let zone = fields.optional::<Zone>("quiet_zone");
        let cap = match (count, hours) {
            (Some(count), Some(hours)) => cap_of(count, hours),
            _ => Ok(None),
        };
        let quiet = match (from, until) {
            (Some(from), Some(until)) => quiet_of(from.map(|it| it.0), until.map(|it| it.0)),
            _ => Ok(None),
        };
        let cap = cap.or_else(|error| fields.wrong("frequency_cap_count", error).ok_or(()));
        let quiet = quiet.or_else(|error| fields.wrong("quiet_from", error).ok_or(()));
        let (Ok(cap), Ok(quiet)) = (cap, quiet) else { return None };
        Some(Self {
            frequency_cap_count: (),
            frequency_cap_hours: (),
            quiet_from: (),
            quiet_until: (),
            quiet_zone: (),
            sending: Sending { cap, quiet, quiet_zone: zone?, updated_at: None },
        })
    }
}

impl From<Sending> for SendingBody {
    fn from(sending: Sending) -> Self {
        let text = |time: Time| time.strftime("%H:%M").to_string();
        Self {
            frequency_cap_count: sending.cap.map(|cap| cap.count),
            frequency_cap_hours: sending.cap.map(|cap| cap.hours),
            quiet_from: sending.quiet.map(|(from, _)| text(from)),
            quiet_until: sending.quiet.map(|(_, until)| text(until)),
            quiet_zone: sending.quiet_zone.map(|zone| zone.as_str().to_owned()),
            updated_at: sending.updated_at,
        }
    }
}
