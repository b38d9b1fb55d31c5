//! Contacts: the people of a workspace, known by an address.
//!
//! A contact is a row in `leads` with its identity and its time zone, and the subscriber's items of seed 000. The PROFILE is the truth for the
//! first name, the attributes and the tags; its flags are one of the places that can stand against writing (`Flags`); every tag has an entry in the tag's index, written in the same
//! transaction. Here: making, changing, finding and erasing them. Not here: what they agreed to (`consent`), and whom we
//! must not write to (`suppression`); nothing here clears a flag of either.

mod address;
mod erase;
mod list;
pub(crate) mod many;
mod others;
pub(crate) mod profile;
pub(crate) mod rules;
mod show;
pub(crate) mod store;
#[cfg(test)]
mod tests;
mod user_ids;
mod values;
pub(crate) mod write;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, Txn, Value};
use tidings_sql::DatabaseError;

use crate::suppression::{self, Against};
use store::Known;

pub use address::{Assess, AssessError, Validation, ValidationError, assess};
pub(crate) use erase::erased_at;
pub use erase::{
    ERASED_KEY, Erased, FORWARD_KEY, erase, erase_contact, erased_keys, resume, take_back,
    take_back_erased, was_address_of, was_erased, was_erased_since,
};
pub use list::{After, Filter, ListError, Standing, list};
pub use many::ensure_all;
pub use others::{Other, others};
pub use profile::Profile;
pub use rules::{Change, Edit, TooMuch};
pub use show::{Everything, Execution, Identity, Sent, Subscribed, TopicPreference, get};
pub(crate) use store::MAX_ADDRESSES;
pub use store::{KnownBy, attach, ensure, make, with_person};
pub use user_ids::{MAX_USER_ID, learn_user_id, of_user_id, user_ids};
pub use values::check_name as check_attribute_name;
pub use values::{
    Attributes, ContactId, Fault, FirstName, FirstNameError, MAX_ATTRIBUTES, MAX_ATTRIBUTES_BYTES,
    MAX_TAGS, Tag, TagChange, TagError, Zone, ZoneError,
};
pub use zones::timezone;

#[derive(Debug, Clone, PartialEq)]
pub struct Contact {
    pub id: ContactId,
    pub email: EmailAddress,
    pub first_name: Option<String>,
    pub attributes: BTreeMap<String, Value>,
    pub tags: BTreeSet<String>,
    /// The IANA name of the time zone.
    pub timezone: Option<String>,
    pub unsubscribed: bool,
    pub suppressed: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct Upsert {
    pub email: EmailAddress,
    pub first_name: Option<FirstName>,
    pub attributes: Attributes,
    pub tags: Option<TagChange>,
}

#[derive(Debug, Clone)]
pub struct Update {
    pub email: EmailAddress,
    pub edit: Edit,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Upserted {
    pub contact: Contact,
    /// There was no profile before.
    pub created: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum UpsertError {
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    #[error("the contact could not be saved")]
    Store(#[from] StorageError),
}

#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    #[error("there is no contact with this address")]
    Missing,
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    #[error("the contact could not be saved")]
    Store(#[from] StorageError),
}

impl From<UpsertError> for UpdateError {
    fn from(error: UpsertError) -> Self {
        match error {
            UpsertError::TooMuch(error) => error.into(),
            UpsertError::Store(error) => error.into(),
        }
    }
}

/// Afterwards there is a contact with this address, with what was named and with what it had before. It takes back neither an
/// unsubscription nor a suppression, and whoever is suppressed comes back suppressed.
pub async fn upsert(cx: &Cx, cmd: Upsert) -> Result<Upserted, UpsertError> {
    let first_name = cmd.first_name.map_or(Change::Keep, Change::Set);
    let Upsert { email, attributes, tags, .. } = cmd;
    let edit = Edit { first_name, attributes, tags, ..Edit::default() };
    put(cx, Update { email, edit }).await
}

/// The same with anything that can be edited: whoever is not there yet is made.
pub async fn put(cx: &Cx, cmd: Update) -> Result<Upserted, UpsertError> {
    let person = make_known(cx, &cmd.email).await.map_err(StorageError::from)?;
    write(cx, &cmd, person).await
}

/// Changes what is named of a contact that is there, and nothing else.
pub async fn update(cx: &Cx, cmd: Update) -> Result<Contact, UpdateError> {
    let known = known(cx, &cmd.email).await?.ok_or(UpdateError::Missing)?;
    Ok(write(cx, &cmd, known).await?.contact)
}

/// Changes attributes and tags of a contact, if it is there, in one transaction with something that may happen once only: what
/// is changed with it is changed once, whoever tries again. That somebody was faster with either is an error.
pub async fn update_with(cx: &Cx, cmd: Update, with: Txn) -> Result<(), UpdateError> {
    let Some(known) = known(cx, &cmd.email).await? else {
        let items = cx.items().await?;
        return Ok(items.transact(with).await.map_err(StorageError::from)?);
    };
    write::write_with(cx, &cmd.email, &known, &cmd.edit, with).await?;
    Ok(())
}

async fn known(cx: &Cx, email: &EmailAddress) -> Result<Option<write::Person>, StorageError> {
    let (within, email) = (cx.clone(), email.clone());
    let find = cx.database().write(move |tx| {
        let Some(known) = store::find(tx, &within, &email)? else { return Ok(None) };
        let secret = suppression::memory::Secret::find(tx, &within)?;
        Ok::<_, DatabaseError>(Some(write::Person { known, secret }))
    });
    Ok(find.await?)
}

/// Replaces, adds or removes tags of a contact that is there. Replacing by none clears them.
pub async fn tag(cx: &Cx, email: EmailAddress, change: TagChange) -> Result<Contact, UpdateError> {
    update(cx, Update { email, edit: Edit { tags: Some(change), ..Edit::default() } }).await
}

/// The items first: they can be refused, and then nothing is written.
async fn write(cx: &Cx, cmd: &Update, person: write::Person) -> Result<Upserted, UpsertError> {
    let mut done = write::write(cx, &cmd.email, person, &cmd.edit).await?;
    let zone = match &cmd.edit.timezone {
        Change::Keep => return Ok(done),
        Change::Set(zone) => Some(zone.as_str().to_owned()),
        Change::Clear => None,
    };
    zones::set(cx, &cmd.email, zone.clone()).await.map_err(StorageError::from)?;
    done.contact.timezone = zone;
    Ok(done)
}

async fn make_known(cx: &Cx, email: &EmailAddress) -> Result<write::Person, DatabaseError> {
    let (within, email) = (cx.clone(), email.clone());
    let make = cx.database().write(move |tx| {
        let known = match store::find(tx, &within, &email)? {
            Some(known) => known,
            None => {
                store::ensure(tx, &within, &email)?;
                store::find(tx, &within, &email)?.ok_or(DatabaseError::NoRow)?
            }
        };
        let secret = suppression::memory::Secret::find(tx, &within)?;
        Ok(write::Person { known, secret })
    });
    make.await
}

/// What stands against writing to somebody, wherever it is said: in the profile, in the relation, in the record of the
/// suppression, or in what is remembered of somebody with this address who was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    pub unsubscribed: bool,
    pub suppressed: bool,
}

/// Of whoever has the address, known or not.
pub async fn flags(cx: &Cx, email: &EmailAddress) -> Result<Flags, StorageError> {
    let (within, address) = (cx.clone(), email.clone());
    let read = cx.database().read(move |tx| {
        let known = store::find(tx, &within, &address)?;
        Ok::<_, DatabaseError>((suppression::gate(tx, &within)?, known))
    });
    let (gate, known) = read.await?;
    Ok(Flags::of(known.as_ref(), &gate.look(cx, email).await?))
}

/// Whether somebody has the address.
pub async fn is_known(cx: &Cx, email: &EmailAddress) -> Result<bool, StorageError> {
    let (within, email) = (cx.clone(), email.clone());
    let find = cx.database().glance(move |tx| store::find(tx, &within, &email));
    Ok(find.await?.is_some())
}

impl Flags {
    fn of(known: Option<&Known>, against: &Against) -> Self {
        let left = known.is_some_and(|known| known.unsubscribed_at.is_some());
        Self { unsubscribed: left || against.unsubscribed, suppressed: against.is_suppressed() }
    }
}

impl Contact {
    fn new(email: EmailAddress, known: &Known, profile: &Profile, flags: Flags) -> Self {
        // The identity knows how it was typed first; the profile and the key only how it is compared.
        let email = known.typed.parse().unwrap_or(email);
        let created_at = profile.created_at().unwrap_or(known.created_at);
        Self {
            id: known.id,
            email,
            first_name: profile.first_name().map(ToOwned::to_owned),
            attributes: profile.attributes(),
            tags: profile.tags(),
            timezone: known.timezone.clone(),
            unsubscribed: flags.unsubscribed,
            suppressed: flags.suppressed,
            created_at,
            updated_at: profile.updated_at().unwrap_or(created_at),
        }
    }
}
