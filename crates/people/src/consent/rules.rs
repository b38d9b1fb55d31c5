//! What becomes of a subscription when somebody asks for it: decisions without IO.

use jiff::{SignedDuration, Timestamp};

use super::{By, Status};

/// So long a request can be confirmed.
pub const CONFIRM_WITHIN: SignedDuration = SignedDuration::from_hours(7 * 24);

/// So many mails ask for one confirmation within `SENDS_WITHIN`: a form in which anybody can type any address must
/// not be a way to bury somebody under mail.
pub const MAX_SENDS: usize = 3;
/// And so many ask one person, for all audiences together: else whoever types his address into enough forms floods him.
pub const MAX_SENDS_TO_PERSON: usize = 10;
pub const SENDS_WITHIN: SignedDuration = SignedDuration::from_hours(24);

/// How things stand before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Of the subscription itself; `None` if there is none.
    pub status: Option<Status>,
    /// Whether somebody has shown that he reads this address's mail.
    pub verified: bool,
    /// He has left the whole audience, and this is one client's part of it that he did not agree to since.
    pub left_audience: bool,
    /// He has left everything.
    pub left_everything: bool,
}

/// What is asked for, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub by: By,
    pub has_reason: bool,
    pub double_opt_in: bool,
    /// The caller has the confirmation already.
    pub confirmed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing changes.
    Keep,
    /// A confirmation must come first. Until then everything stays, but that a new subscription is pending.
    Ask,
    /// He is subscribed already, and from now on proven.
    Verify,
    Subscribe {
        /// He was unsubscribed.
        again: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub step: Step,
    /// That he has left everything no longer holds.
    pub return_to_everything: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "this contact has unsubscribed; an operator who subscribes it again must give a reason"
    )]
    NeedsReason,
    #[error("this contact has unsubscribed; only the person or an operator can take that back")]
    NotByImport,
}

pub fn subscribe(standing: Standing, asked: Asked) -> Result<Plan, Refusal> {
    let left = standing.status == Some(Status::Unsubscribed) || standing.left_audience;
    match asked.by {
        // Whoever only repeats what he knows does not know that it was taken back.
        By::Import if left || standing.left_everything => return Ok(Plan::just(Step::Keep)),
        By::Operator if left && !asked.has_reason => return Err(Refusal::NeedsReason),
        By::Import | By::Operator | By::Person => {}
    }
    let subscribed = standing.status == Some(Status::Subscribed) && !left;
    let person = asked.by == By::Person;
    if asked.double_opt_in && !asked.confirmed {
        let settled = subscribed && (standing.verified || !person);
        let comes_back = person && standing.left_everything;
        return Ok(Plan::just(if settled && !comes_back { Step::Keep } else { Step::Ask }));
    }
    let step = match subscribed {
        true if asked.confirmed && !standing.verified => Step::Verify,
        true => Step::Keep,
        false => Step::Subscribe { again: left },
    };
    Ok(Plan { step, return_to_everything: person && standing.left_everything })
}

/// Whether what was taken back may be given again.
pub fn resubscribe(by: By, has_reason: bool) -> Result<(), Refusal> {
    match by {
        By::Person => Ok(()),
        By::Operator if has_reason => Ok(()),
        By::Operator => Err(Refusal::NeedsReason),
        By::Import => Err(Refusal::NotByImport),
    }
}

/// The times of the sends that still count with one more now, or when there may be one again.
pub fn send_another(sends: &[Timestamp], now: Timestamp) -> Result<Vec<Timestamp>, Timestamp> {
    one_more(sends, MAX_SENDS, now)
}

/// The same for everything that a person was asked.
pub fn ask_again(sends: &[Timestamp], now: Timestamp) -> Result<(), Timestamp> {
    one_more(sends, MAX_SENDS_TO_PERSON, now).map(drop)
}

fn one_more(sends: &[Timestamp], most: usize, now: Timestamp) -> Result<Vec<Timestamp>, Timestamp> {
    let counts = |at: &&Timestamp| now.duration_since(**at) < SENDS_WITHIN;
    let mut recent: Vec<Timestamp> = sends.iter().filter(counts).copied().collect();
    recent.sort_unstable();
    if recent.len() >= most {
        let first = recent[recent.len() - most];
        return Err(first.saturating_add(SENDS_WITHIN).unwrap_or(Timestamp::MAX));
    }
    recent.push(now);
    Ok(recent)
}

impl Plan {
    fn just(step: Step) -> Self {
        Self { step, return_to_everything: false }
    }
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, ToSpan as _};

    use super::{Asked, Plan, Refusal, Standing, Step, send_another, subscribe};
    use crate::consent::{By, Status};

    /// Words for what stands: `pending`, `subscribed`, `unsubscribed`, `verified`, `-audience`, `-everything`. Words for
    /// what is asked: `person`, `operator`, `import`, `reason`, `double`, `confirmed`.
    fn check(stands: &str, asked: &str, expected: Result<Plan, Refusal>) {
        let has = |text: &str, word: &str| text.split(' ').any(|found| found == word);
        let standing = Standing {
            status: stands.split(' ').find_map(|word| word.parse::<Status>().ok()),
            verified: has(stands, "verified"),
            left_audience: has(stands, "-audience"),
            left_everything: has(stands, "-everything"),
        };
        let question = Asked {
            by: asked.split(' ').find_map(|word| word.parse::<By>().ok()).unwrap(),
            has_reason: has(asked, "reason"),
            double_opt_in: has(asked, "double"),
            confirmed: has(asked, "confirmed"),
        };
        assert_eq!(subscribe(standing, question), expected, "{stands:?} + {asked:?}");
    }

    fn just(step: Step) -> Result<Plan, Refusal> {
        Ok(Plan { step, return_to_everything: false })
    }

    fn and_return(step: Step) -> Result<Plan, Refusal> {
        Ok(Plan { step, return_to_everything: true })
    }

    const NEW: Step = Step::Subscribe { again: false };
    const AGAIN: Step = Step::Subscribe { again: true };

    #[test]
    fn without_double_opt_in_whoever_never_left_is_subscribed_once() {
        for by in ["person", "operator", "import"] {
            check("", by, just(NEW));
            check("pending", by, just(NEW));
            check("subscribed", by, just(Step::Keep));
            check("subscribed", &format!("{by} confirmed"), just(Step::Verify));
            check("subscribed verified", &format!("{by} confirmed"), just(Step::Keep));
        }
    }

    #[test]
    fn with_double_opt_in_a_confirmation_comes_first() {
        for by in ["person", "operator", "import"] {
            check("", &format!("{by} double"), just(Step::Ask));
            check("pending", &format!("{by} double"), just(Step::Ask));
            check("pending", &format!("{by} double confirmed"), just(NEW));
            check("", &format!("{by} double confirmed"), just(NEW));
            check("subscribed verified", &format!("{by} double"), just(Step::Keep));
        }
        check("subscribed", "person double", just(Step::Ask));
        check("subscribed", "import double", just(Step::Keep));
    }

    #[test]
    fn an_import_never_weakens_what_was_taken_back() {
        for asked in ["import", "import confirmed", "import double confirmed", "import reason"] {
            check("unsubscribed", asked, just(Step::Keep));
            check("subscribed -audience", asked, just(Step::Keep));
            check("-audience", asked, just(Step::Keep));
            check("-everything", asked, just(Step::Keep));
            check("subscribed -everything", asked, just(Step::Keep));
        }
    }

    #[test]
    fn an_operator_says_why_and_does_not_give_everything_back() {
        check("unsubscribed", "operator", Err(Refusal::NeedsReason));
        check("unsubscribed", "operator reason", just(AGAIN));
        check("unsubscribed", "operator reason double", just(Step::Ask));
        check("-audience", "operator", Err(Refusal::NeedsReason));
        check("-everything", "operator", just(NEW));
    }

    #[test]
    fn the_person_comes_back_by_himself() {
        check("unsubscribed", "person", just(AGAIN));
        check("subscribed -audience", "person", just(AGAIN));
        check("unsubscribed", "person double", just(Step::Ask));
        check("unsubscribed -everything", "person", and_return(AGAIN));
        check("subscribed -everything", "person", and_return(Step::Keep));
        check("subscribed verified -everything", "person double", just(Step::Ask));
        check("-everything", "person double", just(Step::Ask));
        check("-everything", "person double confirmed", and_return(NEW));
    }

    #[test]
    fn three_mails_a_day_ask_for_a_confirmation() {
        let noon: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
        let at = |hours: i64| noon + hours.hours();
        assert_eq!(send_another(&[], at(0)), Ok(vec![at(0)]));
        assert_eq!(send_another(&[at(0), at(1)], at(2)), Ok(vec![at(0), at(1), at(2)]));
        assert_eq!(send_another(&[at(0), at(1), at(2)], at(23)), Err(at(24)));
        assert_eq!(send_another(&[at(0), at(1), at(2)], at(24)), Ok(vec![at(1), at(2), at(24)]));
        assert_eq!(send_another(&[at(1), at(2), at(24)], at(24)), Err(at(25)));
    }
}
