//! The envelope of a message in one group (RFC 2920), and command by command where a server does not take that.

use tidings_kernel::{SendError, Sender as _};
use tidings_mail::{Smtp, SmtpSettings, Tls};

use crate::dialogue::{Dialogue, GROUP, IN_GROUPS, ONE_BY_ONE, STEPS};
use crate::{authority, mail, settings, smtp};

const ADA: &[&str] = &["ada@example.net"];
const WITH_COPY: &[&str] = &["ada@example.net", "copy@example.net"];

#[tokio::test]
async fn the_envelope_goes_in_one_group_and_the_body_alone() {
    // The server answers nothing before it has heard DATA, and a second message needs nothing between.
    let copies = "< MAIL FROM:<bounces@example.org>\n< RCPT TO:<ada@example.net>\n< RCPT TO:<copy@example.net>\n\
                  < DATA\n=\n> 250 ok\n> 250 ok\n> 251 forwarded\n> 354 go\n<.\n=\n> 250 ok\n";
    let server = Dialogue::start([format!("{IN_GROUPS}{GROUP}{GROUP}{copies}")]).await;
    let smtp = smtp(server.port);
    for _ in 0..2 {
        let accepted = smtp.send(&mail(ADA)).await.unwrap();
        assert_eq!(accepted.provider_id.as_deref(), Some("A1B2C3D4"));
    }
    smtp.send(&mail(WITH_COPY)).await.unwrap();
    server.finish().await;
}

#[tokio::test]
async fn a_server_that_takes_no_groups_is_waited_for() {
    let server = Dialogue::start([format!("{ONE_BY_ONE}{STEPS}{STEPS}")]).await;
    let smtp = smtp(server.port);
    for _ in 0..2 {
        smtp.send(&mail(ADA)).await.unwrap();
    }
    server.finish().await;
}

#[tokio::test]
async fn groups_go_over_tls_as_well() {
    let (path, authority) = authority();
    let server = Dialogue::start_tls([format!("{IN_GROUPS}{GROUP}{GROUP}")], &path).await;
    let tls = SmtpSettings { tls: Tls::Implicit, roots: Some(authority), ..settings(server.port) };
    let smtp = Smtp::new(tls).unwrap();
    for _ in 0..2 {
        smtp.send(&mail(ADA)).await.unwrap();
    }
    server.finish().await;
}

#[tokio::test]
async fn answers_may_come_in_any_pieces() {
    let script = "~ 220-hi\n~ 220 there\n< EHLO\n~ 250-scripted\n~ 250-pipelining\n~ 250 8BITMIME\n\
                  < MAIL\n< RCPT\n< DATA\n~ 250-so\n~ 250 be it\n~ 250 ok\n~ 354 go\n<.\n~ 250-2.0.0 ok\n~ 250 2.0.0 really\n";
    let server = Dialogue::start([script.to_owned()]).await;
    smtp(server.port).send(&mail(ADA)).await.unwrap();
    server.finish().await;
}

#[tokio::test]
async fn a_refused_recipient_ends_the_group_and_not_the_connection() {
    // What the server says to DATA differs: it may want a body for nobody, and gets an empty one.
    for data in ["> 503 5.5.1 no recipients\n", "> 354 go\n< .\n=\n> 554 5.5.1 no recipients\n"] {
        let refused = format!("< MAIL\n< RCPT\n< DATA\n> 250 ok\n> 550 5.1.1 no such user\n{data}");
        let next = "< RSET\n< MAIL\n< RCPT\n< DATA\n=\n> 250 ok\n> 250 ok\n> 250 ok\n> 354 go\n<.\n> 250 ok\n";
        let server = Dialogue::start([format!("{IN_GROUPS}{refused}{next}{GROUP}")]).await;
        let smtp = smtp(server.port);
        let error = smtp.send(&mail(ADA)).await.unwrap_err();
        assert!(
            matches!(&error, SendError::NoSuchAddress { reason, status }
                if reason.contains("5.1.1 no such user to RCPT") && status == "5.1.1"),
            "{error:?}"
        );
        for _ in 0..2 {
            smtp.send(&mail(ADA)).await.unwrap();
        }
        server.finish().await;
    }
}

#[tokio::test]
async fn an_empty_message_never_goes_to_a_copy() {
    // The first recipient is refused, and a copy is not: whatever we wrote now would reach the copy.
    let refused =
        "< MAIL\n< RCPT\n< RCPT\n< DATA\n> 250 ok\n> 550 5.1.1 no\n> 250 ok\n> 354 go\n<|\n";
    let server =
        Dialogue::start([format!("{IN_GROUPS}{refused}"), format!("{IN_GROUPS}{GROUP}")]).await;
    let smtp = smtp(server.port);
    let error = smtp.send(&mail(WITH_COPY)).await.unwrap_err();
    assert!(matches!(error, SendError::NoSuchAddress { .. }), "{error:?}");
    smtp.send(&mail(ADA)).await.unwrap();
    server.finish().await;
}

#[tokio::test]
async fn a_copy_that_is_refused_in_a_group_is_left_out() {
    for no in ["452 4.2.2 mailbox full", "550 5.1.1 no such user"] {
        let script = format!(
            "{IN_GROUPS}< MAIL\n< RCPT\n< RCPT\n< DATA\n> 250 ok\n> 250 ok\n> {no}\n> 354 go\n<.\n> 250 ok\n{GROUP}"
        );
        let server = Dialogue::start([script]).await;
        let smtp = smtp(server.port);
        smtp.send(&mail(WITH_COPY)).await.unwrap();
        smtp.send(&mail(ADA)).await.unwrap();
        server.finish().await;
    }
}

#[tokio::test]
async fn what_says_no_first_is_the_reason() {
    for (answers, step, meant) in [
        (
            "> 550 5.7.1 not you\n> 503 5.5.1 MAIL first\n> 503 5.5.1 MAIL first\n",
            "MAIL",
            "refused",
        ),
        ("> 451 4.3.0 not now\n> 503 5.5.1 MAIL first\n> 503 5.5.1 MAIL first\n", "MAIL", "later"),
        ("> 250 ok\n> 450 4.2.1 busy\n> 554 5.5.1 nobody\n", "RCPT", "later"),
        ("> 250 ok\n> 250 ok\n> 451 4.3.0 no room\n", "DATA", "later"),
        ("> 250 ok\n> 250 ok\n> 554 5.7.1 no\n", "DATA", "refused"),
        // It asks for nothing, so it gets nothing.
        ("> 250 ok\n> 250 ok\n> 250 ok\n<|\n", "DATA", "later"),
        ("> 250 ok\n> 354 what\n> 250 ok\n<|\n", "RCPT", "later"),
        // It closes after the refusal and does not answer to the rest.
        ("> 250 ok\n> 550 5.1.1 no such user\n", "RCPT", "nobody"),
        ("> 250 ok\n> 550 5.1.1 no such user\n> 421 4.7.0 go away\n", "RCPT", "nobody"),
        ("> 250 ok\n> 250 ok\n> 421 4.3.2 shutting down\n", "DATA", "later"),
    ] {
        let server =
            Dialogue::start([format!("{IN_GROUPS}< MAIL\n< RCPT\n< DATA\n{answers}")]).await;
        let error = smtp(server.port).send(&mail(ADA)).await.unwrap_err();
        assert_eq!(crate::meaning(&error), meant, "{error:?} for {answers:?}");
        assert!(error.to_string().contains(&format!("to {step}")), "{error:?} for {answers:?}");
        server.finish().await;
    }
}

#[tokio::test]
async fn a_surplus_answer_does_not_pass_for_the_one_to_the_message() {
    let script =
        "< MAIL\n< RCPT\n< DATA\n> 250 ok\n> 250 ok\n> 354 go\n> 250 queued as A1B2C3D4\n<|\n";
    let server = Dialogue::start([format!("{IN_GROUPS}{script}")]).await;
    let error = smtp(server.port).send(&mail(ADA)).await.unwrap_err();
    assert!(matches!(error, SendError::Later(_)), "{error:?}");
    server.finish().await;
}
