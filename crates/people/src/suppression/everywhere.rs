//! Suppressing and lifting here and at the provider, who keeps a list of his own. Here it holds whatever he says: he is
//! told as well as it goes.

use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, ProviderSuppressions, SendError, SuppressedFor};
use tidings_sql::{DatabaseError, Param};

use super::{Kind, Lift, LiftError, Suppress, Suppressed, Suppression, lift, suppress};
use crate::contacts::{self, ContactId, Erased};

/// What became of the address on the provider's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtProvider {
    /// It is not on it any more.
    Lifted,
    /// He did not answer, or refused: he may go on refusing mail to the address.
    NotReached,
    /// He has no list that we know of.
    NoList,
}

impl AtProvider {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lifted => "lifted",
            Self::NotReached => "not_reached",
            Self::NoList => "none",
        }
    }
}

/// As [`lift`], and at the provider too. Only what is suppressed here is asked of him: his list is everybody's. He comes
/// first, so that whoever dies in between can do it again; if he cannot be reached, it is lifted here all the same.
pub async fn lift_everywhere(
    cx: &Cx,
    cmd: Lift,
    provider: Option<&dyn ProviderSuppressions>,
) -> Result<(Suppression, AtProvider), LiftError> {
    if !contacts::flags(cx, &cmd.email).await?.suppressed {
        return Err(LiftError::Missing);
    }
    let there = match provider {
        None => AtProvider::NoList,
        Some(provider) => match provider.lift(&cmd.email).await {
            Ok(()) => AtProvider::Lifted,
            Err(error) => {
                not_told(&error);
                AtProvider::NotReached
            }
        },
    };
    Ok((lift(cx, cmd).await?, there))
}

/// As [`suppress`], and at the provider too: what others send through the same account does not go there either.
pub async fn suppress_everywhere(
    cx: &Cx,
    cmd: Suppress,
    provider: Option<&dyn ProviderSuppressions>,
) -> Result<Suppressed, StorageError> {
    let (email, kind) = (cmd.email.clone(), cmd.kind);
    let done = suppress(cx, cmd).await?;
    if let (Some(provider), Suppressed::New(_) | Suppressed::Already(_)) = (provider, &done) {
        let reason = match kind {
            Kind::Complaint => SuppressedFor::Complaint,
            Kind::Permanent | Kind::Transient | Kind::Manual => SuppressedFor::Bounce,
        };
        if let Err(error) = provider.suppress(&email, reason).await {
            not_told(&error);
        }
    }
    Ok(done)
}

/// As [`contacts::erase`], and what is suppressed here goes from the provider's list too, where the address is written out.
/// A keyed hash of it stays here.
pub async fn erase_everywhere(
    cx: &Cx,
    email: &EmailAddress,
    provider: Option<&dyn ProviderSuppressions>,
) -> Result<Erased, StorageError> {
    if let Some(provider) = provider {
        forget_at(cx, provider, addresses(cx, email).await?).await?;
    }
    contacts::erase(cx, email).await
}

/// The same of a contact who may have no address. `None` if there is no such contact.
pub async fn erase_contact_everywhere(
    cx: &Cx,
    contact: ContactId,
    provider: Option<&dyn ProviderSuppressions>,
) -> Result<Option<Erased>, StorageError> {
    if let Some(provider) = provider {
        forget_at(cx, provider, addresses_of(cx, contact).await?).await?;
    }
    contacts::erase_contact(cx, contact).await
}

async fn forget_at(
    cx: &Cx,
    provider: &dyn ProviderSuppressions,
    addresses: Vec<EmailAddress>,
) -> Result<(), StorageError> {
    for address in addresses {
        if contacts::flags(cx, &address).await?.suppressed
            && let Err(error) = provider.lift(&address).await
        {
            not_told(&error);
        }
    }
    Ok(())
}

/// All that whoever has this one can be written to at.
async fn addresses(cx: &Cx, email: &EmailAddress) -> Result<Vec<EmailAddress>, StorageError> {
    let mut addresses = vec![email.clone()];
    if let Some(found) = contacts::get(cx, email).await? {
        let others = found.identities.iter().filter(|one| one.channel == "email");
        let others = others.filter_map(|one| one.value.parse::<EmailAddress>().ok());
        addresses.extend(others.filter(|one| one != email));
    }
    Ok(addresses)
}

async fn addresses_of(cx: &Cx, contact: ContactId) -> Result<Vec<EmailAddress>, StorageError> {
    let workspace = cx.workspace_id().get();
    let find = cx.database().glance(move |tx| {
        let sql = "SELECT value FROM channel_identities
                   WHERE workspace_id = $1 AND lead_id = $2 AND channel = 'email' ORDER BY id LIMIT 100";
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Int(contact.get())])?;
        rows.iter().map(|row| row.parsed(0, "an e-mail address")).collect()
    });
    let found: Result<Vec<EmailAddress>, DatabaseError> = find.await;
    Ok(found?)
}

/// What he said may name the address.
fn not_told(error: &SendError) {
    let kind = std::mem::discriminant(error);
    tracing::warn!(?kind, "The provider's own suppression could not be changed");
}
