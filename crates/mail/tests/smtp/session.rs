//! Greetings, logins and goodbyes.

use tidings_kernel::{SendError, Sender as _};
use tidings_mail::{Smtp, SmtpSettings, Tls};

use crate::dialogue::{Dialogue, GROUP, IN_GROUPS, ONE_BY_ONE};
use crate::scripted::Reaction::Say;
use crate::scripted::Scripted;
use crate::{authority, mail, meaning, settings, smtp};

const ADA: &[&str] = &["ada@example.net"];

fn with_login(port: u16) -> Smtp {
    let credentials = Some(("tidings".to_owned(), "secret".to_owned()));
    Smtp::new(SmtpSettings { credentials, ..settings(port) }).unwrap()
}

#[tokio::test]
async fn a_login_takes_the_way_that_the_server_offers() {
    let in_one = "< AUTH PLAIN AHRpZGluZ3MAc2VjcmV0\n> 235 welcome\n";
    let in_two = "< AUTH LOGIN\n> 334 VXNlcm5hbWU6\n< dGlkaW5ncw==\n> 334 UGFzc3dvcmQ6\n< c2VjcmV0\n> 235 welcome\n";
    for (offers, dialogue) in
        [("LOGIN PLAIN", in_one), ("login", in_two), ("CRAM-MD5 LOGIN", in_two)]
    {
        let script = format!(
            "> 220 hi\n< EHLO\n> 250-scripted\n> 250 AUTH {offers}\n{dialogue}< QUIT\n> 221 bye\n"
        );
        let server = Dialogue::start([script]).await;
        assert_eq!(with_login(server.port).greet().await.unwrap(), "scripted");
        server.finish().await;
    }
}

#[tokio::test]
async fn a_login_that_fails_is_nothing_against_the_message() {
    for offers in [
        "AUTH CRAM-MD5",
        "HELP",
        "AUTH PLAIN\n< AUTH PLAIN\n> 535 5.7.8 no",
        "AUTH PLAIN\n< AUTH PLAIN",
    ] {
        let script = format!("> 220 hi\n< EHLO\n> 250-scripted\n> 250 {offers}\n");
        let server = Dialogue::start([script]).await;
        let error = with_login(server.port).send(&mail(ADA)).await.unwrap_err();
        assert!(matches!(error, SendError::Closed(_)), "{error:?} with {offers:?}");
        assert!(!error.to_string().contains("secret"), "{error:?}");
        server.finish().await;
    }
}

#[tokio::test]
async fn what_was_said_before_tls_is_not_believed() {
    // Somebody on the way adds an answer that would be read as if it had come protected.
    let script = "> 220 hi\n< EHLO\n> 250-scripted\n> 250 STARTTLS\n< STARTTLS\n> 220 go\n> 250 injected\n<|\n";
    let server = Dialogue::start([script.to_owned()]).await;
    let starttls = SmtpSettings { tls: Tls::Starttls, ..settings(server.port) };
    let error = Smtp::new(starttls).unwrap().send(&mail(ADA)).await.unwrap_err();
    assert!(matches!(error, SendError::Closed(_)), "{error:?}");
    server.finish().await;
}

#[tokio::test]
async fn a_greeting_that_says_no_is_nothing_against_the_message() {
    for (script, meant) in [
        ("> 554 5.7.1 not from there\n", "closed"),
        ("> 421 4.7.0 too many connections\n", "throttled"),
        ("> 220 hi\n< EHLO\n> 502 what is that\n", "closed"),
    ] {
        let server = Dialogue::start([script.to_owned()]).await;
        let error = smtp(server.port).send(&mail(ADA)).await.unwrap_err();
        assert_eq!(meaning(&error), meant, "{error:?} after {script:?}");
        server.finish().await;
    }
}

#[tokio::test]
async fn without_a_name_the_machine_says_its_own_or_its_address() {
    let server = Scripted::start(|line| match line.split_once(' ') {
        Some(("EHLO", name)) if name.contains('.') => Say("250 scripted"),
        Some(("EHLO", _)) => Say("501 that is no name"),
        _ => Say("250 ok"),
    })
    .await;
    let nameless = SmtpSettings { hello_name: None, ..settings(server.port) };
    Smtp::new(nameless).unwrap().greet().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_has_carried_enough_says_goodbye() {
    let first = format!("{IN_GROUPS}{}< QUIT\n<|\n", GROUP.repeat(100));
    let server = Dialogue::start([first, format!("{IN_GROUPS}{GROUP}")]).await;
    let smtp = smtp(server.port);
    for _ in 0..101 {
        smtp.send(&mail(ADA)).await.unwrap();
    }
    server.finish().await;
}

#[tokio::test]
async fn roots_without_a_certificate_are_refused() {
    let (_, authority) = authority();
    let starttls = |roots: &str| SmtpSettings {
        tls: Tls::Starttls,
        roots: Some(roots.to_owned()),
        ..settings(25)
    };
    assert!(Smtp::new(starttls(&authority)).is_ok());
    assert!(Smtp::new(starttls("nothing")).is_err());
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(Smtp::new(starttls(broken)).is_err());
}

#[tokio::test]
async fn letters_beyond_ascii_are_announced() {
    let hello =
        ONE_BY_ONE.replace("> 250 scripted", "> 250-scripted\n> 250-SMTPUTF8\n> 250 8BITMIME");
    let script = format!(
        "{hello}< MAIL FROM:<bounces@example.org> SMTPUTF8 BODY=8BITMIME\n> 250 ok\n< RCPT TO:<päul@example.net>\n> 250 ok\n< DATA\n> 354 go\n<.\n> 250 ok\n"
    );
    let server = Dialogue::start([script]).await;
    let mut mail = mail(&["päul@example.net"]);
    mail.mime = "Subject: ü\r\n\r\nä\r\n".into();
    smtp(server.port).send(&mail).await.unwrap();
    server.finish().await;
    // To a server that takes only ASCII it does not go at all, and the next message does.
    let server = Dialogue::start([format!("{IN_GROUPS}{GROUP}")]).await;
    let plain = smtp(server.port);
    mail.to = vec!["ada@example.net".parse().unwrap()];
    let error = plain.send(&mail).await.unwrap_err();
    assert!(matches!(error, SendError::Refused(_)), "{error:?}");
    plain.send(&crate::mail(ADA)).await.unwrap();
    server.finish().await;
}
