//! What is told of the mail that asks somebody to confirm a subscription.

use jiff::Timestamp;
use serde::Serialize;
use tidings_access::ClientId;
use tidings_access::Cx;
use tidings_delivery::confirmation::{Ask, Asked, ask_once_subscribed};
use tidings_delivery::transactional::Status;
use tidings_people::consent::subscriptions::Outcome;
use utoipa::ToSchema;

use super::V1;
use crate::problem::Problem;

/// What became of the mail that asks for the confirmation.
#[derive(Serialize, ToSchema)]
#[schema(as = ConfirmationMail)]
pub(super) struct ConfirmationBody {
    /// `queued`: it is sent soon. `skipped`: nothing may be sent to the address. `limited`: three have been sent within 24
    /// hours. `by_client`: the audience has no `confirm_template_key`, so you send it. `refused`: the mail could not be
    /// made, and `reason` says why; subscribe once more when that is mended
    #[schema(pattern = "^(queued|skipped|limited|by_client|refused)$", example = "queued")]
    outcome: &'static str,
    /// The message, as under `/v1/messages`
    #[schema(minimum = 1)]
    message_id: Option<i64>,
    reason: Option<String>,
    /// When the next can be sent, if it is `limited`
    #[schema(value_type = Option<String>, format = DateTime)]
    next_at: Option<Timestamp>,
}

/// Asks for the confirmation that is waited for, if one is.
pub(super) async fn ask(
    v1: &V1,
    cx: &Cx,
    client: ClientId,
    outcome: &Outcome,
) -> Result<Option<ConfirmationBody>, Problem> {
    let (Some(waiting), Some(send)) = (&outcome.subscription, outcome.to_confirm) else {
        return Ok(None);
    };
    let ask = Ask { subscription: waiting.id, client, send };
    let (messages, links) = (&v1.services.messages, &v1.services.links);
    let asked = ask_once_subscribed(cx, messages, links, ask).await?;
    Ok(body(asked))
}

fn body(asked: Asked) -> Option<ConfirmationBody> {
    let plain =
        |outcome| ConfirmationBody { outcome, message_id: None, reason: None, next_at: None };
    Some(match asked {
        Asked::Accepted(accepted) => ConfirmationBody {
            message_id: Some(accepted.id.get()),
            reason: accepted.skip_reason,
            ..plain(if accepted.status == Status::Skipped { "skipped" } else { "queued" })
        },
        Asked::TooMany { next } => ConfirmationBody { next_at: Some(next), ..plain("limited") },
        Asked::ByClient => plain("by_client"),
        Asked::Refused(error) => {
            ConfirmationBody { reason: Some(error.to_string()), ..plain("refused") }
        }
        Asked::Over => return None,
    })
}
