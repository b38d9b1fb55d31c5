//! Mail through SES: one request for a whole message, asked once.
//!
//! Here: the sender, and the list of addresses that SES itself refuses to write to. Not here: what SES tells of a
//! message afterwards (`signals`).

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_sesv2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_sesv2::error::{BoxError, DisplayErrorContext, ProvideErrorMetadata};
use aws_sdk_sesv2::operation::send_email::SendEmailError;
use aws_sdk_sesv2::primitives::Blob;
use aws_sdk_sesv2::types::{
    Destination, EmailContent, MessageTag, RawMessage, SendQuota, SuppressionListReason,
};
use tidings_kernel::{
    Accepted, EmailAddress, Mail, ProviderSuppressions, SendError, Sender, SuppressedFor,
};

use crate::connection;
use crate::trouble::{Kind, Trouble};

/// A large message takes a while to be taken.
const PATIENCE: Duration = Duration::from_secs(60);

/// The sender on SES v2.
pub struct Ses {
    client: Client,
    configuration_set: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct SesSettings {
    /// A server other than the region's.
    pub endpoint: Option<String>,
    /// Says where SES tells what became of a message.
    pub configuration_set: Option<String>,
}

/// What SES lets the account do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SesAccount {
    /// It may be paused, by AWS or by its owner.
    pub sends: bool,
    /// Then it writes to nobody but addresses that were verified.
    pub is_in_sandbox: bool,
    /// How many messages a second it takes. SES counts each recipient as one.
    pub per_second: Option<f64>,
}

impl Ses {
    /// Region, credentials and endpoint come from where the SDK looks for them. Nothing is asked of the server.
    pub async fn connect(settings: SesSettings) -> Self {
        Self::new(&connection::load(PATIENCE).await, settings)
    }

    /// With a configuration of the SDK that the caller has made.
    pub fn new(config: &SdkConfig, settings: SesSettings) -> Self {
        let config = connection::to_endpoint(config, settings.endpoint);
        // Once: a message whose answer was lost may be on its way, and whoever sends it decides what then.
        let config = aws_sdk_sesv2::config::Builder::from(&config)
            .retry_config(RetryConfig::disabled())
            .build();
        Self { client: Client::from_conf(config), configuration_set: settings.configuration_set }
    }

    /// Asks SES about the account, which also shows whether it answers us.
    pub async fn account(&self) -> Result<SesAccount, String> {
        match self.client.get_account().send().await {
            Ok(account) => Ok(SesAccount {
                sends: account.sending_enabled(),
                is_in_sandbox: !account.production_access_enabled(),
                per_second: account.send_quota().map(SendQuota::max_send_rate),
            }),
            Err(error) => Err(DisplayErrorContext(error).to_string()),
        }
    }

    /// SES refuses to write to the address from now on. Doing it again changes nothing.
    pub async fn suppress(
        &self,
        email: &EmailAddress,
        reason: SuppressedFor,
    ) -> Result<(), SendError> {
        let reason = match reason {
            SuppressedFor::Bounce => SuppressionListReason::Bounce,
            SuppressedFor::Complaint => SuppressionListReason::Complaint,
        };
        let put =
            self.client.put_suppressed_destination().email_address(email.as_str()).reason(reason);
        put.send().await.map(drop).map_err(|error| refused_change(&Trouble::new(error)))
    }

    /// SES writes to the address again. Nothing happens if it did before.
    pub async fn lift(&self, email: &EmailAddress) -> Result<(), SendError> {
        let delete = self.client.delete_suppressed_destination().email_address(email.as_str());
        match delete.send().await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some("NotFoundException") => Ok(()),
            Err(error) => Err(refused_change(&Trouble::new(error))),
        }
    }
}

#[async_trait]
impl ProviderSuppressions for Ses {
    // The methods of the type itself have precedence.
    async fn suppress(&self, email: &EmailAddress, reason: SuppressedFor) -> Result<(), SendError> {
        Self::suppress(self, email, reason).await
    }

    async fn lift(&self, email: &EmailAddress) -> Result<(), SendError> {
        Self::lift(self, email).await
    }
}

#[async_trait]
impl Sender for Ses {
    fn name(&self) -> &'static str {
        "ses"
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        let raw = RawMessage::builder().data(Blob::new(mail.mime.clone())).build();
        let raw = raw.map_err(|error| SendError::Refused(error.to_string()))?;
        let to = mail.to.iter().map(|to| to.as_str().to_owned()).collect();
        let mut request = self
            .client
            .send_email()
            .from_email_address(mail.from.as_str())
            .destination(Destination::builder().set_to_addresses(Some(to)).build())
            .content(EmailContent::builder().raw(raw).build())
            .set_configuration_set_name(self.configuration_set.clone());
        for (name, value) in &mail.tags {
            let tag = MessageTag::builder().name(*name).value(value).build();
            request =
                request.email_tags(tag.map_err(|error| SendError::Refused(error.to_string()))?);
        }
        let left = Left::default();
        match request.customize().interceptor(left.clone()).send().await {
            Ok(sent) => Ok(Accepted::by_all(sent.message_id().map(str::to_owned))),
            Err(error) => {
                let trouble = Trouble::new(error);
                Err(judge(&if left.is_so() { trouble } else { trouble.before_sending() }))
            }
        }
    }
}

/// Whether a request was given to a connection. Before that the SDK looks for credentials and signs with them, which
/// can fail or take too long in ways that look like a lost answer.
#[derive(Debug, Clone, Default)]
struct Left(Arc<AtomicBool>);

impl Left {
    fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Intercept for Left {
    fn name(&self) -> &'static str {
        "Left"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// What an answer, or none, means for the message. By codes, never by words.
fn judge(trouble: &Trouble<SendEmailError>) -> SendError {
    let said = trouble.told();
    // Whoever says yes in words that cannot be read has it all the same.
    if trouble.said_yes() {
        return SendError::Uncertain(said);
    }
    match (trouble.kind, trouble.code().unwrap_or_default()) {
        (Kind::Throttled, _) | (_, "TooManyRequestsException") => {
            SendError::Throttled { reason: said, retry_after: None }
        }
        // Its hourly or daily quota is not a matter of this message either.
        (_, "LimitExceededException") => SendError::Throttled { reason: said, retry_after: None },
        (_, "MessageRejected" | "BadRequestException") | (Kind::Refused, _) => {
            SendError::Refused(said)
        }
        (
            _,
            "AccountSuspendedException"
            | "SendingPausedException"
            | "MailFromDomainNotVerifiedException"
            // The configuration set.
            | "NotFoundException"
            | "AccessDeniedException"
            | "UnrecognizedClientException"
            | "InvalidClientTokenId"
            | "SignatureDoesNotMatch"
            | "InvalidSignatureException"
            // Credentials are renewed.
            | "ExpiredToken"
            | "ExpiredTokenException"
            | "RequestExpired",
        )
        | (Kind::NotSent, _) => SendError::Closed(said),
        // SES itself says that the request has failed. A 503 of whoever is in between has no code.
        (_, "ServiceUnavailable" | "ServiceUnavailableException") => SendError::Later(said),
        (Kind::Unanswered, _) => SendError::Uncertain(said),
        // Everything else was answered, and so was not taken.
        (Kind::Conflict | Kind::Answered, _) => SendError::Later(said),
    }
}

/// A change of the list may be made again, so that nothing about it is uncertain.
fn refused_change<E>(trouble: &Trouble<E>) -> SendError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    match trouble.kind {
        Kind::Refused => SendError::Refused(trouble.told()),
        Kind::Throttled => SendError::Throttled { reason: trouble.told(), retry_after: None },
        Kind::Conflict | Kind::NotSent | Kind::Unanswered | Kind::Answered => {
            SendError::Later(trouble.told())
        }
    }
}
