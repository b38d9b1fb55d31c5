//! Taking from somebody what he is not known by after all: a shared telephone, an id that was given to another.
//!
//! What happened by it stays on his timeline, and what is told with it from now on is about whomever it finds or makes. An address
//! stays, because whoever has it has what is kept under it: the profile, what he agreed to and left, what was sent. Not here:
//! taking apart two who were merged (`merge`).

use serde_json::json;
use tidings_access::{Change, Cx, StorageError};
use tidings_people::contacts::ContactId;
use tidings_sql::DatabaseError;

use super::channel::{Channel, Identity};
use super::view::{Whom, find_in};
use super::{Holder, store};

#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    #[error("there is no such contact")]
    Missing,
    #[error(
        "an address stays: profile, consent and sent mail are kept under it; undo the merge that it came with, or erase the contact"
    )]
    Address,
    #[error("contact {0} is known by nothing else; erase it if it is to go")]
    Last(ContactId),
    #[error("the identity could not be detached")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for DetachError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

/// Afterwards the contact is not known by this. `false` if he was not before, whoever else is.
pub async fn detach(cx: &Cx, whom: Whom, identity: Identity) -> Result<bool, DetachError> {
    let within = cx.clone();
    let detach = cx.database().write(move |tx| {
        let owner = find_in(tx, &within, &whom)?.ok_or(DetachError::Missing)?;
        let holder = store::holder(tx, &within, &identity)?;
        let Some(Holder { home, since, .. }) =
            holder.filter(|holder| holder.lead == owner.lead_id.get())
        else {
            return Ok(false);
        };
        if *identity.channel() == Channel::Email {
            return Err(DetachError::Address);
        }
        // Whoever is merged into somebody may be taken apart, and must then be known by something.
        if store::is_last_at_home(tx, &within, &identity, home)? {
            return Err(DetachError::Last(home.into()));
        }
        let row = store::remove(tx, &within, &identity)?;
        let channel = identity.channel().to_string();
        let was = json!({ "channel": channel, "identity": row, "from": home, "since": since });
        let entry = Change::new("contact.detach", "contact", owner.lead_id).before(was);
        within.record_change(tx, &entry)?;
        Ok(true)
    });
    detach.await
}
