//! What the stores can fail with, relations and items alike.

use tidings_sql::DatabaseError;

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error(transparent)]
    Relations(#[from] DatabaseError),
    #[error(transparent)]
    Items(#[from] tidings_kernel::StoreError),
}

impl StorageError {
    /// The same for somebody else who waited for it.
    pub fn shared(&self) -> Self {
        use tidings_kernel::StoreError as E;
        match self {
            Self::Relations(error) => Self::Relations(error.clone()),
            Self::Items(error) if self.is_passing() => {
                E::Unavailable(error.to_string().into()).into()
            }
            Self::Items(error) => E::Failed(error.to_string().into()).into(),
        }
    }

    /// Whether asking again in a moment may help.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Relations(error) => error.is_passing(),
            Self::Items(error) => {
                use tidings_kernel::StoreError as E;
                matches!(error, E::Unavailable(_) | E::Conflict | E::Uncertain(_))
            }
        }
    }
}
