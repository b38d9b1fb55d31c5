//! What went wrong with a request, in the words that decide what to do about it.

use std::error::Error;
use std::io::ErrorKind;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use tidings_kernel::{Invalid, QueueError, StoreError};

/// An error of the SDK, classified by its kind and code; never by its text, which servers word differently.
#[derive(Debug)]
pub(super) struct Trouble<E> {
    pub(super) kind: Kind,
    error: Box<SdkError<E, HttpResponse>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing was done: too many requests.
    Throttled,
    /// Nothing was done: another transaction is writing the same item.
    Conflict,
    /// Nothing was done: the request did not leave.
    NotSent,
    /// It was sent, and no answer tells whether it was done.
    Unanswered,
    /// Nothing was done, and the same request will be refused again.
    Refused,
    /// An answer of this operation's own: a failed condition, a cancelled transaction, a missing table or queue.
    Answered,
}

impl<E> Trouble<E>
where
    E: Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    pub(super) fn new(error: SdkError<E, HttpResponse>) -> Self {
        Self { kind: kind(&error), error: Box::new(error) }
    }

    /// The caller knows that the request did not get as far as a connection.
    pub(super) fn before_sending(self) -> Self {
        match self.kind {
            Kind::Unanswered => Self { kind: Kind::NotSent, ..self },
            _ => self,
        }
    }

    /// Whether the answer was a success that could not be read.
    pub(super) fn said_yes(&self) -> bool {
        self.error.raw_response().is_some_and(|answer| answer.status().is_success())
    }

    pub(super) fn service_error(&self) -> Option<&E> {
        self.error.as_service_error()
    }

    pub(super) fn code(&self) -> Option<&str> {
        self.error.code()
    }

    /// What a read, or a write that may be repeated, answers.
    pub(super) fn of_read(self) -> StoreError {
        match self.kind {
            Kind::Conflict => StoreError::Conflict,
            Kind::Refused => StoreError::Invalid(Invalid::Refused(self.message())),
            Kind::Throttled | Kind::NotSent | Kind::Unanswered | Kind::Answered => {
                StoreError::Unavailable(self.into_source())
            }
        }
    }

    /// What a write answers: whoever made it must know if it may have happened.
    pub(super) fn of_write(self) -> StoreError {
        match self.kind {
            Kind::Unanswered => StoreError::Uncertain(self.into_source()),
            Kind::Throttled | Kind::Conflict | Kind::NotSent | Kind::Refused | Kind::Answered => {
                self.of_read()
            }
        }
    }

    /// What a write answers if one of its earlier tries may have happened.
    pub(super) fn uncertain(self) -> StoreError {
        StoreError::Uncertain(self.into_source())
    }

    /// What a request to a queue answers. All of them may be repeated.
    pub(super) fn of_queue(self) -> QueueError {
        match self.kind {
            Kind::Throttled | Kind::Conflict | Kind::NotSent | Kind::Unanswered => {
                QueueError::Unavailable(self.into_source())
            }
            Kind::Refused => QueueError::Failed(self.into_source()),
            Kind::Answered if self.code().is_some_and(passes) => {
                QueueError::Unavailable(self.into_source())
            }
            Kind::Answered => QueueError::Failed(self.into_source()),
        }
    }

    /// What the server said, or what happened instead of an answer.
    pub(super) fn told(&self) -> String {
        match (self.error.code(), self.error.message()) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(code), None) => code.to_owned(),
            (None, _) => DisplayErrorContext(&*self.error).to_string(),
        }
    }

    fn message(&self) -> String {
        let code = || self.code().unwrap_or("no reason given").to_owned();
        self.error.message().map_or_else(code, str::to_owned)
    }

    /// The whole chain in one text: the SDK's own errors print only their outermost words.
    fn into_source(self) -> Box<dyn Error + Send + Sync> {
        DisplayErrorContext(*self.error).to_string().into()
    }
}

/// A queue that is missing is made anew, one that was just deleted can be made in a minute, and credentials are
/// renewed.
fn passes(code: &str) -> bool {
    matches!(
        code,
        "QueueDoesNotExist"
            | "AWS.SimpleQueueService.NonExistentQueue"
            | "QueueDeletedRecently"
            | "AWS.SimpleQueueService.QueueDeletedRecently"
            | "NotFound"
            | "ExpiredToken"
            | "ExpiredTokenException"
            | "RequestExpired"
    )
}

fn kind<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Kind {
    match error {
        SdkError::ConstructionFailure(_) => Kind::NotSent,
        SdkError::DispatchFailure(failure) => {
            let connector = failure.as_connector_error();
            if failure.is_user() || connector.is_some_and(|error| never_connected(error)) {
                Kind::NotSent
            } else {
                Kind::Unanswered
            }
        }
        SdkError::ServiceError(service) => match service.err().code() {
            Some(
                "ProvisionedThroughputExceededException"
                | "RequestLimitExceeded"
                | "ThrottlingException"
                | "LimitExceededException"
                | "RequestThrottled"
                | "ThrottledException"
                | "Throttled"
                | "Throttling"
                | "OverLimit"
                | "AWS.SimpleQueueService.OverLimit"
                | "KmsThrottled"
                | "KMSThrottling",
            ) => Kind::Throttled,
            Some(
                "TransactionConflictException"
                | "TransactionInProgressException"
                | "ReplicatedWriteConflictException",
            ) => Kind::Conflict,
            Some("ValidationException" | "ItemCollectionSizeLimitExceededException") => {
                Kind::Refused
            }
            // DynamoDB says of a 5xx that the write may have been made.
            _ if service.raw().status().is_server_error() => Kind::Unanswered,
            _ => Kind::Answered,
        },
        // Time-outs, half an answer, and whatever a later SDK adds.
        _ => Kind::Unanswered,
    }
}

/// A name that nobody knows, a refused or late connection, a certificate that is not trusted.
fn never_connected(error: &(dyn Error + 'static)) -> bool {
    let mut chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.any(|error| {
        let by_client = error.downcast_ref::<hyper_util::client::legacy::Error>();
        let by_system = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        by_client.is_some_and(hyper_util::client::legacy::Error::is_connect)
            || matches!(
                by_system,
                Some(
                    ErrorKind::ConnectionRefused
                        | ErrorKind::HostUnreachable
                        | ErrorKind::NetworkUnreachable
                        | ErrorKind::AddrNotAvailable
                )
            )
    })
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::http::HttpResponse;
    use aws_sdk_dynamodb::error::{ConnectorError, ErrorMetadata, SdkError};
    use aws_sdk_dynamodb::operation::put_item::PutItemError;
    use tidings_kernel::{Invalid, QueueError, StoreError};

    use super::{Kind, Trouble};

    fn answered(status: u16, code: &str) -> Trouble<PutItemError> {
        let error = PutItemError::generic(ErrorMetadata::builder().code(code).build());
        let response = HttpResponse::new(status.try_into().unwrap(), "".into());
        Trouble::new(SdkError::service_error(error, response))
    }

    fn undelivered(kind: std::io::ErrorKind) -> Trouble<PutItemError> {
        let error = ConnectorError::io(std::io::Error::from(kind).into());
        Trouble::new(SdkError::dispatch_failure(error))
    }

    #[test]
    fn troubles_are_told_apart_by_their_codes() {
        for (status, code, kind) in [
            (400, "ThrottlingException", Kind::Throttled),
            (400, "ProvisionedThroughputExceededException", Kind::Throttled),
            (400, "TransactionConflictException", Kind::Conflict),
            (400, "ValidationException", Kind::Refused),
            (400, "ResourceNotFoundException", Kind::Answered),
            (400, "ConditionalCheckFailedException", Kind::Answered),
            (500, "InternalServerError", Kind::Unanswered),
            (503, "ServiceUnavailable", Kind::Unanswered),
        ] {
            assert_eq!(answered(status, code).kind, kind, "{status} {code}");
        }
    }

    #[test]
    fn a_write_is_uncertain_only_if_it_may_have_been_made() {
        use std::io::ErrorKind;

        assert_eq!(undelivered(ErrorKind::ConnectionRefused).kind, Kind::NotSent);
        assert_eq!(undelivered(ErrorKind::ConnectionReset).kind, Kind::Unanswered);
        for (trouble, uncertain) in [
            (undelivered(ErrorKind::ConnectionReset), true),
            (answered(500, "InternalServerError"), true),
            (Trouble::new(SdkError::timeout_error("late")), true),
            (undelivered(ErrorKind::ConnectionRefused), false),
            (answered(400, "ThrottlingException"), false),
            (answered(400, "AccessDeniedException"), false),
        ] {
            let kind = trouble.kind;
            match trouble.of_write() {
                StoreError::Uncertain(_) => assert!(uncertain, "{kind:?}"),
                StoreError::Unavailable(_) => assert!(!uncertain, "{kind:?}"),
                other => panic!("{kind:?} became {other:?}"),
            }
        }
        let refused = answered(400, "ValidationException").of_write();
        assert!(matches!(refused, StoreError::Invalid(Invalid::Refused(_))));
        assert!(matches!(
            answered(400, "TransactionConflictException").of_write(),
            StoreError::Conflict
        ));
    }

    #[test]
    fn a_queue_is_asked_again_only_if_that_can_help() {
        for (status, code, again) in [
            (400, "RequestThrottled", true),
            (403, "OverLimit", true),
            (400, "AWS.SimpleQueueService.NonExistentQueue", true),
            (403, "ExpiredToken", true),
            (503, "ServiceUnavailable", true),
            (403, "AccessDenied", false),
            (400, "InvalidAttributeValue", false),
        ] {
            match answered(status, code).of_queue() {
                QueueError::Unavailable(_) => assert!(again, "{code}"),
                QueueError::Failed(_) => assert!(!again, "{code}"),
                QueueError::Invalid(reason) => panic!("{code} became {reason:?}"),
            }
        }
    }
}
