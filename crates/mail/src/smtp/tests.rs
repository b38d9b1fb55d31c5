//! What each answer means, how it is read, and how a message is written. The way over the wire is in `tests/smtp`.

use proptest::prelude::{any, prop};
use tidings_kernel::SendError;

use super::answer::{Answer, Fault, Step, judge, judge_answer};
use super::body::Body;
use super::heard::Heard;

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

fn check(step: Step, code: u16, said: &str, meant: &str) {
    let found = judge_answer(step, code, said);
    assert_eq!(meaning(&found), meant, "{code} {said} to {step:?}");
    // The same when it was read off the wire.
    let answer = Fault::Answer(Answer { code, text: said.to_owned() });
    assert_eq!(judge(&answer, step), found);
}

#[test]
fn an_answer_says_whose_fault_it_is() {
    check(Step::Recipient, 550, "5.1.1 no such user", "nobody");
    check(Step::Recipient, 550, "5.1.2 no such domain", "nobody");
    check(Step::Recipient, 553, "5.1.3 that is no address", "nobody");
    check(Step::Recipient, 556, "5.1.10 takes no mail", "nobody");
    // Nothing certain of the address: words alone, whatever else is wrong with it, its mailbox, or who sends.
    check(Step::Recipient, 550, "no such user", "refused");
    check(Step::Recipient, 550, "5.1.0 address rejected", "refused");
    check(Step::Recipient, 550, "5.1.8 bad sender", "refused");
    check(Step::Recipient, 550, "5.2.1 mailbox disabled", "refused");
    check(Step::Recipient, 550, "5.7.1 5.1.1 we do not like you", "refused");
    check(Step::End, 550, "5.1.1 no such user", "refused");
    check(Step::Recipient, 450, "4.1.1 not sure", "later");
    check(Step::Recipient, 554, "5.7.1 blocked as spam", "refused");
    check(Step::End, 552, "5.3.4 message too big", "refused");
    check(Step::Body, 552, "5.3.4 message too big", "refused");
    check(Step::Mail, 530, "5.7.0 authentication required", "closed");
    check(Step::End, 554, "Message rejected: Sending paused for this account.", "closed");
    check(Step::Login, 535, "5.7.8 authentication failed", "closed");
    check(Step::Login, 454, "4.7.0 temporary authentication failure", "closed");
    check(Step::Connect, 554, "no service for you", "closed");
    check(Step::Connect, 421, "4.3.2 shutting down", "closed");
    check(Step::Connect, 421, "4.7.0 too many connections", "throttled");
    check(Step::Mail, 454, "Throttling failure: Maximum sending rate exceeded.", "throttled");
    check(Step::End, 421, "4.7.28 unusual rate of mail", "throttled");
    check(Step::Recipient, 451, "4.7.1 greylisted, come back", "later");
    check(Step::Recipient, 450, "4.2.1 mailbox busy", "later");
    check(Step::Recipient, 452, "4.2.2 The recipient's quota exceeded", "later");
    check(Step::Recipient, 451, "4.7.1 Try again later", "later");
    check(Step::Recipient, 450, "4.2.1 too many messages for this user, rate limit", "later");
    check(Step::Recipient, 452, "4.5.3 too many recipients", "later");
    check(Step::Recipient, 450, "4.7.1 rate limit exceeded", "throttled");
    check(Step::Recipient, 454, "Throttling failure", "throttled");
    check(Step::End, 451, "Daily message quota exceeded", "throttled");
    check(Step::Data, 452, "4.3.1 out of space", "later");
}

#[test]
fn without_an_answer_that_decides_only_the_step_counts() {
    let silences = || {
        let strange = Answer { code: 250, text: "ok".to_owned() };
        let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        [Fault::Answer(strange), Fault::Lost(lost), Fault::Late, Fault::Wrong("what?")]
    };
    for (step, meant) in [
        (Step::Connect, "closed"),
        (Step::Login, "closed"),
        (Step::Mail, "later"),
        (Step::Recipient, "later"),
        (Step::Data, "later"),
        (Step::Body, "later"),
        (Step::End, "uncertain"),
    ] {
        for fault in silences() {
            assert_eq!(meaning(&judge(&fault, step)), meant, "{fault:?} at {step:?}");
        }
    }
}

#[test]
fn of_an_answer_in_many_lines_nothing_is_kept_twice_and_not_everything() {
    for (text, said) in [
        ("5.1.1 no such user\n5.1.1 look it up", "5.1.1 no such user look it up"),
        ("5.1.1 no such user\n5.1.10 here", "5.1.1 no such user 5.1.10 here"),
        ("no such user\nat all", "no such user at all"),
        ("", ""),
    ] {
        assert_eq!(Answer { code: 550, text: text.to_owned() }.said(), said);
    }
    let long = Answer { code: 550, text: "ü".repeat(5000) };
    assert_eq!(long.said().chars().count(), 1000);
}

/// All answers in what came, and then what is wrong with the rest.
fn read(pieces: &[&[u8]]) -> (Vec<(u16, String)>, Option<&'static str>) {
    let mut heard = Heard::new();
    let mut answers = Vec::new();
    for piece in pieces {
        heard.room().extend_from_slice(piece);
        loop {
            match heard.next() {
                Ok(Some(answer)) => answers.push((answer.code, answer.text)),
                Ok(None) => break,
                Err(Fault::Wrong(what)) => return (answers, Some(what)),
                Err(fault) => panic!("{fault:?}"),
            }
        }
    }
    (answers, None)
}

#[test]
fn an_answer_ends_with_its_last_line() {
    let (answers, wrong) =
        read(&[b"250-one\r\n250-\r\n250 two\r\n354 go\r\n220\r\n550 5.1.1 n\0\xff\n25"]);
    let found: Vec<_> = answers.iter().map(|(code, text)| (*code, text.as_str())).collect();
    assert_eq!(found, [(250, "one\n\ntwo"), (354, "go"), (220, ""), (550, "5.1.1 n \u{fffd}")]);
    assert_eq!(wrong, None);
}

#[test]
fn what_is_no_answer_is_not_waited_for() {
    let endless = "250-and\r\n".repeat(200);
    let long = format!("250 {}\r\n", "x".repeat(3000));
    for (came, why) in [
        ("hello\r\n", "does not speak SMTP"),
        ("25\r\n", "does not speak SMTP"),
        ("\r\n", "does not speak SMTP"),
        ("250_ok\r\n", "does not speak SMTP"),
        ("150 wait\r\n", "does not speak SMTP"),
        ("650 what\r\n", "does not speak SMTP"),
        ("HTTP/1.1 400 Bad Request\r\n", "does not speak SMTP"),
        ("250-ok\r\n550 no\r\n", "two codes"),
        (&endless, "answer has no end"),
        (&long, "line has no end"),
        // Without its end as well.
        (&long[..2500], "line has no end"),
    ] {
        let (answers, wrong) = read(&[came.as_bytes()]);
        assert!(answers.is_empty(), "{answers:?}");
        assert!(wrong.is_some_and(|wrong| wrong.contains(why)), "{wrong:?} for {came:.40}");
    }
}

proptest::proptest! {
    #[test]
    fn it_does_not_matter_in_which_pieces_answers_come(cuts in prop::collection::vec(1_usize..30, 0..40)) {
        let came: &[u8] = b"250-server\r\n250-PIPELINING\r\n250 8BITMIME\r\n250 ok\r\n550 5.1.1 no\r\n354 go\r\n250 2.0.0 ok\r\n";
        let mut pieces = Vec::new();
        let mut rest = came;
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        assert_eq!(read(&pieces), read(&[came]));
        assert_eq!(read(&pieces).0.len(), 5);
    }

    #[test]
    fn nothing_that_comes_makes_it_panic(came in prop::collection::vec(any::<u8>(), 0..200)) {
        read(&[&came]);
    }

    #[test]
    fn a_message_arrives_as_it_was_written(lines in prop::collection::vec("[.a\r\n]{0,6}", 0..20)) {
        let mime = lines.join("\r\n");
        let sent = written(&mime);
        let text = sent.strip_suffix(".\r\n").unwrap();
        assert!(text.ends_with("\r\n"));
        // Nothing before the end passes for it, not even to a server for which a line feed alone ends a line.
        assert!(!text.starts_with(".\n") && !text.starts_with(".\r"), "{text:?}");
        assert!(!text.contains("\n.\n") && !text.contains("\n.\r"), "{text:?}");
        let undone = text.strip_prefix('.').unwrap_or(text).replace("\n.", "\n");
        let whole = if mime.ends_with("\r\n") { mime } else { format!("{mime}\r\n") };
        assert_eq!(undone, whole);
    }
}

fn written(mime: &str) -> String {
    let body = Body::new(mime.as_bytes());
    let (text, end) = body.after(0);
    assert_eq!(text.len() + end.len(), body.len());
    String::from_utf8([text, end].concat()).unwrap()
}

#[test]
fn a_dot_alone_does_not_end_a_message_early() {
    for (mime, sent) in [
        ("a\r\n", "a\r\n.\r\n"),
        ("a", "a\r\n.\r\n"),
        ("", "\r\n.\r\n"),
        (".\r\n..\r\na.b\r\n", "..\r\n...\r\na.b\r\n.\r\n"),
        ("a\n.\nb\r\n", "a\n..\nb\r\n.\r\n"),
    ] {
        assert_eq!(written(mime), sent, "{mime:?}");
    }
}

#[test]
fn a_message_is_finished_only_with_its_end() {
    let body = Body::new(b"ab\r\n");
    let rests: Vec<_> = (0..=7).map(|count| body.after(count)).collect();
    assert_eq!(rests[3], (&b"\n"[..], &b".\r\n"[..]));
    assert_eq!(rests[5], (&b""[..], &b"\r\n"[..]));
    let unfinished: Vec<_> = (0..=7).map(|count| body.is_unfinished(count)).collect();
    assert_eq!(unfinished, [true, true, true, true, true, false, false, false]);
}

#[test]
fn a_message_without_such_dots_is_not_copied() {
    let mime = b"From: a\r\n\r\nno dots. None\r\n";
    assert!(std::ptr::eq(Body::new(mime).after(0).0, &raw const mime[..]));
}
