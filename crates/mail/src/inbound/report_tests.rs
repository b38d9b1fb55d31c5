//! Reports in the shapes in which the usual servers write them.

use proptest::prelude::*;

use super::*;

const POSTFIX: &str = include_str!("../../tests/reports/postfix.eml");
const EXCHANGE: &str = include_str!("../../tests/reports/exchange.eml");
const GMAIL: &str = include_str!("../../tests/reports/gmail.eml");
const COMPLAINT: &str = include_str!("../../tests/reports/complaint.eml");

/// What a report says, in a line for each recipient.
fn told(mime: &str) -> String {
    let Some(report) = report(mime.as_bytes()).unwrap() else { return "no report".to_owned() };
    let about = report.about.first().map_or("nothing", String::as_str);
    match report.says {
        Says::Delivery(fates) => {
            let line = |fate: &Fate| {
                let recipients: Vec<_> = fate.recipients.iter().map(EmailAddress::as_str).collect();
                let status = fate.status.as_deref().unwrap_or_default();
                format!("{about} {:?} {status} for {}", fate.action, recipients.join(" or "))
            };
            fates.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        Says::Complaint { feedback, .. } => format!("{about} {}", feedback.unwrap_or_default()),
        Says::Other => format!("{about} something else"),
    }
}

#[test]
fn a_report_says_of_which_mail_what_became_for_whom() {
    let (alone, both) = ("for bob@example.org", "for bob@example.org or bob@example.org");
    assert_eq!(told(POSTFIX), format!("OURS Failed 5.1.1 {both}"));
    let other = "for bob@example.org or bob@corp.onmicrosoft.com";
    assert_eq!(told(EXCHANGE), format!("OURS Failed 5.1.10 {other}"));
    assert_eq!(told(GMAIL), format!("OURS Failed 5.2.2 {alone}"));
    assert_eq!(told(COMPLAINT), "OURS abuse");
    for mime in [POSTFIX, EXCHANGE, GMAIL, COMPLAINT] {
        // The same with the line ends of mail on the wire.
        assert_eq!(told(mime), told(&mime.replace('\n', "\r\n")));
        assert!(report(mime.as_bytes()).unwrap().unwrap().date.is_some());
    }
    let late = POSTFIX.replace("Action: failed", "action: Delayed").replace("5.1.1\n", "4.4.1\n");
    assert_eq!(told(&late), format!("OURS Delayed 4.4.1 {both}"));
    let two =
        "\n\nFinal-Recipient: rfc822; <eve@example.org>\nAction: relayed\nStatus: 2.0.0 (ok)\n";
    let two = GMAIL.replacen("Last-Attempt-Date:", &format!("X:{two}Last-Attempt-Date:"), 1);
    let eve = "OURS Other 2.0.0 for eve@example.org";
    assert_eq!(told(&two), format!("OURS Failed 5.2.2 {alone}\n{eve}"));
}

#[test]
fn the_words_of_a_server_are_on_one_line() {
    let report = report(GMAIL.as_bytes()).unwrap().unwrap();
    let Says::Delivery(fates) = report.says else { panic!("{report:?}") };
    let diagnostic = fates[0].diagnostic.clone().unwrap();
    assert!(diagnostic.starts_with("smtp; 552-5.2.2 The recipient's inbox"), "{diagnostic}");
    assert!(diagnostic.ends_with("OverQuotaPerm") && !diagnostic.contains('\n'), "{diagnostic}");
}

#[test]
fn the_mail_that_came_back_says_which_it_was_if_nothing_else_does() {
    let only_referred = EXCHANGE.replace("Message-ID: <OURS>", "X-Id: 1");
    assert_eq!(told(&only_referred).split(' ').next(), Some("OURS"));
    let gone = only_referred.replace("<OURS>", "<THEIRS>");
    assert_eq!(told(&gone).split(' ').next(), Some("THEIRS"));
    // What the mail itself says goes before what others say of it.
    let twofold = EXCHANGE.replace("In-Reply-To:\n\t<OURS>", "In-Reply-To: <THEIRS>");
    assert_eq!(told(&twofold).split(' ').next(), Some("OURS"));
}

#[test]
fn another_mail_is_no_report() {
    assert_eq!(told("From: ada@example.net\n\nAction: failed\n"), "no report");
    let read = POSTFIX.replace("message/delivery-status", "message/disposition-notification");
    assert_eq!(told(&read), "OURS something else");
    // Nobody needs to have signed it.
    assert!(
        told(&POSTFIX.replace("From: MAILER-DAEMON@mx.example.net", "From: MAILER-DAEMON"))
            .contains("5.1.1")
    );
}

proptest! {
    #[test]
    fn no_report_breaks_the_reader(
        from in 0usize..2500, bytes in prop::collection::vec(any::<u8>(), 0..60), which in 0usize..4,
    ) {
        let mut mime = [POSTFIX, EXCHANGE, GMAIL, COMPLAINT][which].as_bytes().to_vec();
        let from = from.min(mime.len());
        let until = (from + bytes.len()).min(mime.len());
        mime.splice(from..until, bytes);
        if let Ok(Some(report)) = report(&mime) {
            prop_assert!(report.about.len() <= MAX_LISTED);
        }
    }
}
