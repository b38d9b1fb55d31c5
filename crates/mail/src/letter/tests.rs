//! Letters written and read back with another library.

use mail_parser::{HeaderForm, HeaderValue, MessageParser, MimeHeaders as _};
use proptest::prelude::*;

use super::rules::one_line;
use super::*;

fn letter() -> Letter {
    Letter {
        from: Mailbox { name: Some("The Shop".into()), email: "shop@example.org".parse().unwrap() },
        reply_to: None,
        to: Mailbox { name: None, email: "ada@example.net".parse().unwrap() },
        cc: vec![],
        bcc: vec![],
        subject: "Hello".into(),
        html: Some("<p>Hello &amp; welcome</p>".into()),
        text: "Hello & welcome\n".into(),
        message_id: "<t.101.abc@example.org>".into(),
        date: "2026-07-01T12:00:00Z".parse().unwrap(),
        kind: Kind::Transactional,
        feedback_id: None,
        headers: vec![],
        attachments: vec![],
        calendar: None,
    }
}

fn marketing() -> Letter {
    let url = "https://example.org/u/TOKEN".into();
    let mailto = Some("leave@example.org".parse().unwrap());
    Letter {
        kind: Kind::Marketing {
            list_unsubscribe: ListUnsubscribe { url, mailto },
            list_id: Some("news.example.org".into()),
        },
        feedback_id: Some("c7:acme:campaign:shop".into()),
        ..letter()
    }
}

fn text_of(letter: &Letter) -> String {
    String::from_utf8(compose(letter).unwrap().mime).unwrap()
}

/// Headers in the order in which they stand, unfolded.
fn header_names(mime: &[u8]) -> Vec<String> {
    let message = MessageParser::new().parse(mime).unwrap();
    message.headers().iter().map(|header| header.name().to_owned()).collect()
}

fn check_wire(mime: &[u8]) {
    let text = String::from_utf8_lossy(mime);
    for line in text.split("\r\n") {
        assert!(line.len() <= 998, "a line of {} bytes", line.len());
        assert!(!line.contains(['\r', '\n']), "a bare break in {line:?}");
    }
}

#[test]
fn a_marketing_letter_says_how_to_leave() {
    insta::assert_snapshot!(text_of(&marketing()));
}

#[test]
fn a_transactional_letter_has_no_list_headers() {
    let text = text_of(&letter());
    insta::assert_snapshot!(text);
    for header in ["list-", "precedence"] {
        assert!(!text.to_lowercase().contains(&format!("\n{header}")), "{header}");
    }
}

#[test]
fn the_same_letter_is_the_same_bytes() {
    assert_eq!(compose(&marketing()), compose(&marketing()));
}

#[test]
fn everybody_is_in_the_envelope_and_the_hidden_ones_only_there() {
    let hidden = "boss@example.org".parse().unwrap();
    let copied =
        Mailbox { name: Some("Bob, Jr.".into()), email: "bob@example.org".parse().unwrap() };
    let again = "ADA@example.net".parse().unwrap();
    let letter = Letter { cc: vec![copied], bcc: vec![hidden, again], ..letter() };
    let mail = compose(&letter).unwrap();
    let to: Vec<_> = mail.to.iter().map(EmailAddress::as_str).collect();
    assert_eq!(to, ["ada@example.net", "bob@example.org", "boss@example.org"]);
    let text = String::from_utf8(mail.mime).unwrap();
    assert!(!text.contains("boss"), "{text}");
    assert!(text.contains("Cc: \"Bob, Jr.\" <bob@example.org>\r\n"), "{text}");
}

#[test]
fn an_invitation_and_attachments_arrive_as_they_were() {
    let attached = |filename: &str, content_type: &str, content, disposition| Attachment {
        filename: Some(filename.into()),
        content_type: content_type.into(),
        content,
        disposition,
    };
    let long = format!("{}.pdf", "Übergrößenträger, \"2026\" ".repeat(8).trim());
    let picture = Disposition::Inline { cid: Some("logo@shop".into()) };
    let letter = Letter {
        html: Some("<img src=\"cid:logo@shop\">".into()),
        calendar: Some(Calendar {
            method: "REQUEST".into(),
            ics: "BEGIN:VCALENDAR\nEND:VCALENDAR\n".into(),
        }),
        attachments: vec![
            attached(
                &long,
                "application/pdf",
                Content::Bytes(vec![0, 13, 10, 255]),
                Disposition::Attachment,
            ),
            attached(
                "a \"b\", c.txt",
                "text/plain; format=flowed",
                Content::Text("ä\r\n.\nx".into()),
                Disposition::Attachment,
            ),
            attached("logo.png", "image/png", Content::Bytes(vec![137, 80]), picture),
        ],
        ..letter()
    };
    let mail = compose(&letter).unwrap();
    check_wire(&mail.mime);
    let message = MessageParser::new().parse(&mail.mime).unwrap();
    let mut shape = String::new();
    for part in &message.parts {
        let kind = part.content_type().unwrap();
        let name = part.attachment_name().unwrap_or_default();
        let cid = part.content_id().unwrap_or_default();
        shape += &format!("{}/{} {name} {cid}\n", kind.ctype(), kind.subtype().unwrap_or_default());
    }
    insta::assert_snapshot!(shape);
    let pdf = message.attachments().find(|part| part.attachment_name() == Some(&long)).unwrap();
    assert_eq!(pdf.contents(), [0, 13, 10, 255]);
    let text = message
        .attachments()
        .find(|part| part.attachment_name() == Some("a \"b\", c.txt"))
        .unwrap();
    assert_eq!(text.text_contents(), Some("ä\r\n.\r\nx"));
    let calendar =
        message.parts.iter().find(|part| part.is_content_type("text", "calendar")).unwrap();
    assert_eq!(calendar.content_type().unwrap().attribute("method"), Some("REQUEST"));
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let attachment = |content_type: &str| Attachment {
        filename: Some("../x".into()),
        content_type: content_type.into(),
        content: Content::Text("x".into()),
        disposition: Disposition::Inline { cid: Some("a b".into()) },
    };
    let mut headers = vec![
        header("Bcc", "eve@example.org"),
        header("list-unsubscribe", "x"),
        header("X-A\r\nB", "x"),
        header("X-Ok", "a\r\nBcc: eve@example.org"),
        header("X-SES-CONFIGURATION-SET", "other"),
        header("x-ok", "twice"),
        header("X-Long", &"x".repeat(901)),
    ];
    headers.extend((0..14).map(|n| (format!("X-{n}"), String::new())));
    let bad = Letter {
        message_id: "no domain".into(),
        headers,
        attachments: vec![
            attachment("message/rfc822"),
            attachment("image/png"),
            attachment("what"),
        ],
        calendar: Some(Calendar { method: "BURN".into(), ics: "x".into() }),
        bcc: vec!["eve@example.org".parse().unwrap(); 50],
        feedback_id: Some("a\r\nb".into()),
        kind: Kind::Marketing {
            list_unsubscribe: ListUnsubscribe { url: "ftp://x>\r\n".into(), mailto: None },
            list_id: Some("a b".into()),
        },
        ..letter()
    };
    let ComposeError(violations) = compose(&bad).unwrap_err();
    let told: Vec<_> = violations.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn too_much_is_refused() {
    let big = |bytes| Attachment {
        filename: None,
        content_type: "application/octet-stream".into(),
        content: Content::Bytes(vec![0; bytes]),
        disposition: Disposition::Attachment,
    };
    let fits = Letter { attachments: vec![big(5 * 1024 * 1024), big(5 * 1024 * 1024)], ..letter() };
    assert!(compose(&fits).is_ok());
    let over =
        Letter { attachments: vec![big(5 * 1024 * 1024), big(5 * 1024 * 1024 + 1)], ..letter() };
    assert!(compose(&over).is_err());
    assert!(compose(&Letter { attachments: vec![big(1); 11], ..letter() }).is_err());
    assert!(compose(&Letter { text: "x".repeat(5 * 1024 * 1024), ..letter() }).is_err());
    assert!(compose(&Letter { subject: "x".repeat(999), ..letter() }).is_err());
}

proptest! {
    #[test]
    fn no_name_subject_or_header_makes_another_header(
        name in any::<String>(),
        subject in any::<String>(),
        ascii in "[ -~\r\n\t]{0,300}",
        value in any::<String>(),
    ) {
        let header = (String::from("X-Own"), value.clone());
        for subject in [subject, ascii] {
            let written = Letter {
                from: Mailbox { name: Some(name.clone()), email: "shop@example.org".parse().unwrap() },
                subject: subject.clone(),
                headers: vec![header.clone()],
                ..marketing()
            };
            if name.chars().count() > 200 || !check_header(&header.0, &header.1).is_empty() {
                prop_assert!(compose(&written).is_err());
                continue;
            }
            let mail = compose(&written).unwrap();
            check_wire(&mail.mime);
            let message = MessageParser::new().parse(&mail.mime).unwrap();
            prop_assert_eq!(header_names(&mail.mime), [
                "From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Auto-Submitted",
                "X-Auto-Response-Suppress", "List-Unsubscribe", "List-Unsubscribe-Post", "Precedence", "List-ID",
                "Feedback-ID", "X-Own", "Content-Type",
            ]);
            prop_assert_eq!(message.subject().unwrap_or_default(), one_line(&subject));
            let from = message.from().unwrap().first().unwrap();
            prop_assert_eq!(from.address(), Some("shop@example.org"));
            let shown = one_line(&name);
            prop_assert_eq!(from.name().unwrap_or_default(), &shown);
            let own = message.header_as("X-Own", HeaderForm::Text).pop();
            let own = own.and_then(HeaderValue::into_text).unwrap_or_default();
            prop_assert_eq!(own.trim_matches(' '), value.trim_matches(' '));
        }
    }

    #[test]
    fn a_body_keeps_its_words(text in any::<String>(), html in any::<String>()) {
        let mail = compose(&Letter { text: text.clone(), html: Some(html), ..letter() }).unwrap();
        check_wire(&mail.mime);
        prop_assert!(mail.mime.is_ascii());
        let message = MessageParser::new().parse(&mail.mime).unwrap();
        let read = message.body_text(0).unwrap();
        let meant = super::rules::with_crlf(&text);
        prop_assert_eq!(read.trim_end(), meant.trim_end());
    }
}
