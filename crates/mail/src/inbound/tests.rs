//! Replies as they really look.

use proptest::prelude::*;

use super::*;

const REPLY: &str = "Return-Path: <ada@example.net>\r\n\
DKIM-Signature: v=1; a=rsa-sha256; d=example.net; h=from:to;\r\n\tb=AAAA\r\n\
From: =?utf-8?Q?Ada_L=C3=B6velace?=\r\n <Ada@Example.NET>\r\n\
To: \"Shop, The\" <shop@example.org>\r\n\
Cc: bob@example.org, not an address\r\n\
Reply-To: other@example.com\r\n\
Subject: =?utf-8?B?UmU6IGhlbGzDtg==?=\r\n\
In-Reply-To: <t.101.abc@example.org>\r\n\
References: <first@example.org>\r\n <t.101.abc@example.org>\r\n\
Message-ID: <reply@example.net>\r\n\
Date: Wed, 1 Jul 2026 14:00:00 +0200\r\n\
MIME-Version: 1.0\r\n\
Content-Type: multipart/alternative;\r\n boundary=\"b1\"\r\n\r\n\
--b1\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nThanks, great!\r\n\
--b1\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>Thanks, great!</p>\r\n--b1--\r\n";

#[test]
fn a_reply_says_who_and_what_it_answers() {
    insta::assert_debug_snapshot!(parse(REPLY.as_bytes()).unwrap());
}

#[test]
fn html_alone_becomes_text() {
    let mime = "From: ada@example.net\r\nContent-Type: text/html\r\n\r\n<p>Yes &amp; no</p><script>x</script>";
    assert_eq!(parse(mime.as_bytes()).unwrap().text, "Yes & no");
}

#[test]
fn what_a_machine_wrote_is_told_from_what_a_person_wrote() {
    let check = |headers: &str, automatic: bool| {
        let mime = format!("From: ada@example.net\r\n{headers}\r\n\r\nhello");
        assert_eq!(parse(mime.as_bytes()).unwrap().auto_reply, automatic, "{headers}");
    };
    check("Subject: Re: out of office hours", false);
    check("Auto-Submitted: no", false);
    check("Return-Path: <ada@example.net>", false);
    check("Auto-Submitted: auto-replied (vacation)", true);
    check("auto-submitted:\r\n auto-generated", true);
    check("X-Autoreply: yes", true);
    check("Precedence: auto_reply", true);
    check("Precedence: bulk", true);
    check("Precedence: first-class", false);
    check("X-Auto-Response-Suppress: OOF, AutoReply", true);
    check("Return-Path: <>", true);
    check("Subject: Automatic reply: Hello", true);
    check("Subject: =?utf-8?Q?R=C3=A9ponse_automatique_:_absent?=", true);
}

#[test]
fn what_is_too_much_is_cut_or_refused() {
    let long = format!(
        "From: ada@example.net\r\nSubject: {}\r\n\r\n{}",
        "ä".repeat(3000),
        "ö".repeat(100_000)
    );
    let inbound = parse(long.as_bytes()).unwrap();
    assert!(inbound.text.len() <= MAX_TEXT_BYTES && inbound.text.len() > MAX_TEXT_BYTES - 4);
    assert!(inbound.subject.len() <= 1000);
    assert_eq!(parse(&vec![b'x'; MAX_BYTES + 1]), Err(InboundError::TooBig));
    assert_eq!(parse(b"Subject: nobody\r\n\r\nx"), Err(InboundError::NoSender));
    assert_eq!(parse(b"From: nobody at all\r\n\r\nx"), Err(InboundError::NoSender));
}

#[test]
fn a_forwarded_reply_has_a_new_header_and_the_old_body() {
    let cmd = Forward {
        captured: "shop@example.org".parse().unwrap(),
        to: "team@example.org".parse().unwrap(),
        message_id: "f.1@example.org".into(),
        date: "2026-07-01T12:00:01Z".parse().unwrap(),
    };
    let mail = forward(REPLY.as_bytes(), &cmd).unwrap();
    insta::assert_snapshot!(String::from_utf8(mail.mime.clone()).unwrap());
    let read = parse(&mail.mime).unwrap();
    assert_eq!(read.text, "Thanks, great!");
    // Mail out of a file, with folded headers and other line ends, is forwarded just as well.
    let other = forward(REPLY.replace("\r\n", "\n").as_bytes(), &cmd).unwrap();
    assert_eq!(other.mime, mail.mime);
}

proptest! {
    #[test]
    fn nothing_that_comes_in_breaks_the_reader(mime in any::<Vec<u8>>(), name in "[ -~]{0,60}") {
        let _ = parse(&mime);
        let _ = contents(&mime);
        let _ = report(&mime);
        let reply = format!("From: {name} <ada@example.net>\r\nSubject: {name}\r\n\r\n.\r\nBcc: x\r\n");
        let cmd = Forward {
            captured: "shop@example.org".parse().unwrap(),
            to: "team@example.org".parse().unwrap(),
            message_id: "f.1@example.org".into(),
            date: Timestamp::UNIX_EPOCH,
        };
        if let Ok(mail) = forward(reply.as_bytes(), &cmd) {
            let message = MessageParser::new().parse(&mail.mime).unwrap();
            let names: Vec<_> = message.headers().iter().map(|header| header.name().to_owned()).collect();
            prop_assert_eq!(names, ["From", "To", "Reply-To", "Subject", "Date", "Message-ID", "X-Original-From",
                "Auto-Submitted", "X-Auto-Response-Suppress", "MIME-Version"]);
            prop_assert_eq!(message.from().unwrap().first().unwrap().address(), Some("shop@example.org"));
        }
    }
}
