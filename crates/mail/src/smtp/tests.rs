//! What each answer means. The way over the wire is in `tests/smtp.rs`.

use tidings_kernel::SendError;

use super::Body;
use super::answer::{Step, judge_answer};

fn check(step: Step, code: u16, said: &str, meaning: &str) {
    let found = match judge_answer(step, code, said) {
        SendError::Refused(_) => "refused",
        SendError::Later(_) => "later",
        SendError::Throttled { .. } => "throttled",
        SendError::Closed(_) => "closed",
        SendError::Uncertain(_) => "uncertain",
    };
    assert_eq!(found, meaning, "{code} {said} to {step:?}");
}

#[test]
fn an_answer_says_whose_fault_it_is() {
    check(Step::Recipient, 550, "5.1.1 no such user", "refused");
    check(Step::Recipient, 554, "5.7.1 blocked as spam", "refused");
    check(Step::Body, 552, "5.3.4 message too big", "refused");
    check(Step::Mail, 530, "5.7.0 authentication required", "closed");
    check(Step::Body, 554, "Message rejected: Sending paused for this account.", "closed");
    check(Step::Login, 535, "5.7.8 authentication failed", "closed");
    check(Step::Login, 454, "4.7.0 temporary authentication failure", "closed");
    check(Step::Connect, 554, "no service for you", "closed");
    check(Step::Connect, 421, "4.3.2 shutting down", "closed");
    check(Step::Connect, 421, "4.7.0 too many connections", "throttled");
    check(Step::Mail, 454, "Throttling failure: Maximum sending rate exceeded.", "throttled");
    check(Step::Body, 421, "4.7.28 unusual rate of mail", "throttled");
    check(Step::Recipient, 451, "4.7.1 greylisted, come back", "later");
    check(Step::Recipient, 450, "4.2.1 mailbox busy", "later");
    check(Step::Data, 452, "4.3.1 out of space", "later");
}

#[test]
fn a_dot_alone_does_not_end_a_message_early() {
    for (body, sent) in [
        ("a\r\n", "a\r\n.\r\n"),
        ("a", "a\r\n.\r\n"),
        ("", "\r\n.\r\n"),
        (".\r\n..\r\na.b\r\n", "..\r\n...\r\na.b\r\n.\r\n"),
    ] {
        assert_eq!(Body(body).to_string(), sent, "{body:?}");
    }
}
