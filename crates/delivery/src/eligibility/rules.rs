//! The checks, in their order: decisions without IO.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tidings_people::consent::Status;

use super::facts::{Facts, Standing};
use super::{Check, Checked, Explanation, Outcome, Question, Reason, Verdict};

/// When marketing mail waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    pub cap: Option<Cap>,
    pub quiet: Option<Quiet>,
}

/// So many in so many hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    pub count: u8,
    pub hours: u16,
}

/// When somebody is asked about again whose last place is with what is handed over just now: that may still be refused.
const A_WHILE: SignedDuration = SignedDuration::from_mins(1);

/// The hours in which nobody is written to. They may go over midnight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quiet {
    pub from: Time,
    pub until: Time,
    /// Where nobody knows where the person is.
    pub zone: TimeZone,
}

/// Goes through all checks. The first that stops the message decides, then the first that puts it off.
pub fn decide(question: &Question, facts: &Facts, policy: &Policy, now: Timestamp) -> Explanation {
    let checks = vec![
        suppression(facts),
        erasure(facts),
        global_unsubscribe(question, facts),
        audience_unsubscribe(question, facts),
        client_unsubscribe(question, facts),
        subscription(question, facts),
        topic(question, facts),
        address(question, facts),
        verification(question, facts),
        frequency_cap(question, facts, policy, now),
        quiet_hours(question, facts, policy, now),
    ];
    let stops = checks.iter().find_map(|checked| match checked.outcome {
        Outcome::Stopped(reason) => Some(Verdict::Skip(reason)),
        Outcome::PutOff { reason, until } => Some(Verdict::Defer { reason, until }),
        Outcome::Passed | Outcome::NotAsked => None,
    });
    Explanation { verdict: stops.unwrap_or(Verdict::Send), checks }
}

fn suppression(facts: &Facts) -> Checked {
    match facts.suppressed {
        Some(reason) => stopped(Check::Suppression, reason, "the address is suppressed"),
        None => passed(Check::Suppression, "the address is not suppressed"),
    }
}

fn erasure(facts: &Facts) -> Checked {
    match facts.erased_at {
        Some(at) => stopped(Check::Erasure, Reason::Erased, format!("erased at {at}")),
        None => passed(Check::Erasure, "not erased"),
    }
}

/// A transactional message of a topic is one that somebody can do without, so it asks.
fn global_unsubscribe(question: &Question, facts: &Facts) -> Checked {
    let check = Check::GlobalUnsubscribe;
    if !question.kind.is_marketing() && question.topic.is_none() {
        return not_asked(check, "such a message goes to those who unsubscribed, too");
    }
    match (facts.unsubscribed_at, facts.unsubscribed_mark) {
        (Some(at), _) => stopped(
            check,
            Reason::GlobalUnsubscribe,
            format!("unsubscribed from everything at {at}"),
        ),
        (None, true) => stopped(
            check,
            Reason::GlobalUnsubscribe,
            "the subscriber's profile says that he unsubscribed from everything",
        ),
        (None, false) => passed(check, "never unsubscribed from everything"),
    }
}

fn audience_unsubscribe(question: &Question, facts: &Facts) -> Checked {
    let check = Check::AudienceUnsubscribe;
    if let Some(why) = no_audience(question) {
        return not_asked(check, why);
    }
    let Some(left) = facts.audience_wide.filter(|whole| whole.status == Status::Unsubscribed)
    else {
        return passed(check, "did not leave the audience");
    };
    // Whoever left the audience and then agreed to one client's part of it is back for that part.
    let back = facts.client_part.filter(|part| part.status == Status::Subscribed);
    let agreed_at = back.and_then(|part| part.agreed_at);
    match (left.unsubscribed_at, agreed_at) {
        (Some(left_at), Some(agreed_at)) if agreed_at > left_at => {
            let fact = format!(
                "left the audience at {left_at}, and agreed to this client's at {agreed_at}"
            );
            passed(check, fact)
        }
        (Some(left_at), _) => {
            stopped(check, Reason::AudienceUnsubscribe, format!("left the audience at {left_at}"))
        }
        (None, _) => stopped(check, Reason::AudienceUnsubscribe, "left the audience"),
    }
}

fn client_unsubscribe(question: &Question, facts: &Facts) -> Checked {
    let check = Check::ClientUnsubscribe;
    if let Some(why) = no_audience(question) {
        return not_asked(check, why);
    }
    match facts.client_part {
        Some(Standing { status: Status::Unsubscribed, unsubscribed_at: Some(at), .. }) => {
            stopped(check, Reason::ClientUnsubscribe, format!("left this client's part at {at}"))
        }
        Some(Standing { status: Status::Unsubscribed, .. }) => {
            stopped(check, Reason::ClientUnsubscribe, "left this client's part of the audience")
        }
        _ => passed(check, "did not leave this client's part of the audience"),
    }
}

fn subscription(question: &Question, facts: &Facts) -> Checked {
    let check = Check::Subscription;
    if let Some(why) = no_audience(question) {
        return not_asked(check, why);
    }
    let has = |status| {
        let either = [facts.client_part, facts.audience_wide];
        either.into_iter().flatten().any(|standing| standing.status == status)
    };
    if has(Status::Subscribed) {
        passed(check, "subscribed to the audience")
    } else if has(Status::Pending) {
        stopped(check, Reason::Unverified, "the subscription waits for its confirmation")
    } else if facts.known {
        stopped(check, Reason::NotSubscribed, "not subscribed to the audience")
    } else {
        stopped(check, Reason::NotSubscribed, "there is no contact with this address")
    }
}

fn topic(question: &Question, facts: &Facts) -> Checked {
    let check = Check::Topic;
    match (question.topic, facts.topic_off) {
        (None, _) => not_asked(check, "the message has no topic"),
        (Some(_), true) => stopped(check, Reason::TopicOff, "the topic is switched off"),
        (Some(_), false) => passed(check, "the topic is on"),
    }
}

fn address(question: &Question, facts: &Facts) -> Checked {
    let check = Check::Address;
    if !question.kind.is_marketing() {
        return not_asked(check, "such a message is tried whatever is thought of the address");
    }
    match facts.invalid {
        true => stopped(check, Reason::InvalidAddress, "the address was found invalid"),
        false => passed(check, "the address was not found invalid"),
    }
}

fn verification(question: &Question, facts: &Facts) -> Checked {
    let check = Check::Verification;
    if let Some(why) = no_audience(question) {
        return not_asked(check, why);
    }
    if !facts.double_opt_in {
        return not_asked(check, "the audience asks for no confirmation");
    }
    let agreed = |standing: Option<Standing>| {
        standing.filter(|it| it.status == Status::Subscribed).is_some_and(|it| it.verified)
    };
    match agreed(facts.client_part) || agreed(facts.audience_wide) || facts.verified {
        true => passed(check, "the subscription or the address is confirmed"),
        false => {
            stopped(check, Reason::Unverified, "neither subscription nor address is confirmed")
        }
    }
}

fn frequency_cap(question: &Question, facts: &Facts, policy: &Policy, now: Timestamp) -> Checked {
    let check = Check::FrequencyCap;
    let cap = match policy.cap {
        _ if !question.kind.is_marketing() => {
            return not_asked(check, "such a message is not counted");
        }
        None => return not_asked(check, "there is no cap"),
        Some(cap) => cap,
    };
    let count = usize::from(cap.count);
    // The newest first: with the last of those that fill the cap, the first leaves the window.
    let until = count.checked_sub(1).and_then(|last| facts.sent.get(last)).map(|at| cap.frees(*at));
    let fact = format!("{} of {count} in {} hours", facts.sent.len().min(count), cap.hours);
    match until {
        Some(until) if until > now => put_off(check, Reason::FrequencyCap, until, fact),
        _ => passed(check, fact),
    }
}

fn quiet_hours(question: &Question, facts: &Facts, policy: &Policy, now: Timestamp) -> Checked {
    let check = Check::QuietHours;
    let quiet = match &policy.quiet {
        _ if !question.kind.is_marketing() => {
            return not_asked(check, "such a message goes at any time");
        }
        None => return not_asked(check, "there are no quiet hours"),
        Some(quiet) => quiet,
    };
    let zone = facts.zone.as_ref().unwrap_or(&quiet.zone);
    let local = now.to_zoned(zone.clone());
    let fact = format!(
        "{} in {}; quiet from {} to {}",
        local.strftime("%H:%M"),
        zone.iana_name().unwrap_or("UTC"),
        quiet.from.strftime("%H:%M"),
        quiet.until.strftime("%H:%M"),
    );
    match quiet.ends(now, zone) {
        Some(until) => put_off(check, Reason::QuietHours, until, fact),
        None => passed(check, fact),
    }
}

/// Why a subscription is not looked at.
fn no_audience(question: &Question) -> Option<&'static str> {
    if !question.kind.is_marketing() {
        return Some("such a message needs no subscription");
    }
    question.audience.is_none().then_some("the message goes to no audience")
}

impl Cap {
    /// The window that counts.
    pub fn since(self, now: Timestamp) -> Timestamp {
        now.saturating_sub(self.window()).unwrap_or(Timestamp::MIN)
    }

    /// From when a message that was sent then does not count any more.
    fn frees(self, sent_at: Timestamp) -> Timestamp {
        sent_at.saturating_add(self.window()).unwrap_or(Timestamp::MAX)
    }

    /// Until when somebody waits who was sent these within the window, the newest first, while so many more are being handed
    /// over to him. `None` if he can have one more.
    pub fn waits(self, sent: &[Timestamp], open: usize, now: Timestamp) -> Option<Timestamp> {
        let count = usize::from(self.count);
        match count.checked_sub(1).and_then(|last| sent.get(last)) {
            Some(at) => Some(self.frees(*at)),
            None if sent.len() + open < count => None,
            None => Some(now.saturating_add(A_WHILE).unwrap_or(now)),
        }
    }

    fn window(self) -> SignedDuration {
        SignedDuration::from_hours(i64::from(self.hours))
    }
}

impl Quiet {
    /// When the quiet hours that it is now are over there. `None` if it is none.
    pub fn ends(&self, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let local = now.to_zoned(zone.clone());
        let time = local.time();
        let is_quiet = if self.from <= self.until {
            self.from <= time && time < self.until
        } else {
            self.from <= time || time < self.until
        };
        if !is_quiet {
            return None;
        }
        let day = if time < self.until { local.date() } else { local.date().tomorrow().ok()? };
        let end = day.to_datetime(self.until).to_zoned(zone.clone()).ok()?.timestamp();
        // A clock that is put back shows the same hour twice: what was the end may be over when it shows it again.
        if end > now { Some(end) } else { now.saturating_add(SignedDuration::from_mins(1)).ok() }
    }
}

fn passed(check: Check, fact: impl Into<String>) -> Checked {
    Checked { check, outcome: Outcome::Passed, fact: fact.into() }
}

fn not_asked(check: Check, fact: impl Into<String>) -> Checked {
    Checked { check, outcome: Outcome::NotAsked, fact: fact.into() }
}

fn stopped(check: Check, reason: Reason, fact: impl Into<String>) -> Checked {
    Checked { check, outcome: Outcome::Stopped(reason), fact: fact.into() }
}

fn put_off(check: Check, reason: Reason, until: Timestamp, fact: impl Into<String>) -> Checked {
    Checked { check, outcome: Outcome::PutOff { reason, until }, fact: fact.into() }
}
