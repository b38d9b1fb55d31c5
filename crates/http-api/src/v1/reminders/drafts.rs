//! `/v1/reminders`: drafts, from the first word to the decision.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use tidings_reminders as reminders;
use tidings_reminders::{CustomerId, Status};

use super::super::auth::{Needs, Read, Refusals, RemindersApprove, RemindersDraft};
use super::super::input::{Body, Fields, FromFields, Listing, Params};
use super::super::{ListBody, V1};
use super::read::{
    ApproveBody, ApproveManyBody, Approving, ApprovingMany, EditBody, Editing, ManyBody, NewBody,
    NewOverdue, NewReminder, NewReminders, OverdueBody, RejectBody, Rejecting,
};
use super::shown::{ApprovedBody, BatchBody, BulkBody, DraftBody};
use super::{After, draft_id, listing, page};
use crate::problem::{Problem, ProblemBody};

/// Which drafts are wanted.
pub(in crate::v1) struct Asked {
    status: Option<Status>,
    customer: Option<CustomerId>,
    listing: Listing<After>,
}

impl FromFields for Asked {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let (status, customer) = (fields.optional("status"), fields.optional("customer_id"));
        let listing = Listing::from_fields(fields);
        let (status, customer) = (status?, customer?);
        if status.is_some() && customer.is_some() {
            return fields.wrong("status", "use status or customer_id");
        }
        if status == Some(Status::Sent) {
            return fields.wrong("status", "what was sent is under /v1/reminders/sent");
        }
        Some(Self { status, customer, listing: listing? })
    }
}

/// List drafts
///
/// Those that wait for an approval, the oldest first; or those of another status, or all of a customer, the newest
/// first. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminders",
    tag = "Reminders",
    security(("key" = [])),
    params(("status" = Option<String>, Query, description = "`draft` by default; approved, sending, failed, rejected, expired, superseded or withdrawn"),
        ("customer_id" = Option<String>, Query),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query)),
    responses(
        (status = 200, description = "A page of drafts", body = ListBody<DraftBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(asked): Params<Asked>,
) -> Result<Json<ListBody<DraftBody>>, Problem> {
    let cx = v1.cx(&who);
    let part = listing(asked.listing);
    let found = match (asked.customer, asked.status) {
        (Some(customer), _) => reminders::drafts_of(&cx, &customer, part).await?,
        (None, Some(status)) => reminders::by_status(&cx, status, part).await?,
        (None, None) => reminders::pending(&cx, part).await?,
    };
    Ok(page(found))
}

/// Draft a reminder
///
/// It waits for somebody to approve it, and an unapproved one of the same customer is superseded. Where the rules
/// do not allow it yet, the problem says from when on (`allowed_from`). With the same `idempotency_key` the answer
/// is 200 and the draft that there is. Needs the scope `reminders:draft`.
#[utoipa::path(
    post,
    path = "/v1/reminders",
    tag = "Reminders",
    security(("key" = [])),
    request_body = NewBody,
    responses(
        (status = 201, description = "The draft", body = DraftBody),
        (status = 409, description = "Too early, paid, suppressed, or one is on its way; `reason` says which", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn create(
    State(v1): State<V1>,
    who: Needs<RemindersDraft>,
    Body(NewReminder(new)): Body<NewReminder>,
) -> Result<(StatusCode, Json<DraftBody>), Problem> {
    let cx = v1.cx(&who);
    let made = reminders::draft(&cx, new).await?;
    let status = if made.replayed { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(made.draft.into())))
}

/// Draft many reminders
///
/// Up to 500. Who is left out is named, and why; a row that is wrong is left out as `invalid`. With idempotency keys the same list can be sent again. Needs the
/// scope `reminders:draft`.
#[utoipa::path(
    post,
    path = "/v1/reminders/bulk",
    tag = "Reminders",
    security(("key" = [])),
    request_body = ManyBody,
    responses(
        (status = 200, description = "What was drafted, and who was left out", body = BulkBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn create_many(
    State(v1): State<V1>,
    who: Needs<RemindersDraft>,
    Body(NewReminders(rows)): Body<NewReminders>,
) -> Result<Json<BulkBody>, Problem> {
    let cx = v1.cx(&who);
    let (rows, good) = rows.taken();
    // Of none that can be read there is nothing to draft.
    let report = match good.is_empty() && !rows.unread.is_empty() {
        true => reminders::BulkReport::default(),
        false => reminders::draft_many(&cx, good).await?,
    };
    Ok(Json((report, rows).into()))
}

/// Say who owes what
///
/// Without a draft: the escalation policy drafts later, if it is on. Up to 500 customers. Needs the scope
/// `reminders:draft`.
#[utoipa::path(
    post,
    path = "/v1/reminders/overdue",
    tag = "Reminders",
    security(("key" = [])),
    request_body = OverdueBody,
    responses(
        (status = 200, description = "Who was left out", body = BulkBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn note_overdue(
    State(v1): State<V1>,
    who: Needs<RemindersDraft>,
    Body(NewOverdue(rows)): Body<NewOverdue>,
) -> Result<Json<BulkBody>, Problem> {
    let cx = v1.cx(&who);
    let (rows, good) = rows.taken();
    let report = match good.is_empty() && !rows.unread.is_empty() {
        true => reminders::BulkReport::default(),
        false => reminders::note_overdue(&cx, good).await?,
    };
    Ok(Json((report, rows).into()))
}

/// Show a draft
///
/// Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/reminders/{reminder}",
    tag = "Reminders",
    security(("key" = [])),
    params(("reminder" = String, Path)),
    responses(
        (status = 200, description = "The draft", body = DraftBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(id): Path<String>,
) -> Result<Json<DraftBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(reminders::get(&cx, &draft_id(&id)?).await?.into()))
}

/// Change a draft
///
/// It is the next edition, and every approval of the one before is gone. Needs the scope `reminders:draft`.
#[utoipa::path(
    patch,
    path = "/v1/reminders/{reminder}",
    tag = "Reminders",
    security(("key" = [])),
    params(("reminder" = String, Path)),
    request_body = EditBody,
    responses(
        (status = 200, description = "The draft", body = DraftBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is on its way, decided, or somebody else has edited it", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn edit(
    State(v1): State<V1>,
    who: Needs<RemindersDraft>,
    Path(id): Path<String>,
    Body(Editing(edit)): Body<Editing>,
) -> Result<Json<DraftBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(reminders::edit(&cx, &draft_id(&id)?, edit).await?.into()))
}

/// Approve a draft
///
/// Exactly what was seen: name its `hash` or `edition`. Once enough people have, it is sent, if the rules still
/// allow it then. The same person again changes nothing. Needs the scope `reminders:approve`.
#[utoipa::path(
    post,
    path = "/v1/reminders/{reminder}/approve",
    tag = "Reminders",
    security(("key" = [])),
    params(("reminder" = String, Path)),
    request_body = ApproveBody,
    responses(
        (status = 200, description = "The draft, and how many approvals are missing", body = ApprovedBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It was edited since, is expired or decided", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn approve(
    State(v1): State<V1>,
    who: Needs<RemindersApprove>,
    Path(id): Path<String>,
    Body(asked): Body<Approving>,
) -> Result<Json<ApprovedBody>, Problem> {
    let cx = v1.cx(&who);
    let approved = reminders::approve(&cx, asked.of(draft_id(&id)?)).await?;
    Ok(Json(approved.into()))
}

/// Approve many drafts
///
/// All of one template and version, within the limits of the settings. If one of them cannot be approved, none is.
/// Needs the scope `reminders:approve`.
#[utoipa::path(
    post,
    path = "/v1/reminders/approve",
    tag = "Reminders",
    security(("key" = [])),
    request_body = ApproveManyBody,
    responses(
        (status = 200, description = "What became of each", body = BatchBody),
        (status = 409, description = "They are not alike, too much, or one cannot be approved", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn approve_many(
    State(v1): State<V1>,
    who: Needs<RemindersApprove>,
    Body(ApprovingMany(asked)): Body<ApprovingMany>,
) -> Result<Json<BatchBody>, Problem> {
    let cx = v1.cx(&who);
    Ok(Json(reminders::approve_many(&cx, asked).await?.into()))
}

/// Reject a draft
///
/// Needs the scope `reminders:approve`.
#[utoipa::path(
    post,
    path = "/v1/reminders/{reminder}/reject",
    tag = "Reminders",
    security(("key" = [])),
    params(("reminder" = String, Path)),
    request_body = RejectBody,
    responses(
        (status = 200, description = "The draft", body = DraftBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is on its way or decided", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn reject(
    State(v1): State<V1>,
    who: Needs<RemindersApprove>,
    Path(id): Path<String>,
    Body(asked): Body<Rejecting>,
) -> Result<Json<DraftBody>, Problem> {
    let cx = v1.cx(&who);
    let rejected = reminders::reject(&cx, asked.of(draft_id(&id)?)).await?;
    Ok(Json(rejected.into()))
}
