//! `/v1/settings/display-names`: what values of attributes are called in templates.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tidings_delivery::templates::display_names::{self, DisplayNames};
use utoipa::ToSchema;

use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::{Manage, Needs, Read, Refusals};
use crate::v1::input::{Body, Fields, FromFields};

/// For each `<attribute>Name` what a value is called.
#[derive(Serialize, ToSchema)]
#[schema(as = DisplayNames, example = json!({"names": {"planName": {"pro": "Professional"}}}))]
pub(in crate::v1) struct DisplayNamesBody {
    names: BTreeMap<String, BTreeMap<String, String>>,
}

pub(in crate::v1) struct NewNames(DisplayNames);

/// Show the display names
///
/// What values of attributes are called in templates. Needs the scope `read`.
#[utoipa::path(
    get,
    path = "/v1/settings/display-names",
    tag = "Templates",
    security(("key" = [])),
    responses((status = 200, description = "The names", body = DisplayNamesBody), Refusals)
)]
pub(in crate::v1) async fn show(
    State(v1): State<V1>,
    who: Needs<Read>,
) -> Result<Json<DisplayNamesBody>, Problem> {
    let names = display_names::get(&v1.cx(&who)).await?;
    Ok(Json(names.into()))
}

/// Set the display names
///
/// These and no others: at most 100 names and 1000 labels. Needs the scope `manage`.
#[utoipa::path(
    put,
    path = "/v1/settings/display-names",
    tag = "Templates",
    security(("key" = [])),
    request_body = DisplayNamesBody,
    responses(
        (status = 200, description = "The names", body = DisplayNamesBody),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn set(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Body(NewNames(names)): Body<NewNames>,
) -> Result<Json<DisplayNamesBody>, Problem> {
    display_names::set(&v1.cx(&who), &names).await?;
    Ok(Json(names.into()))
}

impl FromFields for NewNames {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let Some(names) = fields.optional_object("names")? else {
            return fields.wrong("names", "this is required");
        };
        match DisplayNames::parse(names) {
            Ok(names) => Some(Self(names)),
            Err(faults) => {
                for fault in faults {
                    fields.wrong::<()>(&format!("names.{}", fault.field), fault.message);
                }
                None
            }
        }
    }
}

impl From<DisplayNames> for DisplayNamesBody {
    fn from(names: DisplayNames) -> Self {
        Self { names: names.iter().map(|(name, labels)| (name.clone(), labels.clone())).collect() }
    }
}
