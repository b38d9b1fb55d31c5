//! Lifting a suppression here and at the provider, who keeps a list of his own.

use tidings_access::Cx;
use tidings_kernel::ProviderSuppressions;

use super::{Lift, LiftError, Suppression, lift, status};

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
    if status(cx, &cmd.email).await?.suppression.is_none() {
        return Err(LiftError::Missing);
    }
    let there = match provider {
        None => AtProvider::NoList,
        Some(provider) => match provider.lift(&cmd.email).await {
            Ok(()) => AtProvider::Lifted,
            Err(error) => {
                // What he said may name the address.
                let kind = std::mem::discriminant(&error);
                tracing::warn!(?kind, "The provider's own suppression could not be lifted");
                AtProvider::NotReached
            }
        },
    };
    Ok((lift(cx, cmd).await?, there))
}
