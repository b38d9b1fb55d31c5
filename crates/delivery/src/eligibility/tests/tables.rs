//! The order of the checks and each kind of message, as tables.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use tidings_access::ClientId;
use tidings_people::consent::{AudienceId, Status, TopicId};

use crate::eligibility::facts::{Facts, Standing};
use crate::eligibility::rules::{Cap, Policy, Quiet, decide};
use crate::eligibility::{Explanation, Kind, Outcome, Question, Reason, Verdict};

fn now() -> Timestamp {
    "2026-07-01T23:00:00Z".parse().unwrap()
}

fn standing(status: Status) -> Option<Standing> {
    let left = (status == Status::Unsubscribed).then(|| "2026-06-01T00:00:00Z".parse().unwrap());
    let agreed = (status == Status::Subscribed).then(|| "2026-05-01T00:00:00Z".parse().unwrap());
    Some(Standing { status, verified: false, agreed_at: agreed, unsubscribed_at: left })
}

/// Facts in words.
fn facts(words: &str) -> Facts {
    let mut facts = Facts { known: true, ..Facts::default() };
    for word in words.split_whitespace() {
        match word {
            "unknown" => facts.known = false,
            "bounced" => facts.suppressed = Some(Reason::HardBounce),
            "complained" => facts.suppressed = Some(Reason::Complaint),
            "blocked" => facts.suppressed = Some(Reason::Manual),
            "erased" => facts.erased_at = Some(now()),
            "left" => facts.unsubscribed_at = Some(now()),
            "marked" => facts.unsubscribed_mark = true,
            "audience:subscribed" => facts.audience_wide = standing(Status::Subscribed),
            "audience:pending" => facts.audience_wide = standing(Status::Pending),
            "audience:left" => facts.audience_wide = standing(Status::Unsubscribed),
            "client:subscribed" => facts.client_part = standing(Status::Subscribed),
            "client:pending" => facts.client_part = standing(Status::Pending),
            "client:left" => facts.client_part = standing(Status::Unsubscribed),
            "client:back" => {
                let back =
                    Standing { agreed_at: Some(now()), ..standing(Status::Subscribed).unwrap() };
                facts.client_part = Some(back);
            }
            "client:confirmed" => {
                let confirmed =
                    Standing { verified: true, ..standing(Status::Subscribed).unwrap() };
                facts.client_part = Some(confirmed);
            }
            "double" => facts.double_opt_in = true,
            "verified" => facts.verified = true,
            "invalid" => facts.invalid = true,
            "off" => facts.topic_off = true,
            "often" => facts.sent = vec![now(), "2026-07-01T13:00:00Z".parse().unwrap()],
            "once" => facts.sent = vec![now()],
            "tokyo" => facts.zone = Some(TimeZone::get("Asia/Tokyo").unwrap()),
            other => panic!("no such fact: {other}"),
        }
    }
    facts
}

fn policy() -> Policy {
    let quiet = Quiet {
        from: "22:00".parse().unwrap(),
        until: "08:00".parse().unwrap(),
        zone: TimeZone::UTC,
    };
    Policy { cap: Some(Cap { count: 2, hours: 24 }), quiet: Some(quiet) }
}

/// A question in words: the kind, then `audience` and `topic` if it has them.
fn ask(question: &str, words: &str, policy: &Policy) -> Explanation {
    let mut parts = question.split_whitespace();
    let mut question = Question {
        kind: parts.next().unwrap().parse().unwrap(),
        email: "ada@example.org".parse().unwrap(),
        client: ClientId::from(1),
        audience: None,
        topic: None,
    };
    for part in parts {
        match part {
            "audience" => question.audience = Some(AudienceId::from(1)),
            "topic" => question.topic = Some(TopicId::from(1)),
            other => panic!("no such part: {other}"),
        }
    }
    decide(&question, &facts(words), policy, now())
}

fn told(explanation: &Explanation) -> String {
    match explanation.verdict {
        Verdict::Send => "send".to_owned(),
        Verdict::Skip(reason) => reason.as_str().to_owned(),
        Verdict::Defer { reason, until } => format!("{} until {until}", reason.as_str()),
    }
}

fn check(question: &str, words: &str, expected: &str) {
    let explanation = ask(question, words, &Policy::default());
    assert_eq!(told(&explanation), expected, "{question} + {words}");
}

fn check_with_policy(question: &str, words: &str, expected: &str) {
    assert_eq!(told(&ask(question, words, &policy())), expected, "{question} + {words}");
}

const ALL: [&str; 8] = [
    "transactional",
    "transactional topic",
    "reminder",
    "reminder topic",
    "sequence",
    "sequence topic",
    "campaign audience",
    "campaign audience topic",
];

#[test]
fn nothing_ignores_a_suppression_or_an_erasure() {
    for question in ALL {
        for (words, reason) in [
            ("bounced", "hard_bounce"),
            ("complained", "complaint"),
            ("blocked", "manual"),
            ("erased", "erased"),
            ("bounced erased left off", "hard_bounce"),
            ("unknown complained", "complaint"),
        ] {
            check(question, &format!("client:subscribed {words}"), reason);
        }
    }
}

/// Each row has one fact less than the one before: the order is what decides.
#[test]
fn the_first_reason_in_the_order_is_told() {
    let mut words: Vec<_> =
        "blocked erased left audience:left client:left off invalid often".split(' ').collect();
    for reason in
        ["manual", "erased", "global_unsubscribe", "audience_unsubscribe", "client_unsubscribe"]
    {
        check_with_policy("campaign audience topic", &words.join(" "), reason);
        words.remove(0);
    }
    check_with_policy("campaign audience topic", "off invalid double often", "not_subscribed");
    check_with_policy("campaign audience topic", "client:pending off invalid often", "unverified");
    let mut words: Vec<_> = "off invalid double often client:subscribed".split(' ').collect();
    for reason in ["topic_off", "invalid_address", "unverified"] {
        check_with_policy("campaign audience topic", &words.join(" "), reason);
        words.remove(0);
    }
    check_with_policy(
        "campaign audience topic",
        "often client:subscribed",
        "frequency_cap until 2026-07-02T13:00:00Z",
    );
    check_with_policy(
        "campaign audience topic",
        "once client:subscribed",
        "quiet_hours until 2026-07-02T08:00:00Z",
    );
}

#[test]
fn transactional_mail_ignores_unsubscribes_unless_it_has_a_topic() {
    let left = "left marked audience:left client:left invalid double often";
    for kind in ["transactional", "reminder"] {
        check(kind, left, "send");
        check(&format!("{kind} audience"), left, "send");
        check_with_policy(kind, left, "send");
        check(&format!("{kind} topic"), "left", "global_unsubscribe");
        check(&format!("{kind} topic"), "marked", "global_unsubscribe");
        check(&format!("{kind} topic"), "off", "topic_off");
        check(&format!("{kind} topic"), "audience:left client:left", "send");
        check(kind, "off", "send");
        check(kind, "unknown", "send");
    }
}

#[test]
fn either_of_relation_and_profile_is_enough_to_have_left() {
    for kind in ["sequence", "campaign", "campaign audience"] {
        for words in ["left", "marked", "left marked"] {
            check(kind, &format!("client:subscribed {words}"), "global_unsubscribe");
        }
    }
}

#[test]
fn mail_to_an_audience_needs_a_subscription_to_it() {
    for (words, expected) in [
        ("", "not_subscribed"),
        ("unknown", "not_subscribed"),
        ("client:subscribed", "send"),
        ("audience:subscribed", "send"),
        ("client:pending", "unverified"),
        ("audience:pending", "unverified"),
        ("audience:subscribed client:pending", "send"),
        ("audience:subscribed client:left", "client_unsubscribe"),
        ("audience:left client:subscribed", "audience_unsubscribe"),
        ("audience:left client:back", "send"),
        ("audience:left client:left", "audience_unsubscribe"),
    ] {
        check("campaign audience", words, expected);
        check("sequence audience", words, expected);
    }
    check("sequence", "unknown", "send");
    check("campaign", "", "send");
}

#[test]
fn where_a_confirmation_is_wanted_one_is_needed() {
    check("campaign audience", "double client:subscribed", "unverified");
    check("campaign audience", "double audience:subscribed", "unverified");
    check("campaign audience", "double client:confirmed", "send");
    check("campaign audience", "double client:subscribed verified", "send");
    check("campaign audience", "client:subscribed", "send");
    check("campaign", "double", "send");
}

#[test]
fn marketing_waits_and_other_mail_does_not() {
    for kind in ["sequence", "campaign"] {
        check_with_policy(kind, "often", "frequency_cap until 2026-07-02T13:00:00Z");
        check_with_policy(kind, "once", "quiet_hours until 2026-07-02T08:00:00Z");
        // It is eight in the morning there.
        check_with_policy(kind, "once tokyo", "send");
    }
    check_with_policy("transactional", "often", "send");
    check_with_policy("reminder", "often", "send");
}

#[test]
fn every_check_is_told_in_its_order() {
    let explanation = ask("campaign audience topic", "audience:subscribed often", &policy());
    let told: Vec<_> = explanation
        .checks
        .iter()
        .map(|one| format!("{} {}: {}", one.check.as_str(), one.outcome.as_str(), one.fact))
        .collect();
    insta::assert_snapshot!(told.join("\n"));
    let explanation = ask("transactional", "left", &policy());
    let asked: Vec<_> =
        explanation.checks.iter().filter(|one| one.outcome != Outcome::NotAsked).collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
}

#[test]
fn quiet_hours_end_in_the_morning_of_the_person() {
    let check = |zone: &str, hours: &str, at: &str, expected: &str| {
        let (from, until) = hours.split_once('-').unwrap();
        let zone = TimeZone::get(zone).unwrap();
        let quiet = Quiet {
            from: from.parse().unwrap(),
            until: until.parse().unwrap(),
            zone: zone.clone(),
        };
        let ends = quiet.ends(at.parse().unwrap(), &zone);
        let ends = ends.map_or("now".to_owned(), |at| at.to_string());
        assert_eq!(ends, expected, "{zone:?} {hours} {at}");
    };
    check("UTC", "22:00-08:00", "2026-07-01T21:59:59Z", "now");
    check("UTC", "22:00-08:00", "2026-07-01T22:00:00Z", "2026-07-02T08:00:00Z");
    check("UTC", "22:00-08:00", "2026-07-02T07:59:59Z", "2026-07-02T08:00:00Z");
    check("UTC", "22:00-08:00", "2026-07-02T08:00:00Z", "now");
    check("UTC", "12:00-14:00", "2026-07-02T13:00:00Z", "2026-07-02T14:00:00Z");
    check("UTC", "12:00-14:00", "2026-07-02T11:00:00Z", "now");
    check("Europe/Berlin", "22:00-08:00", "2026-07-01T20:00:00Z", "2026-07-02T06:00:00Z");
    check("America/New_York", "22:00-08:00", "2026-07-01T22:00:00Z", "now");
    // The night in which the clock is put forward: half past two does not exist, and three o'clock comes at once.
    check("Europe/Berlin", "22:00-02:30", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z");
    // The night in which it is put back: half past two comes twice, and the first ends the quiet hours.
    check("Europe/Berlin", "22:00-02:30", "2026-10-25T00:15:00Z", "2026-10-25T00:30:00Z");
    check("Europe/Berlin", "22:00-02:30", "2026-10-25T01:15:00Z", "2026-10-25T01:16:00Z");
}

#[test]
fn kinds_have_names() {
    for kind in Kind::ALL {
        assert_eq!(kind.as_str().parse(), Ok(kind));
    }
    assert!("spam".parse::<Kind>().is_err());
}

#[test]
fn who_is_claimed_waits_for_the_window_or_for_those_who_hand_over_to_him() {
    let check = |count, sent: &[i64], open, expected: Option<&str>| {
        let sent: Vec<_> = sent.iter().map(|hours| now() - hours.hours()).collect();
        let until = Cap { count, hours: 24 }.waits(&sent, open, now());
        assert_eq!(until, expected.map(|at| at.parse().unwrap()), "{count} {sent:?} {open}");
    };
    check(1, &[], 0, None);
    check(2, &[3], 0, None);
    check(2, &[], 1, None);
    check(1, &[3], 0, Some("2026-07-02T20:00:00Z"));
    check(2, &[3, 9, 20], 0, Some("2026-07-02T14:00:00Z"));
    check(2, &[3, 9], 1, Some("2026-07-02T14:00:00Z"));
    check(2, &[3], 1, Some("2026-07-01T23:01:00Z"));
    check(1, &[], 3, Some("2026-07-01T23:01:00Z"));
}
