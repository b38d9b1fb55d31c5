//! What was sent, to whom what may be sent, money that came in, and the numbers.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use tidings_reminders as reminders;
use tidings_reminders::Kind;

use super::super::auth::{Needs, Read, Refusals, RemindersDraft};
use super::super::input::{Body, Fields, FromFields, Listing, Params};
use super::super::{ListBody, V1};
use super::read::{Paying, PaymentBody};
use super::shown::{AllowedBody, OutstandingBody, PaidBody, ReportBody, SentBody};
use super::{After, customer_id, listing, page};
use crate::problem::{Problem, ProblemBody};

/// A time from here to there, both included.
pub(in crate::v1) struct Between {
    from: Timestamp,
    to: Timestamp,
}

pub(in crate::v1) struct SentAsked {
    between: Between,
    listing: Listing<After>,
}

pub(in crate::v1) struct RecentAsked {
    kind: Kind,
    since: Timestamp,
}

impl FromFields for Between {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (from, to) = (fields.optional_time("from"), fields.optional_time("to"));
        match (from?, to?) {
            (Some(from), Some(to)) => Some(Self { from, to }),
            _ => fields.wrong("from", "use from and to"),
        }
    }
}

impl FromFields for SentAsked {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (between, listing) = (Between::from_fields(fields), Listing::from_fields(fields));
        Some(Self { between: between?, listing: listing? })
    }
}

impl FromFields for RecentAsked {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (kind, since) = (fields.required("reminder_type"), fields.optional_time("since"));
        let since = since?;
        let Some(since) = since else { return fields.wrong("since", "this is required") };
        Some(Self { kind: kind?, since })
    }
}

/// List what was sent
///
/// From one time to another, both included. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminders/sent",
    tag = "Reminders",
    security(("key" = [])),
    params(("from" = String, Query, format = DateTime),
        ("to" = String, Query, format = DateTime),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query)),
    responses(
        (status = 200, description = "A page of reminders", body = ListBody<SentBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn sent(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(asked): Params<SentAsked>,
) -> Result<Json<ListBody<SentBody>>, Problem> {
    let cx = v1.cx(&who);
    let Between { from, to } = asked.between;
    Ok(page(reminders::sent_between(&cx, from, to, listing(asked.listing)).await?))
}

/// Count reminders and money
///
/// What is owed is of now; all else is of the time, which reaches back 30 days for drafts. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminders/report",
    tag = "Reminders",
    security(("key" = [])),
    params(("from" = String, Query, format = DateTime),
        ("to" = String, Query, format = DateTime)),
    responses(
        (status = 200, description = "The numbers", body = ReportBody),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn report(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(asked): Params<Between>,
) -> Result<Json<ReportBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(reminders::report(&cx, asked.from, asked.to).await?.into()))
}

/// List who owes what
///
/// The longest first, as far as was told. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminders/outstanding",
    tag = "Reminders",
    security(("key" = [])),
    params(("limit" = Option<i64>, Query, minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query)),
    responses(
        (status = 200, description = "A page of customers", body = ListBody<OutstandingBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn outstanding(
    State(v1): State<V1>,
    who: Needs<Read>,
    asked: Listing<After>,
) -> Result<Json<ListBody<OutstandingBody>>, Problem> {
    let cx = v1.cx(&who);
    Ok(page(reminders::outstanding(&cx, listing(asked)).await?))
}

/// Say that something was paid
///
/// The open draft that asks for it is withdrawn, approved or not. Told twice, it counts once. Needs the scope
/// `reminders:draft`.
#[utoipa::path(
    post,
    path = "/v1/reminders/payments",
    tag = "Reminders",
    security(("key" = [])),
    request_body = PaymentBody,
    responses(
        (status = 200, description = "The payment", body = PaidBody),
        (status = 404, description = "Nobody is known to owe the invoice", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn pay(
    State(v1): State<V1>,
    who: Needs<RemindersDraft>,
    Body(Paying(payment)): Body<Paying>,
) -> Result<Json<PaidBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(reminders::paid(&cx, payment).await?.into()))
}

/// List what was sent to a customer
///
/// The newest first. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminders/customers/{customer}/history",
    tag = "Reminders",
    security(("key" = [])),
    params(("customer" = String, Path),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query)),
    responses(
        (status = 200, description = "A page of reminders", body = ListBody<SentBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn history(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(customer): Path<String>,
    asked: Listing<After>,
) -> Result<Json<ListBody<SentBody>>, Problem> {
    let cx = v1.cx(&who);
    let customer = customer_id(&customer)?;
    Ok(page(reminders::history(&cx, &customer, listing(asked)).await?))
}

/// List what of one type was sent to a customer
///
/// Since a time, the newest first, at most 100. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminders/customers/{customer}/recent",
    tag = "Reminders",
    security(("key" = [])),
    params(("customer" = String, Path),
        ("reminder_type" = String, Query),
        ("since" = String, Query, format = DateTime)),
    responses(
        (status = 200, description = "The reminders", body = ListBody<SentBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn recent(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(customer): Path<String>,
    Params(asked): Params<RecentAsked>,
) -> Result<Json<ListBody<SentBody>>, Problem> {
    let cx = v1.cx(&who);
    let customer = customer_id(&customer)?;
    let found = reminders::recent(&cx, &customer, asked.kind, asked.since).await?;
    Ok(page(reminders::Page { items: found, next: None }))
}

/// Say which reminders a customer may get
///
/// For each type: now, from when on, or what has to be sent before. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminders/customers/{customer}/allowed",
    tag = "Reminders",
    security(("key" = [])),
    params(("customer" = String, Path)),
    responses(
        (status = 200, description = "Each type", body = ListBody<AllowedBody>),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn allowed(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(customer): Path<String>,
) -> Result<Json<ListBody<AllowedBody>>, Problem> {
    let cx = v1.cx(&who);
    let found = reminders::allowed(&cx, &customer_id(&customer)?).await?;
    Ok(page(reminders::Page { items: found, next: None }))
}

/// List what a customer has paid
///
/// As far as was told. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminders/customers/{customer}/payments",
    tag = "Reminders",
    security(("key" = [])),
    params(("customer" = String, Path),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query)),
    responses(
        (status = 200, description = "A page of payments", body = ListBody<PaidBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn payments(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(customer): Path<String>,
    asked: Listing<After>,
) -> Result<Json<ListBody<PaidBody>>, Problem> {
    let cx = v1.cx(&who);
    let customer = customer_id(&customer)?;
    Ok(page(reminders::payments(&cx, &customer, listing(asked)).await?))
}
