//! Which of several variants somebody gets: the same in all steps of a sequence, whoever asks, as seed 000 says.

use tidings_access::Slug;
use tidings_kernel::EmailAddress;
use tidings_outreach::lots;

use super::{Mail, Mails};

/// The place of the variant, of so many.
pub fn arm(email: &EmailAddress, sequence: &Slug, count: usize) -> usize {
    let number = lots::number(&format!("{email}:{sequence}"));
    usize::try_from(number % count.max(1) as u64).unwrap_or(0)
}

impl Mails {
    /// The mail that somebody gets, and which variant it is, if it is one.
    pub fn of(&self, email: &EmailAddress, sequence: &Slug) -> (&Mail, Option<usize>) {
        match self {
            Self::One(mail) => (mail, None),
            Self::Variants(mails) => {
                let place = arm(email, sequence, mails.len());
                (&mails[place], Some(place))
            }
        }
    }

    /// All that may be sent.
    pub fn all(&self) -> &[Mail] {
        match self {
            Self::One(mail) => std::slice::from_ref(mail),
            Self::Variants(mails) => mails,
        }
    }
}
