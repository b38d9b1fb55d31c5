//! What each answer of SES means. The requests themselves are in `tests/ses.rs`.

use aws_sdk_sesv2::config::http::HttpResponse;
use aws_sdk_sesv2::error::{ConnectorError, ErrorMetadata, SdkError};
use aws_sdk_sesv2::operation::send_email::SendEmailError;
use tidings_kernel::SendError;

use super::judge;
use crate::trouble::Trouble;

fn word(error: &SendError) -> &'static str {
    match error {
        SendError::Refused(_) | SendError::NoSuchAddress { .. } => "refused",
        SendError::Later(_) => "later",
        SendError::Throttled { .. } => "throttled",
        SendError::Closed(_) => "closed",
        SendError::Uncertain(_) => "uncertain",
    }
}

#[test]
fn an_answer_says_what_became_of_the_message() {
    for (status, code, meaning) in [
        (429, "TooManyRequestsException", "throttled"),
        (400, "ThrottlingException", "throttled"),
        (400, "Throttling", "throttled"),
        (400, "LimitExceededException", "throttled"),
        (400, "MessageRejected", "refused"),
        (400, "BadRequestException", "refused"),
        (400, "SendingPausedException", "closed"),
        (400, "AccountSuspendedException", "closed"),
        (400, "MailFromDomainNotVerifiedException", "closed"),
        (404, "NotFoundException", "closed"),
        (403, "AccessDeniedException", "closed"),
        (403, "ExpiredTokenException", "closed"),
        (409, "ConflictException", "later"),
        (500, "InternalServiceErrorException", "uncertain"),
        (503, "ServiceUnavailable", "later"),
        (503, "", "uncertain"),
    ] {
        let error = SendEmailError::generic(ErrorMetadata::builder().code(code).build());
        let response = HttpResponse::new(status.try_into().unwrap(), "".into());
        let judged = judge(&Trouble::new(SdkError::service_error(error, response)));
        assert_eq!(word(&judged), meaning, "{status} {code}");
    }
}

#[test]
fn silence_is_uncertain_once_the_message_has_left() {
    let undelivered = |kind: std::io::ErrorKind| {
        let error = ConnectorError::io(std::io::Error::from(kind).into());
        Trouble::<SendEmailError>::new(SdkError::dispatch_failure(error))
    };
    assert_eq!(word(&judge(&undelivered(std::io::ErrorKind::ConnectionRefused))), "closed");
    assert_eq!(word(&judge(&undelivered(std::io::ErrorKind::ConnectionReset))), "uncertain");
    let late = Trouble::<SendEmailError>::new(SdkError::timeout_error("late"));
    assert_eq!(word(&judge(&late)), "uncertain");
}
