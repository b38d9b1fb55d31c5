//! How findings are judged and shown.

use insta::assert_snapshot;

use super::{Finding, State, as_json, as_text, clock, worst};

#[test]
fn findings_are_shown_with_their_remedies() {
    let findings = [
        Finding::ok("store", "an item was written, read and deleted"),
        Finding::warn("disk", "only 0.4 GiB free in /data", "make room"),
        Finding::fail("port", "another program listens on 127.0.0.1:8080", "stop it"),
    ];
    assert_snapshot!(as_text(&findings, false));
    assert_snapshot!(format!("{:#}", as_json(&findings)));
    assert_eq!(worst(&findings), State::Fail);
    assert_eq!(worst(&findings[..2]), State::Warn);
    assert_eq!(worst(&findings[..1]), State::Ok);
}

#[test]
fn a_wrong_clock_is_noticed() {
    #[track_caller]
    fn check(ours: &str, theirs: Option<&str>, state: State) {
        let theirs = theirs.map(|time| time.parse::<jiff::Timestamp>().unwrap().as_second());
        assert_eq!(clock::judge(ours.parse().unwrap(), theirs).state, state);
    }
    check("2026-07-01T00:00:00Z", None, State::Ok);
    check("2026-07-01T00:00:00Z", Some("2026-07-01T00:00:05Z"), State::Ok);
    check("2026-07-01T00:00:00Z", Some("2026-07-01T00:00:06Z"), State::Fail);
    check("2026-07-01T00:00:00Z", Some("2026-06-30T23:59:00Z"), State::Fail);
    check("1970-01-01T00:10:00Z", None, State::Fail);
    check("2199-01-01T00:00:00Z", None, State::Fail);
}

#[cfg(feature = "aws")]
#[test]
fn what_ses_allows_is_compared_with_what_is_wanted() {
    #[track_caller]
    fn check(
        sends: bool,
        is_in_sandbox: bool,
        per_second: Option<f64>,
        expected: &[(State, &str)],
    ) {
        let account = tidings_aws::SesAccount { sends, is_in_sandbox, per_second };
        let findings = super::mail::judge_ses(account, 14);
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        for (finding, (state, said)) in findings.iter().zip(expected) {
            assert_eq!(finding.state, *state, "{finding:?}");
            assert!(finding.message.contains(said), "{finding:?}");
        }
    }
    let well = [(State::Ok, "lets this account send")];
    check(true, false, Some(14.0), &well);
    check(true, false, None, &well);
    let slow = (State::Warn, "mail.rate_per_second is 14, and SES takes 1 a second");
    check(true, false, Some(1.0), &[slow]);
    check(true, true, Some(1.0), &[(State::Warn, "sandbox"), slow]);
    check(false, true, Some(1.0), &[(State::Fail, "paused")]);
}
