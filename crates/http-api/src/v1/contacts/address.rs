//! `/v1/contacts/{email}/address`: what was found out about an address.

use axum::Json;
use axum::extract::{Path, State};
use tidings_people::consent::Line;
use tidings_people::contacts::{self, Assess, AssessError, Validation};
use utoipa::ToSchema;

use super::bodies::IdentityBody;
use super::{addressed, nobody};
use crate::problem::{Problem, ProblemBody, Violation};
use crate::v1::V1;
use crate::v1::auth::{Manage, Needs, Refusals};
use crate::v1::input::{Body, Fields, FromFields};

#[derive(ToSchema)]
pub(in crate::v1) struct ChangeAddress {
    /// Whether somebody has shown that he reads it
    #[schema(value_type = Option<bool>)]
    verified: Option<bool>,
    /// Whether mail arrives there
    #[schema(value_type = Option<String>, pattern = "^(valid|invalid|risky|unknown)$")]
    validation_status: Option<Validation>,
    /// Why; only together with `validation_status`
    #[schema(value_type = Option<String>, min_length = 1, max_length = 500)]
    validation_reason: Option<Line>,
}

/// Say what was found out about an address
///
/// Marketing mail goes to no address that is invalid, and to none that is not verified where an audience wants that. What is
/// not named stays as it is. Needs the scope `manage`.
#[utoipa::path(
    patch,
    path = "/v1/contacts/{email}/address",
    tag = "Contacts",
    security(("key" = [])),
    params(("email" = String, Path, format = Email, max_length = 254)),
    request_body = ChangeAddress,
    responses(
        (status = 200, description = "The address as it is now", body = IdentityBody),
        (status = 404, description = "There is none", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The body is wrong", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(in crate::v1) async fn assess(
    State(v1): State<V1>,
    who: Needs<Manage>,
    Path(email): Path<String>,
    Body(change): Body<ChangeAddress>,
) -> Result<Json<IdentityBody>, Problem> {
    let assess = Assess {
        email: addressed(&email)?,
        verified: change.verified,
        validation: change.validation_status,
        reason: change.validation_reason,
    };
    Ok(Json(contacts::assess(&v1.cx(&who), assess).await?.into()))
}

impl FromFields for ChangeAddress {
    fn from_fields(fields: &mut Fields) -> Option<Self> {
        let verified = fields.optional_bool("verified");
        let (status, reason) =
            (fields.optional("validation_status"), fields.optional("validation_reason"));
        Some(Self { verified: verified?, validation_status: status?, validation_reason: reason? })
    }
}

impl From<AssessError> for Problem {
    fn from(error: AssessError) -> Self {
        match error {
            AssessError::Missing => nobody(),
            AssessError::ReasonAlone => {
                let (field, message) = ("validation_reason".to_owned(), error.to_string());
                Self::invalid(vec![Violation { field, message }])
            }
            AssessError::Store(error) => error.into(),
        }
    }
}
