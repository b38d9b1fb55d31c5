//! What a mail provider posts to us. It has no key: what it posts is signed.
//!
//! Not here: whether the signature is right (`signals::sns`), and what follows (`signals::ses`, out of the queue).

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use tidings_access::Access;
use tidings_signals::sns::{MAX_BODY_BYTES, ReceiveError, Sns};

use crate::problem::Problem;
use crate::{Limits, around};

#[derive(Clone)]
struct Provider {
    access: Access,
    sns: Sns,
}

/// The routes for providers, to be merged with `router`.
pub fn provider(access: Access, sns: Sns, limits: Limits) -> Router {
    let routes = Router::new().route("/webhooks/ses", post(ses));
    let limits = Limits { max_body: limits.max_body.min(MAX_BODY_BYTES), ..limits };
    around(routes, limits).with_state(Provider { access, sns })
}

/// What SNS posts, as `text/plain`. A success says that it is in our queue: SNS posts everything else again.
async fn ses(State(provider): State<Provider>, body: Bytes) -> Result<StatusCode, Problem> {
    let body = std::str::from_utf8(&body)
        .map_err(|_| Problem::from_status(StatusCode::BAD_REQUEST, "the body is not UTF-8"))?;
    provider.sns.receive(&provider.access, body).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<ReceiveError> for Problem {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Envelope(_) | ReceiveError::Event(_) => {
                Self::from_status(StatusCode::BAD_REQUEST, error)
            }
            ReceiveError::NoTopics
            | ReceiveError::Topic
            | ReceiveError::CertificateUrl
            | ReceiveError::SubscribeUrl
            | ReceiveError::Signature
            | ReceiveError::Expired
            | ReceiveError::Old => Self::from_status(StatusCode::FORBIDDEN, error),
            ReceiveError::Certificate(_) | ReceiveError::Confirm(_) => {
                tracing::warn!(error = %tidings_kernel::causes(&error), "SNS was not reached");
                Self::unavailable(error)
            }
            ReceiveError::Enqueue(error) => {
                tracing::error!(error = %tidings_kernel::causes(&error), "An event of SES was not written down");
                Self::unavailable("the event could not be written down; post it again")
            }
        }
    }
}
