//! How somebody stands with an audience: what he said to all of it, and to the part of the client who writes. Pure but for
//! the row that it is read from.

use jiff::Timestamp;
use tidings_people::consent::Status;
use tidings_sql::{DatabaseError, Row};

/// What he said, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) whole: Option<Said>,
    pub(super) part: Option<Said>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) status: Status,
    pub(super) agreed_at: Option<Timestamp>,
    pub(super) unsubscribed_at: Option<Timestamp>,
}

impl Standing {
    /// Adds a row of `AUDIENCES`.
    pub(super) fn add(&mut self, row: &Row) -> Result<(), DatabaseError> {
        let said = Said {
            status: row.parsed(3, "the status of a subscription")?,
            agreed_at: row.optional_time(4)?,
            unsubscribed_at: row.optional_time(5)?,
        };
        match row.optional_int(2)? {
            Some(_) => self.part = Some(said),
            None => self.whole = Some(said),
        }
        Ok(())
    }

    /// Whether he has agreed to anything of it, whatever he said since.
    pub(super) fn has_agreed(&self) -> bool {
        [self.whole, self.part].into_iter().flatten().any(|said| said.status == Status::Subscribed)
    }

    /// Whether he is subscribed, as the gate sees it: whoever left a part of it has left that, and whoever left all of it is
    /// back only for a part that he agreed to since.
    pub(super) fn is_subscribed(&self) -> bool {
        let is = |said: Option<Said>, status| said.is_some_and(|said| said.status == status);
        if is(self.part, Status::Unsubscribed) {
            return false;
        }
        if is(self.whole, Status::Unsubscribed) {
            let left_at = self.whole.and_then(|said| said.unsubscribed_at);
            let agreed = self.part.filter(|said| said.status == Status::Subscribed);
            let agreed_at = agreed.and_then(|said| said.agreed_at);
            return left_at.zip(agreed_at).is_some_and(|(left, agreed)| agreed > left);
        }
        self.has_agreed()
    }
}
