//! Replies as they really look.

use proptest::prelude::*;

use super::*;
use crate::letter::{Content, check_attachment};

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
fn what_came_with_a_mail_can_go_on_with_another() {
    let mime = "From: ada@example.net\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
        --b\r\nContent-Type: multipart/alternative; boundary=a\r\n\r\n\
        --a\r\nContent-Type: text/plain\r\n\r\nHello\r\n\
        --a\r\nContent-Type: text/html; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
        <b>H=E9llo</b>\r\n--a--\r\n\
        --b\r\nContent-Type: application/pdf; name=\"../a\\b.pdf\"\r\nContent-Disposition: attachment\r\n\
        Content-Transfer-Encoding: base64\r\n\r\nJVBERg==\r\n\
        --b\r\nContent-Type: message/rfc822\r\nContent-Disposition: attachment\r\n\r\nSubject: inner\r\n\r\nx\r\n\
        --b\r\nContent-Type: nonsense\r\nContent-Disposition: attachment\r\n\r\nwhat\r\n--b--\r\n";
    let Pieces { html, files } = pieces(mime.as_bytes()).unwrap();
    assert_eq!(html.unwrap().trim(), "<b>Héllo</b>");
    let told: Vec<_> = files
        .iter()
        .map(|file| format!("{} {}", file.filename.as_deref().unwrap(), file.content_type))
        .collect();
    assert_eq!(
        told,
        [
            "..ab.pdf application/pdf",
            "attachment-2 application/octet-stream",
            "attachment-3 application/octet-stream"
        ]
    );
    assert_eq!(files[0].content, Content::Bytes(b"%PDF".to_vec()));
    assert!(files.iter().all(|file| check_attachment(file).is_empty()));
    let plain = pieces(b"From: ada@example.net\r\n\r\nHello\r\n").unwrap();
    assert_eq!(plain, Pieces { html: None, files: vec![] });
}

proptest! {
    #[test]
    fn nothing_that_comes_in_breaks_the_reader(mime in any::<Vec<u8>>(), name in "[ -~]{0,60}") {
        let _ = parse(&mime);
        let _ = contents(&mime);
        let _ = report(&mime);
        if let Ok(pieces) = pieces(&mime) {
            prop_assert!(pieces.files.iter().all(|file| check_attachment(file).is_empty()));
        }
        let named = format!("From: ada@example.net\r\nContent-Type: {name}\r\nContent-Disposition: attachment; \
            filename=\"{name}\"\r\n\r\nx\r\n");
        let pieces = pieces(named.as_bytes()).unwrap();
        prop_assert!(pieces.files.iter().all(|file| check_attachment(file).is_empty()), "{pieces:?}");
    }
}
