//! Connections that end too early, and answers that are none: what each means for the message depends on the step.

use std::time::Duration;

use tidings_kernel::{Mail, SendError, Sender as _};
use tidings_mail::{Smtp, SmtpSettings, Tls};

use crate::dialogue::{Dialogue, GROUP, IN_GROUPS, ONE_BY_ONE, STEPS};
use crate::{authority, mail, meaning, settings, smtp};

const ADA: &[&str] = &["ada@example.net"];

/// More than all buffers on the way can hold.
fn long_mail() -> Mail {
    let line = format!("{}\r\n", "x".repeat(998));
    Mail { mime: line.repeat(16_000).into_bytes(), ..mail(ADA) }
}

/// The server closes after so much of the dialogue.
async fn check_closing(script: &str, mail: &Mail, meant: &str) {
    let server = Dialogue::start([script.to_owned()]).await;
    let error = smtp(server.port).send(mail).await.unwrap_err();
    assert_eq!(meaning(&error), meant, "{error:?} after {script:?}");
    server.finish().await;
}

#[tokio::test]
async fn what_a_closed_connection_means_depends_on_the_step() {
    let small = mail(ADA);
    check_closing("", &small, "closed").await;
    check_closing("> 220 hi\n< EHLO\n", &small, "closed").await;
    check_closing("> 220 hi\n< EHLO\n> 250-half an answer\n", &small, "closed").await;

    check_closing(&format!("{ONE_BY_ONE}< MAIL\n"), &small, "later").await;
    check_closing(&format!("{ONE_BY_ONE}< MAIL\n> 250 ok\n< RCPT\n"), &small, "later").await;
    let data = format!("{ONE_BY_ONE}< MAIL\n> 250 ok\n< RCPT\n> 250 ok\n< DATA\n");
    check_closing(&data, &small, "later").await;
    // It cannot have the whole message.
    check_closing(&format!("{data}> 354 go\n< x\n"), &long_mail(), "later").await;
    check_closing(&format!("{data}> 354 go\n<.\n"), &small, "uncertain").await;
    check_closing(&format!("{data}> 354 go\n<.\n> 250-half\n"), &small, "uncertain").await;

    let group = format!("{IN_GROUPS}< MAIL\n< RCPT\n< DATA\n");
    check_closing(&group, &small, "later").await;
    check_closing(&format!("{group}> 250 ok\n"), &small, "later").await;
    check_closing(&format!("{group}> 250 ok\n> 250 ok\n"), &small, "later").await;
    check_closing(&format!("{group}> 250 ok\n> 250 ok\n> 354-go\n"), &small, "later").await;
    check_closing(&format!("{group}> 250 ok\n> 250 ok\n> 354 go\n< x\n"), &long_mail(), "later")
        .await;
    check_closing(&format!("{group}> 250 ok\n> 250 ok\n> 354 go\n<.\n"), &small, "uncertain").await;
}

#[tokio::test]
async fn the_same_over_tls() {
    let (path, authority) = authority();
    let group = format!("{IN_GROUPS}< MAIL\n< RCPT\n< DATA\n> 250 ok\n> 250 ok\n");
    for (script, mail, meant) in [
        ("> 220 hi\n< EHLO\n".to_owned(), mail(ADA), "closed"),
        (group.clone(), mail(ADA), "later"),
        (format!("{group}> 354 go\n< x\n"), long_mail(), "later"),
        (format!("{group}> 354 go\n<.\n"), mail(ADA), "uncertain"),
    ] {
        let server = Dialogue::start_tls([script.clone()], &path).await;
        let tls = SmtpSettings {
            tls: Tls::Implicit,
            roots: Some(authority.clone()),
            ..settings(server.port)
        };
        let error = Smtp::new(tls).unwrap().send(&mail).await.unwrap_err();
        assert_eq!(meaning(&error), meant, "{error:?} after {script:?}");
        server.finish().await;
    }
}

#[tokio::test]
async fn a_refusal_before_the_end_of_the_message_is_heard() {
    let script = format!(
        "{ONE_BY_ONE}< MAIL\n> 250 ok\n< RCPT\n> 250 ok\n< DATA\n> 354 go\n< x\n> 552 5.3.4 too big\n"
    );
    let server = Dialogue::start([script]).await;
    let error = smtp(server.port).send(&long_mail()).await.unwrap_err();
    assert!(matches!(&error, SendError::Refused(text) if text.contains("too big")), "{error:?}");
    server.finish().await;
}

#[tokio::test]
async fn a_message_that_nobody_reads_is_not_uncertain() {
    let script = format!("{IN_GROUPS}< MAIL\n< RCPT\n< DATA\n> 250 ok\n> 250 ok\n> 354 go\n!\n");
    let server = Dialogue::start([script]).await;
    let hasty = SmtpSettings { timeout: Duration::from_millis(200), ..settings(server.port) };
    let error = Smtp::new(hasty).unwrap().send(&long_mail()).await.unwrap_err();
    assert!(matches!(error, SendError::Later(_)), "{error:?}");
}

#[tokio::test]
async fn what_is_no_answer_means_what_silence_would() {
    let endless = "> 250-and\n".repeat(150);
    let long = format!("> 250 {}\n", "x".repeat(5000));
    for nonsense in ["> HTTP/1.1 400 Bad Request\n", "> 250-ok\n> 550 no\n", &endless, &long] {
        let group = format!("{IN_GROUPS}< MAIL\n< RCPT\n< DATA\n");
        check_closing(nonsense, &mail(ADA), "closed").await;
        check_closing(&format!("> 220 hi\n< EHLO\n{nonsense}"), &mail(ADA), "closed").await;
        check_closing(&format!("{group}{nonsense}<|\n"), &mail(ADA), "later").await;
        check_closing(&format!("{group}> 250 ok\n{nonsense}<|\n"), &mail(ADA), "later").await;
        let body = format!("{group}> 250 ok\n> 250 ok\n> 354 go\n<.\n");
        check_closing(&format!("{body}{nonsense}<|\n"), &mail(ADA), "uncertain").await;
        // Neither is a good answer that does not say that the message was taken.
        check_closing(&format!("{body}> 354 go on\n<|\n"), &mail(ADA), "uncertain").await;
    }
}

#[tokio::test]
async fn a_kept_connection_that_the_server_has_left_is_replaced() {
    for (hello, message) in [(ONE_BY_ONE, STEPS), (IN_GROUPS, GROUP)] {
        for left in [
            // It closes after its answer, with and without saying so, or when it hears of the next message.
            String::new(),
            "> 421 4.4.2 idle for too long\n".to_owned(),
            "< MAIL\n".to_owned(),
            "< MAIL\n> 421 4.7.0 enough messages\n".to_owned(),
        ] {
            let first = format!("{hello}{message}{left}");
            let server = Dialogue::start([first, format!("{hello}{message}")]).await;
            let smtp = smtp(server.port);
            for _ in 0..2 {
                smtp.send(&mail(ADA))
                    .await
                    .unwrap_or_else(|error| panic!("{error} after {left:?}"));
            }
            server.finish().await;
        }
    }
}

#[tokio::test]
async fn a_message_that_the_server_has_heard_of_is_not_tried_twice() {
    for (hello, message, heard) in [
        (ONE_BY_ONE, STEPS, "< MAIL\n> 250 ok\n< RCPT\n"),
        (IN_GROUPS, GROUP, "< MAIL\n< RCPT\n< DATA\n> 250 ok\n"),
    ] {
        // Nobody listens for a second connection.
        let server = Dialogue::start([format!("{hello}{message}{heard}")]).await;
        let smtp = smtp(server.port);
        smtp.send(&mail(ADA)).await.unwrap();
        let error = smtp.send(&mail(ADA)).await.unwrap_err();
        assert!(matches!(error, SendError::Later(_)), "{error:?}");
        server.finish().await;
    }
}
