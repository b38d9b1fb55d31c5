//! Who may call: workspaces, the applications in them, their keys, and the question that every request asks.
//!
//! Here: `Cx`, which every operation inside a workspace works with; what a workspace, a client and an API key are, how each comes and goes, `authenticate`, the keys that sign what we must recognise (`signing`), and what names that are erased leave behind (`erasure`). Not here: how
//! a key travels (`http-api`), how often it may be used (there too: that is counted on each node), people who log
//! in to the console.

mod access;
pub mod audit;
mod bootstrap;
mod caller;
pub mod clients;
pub mod erasure;
pub mod keys;
mod last_use;
mod names;
mod page;
mod recent;
mod rows;
mod scopes;
pub mod signing;
#[cfg(test)]
mod tests;
mod trouble;
pub mod workspaces;

pub use access::{Access, Cx};
pub use audit::{Actor, Change};
pub use bootstrap::{Bootstrap, BootstrapError, Bootstrapped, bootstrap};
pub use caller::{AuthError, Caller, authenticate, authenticate_again};
pub use names::{DisplayName, NameError, Slug, SlugError};
pub use page::{Limit, LimitError, Page};
pub use recent::KNOWN_WITHIN;
pub use rows::{ClientId, KeyId, WorkspaceId, in_millis};
pub use scopes::{Scope, ScopeError, Scopes};
/// What the store can fail with.
pub use tidings_sql::DatabaseError as StoreError;
pub use trouble::StorageError;
