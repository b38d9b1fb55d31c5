//! `/v1/campaigns`: one message to many. Writing them down and looking at them is here, looking ahead in
//! `previews`, what is done with them in `control`, whom they went to in `recipients`, and what came of it in `results`.

pub(super) mod broadcasts;
pub(super) mod control;
mod new;
pub(super) mod previews;
pub(super) mod recipients;
pub(super) mod results;
mod shown;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use tidings_access::{ClientId, Cx, Limit, Page};
use tidings_delivery::transactional::Wrong;
use tidings_outreach::campaigns::draft::{self, DraftError, Find, FindError, List};
use tidings_outreach::campaigns::duplicate::{self, Duplicate};
use tidings_outreach::campaigns::named::{self, Name, NameError, Slugs};
use tidings_outreach::campaigns::{Campaign, CampaignId, MoveId, Status};

use self::new::{NewCampaign, NewDuplicate, Written};
use self::shown::{CampaignBody, MoveBody, ShownBody};
use super::auth::{Manage, Needs, Read, Refusals};
use super::input::{Body, Fields, FromFields, Listing, OptionalBody, Params};
use super::{ListBody, V1};
use crate::problem::{Problem, ProblemBody, Violation};

/// Which campaigns are wanted: the query of the list.
pub(super) struct Which {
    status: Option<Status>,
    after: Option<CampaignId>,
    limit: Limit,
}

/// Make a campaign
///
/// A draft: nothing is sent before it is started. Asking again with the same `external_key` and the same content gives the
/// campaign that is there, with 200. Needs the scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/campaigns",
    tag = "Campaigns",
    security(("key" = [])),
    request_body = NewCampaign,
    responses(
        (status = 201, description = "It is there", body = ShownBody),
        (status = 200, description = "It was there before", body = ShownBody),
        (status = 409, description = "Another campaign has this key", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong; a condition with the place in it", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn create(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(new): Body<Written>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let drafted = draft::create(&cx, new.of(who.caller().client_id)).await?;
    let status = if drafted.created { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("/v1/campaigns/{}", drafted.campaign.id);
    let body = shown(&cx, drafted.campaign).await?;
    Ok((status, [(header::LOCATION, location)], Json(body)))
}

/// List the campaigns of this client
///
/// The newest first, without their bodies and conditions. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/campaigns",
    tag = "Campaigns",
    security(("key" = [])),
    params(
        ("status" = Option<String>, Query, description = "Only those with this status", pattern = "^(draft|scheduled|snapshotting|sending|paused|sent|cancelled|failed)$"),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of campaigns", body = ListBody<CampaignBody>),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn list(
    State(v1): State<V1>,
    who: Needs<Read>,
    Params(which): Params<Which>,
) -> Result<Json<ListBody<CampaignBody>>, Problem> {
    let cx = v1.cx(&who);
    let Which { status, after, limit } = which;
    let list = List { client: Some(who.caller().client_id), status, after, limit };
    let Page { items, next } = draft::list(&cx, list).await?;
    let slugs = named::slugs(&cx, &items.iter().collect::<Vec<_>>()).await?;
    let items = items.into_iter().map(|one| CampaignBody::new(one, &slugs)).collect();
    Ok(ListBody::<CampaignBody>::answer(Page { items, next }))
}

/// Show a campaign
///
/// By its id or its key, with its bodies and its condition. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/campaigns/{campaign}",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    responses(
        (status = 200, description = "The campaign", body = ShownBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(campaign): Path<String>,
) -> Result<Json<ShownBody>, Problem> {
    let cx = v1.cx(&who);
    let found = the_campaign(&cx, &campaign, &who).await?;
    Ok(Json(shown(&cx, found).await?))
}

/// Write a campaign
///
/// In the place of the one that is there, as long as that has not begun: what is left out is gone, but for
/// `external_key`. A key that no campaign has makes one. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/campaigns/{campaign}",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    request_body = NewCampaign,
    responses(
        (status = 200, description = "As it is now", body = ShownBody),
        (status = 201, description = "It was made", body = ShownBody),
        (status = 404, description = "There is none with this id", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It has begun, or another campaign has this key", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong; a condition with the place in it", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn put(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(campaign): Path<String>,
    Body(new): Body<Written>,
) -> Result<impl IntoResponse, Problem> {
    let (cx, client) = (v1.cx(&who), who.caller().client_id);
    let mut draft = new.of(client);
    let found = match named::find(&cx, &name(&campaign), Some(client)).await {
        Ok(found) => Some(found),
        Err(NameError::Missing(Name::Key(key))) if !key.starts_with("campaign-") => {
            match &draft.key {
                Some(other) if *other != key => {
                    return Err(one_wrong("external_key", "the address says another key"));
                }
                _ => draft.key = Some(key),
            }
            None
        }
        Err(error) => return Err(error.into()),
    };
    let (status, written) = match found {
        Some(found) => {
            draft.key = draft.key.or(found.external_key);
            let find = Find { id: found.id, client: Some(client) };
            (StatusCode::OK, draft::update(&cx, find, draft).await?)
        }
        None => {
            let drafted = draft::put(&cx, draft).await?;
            let status = if drafted.created { StatusCode::CREATED } else { StatusCode::OK };
            (status, drafted.campaign)
        }
    };
    Ok((status, Json(shown(&cx, written).await?)))
}

/// Delete a draft
///
/// What has begun stays. Needs the scope `manage`.
#[utoipa::path(
    delete,
    path = "/v1/campaigns/{campaign}",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is no draft", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn delete(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(campaign): Path<String>,
) -> Result<StatusCode, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    draft::delete(&cx, find).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make another campaign like this one
///
/// A draft with the same content and the same people in mind, wherever this one is by now; it has no time yet. Needs the
/// scope `manage`.
#[utoipa::path(
    post,
    path = "/v1/campaigns/{campaign}/duplicate",
    tag = "Campaigns",
    security(("key" = [])),
    params(("campaign" = String, Path, description = "Its id or its key", max_length = 180)),
    request_body = Option<NewDuplicate>,
    responses(
        (status = 200, description = "It was made before, with the same key", body = ShownBody),
        (status = 201, description = "It was made", body = ShownBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "Another campaign has this key", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn duplicate(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(campaign): Path<String>,
    OptionalBody(new): OptionalBody<NewDuplicate>,
) -> Result<impl IntoResponse, Problem> {
    let cx = v1.cx(&who);
    let campaign = which(&cx, &campaign, &who).await?;
    let cmd = Duplicate { campaign, key: new.external_key, name: new.name };
    let drafted = duplicate::duplicate(&cx, cmd).await?;
    let status = if drafted.created { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("/v1/campaigns/{}", drafted.campaign.id);
    let body = shown(&cx, drafted.campaign).await?;
    Ok((status, [(header::LOCATION, location)], Json(body)))
}

/// Show what happened to a campaign
///
/// Each change of its status, the latest first. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/campaigns/{campaign}/history",
    tag = "Campaigns",
    security(("key" = [])),
    params(
        ("campaign" = String, Path, description = "Its id or its key", max_length = 180),
        ("limit" = Option<i64>, Query, description = "1 to 100, default 50", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")
    ),
    responses(
        (status = 200, description = "A page of what happened", body = ListBody<MoveBody>),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The query is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn history(
    State(v1): State<V1>,
    who: Needs<Read>,
    Path(campaign): Path<String>,
    Listing { after, limit }: Listing<MoveId>,
) -> Result<Json<ListBody<MoveBody>>, Problem> {
    let cx = v1.cx(&who);
    let find = which(&cx, &campaign, &who).await?;
    Ok(ListBody::answer(draft::moves(&cx, find, after, limit).await?))
}

fn name(text: &str) -> Name {
    match text.parse() {
        Ok(name) => name,
    }
}

/// Another client's campaign is none.
async fn the_campaign<S>(cx: &Cx, text: &str, who: &Needs<S>) -> Result<Campaign, Problem> {
    Ok(named::find(cx, &name(text), Some(who.caller().client_id)).await?)
}

async fn which<S>(cx: &Cx, text: &str, who: &Needs<S>) -> Result<Find, Problem> {
    let client: ClientId = who.caller().client_id;
    let id = match name(text) {
        Name::Id(id) => id,
        Name::Key(_) => the_campaign(cx, text, who).await?.id,
    };
    Ok(Find { id, client: Some(client) })
}

async fn slugs(cx: &Cx, campaign: &Campaign) -> Result<Slugs, Problem> {
    Ok(named::slugs(cx, &[campaign]).await?)
}

async fn shown(cx: &Cx, campaign: Campaign) -> Result<ShownBody, Problem> {
    let slugs = slugs(cx, &campaign).await?;
    Ok(ShownBody::new(campaign, &slugs))
}

fn violations(wrong: Vec<Wrong>) -> Vec<Violation> {
    let violation = |Wrong { field, message }| Violation { field, message };
    wrong.into_iter().map(violation).collect()
}

fn one_wrong(field: &str, message: &str) -> Problem {
    Problem::invalid(vec![Violation { field: field.to_owned(), message: message.to_owned() }])
}

impl FromFields for Which {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let status = fields.optional("status");
        let Listing { after, limit } = Listing::from_fields(fields)?;
        Some(Self { status: status?, after, limit })
    }
}

impl From<NameError> for Problem {
    fn from(error: NameError) -> Self {
        match error {
            NameError::Missing(_) => Self::not_found("there is no such campaign"),
            NameError::Store(error) => error.into(),
        }
    }
}

impl From<FindError> for Problem {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Missing(_) => Self::not_found("there is no such campaign"),
            FindError::Store(error) => error.into(),
        }
    }
}

impl From<DraftError> for Problem {
    fn from(error: DraftError) -> Self {
        match error {
            DraftError::Invalid(wrong) => Self::invalid(violations(wrong)),
            DraftError::Missing(_) => Self::not_found("there is no such campaign"),
            DraftError::KeyReused(_) => {
                Self::new(StatusCode::CONFLICT, "external_key_reused", error)
            }
            DraftError::Illegal { .. } => Self::conflict(error),
            DraftError::Store(error) => error.into(),
        }
    }
}
