//! Mail over real connections: Postfix's sink, a server with TLS and passwords, and one that behaves as a test says.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod dialogue;
mod faults;
mod pipelining;
mod scripted;
mod session;

use std::path::PathBuf;
use std::time::Duration;

use tidings_kernel::{Lane, Mail, SendError, Sender as _};
use tidings_mail::{Smtp, SmtpError, SmtpSettings, Tls};
use tidings_testkit::{SmtpSink, free_port};

use scripted::Reaction::{HangUp, Say, Silence};
use scripted::Scripted;

fn settings(port: u16) -> SmtpSettings {
    SmtpSettings {
        host: "127.0.0.1".into(),
        port,
        tls: Tls::None,
        credentials: None,
        connections: 2,
        hello_name: Some("tidings.example.org".into()),
        timeout: Duration::from_secs(5),
        roots: None,
    }
}

fn smtp(port: u16) -> Smtp {
    Smtp::new(settings(port)).unwrap()
}

fn mail(to: &[&str]) -> Mail {
    Mail {
        from: "bounces@example.org".parse().unwrap(),
        to: to.iter().map(|to| to.parse().unwrap()).collect(),
        mime: b"From: shop@example.org\r\nSubject: hello\r\n\r\none\r\n.\r\n..two\r\n".to_vec(),
        tags: vec![],
        lane: Lane::Transactional,
    }
}

fn meaning(error: &SendError) -> &'static str {
    match error {
        SendError::Refused(_) => "refused",
        SendError::NoSuchAddress { .. } => "nobody",
        SendError::Later(_) => "later",
        SendError::Throttled { .. } => "throttled",
        SendError::Closed(_) => "closed",
        SendError::Uncertain(_) => "uncertain",
    }
}

#[tokio::test]
async fn a_message_arrives_with_its_envelope() {
    let sink = SmtpSink::start(&[]);
    let accepted = smtp(sink.port).send(&mail(&["ada@example.net", "hidden@example.net"])).await;
    accepted.unwrap();
    let messages = sink.messages();
    let [message] = messages.as_slice() else { panic!("{messages:?}") };
    for line in [
        "X-Mail-Args: <bounces@example.org>",
        "X-Rcpt-Args: <ada@example.net>",
        "X-Rcpt-Args: <hidden@example.net>",
        "Subject: hello",
        "\n.\n..two\n",
    ] {
        assert!(message.contains(line), "{line:?} in {message}");
    }
    assert!(message.contains("tidings.example.org"), "{message}");
}

#[tokio::test]
async fn many_messages_share_few_connections() {
    let server = Scripted::start(|line| match line.split(' ').next().unwrap_or_default() {
        "EHLO" => Say("250 scripted"),
        "DATA" => Say("354 go on"),
        _ => Say("250 2.0.0 Ok: queued as A1B2C3D4"),
    })
    .await;
    let smtp = std::sync::Arc::new(smtp(server.port));
    let mut sends = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let smtp = std::sync::Arc::clone(&smtp);
        sends.spawn(async move { smtp.send(&mail(&["ada@example.net"])).await });
    }
    while let Some(sent) = sends.join_next().await {
        assert_eq!(sent.unwrap().unwrap().provider_id.as_deref(), Some("A1B2C3D4"));
    }
    assert!(server.connections() <= 2, "{} connections", server.connections());
}

/// A server that never answers for those who are slow.
async fn slow_for_some() -> Scripted {
    Scripted::start(|line| match line.split(' ').next().unwrap_or_default() {
        "EHLO" => Say("250 scripted"),
        "RCPT" if line.contains("slow") => Silence,
        "DATA" => Say("354 go on"),
        _ => Say("250 2.0.0 Ok: queued as A1B2C3D4"),
    })
    .await
}

#[tokio::test]
async fn a_campaign_that_fills_the_connections_leaves_one_for_mail_that_somebody_waits_for() {
    for (connections, for_campaigns) in [(2, 1), (8, 6)] {
        let server = slow_for_some().await;
        let smtp = Smtp::new(SmtpSettings { connections, ..settings(server.port) }).unwrap();
        let smtp = std::sync::Arc::new(smtp);
        let mut campaign = tokio::task::JoinSet::new();
        for _ in 0..3 * connections {
            let smtp = std::sync::Arc::clone(&smtp);
            let letter = Mail { lane: Lane::Campaign, ..mail(&["slow@example.net"]) };
            campaign.spawn(async move { smtp.send(&letter).await });
        }
        while server.connections() < for_campaigns {
            tokio::task::yield_now().await;
        }
        let awaited = mail(&["ada@example.net"]);
        let at_once = tokio::time::timeout(Duration::from_secs(2), smtp.send(&awaited)).await;
        at_once.expect("it does not wait").unwrap();
        assert_eq!(server.connections(), for_campaigns + 1, "of {connections}");
    }
}

#[tokio::test]
async fn with_a_single_connection_only_one_message_is_before_mail_that_somebody_waits_for() {
    let server = slow_for_some().await;
    let timeout = Duration::from_millis(500);
    let settings = SmtpSettings { connections: 1, timeout, ..settings(server.port) };
    let smtp = std::sync::Arc::new(Smtp::new(settings).unwrap());
    let mut campaign = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let smtp = std::sync::Arc::clone(&smtp);
        let letter = Mail { lane: Lane::Campaign, ..mail(&["slow@example.net"]) };
        campaign.spawn(async move { smtp.send(&letter).await });
    }
    while server.connections() < 1 {
        tokio::task::yield_now().await;
    }
    let awaited = mail(&["ada@example.net"]);
    let soon = tokio::time::timeout(Duration::from_secs(4), smtp.send(&awaited)).await;
    soon.expect("it does not wait for all of them").unwrap();
}

#[tokio::test]
async fn a_refused_recipient_is_refused_for_good_and_the_connection_lives_on() {
    let sink = SmtpSink::start(&["-f", "RCPT"]);
    let smtp = smtp(sink.port);
    for _ in 0..2 {
        let refused = smtp.send(&mail(&["ada@example.net"])).await.unwrap_err();
        assert!(
            matches!(&refused, SendError::Refused(text) if text.contains("RCPT")),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_refused_copy_does_not_cost_the_recipient_his_message() {
    let server = Scripted::start(|line| match line.split(' ').next().unwrap_or_default() {
        "EHLO" => Say("250 scripted"),
        "RCPT" if line.contains("full") => Say("452 4.2.2 mailbox full"),
        "RCPT" if line.contains("gone") => Say("550 5.1.1 no such user"),
        "RCPT" if line.contains("never") => HangUp,
        "DATA" => Say("354 go on"),
        _ => Say("250 2.0.0 Ok: queued as A1B2C3D4"),
    })
    .await;
    let smtp = smtp(server.port);
    let copies = mail(&["ada@example.net", "full@example.net", "gone@example.net"]);
    let accepted = smtp.send(&copies).await.unwrap();
    assert_eq!(accepted.provider_id.as_deref(), Some("A1B2C3D4"));
    let left_out: Vec<_> =
        accepted.left_out.iter().map(|(to, why)| (to.as_str(), meaning(why))).collect();
    assert_eq!(left_out, [("full@example.net", "later"), ("gone@example.net", "nobody")]);
    let refused = smtp.send(&mail(&["gone@example.net", "ada@example.net"])).await.unwrap_err();
    assert_eq!(meaning(&refused), "nobody", "{refused:?}");
    // A lost connection is no answer of one mailbox: nobody has got it yet.
    let lost = smtp.send(&mail(&["ada@example.net", "never@example.net"])).await.unwrap_err();
    assert!(matches!(lost, SendError::Later(_)), "{lost:?}");
}

#[tokio::test]
async fn what_is_refused_for_now_can_come_later() {
    for step in ["MAIL", "RCPT", "DATA", "."] {
        let sink = SmtpSink::start(&["-r", step]);
        let later = smtp(sink.port).send(&mail(&["ada@example.net"])).await.unwrap_err();
        assert!(matches!(later, SendError::Later(_)), "{step}: {later:?}");
    }
}

#[tokio::test]
async fn a_connection_lost_before_the_message_has_lost_nothing() {
    for step in ["MAIL", "RCPT", "DATA"] {
        let sink = SmtpSink::start(&["-q", step]);
        let later = smtp(sink.port).send(&mail(&["ada@example.net"])).await.unwrap_err();
        assert!(matches!(later, SendError::Later(_)), "{step}: {later:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_nothing_against_the_message() {
    for step in ["CONNECT", "EHLO"] {
        let sink = SmtpSink::start(&["-q", step]);
        let gone = smtp(sink.port).send(&mail(&["ada@example.net"])).await.unwrap_err();
        assert!(matches!(gone, SendError::Closed(_)), "{step}: {gone:?}");
    }
    let nobody = smtp(free_port()).send(&mail(&["ada@example.net"])).await.unwrap_err();
    assert!(matches!(nobody, SendError::Closed(_)), "{nobody:?}");
    let unknown = SmtpSettings { host: "mx.invalid".into(), ..settings(25) };
    let unknown = Smtp::new(unknown).unwrap().send(&mail(&["ada@example.net"])).await.unwrap_err();
    assert!(matches!(unknown, SendError::Closed(_)), "{unknown:?}");
    let silent = Scripted::start(|_| Silence).await;
    let hasty = SmtpSettings { timeout: Duration::from_millis(200), ..settings(silent.port) };
    let silent = Smtp::new(hasty).unwrap().send(&mail(&["ada@example.net"])).await.unwrap_err();
    assert!(matches!(silent, SendError::Closed(_)), "{silent:?}");
}

#[tokio::test]
async fn a_connection_lost_after_the_message_leaves_it_uncertain() {
    let sink = SmtpSink::start(&["-q", "."]);
    let lost = smtp(sink.port).send(&mail(&["ada@example.net"])).await.unwrap_err();
    assert!(matches!(lost, SendError::Uncertain(_)), "{lost:?}");
}

#[tokio::test]
async fn no_answer_to_the_message_in_time_leaves_it_uncertain() {
    let server = Scripted::start(|line| match line.split(' ').next().unwrap_or_default() {
        "EHLO" => Say("250 scripted"),
        "DATA" => Say("354 go on"),
        "." => Silence,
        _ => Say("250 ok"),
    })
    .await;
    let smtp =
        Smtp::new(SmtpSettings { timeout: Duration::from_millis(200), ..settings(server.port) });
    let lost = smtp.unwrap().send(&mail(&["ada@example.net"])).await.unwrap_err();
    assert!(matches!(lost, SendError::Uncertain(_)), "{lost:?}");
}

#[tokio::test]
async fn too_many_at_once_means_go_slower() {
    let server = Scripted::start(|line| match line.split(' ').next().unwrap_or_default() {
        "EHLO" => Say("250 scripted"),
        "DATA" => Say("354 go on"),
        "." => Say("454 Throttling failure: Maximum sending rate exceeded."),
        _ => Say("250 ok"),
    })
    .await;
    let slower = smtp(server.port).send(&mail(&["ada@example.net"])).await.unwrap_err();
    assert!(matches!(slower, SendError::Throttled { .. }), "{slower:?}");
}

#[tokio::test]
async fn an_address_in_another_alphabet_needs_a_server_that_takes_it() {
    let sink = SmtpSink::start(&[]);
    let refused = smtp(sink.port).send(&mail(&["päul@example.net"])).await.unwrap_err();
    assert!(matches!(refused, SendError::Refused(_)), "{refused:?}");
}

#[tokio::test]
async fn a_password_goes_over_tls_only() {
    let credentials = Some(("tidings".to_owned(), "secret".to_owned()));
    let far = SmtpSettings { host: "mx.example.org".into(), credentials, ..settings(25) };
    assert!(matches!(Smtp::new(far), Err(SmtpError::Unprotected(_))));
}

#[tokio::test]
async fn a_server_without_starttls_gets_no_mail() {
    let sink = SmtpSink::start(&[]);
    let smtp = Smtp::new(SmtpSettings { tls: Tls::Starttls, ..settings(sink.port) }).unwrap();
    let closed = smtp.send(&mail(&["ada@example.net"])).await.unwrap_err();
    assert!(matches!(closed, SendError::Closed(_)), "{closed:?}");
    assert_eq!(sink.messages().len(), 0);
}

/// A server that wants TLS and a password.
fn protected() -> SmtpSettings {
    let at = environment("TIDINGS_TEST_SMTP_TLS");
    let (_, port) = at.rsplit_once(':').unwrap();
    let (_, authority) = authority();
    SmtpSettings {
        tls: Tls::Starttls,
        credentials: Some(("tidings".into(), "secret".into())),
        roots: Some(authority),
        ..settings(port.parse().unwrap())
    }
}

/// Who has signed the test servers' certificate: the file, and what is in it.
fn authority() -> (PathBuf, String) {
    let path = PathBuf::from(environment("TIDINGS_TEST_POSTGRES_CA"));
    let pem = std::fs::read_to_string(&path).unwrap();
    (path, pem)
}

fn environment(name: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "the script that starts the servers tells where")]
    let value = std::env::var(name);
    value.unwrap_or_else(|_| panic!("{name} is not set: run ./test, which starts the test servers"))
}

#[tokio::test]
async fn mail_goes_over_tls_after_a_login() {
    let smtp = Smtp::new(protected()).unwrap();
    assert!(!smtp.greet().await.unwrap().is_empty());
    for _ in 0..2 {
        let accepted = smtp.send(&mail(&["ada@example.net"])).await.unwrap();
        assert_eq!(accepted.provider_id.as_deref(), Some("TLS12345"));
    }
    let refused = smtp.send(&mail(&["c550@example.net", "ada@example.net"])).await.unwrap_err();
    assert!(matches!(refused, SendError::Refused(_)), "{refused:?}");
    // A copy that nobody takes does not cost the recipient his message.
    smtp.send(&mail(&["ada@example.net", "c550@example.net"])).await.unwrap();
    let later = smtp.send(&mail(&["c451@example.net"])).await.unwrap_err();
    assert!(matches!(later, SendError::Later(_)), "{later:?}");
}

#[tokio::test]
async fn a_wrong_password_is_nothing_against_the_message() {
    let credentials = Some(("tidings".to_owned(), "guess".to_owned()));
    let smtp = Smtp::new(SmtpSettings { credentials, ..protected() }).unwrap();
    let closed = smtp.send(&mail(&["ada@example.net"])).await.unwrap_err();
    assert!(matches!(closed, SendError::Closed(_)), "{closed:?}");
}

#[tokio::test]
async fn a_certificate_from_nowhere_is_not_trusted() {
    let smtp = Smtp::new(SmtpSettings { roots: None, ..protected() }).unwrap();
    let refused = smtp.send(&mail(&["ada@example.net"])).await.unwrap_err();
    assert!(matches!(refused, SendError::Closed(_)), "{refused:?}");
}
